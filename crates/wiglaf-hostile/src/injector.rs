//! A raw socket: sends any bytes as a frame, but for the Ethernet address that it comes from.
//!
//! A switch takes an address to be where it was seen last. Who sends under another's gets what is
//! meant for it until its owner sends again: an attack on the switch, which port security stops
//! and no protocol above can. A job over it stands still so long, and goes on.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Sends frames on one interface of this process's network namespace. Takes CAP_NET_RAW.
#[derive(Debug)]
pub struct Injector {
    socket: OwnedFd,
    mac: [u8; 6],
}

impl Injector {
    /// Opens the interface of that name.
    ///
    /// # Errors
    /// When there is none, or this is not permitted.
    pub fn open(interface: &str) -> io::Result<Self> {
        // Protocol 0: it sends, and receives nothing.
        // SAFETY: no pointers are involved.
        let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nothing else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        let name = CString::new(interface)?;
        // SAFETY: the name is live and ends with a zero.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: 0,
            sll_ifindex: i32::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the address is live and of the stated length.
        let status = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        let mac = own_mac(&socket)?;
        Ok(Self { socket, mac })
    }

    /// Sends a frame. Answers whether it went: the interface takes none that is too short for an
    /// Ethernet header or too long for its MTU.
    pub fn send(&self, frame: &mut [u8]) -> bool {
        if let Some(from) = frame.get_mut(6..12) {
            from.copy_from_slice(&self.mac);
        }
        // SAFETY: pointer and length are those of a live slice, which the kernel only reads.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        sent == frame.len().cast_signed()
    }
}

/// The Ethernet address of the interface that a packet socket is bound to.
fn own_mac(socket: &OwnedFd) -> io::Result<[u8; 6]> {
    // SAFETY: all-zero bytes are a valid address.
    let mut own: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to a live address.
    let status =
        unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut own).cast(), &raw mut len) };
    let [a, b, c, d, e, f, ..] = own.sll_addr;
    if status == 0 { Ok([a, b, c, d, e, f]) } else { Err(io::Error::last_os_error()) }
}
