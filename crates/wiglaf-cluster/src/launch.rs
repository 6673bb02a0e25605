//! Jobs on the nodes of a cluster: under an MPI, or with none at all.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wiglaf_base::error::{Error, Result};
use wiglaf_base::hostlist::HostList;
use wiglaf_base::passing::Passing;
use wiglaf_base::user::{self, User};
use wiglaf_base::{machine, paths, program, random, signals};
use wiglaf_link::LinkKind;
use wiglaf_mpi::fortran::{self, FortranTrue};
use wiglaf_mpi::{
    self as mpi, Choice, Family, Front, Installation, LibfabricChoice, Placement, Settings,
    Transport, preloads, provider, quiet,
};
use wiglaf_node::client::{
    Lease, Node, NodeCommand, Running, Streams, is_private, null, working_folder,
};
use wiglaf_node::proto::{End, JOB_VAR, NODE_VAR, StuckDaemon};
use wiglaf_node::ssh;

use crate::cluster::{self, Cluster, Member};
use crate::hosts::Hosts;
use crate::names;
use crate::on_hosts::{Guard, Needed, OnHosts};
use crate::rules;
use crate::shape::INTERFACE;
pub use wiglaf_mpi::Deal;

/// First UDP port of ranks that run without an MPI.
pub const PORT_FIRST: u16 = 7701;
/// Most ranks of one job; far above what two cores endure.
const RANKS_MAX: usize = 4096;
/// How many processes a node has room for unless said: a job may start more than its ranks.
const PLACES: usize = 8;
/// Where Open MPI has its user's parameters, below their home.
const MCA_PARAMETERS: &str = ".openmpi/mca-params.conf";
/// When one rank has failed, the others may still report it.
const FAILED_RANK_GRACE: Duration = Duration::from_secs(5);

/// Which MPI starts the ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mpi {
    /// The installation that this means.
    With(Choice),
    /// None: the program finds its peers in `WIGLAF_PEERS`.
    None,
}

impl Default for Mpi {
    fn default() -> Self {
        Self::With(Choice::any(Family::OpenMpi))
    }
}

/// Who chooses the algorithms of an MPI's collectives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Collectives {
    /// What was measured for exactly this MPI, transport and shape, where there is that.
    #[default]
    Auto,
    /// The MPI.
    Mpi,
    /// Wiglaf, by frames to all hosts at once, where a communicator is on several.
    Multicast,
}

/// What to run.
#[derive(Debug, Clone, Default)]
pub struct Job {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// On which nodes; none means all.
    pub nodes: HostList,
    /// How many ranks a node takes, where a batch system has said so.
    pub slots: BTreeMap<String, usize>,
    /// How many ranks; one per node unless given.
    pub ranks: Option<usize>,
    /// How many processes each node has room for, those included that MPI_Comm_spawn starts.
    pub places: Option<usize>,
    /// Which MPI.
    pub mpi: Mpi,
    /// How MPI messages travel.
    pub transport: Transport,
    /// Which of Wiglaf's links.
    pub link: LinkKind,
    /// Which libfabric.
    pub libfabric: LibfabricChoice,
    /// The interface, if not that of emulated nodes.
    pub interface: Option<String>,
    /// Who chooses algorithms.
    pub collectives: Collectives,
    /// Which ranks on which nodes.
    pub deal: Deal,
    /// What the program stores for .TRUE..
    pub fortran_true: FortranTrue,
    /// Further variables for the launcher and every rank, in place of those that are set here.
    pub env: Vec<(String, String)>,
    /// As whom; as whoever asks unless given, which only root may.
    pub user: Option<User>,
    /// Further arguments of the launcher.
    pub launcher_args: Vec<OsString>,
    /// What runs as the parent of each rank; nothing unless given.
    pub wrapper: Vec<OsString>,
    /// The number that a batch system gave it, which is part of its mark then.
    pub batch: Option<u32>,
    /// Whether each rank loads the profiler.
    pub is_profiled: bool,
    /// Whether real hosts may be silent for ever: a suspended laptop is not dead then.
    pub is_patient: bool,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEnd {
    /// The end of its launcher, or, without one, that of the first rank that failed.
    pub end: End,
    /// Who that was, and on which node.
    pub who: String,
}

/// A job that runs. Dropping it ends all of its processes on all nodes.
#[derive(Debug)]
pub struct RunningJob {
    commands: Vec<Running>,
    /// The MPI's, which is the only command then; without it, each rank is one.
    launcher: Option<String>,
    leases: Vec<Lease>,
    stop: Stop,
    passing: Vec<Passing>,
    guard: Option<Guard>,
    is_patient: bool,
    /// Its mark, and the nodes that bear it.
    job: String,
    members: Vec<Member>,
}

/// A handle that signals a job while another thread waits for it.
#[derive(Debug, Clone)]
pub struct Stop(Arc<Mutex<Vec<Running>>>);

impl Stop {
    /// Signals all of the job's commands.
    pub fn signal(&self, number: i32) {
        for command in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            command.signal(number);
        }
    }
}

/// A handle that stops all processes of a job on all nodes, whatever launcher started them, and lets
/// them go on.
#[derive(Debug)]
pub struct Control {
    job: String,
    members: Vec<Member>,
    leases: Vec<Lease>,
    limit: Option<Duration>,
}

impl Control {
    /// Stops the job's processes. Hosts endure this process's silence from now on, which is about to stop
    /// as well.
    pub fn pause(&self) {
        self.leases.iter().for_each(|lease| lease.endure(None));
        // Waited for: what this process has not passed on when it stops stays with it.
        let _ = cluster::ask_all(&self.members, |member| {
            member.node.signal_job(&self.job, signals::STOP)
        });
    }

    /// Lets them go on.
    pub fn resume(&self) {
        let _ = cluster::ask_all(&self.members, |member| {
            member.node.signal_job(&self.job, signals::CONTINUE)
        });
        self.leases.iter().for_each(|lease| lease.endure(self.limit));
    }
}

/// Starts a job on a running cluster, as `exe`, which is the `wiglaf` that was called.
///
/// Starts a thread: who wants to pass signals on holds them before
/// ([`signals::Held`]).
///
/// # Errors
/// When a node, the MPI, the provider or the program is missing.
pub fn start(cluster: &Cluster, job: &Job, exe: &Path, streams: Streams) -> Result<RunningJob> {
    let exe = &cluster.program(exe);
    let mut members = cluster.members(&job.nodes)?;
    for member in &mut members {
        member.slots = job.slots.get(member.name()).copied().or(member.slots);
    }
    let ranks = job.ranks.unwrap_or(members.len());
    if ranks == 0 || ranks > RANKS_MAX {
        return Err(Error::new(format!("a job has 1 to {RANKS_MAX} ranks, not {ranks}")));
    }
    if job.argv.is_empty() {
        return Err(Error::new("there is no program to run; name it behind `--`"));
    }
    let carries = job.mpi == Mpi::None || job.transport == Transport::Wiglaf;
    if carries && job.link == LinkKind::Shm && members.len().min(ranks) > 1 {
        return Err(Error::new(format!(
            "the shm link joins ranks of one node, and these run on {}; name one node with --nodes, \
             or take --link auto",
            members.len().min(ranks)
        )));
    }
    let mpi = match &job.mpi {
        Mpi::With(choice) => Some(mpi::installation(choice, job.transport)?),
        Mpi::None => None,
    };
    let provider = match (&mpi, job.transport) {
        (Some(_), Transport::Wiglaf) => Some(provider::find(exe)?),
        _ => None,
    };
    let mut preload = fortran::preload_here(job.fortran_true, exe)?;
    let said = |name: &str| {
        let given = job.env.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone());
        given.or_else(|| std::env::var(name).ok())
    };
    if job.is_profiled {
        preload = Some(preloads::profiler_here(mpi.as_ref(), preload, exe, said)?);
    }
    if job.collectives == Collectives::Multicast {
        let (Some(mpi), Some(_)) = (&mpi, &provider) else { return Err(mpi::no_multicast()) };
        preload = Some(preloads::multicast_here(mpi, preload, exe, said)?);
    }
    let (on_hosts, name_dirs) = match cluster {
        Cluster::Emulated { state, .. } => {
            check_interface(&members, job.interface.as_deref().unwrap_or(INTERFACE))?;
            (None, mpi::name_dirs(Some(state.path())))
        }
        Cluster::Hosts(hosts) => {
            let needed = Needed {
                mpi: mpi.as_ref(),
                provider: provider.as_ref(),
                preload: preload.as_ref(),
                exe,
            };
            check_options(hosts, job)?;
            let prepared = OnHosts::prepare(hosts, &job.argv[0], &mut members, &needed)?;
            (Some(prepared), mpi::name_dirs(None))
        }
    };
    let mut launch = Launch {
        job,
        members,
        ranks,
        interface: job.interface.as_deref().unwrap_or(INTERFACE),
        id: paths::mark(random::nonzero()?, job.batch),
        key: random::key()?,
        provider,
        preload,
        name_dirs,
        on_hosts,
        rules: None,
    };
    if let Some(mpi) = &mpi {
        launch.rules = launch.find_rules(cluster, mpi).unwrap_or_else(|why| {
            // The job is right without.
            eprintln!("wiglaf: the MPI's own choice of algorithms is used: {why}");
            None
        });
    }
    launch.share_folders(mpi.as_ref())?;
    let names = match &mpi {
        // That user could write in neither folder; and other hosts need what is in it.
        Some(mpi) if job.user.is_some() || launch.on_hosts.is_some() => {
            mpi.make_names(&launch.name_dirs)?
        }
        _ => None,
    };
    if let Some(user) = &job.user {
        user.become_it()?;
    }
    if let (Some(folder), Some(_)) = (names, &launch.on_hosts) {
        names::make_on(&launch.members, &folder)?;
    }
    let (streams, mut passing) = launch.guarded(streams)?;
    // Without an MPI there is no launcher that would send it along; but between hosts it is no variable.
    let is_kept = launch.provider.is_some() || launch.on_hosts.is_some();
    let key = is_kept.then_some(launch.key.as_str());
    let limit = if job.is_patient { None } else { ssh::host_limit()? };
    let leases = cluster::ask_all(&launch.leased(), |member| {
        let lease = member.node.lease(&launch.id, key, limit)?;
        if job.is_patient {
            lease.endure(None);
        }
        Ok(lease)
    });
    let leases = leases.into_iter().collect::<Result<Vec<_>>>()?;
    let commands = match &mpi {
        Some(mpi) => {
            let (stderr, complaints) = quiet::filter(streams.stderr)?;
            passing.push(complaints);
            vec![launch.under(mpi, Streams { stderr, ..streams })?]
        }
        None => launch.ranks(&streams)?,
    };
    let handles = commands.iter().map(Running::try_clone).collect::<Result<Vec<_>>>()?;
    let stop = Stop(Arc::new(Mutex::new(handles)));
    let launcher = mpi.as_ref().and_then(|mpi| mpi.launcher.file_name());
    let launcher = launcher.map(|name| name.display().to_string());
    let guard = match &launch.on_hosts {
        Some(_) => {
            let stop = stop.clone();
            Some(Guard::new(&leases, move || stop.signal(signals::KILL))?)
        }
        None => None,
    };
    let is_patient = job.is_patient;
    let (job, members) = (launch.id.clone(), launch.leased());
    Ok(RunningJob { commands, launcher, leases, stop, passing, guard, is_patient, job, members })
}

/// Fails for what a job on real hosts cannot be asked.
fn check_options(hosts: &Hosts, job: &Job) -> Result<()> {
    if job.user.is_some() {
        return Err(Error::new(
            "on real hosts a job is yours; log in as its user instead of giving --user",
        ));
    }
    match &job.interface {
        None => Ok(()),
        Some(name) => Err(Error::new(format!(
            "interfaces are called differently on different hosts: leave --interface {name} out, and name \
             the network in {}",
            hosts.file.display()
        ))),
    }
}

/// Fails when a node has no such interface.
fn check_interface(members: &[Member], interface: &str) -> Result<()> {
    for Member { node, .. } in members {
        let hello = node.hello()?;
        if !hello.interfaces.iter().any(|i| i == interface) {
            return Err(Error::new(format!(
                "{} has no interface {interface}; it has {}",
                node.name(),
                hello.interfaces.join(", ")
            )));
        }
    }
    Ok(())
}

/// Fails in a folder that has been removed, and in one that each node has for itself, such as /tmp:
/// what ranks write there is not to be found afterwards.
///
/// # Errors
/// A sentence that says where to go.
pub fn check_working_folder() -> Result<()> {
    let on_node = std::env::var_os(NODE_VAR).is_some();
    let folder = working_folder()?;
    // At the root services and containers start.
    match folder != Path::new("/") && !on_node && is_private(&folder) {
        true => Err(Error::new(format!(
            "each node has a folder {} of its own, so what the program reads and writes there is \
             not yours; run it from your home or a folder below it",
            folder.display()
        ))),
        false => Ok(()),
    }
}

/// Everything that starting a job needs to know.
struct Launch<'a> {
    job: &'a Job,
    members: Vec<Member>,
    ranks: usize,
    interface: &'a str,
    id: String,
    key: String,
    provider: Option<provider::Provider>,
    preload: Option<fortran::Preload>,
    name_dirs: Vec<PathBuf>,
    /// What there is besides where the nodes are real hosts.
    on_hosts: Option<OnHosts>,
    /// Which algorithms the MPI takes for collectives, where that was measured.
    rules: Option<PathBuf>,
}

impl Launch<'_> {
    /// The nodes that have processes of the job: also the one of its launcher.
    fn leased(&self) -> Vec<Member> {
        let launcher = self.on_hosts.as_ref().and_then(|hosts| hosts.launcher.clone());
        let mut leased = self.members.clone();
        leased.extend(launcher.filter(|own| !self.members.iter().any(|m| m.name() == own.name())));
        leased
    }

    /// Where the launcher of an MPI runs.
    fn launcher_node(&self) -> &Node {
        let launcher = self.on_hosts.as_ref().and_then(|hosts| hosts.launcher.as_ref());
        &launcher.unwrap_or(&self.members[0]).node
    }

    /// Makes the working folder, the program's, those of our libraries and the
    /// MPI's visible on all nodes.
    fn share_folders(&self, mpi: Option<&Installation>) -> Result<()> {
        if !may_share() || self.on_hosts.is_some() {
            return Ok(());
        }
        let program = PathBuf::from(&self.job.argv[0]);
        let program_dir = program.canonicalize().ok().and_then(|p| Some(p.parent()?.to_path_buf()));
        let folders: Vec<PathBuf> = std::env::current_dir()
            .into_iter()
            .chain(program_dir.filter(|_| program.components().count() > 1))
            .chain(self.provider.iter().map(|p| p.shared.clone()))
            .chain(self.preload.iter().map(|p| p.folder.clone()))
            .chain(self.rules.as_deref().and_then(Path::parent).map(Path::to_path_buf))
            .chain(mpi.map(|mpi| mpi.prefix.clone()))
            .collect();
        self.members.iter().try_for_each(|member| member.node.share(&folders))
    }

    /// The job's streams. Another user gets no terminal of ours, which can be read from as well.
    fn guarded(&self, streams: Streams) -> Result<(Streams, Vec<Passing>)> {
        if self.job.user.is_none() {
            return Ok((streams, Vec::new()));
        }
        let (stdout, printed) = Passing::of_terminal(streams.stdout)?;
        let (stderr, complained) = Passing::of_terminal(streams.stderr)?;
        let passing = printed.into_iter().chain(complained).collect();
        Ok((Streams { stdout, stderr, ..streams }, passing))
    }

    /// A command with the caller's environment; with what other nodes' ranks have of it, too, where it
    /// is another user's.
    fn command<S: Into<OsString>>(&self, argv: impl IntoIterator<Item = S>) -> NodeCommand {
        let command = NodeCommand::new(argv);
        match self.job.user {
            Some(_) => command.retain_env(user::is_passed_on),
            None => command,
        }
    }

    fn user_vars(&self) -> impl Iterator<Item = (String, String)> {
        let vars = self.job.user.iter().flat_map(User::vars);
        vars.map(|(name, value)| (name.to_owned(), value))
    }

    /// How many ranks each node gets.
    fn slots(&self) -> Vec<usize> {
        let limits: Vec<Option<usize>> = self.members.iter().map(|member| member.slots).collect();
        share_out(self.ranks, &limits)
    }

    /// Whether any core has more than one rank.
    fn oversubscribed(&self) -> bool {
        if let Some(hosts) = &self.on_hosts {
            return self.slots().iter().zip(&hosts.cores).any(|(ranks, cores)| ranks > cores);
        }
        let mut load = std::collections::BTreeMap::new();
        for (member, slots) in self.members.iter().zip(self.slots()) {
            *load.entry(member.core).or_insert(0) += slots;
        }
        let free = machine::cores().len();
        load.iter().any(|(core, ranks)| *ranks > if core.is_some() { 1 } else { free })
    }

    /// Whether no rank makes MPI windows, where that matters. Behind a colon stands another program.
    fn makes_no_windows(&self, mpi: &Installation, program: &Path) -> bool {
        // Only Open MPI 5 and later take windows from btl/ofi, and looking means reading the program.
        if self.job.transport != Transport::Wiglaf || !mpi.is_prrte() {
            return false;
        }
        let preloads = self.job.env.iter().any(|(name, _)| name == "LD_PRELOAD")
            || std::env::var_os("LD_PRELOAD").is_some();
        let is_alone = self.job.argv.iter().all(|word| word != ":");
        is_alone && !mpi::windows::may_be_made(program, preloads)
    }

    /// The shape of the job, where it is one that rules are measured for: as many ranks on each node.
    fn shape(&self, mpi: &Installation) -> Option<mpi::rules::Shape> {
        let dealt = self.members.iter().zip(self.slots()).filter(|(_, ranks)| *ranks > 0);
        let dealt: Vec<(&Member, usize)> = dealt.collect();
        let per_node = dealt.first()?.1;
        let is_even = dealt.iter().all(|(_, ranks)| *ranks == per_node);
        let is_cyclic = per_node == 1 || self.job.deal == Deal::Cyclic;
        (is_even && is_cyclic && dealt.len() > 1).then(|| mpi::rules::Shape {
            mpi: mpi::rules::Shape::mpi_of(mpi),
            transport: self.job.transport.word().to_owned(),
            link: self.job.link.name().to_owned(),
            per_node,
            nodes: dealt.iter().map(|(member, _)| member.name().to_owned()).collect(),
        })
    }

    /// The file of rules that was measured for this job, where all its ranks can read it.
    fn find_rules(&self, cluster: &Cluster, mpi: &Installation) -> Result<Option<PathBuf>> {
        let is_wanted = self.job.collectives == Collectives::Auto
            && mpi::rules::why_not(mpi).is_none()
            // Another user of a host need not be able to read what is in this one's home.
            && (self.job.user.is_none() || self.on_hosts.is_none());
        let Some(shape) = is_wanted.then(|| self.shape(mpi)).flatten() else { return Ok(None) };
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let names = names.chain(self.job.env.iter().map(|(name, _)| name.clone()));
        let defaults =
            std::env::var_os("HOME").map(|home| PathBuf::from(home).join(MCA_PARAMETERS));
        let defaults = defaults.and_then(|path| std::fs::read_to_string(path).ok());
        if mpi::rules::users_own(names, &defaults.unwrap_or_default()).is_some() {
            return Ok(None);
        }
        let Some((path, rules)) = rules::find(&rules::folder(cluster)?, &shape)? else {
            return Ok(None);
        };
        let (file, text) = rules::read_by(mpi, path, &rules)?;
        if self.on_hosts.is_some() {
            rules::put_on(&self.members, &file, &text)?;
        }
        Ok(Some(file))
    }

    /// Starts the launcher of an MPI on the first node.
    fn under(&self, mpi: &Installation, streams: Streams) -> Result<Running> {
        let name = &self.job.argv[0];
        // A launcher's own answer is a page long.
        let found = program::find_program(name).ok_or_else(|| program::no_program(name))?;
        mpi::check_abi(&found, mpi)?;
        let settings = Settings {
            transport: self.job.transport,
            link: self.job.link,
            interface: self.on_hosts.is_none().then(|| self.interface.to_owned()),
            interface_is_asked: self.job.interface.is_some(),
            silence: match &self.on_hosts {
                Some(_) if !self.job.is_patient => ssh::host_limit()?.map(|limit| limit * 2),
                _ => None,
            },
            libfabric: self.job.libfabric,
            agent: Some(match &self.on_hosts {
                // Its daemons on other hosts look for one as well, and have none but ssh.
                Some(hosts) if mpi.family == Family::OpenMpi => {
                    format!("{} : ssh", hosts.agent.display())
                }
                Some(hosts) => hosts.agent.display().to_string(),
                None => paths::AGENT.to_owned(),
            }),
            as_root: machine::is_root(),
            leased: true,
            oversubscribed: self.oversubscribed(),
            without_windows: self.makes_no_windows(mpi, &found),
            key: format!("@{}", paths::key(&self.id).display()),
            provider_dir: self.provider.as_ref().map(|p| p.dir.clone()),
            front: self
                .provider
                .as_ref()
                .and_then(|provider| Front::choose(self.job.libfabric, provider, mpi)),
            name_dirs: self.name_dirs.clone(),
            ..Settings::default()
        };
        let extra =
            |name: &str| self.job.env.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        let user = |name: &str| extra(name).or_else(|| std::env::var(name).ok());
        let mut vars = settings.environment(mpi, &user)?;
        if let Some(hosts) = &self.on_hosts {
            vars.extend(hosts.variables(mpi, &user)?);
        }
        vars.extend(self.rules.iter().flat_map(|file| mpi::rules::variables(mpi.family, file)));
        vars.extend(self.job.env.iter().cloned());
        vars.extend(self.preload.iter().flat_map(|preload| preload.vars.clone()));
        vars.push((JOB_VAR.to_owned(), self.id.clone()));
        vars.extend(self.user_vars());
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let names = names.filter(|name| self.job.user.is_none() || user::is_passed_on(name));
        vars.extend(mpi::forwarding(mpi.family, true, &vars, &self.job.env, names, &user));

        let slots = self.slots();
        // Numbers, of real hosts: what a name means differs between them.
        let names: Vec<String> = match &self.on_hosts {
            Some(hosts) => hosts.names(&self.members, mpi),
            None => self.members.iter().map(|member| member.name().to_owned()).collect(),
        };
        let hosts = names.iter().map(String::as_str).zip(slots);
        let placement = Placement {
            ranks: self.ranks,
            hosts: hosts.collect(),
            places: self.job.places.unwrap_or(PLACES),
            deal: self.job.deal,
        };
        let mut argv = mpi.command_line(&placement, &vars);
        argv.extend(self.job.launcher_args.iter().cloned());
        argv.extend(self.job.wrapper.iter().cloned());
        argv.extend(self.job.argv.iter().cloned());
        // Launchers that find themselves in a job of Slurm's leave the nodes that they are told for those.
        let command = self.command(argv).retain_env(|name| !paths::is_slurms(name));
        self.launcher_node().spawn(&command.envs(vars), streams)
    }

    /// Node and index on the node of every rank.
    fn places(&self) -> Vec<(usize, usize)> {
        let slots = self.slots();
        match self.job.deal {
            Deal::Cyclic => (0..self.ranks).map(|r| (r % slots.len(), r / slots.len())).collect(),
            Deal::Block => slots
                .iter()
                .enumerate()
                .flat_map(|(node, slots)| (0..*slots).map(move |index| (node, index)))
                .collect(),
        }
    }

    fn ranks(&self, streams: &Streams) -> Result<Vec<Running>> {
        let places = self.places();
        let first = self.on_hosts.as_ref().and_then(|hosts| Some(hosts.network.ports?.first));
        let first = first.unwrap_or(PORT_FIRST);
        let port = |index: usize| first + index as u16;
        let mut peers = Vec::new();
        for (node, index) in &places {
            let address = match &self.on_hosts {
                Some(hosts) => Some(hosts.addresses[*node]),
                None => self.members[*node].address,
            };
            let address = address.ok_or_else(|| Error::new("a node has no address"))?;
            peers.push(format!("{address}:{}:{:016x}", port(*index), random::nonzero()?));
        }
        let peers = peers.join(",");
        let shares_cores = self.oversubscribed().then_some((mpi::OVERSUBSCRIBED_VAR, "on"));
        let mut running = Vec::new();
        for (rank, (node, index)) in places.iter().enumerate() {
            let command = self
                .command(self.job.wrapper.iter().chain(&self.job.argv).cloned())
                .envs(self.job.env.iter().map(|(n, v)| (n.as_str(), v.as_str())))
                .envs(self.preload.iter().flat_map(|preload| preload.vars.clone()))
                .env("WIGLAF_RANK", rank.to_string())
                .env("WIGLAF_SIZE", self.ranks.to_string())
                .env("WIGLAF_PEERS", &peers)
                .env(mpi::KEY_VAR, &self.key)
                .env("WIGLAF_LINK", self.job.link.name())
                .envs(shares_cores)
                .env(JOB_VAR, &self.id)
                .envs(self.on_hosts.iter().flat_map(OnHosts::own_variables))
                .envs(self.user_vars())
                .udp_ports([port(*index)]);
            let copy = |fd: &std::os::fd::OwnedFd| {
                fd.try_clone().map_err(|e| Error::new(format!("cannot copy a stream: {e}")))
            };
            let stdin = if rank == 0 { copy(&streams.stdin)? } else { null()? };
            let streams =
                Streams { stdin, stdout: copy(&streams.stdout)?, stderr: copy(&streams.stderr)? };
            running.push(self.members[*node].node.spawn(&command, streams)?);
        }
        Ok(running)
    }
}

/// Deals ranks to nodes one by one, each of which takes as many as its limit; and beyond it, when all
/// are full.
fn share_out(ranks: usize, limits: &[Option<usize>]) -> Vec<usize> {
    let mut dealt = vec![0; limits.len()];
    let mut left = ranks;
    let mut is_full = false;
    while left > 0 && !dealt.is_empty() {
        let before = left;
        for (dealt, limit) in dealt.iter_mut().zip(limits) {
            let has_room = is_full || limit.is_none_or(|limit| *dealt < limit);
            if left > 0 && has_room {
                *dealt += 1;
                left -= 1;
            }
        }
        is_full |= left == before;
    }
    dealt
}

impl RunningJob {
    /// A handle to stop the job and let it go on.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn control(&self) -> Result<Control> {
        let leases = self.leases.iter().map(Lease::try_clone).collect::<Result<_>>()?;
        let limit = if self.is_patient { None } else { ssh::host_limit()? };
        Ok(Control { job: self.job.clone(), members: self.members.clone(), leases, limit })
    }

    /// A handle to signal the job with.
    #[must_use]
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Ends the job on real hosts for a reason that it cannot see itself; the reason becomes its error.
    pub fn end_for(&self) -> Option<impl Fn(Error) + Send + 'static + use<>> {
        let (give_up, stop) = (self.guard.as_ref()?.giver_up(), self.stop.clone());
        Some(move |why| {
            if give_up(why) {
                stop.signal(signals::KILL);
            }
        })
    }

    /// The nodes that it runs on.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Waits for the end, then ends what is left of the job on every node. The
    /// worst end of all ranks counts.
    ///
    /// # Errors
    /// When a node goes down first, or a daemon of the MPI had to be ended.
    pub fn wait(self) -> Result<JobEnd> {
        let Self { commands, launcher, leases, stop, passing, guard, .. } = self;
        let (ended, ends) = mpsc::channel();
        let count = commands.len();
        for (rank, command) in commands.into_iter().enumerate() {
            let ended = ended.clone();
            let who = launcher.clone().unwrap_or_else(|| format!("rank {rank}"));
            std::thread::spawn(move || {
                let end = command.wait();
                ended
                    .send(end.map(|end| JobEnd { end, who: format!("{who} ({})", command.node()) }))
            });
        }
        let mut worst = Ok(JobEnd { end: End::Status(0), who: "all".to_owned() });
        for _ in 0..count {
            let failed = !matches!(&worst, Ok(job) if job.end == End::Status(0));
            let end =
                if failed { ends.recv_timeout(FAILED_RANK_GRACE).ok() } else { ends.recv().ok() };
            let Some(end) = end else { break };
            // The first failure is the cause of the others.
            if !failed {
                worst = end;
            }
        }
        stop.signal(signals::KILL);
        // A host that was lost is the cause of all else.
        let lost = guard.map_or(Ok(()), Guard::end);
        // All of them, also when a node is gone: the others must be clean when we return.
        let released: Vec<Result<Vec<StuckDaemon>>> = std::thread::scope(|scope| {
            let all: Vec<_> =
                leases.into_iter().map(|lease| scope.spawn(|| lease.release())).collect();
            let panicked = || Err(Error::new("a thread panicked"));
            all.into_iter().map(|one| one.join().unwrap_or_else(|_| panicked())).collect()
        });
        // Now that nobody is left to complain.
        passing.into_iter().try_for_each(Passing::end)?;
        lost?;
        let stuck = released.into_iter().collect::<Result<Vec<_>>>()?.concat();
        match (worst, stuck.first()) {
            (Ok(JobEnd { end, .. }), Some(daemon)) if end != End::Status(0) => Err(Error::new(format!(
                "a rank ended early, and {} (pid {}) stood still ever since: a defect of this MPI; \
                 the job was ended",
                daemon.name, daemon.pid
            ))
            .with_status(end.code())),
            (worst, _) => worst,
        }
    }
}

/// Whether this process can make folders of the machine visible on the nodes:
/// root can, unless it runs on a node itself.
#[must_use]
pub fn may_share() -> bool {
    machine::is_root() && std::env::var_os(NODE_VAR).is_none()
}
