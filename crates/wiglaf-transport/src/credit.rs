//! Credit: how much a receiver lets each peer send before anybody has asked for it
//! (docs/protocol.md, section 6).
//!
//! A sender that is short of it announces even short messages, which then cost a round trip and a
//! train of their own each. If such messages are received, and do not lie for ever, more of them may
//! come at once (docs/adr/0033-credit-grows.md).

use crate::limits::{
    CREDIT_GROWTH_LEN_MAX, CREDIT_GROWTH_MAX, CREDIT_GROWTH_TOTAL_MAX, CREDIT_INITIAL,
    CREDIT_PER_MESSAGE,
};
use crate::session::{Session, State};
use crate::transport::{PeerId, Transport};

/// What an eager message of `len` bytes costs in credit.
pub(crate) fn charge(len: u64) -> u64 {
    len + CREDIT_PER_MESSAGE
}

impl Transport {
    /// Gives back the credit of an eager message of `len` bytes whose memory
    /// is free again.
    pub fn consume(&mut self, peer: PeerId, len: u64) {
        let Some(session) = self.sessions.get_mut(peer.0 as usize) else { return };
        session.consumed += charge(len);
        self.tell_credit(peer.0);
    }

    /// A receive has met a message of `len` bytes that `peer` had to announce: as much more may come at
    /// once from now on. Of those that met theirs when they were announced, no one else need tell.
    pub fn widen_credit(&mut self, peer: PeerId, len: u64) {
        let Some(session) = self.sessions.get_mut(peer.0 as usize) else { return };
        if len > CREDIT_GROWTH_LEN_MAX || session.state != State::Open {
            return;
        }
        let growth = charge(len)
            .min(CREDIT_GROWTH_MAX - u64::from(session.credit_growth))
            .min(CREDIT_GROWTH_TOTAL_MAX - self.credit_growth);
        session.credit_growth += growth as u32;
        self.credit_growth += growth;
        self.tell_credit(peer.0);
    }

    /// Has the peer told its limit if it has risen by enough.
    fn tell_credit(&mut self, index: u32) {
        let session = &mut self.sessions[index as usize];
        //= docs/protocol.md#6-credits
        //# A receiver MUST tell a raised limit of its own accord once it has risen by a quarter of the initial credit untold.
        if session.credit_to_tell() - session.credit_told >= CREDIT_INITIAL / 4 {
            session.ordered_debt.now = true;
            self.wake(index);
        }
    }
}

impl Session {
    /// Whether the peer's limit leaves room for an eager message of `len` bytes.
    pub(crate) fn has_credit(&self, len: usize) -> bool {
        self.eager_sent + charge(len as u64) <= self.credit_limit
    }

    /// The credit limit to tell the peer.
    pub(crate) fn credit_to_tell(&self) -> u64 {
        self.consumed + self.credit_granted()
    }

    /// Most charges of the peer's messages that may lie here.
    pub(crate) fn credit_granted(&self) -> u64 {
        CREDIT_INITIAL + u64::from(self.credit_growth)
    }
}
