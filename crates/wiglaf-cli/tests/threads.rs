//! MPI_THREAD_MULTIPLE on a real cluster: four threads of each rank send and receive at once, between
//! nodes and within one, over every link. The program checks itself.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Site, has_openmpi};

#[test]
fn four_threads_of_each_rank_send_and_receive_at_once() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wiglaf-fabric/tests/mpi/threads.c");
    let compiled = Command::new("mpicc")
        .args(["-O1", "-o", "threads", "-pthread"])
        .arg(source)
        .current_dir(site.work())
        .status();
    assert!(compiled.expect("mpicc starts").success());
    // Two ranks on two nodes, two on each of two, and two on one.
    for (link, ranks, nodes) in [
        ("udp", "2", "node[1-2]"),
        ("udp", "4", "node[1-2]"),
        ("packet", "2", "node[1-2]"),
        ("packet", "4", "node[1-2]"),
        ("xdp", "2", "node[1-2]"),
        ("xdp", "4", "node[1-2]"),
        ("shm", "2", "node1"),
    ] {
        let run = ["run", "--link", link, "-n", ranks, "-w", nodes, "--", "./threads"];
        let said = site.wiglaf(&run).expect_success();
        assert_eq!(said.stdout, "passed\n", "{link}, {ranks} ranks on {nodes}: {said:?}");
    }
    assert_eq!(site.strays(), 0);
}
