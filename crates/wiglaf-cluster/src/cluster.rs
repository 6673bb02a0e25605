//! A cluster, whichever kind: what commands ask of it does not depend on that.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wiglaf_base::error::{Error, Result};
use wiglaf_base::hostlist::HostList;
use wiglaf_base::network;
use wiglaf_node::client::{Node, Place};
use wiglaf_node::proto::HostHello;
use wiglaf_node::ssh::Target;

use crate::hosts::{HostSpec, Hosts};
use crate::shape::NodeShape;
use crate::state::{Record, StateDir};

/// The variable by which a launcher's agent knows a job's hosts, as JSON.
pub const HOSTS_VAR: &str = "WIGLAF_HOSTS";

/// A cluster that commands can be run on.
#[derive(Debug, Clone)]
pub enum Cluster {
    /// Namespaces of this machine.
    Emulated {
        /// Where its state is.
        state: StateDir,
        /// What is known of it.
        record: Record,
    },
    /// Real hosts.
    Hosts(Hosts),
}

/// A node of a cluster, and what the cluster says of it.
#[derive(Debug, Clone)]
pub struct Member {
    /// The node.
    pub node: Node,
    /// Its address in the data network, if it is known without asking.
    pub address: Option<Ipv4Addr>,
    /// The core that its processes keep to.
    pub core: Option<usize>,
    /// How many ranks it takes, if the cluster says.
    pub slots: Option<usize>,
    /// A folder of its own disk.
    pub scratch: PathBuf,
    /// What programs on other nodes may reach, the scratch folder first.
    pub exports: Vec<PathBuf>,
}

impl Member {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.node.name()
    }

    fn emulated(state: &StateDir, shape: &NodeShape) -> Self {
        Self {
            node: state.node(&shape.name),
            address: Some(shape.address),
            core: shape.core,
            slots: None,
            scratch: shape.scratch.clone(),
            exports: shape.exports.clone(),
        }
    }

    fn host(spec: &HostSpec) -> Self {
        Self {
            node: Node::new(&spec.name, Place::Host(spec.target.clone())),
            address: spec.address,
            core: None,
            slots: spec.slots,
            scratch: spec.scratch.clone(),
            exports: spec.exports.clone(),
        }
    }
}

impl Cluster {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Emulated { record, .. } => &record.shape.name,
            Self::Hosts(hosts) => &hosts.name,
        }
    }

    /// The nodes' names.
    #[must_use]
    pub fn names(&self) -> HostList {
        match self {
            Self::Emulated { record, .. } => record.shape.names(),
            Self::Hosts(hosts) => hosts.names(),
        }
    }

    /// Its hosts, if they are real.
    #[must_use]
    pub fn hosts(&self) -> Option<&Hosts> {
        match self {
            Self::Emulated { .. } => None,
            Self::Hosts(hosts) => Some(hosts),
        }
    }

    /// The `wiglaf` whose libraries a job loads. On real hosts it is the one that the cluster file names
    /// for this host, because all hosts have theirs at one path; else the one that was `called`.
    #[must_use]
    pub fn program(&self, called: &Path) -> PathBuf {
        let here =
            self.hosts().and_then(|hosts| hosts.nodes.iter().find(|spec| spec.target.is_here));
        let named = here.and_then(|spec| spec.target.exe.as_ref()).map(PathBuf::from);
        let named = named.filter(|path| path.is_absolute() && path.is_file());
        named.unwrap_or_else(|| called.to_path_buf())
    }

    /// The nodes called `names`, or all.
    ///
    /// # Errors
    /// When the cluster has no such node.
    pub fn members(&self, names: &HostList) -> Result<Vec<Member>> {
        match self {
            Self::Emulated { state, record } => {
                let shapes = crate::state::select(record, names)?;
                Ok(shapes.into_iter().map(|shape| Member::emulated(state, shape)).collect())
            }
            Self::Hosts(hosts) => Ok(hosts.select(names)?.into_iter().map(Member::host).collect()),
        }
    }
}

/// Asks all at once; answers in their order.
pub fn ask_all<T: Send>(
    members: &[Member],
    ask: impl Fn(&Member) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = members.iter().map(|member| scope.spawn(|| ask(member))).collect();
        let panicked = || Err(Error::new("a thread panicked"));
        asked.into_iter().map(|asked| asked.join().unwrap_or_else(|_| panicked())).collect()
    })
}

/// Those that are not this host.
#[must_use]
pub fn elsewhere(members: &[Member]) -> Vec<Member> {
    let is_here = |member: &&Member| member.node.target().is_some_and(|target| target.is_here);
    members.iter().filter(|member| !is_here(member)).cloned().collect()
}

/// One error of all that there are, or all answers. One host's is told as it is; of several, the first
/// and the names of the others.
///
/// # Errors
/// When there is one.
pub fn all_or_error<T>(members: &[Member], answers: Vec<Result<T>>) -> Result<Vec<T>> {
    let failed: Vec<&str> = members
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| answer.is_err())
        .map(|(member, _)| member.name())
        .collect();
    let others: HostList = failed.iter().skip(1).copied().collect();
    let answers: Result<Vec<T>> = answers.into_iter().collect();
    match others.names().is_empty() {
        true => answers,
        false => answers.map_err(|error| {
            Error::new(format!("{error} (not well either: {others})"))
                .with_status(error.exit_status())
        }),
    }
}

/// The address of a host in the data network, from what it says.
///
/// # Errors
/// When it has none there, or not the one that the file says.
pub fn address_of(hosts: &Hosts, spec: &HostSpec, hello: &HostHello) -> Result<Ipv4Addr> {
    let data = hosts.network.data;
    let has: Vec<String> = hello
        .addresses
        .iter()
        .map(|found| format!("{} ({})", found.address, found.interface))
        .collect();
    let has = if has.is_empty() { "no address at all".to_owned() } else { has.join(", ") };
    if let Some(address) = spec.address {
        return match hello.addresses.iter().any(|found| found.address == address) {
            true => Ok(address),
            false => Err(Error::new(format!(
                "{} does not have the address {address} that {} says; it has {has}",
                spec.name,
                hosts.file.display()
            ))),
        };
    }
    let found = hello.addresses.iter().find(|found| data.contains(found.address));
    found.map(|found| found.address).ok_or_else(|| {
        Error::new(format!(
            "{} has no address in the data network {data}; it has {has}; is its cable in, and is the \
             network in {} right?",
            spec.name,
            hosts.file.display()
        ))
    })
}

/// A host as a launcher's agent knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentHost {
    /// What the launcher calls it.
    pub address: Ipv4Addr,
    /// What users call it.
    pub name: String,
    /// How it is reached.
    pub target: Target,
}

/// The node that a launcher means by `host`, on one of the hosts of a job.
///
/// # Errors
/// When the list is damaged, or has no such host.
pub fn agents_node(list: &str, host: &str) -> Result<Node> {
    let hosts: Vec<AgentHost> = serde_json::from_str(list)
        .map_err(|error| Error::new(format!("{HOSTS_VAR} is damaged: {error}")))?;
    let address = host.parse::<Ipv4Addr>().ok();
    let found = hosts.into_iter().find(|h| Some(h.address) == address || h.name == host);
    let AgentHost { address, name, mut target } =
        found.ok_or_else(|| Error::new(format!("the job has no host {host}")))?;
    // The list was made on another host, perhaps.
    target.is_watched = true;
    target.is_here = network::addresses().iter().any(|own| own.address == address);
    Ok(Node::new(&name, Place::Host(target)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiglaf_base::network::HostAddress;

    fn hosts() -> Hosts {
        let text = "nodes = \"pc[1-2]\"\n[network]\ndata = \"192.168.77.0/24\"\n\
                    [node.pc2]\naddress = \"192.168.77.2\"\n";
        Hosts::parse(text, Path::new("cluster.toml")).unwrap()
    }

    fn hello(addresses: &[&str]) -> HostHello {
        let addresses = addresses.iter().enumerate().map(|(index, address)| HostAddress {
            interface: format!("eth{index}"),
            address: address.parse().unwrap(),
            prefix: 24,
            mtu: 1500,
        });
        HostHello {
            machine: "pc".to_owned(),
            wiglaf: "0".to_owned(),
            exe: PathBuf::new(),
            addresses: addresses.collect(),
            cores: 4,
            uid: 1000,
            runtime: PathBuf::new(),
        }
    }

    #[test]
    fn a_hosts_address_is_the_one_in_the_data_network() {
        let hosts = hosts();
        let [first, second] = &hosts.nodes[..] else { panic!("two nodes") };
        let two = hello(&["10.9.0.1", "192.168.77.1"]);
        assert_eq!(address_of(&hosts, first, &two), Ok(Ipv4Addr::new(192, 168, 77, 1)));
        let error = address_of(&hosts, first, &hello(&["10.9.0.1"])).unwrap_err().to_string();
        assert!(
            error.contains("pc1 has no address in the data network 192.168.77.0/24"),
            "{error}"
        );
        assert!(error.contains("10.9.0.1 (eth0)"), "{error}");
        let error = address_of(&hosts, second, &two).unwrap_err().to_string();
        assert!(error.contains("pc2 does not have the address 192.168.77.2"), "{error}");
    }

    #[test]
    fn an_agent_finds_a_host_by_address_and_name() {
        let target = Target {
            host: "pc2.lab".to_owned(),
            user: None,
            exe: None,
            is_here: true,
            is_watched: false,
        };
        let address = Ipv4Addr::new(203, 0, 113, 7);
        let list = vec![AgentHost { address, name: "pc2".to_owned(), target }];
        let list = serde_json::to_string(&list).unwrap();
        for host in ["203.0.113.7", "pc2"] {
            let node = agents_node(&list, host).unwrap();
            assert_eq!(node.name(), "pc2");
            assert!(!node.target().unwrap().is_here, "that address is no machine's");
        }
        assert!(agents_node(&list, "pc3").is_err());
        assert!(agents_node("{", "pc2").is_err());
    }

    #[test]
    fn several_failures_are_one_sentence_that_names_all() {
        let members = Cluster::Hosts(hosts()).members(&HostList::default()).unwrap();
        let failed = |name: &str| Err::<(), _>(Error::new(format!("{name} is off")));
        let one = all_or_error(&members, vec![Ok(()), failed("pc2")]).unwrap_err();
        assert_eq!(one.to_string(), "pc2 is off");
        let both = all_or_error(&members, vec![failed("pc1"), failed("pc2")]).unwrap_err();
        assert_eq!(both.to_string(), "pc1 is off (not well either: pc2)");
    }
}
