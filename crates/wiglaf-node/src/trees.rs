//! Copies of mounts, which clients hand over to nodes and inits attach.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{OpenTreeFlags, open_tree};
use wiglaf_base::error::{Context, Result};

/// A copy of a mount, not attached anywhere yet.
///
/// # Errors
/// When the kernel refuses.
pub fn clone_tree(path: &Path, recursive: bool) -> Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    open_tree(CWD, path, flags).cannot(|| format!("copy the mount of {}", path.display()))
}
