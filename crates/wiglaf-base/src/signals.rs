//! Signals as events: a launcher passes them on instead of dying of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::end::End;
use crate::error::{Error, Result};

/// What a terminal, a shell or a batch system sends to end a command.
pub const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// What is for a program to make sense of: many write checkpoints on them.
pub const PROGRAMS: [i32; 2] = [libc::SIGUSR1, libc::SIGUSR2];
/// What Ctrl-C sends.
pub const INTERRUPT: i32 = libc::SIGINT;
/// The signal of a window that has another size.
pub const RESIZED: i32 = libc::SIGWINCH;
/// What Ctrl-Z sends.
pub const SUSPEND: i32 = libc::SIGTSTP;
/// What stops a process, whatever it makes of other signals.
pub const STOP: i32 = libc::SIGSTOP;
/// What lets a stopped process go on.
pub const CONTINUE: i32 = libc::SIGCONT;
/// The signal that cannot be ignored.
pub const KILL: i32 = libc::SIGKILL;

/// Signals that no longer do what they do by default, but wait to be passed on.
pub struct Held(libc::sigset_t);

impl Held {
    /// Holds these signals from now on, for this thread and those it starts, but for
    /// those that are ignored: under `nohup`, or in the background, they must stay so,
    /// and one that is held comes also when it is ignored.
    /// Must come before other threads start: a signal goes to any thread that
    /// does not hold it.
    #[must_use]
    pub fn new(signals: &[i32]) -> Self {
        let set = set_of(signals.iter().copied().filter(|number| !is_ignored(*number)));
        // SAFETY: `set` is live; the call touches nothing else but this thread's mask.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        Self(set)
    }

    /// Calls `on_signal` for each signal that has come and will come.
    ///
    /// # Errors
    /// When the thread that waits for signals cannot be started.
    pub fn pass_on(self, on_signal: impl Fn(i32) + Send + 'static) -> Result<()> {
        let wait = move || {
            let Self(set) = self;
            loop {
                let mut number = 0;
                // SAFETY: both point to live variables of this thread.
                if unsafe { libc::sigwait(&raw const set, &raw mut number) } == 0 {
                    on_signal(number);
                }
            }
        };
        let started = std::thread::Builder::new().spawn(wait);
        started.map(drop).map_err(|error| Error::new(format!("cannot wait for signals: {error}")))
    }
}

/// The first signal that asked a command for its end.
#[derive(Debug, Clone, Default)]
pub struct First(Arc<AtomicI32>);

impl First {
    /// Notes a signal. Says whether it is the first.
    #[must_use]
    pub fn note(&self, number: i32) -> bool {
        self.0.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// When all is cleaned up: ends this process by Ctrl-C's signal if that was the first. A shell ends
    /// its loop only when the command has died of it. Who has taken it and ended well has ended well.
    ///
    /// # Errors
    /// Those of the outcome, which is given back.
    pub fn die_of_interrupt(&self, outcome: Result<End>) -> Result<End> {
        if self.0.load(Ordering::Relaxed) == INTERRUPT && outcome != Ok(End::Status(0)) {
            if let Err(error) = &outcome {
                eprintln!("wiglaf: {error}");
            }
            die_of(INTERRUPT);
        }
        outcome
    }
}

/// Stops this process, as Ctrl-Z does, and comes back when it goes on. Where [`CONTINUE`] is held and has come since
/// [`SUSPEND`], which would have taken an earlier one away (signal(7)), it goes on at once: a batch system that stops
/// and continues all of a job's processes does not send it again.
pub fn stop_here() {
    if is_pending(CONTINUE) {
        return;
    }
    // SAFETY: the call touches no memory of ours.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Whether a signal that is held has come.
fn is_pending(number: i32) -> bool {
    let mut set = set_of([]);
    // SAFETY: `set` is live; the calls touch nothing else.
    unsafe { libc::sigpending(&raw mut set) == 0 && libc::sigismember(&raw const set, number) == 1 }
}

fn set_of(signals: impl IntoIterator<Item = i32>) -> libc::sigset_t {
    // SAFETY: a zeroed set is valid to be initialised.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is live.
    unsafe { libc::sigemptyset(&raw mut set) };
    for number in signals {
        // SAFETY: as above.
        unsafe { libc::sigaddset(&raw mut set, number) };
    }
    set
}

/// Ends this process by a signal, which it may have held.
pub fn die_of(number: i32) {
    let set = set_of([number]);
    // SAFETY: no handler is set; `set` is live, and the calls touch nothing else but this thread's mask.
    unsafe {
        libc::signal(number, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(number);
    }
}

/// What whoever started this process has ignored or held is neither any longer: a process that outlives
/// him would hand it on to all that it starts. Writing to nobody stays an error, and no signal.
pub fn forget_inherited() {
    /// The last of Linux (signal(7)).
    const LAST: libc::c_int = 64;
    for number in (1..=LAST).filter(|number| *number != libc::SIGPIPE) {
        // SAFETY: no handler is set; of those that cannot be changed the call is refused.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
    let none = set_of([]);
    // SAFETY: `none` is live; the call touches nothing else but this thread's mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
}

/// Whether whoever started this process wants it not to notice that signal.
fn is_ignored(number: i32) -> bool {
    // SAFETY: a zeroed action is valid to be written to.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: no action is set; the present one is written to a live variable.
    let asked = unsafe { libc::sigaction(number, std::ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_told_to_go_on_before_it_has_stopped_goes_on() {
        let _held = Held::new(&[CONTINUE]);
        assert!(!is_pending(CONTINUE));
        // SAFETY: the call touches no memory of ours.
        unsafe { libc::raise(CONTINUE) };
        assert!(is_pending(CONTINUE));
        stop_here();
    }
}
