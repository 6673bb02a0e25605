//! mpi4py's own test suite: about 1500 tests of nearly every call of MPI.
//!
//! Its runner stops at the first test that hangs or crashes. This one starts it again behind that
//! test's module, so that one bad test does not hide the others.

mod kept;
mod results;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::cluster::Cluster;
use super::verdict::{Column, Findings, Judge, Row, Verdict};
use super::{Context, commit, progress, version};
use crate::wheels;
use results::{Outcome, Results};

const RANKS: [usize; 2] = [2, 4];
/// The version on PyPI, as wheel and as source.
const PYPI_VERSION: &str = "4.1.2";
/// Room for what the tests of MPI_Comm_spawn start: Open MPI 4 wants all of it on one node.
const PLACES: &str = "64";

/// How a column of the table is run.
struct Way {
    heading: &'static str,
    /// Of `wiglaf run`.
    options: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// The way that a failure is judged by, by its place; `None` for who is not us.
    rival: Option<usize>,
    /// Only the modules in which something failed in that way, by its place: it takes long.
    explains: Option<usize>,
}

impl Way {
    const fn new(heading: &'static str, options: &'static [&'static str]) -> Self {
        Self { heading, options, env: &[], rival: None, explains: None }
    }

    const fn ours(self, rival: usize) -> Self {
        Self { rival: Some(rival), ..self }
    }

    const fn explains(self, way: usize) -> Self {
        Self { explains: Some(way), ..self }
    }
}

/// Debian's mpi4py runs on Debian's Open MPI.
const DEBIANS_WAYS: [Way; 4] = [
    Way::new("wiglaf", &[]).ours(3),
    Way::new("tcp", &["--transport", "tcp"]),
    Way { env: &[("OMPI_MCA_pml", "ob1")], ..Way::new("wiglaf, pml/ob1", &[]).explains(0) },
    Way::new("tcp;ofi_rxm", &["--transport", "ofi-tcp"]).explains(0),
];

/// The wheel runs on either family.
const PYPIS_WAYS: [Way; 6] = [
    Way::new("wiglaf, Open MPI 5.0.11", &["--mpi", OPENMPI]).ours(2),
    Way::new("tcp, Open MPI 5.0.11", &["--mpi", OPENMPI, "--transport", "tcp"]),
    Way::new("tcp;ofi_rxm, Open MPI 5.0.11", &["--mpi", OPENMPI, "--transport", "ofi-tcp"])
        .explains(0),
    Way::new("wiglaf, MPICH 5.0.2", &["--mpi", MPICH]).ours(4),
    Way::new("tcp, MPICH 5.0.2", &["--mpi", MPICH, "--transport", "tcp"]),
    Way::new("tcp;ofi_rxm, MPICH 5.0.2", &["--mpi", MPICH, "--transport", "ofi-tcp"]).explains(3),
];
const OPENMPI: &str = "openmpi@5.0.11";
const MPICH: &str = "mpich@5.0.2";

/// Debian's package.
pub(crate) fn run(context: &Context<'_>) -> Result<Option<Findings>, String> {
    let version = version("python3-mpi4py")?;
    let upstream = version.split('-').next().unwrap_or(&version);
    let Some(source) = source(context.cluster.folder(), upstream)? else { return Ok(None) };
    let suite = Suite {
        cluster: context.cluster,
        source,
        log: "mpi4py",
        runner: "test/runtests.py --no-builddir -v",
        suffix: "",
        packages: None,
        resume: context.resume,
        quiet_limit: Duration::from_secs(15),
        limit: Duration::from_secs(600),
    };
    let about = vec![
        format!("mpi4py {version} as Debian packages it, test suite of its source distribution {upstream}."),
        ABOUT.to_owned(),
        "`tcp;ofi_rxm` is libfabric's own TCP under the same code of Open MPI (mtl/ofi) that Wiglaf is used by; it \
         runs the modules in which something failed over Wiglaf. What fails there, too, is Open MPI's: \
         [mpis.md](mpis.md) names the functions. With `OMPI_MCA_pml=ob1` Wiglaf is used by other code (btl/ofi)."
            .to_owned(),
    ];
    suite.judge(context, &DEBIANS_WAYS, about).map(Some)
}

/// The newest on PyPI, on MPIs from PyPI.
pub(crate) fn run_pypis(context: &Context<'_>) -> Result<Option<Findings>, String> {
    let folder = context.cluster.folder();
    let Some(source) = source(folder, PYPI_VERSION)? else { return Ok(None) };
    let Some(packages) = wheel(folder, PYPI_VERSION) else { return Ok(None) };
    let suite = Suite {
        cluster: context.cluster,
        source,
        log: "mpi4py-pypi",
        runner: "test/main.py -v",
        suffix: r"\.py",
        packages: Some(packages),
        resume: context.resume,
        // Accumulates of Open MPI 5 over btl/ofi take a test that long on a loaded machine.
        quiet_limit: Duration::from_secs(120),
        // Those of 4 ranks on 2 cores alone take minutes, on a loaded machine a quarter of an hour.
        limit: Duration::from_secs(3600),
    };
    let about = vec![
        format!(
            "mpi4py {PYPI_VERSION}, the wheel and the test suite of the source distribution on PyPI."
        ),
        ABOUT.to_owned(),
        "Open MPI is judged by `tcp;ofi_rxm`, libfabric's own TCP under the same code of Open MPI (mtl/ofi), which runs \
         the modules in which something failed over Wiglaf. MPICH uses libfabric for `tcp`, too."
            .to_owned(),
    ];
    suite.judge(context, &PYPIS_WAYS, about).map(Some)
}

const ABOUT: &str = "Ranks are dealt to two nodes in turn. Modules in which all tests agree have one line, with the \
                     tests that passed; a test that fails anywhere has its own.";

/// The folder with the installed wheel, for `PYTHONPATH`.
fn wheel(folder: &Path, version: &str) -> Option<PathBuf> {
    let target = folder.join(format!("mpi4py-{version}-wheel"));
    let is_there = || target.join("mpi4py").is_dir();
    if !is_there() {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]).arg(&target);
        let _ = command.arg(format!("mpi4py=={version}")).status();
    }
    if !is_there() {
        eprintln!("   skipped: the wheel of mpi4py {version} cannot be installed by pip");
    }
    is_there().then_some(target)
}

/// The folder of the sources, downloaded once.
fn source(folder: &Path, version: &str) -> Result<Option<PathBuf>, String> {
    let name = format!("mpi4py-{version}");
    let source = folder.join(&name);
    if source.join("test/runtests.py").is_file() {
        return Ok(Some(source));
    }
    let done = Command::new("/usr/bin/python3")
        // Nothing is built, but pip asks for the name of the package with the tools for it: as
        // wheels, for building these would take minutes.
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "mpi4py", "--dest"])
        .arg(folder)
        .arg(format!("mpi4py=={version}"))
        .status()
        .is_ok_and(|status| status.success())
        && Command::new("tar")
            .arg("-xf")
            .arg(folder.join(format!("{name}.tar.gz")))
            .arg("-C")
            .arg(folder)
            .status()
            .is_ok_and(|status| status.success());
    if !done {
        eprintln!("   skipped: the sources of mpi4py {version} cannot be downloaded by pip");
        return Ok(None);
    }
    Ok(Some(source))
}

/// All modules with tests, in the order in which the runner takes them.
fn modules(source: &Path) -> Result<Vec<String>, String> {
    let folder = source.join("test");
    let entries = fs::read_dir(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let modules = names.filter_map(|name| {
        name.strip_suffix(".py").filter(|name| name.starts_with("test_")).map(str::to_owned)
    });
    let mut modules: Vec<String> = modules.collect();
    modules.sort();
    Ok(modules)
}

/// The module of a test: the part of its name before the first dot.
fn module_of(test: &str) -> &str {
    test.split('.').next().unwrap_or(test)
}

/// Runs mpi4py's runner.
struct Suite<'a> {
    cluster: &'a Cluster,
    source: PathBuf,
    /// The folder of its logs.
    log: &'static str,
    /// The runner and its options.
    runner: &'static str,
    /// What the runner wants behind a module's name.
    suffix: &'static str,
    /// No rank says anything for so long: a test hangs.
    quiet_limit: Duration,
    /// Longest that one start of the runner may take. Whatever test runs then is called bad.
    limit: Duration,
    /// Where its mpi4py is, if not where Python finds it.
    packages: Option<PathBuf>,
    /// Take over what an interrupted run has found.
    resume: bool,
}

impl Suite<'_> {
    /// Every way with every number of ranks.
    fn judge(
        &self,
        context: &Context<'_>,
        ways: &[Way],
        about: Vec<String>,
    ) -> Result<Findings, String> {
        let modules = modules(&self.source)?;
        let modules: Vec<String> = modules.into_iter().filter(|m| context.wants(m)).collect();
        let mut columns: Vec<Column> = Vec::new();
        let mut found: Vec<BTreeMap<String, Outcome>> = Vec::new();
        for ranks in RANKS {
            let first = columns.len();
            for way in ways {
                let wanted = match way.explains {
                    Some(way) => suspects(&found[first + way]),
                    None => modules.clone(),
                };
                found.push(self.all(&wanted, way, ranks)?);
                let heading = format!("{}, {ranks} ranks", way.heading);
                columns.push(match way.rival {
                    Some(rival) => Column::ours(heading, Judge::Rival(first + rival)),
                    None => Column::rival(heading),
                });
            }
        }
        Ok(Findings { about, columns, rows: rows(&modules, &found) })
    }

    /// The outcome of every test of these modules.
    fn all(
        &self,
        modules: &[String],
        way: &Way,
        ranks: usize,
    ) -> Result<BTreeMap<String, Outcome>, String> {
        let began = Instant::now();
        let mut left: Vec<String> = modules.to_vec();
        let mut found = BTreeMap::new();
        for start in 0.. {
            if left.is_empty() {
                break;
            }
            let results = self.one(&left, way, ranks, start)?;
            let seen: BTreeSet<&str> = results.tests.keys().map(|test| module_of(test)).collect();
            let before = left.len();
            let so_far = modules.len() - before + seen.len();
            eprintln!(
                "   {} | {}, {ranks} ranks | {so_far} of {} modules, {} s",
                self.log,
                way.heading,
                modules.len(),
                began.elapsed().as_secs()
            );
            if results.is_complete {
                left.clear();
            } else {
                left.retain(|module| !seen.contains(module.as_str()));
            }
            if left.len() == before {
                // Not even its first module began.
                let module = left.remove(0);
                found.insert(module, Outcome::Bad("it ended before its first test".into()));
            }
            found.extend(results.tests);
        }
        let bad: Vec<&str> =
            found.iter().filter(|(_, o)| o.is_bad()).map(|(t, _)| t.as_str()).collect();
        let verdict = if bad.is_empty() {
            Verdict::Pass(format!("{} tests", found.len()))
        } else {
            Verdict::Fail(bad.join(", "))
        };
        progress(self.log, &format!("{}, {ranks} ranks", way.heading), &verdict, began.elapsed());
        Ok(found)
    }

    /// One start of the runner.
    fn one(
        &self,
        modules: &[String],
        way: &Way,
        ranks: usize,
        start: usize,
    ) -> Result<Results, String> {
        let column = way.heading.replace([' ', ',', '/', ';'], "-");
        let name = format!("{}/{column}-{ranks}/{start}", self.log);
        let logs = self.cluster.folder().join(&name);
        let shared = logs.join("tmp");
        // Each rank has a file of its own; else their lines would mix.
        let script = format!(
            "cd '{}' && exec /usr/bin/python3 {} -i '^({}){}$' 2>'{}/rank'${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}",
            self.source.display(),
            self.runner,
            modules.join("|"),
            self.suffix,
            logs.display()
        );
        let files: Vec<PathBuf> = (0..ranks).map(|rank| logs.join(format!("rank{rank}"))).collect();
        let what = format!("{}: {script}", commit()?);
        if let Some(by_itself) = self.resume.then(|| kept::kept(&logs, &what)).flatten() {
            return Ok(read(&files, by_itself));
        }
        // Files of another run would be read as this one's.
        let _ = fs::remove_dir_all(&logs);
        fs::create_dir_all(&shared).map_err(|why| format!("{}: {why}", shared.display()))?;
        let argv = ["sh", "-c", &script].map(str::to_owned);
        let size = ranks.to_string();
        let options = [&["-n", size.as_str(), "--places", PLACES], way.options].concat();
        // Files of MPI-IO must be the same for all ranks, and /tmp is each node's own.
        let shared = shared.display().to_string();
        let search = wheels::search_path();
        let packages = self.packages.as_ref().map(|path| path.display().to_string());
        let mut env = vec![("TMPDIR", shared.as_str()), ("WIGLAF_MPI_PATH", search.as_str())];
        env.extend(packages.iter().map(|path| ("PYTHONPATH", path.as_str())));
        env.extend(way.env);
        let ended = self.cluster.run_while_heard(
            &format!("{name}/mpirun"),
            &options,
            &env,
            &argv,
            self.limit,
            (&files, self.quiet_limit),
        )?;
        kept::keep(&logs, &what, ended.is_some())?;
        Ok(read(&files, ended.is_some()))
    }
}

/// What the ranks have written.
fn read(files: &[PathBuf], by_itself: bool) -> Results {
    let text = |file| String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned();
    let texts: Vec<String> = files.iter().map(text).collect();
    Results::read(&texts, by_itself)
}

/// The modules in which something is bad.
fn suspects(found: &BTreeMap<String, Outcome>) -> Vec<String> {
    let bad = found.iter().filter(|(_, outcome)| outcome.is_bad());
    let modules: BTreeSet<&str> = bad.map(|(test, _)| module_of(test)).collect();
    modules.into_iter().map(str::to_owned).collect()
}

/// A line for each module, and one for each test that is bad somewhere.
fn rows(modules: &[String], found: &[BTreeMap<String, Outcome>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for module in modules {
        let tests: BTreeSet<&String> = found
            .iter()
            .flat_map(BTreeMap::keys)
            .filter(|test| module_of(test) == module)
            .collect();
        let (bad, good): (Vec<_>, Vec<_>) = tests
            .into_iter()
            .partition(|test| found.iter().any(|run| run.get(*test).is_some_and(Outcome::is_bad)));
        if !good.is_empty() {
            let cells =
                found.iter().map(|run| results::summary(good.iter().map(|&t| run.get(t))).into());
            rows.push(Row { name: module.clone(), cells: cells.collect() });
        }
        for test in bad {
            let cells = found.iter().map(|run| results::verdict(run.get(test)).into());
            rows.push(Row { name: test.clone(), cells: cells.collect() });
        }
    }
    rows
}
