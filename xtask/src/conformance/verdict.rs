//! What a suite found: the plain values that its runner fills in and the report prints.

use std::fmt;
use std::time::Duration;

/// How much longer than the rival's a run of ours takes before it is named.
const SLOWER: f64 = 2.0;
/// And before it counts as a failure: what takes so long does not work, whatever it ends with.
const FAR_SLOWER: f64 = 10.0;
/// Less than so much more may be the machine's.
const SLOWER_BY_MIN: Duration = Duration::from_secs(2);

/// Why a rival was not run where Wiglaf passes.
pub(crate) const NOT_ASKED: &str = "not asked";

/// How one test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It ran and found nothing wrong. Figures it gave stand beside.
    Pass(String),
    /// It found something wrong, crashed or did not end in time.
    Fail(String),
    /// It did not run, for this reason.
    Skip(String),
}

impl Verdict {
    /// A pass with nothing to say.
    pub(crate) fn pass() -> Self {
        Self::Pass(String::new())
    }

    pub(crate) fn passed(&self) -> bool {
        matches!(self, Self::Pass(_))
    }

    fn was_not_asked(&self) -> bool {
        matches!(self, Self::Skip(why) if why == NOT_ASKED)
    }

    fn failed(&self) -> bool {
        matches!(self, Self::Fail(_))
    }

    /// With the time that it took to come to it.
    pub(crate) fn after(self, took: Duration) -> Cell {
        Cell { verdict: self, took: Some(took) }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, detail) = match self {
            Self::Pass(detail) => ("pass", detail),
            Self::Fail(detail) => ("FAIL", detail),
            Self::Skip(detail) => ("skip", detail),
        };
        out.write_str(word)?;
        if detail.is_empty() { Ok(()) } else { write!(out, ": {detail}") }
    }
}

/// A verdict in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) verdict: Verdict,
    /// How long the run took, from its start by `wiglaf run` to its end; none where several verdicts are of one run.
    pub(crate) took: Option<Duration>,
}

impl From<Verdict> for Cell {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, took: None }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.verdict.fmt(out)?;
        match self.took {
            Some(took) if !matches!(self.verdict, Verdict::Skip(_)) => {
                write!(out, ", {:.1} s", took.as_secs_f64())
            }
            _ => Ok(()),
        }
    }
}

/// Whether the cell before the next one of a row passed: ours, where the next is the rival's.
pub(crate) fn last_passed(cells: &[Cell]) -> bool {
    cells.last().is_some_and(|cell| cell.verdict.passed())
}

/// A run that takes longer over Wiglaf than over the rival.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slower<'a> {
    pub(crate) test: &'a str,
    pub(crate) column: &'a str,
    /// Our time by the rival's.
    pub(crate) ratio: f64,
}

impl Slower<'_> {
    /// Whether it is so long that it counts as a failure.
    pub(crate) fn is_failure(&self) -> bool {
        self.ratio > FAR_SLOWER
    }
}

impl fmt::Display for Slower<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} ({}): {:.1} times as long as over the rival",
            self.test, self.column, self.ratio
        )
    }
}

/// Who stands in a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) heading: String,
    /// The column that a failure in this one is excused by; `None` for a rival's own column.
    pub(crate) judged_by: Option<Judge>,
}

/// What makes a failure of ours count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judge {
    /// The rival in that column passes.
    Rival(usize),
    /// Nothing excuses it.
    Nobody,
}

impl Column {
    pub(crate) fn ours(heading: impl Into<String>, judge: Judge) -> Self {
        Self { heading: heading.into(), judged_by: Some(judge) }
    }

    pub(crate) fn rival(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), judged_by: None }
    }
}

/// One test, in every column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) cells: Vec<Cell>,
}

impl Row {
    /// Whether there is nothing else to say of it.
    pub(crate) fn passes_everywhere(&self) -> bool {
        self.cells.iter().all(|Cell { verdict, .. }| verdict.passed() || verdict.was_not_asked())
    }

    /// Whether no cell of it was run.
    pub(crate) fn runs_nowhere(&self) -> bool {
        self.cells.iter().all(|cell| matches!(cell.verdict, Verdict::Skip(_)))
    }

    fn passes(&self, column: usize) -> bool {
        self.cells.get(column).is_some_and(|cell| cell.verdict.passed())
    }
}

/// All that one suite found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Findings {
    /// What ran, in which version, and what it takes to pass. Whole sentences.
    pub(crate) about: Vec<String>,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
}

impl Findings {
    /// The tests that fail with us though nothing excuses it, with their column.
    pub(crate) fn held_against_us(&self) -> Vec<(&str, &str)> {
        let mut against = Vec::new();
        for row in &self.rows {
            for (cell, column) in row.cells.iter().zip(&self.columns) {
                let counts = match column.judged_by {
                    None => false,
                    Some(Judge::Nobody) => cell.verdict.failed(),
                    Some(Judge::Rival(rival)) => cell.verdict.failed() && row.passes(rival),
                };
                if counts {
                    against.push((row.name.as_str(), column.heading.as_str()));
                }
            }
        }
        against
    }

    /// The runs that pass and take much longer with us than with the rival: the one that judges, else the next.
    pub(crate) fn slower(&self) -> Vec<Slower<'_>> {
        let mut slower = Vec::new();
        for (index, column) in self.columns.iter().enumerate() {
            let rival = match column.judged_by {
                None => continue,
                Some(Judge::Rival(rival)) => Some(rival),
                Some(Judge::Nobody) => {
                    (index..self.columns.len()).find(|&at| self.columns[at].judged_by.is_none())
                }
            };
            let Some(rival) = rival else { continue };
            for row in self.rows.iter().filter(|row| row.passes(index) && row.passes(rival)) {
                let took = |column: usize| row.cells.get(column)?.took;
                let Some((ours, rival)) = took(index).zip(took(rival)) else { continue };
                let ratio = ours.as_secs_f64() / rival.as_secs_f64();
                if ratio > SLOWER && ours >= rival + SLOWER_BY_MIN {
                    slower.push(Slower { test: &row.name, column: &column.heading, ratio });
                }
            }
        }
        slower
    }

    /// The tests that we skip and the rival passes: no failure, but no equal either.
    pub(crate) fn only_the_rival(&self) -> usize {
        let lacking = |row: &&Row| {
            row.cells.iter().zip(&self.columns).any(|(cell, column)| match column.judged_by {
                Some(Judge::Rival(rival)) => {
                    matches!(cell.verdict, Verdict::Skip(_)) && row.passes(rival)
                }
                _ => false,
            })
        };
        self.rows.iter().filter(lacking).count()
    }

    /// How often a column passed, failed and was skipped.
    pub(crate) fn tally(&self, column: usize) -> (usize, usize, usize) {
        let count = |is: fn(&Verdict) -> bool| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(column));
            cells.filter(|cell| is(&cell.verdict)).count()
        };
        (
            count(Verdict::passed),
            count(Verdict::failed),
            count(|cell| matches!(cell, Verdict::Skip(_))),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(ours: Verdict, rival: Verdict, judge: Judge) -> Findings {
        Findings {
            about: Vec::new(),
            columns: vec![Column::ours("ours", judge), Column::rival("rival")],
            rows: vec![Row { name: "t".into(), cells: vec![ours.into(), rival.into()] }],
        }
    }

    #[test]
    fn a_failure_counts_where_the_rival_passes() {
        let fail = || Verdict::Fail("wrong".into());
        let skip = || Verdict::Skip("not offered".into());
        let against =
            |ours, rival, judge| !findings(ours, rival, judge).held_against_us().is_empty();
        assert!(against(fail(), Verdict::pass(), Judge::Rival(1)));
        assert!(!against(fail(), fail(), Judge::Rival(1)));
        assert!(!against(fail(), skip(), Judge::Rival(1)));
        assert!(!against(Verdict::pass(), Verdict::pass(), Judge::Rival(1)));
        assert!(against(fail(), fail(), Judge::Nobody));
        assert!(!against(skip(), Verdict::pass(), Judge::Rival(1)));
        assert_eq!(findings(skip(), Verdict::pass(), Judge::Rival(1)).only_the_rival(), 1);
        assert_eq!(findings(skip(), skip(), Judge::Rival(1)).only_the_rival(), 0);
    }

    #[test]
    fn what_takes_much_longer_than_the_rival_is_named() {
        let cell = |verdict: Verdict, ms: u64| verdict.after(Duration::from_millis(ms));
        let passed = |ms| cell(Verdict::pass(), ms);
        let slower = |judge, cells: [Cell; 3]| {
            let findings = Findings {
                about: Vec::new(),
                columns: vec![
                    Column::ours("ours", judge),
                    Column::ours("too", judge),
                    Column::rival("rival"),
                ],
                rows: vec![Row { name: "t".into(), cells: cells.into() }],
            };
            let named = findings.slower();
            named.iter().map(|slower| (slower.to_string(), slower.is_failure())).collect::<Vec<_>>()
        };
        for judge in [Judge::Rival(2), Judge::Nobody] {
            let found = slower(judge, [passed(90_200), passed(9000), passed(3000)]);
            let named = "t (too): 3.0 times as long as over the rival".to_owned();
            assert_eq!(found.len(), 2);
            assert!(found[0].1, "thirty times as long");
            assert_eq!(found[1], (named, false));
            let machine = [passed(1900), passed(30_000), passed(16_000)];
            assert_eq!(slower(judge, machine), [], "that may be the machine");
        }
        let skip = cell(Verdict::Skip("not offered".into()), 300);
        assert_eq!(slower(Judge::Rival(2), [passed(90_000), passed(9000), skip]), []);
        let fail = cell(Verdict::Fail("wrong".into()), 90_000);
        assert_eq!(slower(Judge::Rival(2), [fail, passed(300), passed(300)]), []);
    }

    #[test]
    fn verdicts_read_well() {
        let took = Duration::from_millis(1234);
        assert_eq!(Verdict::Pass("2 tests".into()).after(took).to_string(), "pass: 2 tests, 1.2 s");
        assert_eq!(
            Verdict::Skip("not offered".into()).after(took).to_string(),
            "skip: not offered"
        );
        assert_eq!(Verdict::pass().to_string(), "pass");
        assert_eq!(Verdict::Fail("status 9".into()).to_string(), "FAIL: status 9");
    }
}
