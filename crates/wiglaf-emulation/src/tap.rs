//! Taps on the emulated wire: they see every frame that a node puts on it,
//! whichever way past its own IP stack it took.
//!
//! A tap listens where frames leave the node's cable: on the switch's ports,
//! or, with a direct wire, on the other node's interface. A node's own
//! interface would not do: frames that are sent past its queueing discipline
//! pass by whoever listens there.

mod blocks;

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use blocks::Blocks;
use wiglaf_base::error::{Error, Result};
use wiglaf_cluster::shape::INTERFACE;
use wiglaf_cluster::state::Record;

use crate::wire;

/// Ethernet, IPv4 without options, UDP.
const HEADERS_LEN: usize = 14 + 20 + 8;

/// What the kernel says about a frame that is still to be cut or summed
/// (`struct virtio_net_hdr`).
pub(crate) const OFFLOAD_LEN: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const GSO_UDP_L4: u8 = 5;

/// One tap.
#[derive(Debug)]
pub struct Tap {
    /// The node whose sending it sees.
    pub node: String,
    blocks: Blocks,
}

/// Opens a tap for every node, for UDP datagrams whose payload begins with
/// `first` bytes. Only root can.
///
/// # Errors
/// When the cluster is not up, or this is not permitted.
pub fn open_all(record: &Record, first: [u8; 2]) -> Result<Vec<Tap>> {
    let names: Vec<&String> = record.shape.nodes.iter().map(|node| &node.name).collect();
    let places: Vec<_> = match record.switch {
        Some(switch) => (0..names.len()).map(|i| (switch, wire::port(i))).collect(),
        // What one sends arrives at the other.
        None => record.nodes.iter().rev().map(|node| (*node, INTERFACE.to_owned())).collect(),
    };
    let taps = names.into_iter().zip(places).map(|(name, (process, interface))| {
        let opened = wire::inside(process, || open(&interface, first))?;
        let blocks = opened.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                Error::new("only root can listen to the wire; run it with sudo")
            }
            _ => Error::new(format!("cannot listen to the wire of {name}: {error}")),
        })?;
        Ok(Tap { node: name.clone(), blocks })
    });
    taps.collect()
}

fn open(interface: &str, first: [u8; 2]) -> io::Result<Blocks> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers are involved.
    let raw = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nothing else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    let name = std::ffi::CString::new(interface)?;
    // SAFETY: the name is live and ends with a zero.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    // Unfragmented UDP/IPv4 without options, whose payload begins so.
    let step = |code: u16, k: u32, jf: u8| libc::sock_filter { code, jt: 0, jf, k };
    let program = [
        step(0x28, 12, 0),
        step(0x15, 0x0800, 7),
        step(0x30, 14, 0),
        step(0x15, 0x45, 5),
        step(0x30, 23, 0),
        step(0x15, 17, 3),
        step(0x28, HEADERS_LEN as u32, 0),
        step(0x15, u16::from_be_bytes(first).into(), 1),
        step(0x06, u32::MAX, 0),
        step(0x06, 0, 0),
    ];
    let filter =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    set(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)?;
    set(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
    // Each frame once: where it leaves the cable of its sender.
    set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
    let blocks = Blocks::new(socket)?;
    // SAFETY: all-zero bytes are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = i32::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the address is live and of the stated length.
    let status = unsafe {
        libc::bind(
            blocks.as_fd().as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(blocks) } else { Err(io::Error::last_os_error()) }
}

fn set<T>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: pointer and length are those of a live value, which the kernel
    // only reads; a filter's program lives as long as the value.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const *value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Tap {
    /// What has come next: when, in nanoseconds of Unix time, and the frames,
    /// more than one for a train. `None` when nothing waits.
    pub fn receive(&mut self) -> Option<(u64, Vec<Vec<u8>>)> {
        self.blocks.next(|at_ns, offload, frame| (at_ns, datagrams(offload, frame)))
    }

    /// Frames that found no room here and were not seen.
    #[must_use]
    pub fn missed(&self) -> u64 {
        let mut stats = [0_u32; 2];
        let mut len = size_of_val(&stats) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes of integers.
        let status = unsafe {
            libc::getsockopt(
                self.blocks.as_fd().as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                stats.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if status == 0 { stats[1].into() } else { 0 }
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.blocks.as_fd()
    }
}

/// The datagrams of a frame, as a card would put them on the wire: a train is
/// cut, and a UDP checksum that nobody has computed yet is left out.
pub(crate) fn datagrams(offload: &[u8], frame: &[u8]) -> Vec<Vec<u8>> {
    let &[flags, gso, _, _, size_low, size_high, ..] = offload else { return Vec::new() };
    let Some((headers, payload)) = frame.split_at_checked(HEADERS_LEN) else { return Vec::new() };
    let size = usize::from(u16::from_ne_bytes([size_low, size_high]));
    if gso & 0x7f != GSO_UDP_L4 || size == 0 {
        let mut whole = frame.to_vec();
        if flags & NEEDS_CHECKSUM != 0 {
            whole[40..42].fill(0);
        }
        return vec![whole];
    }
    let id = u16::from_be_bytes([headers[18], headers[19]]);
    let cut = |(number, piece): (usize, &[u8])| {
        let mut datagram = headers.to_vec();
        datagram[16..18].copy_from_slice(&((28 + piece.len()) as u16).to_be_bytes());
        datagram[18..20].copy_from_slice(&id.wrapping_add(number as u16).to_be_bytes());
        datagram[24..26].fill(0);
        let sum = ip_checksum(&datagram[14..34]);
        datagram[24..26].copy_from_slice(&sum.to_be_bytes());
        datagram[38..40].copy_from_slice(&((8 + piece.len()) as u16).to_be_bytes());
        datagram[40..42].fill(0);
        datagram.extend_from_slice(piece);
        datagram
    };
    payload.chunks(size).enumerate().map(cut).collect()
}

/// The Internet checksum (RFC 1071).
fn ip_checksum(header: &[u8]) -> u16 {
    let words = header.as_chunks::<2>().0.iter().map(|w| u32::from(u16::from_be_bytes(*w)));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; HEADERS_LEN];
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[18..20].copy_from_slice(&[0, 255]);
        frame[23] = 17;
        frame[40..42].copy_from_slice(&[1, 2]);
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn a_train_is_cut_into_the_datagrams_of_the_wire() {
        let mut offload = [0; OFFLOAD_LEN];
        offload[1] = GSO_UDP_L4;
        offload[4..6].copy_from_slice(&4_u16.to_ne_bytes());
        let cut = datagrams(&offload, &frame(b"abcdefghij"));
        let payloads: Vec<&[u8]> = cut.iter().map(|d| &d[HEADERS_LEN..]).collect();
        assert_eq!(payloads, [&b"abcd"[..], b"efgh", b"ij"]);
        for (number, datagram) in cut.iter().enumerate() {
            assert_eq!(ip_checksum(&datagram[14..34]), 0, "the header's sum is right");
            let len = u16::from_be_bytes([datagram[16], datagram[17]]) as usize;
            assert_eq!(14 + len, datagram.len());
            let id = u16::from_be_bytes([datagram[18], datagram[19]]) as usize;
            assert_eq!(id, 255 + number);
        }
    }

    #[test]
    fn a_checksum_that_nobody_computed_is_left_out() {
        let mut offload = [0; OFFLOAD_LEN];
        assert_eq!(datagrams(&offload, &frame(b"abc"))[0], frame(b"abc"));
        offload[0] = NEEDS_CHECKSUM;
        assert_eq!(datagrams(&offload, &frame(b"abc"))[0][40..42], [0, 0]);
        assert!(datagrams(&offload, b"short").is_empty() && datagrams(&[], b"").is_empty());
    }
}
