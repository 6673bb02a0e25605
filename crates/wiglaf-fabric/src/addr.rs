//! Endpoint addresses as libfabric carries them.
//!
//! The format is `FI_SOCKADDR_IN`: 16 bytes of `sockaddr_in`. The eight bytes that a `sockaddr_in`
//! leaves unused hold the endpoint's epoch, most significant byte first; zero stands for whoever
//! listens there.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs};

use wiglaf_endpoint::{Address, Epoch};

use crate::guard::{EINVAL, Fi};

/// Length of an address in bytes.
pub(crate) const ADDRESS_LEN: usize = 16;

const _: () = assert!(size_of::<libc::sockaddr_in>() == ADDRESS_LEN);

/// An address as bytes of a `sockaddr_in`.
pub(crate) fn to_bytes(address: &Address) -> [u8; ADDRESS_LEN] {
    let mut bytes = [0; ADDRESS_LEN];
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&address.at.port().to_be_bytes());
    bytes[4..8].copy_from_slice(&address.at.ip().octets());
    bytes[8..].copy_from_slice(&address.epoch.0.to_be_bytes());
    bytes
}

/// The address that the bytes of a `sockaddr_in` name.
pub(crate) fn from_bytes(bytes: &[u8; ADDRESS_LEN]) -> Fi<Address> {
    let [f0, f1, p0, p1, a, b, c, d, epoch @ ..] = *bytes;
    if u16::from_ne_bytes([f0, f1]) != libc::AF_INET as u16 {
        return Err(EINVAL);
    }
    Ok(Address {
        at: SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([p0, p1])),
        epoch: Epoch(u64::from_be_bytes(epoch)),
    })
}

/// Whether messages can be sent there.
pub(crate) fn is_destination(address: &Address) -> bool {
    address.at.port() != 0 && !address.at.ip().is_unspecified() && !address.at.ip().is_broadcast()
}

/// Reads an address from user memory.
///
/// # Safety
/// `at` is null or valid for reads of `len` bytes.
pub(crate) unsafe fn read(at: *const libc::c_void, len: usize) -> Fi<Address> {
    if at.is_null() || len < ADDRESS_LEN {
        return Err(EINVAL);
    }
    // SAFETY: valid for at least `ADDRESS_LEN` bytes; a byte array has no alignment.
    from_bytes(unsafe { &*at.cast() })
}

/// Finds the address of a node (a name or an IPv4 address) and a service (a port number).
pub(crate) fn resolve(node: Option<&str>, service: Option<&str>, numeric: bool) -> Fi<Address> {
    let port = match service {
        Some(service) => service.parse().map_err(|_| EINVAL)?,
        None => 0,
    };
    let ip = match node {
        None => Ipv4Addr::UNSPECIFIED,
        Some(node) => match node.parse() {
            Ok(ip) => ip,
            Err(_) if numeric => return Err(EINVAL),
            Err(_) => look_up(node)?,
        },
    };
    Ok(Address { at: SocketAddrV4::new(ip, port), epoch: Epoch::UNKNOWN })
}

fn look_up(node: &str) -> Fi<Ipv4Addr> {
    (node, 0)
        .to_socket_addrs()
        .ok()
        .and_then(|found| {
            found.into_iter().find_map(|address| match address {
                SocketAddr::V4(v4) => Some(*v4.ip()),
                SocketAddr::V6(_) => None,
            })
        })
        .ok_or(EINVAL)
}

/// An address in the form that libfabric prints: `fi_sockaddr_in://10.0.0.1:4711`.
pub(crate) fn to_text(address: &Address) -> String {
    format!("fi_sockaddr_in://{}", address.at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Address {
        Address {
            at: SocketAddrV4::new(Ipv4Addr::new(10, 1, 2, 3), 0x1234),
            epoch: Epoch(0x0102_0304_0506_0708),
        }
    }

    #[test]
    fn bytes_round_trip() {
        let bytes = to_bytes(&sample());
        assert_eq!(bytes[2..], [0x12, 0x34, 10, 1, 2, 3, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(from_bytes(&bytes), Ok(sample()));
    }

    #[test]
    fn another_family_is_refused() {
        let mut bytes = to_bytes(&sample());
        bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        assert_eq!(from_bytes(&bytes), Err(EINVAL));
    }

    #[test]
    fn short_and_null_are_refused() {
        let bytes = to_bytes(&sample());
        // SAFETY: the pointers are null or to a live array.
        unsafe {
            assert_eq!(read(std::ptr::null(), ADDRESS_LEN), Err(EINVAL));
            assert_eq!(read(bytes.as_ptr().cast(), ADDRESS_LEN - 1), Err(EINVAL));
            assert_eq!(read(bytes.as_ptr().cast(), ADDRESS_LEN), Ok(sample()));
        }
    }

    #[test]
    fn nodes_and_services() {
        let found = resolve(Some("127.0.0.1"), Some("4711"), true).unwrap();
        assert_eq!(found.at, SocketAddrV4::new(Ipv4Addr::LOCALHOST, 4711));
        assert!(!found.epoch.is_known());
        assert_eq!(resolve(Some("localhost"), None, false).unwrap().at.ip(), &Ipv4Addr::LOCALHOST);
        assert_eq!(resolve(Some("localhost"), None, true), Err(EINVAL));
        assert_eq!(resolve(None, Some("no such"), false), Err(EINVAL));
        assert_eq!(resolve(None, Some("65536"), false), Err(EINVAL));
    }

    #[test]
    fn text_names_ip_and_port() {
        assert_eq!(to_text(&sample()), "fi_sockaddr_in://10.1.2.3:4660");
    }
}
