//! How often an endpoint looks at its links and at the clock: each look may be a system call, and a poll that finds
//! nothing is to cost little.

use crate::limits::{
    EMPTY_POLL, LOOK_DUE, LOOKS_PER_TIMERS, NEAR_POLLS, POLLS_IN_A_ROW, POLLS_PER_CLOCK,
};
/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// Empty polls in a row.
    quiet_polls: u32,
    /// Polls for which the other links may wait, how soon the next look at
    /// them is due, and how many there were.
    near_polls_left: u32,
    look_due: u32,
    near_looks: u32,
}

impl Looks {
    /// A poll finds nothing, or would have.
    #[inline]
    pub(crate) fn skip(&mut self) {
        self.quiet_polls = self.quiet_polls.wrapping_add(1);
    }

    /// How often the near lane is polled at once. Who has polled in vain since the last message is waiting.
    pub(crate) fn near_polls(&self) -> u32 {
        if self.near_polls_left > 0 && self.quiet_polls > 0 { POLLS_IN_A_ROW } else { 1 }
    }

    /// The near lane was polled, and something `found` there or not. Whether the other links may wait; where others
    /// share the core, a round of them lies between two polls.
    pub(crate) fn near_polled(&mut self, found: bool, is_alone: impl FnOnce() -> bool) -> bool {
        if found {
            self.quiet_polls = 0;
            self.near_polls_left = NEAR_POLLS;
            self.look_due += 1;
        } else if self.near_polls_left == 0 || !is_alone() {
            return false;
        } else {
            self.near_polls_left -= 1;
            self.look_due += EMPTY_POLL;
        }
        if self.look_due < LOOK_DUE {
            self.quiet_polls = self.quiet_polls.wrapping_add(u32::from(!found));
            return true;
        }
        self.look_due = 0;
        self.near_looks = self.near_looks.wrapping_add(1);
        if self.near_looks.is_multiple_of(LOOKS_PER_TIMERS) {
            self.read_clock_next();
        }
        false
    }

    /// The links were looked at, and something `found` there or not.
    pub(crate) fn looked(&mut self, found: bool) {
        if found {
            (self.quiet_polls, self.near_polls_left) = (0, 0);
        } else {
            self.skip();
        }
    }

    /// Whether the last poll is one that reads the clock, after nothing has come.
    pub(crate) fn is_clock_due(&self) -> bool {
        self.quiet_polls.is_multiple_of(POLLS_PER_CLOCK)
    }

    /// Time has passed: the next look reads the clock.
    pub(crate) fn read_clock_next(&mut self) {
        self.quiet_polls = POLLS_PER_CLOCK - 1;
    }

    /// Nobody has polled for a while: the next poll looks everywhere, at the clock, too.
    pub(crate) fn look_everywhere(&mut self) {
        self.read_clock_next();
        self.near_polls_left = 0;
    }
}
