//! What the kernel asks for: bytes to values. Whatever does not fit is [`Malformed`].

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A request that is not as `linux/fuse.h` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

type Result<T> = std::result::Result<T, Malformed>;

/// A flag of a WRITE: the kernel writes what a program has left in mapped memory.
pub(crate) const WRITE_CACHE: u32 = 1;
/// A flag of a lock: it is flock(2)'s.
const LK_FLOCK: u32 = 1;
/// A flag of GETATTR: there is a handle.
const GETATTR_FH: u32 = 1;
const FSYNC_FDATASYNC: u32 = 1;

/// What a SETATTR sets.
mod attribute {
    pub(super) const MODE: u32 = 1;
    pub(super) const UID: u32 = 1 << 1;
    pub(super) const GID: u32 = 1 << 2;
    pub(super) const SIZE: u32 = 1 << 3;
    pub(super) const ATIME: u32 = 1 << 4;
    pub(super) const MTIME: u32 = 1 << 5;
    pub(super) const FH: u32 = 1 << 6;
    pub(super) const ATIME_NOW: u32 = 1 << 7;
    pub(super) const MTIME_NOW: u32 = 1 << 8;
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    /// Its number; the answer bears it.
    pub(crate) unique: u64,
    /// The file that it is about.
    pub(crate) ino: u64,
    /// The user who calls, where somebody does.
    pub(crate) uid: u32,
    pub(crate) operation: Operation<'a>,
}

/// A time to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    Now,
    At(i64, u32),
}

/// Attributes to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NewAttributes {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) accessed: Option<Time>,
    pub(crate) modified: Option<Time>,
    pub(crate) handle: Option<u64>,
}

/// A lock that is asked for, or asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) handle: u64,
    /// Who shall have it: a process, or an open file.
    pub(crate) owner: u64,
    pub(crate) start: u64,
    /// The last byte.
    pub(crate) last: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub(crate) kind: u32,
    /// The process, where the mount was made.
    pub(crate) pid: u32,
    /// It is flock(2)'s.
    pub(crate) is_flock: bool,
}

/// What is asked for. Names lie in the folder that the request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    Init {
        major: u32,
        minor: u32,
        readahead_max: u32,
        capabilities: u64,
    },
    Destroy,
    Interrupt {
        unique: u64,
    },
    Lookup {
        name: &'a OsStr,
    },
    Forget {
        count: u64,
    },
    /// Numbers and counts, 16 bytes each.
    ForgetMany {
        each: &'a [u8],
    },
    GetAttr {
        handle: Option<u64>,
    },
    SetAttr(NewAttributes),
    ReadLink,
    SymLink {
        name: &'a OsStr,
        target: &'a OsStr,
    },
    MakeNode {
        name: &'a OsStr,
        mode: u32,
    },
    MakeDir {
        name: &'a OsStr,
        mode: u32,
    },
    Unlink {
        name: &'a OsStr,
    },
    RemoveDir {
        name: &'a OsStr,
    },
    Rename {
        name: &'a OsStr,
        to: u64,
        to_name: &'a OsStr,
        flags: u32,
    },
    Link {
        ino: u64,
        name: &'a OsStr,
    },
    Open {
        flags: i32,
    },
    Create {
        name: &'a OsStr,
        flags: i32,
        mode: u32,
    },
    Read {
        handle: u64,
        offset: u64,
        len: u32,
    },
    Write {
        handle: u64,
        offset: u64,
        data: &'a [u8],
        write_flags: u32,
        flags: i32,
    },
    Flush {
        handle: u64,
        owner: u64,
    },
    Release {
        handle: u64,
    },
    Sync {
        handle: u64,
        data_only: bool,
    },
    OpenDir,
    ReadDir {
        handle: u64,
        offset: u64,
        len: u32,
    },
    ReleaseDir {
        handle: u64,
    },
    SyncDir {
        data_only: bool,
    },
    StatFs,
    Access {
        mask: u32,
    },
    GetLock(Lock),
    SetLock(Lock, /* whether it waits */ bool),
    /// The kernel does without.
    Other,
}

impl<'a> Request<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut from = Fields(bytes);
        let (len, number) = (from.u32()?, from.u32()?);
        let (unique, ino, uid) = (from.u64()?, from.u64()?, from.u32()?);
        from.skip(12)?;
        if len as usize != bytes.len() {
            return Err(Malformed);
        }
        Ok(Self { unique, ino, uid, operation: Operation::parse(number, from)? })
    }

    /// Whether a program's call is behind it, so that `uid` is that of its user.
    pub(crate) fn has_caller(&self) -> bool {
        use Operation as O;
        !matches!(
            self.operation,
            O::Init { .. }
                | O::Destroy
                | O::Interrupt { .. }
                | O::Forget { .. }
                | O::ForgetMany { .. }
                | O::Read { .. }
                | O::Write { .. }
                | O::ReadDir { .. }
                | O::Sync { .. }
                | O::SyncDir { .. }
                | O::Flush { .. }
                | O::Release { .. }
                | O::ReleaseDir { .. }
        )
    }
}

impl<'a> Operation<'a> {
    fn parse(number: u32, mut from: Fields<'a>) -> Result<Self> {
        Ok(match number {
            1 => Self::Lookup { name: from.name()? },
            2 => Self::Forget { count: from.u64()? },
            3 => {
                let flags = from.u32()?;
                from.skip(4)?;
                let handle = from.u64()?;
                Self::GetAttr { handle: (flags & GETATTR_FH != 0).then_some(handle) }
            }
            4 => Self::SetAttr(NewAttributes::parse(from)?),
            5 => Self::ReadLink,
            6 => Self::SymLink { name: from.name()?, target: from.name()? },
            8 => {
                let mode = from.u32()?;
                from.skip(12)?;
                Self::MakeNode { mode, name: from.name()? }
            }
            9 => {
                let mode = from.u32()?;
                from.skip(4)?;
                Self::MakeDir { mode, name: from.name()? }
            }
            10 => Self::Unlink { name: from.name()? },
            11 => Self::RemoveDir { name: from.name()? },
            12 => {
                let to = from.u64()?;
                Self::Rename { to, name: from.name()?, to_name: from.name()?, flags: 0 }
            }
            13 => Self::Link { ino: from.u64()?, name: from.name()? },
            14 => Self::Open { flags: from.u32()? as i32 },
            15 => Self::Read { handle: from.u64()?, offset: from.u64()?, len: from.u32()? },
            16 => Self::write(from)?,
            17 => Self::StatFs,
            18 => Self::Release { handle: from.u64()? },
            20 => {
                let (handle, flags) = (from.u64()?, from.u32()?);
                Self::Sync { handle, data_only: flags & FSYNC_FDATASYNC != 0 }
            }
            25 => {
                let handle = from.u64()?;
                from.skip(8)?;
                Self::Flush { handle, owner: from.u64()? }
            }
            26 => {
                let (major, minor, readahead_max) = (from.u32()?, from.u32()?, from.u32()?);
                let low = from.u32()?;
                // Kernels before 5.17 have no more to say.
                let high = from.u32().unwrap_or(0);
                let capabilities = u64::from(high) << 32 | u64::from(low);
                Self::Init { major, minor, readahead_max, capabilities }
            }
            27 => Self::OpenDir,
            28 => Self::ReadDir { handle: from.u64()?, offset: from.u64()?, len: from.u32()? },
            29 => Self::ReleaseDir { handle: from.u64()? },
            30 => {
                from.skip(8)?;
                Self::SyncDir { data_only: from.u32()? & FSYNC_FDATASYNC != 0 }
            }
            31 => Self::GetLock(Lock::parse(from)?),
            32 => Self::SetLock(Lock::parse(from)?, false),
            33 => Self::SetLock(Lock::parse(from)?, true),
            34 => Self::Access { mask: from.u32()? },
            35 => {
                let (flags, mode) = (from.u32()? as i32, from.u32()?);
                from.skip(8)?;
                Self::Create { flags, mode, name: from.name()? }
            }
            36 => Self::Interrupt { unique: from.u64()? },
            38 => Self::Destroy,
            42 => {
                let count = from.u32()? as usize;
                from.skip(4)?;
                let each = from.0.get(..count.checked_mul(16).ok_or(Malformed)?);
                Self::ForgetMany { each: each.ok_or(Malformed)? }
            }
            45 => {
                let (to, flags) = (from.u64()?, from.u32()?);
                from.skip(4)?;
                Self::Rename { to, name: from.name()?, to_name: from.name()?, flags }
            }
            _ => Self::Other,
        })
    }

    fn write(mut from: Fields<'a>) -> Result<Self> {
        let (handle, offset) = (from.u64()?, from.u64()?);
        let (len, write_flags) = (from.u32()? as usize, from.u32()?);
        from.skip(8)?;
        let flags = from.u32()? as i32;
        from.skip(4)?;
        let data = from.0.get(..len).ok_or(Malformed)?;
        Ok(Self::Write { handle, offset, data, write_flags, flags })
    }
}

/// What [`Operation::ForgetMany`] has: numbers, and how often each is referred to less.
pub(crate) fn forgotten(each: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    each.as_chunks::<16>().0.iter().filter_map(|one| {
        let mut from = Fields(one);
        Some((from.u64().ok()?, from.u64().ok()?))
    })
}

impl NewAttributes {
    fn parse(mut from: Fields<'_>) -> Result<Self> {
        let valid = from.u32()?;
        from.skip(4)?;
        let (handle, size) = (from.u64()?, from.u64()?);
        from.skip(8)?;
        let (accessed, modified) = (from.u64()? as i64, from.u64()? as i64);
        from.skip(8)?;
        let (accessed_nanos, modified_nanos) = (from.u32()?, from.u32()?);
        from.skip(4)?;
        let mode = from.u32()?;
        from.skip(4)?;
        let (uid, gid) = (from.u32()?, from.u32()?);
        let has = |bit: u32| valid & bit != 0;
        let time = |is_set, is_now, seconds, nanos| {
            has(is_set).then_some(if has(is_now) { Time::Now } else { Time::At(seconds, nanos) })
        };
        Ok(Self {
            mode: has(attribute::MODE).then_some(mode),
            uid: has(attribute::UID).then_some(uid),
            gid: has(attribute::GID).then_some(gid),
            size: has(attribute::SIZE).then_some(size),
            accessed: time(attribute::ATIME, attribute::ATIME_NOW, accessed, accessed_nanos),
            modified: time(attribute::MTIME, attribute::MTIME_NOW, modified, modified_nanos),
            handle: has(attribute::FH).then_some(handle),
        })
    }
}

impl Lock {
    fn parse(mut from: Fields<'_>) -> Result<Self> {
        let (handle, owner) = (from.u64()?, from.u64()?);
        let (start, last) = (from.u64()?, from.u64()?);
        let (kind, pid) = (from.u32()?, from.u32()?);
        let is_flock = from.u32()? & LK_FLOCK != 0;
        Ok(Self { handle, owner, start, last, kind, pid, is_flock })
    }
}

/// What is left of a request.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn u32(&mut self) -> Result<u32> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u32::from_ne_bytes(*field))
    }

    fn u64(&mut self) -> Result<u64> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u64::from_ne_bytes(*field))
    }

    fn skip(&mut self, len: usize) -> Result<()> {
        self.0 = self.0.get(len..).ok_or(Malformed)?;
        Ok(())
    }

    /// A name, which a zero ends.
    fn name(&mut self) -> Result<&'a OsStr> {
        let len = self.0.iter().position(|byte| *byte == 0).ok_or(Malformed)?;
        let (name, rest) = self.0.split_at(len);
        self.0 = &rest[1..];
        Ok(OsStr::from_bytes(name))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes of the head.
    const HEAD_LEN: usize = 40;

    /// A request with that body.
    fn request(number: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(((HEAD_LEN + body.len()) as u32).to_ne_bytes());
        bytes.extend(number.to_ne_bytes());
        bytes.extend(7u64.to_ne_bytes());
        bytes.extend(9u64.to_ne_bytes());
        bytes.extend(1000u32.to_ne_bytes());
        bytes.extend([0; 12]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_time_before_1970_keeps_its_second_and_its_nanoseconds() {
        let mut body = vec![0; 88];
        let valid = attribute::ATIME | attribute::MTIME | attribute::MTIME_NOW;
        body[..4].copy_from_slice(&valid.to_ne_bytes());
        body[32..40].copy_from_slice(&i64::MIN.to_ne_bytes());
        body[56..60].copy_from_slice(&999_999_999u32.to_ne_bytes());
        let bytes = request(4, &body);
        let parsed = Request::parse(&bytes).unwrap();
        assert_eq!((parsed.unique, parsed.ino, parsed.uid), (7, 9, 1000));
        let wanted = NewAttributes {
            accessed: Some(Time::At(i64::MIN, 999_999_999)),
            modified: Some(Time::Now),
            ..NewAttributes::default()
        };
        assert_eq!(parsed.operation, Operation::SetAttr(wanted));
    }

    #[test]
    fn the_two_kinds_of_lock_are_told_apart() {
        for (flags, is_flock) in [(0u32, false), (LK_FLOCK, true)] {
            let mut body = Vec::new();
            [1u64, 2, 3, 4].iter().for_each(|field| body.extend(field.to_ne_bytes()));
            [1u32, 77, flags, 0].iter().for_each(|field| body.extend(field.to_ne_bytes()));
            let lock = Lock { handle: 1, owner: 2, start: 3, last: 4, kind: 1, pid: 77, is_flock };
            let wanted = [
                (31, Operation::GetLock(lock)),
                (32, Operation::SetLock(lock, false)),
                (33, Operation::SetLock(lock, true)),
            ];
            for (number, operation) in wanted {
                let bytes = request(number, &body);
                assert_eq!(Request::parse(&bytes).map(|parsed| parsed.operation), Ok(operation));
            }
        }
    }

    #[test]
    fn a_request_that_is_cut_short_is_malformed() {
        let body = [0u64; 6].iter().flat_map(|field| field.to_ne_bytes()).collect::<Vec<_>>();
        let whole = request(32, &body);
        for len in 0..whole.len() - 4 {
            assert_eq!(Request::parse(&whole[..len]), Err(Malformed), "{len}");
        }
        assert_eq!(Request::parse(&request(1, b"no zero")), Err(Malformed));
        let many = [u32::MAX.to_ne_bytes(), [0; 4]].concat();
        assert_eq!(Request::parse(&request(42, &many)), Err(Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_malformed(number in 0u32..60, body: Vec<u8>) {
            let _ = Request::parse(&request(number, &body));
            let _ = Request::parse(&body);
        }
    }
}
