//! The application on a simulated endpoint.

use std::collections::HashMap;

use wiglaf_transport::{Gone, PeerId, Sink, Source, Wanted};
use wiglaf_wire::Envelope;

use crate::random::Random;

/// Byte `at` of message `number` from endpoint `from` to endpoint `to`.
fn byte(from: usize, to: usize, number: u64, at: u64) -> u8 {
    let x = (from as u64).wrapping_mul(0x9e37_79b9)
        ^ (to as u64).wrapping_mul(0x85eb_ca6b)
        ^ number.wrapping_mul(0xc2b2_ae35)
        ^ at.wrapping_mul(0x27d4_eb2f);
    (x ^ (x >> 17)) as u8
}

/// A message that arrives in pieces.
#[derive(Debug)]
struct Arriving {
    from: usize,
    number: u64,
    bytes: Vec<u8>,
    /// Bytes that came, to find any that come twice.
    got: u64,
}

/// What an unexpected message waits for.
#[derive(Debug)]
pub(crate) enum Later {
    /// Its credit to be given back.
    Consume { peer: PeerId, len: u64 },
    /// To be pulled.
    Pull { peer: PeerId, send_id: u32, len: u64, token: u64 },
}

/// Sends patterned messages and checks those that arrive.
#[derive(Debug)]
pub struct Peer {
    me: usize,
    /// Which simulated endpoint a transport's peer is.
    pub(crate) names: HashMap<PeerId, usize>,
    /// Number of the message that must come next, by sender.
    expected: HashMap<usize, u64>,
    eager: HashMap<PeerId, Arriving>,
    pulls: HashMap<u64, Arriving>,
    next_token: u64,
    pub(crate) sends: HashMap<u64, (usize, u64)>,
    pub(crate) later: Vec<Later>,
    random: Random,
    /// Messages that arrived whole.
    pub received: u64,
    /// Sends that were reported.
    pub reported: u64,
    /// Peers that are gone.
    pub gone: u64,
    /// The first thing that was wrong.
    pub error: Option<String>,
}

impl Peer {
    pub(crate) fn new(me: usize, seed: u64) -> Self {
        Self {
            me,
            names: HashMap::new(),
            expected: HashMap::new(),
            eager: HashMap::new(),
            pulls: HashMap::new(),
            next_token: 0,
            sends: HashMap::new(),
            later: Vec::new(),
            random: Random::new(seed),
            received: 0,
            reported: 0,
            gone: 0,
            error: None,
        }
    }

    /// Names the send of message `number` to endpoint `to`.
    pub(crate) fn register_send(&mut self, to: usize, number: u64) -> u64 {
        self.next_token += 1;
        self.sends.insert(self.next_token, (to, number));
        self.next_token
    }

    fn wrong(&mut self, what: String) {
        self.error.get_or_insert(what);
    }

    /// Checks that the announced message is the next of its sender.
    fn begin(&mut self, peer: PeerId, envelope: &Envelope) -> (usize, u64) {
        let from = self.names.get(&peer).copied().unwrap_or(usize::MAX);
        let expected = self.expected.entry(from).or_default();
        let wanted = *expected;
        *expected += 1;
        if envelope.tag != wanted || envelope.data != Some(wanted ^ 0x5a) {
            self.wrong(format!(
                "endpoint {} expected message {wanted} of {from} and got {envelope:?}",
                self.me
            ));
        }
        (from, wanted)
    }

    fn check(&mut self, from: usize, number: u64, bytes: &[u8]) {
        self.received += 1;
        let bad = (0..).zip(bytes).find(|(at, b)| **b != byte(from, self.me, number, *at));
        if let Some((at, _)) = bad {
            let len = bytes.len();
            self.wrong(format!(
                "byte {at} of {len} of message {number} from {from} to {} differs",
                self.me
            ));
        }
    }
}

impl Source for Peer {
    fn read(&self, token: u64, offset: u64, out: &mut [u8]) {
        let (to, number) = self.sends[&token];
        for (at, b) in (offset..).zip(out) {
            *b = byte(self.me, to, number, at);
        }
    }
}

impl Sink for Peer {
    fn message(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> bool {
        let (from, number) = self.begin(peer, envelope);
        self.check(from, number, payload);
        let at_once = self.random.chance(0.5);
        if !at_once {
            self.later.push(Later::Consume { peer, len: payload.len() as u64 });
        }
        at_once
    }

    fn first(&mut self, peer: PeerId, envelope: &Envelope, total: u64, payload: &[u8]) {
        let (from, number) = self.begin(peer, envelope);
        let mut bytes = payload.to_vec();
        bytes.reserve(total as usize);
        self.eager.insert(peer, Arriving { from, number, bytes, got: total });
    }

    fn next(&mut self, peer: PeerId, payload: &[u8], last: bool) -> bool {
        let Some(mut arriving) = self.eager.remove(&peer) else {
            self.wrong("a part without its beginning".to_owned());
            return true;
        };
        arriving.bytes.extend_from_slice(payload);
        if !last {
            self.eager.insert(peer, arriving);
            return true;
        }
        if arriving.got != arriving.bytes.len() as u64 {
            self.wrong(format!("{} bytes of {} came", arriving.bytes.len(), arriving.got));
        }
        self.check(arriving.from, arriving.number, &arriving.bytes);
        true
    }

    fn request(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        total: u64,
        send_id: u32,
    ) -> Option<Wanted> {
        let (from, number) = self.begin(peer, envelope);
        self.next_token += 1;
        let token = self.next_token;
        let bytes = vec![0; total as usize];
        self.pulls.insert(token, Arriving { from, number, bytes, got: 0 });
        if self.random.chance(0.5) {
            return Some(Wanted { len: total, token });
        }
        self.later.push(Later::Pull { peer, send_id, len: total, token });
        None
    }

    fn segment(&mut self, token: u64, offset: u64, payload: &[u8]) {
        let Some(arriving) = self.pulls.get_mut(&token) else {
            return self.wrong(format!("a segment of the unknown transfer {token}"));
        };
        arriving.got += payload.len() as u64;
        arriving.bytes[offset as usize..offset as usize + payload.len()].copy_from_slice(payload);
    }

    fn pulled(&mut self, token: u64, complete: bool) {
        let Some(arriving) = self.pulls.remove(&token) else {
            return self.wrong(format!("the unknown transfer {token} ended"));
        };
        if !complete {
            return;
        }
        if arriving.got != arriving.bytes.len() as u64 {
            self.wrong(format!("{} bytes of {} came", arriving.got, arriving.bytes.len()));
        }
        self.check(arriving.from, arriving.number, &arriving.bytes);
    }

    fn sent(&mut self, token: u64, _complete: bool) {
        if self.sends.remove(&token).is_none() {
            self.wrong(format!("send {token} was reported twice"));
        }
        self.reported += 1;
    }

    fn gone(&mut self, _peer: PeerId, _why: Gone) {
        self.gone += 1;
    }
}
