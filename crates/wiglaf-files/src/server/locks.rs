//! Locks of the client's programs. The kernel of this node keeps them: what one server has locked, another
//! client's server meets, and so does every program of the node.
//!
//! A lock of flock(2) is that of the handle's own open file description. One of fcntl(2) belongs to an owner,
//! a process of the client's, which may have the file open twice, or share an open file with another owner.
//! So each owner has a description of its own of each file that it has locked.
//!
//! Nobody sleeps in a call for a lock: the server has no thread. Locks that are waited for are asked for again
//! and again, soon when they are new, and at once when this client gives a lock back.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, fcntl_getfl, flock, fstat, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::ofd;
use super::ranges::Ranges;
use crate::error::{Error, Reason, Result};
use crate::roots::own_path;
use crate::wire::{Lock, LockKind};

/// Most owners times files that one client has locked.
const HELD_MAX: usize = 1024;
/// Most ranges that one client has locked.
const RANGES_MAX: usize = 16 << 10;
/// Most locks that one client waits for.
const WAITS_MAX: usize = 1024;

/// A file, whatever its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    dev: u64,
    ino: u64,
}

/// What one owner has locked of one file.
#[derive(Debug)]
struct Held {
    file: FileId,
    owner: u64,
    pid: u32,
    /// The handle by which it came first. An owner that is an open file ends with it.
    handle: u32,
    /// The owner's own open file description.
    description: OwnedFd,
    /// It is the handle's, as there was no other to be had.
    is_handles: bool,
    ranges: Ranges,
}

/// A lock that is waited for.
#[derive(Debug)]
pub(super) struct Wait {
    /// The request's number.
    pub(super) id: u64,
    pub(super) handle: u32,
    pub(super) lock: Lock,
    file: FileId,
    began: Instant,
    next: Instant,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Locks {
    held: Vec<Held>,
    /// In the order in which they were asked for.
    waits: VecDeque<Wait>,
}

//= docs/files-protocol.md#32-locks
//# A server MUST refuse with ENOLCK and the reason 7 what would pass 1024 owners times files, 16384 ranges or 1024 waits of its client.
fn limit() -> Error {
    Error::new(Errno::NOLCK, Reason::Limit)
}

impl Locks {
    //= docs/files-protocol.md#32-locks
    //# A server MUST take each lock from the kernel of its node: flock(2)'s on the handle's open file description, ranges on a description that only their owner on that file has.
    /// Takes a lock or gives it back, at once.
    pub(super) fn set(&mut self, file: &OwnedFd, handle: u32, lock: &Lock) -> Result<()> {
        let outcome = match lock.is_flock {
            true => flock(file, operation(lock.kind)).map_err(Error::from),
            false => self.set_range(file, handle, lock),
        };
        if outcome.is_ok() && lock.kind != LockKind::Exclusive {
            // Others may have what this one had.
            self.ask_all_again();
        }
        outcome
    }

    fn set_range(&mut self, file: &OwnedFd, handle: u32, lock: &Lock) -> Result<()> {
        let id = id_of(file)?;
        let at = self.held.iter().position(|held| held.file == id && held.owner == lock.owner);
        let at = match (at, lock.kind) {
            (None, LockKind::Free) => return Ok(()),
            (Some(at), LockKind::Free) => at,
            (at, _) => {
                if self.held.iter().map(|held| held.ranges.len()).sum::<usize>() >= RANGES_MAX {
                    return Err(limit());
                }
                match at {
                    Some(at) => at,
                    None => self.add(file, handle, id, lock)?,
                }
            }
        };
        let held = &mut self.held[at];
        let outcome = ofd::set(held.description.as_fd(), lock);
        if outcome.is_ok() {
            held.ranges.set(lock);
            if lock.pid != 0 {
                held.pid = lock.pid;
            }
        }
        if held.ranges.is_empty() {
            self.held.swap_remove(at);
        }
        outcome.map_err(|errno| match errno {
            // The kernel has looked whether the file was opened for that; what could be had here was less.
            Errno::BADF => Errno::NOLCK.into(),
            errno => errno.into(),
        })
    }

    fn add(&mut self, file: &OwnedFd, handle: u32, id: FileId, lock: &Lock) -> Result<usize> {
        if self.held.len() >= HELD_MAX {
            return Err(limit());
        }
        let (description, is_handles) = match description_of(file) {
            Ok(own) => (own, false),
            Err(Errno::MFILE | Errno::NFILE) => return Err(limit()),
            // Its mode is another by now. One owner may have the handle's.
            Err(_) if !self.held.iter().any(|held| held.is_handles && held.handle == handle) => {
                (fcntl_dupfd_cloexec(file, 0)?, true)
            }
            Err(_) => return Err(Errno::NOLCK.into()),
        };
        let (owner, pid) = (lock.owner, lock.pid);
        let ranges = Ranges::default();
        self.held.push(Held { file: id, owner, pid, handle, description, is_handles, ranges });
        Ok(self.held.len() - 1)
    }

    /// A lock of another owner's that is in the way; its process is known if it is this client's.
    pub(super) fn in_the_way(&self, file: &OwnedFd, lock: &Lock) -> Result<Option<Lock>> {
        let id = id_of(file)?;
        let (own, others): (Vec<_>, Vec<_>) =
            self.held.iter().filter(|held| held.file == id).partition(|h| h.owner == lock.owner);
        let here = others.into_iter().find_map(|held| {
            let found = held.ranges.in_the_way(lock)?;
            Some(Lock { pid: held.pid, owner: held.owner, ..found })
        });
        if here.is_some() {
            return Ok(here);
        }
        let description = own.first().map_or(file, |held| &held.description);
        Ok(ofd::in_the_way(description.as_fd(), lock)?)
    }

    /// An owner gives back all that it has of a file.
    pub(super) fn free(&mut self, file: &OwnedFd, owner: u64) -> Result<()> {
        let id = id_of(file)?;
        self.held.retain(|held| held.file != id || held.owner != owner);
        self.ask_all_again();
        Ok(())
    }

    /// A handle is closed, and with it what is locked by its open file.
    pub(super) fn close(&mut self, handle: u32) {
        self.held.retain(|held| held.handle != handle);
        self.ask_all_again();
    }

    /// From now on a lock is waited for.
    pub(super) fn wait(&mut self, id: u64, file: &OwnedFd, handle: u32, lock: &Lock) -> Result<()> {
        if self.waits.len() >= WAITS_MAX {
            return Err(limit());
        }
        let file = id_of(file)?;
        if !lock.is_flock && self.would_block_itself(file, lock) {
            return Err(Errno::DEADLK.into());
        }
        let now = Instant::now();
        let next = now + pause_after(Duration::ZERO);
        self.waits.push_back(Wait { id, handle, lock: *lock, file, began: now, next });
        Ok(())
    }

    /// Ends a wait; false if there is none with that number.
    pub(super) fn end_wait(&mut self, id: u64) -> bool {
        let found = self.waits.iter().position(|wait| wait.id == id);
        found.and_then(|at| self.waits.remove(at)).is_some()
    }

    /// Takes out what is to be asked for again by now, in its order.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Wait> {
        let (due, later) = self.waits.drain(..).partition(|wait| wait.next <= now);
        self.waits = later;
        Vec::from(due)
    }

    /// It was asked for in vain.
    pub(super) fn put_back(&mut self, mut wait: Wait, now: Instant) {
        wait.next = now + pause_after(now.saturating_duration_since(wait.began));
        self.waits.push_back(wait);
    }

    /// How long until something is to be asked for again.
    pub(super) fn until_due(&self, now: Instant) -> Option<Duration> {
        self.waits.iter().map(|wait| wait.next.saturating_duration_since(now)).min()
    }

    fn ask_all_again(&mut self) {
        self.waits.iter_mut().for_each(|wait| wait.next = wait.began);
    }

    /// Whether those who have what an owner waits for wait themselves for what it has. Owners of other clients
    /// are not known here.
    fn would_block_itself(&self, file: FileId, lock: &Lock) -> bool {
        let mut owners = self.owners_in_the_way(file, lock);
        let mut at = 0;
        while let Some(owner) = owners.get(at).copied() {
            if owner == lock.owner {
                return true;
            }
            let waits = self.waits.iter().filter(|w| w.lock.owner == owner && !w.lock.is_flock);
            for wait in waits {
                for next in self.owners_in_the_way(wait.file, &wait.lock) {
                    if !owners.contains(&next) {
                        owners.push(next);
                    }
                }
            }
            at += 1;
        }
        false
    }

    fn owners_in_the_way(&self, file: FileId, lock: &Lock) -> Vec<u64> {
        let others = self.held.iter().filter(|held| held.file == file && held.owner != lock.owner);
        others.filter(|held| held.ranges.in_the_way(lock).is_some()).map(|h| h.owner).collect()
    }
}

fn id_of(file: &OwnedFd) -> Result<FileId> {
    let found = fstat(file)?;
    Ok(FileId { dev: found.st_dev, ino: found.st_ino })
}

fn operation(kind: LockKind) -> FlockOperation {
    match kind {
        LockKind::Free => FlockOperation::NonBlockingUnlock,
        LockKind::Shared => FlockOperation::NonBlockingLockShared,
        LockKind::Exclusive => FlockOperation::NonBlockingLockExclusive,
    }
}

/// An open file description of its own of an open file, for all kinds of lock if that may be had.
fn description_of(file: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let path = own_path(file);
    open(&path, flags | OFlags::RDWR, Mode::empty()).or_else(|_| {
        let access = fcntl_getfl(file)? & OFlags::RWMODE;
        open(&path, flags | access, Mode::empty())
    })
}

/// How long to leave a lock alone that has been waited for so long: most are had for a moment only.
fn pause_after(waited: Duration) -> Duration {
    match waited.as_millis() {
        0..20 => Duration::from_micros(100),
        20..1000 => Duration::from_millis(1),
        _ => Duration::from_millis(5),
    }
}

#[cfg(test)]
mod tests;
