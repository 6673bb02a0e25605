//! Whether long trains are lent to their link, or copied by it
//! (docs/adr/0026-size-classes-of-messages.md).
//!
//! Lending spares the kernel a copy, but the memory of a train comes back from the caches of the
//! receiver's core, which takes longer than the copy where that core is near and copies fast. What is
//! better changes from machine to machine, so that is measured: by what trains take that a post sends, or that
//! go one behind the other, from the writing of each until its link has it.

use wiglaf_transport::Instant as Tick;

use crate::choice::Choice;

/// Of so many trains, so many in a row go the way that is not preferred: both are known then.
const CYCLE: u32 = 512;
const OTHERS: u32 = 8;
/// So many trains after a change meet memory that the other way has left in another core's caches.
const COLD: u32 = 2;

/// The choice between lending and copying.
#[derive(Debug)]
pub(crate) struct Lending {
    /// The second way is to copy: that takes a reason.
    ways: Choice,
    /// Trains so far, and how many have gone the same way as the last.
    trains: u32,
    alike: u32,
    was_lent: bool,
    /// When the last train had gone, unless something else came between.
    last: Option<Tick>,
}

impl Default for Lending {
    fn default() -> Self {
        Self { ways: Choice::new(OTHERS), trains: 0, alike: 0, was_lent: false, last: None }
    }
}

impl Lending {
    /// Whether the next train is to be lent.
    pub(crate) fn is_next(&self) -> bool {
        let takes_other = !self.ways.is_trial() && self.trains % CYCLE < OTHERS;
        self.ways.second_is_next() == takes_other
    }

    /// A train of `len` bytes had gone at `now`.
    pub(crate) fn note(&mut self, is_lent: bool, len: usize, now: Tick) {
        self.trains = self.trains.wrapping_add(1);
        self.alike = if is_lent == self.was_lent { self.alike.saturating_add(1) } else { 0 };
        self.was_lent = is_lent;
        let began = self.last.replace(now).filter(|_| self.alike >= COLD);
        self.ways.turn(began.map(|began| (!is_lent, len as u64, now.since(began))));
    }

    /// A train that was to be lent was copied: there was no room, or its link lends none.
    pub(crate) fn was_copied_instead(&mut self) {
        (self.alike, self.was_lent) = (0, false);
        self.pause();
    }

    /// What comes next is written from `now` on.
    pub(crate) fn begin(&mut self, now: Tick) {
        self.last = Some(now);
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

    /// Until the first trial is over.
    const TRIAL: u32 = 70;

    #[test]
    fn what_takes_less_is_taken_and_the_other_seen_now_and_then() {
        for (lent_us, copied_us, lent) in [(5, 8, CYCLE - OTHERS), (8, 5, OTHERS)] {
            let (mut lending, mut now) = (Lending::default(), 1);
            let tried = send(&mut lending, &mut now, TRIAL, lent_us, copied_us);
            assert!((TRIAL / 3..2 * TRIAL / 3).contains(&tried), "{tried}");
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
        // It is near again.
        send(&mut lending, &mut now, 4 * CYCLE, 5, 8);
        assert_eq!(send(&mut lending, &mut now, CYCLE, 5, 8), CYCLE - OTHERS);
    }

    /// Single trains that no post sends are not timed.
    #[test]
    fn without_a_reason_to_copy_trains_are_lent() {
        let mut lending = Lending::default();
        for number in 0..1024 {
            let is_lent = lending.is_next();
            lending.pause();
            lending.note(is_lent, LEN, Tick::from_nanos(1 + 1000 * number));
        }
        let lent = (0..CYCLE).filter(|number| {
            let is_lent = lending.is_next();
            lending.pause();
            lending.note(is_lent, LEN, Tick::from_nanos(2_000_000 + 1000 * u64::from(*number)));
            is_lent
        });
        assert_eq!(lent.count() as u32, CYCLE - OTHERS);
    }

    #[test]
    fn single_trains_of_posts_are_timed() {
        let (mut lending, mut now) = (Lending::default(), 1);
        let mut post = |lending: &mut Lending| {
            let is_lent = lending.is_next();
            now += 1_000_000;
            lending.begin(Tick::from_nanos(now));
            now += if is_lent { 8000 } else { 5000 };
            lending.note(is_lent, LEN, Tick::from_nanos(now));
            is_lent
        };
        (0..CYCLE).for_each(|_| _ = post(&mut lending));
        assert_eq!((0..CYCLE).filter(|_| post(&mut lending)).count() as u32, OTHERS);
    }

    #[test]
    fn the_first_after_a_change_and_those_after_a_pause_say_nothing() {
        let (mut lending, mut now) = (Lending::default(), 1);
        send(&mut lending, &mut now, 2 * CYCLE, 5, 8);
        let mut note = |lending: &mut Lending, is_lent: bool, us: u64| {
            now += 1000 * us;
            lending.note(is_lent, LEN, Tick::from_nanos(now));
        };
        for _ in 0..2 * CYCLE {
            // Copied in no time, and lent in much: each is one of the first of its way.
            for (is_lent, us) in [(false, 1), (true, 1000)] {
                for _ in 0..COLD {
                    note(&mut lending, is_lent, us);
                }
            }
            lending.pause();
            note(&mut lending, true, 1_000_000);
        }
        assert!(!lending.ways.is_trial() && !lending.ways.second_is_next());
    }
}
