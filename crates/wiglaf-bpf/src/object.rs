//! Maps, programs, and programs at work.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::assembler::Instruction;
use crate::syscall::{self, bpf, make};

const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_SCHED_CLS: u32 = 3;
const PROG_TYPE_XDP: u32 = 6;
/// Fails where there is something already.
const NO_EXIST: u64 = 1;
/// The program bears frames in several parts.
const PROG_XDP_HAS_FRAGS: u32 = 1 << 5;
const ATTACH_XDP: u32 = 37;
const ATTACH_TCX_INGRESS: u32 = 46;
const ATTACH_TCX_EGRESS: u32 = 47;
const XDP_GENERIC: u32 = 1 << 1;
const XDP_NATIVE: u32 = 1 << 2;
const LINK_TYPE_XDP: u32 = 6;
const LICENSE: &std::ffi::CStr = c"Dual MIT/GPL";
/// Programs of ours have fewer.
const MAPS_MAX: usize = 8;

/// A map with 32-bit keys from 0.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    value_len: usize,
}

impl Map {
    /// An array of 64-bit values, all 0.
    ///
    /// # Errors
    /// Commonly, that CAP_BPF is missing.
    pub fn array(name: &str, entries: u32) -> io::Result<Self> {
        Self::create(MAP_TYPE_ARRAY, name, size_of::<u64>(), entries)
    }

    /// Places for AF_XDP sockets; a socket leaves its place when it is closed.
    ///
    /// # Errors
    /// Commonly, that CAP_BPF or CAP_NET_ADMIN is missing.
    pub fn sockets(name: &str, entries: u32) -> io::Result<Self> {
        Self::create(MAP_TYPE_XSKMAP, name, size_of::<u32>(), entries)
    }

    fn create(map_type: u32, name: &str, value_len: usize, entries: u32) -> io::Result<Self> {
        let mut attributes = syscall::MapCreate {
            map_type,
            key_len: size_of::<u32>() as u32,
            value_len: value_len as u32,
            entries,
            name: syscall::name(name),
            ..Default::default()
        };
        // SAFETY: there are no addresses among the attributes.
        let fd = unsafe { make(syscall::MAP_CREATE, &mut attributes)? };
        Ok(Self { fd, value_len })
    }

    /// The value of an entry.
    ///
    /// # Errors
    /// When there is no such entry, or the map is not one of values.
    pub fn get(&self, key: u32) -> io::Result<u64> {
        let mut value = 0_u64;
        let mut attributes = self.element(key_of(&key), &raw mut value as u64, size_of::<u64>())?;
        // SAFETY: key and value are live and as long as the map's.
        unsafe { bpf(syscall::MAP_LOOKUP, &mut attributes)? };
        Ok(value)
    }

    /// Changes the value of an entry.
    ///
    /// # Errors
    /// When there is no such entry, or the map is not one of values.
    pub fn set(&self, key: u32, value: u64) -> io::Result<()> {
        let mut attributes =
            self.element(key_of(&key), &raw const value as u64, size_of::<u64>())?;
        // SAFETY: key and value are live and as long as the map's.
        unsafe { bpf(syscall::MAP_UPDATE, &mut attributes).map(drop) }
    }

    /// Puts a socket into an empty place.
    ///
    /// # Errors
    /// `EEXIST`: another socket is there. Else there is no such place, or the
    /// map is not one of sockets.
    pub fn set_socket(&self, key: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = socket.as_raw_fd() as u32;
        let mut attributes =
            self.element(key_of(&key), &raw const value as u64, size_of::<u32>())?;
        attributes.flags = NO_EXIST;
        // SAFETY: key and value are live and as long as the map's.
        unsafe { bpf(syscall::MAP_UPDATE, &mut attributes).map(drop) }
    }

    fn element(&self, key: u64, value: u64, len: usize) -> io::Result<syscall::MapElement> {
        if len != self.value_len {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(syscall::MapElement { map: raw(&self.fd), key, value, ..Default::default() })
    }

    fn by_id(id: u32) -> io::Result<Self> {
        let mut attributes = syscall::ById { id, ..Default::default() };
        // SAFETY: there are no addresses among the attributes.
        let fd = unsafe { make(syscall::MAP_BY_ID, &mut attributes)? };
        let mut info = syscall::MapInfo::default();
        // SAFETY: the kernel only fills in the numbers of a map's information.
        unsafe { inform(&fd, &mut info)? };
        if info.key_len as usize != size_of::<u32>() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self { fd, value_len: info.value_len as usize })
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Traffic control: it sees socket buffers, in or out.
    TrafficControl,
    /// XDP: it sees frames as they come in, before the IP stack.
    Xdp,
}

/// A loaded program.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl Program {
    /// Has the kernel check and load a program.
    ///
    /// # Errors
    /// Commonly, that CAP_BPF is missing.
    pub fn load(kind: Kind, name: &str, program: &[Instruction]) -> io::Result<Self> {
        let (prog_type, flags) = match kind {
            Kind::TrafficControl => (PROG_TYPE_SCHED_CLS, 0),
            Kind::Xdp => (PROG_TYPE_XDP, PROG_XDP_HAS_FRAGS),
        };
        let mut attributes = syscall::ProgLoad {
            prog_type,
            instructions_count: program.len() as u32,
            instructions: program.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            flags,
            name: syscall::name(name),
            ..Default::default()
        };
        // SAFETY: instructions and licence are live, and the kernel only reads them.
        unsafe { make(syscall::PROG_LOAD, &mut attributes).map(Self) }
    }

    /// Attaches it to an interface until the result, and all copies of its
    /// descriptor, are gone.
    ///
    /// # Errors
    /// `EBUSY` or `EEXIST`: another XDP program is there. `EOPNOTSUPP`: the
    /// driver has no native mode. `EINVAL`: the kernel is older than Linux
    /// 5.9, or 6.6 for traffic control.
    pub fn attach(&self, interface: u32, hook: Hook) -> io::Result<Attachment> {
        let (attach_type, flags) = match hook {
            Hook::Ingress => (ATTACH_TCX_INGRESS, 0),
            Hook::Egress => (ATTACH_TCX_EGRESS, 0),
            Hook::Xdp(Mode::Generic) => (ATTACH_XDP, XDP_GENERIC),
            Hook::Xdp(Mode::Native) => (ATTACH_XDP, XDP_NATIVE),
        };
        let mut attributes = syscall::LinkCreate {
            program: raw(&self.0),
            interface,
            attach_type,
            flags,
            relative: [0; 4],
        };
        // SAFETY: there are no addresses among the attributes.
        unsafe { make(syscall::LINK_CREATE, &mut attributes).map(Attachment) }
    }
}

/// Where a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// Traffic control, frames that come in (TCX).
    Ingress,
    /// Traffic control, frames that go out (TCX).
    Egress,
    /// XDP.
    Xdp(Mode),
}

/// Where on its way in a frame meets an XDP program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Behind the driver, which need not know of it.
    Generic,
    /// In the driver.
    Native,
}

/// A program at work. Dropping it takes it out of the path, unless another
/// process holds it too.
#[derive(Debug)]
pub struct Attachment(OwnedFd);

impl Attachment {
    /// The maps of its program, in the order in which the program names them.
    ///
    /// # Errors
    /// Commonly, that CAP_SYS_ADMIN is missing.
    pub fn maps(&self) -> io::Result<Vec<Map>> {
        let mut info = syscall::LinkInfo::default();
        // SAFETY: the kernel only fills in the numbers of this link's information.
        unsafe { inform(&self.0, &mut info)? };
        let mut attributes = syscall::ById { id: info.program_id, ..Default::default() };
        // SAFETY: there are no addresses among the attributes.
        let program = unsafe { make(syscall::PROG_BY_ID, &mut attributes)? };
        let mut ids = [0_u32; MAPS_MAX];
        let mut info = syscall::ProgInfo {
            map_count: ids.len() as u32,
            map_ids: ids.as_mut_ptr() as u64,
            ..Default::default()
        };
        // SAFETY: the kernel writes at most `map_count` ids, which is how many there is room for.
        unsafe { inform(&program, &mut info)? };
        ids.iter().take(info.map_count as usize).map(|id| Map::by_id(*id)).collect()
    }
}

/// The XDP programs that are attached to the interface of this index, in
/// whichever network namespace: an index is unique in one only.
///
/// # Errors
/// Commonly, that CAP_SYS_ADMIN is missing.
pub fn attachments_of(interface: u32) -> io::Result<Vec<Attachment>> {
    let mut found = Vec::new();
    let mut at = syscall::ById::default();
    loop {
        // SAFETY: there are no addresses among the attributes.
        match unsafe { bpf(syscall::LINK_NEXT_ID, &mut at) } {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(found),
            result => result?,
        };
        at.id = at.next_id;
        let mut attributes = syscall::ById { id: at.id, ..Default::default() };
        // SAFETY: there are no addresses among the attributes.
        let link = match unsafe { make(syscall::LINK_BY_ID, &mut attributes) } {
            // It has gone meanwhile, or is being made and has no interface yet.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EAGAIN)) => {
                continue;
            }
            result => result?,
        };
        let mut info = syscall::LinkInfo::default();
        // SAFETY: of a link to an interface the kernel fills in only numbers;
        // of others it may take what lies behind them for an address and its
        // length, which are 0.
        unsafe { inform(&link, &mut info)? };
        if info.link_type == LINK_TYPE_XDP && info.interface == interface {
            found.push(Attachment(link));
        }
    }
}

/// # Safety
/// Addresses in `info` must be good for what the kernel does with them.
unsafe fn inform<T>(fd: &OwnedFd, info: &mut T) -> io::Result<()> {
    let mut attributes = syscall::Info {
        fd: raw(fd),
        len: size_of::<T>() as u32,
        info: std::ptr::from_mut(info) as u64,
    };
    // SAFETY: `info` is live and of that length; the rest is the caller's promise.
    unsafe { bpf(syscall::INFO, &mut attributes).map(drop) }
}

fn key_of(key: &u32) -> u64 {
    std::ptr::from_ref(key) as u64
}

fn raw(fd: &OwnedFd) -> u32 {
    // A descriptor is never negative.
    fd.as_raw_fd() as u32
}
