//! The four commands of bpf(2) that faults need.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::program::{Hook, Instruction};

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;

const MAP_TYPE_ARRAY: u32 = 2;
const PROG_TYPE_SCHED_CLS: u32 = 3;
const ATTACH_TCX_INGRESS: u32 = 46;
const ATTACH_TCX_EGRESS: u32 = 47;
const LICENSE: &std::ffi::CStr = c"Dual MIT/GPL";

/// The beginning of `union bpf_attr` for each command; the kernel takes a
/// shorter one as filled with zeros.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_len: u32,
    value_len: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapLookup {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    instructions_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_len: u32,
    log: u64,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
    // For TCX: in relation to no other program.
    relative: [u32; 4],
}

/// An array of 64-bit counters.
pub(super) fn counters(entries: u32) -> io::Result<OwnedFd> {
    let attributes =
        MapCreate { map_type: MAP_TYPE_ARRAY, key_len: 4, value_len: 8, entries, flags: 0 };
    create(MAP_CREATE, &attributes)
}

/// One counter's value.
pub(super) fn value(map: &OwnedFd, key: u32) -> io::Result<u64> {
    let mut value = 0_u64;
    let attributes = MapLookup {
        map: raw(map),
        padding: 0,
        key: (&raw const key) as u64,
        value: (&raw mut value) as u64,
        flags: 0,
    };
    // SAFETY: key and value are live and as long as the map's are.
    unsafe { bpf(MAP_LOOKUP, &attributes)? };
    Ok(value)
}

/// A loaded program.
pub(super) fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let attributes = ProgLoad {
        prog_type: PROG_TYPE_SCHED_CLS,
        instructions_count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log_level: 0,
        log_len: 0,
        log: 0,
    };
    create(PROG_LOAD, &attributes)
}

/// Attaches a program to an interface until the link is dropped (Linux 6.6).
pub(super) fn attach(program: &OwnedFd, interface: u32, hook: Hook) -> io::Result<OwnedFd> {
    let attach_type = match hook {
        Hook::Ingress => ATTACH_TCX_INGRESS,
        Hook::Egress => ATTACH_TCX_EGRESS,
    };
    let attributes =
        LinkCreate { program: raw(program), interface, attach_type, flags: 0, relative: [0; 4] };
    create(LINK_CREATE, &attributes)
}

fn raw(fd: &OwnedFd) -> u32 {
    // A descriptor is never negative.
    fd.as_raw_fd() as u32
}

fn create<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the attributes of these commands point only to what their makers
    // above hold alive until this returns; the kernel only reads it.
    let fd = unsafe { bpf(command, attributes)? };
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// # Safety
/// Addresses among the attributes must be good for what the command does.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: the size is the attributes'; the rest is the caller's promise.
    let outcome = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    match outcome {
        -1 => Err(io::Error::last_os_error()),
        fd => Ok(fd as libc::c_int),
    }
}
