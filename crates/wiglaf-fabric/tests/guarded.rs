//! Reads the provider's sources: each function that C calls begins with a guard, so that no panic
//! crosses the border, where it would abort the rank.

use std::fs;
use std::path::{Path, PathBuf};

/// Functions that cannot panic, with what they do.
const PLAIN: [(&str, &str); 6] = [
    ("front.rs", "VERSION"),
    ("front/symbols.rs", "std::ptr::null()"),
    ("front/symbols.rs", "-(fi::FI_ENOSYS as isize) as *const c_void"),
    ("front/symbols.rs", "c\"\".as_ptr().cast()"),
    ("front/symbols.rs", "std::arch::naked_asm!("),
    ("prov.rs", ""),
];

/// What a body may begin with: a guard, plain values that a guarded call takes, or a function of the
/// same file that is checked here by [`HELPERS`].
const BEGINNINGS: [&str; 8] = [
    "guard(",
    "guard_or(",
    "guard_data(",
    "guard_count(",
    "$crate::guard::guard_or(",
    "let mut inserted = 0; let code = guard(",
    "let code = guard(",
    "let call = Call {",
];

/// Functions that other entries end in, by file; they begin with a guard themselves.
const HELPERS: [(&str, &str); 5] = [
    ("av_set.rs", "change"),
    ("cntr.rs", "value"),
    ("cntr.rs", "change"),
    ("cq.rs", "readfrom"),
    ("cq.rs", "sreadfrom"),
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let below = folders.iter().flat_map(|folder| sources(folder));
    files
        .into_iter()
        .filter(|file| file.extension().is_some_and(|e| e == "rs"))
        .chain(below)
        .collect()
}

/// The text between the bracket that opens it and the one that closes it; without what follows.
fn within(text: &str, open: char, close: char) -> Option<&str> {
    let begin = text.find(open)?;
    let mut depth = 0;
    for (at, character) in text.char_indices().skip_while(|(at, _)| *at < begin) {
        depth += i32::from(character == open) - i32::from(character == close);
        if depth == 0 {
            return Some(&text[begin + open.len_utf8()..at]);
        }
    }
    None
}

/// The bodies of functions that stand behind `mark`, in one line each.
fn bodies<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = String> + 'a {
    text.match_indices(mark).filter_map(move |(at, _)| {
        let rest = &text[at + mark.len()..];
        let arguments = within(rest, '(', ')')?;
        let behind = &rest[rest.find('(')? + arguments.len() + 2..];
        // Not a type, nor a declaration.
        let brace = behind.find('{')?;
        if behind[..brace].contains([';', ',', ')', '=']) {
            return None;
        }
        let body = within(behind, '{', '}')?.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(body.strip_prefix("unsafe { ").map_or(body.clone(), str::to_owned))
    })
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_function_that_c_calls_begins_with_a_guard() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut count, mut found) = (0, Vec::new());
    for path in sources(&folder) {
        let file = path.strip_prefix(&folder).unwrap().to_str().unwrap();
        if file == "bindings.rs" || file.ends_with("tests.rs") {
            continue;
        }
        let text = without_comments(&fs::read_to_string(&path).unwrap());
        let helpers: Vec<&str> =
            HELPERS.iter().filter(|(of, _)| *of == file).map(|(_, name)| *name).collect();
        for name in &helpers {
            let mark = format!("unsafe fn {name}");
            let c = format!("extern \"C\" fn {name}");
            let mut all = bodies(&text, &mark).chain(bodies(&text, &c));
            assert!(all.all(|body| body.starts_with("guard")), "{file}: {name} has no guard");
        }
        for body in bodies(&text, "extern \"C\" fn ") {
            count += 1;
            let is_plain = |(of, begins): &(&str, &str)| {
                *of == file
                    && if begins.is_empty() { body.is_empty() } else { body.starts_with(begins) }
            };
            let is_guarded = BEGINNINGS.iter().any(|begin| body.starts_with(begin))
                || helpers.iter().any(|name| body.starts_with(&format!("{name}(")))
                || PLAIN.iter().any(is_plain);
            if !is_guarded {
                found.push(format!("{file}: {}", body.chars().take(90).collect::<String>()));
            }
        }
    }
    assert!(count > 100, "{count} functions were found");
    assert!(found.is_empty(), "begin with no guard: {found:#?}");
}
