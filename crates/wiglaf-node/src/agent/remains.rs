//! What is left of jobs on a node although nobody waits for them any more. Leases
//! (see `jobs`) are there so that this finds nothing; it is for what escaped them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use super::children::Children;
use super::environment::{Patience, is_anothers, job_of};
use super::jobs::{
    PASS_PAUSE, PASSES_MAX, SHM, Stat, is_closed, is_gone, is_of_ranks, pids, shm_files_that,
};
use super::slice;
use crate::mounts;
use crate::proto::{RemainingProcess, Remains};

/// As much of a command line is told, in bytes.
const COMMAND_LEN_MAX: u64 = 4096;

/// Whose the processes of a node are that nobody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// All are of jobs but this one: the node is an emulated one.
    OfJobsBut(i32),
    /// Those with the mark of a job are of jobs, and so are files that are called like ranks': the host
    /// has users besides.
    Marked,
}

/// Ends and removes what is left, of the user `uid` or, for root, of everybody.
///
/// # Errors
/// When it cannot be seen what there is.
pub(super) fn remove(
    children: &Children,
    running: &BTreeSet<String>,
    whose: Whose,
    uid: u32,
) -> io::Result<Remains> {
    let mut remains = Remains::default();
    if whose == Whose::Marked {
        for (folder, pids) in slice::left(uid, |job| running.contains(job)) {
            let told = pids
                .into_iter()
                .map(|pid| RemainingProcess { pid, command: command_of(&format!("/proc/{pid}")) });
            remains.processes.extend(told);
            slice::end(&folder);
        }
    }
    let mut patience = Patience::default();
    let mut outcome = Ok(false);
    for _ in 0..PASSES_MAX {
        outcome = pass(children, running, (whose, uid), &mut patience, &mut remains);
        if matches!(outcome, Ok(true)) {
            break;
        }
        std::thread::sleep(PASS_PAUSE);
    }
    outcome?;
    // A running job may have made a file that it has not opened yet.
    if running.is_empty() {
        let files = files_of(uid, whose).filter(|file| whose != Whose::Marked || is_of_ranks(file));
        remains.shared_memory = remove_unused(files, &mut patience);
    }
    if uid == 0 {
        remains.mounts = mounts::remove_dead();
    }
    Ok(remains)
}

/// Kills what is left, and says whether there was nothing.
fn pass(
    children: &Children,
    leased: &BTreeSet<String>,
    (whose, uid): (Whose, u32),
    patience: &mut Patience,
    remains: &mut Remains,
) -> io::Result<bool> {
    // Looked at first: a command that starts later is not among them, and so not taken for one
    // that was left. Not looked at with the commands held: a process can make its readers wait.
    let seen = pids()?;
    let helper = match whose {
        Whose::OfJobsBut(helper) => helper,
        Whose::Marked => 0,
    };
    let awaited: BTreeSet<i32> = children.running().into_iter().chain([helper]).collect();
    let mut is_clean = true;
    let mut left = Vec::new();
    for pid in seen {
        if descends(pid, &awaited)? {
            continue;
        }
        let dir = format!("/proc/{}", pid.as_raw_nonzero());
        let owned = match whose {
            Whose::OfJobsBut(_) => uid == 0 || is_of(&dir, uid),
            // Of root, too, only its own, and none of an emulated node's, which its init watches over.
            Whose::Marked => is_of(&dir, uid) && is_of_this_namespace(&dir),
        };
        match Stat::read(pid)?.filter(|stat| owned && !stat.has_ended) {
            Some(stat) if stat.has_environment => left.push((pid, stat)),
            Some(stat) if !is_closed(&stat.folder) => is_clean = false,
            _ => {}
        }
    }
    // One that lets root wait stays: nobody knows whose it is.
    let (others, own): (Vec<_>, Vec<_>) =
        left.into_iter().partition(|(pid, _)| uid == 0 && is_anothers(*pid, uid));
    let look = |(_, stat): &(Pid, Stat)| job_of(&stat.folder);
    let others = patience.look_at(others, look);
    let own = own.into_iter().map(|own| {
        let job = look(&own);
        (own, job)
    });
    for ((pid, stat), job) in own.chain(others) {
        match job? {
            Some(job) if leased.contains(&job) => continue,
            None if whose == Whose::Marked => continue,
            _ => {}
        }
        is_clean = false;
        let pid_number = pid.as_raw_nonzero().get();
        // The killed take a while to end.
        if !remains.processes.iter().any(|known| known.pid == pid_number) {
            let command = command_of(&stat.folder);
            remains.processes.push(RemainingProcess { pid: pid_number, command });
        }
        let _ = kill_process(pid, Signal::KILL);
    }
    Ok(is_clean)
}

/// The command line of a process below /proc, or what it begins with.
pub(super) fn command_of(folder: &str) -> String {
    let command = beginning(&format!("{folder}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).replace('\0', " ").trim().to_owned()
}

pub(super) fn is_of(process: &str, uid: u32) -> bool {
    fs::metadata(process).is_ok_and(|meta| meta.uid() == uid)
}

/// Whether a process counts pids as this one does.
pub(super) fn is_of_this_namespace(process: &str) -> bool {
    let own = fs::read_link("/proc/self/ns/pid");
    matches!((fs::read_link(format!("{process}/ns/pid")), own), (Ok(a), Ok(b)) if a == b)
}

/// What a file begins with: a command line may have megabytes.
fn beginning(file: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(file)?.take(COMMAND_LEN_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether a process is one of these, or below one.
fn descends(pid: Pid, ancestors: &BTreeSet<i32>) -> io::Result<bool> {
    let mut next = Some(pid);
    while let Some(pid) = next {
        if ancestors.contains(&pid.as_raw_nonzero().get()) {
            return Ok(true);
        }
        next = Stat::read(pid)?.and_then(|stat| Pid::from_raw(stat.parent));
    }
    Ok(false)
}

/// The files of that user in /dev/shm; everybody's, for root on an emulated node.
fn files_of(uid: u32, whose: Whose) -> impl Iterator<Item = OsString> {
    let is_all = uid == 0 && whose != Whose::Marked;
    let owned = move |meta: &fs::Metadata| !meta.is_dir() && (is_all || meta.uid() == uid);
    shm_files_that(owned).into_iter().flatten().flatten()
}

/// Removes those of these files in /dev/shm that no process has open or mapped. Where others let us
/// wait for that, the files stay.
pub(super) fn remove_unused(
    files: impl Iterator<Item = OsString>,
    patience: &mut Patience,
) -> Vec<String> {
    let files = files.map(|file| Path::new(SHM).join(file)).collect();
    let looked = patience.look_at(files, |path: &PathBuf| is_in_use(path));
    let unused = looked.into_iter().filter(|(_, is_in_use)| !is_in_use).map(|(path, _)| path);
    let removed = unused.filter(|path| fs::remove_file(path).is_ok());
    let name = |path: PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut names: Vec<String> = removed.map(name).collect();
    names.sort();
    names
}

/// Also when that cannot be known.
fn is_in_use(file: &Path) -> bool {
    let shown = file.as_os_str().as_encoded_bytes();
    let is_in_use_by = |pid: Pid| -> io::Result<bool> {
        let Some(Stat { folder: dir, .. }) = Stat::read(pid)? else { return Ok(false) };
        if is_mapped(shown, &format!("{dir}/maps"))? {
            return Ok(true);
        }
        let open = match fs::read_dir(format!("{dir}/fd")) {
            Ok(open) => open.flatten(),
            Err(error) if is_gone(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        Ok(open.into_iter().any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == file)))
    };
    pids().map_or(true, |pids| pids.into_iter().any(|pid| is_in_use_by(pid).unwrap_or(true)))
}

/// Whether a list of mappings has one of that file. Line by line: a list may have as many mappings as
/// its process likes, each with a path of 4 KiB.
fn is_mapped(file: &[u8], maps: &str) -> io::Result<bool> {
    let search = |maps: fs::File| -> io::Result<bool> {
        let (mut maps, mut line) = (BufReader::new(maps), Vec::new());
        while maps.read_until(b'\n', &mut line)? > 0 {
            if line.trim_ascii_end().ends_with(file) {
                return Ok(true);
            }
            line.clear();
        }
        Ok(false)
    };
    match fs::File::open(maps).and_then(search) {
        Err(error) if is_gone(&error) => Ok(false),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_in_use_while_it_is_open() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(is_in_use(file.path()));
        let path = file.into_temp_path();
        assert!(!is_in_use(&path));
    }
}
