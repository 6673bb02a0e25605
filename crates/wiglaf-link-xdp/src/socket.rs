//! An AF_XDP socket with its frame memory and rings (the kernel's
//! Documentation/networking/af_xdp.rst).
//!
//! The first chunks of the memory go round between us and the kernel for
//! frames that arrive; the others are for frames that are sent.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::xdp_desc;
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;

use crate::program::STAMP_LEN;
use crate::ring::{Mapping, Ring, Side};

/// Frames that may wait to be received, and to be sent; powers of two.
const RX_FRAMES: u32 = 2048;
const TX_FRAMES: u32 = 512;

/// What the kernel keeps free in front of a frame (XDP_PACKET_HEADROOM).
const HEADROOM: usize = 256;
/// The lengths that a chunk may have.
const CHUNK_LEN_MIN: usize = 2048;
const CHUNK_LEN_MAX: usize = 4096;

/// How many frames the kernel sends in one call at least, before it asks for
/// another (TX_BATCH_SIZE).
const KICK_FRAMES: usize = 32;

/// How long a busy poll may take, and how many frames it may bring.
const BUSY_POLL_US: libc::c_int = 20;
const BUSY_POLL_BUDGET: libc::c_int = 64;

/// How frames come into and leave the frame memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The kernel copies them.
    Copy,
    /// The NIC reads and writes them there.
    ZeroCopy,
}

/// An AF_XDP socket.
#[derive(Debug)]
pub(crate) struct Socket {
    // The rings go before the socket, and the memory goes last.
    rx: Ring<xdp_desc>,
    tx: Ring<xdp_desc>,
    fill: Ring<u64>,
    completion: Ring<u64>,
    fd: OwnedFd,
    memory: Mapping,
    chunk_len: usize,
    /// Chunks for frames to be sent.
    free: Vec<u64>,
    /// Frames wait in the sending ring for another call.
    is_pending: bool,
    is_busy_polling: bool,
    refused: u64,
}

/// Longest frame that fits a chunk, for an interface that carries such frames.
pub(crate) fn frame_len_max(wanted: usize) -> usize {
    chunk_len(wanted) - HEADROOM
}

fn chunk_len(frame_len: usize) -> usize {
    if frame_len <= CHUNK_LEN_MIN - HEADROOM { CHUNK_LEN_MIN } else { CHUNK_LEN_MAX }
}

impl Socket {
    /// Sets up a socket, not yet bound, for frames of up to `wanted` bytes or
    /// what a chunk holds.
    pub(crate) fn new(wanted: usize) -> io::Result<Self> {
        // SAFETY: no pointers are involved.
        let raw = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nothing else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        let chunk_len = chunk_len(wanted);
        let memory = Mapping::anonymous((RX_FRAMES + TX_FRAMES) as usize * chunk_len)?;
        register(fd.as_fd(), &memory, chunk_len)?;
        for (ring, size) in [
            (libc::XDP_UMEM_FILL_RING, RX_FRAMES),
            (libc::XDP_UMEM_COMPLETION_RING, TX_FRAMES),
            (libc::XDP_RX_RING, RX_FRAMES),
            (libc::XDP_TX_RING, TX_FRAMES),
        ] {
            set_option(fd.as_fd(), libc::SOL_XDP, ring, &size)?;
        }
        let at = offsets(fd.as_fd())?;
        let fd_ref = fd.as_fd();
        let page = |offset| offset as libc::off_t;
        let rx = Ring::map(fd_ref, libc::XDP_PGOFF_RX_RING, &at.rx, RX_FRAMES, Side::Consumer)?;
        let tx = Ring::map(fd_ref, libc::XDP_PGOFF_TX_RING, &at.tx, TX_FRAMES, Side::Producer)?;
        let fill_page = page(libc::XDP_UMEM_PGOFF_FILL_RING);
        let mut fill = Ring::map(fd_ref, fill_page, &at.fr, RX_FRAMES, Side::Producer)?;
        let completion_page = page(libc::XDP_UMEM_PGOFF_COMPLETION_RING);
        let completion = Ring::map(fd_ref, completion_page, &at.cr, TX_FRAMES, Side::Consumer)?;
        for chunk in 0..u64::from(RX_FRAMES) {
            fill.push(chunk * chunk_len as u64);
        }
        fill.tell();
        let sending = u64::from(RX_FRAMES)..u64::from(RX_FRAMES + TX_FRAMES);
        let free = sending.rev().map(|chunk| chunk * chunk_len as u64).collect();
        Ok(Self {
            rx,
            tx,
            fill,
            completion,
            fd,
            memory,
            chunk_len,
            free,
            is_pending: false,
            is_busy_polling: false,
            refused: 0,
        })
    }

    /// Binds it to a queue of an interface.
    ///
    /// # Errors
    /// `EBUSY`: another socket has the queue. `EINVAL`: there is no such queue.
    pub(crate) fn bind(&self, interface: u32, queue: u32, way: Way) -> io::Result<()> {
        let copy = match way {
            Way::Copy => libc::XDP_COPY,
            Way::ZeroCopy => libc::XDP_ZEROCOPY,
        };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: copy | libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        // SAFETY: the address is live and of the stated length.
        let status = unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                (&raw const address).cast(),
                mem::size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
            )
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Has our own polls drive the driver, rather than its interrupts: where
    /// the driver can do that, and the process may ask for it.
    pub(crate) fn prefer_busy_polling(&mut self) {
        let fd = self.fd.as_fd();
        let set = |name, value: libc::c_int| set_option(fd, libc::SOL_SOCKET, name, &value);
        let done = set(libc::SO_PREFER_BUSY_POLL, 1)
            .and_then(|()| set(libc::SO_BUSY_POLL, BUSY_POLL_US))
            .and_then(|()| set(libc::SO_BUSY_POLL_BUDGET, BUSY_POLL_BUDGET));
        self.is_busy_polling = done.is_ok();
    }

    /// Shows up to `count_max` frames, one after the other, each with the time that stands before it, and says how
    /// many.
    pub(crate) fn consume(
        &mut self,
        count_max: usize,
        mut show: impl FnMut(&[u8], Option<i64>),
    ) -> usize {
        if self.is_pending {
            self.is_pending = self.tx.is_pending();
            let _ = self.kick(self.is_pending);
        }
        let mut count = 0;
        while count < count_max {
            let Some(frame) = self.rx.pop() else { break };
            count += 1;
            let (addr, len) = (frame.addr as usize, frame.len as usize);
            let start = addr.wrapping_sub(STAMP_LEN);
            let Some(place) = self.memory.place(start, STAMP_LEN + len) else {
                self.refused += 1;
                continue;
            };
            // SAFETY: the place lies in the frame memory, and the chunk is ours
            // until the fill ring tells of it, below.
            let bytes = unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), STAMP_LEN + len) };
            let (stamp, frame) = bytes.split_at_mut(STAMP_LEN);
            let at_ns = stamp.first_chunk().map_or(0, |stamp| i64::from_ne_bytes(*stamp));
            // So that the next frame here has either its own time or none.
            stamp.fill(0);
            show(frame, (at_ns != 0).then_some(at_ns));
            self.fill.push((addr - addr % self.chunk_len) as u64);
        }
        if count > 0 {
            self.rx.tell();
            self.fill.tell();
        }
        if (count == 0 && self.is_busy_polling) || self.fill.needs_wakeup() {
            // SAFETY: no memory is handed over; there is nothing to go wrong
            // that sending would not notice.
            unsafe {
                let fd = self.fd.as_raw_fd();
                let nowhere = std::ptr::null_mut();
                libc::recvfrom(
                    fd,
                    nowhere,
                    0,
                    libc::MSG_DONTWAIT,
                    nowhere.cast(),
                    std::ptr::null_mut(),
                );
            }
        }
        count
    }

    /// Whether a frame is waiting.
    pub(crate) fn has_frame(&mut self) -> bool {
        !self.rx.is_empty()
    }

    /// Sends frames, each of a header and a payload; `false` when there is no
    /// room for all of them, and none was sent.
    pub(crate) fn send<'a>(
        &mut self,
        count: usize,
        frames: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> io::Result<bool> {
        self.reclaim();
        if self.free.len() < count {
            self.kick(true)?;
            self.reclaim();
            if self.free.len() < count {
                return Ok(false);
            }
        }
        for (header, payload) in frames {
            let Some(addr) = self.free.pop() else { break };
            let len = header.len() + payload.len();
            let room = self.memory.place(addr as usize, self.chunk_len.max(len));
            let Some(place) = room.filter(|_| len <= self.chunk_len) else {
                self.free.push(addr);
                self.refused += 1;
                continue;
            };
            // SAFETY: the place lies in the frame memory and has room for
            // both, and the chunk is ours: it was free.
            unsafe {
                let place = place.as_ptr();
                place.copy_from_nonoverlapping(header.as_ptr(), header.len());
                place.add(header.len()).copy_from_nonoverlapping(payload.as_ptr(), payload.len());
            }
            // There are as many entries as chunks.
            self.tx.push(xdp_desc { addr, len: len as u32, options: 0 });
        }
        self.tx.tell();
        self.kick(self.tx.needs_wakeup())?;
        Ok(true)
    }

    /// Whether the interface has gone since this was asked last.
    pub(crate) fn is_cut_off(&self) -> bool {
        // The kernel says so when the interface is removed, not when it goes down.
        matches!(socket_error(&self.fd), Ok(Err(Errno::NETDOWN)))
    }

    /// Frames that made no sense, or were too long to be sent.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes back the chunks of frames that have been sent.
    fn reclaim(&mut self) {
        let before = self.free.len();
        while let Some(addr) = self.completion.pop() {
            self.free.push(addr - addr % self.chunk_len as u64);
        }
        if self.free.len() != before {
            self.completion.tell();
        }
    }

    /// Has the kernel send what waits; what it leaves is tried again later.
    fn kick(&mut self, is_needed: bool) -> io::Result<()> {
        if !is_needed {
            return Ok(());
        }
        let mut tries = TX_FRAMES as usize / KICK_FRAMES + 2;
        while tries > 0 {
            tries -= 1;
            // SAFETY: no memory is handed over.
            let status = unsafe {
                let fd = self.fd.as_raw_fd();
                libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
            };
            if status >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // It has sent as many as it does in one call, or has no memory.
                Some(libc::EAGAIN) if self.tx.is_pending() => {}
                Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::ENETDOWN) => break,
                _ => return Err(error),
            }
        }
        self.is_pending = true;
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

fn register(fd: BorrowedFd<'_>, memory: &Mapping, chunk_len: usize) -> io::Result<()> {
    let start = memory.place(0, memory.len()).ok_or(io::ErrorKind::InvalidInput)?;
    // The first version of the structure, which every kernel takes.
    #[repr(C)]
    struct Registration {
        addr: u64,
        len: u64,
        chunk_size: u32,
        headroom: u32,
    }
    let registration = Registration {
        addr: start.as_ptr() as u64,
        len: memory.len() as u64,
        chunk_size: chunk_len as u32,
        headroom: 0,
    };
    set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
}

fn offsets(fd: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: all-zero bytes are valid offsets.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { mem::zeroed() };
    let mut len = mem::size_of::<libc::xdp_mmap_offsets>() as libc::socklen_t;
    // SAFETY: the place and its length are live; the kernel writes at most so much.
    let status = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            libc::XDP_MMAP_OFFSETS,
            (&raw mut offsets).cast(),
            &raw mut len,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    // Kernels before 5.4 have no flags.
    if (len as usize) < mem::size_of::<libc::xdp_mmap_offsets>() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(offsets)
}

fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the pointer and length are those of a live value, which the
    // kernel only reads; every option used here is plain data.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const *value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
