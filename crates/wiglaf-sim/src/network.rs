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
    /// Held back by up to [`Faults::jitter`].
    pub reorder: f64,
    /// Time of flight.
    pub latency: Duration,
    /// Longest extra delay of a reordered datagram.
    pub jitter: Duration,
}

impl Faults {
    /// A network without faults.
    pub const NONE: Self = Self {
        drop: 0.0,
        duplicate: 0.0,
        corrupt: 0.0,
        reorder: 0.0,
        latency: Duration::from_micros(5),
        jitter: Duration::from_micros(100),
    };
}

/// A datagram under way, ordered by arrival.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    at: Instant,
    serial: u64,
    from: usize,
    to: usize,
    bytes: Vec<u8>,
}

/// All datagrams that are under way.
#[derive(Debug)]
pub(crate) struct Network {
    flights: BinaryHeap<Reverse<Flight>>,
    serial: u64,
    pub(crate) faults: Faults,
}

impl Network {
    pub(crate) fn new(faults: Faults) -> Self {
        Self { flights: BinaryHeap::new(), serial: 0, faults }
    }

    pub(crate) fn send(
        &mut self,
        now: Instant,
        from: usize,
        to: usize,
        bytes: &[u8],
        random: &mut Random,
    ) {
        if random.chance(self.faults.drop) {
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
            self.serial += 1;
            self.flights.push(Reverse(Flight { at, serial: self.serial, from, to, bytes }));
        }
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.flights.peek().map(|flight| flight.0.at)
    }

    /// The next datagram that has arrived by `now`: sender, receiver, bytes.
    pub(crate) fn arrive(&mut self, now: Instant) -> Option<(usize, usize, Vec<u8>)> {
        if self.next_at()? > now {
            return None;
        }
        self.flights.pop().map(|Reverse(f)| (f.from, f.to, f.bytes))
    }
}
