//! The nine calls for tagged messages.

use wiglaf_endpoint::{Class, Region};

use crate::bindings as fi;
use crate::guard::{EINVAL, guard_data};
use crate::msg::{post_recv, post_send};
use crate::ops::{Flags, RecvCall, Regions, SendCall, piece};

pub(crate) static OPS: fi::fi_ops_tagged = fi::fi_ops_tagged {
    size: size_of::<fi::fi_ops_tagged>(),
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

fn outgoing(pieces: &[Region], to: fi::fi_addr_t, tag: u64) -> SendCall<'_> {
    let flags = Flags::Default;
    SendCall { class: Class::Tagged, pieces, to, tag, data: None, context: 0, flags }
}

fn incoming(
    pieces: &[Region],
    from: fi::fi_addr_t,
    (tag, ignore): (u64, u64),
    context: *mut libc::c_void,
) -> RecvCall<'_> {
    let context = context.expose_provenance();
    RecvCall { class: Class::Tagged, pieces, from, tag, ignore, context, flags: Flags::Default }
}

unsafe extern "C" fn recv(
    ep: *mut fi::fid_ep,
    buf: *mut libc::c_void,
    len: usize,
    _desc: *mut libc::c_void,
    src_addr: fi::fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut libc::c_void,
) -> libc::ssize_t {
    // SAFETY: fi_tagged(3) demands what `post_recv` does, here and below.
    guard_data(|| unsafe {
        post_recv(ep, &incoming(&[piece(buf, len)?], src_addr, (tag, ignore), context))
    })
}

unsafe extern "C" fn recvv(
    ep: *mut fi::fid_ep,
    iov: *const libc::iovec,
    _desc: *mut *mut libc::c_void,
    count: usize,
    src_addr: fi::fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut libc::c_void,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        post_recv(
            ep,
            &incoming(Regions::read(iov, count)?.pieces(), src_addr, (tag, ignore), context),
        )
    })
}

unsafe extern "C" fn recvmsg(
    ep: *mut fi::fid_ep,
    msg: *const fi::fi_msg_tagged,
    flags: u64,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        let msg = msg.as_ref().ok_or(EINVAL)?;
        let regions = Regions::to_receive(msg.msg_iov, msg.iov_count, flags)?;
        let call = incoming(regions.pieces(), msg.addr, (msg.tag, msg.ignore), msg.context);
        post_recv(ep, &RecvCall { flags: Flags::Given(flags), ..call })
    })
}

unsafe extern "C" fn send(
    ep: *mut fi::fid_ep,
    buf: *const libc::c_void,
    len: usize,
    _desc: *mut libc::c_void,
    dest_addr: fi::fi_addr_t,
    tag: u64,
    context: *mut libc::c_void,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        let pieces = [piece(buf, len)?];
        let call = outgoing(&pieces, dest_addr, tag);
        post_send(ep, &SendCall { context: context.expose_provenance(), ..call })
    })
}

unsafe extern "C" fn sendv(
    ep: *mut fi::fid_ep,
    iov: *const libc::iovec,
    _desc: *mut *mut libc::c_void,
    count: usize,
    dest_addr: fi::fi_addr_t,
    tag: u64,
    context: *mut libc::c_void,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        let regions = Regions::read(iov, count)?;
        let call = outgoing(regions.pieces(), dest_addr, tag);
        post_send(ep, &SendCall { context: context.expose_provenance(), ..call })
    })
}

unsafe extern "C" fn sendmsg(
    ep: *mut fi::fid_ep,
    msg: *const fi::fi_msg_tagged,
    flags: u64,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        let msg = msg.as_ref().ok_or(EINVAL)?;
        let regions = Regions::read(msg.msg_iov, msg.iov_count)?;
        let call = outgoing(regions.pieces(), msg.addr, msg.tag);
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
    tag: u64,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        let pieces = [piece(buf, len)?];
        let call = outgoing(&pieces, dest_addr, tag);
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
    tag: u64,
    context: *mut libc::c_void,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        let pieces = [piece(buf, len)?];
        let call = outgoing(&pieces, dest_addr, tag);
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
    tag: u64,
) -> libc::ssize_t {
    // SAFETY: see `recv`.
    guard_data(|| unsafe {
        let pieces = [piece(buf, len)?];
        let call = outgoing(&pieces, dest_addr, tag);
        post_send(ep, &SendCall { data: Some(data), flags: Flags::Inject, ..call })
    })
}
