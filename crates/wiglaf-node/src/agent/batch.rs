//! What is left of a batch system's job on a host, by the marks of its processes and never by their user alone: a
//! desktop's owner may have jobs on it as well.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::process::{Pid, Signal, kill_process};
use wiglaf_base::paths::{JOB_VAR, batch_job};

use super::environment::{Patience, variables_of};
use super::jobs::{PASS_PAUSE, PASSES_MAX, Stat, is_closed, is_of_ranks, pids, shm_files_that};
use super::remains::{command_of, is_of, is_of_this_namespace, remove_unused};
use crate::proto::{RemainingProcess, Remains};

/// What Slurm's daemon of a node sets for all that it starts in a job, together.
const SLURM: [&str; 2] = ["SLURM_JOB_ID", "SLURMD_NODENAME"];

/// A job of a batch system on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchJob {
    /// The number that the batch system gave it.
    pub id: u32,
    /// Whose it is.
    pub uid: u32,
    /// What the batch system calls this host.
    pub node: String,
}

impl BatchJob {
    /// Whether a process with these variables is the job's: it bears its mark, or the batch system has started
    /// it. A number alone says nothing: `salloc` gives it to a shell of the user's, on whichever host.
    fn has(&self, [mark, id, node]: &[Option<String>; 3]) -> bool {
        let by_mark = mark.as_deref().and_then(batch_job) == Some(self.id);
        let by_slurm = id.as_deref() == Some(&self.id.to_string())
            && node.as_deref() == Some(self.node.as_str());
        by_mark || by_slurm
    }
}

/// Ends what is left of a job, and removes files of ranks that its user has left in /dev/shm and no process uses.
///
/// # Errors
/// When it cannot be seen what there is.
pub fn end_batch_job(job: &BatchJob) -> io::Result<Remains> {
    let mut remains = Remains::default();
    let mut patience = Patience::default();
    let (mut is_clean, mut has_others) = (false, false);
    for _ in 0..PASSES_MAX {
        (is_clean, has_others) = pass(job, &mut patience, &mut remains)?;
        if is_clean {
            break;
        }
        std::thread::sleep(PASS_PAUSE);
    }
    // Another job of the user's may have made a file that it has not opened yet.
    if is_clean && !has_others {
        let files = shm_files_that(|meta| !meta.is_dir() && meta.uid() == job.uid)?.flatten();
        let files = files.filter(|file| is_of_ranks(file));
        remains.shared_memory = remove_unused(files, &mut patience);
    }
    Ok(remains)
}

/// The processes of a job on this host.
///
/// # Errors
/// When it cannot be seen what there is.
pub fn processes_of_batch_job(job: &BatchJob) -> io::Result<Vec<Pid>> {
    let (all, _) = of_user(job.uid, &BTreeSet::new())?;
    // What cannot be read has ended, or is not the user's any more.
    let looked = Patience::default().look_at(all, variables_of_job).into_iter();
    let has = |variables: &io::Result<[Option<String>; 3]>| {
        variables.as_ref().is_ok_and(|all| job.has(all))
    };
    Ok(looked.filter(|(_, variables)| has(variables)).map(|((pid, _), _)| pid).collect())
}

/// The processes of a user here that may be a job's, but for some, and whether there is none whose environment cannot
/// be told.
fn of_user(uid: u32, but: &BTreeSet<i32>) -> io::Result<(Vec<(Pid, Stat)>, bool)> {
    let (mut all, mut is_told) = (Vec::new(), true);
    for pid in pids()? {
        let dir = format!("/proc/{}", pid.as_raw_nonzero());
        if but.contains(&pid.as_raw_nonzero().get())
            || !is_of(&dir, uid)
            || !is_of_this_namespace(&dir)
        {
            continue;
        }
        match Stat::read(pid)?.filter(|stat| !stat.has_ended) {
            Some(stat) if stat.has_environment => all.push((pid, stat)),
            Some(stat) if !is_closed(&stat.folder) => is_told = false,
            _ => {}
        }
    }
    Ok((all, is_told))
}

/// Those that say whose job a process is.
fn variables_of_job((_, stat): &(Pid, Stat)) -> io::Result<[Option<String>; 3]> {
    variables_of(&stat.folder, [JOB_VAR, SLURM[0], SLURM[1]])
}

/// Kills what is left. Says whether there was nothing, and whether the user has other jobs.
fn pass(
    job: &BatchJob,
    patience: &mut Patience,
    remains: &mut Remains,
) -> io::Result<(bool, bool)> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    // The batch system's own script, which this process is of, is no part of the job.
    let (left, mut is_clean) = of_user(job.uid, &ancestors(own)?)?;
    let mut has_others = false;
    for ((pid, stat), variables) in patience.look_at(left, variables_of_job) {
        let variables = variables?;
        if !job.has(&variables) {
            has_others |= variables[0].is_some();
            continue;
        }
        is_clean = false;
        let pid_number = pid.as_raw_nonzero().get();
        if !remains.processes.iter().any(|known| known.pid == pid_number) {
            let command = command_of(&stat.folder);
            remains.processes.push(RemainingProcess { pid: pid_number, command });
        }
        let _ = kill_process(pid, Signal::KILL);
    }
    Ok((is_clean, has_others))
}

/// A process and all above it.
fn ancestors(pid: i32) -> io::Result<BTreeSet<i32>> {
    let mut all = BTreeSet::new();
    let mut next = Pid::from_raw(pid);
    while let Some(pid) = next.filter(|pid| all.insert(pid.as_raw_nonzero().get())) {
        next = Stat::read(pid)?.and_then(|stat| Pid::from_raw(stat.parent));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_is_the_jobs_by_its_mark_or_by_all_that_slurm_sets() {
        let job = BatchJob { id: 7, uid: 1000, node: "pc2".to_owned() };
        let mark = |id| wiglaf_base::paths::mark(0xabc, id);
        let has = |mark: Option<String>, id: &str, node: &str| {
            let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            job.has(&[mark, given(id), given(node)])
        };
        assert!(has(Some(mark(Some(7))), "", ""));
        assert!(has(None, "7", "pc2"));
        assert!(!has(Some(mark(Some(8))), "", ""), "another job");
        assert!(!has(Some(mark(None)), "", ""), "a job outside of Slurm");
        assert!(!has(None, "7", ""), "a shell of salloc");
        assert!(!has(None, "7", "pc1"), "what came from another node");
        assert!(!has(None, "71", "pc2") && !has(None, "", "pc2") && !has(None, "", ""));
        assert_eq!(batch_job("0000000000000007"), None, "no number");
    }
}
