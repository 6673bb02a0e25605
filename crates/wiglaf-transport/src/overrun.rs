//! Frames that found no room at their receiver.
//!
//! An endpoint that was computing finds its buffer full, of one peer's frames perhaps, while another's
//! were all dropped. That one has probed meanwhile, at ever longer intervals, and would not know for
//! that long that it is listened to again; and whose last packets were dropped has nothing behind them
//! that would show the gap. 20 ms away cost up to 200 ms more. So who has lost frames, and does not
//! know whose, tells all its peers what has arrived and that the rest has not.

use std::time::Duration;

use crate::session::State;
use crate::time::Instant;
use crate::transport::Transport;

/// Peers are not told more often than that of losses.
const TELL_EVERY: Duration = Duration::from_millis(1);
/// Nor more often than that for each of them: 20,000 datagrams a second.
const TELL_EVERY_PER_PEER: Duration = Duration::from_micros(50);
/// Nor more often than that where nothing but such news comes, each time half as often as before:
/// many who tell each other might overrun each other with that.
const TELL_EVERY_IN_VAIN_MAX: Duration = Duration::from_millis(200);

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
}

impl Transport {
    /// Frames for this endpoint were dropped on their way to it by `path` for want of room, nobody knows
    /// whose. Its peers are to be told of it ([`Transport::tell_of_overrun`]).
    pub fn overrun(&mut self, path: usize) {
        self.overrun.owed |= 1 << path;
    }

    /// Whether peers are still to be told.
    #[inline]
    #[must_use]
    pub fn owes_overrun(&self) -> bool {
        self.overrun.owed != 0
    }

    /// When they may be told.
    #[inline]
    pub(crate) fn overrun_due_at(&self) -> Option<Instant> {
        self.owes_overrun().then(|| self.next_tell_at())
    }

    #[cold]
    fn next_tell_at(&self) -> Instant {
        let pause = TELL_EVERY.max(TELL_EVERY_PER_PEER * self.sessions.len() as u32);
        let longest = TELL_EVERY_IN_VAIN_MAX.max(pause);
        let doublings = self.overrun.in_vain.saturating_sub(1).min(16);
        let pause = (pause * (1 << doublings)).min(longest);
        self.overrun.told_at.map_or(Instant::ZERO, |at| at + pause)
    }

    /// Tells peers of an overrun, unless they were told just now; true if so. All that came before `now`
    /// must have been handed over: what is still to be taken would go again for nothing.
    #[cold]
    pub fn tell_of_overrun(&mut self, now: Instant) -> bool {
        if self.overrun_due_at().is_none_or(|due| due > now) {
            return false;
        }
        let paths = std::mem::take(&mut self.overrun.owed);
        self.overrun.told_at = Some(now);
        self.overrun.in_vain = self.overrun.in_vain.saturating_add(1);
        //= docs/protocol.md#4-acknowledgement
        //# An endpoint that learns that its link has dropped frames for want of room MUST acknowledge to all peers that it has heard, with the delay 65,532 us, when it has taken what did arrive.
        for index in 0..self.sessions.len() as u32 {
            let session = &mut self.sessions[index as usize];
            if session.state == State::Open && session.heard && paths & 1 << session.path != 0 {
                (session.ordered_debt.now, session.ordered_debt.overrun) = (true, true);
                self.wake(index);
            }
        }
        true
    }
}
