//! The emulated cluster that suites run on, through the `wiglaf` command as users have it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What `timeout` exits with when it had to end the command.
const STATUS_TIMED_OUT: i32 = 124;
/// After this grace a command that ignores SIGTERM is killed.
const GRACE: &str = "10";

/// A running cluster; dropping it takes it down.
pub(crate) struct Cluster {
    wiglaf: PathBuf,
    name: String,
    /// Where outputs are kept for whoever wants to see what a test said.
    logs: PathBuf,
}

/// How a command ended, and what it printed (both streams together).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The exit status; `None` after a signal.
    pub(crate) status: Option<i32>,
    pub(crate) text: String,
}

/// A command that runs on a node.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Ended {
    pub(crate) fn succeeded(&self) -> bool {
        self.status == Some(0)
    }

    /// Why this is no success: the status and the last thing that was said.
    pub(crate) fn reason(&self) -> String {
        let status = match self.status {
            Some(STATUS_TIMED_OUT) => "ended by the time limit".to_owned(),
            Some(status) => format!("status {status}"),
            None => "killed".to_owned(),
        };
        // Launchers frame what they say with lines of dashes.
        match self.text.lines().rfind(|line| line.contains(char::is_alphanumeric)) {
            Some(line) => format!("{status}, {}", line.trim()),
            None => status,
        }
    }
}

impl Cluster {
    /// Brings up `nodes` nodes.
    pub(crate) fn up(root: &Path, name: &str, nodes: usize) -> Result<Self, String> {
        let wiglaf = root.join("target/release/wiglaf");
        let logs = root.join("target/conformance");
        fs::create_dir_all(&logs).map_err(|why| format!("{}: {why}", logs.display()))?;
        let cluster = Self { wiglaf, name: name.to_owned(), logs };
        let ended = cluster.wiglaf("up", &["up", "--nodes", &nodes.to_string()])?;
        if ended.succeeded() { Ok(cluster) } else { Err(ended.text.trim().to_owned()) }
    }

    /// The folder that all nodes see.
    pub(crate) fn folder(&self) -> &Path {
        &self.logs
    }

    /// The name of the `index`th node, counted from 1.
    pub(crate) fn node(index: usize) -> String {
        format!("node{index}")
    }

    /// Its address.
    pub(crate) fn address(&self, index: usize) -> Result<String, String> {
        let script = "ip -4 -o addr show dev eth0 | sed 's/.*inet \\([0-9.]*\\).*/\\1/'";
        let log = format!("address{index}");
        let ended =
            self.wiglaf(&log, &["exec", "-w", &Self::node(index), "--", "sh", "-c", script])?;
        let address = ended.text.trim().to_owned();
        if ended.succeeded() && !address.is_empty() { Ok(address) } else { Err(ended.reason()) }
    }

    /// Where the provider is, as `wiglaf env` says.
    pub(crate) fn provider(&self) -> Result<PathBuf, String> {
        let ended = self.wiglaf("env", &["env"])?;
        let line = ended.text.lines().find_map(|l| l.strip_prefix("export FI_PROVIDER_PATH="));
        line.map(|path| path.trim_matches('\'').into()).ok_or_else(|| ended.reason())
    }

    /// Runs the command `wiglaf` itself.
    pub(crate) fn wiglaf(&self, log: &str, arguments: &[&str]) -> Result<Ended, String> {
        let mut command = Command::new(&self.wiglaf);
        command.args(["--name", &self.name]).args(arguments);
        self.start(log, command)?.wait()
    }

    /// Starts `argv` on a node, with `env` added.
    pub(crate) fn exec(
        &self,
        log: &str,
        node: usize,
        env: &[(String, String)],
        argv: &[String],
        limit: Duration,
    ) -> Result<Running, String> {
        let mut command = Command::new(&self.wiglaf);
        command.args(["--name", &self.name, "exec", "-w", &Self::node(node), "--", "env"]);
        command.args(env.iter().map(|(name, value)| format!("{name}={value}")));
        // On the node itself, so that nothing is left running there.
        command.args(["timeout", "-k", GRACE, &limit.as_secs().to_string()]).args(argv);
        self.start(log, command)
    }

    /// Runs an MPI program to its end. `options` are those of `wiglaf run`.
    pub(crate) fn run(
        &self,
        log: &str,
        options: &[&str],
        env: &[(&str, &str)],
        argv: &[String],
        limit: Duration,
    ) -> Result<Ended, String> {
        self.start_run(log, options, env, argv, limit)?.wait()
    }

    fn start_run(
        &self,
        log: &str,
        options: &[&str],
        env: &[(&str, &str)],
        argv: &[String],
        limit: Duration,
    ) -> Result<Running, String> {
        let mut command = Command::new("timeout");
        command.args(["-k", GRACE, &limit.as_secs().to_string()]).arg(&self.wiglaf);
        command.args(["--name", &self.name, "run"]).args(options).arg("--").args(argv);
        command.envs(env.iter().copied());
        self.start(log, command)
    }

    /// Runs an MPI program that tells of its progress in files. `None`: none of them has grown for that long, so it was
    /// ended.
    pub(crate) fn run_while_heard(
        &self,
        log: &str,
        options: &[&str],
        env: &[(&str, &str)],
        argv: &[String],
        limit: Duration,
        (files, quiet_limit): (&[PathBuf], Duration),
    ) -> Result<Option<Ended>, String> {
        const STEP: Duration = Duration::from_millis(100);
        let mut running = self.start_run(log, options, env, argv, limit)?;
        let len = || -> u64 { files.iter().flat_map(fs::metadata).map(|file| file.len()).sum() };
        let (mut heard, mut heard_len) = (Instant::now(), 0);
        while !running.has_ended() {
            let now_len = len();
            if now_len != heard_len {
                (heard, heard_len) = (Instant::now(), now_len);
            } else if heard.elapsed() > quiet_limit {
                running.wait_or_end(Duration::ZERO)?;
                return Ok(None);
            }
            std::thread::sleep(STEP);
        }
        running.wait().map(Some)
    }

    fn start(&self, log: &str, mut command: Command) -> Result<Running, String> {
        let path = self.logs.join(format!("{log}.log"));
        let failed = |why: std::io::Error| format!("{}: {why}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let out = File::create(&path).map_err(failed)?;
        let err = out.try_clone().map_err(failed)?;
        let child = command
            .current_dir(&self.logs)
            .env_remove("WIGLAF_STATE")
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .map_err(|why| {
                format!("{} cannot be started: {why}", command.get_program().display())
            })?;
        Ok(Running { child, log: path })
    }
}

impl Running {
    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Result<Ended, String> {
        let status = self.child.wait().map_err(|why| why.to_string())?;
        self.ended(status)
    }

    /// Waits that long, then ends it.
    pub(crate) fn wait_or_end(mut self, grace: Duration) -> Result<Ended, String> {
        const STEP: Duration = Duration::from_millis(20);
        let steps = grace.as_millis() / STEP.as_millis();
        for _ in 0..steps {
            if self.has_ended() {
                break;
            }
            std::thread::sleep(STEP);
        }
        if !self.has_ended() {
            // It passes the signal on to the nodes.
            let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        }
        self.wait()
    }

    fn ended(&self, status: ExitStatus) -> Result<Ended, String> {
        let bytes = fs::read(&self.log).map_err(|why| why.to_string())?;
        Ok(Ended { status: status.code(), text: String::from_utf8_lossy(&bytes).into_owned() })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Ok(ended) = self.wiglaf("down", &["down"])
            && !ended.succeeded()
        {
            eprintln!("xtask: the cluster {} is still up: {}", self.name, ended.reason());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_name_the_status_and_the_last_words() {
        let ended = |status, text: &str| Ended { status, text: text.into() }.reason();
        assert_eq!(ended(Some(61), "a\nfi_getinfo: no data\n\n"), "status 61, fi_getinfo: no data");
        assert_eq!(ended(Some(124), ""), "ended by the time limit");
        assert_eq!(ended(None, ""), "killed");
    }
}
