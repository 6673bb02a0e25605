//! `FI_PROGRESS_AUTO`: a thread that moves an endpoint's data while the application does other
//! things.
//!
//! Only who asks for it gets it. On few cores it competes with the application, and what polls
//! anyway, as every MPI does, is faster without.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use wiglaf_interpose::threads;

use crate::engine::Shared;
use crate::guard::{Errno, Fi};
use crate::{log, wait};

/// The thread; dropping it ends it.
pub(crate) struct Helper {
    stop: Arc<AtomicBool>,
    engine: Shared,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Begins to move the data of `engine`.
    pub(crate) fn start(engine: &Shared) -> Fi<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, moved) = (Arc::clone(&stop), Arc::clone(engine));
        let run = move || {
            while !stopped.load(Ordering::Acquire) {
                // The lock is poisoned after a panic elsewhere, which has been reported.
                if wait::sleep(std::slice::from_ref(&moved), Duration::MAX, |_, _| false).is_err() {
                    return;
                }
            }
        };
        log::info!("a thread moves the data of the endpoint");
        let thread = threads::start("wiglaf", run).map_err(|why| {
            log::error!("no thread for automatic progress: {why}");
            Errno(why.raw_os_error().unwrap_or(libc::EAGAIN))
        })?;
        Ok(Self { stop, engine: Arc::clone(engine), thread: Some(thread) })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Where it cannot be woken it wakes by itself within milliseconds.
        let _ = wait::wake(std::iter::once(&self.engine));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
