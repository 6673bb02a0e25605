//! Atomic operations on remote memory: not offered yet; the table is whole all the same.

use libc::{c_int, c_void, ssize_t};

use crate::bindings as fi;
use crate::guard::unsupported;

pub(crate) static OPS: fi::fi_ops_atomic = fi::fi_ops_atomic {
    size: size_of::<fi::fi_ops_atomic>(),
    write: Some(write),
    writev: Some(writev),
    writemsg: Some(writemsg),
    inject: Some(inject),
    readwrite: Some(readwrite),
    readwritev: Some(readwritev),
    readwritemsg: Some(readwritemsg),
    compwrite: Some(compwrite),
    compwritev: Some(compwritev),
    compwritemsg: Some(compwritemsg),
    writevalid: Some(writevalid),
    readwritevalid: Some(readwritevalid),
    compwritevalid: Some(compwritevalid),
};

type Ep = *mut fi::fid_ep;
type Buf = *const c_void;
type Desc = *mut c_void;
type Descs = *mut *mut c_void;
type Iocs = *const fi::fi_ioc;
type Results = *mut fi::fi_ioc;
type Msg = *const fi::fi_msg_atomic;
type Type = fi::fi_datatype;
type Op = fi::fi_op;

unsupported! {
    write(Ep, Buf, usize, Desc, u64, u64, u64, Type, Op, *mut c_void) -> ssize_t;
    writev(Ep, Iocs, Descs, usize, u64, u64, u64, Type, Op, *mut c_void) -> ssize_t;
    writemsg(Ep, Msg, u64) -> ssize_t;
    inject(Ep, Buf, usize, u64, u64, u64, Type, Op) -> ssize_t;
    readwrite(Ep, Buf, usize, Desc, *mut c_void, Desc, u64, u64, u64, Type, Op, *mut c_void) -> ssize_t;
    readwritev(Ep, Iocs, Descs, usize, Results, Descs, usize, u64, u64, u64, Type, Op, *mut c_void) -> ssize_t;
    readwritemsg(Ep, Msg, Results, Descs, usize, u64) -> ssize_t;
    compwrite(Ep, Buf, usize, Desc, Buf, Desc, *mut c_void, Desc, u64, u64, u64, Type, Op, *mut c_void) -> ssize_t;
    compwritev(Ep, Iocs, Descs, usize, Iocs, Descs, usize, Results, Descs, usize, u64, u64, u64, Type, Op, *mut c_void) -> ssize_t;
    compwritemsg(Ep, Msg, Iocs, Descs, usize, Results, Descs, usize, u64) -> ssize_t;
    writevalid(Ep, Type, Op, *mut usize) -> c_int;
    readwritevalid(Ep, Type, Op, *mut usize) -> c_int;
    compwritevalid(Ep, Type, Op, *mut usize) -> c_int;
}
