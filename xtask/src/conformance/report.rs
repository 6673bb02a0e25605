//! `docs/conformance.md`: one section per suite, each replaced when its suite has run.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use super::Suite;
use super::verdict::{Findings, Row};

const HEAD: &str = "\
# Conformance

What test suites of others say about Wiglaf, between emulated nodes, beside what they say about TCP on the same
nodes. `make conformance` runs fabtests (where `FABTESTS` names the folder in which they are installed), Debian's mpi4py,
NetPIPE, HPC Challenge and the applications in less than 30 minutes, `make conformance CONFORMANCE=all` all of it;
`MPICH_TESTS` and `IMB` name the folders of MPICH's own tests and of Intel's MPI benchmarks, which then run as well.
`cargo xtask conformance SUITE` runs one suite. Each replaces the sections of what it ran in this file: nothing
here is written by hand. *skip* means that the test itself says it cannot run there. Seconds are those of the whole
run, with its start. A run fails where a test fails over Wiglaf and passes over the rival, or takes ten times as
long and 2 s more.
";

/// What one run of a suite says.
pub(crate) struct Section {
    suite: Suite,
    /// The MPIs that were asked for; empty where none was.
    mpis: String,
    text: String,
}

impl Section {
    pub(crate) fn new(
        suite: Suite,
        mpis: &[String],
        findings: &Findings,
        date: &str,
        machine: &str,
    ) -> Self {
        // Other suites run on what they name.
        let mpis = if suite.is_long() { mpis.join(", ") } else { String::new() };
        let text = section(suite, &mpis, findings, date, machine);
        Self { suite, mpis, text }
    }

    fn name(&self) -> String {
        match self.mpis.as_str() {
            "" => self.suite.name().to_owned(),
            mpis => format!("{} {mpis}", self.suite.name()),
        }
    }
}

/// Replaces the sections of the suites that ran, and leaves the others.
pub(crate) fn write(path: &Path, sections: &[Section]) -> Result<(), String> {
    let failed = |why: io::Error| format!("{}: {why}", path.display());
    let before = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(why) if why.kind() == io::ErrorKind::NotFound => String::new(),
        Err(why) => return Err(failed(why)),
    };
    fs::write(path, merge(&before, sections)).map_err(failed)
}

fn marks(name: &str) -> (String, String) {
    (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->\n"))
}

/// The names of the sections of a suite that are there already.
fn names_of(suite: Suite, before: &str) -> Vec<String> {
    let names = before.lines().filter_map(|line| {
        let name = line.strip_prefix("<!-- ")?.strip_suffix(" -->")?;
        (name.split(' ').next() == Some(suite.name())).then(|| name.to_owned())
    });
    names.collect()
}

fn merge(before: &str, sections: &[Section]) -> String {
    let mut text = HEAD.to_owned();
    for suite in Suite::ALL {
        let mut names = names_of(suite, before);
        let new = sections.iter().filter(|section| section.suite == suite);
        for name in new.map(Section::name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for name in names {
            let (begin, end) = marks(&name);
            let old = || before.split_once(&begin)?.1.split_once(&end).map(|(section, _)| section);
            let new = sections.iter().find(|section| section.name() == name);
            if let Some(section) = new.map(|section| section.text.as_str()).or_else(old) {
                text += &format!("\n{begin}{section}{end}");
            }
        }
    }
    text
}

/// A section: what ran, the counts, the table.
fn section(suite: Suite, mpis: &str, findings: &Findings, date: &str, machine: &str) -> String {
    let on = if mpis.is_empty() { String::new() } else { format!(" on {mpis}") };
    let mut text = format!("## {}{on}\n\n{date}, {machine}.\n", suite.title());
    for sentence in &findings.about {
        text += &format!("{sentence}\n");
    }
    text += "\n| | pass | fail | skip |\n|---|---|---|---|\n";
    for (index, column) in findings.columns.iter().enumerate() {
        let (passed, failed, skipped) = findings.tally(index);
        let _ = writeln!(text, "| {} | {passed} | {failed} | {skipped} |", column.heading);
    }
    let against = findings.held_against_us().len();
    let lacking = findings.only_the_rival();
    let _ = writeln!(
        text,
        "\nFails over Wiglaf and passes over the rival: {against}. Skipped over Wiglaf and passed by the rival: \
         {lacking}.\n"
    );
    let slower: Vec<String> =
        findings.slower().iter().map(|slower| format!("- {slower}\n")).collect();
    if !slower.is_empty() {
        text += &format!("Much slower than the rival:\n\n{}\n", slower.concat());
    }
    text += &table(findings, suite.is_long());
    text
}

/// The rows; of a suite whose every test runs on every MPI only those that say something.
fn table(findings: &Findings, is_long: bool) -> String {
    let headings: Vec<&str> = findings.columns.iter().map(|c| c.heading.as_str()).collect();
    let mut text = format!("| test | {} |\n", headings.join(" | "));
    text += &format!("|---|{}\n", "---|".repeat(headings.len()));
    let is_shown = |row: &&Row| !is_long || !(row.passes_everywhere() || row.runs_nowhere());
    for row in findings.rows.iter().filter(is_shown) {
        let cells: Vec<String> = row.cells.iter().map(|cell| escape(&cell.to_string())).collect();
        let _ = writeln!(text, "| {} | {} |", escape(&row.name), cells.join(" | "));
    }
    let left_out: Vec<&Row> = findings.rows.iter().filter(|row| !is_shown(row)).collect();
    let (skipped, passed): (Vec<&Row>, Vec<&Row>) =
        left_out.into_iter().partition(|row| row.runs_nowhere());
    for (rows, verdict) in [(passed, "pass"), (skipped, "skip")] {
        if !rows.is_empty() {
            let cells = vec![verdict; headings.len()].join(" | ");
            let _ = writeln!(text, "| *{} more* | {cells} |", rows.len());
        }
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::verdict::{Column, NOT_ASKED, Verdict};

    #[test]
    fn a_section_replaces_its_own_and_no_other() {
        let section = |suite, mpis: &str, text: &str| Section {
            suite,
            mpis: mpis.to_owned(),
            text: format!("{text}\n"),
        };
        let (netpipe, hpcc) = (section(Suite::Netpipe, "", "n1"), section(Suite::Hpcc, "", "h1"));
        let first = merge("", &[hpcc, netpipe]);
        let second = merge(&first, &[section(Suite::Hpcc, "", "h2")]);
        assert!(second.starts_with(HEAD));
        assert!(second.contains("n1\n") && second.contains("h2\n") && !second.contains("h1\n"));
        assert_eq!(merge(&second, &[]), second);
        let third = merge(&second, &[section(Suite::Mpich, "openmpi@5", "m5")]);
        let fourth = merge(&third, &[section(Suite::Mpich, "mpich", "m0")]);
        let fifth = merge(&fourth, &[section(Suite::Mpich, "openmpi@5", "m6")]);
        assert!(fourth.contains("m5\n") && !fifth.contains("m5\n"), "{fifth}");
        assert!(fifth.contains("m6\n") && fifth.contains("m0\n"), "{fifth}");
    }

    #[test]
    fn rows_that_pass_everywhere_are_counted_in_a_long_table() {
        let columns =
            ["a", "b"].map(|heading| Column { heading: heading.to_owned(), judged_by: None });
        let row = |name: &str, second: Verdict| Row {
            name: name.to_owned(),
            cells: vec![Verdict::pass().into(), second.into()],
        };
        let not_asked = Verdict::Skip(NOT_ASKED.to_owned());
        let rows = vec![row("one", not_asked), row("two", Verdict::Skip("why".to_owned()))];
        let mut nowhere = row("three", Verdict::Skip("why".to_owned()));
        nowhere.cells.remove(0);
        let rows = [rows, vec![nowhere]].concat();
        let findings = Findings { about: Vec::new(), columns: columns.to_vec(), rows };
        let long = table(&findings, true);
        let counts = "| *1 more* | pass | pass |\n| *1 more* | skip | skip |";
        assert!(long.contains(&format!("| two | pass | skip: why |\n{counts}")), "{long}");
        let short = table(&findings, false);
        assert!(short.contains("| one |") && !short.contains("more"), "{short}");
    }

    #[test]
    fn a_bar_does_not_break_the_table() {
        assert_eq!(escape("a|b\nc"), "a\\|b c");
    }
}
