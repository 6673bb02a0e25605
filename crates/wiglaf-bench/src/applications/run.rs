//! Runs the programs, transport by transport and round by round.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Application, ApplicationId, Outcome, Report, Run, SCHEMA, nwchem};
use crate::Progress;
use crate::contender::Absent;
use crate::error::{Result, file_error};
use crate::facts::Facts;
use crate::interleave;
use crate::launch::{self, Job, Launcher, Settings, Transport};
use crate::stats::median;

const RUN_TIME_MAX: Duration = Duration::from_secs(600);

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Which programs.
    pub applications: Vec<ApplicationId>,
    /// Over what; [`Transport::Serial`] runs one rank.
    pub transports: Vec<Transport>,
    /// Ranks of the runs that are not serial, one a node while nodes last.
    pub ranks: usize,
    /// Rounds; every transport runs once in each.
    pub rounds: usize,
    /// A folder that all nodes see at the same path; each run gets a folder
    /// of its own in it, removed afterwards.
    pub work: PathBuf,
}

impl Plan {
    /// Every program, serial, over TCP and over Wiglaf, two ranks, once.
    pub fn new(work: PathBuf) -> Self {
        Self {
            applications: ApplicationId::ALL.to_vec(),
            transports: vec![Transport::Serial, Transport::Tcp, Transport::Wiglaf],
            ranks: 2,
            rounds: 1,
            work,
        }
    }
}

/// Runs the plan and checks every energy.
///
/// # Errors
/// When a program is missing, a run fails, or energies differ.
pub fn measure(launcher: &dyn Launcher, plan: &Plan, progress: Progress<'_>) -> Result<Report> {
    let (mut transports, mut absent) = (Vec::new(), Vec::new());
    for &transport in &plan.transports {
        match launcher.settings(transport) {
            Ok(settings) => transports.push((transport, settings)),
            Err(reason) => absent.push(Absent { transport, reason }),
        }
    }
    let mut applications = Vec::new();
    for &id in &plan.applications {
        progress(id.title());
        let application = Runner { launcher, plan, id }.application(&transports, progress)?;
        application.check()?;
        applications.push(application);
    }
    Ok(Report {
        schema: SCHEMA.to_owned(),
        facts: Facts::gather(launcher.facts()),
        rounds: plan.rounds,
        applications,
        absent,
    })
}

struct Runner<'a> {
    launcher: &'a dyn Launcher,
    plan: &'a Plan,
    id: ApplicationId,
}

impl Runner<'_> {
    fn application(
        &self,
        transports: &[(Transport, Settings)],
        progress: Progress<'_>,
    ) -> Result<Application> {
        let mut outcomes = vec![Vec::new(); transports.len()];
        for (round, turns) in
            interleave::rounds(transports.len(), self.plan.rounds).iter().enumerate()
        {
            for &turn in turns {
                let (transport, settings) = &transports[turn];
                let outcome = self.one(*transport, settings)?;
                progress(&format!(
                    "  round {} of {}, {:<13} {:6.2} s wall, {:6.2} s CPU",
                    round + 1,
                    self.plan.rounds,
                    format!("{}:", transport.label()),
                    outcome.wall_s,
                    outcome.cpu_s
                ));
                outcomes[turn].push(outcome);
            }
        }
        let runs = transports.iter().zip(&outcomes);
        Ok(Application {
            id: self.id,
            title: self.id.title().to_owned(),
            energy_unit: self.id.energy_unit().to_owned(),
            expected_energy: self.id.expected_energy(),
            runs: runs.map(|((t, settings), o)| self.gather(*t, settings, o)).collect(),
        })
    }

    fn ranks(&self, transport: Transport) -> usize {
        if transport == Transport::Serial { 1 } else { self.plan.ranks }
    }

    fn one(&self, transport: Transport, settings: &Settings) -> Result<Outcome> {
        let program = self.id.program()?;
        let dir = RunDir::new(&self.plan.work)?;
        let args = self.id.prepare(&dir.0)?;
        let ranks = self.ranks(transport);
        let job = Job {
            transport,
            settings,
            ranks,
            nodes: self.launcher.node_count().min(ranks),
            program: &program,
            args: &args,
            env: &self.env(settings),
            dir: &dir.0,
        };
        let output = launch::run(self.launcher, &job, RUN_TIME_MAX)?;
        self.id.parse(&String::from_utf8_lossy(&output.stdout))
    }

    /// What the program needs besides. Which kind of MPI windows it prefers holds where the transport
    /// would take it, too: Open MPI 5 has none over messages.
    fn env(&self, of_transport: &Settings) -> Vec<(String, String)> {
        let takes = |name: &str, value: &str| match of_transport.get(name) {
            Some(list) if name == nwchem::WINDOWS => list.split(',').any(|kind| kind == value),
            _ => true,
        };
        self.id.env().into_iter().filter(|(name, value)| takes(name, value)).collect()
    }

    /// All that a run gets: what the program needs besides goes before what the transport says.
    fn settings(&self, of_transport: &Settings) -> Settings {
        of_transport.clone().into_iter().chain(self.env(of_transport)).collect()
    }

    fn gather(&self, transport: Transport, settings: &Settings, outcomes: &[Outcome]) -> Run {
        let all = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).collect::<Vec<f64>>();
        let (round_wall_s, round_cpu_s) = (all(|o| o.wall_s), all(|o| o.cpu_s));
        Run {
            transport,
            label: transport.label().to_owned(),
            ranks: self.ranks(transport),
            settings: self.settings(settings),
            energies: all(|o| o.energy),
            wall_s: median(&round_wall_s).unwrap_or(f64::NAN),
            cpu_s: median(&round_cpu_s).unwrap_or(f64::NAN),
            round_wall_s,
            round_cpu_s,
        }
    }
}

/// A folder that is gone when the run is.
struct RunDir(PathBuf);

impl RunDir {
    fn new(work: &Path) -> Result<Self> {
        let dir = work.join(format!("application-run-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).map_err(file_error(&dir))?;
        Ok(Self(dir))
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::LocalMpirun;

    /// The last of two settings of one name is what a run gets.
    #[test]
    fn the_result_has_what_the_program_was_given_besides() {
        let Ok(launcher) = LocalMpirun::new() else { return };
        let plan = Plan::new(PathBuf::new());
        let of = |id| Runner { launcher: &launcher, plan: &plan, id };
        let osc = |value: &str| Settings::from([("OMPI_MCA_osc".to_owned(), value.to_owned())]);
        let run = of(ApplicationId::Nwchem).gather(Transport::Tcp, &osc("rdma,sm,pt2pt"), &[]);
        assert_eq!(run.settings, osc("pt2pt"));
        // Open MPI 5 has no such windows.
        let run = of(ApplicationId::Nwchem).gather(Transport::Tcp, &osc("rdma,sm"), &[]);
        assert_eq!(run.settings, osc("rdma,sm"));
        let run = of(ApplicationId::Espresso).gather(Transport::Tcp, &osc("rdma"), &[]);
        assert_eq!(run.settings, osc("rdma"));
    }
}
