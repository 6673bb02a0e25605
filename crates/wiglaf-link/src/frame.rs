//! Ethernet, IPv4 and UDP headers of one datagram: written by the sender,
//! taken apart by the receiver, which trusts none of them. For links past the
//! IP stack and for recordings.

use std::net::{Ipv4Addr, SocketAddrV4};

/// The Ethernet header, in bytes.
pub const ETHERNET_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const UDP_LEN: usize = 8;

/// All headers of a datagram, in bytes.
pub const HEADERS_LEN: usize = ETHERNET_LEN + IPV4_LEN + UDP_LEN;

/// Where the UDP header begins in a frame.
pub const UDP_AT: usize = ETHERNET_LEN + IPV4_LEN;
const UDP_LEN_AT: usize = UDP_AT + 4;
const UDP_CHECKSUM_AT: usize = UDP_AT + 6;

/// What an Ethernet header calls IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// First byte of an IPv4 header of the shortest length.
pub const VERSION_4_NO_OPTIONS: u8 = 0x45;
const DONT_FRAGMENT: u16 = 0x4000;
/// More fragments, or an offset other than 0.
pub const FRAGMENT_MASK: u16 = 0x3fff;
const TTL: u8 = 64;
/// What an IPv4 header calls UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// Why a frame was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Ends inside one of its headers, or before the length they state.
    Truncated,
    /// Not an unfragmented UDP/IPv4 datagram.
    Protocol,
    /// For another address or port.
    Destination,
    /// The IPv4 header does not add up.
    HeaderChecksum,
}

/// The two ends of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// Ethernet address of the sender.
    pub from_mac: [u8; 6],
    /// Ethernet address of the receiver, or of the next hop.
    pub to_mac: [u8; 6],
    /// IPv4 address and UDP port of the sender.
    pub from: SocketAddrV4,
    /// IPv4 address and UDP port of the receiver.
    pub to: SocketAddrV4,
}

/// The headers of a datagram whose payload has `payload_len` bytes. Its UDP
/// checksum is "none", as IPv4 allows: the payload carries its own.
///
/// `None` when the payload does not fit an IPv4 packet.
#[must_use]
pub fn headers(ends: &Ends, payload_len: usize) -> Option<[u8; HEADERS_LEN]> {
    let udp_len = u16::try_from(UDP_LEN + payload_len).ok()?;
    let ip_len = udp_len.checked_add(IPV4_LEN as u16)?;
    let mut bytes = [0; HEADERS_LEN];
    bytes[0..6].copy_from_slice(&ends.to_mac);
    bytes[6..12].copy_from_slice(&ends.from_mac);
    bytes[12..14].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
    let ip = &mut bytes[ETHERNET_LEN..ETHERNET_LEN + IPV4_LEN];
    ip[0] = VERSION_4_NO_OPTIONS;
    ip[2..4].copy_from_slice(&ip_len.to_be_bytes());
    // Unfragmented and not to be fragmented: the identification may be 0.
    ip[6..8].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
    ip[8] = TTL;
    ip[9] = PROTOCOL_UDP;
    ip[12..16].copy_from_slice(&ends.from.ip().octets());
    ip[16..20].copy_from_slice(&ends.to.ip().octets());
    let checksum = !sum(ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let udp = &mut bytes[ETHERNET_LEN + IPV4_LEN..];
    udp[0..2].copy_from_slice(&ends.from.port().to_be_bytes());
    udp[2..4].copy_from_slice(&ends.to.port().to_be_bytes());
    udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
    Some(bytes)
}

/// The headers of a GSO batch, which the network interface, or the kernel before it, cuts into datagrams: it completes
/// their UDP checksums, and so wants the sum of the pseudo-header (RFC 768).
///
/// `None` when the payloads do not fit an IPv4 packet together.
#[must_use]
pub fn headers_of_train(ends: &Ends, payload_len: usize) -> Option<[u8; HEADERS_LEN]> {
    let mut bytes = headers(ends, payload_len)?;
    let mut pseudo = [0; 12];
    pseudo[0..8].copy_from_slice(&bytes[26..34]);
    pseudo[9] = PROTOCOL_UDP;
    pseudo[10..12].copy_from_slice(&bytes[UDP_LEN_AT..UDP_LEN_AT + 2]);
    bytes[UDP_CHECKSUM_AT..].copy_from_slice(&sum(&pseudo).to_be_bytes());
    Some(bytes)
}

/// The source and the payload of a frame that is for `local`.
///
/// # Errors
/// What keeps the frame from being one for `local`.
pub fn parse(frame: &[u8], local: SocketAddrV4) -> Result<(SocketAddrV4, &[u8]), Malformed> {
    let (ethernet, packet) = split(frame, ETHERNET_LEN)?;
    if be16(ethernet, 12) != ETHERTYPE_IPV4 {
        return Err(Malformed::Protocol);
    }
    let (fixed, _) = split(packet, IPV4_LEN)?;
    let header_len = usize::from(fixed[0] & 0x0f) * 4;
    let is_udp = fixed[0] >> 4 == 4 && header_len >= IPV4_LEN && fixed[9] == PROTOCOL_UDP;
    if !is_udp || be16(fixed, 6) & FRAGMENT_MASK != 0 {
        return Err(Malformed::Protocol);
    }
    // Short frames are padded, so the packet may end before the frame does.
    let (packet, _padding) = split(packet, usize::from(be16(fixed, 2)))?;
    let (ip, datagram) = split(packet, header_len)?;
    if sum(ip) != 0xffff {
        return Err(Malformed::HeaderChecksum);
    }
    let (udp, _) = split(datagram, UDP_LEN)?;
    if ip_at(ip, 16) != *local.ip() || be16(udp, 2) != local.port() {
        return Err(Malformed::Destination);
    }
    let (datagram, _) = split(datagram, usize::from(be16(udp, 4)))?;
    let (_, payload) = split(datagram, UDP_LEN)?;
    Ok((SocketAddrV4::new(ip_at(ip, 12), be16(udp, 0)), payload))
}

fn split(bytes: &[u8], len: usize) -> Result<(&[u8], &[u8]), Malformed> {
    bytes.split_at_checked(len).ok_or(Malformed::Truncated)
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn ip_at(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
}

/// The Internet checksum's folded one's-complement sum (RFC 1071); 0xffff over a header
/// that holds its own checksum. `bytes` has even length.
#[must_use]
pub fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut total: u32 = words.sum();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn ends() -> Ends {
        Ends {
            from_mac: [2, 0, 0, 0, 0, 1],
            to_mac: [2, 0, 0, 0, 0, 2],
            from: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 4000),
            to: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 5000),
        }
    }

    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut frame = headers(&ends(), payload.len()).expect("it fits").to_vec();
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn checksum_agrees_with_a_worked_example() {
        // RFC 1071 §3.
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    /// As an interface completes it: the sum over all of it, from the UDP header on, is put in place
    /// of that of the pseudo-header, which it began with.
    #[test]
    fn the_checksum_of_a_train_can_be_completed() {
        let mut frame = headers_of_train(&ends(), 6).expect("it fits").to_vec();
        frame.extend_from_slice(b"wiglaf");
        let checksum = !sum(&frame[UDP_AT..]);
        frame[UDP_CHECKSUM_AT..UDP_CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
        // RFC 768: addresses, 0 and protocol, length, and then the datagram.
        let mut whole = [&[10, 0, 0, 1], &[10, 0, 0, 2], &[0, 17, 0, 14][..]].concat();
        whole.extend_from_slice(&frame[UDP_AT..]);
        assert_eq!(sum(&whole), 0xffff);
        assert_eq!(parse(&frame, ends().to), Ok((ends().from, b"wiglaf".as_slice())));
    }

    #[test]
    fn each_lie_is_refused() {
        let good = frame(b"payload");
        assert_eq!(parse(&good, ends().to), Ok((ends().from, b"payload".as_slice())));
        let lies: [(usize, u8, Malformed); 9] = [
            (12, 0x86, Malformed::Protocol),
            (14, 0x65, Malformed::Protocol),
            (14, 0x44, Malformed::Protocol),
            (14, 0x4f, Malformed::Truncated),
            (17, 0xff, Malformed::Truncated),
            (20, 0x20, Malformed::Protocol),
            (23, 6, Malformed::Protocol),
            (26, 11, Malformed::HeaderChecksum),
            (37, 0, Malformed::Destination),
        ];
        for (at, value, expected) in lies {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(parse(&bad, ends().to), Err(expected), "byte {at} = {value:#04x}");
        }
        for (at, value) in [(38, 1), (39, 7)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(parse(&bad, ends().to), Err(Malformed::Truncated), "UDP length");
        }
        assert!(headers(&ends(), 65_508).is_none());
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(payload in vec(any::<u8>(), 0..2000), padding in 0usize..50) {
            let mut bytes = frame(&payload);
            bytes.resize(bytes.len() + padding, 0xaa);
            prop_assert_eq!(parse(&bytes, ends().to), Ok((ends().from, payload.as_slice())));
        }

        #[test]
        fn noise_never_panics(bytes in vec(any::<u8>(), 0..120)) {
            let _ = parse(&bytes, ends().to);
        }

        #[test]
        fn damage_never_panics_nor_reaches_beyond_the_frame(
            flips in vec((0usize..60, any::<u8>()), 1..4),
            cut in 0usize..60,
        ) {
            let mut bytes = frame(&[7; 18]);
            for (at, mask) in flips {
                bytes[at] ^= mask;
            }
            bytes.truncate(cut);
            if let Ok((_, payload)) = parse(&bytes, ends().to) {
                prop_assert!(payload.len() + HEADERS_LEN <= cut);
            }
        }
    }
}
