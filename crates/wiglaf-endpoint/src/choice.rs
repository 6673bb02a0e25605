//! Which of two ways takes less time, where that depends on the machine and changes while programs
//! run (docs/adr/0032-two-ways-for-256-kib.md, docs/adr/0034-lent-or-copied.md).
//!
//! Times scatter: now and then a core is taken away, or its caches are. What looks like a change is
//! therefore tried before it is believed. A mistake would last, as the way that is not taken is
//! seldom seen again.

use std::time::Duration;

/// Times are of so many bytes.
const UNIT_LEN: u64 = 64 << 10;

/// So many times of each way are kept. Less than half of them may be of interrupted ones.
const KEPT: usize = 9;

/// The last times of one way, in nanoseconds.
#[derive(Debug, Default)]
struct Way {
    last_ns: [u64; KEPT],
    seen: usize,
    median_ns: Option<u64>,
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
        self.median_ns = seen.get(seen.len() / 2).copied();
    }
}

/// Two ways, of which the second is taken once it was seen to take less time.
#[derive(Debug)]
pub(crate) struct Choice {
    first: Way,
    second: Way,
    prefers_second: bool,
    /// Turns of the trial that is under way, or was the last.
    turns: u32,
    trial: u32,
    in_a_row: u32,
}

impl Choice {
    /// A trial has so many turns; the ways change after so many of them in a row.
    pub(crate) const fn new(trial: u32, in_a_row: u32) -> Self {
        const NEW: Way = Way { last_ns: [0; KEPT], seen: 0, median_ns: None };
        Self { first: NEW, second: NEW, prefers_second: false, turns: 0, trial, in_a_row }
    }

    /// Whether the ways are being tried.
    pub(crate) const fn is_trial(&self) -> bool {
        self.turns < self.trial
    }

    /// Whether the next is to take the second way.
    pub(crate) const fn second_is_next(&self) -> bool {
        if self.is_trial() { self.turns / self.in_a_row % 2 == 1 } else { self.prefers_second }
    }

    /// One has gone, on either way.
    pub(crate) fn turn(&mut self) {
        if self.is_trial() {
            self.turns += 1;
            self.prefers_second = self.is_better(true);
        }
    }

    /// So many bytes took so long on that way.
    pub(crate) fn note(&mut self, is_second: bool, len: u64, took: Duration) {
        let way = if is_second { &mut self.second } else { &mut self.first };
        way.note(len, took);
        if !self.is_trial() && self.is_better(!self.prefers_second) {
            self.turns = 0;
        }
    }

    fn is_better(&self, is_second: bool) -> bool {
        let both = self.first.median_ns.zip(self.second.median_ns);
        both.is_some_and(|(first, second)| if is_second { second < first } else { first < second })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIAL: u32 = 40;
    const LEN: u64 = UNIT_LEN;

    /// So many go the way that is chosen, and take so long; answers how many went the second.
    fn go(choice: &mut Choice, count: u32, first_us: u64, second_us: u64) -> u32 {
        let second = (0..count).filter(|_| {
            let is_second = choice.second_is_next();
            let us = if is_second { second_us } else { first_us };
            choice.note(is_second, LEN, Duration::from_micros(us));
            choice.turn();
            is_second
        });
        second.count() as u32
    }

    fn tried(first_us: u64, second_us: u64) -> Choice {
        let mut choice = Choice::new(TRIAL, 2);
        go(&mut choice, TRIAL, first_us, second_us);
        choice
    }

    #[test]
    fn both_ways_are_tried_and_what_takes_less_is_taken() {
        for (first_us, second_us, second) in [(50, 60, 0), (60, 50, 100), (50, 50, 0)] {
            let mut choice = Choice::new(TRIAL, 2);
            // What is used for the first time.
            assert_eq!(go(&mut choice, TRIAL / 2, 500, 900), TRIAL / 4);
            assert_eq!(go(&mut choice, TRIAL / 2, first_us, second_us), TRIAL / 4);
            assert_eq!(go(&mut choice, 100, first_us, second_us), second);
        }
    }

    #[test]
    fn ways_change_after_so_many_in_a_row() {
        let mut choice = Choice::new(TRIAL, 2);
        let turns: Vec<u32> = (0..8).map(|_| go(&mut choice, 1, 1, 1)).collect();
        assert_eq!(turns, [0, 0, 1, 1, 0, 0, 1, 1]);
    }

    #[test]
    fn what_has_become_the_better_way_is_taken() {
        let mut choice = tried(60, 50);
        go(&mut choice, 100, 60, 90);
        assert_eq!(go(&mut choice, 100, 60, 90), 0);
        // It is better again, which is seen when the other way is taken for once.
        for _ in 0..KEPT {
            choice.note(true, LEN, Duration::from_micros(50));
        }
        go(&mut choice, TRIAL, 60, 50);
        assert_eq!(go(&mut choice, 100, 60, 50), 100);
    }

    #[test]
    fn what_looked_like_a_change_is_tried_first() {
        let mut choice = tried(60, 50);
        for _ in 0..=KEPT / 2 {
            choice.note(true, LEN, Duration::from_micros(90));
        }
        assert!(choice.is_trial());
        assert_eq!(go(&mut choice, TRIAL, 60, 50), TRIAL / 2);
        assert_eq!(go(&mut choice, 100, 60, 50), 100);
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
    fn a_way_that_was_never_seen_is_not_taken() {
        let mut choice = Choice::new(TRIAL, 2);
        for _ in 0..2 * TRIAL {
            choice.note(false, LEN, Duration::from_micros(50));
            choice.turn();
        }
        assert!(!choice.second_is_next());
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
