//! Data operations in plain values: what the many calls of the msg and tagged tables boil down to.

use wiglaf_endpoint::{AtomicOp, Class, Region};

use crate::bindings as fi;
use crate::guard::{EINVAL, Fi, refuse};
use crate::info::IOV_LIMIT;

/// One piece of user memory.
#[inline]
pub(crate) fn piece(buf: *const libc::c_void, len: usize) -> Fi<Region> {
    if buf.is_null() && len > 0 {
        return refuse!(EINVAL, "a buffer of {len} bytes is null");
    }
    Ok(Region { ptr: buf.cast_mut().cast(), len })
}

/// The pieces of user memory that a vector lists.
pub(crate) struct Regions {
    pieces: [Region; IOV_LIMIT],
    count: usize,
}

impl Regions {
    /// One piece.
    pub(crate) fn one(buf: *const libc::c_void, len: usize) -> Fi<Self> {
        let mut regions = Self::none();
        regions.push(buf, len)?;
        Ok(regions)
    }

    /// No piece at all.
    pub(crate) fn none() -> Self {
        Self { pieces: [Region { ptr: std::ptr::null_mut(), len: 0 }; IOV_LIMIT], count: 0 }
    }

    /// The pieces that a vector lists.
    ///
    /// # Safety
    /// `iov` is valid for reads of `count` entries, or null when that is 0.
    pub(crate) unsafe fn read(iov: *const libc::iovec, count: usize) -> Fi<Self> {
        let mut regions = Self::none();
        if count > IOV_LIMIT {
            return refuse!(EINVAL, "a vector has {count} pieces, more than {IOV_LIMIT}");
        }
        if iov.is_null() && count > 0 {
            return refuse!(EINVAL, "a vector of {count} pieces is null");
        }
        for i in 0..count {
            // SAFETY: by the contract of this function.
            let piece = unsafe { &*iov.add(i) };
            regions.push(piece.iov_base, piece.iov_len)?;
        }
        Ok(regions)
    }

    /// The pieces that a receive fills. A peek moves no data, nor does the discarding of what was
    /// claimed: their buffers are ignored, says fi_tagged(3), and callers leave them undefined.
    ///
    /// # Safety
    /// As for [`Regions::read`], unless the flags are such.
    pub(crate) unsafe fn to_receive(iov: *const libc::iovec, count: usize, flags: u64) -> Fi<Self> {
        const DROPS_CLAIMED: u64 = fi::FI_CLAIM | fi::FI_DISCARD;
        if flags & fi::FI_PEEK != 0 || flags & DROPS_CLAIMED == DROPS_CLAIMED {
            return Ok(Self::none());
        }
        // SAFETY: by the contract of this function.
        unsafe { Self::read(iov, count) }
    }

    fn push(&mut self, buf: *const libc::c_void, len: usize) -> Fi<()> {
        let piece = piece(buf, len)?;
        self.len().checked_add(len).ok_or(EINVAL)?;
        self.pieces[self.count] = piece;
        self.count += 1;
        Ok(())
    }

    pub(crate) fn pieces(&self) -> &[Region] {
        &self.pieces[..self.count]
    }

    /// Bytes of all pieces; `push` has made sure that the sum exists.
    pub(crate) fn len(&self) -> usize {
        len_of(self.pieces())
    }
}

/// Bytes of all pieces of a message.
#[inline]
pub(crate) fn len_of(pieces: &[Region]) -> usize {
    pieces.iter().map(|piece| piece.len).sum()
}

/// Which flags hold for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flags {
    /// The endpoint's default ones.
    Default,
    /// These, of a call that takes flags.
    Given(u64),
    /// Those of the inject calls: no completion, and the buffer is free at once.
    Inject,
}

/// A send.
pub(crate) struct SendCall<'a> {
    pub(crate) class: Class,
    pub(crate) pieces: &'a [Region],
    pub(crate) to: fi::fi_addr_t,
    pub(crate) tag: u64,
    pub(crate) data: Option<u64>,
    pub(crate) context: usize,
    pub(crate) flags: Flags,
}

/// A receive, a peek or a claim.
pub(crate) struct RecvCall<'a> {
    pub(crate) class: Class,
    pub(crate) pieces: &'a [Region],
    pub(crate) from: fi::fi_addr_t,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
    pub(crate) context: usize,
    pub(crate) flags: Flags,
}

/// A read or a write, or where an atomic operation goes.
pub(crate) struct RemoteCall {
    pub(crate) regions: Regions,
    pub(crate) to: fi::fi_addr_t,
    pub(crate) address: u64,
    pub(crate) key: u64,
    pub(crate) data: Option<u64>,
    pub(crate) context: usize,
    pub(crate) flags: Flags,
}

/// What an atomic operation has beyond a write.
pub(crate) struct AtomicCall {
    pub(crate) op: AtomicOp,
    pub(crate) comparands: Regions,
    pub(crate) results: Regions,
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn null_is_fine_only_when_empty() {
        assert_eq!(Regions::one(ptr::null(), 0).unwrap().len(), 0);
        assert_eq!(Regions::one(ptr::null(), 1).err(), Some(EINVAL));
        // SAFETY: null with no entries is what is allowed, null with one what is refused.
        unsafe {
            assert_eq!(Regions::read(ptr::null(), 0).unwrap().pieces().len(), 0);
            assert_eq!(Regions::read(ptr::null(), 1).err(), Some(EINVAL));
        }
    }

    #[test]
    fn vectors_are_limited_in_count_and_length() {
        let byte = 0u8;
        let piece =
            |len| libc::iovec { iov_base: (&raw const byte).cast_mut().cast(), iov_len: len };
        let short = [piece(1); IOV_LIMIT + 1];
        let long = [piece(usize::MAX), piece(1)];
        // SAFETY: the entries exist; what they point to is never touched.
        unsafe {
            assert_eq!(Regions::read(short.as_ptr(), IOV_LIMIT).unwrap().len(), IOV_LIMIT);
            assert_eq!(Regions::read(short.as_ptr(), IOV_LIMIT + 1).err(), Some(EINVAL));
            assert_eq!(Regions::read(long.as_ptr(), 2).err(), Some(EINVAL));
        }
    }
}
