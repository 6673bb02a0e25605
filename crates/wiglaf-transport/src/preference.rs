//! Messages that are longer than eager ones, and not yet long, have two ways: unasked on the bulk
//! lane, or as eager ones in trains to the port of single datagrams. Which takes less time depends on
//! how soon the memory of a lent train can be written to again, which whoever writes trains knows
//! (docs/adr/0026-size-classes-of-messages.md).

use crate::limits::{OTHER_WAY_EVERY, may_go_either_way};
use crate::transport::{PeerId, Transport};

impl Transport {
    /// From now on such messages go as eager ones, or no longer; every [`OTHER_WAY_EVERY`]th goes
    /// the other way, so that what it takes is not forgotten.
    pub fn prefer_eager(&mut self, is_better: bool) {
        self.prefers_eager = is_better;
    }

    /// Whether a message of `len` bytes is one of them, and now takes the way of eager ones.
    pub(crate) fn goes_as_eager(&mut self, peer: PeerId, len: usize) -> bool {
        if !may_go_either_way(len) {
            return false;
        }
        let session = &self.sessions[peer.0 as usize];
        let path = session.way(&self.config);
        // One way among many that are under way would be behind the others, or before them.
        let is_alone = session.has_nothing_to_send() && !session.is_behind_bulk();
        let packets = len / path.segment_len_max() + 2;
        // A window that has not been needed yet is narrow, and grows.
        let has_room = packets <= 4 * session.ordered.room() as usize && session.has_credit(len);
        if path.latency_train_max <= 1 || !self.config.flow_control || !is_alone || !has_room {
            return false;
        }
        self.turns = (self.turns + 1) % OTHER_WAY_EVERY;
        self.prefers_eager != (self.turns == 0)
    }
}
