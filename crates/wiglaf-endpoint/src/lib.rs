//! Transport × links: one endpoint of a process.
//!
//! The endpoint owns its links and its protocol state, matches messages with
//! posted receives, moves payloads between user memory and the wire, and
//! decides how to wait. It runs only when called: there is no thread.
//!
//! Matching follows MPI and libfabric: a receive matches by class, source and
//! `(tag ^ wanted) & !ignore == 0`, in order of arrival and of posting.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

pub use wiglaf_transport::PeerId;
pub use wiglaf_wire::{Class, Epoch, JobKey};

/// Where an endpoint is and which incarnation of it is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// IPv4 address and UDP port.
    pub at: SocketAddrV4,
    /// The incarnation, or [`Epoch::UNKNOWN`] for whoever listens there.
    pub epoch: Epoch,
}

/// Which links to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkChoice {
    /// The best that works here.
    #[default]
    Auto,
    /// Plain UDP sockets only.
    Udp,
    /// AF_PACKET between nodes.
    Packet,
    /// Shared memory only: all ranks on one node.
    Shm,
}

/// A piece of user memory.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    /// Its first byte; may be null when `len` is 0.
    pub ptr: *mut u8,
    /// Its length in bytes.
    pub len: usize,
}

/// When a send is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompleteWhen {
    /// As soon as the buffer may be used again.
    Transmit,
    /// When the peer has acknowledged all of it.
    Delivery,
}

/// A send to be posted.
#[derive(Debug, Clone, Copy)]
pub struct SendOp {
    /// To whom.
    pub peer: PeerId,
    /// Tagged, untagged or active.
    pub class: Class,
    /// The tag, or the handler of an active message.
    pub tag: u64,
    /// Remote completion data.
    pub data: Option<u64>,
    /// Comes back in the completion.
    pub context: usize,
    /// When it is complete.
    pub complete: CompleteWhen,
    /// Whether success is reported at all (failure always is).
    pub report: bool,
    /// The buffer may be used again as soon as the call returns.
    pub inject: bool,
}

/// A receive to be posted.
#[derive(Debug, Clone, Copy)]
pub struct RecvOp {
    /// Tagged or untagged.
    pub class: Class,
    /// From whom, or from anybody.
    pub from: Option<PeerId>,
    /// The tag wanted.
    pub tag: u64,
    /// Bits of the tag that do not matter.
    pub ignore: u64,
    /// Comes back in the completion.
    pub context: usize,
    /// Whether success is reported at all (failure always is).
    pub report: bool,
    /// For a buffer that takes several messages: it is released when fewer
    /// than this many bytes are left.
    pub multi_min_free: Option<usize>,
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Done,
    /// The message was longer than the buffer by so many bytes.
    Truncated(usize),
    /// It was cancelled.
    Canceled,
    /// A peek found nothing.
    NoMessage,
    /// The peer is gone.
    PeerGone,
}

/// Which operation a completion is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A send.
    Send,
    /// A receive, a peek or a claim.
    Recv,
}

/// A finished operation.
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    /// Send or receive.
    pub side: Side,
    /// Tagged, untagged or active.
    pub class: Class,
    /// What the operation was posted with.
    pub context: usize,
    /// Payload length in bytes (for a peek: of the whole message).
    pub len: usize,
    /// Where the payload begins, for receives into multi-receive buffers.
    pub buf: *mut u8,
    /// The sender's remote completion data.
    pub data: Option<u64>,
    /// The message's tag.
    pub tag: u64,
    /// Who sent it; meaningful for receives.
    pub source: Option<PeerId>,
    /// The multi-receive buffer is released with this completion.
    pub multi_released: bool,
    /// How it ended.
    pub outcome: Outcome,
}

/// Why a post was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostError {
    /// No room now: progress, then try again.
    Again,
    /// The peer is known to be gone.
    PeerGone,
    /// Longer than allowed (inject).
    TooLong,
    /// No claimed message with that context.
    NotClaimed,
}

/// How an endpoint is set up.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address to bind, or unspecified for the first that is not loopback.
    pub ip: Ipv4Addr,
    /// The UDP port, or 0 for any.
    pub port: u16,
    /// Incarnation; drawn at random when `None`.
    pub epoch: Option<Epoch>,
    /// The job's secret.
    pub key: JobKey,
    /// Which links.
    pub link: LinkChoice,
    /// How long a peer may be silent while something is owed before it counts as gone.
    pub silence_limit: Duration,
}

/// One endpoint of a process.
#[derive(Debug)]
pub struct Endpoint {}

#[expect(unused_variables, clippy::todo, clippy::needless_pass_by_value, missing_docs)]
impl Endpoint {
    pub fn name(&self) -> Address {
        todo!()
    }
    /// Longest payload that may be injected, in bytes.
    pub fn inject_len_max(&self) -> usize {
        todo!()
    }
    /// Makes `address` known; the same address gives the same peer again.
    pub fn insert(&mut self, address: Address) -> PeerId {
        todo!()
    }
    pub fn address_of(&self, peer: PeerId) -> Option<Address> {
        todo!()
    }
    /// # Safety
    /// Unless `op.inject`, the regions must stay valid and unchanged until
    /// the send completes or the endpoint is dropped.
    pub unsafe fn post_send(&mut self, op: &SendOp, regions: &[Region]) -> Result<(), PostError> {
        todo!()
    }
    /// # Safety
    /// The regions must stay valid and untouched until the receive completes,
    /// is cancelled, or the endpoint is dropped.
    pub unsafe fn post_recv(&mut self, op: &RecvOp, regions: &[Region]) -> Result<(), PostError> {
        todo!()
    }
    /// Looks for a message without receiving it. Reports a completion (found, or
    /// [`Outcome::NoMessage`]) with `op.context`. With `claim` the found message is set aside for
    /// [`Endpoint::post_claimed`] with the same context.
    pub fn peek(&mut self, op: &RecvOp, claim: bool) {
        todo!()
    }
    /// Receives the message that a peek claimed under `op.context`.
    ///
    /// # Safety
    /// As for [`Endpoint::post_recv`].
    pub unsafe fn post_claimed(
        &mut self,
        op: &RecvOp,
        regions: &[Region],
    ) -> Result<(), PostError> {
        todo!()
    }
    /// Drops the message that a peek claimed under `context`, with a completion.
    pub fn discard_claimed(&mut self, op: &RecvOp) -> Result<(), PostError> {
        todo!()
    }
    /// Cancels a posted receive that has matched nothing yet: its completion says
    /// [`Outcome::Canceled`]. False when there is none (left).
    pub fn cancel(&mut self, context: usize) -> bool {
        todo!()
    }
    /// Receives, delivers, acknowledges, sends. True when anything happened.
    pub fn progress(&mut self) -> bool {
        todo!()
    }
    /// The next finished operation of that side.
    pub fn pop_completion(&mut self, side: Side) -> Option<Completion> {
        todo!()
    }
    /// To be called when a caller that polls found nothing: yields, or blocks for
    /// at most a millisecond, as the waiting policy finds best.
    pub fn idle(&mut self) {
        todo!()
    }
    /// Blocks until something arrives, a timer is due, or `timeout` has passed.
    pub fn wait(&mut self, timeout: Duration) {
        todo!()
    }
    /// Waits until what was sent is acknowledged (bounded), then says good-bye.
    pub fn close(&mut self) {
        todo!()
    }
}
