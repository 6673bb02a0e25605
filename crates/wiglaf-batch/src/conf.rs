//! Slurm's files, as text, from what is known of a cluster.
//!
//! One text is accepted by Slurm 22.05, 24.11 and 26.05: a line that one of them does not know is fatal in all
//! of its programs, so nothing stands here that is not known to all three ([ADR 0054]).
//!
//! [ADR 0054]: ../../../docs/adr/0054-slurm-is-configured-never-replaced.md

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use wiglaf_base::HostList;
use wiglaf_base::error::{Error, Result};
use wiglaf_cluster::batch::{Batch, Login, Memory};

/// The partition that jobs go to where none is named.
pub const MAIN: &str = "batch";
/// The partition of short jobs.
pub const SHORT: &str = "short";
/// Where slurmctld listens: Slurm's own default.
pub const CONTROLLER_PORT: u16 = 6817;
/// Where a node may be silent for so long only, single questions must end sooner.
const SILENCE_SHORT_SECONDS: u32 = 10;
/// So many seconds a node has to fall asleep, in which it takes no job; and so many to wake, before it counts as down.
const SLEEP_SECONDS: u32 = 30;
const WAKE_SECONDS: u32 = 300;
/// What users see of their own alone.
pub(crate) const PRIVATE: &str = "jobs,usage";
/// How often each node looks at itself, in seconds: some ms of one processor. A fan that fails takes minutes to matter.
const LOOK_SECONDS: u32 = 60;
/// Below this no job of today's starts.
const MEMORY_MIB_MIN: u64 = 64;

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    /// What the cluster calls it.
    pub name: String,
    /// Where its slurmd is reached: a number, because slurmctld looks a name up once, when it starts.
    pub address: Ipv4Addr,
    /// Processors that jobs may use.
    pub cpus: usize,
    /// Its sockets.
    pub sockets: usize,
    /// Cores of each.
    pub cores: usize,
    /// Threads of each core.
    pub threads: usize,
    /// Memory, all of it, in MiB.
    pub memory_mib: u64,
}

/// How slurmd knows which processes a job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracking {
    /// By control groups, of version 1 or 2.
    Cgroup(u8),
    /// By whose children they are. Who leaves its parents behind is not found.
    Parents,
}

/// Where Slurm has its files. In those of nodes, `%n` stands for the node's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Who runs slurmctld; owner of its folder.
    pub user: String,
    /// What slurmctld keeps.
    pub controller: PathBuf,
    /// What each slurmd keeps.
    pub spool: PathBuf,
    /// What slurmctld says.
    pub controller_log: PathBuf,
    /// What each slurmd says.
    pub node_log: PathBuf,
    /// A program whose output sets variables of each task.
    pub task_prolog: Option<PathBuf>,
    /// A program that root runs on each node before a job.
    pub prolog: Option<PathBuf>,
    /// One that root runs there after it.
    pub epilog: Option<PathBuf>,
    /// One that root runs on each node from time to time, and before its slurmd takes the first job.
    pub look: Option<PathBuf>,
    /// Programs that send nodes to sleep and wake them, where any may sleep.
    pub sleep: Option<[PathBuf; 2]>,
}

/// Everything that Slurm's files depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Name of the cluster.
    pub cluster: String,
    /// What the cluster file says.
    pub batch: Batch,
    /// The nodes, in order.
    pub nodes: Vec<NodeFacts>,
    /// How processes are found.
    pub tracking: Tracking,
    /// Where files are.
    pub places: Places,
    /// For how many seconds a node may be silent before its job is given up.
    pub silence_seconds: u32,
    /// Whether slurmdbd notes jobs, on the head.
    pub has_accounting: bool,
    /// The number of the first job, where a database knows those before it.
    pub first_job: Option<u32>,
    /// What the head calls itself, where that is not what the cluster calls it: slurmctld looks for itself by that.
    pub head_name: Option<String>,
}

impl Plan {
    fn names(&self) -> HostList {
        self.nodes.iter().map(|node| node.name.as_str()).collect()
    }

    /// The node that slurmctld runs on.
    ///
    /// # Errors
    /// When the cluster does not have the node that the file names.
    pub fn head(&self) -> Result<&NodeFacts> {
        let (head, _) = self.batch.place(&self.names())?;
        let node = self.nodes.iter().find(|node| node.name == head);
        node.ok_or_else(|| Error::new(format!("the head {head} is no node of the cluster")))
    }

    /// The text of slurm.conf.
    ///
    /// # Errors
    /// When the cluster file names nodes that are not there, or a node has too little memory.
    pub fn slurm_conf(&self) -> Result<String> {
        let head = self.head()?;
        let (_, short) = self.batch.place(&self.names())?;
        let mut conf = Conf::default();
        conf.remark("Written by Wiglaf from the cluster file: change that one and set up again.");
        conf.remark("Every line is one that Slurm 22.05, 24.11 and 26.05 know.");
        conf.set("ClusterName", &self.cluster);
        conf.remark("A number, because the head's own name is 127.0.1.1 on many a Debian.");
        let head_name = self.head_name.as_ref().unwrap_or(&head.name);
        conf.set("SlurmctldHost", format!("{head_name}({})", head.address));
        conf.set("SlurmctldPort", CONTROLLER_PORT);
        conf.remark("Nodes fetch this file from the head, so there is one of it.");
        conf.set("SlurmctldParameters", "enable_configless");
        conf.set("AuthType", "auth/munge");
        self.files(&mut conf);
        self.processes(&mut conf);
        conf.remark("Written out because the releases differ in what they take unless told.");
        conf.set("SelectType", "select/cons_tres");
        conf.set("SelectTypeParameters", "CR_Core_Memory");
        conf.remark("Small jobs start before their turn where they delay nobody.");
        conf.set("SchedulerType", "sched/backfill");
        conf.remark("Unless told, a job waits for 3 s on an empty cluster. The interval is in microseconds.");
        conf.remark("A job whose node fails before it goes back to the queue, and is not held.");
        conf.set(
            "SchedulerParameters",
            "batch_sched_delay=0,sched_min_interval=100000,nohold_on_prolog_fail",
        );
        self.accounting(&mut conf, head);
        if !short.names().is_empty() {
            conf.remark("A short job sends a long one on its nodes back to the queue.");
            conf.set("PreemptType", "preempt/partition_prio");
            conf.set("PreemptMode", "REQUEUE");
        }
        conf.remark("A node that was silent takes jobs again as soon as it answers.");
        conf.set("ReturnToService", 2);
        conf.set("SlurmdTimeout", self.silence_seconds);
        if self.silence_seconds <= SILENCE_SHORT_SECONDS {
            conf.remark("Otherwise questions to a node that has ended take longer than that.");
            conf.set("MessageTimeout", SILENCE_SHORT_SECONDS / 2);
            conf.set("TCPTimeout", 1);
        }
        self.sleep(&mut conf)?;
        if self.batch.private {
            conf.remark("Users see their own jobs, and what they have used; root sees all.");
            conf.set("PrivateData", PRIVATE);
        }
        conf.remark("`salloc` gives a shell on the first node, not here.");
        conf.set("LaunchParameters", "use_interactive_step");
        conf.remark("MPICH is started by srun; Open MPI by its own mpirun inside the allocation.");
        conf.set("MpiDefault", "pmi2");
        for node in &self.nodes {
            conf.line(&self.node(node)?);
        }
        conf.remark("Whole nodes, so no two users' jobs meet on one.");
        let (tier, preempted) = if short.names().is_empty() {
            ("", "")
        } else {
            (" PriorityTier=1", " PreemptMode=REQUEUE")
        };
        conf.line(&format!(
            "PartitionName={MAIN} Nodes={} Default=YES MaxTime=INFINITE OverSubscribe=EXCLUSIVE{tier}{preempted} \
             State=UP",
            self.names()
        ));
        if let Some(limit) = self.batch.short.as_ref().map(|short| short.time.count()) {
            conf.line(&format!(
                "PartitionName={SHORT} Nodes={short} MaxTime={limit} DefaultTime={limit} \
                 OverSubscribe=EXCLUSIVE PriorityTier=2 PreemptMode=OFF State=UP"
            ));
        }
        Ok(conf.text)
    }

    fn files(&self, conf: &mut Conf) {
        let places = &self.places;
        conf.set("SlurmUser", &places.user);
        conf.set("StateSaveLocation", places.controller.display());
        conf.remark("%n is the node's name.");
        conf.set("SlurmdSpoolDir", places.spool.display());
        conf.set("SlurmctldPidFile", "/run/slurmctld.pid");
        conf.set("SlurmdPidFile", "/run/slurmd.pid");
        conf.set("SlurmctldLogFile", places.controller_log.display());
        conf.set("SlurmdLogFile", places.node_log.display());
        if let Some(prolog) = &places.task_prolog {
            conf.remark("Gives each task variables: those that scripts written for PBS look for.");
            conf.set("TaskProlog", prolog.display());
        }
        if let (Some(prolog), Some(epilog)) = (&places.prolog, &places.epilog) {
            conf.remark("Root's, on each of a job's nodes: before it, and when it is over.");
            conf.set("Prolog", prolog.display());
            conf.set("Epilog", epilog.display());
            conf.remark(
                "Before the job's first step, as the job's ranks come to other nodes by ssh.",
            );
            // Slurm has neither where it finds processes by their parents.
            let has_groups = matches!(self.tracking, Tracking::Cgroup(_));
            let adopts = has_groups && self.batch.login == Login::Adopt;
            let shows = has_groups && self.batch.x11;
            if adopts {
                conf.remark("`Contain`: a step of each job, on each of its nodes, that logins become part of.");
            }
            if shows {
                conf.remark("`X11`: `srun --x11` shows windows where the job was submitted.");
            }
            let flags = [Some("Alloc"), adopts.then_some("Contain"), shows.then_some("X11")];
            conf.set("PrologFlags", flags.into_iter().flatten().collect::<Vec<_>>().join(","));
            conf.set("PrologEpilogTimeout", 60);
        }
        if let Some(look) = &places.look {
            conf.remark("Root's, on each node, when its slurmd starts and then from time to time: is the node well?");
            conf.set("HealthCheckProgram", look.display());
            conf.set("HealthCheckInterval", LOOK_SECONDS);
            conf.remark("Not on all at once.");
            conf.set("HealthCheckNodeState", "ANY,CYCLE");
        }
    }

    fn sleep(&self, conf: &mut Conf) -> Result<()> {
        let (Some(sleep), Some([suspend, resume])) = (&self.batch.sleep, &self.places.sleep) else {
            return Ok(());
        };
        let asleep = self.batch.sleeping()?;
        let others = self.nodes.iter().map(|node| &node.name);
        let others: HostList =
            others.filter(|name| !asleep.names().contains(name)).cloned().collect();
        conf.remark("Nodes without jobs sleep, and jobs wake them. Both programs return at once.");
        conf.set("SuspendProgram", suspend.display());
        conf.set("ResumeProgram", resume.display());
        conf.set("SuspendTime", sleep.after.count().saturating_mul(60));
        conf.set("SuspendExcNodes", others);
        conf.set("SuspendTimeout", SLEEP_SECONDS);
        conf.set("ResumeTimeout", WAKE_SECONDS);
        Ok(())
    }

    fn accounting(&self, conf: &mut Conf, head: &NodeFacts) {
        if !self.has_accounting {
            conf.remark(
                "In order of submission: age and share need slurmdbd, without which they are ignored.",
            );
            conf.set("PriorityType", "priority/basic");
            return;
        }
        conf.remark("slurmdbd notes jobs. A number, because sacct asks it from all hosts.");
        conf.set("AccountingStorageType", "accounting_storage/slurmdbd");
        conf.set("AccountingStorageHost", head.address);
        conf.remark("What tasks take, asked every 30 s and when they end.");
        let gather = match self.tracking {
            Tracking::Cgroup(_) => "jobacct_gather/cgroup",
            Tracking::Parents => "jobacct_gather/linux",
        };
        conf.set("JobAcctGatherType", gather);
        if let Some(first) = self.first_job {
            conf.remark("The database has the jobs before it, of an earlier setup.");
            conf.set("FirstJobId", first);
        }
        conf.remark(
            "Who has used less of late comes first; a job that waits gains on it, most after a week.",
        );
        conf.set("PriorityType", "priority/multifactor");
        conf.set("PriorityWeightFairshare", 10_000);
        conf.set("PriorityWeightAge", 2000);
        conf.set("PriorityMaxAge", "7-0");
        conf.remark("What was used a week ago counts half.");
        conf.set("PriorityDecayHalfLife", "7-0");
    }

    fn processes(&self, conf: &mut Conf) {
        match self.tracking {
            Tracking::Cgroup(_) => {
                conf.remark("What a job starts stays in its control group, and ends with it.");
                conf.set("ProctrackType", "proctrack/cgroup");
                conf.set("TaskPlugin", "task/cgroup,task/affinity");
            }
            Tracking::Parents => {
                conf.remark("Without control groups: by parents. A process that leaves its own is not found.");
                conf.set("ProctrackType", "proctrack/linuxproc");
                conf.set("TaskPlugin", "task/none");
            }
        }
    }

    fn node(&self, node: &NodeFacts) -> Result<String> {
        let reserve = self.batch.memory_reserve.map_or(0, Memory::mib);
        let left = node.memory_mib.saturating_sub(reserve);
        if left < MEMORY_MIB_MIN {
            return Err(Error::new(format!(
                "{} has {} MiB of memory, of which memory_reserve = \"{reserve}MiB\" leaves {left} for jobs; \
                 lower memory_reserve in [batch]",
                node.name, node.memory_mib
            )));
        }
        Ok(format!(
            "NodeName={} NodeAddr={} CPUs={} Boards=1 SocketsPerBoard={} CoresPerSocket={} ThreadsPerCore={} \
             RealMemory={left} State=UNKNOWN",
            node.name, node.address, node.cpus, node.sockets, node.cores, node.threads
        ))
    }

    /// The text of cgroup.conf.
    #[must_use]
    pub fn cgroup_conf(&self) -> String {
        let mut conf = Conf::default();
        conf.remark("Written by Wiglaf from the cluster file and what the host has.");
        match self.tracking {
            Tracking::Cgroup(version) => {
                conf.remark("What this host had when it was set up.");
                conf.set("CgroupPlugin", format!("cgroup/v{version}"));
                conf.set("ConstrainCores", "yes");
                conf.set("ConstrainRAMSpace", "yes");
            }
            Tracking::Parents => {
                conf.remark("Not used. It is named because 22.05's slurmd ends where it finds none by itself,");
                conf.remark("and does not know `disabled`.");
                conf.set("CgroupPlugin", "cgroup/v1");
            }
        }
        conf.text
    }
}

/// Lines of a file.
#[derive(Debug, Default)]
struct Conf {
    text: String,
}

impl Conf {
    fn line(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }

    fn remark(&mut self, why: &str) {
        self.line(&format!("# {why}"));
    }

    fn set(&mut self, key: &str, value: impl std::fmt::Display) {
        // A String takes all that is written to it.
        let _ = writeln!(self.text, "{key}={value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn plan(batch: &str) -> Plan {
        let node = |index: u8| NodeFacts {
            name: format!("pc{index}"),
            address: Ipv4Addr::new(192, 168, 77, index),
            cpus: 8,
            sockets: 1,
            cores: 4,
            threads: 2,
            memory_mib: 16_000,
        };
        Plan {
            cluster: "lab".to_owned(),
            batch: toml::from_str(batch).unwrap(),
            nodes: (1..=4).map(node).collect(),
            tracking: Tracking::Cgroup(2),
            places: Places {
                user: "slurm".to_owned(),
                controller: "/var/lib/slurm/slurmctld".into(),
                spool: "/var/lib/slurm/slurmd".into(),
                controller_log: "/var/log/slurm/slurmctld.log".into(),
                node_log: "/var/log/slurm/slurmd.log".into(),
                task_prolog: None,
                prolog: Some("/etc/wiglaf/batch/prolog".into()),
                epilog: Some("/etc/wiglaf/batch/epilog".into()),
                look: Some("/etc/wiglaf/batch/look".into()),
                sleep: Some(["/s".into(), "/w".into()]),
            },
            silence_seconds: 60,
            has_accounting: true,
            first_job: None,
            head_name: None,
        }
    }

    fn values<'a>(conf: &'a str, key: &str) -> Vec<&'a str> {
        conf.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
    }

    #[test]
    fn all_that_the_cluster_file_says_is_in_the_configuration() {
        let conf = plan(
            "head = \"pc2\"\nshort = { nodes = \"pc[3-4]\", time = \"15min\" }\nmemory_reserve = \"2GiB\"\n",
        )
        .slurm_conf()
        .unwrap();
        assert_eq!(values(&conf, "SlurmctldHost"), ["pc2(192.168.77.2)"]);
        assert_eq!(
            values(&conf, "NodeName")[0],
            "pc1 NodeAddr=192.168.77.1 CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=2 \
             RealMemory=13952 State=UNKNOWN"
        );
        let [main, short] = values(&conf, "PartitionName")[..] else { panic!("{conf}") };
        assert!(
            main.starts_with("batch Nodes=pc[1-4] Default=YES") && main.contains("PriorityTier=1")
        );
        assert!(
            short.starts_with("short Nodes=pc[3-4] MaxTime=15") && short.contains("PriorityTier=2")
        );
        assert_eq!(values(&conf, "PreemptMode"), ["REQUEUE"]);
    }

    #[test]
    fn without_short_jobs_nothing_is_preempted() {
        let conf = plan("").slurm_conf().unwrap();
        assert_eq!(values(&conf, "SlurmctldHost"), ["pc1(192.168.77.1)"]);
        assert!(!conf.contains("Preempt") && !conf.contains("Tier"), "{conf}");
        assert_eq!(values(&conf, "PartitionName").len(), 1);
    }

    #[test]
    fn shares_count_where_jobs_are_noted_and_only_there() {
        let mut plan = plan("head = \"pc2\"");
        let conf = plan.slurm_conf().unwrap();
        assert_eq!(values(&conf, "AccountingStorageHost"), ["192.168.77.2"]);
        assert_eq!(values(&conf, "PriorityType"), ["priority/multifactor"]);
        assert_eq!(values(&conf, "FirstJobId"), [""; 0]);
        plan.first_job = Some(17);
        assert_eq!(values(&plan.slurm_conf().unwrap(), "FirstJobId"), ["17"]);
        plan.has_accounting = false;
        let conf = plan.slurm_conf().unwrap();
        assert_eq!(values(&conf, "PriorityType"), ["priority/basic"]);
        assert!(!conf.contains("PriorityWeight") && !conf.contains("Account"), "{conf}");
    }

    #[test]
    fn jobs_are_private_where_the_file_says_so() {
        let conf = plan("").slurm_conf().unwrap();
        assert_eq!(values(&conf, "PrivateData"), [""; 0]);
        assert_eq!(values(&conf, "HealthCheckProgram"), ["/etc/wiglaf/batch/look"]);
        let conf = plan("private = true").slurm_conf().unwrap();
        assert_eq!(values(&conf, "PrivateData"), ["jobs,usage"]);
    }

    #[test]
    fn jobs_have_a_step_for_logins_and_windows_where_there_are_control_groups() {
        for (text, flags) in [
            ("", "Alloc"),
            ("login = \"job\"", "Alloc"),
            ("login = \"adopt\"", "Alloc,Contain"),
            ("x11 = true", "Alloc,X11"),
        ] {
            let mut plan = plan(text);
            plan.tracking = Tracking::Cgroup(2);
            assert_eq!(values(&plan.slurm_conf().unwrap(), "PrologFlags"), [flags]);
            plan.tracking = Tracking::Parents;
            assert_eq!(values(&plan.slurm_conf().unwrap(), "PrologFlags"), ["Alloc"]);
        }
    }

    #[test]
    fn no_line_is_fatal_to_one_of_the_releases() {
        // Each of these keys ended the programs of at least one release when it was tried.
        let conf = plan("short = { nodes = \"pc4\", time = \"1h\" }").slurm_conf().unwrap();
        for key in [
            "PrologTimeout",
            "NamespaceType",
            "Exclusive",
            "PowerDownOnIdle",
            "SuspendExcStates",
            "TopologyPlugin",
            "JobCompLoc",
        ] {
            assert_eq!(values(&conf, key), [""; 0], "{key}");
        }
        assert_eq!(values(&conf, "SelectType"), ["select/cons_tres"]);
        assert_eq!(values(&conf, "PriorityType").len(), 1);
        // A key stands once: the second would win without a word.
        let mut keys: Vec<&str> = conf
            .lines()
            .filter(|line| !line.starts_with(['#', 'N', 'P']))
            .filter_map(|line| Some(line.split_once('=')?.0))
            .collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn cgroups_are_those_of_the_host() {
        let mut plan = plan("");
        assert_eq!(values(&plan.cgroup_conf(), "CgroupPlugin"), ["cgroup/v2"]);
        plan.tracking = Tracking::Cgroup(1);
        assert_eq!(values(&plan.cgroup_conf(), "CgroupPlugin"), ["cgroup/v1"]);
        assert_eq!(values(&plan.slurm_conf().unwrap(), "ProctrackType"), ["proctrack/cgroup"]);
        plan.tracking = Tracking::Parents;
        assert_eq!(values(&plan.cgroup_conf(), "CgroupPlugin"), ["cgroup/v1"]);
        assert_eq!(values(&plan.cgroup_conf(), "ConstrainCores"), [""; 0]);
        let conf = plan.slurm_conf().unwrap();
        assert_eq!(values(&conf, "ProctrackType"), ["proctrack/linuxproc"]);
        assert_eq!(values(&conf, "TaskPlugin"), ["task/none"]);
    }

    #[test]
    fn what_cannot_be_is_a_sentence_with_the_key_to_change() {
        let why = plan("memory_reserve = \"16GiB\"").slurm_conf().unwrap_err().to_string();
        assert!(why.contains("pc1 has 16000 MiB") && why.contains("lower memory_reserve"), "{why}");
        let why = plan("head = \"pc9\"").slurm_conf().unwrap_err().to_string();
        assert!(why.contains("pc9 is no node of the cluster"), "{why}");
    }
}
