//! Jobs on the nodes of a cluster: under an MPI, or with none at all.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::client::{Lease, Node, NodeCommand, Running, Streams, is_private, null, working_folder};
use crate::error::{Error, Result};
use crate::fortran::{self, FortranTrue};
use crate::hostlist::HostList;
pub use crate::mpi::Deal;
use crate::mpi::{
    self, Choice, Family, Front, Installation, LibfabricChoice, Link, Placement, Settings,
    Transport,
};
use crate::passing::Passing;
use crate::proto::{End, JOB_VAR, NODE_VAR, StuckDaemon};
use crate::shape::{INTERFACE, NodeShape};
use crate::state::{Record, StateDir};
use crate::user::{self, User};
use crate::{provider, quiet, random, signals};

/// First UDP port of ranks that run without an MPI.
pub const PORT_FIRST: u16 = 7701;
/// Most ranks of one job; far above what two cores endure.
const RANKS_MAX: usize = 4096;
/// How many processes a node has room for unless said: a job may start more than its ranks.
const PLACES: usize = 8;
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

/// What to run.
#[derive(Debug, Clone, Default)]
pub struct Job {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// On which nodes; none means all.
    pub nodes: HostList,
    /// How many ranks; one per node unless given.
    pub ranks: Option<usize>,
    /// How many processes each node has room for, those included that MPI_Comm_spawn starts.
    pub places: Option<usize>,
    /// Which MPI.
    pub mpi: Mpi,
    /// How MPI messages travel.
    pub transport: Transport,
    /// Which of Wiglaf's links.
    pub link: Link,
    /// Which libfabric.
    pub libfabric: LibfabricChoice,
    /// The interface, if not that of emulated nodes.
    pub interface: Option<String>,
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

/// Starts a job on a running cluster, as `exe`, which is the `wiglaf` that was called.
///
/// Starts a thread: who wants to pass signals on holds them before
/// ([`signals::Held`]).
///
/// # Errors
/// When a node, the MPI, the provider or the program is missing.
pub fn start(
    state: &StateDir,
    record: &Record,
    job: &Job,
    exe: &Path,
    streams: Streams,
) -> Result<RunningJob> {
    let shapes = select(record, &job.nodes)?;
    let ranks = job.ranks.unwrap_or(shapes.len());
    if ranks == 0 || ranks > RANKS_MAX {
        return Err(Error::new(format!("a job has 1 to {RANKS_MAX} ranks, not {ranks}")));
    }
    if job.argv.is_empty() {
        return Err(Error::new("there is no program to run; name it behind `--`"));
    }
    let carries = job.mpi == Mpi::None || job.transport == Transport::Wiglaf;
    if carries && job.link == Link::Shm && shapes.len().min(ranks) > 1 {
        return Err(Error::new(format!(
            "the shm link joins ranks of one node, and these run on {}; name one node with --nodes, \
             or take --link auto",
            shapes.len().min(ranks)
        )));
    }
    let interface = job.interface.as_deref().unwrap_or(INTERFACE);
    let nodes: Vec<Node> = shapes.iter().map(|s| Node::new(state, &s.name)).collect();
    for node in &nodes {
        let hello = node.hello()?;
        if !hello.interfaces.iter().any(|i| i == interface) {
            return Err(Error::new(format!(
                "{} has no interface {interface}; it has {}",
                node.name(),
                hello.interfaces.join(", ")
            )));
        }
    }
    let mut launch = Launch {
        job,
        shapes,
        nodes,
        ranks,
        interface,
        id: format!("{:016x}", random::nonzero()?),
        key: random::key()?,
        provider: None,
        preload: fortran::preload_here(job.fortran_true, exe)?,
        name_dirs: mpi::name_dirs(Some(state.path())),
    };
    let mpi = match &job.mpi {
        Mpi::With(choice) => Some(mpi::installation(choice, job.transport)?),
        Mpi::None => None,
    };
    if mpi.is_some() && job.transport == Transport::Wiglaf {
        launch.provider = Some(provider::find(exe)?);
    }
    launch.share_folders(mpi.as_ref())?;
    if let Some(user) = &job.user {
        // That user could write in neither folder.
        mpi.as_ref().map_or(Ok(()), |mpi| mpi.make_names(&launch.name_dirs))?;
        user.become_it()?;
    }
    let (streams, mut passing) = launch.guarded(streams)?;
    // Without an MPI there is no launcher that would send it along.
    let key = launch.provider.as_ref().map(|_| launch.key.as_str());
    let leases = launch.nodes.iter().map(|node| node.lease(&launch.id, key));
    let leases = leases.collect::<Result<Vec<_>>>()?;
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
    Ok(RunningJob { commands, launcher, leases, stop, passing })
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

/// The nodes called `names`, or all.
///
/// # Errors
/// When the cluster has no such node.
pub fn select<'a>(record: &'a Record, names: &HostList) -> Result<Vec<&'a NodeShape>> {
    let all = &record.shape.nodes;
    if names.names().is_empty() {
        return Ok(all.iter().collect());
    }
    let find = |name: &String| {
        all.iter().find(|node| node.name == *name).ok_or_else(|| {
            Error::new(format!(
                "the cluster `{}` has no node {name}; it has {}",
                record.shape.name,
                record.shape.names()
            ))
        })
    };
    names.names().iter().map(find).collect()
}

/// Everything that starting a job needs to know.
struct Launch<'a> {
    job: &'a Job,
    shapes: Vec<&'a NodeShape>,
    nodes: Vec<Node>,
    ranks: usize,
    interface: &'a str,
    id: String,
    key: String,
    provider: Option<provider::Provider>,
    preload: Option<fortran::Preload>,
    name_dirs: Vec<PathBuf>,
}

impl Launch<'_> {
    /// Makes the working folder, the program's, those of our libraries and the
    /// MPI's visible on all nodes.
    fn share_folders(&self, mpi: Option<&Installation>) -> Result<()> {
        if !may_share() {
            return Ok(());
        }
        let program = PathBuf::from(&self.job.argv[0]);
        let program_dir = program.canonicalize().ok().and_then(|p| Some(p.parent()?.to_path_buf()));
        let folders: Vec<PathBuf> = std::env::current_dir()
            .into_iter()
            .chain(program_dir.filter(|_| program.components().count() > 1))
            .chain(self.provider.iter().map(|p| p.shared.clone()))
            .chain(self.preload.iter().map(|p| p.folder.clone()))
            .chain(mpi.map(|mpi| mpi.prefix.clone()))
            .collect();
        self.nodes.iter().try_for_each(|node| node.share(&folders))
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
        let (each, more) = (self.ranks / self.nodes.len(), self.ranks % self.nodes.len());
        (0..self.nodes.len()).map(|i| each + usize::from(i < more)).collect()
    }

    /// Whether any core has more than one rank.
    fn oversubscribed(&self) -> bool {
        let mut load = std::collections::BTreeMap::new();
        for (shape, slots) in self.shapes.iter().zip(self.slots()) {
            *load.entry(shape.core).or_insert(0) += slots;
        }
        let free = crate::up::cores().len();
        load.iter().any(|(core, ranks)| *ranks > if core.is_some() { 1 } else { free })
    }

    /// Starts the launcher of an MPI on the first node.
    fn under(&self, mpi: &Installation, streams: Streams) -> Result<Running> {
        let program = &self.job.argv[0];
        // A launcher's own answer is a page long.
        let found = mpi::find_program(program).ok_or_else(|| mpi::no_program(program))?;
        mpi::check_abi(&found, mpi)?;
        let settings = Settings {
            transport: self.job.transport,
            link: self.job.link,
            interface: Some(self.interface.to_owned()),
            interface_is_asked: self.job.interface.is_some(),
            libfabric: self.job.libfabric,
            agent: Some(crate::init::AGENT.to_owned()),
            as_root: is_root(),
            leased: true,
            oversubscribed: self.oversubscribed(),
            key: format!("@{}", crate::init::keys::path(&self.id).display()),
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
        vars.extend(self.job.env.iter().cloned());
        vars.extend(self.preload.iter().flat_map(|preload| preload.vars.clone()));
        vars.push((JOB_VAR.to_owned(), self.id.clone()));
        vars.extend(self.user_vars());
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let names = names.filter(|name| self.job.user.is_none() || user::is_passed_on(name));
        vars.extend(mpi::forwarding(mpi.family, true, &vars, &self.job.env, names, &user));

        let slots = self.slots();
        let hosts = self.shapes.iter().map(|shape| shape.name.as_str()).zip(slots);
        let placement = Placement {
            ranks: self.ranks,
            hosts: hosts.collect(),
            places: self.job.places.unwrap_or(PLACES),
            deal: self.job.deal,
        };
        let mut argv = mpi.command_line(&placement, &vars);
        argv.extend(self.job.launcher_args.iter().cloned());
        argv.extend(self.job.argv.iter().cloned());
        self.nodes[0].spawn(&self.command(argv).envs(vars), streams)
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
        let port = |index: usize| PORT_FIRST + index as u16;
        let mut peers = Vec::new();
        for (node, index) in &places {
            let address = self.shapes[*node].address;
            peers.push(format!("{address}:{}:{:016x}", port(*index), random::nonzero()?));
        }
        let peers = peers.join(",");
        let mut running = Vec::new();
        for (rank, (node, index)) in places.iter().enumerate() {
            let command = self
                .command(self.job.argv.iter().cloned())
                .envs(self.job.env.iter().map(|(n, v)| (n.as_str(), v.as_str())))
                .envs(self.preload.iter().flat_map(|preload| preload.vars.clone()))
                .env("WIGLAF_RANK", rank.to_string())
                .env("WIGLAF_SIZE", self.ranks.to_string())
                .env("WIGLAF_PEERS", &peers)
                .env(mpi::KEY_VAR, &self.key)
                .env("WIGLAF_LINK", self.job.link.name())
                .env(JOB_VAR, &self.id)
                .envs(self.user_vars())
                .udp_ports([port(*index)]);
            let copy = |fd: &std::os::fd::OwnedFd| {
                fd.try_clone().map_err(|e| Error::new(format!("cannot copy a stream: {e}")))
            };
            let stdin = if rank == 0 { copy(&streams.stdin)? } else { null()? };
            let streams =
                Streams { stdin, stdout: copy(&streams.stdout)?, stderr: copy(&streams.stderr)? };
            running.push(self.nodes[*node].spawn(&command, streams)?);
        }
        Ok(running)
    }
}

impl RunningJob {
    /// A handle to signal the job with.
    #[must_use]
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Waits for the end, then ends what is left of the job on every node. The
    /// worst end of all ranks counts.
    ///
    /// # Errors
    /// When a node goes down first, or a daemon of the MPI had to be ended.
    pub fn wait(self) -> Result<JobEnd> {
        let Self { commands, launcher, leases, stop, passing } = self;
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
        // All of them, also when a node is gone: the others must be clean when we return.
        let released: Vec<Result<Vec<StuckDaemon>>> =
            leases.into_iter().map(Lease::release).collect();
        // Now that nobody is left to complain.
        passing.into_iter().try_for_each(Passing::end)?;
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
    is_root() && std::env::var_os(NODE_VAR).is_none()
}

/// Whether this process is root's.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
