//! What an enabled endpoint does: posts operations, and settles what has completed.
//!
//! It joins the [`Endpoint`] with libfabric's notions: address vector indices, completion flags,
//! counters. The endpoint object, its queues and its counters share it under one lock.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wiglaf_endpoint::{
    Address, Class, CompleteWhen, Completion, Endpoint, Hold, News, Outcome, PeerId, Ports,
    PostError, RecvOp, Region, RemoteOp, SendOp, Side,
};
use wiglaf_links::told;

use crate::attended::Attended;
use crate::av::AvState;
use crate::bindings as fi;
use crate::cntr::CntrState;
use crate::domain::DomainState;
use crate::eq::EqState;
use crate::groups::{Ended, Groups, Start};
use crate::guard::{EAGAIN, EINVAL, Errno, Fi, refuse};
use crate::info::INJECT_LEN;
use crate::log;
use crate::ops::{AtomicCall, Flags, RecvCall, Regions, RemoteCall, SendCall, len_of};
use crate::peers::Peers;
use crate::tokens::{Meaning, Tokens};

/// The shared engine of an endpoint.
pub(crate) type Shared = Arc<Attended>;

/// Flags that cannot be honoured, in either direction.
const REFUSED: u64 = fi::FI_FENCE | fi::FI_TRIGGER | fi::FI_COMMIT_COMPLETE;
/// Those of one-sided operations that cannot.
const REFUSED_REMOTE: u64 = fi::FI_TRIGGER | fi::FI_COMMIT_COMPLETE | fi::FI_MATCH_COMPLETE;
/// Flags with which a send is complete only when the peer has it.
const UNTIL_DELIVERED: u64 = fi::FI_DELIVERY_COMPLETE | fi::FI_TRANSMIT_COMPLETE;
/// Default of `FI_OPT_MIN_MULTI_RECV`, in bytes.
const MULTI_RECV_MIN: usize = 64;

/// One direction of an endpoint.
#[derive(Default)]
struct Direction {
    /// Whether a completion queue shows what completes.
    has_queue: bool,
    /// Whether it shows only operations with `FI_COMPLETION`.
    selective: bool,
    /// Counters that count what completes.
    counters: Vec<Arc<CntrState>>,
    /// Flags of operations that do not bring their own.
    op_flags: u64,
    /// Settled while a counter was read, not yet shown by the queue.
    settled: VecDeque<Completion>,
}

impl Direction {
    /// Joins it to a queue, if one was bound with such flags, and to those of the counters that were bound for `side`.
    fn join(&mut self, queue: Option<u64>, counters: &[(Arc<CntrState>, u64)], side: u64) {
        self.has_queue = queue.is_some();
        self.selective = queue.is_some_and(|flags| flags & fi::FI_SELECTIVE_COMPLETION != 0);
        self.counters = bound_for(counters, side);
    }

    fn shows(&self, flags: u64) -> bool {
        self.has_queue && (!self.selective || flags & fi::FI_COMPLETION != 0)
    }
}

/// The counters that were bound for what `flag` names.
fn bound_for(counters: &[(Arc<CntrState>, u64)], flag: u64) -> Vec<Arc<CntrState>> {
    let bound = counters.iter().filter(|(_, flags)| flags & flag != 0);
    bound.map(|(counter, _)| Arc::clone(counter)).collect()
}

/// Counters of one-sided operations.
#[derive(Default)]
struct RemoteCounters {
    read: Vec<Arc<CntrState>>,
    write: Vec<Arc<CntrState>>,
    /// Of what peers do to memory that is registered here.
    remote_read: Vec<Arc<CntrState>>,
    remote_write: Vec<Arc<CntrState>>,
}

impl RemoteCounters {
    fn new(counters: &[(Arc<CntrState>, u64)]) -> Self {
        Self {
            read: bound_for(counters, fi::FI_READ),
            write: bound_for(counters, fi::FI_WRITE),
            remote_read: bound_for(counters, fi::FI_REMOTE_READ),
            remote_write: bound_for(counters, fi::FI_REMOTE_WRITE),
        }
    }

    /// Whether any counts what peers do to all of the memory.
    fn count_peers(&self) -> bool {
        !(self.remote_read.is_empty() && self.remote_write.is_empty())
    }

    /// Those that count an operation of that class; none for messages.
    fn of(&self, side: Side, class: Class) -> Option<&[Arc<CntrState>]> {
        // Collective operations count as the atomic ones that they map to (fi_collective(3)).
        if class == Class::Collective {
            return Some(&self.write);
        }
        class.names_memory().then(|| match (side, is_read(class)) {
            (Side::Send, true) => &self.read[..],
            (Side::Send, false) => &self.write,
            (Side::Recv, true) => &self.remote_read,
            (Side::Recv, false) => &self.remote_write,
        })
    }
}

pub(crate) struct Engine {
    pub(crate) endpoint: Endpoint,
    tx: Direction,
    rx: Direction,
    remote_counters: RemoteCounters,
    /// Where registered memory and its counters are; none before the endpoint is enabled.
    domain: Option<Arc<DomainState>>,
    /// Whether one-sided operations on a peer take effect in their order.
    is_ordered: bool,
    /// The address vector; none before the endpoint is enabled.
    peers: Option<Peers>,
    /// Whether receives heed the source that they name.
    directed: bool,
    multi_recv_min: usize,
    /// Where the endpoint's failure is reported, and its handle and context as addresses.
    events: Option<(Arc<EqState>, usize, usize)>,
    /// Behind the endpoint, which must not outlive the memory that groups lend it.
    pub(crate) groups: Groups,
    tokens: Tokens,
    /// What ranks may have for ports, for what users are told.
    ports: Option<Ports>,
    /// Which peer was lost last, and why.
    loss: Option<Arc<CStr>>,
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

    /// What the endpoint was opened with: flags of sends and receives that bring none, whether receives heed the source
    /// that they name, and whether one-sided operations keep their order.
    pub(crate) fn set_up(&mut self, op_flags: (u64, u64), directed: bool, is_ordered: bool) {
        (self.tx.op_flags, self.rx.op_flags) = op_flags;
        (self.directed, self.is_ordered) = (directed, is_ordered);
    }

    /// Joins it to what the endpoint is bound to: queues, by their flags, counters with theirs, and an address vector.
    pub(crate) fn join(
        &mut self,
        domain: &Arc<DomainState>,
        av: &Arc<AvState>,
        (tx_queue, rx_queue): (Option<u64>, Option<u64>),
        counters: &[(Arc<CntrState>, u64)],
    ) {
        self.tx.join(tx_queue, counters, fi::FI_SEND);
        self.rx.join(rx_queue, counters, fi::FI_RECV);
        self.remote_counters = RemoteCounters::new(counters);
        self.endpoint.report_remote(self.remote_counters.count_peers());
        self.domain = Some(Arc::clone(domain));
        self.peers = Some(Peers::new(Arc::clone(av)));
    }

    /// Failures and joins are reported there from now on; `fid` and `context` are the endpoint's.
    pub(crate) fn bind_events(
        &mut self,
        events: Arc<EqState>,
        fid: usize,
        context: usize,
    ) -> Fi<()> {
        if self.events.is_some() {
            return refuse!(EINVAL, "bind: the endpoint has an event queue already");
        }
        self.events = Some((events, fid, context));
        Ok(())
    }

    /// Where joins are reported.
    pub(crate) fn events(&self) -> Option<&Arc<EqState>> {
        self.events.as_ref().map(|(events, ..)| events)
    }

    /// The address vector; none before the endpoint is enabled.
    pub(crate) fn peers(&self) -> Option<&Peers> {
        self.peers.as_ref()
    }

    /// Flags of operations that bring none, in the direction that exactly one of two flags names.
    pub(crate) fn op_flags(&mut self, sides: u64) -> Fi<&mut u64> {
        match (sides & fi::FI_SEND != 0, sides & fi::FI_RECV != 0) {
            (true, false) => Ok(&mut self.tx.op_flags),
            (false, true) => Ok(&mut self.rx.op_flags),
            _ => Err(EINVAL),
        }
    }

    /// `FI_OPT_MIN_MULTI_RECV`, in bytes.
    pub(crate) fn multi_recv_min(&mut self) -> &mut usize {
        &mut self.multi_recv_min
    }

    /// Which peer was lost last, and why.
    pub(crate) fn loss(&self) -> Option<&Arc<CStr>> {
        self.loss.as_ref()
    }

    /// Begins a collective operation, with the endpoint's flags where it brings none.
    ///
    /// # Safety
    /// As for [`Groups::start`].
    pub(crate) unsafe fn collective(&mut self, start: &Start, flags: Option<u64>) -> Fi<()> {
        let shown = self.tx.shows(flags.unwrap_or(self.tx.op_flags));
        // SAFETY: by the contract of this function.
        let started = unsafe { self.groups.start(&mut self.endpoint, start, shown) };
        self.tell_ended();
        started
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
    fn stand_in(&mut self, context: usize, shown: bool, counted: bool) -> usize {
        match shown || !counted {
            true => context,
            false => self.tokens.issue(context, Meaning::Silent),
        }
    }

    /// The context of an operation for which the application has given none. Its completion is never shown, because the
    /// application may dereference its own context, which is null.
    fn nobodys(&mut self, counted: bool) -> usize {
        if counted { self.tokens.issue(0, Meaning::Nobodys) } else { nobody() }
    }

    #[inline]
    fn posted(&mut self, posted: Result<(), PostError>, context: usize) -> Fi<()> {
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

    fn count(&mut self, completion: &Completion, done: bool) {
        let side = completion.side;
        match self.remote_counters.of(side, completion.class) {
            Some(counters) => {
                counters.iter().for_each(|counter| counter.count(done));
                if let Some(domain) = &self.domain {
                    domain.watched().count(completion);
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

    /// Posts a write.
    ///
    /// # Safety
    /// The regions stay valid and unchanged until it completes, unless it is an inject.
    pub(crate) unsafe fn write(&mut self, call: &RemoteCall) -> Fi<()> {
        // SAFETY: by the contract of this function.
        self.post_remote(call, Class::Write, |engine, op| unsafe {
            engine.endpoint.post_write(op, call.regions.pieces())
        })
    }

    /// Posts a read.
    ///
    /// # Safety
    /// The regions stay valid and untouched until it completes.
    pub(crate) unsafe fn read(&mut self, call: &RemoteCall) -> Fi<()> {
        if call.flags == Flags::Inject {
            return Err(EINVAL);
        }
        // SAFETY: by the contract of this function.
        self.post_remote(call, Class::Read, |engine, op| unsafe {
            engine.endpoint.post_read(op, call.regions.pieces())
        })
    }

    /// Posts an atomic operation.
    ///
    /// # Safety
    /// The operands and comparands are valid; the results stay so until it completes.
    pub(crate) unsafe fn atomic(&mut self, call: &RemoteCall, atomic: &AtomicCall) -> Fi<()> {
        let class = if atomic.op.fetch { Class::Fetch } else { Class::Atomic };
        let pieces = |regions: &Regions| -> Vec<Region> { regions.pieces().to_vec() };
        // SAFETY: by the contract of this function.
        self.post_remote(call, class, |engine, op| unsafe {
            engine.endpoint.post_atomic(
                op,
                atomic.op,
                &pieces(&call.regions),
                &pieces(&atomic.comparands),
                &pieces(&atomic.results),
            )
        })
    }

    fn post_remote(
        &mut self,
        call: &RemoteCall,
        class: Class,
        post: impl FnOnce(&mut Self, &RemoteOp) -> Result<(), PostError>,
    ) -> Fi<()> {
        let flags = match call.flags {
            Flags::Default => self.tx.op_flags,
            Flags::Given(flags) => flags,
            Flags::Inject => fi::FI_INJECT,
        };
        if flags & REFUSED_REMOTE != 0 {
            return Err(Errno(fi::FI_EBADFLAGS));
        }
        let peer = self.peer(call.to)?;
        let inject = flags & fi::FI_INJECT != 0 && class != Class::Read;
        if inject && call.regions.len() > INJECT_LEN {
            return Err(Errno(fi::FI_EMSGSIZE));
        }
        let shown = call.flags != Flags::Inject && self.tx.shows(flags);
        let counters = self.remote_counters.of(Side::Send, class);
        let counted = counters.is_some_and(|counters| !counters.is_empty());
        let context = match call.flags {
            Flags::Inject => self.nobodys(counted),
            _ => self.stand_in(call.context, shown, counted),
        };
        let op = RemoteOp {
            peer,
            key: call.key,
            address: call.address,
            data: call.data,
            context,
            report: shown || counted,
            inject,
            hold: match (flags & fi::FI_FENCE != 0, self.is_ordered) {
                (true, _) => Hold::Fence,
                (false, true) => Hold::Order,
                (false, false) => Hold::Nothing,
            },
        };
        let posted = post(self, &op);
        self.posted(posted, context)
    }

    /// Moves what is under way in groups.
    fn move_groups(&mut self) {
        self.groups.progress(&mut self.endpoint);
        self.tell_ended();
    }

    /// Tells queues, counters and the event queue what has ended in groups.
    pub(crate) fn tell_ended(&mut self) {
        let all = self.groups.take_ended();
        if all.is_empty() {
            return;
        }
        for ended in all {
            match ended {
                Ended::Operation { context, shown, len, outcome } => {
                    self.end_collective(context, shown, len, outcome);
                }
                Ended::Join { handle, outcome } => {
                    if let Some((events, ..)) = &self.events {
                        events.join_ended(handle.fid, handle.context, outcome);
                    }
                }
            }
        }
        self.endpoint.alarm();
    }

    fn end_collective(&mut self, context: usize, shown: bool, len: usize, outcome: Outcome) {
        let completion =
            Completion { len, ..Completion::new(Side::Send, Class::Collective, context, outcome) };
        let done = outcome == Outcome::Done;
        self.count(&completion, done);
        if self.tx.has_queue && (shown || !done) {
            self.tx.settled.push_back(completion);
        } else if !done {
            log::warning!("a collective operation has failed: {outcome:?}");
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

/// Whether an operation on memory reads it, as counters see it.
pub(crate) fn is_read(class: Class) -> bool {
    matches!(class, Class::Read | Class::Fetch)
}

/// Whether a completion is of something that a peer did and nobody asked to see.
fn is_unseen(completion: &Completion) -> bool {
    completion.side == Side::Recv && completion.class.names_memory() && completion.data.is_none()
}

/// The error number for what a target has refused.
fn refusal_errno(outcome: Outcome) -> Option<Errno> {
    let Outcome::Refused(refusal) = outcome else { return None };
    Some(Errno(match refusal {
        wiglaf_endpoint::Refusal::Key => fi::FI_EKEYREJECTED,
        wiglaf_endpoint::Refusal::Access => fi::FI_EACCES,
        wiglaf_endpoint::Refusal::Bounds => fi::FI_EINVAL,
        wiglaf_endpoint::Refusal::Malformed => fi::FI_EOPNOTSUPP,
        wiglaf_endpoint::Refusal::Room => fi::FI_EAGAIN,
    }))
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
