//! bpf(2): attributes of the commands that are used here.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

pub(crate) const MAP_CREATE: libc::c_int = 0;
pub(crate) const MAP_LOOKUP: libc::c_int = 1;
pub(crate) const MAP_UPDATE: libc::c_int = 2;
pub(crate) const PROG_LOAD: libc::c_int = 5;
pub(crate) const PROG_BY_ID: libc::c_int = 13;
pub(crate) const MAP_BY_ID: libc::c_int = 14;
pub(crate) const INFO: libc::c_int = 15;
pub(crate) const LINK_CREATE: libc::c_int = 28;
pub(crate) const LINK_BY_ID: libc::c_int = 30;
pub(crate) const LINK_NEXT_ID: libc::c_int = 31;

/// The beginning of `union bpf_attr` for each command; the kernel takes a
/// shorter one as filled with zeros.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct MapCreate {
    pub(crate) map_type: u32,
    pub(crate) key_len: u32,
    pub(crate) value_len: u32,
    pub(crate) entries: u32,
    pub(crate) flags: u32,
    pub(crate) inner: u32,
    pub(crate) memory_node: u32,
    pub(crate) name: [u8; NAME_LEN],
}

/// Also of MAP_UPDATE.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct MapElement {
    pub(crate) map: u32,
    pub(crate) padding: u32,
    pub(crate) key: u64,
    pub(crate) value: u64,
    pub(crate) flags: u64,
}

#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct ProgLoad {
    pub(crate) prog_type: u32,
    pub(crate) instructions_count: u32,
    pub(crate) instructions: u64,
    pub(crate) license: u64,
    pub(crate) log_level: u32,
    pub(crate) log_len: u32,
    pub(crate) log: u64,
    pub(crate) kernel_version: u32,
    pub(crate) flags: u32,
    pub(crate) name: [u8; NAME_LEN],
}

#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct LinkCreate {
    pub(crate) program: u32,
    pub(crate) interface: u32,
    pub(crate) attach_type: u32,
    pub(crate) flags: u32,
    // For TCX: in relation to no other program.
    pub(crate) relative: [u32; 4],
}

/// Of the commands that go by id.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct ById {
    /// Where the search starts, or the object itself.
    pub(crate) id: u32,
    /// The kernel's answer of LINK_NEXT_ID.
    pub(crate) next_id: u32,
    pub(crate) flags: u32,
}

#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Info {
    pub(crate) fd: u32,
    pub(crate) len: u32,
    pub(crate) info: u64,
}

/// The beginning of `struct bpf_map_info`.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct MapInfo {
    pub(crate) map_type: u32,
    pub(crate) id: u32,
    pub(crate) key_len: u32,
    pub(crate) value_len: u32,
    pub(crate) entries: u32,
    pub(crate) flags: u32,
    pub(crate) name: [u8; NAME_LEN],
}

/// The beginning of `struct bpf_prog_info`.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct ProgInfo {
    pub(crate) prog_type: u32,
    pub(crate) id: u32,
    pub(crate) tag: [u8; 8],
    pub(crate) machine_code_len: u32,
    pub(crate) instructions_len: u32,
    pub(crate) machine_code: u64,
    pub(crate) instructions: u64,
    pub(crate) loaded_at: u64,
    pub(crate) user: u32,
    pub(crate) map_count: u32,
    pub(crate) map_ids: u64,
    pub(crate) name: [u8; NAME_LEN],
}

/// The beginning of `struct bpf_link_info`, for a link to an interface.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct LinkInfo {
    pub(crate) link_type: u32,
    pub(crate) id: u32,
    pub(crate) program_id: u32,
    pub(crate) padding: u32,
    pub(crate) interface: u32,
    pub(crate) padding_2: u32,
}

/// `BPF_OBJ_NAME_LEN`.
pub(crate) const NAME_LEN: usize = 16;

/// A name as the kernel takes it, cut where it is too long.
pub(crate) fn name(text: &str) -> [u8; NAME_LEN] {
    let mut name = [0; NAME_LEN];
    for (to, from) in name[..NAME_LEN - 1].iter_mut().zip(text.bytes()) {
        *to = from;
    }
    name
}

/// A command that makes a descriptor.
///
/// # Safety
/// As for [`bpf`].
pub(crate) unsafe fn make<T>(command: libc::c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { bpf(command, attributes)? };
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// # Safety
/// Addresses among the attributes must be good for what the command does.
pub(crate) unsafe fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the size is the attributes'; the rest is the caller's promise.
    let outcome = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>())
    };
    match outcome {
        -1 => Err(io::Error::last_os_error()),
        fd => Ok(fd as libc::c_int),
    }
}
