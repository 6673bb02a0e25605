//! Posted receives and unexpected messages, and how they find each other.
//!
//! The rules are those of MPI (MPI 4.0, section 3.5) and libfabric
//! (fi_tagged(3)): among the messages that match, a receive takes the one that
//! arrived first; among the receives that match, a message takes the one that
//! was posted first.

use wiglaf_transport::PeerId;
use wiglaf_transport::limits::{CREDIT_INITIAL, CREDIT_PER_MESSAGE};
use wiglaf_wire::{Class, Envelope};

use crate::RecvOp;
use crate::announced::Announced;
use crate::limits::{FEW, GROWTH_DIVISOR, KEPT_PLACES, PLACES_MORE};
use crate::lists::{Item, Key, Links, Lists};
use crate::memory::Regions;

/// A receive that waits for its message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posted {
    pub(crate) op: RecvOp,
    pub(crate) regions: Regions,
    /// Its multi-receive buffer, if it is one.
    pub(crate) multi: Option<usize>,
}

/// A receive in the queue.
#[derive(Debug)]
struct Waiting {
    posted: Posted,
    /// Of two that match, the one with the smaller number was posted first.
    number: u64,
    links: Links,
}

impl Item for Waiting {
    fn key(&self) -> Option<Key> {
        key_of(&self.posted.op)
    }

    fn ignored(&self) -> u64 {
        ignored(&self.posted.op)
    }

    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// Where the payload of an unexpected message is.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Here, as far as it has come.
    Here { bytes: Box<[u8]>, got: u32 },
    /// Pulled before its receive was posted: what of it has come, in any order, and the pull.
    Ahead { bytes: Box<[u8]>, token: u32 },
    /// With its sender.
    Remote { send_id: u32, total: u64 },
    /// With its sender, on this node.
    Near(Box<Announced>),
}

impl Payload {
    /// One that is here, the whole of it.
    pub(crate) fn whole(bytes: Vec<u8>) -> Self {
        let got = bytes.len() as u32; // credit keeps it far below
        Self::Here { bytes: bytes.into(), got }
    }

    /// One of `total` bytes that begins to come. Its peer's credit bounds what it can make us reserve.
    pub(crate) fn begun(first: &[u8], total: u64) -> Self {
        let bytes = vec![0; total.min(CREDIT_INITIAL) as usize].into();
        let mut payload = Self::Here { bytes, got: 0 };
        payload.add(first);
        payload
    }

    /// Some more of it has come.
    pub(crate) fn add(&mut self, more: &[u8]) {
        let Self::Here { bytes, got } = self else { return };
        let rest = &mut bytes[*got as usize..];
        let len = more.len().min(rest.len());
        rest[..len].copy_from_slice(&more[..len]);
        *got += len as u32;
    }

    /// A part of one that is pulled ahead has come.
    pub(crate) fn put(&mut self, offset: usize, part: &[u8]) {
        let Self::Ahead { bytes, .. } = self else { return };
        let end = offset.checked_add(part.len());
        if let Some(room) = end.and_then(|end| bytes.get_mut(offset..end)) {
            room.copy_from_slice(part);
        }
    }

    /// The pull of one that is pulled ahead has ended. One that was lost stays without its bytes.
    pub(crate) fn end_ahead(&mut self, complete: bool) {
        let Self::Ahead { bytes, .. } = self else { return };
        let bytes = std::mem::take(bytes);
        let got = if complete { bytes.len() as u32 } else { 0 };
        *self = Self::Here { bytes, got };
    }

    /// Its whole length, in bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Here { bytes, .. } | Self::Ahead { bytes, .. } => bytes.len() as u64,
            Self::Remote { total, .. } => *total,
            Self::Near(announced) => announced.total(),
        }
    }
}

/// A message that came before its receive.
///
/// There is one for each message that a peer has announced, and no credit bounds these, so what an
/// envelope says of one-sided operations, 0 in what waits here, is left out.
#[derive(Debug)]
pub(crate) struct Unexpected {
    pub(crate) payload: Payload,
    tag: u64,
    data: u64,
    pub(crate) peer: PeerId,
    links: Links,
    class: Class,
    has_data: bool,
    /// The last late peek for it has passed over it.
    overlooked: bool,
}

// It is what a message is charged beyond its payload.
const _: () = assert!(Lists::<Unexpected>::PLACE_LEN as u64 <= CREDIT_PER_MESSAGE);

impl Unexpected {
    pub(crate) fn new(peer: PeerId, envelope: Envelope, payload: Payload) -> Self {
        let Envelope { class, tag, data, operation: _, address: _, is_held: _ } = envelope;
        let (has_data, data) = (data.is_some(), data.unwrap_or(0));
        let links = Links::default();
        Self { payload, tag, data, peer, links, class, has_data, overlooked: false }
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
            Payload::Here { bytes, .. } | Payload::Ahead { bytes, .. } => bytes.len(),
            Payload::Remote { .. } => 0,
            Payload::Near(_) => size_of::<Announced>(),
        }
    }
}

impl Item for Unexpected {
    fn key(&self) -> Option<Key> {
        Some(Key::new(self.peer, self.class, self.tag))
    }

    fn ignored(&self) -> u64 {
        0
    }

    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// Where to look for what a receive takes; `None`: any peer's.
#[inline]
fn key_of(op: &RecvOp) -> Option<Key> {
    Some(Key::new(op.from?, op.class, op.tag))
}

/// Bits of the tag that it does not look at, where it looks at the tag.
#[inline]
fn ignored(op: &RecvOp) -> u64 {
    if op.class == Class::Untagged { 0 } else { op.ignore }
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
    posted: Lists<Waiting>,
    /// How many receives have ever been posted.
    posts: u64,
    unexpected: Lists<Unexpected>,
    /// Messages set aside by a peek: its context, and their places among the unexpected.
    claimed: Vec<(usize, u32)>,
}

impl Matching {
    pub(crate) fn post(&mut self, posted: Posted) {
        self.posts += 1;
        let waiting = Waiting { posted, number: self.posts, links: Links::default() };
        self.posted.push(waiting);
        if posted.op.from.is_some() && self.posted.loose_len() > FEW {
            self.posted.chain_all(ignored(&posted.op));
        }
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

    /// The receive for a message that arrives, and its place.
    #[inline]
    pub(crate) fn find_posted(&self, peer: PeerId, envelope: &Envelope) -> Option<(u32, &Posted)> {
        let is_for_it = |(_, w): &(u32, &Waiting)| matches(&w.posted.op, peer, envelope);
        let key = Key::new(peer, envelope.class, envelope.tag);
        let chained = self.posted.iter_chain(key).find(is_for_it);
        // In their order: what was posted later than that is not looked at.
        let before = chained.map_or(u64::MAX, |(_, waiting)| waiting.number);
        let mut loose = self.posted.iter_loose().take_while(|(_, w)| w.number < before);
        let loose = loose.find(is_for_it);
        let (at, waiting) = loose.or(chained)?;
        Some((at, &waiting.posted))
    }

    /// The receive in that place has its message.
    #[inline]
    pub(crate) fn remove_posted(&mut self, at: u32) {
        self.posted.take(at);
    }

    /// Takes the first of the receives that `pick` picks out of the queue.
    pub(crate) fn withdraw(&mut self, pick: impl Fn(&Posted) -> bool) -> Option<Posted> {
        let (at, _) = self.posted.iter().find(|(_, w)| pick(&w.posted))?;
        self.posted.take(at).map(|waiting| waiting.posted)
    }

    /// Keeps a message until it is received; says in which place.
    pub(crate) fn keep(&mut self, message: Unexpected) -> u32 {
        if self.unexpected.is_full() {
            let len = self.unexpected.len();
            let step = if len < KEPT_PLACES { KEPT_PLACES } else { PLACES_MORE };
            self.unexpected.reserve_exact((len / GROWTH_DIVISOR).max(step));
        }
        self.unexpected.push(message)
    }

    /// The first message that `op` would receive, and its place.
    #[inline]
    fn first_for(&mut self, op: &RecvOp) -> Option<u32> {
        let is_for_it = |(_, m): &(u32, &Unexpected)| m.is_for(op);
        let Some(key) = key_of(op).filter(|_| self.unexpected.len() > FEW) else {
            return self.unexpected.iter().find(is_for_it).map(|(at, _)| at);
        };
        // Receives that ignore what others do not are few, and one of the first is mostly theirs.
        if !self.unexpected.is_chained_for(ignored(op))
            && let Some((at, _)) = self.unexpected.iter().take(FEW).find(is_for_it)
        {
            return Some(at);
        }
        self.unexpected.chain_all(ignored(op));
        self.unexpected.iter_chain(key).find(is_for_it).map(|(at, _)| at)
    }

    /// The first message that `op` would receive.
    pub(crate) fn find(&mut self, op: &RecvOp) -> Option<&Unexpected> {
        let at = self.first_for(op)?;
        self.unexpected.get_mut(at).map(|message| &*message)
    }

    /// Whether any message of a peer waits.
    pub(crate) fn has_from(&self, peer: PeerId) -> bool {
        self.unexpected.iter().any(|(_, message)| message.peer == peer)
    }

    /// The first message that `op` would receive, on every second call only: see [`crate::Endpoint::set_late_peeks`].
    pub(crate) fn find_late(&mut self, op: &RecvOp) -> Option<&Unexpected> {
        let at = self.first_for(op)?;
        let message = self.unexpected.get_mut(at)?;
        message.overlooked = !message.overlooked;
        (!message.overlooked).then_some(message)
    }

    /// The first message that `op` would receive, out of the queue, and the place where it was.
    pub(crate) fn take_unexpected(&mut self, op: &RecvOp) -> Option<(u32, Unexpected)> {
        if self.unexpected.is_empty() {
            return None;
        }
        let at = self.first_for(op)?;
        let taken = self.unexpected.take(at)?;
        self.shrink();
        Some((at, taken))
    }

    fn shrink(&mut self) {
        if self.unexpected.is_empty() && self.unexpected.capacity() > KEPT_PLACES {
            self.unexpected.shrink_to(KEPT_PLACES);
        }
    }

    /// Takes all messages that `pick` picks out of the queue, with the places where they were.
    pub(crate) fn take_unexpected_where(
        &mut self,
        mut pick: impl FnMut(&Unexpected) -> bool,
    ) -> Vec<(u32, Unexpected)> {
        let picked = self.unexpected.iter().filter(|(_, message)| pick(message));
        let picked: Vec<u32> = picked.map(|(at, _)| at).collect();
        let take = |at: u32| Some((at, self.unexpected.take(at)?));
        let picked = picked.into_iter().filter_map(take).collect();
        self.shrink();
        picked
    }

    /// Sets the message that `op` would receive aside under its context.
    pub(crate) fn claim(&mut self, op: &RecvOp) {
        if let Some(at) = self.first_for(op) {
            self.unexpected.set_aside(at);
            self.claimed.push((op.context, at));
        }
    }

    /// The message that was claimed under a context, and the place where it was.
    pub(crate) fn take_claimed(&mut self, context: usize) -> Option<(u32, Unexpected)> {
        let claim = self.claimed.iter().position(|(c, _)| *c == context)?;
        let (_, at) = self.claimed.swap_remove(claim);
        let taken = self.unexpected.take_aside(at)?;
        self.shrink();
        Some((at, taken))
    }

    /// The message in that place, whose parts are still coming.
    pub(crate) fn coming(&mut self, at: u32) -> Option<&mut Unexpected> {
        self.unexpected.get_mut(at)
    }

    /// The length of the message in that place, if it is the one that `peer` announced under `send_id`.
    pub(crate) fn announced_at(&self, at: u32, peer: PeerId, send_id: u32) -> Option<u64> {
        let message = self.unexpected.get(at).filter(|message| message.peer == peer)?;
        match message.payload {
            Payload::Remote { send_id: its, total } if its == send_id => Some(total),
            _ => None,
        }
    }

    /// Takes the receives that can only come from `peer` out of the queue.
    pub(crate) fn withdraw_from(&mut self, peer: PeerId) -> Vec<Posted> {
        let gone = self.posted.iter().filter(|(_, w)| w.posted.op.from == Some(peer));
        let gone: Vec<u32> = gone.map(|(at, _)| at).collect();
        let take = |at: u32| self.posted.take(at).map(|waiting| waiting.posted);
        gone.into_iter().filter_map(take).collect()
    }

    /// Whether a receive of one message waits. A buffer for several waits all the time.
    pub(crate) fn has_single(&self) -> bool {
        self.posted.iter().any(|(_, waiting)| waiting.posted.multi.is_none())
    }

    /// What the messages that wait for a receive hold, in bytes.
    pub(crate) fn unexpected_memory(&self) -> usize {
        self.unexpected.memory()
            + self.claimed.capacity() * size_of::<(usize, u32)>()
            + self.unexpected.everything().map(Unexpected::payload_memory).sum::<usize>()
    }

    /// How many messages wait for a receive.
    pub(crate) fn unexpected_len(&self) -> usize {
        self.unexpected.len()
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

    fn message(number: u64, peer: u32, tag: u64) -> Unexpected {
        let envelope = Envelope::new(Class::Tagged, tag, Some(number));
        Unexpected::new(PeerId(peer), envelope, Payload::whole(Vec::new()))
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
        assert_eq!(m.take_unexpected(&op(Some(1), 8, 0, 0)).map(|(_, u)| u.data), Some(3));
        assert_eq!(m.take_unexpected(&op(None, 0, 0xf, 0)).map(|(_, u)| u.data), Some(1));
        assert_eq!(m.take_unexpected(&op(None, 7, 0, 0)).map(|(_, u)| u.data), None);
    }

    /// More than are looked at one after the other, of several peers, in another order than they are
    /// asked for, with receives of any tag and of any peer between them.
    #[test]
    fn among_thousands_each_finds_its_own() {
        const PEERS: u32 = 7;
        const TAGS: u64 = 300;
        const SAME: u64 = 3 << 62; // what an MPI ignores in every receive
        let any_tag = |peer, context| op(Some(peer), 0, SAME | 0xffff, context);
        let numbers = || (0..PEERS).flat_map(|peer| (0..TAGS).map(move |tag| (peer, tag)));
        let context = |peer: u32, tag: u64| peer as usize * TAGS as usize + tag as usize;

        let mut m = Matching::default();
        for (peer, tag) in numbers() {
            m.post(Posted {
                op: if tag == 7 {
                    any_tag(peer, context(peer, tag))
                } else {
                    op(Some(peer), tag, SAME, context(peer, tag))
                },
                regions: Regions::EMPTY,
                multi: None,
            });
        }
        let any = op(None, 0, u64::MAX, usize::MAX);
        m.post(Posted { op: any, regions: Regions::EMPTY, multi: None });
        let mut take =
            |peer, tag| m.take_posted(PeerId(peer), &envelope(tag | 1 << 63)).map(|p| p.op.context);
        for peer in 0..PEERS {
            assert_eq!(take(peer, TAGS - 1), Some(context(peer, 7)), "any tag was posted before");
            for tag in (0..TAGS).rev().filter(|tag| *tag != 7) {
                assert_eq!(take(peer, tag), Some(context(peer, tag)));
            }
        }
        assert_eq!([take(0, 1), take(0, 1)], [Some(usize::MAX), None]);

        for (peer, tag) in numbers() {
            m.keep(message(context(peer, tag) as u64, peer, tag | 1 << 62));
        }
        let mut take = |op: &RecvOp| m.take_unexpected(op).map(|(_, u)| u.data as usize);
        for peer in (0..PEERS).rev() {
            for tag in (1..TAGS).rev() {
                assert_eq!(take(&op(Some(peer), tag, SAME, 0)), Some(context(peer, tag)));
            }
            assert_eq!(take(&op(Some(peer), 9, SAME, 0)), None);
        }
        assert_eq!(take(&any_tag(3, 0)), Some(context(3, 0)));
        assert_eq!(take(&any), Some(context(0, 0)));
        assert_eq!(m.unexpected_len(), PEERS as usize - 2);
    }

    #[test]
    fn a_late_peek_passes_over_each_message_once() {
        let mut m = Matching::default();
        m.keep(message(1, 1, 7));
        m.keep(message(2, 2, 8));
        let mut late = |tag| m.find_late(&op(None, tag, 0, 0)).map(|u| u.data);
        // Two that take turns do not hold each other up.
        assert_eq!([late(7), late(8), late(7), late(8)], [None, None, Some(1), Some(2)]);
        assert_eq!([late(7), late(7)], [None, Some(1)]);
        assert_eq!(late(9), None);
    }

    #[test]
    fn a_claimed_message_is_no_longer_found_but_still_grows() {
        let mut m = Matching::default();
        let at = m.keep(message(1, 1, 7));
        m.claim(&op(None, 7, 0, 99));
        assert!(m.find(&op(None, 7, 0, 0)).is_none());
        assert!(m.coming(at).is_some());
        assert!(m.take_claimed(98).is_none());
        assert_eq!(m.take_claimed(99).map(|(at, u)| (at, u.data)), Some((at, 1)));
        assert_eq!(m.unexpected_len(), 0);
    }
}
