//! A receiver's backlog, for a terminal.

use std::fmt::Write as _;

use super::table::{figure, length, push_absent};
use crate::backlog::{Measured, Report, UntilAll};
use crate::launch::Transport;

/// A line for each load: Wiglaf's time and that of the rival by which it looks worst.
pub fn backlog_table(report: &Report) -> String {
    let rounds = report.loads.iter().flat_map(|m| &m.until_all).map(|u| u.round_p50_us.len());
    let mut text = format!(
        "{} ranks on {} send to rank 0, which is away for {} ms each time; ms from its\n\
         return until all is there, of {} rounds of {}\n\
         {:>6} {:>6} {:<18}{:>16}  {:<18}{:>13}\n\
         {:>6} {:>6} {:<18}{:>8}{:>8}  {:<14}{:>8}{:>8}{:>6}\n",
        report.ranks - 1,
        if report.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", report.nodes) },
        report.away_ms,
        rounds.max().unwrap_or(0),
        report.times,
        "",
        "",
        "",
        "Wiglaf",
        "best rival",
        "",
        "each",
        "length",
        "received",
        "median",
        "most",
        "",
        "median",
        "most",
        "ratio",
    );
    for measured in &report.loads {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line(measured));
    }
    push_absent(&mut text, &report.absent);
    text
}

fn line(measured: &Measured) -> String {
    let load = &measured.load;
    let times = |of: Option<&UntilAll>| match of {
        Some(of) => [figure(of.p50_us() / 1000.0), figure(of.max_us / 1000.0)],
        None => ["-".to_owned(), "-".to_owned()],
    };
    let [ours, ours_max] = times(measured.of(Transport::Wiglaf));
    let best = measured.against_best();
    let [rival, rival_max] = times(best.and_then(|(transport, _)| measured.of(transport)));
    let name = best.map_or("-", |(transport, _)| transport.label());
    let ratio = best.map_or_else(|| "-".to_owned(), |(_, ratio)| format!("{ratio:.2}"));
    format!(
        "{:>6} {:>6} {:<18}{ours:>8}{ours_max:>8}  {name:<14}{rival:>8}{rival_max:>8}{ratio:>6}",
        load.count,
        length(load.len),
        load.order.label(),
    )
}
