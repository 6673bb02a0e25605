//! Trains that their links had no room for, and are offered again.

use std::time::Duration;

use wiglaf_link::Sent;
use wiglaf_transport::{Instant as Tick, Transmit};

use super::Endpoint;
use crate::trains::as_train;

/// So long is a datagram offered that not every path carries, in time of the clock. A queue of packets
/// drains in some milliseconds at 100 Mbit/s; what is refused for longer, the next port refuses for its
/// length: a veth's end says ENOBUFS (Linux from 6.6 on) for what its other end would not take.
const REFUSED_FOR_MAX: Duration = Duration::from_millis(50);

/// A train that waits for room.
pub(super) struct Stalled {
    pub(super) transmit: Transmit,
    pub(super) bytes: Vec<u8>,
    /// When it was first offered.
    pub(super) since: Tick,
}

impl Endpoint {
    /// Offers the trains again that had no room. True when any was sent.
    pub(super) fn offer_stalled(&mut self, now: Tick) -> bool {
        let mut sent = false;
        for _ in 0..self.stalled.len() {
            let Some(Stalled { transmit, bytes, since }) = self.stalled.pop_front() else { break };
            if self.transport.is_gone(transmit.peer) {
                self.transport.release(transmit.peer);
                continue;
            }
            let link = self.links[transmit.path].as_mut();
            match link.send(&as_train(&transmit, &bytes)) {
                Ok(Sent::All | Sent::Lent) => {
                    self.transport.release(transmit.peer);
                    sent = true;
                }
                Ok(Sent::Full) => {
                    let may_be_too_long = transmit.segment_len > link.limits().frame_len_sure;
                    if may_be_too_long && now.since(since) > REFUSED_FOR_MAX {
                        // Lost, as on any other port that does not carry it: the protocol sends it again,
                        // and finds out what the path carries.
                        self.transport.release(transmit.peer);
                    } else {
                        self.stalled.push_back(Stalled { transmit, bytes, since });
                    }
                }
                Err(why) => self.break_link(transmit.path, why),
            }
        }
        sent
    }

    /// Whether a train waits for room.
    pub(crate) fn is_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }
}
