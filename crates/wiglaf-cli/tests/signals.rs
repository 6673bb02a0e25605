//! What signals do to a command that runs others: which it passes on, how it ends by them, and what it
//! says of those whom one has ended.

mod common;

use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdout, Command, Stdio};

use common::{Guarded, Site, has_openmpi};

const SIGINT: i32 = 2;

impl Site {
    /// A command, and the lines that it prints.
    fn begin(&self, args: &[&str]) -> (Guarded, Lines<BufReader<ChildStdout>>) {
        let mut command = self.interruptible(args);
        // Shells and launchers tell each signal.
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (Guarded(child), lines)
    }
}

fn signal(child: &Guarded, name: &str) {
    let pid = child.0.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
}

/// How a shell script is run on both nodes.
fn ways() -> Vec<&'static [&'static str]> {
    let mut ways: Vec<&[&str]> = vec![&["run", "--mpi", "none", "--", "sh", "-c"]];
    if has_openmpi() {
        ways.push(&["run", "--transport", "tcp", "--", "sh", "-c"]);
    }
    ways
}

/// Waits for signals, after a trap. A shell that has said so and has not yet begun a long sleep would take a signal and
/// then sleep for as long, so each sleep is short.
const WAITING: &str = "echo ready; while :; do sleep 0.1; done";

/// Programs write checkpoints on them.
#[test]
fn a_job_has_the_signals_that_are_for_programs() {
    let Some(site) = Site::up(&[]) else { return };
    let script = &format!("trap 'echo one' USR1; trap 'exit 0' USR2; {WAITING}");
    for way in ways() {
        let (mut job, mut lines) = site.begin(&[way, &[script]].concat());
        let mut expect = |line: &str| assert_eq!(lines.next().unwrap().unwrap(), line, "{way:?}");
        (0..2).for_each(|_| expect("ready"));
        // However often: only who asks twice for the end has the job killed.
        for _ in 0..3 {
            signal(&job, "USR1");
            (0..2).for_each(|_| expect("one"));
        }
        signal(&job, "USR2");
        let ended = job.0.wait().unwrap();
        assert_eq!(ended.code(), Some(0), "{way:?}: {ended}");
        assert_eq!(site.strays(), 0);
    }
}

/// A batch system stops all processes of a job, and soon lets them go on, whatever the launcher is about to do.
#[test]
fn who_is_told_to_go_on_while_the_job_is_being_stopped_goes_on() {
    let Some(site) = Site::up(&[]) else { return };
    let script = &format!("trap 'echo one' USR1; trap 'exit 0' USR2; {WAITING}");
    let (mut job, lines) = site.begin(&["run", "--mpi", "none", "--", "sh", "-c", script]);
    let (send, said) = std::sync::mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(send.send(line))));
    let expect = |line: &str| assert_eq!(said.recv_timeout(common::PATIENCE).as_deref(), Ok(line));
    (0..2).for_each(|_| expect("ready"));
    for pause_ms in [0, 1, 2, 3, 5, 10, 20, 100] {
        signal(&job, "TSTP");
        std::thread::sleep(std::time::Duration::from_millis(pause_ms));
        signal(&job, "CONT");
        signal(&job, "USR1");
        (0..2).for_each(|_| expect("one"));
    }
    signal(&job, "USR2");
    assert_eq!(job.0.wait().unwrap().code(), Some(0));
}

/// A shell ends its loop only when the command has died of the signal.
#[test]
fn who_is_interrupted_dies_of_it_when_all_is_clean() {
    let Some(site) = Site::up(&[]) else { return };
    let mut ways = ways();
    ways.push(&["exec", "-w", "node1", "--", "sh", "-c"]);
    for way in ways {
        for trap in ["", "trap 'exit 5' INT; "] {
            let script = format!("{trap}{WAITING}");
            let (mut job, mut lines) = site.begin(&[way, &[&script]].concat());
            assert_eq!(lines.next().unwrap().unwrap(), "ready");
            signal(&job, "INT");
            let ended = job.0.wait().unwrap();
            assert_eq!(ended.signal(), Some(SIGINT), "{way:?}: {script}: {ended}");
            assert_eq!(site.strays(), 0);
        }
    }
}

#[test]
fn who_takes_an_interrupt_and_ends_well_has_ended_well() {
    let Some(site) = Site::up(&[]) else { return };
    let script = &format!("trap 'exit 0' INT; {WAITING}");
    let none = ["run", "--mpi", "none", "-n", "1", "--", "sh", "-c", script];
    let exec = ["exec", "-w", "node1", "--", "sh", "-c", script];
    for args in [&none[..], &exec] {
        let (mut job, mut lines) = site.begin(args);
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        signal(&job, "INT");
        let ended = job.0.wait().unwrap();
        assert_eq!(ended.code(), Some(0), "{args:?}: {ended}");
    }
}

#[test]
fn a_rank_that_a_signal_ends_is_named() {
    let Some(site) = Site::up(&[]) else { return };
    let run = |script: &str| site.wiglaf(&["run", "--mpi", "none", "--", "sh", "-c", script]);
    let said = run("test $WIGLAF_RANK = 1 && kill -11 $$; sleep 1000");
    assert_eq!(said.status, Some(139), "{said:?}");
    assert_eq!(said.stderr, "wiglaf: rank 1 (node2): ended by signal 11\n");
    let said = run("test $WIGLAF_RANK = 1 && exit 5; sleep 1000");
    assert_eq!((said.status, said.stderr.as_str()), (Some(5), ""), "programs speak for themselves");
}
