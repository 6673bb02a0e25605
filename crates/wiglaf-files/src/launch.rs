//! Starting a node's server, and noticing when it ends.
//!
//! The cluster's launcher starts it as the calling user: a node's init knows by
//! the kernel who asks. `WIGLAF_FILES_SERVER` names a command to do so instead,
//! such as `ssh {} wiglaf serve-files --export /scratch`.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use wiglaf_base::paths::{NODE_VAR, STATE_VAR};
use wiglaf_cluster::cluster::address_of;
use wiglaf_cluster::hosts::{self, Hosts};
use wiglaf_cluster::state::NAME_DEFAULT;
use wiglaf_cluster::{Cluster, StateDir};
use wiglaf_endpoint::{Address, JobKey};
use wiglaf_node::client::Running;
use wiglaf_node::{Node, NodeCommand, Streams};

use crate::error::{Error, Reason, Result};
use crate::server::words::{GREETING, REFUSED, read_address, spell};

/// The command that starts a server where there is no cluster of ours.
pub const SERVER_VAR: &str = "WIGLAF_FILES_SERVER";
/// Where `wiglaf` is on every emulated node.
const EXE: &str = "/usr/bin/wiglaf";
/// How long a server may take to answer the greeting.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long a server may take to end when it is told to.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Whoever would end the process if the server lost us.
#[derive(Debug)]
enum Holder {
    /// The node's init kills it when this connection ends.
    Node {
        _running: Running,
    },
    Child(Child),
    /// Who has started it ends it.
    Nobody,
}

/// A server that was started for us. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Launched {
    /// Its standard input: closing it is our good-bye.
    line: Option<OwnedFd>,
    /// Its standard output, which ends with it.
    pulse: OwnedFd,
    holder: Holder,
}

/// Where a host's server is to be started.
#[derive(Debug)]
pub(crate) enum Target {
    /// The host is this one.
    Local,
    /// On a node of the cluster, which serves these folders if they are named.
    Node(Node, std::net::Ipv4Addr, Vec<PathBuf>),
    /// By the user's command.
    Command(String),
    /// It runs already, and this is its standard output and input.
    Line(OwnedFd, OwnedFd),
}

/// What a host's name means; the own node is a node like others if `even_own`.
pub(crate) fn resolve(host: &str, even_own: bool) -> Result<Target> {
    let own = std::env::var(NODE_VAR).ok().filter(|name| !name.is_empty());
    if let Ok(template) = std::env::var(SERVER_VAR)
        && !template.is_empty()
    {
        return Ok(Target::Command(template.replace("{}", host)));
    }
    let host_name = rustix::system::uname();
    let host_name = host_name.nodename().to_str().unwrap_or_default();
    if !even_own && (host == "localhost" || host == own.as_deref().unwrap_or(host_name)) {
        return Ok(Target::Local);
    }
    if own.is_none()
        && let Some(target) = on_host(host, even_own)?
    {
        return Ok(target);
    }
    let path = std::env::var_os(STATE_VAR).filter(|v| !v.is_empty()).map(PathBuf::from);
    let state = StateDir::new(path.as_deref(), NAME_DEFAULT);
    let no_node = |why: String| Error::with_detail(Errno::HOSTUNREACH, Reason::NoNode, why);
    let record = state.record().map_err(|error| no_node(error.to_string()))?;
    let record = record.ok_or_else(|| {
        no_node(
            "no cluster is up; start one with `wiglaf up`, and run this with `wiglaf run`".into(),
        )
    })?;
    let shape = record.shape.nodes.iter().find(|node| node.name == host).ok_or_else(|| {
        no_node(format!("the cluster has no node {host}; it has {}", record.shape.names()))
    })?;
    if own.is_none() {
        return Err(no_node(
            "this process is not on a node of the cluster; start it with `wiglaf run` or \
             `wiglaf exec`"
                .into(),
        ));
    }
    Ok(Target::Node(state.node(host), shape.address, Vec::new()))
}

/// The host of that name among the real hosts of a cluster file, where there is one.
fn on_host(host: &str, even_own: bool) -> Result<Option<Target>> {
    let no_node = |why: String| Error::with_detail(Errno::HOSTUNREACH, Reason::NoNode, why);
    if std::env::var_os(STATE_VAR).is_some_and(|state| !state.is_empty()) {
        return Ok(None);
    }
    let found = hosts::find(None).map_err(|error| no_node(error.to_string()))?;
    let Some((path, text)) = found.filter(|(_, text)| hosts::is_of_hosts(text)) else {
        return Ok(None);
    };
    let hosts = Hosts::parse(&text, &path).map_err(|error| no_node(error.to_string()))?;
    let name = std::iter::once(host).collect();
    let members = Cluster::Hosts(hosts.clone()).members(&name);
    let mut members = members.map_err(|error| no_node(error.to_string()))?;
    let (Some(member), Some(spec)) = (members.pop(), hosts.nodes.iter().find(|s| s.name == host))
    else {
        return Ok(None);
    };
    if spec.target.is_here && !even_own {
        return Ok(Some(Target::Local));
    }
    let address = member.node.hello().and_then(|hello| {
        let hello = hello.host.ok_or_else(|| wiglaf_base::Error::new("it is no real host"))?;
        address_of(&hosts, spec, &hello)
    });
    let address = address.map_err(|error| no_node(error.to_string()))?;
    Ok(Some(Target::Node(member.node, address, member.exports)))
}

/// Starts the server and exchanges greetings.
pub(crate) fn start(target: Target, key: JobKey, own: Address) -> Result<(Address, Launched)> {
    let failed = |why: String| Error::with_detail(Errno::HOSTUNREACH, Reason::NotStarted, why);
    let greeting = format!("{GREETING} {} {}\n", key.to_hex(), spell(own));
    if let Target::Line(pulse, line) = target {
        rustix::io::write(&line, greeting.as_bytes())?;
        return greeted(Launched { line: Some(line), pulse, holder: Holder::Nobody });
    }
    let (input, line) = pipe().map_err(failed)?;
    // Said while we hold both ends: a server that ends at once must not raise SIGPIPE here.
    rustix::io::write(&line, greeting.as_bytes())?;
    greeted(match &target {
        Target::Local | Target::Line(..) => {
            return Err(failed("a server is not needed on one's own node".into()));
        }
        Target::Node(node, address, exports) => {
            on_node(node, *address, exports, (input, line)).map_err(failed)?
        }
        Target::Command(command) => by_command(command, input, line).map_err(failed)?,
    })
}

/// Hears where the server is to be reached.
fn greeted(mut launched: Launched) -> Result<(Address, Launched)> {
    let failed = |why: String| Error::with_detail(Errno::HOSTUNREACH, Reason::NotStarted, why);
    let answer = launched.first_line().map_err(failed)?;
    if let Some(why) = answer.strip_prefix(REFUSED) {
        return Err(failed(why.trim_end().to_owned()));
    }
    let words = answer.strip_prefix(GREETING).map(str::split_whitespace);
    let address = words.and_then(|mut words| words.next()).and_then(read_address);
    let address =
        address.ok_or_else(|| failed(format!("the server said `{}`", answer.trim_end())))?;
    Ok((address, launched))
}

fn on_node(
    node: &Node,
    address: std::net::Ipv4Addr,
    exports: &[PathBuf],
    (input, line): (OwnedFd, OwnedFd),
) -> std::result::Result<Launched, String> {
    let (pulse, output) = pipe()?;
    let stderr = std::io::stderr().as_fd().try_clone_to_owned().map_err(|e| e.to_string())?;
    let mut argv: Vec<std::ffi::OsString> = vec![EXE.into(), "serve-files".into()];
    for folder in exports {
        argv.extend(["--export".into(), folder.into()]);
    }
    let command = NodeCommand::new(argv)
        // What is meant for this process alone, and the key, which the server is told.
        .retain_env(|name| {
            let own = ["WIGLAF_IF", "WIGLAF_NET", "WIGLAF_PORT", "WIGLAF_RANK", "WIGLAF_KEY"];
            !name.starts_with("LD_") && !own.contains(&name)
        })
        .env("WIGLAF_IP", address.to_string())
        // It copies through buffers of megabytes: pages as large spare the processor their addresses.
        .env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
        .cwd("/");
    let running = node
        .spawn(&command, Streams { stdin: input, stdout: output, stderr })
        .map_err(|error| error.to_string())?;
    Ok(Launched { line: Some(line), pulse, holder: Holder::Node { _running: running } })
}

fn by_command(
    command: &str,
    input: OwnedFd,
    line: OwnedFd,
) -> std::result::Result<Launched, String> {
    let mut words = command.split_whitespace();
    let program = words.next().ok_or_else(|| format!("{SERVER_VAR} names no command"))?;
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::from(input))
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run `{program}`, as {SERVER_VAR} says: {error}"))?;
    let pulse = child.stdout.take().ok_or("the server's pipe is missing")?;
    Ok(Launched { line: Some(line), pulse: pulse.into(), holder: Holder::Child(child) })
}

fn pipe() -> std::result::Result<(OwnedFd, OwnedFd), String> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|errno| format!("cannot make a pipe: {errno}"))
}

impl Launched {
    /// A server that ends with the other end of `pulse`.
    #[cfg(test)]
    pub(crate) fn of_tests(pulse: OwnedFd) -> Self {
        Self { line: None, pulse, holder: Holder::Nobody }
    }

    /// The server's first line.
    fn first_line(&mut self) -> std::result::Result<String, String> {
        let deadline = Instant::now() + START_LIMIT;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") && line.len() < 512 {
            if !self.is_readable(deadline.saturating_duration_since(Instant::now())) {
                return Err(format!("the server said nothing for {} s", START_LIMIT.as_secs()));
            }
            let mut byte = [0];
            match rustix::io::read(&self.pulse, &mut byte) {
                Ok(1) => line.push(byte[0]),
                Err(Errno::INTR) => {}
                _ => return Err("the server ended at once".to_owned()),
            }
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    fn is_readable(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left =
                Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos().into() };
            let mut polled = [PollFd::new(&self.pulse, PollFlags::IN)];
            match poll(&mut polled, Some(&left)) {
                // A signal handler of the program's is no answer.
                Err(Errno::INTR) => {}
                outcome => return outcome.is_ok() && !polled[0].revents().is_empty(),
            }
        }
    }

    /// One of a node that has lost power: while the descriptor is open, its output does not end.
    #[cfg(test)]
    pub(crate) fn without_end() -> (Self, OwnedFd) {
        let (pulse, output) = pipe().expect("a pipe");
        let child = Command::new("true").spawn().expect("true runs");
        (Self { line: None, pulse, holder: Holder::Child(child) }, output)
    }

    /// Whether the server has ended; it says nothing more on its output.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_readable(Duration::ZERO)
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        drop(self.line.take());
        let ends = self.is_readable(END_LIMIT);
        if let Holder::Child(child) = &mut self.holder {
            if !ends {
                let _ = child.kill();
            }
            let _ = child.wait();
        }
    }
}
