//! Several tasks, done in turns by everybody.
//!
//! A task is one program under one circumstance: a cluster, a loss rate, a
//! stranger on each core. In each round everybody does every task, so that two
//! tasks of one contender can be compared as well as two contenders.

use std::any::Any;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Progress;
use crate::compile::MeasuringProgram;
use crate::course::Course;
use crate::error::{BenchError, Result};
use crate::interleave;
use crate::launch::{self, Captured, Job, Launcher, Settings, Transport};
use crate::outcome::{Entry, Missing};

/// Somebody who takes part: a transport, and what else sets it apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contestant {
    /// Its name in tables.
    pub label: String,
    /// What carries its messages.
    pub transport: Transport,
    /// Environment beyond that of the transport.
    pub env: Vec<(String, String)>,
    /// A limit of its own: who passes it is cut off, which is an answer and no failure. For what is
    /// expected to do badly, not for rivals.
    pub cut_off_after: Option<Duration>,
}

/// How a run went.
#[derive(Debug, Clone, Copy)]
pub enum Ran<'a> {
    /// To its end; what it printed.
    Ended(&'a str),
    /// To its contestant's limit; what it had printed by then.
    CutOff(&'a str),
}

impl From<Transport> for Contestant {
    fn from(transport: Transport) -> Self {
        Self {
            label: transport.label().to_owned(),
            transport,
            env: Vec::new(),
            cut_off_after: None,
        }
    }
}

/// What lasts as long as a circumstance does; dropping it ends that.
pub type Guard = Box<dyn Any>;
/// Brings a circumstance about.
pub type Around<'a> = &'a dyn Fn() -> Result<Guard>;

/// One program under one circumstance.
pub struct Task<'a> {
    /// What tables and errors call it.
    pub name: String,
    /// Starts it.
    pub launcher: &'a dyn Launcher,
    /// What runs.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<u64>,
    /// Processes.
    pub ranks: usize,
    /// Environment, the same for everybody.
    pub env: Vec<(String, String)>,
    /// What is different while it runs.
    pub around: Option<Around<'a>>,
    /// Who needs longer is stuck.
    pub time_max: Duration,
}

impl<'a> Task<'a> {
    /// One of two ranks, with nothing particular about it.
    pub(crate) fn of_two(
        name: String,
        launcher: &'a dyn Launcher,
        program: &Path,
        args: Vec<u64>,
        time_max: Duration,
    ) -> Self {
        let (program, env) = (program.to_owned(), Vec::new());
        Self { name, launcher, program, args, ranks: 2, env, around: None, time_max }
    }
}

/// Somebody who takes part, with the settings that a run gets.
#[derive(Debug, Clone)]
pub struct Runner {
    /// Who.
    pub contestant: Contestant,
    /// All that sets it apart.
    pub settings: Settings,
    /// What its MPI said it used.
    pub evidence: Option<String>,
}

impl Runner {
    /// Its entry in a case, with the median of `rounds` as its value.
    pub fn entry(&self, rounds: Vec<f64>) -> Entry {
        let mut settings = self.settings.clone();
        settings.extend(self.contestant.env.iter().cloned());
        Entry {
            settings,
            evidence: self.evidence.clone(),
            ..Entry::of_rounds(&self.contestant.label, Some(self.contestant.transport), rounds)
        }
    }
}

/// Everybody who works here, and where.
pub struct Turns {
    /// Those who take part.
    pub runners: Vec<Runner>,
    /// Those who do not, and why.
    pub missing: Vec<Missing>,
    rounds: usize,
    dir: PathBuf,
}

impl Turns {
    /// One short ping-pong each on two ranks, to see who works and that the
    /// messages take the way they should.
    ///
    /// # Errors
    /// When nobody works.
    pub fn gather(
        launcher: &dyn Launcher,
        contestants: &[Contestant],
        rounds: usize,
        dir: &Path,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let program = MeasuringProgram::Pingpong.build(dir)?;
        let course = Course { launcher, program, cores: &[], dir };
        let mut transports: Vec<Transport> = contestants.iter().map(|c| c.transport).collect();
        transports.dedup();
        let (admitted, absent) = course.admit(&transports, &[5, 8], progress)?;
        let found = |c: &Contestant| admitted.iter().find(|a| a.transport == c.transport);
        let runners = contestants.iter().filter_map(|contestant| {
            let one = found(contestant)?;
            let (settings, evidence) = (one.settings.clone(), one.evidence.clone());
            Some(Runner { contestant: contestant.clone(), settings, evidence })
        });
        let missing = absent.iter().map(|one| Missing {
            who: one.transport.label().to_owned(),
            case: None,
            reason: one.reason.clone(),
        });
        Ok(Self {
            runners: runners.collect(),
            missing: missing.collect(),
            rounds,
            dir: dir.to_owned(),
        })
    }

    /// What carries each one's messages.
    pub(crate) fn transports(&self) -> Vec<Transport> {
        self.runners.iter().map(|runner| runner.contestant.transport).collect()
    }

    /// Does all tasks, round by round. `take` gets the number of the task and
    /// of the runner, and what the program printed. Who fails in a task is
    /// struck off it: failing is a result, too.
    ///
    /// # Errors
    /// When a circumstance cannot be brought about, or the user interrupts.
    pub fn run(
        &mut self,
        tasks: &[Task<'_>],
        progress: Progress<'_>,
        take: &mut dyn FnMut(usize, usize, &str) -> Result<()>,
    ) -> Result<()> {
        self.run_or_cut_off(tasks, progress, &mut |task, runner, ran| match ran {
            Ran::Ended(text) => take(task, runner, text),
            Ran::CutOff(_) => Err(BenchError::Run {
                what: tasks[task].name.clone(),
                detail: "not done within its limit".to_owned(),
            }),
        })
    }

    /// Does all tasks as [`Turns::run`] does, where contestants may have limits of their own: `take` also gets the runs
    /// that were cut off at those.
    ///
    /// # Errors
    /// As with [`Turns::run`].
    pub fn run_or_cut_off(
        &mut self,
        tasks: &[Task<'_>],
        progress: Progress<'_>,
        take: &mut dyn FnMut(usize, usize, Ran<'_>) -> Result<()>,
    ) -> Result<()> {
        for (round, turns) in interleave::rounds(self.runners.len(), self.rounds).iter().enumerate()
        {
            for (number, task) in tasks.iter().enumerate() {
                let guard = task.around.map(|around| around()).transpose()?;
                for &turn in turns {
                    let label = self.runners[turn].contestant.label.clone();
                    if self.is_struck(&label, &task.name) {
                        continue;
                    }
                    progress(&format!(
                        "round {} of {}, {}: {label}",
                        round + 1,
                        self.rounds,
                        task.name
                    ));
                    let done = self.one(task, &self.runners[turn]);
                    if task.launcher.is_interrupted() {
                        return done.map(drop);
                    }
                    let taken = done.and_then(|captured| {
                        let text = String::from_utf8_lossy(captured.stdout());
                        take(
                            number,
                            turn,
                            match captured {
                                Captured::Ended(_) => Ran::Ended(&text),
                                Captured::CutOff(_) => Ran::CutOff(&text),
                            },
                        )
                    });
                    if let Err(error) = taken {
                        let (case, reason) = (Some(task.name.clone()), error.to_string());
                        self.missing.push(Missing { who: label, case, reason });
                    }
                }
                drop(guard);
            }
        }
        Ok(())
    }

    /// Whether somebody failed in a task.
    pub fn is_struck(&self, label: &str, task: &str) -> bool {
        self.missing.iter().any(|m| m.who == label && m.case.as_deref() == Some(task))
    }

    fn one(&self, task: &Task<'_>, runner: &Runner) -> Result<Captured> {
        let args: Vec<OsString> = task.args.iter().map(|n| n.to_string().into()).collect();
        let transport = runner.contestant.transport;
        // What a launcher sets may depend on how many ranks it starts.
        let settings = task.launcher.settings(transport).map_err(BenchError::NoContender)?;
        let env: Vec<_> = runner.contestant.env.iter().chain(&task.env).cloned().collect();
        let job = Job {
            transport,
            settings: &settings,
            ranks: task.ranks,
            nodes: task.launcher.node_count().min(task.ranks),
            program: &task.program,
            args: &args,
            env: &env,
            dir: &self.dir,
        };
        match runner.contestant.cut_off_after {
            Some(limit) => launch::run_or_cut_off(task.launcher, &job, limit.min(task.time_max)),
            None => launch::run(task.launcher, &job, task.time_max).map(Captured::Ended),
        }
    }
}

/// The lines of a program that are results; what others print is skipped.
///
/// # Errors
/// When there is none, or one cannot be read.
pub(crate) fn results<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Result<Vec<T>> {
    let bad = |detail: String| BenchError::Output { what: what.to_owned(), detail };
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let parsed = lines.map(|line| serde_json::from_str(line).map_err(|e| bad(e.to_string())));
    let found = parsed.collect::<Result<Vec<T>>>()?;
    if found.is_empty() { Err(bad("no result line".to_owned())) } else { Ok(found) }
}
