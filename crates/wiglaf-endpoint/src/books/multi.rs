//! Buffers that take several messages, one behind the other.

use super::{Books, MultiBuffer};
use crate::matching::Posted;

impl Books {
    /// Makes a multi-receive buffer known.
    pub(crate) fn add_multi(&mut self, min_free: usize) -> usize {
        self.multi.insert(MultiBuffer { used: 0, min_free, outstanding: 0, retired: false })
    }

    /// Gives a matched message its memory: all of the receive's, or the next
    /// slice of its multi-receive buffer.
    pub(crate) fn place(&mut self, mut posted: Posted, total: u64) -> Posted {
        let Some(id) = posted.multi else { return posted };
        let Some(buffer) = self.multi.get_mut(id) else { return posted };
        let whole = posted.regions.len();
        let len = usize::try_from(total).unwrap_or(usize::MAX);
        posted.regions = posted.regions.slice(buffer.used, len);
        buffer.used += posted.regions.len();
        buffer.outstanding += 1;
        if whole - buffer.used < buffer.min_free.max(1) {
            buffer.retired = true;
            self.matching.withdraw(|p| p.multi == Some(id));
        }
        posted
    }

    /// One message fewer is arriving in the buffer; true when that was its last.
    pub(super) fn leave_multi(&mut self, id: Option<usize>) -> bool {
        let Some(id) = id else { return false };
        let Some(buffer) = self.multi.get_mut(id) else { return false };
        buffer.outstanding -= 1;
        let released = buffer.retired && buffer.outstanding == 0;
        if released {
            self.multi.remove(id);
        }
        released
    }
}
