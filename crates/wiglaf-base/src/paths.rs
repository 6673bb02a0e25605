//! Names that several crates agree on: where things are on every emulated node and in a cluster's state
//! folder, and the variables that tell a process where it is.

use std::path::{Path, PathBuf};

/// Where the `wiglaf` of this cluster is found on every emulated node.
pub const EXE: &str = "/usr/bin/wiglaf";
/// What MPI launchers call on every emulated node instead of ssh. A file of its own, as
/// hydra takes no arguments there.
pub const AGENT: &str = "/usr/bin/wiglaf-agent";
/// The interface of every emulated node.
pub const INTERFACE: &str = "eth0";
/// The file name of a node's socket, in the node's folder.
pub const SOCKET: &str = "exec.sock";
/// Where the secrets of jobs are, on each emulated node.
pub const KEYS: &str = "/run/wiglaf-keys";
/// The folder, in a cluster's state folder or a cache, that holds the names of MPI libraries.
pub const NAMES_DIR: &str = "abi";

/// The variable that marks all processes of a job.
pub const JOB_VAR: &str = "WIGLAF_JOB";
/// The variable that names the node a command runs on.
pub const NODE_VAR: &str = "WIGLAF_NODE";
/// The variable that names the state folder.
pub const STATE_VAR: &str = "WIGLAF_STATE";
/// The variable that overrides the search for our libraries.
pub const LIBDIR_VAR: &str = "WIGLAF_LIBDIR";

/// The variable that holds the secret of a job, or `@` and the file that does.
pub const KEY_VAR: &str = "WIGLAF_KEY";

/// Where the secret of that job is, on each of its emulated nodes.
#[must_use]
pub fn key(job: &str) -> PathBuf {
    Path::new(KEYS).join(job)
}

/// The mark of a job: what nobody guesses, and behind it the number that a batch system gave it.
#[must_use]
pub fn mark(random: u64, batch: Option<u32>) -> String {
    batch.map_or_else(|| format!("{random:016x}"), |job| format!("{random:016x}{job:08x}"))
}

/// The number that a batch system gave the job of a [`mark`].
#[must_use]
pub fn batch_job(mark: &str) -> Option<u32> {
    let number = mark.get(16..).filter(|_| mark.len() == 24)?;
    u32::from_str_radix(number, 16).ok()
}

/// What Slurm sets in a job besides `SLURM...`, from 24.11 on (seen there; 22.05 does not).
const OF_SLURM: [&str; 6] = [
    "HYDRA_BOOTSTRAP",
    "HYDRA_LAUNCHER_EXTRA_ARGS",
    "I_MPI_HYDRA_BOOTSTRAP",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
    "OMPI_MCA_plm_slurm_args",
    "PRTE_MCA_plm_slurm_args",
];

/// Whether a variable is Slurm's in the job that this process is in: launchers take it for an order, and leave the
/// nodes that they are told.
#[must_use]
pub fn is_slurms(name: &str) -> bool {
    name.starts_with("SLURM")
        || OF_SLURM.contains(&name) && std::env::var_os("SLURM_JOB_ID").is_some()
}

/// How to call a command of `wiglaf` for that cluster; for the default one where none is named.
#[must_use]
pub fn command(command: &str, cluster: Option<&str>) -> String {
    match cluster {
        Some(name) => format!("wiglaf {command} --name {name}"),
        None => format!("wiglaf {command}"),
    }
}

/// The user's folder for caches, as the XDG base directory specification has it; none without a home.
#[must_use]
pub fn user_cache() -> Option<PathBuf> {
    user_folder("XDG_CACHE_HOME", ".cache")
}

/// The user's folder for configuration.
#[must_use]
pub fn user_config() -> Option<PathBuf> {
    user_folder("XDG_CONFIG_HOME", ".config")
}

/// The user's folder for state that outlives a session.
#[must_use]
pub fn user_state() -> Option<PathBuf> {
    user_folder("XDG_STATE_HOME", ".local/state")
}

/// The specification asks to ignore what is no absolute path.
fn user_folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home)))
}
