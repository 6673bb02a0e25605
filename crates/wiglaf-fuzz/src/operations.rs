//! The transport as a sequence of operations: bytes decide what three
//! endpoints and their network do next.
//!
//! Whatever the order of calls, and whatever the network does: each message
//! arrives once at most, whole and in its order; no more lies unread in an
//! endpoint than credit allows; between two endpoints of which neither broke
//! anything on purpose all arrives once the network is good again, whatever
//! was done to the third; and every operation ends.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use wiglaf_transport::{Config, Gone, Instant, Mark, Path, PeerId, Posted, Stats, Transport};
use wiglaf_wire::encrypted::JobCipher;
use wiglaf_wire::{Class, Envelope, Epoch, JobKey};

use crate::application::App;
use crate::parsers::header;
use crate::{Tape, sealed};

const KEY: JobKey = JobKey([3; 16]);
const NODES: usize = 3;
const PORT: u16 = 7;
/// Bounds what one input can cost.
const STEPS_MAX: usize = 400;
/// Datagrams under way at most; more are lost.
const FLIGHTS_MAX: usize = 2048;
/// Longest message that is sent, in bytes: of those that can go as a whole unasked, and longer.
const LEN_MAX: usize = 400_000;
/// Datagrams that are handed over as one train at most.
const TRAIN_MAX: usize = 16;
const SILENCE_LIMIT: Duration = Duration::from_secs(5);

/// What all endpoints have in common.
#[derive(Clone, Copy)]
struct Setup {
    encrypt: bool,
    path: Path,
}

impl Setup {
    fn new(choice: u8) -> Self {
        let pick = |of: [usize; 4], at: u8| of[usize::from(choice >> at) % 4];
        let path = Path {
            frame_len_max: pick([700, 700, 1472, 660], 1),
            frame_len_sure: pick([700, 700, 700, 660], 1),
            latency_train_max: pick([3, 1, 8, 16], 3),
            bulk_train_max: pick([4, 1, TRAIN_MAX, 7], 5),
            bulk_window_len: (16 * 1024) << ((choice >> 7) * 3),
            bulk_port: PORT,
        };
        Self { encrypt: choice % 2 == 1, path }
    }
}

struct Node {
    transport: Transport,
    app: App,
    epoch: Epoch,
    /// How many messages went to each incarnation.
    sent: HashMap<PeerId, u64>,
    mark: Option<Mark>,
}

impl Node {
    fn new(epoch: Epoch, setup: Setup) -> Self {
        let transport = Transport::new(Config {
            epoch,
            key: KEY,
            paths: vec![setup.path],
            silence_limit: SILENCE_LIMIT,
            flow_control: true,
            encrypt: setup.encrypt,
        });
        Self { transport, app: App::default(), epoch, sent: HashMap::new(), mark: None }
    }

    /// Who it takes for the node.
    fn peers_at(&self, node: usize) -> Vec<PeerId> {
        let peers = (0..).map(PeerId).map_while(|id| Some((id, self.transport.peer(id)?)));
        peers.filter(|(_, view)| view.at == address(node)).map(|(id, _)| id).collect()
    }
}

/// What two endpoints can still promise each other.
#[derive(Clone, Copy, Default)]
struct Between {
    /// One was given up, or began anew: not everything need arrive.
    is_broken: bool,
    /// Somebody who has the key has lied: what comes need not make sense.
    is_lied_to: bool,
    /// One spoke to whoever is where the other is.
    is_anonymous: bool,
}

impl Between {
    /// If who was spoken to by address alone began anew, what was for one incarnation may have come to
    /// the next, and stands for what is for that one.
    fn need_not_make_sense(self) -> bool {
        self.is_lied_to || (self.is_anonymous && self.is_broken)
    }
}

struct World {
    now: Instant,
    setup: Setup,
    nodes: Vec<Node>,
    between: [[Between; NODES]; NODES],
    flights: VecDeque<(usize, usize, Vec<u8>)>,
    next_epoch: u64,
}

fn address(node: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1 + node as u8), PORT)
}

fn node_at(address: SocketAddrV4) -> usize {
    usize::from(address.ip().octets()[3] - 1)
}

/// All pairs, the same both ways.
fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..NODES).flat_map(|a| (0..NODES).filter(move |b| *b != a).map(move |b| (a, b)))
}

/// See the module.
pub(crate) fn transport(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let mut world = World::new(Setup::new(tape.byte()), tape.byte());
    for _ in 0..STEPS_MAX {
        if tape.is_empty() {
            break;
        }
        world.step(&mut tape);
        world.check();
    }
    world.finish();
}

impl World {
    fn new(setup: Setup, first: u8) -> Self {
        let nodes = (0..NODES).map(|node| Node::new(Epoch(1 + node as u64), setup)).collect();
        let mut world = Self {
            now: Instant::from_nanos(1),
            setup,
            nodes,
            between: Default::default(),
            flights: VecDeque::new(),
            next_epoch: 100,
        };
        // Where the bits of numbers that travel end.
        let number = match first % 4 {
            2 => (1 << 32) - u64::from(first),
            3 => (1 << 40) - u64::from(first),
            _ => return world,
        };
        for (a, b) in pairs() {
            let epoch = world.nodes[b].epoch;
            let peer = world.nodes[a].transport.connect(address(b), epoch, 0);
            world.nodes[a].transport.begin_at(peer, number);
        }
        world
    }

    fn step(&mut self, tape: &mut Tape<'_>) {
        let what = tape.byte();
        let node = tape.below(NODES);
        match what % 18 {
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
            12 => {
                let node = &mut self.nodes[node];
                node.app.settle(&mut node.transport, usize::from(tape.byte()));
            }
            13 => self.restart(node),
            14 => self.forge(node, tape),
            15 => self.rarely(node, tape),
            16 => self.tune(node, tape),
            _ => {
                let waited = Duration::from_nanos(u64::from(tape.byte()) << tape.below(16));
                let at = tape.below(64);
                self.deliver_train(at, (!waited.is_zero()).then_some(waited));
            }
        }
    }

    fn send(&mut self, from: usize, tape: &mut Tape<'_>) {
        let to = tape.below(NODES);
        let order = tape.below(16);
        let len = (tape.below(2 << order) * (1 + tape.below(8))).min(LEN_MAX);
        let how = tape.byte();
        if to == from {
            return;
        }
        let is_anonymous = how >= 240;
        self.note(from, to, |between| between.is_anonymous |= is_anonymous);
        let epoch = if is_anonymous { Epoch::UNKNOWN } else { self.nodes[to].epoch };
        let node = &mut self.nodes[from];
        let peer = node.transport.connect(address(to), epoch, 0);
        let number = node.sent.entry(peer).or_default();
        let token = node.app.begin_send(peer, *number);
        let envelope = Envelope::new(Class::Tagged, *number, None);
        let report = how.is_multiple_of(2);
        match node.transport.send(peer, envelope, len, token, report, &node.app) {
            Ok(posted) => {
                if posted == Posted::Buffered && !report {
                    node.app.forget_send(token);
                }
                *number += 1;
                if how % 8 >= 6 {
                    node.transport.linger(peer, len, self.now);
                }
            }
            Err(_) => node.app.forget_send(token),
        }
    }

    fn transmit(&mut self, me: usize, trains: usize) -> bool {
        let mut out = vec![0; TRAIN_MAX * self.setup.path.frame_len_max];
        let node = &mut self.nodes[me];
        for _ in 0..trains {
            let Some(t) = node.transport.poll_transmit(self.now, &node.app, &mut out) else {
                return false;
            };
            node.mark = t.mark.or(node.mark);
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

    /// Hands over as a train what could be one.
    fn deliver_train(&mut self, at: usize, waited: Option<Duration>) {
        let Some((from, to, mut train)) = self.flights.remove(at) else { return };
        let segment_len = train.len();
        for _ in 1..TRAIN_MAX {
            let belongs = |f: &&(usize, usize, Vec<u8>)| {
                f.0 == from && f.1 == to && (1..=segment_len).contains(&f.2.len())
            };
            let Some((_, _, next)) = self.flights.get(at).filter(belongs) else { break };
            train.extend_from_slice(next);
            let is_last = next.len() < segment_len;
            self.flights.remove(at);
            if is_last {
                break;
            }
        }
        let node = &mut self.nodes[to];
        let way = (address(from), 0);
        node.transport.handle_train(self.now, way, (&train, segment_len), waited, &mut node.app);
    }

    fn corrupt(&mut self, tape: &mut Tape<'_>) {
        let (at, bit) = (tape.below(64), tape.below(8 * self.setup.path.frame_len_max));
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
            // Its timeout is also that of what is to be said of overruns.
            node.transport.tell_of_overrun(self.now);
        }
        // Who was silent too long is given up, rightly.
        for (a, b) in pairs() {
            let node = &self.nodes[a];
            if node.peers_at(b).into_iter().any(|peer| node.transport.is_gone(peer)) {
                self.broken(a, b);
            }
        }
    }

    /// What holds between two holds both ways.
    fn note(&mut self, a: usize, b: usize, what: impl Fn(&mut Between)) {
        what(&mut self.between[a][b]);
        what(&mut self.between[b][a]);
    }

    fn broken(&mut self, a: usize, b: usize) {
        self.note(a, b, |between| between.is_broken = true);
    }

    fn broken_with_all(&mut self, me: usize) {
        (0..NODES).for_each(|other| self.broken(me, other));
    }

    fn restart(&mut self, me: usize) {
        self.next_epoch += 1;
        self.nodes[me] = Node::new(Epoch(self.next_epoch), self.setup);
        self.broken_with_all(me);
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
        let body = tape.piece();
        let datagram = if self.setup.encrypt && header.source.is_known() {
            let cipher = JobCipher::new(&KEY).of_sender(header.source);
            let count = u64::from(tape.byte()) << tape.below(56);
            sealed(&header, &KEY, Some((&cipher, count)), body)
        } else {
            sealed(&header, &KEY, None, body)
        };
        let owner = (0..NODES).find(|node| self.nodes[*node].epoch == header.source);
        for liar in [Some(from), owner].into_iter().flatten() {
            self.broken(liar, to);
            self.note(liar, to, |between| between.is_lied_to = true);
        }
        self.flights.push_front((from, to, datagram));
        self.deliver(0);
    }

    /// Calls that nobody's messages may depend on.
    fn tune(&mut self, me: usize, tape: &mut Tape<'_>) {
        let (what, peer) = (tape.byte(), PeerId(tape.below(NODES) as u32));
        let node = &mut self.nodes[me];
        match what % 10 {
            0..=2 => node.transport.set_latency_train_max(0, 1 + usize::from(what) % 20),
            3 => node.transport.end_lingering(),
            4 | 5 => node.transport.owe(peer, what > 127),
            6 => {
                let _ = (node.transport.is_fresh(peer), node.transport.is_pulling());
            }
            7 => node.transport.overrun(0),
            8 => drop(node.transport.tell_of_overrun(self.now)),
            _ => {
                if let Some(mark) = node.mark.take_if(|mark| node.transport.has_arrived(*mark)) {
                    assert!(node.transport.peer(mark.peer).is_some());
                }
            }
        }
    }

    fn rarely(&mut self, me: usize, tape: &mut Tape<'_>) {
        let (what, peer) = (tape.byte(), PeerId(tape.below(NODES) as u32));
        let other = tape.below(NODES);
        let at = address(other);
        let epoch = self.nodes[other].epoch;
        let node = &mut self.nodes[me];
        match what % 9 {
            0 | 1 => return node.transport.hold(peer),
            2 | 3 => return node.transport.release(peer),
            4 => {
                if let Some(view) = node.transport.peer(peer) {
                    node.transport.give_up(peer, Gone::Unreachable, &mut node.app);
                    self.broken(me, node_at(view.at));
                }
                return;
            }
            5 => {
                node.transport.close(|_| false);
                return self.broken_with_all(me);
            }
            6 => {
                let front: [u8; 24] = tape.bytes();
                let quoted = (what > 127).then_some(&front[..]);
                node.transport.handle_unreachable(self.now, at, quoted, &mut node.app);
            }
            7 => node.transport.handle_death(self.now, epoch, &mut node.app),
            _ => {
                node.transport.give_up_path(0, &mut node.app);
                return self.broken_with_all(me);
            }
        }
        self.broken(me, other);
    }

    /// What an endpoint found wrong is so only where nobody has lied.
    fn check(&mut self) {
        for (me, node) in self.nodes.iter_mut().enumerate() {
            for (peer, what) in node.app.take_wrongs(&node.transport) {
                let at = node.transport.peer(peer).expect("a known peer").at;
                let is_excused = self.between[me][node_at(at)].need_not_make_sense();
                assert!(is_excused, "node {me} of {at}: {what}");
            }
        }
    }

    /// From here on the network is good and everybody reads: what was promised must come.
    fn finish(&mut self) {
        for _ in 0..20_000 {
            while !self.flights.is_empty() {
                self.deliver(0);
            }
            self.check();
            self.tick();
            for me in 0..NODES {
                let node = &mut self.nodes[me];
                for other in 0..NODES {
                    for peer in node.peers_at(other) {
                        node.transport.release(peer);
                    }
                }
                node.app.settle(&mut node.transport, usize::MAX);
                node.transport.end_lingering();
                while self.transmit(me, 64) && self.flights.len() < FLIGHTS_MAX {}
            }
            if pairs().all(|(from, to)| self.is_complete(from, to)) {
                return;
            }
            if self.flights.is_empty() {
                let next = self.nodes.iter().filter_map(|node| node.transport.poll_timeout()).min();
                self.now = self.now.max(next.expect("something will happen again"));
            }
        }
        let stats =
            self.nodes.iter().fold(Stats::default(), |sum, n| sum.plus(n.transport.stats()));
        let open: Vec<_> = pairs().filter(|(from, to)| !self.is_complete(*from, *to)).collect();
        panic!("not complete between {open:?}: {stats:?}");
    }

    /// Whether all that was promised from one to the other has come.
    fn is_complete(&self, from: usize, to: usize) -> bool {
        let (sender, receiver) = (&self.nodes[from], &self.nodes[to]);
        let between = self.between[from][to];
        if between.need_not_make_sense() {
            return true;
        }
        let has_ended = !sender.peers_at(to).iter().any(|peer| sender.app.is_busy_with(*peer));
        if between.is_broken {
            return has_ended;
        }
        let sent: u64 = sender.peers_at(to).iter().filter_map(|peer| sender.sent.get(peer)).sum();
        let came: u64 =
            receiver.peers_at(from).iter().map(|peer| receiver.app.received(*peer)).sum();
        let any_broken = self.between.iter().flatten().any(|between| between.is_broken);
        has_ended && sent == came && (any_broken || sender.transport.is_drained())
    }
}
