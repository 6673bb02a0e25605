//! How many packets of a lane may be in flight: a window that follows the delay
//! of the network, and losses.
//!
//! The method is that of Swift (Kumar and others, SIGCOMM 2020): a target for
//! the delay, additive increase below it, multiplicative decrease above it by
//! how far it is missed, once per round trip, more target for smaller windows
//! (which is what makes many flows fair), and pacing of windows below one packet.
//!
//! Here endpoints are processes, which the scheduler stops for milliseconds, and the other
//! direction has queues of its own. Neither is congestion of this one. So the caller takes both off each
//! sample: how late the acknowledgement was is known exactly, by its clock, and how long the packet
//! waited for its receiver at most. A round is judged by the mean of its samples, of those with a receiver
//! that was at work, and has more time where it was not: a queue that outlasts its absence keeps the line busy.
//! Delay alone never takes the window below one packet.

use std::time::Duration;

use crate::limits::{
    ABSENCE_FACTOR, ABSENCE_FADING, ABSENCE_MAX, ABSENCE_MIN, CWND_INITIAL, CWND_MIN_PARTS,
    CWND_MIN_PARTS_UNDELAYED, DELAY_TARGET, DELAY_TARGET_FLOWS, LONG_WAY, LOOK_EVERY, LOOK_FIRST,
    LOOK_WINDOW_MIN, PARTS_PER_PACKET,
};
use crate::rtt::Waited;

/// How windows of packets are controlled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Control {
    /// False shows what happens without.
    is_on: bool,
    /// What windows grow by, in parts of a packet.
    step: u32,
}

impl Control {
    /// For packets of at most so many bytes.
    ///
    /// A window of long packets grows by parts of them: otherwise each step is a queue that takes many
    /// times as long as a short packet's, and windows swing between too wide and too narrow.
    pub(crate) const fn of(frame_len_max: usize, is_on: bool) -> Self {
        let packets = frame_len_max.div_ceil(STEP_LEN);
        let packets = if packets > STEPS_MAX { STEPS_MAX } else { packets };
        Self { is_on, step: PARTS_PER_PACKET / packets as u32 }
    }
}

/// The congestion window of one lane.
#[derive(Debug, Clone)]
pub(crate) struct Congestion {
    /// In parts of a packet, see [`PARTS_PER_PACKET`].
    window: u32,
    /// The widest that it may become, in parts of a packet.
    window_max: u32,
    /// Delays of the round that is under way.
    round: Mean,
    /// What they were at least, of packets that may have waited for their receiver.
    at_least: Mean,
    /// What they were at most: all the time in which those may have waited is theirs.
    at_most: Mean,
    /// The receiver's longest absence of late.
    absence_ns: u32,
    /// Neither loss nor too much delay has been seen: the window doubles each round trip.
    slow_start: bool,
    /// The last round took longer than it should.
    delayed: bool,
    control: Control,
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
        std::mem::replace(self, Self::NONE).ns()
    }

    fn ns(self) -> Option<u32> {
        let Self { sum_ns, count } = self;
        let mean = sum_ns.checked_div(u64::from(count))?;
        Some(u32::try_from(mean).unwrap_or(u32::MAX))
    }
}

/// How much of what is missed is taken off the window (Swift's beta).
const DECREASE: f32 = 0.8;
/// Most that one round may take off for delay (Swift's `max_mdf`).
const DECREASE_MAX: f32 = 0.5;
/// A step is so many bytes: a packet at an MTU of 1500.
const STEP_LEN: usize = 1472;
/// And at least one in so many of a packet.
const STEPS_MAX: usize = 8;
/// Most steps that are added in a round.
const STEP_COUNT_MAX: u32 = 4;
/// What a loss leaves of the window (RFC 9438, section 4.6).
const AFTER_LOSS: f32 = 0.7;

impl Congestion {
    /// A window of at most `packets_max`; without control it is as wide from the start.
    pub(crate) const fn new(packets_max: u32, control: Control) -> Self {
        let initial =
            if control.is_on && CWND_INITIAL < packets_max { CWND_INITIAL } else { packets_max };
        Self {
            window: initial * PARTS_PER_PACKET,
            window_max: packets_max * PARTS_PER_PACKET,
            round: Mean::NONE,
            at_least: Mean::NONE,
            at_most: Mean::NONE,
            absence_ns: 0,
            slow_start: true,
            delayed: false,
            control,
            rounds_until_look: 0,
            look_every: LOOK_FIRST,
            before_look: None,
        }
    }

    /// Packets have another length from now on, and windows grow by other steps.
    pub(crate) fn set_control(&mut self, control: Control) {
        self.control = control;
    }

    /// Whole packets that may be in flight, at least one.
    pub(crate) fn packets(&self) -> u32 {
        (self.window / PARTS_PER_PACKET).max(1)
    }

    /// Whether there is a wait after each packet.
    pub(crate) fn is_paced(&self) -> bool {
        self.window < PARTS_PER_PACKET
    }

    /// How long to wait after a packet when the window is below one, given the round trip.
    pub(crate) fn pace(&self, rtt: Duration) -> Option<Duration> {
        self.is_paced().then(|| rtt * PARTS_PER_PACKET / self.window)
    }

    /// Takes the round trip of a packet.
    pub(crate) fn sample(&mut self, raw: Duration, waited: Waited) {
        if !waited.is_clocked {
            return; // the other direction's queue would count
        }
        self.note_absence(waited.there);
        //= docs/protocol.md#41-congestion
        //# A sender MUST NOT take for congestion what packets and acknowledgements may have waited in endpoints.
        let delay = raw.saturating_sub(waited.in_all());
        if waited.is_exact || waited.there < ABSENCE_MIN {
            self.round.add(delay);
        } else {
            self.at_least.add(delay);
            self.at_most.add(raw.saturating_sub(waited.back));
        }
    }

    /// Notes that the receiver was away for so long.
    pub(crate) fn note_absence(&mut self, there: Duration) {
        let absence = there.min(ABSENCE_MAX).as_nanos() as u32;
        self.absence_ns = self.absence_ns.max(absence);
    }

    /// Notes that `packets` were acknowledged; `was_full` when the window had kept more from
    /// going.
    pub(crate) fn acked(&mut self, packets: u32, was_full: bool) {
        if !(self.control.is_on && self.slow_start && was_full) {
            return;
        }
        // Who does not know yet how long they took does not double.
        if self.round.count > 0 || self.at_most.ns().is_some_and(|delay| self.is_short(delay)) {
            self.grow(packets * PARTS_PER_PACKET);
        }
    }

    /// A window's worth has been acknowledged: judges its delay, of which the way itself takes
    /// `way_ns`, 0 if that is not known.
    pub(crate) fn end_round(&mut self, was_full: bool, way_ns: u32) {
        let (exact, at_least) = (self.round.take_ns(), self.at_least.take_ns());
        let at_most = self.at_most.take_ns().filter(|delay| self.is_short(*delay));
        let target = self.target_ns(way_ns);
        self.absence_ns -= self.absence_ns / ABSENCE_FADING;
        if self.control.is_on && self.looks_at_way(way_ns) {
            return;
        }
        let Some(delay) = exact.or(at_least) else { return };
        if !self.control.is_on {
            return;
        }
        if delay > target {
            self.delayed = true;
            self.slow_start = false;
            let missed = (delay - target) as f32 / delay as f32;
            self.shrink(1.0 - (DECREASE * missed).min(DECREASE_MAX), PARTS_PER_PACKET);
        } else if let Some(delay) = exact.or(at_most) {
            self.delayed = false;
            if !self.slow_start && was_full {
                // More where there is hardly a queue (TIMELY, section 4.3) and where the window
                // is wide: losses there cost many rounds.
                let queue = delay.saturating_sub(way_ns);
                let is_hardly = queue < target.saturating_sub(way_ns) / 4;
                let steps = if is_hardly { STEP_COUNT_MAX } else { 1 };
                self.grow(steps * self.control.step + self.window / 64);
            }
        } else if was_full && self.window < CWND_INITIAL * PARTS_PER_PACKET {
            // A receiver that is long away says nothing; to stay narrow would be wrong.
            self.grow(PARTS_PER_PACKET);
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

    /// A packet of a window was found lost, the first one of it.
    pub(crate) fn lost(&mut self) {
        if let Some((window, _)) = self.before_look.take() {
            self.window = window;
        }
        if self.control.is_on {
            self.slow_start = false;
            let floor = if self.delayed { CWND_MIN_PARTS } else { CWND_MIN_PARTS_UNDELAYED };
            self.shrink(AFTER_LOSS, floor);
        }
    }

    /// The delay to aim at, in nanoseconds: so much for queues in general, more for a small
    /// window (Swift, section 3.5) and the more the longer the receiver is absent, and always more
    /// than the way itself takes.
    fn target_ns(&self, way_ns: u32) -> u32 {
        let target = self.target_after_ns(self.absence_ns);
        target.max(way_ns.saturating_add(way_ns / 4))
    }

    /// The delay to aim at, in nanoseconds, if the receiver was absent for so long, without regard to the way.
    fn target_after_ns(&self, absence_ns: u32) -> u32 {
        let packets = self.window.max(PARTS_PER_PACKET) as f32 / PARTS_PER_PACKET as f32;
        let one_packet = DELAY_TARGET_FLOWS.as_nanos() as u32 + ABSENCE_FACTOR * absence_ns;
        DELAY_TARGET.as_nanos() as u32 + (one_packet as f32 / packets.sqrt()) as u32
    }

    /// Whether a delay is below the target though nothing is added for an absent receiver: who is
    /// absent shows all of its time as delay, and is not to get more for that.
    fn is_short(&self, delay_ns: u32) -> bool {
        delay_ns < self.target_after_ns(0)
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

    const AT_ONCE: Waited =
        Waited { there: Duration::ZERO, is_exact: false, back: Duration::ZERO, is_clocked: true };

    fn congestion() -> Congestion {
        Congestion::new(1000, Control::of(1472, true))
    }

    fn round(congestion: &mut Congestion, delay: Duration, waited: Waited) {
        congestion.sample(delay, waited);
        congestion.end_round(true, 0);
    }

    #[test]
    fn a_queue_shrinks_the_window_and_its_end_widens_it() {
        let mut congestion = congestion();
        let first = congestion.packets();
        round(&mut congestion, US * 2000, AT_ONCE);
        assert!(congestion.packets() < first);
        for _ in 0..100 {
            round(&mut congestion, US * 2000, AT_ONCE);
        }
        assert_eq!(congestion.packets(), 1);
        assert_eq!(congestion.pace(US), None, "delay alone does not pace");
        for _ in 0..10 {
            round(&mut congestion, US * 20, AT_ONCE);
        }
        assert!(congestion.packets() > 40);
    }

    /// Else a window of 9000-byte packets swings between 5 and 23 at 1 Gbit/s, and a port that data and
    /// acknowledgements share is empty every other millisecond.
    #[test]
    fn a_step_is_as_many_bytes_whatever_the_packets() {
        for (frame_len_max, packets) in [(1472, 40), (8972, 8), (65_507, 6)] {
            let control = Control::of(frame_len_max, true);
            let mut congestion = Congestion::new(1000, control);
            for _ in 0..100 {
                round(&mut congestion, US * 2000, AT_ONCE);
            }
            for _ in 0..10 {
                round(&mut congestion, US * 20, AT_ONCE);
            }
            let grown = congestion.packets() - 1;
            assert!(grown.abs_diff(packets) <= packets / 4, "{frame_len_max}: {grown}");
        }
    }

    #[test]
    fn time_in_the_endpoints_is_no_congestion() {
        let mut congestion = congestion();
        let before = congestion.packets();
        for _ in 0..100 {
            round(&mut congestion, US * 4020, Waited { back: US * 4000, ..AT_ONCE });
            round(&mut congestion, US * 4020, Waited { there: US * 4000, ..AT_ONCE });
        }
        assert!(congestion.packets() >= before);
    }

    #[test]
    fn a_queue_that_passed_for_the_way_is_found_out() {
        let mut congestion = congestion();
        congestion.end_round(true, 5_000_000);
        assert_eq!(congestion.packets(), 1, "looks");
        congestion.end_round(true, 500_000);
        assert_eq!(congestion.packets(), CWND_INITIAL / 10);
    }

    #[test]
    fn a_way_that_is_long_is_looked_at_now_and_then() {
        let mut congestion = congestion();
        let mut looks = Vec::new();
        for round in 0..500 {
            let before = congestion.packets();
            congestion.end_round(true, 5_000_000);
            if congestion.packets() == 1 {
                looks.push(round);
                congestion.end_round(true, 5_000_000);
                assert_eq!(congestion.packets(), before, "what it was");
            }
        }
        let between: Vec<u32> = looks.windows(2).map(|two| two[1] - two[0] - 1).collect();
        assert_eq!((looks[0], &between[..]), (0, &[8, 16, 32, 64, 128, 128][..]));
        let mut narrow = self::congestion();
        narrow.window = 3 * PARTS_PER_PACKET;
        narrow.end_round(false, 5_000_000);
        assert_eq!(narrow.packets(), 3);
    }

    #[test]
    fn a_loss_ends_a_look() {
        let mut congestion = congestion();
        congestion.end_round(true, 5_000_000);
        congestion.lost();
        assert!(congestion.packets() > CWND_INITIAL / 2);
    }

    #[test]
    fn what_no_clock_tells_judges_nothing() {
        let mut congestion = congestion();
        for _ in 0..100 {
            round(&mut congestion, US * 9000, Waited { is_clocked: false, ..AT_ONCE });
        }
        assert_eq!(congestion.packets(), CWND_INITIAL);
    }

    /// Else the queue of a whole window that goes at once would stand in the last packet's sample only.
    #[test]
    fn a_round_is_judged_by_the_mean() {
        for (last, shrinks) in [(300, false), (900, true)] {
            let mut congestion = congestion();
            congestion.sample(US * 20, AT_ONCE);
            round(&mut congestion, US * last, AT_ONCE);
            assert_eq!(congestion.packets() < CWND_INITIAL, shrinks, "{last} us");
        }
    }

    /// What came while the receiver was away took less than it seems; not so much less that it took nothing.
    #[test]
    fn of_an_absent_receiver_only_a_queue_is_believed() {
        let mut congestion = congestion();
        let away = Waited { there: US * 900, ..AT_ONCE };
        for _ in 0..100 {
            round(&mut congestion, US * 900, away);
            congestion.acked(1, true);
        }
        assert_eq!(congestion.packets(), CWND_INITIAL, "not wider, for all that is known");
        for _ in 0..100 {
            round(&mut congestion, US * 9900, away);
        }
        assert_eq!(congestion.packets(), 1);
        for _ in 0..100 {
            round(&mut congestion, US * 900, away);
        }
        assert_eq!(congestion.packets(), CWND_INITIAL, "nor for ever narrow");
    }

    /// Whoever sleeps until something arrives is absent each time; no queue is longer than all of the
    /// time that a packet took.
    #[test]
    fn what_took_no_longer_than_a_short_queue_is_no_long_one_whoever_was_absent() {
        for (took, widens) in [(190, true), (400, false)] {
            let mut congestion = congestion();
            let away = Waited { there: US * took, back: US * 5000, ..AT_ONCE };
            for _ in 0..100 {
                congestion.sample(US * (took + 5000), away);
                congestion.acked(1, true);
                congestion.end_round(true, 0);
            }
            assert_eq!(congestion.packets() > CWND_INITIAL, widens, "{took} us");
        }
    }

    #[test]
    fn of_an_absent_receiver_that_knows_all_is_believed() {
        for (took, widens) in [(920, true), (9900, false)] {
            let mut congestion = congestion();
            let away = Waited { there: US * 900, is_exact: true, ..AT_ONCE };
            for _ in 0..100 {
                congestion.sample(US * took, away);
                congestion.acked(1, true);
                congestion.end_round(true, 0);
            }
            assert_eq!(congestion.packets() > CWND_INITIAL, widens, "{took} us");
        }
    }

    #[test]
    fn an_absent_receiver_is_left_a_queue_for_a_while() {
        let mut congestion = congestion();
        let usual = congestion.target_ns(0);
        round(&mut congestion, US * 1000, Waited { there: US * 990, ..AT_ONCE });
        assert!(congestion.target_ns(0) > usual + 500_000);
        for _ in 0..100 {
            round(&mut congestion, US * 20, AT_ONCE);
        }
        assert!(congestion.target_ns(0) < usual + 2000);
    }

    #[test]
    fn a_long_way_is_no_queue() {
        let mut congestion = congestion();
        let before = congestion.packets();
        for _ in 0..100 {
            congestion.sample(US * 20_000, AT_ONCE);
            congestion.end_round(true, 19_000_000);
        }
        assert!(congestion.packets() >= before);
    }

    #[test]
    fn losses_go_below_one_packet_and_pace_where_a_queue_stands() {
        let mut congestion = congestion();
        for _ in 0..1000 {
            congestion.lost();
        }
        assert_eq!(congestion.packets(), CWND_MIN_PARTS_UNDELAYED / PARTS_PER_PACKET);
        round(&mut congestion, US * 2000, AT_ONCE);
        for _ in 0..1000 {
            congestion.lost();
        }
        assert_eq!(congestion.packets(), 1);
        assert_eq!(congestion.pace(US), Some(US * PARTS_PER_PACKET / CWND_MIN_PARTS));
    }

    #[test]
    fn without_control_nothing_changes_it() {
        let mut congestion = Congestion::new(1000, Control::of(1472, false));
        congestion.lost();
        round(&mut congestion, US * 9000, AT_ONCE);
        assert_eq!(congestion.packets(), 1000);
    }
}
