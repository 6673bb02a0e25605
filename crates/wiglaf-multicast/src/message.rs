//! Messages between members of a group, as bytes (docs/protocol.md, section 13).
//!
//! A datagram is one of Wiglaf's, of the kind for control, under a key of the group's own: a frame of another group,
//! or of the job's other traffic, proves nothing here.

use siphasher::sip::SipHasher24;
use wiglaf_wire::{Epoch, HEADER_LEN, Header, JobKey, Kind, NUMBER_BITS, WireError, open, seal};

/// Bytes in front of a datagram's part of a message: the header, and which operations the sender has behind it.
pub const PREFIX_LEN: usize = HEADER_LEN + 8;

/// The longest message of all, in bytes: offsets have 32 bits.
pub const MESSAGE_LEN_MAX: usize = u32::MAX as usize;

/// What a datagram is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// "I am in this operation", with its sender's contribution; to the root.
    Arrive,
    /// A part of the root's message, to all members or to one.
    Data,
    /// All bytes below the offset have come; to the root.
    Got,
    /// The bytes from the offset on are missing; to the root, or to its repair thread.
    Ask,
    /// "How far are you?"; to a member's repair thread.
    Ping,
    /// Its sender's progress, and nothing else.
    Done,
    /// The first frame to all: does it come through?
    Trial,
}

impl Purpose {
    const ALL: [Self; 7] =
        [Self::Arrive, Self::Data, Self::Got, Self::Ask, Self::Ping, Self::Done, Self::Trial];
}

/// One datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is for.
    pub purpose: Purpose,
    /// The sender's rank in the group.
    pub rank: u16,
    /// Of which operation of the group, from 1 on.
    pub operation: u64,
    /// Where `body` begins in the message, in bytes.
    pub offset: u32,
    /// Length of the whole message, in bytes.
    pub total: u32,
    /// All operations below this one lie behind the sender.
    pub done: u64,
    /// The part of the message.
    pub body: &'a [u8],
}

/// A group's name and its key.
#[derive(Debug, Clone, Copy)]
pub struct Seal {
    id: u64,
    key: JobKey,
}

/// Why a datagram was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It is none of Wiglaf's, damaged, or of another job or group.
    Wire(WireError),
    /// It is for another group.
    Group,
    /// Its purpose is not known.
    Purpose,
    /// Its sender is no member.
    Member,
    /// A part lies elsewhere than parts lie, or the whole has another length.
    Part,
    /// It came too early, and there is no more room for such.
    Early,
}

impl Refused {
    /// All, wire errors as one.
    pub(crate) const KINDS: usize = 6;

    /// In words, as [`Self::index`] numbers them.
    pub(crate) const NAMES: [&str; Self::KINDS] = [
        "damaged or from outside",
        "of another group",
        "of unknown purpose",
        "of nobody in the group",
        "with a part that fits nowhere",
        "too early",
    ];

    pub(crate) fn index(self) -> usize {
        match self {
            Self::Wire(_) => 0,
            Self::Group => 1,
            Self::Purpose => 2,
            Self::Member => 3,
            Self::Part => 4,
            Self::Early => 5,
        }
    }
}

impl Seal {
    /// The key of the group `id` of a job: two SipHash-2-4 of its name under the job's key.
    #[must_use]
    pub fn new(job: &JobKey, id: u64) -> Self {
        //= docs/protocol.md#13-frames-to-all-hosts-of-a-group
        //# The key of a group MUST be two SipHash-2-4 under the job's key, each of the 13 bytes `wiglaf group `, the group's number (8) and 0 or 1.
        let half = |label: u8| {
            let mut name = *b"wiglaf group \0\0\0\0\0\0\0\0\0";
            name[13..21].copy_from_slice(&id.to_le_bytes());
            name[21] = label;
            SipHasher24::new_with_key(&job.0).hash(&name).to_le_bytes()
        };
        let mut key = [0; 16];
        key[..8].copy_from_slice(&half(0));
        key[8..].copy_from_slice(&half(1));
        Self { id, key: JobKey(key) }
    }

    /// Appends the datagram of `message` by a sender of that epoch.
    pub fn append(&self, message: &Message<'_>, epoch: u64, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + PREFIX_LEN, 0);
        out[at + HEADER_LEN..].copy_from_slice(&message.done.to_le_bytes());
        out.extend_from_slice(message.body);
        let header = Header {
            kind: Kind::Control,
            source: Epoch(epoch),
            destination: Epoch(self.id),
            sequence: message.operation & ((1 << NUMBER_BITS) - 1),
            ack: message.offset,
            credit: message.total,
            ack_delay_us: message.purpose as u16,
            bulk_port: message.rank,
        };
        seal(&header, &self.key, &mut out[at..]);
    }

    /// Reads a datagram; `epoch_of` says of which epoch a member is.
    ///
    /// # Errors
    /// The first reason against it. Nothing of a refused datagram may be acted upon.
    pub fn read<'a>(
        &self,
        datagram: &'a [u8],
        epoch_of: impl Fn(u16) -> Option<u64>,
    ) -> Result<Message<'a>, Refused> {
        let (header, body) = open(&self.key, datagram).map_err(Refused::Wire)?;
        if header.destination.0 != self.id {
            return Err(Refused::Group);
        }
        let purpose = usize::from(header.ack_delay_us);
        let purpose = *Purpose::ALL.get(purpose).ok_or(Refused::Purpose)?;
        if epoch_of(header.bulk_port) != Some(header.source.0) {
            return Err(Refused::Member);
        }
        let (done, body) = body.split_first_chunk().ok_or(Refused::Wire(WireError::Truncated))?;
        Ok(Message {
            purpose,
            rank: header.bulk_port,
            operation: header.sequence,
            offset: header.ack,
            total: header.credit,
            done: u64::from_le_bytes(*done),
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: JobKey = JobKey([7; 16]);

    fn message(body: &[u8]) -> Message<'_> {
        Message {
            purpose: Purpose::Data,
            rank: 3,
            operation: 5,
            offset: 9,
            total: 100,
            done: 4,
            body,
        }
    }

    fn epoch_of(rank: u16) -> Option<u64> {
        (rank == 3).then_some(77)
    }

    #[test]
    fn what_was_sent_is_read() {
        let seal = Seal::new(&KEY, 1);
        for purpose in Purpose::ALL {
            let message = Message { purpose, ..message(b"hwaet") };
            let mut bytes = Vec::new();
            seal.append(&message, 77, &mut bytes);
            assert_eq!(bytes.len(), PREFIX_LEN + 5);
            assert_eq!(seal.read(&bytes, epoch_of), Ok(message));
        }
    }

    #[test]
    fn foreign_datagrams_are_refused() {
        let seal = Seal::new(&KEY, 1);
        let mut bytes = Vec::new();
        seal.append(&message(b"hwaet"), 77, &mut bytes);
        let of_other_group = Seal::new(&KEY, 2).read(&bytes, epoch_of);
        assert_eq!(of_other_group, Err(Refused::Wire(WireError::Proof)));
        let of_other_job = Seal::new(&JobKey([8; 16]), 1).read(&bytes, epoch_of);
        assert_eq!(of_other_job, Err(Refused::Wire(WireError::Proof)));
        assert_eq!(seal.read(&bytes, |_| Some(78)), Err(Refused::Member), "of a dead process");
        assert_eq!(seal.read(&bytes, |_| None), Err(Refused::Member));
        for len in 0..bytes.len() {
            assert!(seal.read(&bytes[..len], epoch_of).is_err(), "cut to {len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(seal.read(&damaged, epoch_of).is_err(), "bit {bit}");
        }
    }
}
