//! `wiglaf serve-files`: the file server of a node, started by programs that
//! attach it. It says and hears everything on its standard streams.

use std::path::PathBuf;
use std::process::ExitCode;

use wiglaf_base::paths::NODE_VAR;
use wiglaf_base::{Error, Result};
use wiglaf_cluster::StateDir;
use wiglaf_files::server::{self, Exports};

/// Serve files to the program on standard input and output
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Export this folder [default: what the cluster file says of this node]
    #[arg(long, value_name = "DIR")]
    export: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args, state: &StateDir) -> Result<ExitCode> {
    let exports = match args.export.is_empty() {
        true => exports_of_node(state)?,
        false => args.export.clone(),
    };
    server::run(&Exports(exports)).map_err(Error::new)?;
    Ok(ExitCode::SUCCESS)
}

/// What the cluster file lets other nodes reach of this one.
fn exports_of_node(state: &StateDir) -> Result<Vec<PathBuf>> {
    let name = std::env::var(NODE_VAR).map_err(|_| {
        Error::new("this is not a node of a cluster; name the folders to serve with --export")
    })?;
    let record = state.record()?;
    let nodes = record.into_iter().flat_map(|record| record.shape.nodes);
    let node = nodes.into_iter().find(|node| node.name == name);
    let node = node.ok_or_else(|| Error::new(format!("the cluster has no node {name}")))?;
    Ok(node.exports)
}
