//! The transport as a sequence of operations: bytes decide what three
//! endpoints and their network do next.
//!
//! Whatever the order of calls, and whatever the network does: each message
//! arrives once at most, whole and in its order; no more lies unread in an
//! endpoint than credit allows; and when nothing was broken on purpose, all
//! arrive once the network is good again.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use wiglaf_transport::limits::{CREDIT_INITIAL, CREDIT_PER_MESSAGE};
use wiglaf_transport::{
    Config, Gone, Instant, Path, PeerId, Posted, Sink, Source, Stats, Transport, Wanted,
};
use wiglaf_wire::{Class, Envelope, Epoch, HEADER_LEN, JobKey, seal};

use crate::Tape;
use crate::parsers::header;

const KEY: JobKey = JobKey([3; 16]);
const NODES: usize = 3;
const FRAME_LEN: usize = 700;
const PORT: u16 = 7;
/// Bounds what one input can cost.
const STEPS_MAX: usize = 400;
/// Datagrams under way at most; more are lost.
const FLIGHTS_MAX: usize = 2048;
/// Longest message that is sent, in bytes.
const LEN_MAX: usize = 200_000;
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
    tag: u64,
    bytes: Vec<u8>,
    got: u64,
}

/// The application on an endpoint.
#[derive(Default)]
struct App {
    /// The next message that must come from each peer.
    expected: HashMap<PeerId, u64>,
    /// Charges of what each peer has sent unasked and is not consumed.
    unread: HashMap<PeerId, u64>,
    eager: HashMap<PeerId, (u64, u64, Vec<u8>)>,
    pulls: HashMap<u64, Pulled>,
    sends: HashMap<u64, u64>,
    later: Vec<Later>,
    next_token: u64,
    received: u64,
    /// Somebody who has the key has lied: what comes need not make sense.
    is_lied_to: bool,
}

impl App {
    fn begin(&mut self, peer: PeerId, envelope: &Envelope) -> u64 {
        let expected = self.expected.entry(peer).or_default();
        assert!(self.is_lied_to || envelope.tag == *expected, "{envelope:?}, not {expected}");
        *expected += 1;
        envelope.tag
    }

    fn check(&mut self, tag: u64, bytes: &[u8]) {
        self.received += 1;
        let right = (0..).zip(bytes).all(|(at, b)| *b == byte(tag, at));
        assert!(right || self.is_lied_to, "message {tag} was altered");
    }

    fn charge(&mut self, peer: PeerId, len: u64) {
        let unread = self.unread.entry(peer).or_default();
        *unread += len + CREDIT_PER_MESSAGE;
        assert!(*unread <= CREDIT_INITIAL || self.is_lied_to, "{unread} bytes lie unread");
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
        *self.unread.entry(peer).or_default() -= len + CREDIT_PER_MESSAGE;
    }
}

impl Source for App {
    fn read(&self, token: u64, offset: u64, out: &mut [u8]) {
        let tag = self.sends[&token];
        for (at, b) in (offset..).zip(out) {
            *b = byte(tag, at);
        }
    }
}

impl Sink for App {
    fn message(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> bool {
        let tag = self.begin(peer, envelope);
        self.charge(peer, payload.len() as u64);
        self.check(tag, payload);
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
        self.check(tag, &bytes);
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
        self.pulls.insert(token, Pulled { tag, bytes: vec![0; len as usize], got: 0 });
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
            self.check(pulled.tag, &pulled.bytes);
        }
    }

    fn sent(&mut self, token: u64, _complete: bool) {
        assert!(self.sends.remove(&token).is_some(), "a send is reported once");
    }

    fn gone(&mut self, peer: PeerId, _why: Gone) {
        self.eager.remove(&peer);
    }
}

struct Node {
    transport: Transport,
    app: App,
    epoch: Epoch,
    /// How many messages went to each incarnation.
    sent: HashMap<PeerId, u64>,
}

impl Node {
    fn new(epoch: Epoch) -> Self {
        let path = Path {
            frame_len_max: FRAME_LEN,
            latency_train_max: 3,
            bulk_train_max: 4,
            bulk_window_len: 16 * 1024,
            bulk_port: PORT,
        };
        let transport = Transport::new(Config {
            epoch,
            key: KEY,
            paths: vec![path],
            silence_limit: Duration::from_secs(5),
            flow_control: true,
            encrypt: false,
        });
        Self { transport, app: App::default(), epoch, sent: HashMap::new() }
    }
}

struct World {
    now: Instant,
    nodes: Vec<Node>,
    flights: VecDeque<(usize, usize, Vec<u8>)>,
    next_epoch: u64,
    posted: u64,
    /// Not everything need arrive any more.
    is_broken: bool,
}

fn address(node: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1 + node as u8), PORT)
}

fn node_at(address: SocketAddrV4) -> usize {
    usize::from(address.ip().octets()[3] - 1)
}

/// See the module.
pub(crate) fn transport(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let nodes = (0..NODES).map(|node| Node::new(Epoch(1 + node as u64))).collect();
    let mut world = World {
        now: Instant::from_nanos(1),
        nodes,
        flights: VecDeque::new(),
        next_epoch: 100,
        posted: 0,
        is_broken: false,
    };
    for _ in 0..STEPS_MAX {
        if tape.is_empty() {
            break;
        }
        world.step(&mut tape);
    }
    if !world.is_broken {
        world.finish();
    }
}

impl World {
    fn step(&mut self, tape: &mut Tape<'_>) {
        let what = tape.byte();
        let node = tape.below(NODES);
        match what % 16 {
            0 | 1 => self.send(node, tape),
            2 | 3 => {
                self.transmit(node, 8);
            }
            4 | 5 => self.deliver(0),
            6 => {
                let count = tape.below(64);
                (0..count).for_each(|_| self.deliver(0));
            }
            7 => {
                let at = tape.below(64);
                self.deliver(at);
            }
            8 => drop(self.flights.remove(tape.below(64))),
            9 => {
                if let Some(flight) = self.flights.get(tape.below(64)).cloned() {
                    self.flights.push_back(flight);
                }
            }
            10 => self.corrupt(tape),
            11 => {
                self.now = self.now + Duration::from_micros(1 << tape.below(24));
                self.tick();
            }
            12 => self.settle(node, usize::from(tape.byte())),
            13 => self.restart(node),
            14 => self.forge(node, tape),
            _ => self.rarely(node, tape),
        }
    }

    fn send(&mut self, from: usize, tape: &mut Tape<'_>) {
        let to = tape.below(NODES);
        let order = tape.below(16);
        let len = tape.below(2 << order) * (1 + tape.below(4));
        if to == from {
            return;
        }
        let epoch = self.nodes[to].epoch;
        let node = &mut self.nodes[from];
        let peer = node.transport.connect(address(to), epoch, 0);
        let number = node.sent.entry(peer).or_default();
        node.app.next_token += 1;
        let token = node.app.next_token;
        node.app.sends.insert(token, *number);
        let envelope = Envelope::new(Class::Tagged, *number, None);
        let report = tape.byte().is_multiple_of(2);
        let len = len.min(LEN_MAX);
        match node.transport.send(peer, envelope, len, token, report, &node.app) {
            Ok(posted) => {
                if posted == Posted::Buffered && !report {
                    node.app.sends.remove(&token);
                }
                *number += 1;
                self.posted += 1;
            }
            Err(_) => drop(node.app.sends.remove(&token)),
        }
    }

    fn transmit(&mut self, me: usize, trains: usize) -> bool {
        let mut out = vec![0; 4 * FRAME_LEN];
        let node = &mut self.nodes[me];
        for _ in 0..trains {
            let Some(t) = node.transport.poll_transmit(self.now, &node.app, &mut out) else {
                return false;
            };
            for datagram in out[..t.len].chunks(t.segment_len) {
                if self.flights.len() < FLIGHTS_MAX {
                    self.flights.push_back((me, node_at(t.to), datagram.to_vec()));
                }
            }
        }
        true
    }

    fn deliver(&mut self, at: usize) {
        let Some((from, to, bytes)) = self.flights.remove(at) else { return };
        let node = &mut self.nodes[to];
        node.transport.handle_datagram(self.now, address(from), 0, &bytes, &mut node.app);
    }

    fn corrupt(&mut self, tape: &mut Tape<'_>) {
        let (at, bit) = (tape.below(64), tape.below(8 * FRAME_LEN));
        if let Some((_, _, bytes)) = self.flights.get_mut(at)
            && let Some(byte) = bytes.get_mut(bit / 8)
        {
            *byte ^= 1 << (bit % 8);
        }
        self.deliver(at);
    }

    fn tick(&mut self) {
        for node in &mut self.nodes {
            node.transport.handle_timeout(self.now, &mut node.app);
            self.is_broken |= node.transport.stats().drop_peer_gone > 0;
        }
        // Who was silent too long is given up, rightly.
        let gone = |node: &Node| {
            node.sent.keys().any(|peer| node.transport.peer(*peer).is_some_and(|p| p.is_gone))
        };
        self.is_broken |= self.nodes.iter().any(gone);
    }

    /// Takes up to `count` of the messages that came unexpectedly, the last ones first.
    fn settle(&mut self, me: usize, count: usize) {
        let node = &mut self.nodes[me];
        for _ in 0..count {
            match node.app.later.pop() {
                None => return,
                Some(Later::Consume { peer, len }) => {
                    node.app.consumed(peer, len);
                    node.transport.consume(peer, len);
                }
                Some(Later::Pull { peer, send_id, len, token }) => {
                    let pulls = node.transport.pull(peer, send_id, len, token);
                    if !pulls || len == 0 {
                        node.app.pulled(token, pulls);
                    }
                }
            }
        }
    }

    fn restart(&mut self, me: usize) {
        self.next_epoch += 1;
        let is_lied_to = self.nodes[me].app.is_lied_to;
        self.nodes[me] = Node::new(Epoch(self.next_epoch));
        self.nodes[me].app.is_lied_to = is_lied_to;
        self.is_broken = true;
    }

    /// A datagram of anybody who has the key.
    fn forge(&mut self, to: usize, tape: &mut Tape<'_>) {
        let mut header = header(tape);
        let from = tape.below(NODES);
        if !tape.byte().is_multiple_of(4) {
            header.source = self.nodes[from].epoch;
            header.destination = self.nodes[to].epoch;
            header.sequence %= 512;
            header.ack %= 512;
        }
        let mut datagram = vec![0; HEADER_LEN];
        datagram.extend_from_slice(tape.piece());
        seal(&header, &KEY, &mut datagram);
        self.is_broken = true;
        for node in &mut self.nodes {
            node.app.is_lied_to = true;
        }
        self.flights.push_front((from, to, datagram));
        self.deliver(0);
    }

    fn rarely(&mut self, me: usize, tape: &mut Tape<'_>) {
        let (what, peer) = (tape.byte(), PeerId(tape.below(NODES) as u32));
        let node = &mut self.nodes[me];
        match what % 8 {
            0 | 1 => node.transport.hold(peer),
            2 | 3 => node.transport.release(peer),
            4 => node.transport.give_up(peer, Gone::Unreachable, &mut node.app),
            5 => node.transport.close(|_| false),
            6 => {
                let at = address(tape.below(NODES));
                let front: [u8; 24] = tape.bytes();
                let quoted = (what > 127).then_some(&front[..]);
                node.transport.handle_unreachable(self.now, at, quoted, &mut node.app);
            }
            _ => node.transport.give_up_path(0, &mut node.app),
        }
        self.is_broken |= what % 8 > 3;
    }

    /// From here on the network is good and everybody reads: all must arrive.
    fn finish(&mut self) {
        for _ in 0..20_000 {
            while !self.flights.is_empty() {
                self.deliver(0);
            }
            self.tick();
            if self.is_broken {
                return;
            }
            for me in 0..NODES {
                for peer in 0..NODES as u32 {
                    self.nodes[me].transport.release(PeerId(peer));
                }
                self.settle(me, usize::MAX);
                while self.transmit(me, 64) && self.flights.len() < FLIGHTS_MAX {}
            }
            let received: u64 = self.nodes.iter().map(|node| node.app.received).sum();
            let drained = self.nodes.iter().all(|node| node.transport.is_drained());
            if received == self.posted && drained {
                assert!(self.nodes.iter().all(|node| node.app.sends.is_empty()));
                return;
            }
            if self.flights.is_empty() {
                let next = self.nodes.iter().filter_map(|node| node.transport.poll_timeout()).min();
                self.now = self.now.max(next.expect("something will happen again"));
            }
        }
        let stats =
            self.nodes.iter().fold(Stats::default(), |sum, n| sum.plus(n.transport.stats()));
        let received: Vec<u64> = self.nodes.iter().map(|node| node.app.received).collect();
        panic!("{} messages were sent and {received:?} arrived: {stats:?}", self.posted);
    }
}
