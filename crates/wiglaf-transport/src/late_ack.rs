//! Acknowledgements in headers that are taken after what they came with has been answered: the
//! message in the same datagram is what somebody waits for, and while its answer is on its way there
//! is time for the rest.
//!
//! Only what nobody can see is put off: the one packet that is acknowledged is awaited by no
//! operation, is not about to go again, and nothing waits for the room that it leaves. The times are
//! those of the arrival.

use wiglaf_wire::{Ack, Header, Kind, lane};

use crate::Sink;
use crate::incoming::Back;
use crate::sequence::expand;
use crate::session::Session;
use crate::time::Instant;
use crate::transport::Transport;

/// What a header acknowledged, of one session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LateAck {
    index: u32,
    cumulative: u32,
    delay_us: u16,
    came_at: Instant,
    /// When the links had been looked at before.
    came_after: Instant,
}

impl Transport {
    /// Takes the acknowledgement that was put off, if there is one. Whoever polls without end does
    /// so at the beginning of each poll; otherwise the next arrival or timeout does.
    #[inline]
    pub fn settle(&mut self, sink: &mut dyn Sink) {
        if let Some(late) = self.late_ack.take() {
            self.take_late_ack(late, sink);
        }
    }

    /// Takes what a header acknowledges that came `now`: at once, or after its datagram.
    pub(crate) fn take_cumulative(
        &mut self,
        index: u32,
        header: &Header,
        now: Instant,
        sink: &mut dyn Sink,
    ) {
        let session = &self.sessions[index as usize];
        let cumulative = expand(header.ack, session.ordered.base());
        if cumulative <= session.ordered.base() {
            return;
        }
        let late = LateAck {
            index,
            cumulative: header.ack,
            delay_us: header.ack_delay_us,
            came_at: now,
            came_after: self.looked_before_at,
        };
        if header.kind == Kind::Ordered && session.can_settle_late(cumulative) {
            self.late_ack = Some(late);
        } else {
            self.take_late_ack(late, sink);
        }
    }

    fn take_late_ack(&mut self, late: LateAck, sink: &mut dyn Sink) {
        let ack = Ack {
            lane: lane::ORDERED,
            delay_us: late.delay_us,
            is_exact: false,
            sent_at_us: 0,
            cumulative: late.cumulative,
            bitmap: &[],
        };
        let back = Back { lasted: late.came_at - late.came_after, is_clocked: false };
        self.take_ack(late.index, &ack, back, late.came_at, sink);
    }
}

impl Session {
    /// Whether nobody sees when the packets below `cumulative` are acknowledged.
    fn can_settle_late(&self, cumulative: u64) -> bool {
        cumulative == self.ordered.base() + 1
            && self.queue.is_empty()
            && !self.ordered.has_lost()
            && self.ordered.oldest().is_some_and(|body| body.tokens.is_empty())
    }
}
