//! The TCP connections of the caller's network namespace (sock_diag(7)), of all users.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use rustix::net::netlink;

use crate::{Netlink, attribute, u32_at};

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `AF_INET` and `IPPROTO_TCP`.
const INET: u8 = 2;
const TCP: u8 = 6;
/// `INET_DIAG_INFO`: the attribute with `struct tcp_info`.
const INFO: u16 = 2;
/// Whose peer may owe an acknowledgement (tcp_states.h): established, both FIN_WAIT, CLOSE_WAIT, LAST_ACK,
/// CLOSING.
const CONNECTED: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;
/// Length of `struct inet_diag_msg`.
const MESSAGE_LEN: usize = 72;

/// A TCP connection over IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// This side.
    pub local: SocketAddrV4,
    /// The other side.
    pub remote: SocketAddrV4,
    /// The socket's, as /proc/PID/fd shows it.
    pub inode: u32,
    /// Segments on their way, not acknowledged yet.
    pub unacknowledged: u32,
    /// How often in a row the kernel has sent them again, and got no answer.
    pub timeouts: u8,
    /// How often in a row the kernel has asked an idle peer for a sign of life, and got none.
    pub probes: u8,
}

impl Connection {
    fn parse(body: &[u8]) -> Option<Self> {
        let port = |at: usize| Some(u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?));
        let address =
            |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(body.get(at..at + 4)?).ok()?));
        let info = attribute(body.get(MESSAGE_LEN..)?, INFO)?;
        Some(Self {
            local: SocketAddrV4::new(address(8)?, port(4)?),
            remote: SocketAddrV4::new(address(24)?, port(6)?),
            inode: u32_at(body, 68)?,
            unacknowledged: u32_at(info, 24)?,
            timeouts: *info.get(2)?,
            probes: *info.get(3)?,
        })
    }
}

impl Netlink {
    /// Sockets of this network namespace.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sockets() -> io::Result<Self> {
        Self::open(Some(netlink::SOCK_DIAG))
    }

    /// All TCP connections over IPv4; [`Netlink::sockets`] answers this.
    ///
    /// # Errors
    /// What the kernel says: `NotFound` where it has no tcp_diag.
    pub fn connections(&mut self) -> io::Result<Vec<Connection>> {
        let mut request = vec![INET, TCP, 1 << (INFO - 1), 0];
        request.extend(CONNECTED.to_ne_bytes());
        // Of any address.
        request.resize(56, 0);
        let answers = self.dump(BY_FAMILY, &request)?;
        Ok(answers.iter().filter_map(|answer| Connection::parse(&answer.body)).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_connection_of_ours_is_listed_with_its_inode() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_far, _) = listener.accept().unwrap();
        let found = Netlink::sockets().unwrap().connections().unwrap();
        let link =
            std::fs::metadata(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&near)));
        let inode = link.unwrap().ino();
        let ours = found.iter().find(|one| u64::from(one.inode) == inode).unwrap();
        let text = |at: std::io::Result<std::net::SocketAddr>| at.unwrap().to_string();
        assert_eq!(ours.local.to_string(), text(near.local_addr()));
        assert_eq!(ours.remote.to_string(), text(near.peer_addr()));
        assert_eq!((ours.unacknowledged, ours.timeouts, ours.probes), (0, 0, 0));
    }

    #[test]
    fn a_short_answer_is_none() {
        for len in 0..100 {
            assert_eq!(Connection::parse(&vec![255; len]), None, "{len}");
        }
    }
}
