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
use crate::error::{BenchError, Result};
use crate::facts::Facts;
use crate::grid::{Cell, Grid};
use crate::launch::{Launcher, Transport};
use crate::node_counters::NodeCounters;
use crate::outcome::{Better, Case, Entry, Figure, Outcome, Wanted};
use crate::turns::{Contestant, Ran, Task, Turns, results};

const RUN_TIME_MAX: Duration = Duration::from_secs(100);
/// Without flow control it is chance how long it takes: who is not done by then has not had enough,
/// and it is said that it would have been more. With flow control it takes a third of a second.
const LIMIT_WITHOUT: Duration = Duration::from_secs(15);
/// Starting and, when the limit is passed, counting.
const AROUND: Duration = Duration::from_secs(6);
/// What begins a line of a run that has passed its limit.
const CUT_OFF: &str = "cut off ";
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
    nodes: Vec<NodeCounters>,
}

/// What the funnel program prints, each rank for itself, when its limit is passed.
#[derive(Deserialize)]
struct CutOffLine {
    cpu_ns: u64,
    node: NodeCounters,
}

/// What one run came to.
struct Spent {
    wall_s: f64,
    cpu_s: f64,
    counted: NodeCounters,
}

impl Spent {
    fn of(line: &Line) -> Self {
        let (wall_s, cpu_s) = (line.wall_ns as f64 / 1e9, line.cpu_ns as f64 / 1e9);
        Self { wall_s, cpu_s, counted: NodeCounters::sum(&line.nodes) }
    }

    /// Up to the limit. A rank that said nothing leaves less, which is true, too.
    fn by_the_limit(text: &str) -> Result<Self> {
        let bad = |detail| BenchError::Output { what: "the funnel program".to_owned(), detail };
        let lines = text.lines().filter_map(|line| line.strip_prefix(CUT_OFF));
        let lines: Vec<CutOffLine> =
            lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
        if lines.is_empty() {
            return Err(bad("it was cut off before it had begun".to_owned()));
        }
        let cpu_ns: u64 = lines.iter().map(|line| line.cpu_ns).sum();
        let nodes: Vec<_> = lines.into_iter().map(|line| line.node).collect();
        Ok(Self {
            wall_s: LIMIT_WITHOUT.as_secs_f64(),
            cpu_s: cpu_ns as f64 / 1e9,
            counted: NodeCounters::sum(&nodes),
        })
    }
}

/// Runs the plan.
///
/// # Errors
/// When nobody can take part.
pub fn measure(launcher: &dyn Launcher, plan: &Plan, progress: Progress<'_>) -> Result<Outcome> {
    let limit_ms = LIMIT_WITHOUT.as_millis().to_string();
    let without = Contestant {
        label: WITHOUT.to_owned(),
        transport: Transport::Wiglaf,
        env: [("WIGLAF_FLOW_CONTROL", "off".to_owned()), ("WIGLAF_BENCH_LIMIT_MS", limit_ms)]
            .map(|(name, value)| (name.to_owned(), value))
            .to_vec(),
        cut_off_after: Some(LIMIT_WITHOUT + AROUND),
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
    let transports = turns.transports();
    turns.run_or_cut_off(&tasks, progress, &mut |_, runner, ran| {
        let (spent, push): (_, fn(&mut Cell, f64) -> &mut Cell) = match ran {
            Ran::Ended(text) => {
                let line = results::<Line>("the funnel program", text)?.remove(0);
                (Spent::of(&line), Cell::push)
            }
            Ran::CutOff(text) => (Spent::by_the_limit(text)?, Cell::push_at_least),
        };
        let counted = spent.counted.of(transports[runner], "the funnel program")?;
        let packets = counted.packets_sent_again() + counted.segments_sent_again();
        let bytes = packets * f64::from(plan.mtu - UDP_HEADERS_LEN);
        push(grid.at(0, runner), spent.wall_s);
        push(grid.at(1, runner), spent.cpu_s);
        let cell = push(grid.at(2, runner), bytes / 1e6);
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
        (plan.senders as u64 * plan.messages * plan.len) as f64 / 1e6
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
    let cut_off = outcome.cases[0].who(WITHOUT).map_or(0, |entry| entry.cut_off.len());
    if cut_off > 0 {
        outcome.notes.push(format!(
            "{cut_off} of {} rounds without were not done after {} s and cut off: more than what \
             they had come to by then",
            plan.rounds,
            LIMIT_WITHOUT.as_secs()
        ));
    }
    Ok(outcome)
}

/// Nothing is wanted but that it helps.
fn figures(cases: &[Case; 3]) -> Vec<Figure> {
    let figure = |case: &Case| {
        let with = case.ours().zip(case.who(WITHOUT));
        let ratio = with.map(|(with, without)| with.value / without.value);
        let name = format!("flow control, {}", case.name);
        let exact = Figure::ratio(&name, Wanted::AtMost(1.0), ratio, "of that without".to_owned());
        let is_below = case.who(WITHOUT).is_some_and(Entry::is_lower_bound);
        Figure { is_below, ..exact }
    };
    cases.iter().map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Transport;

    #[test]
    fn what_was_spent_by_the_limit_is_read_rank_by_rank() {
        let node = |again: u64| {
            format!(
                r#"{{"tcp_retransmitted":0,"udp_overruns":1,"udp_errors":0,
                "endpoints":[{{"counters":[["bulk_retransmitted",{again}]]}}]}}"#
            )
            .replace('\n', "")
        };
        let line = |again| format!("{CUT_OFF}{{\"cpu_ns\":2000000000,\"node\":{}}}\n", node(again));
        let half = format!("{CUT_OFF}{{\"cpu_ns\":200");
        let spent = Spent::by_the_limit(&format!("{}noise\n{}{half}", line(5), line(7))).unwrap();
        assert_eq!((spent.cpu_s, spent.counted.packets_sent_again()), (4.0, 12.0));
        assert!(Spent::by_the_limit("noise\n").is_err());
    }

    #[test]
    fn ratios_to_what_was_cut_off_are_upper_bounds() {
        let mut case = Case::new("wall time", "until the end", "s", Better::Less);
        let ours = Transport::Wiglaf.label();
        let without = Entry::of_rounds(WITHOUT, None, vec![15.0, 15.0, 0.4]);
        let without = Entry { cut_off: vec![0, 1], ..without };
        case.entries = vec![Entry::of_rounds(ours, None, vec![0.3]), without];
        let [wall, ..] = figures(&[case.clone(), case.clone(), case]).try_into().unwrap_or_else(
            |left: Vec<Figure>| -> [Figure; 3] { panic!("{} figures", left.len()) },
        );
        assert_eq!((wall.reached, wall.is_below, wall.is_met()), (Some(0.02), true, Some(true)));
    }
}
