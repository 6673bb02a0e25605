//! Threads of ours in the application's process. They take none of its signals: those that it has blocked
//! in its own threads, to wait for them, would end it or interrupt nobody.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::thread::{Builder, JoinHandle};

/// What a thread does to itself is told to no other: blocked, it would end the process past the
/// application's handler.
const OWN_FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Starts a thread that takes no signals.
///
/// # Errors
/// When the kernel has no room for one.
pub fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    // A thread begins with the signals blocked that are so in whoever starts it.
    let blocked = Blocked::all();
    let thread = Builder::new().name(name.to_owned()).spawn(run);
    drop(blocked);
    thread
}

/// The signals of this thread are blocked as long as this lives.
struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    fn all() -> Self {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the first call makes a set of what it gets room for, the last writes another; with
        // valid arguments, as these are, none fails.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for signal in OWN_FAULTS {
                libc::sigdelset(all.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
            Self { before: before.assume_init() }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: a set that the kernel has given.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut())
        };
    }
}
