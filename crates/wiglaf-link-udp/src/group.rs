//! Multicast groups: where they are, and how to listen to one.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

use rustix::net::sockopt::{set_ip_add_membership, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

/// The group of a random name, in the scope of one organisation (RFC 2365), so no router passes it on unasked.
#[must_use]
pub fn group([a, b, c]: [u8; 3], port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(239, 192 | (a & 3), b, c), port)
}

/// A socket that has joined `group` on the interface with the address `ip`.
///
/// # Errors
/// When the port is taken, or the interface joins no groups.
pub fn join_group(group: SocketAddrV4, ip: Ipv4Addr) -> io::Result<UdpSocket> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // Other members on this machine bind the same port.
    set_socket_reuseaddr(&socket, true)?;
    // Bound to the group's address, so it receives datagrams to the group alone.
    bind(&socket, &group)?;
    set_ip_add_membership(&socket, group.ip(), &ip)?;
    Ok(UdpSocket::from(socket))
}
