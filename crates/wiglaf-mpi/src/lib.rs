//! The one table of environment variables that make an MPI use a transport.
//!
//! `wiglaf run`, `wiglaf env` and the benchmarks all read it from here. Which
//! MPIs there are is found in [`discover`]; each family's own part of the table
//! is a module.

#![forbid(unsafe_code)]

mod abi;
pub mod discover;
pub mod fortran;
mod front;
mod hydra;
mod installation;
mod launcher;
pub mod ld;
mod openmpi;
pub mod preloads;
pub mod provider;
pub mod quiet;
pub mod rules;
pub mod windows;

pub use abi::{check as check_abi, is_linked};
pub use discover::{Choice, Which};
pub use front::{Front, LibfabricChoice};
pub use installation::{Family, Installation, Libfabric, Origin, Wrappers, numbers};
pub use launcher::{Deal, Placement};
pub use openmpi::{never_ends_stdin, windows_need_ob1};

use std::path::{Path, PathBuf};
use std::time::Duration;

use wiglaf_base::error::{Error, Result};
use wiglaf_base::paths::{AGENT, INTERFACE, LIBDIR_VAR, NODE_VAR, STATE_VAR};
use wiglaf_base::{machine, random};
use wiglaf_link::LinkKind;

use fortran::FortranTrue;

/// How MPI messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// Over Wiglaf's libfabric provider.
    #[default]
    Wiglaf,
    /// Over the MPI's own TCP: Open MPI's btl/tcp, or what MPICH and Intel MPI
    /// choose of libfabric's `tcp`.
    Tcp,
    /// Over UCX, restricted to TCP.
    Ucx,
    /// Over libfabric's own `tcp;ofi_rxm`.
    OfiTcp,
    /// Over libfabric's own reliable datagrams, `udp;ofi_rxd`.
    OfiRxd,
}

/// Why collectives as frames to all hosts are refused, where messages do not go over Wiglaf.
#[must_use]
pub fn no_multicast() -> Error {
    Error::new(
        "multicast collectives go with an MPI over Wiglaf: leave --collectives multicast out, or take \
         an MPI and --transport wiglaf",
    )
}

impl Transport {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::Wiglaf, Self::Tcp, Self::Ucx, Self::OfiTcp, Self::OfiRxd];

    /// As users write it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Wiglaf => "wiglaf",
            Self::Tcp => "tcp",
            Self::Ucx => "ucx",
            Self::OfiTcp => "ofi-tcp",
            Self::OfiRxd => "ofi-rxd",
        }
    }
}

/// A network that joins hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// As in `192.168.77.0/24`: each host has one address in it.
    pub cidr: String,
    /// What the host of the launcher calls its interface there: MPICH's launcher knows names only.
    pub interface: Option<String>,
}

/// Everything that the environment of a job depends on, besides its MPI.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// How messages travel.
    pub transport: Transport,
    /// Which of Wiglaf's links.
    pub link: LinkKind,
    /// The only interface to use.
    pub interface: Option<String>,
    /// The network to use in place of an interface, where hosts call theirs differently.
    pub network: Option<Network>,
    /// Whether the user has named interface or network in this call: what their environment says is
    /// then older.
    pub interface_is_asked: bool,
    /// Where nodes are other machines, which lose power and cables: for how long the launcher endures it that
    /// one is silent. None: as long as the MPI does by itself.
    pub silence: Option<Duration>,
    /// Which libfabric the user wants.
    pub libfabric: LibfabricChoice,
    /// What the launcher calls instead of ssh.
    pub agent: Option<String>,
    /// Whether root starts it, which Open MPI refuses unless told otherwise.
    pub as_root: bool,
    /// Whether somebody ends what the launcher leaves, so that it need not take its time.
    pub leased: bool,
    /// Whether ranks share cores and should yield when idle.
    pub oversubscribed: bool,
    /// Whether it is known that the program makes no MPI windows ([`windows`]).
    pub without_windows: bool,
    /// The secret of the job, 32 hexadecimal digits.
    pub key: String,
    /// Where the provider is; needed for [`Transport::Wiglaf`] only.
    pub provider_dir: Option<PathBuf>,
    /// Wiglaf's own libfabric before the MPI's, where it can stand there.
    pub front: Option<Front>,
    /// Folders, the best first, in which library names may be made; needed for
    /// programs that know MPICH by another name.
    pub name_dirs: Vec<PathBuf>,
}

/// Variables of the caller that every rank should have, as under other launchers.
const FORWARDED: [&str; 5] =
    ["LD_LIBRARY_PATH", "LD_PRELOAD", "OMP_NUM_THREADS", "PYTHONPATH", "TMPDIR"];
/// Prefixes of variables that concern us and the rivals.
const FORWARDED_PREFIXES: [&str; 3] = ["WIGLAF_", "FI_", "UCX_"];
/// These are each node's own.
const NOT_FORWARDED: [&str; 4] = [NODE_VAR, STATE_VAR, LIBDIR_VAR, CLUSTER_FILE];
/// Names the cluster file, which is where the command is called.
const CLUSTER_FILE: &str = "WIGLAF_CLUSTER";
/// The secret of the job.
pub const KEY_VAR: &str = "WIGLAF_KEY";

/// The variable that tells ranks that they share cores.
pub const OVERSUBSCRIBED_VAR: &str = "WIGLAF_OVERSUBSCRIBED";
/// What libfabric looks for providers in.
const PROVIDER_PATH: &str = "FI_PROVIDER_PATH";
/// What programs and the loader look for libraries in.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// For so long a launcher of the user's own endures it that a host is silent: one without power is given up, and
/// a cable that is out for 5 s is borne.
const SILENCE: Duration = Duration::from_secs(7);

/// Looks up a variable that the user has set.
pub type User<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Settings {
    /// The variables to set. `user` looks up what the user has set: choices of
    /// the transport replace it, mere defaults do not.
    ///
    /// # Errors
    /// When the transport needs a provider and there is none, or the MPI does
    /// not have the transport.
    pub fn environment(&self, mpi: &Installation, user: User<'_>) -> Result<Vec<(String, String)>> {
        let mut table = Table { user, vars: Vec::new() };
        table.vars.extend(mpi.own_variables());
        let mut dirs = abi::library_dirs(mpi, &self.name_dirs)?;
        if let Some(front) = &self.front {
            dirs.insert(0, front.dir.clone());
            table.choose(front::BEHIND_VAR, &front.behind.display().to_string());
        }
        let users = user(LIBRARY_PATH);
        let kept = users.as_deref().map(provider::without_front);
        if !dirs.is_empty() || kept != users {
            table.choose(LIBRARY_PATH, &installation::join_path(&dirs, kept.as_deref()));
        }
        match mpi.family {
            Family::OpenMpi => openmpi::set(self, mpi, &mut table)?,
            Family::Mpich | Family::Intel => hydra::set(self, mpi, &mut table)?,
        }
        Ok(table.vars)
    }

    /// What every MPI sets for Wiglaf's provider.
    fn provider(&self, table: &mut Table<'_>) -> Result<()> {
        let dir = self.provider_dir.as_ref().ok_or_else(|| {
            Error::new("the transport `wiglaf` needs the libfabric provider; see `wiglaf doctor`")
        })?;
        let users = (table.user)(PROVIDER_PATH);
        let others = users.as_deref().map(crate::provider::without_ours);
        let path = installation::join_path(std::slice::from_ref(dir), others.as_deref());
        table.choose(PROVIDER_PATH, &path);
        match self.link {
            LinkKind::Auto => table.default("WIGLAF_LINK", self.link.name()),
            link => table.choose("WIGLAF_LINK", link.name()),
        }
        if self.oversubscribed {
            table.default(OVERSUBSCRIBED_VAR, "on");
        }
        table.choose(KEY_VAR, &self.key);
        if let Some(interface) = &self.interface {
            let theirs = ["WIGLAF_IF", "WIGLAF_IP", "WIGLAF_NET"].map(str::to_owned);
            self.direct("WIGLAF_IF", theirs.into_iter(), interface, table);
        }
        Ok(())
    }

    /// What a host says of itself, which has `interface` in the job's network: no launcher must send
    /// the name that another host's interface has.
    #[must_use]
    pub fn of_host(&self, interface: &str) -> Vec<(String, String)> {
        let name = match self.transport {
            Transport::Wiglaf => "WIGLAF_IF",
            Transport::Ucx => "UCX_NET_DEVICES",
            Transport::Tcp | Transport::OfiTcp => "FI_TCP_IFACE",
            Transport::OfiRxd => "FI_UDP_IFACE",
        };
        vec![(name.to_owned(), interface.to_owned())]
    }

    /// UCX, restricted to TCP.
    fn ucx_over_tcp(&self, table: &mut Table<'_>) {
        table.choose("UCX_TLS", "tcp,self,sm");
        self.interface_of_libfabric("UCX_NET_DEVICES", table);
    }

    /// The network or interface, for what takes either.
    fn include(&self) -> Option<&str> {
        let network = self.network.as_ref().map(|network| network.cidr.as_str());
        network.or(self.interface.as_deref())
    }

    /// Sets a variable that takes the name of an interface on each host ([`Self::of_host`]).
    fn interface_of_libfabric(&self, name: &str, table: &mut Table<'_>) {
        if let Some(interface) = self.interface.as_ref().filter(|_| self.network.is_none()) {
            self.direct(name, [name.to_owned()].into_iter(), interface, table);
        }
    }

    /// Sets what says where connections go, unless the user has set it, or one of `theirs`, which say
    /// the same or the contrary. Who names an interface in this call means that.
    fn direct(
        &self,
        name: &str,
        mut theirs: impl Iterator<Item = String>,
        value: &str,
        table: &mut Table<'_>,
    ) {
        if self.interface_is_asked || theirs.all(|name| (table.user)(&name).is_none()) {
            table.choose(name, value);
        }
    }
}

/// Whether an installation has a transport.
#[must_use]
pub fn carries(mpi: &Installation, transport: Transport) -> bool {
    match (transport, mpi.family) {
        (Transport::Tcp | Transport::Ucx, Family::OpenMpi) => true,
        (Transport::Ucx, Family::Mpich) => mpi.has_ucx(),
        // Over what it is built on; only Wiglaf needs the one.
        (Transport::Tcp, Family::Mpich) => mpi.libfabric().is_there() || mpi.has_ucx(),
        (Transport::Ucx, Family::Intel) => false,
        _ => mpi.libfabric().is_there(),
    }
}

/// The installation that is meant, for a transport.
///
/// # Errors
/// When there is none that has it; the sentence says what to install.
pub fn installation(choice: &Choice, transport: Transport) -> Result<Installation> {
    if (transport, choice.family) == (Transport::Ucx, Family::Intel) {
        return Err(Error::new(
            "Intel MPI has no UCX of its own; take --transport tcp to compare with TCP",
        ));
    }
    // So that a comparison is one of the transport alone, it is the one that carries Wiglaf, if there is one.
    let mpi = discover::find_that(choice, |mpi| match (transport, choice.family) {
        (Transport::Tcp, Family::Mpich) => mpi.libfabric().is_there(),
        _ => carries(mpi, transport),
    })
    .or_else(|_| discover::find_that(choice, |mpi| carries(mpi, transport)))?;
    if carries(&mpi, transport) {
        return Ok(mpi);
    }
    let (name, install) = (choice.family.name(), choice.family.install_command(None));
    Err(Error::new(match mpi.libfabric() {
        Libfabric::NotFound => format!(
            "{} finds no libfabric to load; run `apt-get install libfabric1`",
            mpi.summary()
        ),
        _ => format!(
            "{} never loads libfabric; its programs run unchanged on another one: take \
             `--mpi {name}`, after `{install}` if need be",
            mpi.summary()
        ),
    }))
}

/// The variable that makes a launcher hand the variables of a job to remote
/// ranks: those of `vars`, of the caller's environment, `names`, and all that were `asked` for.
///
/// A launcher sends their values over a TCP connection of its own that is not
/// encrypted. Where its daemons are started `by_agent`, they have the job's
/// secret from there, past the network.
#[must_use]
pub fn forwarding(
    family: Family,
    by_agent: bool,
    vars: &[(String, String)],
    asked: &[(String, String)],
    names: impl Iterator<Item = String>,
    user: User<'_>,
) -> Option<(String, String)> {
    let (variable, prefixes) = match family {
        Family::OpenMpi => (openmpi::ENV_LIST, openmpi::FORWARDED_PREFIXES),
        Family::Mpich | Family::Intel => (hydra::ENV_LIST, hydra::FORWARDED_PREFIXES),
    };
    let users: Vec<String> = match family {
        Family::OpenMpi => user(variable)
            .into_iter()
            .flat_map(|list| list.split(';').map(str::to_owned).collect::<Vec<_>>())
            .collect(),
        // Theirs would be `all`, or a list for one program.
        Family::Mpich | Family::Intel => Vec::new(),
    };
    // By itself hydra hands all on, over any connection; a list in its variable is nobody's.
    if family == Family::Mpich && !by_agent {
        return None;
    }
    let mut list: Vec<String> = vars
        .iter()
        .map(|(name, _)| name.clone())
        .chain(names)
        .filter(|name| {
            let ours = FORWARDED_PREFIXES.iter().chain(prefixes).any(|p| name.starts_with(p));
            ours && !launcher::is_launchers_own(name) || FORWARDED.contains(&name.as_str())
        })
        .chain(users)
        .chain(asked.iter().map(|(name, _)| name.clone()))
        .filter(|name| !NOT_FORWARDED.contains(&name.as_str()))
        .filter(|name| !by_agent || name != KEY_VAR)
        .collect();
    list.sort();
    list.dedup();
    let value = match family {
        Family::OpenMpi => list.join(";"),
        Family::Mpich | Family::Intel => format!("{}{}", hydra::LIST, list.join(",")),
    };
    (!list.is_empty()).then(|| (variable.to_owned(), value))
}

/// What a user's own launcher shall do.
#[derive(Debug, Clone)]
pub struct Own<'a> {
    /// Which MPI it is of.
    pub mpi: &'a Choice,
    /// How messages travel.
    pub transport: Transport,
    /// Which of Wiglaf's links.
    pub link: LinkKind,
    /// Which libfabric.
    pub libfabric: LibfabricChoice,
    /// The only interface, if the user names one.
    pub interface: Option<String>,
    /// What programs store for .TRUE..
    pub fortran_true: FortranTrue,
    /// Whether collectives go to all hosts at once.
    pub multicast: bool,
}

/// The environment for one's own launcher, on a node of an emulated cluster or
/// elsewhere. `exe` is the running `wiglaf`.
///
/// # Errors
/// When the MPI or the provider is needed and missing, or what is asked for does not go together.
pub fn own_environment(own: &Own<'_>, exe: &Path) -> Result<Vec<(String, String)>> {
    let Own { mpi: choice, transport, link, libfabric, fortran_true, multicast, .. } = *own;
    let interface = own.interface.clone();
    if multicast && transport != Transport::Wiglaf {
        return Err(no_multicast());
    }
    let on_node = std::env::var_os(NODE_VAR).is_some();
    interface.as_deref().map_or(Ok(()), is_here)?;
    let mpi = installation(choice, transport)?;
    let provider = match transport {
        Transport::Wiglaf => Some(crate::provider::find(exe)?),
        _ => None,
    };
    let state = std::env::var_os(STATE_VAR).map(PathBuf::from);
    let settings = Settings {
        transport,
        link,
        interface_is_asked: interface.is_some(),
        interface: interface.or_else(|| on_node.then(|| INTERFACE.to_owned())),
        libfabric,
        silence: (!on_node).then_some(SILENCE),
        agent: on_node.then(|| AGENT.to_owned()),
        as_root: machine::is_root(),
        leased: false,
        oversubscribed: false,
        key: random::key()?,
        front: provider.as_ref().and_then(|p| Front::choose(libfabric, p, &mpi)),
        provider_dir: provider.map(|p| p.dir),
        name_dirs: name_dirs(state.filter(|_| on_node).as_deref()),
        ..Settings::default()
    };
    let user = |name: &str| std::env::var(name).ok();
    let mut vars = settings.environment(&mpi, &user)?;
    if mpi.origin == Origin::Prefix {
        // So that the launcher and the compilers are this one's.
        let path = installation::join_path(&[mpi.prefix.join("bin")], user("PATH").as_deref());
        vars.push(("PATH".to_owned(), path));
    }
    let mut preload = fortran::preload_here(fortran_true, exe)?;
    if multicast {
        preload = Some(preloads::multicast_here(&mpi, preload, exe, user)?);
    }
    vars.extend(preload.into_iter().flat_map(|preload| preload.vars));
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    vars.extend(forwarding(mpi.family, on_node, &vars, &[], names, &user));
    Ok(vars)
}

/// Whether this machine has the interface: launchers and ranks would each say so in a page of their own,
/// or take another one in silence.
fn is_here(interface: &str) -> Result<()> {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    // Without /sys nobody knows.
    if names.is_empty() || names.iter().any(|name| name == interface) {
        return Ok(());
    }
    Err(Error::new(format!("there is no interface {interface} here, only {}", names.join(", "))))
}

/// Where library names may be made: in a cluster's state folder, which goes
/// with the cluster and which all its nodes see, or else in the user's cache.
#[must_use]
pub fn name_dirs(state: Option<&Path>) -> Vec<PathBuf> {
    let cache = wiglaf_base::paths::user_cache();
    let cache = cache.map(|cache| cache.join("wiglaf"));
    state.map(Path::to_path_buf).into_iter().chain(cache).collect()
}

/// Variables under construction.
pub(crate) struct Table<'a> {
    user: User<'a>,
    vars: Vec<(String, String)>,
}

impl Table<'_> {
    /// Sets a variable whatever the user has set.
    fn choose(&mut self, name: &str, value: &str) {
        self.vars.push((name.to_owned(), value.to_owned()));
    }

    /// Sets a variable that the user has not set.
    fn default(&mut self, name: &str, value: &str) {
        if (self.user)(name).is_none() {
            self.choose(name, value);
        }
    }
}

#[cfg(test)]
mod tests;
