//! A stand-in host: its processes, its power, its cables, its files.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::Failure;
use crate::firewall::Firewall;
use crate::plan::{HostPlan, PortPlan};
use crate::session::{self, Session};
use crate::switch::{self, Cable, Network, Switch};

/// The first process's program.
const BOOT: &str = include_str!("boot.sh");
/// Folders of the root that belong to the system. Others are users' data: not on another host.
const SYSTEM: [&str; 20] = [
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "lost+found",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "snap",
    "sys",
    "tmp",
    "usr",
    "var",
];

/// One host. It is powered on when it comes from [`crate::Hosts::up`].
#[derive(Debug)]
pub struct Host {
    plan: HostPlan,
    index: usize,
    /// Its files, and those of its commands.
    folder: PathBuf,
    /// Shared folders and what else is bound.
    binds: Vec<(PathBuf, PathBuf)>,
    networks: Vec<Network>,
    switch: Arc<Switch>,
    scripts: Scripts,
    power: Mutex<Power>,
    commands: AtomicUsize,
}

/// What runs on the host, as root.
#[derive(Debug)]
pub(crate) struct Scripts {
    /// Once, while the host is new.
    pub(crate) provision: String,
    /// Each time that it is powered on.
    pub(crate) start: String,
}

#[derive(Debug)]
struct Power {
    on: Option<On>,
    cables: [Cable; 2],
}

/// A host that runs.
#[derive(Debug)]
struct On {
    /// `unshare`, the parent of the first process, which ends with this standard input.
    unshare: Child,
    /// The first process's number on this machine.
    pid: u32,
    first: OwnedFd,
    /// What the first process says.
    lines: BufReader<std::process::ChildStdout>,
}

impl Host {
    pub(crate) fn new(
        plan: HostPlan,
        index: usize,
        folder: PathBuf,
        shared: &[(PathBuf, PathBuf)],
        networks: Vec<Network>,
        switch: Arc<Switch>,
        scripts: Scripts,
    ) -> Self {
        let binds = shared.iter().chain(&plan.binds).cloned().collect();
        let power = Mutex::new(Power { on: None, cables: [Cable::Whole; 2] });
        let commands = AtomicUsize::new(0);
        Self { plan, index, folder, binds, networks, switch, scripts, power, commands }
    }

    /// Its host name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.plan.name
    }

    /// What it was planned to be: interfaces, addresses.
    #[must_use]
    pub fn plan(&self) -> &HostPlan {
        &self.plan
    }

    /// The number of its first process on this machine; none: it is off.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.power().on.as_ref().map(|on| on.pid)
    }

    /// The command that a developer types, as root, to be on the host as that user.
    #[must_use]
    pub fn enter_line(&self, user: &str) -> Option<String> {
        self.pid().map(|pid| session::enter_line(pid, user))
    }

    /// At the host's keyboard, as that user.
    #[must_use]
    pub fn as_user(&self, user: &str) -> Session<'_> {
        Session::new(self, user)
    }

    /// At the host's keyboard, as root.
    #[must_use]
    pub fn as_root(&self) -> Session<'_> {
        Session::new(self, "root")
    }

    /// Cuts all cables, then ends all processes at once. What was written to disk stays.
    pub fn power_off(&self) {
        let mut power = self.power();
        let Some(mut on) = power.on.take() else { return };
        for network in &self.networks {
            // Else the kernel of this machine would still say goodbye on behalf of the dying.
            let _ = self.switch.set(*network, self.index, Cable::Out);
        }
        let _ = pidfd_send_signal(&on.first, Signal::KILL);
        drop(on.unshare.stdin.take());
        let _ = on.unshare.wait();
        for network in &self.networks {
            self.switch.remove(*network, self.index);
        }
    }

    /// Powers the host on and waits until its SSH server listens. Its cables are as they were left.
    ///
    /// # Errors
    /// What went wrong, if the host does not come up; that it is on already.
    pub fn power_on(&self) -> Result<(), String> {
        self.boot().and_then(|()| self.complete()).map_err(|why| why.to_string())
    }

    /// Starts the first process and waits until it has its root.
    pub(crate) fn boot(&self) -> Result<(), Failure> {
        let mut power = self.power();
        if power.on.is_some() {
            return Err(Failure::Error(format!("{} is on already", self.name())));
        }
        let broken = |why: std::io::Error| Failure::Error(format!("{}: {why}", self.name()));
        std::fs::create_dir_all(self.folder.join("commands")).map_err(broken)?;
        let script = self.folder.join("boot.sh");
        std::fs::write(&script, BOOT).map_err(broken)?;
        let complaints = self.folder.join("boot.err");
        let lower = self.lower();
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]);
        command.args(["--", "bash"]).arg(&script);
        command
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("BASE", &self.folder).env("LOWER", &lower).env("NAME", self.name());
        command.env("HIDE", self.hidden(&lower)).env("BINDS", self.bind_lines());
        // Else Ctrl-C in a terminal would be a power failure of all hosts at once.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(File::create(&complaints).map_err(broken)?);
        let mut unshare = command.spawn().map_err(broken)?;
        let lines = unshare.stdout.take().map(BufReader::new);
        let Some(mut lines) = lines else { return Err(Failure::Error("no pipe".to_owned())) };
        let mut line = String::new();
        let _ = lines.read_line(&mut line);
        let pid = line.trim().strip_prefix("rooted ").and_then(|pid| pid.parse().ok());
        let Some(pid) = pid else {
            drop(unshare.stdin.take());
            let _ = unshare.wait();
            let complaints = std::fs::read_to_string(complaints).unwrap_or_default();
            return Err(Failure::Skip(format!(
                "no stand-in host can be made over {} here: {}",
                lower.display(),
                complaints.trim()
            )));
        };
        let first = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let first = first.ok_or(rustix::io::Errno::SRCH);
        let first = first.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let first = first.map_err(|why| broken(why.into()))?;
        power.on = Some(On { unshare, pid, first, lines });
        Ok(())
    }

    /// Connects the host, makes its users if it is new, and waits until its services run.
    pub(crate) fn complete(&self) -> Result<(), Failure> {
        let done = self.try_complete();
        if done.is_err() {
            self.power_off();
        }
        done.map_err(|why| Failure::Error(format!("{}: {why}", self.name())))
    }

    fn try_complete(&self) -> Result<(), String> {
        let pid = self.pid().ok_or("the host is off")?;
        self.ip("link set lo up\n")?;
        for network in &self.networks {
            self.switch.connect(*network, self.index, pid, self.port(*network))?;
            let cable = self.power().cables[*network as usize];
            self.switch.set(*network, self.index, cable)?;
        }
        let marker = self.folder.join("provisioned");
        if !marker.exists() {
            let made = self
                .as_root()
                .input(self.scripts.provision.as_bytes())
                .try_start("sh -eu -s")?
                .wait();
            if !made.status.success() {
                return Err(format!("it cannot be set up: {made}"));
            }
            std::fs::write(&marker, "").map_err(|why| why.to_string())?;
        }
        let start = self.scripts.start.as_bytes();
        let command = "install -D -m 755 /dev/stdin /etc/testhosts/start";
        let made = self.as_root().input(start).try_start(command)?.wait();
        if !made.status.success() {
            return Err(made.to_string());
        }
        let mut power = self.power();
        let on = power.on.as_mut().ok_or("the host is off")?;
        let said = on.unshare.stdin.as_mut().map(|stdin| stdin.write_all(b"go\n"));
        let mut line = String::new();
        let heard = on.lines.read_line(&mut line);
        drop(power);
        if line == "up\n" {
            return Ok(());
        }
        let log = std::fs::read_to_string(self.folder.join("upper/var/log/testhosts.log"));
        Err(format!("its services do not start ({said:?}, {heard:?}): {}", log.unwrap_or_default()))
    }

    /// Pulls a cable, or plugs it in again. A host that is off keeps it so.
    ///
    /// # Panics
    /// When the switch refuses.
    #[track_caller]
    pub fn set_cable(&self, network: Network, cable: Cable) {
        let mut power = self.power();
        power.cables[network as usize] = cable;
        if power.on.is_some()
            && self.networks.contains(&network)
            && let Err(why) = self.switch.set(network, self.index, cable)
        {
            panic!("{}: {why}", self.name());
        }
    }

    /// Pulls all cables.
    #[track_caller]
    pub fn cut(&self) {
        Network::ALL.iter().for_each(|network| self.set_cable(*network, Cable::Out));
    }

    /// Has its kernel show one sensor, with such a reading and such a limit in degrees Celsius, until the host is
    /// powered off.
    ///
    /// # Panics
    /// When it cannot be shown.
    #[track_caller]
    pub fn show_sensor(&self, degrees: u32, limit: u32) {
        // The kernel of this machine may have no such folder, and makes none: all of its parent's are shown anew.
        let line = format!(
            "set -e; if ! mountpoint -q /sys/class; then mkdir /run/class; mount --bind /sys/class /run/class; \
             mount -t tmpfs none /sys/class; for one in /run/class/*; do mkdir \"/sys/class/${{one##*/}}\"; \
             mount --bind \"$one\" \"/sys/class/${{one##*/}}\"; done; mkdir -p /sys/class/hwmon; \
             mount -t tmpfs none /sys/class/hwmon; mkdir /sys/class/hwmon/hwmon0; fi; cd /sys/class/hwmon/hwmon0; \
             echo coretemp >name; echo {degrees}000 >temp1_input; echo {limit}000 >temp1_crit"
        );
        let _ = self.as_root().run(&line).ok();
    }

    /// Plugs all cables in.
    #[track_caller]
    pub fn restore(&self) {
        Network::ALL.iter().for_each(|network| self.set_cable(*network, Cable::Whole));
    }

    /// Sets the MTU of an interface, until the host is powered off.
    ///
    /// # Panics
    /// When the kernel refuses.
    #[track_caller]
    pub fn set_mtu(&self, network: Network, mtu: u32) {
        let interface = &self.port(network).interface;
        if let Err(why) = self.ip(&format!("link set {interface} mtu {mtu}\n")) {
            panic!("{}: {why}", self.name());
        }
    }

    /// Sets the host's packet filter, in place of an earlier one, until the host is powered off.
    ///
    /// # Errors
    /// Why there is none: nft is missing here, or the kernel has no nf_tables. The test is then skipped.
    pub fn firewall(&self, firewall: &Firewall) -> Result<(), String> {
        let rules = format!("flush ruleset\n{}", firewall.rules());
        let pid = self.pid().ok_or("the host is off")?.to_string();
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &pid, "nft", "--file", "-"]);
        switch::feed(&mut command, &rules).map(drop)
    }

    /// Writes a file of the host's; `owner` is a user and its group.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub fn write(&self, path: &str, text: impl Into<Vec<u8>>, owner: &str, mode: u32) {
        let line = format!("install -D -o {owner} -g {owner} -m {mode:o} /dev/stdin '{path}'");
        let _ = self.as_root().input(text).run(&line).ok();
    }

    /// Copies a file of this machine to the host, as root's.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub fn copy(&self, from: &Path, to: &str, mode: u32) {
        match std::fs::read(from) {
            Ok(bytes) => self.write(to, bytes, "root", mode),
            Err(why) => panic!("{}: {why}", from.display()),
        }
    }

    /// What a file of the host's contains.
    ///
    /// # Panics
    /// When it cannot be read.
    #[track_caller]
    #[must_use]
    pub fn read(&self, path: &str) -> String {
        self.as_root().run(&format!("cat '{path}'")).ok().to_owned()
    }

    /// Copies a tree of files from this machine over the host's root.
    ///
    /// # Errors
    /// What failed.
    pub fn install(&self, tree: &Path) -> Result<(), String> {
        let archive = Command::new("tar")
            .arg("-C")
            .arg(tree)
            .args(["--owner=0", "--group=0", "-c", "."])
            .output();
        let archive = archive.map_err(|why| format!("tar cannot be started: {why}"))?;
        // A /lib of the tree is the /usr/lib of the host.
        let line = "tar -C / --no-overwrite-dir --keep-directory-symlink -x";
        let done = self.as_root().input(archive.stdout).try_start(line)?.wait();
        if done.status.success() { Ok(()) } else { Err(done.to_string()) }
    }

    /// Files for the input, the output and the complaints of the next command.
    pub(crate) fn next_files(&self) -> [PathBuf; 3] {
        let number = self.commands.fetch_add(1, Ordering::Relaxed);
        ["in", "out", "err"]
            .map(|what| self.folder.join("commands").join(format!("{number}.{what}")))
    }

    fn power(&self) -> MutexGuard<'_, Power> {
        // What a panicking test left there is still true.
        self.power.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn port(&self, network: Network) -> &PortPlan {
        match network {
            Network::Data => &self.plan.data,
            Network::Admin => &self.plan.admin,
        }
    }

    /// Runs `ip -batch` on the host, with this machine's `ip`: the host may have none.
    fn ip(&self, batch: &str) -> Result<(), String> {
        let pid = self.pid().ok_or("the host is off")?.to_string();
        switch::ip(Command::new("nsenter").args(["--net", "--target", &pid]), batch)
    }

    fn lower(&self) -> PathBuf {
        let given = std::env::var_os("WIGLAF_TESTHOSTS_ROOT").map(PathBuf::from);
        let root = self.plan.root.clone().or(given).unwrap_or_else(|| PathBuf::from("/"));
        // What is not there is for mount to complain about.
        root.canonicalize().unwrap_or(root)
    }

    /// What this machine has and another host would not: users' data, this repository, the hosts' files.
    fn hidden(&self, lower: &Path) -> String {
        if lower != Path::new("/") {
            return String::new();
        }
        let mut hidden = Vec::new();
        for entry in std::fs::read_dir(lower).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| !SYSTEM.contains(&name)) {
                hidden.push(entry.path().display().to_string());
            }
        }
        let folders =
            [Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2), self.folder.parent()];
        hidden.extend(folders.into_iter().flatten().map(|folder| folder.display().to_string()));
        hidden.join("\n")
    }

    fn bind_lines(&self) -> String {
        let lines =
            self.binds.iter().map(|(from, to)| format!("{}\n{}", from.display(), to.display()));
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.power_off();
    }
}
