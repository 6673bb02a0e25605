//! What all measuring commands share: a cluster for the time of a measurement, interrupts, progress.

pub(crate) mod interrupt;
pub(crate) mod nodes;

use std::path::{Path, PathBuf};

use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result};
use wiglaf_bench::BenchError;

/// What is being done, on standard error; not what an interrupt cuts short.
pub(crate) fn progress(line: &str) {
    if !interrupt::is_wanted() {
        eprintln!("wiglaf: {line}");
    }
}

/// An error of a measurement as one of this command.
pub(crate) fn plain(error: BenchError) -> Error {
    match error {
        BenchError::ProgramMissing { .. } => Error::not_found(error.to_string()),
        other => Error::new(other.to_string()),
    }
}

/// Makes a folder and those above it.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).cannot(|| format!("make the folder {}", folder.display()))
}

/// The folder for measuring programs and their input: in the user's home,
/// which all nodes share, or else beside the results.
pub(crate) fn work_folder(output: &Path) -> Result<PathBuf> {
    let cache = wiglaf_base::paths::user_cache();
    let folder = cache.map_or_else(|| output.join("cache"), |cache| cache.join("wiglaf/bench"));
    make_folder(&folder)?;
    // Nodes need the path that it has everywhere.
    folder.canonicalize().cannot(|| format!("find the folder {}", folder.display()))
}
