//! Announced messages that are pulled before their receives are posted.

use wiglaf_transport::{PeerId, Wanted};

use super::{Books, Pulling, Receiving};
use crate::ahead::Entry;
use crate::matching::Payload;

impl Books {
    /// Names the pull of an announced message of `total` bytes for which no receive is posted.
    pub(crate) fn begin_ahead(&mut self, at: u32, total: u64) -> Wanted {
        let token = self.pulling.insert(Pulling::Ahead(at)) as u64;
        if let Some(message) = self.matching.coming(at) {
            let bytes = vec![0; total as usize].into();
            message.payload = Payload::Ahead { bytes, token: token as u32 };
        }
        Wanted { len: total, token }
    }

    /// The rest of a message that is pulled ahead goes to its receive, which has what has come.
    pub(crate) fn turn_ahead(&mut self, token: u32, receiving: Receiving) {
        if let Some(pulling) = self.pulling.get_mut(token as usize) {
            *pulling = Pulling::ToUser(receiving);
        }
    }

    /// The length of the announced message in that place, if it still waits for a pull.
    pub(crate) fn is_announced(&self, peer: PeerId, entry: Entry) -> Option<u64> {
        self.matching.announced_at(entry.at, peer, entry.send_id)
    }

    /// An announced message has been received, or is being pulled. True when no other of its peer
    /// waits any more.
    pub(crate) fn not_announced(&mut self, peer: PeerId) -> bool {
        let Self { ahead, matching, .. } = self;
        let is_valid =
            |entry: &Entry| matching.announced_at(entry.at, peer, entry.send_id).is_some();
        ahead.has(peer) && !ahead.remove(peer, is_valid)
    }
}
