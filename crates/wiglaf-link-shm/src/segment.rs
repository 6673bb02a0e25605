//! Segment files: made by their receiver, mapped by its senders, and swept
//! away by anybody of the same user once the receiver is dead.
//!
//! The receiver holds a lock on its file for as long as it lives, however it
//! dies; so a file that can be locked belongs to nobody.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    FallocateFlags, FlockOperation, Mode, OFlags, fallocate, flock, fstat, ftruncate, open, unlink,
};
use rustix::io::retry_on_intr;
use rustix::process::{Resource, geteuid, getrlimit};

use crate::layout::{
    AT_CLAIMED, AT_MAGIC, HEAD_LEN, MAGIC, SEGMENT_LEN, SLOT_LEN, SLOTS, owner, slot,
};
use crate::mapping::Mapping;
use crate::sync::Ordering;

/// Where segments are: memory that all processes of a node share, and no
/// other node.
pub(crate) const FOLDER: &str = "/dev/shm";

/// How often a file is made anew that a sweeper took for dead before it was
/// locked.
const TRIES_MAX: usize = 16;

/// The segment that this process receives through.
#[derive(Debug)]
pub(crate) struct OwnSegment {
    pub(crate) map: Mapping,
    path: PathBuf,
    /// Holds the lock.
    file: OwnedFd,
}

/// A segment that this process sends through.
#[derive(Debug)]
pub(crate) struct PeerSegment {
    pub(crate) map: Mapping,
    file: OwnedFd,
}

fn file_name(epoch: u64) -> String {
    format!("{}{epoch:016x}", prefix())
}

fn prefix() -> String {
    format!("wiglaf-{}-", geteuid().as_raw())
}

impl OwnSegment {
    /// Makes the segment of `epoch`.
    pub(crate) fn create(folder: &Path, epoch: u64) -> io::Result<Self> {
        let path = folder.join(file_name(epoch));
        for _ in 0..TRIES_MAX {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let file = open(&path, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
            retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))?;
            if fstat(&file)?.st_nlink == 0 {
                continue;
            }
            let result = Self::set_up(file, path.clone());
            if result.is_err() {
                let _ = unlink(&path);
            }
            return result;
        }
        Err(io::Error::other("another process keeps removing the shared-memory file"))
    }

    fn set_up(file: OwnedFd, path: PathBuf) -> io::Result<Self> {
        // A file beyond the limit would be a signal, too.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < SEGMENT_LEN as u64) {
            return Err(rustix::io::Errno::FBIG.into());
        }
        // Room that is not there must be an error here, not a signal later: nor to others, who map
        // the file once it has its length.
        reserve(&file, 0, HEAD_LEN)?;
        ftruncate(&file, SEGMENT_LEN as u64)?;
        let map = Mapping::new(file.as_fd())?;
        map.word(AT_MAGIC).store(MAGIC, Ordering::Release);
        Ok(Self { map, path, file })
    }

    /// Keeps a slot for the sender `epoch`, which finds it when it claims one; says whether there is
    /// one. It is not taken back, since that sender may use it from now on; once that is dead,
    /// others inherit it.
    pub(crate) fn keep_slot(&self, folder: &Path, epoch: u64) -> bool {
        claim(&self.map, &self.file, folder, epoch).is_some()
    }
}

impl Drop for OwnSegment {
    fn drop(&mut self) {
        let _ = unlink(&self.path);
    }
}

impl PeerSegment {
    /// Maps the segment of `epoch`.
    pub(crate) fn open(folder: &Path, epoch: u64) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = open(folder.join(file_name(epoch)), flags, Mode::empty())?;
        let stat = fstat(&file)?;
        let is_ours = stat.st_uid == geteuid().as_raw() && stat.st_mode & 0o7777 == 0o600;
        if !is_ours || u64::try_from(stat.st_size) != Ok(SEGMENT_LEN as u64) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a segment of this user"));
        }
        let map = Mapping::new(file.as_fd())?;
        if map.word(AT_MAGIC).load(Ordering::Acquire) != MAGIC {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not a segment of this version",
            ));
        }
        Ok(Self { map, file })
    }

    /// Whether its receiver is gone.
    pub(crate) fn is_dead(&self) -> bool {
        is_unlocked(&self.file)
    }

    /// Takes a slot for the sender `epoch`. `None` when all are in use, or memory is short.
    pub(crate) fn claim(&self, folder: &Path, epoch: u64) -> Option<usize> {
        claim(&self.map, &self.file, folder, epoch)
    }

    /// Gives a slot back: the next sender goes on where this one stopped.
    pub(crate) fn release(&self, index: usize) {
        release(&self.map, index);
    }
}

/// Takes a slot of a segment for the sender `epoch`: the one that is kept for it, a free one, or one
/// of a sender that is dead. `None` when all are in use, or memory is short.
fn claim(map: &Mapping, file: &OwnedFd, folder: &Path, epoch: u64) -> Option<usize> {
    let holder = |index: usize| map.word(owner(index)).load(Ordering::Acquire);
    let kept = (0..SLOTS).find(|&index| holder(index) == epoch);
    let index = kept
        .or_else(|| (0..SLOTS).find(|&index| try_claim(map, index, 0, epoch)))
        .or_else(|| (0..SLOTS).find(|&index| try_inherit(map, folder, index, epoch)))?;
    if reserve(file, slot(index), SLOT_LEN).is_err() {
        // One that was found may be in use by a sender that lives.
        if kept.is_none() {
            release(map, index);
        }
        return None;
    }
    map.word(AT_CLAIMED).fetch_or(1 << index, Ordering::AcqRel);
    Some(index)
}

/// Has the kernel set memory aside for a part of a file. On tmpfs any signal interrupts that.
fn reserve(file: &OwnedFd, at: usize, len: usize) -> rustix::io::Result<()> {
    retry_on_intr(|| fallocate(file, FallocateFlags::empty(), at as u64, len as u64))
}

pub(crate) fn try_claim(map: &Mapping, index: usize, expected: u64, epoch: u64) -> bool {
    let owner = map.word(owner(index));
    owner.compare_exchange(expected, epoch, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

fn try_inherit(map: &Mapping, folder: &Path, index: usize, epoch: u64) -> bool {
    let owner = map.word(owner(index)).load(Ordering::Acquire);
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let is_dead = match open(folder.join(file_name(owner)), flags, Mode::empty()) {
        Ok(file) => is_unlocked(&file),
        Err(error) => error == rustix::io::Errno::NOENT,
    };
    is_dead && try_claim(map, index, owner, epoch)
}

pub(crate) fn release(map: &Mapping, index: usize) {
    map.word(owner(index)).store(0, Ordering::Release);
}

/// Removes the segments of this user's dead processes; says how many.
pub(crate) fn sweep(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let prefix = OsString::from(prefix());
    let is_segment = |name: &OsString| {
        name.as_encoded_bytes()
            .strip_prefix(prefix.as_encoded_bytes())
            .is_some_and(|rest| rest.len() == 16 && rest.iter().all(u8::is_ascii_hexdigit))
    };
    let names = entries.flatten().map(|entry| entry.file_name()).filter(is_segment);
    names.filter(|name| remove_if_dead(&folder.join(name))).count()
}

fn remove_if_dead(path: &Path) -> bool {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(file) = open(path, flags, Mode::empty()) else { return false };
    // The lock is held until the file is gone: who makes a file and finds it
    // unlinked once locked makes another.
    let is_dead = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    let is_named = fstat(&file).is_ok_and(|stat| stat.st_nlink > 0);
    is_dead && is_named && unlink(path).is_ok()
}

fn is_unlocked(file: &OwnedFd) -> bool {
    let is_unlocked = flock(file, FlockOperation::NonBlockingLockShared).is_ok();
    if is_unlocked {
        let _ = flock(file, FlockOperation::Unlock);
    }
    is_unlocked
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn without_memory_a_slot_stays_with_whom_it_belongs_to() {
        let folder = tempfile::tempdir_in(FOLDER).expect("shared memory");
        let own = OwnSegment::create(folder.path(), 1).expect("shared memory");
        let peer = PeerSegment::open(folder.path(), 1).expect("it is there");
        let index = peer.claim(folder.path(), 2).expect("a slot is free");
        // Through this descriptor no memory can be had.
        let file = open(&own.path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).expect("ours");
        let owner = |index: usize| own.map.word(owner(index)).load(Ordering::Acquire);
        assert_eq!(claim(&own.map, &file, folder.path(), 2), None);
        assert_eq!(owner(index), 2, "its sender lives and writes to it");
        assert_eq!(claim(&own.map, &file, folder.path(), 3), None);
        assert!((0..SLOTS).all(|index| owner(index) != 3), "what was taken is given back");
    }
}
