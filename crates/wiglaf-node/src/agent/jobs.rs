//! Jobs: all processes on a node that carry the same mark in their
//! environment, wherever in the process tree they are. An MPI runtime detaches
//! its daemons from whoever starts them; the mark still finds them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use wiglaf_base::process::stat_fields;

use super::environment::{Patience, is_anothers, job_of};
use super::remains;

pub(super) const SHM: &str = "/dev/shm";
/// A process that forks while it is hunted needs another pass.
pub(super) const PASSES_MAX: usize = 400;
pub(super) const PASS_PAUSE: Duration = Duration::from_millis(5);

/// What ranks' shared memory is called: Wiglaf's and its statistics, Open MPI 4 and 5 and their windows,
/// MPICH, UCX. Each has it open or mapped as long as it needs it.
const OF_RANKS: [&str; 8] = [
    "wiglaf-",
    "vader_segment.",
    "sm_segment.",
    "osc_sm.",
    "osc_rdma.",
    "mpich_shar_tmp",
    "mpich_shm_",
    "ucx_shm_posix_",
];

/// What is kept of a file's name beyond its bytes.
const NAME_COST: usize = 64;

/// The jobs that clients have leased.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    leased: Mutex<BTreeMap<Key, Lease>>,
}

/// Whose a job is, and its name: users choose names, so two may have the same.
type Key = (u32, String);

#[derive(Debug)]
struct Lease {
    /// Which files of that user were in /dev/shm before: others' are not removed anyway, and it is
    /// not others' names that fill this.
    before: BTreeSet<OsString>,
}

impl Jobs {
    fn leased(&self) -> MutexGuard<'_, BTreeMap<Key, Lease>> {
        self.leased.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches over a job of that user from now on, if `take` has room for so many bytes.
    ///
    /// # Errors
    /// When it cannot be seen what is in /dev/shm before.
    pub(super) fn lease(
        &self,
        job: &str,
        uid: u32,
        take: &dyn Fn(usize) -> bool,
    ) -> io::Result<bool> {
        let mut before = BTreeSet::new();
        for file in shm_files(uid)? {
            let file = file?;
            if !take(file.len() + NAME_COST) {
                return Ok(false);
            }
            before.insert(file);
        }
        self.leased().insert((uid, job.to_owned()), Lease { before });
        Ok(true)
    }

    /// The jobs that somebody watches over.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.leased().keys().map(|(_, job)| job.clone()).collect()
    }

    /// Ends a job's processes, and removes the shared memory of that user that they did not live to
    /// remove: all that came while it ran when no other process is left on the node, else what only
    /// ranks make and nobody uses. The node's `helper` (0: none) is no job's.
    pub(super) fn end(&self, job: &str, uid: u32, helper: i32) {
        sweep(job, uid);
        let mut leased = self.leased();
        let Some(Lease { before }) = leased.remove(&(uid, job.to_owned())) else { return };
        // What it left while others run is theirs to remove: they found it, and did not need it.
        for (_, other) in leased.iter_mut().filter(|((owner, _), _)| *owner == uid) {
            other.before.retain(|file| before.contains(file));
        }
        let files = shm_files(uid).into_iter().flatten().flatten();
        let new = files.filter(|file| !before.contains(file));
        if leased.is_empty() && process_count(helper).is_ok_and(|count| count == 0) {
            new.for_each(|file| drop(fs::remove_file(Path::new(SHM).join(file))));
            return;
        }
        // Who reads others' mappings may have to wait.
        drop(leased);
        remains::remove_unused(new.filter(|file| is_of_ranks(file)), &mut Patience::default());
    }
}

pub(super) fn is_of_ranks(file: &OsStr) -> bool {
    OF_RANKS.iter().any(|name| file.as_encoded_bytes().starts_with(name.as_bytes()))
}

/// Names of that user's files in /dev/shm. Another's file may be all that is to be found of a program
/// that comes back.
fn shm_files(uid: u32) -> io::Result<impl Iterator<Item = io::Result<OsString>>> {
    shm_files_that(move |meta| meta.uid() == uid)
}

/// Names of the files in /dev/shm that are wanted.
pub(super) fn shm_files_that(
    is_wanted: impl Fn(&fs::Metadata) -> bool,
) -> io::Result<impl Iterator<Item = io::Result<OsString>>> {
    let wanted = move |entry: fs::DirEntry| {
        entry.metadata().is_ok_and(|meta| is_wanted(&meta)).then(|| entry.file_name())
    };
    Ok(fs::read_dir(SHM)?.filter_map(move |entry| entry.map(&wanted).transpose()))
}

/// Kills everything that carries the job's mark and belongs to `uid`, and waits
/// until it has ended.
fn sweep(job: &str, uid: u32) {
    let mut patience = Patience::default();
    for _ in 0..PASSES_MAX {
        // What cannot be looked at, for want of descriptors, is not clean.
        if pass(job, uid, Signal::KILL, &mut patience).unwrap_or(false) {
            return;
        }
        std::thread::sleep(PASS_PAUSE);
    }
}

/// Signals everything that carries the job's mark and belongs to `uid`, once.
pub(super) fn signal(job: &str, uid: u32, number: i32) {
    if let Some(signal) = Signal::from_named_raw(number) {
        // One that could not be looked at is missed.
        let _ = pass(job, uid, signal, &mut Patience::default());
    }
}

/// One look at all processes, signalling the job's. Says whether there was none.
fn pass(job: &str, uid: u32, signal: Signal, patience: &mut Patience) -> io::Result<bool> {
    let mut is_clean = true;
    // A job of root's may have processes of others, and others' processes let readers wait.
    let (others, own): (Vec<_>, Vec<_>) =
        pids()?.into_iter().partition(|pid| uid == 0 && is_anothers(*pid, uid));
    let wanted = job.to_owned();
    let others = patience.look_at(others, move |pid| look(*pid, &wanted, uid));
    for (pid, seen) in own.into_iter().map(|pid| (pid, look(pid, job, uid))).chain(others) {
        match seen {
            Look::Other => {}
            Look::Unclear => is_clean = false,
            Look::Marked => {
                is_clean = false;
                let _ = kill_process(pid, signal);
            }
        }
    }
    Ok(is_clean)
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

/// Whether a process carries the mark of that job in its environment.
pub(super) fn look(pid: Pid, job: &str, uid: u32) -> Look {
    let dir = format!("/proc/{}", pid.as_raw_nonzero());
    let owned = uid == 0 || fs::metadata(&dir).is_ok_and(|meta| meta.uid() == uid);
    let stat = match Stat::read(pid) {
        Ok(Some(stat)) if owned && !stat.has_ended => stat,
        Err(_) if owned => return Look::Unclear,
        _ => return Look::Other,
    };
    if !stat.has_environment {
        return if is_closed(&stat.folder) { Look::Other } else { Look::Unclear };
    }
    let Ok(found) = job_of(&stat.folder) else { return Look::Unclear };
    match found.as_deref() == Some(job) {
        true => Look::Marked,
        // It may have lost its memory between the two readings.
        false => match Stat::read(pid) {
            Ok(Some(stat)) if !stat.has_ended && !stat.has_environment => Look::Unclear,
            Ok(_) => Look::Other,
            Err(_) => Look::Unclear,
        },
    }
}

/// Whether a process shows its environment to nobody but root, though it is the user's: sshd's, or one of
/// a program with more rights than its user. Such a one is no job's that could be ended.
pub(super) fn is_closed(folder: &str) -> bool {
    fs::File::open(format!("{folder}/environ"))
        .is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// A file of a process; empty when the process has gone, or is not ours to look at.
fn read(file: &str) -> io::Result<Vec<u8>> {
    match fs::read(file) {
        Err(error) if is_gone(&error) => Ok(Vec::new()),
        outcome => outcome,
    }
}

/// Whether it failed because the process has gone, or is not ours to look at.
pub(super) fn is_gone(error: &io::Error) -> bool {
    let gone = [libc::ENOENT, libc::ESRCH, libc::EACCES, libc::EPERM];
    error.raw_os_error().is_some_and(|number| gone.contains(&number))
}

/// The part of /proc/PID/stat that tells where in its life a process is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stat {
    /// Below /proc: the process's, or of a thread that lives when the first has ended.
    pub(super) folder: String,
    pub(super) has_ended: bool,
    /// Its memory, and in it the environment, is set up and not given back yet.
    pub(super) has_environment: bool,
    pub(super) parent: i32,
}

impl Stat {
    /// `None`: there is no such process.
    ///
    /// # Errors
    /// When that cannot be known, for want of descriptors.
    pub(super) fn read(pid: Pid) -> io::Result<Option<Self>> {
        let folder = format!("/proc/{}", pid.as_raw_nonzero());
        let ended = match Self::of(&folder)? {
            Some(stat) if stat.has_ended => stat,
            other => return Ok(other),
        };
        // A first thread that has ended while others run looks the same.
        let tasks = match fs::read_dir(format!("{folder}/task")) {
            Err(error) if is_gone(&error) => return Ok(Some(ended)),
            tasks => tasks?,
        };
        for task in tasks {
            let task = match task {
                Err(error) if is_gone(&error) => break,
                task => task?.file_name(),
            };
            let living = Self::of(&format!("{folder}/task/{}", task.to_string_lossy()))?;
            if let Some(living) = living.filter(|stat| !stat.has_ended) {
                return Ok(Some(living));
            }
        }
        Ok(Some(ended))
    }

    fn of(folder: &str) -> io::Result<Option<Self>> {
        Ok(Self::parse(&read(&format!("{folder}/stat"))?, folder))
    }

    pub(super) fn parse(text: &[u8], folder: &str) -> Option<Self> {
        let fields: Vec<&str> = stat_fields(text)?.collect();
        let number = |field: usize| fields.get(field - 3).and_then(|f| f.parse::<u64>().ok());
        const PARENT: usize = 4;
        const MEMORY_LEN: usize = 23;
        const ENVIRONMENT_END: usize = 51;
        Some(Self {
            folder: folder.to_owned(),
            has_ended: matches!(*fields.first()?, "Z" | "X" | "x"),
            parent: number(PARENT)? as i32,
            has_environment: number(MEMORY_LEN)? > 0 && number(ENVIRONMENT_END)? > 0,
        })
    }
}

/// All processes of the node but its init.
pub(super) fn pids() -> io::Result<Vec<Pid>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse::<i32>().ok());
        pids.extend(number.filter(|pid| *pid > 1).and_then(Pid::from_raw));
    }
    Ok(pids)
}

/// How many processes run on the node, its init, its helper and the dead not counted.
pub(super) fn process_count(helper: i32) -> io::Result<usize> {
    let mut count = 0;
    for pid in pids()?.into_iter().filter(|pid| pid.as_raw_nonzero().get() != helper) {
        count += usize::from(Stat::read(pid)?.is_some_and(|stat| !stat.has_ended));
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Resource, Rlimit, setrlimit};

    use super::*;
    use crate::proto::JOB_VAR;

    #[test]
    fn who_cannot_look_does_not_say_that_all_is_clean() {
        // The limit is the whole process's.
        if !crate::agent::is_alone(
            "agent::jobs::tests::who_cannot_look_does_not_say_that_all_is_clean",
        ) {
            return;
        }
        let mut marked = Command::new("sleep").arg("60").env(JOB_VAR, "alone").spawn().unwrap();
        let pid = Pid::from_child(&marked);
        while look(pid, "alone", 0) == Look::Unclear {}
        assert_eq!(look(pid, "alone", 0), Look::Marked);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum: Some(4096) }).unwrap();
        let seen = look(pid, "alone", 0);
        let (clean, jobs) =
            (pass("alone", 0, Signal::KILL, &mut Patience::default()), Jobs::default());
        let files: io::Result<Vec<_>> = shm_files(0).and_then(Iterator::collect);
        let (count, leased) = (process_count(0), jobs.lease("alone", 0, &|_| true));
        setrlimit(Resource::Nofile, Rlimit { current: Some(4096), maximum: Some(4096) }).unwrap();
        marked.kill().unwrap();
        marked.wait().unwrap();
        assert_eq!(seen, Look::Unclear);
        assert!(clean.is_err() && files.is_err() && count.is_err() && leased.is_err());
    }

    #[test]
    fn a_lease_keeps_the_names_of_its_users_files_and_pays_for_them() {
        // SAFETY: no pointers are handed over.
        let uid = unsafe { libc::geteuid() };
        let name = format!("wiglaf-test-{}", std::process::id());
        let file = Path::new(SHM).join(&name);
        fs::write(&file, "").unwrap();
        let jobs = Jobs::default();
        let taken = std::cell::Cell::new(0);
        let take = |len| {
            taken.set(taken.get() + len);
            true
        };
        assert!(jobs.lease("all", uid, &take).unwrap());
        assert!(taken.get() >= name.len());
        assert!(
            jobs.leased()[&(uid, "all".to_owned())]
                .before
                .contains(name.as_str().as_ref() as &std::ffi::OsStr)
        );
        assert!(jobs.lease("others", uid + 12345, &take).unwrap());
        assert!(jobs.leased()[&(uid + 12345, "others".to_owned())].before.is_empty());
        assert!(!jobs.lease("none", uid, &|_| false).unwrap());
        assert!(!jobs.leased().contains_key(&(uid, "none".to_owned())));
        fs::remove_file(file).unwrap();
    }

    #[test]
    fn a_job_of_the_same_name_of_another_user_keeps_its_lease() {
        let (jobs, name) = (Jobs::default(), "wiglaf-test-same-name");
        // Users that have neither processes nor files.
        let [ann, bob] = [3_999_999_001, 3_999_999_002];
        assert!(jobs.lease(name, ann, &|_| true).unwrap());
        assert!(jobs.lease(name, bob, &|_| true).unwrap());
        jobs.end(name, bob, 0);
        assert_eq!(jobs.names(), BTreeSet::from([name.to_owned()]), "the first has lost its own");
        jobs.end(name, ann, 0);
        assert!(jobs.names().is_empty());
    }
}
