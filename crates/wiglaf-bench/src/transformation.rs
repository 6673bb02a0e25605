//! A program whose files lie on the disks of all its nodes: the integral
//! transformation of `examples/transformation`, over each way to the files of
//! other nodes.
//!
//! The figures are those of the measurements of 1999: CPU and wall seconds on
//! one, two and three nodes, and what they mean as speed-up and efficiency.
//! They are of the phases that move integrals, both sorts and both halves, and
//! of the energy; the integrals and the SCF before them are the same for every
//! way. Messages go the same way in all runs, and the energy of each is
//! compared with NWChem's.

mod stage;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Progress;
use crate::error::{BenchError, Result, file_error};
use crate::facts::Facts;
use crate::files::nodes::Nodes;
use crate::interleave;
use crate::launch::{self, Job, Launcher, Transport};
use crate::stats::median;
use stage::Stage;

/// Layout of the JSON.
pub const SCHEMA: &str = "wiglaf-bench/transformation/1";

/// How far an energy may be from NWChem's, in hartree.
pub const ENERGY_TOLERANCE: f64 = 1e-6;
/// For one run; who needs longer is stuck.
const RUN_TIME_MAX: Duration = Duration::from_secs(600);
/// The phases that count.
const PHASES: [&str; 5] = ["sort 1", "half 1", "sort 2", "half 2", "mp2"];

/// A way to the files of other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// None: one node, and its own disk.
    Local,
    /// sshfs with OpenSSH's fastest cipher.
    Sshfs,
    /// libnfs and nfs-ganesha.
    Nfs,
    /// Wiglaf's library.
    Wiglaf,
    /// `wiglaf mount`.
    WiglafMount,
}

/// All ways to other nodes, in the order of the tables.
pub const WAYS: [Way; 4] = [Way::Wiglaf, Way::WiglafMount, Way::Nfs, Way::Sshfs];

impl Way {
    /// Its name in tables and pictures.
    pub fn label(self) -> &'static str {
        match self {
            Self::Local => "local disk",
            Self::Sshfs => "sshfs aes-gcm",
            Self::Nfs => "NFS, libnfs",
            Self::Wiglaf => "Wiglaf library",
            Self::WiglafMount => "wiglaf mount",
        }
    }
}

/// An input of `examples/transformation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// 161 functions.
    AugCcPvtz,
    /// 104 functions.
    CcPvtz,
}

impl Input {
    fn text(self) -> &'static str {
        match self {
            Self::AugCcPvtz => include_str!("../../../examples/transformation/hcno-avtz.nw"),
            Self::CcPvtz => include_str!("../../../examples/transformation/hcno-pvtz.nw"),
        }
    }

    /// The MP2 correlation energy of NWChem 7.0.2 for the same file, in hartree.
    fn nwchem_hartree(self) -> f64 {
        match self {
            Self::AugCcPvtz => -0.665_047_530_967,
            Self::CcPvtz => -0.646_956_662_546,
        }
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How often every run has its turn.
    pub rounds: usize,
    /// Which molecule and basis.
    pub input: Input,
    /// Who takes part on more than one node.
    pub ways: Vec<Way>,
    /// Most nodes.
    pub nodes_max: usize,
    /// The built example.
    pub program: PathBuf,
    /// A folder that all nodes share.
    pub cache: PathBuf,
}

/// What was measured, as it is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Where and with what.
    pub facts: Facts,
    /// Rounds that every run had.
    pub rounds: usize,
    /// The basis set.
    pub basis: String,
    /// Functions of the basis.
    pub functions: u64,
    /// NWChem's correlation energy, which every run has found, in hartree.
    pub nwchem_hartree: f64,
    /// One for each way and number of nodes.
    pub runs: Vec<Run>,
    /// Who did not take part, and why.
    pub absent: Vec<Absent>,
}

/// One way on so many nodes. Seconds are medians over the rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which way.
    pub way: Way,
    /// In words.
    pub label: String,
    /// So many nodes, with one rank each.
    pub nodes: usize,
    /// CPU seconds of the program, all ranks together.
    pub cpu_s: f64,
    /// Busy seconds of the whole machine meanwhile: file servers and mounts too.
    pub machine_cpu_s: f64,
    /// Wall seconds.
    pub wall_s: f64,
    /// Wall seconds on one node's local disk by these.
    pub speed_up: f64,
    /// `speed_up` by `nodes`.
    pub efficiency: f64,
    /// Bytes read from other nodes, all ranks together.
    pub remote_bytes: f64,
    /// Wall seconds of each phase.
    pub phases: Vec<Phase>,
    /// Wall seconds of every round.
    pub round_wall_s: Vec<f64>,
    /// CPU seconds of every round.
    pub round_cpu_s: Vec<f64>,
}

/// One phase: until the last rank has done its part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// As the program calls it.
    pub name: String,
    /// Wall seconds, the median over the rounds.
    pub wall_s: f64,
}

/// Somebody who could not take part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    /// Who.
    pub way: Way,
    /// Why.
    pub reason: String,
}

impl Report {
    /// One way's run on so many nodes; on one node that is the local disk's.
    pub fn at(&self, way: Way, nodes: usize) -> Option<&Run> {
        let way = if nodes == 1 { Way::Local } else { way };
        self.runs.iter().find(|run| run.way == way && run.nodes == nodes)
    }

    /// Most nodes of any run.
    pub fn nodes_max(&self) -> usize {
        self.runs.iter().map(|run| run.nodes).max().unwrap_or(1)
    }

    /// The ways on several nodes, in the order in which they were asked for.
    pub fn ways(&self) -> Vec<Way> {
        self.runs.iter().filter(|run| run.nodes == 2).map(|run| run.way).collect()
    }
}

/// Runs the plan. `launchers` start jobs on 1, 2 and more nodes, in this order.
///
/// # Errors
/// When nobody can take part, a run fails, or an energy is not NWChem's.
pub fn measure(
    launchers: &[&dyn Launcher],
    nodes: &dyn Nodes,
    plan: &Plan,
    progress: Progress<'_>,
) -> Result<Report> {
    let mut stage = Stage::set(nodes, &plan.cache, plan.nodes_max)?;
    let (mut entries, mut absent) = (vec![Entry::new(Way::Local, 1, "none".to_owned())], vec![]);
    for &way in &plan.ways {
        progress(&format!("preparing {}", way.label()));
        match stage.ready(way) {
            Ok(remote) => entries
                .extend((2..=plan.nodes_max).map(|count| Entry::new(way, count, remote.clone()))),
            Err(reason) => absent.push(Absent { way, reason }),
        }
    }
    let input = plan.cache.join(format!("transformation-{}.nw", std::process::id()));
    std::fs::write(&input, plan.input.text()).map_err(file_error(&input))?;
    let rounds = interleave::rounds(entries.len(), plan.rounds);
    let mut run_all = || {
        for (round, turns) in rounds.iter().enumerate() {
            for &turn in turns {
                let entry = &mut entries[turn];
                let said = entry.run(launchers, plan, &input)?;
                progress(&format!(
                    "round {} of {}: {} on {} nodes, {:.2} s",
                    round + 1,
                    plan.rounds,
                    entry.way.label(),
                    entry.nodes,
                    said.wall_s()
                ));
                entry.found.push(said);
            }
        }
        Ok(())
    };
    let done = run_all();
    let _ = std::fs::remove_file(&input);
    done?;
    drop(stage);
    let mut facts = Facts::gather(nodes.facts());
    facts.versions.extend(crate::files::stage::versions());
    report(plan, facts, &entries, absent)
}

fn report(plan: &Plan, facts: Facts, entries: &[Entry], absent: Vec<Absent>) -> Result<Report> {
    let first = entries.first().and_then(|entry| entry.found.first());
    let first = first.ok_or_else(|| BenchError::NoContender("there were no rounds".to_owned()))?;
    let alone = entries[0].median(Said::wall_s);
    Ok(Report {
        schema: SCHEMA.to_owned(),
        facts,
        rounds: plan.rounds,
        basis: first.basis.clone(),
        functions: first.functions,
        nwchem_hartree: plan.input.nwchem_hartree(),
        runs: entries.iter().map(|entry| entry.finish(alone)).collect(),
        absent,
    })
}

/// A way on so many nodes while it is being measured.
struct Entry {
    way: Way,
    nodes: usize,
    /// What the program calls the way.
    remote: String,
    found: Vec<Said>,
}

impl Entry {
    fn new(way: Way, nodes: usize, remote: String) -> Self {
        Self { way, nodes, remote, found: Vec::new() }
    }

    fn run(&self, launchers: &[&dyn Launcher], plan: &Plan, input: &Path) -> Result<Said> {
        let launcher = launchers.get(self.nodes - 1).ok_or_else(|| {
            BenchError::NoContender(format!("nobody starts jobs on {} nodes", self.nodes))
        })?;
        let settings = launcher.settings(Transport::Wiglaf).map_err(BenchError::NoContender)?;
        let args = ["--remote", &self.remote, "--json"].map(OsString::from);
        let args = [&args[..], &[input.as_os_str().to_owned()]].concat();
        let job = Job {
            transport: Transport::Wiglaf,
            settings: &settings,
            ranks: self.nodes,
            nodes: self.nodes,
            program: &plan.program,
            args: &args,
            env: &[],
            dir: &plan.cache,
        };
        let output = launch::run(*launcher, &job, RUN_TIME_MAX)?;
        let said = parse(&String::from_utf8_lossy(&output.stdout))?;
        let (found, wanted) = (said.mp2_correlation_hartree, plan.input.nwchem_hartree());
        if (found - wanted).abs() < ENERGY_TOLERANCE {
            return Ok(said);
        }
        Err(BenchError::EnergiesDiffer {
            application: "the transformation".to_owned(),
            detail: format!(
                "{} on {} nodes found {found:.9} hartree, NWChem {wanted:.9}",
                self.way.label(),
                self.nodes
            ),
        })
    }

    fn all(&self, of: impl Fn(&Said) -> f64) -> Vec<f64> {
        self.found.iter().map(of).collect()
    }

    fn median(&self, of: impl Fn(&Said) -> f64) -> f64 {
        median(&self.all(of)).unwrap_or(f64::NAN)
    }

    fn finish(&self, alone_s: f64) -> Run {
        let wall_s = self.median(Said::wall_s);
        let speed_up = alone_s / wall_s;
        let phase = |name: &str| Phase {
            name: name.to_owned(),
            wall_s: self.median(|said| said.phase_wall_s(name)),
        };
        Run {
            way: self.way,
            label: self.way.label().to_owned(),
            nodes: self.nodes,
            cpu_s: self.median(|said| said.sum(|part| part.cpu_s)),
            machine_cpu_s: self.median(Said::machine_cpu_s),
            wall_s,
            speed_up,
            efficiency: speed_up / self.nodes as f64,
            remote_bytes: self.median(|said| said.sum(|part| part.remote_bytes)),
            phases: PHASES.map(phase).into(),
            round_wall_s: self.all(Said::wall_s),
            round_cpu_s: self.all(|said| said.sum(|part| part.cpu_s)),
        }
    }
}

/// The program's own report, see `--json`.
#[derive(Debug, Clone, Deserialize)]
struct Said {
    basis: String,
    functions: u64,
    mp2_correlation_hartree: f64,
    ranks: Vec<Rank>,
}

#[derive(Debug, Clone, Deserialize)]
struct Rank {
    phases: Vec<Part>,
}

/// One rank's part of a phase.
#[derive(Debug, Clone, Deserialize)]
struct Part {
    name: String,
    wall_s: f64,
    cpu_s: f64,
    wait_s: f64,
    machine_cpu_s: f64,
    remote_bytes: f64,
}

impl Said {
    fn parts<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Part> {
        self.ranks.iter().flat_map(move |rank| rank.phases.iter().filter(move |p| p.name == name))
    }

    /// Until the last rank has done its part.
    fn phase_wall_s(&self, name: &str) -> f64 {
        self.parts(name).map(|part| part.wall_s + part.wait_s).fold(0.0, f64::max)
    }

    fn wall_s(&self) -> f64 {
        PHASES.iter().map(|name| self.phase_wall_s(name)).sum()
    }

    /// Over all ranks.
    fn sum(&self, of: impl Fn(&Part) -> f64) -> f64 {
        PHASES.iter().flat_map(|name| self.parts(name)).map(of).sum()
    }

    /// All ranks see the same machine.
    fn machine_cpu_s(&self) -> f64 {
        let of = |name: &&str| self.parts(name).next().map_or(0.0, |part| part.machine_cpu_s);
        PHASES.iter().map(of).sum()
    }
}

fn parse(text: &str) -> Result<Said> {
    let bad = |detail: String| BenchError::Output { what: "the transformation".into(), detail };
    let start = text.find('{').ok_or_else(|| bad("no report".to_owned()))?;
    let said: Said = serde_json::from_str(&text[start..]).map_err(|e| bad(e.to_string()))?;
    match PHASES.iter().find(|name| said.parts(name).count() != said.ranks.len()) {
        Some(name) => Err(bad(format!("a rank says nothing of `{name}`"))),
        None if said.ranks.is_empty() => Err(bad("no ranks".to_owned())),
        None => Ok(said),
    }
}

#[cfg(test)]
pub(crate) mod tests;
