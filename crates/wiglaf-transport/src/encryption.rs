//! Encryption of all datagrams of an endpoint: its count, and the keys of its peers
//! (docs/protocol.md, section 2.4).

use wiglaf_wire::encrypted::{self, JobCipher, SenderCipher};
use wiglaf_wire::{Epoch, Header, JobKey, WireError};

use crate::epochs::ByEpoch;
use crate::limits::SESSIONS_MAX;

/// How far behind its sender's newest a count may lie. Those in between are a matter of packet
/// numbers, which begin again only after 2^40 packets.
const COUNTS_BEHIND_MAX: u64 = 1 << 38;

/// What an endpoint encrypts and decrypts with.
#[derive(Debug, Clone)]
pub(crate) struct Encryption {
    job: JobCipher,
    own: SenderCipher,
    /// Datagrams encrypted so far.
    count: u64,
    senders: ByEpoch<Sender>,
    /// Where bodies are decrypted to.
    room: Vec<u8>,
}

/// Somebody whose datagrams have proven true.
#[derive(Debug, Clone)]
struct Sender {
    cipher: SenderCipher,
    newest: u64,
}

impl Encryption {
    pub(crate) fn new(key: &JobKey, own: Epoch) -> Self {
        let job = JobCipher::new(key);
        let own = job.of_sender(own);
        Self { job, own, count: 0, senders: ByEpoch::default(), room: Vec::new() }
    }

    pub(crate) fn seal(&mut self, header: &Header, datagram: &mut [u8]) {
        self.own.seal(header, self.count, datagram);
        self.count += 1;
    }

    /// Decrypts a datagram; answers its header, and a buffer that begins with its body, of that length. The buffer
    /// is to be given back ([`Encryption::give_back`]).
    pub(crate) fn open(&mut self, datagram: &[u8]) -> Result<(Header, Vec<u8>, usize), WireError> {
        let mut room = std::mem::take(&mut self.room);
        match self.open_into(datagram, &mut room) {
            Ok((header, len)) => Ok((header, room, len)),
            Err(why) => {
                self.room = room;
                Err(why)
            }
        }
    }

    pub(crate) fn give_back(&mut self, room: Vec<u8>) {
        self.room = room;
    }

    fn open_into(
        &mut self,
        datagram: &[u8],
        room: &mut Vec<u8>,
    ) -> Result<(Header, usize), WireError> {
        let (header, count) = encrypted::read(datagram)?;
        if let Some(sender) = self.senders.get_mut(&header.source) {
            //= docs/protocol.md#24-encryption
            //# A receiver MUST drop a datagram whose count lies more than 2^38 behind the newest of its sender.
            if count.saturating_add(COUNTS_BEHIND_MAX) < sender.newest {
                return Err(WireError::Replayed);
            }
            let len = sender.cipher.open(datagram, room)?.len();
            sender.newest = sender.newest.max(count);
            return Ok((header, len));
        }
        let cipher = self.job.of_sender(header.source);
        let len = cipher.open(datagram, room)?.len();
        // Only who has the job's key gets here; even so, no memory without bound.
        if self.senders.len() < SESSIONS_MAX {
            self.senders.insert(header.source, Sender { cipher, newest: count });
        }
        Ok((header, len))
    }
}
