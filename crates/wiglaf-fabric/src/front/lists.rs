//! Copies `fi_info`, whoever made it: every part is libc's memory.

use std::ffi::{c_char, c_void};
use std::ptr;

use crate::bindings as fi;
use crate::guard::{Errno, Fi};
use crate::info::alloc;

const NO_MEMORY: Errno = Errno(fi::FI_ENOMEM);

/// A copy of one entry with all its parts, or an empty one where there is none to copy.
///
/// # Safety
/// `entry` is null or valid, with all it points to.
pub(super) unsafe fn copy(entry: *const fi::fi_info) -> Fi<*mut fi::fi_info> {
    let fresh: *mut fi::fi_info = zeroed()?;
    // SAFETY: `fresh` is zeroed memory of its type, for which zero is a value; nobody else knows it.
    let filled = unsafe {
        match entry.as_ref() {
            Some(from) => fill(&mut *fresh, from),
            None => fill_empty(&mut *fresh),
        }
    };
    if let Err(error) = filled {
        // SAFETY: every part of it is null or has been made here.
        unsafe { alloc::free(fresh) };
        return Err(error);
    }
    Ok(fresh)
}

fn fill_empty(info: &mut fi::fi_info) -> Fi<()> {
    info.tx_attr = zeroed()?;
    info.rx_attr = zeroed()?;
    info.ep_attr = zeroed()?;
    info.domain_attr = zeroed()?;
    info.fabric_attr = zeroed()?;
    Ok(())
}

/// # Safety
/// `from` is valid with all it points to; `to` is zeroed.
unsafe fn fill(to: &mut fi::fi_info, from: &fi::fi_info) -> Fi<()> {
    to.caps = from.caps;
    to.mode = from.mode;
    to.addr_format = from.addr_format;
    to.handle = from.handle;
    // SAFETY: each part is null or valid for its type, or for the length beside it. What a copied part
    // points to is cleared before anything can fail: `alloc::free` must not meet another's memory.
    unsafe {
        to.src_addr = copy_bytes(from.src_addr, from.src_addrlen)?;
        to.src_addrlen = from.src_addrlen;
        to.dest_addr = copy_bytes(from.dest_addr, from.dest_addrlen)?;
        to.dest_addrlen = from.dest_addrlen;
        to.tx_attr = copy_part(from.tx_attr)?;
        to.rx_attr = copy_part(from.rx_attr)?;
        to.ep_attr = copy_part(from.ep_attr)?;
        if let Some(ep) = to.ep_attr.as_mut() {
            let key = std::mem::replace(&mut ep.auth_key, ptr::null_mut());
            ep.auth_key = copy_bytes(key.cast(), ep.auth_key_size)?.cast();
        }
        to.domain_attr = copy_part(from.domain_attr)?;
        if let Some(domain) = to.domain_attr.as_mut() {
            let name = std::mem::replace(&mut domain.name, ptr::null_mut());
            let key = std::mem::replace(&mut domain.auth_key, ptr::null_mut());
            domain.name = copy_text(name)?;
            domain.auth_key = copy_bytes(key.cast(), domain.auth_key_size)?.cast();
        }
        to.fabric_attr = copy_part(from.fabric_attr)?;
        if let Some(fabric) = to.fabric_attr.as_mut() {
            let name = std::mem::replace(&mut fabric.name, ptr::null_mut());
            let provider = std::mem::replace(&mut fabric.prov_name, ptr::null_mut());
            fabric.name = copy_text(name)?;
            fabric.prov_name = copy_text(provider)?;
        }
        to.nic = copy_nic(from.nic)?;
    }
    Ok(())
}

/// A card is described by an object that copies itself; ours has none, but others' have.
///
/// # Safety
/// `nic` is null or a live object.
unsafe fn copy_nic(nic: *mut fi::fid_nic) -> Fi<*mut fi::fid_nic> {
    let fid: *mut fi::fid = nic.cast();
    let mut copy: *mut fi::fid_nic = ptr::null_mut();
    // SAFETY: every object begins with its `fid`, whose table is valid.
    unsafe {
        let Some(control) = fid.as_ref().and_then(|fid| fid.ops.as_ref()?.control) else {
            return Ok(copy);
        };
        match control(fid, fi::FI_DUP as libc::c_int, (&raw mut copy).cast()) {
            0 => Ok(copy),
            error if error == -fi::FI_ENOSYS => Ok(ptr::null_mut()),
            error => Err(Errno(error.saturating_neg())),
        }
    }
}

fn zeroed<T>() -> Fi<*mut T> {
    // SAFETY: calloc may be called with any sizes.
    let memory = unsafe { libc::calloc(1, size_of::<T>()) };
    if memory.is_null() { Err(NO_MEMORY) } else { Ok(memory.cast()) }
}

/// # Safety
/// `from` is null or valid for reads of its type.
unsafe fn copy_part<T>(from: *mut T) -> Fi<*mut T> {
    // SAFETY: by the contract of this function.
    unsafe { copy_bytes(from.cast(), size_of::<T>()).map(<*mut c_void>::cast) }
}

/// # Safety
/// `from` is null or valid for reads of `len` bytes.
unsafe fn copy_bytes(from: *mut c_void, len: usize) -> Fi<*mut c_void> {
    if from.is_null() {
        return Ok(ptr::null_mut());
    }
    // SAFETY: malloc may be called with any size; one byte tells an empty part from none.
    let memory = unsafe { libc::malloc(len.max(1)) };
    if memory.is_null() {
        return Err(NO_MEMORY);
    }
    // SAFETY: both are valid for `len` bytes, and `memory` is fresh.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), memory.cast::<u8>(), len) };
    Ok(memory)
}

/// # Safety
/// `text` is null or a C string.
pub(super) unsafe fn copy_text(text: *const c_char) -> Fi<*mut c_char> {
    if text.is_null() {
        return Ok(ptr::null_mut());
    }
    // SAFETY: by the contract of this function.
    let copy = unsafe { libc::strdup(text) };
    if copy.is_null() { Err(NO_MEMORY) } else { Ok(copy) }
}
