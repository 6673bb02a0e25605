//! Starts measured programs on the real hosts of a cluster file, with `wiglaf run --stage`: they need share no
//! folder.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use wiglaf_base::paths::EXE;
use wiglaf_base::{Error, HostList, Result};
use wiglaf_bench::{Job, Launcher, Settings, Transport};
use wiglaf_cluster::cluster::ask_all;
use wiglaf_cluster::hosts::Hosts;
use wiglaf_cluster::{Cluster, Member};
use wiglaf_link::LinkKind;

use super::launcher::{link_of, settings_of};
use super::{Common, What};
use crate::choices::carrier;
use crate::measuring::interrupt;
use crate::options::Global;
use crate::up::this_exe;
use crate::which::Meant;

/// The launcher for the hosts of one cluster file.
#[derive(Debug)]
pub(crate) struct OnHosts {
    hosts: Hosts,
    names: Vec<String>,
    exe: PathBuf,
    link: LinkKind,
}

/// The hosts, where they are meant: for the benchmarks that need nodes of no certain shape.
pub(super) fn meant(what: &What, global: &Global) -> Result<Option<Hosts>> {
    let Meant::Hosts(hosts) = global.meant()? else { return Ok(None) };
    match what {
        What::Pingpong(args) if !args.same_node => Ok(Some(hosts)),
        What::Bandwidth(args) if !args.single_frames => Ok(Some(hosts)),
        What::LogGp(_) => Ok(Some(hosts)),
        _ => Err(Error::new(format!(
            "this benchmark needs nodes of its own making, not the hosts in {}; on those `wiglaf bench \
             pingpong`, `bandwidth` and `loggp` measure; for emulated nodes add --name bench",
            hosts.file.display()
        ))),
    }
}

impl OnHosts {
    /// For jobs on the first two hosts, which are asked whether they are up.
    pub(super) fn new(hosts: Hosts, common: &Common) -> Result<Self> {
        if common.wire.is_some() || common.rate.is_some() || common.mtu.is_some() {
            return Err(Error::new(
                "the wire between real hosts is as it is; leave --wire, --rate and --mtu out, or add --name \
                 bench for emulated nodes",
            ));
        }
        interrupt::listen()?;
        let all = Cluster::Hosts(hosts.clone()).members(&HostList::default())?;
        let two: Vec<Member> = all.into_iter().take(2).collect();
        if two.len() < 2 {
            return Err(Error::new(format!(
                "{} has one host, and it takes two; add one with `wiglaf join HOST`",
                hosts.file.display()
            )));
        }
        let asked = ask_all(&two, |member| member.node.hello().map(drop));
        asked.into_iter().collect::<Result<Vec<()>>>()?;
        let names: Vec<String> = two.iter().map(|member| member.name().to_owned()).collect();
        eprintln!("wiglaf: between {} and {}", names[0], names[1]);
        let exe = Cluster::Hosts(hosts.clone()).program(&this_exe()?);
        Ok(Self { hosts, names, exe, link: common.link })
    }
}

impl Launcher for OnHosts {
    fn settings(&self, transport: Transport) -> std::result::Result<Settings, String> {
        settings_of(&self.exe, transport, link_of(transport, self.link), None, false)
    }

    fn command(&self, job: &Job<'_>) -> wiglaf_bench::Result<Command> {
        let names: HostList = self.names.iter().take(job.nodes.max(1)).collect();
        let mut command = Command::new(&self.exe);
        command.arg("--file").arg(&self.hosts.file).args(["run", "--stage"]);
        command.args(["-n", &job.ranks.to_string(), "--nodes", &names.to_string()]);
        command.args(["--transport", carrier(job.transport).word()]);
        command.args(["--link", link_of(job.transport, self.link).name(), "--"]);
        command.arg(job.program).args(job.args).current_dir(job.dir);
        command.env("WIGLAF_BENCH_STATS", format!("{EXE} stats --here --json"));
        command.envs(job.settings).envs(job.env.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    fn node_count(&self) -> usize {
        self.names.len()
    }

    fn facts(&self) -> BTreeMap<String, String> {
        [
            ("nodes", format!("hosts, {}", self.names.join(" and "))),
            ("network", self.hosts.network.data.to_string()),
            ("nodes used", self.names.len().to_string()),
            ("link asked for", self.link.name().to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn is_interrupted(&self) -> bool {
        interrupt::is_wanted()
    }
}
