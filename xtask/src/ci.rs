//! What CI runs, one step after the other; the first failure ends it.

use std::process::Command;

use crate::{debians, sanitizers, test_programs, tidy};

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
    debians::short(!judgement.no_skip)?;
    sanitizers::loom()
}

/// What needs no run of the code.
pub(crate) fn lint() -> Result<(), String> {
    step("format", &["fmt", "--all", "--check"])?;
    tidy::run()?;
    step("lint", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    // As `make release` builds it.
    let released =
        ["clippy", "--package", "wiglaf-cli", "--no-default-features", "--", "-D", "warnings"];
    step("lint of what is installed", &released)
}

/// What has a part in what `make install` installs.
pub(crate) const INSTALLED: [&str; 10] = [
    "wiglaf-cli",
    "wiglaf-fabric",
    "wiglaf-logical",
    "wiglaf-profile",
    "wiglaf-profile-mpi4",
    "wiglaf-multicast",
    "wiglaf-multicast-mpi4",
    "wiglaf-am",
    "wiglaf-files",
    "wiglaf-helper",
];

/// The tests. End-to-end tests load the provider and the library from the
/// release build, as users do.
pub(crate) fn test(judgement: Judgement) -> Result<(), String> {
    let build = ["build", "--release"].into_iter();
    let packages = INSTALLED.iter().flat_map(|name| ["--package", name]);
    step("build", &build.chain(packages).collect::<Vec<_>>())?;
    // One run tells of all that fails.
    let told = test_programs::run_all()?;
    let examples = step("examples in documentation", &["test", "--workspace", "--doc"]);
    for skip in &told.skips {
        eprintln!("{skip}");
    }
    examples?;
    if !told.failures.is_empty() {
        return Err(format!("the tests failed:\n{}", told.failures.join("\n")));
    }
    let summary = format!("{} tests were skipped, for the reasons above", told.skips.len());
    match judgement.no_skip {
        true if !told.skips.is_empty() => Err(summary),
        _ => {
            eprintln!("== {summary}");
            Ok(())
        }
    }
}

pub(crate) fn cargo(arguments: &[&str]) -> Command {
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
