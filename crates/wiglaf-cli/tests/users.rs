//! Jobs of ordinary users: with the packet link for those whom the helper's
//! policy admits, and closed to each other.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use common::{Said, Site, eventually, has_openmpi};

const ANN: &str = "61001";
const BOB: &str = "61002";
const POLICY: &str = "[[admit]]\nusers = [61001]\nlinks = ['packet']\n\
                      [[admit]]\nallocation = '/run/allocation'\nlinks = ['packet']\n";

/// Says who it is, and stays for as long as it is told.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, sum, go = argc < 2;
    char line[256], caps[64] = "?";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status)) sscanf(line, "CapEff: %63s", caps);
    printf("rank %d: sum %d, user %d, capabilities %s\n", rank, sum, geteuid(), caps);
    fflush(stdout);
    while (!go) {
        go = access("go", F_OK) == 0;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
"#;

impl Site {
    /// A cluster whose helpers have our policy, and the compiled program.
    fn with_policy() -> Option<Self> {
        if !has_openmpi() {
            return None;
        }
        let site = Self::up(&[])?;
        fs::write(site.work().join("who.c"), PROGRAM).unwrap();
        fs::set_permissions(site.work(), fs::Permissions::from_mode(0o777)).unwrap();
        let cc =
            Command::new("mpicc").args(["-o", "who", "who.c"]).current_dir(site.work()).status();
        assert!(cc.unwrap().success());
        for node in ["node1", "node2"] {
            site.sh(node, &format!("echo \"{POLICY}\" > /etc/wiglaf/helper.toml"));
            eventually("the helper listens", || {
                site.sh(node, "ls /run/wiglaf-helper").contains("socket")
            });
        }
        Some(site)
    }

    fn run_as(&self, user: &str, link: &str) -> Said {
        let args = ["run", "--user", user, "--link", link, "-n", "2", "--", "./who"];
        self.command(&args).env("FI_LOG_LEVEL", "warn").output().unwrap().into()
    }

    fn stay_as(&self, user: &str, link: &str) -> Child {
        let args = ["run", "--user", user, "--link", link, "-n", "2", "--", "./who", "stay"];
        self.command(&args).stdout(Stdio::null()).spawn().unwrap()
    }
}

#[test]
fn an_admitted_user_runs_over_the_packet_link_without_capabilities() {
    let Some(site) = Site::with_policy() else { return };
    let said = site.run_as(ANN, "packet").expect_success();
    for rank in 0..2 {
        let line = format!("rank {rank}: sum 1, user {ANN}, capabilities 0000000000000000");
        assert!(said.stdout.contains(&line), "{said:?}");
    }
    assert_eq!(site.strays(), 0);
    assert!(
        site.sh("node1", "cat /run/wiglaf-helper/log").contains("user 61001 has a packet socket")
    );
}

#[test]
fn a_refused_user_is_told_and_falls_back_until_the_scheduler_allocates() {
    let Some(site) = Site::with_policy() else { return };
    let said = site.run_as(BOB, "packet");
    let sentence = "does not admit user 61002 to the packet link";
    assert!(said.status != Some(0) && said.stderr.contains(sentence), "{said:?}");
    let said = site.run_as(BOB, "auto").expect_success();
    assert!(said.stdout.contains("rank 1: sum 1, user 61002"), "{said:?}");
    assert!(
        said.stderr.contains(sentence) && said.stderr.contains("the udp link is used"),
        "{said:?}"
    );
    assert!(
        site.sh("node1", "cat /run/wiglaf-helper/log")
            .contains("user 61002 refused (not admitted)")
    );
    let doctor = site.sh_as("node1", BOB, "wiglaf doctor");
    assert!(doctor.contains("user 61002 is not admitted"), "{doctor}");

    // What a scheduler's prolog and epilog do.
    for node in ["node1", "node2"] {
        site.sh(node, &format!("echo {BOB} > /run/allocation"));
    }
    site.run_as(BOB, "packet").expect_success();
    for node in ["node1", "node2"] {
        site.sh(node, "rm /run/allocation");
    }
    assert!(site.run_as(BOB, "packet").status != Some(0));
}

#[test]
fn one_user_has_nothing_of_anothers_job() {
    let Some(site) = Site::with_policy() else { return };
    let mut job = site.stay_as(ANN, "packet");
    let pid = || site.sh("node1", "pgrep -u 61001 -x who || true").trim().to_owned();
    eventually("the job can be seen by root", || site.wiglaf(&["stats"]).stdout.contains("packet"));
    let pid = pid();
    assert!(!pid.is_empty());

    // Its user sees and reads it all, so that the refusals below mean something.
    let key = format!("tr '\\0' '\\n' < /proc/{pid}/environ | grep -c WIGLAF_KEY=");
    let file = format!("tr '\\0' '\\n' < /proc/{pid}/environ | sed -n s/WIGLAF_KEY=@//p");
    let file = site.sh("node1", &file).trim().to_owned();
    let secret = format!("wc -c < {file}");
    let shm = "cat /dev/shm/wiglaf-* > /dev/null && echo read";
    let stats = "wiglaf stats --json | grep -c '\"epoch\"'";
    assert_eq!(site.sh_as("node1", ANN, &key).trim(), "1");
    assert_eq!(site.sh_as("node1", ANN, &secret).trim(), "32", "{file}");
    assert_eq!(site.sh_as("node1", ANN, shm).trim(), "read");
    assert_ne!(site.sh_as("node1", ANN, stats).trim(), "0");

    assert!(site.sh_as("node1", BOB, &key).contains("Permission denied"));
    assert!(site.sh_as("node1", BOB, &secret).contains("Permission denied"));
    let theirs = site.sh_as("node1", BOB, shm);
    assert!(theirs.contains("Permission denied") && !theirs.contains("read\n"), "{theirs}");
    assert_eq!(site.sh_as("node1", BOB, stats).trim(), "0");
    let memory = site.sh_as("node1", BOB, &format!("head -c 1 /proc/{pid}/mem"));
    assert!(memory.contains("Permission denied"), "{memory}");

    // Its port is taken, even to who is willing to share it.
    let port = site.sh(
        "node1",
        "wiglaf stats --json | grep -m1 '\"at\": \"10.77.0.1:' | grep -o '[0-9]*\",' | tr -d '\",'",
    );
    let bind = format!(
        "python3 -c \"import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
         s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n\
         s.bind(('10.77.0.1', {}))\" | tail -1",
        port.trim()
    );
    assert!(site.sh_as("node1", BOB, &bind).contains("Address already in use"), "port {port}");
    let raw = "python3 -c \"import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\"";
    assert!(site.sh_as("node1", BOB, raw).contains("Operation not permitted"));

    fs::write(site.work().join("go"), "").unwrap();
    assert!(job.wait().unwrap().success());
    assert_eq!(site.sh("node1", "ls -A /run/wiglaf-keys"), "", "it goes with the job");
}

#[test]
fn only_root_chooses_another_user() {
    let site = Site::new();
    site.wiglaf(&["run", "--user", "no-such-user", "--", "x"])
        .expect_sentence(2, "no user `no-such-user`");
}
