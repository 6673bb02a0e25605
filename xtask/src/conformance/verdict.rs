//! What a suite found: the plain values that its runner fills in and the report prints.

use std::fmt;

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

    fn failed(&self) -> bool {
        matches!(self, Self::Fail(_))
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
    pub(crate) cells: Vec<Verdict>,
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
                    Some(Judge::Nobody) => cell.failed(),
                    Some(Judge::Rival(rival)) => {
                        cell.failed() && row.cells.get(rival).is_some_and(Verdict::passed)
                    }
                };
                if counts {
                    against.push((row.name.as_str(), column.heading.as_str()));
                }
            }
        }
        against
    }

    /// The tests that we skip and the rival passes: no failure, but no equal either.
    pub(crate) fn only_the_rival(&self) -> usize {
        let lacking = |row: &&Row| {
            row.cells.iter().zip(&self.columns).any(|(cell, column)| match column.judged_by {
                Some(Judge::Rival(rival)) => {
                    matches!(cell, Verdict::Skip(_))
                        && row.cells.get(rival).is_some_and(Verdict::passed)
                }
                _ => false,
            })
        };
        self.rows.iter().filter(lacking).count()
    }

    /// How often a column passed, failed and was skipped.
    pub(crate) fn tally(&self, column: usize) -> (usize, usize, usize) {
        let count = |is: fn(&Verdict) -> bool| {
            self.rows.iter().filter_map(|row| row.cells.get(column)).filter(|c| is(c)).count()
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
            rows: vec![Row { name: "t".into(), cells: vec![ours, rival] }],
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
    fn verdicts_read_well() {
        assert_eq!(Verdict::pass().to_string(), "pass");
        assert_eq!(Verdict::Fail("status 9".into()).to_string(), "FAIL: status 9");
    }
}
