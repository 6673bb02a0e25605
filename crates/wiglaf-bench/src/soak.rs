//! Does something grow? Samples of a long run, and a test of their slope.

use serde::{Deserialize, Serialize};

/// Names the layout of the result, for those who read it later.
pub const SCHEMA: &str = "wiglaf-soak/1";
/// Points that the slope is computed from; more are gathered into so many.
const POINTS_MAX: usize = 400;
/// Quantile of the normal distribution that leaves half a percent above.
const Z_99: f64 = 2.576;
/// Fewer samples than this say nothing about a slope.
const POINTS_MIN: usize = 8;

/// What was seen at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the run began.
    pub at_s: f64,
    /// Memory of the job that runs all the time (RSS), in KiB.
    pub job_rss_kib: u64,
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

/// The series of samples: name, unit, value, and how much is not yet growth.
type Series = (&'static str, &'static str, fn(&Sample) -> u64, f64);
const SERIES: [Series; 6] = [
    ("memory of the job", "KiB", |s| s.job_rss_kib, 256.0),
    ("descriptors of the job", "", |s| s.job_fds, 0.5),
    ("memory of the nodes", "KiB", |s| s.nodes_rss_kib, 256.0),
    ("descriptors of the nodes", "", |s| s.nodes_fds, 0.5),
    ("/dev/shm", "KiB", |s| s.shm_kib, 16.0),
    ("files in /dev/shm", "", |s| s.shm_files, 0.5),
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
    /// Too few samples.
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

/// Judges every series by its second half; the first one fills caches and pools.
#[must_use]
pub fn trends(samples: &[Sample]) -> Vec<Trend> {
    let half = &samples[samples.len() / 2..];
    SERIES.iter().map(|series| trend(series, half)).collect()
}

fn trend(&(what, unit, value, resolution): &Series, half: &[Sample]) -> Trend {
    let points: Vec<(f64, f64)> = half.iter().map(|s| (s.at_s / 3600.0, value(s) as f64)).collect();
    let points = gather(&points);
    let mut values: Vec<f64> = points.iter().map(|p| p.1).collect();
    values.sort_unstable_by(f64::total_cmp);
    let at = |i: usize| values.get(i).copied().unwrap_or(0.0);
    let range = [at(0), at(values.len() / 2), at(values.len().saturating_sub(1))];
    let per_hour = slope(&points).unwrap_or(Slope { median: 0.0, low: 0.0, high: 0.0 });
    let hours = points.last().map_or(0.0, |last| last.0 - points[0].0);
    // A slope that is there for certain, and has made more of it than a page here and there.
    let grown = per_hour.low > 0.0 && per_hour.median * hours > resolution;
    let verdict = match points.len() {
        0..POINTS_MIN => Verdict::TooShort,
        _ if grown => Verdict::Grows,
        _ => Verdict::Steady,
    };
    Trend { what: what.to_owned(), unit: unit.to_owned(), range, per_hour, verdict }
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
    SERIES.iter().map(move |(what, unit, value, _)| (*what, *unit, points(*value)))
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

    /// Nine points of a line with one outlier: the line's own slope.
    #[test]
    fn an_outlier_does_not_matter() {
        let mut points: Vec<(f64, f64)> =
            (0..9).map(|i| (f64::from(i), f64::from(2 * i))).collect();
        points[4].1 = 1e6;
        assert_eq!(slope(&points).unwrap().median, 2.0);
    }
}
