//! Memory that an operation of several messages works in.
//!
//! Messages are posted with regions of it, so it is raw, like the memory of users; what owns it
//! keeps it until they have ended.

use std::ops::Range;

use crate::atomics::{Element, Function, combine};
use crate::memory::{Region, Regions};

/// A piece of memory, zero at first.
#[derive(Debug)]
pub struct Scratch {
    /// From `Box::into_raw`.
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to the value, whichever thread has it.
unsafe impl Send for Scratch {}

impl Scratch {
    /// `len` bytes.
    #[must_use]
    pub fn new(len: usize) -> Self {
        let memory = vec![0u8; len].into_boxed_slice();
        Self { start: Box::into_raw(memory).cast(), len }
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let memory: Box<[u8]> = bytes.into();
        Self { start: Box::into_raw(memory).cast(), len: bytes.len() }
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of it, for an operation of an endpoint.
    ///
    /// # Panics
    /// When the range does not lie within it; so do the functions below.
    #[must_use]
    pub fn region(&self, range: Range<usize>) -> Region {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        Region { ptr: self.start.wrapping_add(range.start), len: range.len() }
    }

    /// # Safety
    /// No message is being received into the range.
    unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        let Region { ptr, len } = self.region(range);
        // SAFETY: `region` stays within the memory, which is ours; nobody else writes there.
        unsafe { std::slice::from_raw_parts(ptr, len) }
    }

    /// # Safety
    /// No message is being sent from the range or received into it.
    unsafe fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        let Region { ptr, len } = self.region(range);
        // SAFETY: as in `bytes`, and it is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(ptr, len) }
    }

    /// What is in a part of it.
    ///
    /// # Safety
    /// No message is being received into the range.
    #[must_use]
    pub unsafe fn copied(&self, range: Range<usize>) -> Vec<u8> {
        // SAFETY: by the contract of this function.
        unsafe { self.bytes(range) }.to_vec()
    }

    /// Copies a user's memory to position `at`.
    ///
    /// # Safety
    /// `from` is valid for reads. No message is being sent from the range or received into it.
    pub unsafe fn take(&mut self, at: usize, from: Region) {
        // SAFETY: by the contract of this function.
        unsafe {
            let from = Regions::new(&[from]).unwrap_or(Regions::EMPTY);
            from.read(0, self.bytes_mut(at..at + from.len()));
        }
    }

    /// Copies what is at position `at` to a user's memory.
    ///
    /// # Safety
    /// `to` is valid for writes. No message is being received into the range.
    pub unsafe fn give(&self, at: usize, to: Region) {
        // SAFETY: by the contract of this function.
        unsafe {
            let to = Regions::new(&[to]).unwrap_or(Regions::EMPTY);
            to.write(0, self.bytes(at..at + to.len()));
        }
    }

    /// Combines the `len` bytes at `at` with those at the beginning of `from`, element by element.
    /// The element here is the first operand, or with `reversed` the second: for some values the
    /// order shows, and all members of a group are to get the same.
    ///
    /// # Safety
    /// No message is being sent from or received into either range.
    ///
    /// # Panics
    /// When the function compares with a third value.
    pub unsafe fn combine(
        &mut self,
        (at, len): (usize, usize),
        (from, from_at): (&mut Self, usize),
        (function, element): (Function, Element),
        reversed: bool,
    ) {
        // SAFETY: by the contract of this function.
        let (here, there) =
            unsafe { (self.bytes_mut(at..at + len), from.bytes_mut(from_at..from_at + len)) };
        if reversed {
            combine(function, element, there, here);
            here.copy_from_slice(there);
        } else {
            combine(function, element, here, there);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let memory = std::ptr::slice_from_raw_parts_mut(self.start, self.len);
        // SAFETY: made by `Box::into_raw`, with this length.
        drop(unsafe { Box::from_raw(memory) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(bytes: &[f32]) -> Scratch {
        let mut bytes: Vec<u8> = bytes.iter().flat_map(|f| f.to_le_bytes()).collect();
        let mut scratch = Scratch::new(bytes.len());
        let from = Region { ptr: bytes.as_mut_ptr(), len: bytes.len() };
        // SAFETY: the vector lives through the call; nothing is posted.
        unsafe { scratch.take(0, from) };
        scratch
    }

    fn floats(scratch: &Scratch) -> Vec<f32> {
        let mut bytes = vec![0; scratch.len()];
        let to = Region { ptr: bytes.as_mut_ptr(), len: bytes.len() };
        // SAFETY: as above.
        unsafe { scratch.give(0, to) };
        bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }

    #[test]
    fn the_order_of_operands_is_that_of_the_caller() {
        for reversed in [false, true] {
            let (mut a, mut b) = (scratch(&[7.0, f32::NAN, -0.0]), scratch(&[1.0, 3.0, 0.0]));
            // SAFETY: nothing is posted.
            unsafe {
                a.combine((0, 12), (&mut b, 0), (Function::Min, Element::F32), reversed);
            }
            let all = floats(&a);
            assert_eq!(all[0], 1.0);
            // Nothing is less than what is not a number: the first operand stays.
            assert_eq!(all[1].is_nan(), !reversed);
            assert_eq!(all[2].is_sign_negative(), !reversed);
        }
    }

    #[test]
    fn parts_are_combined_in_place() {
        let (mut a, mut b) = (scratch(&[1.0, 2.0, 3.0]), scratch(&[10.0, 20.0]));
        // SAFETY: nothing is posted.
        unsafe { a.combine((4, 4), (&mut b, 4), (Function::Sum, Element::F32), false) };
        assert_eq!(floats(&a), [1.0, 22.0, 3.0]);
    }

    #[test]
    #[should_panic(expected = "4..9 of 8")]
    fn a_range_beyond_the_end_is_refused() {
        let _ = Scratch::new(8).region(4..9);
    }
}
