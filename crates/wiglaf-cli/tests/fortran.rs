//! Fortran programs on emulated nodes, and what becomes of their truths.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Said, Site, fresh, wheel_prefixes, wheels};
use wiglaf_doctor::toolchain::{self, Check, Compiler, Language, Verdict};
use wiglaf_mpi::{Family, discover};

/// Every logical reduction; `wiglaf doctor --toolchain` runs the same program.
const REDUCTIONS: &str = "../wiglaf-doctor/src/toolchain/sources/reductions.F90";
/// A module `mpi` for compilers that cannot read the installed one.
const MODULE: &str = "../wiglaf-doctor/src/toolchain/sources/module.f90";
const HEAT: &str = "tests/fortran/heat.F90";
/// What a program writes where the compiler's .TRUE. is -1, and MPI's is 1.
const WRONG: &str = "wrong: allreduce LAND on rank 0: got and wanted 1 0 0 0 -1 0 0 0";
/// An MPICH over libfabric, as the tests have it.
const WHEEL: &str = "mpich-5.0.2";
/// `WAY`: mpif.h, `use mpi`, `use mpi_f08`.
const WAYS: [&str; 3] = ["-DWAY=1", "-DWAY=2", "-DWAY=3"];

/// Whether a program can be tried; says why not.
fn has(programs: &[&str]) -> bool {
    let runs = |program: &&&str| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err()
    };
    let missing = programs.iter().find(runs);
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
    fresh::check("wiglaf-logical");
    Site::up(&[])
}

/// Compiles a source of this repository into the working folder.
#[track_caller]
fn compile(site: &Site, compiler: &str, source: &str, flags: &[&str], program: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    // mpif.h has no interfaces, so gfortran compares calls with each other.
    let lax = source.ends_with("F90").then_some("-fallow-argument-mismatch");
    let mut command = Command::new(compiler);
    command.args(["-w", "-o", program]).arg(path).args(lax).args(flags);
    succeed(command.current_dir(site.work()));
}

#[track_caller]
fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
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
        compile(&site, "mpif90.openmpi", REDUCTIONS, &["-DKINDS", way], "reductions");
        assert_wrong(&site.wiglaf(&["run", "--", "./reductions"]));
        let said = site.wiglaf(&["run", "--fortran-true=-1", "-n", "3", "--", "./reductions"]);
        assert_right(&said, 3);
    }
    // The last of them, by one's own mpirun; and a program that needs no help.
    let own =
        "eval \"$(wiglaf env --fortran-true=-1)\"; mpirun -n 2 --host node1,node2 ./reductions";
    let said = site.wiglaf(&["exec", "-w", "node1", "--", "sh", "-c", own]);
    assert_right(&said, 2);
    compile(&site, "mpif90.openmpi", REDUCTIONS, &["-DTRUTH=1", "-DWAY=1"], "reductions");
    assert_right(&site.wiglaf(&["run", "--fortran-true=1", "--", "./reductions"]), 2);
}

#[test]
fn every_mangling_is_interposed() {
    let Some(site) = site() else { return };
    compile(&site, "mpicc.openmpi", "tests/fortran/caller.c", &["-lmpi_mpifh"], "caller");
    let said = site.wiglaf(&["run", "--", "./caller"]).expect_success();
    assert_eq!(said.stdout, "1 1 1 1 1 1 1 1\n");
    let said = site.wiglaf(&["run", "--fortran-true=-1", "--", "./caller"]).expect_success();
    assert_eq!(said.stdout, "-1 -1 -1 -1 -1 -1 -1 -1\n");
}

#[test]
fn the_interposer_refuses_what_cannot_be_meant() {
    let Some(site) = site() else { return };
    compile(&site, "mpif90.openmpi", REDUCTIONS, &["-DWAY=1"], "reductions");
    let library = preload(&site)[0].split_once('=').unwrap().1.to_owned();
    let mut command = site.command(&["run", "--", "./reductions"]);
    command.env("LD_PRELOAD", library).env("WIGLAF_FORTRAN_TRUE", "7");
    let said = Said::from(command.output().unwrap());
    assert_ne!(said.status, Some(0), "{said:?}");
    let sentence = "libwiglaf-logical: WIGLAF_FORTRAN_TRUE is `7`; a compiler's .TRUE. is 1 or -1";
    assert!(said.stderr.lines().any(|line| line == sentence), "{said:?}");
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

/// What loads the interposer, for `env`.
fn preload(site: &Site) -> Vec<String> {
    let said = site.wiglaf(&["env", "--transport", "tcp", "--fortran-true=-1", "--json"]);
    let vars: serde_json::Value = serde_json::from_str(&said.expect_success().stdout).unwrap();
    let set = |name: &&str| format!("{name}={}", vars[*name].as_str().unwrap());
    ["LD_PRELOAD", "WIGLAF_FORTRAN_TRUE"].iter().map(set).collect()
}

#[test]
fn the_interposer_knows_mpich_too() {
    if !has(&["mpif90.mpich", "mpirun.mpich"]) {
        return;
    }
    let Some(site) = site() else { return };
    let across = wheels().join(WHEEL).is_dir();
    if !across {
        eprintln!("skipped: MPICH across nodes takes {WHEEL} (`cargo xtask packages test`)");
    }
    let run = |options: &[&str]| {
        let words = [&["run", "--mpi", "mpich"], options, &["--", "./reductions"]].concat();
        let mut command = site.command(&words);
        Said::from(command.env("WIGLAF_MPI_PATH", wheel_prefixes()).output().unwrap())
    };
    for way in WAYS {
        compile(&site, "mpif90.mpich", REDUCTIONS, &["-DPERSISTENT", way], "reductions");
        // Debian's own never loads libfabric, so it stays on one node.
        let own = |preload: &[String]| {
            let words = ["exec", "-w", "node1", "--", "env"].map(str::to_owned);
            let run = ["mpirun.mpich", "-n", "3", "./reductions"].map(str::to_owned);
            let words = words.iter().chain(preload).chain(&run).map(String::as_str);
            site.wiglaf(&words.collect::<Vec<_>>())
        };
        assert_wrong(&own(&[]));
        assert_right(&own(&preload(&site)), 3);
        if across {
            assert_wrong(&run(&["-n", "2"]));
            assert_right(&run(&["-n", "3", "--fortran-true=-1"]), 3);
        }
    }
}

/// Two ranks on two nodes came to the result of one process.
#[track_caller]
fn assert_heat(said: Said) {
    let said = said.expect_success();
    let mut lines: Vec<&str> = said.stdout.lines().collect();
    lines.sort_unstable();
    let expected = ["rank 0 of 2 on node1: as one process", "rank 1 of 2 on node2: as one process"];
    assert_eq!(lines, expected, "{said:?}");
}

#[test]
fn a_fortran_program_runs_across_nodes() {
    let Some(site) = site() else { return };
    for way in WAYS {
        compile(&site, "mpif90.openmpi", HEAT, &[way], "heat");
        assert_heat(site.wiglaf(&["run", "--", "./heat"]));
    }
}

/// Compiles with a flang in place of the MPI's own compiler, with the mends of
/// docs/toolchain.md, for mpif.h or with a module `mpi` of its own.
fn compile_with_flang(site: &Site, flang: &Compiler, module: bool) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let include = Command::new("mpif90.openmpi").arg("--showme:incdirs").output().unwrap();
    let dirs = String::from_utf8(include.stdout).unwrap();
    let header = dirs.split_whitespace().map(|dir| Path::new(dir).join("mpif.h"));
    let text = fs::read_to_string(header.clone().find(|path| path.is_file()).unwrap()).unwrap();
    let text: Vec<&str> = text.lines().filter(|line| !line.contains("mpif-sizeof")).collect();
    fs::write(site.work().join("mpif.h"), text.join("\n") + "\n").unwrap();
    let mut command = Command::new("mpif90.openmpi");
    command.env("OMPI_FC", &flang.path).current_dir(site.work());
    command.args(["-I.", if module { "-DWAY=2" } else { "-DWAY=1" }, "-o", "heat"]);
    command.args(module.then(|| here.join(MODULE))).arg(here.join(HEAT));
    command.args(flang.own_libraries().map(|dir| format!("-L{}", dir.display())));
    succeed(&mut command);
}

#[test]
fn what_flang_compiles_runs_across_nodes() {
    let Some(site) = site() else { return };
    let compilers = toolchain::compilers();
    let mut flangs = compilers.iter().filter(|c| c.title().starts_with("flang")).peekable();
    if flangs.peek().is_none() {
        eprintln!("skipped: no flang is installed");
    }
    for flang in flangs {
        for module in [false, true] {
            compile_with_flang(&site, flang, module);
            assert_heat(site.wiglaf(&["run", "--", "./heat"]));
        }
    }
}

#[test]
fn the_doctor_finds_gfortran_and_open_mpi_sound() {
    if !has(&["gfortran", "mpif90.openmpi", "mpirun.openmpi"]) {
        return;
    }
    let mut compilers = toolchain::compilers();
    compilers.retain(|c| c.language() == Language::Fortran && c.title().starts_with("gfortran"));
    compilers.truncate(1);
    let mut mpis = discover::all();
    mpis.retain(|mpi| mpi.family == Family::OpenMpi && mpi.wrappers.fortran.is_some());
    mpis.truncate(1);
    let exe = Path::new(env!("CARGO_BIN_EXE_wiglaf"));
    let findings = toolchain::examine_these(&compilers, &mpis, exe).unwrap();
    for (check, verdict) in [
        (Check::Links, Verdict::Ok),
        (Check::Names, Verdict::Ok),
        (Check::True, Verdict::Ok),
        (Check::Header, Verdict::Ok),
        (Check::Module, Verdict::Ok),
        (Check::Module08, Verdict::Ok),
        (Check::ReduceOne, Verdict::Ok),
        (Check::ReduceMinusOne, Verdict::Mended),
        (Check::Integer, Verdict::Ok),
    ] {
        let finding = findings.iter().find(|finding| finding.check == check).unwrap();
        assert_eq!(finding.verdict, verdict, "{finding:?}");
    }
    // Not everybody has these.
    for check in [Check::Blas, Check::Scalapack] {
        let finding = findings.iter().find(|finding| finding.check == check).unwrap();
        assert_ne!(finding.verdict, Verdict::Fails, "{finding:?}");
    }
}
