//! The one request of ethtool(8) that is needed, without the program.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// `ETHTOOL_STXCSUM` of linux/ethtool.h.
const SET_TRANSMIT_CHECKSUMS: u32 = 0x17;
/// `SIOCETHTOOL` of linux/sockios.h.
const ETHTOOL: libc::Ioctl = 0x8946;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Whether an interface of this network namespace leaves transmit checksums,
/// and the segmentation that rests upon them, to its device.
pub(super) fn set_transmit_checksums(interface: &str, on: bool) -> io::Result<()> {
    // Any socket serves; it is bound nowhere else than here.
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    let mut value = Value { command: SET_TRANSMIT_CHECKSUMS, data: on.into() };
    // SAFETY: all zeros are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    let name = &mut request.ifr_name[..libc::IFNAMSIZ - 1];
    for (to, from) in name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request names an interface and points to a live value of
    // the kind that its command reads.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), ETHTOOL, &raw mut request) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
