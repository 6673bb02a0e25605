//! The nine calls for remote memory access.

use libc::{c_void, iovec, ssize_t};

use crate::bindings as fi;
use crate::engine::Engine;
use crate::ep::Ep;
use crate::guard::{EINVAL, Fi, guard_data, lock};
use crate::object::object;
use crate::ops::{Flags, Regions, RemoteCall};

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

type Post = unsafe fn(&mut Engine, &RemoteCall) -> Fi<()>;

/// # Safety
/// `ep` is a live handle or null, and the memory is valid as fi_rma(3) demands.
unsafe fn post(ep: *mut fi::fid_ep, post: Post, call: &RemoteCall) -> Fi<()> {
    // SAFETY: by the contract of this function.
    unsafe {
        let ep = object::<Ep, _>(ep)?;
        ep.needs(fi::FI_RMA)?;
        post(&mut *lock(&ep.engine)?, call)
    }
}

/// A call with default flags.
fn call(
    regions: Regions,
    to: fi::fi_addr_t,
    (address, key): (u64, u64),
    context: *mut c_void,
) -> RemoteCall {
    let context = context.expose_provenance();
    RemoteCall { regions, to, address, key, data: None, context, flags: Flags::Default }
}

/// # Safety
/// `msg` is null or valid, and so is what it points to.
unsafe fn from_msg(msg: *const fi::fi_msg_rma, flags: u64) -> Fi<RemoteCall> {
    // SAFETY: by the contract of this function.
    unsafe {
        let msg = msg.as_ref().ok_or(EINVAL)?;
        let regions = Regions::read(msg.msg_iov, msg.iov_count)?;
        let target = msg.rma_iov.as_ref().filter(|_| msg.rma_iov_count == 1).ok_or(EINVAL)?;
        if target.len != regions.len() {
            return Err(EINVAL);
        }
        let data = (flags & fi::FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        let whole = call(regions, msg.addr, (target.addr, target.key), msg.context);
        Ok(RemoteCall { data, flags: Flags::Given(flags), ..whole })
    }
}

unsafe extern "C" fn read(
    ep: *mut fi::fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: fi_rma(3) demands what `post` does, here and below.
    guard_data(|| unsafe {
        post(ep, Engine::read, &call(Regions::one(buf, len)?, from, (address, key), context))
    })
}

unsafe extern "C" fn readv(
    ep: *mut fi::fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: see `read`.
    guard_data(|| unsafe {
        let regions = Regions::read(iov, count)?;
        post(ep, Engine::read, &call(regions, from, (address, key), context))
    })
}

unsafe extern "C" fn readmsg(
    ep: *mut fi::fid_ep,
    msg: *const fi::fi_msg_rma,
    flags: u64,
) -> ssize_t {
    // SAFETY: see `read`.
    guard_data(|| unsafe { post(ep, Engine::read, &from_msg(msg, flags)?) })
}

unsafe extern "C" fn write(
    ep: *mut fi::fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: see `read`.
    guard_data(|| unsafe {
        post(ep, Engine::write, &call(Regions::one(buf, len)?, to, (address, key), context))
    })
}

unsafe extern "C" fn writev(
    ep: *mut fi::fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    to: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: see `read`.
    guard_data(|| unsafe {
        let regions = Regions::read(iov, count)?;
        post(ep, Engine::write, &call(regions, to, (address, key), context))
    })
}

unsafe extern "C" fn writemsg(
    ep: *mut fi::fid_ep,
    msg: *const fi::fi_msg_rma,
    flags: u64,
) -> ssize_t {
    // SAFETY: see `read`.
    guard_data(|| unsafe { post(ep, Engine::write, &from_msg(msg, flags)?) })
}

unsafe extern "C" fn inject(
    ep: *mut fi::fid_ep,
    buf: *const c_void,
    len: usize,
    to: u64,
    address: u64,
    key: u64,
) -> ssize_t {
    // SAFETY: see `read`.
    guard_data(|| unsafe {
        let whole = call(Regions::one(buf, len)?, to, (address, key), std::ptr::null_mut());
        post(ep, Engine::write, &RemoteCall { flags: Flags::Inject, ..whole })
    })
}

unsafe extern "C" fn writedata(
    ep: *mut fi::fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: see `read`.
    guard_data(|| unsafe {
        let whole = call(Regions::one(buf, len)?, to, (address, key), context);
        post(ep, Engine::write, &RemoteCall { data: Some(data), ..whole })
    })
}

unsafe extern "C" fn injectdata(
    ep: *mut fi::fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    to: u64,
    address: u64,
    key: u64,
) -> ssize_t {
    // SAFETY: see `read`.
    guard_data(|| unsafe {
        let whole = call(Regions::one(buf, len)?, to, (address, key), std::ptr::null_mut());
        post(ep, Engine::write, &RemoteCall { data: Some(data), flags: Flags::Inject, ..whole })
    })
}
