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

/// Replaces the sections of the suites that ran, and leaves the others.
pub(crate) fn write(path: &Path, sections: &[(Suite, String)]) -> Result<(), String> {
    let failed = |why: io::Error| format!("{}: {why}", path.display());
    let before = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(why) if why.kind() == io::ErrorKind::NotFound => String::new(),
        Err(why) => return Err(failed(why)),
    };
    fs::write(path, merge(&before, sections)).map_err(failed)
}

fn marks(suite: Suite) -> (String, String) {
    (format!("<!-- {} -->\n", suite.name()), format!("<!-- /{} -->\n", suite.name()))
}

fn merge(before: &str, sections: &[(Suite, String)]) -> String {
    let mut text = HEAD.to_owned();
    for suite in Suite::ALL {
        let (begin, end) = marks(suite);
        let old = || before.split_once(&begin)?.1.split_once(&end).map(|(section, _)| section);
        let new = sections.iter().find(|(ran, _)| *ran == suite).map(|(_, text)| text.as_str());
        if let Some(section) = new.or_else(old) {
            text += &format!("\n{begin}{section}{end}");
        }
    }
    text
}

/// A section: what ran, the counts, the table.
pub(crate) fn section(suite: Suite, findings: &Findings, date: &str, machine: &str) -> String {
    let mut text = format!("## {}\n\n{date}, {machine}.\n", suite.title());
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
    let is_shown = |row: &&Row| !is_long || !row.passes_everywhere();
    for row in findings.rows.iter().filter(is_shown) {
        let cells: Vec<String> = row.cells.iter().map(|cell| escape(&cell.to_string())).collect();
        let _ = writeln!(text, "| {} | {} |", escape(&row.name), cells.join(" | "));
    }
    let left_out = findings.rows.len() - findings.rows.iter().filter(is_shown).count();
    if left_out > 0 {
        let _ =
            writeln!(text, "| *{left_out} more* | {} |", vec!["pass"; headings.len()].join(" | "));
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::verdict::{Column, Verdict};

    #[test]
    fn a_section_replaces_its_own_and_no_other() {
        let first = merge("", &[(Suite::Hpcc, "h1\n".into()), (Suite::Netpipe, "n1\n".into())]);
        let second = merge(&first, &[(Suite::Hpcc, "h2\n".into())]);
        assert!(second.starts_with(HEAD));
        assert!(second.contains("n1\n") && second.contains("h2\n") && !second.contains("h1\n"));
        assert_eq!(merge(&second, &[]), second);
    }

    #[test]
    fn rows_that_pass_everywhere_are_counted_in_a_long_table() {
        let columns =
            ["a", "b"].map(|heading| Column { heading: heading.to_owned(), judged_by: None });
        let row = |name: &str, second: Verdict| Row {
            name: name.to_owned(),
            cells: vec![Verdict::pass().into(), second.into()],
        };
        let rows = vec![row("one", Verdict::pass()), row("two", Verdict::Skip("why".to_owned()))];
        let findings = Findings { about: Vec::new(), columns: columns.to_vec(), rows };
        let long = table(&findings, true);
        assert!(long.contains("| two | pass | skip: why |\n| *1 more* | pass | pass |"), "{long}");
        let short = table(&findings, false);
        assert!(short.contains("| one |") && !short.contains("more"), "{short}");
    }

    #[test]
    fn a_bar_does_not_break_the_table() {
        assert_eq!(escape("a|b\nc"), "a\\|b c");
    }
}
