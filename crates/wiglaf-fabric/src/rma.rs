//! Remote memory access: not offered yet. The table is whole all the same, since callers do not
//! look at the capabilities before they follow a pointer.

use libc::{c_void, iovec, ssize_t};

use crate::bindings as fi;
use crate::guard::unsupported;

pub(crate) static OPS: fi::fi_ops_rma = fi::fi_ops_rma {
    size: size_of::<fi::fi_ops_rma>(),
    read: Some(read),
    readv: Some(readv),
    readmsg: Some(readmsg),
    write: Some(write),
    writev: Some(writev),
    writemsg: Some(writemsg),
    inject: Some(inject),
    writedata: Some(writedata),
    injectdata: Some(injectdata),
};

type Ep = *mut fi::fid_ep;
type Desc = *mut c_void;
type Descs = *mut *mut c_void;

unsupported! {
    read(Ep, *mut c_void, usize, Desc, u64, u64, u64, *mut c_void) -> ssize_t;
    readv(Ep, *const iovec, Descs, usize, u64, u64, u64, *mut c_void) -> ssize_t;
    readmsg(Ep, *const fi::fi_msg_rma, u64) -> ssize_t;
    write(Ep, *const c_void, usize, Desc, u64, u64, u64, *mut c_void) -> ssize_t;
    writev(Ep, *const iovec, Descs, usize, u64, u64, u64, *mut c_void) -> ssize_t;
    writemsg(Ep, *const fi::fi_msg_rma, u64) -> ssize_t;
    inject(Ep, *const c_void, usize, u64, u64, u64) -> ssize_t;
    writedata(Ep, *const c_void, usize, Desc, u64, u64, u64, u64, *mut c_void) -> ssize_t;
    injectdata(Ep, *const c_void, usize, u64, u64, u64, u64) -> ssize_t;
}
