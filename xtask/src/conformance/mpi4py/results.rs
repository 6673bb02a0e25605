//! Reads what Python's unittest says, rank by rank.

use std::collections::BTreeMap;

use crate::conformance::verdict::Verdict;

/// How a test ended, on the rank where it went worst.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Good,
    /// The suite itself leaves it out with this MPI.
    Skipped,
    Bad(String),
}

impl Outcome {
    pub(crate) fn is_bad(&self) -> bool {
        matches!(self, Self::Bad(_))
    }

    fn weight(&self) -> u8 {
        match self {
            Self::Skipped => 0,
            Self::Good => 1,
            Self::Bad(_) => 2,
        }
    }
}

/// What one start of the runner found.
#[derive(Debug)]
pub(crate) struct Results {
    /// By `module.Class.test`.
    pub(crate) tests: BTreeMap<String, Outcome>,
    /// Whether every rank came to the end.
    pub(crate) is_complete: bool,
}

impl Results {
    /// Of the ranks' texts. `ended`: whether all came to an end by themselves.
    pub(crate) fn read(texts: &[String], ended: bool) -> Self {
        let mut tests: BTreeMap<String, Outcome> = BTreeMap::new();
        let mut is_complete = !texts.is_empty();
        for text in texts {
            is_complete &= text.lines().any(|line| line.starts_with("Ran "));
            for (test, outcome) in read_rank(text, ended) {
                let worst = tests.entry(test).or_insert_with(|| outcome.clone());
                if outcome.weight() > worst.weight() {
                    *worst = outcome;
                }
            }
        }
        Self { tests, is_complete }
    }
}

/// The tests of one rank. One that began and has no result is the one that hung or crashed.
fn read_rank(text: &str, ended: bool) -> Vec<(String, Outcome)> {
    let mut tests: Vec<(String, Option<Outcome>)> = Vec::new();
    for line in text.lines() {
        let rest = match begins(line) {
            Some((test, rest)) => {
                tests.push((test, None));
                rest
            }
            None => line,
        };
        if let Some((_, outcome @ None)) = tests.last_mut() {
            // Whatever a test prints itself may stand before the word.
            *outcome = ended_with(rest.trim());
        }
    }
    let unended = if ended { "the program ended in it" } else { "it does not end" };
    let named = |outcome: Option<Outcome>| outcome.unwrap_or(Outcome::Bad(unended.into()));
    tests.into_iter().map(|(test, outcome)| (test, named(outcome))).collect()
}

/// `testX (module.Class.testX) ... rest`.
fn begins(line: &str) -> Option<(String, &str)> {
    let (head, rest) =
        line.split_once(" ... ").or_else(|| Some((line.strip_suffix(" ...")?, "")))?;
    let (name, test) = head.split_once(" (")?;
    let test = test.strip_suffix(')')?;
    let is_test = name.starts_with("test") || name.starts_with("setUpClass");
    (is_test && test.starts_with("test_")).then(|| {
        // A class that cannot be set up is named without a test.
        let test = if test.ends_with(name) { test.to_owned() } else { format!("{test}.{name}") };
        (test, rest)
    })
}

fn ended_with(rest: &str) -> Option<Outcome> {
    let word = rest.rsplit(|c: char| c.is_whitespace()).next().unwrap_or_default();
    if word == "ok" || rest.ends_with("expected failure") {
        return Some(Outcome::Good);
    }
    if rest.starts_with("skipped") || rest.contains(" skipped ") {
        return Some(Outcome::Skipped);
    }
    (word == "FAIL" || word == "ERROR").then(|| Outcome::Bad(word.to_lowercase()))
}

/// The verdict on a test that is bad somewhere.
pub(crate) fn verdict(outcome: Option<&Outcome>) -> Verdict {
    match outcome {
        None => Verdict::Skip("not run".to_owned()),
        Some(Outcome::Good) => Verdict::pass(),
        Some(Outcome::Skipped) => Verdict::Skip("by the suite".to_owned()),
        Some(Outcome::Bad(why)) => Verdict::Fail(why.clone()),
    }
}

/// The verdict on tests none of which is bad anywhere.
pub(crate) fn summary<'a>(outcomes: impl Iterator<Item = Option<&'a Outcome>>) -> Verdict {
    let (mut good, mut skipped, mut missing) = (0, 0, 0);
    for outcome in outcomes {
        match outcome {
            Some(Outcome::Good) => good += 1,
            Some(_) => skipped += 1,
            None => missing += 1,
        }
    }
    match (good, skipped, missing) {
        (0, 0, _) => Verdict::Skip("not run".to_owned()),
        (0, skipped, 0) => Verdict::Skip(format!("{skipped} by the suite")),
        (good, _, 0) => Verdict::Pass(good.to_string()),
        (good, _, missing) => Verdict::Pass(format!("{good}, {missing} not reached")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "\
testA (test_x.TestX.testA) ... ok
testB (test_x.TestX.testB) ... skipped 'mpi-something'
testC (test_x.TestX.testC) ... a warning
ok
testD (test_x.TestX.testD) ... FAIL
setUpClass (test_y.TestY) ... ERROR

Ran 4 tests in 0.1s
";

    fn of(results: &Results, test: &str) -> Outcome {
        results.tests[test].clone()
    }

    #[test]
    fn outcomes_are_read() {
        let results = Results::read(&[WHOLE.to_owned()], true);
        assert!(results.is_complete);
        assert_eq!(of(&results, "test_x.TestX.testA"), Outcome::Good);
        assert_eq!(of(&results, "test_x.TestX.testB"), Outcome::Skipped);
        assert_eq!(of(&results, "test_x.TestX.testC"), Outcome::Good);
        assert_eq!(of(&results, "test_x.TestX.testD"), Outcome::Bad("fail".into()));
        assert_eq!(of(&results, "test_y.TestY.setUpClass"), Outcome::Bad("error".into()));
    }

    #[test]
    fn the_worst_rank_counts_and_a_hang_is_seen() {
        let hung = "testA (test_x.TestX.testA) ... ok\ntestB (test_x.TestX.testB) ... ";
        let good = "testA (test_x.TestX.testA) ... ok\ntestB (test_x.TestX.testB) ... ok\n";
        let results = Results::read(&[good.to_owned(), hung.to_owned()], false);
        assert!(!results.is_complete);
        assert_eq!(of(&results, "test_x.TestX.testA"), Outcome::Good);
        assert_eq!(of(&results, "test_x.TestX.testB"), Outcome::Bad("it does not end".into()));
    }

    #[test]
    fn no_output_is_not_complete() {
        assert!(!Results::read(&[String::new()], true).is_complete);
        assert!(!Results::read(&[], true).is_complete);
    }
}
