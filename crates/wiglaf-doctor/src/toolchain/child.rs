//! Running compilers, and programs that may hang, within a limit.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// What is kept of each stream.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// How long a launcher may take to end its ranks.
const GRACE: Duration = Duration::from_secs(2);
/// How often an end is looked for.
const TICK: Duration = Duration::from_millis(5);

/// What tells an error, in lower case.
const ERRORS: [&str; 4] = ["error", "undefined", "cannot find", "wrong"];
/// What only says that there were some.
const SUMMARIES: [&str; 3] = ["Semantic errors in", "linker command failed", "Could not parse"];

/// What a child did.
#[derive(Debug)]
pub(super) struct Done {
    /// Whether it ended by itself, with status 0.
    pub(super) succeeded: bool,
    /// Both streams, one after the other.
    pub(super) text: String,
}

impl Done {
    /// The line that says most: the first that names an error, else the first.
    pub(super) fn complaint(&self) -> String {
        let lines =
            || self.text.lines().map(str::trim).filter(|line| line.contains(char::is_alphabetic));
        let has = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
        let errors = || lines().filter(|line| has(&line.to_lowercase(), &ERRORS));
        let error = errors().find(|line| !has(line, &SUMMARIES)).or_else(|| errors().next());
        let line = error.or_else(|| lines().next()).unwrap_or("it said nothing");
        line.chars().take(200).collect()
    }

    /// What stands behind a word at the beginning of a line.
    pub(super) fn behind<'a>(&'a self, word: &str) -> Option<&'a str> {
        self.text.lines().find_map(|line| line.trim().strip_prefix(word)).map(str::trim)
    }
}

/// Runs a command to its end, or ends it and all that it started.
pub(super) fn run(command: &mut Command, limit: Duration) -> Done {
    let failed = |text: String| Done { succeeded: false, text };
    // What they say is read here, so it must be English.
    command.env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let program = command.get_program().to_string_lossy();
            return failed(format!("{program} cannot be started: {error}"));
        }
    };
    let readers = [child.stdout.take().map(reader), child.stderr.take().map(reader)];
    let status = wait(&mut child, limit);
    // What it left would keep the streams open.
    signal(&child, Signal::KILL);
    let text: String = readers.into_iter().flatten().filter_map(|r| r.join().ok()).collect();
    match status {
        Some(succeeded) => Done { succeeded, text },
        None => failed(format!("error: it did not end within {} s\n{text}", limit.as_secs())),
    }
}

/// Whether it succeeded; nothing when it had to be ended.
fn wait(child: &mut Child, limit: Duration) -> Option<bool> {
    if let Some(succeeded) = wait_for(child, limit) {
        return Some(succeeded);
    }
    // A launcher that is asked ends its ranks, which are in other groups.
    signal(child, Signal::TERM);
    if wait_for(child, GRACE).is_none() {
        signal(child, Signal::KILL);
        let _ = child.wait();
    }
    None
}

fn wait_for(child: &mut Child, limit: Duration) -> Option<bool> {
    let start = Instant::now();
    while start.elapsed() < limit {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) => thread::sleep(TICK),
            Err(_) => return Some(false),
        }
    }
    None
}

fn signal(child: &Child, signal: Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Nobody is left to be signalled where this fails.
        let _ = kill_process_group(group, signal);
    }
}

fn reader(stream: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let (mut kept, mut bytes) = (stream.take(OUTPUT_BYTES_MAX), Vec::new());
        let _ = kept.read_to_end(&mut bytes);
        // Who writes more must not block for ever.
        let _ = std::io::copy(&mut kept.into_inner(), &mut std::io::sink());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Done {
        run(Command::new("sh").args(["-c", script]), limit)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn output_and_end_are_told() {
        let done = shell("echo one; echo two: error >&2; exit 3", LONG);
        assert!(!done.succeeded);
        assert_eq!(done.complaint(), "two: error");
        assert!(shell("true", LONG).succeeded);
        assert_eq!(shell("echo 'width 4'", LONG).behind("width"), Some("4"));
        assert!(shell("true", LONG).behind("width").is_none());
    }

    #[test]
    fn what_hangs_is_ended_with_its_children() {
        let done = shell("echo begun; sleep 1000 & sleep 1000", Duration::from_millis(200));
        assert!(!done.succeeded && done.complaint().contains("did not end"), "{done:?}");
        assert!(done.text.contains("begun"));
    }

    #[test]
    fn what_is_left_does_not_keep_us_waiting() {
        assert!(shell("sleep 1000 & true", LONG).succeeded);
    }

    #[test]
    fn what_cannot_be_started_is_told() {
        let done = run(&mut Command::new("/no/such/compiler"), LONG);
        assert!(done.complaint().contains("/no/such/compiler cannot be started"), "{done:?}");
    }
}
