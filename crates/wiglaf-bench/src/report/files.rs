//! Tables of remote files.

use std::fmt::Write as _;

use super::table::{figure, fold, length, or_dash};
use crate::files::{Comparison, Contender, Measure, Report, Row};

/// One way's figures: MB/s written and read, p50 and p99 of a short read, p50
/// and p99 of a small file, and the time of all of them.
fn figures(contender: &Contender) -> [String; 7] {
    let rate = |row| contender.at(row).map(|p| figure(p.megabytes_per_s));
    let p50 = |row| contender.at(row).map(|p| figure(p.call.p50_us));
    let p99 = |row| contender.at(row).map(|p| or_dash(p.call.p99_us));
    let whole = contender.at(Row::SmallFiles).map(|p| figure(p.whole_s));
    [
        rate(Row::Write),
        rate(Row::Read),
        p50(Row::Read4K),
        p99(Row::Read4K),
        p50(Row::SmallFiles),
        p99(Row::SmallFiles),
        whole,
    ]
    .map(|cell| cell.unwrap_or_else(|| "-".to_owned()))
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
        one.p99_time_ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
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

/// Remote files for a terminal.
pub fn files_table(report: &Report) -> String {
    let mut text = fold(&title(report));
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\n{:>25} {:>8}  read 4 KiB, us       small file, us\n{:>25} {:>8} {:>7} {:>7}  {:>7} {:>8} \
         {:>8}\n",
        "write", "read", "MB/s", "MB/s", "p50", "p99", "p50", "p99", "all, s"
    );
    for contender in &report.contenders {
        let [write, read, p50, p99, small_p50, small_p99, whole] = figures(contender);
        let _ = writeln!(
            text,
            "{:<16} {write:>8} {read:>8} {p50:>7} {p99:>7}  {small_p50:>7} {small_p99:>8} {whole:>8}",
            contender.label,
        );
    }
    let aims = report.comparison.iter().map(aim);
    let evidence = report
        .contenders
        .iter()
        .filter_map(|c| Some(format!("{} encrypts with {}", c.label, c.evidence.as_ref()?)));
    let absent =
        report.absent.iter().map(|a| format!("{} did not take part: {}", a.way.label(), a.reason));
    for sentence in aims.chain(evidence).chain(absent) {
        text.push_str(&fold(&sentence));
        text.push('\n');
    }
    text
}

/// Remote files for a document.
pub fn files_markdown(report: &Report) -> String {
    let mut text = format!("{}\n\n", title(report));
    text.push_str(
        "| | write (MB/s) | read (MB/s) | read 4 KiB, p50 (us) | p99 (us) | small file, p50 (us) \
         | p99 (us) | all (s) |\n|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for contender in &report.contenders {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} | {} |", contender.label, figures(contender).join(" | "));
    }
    text.push('\n');
    for one in &report.comparison {
        let _ = writeln!(text, "- {}", aim(one));
    }
    for contender in &report.contenders {
        let caches = contender.settings.get("caches").map(String::as_str);
        let parts: Vec<&str> = contender.evidence.as_deref().into_iter().chain(caches).collect();
        if !parts.is_empty() {
            let _ = writeln!(text, "- {}: {}", contender.label, parts.join("; "));
        }
    }
    for one in &report.absent {
        let _ = writeln!(text, "- {} did not take part: {}", one.way.label(), one.reason);
    }
    text
}

#[cfg(test)]
pub(in crate::report) mod tests;
