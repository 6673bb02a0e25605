//! A stranger on the network of a running job: whatever he sends, the job's results are right, and
//! only counters tell that he was there.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;

use common::{Site, eventually, has_openmpi};
use serde_json::Value;

const CAPTURED: &str = "3000";

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

fn besiege(link: &str) {
    let Some(site) = Site::up(&["--nodes", "3"]) else { return };
    if !has_openmpi() {
        return;
    }
    site.compile_from("tests/mpi", "besieged");
    let mut job = site.command(&["run", "--link", link, "-w", "node[1-2]", "--", "./besieged"]);
    let job = job.stdout(Stdio::piped()).spawn().unwrap();
    eventually("the job runs", || seen(&site).1 > 1_000_000);
    site.wiglaf(&["capture", "-w", "job.pcapng", "--count", CAPTURED]).expect_success();

    let (before, ..) = seen(&site);
    let attack = || {
        let frames = site.work().join("job.pcapng");
        let script = format!("exec wiglaf hostile --frames {}", frames.display());
        let sent: BTreeMap<String, u64> = serde_json::from_str(&site.sh("node3", &script)).unwrap();
        assert!(sent.len() == 6 && sent.values().all(|count| *count > 100), "{sent:?}");
    };
    attack();
    attack();

    // Each refusal has its reason.
    let grown = |name: &str| seen(&site).0[name] > before[name];
    for reason in [
        "drop_truncated",
        "drop_magic",
        "drop_unknown",
        "drop_proof",
        "drop_checksum",
        "drop_replayed",
        "duplicates",
        "drop_report",
    ] {
        eventually(reason, || grown(reason));
    }
    // Nobody was let in, nobody was lost, and the job goes on.
    let (_, received, peers) = seen(&site);
    assert!(peers.len() == 2 && peers.iter().all(|peer| peer["is_gone"] == false), "{peers:?}");
    eventually("the job goes on", || seen(&site).1 > received + 1_000_000);
    fs::write(site.work().join("stop"), "").unwrap();
    let output = job.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).lines().any(|line| line == "passed"));
}

#[test]
fn a_stranger_changes_nothing_but_counters_over_the_packet_link() {
    besiege("packet");
}

#[test]
fn a_stranger_changes_nothing_but_counters_over_the_udp_link() {
    besiege("udp");
}
