//! Daemons of an MPI that stand still for ever after their last child has ended.
//!
//! When a rank dies early, mpirun or orted of Open MPI 4.1 with PMIx 4.2 now and
//! then wait for a lock of PMIx that nobody holds any more (about 1 death in 16 in
//! the first 0.1 s of a job): all ranks of the node have ended, none is reaped, and
//! the job never ends. The mark of it is checked here, and the daemon is ended.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use super::environment::is_anothers;
use super::jobs::{Look, Stat, look, pids};
use crate::proto::StuckDaemon;

/// Pause between two looks.
const INTERVAL: Duration = Duration::from_millis(500);
/// So many looks in a row must see the same: a lock that is free comes sooner.
const SIGHTINGS: u32 = 3;
/// What these daemons are called, as the kernel shows it. Other programs may well
/// wait for a lock of theirs and leave their children unreaped.
const DAEMONS: [&str; 11] = [
    "mpirun",
    "mpirun.openmpi",
    "mpiexec",
    "mpiexec.openmpi",
    "mpiexec.hydra",
    "hydra_pmi_proxy",
    "orterun",
    "orted",
    "prterun",
    "prte",
    "prted",
];

/// Watches over the daemons of a job until its client says something or goes away.
/// Gives those that had to be ended.
pub(super) fn watch(client: &UnixStream, job: &str, uid: u32) -> Vec<StuckDaemon> {
    let interval = Timespec { tv_sec: 0, tv_nsec: INTERVAL.as_nanos() as _ };
    let mut sightings = HashMap::new();
    let mut ended = Vec::new();
    loop {
        let mut fds = [PollFd::new(client, PollFlags::IN)];
        match poll(&mut fds, Some(&interval)) {
            Ok(0) => {}
            Err(rustix::io::Errno::INTR) => continue,
            _ => return ended,
        }
        let seen = find(job, uid);
        sightings.retain(|pid, _| seen.iter().any(|(seen, _)| seen == pid));
        for (pid, name) in seen {
            let count = sightings.entry(pid).or_insert(0);
            *count += 1;
            if *count == SIGHTINGS && kill_process(pid, Signal::KILL).is_ok() {
                ended.push(StuckDaemon { pid: pid.as_raw_nonzero().get(), name });
            }
        }
    }
}

/// The job's daemons that look stuck now: they wait for a lock, and all of their
/// children have ended and are not reaped.
fn find(job: &str, uid: u32) -> Vec<(Pid, String)> {
    let name = |pid: &Pid| fs::read_to_string(file(*pid, "comm")).unwrap_or_default();
    // Who cannot look ends nobody.
    let all = pids().unwrap_or_default();
    let named = all.iter().map(|pid| (*pid, name(pid).trim_end().to_owned()));
    let daemons: Vec<(Pid, String)> =
        named.filter(|(_, name)| DAEMONS.contains(&name.as_str())).collect();
    if daemons.is_empty() {
        return daemons;
    }
    let stats = all.iter().map(|pid| Stat::read(*pid)).collect::<io::Result<Vec<_>>>();
    let Ok(stats) = stats else { return Vec::new() };
    let is_stuck = |pid: Pid| {
        let parent = pid.as_raw_nonzero().get();
        let mut children = stats.iter().flatten().filter(|stat| stat.parent == parent).peekable();
        children.peek().is_some()
            && children.all(|child| child.has_ended)
            && waits_for_lock(pid)
            // Another's daemon is none of the job's, and may let its readers wait.
            && !is_anothers(pid, uid)
            && look(pid, job, uid) == Look::Marked
    };
    daemons.into_iter().filter(|(pid, _)| is_stuck(*pid)).collect()
}

/// Whether a process's first thread, which runs the daemon's event loop, is in a
/// futex call (proc_pid_syscall(5)).
fn waits_for_lock(pid: Pid) -> bool {
    let text = fs::read_to_string(file(pid, "syscall")).unwrap_or_default();
    text.split_ascii_whitespace().next().and_then(|n| n.parse().ok()) == Some(libc::SYS_futex)
}

fn file(pid: Pid, name: &str) -> String {
    format!("/proc/{}/{name}", pid.as_raw_nonzero())
}
