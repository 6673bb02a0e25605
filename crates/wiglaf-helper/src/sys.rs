//! Socket options that no crate of ours wraps.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::{AddressFamily, SocketType, getsockname, ipproto, sockopt};

use crate::policy::Caller;

const GROUPS_MAX: usize = 65_536;
/// More would only be more memory that users can fill.
const DESCRIPTORS_MAX: u64 = 16_384;

/// Who is at the other end of a Unix socket.
pub(crate) fn caller(socket: &impl AsFd) -> io::Result<Caller> {
    // Not by rustix: it takes no pid 0, which strangers to our PID namespace have.
    let mut who = [libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX }];
    if option(socket, libc::SO_PEERCRED, &mut who)? != size_of_val(&who) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut gids = vec![0_u32; GROUPS_MAX];
    let len = option(socket, libc::SO_PEERGROUPS, &mut gids)?;
    gids.truncate(len / size_of::<u32>());
    gids.push(who[0].gid);
    Ok(Caller { uid: who[0].uid, gids })
}

/// The network namespace that a socket belongs to, as a number that is never
/// used again.
pub(crate) fn network_of(socket: &impl AsFd) -> io::Result<u64> {
    let mut cookie = [0_u64];
    option(socket, libc::SO_NETNS_COOKIE, &mut cookie)?;
    Ok(cookie[0])
}

/// Where a UDP socket is bound that shares its port with nobody.
pub(crate) fn sole_udp_address(socket: &impl AsFd) -> Option<SocketAddrV4> {
    let is_udp = sockopt::socket_domain(socket).ok()? == AddressFamily::INET
        && sockopt::socket_type(socket).ok()? == SocketType::DGRAM
        // UDP-Lite has ports of its own, so its port may be another's in UDP.
        && sockopt::socket_protocol(socket).ok()? == Some(ipproto::UDP);
    let is_shared =
        sockopt::socket_reuseaddr(socket).ok()? || sockopt::socket_reuseport(socket).ok()?;
    let at = SocketAddrV4::try_from(getsockname(socket).ok()?).ok()?;
    (is_udp && !is_shared && at.port() != 0 && !at.ip().is_unspecified()).then_some(at)
}

/// Raises the limit of this process's descriptors as far as it may, and says what it is.
pub(crate) fn raise_descriptors() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(DESCRIPTORS_MAX).min(DESCRIPTORS_MAX);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize)
}

/// Nobody can change or take off the socket's filter any more.
pub(crate) fn lock_filter(socket: &impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: pointer and length are those of a live integer.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LOCK_FILTER,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option that consists of integers; says how many bytes came.
fn option<T: Copy>(socket: &impl AsFd, name: libc::c_int, into: &mut [T]) -> io::Result<usize> {
    let mut len = size_of_val(into) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `into`, and all
    // callers pass integers, or structures of them.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            into.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if status == 0 { Ok(len as usize) } else { Err(io::Error::last_os_error()) }
}
