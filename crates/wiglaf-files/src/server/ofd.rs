//! Locks of byte ranges that belong to an open file description, not to a process: one server holds locks of
//! many owners, and the kernel tells them apart by these (fcntl(2), `F_OFD_SETLK`).

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::file::OFFSET_MAX;
use crate::wire::{Lock, LockKind};

/// Takes, changes or gives back; `EAGAIN` when another has what is in its way.
pub(super) fn set(fd: BorrowedFd<'_>, lock: &Lock) -> rustix::io::Result<()> {
    match call(fd, libc::F_OFD_SETLK, &mut flock(lock)) {
        Err(Errno::ACCESS) => Err(Errno::AGAIN),
        outcome => outcome,
    }
}

/// A lock of another's that is in the way.
pub(super) fn in_the_way(fd: BorrowedFd<'_>, lock: &Lock) -> rustix::io::Result<Option<Lock>> {
    let mut found = flock(lock);
    call(fd, libc::F_OFD_GETLK, &mut found)?;
    let kind = match i32::from(found.l_type) {
        libc::F_UNLCK => return Ok(None),
        libc::F_WRLCK => LockKind::Exclusive,
        _ => LockKind::Shared,
    };
    let start = found.l_start as u64;
    let last = match found.l_len {
        0 => OFFSET_MAX,
        len => start + len as u64 - 1,
    };
    Ok(Some(Lock { kind, start, last, ..Lock::default() }))
}

fn flock(lock: &Lock) -> libc::flock {
    let kind = match lock.kind {
        LockKind::Free => libc::F_UNLCK,
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
    };
    // A length of 0 stands for all that may come.
    let len = if lock.last >= OFFSET_MAX { 0 } else { lock.last - lock.start + 1 };
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: lock.start as libc::off_t,
        l_len: len as libc::off_t,
        // The kernel wants it so.
        l_pid: 0,
    }
}

fn call(fd: BorrowedFd<'_>, command: i32, lock: &mut libc::flock) -> rustix::io::Result<()> {
    // SAFETY: both commands take a `struct flock`, which outlives the call, and the descriptor is open as
    // long as it is borrowed.
    match unsafe { libc::fcntl(fd.as_raw_fd(), command, std::ptr::from_mut(lock)) } {
        -1 => Err(Errno::from_raw_os_error(
            std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
        )),
        _ => Ok(()),
    }
}
