//! Launching MPI programs over the provider: the one place that knows how.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use crate::common::{provider_dir, scratch};

/// Longest that a program may run, in seconds; a hang becomes a failure.
const RUN_LIMIT_S: &str = "180";

/// Compiles `tests/mpi/NAME.c` with the installed MPI's compiler, once: another test may be running it.
pub(crate) fn compile(name: &str) -> PathBuf {
    static COMPILED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi").join(name).with_extension("c");
    let program = scratch("mpi").join(name);
    if compiled.iter().any(|other| other == name) {
        return program;
    }
    let output = Command::new("mpicc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(source)
        .output()
        .expect("run mpicc");
    assert!(output.status.success(), "mpicc: {}", String::from_utf8_lossy(&output.stderr));
    compiled.push(name.to_owned());
    program
}

/// The environment that makes Debian's Open MPI send everything through the provider, between ranks
/// of this machine over loopback.
pub(crate) const OPEN_MPI_ENV: [(&str, &str); 5] = [
    ("OMPI_MCA_pml", "cm"),
    ("OMPI_MCA_mtl", "ofi"),
    ("OMPI_MCA_mtl_ofi_provider_include", "wiglaf"),
    ("WIGLAF_IP", "127.0.0.1"),
    ("WIGLAF_KEY", "2f0c0a6bd2a4f6a38d9f0a4c1b7e5d13"),
];

/// How Open MPI makes windows: version 4 over messages, later ones over remote memory only.
fn windows() -> &'static [(&'static str, &'static str)] {
    let said = Command::new("mpirun").arg("--version").output().expect("run mpirun");
    if String::from_utf8_lossy(&said.stdout).contains(") 4.") {
        return &[("OMPI_MCA_osc", "pt2pt")];
    }
    &[
        ("OMPI_MCA_osc", "sm,rdma"),
        ("OMPI_MCA_btl", "self,ofi"),
        ("OMPI_MCA_btl_ofi_provider_include", "wiglaf"),
        ("OMPI_MCA_osc_rdma_acc_use_amo", "0"),
    ]
}

/// Runs `program` with that many ranks. One run at a time: the ranks share few cores.
pub(crate) fn mpirun(ranks: usize, program: &Path, extra_env: &[(&str, &str)]) -> Output {
    static RUNNING: Mutex<()> = Mutex::new(());
    let _alone = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    Command::new("mpirun")
        .args(["--allow-run-as-root", "--oversubscribe", "--timeout", RUN_LIMIT_S, "-n"])
        .arg(ranks.to_string())
        .arg(program)
        .envs(OPEN_MPI_ENV)
        .envs(windows().iter().copied())
        .env("FI_PROVIDER_PATH", provider_dir())
        .envs(extra_env.iter().copied())
        .output()
        .expect("run mpirun")
}
