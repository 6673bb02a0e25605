//! How many packets of a lane may be in flight: a window that follows the delay
//! of the network, and losses.
//!
//! The method is that of Swift (Kumar and others, SIGCOMM 2020): a target for
//! the delay, additive increase below it, multiplicative decrease above it by
//! how far it is missed, once per round trip, more target for smaller windows
//! (which is what makes many flows fair), and pacing of windows below one packet.
//!
//! Here endpoints are processes, which the scheduler stops for milliseconds.
//! That is no congestion. So the time that packets may have waited in either
//! endpoint is taken off each sample by the caller, a round is judged by its
//! *shortest* delay, which a queue in the network raises and a late process does
//! not (Copa's standing delay, Arun and Balakrishnan, NSDI 2018), and delay alone
//! never takes the window below one packet.

use std::time::Duration;

use crate::limits::{
    CWND_INITIAL, CWND_MIN_PARTS, CWND_MIN_PARTS_UNDELAYED, DELAY_TARGET, DELAY_TARGET_FLOWS,
    PARTS_PER_PACKET,
};

/// The congestion window of one lane.
#[derive(Debug, Clone)]
pub(crate) struct Congestion {
    /// In parts of a packet, see [`PARTS_PER_PACKET`].
    window: u32,
    /// The same.
    window_max: u32,
    /// Shortest delay of the round that is under way.
    round_min_ns: u32,
    /// Neither loss nor too much delay has been seen: the window doubles each round trip.
    slow_start: bool,
    /// The last round took longer than it should.
    delayed: bool,
    /// False shows what happens without.
    controlled: bool,
}

/// How much of what is missed is taken off the window (Swift's beta).
const DECREASE: f32 = 0.8;
/// Most that one round may take off for delay (Swift's `max_mdf`).
const DECREASE_MAX: f32 = 0.5;
/// Most packets that are added in a round.
const STEP_MAX: u32 = 4;
/// What a loss leaves of the window (RFC 9438, section 4.6).
const AFTER_LOSS: f32 = 0.7;

impl Congestion {
    /// A window of at most `packets_max`; without control it is as wide from the start.
    pub(crate) const fn new(packets_max: u32, controlled: bool) -> Self {
        let initial =
            if controlled && CWND_INITIAL < packets_max { CWND_INITIAL } else { packets_max };
        Self {
            window: initial * PARTS_PER_PACKET,
            window_max: packets_max * PARTS_PER_PACKET,
            round_min_ns: u32::MAX,
            slow_start: true,
            delayed: false,
            controlled,
        }
    }

    /// Whole packets that may be in flight, at least one.
    pub(crate) fn packets(&self) -> u32 {
        (self.window / PARTS_PER_PACKET).max(1)
    }

    /// How long to wait after a packet when the window is below one, given the round trip.
    pub(crate) fn pace(&self, rtt: Duration) -> Option<Duration> {
        let is_below_one = self.window < PARTS_PER_PACKET;
        is_below_one.then(|| rtt * PARTS_PER_PACKET / self.window)
    }

    /// Takes the round trip of a packet, `held` of which it spent in the endpoints at most.
    pub(crate) fn sample(&mut self, raw: Duration, held: Duration) {
        //= docs/protocol.md#41-congestion
        //# A sender MUST NOT take for congestion what packets and acknowledgements may have waited in endpoints.
        let delay = raw.saturating_sub(held).as_nanos();
        self.round_min_ns = self.round_min_ns.min(u32::try_from(delay).unwrap_or(u32::MAX));
    }

    /// Notes that `packets` were acknowledged; `was_full` when the window had kept more from
    /// going.
    pub(crate) fn acked(&mut self, packets: u32, was_full: bool) {
        if self.controlled && self.slow_start && was_full {
            self.grow(packets * PARTS_PER_PACKET);
        }
    }

    /// A window's worth has been acknowledged: judges its delay, of which the way itself takes
    /// `way_ns`, 0 if that is not known.
    pub(crate) fn end_round(&mut self, was_full: bool, way_ns: u32) {
        let delay = std::mem::replace(&mut self.round_min_ns, u32::MAX);
        if !self.controlled || delay == u32::MAX {
            return;
        }
        let target = self.target_ns(way_ns);
        self.delayed = delay > target;
        if self.delayed {
            self.slow_start = false;
            let missed = (delay - target) as f32 / delay as f32;
            self.shrink(1.0 - (DECREASE * missed).min(DECREASE_MAX), PARTS_PER_PACKET);
        } else if !self.slow_start && was_full {
            // More where there is hardly a queue (TIMELY, section 4.3) and where the window
            // is wide: losses there cost many rounds.
            let queue = delay.saturating_sub(way_ns);
            let step = if queue < target.saturating_sub(way_ns) / 4 { STEP_MAX } else { 1 };
            self.grow(step * PARTS_PER_PACKET + self.window / 64);
        }
    }

    /// A packet of a window was found lost, the first one of it.
    pub(crate) fn lost(&mut self) {
        if self.controlled {
            self.slow_start = false;
            let floor = if self.delayed { CWND_MIN_PARTS } else { CWND_MIN_PARTS_UNDELAYED };
            self.shrink(AFTER_LOSS, floor);
        }
    }

    /// The delay to aim at, in nanoseconds: so much for queues in general, more for a small
    /// window (Swift, section 3.5), and always more than the way itself takes.
    fn target_ns(&self, way_ns: u32) -> u32 {
        let packets = self.window.max(PARTS_PER_PACKET) as f32 / PARTS_PER_PACKET as f32;
        let flows = DELAY_TARGET_FLOWS.as_nanos() as f32 / packets.sqrt();
        let target = DELAY_TARGET.as_nanos() as u32 + flows as u32;
        target.max(way_ns.saturating_add(way_ns / 4))
    }

    fn grow(&mut self, parts: u32) {
        self.window = self.window.saturating_add(parts).min(self.window_max);
    }

    fn shrink(&mut self, factor: f32, floor: u32) {
        let shrunk = (self.window as f32 * factor) as u32;
        self.window = shrunk.max(floor.min(self.window));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    fn round(congestion: &mut Congestion, delay: Duration, held: Duration) {
        congestion.sample(delay, held);
        congestion.end_round(true, 0);
    }

    #[test]
    fn a_queue_shrinks_the_window_and_its_end_widens_it() {
        let mut congestion = Congestion::new(1000, true);
        let first = congestion.packets();
        round(&mut congestion, US * 2000, Duration::ZERO);
        assert!(congestion.packets() < first);
        for _ in 0..100 {
            round(&mut congestion, US * 2000, Duration::ZERO);
        }
        assert_eq!(congestion.packets(), 1);
        assert_eq!(congestion.pace(US), None, "delay alone does not pace");
        for _ in 0..10 {
            round(&mut congestion, US * 20, Duration::ZERO);
        }
        assert!(congestion.packets() > 40);
    }

    #[test]
    fn time_in_the_endpoints_is_no_congestion() {
        let mut congestion = Congestion::new(1000, true);
        let before = congestion.packets();
        for _ in 0..100 {
            round(&mut congestion, US * 4020, US * 4000);
        }
        assert!(congestion.packets() >= before);
    }

    #[test]
    fn one_prompt_packet_in_a_round_is_enough() {
        let mut congestion = Congestion::new(1000, true);
        let before = congestion.packets();
        for _ in 0..100 {
            congestion.sample(US * 20, Duration::ZERO);
            round(&mut congestion, US * 4000, Duration::ZERO);
        }
        assert!(congestion.packets() >= before);
    }

    #[test]
    fn a_long_way_is_no_queue() {
        let mut congestion = Congestion::new(1000, true);
        let before = congestion.packets();
        for _ in 0..100 {
            congestion.sample(US * 20_000, Duration::ZERO);
            congestion.end_round(true, 19_000_000);
        }
        assert!(congestion.packets() >= before);
    }

    #[test]
    fn losses_go_below_one_packet_and_pace_where_a_queue_stands() {
        let mut congestion = Congestion::new(1000, true);
        for _ in 0..1000 {
            congestion.lost();
        }
        assert_eq!(congestion.packets(), CWND_MIN_PARTS_UNDELAYED / PARTS_PER_PACKET);
        round(&mut congestion, US * 2000, Duration::ZERO);
        for _ in 0..1000 {
            congestion.lost();
        }
        assert_eq!(congestion.packets(), 1);
        assert_eq!(congestion.pace(US), Some(US * PARTS_PER_PACKET / CWND_MIN_PARTS));
    }

    #[test]
    fn without_control_nothing_changes_it() {
        let mut congestion = Congestion::new(1000, false);
        congestion.lost();
        round(&mut congestion, US * 9000, Duration::ZERO);
        assert_eq!(congestion.packets(), 1000);
    }
}
