//! Bringing a cluster up and taking it down.
//!
//! The order makes a kill at any point harmless: inits that were not told `go`
//! end with `up`; before any is told, the record names them all for `down`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::thread::UnshareFlags;
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::hostlist::HostList;
use wiglaf_base::machine::{cores, has_privilege};
use wiglaf_base::process::Process;
use wiglaf_cluster::shape::{Draft, NodeShape, SWITCH, Shape, Wire};
use wiglaf_cluster::state::{Lock, Record, StateDir, VERSION, boot_id, pid_namespace};
use wiglaf_mpi::provider;
use wiglaf_node::client::may_be_shared;
use wiglaf_node::mounts;

use crate::config::NodeConfig;
use crate::fault::{self, HOLD_DEFAULT, Wish};
use crate::init::{GO, READY};
use crate::wire;

/// Ending a namespace takes a moment when many nodes end together.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// What `up` did.
#[derive(Debug)]
pub enum Up {
    /// A cluster of this shape was up already.
    Already(Record),
    /// It was brought up.
    New(Record),
    /// It was brought up after the remains of another were removed.
    Renewed(Record),
    /// Those of its nodes that had died were started anew.
    Mended(Record, HostList),
}

impl Up {
    /// The cluster, however it came to be.
    #[must_use]
    pub fn record(&self) -> &Record {
        match self {
            Self::Already(record)
            | Self::New(record)
            | Self::Renewed(record)
            | Self::Mended(record, _) => record,
        }
    }
}

/// Brings the cluster up, with `exe` (which must be a `wiglaf`) as the nodes' init.
///
/// # Errors
/// When another shape is up, or a step fails; then nothing is left behind.
pub fn up(state: &StateDir, draft: Draft, exe: &Path) -> Result<Up> {
    let is_any = draft.is_any_shape();
    let shape = draft.shape(&cores())?;
    check_privilege("bring a cluster up")?;
    // Users read the record, and go through the nodes' folders.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let lock = state.lock()?;
    let old = state.record()?;
    let is_here = match &old {
        Some(old) => check_namespace(state, old)?,
        None => false,
    };
    let is_part = is_here && old.iter().flat_map(inits).any(|init| init.is_alive());
    let shape = match &old {
        // Who names no shape means the one that is there.
        Some(old) if is_any && is_part => old.shape.clone(),
        _ => shape,
    };
    let stale = match old {
        Some(_) if !is_here => true,
        Some(old) => {
            if is_whole(&old) {
                return match old.shape == shape {
                    true => Ok(Up::Already(old)),
                    false => Err(Error::new(format!(
                        "a cluster of another shape is up ({}); run `{}` first",
                        old.shape.summary(),
                        state.command("down")
                    ))),
                };
            }
            if is_part && old.shape != shape {
                return Err(Error::new(format!(
                    "a part of a cluster of another shape is up ({}); run `{}` first, or `{}` with what \
                     it was started with",
                    old.shape.summary(),
                    state.command("down"),
                    state.command("up")
                )));
            }
            if is_part && let Some(mended) = mend(state, &old, exe, &lock)? {
                return Ok(mended);
            }
            end(&old)?;
            true
        }
        None => state.nodes_dir().exists(),
    };
    let made = state.clear().and_then(|()| make(state, shape, exe, &lock));
    match made {
        Ok(record) if stale => Ok(Up::Renewed(record)),
        Ok(record) => Ok(Up::New(record)),
        Err(error) => {
            let _ = state.remove(&lock);
            Err(error)
        }
    }
}

/// Takes the cluster down. Says whether there was one.
///
/// # Errors
/// When something of it does not go away.
pub fn down(state: &StateDir) -> Result<bool> {
    if !state.path().exists() {
        return Ok(false);
    }
    check_privilege("take a cluster down")?;
    let lock = state.lock()?;
    let record = state.record()?;
    if let Some(record) = &record
        && check_namespace(state, record)?
    {
        end(record)?;
    }
    let found = record.is_some() || state.nodes_dir().exists();
    state.remove(&lock)?;
    // What was mounted on the machine has lost its server now.
    let _ = mounts::remove_dead();
    Ok(found)
}

fn inits(record: &Record) -> impl Iterator<Item = &Process> {
    record.switch.iter().chain(&record.nodes)
}

/// Whether all inits of the cluster run.
#[must_use]
pub fn is_whole(record: &Record) -> bool {
    inits(record).all(|init| init.is_alive())
}

fn end(record: &Record) -> Result<()> {
    // The nodes first: what they send meanwhile still has a wire.
    let inits = record.nodes.iter().chain(&record.switch);
    let outcomes: Vec<_> = inits.map(|init| init.kill(END_PATIENCE)).collect();
    outcomes.into_iter().collect()
}

fn check_privilege(what: &str) -> Result<()> {
    match has_privilege() {
        true => Ok(()),
        false => Err(Error::new(format!(
            "to {what} needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN); run it with sudo"
        ))),
    }
}

/// Whether the record's pids mean something here. They do in one PID namespace only; if that is gone,
/// as after the restart of a container, the cluster is, too.
fn check_namespace(state: &StateDir, record: &Record) -> Result<bool> {
    match (record.pid_namespace == pid_namespace(), is_gone(state, record)) {
        (true, _) => Ok(true),
        (false, true) => Ok(false),
        (false, false) => Err(Error::new(
            "this cluster was brought up outside of this node or container; run the command there",
        )),
    }
}

/// Fails where the cluster's nodes cannot be reached by their pids: on a node of its own, for example.
///
/// # Errors
/// A sentence that says where to call the command.
pub fn check_is_here(state: &StateDir, record: &Record) -> Result<()> {
    match check_namespace(state, record)? {
        true => Ok(()),
        false => Err(state.not_up()),
    }
}

/// Whether a cluster of another PID namespace has ended with it.
#[must_use]
pub fn is_gone(state: &StateDir, record: &Record) -> bool {
    let names = record.shape.nodes.iter().map(|node| node.name.as_str());
    let mut names = names.chain(record.switch.is_some().then_some(SWITCH));
    record.pid_namespace != pid_namespace() && names.all(|name| state.node(name).is_not_up())
}

/// A node that ends with us until it is told `go`.
struct Pending {
    process: Process,
    child: Child,
    line: UnixStream,
    name: String,
    told_go: bool,
}

fn make(state: &StateDir, shape: Shape, exe: &Path, lock: &Lock) -> Result<Record> {
    let of_all = OfAll::new(state, &shape, exe);
    let mut switch = None;
    if shape.wire == Wire::Bridge {
        switch = Some(start(exe, state, lock, &of_all.config(SWITCH, None))?);
    }
    let nodes = shape.nodes.iter();
    let nodes = nodes.map(|n| start(exe, state, lock, &of_all.config(&n.name, Some(n))));
    let mut nodes = nodes.collect::<Result<Vec<_>>>()?;
    let processes: Vec<Process> = nodes.iter().map(|n| n.process).collect();
    wire::join(&shape, switch.as_ref().map(|s| s.process), &processes)?;
    for node in switch.iter_mut().chain(&mut nodes) {
        node.wait_until_ready(state)?;
    }
    let record = Record {
        version: VERSION,
        boot_id: boot_id(),
        pid_namespace: pid_namespace(),
        switch: switch.as_ref().map(|s| s.process),
        nodes: processes,
        shape,
    };
    state.write_record(&record)?;
    if let Err(error) = go(state, switch.iter_mut().chain(&mut nodes)) {
        end(&record)?;
        return Err(error);
    }
    Ok(record)
}

/// Starts those nodes anew that have died: the jobs and disks of the others are nobody's to end. Without
/// its switch a cluster has no wire, and begins anew as a whole: nothing, then.
fn mend(state: &StateDir, old: &Record, exe: &Path, lock: &Lock) -> Result<Option<Up>> {
    if old.switch.is_some_and(|switch| !switch.is_alive()) {
        return Ok(None);
    }
    let mut record = old.clone();
    let (mut nodes, mut names, mut dead) = (Vec::new(), Vec::new(), Vec::new());
    let of_all = OfAll::new(state, &old.shape, exe);
    for (index, node) in old.shape.nodes.iter().enumerate() {
        if old.nodes[index].is_alive() {
            continue;
        }
        state.clear_node(&node.name)?;
        let pending = start(exe, state, lock, &of_all.config(&node.name, Some(node)))?;
        record.nodes[index] = pending.process;
        nodes.push(pending);
        names.push(node.name.clone());
        dead.push(index);
    }
    wire::rejoin(&record.shape, record.switch, &record.nodes, &dead)?;
    nodes.iter_mut().try_for_each(|node| node.wait_until_ready(state))?;
    state.write_record(&record)?;
    go(state, nodes.iter_mut())?;
    if record.switch.is_some() {
        // Their ports are new, and what was set for the old ones is still said of them.
        let wish = Wish { faults: None, hold: HOLD_DEFAULT, is_down: false };
        if let Err(error) = fault::set(state, &record, &names, &wish) {
            eprintln!("wiglaf: note: {error}");
        }
    }
    Ok(Some(Up::Mended(record, names.into_iter().collect())))
}

/// Lets nodes that are ready begin, and waits until they serve.
fn go<'a>(state: &StateDir, nodes: impl Iterator<Item = &'a mut Pending>) -> Result<()> {
    // All at once first: each starts its helper before it serves.
    let told = nodes.map(|node| node.go().map(|()| node.name.clone()));
    let names = told.collect::<Result<Vec<_>>>()?;
    names.iter().try_for_each(|name| state.node(name).hello().map(drop))
}

/// What all nodes of a cluster are told.
struct OfAll {
    state: PathBuf,
    hosts: Vec<(Ipv4Addr, String)>,
    shared: Vec<PathBuf>,
    libdir: Option<PathBuf>,
}

impl OfAll {
    fn new(state: &StateDir, shape: &Shape, exe: &Path) -> Self {
        let provider = provider::find(exe).ok();
        let mut shared = homes();
        shared.extend(provider.iter().map(|p| p.shared.clone()).filter(|dir| may_be_shared(dir)));
        Self {
            state: state.path().to_path_buf(),
            hosts: shape.nodes.iter().map(|n| (n.address, n.name.clone())).collect(),
            shared,
            libdir: provider.map(|p| p.dir),
        }
    }

    fn config(&self, name: &str, node: Option<&NodeShape>) -> NodeConfig {
        NodeConfig {
            state: self.state.clone(),
            node: name.to_owned(),
            address: node.map(|node| node.address),
            hosts: self.hosts.clone(),
            core: node.and_then(|node| node.core),
            scratch: node.map(|node| node.scratch.clone()),
            shared: self.shared.clone(),
            libdir: self.libdir.clone(),
        }
    }
}

/// The folders that users have everywhere: the home of whoever calls, also
/// through sudo.
fn homes() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let sudo_home = std::env::var("SUDO_USER").ok().and_then(|user| {
        let passwd = fs::read_to_string("/etc/passwd").ok()?;
        let line = passwd.lines().find(|l| l.split(':').next() == Some(user.as_str()))?;
        line.split(':').nth(5).map(PathBuf::from)
    });
    let mut homes: Vec<PathBuf> = home
        .into_iter()
        .chain(sudo_home)
        .filter_map(|home| home.canonicalize().ok())
        .filter(|home| home.is_dir() && home.parent().is_some())
        .collect();
    homes.dedup();
    homes
}

/// Starts an init in new namespaces.
fn start(exe: &Path, state: &StateDir, lock: &Lock, config: &NodeConfig) -> Result<Pending> {
    let name = config.node.clone();
    let dir = state.node_dir(&name);
    fs::create_dir_all(&dir).cannot(|| format!("make {}", dir.display()))?;
    let log = File::create(dir.join("log")).cannot(|| format!("make the log of {name}"))?;
    let (line, theirs) = UnixStream::pair().cannot(|| format!("make a line to {name}"))?;
    let mut command = Command::new(exe);
    command
        // Said on the command line so that process lists tell clusters apart.
        .arg("--state")
        .arg(state.path())
        .args(["node-init", &name])
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(lock.share()?)
        .stderr(log);
    let child = std::thread::scope(|scope| {
        let start = || {
            // SAFETY: only this thread's namespaces change, it shares no
            // descriptors that depend on them, and it ends after the spawn.
            unsafe {
                rustix::thread::unshare_unsafe(
                    UnshareFlags::NEWNS
                        | UnshareFlags::NEWUTS
                        | UnshareFlags::NEWIPC
                        | UnshareFlags::NEWNET
                        | UnshareFlags::NEWPID,
                )?;
            }
            command.spawn()
        };
        scope
            .spawn(start)
            .join()
            .unwrap_or_else(|_| Err(std::io::Error::other("a thread panicked")))
    })
    .cannot(|| format!("start {name} in new namespaces"))?;
    // The command holds their end, which must be closed for us to see theirs.
    drop(command);
    let process = Process::identify(child.id() as i32)?;
    let mut pending = Pending { process, child, line, name, told_go: false };
    let text = serde_json::to_string(config).cannot(|| format!("configure {}", pending.name))?;
    pending.say(&text)?;
    Ok(pending)
}

impl Pending {
    fn wait_until_ready(&mut self, state: &StateDir) -> Result<()> {
        let mut line = String::new();
        // Nothing is said at all by an init that has ended.
        let _ = BufReader::new(&self.line).read_line(&mut line);
        match line.trim_end() {
            READY => Ok(()),
            "" => {
                let log = fs::read_to_string(state.node_dir(&self.name).join("log"));
                let log = log.unwrap_or_default();
                let last = log.lines().last().unwrap_or("it left no message");
                Err(Error::new(format!("the init of {} ended: {last}", self.name)))
            }
            sentence => Err(Error::new(sentence)),
        }
    }

    fn say(&mut self, text: &str) -> Result<()> {
        self.line
            .write_all(format!("{text}\n").as_bytes())
            .cannot(|| format!("talk to {}", self.name))
    }

    fn go(&mut self) -> Result<()> {
        self.say(GO)?;
        self.told_go = true;
        Ok(())
    }
}

impl Drop for Pending {
    /// An init that was not told `go` ends, and its namespaces are gone when
    /// `up` has failed.
    fn drop(&mut self) {
        if !self.told_go {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
