//! The switch: a network namespace without a name that holds a bridge for each network, and the far end of
//! each host's cables.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use crate::plan::PortPlan;

/// Longest frames that the switch carries.
const MTU: u32 = 9216;

/// One of the two networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// 192.168.77.0/24, by default.
    Data,
    /// 10.9.0.0/24, by default.
    Admin,
}

impl Network {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Data, Self::Admin];

    fn bridge(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Admin => "admin",
        }
    }

    /// The switch's end of a host's cable.
    fn port(self, host: usize) -> String {
        format!("{}{host}", self.bridge())
    }
}

/// How a cable fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cable {
    /// It is plugged in.
    Whole,
    /// It is out: the host's interface has no carrier.
    Out,
    /// Farther away something is out: the carrier stays, and no frame arrives.
    Silent,
}

/// A network namespace without a name. It goes away with this value, and with the process that has it.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// Makes one. Nothing in it speaks IPv6: what is on its wires is what programs send.
    ///
    /// # Errors
    /// Why that is not possible here: commonly, lack of privilege.
    pub fn new() -> Result<Self, String> {
        // The child reports once it has its namespace, and ends with its input.
        let script = "for scope in all default; do \
                      echo 1 >/proc/sys/net/ipv6/conf/$scope/disable_ipv6; done; echo ready; exec cat";
        let mut child = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|why| format!("unshare cannot be started: {why}"))?;
        let mut ready = [0; 1];
        let is_ready = child.stdout.as_mut().is_some_and(|out| out.read_exact(&mut ready).is_ok());
        let file = File::open(format!("/proc/{}/ns/net", child.id()));
        drop(child.stdin.take());
        let _ = child.wait();
        if !is_ready {
            return Err("unshare --net is not permitted".to_owned());
        }
        Ok(Self { file: file.map_err(|why| format!("no namespace can be opened: {why}"))? })
    }

    /// Runs lines of `ip -batch` in it.
    ///
    /// # Errors
    /// What `ip` complained about.
    pub fn ip(&self, batch: &str) -> Result<(), String> {
        ip(&mut self.command(), batch)
    }

    /// A command that enters the namespace; the program and its arguments are to be added.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()));
        command
    }
}

#[derive(Debug)]
pub(crate) struct Switch {
    namespace: Namespace,
}

impl Switch {
    /// Makes the namespace and its bridges.
    pub(crate) fn new() -> Result<Self, String> {
        let switch = Self { namespace: Namespace::new()? };
        let bridges = Network::ALL.map(Network::bridge).map(|name| {
            format!("link add {name} type bridge forward_delay 0\nlink set {name} up\n")
        });
        switch.ip(&bridges.concat())?;
        Ok(switch)
    }

    /// Connects a host, whose first process has that number.
    pub(crate) fn connect(
        &self,
        network: Network,
        host: usize,
        pid: u32,
        plan: &PortPlan,
    ) -> Result<(), String> {
        let (port, bridge, near) = (network.port(host), network.bridge(), &plan.interface);
        let PortPlan { address, mtu, .. } = plan;
        // The card's own address: the others remember it while the host is off.
        let [a, b, c, d] = address.octets();
        let mac = format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}");
        self.ip(&format!(
            "link add {port} mtu {MTU} type veth peer name {near} address {mac} mtu {mtu} netns {pid}\n\
             link set {port} master {bridge}\n"
        ))?;
        // The kernel then cuts trains of segments before they reach the wire.
        let segments = if plan.offload { "" } else { "gso_max_segs 1" };
        let there = format!(
            "link set {near} {segments} up\naddress add {address}/24 broadcast + dev {near}\n"
        );
        ip(Command::new("nsenter").args(["--net", "--target", &pid.to_string()]), &there)
    }

    /// Plugs a host's cable in, or pulls it.
    pub(crate) fn set(&self, network: Network, host: usize, cable: Cable) -> Result<(), String> {
        let (port, bridge) = (network.port(host), network.bridge());
        self.ip(&match cable {
            Cable::Whole => format!("link set {port} master {bridge} up\n"),
            Cable::Out => format!("link set {port} down\n"),
            Cable::Silent => format!("link set {port} nomaster up\n"),
        })
    }

    /// Takes the cable of a host away that is no more.
    pub(crate) fn remove(&self, network: Network, host: usize) {
        // The kernel may have done so, with the host's namespace.
        let _ = self.ip(&format!("link del {}\n", network.port(host)));
    }

    fn ip(&self, batch: &str) -> Result<(), String> {
        self.namespace.ip(batch)
    }
}

/// Runs `ip -batch` behind a command that enters a namespace.
pub(crate) fn ip(enter: &mut Command, batch: &str) -> Result<(), String> {
    feed(enter.args(["ip", "-batch", "-"]), batch).map(drop)
}

/// Runs a command with that input; what it complained about is the error.
pub(crate) fn feed(command: &mut Command, input: &str) -> Result<String, String> {
    let name = format!("{command:?}");
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|why| format!("{name} cannot be started: {why}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not want it has said why, or ended well.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|why| format!("{name} was lost: {why}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name}: {}: {}\n{input}", output.status, complaint.trim()))
}
