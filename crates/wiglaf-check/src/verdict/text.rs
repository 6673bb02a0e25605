//! The result as a person reads it.

use std::fmt::Write;

use super::blame::{Measure, Usual, Value, usual};
use super::words::figure;
use super::{Checked, Severity};
use crate::probe::Latency;

/// More hosts than this get one character a pair.
const FIGURES_HOSTS_MAX: usize = 12;

/// The findings, each with its fix, and the tables of pairs.
#[must_use]
pub fn text(checked: &Checked) -> String {
    let mut out = String::new();
    for finding in &checked.findings {
        let mark = match finding.severity {
            Severity::Fatal => "fatal",
            Severity::Slows => "slows",
            Severity::Note => "note ",
        };
        let _ = writeln!(out, "{mark}  {}\n       fix: {}", finding.sentence, finding.fix);
    }
    let (hosts, pairs) = (checked.hosts.len(), checked.pairs.len());
    if checked.findings.is_empty() {
        let _ = writeln!(out, "all is well: {hosts} hosts, {pairs} pairs");
    }
    let tables = matrix(checked);
    if !tables.is_empty() {
        let _ = write!(out, "\n{tables}");
    }
    out
}

/// Tables of the pairs: rates from row to column, and latencies.
#[must_use]
pub fn matrix(checked: &Checked) -> String {
    let names: Vec<&str> = checked.hosts.iter().map(|host| &host.name[..]).collect();
    let rate = |from: &str, to: &str| {
        checked.pairs.iter().find_map(|pair| {
            let way = match (&pair.a[..], &pair.b[..]) {
                (a, b) if (a, b) == (from, to) => &pair.a_to_b,
                (a, b) if (b, a) == (from, to) => &pair.b_to_a,
                _ => return None,
            };
            Some(way.stream_mb_s.get().copied())
        })
    };
    let latencies = Measure::Latency.of(&checked.pairs);
    let latency = |from: &str, to: &str| {
        let is_it = |pair: &&crate::probe::PairResult| {
            (pair.a == from && pair.b == to) || (pair.b == from && pair.a == to)
        };
        checked.pairs.iter().find(is_it)?;
        let of = |value: &&Value<'_>| {
            (value.a == from && value.b == to) || (value.b == from && value.a == to)
        };
        Some(latencies.iter().find(of).map(|value| value.value))
    };
    let rates = usual(Measure::Rate, &Measure::Rate.of(&checked.pairs));
    let times = usual(Measure::Latency, &latencies);
    let mut out = String::new();
    if rates.is_some() {
        table(&mut out, "MB/s from row to column", &names, rate, |value| {
            rates.is_some_and(|Usual { limit, .. }| value < limit)
        });
    }
    if times.is_some() {
        table(&mut out, "us from program to program, 8 bytes", &names, latency, |value| {
            times.is_some_and(|Usual { limit, .. }| value > limit)
        });
    }
    out
}

/// A cell is `None` where nothing was measured, and `Some(None)` where that failed.
fn table(
    out: &mut String,
    title: &str,
    names: &[&str],
    cell: impl Fn(&str, &str) -> Option<Option<f64>>,
    is_odd: impl Fn(f64) -> bool,
) {
    let widest = names.iter().map(|name| name.len()).max().unwrap_or(0);
    if names.len() > FIGURES_HOSTS_MAX {
        let _ = writeln!(out, "{title}: . as usual, o slower, ! failed");
        for from in names {
            let _ = write!(out, "  {from:>widest$} ");
            for to in names {
                out.push(match cell(from, to) {
                    None => ' ',
                    Some(None) => '!',
                    Some(Some(value)) if is_odd(value) => 'o',
                    Some(Some(_)) => '.',
                });
            }
            out.push('\n');
        }
        return;
    }
    let width = widest.max(6);
    let _ = writeln!(out, "{title} (* stands out)");
    let _ = write!(out, "  {:widest$}", "");
    for to in names {
        let _ = write!(out, " {to:>width$} ");
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    for from in names {
        let _ = write!(out, "  {from:>widest$}");
        for to in names {
            let (value, mark) = match cell(from, to) {
                None => (if from == to { "-" } else { "" }.to_owned(), ' '),
                Some(None) => ("failed".to_owned(), ' '),
                Some(Some(value)) => (figure(value), if is_odd(value) { '*' } else { ' ' }),
            };
            let _ = write!(out, " {value:>width$}{mark}");
        }
        // No spaces at the ends of lines.
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
}

/// What a change gave, for `wiglaf tune`: one line of the medians before and after, back to back and
/// after a pause.
#[must_use]
pub fn gain(
    (before, after): (&Latency, &Latency),
    (paused_before, paused_after): (&Latency, &Latency),
) -> String {
    let of = |before: &Latency, after: &Latency| super::machines::gain(before.p50_us, after.p50_us);
    format!(
        "a message back to back takes {}, after a pause {}",
        of(before, after),
        of(paused_before, paused_after)
    )
}
