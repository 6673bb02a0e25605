use super::*;

const US: Duration = Duration::from_micros(1);

fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1000)
}

/// A lane with `count` packets sent one microsecond apart.
fn lane_with(count: u64) -> SendLane<u64> {
    let mut lane = SendLane::new(256);
    for n in 0..count {
        assert_eq!(lane.push(at(n), n), n);
    }
    lane
}

fn ack(lane: &mut SendLane<u64>, now: u64, cumulative: u64, bitmap: &[u64]) -> (Acked, Vec<u64>) {
    let mut out = Vec::new();
    let acked =
        lane.on_ack(at(now), cumulative, bitmap.iter().copied(), Duration::ZERO, |n| out.push(n));
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
fn a_loss_halves_the_window_once_per_flight() {
    let mut lane = lane_with(20);
    let before = lane.cwnd;
    ack(&mut lane, 30, 0, &[0b1000]); // packet 4 arrived: 0 and 1 are lost
    ack(&mut lane, 31, 0, &[0b11_1000]); // 5 too: 2 is lost
    assert_eq!(lane.cwnd, before / 2);
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
fn samples_only_what_was_sent_once() {
    let mut lane = lane_with(1);
    lane.on_timeout(at(5000));
    assert!(lane.resend_lost(at(5000)).is_some());
    let before = lane.rtt();
    ack(&mut lane, 5001, 1, &[]);
    assert_eq!(lane.rtt(), before);
    lane.push(at(6000), 1);
    ack(&mut lane, 6030, 2, &[]);
    assert_eq!(lane.rtt(), US * 30);
}

#[test]
fn a_late_acknowledgement_of_a_lost_packet_leaves_nothing_to_resend() {
    let mut lane = lane_with(4);
    assert_eq!(ack(&mut lane, 10, 0, &[0b111]).0.lost, 1);
    assert!(lane.has_lost());
    ack(&mut lane, 11, 4, &[]);
    assert!(!lane.has_lost());
    assert_eq!(lane.room(), lane.cwnd);
}

#[test]
fn a_probe_goes_out_though_the_window_is_full() {
    let mut lane = lane_with(64);
    lane.cwnd = CWND_MIN;
    lane.on_timeout(at(9000));
    assert_eq!(lane.resend_lost(at(9000)), Some((0, &0)));
    assert!(!lane.has_lost(), "one probe only");
}
