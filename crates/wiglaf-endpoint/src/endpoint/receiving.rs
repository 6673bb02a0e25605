//! Receives: posting them, and giving them what has come before them.

use wiglaf_transport::{PeerId, Wanted};
use wiglaf_wire::Envelope;

use super::Endpoint;
use crate::active::Next;
use crate::ahead;
use crate::books::{Assembly, Receiving};
use crate::matching::{Payload, Posted, Unexpected};
use crate::memory::{Region, Regions};
use crate::{ActiveMessage, Class, Outcome, PostError, RecvOp};

impl Endpoint {
    /// Posts a receive.
    ///
    /// # Errors
    /// [`PostError::TooLong`] for too many regions, [`PostError::PeerGone`] when no link is left.
    ///
    /// # Safety
    /// The regions must stay valid and untouched until the receive completes,
    /// is cancelled, or the endpoint is dropped.
    pub unsafe fn post_recv(&mut self, op: &RecvOp, regions: &[Region]) -> Result<(), PostError> {
        self.posts();
        // SAFETY: handed on from our caller.
        let regions = unsafe { Regions::new(regions) }.ok_or(PostError::TooLong)?;
        if self.is_cut_off() && self.books.matching.find(op).is_none() {
            return Err(PostError::PeerGone);
        }
        let multi = op.multi_min_free.map(|min_free| self.books.add_multi(min_free));
        let posted = Posted { op: *op, regions, multi };
        if multi.is_none() {
            match self.books.matching.take_unexpected(op) {
                Some(taken) => self.receive(posted, taken),
                None if self.waits_in_vain(op) => {
                    self.books.end_unmatched(&posted, Outcome::PeerGone);
                }
                None => self.books.matching.post(posted),
            }
            self.tell_sleepers();
            return Ok(());
        }
        self.books.matching.post(posted);
        // The buffer takes what already waits until it is full.
        while let Some(message) = self.books.matching.find(op) {
            let (peer, envelope) = (message.peer, message.envelope());
            let Some(posted) = self.books.matching.take_posted(peer, &envelope) else { break };
            let Some(taken) = self.books.matching.take_unexpected(op) else { break };
            self.receive(posted, taken);
            if posted.multi != multi {
                continue; // an earlier buffer took it
            }
        }
        if self.waits_in_vain(op)
            && let Some(left) = self.books.matching.withdraw(|p| p.multi == multi)
        {
            self.books.end_unmatched(&left, Outcome::PeerGone);
        }
        self.tell_sleepers();
        Ok(())
    }

    /// Whether a message waits that such a receive would take.
    #[must_use]
    pub fn holds(&mut self, op: &RecvOp) -> bool {
        self.books.matching.find(op).is_some()
    }

    /// Whether any message of a peer waits for a receive.
    #[must_use]
    pub fn holds_messages_of(&self, peer: PeerId) -> bool {
        self.books.matching.has_from(peer)
    }

    /// Whether nobody is left to send what is not here yet.
    fn waits_in_vain(&self, op: &RecvOp) -> bool {
        op.from.is_some_and(|from| self.transport.is_gone(from))
    }

    /// Gives an unexpected message, and the place where it was, to its receive.
    pub(super) fn receive(&mut self, posted: Posted, (at, message): (u32, Unexpected)) {
        let (envelope, total) = (message.envelope(), message.payload.len());
        let Unexpected { peer, payload, .. } = message;
        let posted = self.books.place(posted, total);
        let receiving = Receiving { posted, peer, envelope, total };
        match payload {
            Payload::Here { bytes, got } => {
                let got = got as usize;
                posted.regions.write(0, &bytes[..got]);
                if got == bytes.len() {
                    self.books.end_recv(&receiving, true);
                    self.consume(peer, total);
                } else {
                    self.redirect(at, receiving, got);
                }
            }
            Payload::Ahead { bytes, token } => {
                // What has not come is written over what stands in its place.
                posted.regions.write(0, &bytes);
                self.books.turn_ahead(token, receiving);
                self.consume(peer, total);
            }
            elsewhere => {
                if let Payload::Remote { .. } = elsewhere {
                    self.transport.widen_credit(peer, total);
                    self.was_announced(peer, &envelope, total);
                }
                let wanted = self.books.begin_pull(receiving);
                self.fetch(peer, &elsewhere, wanted);
                self.pull_more(peer);
            }
        }
    }

    /// Asks for a message that is still with its sender.
    fn fetch(&mut self, peer: PeerId, payload: &Payload, wanted: Wanted) {
        match payload {
            Payload::Here { .. } | Payload::Ahead { .. } => {}
            Payload::Remote { send_id, .. } => {
                self.pull(peer, *send_id, wanted);
                self.flush(self.now());
            }
            Payload::Near(message) => self.fetch_near(message, wanted),
        }
    }

    /// An announced message has found its receive, or its end.
    pub(super) fn was_announced(&mut self, peer: PeerId, envelope: &Envelope, total: u64) {
        if ahead::is_eligible(envelope, total) && self.books.not_announced(peer) {
            self.transport.hold_credit(peer, false);
        }
    }

    /// Pulls messages that peers have announced of late, as far as their credit reaches.
    pub(super) fn pull_fresh(&mut self) {
        while let Some(peer) = self.books.ahead.take_fresh() {
            if self.books.ahead.has(peer) && self.near.lane_from(peer).is_none() {
                self.transport.hold_credit(peer, true);
                self.pull_ahead(peer, false);
            }
        }
    }

    /// Pulls announced messages of that peer in their order, as far as its credit reaches, which grows
    /// by as much if messages of that peer `are_received` meanwhile.
    fn pull_ahead(&mut self, peer: PeerId, are_received: bool) {
        while let Some(entry) = self.books.ahead.front(peer) {
            let Some(total) = self.books.is_announced(peer, entry) else {
                self.books.ahead.pop(peer);
                continue;
            };
            if !self.transport.charge_ahead(peer, total, are_received) {
                return;
            }
            if are_received {
                self.transport.widen_credit(peer, total);
            }
            self.books.ahead.pop(peer);
            let is_last = self.books.not_announced(peer);
            let wanted = self.books.begin_ahead(entry.at, total);
            self.pull(peer, entry.send_id, wanted);
            if is_last {
                self.transport.hold_credit(peer, false);
            }
        }
    }

    /// Credit of that peer has come free: announced messages go first.
    pub(super) fn pull_more(&mut self, peer: PeerId) {
        if self.books.ahead.has(peer) && self.transport.may_pull_ahead(peer) {
            self.pull_ahead(peer, true);
            self.flush(self.now());
        }
    }

    /// Asks a peer for what is wanted of what it announced.
    pub(super) fn pull(&mut self, peer: PeerId, send_id: u32, wanted: Wanted) {
        let asked = self.transport.pull(peer, send_id, wanted.len, wanted.token);
        if !asked || wanted.len == 0 {
            self.books.end_pull(wanted.token, asked); // no segment will come to say so
        }
    }

    /// The next active message that has arrived.
    pub fn pop_active(&mut self) -> Option<ActiveMessage> {
        loop {
            match self.books.active.next()? {
                Next::Message(message, is_charged) => {
                    if is_charged {
                        self.consume(message.source, message.payload.len() as u64);
                    }
                    return Some(message);
                }
                Next::Announced(a) => {
                    let wanted =
                        self.books.begin_active(a.peer, &a.envelope, a.payload.len(), true);
                    self.fetch(a.peer, &a.payload, wanted);
                }
            }
        }
    }

    /// How many active messages wait to be popped, those that are still with their senders included.
    #[must_use]
    pub fn active_len(&self) -> usize {
        self.books.active.len()
    }

    /// Whether active messages are fetched as they are announced: not while many are here, or some have
    /// stayed with their senders.
    #[must_use]
    pub fn has_room_for_active(&self) -> bool {
        self.books.active.has_room()
    }

    /// How many bytes of active messages are here, or on their way here.
    #[must_use]
    pub fn active_held(&self) -> u64 {
        self.books.active.held()
    }

    /// The rest of a message of which `got` bytes have come, and which was in place `from`, goes to its
    /// receive from now on.
    pub(super) fn redirect(&mut self, from: u32, receiving: Receiving, got: usize) {
        if let Some(assembly) = self.books.assembling.get_mut(&receiving.peer)
            && matches!(assembly, Assembly::Unexpected { at } if *at == from)
        {
            *assembly = Assembly::ToUser { receiving, got };
        } else {
            self.books.end_recv(&receiving, false); // the rest will never come
        }
    }

    /// Cancels a posted receive that has matched nothing yet: its completion
    /// says [`Outcome::Canceled`]. False when there is none (left).
    pub fn cancel(&mut self, context: usize) -> bool {
        let posted = self
            .books
            .matching
            .withdraw(|p| p.op.context == context && p.op.class != Class::Collective);
        if let Some(posted) = posted {
            self.books.end_unmatched(&posted, Outcome::Canceled);
            self.tell_sleepers();
        }
        posted.is_some()
    }
}
