//! `wiglaf image update`: one host was configured, and its files and packages go to the others; `rollback` takes that
//! back. Each update of a host has a manifest of its own, so the newest is taken back first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;
use wiglaf_base::at_once;
use wiglaf_base::error::{Error, Result};
use wiglaf_cluster::hosts::Hosts;

use crate::host::{Action, Content, Step};
use crate::joined::{self, Joined};
use crate::listing::{self, At, Has, OWN_PACKAGES, UPDATES, chosen, is_common};
use crate::manifest::Manifest;
use crate::packages::Version;
use crate::remote::no_root;
use crate::tree::Bytes;

/// Longest contents of files together, in bytes.
const CONTENTS_LEN_MAX: u64 = 128 << 20;

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The host that was configured; this one unless named.
    pub from: Option<String>,
    /// The hosts that are to be like it.
    pub nodes: Vec<String>,
    /// Further folders and files than those below /etc. A file that is named itself is taken whatever it is.
    pub paths: Vec<PathBuf>,
    /// Whether packages stay as they are.
    pub no_packages: bool,
    /// Whether files and packages go that the first host does not have.
    pub delete: bool,
}

/// What would change on a host.
#[derive(Debug, Serialize)]
pub struct HostPlan {
    /// What the cluster calls it.
    pub name: String,
    /// Files and links that are not there yet.
    pub added: Vec<String>,
    /// Those with another content or mode.
    pub changed: Vec<String>,
    /// Those that go.
    pub removed: Vec<String>,
    /// Those that the first host does not have, and that stay.
    pub only_there: usize,
    /// Packages that are new there, with versions.
    pub installed: Vec<String>,
    /// Packages that get another version.
    pub upgraded: Vec<String>,
    /// Packages that get an earlier one.
    pub downgraded: Vec<String>,
    /// Packages that go.
    pub purged: Vec<String>,
    /// Packages that the first host does not have, and that stay.
    pub packages_only_there: usize,
    /// What else is to be known.
    pub notes: Vec<String>,
    #[serde(skip)]
    host: Joined,
    #[serde(skip)]
    manifest: PathBuf,
    #[serde(skip)]
    steps: Vec<Step>,
    /// The digests of the files' contents, in their order.
    #[serde(skip)]
    contents: Vec<String>,
    #[serde(skip)]
    versions: Vec<Version>,
}

/// An update that may be made.
#[derive(Debug)]
pub struct Plan {
    /// The host that was configured.
    pub from: String,
    /// The others.
    pub hosts: Vec<HostPlan>,
    first: Joined,
    /// Where each content is on the first host, and its length.
    sources: BTreeMap<String, (String, u64)>,
}

/// How it went on a host.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// What the cluster calls it.
    pub name: String,
    /// Why it is as it was.
    pub error: Option<String>,
    /// What stays as it is, or cannot be taken back, and why.
    pub notes: Vec<String>,
}

/// What the newest update of a host was.
#[derive(Debug, Serialize)]
pub struct Rollback {
    /// What the cluster calls the host.
    pub name: String,
    /// Who has made the update.
    pub by: String,
    /// Files and links that become what they were.
    pub files: Vec<PathBuf>,
    /// Packages, with the versions that they get.
    pub packages: Vec<String>,
    #[serde(skip)]
    host: Joined,
    #[serde(skip)]
    manifest: PathBuf,
}

/// Looks at hosts of the cluster; those that are needed must answer and let us be root.
fn look(hosts: &Hosts, wanted: &[String]) -> Result<Vec<Joined>> {
    for name in wanted {
        if !hosts.nodes.iter().any(|spec| spec.name == *name) {
            return Err(Error::new(format!(
                "{name} is no host of the cluster file {}; see `wiglaf status`",
                hosts.file.display()
            )));
        }
    }
    let mut only = hosts.clone();
    only.nodes.retain(|spec| wanted.contains(&spec.name));
    let looked: Result<Vec<Joined>> = joined::look(&only)?.into_iter().collect();
    let looked = looked?;
    match looked.iter().find(|host| !host.has_root()) {
        Some(host) => Err(no_root(host.name())),
        None => Ok(looked),
    }
}

/// Says what would be changed; changes nothing.
///
/// # Errors
/// When a host cannot be compared, with its name.
pub fn plan(hosts: &Hosts, options: &Options) -> Result<Plan> {
    let paths = chosen(&options.paths)?;
    let here = hosts.nodes.iter().find(|spec| spec.target.is_here);
    let from = options.from.clone().or_else(|| here.map(|spec| spec.name.clone()));
    let from = from.ok_or_else(|| {
        Error::new("this host is not in the cluster file; name the configured one with --from HOST")
    })?;
    let mut names: Vec<String> = options.nodes.clone();
    names.retain(|name| *name != from);
    if names.is_empty() {
        return Err(Error::new(format!(
            "{from} is the first host itself; name others with -w HOSTS"
        )));
    }
    names.push(from.clone());
    let mut looked = look(hosts, &names)?;
    let Some(at) = looked.iter().position(|host| host.name() == from) else {
        return Err(Error::new(format!("{from} was not looked at; try again")));
    };
    let first = looked.remove(at);
    if let Some(other) = looked.iter().find(|o| joined::release(o) != joined::release(&first)) {
        return Err(Error::new(format!(
            "{} has {}, and {from} has {}: files and packages of one are not for the other; leave it out with -w",
            other.name(),
            joined::release(other),
            joined::release(&first)
        )));
    }
    let all = std::iter::once(&first).chain(&looked);
    let has = at_once::each(all, |host| Has::look(&host.shell(), &paths));
    let has = has.into_iter().collect::<Result<Vec<Has>>>()?;
    if let Some(path) = paths.iter().find(|path| !has[0].at.contains_key(*path)) {
        return Err(Error::new(format!("{from} has no {path}; name what it has with --path")));
    }
    let mut plan = Plan { from, hosts: Vec::new(), first, sources: BTreeMap::new() };
    let model = &has[0];
    for (path, at) in model.at.iter().filter(|(_, at)| at.kind == 'f') {
        plan.sources.insert(at.content.clone(), (path.clone(), at.len));
    }
    for (host, there) in looked.into_iter().zip(&has[1..]) {
        plan.hosts.push(compare(host, model, there, options, &paths));
    }
    Ok(plan)
}

fn compare(
    host: Joined,
    model: &Has,
    there: &Has,
    options: &Options,
    named: &[String],
) -> HostPlan {
    let number = there.updates.iter().max().map_or(1, |last| last.saturating_add(1));
    let mut plan = HostPlan {
        name: host.name().to_owned(),
        added: Vec::new(),
        changed: Vec::new(),
        removed: Vec::new(),
        only_there: 0,
        installed: Vec::new(),
        upgraded: Vec::new(),
        downgraded: Vec::new(),
        purged: Vec::new(),
        packages_only_there: 0,
        notes: Vec::new(),
        manifest: PathBuf::from(format!("{UPDATES}/{number}/manifest.json")),
        host,
        steps: Vec::new(),
        contents: Vec::new(),
        versions: Vec::new(),
    };
    let is_meant = |path: &str| {
        is_common(path, named) && !model.own.contains(path) && !there.own.contains(path)
    };
    let mut folders = BTreeSet::new();
    for (path, at) in model.at.iter().filter(|(path, at)| at.kind != 'd' && is_meant(path)) {
        let above: Vec<String> = Path::new(path)
            .ancestors()
            .skip(1)
            .map(|folder| folder.display().to_string())
            .collect();
        // Through a link the copy would land elsewhere.
        let other = above.iter().find(|path| there.at.get(*path).is_some_and(|at| at.kind != 'd'));
        if let Some(other) = other {
            plan.notes.push(format!("{path} is left out: {other} is no folder there"));
            continue;
        }
        match there.at.get(path) {
            Some(old) if old.kind == 'd' => {
                plan.notes.push(format!("{path} is left out: it is a folder there"));
                continue;
            }
            Some(old) => {
                let is_same = old.kind == at.kind
                    && old.content == at.content
                    && (old.mode == at.mode || at.kind == 'l');
                if is_same {
                    continue;
                }
                plan.changed.push(path.clone());
            }
            None => {
                folders.extend(above.into_iter().filter(|folder| !there.at.contains_key(folder)));
                plan.added.push(path.clone());
            }
        }
        plan.steps.push(match at.kind {
            'l' => Step::Link { path: path.into(), target: PathBuf::from(&at.content) },
            _ => {
                plan.contents.push(at.content.clone());
                Step::File {
                    path: path.into(),
                    mode: at.mode,
                    content: Content::Sent(at.len),
                    owner: owner(at),
                }
            }
        });
    }
    // A set is in order, so outer folders come first.
    let made = folders.iter().filter_map(|folder| {
        let at = model.at.get(folder)?;
        Some(Step::Folder { path: folder.into(), mode: at.mode, owner: owner(at) })
    });
    plan.steps.splice(0..0, made.collect::<Vec<_>>());
    for (path, at) in &there.at {
        if at.kind == 'd' || model.at.contains_key(path) || !is_meant(path) {
            continue;
        }
        match options.delete {
            true => {
                plan.removed.push(path.clone());
                plan.steps.push(Step::Gone { path: path.into() });
            }
            false => plan.only_there += 1,
        }
    }
    if !options.no_packages {
        compare_packages(&mut plan, model, there, options.delete);
    }
    plan
}

fn owner(at: &At) -> Option<String> {
    (at.owner != "root:root").then(|| at.owner.clone())
}

fn compare_packages(plan: &mut HostPlan, model: &Has, there: &Has, delete: bool) {
    let is_meant = |name: &String| {
        !OWN_PACKAGES.iter().any(|own| name.starts_with(own))
            && !model.own_packages.contains(name)
            && !there.own_packages.contains(name)
    };
    for (name, version) in model.packages.iter().filter(|(name, _)| is_meant(name)) {
        let old = there.packages.get(name);
        if old == Some(version) {
            continue;
        }
        if there.held.contains(name) {
            plan.notes.push(format!(
                "{name} is held there; `apt-mark unhold {name}` there lets it be changed"
            ));
            continue;
        }
        match old {
            None => plan.installed.push(format!("{name} {version}")),
            Some(old) => {
                let is_newer = Command::new("dpkg")
                    .args(["--compare-versions", version, "gt", old])
                    .status()
                    .is_ok_and(|status| status.success());
                let line = format!("{name} {old} -> {version}");
                if is_newer { &mut plan.upgraded } else { &mut plan.downgraded }.push(line);
            }
        }
        plan.versions.push(Version {
            name: name.clone(),
            version: version.clone(),
            is_auto: model.autos.contains(name),
        });
    }
    // The kernel that runs there is not to go.
    let is_kernel = |name: &str| name.starts_with("linux-");
    for name in there.packages.keys().filter(|name| is_meant(name) && !is_kernel(name)) {
        match (model.packages.contains_key(name), delete) {
            (true, _) => {}
            (false, true) => plan.purged.push(name.clone()),
            (false, false) => plan.packages_only_there += 1,
        }
    }
}

impl HostPlan {
    /// Whether nothing is to be done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.steps.is_empty() && self.versions.is_empty() && self.purged.is_empty()
    }

    /// A line for each change.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let lists = [
            ("add", &self.added),
            ("change", &self.changed),
            ("remove", &self.removed),
            ("install", &self.installed),
            ("upgrade", &self.upgraded),
            ("downgrade", &self.downgraded),
            ("purge", &self.purged),
        ];
        for (what, list) in lists {
            lines.extend(list.iter().map(|one| format!("{what} {one}")));
        }
        if self.is_done() {
            lines.push("is like the first host already".to_owned());
        }
        let (files, packages) = (self.only_there, self.packages_only_there);
        if files + packages > 0 {
            lines.push(format!(
                "{files} files and {packages} packages are there alone, and stay; --delete removes them"
            ));
        }
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines
    }

    fn carry_out(
        &self,
        contents: &BTreeMap<String, Vec<u8>>,
        say: &(dyn Fn(&str) + Sync),
    ) -> Outcome {
        let name = self.name.clone();
        let packages = self.versions.len() + self.purged.len();
        say(&format!(
            "{name}: {packages} packages and {} files are being changed",
            self.added.len() + self.changed.len() + self.removed.len()
        ));
        let mut apply = self.host.change(self.steps.clone());
        apply.versions.clone_from(&self.versions);
        apply.unwanted.clone_from(&self.purged);
        apply.ldconfig =
            self.added.iter().chain(&self.changed).any(|p| p.starts_with("/etc/ld.so"));
        let bytes = self.contents.iter().map(|sum| contents.get(sum.as_str()).cloned());
        let bytes = bytes.map(|bytes| Bytes::Text(bytes.unwrap_or_default())).collect::<Vec<_>>();
        let action = Action::Apply(Box::new(apply));
        let done = self.host.ask(self.manifest.clone(), action, &bytes);
        if done.is_ok() {
            let _ = self.host.run(RELOAD, true, b"");
        }
        outcome(name, done, say)
    }
}

/// Has systemd read its units again; nothing is started anew.
const RELOAD: &str = "[ ! -d /run/systemd/system ] || systemctl daemon-reload";

fn outcome(name: String, done: Result<Vec<String>>, say: &(dyn Fn(&str) + Sync)) -> Outcome {
    match done {
        Ok(notes) => {
            say(&format!("{name}: done"));
            Outcome { name, error: None, notes }
        }
        Err(error) => {
            let mut error = error.to_string();
            if error.contains("was not found") || error.contains("Unable to locate") {
                error += "; where its archives differ, `wiglaf image update --no-packages` brings the first host's \
                          sources before";
            } else if error.contains("remove is disabled") {
                error += "; --delete lets packages go that stand in the way";
            }
            Outcome { name, error: Some(error), notes: Vec::new() }
        }
    }
}

impl Plan {
    /// Whether nothing is to be done on any host.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.hosts.iter().all(HostPlan::is_done)
    }

    /// Does it on all hosts at once; tells `say` what is being done.
    ///
    /// # Errors
    /// When the first host does not hand out its files; nothing is changed then.
    pub fn carry_out(&self, say: &(dyn Fn(&str) + Sync)) -> Result<Vec<Outcome>> {
        let contents = self.contents()?;
        let due = self.hosts.iter().filter(|host| !host.is_done());
        at_once::each(due, |host| Ok(host.carry_out(&contents, say))).into_iter().collect()
    }

    /// What the files contain, by digest, from the first host.
    fn contents(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let wanted: BTreeSet<&str> =
            self.hosts.iter().flat_map(|host| &host.contents).map(String::as_str).collect();
        let wanted: Vec<(&str, &str, u64)> = wanted
            .into_iter()
            .filter_map(|sum| self.sources.get(sum).map(|(path, len)| (sum, &path[..], *len)))
            .collect();
        let len: u64 = wanted.iter().map(|(_, _, len)| len).sum();
        if len > CONTENTS_LEN_MAX {
            return Err(Error::new(format!(
                "{} MB of files differ, and {} MB go at once; copy the large ones with `wiglaf cp` first, or choose \
                 fewer folders with --path",
                len / 1_000_000,
                CONTENTS_LEN_MAX / 1_000_000
            )));
        }
        listing::contents(&self.first.shell(), &wanted)
    }
}

/// Says what a rollback would bring back; changes nothing.
///
/// # Errors
/// When a host cannot be looked at, or was never updated.
pub fn rollback_plan(hosts: &Hosts, nodes: &[String]) -> Result<Vec<Rollback>> {
    let looked = look(hosts, nodes)?;
    let script = format!(
        "for at in {UPDATES}/*/manifest.json; do [ -r \"$at\" ] && echo \"$at\"; done | sort -t/ -k6n | tail -n 1 | \
         while read -r at; do echo \"$at\"; cat \"$at\"; done"
    );
    let rollback = |host: Joined| {
        let said = host.run(&script, true, b"")?;
        let Some((path, text)) = said.split_once('\n') else {
            return Err(Error::new(format!(
                "{0}: no update is left to roll back there; leave it out with -w",
                host.name()
            )));
        };
        let manifest = Manifest::parse(text.trim(), Path::new(path))?;
        let packages = manifest.versions.iter().map(|one| {
            let now = one.after.as_deref().unwrap_or("nothing");
            format!("{} {now} -> {}", one.name, one.before.as_deref().unwrap_or("nothing"))
        });
        Ok(Rollback {
            name: host.name().to_owned(),
            by: manifest.by.clone(),
            files: manifest.entries.iter().map(|entry| entry.path().to_owned()).collect(),
            packages: packages.collect(),
            manifest: PathBuf::from(path),
            host,
        })
    };
    looked.into_iter().map(rollback).collect()
}

impl Rollback {
    /// A line for each change.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let files = self.files.iter().map(|path| format!("put back {}", path.display()));
        files.chain(self.packages.iter().cloned()).collect()
    }

    /// Does it. What somebody has changed since stays, and is named.
    #[must_use]
    pub fn carry_out(&self, say: &(dyn Fn(&str) + Sync)) -> Outcome {
        say(&format!("{}: is being rolled back", self.name));
        let done = self.host.ask(self.manifest.clone(), Action::Undo, &[]);
        if done.is_ok() {
            let _ = self.host.run(RELOAD, true, b"");
        }
        outcome(self.name.clone(), done, say)
    }
}
