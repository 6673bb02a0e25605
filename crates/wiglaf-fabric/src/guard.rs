//! The border between C and Rust: error numbers, and no panic beyond this point.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::attended::{Attended, Inside};
use crate::bindings as fi;

/// A libfabric error number, positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

/// What every call behind the border returns.
pub(crate) type Fi<T> = Result<T, Errno>;

pub(crate) const EAGAIN: Errno = Errno(fi::FI_EAGAIN);
pub(crate) const EBUSY: Errno = Errno(fi::FI_EBUSY);
pub(crate) const EINVAL: Errno = Errno(fi::FI_EINVAL);
pub(crate) const ENOSYS: Errno = Errno(fi::FI_ENOSYS);

/// Runs `call` and answers 0 or the negative error number.
pub(crate) fn guard(call: impl FnOnce() -> Fi<()>) -> libc::c_int {
    guard_or(-fi::FI_EOTHER, || match call() {
        Ok(()) => 0,
        Err(Errno(number)) => -number,
    })
}

/// Runs a data call: 0, or the negative error number in the wide type of those.
pub(crate) fn guard_data(call: impl FnOnce() -> Fi<()>) -> libc::ssize_t {
    guard(call) as libc::ssize_t
}

/// Runs `call` and answers how many, or the negative error number.
pub(crate) fn guard_count(call: impl FnOnce() -> Fi<usize>) -> libc::ssize_t {
    guard_or(-(fi::FI_EOTHER as libc::ssize_t), || match call() {
        Ok(count) => libc::ssize_t::try_from(count).unwrap_or(libc::ssize_t::MAX),
        Err(Errno(number)) => -(number as libc::ssize_t),
    })
}

/// Runs `call`; a panic becomes `otherwise`. The panic hook has printed its message already.
pub(crate) fn guard_or<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    // What a panic may leave half-done lies behind mutexes, which it poisons.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(otherwise)
}

/// What keeps callers apart.
pub(crate) trait Lock {
    /// Access to what it keeps.
    type Guard<'a>
    where
        Self: 'a;

    /// Waits for access; none after a panic of who had it.
    fn acquire(&self) -> Option<Self::Guard<'_>>;
}

impl<T> Lock for std::sync::Mutex<T> {
    type Guard<'a>
        = std::sync::MutexGuard<'a, T>
    where
        T: 'a;

    fn acquire(&self) -> Option<Self::Guard<'_>> {
        self.lock().ok()
    }
}

impl Lock for Attended {
    type Guard<'a> = Inside<'a>;

    fn acquire(&self) -> Option<Self::Guard<'_>> {
        self.enter()
    }
}

impl<L: Lock> Lock for std::sync::Arc<L> {
    type Guard<'a>
        = L::Guard<'a>
    where
        L: 'a;

    fn acquire(&self) -> Option<Self::Guard<'_>> {
        L::acquire(self)
    }
}

/// Locks, or says that an earlier panic has made the state unusable.
pub(crate) fn lock<L: Lock>(lock: &L) -> Fi<L::Guard<'_>> {
    lock.acquire().ok_or(Errno(fi::FI_EOTHER))
}

/// Refuses what is not offered or cannot be meant; `FI_LOG_LEVEL=warn` shows why.
macro_rules! refuse {
    ($errno:expr, $($why:tt)*) => {{
        $crate::log::warning!($($why)*);
        Err($errno)
    }};
}
pub(crate) use refuse;

/// Refuses any flags where a call knows none.
pub(crate) fn no_flags(call: &str, flags: u64) -> Fi<()> {
    if flags == 0 {
        return Ok(());
    }
    refuse!(Errno(fi::FI_EBADFLAGS), "{call}: flags {flags:#x} are not offered")
}

/// Refuses to close an object that others hold besides its handle.
pub(crate) fn not_busy<T>(state: &std::sync::Arc<T>, what: &str) -> Fi<()> {
    match std::sync::Arc::strong_count(state) - 1 {
        0 => Ok(()),
        users => refuse!(EBUSY, "close: {what} is still in use by {users} other objects"),
    }
}

/// Defines functions that answer "not implemented", for slots that may not be null.
macro_rules! unsupported {
    ($($name:ident($($arg:ty),* $(,)?) -> $answer:ty;)*) => {
        $(unsafe extern "C" fn $name($(_: $arg),*) -> $answer {
            $crate::guard::guard_or(-(crate::bindings::FI_ENOSYS as $answer), || {
                crate::log::warning!("{} is not offered", stringify!($name));
                -(crate::bindings::FI_ENOSYS as $answer)
            })
        })*
    };
}
pub(crate) use unsupported;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_become_numbers() {
        assert_eq!(guard(|| Ok(())), 0);
        assert_eq!(guard(|| Err(EBUSY)), -16);
        assert_eq!(guard_count(|| Ok(3)), 3);
        assert_eq!(guard_count(|| Err(EAGAIN)), -11);
    }

    #[test]
    fn a_panic_stays_inside() {
        assert_eq!(guard(|| panic!("expected by this test")), -fi::FI_EOTHER);
        assert_eq!(guard_count(|| panic!("expected by this test")), -256);
    }

    #[test]
    fn a_poisoned_lock_is_an_error() {
        let mutex = std::sync::Mutex::new(());
        guard(|| {
            let _held = lock(&mutex)?;
            panic!("expected by this test")
        });
        assert_eq!(lock(&mutex).err(), Some(Errno(fi::FI_EOTHER)));
    }
}
