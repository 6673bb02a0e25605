//! Two transports joined in virtual time, and what tests do with the datagrams between them.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use wiglaf_transport::limits::CREDIT_INITIAL;
use wiglaf_transport::{
    Config, Gone, Instant, Mark, Path, PeerId, Posted, SendError, Sink, Source, Transport, Wanted,
};
use wiglaf_wire::{
    Class, Envelope, Epoch, HEADER_LEN, Header, JobKey, Kind, Pull, Record, Records, open, seal,
};

pub(crate) const KEY: JobKey = JobKey([5; 16]);

/// What an endpoint's application saw.
#[derive(Default)]
pub(crate) struct App {
    /// Keep eager messages instead of consuming them.
    pub(crate) hoard: bool,
    /// Pull announced messages at once.
    pub(crate) pull: bool,
    /// Tags in order of arrival.
    pub(crate) tags: Vec<u64>,
    pub(crate) requests: Vec<u32>,
    pub(crate) segments: Vec<(u64, usize)>,
    /// How much of a message in parts is here.
    pub(crate) in_parts: u64,
    pub(crate) pulled: Vec<bool>,
    pub(crate) sent: Vec<(u64, bool)>,
    pub(crate) gone: Vec<Gone>,
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

pub(crate) struct Side {
    pub(crate) transport: Transport,
    pub(crate) app: App,
    pub(crate) epoch: Epoch,
    pub(crate) peer: PeerId,
}

/// Two endpoints, `a` (0) and `b` (1), and the datagrams between them.
pub(crate) struct Net {
    pub(crate) now: Instant,
    pub(crate) sides: [Side; 2],
}

pub(crate) fn address(side: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, side as u8 + 1), 7000)
}

pub(crate) const PATH: Path = Path {
    frame_len_max: 1472,
    frame_len_sure: 1472,
    latency_train_max: 1,
    bulk_train_max: 8,
    bulk_window_len: 64 * 1024,
    bulk_port: 7001,
};

pub(crate) fn transport(epoch: u64, silence_limit: Duration, encrypt: bool) -> Transport {
    transport_on(PATH, epoch, silence_limit, encrypt)
}

pub(crate) fn transport_on(
    path: Path,
    epoch: u64,
    silence_limit: Duration,
    encrypt: bool,
) -> Transport {
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
    pub(crate) fn new() -> Self {
        Self::with_silence_limit(Duration::from_secs(60))
    }

    /// The port of single datagrams takes trains of three, and each knows the other's for longer ones.
    pub(crate) fn with_short_trains() -> Self {
        let mut net = Self::new();
        for (side, me) in net.sides.iter_mut().zip(0..) {
            let path = Path { latency_train_max: 3, ..PATH };
            side.transport = transport_on(path, 10 + me, Duration::from_secs(60), false);
            side.peer = side.transport.connect(address(1 - me as usize), Epoch(11 - me), 0);
        }
        net.exchange(0, Duration::from_micros(10));
        net
    }

    pub(crate) fn with_silence_limit(limit: Duration) -> Self {
        Self::with(limit, [false; 2])
    }

    pub(crate) fn encrypted(encrypt: [bool; 2]) -> Self {
        Self::with(Duration::from_secs(60), encrypt)
    }

    pub(crate) fn with(limit: Duration, encrypt: [bool; 2]) -> Self {
        let side = |me: usize| {
            let mut transport = transport(10 + me as u64, limit, encrypt[me]);
            let peer = transport.connect(address(1 - me), Epoch(11 - me as u64), 0);
            let app = App { pull: true, ..App::default() };
            Side { transport, app, epoch: Epoch(10 + me as u64), peer }
        };
        Self { now: Instant::from_nanos(1), sides: [side(0), side(1)] }
    }

    pub(crate) fn send(&mut self, from: usize, tag: u64, len: usize) -> Result<Posted, SendError> {
        let side = &mut self.sides[from];
        let envelope = Envelope::new(Class::Tagged, tag, None);
        side.transport.send(side.peer, envelope, len, tag, true, &side.app)
    }

    /// A message of `a` of which nobody awaits that it arrives.
    pub(crate) fn send_unreported(&mut self, tag: u64, len: usize) {
        let a = &mut self.sides[0];
        let envelope = Envelope::new(Class::Tagged, tag, None);
        a.transport.send(a.peer, envelope, len, tag, false, &a.app).unwrap();
    }

    /// A message and its answer, each `way` under way.
    pub(crate) fn exchange(&mut self, tag: u64, way: Duration) {
        for from in [0, 1] {
            self.send(from, tag, 8).unwrap();
            let out = self.outgoing(from);
            self.now = self.now + way;
            for side in &mut self.sides {
                side.transport.handle_timeout(self.now, &mut side.app);
            }
            self.deliver(1 - from, &out);
        }
        let _ = (self.outgoing(0), self.outgoing(1));
    }

    /// All that `from` wants to send now.
    pub(crate) fn outgoing(&mut self, from: usize) -> Vec<Vec<u8>> {
        self.trains(from).into_iter().flat_map(|(_, train)| train).collect()
    }

    /// All that `from` wants to send now, one GSO batch after the other.
    pub(crate) fn trains(&mut self, from: usize) -> Vec<(Option<Mark>, Vec<Vec<u8>>)> {
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
    pub(crate) fn pass_on(&mut self) -> Vec<(u16, bool, usize)> {
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

    pub(crate) fn deliver(&mut self, to: usize, datagrams: &[Vec<u8>]) {
        self.deliver_after(to, datagrams, Some(Duration::ZERO));
    }

    /// Delivers what has `waited` for so long, if the kernel says so.
    pub(crate) fn deliver_after(
        &mut self,
        to: usize,
        datagrams: &[Vec<u8>],
        waited: Option<Duration>,
    ) {
        let (from, side) = ((address(1 - to), 0), &mut self.sides[to]);
        for datagram in datagrams {
            let train = (datagram.as_slice(), datagram.len());
            side.transport.handle_train(self.now, from, train, waited, &mut side.app);
        }
    }

    /// Exchanges everything until both fall silent.
    pub(crate) fn settle(&mut self) {
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
    pub(crate) fn granted(&self) -> u64 {
        let [_, b] = &self.sides;
        b.transport.peer(b.peer).unwrap().credit_granted
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.now = self.now + by;
        for side in &mut self.sides {
            side.transport.handle_timeout(self.now, &mut side.app);
        }
    }

    /// A datagram that a forger with the key could make.
    pub(crate) fn forge(&self, to: usize, header: Header, body: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; HEADER_LEN];
        datagram.extend_from_slice(body);
        let source = self.sides[1 - to].epoch;
        seal(&Header { source, ..header }, &KEY, &mut datagram);
        datagram
    }

    pub(crate) fn ordered(&self, to: usize, sequence: u64, record: &Record<'_>) -> Vec<u8> {
        let mut body = vec![0; record.len()];
        record.emit(&mut body);
        let header = Header { destination: self.sides[to].epoch, sequence, ..FIRST };
        self.forge(to, header, &body)
    }
}

/// The first datagram of somebody who has heard nothing.
pub(crate) const FIRST: Header = Header {
    kind: Kind::Ordered,
    source: Epoch::UNKNOWN,
    destination: Epoch::UNKNOWN,
    sequence: 0,
    ack: 0,
    credit: CREDIT_INITIAL as u32,
    ack_delay_us: 0,
    bulk_port: 7001,
};

pub(crate) fn header_of(datagram: &[u8]) -> Header {
    open(&KEY, datagram).unwrap().0
}

pub(crate) fn records_of(datagram: &[u8]) -> Vec<Record<'_>> {
    Records::new(open(&KEY, datagram).unwrap().1).collect::<Result<_, _>>().unwrap()
}

/// How many messages a datagram carries.
pub(crate) fn messages_of(datagram: &[u8]) -> usize {
    records_of(datagram).iter().filter(|record| record.is_ordered()).count()
}

/// A datagram that a third endpoint makes for `to`.
pub(crate) fn of_a_third(net: &Net, to: usize, kind: Kind, sequence: u64, body: &[u8]) -> Vec<u8> {
    let mut datagram = [&[0; HEADER_LEN], body].concat();
    let (source, destination) = (Epoch(12), net.sides[to].epoch);
    let header = Header { kind, source, destination, sequence, bulk_port: 7001, ..Header::EMPTY };
    seal(&header, &KEY, &mut datagram);
    datagram
}

/// A message that is announced, in bytes.
pub(crate) const LONG: usize = 200_000;

/// Two that have exchanged a long message before: both know what the other's bulk lane takes.
pub(crate) fn acquainted() -> Net {
    let mut net = Net::new();
    net.send(0, 1, LONG).unwrap();
    net.settle();
    net.sides[0].app.sent.clear();
    net.sides[1].app = App { pull: true, ..App::default() };
    net
}

pub(crate) fn pull_in(datagrams: &[Vec<u8>]) -> Option<Pull> {
    let others = datagrams.iter().filter(|d| header_of(d).kind == Kind::Ordered);
    others.flat_map(|d| records_of(d)).find_map(|record| match record {
        Record::Pull(pull) => Some(pull),
        _ => None,
    })
}

/// The receiver pulls so many bytes of the message that was announced to it as number `which`.
pub(crate) fn pull_announced(net: &mut Net, which: usize, len: u64) {
    let side = &mut net.sides[1];
    assert!(side.transport.pull(side.peer, side.app.requests[which], len, 2));
}

/// The bytes of a message that `app` got, if it got each once.
pub(crate) fn got(app: &App) -> usize {
    let mut segments = app.segments.clone();
    segments.sort_unstable();
    segments.iter().fold(0, |at, (offset, len)| {
        assert_eq!(*offset, at as u64, "a byte came twice, or never");
        at + len
    })
}

/// Announces a long message; the announcement, and what goes with it.
pub(crate) fn announced(net: &mut Net) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    net.send(0, 2, LONG).unwrap();
    net.outgoing(0).into_iter().partition(|d| header_of(d).kind == Kind::Ordered)
}

/// Messages from number 0 up to `last`, each delivered and answered before the next; what was sent.
pub(crate) fn each_answered(net: &mut Net, last: u64) -> Vec<Vec<u8>> {
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
