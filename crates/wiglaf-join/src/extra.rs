//! Own files, packages and services that another part of Wiglaf wants on hosts, with a manifest of its own beside that
//! of joining: they come and go by themselves, and go with the host that leaves.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::machine;
use wiglaf_cluster::hosts::{HostSpec, Hosts};

use crate::ask::ask;
use crate::facts::{Facts, Privilege};
use crate::host::{Action, Content, Request, Step};
use crate::manifest::EXTRA;
use crate::remote::Remote;
use crate::sync::Cluster;
use crate::tree::Bytes;

/// A file that is ours alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnFile {
    /// Where it goes.
    pub path: PathBuf,
    /// Its mode.
    pub mode: u32,
    /// What is in it.
    pub text: String,
}

/// What a host is to have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Files, written before packages are installed.
    pub files: Vec<OwnFile>,
    /// Debian's packages.
    pub packages: Vec<String>,
    /// Services of systemd that run from then on.
    pub services: Vec<String>,
    /// Folders that the services fill and that are ours alone.
    pub folders: Vec<PathBuf>,
}

/// A host that was looked at.
#[derive(Debug, Clone)]
pub struct Seen {
    /// What the cluster calls it.
    pub name: String,
    /// Its address in the data network.
    pub address: Ipv4Addr,
    /// Where its Wiglaf is.
    pub exe: PathBuf,
    /// Whether it has been set up.
    pub is_set_up: bool,
    remote: Remote,
    sudo: bool,
}

/// Looks at a host, which must let us be root there. `services` that run and are not ours are an error.
///
/// # Errors
/// Why it cannot be set up, which names it.
pub fn look(hosts: &Hosts, spec: &HostSpec, services: &[&str]) -> Result<Seen> {
    let name = spec.name.clone();
    let remote = Remote { name: name.clone(), target: spec.target.clone() };
    let facts = Facts::look(&remote, Path::new("/usr/local"), "none")?;
    if facts.privilege == Privilege::None {
        return Err(Error::new(format!(
            "{name}: sudo takes a password there, or refuses you; have it allowed, or run this as root"
        )));
    }
    if !facts.has_systemd {
        return Err(Error::new(format!(
            "{name}: no systemd runs there, which would start services"
        )));
    }
    let data = hosts.network.data;
    let address = spec.address.or_else(|| facts.address_in(data)).ok_or_else(|| {
        Error::new(format!(
            "{name}: it has no address in the data network {data}; is its cable in?"
        ))
    })?;
    let script = format!(
        "[ -e {EXTRA} ] && echo ours\nfor s in {}; do systemctl is-active --quiet $s 2>/dev/null && echo $s; done; \
         true",
        services.join(" ")
    );
    let said = remote.run(&script, |_| Ok(()))?;
    let is_set_up = said.lines().any(|line| line == "ours");
    if let (false, Some(service)) = (is_set_up, said.lines().next()) {
        return Err(Error::new(format!(
            "{name}: {service} runs there already, and Wiglaf has not set it up; stop it with `systemctl \
             disable --now {service}`, or leave that host out with -w"
        )));
    }
    let exe = spec.target.exe.clone().map(PathBuf::from).or(facts.which);
    let exe = exe.ok_or_else(|| {
        Error::new(format!("{name}: there is no wiglaf; run `wiglaf join {name}` first"))
    })?;
    let sudo = facts.privilege == Privilege::Sudo;
    Ok(Seen { name, address, exe, is_set_up, remote, sudo })
}

/// Has a host get what is wanted, all or nothing.
///
/// # Errors
/// What failed; then the host is as it was.
pub fn apply(hosts: &Hosts, seen: &Seen, wanted: &Wanted) -> Result<()> {
    // A host that never joined has no other mark of its cluster.
    let id = format!("{} {}", hosts.name, hosts.network.data);
    let by = format!("{}@{}", std::env::var("USER").unwrap_or_default(), machine::name());
    let cluster = Cluster { id, name: hosts.name.clone(), by };
    let steps = wanted.files.iter().map(|file| Step::File {
        path: file.path.clone(),
        mode: file.mode,
        content: Content::Sent(file.text.len() as u64),
        owner: None,
    });
    let mut apply = cluster.apply(steps.collect());
    apply.caches.clone_from(&wanted.folders);
    apply.late_packages.clone_from(&wanted.packages);
    apply.systemd.clone_from(&wanted.services);
    let contents: Vec<Bytes> =
        wanted.files.iter().map(|file| Bytes::Text(file.text.clone().into_bytes())).collect();
    let request =
        Request { manifest: PathBuf::from(EXTRA), action: Action::Apply(Box::new(apply)) };
    ask(&seen.remote, seen.sudo, same_program(seen)?.as_deref(), &request, &contents).map(drop)
}

/// Takes everything back. Says what stays.
///
/// # Errors
/// When the host does not do it.
pub fn undo(seen: &Seen) -> Result<Vec<String>> {
    let request = Request { manifest: PathBuf::from(EXTRA), action: Action::Undo };
    let program = same_program(seen)?;
    let answer = ask(&seen.remote, seen.sudo, program.as_deref(), &request, &[])?;
    Ok(answer.kept.into_iter().map(|why| format!("{}: {why}", seen.name)).collect())
}

/// The host's Wiglaf, if it is this very program: else a copy of this one is sent.
fn same_program(seen: &Seen) -> Result<Option<PathBuf>> {
    let own = std::env::current_exe().cannot(|| "find the running wiglaf".to_owned())?;
    let own = std::fs::File::open(&own).and_then(crate::manifest::sha256);
    let own = own.cannot(|| "read the running wiglaf".to_owned())?;
    let path = wiglaf_base::shell::quoted(&seen.exe.display().to_string());
    let there = seen.remote.run(&format!("sha256sum < {path}"), |_| Ok(()))?;
    Ok(there.starts_with(&own).then(|| seen.exe.clone()))
}
