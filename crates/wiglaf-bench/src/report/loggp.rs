//! LogGP's parameters, for a terminal.

use wiglaf_base::table::Table;

use super::table::{figure, length, or_dash, push_folded};
use crate::loggp::{Report, Segment};

/// A line for each contender and range of lengths.
pub(super) fn loggp_table(report: &Report) -> String {
    let rounds = report.rounds;
    let mut text = format!(
        "LogGP, medians of {rounds} round{}; o_s and o_r of the first and the last length\n",
        if rounds == 1 { "" } else { "s" }
    );
    text.push_str("a dash for L: the overheads take all of half a round trip\n");
    for same_node in [false, true] {
        let place = if same_node { "within a node" } else { "between two" };
        let head = [place, "bytes", "L us", "o_s us", "o_r us", "g us", "G ns/B"];
        let mut table = Table::new("<14 >13 >7 >13 >13 >7 >7", head);
        for one in report.contenders.iter().filter(|one| one.same_node == same_node) {
            for (place, segment) in one.segments.iter().enumerate() {
                table.row(row(if place == 0 { &one.label } else { "" }, segment));
            }
            let most = length(one.eager_max);
            table.row([format!("{:<14} sends at once up to {most}", "")]);
        }
        if !table.is_empty() {
            text = text + "\n" + &table.text();
        }
    }
    if !report.absent.is_empty() {
        text.push('\n');
    }
    push_folded(&mut text, &report.absent);
    text
}

fn row(label: &str, segment: &Segment) -> [String; 7] {
    let both = |[first, last]: [f64; 2]| format!("{} - {}", figure(first), figure(last));
    [
        label.to_owned(),
        format!("{} - {}", length(segment.from), length(segment.to)),
        or_dash(Some(segment.latency_us).filter(|us| *us > 0.0)),
        both(segment.send_us),
        both(segment.recv_us),
        figure(segment.gap_us),
        format!("{:.3}", segment.gap_ns_per_byte),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Absent;
    use crate::facts::Facts;
    use crate::launch::Transport;
    use crate::loggp::{Contender, SCHEMA};

    #[test]
    fn each_range_has_a_line() {
        let segment = Segment {
            from: 1,
            to: 1024,
            latency_us: 5.25,
            send_us: [1.0, 1.5],
            recv_us: [0.5, 0.75],
            gap_us: 1.25,
            gap_ns_per_byte: 0.125,
        };
        let one = Contender {
            transport: Transport::Wiglaf,
            label: "Wiglaf".into(),
            same_node: false,
            settings: Default::default(),
            evidence: None,
            eager_max: 65536,
            points: vec![],
            segments: vec![segment, Segment { from: 2048, to: 8192, ..segment }],
        };
        let report = Report {
            schema: SCHEMA.into(),
            facts: Facts::gather(Default::default()),
            rate: None,
            rounds: 5,
            contenders: vec![one],
            absent: vec![Absent { transport: Transport::Ucx, reason: "no UCX".into() }],
        };
        let text = loggp_table(&report);
        let expected = "
between two            bytes    L us        o_s us        o_r us    g us  G ns/B
Wiglaf          1 B - 1 KiB     5.25   1.00 - 1.50   0.50 - 0.75    1.25   0.125";
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed(&text).contains(&squeezed(expected)), "{text}");
        assert!(text.contains("UCX TCP did not take part: no UCX"), "{text}");
        assert!(!text.contains("within a node"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
