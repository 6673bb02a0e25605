//! Whole programs, unmodified, over each transport: the figures that matter.
//!
//! A faster message is worth what an application gains by it. The programs
//! are those of Debian's packages, the inputs lie in `examples/applications/`
//! and are embedded here, and each run's total energy must be that of the
//! serial run: a fast wrong answer is a failure.

mod espresso;
mod nwchem;
mod run;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::contender::Absent;
use crate::error::{BenchError, Result};
use crate::facts::Facts;
use crate::launch::{Settings, Transport};

pub use run::{Plan, measure};

/// Names the layout of the result.
pub const SCHEMA: &str = "wiglaf-bench/applications/1";

/// How far two energies may be apart, in the application's own unit.
pub const ENERGY_TOLERANCE: f64 = 1e-6;

/// A program and its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApplicationId {
    /// Quantum ESPRESSO's `pw.x`, eight silicon atoms.
    Espresso,
    /// NWChem, fulminic acid.
    Nwchem,
}

/// What a program reported of its own run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outcome {
    energy: f64,
    wall_s: f64,
    cpu_s: f64,
}

impl ApplicationId {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Espresso, Self::Nwchem];

    fn title(self) -> &'static str {
        match self {
            Self::Espresso => {
                "Quantum ESPRESSO pw.x: 8-atom silicon cell, LDA, 24 Ry, 4x4x4 k-points"
            }
            Self::Nwchem => "NWChem: HCNO, SCF, basis Ahlrichs VTZ",
        }
    }

    fn energy_unit(self) -> &'static str {
        match self {
            Self::Espresso => "Ry",
            Self::Nwchem => "hartree",
        }
    }

    /// The energy to be found, where one was known before.
    fn expected_energy(self) -> Option<f64> {
        match self {
            Self::Espresso => None,
            Self::Nwchem => Some(nwchem::ENERGY_HARTREE),
        }
    }

    fn program(self) -> Result<PathBuf> {
        match self {
            Self::Espresso => espresso::program(),
            Self::Nwchem => nwchem::program(),
        }
    }

    fn env(self) -> Vec<(String, String)> {
        match self {
            Self::Espresso => Vec::new(),
            Self::Nwchem => nwchem::env(),
        }
    }

    /// Writes the input for one run into its own folder and returns the
    /// program's arguments.
    fn prepare(self, dir: &std::path::Path) -> Result<Vec<std::ffi::OsString>> {
        match self {
            Self::Espresso => espresso::prepare(dir),
            Self::Nwchem => nwchem::prepare(dir),
        }
    }

    fn parse(self, stdout: &str) -> Result<Outcome> {
        match self {
            Self::Espresso => espresso::parse(stdout),
            Self::Nwchem => nwchem::parse(stdout),
        }
    }
}

/// What was measured, as it is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Where and with what.
    pub facts: Facts,
    /// Rounds; every transport ran once in each.
    pub rounds: usize,
    /// One entry for each program.
    pub applications: Vec<Application>,
    /// Transports that could not be used, and why.
    pub absent: Vec<Absent>,
}

/// One program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Application {
    /// Which.
    pub id: ApplicationId,
    /// Program and input in words.
    pub title: String,
    /// Unit of the energies.
    pub energy_unit: String,
    /// The energy known beforehand, if any.
    pub expected_energy: Option<f64>,
    /// One entry for each transport.
    pub runs: Vec<Run>,
}

/// One program over one transport.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What carried the messages.
    pub transport: Transport,
    /// In words.
    pub label: String,
    /// Processes.
    pub ranks: usize,
    /// All that set it apart from the others.
    pub settings: Settings,
    /// Total energy of every round.
    pub energies: Vec<f64>,
    /// Wall seconds by the program's own report, the median of the rounds.
    pub wall_s: f64,
    /// CPU seconds by the program's own report, the median of the rounds.
    pub cpu_s: f64,
    /// Wall seconds of every round.
    pub round_wall_s: Vec<f64>,
    /// CPU seconds of every round.
    pub round_cpu_s: Vec<f64>,
}

impl Application {
    /// Every energy against the known one and the serial run's.
    ///
    /// # Errors
    /// When two are further apart than [`ENERGY_TOLERANCE`].
    pub fn check(&self) -> Result<()> {
        let differ =
            |detail| BenchError::EnergiesDiffer { application: self.title.clone(), detail };
        let unit = &self.energy_unit;
        let all = || self.runs.iter().flat_map(|r| r.energies.iter().map(move |e| (r, *e)));
        let Some((first, energy)) = all().next() else {
            return Err(differ("there was no run".to_owned()));
        };
        let known = self.expected_energy.map(|e| ("expected", e));
        for (name, reference) in known.into_iter().chain([(first.label.as_str(), energy)]) {
            let off = |e: f64| e.is_nan() || (e - reference).abs() > ENERGY_TOLERANCE;
            if let Some((run, found)) = all().find(|(_, e)| off(*e)) {
                return Err(differ(format!(
                    "{} found {found:.8} {unit}, {name} is {reference:.8} {unit}",
                    run.label
                )));
            }
        }
        Ok(())
    }

    /// One line on the energies.
    pub fn verdict(&self) -> String {
        let unit = &self.energy_unit;
        match (self.check(), self.runs.first().and_then(|r| r.energies.first())) {
            (Ok(()), Some(energy)) => {
                format!("total energy {energy:.7} {unit}, the same in all runs to 1e-6")
            }
            (Err(error), _) => format!("WRONG: {error}"),
            (Ok(()), None) => "no run".to_owned(),
        }
    }

    /// Our run, and that of the rival over TCP of which `of` is the least.
    pub fn against_the_best(&self, of: fn(&Run) -> f64) -> Option<(&Run, &Run)> {
        let ours = self.runs.iter().find(|run| run.transport == Transport::Wiglaf)?;
        let rivals = self.runs.iter().filter(|run| run.transport.is_tcp_rival());
        Some((ours, rivals.min_by(|a, b| of(a).total_cmp(&of(b)))?))
    }

    /// What the table says, for someone who reads no tables.
    pub fn in_words(&self) -> Vec<String> {
        let Some((ours, best)) = self.against_the_best(|run| run.wall_s) else {
            return Vec::new();
        };
        let change = (1.0 - ours.wall_s / best.wall_s) * 100.0;
        let (change, word) = if change >= 0.0 { (change, "less") } else { (-change, "more") };
        let (ours, best, rival) = (ours.wall_s, best.wall_s, best.transport.label());
        vec![format!(
            "Wiglaf needed {ours:.2} s where {rival} needed {best:.2} s: {change:.0} % {word}"
        )]
    }
}

#[cfg(test)]
mod tests;
