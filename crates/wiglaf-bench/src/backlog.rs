//! What a receiver finds that was away while others sent: thousands of messages that nobody has asked
//! for, or thousands of receives, and a way to it that was full.

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
use crate::stats::{Samples, median, ratio_of_rounds};

/// Names the layout of the result.
pub const SCHEMA: &str = "wiglaf-bench/backlog/1";

/// A run takes a second or two.
const RUN_TIME_MAX: Duration = Duration::from_secs(30);

/// In which order messages are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// All have one tag.
    OneTag,
    /// Each has its own; the last that was sent is asked for first.
    Reversed,
    /// Each has its own; the last that is sent is asked for first, and all are asked for before anybody sends.
    ReversedAhead,
}

impl Order {
    /// In words.
    pub fn label(self) -> &'static str {
        match self {
            Self::OneTag => "as they come",
            Self::Reversed => "last first",
            Self::ReversedAhead => "last first, ahead",
        }
    }

    /// For the measuring program.
    fn number(self) -> u8 {
        match self {
            Self::OneTag => 0,
            Self::Reversed => 1,
            Self::ReversedAhead => 2,
        }
    }
}

/// What everybody sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Messages of each sender.
    pub count: u32,
    /// Bytes of each, at least 8.
    pub len: u64,
    /// In which order they are received.
    pub order: Order,
}

impl std::str::FromStr for Load {
    type Err = String;

    /// Such as `16000x1024`, `4000x8:last-first` or `4000x8:last-first-ahead`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (numbers, order) = text.split_once(':').unwrap_or((text, "as-they-come"));
        let order = match order {
            "as-they-come" => Order::OneTag,
            "last-first" => Order::Reversed,
            "last-first-ahead" => Order::ReversedAhead,
            _ => return Err("an order is as-they-come, last-first or last-first-ahead".to_owned()),
        };
        let (count, len) = numbers
            .split_once('x')
            .and_then(|(count, len)| Some((count.parse().ok()?, len.parse().ok()?)))
            .ok_or("say how many messages and their length in bytes, such as 16000x1024")?;
        match (count, len) {
            (1..=100_000, 8..=1_048_576) => Ok(load(count, len, order)),
            _ => Err("a load is 1 to 100000 messages of 8 to 1048576 bytes".to_owned()),
        }
    }
}

const fn load(count: u32, len: u64, order: Order) -> Load {
    Load { count, len, order }
}

/// What is measured unless said otherwise.
pub const LOADS: [Load; 6] = [
    load(100, 8, Order::OneTag),
    load(1000, 8, Order::OneTag),
    load(4000, 8, Order::OneTag),
    load(1000, 1024, Order::OneTag),
    load(4000, 8, Order::Reversed),
    load(4000, 8, Order::ReversedAhead),
];

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds; each contender runs each load once in each.
    pub rounds: usize,
    /// How often the receiver is away in a run.
    pub times: u32,
    /// Ranks: a receiver and its senders.
    pub ranks: usize,
    /// For how long it is away.
    pub away: Duration,
    /// What is sent.
    pub loads: Vec<Load>,
    /// Who takes part.
    pub contenders: Vec<Transport>,
    /// Where the measuring program is built and kept.
    pub cache: PathBuf,
}

impl Plan {
    /// Everybody, [`LOADS`], away for 20 ms.
    pub fn new(ranks: usize, cache: PathBuf) -> Self {
        Self {
            rounds: 5,
            times: 15,
            ranks,
            away: Duration::from_millis(20),
            loads: LOADS.to_vec(),
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
    /// Ranks.
    pub ranks: usize,
    /// Nodes they were spread over.
    pub nodes: usize,
    /// For how long the receiver was away, in milliseconds.
    pub away_ms: u64,
    /// How often in each round.
    pub times: u32,
    /// By load.
    pub loads: Vec<Measured>,
    /// Who took part, and with what settings.
    pub contenders: Vec<Contender>,
    /// Who did not, and why.
    pub absent: Vec<Absent>,
}

/// Who took part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// Who.
    pub transport: Transport,
    /// In words.
    pub label: String,
    /// All that set it apart from the others.
    pub settings: Settings,
}

/// What became of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Which.
    pub load: Load,
    /// By contender, in their order.
    pub until_all: Vec<UntilAll>,
}

/// How long a contender took until all was there, from when the receiver was back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UntilAll {
    /// Who.
    pub transport: Transport,
    /// Median of each round, in microseconds.
    pub round_p50_us: Vec<f64>,
    /// The longest of all, in microseconds.
    pub max_us: f64,
}

impl UntilAll {
    /// The median over the rounds, in microseconds.
    pub fn p50_us(&self) -> f64 {
        median(&self.round_p50_us).unwrap_or(f64::NAN)
    }
}

impl Measured {
    /// What a contender did.
    pub fn of(&self, transport: Transport) -> Option<&UntilAll> {
        self.until_all.iter().find(|u| u.transport == transport)
    }

    /// The rival by which Wiglaf looks worst: the greatest median of the rounds' ratios of times, and
    /// that ratio.
    pub fn against_best(&self) -> Option<(Transport, f64)> {
        let ours = self.of(Transport::Wiglaf)?;
        let rivals = self.until_all.iter().filter(|u| u.transport != Transport::Wiglaf);
        let ratio = |rival: &UntilAll| {
            Some((rival.transport, ratio_of_rounds(&ours.round_p50_us, &rival.round_p50_us)?))
        };
        rivals.filter_map(ratio).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

#[derive(Deserialize)]
struct Line {
    ns: Vec<(u64, u64)>,
}

/// Runs the plan.
///
/// # Errors
/// When nobody can take part. A contender of which a run fails is struck off and reported as absent.
pub fn measure(launcher: &dyn Launcher, plan: &Plan, progress: Progress<'_>) -> Result<Report> {
    let program = MeasuringProgram::Backlog.build(&plan.cache)?;
    let (ranks, dir, time_max) = (plan.ranks, plan.cache.as_path(), RUN_TIME_MAX);
    let work = Work { launcher, ranks, program: &program, dir, time_max };
    let mut field = Field::gather(launcher, &plan.contenders);
    let mut loads: Vec<Measured> =
        plan.loads.iter().map(|load| Measured { load: *load, until_all: Vec::new() }).collect();
    field.run(plan.rounds, progress, &mut |_, transport, settings| {
        loads.iter_mut().try_for_each(|measured| {
            let args = arguments(plan, &measured.load);
            let samples = samples_of(&work.run(transport, settings, &args)?)?;
            measured.take(transport, &samples);
            Ok(())
        })
    });
    for measured in &mut loads {
        measured.until_all.retain(|u| field.has(u.transport));
    }
    let stayed = field.entrants.iter().filter(|(transport, _)| field.has(*transport));
    let contenders: Vec<_> = stayed
        .map(|(transport, settings)| Contender {
            transport: *transport,
            label: transport.label().to_owned(),
            settings: settings.clone(),
        })
        .collect();
    let absent = field.absent;
    if contenders.is_empty() {
        return Err(nobody(&absent));
    }
    Ok(Report {
        schema: SCHEMA.to_owned(),
        facts: Facts::gather(launcher.facts()),
        ranks: plan.ranks,
        nodes: work.nodes(),
        away_ms: plan.away.as_millis() as u64,
        times: plan.times,
        loads,
        contenders,
        absent,
    })
}

fn arguments(plan: &Plan, load: &Load) -> Vec<OsString> {
    let away_ms = plan.away.as_millis().to_string();
    let numbers = [
        plan.times.to_string(),
        away_ms,
        load.count.to_string(),
        load.len.to_string(),
        load.order.number().to_string(),
    ];
    numbers.into_iter().map(OsString::from).collect()
}

fn samples_of(stdout: &str) -> Result<Samples> {
    let bad = |detail: String| BenchError::Output { what: "the backlog program".into(), detail };
    let line = stdout.lines().find(|line| line.starts_with('{'));
    let line = line.ok_or_else(|| bad("no result line".into()))?;
    let line: Line = serde_json::from_str(line).map_err(|e| bad(e.to_string()))?;
    let samples = Samples::from_pairs(line.ns);
    if samples.count() == 0 { Err(bad("no times".into())) } else { Ok(samples) }
}

impl Measured {
    fn take(&mut self, transport: Transport, samples: &Samples) {
        let us = |share| samples.quantile_ns(share).unwrap_or(0) as f64 / 1000.0;
        let at = self.until_all.iter().position(|u| u.transport == transport);
        let at = at.unwrap_or_else(|| {
            let until_all = UntilAll { transport, round_p50_us: Vec::new(), max_us: 0.0 };
            self.until_all.push(until_all);
            self.until_all.len() - 1
        });
        let until_all = &mut self.until_all[at];
        until_all.round_p50_us.push(us(0.5));
        until_all.max_us = until_all.max_us.max(us(1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rival_by_which_it_looks_worst_is_that_of_the_same_rounds() {
        let mut measured = Measured { load: LOADS[0], until_all: Vec::new() };
        let one = |ns: u64| Samples::from_pairs([(ns, 1)]);
        for (transport, rounds) in [
            (Transport::Wiglaf, [1000, 5000, 3000]),
            (Transport::Tcp, [2000, 2000, 4000]),
            (Transport::Ucx, [2000, 10_000, 4000]),
        ] {
            rounds.iter().for_each(|ns| measured.take(transport, &one(*ns)));
        }
        // The rounds' ratios are 0.5, 2.5, 0.75 and 0.5, 0.5, 0.75.
        assert_eq!(measured.against_best(), Some((Transport::Tcp, 0.75)));
        let ours = measured.of(Transport::Wiglaf).unwrap();
        assert_eq!((ours.p50_us(), ours.max_us), (3.0, 5.0));
    }

    #[test]
    fn loads_are_read_as_they_are_written() {
        assert_eq!("16000x1024".parse(), Ok(load(16_000, 1024, Order::OneTag)));
        assert_eq!("4x8:last-first".parse(), Ok(load(4, 8, Order::Reversed)));
        for text in
            ["", "x", "4x", "4x7", "0x8", "4x8:", "4x8:first", "100001x8", "4x-8", "4x2000000"]
        {
            assert!(text.parse::<Load>().is_err(), "{text}");
        }
    }

    #[test]
    fn garbage_is_an_error() {
        assert_eq!(samples_of("noise\n{\"ns\":[[7,2]]}").unwrap().count(), 2);
        for text in ["", "{\"ns\":[]}", "{\"ns\":7}"] {
            assert!(samples_of(text).is_err(), "{text}");
        }
    }
}
