//! What flow control is for: several senders that hand everything over at once
//! to one receiver, with it and without it.
//!
//! A protocol without it is as fast as long as nothing is lost. Here senders
//! fill the queue of the receiver's port, and what does not fit is sent again,
//! at the price of the line and of processor time.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::Progress;
use crate::compile::MeasuringProgram;
use crate::error::Result;
use crate::facts::Facts;
use crate::grid::Grid;
use crate::launch::{Launcher, Transport};
use crate::node_counters::NodeCounters;
use crate::outcome::{Better, Case, Figure, Outcome, Wanted};
use crate::turns::{Contestant, Task, Turns, results};

const RUN_TIME_MAX: Duration = Duration::from_secs(100);
/// Headers of IPv4 and UDP: the rest of the MTU is a datagram.
const UDP_HEADERS_LEN: u32 = 28;
const WITHOUT: &str = "without flow control";

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds; each contender runs once in each.
    pub rounds: usize,
    /// How many send.
    pub senders: usize,
    /// Messages of each sender.
    pub messages: u64,
    /// Bytes of a message.
    pub len: u64,
    /// MTU of the interfaces: repeated packets are taken for full ones.
    pub mtu: u32,
    /// Where the measuring program is built and kept.
    pub cache: PathBuf,
}

impl Plan {
    /// Four senders of 40 messages of 256 KiB, ten rounds.
    pub fn new(cache: PathBuf) -> Self {
        Self { rounds: 10, senders: 4, messages: 40, len: 256 << 10, mtu: 1500, cache }
    }
}

#[derive(Deserialize)]
struct Line {
    wall_ns: u64,
    cpu_ns: u64,
    payload: u64,
    nodes: Vec<NodeCounters>,
}

/// Runs the plan.
///
/// # Errors
/// When nobody can take part.
pub fn measure(launcher: &dyn Launcher, plan: &Plan, progress: Progress<'_>) -> Result<Outcome> {
    let without = Contestant {
        label: WITHOUT.to_owned(),
        transport: Transport::Wiglaf,
        env: vec![("WIGLAF_FLOW_CONTROL".to_owned(), "off".to_owned())],
    };
    let contestants = [Transport::Wiglaf.into(), without, Transport::Tcp.into()];
    let mut turns = Turns::gather(launcher, &contestants, plan.rounds, &plan.cache, progress)?;
    let program = MeasuringProgram::Funnel.build(&plan.cache)?;
    let name = format!("{} senders to one", plan.senders);
    let args = vec![plan.messages, plan.len];
    let tasks = [Task {
        ranks: plan.senders + 1,
        ..Task::of_two(name.clone(), launcher, &program, args, RUN_TIME_MAX)
    }];
    let mut grid = Grid::new(3, turns.runners.len());
    let mut payload = 0;
    turns.run(&tasks, progress, &mut |_, runner, text| {
        let line: Line = results("the funnel program", text)?.remove(0);
        let counted = NodeCounters::sum(&line.nodes);
        payload = line.payload;
        grid.at(0, runner).push(line.wall_ns as f64 / 1e9);
        grid.at(1, runner).push(line.cpu_ns as f64 / 1e9);
        let packets = counted.packets_sent_again() + counted.segments_sent_again();
        let bytes = packets * f64::from(plan.mtu - UDP_HEADERS_LEN);
        let cell = grid.at(2, runner).push(bytes / 1e6);
        for (name, value) in counted.named() {
            cell.count(name, value);
        }
        Ok(())
    })?;
    let mut cases = [
        Case::new("wall time", "until the last has arrived", "s", Better::Less),
        Case::new("processor time", "of all ranks", "s", Better::Less),
        Case::new("sent again", "full packets", "MB", Better::Less),
    ];
    for (number, case) in cases.iter_mut().enumerate() {
        grid.fill(number, &turns, &name, case);
    }
    let title = format!(
        "{} senders to one receiver, {:.0} MB in all, with and without flow control",
        plan.senders,
        payload as f64 / 1e6
    );
    let facts = Facts::gather(launcher.facts());
    let mut outcome = Outcome::new("flow-control", &title, facts, plan.rounds);
    outcome.figures = figures(&cases);
    outcome.cases = cases.to_vec();
    outcome.absent = turns.missing;
    outcome.notes.push(
        "without: WIGLAF_FLOW_CONTROL=off, no credit, no congestion window, no window of the \
         receiver"
            .to_owned(),
    );
    Ok(outcome)
}

/// Nothing is wanted but that it helps.
fn figures(cases: &[Case; 3]) -> Vec<Figure> {
    let figure = |case: &Case| {
        let with = case.ours().zip(case.who(WITHOUT));
        let ratio = with.map(|(with, without)| with.value / without.value);
        let name = format!("flow control, {}", case.name);
        Figure::ratio(&name, Wanted::AtMost(1.0), ratio, "of that without".to_owned())
    };
    cases.iter().map(figure).collect()
}
