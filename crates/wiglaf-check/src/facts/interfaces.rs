//! Network interfaces, the ways to the peers, and what was lost on either.

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use serde::{Deserialize, Serialize};
use wiglaf_link_udp::interface::driver;
use wiglaf_netlink::{Ethtool, Message, Netlink, attribute, push, text, u32_at, u64_at};

use super::ethtool::{self, Card};
use crate::known::Known;

// Numbers of linux/rtnetlink.h and linux/if_link.h.
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
const GET_ROUTE: u16 = 26;
const AF_INET: u8 = 2;

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its IPv4 addresses with the length of their network's prefix.
    pub addresses: Vec<(Ipv4Addr, u8)>,
    /// Longest IP packet, in bytes.
    pub mtu: u32,
    /// Administratively up.
    pub is_up: bool,
    /// The loopback interface.
    pub is_loopback: bool,
    /// Whether a cable is in, where the driver tells.
    pub carrier: Option<bool>,
    /// What makes it: `veth`, `bridge`, `bond`, `wireguard`; `None` for a card.
    pub kind: Option<String>,
    /// The driver's name.
    pub driver: Option<String>,
    /// Wi-Fi.
    pub is_wireless: bool,
    /// Nothing of metal: docker's and libvirt's bridges, tunnels.
    pub is_virtual: bool,
    /// What the card is set to.
    pub card: Card,
    /// What it has counted.
    pub counts: Counts,
}

/// What an interface has counted since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Frames that arrived.
    pub rx_packets: u64,
    /// Frames that were sent.
    pub tx_packets: u64,
    /// Arrivals that were damaged.
    pub rx_errors: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
    /// Arrivals that the host had no room for.
    pub rx_dropped: u64,
    /// Departures that the host had no room for.
    pub tx_dropped: u64,
    /// Overflows of the card's ring.
    pub rx_overruns: u64,
    /// Arrivals with a wrong checksum: a bad cable.
    pub rx_crc_errors: u64,
    /// Arrivals that the card had no room for.
    pub rx_missed: u64,
}

impl Counts {
    /// What has been counted since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less = |now: u64, before: u64| now.saturating_sub(before);
        Self {
            rx_packets: less(self.rx_packets, before.rx_packets),
            tx_packets: less(self.tx_packets, before.tx_packets),
            rx_errors: less(self.rx_errors, before.rx_errors),
            tx_errors: less(self.tx_errors, before.tx_errors),
            rx_dropped: less(self.rx_dropped, before.rx_dropped),
            tx_dropped: less(self.tx_dropped, before.tx_dropped),
            rx_overruns: less(self.rx_overruns, before.rx_overruns),
            rx_crc_errors: less(self.rx_crc_errors, before.rx_crc_errors),
            rx_missed: less(self.rx_missed, before.rx_missed),
        }
    }
}

/// The way to a peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Its address.
    pub to: Ipv4Addr,
    /// The interface by which datagrams leave.
    pub interface: Known<String>,
    /// The address that they leave from.
    pub source: Option<Ipv4Addr>,
    /// The router in between; neighbours need none.
    pub gateway: Option<Ipv4Addr>,
}

/// All interfaces of this network namespace.
pub(super) fn all() -> io::Result<Vec<Interface>> {
    let mut netlink = Netlink::route()?;
    let links = netlink.dump(GET_LINK, &[0; 16])?;
    let addresses = netlink.dump(GET_ADDRESS, &[AF_INET, 0, 0, 0, 0, 0, 0, 0])?;
    let mut ethtool = Ethtool::open();
    let mut found: Vec<Interface> = links.iter().filter_map(interface).collect();
    for interface in &mut found {
        let own =
            addresses.iter().filter_map(address).filter(|(index, ..)| *index == interface.index);
        interface.addresses = own.map(|(_, ip, prefix)| (ip, prefix)).collect();
        if interface.is_loopback {
            continue;
        }
        interface.driver = driver(&interface.name);
        (interface.is_wireless, interface.is_virtual) = nature(interface);
        // Those without an address carry no job, or are part of one that has it.
        if let (Ok(ethtool), false) = (&mut ethtool, interface.addresses.is_empty()) {
            interface.card = ethtool::card(ethtool, interface.index);
        }
    }
    Ok(found)
}

/// What the interface that holds `ip` has counted so far.
///
/// # Errors
/// When the kernel does not tell, or none holds it.
pub fn device_counts(ip: Ipv4Addr) -> io::Result<Counts> {
    let mut netlink = Netlink::route()?;
    let addresses = netlink.dump(GET_ADDRESS, &[AF_INET, 0, 0, 0, 0, 0, 0, 0])?;
    let at = addresses.iter().filter_map(address).find(|(_, own, _)| *own == ip);
    let (index, ..) = at.ok_or(io::ErrorKind::AddrNotAvailable)?;
    let links = netlink.dump(GET_LINK, &[0; 16])?;
    let link = links.iter().filter_map(interface).find(|interface| interface.index == index);
    Ok(link.ok_or(io::ErrorKind::AddrNotAvailable)?.counts)
}

/// The way to each of these addresses.
pub(super) fn routes(to: impl Iterator<Item = Ipv4Addr>) -> Vec<Route> {
    let mut netlink = Netlink::route().map_err(|why| why.to_string());
    let mut names: Option<Vec<(u32, String)>> = None;
    let mut routes = Vec::new();
    for to in to {
        let mut route = Route { to, interface: Known::default(), source: None, gateway: None };
        let found = netlink.as_mut().map_err(|why| why.clone()).and_then(|netlink| {
            let names = names.get_or_insert_with(|| {
                let links = netlink.dump(GET_LINK, &[0; 16]).unwrap_or_default();
                links.iter().filter_map(interface).map(|i| (i.index, i.name)).collect()
            });
            look_up(netlink, to, names, &mut route)
        });
        route.interface = found.into();
        routes.push(route);
    }
    routes
}

fn look_up(
    netlink: &mut Netlink,
    to: Ipv4Addr,
    names: &[(u32, String)],
    route: &mut Route,
) -> Result<String, String> {
    /// `RTA_DST`, `RTA_OIF`, `RTA_GATEWAY` and `RTA_PREFSRC`.
    const DESTINATION: u16 = 1;
    const OUT: u16 = 4;
    const GATEWAY: u16 = 5;
    const SOURCE: u16 = 7;
    /// `sizeof(struct rtmsg)`.
    const HEADER_LEN: usize = 12;
    let mut body = vec![0; HEADER_LEN];
    body[0] = AF_INET;
    body[1] = 32;
    push(&mut body, DESTINATION, &to.octets());
    let answer = netlink.ask(GET_ROUTE, &body).map_err(|why| match why.raw_os_error() {
        Some(code) if code == rustix::io::Errno::NETUNREACH.raw_os_error() => {
            format!("there is no route to {to}")
        }
        _ => why.to_string(),
    })?;
    let attributes = answer.body.get(HEADER_LEN..).unwrap_or_default();
    let ip = |number| {
        let octets: [u8; 4] = attribute(attributes, number)?.try_into().ok()?;
        Some(Ipv4Addr::from(octets))
    };
    (route.source, route.gateway) = (ip(SOURCE), ip(GATEWAY));
    let index = attribute(attributes, OUT).and_then(|value| u32_at(value, 0));
    let name = names.iter().find(|(own, _)| Some(*own) == index).map(|(_, name)| name.clone());
    name.ok_or_else(|| format!("there is no route to {to}"))
}

fn interface(message: &Message) -> Option<Interface> {
    /// `sizeof(struct ifinfomsg)`.
    const HEADER_LEN: usize = 16;
    /// `IFF_UP` and `IFF_LOOPBACK`.
    const UP: u32 = 1;
    const LOOPBACK: u32 = 8;
    /// `IFLA_IFNAME`, `_MTU`, `_LINKINFO` with `IFLA_INFO_KIND`, `_STATS64` and `_CARRIER`.
    const NAME: u16 = 3;
    const MTU: u16 = 4;
    const INFO: u16 = 18;
    const KIND: u16 = 1;
    const STATS: u16 = 23;
    const CARRIER: u16 = 33;
    if message.kind != NEW_LINK {
        return None;
    }
    let flags = u32_at(&message.body, 8)?;
    let attributes = message.body.get(HEADER_LEN..)?;
    let stats = attribute(attributes, STATS).unwrap_or_default();
    let count = |number: usize| u64_at(stats, 8 * number).unwrap_or(0);
    let carrier = attribute(attributes, CARRIER).and_then(|value| value.first().copied());
    Some(Interface {
        name: attribute(attributes, NAME).map(text)?,
        index: u32_at(&message.body, 4)?,
        mtu: attribute(attributes, MTU).and_then(|value| u32_at(value, 0))?,
        is_up: flags & UP != 0,
        is_loopback: flags & LOOPBACK != 0,
        carrier: carrier.map(|carrier| carrier == 1).filter(|_| flags & UP != 0),
        kind: attribute(attributes, INFO).and_then(|info| attribute(info, KIND)).map(text),
        counts: Counts {
            rx_packets: count(0),
            tx_packets: count(1),
            rx_errors: count(4),
            tx_errors: count(5),
            rx_dropped: count(6),
            tx_dropped: count(7),
            rx_overruns: count(11) + count(14),
            rx_crc_errors: count(12),
            rx_missed: count(15),
        },
        ..Interface::default()
    })
}

fn address(message: &Message) -> Option<(u32, Ipv4Addr, u8)> {
    /// `sizeof(struct ifaddrmsg)`, `IFA_ADDRESS` and `IFA_LOCAL`: with a peer's address
    /// the former is the peer's.
    const HEADER_LEN: usize = 8;
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    if message.kind != NEW_ADDRESS || message.body.first() != Some(&AF_INET) {
        return None;
    }
    let attributes = message.body.get(HEADER_LEN..)?;
    let own = attribute(attributes, LOCAL).or_else(|| attribute(attributes, ADDRESS))?;
    let octets: [u8; 4] = own.try_into().ok()?;
    Some((u32_at(&message.body, 4)?, Ipv4Addr::from(octets), *message.body.get(1)?))
}

/// Whether it is Wi-Fi, and whether it is nothing of metal.
fn nature(interface: &Interface) -> (bool, bool) {
    let folder = Path::new("/sys/class/net").join(&interface.name);
    // sysfs may have been mounted for another network namespace.
    let index = std::fs::read_to_string(folder.join("ifindex"));
    let is_ours = index.is_ok_and(|index| index.trim() == interface.index.to_string());
    if !is_ours {
        return (false, interface.kind.is_some());
    }
    let is_wireless = folder.join("phy80211").exists() || folder.join("wireless").exists();
    let target = std::fs::read_link(&folder).unwrap_or_default();
    let is_virtual = target.components().any(|part| part.as_os_str() == "virtual");
    (is_wireless, is_virtual || interface.kind.is_some())
}
