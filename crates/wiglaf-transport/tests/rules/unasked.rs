//! What follows an announcement before it is asked for.

use std::time::Duration;

use wiglaf_transport::Path;
use wiglaf_wire::{
    Class, Envelope, Epoch, HEADER_LEN, Header, Kind, Record, SEGMENT_PREFIX_LEN, Segment, Transfer,
};

use crate::net::{
    App, LONG, Net, PATH, acquainted, address, announced, got, header_of, pull_announced, pull_in,
    records_of, transport_on,
};

/// What is announced to follow unasked.
fn unasked_len(datagrams: &[Vec<u8>]) -> u32 {
    let requests = datagrams.iter().filter(|d| header_of(d).kind == Kind::Ordered);
    let lens = requests.flat_map(|d| records_of(d)).filter_map(|record| match record {
        Record::Request { unasked_len, .. } => Some(unasked_len),
        _ => None,
    });
    lens.sum()
}

#[test]
fn the_first_train_does_not_wait_to_be_asked_for() {
    let mut net = acquainted();
    let (request, train) = announced(&mut net);
    let unasked = unasked_len(&request);
    let segment_len = PATH.frame_len_max - HEADER_LEN - SEGMENT_PREFIX_LEN;
    assert!(unasked as usize == train.len() * segment_len, "{unasked}: {}", train.len());
    assert_eq!(train.len(), 2 * 8 - 1, "two trains, which the announcement leads");
    net.deliver(1, &request);
    let answer = net.outgoing(1);
    let pull = pull_in(&answer).unwrap();
    assert_eq!((pull.offset, pull.len), (u64::from(unasked), LONG as u64 - u64::from(unasked)));
    net.deliver(1, &train);
    assert_eq!(got(&net.sides[1].app), unasked as usize);
    net.deliver(0, &answer);
    net.settle();
    assert_eq!((got(&net.sides[1].app), &net.sides[1].app.pulled[..]), (LONG, &[true][..]));
    assert_eq!(net.sides[0].app.sent, [(2, true)]);
}

/// Nothing says that the buffer was there before the announcement.
#[test]
fn a_buffer_that_is_there_before_the_first_byte_takes_what_comes_unasked() {
    let mut net = acquainted();
    net.sides[1].app.pull = false;
    let (request, train) = announced(&mut net);
    net.deliver(1, &request);
    pull_announced(&mut net, 0, LONG as u64);
    net.deliver(1, &train);
    net.settle();
    assert_eq!(got(&net.sides[1].app), LONG);
    assert_eq!(net.sides[1].transport.stats().unasked_dropped, 0);
    assert_eq!(net.sides[0].app.sent, [(2, true)]);
}

#[test]
fn who_has_no_buffer_drops_what_comes_unasked_and_gets_it_again() {
    // No buffer, one that comes in the middle, one that is shorter than what comes.
    for (early, want) in [(usize::MAX, LONG), (3, LONG), (0, 5_000), (usize::MAX, 0)] {
        let mut net = acquainted();
        net.sides[1].app.pull = false;
        let (request, train) = announced(&mut net);
        let early = early.min(train.len());
        net.deliver(1, &request);
        net.deliver(1, &train[..early]);
        pull_announced(&mut net, 0, want as u64);
        net.deliver(1, &train[early..]);
        net.settle();
        net.advance(Duration::from_micros(60)); // the last are acknowledged late
        net.settle();
        assert_eq!(got(&net.sides[1].app), want);
        assert_eq!(net.sides[1].transport.stats().unasked_dropped, train.len() as u64);
        assert_eq!(net.sides[0].app.sent, [(2, true)]);
        assert!(net.sides[0].transport.is_drained());
        // It is asked first for a while.
        net.sides[1].app = App { pull: true, ..App::default() };
        let lens: Vec<bool> = (0..18)
            .map(|_| {
                let (request, train) = announced(&mut net);
                net.deliver(1, &request);
                net.deliver(1, &train);
                net.settle();
                net.advance(Duration::from_micros(60));
                net.settle();
                unasked_len(&request) > 0
            })
            .collect();
        assert_eq!(lens, [[false; 16].as_slice(), &[true; 2]].concat());
    }
}

/// Trains of long frames may be longer than what is announced at least.
#[test]
fn no_more_goes_unasked_than_the_message_has() {
    let mut net = Net::new();
    let path = Path {
        frame_len_max: 65_507,
        frame_len_sure: 65_507,
        bulk_train_max: 64,
        bulk_window_len: 16 << 20,
        ..PATH
    };
    for (side, me) in net.sides.iter_mut().zip(0..) {
        side.transport = transport_on(path, 10 + me, Duration::from_secs(60), false);
        side.peer = side.transport.connect(address(1 - me as usize), Epoch(11 - me), 0);
    }
    let settle = |net: &mut Net| {
        let mut out = vec![0; 64 * 65_507];
        for from in [0, 1, 0, 1, 0, 1] {
            let [a, b] = &mut net.sides;
            let (side, other) = if from == 0 { (a, b) } else { (b, a) };
            while let Some(t) = side.transport.poll_transmit(net.now, &side.app, &mut out) {
                for datagram in out[..t.len].chunks(t.segment_len) {
                    let at = address(from);
                    other.transport.handle_datagram(net.now, at, 0, datagram, &mut other.app);
                }
            }
        }
    };
    for tag in 0..2 {
        net.sides[1].app.segments.clear();
        net.send(0, tag, LONG).unwrap();
        settle(&mut net);
        assert_eq!(got(&net.sides[1].app), LONG);
    }
    assert_eq!(net.sides[1].transport.stats().drop_protocol, 0);
}

#[test]
fn what_overtakes_its_announcement_comes_again() {
    for all in [false, true] {
        let mut net = acquainted();
        let (request, train) = announced(&mut net);
        let before = if all { train.len() } else { 1 };
        net.deliver(1, &train[..before]);
        net.deliver(1, &request);
        net.deliver(1, &train[before..]);
        net.settle();
        assert_eq!(got(&net.sides[1].app), LONG);
        assert_eq!(net.sides[1].transport.stats().unasked_dropped, train.len() as u64);
        assert_eq!(net.sides[1].transport.stats().drop_protocol, 0);
        assert_eq!(net.sides[0].app.sent, [(2, true)]);
    }
}

/// Who has more to send that was asked for waits for that, too.
#[test]
fn the_last_of_several_messages_is_acknowledged_at_once() {
    let mut net = Net::new();
    net.send(0, 1, LONG).unwrap();
    net.send(0, 2, LONG).unwrap();
    let mut answered = Vec::new();
    let mut ended = 0;
    while ended < 2 {
        let sent = net.outgoing(0);
        assert!(!sent.is_empty(), "nothing is lost that would take a while");
        for datagram in sent {
            net.deliver(1, &[datagram]);
            let answer = net.outgoing(1);
            if net.sides[1].app.pulled.len() > ended {
                ended = net.sides[1].app.pulled.len();
                answered.push(!answer.is_empty());
            }
            net.deliver(0, &answer);
        }
    }
    assert_eq!(answered, [false, true]);
    net.settle();
    assert_eq!(net.sides[0].app.sent, [(1, true), (2, true)]);
}

#[test]
fn nothing_goes_unasked_while_a_message_is_not_complete() {
    let mut net = acquainted();
    let (first, _) = announced(&mut net);
    let (second, train) = announced(&mut net);
    assert!(unasked_len(&first) > 0);
    assert_eq!((unasked_len(&second), train.len()), (0, 0));
    net.sides[1].app.pull = false;
    net.deliver(1, &[first, second].concat());
    pull_announced(&mut net, 1, LONG as u64);
    assert_eq!(pull_in(&net.outgoing(1)).unwrap().offset, 0, "those bytes are of the first");
    // Nor by a stranger to the rule.
    for stranger in [0, 1] {
        let mut net = acquainted();
        let (first, train) = announced(&mut net);
        net.deliver(1, &first);
        let send_id = net.sides[1].app.requests[0] + stranger;
        let envelope = Envelope::new(Class::Tagged, 3, None);
        let again = Record::Request { envelope, total: 2_000, send_id, unasked_len: 1_000 };
        let again = net.ordered(1, header_of(&first[0]).sequence + 1, &again);
        net.deliver(1, &[again]);
        assert_eq!(net.sides[1].transport.stats().drop_protocol, 1);
        net.deliver(1, &train);
        assert_eq!(got(&net.sides[1].app), unasked_len(&first) as usize);
    }
}

/// What is sent again is read from the sender's buffer.
#[test]
fn a_send_is_not_complete_before_what_went_unasked_is_acknowledged() {
    let mut net = acquainted();
    net.sides[1].app.pull = false;
    let (request, train) = announced(&mut net);
    net.deliver(1, &request);
    pull_announced(&mut net, 0, 0);
    let answer = net.outgoing(1);
    net.deliver(0, &answer);
    assert_eq!(net.sides[0].app.sent, []);
    net.deliver(1, &train);
    net.settle();
    net.advance(Duration::from_micros(60));
    net.settle();
    assert_eq!(net.sides[0].app.sent, [(2, true)]);
}

#[test]
fn what_nobody_was_told_to_expect_is_refused() {
    let mut net = acquainted();
    let (request, train) = announced(&mut net);
    net.deliver(1, &request);
    let (unasked, id) = (u64::from(unasked_len(&request)), net.sides[1].app.requests[0]);
    let bad = [(id, unasked - 1), (id, unasked), (id, u64::MAX), (id + 1, 0)];
    for (n, (id, offset)) in bad.into_iter().enumerate() {
        let mut body = vec![0; SEGMENT_PREFIX_LEN + 2];
        Segment::emit_prefix(Transfer::Unasked(id), offset, &mut body);
        let sequence = header_of(train.last().unwrap()).sequence + 1 + n as u64;
        let forged = net.forge(1, Header { sequence, ..header_of(train.last().unwrap()) }, &body);
        net.deliver(1, &[forged]);
        assert_eq!(net.sides[1].transport.stats().drop_no_transfer, n as u64 + 1);
    }
    assert!(net.sides[1].app.segments.is_empty());
    // Some bytes come twice, the second time under another number.
    let mut net = Net::new();
    let envelope = Envelope::new(Class::Tagged, 3, None);
    let ten = Record::Request { envelope, total: 100, send_id: 7, unasked_len: 10 };
    let ten = net.ordered(1, 0, &ten);
    net.deliver(1, std::slice::from_ref(&ten));
    for (sequence, offset) in [(0, 0), (1, 4)] {
        let mut body = [[0; SEGMENT_PREFIX_LEN].as_slice(), &[0, 1, 2, 3, 4, 5]].concat();
        Segment::emit_prefix(Transfer::Unasked(7), offset, &mut body);
        let header = Header { kind: Kind::Bulk, sequence, ..header_of(&ten) };
        let forged = net.forge(1, header, &body);
        net.deliver(1, &[forged]);
        assert_eq!(net.sides[1].transport.stats().drop_no_transfer, sequence);
    }
    let mut net = acquainted();
    let (request, _) = announced(&mut net);
    net.deliver(1, &request);
    // More bytes than the message has.
    let envelope = Envelope::new(Class::Tagged, 3, None);
    let more = Record::Request { envelope, total: 10, send_id: 77, unasked_len: 11 };
    let more = net.ordered(1, header_of(&request[0]).sequence + 1, &more);
    net.deliver(1, &[more]);
    assert_eq!(net.sides[1].transport.stats().drop_protocol, 1);
    assert_eq!(net.sides[1].app.requests.len(), 1);
}

#[test]
fn an_announcement_goes_in_front_of_its_first_train() {
    let mut net = acquainted();
    net.send(0, 2, LONG).unwrap();
    let (_, train) = net.trains(0).swap_remove(0);
    let kinds: Vec<Kind> = train.iter().map(|d| header_of(d).kind).collect();
    assert_eq!(kinds, [&[Kind::Ordered][..], &[Kind::Bulk; 7]].concat());
    assert!(train.iter().all(|d| d.len() == train[0].len()), "one train, so of one length");
    assert!(matches!(records_of(&train[0])[..], [.., Record::Request { .. }, Record::Padding(_)]));
    // Nor does what follows overtake it by the other port.
    let _ = net.outgoing(0);
    net.send(0, 3, 8).unwrap();
    let side = &mut net.sides[0];
    let next = side.transport.poll_transmit(net.now, &side.app, &mut vec![0; 8 * 1472]).unwrap();
    assert_eq!(next.to.port(), 7001);
    // Lost with the train, it comes again by itself.
    for _ in 0..1000 {
        net.advance(Duration::from_millis(1));
        net.settle();
        if !net.sides[0].app.sent.is_empty() {
            break;
        }
    }
    assert_eq!(got(&net.sides[1].app), LONG);
    // What waits for a number waits alone: the train may not go before it is announced.
    let mut net = acquainted();
    net.send(0, 2, LONG).unwrap();
    net.send(0, 3, 1_400).unwrap();
    let (_, first) = net.trains(0).swap_remove(0);
    assert!(first.iter().all(|d| header_of(d).kind == Kind::Ordered));
}

/// Two whose windows take all of a message that is announced.
pub(crate) fn with_wide_windows() -> Net {
    let mut net = Net::new();
    let path = Path { bulk_window_len: 1 << 20, ..PATH };
    for (side, me) in net.sides.iter_mut().zip(0..) {
        side.transport = transport_on(path, 10 + me, Duration::from_secs(60), false);
        side.peer = side.transport.connect(address(1 - me as usize), Epoch(11 - me), 0);
    }
    for tag in 0..4 {
        net.send(0, tag, LONG).unwrap();
        net.settle();
        net.advance(Duration::from_micros(60));
        net.settle();
    }
    net.sides[0].app.sent.clear();
    net.sides[1].app = App { pull: true, ..App::default() };
    net
}

#[test]
fn an_answer_that_asks_for_nothing_goes_with_the_acknowledgement() {
    for lost in [false, true] {
        let mut net = with_wide_windows();
        let (request, train) = announced(&mut net);
        assert_eq!(unasked_len(&request) as usize, LONG);
        net.deliver(1, &request);
        assert!(net.outgoing(1).is_empty());
        if lost {
            net.advance(Duration::from_micros(60));
        } else {
            net.deliver(1, &train);
            assert_eq!(net.sides[1].app.pulled, [true]);
        }
        let answer = net.outgoing(1);
        assert_eq!(answer.len(), 1);
        let pull = pull_in(&answer).unwrap();
        assert_eq!((pull.offset, pull.len, pull.last), (LONG as u64, 0, true));
        net.deliver(0, &answer);
        assert_eq!(net.sides[0].app.sent, [(2, true)][usize::from(lost)..]);
    }
}

#[test]
fn so_near_the_end_one_acknowledgement_will_do() {
    let mut net = acquainted();
    let (request, train) = announced(&mut net);
    net.deliver(1, &request);
    let mut segments = train;
    let mut answered = Vec::new();
    while !segments.is_empty() {
        for segment in std::mem::take(&mut segments) {
            net.deliver(1, &[segment]);
            let answers = net.outgoing(1);
            answered.push(!answers.is_empty());
            net.deliver(0, &answers);
        }
        segments = net.outgoing(0);
    }
    // An eighth of the window of 44 packets is 5.
    let (before, end) = answered.split_at(answered.len() - 6);
    assert!(before.windows(5).all(|five| five.contains(&true)), "{before:?}");
    assert_eq!(end, [false, false, false, false, false, true], "{before:?}");
    assert_eq!(net.sides[0].app.sent, [(2, true)]);
}
