//! The client's side of a node's init.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::paths::{self, KEY_VAR, LIBDIR_VAR, SOCKET, STATE_VAR};

use crate::faults::{PortFaults, PortReport};
use crate::inherited::Inherited;
use crate::keyboard;
use crate::proto::{
    self, End, FDS_MAX, Hello, NODE_VAR, Remains, Reply, Request, Seen, Spawn, StuckDaemon,
    Unanswered, VERSION,
};
use crate::ssh::{self, Target};
use crate::trees::clone_tree;

/// Folders that must stay each node's own, however they are asked for.
const PRIVATE: [&str; 11] =
    ["/", "/tmp", "/var", "/var/tmp", "/run", "/proc", "/sys", "/dev", "/dev/shm", "/etc", "/usr"];
/// Trees of which nothing is ever shared: they are the same on all nodes, or
/// must differ.
const PRIVATE_TREES: [&str; 5] = ["/proc", "/sys", "/dev", "/etc", "/usr"];

/// A node as its clients see it.
#[derive(Debug, Clone)]
pub struct Node {
    name: String,
    place: Place,
}

/// As much of a command's complaint is told, in bytes.
const COMPLAINT_LEN_MAX: u64 = 4096;
/// Prefixes and names of variables that commands on real hosts take over from the caller: what MPIs,
/// programs and we are told by. All else is the host's own, as after a login.
const PASSED_ON_PREFIXES: [&str; 20] = [
    "WIGLAF_",
    "FI_",
    "UCX_",
    "OMPI_",
    "ORTE_",
    "OPAL_",
    "PMIX_",
    "PRTE_",
    "PMI_",
    "MPIR_",
    "MPICH_",
    "HYDRA_",
    "HYDI_",
    "MPIEXEC_",
    "I_MPI_",
    "OMP_",
    "KMP_",
    "MKL_",
    "OPENBLAS_",
    "LC_",
];
const PASSED_ON: [&str; 6] =
    ["LANG", "LANGUAGE", "TERM", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"];
/// These are each host's own.
const NOT_PASSED_ON: [&str; 4] = [NODE_VAR, STATE_VAR, LIBDIR_VAR, KEY_VAR];

/// Whether a command on a real host takes that variable over from the caller.
fn is_passed_on(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_told = PASSED_ON.contains(&name)
        || PASSED_ON_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    is_told && !NOT_PASSED_ON.contains(&name)
}

/// Where a node is reached.
#[derive(Debug, Clone)]
pub enum Place {
    /// A real host: its agent is started for each connection.
    Host(Target),
    /// On this machine: its init listens in its folder.
    Emulated {
        /// The folder of the node.
        folder: PathBuf,
        /// The name of its cluster, where commands must name it.
        cluster: Option<String>,
    },
}

impl Place {
    /// How to call a command of `wiglaf` for the cluster of this node.
    fn command(&self, command: &str) -> String {
        match self {
            Self::Emulated { cluster, .. } => paths::command(command, cluster.as_deref()),
            Self::Host(_) => paths::command(command, None),
        }
    }
}

/// A command for a node.
#[derive(Debug, Clone, Default)]
pub struct NodeCommand {
    spawn: Spawn,
    /// It starts where this process is, and so must the node's folder be this one.
    is_here: bool,
}

impl NodeCommand {
    /// A program and its arguments, in the folder and environment of this process, with its umask and
    /// resource limits.
    pub fn new<S: Into<OsString>>(argv: impl IntoIterator<Item = S>) -> Self {
        // Where this process is in no folder, the command is to start in none, and does not.
        let cwd = working_folder().unwrap_or_default();
        let argv = argv.into_iter().map(Into::into).collect();
        let env = std::env::vars_os().collect();
        let inherited = Inherited::own();
        let spawn = Spawn { argv, env, cwd, inherited, ..Spawn::default() };
        Self { spawn, is_here: true }
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl Into<OsString>) -> Self {
        let name = name.as_ref();
        self.spawn.env.retain(|(k, _)| k != name);
        self.spawn.env.push((name.to_owned(), value.into()));
        self
    }

    /// Sets several variables.
    #[must_use]
    pub fn envs<K: AsRef<OsStr>, V: Into<OsString>>(
        self,
        vars: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        vars.into_iter().fold(self, |command, (name, value)| command.env(name, value))
    }

    /// Keeps only the variables that `keep` wants, and none whose name is no UTF-8.
    #[must_use]
    pub fn retain_env(mut self, keep: impl Fn(&str) -> bool) -> Self {
        self.spawn.env.retain(|(name, _)| name.to_str().is_some_and(&keep));
        self
    }

    /// Starts in another folder.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.spawn.cwd = cwd.into();
        self.is_here = false;
        self
    }

    /// Makes its standard input its controlling terminal.
    #[must_use]
    pub(crate) fn on_terminal(mut self) -> Self {
        self.spawn.terminal = true;
        self
    }

    /// Fails when these UDP ports of the node are in use.
    #[must_use]
    pub fn udp_ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.spawn.udp_ports.extend(ports);
        self
    }
}

/// The three standard streams of a command.
#[derive(Debug)]
pub struct Streams {
    /// What it reads.
    pub stdin: OwnedFd,
    /// Where it writes.
    pub stdout: OwnedFd,
    /// Where it complains.
    pub stderr: OwnedFd,
}

impl Streams {
    /// Those of this process; from a terminal, what is typed while this process is in its foreground.
    ///
    /// # Errors
    /// When one of them is closed.
    pub fn inherit() -> Result<Self> {
        let copy = |fd: std::os::fd::BorrowedFd<'_>| {
            fd.try_clone_to_owned().cannot(|| "pass the standard streams on".to_owned())
        };
        Ok(Self {
            stdin: keyboard::through_pipe(copy(io::stdin().as_fd())?)?,
            stdout: copy(io::stdout().as_fd())?,
            stderr: copy(io::stderr().as_fd())?,
        })
    }
}

impl Streams {
    /// Through pipes: what this process writes to the command and reads from it comes besides. What it
    /// complains about is dropped.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn piped() -> Result<(Self, File, File)> {
        let ((stdin, to), (from, stdout)) = (pipe()?, pipe()?);
        Ok((Self { stdin, stdout, stderr: null()? }, to.into(), from.into()))
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let (from, to) = io::pipe().cannot(|| "make a pipe".to_owned())?;
    Ok((from.into(), to.into()))
}

/// A stream that gives nothing and takes everything.
///
/// # Errors
/// When there is no /dev/null.
pub fn null() -> Result<OwnedFd> {
    let null = File::options().read(true).write(true).open("/dev/null");
    null.map(OwnedFd::from).cannot(|| "open /dev/null".to_owned())
}

/// A running command. Dropping it kills the command's process group.
#[derive(Debug)]
pub struct Running {
    stream: UnixStream,
    node: String,
}

/// A watched job. Dropping it ends all processes of the job on the node.
#[derive(Debug)]
pub struct Lease {
    stream: UnixStream,
    node: String,
    is_host: bool,
}

impl Node {
    /// The node called `name`; it is not asked yet whether it exists.
    #[must_use]
    pub fn new(name: &str, place: Place) -> Self {
        Self { name: name.to_owned(), place }
    }

    /// Its host name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a real host.
    #[must_use]
    pub fn is_host(&self) -> bool {
        matches!(self.place, Place::Host(_))
    }

    /// How it is reached, if it is a real host.
    #[must_use]
    pub fn target(&self) -> Option<&Target> {
        match &self.place {
            Place::Host(target) => Some(target),
            Place::Emulated { .. } => None,
        }
    }

    fn connect(&self) -> Result<UnixStream> {
        let gone = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Error::not_up(format!(
                "{} is not up; see `{}`, and start it with `{}`",
                self.name,
                self.place.command("status"),
                self.place.command("up")
            )),
            _ => Error::new(format!("cannot reach {}: {error}", self.name)),
        };
        // Through the folder's descriptor, as socket addresses hold 108 bytes only.
        let folder = match &self.place {
            Place::Emulated { folder, .. } => folder,
            Place::Host(target) => return ssh::connect(&self.name, target),
        };
        let dir = File::open(folder).map_err(gone)?;
        UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd())).map_err(gone)
    }

    /// Whether nobody listens there.
    #[must_use]
    pub fn is_not_up(&self) -> bool {
        self.connect().is_err_and(|error| error.is_not_up())
    }

    fn ask(&self, request: &Request, fds: &[OwnedFd]) -> Result<(UnixStream, Reply)> {
        let stream = self.connect()?;
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let reply = proto::send(&stream, request, &fds).and_then(|()| proto::recv(&stream));
        let (reply, _) = reply.map_err(|error| lost(&self.name, &error))?;
        Ok((stream, reply))
    }

    /// Asks the node about itself.
    ///
    /// # Errors
    /// When it is not up or of another version.
    pub fn hello(&self) -> Result<Hello> {
        match self.ask(&Request::Hello, &[])?.1 {
            Reply::Hello(hello) if hello.version == VERSION => Ok(hello),
            other if self.is_host() => Err(unexpected(&self.name, other)),
            _ => Err(Error::new(format!(
                "{} was started by another version of wiglaf; run `{}` and `{}`",
                self.name,
                self.place.command("down"),
                self.place.command("up")
            ))),
        }
    }

    /// Starts a command.
    ///
    /// # Errors
    /// When the node is not up, or there is no such program.
    pub fn spawn(&self, command: &NodeCommand, streams: Streams) -> Result<Running> {
        if command.is_here && command.spawn.cwd.as_os_str().is_empty() {
            working_folder()?;
        }
        // Not looked at where it starts elsewhere: it may be a mount that this process is to serve.
        let is_same = command.is_here && !self.is_host();
        let folder = is_same.then(|| identity(&command.spawn.cwd)).flatten();
        let mut spawn = Spawn { folder, ..command.spawn.clone() };
        if self.is_host() {
            spawn.env.retain(|(name, _)| is_passed_on(name));
            // Its own limits are the host's business.
            spawn.inherited = Inherited::default();
        }
        let request = Request::Spawn(spawn);
        let fds = [streams.stdin, streams.stdout, streams.stderr];
        match self.ask(&request, &fds)? {
            (stream, Reply::Started) => Ok(Running { stream, node: self.name.clone() }),
            (_, other) => Err(unexpected(&self.name, other)),
        }
    }

    /// Runs a command to its end. What it writes goes to `to`; the last line of what it complains about is
    /// the error.
    ///
    /// # Errors
    /// When the node is not up, there is no such program, it fails, or `to` does not take what it writes.
    pub fn run(&self, command: &NodeCommand, stdin: OwnedFd, to: &mut dyn Write) -> Result<()> {
        let ((output, stdout), (complaints, stderr)) = (pipe()?, pipe()?);
        let running = self.spawn(command, Streams { stdin, stdout, stderr })?;
        let complaints = std::thread::spawn(move || {
            let mut said = Vec::new();
            let mut complaints = File::from(complaints);
            let _ = (&mut complaints).take(COMPLAINT_LEN_MAX).read_to_end(&mut said);
            let _ = io::copy(&mut complaints, &mut io::sink());
            said
        });
        let copied = io::copy(&mut File::from(output), to);
        let said = complaints.join().unwrap_or_default();
        match running.wait()? {
            End::Status(0) => copied.map(drop).cannot(|| "write it here".to_owned()),
            end => {
                let said = String::from_utf8_lossy(&said);
                let last = said.lines().rfind(|line| !line.trim().is_empty());
                let last = last.unwrap_or("it failed").trim();
                let last = last.strip_prefix("wiglaf: ").unwrap_or(last);
                Err(Error::new(last).with_status(end.code()))
            }
        }
    }

    /// Runs a command to its end with `input` on its standard input, and answers what it wrote to its standard output.
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub fn output(&self, command: &NodeCommand, input: &[u8]) -> Result<Vec<u8>> {
        // A pipe may be full before anybody reads.
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let stdin = rustix::fs::memfd_create("input", flags).map_err(io::Error::from);
        let mut stdin = File::from(stdin.cannot(|| "make a file in memory".to_owned())?);
        stdin
            .write_all(input)
            .and_then(|()| stdin.rewind())
            .cannot(|| "write to a file in memory".to_owned())?;
        let mut said = Vec::new();
        self.run(command, stdin.into(), &mut said)?;
        Ok(said)
    }

    /// Makes these folders of the machine visible on the node, unless they are
    /// already or must stay the node's own. Only root can.
    ///
    /// # Errors
    /// When the node refuses.
    pub fn share(&self, folders: &[PathBuf]) -> Result<()> {
        let folders: Vec<PathBuf> = folders.iter().filter(|f| may_be_shared(f)).cloned().collect();
        for folders in folders.chunks(FDS_MAX) {
            let trees = folders.iter().map(|f| clone_tree(f, true)).collect::<Result<Vec<_>>>()?;
            let reply = self.ask(&Request::Share(folders.to_vec()), &trees)?.1;
            done(&self.name, reply)?;
        }
        Ok(())
    }

    /// Tells the switch what its ports shall do. Only root can.
    ///
    /// # Errors
    /// When it is not up, or refuses.
    pub fn set_faults(
        &self,
        ports: Vec<(usize, Option<PortFaults>)>,
        hold: Duration,
    ) -> Result<()> {
        done(&self.name, self.ask(&Request::SetFaults(ports, hold), &[])?.1)
    }

    /// What these ports of the switch do.
    ///
    /// # Errors
    /// When it is not up, or has no such port.
    pub fn faults(&self, ports: Vec<usize>) -> Result<Vec<PortReport>> {
        match self.ask(&Request::Faults(ports), &[])?.1 {
            Reply::Faults(reports) => Ok(reports),
            other => Err(unexpected(&self.name, other)),
        }
    }

    /// Ends what is left on the node of jobs that have ended, and removes it: the
    /// caller's own, or everybody's if root asks. Says what it was.
    ///
    /// # Errors
    /// When the node is not up.
    pub fn reset(&self) -> Result<Remains> {
        match self.ask(&Request::Reset, &[])?.1 {
            Reply::Reset(remains) => Ok(remains),
            other => Err(unexpected(&self.name, other)),
        }
    }

    /// What is at these paths of the node.
    ///
    /// # Errors
    /// When the node is not up.
    pub fn look(&self, paths: &[PathBuf]) -> Result<Vec<Option<Seen>>> {
        match self.ask(&Request::Look(paths.to_vec()), &[])?.1 {
            Reply::Looked(seen) if seen.len() == paths.len() => Ok(seen),
            other => Err(unexpected(&self.name, other)),
        }
    }

    /// Signals all of a job's processes on the node, wherever their launcher has put them. It is done when
    /// this comes back.
    ///
    /// # Errors
    /// When the node is not up.
    pub fn signal_job(&self, job: &str, number: i32) -> Result<()> {
        let request = Request::SignalJob { job: job.to_owned(), number };
        done(&self.name, self.ask(&request, &[])?.1)
    }

    /// Watches over a job until the lease is released or this process ends, and keeps its secret, if it
    /// has one, for its ranks. On a real host, a network that owes the job's launcher or daemons an
    /// answer for longer than `limit` is told to [`Lease::watch`].
    ///
    /// # Errors
    /// When the node is not up.
    pub fn lease(&self, job: &str, key: Option<&str>, limit: Option<Duration>) -> Result<Lease> {
        let request = Request::Lease { job: job.to_owned(), key: key.map(str::to_owned), limit };
        let (stream, reply) = self.ask(&request, &[])?;
        done(&self.name, reply)?;
        Ok(Lease { stream, node: self.name.clone(), is_host: self.is_host() })
    }
}

/// Where this process is.
///
/// # Errors
/// When that folder has been removed: a command that starts elsewhere could do harm there. Or when the
/// user may enter neither it nor the home that nodes would advise to go to.
pub fn working_folder() -> Result<PathBuf> {
    let folder = std::env::current_dir().map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::NotFound => "is gone".to_owned(),
            _ => format!("cannot be found ({error})"),
        };
        Error::new(format!(
            "the folder that you are in {what}; run the command from your home or a folder below it"
        ))
    })?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    match home.filter(|home| !may_enter(home) && !may_enter(&folder)) {
        Some(home) => Err(Error::new(format!(
            "you may enter neither HOME, which is {}, nor the folder that you are in, {}; call from a \
             folder that you may enter",
            home.display(),
            folder.display()
        ))),
        None => Ok(folder),
    }
}

/// Whether this is a folder that the user may work in.
#[must_use]
pub fn may_enter(folder: &Path) -> bool {
    folder.is_dir() && rustix::fs::access(folder, rustix::fs::Access::EXEC_OK).is_ok()
}

/// What tells a folder of the machine from a node's of the same name; nothing where each node is to
/// have its own, and on a node, where a command may start wherever its user is.
fn identity(folder: &Path) -> Option<(u64, u64)> {
    if std::env::var_os(NODE_VAR).is_some() || is_private(folder) {
        return None;
    }
    let about = std::fs::metadata(folder).ok()?;
    Some((about.dev(), about.ino()))
}

/// Whether each node has its own of this folder, by design.
#[must_use]
pub fn is_private(folder: &Path) -> bool {
    PRIVATE.iter().any(|dir| folder == Path::new(dir))
}

/// Whether a folder may look the same on all nodes.
#[must_use]
pub fn may_be_shared(folder: &Path) -> bool {
    folder.is_absolute()
        && folder.is_dir()
        && !is_private(folder)
        && !PRIVATE_TREES.iter().any(|dir| folder.starts_with(dir))
}

fn done(node: &str, reply: Reply) -> Result<()> {
    match reply {
        Reply::Done => Ok(()),
        other => Err(unexpected(node, other)),
    }
}

fn unexpected(node: &str, reply: Reply) -> Error {
    match reply {
        Reply::Failed { sentence, not_found: true } => Error::not_found(sentence),
        Reply::Failed { sentence, .. } => Error::new(sentence),
        other => Error::new(format!("{node} answered something else: {other:?}")),
    }
}

fn lost(node: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            Error::new(format!("{node} went down; see `wiglaf status`"))
        }
        _ => Error::new(format!("lost {node}: {error}")),
    }
}

impl Running {
    /// Where it runs.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When the node goes down first.
    pub fn wait(&self) -> Result<End> {
        match proto::recv(&self.stream).map_err(|error| lost(&self.node, &error))?.0 {
            Reply::Ended(end) => Ok(end),
            other => Err(unexpected(&self.node, other)),
        }
    }

    /// Signals the command's process group. A command that has ended is no error.
    pub fn signal(&self, number: i32) {
        let _ = proto::send(&self.stream, &Request::Signal(number), &[]);
    }

    /// Turns readable when the command has ended.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// A second handle to signal through while another waits.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn try_clone(&self) -> Result<Self> {
        let stream = self.stream.try_clone().cannot(|| "copy a connection".to_owned())?;
        Ok(Self { stream, node: self.node.clone() })
    }
}

impl Lease {
    /// From now on, the host endures our silence for so long, or for ever; and we its. What is silent
    /// longer is taken for dead. An emulated node does not mind.
    pub fn endure(&self, limit: Option<Duration>) {
        if self.is_host {
            let _ = proto::send(&self.stream, &Request::Patience(limit), &[]);
        }
    }

    /// A second handle to the connection, for whoever watches it.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn try_clone(&self) -> Result<Self> {
        let stream = self.stream.try_clone().cannot(|| "copy a connection".to_owned())?;
        Ok(Self { stream, node: self.node.clone(), is_host: self.is_host })
    }

    /// Waits until the node is lost, or a network that the job's launcher needs, or until `is_released` says
    /// that it no longer matters. That is to be said before [`Self::release`] is called.
    ///
    /// # Errors
    /// When one of them is lost, and why.
    pub fn watch(&self, is_released: &AtomicBool) -> Result<()> {
        let mut fds = [PollFd::new(&self.stream, PollFlags::IN)];
        let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        loop {
            let seen = poll(&mut fds, Some(&pause));
            // What is there to read before the release was asked for is no answer to it.
            if is_released.load(Ordering::SeqCst) {
                return Ok(());
            }
            if matches!(seen, Ok(1..)) {
                break;
            }
        }
        match proto::recv::<Reply>(&self.stream) {
            Ok((Reply::Unanswered(what), _)) => Err(unanswered(&self.node, &what)),
            Ok((other, _)) => Err(unexpected(&self.node, other)),
            Err(error) => Err(lost(&self.node, &error)),
        }
    }

    /// Ends all processes of the job on the node, and waits until they have. Says
    /// which of its MPI's daemons were stuck before.
    ///
    /// # Errors
    /// When the node has gone down, and the processes with it.
    pub fn release(self) -> Result<Vec<StuckDaemon>> {
        let sent = proto::send(&self.stream, &Request::Release, &[]);
        loop {
            // A host that was lost a moment ago has said why, and takes nothing any more.
            let reply = proto::recv(&self.stream)
                .map_err(|error| lost(&self.node, sent.as_ref().err().unwrap_or(&error)));
            match reply?.0 {
                Reply::Released(stuck) => return Ok(stuck),
                // It was on its way when the job ended.
                Reply::Unanswered(_) => {}
                other => return Err(unexpected(&self.node, other)),
            }
        }
    }
}

/// What to say of a network that a launcher needs and that carries nothing.
fn unanswered(node: &str, what: &Unanswered) -> Error {
    let Unanswered { program, local, remote, since } = what;
    Error::new(format!(
        "{remote} has not answered {program} on {node} ({local}) for {:.1} s, so the job cannot be led any \
         more and was ended: a cable or a switch of that network is out; see `ping {remote}` on {node}",
        since.as_secs_f64()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_host_was_lost_is_told_though_the_job_ended_first() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let sentence = "pc3 has not answered for 8.0 s".to_owned();
        let reply = Reply::Failed { sentence: sentence.clone(), not_found: false };
        proto::send(&theirs, &reply, &[]).unwrap();
        drop(theirs);
        let lease = Lease { stream: ours, node: "pc3".to_owned(), is_host: true };
        assert_eq!(lease.release().unwrap_err().to_string(), sentence);
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let lease = Lease { stream: ours, node: "pc3".to_owned(), is_host: true };
        assert!(lease.release().unwrap_err().to_string().contains("pc3"));
    }

    #[test]
    fn private_folders_stay_private() {
        for folder in ["/", "/tmp", "/var/tmp", "/dev/shm", "/usr/share", "relative", "/no/such"] {
            assert!(!may_be_shared(Path::new(folder)), "{folder}");
        }
        let own = tempfile::tempdir().unwrap();
        assert!(may_be_shared(own.path()));
    }
}
