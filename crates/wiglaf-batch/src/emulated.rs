//! Slurm on the nodes of an emulated cluster: the same daemons and the same files as on real hosts, each node
//! with its own munged and slurmd, the head with slurmctld.
//!
//! All of them live in the nodes' namespaces and end with them. Their files are in the cluster's state folder.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::shell::quoted;
use wiglaf_base::{End, machine, program};
use wiglaf_cluster::batch::{Batch, Memory};
use wiglaf_cluster::{Record, StateDir};
use wiglaf_node::fanout::{self, Keep, NodeOutput};
use wiglaf_node::{Node, NodeCommand};

use crate::accounting;
use crate::conf::{CONTROLLER_PORT, NodeFacts, Places, Plan, Tracking};
use crate::daemons::{self, Place};
use crate::look::{self, Commands, JobState, NodeState};
use crate::modules::{self, System};
use crate::node::{self, Script, Settings, When};
use crate::pbs;

/// What must be installed, and which package has it.
const PROGRAMS: [(&str, &str); 5] = [
    ("slurmctld", "slurmctld"),
    ("slurmd", "slurmd"),
    ("sinfo", "slurm-client"),
    ("squeue", "slurm-client"),
    ("munged", "munge"),
];
/// An emulated node that is silent for so long has ended: there is no network that could be slow.
const SILENCE_SECONDS: u32 = 10;
/// Only bounds how long a broken start is waited for.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL_PAUSE: Duration = Duration::from_millis(100);

/// Slurm's scripts on each node.
const SCRIPTS: [Script; 3] = [Script::Root(When::Prolog), Script::Root(When::Epilog), Script::Task];

/// Slurm on an emulated cluster.
#[derive(Debug)]
pub struct Emulated<'a> {
    state: &'a StateDir,
    record: &'a Record,
    plan: Plan,
}

/// Fails where Slurm is not installed on this machine, whose programs all emulated nodes have.
///
/// # Errors
/// A sentence that says what to install.
pub fn check_installed() -> Result<()> {
    let is_missing = |name: &str| program::find_tool(name).is_none();
    let mut packages: Vec<&str> =
        PROGRAMS.iter().filter(|(name, _)| is_missing(name)).map(|(_, package)| *package).collect();
    packages.dedup();
    match packages.is_empty() {
        true => Ok(()),
        false => Err(Error::new(format!(
            "batch jobs need Slurm, which is not installed whole; run `apt-get install {}`",
            packages.join(" ")
        ))),
    }
}

/// What is missing for accounting: packages, none where all are there.
#[must_use]
pub fn missing_for_accounting() -> Vec<&'static str> {
    let is_missing = |name: &str| program::find_tool(name).is_none();
    let programs = accounting::PROGRAMS.iter().filter(|(name, _)| is_missing(name));
    let mut packages: Vec<&str> = programs.map(|(_, package)| *package).collect();
    packages.dedup();
    packages
}

/// Whether Slurm was set up on that cluster.
#[must_use]
pub fn is_set_up(state: &StateDir) -> bool {
    saved_path(state).exists()
}

fn saved_path(state: &StateDir) -> PathBuf {
    state.batch_dir().join("batch.json")
}

fn saved(state: &StateDir) -> Result<Option<Batch>> {
    let path = saved_path(state);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.cannot(|| format!("read {}", path.display()))?,
    };
    let batch = serde_json::from_str(&text).map_err(|error| {
        Error::new(format!(
            "{} is damaged ({error}); run `{}`",
            path.display(),
            state.command("down")
        ))
    })?;
    Ok(Some(batch))
}

impl<'a> Emulated<'a> {
    /// What would be set up, or is, on this cluster: as it was set up, or as `batch` says.
    ///
    /// # Errors
    /// When it was set up otherwise, or the cluster has no such node.
    pub fn new(state: &'a StateDir, record: &'a Record, batch: Option<&Batch>) -> Result<Self> {
        let before = saved(state)?;
        if let (Some(before), Some(now)) = (&before, batch)
            && before != now
        {
            return Err(Error::new(format!(
                "Slurm was set up with another section [batch]; run `{}` first",
                state.command("down")
            )));
        }
        let is_new = before.is_none();
        let batch = before.or_else(|| batch.cloned()).unwrap_or_default();
        if is_new && batch.accounting == Some(true) && !missing_for_accounting().is_empty() {
            return Err(Error::new(format!(
                "[batch] wants accounting, and slurmdbd is not installed whole; run `apt-get install \
                 --no-install-recommends {}`",
                missing_for_accounting().join(" ")
            )));
        }
        if is_new && batch.qsub && program::find_tool(pbs::PROGRAM).is_none() {
            return Err(Error::new(format!(
                "[batch] wants qsub, which is not installed; run `apt-get install {}`",
                pbs::PACKAGE
            )));
        }
        let plan = plan(state, record, batch)?;
        plan.head()?;
        Ok(Self { state, record, plan })
    }

    /// Starts on every node what it lacks, and waits until all nodes take jobs. Slurm's scripts call that program,
    /// which is Wiglaf's.
    ///
    /// # Errors
    /// When a daemon does not start; the sentence has its last words.
    pub fn bring_up(&self, program: &Path) -> Result<()> {
        check_installed()?;
        let conf = self.plan.slurm_conf()?;
        let folder = self.state.batch_dir();
        let is_new = !is_set_up(self.state);
        if is_new {
            self.write(&folder, &conf, program)?;
        }
        let all = self.nodes();
        let head = [self.state.node(&self.plan.head()?.name)];
        self.start("munged", &all)?;
        if self.plan.has_accounting {
            self.start("mariadbd", &head)?;
            self.start("slurmdbd", &head)?;
        }
        self.start("slurmctld", &head)?;
        self.start("slurmd", &all)?;
        self.wait_until_all_answer()
    }

    fn nodes(&self) -> Vec<Node> {
        self.record.shape.nodes.iter().map(|node| self.state.node(&node.name)).collect()
    }

    fn write(&self, folder: &Path, conf: &str, program: &Path) -> Result<()> {
        let make = |path: &Path, mode: u32| {
            let made = fs::DirBuilder::new().recursive(true).mode(mode).create(path);
            made.cannot(|| format!("make {}", path.display()))
        };
        make(folder, 0o755)?;
        make(&folder.join("log"), 0o755)?;
        make(&folder.join("spool"), 0o755)?;
        make(&self.plan.places.controller, 0o700)?;
        let write = |name: &str, bytes: &[u8], mode: u32| {
            let path = folder.join(name);
            let _ = fs::remove_file(&path);
            let file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
            file.and_then(|mut file| {
                std::io::Write::write_all(&mut file, bytes)?;
                // Whatever the umask is.
                file.set_permissions(fs::Permissions::from_mode(mode))
            })
            .cannot(|| format!("write {}", path.display()))
        };
        // No other cluster's, and no key that somebody has seen.
        let mut key = [0; 1024];
        fs::File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut key))
            .cannot(|| "read /dev/urandom".to_owned())?;
        write("munge.key", &key, 0o400)?;
        write("slurm.conf", conf.as_bytes(), 0o644)?;
        write("cgroup.conf", self.plan.cgroup_conf().as_bytes(), 0o644)?;
        // Each node's own, by the name that Slurm's daemon there tells its scripts.
        let nodes = folder.join("nodes");
        make(&nodes, 0o755)?;
        for node in &self.plan.nodes {
            let settings = Settings {
                node: node.name.clone(),
                memory_mib: node.memory_mib,
                has_helper: false,
                // Their sensors are the machine's.
                heat: false,
            };
            let settings = serde_json::to_vec_pretty(&settings)
                .cannot(|| "write a node's settings".to_owned())?;
            write(&format!("nodes/{}", node.name), &settings, 0o644)?;
        }
        let settings = format!("{}/\"$SLURMD_NODENAME\"", quoted(&nodes.display().to_string()));
        for which in SCRIPTS {
            let text = node::script(which, program, Some(&settings));
            write(which.name(), text.as_bytes(), 0o755)?;
        }
        let script = folder.join("module");
        write("module", modules::script(program).as_bytes(), 0o644)?;
        for system in System::ALL {
            for (name, text) in system.files(&script, program) {
                let file = Path::new("modules").join(system.name()).join(name);
                make(folder.join(&file).parent().unwrap_or(folder), 0o755)?;
                write(&file.to_string_lossy(), text.as_bytes(), 0o644)?;
            }
        }
        if self.plan.has_accounting {
            let head = self.plan.head()?;
            let address = head.address.to_string();
            let log = folder.join("log/slurmdbd");
            let text =
                accounting::conf(&head.name, &address, "root", &log, self.plan.batch.private);
            write("slurmdbd.conf", text.as_bytes(), 0o600)?;
        }
        // The last one: what is there before it is not set up yet.
        let saved = serde_json::to_string_pretty(&self.plan.batch)
            .cannot(|| "write the section [batch]".to_owned())?;
        write("batch.json", saved.as_bytes(), 0o644)
    }

    fn start(&self, daemon: &str, nodes: &[Node]) -> Result<()> {
        let head = self.plan.head()?;
        let folder = self.state.batch_dir();
        // Side by side; each has a folder of its own.
        let outputs = std::thread::scope(|scope| {
            let started: Vec<_> = nodes
                .iter()
                .map(|node| {
                    let place = Place {
                        conf: folder.join("slurm.conf"),
                        key: folder.join("munge.key"),
                        log: folder.join(format!("log/munged-{}", node.name())),
                        spool: folder.join("spool").join(node.name()),
                        node: node.name().to_owned(),
                        head: format!("{}:{CONTROLLER_PORT}", head.address),
                        user: String::new(),
                        accounting: folder.join("accounting"),
                        by: "root".to_owned(),
                        cluster: self.plan.cluster.clone(),
                        program: PathBuf::new(),
                    };
                    let start = daemons::script();
                    let words = ["sh", "-c", &start, "wiglaf-batch"].map(str::to_owned);
                    let command = NodeCommand::new(words.into_iter().chain(place.words(daemon)));
                    let command =
                        command.cwd("/").retain_env(|name| ["LANG", "TZ"].contains(&name));
                    scope.spawn(move || quietly(std::slice::from_ref(node), &command))
                })
                .collect();
            started.into_iter().flat_map(|one| one.join().unwrap_or_default()).collect::<Vec<_>>()
        });
        for output in outputs {
            let words = |bytes: &[u8]| {
                let text = String::from_utf8_lossy(bytes).into_owned();
                text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned)
            };
            if output.end? != End::Status(0) {
                let log = self.log(daemon, &output.node);
                let logged = fs::read(&log).ok().and_then(|bytes| words(&bytes));
                let said = words(&output.stderr).or(logged).unwrap_or_default();
                return Err(Error::new(format!(
                    "{daemon} does not start on {}: {said}; its log is {}",
                    output.node,
                    log.display()
                )));
            }
        }
        Ok(())
    }

    fn log(&self, daemon: &str, node: &str) -> PathBuf {
        let log = self.state.batch_dir().join("log");
        match daemon {
            "mariadbd" => self.state.batch_dir().join("accounting/log.err"),
            "slurmctld" | "slurmdbd" => log.join(daemon),
            _ => log.join(format!("{daemon}-{node}")),
        }
    }

    fn wait_until_all_answer(&self) -> Result<()> {
        let asked = Instant::now();
        loop {
            let nodes = self.node_states()?;
            let silent = nodes
                .iter()
                .find(|node| !node.answers || ["unknown", "down"].contains(&node.state.as_str()));
            match silent {
                None => return Ok(()),
                Some(node) if asked.elapsed() > PATIENCE => {
                    let log = self.log("slurmd", &node.name);
                    let says = node
                        .says
                        .clone()
                        .unwrap_or_else(|| format!("{} is {}", node.name, node.state));
                    return Err(Error::new(format!("{says}; its log is {}", log.display())));
                }
                Some(_) => std::thread::sleep(POLL_PAUSE),
            }
        }
    }

    /// How users call what repairs.
    ///
    /// # Errors
    /// When the cluster has no head.
    pub fn commands(&self) -> Result<Commands> {
        let head = &self.plan.head()?.name;
        Ok(Commands {
            scontrol: format!("{} -w {head} -- scontrol", self.state.command("exec")),
            renew: format!("{} --batch", self.state.command("up")),
        })
    }

    /// Whether jobs are noted in a database.
    #[must_use]
    pub fn has_accounting(&self) -> bool {
        self.plan.has_accounting
    }

    /// The name of the head.
    ///
    /// # Errors
    /// When the cluster has none.
    pub fn head(&self) -> Result<&str> {
        Ok(&self.plan.head()?.name)
    }

    /// The nodes as Slurm sees them.
    ///
    /// # Errors
    /// When the head or slurmctld does not answer.
    pub fn node_states(&self) -> Result<Vec<NodeState>> {
        let printed = self.ask(&["sinfo", "-a", "-h", "-N", "-o", look::NODES_FORMAT])?;
        Ok(look::nodes(&printed, &self.commands()?))
    }

    /// What is wrong with accounting, and what to type; nothing where it is well, or not wanted.
    ///
    /// # Errors
    /// When the cluster has no head.
    pub fn accounting(&self) -> Result<Option<(String, String)>> {
        if !self.plan.has_accounting || self.ask(&["sacctmgr", "-n", "show", "cluster"]).is_ok() {
            return Ok(None);
        }
        let head = &self.plan.head()?.name;
        Ok(Some((look::not_noted("slurmdbd", head), self.commands()?.renew)))
    }

    /// The jobs as Slurm sees them.
    ///
    /// # Errors
    /// When the head or slurmctld does not answer.
    pub fn job_states(&self) -> Result<Vec<JobState>> {
        Ok(look::jobs(&self.ask(&["squeue", "-a", "-h", "-o", look::JOBS_FORMAT])?))
    }

    /// What a program of Slurm's prints on the head.
    fn ask(&self, argv: &[&str]) -> Result<String> {
        let head = self.plan.head()?;
        let conf = self.state.batch_dir().join("slurm.conf");
        let command = NodeCommand::new(argv.iter().copied()).cwd("/").env("SLURM_CONF", conf);
        // Words that are compared.
        let command =
            command.retain_env(|name| ["PATH", "SLURM_CONF"].contains(&name)).env("LC_ALL", "C");
        let node = self.state.node(&head.name);
        let mut outputs = quietly(&[node], &command);
        let Some(output) = outputs.pop() else { return Err(Error::new("no node was asked")) };
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        match output.end? {
            End::Status(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            _ => Err(Error::new(format!(
                "slurmctld on {} does not answer ({said}); run `{}`, which starts it anew; its log is {}",
                head.name,
                self.commands()?.renew,
                self.log("slurmctld", &head.name).display()
            ))),
        }
    }
}

fn quietly(nodes: &[Node], command: &NodeCommand) -> Vec<NodeOutput> {
    fanout::run(nodes, command, Keep::All, &|_, _, _| {})
}

fn plan(state: &StateDir, record: &Record, batch: Batch) -> Result<Plan> {
    let folder = state.batch_dir();
    let shape = &record.shape;
    let reserve = batch.memory_reserve.map_or(0, Memory::mib);
    // The machine's memory is everybody's; each node promises its part of it, and none so little that
    // nothing starts.
    let memory_mib = (memory_mib()? / shape.nodes.len().max(1) as u64).max(64 + reserve);
    let cores = machine::cores().len().max(1);
    let nodes = shape.nodes.iter().map(|node| {
        let cpus = if node.core.is_some() { 1 } else { cores };
        NodeFacts {
            name: node.name.clone(),
            address: node.address,
            cpus,
            sockets: 1,
            cores: cpus,
            threads: 1,
            memory_mib,
        }
    });
    // As it was set up.
    let has_accounting = match is_set_up(state) {
        true => folder.join("slurmdbd.conf").exists(),
        false => batch.has_accounting() && missing_for_accounting().is_empty(),
    };
    Ok(Plan {
        cluster: shape.name.clone(),
        nodes: nodes.collect(),
        batch,
        // Nodes have no control groups of their own.
        tracking: Tracking::Parents,
        places: Places {
            user: "root".to_owned(),
            controller: folder.join("controller"),
            spool: folder.join("spool/%n"),
            controller_log: folder.join("log/slurmctld"),
            node_log: folder.join("log/slurmd-%n"),
            task_prolog: Some(folder.join(Script::Task.name())),
            prolog: Some(folder.join(Script::Root(When::Prolog).name())),
            epilog: Some(folder.join(Script::Root(When::Epilog).name())),
            // They are one machine's, so each look would be of that.
            look: None,
            // Nothing wakes an emulated node.
            sleep: None,
        },
        head_name: None,
        has_accounting,
        first_job: None,
        silence_seconds: SILENCE_SECONDS,
    })
}

fn memory_mib() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").cannot(|| "read /proc/meminfo".to_owned())?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib >> 10)
        .ok_or_else(|| Error::new("/proc/meminfo does not say how much memory there is"))
}
