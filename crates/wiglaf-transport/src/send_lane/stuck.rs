//! A lane of which nothing gets through any more.

use super::{SendLane, State};
use crate::time::Instant;

/// So many probes in a row are not chance, nor a peer that was away for a moment: with their growing
/// intervals they take half a second, where datagrams take less than a millisecond.
const STUCK_PROBES: u32 = 10;

impl<T> SendLane<T> {
    /// Whether it has probed in vain for long.
    pub(crate) fn is_stuck(&self) -> bool {
        self.probes >= STUCK_PROBES && !self.is_idle()
    }

    /// Whether the packet that may be sent again now is the oldest that is not acknowledged.
    pub(crate) fn has_lost_oldest(&self) -> bool {
        self.has_lost() && self.lost.front() == Some(&self.base)
    }

    /// Lets the oldest packet go before all others that are lost.
    pub(crate) fn let_oldest_go_first(&mut self) {
        let is_lost = self.packets.front().is_some_and(|packet| packet.state == State::Lost);
        if is_lost && self.lost.front() != Some(&self.base) {
            self.lost.retain(|number| *number != self.base);
            self.lost.push_front(self.base);
        }
    }

    /// Takes all that is not acknowledged for lost, from the oldest on: it was too long for the path, which is
    /// no congestion.
    pub(crate) fn lose_all(&mut self) {
        self.lost.clear();
        for (i, packet) in self.packets.iter_mut().enumerate() {
            if packet.state != State::Acked {
                packet.state = State::Lost;
                self.lost.push_back(self.base + i as u64);
            }
        }
        self.recovery_end = self.next();
        (self.flying, self.probes, self.probed) = (0, 0, None);
        (self.doubted, self.overrun_at) = (false, Instant::ZERO);
    }

    /// Packets are at most so many bytes long from now on.
    pub(crate) fn set_packet_len(&mut self, len_max: usize) {
        self.congestion.set_packet_len(len_max);
    }
}

impl<T> super::BulkLane<T> {
    /// Packets are at most so many bytes long from now on.
    pub(crate) fn set_packet_len(&mut self, len_max: usize) {
        self.control.packet_len_max = len_max;
        if let Some(lane) = &mut self.lane {
            lane.set_packet_len(len_max);
        }
    }
}
