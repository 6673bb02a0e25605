//! A decorator that loses, doubles, reorders and damages what is sent, as a
//! seed determines; so that any link can be tried under faults.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::RawFd;

use crate::{Deliver, Drops, Lane, Limits, Link, Sent, Train, Unreachable};

/// A datagram is overtaken by at most so many events (sends and receive
/// polls) of its link.
const OVERTAKEN_MAX: u32 = 8;

/// How likely each fault befalls a datagram, from 0.0 to 1.0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// It is lost.
    pub drop: f64,
    /// It arrives twice.
    pub duplicate: f64,
    /// Later ones overtake it.
    pub reorder: f64,
    /// One of its bits is flipped.
    pub corrupt: f64,
}

/// What has befallen datagrams so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lost on purpose.
    pub dropped: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
    /// Damaged.
    pub corrupted: u64,
    /// Lost because the link was full in the middle of a train.
    pub overflowed: u64,
}

/// A link with faults.
#[derive(Debug)]
pub struct Fault<L> {
    inner: L,
    rates: Rates,
    random: Random,
    held: Vec<Held>,
    counts: Counts,
}

#[derive(Debug)]
struct Held {
    events_left: u32,
    to: SocketAddrV4,
    lane: Lane,
    bytes: Vec<u8>,
}

/// What shall befall one datagram.
#[derive(Clone, Copy, Default)]
struct Fate {
    drop: bool,
    duplicate: bool,
    /// Events to be held back for.
    hold: Option<u32>,
    /// Which bit to flip, modulo the length.
    flip: Option<u64>,
}

impl Fate {
    fn is_plain(&self) -> bool {
        !self.drop && !self.duplicate && self.hold.is_none() && self.flip.is_none()
    }
}

impl<L: Link> Fault<L> {
    /// Decorates `inner`; the same seed and the same calls meet the same faults.
    pub fn new(inner: L, seed: u64, rates: Rates) -> Self {
        Self { inner, rates, random: Random(seed), held: Vec::new(), counts: Counts::default() }
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn draw(&mut self) -> Fate {
        Fate {
            drop: self.random.is_hit(self.rates.drop),
            duplicate: self.random.is_hit(self.rates.duplicate),
            hold: self
                .random
                .is_hit(self.rates.reorder)
                .then(|| 1 + (self.random.next() % u64::from(OVERTAKEN_MAX)) as u32),
            flip: self.random.is_hit(self.rates.corrupt).then(|| self.random.next()),
        }
    }

    /// One event has passed: sends what has been held back long enough.
    fn tick(&mut self) -> io::Result<()> {
        for held in &mut self.held {
            held.events_left = held.events_left.saturating_sub(1);
        }
        let due: Vec<Held> = self.held.extract_if(.., |held| held.events_left == 0).collect();
        for held in due {
            self.pass(held.to, held.lane, &held.bytes)?;
        }
        Ok(())
    }

    fn pass(&mut self, to: SocketAddrV4, lane: Lane, bytes: &[u8]) -> io::Result<()> {
        let train = Train { to, lane, segment_len: bytes.len().max(1), bytes };
        if self.inner.send(&train)? == Sent::Full {
            self.counts.overflowed += 1;
        }
        Ok(())
    }

    fn befall(&mut self, to: SocketAddrV4, lane: Lane, bytes: &[u8], fate: Fate) -> io::Result<()> {
        if fate.drop {
            self.counts.dropped += 1;
            return Ok(());
        }
        let mut bytes = bytes.to_vec();
        if let (Some(bit), false) = (fate.flip, bytes.is_empty()) {
            self.counts.corrupted += 1;
            let bit = (bit % (bytes.len() as u64 * 8)) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        if fate.duplicate {
            self.counts.duplicated += 1;
            self.pass(to, lane, &bytes)?;
        }
        match fate.hold {
            Some(events_left) => {
                self.counts.reordered += 1;
                self.held.push(Held { events_left, to, lane, bytes });
                Ok(())
            }
            None => self.pass(to, lane, &bytes),
        }
    }
}

impl<L: Link> Link for Fault<L> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn local(&self) -> SocketAddrV4 {
        self.inner.local()
    }

    fn bulk_port(&self) -> u16 {
        self.inner.bulk_port()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn reaches(&self, to: SocketAddrV4) -> bool {
        self.inner.reaches(to)
    }

    fn add_peer(&mut self, at: SocketAddrV4, epoch: u64) {
        self.inner.add_peer(at, epoch);
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        let fates: Vec<Fate> = train.segments().map(|_| self.draw()).collect();
        if fates.iter().all(Fate::is_plain) {
            // Whole, so that a healthy link is tried as it is used.
            if self.inner.send(train)? == Sent::Full {
                return Ok(Sent::Full);
            }
        } else {
            for (segment, fate) in train.segments().zip(fates) {
                self.befall(train.to, train.lane, segment, fate)?;
            }
        }
        self.tick()?;
        Ok(Sent::All)
    }

    fn recv_trains(&mut self, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        self.tick()?;
        self.inner.recv_trains(deliver)
    }

    fn take_unreachable(&mut self) -> Option<Unreachable> {
        self.inner.take_unreachable()
    }

    fn drops(&self) -> Drops {
        self.inner.drops()
    }

    fn was_overrun(&mut self) -> bool {
        self.inner.was_overrun()
    }

    fn is_quiet(&mut self) -> bool {
        self.inner.is_quiet()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        self.inner.wait_fds()
    }

    fn expect_bulk(&mut self) {
        self.inner.expect_bulk();
    }

    fn arm(&mut self, armed: bool) -> bool {
        // Who blocks must not wait for what is held back here.
        let is_settled = self.tick().is_ok() && self.held.is_empty();
        self.inner.arm(armed) || !is_settled
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn is_hit(&mut self, rate: f64) -> bool {
        // 53 bits are what an f64 holds.
        let draw = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        draw < rate
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::loopback::{Hub, LoopbackLink};

    const FRAMES: u16 = 5000;

    fn pair(seed: u64, rates: Rates) -> (Fault<LoopbackLink>, LoopbackLink) {
        let hub = Hub::new();
        let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let a = hub.link(at(1), 1 << 20).expect("free");
        (Fault::new(a, seed, rates), hub.link(at(2), 1 << 20).expect("free"))
    }

    /// Sends numbered frames in trains of five and says what came.
    fn run(seed: u64, rates: Rates) -> (Vec<Vec<u8>>, Counts) {
        let (mut a, mut b) = pair(seed, rates);
        for first in (0..FRAMES).step_by(5) {
            let bytes: Vec<u8> = (first..first + 5).flat_map(u16::to_be_bytes).collect();
            let train = Train { to: b.local(), lane: Lane::Bulk, segment_len: 2, bytes: &bytes };
            assert_eq!(a.send(&train).expect("works"), Sent::All);
        }
        while a.arm(true) {}
        let mut got = Vec::new();
        while b.recv(&mut |_, bytes| got.push(bytes.to_vec())).expect("works") > 0 {}
        (got, a.counts())
    }

    fn sorted(mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        frames.sort();
        frames
    }

    fn all() -> Vec<Vec<u8>> {
        (0..FRAMES).map(|i| i.to_be_bytes().to_vec()).collect()
    }

    #[test]
    fn without_faults_nothing_changes() {
        assert_eq!(run(1, Rates::default()), (all(), Counts::default()));
    }

    #[test]
    fn drops_are_missing() {
        let (got, counts) = run(2, Rates { drop: 0.1, ..Rates::default() });
        assert_eq!(got.len() as u64 + counts.dropped, u64::from(FRAMES));
        assert!((300..700).contains(&counts.dropped), "{counts:?}");
        assert!(got.is_sorted());
    }

    #[test]
    fn duplicates_are_there_twice() {
        let (got, counts) = run(3, Rates { duplicate: 0.1, ..Rates::default() });
        assert_eq!(got.len() as u64, u64::from(FRAMES) + counts.duplicated);
        let mut unique = got.clone();
        unique.dedup();
        assert_eq!(unique, all());
        assert!((300..700).contains(&counts.duplicated), "{counts:?}");
    }

    #[test]
    fn reordered_ones_all_arrive() {
        let (got, counts) = run(4, Rates { reorder: 0.1, ..Rates::default() });
        assert!(!got.is_sorted());
        assert_eq!(sorted(got), all());
        assert!((300..700).contains(&counts.reordered), "{counts:?}");
    }

    #[test]
    fn damage_is_one_bit() {
        let (got, counts) = run(5, Rates { corrupt: 0.1, ..Rates::default() });
        let flipped: Vec<u32> = got
            .iter()
            .zip(all())
            .map(|(got, sent)| got.iter().zip(&sent).map(|(a, b)| (a ^ b).count_ones()).sum())
            .collect();
        assert!(flipped.iter().all(|&bits| bits <= 1));
        assert_eq!(u64::from(flipped.iter().sum::<u32>()), counts.corrupted);
        assert!((300..700).contains(&counts.corrupted), "{counts:?}");
    }

    #[test]
    fn a_seed_replays() {
        let rates = Rates { drop: 0.05, duplicate: 0.05, reorder: 0.05, corrupt: 0.05 };
        assert_eq!(run(6, rates), run(6, rates));
        assert_ne!(run(6, rates).0, run(7, rates).0);
    }
}
