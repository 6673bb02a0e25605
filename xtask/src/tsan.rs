//! ThreadSanitizer over the provider's Rust code, called by many threads at once, and over the ring
//! of the shared-memory link.
//!
//! The sanitizer must see the standard library too, or it misses what its locks order and reports
//! what does not race. So the library is built along, from its sources (`-Zbuild-std`). Both options
//! are for nightly compilers; the pinned one takes them with `RUSTC_BOOTSTRAP`.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// What runs: a crate, and which of its tests.
const RUNS: &[(&str, &[&str])] = &[
    ("wiglaf-fabric", &["--test", "threads"]),
    ("wiglaf-fabric", &["--lib", "wait"]),
    ("wiglaf-link-shm", &["--lib", "ring"]),
];

/// A test with a race in it: where the sanitizer does not find that one, it proves nothing.
const CANARY: (&str, &[&str]) =
    ("wiglaf-fabric", &["--test", "threads", "a_race_that_must_be_found", "--", "--ignored"]);

/// Runs them all; the first race ends it.
pub(crate) fn run() -> Result<(), String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let asked = |arguments: &[&str]| -> Result<String, String> {
        let output = Command::new(&rustc).args(arguments).output().map_err(|e| e.to_string())?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let about = asked(&["-vV"])?;
    let host =
        about.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc has no host")?;
    let sources = asked(&["--print", "sysroot"])?;
    let sources = Path::new(sources.trim()).join("lib/rustlib/src/rust/library/std");
    if !sources.is_dir() {
        return Err(
            "the sources of the standard library are missing: rustup component add rust-src"
                .to_owned(),
        );
    }
    let output = command(host, CANARY).output().map_err(|why| not_started(&why))?;
    if output.status.success() || !String::from_utf8_lossy(&output.stderr).contains("data race") {
        std::io::stderr().write_all(&output.stderr).map_err(|why| why.to_string())?;
        return Err("the sanitizer has not found the race that it was shown".to_owned());
    }
    for &(package, tests) in RUNS {
        let status = command(host, (package, tests)).status().map_err(|why| not_started(&why))?;
        if !status.success() {
            return Err(format!("{package}: {status}"));
        }
    }
    Ok(())
}

fn not_started(why: &std::io::Error) -> String {
    format!("cargo cannot be started: {why}")
}

fn command(host: &str, (package, tests): (&str, &[&str])) -> Command {
    eprintln!("== tsan: {package} {}", tests.join(" "));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["test", "-Zbuild-std", "--target", host, "--target-dir", "target/tsan"])
        .args(["--package", package])
        .args(tests)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        // A race ends the process at once, so that its test fails.
        .env("TSAN_OPTIONS", "halt_on_error=1 second_deadlock_stack=1");
    command
}
