//! Which cluster a command means: an emulated one, or the hosts of a cluster file.

use std::os::unix::process::CommandExt;
use std::process::Command;

use wiglaf_base::{Error, HostList, Result, network};
use wiglaf_cluster::hosts::{self, FILE_VAR, Hosts};
use wiglaf_cluster::{Cluster, Member, StateDir};
use wiglaf_node::Node;
use wiglaf_node::proto::{NODE_VAR, STATE_VAR};

use crate::options::Global;
use crate::up::this_exe;

/// The cluster that a command means.
#[derive(Debug, Clone)]
pub(crate) enum Meant {
    /// Real hosts.
    Hosts(Hosts),
    /// Namespaces of this machine; it is not known yet whether they are up.
    Emulated(StateDir),
}

impl Global {
    /// The cluster that is meant: the one that is named, by an option before a variable; else the hosts of
    /// the cluster file, where there is one; else the emulated one.
    pub(crate) fn meant(&self) -> Result<Meant> {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let names_emulated = self.name.is_some() || self.state.is_some();
        if names_emulated && self.file.is_some() {
            return Err(Error::new(
                "--file means the hosts of a cluster file, --name and --state an emulated cluster; give \
                 one of them",
            ));
        }
        let is_emulated = names_emulated || is_set(NODE_VAR) || is_set(STATE_VAR);
        if is_emulated && self.file.is_none() {
            return Ok(Meant::Emulated(self.state_dir()));
        }
        let Some((path, text)) = hosts::find(self.file.as_deref())? else {
            return Ok(Meant::Emulated(self.state_dir()));
        };
        if !hosts::is_of_hosts(&text) {
            // Malformed, or of an emulated cluster.
            return match Hosts::parse(&text, &path) {
                Err(_) if toml_is_emulated(&text, &path) => Ok(Meant::Emulated(self.state_dir())),
                Err(error) => Err(error),
                Ok(hosts) => Ok(Meant::Hosts(hosts)),
            };
        }
        let found = Hosts::parse(&text, &path)?;
        if self.file.is_none() && !is_set(hosts::FILE_VAR) {
            self.say_which(&found);
        }
        Ok(Meant::Hosts(found))
    }

    /// Where an emulated cluster is up as well, says which of the two is meant.
    fn say_which(&self, hosts: &Hosts) {
        if matches!(self.state_dir().record(), Ok(Some(_))) {
            eprintln!(
                "wiglaf: this means the hosts in {}; for the emulated cluster, which is up as well, add \
                 --name default",
                hosts.file.display()
            );
        }
    }
}

/// Goes on as a process of the job network of these hosts: the same command again, if need be, with what
/// tells endpoints which network that is. Comes back where it is one already.
pub(crate) fn enter(hosts: &Hosts) -> Result<()> {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if ["WIGLAF_NET", "WIGLAF_IP", "WIGLAF_IF"].into_iter().any(is_set) {
        return Ok(());
    }
    let data = hosts.network.data;
    if network::own_in(data).is_none() {
        return Err(Error::new(format!(
            "this machine has no address in the network {data} of {}; run the command on one of the \
             hosts: `ssh {}`",
            hosts.file.display(),
            hosts.nodes[0].target.login()
        )));
    }
    let mut again = Command::new(this_exe()?);
    again.args(std::env::args_os().skip(1));
    again.env("WIGLAF_NET", data.to_string()).env(FILE_VAR, &hosts.file);
    if let Some(ports) = hosts.network.ports {
        again.env("WIGLAF_PORTS", String::from(ports));
    }
    Err(Error::new(format!("cannot go on as another process: {}", again.exec())))
}

/// Whether a cluster file describes an emulated cluster.
fn toml_is_emulated(text: &str, path: &std::path::Path) -> bool {
    wiglaf_cluster::shape::Draft::parse(text, &path.display().to_string()).is_ok()
}

impl Meant {
    /// The cluster, if it is up. Hosts are not asked yet.
    pub(crate) fn running(&self) -> Result<Cluster> {
        match self {
            Self::Hosts(hosts) => Ok(Cluster::Hosts(hosts.clone())),
            Self::Emulated(state) => {
                Ok(Cluster::Emulated { state: state.clone(), record: state.running()? })
            }
        }
    }

    /// Its nodes called `names`, or all.
    pub(crate) fn members(&self, names: Option<&HostList>) -> Result<Vec<Member>> {
        self.running()?.members(&names.cloned().unwrap_or_default())
    }

    /// Its nodes called `names`, or all, without what else their [`Member`]s tell.
    pub(crate) fn nodes(&self, names: Option<&HostList>) -> Result<Vec<Node>> {
        Ok(self.members(names)?.into_iter().map(|member| member.node).collect())
    }
}
