//! `wiglaf join`: looks at hosts, says what it would change, and does it host by host.

use std::path::{Path, PathBuf};

use serde::Serialize;
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::{at_once, machine, random};
use wiglaf_cluster::hosts::Hosts;
use wiglaf_node::ssh::Target;

use crate::ask::ask;
use crate::edit::{File, NewNode};
use crate::facts::{Facts, Privilege};
use crate::host::{Action, Request, Step};
use crate::manifest::{Entry, Manifest, ROOTS, USERS};
use crate::names::{self, Named};
use crate::remote::Remote;
use crate::sync::{self, Cluster, Member, Probe};
use crate::tree::{Bytes, PACKAGED, Tree};

/// Where Wiglaf goes with root's rights, unless this host has it elsewhere.
const PREFIX: &str = "/usr/local";
/// Where it goes without, below the home.
const HOME_PREFIX: &str = ".local";
/// Folders in which the agent is found without being named.
const USUAL: [&str; 2] = ["/usr/local/bin/wiglaf", "/usr/bin/wiglaf"];
/// A clock that is so many seconds off is told.
const CLOCK_S: u64 = 5;
/// The helper's policy.
const POLICY: &str = "/etc/wiglaf/helper.toml";

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// Host lists, each perhaps with a user: `pc[2-4]`, `ann@pc5`.
    pub hosts: Vec<String>,
    /// Whether to install into the user's home, without root.
    pub copy: bool,
    /// The Debian package that this Wiglaf came as, to be installed in place of files.
    pub deb: Option<PathBuf>,
}

/// What joining would change on a host.
#[derive(Debug, Clone, Serialize)]
pub struct HostPlan {
    /// What the cluster calls it.
    pub name: String,
    /// Its address in the data network.
    pub address: String,
    /// Each change, as a line.
    pub changes: Vec<String>,
    /// What the user should know.
    pub notes: Vec<String>,
    #[serde(skip)]
    own: Own,
}

#[derive(Debug, Clone)]
struct Own {
    member: Member,
    node: NewNode,
    installs: bool,
    /// Whether what is installed takes root's rights.
    as_root: bool,
    admits: bool,
    units: bool,
    is_new: bool,
}

/// What joining would change on all hosts.
#[derive(Debug)]
pub struct Plan {
    /// The hosts where something is to be done.
    pub hosts: Vec<HostPlan>,
    /// What is to be known besides.
    pub notes: Vec<String>,
    /// A sentence for each host that was named and has joined already.
    pub already: Vec<String>,
    hosts_file: Hosts,
    file: File,
    cluster: Cluster,
    tree: Tree,
    prefix: PathBuf,
    /// Hosts that have joined earlier, this one among them.
    earlier: Vec<Member>,
    manifest: Option<Manifest>,
}

/// How it went on a host.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The host.
    pub name: String,
    /// Why it has not joined.
    pub error: Option<String>,
}

/// Looks at the hosts; changes nothing.
///
/// # Errors
/// All that stands in the way, a sentence for each host: then nothing is to be done on any.
pub fn plan(hosts: Hosts, text: &str, options: &Options) -> std::result::Result<Plan, Vec<Error>> {
    let one = |error: Error| vec![error];
    let named = names::parse(&options.hosts).map_err(one)?;
    let (base, probe) = Base::new(hosts, text, options).map_err(one)?;
    base.plan(&named, &probe, options.copy)
}

/// What is known before any host is looked at.
struct Base {
    hosts: Hosts,
    file: File,
    tree: Tree,
    prefix: PathBuf,
    manifest: Option<Manifest>,
    here: Member,
}

impl Base {
    fn new(hosts: Hosts, text: &str, options: &Options) -> Result<(Self, Probe)> {
        sync::check_writable(&hosts.file)?;
        let file = File::parse(text, &hosts.file)?;
        let here = hosts.nodes.iter().find(|spec| spec.target.is_here).ok_or_else(|| {
            Error::new(format!(
                "this host is not in {}, which has {}; join from one that is, or write a file for this one \
                 with `wiglaf init`",
                hosts.file.display(),
                hosts.names()
            ))
        })?;
        let here = Remote { name: here.name.clone(), target: here.target.clone() };
        let exe = std::env::current_exe().cannot(|| "find the running wiglaf".to_owned())?;
        let mut tree = Tree::find(&exe)?;
        match &options.deb {
            Some(deb) => tree.by_package(deb)?,
            None if tree.is_packaged() && !options.copy => tree.find_package(),
            None => {}
        }
        let probe = Probe::new()?;
        let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        let own = tree.prefix.clone();
        let prefix = match options.copy {
            true => {
                own.filter(|prefix| prefix.starts_with(&home)).unwrap_or(home.join(HOME_PREFIX))
            }
            false if tree.package.is_some() => PACKAGED.into(),
            false => {
                // What lies below /usr is the package manager's, on other hosts too.
                own.filter(|prefix| !prefix.starts_with(&home) && prefix != Path::new("/usr"))
                    .unwrap_or_else(|| PREFIX.into())
            }
        };
        let facts = Facts::look(&here, &prefix, &probe.name)?;
        let here = Member { remote: here, facts };
        let manifest = sync::own_manifest()?;
        Ok((Self { hosts, file, tree, prefix, manifest, here }, probe))
    }

    fn plan(
        self,
        named: &[Named],
        probe: &Probe,
        copy: bool,
    ) -> std::result::Result<Plan, Vec<Error>> {
        let wanted: Vec<Remote> = named.iter().map(|named| self.remote(named)).collect();
        let is_wanted = |name: &str| {
            wanted.iter().any(|remote| remote.name == name || remote.target.host == name)
        };
        let others: Vec<Remote> = self
            .hosts
            .nodes
            .iter()
            .filter(|spec| !spec.target.is_here && !is_wanted(&spec.name))
            .map(|spec| Remote { name: spec.name.clone(), target: spec.target.clone() })
            .collect();
        let looked = look_all(&wanted, &self.prefix, probe);
        let around = look_all(&others, &self.prefix, probe);
        let (mut notes, mut already) = (Vec::new(), Vec::new());
        let mut earlier = vec![self.here.clone()];
        for (remote, facts) in others.into_iter().zip(around) {
            match facts {
                Ok(facts) => earlier.push(Member { remote, facts }),
                Err(error) => notes
                    .push(format!("{error} (it hears of the new hosts when you join once more)")),
            }
        }
        let by = format!("{}@{}", self.here.facts.user, machine::name());
        let name = self.hosts.name.clone();
        // Where this host's manifest is lost, the others' tell which cluster they were joined to from here.
        let seen = earlier.iter().map(|member| &member.facts);
        let seen = seen.chain(looked.iter().flatten()).filter_map(|facts| facts.manifest.as_ref());
        let own = self.manifest.as_ref();
        let is_ours = |known: &&Manifest| known.by == by && known.name == name;
        // Batch jobs may have been set up on this host alone.
        let batch = || self.here.facts.batch_manifest.as_ref().filter(is_ours);
        let known = own.or_else(|| seen.clone().find(is_ours)).or_else(batch);
        let id = known.map(|known| known.cluster.clone());
        let id = id.map_or_else(random::key, Ok).map_err(|error| vec![error])?;
        let cluster = Cluster { id, name, by };
        let (mut plans, mut errors): (Vec<HostPlan>, Vec<Error>) = Default::default();
        // What this host has elsewhere than the others will, a job would not find.
        let is_elsewhere = self.tree.prefix.as_ref() != Some(&self.prefix);
        let is_named = wanted.iter().any(|remote| remote.target.is_here);
        let here = is_elsewhere || (!copy && !is_named && self.here.facts.may_get_helper());
        let here = here.then(|| Ok((self.here.remote.clone(), self.here.facts.clone())));
        let looked = wanted.into_iter().zip(looked).map(|(remote, facts)| Ok((remote, facts?)));
        for host in here.into_iter().chain(looked) {
            let planned = host.and_then(|(remote, facts)| {
                let member = Member { remote, facts };
                let planned = self.host(member, &cluster, copy)?;
                let is_same = |other: &&HostPlan| other.address == planned.address;
                match plans.iter().find(is_same).filter(|_| planned.own.is_new) {
                    Some(other) => Err(Error::new(format!(
                        "{} and {} are one host ({}); name it once",
                        other.name, planned.name, planned.address
                    ))),
                    None => Ok(planned),
                }
            });
            match planned {
                Err(error) => errors.push(error),
                Ok(plan) if plan.changes.is_empty() => {
                    notes.extend(plan.notes.clone());
                    already.push(format!(
                        "{0} has joined already, with this Wiglaf, and is left as it is; see `wiglaf \
                         status`, or take it out with `wiglaf leave {0}`",
                        plan.name
                    ));
                    earlier.retain(|member| member.remote.name != plan.name);
                    earlier.push(plan.own.member);
                }
                Ok(plan) => plans.push(plan),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        if self.tree.is_packaged() && self.tree.package.is_none() && !copy {
            notes.push(format!(
                "this Wiglaf came as a Debian package, which is not here any more: its files are copied below \
                 {}; name the package to have that installed, `wiglaf join --deb wiglaf_*.deb`",
                self.prefix.display()
            ));
        }
        let Self { hosts: hosts_file, file, tree, prefix, manifest, .. } = self;
        Ok(Plan {
            hosts: plans,
            notes,
            already,
            hosts_file,
            file,
            cluster,
            tree,
            prefix,
            earlier,
            manifest,
        })
    }

    /// How a host that was named is reached: as the file says, where it is there.
    fn remote(&self, named: &Named) -> Remote {
        let known = self.hosts.nodes.iter().find(|spec| {
            spec.name == named.host
                || spec.target.host == named.host
                || spec.address.is_some_and(|address| address.to_string() == named.host)
        });
        if let Some(spec) = known {
            let user = named.user.clone().or_else(|| spec.target.user.clone());
            return Remote {
                name: spec.name.clone(),
                target: Target { user, ..spec.target.clone() },
            };
        }
        let target = Target {
            host: named.host.clone(),
            user: named.user.clone(),
            exe: None,
            is_here: false,
            is_watched: false,
        };
        Remote { name: named.host.clone(), target }
    }

    /// What is to be done on a host, or why it cannot join.
    fn host(&self, mut member: Member, cluster: &Cluster, copy: bool) -> Result<HostPlan> {
        let facts = member.facts.clone();
        let typed = member.remote.name.clone();
        let fail = |why: String| Err(Error::new(format!("{typed}: {why}")));
        if let Err(error) = facts.may_run(&self.here.facts.arch, self.tree.glibc) {
            return fail(error.to_string());
        }
        let data = self.hosts.network.data;
        let Some(address) = facts.address_in(data) else {
            let has: Vec<String> = facts.addresses.iter().map(ToString::to_string).collect();
            return fail(format!(
                "it has no address in the data network {data}, only {}; is its cable in?",
                has.join(", ")
            ));
        };
        let is_here = member.remote.target.is_here;
        let known = self.hosts.nodes.iter().find(|spec| spec.name == typed);
        if known.is_none() && self.here.facts.address_in(data) == Some(address) {
            return fail(format!("it is this host ({address}), which is in the cluster already"));
        }
        let mut node =
            NewNode { name: typed.clone(), address: Some(address), ..NewNode::default() };
        if known.is_none() {
            if typed.parse::<std::net::Ipv4Addr>().is_ok() {
                let short = facts.machine.split('.').next().unwrap_or_default();
                node.name = short.to_owned();
            }
            let is_other = |spec: &&wiglaf_cluster::hosts::HostSpec| {
                spec.name == node.name || spec.address == Some(address)
            };
            if let Some(spec) = self.hosts.nodes.iter().find(is_other) {
                return fail(format!(
                    "the cluster has {} already ({}); leave it first: `wiglaf leave {}`",
                    spec.name,
                    self.hosts.file.display(),
                    spec.name
                ));
            }
            node.host =
                (node.name != member.remote.target.host).then(|| member.remote.target.host.clone());
        } else {
            node.host =
                (member.remote.target.host != node.name).then(|| member.remote.target.host.clone());
        }
        node.user = member.remote.target.user.clone();
        member.remote.name.clone_from(&node.name);
        let id = &cluster.id;
        if let Some(manifest) = &facts.manifest
            && manifest.cluster != *id
            && !facts.shares_home
        {
            return fail(format!(
                "it is in another cluster ({}, joined by {}); run `wiglaf leave {}` there first",
                manifest.name, manifest.by, facts.machine
            ));
        }
        if let (None, Some(_), false, false) =
            (&facts.manifest, &facts.cluster_file, facts.shares_home, is_here)
        {
            return fail(format!(
                "it has a cluster file of its own, ~/.config/wiglaf/cluster.toml; if it is to be in this \
                 cluster, run `ssh {} rm .config/wiglaf/cluster.toml` first",
                member.remote.target.login()
            ));
        }
        self.changes(member, node, copy)
    }

    fn changes(&self, member: Member, mut node: NewNode, copy: bool) -> Result<HostPlan> {
        let Facts { home, .. } = &member.facts;
        let facts = &member.facts;
        let (name, prefix) = (node.name.clone(), &self.prefix);
        let shown = prefix.display();
        let is_here = member.remote.target.is_here;
        let (mut changes, mut notes) = (Vec::new(), Vec::new());
        let has_it = self.tree.sums.iter().all(|sum| facts.sums.contains(sum));
        let shares = facts.shares_home && !is_here;
        let installs = !(has_it || copy && shares);
        let as_root = !copy;
        let own = std::env::current_exe().unwrap_or_default();
        if copy && *home != self.here.facts.home {
            return Err(Error::new(format!(
                "{name}: the home there is {}, and here {}: a job looks for Wiglaf at one path; have Wiglaf \
                 installed with sudo, without --copy",
                home.display(),
                self.here.facts.home.display()
            )));
        }
        if shares && facts.uid != self.here.facts.uid {
            return Err(Error::new(format!(
                "{name}: you are {} there and {} here, and the home is the same; give the user one number on \
                 both",
                facts.uid, self.here.facts.uid
            )));
        }
        if installs && as_root && facts.privilege == Privilege::None {
            return Err(Error::new(format!(
                "{name}: sudo takes a password there, or refuses you, and {shown} is root's; to install into \
                 your home instead, run `wiglaf join {} --copy`",
                member.remote.target.login()
            )));
        }
        if let (true, Some(_)) = (installs, &self.tree.package) {
            check_package(&name, facts)?;
        }
        let needed = self.tree.len / 1024 + 1024;
        if let (true, Some(free)) = (installs, facts.free_kib.filter(|free| *free < needed)) {
            return Err(Error::new(format!(
                "{name}: the disk of {shown} has {} MiB left, and Wiglaf takes {}; make room there",
                free / 1024,
                needed.div_ceil(1024)
            )));
        }
        let version = env!("CARGO_PKG_VERSION");
        if installs {
            let earlier = match &facts.version {
                Some(earlier) if earlier == version => {
                    " in place of another build of it".to_owned()
                }
                Some(earlier) => format!(" in place of {earlier}"),
                None => String::new(),
            };
            let how = match &self.tree.package {
                Some(deb) => format!("by apt from {}", deb.display()),
                None => format!("below {shown}"),
            };
            changes.push(format!("install Wiglaf {version} {how}{earlier}"));
        }
        let is_root = facts.privilege != Privilege::None;
        let units = as_root && is_root && facts.has_systemd && (installs || !facts.has_helper);
        let admits = units && !facts.is_admitted;
        if units && !facts.has_helper {
            changes.push("start wiglaf-helper, now and with the machine".to_owned());
        }
        if admits {
            changes.push(format!(
                "let {} send any frame on that host's networks, for the packet link ({POLICY})",
                facts.user
            ));
            changes.push(format!(
                "let {} have its card of {} and its processors tuned, by `wiglaf tune` ({POLICY})",
                facts.user, self.hosts.network.data
            ));
        }
        if as_root && installs && !facts.has_systemd {
            notes.push(format!(
                "{name}: no systemd runs there, so the helper is not started; jobs use udp"
            ));
        }
        let exe = prefix.join("bin/wiglaf");
        let is_found = match &facts.which {
            Some(found) => *found == exe,
            None => {
                USUAL.iter().any(|usual| exe == Path::new(usual))
                    || exe == home.join(".local/bin/wiglaf")
            }
        };
        let is_elsewhere = is_here && own != exe;
        node.wiglaf = (!is_found || is_elsewhere).then(|| exe.display().to_string());
        let known = self.hosts.nodes.iter().find(|spec| spec.name == name);
        let has_joined =
            (facts.manifest.is_some() && facts.cluster_file.is_some()) || shares || is_here;
        let is_new = known.is_none();
        if is_new {
            let address = node.address.map(|address| address.to_string()).unwrap_or_default();
            changes.push(format!("add it to {} as {name}, {address}", self.hosts.file.display()));
        }
        if !shares && (is_new || !has_joined) {
            changes.push("write ~/.config/wiglaf/cluster.toml, and the hosts' ssh keys to ~/.ssh/known_hosts".to_owned());
        }
        if installs && is_here {
            notes.push(format!(
                "{name}: from now on jobs load Wiglaf from {shown} here, too, as on the other hosts"
            ));
        }
        self.warn(&name, facts, is_here, &mut notes);
        let address = node.address.map(|address| address.to_string()).unwrap_or_default();
        let own = Own { member, node, installs, as_root, admits, units, is_new };
        Ok(HostPlan { name, address, changes, notes, own })
    }

    /// What does not keep the host from joining.
    fn warn(&self, name: &str, facts: &Facts, is_here: bool, notes: &mut Vec<String>) {
        let ahead = facts.clock_ahead_s;
        if ahead.unsigned_abs() > CLOCK_S {
            notes.push(format!(
                "{name}: its clock is {} s {}; run `sudo timedatectl set-ntp true` there",
                ahead.unsigned_abs(),
                if ahead > 0 { "ahead" } else { "behind" }
            ));
        }
        if facts.uid != self.here.facts.uid && !is_here {
            notes.push(format!(
                "{name}: you are {} there and {} here; files of a shared folder would be somebody else's",
                facts.uid, self.here.facts.uid
            ));
        }
        if let Some(firewall) = facts.firewalls.first().filter(|_| !is_here) {
            let data = self.hosts.network.data;
            notes.push(format!(
                "{name}: a firewall is on ({firewall}); let {data} in, or name a range as `ports` in the \
                 cluster file and open that"
            ));
        }
        if facts.host_keys.is_empty() {
            notes.push(format!(
                "{name}: no ssh host key can be read there; the others will not know it"
            ));
        }
    }
}

/// Whether Wiglaf's Debian package can be installed on a host.
fn check_package(name: &str, facts: &Facts) -> Result<()> {
    if !facts.has_apt {
        return Err(Error::new(format!(
            "{name}: it has no apt-get, which installs Debian packages; without root and apt Wiglaf goes into \
             your home on each host: `wiglaf join --copy`"
        )));
    }
    let entries = facts.root_manifest.iter().flat_map(|manifest| &manifest.entries);
    match entries.map(Entry::path).find(|path| path.ends_with("bin/wiglaf")) {
        Some(path) => Err(Error::new(format!(
            "{name}: an earlier join has put {} there, which would be found before the package; run `wiglaf \
             leave {name}`, then join it again",
            path.display()
        ))),
        None => Ok(()),
    }
}

/// Looks at all at once.
pub(crate) fn look_all(remotes: &[Remote], prefix: &Path, probe: &Probe) -> Vec<Result<Facts>> {
    at_once::each(remotes, |remote| Facts::look(remote, prefix, &probe.name))
}

impl Plan {
    /// Does it, host by host; tells `say` what is being done.
    ///
    /// # Errors
    /// When the cluster file cannot be written.
    pub fn carry_out(mut self, say: &dyn Fn(&str)) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        let mut joined: Vec<HostPlan> = Vec::new();
        for plan in std::mem::take(&mut self.hosts) {
            if plan.own.installs {
                let mib = self.tree.len >> 20;
                say(&format!("{}: Wiglaf is being installed ({mib} MiB)", plan.name));
            } else if plan.own.units {
                say(&format!("{}: wiglaf-helper is being started", plan.name));
            }
            let outcome = self.install(&plan).and_then(|()| {
                let mut file = self.file.clone();
                file.add(&plan.own.node)?;
                sync::write_file(&self.hosts_file.file, &file.text())?;
                self.file = file;
                Ok(())
            });
            match outcome {
                Ok(()) => joined.push(plan),
                // It has its own Wiglaf, and jobs use the udp link.
                Err(error) if plan.own.member.remote.target.is_here && !plan.own.installs => {
                    say(&format!("{error}; jobs use udp here"));
                }
                // Without this host's own no job would start.
                Err(error) if plan.own.member.remote.target.is_here => return Err(error),
                Err(error) => {
                    self.undo(&plan);
                    let error = Some(error.to_string());
                    outcomes.push(Outcome { name: plan.name, error });
                }
            }
        }
        self.sync(&mut joined, &mut outcomes, say)?;
        joined.retain(|plan| !plan.own.member.remote.target.is_here);
        outcomes.extend(joined.into_iter().map(|plan| Outcome { name: plan.name, error: None }));
        Ok(outcomes)
    }

    /// Lays down Wiglaf's own files.
    fn install(&self, plan: &HostPlan) -> Result<()> {
        let Own { member, installs, as_root, admits, units, .. } = &plan.own;
        if !installs && !units {
            return Ok(());
        }
        let (mut steps, contents) = match &self.tree.package {
            _ if !installs => (Vec::new(), Vec::new()),
            Some(deb) => (Vec::new(), vec![Bytes::Of(deb.clone())]),
            None => self.tree.steps(&self.prefix, *as_root)?,
        };
        if *admits {
            let user = &member.facts.user;
            steps.push(Step::Block {
                path: PathBuf::from(POLICY),
                text: format!(
                    "# Written by `wiglaf join`.\n[[admit]]\nusers = [{user:?}]\nlinks = [\"packet\"]\n\
                     tune = [\"{}\"]\n",
                    self.hosts_file.network.data
                ),
                is_at_end: true,
                mode: 0o644,
            });
        }
        let mut apply = self.cluster.apply(steps);
        apply.units = *units;
        apply.ldconfig = *installs && *as_root && self.tree.package.is_none();
        if *installs && self.tree.package.is_some() {
            let deb = contents.first().map(|deb| deb.len(Path::new(""))).transpose()?;
            apply.deb_len = deb;
        }
        let manifest = match as_root {
            true => PathBuf::from(ROOTS),
            false => member.facts.home.join(USERS),
        };
        let request = Request { manifest, action: Action::Apply(Box::new(apply)) };
        let needs_sudo = *as_root && member.facts.privilege == Privilege::Sudo;
        ask(&member.remote, needs_sudo, None, &request, &contents).map(drop)
    }

    /// Tells all hosts of each other. Who does not take it does not join, and the others hear of that.
    fn sync(
        &mut self,
        joined: &mut Vec<HostPlan>,
        outcomes: &mut Vec<Outcome>,
        say: &dyn Fn(&str),
    ) -> Result<()> {
        loop {
            let is_here = |plan: &HostPlan| plan.own.member.remote.target.is_here;
            if joined.iter().all(is_here) {
                return match joined.first() {
                    Some(here) if !outcomes.is_empty() => self.undo_here(here),
                    _ => Ok(()),
                };
            }
            let text = self.file.text();
            let hosts = Hosts::parse(&text, &self.hosts_file.file)?;
            let new = joined.iter().map(|plan| plan.own.member.clone());
            let mut members: Vec<Member> = self.earlier.clone();
            members.retain(|member| joined.iter().all(|plan| plan.name != member.remote.name));
            members.extend(new);
            let known = sync::known_hosts(&hosts, &members, self.manifest.as_ref());
            let mut failed = None;
            for member in &members {
                if member.facts.shares_home && !member.remote.target.is_here {
                    continue;
                }
                let at = joined.iter().position(|plan| plan.name == member.remote.name);
                let program = match at.is_some_and(|at| joined[at].own.installs) {
                    true => Some(self.prefix.join("bin/wiglaf")),
                    false => member.program(&self.tree, &self.prefix),
                };
                match (member.sync(&self.cluster, program.as_deref(), &text, &known), at) {
                    (Ok(()), _) => {}
                    (Err(error), Some(at)) if joined[at].own.is_new => {
                        failed = Some((at, error));
                        break;
                    }
                    (Err(error), _) => say(&format!("{error}; it does not hear of the new hosts")),
                }
            }
            let Some((at, error)) = failed else { return Ok(()) };
            let plan = joined.remove(at);
            self.undo(&plan);
            self.file.remove(&plan.name)?;
            sync::write_file(&self.hosts_file.file, &self.file.text())?;
            outcomes.push(Outcome { name: plan.name, error: Some(error.to_string()) });
        }
    }

    /// Takes back what this host has got for others, none of which has joined.
    fn undo_here(&mut self, here: &HostPlan) -> Result<()> {
        let Own { member, as_root, .. } = &here.own;
        let facts = &member.facts;
        let (manifest, was_there) = match as_root {
            true => (PathBuf::from(ROOTS), facts.root_manifest.is_some()),
            false => (facts.home.join(USERS), facts.manifest.is_some()),
        };
        if was_there {
            return Ok(());
        }
        let sudo = *as_root && facts.privilege == Privilege::Sudo;
        ask(&member.remote, sudo, None, &Request { manifest, action: Action::Undo }, &[])?;
        self.file.set(&here.name, "wiglaf", None)?;
        sync::write_file(&self.hosts_file.file, &self.file.text())
    }

    /// Takes back what a host that does not join has got already.
    fn undo(&self, plan: &HostPlan) {
        let Own { member, is_new, .. } = &plan.own;
        // A host that fails has undone that by itself. One that has joined earlier stays joined.
        if !is_new || member.remote.target.is_here {
            return;
        }
        let facts = &member.facts;
        if facts.manifest.is_none() && !facts.shares_home {
            let manifest = facts.home.join(USERS);
            let _ =
                ask(&member.remote, false, None, &Request { manifest, action: Action::Undo }, &[]);
        }
        if plan.own.as_root && plan.own.installs && facts.root_manifest.is_none() {
            let manifest = PathBuf::from(ROOTS);
            let sudo = facts.privilege == Privilege::Sudo;
            let _ =
                ask(&member.remote, sudo, None, &Request { manifest, action: Action::Undo }, &[]);
        }
    }
}
