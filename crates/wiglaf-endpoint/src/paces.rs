//! Which of two ways takes less time for messages that have both: lent trains of what nobody has
//! asked for, or copied ones of an eager message (docs/adr/0032-two-ways-for-256-kib.md).
//!
//! What decides is how soon memory can be written to that another core has read, and what the kernel
//! takes for a train on either way. Both are in the time that a post takes, so that is what is seen.

use std::time::Duration;

/// Times are of so many bytes.
const UNIT_LEN: u64 = 64 << 10;

/// So many messages take the two ways in turn, before either is known. The first on each meets
/// memory that nobody has used yet.
const TRIED_FIRST: u8 = 8;

/// The last times of one way, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Way {
    last_ns: [u64; 3],
    seen: usize,
}

impl Way {
    /// So many bytes took so long.
    pub(crate) fn note(&mut self, len: u64, took: Duration) {
        let took_ns = took.as_nanos() as u64 * UNIT_LEN / len.max(1);
        self.last_ns[self.seen % self.last_ns.len()] = took_ns;
        self.seen += 1;
    }

    /// Their median, as one of three may have been interrupted.
    pub(crate) fn takes_ns(&self) -> Option<u64> {
        let mut last = self.last_ns;
        let seen = &mut last[..self.seen.min(self.last_ns.len())];
        seen.sort_unstable();
        seen.get(seen.len() / 2).copied()
    }
}

/// What each way takes.
#[derive(Debug, Default)]
pub(crate) struct Paces {
    eager: Way,
    unasked: Way,
    posts: u8,
}

impl Paces {
    /// A message of `len` bytes was posted, after which `sent_len` bytes had gone within that time.
    pub(crate) fn note(&mut self, is_eager: bool, len: usize, sent_len: u64, took: Duration) {
        self.posts = self.posts.saturating_add(1);
        // What had to wait for something says nothing of its way.
        if sent_len >= len as u64 {
            let way = if is_eager { &mut self.eager } else { &mut self.unasked };
            way.note(sent_len, took);
        }
    }

    /// Whether the next message that has both ways is to go eagerly.
    pub(crate) fn eager_is_next(&self) -> bool {
        if self.posts < TRIED_FIRST {
            return self.posts % 2 == 1;
        }
        let (eager, unasked) = (self.eager.takes_ns(), self.unasked.takes_ns());
        eager.zip(unasked).is_some_and(|(eager, unasked)| eager < unasked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 192 << 10;

    /// As many messages, on the way that is chosen, which take so long.
    fn post(paces: &mut Paces, count: usize, eager_us: u64, unasked_us: u64) -> usize {
        let eager = (0..count).filter(|_| {
            let is_eager = paces.eager_is_next();
            let us = if is_eager { eager_us } else { unasked_us };
            paces.note(is_eager, LEN, LEN as u64, Duration::from_micros(us));
            is_eager
        });
        eager.count()
    }

    /// One message on that way.
    fn note(paces: &mut Paces, is_eager: bool, us: u64) {
        paces.note(is_eager, LEN, LEN as u64, Duration::from_micros(us));
    }

    #[test]
    fn both_ways_are_tried_and_what_takes_less_is_chosen() {
        for (eager_us, unasked_us, eager) in [(60, 50, 0), (60, 90, 20)] {
            let mut paces = Paces::default();
            // Memory that is new.
            assert_eq!(post(&mut paces, 2, 500, 900), 1);
            assert_eq!(post(&mut paces, 6, eager_us, unasked_us), 3);
            assert_eq!(post(&mut paces, 20, eager_us, unasked_us), eager);
        }
    }

    #[test]
    fn what_has_become_the_better_way_is_taken() {
        let mut paces = Paces::default();
        post(&mut paces, 20, 60, 50);
        // The cores went apart.
        assert_eq!(post(&mut paces, 20, 60, 90), 18);
        // They come near each other again; that is seen when the other way has its turn.
        note(&mut paces, false, 50);
        assert!(paces.eager_is_next());
        note(&mut paces, false, 50);
        assert!(!paces.eager_is_next());
    }

    #[test]
    fn an_interruption_changes_nothing() {
        let mut paces = Paces::default();
        post(&mut paces, 20, 60, 50);
        note(&mut paces, false, 10_000);
        assert!(!paces.eager_is_next());
    }

    #[test]
    fn what_waits_for_room_is_not_seen() {
        let mut paces = Paces::default();
        post(&mut paces, 20, 60, 50);
        for _ in 0..9 {
            paces.note(true, LEN, 1000, Duration::from_micros(1));
        }
        assert!(!paces.eager_is_next());
    }

    /// A window or credit may leave room for neither.
    #[test]
    fn a_way_that_was_never_seen_is_not_taken() {
        let mut paces = Paces::default();
        for _ in 0..2 * TRIED_FIRST {
            note(&mut paces, false, 50);
        }
        assert!(!paces.eager_is_next());
    }
}
