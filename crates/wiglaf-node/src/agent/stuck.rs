//! Daemons of an MPI that stand still for ever after their last child has ended.
//!
//! When a rank dies early, mpirun or orted of Open MPI 4.1 with PMIx 4.2 now and
//! then wait for a lock of PMIx that nobody holds any more (about 1 death in 16 in
//! the first 0.1 s of a job): all ranks of the node have ended, none is reaped, and
//! the job never ends. The mark of it is checked here, and the daemon is ended.
//!
//! And daemons that the network leaves alone: on a real host, launchers and daemons may talk over another network
//! than Wiglaf does. When that one is out, a launcher with bytes on their way waits a quarter of an hour for the
//! kernel (tcp(7), `tcp_retries2`), because keepalive asks only where nothing is on its way. So the kernel
//! is asked over which connections it sends again, or asks, in vain, and the client is told.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use wiglaf_netlink::{Connection, Netlink};

use super::environment::is_anothers;
use super::jobs::{Look, Stat, look, pids};
use crate::proto::{self, Reply, StuckDaemon, Unanswered};

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
/// Gives those that had to be ended. Tells the client of the first that is left alone.
pub(super) fn watch(
    client: &UnixStream,
    job: &str,
    uid: u32,
    unheard: &mut Unheard,
) -> Vec<StuckDaemon> {
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
        if let Some(found) = unheard.look(|inode| owner(job, uid, inode)) {
            let _ = proto::send(client, &Reply::Unanswered(found), &[]);
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

/// The connections of this machine over which bytes or questions are sent again and again in vain.
#[derive(Debug)]
pub(super) struct Unheard {
    kernel: Option<Netlink>,
    limit: Duration,
    /// Sockets, by inode, and since when.
    since: HashMap<u32, Instant>,
}

impl Unheard {
    /// `limit`: how long that is endured; none: for ever. A kernel that tells nothing of connections is as patient.
    pub(super) fn new(limit: Option<Duration>) -> Self {
        Self {
            kernel: limit.and_then(|_| Netlink::sockets().ok()),
            limit: limit.unwrap_or_default(),
            since: HashMap::new(),
        }
    }

    /// One that has been unanswered for too long and whose socket has an owner that matters. Looks no further
    /// once it has found one.
    fn look(&mut self, owner: impl Fn(u32) -> Option<String>) -> Option<Unanswered> {
        let all = self.kernel.as_mut()?.connections().unwrap_or_default();
        let found = self.find(&all, Instant::now(), owner)?;
        self.kernel = None;
        Some(found)
    }

    fn find(
        &mut self,
        all: &[Connection],
        now: Instant,
        owner: impl Fn(u32) -> Option<String>,
    ) -> Option<Unanswered> {
        let is_silent =
            |one: &&Connection| (one.unacknowledged > 0 && one.timeouts > 0) || one.probes > 0;
        let silent: Vec<&Connection> = all.iter().filter(is_silent).collect();
        let inodes: HashSet<u32> = silent.iter().map(|one| one.inode).collect();
        self.since.retain(|inode, _| inodes.contains(inode));
        silent.into_iter().find_map(|one| {
            let since = now.duration_since(*self.since.entry(one.inode).or_insert(now));
            // Whose it is takes long to find out.
            let program = (since >= self.limit).then(|| owner(one.inode))??;
            Some(Unanswered { program, local: *one.local.ip(), remote: *one.remote.ip(), since })
        })
    }
}

/// The job's launcher or daemon that has this socket open.
fn owner(job: &str, uid: u32, inode: u32) -> Option<String> {
    let socket = format!("socket:[{inode}]");
    pids().unwrap_or_default().into_iter().find_map(|pid| {
        let name = fs::read_to_string(file(pid, "comm")).unwrap_or_default();
        let name = name.trim_end();
        if !DAEMONS.contains(&name) || is_anothers(pid, uid) || look(pid, job, uid) != Look::Marked
        {
            return None;
        }
        let mut open = fs::read_dir(file(pid, "fd")).into_iter().flatten().flatten();
        let has = |entry: fs::DirEntry| {
            fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == socket.as_str())
        };
        open.any(has).then(|| name.to_owned())
    })
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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use super::*;

    fn connection(inode: u32, unacknowledged: u32, timeouts: u8) -> Connection {
        let at = |last| SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, last), 47_000);
        Connection { local: at(1), remote: at(3), inode, unacknowledged, timeouts, probes: 0 }
    }

    #[test]
    fn only_an_unbroken_silence_of_a_daemon_that_is_long_enough_counts() {
        let limit = Duration::from_secs(8);
        let mut unheard = Unheard::new(Some(limit));
        let begin = Instant::now();
        let daemons = |inode| (inode < 10).then(|| "orted".to_owned());
        let mut look = |at: u64, all: &[Connection]| {
            unheard.find(all, begin + Duration::from_secs(at), daemons)
        };
        let others = [connection(2, 1, 0), connection(3, 0, 1), connection(12, 1, 9)];
        let with = |one: Connection| [others.as_slice(), &[one]].concat();
        assert_eq!(look(0, &with(connection(1, 1, 1))), None);
        assert_eq!(look(7, &with(connection(1, 1, 4))), None, "not yet");
        assert_eq!(look(8, &with(connection(1, 0, 0))), None, "answered");
        assert_eq!(look(9, &with(connection(1, 1, 1))), None);
        assert_eq!(look(16, &with(connection(1, 1, 4))), None);
        let found = look(17, &with(connection(1, 1, 5))).unwrap();
        assert_eq!((found.program.as_str(), found.since), ("orted", limit));
        assert_eq!(found.remote, Ipv4Addr::new(10, 9, 0, 3));
        let idle = [Connection { probes: 1, ..connection(4, 0, 0) }];
        assert_eq!(look(20, &idle), None);
        assert_eq!(look(28, &idle).unwrap().since, limit, "a daemon that has nothing to send");
    }
}
