//! Which of two ways takes less time, where that depends on the machine and changes while programs
//! run (docs/adr/0026-size-classes-of-messages.md).
//!
//! Times scatter: now and then a core is taken away, or its caches are. What looks like a change is
//! therefore tried before it is believed: a mistake would last, as the way that is not taken is seldom
//! seen again. What could not be timed tells nothing, but has its turn: else a trial could stay with
//! one way for ever, where only the other is timed.

use std::time::Duration;

/// Times are of so many bytes.
const UNIT_LEN: u64 = 64 << 10;

/// So many times of each way are kept. Less than half of them may be of interrupted ones.
const KEPT: usize = 9;

/// So many times of each way are a trial. The first of them are of memory, pipes and sockets that
/// nobody has used yet, or not lately.
const TRIED: usize = 24;

/// After so many turns a trial ends without that, and has changed nothing.
const TURNS_MAX: u32 = 1024;

/// Between two trials there are so many times at least, and twice as many after each that has
/// changed nothing, up to a limit: messages of several lengths in turn may look like a change for ever.
const PATIENCE_MIN: u32 = 64;
const PATIENCE_MAX: u32 = 4096;

/// The last times of one way, in nanoseconds.
#[derive(Debug, Default)]
struct Way {
    last_ns: [u64; KEPT],
    seen: usize,
    median_ns: u64,
}

impl Way {
    /// So many bytes took so long.
    fn note(&mut self, len: u64, took: Duration) {
        let took_ns = took.as_nanos() as u64 * UNIT_LEN / len.max(1);
        self.last_ns[self.seen % KEPT] = took_ns;
        self.seen += 1;
        let mut last = self.last_ns;
        let seen = &mut last[..self.seen.min(KEPT)];
        seen.sort_unstable();
        self.median_ns = seen[seen.len() / 2];
    }
}

/// Two ways, of which the first is taken unless the second was seen to take less time.
#[derive(Debug)]
pub(crate) struct Choice {
    first: Way,
    second: Way,
    prefers_second: bool,
    is_trial: bool,
    /// Turns of the trial.
    turns: u32,
    in_a_row: u32,
    /// Times since the last trial.
    since: u32,
    patience: u32,
}

impl Choice {
    /// In a trial the ways change after so many turns in a row.
    pub(crate) fn new(in_a_row: u32) -> Self {
        Self {
            first: Way::default(),
            second: Way::default(),
            prefers_second: false,
            is_trial: true,
            turns: 0,
            in_a_row,
            since: 0,
            patience: PATIENCE_MIN,
        }
    }

    /// Whether the ways are being tried.
    pub(crate) fn is_trial(&self) -> bool {
        self.is_trial
    }

    /// Whether the next is to take the second way.
    pub(crate) fn second_is_next(&self) -> bool {
        match self.is_trial {
            true => self.turns / self.in_a_row % 2 == 1,
            false => self.prefers_second,
        }
    }

    /// One has gone. If it was timed: whether on the second way, how many bytes, and how long they took.
    pub(crate) fn turn(&mut self, timed: Option<(bool, u64, Duration)>) {
        if let Some((is_second, len, took)) = timed {
            self.note(is_second, len, took);
        }
        if !self.is_trial {
            return;
        }
        self.turns += 1;
        if self.first.seen.min(self.second.seen) >= TRIED {
            self.decide(self.second.median_ns < self.first.median_ns);
        } else if self.turns == TURNS_MAX {
            self.decide(self.prefers_second);
        }
    }

    fn note(&mut self, is_second: bool, len: u64, took: Duration) {
        let way = if is_second { &mut self.second } else { &mut self.first };
        way.note(len, took);
        if self.is_trial {
            return;
        }
        self.since = self.since.saturating_add(1);
        if self.since >= self.patience && self.other_seems_better() {
            (self.first, self.second) = (Way::default(), Way::default());
            (self.is_trial, self.turns) = (true, 0);
        }
    }

    fn decide(&mut self, prefers_second: bool) {
        self.patience = match prefers_second == self.prefers_second {
            true => (2 * self.patience).min(PATIENCE_MAX),
            false => PATIENCE_MIN,
        };
        (self.prefers_second, self.is_trial, self.since) = (prefers_second, false, 0);
    }

    /// By more than what ways differ in that are as good as each other.
    fn other_seems_better(&self) -> bool {
        let (own, other) = match self.prefers_second {
            true => (&self.second, &self.first),
            false => (&self.first, &self.second),
        };
        other.seen > 0 && other.median_ns < own.median_ns - own.median_ns / 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = UNIT_LEN;
    const TRIAL: u32 = 2 * TRIED as u32;
    const IN_A_ROW: u32 = 3;

    fn note(choice: &mut Choice, is_second: bool, us: u64) {
        choice.turn(Some((is_second, LEN, Duration::from_micros(us))));
    }

    /// So many go the way that is chosen, and take so long; answers how many went the second.
    fn go(choice: &mut Choice, count: u32, first_us: u64, second_us: u64) -> u32 {
        let second = (0..count).filter(|_| {
            let is_second = choice.second_is_next();
            note(choice, is_second, if is_second { second_us } else { first_us });
            is_second
        });
        second.count() as u32
    }

    /// After its first trial, and when the next may begin.
    fn tried(first_us: u64, second_us: u64) -> Choice {
        let mut choice = Choice::new(IN_A_ROW);
        go(&mut choice, TRIAL + PATIENCE_MAX, first_us, second_us);
        choice
    }

    #[test]
    fn both_ways_are_tried_and_what_takes_less_is_taken() {
        for (first_us, second_us, second) in [(50, 60, 0), (60, 50, 100), (50, 50, 0)] {
            let mut choice = Choice::new(IN_A_ROW);
            // What is used for the first time.
            assert_eq!(go(&mut choice, 24, 500, 900), 12);
            assert_eq!(go(&mut choice, 24, first_us, second_us), 12);
            assert_eq!(go(&mut choice, 100, first_us, second_us), second);
        }
    }

    #[test]
    fn ways_change_after_so_many_in_a_row() {
        let mut choice = Choice::new(IN_A_ROW);
        let turns: Vec<u32> = (0..9).map(|_| go(&mut choice, 1, 1, 1)).collect();
        assert_eq!(turns, [0, 0, 0, 1, 1, 1, 0, 0, 0]);
    }

    #[test]
    fn what_has_become_the_better_way_is_taken() {
        let mut choice = tried(60, 50);
        go(&mut choice, TRIAL + 9, 60, 90);
        assert_eq!(go(&mut choice, 100, 60, 90), 0);
        // It is better again, which is seen when the other way is taken now and then.
        for _ in 0..=KEPT / 2 {
            note(&mut choice, true, 50);
        }
        go(&mut choice, TRIAL, 60, 50);
        assert_eq!(go(&mut choice, 100, 60, 50), 100);
    }

    #[test]
    fn what_looked_like_a_change_is_tried_first() {
        let mut choice = tried(60, 50);
        for _ in 0..=KEPT / 2 {
            note(&mut choice, true, 90);
        }
        assert!(choice.is_trial());
        assert_eq!(go(&mut choice, TRIAL, 60, 50), TRIAL / 2);
        assert_eq!(go(&mut choice, 100, 60, 50), 100);
    }

    #[test]
    fn what_changes_nothing_is_tried_ever_less_often() {
        let mut choice = Choice::new(IN_A_ROW);
        let mut trials = 0;
        for _ in 0..20_000 {
            // Each time the way that is taken looks worse than the other did in the trial.
            let us = if choice.is_trial() { 50 } else { 60 };
            let (is_second, was_trial) = (choice.second_is_next(), choice.is_trial());
            note(&mut choice, is_second, us);
            trials += u32::from(!was_trial && choice.is_trial());
        }
        assert!((6..12).contains(&trials), "{trials}");
    }

    #[test]
    fn interruptions_change_nothing() {
        let mut choice = tried(60, 50);
        for _ in 0..KEPT / 2 {
            choice.note(true, LEN, Duration::from_millis(10));
        }
        assert!(choice.second_is_next() && !choice.is_trial());
    }

    #[test]
    fn ways_that_are_as_good_as_each_other_are_not_tried_again() {
        let mut choice = tried(51, 50);
        go(&mut choice, 100, 51, 52);
        assert!(choice.second_is_next() && !choice.is_trial());
    }

    /// A window may leave room for one way only, or what goes the other may have to wait.
    #[test]
    fn a_way_that_is_never_timed_has_turns_for_a_while_only() {
        for timed in [false, true] {
            let mut choice = Choice::new(IN_A_ROW);
            let mut seconds = 0;
            for _ in 0..4 * TURNS_MAX {
                let is_second = choice.second_is_next();
                seconds += u32::from(is_second);
                let time = (is_second, LEN, Duration::from_micros(50));
                choice.turn((is_second == timed).then_some(time));
            }
            assert!((500..515).contains(&seconds), "{seconds}");
            assert!(!choice.second_is_next() && !choice.is_trial());
        }
    }

    /// Two lengths in turn, of which the shorter takes longer for its bytes: either way sees both.
    #[test]
    fn messages_of_two_lengths_in_turn_hide_no_difference() {
        let mut choice = Choice::new(IN_A_ROW);
        for number in 0..5000 {
            let is_second = choice.second_is_next();
            let us = [60, 50][number % 2] - if is_second { 5 } else { 0 };
            note(&mut choice, is_second, us);
        }
        assert!(choice.prefers_second);
    }

    #[test]
    fn lengths_are_taken_into_account() {
        let mut choice = tried(60, 50);
        for _ in 0..KEPT {
            choice.note(true, 2 * LEN, Duration::from_micros(100));
        }
        assert!(choice.second_is_next() && !choice.is_trial());
    }
}
