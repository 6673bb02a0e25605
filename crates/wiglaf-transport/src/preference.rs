//! Messages that are longer than eager ones, and not yet long, have two ways: unasked on the bulk
//! lane, or as eager ones in trains to the port of single datagrams. Which takes less time depends on
//! how soon the memory of a lent train can be written to again, which whoever writes trains knows
//! (docs/adr/0032-two-ways-for-256-kib.md).

use crate::limits::{EAGER_LEN_MAX, OTHER_WAY_EVERY, UNASKED_LEN_MAX};
use crate::session::Session;
use crate::transport::{PeerId, Transport, charge};

impl Transport {
    /// From now on such messages go as eager ones over that path, or no longer; every
    /// [`OTHER_WAY_EVERY`]th goes the other way, so that what it takes is not forgotten.
    pub fn prefer_eager(&mut self, path: usize, is_better: bool) {
        let bit = 1_u32.checked_shl(path as u32).unwrap_or(0);
        match is_better {
            true => self.eager_preferred |= bit,
            false => self.eager_preferred &= !bit,
        }
    }

    /// Whether a message of `len` bytes is one of them, and now takes the way of eager ones.
    pub(crate) fn goes_as_eager(&mut self, peer: PeerId, len: usize) -> bool {
        if len <= EAGER_LEN_MAX || len as u64 > UNASKED_LEN_MAX {
            return false;
        }
        let session = &self.sessions[peer.0 as usize];
        let path = &self.config.paths[session.path];
        // One way among many that are under way would be behind the others, or before them.
        let is_alone = session.pending_sends == 0
            && session.queue.is_empty()
            && session.ordered_on_bulk_below <= session.ordered.base();
        let packets = len / path.segment_len_max() + 2;
        // A window that has not been needed yet is narrow, and grows.
        let has_room = packets <= 4 * session.ordered.room() as usize
            && session.eager_sent + charge(len as u64) <= session.credit_limit;
        if path.latency_train_max <= 1 || !self.config.flow_control || !is_alone || !has_room {
            return false;
        }
        let is_preferred =
            self.eager_preferred & 1_u32.checked_shl(session.path as u32).unwrap_or(0) != 0;
        self.turns = (self.turns + 1) % OTHER_WAY_EVERY;
        is_preferred != (self.turns == 0)
    }
}

impl Session {
    /// All that waits goes to the port of single datagrams, however much it is.
    pub(crate) fn keep_on_latency(&mut self) {
        self.ordered_on_latency_below = self.ordered.next() + self.queue.len() as u64;
    }
}
