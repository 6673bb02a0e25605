//! A node of a cluster, from both sides: the messages, the client that has commands run there, and the
//! server that runs them.
//!
//! It does not matter here how a node came to be, what other nodes there are, or what the commands are
//! for.

pub mod agent;
pub mod client;
pub mod fanout;
pub mod faults;
pub mod fusermount;
#[doc(hidden)]
pub mod fuzzing;
mod inherited;
mod keyboard;
pub mod mounts;
pub mod proto;
pub mod ssh;
pub mod terminal;
pub mod trees;
mod tunnel;

pub use client::{Node, NodeCommand, Place, Streams};
pub use proto::End;
