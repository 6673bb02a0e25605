//! What a Fortran program stores for .TRUE., and the interposer for those that
//! do not store what MPI does.
//!
//! MPI libraries are built by a compiler that stores 1, and write 1 into the
//! results of logical reductions. `libwiglaf-logical.so`, preloaded into every
//! rank, makes that -1 for programs of compilers that store -1.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use wiglaf_base::error::{Error, Result};

use crate::provider;

/// Tells the dynamic linker what to load before all else.
pub const PRELOAD_VAR: &str = "LD_PRELOAD";
/// Tells the interposer what the program stores.
pub const TRUE_VAR: &str = "WIGLAF_FORTRAN_TRUE";
/// The interposer as it is installed, and as Cargo names it.
const INTERPOSER: [&str; 2] = ["libwiglaf-logical.so", "libwiglaf_logical.so"];

/// What the program's compiler stores for .TRUE..
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FortranTrue {
    /// 1, as MPI's own compiler does.
    #[default]
    One,
    /// -1: all bits are set.
    MinusOne,
}

impl FromStr for FortranTrue {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "1" => Ok(Self::One),
            "-1" => Ok(Self::MinusOne),
            _ => Err(Error::new("a compiler stores 1 or -1 for .TRUE.")),
        }
    }
}

/// A job's preloading: what to set, and what nodes must see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preload {
    /// For every rank.
    pub vars: Vec<(String, String)>,
    /// The interposer's folder.
    pub folder: PathBuf,
}

/// What every rank needs for such a program, before what the caller preloads;
/// nothing where MPI is right as it is. `exe` is the running `wiglaf`.
///
/// # Errors
/// When the interposer is missing, or lies where it cannot be preloaded from.
pub fn preload_here(value: FortranTrue, exe: &Path) -> Result<Option<Preload>> {
    preload(value, exe, std::env::var(PRELOAD_VAR).ok().as_deref())
}

fn preload(value: FortranTrue, exe: &Path, user: Option<&str>) -> Result<Option<Preload>> {
    match value {
        FortranTrue::One => Ok(None),
        FortranTrue::MinusOne => preload_from(&provider::folders(exe), user).map(Some),
    }
}

/// The folder of the interposer.
///
/// # Errors
/// When it is missing, or lies where it cannot be preloaded from.
pub fn interposer(exe: &Path) -> Result<PathBuf> {
    preload_from(&provider::folders(exe), None).map(|preload| preload.folder)
}

fn preload_from(dirs: &[PathBuf], user: Option<&str>) -> Result<Preload> {
    let library = Library { what: "interposer", names: INTERPOSER, package: "wiglaf-logical" };
    let (path, folder) = library.find(dirs)?;
    let vars = [(PRELOAD_VAR, before(&path, user)), (TRUE_VAR, "-1".to_owned())];
    Ok(Preload { vars: vars.map(|(name, value)| (name.to_owned(), value)).into(), folder })
}

/// A library of ours that is preloaded.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) what: &'static str,
    /// As it is installed, and as Cargo names it.
    pub(crate) names: [&'static str; 2],
    pub(crate) package: &'static str,
}

impl Library {
    /// Its path and folder.
    pub(crate) fn find(&self, dirs: &[PathBuf]) -> Result<(String, PathBuf)> {
        let paths = dirs.iter().flat_map(|dir| self.names.iter().map(|name| dir.join(name)));
        let found = paths.filter_map(|path| path.canonicalize().ok()).find(|path| path.is_file());
        let missing = || provider::missing(self.what, self.names[0], self.package, dirs);
        let path = found.ok_or_else(missing)?;
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        // The dynamic linker knows no way to quote them.
        let text = path.to_str().filter(|path| !path.contains([' ', ':'])).ok_or_else(|| {
            Error::new(format!(
                "{} cannot be preloaded: its path has a blank, a colon or a byte that is no UTF-8; install \
                 it elsewhere",
                path.display()
            ))
        })?;
        Ok((text.to_owned(), folder))
    }
}

/// A list of libraries to preload that begins with that one.
pub(crate) fn before(path: &str, others: Option<&str>) -> String {
    let others = others.filter(|list| !list.is_empty()).map(|list| format!(":{list}"));
    format!("{path}{}", others.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn values_are_those_of_compilers() {
        assert_eq!("1".parse::<FortranTrue>().unwrap(), FortranTrue::One);
        assert_eq!("-1".parse::<FortranTrue>().unwrap(), FortranTrue::MinusOne);
        for text in ["", "0", "2", "true", "+1", " -1"] {
            assert!(text.parse::<FortranTrue>().is_err(), "{text}");
        }
    }

    #[test]
    fn one_needs_nothing() {
        assert_eq!(preload(FortranTrue::One, Path::new("/no/such"), None).unwrap(), None);
    }

    #[test]
    fn the_interposer_goes_before_what_the_user_preloads() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in INTERPOSER {
            let path = root.join(name);
            fs::write(&path, "code").unwrap();
            let preload = preload_from(std::slice::from_ref(&root), Some("/mine.so")).unwrap();
            assert_eq!(preload.folder, root);
            assert_eq!(preload.vars[0].1, format!("{}:/mine.so", path.display()));
            assert_eq!(preload.vars[1], (TRUE_VAR.to_owned(), "-1".to_owned()));
            fs::remove_file(path).unwrap();
        }
        let error = preload_from(&[root], None).unwrap_err().to_string();
        assert!(error.contains("-p wiglaf-logical"), "{error}");
    }

    #[test]
    fn a_path_that_cannot_be_written_is_refused() {
        let dir = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
        fs::write(dir.path().join(INTERPOSER[0]), "code").unwrap();
        let error = preload_from(&[dir.path().to_path_buf()], None).unwrap_err().to_string();
        assert!(error.contains("cannot be preloaded"), "{error}");
    }
}
