//! A receiver's backlog, for a terminal.

use wiglaf_base::table::Table;

use super::table::{length, nodes, or_dash, push_folded, ratio};
use crate::backlog::{Report, UntilAll};
use crate::launch::Transport;

/// A line for each load: Wiglaf's time and that of the rival by which it looks worst.
pub(super) fn backlog_table(report: &Report) -> String {
    let head = ["each", "length", "received", "median", "most", "", "median", "most", "ratio"];
    let mut table = Table::new(">6 >6 <18>8>8  <14>8>8>6", head);
    for measured in &report.loads {
        let load = &measured.load;
        let times = |of: Option<&UntilAll>| {
            [of.map(|of| of.p50_us() / 1000.0), of.map(|of| of.max_us / 1000.0)].map(or_dash)
        };
        let best = measured.against_best();
        let name = best.map_or("-", |(transport, _)| transport.label());
        let what = [load.count.to_string(), length(load.len), load.order.label().to_owned()];
        let ours = times(measured.of(Transport::Wiglaf));
        let theirs = times(best.and_then(|(transport, _)| measured.of(transport)));
        let ratio = ratio(best.map(|(_, ratio)| ratio));
        table.row([&what[..], &ours, &[name.to_owned()], &theirs, &[ratio]].concat());
    }
    let rounds = report.loads.iter().flat_map(|m| &m.until_all).map(|u| u.round_p50_us.len());
    let mut text = format!(
        "{} ranks on {} send to rank 0, which is away for {} ms each time; ms from its\n\
         return until all is there, of {} rounds of {}\n{:>48}  best rival\n{}",
        report.ranks - 1,
        nodes(report.nodes),
        report.away_ms,
        rounds.max().unwrap_or(0),
        report.times,
        "Wiglaf",
        table.text()
    );
    push_folded(&mut text, &report.absent);
    text
}
