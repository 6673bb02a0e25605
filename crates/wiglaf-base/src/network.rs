//! IPv4 networks, and which of this host's interfaces are in them.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// An IPv4 network such as 192.168.77.0/24.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr {
    address: Ipv4Addr,
    prefix: u8,
}

impl Cidr {
    /// The network of that prefix length, 0 to 32, that holds the address.
    #[must_use]
    pub fn of(address: Ipv4Addr, prefix: u8) -> Self {
        let prefix = prefix.min(32);
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        Self { address: Ipv4Addr::from(u32::from(address) & mask), prefix }
    }

    /// Its address and the length of its prefix.
    #[must_use]
    pub fn parts(&self) -> (Ipv4Addr, u8) {
        (self.address, self.prefix)
    }

    /// Whether the address is one of the network's.
    #[must_use]
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        Self::of(address, self.prefix) == *self
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for Cidr {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            || Error::new(format!("`{text}` is no IPv4 network; write it such as 192.168.77.0/24"));
        let (address, prefix) = text.trim().split_once('/').ok_or_else(wrong)?;
        let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().ok().filter(|prefix| *prefix <= 32).ok_or_else(wrong)?;
        let network = Self::of(address, prefix);
        match network.address == address {
            true => Ok(network),
            false => Err(Error::new(format!(
                "`{text}` names a host and not its network, which is {network}"
            ))),
        }
    }
}

impl TryFrom<String> for Cidr {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Cidr> for String {
    fn from(network: Cidr) -> Self {
        network.to_string()
    }
}

/// An IPv4 address of this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostAddress {
    /// Its interface.
    pub interface: String,
    /// The address.
    pub address: Ipv4Addr,
    /// Length of its network's prefix.
    pub prefix: u8,
    /// The interface's MTU in bytes, 0 where the kernel does not say.
    pub mtu: u32,
}

/// The IPv4 addresses of this host's interfaces that are up, but for those of the loopback.
#[must_use]
pub fn addresses() -> Vec<HostAddress> {
    use nix::net::if_::InterfaceFlags;
    let all = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let used = all.filter(|found| {
        found.flags.contains(InterfaceFlags::IFF_UP)
            && !found.flags.contains(InterfaceFlags::IFF_LOOPBACK)
    });
    used.filter_map(|found| {
        let address = found.address?.as_sockaddr_in()?.ip();
        let mask = found.netmask.and_then(|mask| Some(mask.as_sockaddr_in()?.ip()));
        let prefix = mask.map_or(32, |mask| u32::from(mask).leading_ones() as u8);
        let mtu = std::fs::read_to_string(format!("/sys/class/net/{}/mtu", found.interface_name));
        let mtu = mtu.ok().and_then(|mtu| mtu.trim().parse().ok()).unwrap_or(0);
        Some(HostAddress { interface: found.interface_name, address, prefix, mtu })
    })
    .collect()
}

/// This host's address in a network, where it has one.
#[must_use]
pub fn own_in(network: Cidr) -> Option<HostAddress> {
    addresses().into_iter().find(|own| network.contains(own.address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_its_hosts_and_no_others() {
        let network: Cidr = "192.168.77.0/24".parse().unwrap();
        assert!(network.contains(Ipv4Addr::new(192, 168, 77, 255)));
        assert!(!network.contains(Ipv4Addr::new(192, 168, 78, 1)));
        assert!("0.0.0.0/0".parse::<Cidr>().unwrap().contains(Ipv4Addr::LOCALHOST));
        assert_eq!(Cidr::of(Ipv4Addr::new(10, 9, 8, 7), 12).to_string(), "10.0.0.0/12");
    }

    #[test]
    fn what_is_no_network_is_refused_with_a_hint() {
        for text in ["", "eth0", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/x"] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
        let host = "10.0.0.7/8".parse::<Cidr>().unwrap_err().to_string();
        assert!(host.contains("10.0.0.0/8"), "{host}");
    }

    #[test]
    fn the_loopback_is_no_address_of_a_host() {
        assert!(addresses().iter().all(|found| !found.address.is_loopback()));
    }
}
