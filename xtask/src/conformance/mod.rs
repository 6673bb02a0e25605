//! `cargo xtask conformance`: test suites that others wrote, over Wiglaf and over TCP, side by side.
//!
//! Our own tests can only find what we thought of. These programs come from Debian's packages, or,
//! as fabtests, from whoever runs this; each is run as its authors meant it, and what they say goes
//! into `docs/conformance.md`.

mod applications;
mod cluster;
mod fabtests;
mod fortran;
mod hpcc;
mod imb;
mod mpi4py;
mod mpich;
mod mpis;
mod netpipe;
mod once;
mod report;
mod scalapack;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::packages;
use cluster::Cluster;
use report::Section;
use verdict::Findings;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The suites to run [default: those that together take less than half an hour]
    #[arg(value_enum)]
    suites: Vec<Suite>,
    /// Run all suites
    #[arg(long, conflicts_with = "suites")]
    all: bool,
    /// Where fabtests is installed: the folder above its bin and share
    #[arg(long, value_name = "DIR")]
    fabtests: Option<PathBuf>,
    /// MPICH's own tests: the folder test/mpi of its sources (`apt-get source mpich`)
    #[arg(long, value_name = "DIR")]
    mpich_tests: Option<PathBuf>,
    /// Intel's MPI benchmarks: the folder of their sources, which holds src_c and src_cpp
    #[arg(long, value_name = "DIR")]
    imb: Option<PathBuf>,
    /// Only MPIs whose name begins so, as openmpi@4 (the suites mpich, imb and scalapack) [default: all that are here]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    mpi: Vec<String>,
    /// Run only the tests whose name contains this, and leave the document as it is
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    /// Go on where a run of the same build was interrupted (mpi4py, mpich, imb and scalapack)
    #[arg(long)]
    resume: bool,
    /// Begin no further test after so many minutes, and write down which were not run (mpich, imb and scalapack)
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Ask TCP only about tests that fail over Wiglaf (mpich and scalapack), in half the time
    #[arg(long)]
    short: bool,
    /// Let the wire lose so much, such as 1%, and leave the document as it is
    #[arg(long, value_name = "PERCENT")]
    drop: Option<String>,
    /// The name of the emulated cluster that is brought up for it
    #[arg(long, value_name = "NAME", default_value = "conformance")]
    name: String,
    /// The document to write
    #[arg(long, value_name = "FILE", default_value = "docs/conformance.md")]
    output: PathBuf,
}

/// The suites, in the order of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// libfabric's own tests
    Fabtests,
    /// mpi4py's own tests, Debian's version on Debian's Open MPI
    Mpi4py,
    /// mpi4py's own tests, PyPI's version on Open MPI and MPICH from PyPI
    Mpi4pyPypi,
    /// Ping-pongs that compare every byte
    Netpipe,
    /// HPC Challenge
    Hpcc,
    /// Quantum ESPRESSO, NWChem and LAMMPS against their serial runs
    Applications,
    /// Every MPI over every link
    Mpis,
    /// Fortran programs of every compiler on every MPI
    Fortran,
    /// MPICH's own tests of MPI, on every MPI
    Mpich,
    /// Intel's MPI benchmarks, which check what they receive, on every MPI
    Imb,
    /// ScaLAPACK's own tests, on every MPI
    Scalapack,
}

impl Suite {
    const ALL: [Self; 11] = [
        Self::Fabtests,
        Self::Mpi4py,
        Self::Mpi4pyPypi,
        Self::Netpipe,
        Self::Hpcc,
        Self::Applications,
        Self::Mpis,
        Self::Fortran,
        Self::Mpich,
        Self::Imb,
        Self::Scalapack,
    ];

    /// What runs unless asked otherwise: half an hour of two cores, and no MPI from elsewhere.
    const SHORT: [Self; 5] =
        [Self::Fabtests, Self::Mpi4py, Self::Netpipe, Self::Hpcc, Self::Applications];

    /// As it is written on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Fabtests => "fabtests",
            Self::Mpi4py => "mpi4py",
            Self::Mpi4pyPypi => "mpi4py-pypi",
            Self::Netpipe => "netpipe",
            Self::Hpcc => "hpcc",
            Self::Applications => "applications",
            Self::Mpis => "mpis",
            Self::Fortran => "fortran",
            Self::Mpich => "mpich",
            Self::Imb => "imb",
            Self::Scalapack => "scalapack",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Fabtests => "fabtests, libfabric's own tests",
            Self::Mpi4py => "mpi4py's test suite",
            Self::Mpi4pyPypi => "mpi4py's test suite on other MPIs",
            Self::Netpipe => "NetPIPE",
            Self::Hpcc => "HPC Challenge",
            Self::Applications => "Applications",
            Self::Mpis => "Every MPI over every link",
            Self::Fortran => "Fortran",
            Self::Mpich => "MPICH's tests of MPI",
            Self::Imb => "Intel's MPI benchmarks",
            Self::Scalapack => "ScaLAPACK's tests",
        }
    }

    /// Whether it has so many tests that those which pass everywhere are only counted.
    fn is_long(self) -> bool {
        matches!(self, Self::Mpich | Self::Imb | Self::Scalapack)
    }

    /// `None` where it cannot run here; the reason has been printed.
    fn run(self, context: &Context<'_>) -> Result<Option<Findings>, String> {
        match self {
            Self::Fabtests => fabtests::run(context),
            Self::Mpi4py => mpi4py::run(context),
            Self::Mpi4pyPypi => mpi4py::run_pypis(context),
            Self::Netpipe => netpipe::run(context),
            Self::Hpcc => hpcc::run(context),
            Self::Applications => applications::run(context),
            Self::Mpis => mpis::run(context),
            Self::Fortran => fortran::run(context),
            Self::Mpich => mpich::run(context),
            Self::Imb => imb::run(context),
            Self::Scalapack => scalapack::run(context),
        }
    }
}

/// What every suite gets.
pub(crate) struct Context<'a> {
    cluster: &'a Cluster,
    /// Where our provider is.
    provider: PathBuf,
    provider_sum: String,
    fabtests: Option<&'a Path>,
    mpich_tests: Option<&'a Path>,
    imb: Option<&'a Path>,
    /// The beginnings of the names of MPIs; none means all.
    mpis: &'a [String],
    only: Option<&'a str>,
    /// When no further test begins.
    ends: Option<Instant>,
    /// Take over what an interrupted run has found.
    resume: bool,
    /// Ask the rival only where it matters.
    short: bool,
}

impl Context<'_> {
    /// Whether no further test begins.
    fn is_over(&self) -> bool {
        self.ends.is_some_and(|ends| Instant::now() >= ends)
    }

    /// Whether that test is wanted.
    fn wants(&self, test: &str) -> bool {
        self.only.is_none_or(|words| test.contains(words))
    }
}

/// Runs the suites and writes the document; an error where one is held against us.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    let suites: &[Suite] = match &*arguments.suites {
        _ if arguments.all => &Suite::ALL,
        [] => &Suite::SHORT,
        chosen => chosen,
    };
    // A suite whose sources are named is wanted.
    let named = [(Suite::Mpich, &arguments.mpich_tests), (Suite::Imb, &arguments.imb)];
    let named = named.iter().filter(|(suite, folder)| folder.is_some() && !suites.contains(suite));
    let suites: Vec<Suite> = suites.iter().copied().chain(named.map(|(suite, _)| *suite)).collect();
    let needs_mpis = suites.iter().any(|s| {
        matches!(s, Suite::Mpis | Suite::Mpi4pyPypi | Suite::Mpich | Suite::Imb | Suite::Scalapack)
    });
    let install = if needs_mpis { packages::install } else { packages::install_programs };
    install(packages::Purpose::Conformance)?;
    build()?;
    let cluster = Cluster::up(root, &arguments.name, 2)?;
    let provider = cluster.provider()?;
    if let Some(drop) = &arguments.drop {
        let ended = cluster.wiglaf("fault", &["fault", "set", "--drop", drop])?;
        if !ended.succeeded() {
            return Err(ended.text.trim().to_owned());
        }
    }
    let context = Context {
        cluster: &cluster,
        provider_sum: once::provider_sum(&provider)?,
        provider,
        fabtests: arguments.fabtests.as_deref(),
        mpich_tests: arguments.mpich_tests.as_deref(),
        imb: arguments.imb.as_deref(),
        mpis: &arguments.mpi,
        only: arguments.only.as_deref(),
        ends: arguments.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes)),
        resume: arguments.resume,
        short: arguments.short,
    };
    let (date, machine) = (date()?, machine()?);
    let mut sections = Vec::new();
    let mut against = Vec::new();
    for &suite in &suites {
        eprintln!("== {}", suite.title());
        let began = Instant::now();
        let Some(findings) = suite.run(&context)? else { continue };
        for (test, column) in findings.held_against_us() {
            against.push(format!("{}: {test} ({column})", suite.name()));
        }
        for slower in findings.slower() {
            eprintln!("   {slower}");
            if slower.is_failure() {
                against.push(format!("{}: {slower}", suite.name()));
            }
        }
        for (index, column) in findings.columns.iter().enumerate() {
            let (passed, failed, skipped) = findings.tally(index);
            eprintln!("   {}: {passed} passed, {failed} failed, {skipped} skipped", column.heading);
        }
        eprintln!("   {} tests, {} s", findings.rows.len(), began.elapsed().as_secs());
        sections.push(Section::new(suite, &arguments.mpi, &findings, &date, &machine));
    }
    if arguments.only.is_none() && arguments.drop.is_none() {
        report::write(&root.join(&arguments.output), &sections)?;
    }
    for test in &against {
        eprintln!("fails over Wiglaf only: {test}");
    }
    if against.is_empty() {
        Ok(())
    } else {
        Err(format!("{} tests fail over Wiglaf only", against.len()))
    }
}

fn build() -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // All of it, as the tests build it: another choice of packages would have other features, and be built anew.
    let packages = crate::ci::INSTALLED.iter().flat_map(|package| ["--package", package]);
    let status = Command::new(cargo)
        .args(["build", "--release", "--quiet"])
        .args(packages)
        .status()
        .map_err(|why| format!("cargo cannot be started: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("the build failed: {status}")) }
}

/// What a command prints, on one line.
fn output_of(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|why| format!("{program} cannot be started: {why}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn date() -> Result<String, String> {
    output_of("date", &["-u", "+%Y-%m-%d"])
}

fn machine() -> Result<String, String> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = output_of("uname", &["-r"])?;
    // What a distributor adds to the version says nothing to others.
    let kernel = kernel.split('-').next().unwrap_or_default();
    Ok(format!("{cores} cores, Linux {kernel}, commit {}", commit()?))
}

/// The commit that was built, for who wants to see the same again.
fn commit() -> Result<String, String> {
    output_of("git", &["describe", "--always", "--dirty"])
}

/// The version of an installed Debian package.
fn version(package: &str) -> Result<String, String> {
    output_of("dpkg-query", &["-W", "-f", "${Version}", package])
}

/// Progress, a line for each test.
fn progress(test: &str, column: &str, verdict: &verdict::Verdict, took: Duration) {
    eprintln!("   {test} | {column} | {verdict} | {:.1} s", took.as_secs_f64());
}

/// Progress of a run of one test that has just ended: the verdict with its time.
fn timed(test: &str, column: &str, verdict: verdict::Verdict, began: Instant) -> verdict::Cell {
    let took = began.elapsed();
    progress(test, column, &verdict, took);
    verdict.after(took)
}
