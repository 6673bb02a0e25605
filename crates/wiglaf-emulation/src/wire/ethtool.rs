//! The few requests of ethtool(8) that are needed, without the program.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// `SIOCETHTOOL` of linux/sockios.h.
const ETHTOOL: libc::Ioctl = 0x8946;

/// What an interface leaves to its device, or puts together behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offload {
    /// Transmit checksums, and the segmentation that rests upon them.
    Checksums,
    /// Segmentation of TCP.
    TcpSegmentation,
    /// Segmentation of anything, as late as possible.
    Segmentation,
    /// Putting received segments together.
    Gathering,
}

impl Offload {
    /// All of them, in the order in which they can be switched on.
    pub(super) const ALL: [Self; 4] =
        [Self::Checksums, Self::Segmentation, Self::TcpSegmentation, Self::Gathering];

    /// `ETHTOOL_G...` of linux/ethtool.h; the request to set it is the next number.
    fn get_command(self) -> u32 {
        match self {
            Self::Checksums => 0x16,
            Self::TcpSegmentation => 0x1e,
            Self::Segmentation => 0x23,
            Self::Gathering => 0x2b,
        }
    }
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Sets an offload of an interface of this network namespace.
pub(super) fn set(interface: &str, offload: Offload, on: bool) -> io::Result<()> {
    ask(interface, offload.get_command() + 1, on.into()).map(drop)
}

/// Whether an interface of this network namespace has an offload.
pub(super) fn get(interface: &str, offload: Offload) -> io::Result<bool> {
    Ok(ask(interface, offload.get_command(), 0)? != 0)
}

fn ask(interface: &str, command: u32, data: u32) -> io::Result<u32> {
    // Any socket serves; it is bound nowhere else than here.
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    let mut value = Value { command, data };
    // SAFETY: all zeros are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    let name = &mut request.ifr_name[..libc::IFNAMSIZ - 1];
    for (to, from) in name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request names an interface and points to a live value of
    // the kind that its command reads or writes.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), ETHTOOL, &raw mut request) };
    if outcome == 0 { Ok(value.data) } else { Err(io::Error::last_os_error()) }
}
