//! The near lane: records between processes that share memory.
//!
//! A datagram may be lost, doubled, damaged or forged, and the transport pays
//! for all of that with every message. In memory that only processes of one
//! user and one node can write, none of it happens: a record arrives once,
//! whole and in order, or its sender has died. So endpoints send messages to
//! peers of their node over this lane, past the transport, where a link has
//! one (docs/adr/0010). The link knows how records travel, not what they mean.

use std::mem::MaybeUninit;
use std::net::SocketAddrV4;

/// A peer on a near lane; numbers count from 0 and are not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NearId(pub u32);

/// What stands in front of a record's payload; its meaning is the endpoint's.
pub type Head = [u64; 3];

/// A piece of a peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Its address in the peer's own address space.
    pub address: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// The peer will find it.
    Yes,
    /// No room now: offer it again later.
    Full,
    /// No lane leads there any more.
    Gone,
}

/// The payload of a record that has arrived.
pub trait Payload {
    /// Its length in bytes.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies `out.len()` bytes from `offset` on; all of `out` is written.
    ///
    /// # Panics
    /// When there are not so many.
    fn read(&self, offset: usize, out: &mut [MaybeUninit<u8>]);
}

impl Payload for &[u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn read(&self, offset: usize, out: &mut [MaybeUninit<u8>]) {
        let from = &self[offset..offset + out.len()];
        if let (Some(to), Some(from)) = (out.as_mut_array::<8>(), from.as_array::<8>()) {
            *to = from.map(MaybeUninit::new); // in one instruction, not by a call
        } else {
            out.write_copy_of_slice(from);
        }
    }
}

/// Takes what a poll finds.
pub trait NearSink {
    /// A peer has opened a lane to this endpoint; its records follow.
    fn joined(&mut self, peer: NearId, at: SocketAddrV4, epoch: u64);

    /// A record has arrived.
    fn record(&mut self, from: NearId, head: &Head, payload: &dyn Payload);
}

/// A link's near lane.
pub trait Near {
    /// The peer at `at` of that incarnation, if records can go there.
    fn join(&mut self, at: SocketAddrV4, epoch: u64) -> Option<NearId>;

    /// Longest payload of a record in bytes.
    fn payload_len_max(&self) -> usize;

    /// Sends a record; `payload` may lie in several pieces.
    fn push(&mut self, to: NearId, head: &Head, payload: &[&[u8]]) -> Pushed;

    /// Hands over what has arrived, at most one burst, and says how many
    /// records that was. Never blocks.
    fn poll(&mut self, sink: &mut dyn NearSink) -> usize;

    /// How many records to that peer there have been, and how many of them
    /// it has taken out.
    fn progress_of(&self, to: NearId) -> (u64, u64);

    /// Tells a peer how much it may send; what is counted is the endpoint's affair.
    fn tell_limit(&mut self, peer: NearId, limit: u64);

    /// What the peer has told so, or nothing if it has not yet.
    fn limit_told(&self, peer: NearId) -> Option<u64>;

    /// Peers and this process shall not read each other's memory, whether or
    /// not the kernel would let them. To be called before anybody is met.
    fn forbid_memory_access(&mut self);

    /// Copies a peer's memory straight to `into`, which is as long. False
    /// when that is not allowed here; `into` may then hold anything.
    fn copy_from(
        &mut self,
        peer: NearId,
        pieces: &[Remote],
        into: &mut [&mut [MaybeUninit<u8>]],
    ) -> bool;
}
