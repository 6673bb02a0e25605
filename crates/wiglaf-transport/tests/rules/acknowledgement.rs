//! What is acknowledged, when, and what that tells the sender.

use std::time::Duration;

use wiglaf_transport::limits::ACK_DELAY_MAX;
use wiglaf_transport::{Gone, Instant};
use wiglaf_wire::{HEADER_LEN, Kind, Record};

use crate::net::{Net, address, each_answered, header_of, of_a_third, records_of};

#[test]
fn a_duplicate_and_a_gap_are_acknowledged_at_once() {
    let mut net = Net::new();
    let mut packets = Vec::new();
    for tag in 0..2 {
        net.send(0, tag, 8).unwrap();
        packets.extend(net.outgoing(0));
    }
    net.deliver(1, &packets[1..]); // the first is late: a gap
    let answer = net.outgoing(1);
    assert_eq!(header_of(&answer[0]).ack, 0);
    assert!(matches!(records_of(&answer[0])[..], [Record::Ack(ack)] if ack.words().eq([1])));
    net.deliver(1, &packets[..1]);
    net.advance(Duration::from_millis(1));
    net.outgoing(1);
    net.deliver(1, &packets[..1]); // again: a duplicate
    let answer = net.outgoing(1);
    assert_eq!((answer.len(), header_of(&answer[0]).ack), (1, 2));
    // Who sends it again and again is answered in time, not each time.
    for _ in 0..20 {
        net.deliver(1, &packets);
        assert!(net.outgoing(1).is_empty());
    }
    net.advance(Duration::from_micros(50));
    assert_eq!(net.outgoing(1).len(), 1);
    assert_eq!(net.sides[1].app.tags, [0, 1]);
}

#[test]
fn delivery_is_told_when_all_of_a_message_is_there() {
    let mut net = Net::new();
    net.send(0, 1, 5_000).unwrap();
    let packets = net.outgoing(0);
    assert_eq!(packets.len(), 4);
    net.deliver(1, &packets[..3]);
    net.advance(ACK_DELAY_MAX);
    let answer = net.outgoing(1);
    assert_eq!(header_of(&answer[0]).ack, 3);
    net.deliver(0, &answer);
    assert!(net.sides[0].app.sent.is_empty());
    net.deliver(1, &packets[3..]);
    net.advance(ACK_DELAY_MAX);
    net.settle();
    assert_eq!(net.sides[0].app.sent, [(1, true)]);
}

/// A stranger's recording would otherwise have the receiver work for nobody.
#[test]
fn a_duplicate_that_lies_a_window_behind_is_not_acknowledged() {
    const WINDOW: u64 = 256;
    let mut net = Net::new();
    let packets = each_answered(&mut net, WINDOW);
    for (behind, answers) in [(WINDOW + 1, 0), (WINDOW, 1)] {
        let again = packets.len() - behind as usize;
        net.deliver(1, &packets[again..=again]);
        net.advance(Duration::from_millis(1));
        assert_eq!(net.outgoing(1).len(), answers, "{behind} behind");
    }
    assert_eq!(net.sides[1].transport.stats().duplicates, 2);
}

#[test]
fn an_acknowledgement_waits_a_little_for_company() {
    let mut net = Net::new();
    net.send(0, 1, 8).unwrap();
    let first = net.outgoing(0);
    net.deliver(1, &first);
    assert!(net.outgoing(1).is_empty(), "not at once");
    net.advance(Duration::from_micros(50));
    let answer = net.outgoing(1);
    assert_eq!((answer.len(), header_of(&answer[0]).kind), (1, Kind::Control));
    net.deliver(0, &answer);
    assert_eq!(net.sides[0].app.sent, [(1, true)]);
    assert!(net.sides[0].transport.is_drained());
}

/// A net past its first datagrams, which have records of acknowledgement.
fn seasoned(way: Duration) -> Net {
    let mut net = Net::new();
    for tag in 0..20 {
        net.exchange(tag, way);
    }
    net
}

/// Such a net, and `a` with an answer whose header acknowledges what nobody awaits; its way took
/// `way`.
fn answered(way: Duration) -> Net {
    let mut net = seasoned(way);
    net.send_unreported(100, 8);
    let out = net.outgoing(0);
    net.deliver(1, &out);
    net.send(1, 101, 8).unwrap();
    let answer = net.outgoing(1);
    assert!(records_of(&answer[0]).iter().all(Record::is_ordered));
    net.now = net.now + way;
    net.sides[0].transport.looked(Instant::from_nanos(net.now.as_nanos() - 1));
    net.deliver(0, &answer);
    assert_eq!(net.sides[0].app.tags.last(), Some(&101));
    net
}

fn in_flight(net: &Net) -> u32 {
    let a = &net.sides[0];
    a.transport.peer(a.peer).unwrap().in_flight
}

#[test]
fn a_message_is_handed_over_before_its_acknowledgement_is_taken() {
    let way = Duration::from_micros(40);
    let mut net = answered(way);
    let rtt = |net: &Net| net.sides[0].transport.peer(net.sides[0].peer).unwrap().rtt;
    let before = rtt(&net);
    assert_eq!(in_flight(&net), 1);
    // Much later: what counts is when it came.
    net.now = net.now + Duration::from_millis(20);
    let a = &mut net.sides[0];
    a.transport.settle(&mut a.app);
    assert_eq!(in_flight(&net), 0);
    assert!(rtt(&net).abs_diff(before) < way, "{before:?}, then {:?}", rtt(&net));
    net.advance(Duration::from_secs(1));
    assert!(net.outgoing(0).iter().all(|datagram| header_of(datagram).kind == Kind::Control));
}

#[test]
fn what_was_put_off_is_taken_before_anything_else_happens() {
    let way = Duration::from_micros(40);
    // A timeout: nothing is probed for.
    let mut net = answered(way);
    net.advance(Duration::from_secs(1));
    assert_eq!((in_flight(&net), net.sides[0].transport.stats().probes), (0, 0));
    // Another peer's datagram.
    let mut net = answered(way);
    let datagram = of_a_third(&net, 0, Kind::Ordered, 0, &[]);
    let a = &mut net.sides[0];
    a.transport.handle_datagram(net.now, address(2), 0, &datagram, &mut a.app);
    assert_eq!(in_flight(&net), 0);
    // A report that nobody listens there: it quotes what has been answered.
    let mut net = answered(way);
    let a = &mut net.sides[0];
    let quoted = [0; HEADER_LEN];
    a.transport.handle_unreachable(net.now, address(1), Some(&quoted), &mut a.app);
    assert_eq!((in_flight(&net), a_is_open(&net)), (0, true));
    // An end of the session.
    let mut net = answered(way);
    let a = &mut net.sides[0];
    a.transport.give_up(a.peer, Gone::Unreachable, &mut a.app);
    a.transport.settle(&mut a.app);
    assert_eq!((in_flight(&net), a_is_open(&net)), (0, false));
}

fn a_is_open(net: &Net) -> bool {
    !net.sides[0].transport.is_gone(net.sides[0].peer)
}

#[test]
fn who_awaits_an_acknowledgement_has_it_with_the_message() {
    let mut net = seasoned(Duration::from_micros(40));
    net.sides[0].app.sent.clear();
    net.send(0, 100, 8).unwrap();
    let out = net.outgoing(0);
    net.deliver(1, &out);
    answer(&mut net);
    assert_eq!(net.sides[0].app.sent, [(100, true)]);
    assert_eq!(in_flight(&net), 0);
}

#[test]
fn what_waits_for_room_has_it_with_the_message() {
    let mut net = answered(Duration::from_micros(40));
    let a = &mut net.sides[0];
    a.transport.settle(&mut a.app);
    net.send_unreported(102, 8);
    let first = net.outgoing(0);
    // One by one: together they would be a train.
    while !net.outgoing(0).is_empty() || in_flight(&net) == 1 {
        net.send_unreported(103, 8);
    }
    net.deliver(1, &first);
    answer(&mut net);
    assert_eq!(net.outgoing(0).len(), 1);
}

#[test]
fn what_is_acknowledged_does_not_go_again_meanwhile() {
    let mut net = answered(Duration::from_micros(40));
    net.advance(Duration::from_secs(1));
    net.outgoing(0);
    net.send_unreported(102, 8);
    let out = net.outgoing(0);
    net.deliver(1, &out);
    net.advance(Duration::from_secs(1)); // it is to be sent again
    answer(&mut net);
    assert!(net.outgoing(0).is_empty());
}

/// A message of `b` that acknowledges what it has.
fn answer(net: &mut Net) {
    net.send(1, 200, 8).unwrap();
    let answer = net.outgoing(1);
    assert_eq!(header_of(&answer[0]).kind, Kind::Ordered);
    net.deliver(0, &answer);
}
