//! A node's init: PID 1 of its namespaces. It builds the node's view of the
//! machine, reaps what dies, and runs commands for clients.
//!
//! Until `up` has said `go`, the end of its standard input, a socket, ends the
//! node, so a killed `up` leaves no namespace behind. Its standard output is
//! the lock of the state folder, held along with `up` until then: whoever
//! takes the lock after a kill knows that no half-made node is still at work.

mod faults;
mod helper;
mod home;
mod root;

use std::fs;
use std::io::BufRead;
use std::os::unix::net::UnixListener;

use rustix::thread::{CpuSet, sched_setaffinity};
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::paths::KEYS;
use wiglaf_node::agent::{self, About, Server};

use self::home::Home;
use crate::config::NodeConfig;

/// The word that makes a node permanent.
pub(crate) const GO: &str = "go";
/// The word that a node is complete.
pub(crate) const READY: &str = "ready";

/// The hidden command `wiglaf node-init`. Comes back only when it fails.
///
/// # Errors
/// When the node cannot be built; `up` shows the sentence.
pub fn main() -> Result<()> {
    if rustix::process::getpid().as_raw_nonzero().get() != 1 {
        return Err(Error::new("node-init is started by `wiglaf up`, not by hand"));
    }
    wiglaf_base::signals::forget_inherited();
    let mut lines = std::io::stdin().lock().lines();
    let mut line = || {
        let line = lines.next().unwrap_or_else(|| Err(std::io::ErrorKind::UnexpectedEof.into()));
        line.cannot(|| "read what `wiglaf up` says".to_owned())
    };
    let config: NodeConfig =
        serde_json::from_str(&line()?).cannot(|| "read the node's configuration".to_owned())?;
    let (server, listener) = match build(&config) {
        Ok(built) => built,
        Err(error) => {
            say(&format!("{}: {error}", config.node));
            return Err(error);
        }
    };
    say(READY);
    if line()? != GO {
        return Err(Error::new("`wiglaf up` gave up"));
    }
    drop(lines);
    // Its programs go to interfaces, which are there by now.
    if config.address.is_some() {
        helper::start();
    }
    let null = fs::File::options().read(true).write(true).open("/dev/null");
    let null = null.cannot(|| "open /dev/null".to_owned())?;
    rustix::stdio::dup2_stdin(&null).cannot(|| "leave `wiglaf up`".to_owned())?;
    rustix::stdio::dup2_stdout(&null).cannot(|| "leave `wiglaf up`".to_owned())?;
    server.run(&listener)
}

/// A failure to speak is noticed at the next line that is read.
fn say(word: &str) {
    let _ = rustix::io::write(rustix::stdio::stdin(), format!("{word}\n").as_bytes());
}

fn build(config: &NodeConfig) -> Result<(Server, UnixListener)> {
    let _ = rustix::process::setsid();
    agent::leave_keys().cannot(|| "leave the keys of whoever runs `wiglaf up`".to_owned())?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    if let Some(core) = config.core {
        let mut cores = CpuSet::new();
        cores.set(core);
        sched_setaffinity(None, &cores).cannot(|| format!("keep to core {core}"))?;
    }
    rustix::system::sethostname(config.node.as_bytes())
        .cannot(|| "set the host name".to_owned())?;
    // The emulated wire carries what the programs send and nothing else. A
    // kernel without IPv6 has no such files.
    for scope in ["all", "default"] {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
    }
    // The emulated switch forwards; where the host filters what bridges carry, each frame takes 0.3 us more.
    for family in ["arptables", "iptables", "ip6tables"] {
        let _ = fs::write(format!("/proc/sys/net/bridge/bridge-nf-call-{family}"), "0");
    }
    let shared = root::enter(config)?;
    let listener = agent::listen(&config.state.join("nodes").join(&config.node))?;
    let about = About {
        name: config.node.clone(),
        address: config.address,
        state: Some(config.state.clone()),
        libdir: config.libdir.clone(),
        keys: KEYS.into(),
    };
    Ok((Server::new(about, Some(Box::new(Home::new(config, shared)))), listener))
}
