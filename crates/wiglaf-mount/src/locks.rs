//! Locks of the programs that use the mount. The file's node keeps them, so that programs of other nodes
//! meet them; here is known only who may have some, and who waits.
//!
//! An owner is a process (POSIX) or an open file (OFD); the kernel draws a number for each. It tells with a
//! FLUSH that a process has closed one of its descriptors, which gives back what it has locked of that file,
//! and with a RELEASE that an open file has ended.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use wiglaf_files::{File, LockKind, LockWait, Result};

use crate::fuse::{Lock, Reply};
use crate::mounted::Mounted;

/// Most calls that wait for a lock, each with a thread of its own.
const WAITS_MAX: usize = 512;
/// Memory for the stack of such a thread.
const STACK_LEN: usize = 128 << 10;
/// Interrupts of calls that are not known to wait, or not yet.
const EARLY_MAX: usize = 1024;
/// The kernel tells of an open file's end when close(2) has returned already: who asks for its flock(2) then
/// is not refused at once, but after so many milliseconds.
const RELEASE_PAUSES_MS: [u64; 4] = [1, 2, 4, 8];

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Who may have locked a part of which file, and by which handle.
    owners: HashMap<(u64, u64), u64>,
    /// By the numbers of the kernel's requests.
    waits: HashMap<u64, LockWait>,
    /// The numbers of interrupted requests that did not wait, the last ones.
    early: VecDeque<u64>,
}

impl Locks {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handle is closed: open files that were owners by it are no more.
    pub(crate) fn close(&self, handle: u64) {
        let mut inner = self.inner();
        if !inner.owners.is_empty() {
            inner.owners.retain(|_, by| *by != handle);
        }
    }

    /// From now on a call waits, and may be interrupted; false if too many do.
    fn begin_wait(&self, unique: u64, wait: LockWait) -> bool {
        let mut inner = self.inner();
        if inner.waits.len() >= WAITS_MAX {
            return false;
        }
        if inner.early.contains(&unique) {
            wait.end();
        }
        inner.waits.insert(unique, wait);
        true
    }

    fn end_wait(&self, unique: u64) {
        self.inner().waits.remove(&unique);
    }

    /// A call was interrupted; answers how to end it if it waits for a lock.
    fn interrupted(&self, unique: u64) -> Option<LockWait> {
        let mut inner = self.inner();
        let wait = inner.waits.get(&unique).cloned();
        if wait.is_none() {
            // Another thread may be about to let it wait.
            if inner.early.len() == EARLY_MAX {
                inner.early.pop_front();
            }
            inner.early.push_back(unique);
        }
        wait
    }
}

impl Mounted {
    pub(crate) fn set_lock(self: &Arc<Self>, ino: u64, lock: &Lock, waits: bool, reply: Reply) {
        let prepared = wanted(lock).and_then(|wanted| Ok((wanted, self.file(lock.handle)?)));
        let (wanted, file) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return reply.error(error.errno()),
        };
        if !wanted.is_flock && wanted.kind != LockKind::Free {
            // Before it has the lock, so that no close comes too early to give it back.
            self.locks.inner().owners.insert((ino, lock.owner), lock.handle);
        }
        let outcome = file.set_lock(&wanted);
        match is_taken(&outcome) {
            true if waits => self.wait_for_lock(file, &wanted, reply),
            true if wanted.is_flock => ask_some_more(file, wanted, reply),
            _ => say(&outcome, reply),
        }
    }

    /// Answers when the lock is had: what waits takes no part of the threads that serve the kernel.
    fn wait_for_lock(self: &Arc<Self>, file: Arc<File>, lock: &wiglaf_files::Lock, reply: Reply) {
        let unique = reply.unique();
        let request = match file.start_lock(lock) {
            Ok(request) => request,
            Err(error) => return reply.error(error.errno()),
        };
        if !self.locks.begin_wait(unique, request.to_end()) {
            return reply.error(libc::ENOLCK);
        }
        let mounted = Arc::clone(self);
        let wait = move || {
            let outcome = request.wait();
            mounted.locks.end_wait(unique);
            drop(file);
            say(&outcome, reply);
        };
        if !in_thread(wait) {
            // The call has ended with EIO, as its answer was dropped.
            self.locks.end_wait(unique);
        }
    }

    /// Tells what is in a lock's way.
    pub(crate) fn test_lock(&self, lock: &Lock, reply: Reply) {
        let found = wanted(lock).and_then(|wanted| self.file(lock.handle)?.test_lock(&wanted));
        match found {
            Ok(None) => reply.lock(lock.start, lock.last, libc::F_UNLCK as u32, 0),
            Ok(Some(found)) => {
                let kind = match found.kind {
                    LockKind::Exclusive => libc::F_WRLCK,
                    LockKind::Shared | LockKind::Free => libc::F_RDLCK,
                };
                reply.lock(found.start, found.last, kind as u32, found.pid);
            }
            Err(error) => reply.error(error.errno()),
        }
    }

    /// A process has closed a descriptor of a file.
    pub(crate) fn free_locks(&self, ino: u64, handle: u64, owner: u64) -> Result<()> {
        match self.locks.inner().owners.remove(&(ino, owner)) {
            Some(_) => {}
            None => return Ok(()),
        }
        self.file(handle)?.free_locks(owner)
    }

    /// A call was interrupted.
    pub(crate) fn interrupt(&self, unique: u64) {
        if let Some(wait) = self.locks.interrupted(unique) {
            wait.end();
        }
    }
}

fn say(outcome: &Result<()>, reply: Reply) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.errno()),
    }
}

/// Runs what may take long; false if there is no room, and then it is dropped.
fn in_thread(work: impl FnOnce() + Send + 'static) -> bool {
    let builder = std::thread::Builder::new().name("lock".into()).stack_size(STACK_LEN);
    builder.spawn(work).is_ok()
}

/// See [`RELEASE_PAUSES_MS`].
fn ask_some_more(file: Arc<File>, lock: wiglaf_files::Lock, reply: Reply) {
    in_thread(move || {
        let mut outcome = Err(Errno::AGAIN.into());
        for pause in RELEASE_PAUSES_MS {
            std::thread::sleep(Duration::from_millis(pause));
            outcome = file.set_lock(&lock);
            if !is_taken(&outcome) {
                break;
            }
        }
        drop(file);
        say(&outcome, reply);
    });
}

fn is_taken(outcome: &Result<()>) -> bool {
    outcome.as_ref().is_err_and(|error| error.errno() == libc::EAGAIN)
}

/// What the file's node is asked for.
fn wanted(lock: &Lock) -> Result<wiglaf_files::Lock> {
    let kind = match lock.kind as i32 {
        libc::F_UNLCK => LockKind::Free,
        libc::F_RDLCK => LockKind::Shared,
        libc::F_WRLCK => LockKind::Exclusive,
        _ => return Err(Errno::INVAL.into()),
    };
    let last = lock.last.min(i64::MAX as u64);
    if lock.start > last {
        return Err(Errno::INVAL.into());
    }
    let (owner, pid, is_flock) = (lock.owner, lock.pid, lock.is_flock);
    Ok(wiglaf_files::Lock { owner, pid, kind, start: lock.start, last, is_flock })
}
