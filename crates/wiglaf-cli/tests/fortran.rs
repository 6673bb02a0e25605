//! Fortran programs on emulated nodes, and what becomes of their truths.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{Said, Site};

/// What a program writes where the compiler's .TRUE. is -1, and MPI's is 1.
const WRONG: &str = "wrong: allreduce LAND on rank 0: got and wanted 1 0 0 0 -1 0 0 0";
/// `WAY`: mpif.h, `use mpi`, `use mpi_f08`.
const WAYS: [&str; 3] = ["1", "2", "3"];

/// Whether a program can be tried; says why not.
fn has(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| {
        let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        found.is_err()
    });
    if let Some(program) = missing {
        eprintln!("skipped: {program} is not installed");
    }
    missing.is_none()
}

/// A cluster, where Fortran programs for Open MPI can be built and run.
fn site() -> Option<Site> {
    if !has(&["gfortran", "mpif90.openmpi", "mpirun.openmpi"]) {
        return None;
    }
    Site::up(&[])
}

/// Compiles one of the sources beside this file into the working folder.
#[track_caller]
fn compile(site: &Site, compiler: &str, source: &str, flags: &[&str], program: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fortran").join(source);
    // mpif.h has no interfaces, so gfortran compares calls with each other.
    let lax = source.ends_with("F90").then_some("-fallow-argument-mismatch");
    let output = Command::new(compiler)
        .args(["-w", "-o", program])
        .arg(path)
        .args(lax)
        .args(flags)
        .current_dir(site.work())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// All is right, or what MPI alone makes of it.
#[track_caller]
fn assert_right(said: &Said, ranks: usize) {
    assert_eq!(said.status, Some(0), "{said:?}");
    let end = format!("wrong on {ranks} ranks\n");
    assert!(said.stdout.starts_with("0 of ") && said.stdout.ends_with(&end), "{said:?}");
}

#[track_caller]
fn assert_wrong(said: &Said) {
    assert_eq!(said.status, Some(0), "{said:?}");
    assert!(said.stdout.lines().any(|line| line == WRONG), "{said:?}");
}

#[test]
fn logical_reductions_are_wrong_without_and_right_with_the_interposer() {
    let Some(site) = site() else { return };
    for way in WAYS {
        let way = format!("-DWAY={way}");
        compile(&site, "mpif90.openmpi", "reductions.F90", &["-DKINDS", &way], "reductions");
        assert_wrong(&site.wiglaf(&["run", "--", "./reductions"]));
        let said = site.wiglaf(&["run", "--fortran-true=-1", "-n", "3", "--", "./reductions"]);
        assert_right(&said, 3);
    }
    // The last of them, by one's own mpirun; and a program that needs no help.
    let own =
        "eval \"$(wiglaf env --fortran-true=-1)\"; mpirun -n 2 --host node1,node2 ./reductions";
    let said = site.wiglaf(&["exec", "-w", "node1", "--", "sh", "-c", own]);
    assert_right(&said, 2);
    compile(&site, "mpif90.openmpi", "reductions.F90", &["-DTRUTH=1", "-DWAY=1"], "reductions");
    assert_right(&site.wiglaf(&["run", "--fortran-true=1", "--", "./reductions"]), 2);
}

#[test]
fn every_mangling_is_interposed() {
    let Some(site) = site() else { return };
    compile(&site, "mpicc.openmpi", "caller.c", &["-lmpi_mpifh"], "caller");
    let said = site.wiglaf(&["run", "--", "./caller"]).expect_success();
    assert_eq!(said.stdout, "1 1 1 1 1 1 1 1\n");
    let said = site.wiglaf(&["run", "--fortran-true=-1", "--", "./caller"]).expect_success();
    assert_eq!(said.stdout, "-1 -1 -1 -1 -1 -1 -1 -1\n");
}

#[test]
fn a_truth_that_no_compiler_stores_is_refused() {
    let Some(site) = site() else { return };
    for value in ["0", "2", "yes", ""] {
        let option = format!("--fortran-true={value}");
        for command in [&["run", &option, "--", "true"][..], &["env", &option]] {
            site.wiglaf(command).expect_sentence(2, "a compiler stores 1 or -1 for .TRUE.");
        }
    }
}

#[test]
fn a_fortran_program_runs_across_nodes() {
    let Some(site) = site() else { return };
    for way in WAYS {
        compile(&site, "mpif90.openmpi", "heat.F90", &[&format!("-DWAY={way}")], "heat");
        let said = site.wiglaf(&["run", "--", "./heat"]).expect_success();
        let mut lines: Vec<&str> = said.stdout.lines().collect();
        lines.sort_unstable();
        let expected =
            ["rank 0 of 2 on node1: as one process", "rank 1 of 2 on node2: as one process"];
        assert_eq!(lines, expected, "{said:?}");
    }
}
