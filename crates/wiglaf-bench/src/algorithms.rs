//! The algorithms that an MPI has for each collective, beside its own choice: which are right, which are faster, and by
//! how much more than chance.
//!
//! One job measures all algorithms of all operations in turns ([`Measurement::take`]); [`choose`] says where one of them
//! is worth a rule.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::compile::MeasuringProgram;
use crate::error::{BenchError, Result};
use crate::launch;
use crate::stats::median;

/// What is measured: blocking collectives for which Open MPI's coll/tuned has algorithms to choose from, and MPICH for
/// some.
pub const OPERATIONS: [&str; 9] = [
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "reduce_scatter",
    "allgather",
    "alltoall",
    "gather",
    "scatter",
];

/// Rounds below this say nothing: that all rounds of one algorithm beat all rounds of another happens to equals once in
/// 252 pairs with 5 rounds, and once in 20 with 3.
pub const ROUNDS_MIN: u16 = 5;
/// Rounds that the program has room for.
pub const ROUNDS_MAX: u16 = 64;
/// An algorithm must be faster by at least this share. Of the hundreds of pairs that are compared some pass the test of
/// the rounds by chance; where they are no faster, a rule for them gains nothing and costs nothing, and at a tenth a
/// gain is worth more than the trust in an MPI's own choice.
pub const GAIN_MIN: f64 = 0.10;

/// One run may take so long on a slow network.
const RUN_TIME_MAX: Duration = Duration::from_secs(1800);
/// So many algorithms may fail to come back; each costs a run until then.
const LEFT_OUT_MAX: usize = 16;

/// Algorithms of Open MPI's that are not tried, and why: each would cost a run until it is given up. They cut a vector by
/// the number of its elements, of which ranks may have different ones for the same bytes, and then wait for each other for
/// ever.
const KNOWN: [(&str, u32, &str); 3] =
    [("bcast", 4, KNOWN_WHY), ("bcast", 8, KNOWN_WHY), ("bcast", 9, KNOWN_WHY)];
const KNOWN_WHY: &str = "hangs where ranks describe the same bytes by different types";

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds of each algorithm; [`ROUNDS_MIN`] at least.
    pub rounds: u16,
    /// Some of [`OPERATIONS`].
    pub operations: Vec<String>,
    /// Bytes, rising: of what one rank sends to one other, or of the whole vector of bcast and reductions.
    pub lengths: Vec<u64>,
    /// Time for one algorithm, length and round; three calls are made in any case.
    pub budget: Duration,
    /// Names of algorithms by operation where the MPI does not tell them, such as `bcast:binomial,nb;reduce:binomial`.
    pub names: Option<String>,
    /// What builds the measuring program, if not the `mpicc` that is found.
    pub compiler: Option<PathBuf>,
    /// Where the measuring program is built and kept.
    pub cache: PathBuf,
}

/// An algorithm that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Of which operation.
    pub operation: String,
    /// Its number.
    pub algorithm: u32,
    /// Why.
    pub why: String,
}

/// One algorithm at one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// One of [`OPERATIONS`].
    pub operation: String,
    /// Bytes, as in [`Plan::lengths`].
    pub len: u64,
    /// Ranks of the communicator.
    pub ranks: usize,
    /// Its number; 0 is the MPI's own choice.
    pub algorithm: u32,
    /// Its name.
    pub name: String,
    /// The slowest rank's mean of each round, in nanoseconds.
    pub ns: Vec<f64>,
}

impl Series {
    fn median(&self) -> f64 {
        median(&self.ns).unwrap_or(f64::INFINITY)
    }

    fn best(&self) -> f64 {
        self.ns.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn worst(&self) -> f64 {
        self.ns.iter().copied().fold(0.0, f64::max)
    }

    /// Whether every round of it beats every round of the other, and its median does by [`GAIN_MIN`].
    fn clearly_beats(&self, other: &Self) -> bool {
        self.worst() < other.best() && self.median() <= other.median() * (1.0 - GAIN_MIN)
    }
}

/// What is known so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// All that was measured.
    pub series: Vec<Series>,
    /// What was left out.
    pub left_out: Vec<LeftOut>,
    /// Operations that the MPI lets nobody choose for.
    pub without: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Series(Series),
    Wrong { wrong: String, algorithm: u32, case: u32 },
    Trying { trying: String, algorithm: u32 },
    Without { without: String },
}

impl Measurement {
    /// Nothing yet, of an MPI that tells its algorithms: Open MPI.
    #[must_use]
    pub fn of_open_mpi() -> Self {
        let known = |(operation, algorithm, why): (&str, u32, &str)| LeftOut {
            operation: operation.to_owned(),
            algorithm,
            why: why.to_owned(),
        };
        Self { left_out: KNOWN.map(known).into(), ..Self::default() }
    }

    /// Measures with one number of ranks. `command` makes the command that runs the program with these arguments.
    ///
    /// # Errors
    /// When a run fails before an algorithm was tried, or too many never come back.
    pub fn take(
        &mut self,
        plan: &Plan,
        command: &dyn Fn(&Path, &[OsString]) -> Command,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<()> {
        let bad =
            |detail: String| BenchError::Output { what: "the algorithms program".into(), detail };
        if !(ROUNDS_MIN..=ROUNDS_MAX).contains(&plan.rounds) {
            return Err(bad(format!(
                "{} rounds are not {ROUNDS_MIN} to {ROUNDS_MAX}",
                plan.rounds
            )));
        }
        let program = MeasuringProgram::Algorithms.build_by(plan.compiler.clone(), &plan.cache)?;
        let mut given_up = 0;
        loop {
            let output = launch::capture(
                command(&program, &self.arguments(plan)),
                RUN_TIME_MAX,
                is_interrupted,
            )
            .map_err(|error| bad(error.to_string()))?;
            let mut lines = Vec::new();
            let text = String::from_utf8_lossy(&output.stdout);
            for line in text.lines().filter(|line| line.starts_with('{')) {
                match serde_json::from_str::<Line>(line) {
                    Ok(line) => lines.push(line),
                    // The last line of a program that was ended may be half a line.
                    Err(_) if !output.status.success() => {}
                    Err(error) => return Err(bad(error.to_string())),
                }
            }
            if output.status.success() {
                self.keep(lines);
                return Ok(());
            }
            let last = lines.into_iter().rev().find_map(|line| match line {
                Line::Trying { trying, algorithm } => Some((trying, algorithm)),
                _ => None,
            });
            let said = launch::last_words(&output);
            match last {
                Some((operation, algorithm)) if algorithm != 0 && given_up < LEFT_OUT_MAX => {
                    given_up += 1;
                    let why = "ends the job, or never comes back".to_owned();
                    self.left_out.push(LeftOut { operation, algorithm, why });
                }
                _ => return Err(bad(said)),
            }
        }
    }

    fn arguments(&self, plan: &Plan) -> Vec<OsString> {
        let lengths: Vec<String> = plan.lengths.iter().map(u64::to_string).collect();
        let left_out: Vec<String> = self
            .left_out
            .iter()
            .map(|one| format!("{}:{}", one.operation, one.algorithm))
            .collect();
        let left_out = if left_out.is_empty() { "-".to_owned() } else { left_out.join(",") };
        let words = [
            plan.budget.as_millis().to_string(),
            plan.rounds.to_string(),
            plan.operations.join(","),
            lengths.join(","),
            left_out,
            plan.names.clone().unwrap_or_else(|| "-".to_owned()),
        ];
        words.map(OsString::from).into()
    }

    fn keep(&mut self, lines: Vec<Line>) {
        for line in lines {
            match line {
                Line::Series(series) => self.series.push(series),
                Line::Wrong { wrong, algorithm, case } => {
                    let why = format!("is wrong for some inputs (case {case})");
                    let new = LeftOut { operation: wrong, algorithm, why };
                    // Nor is it tried with more ranks.
                    if !self.noted(&new) {
                        self.left_out.push(new);
                    }
                }
                Line::Without { without } if !self.without.contains(&without) => {
                    self.without.push(without);
                }
                Line::Trying { .. } | Line::Without { .. } => {}
            }
        }
    }

    fn noted(&self, new: &LeftOut) -> bool {
        let same =
            |one: &LeftOut| (&one.operation, one.algorithm) == (&new.operation, new.algorithm);
        self.left_out.iter().any(same)
    }
}

/// Where an algorithm is clearly faster than the own choice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Winner {
    /// One of [`OPERATIONS`].
    pub operation: String,
    /// Ranks of the communicator.
    pub ranks: usize,
    /// The length, as it was measured; none where one algorithm is taken for all lengths.
    pub len: Option<u64>,
    /// The algorithm.
    pub algorithm: u32,
    /// Its name.
    pub name: String,
    /// Its time by the own choice's: the median's at this length, or the geometric mean over all lengths.
    pub ratio: f64,
}

/// Says where a rule is worth it. `has_lengths` tells whether rules for an operation may depend on the length.
///
/// Per length, of all algorithms that clearly beat the own choice, that with the least median. For all lengths, one that
/// clearly beats it at one length, is nowhere clearly worse (the best round within the own choice's), and takes
/// [`GAIN_MIN`] less over all lengths.
#[must_use]
pub fn choose(series: &[Series], has_lengths: &dyn Fn(&str) -> bool) -> Vec<Winner> {
    let mut cells: BTreeMap<(&str, usize), BTreeMap<u64, Vec<&Series>>> = BTreeMap::new();
    for one in series {
        let lengths = cells.entry((&one.operation, one.ranks)).or_default();
        lengths.entry(one.len).or_default().push(one);
    }
    let mut winners = Vec::new();
    for ((operation, ranks), lengths) in cells {
        let found = if has_lengths(operation) {
            by_length(&lengths)
        } else {
            overall(&lengths).into_iter().collect()
        };
        winners.extend(found.into_iter().map(|(len, one, ratio)| Winner {
            operation: operation.to_owned(),
            ranks,
            len,
            algorithm: one.algorithm,
            name: one.name.clone(),
            ratio,
        }));
    }
    winners
}

type Found<'a> = (Option<u64>, &'a Series, f64);

fn own<'a>(cell: &[&'a Series]) -> Option<&'a Series> {
    cell.iter().copied().find(|one| one.algorithm == 0)
}

fn by_length<'a>(lengths: &BTreeMap<u64, Vec<&'a Series>>) -> Vec<Found<'a>> {
    let best = |(len, cell): (&u64, &Vec<&'a Series>)| {
        let own = own(cell)?;
        let better = cell.iter().copied().filter(|one| one.clearly_beats(own));
        let best = better.min_by(|a, b| a.median().total_cmp(&b.median()))?;
        Some((Some(*len), best, best.median() / own.median()))
    };
    lengths.iter().filter_map(best).collect()
}

fn overall<'a>(lengths: &BTreeMap<u64, Vec<&'a Series>>) -> Option<Found<'a>> {
    let first = lengths.values().next()?;
    let judged = first.iter().copied().filter(|one| one.algorithm != 0).filter_map(|candidate| {
        let (mut logs, mut wins) = (0.0, false);
        for cell in lengths.values() {
            let own = own(cell)?;
            let one = cell.iter().find(|one| one.algorithm == candidate.algorithm)?;
            if one.best() > own.worst() {
                return None;
            }
            wins |= one.clearly_beats(own);
            logs += (one.median() / own.median()).ln();
        }
        let ratio = (logs / lengths.len() as f64).exp();
        (wins && ratio <= 1.0 - GAIN_MIN).then_some((None, candidate, ratio))
    });
    judged.min_by(|a, b| a.2.total_cmp(&b.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(operation: &str, len: u64, algorithm: u32, ns: [f64; 5]) -> Series {
        let name = format!("a{algorithm}");
        Series { operation: operation.to_owned(), len, ranks: 4, algorithm, name, ns: ns.into() }
    }

    fn chosen(all: &[Series], has_lengths: bool) -> Vec<(Option<u64>, u32)> {
        choose(all, &|_| has_lengths).iter().map(|one| (one.len, one.algorithm)).collect()
    }

    #[test]
    fn only_what_is_clearly_faster_is_chosen() {
        let own = series("bcast", 4, 0, [100.0, 101.0, 99.0, 100.0, 102.0]);
        let far = series("bcast", 4, 1, [60.0, 61.0, 62.0, 60.0, 98.0]);
        let farther = series("bcast", 4, 2, [50.0, 51.0, 52.0, 50.0, 50.0]);
        // Faster by its median, but a round of it lasted as long as one of the own choice.
        let unsure = series("bcast", 4, 3, [40.0, 40.0, 40.0, 40.0, 99.5]);
        // In each round, and by too little.
        let little = series("bcast", 4, 4, [95.0, 95.0, 95.0, 95.0, 95.0]);
        let with = |others: &[&Series]| {
            let all: Vec<Series> =
                std::iter::once(&own).chain(others.iter().copied()).cloned().collect();
            chosen(&all, true)
        };
        assert_eq!(with(&[&unsure, &little]), []);
        assert_eq!(with(&[&unsure, &far, &farther, &little]), [(Some(4), 2)]);
        assert_eq!(with(&[&far, &little]), [(Some(4), 1)]);
        // Without the own choice there is nothing to beat.
        assert_eq!(chosen(&[far], true), []);
    }

    #[test]
    fn one_algorithm_for_all_lengths_is_nowhere_worse() {
        let own = |len| series("scatter", len, 0, [100.0; 5]);
        let good = [series("scatter", 4, 1, [50.0; 5]), series("scatter", 64, 1, [100.0; 5])];
        let mixed = [series("scatter", 4, 2, [20.0; 5]), series("scatter", 64, 2, [101.0; 5])];
        let all: Vec<Series> =
            [own(4), own(64)].into_iter().chain(good.clone()).chain(mixed.clone()).collect();
        assert_eq!(chosen(&all, false), [(None, 1)]);
        // Where lengths may be told apart, each has its own.
        assert_eq!(chosen(&all, true), [(Some(4), 2)]);
        let all: Vec<Series> = [own(4), own(64)].into_iter().chain(mixed).collect();
        assert_eq!(chosen(&all, false), []);
    }

    #[test]
    fn wrong_algorithm_is_noted_once() {
        let mut known = Measurement::of_open_mpi();
        let lines = r#"{"trying":"reduce","algorithm":2,"name":"chain"}
            {"wrong":"reduce","algorithm":2,"name":"chain","case":0}
            {"without":"scatter"}
            {"operation":"reduce","len":4,"ranks":2,"algorithm":0,"name":"ignore","ns":[1,2,3,4,5]}"#;
        for _ in 0..2 {
            known.keep(lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect());
        }
        assert_eq!(known.left_out.len(), KNOWN.len() + 1);
        assert_eq!(known.without, ["scatter"]);
        assert_eq!(known.series.len(), 2);
        let plan = Plan {
            rounds: 5,
            operations: vec!["reduce".to_owned()],
            lengths: vec![4, 16],
            budget: Duration::from_millis(10),
            names: None,
            compiler: None,
            cache: PathBuf::new(),
        };
        let words = ["10", "5", "reduce", "4,16", "bcast:4,bcast:8,bcast:9,reduce:2", "-"];
        assert_eq!(known.arguments(&plan), words.map(OsString::from));
    }
}
