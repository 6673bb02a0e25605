//! The application at an end: sends messages that say whose they are, and checks what comes.

use std::collections::BTreeMap;

use wiglaf_transport::limits::CREDIT_PER_MESSAGE;
use wiglaf_transport::{Gone, PeerId, Sink, Source, Wanted};
use wiglaf_wire::Envelope;

/// The application at an end. A tag says which incarnation a message is for, of which it is, and which
/// of its messages.
#[derive(Debug, Clone, Default, Hash)]
pub(crate) struct App {
    pub(crate) incarnation: u64,
    /// The next message of each incarnation of the sender.
    pub(crate) expected: BTreeMap<u64, u64>,
    /// Under which number each of them is known.
    pub(crate) peers: BTreeMap<u64, PeerId>,
    /// Messages that lie unread, by whose they are and their length.
    pub(crate) unread: Vec<(PeerId, u64)>,
    /// Whole length of what comes in parts, and what has come.
    pub(crate) arriving: BTreeMap<PeerId, (u64, u64)>,
    /// Length of what is sent, by token.
    pub(crate) pulled: Vec<(u64, u64)>,
    /// Messages that came whole, by the sender's incarnation.
    pub(crate) received: BTreeMap<u64, u64>,
    pub(crate) sends: Vec<u64>,
    pub(crate) wrong: Option<String>,
}

impl App {
    /// A message begins that is `envelope`'s; answers whose.
    fn begin(&mut self, peer: PeerId, envelope: &Envelope) -> u64 {
        let from = whose(envelope.tag);
        let next = self.expected.entry(from).or_default();
        let wanted = tag(self.incarnation, from, *next);
        *next += 1;
        if envelope.tag != wanted {
            self.wrong.get_or_insert(format!("{:x} came, not {wanted:x}", envelope.tag));
        }
        if *self.peers.entry(from).or_insert(peer) != peer {
            self.wrong.get_or_insert(format!("{:x} came from another peer", envelope.tag));
        }
        from
    }

    pub(crate) fn unread_charges(&self, peer: PeerId) -> u64 {
        let unread = self.unread.iter().filter(|(whose, _)| *whose == peer).map(|(_, len)| *len);
        let arriving = self.arriving.get(&peer).map(|(total, _)| *total);
        unread.chain(arriving).map(|len| len + CREDIT_PER_MESSAGE).sum()
    }

    fn check(&mut self, offset: u64, payload: &[u8]) {
        if payload.iter().zip(offset..).any(|(byte, at)| *byte != byte_at(at)) {
            self.wrong.get_or_insert("a byte was altered".to_owned());
        }
    }
}

pub(crate) fn tag(to: u64, from: u64, number: u64) -> u64 {
    to << 32 | from << 16 | number
}

/// The incarnation that sent a message.
fn whose(tag: u64) -> u64 {
    tag >> 16 & 0xffff
}

/// What stands at that place of each message; no datagram's length is a multiple of the period.
fn byte_at(at: u64) -> u8 {
    (at % 251) as u8
}

impl Source for App {
    fn read(&self, _token: u64, offset: u64, out: &mut [u8]) {
        out.iter_mut().zip(offset..).for_each(|(byte, at)| *byte = byte_at(at));
    }
}

impl Sink for App {
    fn message(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> bool {
        let from = self.begin(peer, envelope);
        self.check(0, payload);
        *self.received.entry(from).or_default() += 1;
        self.unread.push((peer, payload.len() as u64));
        false
    }

    fn first(&mut self, peer: PeerId, envelope: &Envelope, total: u64, payload: &[u8]) {
        self.begin(peer, envelope);
        self.check(0, payload);
        self.arriving.insert(peer, (total, payload.len() as u64));
    }

    fn next(&mut self, peer: PeerId, payload: &[u8], last: bool) -> bool {
        self.check(self.arriving.get(&peer).map_or(0, |(_, got)| *got), payload);
        let Some((total, got)) = self.arriving.get_mut(&peer) else {
            self.wrong.get_or_insert("a part without its beginning".to_owned());
            return true;
        };
        *got += payload.len() as u64;
        if last {
            self.unread.push((peer, *total));
            self.arriving.remove(&peer);
            let from = self.peers.iter().find(|(_, known)| **known == peer).map(|(from, _)| *from);
            *self.received.entry(from.expect("it began")).or_default() += 1;
        }
        false
    }

    fn request(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        total: u64,
        _send_id: u32,
    ) -> Option<Wanted> {
        self.begin(peer, envelope);
        let token = envelope.tag;
        self.pulled.push((token, total));
        Some(Wanted { len: total, token })
    }

    fn segment(&mut self, token: u64, offset: u64, payload: &[u8]) {
        self.check(offset, payload);
        match self.pulled.iter_mut().find(|(known, _)| *known == token) {
            Some((_, left)) if *left >= payload.len() as u64 => *left -= payload.len() as u64,
            _ => drop(self.wrong.get_or_insert("a segment too many".to_owned())),
        }
    }

    fn pulled(&mut self, token: u64, complete: bool) {
        let before = self.pulled.len();
        self.pulled.retain(|(known, left)| *known != token || (complete && *left > 0));
        if self.pulled.len() + 1 != before {
            self.wrong.get_or_insert("a transfer ended that is not known or not whole".to_owned());
        }
        *self.received.entry(whose(token)).or_default() += u64::from(complete);
    }

    fn sent(&mut self, token: u64, _complete: bool) {
        let before = self.sends.len();
        self.sends.retain(|known| *known != token);
        if self.sends.len() + 1 != before {
            self.wrong.get_or_insert("a send was reported twice".to_owned());
        }
    }

    fn gone(&mut self, _peer: PeerId, _why: Gone) {}
}
