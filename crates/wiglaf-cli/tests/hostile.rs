//! A stranger on the network of a running job: whatever he sends, the job's results are right, and
//! only counters tell that he was there.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use common::{Site, eventually, has_openmpi};
use serde_json::Value;

const CAPTURED: &str = "3000";
/// What fuzzers have found of what comes from the wire.
const CORPORA: [&str; 5] = ["datagram", "frame", "hostile_peer", "records", "transport"];
/// A rank's memory may grow by that: it warms up while it is attacked.
const GROWTH_KIB_MAX: u64 = 32 << 10;
/// What refuses in the clear, and under `--encrypt`, where nothing but the tag tells what is wrong.
const PLAIN: [&str; 8] = [
    "drop_truncated",
    "drop_magic",
    "drop_unknown",
    "drop_proof",
    "drop_checksum",
    "drop_replayed",
    "duplicates",
    "drop_report",
];
const ENCRYPTED: [&str; 4] = ["drop_truncated", "drop_magic", "drop_unknown", "drop_proof"];

/// What else an attack may make count: where it fills a queue, datagrams of the job are lost, and come
/// again.
const OF_LOSS: [&str; 7] = [
    "ordered_retransmitted",
    "bulk_retransmitted",
    "probes",
    "duplicates",
    "out_of_order",
    "credit_stalls",
    "unasked_dropped",
];
/// These count behind the proof only: a stranger does not get so far.
const BEHIND_THE_PROOF: [&str; 4] = ["drop_remote_", "drop_near_", "drop_protocol", "drop_part"];

/// The sum of each counter over both ranks, and what they have received.
fn seen(site: &Site) -> (BTreeMap<String, u64>, u64, Vec<Value>) {
    let said = site.wiglaf(&["stats", "--json"]).expect_success();
    let ranks: Vec<Value> = serde_json::from_str(&said.stdout).unwrap();
    let mut counters = BTreeMap::new();
    for counter in ranks.iter().flat_map(|rank| rank["counters"].as_array().unwrap()) {
        *counters.entry(counter[0].as_str().unwrap().to_owned()).or_insert(0) +=
            counter[1].as_u64().unwrap();
    }
    let peers: Vec<Value> =
        ranks.iter().flat_map(|rank| rank["peers"].as_array().unwrap()).cloned().collect();
    let received = peers.iter().map(|peer| peer["bytes_received"].as_u64().unwrap()).sum();
    (counters, received, peers)
}

/// The memory of the attacked ranks.
fn rss_kib(site: &Site) -> Vec<u64> {
    let script = "grep VmRSS /proc/$(pgrep -x besieged)/status";
    let rss = |node: &str| {
        let line = site.sh(node, script);
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    };
    ["node1", "node2"].map(rss).into()
}

/// Sends every file of the corpora to the ranks.
fn send_corpora(site: &Site, recording: &Path) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let corpus = corpus.canonicalize().unwrap();
    let folders: Vec<_> = CORPORA.iter().map(|name| corpus.join(name)).collect();
    let there = |folder| fs::read_dir(folder).unwrap().count() as u64;
    let there: u64 = folders.iter().map(there).sum();
    let options: String = folders.iter().map(|f| format!(" --corpus {}", f.display())).collect();
    let script = format!("exec wiglaf hostile --frames {}{options}", recording.display());
    let sent: BTreeMap<String, u64> = serde_json::from_str(&site.sh("node3", &script)).unwrap();
    assert!(there > 100 && sent["files"] == there, "{there} {sent:?}");
    // At least to both ranks' ports, three ways each.
    assert!(sent["frames"] > 6 * there, "{sent:?}");
}

fn besiege(link: &str, options: &[&str], reasons: &[&str]) {
    let Some(site) = Site::up(&["--nodes", "3"]) else { return };
    if !has_openmpi() {
        return;
    }
    site.compile_from("tests/mpi", "besieged");
    let run = ["run", "--link", link, "-w", "node[1-2]"];
    let mut job = site.command(&[&run, options, &["--", "./besieged"]].concat());
    let job = job.stdout(Stdio::piped()).spawn().unwrap();
    eventually("the job runs", || seen(&site).1 > 1_000_000);
    let recording = site.work().join("job.pcapng");
    site.wiglaf(&["capture", "-w", "job.pcapng", "--count", CAPTURED]).expect_success();

    let (before, ..) = seen(&site);
    let rss_before = rss_kib(&site);
    let attack = || {
        let script = format!("exec wiglaf hostile --frames {}", recording.display());
        let sent: BTreeMap<String, u64> = serde_json::from_str(&site.sh("node3", &script)).unwrap();
        assert!(sent.len() == 6 && sent.values().all(|count| *count > 100), "{sent:?}");
    };
    attack();
    attack();
    // Frames may be on their way still, and counters are published now and then.
    let mut attacked = seen(&site).0;
    eventually("the attack is over", || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let drops = |of: &BTreeMap<String, u64>| (of["drop_truncated"], of["drop_magic"]);
        let before = std::mem::replace(&mut attacked, seen(&site).0);
        drops(&before) == drops(&attacked)
    });
    send_corpora(&site, &recording);
    for reason in ["drop_truncated", "drop_magic"] {
        eventually("what fuzzers found arrives", || seen(&site).0[reason] > attacked[reason]);
    }

    // Each refusal has its reason.
    let grown = |name: &str| seen(&site).0[name] > before[name];
    for reason in reasons {
        eventually(reason, || grown(reason));
    }
    // Nothing else has begun to count. What the job itself does was counted before.
    let (after, received, peers) = seen(&site);
    for (name, count) in &after {
        let of_drops = name.starts_with("drop_")
            && !BEHIND_THE_PROOF.iter().any(|behind| name.starts_with(behind));
        let may = of_drops || before[name] > 0 || OF_LOSS.contains(&&**name);
        assert!(may || *count == 0, "{name} has begun to count: {count}");
    }
    for (before, after) in rss_before.into_iter().zip(rss_kib(&site)) {
        println!("memory of a rank: {before} KiB before, {after} after");
        assert!(after < before + GROWTH_KIB_MAX, "a rank grew from {before} to {after} KiB");
    }
    // Nobody was let in, nobody was lost, and the job goes on.
    assert!(peers.len() == 2 && peers.iter().all(|peer| peer["is_gone"] == false), "{peers:?}");
    eventually("the job goes on", || seen(&site).1 > received + 1_000_000);
    fs::write(site.work().join("stop"), "").unwrap();
    let output = job.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).lines().any(|line| line == "passed"));
}

#[test]
fn a_stranger_changes_nothing_but_counters_over_the_packet_link() {
    besiege("packet", &[], &PLAIN);
}

#[test]
fn a_stranger_changes_nothing_but_counters_over_the_udp_link() {
    besiege("udp", &[], &PLAIN);
}

#[test]
fn a_stranger_changes_nothing_but_counters_of_an_encrypted_job() {
    besiege("packet", &["--encrypt"], &ENCRYPTED);
}
