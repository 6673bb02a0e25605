//! `wiglaf run`.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use wiglaf_base::error::Context;
use wiglaf_base::user::User;
use wiglaf_base::{End, Error, HostList, Result, signals};
use wiglaf_batch::Allocation;
use wiglaf_cluster::hosts::Hosts;
use wiglaf_cluster::launch::{self, Collectives, Deal, Job, JobEnd, Mpi};
use wiglaf_cluster::records::Records;
use wiglaf_cluster::shape::Draft;
use wiglaf_cluster::share::Shared;
use wiglaf_cluster::stage::Staged;
use wiglaf_cluster::{Cluster, Member, Record, StateDir};
use wiglaf_emulation::up;
use wiglaf_link::LinkKind;
use wiglaf_links::WaitPolicy;
use wiglaf_mpi::fortran::FortranTrue;
use wiglaf_mpi::{LibfabricChoice, Transport};
use wiglaf_node::Streams;

use crate::blocked;
use crate::check;
use crate::choices::{PmlArg, Progress, Word, any, parse_hosts, parse_mpi, parse_variable};
use crate::exec;
use crate::options::Global;
use crate::tune;
use crate::up::this_exe;
use crate::which::Meant;

const HELP: &str = "\
Examples:
  wiglaf run -- ./hello                      one rank on every node
  wiglaf run -n 4 -- pw.x -in si.in          four ranks, spread over the nodes
  wiglaf run --transport tcp -- ./hello      over TCP instead, to compare
  wiglaf run --nodes node1 -n 2 -- ./hello   both ranks on one node
  wiglaf run --link udp -- ./hello           on plain UDP sockets
  wiglaf run --encrypt -- ./hello            on a network that others read
  wiglaf run --wait block -- ./hello         its nodes have other work, too
  wiglaf run -n 1 --places 16 -- ./manager   it starts 31 workers by itself
  wiglaf run --collectives multicast -- ./p  broadcasts to all hosts at once
  wiglaf run --fortran-true=-1 -- ./prog     its compiler stores .TRUE. as -1
  wiglaf run --mpi mpich -- ./hello          a program built with MPICH
  wiglaf run --mpi mpich@4.3 -- ./hello      on that version of it
  wiglaf run --user ann -- ./hello           as that user (docs/helper.md)
  wiglaf run --mpi none -- ./am_program      no MPI; peers in WIGLAF_PEERS
  wiglaf run --pml ob1 -- ./hello            Open MPI matches, as over TCP
  wiglaf run -x OMPI_MCA_osc=rdma -- ./hello a variable, over all others
  wiglaf run --stage --input in.dat --result out.dat -- ./prog in.dat
                                             on hosts that share no folder
  wiglaf run --share -- ./prog in.dat        mount this folder on them

In a job of Slurm's it takes the job's nodes, and as many ranks as the job has
tasks. With no cluster up, the default one is started first. The program is
started unchanged; it needs no source and no relinking. Standard input, output
and the exit status are the program's; Ctrl-C ends all ranks, Ctrl-Z stops them
until `fg`, SIGUSR1 and SIGUSR2 reach them, and nothing of a crashed program
stays behind on any node.

A program runs on any MPI of the family that it was built with: openmpi, mpich
or intel, the last two of which go for one another. Behind the name may stand a
version, as in mpich@5.0.2, or a folder, as in mpich=/opt/mpich. `wiglaf doctor`
lists what is here.

Variables of yours that start with OMPI_MCA_, PRTE_MCA_, PMIX_MCA_,
MPIR_CVAR_ or I_MPI_ are respected unless they choose another transport; those
given by -x always are. LD_LIBRARY_PATH, LD_PRELOAD, PYTHONPATH,
OMP_NUM_THREADS, TMPDIR and what starts with WIGLAF_, FI_ or UCX_ reach all
ranks, and so does what is given by -x.";

/// Run an MPI program on the cluster
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// How many ranks [default: one on every node]
    #[arg(short = 'n', long, value_name = "RANKS")]
    ranks: Option<usize>,

    /// On which nodes, such as node[1-2] [default: all]
    #[arg(short = 'w', long, value_name = "HOSTLIST", value_parser = parse_hosts)]
    nodes: Option<HostList>,

    /// Which MPI starts the program: openmpi, mpich, intel or none
    #[arg(long, value_name = "MPI", default_value = "openmpi", value_parser = parse_mpi)]
    mpi: Mpi,

    /// How MPI messages travel
    #[arg(long, value_parser = any::<Transport>(), default_value = "wiglaf")]
    transport: Transport,

    /// Which of Wiglaf's links
    #[arg(long, value_parser = any::<LinkKind>(), default_value = "auto")]
    link: LinkKind,

    /// Which libfabric ranks load
    #[arg(long, value_parser = any::<LibfabricChoice>(), default_value = "auto")]
    libfabric: LibfabricChoice,

    /// What matches messages in Open MPI [default: what works in its version]
    #[arg(long, value_enum)]
    pml: Option<PmlArg>,

    /// Encrypt what leaves a node (AES-128-GCM under the job's key)
    #[arg(long)]
    encrypt: bool,

    /// How ranks wait for messages [default: WIGLAF_WAIT, or adaptive]
    #[arg(long, value_parser = any::<WaitPolicy>())]
    wait: Option<WaitPolicy>,

    /// Who moves messages while the program computes [default: WIGLAF_PROGRESS, or caller]
    #[arg(long, value_parser = any::<Progress>())]
    progress: Option<Progress>,

    /// Who chooses the algorithms of collectives, or does them
    #[arg(long, value_parser = any::<Collectives>(), default_value = "auto")]
    collectives: Collectives,

    /// How ranks are dealt to nodes
    #[arg(long, value_parser = any::<Deal>(), default_value = "cyclic")]
    deal: Deal,

    /// Room for processes on each node, for MPI_Comm_spawn (Open MPI) [default: 8]
    #[arg(long, value_name = "NUMBER")]
    places: Option<usize>,

    /// What the program's compiler stores for .TRUE.: 1 or -1
    #[arg(long, value_name = "VALUE", default_value = "1", allow_negative_numbers = true)]
    fortran_true: FortranTrue,

    /// The interface to use [default: eth0, that of emulated nodes]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,

    /// Endure the silence of real hosts for ever: of a laptop that sleeps, or
    /// under a debugger
    #[arg(long)]
    patient: bool,

    /// Copy the program to each host's scratch folder and run it there: for
    /// hosts that share no folder
    #[arg(long)]
    stage: bool,

    /// Mount this host's working folder on the other hosts while the job runs:
    /// for hosts that share no folder
    #[arg(long, conflicts_with = "stage")]
    share: bool,

    /// Tune the hosts of the job while it runs: their cards interrupt at once,
    /// and their processors stay awake
    #[arg(long)]
    tune: bool,

    /// With --stage: copy this file along
    #[arg(long, value_name = "FILE", requires = "stage")]
    input: Vec<PathBuf>,

    /// With --stage: bring this file back when the program has ended
    #[arg(long, value_name = "NAME", requires = "stage")]
    result: Vec<String>,

    /// Run it as this user, by name or number; only root can
    #[arg(long, value_name = "USER", value_parser = parse_user)]
    user: Option<User>,

    /// Write what each rank took of its machine to this file, a line of JSON each
    #[arg(long, value_name = "FILE", hide = true)]
    usage: Option<PathBuf>,

    /// Set a variable for the launcher and all ranks, over what Wiglaf sets
    #[arg(short = 'x', long = "env", value_name = "NAME[=VALUE]", value_parser = parse_variable)]
    env: Vec<(String, String)>,

    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    argv: Vec<OsString>,
}

fn parse_user(text: &str) -> Result<User> {
    User::find(text)
}

impl Args {
    /// The program as it was named.
    pub(crate) fn program(&self) -> &OsStr {
        &self.argv[0]
    }

    /// The program and its arguments, to be shown.
    pub(crate) fn words(&self) -> Vec<String> {
        self.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    run_job(args, global, None, Vec::new())
}

/// Runs a job whose ranks count and time their calls of MPI, with the variables `env` besides. Each rank adds a line of
/// JSON to `file`.
pub(crate) fn run_profiled(
    args: &Args,
    global: &Global,
    file: &Path,
    env: Vec<(String, String)>,
) -> Result<ExitCode> {
    match &args.mpi {
        Mpi::With(_) => run_job(args, global, Some(file), env),
        Mpi::None => Err(Error::new("a program without MPI has no calls of it to count")),
    }
}

fn run_job(
    args: &Args,
    global: &Global,
    profile: Option<&Path>,
    besides: Vec<(String, String)>,
) -> Result<ExitCode> {
    let pml = args.pml.map(|pml| pml.variable(&args.mpi, args.transport)).transpose()?;
    let mut env = args.env.clone();
    // What is given by -x is over it.
    env.extend(pml.filter(|(name, _)| env.iter().all(|(given, _)| given != name)));
    env.extend(besides);
    if let Some(wait) = args.wait {
        if args.transport != Transport::Wiglaf {
            let reason = "--wait is of Wiglaf's transport only; leave it or --transport out";
            return Err(Error::new(reason));
        }
        env.push(("WIGLAF_WAIT".to_owned(), wait.word().to_owned()));
    }
    if let Some(progress) = args.progress {
        if args.transport != Transport::Wiglaf {
            let reason = "--progress is of Wiglaf's transport only; leave it or --transport out";
            return Err(Error::new(reason));
        }
        env.push(("WIGLAF_PROGRESS".to_owned(), progress.word().to_owned()));
    }
    match (args.encrypt, args.transport) {
        (false, _) => {}
        (true, Transport::Wiglaf) => {
            env.push(("WIGLAF_ENCRYPT".to_owned(), "on".to_owned()));
        }
        (true, _) => {
            return Err(Error::new("only Wiglaf's transport encrypts; leave --transport out"));
        }
    }
    let cluster = match global.meant()? {
        Meant::Hosts(hosts) => Cluster::Hosts(hosts),
        Meant::Emulated(state) => {
            launch::check_working_folder()?;
            let record = cluster(&state, global)?;
            Cluster::Emulated { state, record }
        }
    };
    if cluster.hosts().is_some() {
        let names: Vec<String> = match &args.nodes {
            Some(names) => names.names().to_vec(),
            None => cluster.names().names().to_vec(),
        };
        for sentence in check::found_fatal(&cluster, &names) {
            eprintln!("wiglaf: the last check said: {sentence}; see `wiglaf check`");
        }
    }
    let allocation = allocation(&cluster, args.nodes.as_ref())?;
    let from = std::env::current_dir().ok();
    let staged = stage(args, &cluster)?;
    let mut argv = args.argv.clone();
    if let Some(staged) = &staged {
        argv[0] = staged.program().into();
        std::env::set_current_dir(staged.folder())
            .map_err(|error| Error::new(format!("cannot enter the job's folder: {error}")))?;
    }
    let shared = share(args, &cluster)?;
    if let (Some(shared), Some(from)) = (&shared, &from) {
        // A program of this folder is there as well.
        if let Ok(below) = Path::new(&argv[0]).strip_prefix(from) {
            argv[0] = shared.folder().join(below).into();
        }
        std::env::set_current_dir(shared.folder())
            .map_err(|error| Error::new(format!("cannot enter the job's folder: {error}")))?;
    }
    let kept = profile.or(args.usage.as_deref());
    let records = kept.map(|_| Records::new()).transpose()?;
    env.extend(records.iter().map(Records::variable));
    let wrapper = match &args.usage {
        Some(_) if profile.is_none() => Records::usage_wrapper(&cluster, &this_exe()?),
        _ => Vec::new(),
    };
    let job = Job {
        env,
        argv,
        wrapper,
        batch: allocation.as_ref().and_then(|allocation| allocation.job.parse().ok()),
        is_profiled: profile.is_some(),
        nodes: match &allocation {
            Some(allocation) => allocation.nodes(),
            None => args.nodes.clone().unwrap_or_default(),
        },
        ranks: args.ranks.or_else(|| allocation.as_ref().map(Allocation::ranks)),
        slots: allocation.into_iter().flat_map(|allocation| allocation.slots).collect(),
        places: args.places,
        mpi: args.mpi.clone(),
        transport: args.transport,
        link: args.link,
        libfabric: args.libfabric,
        interface: args.interface.clone(),
        user: args.user.clone(),
        is_patient: args.patient,
        fortran_true: args.fortran_true,
        collectives: args.collectives,
        deal: args.deal,
        ..Job::default()
    };
    let tuned = match args.tune {
        true => Some(tune::hold(&cluster, &job.nodes)?),
        false => None,
    };
    let further = [signals::SUSPEND, signals::CONTINUE];
    let held = [&signals::ENDING[..], &signals::PROGRAMS, &further].concat();
    let held = signals::Held::new(&held);
    let running = launch::start(&cluster, &job, &this_exe()?, Streams::inherit()?)?;
    blocked::watch(&cluster, &job, &running)?;
    let stop = running.stop();
    let first = signals::First::default();
    let asked = first.clone();
    let control = running.control()?;
    held.pass_on(move |number| {
        if number == signals::SUSPEND {
            control.pause();
            signals::stop_here();
            control.resume();
            return;
        }
        // What it is for is done by then.
        if number == signals::CONTINUE {
            return;
        }
        let asks_for_end = signals::ENDING.contains(&number);
        // Who asks twice means it.
        let is_again = asks_for_end && !asked.note(number);
        stop.signal(if is_again { signals::KILL } else { number });
    })?;
    let (outcome, who) = match running.wait() {
        Ok(JobEnd { end, who }) => (Ok(end), who),
        Err(error) => (Err(error), String::new()),
    };
    drop(tuned);
    if let (Some(shared), Some(from)) = (shared, &from) {
        let _ = std::env::set_current_dir(from);
        drop(shared);
    }
    if let (Some(staged), Some(from)) = (staged, from) {
        // Also of a program that failed: they may tell why.
        for name in &args.result {
            match staged.fetch(name, &from) {
                Ok(written) => written.iter().for_each(|path| {
                    eprintln!("wiglaf: brought {}", path.display());
                }),
                Err(error) => eprintln!("wiglaf: {error}"),
            }
        }
        let _ = std::env::set_current_dir(from);
    }
    if let (Some(file), Some(records)) = (kept, records) {
        let text = records.fetch(&cluster.members(&job.nodes)?);
        std::fs::write(file, text).cannot(|| format!("write {}", file.display()))?;
    }
    let end = first.die_of_interrupt(outcome)?;
    if let End::Signal(number) = end {
        eprintln!("wiglaf: {}", exec::by_signal(&who, number));
    }
    Ok(ExitCode::from(end.code()))
}

/// What a job of Slurm's, in which this process is, may use of the cluster.
pub(crate) fn allocation(
    cluster: &Cluster,
    wanted: Option<&HostList>,
) -> Result<Option<Allocation>> {
    match Allocation::here()? {
        Some(allocation) => allocation.take(&cluster.names(), wanted),
        None => Ok(None),
    }
}

/// The hosts of the job for `option`, and this one, where the launcher runs.
fn hosts_and_this_one<'a>(
    args: &Args,
    cluster: &'a Cluster,
    option: &str,
) -> Result<(&'a Hosts, Vec<Member>)> {
    let Some(hosts) = cluster.hosts() else {
        return Err(Error::new(format!(
            "emulated nodes share your folders already; leave {option} out, it is for real hosts"
        )));
    };
    let mut members = cluster.members(&args.nodes.clone().unwrap_or_default())?;
    let here = hosts.nodes.iter().find(|spec| spec.target.is_here).map(|spec| spec.name.clone());
    if let Some(name) = here.filter(|name| !members.iter().any(|member| member.name() == name)) {
        members.extend(cluster.members(&std::iter::once(name.as_str()).collect())?);
    }
    Ok((hosts, members))
}

/// Copies the program and its inputs to the hosts, if that is asked for: to this one, too.
fn stage(args: &Args, cluster: &Cluster) -> Result<Option<Staged>> {
    if !args.stage {
        return Ok(None);
    }
    let (_, members) = hosts_and_this_one(args, cluster, "--stage")?;
    let shows = std::io::stderr().is_terminal();
    let staged = Staged::put(members, Path::new(&args.argv[0]), &args.input, &|file| {
        if shows {
            eprintln!("wiglaf: copying {} to the hosts", file.display());
        }
    });
    staged.map(Some)
}

/// Mounts the working folder on the other hosts, if that is asked for.
fn share(args: &Args, cluster: &Cluster) -> Result<Option<Shared>> {
    if !args.share {
        return Ok(None);
    }
    let (hosts, members) = hosts_and_this_one(args, cluster, "--share")?;
    let exe = cluster.program(&this_exe()?);
    Shared::put(hosts, members, &exe, &|note| eprintln!("wiglaf: {note}")).map(Some)
}

/// The running cluster, or the default one, brought up now.
fn cluster(state: &StateDir, global: &Global) -> Result<Record> {
    if let Some(record) = state.record()?.filter(|record| !up::is_gone(state, record)) {
        return Ok(record);
    }
    let draft = Draft { name: global.name.clone(), ..Draft::default() };
    let record = up::up(state, draft, &this_exe()?)?.record().clone();
    eprintln!(
        "wiglaf: no cluster was up, so the default one was started ({})",
        record.shape.summary()
    );
    Ok(record)
}
