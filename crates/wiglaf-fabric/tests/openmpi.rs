//! Real programs under the installed Open MPI, over the provider, on loopback.
//!
//! Each program checks its own results (`tests/mpi/check.h`) and prints `passed`.

mod common;
#[path = "common/mpi.rs"]
mod mpi;

/// What makes windows use the provider's RMA and atomics, not messages, as `wiglaf run` sets it. Between
/// ranks of one machine Open MPI would rather use its own shared memory: that is left out.
const OVER_RMA: [(&str, &str); 4] = [
    ("OMPI_MCA_osc", "rdma"),
    ("OMPI_MCA_btl", "self,ofi"),
    ("OMPI_MCA_btl_ofi_provider_include", "wiglaf"),
    ("OMPI_MCA_osc_rdma_acc_use_amo", "0"),
];

/// Runs the program `name` with 2 and with 4 ranks.
fn judge(name: &str) {
    judge_with(name, &[]);
}

fn judge_with(name: &str, extra_env: &[(&str, &str)]) {
    if !common::installed(&["mpirun", "mpicc"]) {
        return;
    }
    let program = mpi::compile(name);
    for ranks in [2, 4] {
        let output = mpi::mpirun(ranks, &program, extra_env);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && stdout.lines().any(|line| line == "passed"),
            "{name} with {ranks} ranks: {}\n{stdout}\n{stderr}",
            output.status,
        );
    }
}

macro_rules! judged {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            judge(stringify!($name));
        })*
    };
}

judged! {
    cancel,
    collectives,
    exchange,
    outstanding,
    probe,
    probe_self,
    sizes,
    split,
    ssend,
    threads,
    truncation,
    types,
    unordered,
    wildcard,
    win_atomics,
    win_epochs,
    win_swap,
    window,
}

#[test]
fn windows_over_rma() {
    for name in ["window", "win_atomics", "win_epochs"] {
        judge_with(name, &OVER_RMA);
    }
}

/// The programs above would pass over any transport: this one must fail where the provider cannot be
/// loaded, or they prove nothing.
#[test]
fn nothing_but_the_provider_carries_them() {
    if !common::installed(&["mpirun", "mpicc"]) {
        return;
    }
    let program = mpi::compile("split");
    let output = mpi::mpirun(2, &program, &[("FI_PROVIDER_PATH", "/nonexistent")]);
    assert!(!output.status.success(), "it ran without the provider");
}
