//! `wiglaf top` on emulated nodes and on stand-in hosts.

mod common;

use common::Site;
use serde_json::Value;
use wiglaf_testhosts::{Hosts, Plan};

/// Each row has a name, a load, memory and a card of that name.
#[track_caller]
fn assert_rows(text: &str, expected: &[(&str, &str)]) {
    let rows: Value = serde_json::from_str(text).unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), expected.len(), "{text}");
    for (row, (node, interface)) in rows.iter().zip(expected) {
        assert_eq!(
            (row["node"].as_str(), row["interface"].as_str()),
            (Some(*node), Some(*interface))
        );
        assert!(row["load"].is_f64() && row["memory_total_kib"].as_u64() > Some(0), "{row}");
    }
}

#[test]
fn top_shows_emulated_nodes_and_hosts() {
    if let Some(site) = Site::up(&["--nodes", "2"]) {
        let said = site.wiglaf(&["top", "--json"]).expect_success();
        let rows: Value = serde_json::from_str(&said.stdout).unwrap();
        let card = rows[0]["interface"].as_str().unwrap().to_owned();
        assert_rows(&said.stdout, &[("node1", &card), ("node2", &card)]);
        let text = site.wiglaf(&["top", "--once", "-w", "node2"]).expect_success().stdout;
        assert_eq!(text.lines().count(), 2, "{text}");
        let no_terminal = site.wiglaf(&["top"]);
        no_terminal.expect_sentence(1, "add --once or --json");
    }
    let Some(hosts) = Hosts::or_skip(&Plan::new(2)) else { return };
    hosts.install().expect("a release build");
    let file = "nodes = \"pc[1-2]\"\n[network]\ndata = \"192.168.77.0/24\"\n";
    hosts[0].write("/home/ann/.config/wiglaf/cluster.toml", file, "ann", 0o644);
    let ann = hosts[0].as_user("ann");
    assert_rows(ann.run("wiglaf top --json").ok(), &[("pc1", "enp3s0"), ("pc2", "eno1")]);
    hosts[1].power_off();
    let silent = ann.run("wiglaf top --once");
    assert!(
        silent.stdout.contains("does not tell") && silent.stdout.contains("enp3s0"),
        "{silent}"
    );
    assert!(silent.complaint().contains("pc2"), "{silent}");
}
