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

/// Whether this process runs that test of this crate's alone, which changes what all tests of a process share. Elsewhere it
/// is run in a process of its own, where it must pass.
#[cfg(test)]
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "WIGLAF_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut itself = std::process::Command::new(std::env::current_exe().unwrap());
    let said = itself.args(["--exact", test]).env(ALONE, "1").output().unwrap();
    let shown = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success() && shown.contains("1 passed"), "{shown}");
    false
}
