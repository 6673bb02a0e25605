//! Busy strangers: somebody else's work on every core.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::thread::{CpuSet, sched_setaffinity};
use wiglaf_base::machine;

/// One on each core, for as long as this lives.
pub(super) struct Strangers {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Strangers {
    /// They begin at once.
    pub(super) fn begin() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let one = |core: usize| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || compute(core, &is_over))
        };
        let threads = machine::cores().into_iter().map(one).collect();
        Self { is_over, threads }
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It cannot panic.
            let _ = thread.join();
        }
    }
}

fn compute(core: usize, is_over: &AtomicBool) {
    let mut cores = CpuSet::new();
    cores.set(core);
    if sched_setaffinity(None, &cores).is_err() {
        eprintln!("wiglaf: a stranger could not be kept to core {core}");
    }
    let mut number = 1u64;
    while !is_over.load(Ordering::Relaxed) {
        for _ in 0..1000 {
            number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005) + 1);
        }
    }
}
