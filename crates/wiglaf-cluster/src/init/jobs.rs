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

const SHM: &str = "/dev/shm";
/// A process that forks while it is hunted needs another pass.
const PASSES_MAX: usize = 400;
const PASS_PAUSE: Duration = Duration::from_millis(5);

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

    /// Ends a job's processes and, when no other process is left on the node,
    /// removes the shared memory that they did not live to remove.
    pub(super) fn end(&self, job: &str, uid: u32) {
        sweep(job, uid);
        let mut leased = self.leased();
        let Some(before) = leased.remove(job) else { return };
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

/// Kills everything that carries the job's mark and belongs to `uid`.
fn sweep(job: &str, uid: u32) {
    let mark = format!("{JOB_VAR}={job}");
    for _ in 0..PASSES_MAX {
        let marked: Vec<Pid> = pids().filter(|pid| is_marked(*pid, &mark, uid)).collect();
        if marked.is_empty() {
            return;
        }
        for pid in marked {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(PASS_PAUSE);
    }
}

fn is_marked(pid: Pid, mark: &str, uid: u32) -> bool {
    let dir = format!("/proc/{}", pid.as_raw_nonzero());
    let owned = uid == 0 || fs::metadata(&dir).is_ok_and(|meta| meta.uid() == uid);
    // Empty for one that has ended and waits to be reaped.
    let environ = fs::read(format!("{dir}/environ")).unwrap_or_default();
    owned && environ.split(|b| *b == 0).any(|var| var == mark.as_bytes())
}

/// All processes of the node but its init.
fn pids() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid > 1)
        .filter_map(Pid::from_raw)
}

/// How many processes run on the node, its init and the dead not counted.
pub(super) fn process_count() -> usize {
    pids()
        .filter(|pid| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            stat.is_ok_and(|s| s.rsplit_once(") ").is_some_and(|(_, s)| !s.starts_with('Z')))
        })
        .count()
}
