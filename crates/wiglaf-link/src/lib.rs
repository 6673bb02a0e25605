//! What every link is to the layers above: a way to send and receive UDP/IPv4
//! datagrams, one at a time or in trains.
//!
//! A link never parses the protocol. It may lose, double and reorder
//! datagrams, and may deliver damaged ones; the transport copes. Addresses
//! are those of the datagrams, whichever way the bytes really travel, so a
//! node on one link talks to a node on any other.

#![forbid(unsafe_code)]

pub mod fault;
pub mod frame;
pub mod hosts;
mod kind;
pub mod loopback;
pub mod near;
pub mod pcap;
mod ports;

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::RawFd;
use std::time::{Duration, SystemTime};

pub use kind::LinkKind;
pub use ports::Ports;

/// Which of a link's two ways a datagram should take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// The fastest way for one small frame.
    Latency,
    /// The fastest way for many full frames.
    Bulk,
}

/// A train of datagrams for one destination.
#[derive(Debug, Clone, Copy)]
pub struct Train<'a> {
    /// Where to.
    pub to: SocketAddrV4,
    /// By which way.
    pub lane: Lane,
    /// UDP payload of every datagram but the last, which may be shorter.
    pub segment_len: usize,
    /// The payloads, one behind the other.
    pub bytes: &'a [u8],
}

/// What became of a train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way.
    All,
    /// It is on its way, and its bytes are still being read: of [`Link::lend`] only.
    Lent,
    /// No room now: none of it was sent, offer it again later.
    Full,
}

/// What a link can do; constant over its life, but for `latency_train_max`, which is to be asked
/// for again after each train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest UDP payload of one datagram.
    pub frame_len_max: usize,
    /// Longest that reaches every peer: what any Ethernet carries, or all where no network is in between.
    pub frame_len_sure: usize,
    /// Most datagrams that the latency lane carries as one train; 1 where it takes them one by one.
    pub latency_train_max: usize,
    /// Most datagrams in one bulk train.
    pub bulk_train_max: usize,
    /// How many bytes may be in flight to this endpoint's bulk lane before
    /// its buffers overflow.
    pub bulk_window_len: usize,
}

/// What a link has dropped, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drops {
    /// Arrivals that made no sense.
    pub malformed: u64,
    /// Datagrams that the kernel would not send.
    pub unsent: u64,
    /// Arrivals that were lost to a full buffer, where the kernel tells.
    pub overflows: u64,
}

/// How much of a datagram a report of the network may quote.
pub const QUOTED_LEN_MAX: usize = 64;

/// A destination that was found to have no listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreachable {
    /// Where was sent to: of a peer's bulk port, where a bulk train met no listener.
    pub at: SocketAddrV4,
    /// Which incarnation is meant; 0 where the link does not know.
    pub epoch: u64,
    /// The front of the datagram that met none, as ICMP quotes it: anybody can write such a
    /// report, but who does not see the traffic cannot quote it. `None` where the link knows
    /// by itself.
    pub quoted: Option<Vec<u8>>,
}

/// How long something has waited that the kernel marked with `at_ns`, in nanoseconds since 1970, as packet sockets
/// and SO_TIMESTAMPNS do. `None` if the clock has been set back meanwhile.
#[must_use]
pub fn waited(now_ns: i64, at_ns: i64) -> Option<Duration> {
    u64::try_from(now_ns.wrapping_sub(at_ns)).ok().map(Duration::from_nanos)
}

/// The clock of those marks.
#[must_use]
pub fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as i64)
}

/// A train that has arrived. A datagram that came alone is a train of its own.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'a> {
    /// Who sent it.
    pub from: SocketAddrV4,
    /// The payloads, one behind the other.
    pub bytes: &'a [u8],
    /// Length of each payload but the last.
    pub segment_len: usize,
    /// How long it has been here, where the kernel tells; see [`waited`].
    pub waited: Option<Duration>,
}

impl<'a> Arrived<'a> {
    /// One datagram, of which nobody knows when it came.
    #[must_use]
    pub fn alone(from: SocketAddrV4, bytes: &'a [u8]) -> Self {
        Self { from, bytes, segment_len: bytes.len(), waited: None }
    }

    /// Its datagrams.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> {
        datagrams(self.bytes, self.segment_len)
    }
}

/// Takes the trains of a receive burst.
pub type Deliver<'a> = dyn FnMut(&Arrived<'_>) + 'a;

/// One way to carry datagrams.
pub trait Link: Send {
    /// Its name as users write it: `udp`, `packet`, `shm`.
    fn name(&self) -> &'static str;

    /// The address that peers send ordered and control datagrams to.
    fn local(&self) -> SocketAddrV4;

    /// The UDP port that peers send bulk datagrams to.
    fn bulk_port(&self) -> u16;

    /// What it can do.
    fn limits(&self) -> Limits;

    /// Whether `to` can be reached at all through this link.
    fn reaches(&self, to: SocketAddrV4) -> bool;

    /// Tells which incarnation listens at `at`: for links that find a peer by
    /// its epoch. May be called again, when the peer has a new one.
    fn add_peer(&mut self, _at: SocketAddrV4, _epoch: u64) {}

    /// Sends a train.
    ///
    /// # Errors
    /// When the link itself has failed; a datagram lost on the way, or a
    /// destination that refuses it, is no error.
    fn send(&mut self, train: &Train<'_>) -> io::Result<Sent>;

    /// Sends `train` without a copy of its bytes, where the link can (zero-copy). If the answer is [`Sent::Lent`], the
    /// caller does not touch them before the receiver has acknowledged them. Memory may be given back to the system
    /// before, but not to an allocator, which would use it for what is nobody else's business.
    ///
    /// # Errors
    /// As above.
    fn lend(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        self.send(train)
    }

    /// Sends a datagram that is to arrive whole or not at all: nobody cuts it on its way (the flag "don't
    /// fragment", RFC 791), so that its arrival shows how long datagrams may be. Links whose datagrams are
    /// never cut send it as any other.
    ///
    /// # Errors
    /// As above.
    fn probe(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        self.send(train)
    }

    /// Hands over what has arrived, at most one burst, and says how many
    /// datagrams that was. Never blocks.
    ///
    /// # Errors
    /// When the link itself has failed.
    fn recv_trains(&mut self, deliver: &mut Deliver<'_>) -> io::Result<usize>;

    /// Hands over what has arrived, at most one burst, datagram by datagram, and says how many that was. Never blocks.
    ///
    /// # Errors
    /// When the link itself has failed.
    fn recv(&mut self, deliver: &mut dyn FnMut(SocketAddrV4, &[u8])) -> io::Result<usize> {
        self.recv_trains(&mut |train| {
            train.datagrams().for_each(|datagram| deliver(train.from, datagram));
        })
    }

    /// A destination that was found to have no listener (ICMP port
    /// unreachable), once per finding.
    fn take_unreachable(&mut self) -> Option<Unreachable> {
        None
    }

    /// What it has dropped so far, as far as it knows.
    fn drops(&self) -> Drops {
        Drops::default()
    }

    /// Whether frames were dropped on their way to this link for want of room since it was asked last, as
    /// far as it knows. To ask costs next to nothing.
    fn was_overrun(&mut self) -> bool {
        false
    }

    /// Whether all was taken that was there when it was last looked at. If it does not know, it looks
    /// everywhere the next time.
    fn is_quiet(&mut self) -> bool {
        true
    }

    /// Descriptors that turn readable when something arrives, to block on.
    fn wait_fds(&self) -> Vec<RawFd>;

    /// Bulk datagrams are on their way: for links that look at an idle bulk
    /// lane less often.
    fn expect_bulk(&mut self) {}

    /// Its near lane, if it has one. Who asks once must poll it from then on.
    /// Decorators hide it: what they do to datagrams would not happen there.
    fn near(&mut self) -> Option<&mut dyn near::Near> {
        None
    }

    /// Called before blocking on [`Link::wait_fds`], and with `false`
    /// afterwards, for links whose peers must be asked to signal. Answers
    /// whether something has arrived in the meantime.
    fn arm(&mut self, _armed: bool) -> bool {
        false
    }
}

/// So that decorators take links that were chosen at run time.
impl<L: Link + ?Sized> Link for Box<L> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn local(&self) -> SocketAddrV4 {
        (**self).local()
    }

    fn bulk_port(&self) -> u16 {
        (**self).bulk_port()
    }

    fn limits(&self) -> Limits {
        (**self).limits()
    }

    fn reaches(&self, to: SocketAddrV4) -> bool {
        (**self).reaches(to)
    }

    fn add_peer(&mut self, at: SocketAddrV4, epoch: u64) {
        (**self).add_peer(at, epoch);
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        (**self).send(train)
    }

    fn lend(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        (**self).lend(train)
    }

    fn probe(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        (**self).probe(train)
    }

    fn recv_trains(&mut self, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        (**self).recv_trains(deliver)
    }

    fn take_unreachable(&mut self) -> Option<Unreachable> {
        (**self).take_unreachable()
    }

    fn drops(&self) -> Drops {
        (**self).drops()
    }

    fn was_overrun(&mut self) -> bool {
        (**self).was_overrun()
    }

    fn is_quiet(&mut self) -> bool {
        (**self).is_quiet()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        (**self).wait_fds()
    }

    fn expect_bulk(&mut self) {
        (**self).expect_bulk();
    }

    fn near(&mut self) -> Option<&mut dyn near::Near> {
        (**self).near()
    }

    fn arm(&mut self, armed: bool) -> bool {
        (**self).arm(armed)
    }
}

impl Train<'_> {
    /// The datagrams of the train.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        datagrams(self.bytes, self.segment_len)
    }
}

/// The datagrams of a train: one with an empty payload when there are no bytes
/// at all.
fn datagrams(train: &[u8], segment_len: usize) -> impl Iterator<Item = &[u8]> {
    let empty: Option<&[u8]> = train.is_empty().then_some(&[]);
    empty.into_iter().chain(train.chunks(segment_len.max(1)))
}
