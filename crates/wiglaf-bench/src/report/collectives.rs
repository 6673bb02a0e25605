//! Collectives as tables.

use std::fmt::Write as _;

use wiglaf_base::table::Table;

use super::table::{length, push_folded};
use crate::collectives::{By, Ratio, Report};

/// For a terminal: the ratio of mean times by operation and length, and what they come to.
pub(super) fn collectives_table(report: &Report) -> String {
    let mut text = format!("{}\n", headline(report));
    push_ratios(&mut text, report);
    push_overlaps(&mut text, report, "");
    if let Some(report) = report.of_multicast() {
        text.push_str("\nwith `wiglaf run --collectives multicast`\n");
        push_ratios(&mut text, &report);
    }
    push_folded(&mut text, &report.absent);
    text
}

/// Ratios by operation and length, and what they come to.
fn push_ratios(text: &mut String, report: &Report) {
    let lengths = lengths(report);
    let head = std::iter::once(String::new()).chain(lengths.iter().map(|len| length(*len)));
    let mut table = Table::new("<15 >8", head);
    let ratios = report.ratios(By::Mean);
    for operation in operations(report) {
        let of = |len| ratios.iter().find(|r| r.ours.operation == operation && r.ours.len == len);
        let cell = |len| of(len).map_or(String::new(), |one| format!("{:.2}", one.ratio));
        if lengths.iter().any(|len| of(*len).is_some()) {
            let cells = lengths.iter().map(|len| cell(*len));
            table.row(std::iter::once(operation.to_owned()).chain(cells));
        }
    }
    text.push_str(&table.text());
    text.push_str(&totals(report));
}

/// Everything, for a file.
pub(super) fn collectives_markdown(report: &Report) -> String {
    let mut text =
        format!("# Collectives and exchanges\n\n{}\n\n{}\n", headline(report), totals(report));
    push_overlaps(&mut text, report, "\n");
    push_folded(&mut text, &report.absent);
    text.push_str(
        "\n![Ratios](collectives.svg)\n\nMicroseconds of a call, medians of the rounds; ratio = Wiglaf / best rival.\n\n",
    );
    push_rows(&mut text, report);
    if let Some(report) = report.of_multicast() {
        text.push_str("\nWith `wiglaf run --collectives multicast`:\n\n");
        text.push_str(&totals(&report));
        text.push('\n');
        push_rows(&mut text, &report);
    }
    text
}

/// A row for each operation and length.
fn push_rows(text: &mut String, report: &Report) {
    let (ours, rival) = ("Wiglaf, mean", "best rival, mean");
    let head = ["operation", "size", ours, rival, "ratio", "median", "slowest rank"];
    let mut table = Table::new("<", head);
    let [means, medians, slowest] = By::ALL.map(|by| report.ratios(by));
    for one in &means {
        let ratio = |list: &[Ratio<'_>]| {
            let same = list.iter().find(|r| std::ptr::eq(r.ours, one.ours));
            same.map_or_else(|| "-".into(), |r| bold(r.ratio))
        };
        table.row([
            one.ours.operation.clone(),
            length(one.ours.len),
            format!("{:.1}", one.ours.mean_us),
            format!("{:.1}, {}", one.rival.mean_us, one.who),
            bold(one.ratio),
            ratio(&medians),
            ratio(&slowest),
        ]);
    }
    text.push_str(&table.markdown());
}

/// Slower than the rival stands out.
fn bold(ratio: f64) -> String {
    if ratio > 1.0 { format!("**{ratio:.2}**") } else { format!("{ratio:.2}") }
}

fn headline(report: &Report) -> String {
    let wire = report.facts.nodes.get("cluster").map_or("", String::as_str);
    format!(
        "{} ranks on {} nodes ({wire}), {} rounds\nmean time of a call over Wiglaf / over the best TCP rival",
        report.ranks, report.nodes, report.rounds
    )
}

fn totals(report: &Report) -> String {
    let mut text = String::new();
    for by in By::ALL {
        let Some(total) = report.total(by) else { continue };
        let _ = writeln!(
            text,
            "by {:<13} geometric mean {:.2}, worst {:.2}, slower in {} of {}",
            format!("{}:", by.label()),
            total.geometric_mean,
            total.worst,
            total.slower,
            total.cells
        );
    }
    text
}

/// Overlap of non-blocking operations of the greatest length, for each contender.
fn push_overlaps(text: &mut String, report: &Report, gap: &str) {
    for operation in operations(report) {
        let of = |c: &crate::collectives::Contender| {
            let cells = c.cells.iter().filter(|cell| cell.operation == operation);
            let cell = cells.filter(|cell| cell.len <= OVERLAP_LEN).max_by_key(|cell| cell.len)?;
            Some((cell.len, format!("{} {:.2}", c.label, cell.overlap?)))
        };
        let all: Vec<_> = report.contenders.iter().filter_map(of).collect();
        let Some((len, _)) = all.first() else { continue };
        let said: Vec<&str> = all.iter().map(|(_, said)| said.as_str()).collect();
        let _ =
            writeln!(text, "{gap}overlap of {operation}, {}: {}", length(*len), said.join(", "));
    }
}

/// The length whose overlap is shown, or the next shorter one.
const OVERLAP_LEN: u64 = 256 << 10;

pub(super) fn operations(report: &Report) -> Vec<&str> {
    let mut names = Vec::new();
    for cell in report.contenders.iter().flat_map(|c| &c.cells) {
        if !names.contains(&cell.operation.as_str()) {
            names.push(cell.operation.as_str());
        }
    }
    names
}

pub(super) fn lengths(report: &Report) -> Vec<u64> {
    let mut lengths: Vec<u64> =
        report.contenders.iter().flat_map(|c| &c.cells).map(|cell| cell.len).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::tests::report;

    #[test]
    fn tables_say_where_it_is_slower() {
        let report = report();
        let table = collectives_table(&report);
        let row: Vec<&str> =
            table.lines().find(|l| l.starts_with("bcast")).unwrap().split_whitespace().collect();
        assert_eq!(row, ["bcast", "0.50", "2.00"]);
        assert!(table.contains("worst 2.00, slower in 1 of 3"), "{table}");
        let text = collectives_markdown(&report);
        assert!(
            text.contains("| bcast | 1 KiB | 40.0 | 20.0, Open MPI TCP | **2.00** |"),
            "{text}"
        );
    }
}
