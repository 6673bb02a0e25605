//! Writes a `fi_info` for C, and frees one, whoever wrote it.
//!
//! libfabric frees every part with free(), so every part comes from calloc. Its structures have
//! grown since the headers that the bindings were made of, and a newer core copies its own, larger
//! size: each allocation gets zeroed slack behind it.

use std::ffi::CStr;
use std::ptr;

use wiglaf_endpoint::Address;

use super::{
    COMM, INJECT_LEN, IOV_LIMIT, MEM_TAG_FORMAT, NAME, OBJECTS_MAX, Offer, PROTOCOL,
    PROTOCOL_VERSION, REMOTE_ORDERS,
};
use crate::addr::{ADDRESS_LEN, to_bytes};
use crate::bindings as fi;
use crate::guard::{Errno, Fi};

/// More than any of the structures has grown by between 1.17 and 2.6.
const SLACK_LEN: usize = 256;

/// Makes the answer; the caller owns it and frees it as `fi_freeinfo` does.
pub(super) fn allocate(offer: &Offer) -> Fi<*mut fi::fi_info> {
    let info = zeroed::<fi::fi_info>()?;
    // SAFETY: `info` is fresh zeroed memory, and zero is a valid value of every field.
    if let Err(error) = fill(unsafe { &mut *info }, offer) {
        // SAFETY: made above, and nobody else knows it.
        unsafe { free(info) };
        return Err(error);
    }
    Ok(info)
}

fn zeroed<T>() -> Fi<*mut T> {
    // SAFETY: calloc may be called with any sizes.
    let memory = unsafe { libc::calloc(1, size_of::<T>() + SLACK_LEN) };
    if memory.is_null() { Err(Errno(fi::FI_ENOMEM)) } else { Ok(memory.cast()) }
}

fn text(name: &CStr) -> Fi<*mut libc::c_char> {
    // SAFETY: a `CStr` is a C string.
    let copy = unsafe { libc::strdup(name.as_ptr()) };
    if copy.is_null() { Err(Errno(fi::FI_ENOMEM)) } else { Ok(copy) }
}

fn address(address: Option<Address>) -> Fi<(*mut libc::c_void, usize)> {
    let Some(address) = address else { return Ok((ptr::null_mut(), 0)) };
    let memory = zeroed::<[u8; ADDRESS_LEN]>()?;
    // SAFETY: `memory` has that size.
    unsafe { memory.write(to_bytes(&address)) };
    Ok((memory.cast(), ADDRESS_LEN))
}

fn fill(info: &mut fi::fi_info, offer: &Offer) -> Fi<()> {
    info.caps = offer.caps;
    info.addr_format = fi::FI_SOCKADDR_IN;
    (info.src_addr, info.src_addrlen) = address(offer.source)?;
    (info.dest_addr, info.dest_addrlen) = address(offer.destination)?;
    info.tx_attr = zeroed()?;
    info.rx_attr = zeroed()?;
    info.ep_attr = zeroed()?;
    info.domain_attr = zeroed()?;
    info.fabric_attr = zeroed()?;
    // SAFETY: all five are fresh zeroed memory of their types.
    let (tx, rx, ep, domain, fabric) = unsafe {
        (
            &mut *info.tx_attr,
            &mut *info.rx_attr,
            &mut *info.ep_attr,
            &mut *info.domain_attr,
            &mut *info.fabric_attr,
        )
    };
    fill_queues(tx, rx, offer);
    fill_endpoint(ep, offer);
    fill_domain(domain, offer)?;
    fabric.name = text(NAME)?;
    fabric.prov_version = crate::prov::VERSION;
    fabric.api_version = offer.api_version;
    Ok(())
}

fn fill_queues(tx: &mut fi::fi_tx_attr, rx: &mut fi::fi_rx_attr, offer: &Offer) {
    tx.caps = offer.tx_caps;
    tx.op_flags = offer.tx_op_flags;
    tx.msg_order = offer.msg_order;
    tx.inject_size = INJECT_LEN;
    tx.size = offer.tx_size;
    tx.iov_limit = IOV_LIMIT;
    tx.rma_iov_limit = 1;
    rx.caps = offer.rx_caps;
    rx.op_flags = offer.rx_op_flags;
    rx.msg_order = offer.msg_order;
    rx.size = offer.rx_size;
    rx.iov_limit = IOV_LIMIT;
}

fn fill_endpoint(ep: &mut fi::fi_ep_attr, offer: &Offer) {
    ep.type_ = fi::FI_EP_RDM;
    ep.protocol = PROTOCOL;
    ep.protocol_version = PROTOCOL_VERSION;
    ep.max_msg_size = usize::MAX;
    ep.mem_tag_format = MEM_TAG_FORMAT;
    if offer.msg_order & REMOTE_ORDERS != 0 {
        ep.max_order_raw_size = usize::MAX;
        ep.max_order_war_size = usize::MAX;
        ep.max_order_waw_size = usize::MAX;
    }
    ep.tx_ctx_cnt = 1;
    ep.rx_ctx_cnt = 1;
}

fn fill_domain(domain: &mut fi::fi_domain_attr, offer: &Offer) -> Fi<()> {
    domain.name = text(NAME)?;
    domain.threading = offer.threading;
    domain.control_progress = offer.control_progress;
    domain.data_progress = offer.data_progress;
    domain.resource_mgmt = offer.resource_mgmt;
    domain.av_type = offer.av_type;
    domain.mr_mode = offer.mr_mode;
    domain.mr_key_size = 8;
    domain.cq_data_size = 8;
    domain.cq_cnt = OBJECTS_MAX;
    domain.ep_cnt = OBJECTS_MAX;
    domain.cntr_cnt = OBJECTS_MAX;
    domain.mr_cnt = OBJECTS_MAX;
    domain.mr_iov_limit = IOV_LIMIT;
    domain.tx_ctx_cnt = 1;
    domain.rx_ctx_cnt = 1;
    domain.max_ep_tx_ctx = 1;
    domain.max_ep_rx_ctx = 1;
    domain.caps = COMM;
    Ok(())
}

/// Frees a list, whoever made it.
///
/// # Safety
/// `list` is null, or made of libc's memory throughout, and nobody uses it any more.
pub(crate) unsafe fn free(mut list: *mut fi::fi_info) {
    // SAFETY: by the contract of this function; free(3) takes null, too.
    unsafe {
        while let Some(entry) = list.as_mut() {
            let next = entry.next;
            if let Some(ep) = entry.ep_attr.as_ref() {
                libc::free(ep.auth_key.cast());
            }
            if let Some(domain) = entry.domain_attr.as_ref() {
                libc::free(domain.name.cast());
                libc::free(domain.auth_key.cast());
            }
            if let Some(fabric) = entry.fabric_attr.as_ref() {
                libc::free(fabric.name.cast());
                libc::free(fabric.prov_name.cast());
            }
            let nic: *mut fi::fid = entry.nic.cast();
            if let Some(close) = nic.as_ref().and_then(|nic| nic.ops.as_ref()?.close) {
                close(nic);
            }
            for part in [
                entry.src_addr,
                entry.dest_addr,
                entry.tx_attr.cast(),
                entry.rx_attr.cast(),
                entry.ep_attr.cast(),
                entry.domain_attr.cast(),
                entry.fabric_attr.cast(),
            ] {
                libc::free(part);
            }
            libc::free(list.cast());
            list = next;
        }
    }
}
