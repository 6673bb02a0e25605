//! A shared mapping of a segment: all access to memory that other processes
//! write is here, and goes through checked offsets.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::layout::SEGMENT_LEN;

/// One mapped segment.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
}

// SAFETY: the memory is shared between processes anyway: it is read and
// written only atomically or by copying.
unsafe impl Send for Mapping {}

// SAFETY: as for `Send`: two threads are to it what two processes are, and each
// ring has one producer and one consumer, whom `&mut` keeps apart.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file of [`SEGMENT_LEN`] bytes.
    pub(crate) fn new(file: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: a fresh mapping; nothing is mapped over.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                SEGMENT_LEN,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base })
    }

    /// The shared word at `offset`.
    #[inline]
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= SEGMENT_LEN, "a word of the layout");
        // SAFETY: within the mapping and aligned, as was just checked; the
        // mapping lives as long as the borrow of `self`; every process
        // accesses words of the layout atomically, and a stranger's writes
        // are those of any other process to shared memory.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Writes words from `offset` on, one by one: a wider copy of what has just been written in
    /// parts would wait until the parts have left the store buffer.
    #[inline]
    pub(crate) fn write_words<const N: usize>(&self, offset: usize, words: &[u64; N]) {
        assert!(offset.is_multiple_of(8) && offset + 8 * N <= SEGMENT_LEN, "words of the layout");
        for (i, word) in words.iter().enumerate() {
            // SAFETY: as for `word`.
            let cell =
                unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset + 8 * i).cast()) };
            cell.store(*word, Ordering::Relaxed);
        }
    }

    /// Reads words from `offset` on, one by one.
    #[inline]
    pub(crate) fn read_words<const N: usize>(&self, offset: usize) -> [u64; N] {
        assert!(offset.is_multiple_of(8) && offset + 8 * N <= SEGMENT_LEN, "words of the layout");
        std::array::from_fn(|i| {
            // SAFETY: as for `word`.
            let cell =
                unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset + 8 * i).cast()) };
            cell.load(Ordering::Relaxed)
        })
    }

    /// Copies `bytes` to `offset`.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= SEGMENT_LEN, "within the segment");
        // SAFETY: within the mapping, as was just checked; private memory
        // does not overlap it.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.base.as_ptr().add(offset),
                bytes.len(),
            );
        }
    }

    /// Copies from `offset` to `bytes`: what arrives is looked at only in
    /// private memory, where a hostile writer can no longer change it.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        let len = bytes.len();
        // SAFETY: `read_to` writes initialized bytes only.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<MaybeUninit<u8>>(), len)
        };
        self.read_to(offset, bytes);
    }

    /// Copies from `offset` to memory that may hold nothing yet; all of it is written.
    pub(crate) fn read_to(&self, offset: usize, bytes: &mut [MaybeUninit<u8>]) {
        assert!(offset + bytes.len() <= SEGMENT_LEN, "within the segment");
        // SAFETY: as for `write`.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.base.as_ptr().add(offset),
                bytes.as_mut_ptr().cast(),
                bytes.len(),
            );
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made in `new` with this length; no borrow outlives `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), SEGMENT_LEN) };
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::Mapping;

    /// A mapping for the two ends of a ring in two threads.
    #[derive(Clone, Copy)]
    pub(crate) struct Shared<'a>(pub(crate) &'a Mapping);

    // SAFETY: the two ends of a ring never access the same bytes at the same time; that they do
    // not is what the tests that use this find out, under ThreadSanitizer.
    unsafe impl Send for Shared<'_> {}

    impl<'a> Shared<'a> {
        pub(crate) fn get(self) -> &'a Mapping {
            self.0
        }
    }
}
