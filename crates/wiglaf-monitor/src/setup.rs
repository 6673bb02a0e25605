//! `wiglaf monitor setup` and `remove`: looks at all hosts first, then changes them one by one.

use std::path::PathBuf;

use serde::Serialize;
use wiglaf_base::at_once;
use wiglaf_base::error::{Error, Result};
use wiglaf_cluster::hosts::{HostSpec, Hosts};
use wiglaf_join::extra::{self, Seen, Wanted};

use crate::files::{self, EXPORTER, Mail, ON_HOSTS, ON_SERVER};

/// What is to be done on a host.
#[derive(Debug, Serialize)]
pub struct HostPlan {
    /// What the cluster calls it.
    pub name: String,
    /// Each change, as a line.
    pub changes: Vec<String>,
    #[serde(skip)]
    seen: Seen,
    #[serde(skip)]
    wanted: Wanted,
}

/// What is to be done on all hosts.
#[derive(Debug)]
pub struct Plan {
    /// Each of them.
    pub hosts: Vec<HostPlan>,
    cluster: Hosts,
}

/// How it went on a host.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The host.
    pub name: String,
    /// Why it is as it was.
    pub error: Option<String>,
    /// What stays, and why.
    pub kept: Vec<String>,
}

/// Looks at the chosen hosts; this one watches, if it is among them.
///
/// # Errors
/// A sentence for each host that cannot be set up: then nothing is to be done on any.
pub fn plan(
    cluster: &Hosts,
    chosen: &[&HostSpec],
    mail: Option<&Mail>,
) -> std::result::Result<Plan, Vec<Error>> {
    let looks = at_once::each(chosen, |spec| {
        let services: &[&str] = match spec.target.is_here {
            true => &[ON_HOSTS[0], ON_SERVER[0], ON_SERVER[1]],
            false => &ON_HOSTS,
        };
        extra::look(cluster, spec, services)
    });
    let (seen, errors): (Vec<_>, Vec<_>) = looks.into_iter().partition(Result::is_ok);
    let errors: Vec<Error> = errors.into_iter().filter_map(Result::err).collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    let seen: Vec<Seen> = seen.into_iter().flatten().collect();
    let targets: Vec<_> = seen.iter().map(|one| (one.name.clone(), one.address)).collect();
    let host = |(spec, seen): (&&HostSpec, Seen)| {
        let address = seen.address;
        let mut wanted = Wanted {
            files: files::of_host(address, cluster.network.data, &seen.exe),
            packages: ON_HOSTS.map(str::to_owned).to_vec(),
            services: [ON_HOSTS[0], EXPORTER].map(str::to_owned).to_vec(),
            folders: vec![PathBuf::from(files::FOLDER)],
        };
        let mut changes = Vec::new();
        if spec.target.is_here {
            wanted.files.extend(files::of_server(address, &targets, mail));
            wanted.packages.extend(ON_SERVER.map(str::to_owned));
            wanted.services.extend(ON_SERVER.map(str::to_owned));
        }
        changes.extend(wanted.files.iter().map(|file| format!("write {}", file.path.display())));
        changes.push(format!("install {}, where missing", wanted.packages.join(", ")));
        changes.push(format!("start {}, now and with the machine", wanted.services.join(", ")));
        let ports = match spec.target.is_here {
            true => {
                format!("{}, {} and {}", files::NODE_PORT, files::SERVER_PORT, files::ALERT_PORT)
            }
            false => files::NODE_PORT.to_string(),
        };
        changes.push(format!("listen on {address} alone: TCP {ports}"));
        HostPlan { name: seen.name.clone(), changes, seen, wanted }
    };
    let hosts = chosen.iter().zip(seen).map(host).collect();
    Ok(Plan { hosts, cluster: cluster.clone() })
}

impl Plan {
    /// Does it. A host on which it fails is as it was; the others go on.
    pub fn carry_out(self, say: &dyn Fn(&str)) -> Vec<Outcome> {
        let one = |host: HostPlan| {
            say(&format!("{}: is being set up", host.name));
            let done = extra::apply(&self.cluster, &host.seen, &host.wanted);
            Outcome {
                name: host.name,
                error: done.err().map(|error| error.to_string()),
                kept: Vec::new(),
            }
        };
        self.hosts.into_iter().map(one).collect()
    }
}

/// Takes it back from these hosts.
///
/// # Errors
/// A sentence for each host that cannot be asked: then nothing was done on any.
pub fn remove(
    cluster: &Hosts,
    chosen: &[&HostSpec],
) -> std::result::Result<Vec<Outcome>, Vec<Error>> {
    let looked: Vec<_> = chosen.iter().map(|spec| extra::look(cluster, spec, &[])).collect();
    let (seen, errors): (Vec<_>, Vec<_>) = looked.into_iter().partition(Result::is_ok);
    let errors: Vec<Error> = errors.into_iter().filter_map(Result::err).collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    let one = |seen: Seen| {
        let undone = extra::undo(&seen);
        let (error, kept) = match undone {
            Ok(kept) => (None, kept),
            Err(error) => (Some(error.to_string()), Vec::new()),
        };
        Outcome { name: seen.name, error, kept }
    };
    Ok(seen.into_iter().flatten().map(one).collect())
}
