//! The latency lane: one UDP socket for small frames.

use std::io;
use std::mem;
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use wiglaf_link::{Deliver, Sent, Unreachable};

use crate::place::Place;
use crate::refused::Refused;
use crate::sys::{self, SOCKADDR_LEN, Trouble, trouble};
use crate::trains::{self, TRAINS_MAX};

/// Most datagrams of one system call.
pub const BATCH_MAX: usize = 32;

/// Room for one datagram of a batch; longer ones are dropped.
const SLOT_LEN: usize = 9216;

/// Room that is asked of the kernel for datagrams not yet received.
const RECV_BUFFER_LEN: usize = 4 << 20;
const SEND_BUFFER_LEN: usize = 4 << 20;

/// How often a call is tried again after reports of the network, which the
/// kernel hands out in its place.
const TRIES_MAX: usize = 4;

/// A UDP socket that sends and receives frames as they are.
#[derive(Debug)]
pub struct FrameSocket {
    socket: UdpSocket,
    local: SocketAddrV4,
    refused: Refused,
    slots: Vec<u8>,
    /// Room of each: of one datagram, or of a train.
    slot_len: usize,
    /// The last receive found something: more may be waiting.
    backlog: bool,
    lost: u64,
}

impl FrameSocket {
    /// Binds a socket where `at` says.
    ///
    /// # Errors
    /// When the address is not of this machine or no port is free.
    pub fn open(at: impl Into<Place>) -> io::Result<Self> {
        Self::from_socket(at.into().bind()?)
    }

    /// Uses a bound socket that was opened elsewhere.
    ///
    /// # Errors
    /// When it is no bound IPv4 UDP socket.
    pub fn from_socket(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let local = local_v4(&socket)?;
        sys::grow_recv_buffer(socket.as_fd(), RECV_BUFFER_LEN)?;
        sys::grow_send_buffer(socket.as_fd(), SEND_BUFFER_LEN)?;
        sys::set_int(socket.as_fd(), libc::SOL_IP, libc::IP_RECVERR, 1)?;
        sys::ignore_path_mtu(socket.as_fd())?;
        sys::mark_arrivals(socket.as_fd());
        Ok(Self {
            socket,
            local,
            refused: Refused::default(),
            slots: vec![0; BATCH_MAX * SLOT_LEN],
            slot_len: SLOT_LEN,
            backlog: false,
            lost: 0,
        })
    }

    /// Has trains come as one to this socket, which has a filter that drops most of what comes:
    /// otherwise the kernel cuts each into datagrams first, and drops those.
    pub fn take_trains(&mut self) {
        // Kernels before 5.0 do not know it, and have no trains to drop.
        if sys::set_int(self.socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1).is_ok() {
            self.slot_len = trains::SLOT_LEN;
            self.slots = vec![0; TRAINS_MAX * self.slot_len];
        }
    }

    /// The address it is bound to.
    #[must_use]
    pub fn local(&self) -> SocketAddrV4 {
        self.local
    }

    /// Datagrams that the kernel would not send, or that were too long to
    /// receive.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// A destination found to have no listener.
    pub fn take_refused(&mut self) -> Option<Unreachable> {
        self.refused.take()
    }

    /// Looks for reports of unreachable ports, which otherwise come to light
    /// when something is sent or received.
    pub fn collect_refused(&mut self) {
        self.refused.collect(self.socket.as_fd());
    }

    /// Sends `bytes` as datagrams of `segment_len` bytes, the last of which
    /// may be shorter.
    ///
    /// # Errors
    /// When the socket is unusable.
    pub fn send(&mut self, to: SocketAddrV4, segment_len: usize, bytes: &[u8]) -> io::Result<Sent> {
        if bytes.len() <= segment_len {
            return self.send_one(to, bytes);
        }
        let mut sent_any = false;
        for part in bytes.chunks(segment_len.max(1).saturating_mul(BATCH_MAX)) {
            match self.send_batch(to, segment_len.max(1), part)? {
                Sent::All | Sent::Lent => sent_any = true,
                // What is already gone cannot be called back: the rest is lost.
                Sent::Full if sent_any => {
                    self.lost += 1;
                    return Ok(Sent::All);
                }
                Sent::Full => return Ok(Sent::Full),
            }
        }
        Ok(Sent::All)
    }

    /// Sends a datagram that nobody cuts on its way.
    ///
    /// # Errors
    /// When the socket is unusable.
    pub fn probe(&mut self, to: SocketAddrV4, bytes: &[u8]) -> io::Result<Sent> {
        sys::forbid_fragments(self.socket.as_fd())?;
        let sent = self.send_one(to, bytes);
        sys::ignore_path_mtu(self.socket.as_fd())?;
        sent
    }

    fn send_one(&mut self, to: SocketAddrV4, bytes: &[u8]) -> io::Result<Sent> {
        for _ in 0..TRIES_MAX {
            let Err(error) = self.socket.send_to(bytes, SocketAddr::V4(to)) else {
                return Ok(Sent::All);
            };
            if let Some(sent) = self.after_send_error(error)? {
                return Ok(sent);
            }
        }
        self.lost += 1;
        Ok(Sent::All)
    }

    fn send_batch(
        &mut self,
        to: SocketAddrV4,
        segment_len: usize,
        bytes: &[u8],
    ) -> io::Result<Sent> {
        let total = bytes.len().div_ceil(segment_len);
        let mut done = 0;
        for _ in 0..TRIES_MAX {
            match send_many(self.socket.as_fd(), to, segment_len, &bytes[done * segment_len..]) {
                Ok(count) => done += count,
                Err(error) => match self.after_send_error(error)? {
                    Some(Sent::Full) if done == 0 => return Ok(Sent::Full),
                    Some(_) => break,
                    None => {}
                },
            }
            if done == total {
                return Ok(Sent::All);
            }
        }
        self.lost += (total - done) as u64;
        Ok(Sent::All)
    }

    /// `None`: try again.
    fn after_send_error(&mut self, error: io::Error) -> io::Result<Option<Sent>> {
        match trouble(&error) {
            Trouble::Again => Ok(None),
            Trouble::Full => Ok(Some(Sent::Full)),
            Trouble::Report => {
                self.refused.collect(self.socket.as_fd());
                Ok(None)
            }
            // Anybody can report that something was too long. Of what is, each try says so.
            Trouble::Lost if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                self.refused.collect(self.socket.as_fd());
                Ok(None)
            }
            Trouble::Lost => {
                self.lost += 1;
                Ok(Some(Sent::All))
            }
            Trouble::Broken => Err(error),
        }
    }

    /// Hands over what has arrived, at most [`BATCH_MAX`] datagrams.
    ///
    /// The cheaper single receive is used while at most one frame at a time
    /// arrives; after a hit the next call asks for a batch.
    ///
    /// # Errors
    /// When the socket is unusable.
    pub fn recv(&mut self, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        for _ in 0..TRIES_MAX {
            let result = match (self.backlog, self.slot_len) {
                (false, _) => self.recv_some::<1>(deliver),
                (true, trains::SLOT_LEN) => self.recv_some::<TRAINS_MAX>(deliver),
                (true, _) => self.recv_some::<BATCH_MAX>(deliver),
            };
            match result {
                Ok(count) => {
                    self.backlog = count > 0;
                    return Ok(count);
                }
                Err(error) => match trouble(&error) {
                    Trouble::Full => {
                        self.backlog = false;
                        return Ok(0);
                    }
                    Trouble::Again => {}
                    Trouble::Report | Trouble::Lost => self.refused.collect(self.socket.as_fd()),
                    Trouble::Broken => return Err(error),
                },
            }
        }
        Ok(0)
    }

    fn recv_some<const N: usize>(&mut self, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        let slots = (&mut self.slots[..], self.slot_len);
        let received = trains::recv::<N>(self.socket.as_fd(), slots, deliver)?;
        self.lost += received.cut as u64;
        Ok(received.count)
    }
}

impl AsFd for FrameSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for FrameSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// The IPv4 address a socket is bound to.
pub(crate) fn local_v4(socket: &UdpSocket) -> io::Result<SocketAddrV4> {
    match socket.local_addr()? {
        SocketAddr::V4(local) if local.port() != 0 => Ok(local),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a bound IPv4 socket")),
    }
}

/// Sends at most [`BATCH_MAX`] datagrams with one system call and says how
/// many went out.
pub(crate) fn send_many(
    socket: BorrowedFd<'_>,
    to: SocketAddrV4,
    segment_len: usize,
    bytes: &[u8],
) -> io::Result<usize> {
    let mut name = sys::to_sockaddr(to);
    let mut iovs = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_MAX];
    // SAFETY: all-zero bytes are a valid `mmsghdr`.
    let mut msgs: [libc::mmsghdr; BATCH_MAX] = unsafe { mem::zeroed() };
    let mut count = 0;
    for (i, segment) in bytes.chunks(segment_len).take(BATCH_MAX).enumerate() {
        iovs[i] =
            libc::iovec { iov_base: segment.as_ptr().cast_mut().cast(), iov_len: segment.len() };
        msgs[i].msg_hdr.msg_name = (&raw mut name).cast();
        msgs[i].msg_hdr.msg_namelen = SOCKADDR_LEN;
        msgs[i].msg_hdr.msg_iov = &raw mut iovs[i];
        msgs[i].msg_hdr.msg_iovlen = 1;
        count = i + 1;
    }
    // SAFETY: the first `count` messages point at live data; the kernel only
    // reads the payload.
    let status = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            msgs.as_mut_ptr(),
            count as libc::c_uint,
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(status).map_err(|_| io::Error::last_os_error())
}
