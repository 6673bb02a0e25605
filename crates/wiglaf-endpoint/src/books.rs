//! Operations in progress: the [`Sink`] and [`Source`] of the transport.

mod ahead;
mod multi;
mod remote;

use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;

use wiglaf_link::near::Payload as Bytes;
use wiglaf_transport::{Gone, PeerId, Sink, Source, Wanted};
use wiglaf_wire::{Class, Crc32c, Envelope};

use crate::active::{Actives, Announcement};
use crate::ahead::{Ahead, Entry, is_eligible};
use crate::content::Content;
use crate::matching::{Matching, Payload, Posted, Unexpected};
use crate::remote::Initiator;
use crate::table::{ByPeer, Table};
use crate::target::{Arriving, Target};
use crate::{ACTIVE_LEN_MAX, ActiveMessage, Completion, Outcome, SendOp, Side};

/// Who is told when a send has ended.
#[derive(Debug)]
pub(crate) enum Whose {
    /// The user.
    User(SendOp),
    /// A one-sided operation.
    Operation(u32),
    /// Whoever sent the message that this answers: its credit is due.
    Answer(PeerId, Option<u64>),
}

/// A send that the transport may still read.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) whose: Whose,
    pub(crate) content: Content,
}

/// A receive whose message is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Receiving {
    pub(crate) posted: Posted,
    pub(crate) peer: PeerId,
    pub(crate) envelope: Envelope,
    pub(crate) total: u64,
}

/// A message that is being pulled.
#[derive(Debug)]
pub(crate) enum Pulling {
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
pub(crate) enum Assembly {
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
pub(crate) struct MultiBuffer {
    used: usize,
    min_free: usize,
    /// Messages that are still arriving in it.
    outstanding: usize,
    retired: bool,
}

/// Everything that operations leave behind between calls.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) matching: Matching,
    /// Which of the announced messages may be pulled before their receives.
    pub(crate) ahead: Ahead,
    sending: Table<Sending>,
    pulling: Table<Pulling>,
    pub(crate) assembling: HashMap<PeerId, Assembly, ByPeer>,
    multi: Table<MultiBuffer>,
    pub(crate) active: Actives,
    sends_done: VecDeque<Completion>,
    recvs_done: VecDeque<Completion>,
    /// Steps of collective operations, of either side.
    pub(crate) steps_done: VecDeque<Completion>,
    /// Peers that are gone, until somebody asks.
    pub(crate) gone: VecDeque<(PeerId, Gone)>,
    /// One-sided operations of this endpoint.
    pub(crate) remote: Initiator,
    /// One-sided operations of its peers.
    pub(crate) target: Target,
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

    /// Whether no one-sided operation of this side, or of a peer, is under way.
    pub(crate) fn is_one_sided_idle(&self) -> bool {
        self.remote.is_idle() && self.target.is_idle()
    }

    pub(crate) fn begin_send(&mut self, sending: Sending) -> u64 {
        self.sending.insert(sending) as u64
    }

    pub(crate) fn sending_mut(&mut self, token: u64) -> Option<&mut Sending> {
        self.sending.get_mut(token as usize)
    }

    pub(crate) fn sending(&self, token: u64) -> Option<&Sending> {
        self.sending.get(token as usize)
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
            Whose::Answer(peer, refund) => {
                self.target.owed.release(peer, content.kept_len());
                self.target.refunds.extend(refund.map(|len| (peer, len)));
            }
        }
    }

    pub(crate) fn report_send(&mut self, op: &SendOp, len: usize, outcome: Outcome) {
        if op.report || outcome != Outcome::Done {
            let done = match op.class {
                Class::Collective => &mut self.steps_done,
                _ => &mut self.sends_done,
            };
            done.push_back(Completion {
                side: Side::Send,
                class: op.class,
                context: op.context,
                len,
                buf: std::ptr::null_mut(),
                data: op.data,
                tag: op.tag,
                source: None,
                is_multi: false,
                multi_released: false,
                outcome,
            });
        }
    }

    pub(crate) fn push_recv(&mut self, completion: Completion) {
        match completion.class {
            Class::Collective => self.steps_done.push_back(completion),
            _ => self.recvs_done.push_back(completion),
        }
    }

    /// A receive has all of its message.
    pub(crate) fn end_recv(&mut self, r: &Receiving, complete: bool) {
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
    pub(crate) fn end_unmatched(&mut self, posted: &Posted, outcome: Outcome) {
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
            side: Side::Recv,
            class: posted.op.class,
            context: posted.op.context,
            len: 0,
            buf: std::ptr::null_mut(),
            data: None,
            tag: posted.op.tag,
            source: None,
            is_multi: posted.multi.is_some(),
            multi_released,
            outcome,
        });
    }

    /// No message can come any more: every receive that waits for one ends.
    pub(crate) fn end_all_unmatched(&mut self) {
        while let Some(posted) = self.matching.withdraw(|_| true) {
            self.end_unmatched(&posted, Outcome::PeerGone);
        }
    }

    /// Names a pull of `receiving`; answers what to ask for.
    pub(crate) fn begin_pull(&mut self, receiving: Receiving) -> Wanted {
        let len = receiving.total.min(receiving.posted.regions.len() as u64);
        let token = self.pulling.insert(Pulling::ToUser(receiving)) as u64;
        Wanted { len, token }
    }

    /// Names a pull of an active message; answers what to ask for. `parked` if it has its place among those that wait.
    pub(crate) fn begin_active(
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
            let (envelope, payload) = (*envelope, elsewhere());
            self.active.park(Announcement { peer, envelope, payload });
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

/// The completion of a receive that has all of a message of `total` bytes.
#[inline]
fn received(posted: &Posted, peer: PeerId, envelope: &Envelope, total: u64) -> Completion {
    let room = posted.regions.len() as u64;
    let outcome = match total.checked_sub(room) {
        Some(excess) if excess > 0 => Outcome::Truncated(excess as usize),
        _ => Outcome::Done,
    };
    Completion {
        side: Side::Recv,
        class: envelope.class,
        context: posted.op.context,
        len: total.min(room) as usize,
        buf: posted.regions.start(),
        data: envelope.data,
        tag: envelope.tag,
        source: Some(peer),
        is_multi: posted.multi.is_some(),
        multi_released: false,
        outcome,
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
        self.target.owed.forget(peer);
        let ended = self.remote.gone(peer);
        self.sends_done.extend(ended);
        self.gone.push_back((peer, why));
    }
}

impl Source for Books {
    fn read(&self, token: u64, offset: u64, out: &mut [u8]) {
        if let Some(sending) = self.sending(token) {
            sending.content.read(offset as usize, out);
        }
    }

    fn read_summed(&self, token: u64, offset: u64, out: &mut [u8], sum: Crc32c) -> Crc32c {
        match self.sending(token) {
            Some(sending) => sending.content.read_summed(offset as usize, out, sum),
            None => sum.over(out),
        }
    }
}

#[cfg(test)]
mod tests;
