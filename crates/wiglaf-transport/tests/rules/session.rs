//! Who a peer is, how a session begins and how it ends.

use std::net::SocketAddrV4;
use std::time::Duration;

use wiglaf_transport::limits::ORDERED_WINDOW;
use wiglaf_transport::{Gone, SendError};
use wiglaf_wire::{Epoch, HEADER_LEN, Header, Kind, Record, SEGMENT_PREFIX_LEN, seal};

use crate::net::{App, KEY, LONG, Net, address, each_answered, header_of, transport};

#[test]
fn frames_for_a_dead_incarnation_are_dropped() {
    let mut net = Net::new();
    net.send(0, 1, 8).unwrap();
    let late = net.outgoing(0);
    // b died and its successor listens at the same port.
    net.sides[1].transport = transport(99, Duration::from_secs(60), false);
    net.deliver(1, &late);
    assert!(net.sides[1].app.tags.is_empty());
    assert_eq!(net.sides[1].transport.stats().drop_stale_epoch, 1);
    assert!(net.outgoing(1).is_empty(), "and nothing is answered");
}

#[test]
fn an_address_without_epoch_adopts_the_first() {
    let mut net = nameless();
    let peer = net.sides[0].peer;
    net.send(0, 1, 8).unwrap();
    let first = net.outgoing(0);
    assert_eq!(header_of(&first[0]).destination, Epoch::UNKNOWN);
    net.deliver(1, &first);
    assert_eq!(net.sides[1].app.tags, [1]);
    net.send(1, 2, 8).unwrap();
    let answer = net.outgoing(1);
    net.deliver(0, &answer);
    assert_eq!(net.sides[0].transport.peer(peer).unwrap().epoch, Epoch(11));
    net.send(0, 3, 8).unwrap();
    let second = net.outgoing(0);
    assert_eq!(header_of(&second[0]).destination, Epoch(11));
}

/// An `a` that knows only the address of `b`.
fn nameless() -> Net {
    let mut net = Net::new();
    net.sides[0].transport = transport(10, Duration::from_secs(60), false);
    net.sides[0].peer = net.sides[0].transport.connect(address(1), Epoch::UNKNOWN, 0);
    net
}

/// Else both would number their packets from 0 on, and those of one would pass for the other's.
#[test]
fn an_address_that_gets_its_epoch_later_is_no_second_peer() {
    let mut net = nameless();
    net.send(0, 1, 8).unwrap();
    let first = net.outgoing(0);
    net.sides[0].peer = net.sides[0].transport.connect(address(1), Epoch(11), 0);
    net.send(0, 2, 8).unwrap();
    let second = net.outgoing(0);
    net.deliver(1, &[first, second].concat());
    assert_eq!(net.sides[1].app.tags, [1, 2]);
}

#[test]
fn who_starts_where_somebody_was_given_up_is_another() {
    let mut net = nameless();
    let a = &mut net.sides[0];
    a.transport.give_up(a.peer, Gone::Unreachable, &mut a.app);
    net.send(1, 1, 8).unwrap();
    let first = net.outgoing(1);
    net.deliver(0, &first);
    assert_eq!(net.sides[0].app.tags, [1]);
    let a = &mut net.sides[0];
    let second = a.transport.connect(address(1), Epoch::UNKNOWN, 0);
    assert!(a.peer < second);
    assert_eq!(a.transport.peer(second).unwrap().epoch, Epoch(11));
    // It may live on, and know us: with a second session it would take new packets for old ones.
    a.transport.give_up(second, Gone::Silent, &mut a.app);
    assert_eq!(a.transport.connect(address(1), Epoch::UNKNOWN, 0), second);
}

/// Once it has ended, the address means its successor.
#[test]
fn who_has_said_good_bye_is_not_who_comes_after() {
    let mut net = nameless();
    net.send(1, 1, 8).unwrap();
    let first = net.outgoing(1);
    net.deliver(0, &first);
    net.settle();
    net.sides[1].transport.close(|_| false);
    let good_bye = net.outgoing(1);
    net.deliver(0, &good_bye);
    let a = &mut net.sides[0];
    assert_eq!(a.app.gone, [Gone::Closed]);
    let next = a.transport.connect(address(1), Epoch::UNKNOWN, 0);
    assert!(next > a.peer && !a.transport.peer(next).unwrap().is_gone);
}

/// Else each try would leave a session behind.
#[test]
fn an_address_that_cannot_be_reached_stays_one_peer() {
    let mut net = nameless();
    let a = &mut net.sides[0];
    let nowhere = address(0);
    let peer = a.transport.connect(nowhere, Epoch::UNKNOWN, 0);
    a.transport.give_up(peer, Gone::Unreachable, &mut a.app);
    assert_eq!(a.transport.connect(nowhere, Epoch::UNKNOWN, 0), peer);
}

/// Trains come from a port of their own, where nobody who knows the address only expects the peer.
#[test]
fn no_train_comes_before_the_peer_has_named_its_sender() {
    let mut net = nameless();
    // Sends from b to a as links do; answers how many trains there were.
    let transmit = |net: &mut Net| {
        let [a, b] = &mut net.sides;
        let (mut out, mut trains) = (vec![0; 8 * 1472], 0);
        while let Some(t) = b.transport.poll_transmit(net.now, &b.app, &mut out) {
            let mut from = address(1);
            if t.to != address(0) {
                trains += 1;
                from.set_port(7002);
            }
            for datagram in out[..t.len].chunks(t.segment_len) {
                a.transport.handle_datagram(net.now, from, 0, datagram, &mut a.app);
            }
        }
        trains
    };
    for (turn, expected) in [(0, false), (1, true)] {
        net.send(0, turn, 8).unwrap();
        let out = net.outgoing(0);
        net.deliver(1, &out);
        net.send(1, 10 + turn, 5000).unwrap();
        net.send(1, 20 + turn, LONG).unwrap();
        let trains = transmit(&mut net);
        let a = &mut net.sides[0];
        assert_eq!(a.transport.peer(a.peer).unwrap().epoch, Epoch(11));
        assert_eq!(a.transport.connect(address(1), Epoch(11), 0), a.peer, "there is one session");
        assert_eq!(trains > 0, expected, "{trains} trains");
    }
    net.settle();
    assert_eq!(net.sides[0].app.tags, [10, 20, 11, 21]);
    assert_eq!(net.sides[0].transport.stats().drop_no_session, 0);
}

#[test]
fn strangers_cannot_begin_in_the_middle() {
    let mut net = Net::new();
    let header = Header {
        kind: Kind::Ordered,
        source: Epoch(5),
        destination: Epoch(11),
        sequence: ORDERED_WINDOW,
        ack: 0,
        credit: 0,
        ack_delay_us: 0,
        bulk_port: 0,
    };
    for kind in [Kind::Ordered, Kind::Bulk, Kind::Control] {
        let mut datagram = vec![0; HEADER_LEN + SEGMENT_PREFIX_LEN];
        seal(&Header { kind, ..header }, &KEY, &mut datagram);
        net.deliver(1, &[datagram]);
    }
    assert_eq!(net.sides[1].transport.stats().drop_no_session, 3);
}

#[test]
fn a_good_bye_is_acknowledged_however_often_it_is_lost() {
    let mut net = Net::new();
    net.send(0, 1, 8).unwrap();
    net.settle();
    net.advance(Duration::from_millis(1));
    net.settle();
    net.sides[0].transport.close(|_| false);
    let bye = net.outgoing(0);
    net.deliver(1, &bye);
    assert_eq!(net.sides[1].app.gone, [Gone::Closed]);
    assert_eq!(net.outgoing(1).len(), 1); // lost
    net.deliver(1, &bye);
    let answer = net.outgoing(1);
    net.deliver(0, &answer);
    assert!(net.sides[0].transport.is_drained());
    assert_eq!(net.send(1, 2, 8), Err(SendError::PeerGone));
}

/// R5 holds for who has said good-bye, too.
#[test]
fn a_good_bye_that_is_repeated_is_answered_in_time() {
    let mut net = Net::new();
    let packets = each_answered(&mut net, ORDERED_WINDOW);
    net.sides[0].transport.close(|_| false);
    let bye = net.outgoing(0);
    net.deliver(1, &bye);
    assert_eq!(net.outgoing(1).len(), 1);
    net.deliver(1, &packets[..2]); // a window behind
    assert!(net.outgoing(1).is_empty());
    // Only what it has sent can have been acknowledged to it.
    let new = net.ordered(1, header_of(&bye[0]).sequence + 1, &Record::Close);
    net.deliver(1, &[new]);
    assert!(net.outgoing(1).is_empty());
    let mut answers = Vec::new();
    for _ in 0..20 {
        net.deliver(1, &bye);
        answers.push(net.outgoing(1).len());
    }
    assert_eq!(answers, [vec![1], vec![0; 19]].concat());
    for expected in [1, 0] {
        net.advance(Duration::from_micros(50));
        assert_eq!(net.outgoing(1).len(), expected);
    }
    assert_eq!(net.sides[1].transport.poll_timeout(), None);
}

#[test]
fn a_good_bye_completes_long_messages_that_were_sent_as_wanted() {
    // One that nobody pulled, one that is only on its way, and one that has all arrived.
    for (turns, pulls, arrived) in [(1, false, false), (1, true, false), (1000, true, true)] {
        let mut net = Net::new();
        net.sides[1].app.pull = pulls;
        net.send(0, 1, 300_000).unwrap();
        for _ in 0..turns {
            let out = net.outgoing(0);
            net.deliver(1, &out);
            if net.sides[1].app.pulled == [true] {
                break; // the last acknowledgement is lost
            }
            let answer = net.outgoing(1);
            net.deliver(0, &answer);
        }
        assert_eq!(net.sides[1].app.pulled == [true], arrived);
        net.outgoing(1);
        assert_eq!(net.sides[0].app.sent, []);
        net.sides[1].transport.close(|_| false);
        let bye = net.outgoing(1);
        net.deliver(0, &bye);
        assert_eq!(net.sides[0].app.gone, [Gone::Closed]);
        assert_eq!(net.sides[0].app.sent, [(1, arrived)]);
    }
}

#[test]
fn a_forged_report_ends_nothing() {
    let mut net = Net::new();
    net.send(1, 9, 8).unwrap();
    net.send(0, 9, 8).unwrap();
    let old = net.outgoing(0);
    net.deliver(1, &old);
    net.settle();
    net.send(0, 1, 8).unwrap();
    let under_way = net.outgoing(0);
    let mut report = |at: SocketAddrV4, quoted: &[u8]| {
        let a = &mut net.sides[0];
        a.transport.handle_unreachable(net.now, at, Some(quoted), &mut a.app);
        (a.app.gone.len(), a.transport.stats().drop_report)
    };
    // As somebody with the key could make it.
    let made = |change: &dyn Fn(&mut Header)| {
        let (mut header, mut front) = (header_of(&under_way[0]), under_way[0].clone());
        change(&mut header);
        seal(&header, &KEY, &mut front);
        front
    };
    assert_eq!(report(address(1), &[]), (0, 1));
    assert_eq!(report(address(1), &old[0]), (0, 2)); // acknowledged
    assert_eq!(report(address(1), &made(&|header| header.source = Epoch(99))), (0, 3)); // not ours
    assert_eq!(report(address(1), &made(&|header| header.destination = Epoch(98))), (0, 4)); // not to it
    assert_eq!(report(address(1), &made(&|header| header.sequence += 1)), (0, 5)); // not sent yet
    assert_eq!(report(address(1), &made(&|header| header.sequence += 1 << 32)), (0, 6));
    assert_eq!(report(address(1), &under_way[0][..HEADER_LEN - 1]), (0, 7));
    assert_eq!(report("10.0.0.9:7000".parse().unwrap(), &under_way[0]), (0, 8));
    // Its port was damaged on the way there.
    assert_eq!(report("10.0.0.2:7008".parse().unwrap(), &under_way[0]), (0, 9));
    // Of that number nothing is under way on the bulk lane, and control datagrams are not answered.
    for (kind, refused) in [(Kind::Bulk, 10), (Kind::Control, 11)] {
        let front = made(&|header| header.kind = kind);
        assert_eq!(report(address(1), &front), (0, refused), "{kind:?}");
    }
    // Whoever has seen others knows all of this one but its proof.
    let mut guessed = under_way[0][..HEADER_LEN].to_vec();
    guessed[8..16].copy_from_slice(&old[0][8..16]);
    assert_eq!(report(address(1), &guessed), (0, 12));
    // Nor does it help to say that it was encrypted.
    guessed[2] |= 0x80;
    assert_eq!(report(address(1), &guessed), (0, 13));
    assert_eq!(report(address(1), &under_way[0][..HEADER_LEN]), (1, 13));
}

#[test]
fn a_good_bye_delivers_nothing_that_was_not_acknowledged() {
    let mut net = Net::new();
    net.send(0, 1, 8).unwrap();
    let first = net.outgoing(0);
    net.deliver(1, &first);
    net.send(0, 2, 8).unwrap();
    let _lost = net.outgoing(0);
    net.sides[1].transport.close(|_| false);
    // More than a window: not all of it has been under way.
    for tag in 3..=400 {
        net.send(0, tag, 1_400).unwrap();
    }
    let bye = net.outgoing(1);
    net.deliver(0, &bye);
    let a = &net.sides[0].app;
    assert_eq!(a.gone, [Gone::Closed]);
    let told: Vec<(u64, bool)> = (1..=400).map(|tag| (tag, tag == 1)).collect();
    assert_eq!(a.sent, told);
}

/// What a stranger sends back to its sender, as if from its receiver.
#[test]
fn nobody_takes_its_own_epoch_for_a_peers() {
    let mut net = Net::new();
    let a = &mut net.sides[0];
    a.transport = transport(10, Duration::from_secs(60), false);
    a.peer = a.transport.connect(address(1), Epoch::UNKNOWN, 0);
    net.send(0, 1, 8).unwrap();
    let first = net.outgoing(0);
    net.deliver(0, &first);
    let a = &net.sides[0];
    assert_eq!((a.app.tags.len(), a.transport.stats().drop_no_session), (0, 1));
    assert_eq!(a.transport.peer(a.peer).unwrap().epoch, Epoch::UNKNOWN);
    net.deliver(1, &first);
    net.send(1, 2, 8).unwrap();
    net.settle();
    let a = &net.sides[0];
    assert_eq!((&a.app.tags[..], a.transport.peer(a.peer).unwrap().epoch), (&[2][..], Epoch(11)));
}

/// Who repeats a peer's first datagram from elsewhere does not get what is meant for it.
#[test]
fn an_inserted_address_goes_over_that_of_a_repeated_datagram() {
    let mut net = Net::new();
    net.send(0, 1, 8).unwrap();
    let first = net.outgoing(0);
    let mut b = transport(11, Duration::from_secs(60), false);
    let (mut app, elsewhere) = (App::default(), "10.0.0.9:9".parse().unwrap());
    b.handle_datagram(net.now, elsewhere, 0, &first[0], &mut app);
    let peer = b.connect(address(0), Epoch(10), 0);
    assert_eq!(b.peer(peer).unwrap().at, address(0));
    assert_eq!(app.tags, [1]);
}
