//! Socket options that no crate of ours wraps.

use std::fs;
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

/// Where a UDP socket is bound that does not say that it shares its port.
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

/// Whether no other socket receives for that address now. Options do not tell: they count when a
/// socket is bound, and can be changed afterwards. Of the network of this process's first thread.
pub(crate) fn has_port_alone(socket: &impl AsFd, at: SocketAddrV4) -> bool {
    let Ok(rustix::fs::Stat { st_ino, .. }) = rustix::fs::fstat(socket) else { return false };
    let Ok(table) = fs::read_to_string("/proc/self/net/udp") else { return false };
    // There is none without IPv6, whose sockets receive for IPv4, too.
    let table6 = fs::read_to_string("/proc/self/net/udp6").unwrap_or_default();
    let mut receivers = table.lines().chain(table6.lines()).filter_map(|line| receiver(line, at));
    receivers.next() == Some(st_ino) && receivers.next().is_none()
}

/// The inode of a line's socket (`udp` and `udp6` in proc_pid_net(5)), if it receives for that address.
fn receiver(line: &str, at: SocketAddrV4) -> Option<u64> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (address, port) = fields.get(1)?.rsplit_once(':')?;
    // An address of IPv4 is the end of one of IPv6, in words as the processor has them.
    let word = u32::from_str_radix(address.get(address.len().checked_sub(8)?..)?, 16).ok()?;
    let is_theirs = u16::from_str_radix(port, 16).ok()? == at.port()
        && (word == 0 || word == u32::from_ne_bytes(at.ip().octets()));
    is_theirs.then(|| fields.get(9)?.parse().ok()).flatten()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_read_from_the_kernels_table() {
        let at = "10.77.0.1:7701".parse().unwrap();
        let receives = |address: &str| {
            let line = format!(
                "  42: {address}:1E15 00000000:0000 07 00000000:00000000 00:00000000 00000000  1 0 77 2 0 0"
            );
            receiver(&line, at) == Some(77)
        };
        // As a little-endian processor shows them, and both ways of a zero.
        let ours = format!("{:08X}", u32::from_ne_bytes([10, 77, 0, 1]));
        let v6 = "0000000000000000FFFF0000";
        assert!(receives(&ours) && receives(&format!("{v6}{ours}")));
        assert!(receives("00000000") && receives("00000000000000000000000000000000"));
        assert!(!receives("0100007F") && !receives("B80D0120000000000000000001000000"));
        assert_eq!(receiver("  sl  local_address rem_address   st tx_queue rx_queue", at), None);
    }
}
