//! Operations in progress: the [`Sink`] and [`Source`] of the transport.
//!
//! What the transport has to do for an operation is asked of it here. The near lane is the endpoint's: what concerns
//! it is answered as a [`Rest`].

use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;

use wiglaf_link::near::Payload as Bytes;
use wiglaf_transport::{Gone, PeerId, Posted as Taken, SendError, Sink, Source, Transport, Wanted};
use wiglaf_wire::{Class, Crc32c, Envelope};

use crate::active::{Actives, Next};
use crate::ahead::{Ahead, Entry, is_eligible};
use crate::announced::Announced;
use crate::content::Content;
use crate::exposed::Exposed;
use crate::matching::{Matching, Payload, Posted, Unexpected};
use crate::memory::Regions;
use crate::remote::{Initiator, RemoteOp, RemoteStats};
use crate::table::{ByPeer, Table};
use crate::target::{Arriving, Reply, Target};
use crate::{ACTIVE_LEN_MAX, ActiveMessage, Completion, Outcome, RecvOp, SendOp, Side};

/// The context of messages that are dropped: nobody waits for their end.
const DROPPED: usize = usize::MAX;

/// Who is told when a send has ended.
#[derive(Debug)]
pub(crate) enum Whose {
    /// The user.
    User(SendOp),
    /// A one-sided operation.
    Operation(u32),
    /// Whoever sent the message that this answers: its credit is due.
    Answer(Reply),
}

/// What is still to be done about a message that has found its receive, or its end.
#[derive(Debug)]
#[must_use]
pub(crate) enum Rest {
    Nothing,
    /// It was here: the credit of that peer for so many bytes is free again.
    Consumed(PeerId, u64),
    /// The transport is to ask for it, or to decline it; and that peer's credit has grown by it.
    Asked(Option<PeerId>),
    /// It is with its sender on this node; nobody wants it without the latter.
    Near(Box<Announced>, Option<Wanted>),
}

/// A send that the transport may still read.
#[derive(Debug)]
struct Sending {
    whose: Whose,
    content: Content,
}

/// A receive whose message is known.
#[derive(Debug, Clone, Copy)]
struct Receiving {
    posted: Posted,
    peer: PeerId,
    envelope: Envelope,
    total: u64,
}

/// A message that is being pulled.
#[derive(Debug)]
enum Pulling {
    ToUser(Receiving),
    /// A message without a receive, in that place among the unexpected ones.
    Ahead(u32),
    /// And whether it has its place among those that wait.
    Active(ActiveMessage, bool),
    /// An operation on exposed memory.
    Remote(PeerId, Arriving),
    /// The answer to an operation; one that nobody awaits has no number.
    Answer(Option<u32>),
}

/// An eager message whose parts are coming.
#[derive(Debug)]
enum Assembly {
    ToUser {
        receiving: Receiving,
        got: usize,
    },
    /// And where it is kept.
    Unexpected {
        at: u32,
    },
    Active(ActiveMessage),
    Remote {
        arriving: Arriving,
        got: usize,
    },
    Answer {
        id: Option<u32>,
        got: usize,
    },
}

/// A buffer that takes several messages.
#[derive(Debug, Clone, Copy)]
struct MultiBuffer {
    used: usize,
    min_free: usize,
    /// Messages that are still arriving in it.
    outstanding: usize,
    retired: bool,
}

/// Everything that operations leave behind between calls.
#[derive(Debug, Default)]
pub(crate) struct Books {
    matching: Matching,
    /// Which of the announced messages may be pulled before their receives.
    ahead: Ahead,
    sending: Table<Sending>,
    pulling: Table<Pulling>,
    assembling: HashMap<PeerId, Assembly, ByPeer>,
    multi: Table<MultiBuffer>,
    active: Actives,
    sends_done: VecDeque<Completion>,
    recvs_done: VecDeque<Completion>,
    /// Steps of collective operations, of either side.
    steps_done: VecDeque<Completion>,
    /// Peers that are gone, until somebody asks.
    gone: VecDeque<(PeerId, Gone)>,
    /// One-sided operations of this endpoint.
    remote: Initiator,
    /// One-sided operations of its peers.
    target: Target,
}

// SAFETY: the raw pointers in completions are only carried, never followed.
unsafe impl Send for Books {}

impl Books {
    pub(crate) fn pop_completion(&mut self, side: Side) -> Option<Completion> {
        match side {
            Side::Send => self.sends_done.pop_front(),
            Side::Recv => self.recvs_done.pop_front(),
        }
    }

    pub(crate) fn drop_completion(&mut self, side: Side) {
        match side {
            Side::Send => drop(self.sends_done.pop_front()),
            Side::Recv => drop(self.recvs_done.pop_front()),
        }
    }

    pub(crate) fn completion(&self, side: Side) -> Option<&Completion> {
        match side {
            Side::Send => self.sends_done.front(),
            Side::Recv => self.recvs_done.front(),
        }
    }

    pub(crate) fn has_completed(&self, side: Side) -> bool {
        match side {
            Side::Send => !self.sends_done.is_empty(),
            Side::Recv => !self.recvs_done.is_empty(),
        }
    }

    pub(crate) fn has_completion(&self) -> bool {
        let done = [&self.sends_done, &self.recvs_done, &self.steps_done];
        done.iter().any(|queue| !queue.is_empty()) || self.active.is_due()
    }

    /// The next message of a collective operation that has been sent or received.
    pub(crate) fn pop_step(&mut self) -> Option<Completion> {
        loop {
            let done = self.steps_done.pop_front()?;
            if done.context != DROPPED {
                return Some(done);
            }
        }
    }

    /// The next peer that was found to be gone, and why.
    pub(crate) fn pop_gone(&mut self) -> Option<(PeerId, Gone)> {
        self.gone.pop_front()
    }

    pub(crate) fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Messages and receives that wait for each other.
    pub(crate) fn matching(&self) -> &Matching {
        &self.matching
    }

    /// Active messages.
    pub(crate) fn active(&self) -> &Actives {
        &self.active
    }

    /// Whether no one-sided operation of this side, or of a peer, is under way.
    pub(crate) fn is_one_sided_idle(&self) -> bool {
        self.remote.is_idle() && self.target.is_idle()
    }

    /// Whether a receive waits for a message, or an operation for its end.
    pub(crate) fn awaits_message(&self) -> bool {
        self.matching.has_single() || !self.is_one_sided_idle()
    }

    pub(crate) fn begin_send(&mut self, whose: Whose, content: Content) -> u64 {
        self.sending.insert(Sending { whose, content }) as u64
    }

    /// What a send is to send.
    pub(crate) fn content(&self, token: u64) -> Option<&Content> {
        self.sending.get(token as usize).map(|sending| &sending.content)
    }

    /// The buffer of a send is its caller's again in a moment, and what is to be read of it is copied.
    pub(crate) fn keep_copy(&mut self, token: u64) {
        if let Some(sending) = self.sending.get_mut(token as usize) {
            let content = std::mem::replace(&mut sending.content, Content::EMPTY);
            sending.content = content.owned();
        }
    }

    /// A send was not taken; answers what it would have sent.
    pub(crate) fn abort_send(&mut self, token: u64) -> Content {
        self.sending.remove(token as usize).map_or(Content::EMPTY, |sending| sending.content)
    }

    /// A send has ended; success is reported if that was wanted.
    pub(crate) fn end_send(&mut self, token: u64, outcome: Outcome) {
        let Some(Sending { whose, content }) = self.sending.remove(token as usize) else { return };
        match whose {
            Whose::User(op) => self.report_send(&op, content.len(), outcome),
            Whose::Operation(id) => {
                let ended = self.remote.sent(id, outcome == Outcome::Done);
                self.sends_done.extend(ended);
            }
            Whose::Answer(reply) => self.target.replied(reply, &content),
        }
    }

    pub(crate) fn report_send(&mut self, op: &SendOp, len: usize, outcome: Outcome) {
        if op.report || outcome != Outcome::Done {
            let done = match op.class {
                Class::Collective => &mut self.steps_done,
                _ => &mut self.sends_done,
            };
            done.push_back(Completion {
                len,
                data: op.data,
                tag: op.tag,
                ..Completion::new(Side::Send, op.class, op.context, outcome)
            });
        }
    }

    fn push_recv(&mut self, completion: Completion) {
        match completion.class {
            Class::Collective => self.steps_done.push_back(completion),
            _ => self.recvs_done.push_back(completion),
        }
    }

    /// A receive has all of its message.
    fn end_recv(&mut self, r: &Receiving, complete: bool) {
        let mut completion = received(&r.posted, r.peer, &r.envelope, r.total);
        if !complete {
            completion.outcome = Outcome::PeerGone;
        }
        completion.multi_released = self.leave_multi(r.posted.multi);
        let ended_well = completion.outcome == Outcome::Done && !completion.multi_released;
        if r.posted.op.report || !ended_well {
            self.push_recv(completion);
        }
    }

    /// A receive ended without any message.
    fn end_unmatched(&mut self, posted: &Posted, outcome: Outcome) {
        let mut multi_released = false;
        if let Some(id) = posted.multi
            && let Some(buffer) = self.multi.get_mut(id)
        {
            buffer.retired = true;
            multi_released = buffer.outstanding == 0;
            if multi_released {
                self.multi.remove(id);
            }
        }
        self.push_recv(Completion {
            tag: posted.op.tag,
            is_multi: posted.multi.is_some(),
            multi_released,
            ..Completion::new(Side::Recv, posted.op.class, posted.op.context, outcome)
        });
    }

    /// No message can come any more: every receive that waits for one ends.
    pub(crate) fn end_all_unmatched(&mut self) {
        while let Some(posted) = self.matching.withdraw(|_| true) {
            self.end_unmatched(&posted, Outcome::PeerGone);
        }
    }

    /// Names a pull of `receiving`; answers what to ask for.
    fn begin_pull(&mut self, receiving: Receiving) -> Wanted {
        let len = receiving.total.min(receiving.posted.regions.len() as u64);
        let token = self.pulling.insert(Pulling::ToUser(receiving)) as u64;
        Wanted { len, token }
    }

    /// Names a pull of an active message; answers what to ask for. `parked` if it has its place among those that wait.
    fn begin_active(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        total: u64,
        parked: bool,
    ) -> Wanted {
        let len = total.min(ACTIVE_LEN_MAX as u64);
        let message = active(peer, envelope, vec![0; len as usize]);
        self.active.reserve(message.payload.len());
        let token = self.pulling.insert(Pulling::Active(message, parked)) as u64;
        Wanted { len, token }
    }

    /// A pull of nothing ends at once.
    pub(crate) fn end_pull(&mut self, token: u64, complete: bool) {
        match self.pulling.remove(token as usize) {
            Some(Pulling::ToUser(receiving)) => self.end_recv(&receiving, complete),
            Some(Pulling::Ahead(at)) => {
                if let Some(message) = self.matching.coming(at) {
                    message.payload.end_ahead(complete);
                }
            }
            Some(Pulling::Active(message, parked)) if complete => {
                self.active.fetched(message, parked);
            }
            Some(Pulling::Active(message, parked)) => self.active.lost(&message, parked),
            Some(Pulling::Remote(peer, arriving)) if complete => {
                let event = self.target.fetched(peer, arriving);
                self.recvs_done.extend(event);
            }
            Some(Pulling::Remote(peer, arriving)) => self.target.refuse(peer, &arriving),
            Some(Pulling::Answer(Some(id))) => {
                let ended = self.remote.answer_ends(id, complete);
                self.sends_done.extend(ended);
            }
            Some(Pulling::Answer(None)) | None => {}
        }
    }

    /// Keeps a message for which nothing was posted; says in which place.
    fn keep(&mut self, peer: PeerId, envelope: &Envelope, payload: Payload) -> u32 {
        self.matching.keep(Unexpected::new(peer, *envelope, payload))
    }

    fn receiving(&mut self, peer: PeerId, envelope: &Envelope, total: u64) -> Option<Receiving> {
        let posted = self.matching.take_posted(peer, envelope)?;
        let posted = self.place(posted, total);
        Some(Receiving { posted, peer, envelope: *envelope, total })
    }

    /// A whole message has arrived. True when its memory is not needed any further.
    pub(crate) fn arrived(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &dyn Bytes,
    ) -> bool {
        if envelope.class == Class::Active {
            self.active.arrived(active(peer, envelope, copy_of(payload)));
            return false;
        }
        let total = payload.len() as u64;
        let Some((at, posted)) = self.matching.find_posted(peer, envelope) else {
            self.keep(peer, envelope, Payload::whole(copy_of(payload)));
            return false;
        };
        if posted.multi.is_none() {
            // The usual case: what was posted is not moved about.
            posted.regions.take(payload);
            let completion = received(posted, peer, envelope, total);
            if posted.op.report || completion.outcome != Outcome::Done {
                self.push_recv(completion);
            }
            self.matching.remove_posted(at);
            return true;
        }
        let posted = self.place(*posted, total);
        posted.regions.take(payload);
        self.end_recv(&Receiving { posted, peer, envelope: *envelope, total }, true);
        true
    }

    /// A message was announced. What to pull of it, if somebody wants it
    /// already; otherwise it is remembered that it is `elsewhere`.
    pub(crate) fn announced(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        total: u64,
        elsewhere: impl FnOnce() -> Payload,
    ) -> Option<Wanted> {
        if envelope.class == Class::Active {
            if self.active.has_room() {
                return Some(self.begin_active(peer, envelope, total, false));
            }
            self.active.park(peer, *envelope, elsewhere());
            return None;
        }
        if let Some(receiving) = self.receiving(peer, envelope, total) {
            return Some(self.begin_pull(receiving));
        }
        let payload = elsewhere();
        let send_id = match payload {
            Payload::Remote { send_id, .. } if is_eligible(envelope, total) => Some(send_id),
            _ => None,
        };
        let at = self.keep(peer, envelope, payload);
        if let Some(send_id) = send_id {
            self.ahead.add(peer, Entry { at, send_id });
        }
        None
    }

    /// Hands over the memory for bytes `offset..offset + len` of a pull.
    pub(crate) fn with_room<R>(
        &mut self,
        token: u64,
        (offset, len): (usize, usize),
        f: impl FnOnce(&mut [&mut [MaybeUninit<u8>]]) -> R,
    ) -> Option<R> {
        match self.pulling.get_mut(token as usize)? {
            Pulling::ToUser(r) => Some(r.posted.regions.with_room(offset, len, f)),
            Pulling::Active(message, _) => {
                let room = message.payload.get_mut(offset..offset.checked_add(len)?)?;
                Some(f(&mut [crate::memory::as_room(room)]))
            }
            Pulling::Ahead(_) | Pulling::Remote(..) | Pulling::Answer(_) => None,
        }
    }
}

/// Receives: posting them, and giving them what has come before them.
impl Books {
    /// Whether a message waits that such a receive would take.
    pub(crate) fn holds(&mut self, op: &RecvOp) -> bool {
        self.matching.find(op).is_some()
    }

    /// Posts a receive of one message, or gives it the message that waits for it.
    pub(crate) fn post(
        &mut self,
        transport: &mut Transport,
        op: &RecvOp,
        regions: Regions,
    ) -> Rest {
        let posted = Posted { op: *op, regions, multi: None };
        match self.matching.take_unexpected(op) {
            Some(taken) => return self.receive(transport, posted, taken),
            None if waits_in_vain(transport, op) => {
                self.end_unmatched(&posted, Outcome::PeerGone);
            }
            None => self.matching.post(posted),
        }
        Rest::Nothing
    }

    /// Posts a buffer for several messages; answers its number. [`Books::fill`] and [`Books::filled`] are to follow.
    pub(crate) fn post_multi(&mut self, op: &RecvOp, regions: Regions, min_free: usize) -> usize {
        let buffer = MultiBuffer { used: 0, min_free, outstanding: 0, retired: false };
        let id = self.multi.insert(buffer);
        self.matching.post(Posted { op: *op, regions, multi: Some(id) });
        id
    }

    /// The next message that waits for such a buffer goes to the first one that takes it.
    pub(crate) fn fill(&mut self, transport: &mut Transport, op: &RecvOp) -> Option<Rest> {
        let message = self.matching.find(op)?;
        let (peer, envelope) = (message.peer, message.envelope());
        let posted = self.matching.take_posted(peer, &envelope)?;
        let taken = self.matching.take_unexpected(op)?;
        Some(self.receive(transport, posted, taken))
    }

    /// All that waited has gone to a buffer: it waits for more, unless nobody is left to send it.
    pub(crate) fn filled(&mut self, transport: &Transport, op: &RecvOp, id: usize) {
        if waits_in_vain(transport, op)
            && let Some(left) = self.matching.withdraw(|p| p.multi == Some(id))
        {
            self.end_unmatched(&left, Outcome::PeerGone);
        }
    }

    /// Withdraws a receive that has matched nothing yet, with a completion. False when there is none (left).
    pub(crate) fn cancel(&mut self, context: usize) -> bool {
        let is_it = |p: &Posted| p.op.context == context && p.op.class != Class::Collective;
        let posted = self.matching.withdraw(is_it);
        if let Some(posted) = &posted {
            self.end_unmatched(posted, Outcome::Canceled);
        }
        posted.is_some()
    }

    /// Withdraws a receive of a collective operation that has matched nothing yet, without a completion. False when
    /// there is none (left).
    pub(crate) fn withdraw_step(&mut self, context: usize) -> bool {
        let is_it = |p: &Posted| p.op.class == Class::Collective && p.op.context == context;
        self.matching.withdraw(is_it).is_some()
    }

    /// Drops the messages of collective operations that wait for a receive and that `pick` picks by sender, tag and
    /// data.
    pub(crate) fn drop_steps(
        &mut self,
        transport: &mut Transport,
        mut pick: impl FnMut(PeerId, u64, Option<u64>) -> bool,
    ) -> Vec<Rest> {
        let op = RecvOp {
            class: Class::Collective,
            from: None,
            tag: 0,
            ignore: u64::MAX,
            context: DROPPED,
            report: false,
            multi_min_free: None,
        };
        let dropped = Posted { op, regions: Regions::EMPTY, multi: None };
        let picked = self.matching.take_unexpected_where(|message| {
            let envelope = message.envelope();
            envelope.class == Class::Collective && pick(message.peer, envelope.tag, envelope.data)
        });
        picked.into_iter().map(|taken| self.receive(transport, dropped, taken)).collect()
    }

    /// Looks for a message, and tells with a completion whether there is one. With `claim` it is set aside for
    /// [`Books::receive_claimed`]; `late` passes over it once.
    pub(crate) fn peek(&mut self, op: &RecvOp, claim: bool, late: bool) {
        let matching = &mut self.matching;
        let message = if late && !claim { matching.find_late(op) } else { matching.find(op) };
        let found = message.map(|m| (m.peer, m.envelope(), m.payload.len()));
        let nothing = Envelope::new(op.class, op.tag, None);
        let (source, envelope, len, outcome) = match found {
            Some((peer, envelope, total)) => (Some(peer), envelope, total, Outcome::Done),
            None => (None, nothing, 0, Outcome::NoMessage),
        };
        if claim && source.is_some() {
            self.matching.claim(op);
        }
        self.push_recv(Completion {
            len: len as usize,
            data: envelope.data,
            tag: envelope.tag,
            source,
            ..Completion::new(Side::Recv, op.class, op.context, outcome)
        });
    }

    /// Receives the message that was claimed under `op.context`.
    pub(crate) fn receive_claimed(
        &mut self,
        transport: &mut Transport,
        op: &RecvOp,
        regions: Regions,
    ) -> Option<Rest> {
        let claimed = self.matching.take_claimed(op.context)?;
        Some(self.receive(transport, Posted { op: *op, regions, multi: None }, claimed))
    }

    /// Drops the message that was claimed under `op.context`, with a completion.
    pub(crate) fn discard_claimed(
        &mut self,
        transport: &mut Transport,
        op: &RecvOp,
    ) -> Option<Rest> {
        let (at, message) = self.matching.take_claimed(op.context)?;
        let (envelope, total) = (message.envelope(), message.payload.len());
        let Unexpected { peer, payload, .. } = message;
        let posted = Posted { op: *op, regions: Regions::EMPTY, multi: None };
        let receiving = Receiving { posted, peer, envelope, total: 0 };
        let rest = match payload {
            Payload::Remote { send_id, total } => {
                transport.pull(peer, send_id, 0, 0);
                self.was_announced(transport, peer, &envelope, total);
                Rest::Asked(None)
            }
            Payload::Near(announced) => Rest::Near(announced, None),
            Payload::Here { bytes, got } if bytes.len() == got as usize => {
                Rest::Consumed(peer, total)
            }
            // What is still to come of these two goes nowhere.
            Payload::Ahead { token, .. } => {
                self.turn_ahead(token, receiving);
                return Some(Rest::Consumed(peer, total));
            }
            Payload::Here { got, .. } => {
                self.redirect(at, receiving, got as usize);
                return Some(Rest::Nothing);
            }
        };
        self.end_recv(&receiving, true);
        Some(rest)
    }

    /// Gives an unexpected message, and the place where it was, to its receive.
    fn receive(
        &mut self,
        transport: &mut Transport,
        posted: Posted,
        (at, message): (u32, Unexpected),
    ) -> Rest {
        let (envelope, total) = (message.envelope(), message.payload.len());
        let Unexpected { peer, payload, .. } = message;
        let posted = self.place(posted, total);
        let receiving = Receiving { posted, peer, envelope, total };
        match payload {
            Payload::Here { bytes, got } => {
                let got = got as usize;
                posted.regions.write(0, &bytes[..got]);
                if got < bytes.len() {
                    self.redirect(at, receiving, got);
                    return Rest::Nothing;
                }
                self.end_recv(&receiving, true);
                Rest::Consumed(peer, total)
            }
            Payload::Ahead { bytes, token } => {
                // What has not come is written over what stands in its place.
                posted.regions.write(0, &bytes);
                self.turn_ahead(token, receiving);
                Rest::Consumed(peer, total)
            }
            Payload::Remote { send_id, .. } => {
                transport.widen_credit(peer, total);
                self.was_announced(transport, peer, &envelope, total);
                let wanted = self.begin_pull(receiving);
                self.pull(transport, peer, send_id, wanted);
                Rest::Asked(Some(peer))
            }
            Payload::Near(announced) => Rest::Near(announced, Some(self.begin_pull(receiving))),
        }
    }

    /// The rest of a message of which `got` bytes have come, and which was in place `from`, goes to its
    /// receive from now on.
    fn redirect(&mut self, from: u32, receiving: Receiving, got: usize) {
        if let Some(assembly) = self.assembling.get_mut(&receiving.peer)
            && matches!(assembly, Assembly::Unexpected { at } if *at == from)
        {
            *assembly = Assembly::ToUser { receiving, got };
        } else {
            self.end_recv(&receiving, false); // the rest will never come
        }
    }

    /// The next active message that has arrived, or what is to be done about one that is still with its sender.
    pub(crate) fn next_active(
        &mut self,
        transport: &mut Transport,
    ) -> Option<(Option<ActiveMessage>, Rest)> {
        Some(match self.active.next()? {
            Next::Message(message, true) => {
                let consumed = Rest::Consumed(message.source, message.payload.len() as u64);
                (Some(message), consumed)
            }
            Next::Message(message, false) => (Some(message), Rest::Nothing),
            Next::Announced(peer, envelope, payload) => {
                let wanted = self.begin_active(peer, &envelope, payload.len(), true);
                match payload {
                    Payload::Remote { send_id, .. } => {
                        self.pull(transport, peer, send_id, wanted);
                        (None, Rest::Asked(None))
                    }
                    Payload::Near(announced) => (None, Rest::Near(announced, Some(wanted))),
                    Payload::Here { .. } | Payload::Ahead { .. } => (None, Rest::Nothing),
                }
            }
        })
    }

    /// Gives a matched message its memory: all of the receive's, or the next
    /// slice of its multi-receive buffer.
    fn place(&mut self, mut posted: Posted, total: u64) -> Posted {
        let Some(id) = posted.multi else { return posted };
        let Some(buffer) = self.multi.get_mut(id) else { return posted };
        let whole = posted.regions.len();
        let len = usize::try_from(total).unwrap_or(usize::MAX);
        posted.regions = posted.regions.slice(buffer.used, len);
        buffer.used += posted.regions.len();
        buffer.outstanding += 1;
        if whole - buffer.used < buffer.min_free.max(1) {
            buffer.retired = true;
            self.matching.withdraw(|p| p.multi == Some(id));
        }
        posted
    }

    /// One message fewer is arriving in the buffer; true when that was its last.
    fn leave_multi(&mut self, id: Option<usize>) -> bool {
        let Some(id) = id else { return false };
        let Some(buffer) = self.multi.get_mut(id) else { return false };
        buffer.outstanding -= 1;
        let released = buffer.retired && buffer.outstanding == 0;
        if released {
            self.multi.remove(id);
        }
        released
    }
}

/// Messages that peers keep: asking for them, also before their receives are posted.
impl Books {
    /// Asks a peer for what is wanted of what it announced.
    fn pull(&mut self, transport: &mut Transport, peer: PeerId, send_id: u32, wanted: Wanted) {
        let asked = transport.pull(peer, send_id, wanted.len, wanted.token);
        if !asked || wanted.len == 0 {
            self.end_pull(wanted.token, asked); // no segment will come to say so
        }
    }

    /// An announced message has found its receive, or its end.
    fn was_announced(
        &mut self,
        transport: &mut Transport,
        peer: PeerId,
        envelope: &Envelope,
        total: u64,
    ) {
        if is_eligible(envelope, total) && self.not_announced(peer) {
            transport.hold_credit(peer, false);
        }
    }

    /// A peer that has announced messages of late, each once or more often, of which some wait.
    pub(crate) fn next_fresh(&mut self) -> Option<PeerId> {
        loop {
            let peer = self.ahead.take_fresh()?;
            if self.ahead.has(peer) {
                return Some(peer);
            }
        }
    }

    /// Pulls announced messages of that peer in their order, as far as its credit reaches, which grows
    /// by as much if messages of that peer `are_received` meanwhile.
    pub(crate) fn pull_ahead(
        &mut self,
        transport: &mut Transport,
        peer: PeerId,
        are_received: bool,
    ) {
        while let Some(entry) = self.ahead.front(peer) {
            let Some(total) = self.matching.announced_at(entry.at, peer, entry.send_id) else {
                self.ahead.pop(peer);
                continue;
            };
            if !transport.charge_ahead(peer, total, are_received) {
                return;
            }
            if are_received {
                transport.widen_credit(peer, total);
            }
            self.ahead.pop(peer);
            let is_last = self.not_announced(peer);
            let token = self.pulling.insert(Pulling::Ahead(entry.at)) as u64;
            if let Some(message) = self.matching.coming(entry.at) {
                let bytes = vec![0; total as usize].into();
                message.payload = Payload::Ahead { bytes, token: token as u32 };
            }
            self.pull(transport, peer, entry.send_id, Wanted { len: total, token });
            if is_last {
                transport.hold_credit(peer, false);
            }
        }
    }

    /// Credit of that peer has come free: announced messages go first. True when there was any to pull.
    pub(crate) fn pull_more(&mut self, transport: &mut Transport, peer: PeerId) -> bool {
        let may_pull = self.ahead.has(peer) && transport.may_pull_ahead(peer);
        if may_pull {
            self.pull_ahead(transport, peer, true);
        }
        may_pull
    }

    /// The rest of a message that is pulled ahead goes to its receive, which has what has come.
    fn turn_ahead(&mut self, token: u32, receiving: Receiving) {
        if let Some(pulling) = self.pulling.get_mut(token as usize) {
            *pulling = Pulling::ToUser(receiving);
        }
    }

    /// An announced message has been received, or is being pulled. True when no other of its peer
    /// waits any more.
    fn not_announced(&mut self, peer: PeerId) -> bool {
        let Self { ahead, matching, .. } = self;
        let is_valid =
            |entry: &Entry| matching.announced_at(entry.at, peer, entry.send_id).is_some();
        ahead.has(peer) && !ahead.remove(peer, is_valid)
    }
}

/// One-sided operations.
impl Books {
    /// The memory that peers may reach.
    pub(crate) fn exposed(&self) -> &Exposed {
        self.target.exposed()
    }

    /// What peers may do, and what is told of it.
    pub(crate) fn target_mut(&mut self) -> &mut Target {
        &mut self.target
    }

    /// What was carried out and refused.
    pub(crate) fn remote_stats(&self) -> RemoteStats {
        RemoteStats { refused_answers: self.remote.refused_answers(), ..self.target.stats() }
    }

    /// Takes an operation. True when its message is under way, false when it is held back.
    pub(crate) fn post_operation(
        &mut self,
        transport: &mut Transport,
        op: &RemoteOp,
        class: Class,
        len: usize,
        content: Content,
        results: Regions,
    ) -> Result<bool, SendError> {
        let (id, starts) = self.remote.begin(op, class, len, content, results);
        if starts {
            self.start(transport, id).inspect_err(|_| self.remote.abort(id))?;
        } else if op.inject
            && let Some((_, _, content)) = self.remote.start(id)
        {
            self.remote.put_back(id, content.owned());
        }
        Ok(starts)
    }

    /// Hands the message of an operation to the transport.
    fn start(&mut self, transport: &mut Transport, id: u32) -> Result<(), SendError> {
        let Some((peer, envelope, content)) = self.remote.start(id) else { return Ok(()) };
        let handed = self.hand_over(transport, peer, envelope, Whose::Operation(id), content);
        let token = handed.map_err(|(why, content)| {
            self.remote.put_back(id, content);
            why
        })?;
        self.remote.started(id, token.is_some());
        transport.owe(peer, true);
        if let Some(token) = token
            && self.remote.is_inject(id)
        {
            self.keep_copy(token);
        }
        Ok(())
    }

    /// Sends a message of our own; answers its token if it is still read.
    fn hand_over(
        &mut self,
        transport: &mut Transport,
        peer: PeerId,
        envelope: Envelope,
        whose: Whose,
        content: Content,
    ) -> Result<Option<u64>, (SendError, Content)> {
        let len = content.len();
        let is_answer = matches!(whose, Whose::Answer(..));
        let token = self.begin_send(whose, content);
        match transport.send(peer, envelope, len, token, false, self) {
            Ok(Taken::Pending) => Ok(Some(token)),
            Ok(Taken::Buffered) => {
                if is_answer {
                    self.end_send(token, Outcome::Done);
                } else {
                    self.abort_send(token);
                }
                Ok(None)
            }
            Err(why) => Err((why, self.abort_send(token))),
        }
    }

    /// Starts operations of our own that were held back.
    pub(crate) fn start_held(&mut self, transport: &mut Transport) {
        while let Some(peer) = self.remote.next_ended() {
            transport.owe(peer, false);
        }
        let mut full = Vec::new();
        while let Some(id) = self.remote.next_due() {
            match self.start(transport, id) {
                Ok(()) => self.remote.unhold(id),
                Err(SendError::Again) => full.extend(self.remote.postpone()),
                // What is left of it ends with its peer.
                Err(SendError::PeerGone) => _ = self.remote.postpone(),
            }
        }
        for peer in full {
            self.remote.make_due(peer);
        }
    }

    /// Sends the answers that are owed to peers. Each that leaves may make room for an operation, whose answer may
    /// leave, too.
    pub(crate) fn answer(&mut self, transport: &mut Transport) {
        if self.target.is_idle() {
            return;
        }
        loop {
            while let Some((peer, send_id, wanted)) = self.resume() {
                self.pull(transport, peer, send_id, wanted);
            }
            let waited = self.target.reply_count();
            self.send_replies(transport);
            if waited == 0 || self.target.reply_count() == waited {
                break;
            }
        }
    }

    /// Carries out operations of peers that waited for room, until one is to be fetched: from whom,
    /// which, and what of it.
    fn resume(&mut self) -> Option<(PeerId, u32, Wanted)> {
        let (peer, send_id, arriving) = self.target.resume(&mut self.recvs_done)?;
        Some((peer, send_id, self.begin_remote(peer, arriving)))
    }

    fn send_replies(&mut self, transport: &mut Transport) {
        for _ in 0..self.target.reply_count() {
            let Some((reply, content)) = self.target.next_reply() else { break };
            let (peer, envelope) = (reply.peer(), reply.envelope());
            match self.hand_over(transport, peer, envelope, Whose::Answer(reply), content) {
                Ok(_) => {}
                Err((SendError::Again, content)) => self.target.reply_later(reply, content),
                Err((SendError::PeerGone, content)) => self.target.drop_reply(reply, &content),
            }
        }
    }

    /// Credit to be given back: whose, and for how many bytes.
    pub(crate) fn next_refund(&mut self) -> Option<(PeerId, u64)> {
        self.target.next_refund()
    }

    /// Names a pull of a peer's operation; answers what to ask for.
    fn begin_remote(&mut self, peer: PeerId, arriving: Arriving) -> Wanted {
        let len = arriving.wanted();
        let token = self.pulling.insert(Pulling::Remote(peer, arriving)) as u64;
        Wanted { len, token }
    }

    /// A one-sided operation or an answer that is here as a whole. True when
    /// its credit may be given back at once.
    fn remote_message(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> bool {
        let len = payload.len() as u64;
        if envelope.class == Class::Answer {
            if let Some(id) = self.remote.answer_begins(peer, envelope, len) {
                self.remote.answer_part(id, 0, payload);
                let ended = self.remote.answer_ends(id, true);
                self.sends_done.extend(ended);
            }
            return true;
        }
        let event = self.target.take(peer, envelope, payload);
        self.recvs_done.extend(event);
        false
    }
}

/// Whether nobody is left to send what is not here yet.
fn waits_in_vain(transport: &Transport, op: &RecvOp) -> bool {
    op.from.is_some_and(|from| transport.is_gone(from))
}

/// The completion of a receive that has all of a message of `total` bytes.
#[inline]
fn received(posted: &Posted, peer: PeerId, envelope: &Envelope, total: u64) -> Completion {
    let room = posted.regions.len() as u64;
    let outcome = match total.checked_sub(room) {
        Some(excess) if excess > 0 => Outcome::Truncated(excess as usize),
        _ => Outcome::Done,
    };
    Completion {
        len: total.min(room) as usize,
        buf: posted.regions.start(),
        data: envelope.data,
        tag: envelope.tag,
        source: Some(peer),
        is_multi: posted.multi.is_some(),
        ..Completion::new(Side::Recv, envelope.class, posted.op.context, outcome)
    }
}

fn copy_of(payload: &dyn Bytes) -> Vec<u8> {
    let mut bytes = vec![0; payload.len()];
    payload.read(0, crate::memory::as_room(&mut bytes));
    bytes
}

fn active(peer: PeerId, envelope: &Envelope, payload: Vec<u8>) -> ActiveMessage {
    ActiveMessage { source: peer, handler: envelope.tag, data: envelope.data, payload }
}

fn is_remote(class: Class) -> bool {
    class == Class::Answer || class.names_memory()
}

impl Sink for Books {
    fn message(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> bool {
        if is_remote(envelope.class) {
            return self.remote_message(peer, envelope, payload);
        }
        self.arrived(peer, envelope, &payload)
    }

    fn first(&mut self, peer: PeerId, envelope: &Envelope, total: u64, payload: &[u8]) {
        let assembly = if envelope.class == Class::Active {
            Assembly::Active(active(peer, envelope, payload.to_vec()))
        } else if envelope.class == Class::Answer {
            let id = self.remote.answer_begins(peer, envelope, total);
            if let Some(id) = id {
                self.remote.answer_part(id, 0, payload);
            }
            Assembly::Answer { id, got: payload.len() }
        } else if envelope.class.names_memory() {
            let mut arriving = self.target.first(peer, envelope, total);
            self.target.part(&mut arriving, 0, payload);
            Assembly::Remote { arriving, got: payload.len() }
        } else if let Some(receiving) = self.receiving(peer, envelope, total) {
            receiving.posted.regions.write(0, payload);
            Assembly::ToUser { receiving, got: payload.len() }
        } else {
            Assembly::Unexpected { at: self.keep(peer, envelope, Payload::begun(payload, total)) }
        };
        self.assembling.insert(peer, assembly);
    }

    fn next(&mut self, peer: PeerId, payload: &[u8], last: bool) -> bool {
        match self.assembling.get_mut(&peer) {
            None => return last,
            Some(Assembly::ToUser { receiving, got }) => {
                receiving.posted.regions.write(*got, payload);
                *got += payload.len();
            }
            Some(Assembly::Active(message)) => message.payload.extend_from_slice(payload),
            Some(Assembly::Remote { arriving, got }) => {
                self.target.part(arriving, *got, payload);
                *got += payload.len();
            }
            Some(Assembly::Answer { id, got }) => {
                if let Some(id) = *id {
                    self.remote.answer_part(id, *got, payload);
                }
                *got += payload.len();
            }
            Some(Assembly::Unexpected { at }) => {
                if let Some(message) = self.matching.coming(*at) {
                    message.payload.add(payload);
                }
            }
        }
        if !last {
            return false;
        }
        match self.assembling.remove(&peer) {
            Some(Assembly::ToUser { receiving, .. }) => {
                self.end_recv(&receiving, true);
                true
            }
            Some(Assembly::Active(message)) => {
                self.active.arrived(message);
                false
            }
            Some(Assembly::Remote { arriving, .. }) => {
                let event = self.target.end(peer, arriving, true);
                self.recvs_done.extend(event);
                false
            }
            Some(Assembly::Answer { id, .. }) => {
                let ended = id.and_then(|id| self.remote.answer_ends(id, true));
                self.sends_done.extend(ended);
                true
            }
            Some(Assembly::Unexpected { .. }) => false,
            None => true,
        }
    }

    fn request(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        total: u64,
        send_id: u32,
    ) -> Option<Wanted> {
        if envelope.class == Class::Answer {
            let id = self.remote.answer_begins(peer, envelope, total);
            let len = id.map_or(0, |id| self.remote.wanted(id));
            let token = self.pulling.insert(Pulling::Answer(id)) as u64;
            return Some(Wanted { len, token });
        }
        if envelope.class.names_memory() {
            let arriving = self.target.announced(peer, envelope, total, send_id)?;
            return Some(self.begin_remote(peer, arriving));
        }
        self.announced(peer, envelope, total, || Payload::Remote { send_id, total })
    }

    fn segment(&mut self, token: u64, offset: u64, payload: &[u8]) {
        match self.pulling.get_mut(token as usize) {
            Some(Pulling::ToUser(r)) => r.posted.regions.write(offset as usize, payload),
            Some(Pulling::Ahead(at)) => {
                if let Some(message) = self.matching.coming(*at) {
                    message.payload.put(offset as usize, payload);
                }
            }
            Some(Pulling::Active(message, _)) => {
                let at = offset as usize;
                if let Some(out) = message.payload.get_mut(at..at + payload.len()) {
                    out.copy_from_slice(payload);
                }
            }
            Some(Pulling::Remote(_, arriving)) => {
                self.target.part(arriving, offset as usize, payload);
            }
            Some(Pulling::Answer(Some(id))) => {
                self.remote.answer_part(*id, offset as usize, payload);
            }
            Some(Pulling::Answer(None)) | None => {}
        }
    }

    fn pulled(&mut self, token: u64, complete: bool) {
        self.end_pull(token, complete);
    }

    fn sent(&mut self, token: u64, complete: bool) {
        self.end_send(token, if complete { Outcome::Done } else { Outcome::PeerGone });
    }

    fn gone(&mut self, peer: PeerId, why: Gone) {
        if let Some(Assembly::ToUser { receiving, .. }) = self.assembling.remove(&peer) {
            self.end_recv(&receiving, false);
        }
        // After an orderly good-bye nothing more can come either.
        for posted in self.matching.withdraw_from(peer) {
            self.end_unmatched(&posted, Outcome::PeerGone);
        }
        self.ahead.forget(peer);
        self.target.forget(peer);
        let ended = self.remote.gone(peer);
        self.sends_done.extend(ended);
        self.gone.push_back((peer, why));
    }
}

impl Source for Books {
    fn read(&self, token: u64, offset: u64, out: &mut [u8]) {
        if let Some(content) = self.content(token) {
            content.read(offset as usize, out);
        }
    }

    fn read_summed(&self, token: u64, offset: u64, out: &mut [u8], sum: Crc32c) -> Crc32c {
        match self.content(token) {
            Some(content) => content.read_summed(offset as usize, out, sum),
            None => sum.over(out),
        }
    }
}

#[cfg(test)]
mod tests;
