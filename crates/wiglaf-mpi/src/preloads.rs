//! Libraries of ours that stand before a job's MPI, for any language.

use std::path::Path;

use wiglaf_base::error::Result;

use crate::Installation;
use crate::fortran::{Library, PRELOAD_VAR, Preload, before};
use crate::provider;

/// Switches the library of [`MULTICAST`] on.
const MULTICAST_VAR: &str = "WIGLAF_MULTICAST";

/// Such a library.
#[derive(Debug)]
struct Preloaded {
    library: Library,
    vars: &'static [(&'static str, &'static str)],
}

/// Counts and times a program's calls of MPI.
const PROFILER: Preloaded = Preloaded {
    library: Library {
        what: "profiler",
        names: ["libwiglaf-profile.so", "libwiglaf_profile.so"],
        package: "wiglaf-profile",
    },
    vars: &[],
};

/// It, for MPIs that have the functions of MPI 4.0, such as MPI_Send_c. A program that looks for those, as mpi4py does, finds
/// the library's, so it must have them only where the MPI does ([`crate::Installation::is_of_mpi4`]).
const MPI4_PROFILER: Preloaded = Preloaded {
    library: Library {
        what: "profiler of MPI 4",
        names: ["libwiglaf-profile-mpi4.so", "libwiglaf_profile_mpi4.so"],
        package: "wiglaf-profile-mpi4",
    },
    vars: &[],
};

/// Sends what collectives have to say to all hosts at once.
const MULTICAST: Preloaded = Preloaded {
    library: Library {
        what: "library of multicast collectives",
        names: ["libwiglaf-multicast.so", "libwiglaf_multicast.so"],
        package: "wiglaf-multicast",
    },
    vars: &[(MULTICAST_VAR, "on")],
};

/// Hands collectives with large counts of MPI 4.0 to that library, for MPIs that have them.
const MPI4_MULTICAST: Preloaded = Preloaded {
    library: Library {
        what: "library of multicast collectives of MPI 4",
        names: ["libwiglaf-multicast-mpi4.so", "libwiglaf_multicast_mpi4.so"],
        package: "wiglaf-multicast-mpi4",
    },
    vars: &[],
};

/// What a job under this MPI, or under none, is profiled by, before all that is preloaded anyway. `exe` is the running
/// `wiglaf`; `said` tells what the user has set of a variable.
///
/// # Errors
/// When the library is missing, or lies where it cannot be preloaded from.
pub fn profiler_here(
    mpi: Option<&Installation>,
    others: Option<Preload>,
    exe: &Path,
    said: impl Fn(&str) -> Option<String>,
) -> Result<Preload> {
    let profiler = match mpi.is_some_and(Installation::is_of_mpi4) {
        true => &MPI4_PROFILER,
        false => &PROFILER,
    };
    preload_here(profiler, others, exe, said)
}

/// What sends a job's collectives to all hosts at once: before all that is preloaded anyway. The arguments are those of
/// [`profiler_here`].
///
/// # Errors
/// As there.
pub fn multicast_here(
    mpi: &Installation,
    others: Option<Preload>,
    exe: &Path,
    said: impl Fn(&str) -> Option<String>,
) -> Result<Preload> {
    let groups = preload_here(&MULTICAST, others, exe, &said)?;
    match mpi.is_of_mpi4() {
        true => preload_here(&MPI4_MULTICAST, Some(groups), exe, said),
        false => Ok(groups),
    }
}

/// What ranks need to have that library, before all that is preloaded anyway.
fn preload_here(
    which: &Preloaded,
    others: Option<Preload>,
    exe: &Path,
    said: impl Fn(&str) -> Option<String>,
) -> Result<Preload> {
    let (path, folder) = which.library.find(&provider::folders(exe))?;
    let mut vars = others.map(|others| others.vars).unwrap_or_default();
    let listed = vars.iter().position(|(name, _)| name == PRELOAD_VAR).map(|at| vars.remove(at).1);
    let user = std::env::var(PRELOAD_VAR).ok();
    vars.push((PRELOAD_VAR.to_owned(), before(&path, listed.or(user).as_deref())));
    for (name, value) in which.vars {
        vars.push(((*name).to_owned(), said(name).unwrap_or_else(|| (*value).to_owned())));
    }
    Ok(Preload { vars, folder })
}
