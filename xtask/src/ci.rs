//! What CI runs, one step after the other; the first failure ends it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::{sanitizers, tidy};

/// How tests are judged.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Judgement {
    /// A test that says that it was skipped has failed: for machines that have all that tests need.
    #[arg(long)]
    no_skip: bool,
}

/// Everything.
pub(crate) fn ci(judgement: Judgement) -> Result<(), String> {
    lint()?;
    test(judgement)?;
    sanitizers::loom()
}

/// What needs no run of the code.
pub(crate) fn lint() -> Result<(), String> {
    step("format", &["fmt", "--all", "--check"])?;
    tidy::run()?;
    step("lint", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

/// The tests. End-to-end tests load the provider and the library from the
/// release build, as users do.
pub(crate) fn test(judgement: Judgement) -> Result<(), String> {
    step("build", &["build", "--release", "--workspace"])?;
    // One run tells of all that fails.
    let arguments = ["test", "--workspace", "--no-fail-fast"];
    if !judgement.no_skip {
        return step("test", &arguments);
    }
    // What tests that pass have printed is shown only if that is asked for.
    let skips = watch(&[&arguments[..], &["--", "--show-output"]].concat())?;
    for skip in &skips {
        eprintln!("{skip}");
    }
    if skips.is_empty() { Ok(()) } else { Err(format!("{} tests were skipped", skips.len())) }
}

fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments);
    command
}

fn step(name: &str, arguments: &[&str]) -> Result<(), String> {
    eprintln!("== {name}: cargo {}", arguments.join(" "));
    let status = cargo(arguments).status();
    let status = status.map_err(|why| format!("cargo cannot be started: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed: {status}")) }
}

/// Runs tests and shows what they print; answers which say that they were skipped, and why.
fn watch(arguments: &[&str]) -> Result<Vec<String>, String> {
    eprintln!("== test: cargo {}", arguments.join(" "));
    let child = cargo(arguments).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|why| format!("cargo cannot be started: {why}"))?;
    let lines = BufReader::new(child.stdout.take().ok_or("cargo has no output")?).lines();
    let skips = skips(lines.map_while(Result::ok).inspect(|line| println!("{line}")));
    let status = child.wait().map_err(|why| format!("cargo was lost: {why}"))?;
    if status.success() { Ok(skips) } else { Err(format!("test failed: {status}")) }
}

/// The tests that were skipped, with their reasons, in what `cargo test -- --show-output` prints.
fn skips(lines: impl Iterator<Item = String>) -> Vec<String> {
    let (mut test, mut skips) = (String::new(), Vec::new());
    for line in lines {
        if let Some(name) = line.strip_prefix("---- ") {
            name.trim_end_matches(" stdout ----").clone_into(&mut test);
        }
        if line.starts_with("skipped: ") {
            skips.push(format!("{test}: {line}"));
        }
    }
    skips
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_is_found_in_what_it_printed() {
        let text = "test a ... ok\n\nsuccesses:\n\n---- a stdout ----\nskipped: it takes root\n\n\
                    ---- b stdout ----\nnothing is skipped: all ran\n";
        let found = skips(text.lines().map(str::to_owned));
        assert_eq!(found, ["a: skipped: it takes root"]);
    }
}
