//! Threads and what they share: the system's, or those that loom models (`cargo xtask loom`).

#[cfg(not(loom))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering, fence},
    sync::{Mutex, MutexGuard},
    thread::{Thread, current, yield_now},
};

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering, fence},
    sync::{Mutex, MutexGuard},
    thread::{Thread, current, yield_now},
};
#[cfg(not(loom))]
use rustix::thread::{MembarrierCommand, membarrier};

/// Whether this process can let guests through gates without a mutex.
pub fn admits_guests() -> bool {
    #[cfg(loom)]
    return true;
    #[cfg(not(loom))]
    membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
}

/// A full fence, on every processor that runs a thread of this process, too: membarrier(2). Answers
/// whether it was one.
pub(crate) fn fence_everywhere() -> bool {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
    #[cfg(loom)]
    return true;
    #[cfg(not(loom))]
    membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}

/// A full fence whenever another thread calls [`fence_everywhere`], and else for the compiler only.
/// Loom knows no such thing: there it always is one.
#[inline]
pub(crate) fn fence_when_asked() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}
