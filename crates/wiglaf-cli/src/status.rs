//! `wiglaf status`.

use std::process::ExitCode;

use serde::Serialize;
use wiglaf_base::Result;
use wiglaf_cluster::rate::Rate;
use wiglaf_cluster::{Record, StateDir, shape};

use crate::output;

/// Exit status when no cluster is up, as service managers have it.
const STATUS_NOT_UP: u8 = 3;

/// Show the emulated cluster
///
/// Exit status 0: it is up; 3: it is not, or not all of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Status {
    up: bool,
    state_dir: String,
    #[serde(flatten)]
    cluster: Option<Cluster>,
}

#[derive(Debug, Serialize)]
struct Cluster {
    name: String,
    wire: String,
    mtu: u32,
    nodes: Vec<NodeStatus>,
}

#[derive(Debug, Serialize)]
struct NodeStatus {
    name: String,
    address: String,
    core: Option<usize>,
    rate_bits_per_second: Option<u64>,
    up: bool,
    /// Why it is not known how a node is that is not simply down.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    pid: i32,
    processes: usize,
}

pub(crate) fn run(args: &Args, state: &StateDir) -> Result<ExitCode> {
    let record = state.record()?;
    let cluster = record.as_ref().map(|record| look(state, record));
    let nodes_up = cluster.as_ref().is_some_and(|c| c.nodes.iter().all(|n| n.up));
    // Without its switch nobody reaches another. Asked, as the nodes are: not every user sees root's
    // processes (hidepid of proc(5)).
    let has_switch =
        |record: &Record| record.switch.is_none() || state.node(shape::SWITCH).hello().is_ok();
    let up = nodes_up && record.as_ref().is_some_and(has_switch);
    if nodes_up && !up {
        let (down, up) = (state.command("down"), state.command("up"));
        eprintln!("wiglaf: the cluster's switch is gone; run `{down}`, then `{up}`");
    }
    let status = Status { up, state_dir: state.path().display().to_string(), cluster };
    match (args.json, record) {
        (true, _) => output::print_json(&status)?,
        (false, Some(record)) => output::print(&show(&status, &record))?,
        (false, None) => output::print(&format!("{}\n", state.not_up()))?,
    }
    let nodes = status.cluster.iter().flat_map(|cluster| &cluster.nodes);
    nodes.filter_map(|node| node.error.as_ref()).for_each(|error| eprintln!("wiglaf: {error}"));
    Ok(if up { ExitCode::SUCCESS } else { ExitCode::from(STATUS_NOT_UP) })
}

fn look(state: &StateDir, record: &Record) -> Cluster {
    let nodes = record.shape.nodes.iter().zip(&record.nodes).map(|(node, init)| {
        let hello = state.node(&node.name).hello();
        NodeStatus {
            name: node.name.clone(),
            address: node.address.to_string(),
            core: node.core,
            rate_bits_per_second: node.rate.map(Rate::bits_per_second),
            up: hello.is_ok(),
            error: hello.as_ref().err().filter(|e| !e.is_not_up()).map(ToString::to_string),
            pid: init.pid,
            processes: hello.map_or(0, |h| h.processes),
        }
    });
    Cluster {
        name: record.shape.name.clone(),
        wire: record.shape.wire.to_string(),
        mtu: record.shape.mtu,
        nodes: nodes.collect(),
    }
}

fn show(status: &Status, record: &Record) -> String {
    let heading = ["node", "address", "core", "state", "pid", "processes"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for node in status.cluster.iter().flat_map(|c| &c.nodes) {
        rows.push(vec![
            node.name.clone(),
            node.address.clone(),
            node.core.map_or_else(|| "all".to_owned(), |c| c.to_string()),
            match (node.up, &node.error) {
                (true, _) => "up",
                (false, None) => "down",
                (false, Some(_)) => "silent",
            }
            .to_owned(),
            node.pid.to_string(),
            node.processes.to_string(),
        ]);
    }
    format!("cluster {}: {}\n{}", record.shape.name, record.shape.summary(), output::table(&rows))
}
