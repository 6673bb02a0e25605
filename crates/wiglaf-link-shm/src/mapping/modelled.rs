//! In place of the shared mapping where loom models it (`cargo xtask loom`): the same words and bytes,
//! each as a cell of which loom knows who accesses it, and in which orders that can be.
//!
//! The layout is small then (see [`crate::layout`]); all else is the code that runs.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};

use crate::layout::SEGMENT_LEN;

/// Bytes of a cell of plain memory: what is read and written at once begins and ends at multiples.
const CELL_LEN: usize = 16;

/// One segment.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// What is accessed as a word, by its place.
    words: Vec<AtomicU64>,
    /// What is copied. No place is accessed in both ways.
    bytes: Vec<UnsafeCell<[u8; CELL_LEN]>>,
}

// SAFETY: loom fails where two threads access a cell without an order between them.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// For the code that maps files; models have [`Mapping::fresh`].
    pub(crate) fn new(_: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self::fresh())
    }

    /// All 0.
    pub(crate) fn fresh() -> Self {
        Self {
            words: (0..SEGMENT_LEN / 8).map(|_| AtomicU64::new(0)).collect(),
            bytes: (0..SEGMENT_LEN / CELL_LEN).map(|_| UnsafeCell::new([0; CELL_LEN])).collect(),
        }
    }

    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "a word of the layout");
        &self.words[offset / 8]
    }

    pub(crate) fn write_words<const N: usize>(&self, offset: usize, words: &[u64; N]) {
        for (i, word) in words.iter().enumerate() {
            self.word(offset + 8 * i).store(*word, Ordering::Relaxed);
        }
    }

    pub(crate) fn read_words<const N: usize>(&self, offset: usize) -> [u64; N] {
        std::array::from_fn(|i| self.word(offset + 8 * i).load(Ordering::Relaxed))
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset.is_multiple_of(CELL_LEN), "a cell is written from its beginning");
        for (cell, part) in self.bytes[offset / CELL_LEN..].iter().zip(bytes.chunks(CELL_LEN)) {
            // SAFETY: see `Sync`.
            cell.with_mut(|cell| unsafe { (&mut *cell)[..part.len()].copy_from_slice(part) });
        }
    }

    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        assert!(offset.is_multiple_of(CELL_LEN), "a cell is read from its beginning");
        let cells = &self.bytes[offset / CELL_LEN..];
        for (cell, part) in cells.iter().zip(bytes.chunks_mut(CELL_LEN)) {
            // SAFETY: see `Sync`.
            cell.with(|cell| unsafe { part.copy_from_slice(&(&*cell)[..part.len()]) });
        }
    }

    pub(crate) fn read_to(&self, offset: usize, bytes: &mut [MaybeUninit<u8>]) {
        let mut read = vec![0; bytes.len()];
        self.read(offset, &mut read);
        bytes.write_copy_of_slice(&read);
    }
}
