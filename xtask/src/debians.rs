//! This build in other releases of Debian, as a new user has it.
//!
//! A root of the release is made once by mmdebstrap and kept. What `make install` installs, or the package
//! that `make deb` has built, lies over it, and what a new user does first runs there, in namespaces of its
//! own: an emulated cluster, programs on every MPI, files, ordinary users ([`inside.sh`](debians/inside.sh)).
//! Nothing that runs there changes the root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::ValueEnum;

use crate::wheels;

/// What to try.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Arguments {
    /// Which release
    #[arg(value_enum, default_value_t = Release::default())]
    release: Release,
    /// All links on all MPIs, and the demonstration with its programs
    #[arg(long)]
    long: bool,
    /// Make the root anew, with the packages of today
    #[arg(long)]
    anew: bool,
    /// Take what is in target/release as it is
    #[arg(long)]
    no_build: bool,
    /// Where roots are kept
    #[arg(long, value_name = "DIR")]
    roots: Option<PathBuf>,
    /// Instead: jobs between a cluster of this machine's release and one of that release, over ssh
    #[arg(long, conflicts_with_all = ["long", "anew", "no_build", "no_wheels"])]
    sites: bool,
    /// Only make the root
    #[arg(long, conflicts_with = "sites")]
    root_only: bool,
    /// Where no root can be made, say why and succeed
    #[arg(long)]
    if_possible: bool,
    /// Only what Debian packages, without the MPIs of the Python index
    #[arg(long)]
    no_wheels: bool,
}

/// A release of Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Release {
    /// Bookworm
    #[value(name = "12")]
    Bookworm,
    /// Trixie
    #[default]
    #[value(name = "13")]
    Trixie,
    /// What comes next
    #[value(name = "sid")]
    Sid,
}

impl Release {
    /// As mmdebstrap and apt know it.
    fn suite(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
            Self::Sid => "sid",
        }
    }
}

/// What a user of MPI has, and tools for who looks at a failure.
const PACKAGES: &[&str] = &[
    "ethtool",
    "fuse3",
    "gcc",
    "gdb",
    "gfortran",
    "iproute2",
    "iputils-ping",
    "libc6-dev",
    "libfabric-bin",
    "libfabric1",
    "libmpich-dev",
    "libopenmpi-dev",
    "mpich",
    "openmpi-bin",
    "openssh-client",
    "procps",
    "python3-mpi4py",
    "strace",
];
/// Besides, what the demonstration runs.
const DEMO: &[&str] = &["quantum-espresso", "quantum-espresso-data", "nwchem-openmpi"];
/// Besides, what makes a root a host that others log in to.
const HOST: &[&str] =
    &["ca-certificates", "mount", "openssh-server", "passwd", "sudo", "util-linux"];
/// Besides, what makes it a cluster of its own.
const BATCH: &[&str] = &[
    "iproute2",
    "munge",
    "openmpi-bin",
    "procps",
    "slurm-client",
    "slurmctld",
    "slurmd",
    "slurmrestd",
];
/// What roots have no use for.
const EXCLUDED: [&str; 3] = ["/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*"];

const ENTER: &str = include_str!("debians/enter.sh");
const INSIDE: &str = include_str!("debians/inside.sh");
const SOURCES: [(&str, &str); 7] = [
    ("hello.c", include_str!("debians/sources/hello.c")),
    ("hello.f90", include_str!("debians/sources/hello.f90")),
    ("hello.py", include_str!("debians/sources/hello.py")),
    ("host.c", include_str!("../../crates/wiglaf-cli/tests/mpi/host.c")),
    ("init.c", include_str!("debians/sources/init.c")),
    ("plugin.c", include_str!("../../crates/wiglaf-cli/tests/mpi/plugin.c")),
    ("windows.c", include_str!("debians/sources/windows.c")),
];

/// Tries this build in a release, prints how each check came out, and fails when one has.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let folder = target().join("debians");
    let roots = arguments.roots.clone().unwrap_or_else(|| folder.clone());
    if arguments.sites {
        check_root()?;
        return sites(arguments.release, &roots);
    }
    let root = match root_of(arguments, &roots) {
        Err(why) if arguments.if_possible => {
            println!("skipped: nothing is tried in {}: {why}", arguments.release.suite());
            return Ok(());
        }
        root => root?,
    };
    if arguments.root_only {
        return Ok(());
    }
    let run = folder.join(format!("{}.run", arguments.release.suite()));
    let _ = fs::remove_dir_all(&run);
    let installed = install(arguments, &run)?;
    write_inputs(&run.join("w"))?;
    let mpis = if arguments.no_wheels { run.join("none") } else { wheels::folder() };
    let text = enter(arguments, &root, &installed, &run, &mpis)?;
    report(&text, &run.join("w/logs"))
}

/// What CI tries: the stable release as it is packaged, with what is built.
pub(crate) fn short(if_possible: bool) -> Result<(), String> {
    run(&Arguments { no_build: true, if_possible, no_wheels: true, ..Arguments::default() })
}

/// The command's tests of jobs at another cluster, whose host has that release.
fn sites(release: Release, roots: &Path) -> Result<(), String> {
    let packages: Vec<&str> = HOST.iter().chain(BATCH).copied().collect();
    let root = make_root(release, &format!("{}-site", release.suite()), &packages, roots, false)?;
    let mut test = Command::new(env!("CARGO"));
    test.args(["test", "--package", "wiglaf-cli", "--test", "sites"]).current_dir(workspace());
    let status = test.env("WIGLAF_TEST_SITE_ROOT", root).status();
    let status = status.map_err(|why| format!("cargo: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("the tests failed: {status}")) }
}

fn target() -> PathBuf {
    workspace().join("target")
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

fn check_root() -> Result<(), String> {
    let uid = Command::new("id").arg("-u").output().map_err(|why| format!("id: {why}"))?;
    match uid.stdout == b"0\n" {
        true => Ok(()),
        false => Err("a root of Debian takes root: run it with sudo".to_owned()),
    }
}

/// The root in which a new user's first steps are tried.
fn root_of(arguments: &Arguments, roots: &Path) -> Result<PathBuf, String> {
    check_root()?;
    let mut packages = PACKAGES.to_vec();
    if arguments.long {
        packages.extend(DEMO);
    }
    let name = arguments.release.suite().to_owned() + if arguments.long { "-long" } else { "" };
    make_root(arguments.release, &name, &packages, roots, arguments.anew)
}

/// A root of the release to bring up hosts with ([`wiglaf_testhosts::HostPlan::root`]), made unless it is there.
pub(crate) fn host_root(release: Release) -> Result<PathBuf, String> {
    let packages: Vec<&str> = PACKAGES.iter().chain(HOST).copied().collect();
    let name = format!("{}-host", release.suite());
    make_root(release, &name, &packages, &target().join("debians"), false)
}

/// The root of the release, made unless it is there with the packages that are wanted.
fn make_root(
    release: Release,
    name: &str,
    packages: &[&str],
    roots: &Path,
    anew: bool,
) -> Result<PathBuf, String> {
    let packages = packages.join(",");
    let (root, list) = (roots.join(name), roots.join(format!("{name}.packages")));
    if !anew && fs::read_to_string(&list).is_ok_and(|has| has == packages) {
        return Ok(root);
    }
    let failed = |why: std::io::Error| format!("{}: {why}", roots.display());
    fs::create_dir_all(roots).map_err(failed)?;
    let part = roots.join(format!("{name}.part"));
    for old in [&list, &root, &part].into_iter().filter(|old| old.exists()) {
        let gone = if old.is_dir() { fs::remove_dir_all(old) } else { fs::remove_file(old) };
        gone.map_err(failed)?;
    }
    let began = Instant::now();
    eprintln!("== making a root of {} in {}", release.suite(), root.display());
    let mut command = Command::new("mmdebstrap");
    command.args(["--quiet", "--variant=apt", "--aptopt=APT::Install-Recommends \"false\""]);
    // A mirror may be weeks old; what it has is signed all the same.
    command.arg("--aptopt=Acquire::Check-Valid-Until \"false\"");
    command.args(EXCLUDED.map(|path| format!("--dpkgopt=path-exclude={path}")));
    command.arg(format!("--include={packages}")).arg(release.suite()).arg(&part);
    let status = command.stdin(Stdio::null()).status();
    let status =
        status.map_err(|why| format!("mmdebstrap: {why}; run `apt-get install mmdebstrap`"));
    if !status?.success() {
        let _ = fs::remove_dir_all(&part);
        return Err("mmdebstrap has failed, for the reason above".to_owned());
    }
    fs::rename(&part, &root).map_err(failed)?;
    fs::write(&list, packages).map_err(failed)?;
    eprintln!("== the root took {} s", began.elapsed().as_secs());
    Ok(root)
}

/// What lies over the root: the package that `make deb` has built from what is built now, or what `make
/// install` installs.
fn install(arguments: &Arguments, run: &Path) -> Result<PathBuf, String> {
    if !arguments.no_build {
        make(&["release"])?;
    }
    let over = run.join("installed");
    match package()? {
        Some(deb) => {
            eprintln!("== installing {}", deb.display());
            // As dpkg would, but for its scripts, which want a running system.
            finish(Command::new("dpkg-deb").arg("--extract").arg(deb).arg(&over))?;
        }
        None => make(&["install", "PREFIX=/usr/local", &format!("DESTDIR={}", over.display())])?,
    }
    Ok(over)
}

/// The newest package of this build, if it is not older than what is built.
fn package() -> Result<Option<PathBuf>, String> {
    let modified = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    let built = modified(&target().join("release/wiglaf"));
    let folders = fs::read_dir(target().join("debian")).into_iter().flatten().flatten();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("wiglaf_") && name.ends_with(".deb")
    };
    let packages = folders.map(|entry| entry.path()).filter(is_ours);
    Ok(packages.filter(|path| modified(path) >= built).max_by_key(|path| modified(path)))
}

fn make(words: &[&str]) -> Result<(), String> {
    eprintln!("== make {}", words.join(" "));
    finish(Command::new("make").arg("--silent").args(words).current_dir(workspace()))
}

fn finish(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} has failed: {status}")),
        Err(why) => Err(format!("{name} cannot be started: {why}")),
    }
}

fn write_inputs(folder: &Path) -> Result<(), String> {
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(folder.join("sources"))?;
        fs::write(folder.join("inside.sh"), INSIDE)?;
        SOURCES
            .iter()
            .try_for_each(|(name, text)| fs::write(folder.join("sources").join(name), text))
    };
    write().map_err(|why| format!("{}: {why}", folder.display()))
}

/// Runs the checks in the root; answers the lines that they print.
fn enter(
    arguments: &Arguments,
    root: &Path,
    installed: &Path,
    run: &Path,
    mpis: &Path,
) -> Result<String, String> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--uts", "--ipc", "--net", "--fork", "--kill-child"]);
    command.args(["--propagation", "private", "bash", "-c", ENTER, "enter"]);
    command.args([root, installed, run, mpis]);
    command.env("ROUNDS", if arguments.long { "long" } else { "short" });
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|why| format!("unshare: {why}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("the root cannot be entered: {}", output.status)),
    }
}

/// Prints a line for each check.
///
/// # Errors
/// When one has failed, or none has run.
fn report(text: &str, logs: &Path) -> Result<(), String> {
    let rows: Vec<[&str; 3]> = text.lines().filter_map(row).collect();
    let width = rows.iter().map(|[_, name, _]| name.chars().count()).max().unwrap_or(0);
    for [verdict, name, why] in &rows {
        println!("{verdict:<5} {name:<width$}  {why}");
    }
    let count = |wanted: &str| rows.iter().filter(|[verdict, ..]| *verdict == wanted).count();
    println!("{} passed, {} failed", count("pass"), count("fail"));
    match (rows.len(), count("fail")) {
        (0, _) => Err("no check has run".to_owned()),
        (_, 0) => Ok(()),
        (_, failed) => {
            Err(format!("{failed} checks failed; {} has what they printed", logs.display()))
        }
    }
}

/// `verdict|name|why`.
fn row(line: &str) -> Option<[&str; 3]> {
    let mut parts = line.splitn(3, '|');
    let row = [parts.next()?, parts.next()?, parts.next()?];
    ["pass", "fail"].contains(&row[0]).then_some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_check_fails_all_and_so_does_none_at_all() {
        let logs = Path::new("/logs");
        assert!(report("pass|up|1 s\npass|down|0 s\n", logs).is_ok());
        let why = report("pass|up|1 s\nfail|down|status 1: a|b\n", logs).unwrap_err();
        assert!(why.contains("1 checks failed") && why.contains("/logs"), "{why}");
        assert!(report("", logs).is_err());
        assert_eq!(row("fail|down|status 1: a|b"), Some(["fail", "down", "status 1: a|b"]));
        assert_eq!(row("passing remark"), None);
    }

    #[test]
    fn the_scripts_are_scripts() {
        for script in [ENTER, INSIDE] {
            let checked = Command::new("bash").args(["-n", "-c", script]).status().unwrap();
            assert!(checked.success());
        }
    }
}
