//! Our own MPI operations: any nonzero is true, and -1 is what they write.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::{mem, slice};

use crate::handles::{self, Handle, Logical};
use crate::setting::fail;
use wiglaf_interpose::Next;

/// `MPI_User_function`, as Fortran declares it.
type Function = unsafe extern "C" fn(*const c_void, *mut c_void, *const c_int, *const Handle);
/// `MPI_OP_CREATE(USER_FN, COMMUTE, OP, IERROR)`.
type OpCreate = unsafe extern "C" fn(Function, *const c_int, *mut Handle, *mut c_int);
/// `MPI_TYPE_SIZE(DATATYPE, SIZE, IERROR)`.
type TypeSize = unsafe extern "C" fn(*const Handle, *mut c_int, *mut c_int);

// The profiling names: these calls are ours, not the program's. Every MPI has
// this mangling beside those of other compilers.
static OP_CREATE: Next = Next::new(crate::NAME, "pmpi_op_create_\0");
static TYPE_SIZE: Next = Next::new(crate::NAME, "pmpi_type_size_\0");

/// The handle of our operation, which lives as long as the process. Must only
/// be called between MPI_Init and MPI_Finalize, as any reduction.
pub(crate) fn handle(logical: Logical) -> Handle {
    static HANDLES: [OnceLock<Handle>; 3] = [const { OnceLock::new() }; 3];
    let function: Function = match logical {
        Logical::And => and,
        Logical::Or => or,
        Logical::Xor => xor,
    };
    *HANDLES[logical as usize].get_or_init(|| create(function))
}

fn create(function: Function) -> Handle {
    // SAFETY: the address is that of MPI_OP_CREATE in MPI's Fortran library,
    // which has this interface in every MPI: all by reference, default INTEGERs.
    let op_create: OpCreate = unsafe { mem::transmute(OP_CREATE.address()) };
    // To commute is .TRUE. of MPI's own compiler; an MPI that reads it otherwise only loses speed.
    let (commute, mut operation, mut error) = (1, 0, 0);
    // SAFETY: MPI is initialised, as the program calls a reduction; all
    // arguments are live INTEGERs, and the function lives for ever.
    unsafe { op_create(function, &commute, &mut operation, &mut error) };
    if error != 0 {
        fail(&format!("MPI_Op_create failed with error {error}"));
    }
    operation
}

/// The size of a LOGICAL. The default kind's depends on how MPI was built.
fn size_bytes(datatype: Handle) -> usize {
    static DEFAULT: OnceLock<usize> = OnceLock::new();
    handles::fixed_size_bytes(datatype).unwrap_or_else(|| {
        *DEFAULT.get_or_init(|| {
            // SAFETY: the address is that of MPI_TYPE_SIZE, which has this
            // interface in every MPI.
            let type_size: TypeSize = unsafe { mem::transmute(TYPE_SIZE.address()) };
            let (mut size, mut error) = (0, 0);
            // SAFETY: MPI is initialised, and all arguments are live INTEGERs.
            unsafe { type_size(&datatype, &mut size, &mut error) };
            usize::try_from(size).unwrap_or(0)
        })
    })
}

/// Makes MPI's callback of a function of two truths.
macro_rules! callback {
    ($name:ident, $truth:expr) => {
        unsafe extern "C" fn $name(
            input: *const c_void,
            both: *mut c_void,
            count: *const c_int,
            datatype: *const Handle,
        ) {
            // SAFETY: MPI hands its user functions pointers to an INTEGER and
            // to a handle, both readable.
            let (count, datatype) = unsafe { (*count, *datatype) };
            let bytes = usize::try_from(count).unwrap_or(0) * size_bytes(datatype);
            if bytes == 0 {
                return;
            }
            // SAFETY: MPI's user functions get two buffers of `count` elements
            // of `datatype`, which do not overlap. Bytes need no alignment.
            let (input, both) = unsafe {
                (
                    slice::from_raw_parts(input.cast::<u8>(), bytes),
                    slice::from_raw_parts_mut(both.cast::<u8>(), bytes),
                )
            };
            match size_bytes(datatype) {
                1 => combine::<1>(input, both, $truth),
                2 => combine::<2>(input, both, $truth),
                4 => combine::<4>(input, both, $truth),
                8 => combine::<8>(input, both, $truth),
                size => fail(&format!("a LOGICAL of {size} bytes is none that this library knows")),
            }
        }
    };
}

callback!(and, |a, b| a & b);
callback!(or, |a, b| a | b);
callback!(xor, |a, b| a ^ b);

/// Combines elements of `N` bytes into `both`.
fn combine<const N: usize>(input: &[u8], both: &mut [u8], truth: impl Fn(bool, bool) -> bool) {
    let (input, _) = input.as_chunks::<N>();
    let (both, _) = both.as_chunks_mut::<N>();
    for (a, b) in input.iter().zip(both) {
        let result = truth(*a != [0; N], *b != [0; N]);
        *b = if result { [0xff; N] } else { [0; N] };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(values: &[i32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    #[test]
    fn any_nonzero_is_true_and_minus_one_is_written() {
        // Last, a true that only its highest byte shows.
        let input = words(&[-1, 1, 0, 0, 2, 0x0100_0000]);
        let before = words(&[-1, 0, 1, 0, -1, 0]);
        let run = |function: Function| {
            let mut both = before.clone();
            // MPI_LOGICAL4 of Open MPI: its size needs no MPI to be known.
            let (count, datatype) = (6, 31);
            // SAFETY: both buffers hold 6 elements of 4 bytes, and do not overlap.
            unsafe { function(input.as_ptr().cast(), both.as_mut_ptr().cast(), &count, &datatype) };
            both
        };
        assert_eq!(run(and), words(&[-1, 0, 0, 0, -1, 0]));
        assert_eq!(run(or), words(&[-1, -1, -1, 0, -1, -1]));
        assert_eq!(run(xor), words(&[0, -1, -1, 0, 0, -1]));
    }

    #[test]
    fn every_size_of_a_logical() {
        for (datatype, size) in [(29, 1), (30, 2), (31, 4), (32, 8)] {
            let input = vec![0x80_u8; size * 3];
            let mut both = vec![0_u8; size * 3];
            let count = 3;
            // SAFETY: both buffers hold 3 elements of `size` bytes, and do not overlap.
            unsafe { or(input.as_ptr().cast(), both.as_mut_ptr().cast(), &count, &datatype) };
            assert_eq!(both, vec![0xff; size * 3]);
        }
    }

    #[test]
    fn no_elements_are_no_work() {
        let (count, datatype) = (0, 31);
        // SAFETY: no element is read or written.
        unsafe { and(std::ptr::null(), std::ptr::null_mut(), &count, &datatype) };
    }
}
