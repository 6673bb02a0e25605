//! mpi4py's own test suite: about 1500 tests of nearly every call of MPI.
//!
//! Its runner stops at the first test that hangs or crashes. This one starts it again behind that
//! test's module, so that one bad test does not hide the others.

mod results;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::cluster::Cluster;
use super::verdict::{Column, Findings, Judge, Row, Verdict};
use super::{Context, progress, version};
use results::{Outcome, Results};

/// Longest that one start of the runner may take.
const LIMIT: Duration = Duration::from_secs(600);
/// No rank says anything for so long: a test hangs.
const QUIET_LIMIT: Duration = Duration::from_secs(15);
const RANKS: [usize; 2] = [2, 4];
/// The transport whose figures count, Open MPI's own TCP, and the one that shares the MPI layer's
/// code with ours.
const OURS: &str = "wiglaf";
const TCP: &str = "tcp";
const OFI_TCP: &str = "ofi-tcp";

pub(crate) fn run(context: &Context<'_>) -> Result<Option<Findings>, String> {
    let version = version("python3-mpi4py")?;
    let upstream = version.split('-').next().unwrap_or(&version);
    let Some(source) = source(context.cluster.folder(), upstream)? else { return Ok(None) };
    let modules = modules(&source)?;
    let modules: Vec<String> = modules.into_iter().filter(|name| context.wants(name)).collect();
    let suite = Suite { cluster: context.cluster, source };
    let mut columns: Vec<Column> = Vec::new();
    let mut found: Vec<BTreeMap<String, Outcome>> = Vec::new();
    for ranks in RANKS {
        let ours = suite.all(&modules, OURS, ranks)?;
        let tcp = suite.all(&modules, TCP, ranks)?;
        // Only where something is to be explained: it takes long.
        let suspects: BTreeSet<&str> =
            ours.iter().filter(|(_, o)| o.is_bad()).map(|(test, _)| module_of(test)).collect();
        let suspects: Vec<String> = suspects.into_iter().map(str::to_owned).collect();
        let ofi_tcp = suite.all(&suspects, OFI_TCP, ranks)?;
        let first = columns.len();
        columns.push(Column::ours(format!("wiglaf, {ranks} ranks"), Judge::Rival(first + 2)));
        columns.push(Column::rival(format!("tcp, {ranks} ranks")));
        columns.push(Column::rival(format!("tcp;ofi_rxm, {ranks} ranks")));
        found.extend([ours, tcp, ofi_tcp]);
    }
    let about = vec![
        format!("mpi4py {version} as Debian packages it, test suite of its source distribution {upstream}."),
        "Ranks are dealt to two nodes in turn. Modules in which all tests agree have one line, with the tests that \
         passed; a test that fails anywhere has its own."
            .to_owned(),
        "`tcp;ofi_rxm` is libfabric's own TCP under the same code of Open MPI (mtl/ofi) that Wiglaf is used by; it \
         runs the modules in which something failed over Wiglaf. What fails there, too, is Open MPI's."
            .to_owned(),
    ];
    Ok(Some(Findings { about, columns, rows: rows(&modules, &found) }))
}

/// The folder of the sources, downloaded once.
fn source(folder: &Path, version: &str) -> Result<Option<PathBuf>, String> {
    let name = format!("mpi4py-{version}");
    let source = folder.join(&name);
    if source.join("test/runtests.py").is_file() {
        return Ok(Some(source));
    }
    let done = Command::new("/usr/bin/python3")
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest"])
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
}

impl Suite<'_> {
    /// The outcome of every test of these modules.
    fn all(
        &self,
        modules: &[String],
        transport: &str,
        ranks: usize,
    ) -> Result<BTreeMap<String, Outcome>, String> {
        let began = Instant::now();
        let mut left: Vec<String> = modules.to_vec();
        let mut found = BTreeMap::new();
        for start in 0.. {
            if left.is_empty() {
                break;
            }
            let results = self.one(&left, transport, ranks, start)?;
            let seen: BTreeSet<&str> = results.tests.keys().map(|test| module_of(test)).collect();
            let before = left.len();
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
        progress("mpi4py", &format!("{transport}, {ranks} ranks"), &verdict, began.elapsed());
        Ok(found)
    }

    /// One start of the runner.
    fn one(
        &self,
        modules: &[String],
        transport: &str,
        ranks: usize,
        start: usize,
    ) -> Result<Results, String> {
        let name = format!("mpi4py/{transport}-{ranks}/{start}");
        let logs = self.cluster.folder().join(&name);
        let shared = logs.join("tmp");
        // Files of another run would be read as this one's.
        let _ = fs::remove_dir_all(&logs);
        fs::create_dir_all(&shared).map_err(|why| format!("{}: {why}", shared.display()))?;
        // Each rank has a file of its own; else their lines would mix.
        let script = format!(
            "cd '{}' && exec /usr/bin/python3 test/runtests.py --no-builddir -v -i '^({})$' \
             2>'{}/rank'$OMPI_COMM_WORLD_RANK",
            self.source.display(),
            modules.join("|"),
            logs.display()
        );
        let argv = ["sh", "-c", &script].map(str::to_owned);
        let size = ranks.to_string();
        let options = ["-n", size.as_str(), "--transport", transport];
        // Files of MPI-IO must be the same for all ranks, and /tmp is each node's own.
        let shared = shared.display().to_string();
        let env = [("TMPDIR", shared.as_str())];
        let files: Vec<PathBuf> = (0..ranks).map(|rank| logs.join(format!("rank{rank}"))).collect();
        let ended = self.cluster.run_while_heard(
            &format!("{name}/mpirun"),
            &options,
            &env,
            &argv,
            LIMIT,
            (&files, QUIET_LIMIT),
        )?;
        let texts: Vec<String> = files
            .iter()
            .map(|file| String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned())
            .collect();
        Ok(Results::read(&texts, ended.is_some()))
    }
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
            let cells = found.iter().map(|run| results::summary(good.iter().map(|&t| run.get(t))));
            rows.push(Row { name: module.clone(), cells: cells.collect() });
        }
        for test in bad {
            let cells = found.iter().map(|run| results::verdict(run.get(test)));
            rows.push(Row { name: test.clone(), cells: cells.collect() });
        }
    }
    rows
}
