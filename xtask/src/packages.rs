//! What each purpose needs installed, in one place: Debian packages here, wheels in
//! [`crate::wheels`].

use std::process::Command;

use clap::ValueEnum;

use crate::wheels;

/// What packages are needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Purpose {
    /// Building and testing.
    Test,
    /// The demonstration with real programs.
    Demo,
    /// The test suites of others.
    Conformance,
    /// Guests with kernels of their own.
    Guests,
}

/// Compiler, MPI, network tools, a simulator of clusters, a font for pictures, what examples/transformation is built with and
/// compared to, rivals in moving files, programs that work on a mount, tools held against programs, a
/// login shell that is not of sh's kind, and what makes a root of another release.
const TEST: &[&str] = &[
    "gcc",
    "gfortran",
    "libc6-dev",
    "openmpi-bin",
    "libopenmpi-dev",
    "mpich",
    "libmpich-dev",
    "python3-pip",
    "libfabric-dev",
    "libfabric-bin",
    "netpipe-openmpi",
    "iproute2",
    "iputils-ping",
    "iperf3",
    "openssh-client",
    "openssh-server",
    "nftables",
    "procps",
    "sudo",
    "tcpdump",
    "tshark",
    "fonts-dejavu-core",
    "libopenblas-dev",
    "libnfs-dev",
    "pkg-config",
    "nwchem-openmpi",
    "sshfs",
    "nfs-ganesha",
    "nfs-ganesha-vfs",
    "git",
    "sqlite3",
    "vim-tiny",
    "valgrind",
    "gdb",
    "strace",
    "libjemalloc2",
    "libtcmalloc-minimal4",
    "slurmctld",
    "slurmd",
    "slurm-client",
    "munge",
    "slurmdbd",
    "mariadb-server-core",
    "mariadb-client-core",
    "slurm-wlm-torque",
    "xauth",
    "slurmrestd",
    "environment-modules",
    "libpmi2-0",
    "openipmi",
    "freeipmi-tools",
    "ipmitool",
    "curl",
    "openssl",
    "fish",
    "libsimgrid-dev",
    "fdisk",
    "dnsmasq-base",
    "mmdebstrap",
    "debian-archive-keyring",
];
/// Packages whose daemons would run from now on, though only the tests' own nodes need them.
const DAEMONS: &[(&str, &str)] = &[
    ("slurmctld", "slurmctld"),
    ("slurmd", "slurmd"),
    ("slurmdbd", "slurmdbd"),
    ("slurmrestd", "slurmrestd"),
    ("munge", "munge"),
];
/// Besides, the programs that the demonstration runs.
const DEMO: &[&str] = &["quantum-espresso", "quantum-espresso-data", "nwchem-openmpi"];
/// Besides those of the demonstration, the suites that Debian packages, and compilers.
const CONFORMANCE: &[&str] = &[
    "hpcc",
    "lammps",
    "lammps-examples",
    "python3-mpi4py",
    "python3-numpy",
    "nwchem-mpich",
    "clang",
    "libscalapack-openmpi-dev",
    "libscalapack-mpich-dev",
    "scalapack-mpi-test",
];

/// Those that the suite of compilers knows. Each release of Debian has some of them; one that it does
/// not have would make apt install nothing at all.
const FLANGS: [&str; 3] = ["flang-16", "flang-19", "flang-22"];

/// Those that this release has.
fn flangs() -> Result<Vec<&'static str>, String> {
    // Before it, apt may know no package.
    apt(&["update", "-qq"])?;
    let has = |package: &&str| {
        let shown = Command::new("apt-cache").args(["show", "--no-all-versions", package]).output();
        shown.is_ok_and(|out| out.status.success() && !out.stdout.is_empty())
    };
    Ok(FLANGS.into_iter().filter(has).collect())
}
/// Besides those for tests: the machine, what makes its disks, and a shell for its start.
const GUESTS: &[&str] = &[
    "qemu-system-x86",
    "mmdebstrap",
    "busybox-static",
    "e2fsprogs",
    "kmod",
    "debian-archive-keyring",
    "fdisk",
    "dosfstools",
    "mtools",
    "binutils",
    "dnsmasq-base",
    "ipxe",
    "ovmf",
];

/// Daemons that only the tests' own hosts install: downloaded into target/debs with what they need, and not installed.
const DOWNLOADED: &[&str] = &["prometheus", "prometheus-node-exporter", "prometheus-alertmanager"];

/// Downloads them. Without them the tests that need them are skipped.
fn download() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let folder = root.expect("xtask lies in the workspace").join("target/debs");
    let made = std::fs::create_dir_all(folder.join("partial"));
    let archives = format!("Dir::Cache::archives={}", folder.display());
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends", "--download-only"];
    arguments.extend(["-o", &archives]);
    arguments.extend(DOWNLOADED);
    if let Err(why) = made.map_err(|why| why.to_string()).and_then(|()| apt(&arguments)) {
        eprintln!(
            "{} cannot be downloaded ({why}); their tests are skipped",
            DOWNLOADED.join(", ")
        );
    }
}

/// Says what is missing and installs it.
pub(crate) fn install(purpose: Purpose) -> Result<(), String> {
    install_programs(purpose)?;
    if purpose == Purpose::Test {
        download();
    }
    wheels::install(purpose);
    Ok(())
}

/// Says which programs are missing and installs them, without the MPIs of the Python index, which take long.
pub(crate) fn install_programs(purpose: Purpose) -> Result<(), String> {
    let lists: &[&[&str]] = match purpose {
        Purpose::Test => &[TEST],
        Purpose::Demo => &[TEST, DEMO],
        Purpose::Conformance => &[TEST, DEMO, CONFORMANCE],
        Purpose::Guests => &[TEST, GUESTS],
    };
    let compilers = if purpose == Purpose::Conformance { flangs()? } else { Vec::new() };
    let all = lists.concat().into_iter().chain(compilers);
    let missing: Vec<&str> = all.filter(|package| !is_installed(package)).collect();
    if missing.is_empty() { Ok(()) } else { install_debian(&missing) }
}

fn install_debian(missing: &[&str]) -> Result<(), String> {
    let command = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    eprintln!("Debian packages are missing; running: {command}");
    apt(&["update", "-qq"])?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(missing);
    apt(&arguments).map_err(|why| format!("{why}; install by hand: sudo {command}"))?;
    for (package, daemon) in DAEMONS.iter().filter(|(package, _)| missing.contains(package)) {
        // Fails where there is no systemd, which would have started it.
        let outcome = as_root("systemctl", &["disable", "--now", daemon]).status();
        if !outcome.is_ok_and(|status| status.success()) {
            eprintln!("{package}: if its daemon runs here, end it: nothing needs it");
        }
    }
    Ok(())
}

fn is_installed(package: &str) -> bool {
    Command::new("dpkg-query")
        .args(["-W", "-f", "${Status}", package])
        .output()
        .is_ok_and(|out| out.stdout.ends_with(b"ok installed"))
}

/// A command of root's, through sudo where that is needed.
fn as_root(program: &str, arguments: &[&str]) -> Command {
    let uid = Command::new("id").arg("-u").output();
    let is_root = uid.is_ok_and(|id| id.stdout.starts_with(b"0\n"));
    let mut command = Command::new(if is_root { program } else { "sudo" });
    if !is_root {
        command.arg(program);
    }
    command.args(arguments).stdout(std::process::Stdio::null());
    command
}

/// Runs apt-get.
fn apt(arguments: &[&str]) -> Result<(), String> {
    let status = as_root("apt-get", arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .map_err(|why| format!("apt-get cannot be started: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("apt-get {} failed", arguments[0])) }
}
