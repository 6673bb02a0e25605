//! Tables of cases and figures, for terminals (at most 80 columns) and for
//! Markdown.

use wiglaf_base::table::Table;

use super::table::{figure, or_dash, push_folded, push_list};
use crate::outcome::{Case, Entry, Figure, Outcome, Wanted};

/// The cases and figures for a terminal.
pub(super) fn outcome_table(outcome: &Outcome) -> String {
    let mut text = format!("{}, {} rounds\n", outcome.title, outcome.rounds);
    for case in &outcome.cases {
        text.push('\n');
        push_case(&mut text, case);
    }
    if !outcome.figures.is_empty() {
        text.push('\n');
        text.push_str(&figures_table(&outcome.figures));
    }
    if !outcome.absent.is_empty() || !outcome.notes.is_empty() {
        text.push('\n');
    }
    push_folded(&mut text, &outcome.absent);
    push_folded(&mut text, &outcome.notes);
    text
}

fn push_case(text: &mut String, case: &Case) {
    let limit = case.limit.as_ref();
    let bound = limit.map(|l| format!(" ({} {})", l.name, figure(l.value))).unwrap_or_default();
    let of_limit = limit.map_or(String::new(), |l| format!("of {}", l.name));
    let head = ["", "median", "least", "most", &of_limit, "vs TCP"];
    let mut table = Table::new("  <26 >9 >9 >9 >10 >8", head);
    for entry in &case.entries {
        let [least, most] = range(entry);
        let of_limit = limit.map_or(String::new(), |l| format!("{:.2}", entry.value / l.value));
        let against = against_best(case, entry);
        table.row([entry.who.clone(), value(entry), least, most, of_limit, against]);
        counters(entry).iter().for_each(|line| table.row([format!("  {line}")]));
    }
    text.push_str(&format!("{}: {}, {}{bound}\n", case.name, case.what, case.unit));
    text.push_str(&table.text());
}

/// The value by that of the best over TCP.
fn against_best(case: &Case, entry: &Entry) -> String {
    let ratio = case.best_rival().map(|best| entry.value / best.value);
    let more = if entry.is_lower_bound() { "> " } else { "" };
    ratio.filter(|r| r.is_finite()).map_or("-".into(), |ratio| format!("{more}{ratio:.2}"))
}

/// The value, or what it is more than.
pub(super) fn value(entry: &Entry) -> String {
    format!("{}{}", if entry.is_lower_bound() { "> " } else { "" }, figure(entry.value))
}

/// The worst and the best round.
fn range(entry: &Entry) -> [String; 2] {
    if entry.rounds.is_empty() {
        return ["-"; 2].map(str::to_owned);
    }
    let least = entry.rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = entry.rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Whoever was cut off could have come to more than the most of all.
    let more = if entry.cut_off.is_empty() { "" } else { "> " };
    let is_least_cut = entry.cut_off.iter().any(|round| entry.rounds[*round] <= least);
    let more_than_least = if is_least_cut { "> " } else { "" };
    [format!("{more_than_least}{}", figure(least)), format!("{more}{}", figure(most))]
}

/// Percentiles and what was counted, a few to a line.
fn counters(entry: &Entry) -> Vec<String> {
    let p99 =
        entry.times.map(|t| format!("p50 {} us, p99 {} us", figure(t.p50_us), or_dash(t.p99_us)));
    let counted = entry
        .counters
        .iter()
        .map(|(name, value)| format!("{} {}", name.replace('_', " "), figure(*value)));
    let mut lines: Vec<String> = Vec::new();
    for word in p99.into_iter().chain(counted) {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < 72 => {
                line.push_str(", ");
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// What was wanted and what was reached, for a terminal.
pub fn figures_table(figures: &[Figure]) -> String {
    figure_rows(figures, ["figure", "wanted", "reached", ""], |one| one.name.clone()).text()
}

/// A table for a document: what was wanted and what was reached.
pub fn figures_markdown(figures: &[Figure]) -> String {
    let name = |one: &Figure| match one.detail.as_str() {
        "" => one.name.clone(),
        detail => format!("{} ({detail})", one.name),
    };
    figure_rows(figures, ["what", "wanted", "reached", ""], name).markdown()
}

fn figure_rows(figures: &[Figure], head: [&str; 4], name: fn(&Figure) -> String) -> Table {
    let mut table = Table::new("<46 >9 >9 <", head);
    for one in figures {
        let unit = if one.unit == "x" { String::new() } else { format!(" {}", one.unit) };
        let wanted = match one.wanted {
            Wanted::AtLeast(least) => format!("≥ {}{unit}", figure(least)),
            Wanted::AtMost(most) => format!("≤ {}{unit}", figure(most)),
        };
        let reached = one.reached.map_or("-".to_owned(), |value| match one.is_below {
            // Rounded up, or it might not be true.
            true => format!("< {}{unit}", figure((value * 100.0).ceil() / 100.0)),
            false => format!("{}{unit}", figure(value)),
        });
        let met = match one.is_met() {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not measured",
        };
        table.row([name(one), wanted, reached, met.to_owned()]);
    }
    table
}

/// The cases for a document.
pub(super) fn outcome_markdown(outcome: &Outcome) -> String {
    let (limit, rival) = ("of the limit", "against the best over TCP");
    let mut table =
        Table::new("<<>", ["case", "who", "value", "least round", "most", limit, rival]);
    for case in &outcome.cases {
        let name = format!("{}: {}", case.name, case.what);
        for entry in &case.entries {
            let [least, most] = range(entry);
            let of_limit = case.limit.as_ref().map_or(String::new(), |l| {
                format!("{:.2} of {} {}", entry.value / l.value, figure(l.value), case.unit)
            });
            let value = format!("{} {}", value(entry), case.unit);
            let against = against_best(case, entry);
            table.row([&name, &entry.who, &value, &least, &most, &of_limit, &against]);
        }
    }
    let figures = figures_markdown(&outcome.figures);
    let mut text = format!("## {}\n\n{}\n{figures}", outcome.title, table.markdown());
    let absent = outcome.absent.iter().map(ToString::to_string);
    let place = outcome.facts.place().map(|place| format!("measured on {place}"));
    let remarks: Vec<String> = absent.chain(outcome.notes.iter().cloned()).chain(place).collect();
    if !remarks.is_empty() {
        text.push('\n');
    }
    push_list(&mut text, remarks);
    text
}

#[cfg(test)]
pub(in crate::report) mod tests;
