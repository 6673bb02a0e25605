//! A way that carries datagrams in one direction only, as past a firewall.

use std::time::Duration;

use crate::limits::{ONE_WAY_HEARD_MIN, ONE_WAY_LIMIT, SILENCE_CHECK};
use crate::time::Instant;

/// What tells that nothing gets to a peer that is heard. Every session has one, so it is small: times are in
/// milliseconds, of which 2^32 are 49 days, and only their differences count.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OneWay {
    /// When the first datagram left that asks for an acknowledgement.
    began_ms: u32,
    /// When the peer was heard last; counted once in [`SILENCE_CHECK`].
    heard_ms: u32,
    heard: u8,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Nothing that asks for an acknowledgement has left.
    #[default]
    Quiet,
    /// Nothing has been acknowledged.
    Waiting,
    /// Something that was sent has arrived.
    Over,
}

impl OneWay {
    pub(crate) fn note_sent(&mut self, now: Instant) {
        if self.state == State::Quiet {
            (self.state, self.began_ms) = (State::Waiting, millis(now));
            // So that the first that is heard counts.
            self.heard_ms = self.began_ms.wrapping_sub(SILENCE_CHECK.as_millis() as u32);
        }
    }

    /// Also of what the peer has sent before: it repeats what we acknowledge in vain.
    pub(crate) fn note_heard(&mut self, now: Instant) {
        if self.state == State::Waiting && since(now, self.heard_ms) >= SILENCE_CHECK {
            (self.heard_ms, self.heard) = (millis(now), self.heard.saturating_add(1));
        }
    }

    pub(crate) fn note_acknowledged(&mut self) {
        self.state = State::Over;
    }

    /// This side stood still, and has taken no acknowledgement meanwhile.
    pub(crate) fn note_absence(&mut self, now: Instant) {
        (self.began_ms, self.heard) = (millis(now), 0);
    }

    pub(crate) fn is_blocked(&self, now: Instant) -> bool {
        self.state == State::Waiting
            && self.heard >= ONE_WAY_HEARD_MIN
            && since(now, self.heard_ms) <= 2 * SILENCE_CHECK
            && since(now, self.began_ms) >= ONE_WAY_LIMIT
    }
}

fn millis(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

fn since(now: Instant, then_ms: u32) -> Duration {
    Duration::from_millis(millis(now).wrapping_sub(then_ms).into())
}
