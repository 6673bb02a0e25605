//! `wiglaf discover`: which PCs of the data network could join. It asks only what this host knows already, and
//! tries port 22 of neighbours that the kernel has talked to.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Serialize;
use wiglaf_base::error::Result;
use wiglaf_base::network::{self, Cidr};
use wiglaf_base::program;
use wiglaf_cluster::hosts::Hosts;

use crate::init;

/// How long a neighbour may take to say that it speaks ssh.
const ANSWER: Duration = Duration::from_secs(1);
/// More neighbours than that are not asked at once.
const AT_ONCE: usize = 64;

/// A PC that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// What this host calls it, if anything.
    pub name: Option<String>,
    /// Its address.
    pub address: Ipv4Addr,
    /// Whether it speaks ssh; unknown where it was not asked.
    pub ssh: Option<bool>,
    /// What the cluster file calls it, if it is there.
    pub node: Option<String>,
    /// Who told of it.
    pub by: Vec<String>,
}

/// What was found in a network.
#[derive(Debug, Clone, Serialize)]
pub struct Discovered {
    /// The network.
    pub network: Cidr,
    /// The PCs, by address.
    pub hosts: Vec<Found>,
}

/// Lists the PCs of that network, or of the cluster's, or of this host's wired one.
///
/// # Errors
/// When it is not clear which network is meant.
pub fn discover(network: Option<Cidr>, hosts: Option<&Hosts>) -> Result<Discovered> {
    let network = match (network, hosts) {
        (Some(network), _) => network,
        (None, Some(hosts)) => hosts.network.data,
        (None, None) => init::data_network()?,
    };
    let mut known = Known::default();
    for address in neighbours() {
        known.add(address, None, "neighbour");
    }
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    for (address, name) in of_hosts_file(&read(Path::new("/etc/hosts"))) {
        known.add(address, Some(name), "/etc/hosts");
    }
    let users = std::env::var_os("HOME").map(|home| Path::new(&home).join(".ssh/known_hosts"));
    for path in users.into_iter().chain([PathBuf::from("/etc/ssh/ssh_known_hosts")]) {
        for (address, name) in of_known_hosts(&read(&path)) {
            known.add(address, name, "known_hosts");
        }
    }
    for (address, name) in announced() {
        known.add(address, Some(name), "avahi");
    }
    let own = network::addresses();
    let mut found: Vec<Found> = known.0.into_values().collect();
    found.retain(|one| {
        network.contains(one.address) && own.iter().all(|own| own.address != one.address)
    });
    let nameless: Vec<Ipv4Addr> =
        found.iter().filter(|one| one.name.is_none()).map(|one| one.address).collect();
    for (address, name) in named(&nameless) {
        if let Some(one) = found.iter_mut().find(|one| one.address == address) {
            one.name = Some(name);
            one.by.push("avahi".to_owned());
        }
    }
    for one in &mut found {
        let spec = hosts.into_iter().flat_map(|hosts| &hosts.nodes).find(|spec| {
            spec.address
                .map_or(one.name.as_deref() == Some(&spec.target.host), |own| own == one.address)
        });
        one.node = spec.map(|spec| spec.name.clone());
    }
    for some in found.chunks_mut(AT_ONCE) {
        std::thread::scope(|scope| {
            for one in some.iter_mut().filter(|one| one.by.iter().any(|by| by == "neighbour")) {
                scope.spawn(|| one.ssh = Some(speaks_ssh(one.address)));
            }
        });
    }
    Ok(Discovered { network, hosts: found })
}

#[derive(Debug, Default)]
struct Known(BTreeMap<Ipv4Addr, Found>);

impl Known {
    fn add(&mut self, address: Ipv4Addr, name: Option<String>, by: &str) {
        let new = Found { name: None, address, ssh: None, node: None, by: Vec::new() };
        let found = self.0.entry(address).or_insert(new);
        found.name = found.name.take().or(name);
        if !found.by.iter().any(|known| known == by) {
            found.by.push(by.to_owned());
        }
    }
}

/// Addresses that the kernel has an answer of.
fn neighbours() -> Vec<Ipv4Addr> {
    let Some(ip) = program::find_tool("ip") else { return Vec::new() };
    let said =
        Command::new(ip).args(["-json", "-4", "neigh", "show"]).stderr(Stdio::null()).output();
    said.map(|said| of_ip(&said.stdout)).unwrap_or_default()
}

fn of_ip(said: &[u8]) -> Vec<Ipv4Addr> {
    let all: Vec<serde_json::Value> = serde_json::from_slice(said).unwrap_or_default();
    let is_known = |one: &&serde_json::Value| one.get("lladdr").is_some();
    all.iter().filter(is_known).filter_map(|one| one.get("dst")?.as_str()?.parse().ok()).collect()
}

/// Addresses and their first names.
fn of_hosts_file(text: &str) -> Vec<(Ipv4Addr, String)> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let entries = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?.parse::<Ipv4Addr>().ok()?, words.next()?.to_owned()))
    });
    entries.filter(|(address, _)| !address.is_loopback()).collect()
}

/// Addresses that stand beside a name, or alone. Hashed ones tell nothing.
fn of_known_hosts(text: &str) -> Vec<(Ipv4Addr, Option<String>)> {
    let lines = text.lines().filter(|line| !line.starts_with(['#', '|', '@']));
    let entries = lines.filter_map(|line| {
        let names: Vec<&str> = line.split_whitespace().next()?.split(',').collect();
        let address = names.iter().find_map(|name| name.parse::<Ipv4Addr>().ok())?;
        let is_name = |name: &&&str| {
            !name.contains(['[', '*', '?', '!']) && name.parse::<Ipv4Addr>().is_err()
        };
        Some((address, names.iter().find(is_name).map(|name| (*name).to_owned())))
    });
    entries.collect()
}

/// Whose ssh is announced to Avahi, where that runs. Debian's announces none by itself (Fedora's does).
fn announced() -> Vec<(Ipv4Addr, String)> {
    of_browse(&ask_avahi("avahi-browse", &["-rpt".to_owned(), "_ssh._tcp".to_owned()]))
}

/// What the hosts with these addresses call themselves, as far as Avahi runs here and there.
fn named(addresses: &[Ipv4Addr]) -> Vec<(Ipv4Addr, String)> {
    let mut all = Vec::new();
    for some in addresses.chunks(AT_ONCE) {
        let words: Vec<String> =
            ["-a".to_owned()].into_iter().chain(some.iter().map(ToString::to_string)).collect();
        all.extend(of_resolve(&ask_avahi("avahi-resolve", &words)));
    }
    all
}

/// What a program of avahi-utils says within 5 s; nothing where it is missing, or Avahi does not run.
fn ask_avahi(name: &str, words: &[String]) -> String {
    let Some(program) = program::find_program(name) else { return String::new() };
    let said = Command::new("timeout")
        .arg("5")
        .arg(program)
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default()
}

fn of_browse(said: &str) -> Vec<(Ipv4Addr, String)> {
    let lines = said.lines().filter(|line| line.starts_with('='));
    let entries = lines.filter_map(|line| {
        let parts: Vec<&str> = line.split(';').collect();
        let (host, address) = (parts.get(6)?, parts.get(7)?);
        Some((address.parse().ok()?, (*host).to_owned()))
    });
    entries.collect()
}

fn of_resolve(said: &str) -> Vec<(Ipv4Addr, String)> {
    let entries = said.lines().filter_map(|line| {
        let (address, name) = line.split_once('\t')?;
        Some((address.parse().ok()?, name.trim().to_owned()))
    });
    entries.filter(|(_, name)| !name.is_empty()).collect()
}

fn speaks_ssh(address: Ipv4Addr) -> bool {
    let Ok(mut stream) = TcpStream::connect_timeout(&SocketAddr::from((address, 22)), ANSWER)
    else {
        return false;
    };
    let mut said = [0; 4];
    stream.set_read_timeout(Some(ANSWER)).is_ok()
        && stream.read_exact(&mut said).is_ok()
        && said == *b"SSH-"
}

#[cfg(test)]
mod tests {
    use super::*;

    const PC2: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 2);

    #[test]
    fn each_source_is_understood() {
        let said =
            br#"[{"dst":"192.168.77.2","dev":"e","lladdr":"02:00:00:00:00:01","state":["STALE"]},
                        {"dst":"192.168.77.9","dev":"e","state":["FAILED"]}]"#;
        assert_eq!(of_ip(said), [PC2]);
        let text = "127.0.0.1 localhost\n127.0.1.1 pc1\n192.168.77.2\tpc2 pc2.lab # fast\n::1 x\n";
        assert_eq!(of_hosts_file(text), [(PC2, "pc2".to_owned())]);
        let text = "pc2,192.168.77.2 ssh-ed25519 A\n|1|x|y ssh-rsa B\n192.168.77.2 ssh-rsa C\n[pc3]:22 x\n";
        assert_eq!(of_known_hosts(text), [(PC2, Some("pc2".to_owned())), (PC2, None)]);
        let said = "+;eth0;IPv4;pc2;_ssh._tcp;local\n\
                    =;eth0;IPv4;pc2;_ssh._tcp;local;pc2.local;192.168.77.2;22;\n=;x\n";
        assert_eq!(of_browse(said), [(PC2, "pc2.local".to_owned())]);
        let said = "192.168.77.2\tpc2.local\nx\ty\n192.168.77.3\n192.168.77.4\t\n";
        assert_eq!(of_resolve(said), [(PC2, "pc2.local".to_owned())]);
    }

    #[test]
    fn garbage_tells_nothing() {
        assert!(
            of_ip(b"{").is_empty() && of_ip(b"[1, null, {\"dst\": 3, \"lladdr\": 1}]").is_empty()
        );
        assert!(of_hosts_file("x\n1.2.3.4\n").is_empty());
        assert!(of_known_hosts("\n \nx\n").is_empty());
    }
}
