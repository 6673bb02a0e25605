//! Memory: of idle peers, over many messages, and of messages that nobody has
//! asked for yet.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::Progress;
use crate::compile::MeasuringProgram;
use crate::error::Result;
use crate::facts::Facts;
use crate::grid::Grid;
use crate::launch::{Launcher, Transport};
use crate::outcome::{Better, Case, Entry, Figure, Outcome, Wanted};
use crate::turns::{Contestant, Task, Turns, results};

const RUN_TIME_MAX: Duration = Duration::from_secs(120);
const KIB: f64 = 1024.0;
/// Less is what an allocator and the kernel's pages do by themselves.
const GROWTH_MAX_KIB: f64 = 64.0;
/// An idle peer may take this much.
const IDLE_PEER_MAX: f64 = 2048.0;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds; each contender runs once in each.
    pub rounds: usize,
    /// Short messages between the two ranks.
    pub messages: u64,
    /// Messages that wait at the receiver ...
    pub unexpected: u64,
    /// ... and the bytes of each.
    pub len: u64,
    /// What a receiver may hold of them, in bytes: its stated cap.
    pub unexpected_cap: u64,
    /// Who takes part.
    pub contestants: Vec<Contestant>,
    /// Where the measuring program is built and kept.
    pub cache: PathBuf,
}

impl Plan {
    /// Wiglaf and Open MPI's TCP, 10^7 messages, 64 MiB that nobody asks for,
    /// once.
    pub fn new(unexpected_cap: u64, cache: PathBuf) -> Self {
        Self {
            rounds: 1,
            messages: 10_000_000,
            unexpected: 4096,
            len: 16 << 10,
            unexpected_cap,
            contestants: [Transport::Wiglaf, Transport::Tcp].map(Contestant::from).to_vec(),
            cache,
        }
    }
}

#[derive(Deserialize)]
struct Line {
    early: [u64; 2],
    late: [u64; 2],
    unexpected: i64,
}

/// Runs the plan. `idle_peer_bytes` is what an idle peer takes, if the caller
/// knows it.
///
/// # Errors
/// When nobody can take part.
pub fn measure(
    launcher: &dyn Launcher,
    idle_peer_bytes: Option<f64>,
    plan: &Plan,
    progress: Progress<'_>,
) -> Result<Outcome> {
    let mut turns = Turns::gather(launcher, &plan.contestants, plan.rounds, &plan.cache, progress)?;
    let program = MeasuringProgram::Memory.build(&plan.cache)?;
    let args = vec![plan.messages, plan.unexpected, plan.len];
    let name = "memory of ranks";
    let tasks = [Task::of_two(name.to_owned(), launcher, &program, args, RUN_TIME_MAX)];
    let mut grid = Grid::new(2, turns.runners.len());
    turns.run(&tasks, progress, &mut |_, runner, text| {
        let line: Line = results("the memory program", text)?.remove(0);
        let growth = |rank: usize| line.late[rank] as f64 - line.early[rank] as f64;
        let cell = grid.at(0, runner).push(growth(0).max(growth(1)) / KIB);
        cell.count("resident_KiB", line.late[0].max(line.late[1]) as f64 / KIB);
        grid.at(1, runner).push(line.unexpected as f64 / KIB);
        Ok(())
    })?;
    let grown = format!("growth over {:.0e} messages", plan.messages as f64);
    let waiting = (plan.unexpected * plan.len) as f64 / KIB / KIB;
    let mut cases = vec![
        Case::new(&grown, "of the larger rank", "KiB", Better::Less),
        Case::new(
            &format!("{waiting:.0} MiB that nobody asked for"),
            "growth of the receiver",
            "KiB",
            Better::Less,
        ),
    ];
    for (number, case) in cases.iter_mut().enumerate() {
        grid.fill(number, &turns, name, case);
    }
    let facts = Facts::gather(launcher.facts());
    let mut outcome = Outcome::new("memory", "Memory of ranks", facts, plan.rounds);
    let most = |name: &str, unit: &str, most: f64, reached: Option<f64>, detail: String| Figure {
        name: name.to_owned(),
        wanted: Wanted::AtMost(most),
        unit: unit.to_owned(),
        reached,
        is_below: false,
        detail,
    };
    let ours = |case: &Case| case.ours().map(|entry| entry.value);
    let detail = |what: &str| what.to_owned();
    let cap = plan.unexpected_cap as f64 / KIB;
    outcome.figures = vec![
        most("memory of an idle peer", "B", IDLE_PEER_MAX, idle_peer_bytes, detail("of 10,000")),
        most(&grown, "KiB", GROWTH_MAX_KIB, ours(&cases[0]), detail("resident memory")),
        most("memory of unexpected messages", "KiB", cap, ours(&cases[1]), detail("stated cap")),
    ];
    if let Some(bytes) = idle_peer_bytes {
        let mut case = Case::new("idle peers", "memory of each", "B", Better::Less);
        case.entries = vec![Entry::of_rounds("transport", None, vec![bytes])];
        cases.push(case);
    }
    outcome.cases = cases;
    outcome.absent = turns.missing;
    Ok(outcome)
}
