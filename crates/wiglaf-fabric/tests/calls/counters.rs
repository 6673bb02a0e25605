//! Counters of all kinds that an endpoint and memory can have, and what they must say.

use crate::ops::{self, Home, call, close, fi};

/// What is counted, with the flag by which a counter is bound for it.
const KINDS: [u64; 6] =
    [fi::FI_SEND, fi::FI_RECV, fi::FI_READ, fi::FI_WRITE, fi::FI_REMOTE_READ, fi::FI_REMOTE_WRITE];

/// How many operations of each kind ended well, and how many did not.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts([(u64, u64); KINDS.len()]);

impl Counts {
    fn add(&mut self, kind: usize, well: bool) {
        let (good, bad) = &mut self.0[kind];
        *if well { good } else { bad } += 1;
    }

    pub(crate) fn sent(&mut self) {
        self.add(0, true);
    }

    pub(crate) fn received(&mut self, well: bool) {
        self.add(1, well);
    }

    pub(crate) fn local(&mut self, is_read: bool, well: bool) {
        self.add(if is_read { 2 } else { 3 }, well);
    }

    /// At the target, which counts only what it has let happen.
    pub(crate) fn remote(&mut self, is_read: bool) {
        self.add(if is_read { 4 } else { 5 }, true);
    }
}

/// One counter of each kind.
pub(crate) struct Counters([*mut fi::fid_cntr; KINDS.len()]);

impl Counters {
    /// Bound to an endpoint that is not yet enabled.
    pub(crate) fn bind(home: &Home, ep: *mut fi::fid_ep) -> Self {
        Self(KINDS.map(|kind| {
            let counter = home.cntr();
            assert_eq!(ops::bind(ep, counter, kind), 0);
            counter
        }))
    }

    pub(crate) fn read(&self) -> Counts {
        Counts(self.0.map(|counter| {
            (call!(counter, ops.read(counter)), call!(counter, ops.readerr(counter)))
        }))
    }

    pub(crate) fn close(self) {
        for counter in self.0 {
            assert_eq!(close(counter), 0, "cntr");
        }
    }
}

/// Counters that are bound to the two regions over a node's memory, and what they must say: for the
/// first region one for reads and one for writes, for the second one for both.
pub(crate) struct Watching {
    counters: [*mut fi::fid_cntr; 3],
    counts: [u64; 3],
}

impl Watching {
    pub(crate) fn bind(home: &Home, regions: [*mut fi::fid_mr; 2]) -> Self {
        let wanted = [
            (regions[0], fi::FI_REMOTE_READ),
            (regions[0], fi::FI_REMOTE_WRITE),
            (regions[1], fi::FI_REMOTE_READ | fi::FI_REMOTE_WRITE),
        ];
        let counters = wanted.map(|(region, flags)| {
            let counter = home.cntr();
            assert_eq!(ops::bind(region.cast(), counter, flags), 0);
            counter
        });
        Self { counters, counts: [0; 3] }
    }

    /// A peer has read or written through the first region, or the second.
    pub(crate) fn touched(&mut self, is_second: bool, is_read: bool) {
        let counter = if is_second { 2 } else { usize::from(!is_read) };
        self.counts[counter] += 1;
    }

    pub(crate) fn is_right(&self) -> bool {
        let read = self.counters.map(|counter| {
            (call!(counter, ops.read(counter)), call!(counter, ops.readerr(counter)))
        });
        read == self.counts.map(|count| (count, 0))
    }

    pub(crate) fn close(self) {
        for counter in self.counters {
            assert_eq!(close(counter), 0, "cntr of a region");
        }
    }
}
