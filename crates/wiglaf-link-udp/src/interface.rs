//! The network interfaces of this machine and their IPv4 addresses.

use std::ffi::CStr;
use std::io;
use std::mem;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::FRAME_LEN_SURE;
use crate::bulk::payload_len_max;

/// One IPv4 address of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// The address.
    pub ip: Ipv4Addr,
    /// The netmask that goes with it.
    pub netmask: Ipv4Addr,
    /// Longest IP packet, in bytes.
    pub mtu: usize,
    /// Its Ethernet address; `None` for other kinds of interface.
    pub mac: Option<[u8; 6]>,
    /// Administratively up.
    pub is_up: bool,
    /// It can carry something now: a cable is in, a bridge has a member that is up (`IFF_LOWER_UP`).
    pub has_carrier: bool,
    /// The loopback interface.
    pub is_loopback: bool,
}

impl Interface {
    /// Whether `ip` is a neighbour: on the same subnet, not this machine.
    #[must_use]
    pub fn is_neighbour(&self, ip: Ipv4Addr) -> bool {
        ip != self.ip && self.network().holds(ip)
    }

    /// The network that its address is in.
    #[must_use]
    pub fn network(&self) -> Network {
        Network::new(self.ip, u32::from(self.netmask).leading_ones())
    }
}

/// An IPv4 network as users write it: `192.168.77.0/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    first: Ipv4Addr,
    prefix_len: u32,
}

impl Network {
    /// The network of that prefix, in bits, which `ip` is in.
    fn new(ip: Ipv4Addr, prefix_len: u32) -> Self {
        let first = Ipv4Addr::from(u32::from(ip) & mask(prefix_len));
        Self { first, prefix_len: prefix_len.min(u32::BITS) }
    }

    /// The network that `text` names: an address, a slash and the length of the prefix. Host bits may be
    /// set, since people write their own address.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        let (ip, prefix_len) = text.split_once('/')?;
        let prefix_len = prefix_len.parse().ok().filter(|len| *len <= u32::BITS)?;
        Some(Self::new(ip.parse().ok()?, prefix_len))
    }

    /// Whether `ip` is in it.
    #[must_use]
    pub fn holds(&self, ip: Ipv4Addr) -> bool {
        u32::from(ip) & mask(self.prefix_len) == u32::from(self.first)
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix_len)
    }
}

fn mask(prefix_len: u32) -> u32 {
    u32::MAX.checked_shl(u32::BITS.saturating_sub(prefix_len)).unwrap_or(0)
}

/// All IPv4 addresses of this machine's (of this namespace's) interfaces, in
/// the kernel's order.
///
/// # Errors
/// When the kernel does not tell.
pub fn list() -> io::Result<Vec<Interface>> {
    let probe = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let probe = std::os::fd::AsFd::as_fd(&probe);
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is a live place for the list's head.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut at = first;
    while !at.is_null() {
        // SAFETY: `at` is a node of the list, which is freed only below.
        let node = unsafe { &*at };
        // SAFETY: the node's pointers are null or live as long as the list,
        // and its name ends with a zero byte.
        if let Some(interface) = unsafe { from_node(probe, node) } {
            found.push(interface);
        }
        at = node.ifa_next;
    }
    // SAFETY: `first` came from `getifaddrs`, and nothing borrows from it.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// The interface that holds `ip`.
///
/// # Errors
/// When the kernel does not tell.
pub fn holding(ip: Ipv4Addr) -> io::Result<Option<Interface>> {
    let all = list()?;
    let exact = all.iter().find(|i| i.ip == ip).cloned();
    // All of 127.0.0.0/8 is on the loopback interface, whatever its address says.
    Ok(exact.or_else(|| all.into_iter().find(|i| i.is_loopback && ip.is_loopback())))
}

/// Longest UDP payload that the interface of `ip` carries unfragmented, and the longest that gets to every
/// peer: what is on loopback has no way to go.
pub(crate) fn frame_lens(ip: Ipv4Addr) -> (usize, usize) {
    let interface = holding(ip).ok().flatten();
    let longest = interface.as_ref().map_or(FRAME_LEN_SURE, |i| payload_len_max(i.mtu));
    let is_loopback = interface.is_some_and(|i| i.is_loopback);
    (longest, if is_loopback { longest } else { longest.min(FRAME_LEN_SURE) })
}

/// # Safety
/// The pointers of `node` must be null or valid, its name a C string.
unsafe fn from_node(probe: BorrowedFd<'_>, node: &libc::ifaddrs) -> Option<Interface> {
    // SAFETY: as promised by the caller.
    let ip = unsafe { ipv4(node.ifa_addr) }?;
    // SAFETY: as promised by the caller.
    let netmask = unsafe { ipv4(node.ifa_netmask) }.unwrap_or(Ipv4Addr::BROADCAST);
    // SAFETY: as promised by the caller.
    let label = unsafe { CStr::from_ptr(node.ifa_name) }.to_str().ok()?;
    // An address may have a label, such as eth0:1, which no table of the kernel has.
    let name = label.split(':').next()?.to_owned();
    let flags = node.ifa_flags as libc::c_int;
    Some(Interface {
        index: index_of(probe, &name)?,
        mtu: mtu_of(probe, &name)?,
        mac: mac_of(probe, &name),
        name,
        ip,
        netmask,
        is_up: flags & libc::IFF_UP != 0,
        has_carrier: flags & libc::IFF_LOWER_UP != 0,
        is_loopback: flags & libc::IFF_LOOPBACK != 0,
    })
}

/// # Safety
/// `raw` must be null or point at a valid socket address.
unsafe fn ipv4(raw: *const libc::sockaddr) -> Option<Ipv4Addr> {
    // SAFETY: as promised by the caller; an AF_INET address is a `sockaddr_in`.
    unsafe {
        if raw.is_null() || i32::from((*raw).sa_family) != libc::AF_INET {
            return None;
        }
        Some(*crate::sys::from_sockaddr(&*raw.cast::<libc::sockaddr_in>()).ip())
    }
}

fn index_of(probe: BorrowedFd<'_>, name: &str) -> Option<u32> {
    let request = ask(probe, libc::SIOCGIFINDEX as _, name)?;
    // SAFETY: SIOCGIFINDEX fills this member.
    u32::try_from(unsafe { request.ifr_ifru.ifru_ifindex }).ok()
}

/// The name that the interface of that number has now; `None` when there is none.
pub(crate) fn name_of(probe: BorrowedFd<'_>, index: u32) -> Option<String> {
    let mut request = request("")?;
    request.ifr_ifru.ifru_ifindex = i32::try_from(index).ok()?;
    // SAFETY: the request is live, and SIOCGIFNAME writes its name.
    let status =
        unsafe { libc::ioctl(probe.as_raw_fd(), libc::SIOCGIFNAME as _, &raw mut request) };
    let name = request.ifr_name.map(|byte| byte as u8);
    let name = CStr::from_bytes_until_nul(&name).ok()?.to_str().ok()?;
    (status == 0).then(|| name.to_owned())
}

fn mtu_of(probe: BorrowedFd<'_>, name: &str) -> Option<usize> {
    let request = ask(probe, libc::SIOCGIFMTU as _, name)?;
    // SAFETY: SIOCGIFMTU fills this member.
    usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).ok()
}

fn mac_of(probe: BorrowedFd<'_>, name: &str) -> Option<[u8; 6]> {
    let request = ask(probe, libc::SIOCGIFHWADDR as _, name)?;
    // SAFETY: SIOCGIFHWADDR fills this member.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    if address.sa_family != libc::ARPHRD_ETHER {
        return None;
    }
    let mut mac = [0; 6];
    for (byte, raw) in mac.iter_mut().zip(address.sa_data) {
        *byte = raw as u8;
    }
    Some(mac)
}

fn ask(probe: BorrowedFd<'_>, what: libc::Ioctl, name: &str) -> Option<libc::ifreq> {
    let mut request = request(name)?;
    // SAFETY: the request is live and its name ends with a zero byte.
    let status = unsafe { libc::ioctl(probe.as_raw_fd(), what, &raw mut request) };
    (status == 0).then_some(request)
}

fn request(name: &str) -> Option<libc::ifreq> {
    // SAFETY: all-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Some(request)
}

/// The name of an interface's driver, such as `veth`; `None` when it tells none.
#[must_use]
pub fn driver(name: &str) -> Option<String> {
    /// `ETHTOOL_GDRVINFO` of linux/ethtool.h.
    const GET_DRIVER: u32 = 3;
    /// `SIOCETHTOOL` of linux/sockios.h.
    const ETHTOOL: libc::Ioctl = 0x8946;
    /// `struct ethtool_drvinfo`.
    #[repr(C)]
    struct Answer {
        command: u32,
        driver: [u8; 32],
        rest: [u8; 160],
    }
    let probe = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    let mut answer = Answer { command: GET_DRIVER, driver: [0; 32], rest: [0; 160] };
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = (&raw mut answer).cast();
    // SAFETY: the request is live, its name ends with a zero byte, and the
    // answer has the length that the command writes.
    let status = unsafe { libc::ioctl(probe.as_raw_fd(), ETHTOOL, &raw mut request) };
    let text = CStr::from_bytes_until_nul(&answer.driver).ok()?.to_str().ok()?;
    (status == 0 && !text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_an_address_and_the_length_of_its_prefix() {
        let network = Network::named("192.168.77.3/24").expect("a network");
        assert_eq!(network.to_string(), "192.168.77.0/24");
        let holds = |ip: &str| network.holds(ip.parse().expect("an address"));
        assert!(holds("192.168.77.255") && !holds("192.168.78.0"));
        let all = Network::named("10.0.0.1/0").expect("all addresses");
        assert!(all.holds(Ipv4Addr::BROADCAST) && all.to_string() == "0.0.0.0/0");
        let one = Network::named("10.0.0.1/32").expect("one address");
        assert!(one.holds(Ipv4Addr::new(10, 0, 0, 1)) && !one.holds(Ipv4Addr::new(10, 0, 0, 2)));
        for wrong in ["192.168.77.0", "192.168.77.0/33", "192.168.77/24", "/24", "::/0", "1.2.3.4/"]
        {
            assert_eq!(Network::named(wrong), None, "{wrong}");
        }
    }
}
