//! Many senders, one receiver, one port between them: what congestion control
//! makes of it.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use wiglaf_transport::{
    Config, Gone, Instant, Path, PeerId, Posted, SendError, Sink, Source, Stats, Transport, Wanted,
};
use wiglaf_wire::{Class, Envelope, Epoch, JobKey};

use crate::network::{Faults, Network, Switch};
use crate::random::Random;

const PORT: u16 = 7;
/// Messages that each sender keeps under way.
const MESSAGES_AT_ONCE: u64 = 2;
/// Messages that are tagged with more have been seen.
const TOKEN_MAX: u64 = 1 << 40;

/// The scenario: endpoint 0 receives from all others.
#[derive(Debug, Clone, Copy)]
pub struct Incast {
    /// How many send.
    pub senders: usize,
    /// Bytes of each message. Short ones go eagerly, and each sender has as many of them under way as
    /// its credit allows.
    pub message_len: u64,
    /// Longest datagram, in bytes.
    pub frame_len_max: usize,
    /// What joins them.
    pub switch: Switch,
    /// What goes wrong besides full queues.
    pub faults: Faults,
    /// Whether the receiver sends as much to each sender at the same time.
    pub both_ways: bool,
    /// Endpoints do not look for a while, now and then: somebody else has their core.
    pub stall: Option<Stall>,
}

/// How an endpoint is kept from its core.
#[derive(Debug, Clone, Copy)]
pub struct Stall {
    /// Once in so long a time.
    pub every: Duration,
    /// For how long; shorter than that.
    pub length: Duration,
    /// At a moment of each period that follows from the seed, else always at the same one.
    pub is_random: bool,
}

impl Stall {
    /// When endpoint `me` looks next, if it wants to at `at`. They do not all stall together.
    fn awake_at(&self, seed: u64, me: usize, at: Instant) -> Instant {
        let (every, length) = (self.every.as_nanos() as u64, self.length.as_nanos() as u64);
        let (into, from) = if self.is_random {
            let period = at.as_nanos() / every;
            let mut random = Random::new(Random::new(seed ^ period << 16).bits() ^ me as u64);
            (at.as_nanos() % every, random.below((every - length).max(1)))
        } else {
            ((at.as_nanos() + me as u64 * every / 3) % every, 0)
        };
        let is_away = (from..from + length).contains(&into);
        if is_away { at + Duration::from_nanos(from + length - into) } else { at }
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct IncastReport {
    /// Payload bytes that reached endpoint 0, by sender.
    pub received: Vec<u64>,
    /// Payload bytes that reached all others.
    pub received_by_others: u64,
    /// Measured time.
    pub elapsed: Duration,
    /// Datagrams that found a full queue at the switch.
    pub overflowed: u64,
    /// Counters of all endpoints, summed.
    pub stats: Stats,
}

impl IncastReport {
    /// Payload that reached endpoint 0, in bits a second.
    #[must_use]
    pub fn bits_per_s(&self) -> f64 {
        8.0 * self.received.iter().sum::<u64>() as f64 / self.elapsed.as_secs_f64()
    }

    /// Jain's fairness index (Jain, Chiu and Hawe, 1984): 1 when all got the same.
    #[must_use]
    pub fn fairness(&self) -> f64 {
        let sum: f64 = self.received.iter().map(|b| *b as f64).sum();
        let squares: f64 = self.received.iter().map(|b| (*b as f64).powi(2)).sum();
        sum * sum / (self.received.len() as f64 * squares)
    }
}

/// An application that pulls whatever comes and counts it.
#[derive(Debug, Default)]
struct App {
    next_token: u64,
    /// Which peer a transfer is from.
    pulls: HashMap<u64, PeerId>,
    received: HashMap<PeerId, u64>,
    /// Sends under way, by peer.
    under_way: HashMap<PeerId, u64>,
}

impl App {
    fn count(&mut self, peer: PeerId, payload: &[u8]) {
        *self.received.entry(peer).or_default() += payload.len() as u64;
    }
}

impl Source for App {
    fn read(&self, token: u64, _: u64, out: &mut [u8]) {
        out.fill(token as u8);
    }
}

impl Sink for App {
    fn message(&mut self, peer: PeerId, _: &Envelope, payload: &[u8]) -> bool {
        self.count(peer, payload);
        true
    }
    fn first(&mut self, peer: PeerId, _: &Envelope, _: u64, payload: &[u8]) {
        self.count(peer, payload);
    }
    fn next(&mut self, peer: PeerId, payload: &[u8], _: bool) -> bool {
        self.count(peer, payload);
        true
    }
    fn request(&mut self, peer: PeerId, _: &Envelope, total: u64, _: u32) -> Option<Wanted> {
        self.next_token += 1;
        let token = TOKEN_MAX + self.next_token;
        self.pulls.insert(token, peer);
        Some(Wanted { len: total, token })
    }
    fn segment(&mut self, token: u64, _: u64, payload: &[u8]) {
        if let Some(peer) = self.pulls.get(&token) {
            self.count(*peer, payload);
        }
    }
    fn pulled(&mut self, token: u64, _: bool) {
        self.pulls.remove(&token);
    }
    fn sent(&mut self, token: u64, _: bool) {
        // The token of a send is the peer's number.
        *self.under_way.entry(PeerId(token as u32)).or_default() -= 1;
    }
    fn gone(&mut self, _: PeerId, _: Gone) {}
}

struct Node {
    transport: Transport,
    app: App,
    /// What has arrived, when, and was not looked at.
    inbox: VecDeque<(usize, Instant, Vec<u8>)>,
    /// It could not look since it did last.
    was_asleep: bool,
    /// To whom it sends.
    targets: Vec<PeerId>,
}

fn address(node: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(0x0a00_0001 + node as u32), PORT)
}

fn node_at(address: SocketAddrV4) -> usize {
    (u32::from(*address.ip()) - 0x0a00_0001) as usize
}

impl Incast {
    /// Eight senders of 256 KiB messages at 1 Gbit/s, into a queue of 128 frames of 1500 bytes.
    #[must_use]
    pub fn new(senders: usize) -> Self {
        Self {
            senders,
            message_len: 256 << 10,
            frame_len_max: 1472,
            switch: Switch { bits_per_s: 1_000_000_000, queue_len: 128 * 1538 },
            faults: Faults::NONE,
            both_ways: false,
            stall: None,
        }
    }

    /// Runs for `settle`, then measures for `measure` of virtual time.
    ///
    /// # Errors
    /// When nothing happens any more.
    pub fn run(
        &self,
        seed: u64,
        settle: Duration,
        measure: Duration,
    ) -> Result<IncastReport, String> {
        let mut random = Random::new(seed);
        let mut nodes = self.nodes(&mut random);
        let mut network = Network::with_switch(self.faults, self.switch, nodes.len());
        let mut now = Instant::from_nanos(1);
        let started = now + settle;
        let end = started + measure;
        let mut before = None;
        while now < end {
            if before.is_none() && now >= started {
                before = Some(self.received(&nodes));
            }
            self.step((seed, now), &mut nodes, &mut network, &mut random);
            let next = nodes.iter().enumerate().filter_map(|(me, node)| {
                let timer = node.transport.poll_timeout().map(|at| at.max(now));
                let is_waiting = node.was_asleep || !node.inbox.is_empty();
                let wanted = if is_waiting { Some(now) } else { timer };
                wanted.map(|at| self.awake_at(seed, me, at))
            });
            let next = next.chain(network.next_at()).min();
            let next = next.ok_or("nothing will ever happen again")?;
            // Two events at one instant are one step each.
            now = if next > now { next } else { now + Duration::from_nanos(100) };
        }
        let (before, others_before) = before.unwrap_or_default();
        let (after, others_after) = self.received(&nodes);
        let received = after.iter().zip(before).map(|(after, before)| after - before).collect();
        Ok(IncastReport {
            received,
            received_by_others: others_after - others_before,
            elapsed: now - started,
            overflowed: network.overflowed,
            stats: nodes.iter().fold(Stats::default(), |sum, n| sum.plus(n.transport.stats())),
        })
    }

    fn awake_at(&self, seed: u64, me: usize, at: Instant) -> Instant {
        self.stall.map_or(at, |stall| stall.awake_at(seed, me, at))
    }

    fn nodes(&self, random: &mut Random) -> Vec<Node> {
        let count = self.senders + 1;
        let epochs: Vec<Epoch> = (0..count).map(|_| Epoch(random.bits() | 1)).collect();
        let path = Path {
            frame_len_max: self.frame_len_max,
            frame_len_sure: self.frame_len_max,
            latency_train_max: 1,
            bulk_train_max: 65_000 / self.frame_len_max,
            bulk_window_len: 4 << 20,
            bulk_port: PORT,
        };
        let node = |me: usize| {
            let mut transport = Transport::new(Config {
                epoch: epochs[me],
                key: JobKey([3; 16]),
                paths: vec![path],
                silence_limit: Duration::from_secs(600),
                flow_control: true,
                encrypt: false,
            });
            let others = if me == 0 { 1..count } else { 0..1 };
            let peers: Vec<PeerId> =
                others.map(|other| transport.connect(address(other), epochs[other], 0)).collect();
            let targets = if me == 0 && !self.both_ways { Vec::new() } else { peers };
            Node {
                transport,
                app: App::default(),
                inbox: VecDeque::new(),
                was_asleep: false,
                targets,
            }
        };
        (0..count).map(node).collect()
    }

    /// Bytes that endpoint 0 has received, by sender, and all others together.
    fn received(&self, nodes: &[Node]) -> (Vec<u64>, u64) {
        let of = |node: &Node, peer| node.app.received.get(&PeerId(peer)).copied().unwrap_or(0);
        let by_sender = (0..self.senders as u32).map(|peer| of(&nodes[0], peer)).collect();
        (by_sender, nodes[1..].iter().map(|node| of(node, 0)).sum())
    }

    fn step(
        &self,
        (seed, now): (u64, Instant),
        nodes: &mut [Node],
        network: &mut Network,
        random: &mut Random,
    ) {
        while let Some((from, to, bytes)) = network.arrive(now) {
            nodes[to].inbox.push_back((from, now, bytes));
        }
        let mut out = vec![0; 1 << 16];
        for (me, node) in nodes.iter_mut().enumerate() {
            if self.awake_at(seed, me, now) > now {
                node.was_asleep = true;
                continue;
            }
            node.was_asleep = false;
            while let Some((from, arrived_at, bytes)) = node.inbox.pop_front() {
                let (way, train) = ((address(from), 0), (bytes.as_slice(), bytes.len()));
                let waited = Some(now - arrived_at);
                node.transport.handle_train(now, way, train, waited, &mut node.app);
            }
            node.transport.handle_timeout(now, &mut node.app);
            for target in 0..node.targets.len() {
                self.keep_sending(node, target);
            }
            while let Some(t) = node.transport.poll_transmit(now, &node.app, &mut out) {
                for datagram in out[..t.len].chunks(t.segment_len) {
                    network.send(now, me, node_at(t.to), datagram, random);
                }
            }
        }
    }

    fn keep_sending(&self, node: &mut Node, target: usize) {
        let peer = node.targets[target];
        while node.app.under_way.get(&peer).is_none_or(|count| *count < MESSAGES_AT_ONCE) {
            let envelope = Envelope::new(Class::Tagged, 1, None);
            let (len, token) = (self.message_len as usize, u64::from(peer.0));
            match node.transport.send(peer, envelope, len, token, false, &node.app) {
                Ok(Posted::Buffered) => {}
                Ok(Posted::Pending) => *node.app.under_way.entry(peer).or_default() += 1,
                Err(SendError::Again | SendError::PeerGone) => return,
            }
        }
    }
}
