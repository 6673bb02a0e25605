//! What no compiler checks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Longest file, in lines before its tests.
const FILE_LINES_MAX: usize = 2000;
/// In so many files at most lies what one type can do, traits aside: it shows where a type is many.
const IMPL_FILES_MAX: usize = 3;
/// By crate and type, what a rule does not hold for, and why.
type Exceptions = &'static [(&'static str, &'static str, &'static str)];
/// Types that lie in more.
const SPREAD: Exceptions = &[(
    "wiglaf-bench",
    "Pen",
    "it has no state to keep: each kind of picture says how it is drawn",
)];
/// So many fields of a struct at most may be seen outside of the module that keeps its invariant, but not outside of
/// its crate.
const SHARED_FIELDS_MAX: usize = 12;
/// Structs with more.
const SHARED: Exceptions = &[
    ("wiglaf-join", "Facts", "what a host said, line by line: any values go together"),
    ("wiglaf-join", "Apply", "a request as it travels: any values go together"),
    ("wiglaf-join", "Manifest", "a file as it is written: any values go together"),
    ("wiglaf-batch", "Facts", "what a host said, line by line: any values go together"),
];
/// Crates that hold no unsafe code.
const SAFE: &[&str] = &[
    "wiglaf-wire",
    "wiglaf-transport",
    "wiglaf-link",
    "wiglaf-sim",
    "wiglaf-bench",
    "wiglaf-links",
    "wiglaf-counters",
    "wiglaf-testnet",
    "wiglaf-testhosts",
    "wiglaf-check",
    "wiglaf-compare",
    "wiglaf-cli",
    "wiglaf-mpi",
    "wiglaf-cluster",
    "wiglaf-join",
    "wiglaf-batch",
    "wiglaf-monitor",
    "wiglaf-image",
    "wiglaf-web",
    "wiglaf-netlink",
    "xtask",
];
/// Crates none of whose modules uses itself by way of others.
const LAYERED: &[&str] = &[
    "wiglaf-base",
    "wiglaf-node",
    "wiglaf-transport",
    "wiglaf-mpi",
    "wiglaf-cluster",
    "wiglaf-emulation",
    "wiglaf-doctor",
    "wiglaf-join",
    "wiglaf-batch",
    "wiglaf-endpoint",
    "wiglaf-cli",
    "wiglaf-bench",
    "wiglaf-check",
    "wiglaf-image",
    "wiglaf-power",
    "wiglaf-web",
    "wiglaf-helper",
    "wiglaf-links",
];
/// Which crates of ours a crate may name.
const ARROWS: &[(&str, &[&str])] = &[
    ("wiglaf-crc", &[]),
    ("wiglaf-wire", &["wiglaf-crc"]),
    ("wiglaf-transport", &["wiglaf-wire"]),
    ("wiglaf-link", &["wiglaf-wire"]),
    ("wiglaf-link-udp", &["wiglaf-link"]),
    ("wiglaf-link-packet", &["wiglaf-bpf", "wiglaf-interpose", "wiglaf-link", "wiglaf-link-udp"]),
    ("wiglaf-link-shm", &["wiglaf-link"]),
    ("wiglaf-bpf", &[]),
    ("wiglaf-link-xdp", &["wiglaf-bpf", "wiglaf-link", "wiglaf-link-udp"]),
    ("wiglaf-sim", &["wiglaf-endpoint", "wiglaf-transport", "wiglaf-wire"]),
    ("wiglaf-endpoint", &["wiglaf-link", "wiglaf-transport", "wiglaf-wire"]),
    (
        "wiglaf-links",
        &[
            "wiglaf-counters",
            "wiglaf-endpoint",
            "wiglaf-helper",
            "wiglaf-link",
            "wiglaf-link-packet",
            "wiglaf-link-shm",
            "wiglaf-link-udp",
            "wiglaf-link-xdp",
        ],
    ),
    ("wiglaf-am", &["wiglaf-endpoint", "wiglaf-links"]),
    ("wiglaf-counters", &[]),
    (
        "wiglaf-files",
        &["wiglaf-base", "wiglaf-cluster", "wiglaf-endpoint", "wiglaf-links", "wiglaf-node"],
    ),
    ("wiglaf-mount", &["wiglaf-files", "wiglaf-node"]),
    ("wiglaf-door", &[]),
    ("wiglaf-helper", &["wiglaf-door", "wiglaf-link-packet", "wiglaf-link-udp", "wiglaf-netlink"]),
    ("wiglaf-netlink", &[]),
    ("wiglaf-testnet", &[]),
    ("wiglaf-testhosts", &[]),
    ("wiglaf-hostile", &["wiglaf-wire"]),
    ("wiglaf-interpose", &[]),
    ("wiglaf-logical", &["wiglaf-interpose"]),
    ("wiglaf-profile", &["wiglaf-interpose"]),
    ("wiglaf-profile-mpi4", &["wiglaf-interpose"]),
    ("wiglaf-multicast-mpi4", &["wiglaf-interpose"]),
    (
        "wiglaf-multicast",
        &[
            "wiglaf-endpoint",
            "wiglaf-interpose",
            "wiglaf-link",
            "wiglaf-link-udp",
            "wiglaf-links",
            "wiglaf-wire",
        ],
    ),
    (
        "wiglaf-fuzz",
        &[
            "wiglaf-base",
            "wiglaf-cluster",
            "wiglaf-counters",
            "wiglaf-door",
            "wiglaf-emulation",
            "wiglaf-endpoint",
            "wiglaf-files",
            "wiglaf-helper",
            "wiglaf-link",
            "wiglaf-links",
            "wiglaf-mpi",
            "wiglaf-node",
            "wiglaf-transport",
            "wiglaf-wire",
        ],
    ),
    ("wiglaf-base", &[]),
    ("wiglaf-node", &["wiglaf-base", "wiglaf-door", "wiglaf-netlink"]),
    (
        "wiglaf-power",
        &[
            "wiglaf-base",
            "wiglaf-cluster",
            "wiglaf-helper",
            "wiglaf-link-packet",
            "wiglaf-link-udp",
            "wiglaf-node",
        ],
    ),
    ("wiglaf-monitor", &["wiglaf-base", "wiglaf-cluster", "wiglaf-counters", "wiglaf-join"]),
    ("wiglaf-image", &["wiglaf-base", "wiglaf-cluster", "wiglaf-join"]),
    ("wiglaf-web", &["wiglaf-base"]),
    ("wiglaf-mpi", &["wiglaf-base", "wiglaf-link"]),
    ("wiglaf-cluster", &["wiglaf-base", "wiglaf-link", "wiglaf-mpi", "wiglaf-node"]),
    (
        "wiglaf-emulation",
        &["wiglaf-base", "wiglaf-bpf", "wiglaf-cluster", "wiglaf-mpi", "wiglaf-node"],
    ),
    ("wiglaf-doctor", &["wiglaf-base", "wiglaf-bpf", "wiglaf-mpi"]),
    ("wiglaf-join", &["wiglaf-base", "wiglaf-cluster", "wiglaf-node"]),
    (
        "wiglaf-batch",
        &["wiglaf-base", "wiglaf-cluster", "wiglaf-helper", "wiglaf-join", "wiglaf-node"],
    ),
    ("wiglaf-bench", &["wiglaf-base"]),
    ("wiglaf-compare", &["wiglaf-base"]),
    (
        "wiglaf-check",
        &["wiglaf-endpoint", "wiglaf-helper", "wiglaf-link-udp", "wiglaf-links", "wiglaf-netlink"],
    ),
];
/// Nothing depends on these.
const FINAL: &[&str] = &[
    "wiglaf-cli",
    "wiglaf-fabric",
    "wiglaf-fuzz",
    "wiglaf-logical",
    "wiglaf-multicast",
    "wiglaf-multicast-mpi4",
    "wiglaf-profile",
    "wiglaf-profile-mpi4",
    "xtask",
];
/// The documents with numbered rules, and the letter of their rules.
const PROTOCOLS: [(&str, char); 2] = [("docs/protocol.md", 'R'), ("docs/files-protocol.md", 'F')];
/// What would make the transport impure.
const IMPURE: &[&str] = &[
    "std::time::Instant",
    "SystemTime",
    "std::net::UdpSocket",
    "std::thread",
    "std::fs",
    "std::env",
];

/// Runs all checks and reports all that is wrong.
pub(crate) fn run() -> Result<(), String> {
    eprintln!("== tidy");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    let mut wrong = Vec::new();
    let sources = sources(root);
    lengths(&sources, &mut wrong);
    types(&sources, [SPREAD, SHARED], &mut wrong);
    comments(&sources, &mut wrong);
    unsafe_code(root, &mut wrong);
    arrows(root, &mut wrong);
    for name in LAYERED {
        cycles(name, &sources, &mut wrong);
    }
    purity(&sources, &mut wrong);
    protocols(root, &sources, &mut wrong);
    promises(root, &sources, &mut wrong);
    for what in &wrong {
        eprintln!("tidy: {what}");
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{} things are untidy", wrong.len())) }
}

/// All Rust files with their text, by path below the root.
fn sources(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.join("crates"), root.join("xtask")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs")
                && let Ok(text) = fs::read_to_string(&path)
            {
                files.insert(path.strip_prefix(root).unwrap_or(&path).to_owned(), text);
            }
        }
    }
    files
}

/// The crate of a source that is neither a test nor generated.
fn crate_of(path: &Path) -> Option<&str> {
    let is_test = path.components().any(|c| c.as_os_str() == "tests");
    if is_test || path.ends_with("bindings.rs") || path.ends_with("tests.rs") {
        return None;
    }
    path.iter().find(|part| *part != "crates")?.to_str()
}

/// The lines of a source before its tests.
fn lines_before_tests(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| *line != "#[cfg(test)]")
}

fn lengths(sources: &BTreeMap<PathBuf, String>, wrong: &mut Vec<String>) {
    for (path, text) in sources.iter().filter(|(path, _)| crate_of(path).is_some()) {
        let lines = lines_before_tests(text).count();
        if lines > FILE_LINES_MAX {
            wrong.push(format!("{} has {lines} lines: cut it at a seam", path.display()));
        }
    }
}

/// A type lies in few files, and its state is not everybody's, but for the exceptions of either rule, which are needed.
fn types(
    sources: &BTreeMap<PathBuf, String>,
    exceptions: [Exceptions; 2],
    wrong: &mut Vec<String>,
) {
    let [mut many, mut open] = [BTreeMap::new(), BTreeMap::new()];
    // By crate and name: files that define a type of that name, and files with what it can do.
    let mut files: BTreeMap<(&str, &str), [BTreeSet<&Path>; 2]> = BTreeMap::new();
    for (path, text) in sources {
        let Some(of) = crate_of(path) else { continue };
        let mut shared: Option<(&str, usize)> = None;
        for line in lines_before_tests(text) {
            if let Some(name) = defined(line) {
                files.entry((of, name)).or_default()[0].insert(path);
                shared = Some((name, 0));
            } else if let Some(name) = implemented(line) {
                files.entry((of, name)).or_default()[1].insert(path);
            } else if line.trim_start().starts_with("pub(")
                && line.split_once(") ").is_some_and(|(_, field)| is_field(field))
                && let Some((_, count)) = &mut shared
            {
                *count += 1;
            } else if line.trim() == "}"
                && let Some((name, count)) = shared.take()
                && count > SHARED_FIELDS_MAX
            {
                let what = "keep those that belong together in a type";
                let said =
                    format!("{}: {count} fields of {name} are its crate's: {what}", path.display());
                open.insert((of, name), said);
            }
        }
    }
    for ((of, name), [defining, implementing]) in files {
        // Where several files define a type of that name, each has its own.
        let others = implementing.difference(&defining).count();
        let count = others + usize::from(others < implementing.len());
        if count > IMPL_FILES_MAX && !defining.is_empty() {
            let said = format!("{of}: what {name} can do lies in {count} files: it is many types");
            many.insert((of, name), said);
        }
    }
    for (mut found, excepted) in [many, open].into_iter().zip(exceptions) {
        for (of, name, why) in excepted {
            if found.remove(&(*of, *name)).is_none() {
                wrong.push(format!(
                    "{of}: {name} is excepted, because {why}, and needs it no more: take it out"
                ));
            }
        }
        wrong.extend(found.into_values());
    }
}

/// The type that a line begins to define.
fn defined(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    ["struct ", "enum ", "union "].iter().find_map(|kind| line.strip_prefix(kind)).map(word)
}

/// The type that an `impl` at the left margin is of, if it is of no trait.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("unsafe ").unwrap_or(line).strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(generics) => {
            let (mut depth, mut before) = (1, ' ');
            let end = generics.find(|c: char| {
                let closes = std::mem::replace(&mut before, c) != '-' && c == '>';
                depth += i32::from(c == '<') - i32::from(closes);
                depth == 0
            });
            &generics[end? + 1..]
        }
        None => rest,
    };
    let path = rest.strip_prefix(' ')?.split(['<', ' ']).next()?;
    let name = word(path.rsplit("::").next()?);
    (!rest.contains(" for ") && !name.is_empty()).then_some(name)
}

/// Whether what stands behind a visibility is a field with a name.
fn is_field(text: &str) -> bool {
    text[word(text).len()..].starts_with(": ")
}

/// The name that a text begins with.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// Each comment says by itself what its item is or does, and does not point to the item above.
fn comments(sources: &BTreeMap<PathBuf, String>, wrong: &mut Vec<String>) {
    for (path, text) in sources {
        for (number, line) in (1..).zip(text.lines()) {
            let comment = line.trim_start().strip_prefix("//").unwrap_or_default();
            let words = comment.strip_prefix(['/', '!']).unwrap_or(comment).trim_start();
            if words.starts_with("The same") {
                let place = format!("{}:{number}", path.display());
                wrong.push(format!("{place}: a comment begins with `The same`: say what it means"));
            }
        }
    }
}

fn unsafe_code(root: &Path, wrong: &mut Vec<String>) {
    for name in SAFE {
        let folder =
            if *name == "xtask" { root.join(name) } else { root.join("crates").join(name) };
        let main = ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file));
        let text: String = main.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
        if !text.contains("#![forbid(unsafe_code)]") {
            wrong.push(format!("{name} does not forbid unsafe code"));
        }
    }
}

/// The crates of ours that a crate's `[dependencies]` name.
fn dependencies(root: &Path, name: &str) -> Vec<String> {
    let manifest = root.join("crates").join(name).join("Cargo.toml");
    let text = fs::read_to_string(manifest).unwrap_or_default();
    let section = text.split("\n[").find(|part| part.starts_with("dependencies]"));
    let lines = section.unwrap_or_default().lines();
    lines
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|dependency| dependency.starts_with("wiglaf-"))
        .map(str::to_owned)
        .collect()
}

fn arrows(root: &Path, wrong: &mut Vec<String>) {
    for (name, allowed) in ARROWS {
        for dependency in dependencies(root, name) {
            if !allowed.contains(&dependency.as_str()) {
                wrong.push(format!("{name} must not depend on {dependency}"));
            }
        }
    }
    for entry in fs::read_dir(root.join("crates")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !FINAL.contains(&name.as_str()) && ARROWS.iter().all(|(known, _)| *known != name) {
            wrong.push(format!("tidy knows no arrows of {name}: say what it may depend on"));
        }
        for dependency in dependencies(root, &name) {
            if FINAL.contains(&dependency.as_str()) {
                wrong.push(format!("{name} depends on {dependency}, which is a final artifact"));
            }
        }
    }
}

/// No module at the top of that crate uses itself by way of others. What lies at the crate's root belongs to
/// no module.
fn cycles(name: &str, sources: &BTreeMap<PathBuf, String>, wrong: &mut Vec<String>) {
    let folder = Path::new("crates").join(name).join("src");
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in sources {
        let Ok(path) = path.strip_prefix(&folder) else { continue };
        let is_at_top = path.iter().count() == 1;
        let module = path.iter().next().and_then(|first| Path::new(first).file_stem());
        let module = module.unwrap_or_default().to_string_lossy().into_owned();
        let is_test = path.iter().any(|part| part == "tests") || path.ends_with("tests.rs");
        if !is_test && !["lib", "main"].contains(&module.as_str()) {
            uses.entry(module).or_default().extend(used_modules(text, is_at_top));
        }
    }
    let reached = |from: &String| {
        let (mut seen, mut ahead) = (BTreeSet::new(), vec![from]);
        while let Some(module) = ahead.pop() {
            let next = uses.get(module).into_iter().flatten().filter(|next| *next != module);
            ahead.extend(next.filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    let own = uses.keys().filter(|module| reached(module).contains(*module));
    let own: Vec<&str> = own.map(String::as_str).collect();
    if !own.is_empty() {
        wrong.push(format!("{name} has modules that use themselves by way of others: {own:?}"));
    }
}

/// What a source names behind `crate::`, or behind `super::` where that is the same, tests aside.
fn used_modules(text: &str, is_at_top: bool) -> BTreeSet<String> {
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
    let code = lines.filter(|line| !line.trim_start().starts_with("//"));
    let code: String = code.flat_map(|line| [line, "\n"]).collect();
    let roots = if is_at_top { &["crate::", "super::"][..] } else { &["crate::"] };
    let mut names = BTreeSet::new();
    for behind in roots.iter().flat_map(|root| code.split(root).skip(1)) {
        let list = behind.strip_prefix('{').map_or(behind, inside);
        let mut depth = 0;
        let items = list.split(|c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        });
        for item in items.take(if behind.starts_with('{') { usize::MAX } else { 1 }) {
            let word = item.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next();
            names.extend(word.filter(|word| !word.is_empty()).map(str::to_owned));
        }
    }
    names
}

/// Up to the brace that closes what began before.
fn inside(text: &str) -> &str {
    let mut depth = 1;
    let end = text.find(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0
    });
    &text[..end.unwrap_or(text.len())]
}

fn purity(sources: &BTreeMap<PathBuf, String>, wrong: &mut Vec<String>) {
    for (path, text) in sources {
        if path.starts_with("crates/wiglaf-transport/src") {
            for name in IMPURE.iter().filter(|name| text.contains(**name)) {
                wrong.push(format!("{} names {name}: the transport is pure", path.display()));
            }
        }
    }
}

/// Every quotation of a protocol stands in its document, and the documents'
/// tables lead from each rule to code that quotes it and to a test that exists.
fn protocols(root: &Path, sources: &BTreeMap<PathBuf, String>, wrong: &mut Vec<String>) {
    let documents =
        PROTOCOLS.map(|(file, _)| fs::read_to_string(root.join(file)).unwrap_or_default());
    for (path, text) in sources {
        for quote in text.lines().filter_map(|line| line.trim().strip_prefix("//# ")) {
            if !path.starts_with("xtask") && !documents.iter().any(|text| text.contains(quote)) {
                wrong.push(format!("{} quotes what no rule says: {quote}", path.display()));
            }
        }
    }
    for ((name, letter), document) in PROTOCOLS.iter().zip(&documents) {
        protocol(name, *letter, document, sources, wrong);
    }
}

fn protocol(
    name: &str,
    letter: char,
    document: &str,
    sources: &BTreeMap<PathBuf, String>,
    wrong: &mut Vec<String>,
) {
    let rules: BTreeMap<&str, &str> = document
        .lines()
        .filter_map(|line| line.strip_prefix("**")?.strip_prefix(letter))
        .filter_map(|line| line.split_once("** "))
        .collect();
    let rows = document.lines().filter_map(|line| line.strip_prefix("| ")?.strip_prefix(letter));
    let rows: BTreeMap<&str, Vec<&str>> = rows
        .filter_map(|line| line.split_once(" | "))
        .map(|(rule, rest)| (rule, rest.trim_end_matches(" |").split(" | ").collect()))
        .collect();
    for (rule, sentence) in &rules {
        let Some([file, test]) = rows.get(rule).map(Vec::as_slice) else {
            wrong.push(format!("{name}: {letter}{rule} has no row in the table of rules"));
            continue;
        };
        let code = sources.get(Path::new(file));
        if !code.is_some_and(|text| text.contains(&format!("//# {sentence}"))) {
            wrong.push(format!("{file} does not quote {letter}{rule}: {sentence}"));
        }
        if let Some(why) = untested(test, false, sources) {
            wrong.push(format!("{name}: {letter}{rule} names {test}, which is {why}"));
        }
    }
}

/// Every promise has a number of its own and names tests that exist, or says why it has none.
fn promises(root: &Path, sources: &BTreeMap<PathBuf, String>, wrong: &mut Vec<String>) {
    let document = fs::read_to_string(root.join("SPECIFICATION.md")).unwrap_or_default();
    check_promises(&document, sources, wrong);
}

fn check_promises(document: &str, sources: &BTreeMap<PathBuf, String>, wrong: &mut Vec<String>) {
    let rows = document.lines().filter_map(|line| line.strip_prefix("| S"));
    let mut count = 0;
    for row in rows {
        count += 1;
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        let [number, _promise, tests] = cells[..] else {
            wrong.push(format!("SPECIFICATION.md: this row has not three cells: | S{row}"));
            continue;
        };
        if number.parse() != Ok(count) {
            wrong.push(format!("SPECIFICATION.md: S{number} stands where S{count} belongs"));
        }
        if let Some(reason) = tests.strip_prefix("pending") {
            if reason.trim_start_matches(':').trim().is_empty() {
                wrong.push(format!("SPECIFICATION.md: S{number} is pending and does not say why"));
            }
            continue;
        }
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            wrong.push(format!("SPECIFICATION.md: S{number} names no test and is not pending"));
        }
        for name in names {
            if let Some(why) = untested(name, tests.contains("by hand"), sources) {
                wrong.push(format!("SPECIFICATION.md: S{number} names {name}, which is {why}"));
            }
        }
    }
    if count == 0 {
        wrong.push("SPECIFICATION.md promises nothing".to_owned());
    }
}

/// What is wrong with a test of that name, or `crate::name`; nothing if one of the sources has it and
/// `cargo test` runs it, or it is to be run by hand. Of one name in several crates nobody could tell
/// which one keeps the promise.
fn untested(
    name: &str,
    by_hand: bool,
    sources: &BTreeMap<PathBuf, String>,
) -> Option<&'static str> {
    let (wanted, name) = name.split_once("::").map_or((None, name), |(of, name)| (Some(of), name));
    let mut crates = BTreeMap::new();
    for (path, text) in sources {
        let of = path.iter().nth(1).unwrap_or_default();
        if wanted.is_none_or(|wanted| of == wanted) {
            crates.entry(of).or_insert_with(Vec::new).extend(tests_named(name, text));
        }
    }
    crates.retain(|_, tests| !tests.is_empty());
    let is_ambiguous = crates.len() > 1;
    match crates.into_values().flatten().min() {
        None => Some("nowhere a test"),
        Some(_) if is_ambiguous => Some("in several crates: write crate::name"),
        Some(true) if !by_hand => Some("ignored by `cargo test`"),
        Some(_) => None,
    }
}

/// Of each test of that name in a source, whether `cargo test` ignores it.
fn tests_named(name: &str, text: &str) -> Vec<bool> {
    // Property tests have arguments.
    let head = format!("fn {name}(");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let places = (0..lines.len()).filter(|at| lines[*at].starts_with(&head));
    let attributes = places.map(|at| {
        let above = lines[..at].iter().rev();
        above.take_while(|line| line.starts_with("#[") || line.starts_with("//"))
    });
    attributes
        .filter(|above| above.clone().any(|line| *line == "#[test]"))
        .map(|mut above| above.any(|line| line.starts_with("#[ignore")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_use_themselves_are_found() {
        let of = |files: &[(&str, &str)]| {
            let file = |(name, text): &(&str, &str)| {
                (Path::new("crates/a/src").join(name), (*text).to_owned())
            };
            let mut wrong = Vec::new();
            cycles("a", &files.iter().map(file).collect(), &mut wrong);
            wrong.join("; ")
        };
        let leaf = ("c.rs", "// crate::a::A\n#[cfg(test)]\nuse crate::a::A;");
        assert_eq!(
            of(&[("a.rs", "use crate::b::{B, c};"), ("b.rs", "use super::c::C;"), leaf]),
            ""
        );
        assert_eq!(of(&[("a.rs", "use super::b;"), ("b/mod.rs", "use super::a;"), leaf]), "");
        for (first, second) in [
            (("a.rs", "use crate::b::B;"), ("b.rs", "fn b(a: &super::a::A) {}")),
            (("a.rs", "use crate::{d::{E, f}, b};"), ("b/deep.rs", "crate::a::a()")),
            (("a.rs", "use crate::{\n    c,\n    b::B,\n};"), ("b.rs", "use crate::{a};")),
        ] {
            assert!(of(&[first, second, leaf]).contains(r#"["a", "b"]"#), "{first:?} {second:?}");
        }
    }

    #[test]
    fn types_that_are_many_are_found() {
        let with = |excepted: Exceptions, files: &[(&str, &str)]| {
            let file = |(name, text): &(&str, &str)| {
                (Path::new("crates/a/src").join(name), (*text).to_owned())
            };
            let mut wrong = Vec::new();
            types(&files.iter().map(file).collect(), [excepted, &[]], &mut wrong);
            wrong.join("; ")
        };
        let of = |files: &[(&str, &str)]| with(&[], files);
        let (home, own) =
            ("pub struct A<T> {\n    a: T,\n}\n", "impl<T: B<u8>, F: Fn() -> T> A<T> {}");
        let whole = format!("{home}{own}");
        let three = [("a.rs", whole.as_str()), ("b.rs", own), ("c.rs", "impl super::A<u8> {}")];
        assert_eq!(of(&three), "");
        for fourth in ["impl<T> C for A<T> {}", "impl AB {}", "#[cfg(test)]\nimpl A<u8> {}", &whole]
        {
            assert_eq!(of(&[&three[..], &[("d.rs", fourth)]].concat()), "", "{fourth}");
        }
        let said = of(&[&three[..], &[("d.rs", "unsafe impl<'a> crate::A<&'a u8> {}")]].concat());
        assert_eq!(said, "a: what A can do lies in 4 files: it is many types");
        let excepted = &[("a", "A", "it may")];
        assert_eq!(with(excepted, &[&three[..], &[("d.rs", own)]].concat()), "");
        let said = with(excepted, &three);
        assert_eq!(said, "a: A is excepted, because it may, and needs it no more: take it out");
        let fields = |count: usize| {
            let fields = "    pub(crate) a: u8,\n    pub(super) b: u8,\n    c: u8,\n".repeat(count);
            format!("    struct A {{\n{fields}    }}\n    pub(crate) fn a() {{}}\n")
        };
        assert_eq!(of(&[("a.rs", &fields(6))]), "");
        assert!(of(&[("a.rs", &fields(7))]).starts_with("crates/a/src/a.rs: 14 fields of A "));
    }

    #[test]
    fn comments_that_point_to_the_item_above_are_found() {
        let of = |text: &str| {
            let sources = BTreeMap::from([(PathBuf::from("crates/a/src/lib.rs"), text.to_owned())]);
            let mut wrong = Vec::new();
            comments(&sources, &mut wrong);
            wrong.join("; ")
        };
        for text in [
            "/// Keeps the same order.\nfn a() {}",
            "//# The same rule of a protocol.",
            "let text = \"The same\"; // The same",
            "The same",
        ] {
            assert_eq!(of(text), "", "{text}");
        }
        for comment in ["// The same.", "/// The same of b.", "//! The same", "    ///   The same"]
        {
            let said = of(&format!("fn a() {{}}\n\n{comment}\nfn b() {{}}"));
            assert!(said.starts_with("crates/a/src/lib.rs:3: "), "{comment}: {said}");
        }
        assert_eq!(of("// The same\n\n// The same").matches("begins with").count(), 2);
    }

    #[test]
    fn promises_without_tests_are_found() {
        let text = "#[test]\nfn it_holds() {}\n#[test]\n/// Long.\n#[ignore = \"long\"]\nfn \
                    it_lasts() {}\nlet text = \"\nfn it_helps() {}"
            .to_owned();
        let twice = "#[test]\nfn it_is_here_and_there() {}".to_owned();
        let sources = BTreeMap::from([
            (PathBuf::from("crates/a/src/lib.rs"), text),
            (PathBuf::from("crates/a/src/twice.rs"), twice.clone()),
            (PathBuf::from("crates/b/src/lib.rs"), twice),
        ]);
        let wrong = |document: &str| {
            let mut wrong = Vec::new();
            check_promises(document, &sources, &mut wrong);
            wrong.join("; ")
        };
        assert_eq!(wrong("| S1 | It holds. | `it_holds` |\n| S2 | More. | pending: later |"), "");
        assert_eq!(wrong("| S1 | It lasts. | `it_lasts`, by hand |"), "");
        assert_eq!(wrong("| S1 | It holds. | `a::it_is_here_and_there` |"), "");
        for (document, words) in [
            ("", "promises nothing"),
            ("| S1 | It holds. | `it_is_here_and_there` |", "which is in several crates"),
            ("| S1 | It holds. | `b::it_holds` |", "which is nowhere a test"),
            ("| S1 | It holds. | `it_holded` |", "it_holded, which is nowhere a test"),
            ("| S1 | It helps. | `it_helps` |", "it_helps, which is nowhere a test"),
            ("| S1 | It lasts. | `it_lasts` |", "it_lasts, which is ignored"),
            ("| S1 | It holds. | pending |", "does not say why"),
            ("| S1 | It holds. | somewhere |", "names no test"),
            ("| S2 | It holds. | `it_holds` |", "S2 stands where S1 belongs"),
            ("| S1 | It holds. |", "not three cells"),
        ] {
            assert!(wrong(document).contains(words), "{document}: {}", wrong(document));
        }
    }
}
