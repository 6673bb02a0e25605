//! Signals to a receiver that blocks: one byte to its datagram socket.
//!
//! The socket has an abstract name, so it vanishes with its process, and it
//! is seen only within its network namespace: on its node.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::process::geteuid;

use crate::layout::AT_ARMED;
use crate::mapping::Mapping;
use crate::sync::{Ordering, fence};

/// Rings that are taken at a time: anybody on the node can ring, and must not hold us up by it. What is
/// left rings at the next sleep.
const RINGS_MAX: usize = 64;

/// A receiver's bell.
#[derive(Debug)]
pub(crate) struct Bell {
    socket: UnixDatagram,
}

impl Bell {
    pub(crate) fn open(epoch: u64) -> io::Result<Self> {
        let socket = UnixDatagram::bind_addr(&name(epoch)?)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket })
    }

    /// Rings the bell of the receiver behind `map`, to whom something has just
    /// been written, if it is about to block.
    pub(crate) fn ring_if_armed(&self, map: &Mapping, other: &SocketAddr) {
        if takes_alarm(map) {
            self.ring(other);
        }
    }

    /// Rings the bell of another receiver. A bell that is full has rung, and
    /// one that is gone belongs to the dead.
    fn ring(&self, other: &SocketAddr) {
        let _ = self.socket.send_to_addr(&[1], other);
    }

    /// Forgets the rings so far, up to a limit.
    pub(crate) fn silence(&self) {
        let mut byte = [0; 1];
        for _ in 0..RINGS_MAX {
            if self.socket.recv(&mut byte).is_err() {
                break;
            }
        }
    }
}

impl AsRawFd for Bell {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Says whether the receiver behind `map` is about to block. It must look afterwards at what was
/// written before.
pub(crate) fn arm(map: &Mapping, armed: bool) {
    map.word(AT_ARMED).store(u64::from(armed), Ordering::Relaxed);
    if armed {
        fence(Ordering::SeqCst);
    }
}

/// After something was written: whether its receiver must be woken, and by nobody else.
pub(crate) fn takes_alarm(map: &Mapping) -> bool {
    // Pairs with the fence in `arm`: either we see that it is armed, or it
    // sees what was written.
    fence(Ordering::SeqCst);
    let armed = map.word(AT_ARMED);
    armed.load(Ordering::Relaxed) != 0 && armed.swap(0, Ordering::AcqRel) != 0
}

/// Where the bell of the receiver `epoch` is.
pub(crate) fn name(epoch: u64) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("wiglaf-{}-{epoch:016x}", geteuid().as_raw()))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn whoever_rings_on_and_on_keeps_nobody_from_getting_up() {
        const MORE: usize = 3 * RINGS_MAX;
        let Some(pair) = wiglaf_testnet::Pair::or_skip(1500) else { return };
        pair.a.run(|| {
            // How many a queue takes (unix(7)), of sockets opened from now on in this namespace.
            std::fs::write("/proc/sys/net/unix/max_dgram_qlen", MORE.to_string())
                .expect("root may");
            let (bell, own) = (Bell::open(7).expect("a socket"), name(7).expect("short"));
            let other = Bell::open(8).expect("a socket");
            let rung = || (0..MORE).take_while(|_| other.socket.send_to_addr(&[1], &own).is_ok());
            assert_eq!(rung().count(), MORE);
            bell.silence();
            let left = || std::iter::from_fn(|| bell.socket.recv(&mut [0]).ok()).count();
            assert_eq!(left(), MORE - RINGS_MAX);
            // What rings in earnest is forgotten in one go.
            assert_eq!(rung().take(RINGS_MAX).count(), RINGS_MAX);
            bell.silence();
            assert_eq!(left(), 0);
        });
    }
}
