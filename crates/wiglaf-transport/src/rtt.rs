//! Round-trip time and the probe timeout (RFC 6298, RFC 9002 section 6.2).

use std::time::Duration;

use crate::limits::{HASTE_MAX, PTO_MAX, PTO_MIN, RTT_INITIAL, RTT_ROUND_MIN};
use crate::time::Instant;

/// How long the newest packet of an acknowledgement, and it, waited for what is no business of the
/// packet's own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    For(Waited),
    /// Longer than can be said, so that nothing is known of the rest.
    Long,
    /// The packet had come twice.
    CameTwice,
    /// This may have been told before, and lost.
    Unknown,
}

/// Where it waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waited {
    /// At the peer, until the acknowledgement left.
    pub(crate) there: Duration,
    /// `there` is no shorter than it was: its kernel has said when the packet came.
    pub(crate) is_exact: bool,
    /// The acknowledgement, here.
    pub(crate) here: Duration,
    /// It, on its way back and here.
    pub(crate) back: Duration,
    /// `back` is known by a clock. Else it is what it waited here.
    pub(crate) is_clocked: bool,
}

impl Waited {
    pub(crate) fn in_all(self) -> Duration {
        self.there + self.back
    }
}

/// What is known of the round trip to one peer, the time in its process included:
/// that is what an answer takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rtt {
    /// 0 before the first sample.
    smoothed_ns: u32,
    variation_ns: u32,
    /// Largest deviation of the round that is under way.
    peak_ns: u32,
    /// Shortest that was ever seen, without the time in endpoints.
    way_ns: u32,
    /// A round ends at the first sample after this.
    round_end_at: Instant,
    /// So many halves of the variation are not waited for, as something was lost of late when
    /// it was.
    haste: u8,
}

impl Rtt {
    pub(crate) const fn new() -> Self {
        let round_end_at = Instant::ZERO;
        Self { smoothed_ns: 0, variation_ns: 0, peak_ns: 0, way_ns: 0, round_end_at, haste: 0 }
    }

    /// Takes the round trip of a packet, `held` of which it spent in the endpoints at most.
    pub(crate) fn sample(&mut self, now: Instant, raw: Duration, held: Duration) {
        // What was mostly held says little about the way.
        if held < raw / 4 && (self.way_ns == 0 || nanos(raw - held) < self.way_ns) {
            self.way_ns = nanos(raw - held);
        }
        let raw = nanos(raw);
        if self.smoothed_ns == 0 {
            self.smoothed_ns = raw;
            self.variation_ns = raw / 2;
            return;
        }
        self.peak_ns = self.peak_ns.max(self.smoothed_ns.abs_diff(raw));
        self.smoothed_ns = (self.smoothed_ns * 7 + raw) / 8;
        if now >= self.round_end_at {
            self.end_round();
            self.round_end_at = now + self.smoothed().max(RTT_ROUND_MIN);
        }
    }

    /// The largest deviation of a round counts, and counts quickly: of thousands
    /// of samples few show that a peer now and then loses its core.
    fn end_round(&mut self) {
        let peak = std::mem::take(&mut self.peak_ns);
        let old = self.variation_ns;
        self.variation_ns = if peak > old { old.midpoint(peak) } else { (old * 7 + peak) / 8 };
    }

    /// What was probed for has been acknowledged, so long after it was sent `before` the probe,
    /// and so long after the last `probe`.
    ///
    /// The variation tells how late a peer may be that has merely lost its core. To wait for it is
    /// right where little is lost, and wrong where the probe is what the peer waits for, too. Which it
    /// is, no sample of the round trip can tell; what became of the probes does.
    pub(crate) fn probe_answered(&mut self, before: Duration, probe: Duration, was_late: bool) {
        if was_late {
            // As long as that did the peer take.
            self.peak_ns = self.peak_ns.max(nanos(before).saturating_sub(self.smoothed_ns));
        }
        // Sooner, the answer was under way already.
        let was_needless = was_late || probe < self.smoothed() / 2;
        self.haste = match was_needless {
            true => self.haste.saturating_sub(1),
            false => (self.haste + 4).min(HASTE_MAX),
        };
    }

    /// Shortest round trip without the time in endpoints, in nanoseconds; 0 when there is none yet.
    pub(crate) fn way_ns(&self) -> u32 {
        self.way_ns
    }

    /// Smoothed round-trip time.
    pub(crate) fn smoothed(&self) -> Duration {
        match self.smoothed_ns {
            0 => RTT_INITIAL,
            ns => Duration::from_nanos(u64::from(ns)),
        }
    }

    /// How long to wait for an acknowledgement before probing, after
    /// `backoff` probes in a row went unanswered.
    pub(crate) fn probe_timeout(&self, backoff: u32) -> Duration {
        let smoothed = self.smoothed();
        let spread = Duration::from_nanos((4 * u64::from(self.variation_ns)) >> self.haste);
        let base = (smoothed + spread.max(smoothed)).clamp(PTO_MIN, PTO_MAX);
        base.saturating_mul(1 << backoff.min(16)).min(PTO_MAX)
    }

    /// So long after it was sent a packet has arrived, if it has found room: the smoothed time, which
    /// has the peer's absence in it, says nothing about that.
    pub(crate) fn arrival_timeout(&self) -> Duration {
        match self.way_ns {
            0 => (self.smoothed() * 5 / 4).min(RTT_INITIAL),
            ns => Duration::from_nanos(2 * u64::from(ns)).max(PTO_MIN),
        }
    }

    /// How long a packet may be late behind one that was sent after it and has arrived (RFC 8985,
    /// section 6.2): so the peer is there, and its absence, which the smoothed time has in it, is over.
    pub(crate) fn reordering_timeout(&self) -> Duration {
        (self.smoothed() * 5 / 4).min(self.arrival_timeout())
    }
}

/// Kept below an eighth of what 32 bits hold: sums do not overflow.
fn nanos(time: Duration) -> u32 {
    (time.min(2 * PTO_MAX).as_nanos() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn steady(samples: u64, raw: Duration) -> Rtt {
        let mut rtt = Rtt::new();
        for n in 0..samples {
            rtt.sample(at(2 * n), raw, Duration::ZERO);
        }
        rtt
    }

    #[test]
    fn converges_on_a_steady_path() {
        let rtt = steady(100, US * 20);
        assert_eq!(rtt.smoothed(), US * 20);
        assert_eq!(rtt.probe_timeout(0), PTO_MIN);
        assert_eq!(steady(100, US * 500).probe_timeout(0), US * 1000);
    }

    #[test]
    fn backs_off_and_stops_at_the_cap() {
        let rtt = steady(100, US * 20);
        assert_eq!(rtt.probe_timeout(1), PTO_MIN * 2);
        assert_eq!(rtt.probe_timeout(60), PTO_MAX);
    }

    #[test]
    fn a_peer_that_is_late_now_and_then_is_waited_for() {
        let mut rtt = steady(100, US * 20);
        for n in 0..10 {
            for _ in 0..100 {
                rtt.sample(at(1000 + n), US * 20, Duration::ZERO);
            }
            rtt.sample(at(1000 + n), US * 4000, Duration::ZERO);
        }
        assert!(rtt.probe_timeout(0) > US * 4000);
    }

    #[test]
    fn whose_peer_was_away_is_not_waited_for_once_it_is_back() {
        let mut rtt = steady(10, US * 20);
        for n in 0..10 {
            rtt.sample(at(1000 + n), US * 20_000, US * 19_980);
        }
        assert!(rtt.smoothed() > US * 10_000);
        assert_eq!(rtt.reordering_timeout(), PTO_MIN);
        // On a long way it takes long.
        assert_eq!(steady(10, US * 500).reordering_timeout(), US * 625);
    }

    #[test]
    fn the_way_is_what_is_left_without_the_endpoints() {
        let mut rtt = steady(10, US * 500);
        rtt.sample(at(100), US * 300, US * 50);
        rtt.sample(at(100), US * 300, US * 290);
        assert_eq!(rtt.way_ns(), 250_000);
    }

    #[test]
    fn absurd_samples_do_not_overflow() {
        let mut rtt = steady(10, Duration::MAX);
        rtt.sample(at(1000), Duration::ZERO, Duration::MAX);
        assert!(rtt.probe_timeout(60) <= PTO_MAX);
    }
}
