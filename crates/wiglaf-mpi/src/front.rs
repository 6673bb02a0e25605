//! Wiglaf's own libfabric, which stands before the one that an MPI loads.
//!
//! libfabric starts all of its providers before it asks one of them; Debian's takes 0.26 s for that in
//! every rank. The provider's file is a libfabric as well: under that name, in a folder of its own that
//! comes first in `LD_LIBRARY_PATH`, it answers for Wiglaf and hands all else over (ADR 0020).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::installation::contains;
use super::{Installation, Libfabric};
use crate::provider::Provider;

/// Tells the front which libfabric to hand over to.
pub(super) const BEHIND_VAR: &str = "WIGLAF_LIBFABRIC";
/// The first version of libfabric's interface that the front does not have (libfabric 1.20).
const TOO_NEW: &[u8] = b"FABRIC_1.7\0";
/// The version that it has and every libfabric of today.
const KNOWN: &[u8] = b"FABRIC_1.3\0";
/// Names of symbol versions stand near the beginning of a library, or at its end where its packager
/// has changed where it looks for others.
const LOOKED_AT_LEN_MAX: u64 = 64 << 20;

/// Which libfabric the ranks of a job load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LibfabricChoice {
    /// Wiglaf's own before the MPI's, where it can stand there.
    #[default]
    Auto,
    /// The MPI's alone.
    System,
}

/// What a job needs for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Front {
    /// The folder of Wiglaf's own.
    pub dir: PathBuf,
    /// The libfabric that it stands before.
    pub behind: PathBuf,
}

impl Front {
    /// The front for a job, where one is wanted and fits.
    #[must_use]
    pub fn choose(
        choice: LibfabricChoice,
        provider: &Provider,
        mpi: &Installation,
    ) -> Option<Self> {
        match choice {
            LibfabricChoice::Auto => Self::before(&mpi.libfabric(), provider).ok(),
            LibfabricChoice::System => None,
        }
    }

    /// The front before a libfabric.
    ///
    /// # Errors
    /// When there is none that fits: why, as the end of a sentence about the MPI.
    pub fn before(libfabric: &Libfabric, provider: &Provider) -> Result<Self, &'static str> {
        let Libfabric::Loads(behind) = libfabric else {
            return Err("its own is built in");
        };
        let dir = provider.front.clone().ok_or("Wiglaf's own is not installed")?;
        fits(behind)?;
        Ok(Self { dir, behind: behind.clone() })
    }

    /// The library itself.
    pub(super) fn library(&self) -> PathBuf {
        self.dir.join(crate::provider::LIBFABRIC)
    }
}

/// Whether all that a library offers is in the front, too: a program may ask for it.
fn fits(library: &Path) -> Result<(), &'static str> {
    let mut bytes = Vec::new();
    File::open(library)
        .and_then(|file| file.take(LOOKED_AT_LEN_MAX).read_to_end(&mut bytes))
        .map_err(|_| "it cannot be read")?;
    match (contains(&bytes, KNOWN), contains(&bytes, TOO_NEW)) {
        (true, false) => Ok(()),
        (true, true) => Err("its interface is newer than that of Wiglaf's own"),
        (false, _) => Err("it does not tell its interface"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(front: Option<&str>) -> Provider {
        Provider { dir: "/l".into(), shared: "/l".into(), front: front.map(PathBuf::from) }
    }

    #[test]
    fn it_stands_before_what_it_can_replace_only() {
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("libfabric.so.1");
        let loads = Libfabric::Loads(library.clone());
        let ours = provider(Some("/l/front"));
        for (symbols, fits) in [
            ("FABRIC_1.3\0FABRIC_1.6\0", true),
            ("FABRIC_1.3\0FABRIC_1.6\0FABRIC_1.7\0", false),
            ("nothing", false),
        ] {
            std::fs::write(&library, symbols).unwrap();
            assert_eq!(Front::before(&loads, &ours).is_ok(), fits, "{symbols:?}");
        }
        assert!(Front::before(&Libfabric::BuiltIn, &ours).is_err());
        std::fs::write(&library, "FABRIC_1.3\0").unwrap();
        assert!(Front::before(&loads, &provider(None)).is_err());
        assert_eq!(Front::before(&loads, &ours).unwrap().behind, library);
    }
}
