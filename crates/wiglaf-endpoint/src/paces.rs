//! How long it takes to write trains whose memory is lent, and such that are copied.
//!
//! A lent train's memory comes back when the receiver's core has read it: where that is no near core,
//! its cache lines take four times as long to write to as those that nobody else has seen.
//! A message that would go in a few lent trains then goes sooner in copied ones
//! (docs/adr/0032-two-ways-for-256-kib.md).

use std::time::Duration;

use wiglaf_transport::limits::UNASKED_LEN_MAX;

/// Shortest train, or message, whose writing is timed, in bytes: clocks take time, too.
pub(crate) const TIMED_LEN_MIN: usize = 32 << 10;

/// Times are of so many bytes.
const UNIT_LEN: u64 = 64 << 10;

/// What is seen changes what is believed by such a part.
const FADING: u64 = 4;

/// What was written, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writing {
    /// An eager message into packets, before they become trains.
    Packets,
    /// Packets into a train.
    Copied,
    /// The user's bytes into a train that is lent.
    Lent,
}

/// What each takes, in nanoseconds; 0: not seen yet.
#[derive(Debug, Default)]
pub(crate) struct Paces {
    packets_ns: u64,
    copied_ns: u64,
    lent_ns: u64,
    eager_is_better: bool,
}

impl Paces {
    /// `len` bytes were written in that time.
    pub(crate) fn note(&mut self, what: Writing, len: usize, took: Duration) {
        let seen = took.as_nanos() as u64 * UNIT_LEN / (len as u64).max(1);
        let believed = match what {
            Writing::Packets => &mut self.packets_ns,
            Writing::Copied => &mut self.copied_ns,
            Writing::Lent => &mut self.lent_ns,
        };
        *believed = match *believed {
            0 => seen,
            // Who was interrupted has seen nothing of the memory.
            before => before - before / FADING + seen.min(4 * before) / FADING,
        };
        let [packets, copied, lent] = [self.packets_ns, self.copied_ns, self.lent_ns];
        if packets == 0 || copied == 0 || lent == 0 {
            return;
        }
        // Between the two, what was better remains it.
        let eager = packets + copied;
        if lent > eager + eager / 4 {
            self.eager_is_better = true;
        } else if lent < eager {
            self.eager_is_better = false;
        }
    }

    /// Whether a message with both ways is to go eagerly.
    pub(crate) fn eager_is_better(&self) -> bool {
        self.eager_is_better
    }

    /// Whether the writing of a message's packets says something about those of one with both ways.
    pub(crate) fn times(len: usize) -> bool {
        (TIMED_LEN_MIN..=UNASKED_LEN_MAX as usize).contains(&len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = UNIT_LEN as usize;

    fn note(paces: &mut Paces, what: Writing, us: u64) {
        paces.note(what, LEN, Duration::from_micros(us));
    }

    /// Both parts of an eager message.
    fn eager(paces: &mut Paces, us: u64) {
        note(paces, Writing::Packets, us);
        note(paces, Writing::Copied, us);
    }

    #[test]
    fn what_takes_less_is_chosen_and_both_ways_are_seen_first() {
        let mut paces = Paces::default();
        note(&mut paces, Writing::Lent, 11);
        note(&mut paces, Writing::Copied, 2);
        assert!(!paces.eager_is_better(), "nobody has seen what packets take");
        note(&mut paces, Writing::Packets, 3);
        assert!(paces.eager_is_better());
        // The cores come near each other.
        (0..20).for_each(|_| note(&mut paces, Writing::Lent, 2));
        assert!(!paces.eager_is_better());
    }

    #[test]
    fn between_the_two_nothing_changes() {
        for before in [1, 9] {
            let mut paces = Paces::default();
            eager(&mut paces, 2);
            note(&mut paces, Writing::Lent, before);
            let was = paces.eager_is_better();
            assert_eq!(was, before == 9);
            (0..40).for_each(|_| note(&mut paces, Writing::Lent, 4));
            paces.note(Writing::Lent, LEN, Duration::from_nanos(4500));
            assert_eq!(paces.eager_is_better(), was);
        }
    }

    #[test]
    fn an_interruption_changes_little() {
        let mut paces = Paces::default();
        eager(&mut paces, 4);
        note(&mut paces, Writing::Lent, 4);
        note(&mut paces, Writing::Lent, 10_000);
        assert!(!paces.eager_is_better());
    }
}
