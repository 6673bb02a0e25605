//! Which links an endpoint gets.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use wiglaf_endpoint::{FRAME_LEN_MIN, LinkKind};
use wiglaf_helper::{AskError, Refusal, SocketKind};
use wiglaf_link::{Link, Ports};
use wiglaf_link_packet::{OpenError as PacketError, PacketLink};
use wiglaf_link_shm::ShmLink;
use wiglaf_link_udp::{BulkSocket, FrameSocket, Interface, Network, Place, UdpLink, interface};
use wiglaf_link_xdp::{Mode, OpenError as XdpError, XdpLink};

use crate::remembered;

/// The links of an endpoint.
pub struct Opened {
    /// The one between nodes.
    pub net: Option<Box<dyn Link>>,
    /// The one within the node.
    pub shm: Option<Box<dyn Link>>,
    /// Why it is not quite what was asked for: one sentence.
    pub note: Option<String>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = |link: &Option<Box<dyn Link>>| link.as_ref().map(Link::name);
        f.debug_struct("Opened")
            .field("net", &name(&self.net))
            .field("shm", &name(&self.shm))
            .finish()
    }
}

/// Why an endpoint has no links.
#[derive(Debug)]
pub enum OpenError {
    /// The kernel does not list its interfaces.
    Interfaces(io::Error),
    /// The address is on no interface of this machine.
    AddressNotHere {
        /// The address that was asked for.
        ip: Ipv4Addr,
        /// Those that there are.
        present: Vec<Ipv4Addr>,
    },
    /// Another process has the port.
    PortInUse(SocketAddrV4),
    /// Other processes have all ports of the range.
    PortsInUse(Ipv4Addr, Ports),
    /// The port may not be had for another reason.
    Bind(SocketAddrV4, io::Error),
    /// The packet or xdp link was asked for on an address that is not on Ethernet.
    NotEthernet(&'static str, Ipv4Addr),
    /// The packet link takes a privilege that this process lacks, and the
    /// helper did not lend it.
    PacketNotPermitted(AskError),
    /// The packet link failed for another reason.
    Packet(io::Error),
    /// The xdp link was asked for and does not work here.
    Xdp(XdpError),
    /// The shared-memory link was asked for and failed.
    Shm(io::Error),
    /// The interface's frames are too short for the protocol's headers.
    FramesTooShort {
        /// Longest UDP payload.
        frame_len: usize,
    },
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Interfaces(error) => {
                write!(f, "the kernel does not list its network interfaces: {error}")
            }
            Self::AddressNotHere { ip, present } => {
                let present: Vec<String> = present.iter().map(ToString::to_string).collect();
                let present = present.join(", ");
                write!(f, "{ip} is not an address of this machine; choose one of: {present}")
            }
            Self::PortInUse(at) => write!(
                f,
                "UDP port {} of {} is in use; choose another, or 0 for any",
                at.port(),
                at.ip()
            ),
            Self::PortsInUse(ip, ports) => write!(
                f,
                "all UDP ports {ports} of {ip} are in use; each rank takes two: give a wider range in \
                 WIGLAF_PORTS, and open it in firewalls"
            ),
            Self::Bind(at, error) => write!(f, "cannot bind UDP port {at}: {error}"),
            Self::NotEthernet(link, ip) => write!(
                f,
                "the {link} link works on Ethernet interfaces only, and {ip} is on none; \
                 choose another address or the udp link"
            ),
            Self::PacketNotPermitted(why) => write!(
                f,
                "the packet link takes the CAP_NET_RAW capability, which this process lacks, and \
                 {why}; choose the udp link, or have the helper admit you (docs/helper.md)"
            ),
            Self::Packet(error) => {
                write!(f, "the packet link cannot be opened ({error}); choose the udp link")
            }
            Self::Xdp(error) => {
                write!(f, "the xdp link cannot be opened ({error}); choose the packet or udp link")
            }
            Self::FramesTooShort { frame_len } => write!(
                f,
                "the interface carries {frame_len} bytes in a datagram and Wiglaf needs \
                 {FRAME_LEN_MIN}; raise its MTU to {} or more",
                FRAME_LEN_MIN + 28
            ),
            Self::Shm(error) => write!(
                f,
                "shared memory in /dev/shm cannot be used ({error}); free some, or choose the udp link"
            ),
        }
    }
}

impl std::error::Error for OpenError {}

/// Opens the links that `choice` asks for, at a place whose address may be unspecified: the first
/// that is up and not loopback.
///
/// # Errors
/// When a link that was asked for does not work here.
pub fn open_links(at: impl Into<Place>, epoch: u64, choice: LinkKind) -> Result<Opened, OpenError> {
    let at = at.into();
    let interface = interface_for(at.ip)?;
    let at = if at.ip.is_unspecified() { Place { ip: interface.ip, ..at } } else { at };
    let alone = alone(&interface);
    let mut note = None;
    let net: Box<dyn Link> = match choice {
        LinkKind::Shm => return open_shm_only(at, epoch),
        LinkKind::Udp => {
            return Ok(Opened { net: Some(Box::new(open_udp(at)?)), shm: None, note: alone });
        }
        LinkKind::Packet => Box::new(open_packet(interface, at)?),
        LinkKind::Xdp => open_xdp(interface, at, Mode::Best, &mut note)?,
        LinkKind::XdpGeneric => open_xdp(interface, at, Mode::Generic, &mut note)?,
        LinkKind::XdpNative => open_xdp(interface, at, Mode::Native, &mut note)?,
        LinkKind::XdpZeroCopy => open_xdp(interface, at, Mode::ZeroCopy, &mut note)?,
        LinkKind::Auto => open_best(&interface, at, &remembered_order(&interface), &mut note)?,
    };
    // Without shared memory the ranks of a node talk over the other link.
    let shm = ShmLink::open(net.local(), epoch).ok();
    let shm = shm.map(|link| Box::new(link) as Box<dyn Link>);
    Ok(Opened { net: Some(net), shm, note: alone.or(note) })
}

/// What to say of an interface on which no other machine is reached, where there is no better one. The
/// provider names the address that it was told of before, so who asked for loopback is told, too.
fn alone(interface: &Interface) -> Option<String> {
    let best = || interface_for(Ipv4Addr::UNSPECIFIED).is_ok_and(|best| best.is_loopback);
    (interface.is_loopback && best()).then(|| {
        "only ranks on this machine are reached: no interface but loopback is up and has an IPv4 \
         address; give one an address, or bring it up"
            .to_owned()
    })
}

/// The address that links are going to be opened at for `ip`, which may be
/// unspecified.
///
/// # Errors
/// When this machine does not hold it.
pub fn address_for(ip: Ipv4Addr) -> Result<Ipv4Addr, OpenError> {
    interface_for(ip).map(|interface| interface.ip)
}

/// The interface that links are going to be opened on for `ip`.
///
/// # Errors
/// When this machine does not hold it.
pub fn interface_for(ip: Ipv4Addr) -> Result<Interface, OpenError> {
    let found = if ip.is_unspecified() {
        let all = interface::list().map_err(OpenError::Interfaces)?;
        let up = || all.iter().filter(|interface| interface.is_up);
        let others = || up().filter(|interface| !interface.is_loopback);
        // One whose cable is out keeps its address.
        let running = others().find(|interface| interface.has_carrier);
        running.or_else(|| others().next()).or_else(|| up().next()).cloned()
    } else {
        interface::holding(ip).map_err(OpenError::Interfaces)?
    };
    found.ok_or_else(|| OpenError::AddressNotHere { ip, present: addresses() })
}

/// What to say where nobody has chosen among several networks of this machine: ranks of other machines may
/// have taken another one.
#[must_use]
pub fn unchosen_network() -> Option<String> {
    let all = interface::list().ok()?;
    let is_candidate = |i: &&Interface| i.is_up && i.has_carrier && !i.is_loopback;
    let mut networks: Vec<(Network, &Interface)> = Vec::new();
    for interface in all.iter().filter(is_candidate) {
        if networks.iter().all(|(network, _)| *network != interface.network()) {
            networks.push((interface.network(), interface));
        }
    }
    let (chosen, taken) = networks.first().filter(|_| networks.len() > 1)?;
    let others: Vec<String> =
        networks[1..].iter().map(|(network, i)| format!("{network} on {}", i.name)).collect();
    Some(format!(
        "this machine is in several networks, and {chosen} on {} is used, not {}; if that is the one that \
         all machines share, set WIGLAF_NET={chosen} for all ranks, else another",
        taken.name,
        others.join(" or ")
    ))
}

fn addresses() -> Vec<Ipv4Addr> {
    interface::list().unwrap_or_default().iter().map(|interface| interface.ip).collect()
}

fn open_udp(at: Place) -> Result<UdpLink, OpenError> {
    UdpLink::open(at).map_err(|error| bind_error(at, error))
}

fn open_packet(interface: Interface, at: Place) -> Result<PacketLink, OpenError> {
    let opened = PacketLink::open_soon(interface.clone(), at);
    match opened {
        Err(PacketError::Packet(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_packet_by_helper(interface, at)
        }
        opened => opened.map_err(|error| packet_error(at, error)),
    }
}

/// Ports that are tried where another user has a packet socket for the first.
const PORTS_TRIED_MAX: usize = 16;

/// The packet link for a process without privilege, with a socket that the helper opens.
fn open_packet_by_helper(interface: Interface, at: Place) -> Result<PacketLink, OpenError> {
    let bulk = BulkSocket::open(at).map_err(|error| bind_error(at, error))?;
    // Those that another user overhears are kept until there is a better one, or they would come again.
    let mut overheard = Vec::new();
    let (plain, packet) = loop {
        let plain = FrameSocket::open(at).map_err(|error| bind_error(at, error))?;
        match wiglaf_helper::ask(SocketKind::Packet, &plain) {
            Err(AskError::Refused(Refusal::Overheard, _))
                if at.port == 0 && overheard.len() < PORTS_TRIED_MAX =>
            {
                overheard.push(plain);
            }
            asked => break (plain, asked.map_err(OpenError::PacketNotPermitted)?),
        }
    };
    PacketLink::from_sockets(packet, plain, bulk, interface)
        .map_err(|error| packet_error(at, error))
}

fn packet_error(at: Place, error: PacketError) -> OpenError {
    match error {
        PacketError::NotEthernet => OpenError::NotEthernet("packet", at.ip),
        PacketError::Bind(error) => bind_error(at, error),
        PacketError::Packet(error) => OpenError::Packet(error),
    }
}

/// What to say of a packet link that was tried and not had: a helper's refusal
/// is worth a word, the lack of both privilege and helper is not.
fn lacks(why: &OpenError) -> Option<String> {
    match why {
        OpenError::PacketNotPermitted(AskError::None) => None,
        OpenError::PacketNotPermitted(why) => {
            Some(format!("the packet link is not to be had: {why}; the udp link is used"))
        }
        _ => None,
    }
}

fn remembered_order(interface: &Interface) -> Vec<LinkKind> {
    remembered::folder().map(|folder| remembered::order(&folder, interface)).unwrap_or_default()
}

/// The first link that works: in the measured order, then in that which is
/// good where nothing is known.
fn open_best(
    interface: &Interface,
    at: Place,
    measured: &[LinkKind],
    note: &mut Option<String>,
) -> Result<Box<dyn Link>, OpenError> {
    let mut lacking = None;
    let xdp = |mode| {
        let link = XdpLink::open(interface.clone(), at, mode).ok()?;
        Some(Box::new(link) as Box<dyn Link>)
    };
    for choice in measured.iter().chain(&[LinkKind::Packet]) {
        let link = match choice {
            LinkKind::Packet => {
                let link = open_packet(interface.clone(), at).map_err(|why| lacking = lacks(&why));
                link.ok().map(|link| Box::new(link) as Box<dyn Link>)
            }
            LinkKind::XdpGeneric => xdp(Mode::Generic),
            LinkKind::XdpNative => xdp(Mode::Native),
            LinkKind::XdpZeroCopy => xdp(Mode::ZeroCopy),
            LinkKind::Udp => break,
            LinkKind::Auto | LinkKind::Xdp | LinkKind::Shm => None,
        };
        if let Some(link) = link {
            return Ok(link);
        }
    }
    *note = lacking;
    // If the port was the trouble, this says so again.
    Ok(Box::new(open_udp(at)?))
}

/// Ranks beyond the last queue take the packet link: a node may have more
/// ranks than its interface has queues.
fn open_xdp(
    interface: Interface,
    at: Place,
    mode: Mode,
    note: &mut Option<String>,
) -> Result<Box<dyn Link>, OpenError> {
    match XdpLink::open(interface.clone(), at, mode) {
        Ok(link) => Ok(Box::new(link)),
        Err(XdpError::NotEthernet) => Err(OpenError::NotEthernet("xdp", at.ip)),
        Err(XdpError::Bind(error)) => Err(bind_error(at, error)),
        Err(error @ XdpError::NoQueue { .. }) => {
            let link = open_packet(interface, at)?;
            *note = Some(format!("this rank uses the packet link, not xdp: {error}"));
            Ok(Box::new(link))
        }
        Err(error) => Err(OpenError::Xdp(error)),
    }
}

fn open_shm_only(at: Place, epoch: u64) -> Result<Opened, OpenError> {
    // The port is reserved all the same: it is part of the endpoint's name.
    let reservation = at.bind().map_err(|error| bind_error(at, error))?;
    let port = reservation.local_addr().map_err(|error| bind_error(at, error))?.port();
    let link = ShmLink::open(SocketAddrV4::new(at.ip, port), epoch).map_err(OpenError::Shm)?;
    let link = link.with_reservation(reservation);
    Ok(Opened { net: None, shm: Some(Box::new(link)), note: None })
}

fn bind_error(at: Place, error: io::Error) -> OpenError {
    let Place { ip, port, ports } = at;
    match (error.kind(), ports) {
        (io::ErrorKind::AddrInUse, Some(ports)) if port == 0 => OpenError::PortsInUse(ip, ports),
        (io::ErrorKind::AddrInUse, _) => OpenError::PortInUse(SocketAddrV4::new(ip, port)),
        (io::ErrorKind::AddrNotAvailable, _) => {
            OpenError::AddressNotHere { ip, present: addresses() }
        }
        _ => OpenError::Bind(SocketAddrV4::new(ip, port), error),
    }
}

#[cfg(test)]
mod tests;
