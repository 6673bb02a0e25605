//! The lock around an engine: a mutex, behind which its attendant sleeps until somebody leaves something undone.
//!
//! What an application promises of its threads (`FI_THREAD_DOMAIN`) changes nothing: two locked instructions a call
//! are not seen in a message between ranks of one node (ADR 0065).

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};
use std::thread::Thread;

use crate::engine::Engine;

/// After so many visits an attendant that sleeps is woken, whatever is left to it. A thread that sleeps in a wait of
/// its own, and comes in between, needs seconds for so many.
const VISITS_OF_A_SLEEP: u32 = 4096;

/// An engine that one caller at a time may touch.
pub(crate) struct Attended(Mutex<Shared>);

struct Shared {
    engine: Engine,
    /// How often anybody but the attendant came in, modulo 2^32.
    visits: u32,
    asleep: Option<Asleep>,
}

/// The attendant while it sleeps.
struct Asleep {
    thread: Thread,
    /// How many visits there had been when it fell asleep.
    visits: u32,
}

impl Attended {
    pub(crate) fn new(engine: Engine) -> Self {
        Self(Mutex::new(Shared { engine, visits: 0, asleep: None }))
    }

    /// Waits for the engine. None after a panic of who had it.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        let mut shared = self.0.lock().ok()?;
        shared.visits = shared.visits.wrapping_add(1);
        Some(Inside(shared))
    }

    /// Lets its attendant in. None while somebody is inside, or after a panic of who was.
    pub(crate) fn attend(&self) -> Option<Attending<'_>> {
        self.0.try_lock().ok().map(Attending)
    }

    /// Waits for the engine, for its attendant. None after a panic of who had it.
    pub(crate) fn attend_soon(&self) -> Option<Attending<'_>> {
        self.0.lock().ok().map(Attending)
    }
}

/// Access to an engine.
pub(crate) struct Inside<'a>(MutexGuard<'a, Shared>);

impl Deref for Inside<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.0.engine
    }
}

impl DerefMut for Inside<'_> {
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.0.engine
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // After a panic the engine may be half-done; the mutex knows.
        if self.0.asleep.is_some() && !std::thread::panicking() {
            self.0.wake_for_work();
        }
    }
}

impl Shared {
    #[cold]
    fn wake_for_work(&mut self) {
        let wakes = |asleep: &mut Asleep| {
            self.visits.wrapping_sub(asleep.visits) > VISITS_OF_A_SLEEP
                || self.engine.endpoint.unfinished().is_some()
        };
        if let Some(asleep) = self.asleep.take_if(wakes) {
            asleep.thread.unpark();
        }
    }
}

/// Access of the attendant to the engine.
pub(crate) struct Attending<'a>(MutexGuard<'a, Shared>);

impl Attending<'_> {
    /// How often anybody but the attendant has come in, modulo 2^32.
    pub(crate) fn visits(&self) -> u32 {
        self.0.visits
    }

    /// Leaves, to sleep: whoever next leaves something unfinished unparks this thread, or who comes in often.
    pub(crate) fn leave_to_sleep(mut self) {
        let (thread, visits) = (std::thread::current(), self.visits());
        self.0.asleep = Some(Asleep { thread, visits });
    }
}

impl Deref for Attending<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.0.engine
    }
}

impl DerefMut for Attending<'_> {
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.0.engine
    }
}

#[cfg(test)]
impl Attended {
    /// One with an engine of its own on loopback.
    pub(crate) fn on_loopback() -> Self {
        use wiglaf_endpoint::{Address, Epoch};
        let at = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0);
        Self::new(crate::ep::open_engine(Some(Address { at, epoch: Epoch::UNKNOWN })).unwrap())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attendant_that_sleeps_is_woken_by_who_comes_in_often() {
        let engine = Attended::on_loopback();
        engine.attend().unwrap().leave_to_sleep();
        for _ in 0..VISITS_OF_A_SLEEP {
            drop(engine.enter());
        }
        let asleep = || engine.0.lock().unwrap().asleep.is_some();
        assert!(asleep(), "there was nothing to do");
        drop(engine.enter());
        assert!(!asleep());
        std::thread::park(); // returns: it was unparked
    }

    #[test]
    fn attendant_keeps_out_while_somebody_is_inside_and_after_a_panic() {
        let engine = Attended::on_loopback();
        let inside = engine.enter().unwrap();
        assert!(engine.attend().is_none());
        drop(inside);
        assert_eq!(engine.attend().unwrap().visits(), 1);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _inside = engine.enter();
            panic!("expected by this test");
        }));
        assert!(result.is_err() && engine.enter().is_none() && engine.attend().is_none());
    }
}
