//! Locks as they are asked for, and told of.

use super::Malformed;
use super::cursor::Cursor;

/// What a lock lets others do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockKind {
    /// Everything: it is given back.
    #[default]
    Free,
    /// Lock for reading, too.
    Shared,
    /// Nothing.
    Exclusive,
}

/// A lock on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lock {
    /// Who has it, or shall: a number of the client's own. Locks of one owner never meet.
    pub owner: u64,
    /// Its process, on the client's node; 0 if that is not known.
    pub pid: u32,
    /// What it lets others do.
    pub kind: LockKind,
    /// The first byte.
    pub start: u64,
    /// The last byte; 2^63 - 1 for all that may come.
    pub last: u64,
    /// It is flock(2)'s, of the handle and all of the file. Those and fcntl(2)'s never meet.
    pub is_flock: bool,
}

const SHARED: u32 = 1;
const EXCLUSIVE: u32 = 1 << 1;
const FLOCK: u32 = 1 << 2;
const WAITS: u32 = 1 << 3;
const KNOWN: u32 = (1 << 4) - 1;

/// The last byte that a file can have.
const LAST: u64 = i64::MAX as u64;

impl Lock {
    /// Bytes on the wire.
    const LEN: usize = 40;

    /// All of a file, as flock(2) locks it.
    pub(crate) fn whole(kind: LockKind) -> Self {
        Self { kind, last: LAST, is_flock: true, ..Self::default() }
    }

    /// Whether it and a lock of another owner on the same file cannot be at once.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        let exclusive = |lock: &Self| lock.kind == LockKind::Exclusive;
        let is_held = self.kind != LockKind::Free && other.kind != LockKind::Free;
        is_held
            && (exclusive(self) || exclusive(other))
            && self.start <= other.last
            && other.start <= self.last
    }

    pub(super) fn bytes(&self, handle: u32, waits: bool) -> [u8; Self::LEN] {
        let kind = match self.kind {
            LockKind::Free => 0,
            LockKind::Shared => SHARED,
            LockKind::Exclusive => EXCLUSIVE,
        };
        let flag = |is_so, bit| if is_so { bit } else { 0 };
        let flags = kind | flag(self.is_flock, FLOCK) | flag(waits, WAITS);
        let mut bytes = [0; Self::LEN];
        for (at, field) in [handle, flags, self.pid].into_iter().enumerate() {
            bytes[4 * at..][..4].copy_from_slice(&field.to_le_bytes());
        }
        for (at, field) in [self.owner, self.start, self.last].into_iter().enumerate() {
            bytes[16 + 8 * at..][..8].copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// Of which handle, the lock, and whether it is waited for.
    pub(super) fn read(from: &mut Cursor<'_>) -> Result<(u32, Self, bool), Malformed> {
        let (handle, flags, pid) = (from.u32()?, from.u32()?, from.u32()?);
        from.u32()?;
        let (owner, start, last) = (from.u64()?, from.u64()?, from.u64()?);
        let kind = match flags & (SHARED | EXCLUSIVE) {
            0 => LockKind::Free,
            SHARED => LockKind::Shared,
            EXCLUSIVE => LockKind::Exclusive,
            _ => return Err(Malformed),
        };
        if flags & !KNOWN != 0 || start > last || last > LAST {
            return Err(Malformed);
        }
        let is_flock = flags & FLOCK != 0;
        Ok((handle, Self { owner, pid, kind, start, last, is_flock }, flags & WAITS != 0))
    }

    /// The answer to a question for what is in the way.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.bytes(0, false));
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Cursor::new(bytes);
        let (_, lock, _) = Self::read(&mut from)?;
        from.end()?;
        Ok(lock)
    }
}
