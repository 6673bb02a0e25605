//! Copies within this node, where the calls are plain system calls.

use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
fn as_nobody<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    let thread = || {
        if rustix::process::geteuid().is_root() {
            // Of this thread alone.
            let nobody = rustix::thread::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        call()
    };
    std::thread::scope(|scope| scope.spawn(thread).join().unwrap())
}

#[test]
fn an_interrupted_copy_of_a_file_that_none_may_write_goes_on() {
    let (dir, source) = folder(0o444);
    let target = dir.path().join("b");
    let copied = as_nobody(|| {
        let interrupted = catch_unwind(AssertUnwindSafe(|| {
            copy(&side(&source), &side(&target), true, &mut |_, done, _| {
                // It needs no message.
                if done > 0 {
                    std::panic::resume_unwind(Box::new("interrupted"));
                }
            })
        }));
        assert!(interrupted.is_err());
        to(&source, &target)
    });
    let copied = copied.unwrap();
    assert!(copied.resumed > 0, "{copied:?}");
    let mode = std::fs::metadata(&target).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o444 & !crate::setup::umask());
    assert_eq!(std::fs::read(&target).unwrap(), vec![7; 3 << 20]);
}

#[test]
fn what_cannot_be_gone_on_with_is_made_anew_or_named() {
    let (dir, source) = folder(0o444);
    let target = dir.path().join("b");
    let part = part_of(target.as_os_str());
    let copied = as_nobody(|| {
        std::fs::write(&part, "old").unwrap();
        std::fs::set_permissions(&part, PermissionsExt::from_mode(0o444)).unwrap();
        to(&source, &target)
    });
    assert_eq!(copied.unwrap().resumed, 0);
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root has files that it may read and others not");
        return;
    }
    std::fs::write(&part, "another user's").unwrap();
    let error = as_nobody(|| to(&source, &target)).unwrap_err();
    let named = format!("{} is another user's; remove it", part.display());
    assert!(error.errno() == libc::EACCES && error.to_string().ends_with(&named), "{error}");
    assert_eq!(std::fs::read(&part).unwrap(), b"another user's");
}
