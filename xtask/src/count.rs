//! `xtask count`: how many lines of Rust the product has, without tests, fuzz targets and xtask, by crate; beside
//! an earlier commit, whose files are read from the repository.

use std::collections::BTreeMap;
use std::process::Command;

use clap::Args;

/// What to count.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Count this commit's files as well, and show what has become of each crate.
    #[arg(long, value_name = "COMMIT")]
    against: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let now = at("HEAD")?;
    let before = arguments.against.as_deref().map(at).transpose()?.unwrap_or_default();
    let mut names: Vec<&String> = now.keys().chain(before.keys()).collect();
    names.sort();
    names.dedup();
    let line = |name: &str, now: usize, before: usize| {
        let ratio =
            if before == 0 { String::new() } else { format!("{:.2}", now as f64 / before as f64) };
        match arguments.against {
            Some(_) => println!("{name:<20} {before:>7} {now:>7} {ratio:>6}"),
            None => println!("{name:<20} {now:>7}"),
        }
    };
    for name in names {
        let of = |counts: &BTreeMap<String, usize>| counts.get(name).copied().unwrap_or(0);
        line(name, of(&now), of(&before));
    }
    let shared = |counts: &BTreeMap<String, usize>| {
        counts
            .iter()
            .filter(|(name, _)| now.contains_key(*name) && before.contains_key(*name))
            .map(|(_, n)| n)
            .sum()
    };
    if arguments.against.is_some() {
        line("in both", shared(&now), shared(&before));
    }
    line("all", now.values().sum(), before.values().sum());
    Ok(())
}

/// Lines by crate in a commit.
fn at(commit: &str) -> Result<BTreeMap<String, usize>, String> {
    let listed = git(&["ls-tree", "-r", "--name-only", commit, "crates"])?;
    let mut counts = BTreeMap::new();
    for path in listed.lines().filter(|path| is_counted(path)) {
        let name = path.split('/').nth(1).unwrap_or_default().to_owned();
        let text = git(&["show", &format!("{commit}:{path}")])?;
        *counts.entry(name).or_insert(0) += lines(&text);
    }
    Ok(counts)
}

/// Whether a file is the product's, and not a test's.
fn is_counted(path: &str) -> bool {
    let mut parts = path.split('/');
    let is_test = |part: &str| part == "tests" || part.trim_end_matches(".rs") == "tests";
    path.ends_with(".rs")
        && !path.starts_with("crates/wiglaf-fuzz/")
        && !path.contains("/fuzz/")
        && !path.contains("/benches/")
        && !parts.any(is_test)
}

/// Lines before the tests of a file.
fn lines(text: &str) -> usize {
    text.lines().take_while(|line| *line != "#[cfg(test)]").count()
}

fn git(args: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(args).output().map_err(|why| format!("git: {why}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    String::from_utf8(output.stdout).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_not_counted() {
        assert!(is_counted("crates/wiglaf-base/src/shell.rs"));
        for path in [
            "crates/wiglaf-base/src/tests.rs",
            "crates/wiglaf-base/tests/a.rs",
            "crates/wiglaf-cli/src/run/tests/b.rs",
            "crates/wiglaf-fuzz/src/lib.rs",
            "crates/wiglaf-cli/README.md",
        ] {
            assert!(!is_counted(path), "{path}");
        }
        assert_eq!(lines("use a;\n\n#[cfg(test)]\nmod tests {}\n"), 2);
    }
}
