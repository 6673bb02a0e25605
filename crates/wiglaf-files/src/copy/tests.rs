//! Copies within this node, where the calls are plain system calls.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;
use crate::node::Files;

fn side(path: &Path) -> Place {
    let node = Files::new().attach("localhost").unwrap();
    assert!(node.is_local());
    Place { node, path: path.into() }
}

fn to(from: &Path, to: &Path) -> Result<Copied> {
    copy(&side(from), &side(to), true, &mut |_, _, _| {})
}

/// A folder that is everybody's, with a file of 3 MiB in it.
fn folder(mode: u32) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let source = dir.path().join("a");
    std::fs::write(&source, vec![7; 3 << 20]).unwrap();
    std::fs::set_permissions(&source, PermissionsExt::from_mode(mode)).unwrap();
    (dir, source)
}

#[test]
fn what_is_no_file_is_neither_read_nor_replaced() {
    let (dir, source) = folder(0o644);
    let pipe = dir.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    // Nobody writes to the pipe: opening it would wait.
    for (from, to_) in [(&source, &pipe), (&pipe, &dir.path().join("b"))] {
        assert_eq!(to(from, to_).unwrap_err().errno(), libc::EACCES);
    }
    let null = Path::new("/dev/null");
    let is_device = || std::fs::metadata(null).unwrap().rdev() == rustix::fs::makedev(1, 3);
    use std::os::unix::fs::MetadataExt;
    assert!(is_device());
    assert_eq!(to(null, &dir.path().join("b")).unwrap_err().errno(), libc::EACCES);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

/// As another user than root, for whom a file's mode counts.