//! What has been counted: for each thread a table of its own, so that nobody waits for anybody.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::clock;
use crate::entry::{CALLS, Call};

/// Sizes of calls: none or 0 bytes, then a class for each power of two.
pub(crate) const CLASSES: usize = 42;

/// What one thread has counted. Only it writes.
pub(crate) struct Table {
    cells: [[Counted; CLASSES]; CALLS],
}

#[derive(Default)]
pub(crate) struct Counted {
    calls: AtomicU64,
    ticks: AtomicU64,
    bytes: AtomicU64,
}

/// A sum over all threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) calls: u64,
    pub(crate) ticks: u64,
    pub(crate) bytes: u64,
}

static TABLES: Mutex<Vec<&'static Table>> = Mutex::new(Vec::new());

thread_local! {
    /// Whether this thread is within a call.
    static IS_WITHIN: Cell<bool> = const { Cell::new(false) };
    static TABLE: Cell<*const Table> = const { Cell::new(ptr::null()) };
}

/// A call that is under way, of which no other is a part.
pub(crate) struct Entered {
    start: u64,
}

impl Entered {
    /// Nothing within a call, and where nobody wants to know.
    #[inline]
    pub(crate) fn enter() -> Option<Self> {
        if IS_WITHIN.get() || !crate::record::is_wanted() {
            return None;
        }
        IS_WITHIN.set(true);
        Some(Self { start: clock::ticks() })
    }

    /// The call is over, and is none of those that are counted.
    pub(crate) fn forget(self) {
        IS_WITHIN.set(false);
    }

    /// The call is over; when it began.
    #[inline]
    pub(crate) fn leave(self, call: Call, bytes: u64) -> u64 {
        let ticks = clock::ticks().saturating_sub(self.start);
        IS_WITHIN.set(false);
        let counted = &own().cells[call as usize][class(bytes)];
        // No other thread writes here.
        let add =
            |to: &AtomicU64, more| to.store(to.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        add(&counted.calls, 1);
        add(&counted.ticks, ticks);
        add(&counted.bytes, bytes);
        self.start
    }
}

#[inline]
fn own() -> &'static Table {
    let table = TABLE.get();
    if table.is_null() {
        return first();
    }
    // SAFETY: it was leaked by `first`, so it lives for ever, and nobody has it as `&mut`.
    unsafe { &*table }
}

#[cold]
fn first() -> &'static Table {
    let cells = || std::array::from_fn(|_| Counted::default());
    let table: &'static Table =
        Box::leak(Box::new(Table { cells: std::array::from_fn(|_| cells()) }));
    TABLES.lock().unwrap_or_else(PoisonError::into_inner).push(table);
    TABLE.set(table);
    table
}

/// 0 for no bytes, 1 for 1, 2 for 2 and 3, 3 for 4 to 7 and so on.
#[inline]
fn class(bytes: u64) -> usize {
    ((u64::BITS - bytes.leading_zeros()) as usize).min(CLASSES - 1)
}

/// How many threads have called, and what they have counted, by call and class.
pub(crate) fn sums() -> (usize, Vec<(Call, usize, Sum)>) {
    let tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut sums = Vec::new();
    for &call in Call::ALL {
        for class in 0..CLASSES {
            let mut sum = Sum::default();
            for counted in tables.iter().map(|table| &table.cells[call as usize][class]) {
                sum.calls += counted.calls.load(Ordering::Relaxed);
                sum.ticks += counted.ticks.load(Ordering::Relaxed);
                sum.bytes += counted.bytes.load(Ordering::Relaxed);
            }
            if sum.calls > 0 {
                sums.push((call, class, sum));
            }
        }
    }
    (tables.len(), sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        let classes = [0, 1, 2, 3, 4, 7, 8, 1 << 20, u64::MAX].map(class);
        assert_eq!(classes, [0, 1, 2, 2, 3, 3, 4, 21, CLASSES - 1]);
    }
}
