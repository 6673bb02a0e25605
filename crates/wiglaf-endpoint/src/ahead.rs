//! Which announced messages are pulled before their receives are posted.
//!
//! A sender that is short of credit announces its messages, and each would then cost a round trip when
//! its receive is posted. So credit that comes free while such messages wait is not told to their
//! sender: the receiver uses it to pull them, in their order and many at once. What lies here without a
//! receive is bounded by the same credit as before.

use std::collections::{HashMap, VecDeque};

use wiglaf_transport::PeerId;
use wiglaf_transport::limits::CREDIT_GROWTH_LEN_MAX;
use wiglaf_wire::{Class, Envelope};

use crate::limits::STALE_MAX;
use crate::table::ByPeer;

/// An announced message: its place among the unexpected ones, and its sender's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: u32,
    pub(crate) send_id: u32,
}

/// Announced messages of one peer.
#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Entry>,
    /// Those of the queue that still wait.
    count: usize,
}

/// Announced messages of all peers.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    peers: HashMap<PeerId, Waiting, ByPeer>,
    /// Peers that have announced some since this was last asked for.
    fresh: Vec<PeerId>,
}

/// Whether such a message may be pulled before its receive. Longer ones take several packets each, and
/// lose less by the round trip.
pub(crate) fn is_eligible(envelope: &Envelope, total: u64) -> bool {
    let is_short = total <= CREDIT_GROWTH_LEN_MAX;
    //= docs/protocol.md#5-rendezvous
    //# A receiver MUST NOT pull a held message before its receive.
    is_short && !envelope.is_held && matches!(envelope.class, Class::Tagged | Class::Untagged)
}

impl Ahead {
    /// A message waits that may be pulled.
    pub(crate) fn add(&mut self, peer: PeerId, entry: Entry) {
        let waiting = self.peers.entry(peer).or_default();
        waiting.queue.push_back(entry);
        waiting.count += 1;
        if self.fresh.last() != Some(&peer) {
            self.fresh.push(peer);
        }
    }

    /// A peer that has announced messages of late, each once or more often.
    pub(crate) fn take_fresh(&mut self) -> Option<PeerId> {
        self.fresh.pop()
    }

    /// Whether any message of that peer waits.
    pub(crate) fn has(&self, peer: PeerId) -> bool {
        self.peers.contains_key(&peer)
    }

    /// One has been received, or is being pulled. `is_valid` tells which entries still wait. False when
    /// it was the last.
    pub(crate) fn remove(&mut self, peer: PeerId, is_valid: impl Fn(&Entry) -> bool) -> bool {
        let Some(waiting) = self.peers.get_mut(&peer) else { return false };
        waiting.count = waiting.count.saturating_sub(1);
        if waiting.count == 0 {
            self.peers.remove(&peer);
            return false;
        }
        if waiting.queue.len() > 2 * waiting.count + STALE_MAX {
            waiting.queue.retain(is_valid);
        }
        true
    }

    /// The one that was announced first, if it still waits or not.
    pub(crate) fn front(&self, peer: PeerId) -> Option<Entry> {
        self.peers.get(&peer)?.queue.front().copied()
    }

    /// It is out of the queue.
    pub(crate) fn pop(&mut self, peer: PeerId) {
        if let Some(waiting) = self.peers.get_mut(&peer) {
            waiting.queue.pop_front();
        }
    }

    /// Nothing more comes from that peer.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.peers.remove(&peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: PeerId = PeerId(3);

    #[test]
    fn entries_of_received_messages_do_not_pile_up() {
        let mut ahead = Ahead::default();
        ahead.add(PEER, Entry { at: 0, send_id: 0 });
        for send_id in 1..10_000 {
            ahead.add(PEER, Entry { at: 1, send_id });
            assert!(ahead.remove(PEER, |entry| entry.send_id == 0));
            assert!(ahead.peers[&PEER].queue.len() <= STALE_MAX + 3);
        }
        assert_eq!(ahead.front(PEER), Some(Entry { at: 0, send_id: 0 }));
        assert!(!ahead.remove(PEER, |_| true) && !ahead.has(PEER));
    }
}
