//! Tables of remote files.

use wiglaf_base::table::Table;

use super::table::{fold, length, or_dash, push_folded, push_list, ratio};
use crate::files::{Comparison, Measure, Report, Row};

/// Each way's figures: MB/s written and read, p50 and p99 of a short read, p50
/// and p99 of a small file, and the time of all of them.
fn rows(report: &Report, head: [&str; 8]) -> Table {
    let mut table = Table::new("<16 >8 >8 >7 >7  >7 >8 >8", head);
    for contender in &report.contenders {
        let rate = |row| contender.at(row).map(|p| p.megabytes_per_s);
        let p50 = |row| contender.at(row).map(|p| p.call.p50_us);
        let p99 = |row| contender.at(row).and_then(|p| p.call.p99_us);
        let whole = contender.at(Row::SmallFiles).map(|p| p.whole_s);
        let (short, small) = (Row::Read4K, Row::SmallFiles);
        let rates = [rate(Row::Write), rate(Row::Read)];
        let times = [p50(short), p99(short), p50(small), p99(small), whole];
        let name = [contender.label.clone()];
        table.row([&name[..], &rates.map(or_dash), &times.map(or_dash)].concat());
    }
    table
}

/// A ratio and its aim, in one sentence.
fn aim(one: &Comparison) -> String {
    let (what, least) = match one.measure {
        Measure::CallTime => ("time", "at most"),
        Measure::WholeTime => ("whole time", "at most"),
        Measure::Rate => ("rate", "at least"),
    };
    format!(
        "{}: {} / {}, {what} {:.2} (p99 of calls {}); aim {least} {}: {}",
        one.row.label(),
        one.ours.label(),
        one.other.label(),
        one.ratio,
        ratio(one.p99_time_ratio),
        one.aim,
        if one.is_met { "met" } else { "missed" },
    )
}

fn title(report: &Report) -> String {
    format!(
        "Files of another node, {} rounds: {} in calls of 1 MiB, {} reads of 4 KiB, {} small files",
        report.rounds,
        length(report.sizes.stream_bytes),
        report.sizes.reads,
        report.sizes.small_files
    )
}

fn absent(report: &Report) -> impl Iterator<Item = String> {
    report.absent.iter().map(|a| format!("{} did not take part: {}", a.way.label(), a.reason))
}

/// Remote files for a terminal.
pub(super) fn files_table(report: &Report) -> String {
    let head = ["", "MB/s", "MB/s", "p50", "p99", "p50", "p99", "all, s"];
    let mut text = format!(
        "{}\n{:>25}     read  read 4 KiB, us       small file, us\n{}",
        fold(&title(report)),
        "write",
        rows(report, head).text()
    );
    let evidence = report
        .contenders
        .iter()
        .filter_map(|c| Some(format!("{} encrypts with {}", c.label, c.evidence.as_ref()?)));
    let aims = report.comparison.iter().map(aim);
    push_folded(&mut text, aims.chain(evidence).chain(absent(report)));
    text
}

/// Remote files for a document.
pub(super) fn files_markdown(report: &Report) -> String {
    let (read, small) = ("read 4 KiB, p50 (us)", "small file, p50 (us)");
    let head = ["", "write (MB/s)", "read (MB/s)", read, "p99 (us)", small, "p99 (us)", "all (s)"];
    let mut text = format!("{}\n\n{}\n", title(report), rows(report, head).markdown());
    let settings = report.contenders.iter().filter_map(|contender| {
        let caches = contender.settings.get("caches").map(String::as_str);
        let parts: Vec<&str> = contender.evidence.as_deref().into_iter().chain(caches).collect();
        (!parts.is_empty()).then(|| format!("{}: {}", contender.label, parts.join("; ")))
    });
    let aims = report.comparison.iter().map(aim);
    push_list(&mut text, aims.chain(settings).chain(absent(report)));
    text
}

#[cfg(test)]
pub(in crate::report) mod tests;
