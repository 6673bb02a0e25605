//! A link over plain UDP sockets: the one that works everywhere, without
//! privilege.
//!
//! Small frames and bulk data have a socket each. The bulk socket sends
//! trains with segmentation offload and receives them coalesced, which must
//! not happen to the small ones: a link past the IP stack on the other side
//! could not read a long coalesced train on its latency port.
//!
//! [`BulkSocket`], [`FrameSocket`], [`Routes`] and [`interface`] are public for
//! the other links, which share their bulk lane and fall back on ordinary
//! sending.

mod bulk;
mod frame;
mod group;
pub mod interface;
mod kernel;
mod lend;
mod neighbour;
mod place;
mod refused;
#[forbid(unsafe_code)]
mod routes;
mod sys;
mod trains;

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, RawFd};

use wiglaf_link::{Deliver, Drops, Lane, Limits, Link, Sent, Train, Unreachable};

pub use bulk::BulkSocket;
pub use frame::{BATCH_MAX, FrameSocket};
pub use group::{group, join_group};
pub use interface::{Interface, Network};
pub use kernel::kernel_is_from;
pub use place::Place;
pub use routes::{Routes, Way};
pub use sys::{get_int, grow_send_buffer, set_int};

/// Longest UDP payload that any link sends: a jumbo frame of 9000 bytes.
pub const FRAME_LEN_MAX: usize = 9000 - UDP_IP_HEADER_LEN;

/// Longest that is sent before a longer one was seen to arrive: every Ethernet carries 1500 bytes.
pub const FRAME_LEN_SURE: usize = 1500 - UDP_IP_HEADER_LEN;

/// IPv4 and UDP headers of one datagram, in bytes.
pub const UDP_IP_HEADER_LEN: usize = 28;

/// How many polls in a row may find nothing before the bulk socket is looked
/// at only now and then: an empty look costs a system call, and the first of
/// many bulk frames can wait for a microsecond.
const BULK_IDLE_POLLS_MAX: u32 = 1024;

/// Which poll looks at an idle bulk socket.
const BULK_IDLE_STRIDE: u32 = 8;

/// How many polls in a row may find so much in the latency lane that they leave the bulk socket
/// for later: nobody is to keep it shut.
const PUT_OFF_MAX: u32 = 4;

/// A link over a latency and a bulk UDP socket.
#[derive(Debug)]
pub struct UdpLink {
    frames: FrameSocket,
    bulk: BulkSocket,
    limits: Limits,
    poll: BulkPoll,
}

impl UdpLink {
    /// Binds both sockets where `at` says.
    ///
    /// # Errors
    /// When the address is not of this machine or no port is free.
    pub fn open(at: impl Into<Place>) -> io::Result<Self> {
        let at = at.into();
        let frames = FrameSocket::open(at)?;
        let bulk = BulkSocket::open(at)?;
        Ok(Self::from_sockets(frames, bulk))
    }

    /// Makes a link of sockets that are open already.
    #[must_use]
    pub fn from_sockets(frames: FrameSocket, bulk: BulkSocket) -> Self {
        let limits = Limits {
            frame_len_max: bulk.frame_len_max(),
            frame_len_sure: bulk.frame_len_sure(),
            latency_train_max: 1,
            bulk_train_max: bulk.train_max(),
            bulk_window_len: bulk.window_len(),
        };
        Self { frames, bulk, limits, poll: BulkPoll::with_stride(BULK_IDLE_STRIDE) }
    }
}

impl Link for UdpLink {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn local(&self) -> SocketAddrV4 {
        self.frames.local()
    }

    fn bulk_port(&self) -> u16 {
        self.bulk.port()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn reaches(&self, _to: SocketAddrV4) -> bool {
        true
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        match train.lane {
            Lane::Latency => self.frames.send(train.to, train.segment_len, train.bytes),
            Lane::Bulk => self.bulk.send(train.to, train.segment_len, train.bytes),
        }
    }

    fn lend(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        match train.lane {
            Lane::Latency => self.send(train),
            Lane::Bulk => self.bulk.lend(train.to, train.segment_len, train.bytes),
        }
    }

    fn probe(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        match train.lane {
            Lane::Latency => self.frames.probe(train.to, train.bytes),
            Lane::Bulk => self.bulk.probe(train.to, train.bytes),
        }
    }

    fn recv_trains(&mut self, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        let mut count = self.frames.recv(deliver)?;
        if self.poll.is_due(count > 0) {
            let bulk_count = self.bulk.recv(deliver)?;
            self.poll.found(bulk_count);
            count += bulk_count;
        }
        Ok(count)
    }

    fn take_unreachable(&mut self) -> Option<Unreachable> {
        self.frames.take_refused().or_else(|| self.bulk.take_refused())
    }

    fn drops(&self) -> Drops {
        Drops { unsent: self.frames.lost() + self.bulk.lost(), ..Drops::default() }
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        vec![self.frames.as_raw_fd(), self.bulk.as_raw_fd()]
    }

    fn expect_bulk(&mut self) {
        self.poll.reset();
    }

    fn arm(&mut self, _armed: bool) -> bool {
        self.poll.reset();
        false
    }
}

/// Decides which polls look at a socket that is often idle.
#[derive(Debug)]
pub struct BulkPoll {
    idle_polls: u32,
    stride: u32,
    put_off: u32,
}

impl BulkPoll {
    /// Looks at every poll while something comes, and at every `stride`-th
    /// after a long idle time.
    #[must_use]
    pub fn with_stride(stride: u32) -> Self {
        Self { idle_polls: 0, stride, put_off: 0 }
    }

    /// Whether this poll should look; to be asked once per poll. It puts the look off, for
    /// some polls, while `more` waits elsewhere: what was sent before should be found before.
    pub fn is_due(&mut self, more: bool) -> bool {
        if more && self.put_off < PUT_OFF_MAX {
            self.put_off += 1;
            return false;
        }
        self.put_off = 0;
        if self.idle_polls < BULK_IDLE_POLLS_MAX {
            return true;
        }
        self.idle_polls += 1;
        if self.idle_polls < BULK_IDLE_POLLS_MAX + self.stride {
            return false;
        }
        self.idle_polls = BULK_IDLE_POLLS_MAX;
        true
    }

    /// What the look found.
    pub fn found(&mut self, count: usize) {
        if count > 0 {
            self.idle_polls = 0;
        } else if self.idle_polls < BULK_IDLE_POLLS_MAX {
            self.idle_polls += 1;
        }
    }

    /// The next polls look, as something is expected.
    pub fn reset(&mut self) {
        self.idle_polls = 0;
    }

    /// The next poll looks: the caller has blocked, or is about to.
    pub fn look_next(&mut self) {
        if self.idle_polls >= BULK_IDLE_POLLS_MAX {
            self.idle_polls = BULK_IDLE_POLLS_MAX + self.stride - 1;
        }
    }
}

#[cfg(test)]
mod tests;
