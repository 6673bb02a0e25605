//! Jobs on real clusters: under Open MPI over TCP, and without any MPI.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use common::{Guarded, Site, eventually, fresh, has_openmpi};

/// Sums the ranks, and ends badly in the way it is told.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, sum, length;
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &length);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d on %s: sum %d\n", rank, size, name, sum);
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "crash") && rank == 1) raise(11);
    if (argc > 1 && !strcmp(argv[1], "hang")) for (;;) pause();
    MPI_Finalize();
    return argc > 1 && !strcmp(argv[1], "fail") ? 9 : 0;
}
"#;

impl Site {
    /// A cluster and the compiled program.
    fn with_program(args: &[&str]) -> Option<Self> {
        if !has_openmpi() {
            return None;
        }
        let site = Self::up(args)?;
        fs::write(
            site.work().join("sum.c"),
            PROGRAM.replace("<string.h>", "<string.h>\n#include <signal.h>"),
        )
        .unwrap();
        let cc =
            Command::new("mpicc").args(["-o", "sum", "sum.c"]).current_dir(site.work()).status();
        assert!(cc.unwrap().success());
        Some(site)
    }

    fn run_tcp(&self, args: &[&str]) -> common::Said {
        self.wiglaf(&[&["run", "--transport", "tcp"], args].concat())
    }

    /// No process and no shared memory on any node.
    #[track_caller]
    fn assert_clean(&self) {
        if self.strays() > 0 {
            let left = self.wiglaf(&["exec", "-L", "--", "ps", "-ef"]).stdout;
            panic!("still there: {left}");
        }
        assert_eq!(self.sh("node1", "ls /dev/shm") + &self.sh("node2", "ls /dev/shm"), "");
    }
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn ranks_are_dealt_to_nodes() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    for (args, expected) in [
        (&["--", "hostname"][..], &["node1", "node2"][..]),
        (&["-n", "3", "--", "hostname"], &["node1", "node1", "node2"]),
        (&["-w", "node2", "-n", "2", "--", "hostname"], &["node2", "node2"]),
        (&["-n", "1", "--", "hostname"], &["node1"]),
    ] {
        let said = site.run_tcp(args).expect_success();
        assert_eq!(sorted(&said.stdout), expected, "{args:?}");
    }
    site.assert_clean();
}

#[test]
fn an_mpi_program_runs_over_tcp() {
    let Some(site) = Site::with_program(&[]) else { return };
    let said = site.run_tcp(&["-n", "4", "--", "./sum"]).expect_success();
    let cyclic = ["node1", "node2", "node1", "node2"];
    for (rank, node) in cyclic.iter().enumerate() {
        assert_eq!(sorted(&said.stdout)[rank], format!("rank {rank} of 4 on {node}: sum 6"));
    }
    let said = site.run_tcp(&["-n", "4", "--deal", "block", "--", "./sum"]).expect_success();
    let block = ["node1", "node1", "node2", "node2"];
    for (rank, node) in block.iter().enumerate() {
        assert_eq!(sorted(&said.stdout)[rank], format!("rank {rank} of 4 on {node}: sum 6"));
    }
    site.assert_clean();
}

#[test]
fn status_input_and_environment_are_the_programs() {
    let Some(site) = Site::with_program(&[]) else { return };
    assert_eq!(site.run_tcp(&["--", "./sum", "fail"]).status, Some(9));

    let mut cat = site
        .command(&["run", "--transport", "tcp", "-n", "1", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    cat.stdin.take().unwrap().write_all(b"through mpirun\n").unwrap();
    let output = cat.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "through mpirun\n");

    let said = site
        .command(&["run", "--transport", "tcp", "--", "sh", "-c", "echo $WIGLAF_TEST"])
        .env("WIGLAF_TEST", "forwarded")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), "forwarded\nforwarded\n");
}

#[test]
fn a_crashed_rank_leaves_nothing() {
    let Some(site) = Site::with_program(&[]) else { return };
    for transport in ["wiglaf", "tcp"] {
        let run = |args: &[&str]| site.wiglaf(&[&["run", "--transport", transport], args].concat());
        let said = run(&["-n", "4", "--", "./sum", "crash"]);
        assert_eq!(said.status, Some(139), "{transport}: {said:?}");
        site.assert_clean();
        run(&["--", "./sum"]).expect_success();
    }
}

#[test]
fn an_interrupted_job_leaves_nothing() {
    let Some(site) = Site::with_program(&[]) else { return };
    for signal in ["-INT", "-TERM", "-KILL"] {
        let args = ["run", "--transport", "tcp", "--", "./sum", "hang"];
        let mut job = site.interruptible(&args).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(job.stdout.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().starts_with("rank"));
        assert!(
            Command::new("kill").args([signal, &job.id().to_string()]).status().unwrap().success()
        );
        let ended = job.wait().unwrap();
        // Only a launcher that lives to the end can say how the program ended.
        assert_eq!(ended.code().is_some(), signal == "-TERM", "{signal}: {ended}");
        assert!(!ended.success(), "{signal}: {ended}");
        // Only a launcher that was killed cannot wait for its job's end.
        if signal == "-KILL" {
            eventually("the job is gone", || site.strays() == 0);
            eventually("its memory is gone", || site.sh("node1", "ls /dev/shm").is_empty());
        }
        site.assert_clean();
    }
}

/// What `nohup`, and a shell for what it starts in the background, have made ignored stays so.
/// The first rank waits half a second for the last, and says how often it slept meanwhile: whenever it is not to be
/// without its core for more than 10 ms at a time.
const WAITS: &str = r#"
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, got = 0;
    struct rusage before, after;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    getrusage(RUSAGE_THREAD, &before);
    if (rank == size - 1) {
        usleep(500000);
        MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    } else if (rank == 0) {
        MPI_Recv(&got, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        getrusage(RUSAGE_THREAD, &after);
        printf("%s\n", after.ru_nvcsw - before.ru_nvcsw < 20 ? "awake" : "asleep");
    }
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn ranks_wait_as_they_are_told() {
    let Some(site) = Site::with_program(&[]) else { return };
    fs::write(site.work().join("waits.c"), WAITS).unwrap();
    let mut cc = Command::new("mpicc");
    cc.args(["-o", "waits", "waits.c"]).current_dir(site.work());
    assert!(cc.status().unwrap().success());
    let nodes = [&["-n", "2"][..], &["-n", "2", "-w", "node1"]];
    for (policy, expected) in [("poll", "awake\n"), ("adaptive", "asleep\n"), ("block", "asleep\n")]
    {
        for nodes in nodes {
            let args = [&["run", "--wait", policy][..], nodes, &["--", "./waits"]].concat();
            let said = site.wiglaf(&args).expect_success();
            assert_eq!(said.stdout, expected, "{args:?}");
        }
    }
    let said = site.wiglaf(&["run", "--wait", "poll", "--transport", "tcp", "--", "./waits"]);
    said.expect_sentence(1, "--wait is of Wiglaf's transport only");
    let said = site.wiglaf(&["run", "-x", "WIGLAF_WAIT=spin", "--", "./waits"]);
    assert!(said.stderr.contains("give poll, adaptive or block"), "{said:?}");
}

#[test]
fn a_signal_that_is_ignored_does_not_end_a_job() {
    let Some(site) = Site::with_program(&[]) else { return };
    let exe = env!("CARGO_BIN_EXE_wiglaf");
    let script = format!("trap '' HUP INT; exec {exe} run --transport tcp -- ./sum hang");
    let mut sh = site.started_by(Command::new("sh"), &["-c", &script]);
    let mut job = Guarded(sh.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(job.0.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("rank"));
    let pid = job.0.id().to_string();
    let kill = |signal: &str| Command::new("kill").args([signal, &pid]).status().unwrap();
    // The first signal that is passed on is passed on as it is, and the second kills.
    assert!(kill("-HUP").success() && kill("-INT").success() && kill("-TERM").success());
    let ended = job.0.wait().unwrap();
    assert!(!ended.success() && ended.code() != Some(128 + 9), "{ended}");
    site.assert_clean();
}

#[test]
fn what_is_typed_reaches_the_first_rank() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    let exe = env!("CARGO_BIN_EXE_wiglaf");
    for mpi in ["openmpi", "none"] {
        let inner = format!("read line; echo \"$line\" > got-{mpi}");
        let outer = format!("{exe} run --transport tcp --mpi {mpi} -n 1 -- sh -c '{inner}'");
        let mut script = site.started_by(Command::new("script"), &["-qec", &outer, "/dev/null"]);
        script.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut script = Guarded(script.spawn().unwrap());
        let mut keys = script.0.stdin.take().unwrap();
        keys.write_all(b"typed\n").unwrap();
        let got = || fs::read_to_string(site.work().join(format!("got-{mpi}"))).ok();
        eventually("the rank has read it", || got().as_deref() == Some("typed\n"));
        assert!(script.0.wait().unwrap().success());
    }
    site.assert_clean();
}

#[test]
fn a_program_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    let name = std::ffi::OsStr::from_bytes(b"./pro\xffgram");
    fs::write(site.work().join(name), "#!/bin/sh\necho started\n").unwrap();
    fs::set_permissions(site.work().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    let mut run = site.command(&["run", "--transport", "tcp", "-n", "1", "--"]);
    let said = common::Said::from(run.arg(name).output().unwrap()).expect_success();
    assert_eq!(said.stdout, "started\n");
}

#[test]
fn a_job_leaves_the_shared_memory_of_other_users_alone() {
    let Some(site) = Site::up(&[]) else { return };
    let script = "touch /dev/shm/ours; setpriv --reuid 65534 --clear-groups touch /dev/shm/theirs";
    site.wiglaf(&["run", "--mpi", "none", "-n", "1", "--", "sh", "-c", script]).expect_success();
    assert_eq!(site.sh("node1", "ls /dev/shm"), "theirs\n");
}

#[test]
fn bad_jobs_are_one_sentence() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    site.run_tcp(&["--", "no-such-program"]).expect_sentence(127, "no program `no-such-program`");
    site.run_tcp(&["-w", "node9", "--", "true"])
        .expect_sentence(1, "has no node node9; it has node[1-2]");
    site.run_tcp(&["--interface", "eth7", "--", "true"])
        .expect_sentence(1, "node1 has no interface eth7; it has eth0, lo");
    site.run_tcp(&["-n", "0", "--", "true"]).expect_sentence(1, "a job has 1 to 4096 ranks");
    let said =
        site.command(&["run", "--", "true"]).env("WIGLAF_LIBDIR", "/no/such").output().unwrap();
    common::Said::from(said).expect_sentence(1, "libwiglaf-fi.so is not in /no/such");
    // Where there is none: what the machine has beside its packages is hidden from this one command.
    let hidden = "for folder in /usr/local/lib* /usr/local/local/lib* /opt/*/lib* /opt/*/local/lib*; do \
                  test ! -d \"$folder\" || mount -t tmpfs none \"$folder\" || exit 1; done; \
                  PATH=/none exec \"$0\" run --transport tcp -- true";
    let exe = env!("CARGO_BIN_EXE_wiglaf");
    let mut unshare = site.started_by(Command::new("unshare"), &["-m", "sh", "-c", hidden, exe]);
    common::Said::from(unshare.output().unwrap()).expect_sentence(127, "Open MPI is not installed");
    site.assert_clean();
}

#[test]
fn without_mpi_ranks_find_their_peers_in_the_environment() {
    let Some(site) = Site::up(&[]) else { return };
    let script =
        "echo $WIGLAF_RANK/$WIGLAF_SIZE $(hostname) $WIGLAF_PEERS $WIGLAF_KEY $WIGLAF_LINK";
    let run = |args: &[&str]| {
        site.wiglaf(&[&["run", "--mpi", "none"], args, &["--", "sh", "-c", script]].concat())
    };
    let said = run(&["-n", "3", "--link", "udp"]).expect_success();
    let lines = sorted(&said.stdout);
    assert_eq!(lines.len(), 3, "{said:?}");
    let words: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
    let [first, second, third] = &words[..] else { panic!("{words:?}") };
    assert_eq!((first[0], first[1]), ("0/3", "node1"));
    assert_eq!((second[0], second[1]), ("1/3", "node2"));
    assert_eq!((third[0], third[1]), ("2/3", "node1"));
    assert_eq!((first[2], first[3]), (third[2], third[3]), "one list, one key");
    assert_eq!((first[3].len(), first[4]), (32, "udp"));
    let peers: Vec<Vec<&str>> = first[2].split(',').map(|p| p.split(':').collect()).collect();
    let places: Vec<(&str, &str)> = peers.iter().map(|p| (p[0], p[1])).collect();
    assert_eq!(places, [("10.77.0.1", "7701"), ("10.77.0.2", "7701"), ("10.77.0.1", "7702")]);
    let epochs: Vec<u64> = peers.iter().map(|p| u64::from_str_radix(p[2], 16).unwrap()).collect();
    assert!(epochs.iter().all(|e| *e != 0));
    let again = run(&[]).expect_success().stdout;
    assert!(!again.contains(peers[0][2]) && !again.contains(first[3]), "drawn anew for every job");
}

#[test]
fn without_mpi_the_first_failure_ends_the_job() {
    let Some(site) = Site::up(&[]) else { return };
    let script = "test $WIGLAF_RANK = 0 && exit 5; sleep 1000";
    let said = site.wiglaf(&["run", "--mpi", "none", "--", "sh", "-c", script]);
    assert_eq!(said.status, Some(5), "{said:?}");
    site.assert_clean();
}

#[test]
fn a_port_in_use_is_one_sentence() {
    let Some(site) = Site::up(&[]) else { return };
    let hold = "$| = 1; my $s = IO::Socket::INET->new(Proto=>'udp',LocalPort=>7701) or die; \
                print \"listening\\n\"; sleep 1000";
    let mut holder = site
        .command(&["exec", "-w", "node2", "--", "perl", "-MIO::Socket", "-e", hold])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "listening");
    site.wiglaf(&["run", "--mpi", "none", "--", "sleep", "1000"])
        .expect_sentence(1, "UDP port 7701 of node2 is in use");
    // It was killed, and its parent may not have run since.
    eventually("rank 0 is gone from node1", || site.strays() == 1);
    // A client that is killed takes its command along.
    holder.kill().unwrap();
    holder.wait().unwrap();
    eventually("the holder is gone", || site.strays() == 0);
}

#[test]
fn run_brings_the_default_cluster_up_and_says_so() {
    if let Some(reason) = common::why_not() {
        eprintln!("skipped: {reason}");
        return;
    }
    let site = Site::new();
    let said = site.wiglaf(&["run", "--mpi", "none", "--", "hostname"]).expect_success();
    assert_eq!(sorted(&said.stdout), ["node1", "node2"]);
    assert!(said.stderr.contains("no cluster was up"), "{said:?}");
    let said = site.wiglaf(&["run", "--mpi", "none", "--", "hostname"]).expect_success();
    assert_eq!(said.stderr, "");
}

#[test]
fn ones_own_mpirun_works_with_the_environment() {
    let Some(site) = Site::with_program(&[]) else { return };
    for transport in ["", "--transport tcp"] {
        let script =
            format!("eval \"$(wiglaf env {transport})\" && mpirun -n 2 --host node1,node2 ./sum");
        let said = site.sh("node1", &script);
        let ranks = ["rank 0 of 2 on node1: sum 1", "rank 1 of 2 on node2: sum 1"];
        assert_eq!(sorted(&said), ranks, "wiglaf env {transport}");
    }
}

#[test]
fn a_provider_older_than_its_sources_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (bin, source) = (root.join("target/debug"), root.join("crates/of-them/src/lib.rs"));
    let release = root.join("target/release");
    for folder in [&bin, &release, source.parent().unwrap()] {
        fs::create_dir_all(folder).unwrap();
    }
    let date = |path: &Path, hour: u64| {
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(hour * 3600);
        fs::File::options().append(true).open(path).unwrap().set_modified(then).unwrap();
    };
    let stale = || fresh::stale("of-them", &bin, &root.join("crates"));
    let refused = |words: &str| {
        let why = stale().unwrap_or_default();
        assert!(why.contains(words), "{why}");
    };
    assert_eq!(stale(), None);
    fs::write(&source, "").unwrap();
    date(&source, 2);
    for (folder, command) in [(&release, "cargo build --release -p of-them"), (&bin, "remove it")] {
        let library = folder.join("libof_them.so");
        fs::write(&library, "").unwrap();
        refused("without the list of its sources");
        let list = |sources: &str| fs::write(library.with_extension("d"), sources).unwrap();
        list("libof_them.so: /no/such/lib.rs\n");
        refused("from sources elsewhere");
        list(&format!("libof_them.so: {}\n", source.display()));
        date(&library, 1);
        refused("is older than");
        refused(command);
        date(&library, 3);
        assert_eq!(stale(), None);
    }
}
