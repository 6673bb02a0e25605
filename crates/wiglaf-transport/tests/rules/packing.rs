//! How messages share datagrams and trains.

use std::time::Duration;

use wiglaf_transport::limits::{
    BURST_GAP, BURST_MIN, EAGER_LEN_MAX, PTO_MIN, QUEUED_LEN_MAX, UNASKED_LEN_MAX,
    UNCREDITED_LEN_MAX,
};
use wiglaf_transport::{Lengths, Posted};
use wiglaf_wire::{Class, Envelope, Record};

use crate::net::{Net, acquainted, header_of, messages_of, pull_announced};

#[test]
fn the_first_datagram_carries_the_first_message() {
    let mut net = Net::new();
    assert_eq!(net.send(0, 1, 8), Ok(Posted::Buffered));
    let first = net.outgoing(0);
    assert_eq!(first.len(), 1);
    net.deliver(1, &first);
    assert_eq!(net.sides[1].app.tags, [1]);
}

#[test]
fn messages_that_queue_share_a_datagram() {
    let mut net = Net::new();
    for tag in 0..20 {
        net.send(0, tag, 8).unwrap();
    }
    let datagrams = net.outgoing(0);
    assert_eq!(datagrams.len(), 1);
    net.deliver(1, &datagrams);
    assert_eq!(net.sides[1].app.tags, (0..20).collect::<Vec<_>>());
}

#[test]
fn messages_of_a_burst_share_datagrams_and_lone_ones_never_wait() {
    let mut net = Net::new();
    let post = |net: &mut Net, tag| {
        net.send(0, tag, 8).unwrap();
        let (peer, now) = (net.sides[0].peer, net.now);
        net.sides[0].transport.linger(peer, 8, now);
        net.outgoing(0)
    };
    let at_once: Vec<_> = (0..u64::from(BURST_MIN)).flat_map(|tag| post(&mut net, tag)).collect();
    assert_eq!(at_once.len(), BURST_MIN as usize, "the first do not wait");
    let waiting: Vec<_> = (0..100).flat_map(|n| post(&mut net, 100 + n)).collect();
    let full: usize = waiting.iter().map(|datagram| messages_of(datagram)).sum();
    assert_eq!(waiting.len(), 2, "full datagrams go, whatever waits");
    assert!(net.sides[0].transport.is_ready());
    net.sides[0].transport.end_lingering();
    let rest = net.outgoing(0);
    assert_eq!((rest.len(), full + messages_of(&rest[0])), (1, 100));
    // What may not wait takes along what does.
    assert!(post(&mut net, 200).is_empty());
    net.send(0, 201, 8).unwrap();
    assert_eq!(messages_of(&net.outgoing(0)[0]), 2);
    // Later, the burst is over, although no acknowledgement has come.
    net.now = net.now + BURST_GAP;
    assert_eq!(post(&mut net, 202).len(), 1);
}

#[test]
fn longer_messages_of_a_burst_share_trains() {
    let mut net = Net::new();
    net.exchange(0, Duration::from_micros(10)); // from now on the port for trains is known
    let post = |net: &mut Net, tag| {
        net.send(0, tag, 4000).unwrap();
        let (peer, now) = (net.sides[0].peer, net.now);
        net.sides[0].transport.linger(peer, 4000, now);
        let out = net.outgoing(0);
        net.deliver(1, &out);
        out.len()
    };
    // 3 datagrams each; trains of 8 (`transport`).
    let sent: Vec<_> = (1..10).map(|tag| post(&mut net, tag)).collect();
    assert_eq!(sent[0], 3, "the first does not wait");
    assert!(sent[2..].iter().all(|count| count % 8 == 0), "{sent:?}");
    assert!(sent[2..].contains(&8), "full trains go, whatever waits");
    net.sides[0].transport.end_lingering();
    net.settle();
    assert_eq!(net.sides[1].app.tags[1..], (1..10).collect::<Vec<_>>());
}

/// One frame each would take the sender's kernel as long as its whole way.
#[test]
fn messages_of_a_datagram_each_share_trains() {
    for len in [600, 700, 1000, 1350] {
        let mut net = Net::with_short_trains();
        let post = |net: &mut Net, tag| {
            net.send(0, tag, len).unwrap();
            let (peer, now) = (net.sides[0].peer, net.now);
            net.sides[0].transport.linger(peer, len, now);
            net.pass_on().iter().map(|(_, _, count)| *count).collect::<Vec<_>>()
        };
        let (first, second) = (post(&mut net, 1), post(&mut net, 2));
        assert_eq!((first, second), (vec![1], vec![1]), "the first do not wait");
        let trains: Vec<_> = (3..50).flat_map(|tag| post(&mut net, tag)).collect();
        let in_trains: usize = trains.iter().filter(|count| **count > 1).sum();
        let alone = trains.iter().filter(|count| **count == 1).count();
        assert!(in_trains > 4 * alone, "{len}: {trains:?}");
        net.sides[0].transport.end_lingering();
        net.settle();
        assert_eq!(net.sides[1].app.tags[1..], (1..50).collect::<Vec<_>>(), "{len}");
    }
}

/// Only the last of a train may be shorter, as the network cuts it into even parts.
#[test]
fn what_is_a_little_shorter_than_the_first_of_its_train_is_padded() {
    let mut net = Net::with_short_trains();
    let counts = |net: &mut Net, lens: &[usize]| {
        for (len, tag) in lens.iter().zip(10..) {
            net.send(0, tag, *len).unwrap();
        }
        net.pass_on().iter().map(|(_, _, count)| *count).collect::<Vec<_>>()
    };
    assert_eq!(counts(&mut net, &[1000, 1000, 1000]), [3]);
    assert_eq!(counts(&mut net, &[1000, 930, 1000]), [3], "one is padded");
    assert_eq!(counts(&mut net, &[1000, 800, 1000]), [2, 1], "that would be a waste");
    assert_eq!(counts(&mut net, &[1000, 999, 1000]), [2, 1], "no padding is so short");
    assert_eq!(counts(&mut net, &[900, 1000, 1000]), [1, 2], "the first is too short");
    net.settle();
    let lens = [3, 3, 3, 3, 3].iter().flat_map(|count| 10..10 + count);
    assert_eq!(net.sides[1].app.tags[1..], lens.collect::<Vec<u64>>());
    let stats = net.sides[1].transport.stats();
    assert_eq!((stats.drop_protocol, stats.drop_truncated, stats.drop_checksum), (0, 0, 0));
}

#[test]
fn what_was_lost_goes_again_in_trains() {
    let mut net = Net::with_short_trains();
    net.settle();
    net.advance(Duration::from_millis(1));
    for tag in 10..13 {
        net.send(0, tag, 1000).unwrap();
    }
    assert_eq!(net.outgoing(0).len(), 3, "lost");
    net.now = net.now + PTO_MIN;
    let b = &mut net.sides[1].transport;
    b.overrun(0);
    assert!(b.tell_of_overrun(net.now));
    let told = net.outgoing(1);
    net.deliver(0, &told);
    assert_eq!(net.pass_on(), [(7000, false, 3)]);
    assert_eq!(net.sides[1].app.tags[1..], [10, 11, 12]);
}

/// Where the port of single datagrams takes trains, it gets what fits three, in even ones, and what
/// is sent next keeps its place behind them.
#[test]
fn short_trains_go_to_the_port_of_single_datagrams() {
    let mut net = Net::with_short_trains();
    let post = |net: &mut Net, tag, len| {
        net.send(0, tag, len).unwrap();
        net.pass_on()
    };
    assert_eq!(post(&mut net, 1, 4000), [(7000, false, 3)]);
    assert_eq!(post(&mut net, 2, 8), [(7000, false, 1)]);
    assert_eq!(post(&mut net, 7, 5000), [(7000, false, 2), (7000, false, 2)]);
    assert_eq!(post(&mut net, 8, 12_000), [(7000, false, 3); 3]);
    assert_eq!(post(&mut net, 3, 14_000), [(7001, true, 7), (7001, true, 3)], "too long");
    assert_eq!(post(&mut net, 4, 2000), [(7001, true, 2)], "behind one that goes that way");
    net.advance(Duration::from_millis(1));
    net.settle();
    assert_eq!(post(&mut net, 5, 2000), [(7000, false, 2)]);
    net.sides[0].transport.set_latency_train_max(0, 1); // it takes none any longer
    assert_eq!(post(&mut net, 6, 2000), [(7001, true, 2)]);
    assert_eq!(net.sides[1].app.tags[1..], [1, 2, 7, 8, 3, 4, 5, 6]);
}

/// It would be copied in vain: what waits that long is no longer in the caches when it goes.
#[test]
fn what_would_wait_behind_much_is_announced() {
    for (len, is_announced) in [(QUEUED_LEN_MAX, false), (QUEUED_LEN_MAX + 1, true)] {
        let mut net = acquainted();
        net.sides[1].app.tags.clear();
        let posted: Vec<_> = (0..16).map(|tag| net.send(0, tag, len).unwrap()).collect();
        assert!(posted[..7].iter().all(|posted| *posted == Posted::Buffered), "{posted:?}");
        assert_eq!(posted.contains(&Posted::Pending), is_announced, "{len}: {posted:?}");
        net.settle();
        assert_eq!(net.sides[1].app.tags, (0..16).collect::<Vec<_>>());
        assert_eq!(net.sides[0].app.sent.len(), 16);
    }
}

#[test]
fn the_way_of_a_message_depends_on_its_length() {
    let mut net = Net::with_short_trains();
    let mut tag = 0;
    let mut way = |net: &mut Net, len: usize| {
        tag += 1;
        let posted = net.send(0, tag, len).expect("taken");
        net.settle();
        let segments = &mut net.sides[1].app.segments;
        let unasked = std::mem::take(segments).len();
        net.advance(Duration::from_millis(1));
        net.settle();
        (posted, unasked > 0)
    };
    let longest = UNASKED_LEN_MAX as usize;
    way(&mut net, longest); // the window grows
    for _ in 0..200 {
        for (len, wanted) in [
            (EAGER_LEN_MAX, (Posted::Buffered, false)),
            (EAGER_LEN_MAX + 1, (Posted::Pending, true)),
            (longest, (Posted::Pending, true)),
        ] {
            assert_eq!(way(&mut net, len), wanted, "{len}");
        }
    }
    assert_eq!(net.sides[1].app.tags[1..], (1..=tag).collect::<Vec<_>>());
}

#[test]
fn lengths_of_the_ways_can_be_said() {
    let mut net = Net::new();
    net.send(0, 0, UNASKED_LEN_MAX as usize).expect("taken");
    net.settle(); // the window grows
    net.advance(Duration::from_millis(1));
    net.settle();
    net.sides[0].transport.set_lengths(Lengths::new(4096, 30_000));
    let mut tag = 0;
    // What goes before the peer has said anything.
    let mut way = |net: &mut Net, len: usize| {
        tag += 1;
        let posted = net.send(0, tag, len).expect("taken");
        let unasked = net.outgoing(0);
        let sent: usize = unasked.iter().map(Vec::len).sum();
        net.deliver(1, &unasked);
        net.settle();
        net.advance(Duration::from_millis(1));
        net.settle();
        (posted, sent >= len)
    };
    for (len, wanted) in [
        (4096, (Posted::Buffered, true)),
        (4097, (Posted::Pending, true)),
        (30_000, (Posted::Pending, true)),
        (30_001, (Posted::Pending, false)),
    ] {
        assert_eq!(way(&mut net, len), wanted, "{len}");
    }
    assert_eq!(Lengths::new(u64::MAX, u64::MAX), Lengths::new(UNASKED_LEN_MAX, UNASKED_LEN_MAX));
}

#[test]
fn padding_means_nothing() {
    let mut net = Net::new();
    let message = |tag| Record::Message(Envelope::new(Class::Tagged, tag, None), b"");
    let close_like = Record::Padding(&[6, 0, 0, 0]);
    let mut body = vec![0; 2 * message(1).len() + close_like.len() + 4];
    let mut at = message(1).emit(&mut body);
    for record in [close_like, Record::Padding(&[]), message(2)] {
        at += record.emit(&mut body[at..]);
    }
    let header = header_of(&net.ordered(1, 0, &Record::Close));
    let datagram = net.forge(1, header, &body);
    net.deliver(1, &[datagram]);
    assert_eq!(net.sides[1].app.tags, [1, 2]);
    assert!(net.sides[1].app.gone.is_empty());
    assert_eq!(net.sides[1].transport.stats().drop_protocol, 0);
}

/// A train costs the kernel as much for a short message as for a long one.
#[test]
fn messages_that_were_pulled_together_share_a_train() {
    // The first fills the credit with what was sent before it; the others come as often as is said.
    let short = [(70, 3), (66, 1), (70, 1)];
    let long = [(4096, 5), (4095, 2), (100, 1)];
    for (lens, wanted) in [(short, vec![4, 1]), (long, vec![8, 8, 3, 7])] {
        let mut net = Net::new();
        net.sides[1].app.hoard = true;
        net.sides[1].app.pull = false;
        let mut tag = 0;
        // Until there is no credit even for a short one, which is announced.
        for len in [EAGER_LEN_MAX / 2, UNCREDITED_LEN_MAX + 6] {
            while net.send(0, tag, len) == Ok(Posted::Buffered) {
                net.settle();
                tag += 1;
            }
        }
        let lens: Vec<usize> = lens.iter().flat_map(|(len, times)| vec![*len; *times]).collect();
        for len in &lens {
            tag += 1;
            assert_eq!(net.send(0, tag, *len), Ok(Posted::Pending));
        }
        net.settle();
        // Of the first two of those announced, which ended the loops, the second is as short as the others.
        let before = net.sides[1].app.requests.len() - lens.len();
        for (which, len) in (before..).zip(&lens) {
            pull_announced(&mut net, which, *len as u64);
        }
        let pulls = net.outgoing(1);
        net.deliver(0, &pulls);
        let trains = net.trains(0);
        let counts: Vec<usize> = trains.iter().map(|(_, train)| train.len()).collect();
        assert_eq!(counts, wanted, "{lens:?}");
        for (_, train) in &trains {
            assert!(train.windows(2).all(|two| two[0].len() >= two[1].len()));
            net.deliver(1, train);
        }
        let app = &net.sides[1].app;
        let got: usize = app.segments.iter().map(|(_, len)| *len).sum();
        assert_eq!(got, lens.iter().sum());
        assert_eq!(app.pulled, vec![true; lens.len()]);
    }
}
