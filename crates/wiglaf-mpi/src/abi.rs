//! MPICH's library under the names that programs know it by.
//!
//! MPICH, Intel MPI and others share one binary interface. Debian calls its
//! library `libmpich.so.12`, everybody else `libmpi.so.12`, and the Fortran
//! libraries differ likewise. A folder of links, first in `LD_LIBRARY_PATH`,
//! lets a program run on another installation than it was built with: Debian's
//! own MPICH is built on UCX and never loads libfabric.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::paths::NAMES_DIR;

use super::{Family, Installation, Origin};
use crate::provider::point;

/// What the C library is called.
const C: [&str; 2] = ["libmpi.so.12", "libmpich.so.12"];
/// What the Fortran library is called.
const FORTRAN: [&str; 2] = ["libmpifort.so.12", "libmpichfort.so.12"];

/// What Open MPI's C library is called, in versions 4 and 5.
const OPEN_MPI: &str = "libmpi.so.40";
/// Names of needed libraries stand near the beginning of a program.
const LOOKED_AT_LEN_MAX: u64 = 16 << 20;

/// Refuses a program that needs the library of the other family: each of its
/// ranks would be alone, "rank 0 of 1". What is no ELF file, or names the
/// libraries of both or neither, is let through.
///
/// # Errors
/// When it cannot be meant; the sentence names the family.
pub fn check(program: &Path, mpi: &Installation) -> Result<()> {
    let Some(bytes) = beginning(program) else { return Ok(()) };
    let built_with = match (names_any(&bytes, &[OPEN_MPI]), names_any(&bytes, &C)) {
        (true, false) => Family::OpenMpi,
        (false, true) => Family::Mpich,
        _ => return Ok(()),
    };
    if (built_with == Family::OpenMpi) == (mpi.family == Family::OpenMpi) {
        return Ok(());
    }
    Err(Error::new(format!(
        "`{}` was built with {built_with}, and {} would run each of its ranks alone; take `--mpi {}`",
        program.display(),
        mpi.family,
        built_with.name()
    )))
}

/// Whether a program is linked with an MPI's library of either kind: a script, or a program that loads MPI
/// later, is not.
#[must_use]
pub fn is_linked(program: &Path) -> bool {
    beginning(program).is_some_and(|bytes| names_any(&bytes, &[OPEN_MPI, C[0], C[1]]))
}

/// The beginning of an ELF file; of anything else nothing.
fn beginning(program: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(program).ok()?;
    file.take(LOOKED_AT_LEN_MAX).read_to_end(&mut bytes).ok()?;
    bytes.starts_with(b"\x7fELF").then_some(bytes)
}

/// Whether one of these is a string of its own among the bytes.
fn names_any(bytes: &[u8], names: &[&str]) -> bool {
    let is_here = |rest: &[u8]| {
        names
            .iter()
            .any(|name| rest.strip_prefix(name.as_bytes()).is_some_and(|r| r.first() == Some(&0)))
    };
    bytes.iter().enumerate().any(|(at, byte)| *byte == 0 && is_here(&bytes[at + 1..]))
}

impl Installation {
    /// Makes the names that programs know its libraries by, as far as they are missing, in the first of `bases`
    /// that can be written to; answers the folder of links, if it needs one.
    ///
    /// # Errors
    /// When none can be written to.
    pub fn make_names(&self, bases: &[PathBuf]) -> Result<Option<PathBuf>> {
        let needs =
            self.family != Family::OpenMpi && self.origin == Origin::Prefix && !bases.is_empty();
        needs.then(|| names(self, bases)).transpose()
    }
}

/// What `LD_LIBRARY_PATH` must begin with for a program to take this MPI. Links
/// are made in the first of `bases` that can be written to.
pub(super) fn library_dirs(mpi: &Installation, bases: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let names = mpi.make_names(bases)?;
    Ok(names.into_iter().chain(mpi.library_dirs.iter().cloned()).collect())
}

/// The folder of links for an installation.
fn names(mpi: &Installation, bases: &[PathBuf]) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    mpi.library.hash(&mut hasher);
    let name = format!("{}-{}-{:08x}", mpi.family.name(), mpi.version, hasher.finish() as u32);
    let mut last = Error::new("there is no folder to make library names in; set HOME");
    for base in bases {
        match link(mpi, &base.join(NAMES_DIR).join(&name)) {
            Ok(dir) => return Ok(dir),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn link(mpi: &Installation, dir: &Path) -> Result<PathBuf> {
    fs::create_dir_all(dir).cannot(|| format!("make the folder {}", dir.display()))?;
    for name in C {
        point(&dir.join(name), &mpi.library)?;
    }
    if let Some(library) = fortran(mpi) {
        for name in FORTRAN {
            point(&dir.join(name), &library)?;
        }
    }
    Ok(dir.to_path_buf())
}

/// The installation's own Fortran library; or the system's, which calls the C
/// library by the interface that all share. Wheels have none.
fn fortran(mpi: &Installation) -> Option<PathBuf> {
    let own = mpi.library.parent().map(|dir| FORTRAN.map(|name| dir.join(name)));
    let own = own.into_iter().flatten().find(|path| path.is_file());
    own.or_else(|| {
        let libraries = crate::ld::libraries();
        FORTRAN.iter().find_map(|name| libraries.get(*name)).map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wrappers;

    fn mpich(root: &Path) -> Installation {
        let lib = root.join("lib");
        fs::create_dir_all(&lib).unwrap();
        fs::write(lib.join("libmpi.so.12"), "c").unwrap();
        Installation {
            family: Family::Mpich,
            version: "5.0.2".to_owned(),
            origin: Origin::Prefix,
            prefix: root.to_path_buf(),
            launcher: root.join("bin/mpiexec"),
            library: lib.join("libmpi.so.12"),
            library_dirs: vec![lib],
            wrappers: Wrappers::default(),
        }
    }

    #[test]
    fn both_names_lead_to_the_same_library() {
        let dir = tempfile::tempdir().unwrap();
        let mpi = mpich(dir.path());
        // The first base cannot be written to.
        let bases = [PathBuf::from("/proc/none"), dir.path().join("cache")];
        for _ in 0..2 {
            let dirs = library_dirs(&mpi, &bases).unwrap();
            assert!(dirs[0].starts_with(&bases[1]) && dirs[1..] == mpi.library_dirs);
            for name in C {
                assert_eq!(fs::read_to_string(dirs[0].join(name)).unwrap(), "c", "{name}");
            }
        }
        assert!(library_dirs(&mpi, &bases[..1]).is_err());
    }

    #[test]
    fn an_own_fortran_library_gets_both_names() {
        let dir = tempfile::tempdir().unwrap();
        let mpi = mpich(dir.path());
        fs::write(dir.path().join("lib/libmpifort.so.12"), "fortran").unwrap();
        let dirs = library_dirs(&mpi, &[dir.path().join("cache")]).unwrap();
        for name in FORTRAN {
            assert_eq!(fs::read_to_string(dirs[0].join(name)).unwrap(), "fortran", "{name}");
        }
    }

    #[test]
    fn open_mpi_has_one_name_only() {
        let dir = tempfile::tempdir().unwrap();
        let mpi = Installation { family: Family::OpenMpi, ..mpich(dir.path()) };
        assert_eq!(library_dirs(&mpi, &[dir.path().into()]).unwrap(), mpi.library_dirs);
    }
}
