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

/// What peers are to be told of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrun {
    is_owed: bool,
    told_at: Option<Instant>,
}

impl Transport {
    /// Frames for this endpoint were dropped on their way to it for want of room, nobody knows whose,
    /// and all that were there before have been handed over.
    pub fn overrun(&mut self) {
        self.overrun.is_owed = true;
    }

    /// Tells peers of it, as soon as it may be.
    #[inline]
    pub fn tell_of_overrun(&mut self, now: Instant) {
        if self.overrun.is_owed {
            self.tell_all(now);
        }
    }

    #[cold]
    fn tell_all(&mut self, now: Instant) {
        let pause = TELL_EVERY.max(TELL_EVERY_PER_PEER * self.sessions.len() as u32);
        if self.overrun.told_at.is_some_and(|at| now.since(at) < pause) {
            return;
        }
        self.overrun = Overrun { is_owed: false, told_at: Some(now) };
        //= docs/protocol.md#4-acknowledgement
        //# An endpoint that learns that its link has dropped frames for want of room MUST acknowledge to all peers that it has heard, with the delay 65,532 us, when it has taken what did arrive.
        for index in 0..self.sessions.len() as u32 {
            let session = &mut self.sessions[index as usize];
            if session.state == State::Open && session.heard {
                (session.ordered_debt.now, session.ordered_debt.overrun) = (true, true);
                self.wake(index);
            }
        }
    }
}
