//! What an enabled endpoint does: posts operations, and settles what has completed.
//!
//! It joins the [`Endpoint`] with libfabric's notions: address vector indices, completion flags,
//! counters. The endpoint object, its queues and its counters share it under one lock.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wiglaf_endpoint::{
    Address, Class, CompleteWhen, Completion, Endpoint, News, Outcome, PeerId, Ports, PostError,
    RecvOp, SendOp, Side,
};
use wiglaf_links::told;

use crate::attended::Attended;
use crate::bindings as fi;
use crate::cntr::CntrState;
use crate::domain::DomainState;
use crate::eq::EqState;
use crate::groups::Groups;
use crate::guard::{EAGAIN, EINVAL, Errno, Fi, refuse};
use crate::info::INJECT_LEN;
use crate::log;
use crate::one_sided::{RemoteCounters, is_unseen, refusal_errno};
use crate::ops::{Flags, RecvCall, SendCall, len_of};
use crate::peers::Peers;
use crate::tokens::{Meaning, Tokens};

/// The shared engine of an endpoint.
pub(crate) type Shared = Arc<Attended>;

/// Flags that cannot be honoured, in either direction.
const REFUSED: u64 = fi::FI_FENCE | fi::FI_TRIGGER | fi::FI_COMMIT_COMPLETE;
/// Flags with which a send is complete only when the peer has it.
const UNTIL_DELIVERED: u64 = fi::FI_DELIVERY_COMPLETE | fi::FI_TRANSMIT_COMPLETE;
/// Default of `FI_OPT_MIN_MULTI_RECV`, in bytes.
const MULTI_RECV_MIN: usize = 64;

/// One direction of an endpoint.
#[derive(Default)]
pub(crate) struct Direction {
    /// Whether a completion queue shows what completes.
    pub(crate) has_queue: bool,
    /// Whether it shows only operations with `FI_COMPLETION`.
    pub(crate) selective: bool,
    /// Counters that count what completes.
    pub(crate) counters: Vec<Arc<CntrState>>,
    /// Flags of operations that do not bring their own.
    pub(crate) op_flags: u64,
    /// Settled while a counter was read, not yet shown by the queue.
    pub(crate) settled: VecDeque<Completion>,
}

impl Direction {
    pub(crate) fn shows(&self, flags: u64) -> bool {
        self.has_queue && (!self.selective || flags & fi::FI_COMPLETION != 0)
    }
}

pub(crate) struct Engine {
    pub(crate) endpoint: Endpoint,
    pub(crate) tx: Direction,
    pub(crate) rx: Direction,
    pub(crate) remote_counters: RemoteCounters,
    /// Where registered memory and its counters are; none before the endpoint is enabled.
    pub(crate) domain: Option<Arc<DomainState>>,
    /// Whether one-sided operations on a peer take effect in their order.
    pub(crate) is_ordered: bool,
    /// The address vector; none before the endpoint is enabled.
    pub(crate) peers: Option<Peers>,
    /// Whether receives heed the source that they name.
    pub(crate) directed: bool,
    pub(crate) multi_recv_min: usize,
    /// Where the endpoint's failure is reported, and its handle and context as addresses.
    pub(crate) events: Option<(Arc<EqState>, usize, usize)>,
    /// Behind the endpoint, which must not outlive the memory that groups lend it.
    pub(crate) groups: Groups,
    tokens: Tokens,
    /// What ranks may have for ports, for what users are told.
    ports: Option<Ports>,
    /// Which peer was lost last, and why.
    pub(crate) loss: Option<Arc<CStr>>,
    /// The endpoint is closed: nothing moves any more, nor is user memory touched.
    closed: bool,
}

const fn is_send<T: Send>() {}
const _: () = is_send::<Endpoint>();

// SAFETY: of its parts the endpoint is `Send` by itself, and the settled completions are kept from
// it only by the address of user memory in them, which the engine never follows. Groups hold the
// address of results, which their user leaves to them until an operation has ended.
unsafe impl Send for Engine {}

/// Whether this process has told of a way that costs speed.
static TOLD: AtomicBool = AtomicBool::new(false);

/// The context of operations that nobody asks about; its address cannot be the application's.
static NOBODY: u8 = 0;

fn nobody() -> usize {
    (&raw const NOBODY).addr()
}

impl Engine {
    pub(crate) fn new(endpoint: Endpoint, ports: Option<Ports>) -> Self {
        Self {
            endpoint,
            tx: Direction::default(),
            rx: Direction::default(),
            remote_counters: RemoteCounters::default(),
            domain: None,
            is_ordered: false,
            peers: None,
            directed: false,
            multi_recv_min: MULTI_RECV_MIN,
            events: None,
            groups: Groups::default(),
            tokens: Tokens::default(),
            ports,
            loss: None,
            closed: false,
        }
    }

    pub(crate) fn peer(&mut self, index: fi::fi_addr_t) -> Fi<PeerId> {
        let Some(peers) = &mut self.peers else {
            return refuse!(Errno(fi::FI_EOPBADSTATE), "the endpoint is not enabled");
        };
        peers.peer(index, &mut self.endpoint)
    }

    /// The address that was inserted as `index`.
    pub(crate) fn address(&self, index: fi::fi_addr_t) -> Fi<Address> {
        let Some(peers) = &self.peers else {
            return refuse!(Errno(fi::FI_EOPBADSTATE), "the endpoint is not enabled");
        };
        peers.address(index)
    }

    /// Lets go of what the endpoint was bound to: the engine may live on for a moment in a thread
    /// that waits.
    pub(crate) fn unbind(&mut self) {
        self.tx.counters.clear();
        self.rx.counters.clear();
        self.remote_counters = RemoteCounters::default();
        (self.peers, self.events) = (None, None);
        self.closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The index under which the sender of a message is in the address vector.
    pub(crate) fn index_of(&mut self, source: Option<PeerId>) -> fi::fi_addr_t {
        match (source, &mut self.peers) {
            (Some(peer), Some(peers)) => peers.index(peer, &self.endpoint),
            _ => crate::av::UNSPEC,
        }
    }

    /// Posts a send.
    ///
    /// # Safety
    /// The regions stay valid and unchanged until the send completes, unless it is an inject.
    pub(crate) unsafe fn send(&mut self, call: &SendCall<'_>) -> Fi<()> {
        let flags = match call.flags {
            Flags::Default => self.tx.op_flags,
            Flags::Given(flags) => flags,
            Flags::Inject => fi::FI_INJECT,
        };
        offered(flags)?;
        let peer = self.peer(call.to)?;
        let inject = flags & fi::FI_INJECT != 0;
        if inject && len_of(call.pieces) > INJECT_LEN {
            let len = len_of(call.pieces);
            return refuse!(
                Errno(fi::FI_EMSGSIZE),
                "{len} bytes are too long to be injected: the limit is {INJECT_LEN}"
            );
        }
        let shown = call.flags != Flags::Inject && self.tx.shows(flags);
        let counted = !self.tx.counters.is_empty();
        let context = match call.flags {
            Flags::Inject => self.nobodys(counted),
            _ => self.stand_in(call.context, shown, counted),
        };
        let complete = if flags & fi::FI_MATCH_COMPLETE != 0 {
            CompleteWhen::Match
        } else if flags & UNTIL_DELIVERED != 0 {
            CompleteWhen::Delivery
        } else {
            CompleteWhen::Transmit
        };
        let op = SendOp {
            peer,
            class: call.class,
            tag: call.tag,
            data: call.data,
            context,
            complete,
            report: shown || counted,
            inject,
        };
        // SAFETY: by the contract of this function.
        let posted = unsafe { self.endpoint.post_send(&op, call.pieces) };
        self.posted(posted, context)
    }

    /// What a send carries in place of the application's context.
    pub(crate) fn stand_in(&mut self, context: usize, shown: bool, counted: bool) -> usize {
        match shown || !counted {
            true => context,
            false => self.tokens.issue(context, Meaning::Silent),
        }
    }

    /// The context of an operation for which the application has given none. Its completion is never shown, because the
    /// application may dereference its own context, which is null.
    pub(crate) fn nobodys(&mut self, counted: bool) -> usize {
        if counted { self.tokens.issue(0, Meaning::Nobodys) } else { nobody() }
    }

    #[inline]
    pub(crate) fn posted(&mut self, posted: Result<(), PostError>, context: usize) -> Fi<()> {
        posted.map_err(|error| self.refused(error, context))
    }

    #[cold]
    fn refused(&mut self, error: PostError, context: usize) -> Errno {
        self.tokens.drop_token(context); // if it is one
        post_errno(error)
    }

    /// Posts a receive; with `FI_PEEK` or `FI_CLAIM`, what those stand for.
    ///
    /// # Safety
    /// The regions stay valid and untouched until the receive completes.
    pub(crate) unsafe fn recv(&mut self, call: &RecvCall<'_>) -> Fi<()> {
        let flags = match call.flags {
            Flags::Given(flags) => flags,
            Flags::Default | Flags::Inject => self.rx.op_flags,
        };
        offered(flags)?;
        let Some(peers) = &mut self.peers else {
            return refuse!(Errno(fi::FI_EOPBADSTATE), "the endpoint is not enabled");
        };
        let multi = flags & fi::FI_MULTI_RECV != 0 && call.class == Class::Untagged;
        if multi && call.pieces.len() > 1 {
            // fi_msg(3) speaks of a single buffer.
            return refuse!(
                EINVAL,
                "a receive of several messages has {} pieces",
                call.pieces.len()
            );
        }
        let shown = self.rx.shows(flags);
        let mut op = RecvOp {
            class: call.class,
            from: None,
            tag: call.tag,
            ignore: call.ignore,
            context: call.context,
            report: shown || !self.rx.counters.is_empty(),
            multi_min_free: multi.then_some(self.multi_recv_min),
        };
        if self.directed && call.from != crate::av::UNSPEC {
            op.from = Some(peers.source(call.from, &op, &mut self.endpoint)?);
        }
        if flags & fi::FI_PEEK != 0 {
            self.peek(&mut op, flags);
            return Ok(());
        }
        if flags & fi::FI_CLAIM != 0 {
            // SAFETY: by the contract of this function.
            return unsafe { self.claim(&mut op, call, flags) };
        }
        if !shown && op.report {
            op.context = self.tokens.issue(call.context, Meaning::SilentRecv);
        }
        // SAFETY: by the contract of this function.
        let posted = unsafe { self.endpoint.post_recv(&op, call.pieces) };
        self.posted(posted, op.context)
    }

    fn peek(&mut self, op: &mut RecvOp, flags: u64) {
        let claim = flags & fi::FI_CLAIM != 0;
        let discard = flags & fi::FI_DISCARD != 0;
        let meaning = match (discard, claim) {
            (true, _) => Meaning::PeekDiscard,
            (false, true) => Meaning::PeekClaim,
            (false, false) => Meaning::Peek,
        };
        // Counters must not count it, and a discard has a second step.
        if discard || !self.rx.counters.is_empty() {
            op.context = self.tokens.issue(op.context, meaning);
        }
        op.report = true;
        op.multi_min_free = None;
        self.endpoint.peek(op, claim || discard);
    }

    /// # Safety
    /// As for [`Engine::recv`].
    unsafe fn claim(&mut self, op: &mut RecvOp, call: &RecvCall<'_>, flags: u64) -> Fi<()> {
        let discard = flags & fi::FI_DISCARD != 0;
        let claimed = self.tokens.find(call.context, Meaning::Claimed).next();
        if let Some(token) = claimed {
            op.context = token;
            // What is dropped is no receive, and not counted.
            match (discard, self.rx.shows(flags)) {
                (false, true) => {}
                (false, false) => self.tokens.turn(token, Meaning::SilentRecv),
                (true, true) => self.tokens.turn(token, Meaning::Peek),
                (true, false) => self.tokens.turn(token, Meaning::Discard),
            }
        }
        let posted = if discard {
            self.endpoint.discard_claimed(op)
        } else {
            // SAFETY: by the contract of this function.
            unsafe { self.endpoint.post_claimed(op, call.pieces) }
        };
        posted.map_err(post_errno)
    }

    /// Cancels a receive.
    pub(crate) fn cancel(&mut self, context: usize) -> Fi<()> {
        let mut silent = self.tokens.find(context, Meaning::SilentRecv);
        if self.endpoint.cancel(context) || silent.any(|key| self.endpoint.cancel(key)) {
            Ok(())
        } else {
            Err(Errno(fi::FI_ENOENT))
        }
    }

    /// Moves data. True when anything happened. A link that fails meanwhile is reported.
    pub(crate) fn progress(&mut self) -> bool {
        if self.closed {
            return false;
        }
        let busy = self.endpoint.progress();
        if self.groups.is_active() {
            self.move_groups();
        }
        if self.endpoint.has_news() {
            self.tell_news();
        }
        while let Some((link, why)) = self.endpoint.take_failure() {
            log::error!("the {link} link has failed ({why}): its peers are lost");
            if let Some((events, fid, context)) = &self.events {
                events.report(*fid, *context, why.raw_os_error().unwrap_or(libc::EIO));
            }
        }
        busy
    }

    /// Tells the user what is wrong with peers: an MPI says no more of it than that something failed.
    #[cold]
    fn tell_news(&mut self) {
        while let Some(news) = self.endpoint.pop_news() {
            let Some(told) = told(&news, self.ports) else { continue };
            match news.news {
                News::Gone(_) => {
                    log::error!("{told}");
                    self.loss = CString::new(told.to_string()).ok().map(Arc::from);
                }
                // Of many peers on a way that costs speed one is enough for a terminal.
                _ if !TOLD.swap(true, Ordering::Relaxed) => log::notice!("{told}"),
                _ => log::warning!("{told}"),
            }
        }
    }

    /// Whether an operation of those sides has completed and waits to be read.
    pub(crate) fn has_completed(&self, sides: &[Side]) -> bool {
        sides.iter().any(|&side| {
            let direction = match side {
                Side::Send => &self.tx,
                Side::Recv => &self.rx,
            };
            !direction.settled.is_empty() || self.endpoint.has_completed(side)
        })
    }

    fn direction(&mut self, side: Side) -> &mut Direction {
        match side {
            Side::Send => &mut self.tx,
            Side::Recv => &mut self.rx,
        }
    }

    /// The next completion, where it lies, if it is to be shown as it is: most are, and are not to be
    /// moved about.
    #[inline]
    pub(crate) fn next_plain(&self, side: Side) -> Option<&Completion> {
        let direction = match side {
            Side::Send => &self.tx,
            Side::Recv => &self.rx,
        };
        let plain =
            self.tokens.is_empty() && direction.counters.is_empty() && direction.settled.is_empty();
        let completion = self.endpoint.completion(side).filter(|_| plain)?;
        let is_message = matches!(completion.class, Class::Tagged | Class::Untagged);
        (is_message && completion.outcome == Outcome::Done).then_some(completion)
    }

    /// The next completion that a queue is to show.
    pub(crate) fn next_shown(&mut self, side: Side) -> Option<Completion> {
        if let Some(completion) = self.direction(side).settled.pop_front() {
            return Some(completion);
        }
        loop {
            let completion = self.endpoint.pop_completion(side)?;
            if let Some(completion) = self.settle(completion) {
                return Some(completion);
            }
        }
    }

    /// Settles all that has completed, so that counters are right; queues show it later.
    pub(crate) fn settle_all(&mut self) {
        for side in [Side::Send, Side::Recv] {
            while let Some(completion) = self.endpoint.pop_completion(side) {
                let shown = self.settle(completion);
                let direction = self.direction(side);
                if direction.has_queue {
                    direction.settled.extend(shown);
                }
            }
        }
    }

    /// Counts a completion, and gives it back, with the application's context, if it is shown.
    fn settle(&mut self, mut completion: Completion) -> Option<Completion> {
        let done = completion.outcome == Outcome::Done;
        let mut shown = true;
        let mut counted = true;
        let mut anonymous = completion.context == nobody();
        if let Some((context, meaning)) = self.tokens.get(completion.context) {
            let key = std::mem::replace(&mut completion.context, context);
            anonymous = meaning == Meaning::Nobodys;
            let silent = anonymous || matches!(meaning, Meaning::Silent | Meaning::SilentRecv);
            shown = meaning != Meaning::Discard && (!silent || !done || completion.multi_released);
            counted = silent || meaning == Meaning::Claimed;
            match meaning {
                Meaning::PeekClaim if done => self.tokens.turn(key, Meaning::Claimed),
                Meaning::PeekDiscard if done => self.discard(key, &completion),
                // A buffer for several messages completes again.
                _ if completion.is_multi && !completion.multi_released => {}
                _ => self.tokens.drop_token(key),
            }
        }
        if counted {
            self.count(&completion, done);
        }
        shown &= !is_unseen(&completion);
        if anonymous && !done {
            log::warning!("a message that nobody waits for was lost: {:?}", completion.outcome);
            return None;
        }
        shown.then_some(completion)
    }

    pub(crate) fn count(&mut self, completion: &Completion, done: bool) {
        let side = completion.side;
        match self.remote_counters.of(side, completion.class) {
            Some(counters) => {
                counters.iter().for_each(|counter| counter.count(done));
                if let Some(domain) = &self.domain {
                    domain.watched.count(completion);
                }
            }
            None => {
                self.direction(side).counters.iter().for_each(|counter| counter.count(done));
            }
        }
    }

    /// Drops the message that a peek has found and claimed under `key`.
    fn discard(&mut self, key: usize, found: &Completion) {
        self.tokens.turn(key, Meaning::Discard);
        let op = RecvOp {
            class: found.class,
            from: found.source,
            tag: found.tag,
            ignore: 0,
            context: key,
            report: true,
            multi_min_free: None,
        };
        if self.endpoint.discard_claimed(&op).is_err() {
            self.tokens.drop_token(key);
        }
    }
}

fn post_errno(error: PostError) -> Errno {
    match error {
        PostError::Again => EAGAIN,
        PostError::PeerGone => Errno(fi::FI_ECONNRESET),
        PostError::TooLong => Errno(fi::FI_EMSGSIZE),
        PostError::NotClaimed => Errno(fi::FI_ENOMSG),
        PostError::Unsupported => Errno(fi::FI_EOPNOTSUPP),
    }
}

/// The error number of an operation that has ended so; none if it ended well.
pub(crate) fn outcome_errno(outcome: Outcome) -> Option<Errno> {
    match outcome {
        Outcome::Done => None,
        Outcome::Truncated(_) => Some(Errno(fi::FI_ETRUNC)),
        Outcome::Canceled => Some(Errno(fi::FI_ECANCELED)),
        Outcome::NoMessage => Some(Errno(fi::FI_ENOMSG)),
        Outcome::PeerGone => Some(Errno(fi::FI_ECONNRESET)),
        Outcome::Refused(_) => refusal_errno(outcome),
    }
}

/// Refuses flags that cannot be honoured.
fn offered(flags: u64) -> Fi<()> {
    if flags & REFUSED == 0 {
        return Ok(());
    }
    let strange = flags & REFUSED;
    refuse!(Errno(fi::FI_EBADFLAGS), "flags {strange:#x} of a message are not offered")
}

/// Refuses bits that a call does not know.
pub(crate) fn only(flags: u64, known: u64) -> Fi<()> {
    let strange = flags & !known;
    if strange == 0 {
        return Ok(());
    }
    refuse!(EINVAL, "flags or capabilities {strange:#x} are not offered here")
}
