//! The members of a group, their addresses, and the lengths of their datagrams.

use std::net::SocketAddrV4;

use crate::message::{Message, PREFIX_LEN, Refused, Seal};

/// One member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Address for datagrams to it alone.
    pub own: SocketAddrV4,
    /// Address of its repair thread.
    pub repair: SocketAddrV4,
    /// Random, and so of this process and group alone.
    pub epoch: u64,
}

/// How a member waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// How long it polls before it sleeps.
    pub polls: std::time::Duration,
    /// Whether it never sleeps.
    pub never_sleeps: bool,
}

/// A group as one member sees it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// This member's place among them.
    pub rank: u16,
    /// All, by rank.
    pub members: Vec<Member>,
    /// Address for datagrams to all members.
    pub group: SocketAddrV4,
    /// The group's number and key.
    pub seal: Seal,
    /// Most bytes of a message in one datagram.
    pub part_len: usize,
    /// Most datagrams that are handed to the kernel at once.
    pub batch_max: usize,
    /// How this member waits.
    pub waiting: Waiting,
    /// For tests: one in so many batches of datagrams is lost on arrival; 0 for none.
    pub lose_one_in: u64,
}

impl Plan {
    /// Parts for frames whose UDP payload is so long, in bytes, and batches of them.
    #[must_use]
    pub fn parts(payload_len: usize) -> (usize, usize) {
        /// What the lengths of IPv4 and UDP allow, without their headers.
        const BATCH_LEN_MAX: usize = 65535 - 28;
        /// What every kernel takes that cuts batches.
        const SEGMENTS_MAX: usize = 64;
        (payload_len - PREFIX_LEN, (BATCH_LEN_MAX / payload_len).clamp(1, SEGMENTS_MAX))
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.members[usize::from(self.rank)].epoch
    }

    pub(crate) fn datagram_len(&self) -> usize {
        PREFIX_LEN + self.part_len
    }

    /// Reads a datagram of the group.
    pub(crate) fn read<'a>(&self, datagram: &'a [u8]) -> Result<Message<'a>, Refused> {
        let epoch_of = |rank: u16| Some(self.members.get(usize::from(rank))?.epoch);
        self.seal.read(datagram, epoch_of)
    }
}
