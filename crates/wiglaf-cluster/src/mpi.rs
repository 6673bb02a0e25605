//! The one table of environment variables that make an MPI use a transport.
//!
//! `wiglaf run`, `wiglaf env` and the benchmarks all read it from here.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::fortran::{self, FortranTrue};

/// How MPI messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// Over Wiglaf's libfabric provider.
    #[default]
    Wiglaf,
    /// Over Open MPI's own TCP.
    Tcp,
    /// Over UCX, restricted to TCP.
    Ucx,
    /// Over libfabric's own `tcp;ofi_rxm`.
    OfiTcp,
}

/// Which of Wiglaf's links to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Link {
    /// The best that works.
    #[default]
    Auto,
    /// Plain UDP sockets.
    Udp,
    /// AF_PACKET.
    Packet,
    /// Shared memory only.
    Shm,
}

impl Link {
    /// As users and `WIGLAF_LINK` write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Udp => "udp",
            Self::Packet => "packet",
            Self::Shm => "shm",
        }
    }
}

/// Everything that the environment of an Open MPI job depends on.
#[derive(Debug, Clone, Default)]
pub struct OpenMpi {
    /// How messages travel.
    pub transport: Transport,
    /// Which of Wiglaf's links.
    pub link: Link,
    /// The only interface to use.
    pub interface: Option<String>,
    /// What Open MPI calls instead of ssh.
    pub agent: Option<String>,
    /// Whether root starts it, which Open MPI refuses unless told otherwise.
    pub as_root: bool,
    /// Whether ranks share cores and should yield when idle.
    pub oversubscribed: bool,
    /// The secret of the job, 32 hexadecimal digits.
    pub key: String,
    /// Where the provider is; needed for [`Transport::Wiglaf`] only.
    pub provider_dir: Option<PathBuf>,
}

/// Variables of the caller that every rank should have, as under other launchers.
const FORWARDED: [&str; 5] =
    ["LD_LIBRARY_PATH", "LD_PRELOAD", "OMP_NUM_THREADS", "PYTHONPATH", "TMPDIR"];
/// Prefixes of variables that concern us and the rivals.
const FORWARDED_PREFIXES: [&str; 3] = ["WIGLAF_", "FI_", "UCX_"];
/// These are each node's own.
const NOT_FORWARDED: [&str; 3] =
    [crate::proto::NODE_VAR, crate::proto::STATE_VAR, crate::provider::LIBDIR_VAR];
/// Lists the variables that mpirun hands to remote ranks.
const ENV_LIST: &str = "OMPI_MCA_mca_base_env_list";

impl OpenMpi {
    /// The variables to set. `user` looks up what the user has set: choices of
    /// the transport replace it, mere defaults do not.
    ///
    /// # Errors
    /// When the transport needs a provider and there is none.
    pub fn environment(
        &self,
        user: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Vec<(String, String)>> {
        let mut table = Table { user, vars: Vec::new() };
        self.launching(&mut table);
        match self.transport {
            Transport::Wiglaf => self.wiglaf(&mut table)?,
            Transport::Tcp => {
                table.choose("OMPI_MCA_pml", "ob1");
                table.choose("OMPI_MCA_btl", "self,vader,tcp");
                // Debian switches the other one-sided ways off.
                table.default("OMPI_MCA_osc", "rdma,sm,pt2pt");
            }
            Transport::Ucx => self.ucx(&mut table),
            Transport::OfiTcp => {
                table.choose("OMPI_MCA_pml", "cm");
                table.choose("OMPI_MCA_mtl", "ofi");
                table.choose("OMPI_MCA_btl", "self");
                table.choose("OMPI_MCA_mtl_ofi_provider_include", "tcp;ofi_rxm");
                table.default("OMPI_MCA_osc", "pt2pt");
                if let Some(interface) = &self.interface {
                    table.default("FI_TCP_IFACE", interface);
                }
            }
        }
        Ok(table.vars)
    }

    fn launching(&self, table: &mut Table<'_>) {
        if let Some(agent) = &self.agent {
            table.choose("OMPI_MCA_plm_rsh_agent", agent);
        }
        if let Some(interface) = &self.interface {
            table.choose("OMPI_MCA_oob_tcp_if_include", interface);
            table.choose("OMPI_MCA_btl_tcp_if_include", interface);
        }
        if self.as_root {
            table.choose("OMPI_ALLOW_RUN_AS_ROOT", "1");
            table.choose("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        // The nodes pin already; a policy of Open MPI's would work against it.
        table.default("OMPI_MCA_hwloc_base_binding_policy", "none");
        if self.oversubscribed {
            table.default("OMPI_MCA_mpi_yield_when_idle", "1");
        }
    }

    fn wiglaf(&self, table: &mut Table<'_>) -> Result<()> {
        let dir = self.provider_dir.as_ref().ok_or_else(|| {
            Error::new("the transport `wiglaf` needs the libfabric provider; see `wiglaf doctor`")
        })?;
        table.choose("OMPI_MCA_pml", "cm");
        table.choose("OMPI_MCA_mtl", "ofi");
        table.choose("OMPI_MCA_mtl_ofi_provider_include", "wiglaf");
        // pml/cm carries everything; further transports would only open sockets.
        table.choose("OMPI_MCA_btl", "self");
        table.default("OMPI_MCA_osc", "pt2pt");
        table.choose("FI_PROVIDER_PATH", &dir.display().to_string());
        table.choose("WIGLAF_LINK", self.link.name());
        table.choose("WIGLAF_KEY", &self.key);
        if let Some(interface) = &self.interface
            && (table.user)("WIGLAF_IP").is_none()
        {
            table.default("WIGLAF_IF", interface);
        }
        Ok(())
    }

    fn ucx(&self, table: &mut Table<'_>) {
        table.choose("OMPI_MCA_pml", "ucx");
        table.choose("OMPI_MCA_osc", "ucx");
        table.choose("OMPI_MCA_btl", "self");
        // Else it steps back where it finds no InfiniBand.
        table.choose("OMPI_MCA_pml_ucx_tls", "any");
        table.choose("OMPI_MCA_pml_ucx_devices", "any");
        table.choose("UCX_TLS", "tcp,self,sm");
        if let Some(interface) = &self.interface {
            table.choose("UCX_NET_DEVICES", interface);
        }
    }
}

/// Adds the list of variables that mpirun must hand to remote ranks: those of
/// `vars`, and those of the caller's environment, `names`.
#[must_use]
pub fn forwarding(
    vars: &[(String, String)],
    names: impl Iterator<Item = String>,
    user: &dyn Fn(&str) -> Option<String>,
) -> Option<(String, String)> {
    let mut list: Vec<String> = user(ENV_LIST)
        .into_iter()
        .flat_map(|list| list.split(';').map(str::to_owned).collect::<Vec<_>>())
        .chain(vars.iter().map(|(name, _)| name.clone()))
        .chain(names)
        .filter(|name| {
            let ours = FORWARDED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            let known = ours || FORWARDED.contains(&name.as_str());
            (known || user(ENV_LIST).is_some_and(|l| l.split(';').any(|n| n == name)))
                && !NOT_FORWARDED.contains(&name.as_str())
        })
        .collect();
    list.sort();
    list.dedup();
    (!list.is_empty()).then(|| (ENV_LIST.to_owned(), list.join(";")))
}

/// The environment for one's own `mpirun`, on a node of an emulated cluster or
/// elsewhere. `exe` is the running `wiglaf`.
///
/// # Errors
/// When the provider is needed and missing.
pub fn own_environment(
    transport: Transport,
    link: Link,
    interface: Option<String>,
    fortran_true: FortranTrue,
    exe: &Path,
) -> Result<Vec<(String, String)>> {
    let on_node = std::env::var_os(crate::proto::NODE_VAR).is_some();
    let provider_dir = match transport {
        Transport::Wiglaf => Some(crate::provider::find(exe)?.dir),
        _ => None,
    };
    let environment = OpenMpi {
        transport,
        link,
        interface: interface.or_else(|| on_node.then(|| crate::shape::INTERFACE.to_owned())),
        agent: on_node.then(|| format!("{} agent", crate::init::EXE)),
        as_root: crate::launch::is_root(),
        oversubscribed: false,
        key: crate::random::key()?,
        provider_dir,
    };
    let user = |name: &str| std::env::var(name).ok();
    let mut vars = environment.environment(&user)?;
    vars.extend(fortran::preload_here(fortran_true, exe)?.into_iter().flat_map(|p| p.vars));
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    vars.extend(forwarding(&vars, names, &user));
    Ok(vars)
}

/// Variables under construction.
struct Table<'a> {
    user: &'a dyn Fn(&str) -> Option<String>,
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

/// Finds Open MPI's `mpirun`.
///
/// # Errors
/// When it is not installed.
pub fn find_openmpi() -> Result<PathBuf> {
    if let Some(path) = find_program("mpirun.openmpi") {
        return Ok(path);
    }
    if let Some(path) = find_program("mpirun").filter(|path| version(path).is_some()) {
        return Ok(path);
    }
    Err(Error::not_found(
        "Open MPI is not installed (no mpirun of its in the PATH); run `apt-get install openmpi-bin`",
    ))
}

/// The version of an Open MPI `mpirun`, if it is one.
#[must_use]
pub fn version(mpirun: &Path) -> Option<String> {
    let output = Command::new(mpirun).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Under the name mpirun.openmpi it calls itself OpenRTE.
    let line = text.lines().next()?;
    let behind = ["(Open MPI)", "(OpenRTE)"].iter().find_map(|name| line.split_once(name))?.1;
    Some(behind.trim().to_owned())
}

/// Finds a program as a shell does.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let runs = |path: &PathBuf| {
        path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(runs);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody(_: &str) -> Option<String> {
        None
    }

    fn get<'a>(vars: &'a [(String, String)], name: &str) -> Option<&'a str> {
        vars.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    #[test]
    fn wiglaf_goes_through_libfabric_and_reaches_remote_ranks() {
        let mpi = OpenMpi {
            key: "00".repeat(16),
            provider_dir: Some("/lib/w".into()),
            link: Link::Packet,
            ..OpenMpi::default()
        };
        let vars = mpi.environment(&nobody).unwrap();
        assert_eq!(get(&vars, "OMPI_MCA_mtl_ofi_provider_include"), Some("wiglaf"));
        assert_eq!(get(&vars, "WIGLAF_LINK"), Some("packet"));
        assert_eq!(get(&vars, "FI_PROVIDER_PATH"), Some("/lib/w"));
        let names = ["HOME", "WIGLAF_NODE", "UCX_LOG_LEVEL"].map(str::to_owned);
        let (_, list) = forwarding(&vars, names.into_iter(), &nobody).unwrap();
        assert_eq!(list, "FI_PROVIDER_PATH;UCX_LOG_LEVEL;WIGLAF_KEY;WIGLAF_LINK");
    }

    #[test]
    fn without_a_provider_there_is_no_wiglaf() {
        assert!(OpenMpi::default().environment(&nobody).is_err());
    }

    #[test]
    fn users_keep_their_defaults_but_not_another_transport() {
        let user = |name: &str| match name {
            "OMPI_MCA_osc" => Some("rdma".to_owned()),
            "OMPI_MCA_pml" => Some("ucx".to_owned()),
            _ => None,
        };
        let mpi = OpenMpi { transport: Transport::Tcp, ..OpenMpi::default() };
        let vars = mpi.environment(&user).unwrap();
        assert_eq!((get(&vars, "OMPI_MCA_osc"), get(&vars, "OMPI_MCA_pml")), (None, Some("ob1")));
    }

    #[test]
    fn the_users_own_list_is_kept() {
        let user = |name: &str| (name == ENV_LIST).then(|| "A;B".to_owned());
        assert_eq!(forwarding(&[], std::iter::empty(), &user).unwrap().1, "A;B");
        assert_eq!(forwarding(&[], std::iter::empty(), &nobody), None);
    }

    #[test]
    fn programs_are_found_as_shells_do() {
        assert!(find_program("sh").is_some() && find_program("/bin/sh").is_some());
        assert!(find_program("no-such-program").is_none() && find_program("/etc").is_none());
    }
}
