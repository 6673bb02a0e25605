//! Trains that the kernel does not copy: their pages go into a pipe and out of it into a UDP
//! socket (vmsplice(2), splice(2)), which takes references to them (MSG_SPLICE_PAGES).
//!
//! Nobody says when the kernel has read the pages for the last time. So only who waits for the
//! receiver's acknowledgement before writing there again may send in this way.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{IoSliceRaw, PipeFlags, SpliceFlags};

use crate::kernel::kernel_is_from;
use crate::refused::Refused;
use crate::sys;

/// First kernel whose UDP sockets take the pages of a whole train as one; earlier ones would send
/// each page as a datagram of its own.
const KERNEL_MIN: (u32, u32) = (6, 5);

/// What the longest train takes, in whole pages.
const PIPE_LEN_MIN: usize = 1 << 16;

/// A socket of its own, as pages can only be sent to where a socket is connected to, and a
/// connected one receives from nobody else.
#[derive(Debug)]
pub(crate) struct Lender {
    socket: UdpSocket,
    /// Empty; `None` after a failure, as it may not be.
    pipe: Option<Pipe>,
    to: Option<SocketAddrV4>,
    segment_len: usize,
}

impl Lender {
    /// Binds a socket to any port of `ip`.
    ///
    /// # Errors
    /// When the kernel cannot do it.
    pub(crate) fn open(ip: Ipv4Addr) -> io::Result<Self> {
        if !kernel_is_from(KERNEL_MIN) {
            return Err(Errno::OPNOTSUPP.into());
        }
        let socket = UdpSocket::bind(SocketAddrV4::new(ip, 0))?;
        socket.set_nonblocking(true)?;
        sys::grow_send_buffer(socket.as_fd(), crate::bulk::SEND_BUFFER_LEN)?;
        // Nobody reads what is sent here; the kernel keeps as little of it as it can.
        sys::set_int(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, 0)?;
        sys::set_int(socket.as_fd(), libc::SOL_IP, libc::IP_RECVERR, 1)?;
        sys::ignore_path_mtu(socket.as_fd())?;
        Ok(Self { socket, pipe: Some(Pipe::open()?), to: None, segment_len: 0 })
    }

    /// Sends `bytes` as datagrams of `segment_len` bytes, the last of which may be shorter. The
    /// kernel goes on reading them afterwards.
    ///
    /// # Errors
    /// Then nothing was sent, and nothing is read any more.
    pub(crate) fn send(
        &mut self,
        to: SocketAddrV4,
        segment_len: usize,
        bytes: &[u8],
    ) -> io::Result<()> {
        if self.to != Some(to) {
            self.to = None;
            self.socket.connect(to)?;
            self.to = Some(to);
        }
        if self.segment_len != segment_len {
            let len = libc::c_int::try_from(segment_len).unwrap_or(libc::c_int::MAX);
            sys::set_int(self.socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, len)?;
            self.segment_len = segment_len;
        }
        let pipe = self.pipe.take().map_or_else(Pipe::open, Ok)?;
        pipe.splice(bytes, &self.socket)?;
        self.pipe = Some(pipe);
        Ok(())
    }

    /// Takes what the network has reported.
    pub(crate) fn collect(&self, refused: &mut Refused) {
        refused.collect(self.socket.as_fd());
    }
}

#[derive(Debug)]
struct Pipe {
    reading: OwnedFd,
    writing: OwnedFd,
}

impl Pipe {
    /// A pipe that holds the longest train.
    ///
    /// # Errors
    /// Also when this user has so many that the kernel makes short ones only.
    fn open() -> io::Result<Self> {
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (reading, writing) = rustix::pipe::pipe_with(flags)?;
        if rustix::pipe::fcntl_getpipe_size(&writing)? < PIPE_LEN_MIN {
            return Err(Errno::PERM.into());
        }
        Ok(Self { reading, writing })
    }

    /// Moves the pages of `bytes` through itself into the socket, as one message.
    fn splice(&self, bytes: &[u8], socket: &UdpSocket) -> io::Result<()> {
        let flags = SpliceFlags::NONBLOCK;
        // SAFETY: nobody writes through the pipe's other end: its only reader is the call below.
        let taken = unsafe {
            rustix::pipe::vmsplice(&self.writing, &[IoSliceRaw::from_slice(bytes)], flags)?
        };
        if taken != bytes.len() {
            return Err(Errno::AGAIN.into());
        }
        let sent = rustix::pipe::splice(&self.reading, None, socket, None, taken, flags)?;
        if sent == taken { Ok(()) } else { Err(Errno::IO.into()) }
    }
}
