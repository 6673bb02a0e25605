//! Everybody sends to one: how much of the receiver's line is used, how evenly
//! it is shared, and whether the receiver is overrun.
//!
//! The emulated run has many processes on few cores, so what it says of
//! fairness is also the scheduler's. The simulated one (handed in by the
//! caller) has the transport alone, in virtual time.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::Progress;
use crate::compile::MeasuringProgram;
use crate::contender::CONTENDERS;
use crate::error::{BenchError, Result};
use crate::facts::Facts;
use crate::grid::Grid;
use crate::launch::Launcher;
use crate::node_counters::NodeCounters;
use crate::outcome::{Better, Case, Entry, Figure, Outcome, Wanted};
use crate::turns::{Contestant, Task, Turns, results};

const RUN_TIME_MAX: Duration = Duration::from_secs(60);
/// Before it is measured.
const SETTLE_MS: u64 = 300;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds; each contender runs once in each.
    pub rounds: usize,
    /// How many send at once.
    pub senders: usize,
    /// Bytes of a message.
    pub len: u64,
    /// Messages that each sender keeps under way.
    pub depth: u64,
    /// Measured time of each run.
    pub time: Duration,
    /// Who takes part.
    pub contestants: Vec<Contestant>,
    /// Where the measuring program is built and kept.
    pub cache: PathBuf,
}

impl Plan {
    /// Everybody, eight senders of 64 KiB messages, ten rounds.
    pub fn new(cache: PathBuf) -> Self {
        Self {
            rounds: 10,
            senders: 8,
            len: 64 << 10,
            depth: 4,
            time: Duration::from_millis(700),
            contestants: CONTENDERS.map(Contestant::from).to_vec(),
            cache,
        }
    }
}

/// What a simulation says of the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Simulated {
    /// Goodput of one sender, in 10^6 bytes a second.
    pub one_megabytes_per_s: f64,
    /// Of all of them together.
    pub all_megabytes_per_s: f64,
    /// Jain's index of all of them.
    pub fairness: f64,
}

const ONE: &str = "1 sender";
const FAIRNESS: &str = "fairness among the senders";
const SIMULATED: &str = "simulated";

/// Runs the plan. `one` is for two ranks, `all` for all senders and the
/// receiver, on the same cluster.
///
/// # Errors
/// When nobody can take part.
pub fn measure(
    one: &dyn Launcher,
    all: &dyn Launcher,
    simulated: Option<Simulated>,
    plan: &Plan,
    progress: Progress<'_>,
) -> Result<Outcome> {
    let mut turns = Turns::gather(one, &plan.contestants, plan.rounds, &plan.cache, progress)?;
    let program = MeasuringProgram::Incast.build(&plan.cache)?;
    let time_ms = u64::try_from(plan.time.as_millis()).unwrap_or(u64::MAX);
    let args = || vec![SETTLE_MS, time_ms, plan.len, plan.depth];
    let many = format!("{} senders", plan.senders);
    let tasks = [
        Task::of_two(ONE.to_owned(), one, &program, args(), RUN_TIME_MAX),
        Task {
            ranks: plan.senders + 1,
            ..Task::of_two(many.clone(), all, &program, args(), RUN_TIME_MAX)
        },
    ];
    let mut grid = Grid::new(3, turns.runners.len());
    let transports = turns.transports();
    turns.run(&tasks, progress, &mut |task, runner, text| {
        let line: Line = results("the incast program", text)?.remove(0);
        if line.elapsed_ns == 0 {
            let detail = "it measured nothing".to_owned();
            return Err(BenchError::Output { what: "the incast program".to_owned(), detail });
        }
        let counted =
            NodeCounters::sum(&line.nodes).of(transports[runner], "the incast program")?;
        let sum: u64 = line.bytes.iter().sum();
        let cell = grid.at(task, runner).push(sum as f64 * 1000.0 / line.elapsed_ns as f64);
        for (name, value) in counted.named() {
            cell.count(name, value);
        }
        if task == 1 {
            grid.at(2, runner).push(jain(&line.bytes));
        }
        Ok(())
    })?;
    let mut cases = vec![
        Case::new(ONE, "goodput", "MB/s", Better::More),
        Case::new(&many, "goodput of all together", "MB/s", Better::More),
        Case::new(FAIRNESS, "Jain's index", "x", Better::More),
    ];
    for (number, case) in cases.iter_mut().enumerate() {
        grid.fill(number, &turns, &tasks[number.min(1)].name, case);
    }
    let mut outcome = Outcome::new(
        "incast",
        &format!("{} senders to one receiver", plan.senders),
        Facts::gather(all.facts()),
        plan.rounds,
    );
    outcome.figures = figures(&cases, plan.senders, simulated);
    if let Some(simulated) = simulated {
        cases.push(of_simulation(&simulated, &many));
    }
    outcome.cases = cases;
    outcome.absent = turns.missing;
    outcome.notes = vec![
        "counters are those of all nodes: segments that TCP sent again, datagrams that found a full \
         socket (udp overruns), a full ring (ring overruns), packets that Wiglaf sent again"
            .to_owned(),
        "the emulated nodes share this machine's cores: what their scheduler does to senders is in \
         the fairness"
            .to_owned(),
    ];
    Ok(outcome)
}

#[derive(Deserialize)]
struct Line {
    elapsed_ns: u64,
    bytes: Vec<u64>,
    nodes: Vec<NodeCounters>,
}

/// Jain's fairness index (Jain, Chiu and Hawe, 1984): 1 when all got the same.
fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|b| *b as f64).sum();
    let squares: f64 = shares.iter().map(|b| (*b as f64).powi(2)).sum();
    if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 0.0 }
}

fn of_simulation(simulated: &Simulated, many: &str) -> Case {
    let mut case = Case::new(SIMULATED, "goodput", "MB/s", Better::More);
    let mut all = Entry::of_rounds(many, None, vec![simulated.all_megabytes_per_s]);
    all.counters.insert("fairness".to_owned(), simulated.fairness);
    case.entries = vec![Entry::of_rounds(ONE, None, vec![simulated.one_megabytes_per_s]), all];
    case
}

fn figures(cases: &[Case], senders: usize, simulated: Option<Simulated>) -> Vec<Figure> {
    let [one, all, fairness] = cases else { return Vec::new() };
    let of_one = all.ours().zip(one.ours()).map(|(all, one)| all.value / one.value);
    let simulated_of_one = simulated.map(|s| s.all_megabytes_per_s / s.one_megabytes_per_s);
    let overruns = all.ours().and_then(overruns);
    let least = |what: &str, reached, detail: &str| {
        let name = format!("incast {senders} to 1, {what}");
        Figure::ratio(&name, Wanted::AtLeast(0.95), reached, detail.to_owned())
    };
    vec![
        least("aggregate, emulated", of_one, "of one sender"),
        least("fairness, emulated", fairness.ours().map(|entry| entry.value), "Jain's index"),
        Figure {
            name: format!("incast {senders} to 1, overruns of the receiver"),
            wanted: Wanted::AtMost(0.0),
            unit: "x".to_owned(),
            reached: overruns,
            is_below: false,
            detail: "datagrams that found a full socket or ring, in any round".to_owned(),
        },
        least("aggregate, simulated", simulated_of_one, "of one sender"),
        least("fairness, simulated", simulated.map(|s| s.fairness), "Jain's index"),
    ]
}

/// `None` where either was not counted: nothing seen is not nothing lost.
fn overruns(entry: &Entry) -> Option<f64> {
    Some(entry.counters.get("udp_overruns")? + entry.counters.get("ring_overruns")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_counted_is_no_zero() {
        let mut entry = Entry::of_rounds("Wiglaf", None, vec![1.0]);
        entry.counters.insert("udp_overruns".to_owned(), 0.0);
        assert_eq!(overruns(&entry), None);
        entry.counters.insert("ring_overruns".to_owned(), 2.0);
        assert_eq!(overruns(&entry), Some(2.0));
    }

    #[test]
    fn equal_shares_are_fair() {
        assert_eq!((jain(&[5, 5, 5]), jain(&[9, 0, 0])), (1.0, 1.0 / 3.0));
        assert_eq!((jain(&[0, 0]), jain(&[])), (0.0, 0.0));
    }
}
