//! What a sequence consists of: the calls that are made, with what they may be given.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::MARK;
use crate::ops::fi;
use crate::remote::{self, Remote};
use crate::wrong::WRONG;

/// Around every border: nothing, a frame, what may be injected, sent eagerly, pulled.
pub(crate) const LENS: [usize; 10] = [0, 1, 64, 1280, 1281, 1500, 20_000, 32_768, 32_769, 200_000];

/// How a message is sent, or received: all nine calls of each table.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SendForm {
    Plain,
    Vector,
    /// With these flags.
    Message(u64),
    Inject,
    Data,
    InjectData,
}

impl SendForm {
    pub(crate) fn injects(self) -> bool {
        match self {
            Self::Inject | Self::InjectData => true,
            Self::Message(flags) => flags & fi::FI_INJECT != 0,
            _ => false,
        }
    }

    pub(crate) fn has_data(self) -> bool {
        match self {
            Self::Data | Self::InjectData => true,
            Self::Message(flags) => flags & fi::FI_REMOTE_CQ_DATA != 0,
            _ => false,
        }
    }

    /// With a flag that is not offered.
    pub(crate) fn is_refused(self) -> bool {
        matches!(self, Self::Message(flags) if flags & fi::FI_FENCE != 0)
    }

    /// Whether its completion has an entry, in a queue that may show only what asks for it.
    pub(crate) fn is_shown(self, is_selective: bool) -> bool {
        match self {
            Self::Inject | Self::InjectData => false,
            Self::Message(flags) => !is_selective || flags & fi::FI_COMPLETION != 0,
            _ => !is_selective,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum RecvForm {
    Plain,
    Vector,
    /// With `FI_COMPLETION`, or without.
    Message(bool),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) is_tagged: bool,
    pub(crate) form: SendForm,
    pub(crate) tag: u64,
    pub(crate) len: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Looked {
    pub(crate) is_tagged: bool,
    pub(crate) from: Option<usize>,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// So many messages, one behind the other.
    Send {
        from: usize,
        to: usize,
        sent: Sent,
        count: usize,
    },
    Recv {
        at: usize,
        look: Looked,
        form: RecvForm,
        len: usize,
    },
    Multi {
        at: usize,
        from: Option<usize>,
        len: usize,
    },
    Peek {
        at: usize,
        look: Looked,
        claim: bool,
        discard: bool,
    },
    Claimed {
        at: usize,
        which: usize,
        discard: bool,
        len: usize,
    },
    Cancel {
        at: usize,
        which: usize,
    },
    Read {
        at: usize,
    },
    Remote(Remote),
    Wrong {
        at: usize,
        what: usize,
    },
}

fn tag() -> impl Strategy<Value = u64> {
    // Bits at both ends matter.
    (0u64..4).prop_map(|n| n | n << 40)
}

pub(crate) fn len() -> impl Strategy<Value = usize> {
    proptest::sample::select(&LENS[..])
}

fn look() -> impl Strategy<Value = Looked> {
    let ignore = proptest::sample::select(&[0, 1, 3, 3 | 3 << 40, !MARK][..]);
    (any::<bool>(), proptest::option::of(0usize..3), tag(), ignore)
        .prop_map(|(is_tagged, from, tag, ignore)| Looked { is_tagged, from, tag, ignore })
}

fn send_form() -> impl Strategy<Value = SendForm> {
    let flags = [
        0,
        fi::FI_COMPLETION,
        fi::FI_COMPLETION | fi::FI_REMOTE_CQ_DATA,
        fi::FI_DELIVERY_COMPLETE,
        fi::FI_COMPLETION | fi::FI_DELIVERY_COMPLETE,
        fi::FI_COMPLETION | fi::FI_TRANSMIT_COMPLETE,
        fi::FI_COMPLETION | fi::FI_INJECT,
        fi::FI_COMPLETION | fi::FI_INJECT_COMPLETE,
        fi::FI_COMPLETION | fi::FI_FENCE,
    ];
    prop_oneof![
        Just(SendForm::Plain),
        Just(SendForm::Vector),
        proptest::sample::select(Vec::from(flags)).prop_map(SendForm::Message),
        Just(SendForm::Inject),
        Just(SendForm::Data),
        Just(SendForm::InjectData),
    ]
}

fn sent() -> impl Strategy<Value = Sent> {
    (any::<bool>(), send_form(), tag(), len()).prop_map(|(is_tagged, form, tag, len)| Sent {
        is_tagged,
        form,
        tag,
        len,
    })
}

fn recv_form() -> impl Strategy<Value = RecvForm> {
    prop_oneof![
        Just(RecvForm::Plain),
        Just(RecvForm::Vector),
        any::<bool>().prop_map(RecvForm::Message),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let at = 0usize..3;
    prop_oneof![
        8 => (0usize..3, 0usize..3, sent(), Just(1))
            .prop_map(|(from, to, sent, count)| Action::Send { from, to, sent, count }),
        // Enough of them exhaust the credit.
        1 => (0usize..3, 0usize..3, sent(), 2usize..30)
            .prop_map(|(from, to, sent, count)| Action::Send { from, to, sent, count }),
        4 => remote::remote().prop_map(Action::Remote),
        6 => (at.clone(), look(), recv_form(), len())
            .prop_map(|(at, look, form, len)| Action::Recv { at, look, form, len }),
        1 => (at.clone(), proptest::option::of(0usize..3), 0usize..150_000)
            .prop_map(|(at, from, len)| Action::Multi { at, from, len }),
        2 => (at.clone(), look(), any::<bool>(), any::<bool>())
            .prop_map(|(at, look, claim, discard)| Action::Peek { at, look, claim, discard }),
        2 => (at.clone(), any::<usize>(), any::<bool>(), len())
            .prop_map(|(at, which, discard, len)| Action::Claimed { at, which, discard, len }),
        1 => (at.clone(), any::<usize>()).prop_map(|(at, which)| Action::Cancel { at, which }),
        2 => at.clone().prop_map(|at| Action::Read { at }),
        1 => (at, 0usize..WRONG).prop_map(|(at, what)| Action::Wrong { at, what }),
    ]
}

/// Whether memory has counters of its own, and what is done.
pub(crate) fn sequence() -> impl Strategy<Value = (bool, Vec<Action>)> {
    (any::<bool>(), vec(action(), 1..120))
}
