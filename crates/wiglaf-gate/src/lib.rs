//! One at a time: a lock that costs nothing where the application has promised
//! to bring one thread at a time anyway (`FI_THREAD_DOMAIN`).
//!
//! A message between ranks of one node takes 0.3 us. The eight locked
//! instructions of four mutexes were a sixth of that.
//!
//! A *guest*, a thread of our own, may come in while the application is away. It pays for both: by
//! membarrier(2) it makes sure that the application sees it before it looks whether that is inside
//! (the asymmetric form of Dekker's algorithm; McKenney, "Is Parallel Programming Hard", memory
//! barriers by `sys_membarrier`).

#[cfg(all(test, loom))]
mod models;
mod sync;

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

pub use crate::sync::admits_guests;
use crate::sync::{
    AtomicBool, AtomicU8, AtomicU32, Mutex, MutexGuard, Ordering, Thread, current, fence,
    fence_everywhere, fence_when_asked, yield_now,
};

/// The guest has nothing to do with the gate for the moment.
const AWAY: u8 = 0;
/// It is inside, or about to look whether it may be.
const INSIDE: u8 = 1;
/// It sleeps until somebody leaves it something to do.
const ASLEEP: u8 = 2;
/// It panicked inside.
const BROKEN: u8 = 3;

/// After so many visits a guest that sleeps is woken, whatever is left to it: to ask at every leave
/// costs who is busy a part of each message. A thread that sleeps behind the gate, and comes in
/// between, needs seconds for so many.
const VISITS_OF_A_SLEEP: u32 = 4096;

/// What a gate is for.
pub trait Guarded {
    /// Whether who leaves now leaves something to do, for which a guest that sleeps is woken. Asked
    /// only while one sleeps.
    fn is_unfinished(&self) -> bool;
}

/// A value that one caller at a time may touch.
pub struct Gate<T> {
    /// None where the application keeps its threads apart.
    mutex: Option<Mutex<()>>,
    /// The mutex's guard while somebody is inside: a guard of ours that held it
    /// would be moved about at every call.
    held: UnsafeCell<Option<MutexGuard<'static, ()>>>,
    /// Somebody is inside, or panicked there. Without a mutex that is never the guest.
    taken: AtomicBool,
    /// Where the guest is.
    guest: AtomicU8,
    /// How often anybody but the guest came in.
    visits: AtomicU32,
    /// How many visits there had been when the guest fell asleep.
    visits_before_sleep: AtomicU32,
    /// Who is woken.
    asleep: OnceLock<Thread>,
    value: UnsafeCell<T>,
}

// SAFETY: whoever touches the value, or `held`, is inside, and there is one
// inside at a time: the mutex, or the application's promise, sees to that; a guest comes in only
// behind the mutex or as `Gate::receive` argues.
unsafe impl<T: Send> Sync for Gate<T> {}
// SAFETY: nobody is inside a gate that is moved, so `held` is empty.
unsafe impl<T: Send> Send for Gate<T> {}

impl<T: Guarded> Gate<T> {
    /// Behind a mutex, unless `serial`: then fi_domain(3) obliges the
    /// application to let no two threads call into the domain at once.
    pub fn new(value: T, serial: bool) -> Self {
        Self {
            mutex: (!serial).then(|| Mutex::new(())),
            held: UnsafeCell::new(None),
            taken: AtomicBool::new(false),
            guest: AtomicU8::new(AWAY),
            visits: AtomicU32::new(0),
            visits_before_sleep: AtomicU32::new(0),
            asleep: OnceLock::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the value. Nothing, after a panic of who had it; or when an
    /// application that promised one thread at a time is caught breaking that.
    #[inline]
    pub fn enter(&self) -> Option<Inside<'_, T>> {
        if let Some(mutex) = &self.mutex {
            self.lock(mutex)?;
        }
        // Behind a mutex this cannot be: a panic has poisoned that.
        if self.taken.load(Ordering::Relaxed) {
            return None;
        }
        self.taken.store(true, Ordering::Relaxed);
        // No processor puts this behind the load when a guest comes.
        fence_when_asked();
        let visits = self.visits.load(Ordering::Relaxed); // nobody else writes it now
        self.visits.store(visits.wrapping_add(1), Ordering::Relaxed);
        if self.guest.load(Ordering::Acquire) != AWAY {
            self.meet_guest()?;
        }
        Some(Inside { gate: self, _stays: PhantomData })
    }

    /// Waits until the guest has left, which is soon. Nothing, if it panicked inside.
    #[cold]
    #[inline(never)]
    fn meet_guest(&self) -> Option<()> {
        // Behind a mutex it is not inside now. Without one it goes first, or whoever calls all
        // the time would keep it out.
        while self.mutex.is_none() && self.guest.load(Ordering::Acquire) == INSIDE {
            self.taken.store(false, Ordering::Release);
            while self.guest.load(Ordering::Acquire) == INSIDE {
                yield_now(); // it may need this very core
            }
            self.taken.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
        // And `taken` stays where it panicked.
        (self.guest.load(Ordering::Acquire) != BROKEN).then_some(())
    }

    /// Wakes the guest if it still sleeps.
    #[cold]
    #[inline(never)]
    fn wake_guest(&self) {
        let woken = self.guest.compare_exchange(ASLEEP, AWAY, Ordering::AcqRel, Ordering::Relaxed);
        if let (Ok(_), Some(guest)) = (woken, self.asleep.get()) {
            guest.unpark();
        }
    }

    /// How often anybody but the guest has come in, modulo 2^32.
    pub fn visits(&self) -> u32 {
        self.visits.load(Ordering::Relaxed)
    }

    /// Lets the one guest in; nothing while somebody is inside. The caller has prepared by
    /// [`admits_guests`], and is the only guest of this gate.
    pub fn receive(&self) -> Option<Guest<'_, T>> {
        let Some(mutex) = &self.mutex else {
            if self.guest.load(Ordering::Relaxed) == BROKEN {
                return None;
            }
            self.guest.store(INSIDE, Ordering::SeqCst);
            // All who came in before this are seen inside below, or have left; all who come in
            // later see the guest and wait.
            if !fence_everywhere() || self.taken.load(Ordering::Acquire) {
                self.guest.store(AWAY, Ordering::Release);
                return None;
            }
            return Some(Guest { gate: self, then: AWAY, _stays: PhantomData });
        };
        let guard = mutex.try_lock().ok()?;
        self.hold(guard);
        if self.taken.load(Ordering::Relaxed) {
            self.unlock(); // somebody panicked there
            return None;
        }
        Some(Guest { gate: self, then: AWAY, _stays: PhantomData })
    }

    /// Not inline: it would take the room of who needs no lock.
    #[inline(never)]
    fn lock(&self, mutex: &Mutex<()>) -> Option<()> {
        self.hold(mutex.lock().ok()?);
        Some(())
    }

    /// Keeps the guard of our mutex.
    fn hold(&self, guard: MutexGuard<'_, ()>) {
        // SAFETY: the mutex was just locked, so nobody else is inside. The guard is dropped before
        // the mutex, by `Inside` or `Guest`, which borrow us.
        unsafe {
            let guard = std::mem::transmute::<MutexGuard<'_, ()>, MutexGuard<'static, ()>>(guard);
            *self.held.get() = Some(guard);
        }
    }

    #[inline(never)]
    fn unlock(&self) {
        // SAFETY: we are still inside.
        drop(unsafe { (*self.held.get()).take() });
    }
}

/// Access to the value of a gate.
pub struct Inside<'a, T: Guarded> {
    gate: &'a Gate<T>,
    /// A mutex is unlocked by the thread that locked it.
    _stays: PhantomData<*const ()>,
}

impl<T: Guarded> Inside<'_, T> {
    #[cold]
    #[inline(never)]
    fn wakes_guest(&self) -> bool {
        let before = self.gate.visits_before_sleep.load(Ordering::Relaxed);
        self.gate.visits().wrapping_sub(before) > VISITS_OF_A_SLEEP || self.is_unfinished()
    }
}

impl<T: Guarded> Deref for Inside<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: there is one guard at a time, see `Gate`.
        unsafe { &*self.gate.value.get() }
    }
}

impl<T: Guarded> DerefMut for Inside<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and it is borrowed mutably.
        unsafe { &mut *self.gate.value.get() }
    }
}

impl<T: Guarded> Drop for Inside<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let mut wake = false;
        // After a panic the value may be half-done: the gate stays shut.
        if !std::thread::panicking() {
            // It can neither come nor go to sleep while somebody is inside.
            let is_asleep = self.gate.guest.load(Ordering::Relaxed) == ASLEEP;
            wake = is_asleep && self.wakes_guest();
            self.gate.taken.store(false, Ordering::Release);
        }
        if self.gate.mutex.is_some() {
            self.gate.unlock();
        }
        if wake {
            self.gate.wake_guest();
        }
    }
}

/// Access of the guest to the value of a gate.
pub struct Guest<'a, T: Guarded> {
    gate: &'a Gate<T>,
    /// Where it is when it has left.
    then: u8,
    /// A mutex is unlocked by the thread that locked it.
    _stays: PhantomData<*const ()>,
}

impl<T: Guarded> Guest<'_, T> {
    /// Leaves, to sleep: whoever next leaves something unfinished unparks this thread, or who comes
    /// in often.
    pub fn leave_to_sleep(mut self) {
        self.gate.asleep.get_or_init(current);
        self.gate.visits_before_sleep.store(self.gate.visits(), Ordering::Relaxed);
        self.then = ASLEEP;
    }
}

impl<T: Guarded> Deref for Guest<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: nobody else is inside, see `Gate::receive`.
        unsafe { &*self.gate.value.get() }
    }
}

impl<T: Guarded> DerefMut for Guest<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and it is borrowed mutably.
        unsafe { &mut *self.gate.value.get() }
    }
}

impl<T: Guarded> Drop for Guest<'_, T> {
    fn drop(&mut self) {
        // After a panic the value may be half-done: the gate stays shut.
        let then = if std::thread::panicking() { BROKEN } else { self.then };
        self.gate.guest.store(then, Ordering::Release);
        if self.gate.mutex.is_some() {
            self.gate.unlock();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl Guarded for u32 {
        fn is_unfinished(&self) -> bool {
            *self > 0
        }
    }

    impl Guarded for (u32, u32) {
        fn is_unfinished(&self) -> bool {
            false
        }
    }

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
    fn a_guest_and_the_application_keep_apart() {
        for serial in [true, false] {
            assert!(admits_guests());
            let gate = Gate::new((0, 0), serial);
            let done = AtomicBool::new(false);
            let mine = std::thread::scope(|scope| {
                let guest = scope.spawn(|| {
                    let mut mine = 0;
                    while !done.load(Ordering::Relaxed) {
                        if let Some(mut inside) = gate.receive() {
                            inside.0 += 1;
                            std::hint::black_box(&mut *inside);
                            inside.1 += 1;
                            mine += 1;
                        }
                        // One that comes again at once can go in step with the application for minutes.
                        std::thread::sleep(std::time::Duration::from_micros(1));
                    }
                    mine
                });
                let until_met = || gate.enter().unwrap().0 < 20_000 + 100;
                let mut count = 0;
                while count < 20_000 || until_met() {
                    let mut inside = gate.enter().unwrap();
                    assert_eq!(inside.0, inside.1);
                    if count < 20_000 {
                        inside.0 += 1;
                        std::hint::black_box(&mut *inside);
                        inside.1 += 1;
                        count += 1;
                    }
                }
                done.store(true, Ordering::Relaxed);
                guest.join().unwrap()
            });
            assert_eq!(*gate.enter().unwrap(), (20_000 + mine, 20_000 + mine));
        }
    }

    #[test]
    fn a_guest_that_sleeps_is_woken_for_what_is_left_to_it_and_by_who_is_busy() {
        for (serial, often) in [(true, true), (true, false), (false, true), (false, false)] {
            assert!(admits_guests());
            let gate = Gate::new(0, serial);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    loop {
                        match gate.receive() {
                            Some(inside) if *inside > 0 => return,
                            Some(_) if gate.visits() > VISITS_OF_A_SLEEP => return,
                            Some(inside) => inside.leave_to_sleep(),
                            None => continue,
                        }
                        std::thread::park();
                    }
                });
                while gate.guest.load(Ordering::Acquire) != ASLEEP {
                    std::thread::yield_now();
                }
                (0..VISITS_OF_A_SLEEP).for_each(|_| drop(gate.enter()));
                assert_eq!(gate.guest.load(Ordering::Acquire), ASLEEP, "there was nothing to do");
                if !often {
                    *gate.enter().unwrap() = 1;
                }
                while gate.guest.load(Ordering::Acquire) == ASLEEP {
                    drop(gate.enter());
                }
            });
        }
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
            assert!(result.is_err() && gate.enter().is_none() && gate.receive().is_none());
        }
    }

    #[test]
    fn a_panic_of_the_guest_shuts_the_gate() {
        for serial in [true, false] {
            assert!(admits_guests());
            let gate = Gate::new(0, serial);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _inside = gate.receive();
                panic!("expected by this test");
            }));
            assert!(result.is_err() && gate.receive().is_none() && gate.enter().is_none());
        }
    }
}
