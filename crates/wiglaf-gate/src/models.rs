//! Application and guest at one gate, in every order in which their loads and stores can take effect
//! (loom): `cargo xtask loom`.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use crate::sync::{AtomicBool, Ordering};
use crate::{Gate, Guarded};

/// All orders with at most so many switches away from a thread that could go on; see the models of
/// shared memory.
const SWITCHES: usize = 4;

/// What the gate keeps: loom fails where two threads access it without an order between them.
type Work = Gate<UnsafeCell<u32>>;

impl Guarded for UnsafeCell<u32> {
    fn is_unfinished(&self) -> bool {
        // SAFETY: loom fails where it is written at the same time.
        self.with(|work| unsafe { *work > 0 })
    }
}

/// Runs the model at a gate for one thread at a time, and at one with a mutex.
fn explore(model: impl Fn(&Arc<Work>) + Copy + Send + Sync + 'static) {
    for serial in [true, false] {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(SWITCHES));
        builder.max_branches = 10_000;
        builder.check(move || model(&Arc::new(Gate::new(UnsafeCell::new(0), serial))));
    }
}

/// Changes the value; loom sees when.
fn change(value: &UnsafeCell<u32>, by: impl Fn(u32) -> u32) -> u32 {
    value.with_mut(|value| {
        // SAFETY: loom fails before two threads are here at once.
        unsafe {
            *value = by(*value);
            *value
        }
    })
}

#[test]
fn a_guest_and_the_application_keep_apart() {
    explore(|gate| {
        let theirs = Arc::clone(gate);
        let guest = thread::spawn(move || {
            let look = |_| match theirs.receive() {
                Some(inside) => change(&inside, |value| value + 1).min(1),
                None => 0,
            };
            (0..2).map(look).sum::<u32>()
        });
        for _ in 0..2 {
            change(&gate.enter().expect("nobody panics"), |value| value + 1);
        }
        let by_guest = guest.join().expect("no panic");
        assert_eq!(change(&gate.enter().expect("nobody panics"), |value| value), 2 + by_guest);
    });
}

/// The application leaves work twice and calls no more; the guest looks, and sleeps only when nothing is
/// left. Were it not woken, loom would say that nobody goes on.
#[test]
fn what_the_application_leaves_is_done() {
    explore(|gate| {
        let (theirs, away) = (Arc::clone(gate), Arc::new(AtomicBool::new(false)));
        let is_away = Arc::clone(&away);
        let guest = thread::spawn(move || {
            let mut done = 0;
            while done < 2 {
                let Some(inside) = theirs.receive() else {
                    // It comes back milliseconds later.
                    while !is_away.load(Ordering::Acquire) {
                        thread::yield_now();
                    }
                    continue;
                };
                if change(&inside, |work| work) > 0 {
                    done += 1;
                    change(&inside, |work| work - 1);
                } else {
                    inside.leave_to_sleep();
                    thread::park();
                }
            }
        });
        for _ in 0..2 {
            change(&gate.enter().expect("nobody panics"), |work| work + 1);
        }
        away.store(true, Ordering::Release);
        guest.join().expect("no panic");
    });
}
