//! The agent of a real host: a server of its user's commands for one client, at the other end of ssh.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use wiglaf_base::error::{Context, Result};
use wiglaf_base::paths::EXE;
use wiglaf_base::program::is_executable;
use wiglaf_base::{machine, network};

use super::server::{About, Server};
use super::slice::{Slice, is_plain};
use crate::proto::{HostHello, JOB_VAR, Seen, VERSION};
use crate::{ssh, tunnel};

/// A longer file is told by its length alone: bytes.
const DIGEST_LEN_MAX: u64 = 1 << 30;
/// Below the folder of secrets: a file for each job, locked while somebody watches over it.
const JOBS: &str = "jobs";

/// The hidden command `wiglaf host-agent`: serves one client on standard input and output, and ends with
/// it.
///
/// # Errors
/// When there is no folder for secrets, or no thread.
pub fn main() -> Result<()> {
    wiglaf_base::signals::forget_inherited();
    let keys = ssh::runtime_dir()?.join("keys");
    // What a job detaches from its launcher is still found as ours, and reaped.
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own)).cannot(|| "adopt processes".to_owned())?;
    let about = About {
        name: machine::name(),
        address: Some(Ipv4Addr::UNSPECIFIED),
        state: None,
        libdir: None,
        keys,
    };
    let server = Server::new(about, None);
    server.reap()?;
    let (ours, theirs) = UnixStream::pair().cannot(|| "make a pair of sockets".to_owned())?;
    let serving = server.serve_one(theirs)?;
    let copy = |fd: io::Result<std::os::fd::OwnedFd>| fd.cannot(|| "copy a stream".to_owned());
    let from = File::from(copy(io::stdin().as_fd().try_clone_to_owned())?);
    let to = File::from(copy(io::stdout().as_fd().try_clone_to_owned())?);
    let outcome = tunnel::serve(ours, from, to, VERSION).cannot(|| "answer the client".to_owned());
    // It ends what it runs, and the job that it watches over.
    let _ = serving.join();
    outcome
}

/// What this host says of itself.
pub(super) fn hello() -> Result<HostHello> {
    Ok(HostHello {
        machine: machine::name(),
        wiglaf: env!("CARGO_PKG_VERSION").to_owned(),
        exe: std::env::current_exe().cannot(|| "find the running wiglaf".to_owned())?,
        addresses: network::addresses(),
        cores: machine::cores().len(),
        uid: rustix::process::geteuid().as_raw(),
        runtime: ssh::runtime_dir()?,
    })
}

/// What is at a path.
#[must_use]
pub fn look(path: &Path) -> Option<Seen> {
    let about = fs::metadata(path).ok()?;
    let is_executable = rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    let digest = (about.is_file() && about.len() <= DIGEST_LEN_MAX).then(|| digest(path).ok());
    let digest = digest.flatten();
    Some(Seen { is_folder: about.is_dir(), is_executable, len: about.len(), digest })
}

/// Tells files apart; two agents of one version make the same of the same file.
fn digest(path: &Path) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    let mut file = File::open(path)?;
    let mut piece = vec![0; 256 << 10];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hasher.finish()),
            count => hasher.write(&piece[..count]),
        }
    }
}

/// The program that a command names. The `wiglaf` of emulated nodes is this one: each host has its own.
pub(super) fn program(name: &OsStr) -> Result<PathBuf> {
    match name == EXE {
        true => std::env::current_exe().cannot(|| "find the running wiglaf".to_owned()),
        false => Ok(PathBuf::from(name)),
    }
}

/// Where a command starts: the caller's folder, where it is here, or the user's home.
pub(super) fn folder(wanted: &Path) -> PathBuf {
    let may_enter = |path: &Path| {
        path.is_dir() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    if may_enter(wanted) {
        return wanted.to_path_buf();
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| may_enter(home));
    home.unwrap_or_else(|| PathBuf::from("/"))
}

/// The job's name if it may be a file's.
fn file_of(keys: &Path, job: &str) -> Option<PathBuf> {
    is_plain(job).then(|| keys.join(job))
}

/// What `WIGLAF_KEY` is to be for a command of a job whose secret is kept here.
pub(super) fn key_of(env: &[(OsString, OsString)], keys: &Path) -> Option<String> {
    let (_, job) = env.iter().find(|(name, _)| name == JOB_VAR)?;
    let file = file_of(keys, job.to_str()?)?;
    file.is_file().then(|| format!("@{}", file.display()))
}

/// The slice that a command of a job is to run in, where the job has one here.
pub(super) fn slice_of(env: &[(OsString, OsString)], keys: &Path) -> Option<Slice> {
    let (_, job) = env.iter().find(|(name, _)| name == JOB_VAR)?;
    let job = job.to_str()?;
    let noted = fs::read_to_string(file_of(&keys.join(JOBS), job)?).ok()?;
    Slice::from_text(job, &noted)
}

/// Whether a command of that name would start there; what a shell cannot find is not for systemd-run to say.
pub(super) fn would_start(program: &Path, cwd: &Path, path: Option<&OsStr>) -> bool {
    let is_there = |at: &Path| is_executable(at);
    if program.components().count() > 1 || program.is_absolute() {
        return is_there(&cwd.join(program));
    }
    let own = std::env::var_os("PATH");
    let path = path.or(own.as_deref()).unwrap_or_default();
    std::env::split_paths(path).any(|folder| is_there(&cwd.join(folder).join(program)))
}

/// A job that somebody watches over, as other agents of this user see it.
#[derive(Debug)]
pub(super) struct RunningJob {
    path: PathBuf,
    noted: File,
}

impl RunningJob {
    /// Notes it until this is dropped, or this process ends.
    ///
    /// # Errors
    /// When it is running already, its name could be no file's, or there is no room.
    pub(super) fn note(keys: &Path, job: &str) -> io::Result<Self> {
        let folder = keys.join(JOBS);
        let path = file_of(&folder, job).ok_or(io::ErrorKind::InvalidInput)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let file =
            File::options().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, noted: file }),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Tells other agents which slice the job's commands run in.
    pub(super) fn keep_in(&mut self, slice: &Slice) -> io::Result<()> {
        self.noted.write_all(slice.to_text().as_bytes())
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The jobs of this user that somebody watches over. Removes what others have left.
pub(super) fn running_jobs(keys: &Path) -> BTreeSet<String> {
    let mut running = BTreeSet::new();
    for entry in fs::read_dir(keys.join(JOBS)).into_iter().flatten().flatten() {
        let Ok(job) = entry.file_name().into_string() else { continue };
        let Ok(file) = File::open(entry.path()) else { continue };
        match file.try_lock_shared() {
            Ok(()) => {
                let _ = fs::remove_file(entry.path());
                if let Some(key) = file_of(keys, &job) {
                    let _ = fs::remove_file(key);
                }
            }
            Err(_) => {
                running.insert(job);
            }
        }
    }
    running
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_running_as_long_as_it_is_noted_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let noted = RunningJob::note(dir.path(), "00ff").unwrap();
        assert!(RunningJob::note(dir.path(), "00ff").is_err());
        assert!(RunningJob::note(dir.path(), "../x").is_err());
        fs::write(dir.path().join("00aa"), "secret").unwrap();
        fs::write(dir.path().join("jobs/00aa"), "").unwrap();
        assert_eq!(running_jobs(dir.path()), BTreeSet::from(["00ff".to_owned()]));
        assert!(!dir.path().join("00aa").exists() && !dir.path().join("jobs/00aa").exists());
        drop(noted);
        assert!(running_jobs(dir.path()).is_empty());
        assert!(fs::read_dir(dir.path().join("jobs")).unwrap().next().is_none());
    }

    #[test]
    fn what_would_not_start_is_told_from_what_would() {
        let here = Path::new("/usr");
        let would = |name: &str, path: Option<&str>| {
            would_start(Path::new(name), here, path.map(OsStr::new))
        };
        assert!(would("/bin/sh", None) && would("bin/env", None) && would("sh", Some("/no:/bin")));
        assert!(!would("bin/no-such", None) && !would("sh", Some("/no")) && !would("/usr", None));
    }

    #[test]
    fn files_that_differ_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&a, "one").unwrap();
        fs::write(&b, "two").unwrap();
        let (a, b) = (look(&a).unwrap(), look(&b).unwrap());
        assert!(a.digest.is_some() && a.digest != b.digest && a.len == b.len);
        assert!(!a.is_folder && !a.is_executable);
        assert!(look(dir.path()).unwrap().is_folder);
        assert_eq!(look(&dir.path().join("c")), None);
    }

    #[test]
    fn a_command_has_the_secret_of_its_job_where_it_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("00ff"), "secret").unwrap();
        let of = |job: &str| key_of(&[(JOB_VAR.into(), job.into())], dir.path());
        assert_eq!(of("00ff"), Some(format!("@{}", dir.path().join("00ff").display())));
        assert_eq!((of("00aa"), of("../00ff"), key_of(&[], dir.path())), (None, None, None));
    }
}
