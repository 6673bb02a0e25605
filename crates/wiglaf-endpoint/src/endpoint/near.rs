//! The endpoint's use of its near side: which messages take the lane, and how
//! often the other links are looked at meanwhile.

use wiglaf_link::near::{Near, NearId};
use wiglaf_transport::{PeerId, Transport, Wanted};

use super::{Endpoint, POLLS_PER_CLOCK};
use crate::announced::Announced;
use crate::books::Books;
use crate::memory::Regions;
use crate::near::NearSide;
use crate::{Address, PostError, SendOp};

/// After something came over the lane, the other links are looked at less often
/// for so many polls.
const NEAR_POLLS: u32 = 64;
/// A look is due when polls add up to this: a look may be a system call, and
/// costs up to as much as a message.
const LOOK_DUE: u32 = 64;
/// What a poll that found nothing counts; one that found something counts 1.
const EMPTY_POLL: u32 = 4;
/// Looks between two at the timers.
const LOOKS_PER_TIMERS: u32 = 8;
/// So often a caller that waits looks at the lane before it is told that there
/// is nothing: the way through libfabric and MPI and back takes ten times as
/// long as a look.
const POLLS_IN_A_ROW: u32 = 16;

impl Endpoint {
    fn lane(&mut self) -> Option<(&mut dyn Near, &mut NearSide, &mut Books, &mut Transport)> {
        let lane = self.links[self.near_link?].near()?;
        Some((lane, &mut self.near, &mut self.books, &mut self.transport))
    }

    /// Messages to a peer that was just inserted take the lane, if there is one.
    pub(crate) fn join_near(&mut self, peer: PeerId, address: Address) {
        let Some((lane, near, _, transport)) = self.lane() else { return };
        if near.lane_to(peer).is_none()
            && transport.is_fresh(peer)
            && let Some(id) = lane.join(address.at, address.epoch.0)
        {
            near.join(id, peer, address.at, true);
        }
    }

    /// Sends what takes the short way; false for anything else.
    #[inline]
    pub(crate) fn post_short(&mut self, op: &SendOp, bytes: &[u8]) -> Result<bool, PostError> {
        let Some(to) = self.near.lane_to(op.peer) else { return Ok(false) };
        let Some((lane, near, books, _)) = self.lane() else { return Ok(false) };
        let sent = near.send_short(lane, books, to, op, bytes)?;
        self.tell_sleepers();
        Ok(sent)
    }

    pub(crate) fn post_near(
        &mut self,
        to: NearId,
        op: &SendOp,
        regions: &Regions,
    ) -> Result<(), PostError> {
        let (lane, near, books, _) = self.lane().ok_or(PostError::PeerGone)?;
        let posted = near.send(lane, books, to, op, regions);
        self.tell_sleepers();
        posted
    }

    pub(crate) fn progress_near(&mut self) -> bool {
        let path = self.near_link.unwrap_or(0);
        // Who has polled in vain since the last message is waiting.
        let waits = self.near_polls_left > 0 && self.quiet_polls > 0;
        let Some((lane, near, books, transport)) = self.lane() else { return false };
        let polls = if waits { POLLS_IN_A_ROW } else { 1 };
        (0..polls).any(|_| near.progress(lane, books, transport, path))
    }

    /// Whether this poll may leave the other links out.
    pub(crate) fn links_may_wait(&mut self, found: bool) -> bool {
        if found {
            self.found();
            self.tell_sleepers();
            self.quiet_polls = 0;
            self.near_polls_left = NEAR_POLLS;
            self.look_due += 1;
        } else if self.near_polls_left == 0 || !self.waiting.is_alone() {
            return false; // where others share the core, a round of them lies between two polls
        } else {
            self.near_polls_left -= 1;
            self.look_due += EMPTY_POLL;
        }
        if self.look_due < LOOK_DUE {
            self.quiet_polls = self.quiet_polls.wrapping_add(u32::from(!found));
            return !self.transport.is_ready() && !self.is_stalled();
        }
        self.look_due = 0;
        self.near_looks = self.near_looks.wrapping_add(1);
        if self.near_looks.is_multiple_of(LOOKS_PER_TIMERS) {
            self.quiet_polls = POLLS_PER_CLOCK - 1; // this look reads the clock
        }
        false
    }

    pub(crate) fn fetch_near(&mut self, message: &Announced, wanted: Wanted) {
        let Some((lane, near, books, _)) = self.lane() else { return };
        near.fetch(lane, books, message, wanted);
    }

    pub(crate) fn decline_near(&mut self, message: &Announced) {
        let Some((lane, near, ..)) = self.lane() else { return };
        near.decline(lane, message);
    }

    /// Gives back the credit of an eager message whose memory is free again.
    pub(crate) fn consume(&mut self, from: PeerId, len: u64) {
        if let Some(id) = self.near.lane_from(from)
            && let Some((lane, near, ..)) = self.lane()
        {
            near.consume(lane, id, len);
        } else {
            self.transport.consume(from, len);
            self.pull_more(from);
        }
    }

    pub(crate) fn close_near(&mut self) {
        if let Some((lane, near, ..)) = self.lane() {
            near.close(lane);
        }
    }
}
