//! The emulated wire: veth pairs, a bridge, shaped ports, made with iproute2.

mod ethtool;

use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::process::Process;
use wiglaf_base::program::{GET_IPROUTE2, find_tool};
use wiglaf_cluster::shape::{INTERFACE, MTU_MAX, NodeShape, Shape, Wire};
use wiglaf_cluster::state::Record;

use ethtool::Offload;

const BRIDGE: &str = "br0";
/// Where reordered frames leave the ports, and where they come out.
pub(crate) const DETOUR: &str = "detour";
pub(crate) const DETOUR_END: &str = "detour-end";
/// How long a frame may wait in a shaped port: a shallow switch.
const QUEUE_LATENCY: &str = "10ms";
/// A token bucket must hold what the rate delivers between two timer ticks.
const BURST_LEN_MIN: u64 = 32 * 1024;
const TICKS_PER_SECOND: u64 = 1000;

/// Joins the nodes.
pub(crate) fn join(shape: &Shape, switch: Option<Process>, nodes: &[Process]) -> Result<()> {
    let all: Vec<usize> = (0..nodes.len()).collect();
    match (shape.wire, switch) {
        (Wire::Bridge, Some(switch)) => {
            let mtu = shape.mtu;
            let commands = format!(
                "link set lo up\n\
                 link add {BRIDGE} mtu {mtu} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n\
                 link set {BRIDGE} up\n"
            );
            batch("ip", switch, &commands)?;
            ports(shape, switch, nodes, &all)?;
        }
        _ => direct(shape, nodes)?,
    }
    address(shape, nodes, &all)
}

/// Joins those of `which`, which have been started anew, to the others.
pub(crate) fn rejoin(
    shape: &Shape,
    switch: Option<Process>,
    nodes: &[Process],
    which: &[usize],
) -> Result<()> {
    // What led to a node goes with it, but not at once.
    let remove = |process, interface: &str| {
        let _ = batch("ip", process, &format!("link del {interface}\n"));
    };
    if let (Wire::Bridge, Some(switch)) = (shape.wire, switch) {
        which.iter().for_each(|index| remove(switch, &port(*index)));
        ports(shape, switch, nodes, which)?;
        return address(shape, nodes, which);
    }
    // The other end of a cable went, too.
    nodes.iter().for_each(|node| remove(*node, INTERFACE));
    direct(shape, nodes)?;
    address(shape, nodes, &(0..nodes.len()).collect::<Vec<_>>())
}

/// Gives those of `which` their addresses.
fn address(shape: &Shape, nodes: &[Process], which: &[usize]) -> Result<()> {
    let tells_neighbours = overflows(nodes.len(), neighbours_max());
    which.iter().try_for_each(|index| {
        let mut commands = format!(
            "link set lo up\naddr add {}/24 dev {INTERFACE}\nlink set {INTERFACE} up\n",
            shape.nodes[*index].address
        );
        if tells_neighbours {
            for (_, other) in shape.nodes.iter().enumerate().filter(|(other, _)| other != index) {
                commands += &format!(
                    "neigh replace {} lladdr {} dev {INTERFACE} nud permanent\n",
                    other.address,
                    mac(other)
                );
            }
        }
        batch("ip", nodes[*index], &commands)
    })
}

/// How many neighbours Linux remembers before it forgets some in use (`arp(7)`), unless the machine says otherwise.
const NEIGHBOURS_MAX: usize = 512;

/// How many neighbours this machine remembers. All network namespaces together: the table is the kernel's.
fn neighbours_max() -> usize {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/neigh/default/gc_thresh2");
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(NEIGHBOURS_MAX)
}

/// Whether nodes that all talk to each other have more neighbours than that. Then datagrams vanish without an error.
/// Permanent entries do not count, so such clusters get those in place of ARP.
fn overflows(nodes: usize, neighbours_max: usize) -> bool {
    nodes * nodes.saturating_sub(1) > neighbours_max
}

/// Joins those of `which` to the switch.
fn ports(shape: &Shape, switch: Process, nodes: &[Process], which: &[usize]) -> Result<()> {
    let mtu = shape.mtu;
    let (mut links, mut shaping) = (String::new(), String::new());
    for &index in which {
        let (node, process, port) = (&shape.nodes[index], nodes[index], port(index));
        links += &format!(
            "link add {port} mtu {mtu} type veth peer name {INTERFACE} mtu {mtu} address {} netns {}\n\
             link set {port} master {BRIDGE}\n\
             link set {port} up\n",
            mac(node),
            process.pid
        );
        if let Some(rate) = node.rate {
            let bits = rate.bits_per_second();
            let burst = (bits / 8 / TICKS_PER_SECOND).max(BURST_LEN_MIN).max(2 * u64::from(mtu));
            shaping += &format!(
                "qdisc add dev {port} root tbf rate {bits}bit burst {burst} latency {QUEUE_LATENCY}\n"
            );
        }
    }
    batch("ip", switch, &links)?;
    if !shaping.is_empty() {
        batch("tc", switch, &shaping)?;
    }
    Ok(())
}

fn direct(shape: &Shape, nodes: &[Process]) -> Result<()> {
    let ([first, second], [here, there]) = (shape.nodes.as_slice(), nodes) else {
        return Err(Error::new("a direct wire joins exactly 2 nodes"));
    };
    let mtu = shape.mtu;
    let commands = format!(
        "link add {INTERFACE} mtu {mtu} address {} type veth peer name {INTERFACE} mtu {mtu} \
         address {} netns {}\n",
        mac(first),
        mac(second),
        there.pid
    );
    batch("ip", *here, &commands)
}

/// The switch's port of the node at `index`.
#[must_use]
pub fn port(index: usize) -> String {
    format!("port{}", index + 1)
}

/// Adds the path of reordered frames to a switch that has none yet.
pub(crate) fn add_detour(switch: Process) -> Result<()> {
    let add = format!(
        "link add {DETOUR} mtu {MTU_MAX} type veth peer name {DETOUR_END} mtu {MTU_MAX}\n\
         link set {DETOUR} up\n\
         link set {DETOUR_END} up\n"
    );
    let shown = batch("ip", switch, &format!("link show {DETOUR}\n"));
    if shown.is_ok() { Ok(()) } else { batch("ip", switch, &add) }
}

/// Plugs the cables of these ports in, or pulls them.
pub(crate) fn set_ports(switch: Process, ports: &[usize], up: bool) -> Result<()> {
    let state = if up { "up" } else { "down" };
    let lines = ports.iter().map(|index| format!("link set {} {state}\n", port(*index)));
    batch("ip", switch, &lines.collect::<String>())
}

/// A locally administered address that holds the IPv4 address.
pub(crate) fn mac_octets(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0x02, 0x77, a, b, c, d]
}

fn mac(node: &NodeShape) -> String {
    mac_octets(node.address).map(|octet| format!("{octet:02x}")).join(":")
}

/// Whether a node's interface leaves transmit checksums to its (emulated)
/// device, which computes none: damage on the wire then goes unseen by TCP.
pub(crate) fn set_checksum_offload(node: Process, on: bool) -> Result<()> {
    inside(node, || ethtool::set(INTERFACE, Offload::Checksums, on))?
        .cannot(|| format!("set the checksum offload of {INTERFACE}"))
}

/// Nodes whose interfaces send and receive single frames, until this is dropped: nothing leaves
/// segmentation or checksums to the (emulated) device, and nothing is put together behind it.
#[derive(Debug)]
pub struct SingleFrames {
    /// What was on before.
    before: Vec<(Process, Vec<Offload>)>,
}

impl SingleFrames {
    /// Switches the offloads of all nodes off.
    ///
    /// # Errors
    /// When a node is gone, or the kernel refuses; then nothing stays changed.
    pub fn begin(record: &Record) -> Result<Self> {
        let mut done = Self { before: Vec::new() };
        for node in &record.nodes {
            let on = inside(*node, || {
                let is_on = |offload: &Offload| ethtool::get(INTERFACE, *offload);
                let all = Offload::ALL.iter().map(|o| Ok((*o, is_on(o)?)));
                let all = all.collect::<std::io::Result<Vec<_>>>()?;
                Ok(all.into_iter().filter_map(|(o, on)| on.then_some(o)).collect::<Vec<_>>())
            })?
            .cannot(|| format!("read the offloads of {INTERFACE}"))?;
            // Noted first: what is half done is undone, too.
            done.before.push((*node, on.clone()));
            switch(*node, on.into_iter().rev(), false)?;
        }
        Ok(done)
    }
}

impl Drop for SingleFrames {
    fn drop(&mut self) {
        for (node, on) in self.before.drain(..) {
            if let Err(error) = switch(node, on.into_iter(), true) {
                eprintln!("wiglaf: {error}");
            }
        }
    }
}

fn switch(
    node: Process,
    mut offloads: impl Iterator<Item = Offload> + Send,
    on: bool,
) -> Result<()> {
    inside(node, || offloads.try_for_each(|one| ethtool::set(INTERFACE, one, on)))?
        .cannot(|| format!("set the offloads of {INTERFACE}"))
}

/// Runs a batch of `ip` or `tc` commands in the network namespace of a process.
fn batch(tool: &str, process: Process, commands: &str) -> Result<()> {
    let output = inside(process, || run(tool, commands))?;
    let output = output.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => missing(tool),
        _ => Error::new(format!("cannot run `{tool}`: {error}")),
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(refused(tool, commands, &String::from_utf8_lossy(&output.stderr)))
}

/// Does something in the network namespace of a process.
pub(crate) fn inside<T: Send>(
    process: Process,
    action: impl FnOnce() -> std::io::Result<T> + Send,
) -> Result<std::io::Result<T>> {
    let process = process.open().ok_or_else(|| {
        Error::new("a node has ended; see `wiglaf status`, and start it with `wiglaf up`")
    })?;
    // A thread changes its namespace alone, and what it starts inherits it.
    Ok(std::thread::scope(|scope| {
        let enter = || {
            move_into_thread_name_spaces(process.as_fd(), ThreadNameSpaceType::NETWORK)?;
            action()
        };
        scope
            .spawn(enter)
            .join()
            .unwrap_or_else(|_| Err(std::io::Error::other("a thread panicked")))
    }))
}

fn run(tool: &str, commands: &str) -> std::io::Result<std::process::Output> {
    let mut child = Command::new(find_tool(tool).unwrap_or_else(|| tool.into()))
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that stops at an error leaves the rest unread and says why.
        let _ = stdin.write_all(commands.as_bytes());
    }
    child.wait_with_output()
}

fn missing(tool: &str) -> Error {
    Error::new(format!("`{tool}` is not installed; run `{GET_IPROUTE2}`"))
}

/// `Command failed -:3` names the line.
fn refused(tool: &str, commands: &str, stderr: &str) -> Error {
    let cause = stderr.lines().next().unwrap_or("no reason given").trim();
    let line = stderr
        .rsplit_once("-:")
        .and_then(|(_, n)| n.trim().parse::<usize>().ok())
        .and_then(|n| commands.lines().nth(n.saturating_sub(1)));
    match line {
        Some(line) => Error::new(format!("cannot wire the nodes: `{tool} {line}`: {cause}")),
        None => Error::new(format!("cannot wire the nodes: `{tool}`: {cause}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_with_more_neighbours_than_the_machine_remembers_are_told_theirs() {
        assert!(!overflows(0, 512) && !overflows(1, 512) && !overflows(23, 512));
        assert!(overflows(24, 512) && overflows(250, 512));
        assert!(!overflows(250, 100_000));
    }
}
