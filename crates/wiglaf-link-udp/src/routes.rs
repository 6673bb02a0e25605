//! How links past the IP stack reach each destination: past it, once its
//! Ethernet address is known, or through it.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use wiglaf_link::frame::{Ends, HEADERS_LEN, headers, headers_of_train};

use crate::{Interface, interface, neighbour};

/// How long an Ethernet address is used before the kernel is asked again.
const TRUST: Duration = Duration::from_secs(2);

/// Destinations remembered; beyond it all are forgotten and found again.
const ROUTES_MAX: usize = 1 << 14;

/// How to send to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Frames of our own, to this Ethernet address.
    Ring([u8; 6]),
    /// Through the IP stack, which finds out how: a destination behind a
    /// gateway, on this machine, or whose Ethernet address is to be (re)learnt.
    Stack,
    /// The interface has been removed.
    Gone,
}

#[derive(Debug, Clone, Copy)]
struct Route {
    mac: Option<[u8; 6]>,
    asked_at: Duration,
}

/// All known destinations.
#[derive(Debug)]
pub struct Routes {
    interface: Interface,
    mac: [u8; 6],
    local: SocketAddrV4,
    known: HashMap<Ipv4Addr, Route>,
    last: Option<(Ipv4Addr, Route)>,
}

impl Routes {
    /// Nothing is known yet. Frames will be sent from `mac` and `local`.
    #[must_use]
    pub fn new(interface: Interface, mac: [u8; 6], local: SocketAddrV4) -> Self {
        Self { interface, mac, local, known: HashMap::new(), last: None }
    }

    /// How the next datagram to `ip` should go.
    ///
    /// Once in [`TRUST`] one goes through the stack although its Ethernet
    /// address is known: that makes the kernel verify the address.
    pub fn way(&mut self, socket: BorrowedFd<'_>, ip: Ipv4Addr) -> Way {
        let now = coarse_now();
        if let Some((last_ip, Route { mac: Some(mac), asked_at })) = self.last
            && last_ip == ip
            && now.saturating_sub(asked_at) < TRUST
        {
            return Way::Ring(mac);
        }
        self.find(socket, ip, now)
    }

    #[cold]
    fn find(&mut self, socket: BorrowedFd<'_>, ip: Ipv4Addr, now: Duration) -> Way {
        if !self.interface.is_neighbour(ip) {
            return Way::Stack;
        }
        let known = self.known.get(&ip).copied();
        if let Some(route) = known {
            self.last = Some((ip, route));
            if let Some(mac) = route.mac
                && now.saturating_sub(route.asked_at) < TRUST
            {
                return Way::Ring(mac);
            }
        }
        let Some(mac) = self.ask(socket, ip) else { return Way::Gone };
        let route = Route { mac, asked_at: now };
        if self.known.len() >= ROUTES_MAX {
            self.known.clear();
        }
        self.known.insert(ip, route);
        self.last = Some((ip, route));
        match (mac, known) {
            (Some(mac), None | Some(Route { mac: None, .. })) => Way::Ring(mac),
            _ => Way::Stack,
        }
    }

    /// What the kernel knows of a neighbour; `None` when the interface has been removed. Its name may
    /// have changed, its number cannot.
    fn ask(&mut self, socket: BorrowedFd<'_>, ip: Ipv4Addr) -> Option<Option<[u8; 6]>> {
        let mut found = neighbour::look_up(socket, &self.interface.name, ip);
        if found.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENODEV)) {
            self.interface.name = interface::name_of(socket, self.interface.index)?;
            found = neighbour::look_up(socket, &self.interface.name, ip);
        }
        Some(found.ok().flatten())
    }

    /// The headers of a datagram; `None` when the payload is too long for one.
    #[must_use]
    pub fn headers(
        &self,
        to_mac: [u8; 6],
        to: SocketAddrV4,
        payload_len: usize,
    ) -> Option<[u8; HEADERS_LEN]> {
        headers(&self.ends(to_mac, to), payload_len)
    }

    /// The headers of a train that is cut behind this link.
    #[must_use]
    pub fn headers_of_train(
        &self,
        to_mac: [u8; 6],
        to: SocketAddrV4,
        payload_len: usize,
    ) -> Option<[u8; HEADERS_LEN]> {
        headers_of_train(&self.ends(to_mac, to), payload_len)
    }

    fn ends(&self, to_mac: [u8; 6], to: SocketAddrV4) -> Ends {
        Ends { from_mac: self.mac, to_mac, from: self.local, to }
    }
}

/// A clock that is cheap enough to read at every send.
fn coarse_now() -> Duration {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}
