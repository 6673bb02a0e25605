//! Tools that people hold against MPI programs: a program must run under them as it does alone, over
//! each link.
//!
//! What each needs is installed or the test says `skipped:`.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Said, Site, has_openmpi};

/// Two ranks that exchange a short message, one of several datagrams and a long one, and a sum.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, sum, lens[] = {8, 5000, 300000};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 3; i++) {
        char *buffer = malloc(lens[i]);
        memset(buffer, rank + 1, lens[i]);
        MPI_Sendrecv_replace(buffer, lens[i], MPI_CHAR, 1 - rank, 7, 1 - rank, 7, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        if (buffer[0] != 2 - rank || buffer[lens[i] - 1] != 2 - rank) return 1;
        free(buffer);
    }
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (sum == 1) puts("passed");
    return sum != 1;
}
"#;

const LINKS: [(&str, &str); 4] =
    [("udp", "node[1-2]"), ("packet", "node[1-2]"), ("xdp-generic", "node[1-2]"), ("shm", "node1")];

struct Lab(Site);

impl Lab {
    fn up(options: &[&str]) -> Option<Self> {
        if !has_openmpi() {
            return None;
        }
        let site = Site::up(&["--nodes", "2"])?;
        fs::write(site.work().join("p.c"), PROGRAM).unwrap();
        let mut cc = Command::new("mpicc");
        let status =
            cc.args(["-g", "-o", "p", "p.c"]).args(options).current_dir(site.work()).status();
        assert!(status.unwrap().success());
        Some(Self(site))
    }

    /// Runs the program, below `tool` if that is not empty, over one link.
    fn run(&self, (link, nodes): (&str, &str), tool: &[&str]) -> Said {
        let job = ["run", "--link", link, "-n", "2", "-w", nodes, "--"];
        self.0.wiglaf(&[&job[..], tool, &["./p"]].concat())
    }

    /// Fails unless both ranks pass below that tool over every link.
    fn expect_passes(&self, tool: &[&str]) {
        for place in LINKS {
            let said = self.run(place, tool).expect_success();
            // A launcher joins the two streams where it likes: in mid-line under gdb, which prints too.
            let passed = said.stdout.matches("passed").count();
            assert_eq!(passed, 2, "{tool:?} over {place:?}: {said:?}");
        }
    }
}

fn has(tool: &str, package: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|out| out.status.success());
    if !found {
        eprintln!("skipped: {tool} is not installed ({package})");
    }
    found
}

/// Valgrind hides the vDSO from programs, and serves threads one after the other: with its own order a
/// thread that polls keeps the others waiting for a minute.
const VALGRIND: [&str; 3] = ["valgrind", "-q", "--fair-sched=yes"];

#[test]
fn a_program_runs_under_memcheck_over_every_link() {
    if !has("valgrind", "valgrind") {
        return;
    }
    let Some(lab) = Lab::up(&[]) else { return };
    // Reads of memory that was never written are MPI's own affair as well: writes out of bounds count.
    lab.expect_passes(
        &[&VALGRIND[..], &["--undef-value-errors=no", "--error-exitcode=9"]].concat(),
    );
}

const OTHERS_OF_VALGRIND: [[&str; 2]; 2] = [
    ["--tool=callgrind", "--callgrind-out-file=/dev/null"],
    ["--tool=massif", "--massif-out-file=/dev/null"],
];

#[test]
fn a_program_runs_under_callgrind_and_massif() {
    if !has("valgrind", "valgrind") {
        return;
    }
    let Some(lab) = Lab::up(&[]) else { return };
    for tool in OTHERS_OF_VALGRIND {
        let said = lab.run(LINKS[0], &[&VALGRIND[..], &tool].concat()).expect_success();
        assert_eq!(said.stdout.matches("passed").count(), 2, "{tool:?}: {said:?}");
    }
}

#[test]
#[ignore = "by hand, minutes: the other tools of valgrind"]
fn a_program_runs_under_callgrind_and_massif_over_every_link() {
    if !has("valgrind", "valgrind") {
        return;
    }
    let Some(lab) = Lab::up(&[]) else { return };
    for tool in OTHERS_OF_VALGRIND {
        lab.expect_passes(&[&VALGRIND[..], &tool].concat());
    }
}

#[test]
fn a_program_runs_under_strace_gdb_and_perf_over_every_link() {
    let Some(lab) = Lab::up(&[]) else { return };
    if has("strace", "strace") {
        lab.expect_passes(&["strace", "-f", "-qq", "-o", "/dev/null"]);
    }
    if has("gdb", "gdb") {
        let stop = ["-ex", "break MPI_Allreduce", "-ex", "run", "-ex", "next", "-ex", "continue"];
        let options =
            ["gdb", "-q", "-batch", "-return-child-result", "-ex", "set breakpoint pending on"];
        lab.expect_passes(&[&options[..], &stop, &["--args"]].concat());
    }
    if has("perf", "linux-perf") {
        lab.expect_passes(&["perf", "stat", "-o", "/dev/null", "-e", "task-clock"]);
    }
}

#[test]
fn a_program_that_may_leave_a_core_runs_over_every_link() {
    let Some(lab) = Lab::up(&[]) else { return };
    lab.expect_passes(&["sh", "-c", "ulimit -c unlimited && exec \"$0\""]);
}

#[test]
fn a_program_with_address_sanitizer_runs_over_every_link() {
    let Some(lab) = Lab::up(&["-fsanitize=address"]) else { return };
    // MPI itself frees not all.
    lab.expect_passes(&["env", "ASAN_OPTIONS=detect_leaks=0"]);
}

#[test]
fn a_program_with_another_malloc_runs_over_every_link() {
    let folder = Path::new("/usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let libraries = ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"].map(|name| folder.join(name));
    let there: Vec<_> = libraries.iter().filter(|library| library.exists()).collect();
    if there.is_empty() {
        eprintln!("skipped: neither libjemalloc2 nor libtcmalloc-minimal4 is installed");
        return;
    }
    let Some(lab) = Lab::up(&[]) else { return };
    for library in there {
        lab.expect_passes(&["env", &format!("LD_PRELOAD={}", library.display())]);
    }
}
