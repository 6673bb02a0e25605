//! ScaLAPACK's own tests, those of PBLAS and BLACS below it among them, as Debian builds them for both of its MPIs:
//! dense linear algebra on a grid of ranks, each result checked by its residual.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cluster::Ended;
use super::mpis::{self, Mpi};
use super::verdict::{Cell, Findings, Row, Verdict, last_passed};
use super::{Context, once, progress, version};
use crate::wheels;

const LIMIT: Duration = Duration::from_secs(240);
/// What the suite itself starts, for its grids of 2 x 2.
const RANKS: &str = "4";
/// The binary interfaces that Debian builds it for, as compilers and folders name them.
const INTERFACES: [&str; 2] = ["openmpi", "mpich"];
/// Below a folder of libraries.
const FOLDER: &str = "scalapack";

/// A program of the suite.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Test {
    /// Where its input lies, below the suite's folder.
    folder: &'static str,
    program: String,
}

impl Test {
    fn name(&self) -> String {
        Path::new(self.folder).join(&self.program).display().to_string()
    }

    /// BLACS's ends by a call of its own abort, the last thing that it tests.
    fn is_to_abort(&self) -> bool {
        self.folder == "BLACS"
    }

    /// Single precision makes the same calls with half the bytes; TIMING checks nothing.
    fn is_one(folder: &str, program: &str) -> bool {
        match folder {
            "BLACS" => program.ends_with("btest"),
            "PBLAS" => program.starts_with(['d', 'z']) && program.ends_with("tst"),
            _ => program.starts_with("xd") || program.starts_with("xz"),
        }
    }
}

pub(crate) fn run(context: &Context<'_>) -> Result<Option<Findings>, String> {
    for interface in INTERFACES {
        copy(&installed(interface)?, &folder(context, interface))?;
    }
    let (mpis, not_run) = mpis::chosen(context)?;
    let mut rows = Vec::new();
    let tests = tests(&folder(context, INTERFACES[0]))?;
    for test in tests.iter().filter(|test| context.wants(&test.name())) {
        let mut cells: Vec<Cell> = Vec::new();
        for mpi in &mpis {
            for transport in mpis::TRANSPORTS {
                let is_rival = transport != mpis::TRANSPORTS[0];
                cells.push(match is_rival && context.short && last_passed(&cells) {
                    true => once::not_asked().into(),
                    false => judge(context, test, mpi, transport)?,
                });
            }
        }
        rows.push(Row { name: test.name(), cells });
    }
    let mut about = vec![
        format!(
            "ScaLAPACK {}, its tests in double precision, {RANKS} ranks on two nodes. A test passes if it says so of at least \
             one result, and of none that it failed.",
            version("scalapack-mpi-test")?
        ),
        not_run,
    ];
    if context.short {
        about.push(once::ASKED_SHORT.to_owned());
    }
    Ok(Some(Findings { about, columns: mpis::columns(&mpis), rows }))
}

/// Where its programs may write.
fn folder(context: &Context<'_>, interface: &str) -> PathBuf {
    context.cluster.folder().join(FOLDER).join(interface)
}

/// Where Debian has the tests of that binary interface.
fn installed(interface: &str) -> Result<PathBuf, String> {
    let below = Path::new(FOLDER).join(format!("{interface}-tests"));
    let libraries = fs::read_dir("/usr/lib").map_err(|why| format!("/usr/lib: {why}"))?;
    let found = libraries.flatten().map(|entry| entry.path().join(&below));
    found
        .filter(|folder| folder.is_dir())
        .min()
        .ok_or_else(|| format!("there is no {} below /usr/lib", below.display()))
}

/// Inputs are links to a folder that both interfaces share.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    for folder in ["", "PBLAS", "BLACS"] {
        let (from, to) = (from.join(folder), to.join(folder));
        let failed = |why: std::io::Error| format!("{}: {why}", from.display());
        fs::create_dir_all(&to).map_err(failed)?;
        for entry in fs::read_dir(&from).map_err(failed)?.flatten() {
            if entry.path().is_file() {
                fs::copy(entry.path(), to.join(entry.file_name())).map_err(failed)?;
            }
        }
    }
    Ok(())
}

fn tests(folder: &Path) -> Result<Vec<Test>, String> {
    let mut tests = Vec::new();
    for below in ["BLACS", "PBLAS", ""] {
        let path = folder.join(below);
        let listed = fs::read_dir(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        let names = listed.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut programs: Vec<String> = names.filter(|name| Test::is_one(below, name)).collect();
        programs.sort();
        tests.extend(programs.into_iter().map(|program| Test { folder: below, program }));
    }
    Ok(tests)
}

fn judge(context: &Context<'_>, test: &Test, mpi: &Mpi, transport: &str) -> Result<Cell, String> {
    let column = format!("{} {transport}", mpi.choice);
    let log = format!("{FOLDER}/{column}/{}", test.name().replace('/', "_"));
    let is_its = |interface: &&str| mpi.compiler.ends_with(*interface);
    let interface = INTERFACES.into_iter().find(is_its).unwrap_or(INTERFACES[0]);
    let folder = folder(context, interface).join(test.folder);
    let script = format!("cd '{}' && exec ./{}", folder.display(), test.program);
    let argv = ["sh", "-c", &script].map(str::to_owned);
    let options = ["--mpi", &mpi.choice, "--transport", transport, "-n", RANKS];
    let search = wheels::search_path();
    let env = [("WIGLAF_MPI_PATH", search.as_str())];
    let Some((ended, took)) = once::run(context, &log, &options, &env, &argv, LIMIT)? else {
        return Ok(once::not_run().into());
    };
    let verdict = verdict(&ended, test.is_to_abort());
    progress(&test.name(), &column, &verdict, took);
    Ok(verdict.after(took))
}

fn verdict(ended: &Ended, is_to_abort: bool) -> Verdict {
    let (passed, failed) = (count(&ended.text, "passed"), count(&ended.text, "failed"));
    if failed > 0 {
        return Verdict::Fail(format!("{failed} results failed, {passed} passed"));
    }
    if passed == 0 || ended.succeeded() == is_to_abort {
        return Verdict::Fail(ended.reason());
    }
    Verdict::Pass(format!("{passed} results"))
}

/// How many results have that word. The suite's programs write `12 tests completed and passed`, `TESTS; 12 PASSED,` or a line
/// for each result; a legend has a colon behind its first word, and a heading has both words and no number.
fn count(text: &str, word: &str) -> u64 {
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = |found: &&str| found.trim_matches([',', '.']).eq_ignore_ascii_case(word);
        let Some(at) = words.iter().position(is_it) else { return 0 };
        let is_heading = !line.contains(|c: char| c.is_ascii_digit())
            && words.contains(&"PASSED")
            && words.contains(&"FAILED");
        if is_heading || words.get(1) == Some(&":") {
            return 0;
        }
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        let before = at.checked_sub(1).and_then(number);
        let first = (words.get(1) == Some(&"tests")).then(|| number(0)).flatten();
        before.or(first).unwrap_or(1)
    };
    text.lines().map(of_line).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted_in_all_forms() {
        let text = "RESULT   : passed; or an indication of which jobtest failed\n\
            THRESH   : If a residual is less than  THRESH, RESULT is flagged as PASSED.\n\
            \x20 240 tests completed and passed residual checks.\n\
            \x20   0 tests completed and failed residual checks.\n\
            REAL SUM TESTS: 1152 TESTS;  864 PASSED,  288 SKIPPED,    3 FAILED.\n\
            \x20    SUBROUTINE  TOTAL TESTS  PASSED   FAILED  SKIPPED\n\
            \x20    ***** Computational check: PDSWAP         PASSED  *****\n\
            Passed 0.994E-02-0.100E+01   100    25   2   2    8     1\n\
            \x20 500  50    2    2    10.65 PASSED\n";
        assert_eq!(count(text, "passed"), 240 + 864 + 3);
        assert_eq!(count(text, "failed"), 3);
    }

    #[test]
    fn a_test_must_pass_something_and_fail_nothing() {
        let of = |status, text: &str, is_to_abort| {
            verdict(&Ended { status: Some(status), text: text.into() }, is_to_abort).passed()
        };
        assert!(of(0, "2 tests completed and passed.", false));
        assert!(of(1, "1 TESTS; 1 PASSED, 0 FAILED.", true));
        assert!(!of(0, "1 TESTS; 1 PASSED, 0 FAILED.", true), "it did not abort");
        assert!(!of(0, "2 tests completed and passed.\n1 tests completed and failed.", false));
        assert!(!of(1, "2 tests completed and passed.", false));
        assert!(!of(0, "END OF TESTS.", false));
    }

    #[test]
    fn single_precision_and_timings_are_left_out() {
        for (folder, program, is_one) in [
            ("", "xdlu", true),
            ("", "xslu", false),
            ("", "LU.dat", false),
            ("PBLAS", "zpb3tst", true),
            ("PBLAS", "PDBLAS1TST.dat", false),
            ("BLACS", "xCbtest", true),
            ("BLACS", "bt.dat", false),
        ] {
            assert_eq!(Test::is_one(folder, program), is_one, "{folder} {program}");
        }
    }
}
