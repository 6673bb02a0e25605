//! Collective operations of the fabric itself: not offered; the MPIs bring their own.

use libc::{c_void, ssize_t};

use crate::bindings as fi;
use crate::guard::unsupported;

pub(crate) static OPS: fi::fi_ops_collective = fi::fi_ops_collective {
    size: size_of::<fi::fi_ops_collective>(),
    barrier: Some(barrier),
    broadcast: Some(broadcast),
    alltoall: Some(alltoall),
    allreduce: Some(allreduce),
    allgather: Some(allgather),
    reduce_scatter: Some(reduce_scatter),
    reduce: Some(reduce),
    scatter: Some(scatter),
    gather: Some(gather),
    msg: Some(msg),
    barrier2: Some(barrier2),
};

type Ep = *mut fi::fid_ep;
type Buf = *const c_void;
type Desc = *mut c_void;
type Result = *mut c_void;
type Type = fi::fi_datatype;
type Op = fi::fi_op;

unsupported! {
    barrier(Ep, u64, *mut c_void) -> ssize_t;
    broadcast(Ep, *mut c_void, usize, Desc, u64, u64, Type, u64, *mut c_void) -> ssize_t;
    alltoall(Ep, Buf, usize, Desc, Result, Desc, u64, Type, u64, *mut c_void) -> ssize_t;
    allreduce(Ep, Buf, usize, Desc, Result, Desc, u64, Type, Op, u64, *mut c_void) -> ssize_t;
    allgather(Ep, Buf, usize, Desc, Result, Desc, u64, Type, u64, *mut c_void) -> ssize_t;
    reduce_scatter(Ep, Buf, usize, Desc, Result, Desc, u64, Type, Op, u64, *mut c_void) -> ssize_t;
    reduce(Ep, Buf, usize, Desc, Result, Desc, u64, u64, Type, Op, u64, *mut c_void) -> ssize_t;
    scatter(Ep, Buf, usize, Desc, Result, Desc, u64, u64, Type, u64, *mut c_void) -> ssize_t;
    gather(Ep, Buf, usize, Desc, Result, Desc, u64, u64, Type, u64, *mut c_void) -> ssize_t;
    msg(Ep, *const fi::fi_msg_collective, *mut fi::fi_ioc, *mut *mut c_void, usize, u64) -> ssize_t;
    barrier2(Ep, u64, u64, *mut c_void) -> ssize_t;
}
