//! A wire that loses one frame in a hundred in either direction: what is left
//! of the goodput, and how soon a message is sent again whose last packet was
//! lost.
//!
//! The second is measured with messages of one packet, each of which is the
//! last of its message: no later one tells the receiver that something is
//! missing. With a share p lost each way, 1 - (1 - p)^2 of the round trips are
//! struck. They are the longest, so their median is a percentile of all.

use std::path::PathBuf;
use std::time::Duration;

use crate::Progress;
use crate::bandwidth::{self, Ways};
use crate::compile::MeasuringProgram;
use crate::contender::CONTENDERS;
use crate::error::Result;
use crate::facts::Facts;
use crate::grid::Grid;
use crate::launch::{Launcher, Transport};
use crate::outcome::{Better, Case, Entry, Figure, Outcome, Wanted};
use crate::stats::Samples;
use crate::turns::{Around, Contestant, Task, Turns, results};

/// Who needs longer under loss has collapsed.
const RUN_TIME_MAX: Duration = Duration::from_secs(60);
/// Bytes of a message of one packet.
const SHORT_LEN: u64 = 8;
/// Recovery is wanted within so many smoothed round trips ...
const ROUND_TRIPS: f64 = 3.0;
/// ... or within this, whichever is more.
const RECOVERY_US: f64 = 200.0;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds; each contender runs once in each.
    pub rounds: usize,
    /// Bytes of a long message.
    pub len: u64,
    /// Long messages that are under way at once.
    pub window: u64,
    /// Share of the frames that is lost each way.
    pub share: f64,
    /// Round trips of a short message in each run.
    pub round_trips: u64,
    /// Who takes part.
    pub contestants: Vec<Contestant>,
    /// Where the measuring programs are built and kept.
    pub cache: PathBuf,
}

impl Plan {
    /// Everybody and `udp;ofi_rxd`, one per cent, ten rounds.
    pub fn new(cache: PathBuf) -> Self {
        let all = CONTENDERS.into_iter().chain([Transport::OfiRxd]);
        Self {
            rounds: 10,
            len: 256 << 10,
            window: 32,
            share: 0.01,
            round_trips: 2000,
            contestants: all.map(Contestant::from).collect(),
            cache,
        }
    }
}

const SOUND: &str = "sound wire";
const LOSSY: &str = "lossy wire";
const SOUND_SHORT: &str = "short messages, sound wire";
const LOSSY_SHORT: &str = "short messages, lossy wire";
const RECOVERY: &str = "recovery of a lost last packet";
const RECOVERY_P90: &str = "recovery of a lost last packet, 9th decile";
/// Of fewer struck round trips the 9th decile is the longest or none.
const STRUCK_MIN: f64 = 10.0;

/// Runs the plan; `lose` makes the wire lossy for as long as its guard lives.
///
/// # Errors
/// When nobody can take part, or the wire cannot be made lossy.
pub fn measure(
    launcher: &dyn Launcher,
    lose: Around<'_>,
    plan: &Plan,
    progress: Progress<'_>,
) -> Result<Outcome> {
    let mut turns = Turns::gather(launcher, &plan.contestants, plan.rounds, &plan.cache, progress)?;
    let stream = MeasuringProgram::Stream.build(&plan.cache)?;
    let echo = MeasuringProgram::Echo.build(&plan.cache)?;
    let windows = || vec![1, plan.window, plan.len];
    let trips = || vec![SHORT_LEN, plan.round_trips, 0];
    let task = |name: &str, program, args| {
        Task::of_two(name.to_owned(), launcher, program, args, RUN_TIME_MAX)
    };
    let tasks = [
        task(SOUND, &stream, windows()),
        Task { around: Some(lose), ..task(LOSSY, &stream, windows()) },
        task(SOUND_SHORT, &echo, trips()),
        Task { around: Some(lose), ..task(LOSSY_SHORT, &echo, trips()) },
    ];
    let mut grid = Grid::new(tasks.len(), turns.runners.len());
    turns.run(&tasks, progress, &mut |task, runner, text| {
        if task < 2 {
            let found = bandwidth::parse(text)?;
            let Some(samples) = found.get(&(plan.len, Ways::One)) else { return Ok(()) };
            let bytes = (plan.len * plan.window) as f64;
            // The mean: a collapse now and then is what loss does to some.
            let mean = samples.summary(1.0).map(|s| bytes / s.mean_us);
            grid.at(task, runner).push(mean.unwrap_or(f64::NAN)).merge(samples);
        } else {
            let line: Line = results("the echo program", text)?.remove(0);
            let samples = Samples::from_pairs(line.round_trip_ns);
            let p50 = samples.summary(1.0).map(|s| s.p50_us);
            grid.at(task, runner).push(p50.unwrap_or(f64::NAN)).merge(&samples);
        }
        Ok(())
    })?;
    let mut cases = [
        Case::new(SOUND, "goodput", "MB/s", Better::More),
        Case::new(LOSSY, "goodput", "MB/s", Better::More),
        Case::new(SOUND_SHORT, "round trip", "us", Better::Less),
        Case::new(LOSSY_SHORT, "round trip", "us", Better::Less),
    ];
    for (number, case) in cases.iter_mut().enumerate() {
        grid.fill(number, &turns, &tasks[number].name, case);
    }
    let mut recovery = [RECOVERY, RECOVERY_P90]
        .map(|name| Case::new(name, "time beyond a round trip", "us", Better::Less));
    for runner in 0..turns.runners.len() {
        let who = &turns.runners[runner].contestant.label;
        if let (Some(sound), Some(entry)) = (cases[2].who(who), cases[3].who(who)) {
            let trips = grid.at(3, runner).samples();
            let at = |quantile| recovered(entry, sound.value, trips, plan.share, quantile);
            recovery[0].entries.extend(at(0.5));
            recovery[1].entries.extend(at(0.9));
        }
    }
    let mut outcome = Outcome::new(
        "loss",
        "A wire that loses frames in both directions",
        Facts::gather(launcher.facts()),
        plan.rounds,
    );
    outcome.figures = figures(&cases, &recovery[1], plan.share);
    outcome.cases = cases.into_iter().chain(recovery).collect();
    outcome.absent = turns.missing;
    outcome.notes.push(format!(
        "lossy: each frame for either node is lost with probability {} %; a train that crosses \
         whole (GSO, TSO) is one frame",
        in_percent(plan.share)
    ));
    outcome.notes.push(format!(
        "recovery: the median and the 9th decile of the round trips that a loss struck, without \
         the median of {SOUND_SHORT}; the figure is judged by the 9th decile"
    ));
    Ok(outcome)
}

#[derive(serde::Deserialize)]
struct Line {
    round_trip_ns: Vec<(u64, u64)>,
}

/// The entry of the lossy round trips as one of recovery times: a quantile of those that a loss
/// struck, in microseconds beyond a sound round trip. Nothing where too few were struck for it.
fn recovered(
    lossy: &Entry,
    sound_us: f64,
    samples: &Samples,
    share: f64,
    quantile: f64,
) -> Option<Entry> {
    let struck = 1.0 - (1.0 - share).powi(2);
    if quantile > 0.5 && samples.count() as f64 * struck < STRUCK_MIN {
        return None;
    }
    let ns = samples.quantile_ns(1.0 - struck * (1.0 - quantile))?;
    let mut entry = lossy.clone();
    entry.value = ns as f64 / 1000.0 - sound_us;
    entry.rounds = Vec::new();
    entry.times = None;
    entry.counters = [("round_trip_us".to_owned(), sound_us)].into();
    Some(entry)
}

/// Without the tail of a share that is kept in 32 bits.
fn in_percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

fn figures(cases: &[Case; 4], recovery_p90: &Case, share: f64) -> Vec<Figure> {
    let [sound, lossy, ..] = cases;
    let percent = in_percent(share);
    let kept = lossy.ours().zip(sound.ours()).map(|(lossy, sound)| lossy.value / sound.value);
    let rxd = Transport::OfiRxd.label();
    let against = lossy.ours().zip(lossy.who(rxd)).map(|(ours, rxd)| ours.value / rxd.value);
    let limit = |entry: &Entry| {
        let round_trip = entry.counters.get("round_trip_us").copied().unwrap_or(0.0);
        (ROUND_TRIPS * round_trip).max(RECOVERY_US)
    };
    let ours = recovery_p90.ours();
    let least = |name: String, wanted, reached, detail: &str| {
        Figure::ratio(&name, Wanted::AtLeast(wanted), reached, detail.to_owned())
    };
    vec![
        least(format!("{percent} % loss both ways, goodput"), 0.9, kept, "of loss-free"),
        least(
            format!("{percent} % loss both ways, goodput against udp;ofi_rxd"),
            10.0,
            against,
            "of libfabric's reliable datagrams under the same loss",
        ),
        Figure {
            name: "last packet of a message lost, recovery".to_owned(),
            wanted: Wanted::AtMost(ours.map_or(RECOVERY_US, limit)),
            unit: "us".to_owned(),
            reached: ours.map(|entry| entry.value),
            is_below: false,
            detail: "9th decile of those that a loss struck; the limit is max(3 x smoothed round trip, 200 us)".to_owned(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_32_bits_is_a_round_percentage() {
        let share = (0.01f64 * 4_294_967_296.0).round() / 4_294_967_296.0;
        assert_eq!(format!("{} %", in_percent(share)), "1 %");
        assert_eq!(in_percent(0.001), 0.1);
    }

    fn entry(value: f64) -> Entry {
        Entry::of_rounds(Transport::Wiglaf.label(), Some(Transport::Wiglaf), vec![value])
    }

    /// Two of a hundred are struck: most recover soon, every fifth of them late.
    #[test]
    fn a_late_recovery_is_not_hidden_by_the_soon_ones() {
        let trips = Samples::from_pairs([(10_000, 9801), (110_000, 160), (900_000, 39)]);
        let at = |quantile| recovered(&entry(10.0), 10.0, &trips, 0.01, quantile).unwrap().value;
        assert_eq!((at(0.5), at(0.9)), (100.0, 890.0));
        let case = |name: &str, value: f64| {
            let mut case = Case::new(name, "a time", "us", Better::Less);
            case.entries.push(entry(value));
            case
        };
        let cases = [SOUND, LOSSY, SOUND_SHORT, LOSSY_SHORT].map(|name| case(name, 10.0));
        let mut recovery = case(RECOVERY_P90, 0.0);
        recovery.entries = recovered(&entry(10.0), 10.0, &trips, 0.01, 0.9).into_iter().collect();
        let figure = &figures(&cases, &recovery, 0.01)[2];
        assert_eq!((figure.reached, figure.is_met()), (Some(890.0), Some(false)));
    }

    #[test]
    fn few_struck_trips_have_no_decile() {
        let trips = Samples::from_pairs([(10_000, 299), (900_000, 1)]);
        assert!(recovered(&entry(10.0), 10.0, &trips, 0.01, 0.9).is_none());
        assert!(recovered(&entry(10.0), 10.0, &trips, 0.01, 0.5).is_some());
    }
}
