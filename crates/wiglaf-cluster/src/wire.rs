//! The emulated wire: veth pairs, a bridge, shaped ports, made with iproute2.

use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Context, Error, Result};
use crate::process::Process;
use crate::shape::{INTERFACE, NodeShape, Shape, Wire};

const BRIDGE: &str = "br0";
/// How long a frame may wait in a shaped port: a shallow switch.
const QUEUE_LATENCY: &str = "10ms";
/// A token bucket must hold what the rate delivers between two timer ticks.
const BURST_LEN_MIN: u64 = 32 * 1024;
const TICKS_PER_SECOND: u64 = 1000;

/// Joins the nodes.
pub(crate) fn join(shape: &Shape, switch: Option<Process>, nodes: &[Process]) -> Result<()> {
    match (shape.wire, switch) {
        (Wire::Bridge, Some(switch)) => bridge(shape, switch, nodes)?,
        _ => direct(shape, nodes)?,
    }
    for (node, process) in shape.nodes.iter().zip(nodes) {
        let commands = format!(
            "link set lo up\naddr add {}/24 dev {INTERFACE}\nlink set {INTERFACE} up\n",
            node.address
        );
        batch("ip", *process, &commands)?;
    }
    Ok(())
}

fn bridge(shape: &Shape, switch: Process, nodes: &[Process]) -> Result<()> {
    let mtu = shape.mtu;
    let mut links = format!(
        "link set lo up\n\
         link add {BRIDGE} mtu {mtu} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n\
         link set {BRIDGE} up\n"
    );
    let mut shaping = String::new();
    for (i, (node, process)) in shape.nodes.iter().zip(nodes).enumerate() {
        let port = port(i);
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

/// A locally administered address that holds the IPv4 address.
fn mac(node: &NodeShape) -> String {
    let [a, b, c, d] = node.address.octets();
    format!("02:77:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

/// Runs a batch of `ip` or `tc` commands in the network namespace of a process.
fn batch(tool: &str, inside: Process, commands: &str) -> Result<()> {
    let namespace = std::fs::File::open(format!("/proc/{}/ns/net", inside.pid))
        .cannot(|| "open a node's network namespace".to_owned())?;
    // A thread changes its namespace alone, and what it starts inherits it.
    let output = std::thread::scope(|scope| {
        let enter = || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            run(tool, commands)
        };
        scope
            .spawn(enter)
            .join()
            .unwrap_or_else(|_| Err(std::io::Error::other("a thread panicked")))
    });
    let output = output.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => missing(tool),
        _ => Error::new(format!("cannot run `{tool}`: {error}")),
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(refused(tool, commands, &String::from_utf8_lossy(&output.stderr)))
}

fn run(tool: &str, commands: &str) -> std::io::Result<std::process::Output> {
    let mut child = Command::new(tool)
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
    Error::new(format!("`{tool}` is not installed; run `{}`", mend()))
}

/// How to get the tools.
pub(crate) fn mend() -> String {
    "apt-get install iproute2".to_owned()
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
