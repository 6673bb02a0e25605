//! What a pair of hosts says: measured between two processes, one on each, that the caller steers.
//!
//! On each host runs [`serve`] (the hidden command `wiglaf host-probe`): it reads one [`Request`] a
//! line from its standard input, obeys, and writes one [`Answer`] a line. It decides nothing and ends
//! with its input, so it leaves nothing behind when ssh goes away. The caller holds both ends and
//! [`measure`]s: the order of the steps, and what follows from them, are in its process alone.
//!
//! Data goes to the peer address of [`Open`], or to a multicast group that the session has drawn, and nowhere else,
//! from the own address given there. All
//! datagrams of plain sockets carry a token that is drawn for each session, and the link has a key
//! of its own, also drawn for it. A peer that is silent is an answer; no step waits longer than its
//! limit, which is part of its request.

mod host;
mod lines;
mod link;
mod pair;
mod plain;
mod plan;
mod tournament;

use std::net::{Ipv4Addr, SocketAddrV4};

use serde::{Deserialize, Serialize};

use crate::facts::Counts;
use crate::known::Known;

pub use host::serve;
pub use lines::{Lines, Side};
pub use pair::{End, measure, stream_together};
pub use plan::Plan;
pub use tournament::{Connect, Measured, tournament};

/// Names the layout of requests and answers.
pub const SCHEMA: &str = "wiglaf-probe/1";

/// What the caller asks of one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Begins a session; an earlier one ends.
    Open(Open),
    /// Tells where the other side is, as its [`Opened`] said.
    Meet(Opened),
    /// Sends a few datagrams to each of these ports of the peer.
    Knock(Vec<u16>),
    /// Which ports have been knocked at since the session began, after so many milliseconds.
    Heard(u64),
    /// Sends `copies` datagrams that may not be fragmented, of IP length `len`.
    Probe {
        /// Tells these from others.
        id: u32,
        /// With IP and UDP headers, in bytes.
        len: u32,
        /// How often, against chance.
        copies: u32,
    },
    /// How many of those probes have come, after at most so many milliseconds.
    Seen {
        /// Which.
        id: u32,
        /// How long to wait for the first.
        wait_ms: u64,
    },
    /// Sends `copies` datagrams to the session's multicast group, which the peer has joined: [`Request::Seen`] tells
    /// whether they come.
    Shout {
        /// Tells these from others.
        id: u32,
        /// How often, against chance.
        copies: u32,
    },
    /// Measures round trips over the plain socket, and the clocks' difference.
    Ping {
        /// Round trips.
        rounds: u32,
        /// No longer than this.
        limit_ms: u64,
    },
    /// Sends `count` datagrams, evenly over time.
    Pour {
        /// Tells these from others.
        id: u32,
        /// How many.
        count: u32,
        /// Payload of each, in bytes.
        len: u32,
        /// So many a second.
        per_s: u32,
    },
    /// How many of those have come.
    Poured(u32),
    /// What the interface has counted.
    Counts,
    /// Measures round trips of 8 bytes over the link.
    LinkPing {
        /// Round trips.
        rounds: u32,
        /// Pause before each, in microseconds: cards and processors fall asleep in it.
        pause_us: u64,
        /// No longer than this.
        limit_ms: u64,
    },
    /// Sends one message over the link and has its content checked.
    LinkMessage {
        /// Its length in bytes; 0: one that fills a frame, and a little more.
        len: u32,
        /// What it is made of.
        seed: u64,
        /// How long the peer has to confirm.
        limit_ms: u64,
    },
    /// Sends messages over the link for so long.
    LinkStream {
        /// How long.
        for_ms: u64,
    },
    /// Keeps this host's processors from resting, until `false` or the end of the session: what that
    /// gives is measured so.
    HoldAwake(bool),
    /// Ends the session.
    Close,
}

/// How a session begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// [`SCHEMA`].
    pub schema: String,
    /// The address to send from.
    pub own: Ipv4Addr,
    /// The only address to send to.
    pub peer: Ipv4Addr,
    /// First and last of the UDP ports that jobs use.
    pub ports: (u16, u16),
    /// How many of them to listen at.
    pub samples: u16,
    /// Drawn at random: token and key of this session, 64 hexadecimal digits.
    pub secret: String,
    /// The link, as `WIGLAF_LINK` names it; none: plain sockets only.
    pub link: Option<String>,
}

/// Where a side can be met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The socket of pings, probes and floods.
    pub plain: SocketAddrV4,
    /// Ports of the range that it listens at.
    pub listening: Vec<u16>,
    /// Ports of the sample that another process has.
    pub busy: Vec<u16>,
    /// The interface's longest IP packet, in bytes.
    pub mtu: u32,
    /// The link, or why there is none.
    pub link: Known<OpenedLink>,
}

/// Where a link can be met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedLink {
    /// Its name: `udp`, `packet`.
    pub name: String,
    /// Its address.
    pub at: SocketAddrV4,
    /// Its incarnation, in hexadecimal.
    pub epoch: String,
    /// Why it is not quite what was asked for.
    pub note: Option<String>,
}

/// What a side answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To [`Request::Open`].
    Opened(Opened),
    /// To [`Request::Meet`], [`Request::HoldAwake`], [`Request::Close`].
    Done,
    /// To [`Request::Knock`]: ports from which the kernel had word that nobody listens there.
    Knocked(Vec<u16>),
    /// To [`Request::Heard`].
    Heard(Vec<u16>),
    /// To [`Request::Probe`] and [`Request::Shout`].
    Probed(Sent),
    /// To [`Request::Seen`].
    Seen(u32),
    /// To [`Request::Ping`].
    Pinged {
        /// Half round trips.
        latency: Latency,
        /// The peer's clock.
        clock: Option<ClockDifference>,
    },
    /// To [`Request::Pour`]: how many were sent, and how long it took in milliseconds.
    Pouring(u32, u64),
    /// To [`Request::Poured`]: how many came, and how many of them after a later one.
    Poured(u32, u32),
    /// To [`Request::Counts`].
    Counts(Counts),
    /// To [`Request::LinkPing`].
    LinkPinged(Latency),
    /// To [`Request::LinkMessage`].
    LinkMessage(Delivery),
    /// To [`Request::LinkStream`]: bytes that the peer has acknowledged, a second.
    LinkStream(f64),
    /// It could not be done, and why.
    Failed(String),
}

/// What became of a datagram that may not be fragmented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sent {
    /// It has left.
    Left,
    /// This host's kernel refused it as too long for its own interface.
    TooLongHere,
    /// A router on the way refused it as too long.
    TooLongThere,
}

/// Half round trips.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// The shortest, in microseconds, as all that follows.
    pub min_us: f64,
    /// The median.
    pub p50_us: f64,
    /// All but one in a hundred are below it.
    pub p99_us: f64,
    /// How many there were.
    pub rounds: u32,
    /// How many were lost.
    pub lost: u32,
}

/// What the other host's clock says, as seen from here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockDifference {
    /// By how much the peer's is ahead, in nanoseconds.
    pub ahead_ns: i64,
    /// That may be wrong by so much.
    pub bound_ns: i64,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Its content arrived, after so many microseconds.
    Intact(u64),
    /// Something else arrived.
    Damaged,
    /// The peer did not confirm it in time.
    Silent,
    /// The link gave up.
    Failed(String),
}

/// What was measured between two hosts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PairResult {
    /// One host.
    pub a: String,
    /// The other.
    pub b: String,
    /// The link that `a` has for the data network.
    pub a_link: Known<OpenedLink>,
    /// The link that `b` has.
    pub b_link: Known<OpenedLink>,
    /// From `a` to `b`.
    pub a_to_b: Way,
    /// From `b` to `a`.
    pub b_to_a: Way,
    /// Half round trips over plain UDP.
    pub plain: Known<Latency>,
    /// Half round trips of 8 bytes over the link.
    pub link: Known<Latency>,
    /// Such round trips, each after a pause.
    pub after_pause: Known<Latency>,
    /// Half round trips of 8 bytes over the link, each after a pause, while both hosts keep their processors awake,
    /// where the user may.
    pub after_pause_awake: Known<Latency>,
    /// How much `b`'s clock is ahead of `a`'s.
    pub clock: Known<ClockDifference>,
    /// How many pairs were measured at that time, this one included.
    pub at_once: u32,
    /// What ended the measurement early: a side that fell silent.
    pub failure: Option<String>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// What was measured in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Way {
    /// Which ports of the range let datagrams through.
    pub ports: Known<Ports>,
    /// The longest IP packet.
    pub mtu: Known<PathMtu>,
    /// A message that fills a frame, over the link.
    pub frame: Known<Delivery>,
    /// A long message over the link.
    pub long: Known<Delivery>,
    /// 10^6 bytes a second over the link, while the other direction is idle.
    pub stream_mb_s: Known<f64>,
    /// 10^6 bytes a second over the link, while the other direction is busy, too.
    pub stream_both_mb_s: Known<f64>,
    /// What was lost of datagrams sent evenly.
    pub loss: Known<Loss>,
    /// Whether what the sender sends to a multicast group comes to the receiver, which has joined it.
    pub multicast: Known<bool>,
}

/// Ports of the jobs' range.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ports {
    /// First and last of the range.
    pub range: (u16, u16),
    /// Ports at which the receiver listened.
    pub asked: Vec<u16>,
    /// Ports at which a datagram arrived.
    pub arrived: Vec<u16>,
    /// Ports that the kernel or a firewall refused with a word.
    pub refused: Vec<u16>,
    /// Ports that another process of the receiver has.
    pub busy: Vec<u16>,
}

/// The longest IP packet that gets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMtu {
    /// What the sender's interface takes, in bytes.
    pub interface: u32,
    /// What arrives.
    pub largest: u32,
    /// What happens to one byte more.
    pub beyond: Beyond,
}

/// What happens to a packet that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beyond {
    /// The sender's kernel says so.
    Told,
    /// A router on the way says so.
    ToldByRouter,
    /// It vanishes without a word.
    Vanishes,
}

/// What was lost of many datagrams.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Loss {
    /// How many were sent.
    pub sent: u32,
    /// How many arrived.
    pub arrived: u32,
    /// How many of those after a later one.
    pub reordered: u32,
    /// In so many milliseconds.
    pub took_ms: u64,
    /// What the sender's interface counted meanwhile.
    pub sender: Known<Counts>,
    /// What the receiver's interface counted.
    pub receiver: Known<Counts>,
}

#[cfg(test)]
mod tests;
