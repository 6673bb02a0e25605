//! Calls with several pieces of memory.
//!
//! Each is one call of the plain kind, through memory in between, so that no other writer comes
//! between the pieces.

use std::io::{IoSlice, IoSliceMut};

use rustix::io::Errno;

use super::File;
use crate::error::Result;

impl File {
    /// Reads at the position into one piece after the other, and moves it. Fewer bytes than fit come
    /// only at the file's end, or before an error.
    ///
    /// # Errors
    /// Those of readv(2); `EIO` when the server has ended; `ENOMEM` when the pieces together are longer
    /// than what memory there is.
    pub fn read_vectored(&self, into: &mut [IoSliceMut<'_>]) -> Result<usize> {
        let all = self.read_for_pieces(len_of(into.iter().map(|piece| piece.len()))?)?;
        let mut rest = &all[..];
        for piece in into {
            rest = fill_piece(piece, rest);
        }
        Ok(all.len())
    }

    /// Writes at the position what one piece after the other holds, and moves it.
    ///
    /// # Errors
    /// Those of writev(2); `EIO` when the server has ended: then nothing is known of what this call
    /// wrote; `ENOMEM` as for [`File::read_vectored`].
    pub fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> Result<usize> {
        let mut all = empty_with_room(len_of(pieces.iter().map(|piece| piece.len()))?)?;
        for piece in pieces {
            all.extend_from_slice(piece);
        }
        self.write(&all)
    }

    /// What there is to read at the position, `len` bytes at most.
    pub(crate) fn read_for_pieces(&self, len: usize) -> Result<Vec<u8>> {
        let mut all = empty_with_room(len)?;
        all.resize(len, 0);
        let got = self.read(&mut all)?;
        all.truncate(got);
        Ok(all)
    }
}

/// How long pieces of these lengths are together, if one call may be so long.
pub(crate) fn len_of(mut lens: impl Iterator<Item = usize>) -> Result<usize> {
    let len = lens.try_fold(0usize, usize::checked_add);
    Ok(len.filter(|len| isize::try_from(*len).is_ok()).ok_or(Errno::INVAL)?)
}

/// Memory for the bytes of all pieces, of which a caller may name more than there is.
pub(crate) fn empty_with_room(len: usize) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    all.try_reserve_exact(len).map_err(|_| Errno::NOMEM)?;
    Ok(all)
}

/// Puts as many bytes into a piece as both have; answers the rest of them.
pub(crate) fn fill_piece<'a>(piece: &mut [u8], bytes: &'a [u8]) -> &'a [u8] {
    let (now, later) = bytes.split_at(bytes.len().min(piece.len()));
    piece[..now.len()].copy_from_slice(now);
    later
}
