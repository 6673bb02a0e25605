//! What a lane has lost when its peer had no room for it.

use super::{Packet, SendLane, State};
use crate::rtt::Rtt;
use crate::time::Instant;

impl<T> SendLane<T> {
    /// The peer has dropped frames for want of room, and said so at `said_at`.
    pub(crate) fn on_overrun(&mut self, now: Instant, said_at: Instant, rtt: &Rtt) {
        let way = rtt.arrival_timeout();
        self.lose_dropped(now, said_at.before(way));
        // What had gone before, but might not have been there yet, is acknowledged by then, or was dropped.
        let is_left = |p: &Packet<T>| p.state == State::Flying && p.sent_at <= said_at;
        self.overrun_at = if self.packets.iter().any(is_left) { said_at } else { Instant::ZERO };
    }

    /// Takes for lost what went until `sent_until` and is not acknowledged: the peer had no room for it.
    pub(super) fn lose_dropped(&mut self, now: Instant, sent_until: Instant) {
        //= docs/protocol.md#4-acknowledgement
        //# A sender MUST take for lost what an ACK record with the delay 65,532 us does not acknowledge and that went before it, when a round trip has passed.
        let is_old = |packet: &Packet<T>| packet.sent_at <= sent_until;
        let was_lost = |p: &Packet<T>| p.state == State::Flying && p.retransmitted && is_old(p);
        let lost_again = self.packets.iter().any(was_lost);
        let recovery_end = self.recovery_end;
        if self.lose(is_old) == 0 {
            return;
        }
        if lost_again && self.recovery_end == recovery_end {
            self.congestion.on_loss(); // who is overrun again and again is sent less each time
        }
        // It listens again.
        (self.probes, self.probed, self.doubted) = (0, None, false);
        self.progress_at = self.progress_at.max(now);
    }

    /// When what the peer may have dropped has been acknowledged, or was.
    pub(super) fn overrun_timeout(&self, rtt: &Rtt) -> Option<Instant> {
        (self.overrun_at != Instant::ZERO).then(|| self.overrun_at + rtt.arrival_timeout())
    }
}
