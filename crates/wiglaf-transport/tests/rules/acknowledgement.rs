//! What is acknowledged, when, and what that tells the sender.

use std::time::Duration;

use wiglaf_transport::limits::ACK_DELAY_MAX;
use wiglaf_wire::{Kind, Record};

use crate::net::{Net, each_answered, header_of, records_of};

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
    net.deliver(0, &answer);
    assert_eq!(net.sides[0].app.tags.last(), Some(&101));
    net
}

fn in_flight(net: &Net) -> u32 {
    let a = &net.sides[0];
    a.transport.peer(a.peer).unwrap().in_flight
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
