//! A way that carries datagrams in one direction only, as past a firewall.

use crate::limits::{ONE_WAY_HEARD_MIN, ONE_WAY_LIMIT, SILENCE_CHECK};
use crate::time::Instant;

/// What tells that nothing gets to a peer that is heard.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OneWay {
    /// When the first datagram left that asks for an acknowledgement.
    began_at: Option<Instant>,
    /// When the peer was heard last; counted once in [`SILENCE_CHECK`].
    heard_at: Instant,
    heard: u32,
    /// Something that was sent has arrived.
    is_over: bool,
}

impl OneWay {
    pub(crate) fn note_sent(&mut self, now: Instant) {
        if !self.is_over {
            self.began_at.get_or_insert(now);
        }
    }

    /// Also of what the peer has sent before: it repeats what we acknowledge in vain.
    pub(crate) fn note_heard(&mut self, now: Instant) {
        if !self.is_over && self.began_at.is_some() && now.since(self.heard_at) >= SILENCE_CHECK {
            (self.heard_at, self.heard) = (now, self.heard.saturating_add(1));
        }
    }

    pub(crate) fn note_acknowledged(&mut self) {
        self.is_over = true;
    }

    /// This side stood still, and has taken no acknowledgement meanwhile.
    pub(crate) fn note_absence(&mut self, now: Instant) {
        (self.began_at, self.heard) = (self.began_at.map(|_| now), 0);
    }

    pub(crate) fn is_blocked(&self, now: Instant) -> bool {
        !self.is_over
            && self.heard >= ONE_WAY_HEARD_MIN
            && now.since(self.heard_at) <= 2 * SILENCE_CHECK
            && self.began_at.is_some_and(|at| now.since(at) >= ONE_WAY_LIMIT)
    }
}
