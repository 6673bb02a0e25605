//! The bulk lane: one UDP socket that sends trains cut by the kernel or the
//! NIC (UDP_SEGMENT) and receives them coalesced (UDP_GRO).

use std::io;
use std::mem;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use wiglaf_link::{Deliver, Sent, Unreachable};

use crate::frame::{BATCH_MAX, local_v4, send_many};
use crate::lend::Lender;
use crate::place::Place;
use crate::refused::Refused;
use crate::sys::{self, Control, SOCKADDR_LEN, Trouble, trouble};
use crate::trains::{self, SLOT_LEN, TRAINS_MAX};
use crate::{FRAME_LEN_MAX, UDP_IP_HEADER_LEN, interface};

/// Longest train: what the 16-bit lengths of IPv4 and UDP allow.
const TRAIN_LEN_MAX: usize = 65535 - UDP_IP_HEADER_LEN;

/// Most segments of one train that every kernel with UDP_SEGMENT accepts.
const SEGMENTS_MAX: usize = 64;

/// Room that is asked of the kernel for datagrams not yet received.
const RECV_BUFFER_LEN: usize = 16 << 20;
pub(crate) const SEND_BUFFER_LEN: usize = 8 << 20;

/// How much of the receive buffer one byte of payload may cost: a driver may
/// give each 1500-byte frame a page of its own and a descriptor beside it.
const COST_PER_BYTE: usize = 3;

/// More on the way makes nothing faster, but falls out of the caches; what
/// the buffer holds beyond it is for peers who send at the same time.
const WINDOW_LEN_MAX: usize = 4 << 20;

/// How often a call is tried again after reports of the network.
const TRIES_MAX: usize = 4;

/// A UDP socket for trains.
#[derive(Debug)]
pub struct BulkSocket {
    socket: UdpSocket,
    local: SocketAddrV4,
    frame_len_max: usize,
    frame_len_sure: usize,
    window_len: usize,
    /// The kernel cuts trains; otherwise they are sent one by one.
    offload: bool,
    refused: Refused,
    /// Opened when it is first needed; `None` within where it cannot be.
    lender: Option<Option<Lender>>,
    /// Slots, of which only the first is touched while datagrams come in trains.
    slots: Vec<u8>,
    /// The last receive found a datagram without a train: more may be waiting.
    alone: bool,
    lost: u64,
}

impl BulkSocket {
    /// Binds a socket where `at` says, but to any of the ports there.
    ///
    /// # Errors
    /// When the address is not of this machine or no port is free.
    pub fn open(at: impl Into<Place>) -> io::Result<Self> {
        Self::from_socket(at.into().any_port().bind()?)
    }

    /// Uses a bound socket that was opened elsewhere.
    ///
    /// # Errors
    /// When it is no bound IPv4 UDP socket.
    pub fn from_socket(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let local = local_v4(&socket)?;
        let granted = sys::grow_recv_buffer(socket.as_fd(), RECV_BUFFER_LEN)?;
        sys::grow_send_buffer(socket.as_fd(), SEND_BUFFER_LEN)?;
        sys::set_int(socket.as_fd(), libc::SOL_IP, libc::IP_RECVERR, 1)?;
        sys::ignore_path_mtu(socket.as_fd())?;
        // Kernels before 4.18 know neither; before 5.0 only the first.
        let offload = sys::set_int(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        let _ = sys::set_int(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1);
        sys::mark_arrivals(socket.as_fd());
        let (frame_len_max, frame_len_sure) = interface::frame_lens(*local.ip());
        Ok(Self {
            socket,
            local,
            frame_len_max,
            frame_len_sure,
            window_len: (granted / COST_PER_BYTE).min(WINDOW_LEN_MAX),
            offload,
            refused: Refused::default(),
            lender: None,
            slots: vec![0; TRAINS_MAX * SLOT_LEN],
            alone: false,
            lost: 0,
        })
    }

    /// The port it is bound to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.local.port()
    }

    /// Longest payload of one datagram that its interface carries.
    #[must_use]
    pub fn frame_len_max(&self) -> usize {
        self.frame_len_max
    }

    /// Longest payload of one datagram that gets to every peer.
    #[must_use]
    pub fn frame_len_sure(&self) -> usize {
        self.frame_len_sure
    }

    /// Most datagrams of one train.
    #[must_use]
    pub fn train_max(&self) -> usize {
        (TRAIN_LEN_MAX / self.frame_len_max).clamp(1, SEGMENTS_MAX)
    }

    /// How many bytes may be on the way to this socket before it overflows.
    #[must_use]
    pub fn window_len(&self) -> usize {
        self.window_len
    }

    /// Whether the kernel cuts trains.
    #[must_use]
    pub fn has_offload(&self) -> bool {
        self.offload
    }

    /// Sends trains datagram by datagram from now on.
    pub fn disable_offload(&mut self) {
        self.offload = false;
    }

    /// Datagrams that the kernel would not send, or that made no sense.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// A destination found to have no listener.
    pub fn take_refused(&mut self) -> Option<Unreachable> {
        self.refused.take()
    }

    /// Sends `bytes` as datagrams of `segment_len` bytes, the last of which
    /// may be shorter.
    ///
    /// # Errors
    /// When the socket is unusable.
    pub fn send(&mut self, to: SocketAddrV4, segment_len: usize, bytes: &[u8]) -> io::Result<Sent> {
        let segment_len = segment_len.max(1);
        let total = bytes.len().div_ceil(segment_len);
        if !self.is_train(segment_len, bytes) {
            return self.send_singly(to, segment_len, bytes);
        }
        for _ in 0..TRIES_MAX {
            let Err(error) = send_train(self.socket.as_fd(), to, segment_len, bytes) else {
                return Ok(Sent::All);
            };
            match (error.raw_os_error(), trouble(&error)) {
                // The device cannot do the checksums of a train.
                (Some(libc::EIO | libc::EOPNOTSUPP), _) => {
                    self.offload = false;
                    return self.send_singly(to, segment_len, bytes);
                }
                // Segments longer than this route's MTU cannot be cut, only fragmented.
                (Some(libc::EINVAL | libc::EMSGSIZE), _) => {
                    return self.send_singly(to, segment_len, bytes);
                }
                (_, Trouble::Again) => {}
                (_, Trouble::Full) => return Ok(Sent::Full),
                (_, Trouble::Report) => self.refused.collect(self.socket.as_fd()),
                (_, Trouble::Lost) => break,
                (_, Trouble::Broken) => return Err(error),
            }
        }
        self.lost += total as u64;
        Ok(Sent::All)
    }

    /// Sends a datagram that nobody cuts on its way.
    ///
    /// # Errors
    /// When the socket is unusable.
    pub fn probe(&mut self, to: SocketAddrV4, bytes: &[u8]) -> io::Result<Sent> {
        sys::forbid_fragments(self.socket.as_fd())?;
        let sent = self.send_singly(to, bytes.len().max(1), bytes);
        sys::ignore_path_mtu(self.socket.as_fd())?;
        sent
    }

    /// Whether the kernel takes it as one.
    fn is_train(&self, segment_len: usize, bytes: &[u8]) -> bool {
        let total = bytes.len().div_ceil(segment_len);
        self.offload && total > 1 && total <= SEGMENTS_MAX && bytes.len() <= TRAIN_LEN_MAX
    }

    /// Sends `bytes` as datagrams of `segment_len` bytes, without a copy (zero-copy) if the answer is [`Sent::Lent`].
    /// Nobody changes the bytes before they have arrived, unless the answer is another.
    ///
    /// # Errors
    /// When the socket is unusable.
    pub fn lend(&mut self, to: SocketAddrV4, segment_len: usize, bytes: &[u8]) -> io::Result<Sent> {
        let segment_len = segment_len.max(1);
        if !self.is_train(segment_len, bytes) {
            return self.send(to, segment_len, bytes);
        }
        let lender = self.lender.get_or_insert_with(|| Lender::open(*self.local.ip()).ok());
        if let Some(open) = lender {
            let Err(error) = open.send(to, segment_len, bytes) else { return Ok(Sent::Lent) };
            match (error.raw_os_error(), trouble(&error)) {
                (Some(libc::EPERM | libc::EACCES | libc::ENOSYS), _) | (_, Trouble::Broken) => {
                    *lender = None;
                }
                (_, Trouble::Report) => open.collect(&mut self.refused),
                _ => {}
            }
        }
        self.send(to, segment_len, bytes)
    }

    fn send_singly(
        &mut self,
        to: SocketAddrV4,
        segment_len: usize,
        bytes: &[u8],
    ) -> io::Result<Sent> {
        let total = bytes.len().div_ceil(segment_len);
        let mut done = 0;
        let mut tries = TRIES_MAX + total.div_ceil(BATCH_MAX);
        while done < total && tries > 0 {
            tries -= 1;
            let error =
                match send_many(self.socket.as_fd(), to, segment_len, &bytes[done * segment_len..])
                {
                    Ok(count) => {
                        done += count;
                        continue;
                    }
                    Err(error) => error,
                };
            match trouble(&error) {
                Trouble::Again => {}
                Trouble::Full if done == 0 => return Ok(Sent::Full),
                // What is already gone cannot be called back: the rest is lost.
                Trouble::Full | Trouble::Lost => break,
                Trouble::Report => self.refused.collect(self.socket.as_fd()),
                Trouble::Broken => return Err(error),
            }
        }
        self.lost += (total - done) as u64;
        Ok(Sent::All)
    }

    /// Hands over the datagrams of one train, or of several where datagrams come alone.
    ///
    /// # Errors
    /// When the socket is unusable.
    pub fn recv(&mut self, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        for _ in 0..TRIES_MAX {
            let found = if self.alone {
                self.recv_trains::<TRAINS_MAX>(deliver)
            } else {
                self.recv_trains::<1>(deliver)
            };
            let error = match found {
                Ok(count) => return Ok(count),
                Err(error) => error,
            };
            match trouble(&error) {
                Trouble::Full => {
                    self.alone = false;
                    return Ok(0);
                }
                Trouble::Again => {}
                Trouble::Report | Trouble::Lost => self.refused.collect(self.socket.as_fd()),
                Trouble::Broken => return Err(error),
            }
        }
        Ok(0)
    }

    /// At most `N` trains by one system call; says how many datagrams were in them.
    fn recv_trains<const N: usize>(&mut self, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        self.alone = false;
        let slots = (&mut self.slots[..], SLOT_LEN);
        let received = trains::recv::<N>(self.socket.as_fd(), slots, deliver)?;
        self.lost += received.cut as u64;
        self.alone = received.alone;
        Ok(received.count)
    }
}

impl AsFd for BulkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for BulkSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn send_train(
    socket: BorrowedFd<'_>,
    to: SocketAddrV4,
    segment_len: usize,
    bytes: &[u8],
) -> io::Result<()> {
    let segment_len =
        u16::try_from(segment_len).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let mut name = sys::to_sockaddr(to);
    let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 128]);
    // SAFETY: all-zero bytes are a valid `msghdr`.
    let mut msg: libc::msghdr = unsafe { mem::zeroed() };
    msg.msg_name = (&raw mut name).cast();
    msg.msg_namelen = SOCKADDR_LEN;
    msg.msg_iov = &raw mut iov;
    msg.msg_iovlen = 1;
    msg.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: the first control header lies within `control`, which has room
    // for it and a `u16`; the kernel only reads what `msg` points at, all of
    // it live.
    let status = unsafe {
        msg.msg_controllen = libc::CMSG_SPACE(mem::size_of::<u16>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const msg);
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = libc::CMSG_LEN(mem::size_of::<u16>() as u32) as _;
        libc::CMSG_DATA(header).cast::<u16>().write_unaligned(segment_len);
        libc::sendmsg(socket.as_raw_fd(), &raw const msg, libc::MSG_DONTWAIT)
    };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Longest payload that fits an interface's MTU.
pub(crate) fn payload_len_max(mtu: usize) -> usize {
    mtu.saturating_sub(UDP_IP_HEADER_LEN).clamp(1, FRAME_LEN_MAX)
}
