//! The target's side of one-sided operations: carries them out on exposed
//! memory and owes each an answer.

use std::collections::VecDeque;

use wiglaf_transport::PeerId;
use wiglaf_transport::limits::UNASKED_LEN_MAX;
use wiglaf_wire::{Class, Envelope};

use crate::atomics::{Element, Function};
use crate::content::Content;
use crate::exposed::{Access, Exposed, Grant, Refusal};
use crate::owed::{Owed, Waiting};
use crate::remote::{ATOMIC_LEN_MAX, ATOMIC_PREFIX_LEN, RemoteStats};
use crate::{Completion, Outcome, Side};

/// An answer that is to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reply {
    peer: PeerId,
    operation: u32,
    status: u64,
    /// Credit that the operation's message holds until its answer has gone.
    refund: Option<u64>,
}

impl Reply {
    /// To whom.
    pub(crate) fn peer(&self) -> PeerId {
        self.peer
    }

    pub(crate) fn envelope(&self) -> Envelope {
        let envelope = Envelope::new(Class::Answer, self.status, None);
        Envelope { operation: self.operation, ..envelope }
    }
}

/// An operation of which not all has arrived.
#[derive(Debug)]
pub(crate) enum Arriving {
    /// Bytes that go straight to exposed memory.
    Write { envelope: Envelope, total: u64, grant: Result<Grant, Refusal> },
    /// Bytes that are looked at together.
    Whole { envelope: Envelope, total: u64, bytes: Vec<u8> },
}

impl Arriving {
    /// How many bytes of it are kept here.
    fn kept_len(&self) -> usize {
        match self {
            Self::Write { .. } => 0,
            Self::Whole { bytes, .. } => bytes.len(),
        }
    }

    /// How many bytes of it are worth having.
    pub(crate) fn wanted(&self) -> u64 {
        match self {
            Self::Write { total, grant: Ok(_), .. } => *total,
            Self::Write { .. } => 0,
            Self::Whole { total, bytes, .. } if bytes.len() as u64 == *total => *total,
            Self::Whole { .. } => 0,
        }
    }
}

/// What an endpoint does for its peers.
#[derive(Debug, Default)]
pub(crate) struct Target {
    exposed: Exposed,
    /// Answers that wait to be sent.
    replies: VecDeque<(Reply, Content)>,
    /// What is kept for whom, and which operations wait for room.
    owed: Owed,
    /// Credit to be given back: whose, and for how many bytes.
    refunds: Vec<(PeerId, u64)>,
    /// Whether operations without data are reported, too.
    reports_all: bool,
    stats: RemoteStats,
}

impl Target {
    /// The memory that peers reach.
    pub(crate) fn exposed(&self) -> &Exposed {
        &self.exposed
    }

    /// From now on peers reach `exposed`.
    pub(crate) fn expose_all(&mut self, exposed: Exposed) {
        self.exposed = exposed;
    }

    /// Whether operations without data are reported, too.
    pub(crate) fn report_all(&mut self, all: bool) {
        self.reports_all = all;
    }

    /// What was carried out and refused.
    pub(crate) fn stats(&self) -> RemoteStats {
        self.stats
    }

    /// Whether there is nothing to be sent or given back.
    pub(crate) fn is_idle(&self) -> bool {
        self.replies.is_empty() && self.refunds.is_empty() && self.owed.is_idle()
    }

    /// Takes an operation that is here as a whole, whose message is charged: carries it out, now or
    /// once there is room for its answer.
    pub(crate) fn take(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &[u8],
    ) -> Option<Completion> {
        if !self.owed.may_begin(peer, envelope.class == Class::Fetch) {
            let (envelope, payload) = (*envelope, payload.to_vec());
            self.owed.wait(peer, Waiting::Here { envelope, payload });
            return None;
        }
        self.perform(peer, envelope, payload, Some(payload.len() as u64))
    }

    /// Carries out operations that waited for room, and puts what is to be told of them behind `events`, until one is
    /// to be fetched: from whom, which, and its first part.
    pub(crate) fn resume(
        &mut self,
        events: &mut VecDeque<Completion>,
    ) -> Option<(PeerId, u32, Arriving)> {
        loop {
            match self.owed.next()? {
                (peer, Waiting::Here { envelope, payload }) => {
                    let refund = Some(payload.len() as u64);
                    events.extend(self.perform(peer, &envelope, &payload, refund));
                }
                (peer, Waiting::Announced { envelope, total, send_id }) => {
                    return Some((peer, send_id, self.fetch(peer, &envelope, total)));
                }
            }
        }
    }

    /// How many answers wait to be sent.
    pub(crate) fn reply_count(&self) -> usize {
        self.replies.len()
    }

    /// The next answer to be sent, and its content.
    pub(crate) fn next_reply(&mut self) -> Option<(Reply, Content)> {
        let (mut reply, mut content) = self.replies.pop_front()?;
        if content.is_withdrawn() {
            (reply.status, content) = (Refusal::Key.status(), Content::EMPTY);
            self.stats.refused_key += 1;
        }
        Some((reply, content))
    }

    /// It could not be sent now.
    pub(crate) fn reply_later(&mut self, reply: Reply, content: Content) {
        self.replies.push_back((reply, content));
    }

    /// It has left, and its content is not read any more.
    pub(crate) fn replied(&mut self, reply: Reply, content: &Content) {
        self.owed.release(reply.peer, content.kept_len());
        self.refunds.extend(reply.refund.map(|len| (reply.peer, len)));
    }

    /// Nobody is left to send it to.
    pub(crate) fn drop_reply(&mut self, reply: Reply, content: &Content) {
        self.owed.release(reply.peer, content.kept_len());
    }

    /// Credit to be given back: whose, and for how many bytes.
    pub(crate) fn next_refund(&mut self) -> Option<(PeerId, u64)> {
        self.refunds.pop()
    }

    /// A peer is gone, and its operations that wait with it.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.owed.forget(peer);
    }

    #[cfg(test)]
    pub(crate) fn owed(&self) -> &Owed {
        &self.owed
    }

    /// An operation was announced: its first part, if it may be fetched now. Else it waits with its
    /// initiator.
    pub(crate) fn announced(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        total: u64,
        send_id: u32,
    ) -> Option<Arriving> {
        // The bytes of a write need no other room than the exposed memory.
        let needs_room = envelope.class != Class::Write;
        if !self.owed.may_begin(peer, needs_room) {
            self.owed.wait(peer, Waiting::Announced { envelope: *envelope, total, send_id });
            return None;
        }
        Some(self.fetch(peer, envelope, total))
    }

    /// Makes room for an operation that is fetched.
    fn fetch(&mut self, peer: PeerId, envelope: &Envelope, total: u64) -> Arriving {
        let arriving = self.begin(envelope, total);
        self.owed.keep(peer, arriving.kept_len());
        arriving
    }

    /// One that was fetched is here as a whole.
    pub(crate) fn fetched(&mut self, peer: PeerId, arriving: Arriving) -> Option<Completion> {
        self.owed.release(peer, arriving.kept_len());
        self.end(peer, arriving, false)
    }

    /// Carries out an operation that is here as a whole.
    fn perform(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &[u8],
        refund: Option<u64>,
    ) -> Option<Completion> {
        let (len, outcome) = match envelope.class {
            Class::Write => (payload.len(), self.write(envelope, payload)),
            Class::Read => self.read(envelope, payload),
            _ => self.update(envelope, payload),
        };
        self.reply(peer, envelope, outcome, refund, len)
    }

    fn write(&mut self, envelope: &Envelope, payload: &[u8]) -> Result<Content, Refusal> {
        let grant = self.check(envelope, payload.len() as u64, Access::WRITE)?;
        if self.exposed.write(&grant, 0, payload) { Ok(Content::EMPTY) } else { Err(Refusal::Key) }
    }

    fn read(&mut self, envelope: &Envelope, payload: &[u8]) -> (usize, Result<Content, Refusal>) {
        let Ok(len) = payload.try_into().map(u64::from_le_bytes) else {
            return (0, Err(Refusal::Malformed));
        };
        match self.check(envelope, len, Access::READ) {
            Ok(grant) => (grant.len(), Ok(Content::Exposed(self.exposed.clone(), grant))),
            Err(refusal) => (0, Err(refusal)),
        }
    }

    fn update(&mut self, envelope: &Envelope, payload: &[u8]) -> (usize, Result<Content, Refusal>) {
        let Some(atomic) = Atomic::parse(envelope.class, payload) else {
            return (0, Err(Refusal::Malformed));
        };
        let Atomic { function, element, len, operands, comparands } = atomic;
        let fetches = envelope.class == Class::Fetch;
        let needed = Access { read: fetches, write: function != Function::Read };
        let grant = match self.check(envelope, len as u64, needed) {
            Ok(grant) => grant,
            Err(refusal) => return (0, Err(refusal)),
        };
        let mut fetched = vec![0; if fetches { len } else { 0 }];
        let done =
            self.exposed.update(&grant, function, element, operands, comparands, &mut fetched);
        (len, if done { Ok(Content::Owned(fetched)) } else { Err(Refusal::Key) })
    }

    fn check(&self, envelope: &Envelope, len: u64, needed: Access) -> Result<Grant, Refusal> {
        self.exposed.check(envelope.tag, envelope.address, len, needed)
    }

    /// The first part of an operation whose message is charged and comes in several; its bytes follow
    /// through [`Target::part`].
    pub(crate) fn first(&self, peer: PeerId, envelope: &Envelope, total: u64) -> Arriving {
        if envelope.class == Class::Write && !self.owed.may_begin(peer, false) {
            let bytes = vec![0; total.min(UNASKED_LEN_MAX) as usize];
            return Arriving::Whole { envelope: *envelope, total, bytes };
        }
        self.begin(envelope, total)
    }

    /// The first part of an operation that was announced, or may begin at once; its bytes follow through
    /// [`Target::part`].
    fn begin(&self, envelope: &Envelope, total: u64) -> Arriving {
        let envelope = *envelope;
        if envelope.class == Class::Write {
            let grant = self.check(&envelope, total, Access::WRITE);
            return Arriving::Write { envelope, total, grant };
        }
        let bytes = vec![0; total.min(ATOMIC_LEN_MAX as u64) as usize];
        Arriving::Whole { envelope, total, bytes }
    }

    pub(crate) fn part(&self, arriving: &mut Arriving, offset: usize, part: &[u8]) {
        match arriving {
            Arriving::Write { grant, .. } => {
                if let Ok(range) = grant
                    && !self.exposed.write(range, offset, part)
                {
                    *grant = Err(Refusal::Key);
                }
            }
            Arriving::Whole { bytes, .. } => {
                if let Some(place) = bytes.get_mut(offset..offset + part.len()) {
                    place.copy_from_slice(part);
                }
            }
        }
    }

    /// All of an operation has come.
    pub(crate) fn end(
        &mut self,
        peer: PeerId,
        arriving: Arriving,
        is_charged: bool,
    ) -> Option<Completion> {
        match arriving {
            Arriving::Write { envelope, total, grant } => {
                let outcome = grant.map(|_| Content::EMPTY);
                self.reply(peer, &envelope, outcome, is_charged.then_some(total), total as usize)
            }
            Arriving::Whole { envelope, total, bytes } => {
                if bytes.len() as u64 != total {
                    let refund = is_charged.then_some(total);
                    self.reply(peer, &envelope, Err(Refusal::Malformed), refund, 0)
                } else if is_charged {
                    self.take(peer, &envelope, &bytes)
                } else {
                    self.perform(peer, &envelope, &bytes, None)
                }
            }
        }
    }

    /// Of an operation that was announced nothing can be had.
    pub(crate) fn refuse(&mut self, peer: PeerId, arriving: &Arriving) {
        self.owed.release(peer, arriving.kept_len());
        let (Arriving::Write { envelope, .. } | Arriving::Whole { envelope, .. }) = arriving;
        self.reply(peer, envelope, Err(Refusal::Room), None, 0);
    }

    /// Owes the answer; tells the application, if it is to know.
    fn reply(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        outcome: Result<Content, Refusal>,
        refund: Option<u64>,
        len: usize,
    ) -> Option<Completion> {
        //= docs/protocol.md#10-one-sided-operations
        //# A target MUST carry out an operation at most once, and answer once each that has wholly arrived.
        let counter = match &outcome {
            Ok(_) => &mut self.stats.performed,
            Err(Refusal::Key) => &mut self.stats.refused_key,
            Err(Refusal::Access) => &mut self.stats.refused_access,
            Err(Refusal::Bounds) => &mut self.stats.refused_bounds,
            Err(Refusal::Malformed) => &mut self.stats.refused_malformed,
            Err(Refusal::Room) => &mut self.stats.refused_room,
        };
        *counter += 1;
        let status = outcome.as_ref().err().map_or(0, |refusal| refusal.status());
        let is_done = outcome.is_ok();
        let content = outcome.unwrap_or(Content::EMPTY);
        self.owed.keep(peer, content.kept_len());
        let reply = Reply { peer, operation: envelope.operation, status, refund };
        self.replies.push_back((reply, content));
        (is_done && (self.reports_all || envelope.data.is_some())).then_some(Completion {
            len,
            data: envelope.data,
            tag: envelope.tag,
            source: Some(peer),
            ..Completion::new(Side::Recv, envelope.class, 0, Outcome::Done)
        })
    }
}

/// The payload of an atomic operation, taken apart.
struct Atomic<'a> {
    function: Function,
    element: Element,
    /// Length of all elements.
    len: usize,
    operands: &'a [u8],
    comparands: &'a [u8],
}

impl<'a> Atomic<'a> {
    fn parse(class: Class, payload: &'a [u8]) -> Option<Self> {
        let (prefix, rest) = payload.split_first_chunk::<ATOMIC_PREFIX_LEN>()?;
        let [function, element, _, _, c0, c1, c2, c3] = *prefix;
        let (function, element) = (Function::from_code(function)?, Element::from_code(element)?);
        let count = u32::from_le_bytes([c0, c1, c2, c3]) as usize;
        let len = count.checked_mul(element.len()).filter(|len| *len <= ATOMIC_LEN_MAX)?;
        let sent = match function {
            Function::Read => 0,
            function if function.compares() => 2 * len,
            _ => len,
        };
        let makes_sense = function.takes(element)
            && (class == Class::Fetch || !function.only_fetches())
            && rest.len() == sent;
        let (operands, comparands) = rest.split_at_checked(len.min(sent))?;
        makes_sense.then_some(Self { function, element, len, operands, comparands })
    }
}
