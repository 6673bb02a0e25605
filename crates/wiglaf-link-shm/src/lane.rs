//! The near lane of one sender: single producer, single consumer, each of
//! whom believes the other's words only as far as they can be true.
//!
//! A record is a cell of one cache line. Its first word says that it is there,
//! so that a short record costs one line from core to core and not two. The
//! word holds the number of the record: what an earlier lap left in a cell has
//! another one, and nothing need be cleared. Longer payloads lie in a byte
//! ring beside the cells and never wrap.

use std::mem::MaybeUninit;

use wiglaf_link::near::{Head, Payload};

use crate::layout::{
    AT_BYTES, AT_BYTES_TAKEN, AT_CELLS, AT_CELLS_TAKEN, BYTES_LEN, CELL_LEN, CELLS, PAYLOAD_LEN_MAX,
};
use crate::mapping::Mapping;
use crate::ring::Nonsense;
use crate::sync::Ordering;

/// Words of a cell behind its first.
pub(crate) const BODY_WORDS: usize = CELL_LEN / 8 - 1;
const HEAD_WORDS: usize = size_of::<Head>() / 8;
/// Longest payload within a cell.
pub(crate) const INLINE_LEN: usize = 8 * (BODY_WORDS - HEAD_WORDS);
/// In place of a length: the body introduces the sender.
const HELLO: u32 = u32::MAX;
/// Payloads in the byte ring begin at multiples of this.
const ALIGN: u64 = 64;

/// The body of a cell.
pub(crate) type Body = [u64; BODY_WORDS];

/// The writing end.
#[derive(Debug)]
pub(crate) struct Producer {
    base: usize,
    /// Numbers of the next record and the next byte.
    cell: u64,
    byte: u64,
    /// What the receiver was seen to have taken out.
    cells_taken: u64,
    bytes_taken: u64,
}

impl Producer {
    /// Continues the lane of the slot at `base` where the last sender left it,
    /// at whichever instruction that died.
    pub(crate) fn resume(map: &Mapping, base: usize) -> Result<Self, Nonsense> {
        // In this order: a receiver that goes on meanwhile tells of bytes first, so these may be
        // ahead of the cells, and never behind.
        let cells_taken = map.word(base + AT_CELLS_TAKEN).load(Ordering::Acquire);
        let bytes_taken = map.word(base + AT_BYTES_TAKEN).load(Ordering::Acquire);
        let sane = |position: u64| position < 1 << 62;
        if !sane(cells_taken) || !sane(bytes_taken) || !bytes_taken.is_multiple_of(ALIGN) {
            return Err(Nonsense);
        }
        // What the last sender published and nobody has taken yet stays.
        let mut byte = bytes_taken;
        let mut cell = cells_taken;
        while cell - cells_taken < CELLS as u64
            && let Some(found) = Cell::read(map, base, cell)
        {
            if !found.is_taken(bytes_taken)
                && let Some(end) = found.end_of_bytes(byte)?
            {
                byte = end;
            }
            cell += 1;
        }
        Ok(Self { base, cell, byte, cells_taken, bytes_taken })
    }

    /// Records so far.
    pub(crate) fn count(&self) -> u64 {
        self.cell
    }

    /// How many of them the receiver has taken out.
    pub(crate) fn taken(&self, map: &Mapping) -> u64 {
        map.word(self.base + AT_CELLS_TAKEN).load(Ordering::Acquire)
    }

    /// Introduces the sender, or says `false` when there is no room now.
    pub(crate) fn push_hello(&mut self, map: &Mapping, body: &Body) -> Result<bool, Nonsense> {
        if !self.has_cell(map)? {
            return Ok(false);
        }
        self.publish(map, body, HELLO);
        Ok(true)
    }

    /// Writes a record, or says `false` when there is no room now.
    pub(crate) fn push(
        &mut self,
        map: &Mapping,
        head: &Head,
        payload: &[&[u8]],
    ) -> Result<bool, Nonsense> {
        let len: usize = payload.iter().copied().map(<[u8]>::len).sum();
        if !self.has_cell(map)? || len > PAYLOAD_LEN_MAX {
            return Ok(false);
        }
        let [a, b, c] = *head;
        let [d, e, f, g] = if len <= INLINE_LEN {
            inline_words(payload)
        } else {
            let Some(byte) = self.place(map, len)? else { return Ok(false) };
            let mut at = byte_offset(self.base, byte);
            for piece in payload {
                map.write(at, piece);
                at += piece.len();
            }
            self.byte = byte + padded(len);
            [byte, 0, 0, 0]
        };
        self.publish(map, &[a, b, c, d, e, f, g], len as u32);
        Ok(true)
    }

    #[inline]
    fn publish(&mut self, map: &Mapping, body: &Body, len: u32) {
        let at = cell_offset(self.base, self.cell);
        map.write_words(at + 8, body);
        // Release: who sees the word sees the record.
        map.word(at).store(word(self.cell, len), Ordering::Release);
        self.cell += 1;
    }

    fn has_cell(&mut self, map: &Mapping) -> Result<bool, Nonsense> {
        if self.cell - self.cells_taken < CELLS as u64 {
            return Ok(true);
        }
        let taken = map.word(self.base + AT_CELLS_TAKEN).load(Ordering::Acquire);
        if taken < self.cells_taken || taken > self.cell {
            return Err(Nonsense);
        }
        self.cells_taken = taken;
        Ok(self.cell - taken < CELLS as u64)
    }

    /// Where a payload goes, if there is room.
    fn place(&mut self, map: &Mapping, len: usize) -> Result<Option<u64>, Nonsense> {
        let before_end = BYTES_LEN as u64 - self.byte % BYTES_LEN as u64;
        let byte = if len as u64 <= before_end { self.byte } else { self.byte + before_end };
        let end = byte + padded(len);
        if end - self.bytes_taken > BYTES_LEN as u64 {
            let taken = map.word(self.base + AT_BYTES_TAKEN).load(Ordering::Acquire);
            if taken < self.bytes_taken || taken > self.byte {
                return Err(Nonsense);
            }
            self.bytes_taken = taken;
        }
        Ok((end - self.bytes_taken <= BYTES_LEN as u64).then_some(byte))
    }
}

/// A cell that holds a record; its body has been copied out.
#[derive(Debug)]
pub(crate) struct Cell {
    len: u32,
    body: Body,
}

impl Cell {
    /// The record of that number, if it is there.
    #[inline]
    fn read(map: &Mapping, base: usize, number: u64) -> Option<Self> {
        let at = cell_offset(base, number);
        // Acquire: pairs with the producer's release.
        let found = map.word(at).load(Ordering::Acquire);
        let len = found as u32;
        (found == word(number, len)).then(|| Self { len, body: map.read_words(at + 8) })
    }

    /// The introduction of a sender, if it is one.
    pub(crate) fn hello(&self) -> Option<&Body> {
        (self.len == HELLO).then_some(&self.body)
    }

    #[inline]
    pub(crate) fn head(&self) -> Head {
        [self.body[0], self.body[1], self.body[2]]
    }

    /// Which byte the payload begins at, if it lies in the byte ring.
    #[inline]
    fn byte(&self) -> Option<u64> {
        let outside = self.len != HELLO && self.len as usize > INLINE_LEN;
        outside.then_some(self.body[HEAD_WORDS])
    }

    /// Whether its payload lies among the bytes that have been taken.
    fn is_taken(&self, taken: u64) -> bool {
        self.byte().is_some_and(|byte| byte.saturating_add(padded(self.len as usize)) <= taken)
    }

    /// Where the payload ends in the byte ring, if it lies there, after
    /// `taken` bytes: as far as that can be true.
    #[inline]
    fn end_of_bytes(&self, taken: u64) -> Result<Option<u64>, Nonsense> {
        let Some(byte) = self.byte() else { return Ok(None) };
        let (len, ring) = (self.len as usize, BYTES_LEN as u64);
        if len > PAYLOAD_LEN_MAX || !byte.is_multiple_of(ALIGN) || byte < taken {
            return Err(Nonsense);
        }
        let end = byte.checked_add(padded(len)).ok_or(Nonsense)?;
        if end - taken > ring || byte % ring + len as u64 > ring {
            return Err(Nonsense);
        }
        Ok(Some(end))
    }
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Consumer {
    base: usize,
    cell: u64,
    byte: u64,
}

impl Consumer {
    /// Reads the slot at `base` from the beginning.
    pub(crate) fn new(base: usize) -> Self {
        Self { base, cell: 0, byte: 0 }
    }

    /// Whether something waits.
    pub(crate) fn has_some(&self, map: &Mapping) -> bool {
        let found = map.word(cell_offset(self.base, self.cell)).load(Ordering::Acquire);
        found == word(self.cell, found as u32)
    }

    /// The next record, which stays until [`Consumer::take`].
    #[inline]
    pub(crate) fn peek(&self, map: &Mapping) -> Result<Option<(Cell, u64)>, Nonsense> {
        let Some(cell) = Cell::read(map, self.base, self.cell) else { return Ok(None) };
        let end = cell.end_of_bytes(self.byte)?.unwrap_or(self.byte);
        Ok(Some((cell, end)))
    }

    /// The payload of a record that [`Consumer::peek`] found, in the byte ring.
    #[inline]
    pub(crate) fn outside<'a>(&self, map: &'a Mapping, cell: &Cell) -> Option<Outside<'a>> {
        let byte = cell.byte()?;
        Some(Outside { map, offset: byte_offset(self.base, byte), len: cell.len as usize })
    }

    /// Gives the room of the next record back, whose bytes end at `end`.
    #[inline]
    pub(crate) fn take(&mut self, map: &Mapping, end: u64) {
        // Release: the record has been read before its room is given back.
        if end != self.byte {
            self.byte = end;
            map.word(self.base + AT_BYTES_TAKEN).store(end, Ordering::Release);
        }
        self.cell += 1;
        map.word(self.base + AT_CELLS_TAKEN).store(self.cell, Ordering::Release);
    }
}

/// A payload that lies in shared memory: it is copied before it is looked at.
#[derive(Debug)]
pub(crate) struct Outside<'a> {
    map: &'a Mapping,
    offset: usize,
    len: usize,
}

impl Payload for Outside<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, offset: usize, out: &mut [MaybeUninit<u8>]) {
        assert!(out.len() <= self.len - offset.min(self.len), "within the payload");
        self.map.read_to(self.offset + offset, out);
    }
}

/// A payload that the cell itself held.
#[derive(Debug)]
pub(crate) struct Inside {
    bytes: [[u8; 8]; INLINE_LEN / 8],
    len: usize,
}

impl Inside {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes.as_flattened()[..self.len]
    }
}

impl Cell {
    /// The payload, where the cell itself holds it.
    #[inline]
    pub(crate) fn inside(&self) -> Inside {
        let [_, _, _, payload @ ..] = self.body;
        Inside { bytes: payload.map(u64::to_ne_bytes), len: (self.len as usize).min(INLINE_LEN) }
    }
}

/// A payload of up to [`INLINE_LEN`] bytes as words.
#[inline]
fn inline_words(payload: &[&[u8]]) -> [u64; INLINE_LEN / 8] {
    // Most are of 8 bytes.
    if let [piece] = payload
        && let Some(bytes) = piece.as_array()
    {
        return [u64::from_ne_bytes(*bytes), 0, 0, 0];
    }
    let (mut words, mut at) = ([[0; 8]; INLINE_LEN / 8], 0);
    for piece in payload {
        words.as_flattened_mut()[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    words.map(u64::from_ne_bytes)
}

/// The first word of the cell of record `number`.
#[inline]
fn word(number: u64, len: u32) -> u64 {
    // The low half of the number is enough: a cell's last record was CELLS before.
    (number + 1) << 32 | u64::from(len)
}

fn padded(len: usize) -> u64 {
    (len as u64).next_multiple_of(ALIGN)
}

fn cell_offset(base: usize, number: u64) -> usize {
    base + AT_CELLS + (number as usize & (CELLS - 1)) * CELL_LEN
}

fn byte_offset(base: usize, byte: u64) -> usize {
    base + AT_BYTES + (byte as usize & (BYTES_LEN - 1))
}

#[cfg(all(test, not(loom)))]
mod tests;
