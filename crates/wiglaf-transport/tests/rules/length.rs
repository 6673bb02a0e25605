//! How long datagrams to a peer may be: probes, and what they find out.

use std::time::Duration;

use wiglaf_transport::{Gone, Path, WayNews};
use wiglaf_wire::{Header, Kind, PART_STEP, Part, Record, Trial, lane};

use crate::net::{FIRST, LONG, Net, PATH, address, got, header_of, records_of, transport_on};

/// An interface with an MTU of 9000.
const JUMBO: Path = Path { frame_len_max: 8972, bulk_train_max: 7, ..PATH };
const SECOND: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(1);

/// Two endpoints on a wire that carries only so much.
struct Wire {
    net: Net,
    /// Longest datagram that arrives, to the port of single ones and to the bulk port.
    carries: [usize; 2],
    /// FITS do not arrive, as if nobody knew of probes.
    is_old: bool,
    /// Parts do not arrive, as if nobody knew of them.
    has_no_parts: bool,
    /// `b` stands still.
    is_stopped: bool,
    /// Longest datagram of each side that was no probe.
    longest: [usize; 2],
    /// Probes of each side, and datagrams by the bulk lane since it was last set to 0.
    probes: [usize; 2],
    by_bulk: usize,
}

impl Wire {
    fn new(paths: [Path; 2], carries: [usize; 2]) -> Self {
        let mut net = Net::new();
        for (me, path) in paths.into_iter().enumerate() {
            let side = &mut net.sides[me];
            side.transport = transport_on(path, 10 + me as u64, 60 * SECOND, false);
            side.peer = side.transport.connect(address(1 - me), side_epoch(1 - me), 0);
        }
        let (is_old, has_no_parts, is_stopped) = (false, false, false);
        let (longest, probes, by_bulk) = ([0; 2], [0; 2], 0);
        Self { net, carries, is_old, has_no_parts, is_stopped, longest, probes, by_bulk }
    }

    fn pass(&mut self, from: usize) -> bool {
        let now = self.net.now;
        let side = &mut self.net.sides[from];
        let mut out = vec![0; 1 << 16];
        let (mut any, mut arrived) = (false, Vec::new());
        while let Some(t) = side.transport.poll_transmit(now, &side.app, &mut out) {
            any = true;
            self.by_bulk += usize::from(t.bulk);
            let carries = self.carries[usize::from(t.to.port() == PATH.bulk_port)];
            for datagram in out[..t.len].chunks(t.segment_len) {
                if t.is_probe {
                    self.probes[from] += 1;
                } else {
                    self.longest[from] = self.longest[from].max(datagram.len());
                }
                let is_dropped =
                    self.is_old && has_fits(datagram) || self.has_no_parts && has_part(datagram);
                if datagram.len() <= carries && !is_dropped {
                    arrived.push(datagram.to_vec());
                }
            }
        }
        if !(self.is_stopped && from == 0) {
            self.net.deliver(1 - from, &arrived);
        }
        any
    }

    /// Lets so much time pass; stops as soon as `is_done`.
    fn run(&mut self, time: Duration, is_done: impl Fn(&Self) -> bool) {
        let end = self.net.now + time;
        while self.net.now < end && !is_done(self) {
            for _ in 0..1000 {
                let sent = self.pass(0) | (!self.is_stopped && self.pass(1));
                if !sent {
                    break;
                }
            }
            self.net.now = self.net.now + STEP;
            let count = if self.is_stopped { 1 } else { 2 };
            for side in &mut self.net.sides[..count] {
                side.transport.handle_timeout(self.net.now, &mut side.app);
            }
        }
    }

    /// Lets `a` send a long message, and checks each byte of it.
    fn carries_a_long_message(&mut self) {
        let before = self.net.sides[1].app.pulled.len();
        self.net.send(0, 7, LONG).unwrap();
        self.run(10 * SECOND, |wire| wire.net.sides[1].app.pulled.len() > before);
        let app = &mut self.net.sides[1].app;
        assert_eq!(app.pulled.last(), Some(&true), "the message has not come");
        assert_eq!(got(app), LONG);
        app.segments.clear();
    }

    fn news(&mut self, of: usize) -> Vec<WayNews> {
        let transport = &mut self.net.sides[of].transport;
        std::iter::from_fn(|| transport.take_way_news()).map(|(_, news)| news).collect()
    }
}

fn side_epoch(side: usize) -> wiglaf_wire::Epoch {
    wiglaf_wire::Epoch(10 + side as u64)
}

fn has_fits(datagram: &[u8]) -> bool {
    header_of(datagram).kind == Kind::Control
        && records_of(datagram).iter().any(|record| matches!(record, Record::Fits(_)))
}

fn has_part(datagram: &[u8]) -> bool {
    header_of(datagram).kind == Kind::Control
        && records_of(datagram).iter().any(|record| matches!(record, Record::Part(_)))
}

#[test]
fn longer_datagrams_go_only_after_probes_of_that_length_were_answered() {
    let mut wire = Wire::new([JUMBO; 2], [8972; 2]);
    // Nothing is known when the first goes, and `b` hears nobody that knows it.
    wire.net.send(0, 1, 100_000).unwrap();
    wire.pass(0);
    assert!(wire.longest[0] > 1400 && wire.longest[0] <= 1472, "{}", wire.longest[0]);
    assert_eq!(wire.probes, [0; 2]);
    wire.carries_a_long_message();
    wire.run(SECOND, |_| false);
    assert_eq!(wire.probes, [2; 2], "one to each port");
    wire.longest = [0; 2];
    wire.carries_a_long_message();
    assert_eq!(wire.longest[0], 8972);
    assert!(wire.news(0).is_empty() && wire.news(1).is_empty());
}

#[test]
fn what_a_wire_does_not_carry_is_only_sent_as_a_probe_and_told_once() {
    for carries in [1472, 4000] {
        let mut wire = Wire::new([JUMBO; 2], [carries; 2]);
        for _ in 0..20 {
            wire.carries_a_long_message();
            wire.run(SECOND, |_| false);
        }
        assert!(wire.longest[0] <= carries, "{} of {carries}", wire.longest[0]);
        assert!(wire.longest[0] + 128 > carries, "{} of {carries}", wire.longest[0]);
        let news = wire.news(0);
        let [WayNews::Narrow { frame_len, own_len_max: 8972, peer_len_max: 8972 }] = news[..]
        else {
            panic!("{news:?}")
        };
        assert_eq!(frame_len, wire.longest[0]);
        assert!(wire.probes[0] < 100, "{} probes", wire.probes[0]);
    }
}

#[test]
fn a_peer_with_a_shorter_mtu_is_sent_no_longer_datagrams_than_it_says() {
    let mut wire = Wire::new([JUMBO, PATH], [1472; 2]);
    wire.carries_a_long_message();
    wire.run(10 * ANSWER, |_| false);
    let narrow = WayNews::Narrow { frame_len: 1472, own_len_max: 8972, peer_len_max: 1472 };
    assert_eq!((wire.news(0), wire.news(1)), (vec![narrow], vec![]));
    assert_eq!(wire.probes, [2, 0], "it is not tried again");
}

/// Longer than an answer takes.
const ANSWER: Duration = Duration::from_millis(100);

#[test]
fn all_goes_to_the_other_port_when_nothing_gets_to_the_bulk_port() {
    for path in [PATH, JUMBO] {
        let mut wire = Wire::new([path; 2], [path.frame_len_max, 0]);
        wire.carries_a_long_message();
        assert!(wire.news(0).contains(&WayNews::BulkBlocked { port: PATH.bulk_port }));
        wire.run(10 * SECOND, |_| false);
        (wire.by_bulk, wire.longest) = (0, [0; 2]);
        wire.carries_a_long_message();
        assert_eq!((wire.by_bulk, wire.longest[0]), (0, path.frame_len_max));
        assert!(!wire.news(0).contains(&WayNews::BulkBlocked { port: PATH.bulk_port }), "twice");
    }
}

#[test]
fn a_peer_that_only_short_datagrams_get_to_is_given_up_within_seconds() {
    let mut wire = Wire::new([PATH; 2], [1000; 2]);
    wire.net.send(0, 1, 8).unwrap();
    wire.run(SECOND, |_| false);
    wire.net.sides[0].app.sent.clear();
    wire.net.send(0, 2, 4000).unwrap();
    wire.run(10 * SECOND, |wire| !wire.net.sides[0].app.gone.is_empty());
    assert_eq!(wire.net.sides[0].app.gone, [Gone::Blocked]);
    assert_eq!(wire.net.sides[0].app.sent, [(2, false)]);
}

#[test]
fn a_peer_that_stands_still_is_not_taken_for_one_that_nothing_gets_to() {
    let mut wire = Wire::new([PATH; 2], [1472; 2]);
    wire.carries_a_long_message();
    wire.is_stopped = true;
    wire.net.send(0, 2, LONG).unwrap();
    wire.run(30 * SECOND, |_| false);
    assert!(wire.net.sides[0].app.gone.is_empty());
    wire.is_stopped = false;
    wire.net.sides[1].app.segments.clear();
    wire.run(SECOND, |wire| wire.net.sides[1].app.pulled.len() == 2);
    assert_eq!(got(&wire.net.sides[1].app), LONG);
    assert!(wire.news(0).is_empty());
}

#[test]
fn a_peer_that_does_not_know_of_probes_is_sent_a_few_and_what_every_path_carries() {
    let mut wire = Wire::new([JUMBO; 2], [8972; 2]);
    wire.is_old = true;
    for _ in 0..40 {
        wire.carries_a_long_message();
        wire.run(SECOND, |_| false);
    }
    assert_eq!(wire.longest[0], 1472);
    assert!((2..=32).contains(&wire.probes[0]), "{}", wire.probes[0]);
    assert!(wire.news(0).is_empty(), "nobody knows what the path carries");
}

#[test]
fn a_probe_is_answered_if_it_has_the_length_that_it_states() {
    let mut net = Net::new();
    net.send(0, 1, 8).unwrap();
    net.settle();
    let probe = |net: &Net, sequence, stated: u16, padding: &[u8]| {
        let trial = Trial { lane: lane::BULK, len: stated, frame_len_max: 8972 };
        let mut body = vec![0; 12];
        Record::Probe(trial).emit(&mut body);
        let pad = Record::Padding(padding);
        body.resize(12 + pad.len(), 0);
        pad.emit(&mut body[12..]);
        let destination = net.sides[1].epoch;
        net.forge(1, Header { kind: Kind::Control, destination, sequence, ..FIRST }, &body)
    };
    let len = 48 + 12 + 4 + 100;
    for (sequence, stated) in [(100, len), (101, len + 1), (102, len - 1)] {
        let datagram = probe(&net, sequence, stated, &[0; 100]);
        net.deliver(1, &[datagram]);
        let answers = net.outgoing(1);
        if stated != len {
            assert!(answers.is_empty(), "{stated}");
            continue;
        }
        let fits = Record::Fits(Trial { lane: lane::BULK, len, frame_len_max: 1472 });
        assert!(records_of(&answers[0]).contains(&fits), "{:?}", records_of(&answers[0]));
    }
}

/// What `a` has under way and what it sends later arrives, whatever was made for the wider path.
#[test]
fn a_session_goes_on_where_its_path_narrows_under_way() {
    for carries in [1472, 4000] {
        let mut wire = Wire::new([JUMBO; 2], [8972; 2]);
        wire.carries_a_long_message();
        wire.run(SECOND, |_| false);
        assert_eq!(wire.longest[0], 8972);
        // Long messages on their way, eager ones and bodies that have no number yet.
        wire.net.send(0, 7, LONG).unwrap();
        for tag in 0..60 {
            wire.net.send(0, 100 + tag, 8_000).unwrap();
        }
        wire.pass(0);
        wire.carries = [carries; 2];
        let before = wire.net.sides[1].app.pulled.len();
        wire.run(20 * SECOND, |wire| wire.net.sides[0].app.sent.len() >= 62);
        assert_eq!(wire.net.sides[0].app.gone, []);
        let app = &mut wire.net.sides[1].app;
        assert_eq!(app.pulled[before..], [true], "the long message");
        assert_eq!(got(app), LONG);
        app.segments.clear();
        let tags: Vec<u64> = app.tags.iter().copied().filter(|tag| *tag >= 100).collect();
        assert_eq!(tags, (100..160).collect::<Vec<u64>>(), "in order, each once");
        wire.run(10 * SECOND, |_| false);
        let news = wire.news(0);
        let [WayNews::Narrow { frame_len, own_len_max: 8972, peer_len_max: 8972 }] = news[..]
        else {
            panic!("{news:?}")
        };
        assert!(frame_len <= carries && frame_len + 128 > carries, "{frame_len} of {carries}");
        assert_eq!(wire.net.sides[0].transport.stats().paths_narrowed, 1);
        wire.longest = [0; 2];
        wire.carries_a_long_message();
        assert_eq!(wire.longest[0], frame_len);
        assert_eq!(wire.net.sides[1].transport.stats().drop_part, 0);
    }
}

/// Puts part after part of packet `number` into control datagrams for `b`; what `b` refuses of each.
fn parts(net: &mut Net, lane: u8, parts: &[(u64, u16, u16, usize)]) -> Vec<(u64, u64)> {
    let destination = net.sides[1].epoch;
    let mut refused = Vec::new();
    for (number, total, offset, len) in parts {
        let payload = vec![0; *len];
        let part =
            Part { lane, number: *number, total: *total, offset: *offset, payload: &payload };
        let record = Record::Part(part);
        let mut body = vec![0; record.len()];
        record.emit(&mut body);
        let sequence = net.sides[1].transport.stats().datagrams_received + 50;
        let header = Header { kind: Kind::Control, destination, sequence, ..FIRST };
        let datagram = net.forge(1, header, &body);
        let before = *net.sides[1].transport.stats();
        net.deliver(1, &[datagram]);
        let after = net.sides[1].transport.stats();
        refused.push((after.drop_part - before.drop_part, after.drop_field - before.drop_field));
    }
    refused
}

#[test]
fn parts_that_no_sender_would_send_are_refused() {
    for lane in [lane::ORDERED, lane::BULK] {
        let mut net = Net::new();
        net.send(0, 1, 8).unwrap();
        net.settle();
        let next = u64::from(lane == lane::ORDERED);
        let step = PART_STEP as u16;
        for (part, refused) in [
            ((next + 1, 300, 0, 128), (1, 0)), // not the next
            ((next, 1425, 0, 128), (1, 0)),    // longer than b receives
            ((next, 300, 0, 128), (0, 0)),
            ((next, 301, step, 128), (1, 0)), // of another length than before
            ((next, 300, 1, 127), (0, 1)),
            ((next, 300, 0, 127), (0, 1)),
            ((next, 300, 0, 0), (0, 1)),
            ((next, 300, 2 * step, 45), (0, 1)), // behind its end
            ((next, 300, u16::MAX / step * step, 300), (0, 1)),
            ((next, 300, 0, 128), (0, 0)), // again
        ] {
            assert_eq!(parts(&mut net, lane, &[part]), [refused], "{part:?} of {lane}");
        }
    }
}

#[test]
fn a_packet_in_parts_is_taken_once_whatever_their_order() {
    let mut net = Net::new();
    net.send(0, 1, 8).unwrap();
    net.settle();
    let step = PART_STEP as u16;
    // 300 bytes of PADDING or what zeros are: a record that is refused by its type, once.
    let unknown = |net: &Net| net.sides[1].transport.stats().drop_unknown;
    parts(&mut net, lane::ORDERED, &[(1, 300, 2 * step, 44), (1, 300, 0, 128), (1, 300, 0, 128)]);
    assert_eq!(unknown(&net), 0);
    parts(&mut net, lane::ORDERED, &[(1, 300, step, 128)]);
    assert_eq!(unknown(&net), 1);
    let before = net.sides[1].transport.stats().duplicates;
    parts(&mut net, lane::ORDERED, &[(1, 300, step, 128), (1, 300, 0, 128)]);
    let stats = net.sides[1].transport.stats();
    assert_eq!((unknown(&net), stats.duplicates - before, stats.drop_part), (1, 2, 0));
}

#[test]
fn a_peer_that_takes_no_parts_is_given_up() {
    let mut wire = Wire::new([JUMBO; 2], [8972; 2]);
    wire.carries_a_long_message();
    wire.run(SECOND, |_| false);
    (wire.carries, wire.has_no_parts) = ([1472; 2], true);
    wire.net.sides[0].app.sent.clear();
    wire.net.send(0, 2, 8000).unwrap();
    wire.run(60 * SECOND, |wire| !wire.net.sides[0].app.gone.is_empty());
    assert_eq!(wire.net.sides[0].app.gone, [Gone::Blocked]);
    assert_eq!(wire.net.sides[0].app.sent, [(2, false)]);
}

#[test]
fn a_peer_that_stands_still_is_sent_parts_when_it_comes_back() {
    let mut wire = Wire::new([JUMBO; 2], [8972; 2]);
    wire.carries_a_long_message();
    wire.run(SECOND, |_| false);
    wire.carries = [1472; 2];
    wire.is_stopped = true;
    wire.net.send(0, 2, 8000).unwrap();
    wire.run(40 * SECOND, |_| false);
    assert_eq!(wire.net.sides[0].transport.stats().paths_narrowed, 0, "nobody has answered");
    wire.is_stopped = false;
    wire.run(10 * SECOND, |wire| wire.net.sides[1].app.tags.contains(&2));
    assert_eq!(wire.net.sides[0].app.gone, []);
    assert_eq!(wire.net.sides[1].app.tags.iter().filter(|tag| **tag == 2).count(), 1);
}
