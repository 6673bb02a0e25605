//! One endpoint among thousands: what each further peer costs it.
//!
//! A hub exchanges short messages with spokes chosen at random. Every spoke is
//! a transport of its own; only the hub's work is measured. The host's clock is
//! handed in, as virtual time is.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use wiglaf_transport::{
    Config, Gone, Instant, Path, PeerId, SendError, Sink, Source, Stats, Transport, Wanted,
};
use wiglaf_wire::{Class, Envelope, Epoch, JobKey};

use crate::random::Random;

const FRAME_LEN: usize = 1472;
const PORT: u16 = 7;
/// Virtual time between two turns: a round trip, and some work.
const TURN: Duration = Duration::from_micros(10);
/// Bytes of a message.
const LEN: usize = 8;

/// Counts what arrives.
#[derive(Debug, Default)]
struct Count {
    messages: u64,
    gone: u64,
}

impl Source for Count {
    fn read(&self, token: u64, _: u64, out: &mut [u8]) {
        out.fill(token as u8);
    }
}

impl Sink for Count {
    fn message(&mut self, _: PeerId, _: &Envelope, payload: &[u8]) -> bool {
        self.messages += u64::from(payload.len() == LEN);
        true
    }
    fn first(&mut self, _: PeerId, _: &Envelope, _: u64, _: &[u8]) {}
    fn next(&mut self, _: PeerId, _: &[u8], _: bool) -> bool {
        true
    }
    fn request(&mut self, _: PeerId, _: &Envelope, _: u64, _: u32) -> Option<Wanted> {
        None
    }
    fn segment(&mut self, _: u64, _: u64, _: &[u8]) {}
    fn pulled(&mut self, _: u64, _: bool) {}
    fn sent(&mut self, _: u64, _: bool) {}
    fn gone(&mut self, _: PeerId, _: Gone) {
        self.gone += 1;
    }
}

/// What the hub's part of a run came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HubCost {
    /// Messages that the hub sent; as many came back.
    pub messages: u64,
    /// Host time of the hub's calls for each message sent and its answer, in
    /// units of the clock that was handed in, nanoseconds as a rule.
    pub host_per_message: f64,
    /// The hub's counters.
    pub stats: Stats,
}

/// A hub and its spokes.
#[derive(Debug)]
pub struct Star {
    now: Instant,
    hub: Transport,
    spokes: Vec<Transport>,
    app: Count,
    random: Random,
    /// Datagrams of this turn, flat, with receiver and length.
    wire: Vec<u8>,
    datagrams: Vec<(usize, usize)>,
    out: Vec<u8>,
}

fn address(node: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(0x0a00_0001 + node as u32), PORT)
}

fn transport(epoch: Epoch) -> Transport {
    let path = Path {
        frame_len_max: FRAME_LEN,
        frame_len_sure: FRAME_LEN,
        latency_train_max: 1,
        bulk_train_max: 16,
        bulk_window_len: 512 * 1024,
        bulk_port: PORT,
    };
    Transport::new(Config {
        epoch,
        key: JobKey([3; 16]),
        paths: vec![path],
        silence_limit: Duration::from_secs(600),
        flow_control: true,
        encrypt: false,
    })
}

impl Star {
    /// A hub that knows `spokes` peers, each of which knows the hub only.
    #[must_use]
    pub fn new(seed: u64, spokes: usize) -> Self {
        let mut random = Random::new(seed);
        let epoch = Epoch(random.bits() | 1);
        let mut hub = transport(epoch);
        let spokes = (1..=spokes)
            .map(|node| {
                let own = Epoch(random.bits() | 1);
                hub.connect(address(node), own, 0);
                let mut spoke = transport(own);
                spoke.connect(address(0), epoch, 0);
                spoke
            })
            .collect();
        Self {
            now: Instant::from_nanos(1),
            hub,
            spokes,
            app: Count::default(),
            random,
            wire: Vec::new(),
            datagrams: Vec::new(),
            out: vec![0; 16 * FRAME_LEN],
        }
    }

    /// Memory of a hub for each of `count` peers that have exchanged a short message with it and
    /// are silent since, in bytes. `resident` reads what the process holds.
    ///
    /// # Errors
    /// When a message or an answer did not come.
    pub fn idle_peer_bytes(count: usize, resident: &mut dyn FnMut() -> u64) -> Result<f64, String> {
        let mut star = Self::new(1, 0);
        let epoch = Epoch(star.random.bits() | 1);
        star.hub = transport(epoch);
        let before = resident();
        for node in 1..=count {
            let own = Epoch(star.random.bits() | 1);
            let peer = star.hub.connect(address(node), own, 0);
            // It lives for one exchange: what stays is the hub's.
            let mut spoke = transport(own);
            spoke.connect(address(0), epoch, 0);
            star.meet(node, peer, &mut spoke)?;
        }
        Ok(resident().saturating_sub(before) as f64 / count.max(1) as f64)
    }

    /// A message to a spoke of this address, and its answer.
    fn meet(&mut self, node: usize, peer: PeerId, spoke: &mut Transport) -> Result<(), String> {
        let came_before = self.app.messages;
        post(&mut self.hub, peer, &self.app)?;
        for _ in 0..2 {
            self.now = self.now + TURN;
            self.wire.clear();
            self.datagrams.clear();
            flush(&mut self.hub, self.now, &mut self.out, &mut self.wire, &mut self.datagrams);
            let mut at = 0;
            for &(to, len) in self.datagrams.iter() {
                let datagram = &self.wire[at..at + len];
                at += len;
                if to == node {
                    spoke.handle_datagram(self.now, address(0), 0, datagram, &mut self.app);
                }
            }
            if self.app.messages - came_before == 1 {
                post(spoke, PeerId(0), &self.app)?;
            }
            self.wire.clear();
            self.datagrams.clear();
            flush(spoke, self.now, &mut self.out, &mut self.wire, &mut self.datagrams);
            let mut at = 0;
            for &(_, len) in self.datagrams.iter() {
                let datagram = &self.wire[at..at + len];
                at += len;
                self.hub.handle_datagram(self.now, address(node), 0, datagram, &mut self.app);
            }
        }
        match self.app.messages - came_before {
            2 => Ok(()),
            came => Err(format!("{came} of a message and its answer came")),
        }
    }

    /// The hub's transport.
    #[must_use]
    pub fn hub(&self) -> &Transport {
        &self.hub
    }

    /// Holds `conversations`, each with a spoke chosen at random: `length` messages to it, each
    /// sent when the answer to the one before has come. `clock` reads the host's time.
    ///
    /// # Errors
    /// When a message or an answer did not come.
    pub fn run(
        &mut self,
        conversations: u64,
        length: u64,
        clock: &mut dyn FnMut() -> u64,
    ) -> Result<HubCost, String> {
        let mut host = 0;
        for _ in 0..conversations {
            let spoke = self.random.below(self.spokes.len() as u64) as usize;
            for _ in 0..length {
                host += self.exchange(spoke, clock)?;
            }
        }
        let messages = conversations * length;
        Ok(HubCost {
            messages,
            host_per_message: host as f64 / messages.max(1) as f64,
            stats: *self.hub.stats(),
        })
    }

    /// A message and its answer; tells what the hub's part took of the host's time.
    fn exchange(&mut self, spoke: usize, clock: &mut dyn FnMut() -> u64) -> Result<u64, String> {
        let before = self.app.messages;
        self.now = self.now + TURN;
        self.wire.clear();
        self.datagrams.clear();
        let began = clock();
        self.hub.handle_timeout(self.now, &mut self.app);
        post(&mut self.hub, PeerId(spoke as u32), &self.app)?;
        flush(&mut self.hub, self.now, &mut self.out, &mut self.wire, &mut self.datagrams);
        let mut host = clock() - began;
        self.answer(spoke)?;
        self.now = self.now + TURN;
        let began = clock();
        let mut at = 0;
        for &(from, len) in &self.datagrams {
            let datagram = &self.wire[at..at + len];
            self.hub.handle_datagram(self.now, address(from), 0, datagram, &mut self.app);
            at += len;
        }
        host += clock() - began;
        match self.app.messages - before {
            2 => Ok(host),
            came => Err(format!("{came} of a message and its answer came")),
        }
    }

    /// The spokes take what the hub sent, acknowledgements to others among it, and `chosen`
    /// answers.
    fn answer(&mut self, chosen: usize) -> Result<(), String> {
        let mut at = 0;
        for &(to, len) in &self.datagrams {
            let spoke = &mut self.spokes[to - 1];
            spoke.handle_datagram(self.now, address(0), 0, &self.wire[at..at + len], &mut self.app);
            at += len;
        }
        self.wire.clear();
        self.datagrams.clear();
        let spoke = &mut self.spokes[chosen];
        spoke.handle_timeout(self.now, &mut self.app);
        post(spoke, PeerId(0), &self.app)?;
        flush(spoke, self.now, &mut self.out, &mut self.wire, &mut self.datagrams);
        self.datagrams.iter_mut().for_each(|datagram| datagram.0 = chosen + 1);
        Ok(())
    }
}

fn post(from: &mut Transport, to: PeerId, app: &Count) -> Result<(), String> {
    let envelope = Envelope::new(Class::Tagged, 1, None);
    match from.send(to, envelope, LEN, 1, false, app) {
        Ok(_) => Ok(()),
        Err(SendError::Again) => Err("a send was put off".to_owned()),
        Err(SendError::PeerGone) => Err("a peer is gone".to_owned()),
    }
}

/// Appends everything that `from` has to send to the wire: receiver and length of each.
fn flush(
    from: &mut Transport,
    now: Instant,
    out: &mut [u8],
    wire: &mut Vec<u8>,
    datagrams: &mut Vec<(usize, usize)>,
) {
    while let Some(t) = from.poll_transmit(now, &Count::default(), out) {
        let to = (u32::from(*t.to.ip()) - 0x0a00_0001) as usize;
        for datagram in out[..t.len].chunks(t.segment_len) {
            wire.extend_from_slice(datagram);
            datagrams.push((to, datagram.len()));
        }
    }
}
