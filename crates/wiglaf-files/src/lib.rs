//! Files on other nodes, over Wiglaf: the calls of UNIX on another node's disk.
//!
//! A process attaches a node, which starts a server there as the same user;
//! the server sees the folders that the cluster file exports, and ends with
//! its client. Files of the own node take plain system calls.
//!
//! ```no_run
//! let files = wiglaf_files::Files::new();
//! let node = files.attach("node2")?;
//! let file = node.open("/scratch/integrals", libc::O_RDWR | libc::O_CREAT, 0o644)?;
//! file.write(b"what is written is seen by all nodes at once")?;
//! file.sync(false)?; // and now it is on disk
//! # Ok::<(), wiglaf_files::Error>(())
//! ```
//!
//! The C interface is `include/wiglaf_files.h`, the Fortran module
//! `fortran/wiglaf_files.f90`, the protocol `docs/files-protocol.md`.

mod buffering;
mod client;
pub mod copy;
mod error;
#[expect(unreachable_pub, reason = "C reaches them by symbol")]
mod ffi;
mod file;
#[doc(hidden)]
pub mod fuzzing;
mod launch;
mod node;
mod port;
mod roots;
pub mod server;
mod setup;
#[cfg(test)]
mod testing;
mod wire;

/// The C interface, for who compiles programs against it.
pub const C_HEADER: &str = include_str!("../include/wiglaf_files.h");

pub use error::{Error, Reason, Result};
pub use file::{File, LockRequest, LockWait, ReadRequest, SeekFrom};
pub use launch::SERVER_VAR;
pub use node::{Files, Folder, NewTime, Node};
pub use wire::{Attributes, Entry, Lock, LockKind, Space};
