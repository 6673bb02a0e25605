//! The workspace's test programs, several at a time: most tests wait for daemons, and the last ones of each program
//! leave the processors idle, which `cargo test` gives to nobody else.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::ci::cargo;

/// How many tests a test program runs at a time.
const THREADS: &str = "RUST_TEST_THREADS";
/// So many for each processor, of all programs together: those that take long wait for daemons, and leave half of it
/// idle.
const AT_ONCE: usize = 2;
/// A program of which no test has ended for so long hangs. The longest test takes two minutes on two processors.
const SILENCE_MAX: Duration = Duration::from_mins(10);
/// A program that has ended without closing its output has left that to a process that it started.
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// What tests have said.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The tests that were skipped, with their reasons.
    pub(crate) skips: Vec<String>,
    /// What failed, and what it printed; empty where nothing did.
    pub(crate) failures: Vec<String>,
}

/// A program of tests.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    /// As people know it: package and test.
    name: String,
    path: PathBuf,
    /// Of the package: where `cargo test` runs it.
    folder: PathBuf,
    /// It is one of end-to-end tests, which take longest.
    is_end_to_end: bool,
    tests: usize,
}

/// Builds and runs all; tells once at the end what failed, for who sees only the end of a log.
pub(crate) fn run_all() -> Result<Told, String> {
    let programs = Mutex::new(VecDeque::from(build()?));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = std::env::var_os(THREADS).unwrap_or_else(|| AT_ONCE.to_string().into());
    let told = Mutex::new((Told::default(), Vec::new()));
    let work = || {
        loop {
            let next = programs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(program) = next else { break };
            let began = Instant::now();
            let output =
                run(&program, &threads).unwrap_or_else(|why| Output::of_none(&program, why));
            // Held until all is shown: programs' lines do not mix.
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            println!("     Running {}", program.name);
            output.shown.iter().for_each(|line| println!("{line}"));
            told.0.skips.extend(output.skips);
            told.0.failures.extend(output.failures);
            told.1.push((began.elapsed(), program.name));
        }
    };
    std::thread::scope(|scope| {
        (0..cores).for_each(|_| drop(scope.spawn(work)));
    });
    let (told, mut times) = told.into_inner().unwrap_or_else(PoisonError::into_inner);
    times.sort_by(|a, b| b.cmp(a));
    for (took, name) in times.iter().take(10) {
        eprintln!("{:5} s {name}", took.as_secs());
    }
    Ok(told)
}

/// Builds all test programs; those that take longest come first.
fn build() -> Result<Vec<Program>, String> {
    let arguments = ["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    eprintln!("== build of the tests: cargo {}", arguments.join(" "));
    let output = cargo(&arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|why| format!("cargo cannot be started: {why}"))?;
    if !output.status.success() {
        return Err(format!("the tests cannot be built: {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut programs: Vec<Program> = text.lines().filter_map(named).collect();
    if programs.is_empty() {
        return Err("cargo has named no test programs".to_owned());
    }
    for program in &mut programs {
        program.tests = count(program)?;
    }
    programs.retain(|program| program.tests > 0);
    programs.sort_by_key(|program| std::cmp::Reverse((program.is_end_to_end, program.tests)));
    Ok(programs)
}

/// The program of a line of cargo's (doc.rust-lang.org/cargo/reference/external-tools.html), where that tells of one.
fn named(line: &str) -> Option<Program> {
    let told: Value = serde_json::from_str(line).ok()?;
    let is_test = told["reason"] == "compiler-artifact" && told["profile"]["test"] == true;
    let path = PathBuf::from(told["executable"].as_str().filter(|_| is_test)?);
    let folder = Path::new(told["manifest_path"].as_str()?).parent()?.to_owned();
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let is_end_to_end = told["target"]["kind"][0] == "test";
    let name = format!("{package} {}", told["target"]["name"].as_str()?);
    Some(Program { name, path, folder, is_end_to_end, tests: 0 })
}

/// As `cargo test` starts it.
fn command(program: &Program) -> Command {
    let mut command = Command::new(&program.path);
    let mut libraries: Vec<PathBuf> =
        program.path.ancestors().skip(1).take(2).map(Path::to_owned).collect();
    let known = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    libraries.extend(std::env::split_paths(&known).filter(|path| !path.as_os_str().is_empty()));
    let libraries = std::env::join_paths(libraries).unwrap_or(known);
    command.env("LD_LIBRARY_PATH", libraries).env("CARGO_MANIFEST_DIR", &program.folder);
    command.current_dir(&program.folder).stdin(Stdio::null());
    command
}

fn count(program: &Program) -> Result<usize, String> {
    let listed = command(program).args(["--list", "--format=terse"]).output();
    let listed = listed.map_err(|why| format!("{} cannot be started: {why}", program.name))?;
    let text = String::from_utf8_lossy(&listed.stdout);
    Ok(text.lines().filter(|line| line.ends_with(": test")).count())
}

/// Runs one. Only with --show-output do tests that pass tell that they were skipped.
fn run(program: &Program, threads: &OsString) -> Result<Output, String> {
    let cannot = |why: std::io::Error| format!("{} cannot be started: {why}", program.name);
    let mut child = command(program)
        .arg("--show-output")
        .env(THREADS, threads)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    let from = child.stdout.take().ok_or("it has no output")?;
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(from).lines().map_while(Result::ok);
        lines.for_each(|line| drop(send.send(line)));
    });
    let mut output = Output::new(program);
    read(&mut child, &lines, &mut output);
    let status = child.wait().map_err(|why| format!("{} was lost: {why}", program.name))?;
    if !status.success() && output.failures.is_empty() {
        output.failures.push(format!("{}: {status}", program.name));
    }
    Ok(output)
}

/// Takes what a program prints until it has ended, and ends it where it hangs.
fn read(child: &mut Child, lines: &Receiver<String>, output: &mut Output) {
    let mut heard = Instant::now();
    loop {
        match lines.recv_timeout(CLOSING_MAX) {
            Ok(line) => {
                heard = Instant::now();
                output.take(&line);
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) if !matches!(child.try_wait(), Ok(None)) => return,
            Err(RecvTimeoutError::Timeout) if heard.elapsed() > SILENCE_MAX => {
                end_with_all_below(child);
                heard = Instant::now();
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Shows what a program has started, and ends that and the program, so that one test that hangs does not keep the
/// others from running, nor their results from being told.
fn end_with_all_below(child: &mut Child) {
    eprintln!("== no test has ended for {SILENCE_MAX:?}; this runs, and is ended:");
    let list = ["-e", "-o", "pid=,ppid=,stat=,etimes=,wchan:24=,args="];
    if let Ok(listed) = Command::new("ps").args(list).output() {
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        for (pid, line) in descendants(&listed, child.id()) {
            eprintln!("{line}");
            // One of ours a moment ago; `kill` says so where it has ended since.
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
    }
    // It may have ended with them.
    let _ = child.kill();
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

/// What a test program prints with `--show-output`, read line by line.
#[derive(Debug, Default)]
struct Output {
    program: String,
    /// The lines of tests that passed, or of those that failed; nothing outside of both.
    part: Option<Part>,
    test: String,
    /// What is worth showing.
    shown: Vec<String>,
    skips: Vec<String>,
    failures: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Successes,
    Failures,
}

impl Output {
    fn new(program: &Program) -> Self {
        Self { program: program.name.clone(), ..Self::default() }
    }

    /// Of a program that did not run.
    fn of_none(program: &Program, why: String) -> Self {
        Self { failures: vec![why], ..Self::new(program) }
    }

    fn take(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("---- ") {
            name.trim_end_matches(" stdout ----").clone_into(&mut self.test);
        }
        if line.starts_with("skipped: ") {
            self.skips.push(format!("{} {}: {line}", self.program, self.test));
        }
        self.part = match line {
            "successes:" => Some(Part::Successes),
            "failures:" => Some(Part::Failures),
            _ => self.part.filter(|_| !line.starts_with("test result: ")),
        };
        if self.part == Some(Part::Failures) && line != "failures:" && !line.is_empty() {
            self.failures.push(format!("{}: {line}", self.program));
        }
        if self.part != Some(Part::Successes) {
            self.shown.push(line.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(script: &str) -> (tempfile::TempDir, Program) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deps").join("it");
        std::fs::create_dir(folder.path().join("deps")).unwrap();
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let (name, at) = ("it".to_owned(), folder.path().to_owned());
        (folder, Program { name, path, folder: at, is_end_to_end: true, tests: 1 })
    }

    #[test]
    fn a_program_is_judged_by_its_status_and_not_waited_for_through_what_it_leaves() {
        // What it has started holds its output, as a daemon does.
        let (_folder, failed) = program("echo test a ... ok; sleep 60 & echo $! >left; exit 7");
        let output = run(&failed, &"1".into()).unwrap();
        let left = std::fs::read_to_string(failed.folder.join("left")).unwrap();
        Command::new("kill").arg(left.trim()).status().unwrap();
        assert_eq!(output.shown, ["test a ... ok"]);
        assert_eq!(output.failures, ["it: exit status: 7"]);
        let (_folder, passed) = program("echo $RUST_TEST_THREADS $1; pwd");
        let output = run(&passed, &"3".into()).unwrap();
        assert_eq!(output.shown, ["3 --show-output", &passed.folder.display().to_string()]);
        assert!(output.failures.is_empty());
        let (_folder, listed) = program("printf 'a: test\\nb::c: test\\nd: benchmark\\n'");
        assert_eq!(count(&listed), Ok(2));
    }

    #[test]
    fn test_programs_are_found_in_what_cargo_says() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["test"],"name":"jobs"},"profile":{"test":true},"executable":"/w/target/debug/deps/jobs-1"}"#;
        let wanted = Program {
            name: "a jobs".to_owned(),
            path: "/w/target/debug/deps/jobs-1".into(),
            folder: "/w/crates/a".into(),
            is_end_to_end: true,
            tests: 0,
        };
        assert_eq!(named(line), Some(wanted));
        for other in [
            line.replace("true", "false"),
            line.replace("compiler-artifact", "build-finished"),
            line.replace(r#""/w/target/debug/deps/jobs-1""#, "null"),
            "warning: unused".to_owned(),
        ] {
            assert_eq!(named(&other), None, "{other}");
        }
    }

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
        let mut output = Output { program: "p".to_owned(), ..Output::default() };
        text.lines().for_each(|line| output.take(line));
        assert_eq!(output.skips, ["p a: skipped: it takes root"]);
        let failure =
            "failures:\n\n---- c stdout ----\nwhy\n\nfailures:\n    c\n\ntest result: FAILED";
        assert_eq!(
            output.shown.join("\n"),
            format!("test a ... ok\ntest c ... FAILED\n\n{failure}\n\nrunning 2 tests")
        );
        assert_eq!(output.failures, ["p: ---- c stdout ----", "p: why", "p:     c"]);
    }
}
