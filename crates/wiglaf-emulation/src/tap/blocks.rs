//! Frames that the kernel copies while they pass, packed into blocks of memory shared with it
//! (TPACKET_V3; Linux's Documentation/networking/packet_mmap.rst).
//!
//! A socket without such a ring would keep references, and read what stands there later: of trains
//! that were lent to the kernel, other ones.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{OFFLOAD_LEN, set};

const BLOCK_LEN: usize = 1 << 20;
const BLOCK_COUNT: usize = 64;
const AREA_LEN: usize = BLOCK_LEN * BLOCK_COUNT;

/// After which a block that is not full is handed over, in milliseconds.
const BLOCK_WAIT_MS: libc::c_uint = 10;

/// Not used by this version, but checked.
const FRAME_LEN: usize = 1 << 11;

const TPACKET_V3: libc::c_int = 2;

/// Where a block says whose it is, how many frames it has, and where the first one begins
/// (`struct tpacket_block_desc`).
const STATUS_AT: usize = 8;
const FRAMES_AT: usize = 12;
const FIRST_AT: usize = 16;

/// A packet socket with its blocks.
#[derive(Debug)]
pub(super) struct Blocks {
    socket: OwnedFd,
    area: NonNull<u8>,
    /// The block that comes next, or is being read.
    block: usize,
    /// Of that block: how many frames are left, and where the next begins.
    left: u32,
    at: usize,
}

// SAFETY: the mapping belongs to this value alone and is reached only through `&mut self`.
unsafe impl Send for Blocks {}

impl Blocks {
    /// Gives blocks to a packet socket that is not bound yet.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        let geometry = libc::tpacket_req3 {
            tp_block_size: BLOCK_LEN as libc::c_uint,
            tp_block_nr: BLOCK_COUNT as libc::c_uint,
            tp_frame_size: FRAME_LEN as libc::c_uint,
            tp_frame_nr: (AREA_LEN / FRAME_LEN) as libc::c_uint,
            tp_retire_blk_tov: BLOCK_WAIT_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V3)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &geometry)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (any, fd) = (std::ptr::null_mut(), socket.as_raw_fd());
        // SAFETY: a fresh mapping of the blocks that were just made; nothing is mapped over.
        let area = unsafe { libc::mmap(any, AREA_LEN, access, libc::MAP_SHARED, fd, 0) };
        if area == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let area = NonNull::new(area.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { socket, area, block: 0, left: 0, at: 0 })
    }

    /// Shows the next frame, with when it came in nanoseconds of Unix time and what is said of its
    /// offloads. `None` when nothing is there.
    pub(super) fn next<R>(&mut self, show: impl FnOnce(u64, &[u8], &[u8]) -> R) -> Option<R> {
        let begin = self.block * BLOCK_LEN;
        // SAFETY: `block < BLOCK_COUNT`, and blocks lie at multiples of their length in a mapping that
        // lives as long as `self`. The kernel, too, changes the status as a whole only.
        let status =
            unsafe { AtomicU32::from_ptr(self.area.add(begin + STATUS_AT).cast().as_ptr()) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: as above, and the status says that the block is ours until we give it back.
        let block = unsafe { std::slice::from_raw_parts(self.area.add(begin).as_ptr(), BLOCK_LEN) };
        if self.left == 0 {
            (self.left, self.at) = (word(block, FRAMES_AT)?, word(block, FIRST_AT)? as usize);
        }
        let found = (self.left > 0).then(|| frame_at(block, self.at)).flatten();
        let shown = found.map(|(next_at, at_ns, offload, frame)| {
            self.at += next_at;
            show(at_ns, offload, frame)
        });
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || shown.is_none() {
            self.left = 0;
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.block = (self.block + 1) % BLOCK_COUNT;
        }
        shown
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.area.as_ptr().cast(), AREA_LEN) };
    }
}

impl AsFd for Blocks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The frame whose head (`struct tpacket3_hdr`) is there: how far the next one is from it, when it
/// came, its offloads and itself.
fn frame_at(block: &[u8], at: usize) -> Option<(usize, u64, &[u8], &[u8])> {
    let field = |offset| word(block, at.checked_add(offset)?);
    let at_ns = u64::from(field(4)?) * 1_000_000_000 + u64::from(field(8)?);
    let begin = at + (field(24)? as u16 as usize);
    let frame = block.get(begin..begin + field(12)? as usize)?;
    // The kernel puts them right before the frame.
    let offload = block.get(begin.checked_sub(OFFLOAD_LEN)?..begin)?;
    Some((field(0)? as usize, at_ns, offload, frame))
}

fn word(block: &[u8], at: usize) -> Option<u32> {
    block.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_points_outside_shows_nothing() {
        let mut block = vec![0; 200];
        block[40..44].copy_from_slice(&100u32.to_ne_bytes());
        block[44..48].copy_from_slice(&2u32.to_ne_bytes());
        block[48..52].copy_from_slice(&5u32.to_ne_bytes());
        block[52..56].copy_from_slice(&3u32.to_ne_bytes());
        block[64..66].copy_from_slice(&80u16.to_ne_bytes());
        block[110..123].copy_from_slice(b"0123456789abc");
        let seen = frame_at(&block, 40).expect("a frame");
        assert_eq!(seen, (100, 2_000_000_005, &b"0123456789"[..], &b"abc"[..]));
        for (at, bad) in [(52, 81u32), (52, u32::MAX), (64, 170), (64, 0xffff)] {
            let mut block = block.clone();
            block[at..at + 4].copy_from_slice(&bad.to_ne_bytes());
            assert!(frame_at(&block, 40).is_none(), "{bad} at {at}");
        }
        assert!(frame_at(&block, 190).is_none() && frame_at(&block, usize::MAX - 30).is_none());
    }
}
