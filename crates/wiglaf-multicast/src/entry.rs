//! The functions that stand before MPI's, for C, and for Fortran under Open MPI: its Fortran library calls `PMPI_`
//! functions, which cannot be interposed. The Fortran library of the MPICH family calls the `MPI_` functions of C.

use std::ffi::c_int;
use std::mem;

use wiglaf_interpose::Next;

use crate::NAME;
use crate::behind::{self, Any, Family, SUCCESS};
use crate::communicator::{
    CONTRIBUTION_LEN_MAX, is_asked, tell_counts, wait_before_free, with_team,
};
use crate::layout::{Code, Elements};

/// Longest outcome of an allgather that the root sends, in bytes: short enough to be sent at once.
const GATHERED_LEN_MAX: usize = 16 << 10;

/// # Safety
/// As for `MPI_Barrier`.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Barrier(comm: Any) -> c_int {
    // SAFETY: the program's own argument.
    let done =
        unsafe { with_team(comm, |team, progress| team.barrier(progress).map(|()| Some(SUCCESS))) };
    // SAFETY: the same.
    done.unwrap_or_else(|| unsafe { behind::barrier(comm) })
}

/// # Safety
/// As for `MPI_Bcast`.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Bcast(
    buffer: Any,
    count: c_int,
    datatype: Any,
    root: c_int,
    comm: Any,
) -> c_int {
    // SAFETY: the program's own arguments.
    let done = unsafe { broadcast(buffer, count, datatype, root, comm) };
    // SAFETY: the same.
    done.unwrap_or_else(|| unsafe { behind::bcast(buffer, count, datatype, root, comm) })
}

/// # Safety
/// As for `MPI_Bcast`.
unsafe fn broadcast(
    buffer: Any,
    count: c_int,
    datatype: Any,
    root: c_int,
    comm: Any,
) -> Option<c_int> {
    if !is_asked() {
        return None;
    }
    // SAFETY: the program's own arguments, as MPI wants them.
    let elements = unsafe { Elements::new(count, datatype) }?;
    let root = usize::try_from(root).ok().filter(|root| *root < size(comm) as usize)?;
    // SAFETY: as above.
    unsafe {
        with_team(comm, |team, progress| {
            if let Some(bytes) = elements.dense(buffer) {
                return team.broadcast(bytes, root, progress).map(|()| Some(SUCCESS));
            }
            // Where the MPI complains the call says so, but the others must not wait for this rank.
            let said = match team.rank == root {
                true => elements.pack(buffer, comm),
                false => Ok(Vec::new()),
            };
            let mut packed = said.as_ref().map_or_else(|_| Vec::new(), Clone::clone);
            packed.resize(elements.len, 0);
            team.broadcast(&mut packed, root, progress)?;
            let done = said.map(|_| ()).and_then(|()| match team.rank == root {
                true => Ok(()),
                false => elements.unpack(&packed, buffer, comm),
            });
            Ok(Some(code(done)))
        })
    }
}

/// # Safety
/// As for `MPI_Allreduce`.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Allreduce(
    send: Any,
    receive: Any,
    count: c_int,
    datatype: Any,
    op: Any,
    comm: Any,
) -> c_int {
    // SAFETY: the program's own arguments.
    let done = unsafe { reduce(send, receive, count, datatype, op, comm) };
    // SAFETY: the same.
    let by_mpi = || unsafe { behind::allreduce(send, receive, count, datatype, op, comm) };
    done.unwrap_or_else(by_mpi)
}

/// # Safety
/// As for `MPI_Allreduce`.
unsafe fn reduce(
    send: Any,
    receive: Any,
    count: c_int,
    datatype: Any,
    op: Any,
    comm: Any,
) -> Option<c_int> {
    if !is_asked() {
        return None;
    }
    let own = if Family::get().is_in_place(send) { receive } else { send };
    // SAFETY: the program's own arguments, as MPI wants them.
    let elements = unsafe { Elements::new(count, datatype) }?;
    if elements.len > CONTRIBUTION_LEN_MAX {
        return None;
    }
    // SAFETY: as above.
    unsafe {
        with_team(comm, |team, progress| {
            if !team.may_reduce(op) {
                return Ok(None);
            }
            // What is wrong the MPI shall say, as it says it.
            let outcome = team.reduce(&elements, own, (op, comm), progress)?;
            Ok(outcome.map(|outcome| code(elements.unpack(&outcome, receive, comm))))
        })
    }
}

/// # Safety
/// As for `MPI_Allgather`.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Allgather(
    send: Any,
    send_count: c_int,
    send_type: Any,
    receive: Any,
    count: c_int,
    datatype: Any,
    comm: Any,
) -> c_int {
    // SAFETY: the program's own arguments.
    let done = unsafe { gather(send, (send_count, send_type), receive, (count, datatype), comm) };
    // SAFETY: the same.
    let by_mpi = || unsafe {
        behind::allgather(send, send_count, send_type, receive, count, datatype, comm)
    };
    done.unwrap_or_else(by_mpi)
}

/// # Safety
/// As for `MPI_Allgather`.
unsafe fn gather(
    send: Any,
    (send_count, send_type): (c_int, Any),
    receive: Any,
    (count, datatype): (c_int, Any),
    comm: Any,
) -> Option<c_int> {
    if !is_asked() {
        return None;
    }
    let members = size(comm);
    // What all members say of the outcome is the same, though the types by which they say it may differ.
    // SAFETY: the program's own arguments, as MPI wants them.
    let block = unsafe { Elements::new(count, datatype) }?;
    // SAFETY: as above.
    let all = unsafe { Elements::new(count.checked_mul(members)?, datatype) }?;
    if block.len > CONTRIBUTION_LEN_MAX || all.len > GATHERED_LEN_MAX {
        return None;
    }
    let is_in_place = Family::get().is_in_place(send);
    // SAFETY: as above.
    unsafe {
        with_team(comm, |team, progress| {
            if team.contribution_len(block.len) > CONTRIBUTION_LEN_MAX {
                return Ok(None);
            }
            let said = if is_in_place {
                let at = team.rank * block.len;
                all.pack(receive, comm).map(|all| all[at..at + block.len].to_vec())
            } else {
                let own = Elements::new(send_count, send_type);
                own.map_or_else(|| Ok(Vec::new()), |own| own.pack(send, comm))
            };
            // As above; and a program that says another length than the others is wrong, but hangs nobody.
            let mut own = said.as_ref().map_or_else(|_| Vec::new(), Clone::clone);
            own.resize(block.len, 0);
            let outcome = team.gather(own, progress)?;
            let done = said.and_then(|_| all.unpack(&outcome, receive, comm));
            Ok(Some(code(done)))
        })
    }
}

/// # Safety
/// As for `MPI_Finalize`.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Finalize() -> c_int {
    if is_asked() {
        // Nobody stops to answer before all have heard all.
        // SAFETY: all processes finalize, and MPI works until then.
        unsafe { behind::barrier(Family::get().world()) };
        tell_counts();
    }
    // SAFETY: the program's own call.
    unsafe { behind::finalize() }
}

/// What a call returns.
fn code(done: Result<(), Code>) -> c_int {
    done.map_or_else(|Code(code)| code, |()| SUCCESS)
}

/// # Safety
/// As for `MPI_Comm_free`.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Comm_free(comm: *mut Any) -> c_int {
    // SAFETY: the program's own argument.
    unsafe {
        if !comm.is_null() {
            wait_before_free(*comm);
        }
        behind::comm_free(comm)
    }
}

/// # Safety
/// As for `MPI_Comm_disconnect`.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Comm_disconnect(comm: *mut Any) -> c_int {
    // SAFETY: the program's own argument.
    unsafe {
        if !comm.is_null() {
            wait_before_free(*comm);
        }
        behind::comm_disconnect(comm)
    }
}

/// How many ranks a communicator has; 0 where MPI does not know it.
fn size(comm: Any) -> c_int {
    let mut size = 0;
    // SAFETY: a handle that the program has handed to MPI; the answer goes to a live variable.
    let known = unsafe { behind::comm_size(comm, &raw mut size) };
    if known == SUCCESS { size } else { 0 }
}

/// An INTEGER argument of Fortran's.
///
/// # Safety
/// The argument is one in MPI's interface.
unsafe fn int(argument: Any) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { argument.cast::<c_int>().read_unaligned() }
}

macro_rules! any {
    ($argument:ident) => {
        Any
    };
}

/// Exports one function of Fortran's under one name. `$call` is the call in C.
macro_rules! fortran_name {
    ($name:expr, ($($argument:ident)*), $call:expr) => {
        const _: () = {
            // SAFETY: whoever calls a function of this name means MPI's, and this is its interface.
            #[unsafe(export_name = $name)]
            unsafe extern "C" fn function($($argument: Any,)* error: Any) {
                if !Family::get().is_open_mpi || !is_asked() {
                    type Function = unsafe extern "C" fn($(any!($argument),)* Any);
                    static NEXT: Next = Next::new(NAME, concat!($name, "\0"));
                    // SAFETY: the address is that of the function of the same name behind ours.
                    let next = unsafe { mem::transmute::<Any, Function>(NEXT.address()) };
                    // SAFETY: the program's own arguments.
                    return unsafe { next($($argument,)* error) };
                }
                #[allow(unused_unsafe, reason = "one has no argument")]
                // SAFETY: these arguments follow MPI's interface for Fortran.
                let outcome: c_int = unsafe { $call };
                // It is optional in the newest of the interfaces.
                if !error.is_null() {
                    // SAFETY: the address of an INTEGER.
                    unsafe { error.cast::<c_int>().write_unaligned(outcome) };
                }
            }
        };
    };
}

/// Exports one function of Fortran's, which frees a communicator, under one name.
macro_rules! freeing_name {
    ($name:expr) => {
        const _: () = {
            // SAFETY: whoever calls a function of this name means MPI's, and this is its interface.
            #[unsafe(export_name = $name)]
            unsafe extern "C" fn function(comm: Any, error: Any) {
                type Function = unsafe extern "C" fn(Any, Any);
                static NEXT: Next = Next::new(NAME, concat!($name, "\0"));
                // SAFETY: the address is that of the function of the same name behind ours.
                let next = unsafe { mem::transmute::<Any, Function>(NEXT.address()) };
                // SAFETY: the program's own arguments, as MPI's interface has them in Fortran.
                unsafe {
                    if Family::get().is_open_mpi && is_asked() {
                        wait_before_free(behind::comm_f2c(int(comm)));
                    }
                    next(comm, error);
                }
            }
        };
    };
}

/// Exports one function of Fortran's, which frees a communicator, under all its names.
macro_rules! freeing {
    ($lower:literal $upper:literal) => {
        freeing_name!(concat!("mpi_", $lower));
        freeing_name!(concat!("mpi_", $lower, "_"));
        freeing_name!(concat!("mpi_", $lower, "__"));
        freeing_name!(concat!("MPI_", $upper));
        freeing_name!(concat!("mpi_", $lower, "_f08_"));
    };
}

freeing!("comm_free" "COMM_FREE");
freeing!("comm_disconnect" "COMM_DISCONNECT");

/// Exports one function of Fortran's under all its names.
macro_rules! fortran {
    ($lower:literal $upper:literal $arguments:tt $call:expr) => {
        fortran_name!(concat!("mpi_", $lower), $arguments, $call);
        fortran_name!(concat!("mpi_", $lower, "_"), $arguments, $call);
        fortran_name!(concat!("mpi_", $lower, "__"), $arguments, $call);
        fortran_name!(concat!("MPI_", $upper), $arguments, $call);
        fortran_name!(concat!("mpi_", $lower, "_f08_"), $arguments, $call);
    };
}

fortran!("finalize" "FINALIZE" () MPI_Finalize());
fortran!("barrier" "BARRIER" (comm) MPI_Barrier(behind::comm_f2c(int(comm))));
fortran!("bcast" "BCAST" (buffer count datatype root comm) MPI_Bcast(
    Family::get().of_fortran(buffer),
    int(count),
    behind::type_f2c(int(datatype)),
    int(root),
    behind::comm_f2c(int(comm)),
));
fortran!("allreduce" "ALLREDUCE" (send receive count datatype op comm) MPI_Allreduce(
    Family::get().of_fortran(send),
    Family::get().of_fortran(receive),
    int(count),
    behind::type_f2c(int(datatype)),
    behind::op_f2c(int(op)),
    behind::comm_f2c(int(comm)),
));
fortran!("allgather" "ALLGATHER" (send send_count send_type receive count datatype comm) MPI_Allgather(
    Family::get().of_fortran(send),
    int(send_count),
    behind::type_f2c(int(send_type)),
    Family::get().of_fortran(receive),
    int(count),
    behind::type_f2c(int(datatype)),
    behind::comm_f2c(int(comm)),
));
