//! Whoever dies: nobody waits for the dead, and nothing stays behind.

mod common;

use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

use common::{Place, servers};
use rustix::process::{Pid, Signal, kill_process};
use wiglaf_files::{Error, File, Files, Reason};

/// Servers are told apart by who started them, so one test at a time.
static ALONE: Mutex<()> = Mutex::new(());
const RW: i32 = libc::O_RDWR | libc::O_CREAT;

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn kill(pid: i32) {
    signal(pid, Signal::KILL);
}

/// The process of the one server that a test has started.
fn server() -> i32 {
    let [server] = servers()[..] else { panic!("one server is expected: {:?}", servers()) };
    server
}

fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

const PLACES: usize = 4;
/// Of many requests, so that the server dies between two of a call.
const LEN: usize = 3_000_000;

/// What a writer knows of its part of a file.
struct Known {
    /// The bytes that were said to be written.
    said: Vec<u8>,
    /// Where the call wrote that failed, and what.
    under_way: (Range<usize>, u8),
    error: Error,
}

impl Known {
    /// Writes round and round until that fails; `turns` counts what did not.
    fn by_writing(file: &File, start: usize, turns: &AtomicUsize) -> Self {
        let mut said = vec![0; PLACES * LEN];
        loop {
            let turn = turns.load(Ordering::Relaxed);
            let value = 1 + (turn % 250) as u8;
            let Range { start: mut at, end } = turn % PLACES * LEN..(turn % PLACES + 1) * LEN;
            while at < end {
                match file.write_at(&vec![value; end - at], (start + at) as u64) {
                    Ok(count) => {
                        said[at..at + count].fill(value);
                        at += count;
                    }
                    Err(error) => return Self { said, under_way: (at..end, value), error },
                }
            }
            turns.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All that was said to be written is there, but where the call that failed was at work.
    fn check(&self, there: &[u8]) {
        let (range, value) = &self.under_way;
        let wrong = self.said.iter().enumerate().position(|(at, byte)| {
            let there = there.get(at).copied().unwrap_or(0);
            there != *byte && !(range.contains(&at) && there == *value)
        });
        assert_eq!(wrong, None, "{:?} was under way", self.under_way);
    }
}

#[test]
fn a_killed_server_ends_every_call() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let file = place.node.open("a", RW, 0o644).unwrap();
    file.write(&[1; 1000]).unwrap();
    file.sync(false).unwrap();
    let server = server();
    let start = |writer: usize| 1000 + writer * PLACES * LEN;
    let turns = [const { AtomicUsize::new(0) }; 3];
    let outcomes: Vec<Known> = std::thread::scope(|scope| {
        let writers: Vec<_> = turns
            .iter()
            .enumerate()
            .map(|(i, turns)| {
                let file = &file;
                scope.spawn(move || Known::by_writing(file, start(i), turns))
            })
            .collect();
        // Each is in its second round.
        while turns.iter().any(|turns| turns.load(Ordering::Relaxed) < PLACES + 2) {
            assert!(!writers.iter().any(ScopedJoinHandle::is_finished), "nobody was killed");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        kill(server);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let there = std::fs::read(place.path("a")).unwrap();
    for (i, known) in outcomes.iter().enumerate() {
        let error = &known.error;
        assert_eq!((error.errno(), error.reason()), (libc::EIO, Reason::ServerGone));
        known.check(&there[start(i)..]);
    }
    assert!(place.node.is_gone());
    assert_eq!(file.read_at(&mut [0; 8], 0).unwrap_err().errno(), libc::EIO);
    assert_eq!(place.node.open("b", RW, 0o644).unwrap_err().errno(), libc::EIO);
    assert_eq!(file.close().unwrap_err().errno(), libc::EIO);
    // What was synced is there.
    assert_eq!(there[..1000], [1; 1000]);
}

/// Who waits for a read that is under way sleeps, and is woken by the death of a server that never
/// answered.
#[test]
fn a_killed_server_ends_a_wait_that_sleeps() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let file = place.node.open("a", RW, 0o644).unwrap();
    file.write(&[1; 1000]).unwrap();
    let server = server();
    signal(server, Signal::STOP);
    let read = file.start_read(1000, 0).unwrap();
    let error = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| read.wait().unwrap_err());
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!waiter.is_finished(), "nobody has answered");
        kill(server);
        waiter.join().unwrap()
    });
    assert_eq!((error.errno(), error.reason()), (libc::EIO, Reason::ServerGone));
}

#[test]
fn a_server_that_died_while_nobody_called_is_noticed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let files = Files::new();
    common::base();
    let node = files.attach("remote").unwrap();
    let server = server();
    kill(server);
    assert_eq!(node.attributes(".", true).unwrap_err().errno(), libc::EIO);
    // Attached again, the node has a new server.
    let again = files.attach("remote").unwrap();
    assert!(again.attributes(".", true).is_ok());
}

#[test]
fn a_server_ends_with_its_client() {
    const HOLD: &str = "WIGLAF_TEST_HOLDS";
    if std::env::var_os(HOLD).is_some() {
        let place = Place::new();
        let _file = place.node.open("a", RW, 0o644).unwrap();
        println!("\nservers {}", servers()[0]);
        std::thread::park();
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut client = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_server_ends_with_its_client", "--nocapture"])
        .env(HOLD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let server = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("servers ").and_then(|pid| pid.parse::<i32>().ok()));
    let server = server.expect("the client names its server");
    assert!(is_alive(server));
    client.kill().unwrap();
    client.wait().unwrap();
    let began = std::time::Instant::now();
    while is_alive(server) {
        // Only bounds how long a broken test hangs.
        assert!(began.elapsed().as_secs() < 60, "the server outlives its client");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
