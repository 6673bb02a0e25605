//! MPICH's own tests of MPI (`test/mpi` of its sources), over Wiglaf and over TCP, on every MPI.
//!
//! The list of tests, their ranks, arguments and time limits are read from the suite's own lists. Its
//! programs are compiled here, once for each binary interface, without its configuration, which wants to
//! be told of one MPI: what it would find out about a Linux with POSIX threads is in [`CONFIGURATION`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cluster::Ended;
use super::mpis::{self, Mpi, TRANSPORTS};
use super::verdict::{Cell, Findings, Row, Verdict, last_passed};
use super::{Context, once, progress};
use crate::wheels;

/// The folders whose tests are about what a transport carries.
const FOLDERS: [&str; 16] = [
    "attr",
    "coll",
    "comm",
    "datatype",
    "errhan",
    "group",
    "info",
    "init",
    "pt2pt",
    "rma",
    "topo",
    "threads/pt2pt",
    "threads/coll",
    "threads/comm",
    "threads/rma",
    "threads/init",
];
const MPICHS_COMPILER: &str = "mpicc.mpich";
/// What a test says when nothing was wrong.
const PASSED: &str = "No Errors";
/// Unless its line names another.
const LIMIT_S: u64 = 40;
/// More are not started on two nodes: their time would say more about the machine than about MPI.
const RANKS_MAX: u32 = 10;
/// For `mpitestconf.h`.
const CONFIGURATION: &str = "\
#define STDC_HEADERS 1
#define HAVE_STDINT_H 1
#define HAVE_STDLIB_H 1
#define HAVE_STRING_H 1
#define HAVE_STDARG_H 1
#define HAVE_UNISTD_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_RESOURCE_H 1
#define HAVE_GETRUSAGE 1
#define HAVE_USLEEP 1
#define HAVE_LONG_DOUBLE 1
#define HAVE_LONG_LONG 1
#define HAVE_PTHREAD_H 1
#define HAVE_PTHREAD_BARRIER_INIT 1
#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX
";

/// Read before each source: functions that MPI 3 took out under the names that it has for them, where mpi.h refuses
/// the old ones.
const REMOVED: &str = "\
#include <mpi.h>
#ifdef OPEN_MPI
#undef MPI_Address
#undef MPI_Errhandler_create
#undef MPI_Errhandler_get
#undef MPI_Errhandler_set
#undef MPI_Type_hindexed
#undef MPI_Type_hvector
#undef MPI_Type_struct
#define MPI_Address MPI_Get_address
#define MPI_Errhandler_create MPI_Comm_create_errhandler
#define MPI_Errhandler_get MPI_Comm_get_errhandler
#define MPI_Errhandler_set MPI_Comm_set_errhandler
#define MPI_Type_hindexed MPI_Type_create_hindexed
#define MPI_Type_hvector MPI_Type_create_hvector
#define MPI_Type_struct MPI_Type_create_struct
#endif
";

/// A line of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Test {
    folder: &'static str,
    program: String,
    ranks: u32,
    arguments: Vec<String>,
    env: Vec<(String, String)>,
    limit: Duration,
}

impl Test {
    /// None where the line is a comment, or asks for what only the suite's own launcher can judge:
    /// another ending than the usual one, a graphics card, options of MPICH's mpiexec, a known failure.
    /// Nor where it is marked as a test of gigabytes.
    fn parse(folder: &'static str, line: &str) -> Option<Self> {
        let mut words = line.split('#').next()?.split_whitespace();
        // A mark that the suite's configuration turns into a comment or into nothing stands before the name.
        let program = match split_mark(words.next()?) {
            ("largetest", _) => return None,
            (_, program) => program.to_owned(),
        };
        let ranks = words.next()?.parse().ok().filter(|ranks| *ranks <= RANKS_MAX)?;
        let limit = Duration::from_secs(LIMIT_S);
        let (arguments, env) = (Vec::new(), Vec::new());
        let mut test = Self { folder, program, ranks, arguments, env, limit };
        for word in words {
            match word.split_once('=')? {
                ("arg", argument) => test.arguments.push(argument.to_owned()),
                ("env", pair) => {
                    let (name, value) = pair.split_once('=')?;
                    test.env.push((name.to_owned(), value.to_owned()));
                }
                ("timeLimit", seconds) => test.limit = Duration::from_secs(seconds.parse().ok()?),
                ("mem", _) => {}
                ("strict", value) if value != "false" => {}
                _ => return None,
            }
        }
        Some(test)
    }

    /// Whether it repeats another with settings that no other MPI reads.
    fn is_of_mpich_alone(&self) -> bool {
        self.env.iter().any(|(name, _)| name.starts_with("MPIR_CVAR_"))
    }

    fn name(&self) -> String {
        let env = self.env.iter().map(|(name, value)| format!("{name}={value} "));
        let arguments = self.arguments.iter().map(|argument| format!(" {argument}"));
        let (env, arguments) = (env.collect::<String>(), arguments.collect::<String>());
        format!("{env}{}/{}{arguments}, {} ranks", self.folder, self.program, self.ranks)
    }
}

/// `@mark@name` in two; without a mark the first is empty.
fn split_mark(word: &str) -> (&str, &str) {
    word.strip_prefix('@').and_then(|rest| rest.split_once('@')).unwrap_or(("", word))
}

/// How a program is made that is not its own single source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Recipe {
    sources: Vec<String>,
    defines: Vec<String>,
}

impl Recipe {
    /// What a folder's makefile says of that program.
    fn of(makefile: &str, program: &str) -> Self {
        let makefile = makefile.replace("\\\n", " ");
        let value = |suffix: &str| {
            let name = format!("{program}_{suffix}");
            makefile.lines().find_map(|line| {
                let (before, after) = line.split_once('=')?;
                (before.trim() == name).then(|| after.to_owned())
            })
        };
        let words = |suffix: &str, is_wanted: fn(&&str) -> bool| {
            let value = value(suffix).unwrap_or_default();
            value.split_whitespace().filter(is_wanted).map(str::to_owned).collect::<Vec<String>>()
        };
        let mut sources = words("SOURCES", |word| word.ends_with(".c"));
        if sources.is_empty() {
            sources.push(format!("{program}.c"));
        }
        Self { sources, defines: words("CPPFLAGS", |word| word.starts_with("-D")) }
    }
}

pub(crate) fn run(context: &Context<'_>) -> Result<Option<Findings>, String> {
    let Some(sources) = context.mpich_tests else {
        eprintln!("skipped: --mpich-tests names no folder test/mpi of MPICH's sources");
        return Ok(None);
    };
    let (mpis, not_run) = mpis::chosen(context)?;
    let mut suites = BTreeMap::new();
    for mpi in &mpis {
        if !suites.contains_key(mpi.compiler) {
            suites.insert(mpi.compiler, Built::new(context, mpi.compiler, sources)?);
        }
    }
    let mut rows = Vec::new();
    for test in tests(sources)?.iter().filter(|test| context.wants(&test.name())) {
        let mut cells: Vec<Cell> = Vec::new();
        for mpi in &mpis {
            let built = suites.get_mut(mpi.compiler);
            let program = built.and_then(|built| built.program(test, context.is_over()));
            for transport in TRANSPORTS {
                cells.push(match &program {
                    _ if test.is_of_mpich_alone() && mpi.compiler != MPICHS_COMPILER => {
                        Verdict::Skip("settings of MPICH".to_owned()).into()
                    }
                    // The rival stands behind ours.
                    Some(_)
                        if transport != TRANSPORTS[0] && context.short && last_passed(&cells) =>
                    {
                        once::not_asked().into()
                    }
                    Some(program) => judge(context, test, mpi, transport, program)?,
                    None if context.is_over() => once::not_run().into(),
                    None => Verdict::Skip("does not compile".to_owned()).into(),
                });
            }
        }
        rows.push(Row { name: test.name(), cells });
    }
    let mut about = vec![
        format!(
            "Tests of {}, each built with Debian's compiler of the binary interface.",
            FOLDERS.join(", ")
        ),
        format!(
            "A test passes if it ends with status 0 and says `{PASSED}`. Left out: tests of more than {RANKS_MAX} \
             ranks, of graphics cards, that need options of MPICH's mpiexec, that end otherwise, and those that \
             the suite expects to fail, or marks as tests of gigabytes."
        ),
        not_run,
    ];
    if context.short {
        about.push(once::ASKED_SHORT.to_owned());
    }
    Ok(Some(Findings { about, columns: mpis::columns(&mpis), rows }))
}

/// What the suite's lists name, in its order.
fn tests(sources: &Path) -> Result<Vec<Test>, String> {
    let mut tests = Vec::new();
    for folder in FOLDERS {
        let lists = ["testlist", "testlist.in"].map(|list| sources.join(folder).join(list));
        let Some(list) = lists.iter().find(|list| list.is_file()) else { continue };
        let text = fs::read_to_string(list).map_err(|why| format!("{}: {why}", list.display()))?;
        tests.extend(text.lines().filter_map(|line| Test::parse(folder, line)));
    }
    match tests.is_empty() {
        true => Err(format!("{}: there are no lists of tests of MPICH's", sources.display())),
        false => Ok(tests),
    }
}

fn judge(
    context: &Context<'_>,
    test: &Test,
    mpi: &Mpi,
    transport: &str,
    program: &Path,
) -> Result<Cell, String> {
    let column = format!("{} {transport}", mpi.choice);
    let log = format!("mpich/{column}/{}", test.name().replace([' ', '/', ','], "_"));
    let ranks = test.ranks.to_string();
    let mut options = vec!["--mpi", &mpi.choice, "--transport", transport, "-n", &ranks];
    let given: Vec<String> =
        test.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    options.extend(given.iter().flat_map(|pair| ["-x", pair.as_str()]));
    let argv: Vec<String> =
        [program.display().to_string()].into_iter().chain(test.arguments.clone()).collect();
    let search = wheels::search_path();
    let env = [("WIGLAF_MPI_PATH", search.as_str())];
    let Some((ended, took)) = once::run(context, &log, &options, &env, &argv, test.limit)? else {
        return Ok(once::not_run().into());
    };
    let verdict = verdict(&ended);
    progress(&test.name(), &column, &verdict, took);
    Ok(verdict.after(took))
}

fn verdict(ended: &Ended) -> Verdict {
    match ended.succeeded() && ended.text.to_lowercase().contains(&PASSED.to_lowercase()) {
        true => Verdict::pass(),
        false => Verdict::Fail(why(ended)),
    }
}

/// What the test itself said, else how it ended: launchers say much behind it.
fn why(ended: &Ended) -> String {
    let is_tests = |line: &&str| line.contains("Found ") && line.contains(" error");
    ended.text.lines().find(is_tests).map_or_else(|| ended.reason(), |line| line.trim().to_owned())
}

/// The suite's programs of one binary interface, compiled when they are first asked for.
struct Built {
    compiler: &'static str,
    sources: PathBuf,
    folder: PathBuf,
    objects: Vec<PathBuf>,
    programs: BTreeMap<PathBuf, Option<PathBuf>>,
    /// Take over what an interrupted run has compiled.
    keeps: bool,
}

impl Built {
    /// Compiles what all tests share.
    fn new(context: &Context<'_>, compiler: &'static str, sources: &Path) -> Result<Self, String> {
        let folder = context.cluster.folder().join("mpich").join(compiler);
        let include = folder.join("include");
        fs::create_dir_all(&include).map_err(|why| format!("{}: {why}", include.display()))?;
        // dtpools looks for its own above a folder of headers.
        for (path, text) in [
            (include.join("mpitestconf.h"), CONFIGURATION),
            (include.join("mtest_mpix.h"), ""),
            (include.join("removed.h"), REMOVED),
            (folder.join("dtpoolsconf.h"), CONFIGURATION),
        ] {
            fs::write(&path, text).map_err(|why| format!("{}: {why}", path.display()))?;
        }
        let sources =
            sources.canonicalize().map_err(|why| format!("{}: {why}", sources.display()))?;
        let (objects, programs) = (Vec::new(), BTreeMap::new());
        let keeps = context.resume;
        let mut built = Self { compiler, sources, folder, objects, programs, keeps };
        let mut shared: Vec<PathBuf> =
            ["mtest", "mtest_common", "mtest_single", "dtypes", "mtest_thread"]
                .map(|name| built.sources.join("util").join(name).with_extension("c"))
                .to_vec();
        let pools = built.sources.join("dtpools/src");
        let entries = fs::read_dir(&pools).map_err(|why| format!("{}: {why}", pools.display()))?;
        let pools = entries.flatten().map(|entry| entry.path());
        shared.extend(pools.filter(|path| path.extension().is_some_and(|end| end == "c")));
        for source in shared.iter().filter(|source| source.is_file()) {
            let name = source.file_stem().unwrap_or_default();
            let object = built.folder.join(name).with_extension("o");
            let is_built = keeps && object.is_file();
            if !is_built && !built.compile(&["-c".as_ref(), source], &object)? {
                return Err(format!("{compiler} cannot compile {}", source.display()));
            }
            built.objects.push(object);
        }
        Ok(built)
    }

    /// The program of that test; none where it does not compile for this MPI, or has not been when time is over.
    fn program(&mut self, test: &Test, is_over: bool) -> Option<PathBuf> {
        let folder = self.sources.join(test.folder);
        let key = folder.join(&test.program);
        if !self.programs.contains_key(&key) {
            let makefile = fs::read_to_string(folder.join("Makefile.am")).unwrap_or_default();
            let recipe = Recipe::of(&makefile, &test.program);
            let name = format!("{}-{}", test.folder.replace('/', "-"), test.program);
            let program = self.folder.join(name);
            let defines = recipe.defines.iter().map(PathBuf::from);
            let sources = recipe.sources.iter().map(|source| folder.join(source));
            let inputs: Vec<PathBuf> = defines.chain(sources).collect();
            let objects = self
                .objects
                .iter()
                // Either way of starting threads defines the others' functions.
                .filter(|object| is_for(object, test.folder.starts_with("threads")));
            let inputs: Vec<&Path> = inputs.iter().chain(objects).map(PathBuf::as_path).collect();
            let is_built = self.keeps && program.is_file();
            if !is_built && is_over {
                return None;
            }
            let is_built = is_built || matches!(self.compile(&inputs, &program), Ok(true));
            let built = is_built.then_some(program);
            self.programs.insert(key.clone(), built);
        }
        self.programs[&key].clone()
    }

    fn compile(&self, inputs: &[&Path], output: &Path) -> Result<bool, String> {
        let mut command = Command::new(self.compiler);
        let include = self.folder.join("include");
        command.args(["-w", "-O1", "-include"]).arg(include.join("removed.h"));
        command.arg("-I").arg(include);
        for headers in ["include", "util", "dtpools/include"] {
            command.arg("-I").arg(self.sources.join(headers));
        }
        command.args(inputs).arg("-o").arg(output).args(["-lpthread", "-lm"]);
        let ended = command.output();
        let ended = ended.map_err(|why| format!("{} cannot be started: {why}", self.compiler))?;
        Ok(ended.status.success())
    }
}

/// Whether tests with threads, or those without, are linked with that object.
fn is_for(object: &Path, threads: bool) -> bool {
    match object.file_stem().and_then(|name| name.to_str()) {
        Some("mtest_thread") => threads,
        Some("mtest_single") => !threads,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_lists_are_read() {
        let line = "get_struct 4 arg=-n arg=2 env=A=b timeLimit=300 mem=1.5 # slow";
        let test = Test::parse("rma", line).unwrap();
        assert_eq!(test.name(), "A=b rma/get_struct -n 2, 4 ranks");
        assert_eq!(test.limit, Duration::from_secs(300));
        assert!(!test.is_of_mpich_alone());
        let line = "probe_unexp 4 env=MPIR_CVAR_CH4_OFI_EAGER_MAX_MSG_SIZE=16384";
        assert!(Test::parse("pt2pt", line).unwrap().is_of_mpich_alone());
        assert_eq!(Test::parse("rma", "put 2").unwrap().limit, Duration::from_secs(LIMIT_S));
        let left_out = ["# put 2", "", "put", "put 2 xfail=ticket1", "put 2 resultTest=TestStatus"];
        for line in left_out.iter().chain(&["put 99", "put 2 strict=false", "@some@ 2 hasgpu=any"])
        {
            assert_eq!(Test::parse("rma", line), None, "{line}");
        }
    }

    #[test]
    fn marks_before_names_are_read() {
        let program = |line| Test::parse("coll", line).map(|test| test.program);
        assert_eq!(program("@comm_overlap@ctxidup 4").as_deref(), Some("ctxidup"));
        assert_eq!(program("@largetest@gather_big 8"), None);
    }

    #[test]
    fn programs_share_sources_under_other_definitions() {
        let makefile = "noinst_PROGRAMS = a \\\n  put_int\nput_int_SOURCES= put.c \\\n lock.c lock.h\n\
            put_int_CPPFLAGS  = -DINT -DX=2 $(AM_CPPFLAGS)\n# b_SOURCES = c.c\n";
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let put =
            Recipe { sources: words(&["put.c", "lock.c"]), defines: words(&["-DINT", "-DX=2"]) };
        assert_eq!(Recipe::of(makefile, "put_int"), put);
        let own = |name: &str| Recipe { sources: words(&[name]), defines: Vec::new() };
        assert_eq!(Recipe::of(makefile, "a"), own("a.c"));
        assert_eq!(Recipe::of(makefile, "b"), own("b.c"));
    }

    #[test]
    fn a_test_passes_when_it_ends_well_and_says_so() {
        let verdict = |status, text: &str| verdict(&Ended { status, text: text.into() }).passed();
        assert!(verdict(Some(0), " No Errors\n") && verdict(Some(0), " No errors\n"));
        assert!(!verdict(Some(1), " No Errors\n"));
        assert!(!verdict(Some(0), " Found 3 errors\n"));
        let ended =
            Ended { status: Some(1), text: " Found 3 errors\nmpirun: prose\n----\n".into() };
        assert_eq!(why(&ended), "Found 3 errors");
        let ended = Ended { text: "mpirun: prose\n----\n".into(), ..ended };
        assert_eq!(why(&ended), "status 1, mpirun: prose");
    }
}
