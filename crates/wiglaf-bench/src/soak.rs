//! Does something grow? Samples of a long run, and two tests: of their slope, and of what the end of
//! the run has more than the beginning of its second half, which a jump or a leak that begins late
//! changes and the slope does not tell.

use serde::{Deserialize, Serialize};

/// Names the layout of the result, for those who read it later.
pub const SCHEMA: &str = "wiglaf-soak/1";
/// Points that the slope is computed from; more are gathered into so many.
const POINTS_MAX: usize = 400;
/// Quantile of the normal distribution that leaves half a percent above.
const Z_99: f64 = 2.576;
/// Fewer samples than this say nothing about a slope.
const POINTS_MIN: usize = 8;
/// So long caches and pools fill, in seconds: memory that grows before says nothing (docs/soak.md), unless it is more
/// than they can hold, in KiB.
const FILLING_S: f64 = 240.0;
const FILLED_KIB_MAX: f64 = 16_384.0;
/// Begin and end are a tenth of the points each, and no less than this: one outlier is no rise.
const GROUP_MIN: usize = 3;

/// What was seen at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the run began.
    pub at_s: f64,
    /// Memory of the job that runs all the time (RSS), in KiB.
    pub job_rss_kib: u64,
    /// What its ranks hold from malloc, in KiB: what is lost shows here before whole pages do in RSS.
    #[serde(default)]
    pub job_heap_kib: u64,
    /// Open descriptors of that job.
    pub job_fds: u64,
    /// Memory of what keeps the nodes (RSS), in KiB.
    pub nodes_rss_kib: u64,
    /// Open descriptors of what keeps the nodes.
    pub nodes_fds: u64,
    /// Bytes in the nodes' /dev/shm, in KiB.
    pub shm_kib: u64,
    /// Files there.
    pub shm_files: u64,
}

/// A series of samples.
struct Series {
    name: &'static str,
    unit: &'static str,
    value: fn(&Sample) -> u64,
    /// A slope that has made no more of it is none.
    slope_max: f64,
    /// What the end may have more than the beginning: what comes once and is no leak.
    rise_max: f64,
}

/// The kernel may put a huge page of 2 MiB in place of small ones at any time, for either of the two
/// ranks or nodes. The allocator's own steps are smaller.
const RSS_RISE_MAX: f64 = 4096.0;
/// Transports keep the buffers of what they sent for the next time, at most 512 of 1.4 KiB for each
/// rank (`POOL_MAX` there), and it takes long until as many were ever in use at once.
const POOL_SLOPE_MAX: f64 = 256.0;
/// What ranks hold for messages on their way.
const HEAP_RISE_MAX: f64 = 1024.0;
/// One for either, as of a connection or a read that goes on in just these samples.
const COUNT_RISE_MAX: f64 = 2.0;
/// As much as two ranks' files are.
const SHM_RISE_MAX: f64 = 1024.0;

const fn series(
    name: &'static str,
    unit: &'static str,
    value: fn(&Sample) -> u64,
    slope_max: f64,
    rise_max: f64,
) -> Series {
    Series { name, unit, value, slope_max, rise_max }
}

const SERIES: [Series; 7] = [
    series("memory of the job", "KiB", |s| s.job_rss_kib, 256.0, RSS_RISE_MAX),
    series("heap of the job", "KiB", |s| s.job_heap_kib, POOL_SLOPE_MAX, HEAP_RISE_MAX),
    series("descriptors of the job", "", |s| s.job_fds, 0.5, COUNT_RISE_MAX),
    series("memory of the nodes", "KiB", |s| s.nodes_rss_kib, 256.0, RSS_RISE_MAX),
    series("descriptors of the nodes", "", |s| s.nodes_fds, 0.5, COUNT_RISE_MAX),
    series("/dev/shm", "KiB", |s| s.shm_kib, 16.0, SHM_RISE_MAX),
    series("files in /dev/shm", "", |s| s.shm_files, 0.5, COUNT_RISE_MAX),
];

/// What became of one series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Which one.
    pub what: String,
    /// Of the values; empty for counts.
    pub unit: String,
    /// The least, the median and the greatest value of the second half.
    pub range: [f64; 3],
    /// Slope in the second half, a hour, with its 99 % interval.
    pub per_hour: Slope,
    /// What the last tenth of that half has more than its first tenth, see [`trends`]; not below 0.
    #[serde(default)]
    pub rise: f64,
    /// Whether it grows, or whether there is too little to tell.
    pub verdict: Verdict,
}

/// Theil's and Sen's estimate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Slope {
    /// The median of the slopes between all pairs.
    pub median: f64,
    /// The least that the slope is with 99 % confidence.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// What a series says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// No growth.
    Steady,
    /// It grows.
    Grows,
    /// Too few samples, or memory that grows while caches and pools fill.
    TooShort,
}

/// The slope of points (P. K. Sen, Estimates of the regression coefficient based on Kendall's
/// tau, J. Am. Stat. Assoc. 63, 1379, 1968): outliers, such as a message on its way, do not
/// matter. The interval is by the variance of Kendall's statistic without ties, which makes it
/// wider than need be where there are ties.
#[must_use]
pub fn slope(points: &[(f64, f64)]) -> Option<Slope> {
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (i, a) in points.iter().enumerate() {
        let later = points[i + 1..].iter().filter(|b| b.0 > a.0);
        slopes.extend(later.map(|b| (b.1 - a.1) / (b.0 - a.0)));
    }
    slopes.sort_unstable_by(f64::total_cmp);
    let (count, n) = (slopes.len(), points.len() as f64);
    let reach = Z_99 * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let low = ((count as f64 - reach) / 2.0).floor().max(0.0) as usize;
    let high = ((count as f64 + reach) / 2.0).ceil() as usize;
    Some(Slope {
        median: *slopes.get(count / 2)?,
        low: *slopes.get(low)?,
        high: *slopes.get(high.min(count - 1))?,
    })
}

/// Judges every series by its second half; the first one fills caches and pools. It grows if its
/// slope is above 0 for certain, or if its last tenth has clearly more than its first one. Memory that grows while
/// the second half begins before caches and pools are full is not called growth unless it is much.
#[must_use]
pub fn trends(samples: &[Sample]) -> Vec<Trend> {
    let half = &samples[samples.len() / 2..];
    SERIES.iter().map(|series| trend(series, half)).collect()
}

fn trend(series: &Series, half: &[Sample]) -> Trend {
    let point = |s: &Sample| (s.at_s / 3600.0, (series.value)(s) as f64);
    let points = gather(&half.iter().map(point).collect::<Vec<_>>());
    let values: Vec<f64> = points.iter().map(|p| p.1).collect();
    let range = [0, values.len() / 2, values.len().saturating_sub(1)].map(|i| nth(&values, i));
    let per_hour = slope(&points).unwrap_or(Slope { median: 0.0, low: 0.0, high: 0.0 });
    let hours = points.last().map_or(0.0, |last| last.0 - points[0].0);
    let rise = rise(&values);
    // A slope that is there for certain, and has made more of it than a page here and there.
    let made = per_hour.median * hours;
    let slopes = per_hour.low > 0.0 && made > series.slope_max;
    let fills = !series.unit.is_empty()
        && half.first().is_some_and(|s| s.at_s < FILLING_S)
        && rise.max(made) < FILLED_KIB_MAX;
    let verdict = match (points.len(), slopes || rise > series.rise_max) {
        (0..POINTS_MIN, _) => Verdict::TooShort,
        (_, true) if fills => Verdict::TooShort,
        (_, true) => Verdict::Grows,
        (_, false) => Verdict::Steady,
    };
    let (what, unit) = (series.name.to_owned(), series.unit.to_owned());
    Trend { what, unit, range, per_hour, rise, verdict }
}

/// What the last tenth has more than the first: by its median and by its lower quartile, whichever
/// says less. Of what jumps between two levels all the time either may change by chance, but hardly both.
fn rise(values: &[f64]) -> f64 {
    let group = (values.len() / 10).max(GROUP_MIN).min(values.len());
    let (first, last) = (&values[..group], &values[values.len() - group..]);
    let by = |part: usize| nth(last, group / part) - nth(first, group / part);
    by(2).min(by(4)).max(0.0)
}

/// The `n`-th value by size, counted from 0; 0 where there is none.
fn nth(values: &[f64], n: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values.get(n).copied().unwrap_or(0.0)
}

/// The medians of neighbours, if there are many.
fn gather(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let together = points.len().div_ceil(POINTS_MAX).max(1);
    let median = |group: &[(f64, f64)]| {
        let mut group = group.to_vec();
        group.sort_unstable_by(|a, b| a.1.total_cmp(&b.1));
        (group.iter().map(|p| p.0).sum::<f64>() / group.len() as f64, group[group.len() / 2].1)
    };
    points.chunks(together).map(median).collect()
}

/// The values of each series over time, for pictures.
pub fn curves(
    samples: &[Sample],
) -> impl Iterator<Item = (&'static str, &'static str, Vec<(f64, f64)>)> {
    let points = |value: fn(&Sample) -> u64| {
        gather(&samples.iter().map(|s| (s.at_s, value(s) as f64)).collect::<Vec<_>>())
    };
    SERIES.iter().map(move |series| (series.name, series.unit, points(series.value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise that is the same every time.
    fn noise(i: usize) -> u64 {
        (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58
    }

    fn samples(count: usize, job_rss_kib: impl Fn(usize) -> u64) -> Vec<Sample> {
        let sample = |i: usize| Sample {
            at_s: i as f64,
            job_rss_kib: job_rss_kib(i),
            job_fds: 7,
            ..Sample::default()
        };
        (0..count).map(sample).collect()
    }

    #[test]
    fn a_leak_is_told_from_noise() {
        let steady = trends(&samples(1800, |i| 50_000 + 40 * noise(i)));
        assert!(steady.iter().all(|t| t.verdict == Verdict::Steady), "{steady:?}");
        assert!(steady[0].per_hour.low < 0.0 && steady[0].per_hour.high > 0.0);
        let leaking = trends(&samples(1800, |i| 50_000 + 40 * noise(i) + i as u64));
        assert_eq!(leaking[0].verdict, Verdict::Grows);
        let slope = leaking[0].per_hour;
        assert!(slope.low < 3600.0 && 3600.0 < slope.high && slope.low > 1000.0, "{slope:?}");
        assert!(leaking[1..].iter().all(|t| t.verdict == Verdict::Steady));
    }

    #[test]
    fn what_fills_at_first_is_no_leak_and_little_says_nothing() {
        let filled = trends(&samples(1000, |i| 50_000 + 1000 * i.min(400) as u64));
        assert_eq!(filled[0].verdict, Verdict::Steady);
        assert_eq!(trends(&samples(6, |i| i as u64))[0].verdict, Verdict::TooShort);
        assert_eq!(trends(&[])[0].verdict, Verdict::TooShort);
    }

    #[test]
    fn a_run_of_minutes_can_tell_descriptors_that_grow_but_no_memory() {
        for (minutes, of_memory) in [(7, Verdict::TooShort), (9, Verdict::Grows)] {
            let mut samples = samples(minutes * 60, |i| 50_000 + 10 * i as u64);
            samples.iter_mut().enumerate().for_each(|(i, sample)| sample.job_fds = i as u64);
            let found = trends(&samples);
            assert_eq!((found[0].verdict, found[2].verdict), (of_memory, Verdict::Grows));
            assert_eq!(found[3].verdict, Verdict::Steady);
        }
        let much = trends(&samples(60, |i| 50_000 + 1000 * i as u64));
        assert_eq!(much[0].verdict, Verdict::Grows);
    }

    fn verdicts(change: impl Fn(usize, &mut Sample)) -> Vec<Verdict> {
        let mut samples = samples(1800, |i| 50_000 + 40 * noise(i));
        samples.iter_mut().enumerate().for_each(|(i, sample)| change(i, sample));
        trends(&samples).iter().map(|trend| trend.verdict).collect()
    }

    const STEADY: [Verdict; 7] = [Verdict::Steady; 7];

    #[test]
    fn a_jump_is_growth() {
        let jump = |i: usize, size: u64| if i >= 1350 { size } else { 0 };
        let found = verdicts(|i, sample| sample.job_fds += jump(i, 1000));
        assert_eq!((found[0], found[2]), (Verdict::Steady, Verdict::Grows));
        let found = verdicts(|i, sample| sample.job_fds += jump(i, 3));
        assert_eq!(found[2], Verdict::Grows);
        let found = verdicts(|i, sample| sample.job_rss_kib += jump(i, 1 << 20));
        assert_eq!((found[0], found[2]), (Verdict::Grows, Verdict::Steady));
        let found = verdicts(|i, sample| sample.shm_files += jump(i, 40));
        assert_eq!(found[6], Verdict::Grows);
        // Shortly after the beginning of what is judged, and shortly before the end.
        for at in [1000, 1700] {
            let found = verdicts(|i, sample| sample.nodes_fds += u64::from(i >= at) * 9);
            assert_eq!(found[4], Verdict::Grows, "{at}");
        }
    }

    #[test]
    fn a_leak_that_begins_late_is_growth() {
        let found = verdicts(|i, sample| {
            sample.job_rss_kib += i.saturating_sub(1620) as u64 * 8192 / 180;
        });
        assert_eq!(found[0], Verdict::Grows);
        let found = verdicts(|i, sample| sample.nodes_fds += i.saturating_sub(1620) as u64 / 10);
        assert_eq!(found[4], Verdict::Grows);
    }

    #[test]
    fn steps_of_an_allocator_and_levels_that_change_are_no_growth() {
        for kib in [4, 132, 2048, 4096] {
            let found = verdicts(|i, sample| {
                sample.nodes_rss_kib = 28_000 + u64::from(i >= 1350) * kib;
            });
            assert_eq!(found, STEADY, "{kib} KiB");
        }
        // Two levels by lot, each half of the time.
        let found = verdicts(|i, sample| {
            let is_high = noise(i) % 2 == 1;
            sample.shm_kib = if is_high { 3248 } else { 16 };
            sample.shm_files = if is_high { 12 } else { 4 };
        });
        assert_eq!(found, STEADY);
        // What is there in the last sample only, of many and of few.
        assert_eq!(verdicts(|i, sample| sample.nodes_fds += u64::from(i == 1799) * 99), STEADY);
        let mut few = samples(20, |_| 50_000);
        few[19].job_fds += 99;
        assert_eq!(trends(&few)[2].verdict, Verdict::Steady);
        // What goes down is no growth, and neither is what came and went.
        assert_eq!(verdicts(|i, sample| sample.shm_files = 1800 - i as u64), STEADY);
        let found =
            verdicts(|i, sample| sample.job_fds += u64::from((1200..1500).contains(&i)) * 99);
        assert_eq!(found, STEADY);
    }

    /// Nine points of a line with one outlier: the line's own slope.
    #[test]
    fn an_outlier_does_not_matter() {
        let mut points: Vec<(f64, f64)> =
            (0..9).map(|i| (f64::from(i), f64::from(2 * i))).collect();
        points[4].1 = 1e6;
        assert_eq!(slope(&points).unwrap().median, 2.0);
    }
}
