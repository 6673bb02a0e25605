//! Emulated clusters: nodes that are namespaces of one machine, joined by an emulated wire.
//!
//! A node has its own network, hostname, root overlay, processes and shared
//! memory; nothing but the wire joins two nodes. See `up` for how a cluster
//! comes and goes, and `init` for what makes a node.

mod config;
pub mod fault;
#[doc(hidden)]
pub mod fuzzing;
pub mod init;
pub mod tap;
pub mod up;
pub mod wire;
