//! How long acknowledgements are on their way back, by the clock that each carries.
//!
//! The other direction's queue is no reason to send less in this one. The clocks need not agree: what
//! counts is how much longer one acknowledgement took than the promptest, which had no queue.
//! Data cannot be timed so, for who comes when its queue is full takes that for its length when empty
//! (LEDBAT's latecomers, RFC 6817, section 3.2.1); few acknowledgements meet a queue at first.

use std::time::Duration;

use crate::limits::{CLOCK_DRIFT, CLOCK_DRIFT_STEP, CLOCK_JUMP};
use crate::time::Instant;

/// What is known of one peer's clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Returns {
    /// Our clock less that of the peer for the promptest, in microseconds; it wraps.
    prompt_us: Option<u32>,
    /// When `prompt_us` grew last.
    grown_at: Instant,
}

impl Returns {
    /// By how much an acknowledgement that left at `sent_at_us` of its sender's clock is later here than
    /// the promptest: because of a queue, or because nobody looked.
    pub(crate) fn late(&mut self, now: Instant, sent_at_us: u32) -> Duration {
        let difference = micros(now).wrapping_sub(sent_at_us);
        let Some(prompt_us) = &mut self.prompt_us else {
            *self = Self { prompt_us: Some(difference), grown_at: now };
            return Duration::ZERO;
        };
        let passed = now - self.grown_at;
        if passed >= CLOCK_DRIFT_STEP {
            *prompt_us = prompt_us.wrapping_add((passed / CLOCK_DRIFT).as_micros() as u32);
            self.grown_at = now;
        }
        // Half of what 32 bits count is earlier, half is later.
        let late = difference.wrapping_sub(*prompt_us).cast_signed();
        let late = Duration::from_micros(u64::from(late.max(0).cast_unsigned()));
        if late.is_zero() || late > CLOCK_JUMP {
            *prompt_us = difference;
            return Duration::ZERO;
        }
        late
    }
}

/// The low 32 bits of a clock in microseconds.
pub(crate) fn micros(now: Instant) -> u32 {
    (now.as_nanos() / 1000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    fn late_us(returns: &mut Returns, now_us: u64, sent_at_us: u32) -> u128 {
        returns.late(at(now_us), sent_at_us).as_micros()
    }

    #[test]
    fn the_promptest_is_not_late_and_clocks_need_not_agree() {
        let mut returns = Returns::default();
        let peer = u32::MAX - 150; // wraps under way
        assert_eq!(late_us(&mut returns, 130, peer.wrapping_add(100)), 0);
        assert_eq!(late_us(&mut returns, 210, peer.wrapping_add(200)), 0, "prompter");
        assert_eq!(late_us(&mut returns, 330, peer.wrapping_add(300)), 20);
        assert_eq!(late_us(&mut returns, 5410, peer.wrapping_add(400)), 5000);
    }

    #[test]
    fn a_clock_that_jumps_is_begun_with_anew() {
        for jump_us in [2_000_000, 2_000_000_000, 4_000_000_000_u32] {
            let mut returns = Returns::default();
            assert_eq!(late_us(&mut returns, 100, 100), 0);
            assert_eq!(late_us(&mut returns, 300, 200_u32.wrapping_sub(jump_us)), 0);
            assert_eq!(late_us(&mut returns, 450, 300_u32.wrapping_sub(jump_us)), 50);
        }
    }

    #[test]
    fn a_clock_that_drifts_does_not_make_everything_late() {
        let mut returns = Returns::default();
        for second in 0..100 {
            // The other one loses 90 us in each second.
            let late = late_us(&mut returns, second * 1_000_000, (second * 999_910) as u32);
            assert!(late == 0, "{late} us after {second} s");
        }
    }
}
