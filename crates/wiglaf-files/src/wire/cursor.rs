//! Reading a message from front to back, never past its end.

use super::{DATA_LEN_MAX, Malformed, NewTime, PATH_LEN_MAX};

/// What is left of a message.
#[derive(Debug)]
pub(super) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.bytes(N)?.try_into().map_err(|_| Malformed)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub(super) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// A length of file content.
    pub(super) fn data_len(&mut self) -> Result<u32, Malformed> {
        let len = self.u32()?;
        if len as usize <= DATA_LEN_MAX { Ok(len) } else { Err(Malformed) }
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// A path that takes all the rest.
    pub(super) fn path(&mut self) -> Result<&'a [u8], Malformed> {
        checked(self.rest())
    }

    /// A path with its length in front.
    pub(super) fn counted_path(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u32()? as usize;
        checked(self.bytes(len)?)
    }

    pub(super) fn time(&mut self) -> Result<NewTime, Malformed> {
        let (kind, nanos, seconds) = (self.u32()?, self.u32()?, self.i64()?);
        match kind {
            0 => Ok(NewTime::Keep),
            1 => Ok(NewTime::Now),
            2 if nanos < 1_000_000_000 => Ok(NewTime::At { seconds, nanos }),
            _ => Err(Malformed),
        }
    }

    /// Fails when anything is left.
    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn checked(path: &[u8]) -> Result<&[u8], Malformed> {
    if path.is_empty() || path.len() > PATH_LEN_MAX || path.contains(&0) {
        return Err(Malformed);
    }
    Ok(path)
}
