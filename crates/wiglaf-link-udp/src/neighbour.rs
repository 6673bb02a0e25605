//! Ethernet addresses of neighbours, as the kernel knows them.

use std::io;
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The entry is complete (`ATF_COM`).
const COMPLETE: libc::c_int = 0x02;

/// Asks the kernel for the Ethernet address of `ip` on an interface; `None`
/// when it does not know it (yet).
pub(crate) fn look_up(
    socket: BorrowedFd<'_>,
    interface: &str,
    ip: Ipv4Addr,
) -> io::Result<Option<[u8; 6]>> {
    // SAFETY: all-zero bytes are a valid `arpreq`.
    let mut request: libc::arpreq = unsafe { mem::zeroed() };
    if interface.len() >= request.arp_dev.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.arp_dev.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.arp_pa.sa_family = libc::AF_INET as libc::sa_family_t;
    // An IPv4 socket address has its port in the first two bytes of the data.
    let octets = SocketAddrV4::new(ip, 0).ip().octets();
    for (to, from) in request.arp_pa.sa_data[2..6].iter_mut().zip(octets) {
        *to = from as libc::c_char;
    }
    // SAFETY: the request is live and its interface name ends with a zero byte.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGARP as _, &raw mut request) };
    if status != 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ENXIO) { Ok(None) } else { Err(error) };
    }
    if request.arp_flags & COMPLETE == 0 {
        return Ok(None);
    }
    let mut mac = [0; 6];
    for (to, from) in mac.iter_mut().zip(request.arp_ha.sa_data) {
        *to = from as u8;
    }
    Ok((mac != [0; 6]).then_some(mac))
}
