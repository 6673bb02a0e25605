//! The counters of running endpoints, readable by others while they run.
//!
//! Each endpoint has a file in `/dev/shm`, named after its user and its epoch,
//! which only that user (and root) may open. The endpoint overwrites it with a
//! snapshot now and then; a reader takes what is there. Nobody waits for
//! anybody: a snapshot carries a checksum of itself, and a reader that finds a
//! half-written one reads again. So the counters themselves stay plain words
//! in the endpoint's own memory, and counting costs nothing more.
//!
//! The owner holds a lock on its file for as long as it lives, however it
//! dies; so a file that can be locked belongs to nobody, and is removed by the
//! next endpoint or reader of the same user.

#![forbid(unsafe_code)]

mod file;
#[doc(hidden)]
pub mod fuzzing;
mod layout;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use file::{Publisher, read_all};

/// Where the files are: what all processes of a node see, and no other node.
pub const FOLDER: &str = "/dev/shm";

/// Most peers in one snapshot; the busiest are taken.
pub const PEERS_MAX: usize = 256;
/// Most counters in one snapshot.
pub const COUNTERS_MAX: usize = 128;

/// What does not change over an endpoint's life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The process that it belongs to.
    pub pid: u32,
    /// Its incarnation, in hexadecimal.
    #[serde(with = "hexadecimal")]
    pub epoch: u64,
    /// Where it is.
    pub at: SocketAddrV4,
    /// When it was opened, in nanoseconds of Unix time.
    pub opened_at_ns: u64,
    /// The job's mark; empty where there is none.
    pub job: String,
    /// The name of the program.
    pub program: String,
    /// Its rank in the job, if the launcher says so.
    pub rank: Option<u32>,
    /// Its links, with commas between.
    pub links: String,
}

/// What was exchanged with one peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Where it is.
    pub at: SocketAddrV4,
    /// Its incarnation, in hexadecimal; 0 while it is not known.
    #[serde(with = "hexadecimal")]
    pub epoch: u64,
    /// By which link.
    pub via: String,
    /// Whether it is gone.
    pub is_gone: bool,
    /// Messages handed over for it.
    pub messages_sent: u64,
    /// Their payload.
    pub bytes_sent: u64,
    /// Messages that came.
    pub messages_received: u64,
    /// Their payload.
    pub bytes_received: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Messages that were announced for want of credit.
    pub credit_stalls: u64,
    /// How much may be sent unasked, in bytes of charges.
    pub credit_left: u64,
    /// Smoothed round-trip time; 0 on the near lane.
    pub rtt_ns: u64,
    /// Packets that are not acknowledged yet.
    pub in_flight: u32,
}

/// An endpoint as it was at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The user whose file it is, as the file system says.
    pub uid: u32,
    /// What does not change.
    #[serde(flatten)]
    pub identity: Identity,
    /// When this was written, in nanoseconds of Unix time.
    pub updated_at_ns: u64,
    /// Counters of the whole endpoint, by name.
    pub counters: Vec<(String, u64)>,
    /// Its peers.
    pub peers: Vec<Peer>,
    /// Peers for which there was no room.
    pub peers_left_out: u32,
}

impl Snapshot {
    /// A counter by its name; 0 when there is none of that name.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, value)| *value)
    }

    /// What was refused or lost, by reason: the counters whose names begin with `drop_`.
    pub fn drops(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counters.iter().filter_map(|(n, value)| Some((n.strip_prefix("drop_")?, *value)))
    }
}

/// Reads the snapshots of this node that this process may read.
#[must_use]
pub fn here() -> Vec<Snapshot> {
    read_all(Path::new(FOLDER))
}

const NOWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

/// Epochs as users see them elsewhere: numbers of 64 bits do not survive JSON.
mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(epoch: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format!("{epoch:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        u64::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}
