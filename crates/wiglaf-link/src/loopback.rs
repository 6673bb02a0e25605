//! Links of one process among themselves, in memory: for tests of what is
//! above them, and of decorators.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Arrived, Deliver, Limits, Link, Sent, Train, Unreachable};

/// Most datagrams of one receive burst.
const BURST_MAX: usize = 32;

/// Tells a link's bulk port from its own.
const BULK_PORT_BIT: u16 = 0x8000;

/// What joins loopback links.
#[derive(Debug, Clone, Default)]
pub struct Hub {
    mailboxes: Arc<Mutex<HashMap<SocketAddrV4, Mailbox>>>,
}

/// Source and payload of a datagram on its way.
type Datagram = (SocketAddrV4, Vec<u8>);

#[derive(Debug, Default)]
struct Mailbox {
    datagrams: VecDeque<Datagram>,
    capacity: usize,
}

impl Hub {
    /// A hub without links.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a link at `at` that holds up to `capacity` unread datagrams.
    ///
    /// # Errors
    /// When the address, or the bulk port beside it, is taken.
    pub fn link(&self, at: SocketAddrV4, capacity: usize) -> io::Result<LoopbackLink> {
        let mut mailboxes = self.lock();
        if mailboxes.contains_key(&at) || mailboxes.contains_key(&bulk_of(at)) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        mailboxes.insert(at, Mailbox { datagrams: VecDeque::new(), capacity });
        drop(mailboxes);
        Ok(LoopbackLink { hub: self.clone(), at, unreachable: VecDeque::new() })
    }

    /// A panic elsewhere leaves the mailboxes whole: every change is one call.
    fn lock(&self) -> MutexGuard<'_, HashMap<SocketAddrV4, Mailbox>> {
        self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bulk_of(at: SocketAddrV4) -> SocketAddrV4 {
    SocketAddrV4::new(*at.ip(), at.port() ^ BULK_PORT_BIT)
}

/// A link of a [`Hub`]. It never loses anything.
#[derive(Debug)]
pub struct LoopbackLink {
    hub: Hub,
    at: SocketAddrV4,
    unreachable: VecDeque<SocketAddrV4>,
}

impl Link for LoopbackLink {
    fn name(&self) -> &'static str {
        "loopback"
    }

    fn local(&self) -> SocketAddrV4 {
        self.at
    }

    fn bulk_port(&self) -> u16 {
        bulk_of(self.at).port()
    }

    fn limits(&self) -> Limits {
        Limits {
            frame_len_max: 1472,
            frame_len_sure: 1472,
            latency_train_max: 1,
            bulk_train_max: 44,
            bulk_window_len: 1 << 20,
        }
    }

    fn reaches(&self, _to: SocketAddrV4) -> bool {
        true
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        let mut mailboxes = self.hub.lock();
        let bulk_owner = bulk_of(train.to);
        let at = if mailboxes.contains_key(&train.to) { train.to } else { bulk_owner };
        let Some(mailbox) = mailboxes.get_mut(&at) else {
            if !self.unreachable.contains(&train.to) {
                self.unreachable.push_back(train.to);
            }
            return Ok(Sent::All);
        };
        if mailbox.datagrams.len() + train.segments().count() > mailbox.capacity {
            return Ok(Sent::Full);
        }
        mailbox.datagrams.extend(train.segments().map(|segment| (self.at, segment.to_vec())));
        Ok(Sent::All)
    }

    fn recv_trains(&mut self, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        let burst: Vec<Datagram> = self.hub.lock().get_mut(&self.at).map_or_else(Vec::new, |m| {
            let count = m.datagrams.len().min(BURST_MAX);
            m.datagrams.drain(..count).collect()
        });
        for (from, bytes) in &burst {
            deliver(&Arrived::alone(*from, bytes));
        }
        Ok(burst.len())
    }

    fn take_unreachable(&mut self) -> Option<Unreachable> {
        self.unreachable.pop_front().map(|at| Unreachable { at, epoch: 0, quoted: None })
    }

    /// None: there is nothing to block on.
    fn wait_fds(&self) -> Vec<RawFd> {
        Vec::new()
    }
}

impl Drop for LoopbackLink {
    fn drop(&mut self) {
        self.hub.lock().remove(&self.at);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::Lane;

    fn at(port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
    }

    fn train(to: SocketAddrV4, bytes: &[u8]) -> Train<'_> {
        Train { to, lane: Lane::Bulk, segment_len: 4, bytes }
    }

    #[test]
    fn carries_full_and_unreachable() {
        let hub = Hub::new();
        let mut a = hub.link(at(1), 8).expect("free");
        let mut b = hub.link(at(2), 8).expect("free");
        hub.link(at(2), 8).expect_err("taken");
        hub.link(at(2 | BULK_PORT_BIT), 8).expect_err("taken as a bulk port");
        let bulk = SocketAddrV4::new(Ipv4Addr::LOCALHOST, b.bulk_port());
        assert_eq!(a.send(&train(at(2), b"one two")).expect("works"), Sent::All);
        assert_eq!(a.send(&train(bulk, b"three")).expect("works"), Sent::All);
        assert_eq!(a.send(&train(bulk, &[0; 4 * 5])).expect("works"), Sent::Full);
        let mut got = Vec::new();
        assert_eq!(b.recv(&mut |from, d| got.push((from, d.to_vec()))).expect("works"), 4);
        let expected: [&[u8]; 4] = [b"one ", b"two", b"thre", b"e"];
        assert_eq!(got, expected.map(|bytes| (at(1), bytes.to_vec())));
        drop(b);
        assert_eq!(a.send(&train(at(2), b"")).expect("works"), Sent::All);
        let mut found = || a.take_unreachable().map(|found| found.at);
        assert_eq!((found(), found()), (Some(at(2)), None));
    }
}
