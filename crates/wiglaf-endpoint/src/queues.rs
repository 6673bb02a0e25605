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
        message.and_then(|(_, message)| message.envelope().data)
    }

    /// Message number `number` arrives: the context of the receive that takes it, if there is one.
    pub fn arrive(&mut self, peer: PeerId, envelope: Envelope, number: u64) -> Option<usize> {
        let posted = self.0.take_posted(peer, &envelope);
        if posted.is_none() {
            let payload = Payload::whole(Vec::new());
            let envelope = Envelope { data: Some(number), ..envelope };
            self.0.keep(Unexpected::new(peer, envelope, payload));
        }
        posted.map(|posted| posted.op.context)
    }
}
