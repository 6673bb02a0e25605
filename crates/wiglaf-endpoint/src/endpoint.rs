//! The endpoint itself: posts, progress, waiting, closing.

use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

use wiglaf_link::near::Near;
use wiglaf_link::{Link, Sent, Unreachable};
use wiglaf_transport::{
    Config as TransportConfig, Gone, Instant as Tick, Lengths, Path, PeerId, PeerView,
    Posted as Taken, SendError, Sink, Stats, Traffic, Transport,
};
use wiglaf_wire::{Class, Envelope, Epoch};

use crate::books::{Books, Rest, Whose};
use crate::content::Content;
use crate::exposed::Exposed;
use crate::limits::{
    CLOSE_LIMIT, DRAIN_LIMIT, GETTING_UP, ROUNDS_PER_PROGRESS, SLEEP_MAX, STALL_RETRY,
    TRAINS_PER_PROGRESS,
};
use crate::link_set::LinkSet;
use crate::looks::Looks;
use crate::machines::Machines;
use crate::memory::{Region, Regions};
use crate::near::{NearSide, NearStats};
use crate::remote::{ATOMIC_LEN_MAX, ATOMIC_PREFIX_LEN, AtomicOp, RemoteOp, RemoteStats};
use crate::setup::{Setup, path_of};
use crate::sleepers::{Nap, Sleepers};
use crate::stalled::Stalled;
use crate::trains::Trains;
use crate::waiting::{Step, WaitPolicy, Waiting};
use crate::{
    ACTIVE_LEN_MAX, ActiveMessage, Address, CompleteWhen, Completion, Counters, Hosts, News,
    Outcome, PeerCounts, PeerNews, PostError, RecvOp, SendOp, Side,
};

const NEVER: Tick = Tick::from_nanos(u64::MAX);

thread_local! {
    /// How often this thread has found something at any of its endpoints.
    static FOUND: Cell<u32> = const { Cell::new(0) };
}

/// One endpoint of a process.
pub struct Endpoint {
    address: Address,
    inject_len_max: usize,
    links: LinkSet,
    transport: Transport,
    books: Books,
    near: NearSide,
    clock: Instant,
    trains: Trains,
    stalled: Stalled,
    looks: Looks,
    waiting: Waiting,
    sleepers: Sleepers,
    watch: Watch,
    late_peeks: bool,
    closed: bool,
}

/// Who looks on. It gets the endpoint as it is, between two steps of progress.
type Watcher = Box<dyn FnMut(&Endpoint) + Send>;

/// When the endpoint is shown next, and to whom; when machines are looked at next. Both at moments when the clock is
/// read anyway.
struct Watch {
    /// The earlier one of both.
    next_at: Tick,
    every: Duration,
    watcher: Option<Watcher>,
    show_at: Tick,
    machines: Option<Box<Machines>>,
    machines_at: Tick,
}

/// What a thread does after a poll that found nothing, without holding the endpoint.
#[derive(Debug)]
#[must_use = "a pause must be ended"]
pub struct Pause {
    step: Step,
    began: Instant,
    nap: Option<Nap>,
}

impl Pause {
    /// What it sleeps on, if it sleeps.
    #[must_use]
    pub fn nap(&self) -> Option<&Nap> {
        self.nap.as_ref()
    }

    /// Yields or sleeps.
    pub fn pass(&self) {
        match &self.nap {
            Some(nap) => Nap::sleep([nap]),
            None if self.step == Step::Yield => std::thread::yield_now(),
            None => {}
        }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({} epoch {})", self.address.at, self.address.epoch)
    }
}

/// Opening, and what can be seen.
impl Endpoint {
    /// Joins links to a transport.
    ///
    /// # Panics
    /// When there is no link.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let paths: Vec<Path> = setup.links.iter().map(|link| path_of(link.as_ref())).collect();
        let trains = Trains::new();
        let address = Address { at: setup.links[0].local(), epoch: setup.epoch };
        let shortest = paths.iter().map(|p| p.frame_len_max).min();
        let transport = Transport::new(TransportConfig {
            epoch: setup.epoch,
            key: setup.key,
            paths,
            silence_limit: setup.silence_limit,
            flow_control: setup.flow_control,
            encrypt: setup.encrypt,
        });
        let watch = Watch {
            next_at: NEVER,
            every: Duration::MAX,
            watcher: None,
            show_at: NEVER,
            machines: None,
            machines_at: NEVER,
        };
        Self {
            address,
            inject_len_max: shortest.unwrap_or(0).saturating_sub(128),
            links: LinkSet::new(setup.links),
            transport,
            books: Books::default(),
            near: NearSide::new(setup.flow_control),
            clock: Instant::now(),
            trains,
            stalled: Stalled::default(),
            looks: Looks::default(),
            waiting: Waiting::default(),
            sleepers: Sleepers::default(),
            watch,
            late_peeks: false,
            closed: false,
        }
    }

    /// Where this endpoint is.
    #[must_use]
    pub fn name(&self) -> Address {
        self.address
    }

    /// The links' names, in their order.
    pub fn links(&self) -> impl Iterator<Item = &'static str> {
        self.links.iter().map(Link::name)
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        self.transport.stats()
    }

    /// What was counted on the near lane.
    #[must_use]
    pub fn near_stats(&self) -> &NearStats {
        self.near.stats()
    }

    /// What can be seen of a peer.
    #[must_use]
    pub fn peer(&self, peer: PeerId) -> Option<PeerView> {
        self.transport.peer(peer)
    }

    /// Whether a peer is gone: nothing more can come from it.
    #[must_use]
    pub fn is_gone(&self, peer: PeerId) -> bool {
        self.transport.is_gone(peer)
    }

    /// Longest payload that may be injected, in bytes.
    #[must_use]
    pub fn inject_len_max(&self) -> usize {
        self.inject_len_max
    }

    /// Makes `address` known; the same address gives the same peer again. One
    /// that no link reaches is gone from the beginning.
    pub fn insert(&mut self, mut address: Address) -> PeerId {
        // Who is at its own address is known: nobody else is to be taken for it, nor it for another.
        if address.at == self.address.at && !address.epoch.is_known() {
            address.epoch = self.address.epoch;
        }
        self.links.introduce_strangers(&self.transport);
        let path = self.links.reach(address);
        let peer = self.transport.connect(address.at, address.epoch, path.unwrap_or(0));
        self.links.met(peer);
        if path.is_none() {
            self.transport.give_up(peer, Gone::Unreachable, &mut self.books);
        }
        self.join_near(peer, address);
        peer
    }

    /// Where a peer is, as far as is known.
    #[must_use]
    pub fn address_of(&self, peer: PeerId) -> Option<Address> {
        let view = self.transport.peer(peer)?;
        Some(Address { at: view.at, epoch: view.epoch })
    }

    /// Whether a peek without a claim passes over a message once before it finds it.
    ///
    /// MPICH keeps messages of a rank to itself apart, and looks for them first. One that was sent
    /// before a probe of any source may only be seen after that look; if the probe then finds
    /// another rank's message here, the receive behind it takes the rank's own. A probe that is told
    /// "none" first looks there again before it asks anew.
    pub fn set_late_peeks(&mut self, late: bool) {
        self.late_peeks = late;
    }

    /// From which length on its messages take another way.
    pub fn set_lengths(&mut self, lengths: Lengths) {
        self.transport.set_lengths(lengths);
    }

    /// Messages that wait for a receive.
    #[must_use]
    pub fn unexpected_len(&self) -> usize {
        self.books.matching().unexpected_len()
    }

    /// What they hold here, in bytes, without what the allocator adds.
    #[must_use]
    pub fn unexpected_memory(&self) -> usize {
        self.books.matching().unexpected_memory()
    }

    /// Whether a message waits that such a receive would take.
    #[must_use]
    pub fn holds(&mut self, op: &RecvOp) -> bool {
        self.books.holds(op)
    }

    /// Whether any message of a peer waits for a receive.
    #[must_use]
    pub fn holds_messages_of(&self, peer: PeerId) -> bool {
        self.books.matching().has_from(peer)
    }

    /// How many active messages wait to be popped, those that are still with their senders included.
    #[must_use]
    pub fn active_len(&self) -> usize {
        self.books.active().len()
    }

    /// Whether active messages are fetched as they are announced: not while many are here, or some have
    /// stayed with their senders.
    #[must_use]
    pub fn has_room_for_active(&self) -> bool {
        self.books.active().has_room()
    }

    /// How many bytes of active messages are here, or on their way here.
    #[must_use]
    pub fn active_held(&self) -> u64 {
        self.books.active().held()
    }

    /// Has `watcher` look at the endpoint from now on, about once in `every`
    /// for as long as something polls it. It must not block.
    pub fn watch(&mut self, every: Duration, watcher: impl FnMut(&Self) + Send + 'static) {
        self.watch.every = every;
        self.watch.watcher = Some(Box::new(watcher));
        (self.watch.show_at, self.watch.next_at) = (Tick::ZERO, Tick::ZERO);
    }

    #[cold]
    fn show(&mut self, now: Tick) {
        if now >= self.watch.show_at
            && let Some(mut watcher) = self.watch.watcher.take()
        {
            self.watch.show_at = now + self.watch.every;
            watcher(self);
            self.watch.watcher = Some(watcher);
        }
        if now >= self.watch.machines_at
            && let Some(machines) = &mut self.watch.machines
        {
            self.watch.machines_at = now + machines.every();
            let awaits = is_owed_something(&self.books, &self.transport, &self.near);
            let (links, here) = (&self.links, *self.address.at.ip());
            let is_here = |peer: &PeerView| {
                let ip = *peer.at.ip();
                let is_near = links.get(peer.path).is_some_and(|link| link.name() == "shm");
                ip == here || ip.is_loopback() || is_near
            };
            let to = (&mut self.transport, &mut self.books as &mut dyn Sink);
            if machines.look(now, to, awaits, is_here) {
                self.tell_sleepers();
            }
        }
        self.watch.next_at = self.watch.show_at.min(self.watch.machines_at);
    }

    /// Has machines asked that peers are on which were not heard, and gives those up that have been silent
    /// for `limit`.
    pub fn watch_machines(&mut self, hosts: Box<dyn Hosts>, limit: Duration) {
        self.watch.machines = Some(Box::new(Machines::new(hosts, limit)));
        (self.watch.machines_at, self.watch.next_at) = (Tick::ZERO, Tick::ZERO);
    }

    /// Every counter with its name, in a fixed order.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let near = self.near_stats();
        let remote = self.remote_stats();
        let drops: Vec<_> = self.links.iter().map(Link::drops).collect();
        let sum = |of: fn(&wiglaf_link::Drops) -> u64| drops.iter().map(of).sum();
        let others = [
            ("near_eager_sent", near.eager_sent),
            ("near_announced", near.announced),
            ("near_credit_stalls", near.credit_stalls),
            ("near_copied_once", near.copied_once),
            ("near_copied_twice", near.copied_twice),
            ("drop_near_record", near.refused),
            ("remote_performed", remote.performed),
            ("drop_remote_key", remote.refused_key),
            ("drop_remote_access", remote.refused_access),
            ("drop_remote_bounds", remote.refused_bounds),
            ("drop_remote_malformed", remote.refused_malformed),
            ("drop_remote_room", remote.refused_room),
            ("drop_remote_answer", remote.refused_answers),
            ("drop_link_malformed", sum(|d| d.malformed)),
            ("drop_link_unsent", sum(|d| d.unsent)),
            ("drop_link_overflow", sum(|d| d.overflows)),
        ];
        self.stats().iter().chain(others).collect()
    }

    /// All peers that something was exchanged with, in the order in which they
    /// became known. One that was met on both ways is there twice.
    pub fn peers(&self) -> impl Iterator<Item = PeerCounts> {
        let known = (0..).map(PeerId).map_while(|peer| Some((peer, self.peer(peer)?)));
        known.flat_map(|(peer, view)| self.counts_of(peer, &view)).flatten()
    }

    fn counts_of(&self, peer: PeerId, view: &PeerView) -> [Option<PeerCounts>; 2] {
        let over_link = PeerCounts {
            address: Address { at: view.at, epoch: view.epoch },
            via: self.links.get(view.path).map_or("none", Link::name),
            rtt: view.rtt,
            in_flight: view.in_flight,
            credit_left: view.credit_left,
            is_gone: view.is_gone,
            traffic: view.traffic,
        };
        let near = self.near.traffic_with(peer).map(|(traffic, credit_left)| PeerCounts {
            via: "near",
            rtt: Duration::ZERO,
            in_flight: 0,
            credit_left,
            traffic,
            ..over_link
        });
        let used = view.traffic != Traffic::default() || view.in_flight > 0;
        [used.then_some(over_link), near]
    }

    /// The next thing that users should know. Who is gone is told here or by [`Endpoint::pop_gone`].
    pub fn pop_news(&mut self) -> Option<PeerNews> {
        if let Some((peer, way)) = self.transport.take_way_news() {
            return self.news_of(peer, None, News::Way(way));
        }
        if let Some((peer, silent, news)) =
            self.watch.machines.as_mut().and_then(|machines| machines.pop_news())
        {
            return self.news_of(peer, Some(silent), news);
        }
        let (peer, why) = self.pop_gone()?;
        self.news_of(peer, None, News::Gone(why))
    }

    /// Whether there is any.
    #[inline]
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.books.has_gone()
            || self.transport.has_way_news()
            || self.watch.machines.as_ref().is_some_and(|machines| machines.has_news())
    }

    fn news_of(&self, peer: PeerId, silent: Option<Duration>, news: News) -> Option<PeerNews> {
        let address = self.address_of(peer)?;
        let silent = silent.or_else(|| self.transport.silent_for(peer, self.now()));
        Some(PeerNews { address, silent: silent.unwrap_or_default(), news })
    }

    /// The next peer that was found to be gone, and why.
    pub fn pop_gone(&mut self) -> Option<(PeerId, Gone)> {
        self.books.pop_gone()
    }

    /// `peer` was found to have ended by other means, such as its launcher's: everything that
    /// waits for it ends now.
    pub fn give_up(&mut self, peer: PeerId) {
        if let Some(view) = self.transport.peer(peer) {
            let found = Unreachable { at: view.at, epoch: view.epoch.0, quoted: None };
            self.near.lose(&found, &mut self.books, &mut self.transport);
        }
        self.transport.give_up(peer, Gone::Unreachable, &mut self.books);
        self.tell_sleepers();
    }

    /// `peer` owes one answer more to what is sent to it now, or one less. Without that it may be
    /// silent as long as it likes: who awaits a message is told of a death only if something was
    /// to be acknowledged.
    pub fn owe(&mut self, peer: PeerId, more: bool) {
        self.transport.owe(peer, more);
    }

    /// A link that cannot be used any further, and why; each once. Its peers are gone.
    pub fn take_failure(&mut self) -> Option<(&'static str, io::Error)> {
        self.links.take_failure()
    }
}

/// Sends.
impl Endpoint {
    /// Posts a send.
    ///
    /// # Errors
    /// [`PostError`]; nothing was taken.
    ///
    /// # Safety
    /// Unless `op.inject`, the regions must stay valid and unchanged until
    /// the send completes or the endpoint is dropped.
    pub unsafe fn post_send(&mut self, op: &SendOp, regions: &[Region]) -> Result<(), PostError> {
        self.posts();
        let limit = match op.class {
            // What is long is copied until it has been fetched.
            Class::Collective => usize::MAX,
            _ if op.inject => self.inject_len_max(),
            Class::Active => ACTIVE_LEN_MAX,
            Class::Tagged | Class::Untagged => usize::MAX,
            _ => return Err(PostError::Unsupported), // one-sided: not to be sent by hand
        };
        if let [piece] = regions
            // SAFETY: handed on from our caller.
            && let Some(bytes) = unsafe { piece.bytes() }
            && bytes.len() <= limit
            && self.post_short(op, bytes)?
        {
            return Ok(());
        }
        // SAFETY: handed on from our caller.
        let regions = unsafe { Regions::new(regions) }.ok_or(PostError::TooLong)?;
        if regions.len() > limit {
            return Err(PostError::TooLong);
        }
        self.post_regions(op, regions)
    }

    /// Posts a send that is long, in pieces, or for a peer of another node.
    fn post_regions(&mut self, op: &SendOp, regions: Regions) -> Result<(), PostError> {
        if let Some(to) = self.near.lane_to(op.peer) {
            let (_, lane, near, books, _) = self.lane().ok_or(PostError::PeerGone)?;
            let posted = near.send(lane, books, to, op, &regions);
            self.tell_sleepers();
            return posted;
        }
        let report = op.complete == CompleteWhen::Delivery;
        let token = self.books.begin_send(Whose::User(*op), Content::User(regions));
        let is_held = op.complete == CompleteWhen::Match;
        let envelope = Envelope { is_held, ..Envelope::new(op.class, op.tag, op.data) };
        let len = regions.len();
        let taken = self.transport.send(op.peer, envelope, len, token, report, &self.books);
        let is_taken = taken == Ok(Taken::Buffered);
        match taken {
            Err(why) => {
                self.books.abort_send(token);
                return Err(refused(why));
            }
            Ok(Taken::Buffered) if !report => self.books.end_send(token, Outcome::Done),
            Ok(Taken::Buffered) => {}
            Ok(Taken::Pending) if op.inject => {
                // Its buffer is the caller's again in a moment.
                self.books.keep_copy(token);
            }
            Ok(Taken::Pending) => {}
        }
        let now = self.now();
        // Who awaits its completion calls again; who does not may be away for long.
        let is_awaited = op.report && !op.inject;
        let is_plain = matches!(op.class, Class::Tagged | Class::Untagged);
        if is_awaited && is_plain && is_taken {
            self.transport.linger(op.peer, len, now);
        }
        self.flush(now);
        self.tell_sleepers();
        Ok(())
    }

    /// Posts an active message whose payload is copied as far as it cannot go at once. Its
    /// completion, with this context, comes when the peer has acknowledged all of it.
    ///
    /// # Errors
    /// [`PostError`]; nothing was taken.
    pub fn send_copy(
        &mut self,
        peer: PeerId,
        handler: u64,
        context: usize,
        payload: &[u8],
    ) -> Result<(), PostError> {
        if payload.len() > ACTIVE_LEN_MAX {
            return Err(PostError::TooLong);
        }
        let op = SendOp {
            peer,
            class: Class::Active,
            tag: handler,
            data: None,
            context,
            complete: CompleteWhen::Delivery,
            report: true,
            inject: true,
        };
        let region = Region { ptr: payload.as_ptr().cast_mut(), len: payload.len() };
        self.posts();
        // SAFETY: sends only read. The payload is borrowed for this call, and what has not gone when
        // the call returns is read from a copy, because the operation is an inject.
        let regions = unsafe { Regions::new(&[region]) }.ok_or(PostError::TooLong)?;
        self.post_regions(&op, regions)
    }

    /// Sends what takes the short way; false for anything else.
    #[inline]
    fn post_short(&mut self, op: &SendOp, bytes: &[u8]) -> Result<bool, PostError> {
        let Some(to) = self.near.lane_to(op.peer) else { return Ok(false) };
        let Some((_, lane, near, books, _)) = self.lane() else { return Ok(false) };
        let sent = near.send_short(lane, books, to, op, bytes)?;
        self.tell_sleepers();
        Ok(sent)
    }
}

/// Receives.
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
        if self.links.is_cut_off() && !self.books.holds(op) {
            return Err(PostError::PeerGone);
        }
        if let Some(min_free) = op.multi_min_free {
            let buffer = self.books.post_multi(op, regions, min_free);
            // It takes what already waits until it is full.
            while let Some(rest) = self.books.fill(&mut self.transport, op) {
                self.settle(rest);
            }
            self.books.filled(&self.transport, op, buffer);
        } else {
            let rest = self.books.post(&mut self.transport, op, regions);
            self.settle(rest);
        }
        self.tell_sleepers();
        Ok(())
    }

    /// Cancels a posted receive that has matched nothing yet: its completion
    /// says [`Outcome::Canceled`]. False when there is none (left).
    pub fn cancel(&mut self, context: usize) -> bool {
        let was_posted = self.books.cancel(context);
        if was_posted {
            self.tell_sleepers();
        }
        was_posted
    }

    /// Looks for a message without receiving it. A completion tells whether
    /// there is one, with `op.context`. With `claim` it is set aside for
    /// [`Endpoint::post_claimed`] with the same context.
    pub fn peek(&mut self, op: &RecvOp, claim: bool) {
        if !self.books.holds(op) {
            self.progress();
        }
        self.books.peek(op, claim, self.late_peeks);
        self.tell_sleepers();
    }

    /// Receives the message that a peek claimed under `op.context`.
    ///
    /// # Errors
    /// [`PostError::NotClaimed`] when there is none.
    ///
    /// # Safety
    /// As for [`Endpoint::post_recv`].
    pub unsafe fn post_claimed(
        &mut self,
        op: &RecvOp,
        regions: &[Region],
    ) -> Result<(), PostError> {
        // SAFETY: handed on from our caller.
        let regions = unsafe { Regions::new(regions) }.ok_or(PostError::TooLong)?;
        let rest = self.books.receive_claimed(&mut self.transport, op, regions);
        self.settle(rest.ok_or(PostError::NotClaimed)?);
        self.tell_sleepers();
        Ok(())
    }

    /// Drops the message that a peek claimed under `op.context`, with a completion.
    ///
    /// # Errors
    /// [`PostError::NotClaimed`] when there is none.
    pub fn discard_claimed(&mut self, op: &RecvOp) -> Result<(), PostError> {
        let rest = self.books.discard_claimed(&mut self.transport, op);
        self.settle(rest.ok_or(PostError::NotClaimed)?);
        self.tell_sleepers();
        Ok(())
    }

    /// The next message of a collective operation that has been sent or received.
    pub fn pop_step(&mut self) -> Option<Completion> {
        self.books.pop_step()
    }

    /// Withdraws a receive of [`Class::Collective`] that has matched nothing yet, without a
    /// completion. False when there is none (left).
    pub fn withdraw_step(&mut self, context: usize) -> bool {
        self.books.withdraw_step(context)
    }

    /// Drops the messages of [`Class::Collective`] that wait for a receive and that `pick` picks
    /// by sender, tag and data. Their credit comes back.
    pub fn drop_steps(&mut self, pick: impl FnMut(PeerId, u64, Option<u64>) -> bool) {
        for rest in self.books.drop_steps(&mut self.transport, pick) {
            self.settle(rest);
        }
    }

    /// The next active message that has arrived.
    pub fn pop_active(&mut self) -> Option<ActiveMessage> {
        loop {
            let (message, rest) = self.books.next_active(&mut self.transport)?;
            self.settle(rest);
            if message.is_some() {
                return message;
            }
        }
    }

    /// Does the rest about a message that has found its receive, or its end.
    fn settle(&mut self, rest: Rest) {
        match rest {
            Rest::Nothing => {}
            Rest::Consumed(from, len) => self.consume(from, len),
            Rest::Asked(grown) => {
                self.flush(self.now());
                if let Some(peer) = grown {
                    self.pull_more(peer);
                }
            }
            Rest::Near(message, wanted) => {
                let Some((_, lane, near, books, _)) = self.lane() else { return };
                match wanted {
                    Some(wanted) => near.fetch(lane, books, &message, wanted),
                    None => near.decline(lane, &message),
                }
            }
        }
    }

    /// Gives back the credit of an eager message whose memory is free again.
    fn consume(&mut self, from: PeerId, len: u64) {
        if let Some(id) = self.near.lane_from(from)
            && let Some((_, lane, near, ..)) = self.lane()
        {
            near.consume(lane, id, len);
        } else {
            self.transport.consume(from, len);
            self.pull_more(from);
        }
    }

    /// Credit of that peer has come free: announced messages go first.
    fn pull_more(&mut self, peer: PeerId) {
        if self.books.pull_more(&mut self.transport, peer) {
            self.flush(self.now());
        }
    }

    /// Pulls messages that peers have announced of late, as far as their credit reaches.
    fn pull_fresh(&mut self) {
        while let Some(peer) = self.books.next_fresh() {
            if self.near.lane_from(peer).is_none() {
                self.transport.hold_credit(peer, true);
                self.books.pull_ahead(&mut self.transport, peer, false);
            }
        }
    }
}

/// One-sided operations.
impl Endpoint {
    /// The memory that peers may reach through this endpoint.
    #[must_use]
    pub fn exposed(&self) -> &Exposed {
        self.books.exposed()
    }

    /// From now on peers reach `exposed`, which other endpoints may share.
    pub fn expose_all(&mut self, exposed: Exposed) {
        self.books.target_mut().expose_all(exposed);
    }

    /// Whether each operation of a peer is reported with a completion, or only
    /// writes that bring data.
    pub fn report_remote(&mut self, all: bool) {
        self.books.target_mut().report_all(all);
    }

    /// What was carried out and refused.
    #[must_use]
    pub fn remote_stats(&self) -> RemoteStats {
        self.books.remote_stats()
    }

    /// Posts a write of the regions to a peer's memory.
    ///
    /// # Errors
    /// [`PostError`]; nothing was taken.
    ///
    /// # Safety
    /// Unless `op.inject`, the regions must stay valid and unchanged until
    /// the operation completes or the endpoint is dropped.
    pub unsafe fn post_write(
        &mut self,
        op: &RemoteOp,
        regions: &[Region],
    ) -> Result<(), PostError> {
        self.posts();
        // SAFETY: handed on from our caller.
        let regions = unsafe { Regions::new(regions) }.ok_or(PostError::TooLong)?;
        if op.inject && regions.len() > self.inject_len_max() {
            return Err(PostError::TooLong);
        }
        let len = regions.len();
        self.post_remote(op, Class::Write, len, Content::User(regions), Regions::EMPTY)
    }

    /// Posts a read of a peer's memory into the regions.
    ///
    /// # Errors
    /// [`PostError`]; nothing was taken.
    ///
    /// # Safety
    /// The regions must stay valid and untouched until the operation
    /// completes or the endpoint is dropped.
    pub unsafe fn post_read(&mut self, op: &RemoteOp, regions: &[Region]) -> Result<(), PostError> {
        self.posts();
        // SAFETY: handed on from our caller.
        let regions = unsafe { Regions::new(regions) }.ok_or(PostError::TooLong)?;
        let len = regions.len();
        let wanted = Content::Owned((len as u64).to_le_bytes().to_vec());
        self.post_remote(op, Class::Read, len, wanted, regions)
    }

    /// Posts an atomic operation. As many elements are changed as `results`
    /// take if it fetches, else as there are operands.
    ///
    /// Operands and comparands have been read when the call returns.
    ///
    /// # Errors
    /// [`PostError`]; nothing was taken.
    ///
    /// # Safety
    /// All regions must be valid now, and `results` stay so, and untouched,
    /// until the operation completes or the endpoint is dropped.
    pub unsafe fn post_atomic(
        &mut self,
        op: &RemoteOp,
        atomic: AtomicOp,
        operands: &[Region],
        comparands: &[Region],
        results: &[Region],
    ) -> Result<(), PostError> {
        self.posts();
        // SAFETY: handed on from our caller.
        let [operands, comparands, results] =
            unsafe { [Regions::new(operands), Regions::new(comparands), Regions::new(results)] };
        let operands = operands.ok_or(PostError::TooLong)?;
        let comparands = comparands.ok_or(PostError::TooLong)?;
        let results = results.ok_or(PostError::TooLong)?;
        let AtomicOp { element, function, fetch } = atomic;
        let len = if fetch { results.len() } else { operands.len() };
        let reads_only = function == crate::Function::Read;
        let lens_agree = (reads_only || operands.len() == len)
            && comparands.len() == if function.compares() { len } else { 0 }
            && len.is_multiple_of(element.len());
        if !function.takes(element) || (function.only_fetches() && !fetch) || !lens_agree {
            return Err(PostError::Unsupported);
        }
        let sent = if reads_only { 0 } else { operands.len() };
        let payload_len = ATOMIC_PREFIX_LEN + sent + comparands.len();
        if payload_len > ATOMIC_LEN_MAX || len > ATOMIC_LEN_MAX {
            return Err(PostError::TooLong);
        }
        let mut payload = vec![0; payload_len];
        payload[0] = function.code();
        payload[1] = element.code();
        let count = (len / element.len()) as u32;
        payload[4..ATOMIC_PREFIX_LEN].copy_from_slice(&count.to_le_bytes());
        operands.read(0, &mut payload[ATOMIC_PREFIX_LEN..][..sent]);
        comparands.read(0, &mut payload[ATOMIC_PREFIX_LEN + sent..]);
        let class = if fetch { Class::Fetch } else { Class::Atomic };
        let results = if fetch { results } else { Regions::EMPTY };
        self.post_remote(op, class, len, Content::Owned(payload), results)
    }

    fn post_remote(
        &mut self,
        op: &RemoteOp,
        class: Class,
        len: usize,
        content: Content,
        results: Regions,
    ) -> Result<(), PostError> {
        if self.peer(op.peer).is_none_or(|peer| peer.is_gone) {
            return Err(PostError::PeerGone);
        }
        let books = &mut self.books;
        let starts = books
            .post_operation(&mut self.transport, op, class, len, content, results)
            .map_err(refused)?;
        if starts {
            self.flush(self.now());
        }
        // Whoever sleeps here knows nothing of its timers.
        self.tell_sleepers();
        Ok(())
    }

    /// Sends the answers that are owed to peers, gives their credit back, and
    /// starts operations of our own that were held back.
    fn serve(&mut self) {
        self.books.answer(&mut self.transport);
        while let Some((peer, len)) = self.books.next_refund() {
            self.transport.consume(peer, len);
            self.pull_more(peer);
        }
        self.books.start_held(&mut self.transport);
    }
}

/// Progress.
impl Endpoint {
    /// The next finished operation of that side.
    pub fn pop_completion(&mut self, side: Side) -> Option<Completion> {
        let completion = self.books.pop_completion(side)?;
        // Also what was here before it was asked for ends a run of empty polls.
        self.found();
        Some(completion)
    }

    /// The completion that the next pop gives, where it lies.
    #[must_use]
    pub fn completion(&self, side: Side) -> Option<&Completion> {
        self.books.completion(side)
    }

    /// Pops it, for who has no use for it any more.
    pub fn drop_completion(&mut self, side: Side) {
        self.books.drop_completion(side);
        self.found();
    }

    /// Whether an operation of that side has finished and waits to be popped.
    #[must_use]
    pub fn has_completed(&self, side: Side) -> bool {
        self.books.has_completed(side)
    }

    /// Stands for a poll that would find nothing: something was found just now, and all of it was
    /// taken.
    pub fn skip_poll(&mut self) {
        self.looks.skip();
    }

    /// Receives, delivers, acknowledges, sends. True when anything happened.
    pub fn progress(&mut self) -> bool {
        let near = self.progress_near();
        if self.links_may_wait(near) {
            return near;
        }
        let busy = self.progress_links(near);
        // Who calls now and then only would be left with what one look and a few trains are.
        for _ in 1..ROUNDS_PER_PROGRESS {
            let is_done = !self.transport.is_ready() || !self.stalled.is_empty();
            if is_done || self.books.has_completion() || self.progress_near() {
                break;
            }
            self.progress_links(false);
        }
        busy
    }

    fn progress_links(&mut self, near: bool) -> bool {
        self.transport.end_lingering();
        let (clock, pulling) = (self.clock, self.transport.is_pulling());
        let (mut arrived_at, mut failed, mut quiet) = (None, None, true);
        for (path, link) in self.links.whole() {
            if pulling {
                link.expect_bulk();
            }
            let (transport, books) = (&mut self.transport, &mut self.books);
            let received = link.recv_trains(&mut |train| {
                let now = *arrived_at.get_or_insert_with(|| tick(clock));
                let datagrams = (train.bytes, train.segment_len);
                transport.handle_train(now, (train.from, path), datagrams, train.waited, books);
            });
            if link.was_overrun() {
                transport.overrun(path);
            }
            quiet &= !transport.owes_overrun() || link.is_quiet();
            if let Err(why) = received {
                failed = Some((path, why));
            }
            while let Some(found) = link.take_unreachable() {
                let now = *arrived_at.get_or_insert_with(|| tick(clock));
                self.near.lose(&found, books, transport);
                match Epoch(found.epoch) {
                    Epoch::UNKNOWN => {
                        let quoted = found.quoted.as_deref();
                        transport.handle_unreachable(now, found.at, quoted, books);
                    }
                    epoch => transport.handle_death(now, epoch, books),
                }
            }
        }
        if let Some((path, why)) = failed {
            self.break_link(path, why);
        }
        if self.transport.owes_overrun() && quiet {
            let now = arrived_at.unwrap_or_else(|| tick(clock));
            if self.transport.tell_of_overrun(now) {
                arrived_at = Some(now);
            }
        }
        self.links.introduce_strangers(&self.transport);
        self.pull_fresh();
        self.serve();
        if near {
            self.tell_sleepers();
        }
        // Reading the clock costs as much as looking into a ring: an empty poll
        // does so now and then only.
        self.looks.looked(arrived_at.is_some());
        if arrived_at.is_none() && !self.looks.is_clock_due() {
            return (self.has_to_send() && self.flush(self.now())) || near;
        }
        let now = arrived_at.unwrap_or_else(|| tick(clock));
        if self.transport.poll_timeout().is_some_and(|at| at <= now) {
            self.transport.handle_timeout(now, &mut self.books);
        }
        // One comparison: all that progress pays when nothing is.
        if now >= self.watch.next_at {
            self.show(now);
        }
        let busy = self.flush(now) || arrived_at.is_some();
        if busy {
            self.found();
            self.tell_sleepers();
        }
        busy || near
    }

    fn lane(
        &mut self,
    ) -> Option<(usize, &mut dyn Near, &mut NearSide, &mut Books, &mut Transport)> {
        let (path, lane) = self.links.lane()?;
        Some((path, lane, &mut self.near, &mut self.books, &mut self.transport))
    }

    /// Messages to a peer that was just inserted take the lane, if there is one.
    fn join_near(&mut self, peer: PeerId, address: Address) {
        let Some((_, lane, near, _, transport)) = self.lane() else { return };
        if near.lane_to(peer).is_none()
            && transport.is_fresh(peer)
            && let Some(id) = lane.join(address.at, address.epoch.0)
        {
            near.join(id, peer, address.at, true);
        }
    }

    fn progress_near(&mut self) -> bool {
        let polls = self.looks.near_polls();
        let Some((path, lane, near, books, transport)) = self.lane() else { return false };
        (0..polls).any(|_| near.progress(lane, books, transport, path))
    }

    /// Whether this poll may leave the other links out.
    fn links_may_wait(&mut self, found: bool) -> bool {
        if found {
            self.found();
            self.tell_sleepers();
        }
        let waiting = &self.waiting;
        self.looks.near_polled(found, || waiting.is_alone()) && !self.has_to_send()
    }

    /// Whether something waits to be sent.
    fn has_to_send(&self) -> bool {
        self.transport.is_ready() || !self.stalled.is_empty()
    }

    /// Sends what is ready, up to a limit. True when anything was sent.
    fn flush(&mut self, now: Tick) -> bool {
        let mut sent = self.offer_stalled(now);
        for _ in 0..TRAINS_PER_PROGRESS {
            if self.stalled.is_full() {
                break;
            }
            let next = self.transport.poll_transmit(now, &self.books, &mut self.trains);
            let Some(transmit) = next else { break };
            let (transport, link) = (&self.transport, self.links.of_path(transmit.path));
            match self.trains.send(link, &transmit, |mark| transport.has_arrived(mark)) {
                Ok(Sent::All | Sent::Lent) => sent = true,
                Ok(Sent::Full) => {
                    let bytes = &self.trains[..transmit.len];
                    self.stalled.add(&mut self.transport, transmit, bytes, now);
                }
                Err(why) => {
                    self.break_link(transmit.path, why);
                }
            }
            if transmit.len > transmit.segment_len {
                let most = self.links.of_path(transmit.path).limits().latency_train_max;
                self.transport.set_latency_train_max(transmit.path, most);
            }
        }
        sent
    }

    /// Offers the trains again that had no room. True when any was sent.
    fn offer_stalled(&mut self, now: Tick) -> bool {
        let mut sent = false;
        for _ in 0..self.stalled.len() {
            match self.stalled.offer(now, &mut self.links, &mut self.transport) {
                Ok(was_sent) => sent |= was_sent,
                Err((path, why)) => self.break_link(path, why),
            }
        }
        sent
    }

    /// A link has failed: so has what was to go over it. With the last one, everything has.
    fn break_link(&mut self, path: usize, why: io::Error) {
        if !self.links.fail(path, why) {
            return;
        }
        self.stalled.leave(path);
        self.sleepers.leave_bed();
        self.transport.give_up_path(path, &mut self.books);
        if self.links.is_cut_off() {
            self.books.end_all_unmatched();
        }
    }

    fn now(&self) -> Tick {
        tick(self.clock)
    }
}

/// Waiting: poll again, give way, or sleep; and closing.
impl Endpoint {
    /// How its threads wait from now on; `oversubscribed` where ranks share cores.
    pub fn set_wait(&mut self, policy: WaitPolicy, oversubscribed: bool) {
        self.waiting = Waiting::new(policy, oversubscribed);
    }

    /// To be called when a caller that polls found nothing: polls, yields, or
    /// blocks for 1 to 10 ms at most, as the waiting policy finds best.
    pub fn idle(&mut self) {
        if let Some(pause) = self.begin_wait() {
            pause.pass();
            self.end_idle(&pause);
        }
    }

    /// Begins what [`Endpoint::idle`] does, for callers that share the endpoint: they release it between this and
    /// [`Endpoint::end_idle`]. None: poll again at once.
    pub fn begin_wait(&mut self) -> Option<Pause> {
        self.begin_pause(true)
    }

    /// Begins a pause of an MPI, which may not be waiting: it polls in many of its calls, also where all that they do
    /// is this process's own affair. None: poll again at once.
    pub fn begin_idle(&mut self) -> Option<Pause> {
        self.begin_pause(false)
    }

    /// Begins to block, for `limit` at most, without a poll before: for callers that leave the core to others.
    pub fn begin_sleep(&mut self, limit: Duration) -> Pause {
        let began = Instant::now();
        Pause { step: Step::Block, began, nap: self.lie_down(limit) }
    }

    /// `waits` where the caller is known to wait for something.
    fn begin_pause(&mut self, waits: bool) -> Option<Pause> {
        if self.waiting.is_alone() && !self.looks.is_clock_due() {
            self.waiting.polled();
            return None;
        }
        let began = Instant::now();
        let Self { waiting, books, transport, near, .. } = self;
        let is_owed = || waits || is_owed_something(books, transport, near);
        let step = waiting.empty(began, FOUND.get(), is_owed);
        let nap = match step {
            Step::Poll => return None,
            Step::Yield => None,
            Step::Block if self.is_due_soon(began) => return None,
            Step::Block => self.lie_down(self.waiting.block_limit()),
        };
        Some(Pause { step, began, nap })
    }

    /// Whether a timer would be over before a sleep that it ends. Where a competing task wants the core
    /// it gets it all the same.
    fn is_due_soon(&self, now: Instant) -> bool {
        let soon = tick_at(self.clock, now) + GETTING_UP;
        !self.waiting.is_contended() && self.transport.poll_timeout().is_some_and(|at| at < soon)
    }

    /// Ends a pause.
    pub fn end_idle(&mut self, pause: &Pause) {
        if pause.nap.is_some() {
            self.get_up();
        }
        self.waiting.resumed(pause.step, pause.began, Instant::now());
        self.looks.read_clock_next();
    }

    /// Something was found.
    #[inline]
    fn found(&mut self) {
        FOUND.set(FOUND.get().wrapping_add(1));
        self.waiting.found();
    }

    /// The caller posts an operation.
    #[inline]
    fn posts(&mut self) {
        if self.waiting.posted() {
            self.posts_after_block();
        }
    }

    #[cold]
    fn posts_after_block(&mut self) {
        // Who is owed nothing was waiting for what others bring: a launcher's barrier, which MPI polls for.
        if is_owed_something(&self.books, &self.transport, &self.near) {
            self.waiting.tests(Instant::now(), FOUND.get());
        }
    }

    /// Waits until something has happened or `timeout` has passed.
    pub fn wait(&mut self, timeout: Duration) {
        let began = Instant::now();
        while !self.progress() && !self.books.has_completion() {
            let Some(left) = timeout.checked_sub(began.elapsed()) else { return };
            self.block(left);
        }
    }

    /// Sleeps until something arrives, a timer is due or `limit` has passed.
    fn block(&mut self, limit: Duration) {
        if let Some(nap) = self.lie_down(limit) {
            Nap::sleep([&nap]);
            self.get_up();
        }
    }

    /// Gets ready for a sleep of at most `limit`, after which [`Endpoint::get_up`] must follow. None
    /// when something has arrived in the meantime.
    pub fn lie_down(&mut self, limit: Duration) -> Option<Nap> {
        let now = self.now();
        self.transport.end_lingering();
        self.flush(now);
        let mut limit = limit.min(SLEEP_MAX);
        if let Some(at) = self.transport.poll_timeout() {
            let left = at.since(now);
            limit = limit.min(left.checked_sub(GETTING_UP).unwrap_or(left));
        }
        if self.waits_for_room() {
            limit = limit.min(STALL_RETRY);
        }
        let nap = self.sleepers.lie_down(&mut self.links, now, limit);
        if nap.is_none() {
            self.looks.read_clock_next();
        }
        nap
    }

    /// A sleep is over.
    pub fn get_up(&mut self) {
        self.sleepers.get_up(&mut self.links);
        self.looks.read_clock_next();
    }

    /// How long until something is to be done here that neither a peer nor the user will ask for:
    /// what was sent goes out, is acknowledged or sent again, what came is acknowledged. None when
    /// all is done, or a thread sleeps here, which will see to it.
    #[must_use]
    pub fn unfinished(&self) -> Option<Duration> {
        if self.sleepers.count() > 0 {
            return None;
        }
        if self.has_to_send() || !self.near.is_drained() {
            return Some(Duration::ZERO);
        }
        Some(self.transport.poll_timeout()?.since(self.now()))
    }

    /// Nobody has polled for a while: the next poll looks everywhere, at the clock, too.
    pub fn look_everywhere(&mut self) {
        self.looks.look_everywhere();
    }

    /// How many threads are asleep, or about to be.
    #[must_use]
    pub fn sleepers(&self) -> u32 {
        self.sleepers.count()
    }

    /// Wakes all sleepers.
    pub fn alarm(&mut self) {
        self.sleepers.alarm();
    }

    /// Whether something is due once a peer has taken something, of which nothing tells.
    fn waits_for_room(&self) -> bool {
        !self.stalled.is_empty() || self.near.is_owing()
    }

    /// Wakes the sleepers if there is now something that they do not know of: a completion, a train
    /// that nobody may be about to send, or a timer that is due before they get up.
    fn tell_sleepers(&mut self) {
        if self.sleepers.count() == 0 {
            return;
        }
        if self.books.has_completion()
            || self.transport.is_ready()
            || self.waits_for_room() && self.sleepers.sleep_past(self.now() + STALL_RETRY)
            || self.transport.poll_timeout().is_some_and(|at| self.sleepers.sleep_past(at))
        {
            self.alarm();
        }
    }

    /// Waits until what was sent is acknowledged, for 5 s at most, then says good-bye. False when something
    /// was not, and is lost: its receiver was not there all the time.
    pub fn close(&mut self) -> bool {
        self.close_within(DRAIN_LIMIT)
    }

    /// Waits until what was sent is acknowledged, for `limit` at most, then says good-bye. False when something was
    /// not, and is lost.
    pub fn close_within(&mut self, limit: Duration) -> bool {
        if std::mem::replace(&mut self.closed, true) {
            return true;
        }
        self.drain(limit);
        let is_drained = self.is_drained();
        if let Some((_, lane, near, ..)) = self.lane() {
            near.close(lane);
        }
        let near = &self.near;
        self.transport.close(|peer| near.says_goodbye(peer));
        self.drain(CLOSE_LIMIT);
        is_drained
    }

    fn drain(&mut self, limit: Duration) {
        let began = Instant::now();
        while !self.is_drained() && began.elapsed() < limit && !self.links.is_cut_off() {
            if !self.progress() {
                self.block(Duration::from_millis(1));
            }
        }
        self.flush(self.now());
    }

    /// Whether nothing waits for a peer.
    fn is_drained(&mut self) -> bool {
        self.transport.is_drained() && self.near.is_drained() && self.books.is_one_sided_idle()
    }
}

/// Whether a peer is to do something next: send what a receive waits for, or take what was sent.
fn is_owed_something(books: &Books, transport: &Transport, near: &NearSide) -> bool {
    books.awaits_message() || !transport.is_drained() || !near.is_drained()
}

fn refused(why: SendError) -> PostError {
    match why {
        SendError::Again => PostError::Again,
        SendError::PeerGone => PostError::PeerGone,
    }
}

/// The transport's time: since the endpoint was opened.
fn tick(clock: Instant) -> Tick {
    tick_at(clock, Instant::now())
}

/// That time on a clock.
fn tick_at(clock: Instant, at: Instant) -> Tick {
    Tick::from_nanos(at.saturating_duration_since(clock).as_nanos() as u64 + 1)
}
