//! `wiglaf down`.

use std::process::ExitCode;

use wiglaf_base::Result;
use wiglaf_cluster::StateDir;
use wiglaf_emulation::up;

use crate::output;

/// Take the emulated cluster down
///
/// Ends everything that runs on it and leaves nothing behind: no namespace,
/// mount, process or file. Does nothing when no cluster is up. Needs root.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(state: &StateDir) -> Result<ExitCode> {
    let found = up::down(state)?;
    output::print(if found { "the cluster is down\n" } else { "no cluster was up\n" })?;
    Ok(ExitCode::SUCCESS)
}
