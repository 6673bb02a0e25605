//! The application on an endpoint of [`crate::operations`]: what it sends and what it must be given.

use std::collections::{HashMap, HashSet};

use wiglaf_transport::{Gone, PeerId, Sink, Source, Transport, Wanted, bounded_charge};
use wiglaf_wire::Envelope;

/// Most bytes that a receiver asks for, whatever is announced.
const WANTED_MAX: u64 = 1 << 20;

/// Byte `at` of message `tag`.
fn byte(tag: u64, at: u64) -> u8 {
    (tag.wrapping_mul(0x9e37_79b9) ^ at.wrapping_mul(0x85eb_ca6b) ^ at >> 7) as u8
}

/// What an unexpected message waits for.
enum Later {
    Consume { peer: PeerId, len: u64 },
    Pull { peer: PeerId, send_id: u32, len: u64, token: u64 },
}

struct Pulled {
    peer: PeerId,
    tag: u64,
    bytes: Vec<u8>,
    got: u64,
}

/// Which message a send is.
struct Sending {
    peer: PeerId,
    tag: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct App {
    /// The next message that must come from each peer.
    expected: HashMap<PeerId, u64>,
    /// Those that came whole.
    received: HashMap<PeerId, u64>,
    /// Charges of what each peer has sent unasked and is not consumed.
    unread: HashMap<PeerId, u64>,
    eager: HashMap<PeerId, (u64, u64, Vec<u8>)>,
    pulls: HashMap<u64, Pulled>,
    sends: HashMap<u64, Sending>,
    later: Vec<Later>,
    next_token: u64,
    /// Who did what must not be.
    wrongs: Vec<(PeerId, String)>,
    gone: HashSet<PeerId>,
}

impl App {
    /// Begins to send message `tag`; answers its token.
    pub(crate) fn begin_send(&mut self, peer: PeerId, tag: u64) -> u64 {
        self.next_token += 1;
        self.sends.insert(self.next_token, Sending { peer, tag });
        self.next_token
    }

    /// Nobody will say how that send ended.
    pub(crate) fn forget_send(&mut self, token: u64) {
        self.sends.remove(&token);
    }

    /// How many messages have come whole from that peer.
    pub(crate) fn received(&self, peer: PeerId) -> u64 {
        self.received.get(&peer).copied().unwrap_or_default()
    }

    /// Whether a send to that peer, or a pull from it, has not ended.
    pub(crate) fn is_busy_with(&self, peer: PeerId) -> bool {
        self.sends.values().any(|send| send.peer == peer)
            || self.pulls.values().any(|pull| pull.peer == peer)
    }

    /// What must not be and was, since this was asked last.
    pub(crate) fn take_wrongs(&mut self, transport: &Transport) -> Vec<(PeerId, String)> {
        for (peer, unread) in &self.unread {
            let granted = transport.peer(*peer).expect("a known peer").credit_granted;
            if *unread > granted {
                self.wrongs.push((*peer, format!("{unread} bytes lie unread")));
            }
        }
        std::mem::take(&mut self.wrongs)
    }

    /// Takes up to `count` of the messages that came unexpectedly, the last ones first.
    pub(crate) fn settle(&mut self, transport: &mut Transport, count: usize) {
        for _ in 0..count {
            match self.later.pop() {
                None => return,
                Some(Later::Consume { peer, len }) => {
                    self.consumed(peer, len);
                    transport.consume(peer, len);
                }
                Some(Later::Pull { peer, send_id, len, token }) => {
                    transport.widen_credit(peer, len);
                    let pulls = transport.pull(peer, send_id, len, token);
                    if !pulls || len == 0 {
                        self.pulled(token, pulls);
                    }
                }
            }
        }
    }

    fn must(&mut self, is_so: bool, peer: PeerId, what: impl Fn() -> String) {
        if !is_so {
            self.wrongs.push((peer, what()));
        }
    }

    fn begin(&mut self, peer: PeerId, envelope: &Envelope) -> u64 {
        let expected = *self.expected.entry(peer).or_default();
        self.must(envelope.tag == expected, peer, || format!("{envelope:?}, not {expected}"));
        self.must(!self.gone.contains(&peer), peer, || "a message of a peer that is gone".into());
        self.expected.insert(peer, expected + 1);
        envelope.tag
    }

    fn whole(&mut self, peer: PeerId, tag: u64, bytes: &[u8]) {
        *self.received.entry(peer).or_default() += 1;
        let is_right = (0..).zip(bytes).all(|(at, b)| *b == byte(tag, at));
        self.must(is_right, peer, || format!("message {tag} was altered"));
    }

    fn charge(&mut self, peer: PeerId, len: u64) {
        *self.unread.entry(peer).or_default() += bounded_charge(len);
    }

    fn keep(&mut self, peer: PeerId, len: u64) -> bool {
        let at_once = len.is_multiple_of(3);
        if at_once {
            self.consumed(peer, len);
        } else {
            self.later.push(Later::Consume { peer, len });
        }
        at_once
    }

    fn consumed(&mut self, peer: PeerId, len: u64) {
        *self.unread.entry(peer).or_default() -= bounded_charge(len);
    }
}

impl Source for App {
    fn read(&self, token: u64, offset: u64, out: &mut [u8]) {
        let tag = self.sends[&token].tag;
        for (at, b) in (offset..).zip(out) {
            *b = byte(tag, at);
        }
    }
}

impl Sink for App {
    fn message(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> bool {
        let tag = self.begin(peer, envelope);
        self.charge(peer, payload.len() as u64);
        self.whole(peer, tag, payload);
        self.keep(peer, payload.len() as u64)
    }

    fn first(&mut self, peer: PeerId, envelope: &Envelope, total: u64, payload: &[u8]) {
        let tag = self.begin(peer, envelope);
        self.charge(peer, total.min(1 << 40));
        self.eager.insert(peer, (tag, total, payload.to_vec()));
    }

    fn next(&mut self, peer: PeerId, payload: &[u8], last: bool) -> bool {
        let (tag, total, mut bytes) = self.eager.remove(&peer).expect("a part has a beginning");
        bytes.extend_from_slice(payload);
        assert_eq!(last, bytes.len() as u64 == total);
        if !last {
            self.eager.insert(peer, (tag, total, bytes));
            return true;
        }
        self.whole(peer, tag, &bytes);
        self.keep(peer, total)
    }

    fn request(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        total: u64,
        send_id: u32,
    ) -> Option<Wanted> {
        let tag = self.begin(peer, envelope);
        let len = total.min(WANTED_MAX);
        self.next_token += 1;
        let token = self.next_token;
        self.pulls.insert(token, Pulled { peer, tag, bytes: vec![0; len as usize], got: 0 });
        if tag.is_multiple_of(2) {
            return Some(Wanted { len, token });
        }
        self.later.push(Later::Pull { peer, send_id, len, token });
        None
    }

    fn segment(&mut self, token: u64, offset: u64, payload: &[u8]) {
        let pulled = self.pulls.get_mut(&token).expect("a transfer that was asked for");
        pulled.got += payload.len() as u64;
        assert!(pulled.got <= pulled.bytes.len() as u64);
        pulled.bytes[offset as usize..][..payload.len()].copy_from_slice(payload);
    }

    fn pulled(&mut self, token: u64, complete: bool) {
        let pulled = self.pulls.remove(&token).expect("a transfer ends once");
        if complete {
            assert_eq!(pulled.got, pulled.bytes.len() as u64);
            self.whole(pulled.peer, pulled.tag, &pulled.bytes);
        }
    }

    fn sent(&mut self, token: u64, _complete: bool) {
        assert!(self.sends.remove(&token).is_some(), "a send is reported once");
    }

    fn gone(&mut self, peer: PeerId, _why: Gone) {
        assert!(self.gone.insert(peer), "a peer is gone once");
        let is_sending = self.sends.values().any(|send| send.peer == peer);
        assert!(!is_sending, "its operations have been reported before");
        self.eager.remove(&peer);
    }
}
