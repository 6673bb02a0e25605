//! What one owner has locked of one file: ranges that neither overlap nor, where they are alike, touch.

use crate::wire::{Lock, LockKind};

/// See the module. In their order.
#[derive(Debug, Default)]
pub(super) struct Ranges(Vec<Range>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    start: u64,
    last: u64,
    kind: LockKind,
}

impl Ranges {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a lock in place of whatever its range had.
    pub(super) fn set(&mut self, lock: &Lock) {
        let Lock { start, last, kind, .. } = *lock;
        let mut all = Vec::with_capacity(self.0.len() + 2);
        for range in self.0.drain(..) {
            if range.last < start || range.start > last {
                all.push(range);
                continue;
            }
            if range.start < start {
                all.push(Range { last: start - 1, ..range });
            }
            if range.last > last {
                all.push(Range { start: last + 1, ..range });
            }
        }
        if kind != LockKind::Free {
            all.push(Range { start, last, kind });
        }
        all.sort_unstable_by_key(|range| range.start);
        all.dedup_by(|next, range| {
            let touches = range.kind == next.kind && range.last + 1 == next.start;
            if touches {
                range.last = next.last;
            }
            touches
        });
        self.0 = all;
    }

    /// The first that cannot be at once with another owner's lock.
    pub(super) fn in_the_way(&self, of: &Lock) -> Option<Lock> {
        let locks = self.0.iter().map(|range| {
            let Range { start, last, kind } = *range;
            Lock { start, last, kind, ..Lock::default() }
        });
        locks.into_iter().find(|lock| lock.excludes(of))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEN: u64 = 40;

    fn lock(start: u64, last: u64, kind: LockKind) -> Lock {
        Lock { start, last, kind, ..Lock::default() }
    }

    fn kinds() -> impl Strategy<Value = LockKind> {
        prop::sample::select(vec![LockKind::Free, LockKind::Shared, LockKind::Exclusive])
    }

    proptest! {
        #[test]
        fn each_byte_has_the_lock_that_it_was_given_last(
            calls in prop::collection::vec((0..LEN, 0..LEN, kinds()), 0..40),
        ) {
            let (mut ranges, mut bytes) = (Ranges::default(), [LockKind::Free; LEN as usize]);
            for (one, other, kind) in calls {
                let (start, last) = (one.min(other), one.max(other));
                ranges.set(&lock(start, last, kind));
                bytes[start as usize..=last as usize].fill(kind);
            }
            for (at, kind) in bytes.into_iter().enumerate() {
                let at = at as u64;
                let found = ranges.in_the_way(&lock(at, at, LockKind::Exclusive));
                prop_assert_eq!(found.map_or(LockKind::Free, |found| found.kind), kind);
                let shared = ranges.in_the_way(&lock(at, at, LockKind::Shared)).is_some();
                prop_assert_eq!(shared, kind == LockKind::Exclusive);
            }
            for pair in ranges.0.windows(2) {
                prop_assert!(pair[0].last < pair[1].start);
                prop_assert!(pair[0].last + 1 < pair[1].start || pair[0].kind != pair[1].kind);
            }
        }
    }

    #[test]
    fn a_range_may_end_with_the_last_byte() {
        let mut ranges = Ranges::default();
        let last = i64::MAX as u64;
        ranges.set(&lock(5, last, LockKind::Shared));
        ranges.set(&lock(last, last, LockKind::Exclusive));
        ranges.set(&lock(0, 4, LockKind::Shared));
        assert_eq!(ranges.len(), 2);
        ranges.set(&lock(0, last, LockKind::Free));
        assert!(ranges.is_empty());
    }
}
