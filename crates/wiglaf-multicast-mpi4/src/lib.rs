//! `libwiglaf-multicast-mpi4.so`: collectives of MPI 4.0 whose counts may be large (`MPI_Bcast_c` and so on).
//!
//! mpi4py calls these functions wherever the MPI has them, with small counts, too. Preloaded before
//! `libwiglaf-multicast.so`, this library hands a call whose counts are `int`s to the function without `_c`, which is
//! that library's, and any other call to the MPI. It stands apart because a program that looks for such functions must
//! find them only where the MPI has them.
//!
//! Ranks may say different counts of different types for the same bytes, so one may go by the group and another by the
//! MPI only if the group would not take those bytes: it takes none of 2^31 bytes and more, and no empty ones, and all
//! counts beyond an `int` are of such.

use std::ffi::{c_int, c_void};
use std::mem;

use wiglaf_interpose::Next;

/// What the library calls itself in what it says.
const NAME: &str = "libwiglaf-multicast-mpi4";

/// A handle or an address: both travel in a register or a slot of eight bytes on x86-64.
type Any = *mut c_void;
/// `MPI_Count`, in every MPI that has these functions.
type Count = i64;

/// Whether a buffer is `MPI_IN_PLACE`, next to which a count says nothing: 1 in Open MPI, -1 in the MPICH family.
fn is_in_place(buffer: Any) -> bool {
    matches!(buffer.addr(), 1 | usize::MAX)
}

/// Calls the function of that name that lies behind this library.
macro_rules! behind {
    ($symbol:literal ($($argument:ident: $type:ty),*)) => {{
        type Function = unsafe extern "C" fn($($type),*) -> c_int;
        static NEXT: Next = Next::new(NAME, concat!($symbol, "\0"));
        // SAFETY: the address is that of the function of that name, whose interface MPI fixes.
        let function = unsafe { mem::transmute::<Any, Function>(NEXT.address()) };
        // SAFETY: the program's own arguments.
        unsafe { function($($argument),*) }
    }};
}

/// # Safety
/// As for `MPI_Bcast_c`.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Bcast_c(
    buffer: Any,
    count: Count,
    datatype: Any,
    root: c_int,
    comm: Any,
) -> c_int {
    match c_int::try_from(count) {
        Ok(count) => {
            behind!("MPI_Bcast" (buffer: Any, count: c_int, datatype: Any, root: c_int, comm: Any))
        }
        Err(_) => {
            behind!("PMPI_Bcast_c" (buffer: Any, count: Count, datatype: Any, root: c_int, comm: Any))
        }
    }
}

/// # Safety
/// As for `MPI_Allreduce_c`.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Allreduce_c(
    send: Any,
    receive: Any,
    count: Count,
    datatype: Any,
    op: Any,
    comm: Any,
) -> c_int {
    match c_int::try_from(count) {
        Ok(count) => behind!("MPI_Allreduce" (
            send: Any, receive: Any, count: c_int, datatype: Any, op: Any, comm: Any
        )),
        Err(_) => behind!("PMPI_Allreduce_c" (
            send: Any, receive: Any, count: Count, datatype: Any, op: Any, comm: Any
        )),
    }
}

/// # Safety
/// As for `MPI_Allgather_c`.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Allgather_c(
    send: Any,
    send_count: Count,
    send_type: Any,
    receive: Any,
    count: Count,
    datatype: Any,
    comm: Any,
) -> c_int {
    let send_count = if is_in_place(send) { 0 } else { send_count };
    match (c_int::try_from(send_count), c_int::try_from(count)) {
        (Ok(send_count), Ok(count)) => behind!("MPI_Allgather" (
            send: Any, send_count: c_int, send_type: Any,
            receive: Any, count: c_int, datatype: Any, comm: Any
        )),
        _ => behind!("PMPI_Allgather_c" (
            send: Any, send_count: Count, send_type: Any,
            receive: Any, count: Count, datatype: Any, comm: Any
        )),
    }
}
