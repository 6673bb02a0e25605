//! Where the libfabric provider is.
//!
//! libfabric loads files whose name ends in `-fi.so`, and Cargo cannot emit a
//! hyphen; so a build tree gets a link of the right name beside the library,
//! and another under the name of libfabric itself, as which it serves, too.

use std::fs;
use std::path::{Path, PathBuf};

use wiglaf_base::error::{Context, Error, Result};
pub use wiglaf_base::paths::LIBDIR_VAR;

/// Name that libfabric wants.
const INSTALLED: &str = "libwiglaf-fi.so";
/// Name that Cargo gives.
const BUILT: &str = "libwiglaf_fabric.so";
/// Folder of the link in a build tree.
const LINK_DIR: &str = "wiglaf-provider";
/// Folder of the library under libfabric's own name, below that of the provider.
pub(crate) const FRONT_DIR: &str = "wiglaf-libfabric";
/// The name that everybody links.
pub(crate) const LIBFABRIC: &str = "libfabric.so.1";

/// A provider that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// For `FI_PROVIDER_PATH`.
    pub dir: PathBuf,
    /// What nodes must see for it to load.
    pub shared: PathBuf,
    /// The folder where it has libfabric's own name, if it is one
    /// ([`crate::Front`]).
    pub front: Option<PathBuf>,
}

impl Provider {
    fn new(dir: PathBuf, shared: PathBuf) -> Self {
        let front = dir.join(FRONT_DIR);
        let front = front.join(LIBFABRIC).is_file().then_some(front);
        Self { dir, shared, front }
    }
}

/// A path of folders of providers without those that hold a Wiglaf: two of one name get in each other's
/// way.
pub(crate) fn without_ours(path: &str) -> String {
    let is_ours = |dir: &str| Path::new(dir).join(INSTALLED).exists();
    path.split(':').filter(|dir| !is_ours(dir)).collect::<Vec<_>>().join(":")
}

/// Finds the provider that belongs to the executable `exe`.
///
/// # Errors
/// When there is none.
pub fn find(exe: &Path) -> Result<Provider> {
    find_in(&folders(exe))
}

/// The folders where the libraries that belong to the executable `exe` may be.
pub(crate) fn folders(exe: &Path) -> Vec<PathBuf> {
    let wanted = std::env::var_os(LIBDIR_VAR).filter(|v| !v.is_empty()).map(PathBuf::from);
    candidates(wanted.as_deref(), exe)
}

fn candidates(wanted: Option<&Path>, exe: &Path) -> Vec<PathBuf> {
    if let Some(dir) = wanted {
        // On nodes it may be the folder of links in a build tree.
        let build = dir.ends_with(LINK_DIR).then(|| dir.parent()).flatten();
        return [dir].into_iter().chain(build).map(Path::to_path_buf).collect();
    }
    let Some(bin) = exe.parent() else { return Vec::new() };
    // Installed; built; tests and debug builds beside a release build.
    ["../lib/wiglaf", ".", "../release", "../../release"].iter().map(|dir| bin.join(dir)).collect()
}

fn find_in(dirs: &[PathBuf]) -> Result<Provider> {
    for dir in dirs {
        let Ok(dir) = dir.canonicalize() else { continue };
        if dir.join(INSTALLED).is_file() {
            return Ok(Provider::new(dir.clone(), dir));
        }
        if dir.join(BUILT).is_file() {
            return Ok(Provider::new(link(&dir)?, dir));
        }
    }
    Err(missing("libfabric provider", INSTALLED, "wiglaf-fabric", dirs))
}

/// The folder of the C library of remote files that belongs to the executable
/// `exe`.
///
/// # Errors
/// When there is none.
pub fn files_library(exe: &Path) -> Result<PathBuf> {
    const FILE: &str = "libwiglaf_files.so";
    let mut dirs = folders(exe);
    // Installed; built as a part of something else.
    let besides: Vec<PathBuf> = dirs.iter().flat_map(|d| [d.join(".."), d.join("deps")]).collect();
    dirs.extend(besides);
    let found =
        dirs.iter().find(|dir| dir.join(FILE).is_file()).and_then(|d| d.canonicalize().ok());
    found.ok_or_else(|| missing("library of remote files", FILE, "wiglaf-files", &folders(exe)))
}

/// The sentence for a library of ours that is in none of the folders.
pub(crate) fn missing(what: &str, file: &str, package: &str, dirs: &[PathBuf]) -> Error {
    let looked: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
    Error::new(format!(
        "the {what} {file} is not in {}; build it with `cargo build --release -p {package}`, or name \
         its folder in {LIBDIR_VAR}",
        looked.join(", ")
    ))
}

/// Gives the library in `dir` its names.
fn link(dir: &Path) -> Result<PathBuf> {
    let links = dir.join(LINK_DIR);
    fs::create_dir_all(&links).cannot(|| format!("make the folder {}", links.display()))?;
    point(&links.join(INSTALLED), &Path::new("..").join(BUILT))?;
    // Only there it is a libfabric.
    if cfg!(target_arch = "x86_64") {
        let front = links.join(FRONT_DIR);
        fs::create_dir_all(&front).cannot(|| format!("make the folder {}", front.display()))?;
        point(&front.join(LIBFABRIC), &Path::new("../..").join(BUILT))?;
    }
    Ok(links)
}

/// Makes the link `name` point to `target`, whoever else does so at the same time.
pub(crate) fn point(name: &Path, target: &Path) -> Result<()> {
    if fs::read_link(name).is_ok_and(|now| now == target) {
        return Ok(());
    }
    let shown = || format!("make the link {}", name.display());
    let new = name.with_added_extension(std::process::id().to_string());
    let _ = fs::remove_file(&new);
    std::os::unix::fs::symlink(target, &new).cannot(shown)?;
    fs::rename(&new, name).cannot(shown)
}

/// A library path without the folder of libfabric's own name, which whoever has called `wiglaf env` has in theirs: it is no
/// libfabric to stand before, and other transports must not meet it.
pub(crate) fn without_front(path: &str) -> String {
    let is_front = |dir: &str| Path::new(dir).ends_with(FRONT_DIR);
    path.split(':').filter(|dir| !is_front(dir)).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_library_is_linked_under_the_right_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("debug/deps")).unwrap();
        fs::create_dir_all(root.join("release")).unwrap();
        fs::write(root.join("release").join(BUILT), "code").unwrap();
        for exe in ["debug/wiglaf", "debug/deps/test", "release/wiglaf"] {
            let provider = find_in(&candidates(None, &root.join(exe))).unwrap();
            assert_eq!(provider.shared, root.join("release"), "{exe}");
            assert_eq!(fs::read_to_string(provider.dir.join(INSTALLED)).unwrap(), "code");
            let front = provider.front.map(|dir| fs::read_to_string(dir.join(LIBFABRIC)).unwrap());
            assert_eq!(front, cfg!(target_arch = "x86_64").then(|| "code".to_owned()));
        }
    }

    #[test]
    fn a_missing_library_is_one_sentence() {
        let error = find_in(&candidates(Some(Path::new("/no/such")), Path::new("/x"))).unwrap_err();
        assert!(error.to_string().contains("libwiglaf-fi.so is not in /no/such"), "{error}");
    }

    #[test]
    fn a_path_is_cleaned_of_it() {
        assert_eq!(without_front("/a:/x/wiglaf-libfabric:/b"), "/a:/b");
        assert_eq!(without_front("/x/wiglaf-libfabric"), "");
        assert_eq!(without_front("/a"), "/a");
    }
}
