//! Whether messages that have both ways go in lent trains of what nobody has asked for, or in
//! copied ones of an eager message (docs/adr/0026-size-classes-of-messages.md).
//!
//! What decides is how soon memory can be written to that another core has read, and what the kernel
//! takes for a train on either way. Both are in the time that a post takes, so that is what is seen.

use std::time::Duration;

use crate::choice::Choice;

/// In a trial the ways change after so many messages: an odd number, as programs may send two
/// lengths in turn.
const IN_A_ROW: u32 = 3;

/// What each way takes.
#[derive(Debug)]
pub(crate) struct Paces {
    /// The second way is the eager one.
    ways: Choice,
}

impl Default for Paces {
    fn default() -> Self {
        Self { ways: Choice::new(IN_A_ROW) }
    }
}

impl Paces {
    /// A message of `len` bytes was posted, after which `sent_len` bytes had gone within that time.
    pub(crate) fn note(&mut self, is_eager: bool, len: usize, sent_len: u64, took: Duration) {
        // What had to wait for something says nothing of its way.
        let is_timed = sent_len >= len as u64;
        self.ways.turn(is_timed.then_some((is_eager, sent_len, took)));
    }

    /// Whether the next message that has both ways is to go eagerly.
    pub(crate) fn eager_is_next(&self) -> bool {
        self.ways.second_is_next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 192 << 10;

    /// As many messages, on the way that is chosen, of which each takes so long; answers how many
    /// went eagerly.
    fn post(paces: &mut Paces, count: usize, eager_us: u64, unasked_us: u64) -> usize {
        let eager = (0..count).filter(|_| {
            let is_eager = paces.eager_is_next();
            let us = if is_eager { eager_us } else { unasked_us };
            paces.note(is_eager, LEN, LEN as u64, Duration::from_micros(us));
            is_eager
        });
        eager.count()
    }

    #[test]
    fn the_way_that_takes_less_is_taken() {
        for (eager_us, unasked_us, eager) in [(60, 50, 0), (60, 90, 20)] {
            let mut paces = Paces::default();
            assert_eq!(post(&mut paces, 48, eager_us, unasked_us), 24);
            assert_eq!(post(&mut paces, 20, eager_us, unasked_us), eager);
        }
    }

    #[test]
    fn what_waits_for_room_is_not_seen() {
        let mut paces = Paces::default();
        post(&mut paces, 48, 60, 50);
        for _ in 0..1000 {
            paces.note(true, LEN, LEN as u64 - 1, Duration::from_micros(1));
        }
        assert_eq!(post(&mut paces, 20, 60, 50), 0);
    }
}
