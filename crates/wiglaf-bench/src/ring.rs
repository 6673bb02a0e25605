//! Many ranks in a circle: what becomes of a transport when ranks share cores.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Progress;
use crate::compile::MeasuringProgram;
use crate::contender::{Absent, CONTENDERS, Field, Work, nobody};
use crate::error::{BenchError, Result};
use crate::facts::Facts;
use crate::launch::{Launcher, Settings, Transport};
use crate::stats::{Samples, Summary, median};

/// Names the layout of the result.
pub const SCHEMA: &str = "wiglaf-bench/ring/1";

const RUN_TIME_MAX: Duration = Duration::from_secs(300);

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds; each contender runs once in each.
    pub rounds: usize,
    /// Ranks in the circle.
    pub ranks: usize,
    /// Bytes of a token, at least 8.
    pub len: u64,
    /// Time for each run.
    pub budget: Duration,
    /// Who takes part.
    pub contenders: Vec<Transport>,
    /// Where the measuring program is built and kept.
    pub cache: PathBuf,
}

impl Plan {
    /// Everybody, 8-byte tokens, five rounds of a second each.
    pub fn new(ranks: usize, cache: PathBuf) -> Self {
        Self {
            rounds: 5,
            ranks,
            len: 8,
            budget: Duration::from_secs(1),
            contenders: CONTENDERS.to_vec(),
            cache,
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
    /// Ranks in the circle.
    pub ranks: usize,
    /// Nodes they were spread over.
    pub nodes: usize,
    /// Bytes of a token.
    pub len: u64,
    /// Who took part, and how they did.
    pub contenders: Vec<Contender>,
    /// Who did not, and why.
    pub absent: Vec<Absent>,
}

/// One contender's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// Who.
    pub transport: Transport,
    /// In words.
    pub label: String,
    /// All that set it apart from the others.
    pub settings: Settings,
    /// Time of single steps, all rounds together.
    pub step: Summary,
    /// Loop time by steps of each round: the figure to compare, because a
    /// median of steps does not see a collapse that comes and goes.
    pub round_mean_us: Vec<f64>,
}

impl Contender {
    /// The median over the rounds of the mean time of a step.
    pub fn step_us(&self) -> f64 {
        median(&self.round_mean_us).unwrap_or(f64::NAN)
    }
}

impl Report {
    /// Wiglaf's time of a step by that of `rival`, if both were measured.
    pub fn ratio_to(&self, rival: Transport) -> Option<f64> {
        let of = |t| self.contenders.iter().find(|c| c.transport == t).map(Contender::step_us);
        Some(of(Transport::Wiglaf)? / of(rival)?)
    }
}

#[derive(Deserialize)]
struct Line {
    loop_ns: u64,
    step_ns: Vec<(u64, u64)>,
}

struct Entry {
    transport: Transport,
    settings: Settings,
    samples: Samples,
    round_mean_us: Vec<f64>,
}

/// Runs the plan.
///
/// # Errors
/// When nobody can take part. A contender whose run fails is struck off and
/// reported as absent: with many ranks on few cores, failing is a result.
pub fn measure(launcher: &dyn Launcher, plan: &Plan, progress: Progress<'_>) -> Result<Report> {
    let program = MeasuringProgram::Ring.build(&plan.cache)?;
    let (ranks, dir, time_max) = (plan.ranks, plan.cache.as_path(), RUN_TIME_MAX);
    let work = Work { launcher, ranks, program: &program, dir, time_max };
    let args: Vec<OsString> =
        vec![plan.budget.as_millis().to_string().into(), plan.len.to_string().into()];
    let mut field = Field::gather(launcher, &plan.contenders);
    let mut entries: Vec<_> = field.entrants.iter().cloned().map(Entry::new).collect();
    field.run(plan.rounds, progress, &mut |number, transport, settings| {
        entries[number].take(&work.run(transport, settings, &args)?)
    });
    let stayed = entries.into_iter().filter(|e| field.has(e.transport));
    let contenders: Vec<_> = stayed.filter_map(Entry::finish).collect();
    let absent = field.absent;
    if contenders.is_empty() {
        return Err(nobody(&absent));
    }
    Ok(Report {
        schema: SCHEMA.to_owned(),
        facts: Facts::gather(launcher.facts()),
        ranks: plan.ranks,
        nodes: work.nodes(),
        len: plan.len,
        contenders,
        absent,
    })
}

impl Entry {
    fn new((transport, settings): (Transport, Settings)) -> Self {
        Self { transport, settings, samples: Samples::default(), round_mean_us: Vec::new() }
    }

    fn take(&mut self, stdout: &str) -> Result<()> {
        let bad = |detail: String| BenchError::Output { what: "the ring program".into(), detail };
        let line = stdout.lines().find(|line| line.starts_with('{'));
        let line = line.ok_or_else(|| bad("no result line".into()))?;
        let line: Line = serde_json::from_str(line).map_err(|e| bad(e.to_string()))?;
        let samples = Samples::from_pairs(line.step_ns);
        if samples.count() == 0 {
            return Err(bad("no steps".into()));
        }
        self.round_mean_us.push(line.loop_ns as f64 / samples.count() as f64 / 1000.0);
        self.samples.merge(&samples);
        Ok(())
    }

    fn finish(self) -> Option<Contender> {
        Some(Contender {
            transport: self.transport,
            label: self.transport.label().to_owned(),
            settings: self.settings,
            step: self.samples.summary(1.0)?,
            round_mean_us: self.round_mean_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry::new((Transport::Tcp, Settings::new()))
    }

    #[test]
    fn a_collapse_shows_in_the_mean() {
        let mut entry = entry();
        entry.take("{\"loop_ns\":4000990000,\"step_ns\":[[10000,99],[4000000000,1]]}").unwrap();
        let done = entry.finish().unwrap();
        assert_eq!(done.step.p50_us, 10.0);
        assert!(done.step_us() > 40_000.0);
    }

    #[test]
    fn garbage_is_an_error() {
        for text in ["", "{\"loop_ns\":1,\"step_ns\":[]}", "{\"loop_ns\":\"x\"}"] {
            assert!(entry().take(text).is_err(), "{text}");
        }
    }
}
