//! `wiglaf image update`: one host was configured, and its files and packages go to the others; `rollback` takes that
//! back. Each update of a host has a manifest of its own, so the newest is taken back first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde::Serialize;
use wiglaf_base::at_once;
use wiglaf_base::error::{Error, Result};
use wiglaf_base::shell::quoted;
use wiglaf_cluster::hosts::Hosts;

use crate::host::{Action, Content, Step};
use crate::joined::{self, Joined, digest};
use crate::manifest::{BATCH, EXTRA, Entry, Manifest, ROOTS};
use crate::packages::{LIST, Version, listed};
use crate::tree::Bytes;

/// Below it each update has its manifest, in a folder with a number.
const UPDATES: &str = "/var/lib/wiglaf/update";
/// What is compared unless other folders are named.
const FOLDERS: &str = "/etc";
/// Longest listing of a host and all contents together, in bytes.
const LISTING_LEN_MAX: u64 = 64 << 20;
const CONTENTS_LEN_MAX: u64 = 128 << 20;
/// What tells one host from another, or is made from what does: files, and folders with all that is below them.
const IDENTITY: [&str; 46] = [
    "/etc/.pwd.lock",
    "/etc/NetworkManager",
    "/etc/X11/xorg.conf",
    "/etc/adjtime",
    "/etc/alternatives",
    "/etc/cloud",
    "/etc/crypttab",
    "/etc/default/grub",
    "/etc/dhcp",
    "/etc/fstab",
    "/etc/group",
    "/etc/group-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/hostid",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/initramfs-tools/conf.d/resume",
    "/etc/iscsi/initiatorname.iscsi",
    "/etc/krb5.keytab",
    "/etc/ld.so.cache",
    "/etc/lvm",
    "/etc/machine-id",
    "/etc/mailname",
    "/etc/mdadm",
    "/etc/mtab",
    "/etc/munge",
    "/etc/netplan",
    "/etc/network",
    "/etc/nvme/hostid",
    "/etc/nvme/hostnqn",
    "/etc/openvpn",
    "/etc/passwd",
    "/etc/passwd-",
    "/etc/resolv.conf",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssl/private",
    "/etc/subgid",
    "/etc/subuid",
    "/etc/systemd/network",
    "/etc/udev/rules.d/70-persistent-net.rules",
    "/etc/wireguard",
    "/etc/wpa_supplicant",
    // Wiglaf's own, which `join` and `batch setup` bring.
    "/etc/slurm",
    "/etc/wiglaf",
];
/// Never compared: they are no files of a disk, or the records of dpkg and of Wiglaf.
const NEVER: [&str; 7] =
    ["/proc", "/sys", "/dev", "/run", "/var/lib/dpkg", "/var/lib/apt", "/var/lib/wiglaf"];
/// Packages that depend on the machine, or that Wiglaf brings by other ways: their names begin so.
const OWN_PACKAGES: [&str; 6] =
    ["grub-", "shim-", "wiglaf", "libwiglaf", "intel-microcode", "amd64-microcode"];

/// Tells of files: kind, mode, owner, length, target, path; then their digests, and what Wiglaf has changed.
const LOOK: &str = r#"
apt-mark showauto | sed 's/^/auto\t/'
nl='
'
tab=$(printf '\t')
for at in "$@"; do
    [ -e "$at" ] || continue
    find "$at" -xdev \( -path "*$nl*" -o -lname "*$nl*" -o -lname "*$tab*" \) -prune -o \
        \( -type f -o -type l -o -type d \) -printf 'at\t%y\t%m\t%u:%g\t%s\t%l\t%p\n'
    find "$at" -xdev -path "*$nl*" -prune -o -type f -print0 | xargs -0 -r sha256sum -z | tr '\0' '\n' |
        sed 's/^/sum\t/'
done
for at in $manifests; do [ -r "$at" ] && printf 'manifest\t' && tr -d '\n' <"$at" && echo; done
for at in $updates/*/; do [ -d "$at" ] && printf 'update\t%s\n' "$(basename "$at")"; done
printf 'end\t\n'
"#;

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

/// Something at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct At {
    kind: char,
    mode: u32,
    owner: String,
    len: u64,
    /// A link's target, or a file's digest.
    content: String,
}

/// What a host has.
#[derive(Debug, Default)]
struct Has {
    at: BTreeMap<String, At>,
    packages: BTreeMap<String, String>,
    held: BTreeSet<String>,
    autos: BTreeSet<String>,
    /// What Wiglaf has changed there.
    own: BTreeSet<String>,
    own_packages: BTreeSet<String>,
    updates: Vec<u32>,
}

impl Has {
    fn look(host: &Joined, paths: &[String]) -> Result<Self> {
        let words: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
        let script = format!(
            "LC_ALL=C; export LC_ALL\nmanifests='{ROOTS} {BATCH} {EXTRA}'\nupdates={UPDATES}\nset -- {}\n{LIST}\n{LOOK}",
            words.join(" ")
        );
        let said = host.run_for_bytes(&script, LISTING_LEN_MAX, b"")?;
        Self::parse(&String::from_utf8_lossy(&said)).ok_or_else(|| {
            Error::new(format!(
                "{}: there are too many files, or no Debian; choose fewer folders with --path",
                host.name()
            ))
        })
    }

    fn parse(said: &str) -> Option<Self> {
        let mut has = Self::default();
        let mut is_whole = false;
        // A name that is no text cannot be asked for again.
        for line in said.lines().filter(|line| !line.contains(char::REPLACEMENT_CHARACTER)) {
            if let Some(((name, version), is_held)) = listed(line) {
                has.held.extend(is_held.then(|| name.clone()));
                has.packages.insert(name, version);
                continue;
            }
            let (what, rest) = line.split_once('\t')?;
            match what {
                "auto" => {
                    has.autos.insert(rest.to_owned());
                }
                "at" => {
                    let fields: Vec<&str> = rest.splitn(6, '\t').collect();
                    let [kind, mode, owner, len, target, path] = fields[..] else { continue };
                    let at = At {
                        kind: kind.chars().next()?,
                        mode: u32::from_str_radix(mode, 8).ok()?,
                        owner: owner.to_owned(),
                        len: len.parse().ok()?,
                        content: target.to_owned(),
                    };
                    has.at.insert(path.to_owned(), at);
                }
                "sum" => {
                    let (sum, path) = rest.split_once("  ")?;
                    if let Some(at) = has.at.get_mut(path).filter(|at| at.kind == 'f') {
                        sum.clone_into(&mut at.content);
                    }
                }
                "manifest" => {
                    let manifest = Manifest::parse(rest, Path::new(UPDATES)).ok()?;
                    let paths = manifest.entries.iter().map(Entry::path);
                    has.own.extend(paths.map(|path| path.display().to_string()));
                    has.own_packages.extend(manifest.packages);
                    has.own_packages.extend(manifest.late_packages);
                }
                "update" => has.updates.extend(rest.parse::<u32>().ok()),
                "end" => is_whole = true,
                _ => {}
            }
        }
        // What vanished between the two looks has no digest.
        has.at.retain(|_, at| at.kind != 'f' || !at.content.is_empty());
        is_whole.then_some(has)
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    Path::new(path).starts_with(folder)
}

/// Whether a path is no host's own; `named` are the user's.
fn is_common(path: &str, named: &[String]) -> bool {
    if NEVER.iter().any(|never| is_below(path, never)) || path.contains(".wiglaf-") {
        return false;
    }
    let is_key = is_below(path, "/etc/ssh") && path.contains("ssh_host_");
    let is_own = is_key || IDENTITY.iter().any(|own| is_below(path, own));
    !is_own || named.iter().any(|name| name == path)
}

/// Checks the paths that were named, and adds those that are always compared.
fn chosen(paths: &[PathBuf]) -> Result<Vec<String>> {
    let mut all = vec![FOLDERS.to_owned()];
    for path in paths {
        let is_plain =
            path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        let text = path.to_str().filter(|text| !text.contains(['\n', '\t']));
        let text = text.filter(|_| path.is_absolute() && is_plain).map(|t| t.trim_end_matches('/'));
        match text {
            Some(text) if text.is_empty() || NEVER.iter().any(|never| is_below(text, never)) => {
                return Err(Error::new(format!(
                    "{} is no folder to copy from one host to others; name one such as --path /usr/local/etc",
                    path.display()
                )));
            }
            Some(text) => all.push(text.to_owned()),
            None => {
                return Err(Error::new(format!(
                    "{} is no whole path; name one such as --path /usr/local/etc",
                    path.display()
                )));
            }
        }
    }
    Ok(all)
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
        Some(host) => Err(Error::new(format!(
            "{}: sudo takes a password there, or refuses you; have it allowed, or run this as root",
            host.name()
        ))),
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
    let has = at_once::each(all, |host| Has::look(host, &paths));
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
        contents: &BTreeMap<&str, Vec<u8>>,
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
    fn contents(&self) -> Result<BTreeMap<&str, Vec<u8>>> {
        let wanted: BTreeSet<&str> =
            self.hosts.iter().flat_map(|host| &host.contents).map(String::as_str).collect();
        let wanted: Vec<(&str, &(String, u64))> =
            wanted.into_iter().filter_map(|sum| Some((sum, self.sources.get(sum)?))).collect();
        let len: u64 = wanted.iter().map(|(_, (_, len))| len).sum();
        if len > CONTENTS_LEN_MAX {
            return Err(Error::new(format!(
                "{} MB of files differ, and {} MB go at once; copy the large ones with `wiglaf cp` first, or choose \
                 fewer folders with --path",
                len / 1_000_000,
                CONTENTS_LEN_MAX / 1_000_000
            )));
        }
        let names: String = wanted.iter().map(|(_, (path, _))| format!("{path}\0")).collect();
        // The names first, whole: else both sides could wait for each other.
        let script =
            "f=$(mktemp) && cat >\"$f\" && xargs -0 -r cat -- <\"$f\"; s=$?; rm -f \"$f\"; exit $s";
        let said = self.first.run_for_bytes(script, len + 1, names.as_bytes())?;
        let mut rest = &said[..];
        let mut contents = BTreeMap::new();
        for (sum, (path, len)) in wanted {
            let part = usize::try_from(*len).ok().and_then(|len| rest.split_at_checked(len));
            match part {
                Some((part, others)) if digest(part) == sum => {
                    contents.insert(sum, part.to_vec());
                    rest = others;
                }
                _ => {
                    return Err(Error::new(format!(
                        "{path} has just been changed on {}; try again",
                        self.from
                    )));
                }
            }
        }
        Ok(contents)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_of_a_host_is_left_out_unless_a_file_is_named_itself() {
        let none: [String; 0] = [];
        for own in [
            "/etc/ssh/ssh_host_ed25519_key",
            "/etc/machine-id",
            "/etc/hostname",
            "/etc/hosts",
            "/etc/fstab",
            "/etc/network/interfaces",
            "/etc/NetworkManager/system-connections/x",
            "/etc/munge/munge.key",
            "/etc/shadow",
            "/var/lib/wiglaf/manifest.json",
        ] {
            assert!(!is_common(own, &none), "{own}");
        }
        for common in ["/etc/ssh/sshd_config", "/etc/hosts.allow", "/etc/security/limits.conf"] {
            assert!(is_common(common, &none), "{common}");
        }
        assert!(is_common("/etc/shadow", &["/etc/shadow".to_owned()]));
        assert!(!is_common("/proc/x", &["/proc/x".to_owned()]));
    }

    #[test]
    fn paths_that_are_no_folders_of_a_disk_are_refused() {
        for path in ["/", "/proc", "/etc/../proc", "opt", "/var/lib/dpkg/status", "/a\nb"] {
            let error = chosen(&[path.into()]).unwrap_err().to_string();
            assert!(error.contains("--path /usr/local/etc"), "{error}");
        }
        assert_eq!(chosen(&["/opt/".into()]).unwrap(), ["/etc", "/opt"]);
    }

    #[test]
    fn listing_that_was_cut_off_is_none() {
        let said = "package\tii \ta\t1\npackage\trc \tb\t1\npackage\thi \tc\t2\nat\tf\t640\tbob:root\t3\t\t/etc/x\n\
                    sum\t00ff  /etc/x\nupdate\t3\nend\t\n";
        let has = Has::parse(said).unwrap();
        assert_eq!(has.packages.len(), 2);
        assert!(has.held.contains("c"));
        assert_eq!((has.at["/etc/x"].mode, has.at["/etc/x"].content.as_str()), (0o640, "00ff"));
        assert_eq!(has.updates, [3]);
        assert!(Has::parse(said.strip_suffix("end\t\n").unwrap()).is_none());
        assert!(Has::parse("nonsense\nend\t\n").is_none());
    }
}
