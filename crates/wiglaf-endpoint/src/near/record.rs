//! The records of the near lane, from values to words and back. They never
//! leave the node, so they are in the machine's own byte order.

use wiglaf_link::near::{Head, NearId};
use wiglaf_wire::Class;

use crate::announced::Announced;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A whole message. Words: tag, data.
    Message = 1,
    /// A message that waits to be fetched. Words: tag, data.
    Request,
    /// "Send me that message." Words: id of the pull, length.
    Pull,
    /// A part of a message that was asked for. Words: offset.
    Part,
    /// The message has been fetched, or is not wanted.
    Done,
    /// The sender closes: nothing follows.
    Close,
}

impl Kind {
    /// The first word of a record that is about the operation `id`.
    pub(super) fn word(self, id: u32) -> u64 {
        self as u64 | u64::from(id) << 32
    }

    pub(super) fn of(head: &Head) -> Option<Self> {
        const ALL: [Kind; 6] =
            [Kind::Message, Kind::Request, Kind::Pull, Kind::Part, Kind::Done, Kind::Close];
        ALL.get((head[0] as u8 as usize).checked_sub(1)?).copied()
    }
}

/// The first word of a message or its announcement: kind, class, whether data
/// is meant, and the sender's id of it.
pub(super) fn head(kind: Kind, class: Class, with_data: bool, id: u32) -> u64 {
    let class = match class {
        Class::Tagged => 0,
        Class::Untagged => 1,
        Class::Collective => 3,
        _ => 2, // active: one-sided operations do not come here
    };
    kind.word(id) | class << 8 | u64::from(with_data) << 16
}

pub(super) fn id_of(head: &Head) -> u32 {
    (head[0] >> 32) as u32
}

/// The class of a message, and whether data is meant.
pub(super) fn class_of(head: &Head) -> Option<(Class, bool)> {
    let class = match (head[0] >> 8) as u8 {
        0 => Class::Tagged,
        1 => Class::Untagged,
        2 => Class::Active,
        3 => Class::Collective,
        _ => return None,
    };
    Some((class, head[0] >> 16 & 1 != 0))
}

/// What fuzzers call: three words and a payload, as another process of the node may have left them.
///
/// # Panics
/// When a place is accepted whose pieces are not as long as the message.
pub fn fuzz(bytes: &[u8]) {
    let (front, payload) = bytes.split_at(bytes.len().min(size_of::<Head>()));
    let mut words = [0; size_of::<Head>()];
    words[..front.len()].copy_from_slice(front);
    let head: Head = std::array::from_fn(|at| {
        u64::from_le_bytes(std::array::from_fn(|byte| words[8 * at + byte]))
    });
    let _ = (Kind::of(&head), class_of(&head), id_of(&head));
    if let Some(message) = Announced::parse(NearId(0), 0, &payload) {
        let sum = message.with_pieces(message.total(), |pieces| {
            pieces.iter().map(|piece| piece.len).sum::<u64>()
        });
        assert_eq!(sum, message.total());
    }
}
