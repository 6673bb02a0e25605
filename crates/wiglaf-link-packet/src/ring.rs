//! The receive ring: frames that the kernel puts into memory shared with us.
//!
//! Each place of the ring belongs to the kernel or to us, and its status word
//! says to whom. A frame is read where it lies and given back afterwards.

use std::io;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use wiglaf_interpose::threads;
use wiglaf_link::frame::ETHERNET_LEN;

use crate::offload::{self, OFFLOAD_LEN};

/// Bytes of a place that the kernel's own headers may take.
const PLACE_HEADERS_LEN: usize = 128;

/// Longest train that is sent: others' rings may have places of 64 KiB.
pub(crate) const TRAIN_FRAME_LEN_MAX: usize = (1 << 16) - PLACE_HEADERS_LEN;

/// Longest frame that arrives: the kernel joins datagrams to the longest packet of IPv4.
const FRAME_LEN_MAX: usize = ETHERNET_LEN + u16::MAX as usize;

const PAGE_LEN: usize = 4096;

/// Room for the longest frame, in whole pages.
const PLACE_LEN: usize = (PLACE_HEADERS_LEN + FRAME_LEN_MAX).next_multiple_of(PAGE_LEN);

/// The kernel takes a power of two of pages for each block: this many places leave one of 256 pages unused.
const BLOCK_PLACES: usize = 15;
const BLOCK_LEN: usize = BLOCK_PLACES * PLACE_LEN;
/// As few as keep the ring in the caches and its pages in the TLB: trains of 24 KiB and more take a tenth
/// less time than in 17. What finds no room is asked for again at once
/// (docs/adr/0026-size-classes-of-messages.md).
const BLOCK_COUNT: usize = 4;

pub(crate) const PLACE_COUNT: usize = BLOCK_COUNT * BLOCK_PLACES;

const RING_LEN: usize = PLACE_COUNT * PLACE_LEN;

const CACHE_LINE_LEN: usize = 64;

/// What the head of a place and the frame of a short message take.
const FRONT_LEN: usize = 4 * CACHE_LINE_LEN;

const TPACKET_V2: libc::c_int = 1;

/// The head of a place, as the kernel lays it out (`struct tpacket2_hdr`).
#[repr(C)]
struct PlaceHead {
    status: AtomicU32,
    len: u32,
    snap_len: u32,
    mac_at: u16,
    net_at: u16,
    seconds: u32,
    nanoseconds: u32,
    vlan_tci: u16,
    vlan_tpid: u16,
    padding: [u8; 4],
}

/// The ring's geometry (`struct tpacket_req`).
#[repr(C)]
struct Geometry {
    block_len: libc::c_uint,
    block_count: libc::c_uint,
    place_len: libc::c_uint,
    place_count: libc::c_uint,
}

/// Without gaps: each block ends where its last place does.
const GEOMETRY: Geometry = Geometry {
    block_len: BLOCK_LEN as libc::c_uint,
    block_count: BLOCK_COUNT as libc::c_uint,
    place_len: PLACE_LEN as libc::c_uint,
    place_count: PLACE_COUNT as libc::c_uint,
};

/// Of no ring.
const NO_GEOMETRY: Geometry =
    Geometry { block_len: 0, block_count: 0, place_len: 0, place_count: 0 };

/// A packet socket with its receive ring.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Closed by `drop`, in its own time.
    socket: ManuallyDrop<OwnedFd>,
    area: NonNull<u8>,
    /// What tells of trains stands before each frame.
    takes_trains: bool,
    next: usize,
    /// How often `next` has begun anew.
    turns: u64,
    /// How many frames have been taken since the ring was last seen empty.
    taken_in_a_row: usize,
    /// Where `turns` and `next` stood when frames were found lost and the next place free.
    lost_at: Option<(u64, usize)>,
    truncated: u64,
    overflows: u64,
}

// SAFETY: the mapping belongs to this ring alone and is reached only through
// `&mut self`.
unsafe impl Send for Ring {}

impl Ring {
    /// Sets up the ring of a packet socket that is filtered and bound, for
    /// frames that are datagrams; with `takes_trains`, also for those of many.
    ///
    /// # Errors
    /// The kernel's, with the socket.
    pub(crate) fn new(socket: OwnedFd, takes_trains: bool) -> Result<Self, (OwnedFd, io::Error)> {
        let area = match set_up(&socket, takes_trains) {
            Ok(area) => area,
            Err(error) => return Err((socket, error)),
        };
        Ok(Self {
            socket: ManuallyDrop::new(socket),
            area,
            takes_trains,
            next: 0,
            turns: 0,
            taken_in_a_row: 0,
            lost_at: None,
            truncated: 0,
            overflows: 0,
        })
    }

    /// Shows up to `count_max` frames, one after the other, and says how many.
    pub(crate) fn consume(&mut self, count_max: usize, mut show: impl FnMut(&Frame<'_>)) -> usize {
        let mut asked = false;
        for count in 0..count_max {
            let offset = self.next * PLACE_LEN;
            // SAFETY: `next < PLACE_COUNT`, so the place lies within the
            // mapping, which lives as long as `self`; places begin with a page.
            let place = unsafe { self.area.add(offset) };
            // SAFETY: as above; the kernel changes the status only atomically.
            let status = unsafe { &(*place.cast::<PlaceHead>().as_ptr()).status };
            let flags = status.load(Ordering::Acquire);
            if flags & libc::TP_STATUS_USER == 0 {
                self.taken_in_a_row = 0;
                return count;
            }
            fetch_front(place);
            // SAFETY: the status says that the place is ours until we give it
            // back, so nothing writes to it meanwhile.
            let frame = unsafe { frame_of(place) };
            if flags & libc::TP_STATUS_LOSING != 0 && !mem::replace(&mut asked, true) {
                self.count_lost();
            }
            match frame {
                Some(frame) if self.takes_trains => show(&frame),
                Some(frame) => show(&Frame { offload: &offload::NONE, ..frame }),
                None => self.truncated += 1,
            }
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.taken_in_a_row += 1;
            if self.taken_in_a_row.is_multiple_of(PLACE_COUNT) {
                // It was full, perhaps for long, and only what arrives from now on would tell of losses.
                self.count_lost();
            }
            self.next += 1;
            if self.next == PLACE_COUNT {
                self.next = 0;
                self.turns += 1;
            }
        }
        count_max
    }

    /// Asks the kernel how many frames found the ring full. It marks each that arrives from the first
    /// loss on until it is asked.
    #[cold]
    fn count_lost(&mut self) {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = mem::size_of_val(&stats) as libc::socklen_t;
        // SAFETY: the pointers are to live values, the second says how long the first is.
        let status = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut len,
            )
        };
        if status == 0 {
            self.overflows += u64::from(stats.tp_drops);
        }
    }

    /// `frame` as the kernel takes it.
    fn wanted<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        if self.takes_trains { frame } else { &frame[OFFLOAD_LEN..] }
    }

    /// Whether it was found empty when frames were last taken.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.taken_in_a_row == 0
    }

    /// Whether a frame is waiting.
    pub(crate) fn has_frame(&self) -> bool {
        // SAFETY: as in `consume`.
        let status = unsafe {
            let place = self.area.add(self.next * PLACE_LEN);
            &(*place.cast::<PlaceHead>().as_ptr()).status
        };
        status.load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Whether the interface is still there. One that goes down leaves an error with the socket, which
    /// wakes all who sleep on it until somebody reads it.
    pub(crate) fn check(&self) -> io::Result<()> {
        let _ = rustix::net::sockopt::socket_error(&*self.socket);
        // SAFETY: all-zero bytes are a valid address.
        let mut at: libc::sockaddr_ll = unsafe { mem::zeroed() };
        let mut len = mem::size_of_val(&at) as libc::socklen_t;
        // SAFETY: the pointers are to live values, the second says how long the first is.
        let status = unsafe {
            libc::getsockname(self.socket.as_raw_fd(), (&raw mut at).cast(), &raw mut len)
        };
        let is_gone = status == 0 && at.sll_ifindex <= 0;
        if is_gone { Err(io::Error::from_raw_os_error(libc::ENODEV)) } else { Ok(()) }
    }

    /// Makes the ring anew if the kernel has got stuck in it. It leaves the next place for good to a
    /// frame that it then cannot describe, such as one that a virtual machine wants to have cut into
    /// fragments (UFO), and drops all later ones.
    pub(crate) fn mend(&mut self) -> io::Result<()> {
        if !self.is_stuck() {
            return Ok(());
        }
        self.renew().map_err(|error| {
            let text =
                format!("a frame has blocked the receive ring, and a new one fails: {error}");
            io::Error::new(error.kind(), text)
        })
    }

    /// Whether frames were lost although the next place was free all the time. Those that found the
    /// ring full are lost, too; but then frames are taken before it is seen free.
    fn is_stuck(&mut self) -> bool {
        let before = self.overflows;
        self.count_lost();
        if self.overflows == before || self.has_frame() {
            return false;
        }
        let at = Some((self.turns, self.next));
        mem::replace(&mut self.lost_at, at) == at
    }

    /// On the same socket: to open another may take a privilege that is no longer there.
    fn renew(&mut self) -> io::Result<()> {
        let at = self.area.as_ptr().cast();
        // The kernel ends no ring that is mapped. Until the next one is, `area` is memory without frames.
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: what it replaces is the mapping of this ring, to which nobody else has a reference.
        unsafe { map(at, flags, -1) }?;
        set_option(self.socket.as_fd(), libc::PACKET_RX_RING, &NO_GEOMETRY)?;
        set_option(self.socket.as_fd(), libc::PACKET_RX_RING, &GEOMETRY)?;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE | libc::MAP_FIXED;
        // SAFETY: as above.
        unsafe { map(at, flags, self.socket.as_raw_fd()) }?;
        self.next = 0;
        self.turns += 1;
        Ok(())
    }

    /// Frames that were longer than a place.
    pub(crate) fn truncated(&self) -> u64 {
        self.truncated
    }

    /// Frames that found the ring full or stuck, as far as who took a whole ring of frames, a later frame or
    /// [`Ring::mend`] has found out.
    pub(crate) fn overflows(&self) -> u64 {
        self.overflows
    }

    /// Sends one frame, behind what tells of trains.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        let frame = self.wanted(frame);
        // SAFETY: the kernel reads `frame`, which is live.
        let status = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                libc::MSG_DONTWAIT,
            )
        };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Sends frames, each of headers, which begin as above, and a payload, with one system call;
    /// says how many went out.
    pub(crate) fn send_many<const N: usize>(&self, frames: &[(&[u8], &[u8])]) -> io::Result<usize> {
        let mut iovs = [[libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 2]; N];
        // SAFETY: all-zero bytes are a valid `mmsghdr`.
        let mut msgs: [libc::mmsghdr; N] = unsafe { mem::zeroed() };
        for ((frame, iov), msg) in frames.iter().zip(&mut iovs).zip(&mut msgs) {
            *iov = [self.wanted(frame.0), frame.1].map(|part| libc::iovec {
                iov_base: part.as_ptr().cast_mut().cast(),
                iov_len: part.len(),
            });
            msg.msg_hdr.msg_iov = iov.as_mut_ptr();
            msg.msg_hdr.msg_iovlen = 2;
        }
        // SAFETY: the first `frames.len()` (at most `N`) messages point at
        // live vectors and bytes, which the kernel only reads.
        let status = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                msgs.as_mut_ptr(),
                frames.len().min(N) as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        usize::try_from(status).map_err(|_| io::Error::last_os_error())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and no
        // borrow of it outlives `self`.
        unsafe { libc::munmap(self.area.as_ptr().cast(), RING_LEN) };
        // SAFETY: nothing reaches the socket behind this.
        let socket = unsafe { ManuallyDrop::take(&mut self.socket) };
        // The kernel lets all processors finish with the ring, twice, which takes some 30 ms, and an MPI has other
        // things to do when it ends. Without a thread the closure, and the socket with it, is dropped here.
        let _ = threads::start("wiglaf-close", move || drop(socket));
    }
}

impl AsRawFd for Ring {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Makes the ring of a socket, and maps it.
fn set_up(socket: &OwnedFd, takes_trains: bool) -> io::Result<NonNull<u8>> {
    set_option(socket.as_fd(), libc::PACKET_VNET_HDR, &libc::c_int::from(takes_trains))?;
    set_option(socket.as_fd(), libc::PACKET_VERSION, &TPACKET_V2)?;
    set_option(socket.as_fd(), libc::PACKET_RX_RING, &GEOMETRY)?;
    let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
    // SAFETY: with no address given nothing else is mapped over.
    let area = unsafe { map(std::ptr::null_mut(), flags, socket.as_raw_fd()) }?;
    NonNull::new(area.cast::<u8>()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Maps memory of the ring's length.
///
/// # Safety
/// With `MAP_FIXED` in `flags` nothing may have a reference into what is at `at`.
unsafe fn map(
    at: *mut libc::c_void,
    flags: libc::c_int,
    from: RawFd,
) -> io::Result<*mut libc::c_void> {
    // SAFETY: as promised by the caller.
    let area =
        unsafe { libc::mmap(at, RING_LEN, libc::PROT_READ | libc::PROT_WRITE, flags, from, 0) };
    if area == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(area) }
}

/// Has the front of a place, which another core has just written, brought here all at once, not
/// line by line as it is read.
#[inline]
fn fetch_front(place: NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    for at in (CACHE_LINE_LEN..FRONT_LEN).step_by(CACHE_LINE_LEN) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: it changes nothing and may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// A frame that has arrived.
pub(crate) struct Frame<'a> {
    /// What tells of trains.
    pub(crate) offload: &'a [u8; OFFLOAD_LEN],
    /// From the Ethernet header on.
    pub(crate) bytes: &'a [u8],
    /// When the kernel had it, see [`wiglaf_link::waited`].
    pub(crate) at_ns: i64,
}

/// The frame in a place; `None` when it was cut or the head makes no sense.
///
/// # Safety
/// `place` must be a place of the ring that belongs to us for as long as the
/// result is used.
unsafe fn frame_of<'a>(place: NonNull<u8>) -> Option<Frame<'a>> {
    // SAFETY: the place is longer than its head and ours, see above.
    let head = unsafe { &*place.cast::<PlaceHead>().as_ptr() };
    let (at, len) = (usize::from(head.mac_at), head.snap_len as usize);
    let at_min = mem::size_of::<PlaceHead>() + OFFLOAD_LEN;
    if head.len as usize != len || at < at_min || at + len > PLACE_LEN {
        return None;
    }
    // SAFETY: `at - OFFLOAD_LEN` and `at + len` lie within the place, as was just checked.
    let bytes = unsafe {
        std::slice::from_raw_parts(place.as_ptr().add(at - OFFLOAD_LEN), OFFLOAD_LEN + len)
    };
    let (offload, bytes) = bytes.split_first_chunk()?;
    let at_ns = i64::from(head.seconds) * 1_000_000_000 + i64::from(head.nanoseconds);
    Some(Frame { offload, bytes, at_ns })
}

/// Sets an option of the packet level.
pub(crate) fn set_option<T>(
    socket: BorrowedFd<'_>,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the pointer and length are those of a live value, which the
    // kernel only reads; every option used here is plain data.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            name,
            (&raw const *value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel checks (packet_set_ring), and how a place is divided (tpacket_rcv).
    #[test]
    fn places_fill_their_blocks_and_take_the_longest_frame() {
        const ALIGNMENT: usize = 16; // TPACKET_ALIGNMENT
        assert_eq!(BLOCK_LEN % PAGE_LEN, 0);
        assert_eq!(PLACE_LEN % ALIGNMENT, 0);
        assert_eq!(BLOCK_LEN / PLACE_LEN * BLOCK_COUNT, PLACE_COUNT);
        assert_eq!(BLOCK_COUNT * BLOCK_LEN, RING_LEN, "no gaps between blocks");
        let taken = BLOCK_COUNT * (BLOCK_LEN / PAGE_LEN).next_power_of_two() * PAGE_LEN;
        assert_eq!(taken, 4 << 20, "ADR 0026 says how much");
        let heads = mem::size_of::<PlaceHead>().next_multiple_of(ALIGNMENT)
            + mem::size_of::<libc::sockaddr_ll>()
            + 16;
        assert!(heads.next_multiple_of(ALIGNMENT) + OFFLOAD_LEN <= PLACE_HEADERS_LEN);
        // The kernel joins datagrams as long as the packet has less than 64 KiB.
        for mtu in 576..=9000 {
            let (headers, payload) = (28, mtu - 28);
            let joined = headers + (u16::MAX as usize - headers) / payload * payload;
            assert!(PLACE_HEADERS_LEN + ETHERNET_LEN + joined <= PLACE_LEN, "MTU {mtu}");
        }
    }
}
