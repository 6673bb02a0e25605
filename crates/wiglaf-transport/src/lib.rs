//! The Wiglaf protocol as a sans-I/O state machine.
//!
//! Time and bytes are arguments: [`Transport::handle_datagram`] takes what a
//! link received, [`Transport::poll_transmit`] says what to send,
//! [`Transport::poll_timeout`] when to call [`Transport::handle_timeout`].
//! There is no clock, socket, thread or unsafe code in here, which is what
//! lets a simulator run the same code through any fault in virtual time.
//!
//! User memory is not in here either. Payloads come from a [`Source`] and go
//! to a [`Sink`], both named by tokens that the caller chose.
//!
//! The rules are in `docs/protocol.md`; code cites them.

#![forbid(unsafe_code)]

mod config;
mod congestion;
mod credit;
mod encryption;
mod epochs;
mod hearing;
pub mod limits;
mod outgrown;
mod overrun;
mod peers;
mod queue;
mod receive_lane;
mod receive_window;
mod rendezvous;
mod returns;
mod rtt;
mod schedule;
mod send_lane;
mod sequence;
mod session;
mod sizing;
mod slab;
mod stats;
mod time;
mod trains;
mod transport;

pub use config::{Config, Lengths, Path, PeerId};
pub use credit::{bounded_charge, needs_credit};
pub use session::{PeerView, Silence};
pub use sizing::WayNews;
pub use stats::{Stats, Traffic};
pub use time::Instant;
pub use transport::Transport;

use std::net::SocketAddrV4;

use wiglaf_wire::{Crc32c, Envelope};

/// Where outgoing payloads come from.
pub trait Source {
    /// Copies `out.len()` bytes of the send that is named `token`, from
    /// `offset` on.
    fn read(&self, token: u64, offset: u64, out: &mut [u8]);

    /// Copies as [`Source::read`] does; answers `sum` continued over the bytes. A source that can make it while it
    /// copies, does.
    fn read_summed(&self, token: u64, offset: u64, out: &mut [u8], sum: Crc32c) -> Crc32c {
        self.read(token, offset, out);
        sum.over(out)
    }
}

/// What a receiver wants of a message that was announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// How many of its first bytes.
    pub len: u64,
    /// Name of the transfer in later [`Sink`] calls.
    pub token: u64,
}

/// Why a peer is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// It said good-bye.
    Closed,
    /// Nobody listens at its port any more.
    Unreachable,
    /// It owed an answer for longer than the silence limit.
    Silent,
    /// Its machine has not answered either, for longer than is allowed.
    MachineSilent,
    /// It is there, but what is sent to it does not arrive.
    Blocked,
}

/// Where incoming payloads and news go.
pub trait Sink {
    /// A whole eager message. True when its memory is not needed any further;
    /// otherwise [`Transport::consume`] gives the credit back later.
    fn message(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> bool;
    /// The first part of an eager message of `total` bytes.
    fn first(&mut self, peer: PeerId, envelope: &Envelope, total: u64, payload: &[u8]);
    /// The next part; `last` with the final one, whose answer means what that
    /// of [`Sink::message`] means.
    fn next(&mut self, peer: PeerId, payload: &[u8], last: bool) -> bool;
    /// A message waits to be pulled. An answer pulls it at once, and
    /// [`Sink::pulled`] follows even if nothing is wanted; otherwise
    /// [`Transport::pull`] does so later.
    fn request(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        total: u64,
        send_id: u32,
    ) -> Option<Wanted>;
    /// Bytes of a pulled message, in any order, each once.
    fn segment(&mut self, token: u64, offset: u64, payload: &[u8]);
    /// A pull has ended: all its bytes came, or the peer is gone.
    fn pulled(&mut self, token: u64, complete: bool);
    /// A send that was to be reported has ended: the peer has all it wanted,
    /// or is gone.
    fn sent(&mut self, token: u64, complete: bool);
    /// A peer is gone. Its operations have been reported before.
    fn gone(&mut self, peer: PeerId, why: Gone);
}

/// What became of a message that was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    /// Its payload was copied; the buffer is free.
    Buffered,
    /// Its payload will be read through the [`Source`] until [`Sink::sent`].
    Pending,
}

/// Why a message was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// Too much is queued already; try again after progress.
    Again,
    /// The peer is gone.
    PeerGone,
}

/// A train to be put on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// For whom.
    pub peer: PeerId,
    /// Where to.
    pub to: SocketAddrV4,
    /// Index of the path in [`Config::paths`].
    pub path: usize,
    /// Whether it belongs to the bulk lane.
    pub bulk: bool,
    /// Whether it is there to be lost if it is too long: nobody is to cut it on its way.
    pub is_probe: bool,
    /// Bytes written to the buffer.
    pub len: usize,
    /// Length of each datagram but the last.
    pub segment_len: usize,
    /// Which numbers end with it, of a train of packets that were not sent before, and whose job
    /// does not encrypt.
    pub mark: Option<Mark>,
}

/// A place in the numbers of packets that a peer was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Whose.
    pub peer: PeerId,
    /// Of the bulk lane's, not the ordered lane's.
    pub bulk: bool,
    /// The first number behind it.
    pub end: u64,
}
