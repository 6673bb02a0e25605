//! Death at any moment of a job: of a rank, of the MPI's launcher, of `wiglaf run`, of one's own
//! mpirun and of a whole node. The others end, nothing is left, the next job starts at once, and
//! `wiglaf reset` finds nothing to do. Nothing is asserted of how long it took; it is printed, with
//! the seed of the moments (`WIGLAF_SEED` sets it).
//!
//! The helper's death ends no job, and a rank that only stands still is no death: the job goes on.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use common::{Guarded, Said, Site, eventually, wheel_prefixes, wheels};

const PROGRAM: &str = "rounds";
/// Open MPI's launcher.
const OPENMPI: &str = "mpirun.openmpi";
/// A job that has not ended by then hangs.
const HANG_LIMIT: Duration = Duration::from_secs(30);
/// Deaths fall within this time from the job's start, which takes about half of it.
const MOMENT_MAX: Duration = Duration::from_millis(1500);

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Victim {
    Rank,
    Launcher,
    Run,
    /// The mpirun of who starts it without `wiglaf run`.
    OwnLauncher,
    /// The node where the MPI's launcher runs.
    FirstNode,
    OtherNode,
}

const VICTIMS: [Victim; 6] = [
    Victim::Rank,
    Victim::Launcher,
    Victim::Run,
    Victim::OwnLauncher,
    Victim::FirstNode,
    Victim::OtherNode,
];
/// An ordinary user, who has the packet link by the helper.
const USER: &str = "61001";

/// Random moments that can be had again (xorshift64, Marsaglia 2003).
struct Moments(u64);

impl Moments {
    fn new() -> Self {
        let given = std::env::var("WIGLAF_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let seed = given.unwrap_or(u64::from(now.subsec_nanos())).max(1);
        println!("WIGLAF_SEED={seed}");
        // Otherwise the first moments after a small seed are all early ones.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        MOMENT_MAX.mul_f64((self.0 >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// A cluster, the compiled program, and how it is run.
struct Lab {
    site: Site,
    options: Vec<&'static str>,
    /// What the MPI's launcher is called.
    launcher: &'static str,
}

impl Lab {
    fn up(compiler: &str, options: &[&'static str], launcher: &'static str) -> Option<Self> {
        if Command::new(compiler).arg("-show").output().is_err() {
            eprintln!("skipped: {compiler} is not installed (libopenmpi-dev, libmpich-dev)");
            return None;
        }
        let site = Site::up(&[])?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi/rounds.c");
        let mut cc = Command::new(compiler);
        cc.args(["-O1", "-o", PROGRAM]).arg(source).current_dir(site.work());
        assert!(cc.status().unwrap().success());
        Some(Self { site, options: options.to_vec(), launcher })
    }

    fn command(&self, nodes: &str, seconds: &str) -> Command {
        let program = format!("./{PROGRAM}");
        let own = ["-w", nodes, "-n", "4", "--", &program, seconds];
        let mut command = self.site.command(&[&["run"], &self.options[..], &own].concat());
        command.env("WIGLAF_MPI_PATH", wheel_prefixes());
        command
    }

    /// A job of one's own mpirun, which no `wiglaf run` watches.
    fn own_command(&self) -> Command {
        let script = format!(
            "eval \"$(wiglaf env {})\" && exec {} -n 4 --host node1:2,node2:2 ./{PROGRAM} 0",
            self.options[1..].join(" "),
            self.launcher
        );
        self.site.command(&["exec", "-w", "node1", "--", "sh", "-c", &script])
    }

    #[track_caller]
    fn expect_a_job_to_pass(&self, nodes: &str) {
        let said: Said = self.command(nodes, "0.1").output().unwrap().into();
        assert!(said.status == Some(0) && said.stdout.lines().any(|l| l == "passed"), "{said:?}");
    }

    fn status(&self) -> serde_json::Value {
        let said = self.site.wiglaf(&["status", "--json"]);
        serde_json::from_str(&said.stdout).unwrap()
    }

    /// Processes on all nodes that are up.
    fn processes(&self) -> u64 {
        let status = self.status();
        status["nodes"].as_array().unwrap().iter().map(|n| n["processes"].as_u64().unwrap()).sum()
    }

    /// The pid of a node's init, as the machine knows it.
    fn init(&self, node: usize) -> String {
        self.status()["nodes"][node]["pid"].to_string()
    }

    /// Signals a process of this name on a node as soon as there is one.
    fn signal_on(&self, node: &str, name: &str, signal: &str) {
        let script = format!(
            "for p in /proc/[0-9]*; do read -r name < $p/comm && test \"$name\" = {name} && \
             kill -{signal} ${{p#/proc/}} && exit 0; done 2> /dev/null; exit 1"
        );
        eventually(name, || {
            self.site.wiglaf(&["exec", "-w", node, "--", "sh", "-c", &script]).status == Some(0)
        });
    }

    fn kill(&self, victim: Victim, job: &Child) {
        let kill = |pid: &str| {
            assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
        };
        match victim {
            Victim::Rank => self.signal_on("node2", PROGRAM, "KILL"),
            Victim::Launcher | Victim::OwnLauncher => {
                self.signal_on("node1", self.launcher, "KILL");
            }
            Victim::Run => kill(&job.id().to_string()),
            Victim::FirstNode => kill(&self.init(0)),
            Victim::OtherNode => kill(&self.init(1)),
        }
    }

    /// Sockets and ports of a node, and how many descriptors its init holds.
    fn holdings(&self, node: &str) -> String {
        // Of tcp without those that no process has any more; the command itself has none.
        let script = "cd /proc/net; tail -qn +2 udp udp6 raw 2> /dev/null | wc -l; \
                      tail -n +2 packet | wc -l; \
                      awk 'FNR > 1 && $10 != 0' tcp tcp6 2> /dev/null | wc -l; ls /proc/1/fd | wc -l";
        self.site.sh(node, script)
    }

    /// One death, and what must hold after it.
    fn die(&self, victim: Victim, moment: Duration) {
        let holdings = ["node1", "node2"].map(|node| self.holdings(node));
        let mut job = match victim {
            Victim::OwnLauncher => self.own_command(),
            _ => self.command("node[1-2]", "0"),
        };
        let mut job = job.stdout(Stdio::null()).spawn().unwrap();
        sleep(moment);
        let asked = Instant::now();
        self.kill(victim, &job);
        let killed = Instant::now();
        let wait = |what: &str, is_so: &mut dyn FnMut() -> bool| {
            while !is_so() {
                assert!(killed.elapsed() < HANG_LIMIT, "{victim:?} after {moment:?}: {what}");
                sleep(Duration::from_millis(5));
            }
        };
        wait("processes are left", &mut || self.processes() == 0);
        let gone = killed.elapsed();
        wait("its command has not ended", &mut || job.try_wait().unwrap().is_some());
        let ended = killed.elapsed();
        assert!(!job.wait().unwrap().success(), "{victim:?}: the job did not fail");
        println!(
            "{victim:?}: killed {moment:.0?} + {:.0?} after the start; no process left after \
             {gone:.2?}, its command ended after {ended:.2?}",
            killed - asked
        );

        let living: &[usize] = match victim {
            Victim::FirstNode => &[1],
            Victim::OtherNode => &[0],
            _ => &[0, 1],
        };
        for node in living {
            let name = format!("node{}", node + 1);
            // Of one's own mpirun nobody knows that it is a job until the next one.
            wait("shared memory is left", &mut || {
                victim == Victim::OwnLauncher || self.site.sh(&name, "ls /dev/shm").is_empty()
            });
            wait("sockets or descriptors are left", &mut || {
                self.holdings(&name) == holdings[*node]
            });
        }
        if victim == Victim::OwnLauncher {
            self.expect_a_job_to_pass("node[1-2]");
            // Ours went with the next job; the MPI's own is what `reset` is for.
            for found in reset(&self.site) {
                let left: Vec<_> = found["shared_memory"].as_array().unwrap().iter().collect();
                let ours =
                    |file: &&&serde_json::Value| file.as_str().unwrap().starts_with("wiglaf");
                assert_eq!(left.iter().filter(ours).count(), 0, "{found}");
                assert_eq!(found["processes"].as_array().unwrap().len(), 0, "{found}");
            }
        }
        expect_nothing_to_reset(&self.site);
        if let [node] = living {
            self.expect_a_job_to_pass(&format!("node{}", node + 1));
            self.site.wiglaf(&["up"]).expect_success();
        }
        self.expect_a_job_to_pass("node[1-2]");
        expect_nothing_to_reset(&self.site);
    }

    fn die_in_every_way(&self) {
        let mut moments = Moments::new();
        println!("{:?}", self.options);
        // MPICH's proxies may outlive an mpiexec that is killed while it starts them, over ssh, too.
        let is_own = |victim: Victim| victim == Victim::OwnLauncher;
        let all = VICTIMS.iter().filter(|victim| !is_own(**victim) || self.launcher == OPENMPI);
        all.for_each(|victim| self.die(*victim, moments.next()));
    }

    /// The helpers of both nodes die at that moment of a job, which goes on, and of the next.
    fn outlive_the_helpers(&self, moment: Duration) {
        let kill = || {
            for node in ["node1", "node2"] {
                // `nobody`'s only process.
                self.site.sh(node, "pkill -KILL -u 65534 -x wiglaf || true");
            }
        };
        let job = self.command("node[1-2]", "1").stdout(Stdio::piped()).spawn().unwrap();
        sleep(moment);
        kill();
        let said: Said = job.wait_with_output().unwrap().into();
        println!("helper: killed {moment:.0?} after the start");
        assert!(said.status == Some(0) && said.stdout.ends_with("passed\n"), "{moment:?} {said:?}");
        kill();
        self.expect_a_job_to_pass("node[1-2]");
        expect_nothing_to_reset(&self.site);
    }

    /// Stops one rank in the middle of the job for so long, and then goes on.
    fn stand_still(&self, pause: Duration) {
        let seconds = (pause.as_secs() + 3).to_string();
        let mut job = self.command("node[1-2]", &seconds).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(job.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "running");
        self.signal_on("node2", PROGRAM, "STOP");
        sleep(pause);
        assert!(job.try_wait().unwrap().is_none(), "the job did not wait");
        let script = "for p in /proc/[0-9]*; do read -r _ _ state _ < $p/stat && \
                      test \"$state\" = T && kill -CONT ${p#/proc/}; done; true";
        self.site.sh("node2", script);
        let rest: Vec<String> = lines.map(Result::unwrap).collect();
        assert!(job.wait().unwrap().success() && rest == ["passed"], "{rest:?}");
        expect_nothing_to_reset(&self.site);
    }
}

/// What `wiglaf reset` says of each node.
fn reset(site: &Site) -> Vec<serde_json::Value> {
    let said = site.wiglaf(&["reset", "--json"]).expect_success();
    serde_json::from_str(&said.stdout).unwrap()
}

#[track_caller]
fn expect_nothing_to_reset(site: &Site) {
    for found in reset(site) {
        let is_empty = |what: &str| found[what].as_array().unwrap().is_empty();
        assert!(["processes", "shared_memory", "mounts"].into_iter().all(is_empty), "{found}");
    }
}

#[test]
fn any_death_over_the_packet_link_leaves_nothing() {
    let options = ["--mpi", "openmpi@4", "--link", "packet"];
    let Some(lab) = Lab::up("mpicc.openmpi", &options, OPENMPI) else { return };
    lab.die_in_every_way();
}

#[test]
fn any_death_over_the_udp_link_leaves_nothing() {
    let options = ["--mpi", "openmpi@4", "--link", "udp"];
    let Some(lab) = Lab::up("mpicc.openmpi", &options, OPENMPI) else { return };
    lab.die_in_every_way();
}

#[test]
fn any_death_under_mpich_leaves_nothing() {
    if !wheels().join("mpich-5.0.2").is_dir() {
        eprintln!("skipped: mpich-5.0.2 is not here (`cargo xtask packages test`)");
        return;
    }
    let Some(lab) = Lab::up("mpicc.mpich", &["--mpi", "mpich@5.0.2"], "mpiexec.hydra") else {
        return;
    };
    lab.die_in_every_way();
}

#[test]
fn the_death_of_the_helper_ends_no_job_and_the_next_begins_at_once() {
    let options = ["--mpi", "openmpi@4", "--user", USER, "--link", "packet"];
    let Some(lab) = Lab::up("mpicc.openmpi", &options, OPENMPI) else { return };
    let policy = format!("[[admit]]\nusers = [{USER}]\nlinks = ['packet']\n");
    for node in ["node1", "node2"] {
        lab.site.sh(node, &format!("echo \"{policy}\" > /etc/wiglaf/helper.toml"));
    }
    let mut moments = Moments::new();
    let (early, late) = (moments.next() / 2, MOMENT_MAX / 2 + moments.next() / 2);
    for moment in [Duration::ZERO, early, late] {
        lab.outlive_the_helpers(moment);
    }
    let log = lab.site.sh("node2", "cat /run/wiglaf-helper/log");
    assert!(log.matches("listening").count() > 3, "no helper died: {log}");
    assert!(log.contains(&format!("user {USER} has a packet socket")), "{log}");
}

fn stand_still_over_each_link(pause: Duration) {
    for link in ["packet", "udp", "xdp"] {
        let options = ["--mpi", "openmpi@4", "--link", link];
        let Some(lab) = Lab::up("mpicc.openmpi", &options, OPENMPI) else { return };
        lab.stand_still(pause);
        println!("{link}: stood still for {pause:?}, and went on");
    }
}

#[test]
fn a_rank_that_stands_still_is_waited_for() {
    stand_still_over_each_link(Duration::from_secs(3));
}

#[test]
#[ignore = "takes 3 minutes: cargo test -p wiglaf-cli --test death minute -- --ignored --nocapture"]
fn a_rank_that_stands_still_for_a_minute_is_waited_for() {
    stand_still_over_each_link(Duration::from_secs(60));
}

#[test]
fn reset_finds_what_was_left_and_leaves_alone_what_runs() {
    let Some(site) = Site::up(&[]) else { return };
    let args = ["run", "--mpi", "none", "--", "sh", "-c", "echo runs; exec sleep 1000"];
    let mut job = site.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(job.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().take(2).all(|line| line.unwrap() == "runs"));
    expect_nothing_to_reset(&site);
    assert_eq!(site.strays(), 2, "the job was ended");

    // One that leaves its command's process group, as daemons do.
    let escape = "setsid sleep 2000 < /dev/null > /dev/null 2>&1 & touch /dev/shm/left";
    site.sh("node2", escape);
    eventually("it runs", || site.strays() == 3);
    let found = reset(&site);
    assert_eq!(found[0]["processes"].as_array().unwrap().len(), 0, "{found:?}");
    assert_eq!(found[1]["processes"].as_array().unwrap().len(), 1, "{found:?}");
    assert_eq!(found[1]["processes"][0]["command"], "sleep 2000", "{found:?}");
    assert_eq!(site.strays(), 2);
    assert_eq!(site.sh("node2", "ls /dev/shm"), "left\n", "a job runs, and may need it");

    job.kill().unwrap();
    job.wait().unwrap();
    eventually("the job is gone", || site.strays() == 0);
    site.sh("node1", "touch /dev/shm/also");
    let said = site.wiglaf(&["reset", "-w", "node1"]).expect_success();
    assert_eq!(said.stdout, "node1: removed /dev/shm/also\n");
    assert_eq!(site.wiglaf(&["reset", "-w", "node1"]).stdout, "node1: nothing was left\n");
}

#[test]
fn a_daemon_that_stands_still_is_ended() {
    let Some(site) = Site::up(&[]) else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi/stuck.c");
    let start = |name: &str| {
        let built = Command::new("cc").arg("-o").arg(site.work().join(name)).arg(&source).status();
        assert!(built.unwrap().success());
        let program = format!("./{name}");
        let args = ["run", "--mpi", "none", "-n", "1", "-w", "node2", "--", &program];
        let streams = (Stdio::piped(), Stdio::piped());
        let mut job = site.command(&args).stdout(streams.0).stderr(streams.1).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(job.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "runs\n");
        job
    };
    // Any other program may do the same, and for good reasons.
    let mut patient = start("patient");
    let daemon: Said = start("orted").wait_with_output().unwrap().into();
    assert_eq!(daemon.status, Some(137), "{daemon:?}");
    assert!(daemon.stderr.contains("orted") && daemon.stderr.contains("stood still"), "{daemon:?}");
    assert!(patient.try_wait().unwrap().is_none(), "it was ended, too");
    patient.kill().unwrap();
    patient.wait().unwrap();
    expect_nothing_to_reset(&site);
}

#[test]
fn a_daemon_whose_first_thread_has_ended_goes_with_its_job() {
    let Some(site) = Site::up(&[]) else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi/headless.c");
    let mut cc = Command::new("cc");
    let built = cc.args(["-pthread", "-o"]).arg(site.work().join("headless")).arg(&source).status();
    assert!(built.unwrap().success());
    // Not by what an init counts: that is what is asked here.
    let count = || site.sh("node1", "cat /proc/[0-9]*/comm | grep -cx headless || true");
    let args = ["run", "--mpi", "none", "-n", "1", "-w", "node1", "--", "./headless"];
    let mut job = site.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(job.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!((line.as_str(), count().trim()), ("runs\n", "2"));
    eventually("both are counted", || site.strays() == 2);
    job.kill().unwrap();
    job.wait().unwrap();
    eventually("both are gone", || count().trim() == "0");

    // The broom sees it, too.
    site.sh("node1", "setsid ./headless < /dev/null > /dev/null 2>&1 &");
    eventually("it runs", || count().trim() == "2");
    reset(&site);
    assert_eq!(count().trim(), "0");
}

#[test]
fn what_ranks_left_beside_a_command_goes_and_what_that_made_stays() {
    for transport in ["wiglaf", "tcp"] {
        let options = ["--mpi", "openmpi@4", "--transport", transport];
        let Some(lab) = Lab::up("mpicc.openmpi", &options, OPENMPI) else { return };
        let list = || lab.site.sh("node1", "ls /dev/shm");
        let mut beside = lab.site.command(&["exec", "-w", "node1", "--", "sleep", "1000"]);
        let mut beside = Guarded(beside.spawn().unwrap());
        let mut job = lab.command("node1", "0").stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(job.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "running");
        let made = list();
        assert!(made.lines().count() >= 2, "the ranks share memory: {made}");
        lab.site.sh("node1", "touch /dev/shm/staged");
        job.kill().unwrap();
        job.wait().unwrap();
        eventually("the ranks' memory is gone", || list() == "staged\n");
        assert!(beside.0.try_wait().unwrap().is_none(), "the command was ended");
        beside.0.kill().unwrap();
        beside.0.wait().unwrap();
    }
}

#[test]
fn what_a_job_left_beside_another_goes_with_the_other() {
    let Some(site) = Site::up(&[]) else { return };
    let start = |file: &str| {
        let script = format!("touch /dev/shm/{file}; echo runs; exec sleep 1000");
        let args = ["run", "--mpi", "none", "-n", "1", "-w", "node1"];
        let mut job = site.command(&args);
        // Ports of ranks without an MPI are counted from the same number for every job.
        let mut job = job.args(["--", "sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(job.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "runs");
        job
    };
    let end = |mut job: Child, left: usize| {
        job.kill().unwrap();
        job.wait().unwrap();
        eventually("its process is gone", || site.strays() == left);
    };
    let (first, second) = (start("first"), start("second"));
    end(first, 1);
    // The first job's end is told to the node's other jobs after its last process.
    sleep(Duration::from_secs(2));
    end(second, 0);
    eventually("nothing is left", || site.sh("node1", "ls /dev/shm").is_empty());
}
