//! Latency and bandwidth against message size, Wiglaf beside its rivals.
//!
//! Every round has the same weight: a percentile is the median of the rounds' percentiles, a ratio the
//! median of the rounds' ratios. The samples of all rounds together would be mostly those of fast
//! rounds, which have more of them in the same time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Progress;
use crate::active::{self, ActiveMessages, ActiveRounds};
use crate::compile::MeasuringProgram;
use crate::contender::{Absent, CONTENDERS};
use crate::course::{Admitted, Course, whole_ms};
use crate::error::{BenchError, Result};
use crate::facts::Facts;
use crate::floor::{self, Floor};
use crate::interleave;
use crate::launch::{Launcher, Settings, Transport};
use crate::stats::{Samples, Summary, ratio_of_rounds};

/// Names the layout of the result, for those who read it later.
pub const SCHEMA: &str = "wiglaf-bench/pingpong/2";

const RUN_TIME_MAX: Duration = Duration::from_secs(180);

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds; each contender runs once in each.
    pub rounds: usize,
    /// Message lengths in bytes.
    pub lens: Vec<u64>,
    /// Time for each length in each run.
    pub budget: Duration,
    /// Who takes part.
    pub contenders: Vec<Transport>,
    /// Cores for ranks of one node, where nodes do not keep to one core each.
    pub cores: Vec<usize>,
    /// Where the measuring program is built and kept.
    pub cache: PathBuf,
}

impl Plan {
    /// Everybody, every length, five rounds of a few seconds each.
    pub fn new(cache: PathBuf) -> Self {
        Self {
            rounds: 5,
            lens: all_lens(),
            budget: Duration::from_millis(60),
            contenders: CONTENDERS.to_vec(),
            cores: Vec::new(),
            cache,
        }
    }
}

/// Nothing, and 1 B to 4 MiB: powers of two, and one and a half of them from
/// 96 B up, because paths like to switch just above a power of two.
pub fn all_lens() -> Vec<u64> {
    let mut lens = vec![0];
    for power in 0..=22 {
        lens.push(1u64 << power);
        if (6..22).contains(&power) {
            lens.push(3 << (power - 1));
        }
    }
    lens
}

/// What was measured, as it is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Where and with what.
    pub facts: Facts,
    /// Rounds that every contender ran.
    pub rounds: usize,
    /// Milliseconds for each length in each run.
    pub budget_ms: u64,
    /// Who took part, and how they did.
    pub contenders: Vec<Contender>,
    /// Who did not, and why.
    pub absent: Vec<Absent>,
    /// What the bare links do.
    pub floors: Vec<Floor>,
    /// Floors that could not be measured, and why.
    pub floors_absent: Vec<String>,
    /// Wiglaf's active messages beside the bare links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active_messages: Vec<ActiveMessages>,
    /// Wiglaf against the best rival of each length; empty without Wiglaf or
    /// without rivals.
    pub comparison: Vec<Comparison>,
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
    /// What its MPI said it used, in a run of its own.
    pub evidence: Option<String>,
    /// One entry for each length.
    pub points: Vec<Point>,
}

/// One length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Bytes a message.
    pub len: u64,
    /// Half a round trip: medians of the rounds, see [`Summary::of_rounds`].
    pub half_round_trip: Summary,
    /// `len` by the median half round trip, in 10^6 bytes a second.
    pub megabytes_per_s: f64,
    /// The median of each round by itself: how far they are apart is how far
    /// to trust them.
    pub round_p50_us: Vec<f64>,
}

/// Wiglaf against the best rival at one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Bytes a message.
    pub len: u64,
    /// The rival that did best in the rounds, see [`best_rival`].
    pub best_rival: Transport,
    /// Wiglaf's p50 by that rival's in the same round, the median of the rounds: below one, Wiglaf is faster.
    pub time_ratio: f64,
    /// The inverse, which is that of bandwidths.
    pub bandwidth_ratio: f64,
}

/// Runs the plan.
///
/// # Errors
/// When nobody can take part, or a contender that passed its first run fails
/// later.
pub fn measure(launcher: &dyn Launcher, plan: &Plan, progress: Progress<'_>) -> Result<Report> {
    let program = MeasuringProgram::Pingpong.build(&plan.cache)?;
    let course = Course { launcher, program, cores: &plan.cores, dir: &plan.cache };
    let (admitted, absent) = course.admit(&plan.contenders, &[5, 8], progress)?;
    let mut entries: Vec<_> = admitted.into_iter().map(Entry::new).collect();
    let args: Vec<u64> =
        std::iter::once(whole_ms(plan.budget)).chain(plan.lens.iter().copied()).collect();
    let order = interleave::rounds(entries.len(), plan.rounds);
    let mut active = ActiveRounds::default();
    for (round, turns) in order.iter().enumerate() {
        for &turn in turns {
            let entry = &mut entries[turn];
            let label = entry.transport.label();
            progress(&format!("round {} of {}: {label}", round + 1, plan.rounds));
            let output = course.run(entry.transport, &entry.settings, &args, RUN_TIME_MAX)?;
            let samples = parse(&String::from_utf8_lossy(&output.stdout))?;
            if let Some(len) = plan.lens.iter().find(|len| !samples.contains_key(len)) {
                return Err(bad_output(format!("nothing about {len} bytes")));
            }
            entry.take(samples);
        }
        if plan.lens.contains(&active::LEN) {
            active.run(launcher, round, progress);
        }
    }
    let contenders: Vec<_> = entries.into_iter().map(Entry::finish).collect();
    let (floors, mut floors_absent) = measure_floors(launcher, progress);
    floors_absent.append(&mut active.absent);
    Ok(Report {
        schema: SCHEMA.to_owned(),
        facts: Facts::gather(launcher.facts()),
        rounds: plan.rounds,
        budget_ms: whole_ms(plan.budget),
        comparison: compare(&contenders),
        contenders,
        absent,
        floors,
        floors_absent,
        active_messages: active.found,
    })
}

fn measure_floors(launcher: &dyn Launcher, progress: Progress<'_>) -> (Vec<Floor>, Vec<String>) {
    let (mut floors, mut absent) = (Vec::new(), Vec::new());
    for command in launcher.floors() {
        progress(&format!("the floor of link {}", command.link));
        match floor::measure(command, RUN_TIME_MAX, &|| launcher.is_interrupted()) {
            Ok(found) => floors.push(found),
            Err(error) => absent.push(error.to_string()),
        }
    }
    (floors, absent)
}

/// A contender while it is being measured.
struct Entry {
    transport: Transport,
    settings: Settings,
    evidence: Option<String>,
    lens: BTreeMap<u64, Vec<Summary>>,
}

impl Entry {
    fn new(who: Admitted) -> Self {
        let Admitted { transport, settings, evidence } = who;
        Self { transport, settings, evidence, lens: BTreeMap::new() }
    }

    fn take(&mut self, run: BTreeMap<u64, Samples>) {
        for (len, samples) in run {
            self.lens.entry(len).or_default().extend(samples.summary(0.5));
        }
    }

    fn finish(self) -> Contender {
        let points = self.lens.into_iter().filter_map(|(len, rounds)| {
            let half_round_trip = Summary::of_rounds(&rounds)?;
            let round_p50_us = rounds.iter().map(|round| round.p50_us).collect();
            let megabytes_per_s = len as f64 / half_round_trip.p50_us;
            Some(Point { len, half_round_trip, megabytes_per_s, round_p50_us })
        });
        Contender {
            transport: self.transport,
            label: self.transport.label().to_owned(),
            settings: self.settings,
            evidence: self.evidence,
            points: points.collect(),
        }
    }
}

impl Contender {
    /// What it did at one length.
    pub fn at(&self, len: u64) -> Option<&Point> {
        self.points.iter().find(|p| p.len == len)
    }
}

/// The rival by which Wiglaf looks worst, and what it did: that of the greatest median of the rounds'
/// ratios. It need not be that of the smallest median: where rounds have two speeds, chance decides
/// that one. Without Wiglaf it is the rival with the smallest p50.
pub fn best_rival(contenders: &[Contender], len: u64) -> Option<(Transport, &Point)> {
    let ours = contenders.iter().find(|c| c.transport == Transport::Wiglaf);
    let ours = ours.and_then(|c| c.at(len));
    let rivals = contenders.iter().filter(|c| c.transport != Transport::Wiglaf);
    let points = rivals.filter_map(|c| Some((c.transport, c.at(len)?)));
    let rank = |point: &Point| match ours {
        Some(ours) => ratio_of_rounds(&ours.round_p50_us, &point.round_p50_us).map(|r| -r),
        None => Some(point.half_round_trip.p50_us),
    };
    let ranked = points.filter_map(|(who, point)| Some((rank(point)?, (who, point))));
    Some(ranked.min_by(|a, b| a.0.total_cmp(&b.0))?.1)
}

/// Wiglaf's points against the best rival's of each length.
pub fn compare(contenders: &[Contender]) -> Vec<Comparison> {
    let Some(ours) = contenders.iter().find(|c| c.transport == Transport::Wiglaf) else {
        return Vec::new();
    };
    let compared = ours.points.iter().filter_map(|point| {
        let (best_rival, theirs) = best_rival(contenders, point.len)?;
        let time_ratio = ratio_of_rounds(&point.round_p50_us, &theirs.round_p50_us)?;
        Some(Comparison {
            len: point.len,
            best_rival,
            time_ratio,
            bandwidth_ratio: 1.0 / time_ratio,
        })
    });
    compared.collect()
}

#[derive(Deserialize)]
struct Line {
    len: u64,
    round_trip_ns: Vec<(u64, u64)>,
}

fn bad_output(detail: String) -> BenchError {
    BenchError::Output { what: "the ping-pong program".into(), detail }
}

/// Reads the program's output; lines that others print are skipped.
fn parse(text: &str) -> Result<BTreeMap<u64, Samples>> {
    let mut lens = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let line: Line = serde_json::from_str(line).map_err(|e| bad_output(e.to_string()))?;
        let samples = Samples::from_pairs(line.round_trip_ns);
        if samples.count() == 0 {
            return Err(bad_output(format!("no samples for {} bytes", line.len)));
        }
        lens.insert(line.len, samples);
    }
    Ok(lens)
}

#[cfg(test)]
mod tests;
