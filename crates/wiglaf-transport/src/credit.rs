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
use crate::sequence::expand;

/// What an eager message of `len` bytes costs in credit.
fn charge(len: u64) -> u64 {
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

/// Credit between this side and one peer, both ways.
#[derive(Debug, Clone)]
pub(crate) struct Credit {
    /// Total of eager charges that the peer allows.
    limit: u64,
    /// Total of eager charges so far.
    sent: u64,
    /// Total of eager charges that this side has consumed.
    consumed: u64,
    /// The limit that the peer was told last.
    told: u64,
    /// Charges of announced messages that were pulled before their receives; those are consumed, too.
    charged_ahead: u64,
    /// Credit that comes free is kept for such messages.
    is_held: bool,
    /// What the peer may send unasked beyond the initial credit, in bytes of charges.
    growth: u32,
}

impl Credit {
    /// As if that much had gone both ways already.
    pub(crate) fn begin_at(number: u64) -> Self {
        let limit = number + CREDIT_INITIAL;
        Self {
            limit,
            sent: number,
            consumed: number,
            told: limit,
            charged_ahead: 0,
            is_held: false,
            growth: 0,
        }
    }

    /// Takes the limit of which the peer has told the low bits.
    pub(crate) fn take_limit(&mut self, low: u32) {
        //= docs/protocol.md#6-credits
        //# A receiver MUST NOT reduce a limit that it has told; a sender MUST ignore a lower one.
        self.limit = self.limit.max(expand(low, self.limit));
    }

    /// Whether a message of that class and of `len` bytes may go without being announced.
    pub(crate) fn may_be_eager(&self, class: Class, len: usize) -> bool {
        //= docs/protocol.md#6-credits
        //# A sender MUST NOT let an eager message take the total of its charges past the limit, unless it is tagged or untagged and of 64 bytes at most.
        !needs_credit(class, len) || self.sent + charge(len as u64) <= self.limit
    }

    /// An eager message of `len` bytes goes.
    pub(crate) fn spend(&mut self, len: u64) {
        self.sent += charge(len);
    }

    /// How much more may be sent unasked, in bytes of charges.
    pub(crate) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.sent)
    }

    /// An eager message of `len` bytes lies here no longer.
    pub(crate) fn consume(&mut self, len: u64) {
        self.consumed += charge(len);
    }

    /// Lets the peer send as much more as a message of `len` bytes, of what all peers share.
    pub(crate) fn widen(&mut self, len: u64, growth_of_all: &mut u64) {
        if len > CREDIT_GROWTH_LEN_MAX {
            return;
        }
        let growth = charge(len)
            .min(CREDIT_GROWTH_MAX - self.growth())
            .min(CREDIT_GROWTH_TOTAL_MAX - *growth_of_all);
        self.growth += growth as u32;
        *growth_of_all += growth;
    }

    /// What the peer may send beyond the initial credit.
    pub(crate) fn growth(&self) -> u64 {
        u64::from(self.growth)
    }

    /// Keeps credit that comes free, or tells it again.
    pub(crate) fn hold(&mut self, hold: bool) {
        self.is_held = hold;
    }

    /// Whether it pays to pull messages of a peer whose messages are being received.
    pub(crate) fn may_pull_ahead(&self) -> bool {
        self.room_ahead(true) >= CREDIT_INITIAL / 4
    }

    /// Charges an announced message of `len` bytes, if there is room for it.
    pub(crate) fn charge_ahead(&mut self, len: u64, are_received: bool) -> bool {
        let may = charge(len) <= self.room_ahead(are_received);
        if may {
            self.charged_ahead += charge(len);
        }
        may
    }

    /// Whether the limit has risen by so much that the peer is to be told by itself.
    pub(crate) fn is_to_be_told(&self) -> bool {
        //= docs/protocol.md#6-credits
        //# A receiver MUST tell a raised limit of its own accord once it has risen by a quarter of the initial credit untold.
        self.to_tell() - self.told >= CREDIT_INITIAL / 4
    }

    /// The limit, which the peer is told now.
    pub(crate) fn tell(&mut self) -> u64 {
        self.told = self.to_tell();
        self.told
    }

    fn to_tell(&self) -> u64 {
        if self.is_held { self.told } else { self.told + self.room_ahead(false) }
    }

    /// Charges of announced messages that may be pulled ahead: as far as the peer's limit could rise
    /// above what it was told, and something beyond it where its messages `are_received`.
    fn room_ahead(&self, are_received: bool) -> u64 {
        let beyond = if are_received { PULLED_AHEAD_MAX } else { 0 };
        let free = self.consumed + self.granted() + beyond;
        free.saturating_sub(self.charged_ahead + self.told)
    }

    /// Most charges of the peer's messages that may lie here.
    pub(crate) fn granted(&self) -> u64 {
        CREDIT_INITIAL + self.growth()
    }
}
