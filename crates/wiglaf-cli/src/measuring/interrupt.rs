//! Ctrl-C and its kin: a measurement ends its run, takes its cluster down, and
//! only then ends itself.

use std::sync::atomic::{AtomicI32, Ordering};

use wiglaf_base::{End, Error, Result, signals};

static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// From now on a signal is remembered instead of died of.
pub(crate) fn listen() -> Result<()> {
    signals::Held::new(&signals::ENDING).pass_on(|number| SIGNAL.store(number, Ordering::Relaxed))
}

/// Whether a signal came.
pub(crate) fn is_wanted() -> bool {
    SIGNAL.load(Ordering::Relaxed) != 0
}

/// Fails if a signal came.
pub(crate) fn check() -> Result<()> {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => Ok(()),
        number => {
            let status = End::Signal(number).code();
            Err(Error::new(format!("interrupted by signal {number}")).with_status(status))
        }
    }
}
