//! One collective operation on its way through the steps of its plan.
//!
//! It works in memory of its own: the user's is read when it begins and written when it ends. So it
//! may fail at any time, and what peers still send for it harms nobody.

use std::collections::VecDeque;

use wiglaf_endpoint::{
    Class, CompleteWhen, Completion, Element, Endpoint, Function, Outcome, PeerId, PostError,
    RecvOp, Region, Scratch, SendOp, Side,
};

use super::Group;
use super::plan::{Combine, Copy, Place, Plan, Transfer};

/// Bits of a context that tell which message of an operation it is of.
const MESSAGE_BITS: u32 = 8;
const MESSAGE_MASK: usize = (1 << MESSAGE_BITS) - 1;
/// That part for any send.
const SENT: usize = MESSAGE_MASK;

/// Who waits for an operation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Whose {
    /// The user, who wants the result here.
    User { result: Region, context: usize, shown: bool },
    /// Who joins the group.
    Join,
}

/// How far an operation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Waits,
    Over,
    Broken(Outcome),
}

pub(super) struct Operation {
    /// The group's address, and which of its operations it is.
    id: (u64, u32),
    whose: Whose,
    /// Its user has been told: it only waits for its last messages.
    is_told: bool,
    plan: Plan,
    reduction: Option<(Function, Element)>,
    step: usize,
    /// Receives, then sends, of this step that are still to be posted.
    recvs: VecDeque<(usize, Transfer)>,
    sends: VecDeque<Transfer>,
    /// What this step awaits: from whom, and how much.
    awaited: Vec<Option<(PeerId, usize)>>,
    /// Sends under way, of this step and earlier ones.
    sending: usize,
    combine: Option<Combine>,
    work: Scratch,
    incoming: Scratch,
}

impl Operation {
    /// Reads the user's input. `id` is the group's address, and which of its operations it is.
    ///
    /// # Safety
    /// `input` is as long as the plan's inputs and valid for reads; the result as long as its
    /// results, and valid for writes until the operation has ended.
    pub(super) unsafe fn new(
        id: (u64, u32),
        plan: Plan,
        reduction: Option<(Function, Element)>,
        whose: Whose,
        input: Region,
        scratch: (usize, usize),
    ) -> Self {
        let mut this = Self {
            id,
            whose,
            is_told: false,
            plan,
            reduction,
            step: 0,
            recvs: VecDeque::new(),
            sends: VecDeque::new(),
            awaited: Vec::new(),
            sending: 0,
            combine: None,
            work: Scratch::new(scratch.0),
            incoming: Scratch::new(scratch.1),
        };
        for copy in plan.inputs() {
            // SAFETY: by the contract of this function; nothing has been posted.
            unsafe { this.work.take(copy.at(), part(input, copy)) };
        }
        if let Some(own) = plan.kept() {
            // SAFETY: as above.
            unsafe { this.incoming.take(own.at(), part(input, own)) };
        }
        this
    }

    /// The group's address, and which of its operations it is.
    pub(super) fn id(&self) -> (u64, u32) {
        self.id
    }

    /// Whether its user has been told: then it only waits for its last messages.
    pub(super) fn is_told(&self) -> bool {
        self.is_told
    }

    /// It is over, and whoever waits is told now.
    pub(super) fn tell(&mut self) -> Whose {
        self.is_told = true;
        self.whose
    }

    /// Bytes that it works in.
    pub(super) fn scratch_len(&self) -> usize {
        self.work.len() + self.incoming.len()
    }

    /// Whether none of its messages is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.sending == 0 && self.awaited.iter().all(Option::is_none)
    }

    /// Whether a message of this step found no room yet.
    pub(super) fn has_unposted(&self) -> bool {
        !self.recvs.is_empty() || !self.sends.is_empty()
    }

    /// From whom it awaits something.
    pub(super) fn awaited(&self) -> impl Iterator<Item = PeerId> {
        self.awaited.iter().flatten().map(|(peer, _)| *peer)
    }

    /// Goes on as far as it can.
    pub(super) fn run(
        &mut self,
        slot: usize,
        group: &mut Group,
        endpoint: &mut Endpoint,
    ) -> Standing {
        loop {
            if let Some(standing) = self.post(slot, group, endpoint) {
                return standing;
            }
            if self.awaited.iter().any(Option::is_some) {
                return Standing::Waits;
            }
            if let Some(combine) = self.combine.take() {
                self.combine(&combine);
            }
            let Some(step) = self.plan.step(self.step) else {
                return if self.sending > 0 { Standing::Waits } else { Standing::Over };
            };
            self.step += 1;
            self.awaited = vec![None; step.recvs.len()];
            self.recvs = step.recvs.into_iter().enumerate().collect();
            self.sends = step.sends.into();
            self.combine = step.combine;
        }
    }

    /// Posts the messages of a step. None when all are; else why not.
    fn post(
        &mut self,
        slot: usize,
        group: &mut Group,
        endpoint: &mut Endpoint,
    ) -> Option<Standing> {
        let context = |message| slot << MESSAGE_BITS | message;
        while let Some((index, recv)) = self.recvs.front() {
            let peer = group.peer(recv.peer, endpoint);
            let op = RecvOp {
                class: Class::Collective,
                from: Some(peer),
                tag: group.tag(self.id.1, recv.number),
                ignore: 0,
                context: context(*index),
                report: true,
                multi_min_free: None,
            };
            let region = self.memory(recv.place).region(recv.range.clone());
            // SAFETY: the memory is this operation's, which lives until all its messages have
            // ended (`Groups::free`), and is touched only when the step's are there.
            let posted = unsafe { endpoint.post_recv(&op, &[region]) };
            if posted.is_err() {
                return Some(Standing::Broken(Outcome::PeerGone));
            }
            self.awaited[*index] = Some((peer, recv.range.len()));
            self.recvs.pop_front();
        }
        while let Some(send) = self.sends.front() {
            let op = SendOp {
                peer: group.peer(send.peer, endpoint),
                class: Class::Collective,
                tag: group.tag(self.id.1, send.number),
                data: Some(group.id),
                context: context(SENT),
                complete: CompleteWhen::Transmit,
                report: true,
                inject: true,
            };
            let region = self.memory(send.place).region(send.range.clone());
            // SAFETY: the memory is read during the call only, as it is an inject.
            match unsafe { endpoint.post_send(&op, &[region]) } {
                Ok(()) => self.sending += 1,
                Err(PostError::Again) => return Some(Standing::Waits),
                Err(_) => return Some(Standing::Broken(Outcome::PeerGone)),
            }
            self.sends.pop_front();
        }
        None
    }

    fn memory(&self, place: Place) -> &Scratch {
        match place {
            Place::Work => &self.work,
            Place::Incoming => &self.incoming,
        }
    }

    fn combine(&mut self, combine: &Combine) {
        let Some(reduction) = self.reduction else { return };
        let Combine { at, len, count, reversed } = *combine;
        for slot in 0..count {
            let from = (&mut self.incoming, slot * len);
            // SAFETY: all receives of the step have ended, and sends read only when posted.
            unsafe { self.work.combine((at, len), from, reduction, reversed) };
        }
    }

    /// One of its messages has ended; tells if that breaks it.
    pub(super) fn ended(&mut self, completion: &Completion) -> Option<Outcome> {
        if completion.side == Side::Send {
            self.sending -= 1;
            return (completion.outcome != Outcome::Done).then_some(completion.outcome);
        }
        let awaited = self.awaited.get_mut(completion.context & MESSAGE_MASK)?;
        let (_, wanted) = awaited.take()?;
        match completion.outcome {
            Outcome::Done if completion.len < wanted => {
                Some(Outcome::Truncated(wanted - completion.len))
            }
            Outcome::Done => None,
            broken => Some(broken),
        }
    }

    /// It will not go on: withdraws what can be withdrawn.
    pub(super) fn abort(&mut self, slot: usize, endpoint: &mut Endpoint) {
        self.is_told = true;
        self.recvs.clear();
        self.sends.clear();
        for (index, awaited) in self.awaited.iter_mut().enumerate() {
            if awaited.is_some() && endpoint.withdraw_step(slot << MESSAGE_BITS | index) {
                *awaited = None;
            }
        }
    }

    /// Writes the user's result.
    pub(super) fn give_result(&self) {
        let Whose::User { result, .. } = self.whose else { return };
        let from = self.memory(self.plan.result_place());
        for copy in self.plan.results() {
            // SAFETY: valid by the contract of `new`; all receives have ended.
            unsafe { from.give(copy.at(), part(result, copy)) };
        }
    }
}

/// The operation that a completion's context names.
pub(super) fn slot_of(context: usize) -> usize {
    context >> MESSAGE_BITS
}

fn part(whole: Region, copy: Copy) -> Region {
    let range = copy.user_range();
    Region { ptr: whole.ptr.wrapping_add(range.start), len: range.len() }
}
