//! What the endpoints of this host count, summed up, in the text format of Prometheus.
//!
//! Endpoints come and go, and Prometheus takes a sum that falls for a restart. So what each one has counted since the
//! last look is added to totals that only grow.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use wiglaf_base::error::{Context, Result};
use wiglaf_base::network::{Cidr, HostAddress};
use wiglaf_counters::Snapshot;

/// Sums over endpoints: the metric's name, and what it counts.
const TOTALS: [(&str, &str); 6] = [
    ("wiglaf_messages_sent_total", "Messages that programs have sent."),
    ("wiglaf_messages_received_total", "Messages that programs have received."),
    ("wiglaf_sent_bytes_total", "Payload of messages sent."),
    ("wiglaf_received_bytes_total", "Payload of messages received."),
    ("wiglaf_packets_retransmitted_total", "Packets sent again."),
    ("wiglaf_credit_stalls_total", "Messages that were announced for want of credit."),
];

/// Totals since it was made.
#[derive(Debug, Default)]
pub struct Exporter {
    /// In the order of [`TOTALS`].
    totals: [u64; 6],
    drops: BTreeMap<String, u64>,
    /// What each living endpoint had counted at the last look, by its epoch.
    before: BTreeMap<u64, (Counts, BTreeMap<String, u64>)>,
    has_looked: bool,
}

/// In the order of [`TOTALS`].
type Counts = [u64; 6];

fn counts(snapshot: &Snapshot) -> Counts {
    let mut sums = [0; 6];
    for peer in &snapshot.peers {
        let own = [
            peer.messages_sent,
            peer.messages_received,
            peer.bytes_sent,
            peer.bytes_received,
            peer.retransmitted,
            peer.credit_stalls,
        ];
        sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
    }
    sums
}

impl Exporter {
    /// Takes the snapshots of a look at `now_s`, and says all in the text format. `data` is the network of the
    /// cluster, whose interface is marked.
    pub fn look(
        &mut self,
        seen: &[Snapshot],
        own: &[HostAddress],
        data: Option<Cidr>,
        now_s: u64,
    ) -> String {
        let mut living = BTreeMap::new();
        for snapshot in seen {
            let counts = counts(snapshot);
            let drops: BTreeMap<String, u64> =
                snapshot.drops().map(|(reason, count)| (reason.to_owned(), count)).collect();
            let epoch = snapshot.identity.epoch;
            // What was counted before the first look has no time of its own.
            let before = match self.before.remove(&epoch) {
                Some(before) => Some(before),
                None if self.has_looked => Some(Default::default()),
                None => None,
            };
            if let Some(before) = before {
                self.add(&counts, &before.0, &drops, &before.1);
            }
            living.insert(epoch, (counts, drops));
        }
        self.before = living;
        self.has_looked = true;
        self.text(seen, own, data, now_s)
    }

    fn add(
        &mut self,
        now: &Counts,
        before: &Counts,
        drops: &BTreeMap<String, u64>,
        drops_before: &BTreeMap<String, u64>,
    ) {
        // The 256 busiest peers of an endpoint change, so that its sum may fall.
        for (total, (now, before)) in self.totals.iter_mut().zip(now.iter().zip(before)) {
            *total += now.saturating_sub(*before);
        }
        for (reason, now) in drops {
            let before = drops_before.get(reason).copied().unwrap_or(0);
            *self.drops.entry(reason.clone()).or_default() += now.saturating_sub(before);
        }
    }

    fn text(
        &self,
        seen: &[Snapshot],
        own: &[HostAddress],
        data: Option<Cidr>,
        now_s: u64,
    ) -> String {
        let mut text = String::new();
        let mut head = |name: &str, help: &str, kind: &str| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        head("wiglaf_endpoints", "Endpoints of running programs.", "gauge");
        let _ = writeln!(text, "wiglaf_endpoints {}", seen.len());
        let jobs: std::collections::BTreeSet<(u32, &str)> =
            seen.iter().map(|one| (one.uid, one.identity.job.as_str())).collect();
        let _ = writeln!(
            text,
            "# HELP wiglaf_jobs Jobs with an endpoint here.\n# TYPE wiglaf_jobs gauge\nwiglaf_jobs {}",
            jobs.len()
        );
        for ((name, help), total) in TOTALS.iter().zip(self.totals) {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {total}");
        }
        let name = "wiglaf_drops_total";
        let _ = writeln!(text, "# HELP {name} What was refused or lost.\n# TYPE {name} counter");
        for (reason, total) in &self.drops {
            let _ = writeln!(text, "{name}{{reason=\"{}\"}} {total}", escaped(reason));
        }
        let name = "wiglaf_data_interface";
        let _ = writeln!(text, "# HELP {name} The card of the data network.\n# TYPE {name} gauge");
        let data = own.iter().filter(|own| data.is_some_and(|data| data.contains(own.address)));
        for own in data {
            let _ = writeln!(text, "{name}{{device=\"{}\"}} 1", escaped(&own.interface));
        }
        let name = "wiglaf_export_time_seconds";
        let _ = writeln!(
            text,
            "# HELP {name} When this was written, in Unix time.\n# TYPE {name} gauge\n{name} {now_s}"
        );
        text
    }
}

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Replaces the file: node_exporter never reads half of it. Everybody may read it.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, text: &str) -> Result<()> {
    // node_exporter takes files whose names end in .prom only.
    let new = path.with_extension("new");
    let cannot = || format!("write {}", path.display());
    let _ = fs::remove_file(&new);
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.and_then(|()| fs::rename(&new, path)).cannot(cannot)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use wiglaf_counters::{Identity, Peer};

    use super::*;

    fn snapshot(epoch: u64, sent: u64, again: u64) -> Snapshot {
        let at = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 4000);
        Snapshot {
            uid: 1000,
            identity: Identity {
                pid: 7,
                epoch,
                at,
                opened_at_ns: 1,
                job: "job".to_owned(),
                program: "a".to_owned(),
                rank: Some(0),
                links: "udp".to_owned(),
            },
            updated_at_ns: 2,
            counters: vec![("drop_checksum".to_owned(), again), ("probes".to_owned(), 9)],
            peers: vec![Peer {
                at,
                epoch: 1,
                via: "udp".to_owned(),
                is_gone: false,
                messages_sent: sent,
                bytes_sent: 10 * sent,
                messages_received: 0,
                bytes_received: 0,
                retransmitted: again,
                credit_stalls: 0,
                credit_left: 0,
                rtt_ns: 0,
                in_flight: 0,
            }],
            peers_left_out: 0,
        }
    }

    fn value(text: &str, name: &str) -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok())
    }

    #[test]
    fn totals_only_grow_while_endpoints_come_and_go() {
        let mut exporter = Exporter::default();
        let first = exporter.look(&[snapshot(1, 100, 5)], &[], None, 1);
        assert_eq!(value(&first, "wiglaf_messages_sent_total"), Some(0));
        let second = exporter.look(&[snapshot(1, 110, 7), snapshot(2, 30, 1)], &[], None, 2);
        assert_eq!(value(&second, "wiglaf_messages_sent_total"), Some(40));
        assert_eq!(value(&second, "wiglaf_packets_retransmitted_total"), Some(3));
        assert_eq!(value(&second, "wiglaf_drops_total{reason=\"checksum\"}"), Some(3));
        assert_eq!(value(&second, "wiglaf_endpoints"), Some(2));
        assert_eq!(value(&second, "wiglaf_jobs"), Some(1));
        let third = exporter.look(&[], &[], None, 3);
        assert_eq!(value(&third, "wiglaf_messages_sent_total"), Some(40));
        assert_eq!(value(&third, "wiglaf_endpoints"), Some(0));
        assert_eq!(value(&third, "wiglaf_export_time_seconds"), Some(3));
    }

    #[test]
    fn only_the_card_of_the_data_network_is_marked() {
        let own = |interface: &str, address: [u8; 4]| HostAddress {
            interface: interface.to_owned(),
            address: address.into(),
            prefix: 24,
            mtu: 1500,
        };
        let own = [own("eno1", [10, 9, 0, 1]), own("enp3s0", [192, 168, 77, 1])];
        let data = Cidr::of(Ipv4Addr::new(192, 168, 77, 0), 24);
        let text = Exporter::default().look(&[], &own, Some(data), 1);
        assert!(text.contains("wiglaf_data_interface{device=\"enp3s0\"} 1\n"), "{text}");
        assert!(!text.contains("eno1"), "{text}");
    }

    #[test]
    fn file_is_replaced_whole_and_anybody_reads_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wiglaf.prom");
        for text in ["one 1\n", "two 2\n"] {
            write(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
