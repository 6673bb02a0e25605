//! Jobs: all processes on a node that carry the same mark in their
//! environment, wherever in the process tree they are. An MPI runtime detaches
//! its daemons from whoever starts them; the mark still finds them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::proto::JOB_VAR;

pub(super) const SHM: &str = "/dev/shm";
/// A process that forks while it is hunted needs another pass.
pub(super) const PASSES_MAX: usize = 400;
pub(super) const PASS_PAUSE: Duration = Duration::from_millis(5);

/// The jobs that clients have leased, with what was in /dev/shm before each.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    leased: Mutex<BTreeMap<String, BTreeSet<OsString>>>,
}

impl Jobs {
    fn leased(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<OsString>>> {
        self.leased.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches over a job from now on.
    pub(super) fn lease(&self, job: &str) {
        let before = shm_files();
        self.leased().insert(job.to_owned(), before);
    }

    /// The jobs that somebody watches over.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.leased().keys().cloned().collect()
    }

    /// Ends a job's processes and, when no other process is left on the node,
    /// removes the shared memory that they did not live to remove.
    pub(super) fn end(&self, job: &str, uid: u32) {
        sweep(job, uid);
        let mut leased = self.leased();
        let Some(before) = leased.remove(job) else { return };
        // What it left while others run is theirs to remove: they found it, and did not need it.
        for found in leased.values_mut() {
            found.retain(|file| before.contains(file));
        }
        if leased.is_empty() && process_count() == 0 {
            for file in shm_files().difference(&before) {
                let _ = fs::remove_file(std::path::Path::new(SHM).join(file));
            }
        }
    }
}

fn shm_files() -> BTreeSet<OsString> {
    fs::read_dir(SHM)
        .map(|d| d.filter_map(|e| Some(e.ok()?.file_name())).collect())
        .unwrap_or_default()
}

/// Kills everything that carries the job's mark and belongs to `uid`, and waits
/// until it has ended.
fn sweep(job: &str, uid: u32) {
    let mark = mark(job);
    for _ in 0..PASSES_MAX {
        let mut is_clean = true;
        for pid in pids() {
            match look(pid, &mark, uid) {
                Look::Other => {}
                Look::Unclear => is_clean = false,
                Look::Marked => {
                    is_clean = false;
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
        }
        if is_clean {
            return;
        }
        std::thread::sleep(PASS_PAUSE);
    }
}

/// What stands in the environment of all processes of a job.
pub(super) fn mark(job: &str) -> String {
    format!("{JOB_VAR}={job}")
}

/// What a process turns out to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// One of the job's.
    Marked,
    /// On its way out, or about to become another program: look again.
    Unclear,
    /// None of ours, or one that has ended.
    Other,
}

pub(super) fn look(pid: Pid, mark: &str, uid: u32) -> Look {
    let dir = format!("/proc/{}", pid.as_raw_nonzero());
    let owned = uid == 0 || fs::metadata(&dir).is_ok_and(|meta| meta.uid() == uid);
    let Some(stat) = Stat::read(pid).filter(|stat| owned && !stat.has_ended) else {
        return Look::Other;
    };
    if !stat.has_environment {
        return Look::Unclear;
    }
    let environ = fs::read(format!("{dir}/environ")).unwrap_or_default();
    match environ.split(|b| *b == 0).any(|var| var == mark.as_bytes()) {
        true => Look::Marked,
        // It may have lost its memory between the two readings.
        false if Stat::read(pid).is_some_and(|s| !s.has_ended && !s.has_environment) => {
            Look::Unclear
        }
        false => Look::Other,
    }
}

/// The part of /proc/PID/stat that tells where in its life a process is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) has_ended: bool,
    /// Its memory, and in it the environment, is set up and not given back yet.
    pub(super) has_environment: bool,
    pub(super) parent: i32,
}

impl Stat {
    pub(super) fn read(pid: Pid) -> Option<Self> {
        let text = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The name before the last bracket may hold anything.
        let behind_name = text.iter().rposition(|b| *b == b')')? + 1;
        let fields: Vec<&str> =
            std::str::from_utf8(&text[behind_name..]).ok()?.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3).and_then(|f| f.parse::<u64>().ok());
        const PARENT: usize = 4;
        const MEMORY_LEN: usize = 23;
        const ENVIRONMENT_END: usize = 51;
        Some(Self {
            has_ended: matches!(*fields.first()?, "Z" | "X" | "x"),
            parent: number(PARENT)? as i32,
            has_environment: number(MEMORY_LEN)? > 0 && number(ENVIRONMENT_END)? > 0,
        })
    }
}

/// All processes of the node but its init.
pub(super) fn pids() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid > 1)
        .filter_map(Pid::from_raw)
}

/// How many processes run on the node, its init, its helper and the dead not counted.
pub(super) fn process_count() -> usize {
    let helper = super::helper::pid();
    pids()
        .filter(|pid| pid.as_raw_nonzero().get() != helper)
        .filter(|pid| Stat::read(*pid).is_some_and(|stat| !stat.has_ended))
        .count()
}
