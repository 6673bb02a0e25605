//! What most benchmarks come to: cases, in each of which everybody has one
//! value, and the figures that were wanted of Wiglaf.
//!
//! The ping-pong and the streams are curves and have reports of their own.
//! Everything else has this one, so that one table, one picture and one
//! reader serve them all.

use std::collections::BTreeMap;

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
            times: None,
            counters: BTreeMap::new(),
        }
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
        Self { name: name.to_owned(), wanted, unit: "x".to_owned(), reached, detail }
    }

    /// Whether it was reached; nobody knows of what was not measured.
    pub fn is_met(&self) -> Option<bool> {
        self.reached.map(|reached| match self.wanted {
            Wanted::AtLeast(least) => reached >= least,
            Wanted::AtMost(most) => reached <= most,
        })
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
    fn what_was_not_measured_is_neither_met_nor_missed() {
        let figure = |wanted, reached| Figure::ratio("x", wanted, reached, String::new()).is_met();
        assert_eq!(figure(Wanted::AtLeast(0.97), Some(0.97)), Some(true));
        assert_eq!(figure(Wanted::AtMost(0.97), Some(0.98)), Some(false));
        assert_eq!(figure(Wanted::AtMost(0.97), None), None);
        assert_eq!(figure(Wanted::AtLeast(0.9), Some(f64::NAN)), Some(false));
    }
}
