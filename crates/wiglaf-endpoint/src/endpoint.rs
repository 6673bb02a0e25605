//! The endpoint itself: posts, progress, waiting, closing.

mod near;

mod claims;
mod collective;
mod copied;
mod machines;
pub(crate) mod news;
mod one_sided;
mod receiving;
pub(crate) mod seen;
pub(crate) mod sleep;
mod stalled;

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use wiglaf_link::{Link, Sent, Unreachable};
use wiglaf_transport::{
    Config as TransportConfig, Gone, Instant as Tick, Path, PeerId, PeerView, Posted as Taken,
    SendError, Stats, Transport,
};
use wiglaf_wire::{Class, Envelope, Epoch};

use self::seen::Watch;
use self::sleep::Sleepers;
use self::stalled::Stalled;
use crate::books::{Books, Sending, Whose};
use crate::content::Content;
use crate::memory::{Region, Regions};
use crate::near::{NearSide, NearStats};
use crate::setup::{Setup, path_of};
use crate::trains::Trains;
use crate::waiting::Waiting;
use crate::{ACTIVE_LEN_MAX, Address, CompleteWhen, Completion, Outcome, PostError, SendOp, Side};

/// Trains that go before arrivals are looked for again.
const TRAINS_PER_PROGRESS: usize = 8;
/// So often does one call of progress look for arrivals at most, while there is more to send.
const ROUNDS_PER_PROGRESS: usize = 8;
/// Peers with a train that waits for room, before sending stops altogether: bounds the copies.
const STALLED_MAX: usize = 64;
/// Empty polls between two looks at the clock.
pub(crate) const POLLS_PER_CLOCK: u32 = 8;

/// One endpoint of a process.
pub struct Endpoint {
    address: Address,
    inject_len_max: usize,
    pub(crate) links: Vec<Box<dyn Link>>,
    pub(crate) transport: Transport,
    pub(crate) books: Books,
    pub(crate) waiting: Waiting,
    clock: Instant,
    trains: Trains,
    /// Trains that their links had no room for, one for a peer at most.
    stalled: VecDeque<Stalled>,
    /// Empty polls in a row.
    pub(crate) quiet_polls: u32,
    /// Links that have failed and are not used any further, by bits.
    broken: u32,
    /// Their failures, until somebody asks.
    failures: VecDeque<(&'static str, io::Error)>,
    pub(crate) closed: bool,
    /// How many peers the links have been told of.
    introduced: u32,
    pub(crate) sleepers: Sleepers,
    pub(crate) near: NearSide,
    /// The link whose near lane peers of this node are reached by.
    near_link: Option<usize>,
    /// Polls for which the other links may wait, how soon the next look at
    /// them is due, and how many there were.
    pub(crate) near_polls_left: u32,
    look_due: u32,
    near_looks: u32,
    pub(crate) watch: Watch,
    late_peeks: bool,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({} epoch {})", self.address.at, self.address.epoch)
    }
}

impl Endpoint {
    /// Joins links to a transport.
    ///
    /// # Panics
    /// When there is no link.
    #[must_use]
    pub fn new(mut setup: Setup) -> Self {
        let near_link = setup.links.iter_mut().position(|link| link.near().is_some());
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
        Self {
            address,
            inject_len_max: shortest.unwrap_or(0).saturating_sub(128),
            links: setup.links,
            transport,
            books: Books::default(),
            waiting: Waiting::default(),
            clock: Instant::now(),
            trains,
            stalled: VecDeque::new(),
            quiet_polls: 0,
            broken: 0,
            failures: VecDeque::new(),
            closed: false,
            introduced: 0,
            sleepers: Sleepers::default(),
            near: NearSide::new(setup.flow_control),
            near_link,
            near_polls_left: 0,
            look_due: 0,
            near_looks: 0,
            watch: Watch::default(),
            late_peeks: false,
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
        self.introduce_strangers();
        for link in &mut self.links {
            link.add_peer(address.at, address.epoch.0);
        }
        let mut links = self.links.iter().enumerate().rev();
        let path =
            links.find(|(path, link)| self.broken & 1 << path == 0 && link.reaches(address.at));
        let path = path.map(|(path, _)| path);
        let peer = self.transport.connect(address.at, address.epoch, path.unwrap_or(0));
        // The links know it, and another may be where it was by the next look at strangers.
        self.introduced = self.introduced.max(peer.0 + 1);
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
            return self.post_near(to, op, &regions);
        }
        let report = op.complete == CompleteWhen::Delivery;
        let (whose, content) = (Whose::User(*op), Content::User(regions));
        let token = self.books.begin_send(Sending { whose, content });
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
                if let Some(sending) = self.books.sending_mut(token) {
                    sending.content = Content::Owned(regions.copied());
                }
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

    /// Stands for a poll that would find nothing: something was found just now, and all of it was
    /// taken.
    pub fn skip_poll(&mut self) {
        self.quiet_polls = self.quiet_polls.wrapping_add(1);
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
            let is_done = !self.transport.is_ready() || self.is_stalled();
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
        for (path, link) in self.links.iter_mut().enumerate() {
            if self.broken & 1 << path != 0 {
                continue;
            }
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
        self.introduce_strangers();
        self.pull_fresh();
        self.serve();
        if near {
            self.tell_sleepers();
        }
        // Reading the clock costs as much as looking into a ring: an empty poll
        // does so now and then only.
        self.quiet_polls = if arrived_at.is_some() { 0 } else { self.quiet_polls.wrapping_add(1) };
        if arrived_at.is_some() {
            self.near_polls_left = 0;
        } else if !self.quiet_polls.is_multiple_of(POLLS_PER_CLOCK) {
            let ready = self.transport.is_ready() || self.is_stalled();
            return (ready && self.flush(self.now())) || near;
        }
        let now = arrived_at.unwrap_or_else(|| tick(clock));
        if self.transport.poll_timeout().is_some_and(|at| at <= now) {
            self.transport.handle_timeout(now, &mut self.books);
        }
        if self.watch.is_due(now) {
            self.show(now);
        }
        let busy = self.flush(now) || arrived_at.is_some();
        if busy {
            self.found();
            self.tell_sleepers();
        }
        busy || near
    }

    /// Tells the links of peers that have called before anybody inserted them: shared memory
    /// answers only to whom it knows.
    fn introduce_strangers(&mut self) {
        while let Some(view) = self.transport.peer(PeerId(self.introduced)) {
            for link in &mut self.links {
                link.add_peer(view.at, view.epoch.0);
            }
            self.introduced += 1;
        }
    }

    /// Sends what is ready, up to a limit. True when anything was sent.
    pub(crate) fn flush(&mut self, now: Tick) -> bool {
        let mut sent = self.offer_stalled(now);
        for _ in 0..TRAINS_PER_PROGRESS {
            if self.stalled.len() == STALLED_MAX {
                break;
            }
            let next = self.transport.poll_transmit(now, &self.books, &mut self.trains);
            let Some(transmit) = next else { break };
            let (transport, link) = (&self.transport, self.links[transmit.path].as_mut());
            match self.trains.send(link, &transmit, |mark| transport.has_arrived(mark)) {
                Ok(Sent::All | Sent::Lent) => sent = true,
                Ok(Sent::Full) => {
                    // One peer's full ring is not to hold up the others.
                    self.transport.hold(transmit.peer);
                    let bytes = self.trains[..transmit.len].to_vec();
                    self.stalled.push_back(Stalled { transmit, bytes, since: now });
                }
                Err(why) => {
                    self.break_link(transmit.path, why);
                }
            }
            if transmit.len > transmit.segment_len {
                let most = self.links[transmit.path].limits().latency_train_max;
                self.transport.set_latency_train_max(transmit.path, most);
            }
        }
        sent
    }

    /// A link has failed: so has what was to go over it. With the last one, everything has.
    fn break_link(&mut self, path: usize, why: io::Error) {
        if self.broken & 1 << path != 0 {
            return;
        }
        self.broken |= 1 << path;
        self.failures.push_back((self.links[path].name(), why));
        self.stalled.retain(|stalled| stalled.transmit.path != path);
        self.leave_bed();
        self.transport.give_up_path(path, &mut self.books);
        if self.is_cut_off() {
            self.books.end_all_unmatched();
        }
    }

    /// The links that have not failed.
    pub(crate) fn whole_links(&mut self) -> impl Iterator<Item = &mut Box<dyn Link>> {
        let broken = self.broken;
        let links = self.links.iter_mut().enumerate();
        links.filter(move |(path, _)| broken & 1 << path == 0).map(|(_, link)| link)
    }

    /// Whether no link is left.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.broken.count_ones() as usize == self.links.len()
    }

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

    /// The next peer that was found to be gone, and why.
    pub fn pop_gone(&mut self) -> Option<(PeerId, wiglaf_transport::Gone)> {
        self.books.gone.pop_front()
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
        self.failures.pop_front()
    }

    /// Messages that wait for a receive.
    #[must_use]
    pub fn unexpected_len(&self) -> usize {
        self.books.matching.unexpected_len()
    }

    /// What they hold here, in bytes, without what the allocator adds.
    #[must_use]
    pub fn unexpected_memory(&self) -> usize {
        self.books.matching.unexpected_memory()
    }

    pub(crate) fn now(&self) -> Tick {
        tick(self.clock)
    }

    /// That time on the transport's clock.
    pub(crate) fn tick_of(&self, at: Instant) -> Tick {
        tick_at(self.clock, at)
    }
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
