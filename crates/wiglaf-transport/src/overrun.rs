//! Frames that found no room at their receiver.
//!
//! An endpoint that was computing finds its buffer full, of one peer's frames perhaps, while another's
//! were all dropped. That one has probed meanwhile, at ever longer intervals, and would not know for
//! that long that it is listened to again; and whose last packets were dropped has nothing behind them
//! that would show the gap. 20 ms away cost up to 200 ms more. So who has lost frames, and does not
//! know whose, tells all its peers what has arrived and that the rest has not.

use crate::limits::{TELL_EVERY, TELL_EVERY_IN_VAIN_MAX, TELL_EVERY_PER_PEER};
use crate::time::Instant;

/// What peers are to be told of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrun {
    /// The paths whose peers are to be told, by bits.
    owed: u32,
    told_at: Option<Instant>,
    /// How often they were told since a packet came.
    in_vain: u8,
}

impl Overrun {
    /// A packet has come.
    #[inline]
    pub(crate) fn note_packet(&mut self) {
        self.in_vain = 0;
    }

    /// Frames were dropped on their way by `path`.
    pub(crate) fn note(&mut self, path: usize) {
        self.owed |= 1 << path;
    }

    /// Whether peers are still to be told.
    #[inline]
    pub(crate) fn is_owed(&self) -> bool {
        self.owed != 0
    }

    /// When they may be told, if there are so many.
    #[inline]
    pub(crate) fn due_at(&self, peers: usize) -> Option<Instant> {
        self.is_owed().then(|| self.next_tell_at(peers))
    }

    #[cold]
    fn next_tell_at(&self, peers: usize) -> Instant {
        let pause = TELL_EVERY.max(TELL_EVERY_PER_PEER * peers as u32);
        let longest = TELL_EVERY_IN_VAIN_MAX.max(pause);
        let doublings = self.in_vain.saturating_sub(1).min(16);
        let pause = (pause * (1 << doublings)).min(longest);
        self.told_at.map_or(Instant::ZERO, |at| at + pause)
    }

    /// Peers are told now: those of which paths, by bits.
    pub(crate) fn tell(&mut self, now: Instant) -> u32 {
        self.told_at = Some(now);
        self.in_vain = self.in_vain.saturating_add(1);
        std::mem::take(&mut self.owed)
    }
}
