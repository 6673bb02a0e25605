//! Trains that their links had no room for, and are offered again.

use std::collections::VecDeque;
use std::io;

use wiglaf_link::Sent;
use wiglaf_transport::{Instant as Tick, Transmit, Transport};

use crate::limits::{REFUSED_FOR_MAX, STALLED_MAX};
use crate::link_set::LinkSet;
use crate::trains::as_train;

/// A train that waits for room.
struct Waiting {
    transmit: Transmit,
    bytes: Vec<u8>,
    /// When it was first offered.
    since: Tick,
}

/// All of them, one for a peer at most: the transport holds back what else there is for it.
#[derive(Default)]
pub(crate) struct Stalled(VecDeque<Waiting>);

impl Stalled {
    /// There was no room for that train. One peer's full ring is not to hold up the others.
    pub(crate) fn add(
        &mut self,
        transport: &mut Transport,
        transmit: Transmit,
        bytes: &[u8],
        since: Tick,
    ) {
        transport.hold(transmit.peer);
        self.0.push_back(Waiting { transmit, bytes: bytes.to_vec(), since });
    }

    /// Offers the first again. True when it was sent.
    ///
    /// # Errors
    /// The path whose link has failed, and why.
    pub(crate) fn offer(
        &mut self,
        now: Tick,
        links: &mut LinkSet,
        transport: &mut Transport,
    ) -> Result<bool, (usize, io::Error)> {
        let Some(Waiting { transmit, bytes, since }) = self.0.pop_front() else { return Ok(false) };
        if transport.is_gone(transmit.peer) {
            transport.release(transmit.peer);
            return Ok(false);
        }
        let link = links.of_path(transmit.path);
        let sent = link.send(&as_train(&transmit, &bytes)).map_err(|why| (transmit.path, why))?;
        let is_full = sent == Sent::Full;
        let may_be_too_long = transmit.segment_len > link.limits().frame_len_sure;
        if is_full && !(may_be_too_long && now.since(since) > REFUSED_FOR_MAX) {
            self.0.push_back(Waiting { transmit, bytes, since });
        } else {
            // If it was not sent, it is lost, as on any other port that does not carry it: the protocol sends it
            // again, and finds out what the path carries.
            transport.release(transmit.peer);
        }
        Ok(!is_full)
    }

    /// A link has failed, and with it what waits for it.
    pub(crate) fn leave(&mut self, path: usize) {
        self.0.retain(|waiting| waiting.transmit.path != path);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether no other may wait.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() == STALLED_MAX
    }
}
