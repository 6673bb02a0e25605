//! What a program takes of its machine, by the kernel's own account: a parent in between asks for it.
//!
//! The program stays as it is. Its standard streams and descriptors are the caller's, signals reach it, and
//! the caller ends as it did.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::end::End;
use crate::error::{Error, Result};
use crate::signals;

/// Variables in which launchers tell a process its rank.
const RANK_VARS: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "WIGLAF_RANK"];
/// The libraries of MPIs begin so.
const LIBRARIES: [&str; 2] = ["/libmpi.so", "/libmpich.so"];

/// What a program and the processes that it waited for took.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Usage {
    /// Its rank, where a launcher has said it.
    pub rank: Option<usize>,
    /// From its start to its end.
    pub wall_s: f64,
    /// In the program.
    pub user_s: f64,
    /// In the kernel on its behalf.
    pub system_s: f64,
    /// How it ended.
    pub end: End,
    /// Whether an MPI library was seen in it.
    pub has_mpi: bool,
}

/// Runs a program to its end. Must be called before other threads start.
///
/// # Errors
/// When it cannot be started.
pub fn measure(argv: &[OsString]) -> Result<Usage> {
    let Some((program, args)) = argv.split_first() else {
        return Err(Error::new("there is no program to run; name it behind `--`"));
    };
    let further = [signals::SUSPEND, signals::CONTINUE];
    let held = [&signals::ENDING[..], &signals::PROGRAMS, &further].concat();
    let held = signals::Held::new(&held);
    let start = Instant::now();
    let mut child = Command::new(program).arg0(program).args(args).spawn().map_err(|error| {
        Error::not_found(format!("`{}` could not be started: {error}", program.display()))
    })?;
    let number = child.id();
    let has_ended = Arc::new(AtomicBool::new(false));
    let ended = has_ended.clone();
    let pass_on = move |signal| {
        let pid = Pid::from_raw(number.cast_signed());
        if let (Some(pid), Some(signal), false) =
            (pid, Signal::from_named_raw(signal), ended.load(Ordering::Relaxed))
        {
            let _ = rustix::process::kill_process(pid, signal);
        }
    };
    held.pass_on(pass_on)?;
    let looking = look_for_mpi(number, has_ended.clone());
    let status = child.wait();
    let wall_s = start.elapsed().as_secs_f64();
    has_ended.store(true, Ordering::Relaxed);
    let status = status.map_err(|error| Error::new(format!("cannot wait: {error}")))?;
    let has_mpi = looking.join().unwrap_or_default();
    let (user_s, system_s) = of_children();
    let rank = RANK_VARS.iter().find_map(|name| std::env::var(name).ok()?.parse().ok());
    Ok(Usage { rank, wall_s, user_s, system_s, end: end_of(status), has_mpi })
}

fn end_of(status: ExitStatus) -> End {
    match status.signal() {
        Some(number) => End::Signal(number),
        None => End::Status(status.code().unwrap_or(1)),
    }
}

/// Looks whether the process maps an MPI: often at first, when a program that has one loads it.
fn look_for_mpi(pid: u32, has_ended: Arc<AtomicBool>) -> std::thread::JoinHandle<bool> {
    std::thread::spawn(move || {
        let maps = format!("/proc/{pid}/maps");
        for look in 0.. {
            let text = std::fs::read_to_string(&maps).unwrap_or_default();
            if text.lines().any(|line| LIBRARIES.iter().any(|name| line.contains(name))) {
                return true;
            }
            if has_ended.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(Duration::from_millis(if look < 100 { 10 } else { 500 }));
        }
        false
    })
}

/// User and system time of all processes that were waited for.
fn of_children() -> (f64, f64) {
    // SAFETY: a zeroed rusage is valid to be written to.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is live; the call touches nothing else.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}
