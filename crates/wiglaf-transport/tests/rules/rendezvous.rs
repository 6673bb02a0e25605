//! Long messages: announced, pulled, and sent on the bulk lane.

use std::time::Duration;

use wiglaf_transport::{Gone, Mark, PeerId, Posted};
use wiglaf_wire::{
    Class, Envelope, Header, Kind, Pull, Record, SEGMENT_PREFIX_LEN, Segment, Transfer,
};

use crate::net::{
    LONG, Net, Side, acquainted, address, announced, got, header_of, of_a_third, pull_announced,
    pull_in,
};

#[test]
fn a_long_message_is_pulled_and_completes_both_sides() {
    let mut net = Net::new();
    assert_eq!(net.send(0, 1, 300_000), Ok(Posted::Pending));
    net.settle();
    let b = &net.sides[1].app;
    assert_eq!(b.pulled, [true]);
    assert_eq!(b.segments.iter().map(|(_, len)| len).sum::<usize>(), 300_000);
    assert_eq!(net.sides[0].app.sent, [(1, true)]);
}

#[test]
fn bulk_stays_within_the_window_that_was_granted() {
    let mut net = Net::new();
    net.send(0, 1, 1_000_000).unwrap();
    let request = net.outgoing(0);
    net.deliver(1, &request);
    let pull = net.outgoing(1);
    net.deliver(0, &pull);
    let flight: usize = net.outgoing(0).iter().map(Vec::len).sum();
    assert!(flight <= 64 * 1024 && flight > 60 * 1024, "{flight} bytes in flight");
}

/// What has not been acknowledged may still be read where it was written.
#[test]
fn a_train_has_arrived_when_all_of_it_is_acknowledged() {
    let mut net = Net::new();
    net.send(0, 1, 1_000_000).unwrap();
    let request = net.trains(0);
    assert!(request.iter().all(|(mark, _)| mark.is_none()), "one datagram is no train");
    net.deliver(1, &request[0].1);
    let pull = net.outgoing(1);
    net.deliver(0, &pull);
    let trains = net.trains(0);
    let marks: Vec<Mark> = trains.iter().map(|(mark, _)| mark.expect("sent once")).collect();
    let arrived =
        |net: &Net| marks.iter().filter(|m| net.sides[0].transport.has_arrived(**m)).count();
    assert!(marks.len() > 2 && arrived(&net) == 0, "{marks:?}");
    // All but one of the second train's.
    for (index, (_, datagrams)) in trains.iter().enumerate() {
        net.deliver(1, &datagrams[usize::from(index == 1)..]);
    }
    let acks = net.outgoing(1);
    net.deliver(0, &acks);
    assert_eq!(arrived(&net), 1);
    let again = net.trains(0);
    assert!(again[0].0.is_none(), "sent for the second time");
    net.deliver(1, &again[0].1);
    net.settle();
    assert_eq!(arrived(&net), marks.len());
}

/// Where it was written comes what is not encrypted yet, and it may still be read then.
#[test]
fn an_encrypted_train_is_not_read_in_place() {
    for (encrypt, expected) in [(false, true), (true, false)] {
        let mut net = Net::encrypted([encrypt; 2]);
        for tag in 0..4 {
            net.send(0, tag, 20_000).unwrap();
        }
        net.send(0, 9, 300_000).unwrap();
        let mut marked = 0;
        for _ in 0..10 {
            let trains = net.trains(0);
            marked += trains.iter().filter(|(mark, _)| mark.is_some()).count();
            trains.iter().for_each(|(_, datagrams)| net.deliver(1, datagrams));
            let answers = net.outgoing(1);
            net.deliver(0, &answers);
        }
        assert_eq!(net.sides[1].app.pulled, [true]);
        assert_eq!(marked > 0, expected, "{marked} trains");
    }
}

#[test]
fn nothing_is_awaited_of_who_is_gone() {
    let mut net = Net::new();
    let mark = Mark { peer: net.sides[0].peer, bulk: true, end: 5 };
    assert!(!net.sides[0].transport.has_arrived(mark));
    let Side { transport, app, peer, .. } = &mut net.sides[0];
    transport.give_up(*peer, Gone::Unreachable, app);
    assert!(transport.has_arrived(mark));
    assert!(transport.has_arrived(Mark { peer: PeerId(77), ..mark }));
    // Nor of who said good-bye.
    let mark = Mark { peer: net.sides[1].peer, bulk: false, end: 5 };
    assert!(!net.sides[1].transport.has_arrived(mark));
    net.send(0, 1, 8).unwrap_err();
    let Side { transport, app, peer, .. } = &mut net.sides[1];
    transport.give_up(*peer, Gone::Closed, app);
    assert!(transport.has_arrived(mark));
}

/// Each of them had a share of its own once: too little for a train, and less than what the
/// receiver waited for before it acknowledged.
#[test]
fn messages_of_one_peer_share_its_window() {
    let mut net = Net::new();
    for tag in 0..16 {
        net.send(0, tag, 200_000).unwrap();
    }
    let requests = net.outgoing(0);
    net.deliver(1, &requests);
    let pulls = net.outgoing(1);
    net.deliver(0, &pulls);
    let flight: usize = net.outgoing(0).iter().map(Vec::len).sum();
    assert!(flight <= 64 * 1024 && flight > 60 * 1024, "{flight} bytes in flight");
}

/// No clock ticks here: acknowledgements that waited for a timer would leave it unfinished.
#[test]
fn a_stream_of_long_messages_waits_for_no_timer() {
    let mut net = Net::new();
    for tag in 0..16 {
        net.send(0, tag, 200_000).unwrap();
    }
    net.settle();
    assert_eq!(net.sides[1].app.pulled, [true; 16]);
}

#[test]
fn a_pull_beyond_the_message_is_refused() {
    let pull = |offset, len| Pull {
        send_id: 0,
        transfer_id: 1,
        offset,
        len,
        window: 1 << 20,
        last: false,
    };
    for bad in [pull(0, 200_001), pull(200_000, 1), pull(u64::MAX, 2), pull(0, u64::MAX)] {
        let mut net = Net::new();
        net.send(0, 1, 200_000).unwrap();
        net.outgoing(0);
        let forged = net.ordered(0, 0, &Record::Pull(bad));
        net.deliver(0, &[forged]);
        assert_eq!(net.sides[0].transport.stats().drop_protocol, 1, "{bad:?}");
        assert!(net.outgoing(0).iter().all(|d| header_of(d).kind != Kind::Bulk));
    }
    // A pull of bytes before the end of an earlier one is refused; an end of the grants grants none.
    let (all, half) = (200_000, 100_000);
    for (pulls, refused) in [
        (vec![(0, all), (0, all)], 1),
        (vec![(0, half), (0, half)], 1),
        (vec![(half, half), (0, half)], 1),
        (vec![(0, half), (half - 1, 1), (half, half)], 1),
        (vec![(0, half), (half + 1, 1), (half, 1)], 1),
        (vec![(0, half), (half, half)], 0),
        (vec![(0, half), (0, 0)], 0),
    ] {
        let mut net = Net::new();
        net.send(0, 1, all as usize).unwrap();
        net.outgoing(0);
        for (n, (offset, len)) in (0..).zip(&pulls) {
            let last = n + 1 == pulls.len() as u64;
            let pull = Record::Pull(Pull { last, ..pull(*offset, *len) });
            let forged = net.ordered(0, n, &pull);
            net.deliver(0, &[forged]);
        }
        assert_eq!(net.sides[0].transport.stats().drop_protocol, refused, "{pulls:?}");
    }
}

#[test]
fn a_segment_outside_its_pull_is_refused() {
    let mut net = Net::new();
    net.send(0, 1, 10_000).unwrap();
    let request = net.outgoing(0);
    net.deliver(1, &request); // pulls transfer 0
    for (n, (transfer, offset)) in [(0, 9_999), (0, u64::MAX), (1, 0), (77, 0)].iter().enumerate() {
        let mut body = vec![0; SEGMENT_PREFIX_LEN + 2];
        Segment::emit_prefix(Transfer::Pulled(*transfer), *offset, &mut body);
        let header = Header { kind: Kind::Bulk, sequence: n as u64, ..header_of(&request[0]) };
        let forged = net.forge(1, header, &body);
        net.deliver(1, &[forged]);
        assert_eq!(net.sides[1].transport.stats().drop_no_transfer, n as u64 + 1);
    }
    assert!(net.sides[1].app.segments.is_empty());
}

/// Sends and transfers have numbers of the endpoint, not of the peer.
#[test]
fn nobody_names_the_send_or_transfer_of_another() {
    let mut net = Net::new();
    net.sides[1].app.pull = false;
    net.send(0, 1, LONG).unwrap();
    let request = net.outgoing(0);
    net.deliver(1, &request);
    let id = net.sides[1].app.requests[0];
    let mut from_a_third = |to: usize, kind, sequence, body: &[u8]| {
        let datagram = of_a_third(&net, to, kind, sequence, body);
        let side = &mut net.sides[to];
        side.transport.handle_datagram(net.now, address(2), 0, &datagram, &mut side.app);
        side.transport.stats().drop_no_transfer
    };
    let record = Record::Pull(Pull {
        send_id: id,
        transfer_id: 1,
        offset: 0,
        len: LONG as u64,
        window: 1 << 20,
        last: true,
    });
    let mut pull = vec![0; record.len()];
    record.emit(&mut pull);
    assert_eq!(from_a_third(0, Kind::Ordered, 0, &pull), 1);
    assert_eq!(from_a_third(1, Kind::Ordered, 0, &[]), 0); // it is known there
    pull_announced(&mut net, 0, LONG as u64);
    let grant = net.outgoing(1);
    let transfer = Transfer::Pulled(pull_in(&grant).unwrap().transfer_id);
    let mut segment = vec![0; SEGMENT_PREFIX_LEN + 1];
    Segment::emit_prefix(transfer, 0, &mut segment);
    let datagram = of_a_third(&net, 1, Kind::Bulk, 0, &segment);
    let b = &mut net.sides[1];
    b.transport.handle_datagram(net.now, address(2), 0, &datagram, &mut b.app);
    assert_eq!(b.transport.stats().drop_no_transfer, 1);
    // Both sides' own go on as if nothing had been.
    net.deliver(0, &grant);
    net.settle();
    assert_eq!(got(&net.sides[1].app), LONG);
    assert_eq!(net.sides[0].app.sent, [(1, true)]);
}

#[test]
fn an_announced_message_without_bytes_completes_both_sides() {
    let mut net = Net::new();
    let a = &mut net.sides[0];
    let envelope = Envelope { is_held: true, ..Envelope::new(Class::Tagged, 7, None) };
    assert_eq!(a.transport.send(a.peer, envelope, 0, 7, true, &a.app), Ok(Posted::Pending));
    net.settle();
    assert_eq!(net.sides[1].app.pulled, [true]);
    assert!(net.sides[0].app.sent.contains(&(7, true)));
}

/// There are only so many pulls at a time: what is one too many ends on both sides.
#[test]
fn who_has_no_place_for_a_pull_refuses_the_message() {
    for at_once in [true, false] {
        let mut net = acquainted();
        let side = &mut net.sides[1];
        let pulls = (0..).take_while(|_| side.transport.pull(side.peer, u32::MAX, 1, 0)).count();
        assert_eq!(pulls, 1 << 20);
        side.app.pull = at_once;
        let (request, _) = announced(&mut net);
        net.deliver(1, &request);
        let side = &mut net.sides[1];
        if at_once {
            assert_eq!(side.app.pulled, [false]);
        } else {
            assert!(!side.transport.pull(side.peer, side.app.requests[0], LONG as u64, 2));
        }
        for _ in 0..100_000 {
            let pulls = net.outgoing(1);
            net.deliver(0, &pulls);
            net.advance(Duration::from_micros(60));
            let acks = net.outgoing(0);
            net.deliver(1, &acks);
            if !net.sides[0].app.sent.is_empty() {
                break;
            }
        }
        assert_eq!(net.sides[0].app.sent, [(2, true)]);
        assert!(net.sides[1].app.segments.is_empty());
    }
}
