//! Socket options that no crate of ours wraps.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::{AddressFamily, SocketType, getsockname, ipproto, sockopt};

use crate::policy::Caller;

const GROUPS_MAX: usize = 65_536;
/// More would only be more memory that users can fill.
const DESCRIPTORS_MAX: u64 = 16_384;
/// How often the kernel's table is read when it does not show a socket that is there: one look in 20
/// misses it while a user binds and closes sockets as fast as he can, and such looks come in groups.
const LOOKS_MAX: usize = 32;

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
    let Ok(inode) = inode_of(socket) else { return false };
    // Where sockets come and go meanwhile, a line may be left out.
    (0..LOOKS_MAX).find_map(|_| only_receiver(inode, at)).unwrap_or(false)
}

/// Whether that socket alone receives for the address; `None`: it is not to be seen.
fn only_receiver(inode: u64, at: SocketAddrV4) -> Option<bool> {
    let mut is_seen = false;
    for table in ["/proc/self/net/udp", "/proc/self/net/udp6"] {
        match others_in(table, inode, at, &mut is_seen) {
            Ok(false) => {}
            // There is none without IPv6, whose sockets receive for IPv4, too.
            Err(error) if error.kind() == io::ErrorKind::NotFound && table.ends_with('6') => {}
            Ok(true) | Err(_) => return Some(false),
        }
    }
    is_seen.then_some(true)
}

/// Whether the table has a socket that receives for the address and has another inode. Line by line:
/// users decide how long it is. The same line may come twice.
fn others_in(table: &str, inode: u64, at: SocketAddrV4, is_seen: &mut bool) -> io::Result<bool> {
    let mut table = BufReader::new(File::open(table)?);
    let mut line = String::new();
    while table.read_line(&mut line)? > 0 {
        match receiver(&line, at) {
            Some(found) if found == inode => *is_seen = true,
            Some(_) => return Ok(true),
            None => {}
        }
        line.clear();
    }
    Ok(false)
}

/// The inode of a line's socket (`udp` and `udp6` in proc_pid_net(5)), if it receives for that address.
pub(crate) fn receiver(line: &str, at: SocketAddrV4) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let (address, port) = fields.nth(1)?.rsplit_once(':')?;
    // An address of IPv4 is the end of one of IPv6, in words as the processor has them.
    let word = u32::from_str_radix(address.get(address.len().checked_sub(8)?..)?, 16).ok()?;
    let is_theirs = u16::from_str_radix(port, 16).ok()? == at.port()
        && (word == 0 || word == u32::from_ne_bytes(at.ip().octets()));
    is_theirs.then(|| fields.nth(7)?.parse().ok()).flatten()
}

/// Which of these inodes are packet sockets that are open, in the network of this process's first
/// thread. The kernel's table may leave a line out where sockets come and go, so a socket counts as
/// closed when it was missing many times in a row.
pub(crate) fn packet_sockets(known: &[u64]) -> io::Result<Vec<u64>> {
    let mut missing: BTreeSet<u64> = known.iter().copied().collect();
    for _ in 0..LOOKS_MAX {
        if missing.is_empty() {
            break;
        }
        let mut table = BufReader::new(File::open("/proc/self/net/packet")?);
        let mut line = String::new();
        while table.read_line(&mut line)? > 0 {
            // Not the line of titles: the inode is the last field (packet_seq_show of the kernel).
            if let Some(inode) = line.split_ascii_whitespace().nth(8).and_then(|f| f.parse().ok()) {
                missing.remove(&inode);
            }
            line.clear();
        }
    }
    Ok(known.iter().copied().filter(|inode| !missing.contains(inode)).collect())
}

/// The inode of a socket.
pub(crate) fn inode_of(socket: &impl AsFd) -> io::Result<u64> {
    Ok(rustix::fs::fstat(socket)?.st_ino)
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
    wiglaf_link_udp::set_int(socket.as_fd(), libc::SOL_SOCKET, libc::SO_LOCK_FILTER, 1)
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

    /// The kernel resumes its table by counting, and may give a line twice, or leave one out, where
    /// sockets come and go.
    #[test]
    fn sockets_that_come_and_go_take_nobodys_port() {
        use std::net::{SocketAddr, UdpSocket};
        use std::sync::atomic::{AtomicBool, Ordering};
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let others: Vec<_> = (0..1000).map(|_| bind()).collect();
        // At several places of the table: what is behind what changes is missed.
        let ours = [(); 10].map(|()| bind());
        let is_alone = |socket: &UdpSocket| match socket.local_addr() {
            Ok(SocketAddr::V4(at)) => has_port_alone(socket, at),
            _ => false,
        };
        let done = AtomicBool::new(false);
        let refused = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    drop([(); 20].map(|()| bind()));
                }
            });
            let asked = (0..1000).map(|turn| &ours[turn % ours.len()]);
            let refused = asked.filter(|socket| !is_alone(socket)).count();
            done.store(true, Ordering::Relaxed);
            refused
        });
        drop(others);
        assert_eq!(refused, 0, "of 1000");
    }

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
