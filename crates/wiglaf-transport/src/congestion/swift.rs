//! A window that follows the delay of the network, and losses.
//!
//! The method is that of Swift (Kumar and others, SIGCOMM 2020): a target for
//! the delay, additive increase below it, multiplicative decrease above it by
//! how far it is missed, once per round trip, more target for smaller windows
//! (which is what makes many flows fair), and pacing of windows below one packet.
//!
//! As there, what packets and acknowledgements wait in endpoints is no delay of the network: kernels tell when
//! they arrived. What is not Swift's: the queue that an acknowledgement meets is not counted, because it is the other
//! direction's; a round is judged by the mean of its delays, because a window of packets that goes at once is a queue
//! at its end; the target is longer where either end is away for long, because only a queue that outlasts its absence
//! keeps the line busy; and delay alone never takes the window below one packet.

use std::time::Duration;

use super::Controller;
use crate::limits::{
    ABSENCE_FACTOR, ABSENCE_FADING, ABSENCE_MAX, CWND_INITIAL, CWND_MIN_PARTS,
    CWND_MIN_PARTS_UNDELAYED, DELAY_TARGET, DELAY_TARGET_FLOWS, LONG_WAY, LOOK_EVERY, LOOK_FIRST,
    LOOK_WINDOW_MIN, PARTS_PER_PACKET, SWIFT_AFTER_LOSS, SWIFT_DECREASE, SWIFT_DECREASE_MAX,
    SWIFT_STEP_COUNT_MAX, SWIFT_STEP_LEN, SWIFT_STEPS_MAX,
};

/// The congestion window of one lane.
#[derive(Debug, Clone)]
pub(crate) struct Swift {
    /// In parts of a packet, see [`PARTS_PER_PACKET`].
    window: u32,
    /// The widest that it may become, in parts of a packet.
    window_max: u32,
    /// What windows grow by, in parts of a packet.
    step: u32,
    /// Delays of the round that is under way.
    round: Mean,
    /// The longest absence of either end of late.
    absence_ns: u32,
    /// Neither loss nor too much delay has been seen: the window doubles each round trip.
    slow_start: bool,
    /// The last round took longer than it should.
    delayed: bool,
    /// The way is looked at again in this many rounds.
    rounds_until_look: u8,
    /// And after that one in twice as many as this: who came when a queue stood is soon found out.
    look_every: u8,
    /// What the window was, and the way, before the look that is under way.
    before_look: Option<(u32, u32)>,
}

/// What many are on average.
#[derive(Debug, Clone, Copy)]
struct Mean {
    sum_ns: u64,
    count: u32,
}

impl Mean {
    const NONE: Self = Self { sum_ns: 0, count: 0 };

    fn add(&mut self, time: Duration) {
        self.sum_ns =
            self.sum_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.count = self.count.saturating_add(1);
    }

    fn take_ns(&mut self) -> Option<u32> {
        let Self { sum_ns, count } = std::mem::replace(self, Self::NONE);
        let mean = sum_ns.checked_div(u64::from(count))?;
        Some(u32::try_from(mean).unwrap_or(u32::MAX))
    }
}

/// What a window of packets of at most so many bytes grows by, in parts of a packet.
///
/// A window of long packets grows by parts of them: otherwise each step is a queue that takes many
/// times as long as a short packet's, and windows swing between too wide and too narrow.
const fn step(packet_len_max: usize) -> u32 {
    let packets = packet_len_max.div_ceil(SWIFT_STEP_LEN);
    let packets = if packets > SWIFT_STEPS_MAX { SWIFT_STEPS_MAX } else { packets };
    PARTS_PER_PACKET / packets as u32
}

impl Swift {
    /// A window of at most `packets_max` packets of at most `packet_len_max` bytes.
    pub(super) const fn new(packets_max: u32, packet_len_max: usize) -> Self {
        let initial = if CWND_INITIAL < packets_max { CWND_INITIAL } else { packets_max };
        Self {
            window: initial * PARTS_PER_PACKET,
            window_max: packets_max * PARTS_PER_PACKET,
            step: step(packet_len_max),
            round: Mean::NONE,
            absence_ns: 0,
            slow_start: true,
            delayed: false,
            rounds_until_look: 0,
            look_every: LOOK_FIRST,
            before_look: None,
        }
    }

    /// Whether this round, or the next one, is there to see how long the way takes.
    ///
    /// Who comes when a queue stands takes it for the way, and keeps it standing (the latecomers of LEDBAT;
    /// RFC 6817, section 4.4). So a long way is looked at with nothing of one's own before it (as by BBR's
    /// ProbeRTT), at once and then now and again. Many who come together look together.
    //= docs/protocol.md#41-congestion
    //# A sender whose shortest round trip is above 400 us MUST look at it again with one packet of its own under way, at once, after 8 rounds, and then after twice as many each time up to 128, unless its window is below 4 packets.
    fn looks_at_way(&mut self, way_ns: u32) -> bool {
        if let Some((window, before_ns)) = self.before_look.take() {
            self.window = match way_ns < before_ns / 4 * 3 {
                true => (u64::from(window) * u64::from(way_ns) / u64::from(before_ns)) as u32,
                false => window,
            };
            self.window = self.window.max(PARTS_PER_PACKET);
            return true;
        }
        if way_ns < LONG_WAY.as_nanos() as u32 || self.window < LOOK_WINDOW_MIN * PARTS_PER_PACKET {
            return false;
        }
        if self.rounds_until_look > 0 {
            self.rounds_until_look -= 1;
            return false;
        }
        self.rounds_until_look = self.look_every;
        self.look_every = self.look_every.saturating_mul(2).min(LOOK_EVERY);
        self.before_look = Some((self.window, way_ns));
        self.window = PARTS_PER_PACKET;
        true
    }

    /// The delay to aim at, in nanoseconds: so much for queues in general, more for a small
    /// window (Swift, section 3.5) and the more the longer either end is absent, and always more
    /// than the way itself takes.
    fn target_ns(&self, way_ns: u32) -> u32 {
        let packets = self.window.max(PARTS_PER_PACKET) as f32 / PARTS_PER_PACKET as f32;
        let one_packet = DELAY_TARGET_FLOWS.as_nanos() as u32 + ABSENCE_FACTOR * self.absence_ns;
        let flows = (one_packet as f32 / packets.sqrt()) as u32;
        (DELAY_TARGET.as_nanos() as u32 + flows).max(way_ns.saturating_add(way_ns / 4))
    }

    fn grow(&mut self, parts: u32) {
        self.window = self.window.saturating_add(parts).min(self.window_max);
    }

    fn shrink(&mut self, factor: f32, floor: u32) {
        let shrunk = (self.window as f32 * factor) as u32;
        self.window = shrunk.max(floor.min(self.window));
    }
}

impl Controller for Swift {
    fn window(&self) -> u32 {
        self.window
    }

    fn on_delay(&mut self, delay: Duration) {
        self.round.add(delay);
    }

    fn on_absence(&mut self, away: Duration) {
        self.absence_ns = self.absence_ns.max(away.min(ABSENCE_MAX).as_nanos() as u32);
    }

    fn on_acked(&mut self, packets: u32, was_full: bool) {
        // Who does not know yet how long they took does not double.
        if self.slow_start && was_full && self.round.count > 0 {
            self.grow(packets * PARTS_PER_PACKET);
        }
    }

    fn on_round(&mut self, was_full: bool, way_ns: u32) {
        let delay = self.round.take_ns();
        let target = self.target_ns(way_ns);
        self.absence_ns -= self.absence_ns / ABSENCE_FADING;
        if self.looks_at_way(way_ns) {
            return;
        }
        match delay {
            Some(delay) if delay > target => {
                self.delayed = true;
                self.slow_start = false;
                let missed = (delay - target) as f32 / delay as f32;
                self.shrink(
                    1.0 - (SWIFT_DECREASE * missed).min(SWIFT_DECREASE_MAX),
                    PARTS_PER_PACKET,
                );
            }
            Some(delay) => {
                self.delayed = false;
                if !self.slow_start && was_full {
                    // More where there is hardly a queue (TIMELY, section 4.3) and where the window
                    // is wide: losses there cost many rounds.
                    let queue = delay.saturating_sub(way_ns);
                    let is_hardly = queue < target.saturating_sub(way_ns) / 4;
                    let steps = if is_hardly { SWIFT_STEP_COUNT_MAX } else { 1 };
                    self.grow(steps * self.step + self.window / 64);
                }
            }
            // A receiver that is long away says nothing; to stay narrow would be wrong.
            None if was_full && self.window < CWND_INITIAL * PARTS_PER_PACKET => {
                self.grow(PARTS_PER_PACKET);
            }
            None => {}
        }
    }

    fn on_loss(&mut self) {
        if let Some((window, _)) = self.before_look.take() {
            self.window = window;
        }
        self.slow_start = false;
        let floor = if self.delayed { CWND_MIN_PARTS } else { CWND_MIN_PARTS_UNDELAYED };
        self.shrink(SWIFT_AFTER_LOSS, floor);
    }

    fn set_packet_len(&mut self, len_max: usize) {
        self.step = step(len_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    fn swift() -> Swift {
        Swift::new(1000, 1472)
    }

    fn round(swift: &mut Swift, delay: Duration) {
        swift.on_delay(delay);
        swift.on_round(true, 0);
    }

    #[test]
    fn a_queue_shrinks_the_window_and_its_end_widens_it() {
        let mut swift = swift();
        let first = swift.packets();
        round(&mut swift, US * 2000);
        assert!(swift.packets() < first);
        for _ in 0..100 {
            round(&mut swift, US * 2000);
        }
        assert_eq!(swift.packets(), 1);
        assert_eq!(swift.pace(US), None, "delay alone does not pace");
        for _ in 0..10 {
            round(&mut swift, US * 20);
        }
        assert!(swift.packets() > 40);
    }

    /// Else a window of 9000-byte packets swings between 5 and 23 at 1 Gbit/s, and a port that data and
    /// acknowledgements share is empty every other millisecond.
    #[test]
    fn a_step_is_as_many_bytes_whatever_the_packets() {
        for (packet_len_max, packets) in [(1472, 40), (8972, 8), (65_507, 6)] {
            let mut swift = Swift::new(1000, 1472);
            swift.set_packet_len(packet_len_max);
            for _ in 0..100 {
                round(&mut swift, US * 2000);
            }
            for _ in 0..10 {
                round(&mut swift, US * 20);
            }
            let grown = swift.packets() - 1;
            assert!(grown.abs_diff(packets) <= packets / 4, "{packet_len_max}: {grown}");
        }
    }

    #[test]
    fn a_queue_that_passed_for_the_way_is_found_out() {
        let mut swift = swift();
        swift.on_round(true, 5_000_000);
        assert_eq!(swift.packets(), 1, "looks");
        swift.on_round(true, 500_000);
        assert_eq!(swift.packets(), CWND_INITIAL / 10);
    }

    #[test]
    fn a_way_that_is_long_is_looked_at_now_and_then() {
        let mut swift = swift();
        let mut looks = Vec::new();
        for round in 0..500 {
            let before = swift.packets();
            swift.on_round(true, 5_000_000);
            if swift.packets() == 1 {
                looks.push(round);
                swift.on_round(true, 5_000_000);
                assert_eq!(swift.packets(), before, "what it was");
            }
        }
        let between: Vec<u32> = looks.windows(2).map(|two| two[1] - two[0] - 1).collect();
        assert_eq!((looks[0], &between[..]), (0, &[8, 16, 32, 64, 128, 128][..]));
        let mut narrow = self::swift();
        narrow.window = 3 * PARTS_PER_PACKET;
        narrow.on_round(false, 5_000_000);
        assert_eq!(narrow.packets(), 3);
    }

    #[test]
    fn a_loss_ends_a_look() {
        let mut swift = swift();
        swift.on_round(true, 5_000_000);
        swift.on_loss();
        assert!(swift.packets() > CWND_INITIAL / 2);
    }

    #[test]
    fn what_nobody_timed_judges_nothing() {
        let mut swift = swift();
        for _ in 0..100 {
            swift.on_acked(1, true);
            swift.on_round(true, 0);
        }
        assert_eq!(swift.packets(), CWND_INITIAL, "not wider, for all that is known");
        for _ in 0..100 {
            round(&mut swift, US * 9900);
        }
        assert_eq!(swift.packets(), 1);
        for _ in 0..100 {
            swift.on_round(true, 0);
        }
        assert_eq!(swift.packets(), CWND_INITIAL, "nor for ever narrow");
    }

    /// Else the queue of a whole window that goes at once would stand in the last packet's sample only.
    #[test]
    fn a_round_is_judged_by_the_mean() {
        for (last, shrinks) in [(300, false), (900, true)] {
            let mut swift = swift();
            swift.on_delay(US * 20);
            round(&mut swift, US * last);
            assert_eq!(swift.packets() < CWND_INITIAL, shrinks, "{last} us");
        }
    }

    #[test]
    fn an_absent_end_is_left_a_queue_for_a_while() {
        let mut swift = swift();
        let usual = swift.target_ns(0);
        swift.on_absence(US * 990);
        round(&mut swift, US * 1000);
        assert!(swift.target_ns(0) > usual + 500_000);
        for _ in 0..100 {
            round(&mut swift, US * 20);
        }
        assert!(swift.target_ns(0) < usual + 2000);
    }

    #[test]
    fn a_long_way_is_no_queue() {
        let mut swift = swift();
        let before = swift.packets();
        for _ in 0..100 {
            swift.on_delay(US * 20_000);
            swift.on_round(true, 19_000_000);
        }
        assert!(swift.packets() >= before);
    }

    #[test]
    fn losses_go_below_one_packet_and_pace_where_a_queue_stands() {
        let mut swift = swift();
        for _ in 0..1000 {
            swift.on_loss();
        }
        assert_eq!(swift.packets(), CWND_MIN_PARTS_UNDELAYED / PARTS_PER_PACKET);
        round(&mut swift, US * 2000);
        for _ in 0..1000 {
            swift.on_loss();
        }
        assert_eq!(swift.packets(), 1);
        assert_eq!(swift.pace(US), Some(US * PARTS_PER_PACKET / CWND_MIN_PARTS));
    }
}
