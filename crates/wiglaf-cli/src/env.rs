//! `wiglaf env`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use wiglaf_base::paths::KEY_VAR;
use wiglaf_base::shell::quoted;
use wiglaf_base::{HostList, Result};
use wiglaf_batch::Allocation;
use wiglaf_cluster::hosts::Hosts;
use wiglaf_cluster::launch::Collectives;
use wiglaf_cluster::{Cluster, Member, names, secret};
use wiglaf_link::LinkKind;
use wiglaf_mpi::fortran::FortranTrue;
use wiglaf_mpi::{self as mpi, Choice, LibfabricChoice, Transport};

use crate::choices::{any, one_of};
use crate::options::Global;
use crate::output;
use crate::run::allocation;
use crate::up::this_exe;
use crate::which::{self, Meant};

const HELP: &str = "\
Examples:
  eval \"$(wiglaf env)\"               from now on, mpirun uses Wiglaf
  eval \"$(wiglaf env mpich)\"         MPICH's mpiexec, too
  eval \"$(wiglaf env --transport tcp)\"
  wiglaf exec -w node1 -- sh -c \\
    'eval \"$(wiglaf env)\"; mpirun -n 2 --host node1,node2 ./hello'

With hosts in a cluster file, and in a job of Slurm's, the secret of the job is
kept in a file on each node, and the variables name that file; with hosts they
name the network, too. On a node of an emulated cluster, they also let mpirun
reach the other nodes. The secret of the job (WIGLAF_KEY) is drawn anew at every
call.

Open MPI's mpirun hands the variables on through OMPI_MCA_mca_base_env_list,
which does not go together with its option -x; MPICH's mpiexec through
HYDRA_ENV; Intel MPI's hands all of its environment on. Where an MPI has a
folder of its own, its `bin` comes first in PATH.";

/// Print the environment that makes your own mpirun or mpiexec use Wiglaf
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// For which MPI: openmpi, mpich or intel, also as mpich@VERSION or mpich=FOLDER
    #[arg(value_name = "MPI", default_value = "openmpi", value_parser = parse_choice)]
    mpi: Choice,

    /// How MPI messages travel
    #[arg(long, value_parser = any::<Transport>(), default_value = "wiglaf")]
    transport: Transport,

    /// Which of Wiglaf's links
    #[arg(long, value_parser = any::<LinkKind>(), default_value = "auto")]
    link: LinkKind,

    /// Which libfabric ranks load
    #[arg(long, value_parser = any::<LibfabricChoice>(), default_value = "auto")]
    libfabric: LibfabricChoice,

    /// Who does collectives
    #[arg(long, value_parser = one_of(&[Collectives::Mpi, Collectives::Multicast]), default_value = "mpi")]
    collectives: Collectives,

    /// What the program's compiler stores for .TRUE.: 1 or -1
    #[arg(long, value_name = "VALUE", default_value = "1", allow_negative_numbers = true)]
    fortran_true: FortranTrue,

    /// The only interface to use
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn parse_choice(text: &str) -> Result<Choice> {
    text.parse()
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let hosts = match global.meant()? {
        // Who names an interface means what this machine alone is to use.
        Meant::Hosts(hosts) if args.interface.is_none() => Some(hosts),
        _ => None,
    };
    if let Some(hosts) = &hosts {
        which::enter(hosts)?;
    }
    let transport = args.transport;
    let own = mpi::Own {
        mpi: &args.mpi,
        transport,
        link: args.link,
        libfabric: args.libfabric,
        interface: args.interface.clone(),
        fortran_true: args.fortran_true,
        multicast: args.collectives == Collectives::Multicast,
    };
    let mut vars = mpi::own_environment(&own, &this_exe()?)?;
    if let Some(hosts) = &hosts {
        let folder = mpi::installation(&args.mpi, transport)?.make_names(&mpi::name_dirs(None))?;
        for_hosts(hosts, &mut vars, folder.as_deref())?;
    } else if Allocation::here()?.is_some()
        && let Meant::Emulated(state) = global.meant()?
        && let Some(record) = state.record()?
    {
        let cluster = Cluster::Emulated { state, record };
        if let Some(allocation) = allocation(&cluster, None)? {
            // srun sends variables in clear.
            keep_key(&cluster.members(&allocation.nodes())?, &mut vars)?;
        }
    }
    if args.json {
        output::print_json(&vars.into_iter().collect::<BTreeMap<_, _>>())?;
    } else {
        let lines = vars.iter().map(|(name, value)| format!("export {name}={}\n", quoted(value)));
        output::print(&lines.collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What one's own launcher between real hosts needs besides: the network, the secret in a file, and MPICH's library
/// names, which `names` has here.
fn for_hosts(hosts: &Hosts, vars: &mut Vec<(String, String)>, names: Option<&Path>) -> Result<()> {
    for name in ["WIGLAF_NET", "WIGLAF_PORTS"] {
        vars.extend(std::env::var(name).ok().map(|value| (name.to_owned(), value)));
    }
    let (data, launching) = (hosts.network.data.to_string(), hosts.network.launching().to_string());
    for (name, value) in [
        ("OMPI_MCA_oob_tcp_if_include", &launching),
        ("PRTE_MCA_prte_if_include", &launching),
        ("OMPI_MCA_btl_tcp_if_include", &data),
    ] {
        let is_open_mpi = vars.iter().any(|(name, _)| name.starts_with("OMPI_MCA_"));
        if is_open_mpi && std::env::var_os(name).is_none() {
            vars.push((name.to_owned(), value.clone()));
        }
    }
    let members = Cluster::Hosts(hosts.clone()).members(&HostList::default())?;
    if let Some(folder) = names {
        names::make_on(&members, folder)?;
    }
    keep_key(&members, vars)
}

/// The secret in a file of the user's on each of these nodes, in place of a variable.
fn keep_key(members: &[Member], vars: &mut [(String, String)]) -> Result<()> {
    if let Some((_, key)) = vars.iter_mut().find(|(name, _)| name == KEY_VAR) {
        *key = format!("@{}", secret::keep_on(members)?.display());
    }
    Ok(())
}
