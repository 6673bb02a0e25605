//! examples/staggered and examples/relativity on two emulated nodes, under Open MPI and MPICH: their own checks,
//! and whether these see a program that is wrong; and whether examples/gamess sees energies that are.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Said, Site, wheel_prefixes, wheels};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

/// How an example is built and started.
struct Mpi {
    name: &'static str,
    compiler: &'static str,
    wheel: Option<&'static str>,
}

const OPENMPI: Mpi = Mpi { name: "openmpi", compiler: "mpicc.openmpi", wheel: None };
const MPICH: Mpi = Mpi { name: "mpich@5.0.2", compiler: "mpicc.mpich", wheel: Some("mpich-5.0.2") };

impl Mpi {
    /// Whether it is here; says what is missing.
    fn is_here(&self) -> bool {
        let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
        let is_here = has("make")
            && has(self.compiler)
            && self.wheel.is_none_or(|wheel| wheels().join(wheel).is_dir());
        if !is_here {
            eprintln!(
                "skipped: {} takes make and {} (`cargo xtask packages test`)",
                self.name, self.compiler
            );
        }
        is_here
    }

    fn run(&self, site: &Site, ranks: usize, program: &[&str]) -> Said {
        let ranks = ranks.to_string();
        let threads = "OMP_NUM_THREADS=2";
        let args = ["run", "--mpi", self.name, "-n", &ranks, "-x", threads, "--"];
        let mut command = site.command(&[&args[..], program].concat());
        command.env("WIGLAF_MPI_PATH", wheel_prefixes());
        command.output().unwrap().into()
    }
}

/// Builds an example into the site's folder, from its sources or from a copy of them.
#[track_caller]
fn build(site: &Site, example: &str, mpi: &Mpi, options: &[&str]) {
    let made = Command::new("make")
        .args(["-s", "-B", "-C", &format!("{EXAMPLES}/{example}"), "CFLAGS=-O2 -Werror"])
        .arg(format!("MPICC={}", mpi.compiler))
        .arg(format!("OUT={}", site.work().display()))
        .args(options)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// The sources with one place of them wrong, built.
#[track_caller]
fn build_wrong(site: &Site, example: &str, [file, from, to]: [&str; 3]) {
    let copy = site.work().join("wrong");
    std::fs::create_dir_all(&copy).unwrap();
    for entry in std::fs::read_dir(Path::new(EXAMPLES).join(example).join("src")).unwrap() {
        let path = entry.unwrap().path();
        let mut text = std::fs::read_to_string(&path).unwrap();
        if path.ends_with(file) {
            assert_eq!(text.matches(from).count(), 1, "`{from}` in {file}");
            text = text.replace(from, to);
        }
        std::fs::write(copy.join(path.file_name().unwrap()), text).unwrap();
    }
    build(site, example, &OPENMPI, &[&format!("SRC={}", copy.display())]);
}

/// The number behind a word of a program's output.
#[track_caller]
fn number(said: &Said, name: &str) -> f64 {
    let line = said.stdout.lines().find_map(|line| line.strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("no `{name}` in {said:?}"));
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// A check that names this found something.
#[track_caller]
fn assert_wrong(said: &Said, sentence: &str) {
    assert_eq!(said.status, Some(1), "{said:?}");
    let is_wrong = |line: &str| line.starts_with("WRONG: ") && line.contains(sentence);
    let found = said.stdout.lines().any(is_wrong);
    assert!(found && said.stdout.ends_with("some checks failed\n"), "{sentence}: {said:?}");
}

#[test]
fn staggered_quarks_are_right_and_equal_on_any_number_of_ranks() {
    let Some(site) = Site::up(&[]) else { return };
    for (mpi, options) in [(&MPICH, &[][..]), (&OPENMPI, &["OPENMP=1"])] {
        if !mpi.is_here() {
            continue;
        }
        build(&site, "staggered", mpi, options);
        let check = ["./staggered", "--check", "--lattice", "4x4x4x8", "--mass", "0.5"];
        let said = mpi.run(&site, 8, &check).expect_success();
        let right = said.stdout.lines().filter(|line| line.starts_with("right: ")).count();
        assert!(right == 9 && said.stdout.ends_with("all checks passed\n"), "{said:?}");

        // Jobs of their own, as users run them, to the digits that are printed.
        let solve = ["./staggered", "--lattice", "4x4x4x8", "--mass", "0.5", "--residual", "1e-15"];
        let norms = [1, 2, 4, 8].map(|ranks| {
            let said = mpi.run(&site, ranks, &solve).expect_success();
            let threads = if options.is_empty() { 1 } else { 2 };
            for part in [format!(", {ranks} ranks ("), format!("{threads} threads each")] {
                assert!(said.stdout.contains(&part), "{part}: {said:?}");
            }
            number(&said, "norm of the solutions ")
        });
        for norm in norms {
            assert!((norm / norms[0] - 1.0).abs() < 1e-12, "{norms:?}");
        }
    }
    assert_eq!(site.strays(), 0);
}

#[test]
fn staggered_quarks_that_are_wrong_fail_their_checks() {
    if !OPENMPI.is_here() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    for (wrong, sentence) in [
        (["fields.c", "        sum += at[e];", "        sum += 1;"], "free quark"),
        (["fields.c", "product(&u, &there, 1);", "product(&u, &there, 0);"], "in another gauge"),
        (
            ["solve.c", "effort.seconds += MPI_Wtime();", "x[0].c[0].re += 1e-9;"],
            "residual of the solution",
        ),
        (
            [
                "lattice.c",
                "s->send_low[k] = from[s->low[from_parity][k]];",
                "s->send_low[k] = from[0];",
            ],
            "solution of 2 ranks",
        ),
    ] {
        build_wrong(&site, "staggered", wrong);
        let check = ["./staggered", "--check", "--lattice", "4x4x4x8", "--mass", "0.5"];
        assert_wrong(&OPENMPI.run(&site, 2, &check), sentence);
    }
}

#[test]
fn options_that_staggered_does_not_have_are_refused() {
    if !OPENMPI.is_here() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    build(&site, "staggered", &OPENMPI, &[]);
    for (args, sentence) in [
        (&["--lattice", "8x8x8"][..], "--lattice takes four even extents"),
        (&["--lattice", "2x2x2x2"], "cannot be cut into a box of even extents for each rank"),
        (&["--mass", "0"], "an option's number is none, or too small"),
        (&["--per-rank", "3"], "--per-rank takes an even number"),
        (&["--speed"], "this is no option"),
    ] {
        let ranks = if args[1..] == ["2x2x2x2"] { 2 } else { 1 };
        let said = OPENMPI.run(&site, ranks, &[&["./staggered"][..], args].concat());
        assert!(said.status == Some(2) && said.stderr.contains(sentence), "{args:?}: {said:?}");
    }
}

#[test]
fn evolution_is_right_and_equal_on_any_number_of_ranks() {
    let Some(site) = Site::up(&[]) else { return };
    for mpi in [&MPICH, &OPENMPI] {
        if !mpi.is_here() {
            continue;
        }
        build(&site, "relativity", mpi, &[]);
        let said = mpi.run(&site, 4, &["./relativity", "--check"]).expect_success();
        let right = said.stdout.lines().filter(|line| line.starts_with("right: ")).count();
        assert!(right == 9 && said.stdout.ends_with("all checks passed\n"), "{said:?}");

        let wave = ["--grid", "10x10x20", "--wave", "1,-1,1", "--steps", "5"];
        let states = [1, 2, 3, 8].map(|ranks| {
            let said = mpi.run(&site, ranks, &[&["./relativity"][..], &wave].concat());
            let said = said.expect_success();
            assert!(said.stdout.contains(&format!(", {ranks} ranks (")), "{said:?}");
            said.stdout.lines().find(|line| line.starts_with("all bits ")).unwrap().to_owned()
        });
        assert!(states.iter().all(|state| *state == states[0]), "{states:?}");
    }
    assert_eq!(site.strays(), 0);
}

#[test]
fn evolution_that_is_wrong_fails_its_checks() {
    if !OPENMPI.is_here() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    for (wrong, sentence) in [
        (["equations.c", "2 * u[VECTOR + i]", "u[VECTOR + i]"], "equations of ADM"),
        (["equations.c", "-alpha * alpha * g.trace", "-alpha * g.trace"], "gauge wave"),
        (["checks.c", "evolve(g, g->spacing / 4);", "evolve(g, g->spacing * 2);"], "noise on 100"),
        (["grid.c", "copy_face(g, u, d, 0, g->send", "copy_face(g, u, d, 1, g->send"], "all bits"),
    ] {
        build_wrong(&site, "relativity", wrong);
        assert_wrong(&OPENMPI.run(&site, 2, &["./relativity", "--check"]), sentence);
    }
}

#[test]
fn options_that_relativity_does_not_have_are_refused() {
    if !OPENMPI.is_here() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    build(&site, "relativity", &OPENMPI, &[]);
    for (args, sentence) in [
        (&["--grid", "50x3"][..], "--grid takes three numbers of points"),
        (&["--grid", "50x3x3", "--wave", "0,1,0"], "the grid is no whole number of waves"),
        (&["--grid", "1x1x1"], "there are more ranks than this grid can be cut for"),
        (&["--amplitude", "1"], "--amplitude takes a number between 0 and 1"),
        (&["--speed"], "this is no option"),
    ] {
        let said = OPENMPI.run(&site, 2, &[&["./relativity"][..], args].concat());
        assert!(said.status == Some(2) && said.stderr.contains(sentence), "{args:?}: {said:?}");
    }
}

/// examples/gamess on a file of its runs, as they are and made wrong; the runs themselves are by hand.
#[test]
fn stages_whose_energies_differ_are_wrong() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: it takes python3");
        return;
    }
    let site = Site::new();
    let text = std::fs::read_to_string(format!("{EXAMPLES}/gamess/stages.json")).unwrap();
    let judge = |text: &str| -> Said {
        std::fs::write(site.work().join("s.json"), text).unwrap();
        let mut python = Command::new("python3");
        python.arg(format!("{EXAMPLES}/gamess/stages.py")).args(["--judge", "s.json"]);
        python.current_dir(site.work()).output().unwrap().into()
    };
    let said = judge(&text).expect_success();
    assert_eq!(said.stdout.matches("right: ").count(), 8, "{said:?}");
    assert!(said.stdout.contains("\n3      wiglaf "), "{said:?}");
    let changed = |runs: std::ops::Range<usize>, by: f64| {
        let mut whole: serde_json::Value = serde_json::from_str(&text).unwrap();
        for run in runs {
            let energy = &mut whole["runs"][run]["nwchem"]["cisd"];
            *energy = (energy.as_f64().unwrap() + by).into();
        }
        whole.to_string()
    };
    let of_one = "WRONG: nwchem cisd, all runs";
    let of_all = "WRONG: nwchem cisd, PySCF";
    for (text, words) in [(changed(1..2, 2e-8), of_one), (changed(0..6, 2e-6), of_all)] {
        let said = judge(&text);
        assert!(said.status == Some(1) && said.stdout.contains(words), "{said:?}");
        assert_eq!(said.stdout.matches("WRONG").count(), 1, "{said:?}");
    }
    let said = judge(&text[..text.len() / 2]);
    assert!(said.status == Some(1) && said.stderr.contains("s.json is no whole file"), "{said:?}");
}
