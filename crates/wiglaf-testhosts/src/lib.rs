//! Stand-in hosts on this machine, so that tests reach other hosts by ssh as users do.
//!
//! Each host has network, mount, UTS, PID and IPC namespaces, a root of its own (an overlay over this machine's, or
//! over a given folder), a host name, users, an SSH server with PAM, and a cable to the switch of the data network
//! (192.168.77.0/24) and of the admin network (10.9.0.0/24). Its kernel is this machine's: there are no drivers,
//! the clock is everybody's, and what root writes below /sys or to sysctls without namespace concerns the machine.
//! It has no systemd; an answer to that is [`HostPlan::services`].
//!
//! ```no_run
//! use wiglaf_testhosts::{Cable, Firewall, Hosts, Network, Plan};
//!
//! let mut plan = Plan::new(3); // pc1, pc2, pc3; user ann, no sudo
//! plan.hosts[2].data.mtu = 9000;
//! let Some(hosts) = Hosts::or_skip(&plan) else { return };
//! hosts.install().unwrap(); // `make install` of target/release on all hosts; without it there is no wiglaf
//!
//! let ann = hosts[0].as_user("ann");
//! assert_eq!(ann.run("ssh -oBatchMode=yes pc2 hostname").ok(), "pc2\n");
//! let mut job = ann.start("wiglaf run -n 2 -- ./prog"); // ends when dropped
//! assert!(job.has_printed("ready"));
//! hosts[1].power_off(); // cables first, then all processes at once
//! let output = job.wait();
//! assert!(output.complaint().contains("pc2"), "{output}");
//! hosts[1].power_on().unwrap(); // with the disk that it had
//! hosts[2].set_cable(Network::Data, Cable::Out);
//! if let Err(why) = hosts[2].firewall(&Firewall::NoUdp) {
//!     eprintln!("skipped: {why}");
//! }
//! hosts[0].write("/home/ann/wiglaf.toml", "nodes = \"pc[1-3]\"\n", "ann", 0o644);
//! ```
//!
//! All of it is gone when [`Hosts`] is dropped, and also when its process is killed: the first process of each host
//! ends when its standard input does, the namespaces have no names, and another process then removes the files.
//! For a developer: `cargo xtask hosts`.

#![forbid(unsafe_code)]

mod firewall;
mod host;
mod plan;
mod provision;
mod session;
mod switch;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

pub use firewall::Firewall;
pub use host::Host;
pub use plan::{HostPlan, Plan, PortPlan, User};
pub use session::{Output, Running, Session};
pub use switch::{Cable, Namespace, Network};

use provision::Keys;
use switch::Switch;

/// Programs of this machine that hosts are made with.
const PROGRAMS: [&str; 8] =
    ["unshare", "nsenter", "setpriv", "bash", "ip", "ssh-keygen", "useradd", "sshd"];

/// Why there are no hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// This machine cannot: a test is skipped.
    Skip(String),
    /// Something is wrong.
    Error(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Skip(why) | Self::Error(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for Failure {}

/// Hosts that run. They are a slice: `hosts[0]`, `hosts.iter()`.
#[derive(Debug)]
pub struct Hosts {
    hosts: Vec<Host>,
    folder: PathBuf,
    keeper: Option<Child>,
}

impl std::ops::Deref for Hosts {
    type Target = [Host];

    fn deref(&self) -> &[Host] {
        &self.hosts
    }
}

impl Hosts {
    /// Brings hosts up and waits until their SSH servers listen.
    ///
    /// # Errors
    /// Why there are none.
    pub fn up(plan: &Plan) -> Result<Self, Failure> {
        plan.check().map_err(Failure::Error)?;
        if !rustix::process::geteuid().is_root() {
            return Err(Failure::Skip("stand-in hosts take root".to_owned()));
        }
        if let Some(missing) = PROGRAMS.iter().find(|program| !is_there(program)) {
            let why = format!("{missing} is not installed; run: cargo xtask packages test");
            return Err(Failure::Skip(why));
        }
        let switch = Arc::new(Switch::new().map_err(Failure::Skip)?);
        let mut hosts = Self::in_folder(plan).map_err(Failure::Error)?;
        let keys = Keys::take(&hosts.folder.join("keys"), plan).map_err(Failure::Error)?;
        let shared = hosts.shared(plan).map_err(Failure::Error)?;
        let networks = if plan.admin { &Network::ALL[..] } else { &[Network::Data] };
        for (index, host) in plan.hosts.iter().enumerate() {
            let folder = hosts.folder.join(&host.name);
            let script = provision::script(plan, &keys, index);
            let users = plan.users.iter().map(|user| (user.name.clone(), user.uid(index)));
            let start = provision::start(host, &users.collect::<Vec<_>>());
            let switch = Arc::clone(&switch);
            let networks = networks.to_vec();
            let scripts = host::Scripts { provision: script, start };
            hosts.hosts.push(Host::new(
                host.clone(),
                index,
                folder,
                &shared,
                networks,
                switch,
                scripts,
            ));
        }
        for host in &hosts.hosts {
            host.boot()?;
        }
        for host in &hosts.hosts {
            host.complete()?;
        }
        Ok(hosts)
    }

    /// Brings hosts up, or says `skipped:` and why there are none.
    ///
    /// # Panics
    /// When this machine can have hosts, and something is wrong.
    #[must_use]
    #[track_caller]
    pub fn or_skip(plan: &Plan) -> Option<Self> {
        match Self::up(plan) {
            Ok(hosts) => Some(hosts),
            Err(Failure::Skip(why)) => {
                eprintln!("skipped: {why}");
                None
            }
            Err(Failure::Error(why)) => panic!("no stand-in hosts: {why}"),
        }
    }

    /// The host of that name.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    #[track_caller]
    pub fn named(&self, name: &str) -> &Host {
        let host = self.hosts.iter().find(|host| host.name() == name);
        host.unwrap_or_else(|| panic!("no host is called {name}"))
    }

    /// Where the files of all hosts lie.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Installs the release build on all hosts, below /usr/local, by `make install`.
    ///
    /// # Errors
    /// What is not built yet.
    pub fn install(&self) -> Result<(), String> {
        let tree = self.install_tree()?;
        self.hosts.iter().try_for_each(|host| host.install(&tree))
    }

    /// What `make install` installs, in a folder that stands for the root. For [`Host::install`].
    ///
    /// # Errors
    /// What is not built yet.
    pub fn install_tree(&self) -> Result<PathBuf, String> {
        let tree = self.folder.join("installed");
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        let mut make = Command::new("make");
        make.args(["--silent", "install", "PREFIX=/usr/local"]);
        make.arg(format!("DESTDIR={}", tree.display()));
        make.current_dir(workspace.ok_or("the crate lies in no workspace")?);
        // The test's own settings are not the build's.
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        switch::feed(&mut make, "").map(|_| tree)
    }

    /// Makes the folder, and sees to it that it is removed.
    fn in_folder(plan: &Plan) -> Result<Self, String> {
        if let Some(folder) = &plan.folder {
            let made = std::fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
            let folder = made.map_err(|why| format!("{}: {why}", folder.display()))?;
            return Ok(Self { hosts: Vec::new(), folder, keeper: None });
        }
        let folder = tempfile::Builder::new().prefix("wiglaf-hosts-").tempdir_in(parent());
        let folder = folder.map_err(|why| format!("no temporary folder: {why}"))?;
        // The folder outlives a killed test: the keeper does not, and removes it.
        let mut keeper = Command::new("sh");
        keeper.args(["-c", "cat; until rm -rf \"$0\"; do sleep 0.1; done"]).arg(folder.path());
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let keeper = keeper.process_group(0).spawn();
        let keeper = keeper.map_err(|why| format!("sh cannot be started: {why}"))?;
        Ok(Self { hosts: Vec::new(), folder: folder.keep(), keeper: Some(keeper) })
    }

    /// Makes the shared folders; answers where each lies, and where hosts see it.
    fn shared(&self, plan: &Plan) -> Result<Vec<(PathBuf, PathBuf)>, String> {
        let shared = plan.shared.iter().enumerate().map(|(number, path)| {
            let folder = self.folder.join("shared").join(number.to_string());
            let made = std::fs::create_dir_all(&folder);
            made.map_err(|why| format!("{}: {why}", folder.display()))?;
            Ok((folder, path.clone()))
        });
        shared.collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.hosts.clear();
        if let Some(keeper) = &mut self.keeper {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}

/// A folder on disk for upper layers, which an overlay cannot be.
fn parent() -> &'static str {
    const OVERLAY: i64 = 0x794c_7630;
    let is_overlay = rustix::fs::statfs("/var/tmp").is_ok_and(|about| about.f_type == OVERLAY);
    if is_overlay { "/dev/shm" } else { "/var/tmp" }
}

fn is_there(program: &str) -> bool {
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    path.split(':').any(|folder| Path::new(folder).join(program).exists())
}
