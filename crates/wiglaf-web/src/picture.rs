//! Pictures as SVG within the page. Colours are the style sheet's classes: the page's policy allows no others.

use std::fmt::Write as _;

use crate::marks::{speed, text};
use crate::view::{Node, Pair};

/// Hosts side by side, their boxes and the gaps for cables between these.
const COLUMNS: usize = 4;
const BOX: (usize, usize) = (72, 30);
const GAP: usize = 14;
const ROW: usize = 38;
const SWITCH: usize = 26;

/// So many characters of a name fit a box.
const NAME_MAX: usize = 11;

/// The hosts, each with its cable to the switch.
pub(crate) fn cluster(nodes: &[Node]) -> String {
    let columns = nodes.len().clamp(1, COLUMNS);
    let width = columns * (BOX.0 + GAP) + GAP;
    let rows = nodes.len().div_ceil(columns);
    let height = SWITCH + 14 + rows * ROW;
    let best = nodes.iter().filter_map(|node| node.link_mbit_per_s).max();
    let mut cables = String::new();
    let mut boxes = String::new();
    for (at, node) in nodes.iter().enumerate() {
        let x = GAP + at % columns * (BOX.0 + GAP);
        let y = SWITCH + 14 + at / columns * ROW;
        let class = match (&node.error, node.link_mbit_per_s, best) {
            (Some(_), ..) => "bad",
            (None, Some(own), Some(best)) if own < best => "fair",
            (None, Some(_), _) => "good",
            (None, None, _) => "none",
        };
        let (gap, middle) = (x - GAP / 2, y + BOX.1 / 2);
        let _ =
            write!(cables, "<path class=\"cable {class}\" d=\"M{gap} {SWITCH}V{middle}H{x}\"/>");
        let under = match (&node.error, node.link_mbit_per_s) {
            (Some(_), _) => "does not tell".to_owned(),
            (None, Some(own)) => speed(own),
            (None, None) => text(node.interface.as_deref().unwrap_or("no card")),
        };
        let _ = write!(
            boxes,
            "<g><title>{}: {under}</title><rect class=\"host {class}\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"4\"/>\
             <text x=\"{}\" y=\"{}\">{}</text><text class=\"small\" x=\"{}\" y=\"{}\">{under}</text></g>",
            text(&node.name),
            BOX.0,
            BOX.1,
            x + 7,
            y + 13,
            text(&short(&node.name)),
            x + 7,
            y + 25
        );
    }
    format!(
        "<svg class=\"picture\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\" \
         aria-label=\"Hosts and their cables to the switch\">{cables}\
         <rect class=\"switch\" x=\"1\" y=\"1\" width=\"{}\" height=\"{SWITCH}\" rx=\"4\"/>\
         <text x=\"10\" y=\"18\">switch</text>{boxes}</svg>\n",
        width - 2
    )
}

fn short(name: &str) -> String {
    match name.chars().count() > NAME_MAX {
        true => name.chars().take(NAME_MAX - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// A square for each pair: how fast it is beside the best.
pub(crate) fn pairs(names: &[&str], pairs: &[Pair]) -> String {
    const SIDE: usize = 330;
    let count = names.len().max(1);
    // Names where they can be read, and speeds.
    let (has_names, has_numbers) = (count <= 24, count <= 8);
    let margin = if has_names { 66 } else { 0 };
    let cell = ((SIDE - margin) / count).clamp(3, 44);
    let best = pairs.iter().filter_map(|pair| pair.mb_per_s).fold(0.0, f64::max);
    let mut classes = [("good", String::new()), ("fair", String::new()), ("bad", String::new())];
    let mut numbers = String::new();
    let mut measured = vec![false; count * count];
    for pair in pairs {
        let place = |name: &str| names.iter().position(|known| *known == name);
        let Some((a, b)) = place(&pair.a).zip(place(&pair.b)).filter(|(a, b)| a != b) else {
            continue;
        };
        let (column, row) = (a.min(b), a.max(b));
        let class = match pair.mb_per_s.filter(|_| pair.failure.is_none()) {
            Some(rate) if rate >= 0.9 * best => 0,
            Some(rate) if rate >= 0.5 * best => 1,
            None if pair.failure.is_none() => continue,
            _ => 2,
        };
        measured[row * count + column] = true;
        let (x, y) = (margin + column * cell, row * cell);
        square(&mut classes[class].1, x, y, cell);
        if has_numbers && let Some(rate) = pair.mb_per_s {
            let (x, y) = (x + cell / 2, y + cell / 2 + 4);
            let _ = write!(numbers, "<text class=\"number\" x=\"{x}\" y=\"{y}\">{rate:.0}</text>");
        }
    }
    let mut unmeasured = String::new();
    for row in 1..count {
        for column in (0..row).filter(|column| !measured[row * count + column]) {
            square(&mut unmeasured, margin + column * cell, row * cell, cell);
        }
    }
    let mut svg = String::new();
    for (class, path) in
        classes.iter().map(|(class, path)| (*class, path)).chain([("none", &unmeasured)])
    {
        if !path.is_empty() {
            let _ = write!(svg, "<path class=\"pair {class}\" d=\"{path}\"/>");
        }
    }
    if has_names {
        for (row, name) in names.iter().enumerate() {
            let y = row * cell + cell / 2 + 4;
            let _ = write!(
                svg,
                "<text class=\"right\" x=\"{}\" y=\"{y}\">{}</text>",
                margin - 6,
                text(&short(name))
            );
            // Where the row ends the column of that name begins.
            if row + 1 < count {
                let x = margin + row * cell + 2;
                let _ = write!(
                    svg,
                    "<path class=\"step\" d=\"M{x} {y}h{}v{}\"/>",
                    cell / 2,
                    cell / 2 - 2
                );
            }
        }
    }
    let (width, height) = (margin + count * cell, count * cell);
    format!(
        "<svg class=\"picture\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\" \
         aria-label=\"Speed of each pair\">{svg}{numbers}</svg>\n"
    )
}

fn square(path: &mut String, x: usize, y: usize, cell: usize) {
    let side = cell - if cell > 8 { 2 } else { 1 };
    let _ = write!(path, "M{x} {y}h{side}v{side}h-{side}z");
}

/// Values over time, as a line of its own in a cell.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "places in a picture of 120 by 24"
)]
pub(crate) fn line(points: &[(u64, f64)], (from, to): (u64, u64), most: f64) -> String {
    let span = to.saturating_sub(from).max(1) as f64;
    let most = if most > 0.0 { most } else { 1.0 };
    // Longer than that between two points: nothing was known then, and no line is drawn.
    let hole = (span / 20.0) as u64;
    let mut path = String::new();
    let mut last: Option<u64> = None;
    for (at, value) in
        points.iter().filter(|(at, value)| *at >= from && *at <= to && value.is_finite())
    {
        let x = ((at - from) as f64 / span * 120.0).round() as i64;
        let y = (23.0 - (value / most).clamp(0.0, 1.0) * 22.0).round() as i64;
        let draws = last.is_some_and(|last| at.saturating_sub(last) <= hole);
        let _ = write!(path, "{}{x} {y}", if draws { 'L' } else { 'M' });
        last = Some(*at);
    }
    let now = points.last().map_or(String::new(), |(_, value)| format!("{value:.1}"));
    format!(
        "<svg class=\"line\" viewBox=\"0 0 120 24\" role=\"img\" aria-label=\"up to {now}\">\
         <path d=\"{path}\"/></svg><small>{now}</small>"
    )
}
