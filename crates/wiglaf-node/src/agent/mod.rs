//! The server of a node, which runs commands for its clients as who they are, reaps them, and watches
//! over jobs. An emulated node's init is one, with what it adds as [`Emulated`]; a process of a user on
//! a real host can be one without.

mod batch;
mod caller;
mod children;
mod environment;
mod host;
mod jobs;
mod keys;
mod remains;
mod room;
mod server;
mod slice;
mod stuck;

pub use batch::{BatchJob, end_batch_job, processes_of_batch_job};
pub use caller::leave_keys;
pub use host::{look, main as host_main};
pub use server::{About, Emulated, Server, listen};

/// What fuzzers call: how a process's life is read from the kernel's line.
pub(crate) fn fuzz_stat(line: &[u8]) {
    let _ = jobs::Stat::parse(line, "");
}
