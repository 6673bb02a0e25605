//! The wire between simulated endpoints.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use wiglaf_transport::Instant;

use crate::random::Random;

/// What the network does wrong, as probabilities per datagram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// Lost.
    pub drop: f64,
    /// Delivered twice.
    pub duplicate: f64,
    /// Delivered with a flipped bit.
    pub corrupt: f64,
    /// Lost, and with it what the same endpoint sends for the next [`Faults::burst_time`].
    pub burst: f64,
    /// How long a burst lasts.
    pub burst_time: Duration,
    /// Held back by up to [`Faults::jitter`].
    pub reorder: f64,
    /// Time of flight.
    pub latency: Duration,
    /// Longest extra delay of a reordered datagram.
    pub jitter: Duration,
    /// Longer datagrams vanish, and endpoints know only of 700 bytes that they do not; `None`: all get through,
    /// as endpoints know.
    pub carries: Option<usize>,
    /// Until then it carries all: the path narrows under sessions.
    pub carries_all_for: Duration,
}

impl Faults {
    /// A network without faults.
    pub const NONE: Self = Self {
        drop: 0.0,
        duplicate: 0.0,
        corrupt: 0.0,
        burst: 0.0,
        burst_time: Duration::from_micros(200),
        reorder: 0.0,
        latency: Duration::from_micros(5),
        jitter: Duration::from_micros(100),
        carries: None,
        carries_all_for: Duration::ZERO,
    };
}

/// A switch that joins all endpoints, each by a port of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// Rate of every port, both ways.
    pub bits_per_s: u64,
    /// What the queue before each port to an endpoint holds, in bytes; more is
    /// dropped at its tail.
    pub queue_len: u64,
}

/// Bytes on the wire around a datagram: preamble, Ethernet header, frame check
/// sequence and gap (IEEE 802.3), IPv4 and UDP headers.
pub const FRAME_OVERHEAD: u64 = 8 + 14 + 4 + 12 + 20 + 8;

impl Switch {
    fn time_of(&self, datagram_len: usize) -> Duration {
        let bits = 8 * (datagram_len as u64 + FRAME_OVERHEAD);
        Duration::from_nanos(bits * 1_000_000_000 / self.bits_per_s)
    }
}

/// A partition: the endpoints of a set do not reach the others, nor are they reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The set, by bits.
    pub(crate) set: u64,
    /// They are reached all the same.
    pub(crate) one_way: bool,
    pub(crate) until: Instant,
}

impl Cut {
    pub(crate) fn separates(&self, from: usize, to: usize) -> bool {
        let is_in = |node: usize| self.set >> node & 1 == 1;
        is_in(from) != is_in(to) && (is_in(from) || !self.one_way)
    }
}

/// When the two directions of an endpoint's cable are free again.
#[derive(Debug, Clone, Copy, Default)]
struct Cable {
    out_free_at: Instant,
    in_free_at: Instant,
}

/// A datagram under way, ordered by arrival: at the switch first, if there is one.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    at: Instant,
    serial: u64,
    from: usize,
    to: usize,
    to_switch: bool,
    bytes: Vec<u8>,
}

/// All datagrams that are under way.
#[derive(Debug)]
pub(crate) struct Network {
    flights: BinaryHeap<Reverse<Flight>>,
    serial: u64,
    faults: Faults,
    switch: Option<Switch>,
    cables: Vec<Cable>,
    /// Until when each endpoint's burst of losses lasts.
    bursts: Vec<Instant>,
    /// What passes from which endpoint to which.
    cuts: Vec<Cut>,
    /// Datagrams that found a full queue.
    pub(crate) overflowed: u64,
}

impl Network {
    /// Everybody reaches everybody, without any limit.
    pub(crate) fn new(faults: Faults) -> Self {
        let flights = BinaryHeap::new();
        let (cables, bursts, cuts) = (Vec::new(), Vec::new(), Vec::new());
        Self { flights, serial: 0, faults, switch: None, cables, bursts, cuts, overflowed: 0 }
    }

    /// Everything passes a switch.
    pub(crate) fn with_switch(faults: Faults, switch: Switch, endpoints: usize) -> Self {
        let cables = vec![Cable::default(); endpoints];
        Self { switch: Some(switch), cables, ..Self::new(faults) }
    }

    /// Nothing that `cut` names passes before it ends.
    pub(crate) fn cut(&mut self, cut: Cut) {
        self.cuts.push(cut);
    }

    /// Whether a cut, a burst or chance keeps a datagram from passing.
    fn loses(&mut self, now: Instant, from: usize, to: usize, random: &mut Random) -> bool {
        self.cuts.retain(|cut| cut.until > now);
        if self.cuts.iter().any(|cut| cut.separates(from, to)) {
            return true;
        }
        if self.faults.burst > 0.0 {
            self.bursts.resize(self.bursts.len().max(from + 1), Instant::ZERO);
            if random.chance(self.faults.burst) {
                self.bursts[from] = now + self.faults.burst_time;
            }
            if self.bursts[from] > now {
                return true;
            }
        }
        random.chance(self.faults.drop)
    }

    pub(crate) fn send(
        &mut self,
        now: Instant,
        from: usize,
        to: usize,
        bytes: &[u8],
        random: &mut Random,
    ) {
        let is_narrow = now.since(Instant::ZERO) >= self.faults.carries_all_for;
        let is_too_long =
            is_narrow && self.faults.carries.is_some_and(|carries| bytes.len() > carries);
        if is_too_long || self.loses(now, from, to, random) {
            return;
        }
        let copies = 1 + usize::from(random.chance(self.faults.duplicate));
        for _ in 0..copies {
            let mut bytes = bytes.to_vec();
            if random.chance(self.faults.corrupt) && !bytes.is_empty() {
                let bit = random.below(8 * bytes.len() as u64) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            let mut at = now + self.faults.latency;
            if random.chance(self.faults.reorder) {
                at = at + Duration::from_nanos(random.below(self.faults.jitter.as_nanos() as u64));
            }
            if let Some(switch) = &self.switch {
                let cable = &mut self.cables[from];
                cable.out_free_at = cable.out_free_at.max(now) + switch.time_of(bytes.len());
                at = at + cable.out_free_at.since(now);
            }
            self.serial += 1;
            let (serial, to_switch) = (self.serial, self.switch.is_some());
            self.flights.push(Reverse(Flight { at, serial, from, to, to_switch, bytes }));
        }
    }

    /// A datagram at the switch: into the queue before its port, if there is room.
    fn forward(&mut self, mut flight: Flight) {
        let Some(switch) = &self.switch else { return };
        let cable = &mut self.cables[flight.to];
        let wait = cable.in_free_at.since(flight.at);
        let queued = wait.as_nanos() as u64 * switch.bits_per_s / 8_000_000_000;
        if queued + flight.bytes.len() as u64 + FRAME_OVERHEAD > switch.queue_len {
            self.overflowed += 1;
            return;
        }
        cable.in_free_at = cable.in_free_at.max(flight.at) + switch.time_of(flight.bytes.len());
        flight.at = cable.in_free_at + self.faults.latency;
        flight.to_switch = false;
        self.flights.push(Reverse(flight));
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.flights.peek().map(|flight| flight.0.at)
    }

    /// The next datagram that has arrived by `now`: sender, receiver, bytes.
    pub(crate) fn arrive(&mut self, now: Instant) -> Option<(usize, usize, Vec<u8>)> {
        loop {
            if self.next_at()? > now {
                return None;
            }
            let Reverse(flight) = self.flights.pop()?;
            if !flight.to_switch {
                return Some((flight.from, flight.to, flight.bytes));
            }
            self.forward(flight);
        }
    }
}
