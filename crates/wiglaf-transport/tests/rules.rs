//! Scenarios in virtual time, one per rule of docs/protocol.md and some more.
//!
//! A [`Net`] joins two transports; tests see every datagram and may drop,
//! hold or forge any.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use wiglaf_transport::limits::{
    ACK_DELAY_MAX, BURST_GAP, BURST_MIN, CREDIT_GROWTH_LEN_MAX, CREDIT_GROWTH_MAX,
    CREDIT_GROWTH_TOTAL_MAX, CREDIT_INITIAL, CREDIT_PER_MESSAGE, EAGER_LEN_MAX, ORDERED_WINDOW,
    OTHER_WAY_EVERY, PTO_MIN, UNASKED_LEN_MAX,
};
use wiglaf_transport::{
    Config, Gone, Instant, Mark, Path, PeerId, Posted, SendError, Sink, Source, Transport, Wanted,
};
use wiglaf_wire::encrypted::{self, JobCipher, TAG_LEN};
use wiglaf_wire::{
    Class, DELAY_LONG, DELAY_TWICE, DELAY_UNKNOWN, Envelope, Epoch, HEADER_LEN, Header, JobKey,
    Kind, Pull, Record, Records, SEGMENT_PREFIX_LEN, Segment, Transfer, open, seal,
};

const KEY: JobKey = JobKey([5; 16]);

/// What an endpoint's application saw.
#[derive(Default)]
struct App {
    /// Keep eager messages instead of consuming them.
    hoard: bool,
    /// Pull announced messages at once.
    pull: bool,
    /// Tags in order of arrival.
    tags: Vec<u64>,
    requests: Vec<u32>,
    segments: Vec<(u64, usize)>,
    /// How much of a message in parts is here.
    in_parts: u64,
    pulled: Vec<bool>,
    sent: Vec<(u64, bool)>,
    gone: Vec<Gone>,
}

impl Sink for App {
    fn message(&mut self, _: PeerId, envelope: &Envelope, payload: &[u8]) -> bool {
        check(0, payload);
        self.tags.push(envelope.tag);
        !self.hoard
    }
    fn first(&mut self, _: PeerId, envelope: &Envelope, _: u64, payload: &[u8]) {
        check(0, payload);
        self.in_parts = payload.len() as u64;
        self.tags.push(envelope.tag);
    }
    fn next(&mut self, _: PeerId, payload: &[u8], _: bool) -> bool {
        check(self.in_parts, payload);
        self.in_parts += payload.len() as u64;
        !self.hoard
    }
    fn request(&mut self, _: PeerId, envelope: &Envelope, total: u64, id: u32) -> Option<Wanted> {
        self.tags.push(envelope.tag);
        self.requests.push(id);
        self.pull.then_some(Wanted { len: total, token: 1 })
    }
    fn segment(&mut self, _: u64, offset: u64, payload: &[u8]) {
        check(offset, payload);
        self.segments.push((offset, payload.len()));
    }
    fn pulled(&mut self, _: u64, complete: bool) {
        self.pulled.push(complete);
    }
    fn sent(&mut self, token: u64, complete: bool) {
        self.sent.push((token, complete));
    }
    fn gone(&mut self, _: PeerId, why: Gone) {
        self.gone.push(why);
    }
}

impl Source for App {
    fn read(&self, _: u64, offset: u64, out: &mut [u8]) {
        out.iter_mut().zip(offset..).for_each(|(byte, at)| *byte = byte_at(at));
    }
}

/// What stands at that place of each message; no datagram's length is a multiple of the period.
fn byte_at(at: u64) -> u8 {
    (at % 251) as u8
}

fn check(offset: u64, payload: &[u8]) {
    let is_right = payload.iter().zip(offset..).all(|(byte, at)| *byte == byte_at(at));
    assert!(is_right, "bytes of another place than {offset}");
}

struct Side {
    transport: Transport,
    app: App,
    epoch: Epoch,
    peer: PeerId,
}

/// Two endpoints, `a` (0) and `b` (1), and the datagrams between them.
struct Net {
    now: Instant,
    sides: [Side; 2],
}

fn address(side: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, side as u8 + 1), 7000)
}

const PATH: Path = Path {
    frame_len_max: 1472,
    latency_train_max: 1,
    bulk_train_max: 8,
    bulk_window_len: 64 * 1024,
    bulk_port: 7001,
};

fn transport(epoch: u64, silence_limit: Duration, encrypt: bool) -> Transport {
    transport_on(PATH, epoch, silence_limit, encrypt)
}

fn transport_on(path: Path, epoch: u64, silence_limit: Duration, encrypt: bool) -> Transport {
    Transport::new(Config {
        epoch: Epoch(epoch),
        key: KEY,
        paths: vec![path],
        silence_limit,
        flow_control: true,
        encrypt,
    })
}

impl Net {
    fn new() -> Self {
        Self::with_silence_limit(Duration::from_secs(60))
    }

    /// The port of single datagrams takes trains of three, and each knows the other's for longer ones.
    fn with_short_trains() -> Self {
        let mut net = Self::new();
        for (side, me) in net.sides.iter_mut().zip(0..) {
            let path = Path { latency_train_max: 3, ..PATH };
            side.transport = transport_on(path, 10 + me, Duration::from_secs(60), false);
            side.peer = side.transport.connect(address(1 - me as usize), Epoch(11 - me), 0);
        }
        net.exchange(0, Duration::from_micros(10));
        net
    }

    fn with_silence_limit(limit: Duration) -> Self {
        Self::with(limit, [false; 2])
    }

    fn encrypted(encrypt: [bool; 2]) -> Self {
        Self::with(Duration::from_secs(60), encrypt)
    }

    fn with(limit: Duration, encrypt: [bool; 2]) -> Self {
        let side = |me: usize| {
            let mut transport = transport(10 + me as u64, limit, encrypt[me]);
            let peer = transport.connect(address(1 - me), Epoch(11 - me as u64), 0);
            let app = App { pull: true, ..App::default() };
            Side { transport, app, epoch: Epoch(10 + me as u64), peer }
        };
        Self { now: Instant::from_nanos(1), sides: [side(0), side(1)] }
    }

    fn send(&mut self, from: usize, tag: u64, len: usize) -> Result<Posted, SendError> {
        let side = &mut self.sides[from];
        let envelope = Envelope::new(Class::Tagged, tag, None);
        side.transport.send(side.peer, envelope, len, tag, true, &side.app)
    }

    /// A message of `a` of which nobody awaits that it arrives.
    fn send_unreported(&mut self, tag: u64, len: usize) {
        let a = &mut self.sides[0];
        let envelope = Envelope::new(Class::Tagged, tag, None);
        a.transport.send(a.peer, envelope, len, tag, false, &a.app).unwrap();
    }

    /// A message and its answer, each `way` under way.
    fn exchange(&mut self, tag: u64, way: Duration) {
        for from in [0, 1] {
            self.send(from, tag, 8).unwrap();
            let out = self.outgoing(from);
            self.now = self.now + way;
            for side in &mut self.sides {
                side.transport.looked(Instant::from_nanos(self.now.as_nanos() - 1));
                side.transport.handle_timeout(self.now, &mut side.app);
            }
            self.deliver(1 - from, &out);
        }
        let _ = (self.outgoing(0), self.outgoing(1));
    }

    /// All that `from` wants to send now.
    fn outgoing(&mut self, from: usize) -> Vec<Vec<u8>> {
        self.trains(from).into_iter().flat_map(|(_, train)| train).collect()
    }

    /// The same, train by train.
    fn trains(&mut self, from: usize) -> Vec<(Option<Mark>, Vec<Vec<u8>>)> {
        let side = &mut self.sides[from];
        let mut out = vec![0; 8 * 1472];
        let mut all = Vec::new();
        while let Some(t) = side.transport.poll_transmit(self.now, &side.app, &mut out) {
            let datagrams = out[..t.len].chunks(t.segment_len).map(<[u8]>::to_vec);
            all.push((t.mark, datagrams.collect()));
        }
        all
    }

    /// Delivers all that `a` wants to send now, train by train: to which port, whether on the bulk
    /// lane, and how many datagrams.
    fn pass_on(&mut self) -> Vec<(u16, bool, usize)> {
        let [side, other] = &mut self.sides;
        let mut out = vec![0; 8 * 1472];
        let mut sent = Vec::new();
        while let Some(t) = side.transport.poll_transmit(self.now, &side.app, &mut out) {
            sent.push((t.to.port(), t.bulk, t.len.div_ceil(t.segment_len)));
            for datagram in out[..t.len].chunks(t.segment_len) {
                let app = &mut other.app;
                other.transport.handle_datagram(self.now, address(0), 0, datagram, app);
            }
        }
        sent
    }

    fn deliver(&mut self, to: usize, datagrams: &[Vec<u8>]) {
        let from = address(1 - to);
        let side = &mut self.sides[to];
        for datagram in datagrams {
            side.transport.handle_datagram(self.now, from, 0, datagram, &mut side.app);
        }
    }

    /// Exchanges everything until both fall silent.
    fn settle(&mut self) {
        for _ in 0..1000 {
            let (a, b) = (self.outgoing(0), self.outgoing(1));
            if a.is_empty() && b.is_empty() {
                return;
            }
            self.deliver(1, &a);
            self.deliver(0, &b);
        }
        panic!("two endpoints never fall silent");
    }

    /// How much of `a`'s unasked messages may lie at `b`.
    fn granted(&self) -> u64 {
        let [_, b] = &self.sides;
        b.transport.peer(b.peer).unwrap().credit_granted
    }

    fn advance(&mut self, by: Duration) {
        self.now = self.now + by;
        for side in &mut self.sides {
            side.transport.handle_timeout(self.now, &mut side.app);
        }
    }

    /// A datagram that a forger with the key could make.
    fn forge(&self, to: usize, header: Header, body: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; HEADER_LEN];
        datagram.extend_from_slice(body);
        let source = self.sides[1 - to].epoch;
        seal(&Header { source, ..header }, &KEY, &mut datagram);
        datagram
    }

    fn ordered(&self, to: usize, sequence: u64, record: &Record<'_>) -> Vec<u8> {
        let mut body = vec![0; record.len()];
        record.emit(&mut body);
        let header = Header { destination: self.sides[to].epoch, sequence, ..FIRST };
        self.forge(to, header, &body)
    }
}

/// The first datagram of somebody who has heard nothing.
const FIRST: Header = Header {
    kind: Kind::Ordered,
    source: Epoch::UNKNOWN,
    destination: Epoch::UNKNOWN,
    sequence: 0,
    ack: 0,
    credit: CREDIT_INITIAL as u32,
    ack_delay_us: 0,
    bulk_port: 7001,
};

fn header_of(datagram: &[u8]) -> Header {
    open(&KEY, datagram).unwrap().0
}

fn records_of(datagram: &[u8]) -> Vec<Record<'_>> {
    Records::new(open(&KEY, datagram).unwrap().1).collect::<Result<_, _>>().unwrap()
}

/// How many messages a datagram carries.
fn messages_of(datagram: &[u8]) -> usize {
    records_of(datagram).iter().filter(|record| record.is_ordered()).count()
}

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

/// Which is the better one is for who writes trains to say; the other is not forgotten.
#[test]
fn messages_between_eager_and_long_ones_have_two_ways() {
    let mut net = Net::with_short_trains();
    let mut tag = 0;
    let mut ways = |net: &mut Net, len, count: usize| -> Vec<(Posted, bool)> {
        let ways = (0..count).map(|_| {
            tag += 1;
            let posted = net.send(0, tag, len).expect("taken");
            let by_bulk = net.pass_on().iter().any(|(_, by_bulk, _)| *by_bulk);
            net.settle();
            net.advance(Duration::from_millis(1));
            net.settle();
            (posted, by_bulk)
        });
        ways.collect()
    };
    const LEN: usize = EAGER_LEN_MAX + 1;
    let every = usize::from(OTHER_WAY_EVERY);
    let (unasked, eager) = ((Posted::Pending, true), (Posted::Buffered, false));
    let tally = |ways: &[(Posted, bool)], way| ways.iter().filter(|seen| **seen == way).count();
    ways(&mut net, LEN, 1); // the window grows
    let seen = ways(&mut net, LEN, every);
    assert_eq!((tally(&seen, unasked), tally(&seen, eager)), (every - 1, 1), "{seen:?}");
    net.sides[0].transport.prefer_eager(true);
    let seen = ways(&mut net, LEN, every);
    assert_eq!((tally(&seen, unasked), tally(&seen, eager)), (1, every - 1), "{seen:?}");
    assert_eq!(ways(&mut net, UNASKED_LEN_MAX as usize + 1, 1), [unasked], "too long");
    // Where the port of single datagrams takes no trains there is no such choice.
    net.sides[0].transport.set_latency_train_max(0, 1);
    assert_eq!(tally(&ways(&mut net, LEN, every), unasked), every);
    assert_eq!(net.sides[1].app.tags[1..], (1..=tag).collect::<Vec<_>>());
}

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

/// Messages from number 0 up to `last`, each delivered and answered before the next; what was sent.
fn each_answered(net: &mut Net, last: u64) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for tag in 0..=last {
        net.send(0, tag, 8).unwrap();
        packets.extend(net.outgoing(0));
        net.deliver(1, &packets[tag as usize..]);
        net.advance(Duration::from_millis(1));
        let answer = net.outgoing(1);
        net.deliver(0, &answer);
    }
    packets
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
        announced_of(&mut net, 60, 60_000);
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
    // The same bytes twice; an end of the grants grants none.
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

/// A datagram that a third endpoint makes for `to`.
fn of_a_third(net: &Net, to: usize, kind: Kind, sequence: u64, body: &[u8]) -> Vec<u8> {
    let mut datagram = [&[0; HEADER_LEN], body].concat();
    let (source, destination) = (Epoch(12), net.sides[to].epoch);
    let header = Header { kind, source, destination, sequence, bulk_port: 7001, ..Header::EMPTY };
    seal(&header, &KEY, &mut datagram);
    datagram
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
fn a_port_without_listener_ends_everything_pending() {
    let mut net = Net::new();
    net.send(1, 9, 8).unwrap();
    net.settle(); // b was there once
    net.send(0, 1, 8).unwrap();
    net.send(0, 2, 200_000).unwrap();
    let refused = net.outgoing(0);
    let a = &mut net.sides[0];
    a.transport.handle_unreachable(net.now, address(1), Some(&refused[0]), &mut a.app);
    assert_eq!(a.app.sent, [(1, false), (2, false)]);
    assert_eq!(a.app.gone, [Gone::Unreachable]);
    assert_eq!(net.send(0, 3, 8), Err(SendError::PeerGone));
}

#[test]
fn silence_has_a_limit_of_its_own() {
    let mut net = Net::with_silence_limit(Duration::from_secs(2));
    net.send(0, 1, 8).unwrap();
    for _ in 0..19 {
        net.outgoing(0);
        net.advance(Duration::from_millis(100));
    }
    assert!(net.sides[0].app.gone.is_empty());
    for _ in 0..5 {
        net.outgoing(0);
        net.advance(Duration::from_millis(100));
    }
    assert_eq!(net.sides[0].app.gone, [Gone::Silent]);
    assert_eq!(net.sides[0].app.sent, [(1, false)]);
}

/// From now on `who` hears nothing: it asks after a second, and gives up in time.
fn asks_and_gives_up(net: &mut Net, who: usize) {
    let mut asked_at = None;
    for tenths in 1..=60 {
        net.advance(Duration::from_millis(100));
        for datagram in net.outgoing(who) {
            if header_of(&datagram).kind == Kind::Ordered {
                assert_eq!(messages_of(&datagram), 0);
                asked_at.get_or_insert(tenths);
            }
        }
    }
    let asked_at = asked_at.expect("it asks");
    assert!((9..=21).contains(&asked_at), "after {asked_at} tenths of a second");
    assert_eq!(net.sides[who].app.gone, [Gone::Silent]);
}

/// A net in which `a` has announced a message that `b` does not pull, and all else is done.
fn without_a_grant() -> Net {
    let mut net = Net::with_silence_limit(Duration::from_secs(2));
    net.sides[1].app.pull = false;
    net.send(0, 1, LONG).unwrap();
    net.settle();
    net.advance(ACK_DELAY_MAX);
    net.settle();
    net
}

/// What had gone to the peer is acknowledged: there is no packet to send again.
#[test]
fn who_awaits_a_grant_bytes_or_the_rest_of_a_message_asks_when_there_is_silence() {
    // A grant.
    let mut net = without_a_grant();
    assert!(net.sides[0].app.sent.is_empty());
    asks_and_gives_up(&mut net, 0);
    assert_eq!(net.sides[0].app.sent, [(1, false)]);
    // Bytes that it has granted.
    let mut net = Net::with_silence_limit(Duration::from_secs(2));
    net.send(0, 1, LONG).unwrap();
    let request = net.outgoing(0);
    net.deliver(1, &request);
    let grant = net.outgoing(1);
    net.deliver(0, &grant);
    let bytes = net.outgoing(0);
    net.deliver(1, &bytes[..1]); // acknowledges the grant
    asks_and_gives_up(&mut net, 1);
    assert_eq!(net.sides[1].app.pulled, [false]);
    // The rest of a message in parts.
    let mut net = Net::with_silence_limit(Duration::from_secs(2));
    net.send(0, 1, 5_000).unwrap();
    let parts = net.outgoing(0);
    net.deliver(1, &parts[..1]);
    asks_and_gives_up(&mut net, 1);
}

/// Room in a link, memory that is free again, and so on: nothing of it comes from the peer.
#[test]
fn who_looks_for_something_to_send_and_finds_nothing_has_heard_nobody() {
    let mut net = without_a_grant();
    for _ in 0..60 {
        net.advance(Duration::from_millis(100));
        net.sides[0].transport.release(PeerId(0));
        net.outgoing(0); // lost
    }
    assert_eq!(net.sides[0].app.gone, [Gone::Silent]);
}

/// A stopped process, a debugger, a virtual machine that stood still.
#[test]
fn who_was_stopped_does_not_take_its_peers_for_silent() {
    let mut net = Net::with_silence_limit(Duration::from_secs(2));
    net.send(0, 1, 8).unwrap();
    net.outgoing(0); // lost
    net.advance(Duration::from_secs(3600));
    assert!(net.sides[0].app.gone.is_empty());
    net.settle();
    net.advance(Duration::from_millis(1));
    net.settle();
    assert_eq!(net.sides[1].app.tags, [1]);
    assert_eq!(net.sides[0].app.sent, [(1, true)]);
}

#[test]
fn an_idle_session_wants_nothing() {
    let mut net = Net::new();
    net.send(0, 1, 300_000).unwrap();
    net.settle();
    net.advance(Duration::from_millis(1));
    net.settle();
    net.advance(Duration::from_secs(3600));
    net.settle();
    assert!(net.sides.iter().all(|s| s.transport.poll_timeout().is_none()));
    assert!(net.sides.iter().all(|s| s.transport.stats().probes == 0));
    assert!(net.sides.iter().all(|s| s.transport.is_drained()));
}

#[test]
fn a_peer_that_has_not_started_yet_is_waited_for() {
    let mut net = Net::new();
    net.send(0, 1, 8).unwrap();
    let mut refused = Vec::new();
    for _ in 0..9 {
        refused.extend(net.outgoing(0));
        let a = &mut net.sides[0];
        a.transport.handle_unreachable(net.now, address(1), Some(&refused[0]), &mut a.app);
        assert!(a.app.gone.is_empty());
        net.advance(Duration::from_secs(1));
    }
    let now_it_is_there = net.outgoing(0);
    net.deliver(1, &now_it_is_there);
    assert_eq!(net.sides[1].app.tags, [1]);
    // One that never comes is given up.
    net.advance(Duration::from_secs(1));
    let a = &mut net.sides[0];
    a.transport.handle_unreachable(net.now, address(1), Some(&refused[0]), &mut a.app);
    assert_eq!(a.app.gone, [Gone::Unreachable]);
}

#[test]
fn an_announced_message_without_bytes_completes_both_sides() {
    let mut net = Net::new();
    net.sides[1].app.hoard = true;
    let mut tag = 0;
    while net.send(0, tag, 0) == Ok(Posted::Buffered) {
        tag += 1;
        net.settle();
    }
    net.settle();
    assert_eq!(net.sides[1].app.pulled, [true]);
    assert!(net.sides[0].app.sent.contains(&(tag, true)));
}

/// Two endpoints that look at their links all the time, but for the time that is given.
#[test]
fn an_ack_delay_reaches_back_to_the_last_look() {
    let mut net = Net::new();
    net.sides[1].transport.looked(net.now);
    let last_look = net.now;
    net.send(0, 1, 8).unwrap();
    let out = net.outgoing(0);
    net.now = net.now + Duration::from_micros(700);
    net.deliver(1, &out);
    net.send(1, 2, 8).unwrap();
    let answer = net.outgoing(1);
    let (header, _) = open(&KEY, &answer[0]).unwrap();
    let waited = net.now.since(last_look).as_micros();
    assert_eq!(u128::from(header.ack_delay_us), waited);
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
                net.sides[to].transport.looked(Instant::from_nanos(net.now.as_nanos() - 1));
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
                side.transport.looked(net.now);
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
        side.transport.looked(net.now);
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
fn an_ack_delay_is_exact_when_the_arrival_is_known() {
    let us = Duration::from_micros;
    // The last look was 500 us ago.
    for (waited, exact, delay_us) in [(None, false, 500 + 60), (Some(us(200)), true, 200 + 60)] {
        let mut net = Net::new();
        net.exchange(0, us(10));
        for tag in 1..200 {
            net.send(0, tag, 1000).unwrap();
        }
        net.sides[1].transport.looked(net.now);
        let out = net.outgoing(0);
        net.now = net.now + us(500);
        for datagram in &out {
            let side = &mut net.sides[1];
            let (from, train) = ((address(0), 0), (datagram.as_slice(), datagram.len()));
            side.transport.handle_train(net.now, from, train, waited, &mut side.app);
        }
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
        for datagram in &out {
            let side = &mut net.sides[1];
            let (from, train) = ((address(0), 0), (datagram.as_slice(), datagram.len()));
            side.transport.handle_train(net.now, from, train, Some(away), &mut side.app);
        }
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

#[test]
fn what_is_recorded_and_sent_again_changes_nothing() {
    replay(Net::new());
}

#[test]
fn what_is_recorded_encrypted_and_sent_again_changes_nothing() {
    replay(Net::encrypted([true; 2]));
}

/// Everything that crossed the wire comes again, in every order of kinds, when 32 bits of credit
/// and acknowledgements would mean something later.
fn replay(mut net: Net) {
    let mut recorded = [Vec::new(), Vec::new()];
    for tag in 0..40 {
        net.send(0, tag, 8).unwrap();
        net.send(1, tag, 200_000).unwrap();
        for _ in 0..4 {
            for (from, kept) in recorded.iter_mut().enumerate() {
                let datagrams = net.outgoing(from);
                net.deliver(1 - from, &datagrams);
                kept.extend(datagrams);
            }
            net.advance(Duration::from_micros(100));
        }
    }
    let kinds = |kind| recorded[1].iter().filter(|d| d[2] & 0x7f == kind).count();
    assert!(kinds(1) > 0 && kinds(2) > 0 && recorded.iter().flatten().any(|d| d[2] & 0x7f == 3));
    net.settle();
    let seen = |net: &Net| {
        net.sides.each_ref().map(|side| {
            let peer = side.transport.peer(side.peer).unwrap();
            let app = (side.app.tags.clone(), side.app.segments.len(), side.app.sent.clone());
            (app, peer.credit_left, peer.in_flight, peer.traffic, side.app.gone.clone())
        })
    };
    let before = seen(&net);
    let refused = |net: &Net| {
        let stats = net.sides.each_ref().map(|side| *side.transport.stats());
        stats.map(|s| s.duplicates + s.drop_replayed)
    };
    let old = refused(&net);
    net.deliver(1, &recorded[0]);
    net.deliver(0, &recorded[1]);
    let new = refused(&net);
    assert_eq!(new[0] - old[0], recorded[1].len() as u64);
    assert_eq!(new[1] - old[1], recorded[0].len() as u64);
    assert_eq!(seen(&net), before);
}

/// The count of each encrypted datagram: with its sender's epoch it must be new.
fn count_of(datagram: &[u8]) -> (u64, u64) {
    let (header, count) = encrypted::read(datagram).unwrap();
    (header.source.0, count)
}

#[test]
fn no_two_datagrams_have_the_same_count_whatever_is_sent_again() {
    let mut net = Net::encrypted([true; 2]);
    let (mut counts, mut packets) = (HashSet::new(), HashSet::new());
    let mut again = 0;
    for tag in 0..40 {
        net.send(0, tag, 20_000).unwrap();
        net.send(1, tag, 200_000).unwrap();
        for turn in 0..6 {
            for from in [0, 1] {
                let datagrams = net.outgoing(from);
                for datagram in &datagrams {
                    assert!(datagram.len() <= 1472);
                    assert!(counts.insert(count_of(datagram)), "a count comes twice");
                    let (header, _) = encrypted::read(datagram).unwrap();
                    let packet = (from, datagram[2], header.sequence);
                    again += u64::from(!packets.insert(packet));
                }
                // Every fourth turn is lost.
                if (tag + turn) % 4 != 0 {
                    net.deliver(1 - from, &datagrams);
                }
            }
            net.advance(Duration::from_millis(1));
        }
    }
    assert!(again > 0, "nothing was sent again");
    for _ in 0..100 {
        net.settle();
        net.advance(Duration::from_millis(200));
    }
    assert_eq!(
        net.sides[1].app.tags.len(),
        40,
        "{:?}",
        net.sides.each_ref().map(|side| *side.transport.stats())
    );
}

#[test]
fn no_two_peers_are_sent_the_same_count() {
    let mut hub = transport(10, Duration::from_secs(60), true);
    let (app, mut counts) = (App::default(), HashSet::new());
    let mut out = vec![0; 8 * 1472];
    for turn in 0..20 {
        for peer in 1..4 {
            let peer = hub.connect(address(peer), Epoch(10 + peer as u64), 0);
            let envelope = Envelope::new(Class::Tagged, turn, None);
            hub.send(peer, envelope, 5_000, turn, false, &app).unwrap();
        }
        while let Some(t) = hub.poll_transmit(Instant::from_nanos(turn + 1), &app, &mut out) {
            for datagram in out[..t.len].chunks(t.segment_len) {
                assert!(counts.insert(count_of(datagram)), "a count comes twice");
            }
        }
    }
    assert!(counts.len() > 3 * 60, "{} datagrams", counts.len());
}

#[test]
fn who_does_not_encrypt_is_refused_by_who_does() {
    for encrypts in [0, 1] {
        let mut net = Net::encrypted([encrypts == 0, encrypts == 1]);
        for from in [0, 1] {
            net.send(from, 1, 8).unwrap();
            let datagrams = net.outgoing(from);
            net.deliver(1 - from, &datagrams);
        }
        for side in &net.sides {
            assert_eq!(side.transport.stats().drop_encryption, 1);
            assert!(side.app.tags.is_empty());
        }
    }
}

/// The number may be new again by then: it has 40 bits.
#[test]
fn a_count_far_behind_is_refused() {
    let mut net = Net::encrypted([true; 2]);
    let cipher = JobCipher::new(&KEY).of_sender(net.sides[0].epoch);
    let header = Header {
        kind: Kind::Ordered,
        source: net.sides[0].epoch,
        destination: net.sides[1].epoch,
        sequence: 0,
        ack: 0,
        credit: CREDIT_INITIAL as u32,
        ack_delay_us: 0,
        bulk_port: 7001,
    };
    let sealed = |sequence, count| {
        let mut datagram = vec![0; HEADER_LEN + TAG_LEN];
        cipher.seal(&Header { sequence, ..header }, count, &mut datagram);
        datagram
    };
    net.deliver(1, &[sealed(0, (1 << 38) + 2), sealed(1, 2), sealed(2, 1)]);
    let stats = net.sides[1].transport.stats();
    assert_eq!((stats.drop_replayed, stats.drop_proof), (1, 0));
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
    let changed = |at: usize| {
        let mut front = under_way[0][..HEADER_LEN].to_vec();
        front[at] ^= 1;
        front
    };
    assert_eq!(report(address(1), &[]), (0, 1));
    assert_eq!(report(address(1), &old[0]), (0, 2)); // acknowledged
    assert_eq!(report(address(1), &changed(16)), (0, 3)); // not ours
    assert_eq!(report(address(1), &changed(24)), (0, 4)); // not to it
    assert_eq!(report(address(1), &changed(32)), (0, 5)); // not sent yet
    assert_eq!(report(address(1), &changed(3)), (0, 6));
    assert_eq!(report(address(1), &under_way[0][..HEADER_LEN - 1]), (0, 7));
    assert_eq!(report("10.0.0.9:7000".parse().unwrap(), &under_way[0]), (0, 8));
    // Its port was damaged on the way there.
    assert_eq!(report("10.0.0.2:7008".parse().unwrap(), &under_way[0]), (0, 9));
    // Of that number nothing is under way on the bulk lane, and control datagrams are not answered.
    for (kind, refused) in [(2, 10), (3, 11)] {
        let mut front = under_way[0][..HEADER_LEN].to_vec();
        front[2] = kind;
        assert_eq!(report(address(1), &front), (0, refused), "kind {kind}");
    }
    assert_eq!(report(address(1), &under_way[0][..HEADER_LEN]), (1, 11));
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

/// Two that have exchanged a long message before: both know what the other's bulk lane takes.
fn acquainted() -> Net {
    let mut net = Net::new();
    net.send(0, 1, LONG).unwrap();
    net.settle();
    net.sides[0].app.sent.clear();
    net.sides[1].app = App { pull: true, ..App::default() };
    net
}

/// A message that is announced, in bytes.
const LONG: usize = 200_000;

/// What is announced to follow unasked.
fn unasked_len(datagrams: &[Vec<u8>]) -> u32 {
    let requests = datagrams.iter().filter(|d| header_of(d).kind == Kind::Ordered);
    let lens = requests.flat_map(|d| records_of(d)).filter_map(|record| match record {
        Record::Request { unasked_len, .. } => Some(unasked_len),
        _ => None,
    });
    lens.sum()
}

fn pull_in(datagrams: &[Vec<u8>]) -> Option<Pull> {
    let others = datagrams.iter().filter(|d| header_of(d).kind == Kind::Ordered);
    others.flat_map(|d| records_of(d)).find_map(|record| match record {
        Record::Pull(pull) => Some(pull),
        _ => None,
    })
}

/// The receiver pulls so many bytes of the message that was announced to it as number `which`.
fn pull_announced(net: &mut Net, which: usize, len: u64) {
    let side = &mut net.sides[1];
    assert!(side.transport.pull(side.peer, side.app.requests[which], len, 2));
}

/// The bytes of a message that `app` got, if it got each once.
fn got(app: &App) -> usize {
    let mut segments = app.segments.clone();
    segments.sort_unstable();
    segments.iter().fold(0, |at, (offset, len)| {
        assert_eq!(*offset, at as u64, "a byte came twice, or never");
        at + len
    })
}

/// Announces a long message; the announcement, and what goes with it.
fn announced(net: &mut Net) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    net.send(0, 2, LONG).unwrap();
    net.outgoing(0).into_iter().partition(|d| header_of(d).kind == Kind::Ordered)
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
    let path =
        Path { frame_len_max: 65_507, bulk_train_max: 64, bulk_window_len: 16 << 20, ..PATH };
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
    // The same bytes twice, under another number.
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
fn with_wide_windows() -> Net {
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
