//! What a cluster looks like: the cluster file, the command line over it, and
//! the shape that comes out of both.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::hostlist::HostList;
pub use wiglaf_base::paths::INTERFACE;

use crate::batch::Batch;
use crate::rate::Rate;
use crate::toml_file;

/// Most nodes of an emulated cluster: one /24 network.
pub const NODES_MAX: usize = 250;
/// Smallest MTU: what every IPv4 host must take, and room for a header.
pub const MTU_MIN: u32 = 576;
/// Ethernet's, unless the user wants another.
const MTU_USUAL: u32 = 1500;
/// Largest MTU of a veth.
pub const MTU_MAX: u32 = 65_535;
/// The name of the namespace that holds the bridge.
pub const SWITCH: &str = "switch";
/// The folder of a node's own disk, unless the file names another.
pub const SCRATCH: &str = "/scratch";
/// Host names are limited by the kernel.
const NODE_NAME_LEN_MAX: usize = 63;

/// What joins the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// A bridge in a namespace of its own, one port per node.
    #[default]
    Bridge,
    /// One veth pair between two nodes, with no bridge.
    Direct,
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bridge => "bridge",
            Self::Direct => "direct",
        })
    }
}

/// One node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeShape {
    /// Host name.
    pub name: String,
    /// Its address on [`INTERFACE`].
    pub address: Ipv4Addr,
    /// The core that all its processes run on.
    pub core: Option<usize>,
    /// Rate of its switch port.
    pub rate: Option<Rate>,
    /// A folder of its own disk, made when the node comes up.
    pub scratch: PathBuf,
    /// What programs on other nodes may reach, the scratch folder first.
    pub exports: Vec<PathBuf>,
}

/// A whole cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Name of the cluster.
    pub name: String,
    /// What joins the nodes.
    pub wire: Wire,
    /// MTU of every interface.
    pub mtu: u32,
    /// The nodes, in order.
    pub nodes: Vec<NodeShape>,
}

impl Shape {
    /// The nodes' names.
    #[must_use]
    pub fn names(&self) -> HostList {
        self.nodes.iter().map(|n| n.name.as_str()).collect()
    }

    /// What a user types to have such nodes, as far as options say it.
    #[must_use]
    pub fn command(&self) -> String {
        let mut text = format!("wiglaf up --nodes {}", self.nodes.len());
        let mut rates: Vec<_> = self.nodes.iter().map(|node| node.rate).collect();
        rates.dedup();
        if let [Some(rate)] = rates[..] {
            text.push_str(&format!(" --rate {rate}"));
        }
        if self.mtu != MTU_USUAL {
            text.push_str(&format!(" --mtu {}", self.mtu));
        }
        if self.wire != Wire::Bridge {
            text.push_str(&format!(" --wire {}", self.wire));
        }
        if self.nodes.iter().all(|node| node.core.is_none()) {
            text.push_str(" --no-pin");
        }
        text
    }

    /// One line for the user.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut rates: Vec<String> = self
            .nodes
            .iter()
            .map(|n| n.rate.map_or_else(|| "unlimited".to_owned(), |r| r.to_string()))
            .collect();
        rates.dedup();
        format!("{}, wire {}, rate {}, mtu {}", self.names(), self.wire, rates.join("/"), self.mtu)
    }
}

/// A wish for a shape: everything may be left open.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// Name of the cluster.
    pub name: Option<String>,
    /// How many nodes, or their names.
    pub nodes: Option<Nodes>,
    /// MTU of every interface.
    pub mtu: Option<u32>,
    /// Rate of every switch port.
    #[serde(default, deserialize_with = "rate_text")]
    pub rate: Option<Rate>,
    /// What joins the nodes.
    pub wire: Option<Wire>,
    /// Whether every node keeps to one core.
    pub pin: Option<bool>,
    /// The folder of each node's own disk.
    pub scratch: Option<PathBuf>,
    /// Further folders that other nodes' programs may reach.
    pub export: Option<Vec<PathBuf>>,
    /// What is different on single nodes.
    #[serde(default)]
    pub node: BTreeMap<String, NodeDraft>,
    /// Real machines reached by ssh.
    pub ssh: Option<SshDraft>,
    /// How batch jobs are run.
    pub batch: Option<Batch>,
}

impl Draft {
    /// Whether it says nothing of a cluster but its name.
    #[must_use]
    pub fn is_any_shape(&self) -> bool {
        let Self { name: _, batch: _, nodes, mtu, rate, wire, pin, scratch, export, node, ssh } =
            self;
        nodes.is_none()
            && mtu.is_none()
            && rate.is_none()
            && wire.is_none()
            && pin.is_none()
            && scratch.is_none()
            && export.is_none()
            && node.is_empty()
            && ssh.is_none()
    }
}

/// What is different on one node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeDraft {
    /// The core that its processes run on.
    pub core: Option<usize>,
    /// Rate of its switch port.
    #[serde(default, deserialize_with = "rate_text")]
    pub rate: Option<Rate>,
    /// The folder of its own disk.
    pub scratch: Option<PathBuf>,
    /// Further folders that other nodes' programs may reach.
    pub export: Option<Vec<PathBuf>>,
}

/// Real machines; read so that files may already say it, not supported yet.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SshDraft {
    /// A host list.
    pub hosts: String,
    /// The login.
    pub user: Option<String>,
    /// The interface to use.
    pub interface: Option<String>,
}

/// A number of nodes or a host list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nodes {
    /// `node1` to `nodeN`.
    Count(usize),
    /// These.
    Names(HostList),
}

impl Nodes {
    /// Reads `4` or `node[1-4]`.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(text: &str) -> Result<Self> {
        match text.trim().parse() {
            Ok(count) => Ok(Self::Count(count)),
            Err(_) => HostList::parse(text).map(Self::Names),
        }
    }
}

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "expected a number of nodes or a host list such as \"node[1-4]\""
        )]
        enum Either {
            Count(usize),
            Names(String),
        }
        match Either::deserialize(from)? {
            Either::Count(count) => Ok(Self::Count(count)),
            Either::Names(text) => Self::parse(&text).map_err(serde::de::Error::custom),
        }
    }
}

fn rate_text<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Rate>, D::Error> {
    let text = String::deserialize(from)?;
    Rate::parse(&text).map(Some).map_err(serde::de::Error::custom)
}

impl Draft {
    /// Reads a cluster file.
    ///
    /// # Errors
    /// When it cannot be read or is malformed; the sentence names the line.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .cannot(|| format!("read the cluster file {}", path.display()))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads the text of a cluster file called `file`.
    ///
    /// # Errors
    /// When it is malformed; the sentence names the line.
    pub fn parse(text: &str, file: &str) -> Result<Self> {
        let draft: Self = toml_file::parse(text, file)?;
        if let Some(ssh) = &draft.ssh {
            return Err(Error::new(format!(
                "{file}: real hosts ({}) are not supported yet; remove the [ssh] section to get an \
                 emulated cluster",
                ssh.hosts
            )));
        }
        Ok(draft)
    }

    /// This draft with everything that `over` leaves open.
    #[must_use]
    pub fn or(self, under: Self) -> Self {
        Self {
            name: self.name.or(under.name),
            nodes: self.nodes.or(under.nodes),
            mtu: self.mtu.or(under.mtu),
            rate: self.rate.or(under.rate),
            wire: self.wire.or(under.wire),
            pin: self.pin.or(under.pin),
            scratch: self.scratch.or(under.scratch),
            export: self.export.or(under.export),
            node: under.node.into_iter().chain(self.node).collect(),
            ssh: self.ssh.or(under.ssh),
            batch: self.batch.or(under.batch),
        }
    }

    /// The shape this asks for, on a machine with these cores.
    ///
    /// # Errors
    /// When the wishes contradict each other or cannot be met.
    pub fn shape(self, cores: &[usize]) -> Result<Shape> {
        let names = match self.nodes.unwrap_or(Nodes::Count(2)) {
            Nodes::Count(count) if count > NODES_MAX => return Err(too_many(count)),
            Nodes::Count(count) => HostList::numbered("node", count),
            Nodes::Names(names) => names,
        };
        check_names(&names)?;
        let wire = self.wire.unwrap_or_default();
        let mtu = self.mtu.unwrap_or(MTU_USUAL);
        if !(MTU_MIN..=MTU_MAX).contains(&mtu) {
            return Err(Error::new(format!(
                "an MTU of {mtu} is not possible; choose one from {MTU_MIN} to {MTU_MAX}"
            )));
        }
        if let Some(name) = self.node.keys().find(|name| !names.names().contains(name)) {
            return Err(Error::new(format!(
                "the cluster file has a section [node.{name}], but the nodes are {names}"
            )));
        }
        let pin = self.pin.unwrap_or(true) && !cores.is_empty();
        let mut nodes = Vec::new();
        for (i, name) in names.names().iter().enumerate() {
            let special = self.node.get(name).cloned().unwrap_or_default();
            if let Some(core) = special.core.filter(|core| !cores.contains(core)) {
                return Err(Error::new(format!(
                    "{name} cannot run on core {core}; this machine offers cores {cores:?}"
                )));
            }
            let scratch = special.scratch.or_else(|| self.scratch.clone());
            let scratch = scratch.unwrap_or_else(|| PathBuf::from(SCRATCH));
            check_scratch(&scratch)?;
            let further = special.export.as_ref().or(self.export.as_ref());
            let further = further.into_iter().flatten();
            let exports: Vec<PathBuf> = std::iter::once(&scratch).chain(further).cloned().collect();
            exports.iter().try_for_each(|folder| check_export(folder))?;
            nodes.push(NodeShape {
                name: name.clone(),
                address: Ipv4Addr::new(10, 77, 0, (i + 1) as u8),
                core: special.core.or_else(|| pin.then(|| cores[i % cores.len()])),
                rate: special.rate.or(self.rate),
                scratch,
                exports,
            });
        }
        let name = self.name.unwrap_or_else(|| "default".to_owned());
        check_cluster_name(&name)?;
        let shape = Shape { name, wire, mtu, nodes };
        check_wire(&shape)?;
        Ok(shape)
    }
}

fn too_many(count: usize) -> Error {
    Error::new(format!("{count} nodes are too many; an emulated cluster has at most {NODES_MAX}"))
}

/// Fails for a name that could not be a folder's.
///
/// # Errors
/// When it holds anything but letters, digits, `-` and `_`.
pub fn check_cluster_name(name: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    match !name.is_empty() && name.len() <= NODE_NAME_LEN_MAX && name.bytes().all(plain) {
        true => Ok(()),
        false => Err(Error::new(format!(
            "`{name}` cannot be a cluster's name; use letters, digits, `-` and `_`"
        ))),
    }
}

/// A folder that is a node's own must not hide what the node needs.
fn check_scratch(folder: &Path) -> Result<()> {
    const TAKEN: [&str; 13] = [
        "/proc", "/sys", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64",
        "/libx32", "/boot", "/run",
    ];
    let is_taken = TAKEN.iter().any(|dir| folder.starts_with(dir))
        || ["/tmp", "/var", "/home", "/root"].iter().any(|dir| folder == Path::new(dir));
    match is_taken {
        true => Err(Error::new(format!(
            "{} cannot be a node's scratch folder; take one such as {SCRATCH}",
            folder.display()
        ))),
        false => Ok(()),
    }
}

fn check_export(folder: &Path) -> Result<()> {
    let mut parts = folder.components();
    let is_plain = folder.is_absolute()
        && parts.all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
        && folder.parent().is_some();
    match is_plain {
        true => Ok(()),
        false => Err(Error::new(format!(
            "`{}` cannot be exported; name folders such as {SCRATCH}, with `/` in front and without \
             `..`",
            folder.display()
        ))),
    }
}

fn check_names(names: &HostList) -> Result<()> {
    if names.names().is_empty() {
        return Err(Error::new("a cluster needs at least one node; ask for `--nodes 2`"));
    }
    if names.names().len() > NODES_MAX {
        return Err(too_many(names.names().len()));
    }
    for name in names.names() {
        let letters = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let edges = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && !name.ends_with('-');
        if !letters || !edges || name.len() > NODE_NAME_LEN_MAX {
            return Err(Error::new(format!(
                "`{name}` cannot be a node's name; use letters, digits and inner hyphens"
            )));
        }
        if name == SWITCH || name == "localhost" {
            return Err(Error::new(format!("`{name}` is taken; choose another name for the node")));
        }
    }
    Ok(())
}

fn check_wire(shape: &Shape) -> Result<()> {
    if shape.wire == Wire::Bridge {
        return Ok(());
    }
    if shape.nodes.len() != 2 {
        return Err(Error::new(format!(
            "a direct wire joins exactly 2 nodes, not {}; use `--wire bridge`",
            shape.nodes.len()
        )));
    }
    if shape.nodes.iter().any(|n| n.rate.is_some()) {
        return Err(Error::new(
            "a direct wire has no switch whose ports could be shaped; leave out the rate or use \
             `--wire bridge`",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape_of(text: &str) -> Result<Shape> {
        Draft::parse(text, "wiglaf.toml")?.shape(&[0, 1])
    }

    #[test]
    fn an_empty_file_is_two_pinned_nodes_on_a_bridge() {
        let shape = shape_of("").unwrap();
        assert_eq!(shape.summary(), "node[1-2], wire bridge, rate unlimited, mtu 1500");
        assert_eq!(shape.command(), "wiglaf up --nodes 2");
        assert_eq!(shape.nodes[1].address, Ipv4Addr::new(10, 77, 0, 2));
        assert_eq!(shape.nodes.iter().map(|n| n.core).collect::<Vec<_>>(), [Some(0), Some(1)]);
    }

    #[test]
    fn a_file_says_everything() {
        let shape = shape_of(
            "name = 'lab'\nnodes = 'n[1-3]'\nmtu = 9000\nrate = '1gbit'\npin = false\n\
             [node.n2]\ncore = 1\nrate = '100mbit'\n",
        )
        .unwrap();
        assert_eq!(shape.summary(), "n[1-3], wire bridge, rate 1gbit/100mbit/1gbit, mtu 9000");
        assert_eq!(shape.command(), "wiglaf up --nodes 3 --mtu 9000");
        assert_eq!(shape.nodes.iter().map(|n| n.core).collect::<Vec<_>>(), [None, Some(1), None]);
        let shape = shape_of("rate = '1gbit'\npin = false").unwrap();
        assert_eq!(shape.command(), "wiglaf up --nodes 2 --rate 1gbit --no-pin");
        let shape = shape_of("wire = 'direct'").unwrap();
        assert_eq!(shape.command(), "wiglaf up --nodes 2 --wire direct");
    }

    #[test]
    fn every_node_exports_its_scratch_folder_and_what_the_file_says() {
        let exports = |text: &str| -> Vec<String> {
            let shape = shape_of(text).unwrap();
            shape.nodes.iter().map(|n| format!("{:?}", n.exports)).collect()
        };
        assert_eq!(exports(""), [r#"["/scratch"]"#, r#"["/scratch"]"#]);
        assert_eq!(
            exports("export = ['/data']\n[node.node2]\nscratch = '/disk'\nexport = []"),
            [r#"["/scratch", "/data"]"#, r#"["/disk"]"#]
        );
    }

    #[test]
    fn the_command_line_goes_before_the_file() {
        let file = Draft::parse("nodes = 4\nmtu = 9000", "f").unwrap();
        let line = Draft { nodes: Some(Nodes::Count(3)), ..Draft::default() };
        let shape = line.or(file).shape(&[0]).unwrap();
        assert_eq!((shape.nodes.len(), shape.mtu), (3, 9000));
    }

    #[test]
    fn malformed_files_are_one_sentence_with_the_line() {
        for (text, expected) in [
            ("name = 'a'\nnods = 3\n", "wiglaf.toml, line 2: unknown field `nods`"),
            ("nodes = [\n", "wiglaf.toml, line "),
            ("mtu = 1500\nrate = '5 apples'", "wiglaf.toml, line 2: `5 apples` is not a line rate"),
            ("nodes = 'n['", "wiglaf.toml, line 1: `n[` is not a host list"),
            ("nodes = 2.5", "wiglaf.toml, line 1: expected a number of nodes or a host list"),
            ("wire = 'wet'", "wiglaf.toml, line 1: unknown variant `wet`"),
            ("[ssh]\nhosts = 'a,b'", "wiglaf.toml: real hosts (a,b) are not supported yet"),
            ("nodes = 0", "a cluster needs at least one node"),
            ("nodes = 251", "251 nodes are too many"),
            ("nodes = 999999999999", "999999999999 nodes are too many"),
            ("nodes = 'switch,a'", "`switch` is taken"),
            ("nodes = 'a_b'", "`a_b` cannot be a node's name"),
            ("mtu = 100", "an MTU of 100 is not possible"),
            ("name = '../x'", "`../x` cannot be a cluster's name"),
            ("[node.node9]\ncore = 0", "the cluster file has a section [node.node9]"),
            ("[node.node1]\ncore = 7", "node1 cannot run on core 7"),
            ("wire = 'direct'\nnodes = 3", "a direct wire joins exactly 2 nodes, not 3"),
            ("wire = 'direct'\nrate = '1gbit'", "a direct wire has no switch"),
            ("scratch = '/usr/x'", "/usr/x cannot be a node's scratch folder"),
            ("scratch = '/sbin'", "/sbin cannot be a node's scratch folder"),
            ("scratch = '/lib64'", "/lib64 cannot be a node's scratch folder"),
            ("scratch = '/boot'", "/boot cannot be a node's scratch folder"),
            ("scratch = 'x'", "`x` cannot be exported"),
            ("export = ['/']", "`/` cannot be exported"),
            ("[node.node1]\nexport = ['/a/../b']", "`/a/../b` cannot be exported"),
        ] {
            let error = shape_of(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text:?} gave {error:?}");
            assert!(!error.contains('\n'), "{error:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_answer(text in "(name|nodes|mtu|rate|wire|pin|\\[node\\.a\\]|=|'|\"|[0-9a-z\\[\\]é\n ]){0,24}") {
            let _ = shape_of(&text);
        }
    }
}
