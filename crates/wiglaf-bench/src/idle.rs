//! A rank that waits for long: what it takes of its core meanwhile, and how
//! soon it is awake when the message comes.
//!
//! Both against a TCP socket whose waiting end blocks in read(2). What waiting
//! costs is the processor time of the waiting process between two instants of
//! one silence: what a transport does at its beginning, or at its end, is not
//! in it.
//!
//! A message and its answer take one wake-up, whatever carries them: the end
//! that asks polls. How often it slept all the same is counted.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::Progress;
use crate::compile::MeasuringProgram;
use crate::contender::CONTENDERS;
use crate::error::{BenchError, Result};
use crate::facts::Facts;
use crate::grid::Grid;
use crate::launch::{Launcher, Transport};
use crate::outcome::{Better, Case, Figure, Limit, Outcome, Wanted};
use crate::stats::Samples;
use crate::turns::{Contestant, Task, Turns, results};

const RUN_TIME_MAX: Duration = Duration::from_secs(60);
/// Bytes of a message.
const LEN: u64 = 8;
/// Counts of silences, and how long each is: those after which the waiting rank is woken, and those
/// that are long enough for the two instants.
const WOKEN: (u64, Duration) = (10, Duration::from_millis(105));
const QUIET: (u64, Duration) = (3, Duration::from_millis(560));
/// The polling at the beginning of a silence, which is not looked at; the program leaves out 10 ms.
const BEGINNING: Duration = Duration::from_millis(5);
/// The end that waits blocks, the end that asks polls.
const SOCKETS: &str = "blocking sockets";
/// A counter: sleeps of the rank that asks, in all round trips of a round.
pub const ASKER_SLEEPS: &str = "asker_sleeps";

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds; each contender runs once in each.
    pub rounds: usize,
    /// Who takes part, besides the sockets.
    pub contestants: Vec<Contestant>,
    /// Where the measuring program is built and kept.
    pub cache: PathBuf,
}

impl Plan {
    /// Everybody, ten rounds.
    pub fn new(cache: PathBuf) -> Self {
        Self { rounds: 10, contestants: CONTENDERS.map(Contestant::from).to_vec(), cache }
    }
}

#[derive(Deserialize)]
struct Line {
    quiet_cpu_ns: u64,
    quiet_wall_ns: u64,
    asker_sleeps: u64,
    round_trip_ns: Vec<(u64, u64)>,
}

/// Runs the plan.
///
/// # Errors
/// When nobody can take part.
pub fn measure(launcher: &dyn Launcher, plan: &Plan, progress: Progress<'_>) -> Result<Outcome> {
    let sockets = Contestant {
        label: SOCKETS.to_owned(),
        transport: Transport::Tcp,
        env: vec![("WIGLAF_BENCH_SOCKETS".to_owned(), "1".to_owned())],
        cut_off_after: None,
    };
    let contestants: Vec<Contestant> = plan.contestants.iter().cloned().chain([sockets]).collect();
    let mut turns = Turns::gather(launcher, &contestants, plan.rounds, &plan.cache, progress)?;
    let program = MeasuringProgram::Echo.build(&plan.cache)?;
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let args = vec![LEN, WOKEN.0, us(WOKEN.1), QUIET.0, us(QUIET.1)];
    let name = "silence";
    let tasks = [Task::of_two(name.to_owned(), launcher, &program, args, RUN_TIME_MAX)];
    let mut grid = Grid::new(2, turns.runners.len());
    turns.run(&tasks, progress, &mut |_, runner, text| {
        let lines: Vec<Line> = results("the echo program", text)?;
        let [woken, quiet] = lines.as_slice() else {
            let detail = format!("{} results", lines.len());
            return Err(BenchError::Output { what: "the echo program".to_owned(), detail });
        };
        let share = quiet.quiet_cpu_ns as f64 / quiet.quiet_wall_ns as f64;
        grid.at(0, runner).push(100.0 * share);
        let samples = Samples::from_pairs(woken.round_trip_ns.iter().copied());
        let p50 = samples.summary(1.0).map_or(f64::NAN, |s| s.p50_us);
        let cell = grid.at(1, runner).push(p50).merge(&samples);
        cell.count(ASKER_SLEEPS, woken.asker_sleeps as f64);
        Ok(())
    })?;
    let after = format!("after {} ms of silence", BEGINNING.as_millis());
    let mut busy = Case::new(&after, "processor time of the waiting rank", "%", Better::Less);
    let long = format!("after {} ms of silence", WOKEN.1.as_millis());
    let mut wake = Case::new(&long, "message and answer", "us", Better::Less);
    for (number, case) in [&mut busy, &mut wake].into_iter().enumerate() {
        grid.fill(number, &turns, name, case);
        // They are no MPI.
        for entry in case.entries.iter_mut().filter(|entry| entry.who == SOCKETS) {
            (entry.transport, entry.evidence) = (None, None);
        }
    }
    wake.limit = wake.who(SOCKETS).map(|e| Limit { name: "sockets".to_owned(), value: e.value });
    let facts = Facts::gather(launcher.facts());
    let mut outcome = Outcome::new("idle", "Waiting for long", facts, plan.rounds);
    outcome.figures = vec![
        Figure {
            name: format!("idle {after}, blocking wait"),
            wanted: Wanted::AtMost(2.0),
            unit: "%".to_owned(),
            reached: busy.ours().map(|entry| entry.value),
            is_below: false,
            detail: "of a core".to_owned(),
        },
        Figure::ratio(
            "wake-up after silence",
            Wanted::AtMost(1.2),
            wake.ratio_to_limit(),
            "of the round trip over sockets, where the waiting end blocks".to_owned(),
        ),
    ];
    outcome.cases = vec![busy, wake];
    outcome.absent = turns.missing;
    Ok(outcome)
}
