//! A node's folder as a mounted file system, so that programs that know nothing
//! of Wiglaf work on it: FUSE in front of `wiglaf-files`.
//!
//! The kernel asks, [`serve`] answers, and each answer comes from the node's
//! file server at that time: content goes past the page cache
//! (`FOPEN_DIRECT_IO`), attributes are asked for every time. Names of folders
//! alone are kept, for a moment; what they stand for is checked by every call
//! that uses them (see `mounted`).

#![forbid(unsafe_code)]

mod attach;
mod convert;
mod fuse;
mod handles;
mod inodes;
mod kernel;
mod locks;
mod mounted;
mod serve;

pub use attach::{Unmounted, connect, unmount};
pub use serve::{Options, serve};
