//! Endpoints, their network and the virtual clock.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use wiglaf_transport::{Config, Instant, Path, PeerId, Posted, SendError, Sink, Stats, Transport};
use wiglaf_wire::{Class, Envelope, Epoch, JobKey};

use crate::network::{Faults, Network};
use crate::peer::{Later, Peer};
use crate::random::Random;

const FRAME_LEN: usize = 1472;
const PORT: u16 = 7;

/// How much is sent.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Messages from each endpoint to each other one.
    pub messages_per_pair: u64,
    /// Longest message in bytes.
    pub len_max: u64,
}

/// How a run ended.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    /// Messages that arrived whole and right.
    pub messages: u64,
    /// Virtual time that passed.
    pub elapsed: Duration,
    /// Counters of all endpoints, summed.
    pub stats: Stats,
}

struct Node {
    transport: Transport,
    peer: Peer,
    /// Transport numbers of the other endpoints.
    peers: Vec<Option<PeerId>>,
    /// Messages still to be sent, by receiver.
    todo: Vec<u64>,
    done: Vec<u64>,
}

/// A simulated cluster.
pub struct World {
    now: Instant,
    nodes: Vec<Node>,
    network: Network,
    random: Random,
    len_max: u64,
    seed: u64,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "World(seed {}, {} endpoints, at {:?})", self.seed, self.nodes.len(), self.now)
    }
}

fn address(node: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(0x0a00_0001 + node as u32), PORT)
}

fn node_at(address: SocketAddrV4) -> usize {
    (u32::from(*address.ip()) - 0x0a00_0001) as usize
}

impl World {
    /// `endpoints` endpoints that know each other's addresses and epochs.
    #[must_use]
    pub fn new(seed: u64, endpoints: usize, faults: Faults) -> Self {
        let mut random = Random::new(seed);
        let path = Path {
            frame_len_max: FRAME_LEN,
            bulk_train_max: 16,
            bulk_window_len: 512 * 1024,
            bulk_port: PORT,
        };
        let epochs: Vec<Epoch> = (0..endpoints).map(|_| Epoch(random.bits() | 1)).collect();
        let nodes = (0..endpoints)
            .map(|me| {
                let mut transport = Transport::new(Config {
                    epoch: epochs[me],
                    key: JobKey([3; 16]),
                    paths: vec![path],
                    silence_limit: Duration::from_secs(600),
                    flow_control: true,
                });
                let mut peer = Peer::new(me, random.bits());
                let mut peers = vec![None; endpoints];
                for other in (0..endpoints).filter(|other| *other != me) {
                    let id = transport.connect(address(other), epochs[other], 0);
                    peers[other] = Some(id);
                    peer.names.insert(id, other);
                }
                Node { transport, peer, peers, todo: vec![0; endpoints], done: vec![0; endpoints] }
            })
            .collect();
        let network = Network::new(faults);
        Self { now: Instant::from_nanos(1), nodes, network, random, len_max: 0, seed }
    }

    /// Runs `load` to its end.
    ///
    /// # Errors
    /// What was wrong, with the seed: a message lost, doubled, out of order or
    /// altered, or no progress within `limit` of virtual time.
    pub fn run(&mut self, load: Load, limit: Duration) -> Result<Report, String> {
        self.len_max = load.len_max;
        for me in 0..self.nodes.len() {
            for other in 0..self.nodes.len() {
                if other != me {
                    self.nodes[me].todo[other] = load.messages_per_pair;
                }
            }
        }
        let pairs = (self.nodes.len() * (self.nodes.len() - 1)) as u64;
        let expected = pairs * load.messages_per_pair;
        let end = self.now + limit;
        let started = self.now;
        while !self.is_done(expected) {
            self.step();
            if let Some(error) = self.nodes.iter().find_map(|n| n.peer.error.clone()) {
                return Err(self.fault(&error));
            }
            let Some(next) = self.next_event() else {
                return Err(self.fault("nothing will ever happen again"));
            };
            self.now = self.now.max(next);
            if self.now > end {
                return Err(self.fault("the time limit has passed"));
            }
        }
        Ok(Report { messages: expected, elapsed: self.now - started, stats: self.stats() })
    }

    fn fault(&self, what: &str) -> String {
        let received: u64 = self.nodes.iter().map(|n| n.peer.received).sum();
        format!(
            "seed {}: {what} (virtual time {:?}, {received} messages received, {:?})",
            self.seed,
            self.now,
            self.stats(),
        )
    }

    fn is_done(&self, expected: u64) -> bool {
        self.nodes.iter().map(|n| n.peer.received).sum::<u64>() == expected
            && self.nodes.iter().all(|n| n.transport.is_drained() && n.peer.sends.is_empty())
    }

    fn next_event(&self) -> Option<Instant> {
        let timers = self.nodes.iter().filter_map(|n| n.transport.poll_timeout());
        let later = self.nodes.iter().any(|n| !n.peer.later.is_empty());
        let soon = later.then(|| self.now + Duration::from_micros(20));
        timers.chain(self.network.next_at()).chain(soon).min()
    }

    /// Everything that happens at this instant.
    fn step(&mut self) {
        while let Some((from, to, bytes)) = self.network.arrive(self.now) {
            let node = &mut self.nodes[to];
            node.transport.handle_datagram(self.now, address(from), 0, &bytes, &mut node.peer);
        }
        for me in 0..self.nodes.len() {
            let node = &mut self.nodes[me];
            node.transport.handle_timeout(self.now, &mut node.peer);
            for _ in 0..4 {
                post_one(node, &mut self.random, self.len_max);
            }
            settle(node, &mut self.random);
            self.transmit(me);
        }
    }

    fn transmit(&mut self, me: usize) {
        let mut out = vec![0; 16 * FRAME_LEN];
        let node = &mut self.nodes[me];
        while let Some(t) = node.transport.poll_transmit(self.now, &node.peer, &mut out) {
            for datagram in out[..t.len].chunks(t.segment_len) {
                self.network.send(self.now, me, node_at(t.to), datagram, &mut self.random);
            }
        }
    }

    fn stats(&self) -> Stats {
        self.nodes.iter().fold(Stats::default(), |sum, n| sum.plus(n.transport.stats()))
    }
}

/// Posts the next message to some peer that one is owed to.
fn post_one(node: &mut Node, random: &mut Random, len_max: u64) {
    let start = random.below(node.todo.len() as u64) as usize;
    let count = node.todo.len();
    let Some(to) = (0..count).map(|i| (start + i) % count).find(|to| node.todo[*to] > 0) else {
        return;
    };
    let Some(peer) = node.peers[to] else { return };
    let number = node.done[to];
    // Most messages are short, a few are long.
    let len = (random.bits() % (len_max + 1)) >> random.below(14);
    let token = node.peer.register_send(to, number);
    let envelope = Envelope::new(Class::Tagged, number, Some(number ^ 0x5a));
    let report = random.chance(0.3);
    match node.transport.send(peer, envelope, len as usize, token, report, &node.peer) {
        Ok(posted) => {
            if posted == Posted::Buffered && !report {
                node.peer.sends.remove(&token);
            }
            node.todo[to] -= 1;
            node.done[to] += 1;
        }
        Err(SendError::Again | SendError::PeerGone) => {
            node.peer.sends.remove(&token);
        }
    }
}

/// Takes some of the messages that came unexpectedly.
fn settle(node: &mut Node, random: &mut Random) {
    let mut kept = Vec::new();
    for later in std::mem::take(&mut node.peer.later) {
        if !random.chance(0.2) {
            kept.push(later);
            continue;
        }
        match later {
            Later::Consume { peer, len } => node.transport.consume(peer, len),
            Later::Pull { peer, send_id, len, token } => {
                node.transport.pull(peer, send_id, len, token);
                if len == 0 {
                    node.peer.pulled(token, true);
                }
            }
        }
    }
    node.peer.later.append(&mut kept);
}
