//! Which compilers are on this machine.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use super::child;

/// How long a compiler may take to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// What a compiler compiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// C.
    C,
    /// Fortran.
    Fortran,
}

/// The compilers that the probes were written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Gfortran,
    Flang,
    Gcc,
    Clang,
}

/// Kind, the names of its commands, and the package that brings it.
const KINDS: [(Kind, &[&str], &str); 4] = [
    (Kind::Gfortran, &["gfortran"], "gfortran"),
    (Kind::Flang, &["flang", "flang-new"], "flang-19"),
    (Kind::Gcc, &["gcc"], "gcc"),
    (Kind::Clang, &["clang"], "clang"),
];

/// A compiler that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    pub(super) kind: Kind,
    /// As it says, such as `12.2.0`.
    pub version: String,
    /// What to call.
    pub path: PathBuf,
}

impl Kind {
    fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, names, _)| names[0])
    }
}

impl Compiler {
    /// Name and version.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} {}", self.kind.name(), self.version)
    }

    /// What it compiles.
    #[must_use]
    pub fn language(&self) -> Language {
        match self.kind {
            Kind::Gfortran | Kind::Flang => Language::Fortran,
            Kind::Gcc | Kind::Clang => Language::C,
        }
    }

    /// What every probe needs.
    pub(super) fn flags(&self) -> &'static [&'static str] {
        match self.kind {
            // mpif.h has no interfaces; without this it compares calls with each other.
            Kind::Gfortran => &["-w", "-fallow-argument-mismatch"],
            Kind::Flang | Kind::Clang | Kind::Gcc => &["-w"],
        }
    }

    /// Where it has its own libraries, if the linker must be told so. Debian's
    /// flang-16 does not say so itself.
    #[must_use]
    pub fn own_libraries(&self) -> Option<PathBuf> {
        let home = self.path.canonicalize().ok()?;
        let dir = home.parent()?.parent()?.join("lib");
        let has = self.kind == Kind::Flang && dir.join("libFortranRuntime.a").is_file();
        has.then_some(dir)
    }
}

/// Every compiler in the `PATH`, each once however many names it has.
#[must_use]
pub fn all() -> Vec<Compiler> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut homes: BTreeMap<PathBuf, Compiler> = BTreeMap::new();
    for dir in std::env::split_paths(&path) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(kind) = name.to_str().and_then(kind_of) else { continue };
            let Ok(home) = entry.path().canonicalize() else { continue };
            if let Entry::Vacant(place) = homes.entry(home)
                && let Some(version) = version(&entry.path())
            {
                place.insert(Compiler { kind, version, path: entry.path() });
            }
        }
    }
    let mut found: Vec<Compiler> = homes.into_values().collect();
    found.sort_by_key(|c| (c.kind, wiglaf_mpi::numbers(&c.version)));
    found
}

/// Kinds of which there is none: name and the command that installs one.
pub(super) fn absent(found: &[Compiler]) -> Vec<(&'static str, String)> {
    let missing = KINDS.iter().filter(|(kind, ..)| found.iter().all(|c| c.kind != *kind));
    missing.map(|(_, names, package)| (names[0], format!("apt-get install {package}"))).collect()
}

/// The kind that a command's name stands for: `gcc`, or `gcc-12`.
fn kind_of(file: &str) -> Option<Kind> {
    let plain = match file.rsplit_once('-') {
        Some((plain, number)) if number.parse::<u32>().is_ok() => plain,
        _ => file,
    };
    KINDS.iter().find(|(_, names, _)| names.contains(&plain)).map(|(kind, ..)| *kind)
}

/// What a compiler says of itself.
fn version(compiler: &Path) -> Option<String> {
    let said = child::run(Command::new(compiler).arg("--version"), VERSION_LIMIT);
    said.succeeded.then(|| parse_version(&said.text)).flatten()
}

/// `GNU Fortran (Debian 12.2.0-14) 12.2.0`, `Debian clang version 14.0.6`.
fn parse_version(text: &str) -> Option<String> {
    let line = text.lines().next()?;
    let word = match line.split_once(" version ") {
        Some((_, rest)) => rest.split_whitespace().next()?,
        None => line.split_whitespace().last()?,
    };
    word.starts_with(|c: char| c.is_ascii_digit()).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_known_by_their_names() {
        let names = ["gfortran", "gfortran-12", "flang-new-16", "flang-22", "gcc-12", "clang"];
        let kinds = names.map(|name| kind_of(name).unwrap());
        use Kind::*;
        assert_eq!(kinds, [Gfortran, Gfortran, Flang, Flang, Gcc, Clang]);
        for other in ["gcc-ar", "clang-cpp-14", "flang-to-external-fc-16", "c99-gcc", "x-gcc-12"] {
            assert_eq!(kind_of(other), None, "{other}");
        }
    }

    #[test]
    fn versions_are_read() {
        for (text, version) in [
            ("GNU Fortran (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright", Some("12.2.0")),
            ("Debian flang-new version 16.0.6 (15~deb12u1)\n", Some("16.0.6")),
            ("Debian clang version 14.0.6", Some("14.0.6")),
            ("usage: something", None),
            ("", None),
        ] {
            assert_eq!(parse_version(text).as_deref(), version, "{text}");
        }
    }

    #[test]
    fn a_compiler_with_two_names_is_found_once() {
        let found = all();
        if found.is_empty() {
            eprintln!("skipped: no Fortran compiler is installed");
        }
        for (i, a) in found.iter().enumerate() {
            let home = a.path.canonicalize().unwrap();
            assert!(found[..i].iter().all(|b| b.path.canonicalize().unwrap() != home));
        }
    }
}
