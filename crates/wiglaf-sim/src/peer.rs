//! The application on a simulated endpoint.

use std::collections::{HashMap, HashSet};

use wiglaf_transport::{Gone, PeerId, Sink, Source, Transport, Wanted, bounded_charge};
use wiglaf_wire::{Class, Envelope};

use crate::matched::Matched;
use crate::random::Random;

/// Byte `at` of message `number` from incarnation `from` to incarnation `to`.
fn byte(from: usize, to: usize, number: u64, at: u64) -> u8 {
    let x = (from as u64).wrapping_mul(0x9e37_79b9)
        ^ (to as u64).wrapping_mul(0x85eb_ca6b)
        ^ number.wrapping_mul(0xc2b2_ae35)
        ^ at.wrapping_mul(0x27d4_eb2f);
    (x ^ (x >> 17)) as u8
}

/// The envelope of message `number`: few tags, so that receives have a choice.
pub(crate) fn envelope(number: u64) -> Envelope {
    Envelope::new(Class::Tagged, number % 4, Some(number))
}

/// A message that arrives in pieces.
#[derive(Debug)]
struct Arriving {
    from: usize,
    number: u64,
    bytes: Vec<u8>,
    /// Bytes that came, to find any that come twice; of an eager message, its length.
    got: u64,
    serial: u64,
}

/// What an unexpected message waits for.
#[derive(Debug)]
enum Later {
    /// The rest of it.
    Parts,
    /// Its credit to be given back.
    Consume { peer: PeerId, len: u64 },
    /// To be pulled.
    Pull { peer: PeerId, send_id: u32, len: u64, token: u64 },
}

/// A send that has not been reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sending {
    /// The incarnation that it is for.
    pub(crate) to: usize,
    number: u64,
}

/// Sends patterned messages, receives those that arrive, and checks them.
#[derive(Debug)]
pub struct Peer {
    /// Which incarnation of all this is.
    pub(crate) me: usize,
    /// Which incarnation a transport's peer is.
    pub(crate) names: HashMap<PeerId, usize>,
    /// Number of the message that must come next, by sender.
    expected: HashMap<usize, u64>,
    /// Messages that came whole, or as much of them as was wanted, by sender.
    pub(crate) whole: HashMap<usize, HashSet<u64>>,
    /// Charges of eager messages that are here and not consumed.
    pub(crate) unread: HashMap<PeerId, u64>,
    matched: Matched,
    eager: HashMap<PeerId, Arriving>,
    pulls: HashMap<u64, Arriving>,
    /// Unexpected messages by their number.
    later: HashMap<u64, Later>,
    next_token: u64,
    pub(crate) sends: HashMap<u64, Sending>,
    random: Random,
    /// Decides how much of announced messages is wanted; all of them without.
    appetite: Option<Random>,
    /// Messages that arrived whole.
    pub received: u64,
    /// Sends that were reported.
    pub reported: u64,
    /// Incarnations that the transport has given up since somebody looked, and all of them.
    pub(crate) gone: Vec<usize>,
    ever_gone: HashSet<usize>,
    /// Messages that were delivered since somebody looked, as the transport says: to whom, and which.
    pub(crate) delivered: Vec<(usize, u64)>,
    /// To whom a send has failed since somebody looked.
    failed: Vec<usize>,
    /// The first thing that was wrong.
    pub error: Option<String>,
}

impl Peer {
    /// One that wants less of some messages, or nothing, if it `is_choosy`.
    pub(crate) fn new(me: usize, seed: u64, is_choosy: bool) -> Self {
        Self {
            me,
            names: HashMap::new(),
            expected: HashMap::new(),
            whole: HashMap::new(),
            unread: HashMap::new(),
            matched: Matched::default(),
            eager: HashMap::new(),
            pulls: HashMap::new(),
            later: HashMap::new(),
            next_token: 0,
            sends: HashMap::new(),
            random: Random::new(seed),
            // Of its own: the other decisions are the same with it and without.
            appetite: is_choosy.then(|| Random::new(!seed)),
            received: 0,
            reported: 0,
            gone: Vec::new(),
            ever_gone: HashSet::new(),
            delivered: Vec::new(),
            failed: Vec::new(),
            error: None,
        }
    }

    /// Names the send of message `number` to incarnation `to`.
    pub(crate) fn register_send(&mut self, to: usize, number: u64) -> u64 {
        self.next_token += 1;
        self.sends.insert(self.next_token, Sending { to, number });
        self.next_token
    }

    /// Whether messages wait for a receive.
    pub(crate) fn has_unexpected(&self) -> bool {
        !self.later.is_empty()
    }

    /// Whether anything of incarnation `who` is still awaited, or to be reported.
    pub(crate) fn waits_for(&self, who: usize) -> bool {
        self.sends.values().any(|send| send.to == who)
            || self.eager.values().chain(self.pulls.values()).any(|a| a.from == who)
    }

    /// A send that has failed although its receiver was not given up.
    pub(crate) fn failed_needlessly(&mut self) -> Option<usize> {
        std::mem::take(&mut self.failed).into_iter().find(|who| !self.ever_gone.contains(who))
    }

    /// How much is wanted of an announced message.
    fn wanted(&mut self, total: u64) -> u64 {
        let Some(random) = &mut self.appetite else { return total };
        match random.below(8) {
            0 => 0,
            1 => random.below(total + 1),
            _ => total,
        }
    }

    fn wrong(&mut self, what: String) {
        self.error.get_or_insert(what);
    }

    /// Posts a receive at random: from somebody or anybody, of one tag or any.
    pub(crate) fn post_receive(&mut self, transport: &mut Transport) {
        let Some(serial) = self.matched.post(&mut self.random, &self.names) else { return };
        match self.later.remove(&serial) {
            // The rest of it was lost with its sender, or is still coming.
            None | Some(Later::Parts) => {}
            Some(Later::Consume { peer, len }) => {
                self.consumed(peer, len);
                transport.consume(peer, len);
            }
            Some(Later::Pull { peer, send_id, len, token }) => {
                let pulls = transport.pull(peer, send_id, len, token);
                if !pulls || len == 0 {
                    self.pulled(token, pulls);
                }
            }
        }
        if let Some(what) = self.matched.error.take() {
            self.wrong(what);
        }
    }

    /// Checks that the announced message is the next of its sender, and offers it to the
    /// receives; its number of arrival, and whether a receive took it.
    fn begin(&mut self, peer: PeerId, envelope: &Envelope) -> (usize, u64, u64, bool) {
        let from = self.names.get(&peer).copied().unwrap_or(usize::MAX);
        let expected = self.expected.entry(from).or_default();
        let wanted = *expected;
        *expected += 1;
        if *envelope != self::envelope(wanted) {
            self.wrong(format!(
                "incarnation {} expected message {wanted} of {from} and got {envelope:?}",
                self.me
            ));
        }
        let (serial, is_taken) = self.matched.arrive(peer, *envelope);
        if let Some(what) = self.matched.error.take() {
            self.wrong(what);
        }
        (from, wanted, serial, is_taken)
    }

    /// Notes an eager message of `len` bytes.
    fn charge(&mut self, peer: PeerId, len: u64) {
        *self.unread.entry(peer).or_default() += bounded_charge(len);
    }

    fn consumed(&mut self, peer: PeerId, len: u64) {
        let unread = self.unread.entry(peer).or_default();
        *unread = unread.saturating_sub(bounded_charge(len));
    }

    fn check(&mut self, from: usize, number: u64, bytes: &[u8]) {
        self.received += 1;
        if !self.whole.entry(from).or_default().insert(number) {
            self.wrong(format!("message {number} of {from} came twice to {}", self.me));
        }
        let bad = (0..).zip(bytes).find(|(at, b)| **b != byte(from, self.me, number, *at));
        if let Some((at, _)) = bad {
            let len = bytes.len();
            self.wrong(format!(
                "byte {at} of {len} of message {number} from {from} to {} differs",
                self.me
            ));
        }
    }

    /// An eager message is here: consumed at once if a receive has it.
    fn keep(&mut self, peer: PeerId, len: u64, serial: u64, is_taken: bool) -> bool {
        if is_taken {
            self.consumed(peer, len);
        } else {
            self.later.insert(serial, Later::Consume { peer, len });
        }
        is_taken
    }
}

impl Source for Peer {
    fn read(&self, token: u64, offset: u64, out: &mut [u8]) {
        let Sending { to, number } = self.sends[&token];
        for (at, b) in (offset..).zip(out) {
            *b = byte(self.me, to, number, at);
        }
    }
}

impl Sink for Peer {
    fn message(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> bool {
        let (from, number, serial, is_taken) = self.begin(peer, envelope);
        self.charge(peer, payload.len() as u64);
        self.check(from, number, payload);
        self.keep(peer, payload.len() as u64, serial, is_taken)
    }

    fn first(&mut self, peer: PeerId, envelope: &Envelope, total: u64, payload: &[u8]) {
        let (from, number, serial, is_taken) = self.begin(peer, envelope);
        self.charge(peer, total);
        if !is_taken {
            self.later.insert(serial, Later::Parts);
        }
        let mut bytes = payload.to_vec();
        bytes.reserve(total as usize);
        self.eager.insert(peer, Arriving { from, number, bytes, got: total, serial });
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
        let len = arriving.bytes.len() as u64;
        if arriving.got != len {
            self.wrong(format!("{len} bytes of {} came", arriving.got));
        }
        self.check(arriving.from, arriving.number, &arriving.bytes);
        // A receive may have taken it meanwhile.
        let is_taken = self.later.remove(&arriving.serial).is_none();
        self.keep(peer, len, arriving.serial, is_taken)
    }

    fn request(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        total: u64,
        send_id: u32,
    ) -> Option<Wanted> {
        let (from, number, serial, is_taken) = self.begin(peer, envelope);
        self.next_token += 1;
        let token = self.next_token;
        let len = self.wanted(total);
        let bytes = vec![0; len as usize];
        self.pulls.insert(token, Arriving { from, number, bytes, got: 0, serial });
        if is_taken {
            return Some(Wanted { len, token });
        }
        self.later.insert(serial, Later::Pull { peer, send_id, len, token });
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

    fn sent(&mut self, token: u64, complete: bool) {
        match self.sends.remove(&token) {
            Some(Sending { to, number }) if complete => self.delivered.push((to, number)),
            Some(Sending { to, .. }) => self.failed.push(to),
            None => self.wrong(format!("send {token} was reported twice")),
        }
        self.reported += 1;
    }

    fn gone(&mut self, peer: PeerId, _why: Gone) {
        self.eager.remove(&peer);
        let who = self.names.get(&peer).copied().unwrap_or(usize::MAX);
        self.gone.push(who);
        if !self.ever_gone.insert(who) {
            self.wrong(format!("{} was told twice that {who} is gone", self.me));
        }
    }
}
