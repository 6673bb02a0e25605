//! A node that is a real host: its agent, started by the system's ssh, behind a socket.
//!
//! What is above [`crate::client`] sees a Unix socket, as an emulated node's init has one. A thread
//! carries it through ssh's standard input and output ([`crate::tunnel`]). ssh is the user's own, with
//! the user's keys, agent and configuration, and asks nothing (BatchMode). Its connections are kept for a
//! minute (ControlMaster), so that the next command on the host needs no handshake.

use std::cell::Cell;
use std::fs::{self, DirBuilder};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::shell::quoted;

use crate::proto::VERSION;
use crate::tunnel::{self, Limits, Lost};

/// The variable that says how long a host may be silent before it is taken for dead; `off` is for ever.
pub const HOST_LIMIT_VAR: &str = "WIGLAF_HOST_LIMIT";
/// How long a host may be silent where [`HOST_LIMIT_VAR`] says nothing: a cable may be out for 5 s, and a dead host
/// ends a job within 10 s.
pub const HOST_LIMIT: Duration = Duration::from_secs(8);
/// The variable that names a further file of known ssh host keys. With it hosts that are in none are refused, whatever
/// the user's configuration says.
pub const KNOWN_HOSTS_VAR: &str = "WIGLAF_KNOWN_HOSTS";
/// As much of what ssh complains about is kept, in bytes.
const COMPLAINT_LEN_MAX: u64 = 16 << 10;
/// How long an idle connection is kept for the next command, in seconds.
const PERSIST_S: u32 = 60;
/// How long a host may take to accept a connection, in seconds.
const CONNECT_S: u32 = 10;

/// How a real host is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// What ssh calls it: a name of DNS, of ~/.ssh/config, or an address.
    pub host: String,
    /// The login there, if it is another than ssh would take.
    pub user: Option<String>,
    /// Where `wiglaf` is there, if not in the PATH or one of the usual folders.
    pub exe: Option<String>,
    /// Whether it is the host of this process: no ssh is needed.
    #[serde(default)]
    pub is_here: bool,
    /// Whether its silence is endured: somebody else watches over it, and this process may be stopped.
    #[serde(default)]
    pub is_watched: bool,
}

impl Target {
    /// What to type to log in there.
    #[must_use]
    pub fn login(&self) -> String {
        match &self.user {
            Some(user) => format!("{user}@{}", self.host),
            None => self.host.clone(),
        }
    }
}

/// The user's folder for sockets and secrets of running jobs on this host; made if needed.
///
/// # Errors
/// When it cannot be made, or is somebody else's.
pub fn runtime_dir() -> Result<PathBuf> {
    let [by_logind, by_user] = runtime_dirs();
    // logind removes its own with the user's last session: not before the ssh that this runs under has ended, but
    // in the middle of a batch job, which is of no session.
    let folder = match by_logind.parent().is_some_and(is_own) && !is_of_slurm() {
        true => by_logind,
        false => by_user,
    };
    if let Err(error) = DirBuilder::new().mode(0o700).create(&folder)
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(error).cannot(|| format!("make the folder {}", folder.display()));
    }
    match is_own(&folder) {
        true => Ok(folder),
        false => Err(Error::new(format!(
            "{} is not yours alone; remove it, or have its owner do so",
            folder.display()
        ))),
    }
}

/// Whether it is a folder that is the user's alone.
fn is_own(path: &Path) -> bool {
    let uid = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path)
        .is_ok_and(|meta| meta.is_dir() && meta.uid() == uid && meta.mode() & 0o077 == 0)
}

/// Every folder that [`runtime_dir`] has made for this user's processes here: a batch job's is another.
pub(crate) fn all_runtime_dirs() -> impl Iterator<Item = PathBuf> {
    // Below /tmp anybody may make one of that name.
    runtime_dirs().into_iter().filter(|folder| is_own(folder))
}

/// Where [`runtime_dir`] may be: below logind's folder, and where there is none, or none that stays.
fn runtime_dirs() -> [PathBuf; 2] {
    let uid = rustix::process::geteuid().as_raw();
    [format!("/run/user/{uid}/wiglaf"), format!("/tmp/wiglaf-{uid}")].map(PathBuf::from)
}

/// Whether this process is a batch job's: by its environment, or by its control group, which what an MPI's launcher
/// starts has as well.
fn is_of_slurm() -> bool {
    std::env::var_os("SLURM_JOB_ID").is_some()
        || fs::read_to_string("/proc/self/cgroup").is_ok_and(|groups| groups.contains("slurm"))
}

/// Whether this process may stand still without being told: Slurm suspends a job by freezing its control group, and
/// tells no process but the script's shell. Then others may not take its silence for its death. Where `wiglaf batch
/// setup` was run, the epilog ends what is left of a job on each of its hosts.
#[must_use]
pub fn may_be_frozen() -> bool {
    is_of_slurm() && Path::new("/etc/wiglaf/batch/epilog").exists()
}

/// How long a host may be silent; nothing is for ever.
///
/// # Errors
/// When the variable says no time.
pub fn host_limit() -> Result<Option<Duration>> {
    let Some(text) = std::env::var(HOST_LIMIT_VAR).ok().filter(|text| !text.trim().is_empty())
    else {
        return Ok(Some(HOST_LIMIT));
    };
    parse_limit(HOST_LIMIT_VAR, &text)
}

/// A variable's time such as `8s` or `1min`; none: `off`.
///
/// # Errors
/// When it is neither.
pub fn parse_limit(variable: &str, text: &str) -> Result<Option<Duration>> {
    let text = text.trim();
    if text == "off" {
        return Ok(None);
    }
    let units = [("ms", 1), ("min", 60_000), ("s", 1000)];
    let number = units.iter().find_map(|(unit, millis)| {
        let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_mul(*millis).filter(|millis| *millis > 0)
    });
    number.map(|millis| Some(Duration::from_millis(millis))).ok_or_else(|| {
        Error::new(format!("{variable} is `{text}`: give a time such as 8s or 1min, or off"))
    })
}

/// Options of every ssh of ours, before the host.
///
/// # Errors
/// When there is no folder for the sockets of kept connections.
pub fn options() -> Result<Vec<String>> {
    let sockets = runtime_dir()?.join("ssh-%C");
    let further = std::env::var(KNOWN_HOSTS_VAR).ok().filter(|file| !file.is_empty());
    let further = further.into_iter().flat_map(|file| {
        let own = format!("UserKnownHostsFile=~/.ssh/known_hosts ~/.ssh/known_hosts2 {file}");
        [own, "StrictHostKeyChecking=yes".to_owned()]
    });
    let usual = [
        "BatchMode=yes".to_owned(),
        // A banner is none of our business, an error is.
        "LogLevel=ERROR".to_owned(),
        format!("ConnectTimeout={CONNECT_S}"),
        "ControlMaster=auto".to_owned(),
        format!("ControlPath={}", sockets.display()),
        format!("ControlPersist={PERSIST_S}"),
        // Silence is ours to judge, by [`HOST_LIMIT_VAR`].
        "ServerAliveInterval=0".to_owned(),
    ];
    Ok(usual.into_iter().chain(further).map(|option| format!("-o{option}")).collect())
}

/// The ssh of another user, with that user's keys and known hosts; root starts it. Its connection is not kept.
#[must_use]
pub fn of_caller(user: &str) -> Command {
    let mut command = Command::new("runuser");
    command.args(["-u", user, "--", "ssh", "-oBatchMode=yes", "-oLogLevel=ERROR"]);
    command.arg(format!("-oConnectTimeout={CONNECT_S}"));
    command
}

/// Runs a command on a terminal of the host, as `ssh -t` does; says its exit status.
///
/// # Errors
/// When there is no ssh.
pub fn on_terminal(target: &Target, argv: &[std::ffi::OsString]) -> Result<u8> {
    let mut command = Command::new("ssh");
    command.args(options()?.iter().filter(|option| !option.contains("BatchMode")));
    command.arg("-t");
    if let Some(user) = &target.user {
        command.args(["-l", user]);
    }
    command.args(["--", &target.host]);
    command.args(argv.iter().map(|word| quoted(&word.to_string_lossy())));
    let status = command.status().cannot(|| "start ssh".to_owned())?;
    Ok(status.code().map_or(u8::MAX, |code| code as u8))
}

/// The command that starts a host's agent.
fn command(target: &Target) -> Result<Command> {
    if target.is_here {
        let exe = std::env::current_exe().cannot(|| "find the running wiglaf".to_owned())?;
        let mut command = Command::new(exe);
        command.arg("host-agent");
        return Ok(command);
    }
    let mut command = Command::new("ssh");
    command.args(options()?);
    if let Some(user) = &target.user {
        command.args(["-l", user]);
    }
    command.args(["--", &target.host, &remote_words(target.exe.as_deref())]);
    Ok(command)
}

/// What a user's login shell, whichever it is, hands to sh. Without the PATH of a login, `wiglaf` may
/// lie where users and `make install` put it.
fn remote_words(exe: Option<&str>) -> String {
    let exe = exe.unwrap_or("wiglaf");
    // Quotes of one kind mean the same to sh, csh and fish where nothing else is between them.
    let exe: String = exe.chars().filter(|c| !c.is_control() && !"'\"\\!$`".contains(*c)).collect();
    format!(
        "sh -c 'PATH=\"$PATH:/usr/local/bin:/usr/bin:/bin:$HOME/.local/bin\"; exec \"{exe}\" host-agent'"
    )
}

/// Connects to a host's agent. What goes wrong is the answer to the first request.
///
/// # Errors
/// When there is no ssh, or no descriptor left.
pub(crate) fn connect(name: &str, target: &Target) -> Result<UnixStream> {
    let limit = if target.is_watched { None } else { host_limit()? };
    let mut command = command(target)?;
    // A socket can be shut down: whoever keeps the connection to a dead host has its other end, and holds it
    // for as long as TCP waits.
    let (output, theirs) = UnixStream::pair().cannot(|| "make a pair of sockets".to_owned())?;
    command.stdin(Stdio::piped()).stdout(OwnedFd::from(theirs)).stderr(Stdio::piped());
    // A terminal's Ctrl-C and Ctrl-Z are for whoever reads them, and passed on as messages.
    command.process_group(0);
    let program = command.get_program().display().to_string();
    let child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::new(format!(
            "there is no `{program}` here to reach {name} with; run `apt-get install openssh-client`"
        )),
        _ => Error::new(format!("cannot start {program} to reach {name}: {error}")),
    })?;
    // It has their end, too.
    drop(command);
    let (ours, theirs) = UnixStream::pair().cannot(|| "make a pair of sockets".to_owned())?;
    let (name, target) = (name.to_owned(), target.clone());
    std::thread::Builder::new()
        .spawn(move || carry(&name, &target, (child, output), theirs, limit))
        .cannot(|| "start a thread".to_owned())?;
    Ok(ours)
}

/// Carries one connection until it ends, and ssh with it.
fn carry(
    name: &str,
    target: &Target,
    (mut child, output): (Child, UnixStream),
    local: UnixStream,
    limit: Option<Duration>,
) {
    let (Some(input), Some(errors)) = (child.stdin.take(), child.stderr.take()) else {
        return;
    };
    let complaint = Arc::new(Mutex::new(Vec::new()));
    let reading = std::thread::spawn({
        let complaint = complaint.clone();
        move || read_some(errors, &complaint)
    });
    let child = Mutex::new(child);
    let kill = || {
        let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
        // It has not been waited for, so the pid is still its own.
        let _ = child.kill();
        let _ = output.shutdown(std::net::Shutdown::Both);
    };
    let is_silent = Cell::new(false);
    let explain = |lost: Lost| {
        is_silent.set(matches!(lost, Lost::Silent(_)));
        // A kept connection's ssh may hold its standard error open for a minute.
        for _ in 0..100 {
            if reading.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let said = complaint.lock().unwrap_or_else(PoisonError::into_inner).clone();
        sentence(name, target, &lost, &String::from_utf8_lossy(&said))
    };
    let limits = Limits { host: limit, may_be_frozen: may_be_frozen() };
    tunnel::carry(local, &output, input, VERSION, limits, &explain, &kill);
    let mut child = child.into_inner().unwrap_or_else(PoisonError::into_inner);
    let _ = child.kill();
    let _ = child.wait();
    if is_silent.get() {
        forget(target);
    }
}

/// Ends the kept connection to a host: the next command makes a new one, and notices when the host is
/// back.
fn forget(target: &Target) {
    let Ok(options) = options() else { return };
    let mut command = Command::new("ssh");
    command.args(options).args(["-O", "exit"]);
    if let Some(user) = &target.user {
        command.args(["-l", user]);
    }
    command.args(["--", &target.host]).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = command.status();
}

fn read_some(mut from: impl Read, into: &Mutex<Vec<u8>>) {
    let mut piece = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        let mut into = into.lock().unwrap_or_else(PoisonError::into_inner);
        if (into.len() as u64) < COMPLAINT_LEN_MAX {
            into.extend_from_slice(&piece[..count]);
        }
    }
}

/// Why a host was not reached, or was lost, and what to do.
fn sentence(name: &str, target: &Target, lost: &Lost, said: &str) -> String {
    let login = target.login();
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    match lost {
        Lost::Version(theirs) => format!(
            "{name} has another version of Wiglaf (its agent speaks {theirs}, this one {VERSION}); \
             install the same one: `wiglaf join {name}`"
        ),
        Lost::Silent(time) => format!(
            "{name} ({}) has not answered for {:.1} s: its power, its cable or the network in between is \
             gone; see `ping {}`",
            target.host,
            time.as_secs_f64(),
            target.host
        ),
        Lost::Ended if last.is_empty() => {
            format!("the connection to {name} ended; see `wiglaf status`")
        }
        Lost::Ended => format!("the connection to {name} ended: {last}; see `wiglaf status`"),
        Lost::NoGreeting(shown) => not_reached(name, target, &login, said, last, shown),
    }
}

/// Why a host was not reached by an ssh that `said` that on its standard error, and what to do.
#[must_use]
pub fn refusal(name: &str, target: &Target, said: &str) -> String {
    sentence(name, target, &Lost::NoGreeting(String::new()), said)
}

/// ssh's own words, and those of the shell on the other side, each with its fix.
fn not_reached(
    name: &str,
    target: &Target,
    login: &str,
    said: &str,
    last: &str,
    shown: &str,
) -> String {
    let says = |words: &str| said.contains(words);
    if says("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        return format!(
            "{name}'s ssh host key has changed: it was reinstalled, or another machine answers; if it was \
             reinstalled, run `ssh-keygen -R {}`, then `ssh {login}`",
            target.host
        );
    }
    if says("Host key verification failed") {
        return format!(
            "{name}'s ssh host key is not known here; run `ssh {login}` once and compare its fingerprint"
        );
    }
    if says("Permission denied") {
        return format!(
            "{name} lets {} in by no key of yours; run `ssh-copy-id {login}`, or unlock your key with \
             `ssh-add`",
            target.user.as_deref().unwrap_or("you")
        );
    }
    if says("Could not resolve hostname") {
        return format!(
            "there is no host {}; check its name in the cluster file, or give {name} its address there",
            target.host
        );
    }
    if says("not found") || says("No such file or directory") || says("cannot execute") {
        let what = target.exe.as_deref().unwrap_or("wiglaf");
        if said.contains(what) || target.exe.is_none() {
            return format!("{name} has no `{what}`; run `wiglaf join {name}`");
        }
    }
    if says("unrecognized subcommand") {
        return format!(
            "{name} has an older Wiglaf without an agent; install this one: `wiglaf join {name}`"
        );
    }
    let why = match (last.is_empty(), shown.trim().is_empty()) {
        (false, _) => last.to_owned(),
        (true, false) => {
            let first = shown.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            format!("it said `{}` and no more", first.trim().chars().take(120).collect::<String>())
        }
        (true, true) => "the connection was closed".to_owned(),
    };
    format!("cannot reach {name}: {why}; try `ssh {login} true`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target {
            host: "pc3.lab".to_owned(),
            user: None,
            exe: None,
            is_here: false,
            is_watched: false,
        }
    }

    #[test]
    fn each_refusal_of_ssh_has_its_fix() {
        let lost = Lost::NoGreeting(String::new());
        for (said, fix) in [
            (
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
                "ssh-keygen -R pc3.lab",
            ),
            ("Host key verification failed.", "run `ssh pc3.lab` once"),
            ("ann@pc3.lab: Permission denied (publickey,password).", "ssh-copy-id pc3.lab"),
            (
                "ssh: Could not resolve hostname pc3.lab: Name or service not known",
                "check its name",
            ),
            ("sh: 1: exec: wiglaf: not found", "wiglaf join pc3"),
            ("error: unrecognized subcommand 'host-agent'", "wiglaf join pc3"),
            ("ssh: connect to host pc3.lab port 22: No route to host", "No route to host"),
        ] {
            let sentence = sentence("pc3", &target(), &lost, said);
            assert!(sentence.starts_with("pc3") || sentence.contains("pc3"), "{sentence}");
            assert!(sentence.contains(fix) && !sentence.contains('\n'), "{said}: {sentence}");
        }
        let chatty = Lost::NoGreeting("Welcome to pc3\n".to_owned());
        assert!(sentence("pc3", &target(), &chatty, "").contains("it said `Welcome to pc3`"));
    }

    #[test]
    fn a_limit_has_a_unit() {
        assert_eq!(parse_limit(HOST_LIMIT_VAR, "8s"), Ok(Some(Duration::from_secs(8))));
        assert_eq!(parse_limit(HOST_LIMIT_VAR, " 500ms "), Ok(Some(Duration::from_millis(500))));
        assert_eq!(parse_limit(HOST_LIMIT_VAR, "off"), Ok(None));
        for wrong in ["", "8", "0s", "-1s", "s", "8 hours", "18446744073709551615min"] {
            assert!(parse_limit(HOST_LIMIT_VAR, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_path_breaks_out_of_its_quotes() {
        let words = remote_words(Some("/opt/x'; rm -rf \"$HOME\"/wiglaf"));
        assert_eq!(words.matches('\'').count(), 2, "{words}");
        assert!(words.ends_with("exec \"/opt/x; rm -rf HOME/wiglaf\" host-agent'"), "{words}");
    }
}
