//! How measured programs are started: the interface to whoever knows the nodes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{BenchError, Result};

/// A command that measures one floor.
#[derive(Debug)]
pub struct FloorCommand {
    /// What it measures, for progress lines and errors.
    pub link: String,
    /// The command.
    pub command: Command,
}

/// What measures one link twice.
#[derive(Debug)]
pub struct ActiveCommands {
    /// A ping-pong of frames over the bare link.
    pub bare: FloorCommand,
    /// One of active messages over the same link.
    pub messages: FloorCommand,
}

/// What carries the messages of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Open MPI over Wiglaf's libfabric provider.
    Wiglaf,
    /// Open MPI over Wiglaf's libfabric provider and its udp link.
    WiglafUdp,
    /// Open MPI over Wiglaf's libfabric provider and its packet link.
    WiglafPacket,
    /// Open MPI over Wiglaf's libfabric provider and its xdp link in the best mode.
    WiglafXdp,
    /// Open MPI over Wiglaf's libfabric provider and its xdp link in native mode.
    WiglafXdpNative,
    /// Open MPI over Wiglaf's libfabric provider, with what Wiglaf's multicast collectives take from it.
    WiglafMulticast,
    /// Open MPI's own TCP (`btl/tcp`).
    Tcp,
    /// Open MPI over UCX, restricted to TCP.
    Ucx,
    /// Open MPI over libfabric's `tcp;ofi_rxm`.
    OfiTcp,
    /// Open MPI over libfabric's `udp;ofi_rxd`.
    OfiRxd,
    /// Open MPI's own shared memory (`btl/vader`), within a node.
    Vader,
    /// Open MPI over UCX's shared memory, within a node.
    UcxShm,
}

impl Transport {
    /// Whether it is a rival that messages between nodes may take over TCP.
    pub fn is_tcp_rival(self) -> bool {
        matches!(self, Self::Tcp | Self::Ucx | Self::OfiTcp)
    }

    /// The word that users write, as in `--transport tcp`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Wiglaf => "wiglaf",
            Self::WiglafUdp => "wiglaf-udp",
            Self::WiglafPacket => "wiglaf-packet",
            Self::WiglafXdp => "wiglaf-xdp",
            Self::WiglafXdpNative => "wiglaf-xdp-native",
            Self::WiglafMulticast => "wiglaf-multicast",
            Self::Tcp => "tcp",
            Self::Ucx => "ucx",
            Self::OfiTcp => "ofi-tcp",
            Self::OfiRxd => "ofi-rxd",
            Self::Vader => "vader",
            Self::UcxShm => "ucx-shm",
        }
    }

    /// Its name in tables and pictures.
    pub fn label(self) -> &'static str {
        match self {
            Self::Wiglaf => "Wiglaf",
            Self::WiglafUdp => "Wiglaf udp",
            Self::WiglafPacket => "Wiglaf packet",
            Self::WiglafXdp => "Wiglaf xdp",
            Self::WiglafXdpNative => "xdp-native",
            Self::WiglafMulticast => "Wiglaf multicast",
            Self::Tcp => "Open MPI TCP",
            Self::Ucx => "UCX TCP",
            Self::OfiTcp => "libfabric TCP",
            Self::OfiRxd => "libfabric rxd",
            Self::Vader => "Open MPI vader",
            Self::UcxShm => "UCX shared mem.",
        }
    }
}

/// For so long the output of a command that was ended is waited for.
const PIPE_TIME_MAX: Duration = Duration::from_secs(2);
const INTERRUPTED: &str = "it was interrupted";

/// Environment variables that make a run use a transport: all that
/// distinguishes one contender from another.
pub type Settings = BTreeMap<String, String>;

/// One run of one program.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    /// What carries its messages.
    pub transport: Transport,
    /// The environment for that transport, as [`Launcher::settings`] gave it.
    pub settings: &'a Settings,
    /// Processes to start.
    pub ranks: usize,
    /// Nodes to spread them over, rank `i` on node `i mod nodes`.
    pub nodes: usize,
    /// What to run.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [OsString],
    /// Further environment, the same for every contender.
    pub env: &'a [(String, String)],
    /// Working directory of every rank.
    pub dir: &'a Path,
}

/// Starts programs on nodes.
pub trait Launcher {
    /// Environment for a transport, or why it is not to be had here.
    fn settings(&self, transport: Transport) -> std::result::Result<Settings, String>;

    /// The command that runs a job: its standard output is rank 0's, its exit
    /// status the program's, and it ends all ranks on SIGTERM.
    ///
    /// # Errors
    /// When the job cannot be run here at all.
    fn command(&self, job: &Job<'_>) -> Result<Command>;

    /// How many nodes there are.
    fn node_count(&self) -> usize;

    /// What a reader of the result must know about the nodes: MTU, rate,
    /// cores, emulated or real.
    fn facts(&self) -> BTreeMap<String, String>;

    /// Commands that measure the floor of each link between the first two
    /// nodes; see [`crate::floor`].
    fn floors(&self) -> Vec<FloorCommand> {
        Vec::new()
    }

    /// Commands that measure active messages and the bare link, for each link between the first two
    /// nodes where both can be had.
    fn active_messages(&self) -> Vec<ActiveCommands> {
        Vec::new()
    }

    /// Whether the user wants no more: a run that is under way is ended then,
    /// and no other begins.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// Runs a job to its end and hands over what it wrote.
///
/// # Errors
/// When it cannot be started, fails, or is not done after `time_max`.
pub fn run(launcher: &dyn Launcher, job: &Job<'_>, time_max: Duration) -> Result<Output> {
    let command = launcher.command(job)?;
    let output = capture(command, time_max, &|| launcher.is_interrupted());
    succeeded(job, output.map_err(|e| failure(job, e.to_string()))?)
}

/// Runs a job for `time_max` at most and hands over what it wrote. To be cut off then is no failure.
///
/// # Errors
/// When it cannot be started, or fails before its time is over.
pub(crate) fn run_or_cut_off(
    launcher: &dyn Launcher,
    job: &Job<'_>,
    time_max: Duration,
) -> Result<Captured> {
    let command = launcher.command(job)?;
    let captured = capture_or_cut_off(command, time_max, &|| launcher.is_interrupted());
    match captured.map_err(|e| failure(job, e.to_string()))? {
        Captured::Ended(output) => succeeded(job, output).map(Captured::Ended),
        cut_off @ Captured::CutOff(_) => Ok(cut_off),
    }
}

fn succeeded(job: &Job<'_>, output: Output) -> Result<Output> {
    if output.status.success() {
        return Ok(output);
    }
    Err(failure(job, format!("{} ({})", last_words(&output), output.status)))
}

fn failure(job: &Job<'_>, detail: String) -> BenchError {
    BenchError::Run { what: describe(job), detail }
}

fn describe(job: &Job<'_>) -> String {
    let program = job.program.file_name().unwrap_or(job.program.as_os_str());
    let program = program.to_string_lossy();
    format!("{program} over {}", job.transport.label())
}

/// The most telling line of a failed run: the last that says "error" or the
/// like, else the last at all.
pub fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|l| l.chars().any(char::is_alphanumeric)).collect();
    let telling = ["wiglaf", "rror", "cannot", "not found", "No such", "failed"];
    let line = lines.iter().rev().find(|l| telling.iter().any(|t| l.contains(t)));
    line.or(lines.last()).map_or_else(|| "no message".to_owned(), |l| (*l).to_owned())
}

/// What became of a command with a limit on its time.
pub(crate) enum Captured {
    /// It ended by itself.
    Ended(Output),
    /// It was ended; what it had printed on standard output.
    CutOff(Vec<u8>),
}

impl Captured {
    /// What it printed.
    pub(crate) fn stdout(&self) -> &[u8] {
        match self {
            Self::Ended(output) => &output.stdout,
            Self::CutOff(stdout) => stdout,
        }
    }
}

/// Runs a command with a limit on its time, or until `is_interrupted`.
/// Afterwards it has ended, whatever happened.
///
/// # Errors
/// When it cannot be started, or was ended.
pub fn capture(
    command: Command,
    time_max: Duration,
    is_interrupted: &dyn Fn() -> bool,
) -> io::Result<Output> {
    match capture_or_cut_off(command, time_max, is_interrupted)? {
        Captured::Ended(output) => Ok(output),
        Captured::CutOff(_) => {
            let text = format!("not done after {} s, ended", time_max.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        }
    }
}

/// Runs a command with a limit on its time, or until `is_interrupted`; answers also what it had printed by the limit.
fn capture_or_cut_off(
    mut command: Command,
    time_max: Duration,
    is_interrupted: &dyn Fn() -> bool,
) -> io::Result<Captured> {
    if is_interrupted() {
        return Err(io::Error::new(io::ErrorKind::Interrupted, INTERRUPTED));
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| named(&command, &e))?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let gathered = |t: thread::JoinHandle<Vec<u8>>| t.join().unwrap_or_default();
    let Some(status) = wait(&mut child, time_max, is_interrupted)? else {
        end(&mut child)?;
        if is_interrupted() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, INTERRUPTED));
        }
        // A process that outlives the command keeps the pipe open, and is not waited for.
        let until = Instant::now() + PIPE_TIME_MAX;
        while !stdout.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        let is_whole = stdout.is_finished();
        return Ok(Captured::CutOff(if is_whole { gathered(stdout) } else { Vec::new() }));
    };
    Ok(Captured::Ended(Output { status, stdout: gathered(stdout), stderr: gathered(stderr) }))
}

fn named(command: &Command, error: &io::Error) -> io::Error {
    let program = PathBuf::from(command.get_program());
    io::Error::new(error.kind(), format!("{} could not be started: {error}", program.display()))
}

pub(crate) fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // A read error ends the output; the exit status tells the rest.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Waits for the end; gives nothing when time is up or the user interrupts.
fn wait(
    child: &mut Child,
    time_max: Duration,
    is_interrupted: &dyn Fn() -> bool,
) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + time_max;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline || is_interrupted() {
            return Ok(None);
        }
        // Long enough to leave the measured cores alone.
        thread::sleep(Duration::from_millis(20));
    }
}

/// SIGTERM first, so that a launcher can end its ranks; SIGKILL if it does not.
pub(crate) fn end(child: &mut Child) -> io::Result<()> {
    if child.try_wait()?.is_some() {
        return Ok(()); // its number may be another's by now
    }
    if let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    if wait(child, Duration::from_secs(5), &|| false)?.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn captures_both_streams_and_the_status() {
        let output =
            capture(shell("echo out; echo err >&2; exit 3"), Duration::from_secs(20), &|| false);
        let output = output.unwrap();
        assert_eq!(output.stdout, b"out\n");
        assert_eq!(output.stderr, b"err\n");
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn a_run_that_never_ends_is_ended() {
        let error = capture(shell("exec sleep 1000"), Duration::from_millis(50), &|| false);
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn who_is_cut_off_has_said_what_it_said_and_has_ended() {
        // The shell's own child holds the pipe: it must have been ended, too.
        let script = "trap 'kill $!; exit 1' TERM; echo early; sleep 1000 & wait";
        let ran = capture_or_cut_off(shell(script), Duration::from_millis(500), &|| false);
        let Ok(Captured::CutOff(said)) = ran else { panic!("it ended by itself") };
        assert_eq!(said, b"early\n");
        let ran = capture_or_cut_off(shell("echo all"), Duration::from_secs(20), &|| false);
        assert_eq!(ran.unwrap().stdout(), b"all\n");
    }

    #[test]
    fn an_interrupt_ends_a_run_and_begins_no_other() {
        let asked = std::cell::Cell::new(0);
        let soon = || asked.replace(asked.get() + 1) > 2;
        for _ in 0..2 {
            let error = capture(shell("exec sleep 1000"), Duration::from_secs(1000), &soon);
            assert_eq!(error.unwrap_err().kind(), io::ErrorKind::Interrupted);
        }
    }

    #[test]
    fn the_telling_line_is_found() {
        let output = capture(
            shell("echo 'cannot open x' >&2; echo ---- >&2; echo bye >&2"),
            Duration::from_secs(20),
            &|| false,
        );
        assert_eq!(last_words(&output.unwrap()), "cannot open x");
    }
}
