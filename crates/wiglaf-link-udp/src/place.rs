//! Where the two sockets of a link are bound: firewalls are opened for ranges of ports.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

use wiglaf_link::Ports;

/// Where the sockets of a link are bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The address of both.
    pub ip: Ipv4Addr,
    /// The port of the one for single frames; 0 for any.
    pub port: u16,
    /// The ports from which all others are taken; `None`: any.
    pub ports: Option<Ports>,
}

impl Place {
    /// This place, with any port for the socket of single frames.
    #[must_use]
    pub fn any_port(self) -> Self {
        Self { port: 0, ..self }
    }

    /// Binds a socket there.
    ///
    /// # Errors
    /// When the address is not of this machine or no port is free.
    pub fn bind(self) -> io::Result<UdpSocket> {
        let bind = |port| UdpSocket::bind(SocketAddrV4::new(self.ip, port));
        let Some(ports) = self.ports.filter(|_| self.port == 0) else { return bind(self.port) };
        let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
        let mut bound = ports.each().map(bind);
        bound
            .find(|bound| !bound.as_ref().is_err_and(is_taken))
            .unwrap_or_else(|| Err(io::ErrorKind::AddrInUse.into()))
    }
}

impl From<SocketAddrV4> for Place {
    fn from(at: SocketAddrV4) -> Self {
        Self { ip: *at.ip(), port: at.port(), ports: None }
    }
}

impl From<Ipv4Addr> for Place {
    fn from(ip: Ipv4Addr) -> Self {
        Self { ip, port: 0, ports: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_have_ports_of_the_range_until_none_is_left() {
        // Some port that is free now, and its neighbour; another process may take one meanwhile.
        let ports = (0..100).find_map(|_| {
            let first = UdpSocket::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
            let ports = Ports::named(&format!("{first}-{}", first.checked_add(1)?))?;
            let place = Place { ports: Some(ports), ..Place::from(Ipv4Addr::LOCALHOST) };
            Some((ports, [place.bind().ok()?, place.bind().ok()?]))
        });
        let (ports, bound) = ports.expect("two free ports that follow each other");
        for socket in &bound {
            assert!(ports.has(socket.local_addr().expect("bound").port()));
        }
        let place = Place { ports: Some(ports), ..Place::from(Ipv4Addr::LOCALHOST) };
        let error = place.bind().expect_err("both are taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
