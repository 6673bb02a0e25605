//! Making the emulated wire faulty: who asks, and what the switch's init is told (`init::faults` carries
//! it out).

use std::time::Duration;

use wiglaf_base::error::{Error, Result};
use wiglaf_base::process::Process;
use wiglaf_cluster::shape::{SWITCH, Wire};
use wiglaf_cluster::state::{Record, StateDir};
pub use wiglaf_node::faults::{
    Counts, Faults, HOLD_DEFAULT, PortFaults, PortReport, Probability, parse_hold,
};

use crate::wire::{self, port};

/// A wish for the port of one node.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// The port's faults; without any, its frames are not even counted.
    pub faults: Option<PortFaults>,
    /// How long reordered frames are held at most, on all ports.
    pub hold: Duration,
    /// Whether the cable is pulled.
    pub is_down: bool,
}

/// Sets what the ports of these nodes do, in place of what they did before.
///
/// # Errors
/// When there is no such node or no switch, none of them is up, or the kernel refuses.
pub fn set(state: &StateDir, record: &Record, nodes: &[String], wish: &Wish) -> Result<()> {
    let switch = switch_of(record)?;
    let ports: Vec<usize> = nodes.iter().map(|n| index_of(record, n)).collect::<Result<_>>()?;
    // A port goes with its node.
    let is_there = |port: &usize| record.nodes[*port].is_alive();
    let ports: Vec<usize> = ports.into_iter().filter(is_there).collect();
    if ports.is_empty() {
        return Err(Error::new("none of these nodes is up; see `wiglaf status`"));
    }
    if wish.faults.is_some_and(PortFaults::reorders) {
        wire::add_detour(switch)?;
    }
    let offload = |sums: bool| {
        let mut living = record.nodes.iter().filter(|node| node.is_alive());
        living.try_for_each(|node| wire::set_checksum_offload(*node, sums))
    };
    // Before: a frame that is damaged while its sum is still to be made counts as sound.
    if wish.faults.is_some_and(PortFaults::corrupts) {
        offload(false)?;
    }
    let wishes = ports.iter().map(|port| (*port, wish.faults)).collect();
    let node = state.node(SWITCH);
    node.set_faults(wishes, wish.hold)?;
    // Before what can fail at another node.
    wire::set_ports(switch, &ports, !wish.is_down)?;
    let all = node.faults((0..record.nodes.len()).filter(is_there).collect())?;
    let corrupts = all.iter().filter_map(|report| report.faults).any(PortFaults::corrupts);
    offload(!corrupts)
}

/// What the ports of these nodes do and did.
///
/// # Errors
/// When there is no such node or no switch.
pub fn show(state: &StateDir, record: &Record, nodes: &[String]) -> Result<Vec<PortReport>> {
    switch_of(record)?;
    let ports = nodes.iter().map(|n| index_of(record, n)).collect::<Result<Vec<_>>>()?;
    state.node(SWITCH).faults(ports)
}

fn switch_of(record: &Record) -> Result<Process> {
    match (record.shape.wire, record.switch) {
        (Wire::Bridge, Some(switch)) => Ok(switch),
        _ => Err(Error::new(
            "a direct wire has no switch, and faults sit on switch ports; bring the cluster up with \
             `--wire bridge`",
        )),
    }
}

fn index_of(record: &Record, node: &str) -> Result<usize> {
    record.shape.nodes.iter().position(|n| n.name == node).ok_or_else(|| {
        Error::new(format!("there is no node `{node}`; the nodes are {}", record.shape.names()))
    })
}

/// The interface at `index`, as the kernel numbers them in this namespace.
pub(crate) fn interface_index(name: &str) -> Result<u32> {
    let path = format!("/sys/class/net/{name}/ifindex");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    text.trim().parse().map_err(|_| Error::new(format!("there is no interface {name}")))
}

/// Whether the port at `index` is administratively down.
pub(crate) fn is_down(index: usize) -> bool {
    const IFF_UP: u32 = 1;
    let text = std::fs::read_to_string(format!("/sys/class/net/{}/flags", port(index)));
    let flags =
        text.ok().and_then(|t| u32::from_str_radix(t.trim().trim_start_matches("0x"), 16).ok());
    flags.is_some_and(|flags| flags & IFF_UP == 0)
}
