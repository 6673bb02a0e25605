//! Samples and what is said of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Exact samples in nanoseconds, each value with how often it occurred.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Samples {
    counts: BTreeMap<u64, u64>,
}

impl Samples {
    /// From `(value, times)` pairs.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut samples = Self::default();
        for (value, times) in pairs {
            samples.add(value, times);
        }
        samples
    }

    /// Adds a value that occurred `times` times.
    pub fn add(&mut self, value_ns: u64, times: u64) {
        if times > 0 {
            let count = self.counts.entry(value_ns).or_default();
            *count = count.saturating_add(times);
        }
    }

    /// Adds all samples of another run.
    pub fn merge(&mut self, other: &Self) {
        for (&value, &times) in &other.counts {
            self.add(value, times);
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.values().fold(0, |sum, times| sum.saturating_add(*times))
    }

    /// The smallest sample that at least `percent` of all samples do not
    /// exceed (nearest rank), or `None` when there are none.
    pub fn percentile_ns(&self, percent: u32) -> Option<u64> {
        // In whole numbers: 56 % of 125 is the 70th, not the 71st by a rounding error.
        let rank = (u128::from(self.count()) * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0u128;
        for (&value, &times) in &self.counts {
            seen += u128::from(times);
            if seen >= rank {
                return Some(value);
            }
        }
        None
    }

    /// The smallest sample that at least the share `share` of all samples, 0 to 1, do not exceed (nearest rank), or
    /// `None` when there are none.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let rank = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0u64;
        let found = self.counts.iter().find(|(_, times)| {
            seen = seen.saturating_add(**times);
            seen >= rank
        });
        found.or(self.counts.iter().next_back()).map(|(value, _)| *value)
    }

    /// What the reports say of them, every value multiplied by `scale`
    /// (one half turns round trips into half round trips).
    pub fn summary(&self, scale: f64) -> Option<Summary> {
        let at = |percent| self.percentile_ns(percent).map(|ns| ns as f64 * scale / 1000.0);
        let count = self.count();
        let sum_ns: f64 = self.counts.iter().map(|(v, n)| *v as f64 * *n as f64).sum();
        Some(Summary {
            samples: count,
            min_us: *self.counts.keys().next()? as f64 * scale / 1000.0,
            p50_us: at(50)?,
            p99_us: if count < P99_SAMPLES_MIN { None } else { at(99) },
            max_us: *self.counts.keys().next_back()? as f64 * scale / 1000.0,
            mean_us: sum_ns / count as f64 * scale / 1000.0,
        })
    }
}

/// Of fewer samples the p99 is the largest or the one before it: chance.
pub const P99_SAMPLES_MIN: u64 = 200;

/// A few numbers for many samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many samples.
    pub samples: u64,
    /// The smallest.
    pub min_us: f64,
    /// The median.
    pub p50_us: f64,
    /// Only one in a hundred is larger; nothing where there are less than [`P99_SAMPLES_MIN`].
    pub p99_us: Option<f64>,
    /// The largest.
    pub max_us: f64,
    /// The arithmetic mean.
    pub mean_us: f64,
}

impl Summary {
    /// Of several rounds, each of the same weight, however many samples it had: medians of their
    /// percentiles, the mean of their means. Who was fast in a round had more samples in it, and all
    /// samples together would be about the fast rounds. The p99 is there if every round has one.
    pub fn of_rounds(rounds: &[Self]) -> Option<Self> {
        let all = |value: fn(&Self) -> f64| rounds.iter().map(value).collect::<Vec<f64>>();
        let p99_us: Option<Vec<f64>> = rounds.iter().map(|round| round.p99_us).collect();
        Some(Self {
            samples: rounds.iter().fold(0, |sum, round| sum.saturating_add(round.samples)),
            min_us: all(|round| round.min_us).into_iter().min_by(f64::total_cmp)?,
            p50_us: median(&all(|round| round.p50_us))?,
            p99_us: p99_us.and_then(|values| median(&values)),
            max_us: all(|round| round.max_us).into_iter().max_by(f64::total_cmp)?,
            mean_us: all(|round| round.mean_us).iter().sum::<f64>() / rounds.len() as f64,
        })
    }
}

/// The median over the rounds of what one has by what another has in the same round.
pub fn ratio_of_rounds(one: &[f64], other: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = one.iter().zip(other).map(|(one, other)| one / other).collect();
    median(&ratios)
}

/// The median of a few numbers; between the middle two of an even count.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nearest_rank_percentiles() {
        let samples = Samples::from_pairs((1..=100).map(|v| (v * 10, 1)));
        assert_eq!(samples.percentile_ns(50), Some(500));
        assert_eq!(samples.percentile_ns(99), Some(990));
        assert_eq!(samples.percentile_ns(100), Some(1000));
        assert_eq!(samples.percentile_ns(0), Some(10));
        assert_eq!(Samples::default().percentile_ns(50), None);
    }

    #[test]
    fn a_rank_that_floating_point_would_miss() {
        let samples = Samples::from_pairs((1..=125).map(|v| (v, 1)));
        assert_eq!(samples.percentile_ns(56), Some(70));
    }

    #[test]
    fn quantiles_between_percents() {
        let samples = Samples::from_pairs((1..=1000).map(|v| (v, 1)));
        assert_eq!(samples.quantile_ns(0.995), Some(995));
        assert_eq!((samples.quantile_ns(0.0), samples.quantile_ns(1.0)), (Some(1), Some(1000)));
        assert_eq!(Samples::default().quantile_ns(0.5), None);
    }

    #[test]
    fn one_outlier_in_a_thousand_is_not_in_the_p99() {
        let samples = Samples::from_pairs([(1000, 999), (9_000_000, 1)]);
        let summary = samples.summary(0.5).unwrap();
        assert_eq!((summary.p50_us, summary.p99_us), (0.5, Some(0.5)));
        assert_eq!((summary.max_us, summary.samples), (4500.0, 1000));
    }

    #[test]
    fn merging_is_measuring_together() {
        let mut a = Samples::from_pairs([(5, 2), (9, 1)]);
        a.merge(&Samples::from_pairs([(5, 1), (7, 4)]));
        assert_eq!(a, Samples::from_pairs([(5, 3), (7, 4), (9, 1)]));
    }

    #[test]
    fn no_p99_of_few_samples() {
        let p99 = |count| Samples::from_pairs([(1000, count)]).summary(1.0).unwrap().p99_us;
        assert_eq!((p99(P99_SAMPLES_MIN - 1), p99(P99_SAMPLES_MIN)), (None, Some(1.0)));
    }

    #[test]
    fn rounds_have_the_same_weight() {
        let round = |ns, count| Samples::from_pairs([(ns, count)]).summary(1.0).unwrap();
        let all = Summary::of_rounds(&[round(1000, 9000), round(3000, 300), round(5000, 200)]);
        let all = all.unwrap();
        assert_eq!((all.samples, all.p50_us, all.p99_us), (9500, 3.0, Some(3.0)));
        assert_eq!((all.min_us, all.mean_us, all.max_us), (1.0, 3.0, 5.0));
        let few = Summary::of_rounds(&[round(1000, 9000), round(3000, 100)]).unwrap();
        assert_eq!((few.p50_us, few.p99_us), (2.0, None));
        assert_eq!(Summary::of_rounds(&[]), None);
    }

    #[test]
    fn ratios_are_those_of_the_same_round() {
        assert_eq!(ratio_of_rounds(&[2.0, 9.0, 4.0], &[4.0, 9.0, 8.0]), Some(0.5));
        assert_eq!(ratio_of_rounds(&[], &[]), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    proptest! {
        #[test]
        fn percentiles_agree_with_a_sorted_list(
            mut values in prop::collection::vec(0u64..1000, 1..200), percent in 0u32..=100,
        ) {
            let samples = Samples::from_pairs(values.iter().map(|v| (*v, 1)));
            values.sort_unstable();
            let rank = (values.len() * percent as usize).div_ceil(100).max(1);
            prop_assert_eq!(samples.percentile_ns(percent), Some(values[rank - 1]));
        }
    }
}
