//! Beginning, ending, attaching, and calls on names. See `wiglaf_files.h`.

use std::ffi::{c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

use super::{Attachment, LAST, State, Table, answer, done, node, state, text, with};
use crate::error::{Error, Reason, Result};
use crate::wire::Attributes;
use crate::{Files, Folder};

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn fsinit() -> c_int {
    answer(|| {
        state().get_or_insert_with(|| State {
            files: Files::new(),
            nodes: Table::new(),
            open: Table::new(),
            folders: Table::new(),
            requests: Table::new(),
        });
        Ok(0)
    })
}

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn fsend() -> c_int {
    answer(|| {
        let ended = state().take();
        let State { open, requests, folders, nodes, files } =
            ended.ok_or_else(|| Error::new(Errno::NXIO, Reason::NotInitialized))?;
        drop((requests, folders));
        let mut outcome = Ok(());
        for (file, _) in open.0.into_iter().flatten() {
            if let Some(file) = Arc::into_inner(file) {
                outcome = outcome.and(file.close());
            }
        }
        drop((nodes, files));
        done(outcome)
    })
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// `host` must be null or a string that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsattach(host: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: handed on from our caller.
        let host = unsafe { text(host) }?;
        let host = host.to_str().ok_or_else(|| Error::new(Errno::HOSTUNREACH, Reason::NoNode))?;
        let files = with(|state| Ok(state.files.clone()))?;
        // Starting a server takes a while, and holds up nobody else.
        let node = files.attach(host)?;
        with(|state| {
            let mut all = state.nodes.0.iter_mut().enumerate();
            let known = all.find_map(|(number, attachment)| {
                let attachment = attachment.as_mut().filter(|a| a.node.is_same(&node))?;
                attachment.count += 1;
                Some(number as c_int)
            });
            Ok(known.unwrap_or_else(|| state.nodes.add(Attachment { node, count: 1 })))
        })
    })
}

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn fsdetach(number: c_int) -> c_int {
    answer(|| {
        let ended = with(|state| {
            let wrong = |_| Error::new(Errno::NXIO, Reason::NoNode);
            let is_used = state.open.0.iter().flatten().any(|(_, node)| *node == number);
            let mut attachment = state.nodes.take(number).map_err(wrong)?;
            if attachment.count == 1 && !is_used {
                return Ok(Some(attachment));
            }
            let is_busy = attachment.count == 1;
            attachment.count -= u32::from(!is_busy);
            state.nodes.0[number as usize] = Some(attachment);
            if is_busy { Err(Errno::BUSY.into()) } else { Ok(None) }
        });
        // Its server ends here, while others go on.
        ended.map(drop).map(|()| 0)
    })
}

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn fuerrno() -> c_int {
    LAST.with_borrow(|last| last.0)
}

/// See `wiglaf_files.h`. The text is valid until this thread's next failure.
#[unsafe(no_mangle)]
pub extern "C" fn fureason() -> *const c_char {
    LAST.with_borrow(|last| last.1.as_ptr())
}

/// A call on a node and one path.
macro_rules! on_path {
    ($name:ident, |$node:ident, $path:ident $(, $arg:ident: $kind:ty)*| $call:expr) => {
        /// See `wiglaf_files.h`.
        ///
        /// # Safety
        /// `path` must be null or a string that ends with a zero.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(number: c_int, path: *const c_char $(, $arg: $kind)*) -> c_int {
            answer(|| {
                // SAFETY: handed on from our caller.
                let ($node, $path) = (node(number)?, unsafe { text(path) }?);
                done($call)
            })
        }
    };
}

on_path!(rchdir, |node, path| node.enter(path));
on_path!(runlink, |node, path| node.unlink(path));
on_path!(rrmdir, |node, path| node.remove_dir(path));
on_path!(rmkdir, |node, path, mode: u32| node.make_dir(path, mode));
on_path!(rtruncate, |node, path, size: i64| node.truncate(path, length(size)?));

fn length(size: i64) -> Result<u64> {
    u64::try_from(size).map_err(|_| Errno::INVAL.into())
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// Both paths must be null or strings that end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrename(number: c_int, from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: handed on from our caller.
    answer(|| done(node(number)?.rename(unsafe { text(from) }?, unsafe { text(to) }?)))
}

/// Fills in what the C library's `struct stat` has room for.
pub(super) fn fill(into: &mut libc::stat, from: &Attributes) {
    // SAFETY: a structure of integers; all zero is a value of it.
    *into = unsafe { std::mem::zeroed() };
    into.st_mode = from.mode;
    into.st_nlink = from.links as _;
    into.st_uid = from.uid;
    into.st_gid = from.gid;
    into.st_dev = from.dev;
    into.st_ino = from.ino;
    into.st_rdev = from.rdev;
    into.st_size = from.size as _;
    into.st_blocks = from.blocks as _;
    into.st_blksize = from.block_len as _;
    (into.st_atime, into.st_atime_nsec) = (from.accessed.0, from.accessed.1.into());
    (into.st_mtime, into.st_mtime_nsec) = (from.modified.0, from.modified.1.into());
    (into.st_ctime, into.st_ctime_nsec) = (from.changed.0, from.changed.1.into());
}

/// # Safety
/// `path` as for `text`; `into` must be null or valid for writes.
unsafe fn stat(
    number: c_int,
    path: *const c_char,
    into: *mut libc::stat,
    follow: bool,
) -> Result<c_int> {
    // SAFETY: handed on from our caller.
    let (path, into) = unsafe { (text(path)?, into.as_mut()) };
    let into = into.ok_or(Errno::FAULT)?;
    fill(into, &node(number)?.attributes(path, follow)?);
    Ok(0)
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// `path` must be null or a string that ends with a zero, `into` null or valid
/// for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rstat(number: c_int, path: *const c_char, into: *mut libc::stat) -> c_int {
    // SAFETY: handed on from our caller.
    answer(|| unsafe { stat(number, path, into, true) })
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// As for `rstat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rlstat(
    number: c_int,
    path: *const c_char,
    into: *mut libc::stat,
) -> c_int {
    // SAFETY: handed on from our caller.
    answer(|| unsafe { stat(number, path, into, false) })
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// `path` must be null or a string that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsize(number: c_int, path: *const c_char) -> i64 {
    answer(|| {
        // SAFETY: handed on from our caller.
        let path = unsafe { text(path) }?;
        Ok(node(number)?.attributes(path, true)?.size as i64)
    })
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// `path` must be null or a string that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ropendir(number: c_int, path: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: handed on from our caller.
        let folder = node(number)?.list(unsafe { text(path) }?)?;
        with(|state| Ok(state.folders.add(Arc::new(Mutex::new(folder)))))
    })
}

fn folder<T>(number: c_int, run: impl FnOnce(&mut Folder) -> Result<T>) -> Result<T> {
    let folder = with(|state| state.folders.get(number).cloned())?;
    let mut folder = folder.lock().unwrap_or_else(PoisonError::into_inner);
    run(&mut folder)
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// `name` must be null or valid for writes of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rreaddir(number: c_int, name: *mut c_void, len: usize) -> c_int {
    answer(|| {
        // SAFETY: handed on from our caller.
        let room = unsafe { super::room(name.cast(), len) }?;
        folder(number, |folder| {
            let Some(entry) = folder.next_entry()? else { return Ok(0) };
            let end = entry.name.len();
            if end >= room.len() {
                folder.put_back(entry);
                return Err(Errno::RANGE.into());
            }
            room[..end].copy_from_slice(&entry.name);
            room[end] = 0;
            Ok(1)
        })
    })
}

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rrewinddir(number: c_int) -> c_int {
    answer(|| {
        done(folder(number, |folder| {
            folder.rewind();
            Ok(())
        }))
    })
}

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rclosedir(number: c_int) -> c_int {
    answer(|| {
        let folder = with(|state| state.folders.take(number))?;
        drop(folder);
        Ok(0)
    })
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// `name` must be null or valid for writes of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsnodename(number: c_int, name: *mut c_void, len: usize) -> c_int {
    answer(|| {
        // SAFETY: handed on from our caller.
        let room = unsafe { super::room(name.cast(), len) }?;
        let node = node(number)?;
        let text = std::ffi::OsStr::new(node.name()).as_bytes();
        if text.len() >= room.len() {
            return Err(Errno::RANGE.into());
        }
        room[..text.len()].copy_from_slice(text);
        room[text.len()] = 0;
        Ok(0)
    })
}
