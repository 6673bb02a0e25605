//! Little-endian reads and writes that cannot panic on short input.

use crate::WireError;

/// Reads fields from the front of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

// Inlined: else each field would come back through memory, as an error is longer than a register.
impl<'a> Reader<'a> {
    #[inline(always)]
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (head, tail) = self.0.split_at_checked(len).ok_or(WireError::Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(WireError::Truncated)?;
        self.0 = tail;
        Ok(*head)
    }

    #[inline(always)]
    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    #[inline(always)]
    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    #[inline(always)]
    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    #[inline(always)]
    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}

/// Writes fields to the front of a buffer; the caller sized it.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut [u8]) -> Self {
        Self { out, at: 0 }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }

    pub(crate) fn u8(&mut self, v: u8) -> &mut Self {
        self.put(&[v])
    }

    pub(crate) fn u16(&mut self, v: u16) -> &mut Self {
        self.put(&v.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, v: u32) -> &mut Self {
        self.put(&v.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, v: u64) -> &mut Self {
        self.put(&v.to_le_bytes())
    }

    pub(crate) fn written(&self) -> usize {
        self.at
    }
}
