//! One-sided operations of peers, and answers to this endpoint's, as they come.

use wiglaf_transport::{PeerId, Wanted};
use wiglaf_wire::{Class, Envelope};

use super::{Books, Pulling};
use crate::owed::Waiting;
use crate::target::Arriving;

impl Books {
    /// Names a pull of a peer's operation; answers what to ask for.
    pub(super) fn begin_remote(&mut self, peer: PeerId, arriving: Arriving) -> Wanted {
        let len = arriving.wanted();
        let token = self.pulling.insert(Pulling::Remote(peer, arriving)) as u64;
        Wanted { len, token }
    }

    /// Carries out operations of peers that waited for room, until one is to be fetched: from whom,
    /// which, and what of it.
    pub(crate) fn resume(&mut self) -> Option<(PeerId, u32, Wanted)> {
        loop {
            match self.target.owed.next()? {
                (peer, Waiting::Here { envelope, payload }) => {
                    let refund = Some(payload.len() as u64);
                    let event = self.target.perform(peer, &envelope, &payload, refund);
                    self.recvs_done.extend(event);
                }
                (peer, Waiting::Announced { envelope, total, send_id }) => {
                    let arriving = self.target.fetch(peer, &envelope, total);
                    return Some((peer, send_id, self.begin_remote(peer, arriving)));
                }
            }
        }
    }

    /// A one-sided operation or an answer that is here as a whole. True when
    /// its credit may be given back at once.
    pub(super) fn remote_message(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &[u8],
    ) -> bool {
        let len = payload.len() as u64;
        if envelope.class == Class::Answer {
            if let Some(id) = self.remote.answer_begins(peer, envelope, len) {
                self.remote.answer_part(id, 0, payload);
                let ended = self.remote.answer_ends(id, true);
                self.sends_done.extend(ended);
            }
            return true;
        }
        let event = self.target.take(peer, envelope, payload);
        self.recvs_done.extend(event);
        false
    }
}
