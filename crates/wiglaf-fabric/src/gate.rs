//! One at a time: a lock that costs nothing where the application has promised
//! to bring one thread at a time anyway (`FI_THREAD_DOMAIN`).
//!
//! A message between ranks of one node takes 0.3 us. The eight locked
//! instructions of four mutexes were a sixth of that.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A value that one caller at a time may touch.
pub(crate) struct Gate<T> {
    /// None where the application keeps its threads apart.
    mutex: Option<Mutex<()>>,
    /// The mutex's guard while somebody is inside: a guard of ours that held it
    /// would be moved about at every call.
    held: UnsafeCell<Option<MutexGuard<'static, ()>>>,
    /// Somebody is inside, or panicked there.
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: whoever touches the value, or `held`, is inside, and there is one
// inside at a time: the mutex, or the application's promise, sees to that.
unsafe impl<T: Send> Sync for Gate<T> {}
// SAFETY: nobody is inside a gate that is moved, so `held` is empty.
unsafe impl<T: Send> Send for Gate<T> {}

impl<T> Gate<T> {
    /// Behind a mutex, unless `serial`: then fi_domain(3) obliges the
    /// application to let no two threads call into the domain at once.
    pub(crate) fn new(value: T, serial: bool) -> Self {
        Self {
            mutex: (!serial).then(Mutex::default),
            held: UnsafeCell::new(None),
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the value. Nothing, after a panic of who had it; or when an
    /// application that promised one thread at a time is caught breaking that.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Inside<'_, T>> {
        if let Some(mutex) = &self.mutex {
            self.lock(mutex)?;
        }
        // Behind a mutex this cannot be: a panic has poisoned that.
        if self.taken.load(Ordering::Relaxed) {
            return None;
        }
        self.taken.store(true, Ordering::Relaxed);
        Some(Inside { gate: self, _stays: PhantomData })
    }

    /// Not inline: it would take the room of who needs no lock.
    #[inline(never)]
    fn lock(&self, mutex: &Mutex<()>) -> Option<()> {
        let guard = mutex.lock().ok()?;
        // SAFETY: the mutex was just locked, so nobody else is inside. The
        // guard is dropped before the mutex, by `Inside`, which borrows us.
        unsafe {
            let guard = std::mem::transmute::<MutexGuard<'_, ()>, MutexGuard<'static, ()>>(guard);
            *self.held.get() = Some(guard);
        }
        Some(())
    }

    #[inline(never)]
    fn unlock(&self) {
        // SAFETY: we are still inside.
        drop(unsafe { (*self.held.get()).take() });
    }
}

/// Access to the value of a gate.
pub(crate) struct Inside<'a, T> {
    gate: &'a Gate<T>,
    /// A mutex is unlocked by the thread that locked it.
    _stays: PhantomData<*const ()>,
}

impl<T> Deref for Inside<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: there is one guard at a time, see `Gate`.
        unsafe { &*self.gate.value.get() }
    }
}

impl<T> DerefMut for Inside<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and it is borrowed mutably.
        unsafe { &mut *self.gate.value.get() }
    }
}

impl<T> Drop for Inside<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // After a panic the value may be half-done: the gate stays shut.
        if !std::thread::panicking() {
            self.gate.taken.store(false, Ordering::Relaxed);
        }
        if self.gate.mutex.is_some() {
            self.gate.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let gate = Gate::new(0, false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| *gate.enter().unwrap() += 1));
            }
        });
        assert_eq!(*gate.enter().unwrap(), 40_000);
    }

    #[test]
    fn a_broken_promise_is_noticed() {
        let gate = Gate::new(0, true);
        let inside = gate.enter();
        assert!(inside.is_some() && gate.enter().is_none());
        drop(inside);
        assert!(gate.enter().is_some());
    }

    #[test]
    fn a_panic_shuts_the_gate() {
        for serial in [true, false] {
            let gate = Gate::new(0, serial);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _inside = gate.enter();
                panic!("expected by this test");
            }));
            assert!(result.is_err() && gate.enter().is_none());
        }
    }
}
