//! Tables for terminals (at most 80 columns) and for Markdown.

use std::fmt::Write as _;

use crate::active::{self, ActiveMessages};
use crate::bandwidth::{self, Ways};
use crate::contender::Absent;
use crate::facts::Facts;
use crate::floor::Floor;
use crate::launch::Transport;
use crate::pingpong::{self, Comparison, Point, Report};
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

/// In a terminal a result with more lengths than this shows its powers of two
/// only, and says so; documents have them all.
const ROWS_MAX: usize = 26;

/// One line of the comparison: ours, the best rival's, and the ratio.
struct Row {
    length: String,
    ours: Option<[String; 3]>,
    rival: Option<(Transport, [String; 3])>,
    ratio: Option<String>,
}

fn figures(point: &Point) -> [String; 3] {
    let bandwidth = if point.len == 0 { "-".into() } else { figure(point.megabytes_per_s) };
    [figure(point.half_round_trip.p50_us), or_dash(point.half_round_trip.p99_us), bandwidth]
}

/// All lengths of a result, in order.
fn lens(report: &Report) -> Vec<u64> {
    let points = report.contenders.iter().flat_map(|c| &c.points);
    let mut lens: Vec<u64> = points.map(|p| p.len).collect();
    lens.sort_unstable();
    lens.dedup();
    lens
}

fn rows(report: &Report, lens: Vec<u64>) -> Vec<Row> {
    let ours = report.contenders.iter().find(|c| c.transport == Transport::Wiglaf);
    let row = |len| {
        let rival = pingpong::best_rival(&report.contenders, len);
        Row {
            length: length(len),
            ours: ours.and_then(|c| c.at(len)).map(figures),
            rival: rival.map(|(t, p)| (t, figures(p))),
            ratio: ratio(&report.comparison, len),
        }
    };
    lens.into_iter().map(row).collect()
}

fn ratio(comparison: &[Comparison], len: u64) -> Option<String> {
    comparison.iter().find(|c| c.len == len).map(|c| format!("{:.2}", c.time_ratio))
}

/// The ping-pong for a terminal.
pub fn pingpong_table(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |s: String| {
        text.push_str(s.trim_end());
        text.push('\n');
    };
    line(format!(
        "Half a round trip in us, medians of {} rounds; ratio = Wiglaf / best rival,\n\
         the median of the rounds' ratios; no p99 of rounds of less than {P99_SAMPLES_MIN} samples",
        report.rounds
    ));
    line(format!("{:>9}  {:^23}  {:^36}  {:>5}", "", "Wiglaf", "best rival", ""));
    line(format!(
        "{:>9}  {:>7} {:>7} {:>7}  {:<13}{:>7} {:>7} {:>7}  {:>5}",
        "size", "p50", "p99", "MB/s", "", "p50", "p99", "MB/s", "ratio"
    ));
    let nothing = || ["-"; 3].map(str::to_owned);
    let (all, mut shown) = (lens(report), lens(report));
    if all.len() > ROWS_MAX {
        shown.retain(|len| *len == 0 || len.is_power_of_two());
    }
    let left_out = all.len() - shown.len();
    for row in rows(report, shown) {
        let [p50, p99, rate] = row.ours.unwrap_or_else(nothing);
        let (name, theirs) = match row.rival {
            Some((transport, figures)) => (transport.label(), figures),
            None => ("-", nothing()),
        };
        let [their_p50, their_p99, their_rate] = theirs;
        line(format!(
            "{:>9}  {p50:>7} {p99:>7} {rate:>7}  {name:<13}{their_p50:>7} {their_p99:>7} \
             {their_rate:>7}  {:>5}",
            row.length,
            row.ratio.unwrap_or_else(|| "-".into()),
        ));
    }
    if left_out > 0 {
        line(fold(&format!(
            "{left_out} of {} sizes are left out here; the files have them all",
            all.len()
        )));
    }
    report.absent.iter().for_each(|a| line(fold(&a.to_string())));
    report.active_messages.iter().for_each(|one| line(fold(&active_words(one))));
    for floor in &report.floors {
        line(fold(&floor_words(floor)));
    }
    for reason in &report.floors_absent {
        line(fold(reason));
    }
    text
}

/// Active messages over a link in one sentence.
fn active_words(one: &ActiveMessages) -> String {
    let shown = |rounds: &[f64]| median(rounds).map_or("-".to_owned(), figure);
    format!(
        "active messages of {} over {}: p50 {} us, p99 {} us; bare frames in turn with them: p50 \
         {} us, p99 {} us; ratio {}",
        length(active::LEN),
        one.link,
        shown(&one.p50_us),
        shown(&one.p99_us),
        shown(&one.bare_p50_us),
        shown(&one.bare_p99_us),
        one.ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
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

pub(super) fn push_absent(text: &mut String, absent: &[Absent]) {
    for one in absent {
        text.push_str(&fold(&one.to_string()));
        text.push('\n');
    }
}

/// Who is in no row of a document, and where everything was measured.
fn push_remarks(text: &mut String, absent: &[Absent], facts: &Facts) {
    let place = facts.place().map(|place| format!("measured on {place}"));
    for line in absent.iter().map(ToString::to_string).chain(place) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{}", one_line(&line));
    }
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
pub fn pingpong_markdown(report: &Report) -> String {
    let mut text = format!("{MEDIANS}\n\n");
    text.push_str(
        "| size | Wiglaf p50 (us) | p99 (us) | MB/s | best rival | p50 (us) | p99 (us) | MB/s \
         | time ratio |\n|---:|---:|---:|---:|---|---:|---:|---:|---:|\n",
    );
    let nothing = || ["-"; 3].map(str::to_owned);
    for row in rows(report, lens(report)) {
        let ours = row.ours.unwrap_or_else(nothing).join(" | ");
        let (name, theirs) = match row.rival {
            Some((transport, figures)) => (transport.label(), figures),
            None => ("-", nothing()),
        };
        let ratio = row.ratio.unwrap_or_else(|| "-".into());
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {ours} | {name} | {} | {ratio} |",
            row.length,
            theirs.join(" | ")
        );
    }
    for one in &report.active_messages {
        let _ = writeln!(text, "\n{}", active_words(one));
    }
    push_remarks(&mut text, &report.absent, &report.facts);
    text
}

/// The streams for a terminal.
pub fn bandwidth_table(report: &bandwidth::Report) -> String {
    let mut text = format!(
        "Windows of {} messages, medians of {} rounds; ratios = Wiglaf's rate / best\n\
         rival's, medians of the rounds' ratios; no p99 below {P99_SAMPLES_MIN} windows a round\n\
         {:>9} {:<5}{:^18}  {:^32}  {:>5} {:>5}\n{:>9} {:<5}{:>8} {:>9}  {:<13}{:>8} {:>10}  {:>5} {:>5}\n",
        report.window,
        report.rounds,
        "",
        "",
        "Wiglaf",
        "best rival",
        "ratio",
        "ratio",
        "size",
        "ways",
        "MB/s",
        "1000/s",
        "",
        "MB/s",
        "1000/s",
        "p50",
        "p99"
    );
    for row in bandwidth_rows(report) {
        let BandwidthRow { len, ways, ours, rival, theirs, ratios } = row;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{len:>9} {ways:<5}{:>8} {:>9}  {rival:<13}{:>8} {:>10}  {:>5} {:>5}",
            ours[0], ours[1], theirs[0], theirs[1], ratios[0], ratios[1]
        );
    }
    push_absent(&mut text, &report.absent);
    if report.is_of_single_frames() {
        text.push_str(SINGLE_FRAMES);
    }
    text
}

/// Of streams without offloads.
const SINGLE_FRAMES: &str = "offloads off: nodes send and receive single frames\n";

/// The streams for a document.
pub fn bandwidth_markdown(report: &bandwidth::Report) -> String {
    let mut text = format!("{MEDIANS}\n\n");
    text.push_str(
        "| size | ways | Wiglaf MB/s | 1000 messages/s | best rival | MB/s | 1000 messages/s \
         | rate ratio | at p99 |\n|---:|---|---:|---:|---|---:|---:|---:|---:|\n",
    );
    for row in bandwidth_rows(report) {
        let BandwidthRow { len, ways, ours, rival, theirs, ratios } = row;
        let (ours, theirs) = (ours.join(" | "), theirs.join(" | "));
        let ratios = ratios.join(" | ");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {len} | {ways} | {ours} | {rival} | {theirs} | {ratios} |");
    }
    if report.is_of_single_frames() {
        let _ = write!(text, "\n{SINGLE_FRAMES}");
    }
    push_remarks(&mut text, &report.absent, &report.facts);
    text
}

/// One line: rates in MB/s and in 1000 messages a second, ratios at p50 and p99.
struct BandwidthRow {
    len: String,
    ways: &'static str,
    ours: [String; 2],
    rival: &'static str,
    theirs: [String; 2],
    ratios: [String; 2],
}

fn bandwidth_rows(report: &bandwidth::Report) -> Vec<BandwidthRow> {
    let ours = report.contenders.iter().find(|c| c.transport == Transport::Wiglaf);
    let mut places: Vec<(u64, Ways)> =
        report.contenders.iter().flat_map(|c| c.points.iter().map(|p| (p.len, p.ways))).collect();
    places.sort_unstable();
    places.dedup();
    let nothing = || ["-"; 2].map(str::to_owned);
    let rates = |point: &bandwidth::Point| {
        [figure(point.megabytes_per_s), figure(point.messages_per_s / 1000.0)]
    };
    let row = |(len, ways)| {
        let rival = bandwidth::best_rival(&report.contenders, len, ways);
        let compared = report.comparison.iter().find(|c| c.len == len && c.ways == ways);
        BandwidthRow {
            len: length(len),
            ways: match ways {
                Ways::One => "one",
                Ways::Both => "both",
            },
            ours: ours.and_then(|c| c.at(len, ways)).map_or_else(nothing, rates),
            rival: rival.map_or("-", |(transport, _)| transport.label()),
            theirs: rival.map_or_else(nothing, |(_, point)| rates(point)),
            ratios: compared.map_or_else(nothing, |c| {
                [
                    format!("{:.2}", c.rate_ratio),
                    c.p99_rate_ratio.map_or("-".into(), |r| format!("{r:.2}")),
                ]
            }),
        }
    };
    places.into_iter().map(row).collect()
}

/// The ring for a terminal.
pub fn ring_table(report: &ring::Report) -> String {
    let mut text = format!(
        "{} ranks on {} in a ring, {} a token, us a step\n{:<14} {:>9} {:>9} {:>9} {:>9}\n",
        report.ranks,
        if report.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", report.nodes) },
        length(report.len),
        "",
        "mean",
        "p50",
        "p99",
        "vs TCP"
    );
    let tcp = report.contenders.iter().find(|c| c.transport == Transport::Tcp);
    for contender in &report.contenders {
        let ratio = tcp.map_or("-".into(), |t| format!("{:.2}", contender.step_us() / t.step_us()));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<14} {:>9} {:>9} {:>9} {ratio:>9}",
            contender.label,
            figure(contender.step_us()),
            figure(contender.step.p50_us),
            or_dash(contender.step.p99_us),
        );
    }
    push_absent(&mut text, &report.absent);
    text
}

#[cfg(test)]
pub(in crate::report) mod tests;
