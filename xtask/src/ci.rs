//! What CI runs, one step after the other; the first failure ends it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::{debians, sanitizers, tidy};

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
    // One run tells of all that fails. Only so do tests that pass tell that they were skipped.
    let skips = watch(&["test", "--workspace", "--no-fail-fast", "--", "--show-output"])?;
    for skip in &skips {
        eprintln!("{skip}");
    }
    let summary = format!("{} tests were skipped, for the reasons above", skips.len());
    match judgement.no_skip {
        true if !skips.is_empty() => Err(summary),
        _ => {
            eprintln!("== {summary}");
            Ok(())
        }
    }
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

/// Runs tests and shows how they end; answers which say that they were skipped, and why.
fn watch(arguments: &[&str]) -> Result<Vec<String>, String> {
    let mut command = cargo(arguments);
    if std::env::var_os(THREADS).is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (AT_ONCE * cores).to_string());
    }
    eprintln!("== test: cargo {}", arguments.join(" "));
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|why| format!("cargo cannot be started: {why}"))?;
    let from = child.stdout.take().ok_or("cargo has no output")?;
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(from).lines().map_while(Result::ok);
        lines.for_each(|line| drop(send.send(line)));
    });
    let mut output = Output::default();
    loop {
        match lines.recv_timeout(SILENCE_MAX) {
            Ok(line) if output.take(&line) => println!("{line}"),
            Ok(_) => {}
            // The compiler may take its time.
            Err(RecvTimeoutError::Timeout) if !output.runs => {}
            Err(RecvTimeoutError::Timeout) => end_below(child.id()),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().map_err(|why| format!("cargo was lost: {why}"))?;
    if status.success() { Ok(output.skips) } else { Err(format!("test failed: {status}")) }
}

/// How many tests cargo's test programs run at a time.
const THREADS: &str = "RUST_TEST_THREADS";
/// So many for each processor: those that take long wait for daemons, and leave half of it idle.
const AT_ONCE: usize = 2;

/// A run of tests of which none has ended for so long hangs. The longest test takes two minutes on two processors.
const SILENCE_MAX: Duration = Duration::from_mins(10);

/// Shows what cargo has started, and ends it, so that one test that hangs does not keep the others from running, nor
/// their results from being told.
fn end_below(cargo: u32) {
    eprintln!("== no test has ended for {SILENCE_MAX:?}; this runs, and is ended:");
    let list = ["-e", "-o", "pid=,ppid=,stat=,etimes=,wchan:24=,args="];
    let Ok(listed) = Command::new("ps").args(list).output() else { return };
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for (pid, line) in descendants(&listed, cargo) {
        eprintln!("{line}");
        // One of ours a moment ago; `kill` says so where it has ended since.
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    }
}

/// The processes below one of a list of `pid ppid ...` in any order.
fn descendants(listed: &str, root: u32) -> Vec<(u32, &str)> {
    let all: Vec<(u32, u32, &str)> = listed
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?, line))
        })
        .collect();
    let mut found: Vec<(u32, &str)> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        let children = all.iter().filter(|(_, of, _)| *of == parent);
        for (pid, _, line) in children {
            found.push((*pid, line));
            parents.push(*pid);
        }
    }
    found
}

/// What `cargo test -- --show-output` prints, read line by line.
#[derive(Debug, Default)]
struct Output {
    /// The lines are those that tests which passed have printed.
    is_of_success: bool,
    /// Tests run, and are not being built.
    runs: bool,
    test: String,
    /// The tests that were skipped, with their reasons.
    skips: Vec<String>,
}

impl Output {
    /// Whether the line is worth showing.
    fn take(&mut self, line: &str) -> bool {
        if let Some(name) = line.strip_prefix("---- ") {
            name.trim_end_matches(" stdout ----").clone_into(&mut self.test);
        }
        if line.starts_with("skipped: ") {
            self.skips.push(format!("{}: {line}", self.test));
        }
        if line.starts_with("running ") {
            self.runs = true;
        } else if line.starts_with("test result: ") {
            self.runs = false;
        }
        self.is_of_success = match line {
            "successes:" => true,
            "failures:" => false,
            _ => self.is_of_success && !line.starts_with("test result: "),
        };
        !self.is_of_success
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_started_is_found_whatever_the_order() {
        let listed = "  9 7 S tests --quick\n 10 9 S ssh pc2\n 7 1 S cargo test\n 8 1 S bystander\n11 10 Z x\nheader";
        let pids: Vec<u32> = descendants(listed, 7).into_iter().map(|(pid, _)| pid).collect();
        assert_eq!(pids, [9, 10, 11]);
        assert!(descendants(listed, 11).is_empty());
    }

    #[test]
    fn a_skipped_test_is_found_in_what_it_printed_and_only_failures_are_shown() {
        let text = "test a ... ok\ntest c ... FAILED\n\nsuccesses:\n\n---- a stdout ----\n\
                    skipped: it takes root\n\n---- b stdout ----\nnothing is skipped: all ran\n\n\
                    successes:\n    a\n    b\n\nfailures:\n\n---- c stdout ----\nwhy\n\n\
                    failures:\n    c\n\ntest result: FAILED\n\nrunning 2 tests";
        let mut output = Output::default();
        let shown: Vec<&str> = text.lines().filter(|line| output.take(line)).collect();
        assert!(output.runs);
        assert_eq!(output.skips, ["a: skipped: it takes root"]);
        let shown = shown.join("\n");
        let failure =
            "failures:\n\n---- c stdout ----\nwhy\n\nfailures:\n    c\n\ntest result: FAILED";
        assert_eq!(
            shown,
            format!("test a ... ok\ntest c ... FAILED\n\n{failure}\n\nrunning 2 tests")
        );
    }
}
