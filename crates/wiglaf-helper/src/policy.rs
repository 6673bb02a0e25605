//! The administrator's policy: who may have which links.
//!
//! A file that is missing, wrong, or that others than root could have written
//! admits nobody.

use std::fs;
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wiglaf_link_udp::interface::Network;

use crate::protocol::SocketKind;

/// Longest file that is read, in bytes.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Who asks, as the kernel knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// The group and the supplementary groups.
    pub gids: Vec<u32>,
}

/// A policy file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Most requests of one user in a minute.
    #[serde(default = "requests_per_minute")]
    pub requests_per_minute: u32,
    /// Most packet sockets that one user has open at a time.
    #[serde(default = "sockets_per_user")]
    pub sockets_per_user: usize,
    /// Whether sockets get a mark, by which the IP stack is spared their frames.
    #[serde(default = "early_drop")]
    pub early_drop: bool,
    /// Whoever one of these admits is admitted.
    #[serde(default)]
    admit: Vec<Rule>,
}

fn requests_per_minute() -> u32 {
    600
}

/// Four ranks for each core, and room for small jobs beside them. Of some 28,000 ephemeral ports that
/// is too few to wait at for another user's job.
fn sockets_per_user() -> usize {
    const OF_CORE: usize = 4;
    const LEAST: usize = 64;
    std::thread::available_parallelism().map_or(1, usize::from).saturating_mul(OF_CORE).max(LEAST)
}

fn early_drop() -> bool {
    true
}

/// One paragraph of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    #[serde(default)]
    users: Vec<Name>,
    #[serde(default)]
    groups: Vec<Name>,
    /// A file of uids, one a line, that a job scheduler keeps.
    allocation: Option<PathBuf>,
    #[serde(default)]
    everybody: bool,
    links: Vec<LinkName>,
    /// Networks whose cards they may tune, and with them the processors.
    #[serde(default)]
    tune: Vec<NetworkName>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Name {
    Number(u32),
    Word(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
enum LinkName {
    Packet,
}

/// A network as administrators write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct NetworkName(Network);

impl TryFrom<String> for NetworkName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let network = Network::named(&name);
        network
            .map(Self)
            .ok_or_else(|| format!("`{name}` is no network; write one as in \"192.168.77.0/24\""))
    }
}

/// Why neither a policy nor a caller gets the xdp link (docs/adr/0021).
pub(crate) const NO_XDP: &str = "no helper lends xdp: its holder could bind it to any interface, \
                                 and in zero-copy mode read what others receive there; docs/helper.md \
                                 says more; the packet link can be lent";

impl TryFrom<String> for LinkName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match name.as_str() {
            "packet" => Ok(Self::Packet),
            "xdp" => Err(NO_XDP.to_owned()),
            _ => Err(format!("there is no link `{name}` to lend, only packet")),
        }
    }
}

impl Policy {
    /// Reads the policy at `path`.
    ///
    /// # Errors
    /// A sentence, when there is none that may be believed.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = read_trusted(path)?;
        toml::from_str(&text).map_err(|error| {
            let why = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
            format!("the policy {} cannot be understood: {why}", path.display())
        })
    }

    /// Whether `caller` may have such a link; a rule that cannot be applied
    /// admits nobody.
    #[must_use]
    pub fn admits(&self, caller: &Caller, link: SocketKind) -> bool {
        self.admit
            .iter()
            .any(|rule| rule.links.iter().any(|name| name.is(link)) && rule.names(caller))
    }

    /// Whether `caller` may tune anything.
    #[must_use]
    pub fn admits_to_tune(&self, caller: &Caller) -> bool {
        self.rules_of_tuning(caller).next().is_some()
    }

    /// Whether `caller` may tune a card with that address.
    #[must_use]
    pub fn tunes(&self, caller: &Caller, address: Ipv4Addr) -> bool {
        let mut networks = self.rules_of_tuning(caller).flat_map(|rule| &rule.tune);
        networks.any(|NetworkName(network)| network.holds(address))
    }

    /// Root may tune what anybody may.
    fn rules_of_tuning(&self, caller: &Caller) -> impl Iterator<Item = &Rule> {
        let tuning = self.admit.iter().filter(|rule| !rule.tune.is_empty());
        tuning.filter(|rule| caller.uid == 0 || rule.names(caller))
    }
}

impl LinkName {
    fn is(self, link: SocketKind) -> bool {
        matches!((self, link), (Self::Packet, SocketKind::Packet))
    }
}

impl Rule {
    fn names(&self, caller: &Caller) -> bool {
        let uid = |name: &Name| name.number("/etc/passwd") == Some(caller.uid);
        let gid = |name: &Name| name.number("/etc/group").is_some_and(|g| caller.gids.contains(&g));
        self.everybody
            || self.users.iter().any(uid)
            || self.groups.iter().any(gid)
            || self.allocation.as_deref().is_some_and(|file| is_allocated(file, caller.uid))
    }
}

impl Name {
    /// Names are looked up in the local file only; those of a directory
    /// service are given as numbers.
    fn number(&self, file: &str) -> Option<u32> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Word(word) => {
                let text = fs::read_to_string(file).ok()?;
                let mut entries = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
                entries.find(|e| e.first() == Some(&word.as_str()))?.get(2)?.parse().ok()
            }
        }
    }
}

/// Whether the scheduler's file names the user; one that is missing, or that
/// others could have written, names nobody.
fn is_allocated(file: &Path, uid: u32) -> bool {
    let text = read_trusted(file).unwrap_or_default();
    text.lines().any(|line| line.trim().parse() == Ok(uid))
}

/// The text of a file that root alone can have written.
fn read_trusted(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let file = fs::File::open(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let meta = file.metadata().map_err(|error| format!("cannot read {shown}: {error}"))?;
    if !meta.is_file() || meta.uid() != 0 || meta.mode() & 0o022 != 0 {
        return Err(format!("{shown} is not believed: others than root could have written it"));
    }
    let mut text = String::new();
    file.take(FILE_LEN_MAX)
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot read {shown}: {error}"))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(uid: u32, gids: &[u32]) -> Caller {
        Caller { uid, gids: gids.to_vec() }
    }

    fn parse(text: &str) -> Policy {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn users_groups_and_links_are_told_apart() {
        let policy = parse(
            "[[admit]]\nusers = [1000, 'root']\ngroups = [50]\nlinks = ['packet']\n\
             [[admit]]\nusers = [2000]\nlinks = []\n",
        );
        for (who, packet) in [
            (caller(1000, &[9]), true),
            (caller(0, &[9]), true),
            (caller(3000, &[9, 50]), true),
            (caller(2000, &[9]), false),
            (caller(4000, &[9]), false),
        ] {
            assert_eq!(policy.admits(&who, SocketKind::Packet), packet, "{who:?}");
            assert!(!policy.admits(&who, SocketKind::Xdp), "{who:?}");
        }
        assert!(!parse("").admits(&caller(0, &[0]), SocketKind::Packet));
    }

    #[test]
    fn tuning_is_admitted_apart_and_on_named_networks_only() {
        let policy = parse(
            "[[admit]]\nusers = [1000]\nlinks = []\ntune = ['192.168.77.0/24', '10.1.0.0/16']\n\
             [[admit]]\nusers = [2000]\nlinks = ['packet']\n\
             [[admit]]\nusers = [2000]\nlinks = []\ntune = ['192.168.78.0/24']\n",
        );
        let may = |uid, address: [u8; 4]| policy.tunes(&caller(uid, &[9]), address.into());
        assert!(may(1000, [192, 168, 77, 200]) && may(1000, [10, 1, 9, 9]));
        assert!(!may(1000, [192, 168, 78, 1]) && may(2000, [192, 168, 78, 1]));
        assert!(may(0, [10, 1, 0, 1]) && !may(0, [10, 2, 0, 1]), "root, what anybody may");
        let admits = |uid| policy.admits_to_tune(&caller(uid, &[9]));
        assert!(admits(1000) && admits(2000) && !admits(3000));
        assert!(!policy.admits(&caller(1000, &[9]), SocketKind::Packet));
        assert!(!parse("").admits_to_tune(&caller(0, &[0])));
        assert!(
            toml::from_str::<Policy>("[[admit]]\nusers = [1]\nlinks = []\ntune = ['lab']").is_err()
        );
    }

    #[test]
    fn what_is_misspelt_is_an_error_and_no_rule() {
        for text in [
            "[[admit]]\nuser = [1]\nlinks = ['packet']",
            "[[admit]]\nusers = [1]",
            "[[admit]]\nlinks = ['tcp']",
            "admits = 1",
        ] {
            assert!(toml::from_str::<Policy>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_policy_that_lends_xdp_is_told_why_not() {
        let text = "[[admit]]\neverybody = true\nlinks = ['packet', 'xdp']\n";
        let why = toml::from_str::<Policy>(text).unwrap_err().to_string();
        assert!(why.contains(NO_XDP), "{why}");
    }

    #[test]
    fn an_allocation_admits_while_its_file_names_the_user() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root writes files that are believed");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("allocation");
        let text = format!("[[admit]]\nallocation = '{}'\nlinks = ['packet']", file.display());
        let policy = parse(&text);
        let admits = |uid| policy.admits(&caller(uid, &[]), SocketKind::Packet);
        assert!(!admits(1000), "there is no file");
        fs::write(&file, "7\n1000\n").unwrap();
        assert!(admits(1000) && admits(7) && !admits(100) && !admits(0));
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(!admits(1000), "anybody could have written it");
        fs::remove_file(&file).unwrap();
        assert!(!admits(1000));
        let error = Policy::read(&file).unwrap_err();
        assert!(error.starts_with("cannot read"), "{error}");
    }

    #[test]
    fn a_file_that_others_than_root_could_have_written_is_not_believed() {
        use std::os::unix::fs::{PermissionsExt, chown};
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root gives files away");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (file, allocation) = (folder.path().join("policy"), folder.path().join("allocation"));
        let rule =
            format!("[[admit]]\nallocation = '{}'\nlinks = ['packet']", allocation.display());
        fs::write(&file, &rule).unwrap();
        fs::write(&allocation, "1000\n").unwrap();
        let policy = parse(&rule);
        for (mode, owner, is_believed) in [
            (0o644, 0, true),
            (0o664, 0, false),
            (0o646, 0, false),
            (0o644, 1000, false),
            (0o644, 0, true),
        ] {
            for path in [&file, &allocation] {
                chown(path, Some(owner), None).unwrap();
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            }
            let why = Policy::read(&file).err().unwrap_or_default();
            assert_eq!(why.is_empty(), is_believed, "{mode:o} of {owner}: {why}");
            assert!(is_believed || why.contains("is not believed"), "{why}");
            let admits = policy.admits(&caller(1000, &[]), SocketKind::Packet);
            assert_eq!(admits, is_believed, "{mode:o} of {owner}");
        }
    }
}
