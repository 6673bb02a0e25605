//! User memory: the one module that touches it.
//!
//! Regions are raw because libfabric and MPI hand over raw pointers; who
//! posts them promises in `unsafe fn post_*` that they stay valid until the
//! operation ends. Everything else in this crate is safe code.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use wiglaf_link::near::Payload;
use wiglaf_wire::Crc32c;

/// Most regions of one operation.
pub const REGIONS_MAX: usize = 4;

/// A piece of user memory.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    /// Its first byte; may be null when `len` is 0.
    pub ptr: *mut u8,
    /// Its length in bytes.
    pub len: usize,
}

impl Region {
    /// The bytes to be sent; nothing where a null pointer claims to have some.
    ///
    /// # Safety
    /// The region must be valid for reads, and unchanged, as long as the result is used.
    #[inline]
    pub(crate) unsafe fn bytes(&self) -> Option<&[u8]> {
        if self.len == 0 {
            return Some(&[]);
        }
        // SAFETY: by the contract of this function.
        (!self.ptr.is_null()).then(|| unsafe { std::slice::from_raw_parts(self.ptr, self.len) })
    }
}

/// The memory of one operation: up to [`REGIONS_MAX`] regions, one behind the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Regions {
    all: [Region; REGIONS_MAX],
    len: usize,
}

// SAFETY: the regions belong to the operation that was posted with them; the
// endpoint that holds it is used by one thread at a time, whichever that is.
unsafe impl Send for Regions {}

impl Regions {
    pub(crate) const EMPTY: Self =
        Self { all: [Region { ptr: std::ptr::null_mut(), len: 0 }; REGIONS_MAX], len: 0 };

    /// Takes the regions of an operation, or `None` when there are too many
    /// or a null one is not empty.
    ///
    /// # Safety
    /// Each region must be valid for reads (sends) or writes (receives) until
    /// the operation that holds the result has ended.
    pub(crate) unsafe fn new(regions: &[Region]) -> Option<Self> {
        let mut this = Self::EMPTY;
        if let [one] = regions {
            // Without a call: most have one.
            this.all[0] = *one;
        } else {
            this.all.get_mut(..regions.len())?.copy_from_slice(regions);
        }
        for region in regions {
            if region.ptr.is_null() && region.len > 0 {
                return None;
            }
            this.len = this.len.checked_add(region.len)?;
        }
        Some(this)
    }

    /// Bytes in all regions.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// First byte of the first region.
    pub(crate) fn start(&self) -> *mut u8 {
        self.all[0].ptr
    }

    /// The part of a single region from `from` on, at most `len` long.
    pub(crate) fn slice(&self, from: usize, len: usize) -> Self {
        let from = from.min(self.all[0].len);
        let len = len.min(self.all[0].len - from);
        let mut this = Self::EMPTY;
        // `from` lies inside the region, so the pointer does too.
        this.all[0] = Region { ptr: self.all[0].ptr.wrapping_add(from), len };
        this.len = len;
        this
    }

    /// Calls `each` with the pieces of memory for bytes `offset..offset + len`,
    /// as far as there are any: pointer, position in the range, length.
    fn pieces(&self, offset: usize, len: usize, mut each: impl FnMut(*mut u8, usize, usize)) {
        let (mut skip, mut done) = (offset, 0);
        if len == 0 {
            return;
        }
        for region in &self.all {
            if skip >= region.len {
                skip -= region.len;
                continue;
            }
            let count = (region.len - skip).min(len - done);
            each(region.ptr.wrapping_add(skip), done, count);
            skip = 0;
            done += count;
            if done == len {
                return;
            }
        }
    }

    /// Copies `bytes` to position `offset`; what does not fit is left out.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        self.pieces(offset, bytes.len(), |ptr, at, len| {
            let from = &bytes[at..at + len];
            // SAFETY: `pieces` stays inside the regions, which `new`'s caller
            // promised to be valid for writes; user memory does not overlap ours.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), ptr, len) };
        });
    }

    /// Copies a payload to the beginning; what does not fit is left out.
    pub(crate) fn take(&self, payload: &dyn Payload) {
        let first = self.all[0];
        let len = payload.len();
        if (1..=first.len).contains(&len) {
            // SAFETY: as in `write`; the borrow ends with this call.
            payload.read(0, unsafe { std::slice::from_raw_parts_mut(first.ptr.cast(), len) });
            return;
        }
        self.with_room(0, payload.len(), |room| {
            let mut at = 0;
            for piece in room {
                payload.read(at, piece);
                at += piece.len();
            }
        });
    }

    /// Hands over the memory for bytes `offset..offset + len`, as far as there is any.
    pub(crate) fn with_room<R>(
        &self,
        offset: usize,
        len: usize,
        f: impl FnOnce(&mut [&mut [MaybeUninit<u8>]]) -> R,
    ) -> R {
        let mut room: [&mut [MaybeUninit<u8>]; REGIONS_MAX] = Default::default();
        let mut count = 0;
        self.pieces(offset, len, |ptr, _, len| {
            // SAFETY: as in `write`; the borrow ends with this call, and the
            // pieces of one call do not overlap unless the user's regions do,
            // which `new`'s caller may not post to receive in.
            room[count] = unsafe { std::slice::from_raw_parts_mut(ptr.cast(), len) };
            count += 1;
        });
        f(&mut room[..count])
    }

    /// Hands over bytes `offset..offset + len`, as far as there are any.
    pub(crate) fn with_bytes<R>(
        &self,
        offset: usize,
        len: usize,
        f: impl FnOnce(&[&[u8]]) -> R,
    ) -> R {
        let first = self.all[0];
        if offset == 0 && (1..=first.len).contains(&len) {
            // SAFETY: as in `read`; the user does not change them meanwhile.
            return f(&[unsafe { std::slice::from_raw_parts(first.ptr, len) }]);
        }
        let mut bytes: [&[u8]; REGIONS_MAX] = Default::default();
        let mut count = 0;
        self.pieces(offset, len, |ptr, _, len| {
            // SAFETY: as in `read`; the user does not change them meanwhile.
            bytes[count] = unsafe { std::slice::from_raw_parts(ptr, len) };
            count += 1;
        });
        f(&bytes[..count])
    }

    /// Where the bytes are, for a process that may read this one's memory.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (u64, u64)> {
        let some = self.all.iter().filter(|region| region.len > 0);
        some.map(|region| (region.ptr.expose_provenance() as u64, region.len as u64))
    }

    /// Fills `out` from position `offset` on; what lies beyond the end stays as it is.
    pub(crate) fn read(&self, offset: usize, out: &mut [u8]) {
        let wanted = out.len();
        self.pieces(offset, wanted, |ptr, at, len| {
            let to = &mut out[at..at + len];
            // SAFETY: as in `write`, for reads.
            unsafe { std::ptr::copy_nonoverlapping(ptr, to.as_mut_ptr(), len) };
        });
    }

    /// As [`Regions::read`], of memory that nobody changes meanwhile: not of what is exposed. Answers
    /// `sum` continued over `out`.
    pub(crate) fn read_summed(&self, offset: usize, out: &mut [u8], mut sum: Crc32c) -> Crc32c {
        let mut end = 0;
        self.pieces(offset, out.len(), |ptr, at, len| {
            end = at + len;
            // SAFETY: as in `read`; the user does not change them meanwhile.
            let piece = unsafe { std::slice::from_raw_parts(ptr, len) };
            sum = sum.copy(piece, &mut out[at..end]);
        });
        sum.over(&out[end..])
    }

    /// All bytes, in memory of our own.
    pub(crate) fn copied(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.read(0, &mut bytes);
        bytes
    }

    /// Where the `len` bytes at `offset` are, if they lie together and aligned; else null.
    fn element(&self, offset: usize, len: usize) -> *mut u8 {
        let mut place = std::ptr::null_mut();
        self.pieces(offset, len, |ptr, _, count| {
            if count == len && ptr.addr().is_multiple_of(len) {
                place = ptr;
            }
        });
        place
    }

    /// Reads the element at `offset`, as indivisibly as [`Regions::update`] changes it. Nothing is
    /// stored: its owner may have memory that can only be read.
    pub(crate) fn load(&self, offset: usize, out: &mut [u8]) {
        let place = self.element(offset, out.len());
        macro_rules! load {
            ($cell:ty) => {{
                // SAFETY: as in `update`, for reads.
                let cell = unsafe { <$cell>::from_ptr(place.cast()) };
                out.copy_from_slice(&cell.load(Ordering::Acquire).to_le_bytes());
            }};
        }
        match out.len() {
            1 if !place.is_null() => load!(AtomicU8),
            2 if !place.is_null() => load!(AtomicU16),
            4 if !place.is_null() => load!(AtomicU32),
            8 if !place.is_null() => load!(AtomicU64),
            _ => self.read(offset, out),
        }
    }

    /// Replaces the `len` bytes at `offset` by what `change` makes of them.
    ///
    /// Aligned elements of 1, 2, 4 and 8 bytes are changed indivisibly, also
    /// for other threads and processes; `change` may then be called again.
    pub(crate) fn update(&self, offset: usize, len: usize, mut change: impl FnMut(&mut [u8])) {
        let place = self.element(offset, len);
        macro_rules! exchange {
            ($cell:ty, $bits:ty) => {{
                // SAFETY: `pieces` stays inside the regions, which are valid for reads and
                // writes; alignment was checked, and atomics may share memory with anybody.
                let cell = unsafe { <$cell>::from_ptr(place.cast()) };
                let changed = |old: $bits| {
                    let mut bytes = old.to_le_bytes();
                    change(&mut bytes);
                    Some(<$bits>::from_le_bytes(bytes))
                };
                let _ = cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed);
            }};
        }
        match len {
            1 if !place.is_null() => exchange!(AtomicU8, u8),
            2 if !place.is_null() => exchange!(AtomicU16, u16),
            4 if !place.is_null() => exchange!(AtomicU32, u32),
            8 if !place.is_null() => exchange!(AtomicU64, u64),
            _ => {
                let mut bytes = vec![0; len];
                self.read(offset, &mut bytes);
                change(&mut bytes);
                self.write(offset, &bytes);
            }
        }
    }
}

/// Bytes as memory to be written.
pub(crate) fn as_room(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: same layout; whoever gets it writes initialized bytes: it is
    // handed to `Payload::read` and to the kernel only.
    unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(bytes: &mut [u8]) -> Region {
        Region { ptr: bytes.as_mut_ptr(), len: bytes.len() }
    }

    #[test]
    fn scatters_and_gathers_across_regions() {
        let (mut a, mut b, mut c) = ([0; 3], [0; 0], [0; 5]);
        // SAFETY: the arrays outlive `regions`.
        let regions =
            unsafe { Regions::new(&[region(&mut a), region(&mut b), region(&mut c)]) }.unwrap();
        assert_eq!(regions.len(), 8);
        regions.write(1, &[1, 2, 3, 4]);
        let mut out = [9; 6];
        regions.read(0, &mut out);
        assert_eq!(out, [0, 1, 2, 3, 4, 0]);
        regions.write(6, &[7, 8, 9, 9, 9]); // three bytes too many: left out
        regions.read(4, &mut out);
        assert_eq!(out, [4, 0, 7, 8, 4, 0]);
    }

    #[test]
    fn what_is_read_is_summed() {
        let mut bytes: Vec<u8> = (0..1200).map(|i| (i * 7) as u8).collect();
        let (front, back) = bytes.split_at_mut(500);
        let mut none = [0; 0];
        // SAFETY: the bytes outlive `regions`.
        let regions =
            unsafe { Regions::new(&[region(front), region(&mut none), region(back)]) }.unwrap();
        let before = Crc32c::EMPTY.over(b"before");
        for (offset, len) in [(0, 1200), (0, 500), (300, 400), (500, 700), (1000, 400), (1300, 200)]
        {
            let (mut read, mut summed) = (vec![5; len], vec![5; len]);
            regions.read(offset, &mut read);
            let sum = regions.read_summed(offset, &mut summed, before);
            assert!(summed == read && sum == before.over(&read), "{len} from {offset} on");
        }
    }

    #[test]
    fn refuses_null_and_too_many() {
        let null = Region { ptr: std::ptr::null_mut(), len: 1 };
        // SAFETY: a null region is refused, empty ones are never touched.
        unsafe {
            assert!(Regions::new(&[null]).is_none());
            assert!(Regions::new(&[Region { len: 0, ..null }]).is_some());
            assert!(Regions::new(&[Region { len: 0, ..null }; REGIONS_MAX + 1]).is_none());
        }
    }

    #[test]
    #[ignore = "reads what is not its own: cargo xtask asan, and miri, must find it"]
    fn a_read_beyond_the_end_that_must_be_found() {
        let memory = std::hint::black_box(vec![1u8; 16]);
        let at = memory.as_ptr().wrapping_add(std::hint::black_box(16));
        // SAFETY: there is none: what looks for such reads is shown one.
        std::hint::black_box(unsafe { at.read_volatile() });
    }
}
