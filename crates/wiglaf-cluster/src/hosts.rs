//! The cluster file of real hosts: what the user writes, and what follows from it.
//!
//! A file with a section `[network]` describes hosts that are reached by ssh; one without describes an
//! emulated cluster ([`crate::shape`]).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::hostlist::HostList;
use wiglaf_base::machine;
use wiglaf_base::network::{self, Cidr};
use wiglaf_node::ssh::Target;

use crate::batch::{Batch, Owner, is_user};
use crate::image::Image;
use crate::power::Power;
use crate::toml_file;

/// The variable that names the cluster file.
pub const FILE_VAR: &str = "WIGLAF_CLUSTER";
/// Most hosts of one cluster.
pub const HOSTS_MAX: usize = 4096;
/// A cluster file in the folder where one works.
const FILE_HERE: &str = "wiglaf.toml";
/// The cluster file of all users.
const FILE_OF_ALL: &str = "/etc/wiglaf/cluster.toml";
/// Where a host's own disk is unless the file says.
const SCRATCH: &str = "/tmp";

/// The networks of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Where MPI's messages go.
    pub data: Cidr,
    /// Where ssh and launchers go, if not there as well.
    pub admin: Option<Cidr>,
    /// The UDP and TCP ports that a firewall lets through, such as 47000-47999.
    pub ports: Option<Ports>,
}

impl Network {
    /// Where launchers talk to their daemons.
    #[must_use]
    pub fn launching(&self) -> Cidr {
        self.admin.unwrap_or(self.data)
    }
}

/// A range of ports, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ports {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// A rank needs two, and a small PC has several ranks.
const PORTS_MIN: u16 = 32;

impl TryFrom<String> for Ports {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let parse = |part: &str| part.trim().parse::<u16>().ok().filter(|port| *port >= 1024);
        let range = text.split_once('-').and_then(|(a, b)| Some((parse(a)?, parse(b)?)));
        match range {
            Some((first, last)) if last >= first && last - first >= PORTS_MIN - 1 => {
                Ok(Self { first, last })
            }
            _ => Err(Error::new(format!(
                "`{text}` is no range of ports; write one of {PORTS_MIN} or more from 1024 on, such as \
                 47000-47999"
            ))),
        }
    }
}

impl From<Ports> for String {
    fn from(ports: Ports) -> Self {
        format!("{}-{}", ports.first, ports.last)
    }
}

/// Hosts as a list of ClusterShell's kind, or one by one.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected a host list such as \"pc[1-4]\", or a list of names")]
enum Names {
    Text(String),
    List(Vec<String>),
}

/// The file as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    name: Option<String>,
    nodes: Names,
    user: Option<String>,
    slots: Option<usize>,
    scratch: Option<PathBuf>,
    #[serde(default)]
    export: Vec<PathBuf>,
    wiglaf: Option<String>,
    network: Network,
    #[serde(default)]
    node: BTreeMap<String, RawNode>,
    batch: Option<Batch>,
    #[serde(default)]
    owner: BTreeMap<String, Owner>,
    image: Option<Image>,
}

/// What is different on one host.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNode {
    host: Option<String>,
    address: Option<Ipv4Addr>,
    user: Option<String>,
    slots: Option<usize>,
    scratch: Option<PathBuf>,
    export: Option<Vec<PathBuf>>,
    wiglaf: Option<String>,
    power: Option<Power>,
}

/// One host of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSpec {
    /// What the cluster calls it.
    pub name: String,
    /// Its address in the data network, where the file says it; else the host itself is asked.
    pub address: Option<Ipv4Addr>,
    /// How it is reached.
    pub target: Target,
    /// How many ranks it takes; its cores unless given.
    pub slots: Option<usize>,
    /// A folder of its own disk.
    pub scratch: PathBuf,
    /// What programs on other hosts may reach, the scratch folder first.
    pub exports: Vec<PathBuf>,
    /// How its power is switched, if the file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
}

/// A cluster of real hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// Its name.
    pub name: String,
    /// The file that describes it.
    pub file: PathBuf,
    /// Its networks.
    pub network: Network,
    /// Its hosts, in order.
    pub nodes: Vec<HostSpec>,
    /// How batch jobs are run on it, if the file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Box<Batch>>,
    /// Whose PC a host is, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub owner: BTreeMap<String, Owner>,
    /// What images of its nodes hold, and which PCs may start from the network, if the file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Box<Image>>,
}

/// Whether the text of a cluster file describes real hosts.
#[must_use]
pub fn is_of_hosts(text: &str) -> bool {
    toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("network"))
}

/// The cluster file that is meant: the one that is named, or that of the variable, or the first of
/// those in the usual places that describes real hosts. Nothing where there is none.
///
/// # Errors
/// When the file that is named cannot be read.
pub fn find(named: Option<&Path>) -> Result<Option<(PathBuf, String)>> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).cannot(|| format!("read the cluster file {}", path.display()))
    };
    let by_env = std::env::var_os(FILE_VAR).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = named.map(Path::to_path_buf).or(by_env) {
        let text = read(&path)?;
        let path = std::path::absolute(&path).unwrap_or(path);
        return Ok(Some((path, text)));
    }
    for path in usual_places() {
        match std::fs::read_to_string(&path) {
            Ok(text) if is_of_hosts(&text) => return Ok(Some((path, text))),
            _ => {}
        }
    }
    Ok(None)
}

/// Where cluster files are looked for, the first first.
fn usual_places() -> Vec<PathBuf> {
    let here = std::path::absolute(FILE_HERE).ok();
    here.into_iter().chain(own_file()).chain([PathBuf::from(FILE_OF_ALL)]).collect()
}

/// The user's own cluster file, which `wiglaf init` writes.
#[must_use]
pub fn own_file() -> Option<PathBuf> {
    let config = wiglaf_base::paths::user_config();
    config.map(|config| config.join("wiglaf/cluster.toml"))
}

impl Hosts {
    /// Reads a cluster file.
    ///
    /// # Errors
    /// When it cannot be read or is malformed; the sentence names the line.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .cannot(|| format!("read the cluster file {}", path.display()))?;
        Self::parse(&text, path)
    }

    /// Reads the text of the cluster file at `path`.
    ///
    /// # Errors
    /// When it is malformed; the sentence names the line.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let shown = path.display();
        let raw: RawFile = toml_file::parse(text, &shown)?;
        let wrong = |error: Error| Error::new(format!("{shown}: {error}"));
        Self::from_raw(raw, path).map_err(wrong)
    }

    fn from_raw(raw: RawFile, path: &Path) -> Result<Self> {
        let names: Vec<String> = match &raw.nodes {
            Names::Text(text) => HostList::parse(text)?.names().to_vec(),
            Names::List(list) => list.clone(),
        };
        if names.is_empty() {
            return Err(Error::new("there are no nodes; add hosts with `wiglaf join HOSTS`"));
        }
        if names.len() > HOSTS_MAX {
            return Err(Error::new(format!(
                "{} hosts are too many; at most {HOSTS_MAX}",
                names.len()
            )));
        }
        for (index, name) in names.iter().enumerate() {
            check_name(name)?;
            if names[..index].contains(name) {
                return Err(Error::new(format!("{name} is named twice")));
            }
        }
        if let Some(name) = raw.node.keys().find(|name| !names.contains(name)) {
            return Err(Error::new(format!(
                "there is a section [node.{name}], but the nodes are {}",
                names.join(", ")
            )));
        }
        let own = network::addresses();
        let host_name = machine::name();
        let mut nodes = Vec::new();
        for name in names {
            let special = raw.node.get(&name).cloned().unwrap_or_default();
            if let Some(address) = special.address
                && !raw.network.data.contains(address)
            {
                return Err(Error::new(format!(
                    "{name}'s address {address} is not in the data network {}",
                    raw.network.data
                )));
            }
            if special.slots.or(raw.slots) == Some(0) {
                return Err(Error::new(format!("{name} has 0 slots; leave it out of the nodes")));
            }
            let host = special.host.unwrap_or_else(|| name.clone());
            check_destination(&host)?;
            let user = special.user.or_else(|| raw.user.clone());
            if let Some(user) = &user {
                check_destination(user)?;
            }
            let is_here = match special.address {
                Some(address) => own.iter().any(|found| found.address == address),
                None => is_name_of(&host_name, &host) || is_name_of(&host_name, &name),
            };
            let scratch = special.scratch.or_else(|| raw.scratch.clone());
            let scratch = scratch.unwrap_or_else(|| PathBuf::from(SCRATCH));
            let further = special.export.as_ref().unwrap_or(&raw.export);
            let exports: Vec<PathBuf> = std::iter::once(&scratch).chain(further).cloned().collect();
            if let Some(folder) = exports.iter().find(|folder| !folder.is_absolute()) {
                return Err(Error::new(format!(
                    "{} is no absolute path; {name} cannot export it",
                    folder.display()
                )));
            }
            nodes.push(HostSpec {
                address: special.address,
                target: Target {
                    host,
                    user,
                    exe: special.wiglaf.or_else(|| raw.wiglaf.clone()),
                    is_here,
                    is_watched: false,
                },
                slots: special.slots.or(raw.slots),
                scratch,
                exports,
                power: special.power.map(|power| power.checked(&name, path)).transpose()?,
                name,
            });
        }
        let name = raw.name.unwrap_or_else(|| "hosts".to_owned());
        crate::shape::check_cluster_name(&name)?;
        let hosts = Self {
            name,
            file: path.to_path_buf(),
            network: raw.network,
            nodes,
            batch: raw.batch.map(Box::new),
            owner: raw.owner,
            image: raw.image.map(Image::checked).transpose()?.map(Box::new),
        };
        for (host, owner) in &hosts.owner {
            let names = hosts.names();
            if !names.names().contains(host) {
                return Err(Error::new(format!(
                    "{}: [owner.{host}]: {host} is no host of the cluster; it has {names}",
                    path.display()
                )));
            }
            if !is_user(&owner.user) {
                return Err(Error::new(format!(
                    "{}: [owner.{host}]: `{}` is no user's name",
                    path.display(),
                    owner.user
                )));
            }
        }
        hosts.batch.as_ref().map_or(Ok(()), |batch| batch.place(&hosts.names()).map(drop))?;
        Ok(hosts)
    }

    /// The hosts' names.
    #[must_use]
    pub fn names(&self) -> HostList {
        self.nodes.iter().map(|node| node.name.as_str()).collect()
    }

    /// The hosts called `names`, or all.
    ///
    /// # Errors
    /// When the cluster has no such host.
    pub fn select(&self, names: &HostList) -> Result<Vec<&HostSpec>> {
        if names.names().is_empty() {
            return Ok(self.nodes.iter().collect());
        }
        let find = |name: &String| {
            self.nodes.iter().find(|node| node.name == *name).ok_or_else(|| {
                Error::new(format!(
                    "the cluster of {} has no host {name}; it has {}; add it with `wiglaf join {name}`",
                    self.file.display(),
                    self.names()
                ))
            })
        };
        names.names().iter().map(find).collect()
    }
}

/// Whether a host that is called `own` may be meant by `name`.
fn is_name_of(own: &str, name: &str) -> bool {
    fn short(name: &str) -> &str {
        name.split('.').next().unwrap_or(name)
    }
    let both_full = own.contains('.') && name.contains('.');
    !own.is_empty() && if both_full { own == name } else { short(own) == short(name) }
}

/// Fails for what is no name of a host: it stands in commands and in lists.
fn check_name(name: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    let is_name = (1..=253).contains(&name.len())
        && name.bytes().all(plain)
        && !name.starts_with(['-', '.'])
        && name.parse::<Ipv4Addr>().is_err();
    match is_name {
        true => Ok(()),
        false => Err(Error::new(format!(
            "`{name}` cannot be a host's name here; use letters, digits, `-`, `_` and dots, and give its \
             address in a section [node.NAME]"
        ))),
    }
}

/// Fails for what ssh would take for an option, or a shell for more than a word.
pub(crate) fn check_destination(text: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._@:%".contains(&b);
    match !text.is_empty() && text.bytes().all(plain) && !text.starts_with('-') {
        true => Ok(()),
        false => Err(Error::new(format!("`{text}` is no host or user that ssh could take"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Hosts> {
        Hosts::parse(text, Path::new("cluster.toml"))
    }

    const NETWORK: &str = "[network]\ndata = \"192.168.77.0/24\"\n";

    #[test]
    fn a_file_of_hosts_says_how_each_is_reached() {
        let hosts = parse(&format!(
            "nodes = \"pc[1-3]\"\nuser = \"ann\"\nslots = 4\nexport = [\"/data\"]\n{NETWORK}\
             admin = \"10.9.0.0/24\"\nports = \"47000-47999\"\n\
             [node.pc3]\nhost = \"pc3.example.org\"\naddress = \"192.168.77.13\"\nuser = \"bob\"\nslots = 2\n"
        ))
        .unwrap();
        assert_eq!(hosts.names().to_string(), "pc[1-3]");
        let [first, _, third] = &hosts.nodes[..] else { panic!("three nodes") };
        assert_eq!((first.target.login(), first.slots), ("ann@pc1".to_owned(), Some(4)));
        assert_eq!(
            (third.target.login(), third.slots),
            ("bob@pc3.example.org".to_owned(), Some(2))
        );
        assert_eq!(third.address, Some(Ipv4Addr::new(192, 168, 77, 13)));
        assert_eq!(first.exports, [Path::new("/tmp"), Path::new("/data")]);
        assert_eq!(hosts.network.ports, Some(Ports { first: 47_000, last: 47_999 }));
    }

    #[test]
    fn full_names_stay_as_they_are() {
        let hosts = parse(&format!("nodes = [\"pc1.lab.org\", \"pc2.lab.org\"]\n{NETWORK}"));
        let hosts = hosts.unwrap();
        assert_eq!(hosts.nodes[1].target.host, "pc2.lab.org");
        assert!(hosts.select(&HostList::parse("pc3.lab.org").unwrap()).is_err());
    }

    #[test]
    fn what_is_wrong_is_one_sentence_with_the_file() {
        for (text, part) in [
            ("nodes = \"pc1\"\n[network]\n".to_owned(), "data"),
            (format!("nodes = []\n{NETWORK}"), "wiglaf join"),
            (format!("nodes = [\"pc1\", \"pc1\"]\n{NETWORK}"), "twice"),
            (format!("nodes = [\"-oProxyCommand=x\"]\n{NETWORK}"), "cannot be a host's name"),
            (format!("nodes = [\"10.0.0.1\"]\n{NETWORK}"), "[node.NAME]"),
            (format!("nodes = \"pc1\"\n{NETWORK}[node.pc2]\nslots = 1\n"), "[node.pc2]"),
            (
                format!("nodes = \"pc1\"\n{NETWORK}[node.pc1]\naddress = \"10.0.0.1\"\n"),
                "not in the data",
            ),
            (format!("nodes = \"pc1\"\n{NETWORK}[node.pc1]\nhost = \"-oX\"\n"), "-oX"),
            (format!("nodes = \"pc1\"\nslots = 0\n{NETWORK}"), "0 slots"),
            (format!("nodes = \"pc1\"\nwire = \"bridge\"\n{NETWORK}"), "line 2"),
            ("nodes = \"pc1\"\n[network]\ndata = \"eth0\"\n".to_owned(), "no IPv4 network"),
            (format!("nodes = \"pc1\"\n{NETWORK}ports = \"80-90\"\n"), "no range of ports"),
        ] {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.starts_with("cluster.toml") && error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_file_without_a_network_is_of_an_emulated_cluster() {
        assert!(!is_of_hosts("nodes = 4\n"));
        assert!(!is_of_hosts("nodes ="));
        assert!(is_of_hosts(NETWORK));
    }

    #[test]
    fn a_short_name_and_a_full_one_may_be_one_hosts() {
        assert!(is_name_of("pc1", "pc1.lab.org") && is_name_of("pc1.lab.org", "pc1"));
        assert!(!is_name_of("pc1.lab.org", "pc1.other.org"));
        assert!(!is_name_of("pc1", "pc12") && !is_name_of("", ""));
    }
}
