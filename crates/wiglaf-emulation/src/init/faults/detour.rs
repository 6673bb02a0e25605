//! The path of reordered frames: the ports' programs send them into a veth
//! pair, at whose end they are held for a random time and then go to the port
//! of their destination, behind frames that were sent later.
//!
//! Frames carry their virtio-net header, so that trains cross whole and
//! checksums that the sender left to its device stay left.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::program::MARK_DONE;
use crate::fault::interface_index;

/// A frame of the largest train, and its virtio-net header.
const FRAME_LEN_MAX: usize = 65_536 + 64 + HEADER_LEN;
/// Header of `PACKET_VNET_HDR`.
const HEADER_LEN: usize = 10;
const MAC_LEN: usize = 6;
/// Further frames are let through at once: memory stays bounded.
const HELD_MAX: usize = 4096;
/// How often a sleeping detour looks up; frames wake it anyway.
const NAP: Duration = Duration::from_secs(1);

/// Where frames for a hardware address leave the switch.
#[derive(Debug, Clone)]
pub(super) struct Exit {
    pub(super) mac: [u8; MAC_LEN],
    /// Its name: a node that was started anew has another port of the same one.
    pub(super) name: String,
    /// What it was when it was looked up; 0 before.
    pub(super) port: u32,
}

/// A frame that waits, the earliest first.
type Held = Reverse<(Instant, u64, Vec<u8>)>;

#[derive(Debug)]
pub(super) struct Detour {
    arrivals: OwnedFd,
    departures: OwnedFd,
    exits: Vec<Exit>,
    held: BinaryHeap<Held>,
    serial: u64,
    random: u64,
}

impl Detour {
    /// Takes what comes out of `interface`.
    pub(super) fn open(interface: u32, exits: Vec<Exit>, seed: u64) -> io::Result<Self> {
        let arrivals = packet_socket()?;
        let departures = packet_socket()?;
        set_option(&departures, libc::SOL_SOCKET, libc::SO_MARK, MARK_DONE as libc::c_int)?;
        set_option(&arrivals, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        let address = link_address(interface, libc::ETH_P_ALL as u16);
        // SAFETY: the address is live and of the length given.
        let status = unsafe {
            libc::bind(
                arrivals.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        match status {
            0 => {
                let held = BinaryHeap::new();
                Ok(Self { arrivals, departures, exits, held, serial: 0, random: seed })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Goes on for ever; `hold` says how long a frame waits at most.
    pub(super) fn run(mut self, hold: &dyn Fn() -> Duration) {
        let mut buffer = vec![0; FRAME_LEN_MAX];
        loop {
            self.wait();
            // Who sends without end does not keep those that are due from leaving.
            while self.held.len() < 2 * HELD_MAX
                && let Some(len) = self.receive(&mut buffer)
            {
                self.serial += 1;
                let wait = match self.held.len() < HELD_MAX {
                    true => hold().mul_f64(self.share()),
                    false => Duration::ZERO,
                };
                let frame = buffer[..len].to_vec();
                self.held.push(Reverse((Instant::now() + wait, self.serial, frame)));
            }
            let now = Instant::now();
            while self.held.peek().is_some_and(|Reverse((due, ..))| *due <= now) {
                if let Some(Reverse((_, _, frame))) = self.held.pop() {
                    self.send(&frame);
                }
            }
        }
    }

    /// A random number from 0 to 1 (Marsaglia, Xorshift RNGs, 2003).
    fn share(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Until a frame comes or is due.
    fn wait(&self) {
        let due = self.held.peek().map(|Reverse((due, ..))| *due);
        let nap = due.map_or(NAP, |due| due.saturating_duration_since(Instant::now()).min(NAP));
        let timeout = libc::timespec {
            tv_sec: nap.as_secs() as libc::time_t,
            tv_nsec: nap.subsec_nanos().into(),
        };
        let mut poll =
            libc::pollfd { fd: self.arrivals.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor and the time are live; an early return is harmless.
        unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, std::ptr::null()) };
    }

    fn receive(&self, buffer: &mut [u8]) -> Option<usize> {
        // SAFETY: the kernel writes at most the buffer's length.
        let len = unsafe {
            libc::recv(
                self.arrivals.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
            )
        };
        // One that was longer than the buffer cannot be passed on whole.
        usize::try_from(len).ok().filter(|len| *len <= buffer.len())
    }

    /// A frame that cannot be sent is lost, as in any full switch.
    fn send(&mut self, frame: &[u8]) {
        let Some(mac) = frame.get(HEADER_LEN..HEADER_LEN + MAC_LEN) else { return };
        let Some(exit) = self.exits.iter_mut().find(|exit| exit.mac == mac) else { return };
        let refused = send_by(&self.departures, exit.port, frame).err();
        // No later interface has the number of one that is gone.
        if refused.is_some_and(|why| matches!(why.raw_os_error(), Some(libc::ENXIO | libc::ENODEV)))
            && let Ok(port) = interface_index(&exit.name)
        {
            exit.port = port;
            let _ = send_by(&self.departures, port, frame);
        }
    }
}

fn send_by(socket: &OwnedFd, port: u32, frame: &[u8]) -> io::Result<()> {
    let address = link_address(port, 0);
    // SAFETY: frame and address are live and of the lengths given.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            libc::MSG_DONTWAIT,
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A socket that sees nothing until it is bound.
fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: plain system call.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    Ok(socket)
}

fn set_option(socket: &OwnedFd, level: i32, option: i32, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the value is live and of the length given.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn link_address(interface: u32, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: interface as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: MAC_LEN as u8,
        sll_addr: [0; 8],
    }
}
