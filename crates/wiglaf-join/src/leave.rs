//! `wiglaf leave`: takes back what joining has changed on hosts, and them out of the cluster.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::hostlist::HostList;
use wiglaf_base::machine;
use wiglaf_base::shell::quoted;
use wiglaf_cluster::hosts::{HostSpec, Hosts};

use crate::ask::ask;
use crate::edit::File;
use crate::facts::{Facts, Privilege};
use crate::host::{Action, Request};
use crate::join::{Outcome, look_all};
use crate::manifest::{BATCH, EXTRA, Entry, Manifest, ROOTS, USERS};
use crate::remote::Remote;
use crate::sync::{self, Cluster, Member, Probe};
use crate::tree::Tree;

/// Hosts that are to leave, and what is to be taken back there.
#[derive(Debug)]
pub struct Plan {
    /// What will be done, a line for each host.
    pub lines: Vec<String>,
    leaving: Vec<Member>,
    /// Hosts that are not asked.
    dead: Vec<String>,
    hosts: Hosts,
    file: File,
    tree: Tree,
    prefix: PathBuf,
    manifest: Option<Manifest>,
}

/// What runs on one host for all others: it cannot leave before that.
const CONTROLLER: &str = "slurmctld";
/// What `wiglaf host-tune` is asked, to set back what `wiglaf tune` has changed.
const UNTUNE: &[u8] = b"{\"what\":\"Undo\"}\n";

/// Sets back what the user has tuned on a host, or as root what anybody has. Says what stays tuned.
fn untune(member: &Member, program: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Answer {
        error: Option<String>,
        is_absent: bool,
    }
    let Member { remote, facts } = member;
    let as_root = facts.root_manifest.is_some() && facts.privilege == Privilege::Sudo;
    let sudo = if as_root { "sudo -n " } else { "" };
    let script = format!("{sudo}{} host-tune", quoted(&program.display().to_string()));
    // An older Wiglaf has no such command, and has tuned nothing.
    let said = remote.run(&script, |to| to.write_all(UNTUNE)).ok()?;
    let answer: Answer = serde_json::from_str(said.lines().last()?).ok()?;
    let why = answer.error.filter(|_| !answer.is_absent)?;
    Some(format!("{}: its cards may still be tuned: {why}", remote.name))
}

/// How it went on a host.
#[derive(Debug)]
pub struct Left {
    /// The host, and why it is still in the cluster, if it is.
    pub outcome: Outcome,
    /// What stays there, a sentence each.
    pub kept: Vec<String>,
}

/// Looks at the hosts; changes nothing. Those that are `dead` are not asked.
///
/// # Errors
/// All that stands in the way, a sentence for each host.
pub fn plan(
    hosts: Hosts,
    text: &str,
    names: &HostList,
    dead: bool,
) -> std::result::Result<Plan, Vec<Error>> {
    let one = |error: Error| vec![error];
    sync::check_writable(&hosts.file).map_err(one)?;
    let file = File::parse(text, &hosts.file).map_err(one)?;
    let exe =
        std::env::current_exe().cannot(|| "find the running wiglaf".to_owned()).map_err(one)?;
    let tree = Tree::find(&exe).map_err(one)?;
    let manifest = sync::own_manifest().map_err(one)?;
    let prefix = tree.prefix.clone().unwrap_or_else(|| PathBuf::from("/usr/local"));
    let chosen = hosts.select(names).map_err(one)?;
    if let Some(spec) = chosen.iter().find(|spec| spec.target.is_here) {
        return Err(vec![Error::new(format!(
            "{} is this host; leave from another one, or, when all others have left, remove {}",
            spec.name,
            hosts.file.display()
        ))]);
    }
    check_rest(&file, &hosts, &chosen).map_err(one)?;
    let remotes: Vec<Remote> = chosen
        .iter()
        .map(|spec| Remote { name: spec.name.clone(), target: spec.target.clone() })
        .collect();
    let mut plan = Plan {
        lines: Vec::new(),
        leaving: Vec::new(),
        dead: Vec::new(),
        hosts,
        file,
        tree,
        prefix,
        manifest,
    };
    if dead {
        for remote in remotes {
            plan.lines.push(format!(
                "{}: take it out of {}, and leave what is on it",
                remote.name,
                plan.hosts.file.display()
            ));
            plan.dead.push(remote.name);
        }
        return Ok(plan);
    }
    let probe = Probe::new().map_err(one)?;
    let mut errors = Vec::new();
    let looked = look_all(&remotes, &plan.prefix, &probe);
    for (remote, facts) in remotes.into_iter().zip(looked) {
        let name = remote.name.clone();
        let facts = facts.map_err(|error| {
            Error::new(format!("{error}; if it is gone for good, run `wiglaf leave --dead {name}`"))
        });
        match facts.and_then(|facts| plan.look_at(remote, facts)) {
            Ok(()) => {}
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(plan) } else { Err(errors) }
}

/// Fails where the file would say something of hosts that have left: of the batch jobs' head, say.
fn check_rest(file: &File, hosts: &Hosts, leaving: &[&HostSpec]) -> Result<()> {
    if leaving.len() == hosts.nodes.len() {
        return Ok(());
    }
    let mut rest = file.clone();
    leaving.iter().try_for_each(|spec| rest.remove(&spec.name))?;
    let names: HostList = leaving.iter().map(|spec| spec.name.clone()).collect();
    Hosts::parse(&rest.text(), &hosts.file).map(drop).map_err(|error| {
        Error::new(format!("{names} cannot leave before this is changed: {error}"))
    })
}

impl Plan {
    fn look_at(&mut self, remote: Remote, mut facts: Facts) -> Result<()> {
        let name = &remote.name;
        if facts.shares_home {
            // Its user's manifest is this host's.
            facts.manifest = None;
        }
        let own = self.manifest.as_ref().map(|manifest| &manifest.cluster);
        // What another user's cluster has installed there is that user's.
        facts.root_manifest = facts.root_manifest.filter(|manifest| Some(&manifest.cluster) == own);
        facts.batch_manifest =
            facts.batch_manifest.filter(|manifest| Some(&manifest.cluster) == own);
        if let Some(other) = facts.manifest.as_ref().filter(|known| Some(&known.cluster) != own) {
            return Err(Error::new(format!(
                "{name} is in another cluster ({}, joined by {}); to take it out of {} alone, run `wiglaf \
                 leave --dead {name}`",
                other.name,
                other.by,
                self.hosts.file.display()
            )));
        }
        let is_head = |manifest: &Manifest| {
            manifest.services.iter().any(|started| started.name == CONTROLLER)
        };
        if facts.batch_manifest.as_ref().is_some_and(is_head) {
            return Err(Error::new(format!(
                "{name} decides for all hosts which job runs where; run `wiglaf batch remove` first, and after \
                 it has left `wiglaf batch setup`"
            )));
        }
        let takes_root = facts.root_manifest.is_some() || facts.batch_manifest.is_some();
        if takes_root && facts.privilege == Privilege::None {
            return Err(Error::new(format!(
                "{name}: Wiglaf was installed there with sudo, which now takes a password or refuses you; have \
                 it allowed, or run `wiglaf leave --dead {name}`"
            )));
        }
        let manifests = [&facts.manifest, &facts.root_manifest, &facts.batch_manifest];
        let count: usize = manifests.into_iter().flatten().map(|m| m.entries.len()).sum();
        let packages: usize = manifests.into_iter().flatten().map(|m| m.packages.len()).sum();
        self.lines.push(match count {
            0 if packages == 0 => format!("{name}: take it out of {}", self.hosts.file.display()),
            _ if packages > 0 => format!(
                "{name}: take back {count} files, links and blocks of lines, and purge {packages} Debian \
                 packages"
            ),
            _ => format!("{name}: take back {count} files, links and blocks of lines"),
        });
        self.leaving.push(Member { remote, facts });
        Ok(())
    }

    /// Does it, host by host.
    ///
    /// # Errors
    /// When the cluster file cannot be written.
    pub fn carry_out(mut self, say: &dyn Fn(&str)) -> Result<Vec<Left>> {
        let mut all = Vec::new();
        for member in std::mem::take(&mut self.leaving) {
            let name = member.remote.name.clone();
            say(&format!("{name}: leaves"));
            let undone = self.undo(&member);
            let (error, kept) = match undone {
                Ok(kept) => (None, kept),
                Err(error) => (Some(error.to_string()), Vec::new()),
            };
            if error.is_none() {
                self.file.remove(&name)?;
                if member.facts.batch_manifest.is_some() {
                    say(
                        "Slurm still counts on it; run `wiglaf batch setup`, and it counts no more",
                    );
                }
            }
            all.push(Left { outcome: Outcome { name, error }, kept });
        }
        for name in std::mem::take(&mut self.dead) {
            self.file.remove(&name)?;
            all.push(Left { outcome: Outcome { name, error: None }, kept: Vec::new() });
        }
        sync::write_file(&self.hosts.file, &self.file.text())?;
        self.sync(say)?;
        Ok(all)
    }

    fn undo(&self, member: &Member) -> Result<Vec<String>> {
        let Member { remote, facts } = member;
        let mut kept = Vec::new();
        let mut program = member.program(&self.tree, &self.prefix);
        // With the helper goes the one who could do so.
        if let Some(program) = program.as_ref().or(facts.which.as_ref()) {
            kept.extend(untune(member, program));
        }
        let mut undo = |sudo, program: Option<&Path>, manifest| {
            let answer =
                ask(remote, sudo, program, &Request { manifest, action: Action::Undo }, &[])?;
            kept.extend(answer.kept.into_iter().map(|why| format!("{}: {why}", remote.name)));
            Ok(())
        };
        if facts.batch_manifest.is_some() {
            let sudo = facts.privilege == Privilege::Sudo;
            undo(sudo, program.as_deref(), PathBuf::from(BATCH))?;
        }
        if facts.is_watched && facts.privilege != Privilege::None {
            let sudo = facts.privilege == Privilege::Sudo;
            undo(sudo, program.as_deref(), PathBuf::from(EXTRA))?;
        }
        if let Some(manifest) = &facts.manifest {
            undo(false, program.as_deref(), facts.home.join(USERS))?;
            // It may just have removed itself.
            program = program.filter(|program| manifest.entry(program).is_none());
        }
        if facts.root_manifest.is_some() {
            let sudo = facts.privilege == Privilege::Sudo;
            undo(sudo, program.as_deref(), PathBuf::from(ROOTS))?;
        }
        Ok(kept)
    }

    /// Tells those that stay. This host alone is no cluster: what joining has changed here goes, too.
    fn sync(&mut self, say: &dyn Fn(&str)) -> Result<()> {
        let text = self.file.text();
        let hosts = Hosts::parse(&text, &self.hosts.file)?;
        let Some(manifest) = self.manifest.clone() else { return Ok(()) };
        let remotes: Vec<Remote> = hosts
            .nodes
            .iter()
            .map(|spec| Remote { name: spec.name.clone(), target: spec.target.clone() })
            .collect();
        let probe = Probe::new()?;
        let looked = look_all(&remotes, &self.prefix, &probe);
        let mut members = Vec::new();
        for (remote, facts) in remotes.into_iter().zip(looked) {
            match facts {
                Ok(facts) => members.push(Member { remote, facts }),
                Err(error) => say(&format!("{error}; it does not hear that others have left")),
            }
        }
        let only_here = hosts.nodes.iter().all(|spec| spec.target.is_here);
        if let (true, [here]) = (only_here, &members[..]) {
            return self.undo_here(here, &manifest, say);
        }
        let user = std::env::var("USER").unwrap_or_default();
        let by = format!("{user}@{}", machine::name());
        let cluster = Cluster { id: manifest.cluster.clone(), name: hosts.name.clone(), by };
        let known = sync::known_hosts(&hosts, &members, Some(&manifest));
        for member in &members {
            if member.facts.shares_home && !member.remote.target.is_here {
                continue;
            }
            let program = member.program(&self.tree, &self.prefix);
            if let Err(error) = member.sync(&cluster, program.as_deref(), &text, &known) {
                say(&format!("{error}; it does not hear that others have left"));
            }
        }
        Ok(())
    }

    fn undo_here(&mut self, here: &Member, manifest: &Manifest, say: &dyn Fn(&str)) -> Result<()> {
        let kept = self.undo(here)?;
        kept.iter().for_each(|why| say(why));
        let named = self.hosts.nodes.iter().find(|spec| spec.name == here.remote.name);
        let exe = named.and_then(|spec| spec.target.exe.clone()).map(PathBuf::from);
        let ours = |entry: &Entry| Some(entry.path()) == exe.as_deref();
        let roots = here.facts.root_manifest.iter().flat_map(|manifest| &manifest.entries);
        if manifest.entries.iter().chain(roots).any(ours) {
            self.file.set(&here.remote.name, "wiglaf", None)?;
            sync::write_file(&self.hosts.file, &self.file.text())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_named_for_batch_jobs_cannot_leave() {
        let text = "nodes = \"pc[1-3]\"\n[network]\ndata = \"192.168.77.0/24\"\n[batch]\nhead = \"pc1\"\n\
                    short = { nodes = \"pc3\", time = \"15min\" }\n[owner.pc2]\nuser = \"bob\"\n";
        let path = Path::new("cluster.toml");
        let (file, hosts) = (File::parse(text, path).unwrap(), Hosts::parse(text, path).unwrap());
        let leaves = |names: &[usize]| {
            let leaving: Vec<_> = names.iter().map(|&at| &hosts.nodes[at]).collect();
            check_rest(&file, &hosts, &leaving).map_err(|error| error.to_string())
        };
        assert_eq!(leaves(&[1]), Ok(()));
        assert_eq!(
            leaves(&[1, 2]),
            Err("pc[2-3] cannot leave before this is changed: cluster.toml: [batch]: short's pc3 is no node of the cluster; it has pc1"
                .to_owned())
        );
        assert!(leaves(&[0]).is_err_and(|why| why.contains("the head pc1 is no node")));
        assert_eq!(leaves(&[0, 1, 2]), Ok(()), "nothing is left that could be wrong");
    }
}
