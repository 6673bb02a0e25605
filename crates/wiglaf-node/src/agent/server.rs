//! The init's socket: who connects is known by the kernel, and runs commands
//! as who they are.

use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::paths::{KEY_VAR, LIBDIR_VAR, SOCKET};
use wiglaf_door::{Door, Limits};

use super::caller::Caller;
use super::children::{Child, Children, NO_INTERPRETER};
use super::environment::JOB_LEN_MAX;
use super::host;
use super::jobs::{self, Jobs};
use super::keys::KeyFile;
use super::remains::{self, Whose};
use super::room::{Room, Rooms};
use super::slice::Slice;
use super::stuck;
use crate::faults::{PortFaults, PortReport};
use crate::proto::{
    self, Allowed, FDS_MAX, Hello, MESSAGE_LEN_MAX, Remains, Reply, Request, Spawn, VERSION,
};
use crate::ssh;

/// A client that takes nothing must not stop the reaper.
const SEND_PATIENCE: Duration = Duration::from_secs(2);
/// Pause after a failed accept, which is for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// A client that asks for nothing in this time is not waited for.
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);
/// Pause before a connection is looked at again that the reaper speaks on.
const CLOSE_PAUSE: Duration = Duration::from_millis(1);
/// Descriptors that an init wants.
const DESCRIPTORS: u64 = 1 << 18;
/// More than a job of the most ranks has on one node, and its lease.
const CONNECTIONS_OF_USER_MAX: usize = 4608;
/// Lines of the log in a minute.
const LINES_PER_MINUTE: u32 = 120;
const STACK: usize = 2 << 20;
/// What a child says beside the kernel's own numbers, which end at 4095: it could not enter its folder,
/// plus why; or the folder is another.
const NOT_ENTERED: i32 = 10_000;
const OTHER_FOLDER: i32 = 5000;
/// What clients and their commands are told of the node.
#[derive(Debug, Clone)]
pub struct About {
    /// Its host name.
    pub name: String,
    /// Its address, where ports of commands are looked at.
    pub address: Option<Ipv4Addr>,
    /// The state folder of its cluster.
    pub state: Option<PathBuf>,
    /// Where the libfabric provider is, if it is not beside `wiglaf`.
    pub libdir: Option<PathBuf>,
    /// The folder for the secrets of jobs.
    pub keys: PathBuf,
}

/// What an emulated node does beyond running commands. No real host does any of it.
pub trait Emulated: std::fmt::Debug + Send + Sync {
    /// The pid of the node's helper, which is no job's; 0: there is none.
    fn helper(&self) -> i32;

    /// A child of this process has ended, and its pid may be another's soon.
    fn has_ended(&self, pid: i32);

    /// Attaches these trees of mounts at these paths.
    ///
    /// # Errors
    /// When one cannot be attached.
    fn share(&self, paths: &[PathBuf], trees: &[OwnedFd]) -> Result<()>;

    /// Makes the switch's ports, by index, do this, and hold reordered frames at most so long.
    ///
    /// # Errors
    /// When there is no such port, or the kernel refuses.
    fn set_faults(&self, ports: &[(usize, Option<PortFaults>)], hold: Duration) -> Result<()>;

    /// What these ports do.
    ///
    /// # Errors
    /// When there is no such port.
    fn faults(&self, ports: &[usize]) -> Result<Vec<PortReport>>;
}

/// Everything that the connections share.
#[derive(Debug)]
struct Node {
    /// Since when so many lines were logged.
    lines: Mutex<(Instant, u32)>,
    /// How many descriptors commands may have, as who started this process could.
    descriptors: Rlimit,
    about: About,
    children: Children,
    jobs: Jobs,
    rooms: Rooms,
    door: Arc<Door>,
    emulated: Option<Box<dyn Emulated>>,
    /// Whose commands are run, if not everybody's: who is not root can run none for others.
    only: Option<u32>,
}

/// Who serves a node's clients: its init, where it is an emulated one, which is root and serves
/// everybody; or a process of a user's on a real host, which serves that user.
#[derive(Debug)]
pub struct Server {
    node: Arc<Node>,
}

/// Opens a node's socket in its folder, to everyone: commands run as their callers.
///
/// # Errors
/// When it cannot be opened.
pub fn listen(folder: &Path) -> Result<UnixListener> {
    let dir = fs::File::open(folder).cannot(|| format!("open {}", folder.display()))?;
    // Through the descriptor, as socket addresses hold 108 bytes only.
    let path = format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd());
    let listener = UnixListener::bind(&path).cannot(|| format!("open {SOCKET}"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666))
        .cannot(|| format!("open {SOCKET} to users"))?;
    Ok(listener)
}

impl Server {
    /// A server of that node. What it cannot do without `emulated` it refuses.
    #[must_use]
    pub fn new(about: About, emulated: Option<Box<dyn Emulated>>) -> Self {
        // One client's server needs few; and launchers close, one by one, all that they could have.
        let descriptors = match emulated {
            Some(_) => raise_descriptors(),
            None => getrlimit(Resource::Nofile),
        };
        let own = rustix::process::geteuid();
        let node = Node {
            lines: Mutex::new((Instant::now(), 0)),
            descriptors,
            about,
            children: Children::default(),
            jobs: Jobs::default(),
            rooms: Rooms::default(),
            door: Door::new(limits(getrlimit(Resource::Nofile).current)),
            emulated,
            only: (!own.is_root()).then(|| own.as_raw()),
        };
        Self { node: Arc::new(node) }
    }

    /// Serves who connects, for ever.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn run(&self, listener: &UnixListener) -> Result<()> {
        self.reap()?;
        loop {
            match listener.accept() {
                Ok((stream, _)) => self.accept(stream),
                Err(_) => std::thread::sleep(ACCEPT_PAUSE),
            }
        }
    }

    /// Starts a thread that reaps the commands that have ended, and tells their clients. All children of
    /// this process are taken for commands.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn reap(&self) -> Result<()> {
        let node = Arc::clone(&self.node);
        let reap = move || {
            node.children.reap(&|pid| {
                if let Some(emulated) = &node.emulated {
                    emulated.has_ended(pid);
                }
            });
        };
        std::thread::Builder::new().spawn(reap).cannot(|| "start a thread".to_owned())?;
        Ok(())
    }

    /// Serves the one client that a process of a user's has, in a thread.
    ///
    /// # Errors
    /// When it is not known who that is, or there is no thread.
    pub(super) fn serve_one(&self, stream: UnixStream) -> Result<std::thread::JoinHandle<()>> {
        let caller = Caller::of(&stream).cannot(|| "see who connects".to_owned())?;
        let node = Arc::clone(&self.node);
        let serve = move || node.serve(stream, &caller);
        std::thread::Builder::new().spawn(serve).cannot(|| "start a thread".to_owned())
    }

    /// Serves a connection in a thread of its own, if there are not too many. It is not closed here.
    pub fn accept(&self, stream: UnixStream) {
        let _ = stream.set_write_timeout(Some(SEND_PATIENCE));
        let _ = stream.set_read_timeout(Some(REQUEST_PATIENCE));
        let Ok(caller) = Caller::of(&stream) else { return self.node.door.close(u32::MAX, stream) };
        let (uid, node) = (caller.uid, Arc::clone(&self.node));
        if node.only.is_some_and(|only| only != uid) {
            let _ =
                reply(&stream, Err(Error::new("this server runs its own user's commands only")));
            return node.door.close(uid, stream);
        }
        let serve = move |stream| node.serve(stream, &caller);
        if let Err(stream) = self.node.door.admit(uid, stream, serve) {
            let why = format!("{} has too many connections; end some jobs", self.node.about.name);
            let _ = reply(&stream, Err(Error::new(why)));
            self.node.door.close(uid, stream);
        }
    }
}

/// Raises the limit of this process's descriptors as far as it may, and says what it was.
fn raise_descriptors() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let maximum = before.maximum.map(|maximum| maximum.max(DESCRIPTORS));
    let raised = Rlimit { current: Some(DESCRIPTORS), maximum };
    let _ = setrlimit(Resource::Nofile, raised).or_else(|_| {
        setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum })
    });
    before
}

/// So many connections as these descriptors are enough for, with all that may come along.
fn limits(descriptors: Option<u64>) -> Limits {
    let descriptors = descriptors.map_or(DESCRIPTORS, |limit| limit.min(DESCRIPTORS)) as usize;
    let fit = descriptors / (FDS_MAX + 1);
    Limits {
        all: fit * 2 / 3,
        of_user: CONNECTIONS_OF_USER_MAX.min(fit / 3),
        closing_of_user: descriptors / 16,
        closing: descriptors / 8,
        stack: STACK,
    }
}

impl Node {
    /// One connection. Its errors are the client's to notice: it goes away.
    fn serve(&self, stream: UnixStream, caller: &Caller) {
        let stream = Arc::new(stream);
        let room = self.rooms.of(self.door.person(caller.uid));
        let until = Some(Instant::now() + REQUEST_PATIENCE);
        let take = |len: usize| room.take(len);
        let allowed = Allowed { len_max: MESSAGE_LEN_MAX, until, take: &take };
        let Ok((request, fds)) = proto::recv_allowed::<Request>(&stream, &allowed) else { return };
        let _ = stream.set_read_timeout(None);
        let outcome = self.answer(&stream, caller, request, fds, room);
        if let Err(error) = outcome {
            self.log_lost(&error);
        }
        // Closed here: descriptors may lie in it whose closing takes as long as their owner likes,
        // and the reaper, which may be saying something, has no time for that.
        while Arc::strong_count(&stream) > 1 {
            std::thread::sleep(CLOSE_PAUSE);
        }
    }

    /// One line, unless there were too many. A client that went away is not worth one.
    fn log_lost(&self, error: &io::Error) {
        if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
            return;
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.0.elapsed() >= Duration::from_secs(60) {
            *lines = (Instant::now(), 0);
        }
        lines.1 += 1;
        if lines.1 <= LINES_PER_MINUTE {
            let _ = writeln!(io::stderr(), "a client was lost: {error}");
        }
    }

    fn answer(
        &self,
        stream: &Arc<UnixStream>,
        caller: &Caller,
        request: Request,
        fds: Vec<OwnedFd>,
        room: Room<'_>,
    ) -> io::Result<()> {
        // Others are not held while a job runs.
        let fds = match request {
            Request::Spawn(_) | Request::Share(_) => fds,
            _ => Vec::new(),
        };
        match request {
            Request::Hello => match self.hello() {
                Ok(hello) => proto::send(stream, &Reply::Hello(hello), &[]),
                Err(error) => reply(stream, Err(error)),
            },
            Request::Spawn(spawn) => self.spawn(stream, caller, spawn, fds, room),
            Request::Share(paths) => reply(stream, self.share(caller, &paths, &fds)),
            Request::Lease { job, key, limit } => {
                self.lease(stream, caller, (&job, key, limit), &room)
            }
            Request::SetFaults(ports, hold) => reply(stream, self.set_faults(caller, &ports, hold)),
            Request::Faults(ports) => {
                match self.emulated().and_then(|emulated| emulated.faults(&ports)) {
                    Ok(reports) => proto::send(stream, &Reply::Faults(reports), &[]),
                    Err(error) => reply(stream, Err(error)),
                }
            }
            Request::Reset => match self.reset(caller) {
                Ok(remains) => proto::send(stream, &Reply::Reset(remains), &[]),
                Err(error) => reply(stream, Err(self.blind(&error))),
            },
            Request::Look(paths) => {
                let seen = paths.iter().map(|path| host::look(path)).collect();
                match self.only.or((caller.uid == 0).then_some(0)) {
                    Some(_) => proto::send(stream, &Reply::Looked(seen), &[]),
                    None => reply(stream, Err(Error::new("only its own user looks at a host"))),
                }
            }
            Request::Patience(_) => Ok(()),
            Request::SignalJob { job, number } => {
                jobs::signal(&job, caller.uid, number);
                reply(stream, Ok(()))
            }
            Request::Signal(_) | Request::Release => {
                reply(stream, Err(Error::new("there is nothing to signal or release here")))
            }
        }
    }

    fn blind(&self, error: &io::Error) -> Error {
        Error::new(format!("{} cannot see what runs on it: {error}; try again", self.about.name))
    }

    fn hello(&self) -> Result<Hello> {
        let interfaces = fs::read_dir("/sys/class/net").into_iter().flatten();
        let mut interfaces: Vec<String> =
            interfaces.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
        interfaces.sort();
        let processes = jobs::process_count(self.helper()).map_err(|error| self.blind(&error))?;
        let host = self.emulated.is_none().then(host::hello).transpose()?;
        Ok(Hello { version: VERSION, node: self.about.name.clone(), processes, interfaces, host })
    }

    /// Runs a command until it ends or its client does.
    fn spawn(
        &self,
        stream: &Arc<UnixStream>,
        caller: &Caller,
        spawn: Spawn,
        fds: Vec<OwnedFd>,
        room: Room<'_>,
    ) -> io::Result<()> {
        let Ok(streams) = <[OwnedFd; 3]>::try_from(fds) else {
            return reply(stream, Err(Error::new("a command needs three descriptors")));
        };
        let raw = streams.each_ref().map(AsRawFd::as_raw_fd);
        let started = self
            .command(caller, &spawn, streams)
            .and_then(|mut command| self.start(&mut command, raw, stream, &spawn));
        // Not held while the command runs.
        drop((spawn, room));
        let child = match started {
            Ok(child) => child,
            Err(error) => return reply(stream, Err(error)),
        };
        while let Ok((request, _)) = proto::recv_short::<Request>(stream) {
            if let Request::Signal(number) = request {
                self.children.signal(child, number);
            }
        }
        self.children.abandon(child);
        Ok(())
    }

    fn start(
        &self,
        command: &mut Command,
        streams: [RawFd; 3],
        stream: &Arc<UnixStream>,
        spawn: &Spawn,
    ) -> Result<Child> {
        let program = spawn.argv[0].display();
        let started = self.children.spawn(command, streams, Arc::clone(stream));
        let no_folder =
            |error: &io::Error| error.raw_os_error().and_then(|said| self.no_folder(spawn, said));
        started.map_err(|error| match error.kind() {
            _ if let Some(no_folder) = no_folder(&error) => no_folder,
            _ if error.raw_os_error() == Some(NO_INTERPRETER) => Error::not_found(format!(
                "{}: the interpreter of `{program}` is missing; see its first line, or, of no script, \
                 what `file` says",
                self.about.name
            )),
            io::ErrorKind::NotFound => Error::not_found(format!(
                "{}: there is no program `{program}`; check its name and the PATH",
                self.about.name
            )),
            io::ErrorKind::TimedOut => Error::new(format!(
                "{}: `{program}` did not start in time and was ended; see whether its folders \
                 answer",
                self.about.name
            )),
            _ => Error::new(format!("{}: cannot run `{program}`: {error}", self.about.name)),
        })
    }

    /// Why the command cannot start where its client is, if that is what the child said.
    fn no_folder(&self, spawn: &Spawn, said: i32) -> Option<Error> {
        let (node, shown) = (&self.about.name, spawn.cwd.display());
        let advice = "run the command from your home or a folder below it";
        let sentence = match said {
            OTHER_FOLDER => {
                format!("{node} has a folder {shown} of its own, which is not yours; {advice}")
            }
            _ => match said.checked_sub(NOT_ENTERED)? {
                libc::ENOENT | libc::ENOTDIR => format!("{node} has no folder {shown}; {advice}"),
                number @ 0.. => {
                    let why = io::Error::from_raw_os_error(number);
                    format!("{node}: the folder {shown} cannot be entered: {why}; {advice}")
                }
                _ => return None,
            },
        };
        Some(Error::new(sentence))
    }

    fn command(&self, caller: &Caller, spawn: &Spawn, streams: [OwnedFd; 3]) -> Result<Command> {
        let [stdin, stdout, stderr] = streams;
        let Some((program, arguments)) = spawn.argv.split_first() else {
            return Err(Error::new("there is no command to run"));
        };
        for port in &spawn.udp_ports {
            let address = self.about.address.unwrap_or(Ipv4Addr::LOCALHOST);
            UdpSocket::bind((address, *port)).map_err(|error| {
                Error::new(format!(
                    "UDP port {port} of {} is in use ({error}); end the job that holds it",
                    self.about.name
                ))
            })?;
        }
        let cwd = match self.emulated {
            Some(_) => spawn.cwd.clone(),
            None => host::folder(&spawn.cwd),
        };
        let cwd = std::ffi::CString::new(cwd.as_os_str().as_encoded_bytes())
            .cannot(|| "enter a folder whose name holds a zero byte".to_owned())?;
        let program = match self.emulated {
            Some(_) => PathBuf::from(program),
            None => host::program(program)?,
        };
        let slice = match self.emulated {
            Some(_) => None,
            None => host::slice_of(&spawn.env, &self.about.keys).filter(|_| {
                let path = spawn.env.iter().find(|(name, _)| name == "PATH");
                let folder = host::folder(&spawn.cwd);
                host::would_start(&program, &folder, path.map(|(_, path)| path.as_os_str()))
            }),
        };
        let mut words = slice.map(|slice| slice.before()).unwrap_or_default();
        words.push(program.into_os_string());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(arguments).env_clear();
        if self.emulated.is_some() {
            command
                .envs(spawn.env.iter().map(|(k, v)| (k, v)))
                .env(proto::NODE_VAR, &self.about.name);
        } else {
            // As after a login, with what the caller adds, and the job's secret where it is here. On the host of
            // a job's script Slurm's variables are there besides, which launchers take for an order.
            let own = std::env::vars_os()
                .filter(|(name, _)| !name.to_str().is_some_and(wiglaf_base::paths::is_slurms));
            command.envs(own).envs(spawn.env.iter().map(|(k, v)| (k, v)));
            if let Some(key) = host::key_of(&spawn.env, &self.about.keys) {
                command.env(KEY_VAR, key);
            }
        }
        command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
        if let Some(state) = &self.about.state {
            command.env(proto::STATE_VAR, state);
        }
        // Here `wiglaf` lies where no library is beside it.
        let said = spawn.env.iter().any(|(name, _)| name == LIBDIR_VAR);
        if let (false, Some(libdir)) = (said, &self.about.libdir) {
            command.env(LIBDIR_VAR, libdir);
        }
        let (caller, terminal, descriptors) = (caller.clone(), spawn.terminal, self.descriptors);
        let (inherited, folder) = (spawn.inherited.clone(), spawn.folder);
        let is_root = self.only.is_none();
        let become_caller = move || {
            inherited.apply(&descriptors)?;
            caller.become_caller(terminal, is_root)?;
            enter(&cwd, folder)
        };
        // SAFETY: it makes system calls only and does not allocate.
        unsafe { command.pre_exec(become_caller) };
        Ok(command)
    }

    /// What only an emulated node does.
    fn emulated(&self) -> Result<&dyn Emulated> {
        let emulated = self.emulated.as_deref();
        emulated.ok_or_else(|| {
            let name = &self.about.name;
            Error::new(format!("{name} is a real host: its folders and its wire are not ours"))
        })
    }

    /// Attaches folders that are not shared yet.
    fn share(&self, caller: &Caller, paths: &[PathBuf], trees: &[OwnedFd]) -> Result<()> {
        if caller.uid != 0 {
            return Err(Error::new("only root can share further folders with the nodes"));
        }
        self.emulated()?.share(paths, trees)
    }

    fn set_faults(
        &self,
        caller: &Caller,
        ports: &[(usize, Option<PortFaults>)],
        hold: Duration,
    ) -> Result<()> {
        if caller.uid != 0 {
            return Err(Error::new("only root can make the wire faulty; run it with sudo"));
        }
        self.emulated()?.set_faults(ports, hold)
    }

    /// The pid of the node's helper; 0: there is none, or it is the host's.
    fn helper(&self) -> i32 {
        self.emulated.as_ref().map_or(0, |emulated| emulated.helper())
    }

    fn reset(&self, caller: &Caller) -> io::Result<Remains> {
        let whose = match &self.emulated {
            Some(emulated) => Whose::OfJobsBut(emulated.helper()),
            None => Whose::Marked,
        };
        let running = match whose {
            Whose::OfJobsBut(_) => self.jobs.names(),
            // Each job of a real host is watched over by a process of its own.
            Whose::Marked => {
                // A batch job's are elsewhere than those of who is logged in.
                let others = ssh::all_runtime_dirs().map(|folder| folder.join("keys"));
                let all = others.chain([self.about.keys.clone()]);
                all.flat_map(|keys| host::running_jobs(&keys)).collect()
            }
        };
        remains::remove(&self.children, &running, whose, caller.uid)
    }

    /// Watches over a job until the client releases it or goes away.
    fn lease(
        &self,
        stream: &UnixStream,
        caller: &Caller,
        (job, key, limit): (&str, Option<String>, Option<Duration>),
        room: &Room<'_>,
    ) -> io::Result<()> {
        if job.len() > JOB_LEN_MAX {
            return reply(stream, Err(Error::new("the job's mark is too long")));
        }
        // Removed when the job has ended.
        let keep = |key: String| KeyFile::make(&self.about.keys, job, &key, caller.uid, caller.gid);
        let _kept = match key.map(keep).transpose() {
            Ok(kept) => kept,
            Err(error) => {
                let name = &self.about.name;
                let sentence = format!("{name} cannot keep the job's secret: {error}; try again");
                return reply(stream, Err(Error::new(sentence)));
            }
        };
        let mut running = match self.emulated {
            Some(_) => None,
            None => match host::RunningJob::note(&self.about.keys, job) {
                Ok(running) => Some(running),
                Err(error) => {
                    let name = &self.about.name;
                    let sentence = format!("{name} cannot note the job: {error}; try again");
                    return reply(stream, Err(Error::new(sentence)));
                }
            },
        };
        match self.jobs.lease(job, caller.uid, &|len| room.take(len)) {
            Ok(true) => {}
            Ok(false) => {
                let sentence = "your files in /dev/shm on this node are too many for another job; \
                                remove those that no program needs";
                return reply(stream, Err(Error::new(sentence)));
            }
            Err(error) => return reply(stream, Err(self.blind(&error))),
        }
        // Before its first command comes. A job without one is found by its mark.
        let slice = running.as_mut().and_then(|running| {
            let slice = Slice::make(job)?;
            running.keep_in(&slice).ok().map(|()| slice)
        });
        let mut outcome = reply(stream, Ok(()));
        let mut ended = Vec::new();
        // An emulated node's wire is the user's to fault.
        let limit = limit.filter(|_| self.emulated.is_none());
        let mut unanswered = stuck::Unheard::new(limit);
        let released = loop {
            ended.extend(stuck::watch(stream, job, caller.uid, &mut unanswered));
            match proto::recv_short::<Request>(stream) {
                Ok((Request::Patience(_), _)) => {}
                Ok((Request::Release, _)) => break true,
                _ => break false,
            }
        };
        if let Some(slice) = slice {
            slice.end();
        }
        self.jobs.end(job, caller.uid, self.helper());
        if released {
            outcome = outcome.and(proto::send(stream, &Reply::Released(ended), &[]));
        }
        outcome
    }
}

fn reply(stream: &UnixStream, outcome: Result<()>) -> io::Result<()> {
    let message = match outcome {
        Ok(()) => Reply::Done,
        Err(error) => {
            Reply::Failed { not_found: error.exit_status() == 127, sentence: error.to_string() }
        }
    };
    proto::send(stream, &message, &[])
}

/// In the new process, with its user's rights: enters the folder to start in, which must be that
/// device's and inode's, if there is one to be. Makes system calls only.
fn enter(cwd: &std::ffi::CStr, folder: Option<(u64, u64)>) -> io::Result<()> {
    let not_entered =
        |errno: Errno| io::Error::from_raw_os_error(NOT_ENTERED + errno.raw_os_error());
    rustix::process::chdir(cwd).map_err(not_entered)?;
    let Some(folder) = folder else { return Ok(()) };
    let about = rustix::fs::stat(c".").map_err(not_entered)?;
    match folder == (about.st_dev, about.st_ino) {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(OTHER_FOLDER)),
    }
}
