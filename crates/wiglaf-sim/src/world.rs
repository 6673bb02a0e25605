//! Endpoints, their network and the virtual clock.

mod ports;

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use wiglaf_transport::limits::ORDERED_WINDOW;
use wiglaf_transport::{Config, Instant, Path, PeerId, Posted, SendError, Stats, Transport};
use wiglaf_wire::{Epoch, JobKey, encrypted};

use crate::clock::Clock;
use crate::network::{Cut, Faults, Network};
use crate::peer::{Peer, envelope};
use crate::random::Random;
use crate::scenario::{Mishap, Scenario, What};

const FRAME_LEN: usize = 1472;
/// Longest that endpoints on a narrow network know to get through; with encryption, 16 more is the least.
const FRAME_LEN_SURE: usize = 700;
const PORT: u16 = 7;
/// How long an endpoint waits for a peer that owes an answer.
const SILENCE_LIMIT: Duration = Duration::from_secs(20);
/// A partition that lasts so long may have peers give each other up.
const LONG_CUT: Duration = Duration::from_secs(10);
/// By then whoever waits for a dead peer, or for one that has given him up, must have been told, skewed clocks and mishaps included.
const DEADLINE: Duration = Duration::from_secs(35);
/// Events without a single message that comes whole: then there is no progress.
const IDLE_EVENTS_MAX: u64 = 1_000_000;

/// How much is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    epoch: Epoch,
    clock: Clock,
    /// Transport numbers of the other endpoints.
    peers: Vec<Option<PeerId>>,
    /// Messages still to be sent, by receiver.
    todo: Vec<u64>,
    /// Messages sent to the receiver's present incarnation.
    done: Vec<u64>,
    paused_until: Instant,
    /// What came while it was paused.
    socket: VecDeque<(Instant, SocketAddrV4, Vec<u8>)>,
    /// More came than it had room for.
    was_overrun: bool,
    /// It has died, and nobody has taken its place yet.
    is_closed: bool,
}

/// What all incarnations have in common.
#[derive(Debug, Clone, Copy)]
struct Setting {
    endpoints: usize,
    encrypt: bool,
    numbers_from: u64,
    is_choosy: bool,
    overruns: bool,
    is_narrow: bool,
}

/// Two incarnations, the lower one first.
type Pair = (usize, usize);

fn pair(a: usize, b: usize) -> Pair {
    (a.min(b), a.max(b))
}

/// Who may give up whom although both live, and who has.
#[derive(Debug, Default)]
struct Partings {
    cuts: Vec<Cut>,
    allowed: HashSet<Pair>,
    done: HashSet<Pair>,
    /// Who has been given up, by whom, and until when he may wait for that one.
    alone: Vec<(usize, usize, Instant)>,
}

/// A simulated cluster.
pub struct World {
    now: Instant,
    nodes: Vec<Node>,
    network: Network,
    random: Random,
    len_max: u64,
    seed: u64,
    setting: Setting,
    mishaps: VecDeque<Mishap>,
    /// Incarnations that died, until when anybody may wait for them.
    dead: Vec<(usize, Instant)>,
    /// What had come to them.
    whole_at_dead: HashMap<usize, HashMap<usize, HashSet<u64>>>,
    partings: Partings,
    next_incarnation: usize,
    /// Of incarnations that have died.
    received_before: u64,
    stats_before: Stats,
    idle_events: u64,
    /// Sender and count of everything that was encrypted.
    counts: HashSet<(Epoch, u64)>,
    /// What was wrong with a datagram.
    error: Option<String>,
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

impl Node {
    fn new(who: usize, random: &mut Random, clock: Clock, setting: Setting) -> Self {
        let endpoints = setting.endpoints;
        let path = Path {
            frame_len_max: FRAME_LEN,
            frame_len_sure: if setting.is_narrow { FRAME_LEN_SURE } else { FRAME_LEN },
            latency_train_max: 3,
            bulk_train_max: 16,
            bulk_window_len: 512 * 1024,
            bulk_port: PORT,
        };
        let epoch = Epoch(random.bits() | 1);
        let transport = Transport::new(Config {
            epoch,
            key: JobKey([3; 16]),
            paths: vec![path],
            silence_limit: SILENCE_LIMIT,
            flow_control: true,
            encrypt: setting.encrypt,
        });
        Self {
            transport,
            peer: Peer::new(who, random.bits(), setting.is_choosy),
            epoch,
            clock,
            peers: vec![None; endpoints],
            todo: vec![0; endpoints],
            done: vec![0; endpoints],
            paused_until: Instant::ZERO,
            socket: VecDeque::new(),
            was_overrun: false,
            is_closed: false,
        }
    }

    fn meet(&mut self, other: usize, who: usize, epoch: Epoch, numbers_from: u64) {
        let id = self.transport.connect(address(other), epoch, 0);
        self.transport.begin_at(id, numbers_from);
        self.peers[other] = Some(id);
        self.peer.names.insert(id, who);
        self.done[other] = 0;
    }
}

impl World {
    /// `endpoints` endpoints that know each other's addresses and epochs.
    #[must_use]
    pub fn new(seed: u64, endpoints: usize, faults: Faults) -> Self {
        let load = Load { messages_per_pair: 0, len_max: 0 };
        Self::of(&Scenario::plain(seed, endpoints, faults, load))
    }

    /// The world of a scenario.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let mut random = Random::new(scenario.seed);
        let endpoints = scenario.endpoints;
        let setting = Setting {
            endpoints,
            encrypt: scenario.encrypt,
            numbers_from: scenario.numbers_from,
            is_choosy: scenario.short_buffers,
            overruns: scenario.overruns,
            is_narrow: scenario.faults.carries.is_some(),
        };
        let mut nodes: Vec<Node> = (0..endpoints)
            .map(|me| {
                let clock = clock(&mut random, scenario.skew_ppm);
                Node::new(me, &mut random, clock, setting)
            })
            .collect();
        let epochs: Vec<Epoch> = nodes.iter().map(|node| node.epoch).collect();
        for (me, node) in nodes.iter_mut().enumerate() {
            for other in (0..endpoints).filter(|other| *other != me) {
                node.meet(other, other, epochs[other], scenario.numbers_from);
            }
        }
        let mut mishaps = scenario.mishaps.clone();
        mishaps.sort_by_key(|mishap| mishap.after);
        Self {
            now: Instant::from_nanos(1),
            nodes,
            network: Network::new(scenario.faults),
            random,
            len_max: 0,
            seed: scenario.seed,
            setting,
            mishaps: mishaps.into(),
            dead: Vec::new(),
            whole_at_dead: HashMap::new(),
            partings: Partings::default(),
            next_incarnation: endpoints,
            received_before: 0,
            stats_before: Stats::default(),
            idle_events: 0,
            counts: HashSet::new(),
            error: None,
        }
    }

    /// Runs `load` to its end.
    ///
    /// # Errors
    /// What was wrong, with the seed: a message lost, doubled, out of order or
    /// altered, a wrong match, too much memory, an error that comes too late, or no progress
    /// within `limit` of virtual time.
    pub fn run(&mut self, load: Load, limit: Duration) -> Result<Report, String> {
        self.len_max = load.len_max;
        for me in 0..self.nodes.len() {
            for other in 0..self.nodes.len() {
                if other != me {
                    self.nodes[me].todo[other] = load.messages_per_pair;
                }
            }
        }
        let end = self.now + limit;
        let started = self.now;
        while !self.is_done() {
            self.step();
            if let Some(error) = self.wrong() {
                return Err(self.fault(&error));
            }
            let Some(next) = self.next_event() else {
                if self.is_done() {
                    break;
                }
                return Err(self.fault("nothing will ever happen again"));
            };
            self.now = self.now.max(next);
            if self.now > end {
                return Err(self.fault("the time limit has passed"));
            }
        }
        let (messages, elapsed) = (self.received(), self.now - started);
        Ok(Report { messages, elapsed, stats: self.stats() })
    }

    fn fault(&self, what: &str) -> String {
        format!(
            "seed {}: {what} (virtual time {:?}, {} messages received, {:?})",
            self.seed,
            self.now,
            self.received(),
            self.stats(),
        )
    }

    fn received(&self) -> u64 {
        self.received_before + self.nodes.iter().map(|n| n.peer.received).sum::<u64>()
    }

    /// The first thing that somebody noticed.
    fn wrong(&mut self) -> Option<String> {
        if self.idle_events > IDLE_EVENTS_MAX {
            return Some("much happens, and nothing comes of it".to_owned());
        }
        if self.error.is_some() {
            return self.error.take();
        }
        if let Some(what) = self.wrongly_told() {
            return Some(what);
        }
        let living = self.nodes.iter().filter(|node| !node.is_closed);
        let living: Vec<usize> = living.map(|node| node.peer.me).collect();
        let late: Vec<usize> =
            self.dead.extract_if(.., |(_, until)| *until <= self.now).map(|(who, _)| who).collect();
        for node in &mut self.nodes {
            if node.peer.error.is_some() {
                return node.peer.error.take();
            }
            let me = node.peer.me;
            for who in std::mem::take(&mut node.peer.gone) {
                if !living.contains(&who) {
                    continue;
                }
                if !self.partings.allowed.contains(&pair(me, who)) {
                    return Some(format!("{me} has given up {who}, who lives"));
                }
                if self.partings.done.insert(pair(me, who)) {
                    self.partings.alone.push((who, me, self.now + DEADLINE));
                }
            }
            if let Some(who) = late.iter().find(|who| node.peer.waits_for(**who)) {
                return Some(format!("{me} still waits for {who}, who died {DEADLINE:?} ago"));
            }
            let views = node.peers.iter().flatten().filter_map(|id| node.transport.peer(*id));
            if let Some(view) = views.into_iter().find(|v| u64::from(v.in_flight) > ORDERED_WINDOW)
            {
                return Some(format!("{} packets of {me} are in flight", view.in_flight));
            }
            let is_over = |(peer, unread): &(&PeerId, &u64)| {
                node.transport.peer(**peer).is_some_and(|view| **unread > view.credit_granted)
            };
            if let Some((_, unread)) = node.peer.unread.iter().find(is_over) {
                return Some(format!("{unread} bytes of one peer lie unread at {me}"));
            }
        }
        None
    }

    /// What was said of messages that is not so, and who waits in vain for one that gave him up. Those two
    /// say nothing to each other any longer.
    fn wrongly_told(&mut self) -> Option<String> {
        for me in 0..self.nodes.len() {
            for (to, number) in std::mem::take(&mut self.nodes[me].peer.delivered) {
                let from = self.nodes[me].peer.me;
                let living = self.nodes.iter().find(|node| node.peer.me == to);
                let whole = living.map(|node| &node.peer.whole).or(self.whole_at_dead.get(&to))?;
                if !whole.get(&from).is_some_and(|numbers| numbers.contains(&number)) {
                    return Some(format!(
                        "message {number} of {from} was told to be delivered and is not at {to}"
                    ));
                }
            }
            let peer = &mut self.nodes[me].peer;
            if let Some(who) = peer.failed_needlessly() {
                return Some(format!("a send of {} to {who}, whom it knows, has failed", peer.me));
            }
        }
        let now = self.now;
        for (who, by, _) in self.partings.alone.extract_if(.., |(_, _, until)| *until <= now) {
            let mut nodes = self.nodes.iter();
            if nodes.any(|node| node.peer.me == who && node.peer.waits_for(by)) {
                return Some(format!("{who} waits for {by}, who gave it up {DEADLINE:?} ago"));
            }
        }
        for me in 0..self.nodes.len() {
            for other in 0..self.nodes.len() {
                if self.have_parted(me, other) {
                    self.nodes[me].todo[other] = 0;
                }
            }
        }
        None
    }

    fn have_parted(&self, one: usize, other: usize) -> bool {
        let pair = pair(self.nodes[one].peer.me, self.nodes[other].peer.me);
        self.partings.done.contains(&pair)
    }

    /// From now on those may give each other up whom a long partition separates.
    fn allow_partings(&mut self) {
        let now = self.now;
        self.partings.cuts.retain(|cut| cut.until > now);
        for cut in &self.partings.cuts {
            for (one, a) in self.nodes.iter().enumerate() {
                for (other, b) in self.nodes.iter().enumerate() {
                    if cut.separates(one, other) {
                        self.partings.allowed.insert(pair(a.peer.me, b.peer.me));
                    }
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        // What is cheap to see comes first.
        self.nodes.iter().all(|n| n.todo.iter().all(|left| *left == 0))
            && self.nodes.iter().all(|n| n.peer.sends.is_empty() && n.transport.is_drained())
            && self.mishaps.is_empty()
            && self.dead.is_empty()
            && self.partings.alone.is_empty()
            && self.nodes.iter().enumerate().all(|(from, sender)| {
                self.nodes.iter().enumerate().all(|(to, receiver)| {
                    let whole = receiver.peer.whole.get(&sender.peer.me).map_or(0, HashSet::len);
                    from == to || whole as u64 == sender.done[to] || self.have_parted(from, to)
                })
            })
    }

    fn next_event(&self) -> Option<Instant> {
        let now = self.now;
        let timers = self.nodes.iter().filter(|n| !n.is_closed).filter_map(|n| {
            let timer = n.transport.poll_timeout().map(|at| n.clock.reaches(at));
            let waits = n.peer.has_unexpected() || !n.socket.is_empty();
            let soon = waits.then(|| now + Duration::from_micros(20));
            // Nothing happens to a process that does not run before it runs again.
            [timer, soon].into_iter().flatten().min().map(|at| at.max(n.paused_until))
        });
        let mishap = self.mishaps.front().map(|mishap| Instant::from_nanos(1) + mishap.after);
        let deadline = self.dead.first().map(|(_, until)| *until);
        let alone = self.partings.alone.first().map(|(_, _, until)| *until);
        timers.chain(self.network.next_at()).chain(mishap).chain(deadline).chain(alone).min()
    }

    /// Everything that happens at this instant.
    fn step(&mut self) {
        let before = self.received();
        while self.mishaps.front().is_some_and(|m| Instant::from_nanos(1) + m.after <= self.now) {
            if let Some(mishap) = self.mishaps.pop_front() {
                self.befall(mishap);
            }
        }
        self.receive();
        for me in 0..self.nodes.len() {
            let node = &mut self.nodes[me];
            if !node.runs(self.now) {
                continue;
            }
            node.wake(self.now);
            node.transport.handle_timeout(node.clock.shows(self.now), &mut node.peer);
            for _ in 0..4 {
                post_one(node, &mut self.random, self.len_max);
                if self.random.chance(0.5) {
                    node.peer.post_receive(&mut node.transport);
                }
            }
            self.transmit(me);
            self.nap(me);
        }
        self.idle_events = if self.received() > before { 0 } else { self.idle_events + 1 };
    }

    fn transmit(&mut self, me: usize) {
        let mut out = vec![0; 16 * FRAME_LEN];
        let node = &mut self.nodes[me];
        let shown = node.clock.shows(self.now);
        while let Some(t) = node.transport.poll_transmit(shown, &node.peer, &mut out) {
            for datagram in out[..t.len].chunks(t.segment_len) {
                // What comes twice under a key gives away the plain text of both.
                if let Ok((header, count)) = encrypted::read(datagram)
                    && !self.counts.insert((header.source, count))
                {
                    self.error =
                        Some(format!("{me} has encrypted two datagrams as number {count}"));
                }
                self.network.send(self.now, me, node_at(t.to), datagram, &mut self.random);
            }
        }
    }

    fn befall(&mut self, mishap: Mishap) {
        let until = self.now + mishap.lasts;
        match mishap.what {
            What::Partition { set, one_way } => {
                let cut = Cut { set, one_way, until };
                self.network.cut(cut);
                if mishap.lasts >= LONG_CUT {
                    self.partings.cuts.push(cut);
                    self.allow_partings();
                }
            }
            What::Pause { node } if node < self.nodes.len() => {
                self.nodes[node].paused_until = self.nodes[node].paused_until.max(until);
            }
            What::Restart { node } if node < self.nodes.len() => self.restart(node),
            What::Death { node } if node < self.nodes.len() => self.die(node, until),
            What::Pause { .. } | What::Restart { .. } | What::Death { .. } => {}
        }
    }

    /// Another incarnation at the same address; everybody is told of it, and nobody of the end
    /// of the one before.
    fn restart(&mut self, me: usize) {
        let (who, endpoints) = (self.next_incarnation, self.nodes.len());
        let numbers_from = self.setting.numbers_from;
        self.next_incarnation += 1;
        let clock = self.nodes[me].clock;
        let mut node = Node::new(who, &mut self.random, clock, self.setting);
        node.todo.clone_from(&self.nodes[me].todo);
        let epoch = node.epoch;
        for other in (0..endpoints).filter(|other| *other != me) {
            let peer = &mut self.nodes[other];
            node.meet(other, peer.peer.me, peer.epoch, numbers_from);
            peer.meet(me, who, epoch, numbers_from);
            // Something for both to say to each other.
            peer.todo[me] += 10;
            node.todo[other] += 10;
        }
        let old = std::mem::replace(&mut self.nodes[me], node);
        self.received_before += old.peer.received;
        self.stats_before = self.stats_before.plus(old.transport.stats());
        self.dead.push((old.peer.me, self.now + DEADLINE));
        self.whole_at_dead.insert(old.peer.me, old.peer.whole);
        self.allow_partings();
    }

    fn stats(&self) -> Stats {
        self.nodes.iter().fold(self.stats_before, |sum, n| sum.plus(n.transport.stats()))
    }
}

impl Node {
    fn receive(&mut self, now: Instant, arrived_at: Instant, from: SocketAddrV4, bytes: &[u8]) {
        let (shown, train) = (self.clock.shows(now), (bytes, bytes.len()));
        let waited = Some(now - arrived_at);
        self.transport.handle_train(shown, (from, 0), train, waited, &mut self.peer);
    }
}

/// A clock that is wrong by up to `skew_ppm` and began at any time of a day; without skew a true one.
fn clock(random: &mut Random, skew_ppm: u32) -> Clock {
    if skew_ppm == 0 {
        return Clock::TRUE;
    }
    let range = 2 * u64::from(skew_ppm) + 1;
    let fast_ppm = random.below(range) as i64 - i64::from(skew_ppm);
    Clock { offset_ns: random.below(86_400_000_000_000), fast_ppm }
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
    let who = node.peer.names[&peer];
    let token = node.peer.register_send(who, number);
    let report = random.chance(0.3);
    match node.transport.send(peer, envelope(number), len as usize, token, report, &node.peer) {
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
