//! What everybody measured in every case, while it is being measured.

use std::collections::BTreeMap;

use crate::outcome::Case;
use crate::stats::{Samples, median};
use crate::turns::Turns;

/// Cells by case and runner.
#[derive(Debug)]
pub(crate) struct Grid {
    cells: Vec<Vec<Cell>>,
}

/// One contender in one case.
#[derive(Debug, Default, Clone)]
pub(crate) struct Cell {
    rounds: Vec<f64>,
    cut_off: Vec<usize>,
    samples: Samples,
    counters: BTreeMap<String, Vec<f64>>,
}

impl Cell {
    /// The value of one more round.
    pub(crate) fn push(&mut self, value: f64) -> &mut Self {
        self.rounds.push(value);
        self
    }

    /// The value of one more round that was cut off: it would have come to more.
    pub(crate) fn push_at_least(&mut self, value: f64) -> &mut Self {
        self.cut_off.push(self.rounds.len());
        self.push(value)
    }

    /// Its samples.
    pub(crate) fn merge(&mut self, samples: &Samples) -> &mut Self {
        self.samples.merge(samples);
        self
    }

    /// Something that was counted in the round.
    pub(crate) fn count(&mut self, name: &str, value: f64) -> &mut Self {
        self.counters.entry(name.to_owned()).or_default().push(value);
        self
    }

    /// The samples of all rounds.
    pub(crate) fn samples(&self) -> &Samples {
        &self.samples
    }
}

/// What stands for a counter of all rounds: the median, but of what is never to happen the most.
fn of_rounds(name: &str, values: &[f64]) -> Option<f64> {
    match name.ends_with("overruns") {
        true => values.iter().copied().max_by(f64::total_cmp),
        false => median(values),
    }
}

impl Grid {
    pub(crate) fn new(cases: usize, runners: usize) -> Self {
        Self { cells: vec![vec![Cell::default(); runners]; cases] }
    }

    pub(crate) fn at(&mut self, case: usize, runner: usize) -> &mut Cell {
        &mut self.cells[case][runner]
    }

    /// Puts everybody into the case who did the task that it comes from in
    /// every round.
    pub(crate) fn fill(&self, number: usize, turns: &Turns, task: &str, case: &mut Case) {
        for (runner, cell) in turns.runners.iter().zip(&self.cells[number]) {
            if cell.rounds.is_empty() || turns.is_struck(&runner.contestant.label, task) {
                continue;
            }
            let mut entry = runner.entry(cell.rounds.clone());
            entry.cut_off.clone_from(&cell.cut_off);
            entry.times = cell.samples.summary(1.0);
            let kept =
                cell.counters.iter().filter_map(|(k, v)| Some((k.clone(), of_rounds(k, v)?)));
            entry.counters = kept.collect();
            case.entries.push(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_round_of_overruns_is_not_hidden() {
        assert_eq!(of_rounds("ring_overruns", &[0.0, 0.0, 7.0]), Some(7.0));
        assert_eq!(of_rounds("packets_sent_again", &[0.0, 1.0, 7.0]), Some(1.0));
        assert_eq!(of_rounds("udp_overruns", &[]), None);
    }
}
