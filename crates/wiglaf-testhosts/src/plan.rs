//! Which hosts to bring up: everything has a default, and every field can be set.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Interfaces on the data network, in turns: no two PCs agree on names.
const DATA_INTERFACES: [&str; 4] = ["enp3s0", "eno1", "eth7", "enp0s31f6"];
/// Interfaces on the admin network.
const ADMIN_INTERFACES: [&str; 4] = ["enp4s0", "eno2", "eth0", "enx0201"];

/// What to bring up. `Plan::new(3)` are `pc1` to `pc3` with the user `ann`, who reaches each of them by ssh.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The hosts, in the order in which [`crate::Hosts`] has them.
    pub hosts: Vec<HostPlan>,
    /// The ordinary users, on all hosts.
    pub users: Vec<User>,
    /// Whether there is an admin network besides the data network.
    pub admin: bool,
    /// Whether users know the host keys of all hosts beforehand. Else ssh in batch mode refuses each.
    pub known_hosts: bool,
    /// Folders that all hosts have in common, as from a file server. The first user owns them.
    pub shared: Vec<PathBuf>,
    /// Where the hosts' files lie. They stay there, and the next hosts of the folder begin with them.
    /// By default a temporary folder, which goes away with the hosts.
    pub folder: Option<PathBuf>,
}

/// One host.
#[derive(Debug, Clone)]
pub struct HostPlan {
    /// Its host name, without a domain.
    pub name: String,
    /// The root file system that it begins with: a folder, for example of `mmdebstrap --variant=minbase
    /// --include=openssh-server,sudo trixie FOLDER`. By default `$WIGLAF_TESTHOSTS_ROOT`, else this machine's
    /// root: then the host has the programs of this machine without Wiglaf, and neither its homes nor its data.
    pub root: Option<PathBuf>,
    /// Its port on the data network.
    pub data: PortPlan,
    /// Its port on the admin network, if there is one.
    pub admin: PortPlan,
    /// Whether /etc/hosts says that its own name is 127.0.1.1, as Debian's installer leaves it.
    pub loopback_name: bool,
    /// Whether an SSH server runs.
    pub sshd: bool,
    /// Lines that come first in sshd's configuration.
    pub sshd_config: String,
    /// Commands of root's shell that are started, and not waited for, each time the host is powered on.
    pub services: Vec<String>,
    /// Files and folders of this machine that the host sees: source here, target there.
    pub binds: Vec<(PathBuf, PathBuf)>,
}

/// A network interface of a host and the cable to the switch.
#[derive(Debug, Clone)]
pub struct PortPlan {
    /// Its name on the host.
    pub interface: String,
    /// Its address; the networks are /24.
    pub address: Ipv4Addr,
    /// The host's setting. The switch carries frames of any size; a host drops what is longer than its own.
    pub mtu: u32,
    /// Whether the interface takes trains of segments in one piece, as veth does. By default it does not, so that
    /// each frame on the wire has its real length: else a train of long frames passes a short MTU.
    pub offload: bool,
}

/// An ordinary user with a home and an SSH key pair on each host; each pair is authorized on all hosts.
#[derive(Debug, Clone)]
pub struct User {
    /// The name, of the user's group too.
    pub name: String,
    /// The number on all hosts but those of `uid_on`.
    pub uid: u32,
    /// Another number on some hosts, by their index.
    pub uid_on: BTreeMap<usize, u32>,
    /// Whether sudo asks for no password. Else sudo refuses.
    pub sudo: bool,
    /// The login shell.
    pub shell: PathBuf,
    /// Whether the keys are authorized. Else no host lets the user in by ssh.
    pub authorized: bool,
}

impl Plan {
    /// So many hosts with the user `ann`, a data and an admin network.
    ///
    /// # Panics
    /// With more hosts than a /24 network has addresses.
    #[must_use]
    pub fn new(count: usize) -> Self {
        assert!(count < 255, "a /24 network has no room for {count} hosts");
        Self {
            hosts: (0..count).map(HostPlan::new).collect(),
            users: vec![User::new("ann", 2001)],
            admin: true,
            known_hosts: true,
            shared: Vec::new(),
            folder: None,
        }
    }

    /// With sudo for all users, without password.
    #[must_use]
    pub fn with_sudo(mut self) -> Self {
        for user in &mut self.users {
            user.sudo = true;
        }
        self
    }

    /// With the data network alone.
    #[must_use]
    pub fn without_admin(mut self) -> Self {
        self.admin = false;
        self
    }

    /// What would be mistaken for something else by a shell or a configuration file.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_plain = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
        };
        let names = self.hosts.iter().map(|host| &host.name);
        let interfaces =
            self.hosts.iter().flat_map(|host| [&host.data.interface, &host.admin.interface]);
        let users = self.users.iter().map(|user| &user.name);
        if let Some(name) = names.chain(interfaces).chain(users).find(|name| !is_plain(name)) {
            return Err(format!("`{name}` is no name for a host, an interface or a user"));
        }
        let binds = self.hosts.iter().flat_map(|host| &host.binds).flat_map(|(a, b)| [a, b]);
        let shells = self.users.iter().map(|user| &user.shell);
        let mut paths = self.shared.iter().chain(binds).chain(shells);
        let odd = |byte: &u8| byte.is_ascii_control() || b"'\"\\$`,:".contains(byte);
        if let Some(path) = paths
            .find(|path| !path.is_absolute() || path.as_os_str().as_encoded_bytes().iter().any(odd))
        {
            return Err(format!("`{}` is no absolute path of plain characters", path.display()));
        }
        Ok(())
    }
}

impl HostPlan {
    /// The host of that index: its name, addresses and interfaces follow from it.
    fn new(index: usize) -> Self {
        let last = u8::try_from(index + 1).unwrap_or(u8::MAX);
        let port = |names: [&str; 4], address| PortPlan {
            interface: names[index % names.len()].to_owned(),
            address,
            mtu: 1500,
            offload: false,
        };
        Self {
            name: format!("pc{last}"),
            root: None,
            data: port(DATA_INTERFACES, Ipv4Addr::new(192, 168, 77, last)),
            admin: port(ADMIN_INTERFACES, Ipv4Addr::new(10, 9, 0, last)),
            loopback_name: true,
            sshd: true,
            sshd_config: String::new(),
            services: Vec::new(),
            binds: Vec::new(),
        }
    }
}

impl User {
    /// A user without sudo, with bash.
    #[must_use]
    pub fn new(name: &str, uid: u32) -> Self {
        Self {
            name: name.to_owned(),
            uid,
            uid_on: BTreeMap::new(),
            sudo: false,
            shell: PathBuf::from("/bin/bash"),
            authorized: true,
        }
    }

    /// The number on the host of that index.
    pub(crate) fn uid(&self, host: usize) -> u32 {
        self.uid_on.get(&host).copied().unwrap_or(self.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_that_a_shell_would_split_are_refused() {
        assert_eq!(Plan::new(3).check(), Ok(()));
        let mut plan = Plan::new(2);
        plan.hosts[1].name = "pc 2".to_owned();
        assert!(plan.check().unwrap_err().contains("`pc 2`"));
        let mut plan = Plan::new(1);
        plan.shared.push(PathBuf::from("relative"));
        assert!(plan.check().unwrap_err().contains("`relative`"));
        let mut plan = Plan::new(1);
        plan.hosts[0].binds.push((PathBuf::from("/a,b"), PathBuf::from("/c")));
        assert!(plan.check().unwrap_err().contains("`/a,b`"));
    }
}
