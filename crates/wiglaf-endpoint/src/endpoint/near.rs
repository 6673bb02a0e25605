//! The endpoint's use of its near side: which messages take the lane, and how
//! often the other links are looked at meanwhile.

use wiglaf_link::near::{Near, NearId};
use wiglaf_transport::{PeerId, Transport, Wanted};

use super::{Endpoint, POLLS_PER_CLOCK};
use crate::books::Books;
use crate::memory::Regions;
use crate::near::{Announced, NearSide};
use crate::{Address, PostError, SendOp};

/// After something came over the lane, other links may wait in so many polls.
const NEAR_POLLS: u32 = 256;
/// Even then they are looked at once in so many polls.
const POLLS_PER_LINKS: u32 = 8;
/// And at timers so often.
const POLLS_PER_TIMERS: u32 = 8 * POLLS_PER_LINKS;

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

    pub(crate) fn post_near(
        &mut self,
        to: NearId,
        op: &SendOp,
        regions: &Regions,
    ) -> Result<(), PostError> {
        let (lane, near, books, _) = self.lane().ok_or(PostError::PeerGone)?;
        near.send(lane, books, to, op, regions)
    }

    pub(crate) fn progress_near(&mut self) -> bool {
        let path = self.near_link.unwrap_or(0);
        let Some((lane, near, books, transport)) = self.lane() else { return false };
        near.progress(lane, books, transport, path)
    }

    /// Whether this poll may leave the other links out. While messages come
    /// over the lane, they are looked at in every few polls only: each look
    /// costs as much as a poll of the lane.
    pub(crate) fn links_may_wait(&mut self, found: bool) -> bool {
        if found {
            self.waiting.found();
            self.quiet_polls = 0;
            self.near_polls_left = NEAR_POLLS;
        } else if self.near_polls_left == 0 {
            return false;
        } else {
            self.near_polls_left -= 1;
        }
        self.near_polls = self.near_polls.wrapping_add(1);
        if self.near_polls.is_multiple_of(POLLS_PER_TIMERS) {
            self.quiet_polls = POLLS_PER_CLOCK - 1; // the look reads the clock
        } else if !self.near_polls.is_multiple_of(POLLS_PER_LINKS) {
            self.quiet_polls = self.quiet_polls.wrapping_add(u32::from(!found));
            return !self.transport.is_ready() && self.stalled.is_none();
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
        }
    }

    pub(crate) fn close_near(&mut self) {
        if let Some((lane, near, ..)) = self.lane() {
            near.close(lane);
        }
    }
}
