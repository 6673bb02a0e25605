//! Counters as tables of 80 columns.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use wiglaf_counters::{Peer, Snapshot};

use super::Seen;
use crate::output;

/// What was seen before, by epoch.
pub(super) type Before = BTreeMap<u64, Snapshot>;

static NOTHING: Before = Before::new();

const HOME_AND_CLEAR: &str = "\x1b[H\x1b[2J";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";
/// A snapshot is written every 100 ms; one that is older than this is worth a word.
const AGE_MS_MAX: u64 = 1000;

/// How tables look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style<'a> {
    pub(super) colours: bool,
    /// Over what was shown before.
    pub(super) redraws: bool,
    /// Traffic per second, since `before`.
    pub(super) rates: bool,
    pub(super) before: &'a Before,
}

impl Style<'_> {
    pub(super) fn plain(colours: bool) -> Self {
        Style { colours, redraws: false, rates: false, before: &NOTHING }
    }
}

/// All that was seen: for each job its endpoints, their peers, and what was dropped.
pub(super) fn tables(seen: &[Seen], style: &Style<'_>) -> String {
    let mut text = if style.redraws { HOME_AND_CLEAR.to_owned() } else { String::new() };
    if seen.is_empty() {
        return text + "no program with an endpoint is running\n";
    }
    let names: BTreeMap<SocketAddrV4, String> =
        seen.iter().map(|s| (s.snapshot.identity.at, name_of(s))).collect();
    for job in seen.chunk_by(|a, b| a.snapshot.identity.job == b.snapshot.identity.job) {
        let identity = &job[0].snapshot.identity;
        let mark = if identity.job.is_empty() { "no job" } else { &identity.job };
        let (mark, program) = (output::visible(mark), output::visible(&identity.program));
        text += &format!("{mark}: {program}, endpoints: {}\n", job.len());
        text += &endpoints(job, style);
        text += &peers(job, &names, style);
        text += &drops(job);
    }
    text
}

/// Rank and node, or process and node.
fn name_of(seen: &Seen) -> String {
    let identity = &seen.snapshot.identity;
    match identity.rank {
        Some(rank) => format!("{rank} {}", seen.node),
        None => format!("pid {} {}", identity.pid, seen.node),
    }
}

fn endpoints(job: &[Seen], style: &Style<'_>) -> String {
    let per = if style.rates { "/s" } else { "" };
    let mut rows = vec![vec![
        "rank node".to_owned(),
        "links".to_owned(),
        format!("sent{per}"),
        format!("bytes{per}"),
        format!("recv{per}"),
        format!("bytes{per}"),
        "resent".to_owned(),
        "drops".to_owned(),
        "stalls".to_owned(),
        "age".to_owned(),
    ]];
    let mut troubled = Vec::new();
    let mut nodes: BTreeMap<&str, (usize, Traffic)> = BTreeMap::new();
    for s in job {
        let traffic = Traffic::of(s, style);
        let (endpoints, sum) = nodes.entry(&s.node).or_default();
        (*endpoints, *sum) = (*endpoints + 1, sum.plus(&traffic));
        let age = match s.age_ms {
            0..=AGE_MS_MAX => "-".to_owned(),
            age_ms => format!("{} s", age_ms / 1000),
        };
        troubled.push(traffic.drops() > 0);
        rows.push(traffic.row(name_of(s), s.snapshot.identity.links.clone(), age));
    }
    for (node, (_, sum)) in nodes.into_iter().filter(|(_, (endpoints, _))| *endpoints > 1) {
        troubled.push(sum.drops() > 0);
        rows.push(sum.row(format!("all {node}"), String::new(), String::new()));
    }
    coloured(&output::table(&rows), &troubled, style.colours)
}

/// What endpoints have sent, received, repeated and dropped, in the order of the columns.
#[derive(Debug, Default, Clone, Copy)]
struct Traffic([u64; 7]);

impl Traffic {
    fn of(s: &Seen, style: &Style<'_>) -> Self {
        let before = style.before.get(&s.snapshot.identity.epoch);
        let sum = |of: fn(&Peer) -> u64| {
            let total = |snapshot: &Snapshot| snapshot.peers.iter().map(of).sum::<u64>();
            rate(total(&s.snapshot), before.map(total), &s.snapshot, before, style.rates)
        };
        let counter = |names: &[&str]| names.iter().map(|n| s.snapshot.counter(n)).sum::<u64>();
        Self([
            sum(|p| p.messages_sent),
            sum(|p| p.bytes_sent),
            sum(|p| p.messages_received),
            sum(|p| p.bytes_received),
            counter(&["ordered_retransmitted", "bulk_retransmitted"]),
            s.snapshot.drops().map(|(_, count)| count).sum(),
            counter(&["credit_stalls", "near_credit_stalls"]),
        ])
    }

    fn drops(&self) -> u64 {
        self.0[5]
    }

    fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|column| self.0[column] + other.0[column]))
    }

    fn row(&self, name: String, links: String, age: String) -> Vec<String> {
        let numbers = self.0.iter().map(|value| number(*value));
        [name, links].into_iter().chain(numbers).chain([age]).collect()
    }
}

fn peers(job: &[Seen], names: &BTreeMap<SocketAddrV4, String>, style: &Style<'_>) -> String {
    let per = if style.rates { "/s" } else { "" };
    let mut rows = vec![vec![
        "rank node".to_owned(),
        "with".to_owned(),
        "via".to_owned(),
        format!("sent{per}"),
        format!("bytes{per}"),
        format!("recv{per}"),
        format!("bytes{per}"),
        "resent".to_owned(),
        "rtt us".to_owned(),
        "credit".to_owned(),
    ]];
    let mut troubled = Vec::new();
    for s in job {
        let before = style.before.get(&s.snapshot.identity.epoch);
        for peer in &s.snapshot.peers {
            let same = |p: &&Peer| p.at == peer.at && p.epoch == peer.epoch && p.via == peer.via;
            let was = before.and_then(|b| b.peers.iter().find(same));
            let value = |of: fn(&Peer) -> u64| {
                number(rate(of(peer), was.map(of), &s.snapshot, before, style.rates))
            };
            troubled.push(peer.retransmitted > 0 || peer.is_gone);
            let name = names.get(&peer.at).cloned().unwrap_or_else(|| peer.at.to_string());
            let rtt_us = peer.rtt_ns as f64 / 1000.0;
            rows.push(vec![
                name_of(s),
                if peer.is_gone { format!("{name} (gone)") } else { name },
                peer.via.clone(),
                value(|p| p.messages_sent),
                value(|p| p.bytes_sent),
                value(|p| p.messages_received),
                value(|p| p.bytes_received),
                number(peer.retransmitted),
                if peer.rtt_ns == 0 { "-".to_owned() } else { format!("{rtt_us:.1}") },
                number(peer.credit_left),
            ]);
        }
    }
    if rows.len() == 1 {
        return String::new();
    }
    coloured(&output::table(&rows), &troubled, style.colours)
}

fn drops(job: &[Seen]) -> String {
    let mut text = String::new();
    for s in job {
        let reasons: Vec<String> = s
            .snapshot
            .drops()
            .filter(|(_, count)| *count > 0)
            .map(|(reason, count)| format!("{} {count}", reason.replace('_', " ")))
            .collect();
        if !reasons.is_empty() {
            text += &format!("dropped by {}: {}\n", name_of(s), reasons.join(", "));
        }
    }
    text
}

/// A total, or how much it has grown in a second of the endpoint's own time.
fn rate(
    now: u64,
    was: Option<u64>,
    snapshot: &Snapshot,
    before: Option<&Snapshot>,
    per_second: bool,
) -> u64 {
    if !per_second {
        return now;
    }
    let Some((was, before)) = was.zip(before) else { return 0 };
    let ns = snapshot.updated_at_ns.saturating_sub(before.updated_at_ns);
    if ns == 0 { 0 } else { (now.saturating_sub(was) as f64 * 1e9 / ns as f64) as u64 }
}

/// Five characters at most: 12345, 123k, 12.3M.
fn number(n: u64) -> String {
    if n < 100_000 {
        return n.to_string();
    }
    let (mut value, mut unit) = (n as f64, "");
    for next in ["k", "M", "G", "T", "P", "E"] {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    if value < 99.95 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

/// Marks the rows, behind the heading, that are `troubled`.
fn coloured(table: &str, troubled: &[bool], colours: bool) -> String {
    let lines = table.lines().enumerate().map(|(i, line)| {
        let marked = colours && i > 0 && troubled.get(i - 1) == Some(&true);
        if marked { format!("{YELLOW}{line}{PLAIN}\n") } else { format!("{line}\n") }
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiglaf_counters::Identity;

    fn peer(at: SocketAddrV4, bytes: u64) -> Peer {
        Peer {
            at,
            epoch: 2,
            via: "packet".to_owned(),
            is_gone: false,
            messages_sent: 1_234_567,
            bytes_sent: bytes,
            messages_received: 12_345,
            bytes_received: 4_400_000_000,
            retransmitted: 3,
            credit_stalls: 0,
            credit_left: 524_288,
            rtt_ns: 4230,
            in_flight: 0,
        }
    }

    fn seen(rank: u32, bytes: u64, updated_at_ns: u64) -> Seen {
        let at = |rank: u32| format!("10.44.0.{}:7701", rank + 1).parse().unwrap();
        let identity = Identity {
            pid: 9,
            epoch: u64::from(rank) + 1,
            at: at(rank),
            opened_at_ns: 0,
            job: "00aa11bb22cc33dd".to_owned(),
            program: "pw.x".to_owned(),
            rank: Some(rank),
            links: "packet,shm".to_owned(),
        };
        let counters = vec![("drop_proof".to_owned(), 2), ("drop_field".to_owned(), 0)];
        let peers = vec![peer(at(1 - rank), bytes)];
        let snapshot =
            Snapshot { uid: 0, identity, updated_at_ns, counters, peers, peers_left_out: 0 };
        Seen { node: format!("node{}", rank + 1), age_ms: 3, snapshot }
    }

    #[test]
    fn a_node_with_several_endpoints_has_their_sum() {
        let mut job = [seen(0, 9, 0), seen(1, 9, 0), seen(1, 9, 0)];
        job[2].node = "node1".to_owned();
        let text = tables(&job, &Style::plain(false));
        let sum: Vec<&str> = text
            .lines()
            .find(|line| line.starts_with("all node1"))
            .unwrap()
            .split_whitespace()
            .collect();
        assert_eq!(sum, ["all", "node1", "2.5M", "18", "24690", "8.8G", "0", "4", "0"], "{text}");
        assert!(!text.contains("all node2"), "{text}");
    }

    #[test]
    fn tables_fit_and_name_ranks_and_reasons() {
        let text = tables(&[seen(0, 9, 0), seen(1, 9, 0)], &Style::plain(false));
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.contains("00aa11bb22cc33dd: pw.x, endpoints: 2\n"), "{text}");
        assert!(text.contains("0 node1    1 node2  packet  1.2M"), "{text}");
        assert!(!text.contains("all node"), "{text}");
        assert!(text.contains("dropped by 0 node1: proof 2\n"), "{text}");
        assert!(!text.contains('\x1b'), "{text}");
    }

    #[test]
    fn rates_are_per_second_of_the_endpoints_clock() {
        let before = seen(0, 1000, 1_000_000_000);
        let before = Before::from([(1, before.snapshot)]);
        let style = Style { rates: true, before: &before, ..Style::plain(true) };
        let text = tables(&[seen(0, 5000, 3_000_000_000)], &style);
        assert!(text.contains("bytes/s") && text.contains("  2000  "), "{text}");
        assert!(text.contains(YELLOW), "{text}");
    }

    #[test]
    fn numbers_are_short() {
        for (n, text) in [
            (0, "0"),
            (99_999, "99999"),
            (100_000, "100k"),
            (999_600, "1.0M"),
            (12_300_000, "12.3M"),
            (u64::MAX, "18.4E"),
        ] {
            assert_eq!(number(n), text);
        }
    }
}
