//! Refuses libraries that are older than their sources.
//!
//! Cargo builds `wiglaf` for these tests, but not the libraries that it finds beside it at run time.
//! An old one would be tested in place of the sources; above all one of a debug build, which goes
//! before that of the release build.

use std::fs;
use std::path::{Path, PathBuf};

/// Fails with a sentence that says what to build if `wiglaf` would find an old library of that
/// package.
#[track_caller]
pub(crate) fn check(package: &str) {
    if std::env::var_os("WIGLAF_LIBDIR").is_some() {
        return; // whoever names libraries means these
    }
    let bin = Path::new(env!("CARGO_BIN_EXE_wiglaf")).parent().expect("it lies in a folder");
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if let Some(why) = stale(package, bin, &crates) {
        panic!("{why}");
    }
}

/// Why the library that `wiglaf` in the folder `bin` would find is not of the sources below `crates`;
/// `None`: it is, or is missing, which `wiglaf` itself complains about.
pub(crate) fn stale(package: &str, bin: &Path, crates: &Path) -> Option<String> {
    let file = format!("lib{}.so", package.replace('-', "_"));
    let folders = [bin.to_owned(), bin.with_file_name("release")];
    let library = folders.iter().map(|f| f.join(&file)).find(|path| path.is_file())?;
    // Some are built from another's sources.
    let others = package.strip_suffix("-mpi4").unwrap_or(package);
    let roots = [package, others].map(|name| crates.join(name).join("src/lib.rs"));
    let root = roots.iter().find(|root| root.is_file()).unwrap_or(&roots[0]);
    let why = not_of(&library, root)?;
    let is_release = library.parent().is_some_and(|folder| folder.ends_with("release"));
    let (profile, or) = match is_release {
        true => ("--release ", ""),
        false => ("", ", or remove it to test that of the release build"),
    };
    let shown = library.display();
    Some(format!("{shown} {why}; build it with `cargo build {profile}-p {package}`{or}"))
}

/// Why a library is not built from the sources that are there now, by the list that Cargo leaves
/// beside it.
fn not_of(library: &Path, root: &Path) -> Option<String> {
    let list = library.with_extension("d");
    let Ok(list) = fs::read_to_string(&list) else {
        return Some(format!("stands without the list of its sources, {}", list.display()));
    };
    let modified = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    let built = modified(library)?;
    let all: Vec<PathBuf> = sources(&list);
    let root = root.canonicalize().ok()?;
    if !all.iter().any(|source| source.canonicalize().is_ok_and(|path| path == root)) {
        return Some("was built from sources elsewhere".to_owned());
    }
    let newer = all.iter().find(|source| modified(source).is_none_or(|then| then > built))?;
    Some(format!("is older than {}", newer.display()))
}

/// The paths behind the colon of a rule of `make`.
fn sources(list: &str) -> Vec<PathBuf> {
    let behind = list.lines().next().and_then(|line| line.split_once(": ")).map_or("", |l| l.1);
    let escaped = behind.replace("\\ ", "\0");
    escaped.split_whitespace().map(|path| path.replace('\0', " ").into()).collect()
}
