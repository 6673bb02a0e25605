//! Transport × links: one endpoint of a process.
//!
//! The endpoint owns its links and its protocol state, matches messages with
//! posted receives, moves payloads between user memory and the wire, and
//! decides how to wait. It runs only when called: there is no thread.
//!
//! Matching follows MPI and libfabric: a receive matches by class, source and
//! `(tag ^ wanted) & !ignore == 0`, in order of arrival and of posting.

mod active;
mod ahead;
mod announced;
mod atomics;
mod books;
mod content;
mod endpoint;
mod exposed;
#[doc(hidden)]
pub mod fuzzing;
mod limits;
mod link_set;
mod lists;
mod looks;
mod machines;
mod matching;
mod memory;
mod near;
mod owed;
#[doc(hidden)]
pub mod queues;
mod remote;
mod scratch;
mod setup;
mod sleepers;
mod stalled;
mod table;
mod target;
mod trains;
mod waiting;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

pub use atomics::{Element, Function};
pub use endpoint::{Endpoint, Pause};
pub use exposed::{Access, ExposeError, Exposed, Refusal};
pub use memory::{REGIONS_MAX, Region};
pub use near::NearStats;
pub use remote::{ATOMIC_LEN_MAX, AtomicOp, Hold, RemoteOp, RemoteStats};
pub use scratch::Scratch;
pub use setup::Setup;
pub use sleepers::Nap;
pub use waiting::WaitPolicy;
pub use wiglaf_link::hosts::{Answer, Hosts};
pub use wiglaf_link::{LinkKind, Ports};
pub use wiglaf_transport::limits::{EAGER_LEN_MAX, FRAME_LEN_MIN, UNASKED_LEN_MAX};
pub use wiglaf_transport::{Gone, Lengths, PeerId, PeerView, Stats, Traffic, WayNews};
pub use wiglaf_wire::encrypted::TAG_LEN;
pub use wiglaf_wire::{Class, Epoch, JobKey};

/// Where an endpoint is and which incarnation of it is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// IPv4 address and UDP port.
    pub at: SocketAddrV4,
    /// The incarnation, or [`Epoch::UNKNOWN`] for whoever listens there.
    pub epoch: Epoch,
}

/// When a send is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompleteWhen {
    /// As soon as the buffer may be used again.
    Transmit,
    /// When the peer has acknowledged all of it.
    Delivery,
    /// When a receive of the peer's has taken it.
    Match,
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
    /// The target refused a one-sided operation.
    Refused(Refusal),
}

/// Which operation a completion is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A send or a one-sided operation.
    Send,
    /// A receive, a peek or a claim; what a peer did to exposed memory.
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
    /// The message's tag; the region's key, in one-sided classes.
    pub tag: u64,
    /// Who sent it; meaningful for receives.
    pub source: Option<PeerId>,
    /// The operation is a multi-receive buffer, which may complete again.
    pub is_multi: bool,
    /// The multi-receive buffer is released with this completion.
    pub multi_released: bool,
    /// How it ended.
    pub outcome: Outcome,
}

impl Completion {
    /// Of an operation that ended so, and of which there is nothing else to be told.
    #[must_use]
    pub fn new(side: Side, class: Class, context: usize, outcome: Outcome) -> Self {
        Self {
            side,
            class,
            context,
            len: 0,
            buf: std::ptr::null_mut(),
            data: None,
            tag: 0,
            source: None,
            is_multi: false,
            multi_released: false,
            outcome,
        }
    }
}

/// Why a post was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostError {
    /// No room now: progress, then try again.
    Again,
    /// The peer is known to be gone.
    PeerGone,
    /// Longer than allowed (inject, atomics).
    TooLong,
    /// A function that is not defined for such elements or such a call.
    Unsupported,
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
    /// The UDP ports that are to be taken; `None`: any.
    pub ports: Option<Ports>,
    /// Incarnation; drawn at random when `None`.
    pub epoch: Option<Epoch>,
    /// The job's secret.
    pub key: JobKey,
    /// Which links.
    pub link: LinkKind,
    /// How long a peer may be silent while something is owed before it counts as gone.
    pub silence_limit: Duration,
    /// How long a peer's machine may be silent, too, before all of its peers count as gone; `None`: for ever.
    pub host_limit: Option<Duration>,
    /// Off only to show what happens without it.
    pub flow_control: bool,
    /// Whether datagrams are encrypted, and only encrypted ones taken.
    pub encrypt: bool,
    /// Whether processes of one node may read each other's memory.
    pub memory_access: bool,
    /// Whether what is counted can be seen from outside (`wiglaf stats`).
    pub publish: bool,
    /// See [`Endpoint::set_late_peeks`].
    pub late_peeks: bool,
    /// How its threads wait.
    pub wait: WaitPolicy,
    /// Whether a thread of the provider's moves data while the application does other things.
    pub progress_thread: bool,
    /// From which length on messages take another way.
    pub lengths: Lengths,
    /// Whether ranks share cores, so that who waits gives its core away at each poll.
    pub oversubscribed: bool,
}

/// Longest active message, in bytes: its receiver allocates it unasked.
pub const ACTIVE_LEN_MAX: usize = 64 << 20;

/// An active message that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveMessage {
    /// Who sent it.
    pub source: PeerId,
    /// The handler that it is for.
    pub handler: u64,
    /// The sender's immediate data.
    pub data: Option<u64>,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// Every counter of an endpoint with its name, those of several links added up.
pub type Counters = Vec<(&'static str, u64)>;

/// What is counted and known of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerCounts {
    /// Where it is.
    pub address: Address,
    /// By which link: `udp`, `packet` or `shm`; `near` past the transport.
    pub via: &'static str,
    /// Smoothed round-trip time of datagrams; zero on the near lane.
    pub rtt: Duration,
    /// Packets that are not acknowledged yet.
    pub in_flight: u32,
    /// How much may be sent unasked, in bytes of charges.
    pub credit_left: u64,
    /// Whether it is gone.
    pub is_gone: bool,
    /// Messages and bytes.
    pub traffic: Traffic,
}

/// What there is to be said of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// What was found out about the way to it.
    Way(WayNews),
    /// It was not heard for long, and its machine, which never answers, does not either.
    MachineUnknown,
    /// It has begun, its machine answers, and nothing was ever heard of it.
    Unheard,
    /// It is gone.
    Gone(Gone),
}

/// News of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerNews {
    /// Where the peer is, as far as is known.
    pub address: Address,
    /// For how long it was not heard.
    pub silent: Duration,
    /// What there is to be said.
    pub news: News,
}
