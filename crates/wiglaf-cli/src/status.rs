//! `wiglaf status`.

use std::net::Ipv4Addr;
use std::process::ExitCode;

use serde::Serialize;
use wiglaf_base::{Error, HostList, Result};
use wiglaf_cluster::cluster::{address_of, ask_all};
use wiglaf_cluster::hosts::{HostSpec, Hosts};
use wiglaf_cluster::rate::Rate;
use wiglaf_cluster::{Cluster as AnyCluster, Record, StateDir, shape};
use wiglaf_node::proto::Hello;

use crate::check;
use crate::options::Global;
use crate::output;
use crate::tune;
use crate::which::Meant;

/// Exit status when no cluster is up, as service managers have it.
const STATUS_NOT_UP: u8 = 3;

/// Show the cluster: its hosts or its emulated nodes
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

#[derive(Debug, Serialize)]
struct HostsStatus {
    up: bool,
    name: String,
    file: String,
    data: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    admin: Option<String>,
    hosts: Vec<HostStatus>,
}

#[derive(Debug, Serialize)]
struct HostStatus {
    name: String,
    up: bool,
    /// Why it cannot take part.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    address: Option<String>,
    interface: Option<String>,
    admin_interface: Option<String>,
    slots: Option<usize>,
    wiglaf: Option<String>,
    processes: Option<usize>,
    /// By whom it is tuned, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    tuned: Option<String>,
}

/// What hosts say of themselves now, all asked at once.
fn of_hosts(args: &Args, hosts: &Hosts) -> Result<ExitCode> {
    let members = AnyCluster::Hosts(hosts.clone()).members(&HostList::default())?;
    let answers = ask_all(&members, |member| member.node.hello());
    let rows =
        hosts.nodes.iter().zip(answers).map(|(spec, answer)| host_status(hosts, spec, answer));
    let mut rows: Vec<HostStatus> = rows.collect();
    let (up, _): (Vec<_>, Vec<_>) =
        members.into_iter().zip(&mut rows).partition(|(_, row)| row.error.is_none());
    let (up, rows_up): (Vec<_>, Vec<_>) = up.into_iter().unzip();
    for (row, told) in rows_up.into_iter().zip(tune::told(&AnyCluster::Hosts(hosts.clone()), &up)) {
        row.tuned = told;
    }
    let up = rows.iter().all(|host| host.error.is_none());
    let status = HostsStatus {
        up,
        name: hosts.name.clone(),
        file: hosts.file.display().to_string(),
        data: hosts.network.data.to_string(),
        admin: hosts.network.admin.map(|network| network.to_string()),
        hosts: rows,
    };
    if args.json {
        output::print_json(&status)?;
    } else {
        output::print(&show_hosts(&status))?;
        for tuned in status.hosts.iter().filter_map(|host| host.tuned.as_ref()) {
            output::print(&format!("{tuned}\n"))?;
        }
        let last = check::summary(&AnyCluster::Hosts(hosts.clone()));
        output::print(&format!(
            "{}\n",
            last.as_deref().unwrap_or("never checked; run `wiglaf check`")
        ))?;
        for error in status.hosts.iter().filter_map(|host| host.error.as_ref()) {
            eprintln!("wiglaf: {error}");
        }
    }
    Ok(if up { ExitCode::SUCCESS } else { ExitCode::from(STATUS_NOT_UP) })
}

fn host_status(hosts: &Hosts, spec: &HostSpec, answer: Result<Hello>) -> HostStatus {
    let mut status = HostStatus {
        name: spec.name.clone(),
        up: answer.is_ok(),
        error: None,
        address: spec.address.map(|address| address.to_string()),
        interface: None,
        admin_interface: None,
        slots: spec.slots,
        wiglaf: None,
        processes: None,
        tuned: None,
    };
    let answered = answer.and_then(|hello| {
        let host =
            hello.host.ok_or_else(|| Error::new(format!("{} is no real host", spec.name)))?;
        Ok((hello.processes, host))
    });
    match answered {
        Err(error) => status.error = Some(error.to_string()),
        Ok((processes, host)) => {
            let interface = |wanted: &dyn Fn(Ipv4Addr) -> bool| {
                let found = host.addresses.iter().find(|found| wanted(found.address));
                found.map(|found| found.interface.clone())
            };
            match address_of(hosts, spec, &host) {
                Ok(address) => {
                    status.interface = interface(&|found| found == address);
                    status.address = Some(address.to_string());
                }
                Err(error) => status.error = Some(error.to_string()),
            }
            let admin = hosts.network.admin;
            status.admin_interface =
                admin.and_then(|admin| interface(&|found| admin.contains(found)));
            status.slots = spec.slots.or(Some(host.cores));
            status.wiglaf = Some(host.wiglaf);
            status.processes = Some(processes);
        }
    }
    status
}

fn show_hosts(status: &HostsStatus) -> String {
    let unknown = || "-".to_owned();
    let mut heading = vec!["host", "address", "interface"];
    heading.extend(status.admin.as_ref().map(|_| "admin"));
    heading.extend(["slots", "wiglaf", "state"]);
    let mut rows = vec![heading.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for host in &status.hosts {
        let mut row = vec![
            host.name.clone(),
            host.address.clone().unwrap_or_else(unknown),
            host.interface.clone().unwrap_or_else(unknown),
        ];
        if status.admin.is_some() {
            row.push(host.admin_interface.clone().unwrap_or_else(unknown));
        }
        row.push(host.slots.map_or_else(unknown, |slots| slots.to_string()));
        row.push(host.wiglaf.clone().unwrap_or_else(unknown));
        row.push(
            match (host.up, &host.error) {
                (true, None) => "up",
                (true, Some(_)) => "not well",
                (false, _) => "not reached",
            }
            .to_owned(),
        );
        rows.push(row);
    }
    let admin = status.admin.as_ref().map(|admin| format!(", admin {admin}")).unwrap_or_default();
    let (name, file, data) = (&status.name, &status.file, &status.data);
    format!("cluster {name} ({file}): data {data}{admin}\n{}", output::table(&rows))
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    match global.meant()? {
        Meant::Hosts(hosts) => of_hosts(args, &hosts),
        Meant::Emulated(state) => of_emulated(args, &state),
    }
}

fn of_emulated(args: &Args, state: &StateDir) -> Result<ExitCode> {
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
