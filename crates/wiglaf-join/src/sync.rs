//! What all hosts of a cluster have in common, and get anew whenever one joins or leaves: the cluster file,
//! and each other's ssh host keys.

use std::fmt::Write;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_cluster::hosts::Hosts;

use crate::ask::ask;
use crate::facts::Facts;
use crate::host::{Action, Apply, Content, Request, Step};
use crate::manifest::{Entry, Manifest, USERS};
use crate::remote::Remote;
use crate::tree::{Bytes, Tree};

const BEGIN: &str =
    "# Hosts of this user's cluster, written by `wiglaf join`; `wiglaf leave` removes these lines.";
const END: &str = "# End of the hosts of this user's cluster.";

/// A host of the cluster that was looked at.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) remote: Remote,
    pub(crate) facts: Facts,
}

/// Who makes changes, for the manifests.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) by: String,
}

impl Cluster {
    /// Changes without any: steps are to be added.
    pub(crate) fn apply(&self, steps: Vec<Step>) -> Apply {
        Apply {
            cluster: self.id.clone(),
            name: self.name.clone(),
            by: self.by.clone(),
            steps,
            may_make: Vec::new(),
            caches: Vec::new(),
            units: false,
            late_packages: Vec::new(),
            systemd: Vec::new(),
            ldconfig: false,
            packages: Vec::new(),
            deb_len: None,
            versions: Vec::new(),
            unwanted: Vec::new(),
            services: Vec::new(),
        }
    }
}

impl Member {
    /// Where this build's program is there, if it is.
    pub(crate) fn program(&self, tree: &Tree, prefix: &Path) -> Option<PathBuf> {
        let own = tree.sums.first()?;
        self.facts.sums.contains(own).then(|| prefix.join(&own.0))
    }

    /// Writes what the hosts have in common. This host's cluster file is the user's own.
    pub(crate) fn sync(
        &self,
        cluster: &Cluster,
        program: Option<&Path>,
        file: &str,
        known_hosts: &str,
    ) -> Result<()> {
        let home = &self.facts.home;
        let mut steps = vec![Step::Block {
            path: home.join(".ssh/known_hosts"),
            text: known_hosts.to_owned(),
            is_at_end: false,
            mode: 0o600,
        }];
        let mut contents = Vec::new();
        if !self.remote.target.is_here {
            steps.push(Step::File {
                path: home.join(".config/wiglaf/cluster.toml"),
                mode: 0o644,
                content: Content::Sent(file.len() as u64),
                owner: None,
            });
            contents.push(Bytes::Text(file.as_bytes().to_vec()));
        }
        let apply = Apply {
            may_make: vec![home.join(".cache")],
            caches: vec![home.join(".cache/wiglaf")],
            ..cluster.apply(steps)
        };
        let request =
            Request { manifest: home.join(USERS), action: Action::Apply(Box::new(apply)) };
        ask(&self.remote, false, program, &request, &contents).map(drop)
    }
}

/// The lines for ssh's known_hosts. Of hosts that were not looked at, those of before.
pub(crate) fn known_hosts(hosts: &Hosts, members: &[Member], earlier: Option<&Manifest>) -> String {
    let mut text = format!("{BEGIN}\n");
    let before = earlier.into_iter().flat_map(|manifest| &manifest.entries);
    let before = before.filter_map(|entry| match entry {
        Entry::Block { text, .. } => Some(text.lines()),
        Entry::Path { .. } => None,
    });
    let before: Vec<&str> = before.flatten().filter(|line| !line.starts_with('#')).collect();
    for spec in &hosts.nodes {
        let Some(member) = members.iter().find(|member| member.remote.name == spec.name) else {
            let own = |line: &&&str| line.split([',', ' ']).next() == Some(&spec.name);
            before.iter().filter(own).for_each(|line| {
                let _ = writeln!(text, "{line}");
            });
            continue;
        };
        let networks = [Some(hosts.network.data), hosts.network.admin];
        let addresses =
            networks.iter().flatten().filter_map(|network| member.facts.address_in(*network));
        let mut names =
            vec![spec.name.clone(), spec.target.host.clone(), member.facts.machine.clone()];
        names.extend(addresses.map(|address| address.to_string()));
        let mut seen = Vec::new();
        names.retain(|name| {
            let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:".contains(&b));
            let is_new = is_plain && !name.is_empty() && !seen.contains(name);
            seen.push(name.clone());
            is_new
        });
        for key in &member.facts.host_keys {
            let _ = writeln!(text, "{} {key}", names.join(","));
        }
    }
    text + END + "\n"
}

/// Writes the user's cluster file: whole, or not at all.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<()> {
    // What is written must be read again.
    Hosts::parse(text, path)?;
    let cannot = || format!("write the cluster file {}", path.display());
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let new = target.with_extension(format!("new{}", std::process::id()));
    let mode = fs::metadata(&target).map_or(0o644, |about| about.permissions().mode() & 0o7777);
    let written = fs::write(&new, text)
        .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&new, &target));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.cannot(cannot)
}

/// Fails where the cluster file could not be written.
pub(crate) fn check_writable(path: &Path) -> Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().unwrap_or(Path::new("/"));
    match rustix::fs::access(folder, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Ok(()),
        Err(error) => Err(Error::new(format!(
            "you may not change the cluster file {} ({}); copy it to ~/.config/wiglaf/cluster.toml, or have \
             its owner do this",
            path.display(),
            io::Error::from(error)
        ))),
    }
}

/// The manifest of this host's user.
pub(crate) fn own_manifest() -> Result<Option<Manifest>> {
    match std::env::var_os("HOME") {
        Some(home) => Manifest::load(&Path::new(&home).join(USERS)),
        None => Ok(None),
    }
}

/// A file in the user's home for a moment: hosts that see it have the same home.
#[derive(Debug)]
pub(crate) struct Probe {
    path: PathBuf,
    pub(crate) name: String,
}

impl Probe {
    pub(crate) fn new() -> Result<Self> {
        let home = std::env::var_os("HOME").map(PathBuf::from).ok_or_else(|| {
            Error::new("HOME is not set; set it to the folder that is yours on all hosts")
        })?;
        let name = format!(".wiglaf-probe-{}", wiglaf_base::random::key()?);
        let path = home.join(&name);
        fs::write(&path, "").cannot(|| format!("write to your home {}", home.display()))?;
        Ok(Self { path, name })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
