//! Clusters for tests: each in a state folder of its own, so that tests run
//! side by side and disturb nobody's cluster.

#![allow(dead_code, reason = "every test program uses a part of it")]

pub(crate) mod fresh;
pub(crate) mod hosts;
pub(crate) mod tshark;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Only bounds how long a broken test hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A place for a cluster, and a folder to work in. Dropping it takes the
/// cluster down.
pub(crate) struct Site {
    dir: TempDir,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Site {
    /// A place with no cluster yet.
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        // Other users must reach the state folder, as they do under /run.
        fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        Self { dir }
    }

    /// A place with a cluster, or nothing (and the reason on stderr) where
    /// there cannot be one.
    pub(crate) fn up(args: &[&str]) -> Option<Self> {
        if let Some(reason) = why_not() {
            eprintln!("skipped: {reason}");
            return None;
        }
        fresh::check("wiglaf-fabric");
        let site = Self::new();
        site.wiglaf(&[&["up"], args].concat()).expect_success();
        Some(site)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// The folder that commands start in.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.started_by(Command::new(env!("CARGO_BIN_EXE_wiglaf")), args)
    }

    /// A command that SIGINT ends, also where these tests were started with that signal ignored, as a
    /// shell without job control does with what it starts in the background.
    pub(crate) fn interruptible(&self, args: &[&str]) -> Command {
        let mut env = Command::new("env");
        env.args(["--default-signal=INT", env!("CARGO_BIN_EXE_wiglaf")]);
        self.started_by(env, args)
    }

    /// What starts `wiglaf` on the site's cluster, with these arguments.
    pub(crate) fn started_by(&self, mut command: Command, args: &[&str]) -> Command {
        command.args(args).env("WIGLAF_STATE", self.state()).current_dir(self.work());
        command.env_remove("WIGLAF_NODE").env_remove("COLUMNS").stdin(Stdio::null());
        // MPIs and caches of whoever runs the tests are none of theirs.
        command.env("HOME", self.dir.path().join("home")).env_remove("XDG_CACHE_HOME");
        for name in ["WIGLAF_MPI_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "I_MPI_ROOT"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn wiglaf(&self, args: &[&str]) -> Said {
        self.command(args).output().unwrap().into()
    }

    /// Compiles one of the provider's MPI programs, which check themselves and print `passed`.
    pub(crate) fn compile(&self, program: &str) {
        self.compile_from("../wiglaf-fabric/tests/mpi", program);
    }

    /// Compiles an MPI program of that folder, as seen from this crate's.
    pub(crate) fn compile_from(&self, folder: &str, program: &str) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let source = source.join(program).with_extension("c");
        let mut cc = Command::new("mpicc");
        let status = cc.args(["-O1", "-o", program]).arg(source).current_dir(self.work()).status();
        assert!(status.unwrap().success());
    }

    /// The output of a shell script on one node.
    pub(crate) fn sh(&self, node: &str, script: &str) -> String {
        self.wiglaf(&["exec", "-w", node, "--", "sh", "-c", script]).expect_success().stdout
    }

    /// The output of a shell script on one node as that user, whether or not it succeeds.
    pub(crate) fn sh_as(&self, node: &str, user: &str, script: &str) -> String {
        fs::write(self.work().join("script"), script).unwrap();
        let become_them = format!("setpriv --reuid {user} --regid {user} --clear-groups");
        self.sh(node, &format!("{become_them} sh ./script 2>&1 || true"))
    }

    /// How many of the frames `from` that node, or `to` it, met a fault.
    pub(crate) fn faults(&self, node: &str, way: &str, what: &str) -> u64 {
        let said = self.wiglaf(&["fault", "show", node, "--json"]).expect_success();
        let report: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        report[0][way]["counts"][what].as_u64().unwrap()
    }

    /// Processes on any node, their inits not counted.
    pub(crate) fn strays(&self) -> usize {
        let said = self.wiglaf(&["status", "--json"]).expect_success();
        let status: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().map(|n| n["processes"].as_u64().unwrap() as usize).sum()
    }

    /// Ends a node by killing its init, and waits until that is seen.
    pub(crate) fn kill_node(&self, index: usize) {
        let status: serde_json::Value =
            serde_json::from_str(&self.wiglaf(&["status", "--json"]).stdout).unwrap();
        let pid = status["nodes"][index]["pid"].to_string();
        assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
        eventually("the node is seen to be down", || self.wiglaf(&["status"]).status == Some(3));
    }

    /// Inits of this cluster.
    pub(crate) fn inits(&self) -> Vec<String> {
        processes_with(&self.state())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if self.state().exists() {
            let _ = self.command(&["down"]).output();
        }
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Said {
    #[track_caller]
    pub(crate) fn expect_success(self) -> Self {
        assert_eq!(self.status, Some(0), "{self:?}");
        self
    }

    /// A failure with one sentence that holds `words`.
    #[track_caller]
    pub(crate) fn expect_sentence(self, status: i32, words: &str) -> Self {
        assert_eq!(self.status, Some(status), "{self:?}");
        assert!(self.stderr.starts_with("wiglaf: ") && self.stderr.contains(words), "{self:?}");
        assert_eq!(self.stderr.trim_end().lines().count(), 1, "{self:?}");
        self
    }
}

/// Why no cluster can be brought up here, if so.
pub(crate) fn why_not() -> Option<String> {
    let doctor = Command::new(env!("CARGO_BIN_EXE_wiglaf")).args(["doctor", "--json"]).output();
    let report: serde_json::Value = serde_json::from_slice(&doctor.unwrap().stdout).unwrap();
    let needed = ["privilege", "overlayfs", "iproute2"];
    let checks = report["checks"].as_array().unwrap();
    let lacking =
        checks.iter().find(|c| needed.iter().any(|n| c["name"] == *n) && c["verdict"] != "ok")?;
    Some(format!("{}: {}", lacking["name"], lacking["found"]))
}

/// Whether Open MPI can be tried; says why not.
pub(crate) fn has_openmpi() -> bool {
    let has = |tool| Command::new(tool).arg("--version").output().is_ok();
    let all = has("mpirun") && has("mpicc");
    if !all {
        eprintln!("skipped: mpirun or mpicc is not installed (openmpi-bin, libopenmpi-dev)");
    }
    all
}

/// Where the wheels of MPIs are that `cargo xtask packages test` installs.
pub(crate) fn wheels() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("mpi")
}

/// Their folders, as `WIGLAF_MPI_PATH` has them.
pub(crate) fn wheel_prefixes() -> OsString {
    let entries = fs::read_dir(wheels()).into_iter().flatten().flatten();
    std::env::join_paths(entries.map(|entry| entry.path())).unwrap()
}

/// The command lines that mention a path.
pub(crate) fn processes_with(path: &Path) -> Vec<String> {
    let wanted = path.to_str().unwrap();
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().into_string().ok());
    pids.filter(|pid| pid.bytes().all(|b| b.is_ascii_digit()))
        .filter_map(|pid| fs::read(format!("/proc/{pid}/cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(wanted))
        .collect()
}

/// A child that a failing test does not leave behind.
pub(crate) struct Guarded(pub(crate) std::process::Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something is so. That it becomes so is asserted, not when.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}: still not so");
        thread::sleep(Duration::from_millis(10));
    }
}
