//! Counters of running jobs, on a real cluster, while the ranks talk.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use common::{Site, eventually, has_openmpi};
use serde_json::Value;

/// All ranks exchange with all others until a file says stop.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <unistd.h>
int main(void) {
    int stop = 0, rank;
    static char long_in[200000], long_out[200000];
    MPI_Init(0, 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (!stop) {
        if (rank == 0) stop = access("stop", F_OK) == 0;
        MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
        for (int i = 0; i < 50; i++) MPI_Barrier(MPI_COMM_WORLD);
        MPI_Allreduce(long_in, long_out, sizeof long_in, MPI_CHAR, MPI_BOR, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
"#;

impl Site {
    fn start_talking(&self, args: &[&str]) -> Child {
        fs::write(self.work().join("talk.c"), PROGRAM).unwrap();
        let cc =
            Command::new("mpicc").args(["-o", "talk", "talk.c"]).current_dir(self.work()).status();
        assert!(cc.unwrap().success());
        self.command(&[&["run"], args, &["--", "./talk"]].concat())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn stats(&self, args: &[&str]) -> Vec<Value> {
        let said = self.wiglaf(&[&["stats", "--json"], args].concat()).expect_success();
        serde_json::from_str::<Value>(&said.stdout).unwrap().as_array().unwrap().clone()
    }
}

fn sum(seen: &[Value], via: &str, field: &str) -> u64 {
    let peers = seen.iter().flat_map(|s| s["peers"].as_array().unwrap());
    peers.filter(|p| p["via"] == via).map(|p| p[field].as_u64().unwrap()).sum()
}

#[test]
fn a_running_job_is_seen_by_node_and_peer_and_gone_afterwards() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    let mut job = site.start_talking(&["-n", "4"]);
    let mut seen = Vec::new();
    eventually("four ranks have talked to peers on both ways", || {
        seen = site.stats(&[]);
        seen.len() == 4
            && sum(&seen, "packet", "bytes_received") > 0
            && sum(&seen, "near", "bytes_received") > 0
    });
    let ranks: Vec<_> = seen.iter().map(|s| (s["rank"].as_u64(), s["node"].as_str())).collect();
    let cyclic = ["node1", "node2", "node1", "node2"];
    let expected: Vec<_> = (0..4).map(|r| (Some(r as u64), Some(cyclic[r]))).collect();
    assert_eq!(ranks, expected);
    assert!(seen.iter().all(|s| s["job"] == seen[0]["job"] && s["program"] == "talk"), "{seen:?}");
    assert!(sum(&seen, "packet", "rtt_ns") > 0 && sum(&seen, "packet", "credit_left") > 0);

    // It goes on while it is looked at.
    let received = sum(&seen, "packet", "messages_received");
    eventually("the counters grow", || {
        sum(&site.stats(&[]), "packet", "messages_received") > received
    });
    let said = site.wiglaf(&["stats", "--watch=0.2", "--count", "3"]).expect_success();
    assert!(said.stdout.contains("bytes/s") && !said.stdout.contains('\x1b'), "{said:?}");

    // What is lost on the wire is seen as sent again, and what is damaged as dropped.
    let resent = sum(&site.stats(&[]), "packet", "retransmitted");
    let fault = ["fault", "set", "node1", "--drop", "2%", "--corrupt", "2%"];
    site.wiglaf(&fault).expect_success();
    eventually("repetitions and damage are counted", || {
        let seen = site.stats(&[]);
        let damaged = seen.iter().flat_map(|s| s["counters"].as_array().unwrap()).any(|counter| {
            let name = counter[0].as_str().unwrap();
            ["drop_proof", "drop_checksum"].contains(&name) && counter[1].as_u64() > Some(0)
        });
        damaged && sum(&seen, "packet", "retransmitted") > resent
    });

    // Filters, and what a node sees of itself.
    assert_eq!(site.stats(&["-w", "node2"]).len(), 2);
    let mark = seen[0]["job"].as_str().unwrap();
    assert_eq!((site.stats(&["-J", &mark[..6]]).len(), site.stats(&["-J", "x"]).len()), (4, 0));
    let on_node: Value = serde_json::from_str(&site.sh("node1", "wiglaf stats --json")).unwrap();
    assert_eq!(on_node.as_array().unwrap().len(), 2);

    // Another user sees nothing of it, and cannot open the files.
    let other = "setpriv --reuid 65534 --clear-groups";
    let theirs = site.sh("node1", &format!("{other} wiglaf stats --json"));
    assert_eq!(theirs.trim(), "[]");
    let denied = site.sh(
        "node1",
        &format!("for f in /dev/shm/wiglaf-*; do {other} cat $f && echo; done 2>&1 | sort -u"),
    );
    assert!(denied.lines().all(|line| line.ends_with("Permission denied")), "{denied}");

    fs::write(site.work().join("stop"), "").unwrap();
    assert!(job.wait().unwrap().success());
    assert_eq!(site.stats(&[]).len(), 0);
    assert_eq!(site.sh("node1", "ls /dev/shm"), "");
}

#[test]
fn a_program_that_was_killed_is_not_shown_and_one_may_hide() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    let mut first = site.start_talking(&["-n", "2"]);
    eventually("both ranks are seen", || site.stats(&[]).len() == 2);
    // The file of a killed rank stays until somebody looks; its mpirun ends the other.
    site.sh("node1", "pkill -KILL -x talk");
    assert!(!first.wait().unwrap().success());
    assert_eq!(site.stats(&[]).len(), 0);

    let mut hidden = site
        .command(&["run", "-n", "2", "--", "./talk"])
        .env("WIGLAF_STATS", "off")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("both ranks run", || site.sh("node2", "ls /dev/shm").contains("wiglaf-"));
    assert_eq!(site.stats(&[]).len(), 0);
    fs::write(site.work().join("stop"), "").unwrap();
    assert!(hidden.wait().unwrap().success());
}

#[test]
fn watching_ends_when_nobody_reads() {
    let site = Site::new();
    for more in [&["--json"][..], &[]] {
        let mut command = site.command(&[&["stats", "--watch=0.1"], more].concat());
        let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
        BufReader::new(watch.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        eventually("it has ended", || watch.try_wait().unwrap().is_some());
        assert!(watch.wait().unwrap().success());
    }
}
