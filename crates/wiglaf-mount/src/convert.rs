//! Values of `wiglaf-files` as FUSE has them.

use std::hash::{DefaultHasher, Hash, Hasher};

use wiglaf_files::{Attributes, NewTime};

use crate::fuse::{Attr, Time};

/// The type in a mode, as `d_type` has it.
pub(crate) fn kind(mode: u32) -> u8 {
    ((mode & libc::S_IFMT) >> 12) as u8
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
pub(crate) fn attr(found: &Attributes) -> Attr {
    Attr {
        ino: found.ino,
        size: found.size,
        blocks: found.blocks,
        accessed: found.accessed,
        modified: found.modified,
        changed: found.changed,
        mode: found.mode,
        links: found.links,
        uid: found.uid,
        gid: found.gid,
        // The kernel has the lower half of what the C library makes of it.
        rdev: found.rdev as u32,
        block_len: found.block_len,
    }
}

pub(crate) fn new_time(time: Time) -> NewTime {
    match time {
        Time::Now => NewTime::Now,
        Time::At(seconds, nanos) => NewTime::At(seconds, nanos),
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
}
