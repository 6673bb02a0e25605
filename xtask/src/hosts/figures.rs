//! What commands take on stand-in hosts, beside what people use else: one run, rivals in turn.
//!
//! Hosts share this machine's processor, and a wire between namespaces is no cable: ratios tell more than times.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use wiglaf_testhosts::{Hosts, Plan, Session};

/// A program that says who it is.
const HELLO: &str = "#include <mpi.h>\n#include <stdio.h>\nint main(int argc, char **argv) {\n  int rank, size;\n  \
                     MPI_Init(&argc, &argv);\n  MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n  \
                     MPI_Comm_size(MPI_COMM_WORLD, &size);\n  printf(\"%d of %d\\n\", rank, size);\n  \
                     MPI_Finalize();\n}\n";
/// A program that goes on until somebody ends it.
const ENDLESS: &str = "#include <mpi.h>\n#include <stdio.h>\nint main(int argc, char **argv) {\n  int sum = 1;\n  \
                       MPI_Init(&argc, &argv);\n  for (int round = 0;; round++) {\n    \
                       MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);\n    \
                       if (round == 1000) { printf(\"runs\\n\"); fflush(stdout); }\n  }\n}\n";
/// Eight bytes there and back, each rank on a processor of its own, as on two machines; the median of half a
/// round trip in nanoseconds.
const PINGPONG: &str = "#define _GNU_SOURCE\n#include <mpi.h>\n#include <sched.h>\n#include <stdio.h>\n\
#include <stdlib.h>\n#define ROUNDS 20000\nstatic double ns[ROUNDS];\n\
static int less(const void *a, const void *b) { double x = *(double *)a, y = *(double *)b;\n  \
  return (x > y) - (x < y); }\nint main(int argc, char **argv) {\n  int rank; double byte8 = 0;\n  \
  cpu_set_t core;\n  MPI_Init(&argc, &argv);\n  MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n  CPU_ZERO(&core);\n  \
  CPU_SET(rank, &core);\n  sched_setaffinity(0, sizeof core, &core);\n  \
  for (int i = -2000; i < ROUNDS; i++) {\n    double before = MPI_Wtime();\n    \
    if (rank) MPI_Recv(&byte8, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n    \
    MPI_Send(&byte8, 8, MPI_BYTE, !rank, 1, MPI_COMM_WORLD);\n    \
    if (!rank) MPI_Recv(&byte8, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n    \
    if (i >= 0) ns[i] = (MPI_Wtime() - before) * 5e8;\n  }\n  qsort(ns, ROUNDS, sizeof *ns, less);\n  \
  if (!rank) printf(\"%.0f\\n\", ns[ROUNDS / 2]);\n  MPI_Finalize();\n}\n";
/// Rounds of what takes less than a second.
const ROUNDS: usize = 21;
/// Rounds of what takes many.
const FEW: usize = 3;
/// Rounds of a program that measures for itself.
const LATENCY_ROUNDS: usize = 7;

/// Measures, and prints a table.
pub(super) fn measure() -> Result<(), String> {
    println!("| what | p50 | p99 or worst | beside | ratio of p50 |\n|---|---|---|---|---|");
    let hosts = bring_up(false)?;
    first_hello(&hosts)?;
    drop(hosts);
    let hosts = bring_up(true)?;
    let ann = hosts[0].as_user("ann");
    for (name, source) in [("hello", HELLO), ("endless", ENDLESS)] {
        compile(&ann, name, source)?;
        okay(&ann, &format!("for host in pc2 pc3 pc4; do scp -q {name} $host: || exit 1; done"))?;
    }
    exec(&ann)?;
    run(&ann)?;
    latency(&ann)?;
    check(&ann)?;
    power_off(&hosts)
}

/// Four hosts; Wiglaf is on the first alone, or on all with the cluster described.
fn bring_up(is_joined: bool) -> Result<Hosts, String> {
    let hosts = Hosts::up(&Plan::new(4).with_sudo()).map_err(|why| why.to_string())?;
    hosts[0].install(&hosts.install_tree()?)?;
    if is_joined {
        let ann = hosts[0].as_user("ann");
        okay(&ann, "wiglaf init --network 192.168.77.0/24 && wiglaf join --yes 'pc[2-4]'")?;
    }
    Ok(hosts)
}

/// From three prepared hosts to the first message.
fn first_hello(hosts: &Hosts) -> Result<(), String> {
    let ann = hosts[0].as_user("ann");
    compile(&ann, "hello", HELLO)?;
    let began = Instant::now();
    okay(&ann, "wiglaf init --network 192.168.77.0/24")?;
    okay(&ann, "wiglaf join --yes 'pc[2-4]'")?;
    let said = okay(&ann, "wiglaf run -n 4 --stage -- ./hello")?;
    if said.lines().count() != 4 {
        return Err(format!("hello said: {said}"));
    }
    row("init, join of three hosts, run of hello", &[began.elapsed()], None);
    Ok(())
}

fn exec(ann: &Session<'_>) -> Result<(), String> {
    // Both over connections that stay.
    let kept =
        "Host pc*\n  ControlMaster auto\n  ControlPath ~/.ssh/kept-%n\n  ControlPersist 300\n";
    okay(ann, &format!("printf '%b' '{}' > .ssh/config", kept.replace('\n', "\\n")))?;
    let lines = ["wiglaf exec -w 'pc[2-4]' -- hostname", "clush -w 'pc[2-4]' hostname"];
    let times = in_turn(ann, &lines, ROUNDS, |said| said.lines().count() >= 3);
    okay(ann, "for host in pc2 pc3 pc4; do ssh -O exit $host; done; rm .ssh/config")?;
    let [ours, theirs] = times?;
    row("`wiglaf exec` on three hosts", &ours, Some(("clush", &theirs)));
    Ok(())
}

fn run(ann: &Session<'_>) -> Result<(), String> {
    let tcp = "mpirun --host pc1,pc2 -n 2 --mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include \
               192.168.77.0/24 --mca oob_tcp_if_include 192.168.77.0/24 ./hello";
    let lines = ["wiglaf run -n 2 -w 'pc[1-2]' -- ./hello", tcp];
    let [ours, theirs] = in_turn(ann, &lines, ROUNDS, |said| said.lines().count() == 2)?;
    row("`wiglaf run` of hello on two hosts", &ours, Some(("mpirun over TCP", &theirs)));
    Ok(())
}

/// Measures the latency of a message between two hosts and between two emulated nodes of this machine, in turn.
fn latency(ann: &Session<'_>) -> Result<(), String> {
    let folder = Path::new("target/figures");
    std::fs::create_dir_all(folder).map_err(|why| why.to_string())?;
    let (source, program) = (folder.join("pingpong.c"), folder.join("pingpong"));
    std::fs::write(&source, PINGPONG).map_err(|why| why.to_string())?;
    said_by(Command::new("mpicc").arg("-O2").arg("-o").arg(&program).arg(&source))?;
    compile(ann, "pingpong", PINGPONG)?;
    let wiglaf = |args: &[&str]| {
        let mut command = Command::new("target/release/wiglaf");
        command.arg("--state").arg(folder.join("state")).args(args);
        command
    };
    said_by(&mut wiglaf(&["up", "--nodes", "2"]))?;
    let (mut hosts, mut nodes) = (Vec::new(), Vec::new());
    let measured = (0..=LATENCY_ROUNDS).try_for_each(|round| {
        let between_hosts = "wiglaf run -n 2 --stage --link udp -w 'pc[1-2]' -- ./pingpong";
        let hosts_ns = nanoseconds(&okay(ann, between_hosts)?)?;
        let mut run = wiglaf(&["run", "-n", "2", "--link", "udp", "--"]);
        let nodes_ns = nanoseconds(&said_by(run.arg(&program))?)?;
        // The first round only warms up.
        if round > 0 {
            hosts.push(hosts_ns);
            nodes.push(nodes_ns);
        }
        Ok(())
    });
    let down = said_by(&mut wiglaf(&["down"]));
    measured.and(down.map(drop))?;
    let (p50, theirs) = (percentile(&hosts, 50), percentile(&nodes, 50));
    println!(
        "| 8 B between two hosts, udp link, half round trip | {:.2} us | {:.2} us | emulated nodes: {:.2} us | {:.2} |",
        p50.as_secs_f64() * 1e6,
        percentile(&hosts, 99).as_secs_f64() * 1e6,
        theirs.as_secs_f64() * 1e6,
        p50.as_secs_f64() / theirs.as_secs_f64()
    );
    Ok(())
}

fn nanoseconds(said: &str) -> Result<Duration, String> {
    let ns = said.trim().parse().map_err(|_| format!("the ping-pong said: {said}"))?;
    Ok(Duration::from_nanos(ns))
}

fn said_by(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|why| format!("{command:?}: {why}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let why = || format!("{command:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(said) } else { Err(why()) }
}

fn check(ann: &Session<'_>) -> Result<(), String> {
    let mut times = Vec::new();
    for _ in 0..FEW {
        let began = Instant::now();
        // Its status says what it found.
        let output = ann.run("wiglaf check --json");
        times.push(began.elapsed());
        if !output.stdout.contains("\"findings\"") {
            return Err(format!("check: {output}"));
        }
    }
    row("`wiglaf check` of four hosts", &times, None);
    Ok(())
}

/// From the power's end to the job's, everywhere.
fn power_off(hosts: &Hosts) -> Result<(), String> {
    let mut times = Vec::new();
    for _ in 0..FEW {
        let ann = hosts[0].as_user("ann");
        let mut job = ann.start("wiglaf run -n 4 -- ./endless");
        if !job.has_printed("runs") {
            return Err(format!("the job did not run: {}", job.wait()));
        }
        hosts[3].power_off();
        let began = Instant::now();
        let output = job.wait();
        times.push(began.elapsed());
        if output.status.success() || !output.stderr.contains("pc4") {
            return Err(format!("the error does not name pc4: {output}"));
        }
        for host in hosts.iter().take(3) {
            let left = host.as_user("ann").run("pgrep -a 'endless|orted|mpirun'");
            if !left.stdout.is_empty() {
                return Err(format!("on {} is left: {}", host.name(), left.stdout));
            }
        }
        hosts[3].power_on().map_err(|why| why.to_string())?;
    }
    row("power off to job ended, nothing left", &times, None);
    Ok(())
}

/// Runs lines in turn; how long each took in each round.
fn in_turn<const N: usize>(
    ann: &Session<'_>,
    lines: &[&str; N],
    rounds: usize,
    is_right: impl Fn(&str) -> bool,
) -> Result<[Vec<Duration>; N], String> {
    let mut times = [const { Vec::new() }; N];
    // The first round warms connections and caches.
    for round in 0..=rounds {
        for (line, times) in lines.iter().zip(&mut times) {
            let began = Instant::now();
            let said = okay(ann, line)?;
            if !is_right(&said) {
                return Err(format!("`{line}` said: {said}"));
            }
            if round > 0 {
                times.push(began.elapsed());
            }
        }
    }
    Ok(times)
}

fn compile(ann: &Session<'_>, name: &str, source: &str) -> Result<(), String> {
    let line = format!("cat > {name}.c && mpicc -O2 -o {name} {name}.c");
    let output = ann.clone().input(source).run(&line);
    output.status.success().then_some(()).ok_or_else(|| output.to_string())
}

fn okay(ann: &Session<'_>, line: &str) -> Result<String, String> {
    let output = ann.run(&format!("timeout 120 sh -c {}", quoted(line)));
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(output.to_string()),
    }
}

fn quoted(line: &str) -> String {
    format!("'{}'", line.replace('\'', "'\\''"))
}

fn row(what: &str, times: &[Duration], rival: Option<(&str, &[Duration])>) {
    let (p50, p99) = (percentile(times, 50), percentile(times, 99));
    let (beside, ratio) = match rival {
        Some((name, times)) => {
            let theirs = percentile(times, 50);
            let (ours, theirs_s) = (p50.as_secs_f64(), theirs.as_secs_f64());
            (format!("{name}: {theirs_s:.3} s"), format!("{:.2}", ours / theirs_s))
        }
        None => (String::new(), String::new()),
    };
    println!(
        "| {what} | {:.3} s | {:.3} s | {beside} | {ratio} |",
        p50.as_secs_f64(),
        p99.as_secs_f64()
    );
}

/// The smallest time that `percent` of all do not exceed.
fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_times() {
        let times: Vec<Duration> = (1..=21).rev().map(Duration::from_secs).collect();
        assert_eq!(percentile(&times, 50), Duration::from_secs(11));
        assert_eq!(percentile(&times, 99), Duration::from_secs(21));
        assert_eq!(percentile(&times[..1], 50), Duration::from_secs(21));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }

    #[test]
    fn a_line_with_quotes_stays_one_word() {
        assert_eq!(quoted("wiglaf join 'pc[2-4]'"), r"'wiglaf join '\''pc[2-4]'\'''");
    }
}
