//! The emulated cluster: nodes that are namespaces of one machine, joined by
//! an emulated wire, and the launching of jobs on them.
//!
//! A node has its own network, hostname, root overlay, processes and shared
//! memory; nothing but the wire joins two nodes. See `up` for how a cluster
//! comes and goes, `init` for what runs on a node, `launch` for jobs.

pub mod client;
pub mod doctor;
pub mod error;
pub mod fanout;
pub mod fault;
pub mod fortran;
pub mod fusermount;
#[doc(hidden)]
pub mod fuzzing;
pub mod hostlist;
mod inherited;
pub mod init;
mod keyboard;
pub mod launch;
pub mod mounts;
pub mod mpi;
mod passing;
pub mod process;
pub mod proto;
pub mod provider;
mod quiet;
pub mod random;
pub mod rate;
pub mod shape;
pub mod signals;
pub mod state;
pub mod tap;
pub mod terminal;
pub mod toolchain;
pub mod up;
pub mod user;
pub mod wire;

pub use client::{Node, NodeCommand, Streams};
pub use error::{Error, Result};
pub use hostlist::HostList;
pub use proto::End;
pub use state::{Record, StateDir};
