//! The functions that stand before MPI's, each for C and, under every mangling, for Fortran.
//!
//! `mpif.h` and `use mpi` call `mpi_send_` (or another mangling of it), `use mpi_f08` calls `mpi_send_f08_` of
//! Open MPI, or `mpi_send_f08ts_` of MPICH. In Fortran every argument is an address. A name that the program's
//! MPI does not have is never called, but for those that MPI 4.0 has brought: mpi4py calls `MPI_Send_c` wherever there
//! is one, so these are only in the library for MPIs that have them (the feature `mpi4`).

use std::ffi::c_int;
use std::mem;

use crate::clock::Reading;
use crate::record;
use crate::size::{Any, Language};
use crate::table::Entered;
use crate::trace;
use wiglaf_interpose::Next;

/// `Any`, once for each argument.
macro_rules! any {
    ($argument:ident) => {
        Any
    };
}

/// Exports one function under one name.
macro_rules! function {
    ($language:ident $call:ident $name:expr, ($($argument:ident)*)) => {
        const _: () = {
            // SAFETY: whoever calls a function of this name means MPI's, and this is its interface.
            #[unsafe(export_name = $name)]
            unsafe extern "C" fn function($($argument: Any),*) -> c_int {
                static NEXT: Next = Next::new(crate::NAME, concat!($name, "\0"));
                // SAFETY: the program's own arguments.
                unsafe { observe(&NEXT, Call::$call, Language::$language, &[$($argument),*]) }
            }
        };
    };
}

/// Calls the function behind ours, and counts the call.
///
/// # Safety
/// The arguments must be all that the function takes, as the language has them.
unsafe fn observe(next: &Next, call: Call, language: Language, arguments: &[Any]) -> c_int {
    let next = next.address();
    let Some(entered) = Entered::enter() else {
        // SAFETY: the caller's promise.
        return unsafe { invoke(next, arguments) };
    };
    // Before the call: it may free what the handles mean.
    // SAFETY: the caller's promise.
    let bytes = unsafe { call.size(language, arguments) };
    if trace::is_wanted() {
        // SAFETY: the caller's promise.
        return unsafe {
            let waited = trace::waited_for(call, language, arguments);
            let result = invoke(next, arguments);
            let before = entered.leave(call, bytes);
            trace::called(call, language, arguments, &waited, before, bytes);
            result
        };
    }
    // SAFETY: the caller's promise.
    let result = unsafe { invoke(next, arguments) };
    entered.leave(call, bytes);
    result
}

/// Calls a function of MPI with the arguments that it takes.
///
/// # Safety
/// `next` must be the address of a function that takes so many.
unsafe fn invoke(next: Any, arguments: &[Any]) -> c_int {
    macro_rules! with {
        ($($argument:ident)*) => {{
            type Function = unsafe extern "C" fn($(any!($argument)),*) -> c_int;
            let &[$($argument),*] = arguments else { unreachable!() };
            // SAFETY: the caller's promise.
            let next = unsafe { mem::transmute::<Any, Function>(next) };
            // SAFETY: as above.
            unsafe { next($($argument),*) }
        }};
    }
    match arguments.len() {
        1 => with!(a),
        2 => with!(a b),
        3 => with!(a b c),
        4 => with!(a b c d),
        5 => with!(a b c d e),
        6 => with!(a b c d e f),
        7 => with!(a b c d e f g),
        8 => with!(a b c d e f g h),
        9 => with!(a b c d e f g h i),
        10 => with!(a b c d e f g h i j),
        11 => with!(a b c d e f g h i j k),
        12 => with!(a b c d e f g h i j k l),
        13 => with!(a b c d e f g h i j k l m),
        14 => with!(a b c d e f g h i j k l m n),
        _ => unreachable!("no function of MPI takes so many"),
    }
}

/// Exports all functions, and lists them.
macro_rules! functions {
    ($($(#[$gate:meta])? $call:ident $c:literal $lower:literal $upper:literal ($($argument:ident)*) ($($further:ident)*) |$l:ident| $size:expr;)*) => {
        /// A function of MPI.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Call {
            $($call),*
        }

        /// How many there are.
        pub(crate) const CALLS: usize = Call::ALL.len();

        impl Call {
            /// All of them, in order.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$call),*];

            /// Its name behind `MPI_`.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$call => $c),*
                }
            }

            /// How many bytes a call is about.
            ///
            /// # Safety
            /// The arguments must be those of that call.
            #[allow(unused_variables, reason = "most calls are about few of them")]
            unsafe fn size(self, language: Language, arguments: &[Any]) -> u64 {
                match (self, arguments) {
                    $((Self::$call, &[$($argument,)* ..]) => {
                        let $l = language;
                        #[allow(unused_unsafe, reason = "many have no size")]
                        // SAFETY: these arguments are what MPI's interface says.
                        unsafe {
                            $size
                        }
                    })*
                    _ => 0,
                }
            }
        }

        $(
            $(#[$gate])?
            function!(C $call concat!("MPI_", $c), ($($argument)*));
            #[cfg(feature = "mpi4")]
            function!(Large $call concat!("MPI_", $c, "_c"), ($($argument)*));
            $(#[$gate])?
            function!(Fortran $call concat!("mpi_", $lower), ($($argument)* $($further)*));
            $(#[$gate])?
            function!(Fortran $call concat!("mpi_", $lower, "_"), ($($argument)* $($further)*));
            $(#[$gate])?
            function!(Fortran $call concat!("mpi_", $lower, "__"), ($($argument)* $($further)*));
            $(#[$gate])?
            function!(Fortran $call concat!("MPI_", $upper), ($($argument)* $($further)*));
            $(#[$gate])?
            function!(Fortran $call concat!("mpi_", $lower, "_f08_"), ($($argument)* $($further)*));
            $(#[$gate])?
            function!(Fortran $call concat!("mpi_", $lower, "_f08ts_"), ($($argument)* $($further)*));
        )*
    };
}

/// Exports a function from whose call on all is counted, or until whose call it was.
macro_rules! bound {
    ($($name:expr)* => $what:ident $arguments:tt) => {
        $(one_bound!($name, $what $arguments);)*
    };
}

/// Exports the function `$name`, which calls MPI's own and begins or ends what is counted (`record::$what`).
macro_rules! one_bound {
    ($name:expr, $what:ident ($($argument:ident)*)) => {
        const _: () = {
            // SAFETY: whoever calls a function of this name means MPI's, and this is its interface.
            #[unsafe(export_name = $name)]
            unsafe extern "C" fn function($($argument: Any),*) -> c_int {
                type Function = unsafe extern "C" fn($(any!($argument)),*) -> c_int;
                static NEXT: Next = Next::new(crate::NAME, concat!($name, "\0"));
                // SAFETY: the address is that of the function of the same name behind ours.
                let next = unsafe { mem::transmute::<Any, Function>(NEXT.address()) };
                let entered = Entered::enter();
                let reading = Reading::take();
                // SAFETY: the program's own arguments.
                let result = unsafe { next($($argument),*) };
                if let Some(entered) = entered {
                    entered.forget();
                    record::$what(reading);
                }
                result
            }
        };
    };
}

bound!("MPI_Init" => started(argc argv));
bound!("MPI_Init_thread" => started(argc argv required provided));
bound!("mpi_init" "mpi_init_" "mpi_init__" "MPI_INIT" "mpi_init_f08_" "mpi_init_f08ts_" => started(error));
bound!("mpi_init_thread" "mpi_init_thread_" "mpi_init_thread__" "MPI_INIT_THREAD" "mpi_init_thread_f08_"
    "mpi_init_thread_f08ts_" => started(required provided error));
bound!("MPI_Finalize" => finished());
bound!("mpi_finalize" "mpi_finalize_" "mpi_finalize__" "MPI_FINALIZE" "mpi_finalize_f08_" "mpi_finalize_f08ts_"
    => finished(error));

functions! {
    Send "Send" "send" "SEND" (buf count datatype dest tag comm) (error) |l| l.of(count, datatype);
    Bsend "Bsend" "bsend" "BSEND" (buf count datatype dest tag comm) (error) |l| l.of(count, datatype);
    Ssend "Ssend" "ssend" "SSEND" (buf count datatype dest tag comm) (error) |l| l.of(count, datatype);
    Rsend "Rsend" "rsend" "RSEND" (buf count datatype dest tag comm) (error) |l| l.of(count, datatype);
    Recv "Recv" "recv" "RECV" (buf count datatype source tag comm status) (error) |l| l.of(count, datatype);
    Isend "Isend" "isend" "ISEND" (buf count datatype peer tag comm request) (error) |l| l.of(count, datatype);
    Ibsend "Ibsend" "ibsend" "IBSEND" (buf count datatype peer tag comm request) (error) |l| l.of(count, datatype);
    Issend "Issend" "issend" "ISSEND" (buf count datatype peer tag comm request) (error) |l| l.of(count, datatype);
    Irsend "Irsend" "irsend" "IRSEND" (buf count datatype peer tag comm request) (error) |l| l.of(count, datatype);
    Irecv "Irecv" "irecv" "IRECV" (buf count datatype peer tag comm request) (error) |l| l.of(count, datatype);
    SendInit "Send_init" "send_init" "SEND_INIT" (buf count datatype peer tag comm request) (error) |l| 0;
    RecvInit "Recv_init" "recv_init" "RECV_INIT" (buf count datatype peer tag comm request) (error) |l| 0;
    Sendrecv "Sendrecv" "sendrecv" "SENDRECV" (sendbuf count datatype dest sendtag recvbuf recvcount recvtype source recvtag comm status) (error) |l| l.of(count, datatype);
    SendrecvReplace "Sendrecv_replace" "sendrecv_replace" "SENDRECV_REPLACE" (buf count datatype dest sendtag source recvtag comm status) (error) |l| l.of(count, datatype);
    Probe "Probe" "probe" "PROBE" (source tag comm status) (error) |l| 0;
    Iprobe "Iprobe" "iprobe" "IPROBE" (source tag comm flag status) (error) |l| 0;
    Mprobe "Mprobe" "mprobe" "MPROBE" (source tag comm message status) (error) |l| 0;
    Improbe "Improbe" "improbe" "IMPROBE" (source tag comm flag message status) (error) |l| 0;
    Mrecv "Mrecv" "mrecv" "MRECV" (buf count datatype message status) (error) |l| l.of(count, datatype);
    Imrecv "Imrecv" "imrecv" "IMRECV" (buf count datatype message request) (error) |l| l.of(count, datatype);
    Wait "Wait" "wait" "WAIT" (request status) (error) |l| 0;
    Waitany "Waitany" "waitany" "WAITANY" (count requests index status) (error) |l| 0;
    Waitall "Waitall" "waitall" "WAITALL" (count requests statuses) (error) |l| 0;
    Waitsome "Waitsome" "waitsome" "WAITSOME" (incount requests outcount indices statuses) (error) |l| 0;
    Test "Test" "test" "TEST" (request flag status) (error) |l| 0;
    Testany "Testany" "testany" "TESTANY" (count requests index flag status) (error) |l| 0;
    Testall "Testall" "testall" "TESTALL" (count requests flag statuses) (error) |l| 0;
    Testsome "Testsome" "testsome" "TESTSOME" (incount requests outcount indices statuses) (error) |l| 0;
    Start "Start" "start" "START" (request) (error) |l| 0;
    Startall "Startall" "startall" "STARTALL" (count requests) (error) |l| 0;
    #[cfg(feature = "mpi4")] BarrierInit "Barrier_init" "barrier_init" "BARRIER_INIT" (comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] BcastInit "Bcast_init" "bcast_init" "BCAST_INIT" (buf count datatype root comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] GatherInit "Gather_init" "gather_init" "GATHER_INIT" (sendbuf sendcount sendtype recvbuf recvcount recvtype root comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] GathervInit "Gatherv_init" "gatherv_init" "GATHERV_INIT" (sendbuf sendcount sendtype recvbuf recvcounts displs recvtype root comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] ScatterInit "Scatter_init" "scatter_init" "SCATTER_INIT" (sendbuf sendcount sendtype recvbuf recvcount recvtype root comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] ScattervInit "Scatterv_init" "scatterv_init" "SCATTERV_INIT" (sendbuf sendcounts displs sendtype recvbuf recvcount recvtype root comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] AllgatherInit "Allgather_init" "allgather_init" "ALLGATHER_INIT" (sendbuf sendcount sendtype recvbuf recvcount recvtype comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] AllgathervInit "Allgatherv_init" "allgatherv_init" "ALLGATHERV_INIT" (sendbuf sendcount sendtype recvbuf recvcounts displs recvtype comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] AlltoallInit "Alltoall_init" "alltoall_init" "ALLTOALL_INIT" (sendbuf sendcount sendtype recvbuf recvcount recvtype comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] AlltoallvInit "Alltoallv_init" "alltoallv_init" "ALLTOALLV_INIT" (sendbuf sendcounts sdispls sendtype recvbuf recvcounts rdispls recvtype comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] AlltoallwInit "Alltoallw_init" "alltoallw_init" "ALLTOALLW_INIT" (sendbuf sendcounts sdispls sendtypes recvbuf recvcounts rdispls recvtypes comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] ReduceInit "Reduce_init" "reduce_init" "REDUCE_INIT" (sendbuf recvbuf count datatype op root comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] AllreduceInit "Allreduce_init" "allreduce_init" "ALLREDUCE_INIT" (sendbuf recvbuf count datatype op comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] ScanInit "Scan_init" "scan_init" "SCAN_INIT" (sendbuf recvbuf count datatype op comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] ExscanInit "Exscan_init" "exscan_init" "EXSCAN_INIT" (sendbuf recvbuf count datatype op comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] ReduceScatterInit "Reduce_scatter_init" "reduce_scatter_init" "REDUCE_SCATTER_INIT" (sendbuf recvbuf recvcounts datatype op comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] ReduceScatterBlockInit "Reduce_scatter_block_init" "reduce_scatter_block_init" "REDUCE_SCATTER_BLOCK_INIT" (sendbuf recvbuf count datatype op comm info request) (error) |l| 0;
    BsendInit "Bsend_init" "bsend_init" "BSEND_INIT" (buf count datatype peer tag comm request) (error) |l| 0;
    SsendInit "Ssend_init" "ssend_init" "SSEND_INIT" (buf count datatype peer tag comm request) (error) |l| 0;
    RsendInit "Rsend_init" "rsend_init" "RSEND_INIT" (buf count datatype peer tag comm request) (error) |l| 0;
    #[cfg(feature = "mpi4")] PsendInit "Psend_init" "psend_init" "PSEND_INIT" (buf partitions count datatype peer tag comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] PrecvInit "Precv_init" "precv_init" "PRECV_INIT" (buf partitions count datatype peer tag comm info request) (error) |l| 0;
    #[cfg(feature = "mpi4")] Pready "Pready" "pready" "PREADY" (partition request) (error) |l| 0;
    #[cfg(feature = "mpi4")] PreadyRange "Pready_range" "pready_range" "PREADY_RANGE" (low high request) (error) |l| 0;
    #[cfg(feature = "mpi4")] PreadyList "Pready_list" "pready_list" "PREADY_LIST" (length list request) (error) |l| 0;
    #[cfg(feature = "mpi4")] Parrived "Parrived" "parrived" "PARRIVED" (request partition flag) (error) |l| 0;
    Barrier "Barrier" "barrier" "BARRIER" (comm) (error) |l| 0;
    Ibarrier "Ibarrier" "ibarrier" "IBARRIER" (comm request) (error) |l| 0;
    Bcast "Bcast" "bcast" "BCAST" (buf count datatype root comm) (error) |l| l.of(count, datatype);
    Ibcast "Ibcast" "ibcast" "IBCAST" (buf count datatype root comm request) (error) |l| l.of(count, datatype);
    Gather "Gather" "gather" "GATHER" (sendbuf sendcount sendtype recvbuf recvcount recvtype root comm) (error) |l| l.rooted(root, comm, [recvcount, recvtype], [sendcount, sendtype]);
    Igather "Igather" "igather" "IGATHER" (sendbuf sendcount sendtype recvbuf recvcount recvtype root comm request) (error) |l| l.rooted(root, comm, [recvcount, recvtype], [sendcount, sendtype]);
    Gatherv "Gatherv" "gatherv" "GATHERV" (sendbuf sendcount sendtype recvbuf recvcounts displs recvtype root comm) (error) |l| 0;
    Igatherv "Igatherv" "igatherv" "IGATHERV" (sendbuf sendcount sendtype recvbuf recvcounts displs recvtype root comm request) (error) |l| 0;
    Scatter "Scatter" "scatter" "SCATTER" (sendbuf sendcount sendtype recvbuf recvcount recvtype root comm) (error) |l| l.rooted(root, comm, [sendcount, sendtype], [recvcount, recvtype]);
    Iscatter "Iscatter" "iscatter" "ISCATTER" (sendbuf sendcount sendtype recvbuf recvcount recvtype root comm request) (error) |l| l.rooted(root, comm, [sendcount, sendtype], [recvcount, recvtype]);
    Scatterv "Scatterv" "scatterv" "SCATTERV" (sendbuf sendcounts displs sendtype recvbuf recvcount recvtype root comm) (error) |l| 0;
    Iscatterv "Iscatterv" "iscatterv" "ISCATTERV" (sendbuf sendcounts displs sendtype recvbuf recvcount recvtype root comm request) (error) |l| 0;
    Allgather "Allgather" "allgather" "ALLGATHER" (sendbuf sendcount sendtype recvbuf recvcount recvtype comm) (error) |l| l.of(recvcount, recvtype);
    Iallgather "Iallgather" "iallgather" "IALLGATHER" (sendbuf sendcount sendtype recvbuf recvcount recvtype comm request) (error) |l| l.of(recvcount, recvtype);
    Allgatherv "Allgatherv" "allgatherv" "ALLGATHERV" (sendbuf sendcount sendtype recvbuf recvcounts displs recvtype comm) (error) |l| l.sum(recvcounts, recvtype, comm);
    Iallgatherv "Iallgatherv" "iallgatherv" "IALLGATHERV" (sendbuf sendcount sendtype recvbuf recvcounts displs recvtype comm request) (error) |l| l.sum(recvcounts, recvtype, comm);
    Alltoall "Alltoall" "alltoall" "ALLTOALL" (sendbuf sendcount sendtype recvbuf recvcount recvtype comm) (error) |l| l.of(recvcount, recvtype);
    Ialltoall "Ialltoall" "ialltoall" "IALLTOALL" (sendbuf sendcount sendtype recvbuf recvcount recvtype comm request) (error) |l| l.of(recvcount, recvtype);
    Alltoallv "Alltoallv" "alltoallv" "ALLTOALLV" (sendbuf sendcounts sdispls sendtype recvbuf recvcounts rdispls recvtype comm) (error) |l| l.sum(recvcounts, recvtype, comm);
    Ialltoallv "Ialltoallv" "ialltoallv" "IALLTOALLV" (sendbuf sendcounts sdispls sendtype recvbuf recvcounts rdispls recvtype comm request) (error) |l| l.sum(recvcounts, recvtype, comm);
    Alltoallw "Alltoallw" "alltoallw" "ALLTOALLW" (sendbuf sendcounts sdispls sendtypes recvbuf recvcounts rdispls recvtypes comm) (error) |l| 0;
    Ialltoallw "Ialltoallw" "ialltoallw" "IALLTOALLW" (sendbuf sendcounts sdispls sendtypes recvbuf recvcounts rdispls recvtypes comm request) (error) |l| 0;
    Reduce "Reduce" "reduce" "REDUCE" (sendbuf recvbuf count datatype op root comm) (error) |l| l.of(count, datatype);
    Ireduce "Ireduce" "ireduce" "IREDUCE" (sendbuf recvbuf count datatype op root comm request) (error) |l| l.of(count, datatype);
    Allreduce "Allreduce" "allreduce" "ALLREDUCE" (sendbuf recvbuf count datatype op comm) (error) |l| l.of(count, datatype);
    Iallreduce "Iallreduce" "iallreduce" "IALLREDUCE" (sendbuf recvbuf count datatype op comm request) (error) |l| l.of(count, datatype);
    Scan "Scan" "scan" "SCAN" (sendbuf recvbuf count datatype op comm) (error) |l| l.of(count, datatype);
    Iscan "Iscan" "iscan" "ISCAN" (sendbuf recvbuf count datatype op comm request) (error) |l| l.of(count, datatype);
    Exscan "Exscan" "exscan" "EXSCAN" (sendbuf recvbuf count datatype op comm) (error) |l| l.of(count, datatype);
    Iexscan "Iexscan" "iexscan" "IEXSCAN" (sendbuf recvbuf count datatype op comm request) (error) |l| l.of(count, datatype);
    ReduceScatter "Reduce_scatter" "reduce_scatter" "REDUCE_SCATTER" (sendbuf recvbuf recvcounts datatype op comm) (error) |l| l.sum(recvcounts, datatype, comm);
    IreduceScatter "Ireduce_scatter" "ireduce_scatter" "IREDUCE_SCATTER" (sendbuf recvbuf recvcounts datatype op comm request) (error) |l| l.sum(recvcounts, datatype, comm);
    ReduceScatterBlock "Reduce_scatter_block" "reduce_scatter_block" "REDUCE_SCATTER_BLOCK" (sendbuf recvbuf count datatype op comm) (error) |l| l.of(count, datatype);
    IreduceScatterBlock "Ireduce_scatter_block" "ireduce_scatter_block" "IREDUCE_SCATTER_BLOCK" (sendbuf recvbuf count datatype op comm request) (error) |l| l.of(count, datatype);
    Put "Put" "put" "PUT" (origin count datatype rank displacement target_count target_type win) (error) |l| l.of(count, datatype);
    Rput "Rput" "rput" "RPUT" (origin count datatype rank displacement target_count target_type win request) (error) |l| l.of(count, datatype);
    Get "Get" "get" "GET" (origin count datatype rank displacement target_count target_type win) (error) |l| l.of(count, datatype);
    Rget "Rget" "rget" "RGET" (origin count datatype rank displacement target_count target_type win request) (error) |l| l.of(count, datatype);
    Accumulate "Accumulate" "accumulate" "ACCUMULATE" (origin count datatype rank displacement target_count target_type op win) (error) |l| l.of(count, datatype);
    Raccumulate "Raccumulate" "raccumulate" "RACCUMULATE" (origin count datatype rank displacement target_count target_type op win request) (error) |l| l.of(count, datatype);
    GetAccumulate "Get_accumulate" "get_accumulate" "GET_ACCUMULATE" (origin origin_count origin_type result count datatype rank displacement target_count target_type op win) (error) |l| l.of(count, datatype);
    RgetAccumulate "Rget_accumulate" "rget_accumulate" "RGET_ACCUMULATE" (origin origin_count origin_type result count datatype rank displacement target_count target_type op win request) (error) |l| l.of(count, datatype);
    FetchAndOp "Fetch_and_op" "fetch_and_op" "FETCH_AND_OP" (origin result datatype rank displacement op win) (error) |l| 0;
    CompareAndSwap "Compare_and_swap" "compare_and_swap" "COMPARE_AND_SWAP" (origin compare result datatype rank displacement win) (error) |l| 0;
    WinCreate "Win_create" "win_create" "WIN_CREATE" (base size unit info comm win) (error) |l| 0;
    WinAllocate "Win_allocate" "win_allocate" "WIN_ALLOCATE" (size unit info comm base win) (error) |l| 0;
    WinAllocateShared "Win_allocate_shared" "win_allocate_shared" "WIN_ALLOCATE_SHARED" (size unit info comm base win) (error) |l| 0;
    WinCreateDynamic "Win_create_dynamic" "win_create_dynamic" "WIN_CREATE_DYNAMIC" (info comm win) (error) |l| 0;
    WinFree "Win_free" "win_free" "WIN_FREE" (win) (error) |l| 0;
    WinFence "Win_fence" "win_fence" "WIN_FENCE" (assert win) (error) |l| 0;
    WinStart "Win_start" "win_start" "WIN_START" (group assert win) (error) |l| 0;
    WinComplete "Win_complete" "win_complete" "WIN_COMPLETE" (win) (error) |l| 0;
    WinPost "Win_post" "win_post" "WIN_POST" (group assert win) (error) |l| 0;
    WinWait "Win_wait" "win_wait" "WIN_WAIT" (win) (error) |l| 0;
    WinTest "Win_test" "win_test" "WIN_TEST" (win flag) (error) |l| 0;
    WinLock "Win_lock" "win_lock" "WIN_LOCK" (kind rank assert win) (error) |l| 0;
    WinUnlock "Win_unlock" "win_unlock" "WIN_UNLOCK" (rank win) (error) |l| 0;
    WinLockAll "Win_lock_all" "win_lock_all" "WIN_LOCK_ALL" (assert win) (error) |l| 0;
    WinUnlockAll "Win_unlock_all" "win_unlock_all" "WIN_UNLOCK_ALL" (win) (error) |l| 0;
    WinFlush "Win_flush" "win_flush" "WIN_FLUSH" (rank win) (error) |l| 0;
    WinFlushAll "Win_flush_all" "win_flush_all" "WIN_FLUSH_ALL" (win) (error) |l| 0;
    WinFlushLocal "Win_flush_local" "win_flush_local" "WIN_FLUSH_LOCAL" (rank win) (error) |l| 0;
    WinFlushLocalAll "Win_flush_local_all" "win_flush_local_all" "WIN_FLUSH_LOCAL_ALL" (win) (error) |l| 0;
    WinSync "Win_sync" "win_sync" "WIN_SYNC" (win) (error) |l| 0;
    CommDup "Comm_dup" "comm_dup" "COMM_DUP" (comm newcomm) (error) |l| 0;
    CommIdup "Comm_idup" "comm_idup" "COMM_IDUP" (comm newcomm request) (error) |l| 0;
    CommSplit "Comm_split" "comm_split" "COMM_SPLIT" (comm color key newcomm) (error) |l| 0;
    CommSplitType "Comm_split_type" "comm_split_type" "COMM_SPLIT_TYPE" (comm kind key info newcomm) (error) |l| 0;
    CommCreate "Comm_create" "comm_create" "COMM_CREATE" (comm group newcomm) (error) |l| 0;
    CommCreateGroup "Comm_create_group" "comm_create_group" "COMM_CREATE_GROUP" (comm group tag newcomm) (error) |l| 0;
    CommFree "Comm_free" "comm_free" "COMM_FREE" (comm) (error) |l| 0;
    CartCreate "Cart_create" "cart_create" "CART_CREATE" (comm ndims dims periods reorder newcomm) (error) |l| 0;
    IntercommCreate "Intercomm_create" "intercomm_create" "INTERCOMM_CREATE" (local local_leader peer remote_leader tag newcomm) (error) |l| 0;
    FileOpen "File_open" "file_open" "FILE_OPEN" (comm filename amode info fh) (error hidden) |l| 0;
    FileClose "File_close" "file_close" "FILE_CLOSE" (fh) (error) |l| 0;
    FileSetView "File_set_view" "file_set_view" "FILE_SET_VIEW" (fh displacement etype filetype datarep info) (error hidden) |l| 0;
    FileSync "File_sync" "file_sync" "FILE_SYNC" (fh) (error) |l| 0;
    FileRead "File_read" "file_read" "FILE_READ" (fh buf count datatype status) (error) |l| l.of(count, datatype);
    FileReadAll "File_read_all" "file_read_all" "FILE_READ_ALL" (fh buf count datatype status) (error) |l| l.of(count, datatype);
    FileReadAt "File_read_at" "file_read_at" "FILE_READ_AT" (fh offset buf count datatype status) (error) |l| l.of(count, datatype);
    FileReadAtAll "File_read_at_all" "file_read_at_all" "FILE_READ_AT_ALL" (fh offset buf count datatype status) (error) |l| l.of(count, datatype);
    FileReadShared "File_read_shared" "file_read_shared" "FILE_READ_SHARED" (fh buf count datatype status) (error) |l| l.of(count, datatype);
    FileReadOrdered "File_read_ordered" "file_read_ordered" "FILE_READ_ORDERED" (fh buf count datatype status) (error) |l| l.of(count, datatype);
    FileIread "File_iread" "file_iread" "FILE_IREAD" (fh buf count datatype request) (error) |l| l.of(count, datatype);
    FileIreadAt "File_iread_at" "file_iread_at" "FILE_IREAD_AT" (fh offset buf count datatype request) (error) |l| l.of(count, datatype);
    FileWrite "File_write" "file_write" "FILE_WRITE" (fh buf count datatype status) (error) |l| l.of(count, datatype);
    FileWriteAll "File_write_all" "file_write_all" "FILE_WRITE_ALL" (fh buf count datatype status) (error) |l| l.of(count, datatype);
    FileWriteAt "File_write_at" "file_write_at" "FILE_WRITE_AT" (fh offset buf count datatype status) (error) |l| l.of(count, datatype);
    FileWriteAtAll "File_write_at_all" "file_write_at_all" "FILE_WRITE_AT_ALL" (fh offset buf count datatype status) (error) |l| l.of(count, datatype);
    FileWriteShared "File_write_shared" "file_write_shared" "FILE_WRITE_SHARED" (fh buf count datatype status) (error) |l| l.of(count, datatype);
    FileWriteOrdered "File_write_ordered" "file_write_ordered" "FILE_WRITE_ORDERED" (fh buf count datatype status) (error) |l| l.of(count, datatype);
    FileIwrite "File_iwrite" "file_iwrite" "FILE_IWRITE" (fh buf count datatype request) (error) |l| l.of(count, datatype);
    FileIwriteAt "File_iwrite_at" "file_iwrite_at" "FILE_IWRITE_AT" (fh offset buf count datatype request) (error) |l| l.of(count, datatype);
}
