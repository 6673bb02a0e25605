//! Posted receives and unexpected messages, and how they find each other.
//!
//! The rules are those of MPI (MPI 4.0, section 3.5) and libfabric
//! (fi_tagged(3)): among the messages that match, a receive takes the one that
//! arrived first; among the receives that match, a message takes the one that
//! was posted first.

use std::collections::VecDeque;

use wiglaf_transport::PeerId;
use wiglaf_transport::limits::CREDIT_PER_MESSAGE;
use wiglaf_wire::{Class, Envelope};

use crate::RecvOp;
use crate::memory::Regions;
use crate::near::Announced;

/// A receive that waits for its message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posted {
    pub(crate) op: RecvOp,
    pub(crate) regions: Regions,
    /// Its multi-receive buffer, if it is one.
    pub(crate) multi: Option<usize>,
}

/// Where the payload of an unexpected message is.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Here, as far as it has come.
    Here(Vec<u8>),
    /// With its sender.
    Remote { send_id: u32 },
    /// With its sender, on this node.
    Near(Box<Announced>),
}

/// A message that came before its receive.
///
/// There is one for each message that a peer has announced, and no credit bounds these, so what an
/// envelope says of one-sided operations, 0 in what waits here, is left out.
#[derive(Debug)]
pub(crate) struct Unexpected {
    /// Arrival number, to find a message whose parts are still coming.
    pub(crate) serial: u64,
    pub(crate) total: u64,
    pub(crate) payload: Payload,
    tag: u64,
    data: u64,
    pub(crate) peer: PeerId,
    class: Class,
    has_data: bool,
    /// The last late peek for it has passed over it.
    overlooked: bool,
}

// It is what a message is charged beyond its payload.
const _: () = assert!(size_of::<Unexpected>() as u64 <= CREDIT_PER_MESSAGE);
/// Places that the queue of unexpected messages keeps when it is empty.
const KEPT_PLACES: usize = 256;
/// A full queue gets an eighth of its places more: to double it would cost each message up to two.
const GROWTH_DIVISOR: usize = 8;
/// And at least so many, 512 KiB of addresses, which have no memory before a message comes to lie
/// there. In smaller steps the queue would move, again and again, and leave holes among the payloads
/// into which none of them fits: allocators map for itself only what is long, and how long that must
/// be grows with what a program frees (mallopt(3), M_MMAP_THRESHOLD).
const PLACES_MORE: usize = 8192;

impl Unexpected {
    pub(crate) fn new(
        serial: u64,
        peer: PeerId,
        envelope: Envelope,
        total: u64,
        payload: Payload,
    ) -> Self {
        let Envelope { class, tag, data, operation: _, address: _ } = envelope;
        let (has_data, data) = (data.is_some(), data.unwrap_or(0));
        Self { serial, total, payload, tag, data, peer, class, has_data, overlooked: false }
    }

    pub(crate) fn envelope(&self) -> Envelope {
        Envelope::new(self.class, self.tag, self.has_data.then_some(self.data))
    }

    #[inline]
    fn is_for(&self, op: &RecvOp) -> bool {
        is_match(op, self.peer, self.class, self.tag)
    }

    /// Memory beyond its place in the queue, in bytes.
    fn payload_memory(&self) -> usize {
        match &self.payload {
            Payload::Here(bytes) => bytes.capacity(),
            Payload::Remote { .. } => 0,
            Payload::Near(_) => size_of::<Announced>(),
        }
    }
}

/// What a receive or a peek looks for.
fn matches(op: &RecvOp, peer: PeerId, envelope: &Envelope) -> bool {
    is_match(op, peer, envelope.class, envelope.tag)
}

#[inline]
fn is_match(op: &RecvOp, peer: PeerId, class: Class, tag: u64) -> bool {
    //= docs/protocol.md#12-collective-operations
    //# A receiver MUST NOT match a message of one class with a receive of another.
    op.class == class
        && op.from.is_none_or(|from| from == peer)
        && (op.class == Class::Untagged || (op.tag ^ tag) & !op.ignore == 0)
}

/// Both queues.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    posted: VecDeque<Posted>,
    unexpected: VecDeque<Unexpected>,
    /// Messages set aside by a peek, by its context.
    claimed: Vec<(usize, Unexpected)>,
}

impl Matching {
    pub(crate) fn post(&mut self, posted: Posted) {
        self.posted.push_back(posted);
    }

    /// The receive for a message that arrives. A multi-receive stays posted.
    pub(crate) fn take_posted(&mut self, peer: PeerId, envelope: &Envelope) -> Option<Posted> {
        let (at, posted) = self.find_posted(peer, envelope)?;
        let posted = *posted;
        if posted.multi.is_none() {
            self.remove_posted(at);
        }
        Some(posted)
    }

    /// The receive for a message that arrives, and where in the queue it is.
    #[inline]
    pub(crate) fn find_posted(
        &self,
        peer: PeerId,
        envelope: &Envelope,
    ) -> Option<(usize, &Posted)> {
        self.posted.iter().enumerate().find(|(_, p)| matches(&p.op, peer, envelope))
    }

    /// The receive at that place has its message.
    #[inline]
    pub(crate) fn remove_posted(&mut self, at: usize) {
        if at == 0 {
            self.posted.pop_front(); // moves nothing
        } else {
            self.posted.remove(at);
        }
    }

    /// Takes the receive of a multi-receive buffer, or the first that was
    /// posted under `context`, out of the queue.
    pub(crate) fn withdraw(&mut self, pick: impl Fn(&Posted) -> bool) -> Option<Posted> {
        let at = self.posted.iter().position(pick)?;
        self.posted.remove(at)
    }

    pub(crate) fn keep(&mut self, message: Unexpected) {
        let len = self.unexpected.len();
        if len == self.unexpected.capacity() {
            let step = if len < KEPT_PLACES { KEPT_PLACES } else { PLACES_MORE };
            self.unexpected.reserve_exact((len / GROWTH_DIVISOR).max(step));
        }
        self.unexpected.push_back(message);
    }

    /// The first message that `op` would receive.
    pub(crate) fn find(&self, op: &RecvOp) -> Option<&Unexpected> {
        self.unexpected.iter().find(|m| m.is_for(op))
    }

    /// Whether any message of a peer waits.
    pub(crate) fn has_from(&self, peer: PeerId) -> bool {
        self.unexpected.iter().any(|m| m.peer == peer)
    }

    /// The same as [`Matching::find`], every second time only: see [`crate::Endpoint::set_late_peeks`].
    pub(crate) fn find_late(&mut self, op: &RecvOp) -> Option<&Unexpected> {
        let message = self.unexpected.iter_mut().find(|m| m.is_for(op))?;
        message.overlooked = !message.overlooked;
        (!message.overlooked).then_some(message)
    }

    pub(crate) fn take_unexpected(&mut self, op: &RecvOp) -> Option<Unexpected> {
        if self.unexpected.is_empty() {
            return None;
        }
        let at = self.unexpected.iter().position(|m| m.is_for(op))?;
        let taken = self.unexpected.remove(at);
        if self.unexpected.is_empty() && self.unexpected.capacity() > KEPT_PLACES {
            self.unexpected.shrink_to(KEPT_PLACES);
        }
        taken
    }

    /// Takes all messages that `pick` picks out of the queue.
    pub(crate) fn take_unexpected_where(
        &mut self,
        mut pick: impl FnMut(&Unexpected) -> bool,
    ) -> Vec<Unexpected> {
        let (picked, kept) = self.unexpected.drain(..).partition(|message| pick(message));
        self.unexpected = kept;
        let picked: VecDeque<Unexpected> = picked;
        picked.into()
    }

    /// Sets the message that `op` would receive aside under its context.
    pub(crate) fn claim(&mut self, op: &RecvOp) {
        if let Some(message) = self.take_unexpected(op) {
            self.claimed.push((op.context, message));
        }
    }

    pub(crate) fn take_claimed(&mut self, context: usize) -> Option<Unexpected> {
        let at = self.claimed.iter().position(|(c, _)| *c == context)?;
        Some(self.claimed.swap_remove(at).1)
    }

    /// The message with that arrival number, whose parts are still coming.
    pub(crate) fn by_serial(&mut self, serial: u64) -> Option<&mut Unexpected> {
        // Recent arrivals are at the back.
        let waiting = self.unexpected.iter_mut().rev();
        waiting.chain(self.claimed.iter_mut().map(|(_, m)| m)).find(|m| m.serial == serial)
    }

    /// Takes the receives that can only come from `peer` out of the queue.
    pub(crate) fn withdraw_from(&mut self, peer: PeerId) -> Vec<Posted> {
        let (gone, kept) = self.posted.drain(..).partition(|p| p.op.from == Some(peer));
        self.posted = kept;
        let gone: VecDeque<Posted> = gone;
        gone.into()
    }

    /// Whether a receive of one message waits. A buffer for several waits all the time.
    pub(crate) fn has_single(&self) -> bool {
        self.posted.iter().any(|p| p.multi.is_none())
    }

    /// What the messages that wait for a receive hold, in bytes.
    pub(crate) fn unexpected_memory(&self) -> usize {
        let waiting = self.unexpected.iter().chain(self.claimed.iter().map(|(_, m)| m));
        self.unexpected.capacity() * size_of::<Unexpected>()
            + self.claimed.capacity() * size_of::<(usize, Unexpected)>()
            + waiting.map(Unexpected::payload_memory).sum::<usize>()
    }

    /// How many messages wait for a receive.
    pub(crate) fn unexpected_len(&self) -> usize {
        self.unexpected.len() + self.claimed.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(from: Option<u32>, tag: u64, ignore: u64, context: usize) -> RecvOp {
        RecvOp {
            class: Class::Tagged,
            from: from.map(PeerId),
            tag,
            ignore,
            context,
            report: true,
            multi_min_free: None,
        }
    }

    fn envelope(tag: u64) -> Envelope {
        Envelope::new(Class::Tagged, tag, None)
    }

    fn message(serial: u64, peer: u32, tag: u64) -> Unexpected {
        let payload = Payload::Here(Vec::new());
        Unexpected::new(serial, PeerId(peer), envelope(tag), 0, payload)
    }

    #[test]
    fn the_receive_that_was_posted_first_wins() {
        let mut m = Matching::default();
        for (context, op) in [op(Some(1), 5, 0, 10), op(None, 5, 0, 11), op(None, 0, u64::MAX, 12)]
            .iter()
            .enumerate()
        {
            let op = RecvOp { context: context + 10, ..*op };
            m.post(Posted { op, regions: Regions::EMPTY, multi: None });
        }
        let take = |m: &mut Matching, peer, tag| {
            m.take_posted(PeerId(peer), &envelope(tag)).map(|p| p.op.context)
        };
        assert_eq!(take(&mut m, 2, 5), Some(11));
        assert_eq!(take(&mut m, 2, 5), Some(12));
        assert_eq!(take(&mut m, 2, 5), None);
        assert_eq!(take(&mut m, 1, 6), None);
        assert_eq!(take(&mut m, 1, 5), Some(10));
    }

    #[test]
    fn a_buffer_for_several_messages_is_not_a_receive_that_waits() {
        let mut m = Matching::default();
        m.post(Posted { op: op(None, 5, 0, 1), regions: Regions::EMPTY, multi: Some(0) });
        assert!(!m.has_single());
        m.post(Posted { op: op(None, 6, 0, 2), regions: Regions::EMPTY, multi: None });
        assert!(m.has_single());
        assert_eq!(m.take_posted(PeerId(1), &envelope(6)).map(|p| p.op.context), Some(2));
        assert!(!m.has_single());
    }

    #[test]
    fn the_message_that_came_first_wins() {
        let mut m = Matching::default();
        m.keep(message(1, 1, 7));
        m.keep(message(2, 2, 8));
        m.keep(message(3, 1, 8));
        assert_eq!(m.take_unexpected(&op(Some(1), 8, 0, 0)).map(|u| u.serial), Some(3));
        assert_eq!(m.take_unexpected(&op(None, 0, 0xf, 0)).map(|u| u.serial), Some(1));
        assert_eq!(m.take_unexpected(&op(None, 7, 0, 0)).map(|u| u.serial), None);
    }

    #[test]
    fn a_late_peek_passes_over_each_message_once() {
        let mut m = Matching::default();
        m.keep(message(1, 1, 7));
        m.keep(message(2, 2, 8));
        let mut late = |tag| m.find_late(&op(None, tag, 0, 0)).map(|u| u.serial);
        // Two that take turns do not hold each other up.
        assert_eq!([late(7), late(8), late(7), late(8)], [None, None, Some(1), Some(2)]);
        assert_eq!([late(7), late(7)], [None, Some(1)]);
        assert_eq!(late(9), None);
    }

    #[test]
    fn a_claimed_message_is_no_longer_found_but_still_grows() {
        let mut m = Matching::default();
        m.keep(message(1, 1, 7));
        m.claim(&op(None, 7, 0, 99));
        assert!(m.find(&op(None, 7, 0, 0)).is_none());
        assert!(m.by_serial(1).is_some());
        assert!(m.take_claimed(98).is_none());
        assert_eq!(m.take_claimed(99).map(|u| u.serial), Some(1));
        assert_eq!(m.unexpected_len(), 0);
    }
}
