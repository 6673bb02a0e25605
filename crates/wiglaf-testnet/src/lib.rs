//! Two network namespaces joined by a veth pair, so that tests of links meet
//! real sockets on a real wire and disturb nobody.
//!
//! The namespaces have no names: they live as long as a descriptor is open,
//! so a killed test leaves nothing behind.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Two nodes on one wire.
#[derive(Debug)]
pub struct Pair {
    /// 10.77.0.1 on `wl0`.
    pub a: Node,
    /// 10.77.0.2 on `wl0`.
    pub b: Node,
}

/// One network namespace.
#[derive(Debug)]
pub struct Node {
    namespace: File,
    /// Its address on the wire.
    pub ip: Ipv4Addr,
}

/// The name of the interface in each namespace.
pub const INTERFACE: &str = "wl0";

impl Pair {
    /// Makes two namespaces and joins them.
    ///
    /// # Errors
    /// Why that is not possible here: commonly, lack of privilege.
    pub fn new(mtu: usize) -> Result<Self, String> {
        let a = Node::new(Ipv4Addr::new(10, 77, 0, 1))?;
        let b = Node::new(Ipv4Addr::new(10, 77, 0, 2))?;
        let other = format!("/proc/{}/fd/{}", std::process::id(), b.namespace.as_raw_fd());
        let mtu = mtu.to_string();
        a.ip(&[
            "link", "add", INTERFACE, "mtu", &mtu, "type", "veth", "peer", "name", INTERFACE,
            "mtu", &mtu, "netns", &other,
        ])?;
        for node in [&a, &b] {
            // Else duplicate address detection sends frames of its own.
            node.run(|| {
                let _ = std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
            });
            node.ip(&["address", "add", &format!("{}/24", node.ip), "dev", INTERFACE])?;
            node.ip(&["link", "set", "lo", "up"])?;
            node.ip(&["link", "set", INTERFACE, "up"])?;
        }
        Ok(Self { a, b })
    }

    /// Makes two namespaces and joins them, or prints why the test is skipped and answers `None`.
    #[must_use]
    pub fn or_skip(mtu: usize) -> Option<Self> {
        match Self::new(mtu) {
            Ok(pair) => Some(pair),
            Err(reason) => {
                eprintln!("skipped: no network namespaces here: {reason}");
                None
            }
        }
    }
}

impl Node {
    fn new(ip: Ipv4Addr) -> Result<Self, String> {
        // The child reports once it has its namespace, and ends with its input.
        let mut child = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", "echo ready; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("unshare cannot be started: {e}"))?;
        let mut ready = [0; 1];
        let is_ready = child.stdout.as_mut().is_some_and(|out| out.read_exact(&mut ready).is_ok());
        let namespace = File::open(format!("/proc/{}/ns/net", child.id()));
        drop(child.stdin.take());
        let _ = child.wait();
        if !is_ready {
            return Err("unshare --net is not permitted".to_owned());
        }
        let namespace = namespace.map_err(|e| format!("the namespace cannot be opened: {e}"))?;
        Ok(Self { namespace, ip })
    }

    /// Runs `body` on a thread inside the namespace: sockets that it opens
    /// belong there for good.
    ///
    /// # Panics
    /// When `body` does, or when the namespace cannot be entered.
    pub fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter();
                body()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Moves the calling thread into the namespace, for good.
    ///
    /// # Panics
    /// When that is not permitted; making the namespace was.
    pub fn enter(&self) {
        move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("a namespace of one's own can be entered");
    }

    /// Runs `ip` with these arguments inside the namespace.
    ///
    /// # Errors
    /// What `ip` complained about.
    pub fn ip(&self, args: &[&str]) -> Result<String, String> {
        self.command("ip", args)
    }

    /// How many datagrams the UDP socket of that port did not get, by a filter or for want of room
    /// (the last column of proc_net(5)); `None`: there is no such socket.
    #[must_use]
    pub fn udp_drops(&self, port: u16) -> Option<u64> {
        let table = self.run(|| std::fs::read_to_string("/proc/thread-self/net/udp")).ok()?;
        let port = format!(":{port:04X}");
        let line = table
            .lines()
            .find(|line| line.split_whitespace().nth(1).is_some_and(|at| at.ends_with(&port)))?;
        line.split_whitespace().last()?.parse().ok()
    }

    /// Runs a command inside the namespace and returns its output.
    ///
    /// # Errors
    /// What it complained about.
    pub fn command(&self, program: &str, args: &[&str]) -> Result<String, String> {
        let output = self
            .run(|| Command::new(program).args(args).stdin(Stdio::null()).output())
            .map_err(|e| format!("{program} cannot be started: {e}"))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            let complaint = String::from_utf8_lossy(&output.stderr);
            Err(format!("{program} {}: {}", args.join(" "), complaint.trim()))
        }
    }
}
