//! Elements of an MPI's datatypes as plain bytes, one behind the other, and back.

use std::ffi::c_int;

use crate::behind::{self, Any, Family, SUCCESS};

/// A count of elements of a datatype.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elements {
    pub(crate) count: c_int,
    pub(crate) datatype: Any,
    /// Bytes of all elements without gaps.
    pub(crate) len: usize,
    is_dense: bool,
}

impl Elements {
    /// `None` where they have no bytes, or more than a message may have, or MPI will complain of them.
    ///
    /// # Safety
    /// `datatype` is a handle that the program has handed to MPI.
    pub(crate) unsafe fn new(count: c_int, datatype: Any) -> Option<Self> {
        let count_of = u64::try_from(count).ok().filter(|count| *count > 0)?;
        if Family::get().is_no_type(datatype) {
            return None;
        }
        let mut size: c_int = 0;
        // SAFETY: the caller's promise; the answer goes to a live variable.
        let known = unsafe { behind::type_size(datatype, &raw mut size) };
        let size = u64::try_from(size).ok().filter(|size| known == SUCCESS && *size > 0)?;
        // Packing and unpacking count in `int`.
        let len = count_of.checked_mul(size).filter(|len| *len <= c_int::MAX as u64)?;
        // SAFETY: the caller's promise.
        let is_dense = unsafe { is_dense(datatype, size) };
        Some(Self { count, datatype, len: len as usize, is_dense })
    }

    /// The bytes at a buffer, if they lie there as they travel.
    ///
    /// # Safety
    /// `buffer` holds these elements, and nobody else uses them while the answer lives.
    pub(crate) unsafe fn dense<'a>(&self, buffer: Any) -> Option<&'a mut [u8]> {
        let is_usable = self.is_dense && !buffer.is_null();
        // SAFETY: dense elements have `len` bytes, from their address on; the caller's promise for the rest.
        is_usable.then(|| unsafe { std::slice::from_raw_parts_mut(buffer.cast(), self.len) })
    }

    /// The elements of a buffer as bytes.
    ///
    /// # Safety
    /// `buffer` holds these elements; `comm` is a communicator.
    pub(crate) unsafe fn pack(&self, buffer: Any, comm: Any) -> Result<Vec<u8>, Code> {
        // SAFETY: the caller's promise; the bytes are copied at once.
        if let Some(bytes) = unsafe { self.dense(buffer) } {
            return Ok(bytes.to_vec());
        }
        let mut packed = vec![0; self.len];
        let mut position = 0;
        // SAFETY: the caller's promise; `packed` has room for all of them.
        Code::check(unsafe {
            let to = packed.as_mut_ptr().cast();
            let len = self.len as c_int;
            behind::pack(buffer, self.count, self.datatype, to, len, &raw mut position, comm)
        })?;
        Ok(packed)
    }

    /// Writes elements that came as bytes into a buffer.
    ///
    /// # Safety
    /// `buffer` has room for these elements; `comm` is a communicator.
    pub(crate) unsafe fn unpack(&self, packed: &[u8], buffer: Any, comm: Any) -> Result<(), Code> {
        // SAFETY: the caller's promise.
        if let Some(bytes) = unsafe { self.dense(buffer) } {
            bytes.copy_from_slice(packed);
            return Ok(());
        }
        let mut position = 0;
        // SAFETY: the caller's promise; MPI only reads `packed`.
        Code::check(unsafe {
            let from = packed.as_ptr().cast_mut().cast();
            let len = packed.len() as c_int;
            behind::unpack(from, len, &raw mut position, buffer, self.count, self.datatype, comm)
        })
    }

    /// Combines what all ranks have said, by rank: `a op (b op (c op d))`, which is right for operations that do not
    /// commute, and the same in every run.
    ///
    /// # Safety
    /// `op` is an operation on this datatype; `comm` is a communicator; each of `said` has `len` bytes.
    pub(crate) unsafe fn reduce(
        &self,
        said: &[&[u8]],
        into: &mut [u8],
        (op, comm): (Any, Any),
    ) -> Result<(), Code> {
        // SAFETY: the caller's promise.
        let mut left = unsafe { Buffer::new(self) };
        // SAFETY: as above.
        let mut outcome = unsafe { Buffer::new(self) };
        let mut from_last = said.iter().rev();
        if let Some(last) = from_last.next() {
            // SAFETY: a room has the place of all elements.
            unsafe { self.unpack(last, outcome.buffer(), comm) }?;
        }
        for said in from_last {
            // SAFETY: as above; the operation reads one room and writes the other.
            Code::check(unsafe {
                self.unpack(said, left.buffer(), comm)?;
                let (from, into) = (left.buffer(), outcome.buffer());
                behind::reduce_local(from, into, self.count, self.datatype, op)
            })?;
        }
        // SAFETY: as above.
        into.copy_from_slice(&unsafe { self.pack(outcome.buffer(), comm) }?);
        Ok(())
    }
}

/// What an MPI's function says that does not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

impl Code {
    pub(crate) fn check(code: c_int) -> Result<(), Self> {
        if code == SUCCESS { Ok(()) } else { Err(Self(code)) }
    }
}

/// Whether elements lie in memory as they travel: those of a datatype that MPI itself has named, and without gaps.
/// Others may have the same size and yet another order.
///
/// # Safety
/// `datatype` is a handle that the program has handed to MPI.
unsafe fn is_dense(datatype: Any, size: u64) -> bool {
    let [mut integers, mut addresses, mut datatypes, mut combiner] = [0; 4];
    let (mut lower, mut extent) = (0, 0);
    // SAFETY: the caller's promise; all answers go to live variables.
    unsafe {
        behind::type_extent(datatype, &raw mut lower, &raw mut extent);
        behind::type_envelope(
            datatype,
            &raw mut integers,
            &raw mut addresses,
            &raw mut datatypes,
            &raw mut combiner,
        );
    }
    let is_named = [integers, addresses, datatypes] == [0; 3];
    is_named && lower == 0 && u64::try_from(extent) == Ok(size)
}

/// Memory for elements, aligned for all of C's types.
pub(crate) struct Buffer {
    memory: Vec<u128>,
    lower: isize,
}

impl Buffer {
    /// # Safety
    /// The datatype is a handle that the program has handed to MPI.
    pub(crate) unsafe fn new(elements: &Elements) -> Self {
        let (mut lower, mut extent) = (0, 0);
        let (mut true_lower, mut true_extent) = (0, 0);
        // SAFETY: the caller's promise; all answers go to live variables.
        unsafe {
            behind::type_extent(elements.datatype, &raw mut lower, &raw mut extent);
            behind::type_true_extent(elements.datatype, &raw mut true_lower, &raw mut true_extent);
        }
        let between = (elements.count as isize - 1).saturating_mul(extent);
        // Elements may go upwards or downwards from the first.
        let lower = true_lower + between.min(0);
        let len = true_extent + between.abs();
        let len = usize::try_from(len).unwrap_or(0).div_ceil(size_of::<u128>());
        Self { memory: vec![0; len.max(1)], lower }
    }

    /// The address that MPI counts from, so that the first byte used is that of the memory.
    pub(crate) fn buffer(&mut self) -> Any {
        self.memory.as_mut_ptr().cast::<u8>().wrapping_offset(-self.lower).cast()
    }
}
