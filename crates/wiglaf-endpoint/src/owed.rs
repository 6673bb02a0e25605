//! What the one-sided operations of peers make this endpoint keep beyond what their credit pays for:
//! answers until they have been taken, and operands of announced operations while they are fetched.
//! An operation may have an answer that is thousands of times longer than itself, and one that was
//! announced has paid nothing. So each peer has its measure; what is above it waits, as its message
//! and within its credit, or with its initiator.

use std::collections::{HashMap, VecDeque};

use wiglaf_transport::PeerId;
use wiglaf_transport::limits::{CREDIT_INITIAL, CREDIT_PER_MESSAGE};
use wiglaf_wire::Envelope;

use crate::table::ByPeer;

/// What is so short is not counted: an operation's own charge has room for it.
const UNCOUNTED_LEN: usize = CREDIT_PER_MESSAGE as usize;

/// An operation that waits until there is room for what it makes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It is here, and its message holds credit.
    Here { envelope: Envelope, payload: Vec<u8> },
    /// It was announced.
    Announced { envelope: Envelope, total: u64, send_id: u32 },
}

/// One peer's share.
#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    waiting: VecDeque<Waiting>,
}

impl Share {
    fn has_room(&self) -> bool {
        (self.bytes as u64) < CREDIT_INITIAL
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    /// Of peers for whom something is kept or waits.
    shares: HashMap<PeerId, Share, ByPeer>,
    /// Those of whom something waits for which there is room.
    due: Vec<PeerId>,
    /// Operations that wait, of all peers.
    waiting: usize,
}

impl Owed {
    /// Whether nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting == 0
    }

    /// Whether an operation of `peer` may be begun at once: there is room, if it needs any here, and none
    /// waits before it. Initiators that keep an order count on it that what they sent first is done
    /// first.
    pub(crate) fn may_begin(&self, peer: PeerId, needs_room: bool) -> bool {
        let may = |share: &Share| share.waiting.is_empty() && (share.has_room() || !needs_room);
        self.shares.is_empty() || self.shares.get(&peer).is_none_or(may)
    }

    /// So many bytes are kept for `peer` from now on.
    pub(crate) fn keep(&mut self, peer: PeerId, len: usize) {
        if len > UNCOUNTED_LEN {
            self.shares.entry(peer).or_default().bytes += len;
        }
    }

    /// They are not any more.
    pub(crate) fn release(&mut self, peer: PeerId, len: usize) {
        if len > UNCOUNTED_LEN
            && let Some(share) = self.shares.get_mut(&peer)
        {
            let had_room = share.has_room();
            share.bytes = share.bytes.saturating_sub(len);
            if share.waiting.is_empty() {
                if share.bytes == 0 {
                    self.shares.remove(&peer);
                }
            } else if !had_room && share.has_room() {
                self.due.push(peer);
            }
        }
    }

    /// An operation that may not be begun waits.
    pub(crate) fn wait(&mut self, peer: PeerId, waiting: Waiting) {
        self.shares.entry(peer).or_default().waiting.push_back(waiting);
        self.waiting += 1;
    }

    /// The next one that waited and may be begun now.
    pub(crate) fn next(&mut self) -> Option<(PeerId, Waiting)> {
        while let Some(&peer) = self.due.last() {
            if let Some(share) = self.shares.get_mut(&peer) {
                if share.has_room()
                    && let Some(waiting) = share.waiting.pop_front()
                {
                    self.waiting -= 1;
                    return Some((peer, waiting));
                }
                if share.bytes == 0 && share.waiting.is_empty() {
                    self.shares.remove(&peer);
                }
            }
            self.due.pop();
        }
        None
    }

    /// Nobody awaits anything of what is owed to `peer`.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        if let Some(share) = self.shares.remove(&peer) {
            self.waiting -= share.waiting.len();
        }
    }

    /// Bytes that are kept for `peer`.
    #[cfg(test)]
    pub(crate) fn bytes(&self, peer: PeerId) -> usize {
        self.shares.get(&peer).map_or(0, |share| share.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiglaf_wire::Class;

    const FULL: usize = CREDIT_INITIAL as usize;

    fn announced(send_id: u32) -> Waiting {
        let envelope = Envelope::new(Class::Fetch, 0, None);
        Waiting::Announced { envelope, total: 100, send_id }
    }

    #[test]
    fn what_is_above_the_measure_waits_in_its_order_and_for_its_own_peer_only() {
        let (greedy, modest) = (PeerId(1), PeerId(2));
        let mut owed = Owed::default();
        assert!(owed.may_begin(greedy, true));
        owed.keep(greedy, FULL);
        assert!(!owed.may_begin(greedy, true) && owed.may_begin(modest, true));
        for id in 0..3 {
            owed.wait(greedy, announced(id));
        }
        assert_eq!(owed.next(), None);
        owed.release(greedy, 1000);
        // Who comes now stays behind those that wait.
        assert!(!owed.may_begin(greedy, true));
        assert_eq!(owed.next(), Some((greedy, announced(0))));
        owed.keep(greedy, 1000);
        assert_eq!(owed.next(), None);
        owed.release(greedy, 1000);
        assert_eq!(owed.next(), Some((greedy, announced(1))));
        assert_eq!(owed.next(), Some((greedy, announced(2))));
        assert_eq!(owed.next(), None);
        assert!(owed.is_idle() && owed.may_begin(greedy, true));
        owed.release(greedy, FULL - 1000);
        assert!(owed.shares.is_empty(), "nothing is left of a peer");
    }

    #[test]
    fn of_who_is_gone_nothing_waits() {
        let mut owed = Owed::default();
        owed.keep(PeerId(1), FULL);
        owed.wait(PeerId(1), announced(1));
        owed.release(PeerId(1), 1000);
        owed.forget(PeerId(1));
        owed.release(PeerId(1), FULL - 1000); // answers that were under way
        assert_eq!(owed.next(), None);
        assert!(owed.is_idle() && owed.shares.is_empty());
    }

    #[test]
    fn short_answers_are_paid_for() {
        let mut owed = Owed::default();
        owed.keep(PeerId(1), UNCOUNTED_LEN);
        assert!(owed.shares.is_empty());
        owed.release(PeerId(1), UNCOUNTED_LEN);
    }
}
