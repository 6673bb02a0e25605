//! Tables for terminals (at most 80 columns) and for Markdown.

use wiglaf_base::table::Table;

use crate::active::{self, ActiveMessages};
use crate::bandwidth::{self, Ways};
use crate::contender::Absent;
use crate::facts::Facts;
use crate::floor::Floor;
use crate::launch::Transport;
use crate::pingpong::{self, Point, Report};
use crate::ring;
use crate::stats::{P99_SAMPLES_MIN, median};

/// A message length as people say it; odd ones in plain bytes.
pub fn length(len: u64) -> String {
    let unit = |shift: u32| len >= 1 << shift && len.is_multiple_of(1 << (shift - 1));
    match len {
        _ if unit(20) => format!("{} MiB", len as f64 / f64::from(1 << 20)),
        _ if unit(10) => format!("{} KiB", len as f64 / f64::from(1 << 10)),
        _ => format!("{len} B"),
    }
}

/// Three significant digits, as much as such figures are good for.
pub(super) fn figure(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A figure that not everything has.
pub(super) fn or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), figure)
}

/// A ratio that not everything has.
pub(super) fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}

/// `1 node`, `2 nodes`.
pub(super) fn nodes(count: usize) -> String {
    format!("{count} node{}", if count == 1 { "" } else { "s" })
}

/// In a terminal a result with more lengths than this shows its powers of two
/// only, and says so; documents have them all.
const ROWS_MAX: usize = 26;

/// A message's p50, p99 and rate.
fn figures(point: Option<&Point>) -> [String; 3] {
    let rate = point.filter(|p| p.len > 0).map(|p| p.megabytes_per_s);
    let time = point.map(|p| &p.half_round_trip);
    [time.map(|t| t.p50_us), time.and_then(|t| t.p99_us), rate].map(or_dash)
}

/// All lengths of a result, in order.
fn lens(report: &Report) -> Vec<u64> {
    let points = report.contenders.iter().flat_map(|c| &c.points);
    let mut lens: Vec<u64> = points.map(|p| p.len).collect();
    lens.sort_unstable();
    lens.dedup();
    lens
}

/// A row for each length: ours, the best rival's, and the ratio.
fn pingpong_rows(report: &Report, lens: &[u64], head: [&str; 9]) -> Table {
    let ours = report.contenders.iter().find(|c| c.transport == Transport::Wiglaf);
    let mut table = Table::new(">9  >7 >7 >7  <13>7 >7 >7  >5", head);
    for &len in lens {
        let (name, theirs) = named(pingpong::best_rival(&report.contenders, len));
        let compared = report.comparison.iter().find(|c| c.len == len);
        let ratio = ratio(compared.map(|c| c.time_ratio));
        let ours = figures(ours.and_then(|c| c.at(len)));
        table.row([&[length(len)][..], &ours, &[name], &figures(theirs), &[ratio]].concat());
    }
    table
}

/// The best rival's name and what it did.
fn named<P>(rival: Option<(Transport, &P)>) -> (String, Option<&P>) {
    let (name, point) = rival.map_or(("-", None), |(who, point)| (who.label(), Some(point)));
    (name.to_owned(), point)
}

/// The ping-pong for a terminal.
pub(super) fn pingpong_table(report: &Report) -> String {
    let all = lens(report);
    let mut shown = all.clone();
    if all.len() > ROWS_MAX {
        shown.retain(|len| *len == 0 || len.is_power_of_two());
    }
    let left_out = all.len() - shown.len();
    let head = ["size", "p50", "p99", "MB/s", "", "p50", "p99", "MB/s", "ratio"];
    let mut text = format!(
        "Half a round trip in us, medians of {} rounds; ratio = Wiglaf / best rival,\n\
         the median of the rounds' ratios; no p99 of rounds of less than {P99_SAMPLES_MIN} samples\n\
         {:>25}{:>34}\n{}",
        report.rounds,
        "Wiglaf",
        "best rival",
        pingpong_rows(report, &shown, head).text()
    );
    if left_out > 0 {
        let all = all.len();
        let said = format!("{left_out} of {all} sizes are left out here; the files have them all");
        push_folded(&mut text, [said]);
    }
    push_folded(&mut text, &report.absent);
    push_folded(&mut text, report.active_messages.iter().map(active_words));
    push_folded(&mut text, report.floors.iter().map(floor_words));
    push_folded(&mut text, &report.floors_absent);
    text
}

/// Active messages over a link in one sentence.
fn active_words(one: &ActiveMessages) -> String {
    let shown = |rounds: &[f64]| or_dash(median(rounds));
    format!(
        "active messages of {} over {}: p50 {} us, p99 {} us; bare frames in turn with them: p50 \
         {} us, p99 {} us; ratio {}",
        length(active::LEN),
        one.link,
        shown(&one.p50_us),
        shown(&one.p99_us),
        shown(&one.bare_p50_us),
        shown(&one.bare_p99_us),
        ratio(one.ratio()),
    )
}

/// A bare link in one sentence.
fn floor_words(floor: &Floor) -> String {
    let latency = floor.latency.iter().map(|l| {
        format!("{} p50 {} us, p99 {} us", length(l.len), figure(l.p50_us), figure(l.p99_us))
    });
    let stream = floor.stream_megabytes_per_s.map(|rate| format!("stream {} MB/s", figure(rate)));
    let parts: Vec<String> = latency.chain(stream).collect();
    let place = if floor.link == "shm" { ", on one node" } else { "" };
    format!("bare link {}{place}: {}", floor.link, parts.join("; "))
}

/// Adds sentences below a table, broken so that they fit a terminal.
pub(super) fn push_folded(text: &mut String, said: impl IntoIterator<Item: ToString>) {
    text.extend(said.into_iter().map(|one| fold(&one.to_string()) + "\n"));
}

/// Adds sentences to a document as a list.
pub(super) fn push_list(text: &mut String, said: impl IntoIterator<Item: ToString>) {
    text.extend(said.into_iter().map(|one| format!("- {}\n", one_line(&one.to_string()))));
}

/// Who is in no row of a document, and where everything was measured.
fn push_remarks(text: &mut String, absent: &[Absent], facts: &Facts) {
    let place = facts.place().map(|place| format!("measured on {place}"));
    let remarks = absent.iter().map(ToString::to_string).chain(place);
    text.extend(remarks.map(|line| format!("\n{}\n", one_line(&line))));
}

/// What others have said, on one line and without what would be a table's.
pub(super) fn one_line(text: &str) -> String {
    text.replace('\n', " ").replace('|', "/")
}

/// Breaks a sentence so that it fits a terminal.
pub(super) fn fold(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > 79 {
            out.push_str("\n  ");
            column = 2;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out
}

/// What the columns of both curves are.
const MEDIANS: &str = "Percentiles are medians of the rounds' percentiles, ratios medians of the \
                       rounds' ratios; there is no p99 of rounds of less than 200 samples.";

/// The ping-pong for a document.
pub(super) fn pingpong_markdown(report: &Report) -> String {
    let (ours, theirs) = ("Wiglaf p50 (us)", "p50 (us)");
    let head =
        ["size", ours, "p99 (us)", "MB/s", "best rival", theirs, "p99 (us)", "MB/s", "time ratio"];
    let table = pingpong_rows(report, &lens(report), head).markdown();
    let mut text = format!("{MEDIANS}\n\n{table}");
    text.extend(report.active_messages.iter().map(|one| format!("\n{}\n", active_words(one))));
    push_remarks(&mut text, &report.absent, &report.facts);
    text
}

/// The streams for a terminal.
pub(super) fn bandwidth_table(report: &bandwidth::Report) -> String {
    let head = ["size", "ways", "MB/s", "1000/s", "", "MB/s", "1000/s", "p50", "p99"];
    let mut text = format!(
        "Windows of {} messages, medians of {} rounds; ratios = Wiglaf's rate / best\n\
         rival's, medians of the rounds' ratios; no p99 below {P99_SAMPLES_MIN} windows a round\n\
         {:>27}{:>29}{:>18} ratio\n{}",
        report.window,
        report.rounds,
        "Wiglaf",
        "best rival",
        "ratio",
        bandwidth_rows(report, head).text()
    );
    push_folded(&mut text, &report.absent);
    if report.is_of_single_frames() {
        text.push_str(SINGLE_FRAMES);
    }
    text
}

/// Of streams without offloads.
const SINGLE_FRAMES: &str = "offloads off: nodes send and receive single frames\n";

/// The streams for a document.
pub(super) fn bandwidth_markdown(report: &bandwidth::Report) -> String {
    let rate = "1000 messages/s";
    let head =
        ["size", "ways", "Wiglaf MB/s", rate, "best rival", "MB/s", rate, "rate ratio", "at p99"];
    let mut text = format!("{MEDIANS}\n\n{}", bandwidth_rows(report, head).markdown());
    if report.is_of_single_frames() {
        text = text + "\n" + SINGLE_FRAMES;
    }
    push_remarks(&mut text, &report.absent, &report.facts);
    text
}

/// A row for each length and way: rates in MB/s and in 1000 messages a second, ratios at p50 and p99.
fn bandwidth_rows(report: &bandwidth::Report, head: [&str; 9]) -> Table {
    let ours = report.contenders.iter().find(|c| c.transport == Transport::Wiglaf);
    let mut places: Vec<(u64, Ways)> =
        report.contenders.iter().flat_map(|c| c.points.iter().map(|p| (p.len, p.ways))).collect();
    places.sort_unstable();
    places.dedup();
    let rates = |point: Option<&bandwidth::Point>| {
        [point.map(|p| p.megabytes_per_s), point.map(|p| p.messages_per_s / 1000.0)].map(or_dash)
    };
    let mut table = Table::new(">9 <5>8 >9  <13>8 >10  >5 >5", head);
    for (len, ways) in places {
        let (name, theirs) = named(bandwidth::best_rival(&report.contenders, len, ways));
        let compared = report.comparison.iter().find(|c| c.len == len && c.ways == ways);
        let ratios = [compared.map(|c| c.rate_ratio), compared.and_then(|c| c.p99_rate_ratio)];
        let place = [length(len), if ways == Ways::One { "one" } else { "both" }.to_owned()];
        let ours = rates(ours.and_then(|c| c.at(len, ways)));
        table.row([&place[..], &ours, &[name], &rates(theirs), &ratios.map(ratio)].concat());
    }
    table
}

/// The ring for a terminal.
pub(super) fn ring_table(report: &ring::Report) -> String {
    let mut table = Table::new("<14 >9", ["", "mean", "p50", "p99", "vs TCP"]);
    let tcp = report.contenders.iter().find(|c| c.transport == Transport::Tcp);
    for contender in &report.contenders {
        let times = [Some(contender.step_us()), Some(contender.step.p50_us), contender.step.p99_us];
        let ratio = ratio(tcp.map(|tcp| contender.step_us() / tcp.step_us()));
        table.row([&[contender.label.clone()][..], &times.map(or_dash), &[ratio]].concat());
    }
    let (ranks, nodes, len) = (report.ranks, nodes(report.nodes), length(report.len));
    let mut text = format!("{ranks} ranks on {nodes} in a ring, {len} a token, us a step\n");
    text.push_str(&table.text());
    push_folded(&mut text, &report.absent);
    text
}

#[cfg(test)]
pub(in crate::report) mod tests;
