//! What an interface's driver can do with XDP, without trying: attaching a
//! program makes some drivers take the link down for a moment.
//!
//! Asked of the kernel's `netdev` family over generic netlink
//! (Documentation/netlink/specs/netdev.yaml, Linux 6.3).

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

const HEADER_LEN: usize = 16;
const GENERIC_HEADER_LEN: usize = 4;
const ATTRIBUTE_HEADER_LEN: usize = 4;

const REQUEST: u16 = 1;
const ERROR: u16 = 2;

/// The family of families, its question, and the attributes in use.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const DEV_GET: u8 = 1;
const DEV_IFINDEX: u16 = 1;
const DEV_XDP_FEATURES: u16 = 3;

const XSK_ZEROCOPY: u64 = 1 << 3;

/// Whether the driver says that AF_XDP sockets need no copy.
pub(crate) fn has_zero_copy(interface: u32) -> bool {
    features(interface).is_ok_and(|features| features & XSK_ZEROCOPY != 0)
}

fn features(interface: u32) -> io::Result<u64> {
    let kind = SocketType::RAW;
    let socket =
        socket_with(AddressFamily::NETLINK, kind, SocketFlags::CLOEXEC, Some(netlink::GENERIC))?;
    let family = ask(&socket, CONTROL, GET_FAMILY, FAMILY_NAME, b"netdev\0")?;
    let family = attribute(&family, FAMILY_ID).and_then(|bytes| bytes.try_into().ok());
    let family = u16::from_ne_bytes(family.ok_or(io::ErrorKind::InvalidData)?);
    let device = ask(&socket, family, DEV_GET, DEV_IFINDEX, &interface.to_ne_bytes())?;
    let features = attribute(&device, DEV_XDP_FEATURES).and_then(|bytes| bytes.try_into().ok());
    Ok(u64::from_ne_bytes(features.ok_or(io::ErrorKind::InvalidData)?))
}

/// Asks a question with one attribute; the attributes of the answer.
fn ask(socket: &OwnedFd, family: u16, command: u8, name: u16, value: &[u8]) -> io::Result<Vec<u8>> {
    let attribute_len = ATTRIBUTE_HEADER_LEN + value.len();
    let mut request = Vec::new();
    request.extend(((HEADER_LEN + GENERIC_HEADER_LEN + attribute_len) as u32).to_ne_bytes());
    request.extend(family.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    // Sequence number and sender: there is one question at a time.
    request.extend([0; 8]);
    request.extend([command, 1, 0, 0]);
    request.extend((attribute_len as u16).to_ne_bytes());
    request.extend(name.to_ne_bytes());
    request.extend(value);
    send(socket, &request, SendFlags::empty())?;
    let mut answer = vec![0; 1 << 14];
    let (len, _) = recv(socket, &mut answer[..], RecvFlags::empty())?;
    answer.truncate(len);
    let is_error = answer.get(4..6) == Some(&ERROR.to_ne_bytes()[..]);
    if is_error || len < HEADER_LEN + GENERIC_HEADER_LEN {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(answer.split_off(HEADER_LEN + GENERIC_HEADER_LEN))
}

fn attribute(mut attributes: &[u8], name: u16) -> Option<&[u8]> {
    loop {
        let (header, _) = attributes.split_at_checked(ATTRIBUTE_HEADER_LEN)?;
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = attributes.get(ATTRIBUTE_HEADER_LEN..len)?;
        if u16::from_ne_bytes([header[2], header[3]]) == name {
            return Some(value);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers_for_the_loopback() {
        // Index 1 in every namespace; kernels before 6.3 have no such family.
        match features(1) {
            Ok(features) => assert_eq!(features & XSK_ZEROCOPY, 0),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported),
        }
    }

    #[test]
    fn an_absent_interface_has_no_features() {
        assert!(features(u32::MAX >> 1).is_err());
        assert!(!has_zero_copy(u32::MAX >> 1));
    }

    #[test]
    fn attributes_are_found_and_never_read_beyond() {
        let attributes = [6, 0, 1, 0, 7, 8, 0, 0, 5, 0, 2, 0, 9, 0, 0, 0];
        assert_eq!(attribute(&attributes, 1), Some(&[7, 8][..]));
        assert_eq!(attribute(&attributes, 2), Some(&[9][..]));
        assert_eq!(attribute(&attributes, 3), None);
        assert_eq!(attribute(&[200, 0, 1, 0], 1), None);
        assert_eq!(attribute(&[0, 0, 1, 0], 2), None);
    }
}
