//! How to wait: poll, give way, block.
//!
//! Pure spinning starves other ranks on the same core, pure yielding loses to
//! a busy stranger, blocking costs a wake-up. So: poll; give the core away now
//! and then, more often while somebody takes it; block after a while; and when
//! a stranger has been seen to hold the core, block soon. The figures behind
//! the constants are in docs/perf-log.md.
//!
//! Nothing tells a caller that waits from one that only tests now and then, between pieces of its own work.
//! But who waits posts nothing before something has come. So who does has tested, and is left awake
//! for a while; and between two blocks there is time for some tests, so that it comes to that.
//!
//! That is the policy `adaptive`. Who knows better than it takes one of the other two, which guess nothing.

use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// After so long without anything the thread blocks. Until then it costs others little, as those who share
/// the core get it with each yield; a wake-up costs much.
const BLOCK_AFTER: Duration = Duration::from_millis(3);
/// The same for one that has been blocked since anything came, and then seemed to do other things for a moment.
const BLOCK_AGAIN_AFTER: Duration = Duration::from_micros(100);
/// The same while a stranger wants the core.
const BLOCK_AFTER_CROWDED: Duration = Duration::from_micros(20);
/// The soonest that a thread blocks to which nothing is owed. Shorter than a time slice: who does wait
/// would else never come to it beside a stranger.
const BLOCK_AFTER_OWED_NOTHING: Duration = Duration::from_millis(2);
/// A yield that takes longer has given the core to somebody who does not give it back: a stranger, or a rank that
/// is at its own work.
const LONG_YIELD: Duration = Duration::from_micros(500);
/// It is taken for a stranger when that comes again within so many waits. Not within so many yields: beside a
/// stranger most go to another rank.
const SUSPICIOUS_WAITS: u32 = 32;
/// Waits for which a stranger is remembered.
const CROWDED_WAITS: u32 = 256;
/// A yield that returns sooner has found nobody who wanted the core.
const ALONE: Duration = Duration::from_micros(2);
/// Looks at the clock between yields while nobody wants the core, or while the caller gives it away itself.
const POLLS_PER_YIELD: u32 = 8;
/// Yields between two looks at whether the caller does, while it does not: a look takes 0.6 us.
const YIELDS_PER_LOOK: u32 = 16;
/// A longer pause between polls, on average over those between two looks at the clock, means that
/// the caller does other things, which a block would hold up. Open MPI takes up to 6 us from poll to
/// poll on a machine that is shared.
const PAUSE: Duration = Duration::from_micros(10);
/// The same after a sleep: caches are cold, and what a caller puts off while it polls comes first.
const PAUSE_AFTER_BLOCK: Duration = Duration::from_micros(50);
/// Polls in a row without such a pause after which one is taken for an interruption: a timer tick of
/// a virtual machine, the processor lent to others for a moment. Who does other things between polls
/// polls a few times at once at most.
const STEADY: u32 = 16;
/// For so many polls counts one that came at once after a sleep: every second return may be late. A
/// silence that began anew would cost 5 ms of polling.
const STEADY_AFTER_BLOCK: u32 = STEADY;

/// Shortest and longest sleep, and the part of the silence so far that it may last: a caller that
/// polls has other
/// things to look after, which are held up by no more than that part of the time that has passed
/// anyway.
const BLOCK_MIN: Duration = Duration::from_millis(1);
const BLOCK_MAX: Duration = Duration::from_millis(10);
const BLOCK_DIVISOR: u32 = 8;

/// After a block that nothing ended the thread stays awake for such a part of it, and for a smaller one
/// once it has been silent for long.
const AWAKE_DIVISOR: u32 = 128;
const AWAKE_DIVISOR_LONG: u32 = 256;
const LONG: Duration = Duration::from_millis(100);
/// Who was blocked and did not wait is not blocked for so long, the first time and at most; each time
/// doubles it.
const FREE_MIN: Duration = Duration::from_secs(1);
const FREE_MAX: Duration = Duration::from_secs(64);

/// How a thread waits that reads its completions until something has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitPolicy {
    /// It polls, and offers its core to others now and then; it never sleeps. So no call that is not to block does.
    Poll,
    /// It polls, gives its core away to those who want it, and sleeps after 3 ms in which nothing has come, or
    /// sooner where somebody keeps the core.
    #[default]
    Adaptive,
    /// It polls for 20 us, then sleeps until something comes, for 1 to 10 ms at a time.
    Block,
}

impl WaitPolicy {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Poll, Self::Adaptive, Self::Block];

    /// As users and `WIGLAF_WAIT` write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Adaptive => "adaptive",
            Self::Block => "block",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// What to do now that a poll has found nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Poll again.
    Poll,
    /// Give the core away, then poll again.
    Yield,
    /// Sleep until something arrives.
    Block,
}

/// What a thread can learn of itself from the kernel.
pub(crate) trait Thread {
    /// Whether another thread has had this one's core since this was last asked, by what it has `used` if that is
    /// known. Two ranks that yield to each other take no longer than one that yields to nobody.
    fn lost_core(&self, used: Option<Used>) -> bool;
    /// What it has used so far; None where the kernel does not say.
    fn used(&self) -> Option<Used>;
}

/// What a thread has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Used {
    /// Which one.
    pub(crate) thread: ThreadId,
    /// Processor time, to the microsecond.
    pub(crate) time: Duration,
    /// How often it slept, or waited for a device.
    pub(crate) sleeps: i64,
    /// How often others took its core, or had it from a yield.
    pub(crate) switches: i64,
}

impl Used {
    /// Since `then`, for how much of the time that it was `away` others have had the core of a thread that would have
    /// run.
    fn lost_since(&self, then: &Self, away: Duration) -> Duration {
        let stayed = (self.thread, self.sleeps) == (then.thread, then.sleeps);
        if !stayed || self.switches == then.switches {
            return Duration::ZERO;
        }
        away.saturating_sub(self.time.saturating_sub(then.time))
    }
}

/// What is known of how this thread waits; time is handed in.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    policy: WaitPolicy,
    /// When the run of empty polls began, and when its last was.
    run: Option<(Instant, Instant)>,
    /// What this thread had found when it began.
    found: u32,
    /// Polls since the last that was looked at, and since the last pause.
    polls: u32,
    steady: u32,
    polls_until_yield: u32,
    /// Whether the last yield found nobody.
    alone: bool,
    /// Whether the caller gives the core away between polls: Open MPI does (`mpi_yield_when_idle`).
    caller_yields: bool,
    /// After so many yields that is looked at again, from a yield's end to the next one's begin.
    yields_until_look: u32,
    /// When our last yield or block ended. Not where the caller yields, too: to whom, MPI knows.
    used: Option<Used>,
    suspicious_waits: u32,
    crowded_waits: u32,
    /// The last step was a block.
    blocked: bool,
    /// There was a block in this run of empty polls, and no other is to begin before then.
    awake_until: Option<Instant>,
    /// No block is to begin before then: the caller tests. How long that was for.
    free_until: Option<Instant>,
    freedom: Duration,
}

impl Waiting {
    pub(crate) fn new(policy: WaitPolicy) -> Self {
        Self { policy, alone: policy == WaitPolicy::Poll, ..Self::default() }
    }

    /// Something was there: the run of empty polls is over.
    pub(crate) fn found(&mut self) {
        self.polls = 0;
        self.awake_until = None;
        if self.run.take().is_some() {
            self.crowded_waits = self.crowded_waits.saturating_sub(1);
            self.suspicious_waits = self.suspicious_waits.saturating_sub(1);
        }
    }

    /// Whether the caller has been blocked since anything was found.
    pub(crate) fn was_blocked_in_vain(&self) -> bool {
        self.awake_until.is_some()
    }

    /// At `now` a caller that has been blocked in vain, and that is owed something, posts an operation. So it
    /// was not waiting.
    pub(crate) fn acted(&mut self, now: Instant) {
        if self.policy != WaitPolicy::Adaptive {
            return;
        }
        self.freedom = (self.freedom * 2).clamp(FREE_MIN, FREE_MAX);
        self.free_until = Some(now + self.freedom);
        (self.run, self.awake_until) = (None, None);
    }

    /// Whether a block would hold up a caller that tests.
    fn stays_awake(&mut self, now: Instant) -> bool {
        if let Some(until) = self.free_until {
            if until <= now {
                // A silence in which it was free to test says nothing of how it waits.
                (self.free_until, self.run) = (None, None);
            }
            return true;
        }
        self.awake_until.is_some_and(|until| now < until)
    }

    /// Whether nobody else seems to want the core: polls need no clock then.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone && !self.is_crowded()
    }

    /// Whether a stranger has been seen to hold the core of late, or is to have it all the same.
    pub(crate) fn is_crowded(&self) -> bool {
        match self.policy {
            WaitPolicy::Poll => false,
            WaitPolicy::Adaptive => self.crowded_waits > 0,
            WaitPolicy::Block => true,
        }
    }

    /// A poll has found nothing, and nobody looked at the clock.
    pub(crate) fn polled(&mut self) {
        self.polls = self.polls.saturating_add(1);
    }

    /// A poll at `now` has found nothing, and this thread `found` something that many times so far,
    /// here or at other endpoints: who is busy at one is not put to sleep at another, where it would
    /// not hear of the first. `awaits` says whether there is anything that the caller can
    /// be waiting for: who is owed nothing does other things between polls, and is not blocked
    /// before he has done nothing else for long.
    pub(crate) fn empty(
        &mut self,
        now: Instant,
        found: u32,
        awaits: impl FnOnce() -> bool,
        thread: &impl Thread,
    ) -> Step {
        if self.policy == WaitPolicy::Poll {
            self.polls = 0;
            return self.yield_now_and_then();
        }
        if std::mem::replace(&mut self.found, found) != found {
            (self.run, self.awake_until) = (None, None);
        }
        self.ask_where_it_was(now, thread);
        let since = self.silence_since(now);
        self.run = Some((since, now));
        let crowded = self.is_crowded();
        let patience = match (crowded, self.awake_until) {
            (true, _) => BLOCK_AFTER_CROWDED,
            (false, Some(_)) => BLOCK_AGAIN_AFTER,
            (false, None) => BLOCK_AFTER,
        };
        let waited = now.saturating_duration_since(since);
        let is_long = waited >= patience && (waited >= BLOCK_AFTER_OWED_NOTHING || awaits());
        if is_long && !self.stays_awake(now) {
            return Step::Block;
        }
        if crowded && self.free_until.is_none() {
            return Step::Poll;
        }
        if (self.alone || self.caller_yields) && self.polls_until_yield > 0 {
            return self.yield_now_and_then();
        }
        if self.yields_until_look == 0 {
            self.caller_yields = thread.lost_core(None);
            self.yields_until_look = if self.caller_yields { 0 } else { YIELDS_PER_LOOK };
        } else {
            self.yields_until_look -= 1;
        }
        self.polls_until_yield = POLLS_PER_YIELD;
        Step::Yield
    }

    fn yield_now_and_then(&mut self) -> Step {
        let Some(left) = self.polls_until_yield.checked_sub(1) else {
            self.polls_until_yield = POLLS_PER_YIELD;
            return Step::Yield;
        };
        self.polls_until_yield = left;
        Step::Poll
    }

    /// After a long absence between two polls: how much of it was the caller's, and how much was taken from it.
    fn ask_where_it_was(&mut self, now: Instant, thread: &impl Thread) {
        let Some((_, last)) = &mut self.run else { return };
        let away = now.saturating_duration_since(*last);
        if away <= LONG_YIELD {
            return;
        }
        let used = self.used.and_then(|then| Some((then, thread.used()?)));
        let lost = used.map_or(Duration::ZERO, |(then, used)| used.lost_since(&then, away));
        if lost > LONG_YIELD {
            *last += lost; // no pause of the caller's
            self.lost_core_for_long();
        } else {
            self.polls_until_yield = 0; // a yield tells
        }
    }

    /// When the silence began, at a poll at `now`. What a caller was away for is no part of it, and
    /// ends it unless it was interrupted.
    fn silence_since(&mut self, now: Instant) -> Instant {
        let polls = std::mem::take(&mut self.polls).saturating_add(1);
        let (pause, steady) = match std::mem::take(&mut self.blocked) {
            true => (PAUSE_AFTER_BLOCK, STEADY_AFTER_BLOCK),
            false => (PAUSE * polls, polls),
        };
        let Some((since, last)) = self.run else {
            self.steady = 0;
            return now;
        };
        let away = now.saturating_duration_since(last);
        if away < pause {
            self.steady = self.steady.saturating_add(steady);
            return since;
        }
        if std::mem::take(&mut self.steady) >= STEADY { since + away } else { now }
    }

    /// Somebody has had the core for more than [`LONG_YIELD`], by a yield or between two polls.
    fn lost_core_for_long(&mut self) {
        if std::mem::replace(&mut self.suspicious_waits, SUSPICIOUS_WAITS) > 0 {
            self.crowded_waits = CROWDED_WAITS;
            // When that is forgotten, one more is enough.
            self.suspicious_waits += CROWDED_WAITS;
        }
    }

    fn silence(&self) -> Duration {
        self.run.map_or(Duration::ZERO, |(since, last)| last - since)
    }

    /// How long a block may last.
    pub(crate) fn block_limit(&self) -> Duration {
        (self.silence() / BLOCK_DIVISOR).clamp(BLOCK_MIN, BLOCK_MAX)
    }

    /// A yield or a block ended at `now`.
    pub(crate) fn resumed(
        &mut self,
        step: Step,
        began: Instant,
        now: Instant,
        thread: &impl Thread,
    ) {
        if self.policy == WaitPolicy::Poll {
            return;
        }
        let took = now.saturating_duration_since(began);
        self.blocked = step == Step::Block;
        if self.blocked {
            let is_long = self.silence() >= LONG;
            self.awake_until =
                Some(now + took / if is_long { AWAKE_DIVISOR_LONG } else { AWAKE_DIVISOR });
        }
        self.used = if self.caller_yields { None } else { thread.used() };
        if step == Step::Yield {
            let lost = (took < ALONE || self.yields_until_look == 0) && thread.lost_core(self.used);
            self.alone = took < ALONE && !lost;
            if took > LONG_YIELD {
                self.lost_core_for_long();
            }
        }
        // Time given away is not a pause of the caller's.
        if let Some((_, last)) = &mut self.run {
            *last = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    fn owed() -> bool {
        true
    }

    /// Whether it has lost its core, and what it has used.
    struct Told(bool, Option<Used>);

    impl Thread for Told {
        fn lost_core(&self, _: Option<Used>) -> bool {
            self.0
        }
        fn used(&self) -> Option<Used> {
            self.1
        }
    }

    const KEPT: &Told = &Told(false, None);
    const LOST: &Told = &Told(true, None);

    #[test]
    fn yields_rarely_alone_and_always_in_company() {
        let (mut w, t) = (Waiting::default(), Instant::now());
        assert_eq!(w.empty(t, 0, owed, KEPT), Step::Yield);
        w.resumed(Step::Yield, t, t + US, KEPT);
        for _ in 0..POLLS_PER_YIELD {
            assert_eq!(w.empty(t + US, 0, owed, KEPT), Step::Poll);
        }
        assert_eq!(w.empty(t + US, 0, owed, KEPT), Step::Yield);
        w.resumed(Step::Yield, t + US, t + 10 * US, KEPT);
        assert_eq!(w.empty(t + 10 * US, 0, owed, KEPT), Step::Yield);
    }

    #[test]
    fn who_is_told_to_poll_never_blocks_and_who_is_told_to_block_never_yields() {
        for policy in WaitPolicy::ALL {
            assert_eq!(WaitPolicy::named(policy.name()), Some(policy));
        }
        let (mut polls, mut blocks) =
            (Waiting::new(WaitPolicy::Poll), Waiting::new(WaitPolicy::Block));
        let mut now = Instant::now();
        let (mut yields, mut last) = (0, Step::Poll);
        for _ in 0..10_000 {
            let step = polls.empty(now, 0, owed, KEPT);
            yields += u32::from(step == Step::Yield);
            assert_ne!(step, Step::Block);
            polls.resumed(step, now, now + 800 * US, KEPT); // a stranger
            last = blocks.empty(now, 0, owed, KEPT);
            assert_ne!(last, Step::Yield);
            now += 5 * US;
            if last == Step::Block {
                blocks.resumed(last, now, now + BLOCK_MAX, KEPT);
                now += BLOCK_MAX;
                blocks.acted(now);
            }
        }
        assert_eq!(yields, 10_000_u32.div_ceil(POLLS_PER_YIELD + 1));
        assert!(!polls.is_crowded() && blocks.is_crowded());
        // Whatever it does between blocks, it does not stay awake for longer than their 128th.
        while last != Step::Block {
            now += 5 * US;
            last = blocks.empty(now, 0, owed, KEPT);
        }
        blocks.resumed(last, now, now + BLOCK_MAX, KEPT);
        let woken = now + BLOCK_MAX;
        now = woken;
        while blocks.empty(now, 0, owed, KEPT) != Step::Block {
            now += 5 * US;
        }
        assert!(now - woken <= BLOCK_AFTER_CROWDED + BLOCK_MAX / AWAKE_DIVISOR);
    }

    #[test]
    fn ranks_that_yield_to_each_other_are_company() {
        let (mut w, t) = (Waiting::default(), Instant::now());
        for _ in 0..4 {
            assert_eq!(w.empty(t, 0, owed, KEPT), Step::Yield);
            w.resumed(Step::Yield, t, t + US, LOST);
            assert!(!w.is_alone(), "as short as a yield to nobody, but the core was lost");
        }
        assert_eq!(w.empty(t, 0, owed, KEPT), Step::Yield);
        w.resumed(Step::Yield, t, t + US, KEPT);
        assert!(w.is_alone());
    }

    #[test]
    fn blocks_after_a_while_but_not_for_a_caller_that_only_looks_in() {
        let (mut w, t) = (Waiting::default(), Instant::now());
        for us in (0..3000).step_by(4) {
            assert_ne!(w.empty(t + us * US, 0, owed, KEPT), Step::Block);
        }
        assert_eq!(w.empty(t + 3000 * US, 0, owed, KEPT), Step::Block);
        w.found();
        for us in (0..10_000).step_by(20) {
            assert_ne!(w.empty(t + (6000 + us) * US, 0, owed, KEPT), Step::Block);
        }
    }

    #[test]
    fn an_interruption_is_no_sign_of_other_work() {
        let (mut w, t) = (Waiting::default(), Instant::now());
        w.empty(t, 0, owed, KEPT);
        w.resumed(Step::Yield, t, t + US, KEPT); // nobody wanted the core
        let mut polled = 0;
        // A tick of 20 us in every millisecond.
        while w.empty(t + (polled + polled / 980 * 20) * US, 0, owed, KEPT) != Step::Block {
            polled += 1;
            assert!(polled <= 3000 + 4);
        }
        assert!(polled >= 3000 - 4, "what it was away for counted: {polled}");
    }

    #[test]
    fn slow_polls_are_no_pauses() {
        let (mut w, t) = (Waiting::default(), Instant::now());
        w.empty(t, 0, owed, KEPT);
        w.resumed(Step::Yield, t, t + US, KEPT); // nobody wanted the core
        let blocked = (0..).find(|poll| {
            if poll % 8 > 0 {
                w.polled();
                return false;
            }
            w.empty(t + poll * 3 * US, 0, owed, KEPT) == Step::Block
        });
        assert_eq!(blocked, Some(1000), "3 ms, and the rest until the next look at the clock");
    }

    #[test]
    fn who_is_busy_elsewhere_is_not_blocked_here() {
        let (mut w, t) = (Waiting::default(), Instant::now());
        for us in 0..20_000 {
            assert_ne!(w.empty(t + us * US, us / 90, owed, KEPT), Step::Block);
        }
        let blocked = (20_000..).find(|&us| w.empty(t + us * US, 222, owed, KEPT) == Step::Block);
        assert_eq!(blocked, Some(222 * 90 + 3000));
    }

    #[test]
    fn blocks_again_at_once_and_longer_the_longer_nothing_comes() {
        let (mut w, mut t) = (Waiting::default(), Instant::now());
        for us in (0..3000).step_by(4) {
            w.empty(t + us * US, 0, owed, KEPT);
        }
        t += 3000 * US;
        let mut slept = Vec::new();
        for _ in 0..60 {
            slept.push(w.block_limit());
            w.resumed(Step::Block, t, t + w.block_limit(), KEPT);
            t += slept[slept.len() - 1] + 40 * US;
            let awake =
                (0..200).position(|n| w.empty(t + n * 4 * US, 0, owed, KEPT) == Step::Block);
            t += 4 * US * awake.expect("awake for too long") as u32;
        }
        assert_eq!((slept[0], slept[59]), (BLOCK_MIN, BLOCK_MAX));
        assert!(slept.is_sorted());
        t += 60 * US;
        assert_eq!(w.empty(t, 0, owed, KEPT), Step::Block, "that may have been an interruption");
        w.resumed(Step::Block, t, t + BLOCK_MIN, KEPT);
        t += BLOCK_MIN + 50 * US;
        assert_ne!(
            w.empty(t, 0, owed, KEPT),
            Step::Block,
            "who stays away again does other things"
        );
    }

    /// A yield that gives the core to somebody who keeps it for 1 ms.
    fn yield_for_long(w: &mut Waiting, t: &mut Instant) {
        assert_eq!(w.empty(*t, 0, owed, KEPT), Step::Yield);
        w.resumed(Step::Yield, *t, *t + 1000 * US, KEPT);
        *t += 1000 * US;
    }

    fn wait(w: &mut Waiting, t: &mut Instant, waits: u32) {
        for _ in 0..waits {
            *t += US;
            w.empty(*t, 0, owed, KEPT);
            w.found();
        }
    }

    #[test]
    fn a_stranger_on_the_core_makes_it_block_soon_for_a_while() {
        let (mut w, mut t) = (Waiting::default(), Instant::now());
        yield_for_long(&mut w, &mut t);
        yield_for_long(&mut w, &mut t);
        for once_more in [false, true] {
            w.found();
            for us in (0..20).step_by(4) {
                assert_eq!(w.empty(t + us * US, 0, owed, KEPT), Step::Poll);
            }
            assert_eq!(w.empty(t + 20 * US, 0, owed, KEPT), Step::Block);
            w.found();
            wait(&mut w, &mut t, CROWDED_WAITS);
            if !once_more {
                yield_for_long(&mut w, &mut t); // it is still there
            }
        }
        assert_eq!(w.empty(t, 0, owed, KEPT), Step::Yield);
    }

    #[test]
    fn a_rank_that_works_now_and_then_is_no_stranger() {
        let (mut w, mut t) = (Waiting::default(), Instant::now());
        for _ in 0..10 {
            yield_for_long(&mut w, &mut t);
            assert!(!w.is_crowded());
            wait(&mut w, &mut t, SUSPICIOUS_WAITS);
        }
    }

    fn used_here(time: Duration, sleeps: i64, switches: i64) -> Used {
        Used { thread: std::thread::current().id(), time, sleeps, switches }
    }

    /// A caller in company that has yielded, was away for 2 ms, and has used that since.
    fn away_for_2_ms(
        w: &mut Waiting,
        t: &mut Instant,
        time: Duration,
        [sleeps, switches]: [i64; 2],
    ) -> Step {
        let before = used_here(US, 7, 7);
        let after = used_here(US + time, 7 + sleeps, 7 + switches);
        w.polls_until_yield = 0;
        assert_eq!(w.empty(*t, 0, owed, KEPT), Step::Yield);
        w.resumed(Step::Yield, *t, *t + 10 * US, &Told(false, Some(before)));
        *t += 2010 * US;
        w.empty(*t, 0, owed, &Told(false, Some(after)))
    }

    #[test]
    fn who_worked_or_slept_or_stood_still_has_met_no_stranger() {
        let (mut w, mut t) = (Waiting::default(), Instant::now());
        for (time, counted) in [(1500 * US, [0, 1]), (US, [1, 1]), (US, [0, 0])].repeat(5) {
            assert_eq!(away_for_2_ms(&mut w, &mut t, time, counted), Step::Yield);
            w.resumed(Step::Yield, t, t + US, KEPT);
        }
        assert!(!w.is_crowded());
    }

    #[test]
    fn whose_core_is_taken_between_polls_has_met_one() {
        let (mut w, mut t) = (Waiting::default(), Instant::now());
        for is_crowded in [false, true] {
            // What it worked itself ends a silence, what was taken does not.
            assert_ne!(away_for_2_ms(&mut w, &mut t, 1400 * US, [0, 1]), Step::Block);
            assert_eq!(w.is_crowded(), is_crowded);
        }
        w.found();
        let blocked = (0..).find(|us| w.empty(t + us * 4 * US, 0, owed, KEPT) == Step::Block);
        assert_eq!(blocked, Some(5), "after 20 us");
    }

    #[test]
    fn another_threads_use_says_nothing() {
        let (mut w, mut t) = (Waiting::default(), Instant::now());
        let other = std::thread::spawn(|| std::thread::current().id()).join().unwrap();
        let others = Used { thread: other, ..used_here(US, 7, 7) };
        for _ in 0..10 {
            w.empty(t, 0, owed, KEPT);
            w.resumed(Step::Yield, t, t + 10 * US, &Told(false, Some(others)));
            t += 2010 * US;
            w.empty(t, 0, owed, &Told(false, Some(used_here(2 * US, 7, 8))));
        }
        assert!(!w.is_crowded());
    }

    #[test]
    fn where_the_caller_yields_too_a_sibling_at_work_is_none() {
        let (mut w, mut t) = (Waiting::default(), Instant::now());
        let used = |switches| Told(true, Some(used_here(US, 0, switches)));
        for switches in 0..10 {
            w.empty(t, 0, owed, &used(switches));
            w.resumed(Step::Yield, t, t + 10 * US, &used(switches));
            t += 2000 * US;
        }
        assert!(!w.is_crowded());
    }

    #[test]
    fn what_comes_at_another_endpoint_ends_a_wait_here_too() {
        let (mut w, mut t) = (Waiting::default(), Instant::now());
        while w.empty(t, 0, owed, KEPT) != Step::Block {
            t += US;
        }
        w.resumed(Step::Block, t, t + BLOCK_MIN, KEPT);
        assert!(w.was_blocked_in_vain());
        t += BLOCK_MIN;
        w.empty(t, 1, owed, KEPT);
        assert!(!w.was_blocked_in_vain());
        let blocked = (1..).find(|&us| w.empty(t + us * US, 1, owed, KEPT) == Step::Block);
        assert_eq!(blocked, Some(3000));
    }

    #[test]
    fn who_gives_the_core_away_itself_is_rarely_made_to() {
        let (mut w, t) = (Waiting::default(), Instant::now());
        let mut yields_of = |lost: bool| {
            let is_yield = |_: &u32| {
                let step = w.empty(t, 0, owed, if lost { LOST } else { KEPT });
                w.resumed(step, t, t + 10 * US, LOST);
                step == Step::Yield
            };
            (0..900).filter(is_yield).count()
        };
        assert_eq!(yields_of(true), 100);
        assert!(yields_of(false) > 800);
        assert!(yields_of(true) < 130, "it is looked at again");
    }

    #[test]
    fn who_is_owed_nothing_is_not_blocked_beside_a_stranger() {
        let (mut w, mut t) = (Waiting::default(), Instant::now());
        yield_for_long(&mut w, &mut t);
        yield_for_long(&mut w, &mut t);
        w.found();
        for us in (0..2000).step_by(4) {
            assert_eq!(w.empty(t + us * US, 0, || false, KEPT), Step::Poll);
        }
        assert_eq!(w.empty(t + 1999 * US, 0, owed, KEPT), Step::Block);
        assert_eq!(w.empty(t + 2000 * US, 0, || false, KEPT), Step::Block);
    }

    /// A caller that tests after each 300 ns of its own work, and posts something after 12,000 of them: what
    /// became of HPC Challenge's RandomAccess. Answers how long it took, without its work.
    fn test_between_work(w: &mut Waiting, t: &mut Instant, posts: u32) -> Duration {
        let began = *t;
        for test in 0..12_000 * posts {
            if w.empty(*t, 0, owed, KEPT) == Step::Block {
                let slept = *t;
                *t += w.block_limit();
                w.resumed(Step::Block, slept, *t, KEPT);
            }
            *t += Duration::from_nanos(300);
            if test % 12_000 == 11_999 && w.was_blocked_in_vain() {
                w.acted(*t);
            }
        }
        *t - began - Duration::from_nanos(300) * 12_000 * posts
    }

    #[test]
    fn who_posts_after_a_block_in_vain_was_not_waiting() {
        let (mut w, mut t) = (Waiting::default(), Instant::now());
        let lost = test_between_work(&mut w, &mut t, 1);
        assert!(lost > BLOCK_MIN && lost < 200 * BLOCK_MIN, "{lost:?}");
        // That has told what it does. A second later it is tried anew, and then not for two.
        assert_eq!(test_between_work(&mut w, &mut t, 270), Duration::ZERO);
        let lost = test_between_work(&mut w, &mut t, 10);
        assert!(lost > Duration::ZERO && lost < 800 * BLOCK_MIN, "{lost:?}");
        assert_eq!(test_between_work(&mut w, &mut t, 500), Duration::ZERO);
    }

    #[test]
    fn who_waits_stays_asleep_for_nearly_all_of_the_time() {
        let (mut w, mut t) = (Waiting::default(), Instant::now());
        let (mut awake, mut asleep) = (Duration::ZERO, Duration::ZERO);
        while asleep < Duration::from_secs(2) {
            let began = t;
            if w.empty(t, 0, owed, KEPT) == Step::Block {
                t += w.block_limit();
                asleep += t - began;
                w.resumed(Step::Block, began, t, KEPT);
            }
            t += US;
            awake += US;
        }
        assert!(awake * 100 < asleep, "{awake:?} {asleep:?}");
    }
}
