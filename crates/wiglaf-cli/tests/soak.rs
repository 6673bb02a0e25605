//! A short soak: jobs of all kinds under faults, no byte is wrong. Ten seconds are too short to judge
//! growth: that the verdict finds it is tested in wiglaf-bench, that the status follows it in src/soak.rs.

mod common;

use std::fs;

use common::{Site, has_openmpi};
use serde_json::Value;

#[test]
fn ten_seconds_of_mixed_jobs_find_every_byte_right() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    let soak = ["soak", "--for", "10s", "--seed", "5", "-o", "out", "--json"];
    let said = site.command(&soak).env("XDG_CACHE_HOME", site.work()).output().unwrap();
    let said = common::Said::from(said);
    let report: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
    assert_eq!(report["errors"].as_array().unwrap().len(), 0, "{said:?}");
    assert!(report["bytes"].as_u64() > Some(1_000_000), "{said:?}");
    let samples = report["samples"].as_array().unwrap();
    assert!(!samples.is_empty() && samples.iter().all(|s| s["job_rss_kib"].as_u64() > Some(1000)));
    assert!(samples.last().unwrap()["job_heap_kib"].as_u64() > Some(1000), "{samples:?}");
    assert!(samples.iter().all(|s| s["job_fds"].as_u64() > Some(6)), "{samples:?}");
    // Should ten seconds do for a verdict of descriptors, the status says the same as the report.
    let trends = report["trends"].as_array().unwrap();
    let grows = trends.iter().any(|trend| trend["verdict"] == "grows");
    assert_eq!((trends.len(), said.status), (7, Some(i32::from(grows))), "{trends:?}");
    let svg = fs::read_to_string(site.work().join("out/soak.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("memory of the job"));
    assert_eq!(site.sh("node1", "ls /dev/shm"), "");
}
