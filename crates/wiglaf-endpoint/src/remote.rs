//! The initiator's side of one-sided operations: what is under way, what is
//! held back, and how answers end them.

use std::collections::VecDeque;

use wiglaf_transport::PeerId;
use wiglaf_wire::{Class, Envelope};

use crate::atomics::{Element, Function};
use crate::content::Content;
use crate::exposed::Refusal;
use crate::memory::Regions;
use crate::table::Table;
use crate::{Completion, Outcome, Side};

/// Longest payload of an atomic operation, in bytes: operands and comparands
/// together with the prefix.
pub const ATOMIC_LEN_MAX: usize = 32 * 1024;
/// What stands before the operands: function, type, reserved, count.
pub(crate) const ATOMIC_PREFIX_LEN: usize = 8;

/// Which earlier operations on the same peer an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// For none.
    Nothing,
    /// For those that could otherwise take effect after it.
    Order,
    /// For all.
    Fence,
}

/// A one-sided operation to be posted.
#[derive(Debug, Clone, Copy)]
pub struct RemoteOp {
    /// Whose memory.
    pub peer: PeerId,
    /// The region's key.
    pub key: u64,
    /// Where in the region it begins, in the target's terms.
    pub address: u64,
    /// Data that a write reports at the target.
    pub data: Option<u64>,
    /// Comes back in the completion.
    pub context: usize,
    /// Whether success is reported at all (failure always is).
    pub report: bool,
    /// The buffer of a write may be used again as soon as the call returns.
    pub inject: bool,
    /// What it waits for.
    pub hold: Hold,
}

/// What an atomic operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtomicOp {
    /// To elements of this type.
    pub element: Element,
    /// This.
    pub function: Function,
    /// And whether it brings back what they were.
    pub fetch: bool,
}

/// What was refused on either side of one-sided operations; each reason has
/// its counter.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RemoteStats {
    /// Operations carried out for peers.
    pub performed: u64,
    /// Refused to peers: no such key.
    pub refused_key: u64,
    /// Refused to peers: access not granted.
    pub refused_access: u64,
    /// Refused to peers: outside of the region.
    pub refused_bounds: u64,
    /// Refused to peers: not a function, type or length that is known.
    pub refused_malformed: u64,
    /// Announced by peers, and not to be had: no room to ask for it, or they ended meanwhile.
    pub refused_room: u64,
    /// Answers to operations that were not under way.
    pub refused_answers: u64,
}

/// How far an operation's answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Awaited,
    Arriving,
    Ended(Outcome),
}

#[derive(Debug)]
struct Operation {
    op: RemoteOp,
    class: Class,
    /// What the completion tells, in bytes.
    len: usize,
    /// What goes out when it is started.
    payload: Option<Content>,
    /// Where the answer goes.
    results: Regions,
    /// The transport may still read its buffers.
    is_sending: bool,
    /// Its message waits to be pulled, so that it takes effect late.
    is_late: bool,
    answer: Answer,
}

/// Operations on one peer.
#[derive(Debug, Default)]
struct Line {
    under_way: u32,
    reads: u32,
    late: u32,
    held: VecDeque<u32>,
}

/// All operations of an endpoint on others' memory.
#[derive(Debug, Default)]
pub(crate) struct Initiator {
    operations: Table<Operation>,
    lines: Vec<Line>,
    /// Peers whose held operations may be due.
    due: Vec<PeerId>,
    /// Peers of operations that have ended.
    ended: Vec<PeerId>,
    refused_answers: u64,
}

impl Initiator {
    /// Takes an operation; answers its number, and whether it may start now.
    pub(crate) fn begin(
        &mut self,
        op: &RemoteOp,
        class: Class,
        len: usize,
        payload: Content,
        results: Regions,
    ) -> (u32, bool) {
        let slot = op.peer.0 as usize;
        if slot >= self.lines.len() {
            self.lines.resize_with(slot + 1, Line::default);
        }
        let starts = self.lines[slot].held.is_empty() && self.lines[slot].admits(op, class);
        let id = self.operations.insert(Operation {
            op: *op,
            class,
            len,
            payload: Some(payload),
            results,
            is_sending: false,
            is_late: false,
            answer: Answer::Awaited,
        }) as u32;
        if !starts {
            self.lines[slot].held.push_back(id);
        }
        (id, starts)
    }

    /// Forgets an operation that was not started after all.
    pub(crate) fn abort(&mut self, id: u32) {
        self.operations.remove(id as usize);
    }

    /// What to send for an operation.
    pub(crate) fn start(&mut self, id: u32) -> Option<(PeerId, Envelope, Content)> {
        let operation = self.operations.get_mut(id as usize)?;
        let op = &operation.op;
        let envelope = Envelope {
            class: operation.class,
            operation: id,
            tag: op.key,
            data: op.data,
            address: op.address,
            is_held: false,
        };
        Some((op.peer, envelope, operation.payload.take()?))
    }

    /// Its message could not be taken: it keeps its payload and waits.
    pub(crate) fn put_back(&mut self, id: u32, payload: Content) {
        if let Some(operation) = self.operations.get_mut(id as usize) {
            operation.payload = Some(payload);
        }
    }

    /// Its message is on its way; `is_late` if it waits to be pulled.
    pub(crate) fn started(&mut self, id: u32, is_late: bool) {
        let Some(operation) = self.operations.get_mut(id as usize) else { return };
        operation.is_sending = is_late;
        operation.is_late = is_late;
        let line = &mut self.lines[operation.op.peer.0 as usize];
        line.under_way += 1;
        line.late += u32::from(is_late);
        line.reads += u32::from(operation.class == Class::Read);
    }

    /// Whether the buffer of a write that was not copied must be, now.
    pub(crate) fn is_inject(&self, id: u32) -> bool {
        self.operations.get(id as usize).is_some_and(|operation| operation.op.inject)
    }

    /// The next held operation that may start, if any.
    pub(crate) fn next_due(&mut self) -> Option<u32> {
        while let Some(&peer) = self.due.last() {
            let line = &mut self.lines[peer.0 as usize];
            if let Some(&id) = line.held.front()
                && let Some(operation) = self.operations.get(id as usize)
                && line.admits(&operation.op, operation.class)
            {
                return Some(id);
            }
            self.due.pop();
        }
        None
    }

    /// The operation that [`Initiator::next_due`] told has been taken.
    pub(crate) fn unhold(&mut self, id: u32) {
        if let Some(operation) = self.operations.get(id as usize) {
            self.lines[operation.op.peer.0 as usize].held.pop_front();
        }
    }

    /// Its peer's queue is full: others first, and again at the next progress.
    pub(crate) fn postpone(&mut self) -> Option<PeerId> {
        self.due.pop()
    }

    pub(crate) fn make_due(&mut self, peer: PeerId) {
        self.due.push(peer);
    }

    /// The peer of an operation that has ended: it owes an answer less.
    pub(crate) fn next_ended(&mut self) -> Option<PeerId> {
        self.ended.pop()
    }

    /// Answers to operations that were not under way.
    pub(crate) fn refused_answers(&self) -> u64 {
        self.refused_answers
    }

    /// Whether nothing is under way or held back.
    pub(crate) fn is_idle(&self) -> bool {
        self.operations.is_empty()
    }

    /// The transport no longer reads the operation's buffers.
    pub(crate) fn sent(&mut self, id: u32, complete: bool) -> Option<Completion> {
        let operation = self.operations.get_mut(id as usize)?;
        operation.is_sending = false;
        if !complete && !matches!(operation.answer, Answer::Ended(_)) {
            operation.answer = Answer::Ended(Outcome::PeerGone);
        }
        self.end_if_over(id)
    }

    /// An answer begins: whether anything of it is wanted, and how much.
    pub(crate) fn answer_begins(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        total: u64,
    ) -> Option<u32> {
        //= docs/protocol.md#10-one-sided-operations
        //# An initiator MUST refuse an answer to an operation that it does not have under way at that peer, or that is being answered.
        let operation = self
            .operations
            .get_mut(envelope.operation as usize)
            .filter(|o| o.op.peer == peer && o.answer == Answer::Awaited && o.payload.is_none());
        let Some(operation) = operation else {
            self.refused_answers += 1;
            return None;
        };
        operation.answer = match status_outcome(envelope.tag) {
            Outcome::Done if total == operation.results.len() as u64 => Answer::Arriving,
            Outcome::Done => Answer::Ended(Outcome::Refused(Refusal::Malformed)),
            refused => Answer::Ended(refused),
        };
        Some(envelope.operation)
    }

    /// How many bytes of its answer an operation still wants.
    pub(crate) fn wanted(&self, id: u32) -> u64 {
        let operation = self.operations.get(id as usize);
        operation.filter(|o| o.answer == Answer::Arriving).map_or(0, |o| o.results.len() as u64)
    }

    /// Bytes of an answer.
    pub(crate) fn answer_part(&self, id: u32, offset: usize, bytes: &[u8]) {
        let operation = self.operations.get(id as usize);
        if let Some(operation) = operation.filter(|o| o.answer == Answer::Arriving) {
            operation.results.write(offset, bytes);
        }
    }

    /// An answer is here, or will never be.
    pub(crate) fn answer_ends(&mut self, id: u32, complete: bool) -> Option<Completion> {
        let operation = self.operations.get_mut(id as usize)?;
        if operation.answer == Answer::Arriving {
            let outcome = if complete { Outcome::Done } else { Outcome::PeerGone };
            operation.answer = Answer::Ended(outcome);
        }
        self.end_if_over(id)
    }

    /// A peer is gone, and with it all operations on it.
    pub(crate) fn gone(&mut self, peer: PeerId) -> Vec<Completion> {
        if let Some(line) = self.lines.get_mut(peer.0 as usize) {
            line.held.clear();
        }
        let ids = self.operations.find_all(|o| o.op.peer == peer);
        let mut ended = Vec::new();
        for id in ids {
            if let Some(operation) = self.operations.get_mut(id) {
                // One that was held back was never counted as under way.
                if operation.payload.take().is_some() {
                    self.lines[peer.0 as usize].under_way += 1;
                    let read = u32::from(operation.class == Class::Read);
                    self.lines[peer.0 as usize].reads += read;
                }
                operation.is_sending = false;
                if !matches!(operation.answer, Answer::Ended(_)) {
                    operation.answer = Answer::Ended(Outcome::PeerGone);
                }
            }
            ended.extend(self.end_if_over(id as u32));
        }
        ended
    }

    /// Ends an operation that has been answered and is no longer read.
    fn end_if_over(&mut self, id: u32) -> Option<Completion> {
        //= docs/protocol.md#10-one-sided-operations
        //# An initiator MUST NOT end an operation before it is answered and its own message has been acknowledged or wholly pulled.
        let operation = self.operations.get(id as usize)?;
        let Answer::Ended(outcome) = operation.answer else { return None };
        if operation.is_sending {
            return None;
        }
        let operation = self.operations.remove(id as usize)?;
        let op = operation.op;
        let line = &mut self.lines[op.peer.0 as usize];
        line.under_way -= 1;
        self.ended.push(op.peer);
        line.late -= u32::from(operation.is_late);
        line.reads -= u32::from(operation.class == Class::Read);
        if !line.held.is_empty() {
            self.due.push(op.peer);
        }
        (op.report || outcome != Outcome::Done).then_some(Completion {
            len: operation.len,
            data: op.data,
            tag: op.key,
            ..Completion::new(Side::Send, operation.class, op.context, outcome)
        })
    }
}

impl Line {
    /// Whether an operation may start beside what is under way.
    fn admits(&self, op: &RemoteOp, class: Class) -> bool {
        match op.hold {
            Hold::Nothing => true,
            Hold::Fence => self.under_way == 0,
            Hold::Order => self.late == 0 && (class == Class::Read || self.reads == 0),
        }
    }
}

fn status_outcome(status: u64) -> Outcome {
    match status {
        0 => Outcome::Done,
        1 => Outcome::Refused(Refusal::Key),
        2 => Outcome::Refused(Refusal::Access),
        3 => Outcome::Refused(Refusal::Bounds),
        5 => Outcome::Refused(Refusal::Room),
        _ => Outcome::Refused(Refusal::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: PeerId = PeerId(1);

    fn op(hold: Hold) -> RemoteOp {
        RemoteOp {
            peer: PEER,
            key: 5,
            address: 0,
            data: None,
            context: 77,
            report: true,
            inject: false,
            hold,
        }
    }

    /// Begins an operation and, if it may start, starts it.
    fn begin(all: &mut Initiator, class: Class, hold: Hold, is_late: bool) -> (u32, bool) {
        let (id, starts) = all.begin(&op(hold), class, 8, Content::EMPTY, Regions::EMPTY);
        if starts {
            start(all, id, is_late);
        }
        (id, starts)
    }

    fn start(all: &mut Initiator, id: u32, is_late: bool) {
        assert!(all.start(id).is_some());
        all.started(id, is_late);
    }

    fn answer(operation: u32, status: u64) -> Envelope {
        Envelope { operation, ..Envelope::new(Class::Answer, status, None) }
    }

    #[test]
    fn answers_that_nobody_awaits_are_refused() {
        let mut all = Initiator::default();
        let (id, _) = begin(&mut all, Class::Write, Hold::Nothing, false);
        assert_eq!(all.answer_begins(PEER, &answer(id + 1, 0), 0), None);
        assert_eq!(all.answer_begins(PeerId(2), &answer(id, 0), 0), None);
        assert_eq!(all.answer_begins(PEER, &answer(id, 0), 0), Some(id));
        assert_eq!(all.answer_begins(PEER, &answer(id, 0), 0), None, "it is being answered");
        assert_eq!(all.refused_answers, 3);
        assert_eq!(all.answer_ends(id, true).unwrap().outcome, Outcome::Done);
        assert_eq!(all.answer_begins(PEER, &answer(id, 0), 0), None, "it is over");
        assert!(all.is_idle());
    }

    #[test]
    fn a_write_ends_only_when_nothing_reads_its_buffer() {
        let mut all = Initiator::default();
        let (id, _) = begin(&mut all, Class::Write, Hold::Nothing, true);
        all.answer_begins(PEER, &answer(id, 2), 0).unwrap();
        assert!(all.answer_ends(id, true).is_none(), "a segment may have to be sent again");
        let ended = all.sent(id, true).unwrap();
        assert_eq!((ended.context, ended.outcome), (77, Outcome::Refused(Refusal::Access)));
    }

    #[test]
    fn an_answer_of_another_length_is_refused() {
        let mut all = Initiator::default();
        let (id, _) = begin(&mut all, Class::Read, Hold::Nothing, false);
        all.answer_begins(PEER, &answer(id, 0), 3).unwrap();
        assert_eq!(all.wanted(id), 0);
        let outcome = all.answer_ends(id, true).unwrap().outcome;
        assert_eq!(outcome, Outcome::Refused(Refusal::Malformed));
    }

    #[test]
    fn fences_and_order_hold_back() {
        let mut all = Initiator::default();
        let (late, _) = begin(&mut all, Class::Write, Hold::Order, true);
        let (free, starts) = begin(&mut all, Class::Write, Hold::Nothing, false);
        assert!(starts, "who asks for no order does not wait");
        let (ordered, starts) = begin(&mut all, Class::Atomic, Hold::Order, false);
        assert!(!starts);
        let (fenced, starts) = begin(&mut all, Class::Write, Hold::Fence, false);
        assert!(!starts);
        assert_eq!(all.next_due(), None);
        all.sent(late, true);
        all.answer_begins(PEER, &answer(late, 0), 0);
        assert!(all.answer_ends(late, true).is_some());
        assert_eq!(all.next_due(), Some(ordered));
        start(&mut all, ordered, false);
        all.unhold(ordered);
        assert_eq!(all.next_due(), None, "the fence waits for both");
        for id in [free, ordered] {
            all.answer_begins(PEER, &answer(id, 0), 0);
            assert!(all.answer_ends(id, true).is_some());
        }
        assert_eq!(all.next_due(), Some(fenced));
        let gone = all.gone(PEER);
        assert_eq!(gone.iter().map(|c| c.outcome).collect::<Vec<_>>(), [Outcome::PeerGone]);
        assert!(all.is_idle());
    }
}
