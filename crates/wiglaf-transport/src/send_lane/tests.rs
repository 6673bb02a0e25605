use super::*;
use crate::limits::CWND_INITIAL;
use crate::rtt::Waited;

const US: Duration = Duration::from_micros(1);

fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1000)
}

/// A lane and what is known of its way.
struct Lane {
    lane: SendLane<u64>,
    rtt: Rtt,
}

impl Lane {
    fn push(&mut self, now: Instant, payload: u64) -> u64 {
        self.lane.push(now, &self.rtt, payload)
    }
    fn resend_lost(&mut self, now: Instant) -> Option<(u64, &u64)> {
        self.lane.resend_lost(now, &self.rtt, |_| true)
    }
    fn timeout(&self) -> Option<Instant> {
        self.lane.timeout(&self.rtt)
    }
    fn on_timeout(&mut self, now: Instant) -> bool {
        self.lane.on_timeout(now, &self.rtt)
    }
}

impl Deref for Lane {
    type Target = SendLane<u64>;
    fn deref(&self) -> &SendLane<u64> {
        &self.lane
    }
}

/// A lane with `count` packets sent one microsecond apart.
fn lane_with(count: u64) -> Lane {
    let mut lane = Lane {
        lane: SendLane::new(256, Control { packet_len_max: 1472, is_on: true }),
        rtt: Rtt::new(),
    };
    for n in 0..count {
        assert_eq!(lane.push(at(n), n), n);
    }
    lane
}

fn ack(lane: &mut Lane, now: u64, cumulative: u64, bitmap: &[u64]) -> (Acked, Vec<u64>) {
    let mut out = Vec::new();
    let (bitmap, rtt) = (bitmap.iter().copied(), &mut lane.rtt);
    let none = Duration::ZERO;
    let held =
        Held::For(Waited { there: none, is_exact: true, here: none, back: none, is_clocked: true });
    let acked = lane.lane.on_ack(at(now), cumulative, bitmap, held, rtt, |n| out.push(n));
    (acked, out)
}

#[test]
fn payloads_leave_in_order_even_when_acknowledged_out_of_order() {
    let mut lane = lane_with(4);
    let (acked, out) = ack(&mut lane, 10, 0, &[0b10]); // packet 2 only
    assert_eq!((acked.packets, out), (1, vec![]));
    let (_, out) = ack(&mut lane, 11, 2, &[]);
    assert_eq!(out, [0, 1, 2]);
    assert_eq!(lane.base(), 3);
}

#[test]
fn three_later_transmissions_prove_a_loss() {
    let mut lane = lane_with(4);
    assert_eq!(ack(&mut lane, 10, 0, &[0b11]).0.lost, 0); // 1 and 2 arrived: may be reordering
    assert_eq!(ack(&mut lane, 11, 0, &[0b111]).0.lost, 1);
    assert_eq!(lane.resend_lost(at(12)), Some((0, &0)));
    assert_eq!(lane.resend_lost(at(12)), None);
}

/// Else what counts as under way and is lost could fill a window that has shrunk, and what was found
/// lost waited in it for one probe timeout each.
#[test]
fn losses_behind_one_that_was_not_sent_again_yet_are_found() {
    let mut lane = lane_with(8);
    assert_eq!(ack(&mut lane, 10, 0, &[0b100]).0.lost, 1); // packet 3 only
    assert_eq!(ack(&mut lane, 11, 0, &[0b100_0100]).0.lost, 3); // and 7
    assert_eq!(lane.flying(), 2);
}

/// A sender whose only samples are of a full queue doubts the answers to what it sent again, which
/// come sooner: not for ever.
#[test]
fn a_window_that_was_lost_costs_no_probe_for_each_packet() {
    let mut lane = lane_with(1);
    ack(&mut lane, 5_000, 1, &[]); // the way seems to take 5 ms
    for n in 1..33 {
        lane.push(at(5_001), n);
    }
    let (mut now, mut probes) = (5_001, 0);
    for cumulative in 2..=33 {
        while lane.resend_lost(at(now)).is_none() {
            now = lane.timeout().unwrap().as_nanos() / 1000;
            probes += u32::from(lane.on_timeout(at(now)));
        }
        now += 300;
        ack(&mut lane, now, cumulative, &[]);
    }
    assert!(lane.is_idle());
    assert_eq!(probes, 2);
}

#[test]
fn a_retransmission_that_is_lost_again_is_found_by_later_ones() {
    let mut lane = lane_with(4);
    ack(&mut lane, 10, 0, &[0b111]);
    assert!(lane.resend_lost(at(11)).is_some());
    for n in 4..8 {
        lane.push(at(n + 10), n);
    }
    let (acked, _) = ack(&mut lane, 30, 0, &[0b111_1111]);
    assert_eq!(acked.lost, 1);
}

#[test]
fn a_loss_shrinks_the_window_once_per_flight() {
    let mut lane = lane_with(20);
    ack(&mut lane, 30, 0, &[0b1000]); // packet 4 arrived: 0 and 1 are lost
    let once = lane.congestion.packets();
    assert!(once < CWND_INITIAL);
    ack(&mut lane, 31, 0, &[0b11_1000]); // 5 too: 2 is lost
    assert_eq!(lane.congestion.packets(), once);
}

#[test]
fn an_overtaken_packet_is_lost_without_a_third_witness() {
    let mut lane = lane_with(2);
    assert_eq!(ack(&mut lane, 21, 0, &[0b1]).0.lost, 0); // 1 arrived, after 20 us
    let due = lane.timeout().unwrap();
    assert!(due < at(30));
    assert!(!lane.on_timeout(due), "that is no probe");
    assert_eq!(lane.resend_lost(due), Some((0, &0)));
}

#[test]
fn an_answer_to_the_first_of_two_transmissions_loses_nothing() {
    let mut lane = lane_with(1);
    ack(&mut lane, 100, 1, &[]);
    for n in 1..20 {
        lane.push(at(100 + n), n);
    }
    let due = lane.timeout().unwrap();
    assert!(lane.on_timeout(due), "a probe");
    assert!(lane.resend_lost(due).is_some());
    // The acknowledgement of the first transmission comes right behind the probe.
    let now = due.as_nanos() / 1000 + 1;
    assert_eq!(ack(&mut lane, now, 2, &[]).0.lost, 0);
}

#[test]
fn a_quiet_tail_is_probed_with_its_oldest_packet() {
    let mut lane = lane_with(2);
    let due = lane.timeout().unwrap();
    assert!(due > at(1));
    lane.on_timeout(due);
    assert_eq!(lane.resend_lost(due), Some((0, &0)));
    assert!(lane.timeout().unwrap().since(due) > due.since(at(1)), "backs off");
}

#[test]
fn nonsense_from_a_peer_changes_nothing() {
    let mut lane = lane_with(2);
    assert_eq!(ack(&mut lane, 10, 77, &[u64::MAX]).0, Acked::default());
    let (acked, _) = ack(&mut lane, 10, 1, &[u64::MAX, u64::MAX]); // says 2..129 arrived, 1 not
    assert_eq!(acked.packets, 1);
    assert_eq!(lane.next(), 2);
}

#[test]
fn samples_only_what_tells_its_time() {
    let mut lane = lane_with(1);
    lane.on_timeout(at(5000));
    assert!(lane.resend_lost(at(5000)).is_some());
    let before = lane.rtt.smoothed();
    ack(&mut lane, 7001, 1, &[]); // of either transmission
    assert_eq!(lane.rtt.smoothed(), before);
    lane.push(at(8000), 1);
    ack(&mut lane, 8030, 2, &[]);
    assert_eq!(lane.rtt.smoothed(), US * 30);
}

#[test]
fn the_timeout_stays_backed_off_until_a_packet_tells_its_time() {
    let mut lane = lane_with(1);
    let due = lane.timeout().unwrap();
    let first = due.since(at(0));
    lane.on_timeout(due);
    assert!(lane.resend_lost(due).is_some());
    ack(&mut lane, 9000, 1, &[]);
    lane.push(at(10_000), 1);
    assert!(lane.timeout().unwrap().since(at(10_000)) >= first * 2);
}

#[test]
fn a_late_acknowledgement_of_a_lost_packet_leaves_nothing_to_resend() {
    let mut lane = lane_with(4);
    assert_eq!(ack(&mut lane, 10, 0, &[0b111]).0.lost, 1);
    assert!(lane.has_lost());
    ack(&mut lane, 11, 4, &[]);
    assert!(!lane.has_lost());
    assert_eq!(lane.room(), lane.congestion.packets());
}

#[test]
fn a_probe_goes_out_though_the_window_is_full() {
    let mut lane = lane_with(64);
    assert_eq!(lane.room(), 0);
    lane.on_timeout(at(9000));
    assert_eq!(lane.resend_lost(at(9000)), Some((0, &0)));
    assert!(!lane.has_lost(), "one probe only");
}

/// A lane whose way has taken 60 us so far, nine more packets, and the probe of the first of them.
fn probed_lane() -> (Lane, u64) {
    let mut lane = lane_with(1);
    ack(&mut lane, 60, 1, &[]);
    for n in 1..200 {
        lane.push(at(1000 * n), n);
        ack(&mut lane, 1000 * n + 60, n + 1, &[]);
    }
    for n in 200..209 {
        lane.push(at(200_000), n);
    }
    let due = lane.timeout().unwrap();
    assert!(lane.on_timeout(due) && lane.resend_lost(due).is_some());
    (lane, due.as_nanos() / 1000)
}

#[test]
fn a_queue_that_takes_longer_than_the_probe_timeout_loses_nothing() {
    let (mut lane, probed_at) = probed_lane();
    let (window, timeout) = (lane.congestion.packets(), lane.rtt.probe_timeout(0));
    for third in 1..=3 {
        let now = 200_000 + 220 * third;
        assert!(now > probed_at);
        assert_eq!(ack(&mut lane, now, 200 + 3 * third, &[]).0.lost, 0);
        assert!(lane.timeout().is_none_or(|at| at.as_nanos() / 1000 > now + 220));
    }
    assert!(lane.packets.is_empty() && lane.rtt.probe_timeout(0) > timeout);
    assert_eq!(lane.congestion.packets(), window);
}

#[test]
fn probes_of_which_each_brings_back_one_packet_are_believed() {
    let (mut lane, probed_at) = probed_lane();
    assert_eq!(ack(&mut lane, probed_at + 60, 201, &[]).0.lost, 0, "may be of the first");
    let due = lane.timeout().unwrap();
    assert!(lane.on_timeout(due) && lane.resend_lost(due).is_some());
    let now = due.as_nanos() / 1000 + 60;
    assert_eq!(ack(&mut lane, now, 202, &[]).0.lost, 6, "all but the last, which is near");
}

#[test]
fn a_train_is_no_more_than_a_third_of_the_window() {
    let mut lane = lane_with(20);
    assert_eq!(lane.train_max() as u32, CWND_INITIAL / 3);
    for turn in 0..100 {
        ack(&mut lane, 30 + turn, 0, &[0b1111 << (turn % 16)]);
        lane.lane.congestion.on_loss();
    }
    assert!(lane.congestion.packets() < CWND_INITIAL / 4);
    assert_eq!(lane.train_max() as u32, lane.congestion.packets() / 3);
}

#[test]
fn an_abandoned_lane_keeps_no_pace() {
    let mut lane = lane_with(0);
    lane.lane.slow_down();
    lane.push(at(0), 0);
    assert!(lane.paced_until.is_some());
    lane.lane.abandon(|_| {});
    assert_eq!(lane.timeout(), None);
}

/// Else the lane would say that it has something to send again, and then send nothing, not even new packets.
#[test]
fn what_is_acknowledged_after_all_is_not_left_to_resend_behind_others() {
    let mut lane = lane_with(8);
    assert_eq!(ack(&mut lane, 10, 0, &[0b111_0000]).0.lost, 5); // 5, 6 and 7 only
    assert_eq!(ack(&mut lane, 11, 0, &[0b111_1000]).0.lost, 0); // 4 after all
    for n in 0..4 {
        assert_eq!(lane.resend_lost(at(12)), Some((n, &n)));
    }
    assert!(!lane.has_lost());
}
