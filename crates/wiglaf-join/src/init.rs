//! `wiglaf init`: the first cluster file, from what this host is.

use std::fs;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::machine;
use wiglaf_base::network::{self, Cidr, HostAddress};
use wiglaf_cluster::hosts::{self, Hosts, Ports};

const SYS: &str = "/sys/class/net";
/// Where the agent of a host is found without being named, but for the home.
const USUAL: [&str; 2] = ["/usr/local/bin", "/usr/bin"];

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The data network.
    pub network: Option<Cidr>,
    /// The network of ssh and launchers, if it is another.
    pub admin: Option<Cidr>,
    /// What a firewall lets through.
    pub ports: Option<Ports>,
    /// The cluster's name.
    pub name: Option<String>,
    /// The file to write.
    pub output: Option<PathBuf>,
}

/// What was written.
#[derive(Debug)]
pub struct Written {
    /// The file.
    pub file: PathBuf,
    /// The host's name in it.
    pub node: String,
    /// The data network.
    pub data: Cidr,
    /// The host's interface there, and its address.
    pub interface: String,
    /// Its address there.
    pub address: Ipv4Addr,
}

/// What an interface is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A network card with a cable, or what is made of such.
    Wired,
    Wireless,
    /// Half of a pair that joins two namespaces.
    Pair,
    /// Bridges of virtual machines and containers, tunnels.
    Virtual,
}

/// An address, and by what it is reached.
#[derive(Debug, Clone)]
struct Candidate {
    found: HostAddress,
    kind: Kind,
    has_carrier: bool,
    mbits: Option<u32>,
}

impl Candidate {
    fn network(&self) -> Cidr {
        Cidr::of(self.found.address, self.found.prefix)
    }

    fn shown(&self) -> String {
        let what = match (self.kind, self.has_carrier, self.mbits) {
            (Kind::Wireless, ..) => ", Wi-Fi".to_owned(),
            (Kind::Virtual, ..) => ", virtual".to_owned(),
            (_, false, _) => ", no cable".to_owned(),
            (_, _, Some(mbits)) => format!(", {mbits} Mbit/s"),
            _ => String::new(),
        };
        format!("{} ({}{what})", self.network(), self.found.interface)
    }
}

/// Writes a cluster file with this host alone in it.
///
/// # Errors
/// When there is one, or it is not clear which network is meant: the sentence says what to type.
pub fn init(options: &Options) -> Result<Written> {
    let file = match &options.output {
        Some(path) => std::path::absolute(path).unwrap_or_else(|_| path.clone()),
        None => hosts::own_file().ok_or_else(|| {
            Error::new("HOME is not set, and the file lies below it; name it with --output FILE")
        })?,
    };
    if fs::symlink_metadata(&file).is_ok() {
        return Err(Error::new(format!(
            "there is a cluster file already, {0}; add hosts to it with `wiglaf join HOSTS`, or remove it \
             first: `rm {0}`",
            file.display()
        )));
    }
    let found = candidates(Path::new(SYS), network::addresses());
    let data = choose(&found, options.network)?;
    if let Some(admin) = options.admin {
        in_network(&found, admin)?;
    }
    let node = own_name(&machine::name())?;
    let exe = std::env::current_exe().cannot(|| "find the running wiglaf".to_owned())?;
    let text = text(options, data, &node, &exe);
    // What is written can be read.
    Hosts::parse(&text, &file)?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).cannot(|| format!("make the folder {}", folder.display()))?;
    fs::File::create_new(&file)
        .and_then(|mut new| new.write_all(text.as_bytes()))
        .cannot(|| format!("write {}", file.display()))?;
    Ok(Written {
        file,
        node,
        data: options.network.unwrap_or_else(|| data.network()),
        interface: data.found.interface.clone(),
        address: data.found.address,
    })
}

/// The data network of this host, where no cluster file says.
pub(crate) fn data_network() -> Result<Cidr> {
    let found = candidates(Path::new(SYS), network::addresses());
    choose(&found, None).map(Candidate::network)
}

fn text(options: &Options, data: &Candidate, node: &str, exe: &Path) -> String {
    let network = options.network.unwrap_or_else(|| data.network());
    let name = options.name.as_ref().map(|name| format!("name = {name:?}\n")).unwrap_or_default();
    let admin =
        options.admin.map(|admin| format!("admin = \"{admin}\"           # ssh and launchers\n"));
    let ports = options
        .ports
        .map(|ports| format!("ports = \"{}\"   # open in firewalls\n", String::from(ports)));
    let bin = exe.parent().unwrap_or(exe);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/bin"));
    let is_usual =
        USUAL.iter().any(|usual| bin == Path::new(usual)) || home.as_deref() == Some(bin);
    let is_installed = bin.ends_with("bin");
    let wiglaf =
        (!is_usual && is_installed).then(|| format!("wiglaf = {:?}\n", exe.display().to_string()));
    format!(
        "# The hosts of a cluster. `wiglaf join HOSTS` adds hosts, `wiglaf leave HOSTS` takes them out;\n\
         # docs/cluster-file.md says what else may stand here.\n\
         {name}nodes = {node:?}\n\n\
         [network]\n\
         data = \"{network}\"    # MPI's messages\n{}{}\n\
         [node.{node:?}]\n\
         address = \"{}\"\n{}",
        admin.unwrap_or_default(),
        ports.unwrap_or_default(),
        data.found.address,
        wiglaf.unwrap_or_default()
    )
    .replace(&format!("[node.{node:?}]"), &format!("[node.{}]", key(node)))
}

/// A key of TOML: bare where it may be.
fn key(name: &str) -> String {
    let is_bare = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if is_bare { name.to_owned() } else { format!("{name:?}") }
}

fn own_name(name: &str) -> Result<String> {
    let short = name.split('.').next().unwrap_or(name);
    let is_name = !short.is_empty()
        && short != "localhost"
        && !short.starts_with('-')
        && short.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    match is_name {
        true => Ok(short.to_owned()),
        false => Err(Error::new(format!(
            "this host calls itself `{name}`, by which no other finds it; give it a name: `sudo hostnamectl \
             set-hostname pc1`"
        ))),
    }
}

/// The address that is meant.
fn choose(found: &[Candidate], named: Option<Cidr>) -> Result<&Candidate> {
    if let Some(network) = named {
        return in_network(found, network);
    }
    let nothing_physical = found.iter().all(|one| one.kind != Kind::Wired);
    let wired = if nothing_physical { Kind::Pair } else { Kind::Wired };
    let fits = |one: &&Candidate| one.kind == wired && one.has_carrier;
    let mut all: Vec<&Candidate> = found.iter().filter(fits).collect();
    let known = all.clone();
    let first = |one: &&Candidate| {
        known
            .iter()
            .find(|other| other.network() == one.network())
            .is_some_and(|first| first.found.address == one.found.address)
    };
    all.retain(first);
    match &all[..] {
        [one] => Ok(one),
        [] if found.is_empty() => Err(Error::new(
            "this host has no IPv4 address but the loopback's; connect it to the network first",
        )),
        [] => Err(Error::new(format!(
            "this host has no wired network with a cable in, only {}; if one of them is meant, type `wiglaf \
             init --network {}`",
            list(found.iter()),
            found[0].network()
        ))),
        [first, ..] => Err(Error::new(format!(
            "this host is in several wired networks: {}; name the one for MPI's messages, for example \
             `wiglaf init --network {}`",
            list(all.iter().copied()),
            first.network()
        ))),
    }
}

fn in_network(found: &[Candidate], network: Cidr) -> Result<&Candidate> {
    found.iter().find(|one| network.contains(one.found.address)).ok_or_else(|| {
        Error::new(format!(
            "this host has no address in {network}; it has {}",
            if found.is_empty() { "none at all".to_owned() } else { list(found.iter()) }
        ))
    })
}

fn list<'a>(found: impl Iterator<Item = &'a Candidate>) -> String {
    found.map(Candidate::shown).collect::<Vec<_>>().join(", ")
}

fn candidates(sys: &Path, addresses: Vec<HostAddress>) -> Vec<Candidate> {
    let all = addresses.into_iter().filter(|found| found.prefix < 31);
    all.map(|found| {
        // A second address of an interface may have a label behind a colon.
        let folder = sys.join(found.interface.split(':').next().unwrap_or_default());
        let number = |file: &str| {
            fs::read_to_string(folder.join(file))
                .ok()
                .and_then(|text| text.trim().parse::<i64>().ok())
        };
        let has_carrier = number("carrier") == Some(1);
        let mbits = number("speed").and_then(|mbits| u32::try_from(mbits).ok()).filter(|n| *n > 0);
        let kind = kind(sys, &folder);
        Candidate { found, kind, has_carrier, mbits }
    })
    .collect()
}

/// What sysfs says that an interface is.
fn kind(sys: &Path, folder: &Path) -> Kind {
    let has = |file: &str| folder.join(file).exists();
    let members = |of: &str| {
        let all = fs::read_dir(folder.join(of)).into_iter().flatten().flatten();
        all.map(|member| sys.join(member.file_name())).collect::<Vec<_>>()
    };
    if has("wireless") || has("phy80211") {
        return Kind::Wireless;
    }
    if has("tun_flags") {
        return Kind::Virtual;
    }
    if has("bridge") {
        // A bridge of one's own has a card in it, docker's has none.
        let has_card = members("brif").iter().any(|member| kind(sys, member) == Kind::Wired);
        return if has_card { Kind::Wired } else { Kind::Virtual };
    }
    if has("device") || has("bonding") {
        return Kind::Wired;
    }
    let about = fs::read_to_string(folder.join("uevent")).unwrap_or_default();
    if about.contains("DEVTYPE=vlan") {
        return Kind::Wired;
    }
    let is_typed = about.contains("DEVTYPE=");
    let number = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
    match !is_typed && number("iflink") != number("ifindex") {
        true => Kind::Pair,
        false => Kind::Virtual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interface as sysfs shows it: name, files with their text, address.
    type Shown = (&'static str, &'static [(&'static str, &'static str)], &'static str);

    fn found(interfaces: &[Shown]) -> Vec<Candidate> {
        let sys = tempfile::tempdir().unwrap();
        let mut addresses = Vec::new();
        for (index, (name, files, address)) in interfaces.iter().enumerate() {
            let folder = sys.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("ifindex"), index.to_string()).unwrap();
            fs::write(folder.join("iflink"), index.to_string()).unwrap();
            fs::write(folder.join("carrier"), "1\n").unwrap();
            for (file, text) in *files {
                fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
                fs::write(folder.join(file), text).unwrap();
            }
            let (interface, address) = ((*name).to_owned(), address.parse().unwrap());
            addresses.push(HostAddress { interface, address, prefix: 24, mtu: 1500 });
        }
        candidates(sys.path(), addresses)
    }

    const CARD: &[(&str, &str)] = &[("device/vendor", ""), ("speed", "1000\n")];
    const WIFI: &[(&str, &str)] = &[("device/vendor", ""), ("phy80211/name", "")];
    const DOCKER: &[(&str, &str)] = &[("bridge/bridge_id", ""), ("brif/veth1/x", "")];
    const VETH: &[(&str, &str)] = &[("iflink", "77")];
    const TUN: &[(&str, &str)] = &[("tun_flags", "0x1")];

    fn chosen(interfaces: &[Shown]) -> Result<String> {
        choose(&found(interfaces), None).map(|one| one.found.interface.clone())
    }

    #[test]
    fn card_with_a_cable_is_taken_and_no_other_network() {
        let others = [
            ("docker0", DOCKER, "172.17.0.1"),
            ("wlp2s0", WIFI, "192.168.1.7"),
            ("veth9", VETH, "10.0.0.1"),
            ("tun0", TUN, "10.8.0.1"),
        ];
        let with = |more: &[Shown]| chosen(&[&others[..], more].concat());
        assert_eq!(with(&[("enp3s0", CARD, "192.168.77.1")]), Ok("enp3s0".to_owned()));
        let two =
            with(&[("a", CARD, "192.168.77.1"), ("b", CARD, "10.9.0.1")]).unwrap_err().to_string();
        assert!(
            two.contains("192.168.77.0/24 (a, 1000 Mbit/s), 10.9.0.0/24 (b, 1000 Mbit/s)"),
            "{two}"
        );
        assert!(two.contains("`wiglaf init --network 192.168.77.0/24`"), "{two}");
        // Two addresses in one network are no question.
        let same = with(&[("a", CARD, "192.168.77.1"), ("b", CARD, "192.168.77.2")]);
        assert_eq!(same, Ok("a".to_owned()));
    }

    #[test]
    fn bridge_with_a_card_in_it_is_wired() {
        let bridge: &'static [(&str, &str)] = &[("bridge/bridge_id", ""), ("brif/enp1s0/x", "")];
        let all = [("enp1s0", CARD, "10.1.0.9"), ("br0", bridge, "192.168.77.1")];
        assert!(found(&all).iter().all(|one| one.kind == Kind::Wired));
    }

    #[test]
    fn pairs_of_namespaces_count_where_there_is_nothing_else() {
        assert_eq!(chosen(&[("eth0", VETH, "192.168.77.1")]), Ok("eth0".to_owned()));
        let none = chosen(&[("wlan0", WIFI, "192.168.1.7")]).unwrap_err().to_string();
        assert!(none.contains("192.168.1.0/24 (wlan0, Wi-Fi)"), "{none}");
        assert!(none.contains("--network 192.168.1.0/24"), "{none}");
        assert!(chosen(&[]).is_err());
    }

    #[test]
    fn card_without_a_cable_is_not_taken() {
        let unplugged: &'static [(&str, &str)] = &[("device/vendor", ""), ("carrier", "0\n")];
        let none = chosen(&[("enp3s0", unplugged, "192.168.77.1")]).unwrap_err().to_string();
        assert!(none.contains("(enp3s0, no cable)"), "{none}");
    }

    #[test]
    fn file_can_be_read_whatever_is_asked_for() {
        let all = found(&[("enp3s0", CARD, "192.168.77.1")]);
        let options = Options {
            network: Some("192.168.0.0/16".parse().unwrap()),
            admin: Some("10.9.0.0/24".parse().unwrap()),
            ports: Some(Ports { first: 47_000, last: 47_999 }),
            name: Some("lab".to_owned()),
            output: None,
        };
        for options in [options, Options::default()] {
            let text = text(&options, &all[0], "pc1", Path::new("/opt/wiglaf/bin/wiglaf"));
            let hosts = Hosts::parse(&text, Path::new("f")).unwrap();
            assert_eq!(hosts.nodes[0].address, Some(Ipv4Addr::new(192, 168, 77, 1)));
            assert_eq!(hosts.nodes[0].target.exe.as_deref(), Some("/opt/wiglaf/bin/wiglaf"));
            assert_eq!(hosts.network.ports, options.ports);
        }
    }

    #[test]
    fn host_without_a_name_is_told_how_to_get_one() {
        assert_eq!(own_name("pc1.lab.org"), Ok("pc1".to_owned()));
        for name in ["", "localhost", "localhost.localdomain", "-x", "a b"] {
            assert!(own_name(name).unwrap_err().to_string().contains("hostnamectl"), "{name}");
        }
    }
}
