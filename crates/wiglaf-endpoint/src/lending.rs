//! Whether long trains are lent to their link, or copied by it (docs/adr/0034-lent-or-copied.md).
//!
//! Lending spares the kernel a copy, but the memory of a train comes back from the caches of the
//! receiver's core, which takes longer than the copy where that core is near and copies fast. What is
//! better changes from machine to machine, so that is measured: by what trains take that go one behind
//! the other, from the writing of each until its link has it.

use crate::paces::Way;
use wiglaf_transport::Instant as Tick;

/// Of so many trains, so many in a row go the way that is not preferred: both are known then.
const CYCLE: u32 = 512;
const OTHERS: u32 = 8;
/// So many trains after a change meet memory that the other way has left in another core's caches.
const COLD: u32 = 2;

/// The choice between lending and copying.
#[derive(Debug, Default)]
pub(crate) struct Lending {
    lent: Way,
    copied: Way,
    /// Trains so far, and how many have gone the same way as the last.
    trains: u32,
    alike: u32,
    was_lent: bool,
    /// When the last train had gone, unless something else came between.
    last: Option<Tick>,
}

impl Lending {
    /// Whether the next train is to be lent.
    pub(crate) fn is_next(&self) -> bool {
        let times = self.copied.takes_ns().zip(self.lent.takes_ns());
        let copies = times.is_some_and(|(copied, lent)| copied < lent);
        copies == (self.trains % CYCLE < OTHERS)
    }

    /// A train of `len` bytes had gone at `now`.
    pub(crate) fn note(&mut self, is_lent: bool, len: usize, now: Tick) {
        self.trains = self.trains.wrapping_add(1);
        self.alike = if is_lent == self.was_lent { self.alike.saturating_add(1) } else { 0 };
        self.was_lent = is_lent;
        let Some(began) = self.last.replace(now) else { return };
        if self.alike >= COLD {
            let way = if is_lent { &mut self.lent } else { &mut self.copied };
            way.note(len as u64, now.since(began));
        }
    }

    /// What comes next does not follow a train at once.
    pub(crate) fn pause(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 60_000;

    /// Sends so many trains, of which each takes so long; answers how many were lent.
    fn send(lending: &mut Lending, now: &mut u64, count: u32, lent_us: u64, copied_us: u64) -> u32 {
        let lent = (0..count).filter(|_| {
            let is_lent = lending.is_next();
            *now += 1000 * if is_lent { lent_us } else { copied_us };
            lending.note(is_lent, LEN, Tick::from_nanos(*now));
            is_lent
        });
        lent.count() as u32
    }

    #[test]
    fn both_are_tried_and_what_takes_less_is_chosen() {
        for (lent_us, copied_us, lent) in [(5, 8, CYCLE - OTHERS), (8, 5, OTHERS)] {
            let (mut lending, mut now) = (Lending::default(), 1);
            send(&mut lending, &mut now, 2 * OTHERS, lent_us, copied_us);
            assert_eq!(send(&mut lending, &mut now, CYCLE, lent_us, copied_us), lent);
        }
    }

    #[test]
    fn what_has_become_the_better_way_is_taken() {
        let (mut lending, mut now) = (Lending::default(), 1);
        send(&mut lending, &mut now, CYCLE, 5, 8);
        // The lender's core went away from the receiver's.
        send(&mut lending, &mut now, CYCLE, 12, 8);
        assert_eq!(send(&mut lending, &mut now, CYCLE, 12, 8), OTHERS);
    }

    #[test]
    fn the_first_after_a_change_and_those_after_a_pause_say_nothing() {
        let mut lending = Lending::default();
        for number in 1..=u64::from(COLD) {
            lending.note(true, LEN, Tick::from_nanos(1000 * number));
        }
        assert_eq!(lending.lent.takes_ns(), None);
        lending.pause();
        lending.note(true, LEN, Tick::from_nanos(1_000_000));
        assert_eq!(lending.lent.takes_ns(), None);
        lending.note(true, LEN, Tick::from_nanos(1_005_000));
        assert!(lending.lent.takes_ns().is_some_and(|ns| ns < 10_000));
    }

    #[test]
    fn an_interruption_changes_nothing() {
        let (mut lending, mut now) = (Lending::default(), 1);
        send(&mut lending, &mut now, CYCLE / 2, 5, 8);
        now += 10_000_000;
        assert_eq!(send(&mut lending, &mut now, 4, 5, 8), 4);
    }
}
