//! Atomics: the processor's, or those that loom models (`cargo xtask loom`).

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{Ordering, fence};
