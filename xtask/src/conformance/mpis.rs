//! Every MPI that is here, over every link: the provider's own self-checking programs, and
//! Debian's NWChem as it was built for MPICH.
//!
//! The programs are built once for each binary interface, with Debian's compilers, and run
//! unchanged on every installation of that interface: that is what users do.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::verdict::{Cell, Column, Findings, Judge, Row, Verdict};
use super::{Context, progress};
use crate::wheels;

/// A hang becomes a failure.
const LIMIT: Duration = Duration::from_secs(60);
const RANKS: &str = "4";
/// Each link, and the nodes that it joins.
const LINKS: [(&str, &[&str]); 3] = [("packet", &[]), ("udp", &[]), ("shm", &["--nodes", "node1"])];
/// SCF energy of the demonstration's molecule, as a run of one rank gives it.
const ENERGY_HARTREE: &str = "-167.5977178";
const MOLECULE: &str = "examples/applications/nwchem/hcno.nw";

/// An installation, as `--mpi` names it, and the compiler of its binary interface.
pub(super) struct Mpi {
    pub(super) choice: String,
    pub(super) compiler: &'static str,
}

pub(crate) fn run(context: &Context<'_>) -> Result<Option<Findings>, String> {
    let mpis = installed(context)?;
    let programs = programs()?;
    let mut rows = Vec::new();
    for (name, source) in &programs {
        for (link, nodes) in LINKS {
            let test = format!("{name}, {link}");
            if !context.wants(&test) {
                continue;
            }
            let cells = mpis.iter().map(|mpi| {
                let program = compile(context, mpi.compiler, name, source)?;
                let options = [&["-n", RANKS, "--link", link], nodes].concat();
                judge(context, &test, mpi, &options, &[&program], |text| {
                    text.lines().any(|line| line == "passed")
                })
                .map(Cell::from)
            });
            rows.push(Row { cells: cells.collect::<Result<_, String>>()?, name: test });
        }
    }
    let test = "NWChem (nwchem-mpich), SCF of HCNO".to_owned();
    if context.wants(&test) {
        let molecule = root().join(MOLECULE).display().to_string();
        let cells = mpis.iter().map(|mpi| match mpi.compiler {
            "mpicc.mpich" => {
                let argv = ["nwchem.mpich", &molecule];
                judge(context, &test, mpi, &["-n", "2"], &argv, |text| {
                    text.lines()
                        .any(|l| l.contains("Total SCF energy") && l.contains(ENERGY_HARTREE))
                })
                .map(Cell::from)
            }
            _ => Ok(Verdict::Skip("built for the other binary interface".to_owned()).into()),
        });
        rows.push(Row { cells: cells.collect::<Result<_, String>>()?, name: test });
    }
    let columns = mpis.into_iter().map(|mpi| Column::ours(mpi.choice, Judge::Nobody)).collect();
    let about = vec![
        format!(
            "The programs of `crates/wiglaf-fabric/tests/mpi` check their own results. They were built with \
             Debian's `mpicc.openmpi` and `mpicc.mpich` and run unchanged on each installation with {RANKS} \
             ranks, dealt to two nodes in turn (`shm`: on one node)."
        ),
        format!("NWChem passes with a total SCF energy of {ENERGY_HARTREE} hartree."),
    ];
    Ok(Some(Findings { about, columns, rows }))
}

/// Those that `wiglaf doctor` finds fit.
pub(super) fn installed(context: &Context<'_>) -> Result<Vec<Mpi>, String> {
    let doctor = ["/usr/bin/wiglaf", "doctor"].map(str::to_owned);
    let search = [("WIGLAF_MPI_PATH".to_owned(), wheels::search_path())];
    // On a node, so that what it finds is what nodes see.
    let ended = context.cluster.exec("mpis/doctor", 1, &search, &doctor, LIMIT)?.wait()?;
    let families = [
        ("Open MPI", "openmpi", "mpicc.openmpi"),
        ("MPICH", "mpich", "mpicc.mpich"),
        ("Intel MPI", "intel", "mpicc.mpich"),
    ];
    let mut mpis = Vec::new();
    for line in ended.text.lines() {
        for (title, name, compiler) in families {
            let rest = line.strip_prefix(title).map(str::trim_start);
            let version = rest.and_then(|rest| rest.strip_prefix("ok ")).map(str::trim_start);
            if let Some(version) = version.and_then(|rest| rest.split_whitespace().next()) {
                mpis.push(Mpi { choice: format!("{name}@{version}"), compiler });
            }
        }
    }
    if mpis.is_empty() { Err(ended.reason()) } else { Ok(mpis) }
}

/// Those of them that are to run suites which take hours, and a sentence about the others. Intel's is left out:
/// it has MPICH's binary interface and, for what a transport carries, MPICH's code.
pub(super) fn chosen(context: &Context<'_>) -> Result<(Vec<Mpi>, String), String> {
    let is_wanted = |mpi: &Mpi| {
        let named = context.mpis.iter().any(|name| mpi.choice.starts_with(name.as_str()));
        named || context.mpis.is_empty() && !mpi.choice.starts_with("intel")
    };
    let (wanted, others): (Vec<Mpi>, Vec<Mpi>) =
        installed(context)?.into_iter().partition(is_wanted);
    if wanted.is_empty() {
        let here: Vec<String> = others.into_iter().map(|mpi| mpi.choice).collect();
        return Err(format!("no MPI is chosen by --mpi; here are {}", here.join(", ")));
    }
    let others: Vec<String> = others.into_iter().map(|mpi| mpi.choice).collect();
    let not_run = match others.is_empty() {
        true => "It ran on every MPI that is here.".to_owned(),
        false => format!("Not run: {}.", others.join(", ")),
    };
    Ok((wanted, not_run))
}

/// The transports of those suites, as `wiglaf run` names them.
pub(super) const TRANSPORTS: [&str; 2] = ["wiglaf", "tcp"];

/// Their columns: each MPI over Wiglaf, beside itself over TCP.
pub(super) fn columns(mpis: &[Mpi]) -> Vec<Column> {
    let of_mpi = |(i, mpi): (usize, &Mpi)| {
        let [ours, rival] = TRANSPORTS.map(|transport| format!("{} {transport}", mpi.choice));
        [Column::ours(ours, Judge::Rival(2 * i + 1)), Column::rival(rival)]
    };
    mpis.iter().enumerate().flat_map(of_mpi).collect()
}

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// Name and source of every program.
fn programs() -> Result<Vec<(String, PathBuf)>, String> {
    let folder = root().join("crates/wiglaf-fabric/tests/mpi");
    let entries =
        std::fs::read_dir(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let sources = entries.flatten().map(|entry| entry.path());
    let mut programs: Vec<_> = sources
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path)))
        .collect();
    programs.sort();
    Ok(programs)
}

/// Builds a program, unless this was done for another column.
fn compile(
    context: &Context<'_>,
    compiler: &str,
    name: &str,
    source: &Path,
) -> Result<String, String> {
    let folder = context.cluster.folder().join("mpis").join(compiler);
    std::fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let program = folder.join(name);
    let output = Command::new(compiler)
        .args(["-O1", "-o"])
        .arg(&program)
        .arg(source)
        .output()
        .map_err(|why| format!("{compiler} cannot be started: {why}"))?;
    match output.status.success() {
        true => Ok(program.display().to_string()),
        false => Err(format!("{compiler}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// One run; it passes when it ends well and has said what it should.
pub(super) fn judge(
    context: &Context<'_>,
    test: &str,
    mpi: &Mpi,
    options: &[&str],
    argv: &[&str],
    is_right: impl Fn(&str) -> bool,
) -> Result<Verdict, String> {
    let began = Instant::now();
    let log = format!("mpis/{}-{}", mpi.choice, test.replace([' ', ','], ""));
    let options = [&["--mpi", &mpi.choice], options].concat();
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    let search = wheels::search_path();
    let ended =
        context.cluster.run(&log, &options, &[("WIGLAF_MPI_PATH", &search)], &argv, LIMIT)?;
    let verdict = match ended.succeeded() && is_right(&ended.text) {
        true => Verdict::pass(),
        false => Verdict::Fail(ended.reason()),
    };
    progress(test, &mpi.choice, &verdict, began.elapsed());
    Ok(verdict)
}
