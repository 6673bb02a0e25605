//! `wiglaf mount` and `wiglaf umount`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use wiglaf_base::paths::NODE_VAR;
use wiglaf_base::{End, Error, Result, signals};
use wiglaf_cluster::share::READY;
use wiglaf_cluster::{StateDir, state as clusters};
use wiglaf_files::Files;
use wiglaf_mount::{Options, Unmounted, connect, serve, unmount};
use wiglaf_node::mounts::Mounted;
use wiglaf_node::{NodeCommand, Streams};

use crate::options::Global;
use crate::output;
use crate::which::{self, Meant};

const HELP: &str = "\
Examples:
  wiglaf mount node2:/scratch /mnt/scratch2        until Ctrl-C
  wiglaf mount --background node2:/scratch /mnt/scratch2
  wiglaf exec -w node1 -- wiglaf mount node2:/scratch /mnt
  wiglaf umount /mnt/scratch2

The mount is where the command is called: on this machine, or on a node. It says
so on standard output when it can be used. Ctrl-C, `wiglaf umount`, `fusermount3
-u` or umount(8) take it away. What another node writes is seen at once.

Only who has mounted it sees what is mounted, with the rights that he or she has
on that node. Who is not root needs fusermount3 (package fuse3), and a folder to
write to.

When the file server dies, the command ends, and the folder gives ENOTCONN
(Transport endpoint is not connected) rather than what lies below it, until it
is taken away or mounted again.

Locks hold between all nodes. With --local-locks this machine keeps them, which
spares some time: right as long as everybody who locks those files does so
through this mount.";

/// Mount a node's folder, for programs that know nothing of Wiglaf
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// What to mount
    #[arg(value_name = "NODE:PATH")]
    from: String,

    /// Where: an existing folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Return when it is mounted, and serve it in the background
    #[arg(short, long)]
    background: bool,

    /// Keep locks on this machine, for this mount alone
    #[arg(long)]
    local_locks: bool,

    /// Serve in a session of its own
    #[arg(long, hide = true)]
    detached: bool,

    /// The mount is made already; its requests come on standard input
    #[arg(long, hide = true)]
    connected: bool,

    /// The file server runs already, and is at the other end of standard input and output; without it,
    /// the mount goes
    #[arg(long, hide = true)]
    line: bool,

    /// With --line: folders that were made for the mount, to be removed after it
    #[arg(long, hide = true, value_name = "DIR")]
    made: Vec<PathBuf>,
}

/// Take away what `wiglaf mount` has mounted
#[derive(Debug, clap::Args)]
#[command(after_help = UMOUNT_HELP)]
pub(crate) struct UmountArgs {
    /// Where it is mounted
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Also while it is in use
    #[arg(long)]
    lazy: bool,
}

const UMOUNT_HELP: &str = "\
Examples:
  wiglaf umount /mnt/scratch2
  wiglaf umount --lazy /mnt/scratch2     also while files are open in it

It works also when the node or its file server has gone. With --lazy, calls on
files that are open fail from then on.";

/// The type in a mode, and a folder's, as stat(2) has them.
const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;
/// The exit status of the process on the node when the file server has died.
const LOST: i32 = 3;
/// The exit status of the process on the node when the mount has never worked: that of any error that [`run`] returns.
const NEVER_WORKED: i32 = 1;

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let (name, path) = args
        .from
        .split_once(':')
        .filter(|(name, path)| !name.is_empty() && path.starts_with('/'))
        .ok_or_else(|| {
            Error::new(format!("`{}` is not NODE:/PATH, such as node2:/scratch", args.from))
        })?;
    if args.connected {
        let fuse = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
        // Nothing else reads it, and the mount ends with the last copy.
        rustix::stdio::dup2_stdin(&wiglaf_node::client::null()?).map_err(failed)?;
        return here(args, (name, path), fuse, None);
    }
    if args.line {
        return over_line(args, (name, path));
    }
    let meant = match std::env::var_os(NODE_VAR) {
        Some(_) => None,
        None => Some(global.meant()?),
    };
    if let Some(Meant::Hosts(hosts)) = &meant {
        which::enter(hosts)?;
    }
    let dir = prepared(&args.dir)?;
    if args.background {
        return in_background(args, global);
    }
    if args.detached {
        rustix::process::setsid().map_err(failed)?;
    }
    let held = signals::Held::new(&signals::ENDING);
    match (std::env::var_os(NODE_VAR), meant) {
        (None, Some(Meant::Emulated(state))) => through_node(args, &state, name, &dir, held),
        _ => on_this_node(args, (name, path), &dir, held, None),
    }
}

/// Mounts what a server at the other end of standard input and output serves, for as long as it does.
/// Another process does so, in a session of its own: it takes the mount away even where whoever called
/// this one is killed, and this process with it.
fn over_line(args: &Args, from: (&str, &str)) -> Result<ExitCode> {
    if !args.detached {
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["mount", "--line", "--detached"]);
        args.made.iter().for_each(|dir| {
            command.arg("--made").arg(dir);
        });
        command.arg("--").arg(&args.from).arg(&args.dir);
        let status = command.status().map_err(failed)?;
        return Ok(ExitCode::from(status.code().map_or(1, |code| code as u8)));
    }
    rustix::process::setsid().map_err(failed)?;
    let dir = match prepared(&args.dir) {
        Ok(dir) => dir,
        Err(error) => {
            remove_made(args);
            return Err(error);
        }
    };
    let held = signals::Held::new(&signals::ENDING);
    let line = (
        io::stdin().as_fd().try_clone_to_owned().map_err(failed)?,
        io::stdout().as_fd().try_clone_to_owned().map_err(failed)?,
    );
    let null = wiglaf_node::client::null()?;
    rustix::stdio::dup2_stdin(&null).map_err(failed)?;
    rustix::stdio::dup2_stdout(&null).map_err(failed)?;
    let outcome = on_this_node(args, from, &dir, held, Some(line));
    remove_made(args);
    outcome
}

/// Removes the folders that were made for the mount, the deepest first, as far as they are empty.
fn remove_made(args: &Args) {
    for dir in &args.made {
        let _ = std::fs::remove_dir(dir);
    }
}

/// The folder to mount on, free of what an earlier mount left there.
fn prepared(dir: &Path) -> Result<PathBuf> {
    let shown = dir.display();
    if let Ok(Some(mounted)) = Mounted::at(dir) {
        if !mounted.is_dead() {
            return Err(Error::new(format!(
                "something is mounted on {shown} already; take it away with `wiglaf umount {shown}`"
            )));
        }
        mounted.detach().map_err(failed)?;
    }
    if !dir.is_dir() {
        return Err(Error::new(format!("{shown} is not a folder; make it with mkdir")));
    }
    dir.canonicalize().map_err(failed)
}

/// Has a process of its own serve the mount, and returns when it works.
fn in_background(args: &Args, global: &Global) -> Result<ExitCode> {
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    if let Meant::Emulated(state) = global.meant()? {
        command.arg("--state").arg(state.path());
    }
    command.args(["mount", "--detached"]);
    command.args(args.local_locks.then_some("--local-locks"));
    command.arg("--").arg(&args.from).arg(&args.dir);
    // Not this process's stderr, whose end somebody may wait for, and not a pipe
    // that nobody reads later on: all that serve the mount have it.
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut complaints = File::from(rustix::fs::memfd_create("complaints", flags).map_err(failed)?);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(complaints.try_clone().map_err(failed)?);
    let mut child = command.spawn().map_err(failed)?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line).map_err(failed)?;
    }
    if line.is_empty() {
        let status = child.wait().map_err(failed)?;
        complaints.rewind().map_err(failed)?;
        let mut text = String::new();
        complaints.read_to_string(&mut text).map_err(failed)?;
        eprint!("{text}");
        return Ok(ExitCode::from(status.code().map_or(1, |code| code as u8)));
    }
    output::print(&line)?;
    Ok(ExitCode::SUCCESS)
}

/// Mounts and serves on the node that this process is on.
fn on_this_node(
    args: &Args,
    from: (&str, &str),
    dir: &Path,
    held: signals::Held,
    line: Option<(OwnedFd, OwnedFd)>,
) -> Result<ExitCode> {
    let fuse = connect(&args.from, dir).map_err(Error::new)?;
    let watched = whole(dir)?;
    end_with_signals(held, watched.clone())?;
    let has_ended = Arc::new(AtomicBool::new(false));
    let (knows, mounted) = (Arc::clone(&has_ended), watched.clone());
    let own = args.clone();
    std::thread::spawn(move || {
        // A copy of the mount in another namespace would keep it alive.
        if watched.wait_until_gone().is_ok() && !knows.load(Ordering::Relaxed) {
            remove_made(&own);
            std::process::exit(0);
        }
    });
    let outcome = here(args, from, fuse, line);
    has_ended.store(true, Ordering::Relaxed);
    match outcome {
        Ok(code) => Ok(ended_well(&mounted, code)),
        // It never worked.
        Err(error) => {
            let _ = take_away(&mounted);
            Err(error)
        }
    }
}

/// Its process has ended as if the mount had been taken away. If that is not so, somebody has cut its
/// connection: it stays, as what lies below it must not be taken for it.
fn ended_well(mounted: &Mounted, code: ExitCode) -> ExitCode {
    if !matches!(mounted.is_there(), Ok(true)) {
        return code;
    }
    complain("its connection to the kernel was cut", &mounted.dir);
    ExitCode::FAILURE
}

/// Says that a mount that has worked does so no longer.
fn complain(why: &str, dir: &Path) {
    let dir = dir.display();
    eprintln!(
        "wiglaf: {why}; {dir} gives ENOTCONN until it is mounted again or taken away with `wiglaf \
         umount {dir}`"
    );
}

/// Takes our mount away, and nothing that others have mounted at the same place, before or after.
fn take_away(mounted: &Mounted) -> io::Result<Unmounted> {
    match mounted.seen_at()? {
        Some(dir) => unmount(&dir, true),
        None if mounted.is_there()? => Err(io::Error::other("something else is mounted over it")),
        None => Ok(Unmounted::Wholly),
    }
}

fn whole(dir: &Path) -> Result<Mounted> {
    Mounted::at(dir).map_err(failed)?.ok_or_else(|| failed("the mount has gone again"))
}

/// Serves the mount in this process.
fn here(
    args: &Args,
    (name, path): (&str, &str),
    fuse: OwnedFd,
    line: Option<(OwnedFd, OwnedFd)>,
) -> Result<ExitCode> {
    let cannot =
        |why: &dyn std::fmt::Display| Error::new(format!("cannot mount {}: {why}", args.from));
    let node = match line {
        Some((from, to)) => Files::new().attach_line(name, from, to),
        None => Files::new().attach_served(name),
    };
    let node = node.map_err(|error| cannot(&error))?;
    let found = node.attributes(path, true).map_err(|error| cannot(&error))?;
    if found.mode & S_IFMT != S_IFDIR {
        return Err(cannot(&"it is not a folder"));
    }
    let root = match path.trim_end_matches('/') {
        "" => "/",
        root => root,
    };
    let options = Options { local_locks: args.local_locks };
    let works = AtomicBool::new(false);
    let ready = || {
        works.store(true, Ordering::Relaxed);
        if args.line {
            // Its standard output is the server's.
            eprintln!("{READY}");
            return;
        }
        let mut out = io::stdout().lock();
        // Who does not listen may use it all the same.
        let _ = writeln!(out, "{} is mounted on {}", args.from, args.dir.display());
        let _ = out.flush();
        if io::stdin().is_terminal() {
            let dir = args.dir.display();
            eprintln!(
                "wiglaf: until Ctrl-C or `wiglaf umount {dir}`; --background gives the prompt back"
            );
        }
    };
    // It stays, dead. Only the process on the machine must know why.
    let end = if args.connected { LOST } else { 1 };
    let (what, dir, own) = (name.to_owned(), args.dir.clone(), args.clone());
    let lost = move || {
        if own.line {
            // Nobody is left who would take it away.
            let _ = Mounted::at(&dir).ok().flatten().map(|mounted| take_away(&mounted));
            remove_made(&own);
            std::process::exit(end);
        }
        complain(&format!("the file server on {what} has ended"), &dir);
        std::process::exit(end);
    };
    match serve(node, OsStr::new(root), fuse, options, ready, lost) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if works.load(Ordering::Relaxed) => {
            complain(&format!("cannot serve it any longer: {error}"), &args.dir);
            std::process::exit(end);
        }
        Err(error) => Err(cannot(&error)),
    }
}

/// This machine has no wire to the nodes: it mounts, and the requests go to a
/// process on the node.
fn through_node(
    args: &Args,
    state: &StateDir,
    name: &str,
    dir: &Path,
    held: signals::Held,
) -> Result<ExitCode> {
    let record = state.running()?;
    clusters::select(&record, &std::iter::once(name).collect())?;
    let fuse = connect(&args.from, dir).map_err(Error::new)?;
    let watched = whole(dir)?;
    let mut argv = vec!["wiglaf".into(), "mount".into(), "--connected".into()];
    argv.extend(args.local_locks.then(|| "--local-locks".into()));
    argv.extend(["--".into(), args.from.clone().into(), args.dir.clone().into_os_string()]);
    // In a folder that every node has.
    let command = NodeCommand::new(argv).cwd("/");
    // The process on the node alone holds the connection: the mount dies with it.
    let started = Streams::inherit()
        .and_then(|streams| state.node(name).spawn(&command, Streams { stdin: fuse, ..streams }));
    let running = match started {
        Ok(running) => running,
        Err(error) => {
            let _ = take_away(&watched);
            return Err(error);
        }
    };
    end_with_signals(held, watched.clone())?;
    let mounted = watched.clone();
    let (server, taken) = (running.try_clone()?, Arc::new(AtomicBool::new(false)));
    let noted = Arc::clone(&taken);
    std::thread::spawn(move || {
        if watched.wait_until_gone().is_ok() {
            noted.store(true, Ordering::Relaxed);
            server.signal(signals::KILL);
        }
    });
    match running.wait() {
        // Also when somebody has taken away meanwhile what was left of the mount.
        Ok(End::Status(LOST)) => Ok(ExitCode::FAILURE),
        _ if taken.load(Ordering::Relaxed) => Ok(ExitCode::SUCCESS),
        Ok(End::Status(0)) => Ok(ended_well(&mounted, ExitCode::SUCCESS)),
        Ok(End::Status(NEVER_WORKED)) => {
            let _ = take_away(&mounted);
            Ok(ExitCode::FAILURE)
        }
        Ok(end) => {
            complain(&format!("the process on {name} that serves it has ended"), dir);
            Ok(ExitCode::from(end.code()))
        }
        Err(error) => Err(error),
    }
}

/// A signal takes the mount away; that ends who serves it.
fn end_with_signals(held: signals::Held, mounted: Mounted) -> Result<()> {
    held.pass_on(move |_| {
        let shown = mounted.dir.display();
        match take_away(&mounted) {
            Ok(Unmounted::Wholly) => {}
            Ok(Unmounted::WhenUnused) => {
                eprintln!("wiglaf: {shown} was in use; files that are open in it fail from now on");
            }
            Err(error) => eprintln!("wiglaf: cannot take {shown} away: {error}"),
        }
    })
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(format!("cannot mount: {error}"))
}

pub(crate) fn umount(args: &UmountArgs) -> Result<ExitCode> {
    let shown = args.dir.display();
    let cannot = |error: io::Error| Error::new(format!("cannot unmount {shown}: {error}"));
    let nothing = || Error::new(format!("nothing of Wiglaf's is mounted on {shown}"));
    let mounted = Mounted::at(&args.dir).map_err(cannot)?.ok_or_else(nothing)?;
    match unmount(&mounted.dir, args.lazy) {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
            Err(Error::new(format!(
                "{shown} is in use; end the programs that use it (`fuser -vm {shown}` lists \
                 them), or call `wiglaf umount --lazy {shown}`"
            )))
        }
        Err(error) => Err(cannot(error)),
    }
}
