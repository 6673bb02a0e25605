//! libfabric's own interface, for jobs that use this provider alone.
//!
//! Before libfabric asks any provider it loads and starts all of them. Debian's 1.17 takes 0.26 s for
//! that, in each process: a library for cards of 2006 measures the processor's frequency, and the
//! verbs provider reads the kernel's symbols. So this library exports what libfabric exports, too.
//! Under the name `libfabric.so.1`, first in a job's `LD_LIBRARY_PATH`, it stands before the system's
//! and answers what concerns Wiglaf by itself. All else it hands over to the system's libfabric, which
//! is then loaded and behaves as ever (ADR 0020).
//!
//! Here are the functions that are answered; [`symbols`] names and versions all of them, [`who`] tells
//! whose a query is, [`system`] reaches the system's.

mod lists;
mod symbols;
mod system;
mod who;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use crate::bindings as fi;
use crate::guard::{EINVAL, ENOSYS, Errno, Fi, guard, guard_or};
use crate::object::not_null;
use crate::{fabric, info, log, prov};
use who::{Environment, Who};

/// The interface that this one is: the last of those whose structures [`crate::bindings`] describe.
const VERSION: u32 = (fi::FI_MAJOR_VERSION as u32) << 16 | fi::FI_MINOR_VERSION as u32;

/// Programs ask for the interface that they were built with. That of 1.19 has the same functions and
/// structures; those of 1.20 have versions of their own (`FABRIC_1.7`), which are not exported here.
const ASKED_MAX: u32 = 1 << 16 | 19;

/// `fi_getinfo(3)`, as of FABRIC_1.3.
unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi::fi_info,
    answer: *mut *mut fi::fi_info,
) -> c_int {
    guard_or(-fi::FI_EOTHER, || {
        // SAFETY: fi_getinfo(3) demands hints that are valid, or null.
        let asked = unsafe { provider_name(hints) };
        if flags != fi::FI_PROV_ATTR_ONLY && Environment::read().who(asked) == Who::Wiglaf {
            // SAFETY: the caller's promises are passed on.
            return unsafe { own_info(version, node, service, flags, hints, answer) };
        }
        match system::get().and_then(system::System::getinfo) {
            // SAFETY: as above.
            Some(getinfo) => unsafe { getinfo(version, node, service, flags, hints, answer) },
            None => -fi::FI_ENODATA,
        }
    })
}

/// What this provider answers to `fi_getinfo`.
///
/// # Safety
/// The arguments are what fi_getinfo(3) demands.
unsafe fn own_info(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi::fi_info,
    answer: *mut *mut fi::fi_info,
) -> c_int {
    guard(|| {
        not_null(answer)?;
        if version > ASKED_MAX {
            log::warning!("getinfo: interface {version:#x} is asked for, and this is {VERSION:#x}");
            return Err(ENOSYS);
        }
        let mut found = ptr::null_mut();
        // SAFETY: the caller's promises are passed on; `found` is a pointer of ours.
        let status = unsafe { info::getinfo(version, node, service, flags, hints, &raw mut found) };
        if status != 0 {
            return Err(Errno(fi::FI_ENODATA));
        }
        // SAFETY: the provider has just made the list, and its callers have the rest to fill in.
        unsafe {
            if let Err(error) = sign(found, version) {
                info::alloc::free(found);
                return Err(error);
            }
            answer.write(found);
        }
        Ok(())
    })
}

/// The provider that hints name.
///
/// # Safety
/// `hints` and what it points to are null or valid for reads during `'a`.
unsafe fn provider_name<'a>(hints: *const fi::fi_info) -> Option<&'a CStr> {
    // SAFETY: by the contract of this function.
    unsafe {
        let name = hints.as_ref()?.fabric_attr.as_ref()?.prov_name;
        if name.is_null() { None } else { Some(CStr::from_ptr(name)) }
    }
}

/// Fills in what a provider leaves to libfabric: who it is.
///
/// # Safety
/// `list` comes from the provider, and nobody else knows it.
unsafe fn sign(mut list: *mut fi::fi_info, version: u32) -> Fi<()> {
    // SAFETY: each entry has a `fabric_attr`, and a provider leaves the name null.
    unsafe {
        while let Some(entry) = list.as_mut() {
            let attr = &mut *entry.fabric_attr;
            attr.prov_name = lists::copy_text(info::NAME.as_ptr())?;
            attr.prov_version = prov::VERSION;
            attr.api_version = version;
            list = entry.next;
        }
    }
    Ok(())
}

/// `fi_fabric(3)`, as of FABRIC_1.1.
unsafe extern "C" fn open_fabric(
    attr: *mut fi::fi_fabric_attr,
    opened: *mut *mut fi::fid_fabric,
    context: *mut c_void,
) -> c_int {
    guard_or(-fi::FI_EOTHER, || {
        // SAFETY: fi_fabric(3) demands attributes as fi_getinfo gave them.
        let name = match unsafe { attr.as_ref() } {
            Some(attr) if !attr.prov_name.is_null() && !attr.name.is_null() => {
                // SAFETY: a name that is not null is a C string.
                unsafe { CStr::from_ptr(attr.prov_name) }
            }
            _ => return -EINVAL.0,
        };
        if Environment::read().opens(name) == Who::Wiglaf {
            // SAFETY: the caller's promises are passed on.
            return unsafe { fabric::open(attr, opened, context) };
        }
        match system::get().and_then(system::System::fabric) {
            // SAFETY: as above.
            Some(open) => unsafe { open(attr, opened, context) },
            None => -fi::FI_ENODEV,
        }
    })
}

/// `fi_open(3)`: resources of libfabric itself. Open MPI asks for the cache of registrations, to tell
/// it of memory that is unmapped; there is none but the system's, which is not loaded for that.
unsafe extern "C" fn open_resource(
    version: u32,
    name: *const c_char,
    attr: *mut c_void,
    attr_len: usize,
    flags: u64,
    opened: *mut *mut fi::fid,
    context: *mut c_void,
) -> c_int {
    guard_or(-fi::FI_EOTHER, || {
        if name.is_null() {
            return -EINVAL.0;
        }
        // SAFETY: fi_open(3) demands a C string.
        let name_bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
        if name_bytes.eq_ignore_ascii_case(b"mr_cache") && !system::is_loaded() {
            return -ENOSYS.0;
        }
        match system::get().and_then(system::System::open) {
            // SAFETY: the caller's promises are passed on.
            Some(open) => unsafe { open(version, name, attr, attr_len, flags, opened, context) },
            None => -ENOSYS.0,
        }
    })
}

/// `fi_dupinfo(3)`, as of FABRIC_1.3.
unsafe extern "C" fn dupinfo(list: *const fi::fi_info) -> *mut fi::fi_info {
    // SAFETY: the caller's promises are passed on.
    guard_or(ptr::null_mut(), || unsafe { lists::copy(list) }.unwrap_or(ptr::null_mut()))
}

/// `fi_freeinfo(3)`, as of FABRIC_1.3.
unsafe extern "C" fn freeinfo(list: *mut fi::fi_info) {
    // SAFETY: the caller's promises are passed on.
    guard_or((), || unsafe { info::alloc::free(list) });
}

/// `fi_version(3)`.
extern "C" fn version() -> u32 {
    VERSION
}

/// `fi_strerror(3)`.
extern "C" fn strerror(number: c_int) -> *const c_char {
    guard_or(c"unknown error".as_ptr(), || text_of(number))
}

fn text_of(number: c_int) -> *const c_char {
    let number = number.checked_abs().unwrap_or(fi::FI_EOTHER);
    let text = match number {
        fi::FI_ETOOSMALL => c"the buffer is too small",
        fi::FI_EOPBADSTATE => c"not possible in this state",
        fi::FI_EAVAIL => c"an error can be read",
        fi::FI_EBADFLAGS => c"these flags are not supported",
        fi::FI_ENOEQ => c"there is no event queue",
        fi::FI_EDOMAIN => c"the domain is not the right one",
        fi::FI_ENOCQ => c"there is no completion queue",
        fi::FI_ECRC => c"the checksum is wrong",
        fi::FI_ETRUNC => c"the message was longer than the buffer",
        fi::FI_ENOKEY => c"there is no such key",
        fi::FI_ENOAV => c"there is no address vector",
        fi::FI_EOVERRUN => c"the queue is full",
        fi::FI_ENORX => c"the receiver has no buffer",
        // SAFETY: strerror may be asked for any number.
        0..=255 => return unsafe { libc::strerror(number) },
        _ => c"unknown error",
    };
    text.as_ptr()
}

#[cfg(test)]
mod tests;
