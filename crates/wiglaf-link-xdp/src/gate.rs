//! The program on an interface, which all processes with a socket there share.
//!
//! Whoever comes first attaches it; who comes later finds it among the
//! kernel's objects and holds it too, so it works as long as one of them
//! lives, and vanishes with the last. Nothing is pinned anywhere. Finding
//! takes CAP_SYS_ADMIN.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use wiglaf_bpf::{Attachment, Hook, Kind, Map, Mode, Program, attachments_of};
use wiglaf_link_udp::Interface;

use crate::OpenError;
use crate::program::{PORTS, Site, assemble, entry};

const NAME: &str = "wiglaf_xdp";

/// The place that says whose program it is; no datagram is for port 0.
const OWNER: u32 = 0;

/// How often others may come and go between our looks.
const TRIES: usize = 8;

/// A hold on the program of an interface.
#[derive(Debug)]
pub(crate) struct Gate {
    ports: Map,
    sockets: Map,
    _attachment: Attachment,
}

impl Gate {
    /// Attaches the program, or joins those who have done so.
    pub(crate) fn open(
        interface: &Interface,
        mac: [u8; 6],
        mode: Mode,
        ip_len_max: u16,
    ) -> Result<Self, OpenError> {
        let owner = owner(mode).map_err(OpenError::Program)?;
        for _ in 0..TRIES {
            let error = match Self::attach(interface, mac, mode, ip_len_max, owner) {
                Ok(gate) => return Ok(gate),
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::EBUSY | libc::EEXIST) => {}
                Some(libc::EPERM | libc::EACCES) => return Err(OpenError::NotPermitted),
                Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ERANGE) if mode == Mode::Native => {
                    return Err(OpenError::NoNativeMode(error));
                }
                _ => return Err(OpenError::Program(error)),
            }
            if let Some(gate) = Self::join(interface, owner)? {
                return Ok(gate);
            }
        }
        Err(OpenError::Occupied)
    }

    fn attach(
        interface: &Interface,
        mac: [u8; 6],
        mode: Mode,
        ip_len_max: u16,
        owner: u64,
    ) -> io::Result<Self> {
        let ports = Map::array(NAME, PORTS)?;
        let sockets = Map::sockets(NAME, PORTS)?;
        ports.set(OWNER, owner)?;
        let raw = |map: &Map| map.as_fd().as_raw_fd();
        let site = Site { mac, ip_len_max, ports: raw(&ports), sockets: raw(&sockets) };
        let program = Program::load(Kind::Xdp, NAME, &assemble(&site))?;
        let attachment = program.attach(interface.index, Hook::Xdp(mode))?;
        Ok(Self { ports, sockets, _attachment: attachment })
    }

    fn join(interface: &Interface, owner: u64) -> Result<Option<Self>, OpenError> {
        let found = attachments_of(interface.index).map_err(|_| OpenError::Occupied)?;
        for attachment in found {
            // One that is no longer there, or a stranger's.
            let Ok(maps) = attachment.maps() else { continue };
            let Ok([ports, sockets]) = <[Map; 2]>::try_from(maps) else { continue };
            let Ok(found) = ports.get(OWNER) else { continue };
            if found as u32 != owner as u32 {
                continue;
            }
            if found != owner {
                return Err(OpenError::OtherMode);
            }
            return Ok(Some(Self { ports, sockets, _attachment: attachment }));
        }
        Ok(None)
    }

    /// Has datagrams for `local` that come in on `queue` go to `socket`.
    pub(crate) fn register(
        &self,
        local: SocketAddrV4,
        queue: u32,
        socket: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let port = u32::from(local.port());
        // Fails where another address of this interface has the port.
        self.sockets.set_socket(port, socket)?;
        self.ports.set(port, entry(local, queue))
    }
}

/// Names this network namespace, in which alone the index of an interface
/// means something, and the mode.
fn owner(mode: Mode) -> io::Result<u64> {
    let namespace = rustix::fs::stat("/proc/thread-self/ns/net")?.st_ino;
    let mode = match mode {
        Mode::Generic => 1,
        Mode::Native => 2,
    };
    Ok(u64::from(namespace as u32) | mode << 32)
}
