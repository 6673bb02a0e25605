//! What most benchmarks come to: cases, in each of which everybody has one
//! value, and the figures that were wanted of Wiglaf.
//!
//! The ping-pong and the streams are curves and have reports of their own.
//! Everything else has this one, so that one table, one picture and one
//! reader serve them all.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::facts::Facts;
use crate::launch::{Settings, Transport};
use crate::stats::{Summary, median};

/// Names the layout of the result, for those who read it later.
pub const SCHEMA: &str = "wiglaf-bench/outcome/1";

/// One benchmark's result, as it is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// [`SCHEMA`].
    pub schema: String,
    /// The word of the command, such as `shaped`.
    pub name: String,
    /// What was measured, in one line.
    pub title: String,
    /// Where and with what.
    pub facts: Facts,
    /// Rounds that every contender ran.
    pub rounds: usize,
    /// The situations.
    pub cases: Vec<Case>,
    /// What was wanted, and what became of it.
    pub figures: Vec<Figure>,
    /// Who could not take part where, and why.
    pub absent: Vec<Missing>,
    /// What a reader must know to understand the cases.
    pub notes: Vec<String>,
}

impl Outcome {
    /// One without cases yet.
    pub fn new(name: &str, title: &str, facts: Facts, rounds: usize) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            name: name.to_owned(),
            title: title.to_owned(),
            facts,
            rounds,
            cases: Vec::new(),
            figures: Vec::new(),
            absent: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The case of this name.
    pub fn case(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == name)
    }
}

/// Somebody who did not take part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Who.
    pub who: String,
    /// In which case; in all of them if there is none.
    pub case: Option<String>,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.case.as_ref().map(|case| format!(" in \"{case}\"")).unwrap_or_default();
        write!(f, "{} did not take part{place}: {}", self.who, self.reason)
    }
}

/// One situation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// In a few words.
    pub name: String,
    /// What the values are, such as `goodput`.
    pub what: String,
    /// Their unit.
    pub unit: String,
    /// Which of two values is the better one.
    pub better: Better,
    /// What no value can pass, if that is known.
    pub limit: Option<Limit>,
    /// Everybody.
    pub entries: Vec<Entry>,
}

/// Which of two values is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// The larger.
    More,
    /// The smaller.
    Less,
}

/// A ceiling or a floor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// What it is, such as `ceiling`.
    pub name: String,
    /// In the unit of the case.
    pub value: f64,
}

/// One contender in one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name in tables.
    pub who: String,
    /// What carried its messages; nothing if no MPI was in it.
    pub transport: Option<Transport>,
    /// All that set it apart from the others.
    pub settings: Settings,
    /// What its MPI said it used, in a run of its own.
    pub evidence: Option<String>,
    /// The value, as a rule the median of the rounds.
    pub value: f64,
    /// The value of each round by itself: how far they are apart is how far
    /// to trust them.
    pub rounds: Vec<f64>,
    /// Which of them were cut off, counted from 0: their values are lower bounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut_off: Vec<usize>,
    /// Single samples of all rounds together, where there are any.
    pub times: Option<Summary>,
    /// What was counted besides; the median of the rounds.
    pub counters: BTreeMap<String, f64>,
}

impl Entry {
    /// One that has rounds only.
    pub fn of_rounds(who: &str, transport: Option<Transport>, rounds: Vec<f64>) -> Self {
        Self {
            who: who.to_owned(),
            transport,
            settings: Settings::new(),
            evidence: None,
            value: median(&rounds).unwrap_or(f64::NAN),
            rounds,
            cut_off: Vec::new(),
            times: None,
            counters: BTreeMap::new(),
        }
    }

    /// Whether the value is a lower bound: with more time for the rounds that were cut off, their
    /// median could be greater, whatever they would have come to.
    pub fn is_lower_bound(&self) -> bool {
        let cut = |(round, value): (usize, &f64)| match self.cut_off.contains(&round) {
            true => f64::INFINITY,
            false => *value,
        };
        let with_time: Vec<f64> = self.rounds.iter().enumerate().map(cut).collect();
        median(&with_time).is_some_and(|median| median > self.value)
    }
}

impl Case {
    /// A case with nobody in it yet.
    pub fn new(name: &str, what: &str, unit: &str, better: Better) -> Self {
        Self {
            name: name.to_owned(),
            what: what.to_owned(),
            unit: unit.to_owned(),
            better,
            limit: None,
            entries: Vec::new(),
        }
    }

    /// The contender of this name.
    pub fn who(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.who == name)
    }

    /// Wiglaf as users get it.
    pub fn ours(&self) -> Option<&Entry> {
        self.who(Transport::Wiglaf.label())
    }

    /// The best of those over TCP.
    pub fn best_rival(&self) -> Option<&Entry> {
        let is_rival = |e: &&Entry| e.transport.is_some_and(Transport::is_tcp_rival);
        let rivals = self.entries.iter().filter(is_rival);
        rivals.min_by(|a, b| match self.better {
            Better::Less => a.value.total_cmp(&b.value),
            Better::More => b.value.total_cmp(&a.value),
        })
    }

    /// Our value by the best rival's.
    pub fn ratio_to_best(&self) -> Option<f64> {
        Some(self.ours()?.value / self.best_rival()?.value)
    }

    /// Our value by the limit.
    pub fn ratio_to_limit(&self) -> Option<f64> {
        Some(self.ours()?.value / self.limit.as_ref()?.value)
    }
}

/// Something that is wanted of Wiglaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What.
    pub name: String,
    /// How much of it.
    pub wanted: Wanted,
    /// Of both numbers; `x` stands for a ratio.
    pub unit: String,
    /// What was measured; nothing if it could not be.
    pub reached: Option<f64>,
    /// Whether only so much is known of it: it is less than that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_below: bool,
    /// Between whom, or of what.
    pub detail: String,
}

/// How much is enough.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

impl Figure {
    /// A ratio.
    pub fn ratio(name: &str, wanted: Wanted, reached: Option<f64>, detail: String) -> Self {
        let (name, unit) = (name.to_owned(), "x".to_owned());
        Self { name, wanted, unit, reached, is_below: false, detail }
    }

    /// Whether it was reached; nobody knows of what was not measured.
    pub fn is_met(&self) -> Option<bool> {
        let met = self.reached.map(|reached| match self.wanted {
            Wanted::AtLeast(least) => reached >= least,
            Wanted::AtMost(most) => reached <= most,
        })?;
        // Of less than 2 one knows that it is no 3, and not whether it is a 1.
        let is_known = !self.is_below || met == matches!(self.wanted, Wanted::AtMost(_));
        is_known.then_some(met)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(better: Better) -> Case {
        let of = |transport: Transport, rounds: &[f64]| {
            Entry::of_rounds(transport.label(), Some(transport), rounds.to_vec())
        };
        let entries = vec![
            of(Transport::Wiglaf, &[9.0, 1.0, 4.0]),
            of(Transport::Tcp, &[8.0]),
            of(Transport::Ucx, &[2.0]),
            of(Transport::OfiRxd, &[1.0]),
        ];
        Case { entries, ..Case::new("a case", "time", "us", better) }
    }

    #[test]
    fn the_best_rival_is_over_tcp_and_best_in_the_sense_of_the_case() {
        let less = case(Better::Less);
        assert_eq!(less.best_rival().unwrap().who, "UCX TCP");
        assert_eq!(less.ratio_to_best(), Some(2.0));
        let more = Case {
            limit: Some(Limit { name: "ceiling".into(), value: 5.0 }),
            ..case(Better::More)
        };
        assert_eq!(more.best_rival().unwrap().who, "Open MPI TCP");
        assert_eq!((more.ratio_to_best(), more.ratio_to_limit()), (Some(0.5), Some(0.8)));
        assert_eq!(Case { entries: Vec::new(), ..less }.ratio_to_best(), None);
    }

    #[test]
    fn rounds_that_were_cut_off_make_a_median_a_bound_where_they_could_change_it() {
        let of = |rounds: &[f64], cut_off: &[usize]| Entry {
            cut_off: cut_off.to_vec(),
            ..Entry::of_rounds("somebody", None, rounds.to_vec())
        };
        assert!(!of(&[15.0, 1.0, 2.0], &[0]).is_lower_bound());
        assert!(of(&[15.0, 1.0, 15.0], &[0, 2]).is_lower_bound());
        assert!(of(&[15.0, 1.0], &[0]).is_lower_bound());
        // One that was cut off when it had less than another came to.
        assert!(of(&[3.0, 7.0, 9.0], &[0]).is_lower_bound());
        assert!(!of(&[3.0, 7.0, 9.0], &[]).is_lower_bound());
    }

    #[test]
    fn less_than_enough_is_enough_and_less_than_too_much_is_not_known() {
        let figure = |wanted, reached| {
            let exact = Figure::ratio("x", wanted, Some(reached), String::new());
            Figure { is_below: true, ..exact }.is_met()
        };
        assert_eq!(figure(Wanted::AtMost(1.0), 0.5), Some(true));
        assert_eq!(figure(Wanted::AtMost(1.0), 1.5), None);
        assert_eq!(figure(Wanted::AtLeast(1.0), 0.5), Some(false));
        assert_eq!(figure(Wanted::AtLeast(1.0), 1.5), None);
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        let figure = |wanted, reached| Figure::ratio("x", wanted, reached, String::new()).is_met();
        assert_eq!(figure(Wanted::AtLeast(0.97), Some(0.97)), Some(true));
        assert_eq!(figure(Wanted::AtMost(0.97), Some(0.98)), Some(false));
        assert_eq!(figure(Wanted::AtMost(0.97), None), None);
        assert_eq!(figure(Wanted::AtLeast(0.9), Some(f64::NAN)), Some(false));
    }
}
