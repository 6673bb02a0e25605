//! The C interface: pointers in, a safe call, a code out. No panic crosses.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::{Error, Job, Sender};

const INVALID: c_int = -1;
const GONE: c_int = -2;

/// `wiglaf_handler` of the header.
type Handler = unsafe extern "C" fn(
    w: *const Handle,
    source: c_int,
    data: u64,
    payload: *const c_void,
    len: usize,
    user: *mut c_void,
);

/// `struct wiglaf` of the header. Handlers call back into it, so nothing is
/// borrowed while one runs.
#[derive(Debug)]
pub struct Handle {
    sender: RefCell<Sender>,
    handlers: RefCell<HashMap<u64, (Handler, *mut c_void)>>,
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

fn fail(code: c_int, why: &str) -> c_int {
    LAST_ERROR.with_borrow_mut(|last| {
        *last = CString::new(why.replace('\0', " ")).unwrap_or_default();
    });
    code
}

fn fail_with(why: &Error) -> c_int {
    let code = if matches!(why, Error::RankGone(_)) { GONE } else { INVALID };
    fail(code, &why.to_string())
}

/// Runs `call` on the handle, unless that is null.
///
/// # Safety
/// `w` must be null or come from `wiglaf_open` and not be closed yet.
unsafe fn with(w: *const Handle, call: impl FnOnce(&Handle) -> c_int) -> c_int {
    // SAFETY: handed on from our caller.
    let Some(handle) = (unsafe { w.as_ref() }) else {
        return fail(INVALID, "the handle is NULL; wiglaf_open gives one");
    };
    catch_unwind(AssertUnwindSafe(|| call(handle)))
        .unwrap_or_else(|_| fail(INVALID, "an internal error of libwiglaf; please report it"))
}

/// See `wiglaf.h`.
#[unsafe(no_mangle)]
pub extern "C" fn wiglaf_open() -> *mut Handle {
    let opened = catch_unwind(|| Job::from_env().and_then(|job| Sender::join(&job)));
    match opened {
        Ok(Ok(sender)) => Box::into_raw(Box::new(Handle {
            sender: RefCell::new(sender),
            handlers: RefCell::default(),
        })),
        Ok(Err(why)) => {
            fail_with(&why);
            std::ptr::null_mut()
        }
        Err(_) => {
            fail(INVALID, "an internal error of libwiglaf; please report it");
            std::ptr::null_mut()
        }
    }
}

/// See `wiglaf.h`.
///
/// # Safety
/// `w` must be null or come from `wiglaf_open`, and is not to be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wiglaf_close(w: *mut Handle) {
    if w.is_null() {
        return;
    }
    // SAFETY: `wiglaf_open` made it of a box, and our caller gives it back.
    let handle = unsafe { Box::from_raw(w) };
    // What cannot be closed in order is closed by dropping it.
    let _ = catch_unwind(AssertUnwindSafe(|| handle.sender.borrow_mut().close()));
}

/// See `wiglaf.h`.
///
/// # Safety
/// As for `with`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wiglaf_rank(w: *const Handle) -> c_int {
    // SAFETY: handed on from our caller.
    unsafe { with(w, |h| h.sender.borrow().rank() as c_int) }
}

/// See `wiglaf.h`.
///
/// # Safety
/// As for `with`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wiglaf_size(w: *const Handle) -> c_int {
    // SAFETY: handed on from our caller.
    unsafe { with(w, |h| h.sender.borrow().size() as c_int) }
}

/// See `wiglaf.h`.
///
/// # Safety
/// As for `with`; `run` must stay callable with `user` as long as `w` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wiglaf_on(
    w: *const Handle,
    handler: u64,
    run: Option<Handler>,
    user: *mut c_void,
) -> c_int {
    let Some(run) = run else { return fail(INVALID, "the handler is NULL") };
    let set = |h: &Handle| {
        h.handlers.borrow_mut().insert(handler, (run, user));
        0
    };
    // SAFETY: handed on from our caller.
    unsafe { with(w, set) }
}

/// See `wiglaf.h`.
///
/// # Safety
/// As for `with`; `payload` must be valid for reads of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wiglaf_send(
    w: *const Handle,
    to: c_int,
    handler: u64,
    data: u64,
    payload: *const c_void,
    len: usize,
) -> c_int {
    let Ok(to) = usize::try_from(to) else { return fail(INVALID, "a rank is not negative") };
    let payload = match (payload.is_null(), len) {
        (_, 0) => &[],
        (true, _) => return fail(INVALID, "the payload is NULL and its length is not 0"),
        // SAFETY: our caller promised `len` readable bytes.
        (false, _) => unsafe { std::slice::from_raw_parts(payload.cast::<u8>(), len) },
    };
    let send = |h: &Handle| match h.sender.borrow_mut().send(to, handler, data, payload) {
        Ok(()) => 0,
        Err(why) => fail_with(&why),
    };
    // SAFETY: handed on from our caller.
    unsafe { with(w, send) }
}

fn poll(h: &Handle) -> c_int {
    h.sender.borrow_mut().progress();
    let (mut count, mut due) = (0, h.sender.borrow().due());
    loop {
        let Some((handler, m)) = h.sender.borrow_mut().receive(&mut due) else { return count };
        let run = h.handlers.borrow().get(&handler).copied();
        if let Some((run, user)) = run {
            let payload = m.payload.as_ptr().cast();
            // SAFETY: `wiglaf_on`'s caller promised that `run` may be called with
            // `user`; the payload lives until it returns, and nothing of `h` is borrowed.
            unsafe { run(h, m.source as c_int, m.data, payload, m.payload.len(), user) };
        }
        count += 1;
    }
}

/// See `wiglaf.h`.
///
/// # Safety
/// As for `with`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wiglaf_poll(w: *const Handle) -> c_int {
    // SAFETY: handed on from our caller.
    unsafe { with(w, poll) }
}

/// See `wiglaf.h`.
///
/// # Safety
/// As for `with`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wiglaf_wait(w: *const Handle, timeout_ms: c_int) -> c_int {
    let timeout = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
    let wait = |h: &Handle| {
        let began = Instant::now();
        loop {
            let count = poll(h);
            let left = timeout.saturating_sub(began.elapsed());
            if count > 0 || left.is_zero() {
                return count;
            }
            h.sender.borrow_mut().wait(left);
        }
    };
    // SAFETY: handed on from our caller.
    unsafe { with(w, wait) }
}

/// See `wiglaf.h`.
///
/// # Safety
/// As for `with`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wiglaf_lost(w: *const Handle) -> c_int {
    let lost = |h: &Handle| match h.sender.borrow_mut().lost() {
        Some(rank) => rank as c_int,
        None => fail(GONE, "no rank has ended"),
    };
    // SAFETY: handed on from our caller.
    unsafe { with(w, lost) }
}

/// See `wiglaf.h`. The text is valid until this thread's next failure.
#[unsafe(no_mangle)]
pub extern "C" fn wiglaf_error() -> *const c_char {
    LAST_ERROR.with_borrow(|last| last.as_ptr())
}
