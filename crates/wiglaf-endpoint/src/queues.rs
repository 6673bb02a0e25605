//! The matching queues by themselves, for the simulator: the same code as an endpoint's, without
//! memory and links.

use wiglaf_transport::PeerId;
use wiglaf_wire::Envelope;

use crate::RecvOp;
use crate::matching::{Matching, Payload, Posted, Unexpected};
use crate::memory::Regions;

/// Posted receives and unexpected messages.
#[derive(Debug, Default)]
pub struct Queues(Matching);

impl Queues {
    /// A receive is posted: the number of the message that it takes, if there is one.
    pub fn post(&mut self, op: RecvOp) -> Option<u64> {
        let message = self.0.take_unexpected(&op);
        if message.is_none() {
            self.0.post(Posted { op, regions: Regions::EMPTY, multi: None });
        }
        message.map(|message| message.serial)
    }

    /// Message number `serial` arrives: the context of the receive that takes it, if there is one.
    pub fn arrive(&mut self, peer: PeerId, envelope: Envelope, serial: u64) -> Option<usize> {
        let posted = self.0.take_posted(peer, &envelope);
        if posted.is_none() {
            let payload = Payload::Here(Vec::new());
            self.0.keep(Unexpected::new(serial, peer, envelope, 0, payload));
        }
        posted.map(|posted| posted.op.context)
    }
}
