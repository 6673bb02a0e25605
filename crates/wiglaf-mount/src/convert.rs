//! Values of `wiglaf-files` as FUSE has them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};
use wiglaf_files::{Attributes, NewTime};

pub(crate) fn errno(error: &wiglaf_files::Error) -> Errno {
    Errno::from_i32(error.errno())
}

/// The type in a mode, as `st_mode` has it.
pub(crate) fn kind(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// The number that stat(2) shall show. All of a mount is one device, on which no number may come twice:
/// that of a file on another file system than the mount's root is drawn by both its numbers.
pub(crate) fn shown_ino(root_dev: u64, dev: u64, ino: u64) -> u64 {
    if dev == root_dev {
        return ino;
    }
    let mut hasher = DefaultHasher::new();
    (dev, ino).hash(&mut hasher);
    hasher.finish()
}

/// What stat(2) shall show; the number is that of the file's own node.
pub(crate) fn attr(found: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(found.ino),
        size: found.size,
        blocks: found.blocks,
        atime: time(found.accessed),
        mtime: time(found.modified),
        ctime: time(found.changed),
        crtime: UNIX_EPOCH,
        kind: kind(found.mode),
        perm: (found.mode & 0o7777) as u16,
        nlink: found.links,
        uid: found.uid,
        gid: found.gid,
        // The kernel has the lower half of what the C library makes of it.
        rdev: found.rdev as u32,
        blksize: found.block_len,
        flags: 0,
    }
}

fn time((seconds, nanos): (i64, u32)) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = match seconds {
        0.. => UNIX_EPOCH.checked_add(whole),
        _ => UNIX_EPOCH.checked_sub(whole),
    };
    base.and_then(|base| base.checked_add(Duration::from_nanos(nanos.into()))).unwrap_or(UNIX_EPOCH)
}

pub(crate) fn new_time(time: TimeOrNow) -> NewTime {
    let TimeOrNow::SpecificTime(time) = time else { return NewTime::Now };
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => NewTime::At(since.as_secs() as i64, since.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            match before.subsec_nanos() {
                0 => NewTime::At(-(before.as_secs() as i64), 0),
                nanos => NewTime::At(-(before.as_secs() as i64) - 1, 1_000_000_000 - nanos),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_other_file_systems_are_others() {
        assert_eq!(shown_ino(7, 7, 1), 1);
        let shown =
            [shown_ino(7, 7, 1), shown_ino(7, 8, 1), shown_ino(7, 9, 1), shown_ino(7, 8, 2)];
        for (at, ino) in shown.iter().enumerate() {
            assert!(!shown[..at].contains(ino), "{shown:?}");
        }
        assert_eq!(shown[1], shown_ino(6, 8, 1));
    }

    #[test]
    fn times_come_back_also_from_before_1970() {
        for (seconds, nanos) in [(0, 0), (1, 999_999_999), (-1, 0), (-1, 1), (-5, 500_000_000)] {
            let there = TimeOrNow::SpecificTime(time((seconds, nanos)));
            assert_eq!(new_time(there), NewTime::At(seconds, nanos));
        }
    }
}
