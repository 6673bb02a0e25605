//! Files of snapshots: made and overwritten by their endpoint, read by
//! others, removed when nobody holds their lock.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat, open, unlink};
use rustix::io::Errno;
use rustix::process::{Resource, geteuid, getrlimit};

use crate::layout::{self, LEN_MAX};
use crate::{Identity, Peer, Snapshot};

const PREFIX: &str = "wiglaf-stats-";
/// How often a file is made anew that a sweeper took for dead before it was locked.
const TRIES_MAX: usize = 16;
/// How often a snapshot is read that was being written, and the pause between.
const READS_MAX: usize = 20;
const READ_PAUSE: Duration = Duration::from_micros(50);

/// The file of one endpoint; dropping it removes it.
#[derive(Debug)]
pub struct Publisher {
    /// Holds the lock.
    file: OwnedFd,
    path: PathBuf,
    /// A forked child has a copy, and must not remove what is its parent's.
    pid: u32,
    identity: Identity,
    buffer: Vec<u8>,
}

impl Publisher {
    /// Makes the file of an endpoint, and sweeps away those of this user's
    /// dead processes.
    ///
    /// # Errors
    /// When there is no shared memory, no room in it, or a limit of file sizes (`ulimit -f`) below that
    /// of the longest snapshot.
    pub fn create(folder: &Path, identity: Identity) -> io::Result<Self> {
        // To write beyond the limit would be a signal.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < LEN_MAX as u64) {
            return Err(Errno::FBIG.into());
        }
        sweep(folder);
        let name = format!("{PREFIX}{}-{:016x}", geteuid().as_raw(), identity.epoch);
        let path = folder.join(name);
        for _ in 0..TRIES_MAX {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let file = open(&path, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
            flock(&file, FlockOperation::LockExclusive)?;
            if fstat(&file)?.st_nlink > 0 {
                let pid = std::process::id();
                return Ok(Self { file, path, pid, identity, buffer: Vec::with_capacity(4096) });
            }
        }
        Err(io::Error::other("another process keeps removing the file"))
    }

    /// Overwrites the snapshot; the busiest peers should come first. A
    /// failure (no room in memory) leaves no snapshot that could be read.
    pub fn publish<'a>(&mut self, counters: impl Iterator<Item = (&'a str, u64)>, peers: &[Peer]) {
        layout::write(&mut self.buffer, &self.identity, unix_now_ns(), counters, peers);
        let mut rest = &self.buffer[..];
        let mut at = 0;
        while let Ok(len) = rustix::io::pwrite(&self.file, rest, at)
            && len > 0
            && len < rest.len()
        {
            rest = &rest[len..];
            at += len as u64;
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            let _ = unlink(&self.path);
        }
    }
}

/// Nanoseconds of Unix time.
fn unix_now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Reads all snapshots in `folder` that this process may read, in the order
/// of their jobs and ranks, and removes the files of dead processes.
#[must_use]
pub fn read_all(folder: &Path) -> Vec<Snapshot> {
    let mut found: Vec<Snapshot> = files(folder).iter().filter_map(|path| read(path)).collect();
    found.sort_by(|a, b| {
        let key = |s: &Snapshot| (s.identity.job.clone(), s.identity.rank, s.identity.pid);
        key(a).cmp(&key(b))
    });
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = entries.filter(|e| e.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    ours.map(|entry| entry.path()).collect()
}

fn open_to_read(path: &Path) -> Option<(OwnedFd, u32)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = open(path, flags, Mode::empty()).ok()?;
    let stat = fstat(&file).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then_some((file, stat.st_uid))
}

fn read(path: &Path) -> Option<Snapshot> {
    let (file, uid) = open_to_read(path)?;
    if remove_if_dead(&file, path) {
        return None;
    }
    let mut bytes = vec![0; LEN_MAX];
    for _ in 0..READS_MAX {
        let len = rustix::io::pread(&file, &mut bytes[..], 0).ok()?;
        if let Some(snapshot) = layout::parse(uid, &bytes[..len]) {
            return Some(snapshot);
        }
        std::thread::sleep(READ_PAUSE);
    }
    None
}

/// Removes the files of this user's dead processes.
fn sweep(folder: &Path) {
    for path in files(folder) {
        if let Some((file, _)) = open_to_read(&path) {
            remove_if_dead(&file, &path);
        }
    }
}

fn remove_if_dead(file: &OwnedFd, path: &Path) -> bool {
    // The lock is held until the file is gone: who makes a file and finds it
    // unlinked once locked makes another.
    let is_dead = flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
    if is_dead && fstat(file).is_ok_and(|stat| stat.st_nlink > 0) {
        let _ = unlink(path);
    }
    is_dead
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::NOWHERE;

    fn identity(epoch: u64) -> Identity {
        Identity {
            pid: std::process::id(),
            epoch,
            at: NOWHERE,
            opened_at_ns: 1,
            job: String::new(),
            program: String::new(),
            rank: None,
            links: String::new(),
        }
    }

    #[test]
    fn a_snapshot_lives_as_long_as_its_endpoint() {
        let folder = tempfile::tempdir().unwrap();
        let mut publisher = Publisher::create(folder.path(), identity(1)).unwrap();
        assert!(read_all(folder.path()).is_empty(), "nothing was published yet");
        publisher.publish([("probes", 2)].into_iter(), &[]);
        let seen = read_all(folder.path());
        assert_eq!((seen.len(), seen[0].counter("probes")), (1, 2));
        drop(publisher);
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    }

    #[test]
    fn only_its_user_may_open_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let publisher = Publisher::create(folder.path(), identity(2)).unwrap();
        let mode = std::fs::metadata(&publisher.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
    }

    #[test]
    fn a_limit_of_file_sizes_is_an_error_and_no_signal() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "file::tests::nothing_is_published_beyond_the_limit", "--ignored"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{}: {said}", output.status);
    }

    #[test]
    #[ignore = "limits the process: in one of its own only"]
    fn nothing_is_published_beyond_the_limit() {
        use rustix::process::{Rlimit, setrlimit};
        let maximum = getrlimit(Resource::Fsize).maximum;
        let limit_to = |bytes: usize| {
            let limit = Rlimit { current: Some(bytes as u64), maximum };
            setrlimit(Resource::Fsize, limit).unwrap();
        };
        let folder = tempfile::tempdir().unwrap();
        let counters = || (0..crate::COUNTERS_MAX).map(|_| ("probes", 1));
        let peers = || vec![Peer::unknown(); crate::PEERS_MAX];
        limit_to(LEN_MAX - 1);
        match Publisher::create(folder.path(), identity(8)) {
            Ok(mut publisher) => publisher.publish(counters(), &peers()),
            Err(refused) => assert_eq!(refused.raw_os_error(), Some(Errno::FBIG.raw_os_error())),
        }
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing is left");
        limit_to(LEN_MAX);
        let mut publisher = Publisher::create(folder.path(), identity(8)).unwrap();
        publisher.publish(counters(), &peers());
        assert_eq!(read_all(folder.path())[0].peers.len(), crate::PEERS_MAX);
    }

    #[test]
    fn what_the_dead_left_is_swept_and_the_living_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut alive = Publisher::create(folder.path(), identity(3)).unwrap();
        alive.publish(std::iter::empty(), &[]);
        // As a killed process leaves it: a file that nobody locks.
        let left = folder.path().join("wiglaf-stats-0-0000000000000004");
        std::fs::write(&left, "x").unwrap();
        assert_eq!(read_all(folder.path()).len(), 1);
        assert!(!left.exists() && alive.path.exists());
        std::fs::write(&left, "x").unwrap();
        let other = Publisher::create(folder.path(), identity(5)).unwrap();
        assert!(!left.exists() && alive.path.exists() && other.path.exists());
    }

    #[test]
    fn a_link_in_place_of_a_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "x").unwrap();
        let link = folder.path().join("wiglaf-stats-0-0000000000000006");
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        assert!(read_all(folder.path()).is_empty());
        assert!(secret.exists());
    }

    /// Two counters that are always equal are read as equal, however often
    /// they are overwritten meanwhile.
    #[test]
    fn no_read_is_torn() {
        let folder = tempfile::tempdir().unwrap();
        let mut publisher = Publisher::create(folder.path(), identity(7)).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    // The first and the last of all, with pages between.
                    let middle = std::iter::repeat_n(("middle", 0), 120);
                    let all = [("first", n)].into_iter().chain(middle).chain([("last", n)]);
                    publisher.publish(all, &[]);
                }
            });
            let mut seen = 0;
            while seen < 300 {
                for snapshot in read_all(folder.path()) {
                    assert_eq!(snapshot.counter("first"), snapshot.counter("last"));
                    seen += 1;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
