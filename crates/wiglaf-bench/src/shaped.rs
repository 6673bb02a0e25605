//! Ports shaped to a rate: how much of what the headers leave of a line
//! reaches the program, one way and both ways at once.
//!
//! The ceiling is arithmetic: of each frame that the shaper lets pass, the
//! payload of a bulk datagram is what arrives. A shaper (tc-tbf(8)) counts the
//! Ethernet header and neither preamble, check sequence nor gap. The ceiling
//! is Wiglaf's for everybody: TCP's headers are shorter, and it may pass it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::Progress;
use crate::bandwidth::{self, Ways};
use crate::compile::MeasuringProgram;
use crate::contender::CONTENDERS;
use crate::error::Result;
use crate::facts::Facts;
use crate::grid::Grid;
use crate::launch::Launcher;
use crate::outcome::{Better, Case, Figure, Limit, Outcome, Wanted};
use crate::turns::{Contestant, Task, Turns};

/// Bytes that the shaper counts of a frame beyond the interface's MTU.
const ETHERNET_LEN: u32 = 14;
/// IPv4, UDP, Wiglaf's header and the prefix of a segment (docs/protocol.md).
const HEADERS_LEN: u32 = 20 + 8 + 48 + 16;
const RUN_TIME_MAX: Duration = Duration::from_secs(120);
const TITLE: &str = "Goodput through shaped ports against what the headers leave";

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds; each contender runs once in each.
    pub rounds: usize,
    /// Bytes of a message.
    pub len: u64,
    /// Messages that are under way at once in each direction.
    pub window: u64,
    /// Rate of each port, in bits a second.
    pub bits_per_s: u64,
    /// Who takes part.
    pub contestants: Vec<Contestant>,
    /// Where the measuring program is built and kept.
    pub cache: PathBuf,
}

impl Plan {
    /// Everybody, windows of 32 messages of 256 KiB, ten rounds, 1 Gbit/s.
    pub fn new(cache: PathBuf) -> Self {
        Self {
            rounds: 10,
            len: 256 << 10,
            window: 32,
            bits_per_s: 1_000_000_000,
            contestants: CONTENDERS.map(Contestant::from).to_vec(),
            cache,
        }
    }
}

/// Payload that a shaped port can pass one way, in 10^6 bytes a second.
pub fn ceiling_megabytes_per_s(bits_per_s: u64, mtu: u32) -> f64 {
    let (payload, frame) = (mtu.saturating_sub(HEADERS_LEN), mtu + ETHERNET_LEN);
    bits_per_s as f64 / 8e6 * f64::from(payload) / f64::from(frame)
}

/// Runs the plan on one cluster for each MTU.
///
/// # Errors
/// When nobody can take part.
pub fn measure(
    wires: &[(u32, &dyn Launcher)],
    plan: &Plan,
    progress: Progress<'_>,
) -> Result<Outcome> {
    let Some((_, first)) = wires.first() else {
        return Ok(Outcome::new("shaped", TITLE, Facts::gather(Default::default()), 0));
    };
    let mut turns = Turns::gather(*first, &plan.contestants, plan.rounds, &plan.cache, progress)?;
    let program = MeasuringProgram::Stream.build(&plan.cache)?;
    let tasks: Vec<Task<'_>> = wires
        .iter()
        .map(|(mtu, launcher)| {
            // As many windows as the program makes at least.
            let args = vec![1, plan.window, plan.len];
            Task::of_two(format!("MTU {mtu}"), *launcher, &program, args, RUN_TIME_MAX)
        })
        .collect();
    let ways = [Ways::One, Ways::Both];
    let mut grid = Grid::new(2 * wires.len(), turns.runners.len());
    turns.run(&tasks, progress, &mut |task, runner, text| {
        let found = bandwidth::parse(text)?;
        for (place, ways) in ways.into_iter().enumerate() {
            let Some(samples) = found.get(&(plan.len, ways)) else { continue };
            let bytes = (plan.len * plan.window * ways.count()) as f64;
            let median = samples.summary(1.0).map(|s| bytes / s.p50_us);
            grid.at(2 * task + place, runner).push(median.unwrap_or(f64::NAN)).merge(samples);
        }
        Ok(())
    })?;
    let mut outcome = Outcome::new("shaped", TITLE, Facts::gather(facts_of(wires)), plan.rounds);
    for (number, (mtu, _)) in wires.iter().enumerate() {
        for (place, ways) in ways.into_iter().enumerate() {
            let one = ceiling_megabytes_per_s(plan.bits_per_s, *mtu);
            let value = one * ways.count() as f64;
            let name = format!("MTU {mtu}, {}", in_words(ways));
            let mut case = Case::new(&name, "goodput", "MB/s", Better::More);
            case.limit = Some(Limit { name: "ceiling".to_owned(), value });
            grid.fill(2 * number + place, &turns, &tasks[number].name, &mut case);
            outcome.figures.push(Figure::ratio(
                &format!("ports shaped to {}, {name}", rate_in_words(plan.bits_per_s)),
                Wanted::AtLeast(0.97),
                case.ratio_to_limit(),
                format!("of the ceiling of {value:.1} MB/s that the headers leave"),
            ));
            outcome.cases.push(case);
        }
    }
    outcome.absent = turns.missing;
    outcome.notes.push(format!(
        "ceiling: of a frame of MTU + {ETHERNET_LEN} bytes, as the shaper counts, the headers of \
         Wiglaf's bulk datagrams leave MTU - {HEADERS_LEN}; those of TCP are 40 bytes shorter"
    ));
    Ok(outcome)
}

/// What is the same of all wires, and both of what is not.
fn facts_of(wires: &[(u32, &dyn Launcher)]) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in wires.iter().flat_map(|(_, launcher)| launcher.facts()) {
        let known = all.entry(name).or_insert_with(|| value.clone());
        if *known != value {
            known.push_str(" and ");
            known.push_str(&value);
        }
    }
    all
}

fn in_words(ways: Ways) -> &'static str {
    match ways {
        Ways::One => "one way",
        Ways::Both => "both ways",
    }
}

/// A rate as people say it.
pub(crate) fn rate_in_words(bits_per_s: u64) -> String {
    match bits_per_s {
        b if b >= 1_000_000_000 => format!("{} Gbit/s", b as f64 / 1e9),
        b => format!("{} Mbit/s", b as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_is_what_the_headers_leave() {
        let at = |mtu| (ceiling_megabytes_per_s(1_000_000_000, mtu) * 10.0).round() / 10.0;
        assert_eq!((at(1500), at(9000)), (116.2, 123.5));
        assert_eq!(ceiling_megabytes_per_s(1_000_000_000, 50), 0.0);
        assert_eq!(rate_in_words(2_500_000_000), "2.5 Gbit/s");
        assert_eq!(rate_in_words(100_000_000), "100 Mbit/s");
    }
}
