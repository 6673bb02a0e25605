//! A lane of which nothing gets through any more.

use super::SendLane;
use crate::congestion::Control;

/// So many probes in a row are not chance, nor a peer that was away for a moment: with their growing
/// intervals they take half a second, where datagrams take less than a millisecond.
const STUCK_PROBES: u32 = 10;

impl<T> SendLane<T> {
    /// Whether it has probed in vain for long.
    pub(crate) fn is_stuck(&self) -> bool {
        self.probes >= STUCK_PROBES && !self.is_idle()
    }

    /// Packets have another length from now on.
    pub(crate) fn set_control(&mut self, control: Control) {
        self.congestion.set_control(control);
    }
}

impl<T> super::BulkLane<T> {
    /// Packets have another length from now on.
    pub(crate) fn set_control(&mut self, control: Control) {
        self.control = control;
        if let Some(lane) = &mut self.lane {
            lane.set_control(control);
        }
    }
}
