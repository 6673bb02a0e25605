//! Credit: how much a receiver lets each peer send before anybody has asked for it
//! (docs/protocol.md, section 6).
//!
//! A sender that is short of it announces even short messages, which then cost a round trip and a
//! train of their own each. If such messages are received, and do not lie for ever, more of them may
//! come at once (docs/adr/0026-size-classes-of-messages.md).

use wiglaf_wire::Class;

use crate::limits::{
    CREDIT_GROWTH_LEN_MAX, CREDIT_GROWTH_MAX, CREDIT_GROWTH_TOTAL_MAX, CREDIT_INITIAL,
    CREDIT_PER_MESSAGE, PULLED_AHEAD_MAX, UNCREDITED_LEN_MAX,
};
use crate::session::{Session, State};
use crate::transport::{PeerId, Transport};

/// What an eager message of `len` bytes costs in credit.
pub(crate) fn charge(len: u64) -> u64 {
    len + CREDIT_PER_MESSAGE
}

/// Whether a message of that class and of `len` bytes is announced where its sender is out of credit.
#[must_use]
pub fn needs_credit(class: Class, len: usize) -> bool {
    !matches!(class, Class::Tagged | Class::Untagged) || len > UNCREDITED_LEN_MAX
}

/// What an unread message of `len` bytes takes of what its sender's credit bounds: nothing if it may have gone
/// without any. For those who check the bound.
#[must_use]
pub fn bounded_charge(len: u64) -> u64 {
    if len <= UNCREDITED_LEN_MAX as u64 { 0 } else { charge(len) }
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

    /// Whether credit that comes free is kept for messages that the peer has announced, and not told.
    pub fn hold_credit(&mut self, peer: PeerId, hold: bool) {
        let Some(session) = self.sessions.get_mut(peer.0 as usize) else { return };
        session.credit_held = hold;
        self.tell_credit(peer.0);
    }

    /// Whether there is room for so many announced messages of a peer whose messages are being
    /// received that it pays to pull them.
    #[must_use]
    pub fn may_pull_ahead(&self, peer: PeerId) -> bool {
        let session = self.sessions.get(peer.0 as usize);
        session.is_some_and(|session| session.room_ahead(true) >= CREDIT_INITIAL / 4)
    }

    /// Charges an announced message of `len` bytes, which is about to be pulled without a receive;
    /// false when there is no room for it, of which there is more where messages of that peer
    /// `are_received`. [`Transport::consume`] gives it back.
    pub fn charge_ahead(&mut self, peer: PeerId, len: u64, are_received: bool) -> bool {
        let Some(session) = self.sessions.get_mut(peer.0 as usize) else { return false };
        let may = session.state == State::Open && charge(len) <= session.room_ahead(are_received);
        if may {
            session.charged_ahead += charge(len);
        }
        may
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
    /// Whether a message of that class and of `len` bytes may go without being announced.
    pub(crate) fn may_be_eager(&self, class: Class, len: usize) -> bool {
        !needs_credit(class, len) || self.has_credit(len)
    }

    /// Whether the peer's limit leaves room for an eager message of `len` bytes.
    pub(crate) fn has_credit(&self, len: usize) -> bool {
        self.eager_sent + charge(len as u64) <= self.credit_limit
    }

    /// The credit limit to tell the peer.
    pub(crate) fn credit_to_tell(&self) -> u64 {
        if self.credit_held { self.credit_told } else { self.credit_told + self.room_ahead(false) }
    }

    /// Charges of announced messages that may be pulled ahead: as far as the peer's limit could rise
    /// above what it was told, and something beyond it where its messages `are_received`.
    fn room_ahead(&self, are_received: bool) -> u64 {
        let beyond = if are_received { PULLED_AHEAD_MAX } else { 0 };
        let free = self.consumed + self.credit_granted() + beyond;
        free.saturating_sub(self.charged_ahead + self.credit_told)
    }

    /// Most charges of the peer's messages that may lie here.
    pub(crate) fn credit_granted(&self) -> u64 {
        CREDIT_INITIAL + u64::from(self.credit_growth)
    }
}
