//! The kernel's side of FUSE as it is spoken on /dev/fuse: requests are read and taken apart, answers are
//! put together and written. `linux/fuse.h` defines the numbers and the places of all fields.
//!
//! No library that was there in 2026 hands on what locks need: whether a lock is flock(2)'s
//! (FUSE_LK_FLOCK), and that a waiting call was interrupted (FUSE_INTERRUPT). See ADR 0041.

mod reply;
mod request;
mod session;

pub(crate) use reply::{Attr, Entries, Opened, Reply, Ttl};
pub(crate) use request::{Lock, NewAttributes, Operation, Request, Time, WRITE_CACHE, forgotten};
pub(crate) use session::{Capabilities, Filesystem, Session};

/// The kernel tells that a file was opened with this flag: it keeps none of its content.
pub(crate) const FOPEN_DIRECT_IO: u32 = 1;
/// The kernel says nothing of a close.
pub(crate) const FOPEN_NOFLUSH: u32 = 1 << 5;
/// Several write to one file at once.
pub(crate) const FOPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
