//! What the nodes' processes hold, seen from the machine that emulates them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use wiglaf_bench::soak::Sample;
use wiglaf_cluster::Record;

/// The processes of the emulated nodes.
pub(super) struct Watch {
    /// PID 1 of each node.
    inits: Vec<i32>,
    /// Their PID namespaces.
    namespaces: Vec<PathBuf>,
    /// What was there before any job: what keeps the nodes.
    keepers: BTreeSet<i32>,
    /// The job that runs all the time.
    job: BTreeSet<i32>,
    /// Where its ranks say what they hold from malloc, a file for each.
    heaps: PathBuf,
}

impl Watch {
    pub(super) fn new(record: &Record, heaps: PathBuf) -> Self {
        let inits: Vec<i32> = record.nodes.iter().map(|process| process.pid).collect();
        let namespaces = inits.iter().filter_map(|pid| namespace(*pid)).collect();
        let (keepers, job) = Default::default();
        let mut watch = Self { inits, namespaces, keepers, job, heaps };
        watch.keepers = watch.processes();
        watch
    }

    /// All processes on the nodes.
    fn processes(&self) -> BTreeSet<i32> {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| namespace(*pid).is_some_and(|ns| self.namespaces.contains(&ns)))
            .collect()
    }

    /// Those that run `program`, which nobody else does yet: the job to watch. Answers how many.
    pub(super) fn find_job(&mut self, program: &Path) -> usize {
        // A node may see the program below another root.
        let runs = |pid: &i32| {
            let exe = fs::read_link(format!("/proc/{pid}/exe"));
            exe.is_ok_and(|exe| exe.file_name() == program.file_name())
        };
        self.job = self.processes().into_iter().filter(runs).collect();
        self.job.len()
    }

    /// How many there are that are neither of the job, with its launchers, nor keep the nodes.
    pub(super) fn strangers(&self, launchers: &BTreeSet<i32>) -> usize {
        let all = self.processes();
        all.iter()
            .filter(|pid| {
                !self.job.contains(pid) && !self.keepers.contains(pid) && !launchers.contains(pid)
            })
            .count()
    }

    /// What else came with the job that was found: its launchers.
    pub(super) fn launchers(&self) -> BTreeSet<i32> {
        let known = |pid: &i32| self.job.contains(pid) || self.keepers.contains(pid);
        self.processes().into_iter().filter(|pid| !known(pid)).collect()
    }

    /// Looks at everything.
    pub(super) fn sample(&self, at_s: f64) -> Sample {
        let sum =
            |pids: &BTreeSet<i32>, what: fn(i32) -> u64| pids.iter().map(|pid| what(*pid)).sum();
        let mut sample = Sample {
            at_s,
            job_rss_kib: sum(&self.job, rss_kib),
            job_heap_kib: numbers(&self.heaps) / 1024,
            job_fds: sum(&self.job, descriptors),
            nodes_rss_kib: sum(&self.keepers, rss_kib),
            nodes_fds: sum(&self.keepers, descriptors),
            ..Sample::default()
        };
        for init in &self.inits {
            let folder = fs::read_dir(format!("/proc/{init}/root/dev/shm"));
            for file in folder.into_iter().flatten().flatten() {
                sample.shm_files += 1;
                sample.shm_kib += file.metadata().map_or(0, |m| m.blocks() / 2);
            }
        }
        sample
    }
}

fn namespace(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

/// Resident memory, from `VmRSS` of proc_pid_status(5).
fn rss_kib(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The sum of the numbers that the files of a folder hold.
fn numbers(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_to_string(file.path()).ok()?.trim().parse::<u64>().ok()).sum()
}

fn descriptors(pid: i32) -> u64 {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count() as u64)
}
