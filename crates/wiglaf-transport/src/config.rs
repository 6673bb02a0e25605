//! How an endpoint is set up.

use std::time::Duration;

use wiglaf_wire::{Epoch, HEADER_LEN, JobKey, SEGMENT_PREFIX_LEN};

use crate::limits::{EAGER_LEN_MAX, UNASKED_LEN_MAX};

/// Index of a peer in its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

/// What a way to peers can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Longest datagram, headers of this protocol included, in bytes.
    pub frame_len_max: usize,
    /// Longest one that gets there without having been tried: what every path carries, or all where
    /// nothing can be in the way.
    pub frame_len_sure: usize,
    /// Most datagrams in a train to the port of single ones; 1: there are no such trains.
    pub latency_train_max: usize,
    /// Most datagrams in a bulk train.
    pub bulk_train_max: usize,
    /// How many bulk bytes may be in flight to this endpoint.
    pub bulk_window_len: usize,
    /// The port where this endpoint awaits bulk segments.
    pub bulk_port: u16,
}

impl Path {
    /// Most bytes of a message in one bulk datagram.
    pub(crate) fn segment_len_max(&self) -> usize {
        self.frame_len_max - HEADER_LEN - SEGMENT_PREFIX_LEN
    }
}

/// How a transport is set up.
#[derive(Debug, Clone)]
pub struct Config {
    /// This incarnation; must be known.
    pub epoch: Epoch,
    /// The job's secret.
    pub key: JobKey,
    /// Whether datagrams are encrypted, and only encrypted ones taken.
    pub encrypt: bool,
    /// The ways to peers.
    pub paths: Vec<Path>,
    /// How long a peer that owes an answer may be silent.
    pub silence_limit: Duration,
    /// Off only to show what happens without it.
    pub flow_control: bool,
}

/// From which length on messages take another way: eager messages are copied at either end, unasked ones are received
/// into the buffer of their receive where there is one, and of longer ones only the first bytes go before they are asked
/// for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// Longest eager message, in bytes.
    eager_max: u32,
    /// Longest message that goes as a whole unasked, in bytes.
    unasked_max: u32,
}

impl Lengths {
    /// So many bytes; no more than [`UNASKED_LEN_MAX`] count.
    #[must_use]
    pub fn new(eager_max: u64, unasked_max: u64) -> Self {
        let capped = |len: u64| len.min(UNASKED_LEN_MAX) as u32;
        Self { eager_max: capped(eager_max), unasked_max: capped(unasked_max) }
    }

    pub(crate) fn is_eager(self, len: u64) -> bool {
        len <= u64::from(self.eager_max)
    }

    pub(crate) fn is_unasked(self, len: u64) -> bool {
        len <= u64::from(self.unasked_max)
    }
}

impl Default for Lengths {
    fn default() -> Self {
        Self::new(EAGER_LEN_MAX as u64, UNASKED_LEN_MAX)
    }
}
