//! How to wait: poll, give the core away, block.
//!
//! Polling alone starves other ranks on the same core, and yields alone lose to a competing task, which keeps the core
//! for its whole time slice; a block costs a wake-up. `adaptive` is told in five sentences:
//!
//! 1. A thread polls, and yields now and then; at each empty poll where the launcher says that ranks share cores.
//! 2. After [`BLOCK_AFTER`] in which it found and posted nothing it blocks until something comes, for an eighth of the
//!    silence, 1 to 10 ms.
//! 3. A pause of more than [`PAUSE`] between two polls begins the silence anew: the caller does other work.
//! 4. A yield that lasts longer than [`LONG_YIELD`] has met a competing task: in the next wait the thread does not
//!    yield, and blocks after [`CONTENDED_BLOCK_AFTER`].
//! 5. That is one wait; each time that the first yield after it is long again, four times as many as before.
//!
//! Nothing tells a caller that waits from one that only tests now and then, between short pieces of its own work. But
//! who waits posts nothing before something has come. So who posts after a block in vain has tested, and is not blocked
//! for [`TESTS_FOR`].
//!
//! Who knows better than it takes one of the other two policies, which guess nothing. The reasons, and what else was
//! tried, are in docs/adr/0039-waiting-policies.md.

use std::time::{Duration, Instant};

use crate::limits::{
    AWAKE_DIVISOR, BLOCK_AFTER, BLOCK_DIVISOR, BLOCK_MAX, BLOCK_MIN, CONTENDED_BLOCK_AFTER,
    CONTENDED_WAITS_MAX, LONG_YIELD, PAUSE, PAUSE_AFTER_BLOCK, POLLS_PER_YIELD, STEADY, TESTS_FOR,
};

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

/// What is known of how this thread waits; time is handed in.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    policy: WaitPolicy,
    /// Whether ranks share cores, as far as the launcher knows.
    oversubscribed: bool,
    /// When the run of empty polls began, and when its last was.
    run: Option<(Instant, Instant)>,
    /// What this thread had found when it began.
    found: u32,
    /// Polls since the last that was looked at, and since the last pause.
    polls: u32,
    steady: u32,
    polls_until_yield: u32,
    /// Waits that are still to count as beside a competing task, and how many the last yield to one made it.
    contended_waits: u32,
    penalty: u32,
    /// The last step was a block.
    blocked: bool,
    /// There was a block in this run of empty polls, and no other is to begin before then.
    awake_until: Option<Instant>,
    /// The caller tests, as far as is known, until then.
    tests_until: Option<Instant>,
}

impl Waiting {
    pub(crate) fn new(policy: WaitPolicy, oversubscribed: bool) -> Self {
        Self { policy, oversubscribed, ..Self::default() }
    }

    /// Something was there: the run of empty polls is over.
    pub(crate) fn found(&mut self) {
        self.polls = 0;
        self.awake_until = None;
        if self.run.take().is_some() {
            let left = if self.contended_waits > 0 {
                &mut self.contended_waits
            } else {
                &mut self.penalty
            };
            *left = left.saturating_sub(1);
        }
    }

    /// The caller posts an operation, so the silence begins anew. Whether it has been blocked in vain since anything was
    /// found here.
    #[inline]
    pub(crate) fn posted(&mut self) -> bool {
        self.run = None;
        self.awake_until.take().is_some()
    }

    /// At `now` a caller that has been blocked in vain, and that is owed something, has posted. If this thread has
    /// `found` nothing elsewhere, it was not waiting.
    pub(crate) fn tests(&mut self, now: Instant, found: u32) {
        if self.policy == WaitPolicy::Adaptive && self.found == found {
            self.tests_until = Some(now + TESTS_FOR);
        }
    }

    /// Whether nobody else seems to want the core: polls need no clock then.
    pub(crate) fn is_alone(&self) -> bool {
        !self.oversubscribed && !self.is_contended()
    }

    /// Whether a competing task has had the core of late, or is to have it all the same.
    pub(crate) fn is_contended(&self) -> bool {
        match self.policy {
            WaitPolicy::Poll => false,
            WaitPolicy::Adaptive => self.contended_waits > 0,
            WaitPolicy::Block => true,
        }
    }

    /// A poll has found nothing, and nobody looked at the clock.
    pub(crate) fn polled(&mut self) {
        self.polls = self.polls.saturating_add(1);
    }

    /// A poll at `now` has found nothing, and this thread `found` something that many times so far,
    /// here or at other endpoints: who is busy at one is not put to sleep at another, where it would
    /// not hear of the first. `is_owed` says whether there is anything that the caller can be waiting for: MPI polls in
    /// many of its calls.
    pub(crate) fn empty(
        &mut self,
        now: Instant,
        found: u32,
        is_owed: impl FnOnce() -> bool,
    ) -> Step {
        if self.policy == WaitPolicy::Poll {
            self.polls = 0;
            return self.yield_now_and_then();
        }
        if std::mem::replace(&mut self.found, found) != found {
            (self.run, self.awake_until) = (None, None);
        }
        let since = self.silence_since(now);
        self.run = Some((since, now));
        let tests = self.tests_until.is_some_and(|until| now < until);
        let soon = !tests && self.is_contended() && is_owed();
        let patience = if soon { CONTENDED_BLOCK_AFTER } else { BLOCK_AFTER };
        let is_awake = tests || self.awake_until.is_some_and(|until| now < until);
        if now.saturating_duration_since(since) >= patience && !is_awake {
            return Step::Block;
        }
        if soon { Step::Poll } else { self.yield_now_and_then() }
    }

    fn yield_now_and_then(&mut self) -> Step {
        let Some(left) = self.polls_until_yield.checked_sub(1) else {
            self.polls_until_yield = if self.oversubscribed { 0 } else { POLLS_PER_YIELD };
            return Step::Yield;
        };
        self.polls_until_yield = left;
        Step::Poll
    }

    /// When the silence began, at a poll at `now`. What a caller was away for is no part of it, and
    /// ends it unless it was interrupted.
    fn silence_since(&mut self, now: Instant) -> Instant {
        let polls = std::mem::take(&mut self.polls).saturating_add(1);
        let pause =
            if std::mem::take(&mut self.blocked) { PAUSE_AFTER_BLOCK } else { PAUSE * polls };
        let Some((since, last)) = self.run else {
            self.steady = 0;
            return now;
        };
        let away = now.saturating_duration_since(last);
        if away < pause {
            self.steady = self.steady.saturating_add(polls);
            return since;
        }
        if away > LONG_YIELD {
            self.polls_until_yield = 0; // a yield tells whether somebody had the core
        }
        if std::mem::take(&mut self.steady) >= STEADY { since + away } else { now }
    }

    fn silence(&self) -> Duration {
        self.run.map_or(Duration::ZERO, |(since, last)| last - since)
    }

    /// How long a block may last.
    pub(crate) fn block_limit(&self) -> Duration {
        (self.silence() / BLOCK_DIVISOR).clamp(BLOCK_MIN, BLOCK_MAX)
    }

    /// A yield or a block ended at `now`.
    pub(crate) fn resumed(&mut self, step: Step, began: Instant, now: Instant) {
        let took = now.saturating_duration_since(began);
        self.blocked = step == Step::Block;
        if self.blocked {
            self.awake_until = Some(now + took / AWAKE_DIVISOR);
        } else if step == Step::Yield && took > LONG_YIELD {
            self.penalty = (self.penalty * 4).clamp(1, CONTENDED_WAITS_MAX);
            self.contended_waits = self.penalty;
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

    fn alone() -> Waiting {
        Waiting::new(WaitPolicy::Adaptive, false)
    }

    /// A poll of an MPI that has a request outstanding.
    fn poll(w: &mut Waiting, at: Instant) -> Step {
        w.empty(at, 0, || true)
    }

    /// After how many microseconds it blocks that polls after each `step` of them.
    fn us_until_block(w: &mut Waiting, from: Instant, step: usize) -> u32 {
        (0..).step_by(step).find(|us| poll(w, from + *us * US) == Step::Block).unwrap()
    }

    #[test]
    fn yields_at_each_poll_only_where_ranks_share_cores() {
        for (oversubscribed, yields) in [(false, 100), (true, 900)] {
            let (mut w, t) = (Waiting::new(WaitPolicy::Adaptive, oversubscribed), Instant::now());
            let is_yield = |_: &u32| poll(&mut w, t) == Step::Yield;
            assert_eq!((0..900).filter(is_yield).count(), yields);
            assert_eq!(w.is_alone(), !oversubscribed);
        }
    }

    #[test]
    fn who_is_told_to_poll_never_blocks_and_who_is_told_to_block_never_yields() {
        for policy in WaitPolicy::ALL {
            assert_eq!(WaitPolicy::named(policy.name()), Some(policy));
        }
        let mut polls = Waiting::new(WaitPolicy::Poll, false);
        let mut blocks = Waiting::new(WaitPolicy::Block, false);
        let mut now = Instant::now();
        let (mut yields, mut sleeps) = (0, 0);
        for _ in 0..10_000 {
            let step = poll(&mut polls, now);
            yields += u32::from(step == Step::Yield);
            assert_ne!(step, Step::Block);
            polls.resumed(step, now, now + 800 * US); // a competing task
            let step = poll(&mut blocks, now);
            assert_ne!(step, Step::Yield);
            now += 5 * US;
            if step == Step::Block {
                blocks.resumed(step, now, now + BLOCK_MAX);
                now += BLOCK_MAX;
                assert!(blocks.posted());
                blocks.tests(now, 0);
                sleeps += 1;
            }
        }
        assert_eq!(yields, 10_000_u32.div_ceil(POLLS_PER_YIELD + 1));
        assert_eq!(sleeps, 10_000 / 5, "each after 20 us");
        assert!(!polls.is_contended() && blocks.is_contended());
    }

    #[test]
    fn blocks_after_a_while_but_not_for_a_caller_that_only_looks_in() {
        let (mut w, t) = (alone(), Instant::now());
        assert_eq!(us_until_block(&mut w, t, 4), 3000);
        w.found();
        for us in (0..10_000).step_by(20) {
            assert_ne!(poll(&mut w, t + (6000 + us) * US), Step::Block);
        }
    }

    #[test]
    fn an_interruption_is_no_sign_of_other_work() {
        let (mut w, t) = (alone(), Instant::now());
        let mut polled = 0;
        // A tick of 20 us in every millisecond.
        while poll(&mut w, t + (polled + polled / 980 * 20) * US) != Step::Block {
            polled += 1;
            assert!(polled <= 3000 + 4);
        }
        assert!(polled >= 3000 - 4, "what it was away for counted: {polled}");
    }

    #[test]
    fn slow_polls_are_no_pauses() {
        let (mut w, t) = (alone(), Instant::now());
        let blocked = (0..).find(|poll_no| {
            if poll_no % 8 > 0 {
                w.polled();
                return false;
            }
            poll(&mut w, t + poll_no * 3 * US) == Step::Block
        });
        assert_eq!(blocked, Some(1000), "3 ms, and the rest until the next look at the clock");
    }

    #[test]
    fn what_comes_or_is_posted_ends_a_silence_also_at_another_endpoint() {
        let (mut w, t) = (alone(), Instant::now());
        for us in 0..20_000 {
            assert_ne!(w.empty(t + us * US, us / 2900, || true), Step::Block);
            assert_ne!(poll(&mut w, t + us * US), Step::Block);
        }
        for us in 20_000..40_000 {
            if us % 2900 == 0 {
                assert!(!w.posted());
            }
            assert_ne!(poll(&mut w, t + us * US), Step::Block);
        }
        assert_eq!(us_until_block(&mut w, t + 40_000 * US, 1), 700, "the last was 2300 us ago");
    }

    #[test]
    fn blocks_again_at_once_and_longer_the_longer_nothing_comes() {
        let (mut w, mut t) = (alone(), Instant::now());
        t += us_until_block(&mut w, t, 4) * US;
        let mut slept = Vec::new();
        for _ in 0..60 {
            slept.push(w.block_limit());
            w.resumed(Step::Block, t, t + w.block_limit());
            t += slept[slept.len() - 1] + 40 * US;
            t += us_until_block(&mut w, t, 4) * US;
        }
        assert_eq!((slept[0], slept[59]), (BLOCK_MIN, BLOCK_MAX));
        assert!(slept.is_sorted());
        // A caller that stays away for longer than a cold cache explains, and again, does other things.
        for _ in 0..2 {
            w.resumed(Step::Block, t, t + BLOCK_MIN);
            t += BLOCK_MIN + 60 * US;
            poll(&mut w, t);
        }
        assert!(us_until_block(&mut w, t, 4) >= 2900);
    }

    /// A wait that begins with a long yield.
    fn yield_for_long(w: &mut Waiting, t: &mut Instant) {
        while poll(w, *t) != Step::Yield {
            *t += US;
        }
        w.resumed(Step::Yield, *t, *t + 1000 * US);
        *t += 1000 * US;
    }

    #[test]
    fn beside_a_competing_task_it_blocks_soon_for_some_waits_and_for_more_each_time() {
        let (mut w, mut t) = (alone(), Instant::now());
        for waits in [1, 4, 16, 64, 256, 256] {
            yield_for_long(&mut w, &mut t);
            w.found();
            for _ in 1..waits {
                assert!(w.is_contended());
                assert_eq!(us_until_block(&mut w, t, 4), 20);
                w.found();
            }
            assert!(!w.is_contended());
        }
        // It went away.
        for _ in 0..256 {
            poll(&mut w, t);
            w.found();
        }
        yield_for_long(&mut w, &mut t);
        assert_eq!(w.contended_waits, 1);
    }

    /// A caller that tests after each 300 ns of its own work, and posts something after 700 of them: what
    /// became of HPC Challenge's RandomAccess. Answers how long it took, without its work.
    fn test_between_work(w: &mut Waiting, t: &mut Instant, posts: u32) -> Duration {
        let (began, work) = (*t, Duration::from_nanos(300));
        for test in 0..700 * posts {
            if poll(w, *t) == Step::Block {
                let slept = *t;
                *t += w.block_limit();
                w.resumed(Step::Block, slept, *t);
            }
            *t += work;
            if test % 700 == 699 && w.posted() {
                w.tests(*t, 0);
            }
        }
        *t - began - work * 700 * posts
    }

    #[test]
    fn who_posts_after_a_block_in_vain_tests_and_is_left_awake_for_a_second() {
        let (mut w, mut t) = (alone(), Instant::now());
        assert_eq!(test_between_work(&mut w, &mut t, 9), Duration::ZERO, "each post is a sign");
        (w.contended_waits, w.penalty) = (CONTENDED_WAITS_MAX, CONTENDED_WAITS_MAX);
        let lost = test_between_work(&mut w, &mut t, 1);
        assert!(lost > BLOCK_MIN && lost < 30 * BLOCK_MIN, "{lost:?}");
        assert_eq!(test_between_work(&mut w, &mut t, 4700), Duration::ZERO);
        assert!(test_between_work(&mut w, &mut t, 70) > Duration::ZERO, "it is tried anew");
    }

    #[test]
    fn a_long_absence_is_asked_about_by_a_yield() {
        let (mut w, t) = (alone(), Instant::now());
        assert_eq!((poll(&mut w, t), poll(&mut w, t)), (Step::Yield, Step::Poll));
        assert_eq!(poll(&mut w, t + 600 * US), Step::Yield);
    }

    #[test]
    fn who_is_owed_nothing_is_not_blocked_soon_beside_a_competing_task() {
        let (mut w, mut t) = (alone(), Instant::now());
        yield_for_long(&mut w, &mut t);
        w.found();
        for us in (0..3000).step_by(4) {
            assert_ne!(w.empty(t + us * US, 0, || false), Step::Block);
        }
        assert_eq!(w.empty(t + 3000 * US, 0, || false), Step::Block);
    }

    #[test]
    fn who_waits_stays_asleep_for_nearly_all_of_the_time() {
        let (mut w, mut t) = (alone(), Instant::now());
        let (mut awake, mut asleep) = (Duration::ZERO, Duration::ZERO);
        while asleep < Duration::from_secs(2) {
            let began = t;
            if poll(&mut w, t) == Step::Block {
                t += w.block_limit();
                asleep += t - began;
                w.resumed(Step::Block, began, t);
            }
            t += US;
            awake += US;
        }
        assert!(awake * 100 < asleep, "{awake:?} {asleep:?}");
    }
}
