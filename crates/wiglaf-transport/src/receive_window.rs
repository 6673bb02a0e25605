//! Which packets of a lane have arrived: duplicate suppression and what an
//! acknowledgement says (docs/protocol.md, section 4).

use crate::limits::BITMAP_BITS;

const WORDS: usize = (BITMAP_BITS / 64) as usize;

/// What a packet number means to the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The next one expected.
    InOrder,
    /// Ahead of a gap.
    Ahead,
    /// Seen before.
    Duplicate,
    /// Seen before, and so long ago that its sender has the acknowledgement: it has sent since
    /// then what it may send only with that.
    Settled,
    /// Too far ahead to be kept.
    Beyond,
}

/// The set of packet numbers that have arrived on one lane.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReceiveWindow {
    /// All below have arrived; this one has not.
    next: u64,
    /// One past the highest that has arrived.
    end: u64,
    /// Ring of bits, packet `n` at bit `n % BITMAP_BITS`; made at the first gap.
    bits: Option<Box<[u64; WORDS]>>,
}

impl ReceiveWindow {
    /// Numbers begin there; nothing has arrived.
    pub(crate) fn begin_at(&mut self, number: u64) {
        (self.next, self.end) = (number, number);
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn has_gap(&self) -> bool {
        self.end > self.next
    }

    /// Gives the bits back, which are all 0 where there is no gap.
    pub(crate) fn rest(&mut self) {
        if !self.has_gap() {
            self.bits = None;
        }
    }

    /// Whether `number` would be new, and how.
    pub(crate) fn classify(&self, number: u64, window: u64) -> Arrival {
        if number < self.next.saturating_sub(window) {
            Arrival::Settled
        } else if number < self.next {
            Arrival::Duplicate
        } else if number >= self.next + window {
            Arrival::Beyond
        } else if number == self.next {
            Arrival::InOrder
        } else if self.contains(number) {
            Arrival::Duplicate
        } else {
            Arrival::Ahead
        }
    }

    /// Notes that `number`, which [`ReceiveWindow::classify`] found new, has arrived.
    pub(crate) fn insert(&mut self, number: u64) {
        self.end = self.end.max(number + 1);
        if number != self.next {
            let bits = self.bits.get_or_insert_with(|| Box::new([0; WORDS]));
            bits[word(number)] |= bit(number);
            return;
        }
        self.next += 1;
        let Some(bits) = self.bits.as_deref_mut() else { return };
        while self.next < self.end && bits[word(self.next)] & bit(self.next) != 0 {
            bits[word(self.next)] &= !bit(self.next);
            self.next += 1;
        }
    }

    fn contains(&self, number: u64) -> bool {
        number < self.end
            && self.bits.as_ref().is_some_and(|bits| bits[word(number)] & bit(number) != 0)
    }

    /// Writes the bitmap of an acknowledgement and returns its length in
    /// bytes: bit `i` stands for packet `next + 1 + i`.
    pub(crate) fn bitmap(&self, out: &mut [u8; WORDS * 8]) -> usize {
        if !self.has_gap() {
            return 0;
        }
        let count = (self.end - self.next - 1).min(BITMAP_BITS - 1);
        let words = count.div_ceil(64) as usize;
        for (j, chunk) in out.as_chunks_mut::<8>().0[..words].iter_mut().enumerate() {
            let from = self.next + 1 + 64 * j as u64;
            *chunk = self.word_from(from).to_le_bytes();
        }
        words * 8
    }

    /// The 64 bits that start at packet `from`.
    fn word_from(&self, from: u64) -> u64 {
        let Some(bits) = &self.bits else { return 0 };
        let shift = (from % 64) as u32;
        let low = bits[word(from)] >> shift;
        if shift == 0 { low } else { low | bits[word(from + 64)] << (64 - shift) }
    }
}

/// The numbers of control datagrams that have come: one is taken once, and not at all when it is
/// far older than others that have come (RFC 4303, section 3.4.3).
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ReplayWindow {
    /// One past the highest that has come.
    next: u64,
    /// Bit `i` stands for `next - 1 - i`.
    seen: u64,
}

impl ReplayWindow {
    /// Numbers begin there; nothing has come.
    pub(crate) fn begin_at(&mut self, number: u64) {
        self.next = number;
    }

    /// Near it lies the number of the next one.
    pub(crate) fn next(self) -> u64 {
        self.next
    }

    /// Takes `number`, unless it has come before or is too old to tell.
    pub(crate) fn take(&mut self, number: u64) -> bool {
        if number >= self.next {
            let step = u32::try_from(number - self.next + 1).unwrap_or(u32::MAX);
            self.seen = self.seen.checked_shl(step).unwrap_or(0) | 1;
            self.next = number + 1;
            return true;
        }
        let bit = u32::try_from(self.next - 1 - number).ok().and_then(|i| 1_u64.checked_shl(i));
        let is_new = bit.is_some_and(|bit| self.seen & bit == 0);
        self.seen |= bit.unwrap_or(0);
        is_new
    }
}

fn word(number: u64) -> usize {
    (number % BITMAP_BITS / 64) as usize
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const WINDOW: u64 = 300;

    #[test]
    fn control_datagrams_are_taken_once() {
        let mut window = ReplayWindow::default();
        for (number, is_new) in [
            (0, true),
            (0, false),
            (3, true),
            (1, true),
            (1, false),
            (3, false),
            (66, true),
            (2, false), // too old to tell
            (4, true),
            (200, true),
            (66, false),
            (199, true),
            (u64::MAX - 1, true),
            (200, false),
        ] {
            assert_eq!(window.take(number), is_new, "{number}");
        }
    }

    proptest! {
        /// Against the plainest model: a set of numbers.
        #[test]
        fn agrees_with_a_set(numbers in proptest::collection::vec(0u64..900, 0..400)) {
            let mut window = ReceiveWindow::default();
            let mut set = BTreeSet::new();
            for number in numbers {
                let next = (0..).find(|n| !set.contains(n)).unwrap();
                let expected = match number {
                    n if n + WINDOW < next => Arrival::Settled,
                    n if set.contains(&n) => Arrival::Duplicate,
                    n if n >= next + WINDOW => Arrival::Beyond,
                    n if n == next => Arrival::InOrder,
                    _ => Arrival::Ahead,
                };
                prop_assert_eq!(window.classify(number, WINDOW), expected);
                if matches!(expected, Arrival::InOrder | Arrival::Ahead) {
                    window.insert(number);
                    set.insert(number);
                }
                let next = (0..).find(|n| !set.contains(n)).unwrap();
                prop_assert_eq!(window.next(), next);
                let mut out = [0; WORDS * 8];
                let len = window.bitmap(&mut out);
                for i in 0..8 * len as u64 {
                    let said = out[i as usize / 8] & (1 << (i % 8)) != 0;
                    prop_assert_eq!(said, set.contains(&(next + 1 + i)), "packet {}", next + 1 + i);
                }
                let highest_said = next + 8 * len as u64;
                prop_assert!(set.iter().all(|n| *n <= highest_said));
            }
        }
    }
}
