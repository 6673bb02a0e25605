//! The endpoint-wide state and the calls of the upper side.

use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::SocketAddrV4;
use std::time::Duration;

use wiglaf_wire::encrypted::TAG_LEN;
use wiglaf_wire::{Envelope, Epoch, HEADER_LEN, JobKey, Record, SEGMENT_PREFIX_LEN};

use crate::congestion::Control;
use crate::credit::charge;
use crate::encryption::Encryption;
use crate::limits::{
    EAGER_LEN_MAX, FRAME_LEN_MIN, POOL_MAX, QUEUE_LEN_MAX, QUEUE_MAX, QUEUED_LEN_MAX,
    UNASKED_LEN_MAX,
};
use crate::overrun::Overrun;
use crate::rendezvous::{PendingPull, PendingSend};
use crate::session::{Body, Session, State};
use crate::sizing::WayNews;
use crate::slab::Slab;
use crate::stats::{Stats, Traffic};
use crate::time::Instant;
use crate::timers::Timer;
use crate::{Posted, SendError, Source};

/// Index of a peer in its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

/// What a way to peers can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Longest datagram, headers of this protocol included, in bytes.
    pub frame_len_max: usize,
    /// Longest one that gets there without having been tried: what every path carries, or all where
    /// nothing can be in the way.
    pub frame_len_sure: usize,
    /// Most datagrams in a train to the port of single ones; 1: there are no such trains.
    pub latency_train_max: usize,
    /// Most datagrams in a bulk train.
    pub bulk_train_max: usize,
    /// How many bulk bytes may be in flight to this endpoint.
    pub bulk_window_len: usize,
    /// The port where this endpoint awaits bulk segments.
    pub bulk_port: u16,
}

impl Path {
    /// Most bytes of a message in one bulk datagram.
    pub(crate) fn segment_len_max(&self) -> usize {
        self.frame_len_max - HEADER_LEN - SEGMENT_PREFIX_LEN
    }
}

/// How a transport is set up.
#[derive(Debug, Clone)]
pub struct Config {
    /// This incarnation; must be known.
    pub epoch: Epoch,
    /// The job's secret.
    pub key: JobKey,
    /// Whether datagrams are encrypted, and only encrypted ones taken.
    pub encrypt: bool,
    /// The ways to peers.
    pub paths: Vec<Path>,
    /// How long a peer that owes an answer may be silent.
    pub silence_limit: Duration,
    /// Off only to show what happens without it.
    pub flow_control: bool,
}

/// From which length on messages take another way: eager messages are copied at either end, unasked ones are received
/// into the buffer of their receive where there is one, and of longer ones only the first bytes go before they are asked
/// for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// Longest eager message, in bytes.
    eager_max: u32,
    /// Longest message that goes as a whole unasked, in bytes.
    unasked_max: u32,
}

impl Lengths {
    /// So many bytes; no more than [`UNASKED_LEN_MAX`] count.
    #[must_use]
    pub fn new(eager_max: u64, unasked_max: u64) -> Self {
        let capped = |len: u64| len.min(UNASKED_LEN_MAX) as u32;
        Self { eager_max: capped(eager_max), unasked_max: capped(unasked_max) }
    }

    pub(crate) fn is_eager(self, len: u64) -> bool {
        len <= u64::from(self.eager_max)
    }

    pub(crate) fn is_unasked(self, len: u64) -> bool {
        len <= u64::from(self.unasked_max)
    }
}

impl Default for Lengths {
    fn default() -> Self {
        Self::new(EAGER_LEN_MAX as u64, UNASKED_LEN_MAX)
    }
}

/// What can be seen of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerView {
    /// Where it is.
    pub at: SocketAddrV4,
    /// Its incarnation, if known.
    pub epoch: Epoch,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Whether it is gone.
    pub is_gone: bool,
    /// Unacknowledged packets of the ordered lane.
    pub in_flight: u32,
    /// Index of the path to it.
    pub path: usize,
    /// How much more may be sent to it unasked, in bytes of charges.
    pub credit_left: u64,
    /// How much of what it sends unasked may lie here, in bytes of charges.
    pub credit_granted: u64,
    /// What was exchanged with it.
    pub traffic: Traffic,
}

/// Epochs are random already: they are their own hash.
#[derive(Debug, Default)]
pub(crate) struct EpochHasher(u64);

impl Hasher for EpochHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, v: u64) {
        self.0 ^= v;
    }
}

/// The protocol state of one endpoint.
#[derive(Debug, Clone)]
pub struct Transport {
    /// Its paths' frames are without what encryption adds to them.
    pub(crate) config: Config,
    pub(crate) lengths: Lengths,
    /// Boxed: hardly anybody has it.
    pub(crate) encryption: Option<Box<Encryption>>,
    /// What encryption adds to a datagram, in bytes; 0 without.
    pub(crate) tag_len: usize,
    pub(crate) sessions: Vec<Session>,
    pub(crate) by_epoch: HashMap<Epoch, u32, BuildHasherDefault<EpochHasher>>,
    pub(crate) by_address: HashMap<SocketAddrV4, u32>,
    pub(crate) sends: Slab<PendingSend>,
    pub(crate) pulls: Slab<PendingPull>,
    /// How many peers bytes are being pulled from.
    pub(crate) pulling_peers: usize,
    /// What all peers may send unasked beyond the initial credit of each, in bytes of charges.
    pub(crate) credit_growth: u64,
    /// Sessions that have something to send.
    pub(crate) ready: VecDeque<u32>,
    /// Sessions whose last body may wait for more messages.
    pub(crate) lingering: Vec<u32>,
    pub(crate) timers: BinaryHeap<Timer>,
    pub(crate) pool: Vec<Vec<u8>>,
    /// Tokens to be reported after an acknowledgement.
    pub(crate) reports: Vec<u64>,
    pub(crate) stats: Stats,
    /// When what is being taken came, if the kernel says so.
    pub(crate) arrived_at: Option<Instant>,
    pub(crate) overrun: Overrun,
    /// What was found out about ways to peers, until somebody asks: once for each peer, or twice.
    pub(crate) way_news: VecDeque<(PeerId, WayNews)>,
}

impl Transport {
    /// An endpoint that knows nobody yet.
    ///
    /// # Panics
    /// When the configuration has no path, or one too small for a header.
    #[must_use]
    pub fn new(mut config: Config) -> Self {
        let tag_len = if config.encrypt { TAG_LEN } else { 0 };
        assert!(config.epoch.is_known(), "an endpoint needs an epoch");
        assert!(
            !config.paths.is_empty()
                && config.paths.iter().all(|p| {
                    p.frame_len_sure >= FRAME_LEN_MIN + tag_len
                        && p.frame_len_sure <= p.frame_len_max
                }),
            "an endpoint needs a path that carries its headers"
        );
        let encryption =
            config.encrypt.then(|| Box::new(Encryption::new(&config.key, config.epoch)));
        for path in &mut config.paths {
            path.frame_len_max -= tag_len;
            path.frame_len_sure -= tag_len;
        }
        Self {
            config,
            lengths: Lengths::default(),
            encryption,
            tag_len,
            sessions: Vec::new(),
            by_epoch: HashMap::default(),
            by_address: HashMap::new(),
            sends: Slab::default(),
            pulls: Slab::default(),
            pulling_peers: 0,
            credit_growth: 0,
            ready: VecDeque::new(),
            lingering: Vec::new(),
            timers: BinaryHeap::new(),
            pool: Vec::new(),
            reports: Vec::new(),
            stats: Stats::default(),
            arrived_at: None,
            overrun: Overrun::default(),
            way_news: VecDeque::new(),
        }
    }

    /// Writes all that decides what the endpoint does next, for model checkers: two that write the
    /// same here behave the same.
    ///
    /// # Errors
    /// Those of `out`.
    #[doc(hidden)]
    pub fn write_state(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        // The maps follow from the sessions; counters and spare buffers decide nothing.
        write!(out, "{:?} {:?} {:?} ", self.config.epoch, self.sessions, self.sends)?;
        write!(out, "{:?} {:?} {:?} ", self.pulls, self.ready, self.timers)?;
        write!(out, "{:?} {:?}", self.credit_growth, self.overrun)
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Makes a peer known; the same peer gets the same number again. Without an epoch, that is
    /// whoever is at `at`, but not who was there before and has ended.
    pub fn connect(&mut self, at: SocketAddrV4, epoch: Epoch, path: usize) -> PeerId {
        if epoch.is_known() {
            if let Some(index) = self.by_epoch.get(&epoch).copied() {
                // It may have called before, and who repeats its datagrams writes what sender
                // he likes. Whoever names the peer knows better.
                if self.sessions[index as usize].at != at {
                    self.sessions[index as usize].at = at;
                    self.by_address.insert(at, index);
                }
                return PeerId(index);
            }
            if let Some(index) = self.name(at, epoch) {
                return PeerId(index);
            }
        } else if let Some(index) = self.whoever_is_at(at) {
            return PeerId(index);
        }
        PeerId(self.add_session(at, epoch, path.min(self.config.paths.len() - 1)))
    }

    /// The session with who is at `at`, unless he has ended.
    fn whoever_is_at(&self, at: SocketAddrV4) -> Option<u32> {
        let index = *self.by_address.get(&at)?;
        let session = &self.sessions[index as usize];
        let has_ended = match session.state {
            State::Open => false,
            State::Closed => true,
            // Who has been heard may live on, and would take what a new session numbers from 0 for
            // the old one's. Who was never heard may not have started then.
            State::Gone => session.used && !session.epoch.is_known(),
        };
        (!has_ended).then_some(index)
    }

    /// Gives the session with whoever is at `at` the epoch, if it has none yet.
    pub(crate) fn name(&mut self, at: SocketAddrV4, epoch: Epoch) -> Option<u32> {
        let index = *self.by_address.get(&at)?;
        let session = &mut self.sessions[index as usize];
        if session.state != State::Open || session.epoch.is_known() {
            return None;
        }
        session.epoch = epoch;
        self.by_epoch.insert(epoch, index);
        Some(index)
    }

    pub(crate) fn add_session(&mut self, at: SocketAddrV4, epoch: Epoch, path: usize) -> u32 {
        let index = self.sessions.len() as u32;
        let Path { frame_len_max, frame_len_sure, .. } = self.config.paths[path];
        let control = Control { packet_len_max: frame_len_sure, is_on: self.config.flow_control };
        let mut session = Session::new(at, path, epoch, control);
        session.frame_len = frame_len_sure as u32;
        session.may_grow = frame_len_sure < frame_len_max;
        self.sessions.push(session);
        self.by_address.insert(at, index);
        if epoch.is_known() {
            self.by_epoch.insert(epoch, index);
        }
        index
    }

    /// From now on so many datagrams are a train to the port of single ones, on one of the paths.
    pub fn set_latency_train_max(&mut self, path: usize, datagrams: usize) {
        if let Some(path) = self.config.paths.get_mut(path) {
            path.latency_train_max = datagrams;
        }
    }

    /// Whether a peer is gone, as [`PeerView`] says, too: nothing more can come from it.
    #[must_use]
    pub fn is_gone(&self, peer: PeerId) -> bool {
        self.sessions.get(peer.0 as usize).is_some_and(|s| s.state != State::Open)
    }

    /// What can be seen of a peer.
    #[must_use]
    pub fn peer(&self, peer: PeerId) -> Option<PeerView> {
        let s = self.sessions.get(peer.0 as usize)?;
        Some(PeerView {
            at: s.at,
            epoch: s.epoch,
            rtt: s.rtt.smoothed(),
            is_gone: s.state != State::Open,
            in_flight: s.ordered.flying(),
            path: s.path,
            credit_left: s.credit_limit.saturating_sub(s.eager_sent),
            credit_granted: s.credit_granted(),
            traffic: s.traffic,
        })
    }

    /// Takes a message of `len` bytes for `peer`.
    ///
    /// Short messages within the peer's credit are copied at once. Others are
    /// announced and wait until the peer pulls them. With `report`, or when
    /// the answer is [`Posted::Pending`], [`Sink::sent`] tells the end.
    ///
    /// # Errors
    /// [`SendError`]; nothing was taken.
    pub fn send(
        &mut self,
        peer: PeerId,
        envelope: Envelope,
        len: usize,
        token: u64,
        report: bool,
        source: &dyn Source,
    ) -> Result<Posted, SendError> {
        let session = self.sessions.get(peer.0 as usize).ok_or(SendError::PeerGone)?;
        if session.state != State::Open {
            return Err(SendError::PeerGone);
        }
        if session.queue.len() >= QUEUE_MAX {
            return Err(SendError::Again);
        }
        //= docs/protocol.md#5-rendezvous
        //# A sender MUST announce a held message, and send nothing of it unasked.
        if envelope.is_held {
            return self.send_request(peer.0, envelope, len as u64, token);
        }
        if self.lengths.is_eager(len as u64) {
            //= docs/protocol.md#6-credits
            //# A sender MUST NOT let an eager message take the total of its charges past the limit, unless it is tagged or untagged and of 64 bytes at most.
            let has_room = self.may_queue(peer, len);
            let session = &mut self.sessions[peer.0 as usize];
            let has_credit = session.may_be_eager(envelope.class, len);
            if (has_credit && has_room) || !self.config.flow_control {
                session.eager_sent += charge(len as u64);
                session.traffic.sent(len as u64);
                self.send_eager(peer.0, &envelope, len, token, source);
                //= docs/protocol.md#4-acknowledgement
                //# A sender MUST NOT take a message for delivered before all its packets are acknowledged.
                if report && let Some(body) = self.sessions[peer.0 as usize].queue.back_mut() {
                    body.tokens.push(token);
                }
                self.wake(peer.0);
                return Ok(Posted::Buffered);
            }
            self.stats.credit_stalls += u64::from(!has_credit);
            session.traffic.credit_stalls += u64::from(!has_credit);
        }
        self.send_request(peer.0, envelope, len as u64, token)
    }

    /// Messages that are sent from now on go by `lengths`.
    pub fn set_lengths(&mut self, lengths: Lengths) {
        self.lengths = lengths;
    }

    /// Whether so much more may be copied, to wait for a number.
    fn may_queue(&self, peer: PeerId, len: usize) -> bool {
        let session = &self.sessions[peer.0 as usize];
        let waiting_len = session.queue.len() * session.frame_len as usize;
        // Bodies that wait take memory, which an announced message does not.
        session.queue.len() + len / FRAME_LEN_MIN < QUEUE_MAX
            && (len <= QUEUED_LEN_MAX || waiting_len == 0 || waiting_len + len <= QUEUE_LEN_MAX)
    }

    fn send_eager(
        &mut self,
        index: u32,
        envelope: &Envelope,
        len: usize,
        token: u64,
        source: &dyn Source,
    ) {
        let room = self.body_len_max(index);
        let whole = Record::Message(*envelope, &[]);
        if whole.len() + len <= room {
            return self.append_with(index, &whole, len, |out| source.read(token, 0, out));
        }
        let first = Record::First { envelope: *envelope, total: len as u64, payload: &[] };
        let (mut record, mut at) = (first, 0);
        while at < len {
            // Also what is left of a body that waits: trains are of full ones.
            let left = self.sessions[index as usize].queue.back().map_or(0, |body| room - body.len);
            let space = if left > record.len() { left } else { room };
            let part = (len - at).min(space - record.len());
            self.append_with(index, &record, part, |out| source.read(token, at as u64, out));
            at += part;
            record = Record::Next(&[]);
        }
    }

    /// Says good-bye to everybody that was spoken to, but for those to whom
    /// it is said otherwise.
    pub fn close(&mut self, otherwise: impl Fn(PeerId) -> bool) {
        for index in 0..self.sessions.len() as u32 {
            let session = &self.sessions[index as usize];
            if session.used && session.state == State::Open && !otherwise(PeerId(index)) {
                self.append(index, &Record::Close);
                self.wake(index);
            }
        }
    }

    /// Whether everything handed over has been acknowledged.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.sends.len() == 0 && self.sessions.iter().all(Session::is_drained)
    }

    /// Whether there may be something to send.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty() || !self.lingering.is_empty()
    }

    /// Whether bytes that were asked for are still to come.
    #[must_use]
    pub fn is_pulling(&self) -> bool {
        self.pulls.len() > 0
    }

    /// `peer` owes one answer more to what is handed over now, or one less: that is, a message
    /// that it does not send of its own accord. Who owes one and falls silent is asked whether he
    /// is there.
    pub fn owe(&mut self, peer: PeerId, more: bool) {
        if let Some(session) = self.sessions.get_mut(peer.0 as usize) {
            let answers = session.answers;
            session.answers = if more { answers + 1 } else { answers.saturating_sub(1) };
        }
    }

    /// Whether nothing was exchanged with `peer`, nor is waiting to be.
    #[must_use]
    pub fn is_fresh(&self, peer: PeerId) -> bool {
        let session = self.sessions.get(peer.0 as usize);
        session.is_some_and(|s| !s.used && s.is_drained() && s.state == State::Open)
    }

    /// Puts a session in the line of those with something to send.
    pub(crate) fn wake(&mut self, index: u32) {
        let session = &mut self.sessions[index as usize];
        // One that is held is woken by its release.
        if !session.in_ready && !session.is_held {
            session.in_ready = true;
            self.ready.push_back(index);
        }
    }

    fn body_len_max(&self, index: u32) -> usize {
        self.sessions[index as usize].frame_len as usize - HEADER_LEN
    }

    /// Adds a record to the last body that still waits, or to a new one.
    pub(crate) fn append(&mut self, index: u32, record: &Record<'_>) {
        self.append_with(index, record, 0, |_| {});
    }

    /// Adds a record whose payload ends with `more` bytes that `fill` writes.
    fn append_with(
        &mut self,
        index: u32,
        record: &Record<'_>,
        more: usize,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let room = self.body_len_max(index);
        let len = record.len() + more;
        let session = &mut self.sessions[index as usize];
        session.linger_unit = 0;
        let fits = session.queue.back().is_some_and(|body| body.len + len <= room);
        if !fits {
            let room = self.pool.pop().unwrap_or_default();
            session.queue.push_back(Body { room, len: 0, tokens: Vec::new() });
        }
        if let Some(body) = session.queue.back_mut() {
            let at = body.len;
            body.len += len;
            if body.room.len() < body.len {
                body.room.resize(body.len, 0);
            }
            let out = &mut body.room[at..body.len];
            let head = record.emit_before(more, out);
            if more > 0 {
                fill(&mut out[head..]);
            }
        }
    }

    pub(crate) fn give_buffer(&mut self, buffer: Vec<u8>) {
        if self.pool.len() < POOL_MAX {
            self.pool.push(buffer);
        }
    }
}
