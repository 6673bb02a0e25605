//! `wiglaf predict` in SimGrid, with parameters that are known: the times that come out are computed by hand. And
//! what `wiglaf bench loggp` writes, `wiglaf predict` reads.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Said, Site};
use serde_json::{Value, json};

/// 100 ping-pongs between the first and the last rank, of so many bytes; half of one is printed. `stuck`: nobody
/// sends; `abort`: rank 1 does that.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    static char buffer[1 << 21];
    int rank, size, len = argc > 1 ? atoi(argv[1]) : 1, is_stuck = argc > 1 && !strcmp(argv[1], "stuck");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1 && !strcmp(argv[1], "abort") && rank == 1) MPI_Abort(MPI_COMM_WORLD, 7);
    int other = rank == 0 ? size - 1 : 0;
    double start = MPI_Wtime();
    for (int i = 0; i < 200 && (rank == 0 || rank == size - 1); i++) {
        if ((i % 2 == 0) == (rank == 0) && !is_stuck)
            MPI_Send(buffer, len, MPI_BYTE, other, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(buffer, len, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 0) printf("ranks %d\nhalf %.9f\n", size, (MPI_Wtime() - start) / 200);
    MPI_Finalize();
    return 0;
}
"#;

/// Parameters of one transport, slow enough that what the program computes does not count: a message takes `base_us` and a byte `byte_us`; 2 us of that is each overhead's.
fn contender(word: &str, base_us: f64, byte_us: f64) -> Value {
    let points = [1_u64, 1024, 65536, 131_072, 1 << 20].map(|len| {
        json!({
            "len": len, "half_us": base_us + byte_us * len as f64, "send_us": 2.0, "isend_us": 2.0,
            "recv_us": 2.0, "gap_us": 3.0, "is_eager": len <= 65536,
        })
    });
    json!({
        "transport": word, "label": word, "same_node": false, "settings": {}, "evidence": null,
        "eager_max": 65536, "points": points, "segments": [],
    })
}

fn parameters(rate: Option<u64>) -> Value {
    json!({
        "schema": "wiglaf-bench/loggp/1", "rate": rate, "rounds": 1, "absent": [],
        "facts": {
            "date": "", "command_line": [], "wiglaf_version": "", "cores": 2, "cpu": "", "kernel": "", "system": "",
            "versions": {}, "nodes": {},
        },
        "contenders": [contender("tcp", 5000.0, 0.05), contender("wiglaf", 2000.0, 0.05)],
    })
}

/// The program built for SimGrid as `prog.smpi`, and parameters; nothing where SimGrid is not installed.
fn site() -> Option<Site> {
    let site = Site::new();
    std::fs::write(site.work().join("prog.c"), PROGRAM).unwrap();
    std::fs::write(site.work().join("p.json"), parameters(None).to_string()).unwrap();
    match compile(&site, "smpicc", "prog.smpi") {
        true => Some(site),
        false => {
            eprintln!("skipped: smpicc is missing (`cargo xtask packages test`)");
            None
        }
    }
}

fn compile(site: &Site, compiler: &str, program: &str) -> bool {
    let mut command = Command::new(compiler);
    let built = command.args(["-O2", "-o", program, "prog.c"]).current_dir(site.work()).status();
    built.is_ok_and(|status| {
        assert!(status.success());
        true
    })
}

fn predict(site: &Site, args: &[&str]) -> Said {
    site.wiglaf(&[&["predict", "--loggp", "p.json"], args].concat())
}

fn json_of(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The seconds that were predicted for a way on so many nodes.
fn seconds(all: &Value, way: usize, nodes: usize) -> f64 {
    let runs = all["runs"].as_array().unwrap();
    let is = |run: &&Value| run["way"] == json!(way) && run["nodes"] == json!(nodes);
    runs.iter().find(is).unwrap()["seconds"].as_f64().unwrap()
}

#[test]
fn predicted_ping_pong_is_that_of_the_parameters() {
    let Some(site) = site() else { return };
    for len in [1.0, 1000.0, 40_000.0, 1_000_000.0] {
        let text = format!("{len}");
        let args =
            ["--nodes", "2,5", "--seconds", "half", "--json", "o.json", "--", "./prog.smpi", &text];
        let said = predict(&site, &args).expect_success();
        let all = json_of(&site.work().join("o.json"));
        assert_eq!(all["ways"][1]["word"], "wiglaf", "{said:?}");
        for (way, base) in [(0, 5e-3), (1, 2e-3)] {
            for nodes in [2, 5] {
                let (found, expected) = (seconds(&all, way, nodes), base + len * 5e-8);
                assert!((found / expected - 1.0).abs() < 0.03, "{len} {way}: {found} {expected}");
            }
        }
    }
}

#[test]
fn tables_picture_and_notes_are_there() {
    let Some(site) = site() else { return };
    let files = ["--json", "o.json", "--plot", "o.svg"];
    let cluster = ["--nodes", "2,4,8", "--rate", "100mbit", "--cores", "2", "--backplane", "1gbit"];
    // One node has no network, and the ranks of its cores have each other.
    let one = ["--nodes", "1", "--cores", "2", "--transports", "tcp", "--json", "o.json"];
    predict(&site, &[&one[..], &["--", "./prog.smpi", "1000"]].concat()).expect_success();
    assert!(seconds(&json_of(&site.work().join("o.json")), 0, 1) > 0.0);
    let args = [&cluster[..], &files, &["--speed", "2", "--", "./prog.smpi", "1000"]].concat();
    let said = predict(&site, &args).expect_success();
    for part in [
        "2 cores a node, 2 times as fast as here; ports of 100 Mbit/s, switch of 1gbit",
        "Predicted wall time in s, and speed-up against 2 nodes",
        "Amdahl: T(n) = T1",
        "note: messages within a node",
        "note: the wire loses no frames",
    ] {
        assert!(said.stdout.contains(part), "{part}: {said:?}");
    }
    let picture = std::fs::read_to_string(site.work().join("o.svg")).unwrap();
    assert!(picture.contains("Wiglaf, P = ") && picture.contains("predicted with SimGrid"));
    let all = json_of(&site.work().join("o.json"));
    assert_eq!((all["runs"].as_array().unwrap().len(), all["cores"].as_u64()), (6, Some(2)));
    // A thousand bytes through two ports of 100 Mbit/s take 170 us more than through none.
    let (slow, least) = (seconds(&all, 1, 2), 200.0 * 2.1e-3);
    assert!(slow > least, "{slow}");
    // The page has every option, so its command gives the same table again.
    let said = site.wiglaf(&["bench", "reports", "-o", "-", "o.json"]).expect_success();
    let line = said.stdout.lines().find(|line| line.starts_with("wiglaf predict")).unwrap();
    assert!(line.contains("--loggp p.json --nodes 2,4,8 --rate 100mbit --cores 2"), "{line}");
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let again = site.wiglaf(&words).expect_success();
    assert!(again.stdout.contains("2 times as fast as here; ports of 100 Mbit/s"), "{again:?}");
}

#[test]
fn what_cannot_be_predicted_is_said_in_one_sentence() {
    let Some(site) = site() else { return };
    assert!(compile(&site, "mpicc", "prog"));
    std::fs::write(site.work().join("g.json"), parameters(Some(1_000_000_000)).to_string())
        .unwrap();
    let text = parameters(None).to_string();
    std::fs::write(site.work().join("cut.json"), &text[..text.len() / 2]).unwrap();
    for (args, words) in [
        (&["--nodes", "0,2", "--", "./prog.smpi"][..], "give a number from 1 to 4096"),
        (&["--nodes", "2,4097", "--", "./prog.smpi"], "give a number from 1 to 4096"),
        (&["--", "/bin/true"], "is no MPI program that SimGrid's smpicc"),
        (&["--", "./prog"], "linked with an MPI for real nodes; build it for SimGrid too"),
        (&["--", "./nothing"], "there is no program"),
        (&["--transports", "ucx", "--", "./prog.smpi"], "has no parameters of UCX TCP"),
        (
            &["--nodes", "2", "--transports", "tcp", "--seconds", "no such", "--", "./prog.smpi"],
            "no simulation came",
        ),
        (
            &["--nodes", "2", "--transports", "tcp", "--", "./prog.smpi", "stuck"],
            "no simulation came",
        ),
    ] {
        let said = predict(&site, args);
        assert_ne!(said.status, Some(0), "{said:?}");
        let last = said.stderr.lines().last().unwrap();
        assert!(last.starts_with("wiglaf: ") && last.contains(words), "{words}: {said:?}");
    }
    for (word, words) in
        [("stuck", "wait for each other for ever"), ("abort", "a rank called MPI_Abort")]
    {
        let said =
            predict(&site, &["--nodes", "2", "--transports", "tcp", "--", "./prog.smpi", word]);
        assert!(said.status == Some(1) && said.stderr.contains(words), "{said:?}");
    }
    for (file, args, words) in [
        ("none.json", &[][..], "measure them with `wiglaf bench loggp`"),
        ("cut.json", &[], "could not be understood: EOF"),
        ("g.json", &["--rate", "100mbit"], "measure with `wiglaf bench loggp --rate 100mbit`"),
    ] {
        let said =
            site.wiglaf(&[&["predict", "--loggp", file], args, &["--", "./prog.smpi"]].concat());
        assert_ne!(said.status, Some(0), "{said:?}");
        assert!(
            said.stderr.contains(words) && said.stderr.lines().count() == 1,
            "{words}: {said:?}"
        );
    }
    // Where SimGrid is not installed.
    let mut command = site.command(&["predict", "--loggp", "p.json", "--", "./prog.smpi"]);
    let said: Said = command.env("PATH", "/nowhere").output().unwrap().into();
    assert!(said.stderr.contains("apt-get install libsimgrid-dev"), "{said:?}");
}

/// Odd ranks send to even ones, all exchange, and all sum; `any`: with a message from anybody.
const MESSAGES: &str = r#"
#include <mpi.h>
int main(int argc, char **argv) {
    static char out[4096], in[4096];
    int rank, size, sum;
    MPI_Request requests[2];
    MPI_Comm all;
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    for (int i = 0; i < 50; i++) {
        int to = (rank + 1) % size, from = (rank + size - 1) % size;
        MPI_Irecv(in, 4096, MPI_BYTE, from, 1, all, &requests[0]);
        MPI_Isend(out, 4096, MPI_BYTE, to, 1, all, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Sendrecv(out, 8, MPI_BYTE, to, 2, in, 8, MPI_BYTE, argc > 1 ? MPI_ANY_SOURCE : from, 2, all, MPI_STATUS_IGNORE);
        if (rank % 2) MPI_Send(out, 100, MPI_BYTE, rank - 1, 3, all);
        else MPI_Recv(in, 4096, MPI_BYTE, rank + 1, 3, all, MPI_STATUS_IGNORE);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
    }
    MPI_Barrier(all);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn trace_of_an_unchanged_program_is_replayed() {
    common::fresh::check("wiglaf-profile");
    let Some(site) = Site::up(&[]) else { return };
    std::fs::write(site.work().join("prog.c"), MESSAGES).unwrap();
    std::fs::write(site.work().join("p.json"), parameters(None).to_string()).unwrap();
    assert!(compile(&site, "mpicc", "prog"));
    let said =
        site.wiglaf(&["profile", "--trace", "t", "-n", "2", "--", "./prog"]).expect_success();
    assert!(said.stderr.contains("written t"), "{said:?}");
    let text = std::fs::read_to_string(site.work().join("t")).unwrap();
    let count = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!(
        (count("irecv "), count("wait "), count("allreduce 4 "), count("send 0 3 100")),
        (200, 400, 100, 50)
    );
    let said = site.wiglaf(&["profile", "--trace", "u", "-n", "2", "--", "./prog", "any"]);
    assert!(
        said.status == Some(1) && said.stderr.contains("cannot be replayed (MPI_Sendrecv)"),
        "{said:?}"
    );
    assert!(!site.work().join("u").exists());
    if Command::new("smpirun").arg("-version").output().is_err() {
        eprintln!("skipped: SimGrid is missing (`cargo xtask packages test`)");
        return;
    }
    predict(&site, &["--trace", "t", "--json", "o.json"]).expect_success();
    let all = json_of(&site.work().join("o.json"));
    assert_eq!(
        (&all["nodes"], &all["command"], &all["is_replay"]),
        (&json!([2]), &json!(["./prog"]), &json!(true))
    );
    // A step has at least three messages one after another, and a barrier is at the end.
    for (way, least) in [(0, 150.0 * 5e-3), (1, 150.0 * 2e-3)] {
        assert!(seconds(&all, way, 2) > least, "{all}");
    }
    std::fs::write(site.work().join("cut"), &text[..text.len() - 3]).unwrap();
    for (args, words) in [
        (&["--trace", "cut"][..], "cut is cut short; record it again"),
        (&["--trace", "p.json"], "p.json is no trace"),
        (&["--trace", "t", "--nodes", "2,4"], "says nothing of 4"),
        (&["--trace", "t", "--cores", "2"], "not those of two nodes or more with 2 cores"),
    ] {
        let said = predict(&site, args);
        assert!(said.status == Some(1) && said.stderr.contains(words), "{words}: {said:?}");
    }
}

#[test]
fn what_bench_loggp_writes_is_read() {
    let Some(site) = Site::up(&[]) else { return };
    let quick =
        ["bench", "loggp", "--quick", "--repeats", "1", "--sizes", "1,1K,2K,8K", "--no-same-node"];
    let said = site.wiglaf(&quick).expect_success();
    assert!(said.stdout.contains("between two") && said.stdout.contains("Wiglaf"), "{said:?}");
    let all = json_of(&site.work().join("wiglaf-bench/loggp.json"));
    let contenders = all["contenders"].as_array().unwrap();
    for word in ["wiglaf", "tcp"] {
        let one = contenders.iter().find(|one| one["transport"] == word).unwrap();
        assert_eq!(one["points"].as_array().unwrap().len(), 4, "{one}");
        assert!(
            one["points"].as_array().unwrap().iter().all(|p| p["half_us"].as_f64() > Some(0.0))
        );
        assert_eq!(one["segments"].as_array().unwrap().len(), 2, "{one}");
    }
    std::fs::write(site.work().join("prog.c"), PROGRAM).unwrap();
    if !compile(&site, "smpicc", "prog.smpi") {
        return;
    }
    let args = ["predict", "--nodes", "2", "--transports", "tcp,wiglaf", "--", "./prog.smpi", "8"];
    site.wiglaf(&args).expect_success();
}
