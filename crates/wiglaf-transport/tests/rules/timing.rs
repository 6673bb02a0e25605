//! Round trips, delays of acknowledgements, and when something is taken for lost.

use std::time::Duration;

use wiglaf_transport::limits::{ACK_DELAY_MAX, PTO_MIN};
use wiglaf_wire::{DELAY_LONG, DELAY_TWICE, DELAY_UNKNOWN, Kind, Record};

use crate::net::{Net, header_of, records_of};

#[test]
fn the_last_packet_of_a_message_is_probed_for() {
    let mut net = Net::new();
    for tag in 0..4 {
        net.send(0, tag, 8).unwrap(); // teaches both the round-trip time
        net.settle();
        net.advance(Duration::from_micros(50));
        net.settle();
    }
    net.send(0, 9, 8).unwrap();
    assert_eq!(net.outgoing(0).len(), 1); // lost
    net.advance(PTO_MIN);
    let again = net.outgoing(0);
    assert_eq!(again.len(), 1, "within the shortest probe timeout");
    net.deliver(1, &again);
    assert_eq!(net.sides[1].app.tags.last(), Some(&9));
}

/// The time by the clock that a datagram tells.
fn clock_of(datagram: &[u8]) -> Option<u32> {
    records_of(datagram).iter().find_map(|record| match record {
        Record::Ack(ack) => Some(ack.sent_at_us),
        _ => None,
    })
}

#[test]
fn the_first_datagrams_and_each_acknowledgement_by_itself_tell_the_clock() {
    let mut net = Net::new();
    let told = |net: &Net| Some((net.now.as_nanos() / 1000) as u32);
    for tag in 0..20 {
        net.now = net.now + Duration::from_micros(300);
        net.send(0, tag, 8).unwrap();
        let out = net.outgoing(0);
        let expected = if tag < 8 { told(&net) } else { None };
        assert_eq!(clock_of(&out[0]), expected, "message {tag}");
        net.deliver(1, &out);
    }
    net.advance(Duration::from_micros(60));
    let answer = net.outgoing(1);
    assert_eq!(header_of(&answer[0]).kind, Kind::Control);
    assert_eq!(clock_of(&answer[0]), told(&net));
}

/// A process that the scheduler has stopped, and a link that does not know when anything came, are no queue.
#[test]
fn what_waits_in_an_endpoint_narrows_no_window() {
    let us = Duration::from_micros;
    for (waited, narrows) in [(Some(us(3000)), false), (None, false), (Some(us(0)), true)] {
        let mut net = Net::new();
        net.exchange(0, us(10)); // promptly, by which others are judged
        let mut longest = 0;
        for tag in 1..40 {
            for _ in 0..20 {
                net.send(0, tag, 1400).unwrap();
            }
            let out = net.outgoing(0);
            longest = out.len();
            net.now = net.now + us(3000);
            net.deliver_after(1, &out, waited);
            net.now = net.now + ACK_DELAY_MAX;
            let b = &mut net.sides[1];
            b.transport.handle_timeout(net.now, &mut b.app);
            let answers = net.outgoing(1);
            net.deliver(0, &answers);
        }
        assert_eq!(longest < 8, narrows, "{longest} packets at once after {waited:?}");
    }
}

/// The queue that acknowledgements meet on their way back is that of the other direction.
#[test]
fn acknowledgements_that_are_long_under_way_narrow_no_window() {
    let us = Duration::from_micros;
    for (there, back, narrows) in [(us(10), us(3000), false), (us(3000), us(10), true)] {
        let mut net = Net::new();
        let mut longest = 0;
        for tag in 0..40 {
            for _ in 0..100 {
                net.send(0, tag, 1400).unwrap();
            }
            // Promptly at first, by which later ones are judged.
            let (there, back) = if tag == 0 { (us(10), us(10)) } else { (there, back) };
            let out = net.outgoing(0);
            longest = out.len();
            for (to, way, out) in [(1, there, Some(out)), (0, back, None)] {
                let out = out.unwrap_or_else(|| net.outgoing(1));
                net.now = net.now + way;
                net.deliver(to, &out);
            }
            let granted = net.outgoing(1);
            net.deliver(0, &granted);
        }
        assert_eq!(longest < 8, narrows, "{longest} packets at once");
    }
}

/// The figure to keep: within 200 us, or three round trips.
#[test]
fn a_lost_last_packet_is_there_within_three_round_trips_or_200_us() {
    for way_us in [2, 10, 40, 100, 300, 1000] {
        let way = Duration::from_micros(way_us);
        let mut net = Net::new();
        for tag in 0..200 {
            net.exchange(tag, way);
        }
        let rtt = net.sides[0].transport.peer(net.sides[0].peer).unwrap().rtt;
        net.send(0, 1000, 8).unwrap();
        let sent_at = net.now;
        assert_eq!(net.outgoing(0).len(), 1, "and lost");
        let again = loop {
            let due = net.sides[0].transport.poll_timeout().unwrap();
            net.now = net.now.max(due);
            let side = &mut net.sides[0];
            side.transport.handle_timeout(net.now, &mut side.app);
            let out = net.outgoing(0);
            if !out.is_empty() {
                break out;
            }
        };
        net.now = net.now + way;
        net.deliver(1, &again);
        assert_eq!(net.sides[1].app.tags.last(), Some(&1000));
        let took = net.now.since(sent_at);
        assert!(took <= (rtt * 3).max(Duration::from_micros(200)), "{took:?} at {rtt:?}");
    }
}

/// A message and its answer, each `way` under way, of which those that `is_lost` picks by their
/// turn are lost the first time; how long each way took.
fn exchange_with_losses(
    net: &mut Net,
    way: Duration,
    turns: u64,
    is_lost: impl Fn(u64) -> bool,
) -> Vec<Duration> {
    let mut took = Vec::new();
    for turn in 0..turns {
        let (from, to) = (turn as usize % 2, 1 - turn as usize % 2);
        net.send(from, turn, 8).unwrap();
        let mut out = net.outgoing(from);
        if is_lost(turn) {
            out.clear();
        }
        let sent_at = net.now;
        loop {
            net.now = net.now + way;
            net.deliver(to, &out);
            if net.sides[to].app.tags.last() == Some(&turn) {
                break;
            }
            let back = net.outgoing(to);
            net.deliver(from, &back);
            for side in &mut net.sides {
                side.transport.handle_timeout(net.now, &mut side.app);
            }
            out = net.outgoing(from);
        }
        took.push(net.now.since(sent_at));
    }
    took
}

/// Each message is acknowledged by the next one alone. When one is lost, what it acknowledged is
/// acknowledged a probe timeout later: that is no round trip.
#[test]
fn losses_do_not_lengthen_the_wait_for_the_next_one() {
    let mut net = Net::new();
    let way = Duration::from_micros(3);
    let took = exchange_with_losses(&mut net, way, 4000, |turn| turn % 25 == 24);
    let longest = took.iter().max().unwrap();
    assert!(*longest <= Duration::from_micros(200), "{longest:?}");
    let probes: u64 = net.sides.iter().map(|side| side.transport.stats().probes).sum();
    assert!(probes >= 4000 / 25, "they were lost: {probes}");
}

#[test]
fn an_acknowledgement_that_is_told_again_says_that_its_delay_is_unknown() {
    let mut net = Net::new();
    net.send(0, 1, 8).unwrap();
    let out = net.outgoing(0);
    net.deliver(1, &out);
    net.send(1, 2, 8).unwrap();
    let first = net.outgoing(1);
    assert_ne!(header_of(&first[0]).ack_delay_us, DELAY_UNKNOWN);
    net.advance(Duration::from_millis(5));
    let again = net.outgoing(1);
    assert_eq!(header_of(&again[0]).ack_delay_us, DELAY_UNKNOWN);
    net.deliver(0, &again);
    let rtt = net.sides[0].transport.peer(net.sides[0].peer).unwrap().rtt;
    assert!(rtt < Duration::from_millis(5), "{rtt:?}");
}

/// A message and its answer by a peer that does not look for so long, and finds all at once then.
fn exchange_with_late(net: &mut Net, tag: u64, late: Duration) {
    net.send(0, tag, 8).unwrap();
    let mut out = net.outgoing(0);
    let until = net.now + late;
    while net.now < until {
        net.now = net.now + Duration::from_micros(5);
        let side = &mut net.sides[0];
        side.transport.handle_timeout(net.now, &mut side.app);
        out.append(&mut net.outgoing(0));
    }
    net.deliver(1, &out);
    net.send(1, tag, 8).unwrap();
    let answer = net.outgoing(1);
    net.now = net.now + Duration::from_micros(3);
    net.deliver(0, &answer);
}

/// A peer that was late now and then is waited for, but not any more once it turns out that what
/// is late is lost.
#[test]
fn who_loses_is_not_waited_for_like_who_is_late() {
    let mut net = Net::new();
    let probes = |net: &Net| net.sides[0].transport.stats().probes;
    let mut probes_at_half = 0;
    for turn in 0..2000 {
        exchange_with_late(
            &mut net,
            turn,
            Duration::from_micros(if turn % 50 == 49 { 4000 } else { 5 }),
        );
        if turn == 1000 {
            probes_at_half = probes(&net);
        }
    }
    let needless = (probes_at_half, probes(&net) - probes_at_half);
    assert!(needless.0 < 20 && needless.1 == 0, "{needless:?}");
    let way = Duration::from_micros(3);
    let took = exchange_with_losses(&mut net, way, 1000, |turn| turn % 50 == 48);
    assert!(took[48] > Duration::from_millis(4), "it was late before: {:?}", took[48]);
    let longest = took[500..].iter().max().unwrap();
    assert!(*longest <= Duration::from_micros(200), "{longest:?}");
}

#[test]
fn an_ack_delay_begins_when_the_kernel_had_the_packet() {
    let us = Duration::from_micros;
    for (waited, exact, delay_us) in [(None, false, 60), (Some(us(200)), true, 200 + 60)] {
        let mut net = Net::new();
        net.exchange(0, us(10));
        for tag in 1..200 {
            net.send(0, tag, 1000).unwrap();
        }
        let out = net.outgoing(0);
        net.now = net.now + us(500);
        net.deliver_after(1, &out, waited);
        net.now = net.now + us(60);
        let answer = net.outgoing(1);
        let Record::Ack(ack) = records_of(&answer[0])[0] else { panic!("no record") };
        assert_eq!((ack.is_exact, ack.delay_us), (exact, delay_us));
    }
}

/// Who was stopped for a while answers all that waited meanwhile: the window stays as wide as it was.
#[test]
fn who_was_away_for_longer_than_can_be_said_is_no_queue() {
    let mut net = Net::new();
    net.exchange(0, Duration::from_micros(10));
    let away = Duration::from_millis(100);
    for round in 1..10 {
        for n in 0..60 {
            net.send(0, 100 * round + n, 1000).unwrap();
        }
        let out = net.outgoing(0);
        assert_eq!(out.len(), 60, "round {round}");
        net.now = net.now + away;
        net.deliver_after(1, &out, Some(away));
        net.now = net.now + ACK_DELAY_MAX;
        let side = &mut net.sides[1];
        side.transport.handle_timeout(net.now, &mut side.app);
        let answer = net.outgoing(1);
        for record in answer.iter().flat_map(|datagram| records_of(datagram)) {
            let Record::Ack(ack) = record else { continue };
            assert_eq!((ack.is_exact, ack.delay_us), (false, DELAY_LONG), "round {round}");
        }
        net.now = net.now + Duration::from_micros(10);
        net.deliver(0, &answer);
    }
}

/// An acknowledgement of what lies behind a gap says so twice, in the header and in a record.
#[test]
fn an_acknowledgement_with_a_gap_tells_its_delay() {
    let mut net = Net::new();
    let mut sent = Vec::new();
    for tag in 0..3 {
        net.send(0, tag, 8).unwrap();
        sent.append(&mut net.outgoing(0));
    }
    net.deliver(1, &[sent[0].clone(), sent[2].clone()]);
    let answer = net.outgoing(1);
    assert!(matches!(records_of(&answer[0])[0], Record::Ack(_)));
    assert_ne!(header_of(&answer[0]).ack_delay_us, DELAY_UNKNOWN);
}

/// Both the packet and its probe were there when the peer came to look: it was late only.
#[test]
fn what_came_twice_is_told_to_have_come_twice() {
    let mut net = Net::new();
    net.send(0, 1, 8).unwrap();
    let mut out = net.outgoing(0);
    net.advance(Duration::from_millis(10));
    out.append(&mut net.outgoing(0));
    assert_eq!(out.len(), 2, "it and its probe");
    net.deliver(1, &out);
    let answer = net.outgoing(1);
    assert_eq!(header_of(&answer[0]).ack_delay_us, DELAY_TWICE);
}
