//! The initrd for a start from the network: that of the node, and behind it our installer with the libraries that it
//! takes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use wiglaf_base::error::{Context, Error, Result};

use crate::cpio::Archive;
use crate::outside::run;
use crate::root::chroot;

/// The installer, in the tree.
const PROGRAM: &str = "usr/local/bin/wiglaf";
/// What the initrd's init reads for `boot=wiglaf`.
const SCRIPT: &str = include_str!("../share/install.sh");

/// Appends the installer of the tree at `root` to the initrd.
pub(crate) fn append_installer(root: &Path, initrd: &Path) -> Result<()> {
    let cannot = || format!("write {}", initrd.display());
    let read =
        |path: &str| fs::read(root.join(path)).cannot(|| format!("read {path} of the image"));
    let len = fs::metadata(initrd).cannot(cannot)?.len();
    let file = File::options().append(true).open(initrd).cannot(cannot)?;
    let mut archive = Archive::behind(file, len).cannot(cannot)?;
    let mut folders = Vec::new();
    let mut add = |path: &str, mode: u32, content: &[u8]| -> std::io::Result<()> {
        for folder in folders_of(path) {
            if !folders.contains(&folder) {
                archive.folder(&folder)?;
                folders.push(folder);
            }
        }
        archive.file(path, mode, content)
    };
    add("scripts/wiglaf", 0o644, SCRIPT.as_bytes()).cannot(cannot)?;
    add(PROGRAM, 0o755, &read(PROGRAM)?).cannot(cannot)?;
    for library in libraries(root)? {
        add(&library, 0o755, &read(&library)?).cannot(cannot)?;
    }
    archive.end().cannot(cannot)
}

/// The folders above a path, outer ones first.
fn folders_of(path: &str) -> Vec<String> {
    let ends = path.match_indices('/').map(|(at, _)| at);
    ends.map(|at| path[..at].to_owned()).collect()
}

/// The shared libraries of the installer, where they are without links.
fn libraries(root: &Path) -> Result<Vec<String>> {
    let said = run(chroot(root, "ldd").arg(Path::new("/").join(PROGRAM)), "")?;
    let paths =
        said.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    let base = root.canonicalize().cannot(|| "find the image's tree".to_owned())?;
    let real = |path: &str| -> Result<String> {
        let name = Path::new(path).file_name().unwrap_or_default();
        let folder = Path::new(path).parent().unwrap_or(Path::new("/"));
        // The folder's links are followed; the library keeps the name that it is looked for by.
        let folder: PathBuf = base.join(folder.strip_prefix("/").unwrap_or(folder));
        let folder = folder.canonicalize().cannot(|| format!("find {path}"))?;
        let inside = folder
            .strip_prefix(&base)
            .map_err(|_| Error::new(format!("{path} is outside the image")))?;
        Ok(inside.join(name).to_string_lossy().into_owned())
    };
    paths.map(real).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_what_is_in_them() {
        assert_eq!(folders_of("usr/local/bin/wiglaf"), ["usr", "usr/local", "usr/local/bin"]);
        assert!(folders_of("init").is_empty());
    }

    #[test]
    fn installer_is_read_by_a_shell() {
        let checked = std::process::Command::new("sh").args(["-n", "-c", SCRIPT]).status().unwrap();
        assert!(checked.success());
    }
}
