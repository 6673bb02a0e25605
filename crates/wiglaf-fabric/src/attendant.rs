//! A thread that finishes what an absent application has left: an MPI program that computes, or
//! waits for something else, calls no library meanwhile. What it had sent would not be sent again
//! if it was lost, nor the rest of it sent at all where the window was full; its peers, who are owed
//! an acknowledgement or the bytes of a long message, would wait as long as it computes.
//!
//! `FI_PROGRESS_MANUAL` allows as much, but over TCP the kernel sees to it, so programs count on it
//! (fi_pingpong waits at a socket of its own for a peer whose last answer is still on its way). The
//! thread costs next to nothing: it looks in a few hundred times a second while there is traffic,
//! takes nothing over while the application calls in, and sleeps when all is done, until the
//! application leaves something undone (ADR 0018).
//!
//! With [`Progress::Thread`] it moves all data while the application is absent, also what nobody is owed yet: it
//! sleeps until something arrives. So messages go on while a program computes, at the price of the core that the thread
//! takes for it (ADR 0067).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use wiglaf_interpose::threads;

use wiglaf_endpoint::Nap;

use crate::engine::Shared;
use crate::wait;

/// Who has not called in for so long is absent.
const ABSENT_AFTER: Duration = Duration::from_millis(5);
/// Time between two looks while there is something to do.
const BUSY_STEP: Duration = Duration::from_micros(100);
/// Looks at an engine where nothing is to be done before the thread sleeps.
const LOOKS_BEFORE_SLEEP: u32 = 20;
/// An application that comes in more often between two looks is awake: it is not even asked whether
/// a thread of its own sleeps there, for a millisecond at least.
const VISITS_OF_SLEEPERS: u32 = 64;

/// With [`Progress::Thread`]: who has not called in for so long is absent. Looks at one who is there come less and less
/// often, up to the second of the two.
const AWAY_AFTER: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(1)];
/// The longest sleep of a thread that moves all data: as long as that of any other (wait.rs).
const NAP_MAX: Duration = Duration::from_millis(20);

/// Who moves data while the application does other things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nobody, but that what it has left is finished.
    Caller,
    /// A thread.
    Thread,
}

/// The thread; dropping it ends it.
pub(crate) struct Attendant {
    stop: Arc<AtomicBool>,
    engine: Shared,
    thread: Option<JoinHandle<()>>,
}

impl Attendant {
    /// Begins to look after `engine`.
    pub(crate) fn start(engine: &Shared, progress: Progress) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, attended) = (Arc::clone(&stop), Arc::clone(engine));
        let attend = move || Round::default().attend(&attended, progress, &stopped);
        let thread = threads::start("wiglaf", attend)?;
        Ok(Self { stop, engine: Arc::clone(engine), thread: Some(thread) })
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // Where it cannot be woken it wakes by itself within milliseconds.
            let _ = wait::wake(std::iter::once(&self.engine));
            let _ = thread.join();
        }
    }
}

/// What is remembered from one look to the next.
#[derive(Default)]
struct Round {
    visits: u32,
    /// Looks in a row without anything to do while nobody was awake here.
    idle_looks: u32,
    /// How long nothing has happened though something is to be done.
    step: Duration,
}

impl Round {
    fn attend(mut self, engine: &Shared, progress: Progress, stop: &AtomicBool) {
        let mut pause = ABSENT_AFTER;
        loop {
            if pause.is_zero() {
                std::thread::park();
            } else {
                std::thread::park_timeout(pause);
            }
            if stop.load(Ordering::Acquire) {
                return;
            }
            pause = match progress {
                Progress::Caller => self.look(engine),
                Progress::Thread => self.stand_in(engine),
            };
        }
    }

    /// Moves all data, if nobody was there since the last time, and sleeps until there is more. Answers after what time
    /// to look whether anybody is there.
    fn stand_in(&mut self, engine: &Shared) -> Duration {
        let [soon, late] = AWAY_AFTER;
        let Some(mut inside) = engine.attend() else { return soon };
        let visits = inside.visits();
        let came = visits != std::mem::replace(&mut self.visits, visits);
        if came || inside.endpoint.sleepers() > 0 {
            self.step = (2 * self.step).clamp(soon, late);
            return self.step;
        }
        self.step = soon;
        inside.endpoint.look_everywhere();
        if inside.is_closed() || inside.progress() {
            return BUSY_STEP / 10;
        }
        let nap = inside.endpoint.lie_down(NAP_MAX);
        drop(inside);
        if let Some(nap) = nap {
            Nap::sleep([&nap]);
            if let Some(mut inside) = engine.attend_soon() {
                inside.endpoint.get_up();
            }
        }
        BUSY_STEP / 10
    }

    /// Looks once, and does what is to be done if nobody was there since the last time. Answers
    /// after what time to look again; zero: when woken.
    fn look(&mut self, engine: &Shared) -> Duration {
        let Some(mut inside) = engine.attend() else { return ABSENT_AFTER };
        let visits = inside.visits();
        let came = visits.wrapping_sub(std::mem::replace(&mut self.visits, visits));
        if came > VISITS_OF_SLEEPERS {
            return self.leave_be();
        }
        if came > 0 && inside.endpoint.sleepers() == 0 {
            return self.leave_be();
        }
        let Some(due) = inside.endpoint.unfinished() else {
            self.idle_looks += 1;
            if self.idle_looks >= LOOKS_BEFORE_SLEEP {
                self.idle_looks = 0;
                inside.leave_to_sleep();
                return Duration::ZERO;
            }
            return ABSENT_AFTER * (1 + self.idle_looks / 2);
        };
        self.idle_looks = 0;
        inside.endpoint.look_everywhere();
        if inside.progress() {
            self.step = BUSY_STEP;
        } else {
            self.step = (2 * self.step).clamp(BUSY_STEP, ABSENT_AFTER);
        }
        due.clamp(BUSY_STEP, self.step)
    }

    /// The application is there.
    fn leave_be(&mut self) -> Duration {
        (self.idle_looks, self.step) = (0, BUSY_STEP);
        ABSENT_AFTER
    }
}
