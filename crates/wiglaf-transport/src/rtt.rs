//! Round-trip time and the probe timeout (RFC 6298, RFC 9002 section 5).

use std::time::Duration;

use crate::limits::{ACK_DELAY_MAX, PTO_MAX, PTO_MIN, RTT_INITIAL};

/// What is known of the round trip to one peer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rtt {
    smoothed: Option<Duration>,
    variation: Duration,
    min: Duration,
}

impl Rtt {
    /// Takes a sample; `held` is how long the peer says it held the packet.
    pub(crate) fn sample(&mut self, raw: Duration, held: Duration) {
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(raw);
            self.variation = raw / 2;
            self.min = raw;
            return;
        };
        self.min = self.min.min(raw);
        // A delay that the peer reports is believed only down to the fastest round trip seen.
        let adjusted = if raw >= self.min + held { raw - held } else { raw };
        let deviation = smoothed.abs_diff(adjusted);
        self.variation = (self.variation * 3 + deviation) / 4;
        self.smoothed = Some((smoothed * 7 + adjusted) / 8);
    }

    /// Smoothed round-trip time.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(RTT_INITIAL)
    }

    /// How long to wait for an acknowledgement before probing, after
    /// `backoff` probes in a row went unanswered.
    pub(crate) fn probe_timeout(&self, backoff: u32) -> Duration {
        let base = self.smoothed() * 2 + self.variation.min(self.smoothed());
        let base = (base + ACK_DELAY_MAX).clamp(PTO_MIN, PTO_MAX);
        base.saturating_mul(1 << backoff.min(16)).min(PTO_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn converges_on_a_steady_path() {
        let mut rtt = Rtt::default();
        for _ in 0..100 {
            rtt.sample(US * 20, Duration::ZERO);
        }
        assert_eq!(rtt.smoothed(), US * 20);
        assert_eq!(rtt.probe_timeout(0), PTO_MIN);
    }

    #[test]
    fn backs_off_and_stops_at_the_cap() {
        let mut rtt = Rtt::default();
        rtt.sample(US * 20, Duration::ZERO);
        assert_eq!(rtt.probe_timeout(1), PTO_MIN * 2);
        assert_eq!(rtt.probe_timeout(60), PTO_MAX);
    }

    #[test]
    fn a_lying_delay_cannot_push_the_estimate_below_the_fastest_seen() {
        let mut rtt = Rtt::default();
        rtt.sample(US * 100, Duration::ZERO);
        for _ in 0..50 {
            rtt.sample(US * 100, US * 90);
        }
        assert_eq!(rtt.smoothed(), US * 100);
    }
}
