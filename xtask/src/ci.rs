//! What CI runs, one step after the other; the first failure ends it.

use std::process::Command;

use crate::{sanitizers, tidy};

/// Everything.
pub(crate) fn ci() -> Result<(), String> {
    lint()?;
    test()?;
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
pub(crate) fn test() -> Result<(), String> {
    step("build", &["build", "--release", "--workspace"])?;
    // One run tells of all that fails.
    step("test", &["test", "--workspace", "--no-fail-fast"])
}

fn step(name: &str, arguments: &[&str]) -> Result<(), String> {
    eprintln!("== {name}: cargo {}", arguments.join(" "));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(arguments)
        .status()
        .map_err(|why| format!("cargo cannot be started: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed: {status}")) }
}
