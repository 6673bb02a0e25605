//! The library that counts and times a program's calls of MPI.

use std::path::Path;

use wiglaf_base::error::Result;

use crate::fortran::{Library, PRELOAD_VAR, Preload, before};
use crate::provider;

/// What ranks need to be profiled, before all that is preloaded anyway. `exe` is the running `wiglaf`.
///
/// # Errors
/// When the library is missing, or lies where it cannot be preloaded from.
pub fn preload_here(others: Option<Preload>, exe: &Path) -> Result<Preload> {
    let user = std::env::var(PRELOAD_VAR).ok();
    let library = Library {
        what: "profiler",
        names: ["libwiglaf-profile.so", "libwiglaf_profile.so"],
        package: "wiglaf-profile",
    };
    let (path, folder) = library.find(&provider::folders(exe))?;
    let mut vars = others.map(|others| others.vars).unwrap_or_default();
    let listed = vars.iter().position(|(name, _)| name == PRELOAD_VAR).map(|at| vars.remove(at).1);
    vars.push((PRELOAD_VAR.to_owned(), before(&path, listed.or(user).as_deref())));
    Ok(Preload { vars, folder })
}
