//! Magic packets, on the data network's interface, as a frame of its own kind and as a UDP broadcast.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::network::{self, Cidr, HostAddress};
use wiglaf_cluster::power::Mac;
use wiglaf_helper::SocketKind;

/// The frames' type.
const ETHERTYPE: [u8; 2] = [0x08, 0x42];
/// Discard: where such datagrams go.
const PORT: u16 = 9;
/// Frames are lost, and some cards miss the first while they wake.
const TIMES: usize = 3;
const PAUSE: Duration = Duration::from_millis(100);

/// Sends packets that wake `mac`. Says in which ways they went.
///
/// # Errors
/// When this machine is not in the network, or nothing could be sent.
pub fn wake(mac: Mac, data: Cidr) -> Result<&'static str> {
    let own = network::own_in(data).ok_or_else(|| {
        Error::new(format!(
            "this machine has no address in the data network {data}, where a magic packet would have to go; \
             run the command on a host that has"
        ))
    })?;
    let payload = payload(mac);
    // Bound to the address: so it leaves by that network's interface, and not by the default route.
    let socket = UdpSocket::bind((own.address, 0)).and_then(|s| s.set_broadcast(true).map(|()| s));
    let socket = socket.cannot(|| format!("open a socket on {}", own.address))?;
    let raw = raw_socket(&own, &socket);
    let frame = raw.as_ref().and_then(|_| frame(&own.interface, &payload));
    let to = (broadcast(&own), PORT);
    let (mut by_udp, mut by_frame) = (Ok(0), false);
    for _ in 0..TIMES {
        by_udp = socket.send_to(&payload, to);
        if let (Some(raw), Some(frame)) = (&raw, &frame) {
            by_frame |= rustix::net::send(raw, frame, rustix::net::SendFlags::empty()).is_ok();
        }
        std::thread::sleep(PAUSE);
    }
    match (by_frame, by_udp) {
        (true, _) => Ok("magic packets by Ethernet and UDP"),
        (false, Ok(_)) => Ok("magic packets by UDP only: Ethernet takes root or the helper"),
        (false, Err(error)) => Err(error).cannot(|| format!("send to {}", own.interface)),
    }
}

/// A packet socket on the interface, our own or lent by the helper.
fn raw_socket(own: &HostAddress, udp: &UdpSocket) -> Option<OwnedFd> {
    let std::net::SocketAddr::V4(local) = udp.local_addr().ok()? else { return None };
    let interface = wiglaf_link_udp::interface::holding(own.address).ok()??;
    let opened = wiglaf_link_packet::open_packet_socket(&interface, local).ok();
    opened.or_else(|| wiglaf_helper::ask(SocketKind::Packet, udp).ok())
}

/// The broadcast address of that address's network.
fn broadcast(own: &HostAddress) -> Ipv4Addr {
    let host_bits = u32::MAX.checked_shr(u32::from(own.prefix)).unwrap_or(0);
    Ipv4Addr::from(u32::from(own.address) | host_bits)
}

/// Six bytes of ones, then the address sixteen times.
fn payload(mac: Mac) -> Vec<u8> {
    [0xff; 6].into_iter().chain(mac.0.repeat(16)).collect()
}

/// To everybody, from that interface.
fn frame(interface: &str, payload: &[u8]) -> Option<Vec<u8>> {
    let from = std::fs::read_to_string(format!("/sys/class/net/{interface}/address")).ok()?;
    let from: Mac = from.parse().ok()?;
    Some([&[0xff; 6][..], &from.0, &ETHERTYPE, payload].concat())
}

/// The MAC address of a neighbour that has answered this machine.
pub(crate) fn neighbour(address: Ipv4Addr) -> Option<Mac> {
    let table = std::fs::read_to_string("/proc/net/arp").ok()?;
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [ip, _, _, mac, ..] = fields[..] else { return None };
        (ip.parse() == Ok(address)).then(|| mac.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_packet_is_as_cards_expect_it() {
        let packet = payload("00:1b:21:0a:0b:0c".parse().unwrap());
        assert_eq!(packet.len(), 102);
        assert_eq!(packet[..7], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00]);
        assert_eq!(packet[96..], [0x00, 0x1b, 0x21, 0x0a, 0x0b, 0x0c]);
    }

    #[test]
    fn broadcast_is_the_networks_last_address() {
        let own = |address: &str, prefix| HostAddress {
            interface: "eth0".to_owned(),
            address: address.parse().unwrap(),
            prefix,
            mtu: 1500,
        };
        assert_eq!(broadcast(&own("192.168.77.3", 24)), Ipv4Addr::new(192, 168, 77, 255));
        assert_eq!(broadcast(&own("10.1.2.3", 9)), Ipv4Addr::new(10, 127, 255, 255));
        assert_eq!(broadcast(&own("10.1.2.3", 32)), Ipv4Addr::new(10, 1, 2, 3));
    }
}
