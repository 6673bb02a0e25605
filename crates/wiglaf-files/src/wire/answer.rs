//! Answers: a status, which travels as the message's immediate data, and what
//! some requests bring back with it.

use rustix::fs::FileType;

use super::Malformed;
use super::cursor::Cursor;
use crate::error::{Error, Reason};

/// The status of an answer: a count that is not negative, or minus the errno
/// with the reason 16 bits above it.
pub(crate) fn status(outcome: &Result<u64, Error>) -> u64 {
    match outcome {
        Ok(count) => *count & (i64::MAX as u64),
        Err(error) => {
            let number = i64::from(error.errno()) | (error.reason() as i64) << 16;
            (-number) as u64
        }
    }
}

/// What a status means.
pub(crate) fn unpack(status: u64) -> Result<u64, Error> {
    let status = status as i64;
    if status >= 0 {
        return Ok(status as u64);
    }
    let number = status.checked_neg().unwrap_or(0);
    let (errno, reason) = ((number & 0xffff) as i32, number >> 16);
    let reason = u16::try_from(reason).map_or(Reason::BadAnswer, Reason::from_number);
    match errno {
        // An error must be one.
        0 => Err(Error::new(rustix::io::Errno::PROTO, Reason::BadAnswer)),
        _ => Err(Error::from_numbers(errno, reason)),
    }
}

/// What is known of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// Number of names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The number of its file system on its node, as `st_dev`.
    pub dev: u64,
    /// Its number on its file system.
    pub ino: u64,
    /// Of a device which one it is, as `st_rdev`.
    pub rdev: u64,
    /// Length in bytes.
    pub size: u64,
    /// Blocks of 512 bytes that it takes.
    pub blocks: u64,
    /// The length that suits its file system, in bytes.
    pub block_len: u32,
    /// Last read, in seconds and nanoseconds since 1970.
    pub accessed: (i64, u32),
    /// Last write.
    pub modified: (i64, u32),
    /// Last change of the attributes.
    pub changed: (i64, u32),
}

impl Attributes {
    /// Bytes on the wire.
    pub(crate) const LEN: usize = 96;

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        for field in [self.mode, self.links, self.uid, self.gid] {
            out.extend(field.to_le_bytes());
        }
        for field in [self.ino, self.size, self.blocks] {
            out.extend(field.to_le_bytes());
        }
        out.extend(self.block_len.to_le_bytes());
        for (_, nanos) in [self.accessed, self.modified, self.changed] {
            out.extend(nanos.to_le_bytes());
        }
        for (seconds, _) in [self.accessed, self.modified, self.changed] {
            out.extend(seconds.to_le_bytes());
        }
        for field in [self.dev, self.rdev] {
            out.extend(field.to_le_bytes());
        }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Cursor::new(bytes);
        let [mode, links, uid, gid] = [from.u32()?, from.u32()?, from.u32()?, from.u32()?];
        let [ino, size, blocks] = [from.u64()?, from.u64()?, from.u64()?];
        let block_len = from.u32()?;
        let nanos = [from.u32()?, from.u32()?, from.u32()?];
        let seconds = [from.i64()?, from.i64()?, from.i64()?];
        let [dev, rdev] = [from.u64()?, from.u64()?];
        from.end()?;
        Ok(Self {
            mode,
            links,
            uid,
            gid,
            dev,
            ino,
            rdev,
            size,
            blocks,
            block_len,
            accessed: (seconds[0], nanos[0]),
            modified: (seconds[1], nanos[1]),
            changed: (seconds[2], nanos[2]),
        })
    }
}

impl From<rustix::fs::Stat> for Attributes {
    fn from(s: rustix::fs::Stat) -> Self {
        Self {
            mode: s.st_mode,
            links: s.st_nlink as u32,
            uid: s.st_uid,
            gid: s.st_gid,
            dev: s.st_dev,
            ino: s.st_ino,
            rdev: s.st_rdev,
            size: s.st_size as u64,
            blocks: s.st_blocks as u64,
            block_len: s.st_blksize as u32,
            accessed: (s.st_atime, s.st_atime_nsec as u32),
            modified: (s.st_mtime, s.st_mtime_nsec as u32),
            changed: (s.st_ctime, s.st_ctime_nsec as u32),
        }
    }
}

/// A name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number on its file system.
    pub ino: u64,
    /// Its type, as `d_type`.
    pub kind: u8,
    /// The name.
    pub name: Vec<u8>,
}

impl Entry {
    pub(crate) fn of(found: &rustix::fs::DirEntry) -> Self {
        Self {
            ino: found.ino(),
            kind: d_type(found.file_type()),
            name: found.file_name().to_bytes().to_vec(),
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.ino.to_le_bytes());
        out.push(self.kind);
        // 255 bytes are not enough: FAT and NTFS have 255 characters.
        out.extend((self.name.len() as u16).to_le_bytes());
        out.extend(&self.name);
    }

    pub(crate) fn wire_len(&self) -> usize {
        11 + self.name.len()
    }

    pub(crate) fn parse_all(bytes: &[u8]) -> Result<Vec<Self>, Malformed> {
        let mut from = Cursor::new(bytes);
        let mut entries = Vec::new();
        while !from.is_empty() {
            let (ino, kind, len) = (from.u64()?, from.u8()?, from.u16()?);
            let name = from.bytes(usize::from(len))?;
            if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
                return Err(Malformed);
            }
            entries.push(Self { ino, kind, name: name.to_vec() });
        }
        Ok(entries)
    }
}

/// The number of a type, as `d_type`; 0 where the file system does not tell it.
pub(crate) fn d_type(found: FileType) -> u8 {
    match found {
        // As a mode it would be all types at once.
        FileType::Unknown => 0,
        known => (known.as_raw_mode() >> 12) as u8,
    }
}

/// The room on a file system, in blocks of `block_len` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Space {
    /// Bytes in a block.
    pub block_len: u64,
    /// Blocks in all.
    pub blocks: u64,
    /// Blocks that are free.
    pub free: u64,
    /// Blocks that an ordinary user may take.
    pub available: u64,
    /// Files that there can be.
    pub files: u64,
    /// Files that there can still be.
    pub files_free: u64,
    /// Longest name.
    pub name_len_max: u64,
}

impl Space {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let all = [
            self.block_len,
            self.blocks,
            self.free,
            self.available,
            self.files,
            self.files_free,
            self.name_len_max,
        ];
        out.extend(all.iter().flat_map(|field| field.to_le_bytes()));
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Cursor::new(bytes);
        let space = Self {
            block_len: from.u64()?,
            blocks: from.u64()?,
            free: from.u64()?,
            available: from.u64()?,
            files: from.u64()?,
            files_free: from.u64()?,
            name_len_max: from.u64()?,
        };
        from.end()?;
        Ok(space)
    }
}
