//! How much of a sender's messages may lie at the receiver unasked.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use wiglaf_transport::limits::{
    ACK_DELAY_MAX, CREDIT_GROWTH_LEN_MAX, CREDIT_GROWTH_MAX, CREDIT_GROWTH_TOTAL_MAX,
    CREDIT_INITIAL, CREDIT_PER_MESSAGE, EAGER_LEN_MAX, UNCREDITED_LEN_MAX,
};
use wiglaf_transport::{Gone, Instant, PeerId, Posted, Transport};
use wiglaf_wire::{Class, Envelope, Epoch, HEADER_LEN, Header, Kind, Record, seal};

use crate::net::{App, FIRST, KEY, Net, header_of, transport};

#[test]
fn without_credit_a_message_is_announced() {
    let mut net = Net::new();
    net.sides[1].app.hoard = true;
    net.sides[1].app.pull = false;
    let charge = EAGER_LEN_MAX as u64 + CREDIT_PER_MESSAGE;
    for tag in 0..CREDIT_INITIAL / charge {
        assert_eq!(net.send(0, tag, EAGER_LEN_MAX), Ok(Posted::Buffered), "message {tag}");
        net.settle();
    }
    assert_eq!(net.send(0, 999, EAGER_LEN_MAX), Ok(Posted::Pending));
    net.settle();
    assert_eq!(net.sides[1].app.requests.len(), 1);
    assert_eq!(net.sides[1].app.tags.last(), Some(&999), "in order all the same");
}

/// An announcement would take as much memory there, and a round trip.
#[test]
fn without_credit_a_message_of_64_bytes_goes_all_the_same() {
    let mut net = Net::new();
    net.sides[1].app.hoard = true;
    net.sides[1].app.pull = false;
    let send = |net: &mut Net, class: Class, tag: u64, len: usize| {
        let a = &mut net.sides[0];
        let posted =
            a.transport.send(a.peer, Envelope::new(class, tag, None), len, tag, true, &a.app);
        net.settle();
        posted
    };
    let mut tag = 0;
    while send(&mut net, Class::Tagged, tag, UNCREDITED_LEN_MAX + 1) == Ok(Posted::Buffered) {
        tag += 1;
    }
    assert!(tag > 1000, "{tag}");
    for class in [Class::Tagged, Class::Untagged] {
        assert_eq!(send(&mut net, class, 1, UNCREDITED_LEN_MAX), Ok(Posted::Buffered));
    }
    // What others make a receiver keep is not bounded by its own length.
    assert_eq!(send(&mut net, Class::Active, 1, 0), Ok(Posted::Pending));
    assert_eq!(net.sides[1].app.requests.len(), 2);
}

#[test]
fn a_message_longer_than_any_credit_is_refused() {
    for (total, refused) in [(CREDIT_INITIAL, 0), (CREDIT_INITIAL + 1, 2), (u64::MAX, 2)] {
        let mut net = Net::new();
        let envelope = Envelope::new(Class::Tagged, 7, None);
        let first = Record::First { envelope, total, payload: b"" };
        for (number, record) in (0..).zip([first, Record::Next(b"")]) {
            let forged = net.ordered(1, number, &record);
            net.deliver(1, &[forged]);
        }
        assert_eq!(net.sides[1].transport.stats().drop_protocol, refused, "{total}");
        assert_eq!(net.sides[1].app.tags.len(), usize::from(refused == 0), "{total}");
    }
}

#[test]
fn a_raised_limit_is_told() {
    let mut net = Net::new();
    net.sides[1].app.hoard = true;
    for tag in 0..40 {
        net.send(0, tag, 4096).unwrap();
        net.settle();
    }
    net.advance(Duration::from_millis(1));
    net.settle();
    let peer = net.sides[1].peer;
    for _ in 0..40 {
        net.sides[1].transport.consume(peer, 4096);
    }
    let told = net.outgoing(1);
    assert!(!told.is_empty(), "of its own accord");
    assert!(u64::from(header_of(&told[0]).credit) >= CREDIT_INITIAL * 5 / 4);
}

/// How many of so many messages are announced.
fn announced_of(net: &mut Net, count: u64, len: usize) -> usize {
    let before = net.sides[1].app.requests.len();
    for tag in 0..count {
        net.send(0, tag, len).unwrap();
    }
    net.settle();
    net.advance(ACK_DELAY_MAX);
    net.settle();
    net.sides[1].app.requests.len() - before
}

#[test]
fn credit_grows_by_what_was_awaited_when_it_was_announced() {
    let (count, len) = (50, 16_000);
    let mut net = Net::new();
    let announced = announced_of(&mut net, count, len);
    assert!(announced > 10, "{announced}");
    assert_eq!(announced_of(&mut net, count, len), 0);
    let charges = announced as u64 * (len as u64 + CREDIT_PER_MESSAGE);
    assert_eq!(net.granted(), CREDIT_INITIAL + charges);
    // It has an end, and longer messages do not count.
    for _ in 0..10 {
        announced_of(&mut net, 150, 24_000);
    }
    assert_eq!(net.granted(), CREDIT_INITIAL + CREDIT_GROWTH_MAX);
    let mut net = Net::new();
    assert!(announced_of(&mut net, 20, EAGER_LEN_MAX) > 10);
    assert_eq!(net.granted(), CREDIT_INITIAL);
}

#[test]
fn credit_does_not_grow_for_what_nobody_receives() {
    let (count, len) = (50, 16_000);
    let mut net = Net::new();
    net.sides[1].app.hoard = true;
    net.sides[1].app.pull = false;
    let announced = announced_of(&mut net, count, len);
    assert!(announced > 10, "{announced}");
    assert_eq!(net.granted(), CREDIT_INITIAL);
    // Nor for long messages, which are announced anyway.
    let (peer, len) = (net.sides[1].peer, CREDIT_GROWTH_LEN_MAX);
    net.sides[1].transport.widen_credit(peer, len + 1);
    assert_eq!(net.granted(), CREDIT_INITIAL);
    net.sides[1].transport.widen_credit(peer, len);
    assert_eq!(net.granted(), CREDIT_INITIAL + len + CREDIT_PER_MESSAGE);
}

/// Their handlers run later, though they are fetched at once.
#[test]
fn credit_does_not_grow_for_active_messages() {
    let mut net = Net::new();
    for tag in 0..50 {
        let a = &mut net.sides[0];
        let envelope = Envelope::new(Class::Active, tag, None);
        a.transport.send(a.peer, envelope, 16_000, tag, true, &a.app).unwrap();
    }
    net.settle();
    assert!(net.sides[1].app.requests.len() > 10);
    assert_eq!(net.granted(), CREDIT_INITIAL);
}

#[test]
fn all_peers_together_have_a_limit_and_who_has_gone_leaves_his_part_to_others() {
    let silence_limit = Duration::from_secs(60);
    let (mut b, mut app) =
        (transport(2, silence_limit, false), App { pull: true, ..App::default() });
    let peers = CREDIT_GROWTH_TOTAL_MAX / CREDIT_GROWTH_MAX + 2;
    let now = Instant::from_nanos(1);
    let asked_for = |b: &mut Transport, app: &mut App, who: u64| {
        for sequence in 0..CREDIT_GROWTH_MAX / CREDIT_GROWTH_LEN_MAX {
            let envelope = Envelope::new(Class::Tagged, sequence, None);
            let total = CREDIT_GROWTH_LEN_MAX;
            let record =
                Record::Request { envelope, total, send_id: sequence as u32, unasked_len: 0 };
            let mut datagram = vec![0; HEADER_LEN + record.len()];
            record.emit(&mut datagram[HEADER_LEN..]);
            let source = Epoch(1000 + who);
            let header = Header { source, destination: Epoch(2), sequence, ..FIRST };
            seal(&header, &KEY, &mut datagram);
            let at = SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, who as u8), 7000);
            b.handle_datagram(now, at, 0, &datagram, app);
        }
    };
    let growth = |b: &Transport, who: u64| {
        b.peer(PeerId(who as u32)).unwrap().credit_granted - CREDIT_INITIAL
    };
    (0..peers).for_each(|who| asked_for(&mut b, &mut app, who));
    let grown: u64 = (0..peers).map(|who| growth(&b, who)).sum();
    assert_eq!(grown, CREDIT_GROWTH_TOTAL_MAX);
    assert_eq!(growth(&b, peers - 1), 0);
    b.give_up(PeerId(0), Gone::Silent, &mut app);
    asked_for(&mut b, &mut app, peers);
    assert_eq!(growth(&b, peers), CREDIT_GROWTH_MAX);
}

#[test]
fn a_lower_limit_is_ignored() {
    let mut net = Net::new();
    net.send(1, 1, 8).unwrap();
    let good = net.outgoing(1);
    net.deliver(0, &good);
    let mut low = header_of(&good[0]);
    low.credit = 0;
    low.kind = Kind::Control;
    let low = net.forge(0, low, &[]);
    net.deliver(0, &[low]);
    assert_eq!(net.send(0, 1, EAGER_LEN_MAX), Ok(Posted::Buffered));
}
