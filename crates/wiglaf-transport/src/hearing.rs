//! Whether a peer is heard, and whether it hears this side: a way may carry datagrams in one direction only, as past
//! a firewall.

use std::time::Duration;

use crate::limits::{ONE_WAY_HEARD_MIN, ONE_WAY_LIMIT, SILENCE_CHECK};
use crate::time::Instant;

/// When a peer was heard, and whether it hears this side.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hearing {
    /// A valid datagram of the peer has come.
    heard: bool,
    /// When the peer was heard last, or began to owe an answer.
    heard_at: Instant,
    /// Whether anything that is sent gets there.
    one_way: OneWay,
}

impl Hearing {
    /// A valid datagram has come.
    #[inline]
    pub(crate) fn note(&mut self, now: Instant) {
        (self.heard, self.heard_at) = (true, now);
    }

    pub(crate) fn was_heard(&self) -> bool {
        self.heard
    }

    /// From here on the peer owes an answer.
    pub(crate) fn note_asked(&mut self, now: Instant) {
        self.heard_at = self.heard_at.max(now);
    }

    /// How long it was not heard, or has owed something without having been heard.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        now.since(self.heard_at)
    }

    /// When it is asked whether it is there, if it owes something that is no acknowledgement.
    pub(crate) fn check_at(&self) -> Instant {
        self.heard_at + SILENCE_CHECK
    }

    /// A timer was found so `late`: who finds his own timer so late was stopped, and heard nobody meanwhile.
    pub(crate) fn note_late_timer(&mut self, now: Instant, late: Duration) {
        if late >= SILENCE_CHECK {
            self.heard_at = now.min(self.heard_at + late);
            self.one_way.note_absence(now);
        }
    }

    /// Something left that asks for an acknowledgement, and nothing else was under way.
    pub(crate) fn note_sent(&mut self, now: Instant) {
        self.note_asked(now);
        self.one_way.note_sent(now);
    }

    /// A packet came, perhaps one that came before.
    pub(crate) fn note_packet(&mut self, now: Instant) {
        self.one_way.note_heard(now);
    }

    pub(crate) fn note_acknowledged(&mut self) {
        self.one_way.note_acknowledged();
    }

    /// Whether what is sent does not arrive, though the peer is heard.
    pub(crate) fn is_one_way(&self, now: Instant) -> bool {
        self.one_way.is_blocked(now)
    }
}

/// What tells that nothing gets to a peer that is heard. Every session has one, so it is small: times are in
/// milliseconds, of which 2^32 are 49 days, and only their differences count.
#[derive(Debug, Clone, Copy, Default)]
struct OneWay {
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
    fn note_sent(&mut self, now: Instant) {
        if self.state == State::Quiet {
            (self.state, self.began_ms) = (State::Waiting, millis(now));
            // So that the first that is heard counts.
            self.heard_ms = self.began_ms.wrapping_sub(SILENCE_CHECK.as_millis() as u32);
        }
    }

    /// Also of what the peer has sent before: it repeats what we acknowledge in vain.
    fn note_heard(&mut self, now: Instant) {
        if self.state == State::Waiting && since(now, self.heard_ms) >= SILENCE_CHECK {
            (self.heard_ms, self.heard) = (millis(now), self.heard.saturating_add(1));
        }
    }

    fn note_acknowledged(&mut self) {
        self.state = State::Over;
    }

    /// This side stood still, and has taken no acknowledgement meanwhile.
    fn note_absence(&mut self, now: Instant) {
        (self.began_ms, self.heard) = (millis(now), 0);
    }

    fn is_blocked(&self, now: Instant) -> bool {
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
