//! Ethernet, IPv4 and UDP around a datagram, right or deliberately wrong.

use wiglaf_wire::{HEADER_LEN, KIND_ENCRYPTED, MAGIC};

pub(crate) const ETHERNET_LEN: usize = 14;
pub(crate) const IP_LEN: usize = 20;
/// Ethernet, IPv4 without options, UDP.
pub(crate) const HEADERS_LEN: usize = ETHERNET_LEN + IP_LEN + 8;

/// A frame that carried a datagram of Wiglaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded(pub(crate) Vec<u8>);

impl Recorded {
    /// Takes a frame, if it is one.
    #[must_use]
    pub fn new(frame: Vec<u8>) -> Option<Self> {
        let is_ours = frame.len() >= HEADERS_LEN + HEADER_LEN && frame[HEADERS_LEN] == MAGIC;
        is_ours.then_some(Self(frame))
    }

    /// Whether it went to that address.
    #[must_use]
    pub fn is_to(&self, to: std::net::Ipv4Addr) -> bool {
        self.0[ETHERNET_LEN + 16..ETHERNET_LEN + IP_LEN] == to.octets()
    }

    /// The datagram in it.
    pub(crate) fn datagram(&self) -> &[u8] {
        &self.0[HEADERS_LEN..]
    }

    /// The CRC-32C of its body, as its header has it.
    pub(crate) fn checksum(&self) -> u32 {
        let datagram = self.datagram();
        u32::from_le_bytes([datagram[4], datagram[5], datagram[6], datagram[7]])
    }

    /// A frame from its sender to its receiver with `datagram` in place of its own. It arrives whatever is in that: all
    /// lengths and checksums of the headers in front are right.
    pub(crate) fn with(&self, datagram: &[u8]) -> Vec<u8> {
        let mut frame = self.0[..HEADERS_LEN].to_vec();
        frame.extend_from_slice(datagram);
        mend(&mut frame);
        frame
    }

    /// From whom to whom, with what kind of datagram: frames that agree in it are much alike.
    pub(crate) fn class(&self) -> ([u8; 8], u8, u8) {
        let mut ends = [0; 8];
        ends.copy_from_slice(&self.0[ETHERNET_LEN + 12..ETHERNET_LEN + IP_LEN]);
        let datagram = self.datagram();
        let kind = datagram[2];
        // The body of an encrypted one says nothing.
        let is_plain = kind & KIND_ENCRYPTED == 0;
        let first = datagram.get(HEADER_LEN).copied().filter(|_| is_plain);
        (ends, kind, first.unwrap_or(0))
    }
}

/// Makes lengths and sums agree with what the frame holds. UDP's own sum is left out.
pub(crate) fn mend(frame: &mut [u8]) {
    let ip_len = (frame.len() - ETHERNET_LEN) as u16;
    frame[16..18].copy_from_slice(&ip_len.to_be_bytes());
    frame[38..40].copy_from_slice(&(ip_len - IP_LEN as u16).to_be_bytes());
    frame[40..42].fill(0);
    mend_ip_sum(frame);
}

/// Makes the sum of the IP header right.
pub(crate) fn mend_ip_sum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum = internet_sum(&frame[ETHERNET_LEN..ETHERNET_LEN + IP_LEN]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// The Internet checksum (RFC 1071) of an even number of bytes.
pub(crate) fn internet_sum(bytes: &[u8]) -> u16 {
    let words = bytes.as_chunks::<2>().0.iter().map(|w| u32::from(u16::from_be_bytes(*w)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The frame as one to the discard port (9): it costs the sender and the wire the same, and the
/// job nothing.
#[must_use]
pub fn decoy(frame: &[u8]) -> Vec<u8> {
    let mut other = frame.to_vec();
    if let Some(port) = other.get_mut(36..38) {
        port.copy_from_slice(&9_u16.to_be_bytes());
    }
    other
}
