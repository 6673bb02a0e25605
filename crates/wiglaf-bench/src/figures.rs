//! The figures that are wanted of the curves; cases bring their own.

use crate::bandwidth::{self, Ways};
use crate::collectives::{By, Report};
use crate::launch::Transport;
use crate::outcome::{Figure, Wanted};
use crate::pingpong;
use crate::stats::median;

/// Of a ping-pong between nodes on a cable (`direct`) or on a switch.
pub fn of_pingpong(report: &pingpong::Report, direct: bool) -> Vec<Figure> {
    let at = |len| report.comparison.iter().find(|c| c.len == len);
    let short = at(8);
    let (place, most) = if direct { ("a cable", 0.45) } else { ("a bridge", 0.5) };
    let rival = short.map_or("the best over TCP", |c| c.best_rival.label());
    let mut figures = vec![Figure::ratio(
        &format!("Open MPI 8 B, half round trip, nodes on {place}"),
        Wanted::AtMost(most),
        short.map(|c| c.time_ratio),
        format!("of {rival}{}", short.map_or(String::new(), |c| bare_frame(report, c))),
    )];
    let ours = report.contenders.iter().find(|c| c.transport == Transport::Wiglaf);
    let trip = ours.and_then(|c| c.at(8)).map(|p| p.half_round_trip);
    figures.push(Figure::ratio(
        &format!("Open MPI 8 B, p99, nodes on {place}"),
        Wanted::AtMost(2.0),
        trip.and_then(|t| Some(t.p99_us? / t.p50_us)),
        "of its own p50".to_owned(),
    ));
    for one in &report.active_messages {
        figures.push(Figure::ratio(
            &format!("active message 8 B over {}, half round trip, nodes on {place}", one.link),
            Wanted::AtMost(1.25),
            one.ratio(),
            format!("of a bare frame over {}", one.link),
        ));
    }
    if report.comparison.len() > 1 {
        figures.push(worst_size(report, "every size from 1 B to 4 MiB", 1.0));
    }
    figures
}

/// Of a ping-pong of Wiglaf's links among themselves: what choosing one costs.
pub fn of_links(report: &pingpong::Report) -> Figure {
    worst_size(report, "link auto against the best link of each size", 1.05)
}

fn worst_size(report: &pingpong::Report, name: &str, most: f64) -> Figure {
    let sizes = report.comparison.iter().filter(|c| c.len > 0);
    let worst = sizes.max_by(|a, b| a.time_ratio.total_cmp(&b.time_ratio));
    let detail = worst.map_or(String::new(), |c| {
        format!("of the time of {} at {} bytes, the worst size", c.best_rival.label(), c.len)
    });
    Figure::ratio(name, Wanted::AtMost(most), worst.map(|c| c.time_ratio), detail)
}

/// What no message can undercut: the fastest bare frame, by the best rival's time.
fn bare_frame(report: &pingpong::Report, short: &pingpong::Comparison) -> String {
    let rival = report.contenders.iter().find(|c| c.transport == short.best_rival);
    let rival_us = rival.and_then(|c| c.at(short.len)).map(|point| point.half_round_trip.p50_us);
    let bare = report.active_messages.iter();
    let bare = bare.filter_map(|one| Some((median(&one.bare_p50_us)?, &one.link)));
    match (bare.min_by(|a, b| a.0.total_cmp(&b.0)), rival_us) {
        (Some((bare_us, link)), Some(rival_us)) => {
            format!("; a bare frame over {link} is {:.2} of it", bare_us / rival_us)
        }
        _ => String::new(),
    }
}

/// Of collectives: all operations and lengths together, and the worst of them.
pub fn of_collectives(report: &Report, mean_most: f64, worst_most: f64) -> Vec<Figure> {
    let place = format!("collectives, {} ranks on {} nodes", report.ranks, report.nodes);
    let figures = [By::Mean, By::Median].map(|by| {
        let (total, ratios) = (report.total(by), report.ratios(by));
        let worst = ratios.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio));
        let slower =
            total.map_or(String::new(), |t| format!(", {} of {} slower", t.slower, t.cells));
        let at = worst.map_or(String::new(), |one| {
            format!("of {}, in {} of {} bytes", one.who, one.ours.operation, one.ours.len)
        });
        [
            Figure::ratio(
                &format!("{place}, geometric mean by {}", by.label()),
                Wanted::AtMost(mean_most),
                total.map(|t| t.geometric_mean),
                format!("of the best over TCP in each{slower}"),
            ),
            Figure::ratio(
                &format!("{place}, the worst by {}", by.label()),
                Wanted::AtMost(worst_most),
                worst.map(|one| one.ratio),
                at,
            ),
        ]
    });
    figures.into_iter().flatten().collect()
}

/// Of streams; `place` says what is particular about the nodes.
pub fn of_bandwidth(report: &bandwidth::Report, place: &str) -> Vec<Figure> {
    let figure = |name: &str, len: u64, ways: Ways, least: f64| {
        let found = report.comparison.iter().find(|c| c.len == len && c.ways == ways);
        let rival = found.map_or("the best over TCP", |c| c.best_rival.label());
        let reached = found.map(|c| c.rate_ratio);
        let name = format!("{name}{place}");
        Figure::ratio(&name, Wanted::AtLeast(least), reached, format!("of {rival}"))
    };
    vec![
        figure("message rate 8 B, window 64", 8, Ways::One, 3.0),
        figure("bandwidth 1 MiB, one way", 1 << 20, Ways::One, 1.7),
        figure("bandwidth 1 MiB, both ways at once", 1 << 20, Ways::Both, 1.5),
    ]
}
