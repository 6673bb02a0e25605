//! Waiting that does not hold up other threads: every queue and counter of an endpoint shares its
//! engine, and who sleeps or gives way must let go of it.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use wiglaf_endpoint::{Nap, Pause};

use crate::attended::Attended;
use crate::engine::{Engine, Shared};
use crate::guard::{Fi, lock};

/// Longest sleep of a blocking read before it looks again. What it waits for wakes it at once; this
/// bounds what it cannot be told, such as the death of a peer.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// How long closing waits for who sleeps on an endpoint to get up, and the time between two looks.
const LEAVE_LIMIT: Duration = Duration::from_secs(1);
const LEAVE_STEP: Duration = Duration::from_micros(50);

thread_local! {
    /// Where this thread has paused: what it polls.
    static PAUSED_AT: RefCell<Vec<Weak<Attended>>> = const { RefCell::new(Vec::new()) };
}

/// To be called after an empty read of a queue or counter with one engine: gives way as the
/// endpoint's policy finds best.
pub(crate) fn idle(engine: &Shared) -> Fi<()> {
    let pause = {
        let mut inside = lock(engine)?;
        if inside.is_closed() { None } else { inside.endpoint.begin_idle() }
    };
    match pause {
        Some(pause) => pass(engine, &pause),
        None => Ok(()),
    }
}

/// The rest of a pause that was begun under the engine's lock.
///
/// An MPI may have an endpoint for messages and another for windows, and poll both in turn. So a sleep at one of them
/// ends when something arrives at another: a rank in MPI_Win_fence serves what others do to its window.
pub(crate) fn pass(engine: &Shared, pause: &Pause) -> Fi<()> {
    remember(engine);
    let slept = match pause.nap() {
        Some(nap) => sleep_everywhere(engine, nap),
        None => {
            pause.pass();
            Ok(())
        }
    };
    lock(engine)?.endpoint.end_idle(pause);
    slept
}

/// This thread pauses at `engine`.
fn remember(engine: &Shared) {
    PAUSED_AT.with_borrow_mut(|known| {
        if !known.iter().any(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(engine))) {
            known.retain(|other| other.strong_count() > 0);
            known.push(Arc::downgrade(engine));
        }
    });
}

/// Where else this thread has paused. One that is closed, and still held by somebody, has no news any more.
fn others(engine: &Shared) -> Vec<Shared> {
    let is_open = |other: &Shared| lock(other).is_ok_and(|inside| !inside.is_closed());
    PAUSED_AT.with_borrow(|known| {
        let others = known.iter().filter_map(Weak::upgrade);
        others.filter(|other| !Arc::ptr_eq(other, engine) && is_open(other)).collect()
    })
}

/// Sleeps at `engine`, where this thread has lain down for `nap`, and at all others that it has paused at. Not at all
/// where something has happened at one of them.
fn sleep_everywhere(engine: &Shared, nap: &Nap) -> Fi<()> {
    let others = others(engine);
    if let Some(naps) = lie_down(&others, nap.limit(), |_, _| false)? {
        Nap::sleep(std::iter::once(nap).chain(&naps));
        get_up(&others, naps.len())?;
    }
    Ok(())
}

/// Sleeps until something may have happened at one of the engines, or for `limit`; not at all where
/// one of them, the `n`-th, is `ready` already. A thread that makes an engine ready wakes sleepers.
pub(crate) fn sleep(
    engines: &[Shared],
    limit: Duration,
    ready: impl Fn(usize, &mut Engine) -> bool,
) -> Fi<()> {
    let limit = limit.min(SLEEP_MAX);
    if engines.is_empty() {
        std::thread::sleep(limit);
        return Ok(());
    }
    if let Some(naps) = lie_down(engines, limit, ready)? {
        Nap::sleep(&naps);
        get_up(engines, naps.len())?;
    }
    Ok(())
}

/// Makes all engines ready for a sleep of at most `limit`; none of them where one, the `n`-th, is
/// `ready` already.
pub(crate) fn lie_down(
    engines: &[Shared],
    limit: Duration,
    ready: impl Fn(usize, &mut Engine) -> bool,
) -> Fi<Option<Vec<Nap>>> {
    let mut naps = Vec::with_capacity(engines.len());
    for (n, engine) in engines.iter().enumerate() {
        let mut engine = lock(engine)?;
        let something = engine.is_closed() || engine.progress() || ready(n, &mut engine);
        match if something { None } else { engine.endpoint.lie_down(limit) } {
            Some(nap) => naps.push(nap),
            None => {
                drop(engine);
                get_up(engines, naps.len())?;
                return Ok(None);
            }
        }
    }
    Ok(Some(naps))
}

/// The sleep of the first `count` engines is over.
fn get_up(engines: &[Shared], count: usize) -> Fi<()> {
    for engine in &engines[..count] {
        lock(engine)?.endpoint.get_up();
    }
    Ok(())
}

/// Wakes whoever sleeps on the engines.
pub(crate) fn wake<'a>(engines: impl Iterator<Item = &'a Shared>) -> Fi<()> {
    for engine in engines {
        lock(engine)?.endpoint.alarm();
    }
    Ok(())
}

/// Wakes whoever sleeps on an engine that has been closed, and waits until nobody has it any more: the
/// endpoint's ports are taken as long as somebody does.
pub(crate) fn until_left(engine: &Shared) {
    let began = Instant::now();
    while Arc::strong_count(engine) > 1 && began.elapsed() < LEAVE_LIMIT {
        if wake(std::iter::once(engine)).is_err() {
            return;
        }
        std::thread::sleep(LEAVE_STEP);
    }
}

/// When a wait of `timeout_ms` milliseconds ends; never, if that is negative.
pub(crate) fn deadline(timeout_ms: libc::c_int) -> Option<Instant> {
    let limit = Duration::from_millis(u64::try_from(timeout_ms).ok()?);
    Instant::now().checked_add(limit)
}

/// What is left until then.
pub(crate) fn time_left(deadline: Option<Instant>) -> Duration {
    deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A hang becomes a failure after so long.
    const PATIENCE: Duration = Duration::from_secs(60);
    /// Time between two looks: each may hold up a poll for so long that the caller seems to have
    /// been away, and who is away now and then is not put to sleep.
    const STEP: Duration = Duration::from_millis(10);

    fn engine() -> Shared {
        Arc::new(Attended::on_loopback())
    }

    /// Looks at an engine whose only user does nothing but what `wait` does, until it is found
    /// asleep: that can be seen only by who gets the lock meanwhile.
    fn is_found_asleep(wait: impl Fn(&Shared) + Sync) {
        let (engine, found) = (engine(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !found.load(Ordering::Acquire) {
                    wait(&engine);
                }
            });
            let began = Instant::now();
            while lock(&engine).unwrap().endpoint.sleepers() == 0 && began.elapsed() < PATIENCE {
                std::thread::sleep(STEP);
            }
            let in_time = began.elapsed() < PATIENCE;
            found.store(true, Ordering::Release);
            wake([&engine].into_iter()).unwrap();
            assert!(in_time, "it kept the lock");
        });
        assert_eq!(lock(&engine).unwrap().endpoint.sleepers(), 0);
    }

    #[test]
    fn who_sleeps_does_not_hold_the_engine() {
        is_found_asleep(|engine| {
            sleep(std::slice::from_ref(engine), Duration::from_secs(1), |_, _| false).unwrap();
        });
    }

    /// As a rank does whose MPI has an endpoint for messages and one for windows.
    #[test]
    fn a_thread_that_polls_two_engines_sleeps_at_both() {
        let (first, other, found) = (engine(), engine(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !found.load(Ordering::Acquire) {
                    for polled in [&first, &other] {
                        lock(polled).unwrap().progress();
                        idle(polled).unwrap();
                    }
                }
            });
            let began = Instant::now();
            let sleeps = |engine: &Shared| lock(engine).unwrap().endpoint.sleepers() > 0;
            let both = || {
                let inside = lock(&first).unwrap();
                inside.endpoint.sleepers() > 0 && sleeps(&other)
            };
            while !both() && began.elapsed() < PATIENCE {
                std::thread::sleep(STEP);
            }
            let in_time = began.elapsed() < PATIENCE;
            found.store(true, Ordering::Release);
            wake([&first, &other].into_iter()).unwrap();
            assert!(in_time, "it slept at one of them only");
        });
    }

    /// It never lies down: who waited for that would never sleep.
    #[test]
    fn an_engine_that_was_closed_keeps_nobody_awake() {
        let [open, closed, slept_at] = [(); 3].map(|()| engine());
        for paused_at in [&open, &closed, &slept_at] {
            remember(paused_at);
        }
        lock(&closed).unwrap().unbind();
        let others = others(&slept_at);
        assert_eq!(others.len(), 1);
        assert!(Arc::ptr_eq(&others[0], &open));
    }

    #[test]
    fn who_idles_for_long_does_not_hold_the_engine() {
        is_found_asleep(|engine| {
            lock(engine).unwrap().progress();
            idle(engine).unwrap();
        });
    }
}
