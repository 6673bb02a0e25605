//! The nine calls for untagged messages.

use wiglaf_endpoint::{Class, Region};

use crate::bindings as fi;
use crate::ep::Ep;
use crate::guard::{EINVAL, Fi, guard_data, lock};
use crate::object::object;
use crate::ops::{Flags, RecvCall, Regions, SendCall, piece};

pub(crate) static OPS: fi::fi_ops_msg = fi::fi_ops_msg {
    size: size_of::<fi::fi_ops_msg>(),
    recv: Some(recv),
    recvv: Some(recvv),
    recvmsg: Some(recvmsg),
    send: Some(send),
    sendv: Some(sendv),
    sendmsg: Some(sendmsg),
    inject: Some(inject),
    senddata: Some(senddata),
    injectdata: Some(injectdata),
};

/// Posts a send of either table.
///
/// # Safety
/// `ep` is a live handle or null, and the memory is valid as fi_msg(3) demands.
pub(crate) unsafe fn post_send(ep: *mut fi::fid_ep, call: &SendCall<'_>) -> Fi<()> {
    // SAFETY: by the contract of this function.
    unsafe { lock(&object::<Ep, _>(ep)?.engine)?.send(call) }
}

/// Posts a receive of either table.
///
/// # Safety
/// As for [`post_send`].
pub(crate) unsafe fn post_recv(ep: *mut fi::fid_ep, call: &RecvCall<'_>) -> Fi<()> {
    // SAFETY: by the contract of this function.
    unsafe { lock(&object::<Ep, _>(ep)?.engine)?.recv(call) }
}

fn outgoing(pieces: &[Region], to: fi::fi_addr_t) -> SendCall<'_> {
    let flags = Flags::Default;
    SendCall { class: Class::Untagged, pieces, to, tag: 0, data: None, context: 0, flags }
}

fn incoming(pieces: &[Region], from: fi::fi_addr_t, context: *mut libc::c_void) -> RecvCall<'_> {
    RecvCall {
        class: Class::Untagged,
        pieces,
        from,
        tag: 0,
        ignore: u64::MAX,
        context: context.expose_provenance(),
        flags: Flags::Default,
    }
}

unsafe extern "C" fn recv(
    ep: *mut fi::fid_ep,
    buf: *mut libc::c_void,
    len: usize,
    _desc: *mut libc::c_void,
    src_addr: fi::fi_addr_t,
    context: *mut libc::c_void,
) -> libc::ssize_t {
    // SAFETY: fi_msg(3) demands what `post_recv` does, here and below.
    guard_data(|| unsafe { post_recv(ep, &incoming(&[piece(buf, len)?], src_addr, context)) })
}

unsafe extern "C" fn recvv(
    ep: *mut fi::fid_ep,
    iov: *const libc::iovec,
    _desc: *mut *mut libc::c_void,
    count: usize,
    src_addr: fi::fi_addr_t,
    context: *mut libc::c_void,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        post_recv(ep, &incoming(Regions::read(iov, count)?.pieces(), src_addr, context))
    })
}

unsafe extern "C" fn recvmsg(
    ep: *mut fi::fid_ep,
    msg: *const fi::fi_msg,
    flags: u64,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        let msg = msg.as_ref().ok_or(EINVAL)?;
        let regions = Regions::to_receive(msg.msg_iov, msg.iov_count, flags)?;
        let call = incoming(regions.pieces(), msg.addr, msg.context);
        post_recv(ep, &RecvCall { flags: Flags::Given(flags), ..call })
    })
}

unsafe extern "C" fn send(
    ep: *mut fi::fid_ep,
    buf: *const libc::c_void,
    len: usize,
    _desc: *mut libc::c_void,
    dest_addr: fi::fi_addr_t,
    context: *mut libc::c_void,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        let pieces = [piece(buf, len)?];
        let call = outgoing(&pieces, dest_addr);
        post_send(ep, &SendCall { context: context.expose_provenance(), ..call })
    })
}

unsafe extern "C" fn sendv(
    ep: *mut fi::fid_ep,
    iov: *const libc::iovec,
    _desc: *mut *mut libc::c_void,
    count: usize,
    dest_addr: fi::fi_addr_t,
    context: *mut libc::c_void,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        let regions = Regions::read(iov, count)?;
        let call = outgoing(regions.pieces(), dest_addr);
        post_send(ep, &SendCall { context: context.expose_provenance(), ..call })
    })
}

unsafe extern "C" fn sendmsg(
    ep: *mut fi::fid_ep,
    msg: *const fi::fi_msg,
    flags: u64,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        let msg = msg.as_ref().ok_or(EINVAL)?;
        let regions = Regions::read(msg.msg_iov, msg.iov_count)?;
        let call = outgoing(regions.pieces(), msg.addr);
        let data = (flags & fi::FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        let context = msg.context.expose_provenance();
        post_send(ep, &SendCall { data, context, flags: Flags::Given(flags), ..call })
    })
}

unsafe extern "C" fn inject(
    ep: *mut fi::fid_ep,
    buf: *const libc::c_void,
    len: usize,
    dest_addr: fi::fi_addr_t,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        let pieces = [piece(buf, len)?];
        let call = outgoing(&pieces, dest_addr);
        post_send(ep, &SendCall { flags: Flags::Inject, ..call })
    })
}

unsafe extern "C" fn senddata(
    ep: *mut fi::fid_ep,
    buf: *const libc::c_void,
    len: usize,
    _desc: *mut libc::c_void,
    data: u64,
    dest_addr: fi::fi_addr_t,
    context: *mut libc::c_void,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        let pieces = [piece(buf, len)?];
        let call = outgoing(&pieces, dest_addr);
        let context = context.expose_provenance();
        post_send(ep, &SendCall { data: Some(data), context, ..call })
    })
}

unsafe extern "C" fn injectdata(
    ep: *mut fi::fid_ep,
    buf: *const libc::c_void,
    len: usize,
    data: u64,
    dest_addr: fi::fi_addr_t,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        let pieces = [piece(buf, len)?];
        let call = outgoing(&pieces, dest_addr);
        post_send(ep, &SendCall { data: Some(data), flags: Flags::Inject, ..call })
    })
}
