//! Commands on a host, as a user: what somebody at its keyboard would type.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use crate::host::Host;

/// A command that has not ended by then hangs: the longest of the tests, an installation of packages, takes two
/// minutes on two busy processors.
const LIMIT: Duration = Duration::from_mins(8);
/// One that is killed ends at once, but for what the kernel is busy with.
const DROP_LIMIT: Duration = Duration::from_mins(1);

/// A user at the keyboard of a host. The environment is that of a login: nothing of the test's own.
#[derive(Debug, Clone)]
pub struct Session<'a> {
    host: &'a Host,
    user: String,
    variables: Vec<(String, String)>,
    input: Vec<u8>,
}

/// How a command ended and what it printed.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    what: String,
}

/// A command that runs. It ends when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    what: String,
    output: [PathBuf; 2],
}

impl<'a> Session<'a> {
    pub(crate) fn new(host: &'a Host, user: &str) -> Self {
        Self { host, user: user.to_owned(), variables: Vec::new(), input: Vec::new() }
    }

    /// With a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With that for its standard input. By default it is empty.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Runs a line of the user's login shell in the user's home, and waits for its end. Commands that may
    /// hang are limited by the line itself: `timeout 60 mpirun ...`.
    ///
    /// # Panics
    /// When the host is off, or nothing can be started.
    #[track_caller]
    #[must_use]
    pub fn run(&self, line: &str) -> Output {
        self.start(line).wait()
    }

    /// Starts a line of the user's login shell in a session and process group of its own.
    ///
    /// # Panics
    /// When the host is off, or nothing can be started.
    #[track_caller]
    #[must_use]
    pub fn start(&self, line: &str) -> Running {
        match self.try_start(line) {
            Ok(running) => running,
            Err(why) => panic!("{}: {why}", self.host.name()),
        }
    }

    pub(crate) fn try_start(&self, line: &str) -> Result<Running, String> {
        let pid = self.host.pid().ok_or("the host is off")?;
        // Files, so that neither a full pipe nor a background process holds anybody up.
        let [input, stdout, stderr] = self.host.next_files();
        std::fs::write(&input, &self.input).map_err(|why| format!("{}: {why}", input.display()))?;
        let create =
            |path: &PathBuf| File::create(path).map_err(|why| format!("{}: {why}", path.display()));
        let open = File::open(&input).map_err(|why| format!("{}: {why}", input.display()))?;
        let mut command = enter(pid);
        command.args(["setsid", "setpriv", "--reset-env", "--init-groups"]);
        command.arg(format!("--reuid={}", self.user)).arg(format!("--regid={}", self.user));
        // Whoever started the tests in the background had them ignore Ctrl-C; a user at a terminal does not.
        command.args(["env", "--default-signal=INT,QUIT,TSTP,HUP", "LANG=C.UTF-8"]);
        command.args(self.variables.iter().map(|(name, value)| format!("{name}={value}")));
        // As an SSH server starts what it is asked for, and pam_systemd sees to the user's folder.
        let login = "cd; export XDG_RUNTIME_DIR=/run/user/$(id -u); exec \"$SHELL\" -c \"$0\"";
        command.args(["sh", "-c", login, line]);
        let child = command.stdin(open).stdout(create(&stdout)?).stderr(create(&stderr)?).spawn();
        let child = child.map_err(|why| format!("nsenter cannot be started: {why}"))?;
        let what = format!("{}@{}: {line}", self.user, self.host.name());
        Ok(Running { child, what, output: [stdout, stderr] })
    }
}

/// A command that continues inside all namespaces of a host.
fn enter(pid: u32) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--mount", "--uts", "--ipc", "--net", "--pid"]);
    command.arg(format!("--target={pid}"));
    command
}

/// What a developer types to be on the host.
pub(crate) fn enter_line(pid: u32, user: &str) -> String {
    format!("nsenter --mount --uts --ipc --net --pid --target={pid} runuser -l {user}")
}

impl Running {
    /// Waits for its end.
    ///
    /// # Panics
    /// When it hangs.
    #[track_caller]
    #[must_use]
    pub fn wait(mut self) -> Output {
        assert!(self.ends(), "{}", self.hangs());
        let status = self.child.wait().expect("a child can be waited for");
        let [stdout, stderr] = self.so_far();
        Output { status, stdout, stderr, what: self.what.clone() }
    }

    /// Waits until it has ended, or hangs.
    fn ends(&mut self) -> bool {
        // One that was found to have ended is no process any more.
        if !self.is_running() {
            return true;
        }
        let pid = Pid::from_child(&self.child);
        let end = Instant::now() + LIMIT;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("a child has a descriptor");
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            let rest = Timespec::try_from(rest).expect("minutes are seconds");
            match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&rest)) {
                Ok(ready) => return ready > 0,
                Err(error) => assert_eq!(error, rustix::io::Errno::INTR),
            }
        }
    }

    /// That it does, with what it has printed, and what else runs on its host.
    fn hangs(&self) -> String {
        let [stdout, stderr] = self.so_far();
        let list = "ps -e -o user,pid,ppid,pgid,stat,wchan:24,etimes,args --forest";
        let processes = self.pid().and_then(|pid| {
            let pid = pid.as_raw_pid().unsigned_abs();
            enter(pid).args(["sh", "-c", list]).output().ok()
        });
        let processes = processes.map(|output| output.stdout).unwrap_or_default();
        let processes = String::from_utf8_lossy(&processes);
        format!("{} has not ended for {LIMIT:?}:\n{stdout}\n{stderr}\n{processes}", self.what)
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_none())
    }

    /// What it has printed, and complained about, so far.
    #[must_use]
    pub fn so_far(&self) -> [String; 2] {
        let read = |path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into();
        self.output.each_ref().map(read)
    }

    /// Waits until its standard output contains `text`; false: it ended without.
    ///
    /// # Panics
    /// When it hangs.
    #[track_caller]
    pub fn has_printed(&mut self, text: &str) -> bool {
        let end = Instant::now() + LIMIT;
        loop {
            // Asked first: what it printed last is then in the file.
            let is_running = self.is_running();
            if self.so_far()[0].contains(text) {
                return true;
            }
            if !is_running {
                return false;
            }
            assert!(Instant::now() < end, "{}", self.hangs());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// The number of the command's first process on this machine: the login shell, or what it has become.
    #[must_use]
    pub fn pid(&self) -> Option<Pid> {
        let nsenter = self.child.id();
        let children = format!("/proc/{nsenter}/task/{nsenter}/children");
        let children = std::fs::read_to_string(children).ok()?;
        Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
    }

    /// Signals the first process alone.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, signal);
        }
    }

    /// Ctrl-C: interrupts the command's process group.
    pub fn interrupt(&self) {
        if let Some(pid) = self.pid() {
            let _ = kill_process_group(pid, Signal::INT);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // nsenter ends when it has seen the command end. At first it has no command yet.
        let end = Instant::now() + DROP_LIMIT;
        while self.is_running() {
            if Instant::now() > end {
                eprintln!("{}: it cannot be ended", self.what);
                let _ = self.child.kill();
                break;
            }
            self.signal(Signal::KILL);
            if let Some(pid) = self.pid() {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Output {
    /// What it printed, if it ended well.
    ///
    /// # Panics
    /// If it did not, with all that it printed.
    #[track_caller]
    #[must_use]
    pub fn ok(&self) -> &str {
        assert!(self.status.success(), "{self}");
        &self.stdout
    }

    /// The one sentence that it complained about, if it failed.
    ///
    /// # Panics
    /// If it ended well.
    #[track_caller]
    #[must_use]
    pub fn complaint(&self) -> &str {
        assert!(!self.status.success(), "it did not fail: {self}");
        self.stderr.trim()
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { status, stdout, stderr, what } = self;
        write!(f, "{what}: {status}\n{stdout}\n{stderr}")
    }
}
