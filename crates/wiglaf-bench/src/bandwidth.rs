//! Streams: windows of messages one way and both ways at once, Wiglaf beside
//! its rivals. The rate of short messages is the stream of 8 bytes.
//!
//! Every round has the same weight, as in the ping-pong: percentiles are medians of the rounds'
//! percentiles, ratios medians of the rounds' ratios.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Progress;
use crate::compile::MeasuringProgram;
use crate::contender::{Absent, CONTENDERS};
use crate::course::{Admitted, Course, whole_ms};
use crate::error::{BenchError, Result};
use crate::facts::Facts;
use crate::interleave;
use crate::launch::{Launcher, Settings, Transport};
use crate::stats::{Samples, Summary, ratio_of_rounds};

/// Names the layout of the result, for those who read it later.
pub const SCHEMA: &str = "wiglaf-bench/bandwidth/2";

/// A fact of the nodes: "off" where their interfaces send and receive single frames.
pub const OFFLOADS: &str = "offloads";

const RUN_TIME_MAX: Duration = Duration::from_secs(180);

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds; each contender runs once in each.
    pub rounds: usize,
    /// Message lengths in bytes.
    pub lens: Vec<u64>,
    /// Messages that are under way at once in each direction.
    pub window: u64,
    /// Time for each length and way in each run.
    pub budget: Duration,
    /// Who takes part.
    pub contenders: Vec<Transport>,
    /// Where the measuring program is built and kept.
    pub cache: PathBuf,
}

impl Plan {
    /// Everybody, windows of 64 messages of 8 B to 4 MiB, five rounds.
    pub fn new(cache: PathBuf) -> Self {
        let lens = [8, 64, 512, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22];
        Self {
            rounds: 5,
            lens: lens.to_vec(),
            window: 64,
            budget: Duration::from_millis(60),
            contenders: CONTENDERS.to_vec(),
            cache,
        }
    }
}

/// In which directions messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ways {
    /// From the first rank to the second.
    One,
    /// Both at once; rates count the bytes of both.
    Both,
}

impl Ways {
    /// How many.
    pub fn count(self) -> u64 {
        match self {
            Self::One => 1,
            Self::Both => 2,
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
    /// Rounds that every contender ran.
    pub rounds: usize,
    /// Milliseconds for each length and way in each run.
    pub budget_ms: u64,
    /// Messages under way at once in each direction.
    pub window: u64,
    /// Who took part, and how they did.
    pub contenders: Vec<Contender>,
    /// Who did not, and why.
    pub absent: Vec<Absent>,
    /// Wiglaf against the best rival; empty without Wiglaf or without rivals.
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
    /// One entry for each length and way.
    pub points: Vec<Point>,
}

/// One length and way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Bytes a message.
    pub len: u64,
    /// One way or both.
    pub ways: Ways,
    /// Time of a window: medians of the rounds, see [`Summary::of_rounds`].
    pub window_time: Summary,
    /// Bytes of a window, both directions counted, by its median time, in
    /// 10^6 bytes a second.
    pub megabytes_per_s: f64,
    /// Messages of a window, both directions counted, by its median time.
    pub messages_per_s: f64,
    /// The bandwidth of each round by itself: how far they are apart is how
    /// far to trust them.
    pub round_megabytes_per_s: Vec<f64>,
    /// The median time of each round's windows by itself.
    pub round_p50_us: Vec<f64>,
    /// The p99 of each round's windows by itself; empty where a round had too few for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub round_p99_us: Vec<f64>,
}

/// Wiglaf against the best rival at one length and way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Bytes a message.
    pub len: u64,
    /// One way or both.
    pub ways: Ways,
    /// The rival that did best in the rounds, see [`best_rival`].
    pub best_rival: Transport,
    /// Wiglaf's rate by that rival's in the same round, the median of the rounds: above one, Wiglaf is
    /// faster.
    pub rate_ratio: f64,
    /// Wiglaf's rate by that rival's in the windows that only one in a hundred is slower than, the median of the
    /// rounds; nothing where a round had too few windows for that.
    pub p99_rate_ratio: Option<f64>,
}

/// Runs the plan.
///
/// # Errors
/// When nobody can take part, or a contender that passed its first run fails
/// later.
pub fn measure(launcher: &dyn Launcher, plan: &Plan, progress: Progress<'_>) -> Result<Report> {
    let program = MeasuringProgram::Stream.build(&plan.cache)?;
    let course = Course { launcher, program, cores: &[], dir: &plan.cache };
    let (admitted, absent) = course.admit(&plan.contenders, &[5, 4, 8], progress)?;
    let mut entries: Vec<_> = admitted.into_iter().map(Entry::new).collect();
    let mut args = vec![whole_ms(plan.budget), plan.window];
    args.extend(&plan.lens);
    for (round, turns) in interleave::rounds(entries.len(), plan.rounds).iter().enumerate() {
        for &turn in turns {
            let entry = &mut entries[turn];
            let label = entry.who.transport.label();
            progress(&format!("round {} of {}: {label}", round + 1, plan.rounds));
            let (transport, settings) = (entry.who.transport, &entry.who.settings);
            let output = course.run(transport, settings, &args, RUN_TIME_MAX)?;
            let samples = parse(&String::from_utf8_lossy(&output.stdout))?;
            if samples.len() != 2 * plan.lens.len() {
                return Err(bad_output(format!("{} results only", samples.len())));
            }
            entry.take(samples);
        }
    }
    let contenders: Vec<_> = entries.into_iter().map(|e| e.finish(plan.window)).collect();
    Ok(Report {
        schema: SCHEMA.to_owned(),
        facts: Facts::gather(launcher.facts()),
        rounds: plan.rounds,
        budget_ms: whole_ms(plan.budget),
        window: plan.window,
        comparison: compare(&contenders),
        contenders,
        absent,
    })
}

/// A contender while it is being measured.
struct Entry {
    who: Admitted,
    found: BTreeMap<(u64, Ways), Vec<Summary>>,
}

impl Entry {
    fn new(who: Admitted) -> Self {
        Self { who, found: BTreeMap::new() }
    }

    fn take(&mut self, run: BTreeMap<(u64, Ways), Samples>) {
        for (place, samples) in run {
            self.found.entry(place).or_default().extend(samples.summary(1.0));
        }
    }

    fn finish(self, window: u64) -> Contender {
        let Admitted { transport, settings, evidence } = self.who;
        let points = self.found.into_iter().filter_map(|((len, ways), rounds)| {
            let window_time = Summary::of_rounds(&rounds)?;
            let messages = (window * ways.count()) as f64;
            let rate = |round: &Summary| messages * len as f64 / round.p50_us;
            let round_p99_us: Option<Vec<f64>> = rounds.iter().map(|round| round.p99_us).collect();
            Some(Point {
                len,
                ways,
                window_time,
                megabytes_per_s: messages * len as f64 / window_time.p50_us,
                messages_per_s: messages * 1e6 / window_time.p50_us,
                round_megabytes_per_s: rounds.iter().map(rate).collect(),
                round_p50_us: rounds.iter().map(|round| round.p50_us).collect(),
                round_p99_us: round_p99_us.unwrap_or_default(),
            })
        });
        Contender {
            transport,
            label: transport.label().to_owned(),
            settings,
            evidence,
            points: points.collect(),
        }
    }
}

impl Report {
    /// Whether nodes sent and received single frames.
    pub fn is_of_single_frames(&self) -> bool {
        self.facts.nodes.get(OFFLOADS).is_some_and(|offloads| offloads == "off")
    }
}

impl Contender {
    /// What it did at one length and way.
    pub fn at(&self, len: u64, ways: Ways) -> Option<&Point> {
        self.points.iter().find(|p| p.len == len && p.ways == ways)
    }
}

/// The rival by which Wiglaf looks worst, and what it did: that of the smallest median of the rounds'
/// ratios of rates, as in the ping-pong. Without Wiglaf it is the rival with the smallest median.
pub fn best_rival(contenders: &[Contender], len: u64, ways: Ways) -> Option<(Transport, &Point)> {
    let ours = contenders.iter().find(|c| c.transport == Transport::Wiglaf);
    let ours = ours.and_then(|c| c.at(len, ways));
    let rivals = contenders.iter().filter(|c| c.transport != Transport::Wiglaf);
    let points = rivals.filter_map(|c| Some((c.transport, c.at(len, ways)?)));
    let rank = |point: &Point| match ours {
        Some(ours) => ratio_of_rounds(&point.round_p50_us, &ours.round_p50_us),
        None => Some(point.window_time.p50_us),
    };
    let ranked = points.filter_map(|(who, point)| Some((rank(point)?, (who, point))));
    Some(ranked.min_by(|a, b| a.0.total_cmp(&b.0))?.1)
}

/// Wiglaf's points against the best rival's of each length and way.
pub fn compare(contenders: &[Contender]) -> Vec<Comparison> {
    let Some(ours) = contenders.iter().find(|c| c.transport == Transport::Wiglaf) else {
        return Vec::new();
    };
    let compared = ours.points.iter().filter_map(|point| {
        let (best_rival, theirs) = best_rival(contenders, point.len, point.ways)?;
        Some(Comparison {
            len: point.len,
            ways: point.ways,
            best_rival,
            rate_ratio: ratio_of_rounds(&theirs.round_p50_us, &point.round_p50_us)?,
            p99_rate_ratio: ratio_of_rounds(&theirs.round_p99_us, &point.round_p99_us),
        })
    });
    compared.collect()
}

#[derive(Deserialize)]
struct Line {
    len: u64,
    ways: u64,
    window_ns: Vec<(u64, u64)>,
}

fn bad_output(detail: String) -> BenchError {
    BenchError::Output { what: "the stream program".into(), detail }
}

/// Reads the program's output; lines that others print are skipped.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<(u64, Ways), Samples>> {
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let line: Line = serde_json::from_str(line).map_err(|e| bad_output(e.to_string()))?;
        let ways = match line.ways {
            1 => Ways::One,
            2 => Ways::Both,
            other => return Err(bad_output(format!("messages go {other} ways"))),
        };
        let samples = Samples::from_pairs(line.window_ns);
        if samples.count() == 0 {
            return Err(bad_output(format!("no samples for {} bytes", line.len)));
        }
        found.insert((line.len, ways), samples);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(transport: Transport, window_us: u64) -> Entry {
        let settings = Settings::new();
        let mut entry = Entry::new(Admitted { transport, settings, evidence: None });
        for ways in [Ways::One, Ways::Both] {
            let samples = Samples::from_pairs([(window_us * 1000, 196), (window_us * 9000, 4)]);
            entry.take(BTreeMap::from([((1000, ways), samples)]));
        }
        entry
    }

    #[test]
    fn both_ways_count_twice() {
        let done = entry(Transport::Tcp, 640).finish(64);
        let one = done.at(1000, Ways::One).unwrap();
        assert_eq!((one.megabytes_per_s, one.messages_per_s), (100.0, 100_000.0));
        let both = done.at(1000, Ways::Both).unwrap();
        assert_eq!((both.megabytes_per_s, both.messages_per_s), (200.0, 200_000.0));
        assert_eq!(both.round_megabytes_per_s, [200.0]);
    }

    #[test]
    fn rates_are_compared_with_the_best() {
        let all = [(Transport::Wiglaf, 100), (Transport::Tcp, 250), (Transport::Ucx, 150)]
            .map(|(transport, us)| entry(transport, us).finish(64));
        let found = compare(&all);
        assert_eq!((found.len(), found[0].best_rival), (2, Transport::Ucx));
        assert_eq!((found[0].rate_ratio, found[0].p99_rate_ratio), (1.5, Some(1.5)));
        assert!(compare(&all[1..]).is_empty() && compare(&all[..1]).is_empty());
    }

    #[test]
    fn rounds_have_the_same_weight_and_are_compared_one_by_one() {
        let of = |transport, rounds: [(u64, u64); 3]| {
            let (settings, evidence) = (Settings::new(), None);
            let mut entry = Entry::new(Admitted { transport, settings, evidence });
            for round in rounds {
                let samples = Samples::from_pairs([round]);
                entry.take(BTreeMap::from([((1000, Ways::One), samples)]));
            }
            entry.finish(64)
        };
        let ours = of(Transport::Wiglaf, [(2000, 900), (10_000, 300), (12_000, 200)]);
        let theirs = of(Transport::Tcp, [(4000, 900), (10_000, 300), (24_000, 200)]);
        assert_eq!(ours.points[0].window_time.p50_us, 10.0);
        assert_eq!(ours.points[0].megabytes_per_s, 6400.0);
        let found = &compare(&[ours, theirs])[0];
        assert_eq!((found.rate_ratio, found.p99_rate_ratio), (2.0, Some(2.0)));
        let few = of(Transport::Tcp, [(4000, 900), (10_000, 60), (24_000, 200)]);
        let ours = of(Transport::Wiglaf, [(2000, 900), (10_000, 300), (12_000, 200)]);
        assert_eq!(compare(&[ours, few])[0].p99_rate_ratio, None);
    }

    #[test]
    fn the_rival_is_the_one_that_does_best_in_the_same_rounds() {
        let of = |transport, rounds: [u64; 3]| {
            let (settings, evidence) = (Settings::new(), None);
            let mut entry = Entry::new(Admitted { transport, settings, evidence });
            for ns in rounds {
                let samples = Samples::from_pairs([(ns, 300)]);
                entry.take(BTreeMap::from([((1000, Ways::One), samples)]));
            }
            entry.finish(64)
        };
        let ours = of(Transport::Wiglaf, [2000, 2000, 6000]);
        let by_median = of(Transport::Tcp, [4000, 4000, 3000]);
        let in_rounds = of(Transport::Ucx, [1000, 9000, 6000]);
        let all = [ours, by_median, in_rounds];
        assert_eq!(compare(&all)[0].best_rival, Transport::Ucx);
        assert_eq!(compare(&all)[0].rate_ratio, 1.0);
        assert_eq!(best_rival(&all[1..], 1000, Ways::One).unwrap().0, Transport::Tcp);
    }

    #[test]
    fn output_is_read_and_garbage_refused() {
        let text = "a banner\n{\"len\":8,\"ways\":2,\"window_ns\":[[6000,2],[7000,1]]}\n";
        let found = parse(text).unwrap();
        assert_eq!(found[&(8, Ways::Both)], Samples::from_pairs([(6000, 2), (7000, 1)]));
        for bad in ["{\"len\":8}", "{\"len\":8,\"ways\":1,\"window_ns\":[]}"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse("{\"len\":8,\"ways\":3,\"window_ns\":[[1,1]]}").is_err());
    }
}
