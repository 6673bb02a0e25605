//! The messages between clients and servers; `docs/files-protocol.md` is their
//! definition. Bytes to values and back, nothing else: every length is
//! checked, and what does not fit is [`Malformed`].

mod answer;
mod cursor;
mod lock;

pub use answer::{Attributes, Entry, Space};
pub(crate) use answer::{status, unpack};
use cursor::Cursor;
pub use lock::{Lock, LockKind};

/// Version of the protocol.
pub(crate) const VERSION: u8 = 4;
/// What the handler's number of every request begins with.
const MAGIC: u64 = 0x5746_494c_4553_0000;
/// Longest path in bytes: a file may lie deeper than one call of a program can name, and a request has
/// room for two of them.
pub(crate) const PATH_LEN_MAX: usize = 15 * 1024;
/// Most bytes that one request reads or writes.
pub(crate) const DATA_LEN_MAX: usize = 1 << 20;
/// Most bytes that a WRITE carries in the request itself.
pub(crate) const INLINE_LEN_MAX: usize = 28 * 1024;
/// Longest request: two paths, or a header and its bytes.
pub(crate) const REQUEST_LEN_MAX: usize = 32 * 1024;
/// A bit of a WRITE's offset: the file is written there though it was opened to append.
pub(crate) const WRITE_OVER: u64 = 1 << 63;
/// An offset of a WRITE: the file is appended to, however it was opened.
pub(crate) const APPEND: u64 = u64::MAX;
/// Longest answer that is not file content.
pub(crate) const ANSWER_LEN_MAX: usize = 16 * 1024;

/// A message that is not as the protocol says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// How a file is opened; on the wire bits of their own, as the numbers of
/// `O_*` differ between machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OpenFlags(pub(crate) u32);

impl OpenFlags {
    pub(crate) const READ: u32 = 1;
    pub(crate) const WRITE: u32 = 1 << 1;
    pub(crate) const APPEND: u32 = 1 << 2;
    pub(crate) const CREATE: u32 = 1 << 3;
    pub(crate) const EXCLUSIVE: u32 = 1 << 4;
    pub(crate) const TRUNCATE: u32 = 1 << 5;
    pub(crate) const DIRECTORY: u32 = 1 << 6;
    pub(crate) const NO_FOLLOW: u32 = 1 << 7;
    pub(crate) const SYNC: u32 = 1 << 8;
    pub(crate) const DATA_SYNC: u32 = 1 << 9;
    const KNOWN: u32 = (1 << 10) - 1;

    pub(crate) fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }
}

/// A time to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewTime {
    Keep,
    Now,
    At { seconds: i64, nanos: u32 },
}

impl NewTime {
    fn bytes(self) -> [u8; 16] {
        let (kind, seconds, nanos) = match self {
            Self::Keep => (0u32, 0, 0),
            Self::Now => (1, 0, 0),
            Self::At { seconds, nanos } => (2, seconds, nanos),
        };
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&nanos.to_le_bytes());
        bytes[8..].copy_from_slice(&seconds.to_le_bytes());
        bytes
    }
}

/// What a client asks for. Paths are bytes without a zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    Hello { newest: u32 },
    Open { flags: OpenFlags, mode: u32, path: &'a [u8] },
    Close { handle: u32 },
    Read { handle: u32, len: u32, offset: u64 },
    Write { handle: u32, offset: u64, bytes: &'a [u8] },
    WriteBulk { handle: u32, len: u32, offset: u64 },
    Stat { follow: bool, path: &'a [u8] },
    StatHandle { handle: u32 },
    Sync { handle: u32, data_only: bool },
    Truncate { size: u64, path: &'a [u8] },
    TruncateHandle { handle: u32, size: u64 },
    Unlink { path: &'a [u8] },
    Rename { flags: u32, from: &'a [u8], to: &'a [u8] },
    MakeDir { mode: u32, path: &'a [u8] },
    RemoveDir { path: &'a [u8] },
    ReadDir { handle: u32, restart: bool },
    Counters,
    SetMode { mode: u32, path: &'a [u8] },
    SetTimes { access: NewTime, change: NewTime, follow: bool, path: &'a [u8] },
    ReadLink { path: &'a [u8] },
    SymLink { target: &'a [u8], path: &'a [u8] },
    HardLink { from: &'a [u8], to: &'a [u8] },
    Space { path: &'a [u8] },
    Lock { handle: u32, lock: Lock, waits: bool },
    Root { path: &'a [u8] },
    SetModeHandle { handle: u32, mode: u32 },
    SetTimesHandle { handle: u32, access: NewTime, change: NewTime },
    Enter { path: &'a [u8] },
    TestLock { handle: u32, lock: Lock },
    EndWait { id: u64 },
    FreeLocks { handle: u32, owner: u64 },
}

impl<'a> Request<'a> {
    fn number(&self) -> u8 {
        match self {
            Self::Hello { .. } => 1,
            Self::Open { .. } => 2,
            Self::Close { .. } => 3,
            Self::Read { .. } => 4,
            Self::Write { .. } => 5,
            Self::WriteBulk { .. } => 6,
            Self::Stat { .. } => 7,
            Self::StatHandle { .. } => 8,
            Self::Sync { .. } => 9,
            Self::Truncate { .. } => 10,
            Self::TruncateHandle { .. } => 11,
            Self::Unlink { .. } => 12,
            Self::Rename { .. } => 13,
            Self::MakeDir { .. } => 14,
            Self::RemoveDir { .. } => 15,
            Self::ReadDir { .. } => 16,
            Self::Counters => 17,
            Self::SetMode { .. } => 18,
            Self::SetTimes { .. } => 19,
            Self::ReadLink { .. } => 20,
            Self::SymLink { .. } => 21,
            Self::HardLink { .. } => 22,
            Self::Space { .. } => 23,
            Self::Lock { .. } => 24,
            Self::Root { .. } => 25,
            Self::SetModeHandle { .. } => 26,
            Self::SetTimesHandle { .. } => 27,
            Self::Enter { .. } => 28,
            Self::TestLock { .. } => 29,
            Self::EndWait { .. } => 30,
            Self::FreeLocks { .. } => 31,
        }
    }

    /// The handler's number of its message.
    pub(crate) fn tag(&self) -> u64 {
        MAGIC | u64::from(VERSION) << 8 | u64::from(self.number())
    }

    /// The body without the bytes of a WRITE, which follow it.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
        match *self {
            Self::Hello { newest } => put(&newest.to_le_bytes()),
            Self::Open { flags, mode, path } => {
                put(&flags.0.to_le_bytes());
                put(&mode.to_le_bytes());
                put(path);
            }
            Self::Close { handle } | Self::StatHandle { handle } => put(&handle.to_le_bytes()),
            Self::Lock { handle, lock, waits } => put(&lock.bytes(handle, waits)),
            Self::TestLock { handle, lock } => put(&lock.bytes(handle, false)),
            Self::EndWait { id } => put(&id.to_le_bytes()),
            Self::FreeLocks { handle, owner } => {
                put(&handle.to_le_bytes());
                put(&0u32.to_le_bytes());
                put(&owner.to_le_bytes());
            }
            Self::Read { handle, len, offset } | Self::WriteBulk { handle, len, offset } => {
                put(&handle.to_le_bytes());
                put(&len.to_le_bytes());
                put(&offset.to_le_bytes());
            }
            Self::Write { handle, offset, bytes } => {
                put(&handle.to_le_bytes());
                put(&(bytes.len() as u32).to_le_bytes());
                put(&offset.to_le_bytes());
            }
            Self::Stat { follow, path } => {
                put(&u32::from(follow).to_le_bytes());
                put(path);
            }
            Self::Sync { handle, data_only: flag } | Self::ReadDir { handle, restart: flag } => {
                put(&handle.to_le_bytes());
                put(&u32::from(flag).to_le_bytes());
            }
            Self::Truncate { size, path } => {
                put(&size.to_le_bytes());
                put(path);
            }
            Self::TruncateHandle { handle, size } => {
                put(&handle.to_le_bytes());
                put(&0u32.to_le_bytes());
                put(&size.to_le_bytes());
            }
            Self::Unlink { path }
            | Self::RemoveDir { path }
            | Self::ReadLink { path }
            | Self::Space { path }
            | Self::Root { path }
            | Self::Enter { path } => put(path),
            Self::Rename { flags, from, to } => {
                put(&flags.to_le_bytes());
                put(&(from.len() as u32).to_le_bytes());
                put(from);
                put(to);
            }
            Self::MakeDir { mode, path } | Self::SetMode { mode, path } => {
                put(&mode.to_le_bytes());
                put(path);
            }
            Self::Counters => {}
            Self::SetModeHandle { handle, mode } => {
                put(&handle.to_le_bytes());
                put(&mode.to_le_bytes());
            }
            Self::SetTimesHandle { handle, access, change } => {
                put(&handle.to_le_bytes());
                put(&0u32.to_le_bytes());
                put(&access.bytes());
                put(&change.bytes());
            }
            Self::SetTimes { access, change, follow, path } => {
                put(&access.bytes());
                put(&change.bytes());
                put(&u32::from(follow).to_le_bytes());
                put(path);
            }
            Self::SymLink { target: from, path: to } | Self::HardLink { from, to } => {
                put(&(from.len() as u32).to_le_bytes());
                put(from);
                put(to);
            }
        }
        out
    }

    /// Reads a request; `None` for one that this version does not know.
    ///
    /// # Errors
    /// [`Malformed`].
    pub(crate) fn parse(tag: u64, body: &'a [u8]) -> Result<Option<Self>, Malformed> {
        //= docs/files-protocol.md#3-requests
        //# A server MUST refuse a request whose body is not exactly as its number prescribes, or longer than 32 KiB.
        if tag & !0xffff != MAGIC || body.len() > REQUEST_LEN_MAX {
            return Err(Malformed);
        }
        if tag >> 8 & 0xff != u64::from(VERSION) {
            return Ok(None);
        }
        let mut from = Cursor::new(body);
        let request = Self::fields(tag as u8, &mut from)?;
        // All but a WRITE's bytes and the last path has fixed places.
        if request.is_some() {
            from.end()?;
        }
        Ok(request)
    }

    fn fields(number: u8, from: &mut Cursor<'a>) -> Result<Option<Self>, Malformed> {
        Ok(Some(match number {
            1 => Self::Hello { newest: from.u32()? },
            2 => {
                let flags = OpenFlags(from.u32()?);
                if flags.0 & !OpenFlags::KNOWN != 0 {
                    return Err(Malformed);
                }
                Self::Open { flags, mode: from.u32()?, path: from.path()? }
            }
            3 => Self::Close { handle: from.u32()? },
            4 => Self::Read { handle: from.u32()?, len: from.data_len()?, offset: from.u64()? },
            5 => {
                let (handle, len, offset) = (from.u32()?, from.u32()?, from.u64()?);
                let bytes = from.rest();
                if bytes.len() != len as usize || bytes.len() > INLINE_LEN_MAX {
                    return Err(Malformed);
                }
                Self::Write { handle, offset, bytes }
            }
            6 => {
                Self::WriteBulk { handle: from.u32()?, len: from.data_len()?, offset: from.u64()? }
            }
            7 => Self::Stat { follow: from.flag()?, path: from.path()? },
            8 => Self::StatHandle { handle: from.u32()? },
            9 => Self::Sync { handle: from.u32()?, data_only: from.flag()? },
            10 => Self::Truncate { size: from.u64()?, path: from.path()? },
            11 => {
                let handle = from.u32()?;
                from.u32()?;
                Self::TruncateHandle { handle, size: from.u64()? }
            }
            12 => Self::Unlink { path: from.path()? },
            13 => {
                let flags = from.u32()?;
                Self::Rename { flags, from: from.counted_path()?, to: from.path()? }
            }
            14 => Self::MakeDir { mode: from.u32()?, path: from.path()? },
            15 => Self::RemoveDir { path: from.path()? },
            16 => Self::ReadDir { handle: from.u32()?, restart: from.flag()? },
            17 => Self::Counters,
            18 => Self::SetMode { mode: from.u32()?, path: from.path()? },
            19 => Self::SetTimes {
                access: from.time()?,
                change: from.time()?,
                follow: from.flag()?,
                path: from.path()?,
            },
            20 => Self::ReadLink { path: from.path()? },
            21 => Self::SymLink { target: from.counted_path()?, path: from.path()? },
            22 => Self::HardLink { from: from.counted_path()?, to: from.path()? },
            23 => Self::Space { path: from.path()? },
            24 => {
                let (handle, lock, waits) = Lock::read(from)?;
                Self::Lock { handle, lock, waits }
            }
            25 => Self::Root { path: from.path()? },
            26 => Self::SetModeHandle { handle: from.u32()?, mode: from.u32()? },
            27 => {
                let handle = from.u32()?;
                from.u32()?;
                Self::SetTimesHandle { handle, access: from.time()?, change: from.time()? }
            }
            28 => Self::Enter { path: from.path()? },
            29 => match Lock::read(from)? {
                (handle, lock, false) if lock.kind != LockKind::Free && !lock.is_flock => {
                    Self::TestLock { handle, lock }
                }
                _ => return Err(Malformed),
            },
            30 => Self::EndWait { id: from.u64()? },
            31 => {
                let handle = from.u32()?;
                from.u32()?;
                Self::FreeLocks { handle, owner: from.u64()? }
            }
            _ => return Ok(None),
        }))
    }
}

#[cfg(test)]
mod tests;
