//! Amdahl's law through measured times.
//!
//! T(n) = T1 (P + (1 − P)/n) is a line in x = 1/n: T = a + b x with a = T1 P and b = T1 (1 − P), so that
//! P = a/(a + b). The line is that of ordinary least squares over all runs, each with the same weight; the
//! error of P is the standard error that the residuals' variance, with two degrees of freedom less than runs,
//! gives a and b, propagated to first order with their covariance (P. R. Bevington and D. K. Robinson, Data
//! Reduction and Error Analysis for the Physical Sciences, 3rd edition, chapters 3 and 6).

use serde::Serialize;

/// Fewer different numbers of nodes leave nothing that could contradict the law.
pub(crate) const COUNTS_MIN: usize = 3;

/// The serial part of a program.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Amdahl {
    /// P: the part that does not get faster with more nodes.
    pub serial_part: f64,
    /// Its standard error.
    pub error: f64,
    /// T1: the fitted time on one node, in seconds.
    pub one_node_s: f64,
}

/// The fit to runs of (nodes, seconds); nothing where there are too few.
#[must_use]
pub fn amdahl(runs: &[(usize, f64)]) -> Option<Amdahl> {
    let mut counts: Vec<usize> = runs.iter().map(|run| run.0).collect();
    counts.sort_unstable();
    counts.dedup();
    if counts.len() < COUNTS_MIN || counts[0] == 0 {
        return None;
    }
    let count = runs.len() as f64;
    let points: Vec<(f64, f64)> = runs.iter().map(|(nodes, s)| (1.0 / *nodes as f64, *s)).collect();
    let mean_x = points.iter().map(|p| p.0).sum::<f64>() / count;
    let mean_t = points.iter().map(|p| p.1).sum::<f64>() / count;
    let sxx: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let sxt: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_t)).sum();
    let b = sxt / sxx;
    let a = mean_t - b * mean_x;
    let left: f64 = points.iter().map(|(x, t)| (t - a - b * x).powi(2)).sum();
    let variance = left / (count - 2.0);
    let (var_a, var_b) = (variance * (1.0 / count + mean_x * mean_x / sxx), variance / sxx);
    let covariance = -variance * mean_x / sxx;
    let sum = a + b;
    let (da, db) = (b / (sum * sum), -a / (sum * sum));
    let error = (da * da * var_a + db * db * var_b + 2.0 * da * db * covariance).max(0.0).sqrt();
    let fit = Amdahl { serial_part: a / sum, error, one_node_s: sum };
    (fit.serial_part.is_finite() && fit.error.is_finite() && sum > 0.0).then_some(fit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn law(t1: f64, p: f64, n: usize) -> f64 {
        t1 * (p + (1.0 - p) / n as f64)
    }

    #[test]
    fn times_by_the_law_give_their_serial_part_without_error() {
        let runs: Vec<_> = [1, 2, 4, 8].map(|n| (n, law(80.0, 0.23, n))).into();
        let fit = amdahl(&runs).unwrap();
        assert!((fit.serial_part - 0.23).abs() < 1e-12 && fit.error < 1e-7, "{fit:?}");
        assert!((fit.one_node_s - 80.0).abs() < 1e-9);
    }

    #[test]
    fn residuals_make_the_error() {
        // By hand: x = 1, 1/2, 1/4; t = 10, 7, 4; b = 54/7, a = 2.5; residuals -3/14, 9/14, -6/14.
        let fit = amdahl(&[(1, 10.0), (2, 7.0), (4, 4.0)]).unwrap();
        let (a, b) = (2.5, 54.0 / 7.0);
        assert!((fit.serial_part - a / (a + b)).abs() < 1e-12, "{fit:?}");
        let (variance, mean, sxx) = (9.0 / 14.0, 7.0 / 12.0, 7.0 / 24.0);
        let sum: f64 = a + b;
        let of_a = variance * (1.0 / 3.0 + mean * mean / sxx);
        let of_b = variance / sxx;
        let both = -variance * mean / sxx;
        let expected = (b * b * of_a + a * a * of_b - 2.0 * a * b * both).sqrt() / (sum * sum);
        assert!((fit.error - expected).abs() < 1e-9, "{fit:?} {expected}");
    }

    #[test]
    fn two_numbers_of_nodes_are_too_few() {
        assert_eq!(amdahl(&[(1, 2.0), (2, 1.0), (1, 2.1), (2, 1.1)]), None);
        assert_eq!(amdahl(&[]), None);
    }

    proptest! {
        #[test]
        fn any_times_give_a_finite_fit_or_none(runs in prop::collection::vec((1usize..64, 0.0f64..1e6), 0..20)) {
            if let Some(fit) = amdahl(&runs) {
                prop_assert!(fit.serial_part.is_finite() && fit.error >= 0.0);
            }
        }
    }
}
