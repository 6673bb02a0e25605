//! Clocks of simulated endpoints: none shows the time of another.

use wiglaf_transport::Instant;

/// A clock that began somewhere and is too fast or too slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clock {
    pub(crate) offset_ns: u64,
    /// By so many millionths it is too fast.
    pub(crate) fast_ppm: i64,
}

const MILLION: i128 = 1_000_000;

impl Clock {
    pub(crate) const TRUE: Self = Self { offset_ns: 0, fast_ppm: 0 };

    /// What it shows at a time of the simulation.
    pub(crate) fn shows(self, at: Instant) -> Instant {
        let run = i128::from(at.as_nanos()) * (MILLION + i128::from(self.fast_ppm)) / MILLION;
        Instant::from_nanos(self.offset_ns + run as u64)
    }

    /// When it first shows this much.
    pub(crate) fn reaches(self, shown: Instant) -> Instant {
        let run = i128::from(shown.as_nanos().saturating_sub(self.offset_ns)) * MILLION;
        let rate = MILLION + i128::from(self.fast_ppm);
        Instant::from_nanos(((run + rate - 1) / rate) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_reached_when_it_is_shown_and_not_before() {
        for fast_ppm in [-50_000, -1, 0, 3, 50_000] {
            let clock = Clock { offset_ns: 5, fast_ppm };
            for ns in (6..100_000).step_by(37) {
                let at = clock.reaches(Instant::from_nanos(ns));
                assert!(clock.shows(at).as_nanos() >= ns);
                let before = Instant::from_nanos(at.as_nanos().saturating_sub(1));
                assert!(at == Instant::ZERO || clock.shows(before).as_nanos() < ns);
            }
        }
    }
}
