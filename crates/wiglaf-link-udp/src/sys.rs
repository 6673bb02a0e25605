//! The few socket calls that the standard library has no safe form of.

use std::io;
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd};

use wiglaf_link::{QUOTED_LEN_MAX, Unreachable};

/// Room for the control messages of one datagram, aligned for `cmsghdr`.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct Control(pub(crate) [u8; 128]);

/// Length of a socket address, as the kernel takes it.
pub(crate) const SOCKADDR_LEN: libc::socklen_t = mem::size_of::<libc::sockaddr_in>() as u32;

pub(crate) fn to_sockaddr(at: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: at.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*at.ip()).to_be() },
        sin_zero: [0; 8],
    }
}

pub(crate) fn from_sockaddr(raw: &libc::sockaddr_in) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr)), u16::from_be(raw.sin_port))
}

/// Has the kernel say when each datagram arrived. Who acknowledges late can then say by how much, and nobody takes it
/// for a queue.
pub(crate) fn mark_arrivals(socket: BorrowedFd<'_>) {
    let _ = set_int(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
}

/// Sets an option that is an integer.
///
/// # Errors
/// The kernel's, such as that a privilege is missing.
pub fn set_int(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the pointer and length are those of a live `c_int`.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            mem::size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Frames are as long as the interface carries, whatever ICMP says about the way: anybody could
/// make the kernel refuse them by a report that the way is narrower (ip(7), IP_MTU_DISCOVER).
pub(crate) fn ignore_path_mtu(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::SOL_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT)
}

/// Nobody cuts what is sent, and it is as long as the interface carries, whatever ICMP says: see [`ignore_path_mtu`].
pub(crate) fn forbid_fragments(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::SOL_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
}

/// Reads a socket option that is an integer.
///
/// # Errors
/// What the kernel says.
pub fn get_int(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = mem::size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointers are those of a live `c_int` and its length.
    let status = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len)
    };
    if status == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Asks for a receive buffer of `len` bytes and says what was granted, as the
/// kernel counts it: with the bookkeeping of every packet.
pub(crate) fn grow_recv_buffer(socket: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
    let wanted = libc::c_int::try_from(len).unwrap_or(libc::c_int::MAX);
    if set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, wanted).is_err() {
        set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, wanted)?;
    }
    let granted = get_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUF)?;
    Ok(usize::try_from(granted).unwrap_or(0))
}

/// Asks for a send buffer of `len` bytes; what is granted will do.
pub fn grow_send_buffer(socket: BorrowedFd<'_>, len: usize) -> io::Result<()> {
    let wanted = libc::c_int::try_from(len).unwrap_or(libc::c_int::MAX);
    set_int(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, wanted)
        .or_else(|_| set_int(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, wanted))
}

/// What a failed send or receive means to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Try the same call again.
    Again,
    /// No room (sending) or nothing there (receiving).
    Full,
    /// A report of the network waits in the error queue; the call itself was
    /// not carried out.
    Report,
    /// This datagram cannot go where it should; others may.
    Lost,
    /// The socket itself is unusable.
    Broken,
}

pub(crate) fn trouble(error: &io::Error) -> Trouble {
    match error.raw_os_error() {
        Some(libc::EINTR) => Trouble::Again,
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => Trouble::Full,
        Some(
            libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::ENOPROTOOPT
            | libc::ENETDOWN
            | libc::EPROTO
            | libc::ENONET
            | libc::EOPNOTSUPP,
        ) => Trouble::Report,
        Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::ENOTCONN | libc::EPIPE) => {
            Trouble::Broken
        }
        _ => Trouble::Lost,
    }
}

/// Takes one report of the network from a socket's error queue: the errno,
/// and the datagram that caused it. `None` when the queue is empty.
pub(crate) fn take_report(
    socket: BorrowedFd<'_>,
) -> io::Result<Option<(libc::c_int, Unreachable)>> {
    let mut name = to_sockaddr(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    let mut control = Control([0; 128]);
    let mut quoted = [0u8; QUOTED_LEN_MAX];
    let mut iov = libc::iovec { iov_base: quoted.as_mut_ptr().cast(), iov_len: quoted.len() };
    // SAFETY: all-zero bytes are a valid `msghdr`.
    let mut msg: libc::msghdr = unsafe { mem::zeroed() };
    msg.msg_name = (&raw mut name).cast();
    msg.msg_namelen = SOCKADDR_LEN;
    msg.msg_iov = &raw mut iov;
    msg.msg_iovlen = 1;
    msg.msg_control = control.0.as_mut_ptr().cast();
    msg.msg_controllen = control.0.len() as _;
    // SAFETY: every pointer in `msg` is to a live local of the stated length.
    let status = unsafe {
        libc::recvmsg(socket.as_raw_fd(), &raw mut msg, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
    };
    let Ok(quoted_len) = usize::try_from(status) else {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    };
    let mut errno = 0;
    // SAFETY: `msg` was filled by the kernel; the walk stays within its
    // control buffer, and each payload is read unaligned and only when the
    // header's length covers it.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(&raw const msg);
        while !at.is_null() {
            let payload_len = ((*at).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            if (*at).cmsg_level == libc::SOL_IP
                && (*at).cmsg_type == libc::IP_RECVERR
                && payload_len >= mem::size_of::<libc::sock_extended_err>()
            {
                let report: libc::sock_extended_err =
                    libc::CMSG_DATA(at).cast::<libc::sock_extended_err>().read_unaligned();
                errno = libc::c_int::try_from(report.ee_errno).unwrap_or(0);
            }
            at = libc::CMSG_NXTHDR(&raw const msg, at);
        }
    }
    let quoted = Some(quoted[..quoted_len].to_vec());
    Ok(Some((errno, Unreachable { at: from_sockaddr(&name), epoch: 0, quoted })))
}
