//! What a job on real hosts needs besides: that all of them have what it takes, how its launcher reaches
//! them, and that the loss of one is noticed.

use std::ffi::OsStr;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::{program, random};
use wiglaf_mpi::fortran::Preload;
use wiglaf_mpi::provider::Provider;
use wiglaf_mpi::{Family, Installation};
use wiglaf_node::agent::look;
use wiglaf_node::client::{Lease, working_folder};
use wiglaf_node::proto::{HostHello, Seen};
use wiglaf_node::ssh;

use crate::cluster::{self, AgentHost, HOSTS_VAR, Member};
use crate::hosts::{Hosts, Network, Ports};

/// What every host of a job must have.
pub(crate) struct Needed<'a> {
    pub(crate) mpi: Option<&'a Installation>,
    pub(crate) provider: Option<&'a Provider>,
    pub(crate) preload: Option<&'a Preload>,
    pub(crate) exe: &'a Path,
}

/// What is known of a job's hosts.
pub(crate) struct OnHosts {
    /// Their addresses in the data network, in the order of the job's nodes.
    pub(crate) addresses: Vec<Ipv4Addr>,
    /// How many cores each has.
    pub(crate) cores: Vec<usize>,
    /// This host, where an MPI's launcher runs.
    pub(crate) launcher: Option<Member>,
    /// What the launcher calls instead of ssh.
    pub(crate) agent: PathBuf,
    pub(crate) network: Network,
    /// The hosts for that agent.
    list: String,
    /// The launcher's interface in the network of launching.
    launching_interface: Option<String>,
    /// The hosts' interfaces in the data network, each once.
    data_interfaces: Vec<String>,
}

impl OnHosts {
    /// Asks the hosts, and fails where one could not take part, before anything is started.
    pub(crate) fn prepare(
        hosts: &Hosts,
        program: &OsStr,
        members: &mut [Member],
        needed: &Needed<'_>,
    ) -> Result<Self> {
        let here = hosts.nodes.iter().find(|spec| spec.target.is_here);
        let launcher = match (here, needed.mpi) {
            (Some(spec), Some(_)) => {
                hosts.select(&std::iter::once(spec.name.as_str()).collect())?;
                let all = cluster::Cluster::Hosts(hosts.clone());
                all.members(&std::iter::once(spec.name.as_str()).collect())?.pop()
            }
            (None, Some(_)) => {
                let login = hosts.nodes[0].target.login();
                return Err(Error::new(format!(
                    "this machine is none of the hosts in {} ({}), and an MPI's launcher runs on one of \
                     them; log in there: `ssh -t {login}`, and run the job from there",
                    hosts.file.display(),
                    hosts.names()
                )));
            }
            (_, None) => None,
        };
        let hellos = cluster::ask_all(members, hello_of);
        let hellos = cluster::all_or_error(members, hellos)?;
        let mut addresses = Vec::new();
        for (member, hello) in members.iter_mut().zip(&hellos) {
            let spec = hosts.nodes.iter().find(|spec| spec.name == member.name());
            let spec = spec.ok_or_else(|| Error::new("a host is not in its cluster"))?;
            addresses.push(cluster::address_of(hosts, spec, hello)?);
            member.slots = member.slots.or(Some(hello.cores));
        }
        for (index, address) in addresses.iter().enumerate() {
            if let Some(other) = addresses[..index].iter().position(|other| other == address) {
                return Err(Error::new(format!(
                    "{} and {} are one host ({address}); name it once in {}",
                    members[other].name(),
                    members[index].name(),
                    hosts.file.display()
                )));
            }
        }
        check_files(program, members, needed)?;
        let list = members.iter().zip(&addresses).filter_map(|(member, address)| {
            let (name, target) = (member.name().to_owned(), member.node.target()?.clone());
            Some(AgentHost { address: *address, name, target })
        });
        let list = serde_json::to_string(&list.collect::<Vec<_>>())
            .cannot(|| "write the list of hosts".to_owned())?;
        let launching = hosts.network.launching();
        let own = wiglaf_base::network::addresses();
        let own = own.into_iter().find(|found| launching.contains(found.address));
        let mut data_interfaces: Vec<String> = hellos
            .iter()
            .zip(&addresses)
            .filter_map(|(hello, own)| hello.addresses.iter().find(|found| found.address == *own))
            .map(|found| found.interface.clone())
            .collect();
        data_interfaces.sort();
        data_interfaces.dedup();
        Ok(Self {
            addresses,
            cores: hellos.iter().map(|hello| hello.cores).collect(),
            launcher,
            agent: agent_program(needed.exe)?,
            network: hosts.network.clone(),
            list,
            launching_interface: own.map(|found| found.interface),
            data_interfaces,
        })
    }

    /// How the MPI's launcher is told of the job's hosts: by their addresses, but for its own host where it does
    /// not know itself by that.
    pub(crate) fn names(&self, members: &[Member], mpi: &Installation) -> Vec<String> {
        let launcher = self.launcher.as_ref().map(Member::name);
        let name = |(member, address): (&Member, &Ipv4Addr)| match mpi.name_of_own_host() {
            Some(name) if launcher == Some(member.name()) => name.to_owned(),
            _ => address.to_string(),
        };
        members.iter().zip(&self.addresses).map(name).collect()
    }

    /// What every rank is told of the network.
    pub(crate) fn own_variables(&self) -> Vec<(String, String)> {
        let mut vars = vec![("WIGLAF_NET".to_owned(), self.network.data.to_string())];
        if let Some(ports) = self.network.ports {
            vars.push(("WIGLAF_PORTS".to_owned(), String::from(ports)));
        }
        if ssh::may_be_frozen() && std::env::var_os(SILENCE_VAR).is_none() {
            // A job that stands still owes answers for as long; machines are asked all the same.
            vars.push((SILENCE_VAR.to_owned(), "24h".to_owned()));
        }
        vars
    }

    /// What an MPI's launcher and its ranks are told besides. What the user has set stays.
    pub(crate) fn variables(
        &self,
        mpi: &Installation,
        user: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Vec<(String, String)>> {
        let mut vars = self.own_variables();
        let (data, launching) =
            (self.network.data.to_string(), self.network.launching().to_string());
        let mut set = |name: &str, value: String| vars.push((name.to_owned(), value));
        set("UCX_NET_DEVICES", self.data_interfaces.join(","));
        if let [name] = &self.data_interfaces[..] {
            set("FI_TCP_IFACE", name.clone());
            set("FI_UDP_IFACE", name.clone());
        }
        match mpi.family {
            Family::OpenMpi if mpi.is_prrte() => {
                set("PRTE_MCA_prte_if_include", launching);
                set("PRTE_MCA_plm_ssh_no_tree_spawn", "1".to_owned());
                set("OMPI_MCA_btl_tcp_if_include", data);
            }
            Family::OpenMpi => {
                set("OMPI_MCA_oob_tcp_if_include", launching);
                set("OMPI_MCA_plm_rsh_no_tree_spawn", "1".to_owned());
                set("OMPI_MCA_btl_tcp_if_include", data);
                if let Some(ports) = self.network.ports {
                    let own = slice(ports, random::nonzero()?);
                    set("OMPI_MCA_oob_tcp_dynamic_ipv4_ports", String::from(own));
                }
            }
            Family::Mpich | Family::Intel => {
                let name = self.launching_interface.clone().ok_or_else(|| {
                    Error::new(format!("this host has no address in the network {launching}"))
                })?;
                let variable = match mpi.family {
                    Family::Intel => "I_MPI_HYDRA_IFACE",
                    _ => "HYDRA_IFACE",
                };
                set(variable, name);
                if let Some(ports) = self.network.ports {
                    set("MPIEXEC_PORT_RANGE", format!("{}:{}", ports.first, ports.last));
                }
            }
        }
        if let Some(ports) = self.network.ports
            && mpi.family == Family::OpenMpi
        {
            set("OMPI_MCA_btl_tcp_port_min_v4", ports.first.to_string());
            set("OMPI_MCA_btl_tcp_port_range_v4", (ports.last - ports.first).to_string());
        }
        vars.retain(|(name, _)| user(name).is_none());
        vars.push((HOSTS_VAR.to_owned(), self.list.clone()));
        Ok(vars)
    }
}

/// A few of the ports for the launcher of one job: Open MPI's takes all that it is offered, and the next
/// one would have none.
fn slice(ports: Ports, random: u64) -> Ports {
    /// Of one launcher.
    const LEN: u16 = 8;
    let slices = (ports.last - ports.first + 1) / LEN;
    let first = ports.first + LEN * (random % u64::from(slices.max(1))) as u16;
    Ports { first, last: (first + LEN - 1).min(ports.last) }
}

/// What a host says, if its Wiglaf is this one.
///
/// # Errors
/// When it is not reached, or has another version.
pub(crate) fn hello_of(member: &Member) -> Result<HostHello> {
    let hello = member.node.hello()?;
    let name = member.name();
    let host = hello.host.ok_or_else(|| Error::new(format!("{name} is no real host")))?;
    let own = env!("CARGO_PKG_VERSION");
    match host.wiglaf == own {
        true => Ok(host),
        false => Err(Error::new(format!(
            "{name} has Wiglaf {}, and this host {own}; install the same one: `wiglaf join {name}`",
            host.wiglaf
        ))),
    }
}

/// How long ranks wait for each other.
const SILENCE_VAR: &str = "WIGLAF_SILENCE_LIMIT";

/// What a file is for, and so what to do where it is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Program,
    Folder,
    Mpi,
    Ours,
}

/// Fails when a host lacks what the job needs, or has another of that name.
fn check_files(name: &OsStr, members: &[Member], needed: &Needed<'_>) -> Result<()> {
    let mut wanted: Vec<(Purpose, PathBuf)> = Vec::new();
    let found = program::find_program(name).ok_or_else(|| program::no_program(name))?;
    wanted.push((Purpose::Folder, working_folder()?));
    wanted.push((Purpose::Program, std::path::absolute(&found).unwrap_or(found)));
    if let Some(mpi) = needed.mpi {
        wanted.push((Purpose::Mpi, mpi.library.clone()));
        let daemon = mpi.launcher.parent().map(|bin| bin.join(mpi.daemon()));
        wanted.extend(daemon.map(|daemon| (Purpose::Mpi, daemon)));
    }
    let ours = needed.provider.iter().map(|provider| provider.dir.join("libwiglaf-fi.so"));
    wanted.extend(ours.map(|file| (Purpose::Ours, file)));
    let preload = needed.preload.iter().map(|preload| preload.folder.clone());
    wanted.extend(preload.map(|folder| (Purpose::Ours, folder)));
    let paths: Vec<PathBuf> = wanted.iter().map(|(_, path)| path.clone()).collect();
    let here: Vec<Option<Seen>> = paths.iter().map(|path| look(path)).collect();
    let others = cluster::elsewhere(members);
    let seen = cluster::ask_all(&others, |member| {
        let there = member.node.look(&paths)?;
        for (((purpose, path), here), there) in wanted.iter().zip(&here).zip(&there) {
            // What is not here either is not needed.
            if let Some(here) = here {
                compare(*purpose, path, here, there.as_ref(), member.name(), needed)?;
            }
        }
        Ok(())
    });
    cluster::all_or_error(&others, seen).map(drop)
}

fn compare(
    purpose: Purpose,
    path: &Path,
    here: &Seen,
    there: Option<&Seen>,
    host: &str,
    needed: &Needed<'_>,
) -> Result<()> {
    let shown = path.display();
    let is_same = there.is_some_and(|there| match here.is_folder {
        true => there.is_folder,
        false => (there.len, there.digest) == (here.len, here.digest) && !there.is_folder,
    });
    let may_run = there.is_some_and(|there| there.is_executable >= here.is_executable);
    if is_same && may_run {
        return Ok(());
    }
    let lacks = there.is_none();
    Err(Error::new(match purpose {
        Purpose::Folder => format!(
            "{host} has no folder {shown}, where you are; make it there, go to one that all hosts have, let \
             `wiglaf run --share` mount this one there, or `wiglaf run --stage` bring what is needed"
        ),
        Purpose::Program if lacks => format!(
            "{host} has no {shown}: the folder is not shared between the hosts; copy the program there, let \
             `wiglaf run --share` mount this folder there, or `wiglaf run --stage` copy the program"
        ),
        Purpose::Program if !is_same => format!(
            "{host} has another {shown} than this host: it would not be the same program; copy it there, \
             or let `wiglaf run --stage` do so"
        ),
        Purpose::Program => {
            format!("{host} may not run {shown}; make it executable there: `chmod +x {shown}`")
        }
        Purpose::Mpi => {
            let mpi = needed.mpi.map_or_else(|| "MPI".to_owned(), Installation::summary);
            match lacks {
                true => format!("{host} lacks {mpi} ({shown}); install it there as here"),
                false => format!(
                    "{host} has another build of {} than this host ({shown} differs); install the same \
                     one on both, or run on hosts of one release with -w",
                    needed.mpi.map_or("MPI", |mpi| mpi.family.name())
                ),
            }
        }
        Purpose::Ours => format!(
            "{host} {} {shown}, which is Wiglaf's; install this build there: `wiglaf join {host}`",
            if lacks { "lacks" } else { "has another" }
        ),
    }))
}

/// The program that launchers call instead of ssh: a script in the user's cache that calls `exe`, as
/// hydra takes no arguments there.
fn agent_program(exe: &Path) -> Result<PathBuf> {
    let folder = wiglaf_mpi::name_dirs(None).pop();
    let folder = folder.ok_or_else(|| {
        Error::new("there is no folder for Wiglaf's files; set HOME to one that you may write")
    })?;
    let shown = exe.display().to_string();
    if shown.contains('\'') {
        return Err(Error::new(format!(
            "{shown} cannot be called from a script; install it elsewhere"
        )));
    }
    let text = format!("#!/bin/sh\nexec '{shown}' agent \"$@\"\n");
    let path = folder.join("agent");
    if fs::read_to_string(&path).is_ok_and(|there| there == text) {
        return Ok(path);
    }
    fs::create_dir_all(&folder).cannot(|| format!("make the folder {}", folder.display()))?;
    // Whole or not at all: another job may be calling it.
    let new = folder.join(format!("agent.{}", std::process::id()));
    fs::write(&new, text)
        .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(0o755)))
        .and_then(|()| fs::rename(&new, &path))
        .cannot(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// Watches the hosts of a job, and ends it when one is lost.
#[derive(Debug)]
pub(crate) struct Guard {
    is_released: Arc<AtomicBool>,
    lost: Arc<Mutex<Option<Error>>>,
}

impl Guard {
    /// `end` ends the job.
    pub(crate) fn new(leases: &[Lease], end: impl Fn() + Clone + Send + 'static) -> Result<Self> {
        let guard = Self { is_released: Arc::default(), lost: Arc::default() };
        for lease in leases {
            let (lease, end) = (lease.try_clone()?, end.clone());
            let (is_released, lost) = (guard.is_released.clone(), guard.lost.clone());
            let watch = move || {
                if let Err(error) = lease.watch(&is_released) {
                    let mut lost = lost.lock().unwrap_or_else(PoisonError::into_inner);
                    lost.get_or_insert(error);
                    drop(lost);
                    end();
                }
            };
            std::thread::Builder::new().spawn(watch).cannot(|| "start a thread".to_owned())?;
        }
        Ok(guard)
    }

    /// For somebody else who watches: gives the job up for a reason, unless it has ended or was given up before.
    pub(crate) fn giver_up(&self) -> impl Fn(Error) -> bool + Clone + Send + 'static + use<> {
        let (is_released, lost) = (self.is_released.clone(), self.lost.clone());
        move |why| {
            if is_released.load(Ordering::SeqCst) {
                return false;
            }
            lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
            true
        }
    }

    /// Ends the watch. Fails when a host was lost before.
    pub(crate) fn end(self) -> Result<()> {
        self.is_released.store(true, Ordering::SeqCst);
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner).take();
        lost.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_of_two_jobs_have_ports_of_their_own_within_the_range() {
        let all = Ports { first: 47_000, last: 47_039 };
        let slices: Vec<(u16, u16)> = (0..10)
            .map(|random| slice(all, random))
            .map(|ports| (ports.first, ports.last))
            .collect();
        assert_eq!(
            slices[..5],
            [
                (47_000, 47_007),
                (47_008, 47_015),
                (47_016, 47_023),
                (47_024, 47_031),
                (47_032, 47_039)
            ]
        );
        assert_eq!(slices[..5], slices[5..]);
    }
}
