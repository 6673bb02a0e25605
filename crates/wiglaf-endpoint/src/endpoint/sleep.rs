//! How an endpoint's threads wait: poll again, give way, or sleep.
//!
//! An endpoint is used by one thread at a time, whichever has it. A thread that is about to sleep
//! must not keep the others from it. So sleeping takes three steps: the thread lies down, which asks
//! the links to signal; it lets go of the endpoint and sleeps on descriptors that outlive it; and it
//! takes the endpoint again to get up. What another thread does meanwhile that a sleeper may be
//! waiting for rings the alarm, a descriptor on which all of them sleep.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use wiglaf_transport::{Instant as Tick, Transport};

use crate::books::Books;
use crate::endpoint::{Endpoint, POLLS_PER_CLOCK};
use crate::near::NearSide;
use crate::waiting::{Step, WaitPolicy, Waiting};

/// Longest sleep at all: links find the death of a peer only when they are asked.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// How much later than asked for a sleep ends: the slack of timers (50 us, prctl(2)) and getting up.
const GETTING_UP: Duration = Duration::from_micros(60);
/// How soon a train is offered again that its link had no room for. Who takes something off the near
/// lane does not ring either.
const STALL_RETRY: Duration = Duration::from_micros(50);
/// How long closing waits for what was sent to be acknowledged.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// How long closing waits for its good-bye to be acknowledged.
const CLOSE_LIMIT: Duration = Duration::from_millis(200);

thread_local! {
    /// How often this thread has found something at any of its endpoints.
    static FOUND: Cell<u32> = const { Cell::new(0) };
}

/// What the threads of one endpoint sleep on: descriptors of its links, kept open by duplicates, and
/// the alarm.
#[derive(Debug)]
struct Bed {
    links: Vec<OwnedFd>,
    alarm: OwnedFd,
}

/// Who sleeps.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    count: u32,
    /// The latest that one of them gets up by itself.
    until: Tick,
    alarmed: bool,
    bed: Option<Arc<Bed>>,
}

/// A sleep that a thread is about to begin, without holding the endpoint.
#[derive(Debug)]
#[must_use = "who lay down must get up"]
pub struct Nap {
    /// None when there are no descriptors left to make one of.
    bed: Option<Arc<Bed>>,
    limit: Duration,
}

impl Nap {
    /// The longest that it may last.
    #[must_use]
    pub fn limit(&self) -> Duration {
        if self.bed.is_some() { self.limit } else { Duration::ZERO }
    }

    /// What to sleep on, for callers with a sleep of their own.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.bed.iter().flat_map(|bed| bed.links.iter().chain([&bed.alarm])).map(AsFd::as_fd)
    }

    /// Sleeps until something may have happened at one of the endpoints, and no longer than all of
    /// them allow.
    pub fn sleep(naps: &[Self]) {
        let Some(limit) = naps.iter().map(|nap| nap.limit).min() else { return };
        let beds: Option<Vec<&Bed>> = naps.iter().map(|nap| nap.bed.as_deref()).collect();
        let Some(beds) = beds else { return std::thread::yield_now() };
        let fds = beds.iter().flat_map(|bed| bed.links.iter().chain([&bed.alarm]));
        let mut polled: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let limit = Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos().into() };
        // A failed or interrupted poll only means to look again.
        let _ = poll(&mut polled, Some(&limit));
    }
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
    /// Yields or sleeps.
    pub fn pass(&self) {
        match &self.nap {
            Some(nap) => Nap::sleep(std::slice::from_ref(nap)),
            None if self.step == Step::Yield => std::thread::yield_now(),
            None => {}
        }
    }
}

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
        if self.waiting.is_alone() && !self.quiet_polls.is_multiple_of(POLLS_PER_CLOCK) {
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
        let soon = self.tick_of(now) + GETTING_UP;
        !self.waiting.is_contended() && self.transport.poll_timeout().is_some_and(|at| at < soon)
    }

    /// Ends a pause.
    pub fn end_idle(&mut self, pause: &Pause) {
        if pause.nap.is_some() {
            self.get_up();
        }
        self.waiting.resumed(pause.step, pause.began, Instant::now());
        self.quiet_polls = POLLS_PER_CLOCK - 1; // time has passed: the next poll looks
    }

    /// Something was found.
    #[inline]
    pub(crate) fn found(&mut self) {
        FOUND.set(FOUND.get().wrapping_add(1));
        self.waiting.found();
    }

    /// The caller posts an operation.
    #[inline]
    pub(crate) fn posts(&mut self) {
        if self.waiting.posted() {
            self.posts_after_block();
        }
    }

    #[cold]
    fn posts_after_block(&mut self) {
        // Who is owed nothing was waiting for what others bring: a launcher's barrier, which MPI polls for.
        if self.awaits_message() {
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
            Nap::sleep(&[nap]);
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
        if self.sleepers.alarmed {
            // Others have not got up yet, and may not for long: their alarm would wake this one, too,
            // again and again.
            self.leave_bed();
        }
        let mut arrived = false;
        for link in self.whole_links() {
            arrived |= link.arm(true);
        }
        self.sleepers.count += 1;
        if arrived {
            self.get_up();
            return None;
        }
        self.sleepers.until = self.sleepers.until.max(now + limit);
        if self.sleepers.bed.is_none() {
            self.sleepers.bed = self.make_bed().ok().map(Arc::new);
        }
        Some(Nap { bed: self.sleepers.bed.clone(), limit })
    }

    /// A sleep is over.
    pub fn get_up(&mut self) {
        self.sleepers.count -= 1;
        self.quiet_polls = POLLS_PER_CLOCK - 1; // time has passed: the next poll looks
        if self.sleepers.count > 0 {
            return; // the others still want signals, and an alarm is for all of them
        }
        for link in self.whole_links() {
            link.arm(false);
        }
        self.sleepers.until = Tick::ZERO;
        if std::mem::take(&mut self.sleepers.alarmed)
            && let Some(bed) = &self.sleepers.bed
        {
            let _ = rustix::io::read(&bed.alarm, &mut [0; 8]);
        }
    }

    fn make_bed(&mut self) -> io::Result<Bed> {
        let links = self.whole_links().flat_map(|link| link.wait_fds());
        let links = links.map(|fd| {
            // SAFETY: the links own these descriptors, and live through this call.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            fd.try_clone_to_owned()
        });
        let alarm = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bed { links: links.collect::<io::Result<_>>()?, alarm })
    }

    /// What wakes sleepers would wake those who come, too, for ever: a link that has failed, or an alarm
    /// that is the others'. They lie down without it.
    pub(crate) fn leave_bed(&mut self) {
        self.alarm();
        self.sleepers.bed = None;
        // That was for those in the old bed.
        self.sleepers.alarmed = false;
    }

    /// How long until something is to be done here that neither a peer nor the user will ask for:
    /// what was sent goes out, is acknowledged or sent again, what came is acknowledged. None when
    /// all is done, or a thread sleeps here, which will see to it.
    #[must_use]
    pub fn unfinished(&self) -> Option<Duration> {
        if self.sleepers.count > 0 {
            return None;
        }
        if self.transport.is_ready() || self.is_stalled() || !self.near.is_drained() {
            return Some(Duration::ZERO);
        }
        Some(self.transport.poll_timeout()?.since(self.now()))
    }

    /// Nobody has polled for a while: the next poll looks everywhere, at the clock, too.
    pub fn look_everywhere(&mut self) {
        self.quiet_polls = POLLS_PER_CLOCK - 1;
        self.near_polls_left = 0;
    }

    /// How many threads are asleep, or about to be.
    #[must_use]
    pub fn sleepers(&self) -> u32 {
        self.sleepers.count
    }

    /// Wakes all sleepers.
    pub fn alarm(&mut self) {
        if self.sleepers.count > 0
            && let Some(bed) = &self.sleepers.bed
            && !std::mem::replace(&mut self.sleepers.alarmed, true)
        {
            let _ = rustix::io::write(&bed.alarm, &1u64.to_ne_bytes());
        }
    }

    /// Whether something is due once a peer has taken something, of which nothing tells.
    fn waits_for_room(&self) -> bool {
        self.is_stalled() || self.near.is_owing()
    }

    /// Wakes the sleepers if there is now something that they do not know of: a completion, a train
    /// that nobody may be about to send, or a timer that is due before they get up.
    pub(crate) fn tell_sleepers(&mut self) {
        if self.sleepers.count == 0 {
            return;
        }
        let is_early = |at: Tick| at < self.sleepers.until;
        if self.books.has_completion()
            || self.transport.is_ready()
            || self.waits_for_room() && is_early(self.now() + STALL_RETRY)
            || self.transport.poll_timeout().is_some_and(is_early)
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
        self.close_near();
        let near = &self.near;
        self.transport.close(|peer| near.says_goodbye(peer));
        self.drain(CLOSE_LIMIT);
        is_drained
    }

    fn drain(&mut self, limit: Duration) {
        let began = Instant::now();
        while !self.is_drained() && began.elapsed() < limit && !self.is_cut_off() {
            if !self.progress() {
                self.block(Duration::from_millis(1));
            }
        }
        self.flush(self.now());
    }

    /// Whether nothing waits for a peer.
    fn is_drained(&mut self) -> bool {
        self.transport.is_drained() && self.near.is_drained() && self.is_one_sided_idle()
    }

    /// Whether a message is awaited: a receive, an answer, or what was sent to be taken.
    pub(crate) fn awaits_message(&self) -> bool {
        is_owed_something(&self.books, &self.transport, &self.near)
    }
}

/// Whether a peer is to do something next: send what a receive waits for, or take what was sent.
fn is_owed_something(books: &Books, transport: &Transport, near: &NearSide) -> bool {
    books.matching.has_single()
        || !books.is_one_sided_idle()
        || !transport.is_drained()
        || !near.is_drained()
}
