//! The Fortran entry points that stand before MPI's.
//!
//! Every argument is an address, whatever the interface: `mpif.h` and
//! `use mpi` call `mpi_allreduce_` (or another mangling of it), `use mpi_f08`
//! calls `mpi_allreduce_f08_` of Open MPI, or `mpi_allreduce_f08ts_` of MPICH
//! with descriptors for buffers. Only handles are read here, so one body fits
//! all. Each calls on under the very name that it was called by: a profiling
//! tool may stand behind `mpi_`, and MPI behind `pmpi_`.

use std::ffi::c_void;
use std::{mem, ptr};

use crate::handles::Handle;
use crate::substitute::{accumulate, reduction};
use wiglaf_interpose::Next;

/// An address that is handed on unseen.
type Any = *mut c_void;

/// Exports one entry point under one name. `$substitute` says what becomes of
/// the handles.
macro_rules! entry {
    ($substitute:ident $name:expr, ($($argument:ident)*) ($($datatype:ident)*) $operation:ident) => {
        const _: () = {
            // SAFETY: whoever calls a function of this name means MPI's, and
            // this is its interface.
            #[unsafe(export_name = $name)]
            unsafe extern "C" fn entry($($argument: Any),*) {
                type Entry = unsafe extern "C" fn($(any!($argument)),*);
                static NEXT: Next = Next::new(crate::NAME, concat!($name, "\0"));
                // SAFETY: the address is that of the function of the same name
                // behind ours, so it has the same interface.
                let next = unsafe { mem::transmute::<Any, Entry>(NEXT.address()) };
                // SAFETY: these arguments are handles in MPI's interface.
                let datatypes = [$(unsafe { handle($datatype) }),*];
                // SAFETY: and this one.
                let operation = unsafe { handle($operation) };
                let ours = $substitute(datatypes, operation);
                let $operation = ours.as_ref().map_or($operation, |ours| argument(&ours.1));
                let mut datatypes = ours.iter().flat_map(|ours| &ours.0);
                $(let $datatype = datatypes.next().map_or($datatype, argument);)*
                // SAFETY: the program's own arguments, but for handles that
                // live as long as the call.
                unsafe { next($($argument),*) }
            }
        };
    };
}

/// `Any`, once for each argument.
macro_rules! any {
    ($argument:ident) => {
        Any
    };
}

/// Exports one kind of entry points under all of their names.
macro_rules! entries {
    ($substitute:ident $($lower:literal $upper:literal)*; $arguments:tt $datatypes:tt $operation:ident) => {
        $(
            // The manglings of mpif.h and `use mpi`, for programs and for profiling.
            entry!($substitute concat!("mpi_", $lower), $arguments $datatypes $operation);
            entry!($substitute concat!("mpi_", $lower, "_"), $arguments $datatypes $operation);
            entry!($substitute concat!("mpi_", $lower, "__"), $arguments $datatypes $operation);
            entry!($substitute concat!("MPI_", $upper), $arguments $datatypes $operation);
            entry!($substitute concat!("pmpi_", $lower), $arguments $datatypes $operation);
            entry!($substitute concat!("pmpi_", $lower, "_"), $arguments $datatypes $operation);
            entry!($substitute concat!("pmpi_", $lower, "__"), $arguments $datatypes $operation);
            entry!($substitute concat!("PMPI_", $upper), $arguments $datatypes $operation);
            // `use mpi_f08` of Open MPI.
            entry!($substitute concat!("mpi_", $lower, "_f08_"), $arguments $datatypes $operation);
            entry!($substitute concat!("pmpi_", $lower, "_f08_"), $arguments $datatypes $operation);
            // `use mpi_f08` of MPICH: counts are INTEGERs, or of the large kind.
            entry!($substitute concat!("mpi_", $lower, "_f08ts_"), $arguments $datatypes $operation);
            entry!($substitute concat!("mpi_", $lower, "_f08ts_large_"), $arguments $datatypes $operation);
            entry!($substitute concat!("pmpir_", $lower, "_f08ts_"), $arguments $datatypes $operation);
            entry!($substitute concat!("pmpir_", $lower, "_f08ts_large_"), $arguments $datatypes $operation);
        )*
    };
}

entries!(reduction
    "allreduce" "ALLREDUCE"
    "reduce_scatter" "REDUCE_SCATTER"
    "reduce_scatter_block" "REDUCE_SCATTER_BLOCK"
    "scan" "SCAN"
    "exscan" "EXSCAN";
    (sendbuf recvbuf count datatype op comm ierror) (datatype) op);
entries!(reduction
    "reduce" "REDUCE";
    (sendbuf recvbuf count datatype op root comm ierror) (datatype) op);
entries!(reduction
    "reduce_local" "REDUCE_LOCAL";
    (inbuf inoutbuf count datatype op ierror) (datatype) op);
entries!(reduction
    "iallreduce" "IALLREDUCE"
    "ireduce_scatter" "IREDUCE_SCATTER"
    "ireduce_scatter_block" "IREDUCE_SCATTER_BLOCK"
    "iscan" "ISCAN"
    "iexscan" "IEXSCAN";
    (sendbuf recvbuf count datatype op comm request ierror) (datatype) op);
entries!(reduction
    "ireduce" "IREDUCE";
    (sendbuf recvbuf count datatype op root comm request ierror) (datatype) op);
entries!(reduction
    "allreduce_init" "ALLREDUCE_INIT"
    "reduce_scatter_init" "REDUCE_SCATTER_INIT"
    "reduce_scatter_block_init" "REDUCE_SCATTER_BLOCK_INIT"
    "scan_init" "SCAN_INIT"
    "exscan_init" "EXSCAN_INIT";
    (sendbuf recvbuf count datatype op comm info request ierror) (datatype) op);
entries!(reduction
    "reduce_init" "REDUCE_INIT";
    (sendbuf recvbuf count datatype op root comm info request ierror) (datatype) op);
entries!(accumulate
    "accumulate" "ACCUMULATE";
    (origin count origin_type rank displacement target_count target_type op win ierror)
    (origin_type target_type) op);
entries!(accumulate
    "raccumulate" "RACCUMULATE";
    (origin count origin_type rank displacement target_count target_type op win request ierror)
    (origin_type target_type) op);
entries!(accumulate
    "get_accumulate" "GET_ACCUMULATE";
    (origin count origin_type result result_count result_type rank displacement target_count
     target_type op win ierror)
    (origin_type result_type target_type) op);
entries!(accumulate
    "rget_accumulate" "RGET_ACCUMULATE";
    (origin count origin_type result result_count result_type rank displacement target_count
     target_type op win request ierror)
    (origin_type result_type target_type) op);
entries!(accumulate
    "fetch_and_op" "FETCH_AND_OP";
    (origin result datatype rank displacement op win ierror) (datatype) op);

/// The handle at an address.
///
/// # Safety
/// The address must be that of a handle, or null.
unsafe fn handle(address: Any) -> Handle {
    if address.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise. A program compiled with wide INTEGERs
    // keeps the handle in the first half.
    unsafe { address.cast::<Handle>().read_unaligned() }
}

/// A handle of ours as an argument, which MPI only reads.
fn argument(handle: &Handle) -> Any {
    ptr::from_ref(handle).cast_mut().cast()
}
