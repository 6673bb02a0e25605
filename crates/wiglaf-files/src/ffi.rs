//! The C interface: pointers in, a safe call, a number out. No panic crosses.
//!
//! Nodes, files, folders and requests are small numbers, as file descriptors
//! are; a failed call answers -1, sets `errno`, and keeps the cause for
//! `fuerrno` and `fureason`, by thread.

mod files;
mod nodes;

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::error::{Error, Reason, Result};
use crate::{File, Files, Folder, Node, ReadRequest};

/// Things by small numbers.
#[derive(Debug)]
struct Table<T>(Vec<Option<T>>);

impl<T> Table<T> {
    const fn new() -> Self {
        Self(Vec::new())
    }

    fn add(&mut self, thing: T) -> c_int {
        let slot = self.0.iter().position(Option::is_none).unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        self.0[slot] = Some(thing);
        slot as c_int
    }

    fn get(&self, number: c_int) -> Result<&T> {
        let slot = usize::try_from(number).ok();
        let thing = slot.and_then(|slot| self.0.get(slot)?.as_ref());
        thing.ok_or_else(|| Error::new(Errno::BADF, Reason::BadHandle))
    }

    fn take(&mut self, number: c_int) -> Result<T> {
        let slot = usize::try_from(number).ok();
        let thing = slot.and_then(|slot| self.0.get_mut(slot)?.take());
        thing.ok_or_else(|| Error::new(Errno::BADF, Reason::BadHandle))
    }
}

/// An attached node, and how often it was attached.
#[derive(Debug)]
struct Attachment {
    node: Node,
    count: u32,
}

/// All that C programs hold by number.
#[derive(Debug)]
struct State {
    files: Files,
    nodes: Table<Attachment>,
    open: Table<(Arc<File>, c_int)>,
    folders: Table<Arc<Mutex<Folder>>>,
    requests: Table<ReadRequest>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

thread_local! {
    static LAST: RefCell<(c_int, CString)> = RefCell::default();
}

fn state() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<T>(run: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
    let mut state = state();
    let state = state.as_mut();
    run(state.ok_or_else(|| Error::new(Errno::NXIO, Reason::NotInitialized))?)
}

fn node(number: c_int) -> Result<Node> {
    let wrong = |_| Error::new(Errno::NXIO, Reason::NoNode);
    with(|state| state.nodes.get(number).map(|a| a.node.clone()).map_err(wrong))
}

fn file(number: c_int) -> Result<Arc<File>> {
    with(|state| state.open.get(number).map(|(file, _)| Arc::clone(file)))
}

/// Keeps why a call failed.
fn fail(error: &Error) {
    let text = CString::new(error.to_string()).unwrap_or_default();
    LAST.with_borrow_mut(|last| *last = (error.errno(), text));
    // SAFETY: the C library gives every thread an errno of its own.
    unsafe { *libc::__errno_location() = error.errno() };
}

/// Runs a call; `T::from(-1)` when it fails.
fn answer<T: From<i8>>(call: impl FnOnce() -> Result<T>) -> T {
    let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        Err(Error::with_detail(Errno::IO, Reason::Kernel, "an internal error; please report it"))
    });
    outcome.unwrap_or_else(|error| {
        fail(&error);
        T::from(-1)
    })
}

fn done(outcome: Result<()>) -> Result<c_int> {
    outcome.map(|()| 0)
}

/// A path, or any text.
///
/// # Safety
/// `text` must be null or end with a zero, and stay as it is for `'a`.
unsafe fn text<'a>(text: *const c_char) -> Result<&'a OsStr> {
    if text.is_null() {
        return Err(Errno::FAULT.into());
    }
    // SAFETY: handed on from our caller.
    Ok(OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes()))
}

/// # Safety
/// `buf` must be null or valid for reads of `len` bytes for `'a`.
unsafe fn bytes<'a>(buf: *const u8, len: usize) -> Result<&'a [u8]> {
    match (buf.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno::FAULT.into()),
        (false, len) if isize::try_from(len).is_err() => Err(Errno::INVAL.into()),
        // SAFETY: handed on from our caller.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts(buf, len) }),
    }
}

/// # Safety
/// `buf` must be null or valid for writes of `len` bytes for `'a`, and nobody
/// else's meanwhile.
unsafe fn room<'a>(buf: *mut u8, len: usize) -> Result<&'a mut [u8]> {
    match (buf.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Errno::FAULT.into()),
        (false, len) if isize::try_from(len).is_err() => Err(Errno::INVAL.into()),
        // SAFETY: handed on from our caller.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts_mut(buf, len) }),
    }
}
