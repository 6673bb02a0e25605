//! Slurm on the hosts of a cluster file: what is there, what would be changed, and changing it.
//!
//! All is looked at before anything is touched. What is changed is in each host's manifest of batch jobs, which
//! `wiglaf batch remove` and `wiglaf leave` undo.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use wiglaf_base::at_once;
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::hostlist::HostList;
use wiglaf_base::network::Cidr;
use wiglaf_cluster::batch::{Batch, Login, Memory, Owner};
use wiglaf_cluster::hosts::{HostSpec, Hosts};
use wiglaf_cluster::power::Kind;
use wiglaf_join::joined::{self, Change, Joined, Lines, NewFile, Service, digest};

use crate::accounting;
use crate::conf::{CONTROLLER_PORT, NodeFacts, Places, Plan as Conf, Tracking};
use crate::daemons::{Daemon, NOTED, Place};
use crate::facts::Facts;
use crate::login;
use crate::look::{self, Commands, JobState, NodeState};
use crate::modules;
use crate::node::{self, CLOCK_S, SETTINGS, Script, Settings, When};
use crate::owner::{self, Watch};
use crate::pbs;
use crate::revive::{self, Revival};
use crate::sleep::{self, Waking};

const KEY: &str = "/etc/munge/munge.key";
const SLURM_CONF: &str = "/etc/slurm/slurm.conf";
const CGROUP_CONF: &str = "/etc/slurm/cgroup.conf";
const PROLOG: &str = "/etc/wiglaf/batch/prolog";
const EPILOG: &str = "/etc/wiglaf/batch/epilog";
const MODULE: &str = "/etc/wiglaf/batch/module";
const LOOK: &str = "/etc/wiglaf/batch/look";
const TASK_PROLOG: &str = "/etc/wiglaf/batch/task-prolog";
/// What Slurm keeps on a host.
const CONTROLLER: &str = "/var/lib/wiglaf/batch/controller";
const SPOOL: &str = "/var/lib/wiglaf/batch/spool";
const CONTROLLER_LOG: &str = "/var/log/slurm/slurmctld.log";
const NODE_LOG: &str = "/var/log/slurm/slurmd.log";
const MUNGE_LOG: &str = "/var/log/munge/munged.log";
/// systemd's: a node has no slurm.conf of its own, without which Debian's unit does nothing.
const DROP_IN: &str = "/etc/systemd/system/slurmd.service.d/wiglaf.conf";
/// Bytes of munge's key.
const KEY_LEN: usize = 1024;
/// For how many seconds a host may be silent before its job is given up.
const SILENCE_SECONDS: u32 = 60;
/// A kernel of next month may take a little more: a node that has less than slurm.conf says takes no jobs.
const MEMORY_KEPT: u64 = 50;
/// Only bounds how long a broken start is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL_PAUSE: Duration = Duration::from_millis(300);
/// Head and node of different releases that were seen to work together.
const TALKING: [(&str, &str); 1] = [("26.05", "24.11")];

/// What would be changed on a host.
#[derive(Debug, Clone, Serialize)]
pub struct HostPlan {
    /// The host.
    pub name: String,
    /// Each change, as a line.
    pub changes: Vec<String>,
}

/// How it went on a host.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The host.
    pub name: String,
    /// Why it takes no jobs.
    pub error: Option<String>,
    /// What stays there, a sentence each.
    pub kept: Vec<String>,
}

/// The hosts of a cluster file, with what they say of batch jobs.
#[derive(Debug)]
pub struct Site {
    name: String,
    batch: Batch,
    owners: BTreeMap<String, Owner>,
    /// The cluster file.
    file: PathBuf,
    /// Hosts with a BMC.
    with_bmc: Vec<String>,
    network: Cidr,
    hosts: Vec<Host>,
    /// Those that may sleep and do not answer, and why.
    silent: Vec<(String, Error)>,
    head: usize,
    key: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Host {
    joined: Joined,
    facts: Facts,
}

impl Host {
    fn name(&self) -> &str {
        self.joined.name()
    }

    /// Whether slurmdbd was set up there.
    fn has_accounting(&self) -> bool {
        self.joined.written(Path::new(accounting::CONF)).is_some()
    }

    /// Whether a file is there that setting up did not write.
    fn has_others(&self, path: &str, sha256: Option<&str>) -> bool {
        sha256.is_some() && sha256 != self.joined.written(Path::new(path))
    }
}

/// Looks at all hosts; changes nothing.
///
/// # Errors
/// All that stands in the way, a sentence for each host: then nothing is to be done on any.
pub fn look(hosts: &Hosts) -> std::result::Result<Site, Vec<Error>> {
    let site = Site::new(hosts)?;
    let mut errors = site.obstacles();
    errors.extend(site.asleep());
    if errors.is_empty() { Ok(site) } else { Err(errors) }
}

impl Site {
    /// The hosts, whatever is wrong with them.
    ///
    /// # Errors
    /// A sentence for each host that does not answer, or that the section names and is none.
    pub fn new(hosts: &Hosts) -> std::result::Result<Self, Vec<Error>> {
        let one = |error: Error| vec![error];
        let batch = hosts.batch.as_deref().cloned().unwrap_or_default();
        let (head, _) = batch.place(&hosts.names()).map_err(one)?;
        let is_counted = batch.has_accounting();
        let looked = joined::look(hosts).map_err(one)?;
        let asked = at_once::each(looked, |joined: Result<Joined>| {
            let joined = joined?;
            let is_head = joined.name() == head;
            let cluster = Some(hosts.name.as_str()).filter(|_| is_head && is_counted);
            let facts = Facts::look(&joined, &packages(is_head, &batch), cluster)?;
            Ok(Host { joined, facts })
        });
        let sleeping = batch.sleeping().map_err(one)?;
        let (mut all, mut errors, mut silent) = (Vec::new(), Vec::new(), Vec::new());
        for (host, spec) in asked.into_iter().zip(&hosts.nodes) {
            match host {
                Ok(host) => all.push(host),
                Err(error) if sleeping.names().contains(&spec.name) => {
                    silent.push((spec.name.clone(), error));
                }
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let head = all.iter().position(|host| host.name() == head).unwrap_or_default();
        let mut site = Self {
            name: hosts.name.clone(),
            batch,
            owners: hosts.owner.clone(),
            file: hosts.file.clone(),
            with_bmc: with_bmc(hosts),
            network: hosts.network.data,
            hosts: all,
            silent,
            head,
            key: None,
        };
        site.key = site.known_key().map_err(one)?;
        Ok(site)
    }

    /// Those that do not answer and may be asleep, a sentence each.
    fn asleep(&self) -> Vec<Error> {
        let scontrol = self.commands().scontrol;
        let told = |(name, error): &(String, Error)| {
            Error::new(format!(
                "{error}; if {name} is asleep, wake it with `{scontrol} update NodeName={name} State=POWER_UP`"
            ))
        };
        self.silent.iter().map(told).collect()
    }

    fn head(&self) -> &Host {
        &self.hosts[self.head]
    }

    /// Whether Slurm was set up here.
    #[must_use]
    pub fn is_set_up(&self) -> bool {
        self.head().joined.written(Path::new(SLURM_CONF)).is_some()
    }

    /// The name of the head.
    #[must_use]
    pub fn head_name(&self) -> &str {
        self.head().name()
    }

    /// The key that the hosts have in common already, if they do.
    fn known_key(&self) -> Result<Option<Vec<u8>>> {
        let has_ours = |host: &&Host| {
            host.joined.has_root()
                && host.facts.key.is_some()
                && !host.has_others(KEY, host.facts.key.as_deref())
        };
        // The head's first: that which decides.
        let all = std::iter::once(self.head()).chain(&self.hosts);
        let Some(host) = all.into_iter().find(has_ours) else { return Ok(None) };
        let text = host.joined.run(&format!("od -An -v -tx1 {KEY}"), true, b"")?;
        let bytes = text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16));
        let bytes: std::result::Result<Vec<u8>, _> = bytes.collect();
        bytes.map(Some).cannot(|| format!("read {KEY} of {}", host.name()))
    }

    /// What keeps Slurm from being set up: a sentence each.
    fn obstacles(&self) -> Vec<Error> {
        let here = self.hosts.iter().find(|host| host.joined.is_here());
        let here = here.unwrap_or(self.head());
        let mut errors: Vec<Error> = self
            .hosts
            .iter()
            .filter_map(|host| self.obstacle(host, here))
            .map(Error::new)
            .collect();
        errors.extend(self.no_revival().map(Error::new));
        if errors.is_empty() {
            errors.extend(self.conf(&self.all()).and_then(|conf| conf.slurm_conf()).err());
        }
        errors
    }

    /// Why hosts that hang cannot be switched, where they are to be.
    fn no_revival(&self) -> Option<String> {
        let head = self.head();
        if !self.batch.cycle {
            return None;
        }
        if !head.joined.is_here() {
            let name = head.name();
            return Some(format!(
                "cycle = true: the head switches hosts that hang with your cluster file; run `wiglaf batch setup` on \
                 {name}"
            ));
        }
        self.with_bmc.iter().all(|name| name == head.name()).then(|| {
            "cycle = true: no host but the head has a BMC; add `power = { kind = \"ipmi\", … }` to its section \
             [node.NAME], as in docs/power.md, or take the line out of [batch]"
                .to_owned()
        })
    }

    /// Which hosts the head switches off and on when they hang, where that is wanted.
    fn revival(&self, host: &Host) -> Option<Revival> {
        let is_wanted = self.batch.cycle && host.name() == self.head_name();
        let others = self.with_bmc.iter().filter(|name| *name != host.name());
        let program = host.joined.program().ok()?.to_owned();
        is_wanted.then(|| Revival {
            user: host.joined.user().to_owned(),
            file: self.file.clone(),
            program,
            nodes: others.cloned().collect(),
        })
    }

    fn obstacle(&self, host: &Host, here: &Host) -> Option<String> {
        let (name, joined, facts) = (host.name(), &host.joined, &host.facts);
        let login = joined.login();
        if let Err(error) = joined.program().map(drop).and(joined.address().map(drop)) {
            return Some(error.to_string());
        }
        if !joined.has_root() {
            return Some(format!(
                "{name}: sudo takes a password there, or refuses you, and Slurm's daemons are root's; have it \
                 allowed, as for `wiglaf join`"
            ));
        }
        if let Some(other) = joined.others() {
            return Some(format!(
                "{name} takes batch jobs of another cluster ({other}); have `wiglaf batch remove` run there first"
            ));
        }
        if joined.uid() != here.joined.uid() {
            return Some(format!(
                "{name}: you are {} there and {} on {}, and Slurm runs jobs as the number; give the user one \
                 number on all hosts (`sudo usermod -u`)",
                joined.uid(),
                here.joined.uid(),
                here.name()
            ));
        }
        let ahead = joined.clock_ahead_s();
        if ahead.unsigned_abs() > CLOCK_S {
            return Some(format!(
                "{name}: its clock is {} s {} this host's, and munge refuses what is not of now; run `ssh {login} \
                 sudo timedatectl set-ntp true`, and try again",
                ahead.unsigned_abs(),
                if ahead > 0 { "ahead of" } else { "behind" }
            ));
        }
        let ours =
            [(KEY, &facts.key), (SLURM_CONF, &facts.conf), (accounting::CONF, &facts.database)];
        for (path, sum) in ours {
            if !host.has_others(path, sum.as_deref()) {
                continue;
            }
            // Where Slurm has run with it, it is somebody's.
            if path == KEY && facts.is_key_fresh && facts.conf.is_none() && !joined.is_changed() {
                continue;
            }
            let what = match joined.written(Path::new(path)) {
                Some(_) => "that somebody has changed since it was set up",
                None => "of somebody else's",
            };
            return Some(format!(
                "{name} has a {path} {what}; if nothing uses it any more, run `ssh {login} sudo mv {path} \
                 {path}.before`, and try again"
            ));
        }
        if self.sleeps(host) && facts.card.is_none() {
            return Some(format!(
                "{name}: it does not say which card it has in the data network, and without that nothing wakes it; \
                 leave it out of sleep in [batch]"
            ));
        }
        if !facts.is_debian {
            return Some(format!(
                "{name} runs {}, and Slurm is taken from Debian's packages; leave it out of the cluster file",
                joined::release(joined)
            ));
        }
        if !self.lines(host).is_empty() && !facts.has_pam {
            return Some(format!(
                "{name}: `login` in [batch] has PAM say who logs in, and the SSH server there does not ask it; write \
                 `UsePAM yes` into its sshd_config, or take login out of [batch]"
            ));
        }
        let wants_groups = [
            (self.batch.login == Login::Adopt, "login = \"adopt\"", "write login = \"job\""),
            (self.batch.x11, "x11 = true", "take it out of [batch]"),
        ];
        if let Some((_, what, fix)) = wants_groups.iter().find(|(is_wanted, ..)| *is_wanted)
            && tracking(&self.all()) == Tracking::Parents
        {
            return Some(format!(
                "{name}: {what} takes control groups, and the hosts have none, or not all of one version; {fix}"
            ));
        }
        let wanted = self.packages(host);
        if let Some(package) = wanted.iter().find(|name| facts.release_of(name).is_none()) {
            return Some(format!(
                "{name} knows no package {package} to install; run `ssh {login} sudo apt-get update`, and try again"
            ));
        }
        let head = self.head();
        let (Some(own), Some(heads)) =
            (facts.release_of("slurmd"), head.facts.release_of("slurmctld"))
        else {
            return None;
        };
        (own != heads && !TALKING.contains(&(heads, own))).then(|| {
            format!(
                "{name} has Slurm {own} and the head {} has {heads}, which do not talk to each other; bring both \
                 to one release of Debian, or leave {name} out of the cluster file",
                head.name()
            )
        })
    }

    fn packages(&self, host: &Host) -> Vec<&'static str> {
        packages(host.name() == self.head_name(), &self.batch)
    }

    fn missing(&self, host: &Host) -> Vec<String> {
        let is_there = |name: &str| host.facts.packages.get(name).is_some_and(|p| p.is_installed);
        self.packages(host).into_iter().filter(|name| !is_there(name)).map(str::to_owned).collect()
    }

    fn all(&self) -> Vec<&Host> {
        self.hosts.iter().collect()
    }

    fn memory_mib(&self, host: &Host) -> u64 {
        host.facts.memory_mib - host.facts.memory_mib / MEMORY_KEPT
    }

    /// What slurm.conf says, with these hosts. Processors are right where slurmd is installed already.
    fn conf(&self, hosts: &[&Host]) -> Result<Conf> {
        let nodes = hosts.iter().map(|host| {
            let [cpus, sockets, cores, threads] = host.facts.processors;
            Ok(NodeFacts {
                name: host.name().to_owned(),
                address: host.joined.address()?,
                cpus,
                sockets,
                cores,
                threads,
                memory_mib: self.memory_mib(host),
            })
        });
        let mut batch = self.batch.clone();
        batch.head = Some(self.head_name().to_owned());
        let names: HostList = hosts.iter().map(|host| host.name()).collect();
        // Those that failed are nobody's.
        let left = |wanted: &str| -> Result<String> {
            let wanted = HostList::parse(wanted)?;
            let left = wanted.names().iter().filter(|name| names.names().contains(name));
            Ok(left.cloned().collect::<HostList>().to_string())
        };
        if let Some(short) = &mut batch.short {
            short.nodes = left(&short.nodes)?;
        }
        if let Some(sleep) = &mut batch.sleep {
            sleep.nodes = left(&sleep.nodes)?;
        }
        Ok(Conf {
            cluster: self.name.clone(),
            batch,
            nodes: nodes.collect::<Result<_>>()?,
            tracking: tracking(hosts),
            places: Places {
                user: "slurm".to_owned(),
                controller: CONTROLLER.into(),
                spool: SPOOL.into(),
                controller_log: CONTROLLER_LOG.into(),
                node_log: NODE_LOG.into(),
                task_prolog: Some(TASK_PROLOG.into()),
                prolog: Some(PROLOG.into()),
                epilog: Some(EPILOG.into()),
                look: Some(LOOK.into()),
                sleep: Some([sleep::SUSPEND.into(), sleep::RESUME.into()]),
            },
            silence_seconds: SILENCE_SECONDS,
            has_accounting: self.batch.has_accounting(),
            first_job: self.head().facts.next_job,
            head_name: Some(short(self.head().joined.machine()).to_owned()),
        })
    }

    /// Whether the head's file is other than it is to be.
    fn is_conf_new(&self, conf: &str) -> bool {
        self.head().facts.conf.as_deref() != Some(&digest(conf.as_bytes()))
    }

    /// What would be changed, host by host.
    ///
    /// # Errors
    /// When the hosts make no cluster.
    pub fn plan(&self) -> Result<Vec<HostPlan>> {
        let conf = self.conf(&self.all())?.slurm_conf()?;
        let is_conf_new = self.is_conf_new(&conf);
        let key = self.key.as_ref().map(|key| digest(key));
        let plans = self.hosts.iter().map(|host| {
            let mut changes = Vec::new();
            let missing = self.missing(host);
            if !missing.is_empty() {
                let release = host.facts.release_of("slurmd").unwrap_or_default();
                changes.push(format!("install {} by apt (Slurm {release})", missing.join(", ")));
            }
            let is_key_new = key.is_none() || host.facts.key != key;
            if is_key_new {
                changes.push(format!("write {KEY}, the secret of this cluster's daemons"));
            }
            let is_head = host.name() == self.head_name();
            if is_head && is_conf_new {
                changes
                    .push(format!("write {SLURM_CONF} and {CGROUP_CONF}, which all hosts fetch"));
            }
            let is_counting = is_head && self.batch.has_accounting();
            if is_counting && !host.has_accounting() {
                changes.push(format!(
                    "write {}, and make a database of its own in {}",
                    accounting::CONF,
                    accounting::FOLDER
                ));
            }
            if is_counting && host.has_accounting() && !host.facts.lacking.is_empty() {
                changes.push(format!("give {} a share each", host.facts.lacking.join(", ")));
            }
            if host.joined.written(Path::new(SETTINGS)).is_none() {
                changes.push(format!(
                    "write {PROLOG}, {EPILOG}, {LOOK}, {TASK_PROLOG}, {SETTINGS}, {} and {}",
                    login::ALWAYS,
                    login::SCRIPT
                ));
                if host.facts.has_systemd {
                    changes.push(format!("write {DROP_IN}"));
                }
            }
            let always = self.always(host);
            let is_new = host.joined.written(Path::new(login::ALWAYS))
                != Some(digest(always.as_bytes()).as_str());
            let (lines, old) = (self.lines(host), host.joined.lines(Path::new(login::PAM)));
            if !lines.is_empty() && (is_new || lines != old) {
                changes.push(format!(
                    "let in by ssh users with a job there, {}, and who may use sudo ({})",
                    always.lines().collect::<Vec<_>>().join(", "),
                    login::PAM
                ));
            } else if lines.is_empty() && !old.is_empty() {
                changes.push(format!("let everybody in by ssh again ({})", login::PAM));
            }
            changes.extend(self.privacy_change(host).filter(|_| is_head));
            changes.extend(self.modules_change(host));
            changes.extend(self.owner_change(host));
            changes.extend(self.waking_change().filter(|_| is_head));
            let runs = |daemon: Daemon| host.facts.running.iter().any(|name| name == daemon.name());
            let mut daemons = daemons(is_head, self.batch.has_accounting());
            daemons.extend(self.watch(host).map(|_| Daemon::Owner));
            let idle: Vec<&str> = daemons
                .iter()
                .filter(|daemon| !runs(**daemon))
                .map(|daemon| daemon.name())
                .collect();
            let anew: Vec<&str> = daemons
                .iter()
                .filter(|daemon| runs(**daemon))
                .filter(|daemon| hears(**daemon, is_key_new, is_conf_new))
                .map(|daemon| daemon.name())
                .collect();
            let how = if host.facts.has_systemd { ", now and with the machine" } else { "" };
            if !idle.is_empty() {
                changes.push(format!("start {}{how}", idle.join(", ")));
            }
            if !anew.is_empty() {
                changes.push(format!("start {} anew; jobs go on", anew.join(", ")));
            }
            HostPlan { name: host.name().to_owned(), changes }
        });
        Ok(plans.filter(|plan| !plan.changes.is_empty()).collect())
    }

    /// What is to be known of hosts besides.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let bare = self.hosts.iter().filter(|host| !host.facts.has_systemd);
        let bare: HostList = bare.map(Host::name).collect();
        let mut notes = Vec::new();
        if !bare.names().is_empty() {
            notes.push(format!(
                "{bare}: no systemd runs there, so the daemons do not start with the machine; after a start of \
                 it, run `wiglaf batch setup`"
            ));
        }
        if tracking(&self.all()) == Tracking::Parents {
            notes.push(
                "not all hosts have control groups, so Slurm limits no job's memory and finds processes by their \
                 parents"
                    .to_owned(),
            );
        }
        notes
    }

    /// Does it. A host on which it fails is as it was, and the others take jobs.
    ///
    /// # Errors
    /// When the head fails: then all hosts are as they were.
    pub fn carry_out(&self, say: &dyn Fn(&str)) -> Result<Vec<Outcome>> {
        let key = match &self.key {
            Some(key) => key.clone(),
            None => new_key()?,
        };
        let mut outcomes = Vec::new();
        let mut left: Vec<&Host> = Vec::new();
        say("packages, the key and munged");
        for (host, done) in self.on_all(&self.all(), &|host| self.prepare(host, &key)) {
            self.sort(host, done, &mut left, &mut outcomes)?;
        }
        loop {
            // Who slurmd is, it says best.
            let asked = self.on_all(&left, &|host| Facts::processors(&host.joined));
            let mut known = Vec::new();
            let mut processors = Vec::new();
            for (host, found) in asked {
                match found {
                    Ok(found) => {
                        processors.push((host.name().to_owned(), found));
                        known.push(host);
                    }
                    Err(error) => self.sort(host, Err(error), &mut known, &mut outcomes)?,
                }
            }
            left = known;
            let mut conf = self.conf(&left)?;
            for node in &mut conf.nodes {
                let found = processors.iter().find(|(name, _)| *name == node.name);
                if let Some((_, [cpus, sockets, cores, threads])) = found {
                    (node.cpus, node.sockets, node.cores, node.threads) =
                        (*cpus, *sockets, *cores, *threads);
                }
            }
            let text = conf.slurm_conf()?;
            let is_new = self.is_conf_new(&text);
            say("slurmctld");
            if let Err(error) = self.start_head(&conf, &text, is_new, &key) {
                self.sort(self.head(), Err(error), &mut Vec::new(), &mut outcomes)?;
            }
            say("slurmd");
            let started = self.on_all(&left, &|host| self.start_node(host, is_new, &key));
            let mut well = Vec::new();
            for (host, done) in started {
                self.sort(host, done, &mut well, &mut outcomes)?;
            }
            for (host, why) in self.silent(&well)? {
                well.retain(|other| other.name() != host.name());
                self.sort(host, Err(Error::new(why)), &mut Vec::new(), &mut outcomes)?;
            }
            let is_whole = well.len() == left.len();
            left = well;
            if is_whole {
                break;
            }
        }
        let ready =
            |host: &&Host| Outcome { name: host.name().to_owned(), error: None, kept: Vec::new() };
        outcomes.extend(left.iter().map(ready));
        Ok(outcomes)
    }

    fn on_all<'a, T: Send>(
        &self,
        hosts: &[&'a Host],
        work: &(dyn Fn(&Host) -> Result<T> + Sync),
    ) -> Vec<(&'a Host, Result<T>)> {
        hosts.iter().copied().zip(at_once::each(hosts, |host| work(host))).collect()
    }

    /// Keeps a host on which it went well. Another one is as it was, and with the head all are.
    fn sort<'a>(
        &self,
        host: &'a Host,
        done: Result<()>,
        well: &mut Vec<&'a Host>,
        outcomes: &mut Vec<Outcome>,
    ) -> Result<()> {
        let Err(error) = done else {
            well.push(host);
            return Ok(());
        };
        // What took jobs before is left to who can repair it.
        let undo = |host: &Host| match host.joined.is_changed() {
            true => Vec::new(),
            false => host.joined.undo().unwrap_or_else(|error| vec![error.to_string()]),
        };
        if host.name() == self.head_name() {
            let kept: Vec<String> = self.hosts.iter().rev().flat_map(undo).collect();
            let kept = kept.iter().map(|why| format!("; {why}")).collect::<String>();
            return Err(Error::new(format!(
                "{error}; without the head there are no batch jobs, and what was not set up before is as it was{kept}"
            )));
        }
        let kept = undo(host);
        outcomes.push(Outcome {
            name: host.name().to_owned(),
            error: Some(error.to_string()),
            kept,
        });
        Ok(())
    }

    fn place(&self, host: &Host) -> Result<Place> {
        Ok(Place {
            conf: SLURM_CONF.into(),
            key: KEY.into(),
            log: MUNGE_LOG.into(),
            spool: SPOOL.into(),
            node: host.name().to_owned(),
            head: format!("{}:{CONTROLLER_PORT}", self.head().joined.address()?),
            user: "munge".to_owned(),
            accounting: accounting::FOLDER.into(),
            by: "slurm".to_owned(),
            cluster: self.name.clone(),
            program: host.joined.program()?.to_owned(),
        })
    }

    /// What is to be watched on a host for its owner, where the file says anything.
    fn watch(&self, host: &Host) -> Option<Watch> {
        let owner = self.owners.get(host.name()).filter(|owner| owner.is_watched()).cloned();
        let address = self.head().joined.address().ok();
        let head =
            address.filter(|_| self.sleeps(host)).map(|head| format!("{head}:{CONTROLLER_PORT}"));
        let node = host.name().to_owned();
        let revives = self.revival(host);
        let is_any = owner.is_some() || head.is_some() || revives.is_some();
        is_any.then_some(Watch { node, owner, sleeps_under: head, revives })
    }

    /// Whether a host goes to sleep while no job wants it.
    fn sleeps(&self, host: &Host) -> bool {
        self.batch
            .sleeping()
            .is_ok_and(|asleep| asleep.names().iter().any(|name| name == host.name()))
    }

    /// How hosts are woken: the text of the head's file, where any sleeps.
    fn waking(&self) -> Result<Option<Vec<u8>>> {
        let asleep = self.hosts.iter().filter(|host| self.sleeps(host));
        let cards = asleep.filter_map(|host| Some((host.name().to_owned(), host.facts.card?)));
        let waking = Waking { network: self.network, cards: cards.collect() };
        let text =
            serde_json::to_vec_pretty(&waking).cannot(|| "write how hosts are woken".to_owned())?;
        Ok(self.batch.sleep.is_some().then_some(text))
    }

    /// What would be changed on the head for that.
    fn waking_change(&self) -> Option<String> {
        let new = self.waking().ok()??;
        let sleep = self.batch.sleep.as_ref()?;
        let old = self.head().joined.written(Path::new(sleep::FILE));
        (old != Some(digest(&new).as_str())).then(|| {
            format!(
                "have {} sleep when no job has run there for {} min, and wake them for jobs ({}, {}, {})",
                sleep.nodes,
                sleep.after.count(),
                sleep::FILE,
                sleep::SUSPEND,
                sleep::RESUME
            )
        })
    }

    /// What would be changed for who sees whose jobs; nothing before there are any.
    fn privacy_change(&self, head: &Host) -> Option<String> {
        let said = match self.batch.private {
            true => "show users their own jobs alone",
            false => "show everybody all jobs",
        };
        let was_private = head.facts.is_private?;
        (was_private != self.batch.private).then(|| format!("{said} ({SLURM_CONF})"))
    }

    /// What would be changed for a host's owner.
    fn owner_change(&self, host: &Host) -> Option<String> {
        let (watch, old) = (self.watch(host), host.joined.written(Path::new(owner::FILE)));
        let new = owner::file(watch.as_ref()).ok()?;
        match &watch {
            _ if old == Some(digest(&new).as_str()) => None,
            Some(watch) => {
                let owners = watch.owner.as_ref().map(owner::told);
                let sleeps = watch
                    .sleeps_under
                    .as_ref()
                    .map(|_| "go to sleep when Slurm says so and nobody is logged in".to_owned());
                let revives = watch.revives.as_ref().map(revive::told);
                let all: Vec<String> = owners.into_iter().chain(sleeps).chain(revives).collect();
                Some(format!("{} ({})", all.join("; "), owner::FILE))
            }
            None => old.map(|_| {
                format!("let jobs begin whether or not the owner is there ({})", owner::FILE)
            }),
        }
    }

    /// What `module load` takes on a host: nothing where nobody reads module files.
    fn modules(&self, host: &Host) -> Result<Vec<NewFile>> {
        let program = host.joined.program()?;
        let file = |path: PathBuf, text: &str| NewFile {
            path,
            mode: 0o644,
            bytes: text.as_bytes().to_vec(),
        };
        let mut files: Vec<NewFile> = Vec::new();
        for system in &host.facts.modules {
            let all = system.files(Path::new(MODULE), program);
            let folder = Path::new(system.folder());
            files.extend(all.iter().map(|(name, text)| file(folder.join(name), text)));
        }
        if !files.is_empty() {
            files.push(file(MODULE.into(), &modules::script(program)));
        }
        Ok(files)
    }

    /// What would be changed for that.
    fn modules_change(&self, host: &Host) -> Option<String> {
        let files = self.modules(host).ok()?;
        let is_new =
            |file: &NewFile| host.joined.written(&file.path) != Some(digest(&file.bytes).as_str());
        let folders = host.facts.modules.iter().map(|system| system.folder());
        files.iter().any(is_new).then(|| {
            let folders = folders.collect::<Vec<_>>().join(" and ");
            format!("write modules for MPIs: wiglaf/, wiglaf-multicast/ and tcp/ below {folders}")
        })
    }

    fn service(
        &self,
        host: &Host,
        daemon: Daemon,
        prepare: &str,
        is_to_hear: bool,
    ) -> Result<Service> {
        let place = self.place(host)?;
        let (start, stop) = (place.start(daemon, prepare, is_to_hear), place.stop(daemon));
        Ok(Service { name: daemon.name().to_owned(), start, stop })
    }

    fn prepare(&self, host: &Host, key: &[u8]) -> Result<()> {
        let program = host.joined.program()?;
        let is_new = host.facts.key.as_deref() != Some(&digest(key));
        let own = format!("chown munge: {KEY} || exit 1");
        let file = |path: &str, mode: u32, bytes: &[u8]| NewFile {
            path: PathBuf::from(path),
            mode,
            bytes: bytes.to_vec(),
        };
        let settings = Settings {
            node: host.name().to_owned(),
            memory_mib: self.memory_mib(host).saturating_sub(self.reserve()),
            has_helper: host.facts.has_helper,
            heat: self.batch.heat != Some(false),
        };
        let settings =
            serde_json::to_vec_pretty(&settings).cannot(|| "write a host's settings".to_owned())?;
        let script = |path: &str, which: Script| {
            file(path, 0o755, node::script(which, program, None).as_bytes())
        };
        let mut files = vec![
            file(KEY, 0o400, key),
            script(PROLOG, Script::Root(When::Prolog)),
            script(EPILOG, Script::Root(When::Epilog)),
            script(LOOK, Script::Root(When::Look)),
            script(TASK_PROLOG, Script::Task),
            file(SETTINGS, 0o644, &settings),
            file(login::ALWAYS, 0o644, self.always(host).as_bytes()),
            file(login::SCRIPT, 0o755, login::script(host.name(), program).as_bytes()),
        ];
        if host.facts.has_systemd {
            let head = self.place(host)?.head;
            let text = format!(
                "# Written by `wiglaf batch setup`: slurm.conf comes from the head, and the first look asks the \
                 helper.\n[Unit]\nConditionPathExists=\nAfter=wiglaf-helper.socket wiglaf-helper.service\n\
                 [Service]\nExecStart=\nExecStart=/usr/sbin/slurmd -D -s --conf-server {head} -N {}{}\n",
                host.name(),
                // What says that it was started anew, when it was asleep.
                if self.sleeps(host) { " $WIGLAF_SLURMD" } else { "" }
            );
            files.push(file(DROP_IN, 0o644, text.as_bytes()));
        }
        files.extend(self.modules(host)?);
        let watch = self.watch(host);
        // Where the file says nothing any more, this ends who watches.
        if watch.is_some() || host.joined.written(Path::new(owner::FILE)).is_some() {
            files.push(file(owner::FILE, 0o644, &owner::file(watch.as_ref())?));
        }
        if watch.is_some() && host.facts.has_systemd {
            files.push(file(owner::UNIT, 0o644, owner::unit(program).as_bytes()));
        }
        host.joined.apply(&Change {
            packages: self.packages(host).into_iter().map(str::to_owned).collect(),
            files,
            // Last, so that nobody is asked before there is an answer; and first to go.
            lines: vec![Lines { path: login::PAM.into(), text: self.lines(host) }],
            services: vec![self.service(host, Daemon::Munged, &own, is_new)?],
            caches: [CONTROLLER, SPOOL, NOTED].map(PathBuf::from).to_vec(),
        })
    }

    /// PAM's lines on a host: none where everybody logs in, as on the head, where jobs are submitted.
    fn lines(&self, host: &Host) -> String {
        match self.batch.login {
            Login::Job | Login::Adopt if host.name() != self.head_name() => {
                login::pam(host.name(), self.batch.login == Login::Adopt)
            }
            _ => String::new(),
        }
    }

    /// Those who log in on a host always: its owner, administrators, and whoever sets up.
    fn always(&self, host: &Host) -> String {
        let owner = self.owners.get(host.name()).map(|owner| owner.user.as_str());
        let admins = self.batch.admins.iter().map(String::as_str);
        login::always(admins.chain(owner).chain([host.joined.user()]))
    }

    fn reserve(&self) -> u64 {
        self.batch.memory_reserve.map_or(0, Memory::mib)
    }

    fn start_head(&self, conf: &Conf, text: &str, is_new: bool, key: &[u8]) -> Result<()> {
        let head = self.head();
        let is_to_hear = is_new || head.facts.key.as_deref() != Some(&digest(key));
        let folder = format!(
            "install -d -o slurm -g slurm -m 755 /var/log/slurm\ninstall -d -o slurm -g slurm -m 700 {CONTROLLER}"
        );
        let file = |path: &str, mode: u32, text: &str| NewFile {
            path: PathBuf::from(path),
            mode,
            bytes: text.as_bytes().to_vec(),
        };
        let mut files =
            vec![file(SLURM_CONF, 0o644, text), file(CGROUP_CONF, 0o644, &conf.cgroup_conf())];
        if let Some(waking) = self.waking()? {
            let resume = sleep::resume(head.joined.program()?);
            files.push(file(sleep::SUSPEND, 0o755, &sleep::suspend()));
            files.push(file(sleep::RESUME, 0o755, &resume));
            files.push(file(sleep::FILE, 0o644, &String::from_utf8_lossy(&waking)));
        }
        let mut services = Vec::new();
        if self.batch.has_accounting() {
            let address = head.joined.address()?.to_string();
            let name = short(head.joined.machine());
            let log = Path::new(accounting::LOG);
            let database = accounting::conf(name, &address, "slurm", log, self.batch.private);
            // One that runs already with other lines.
            let is_other = head
                .joined
                .written(Path::new(accounting::CONF))
                .is_some_and(|old| old != digest(database.as_bytes()));
            files.push(file(accounting::CONF, 0o600, &database));
            if head.facts.has_systemd {
                files.push(file(accounting::UNIT, 0o644, &accounting::unit()));
                files.push(file(accounting::DROP_IN, 0o644, &accounting::drop_in()));
            }
            let own = format!("{folder}\nchown slurm: {} || exit 1", accounting::CONF);
            services.push(self.service(head, Daemon::Mariadbd, &own, false)?);
            services.push(self.service(head, Daemon::Slurmdbd, "", is_other)?);
        }
        services.push(self.service(head, Daemon::Slurmctld, &folder, is_to_hear)?);
        head.joined.apply(&Change { files, services, ..Change::default() })
    }

    fn start_node(&self, host: &Host, is_new: bool, key: &[u8]) -> Result<()> {
        let is_to_hear = is_new || host.facts.key.as_deref() != Some(&digest(key));
        let folder = format!("mkdir -p {SPOOL}");
        let mut services = vec![self.service(host, Daemon::Slurmd, &folder, is_to_hear)?];
        if self.watch(host).is_some() {
            services.push(self.service(host, Daemon::Owner, "", false)?);
        }
        host.joined.apply(&Change { services, ..Change::default() })
    }

    /// Those of these hosts that slurmctld has not heard of, and why.
    fn silent<'a>(&self, hosts: &[&'a Host]) -> Result<Vec<(&'a Host, String)>> {
        let asked = Instant::now();
        loop {
            let states = self.node_states()?;
            let is_silent = |host: &&Host| {
                let state = states.iter().find(|state| state.name == host.name());
                state.is_none_or(|s| !s.answers || ["unknown", "down"].contains(&s.state.as_str()))
            };
            let silent: Vec<&Host> = hosts.iter().copied().filter(|host| is_silent(host)).collect();
            if silent.is_empty() || asked.elapsed() > PATIENCE {
                let told = silent.into_iter().map(|host| {
                    let state = states.iter().find(|state| state.name == host.name());
                    let says = state.and_then(|state| state.says.clone());
                    let says = says.unwrap_or_else(|| format!("{} is not heard of", host.name()));
                    let why = format!("{says}; its log there was {NODE_LOG}");
                    // What is taken back has no log.
                    (host, format!("{why}: {}", self.last_words(host)))
                });
                return Ok(told.collect());
            }
            std::thread::sleep(POLL_PAUSE);
        }
    }

    fn last_words(&self, host: &Host) -> String {
        let script = format!("grep -i -e error -e fatal {NODE_LOG} | tail -n 1");
        let said = host.joined.run(&script, true, b"").unwrap_or_default();
        match said.trim() {
            "" => "it says nothing".to_owned(),
            said => said.to_owned(),
        }
    }

    /// What a program of Slurm's prints on the head, as the user.
    fn ask(&self, script: &str) -> Result<String> {
        let head = self.head();
        head.joined.run(&format!("LC_ALL=C {script}"), false, b"").map_err(|error| {
            Error::new(format!(
                "slurmctld does not answer: {error}; run `wiglaf batch setup`, which starts it anew; its log is \
                 {CONTROLLER_LOG} on {}",
                head.name()
            ))
        })
    }

    /// How users call what repairs.
    #[must_use]
    pub fn commands(&self) -> Commands {
        let head = &self.head().joined;
        let scontrol = match head.is_here() {
            true => "sudo scontrol".to_owned(),
            false => format!("ssh {} sudo scontrol", head.login()),
        };
        Commands { scontrol, renew: "wiglaf batch setup".to_owned() }
    }

    /// The nodes as Slurm sees them, and what hosts say besides that Slurm does not see.
    ///
    /// # Errors
    /// When slurmctld does not answer.
    pub fn node_states(&self) -> Result<Vec<NodeState>> {
        let printed = self.ask(&format!("sinfo -a -h -N -o '{}'", look::NODES_FORMAT))?;
        let mut nodes = look::nodes(&printed, &self.commands());
        for host in &self.hosts {
            let Some(node) = nodes.iter_mut().find(|node| node.name == host.name()) else {
                continue;
            };
            if let Some((says, fix)) = self.differs(host) {
                (node.says, node.fix) = (Some(says), Some(fix));
            }
        }
        Ok(nodes)
    }

    /// What on a host is not as it was set up: Slurm says so of none of these in words that tell.
    fn differs(&self, host: &Host) -> Option<(String, String)> {
        let (name, login) = (host.name(), host.joined.login());
        for (path, sum) in [(KEY, &host.facts.key), (SLURM_CONF, &host.facts.conf)] {
            if !host.joined.is_changed() || !host.has_others(path, sum.as_deref()) {
                continue;
            }
            return Some((
                format!("{name} has another {path} than was set up: somebody has changed it"),
                format!("ssh {login} sudo mv {path} {path}.before && wiglaf batch setup"),
            ));
        }
        let ahead = host.joined.clock_ahead_s();
        (ahead.unsigned_abs() > CLOCK_S).then(|| {
            let which = if ahead > 0 { "ahead of" } else { "behind" };
            (
                format!("{name}'s clock is {} s {which} this host's", ahead.unsigned_abs()),
                format!("ssh {login} sudo timedatectl set-ntp true"),
            )
        })
    }

    /// What is wrong with accounting, and what to type; nothing where it is well, or not wanted.
    #[must_use]
    pub fn accounting(&self) -> Option<(String, String)> {
        let head = self.head();
        let runs = |daemon: Daemon| head.facts.running.iter().any(|name| name == daemon.name());
        let ended =
            [Daemon::Mariadbd, Daemon::Slurmdbd].into_iter().find(|daemon| !runs(*daemon))?;
        head.has_accounting()
            .then(|| (look::not_noted(ended.name(), head.name()), self.commands().renew))
    }

    /// The jobs as Slurm sees them.
    ///
    /// # Errors
    /// When slurmctld does not answer.
    pub fn job_states(&self) -> Result<Vec<JobState>> {
        Ok(look::jobs(&self.ask(&format!("squeue -a -h -o '{}'", look::JOBS_FORMAT))?))
    }

    /// What `remove` would take back, a line for each host.
    ///
    /// # Errors
    /// When nothing was set up, or root's rights are missing.
    pub fn removal(&self, forgets: bool) -> Result<Vec<String>> {
        if let Some(error) = self.asleep().pop() {
            return Err(error);
        }
        let changed: Vec<&Host> = self.changed().collect();
        if changed.is_empty()
            && forgets
            && self.head().facts.has_kept
            && self.head().joined.has_root()
        {
            return Ok(vec![format!("{}: remove {}", self.head_name(), accounting::FOLDER)]);
        }
        if changed.is_empty() {
            return Err(Error::new(format!(
                "nothing of batch jobs was set up on the cluster {}; `wiglaf batch setup` does so",
                self.name
            )));
        }
        if let Some(host) = changed.iter().find(|host| !host.joined.has_root()) {
            return Err(Error::new(format!(
                "{}: sudo takes a password there, or refuses you; have it allowed, as for `wiglaf join`",
                host.name()
            )));
        }
        let line = |host: &Host| {
            let [files, packages, daemons] = host.joined.counts();
            format!(
                "{}: stop {daemons} daemons, take back {files} files and {packages} packages, forget the queue",
                host.name()
            )
        };
        let mut lines: Vec<String> = changed.into_iter().map(line).collect();
        if self.head().facts.has_kept {
            let (head, folder) = (self.head_name(), accounting::FOLDER);
            lines.push(match forgets {
                true => format!("{head}: remove {folder}, where all jobs are noted"),
                false => format!(
                    "{head}: keep {folder}, where all jobs are noted; --forget-accounting removes it"
                ),
            });
        }
        Ok(lines)
    }

    fn changed(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(|host| host.joined.is_changed())
    }

    /// Takes back everything, the head last. Jobs end. The database of accounting stays unless this `forgets` it.
    ///
    /// # Errors
    /// When the database cannot be removed; nothing was taken back then.
    pub fn remove(&self, forgets: bool, say: &dyn Fn(&str)) -> Result<Vec<Outcome>> {
        if forgets && self.head().joined.is_changed() {
            self.head().joined.run(&accounting::forget(), true, b"")?;
        } else if forgets {
            self.head().joined.run(&accounting::forget_kept(), true, b"")?;
        }
        let is_head = |host: &&Host| host.name() == self.head_name();
        let others: Vec<&Host> = self.changed().filter(|host| !is_head(host)).collect();
        let head: Vec<&Host> = self.changed().filter(is_head).collect();
        say("jobs and daemons");
        let mut all = self.on_all(&others, &|host| host.joined.undo());
        all.extend(self.on_all(&head, &|host| host.joined.undo()));
        let is_whole = all.iter().all(|(_, done)| done.is_ok());
        if forgets && is_whole {
            // The folder around it may be an earlier setup's, which no manifest knows any more.
            self.head().joined.run(&accounting::forget_kept(), true, b"")?;
        }
        all.sort_by_key(|(host, _)| self.hosts.iter().position(|own| own.name() == host.name()));
        let outcome = |(host, done): (&Host, Result<Vec<String>>)| {
            let (error, kept) = match done {
                Ok(kept) => (None, kept),
                Err(error) => (Some(error.to_string()), Vec::new()),
            };
            Outcome { name: host.name().to_owned(), error, kept }
        };
        Ok(all.into_iter().map(outcome).collect())
    }
}

fn with_bmc(hosts: &Hosts) -> Vec<String> {
    let has_bmc = |host: &&HostSpec| {
        host.power.as_ref().is_some_and(|power| matches!(power.kind, Kind::Ipmi | Kind::Redfish))
    };
    hosts.nodes.iter().filter(has_bmc).map(|host| host.name.clone()).collect()
}

/// Slurm finds itself by the first part of a name.
fn short(machine: &str) -> &str {
    machine.split('.').next().unwrap_or(machine)
}

/// Whether a daemon that runs is to be started anew.
fn hears(daemon: Daemon, is_key_new: bool, is_conf_new: bool) -> bool {
    match daemon {
        Daemon::Munged => is_key_new,
        // The owner's reads its file again by itself.
        Daemon::Mariadbd | Daemon::Slurmdbd | Daemon::Owner => false,
        Daemon::Slurmctld | Daemon::Slurmd => is_key_new || is_conf_new,
    }
}

fn daemons(is_head: bool, is_counted: bool) -> Vec<Daemon> {
    match (is_head, is_counted) {
        (true, true) => {
            let counting = [Daemon::Mariadbd, Daemon::Slurmdbd];
            [&[Daemon::Munged], &counting[..], &[Daemon::Slurmctld, Daemon::Slurmd]].concat()
        }
        (true, false) => vec![Daemon::Munged, Daemon::Slurmctld, Daemon::Slurmd],
        (false, _) => vec![Daemon::Munged, Daemon::Slurmd],
    }
}

fn packages(is_head: bool, batch: &Batch) -> Vec<&'static str> {
    let mut all = vec!["munge", "slurmd", "slurm-client"];
    if is_head {
        all.push("slurmctld");
    }
    if batch.qsub {
        all.push(pbs::PACKAGE);
    }
    if batch.x11 {
        // slurmd writes the job's right to the display with it.
        all.push("xauth");
    }
    if !is_head && batch.login == Login::Adopt {
        all.push(login::ADOPT_PACKAGE);
    }
    if is_head && batch.has_accounting() {
        all.extend(accounting::PACKAGES);
    }
    all
}

/// One cgroup.conf is for all hosts.
fn tracking(hosts: &[&Host]) -> Tracking {
    let mut versions = hosts.iter().map(|host| host.facts.cgroup);
    let first = versions.next().flatten();
    match first.filter(|first| versions.all(|other| other == Some(*first))) {
        Some(version) => Tracking::Cgroup(version),
        None => Tracking::Parents,
    }
}

fn new_key() -> Result<Vec<u8>> {
    use std::io::Read;
    let mut key = vec![0; KEY_LEN];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut key))
        .cannot(|| "read /dev/urandom".to_owned())?;
    Ok(key)
}
