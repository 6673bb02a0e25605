//! What is known of one peer, and what comes from it; [`outgoing`] is what goes to it.

mod outgoing;

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::time::Duration;

use wiglaf_wire::{
    Ack, DELAY_LONG, DELAY_OVERRUN, DELAY_TWICE, DELAY_UNKNOWN, Envelope, Epoch, HEADER_LEN,
    Header, Kind, Part, Record, Records, Segment, Trial, WireError, lane,
};

use crate::config::{Config, Lengths};
use crate::congestion::Control;
use crate::credit::Credit;
use crate::hearing::Hearing;
use crate::limits::{
    ACK_EVERY_ORDERED, BULK_WINDOW, BURST_GAP, BURST_MIN, CREDIT_INITIAL, FRAME_LEN_MIN,
    LINGERING_DATAGRAMS_MAX, LINGERING_FLIGHT_DIVISOR, LINGERING_MESSAGES, ORDERED_WINDOW,
    QUEUE_LEN_MAX, QUEUE_MAX, QUEUED_LEN_MAX, SILENCE_CHECK, START_LIMIT, UNASKED_TRAINS,
};
use crate::outgrown::PartTaken;
use crate::queue::{Body, Pool, Queue};
use crate::receive_lane::ReceiveLane;
use crate::receive_window::{Arrival, ReplayWindow};
use crate::rendezvous::{Job, Piece, Rendezvous, Taken, Transfers};
use crate::returns::Returns;
use crate::rtt::{Held, Rtt, Waited};
use crate::schedule::Turn;
use crate::send_lane::{BulkLane, SendLane};
use crate::sequence::{expand, expand_number};
use crate::sizing::{Verdict, Way, WayNews};
use crate::stats::{Stats, Traffic};
use crate::time::Instant;
use crate::trains::tapered_part;
use crate::{Gone, Mark, Sink, Source};

pub(crate) use outgoing::Tools;

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

/// What is known of a peer's silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// How long it was not heard, or has owed something without having been heard.
    pub lasts: Duration,
    /// It owes an acknowledgement or an answer.
    pub owes: bool,
    /// It has been heard at some time.
    pub was_heard: bool,
    /// Its epoch is known, so that it has begun.
    pub has_begun: bool,
}

/// How a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Usable.
    Open,
    /// The peer has said good-bye; only acknowledgements go out.
    Closed,
    /// The peer was given up.
    Gone,
}

/// Protocol state of one peer.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    at: SocketAddrV4,
    epoch: Epoch,
    state: State,
    /// Something was sent or received.
    used: bool,
    hearing: Hearing,
    way: Way,
    pub(crate) turn: Turn,
    pub(crate) credit: Credit,
    pub(crate) transfers: Transfers,
    pub(crate) traffic: Traffic,

    /// The bulk lane has been used and has not come to rest since. With thousands of peers each cache
    /// line counts, and most messages never touch that lane.
    uses_bulk: bool,
    /// Both lanes take the same way.
    rtt: Rtt,
    returns: Returns,
    ordered: SendLane<Body>,
    bulk: BulkLane<Piece>,
    /// Bodies that have no number yet.
    queue: Queue,
    /// Ordered packets below this number went on the bulk lane; until they are
    /// acknowledged others follow them there, so that none overtakes.
    ordered_on_bulk_below: u64,
    /// Number of the next control datagram to this peer.
    control_next: u64,
    /// Times that the peer was told our clock without need.
    clock_told: u8,

    ordered_in: ReceiveLane,
    bulk_in: ReceiveLane,
    control_in: ReplayWindow,
    /// Ordered bodies that arrived ahead of a gap.
    ahead: BTreeMap<u64, Vec<u8>>,
    /// Length of the eager message that is arriving in parts, and what is here.
    partial: Option<(u64, u64)>,
    /// Answers that the upper side awaits.
    answers: u32,
}

/// What the peer and this side are to each other.
impl Session {
    pub(crate) fn new(at: SocketAddrV4, path: usize, epoch: Epoch, config: &Config) -> Self {
        let packet_len_max = config.paths[path].frame_len_sure;
        let control = Control { packet_len_max, is_on: config.flow_control };
        Self {
            at,
            epoch,
            state: State::Open,
            used: false,
            hearing: Hearing::default(),
            way: Way::new(path, config),
            turn: Turn::default(),
            credit: Credit::begin_at(0),
            transfers: Transfers::default(),
            traffic: Traffic::default(),
            uses_bulk: false,
            rtt: Rtt::new(),
            returns: Returns::default(),
            ordered: SendLane::new(ORDERED_WINDOW, control),
            bulk: BulkLane::new(control),
            queue: Queue::default(),
            ordered_on_bulk_below: 0,
            control_next: 0,
            clock_told: 0,
            ordered_in: ReceiveLane::default(),
            bulk_in: ReceiveLane::default(),
            control_in: ReplayWindow::default(),
            ahead: BTreeMap::new(),
            partial: None,
            answers: 0,
        }
    }

    /// As if `number` packets of each lane and that much credit had gone both ways already.
    pub(crate) fn begin_at(&mut self, number: u64) {
        self.ordered.begin_at(number);
        self.bulk.begin_at(number);
        self.ordered_in.begin_at(number);
        self.bulk_in.begin_at(number);
        self.control_in.begin_at(number);
        self.control_next = number;
        self.ordered_on_bulk_below = number;
        self.credit = Credit::begin_at(number);
    }

    #[cfg(test)]
    pub(crate) fn slow_down(&mut self) {
        self.ordered.slow_down();
    }

    pub(crate) fn view(&self) -> PeerView {
        PeerView {
            at: self.at,
            epoch: self.epoch,
            rtt: self.rtt.smoothed(),
            is_gone: !self.is_open(),
            in_flight: self.ordered.flying(),
            path: self.way.path_index(),
            credit_left: self.credit.left(),
            credit_granted: self.credit.granted(),
            traffic: self.traffic,
        }
    }

    /// Index of the path to the peer.
    pub(crate) fn path_index(&self) -> usize {
        self.way.path_index()
    }

    /// Whether it is usable.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// The peer is found at `at`; whether that is news.
    pub(crate) fn move_to(&mut self, at: SocketAddrV4) -> bool {
        std::mem::replace(&mut self.at, at) != at
    }

    /// Takes the epoch for the peer's, if it is not known yet.
    pub(crate) fn adopt(&mut self, epoch: Epoch) -> bool {
        let adopts = self.is_open() && !self.epoch.is_known();
        if adopts {
            self.epoch = epoch;
        }
        adopts
    }

    /// Whether who is at the address now is somebody else.
    pub(crate) fn has_ended(&self) -> bool {
        match self.state {
            State::Open => false,
            State::Closed => true,
            // Who has been heard may live on, and would take what a new session numbers from 0 for
            // the old one's. Who was never heard may not have started then.
            State::Gone => self.used && !self.epoch.is_known(),
        }
    }

    /// Nothing waits to be sent or acknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.is_empty()
            && self.ordered.is_idle()
            && (!self.uses_bulk || (!self.transfers.has_jobs() && self.bulk.is_idle()))
    }

    /// Whether nothing was exchanged with the peer, nor is waiting to be.
    pub(crate) fn is_fresh(&self) -> bool {
        !self.used && self.is_drained() && self.is_open()
    }

    /// Whether the peer was spoken to, and is to be told good-bye.
    pub(crate) fn is_to_be_closed(&self) -> bool {
        self.used && self.is_open()
    }

    /// The peer owes one answer more, or one less.
    pub(crate) fn owe(&mut self, more: bool) {
        self.answers = if more { self.answers + 1 } else { self.answers.saturating_sub(1) };
    }

    /// Whether the peer owes something that is no acknowledgement: bytes, a grant, or an answer.
    fn awaits(&self) -> bool {
        let asked = self.transfers.awaits() || self.answers > 0;
        (asked || self.partial.is_some()) && self.is_open()
    }

    /// Whether everything up to there has been acknowledged, or never will be.
    pub(crate) fn has_arrived(&self, mark: Mark) -> bool {
        let base = if mark.bulk { self.bulk.base() } else { self.ordered.base() };
        base >= mark.end || !self.is_open()
    }

    /// The first packets of either lane that are not acknowledged.
    fn bases(&self) -> [u64; 2] {
        [self.ordered.base(), self.bulk.base()]
    }

    /// The lanes that have probed in vain for long.
    fn stuck_lanes(&self) -> [bool; 2] {
        [self.ordered.is_stuck(), self.uses_bulk && self.bulk.is_stuck()]
    }

    /// How long the peer was not heard, or has owed something without having been heard. `None`: it is gone.
    pub(crate) fn silence(&self, now: Instant) -> Option<Silence> {
        self.is_open().then(|| Silence {
            lasts: self.hearing.silence(now),
            owes: self.awaits() || !self.is_drained(),
            was_heard: self.hearing.was_heard(),
            has_begun: self.epoch.is_known(),
        })
    }

    /// How long the peer was not heard when it was given up, or until now.
    pub(crate) fn silent_for(&self, now: Instant) -> Duration {
        self.hearing.silence(now)
    }

    /// Whether the peer is gone if nobody listens at its port.
    pub(crate) fn is_missed(&self, now: Instant) -> bool {
        //= docs/protocol.md#8-ending
        //# An endpoint MUST NOT give up a peer that it never heard for want of a listener before 10 s have passed.
        let may_listen = self.hearing.was_heard() || self.hearing.silence(now) >= START_LIMIT;
        self.is_open() && self.used && may_listen
    }

    /// Whether a datagram with that header, which was refused at `at`, is still unanswered.
    pub(crate) fn awaits_answer(&self, header: &Header, at: SocketAddrV4) -> bool {
        //= docs/protocol.md#8-ending
        //# An endpoint MUST NOT believe a report of the network that does not quote an unacknowledged packet to that peer, with its proof unless it is encrypted.
        // A datagram whose port was damaged on its way is refused, too, and by the right host.
        let is_its_port = at.port() == self.at.port() || self.way.is_bulk_port(at.port());
        let is_to_it = at.ip() == self.at.ip() && is_its_port && header.destination == self.epoch;
        is_to_it
            && match header.kind {
                Kind::Ordered => self.ordered.awaits(header.sequence),
                Kind::Bulk => self.bulk.awaits(header.sequence),
                Kind::Control => false,
            }
    }

    /// Ends the session and every operation on it.
    pub(crate) fn end(
        &mut self,
        index: u32,
        is_orderly: bool,
        rendezvous: &mut Rendezvous,
        pool: &mut Pool,
        sink: &mut dyn Sink,
    ) {
        self.state = if is_orderly { State::Closed } else { State::Gone };
        self.ahead.clear();
        self.way.end();
        self.ordered_in.settle();
        self.bulk_in.settle();
        self.answers = 0;
        let mut tokens = Vec::new();
        self.bulk.abandon(|_| {});
        self.ordered.abandon(|body| body.finish(&mut tokens, pool));
        self.queue.abandon(&mut tokens, pool);
        for token in tokens {
            sink.sent(token, false);
        }
        rendezvous.end(index, &mut self.transfers, is_orderly, sink);
    }
}

/// Deadlines.
impl Session {
    /// When the session next wants attention without being spoken to.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let check = || self.awaits().then(|| self.hearing.check_at());
        self.lanes_deadline().or_else(check)
    }

    fn lanes_deadline(&self) -> Option<Instant> {
        debug_assert!(self.uses_bulk || !self.has_bulk(), "what goes on there is forgotten");
        let ordered = [self.ordered.timeout(&self.rtt), self.ordered_in.due_at()];
        let bulk = self.uses_bulk.then(|| [self.bulk.timeout(&self.rtt), self.bulk_in.due_at()]);
        let lanes = ordered.into_iter().chain(bulk.into_iter().flatten()).flatten().min();
        match self.way.due_at() {
            None => lanes,
            Some(at) => Some(lanes.map_or(at, |lanes| lanes.min(at))),
        }
    }

    /// Whether the bulk lane has anything to send or to acknowledge.
    fn has_bulk(&self) -> bool {
        self.bulk_in.owes() || self.transfers.has_jobs() || !self.bulk.is_idle()
    }

    /// Acts on every deadline that has passed; the timer was set for `at`. Answers whether there is something to send,
    /// or why the peer is to be given up.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        at: Instant,
        silence_limit: Duration,
        stats: &mut Stats,
    ) -> Result<bool, Gone> {
        self.hearing.note_late_timer(now, now.since(at));
        match self.state {
            State::Open => {}
            State::Closed => return Ok(self.ordered_in.expire(now)),
            State::Gone => return Ok(false),
        }
        let mut wake = self.ordered_in.expire(now) | (self.uses_bulk && self.bulk_in.expire(now));
        let silence = self.hearing.silence(now);
        if silence >= SILENCE_CHECK && self.awaits() && self.is_drained() {
            //= docs/protocol.md#8-ending
            //# An endpoint that awaits bytes, a grant or an answer of a peer, and no acknowledgement, MUST send it an empty ordered datagram when it was silent for 1 s.
            self.queue.ask();
            wake = true;
        }
        let mut probes = 0;
        if self.ordered.timeout(&self.rtt).is_some_and(|at| at <= now) {
            probes += u64::from(self.ordered.on_timeout(now, &self.rtt));
            wake = true;
        }
        if self.uses_bulk && self.bulk.timeout(&self.rtt).is_some_and(|at| at <= now) {
            probes += u64::from(self.bulk.on_timeout(now, &self.rtt));
            wake = true;
        }
        // What its link never has room for is not even probed.
        let is_due = probes > 0 || self.turn.is_held() && self.awaits();
        if is_due && silence > silence_limit {
            return Err(Gone::Silent);
        }
        if probes > 0 && self.hearing.is_one_way(now) {
            //= docs/protocol.md#8-ending
            //# An endpoint MUST give up a peer that it hears again and again and that has acknowledged nothing of the session for 30 s.
            return Err(Gone::Blocked);
        }
        stats.probes += probes;
        if probes > 0 && self.stuck_lanes() != [false; 2] {
            wake |= self.way.check(now, self.bases());
        }
        Ok(wake)
    }

    /// When it wants attention again; if it does not, it gives back the memory that a burst has made it take.
    pub(crate) fn rest_until(&mut self, now: Instant) -> Option<Instant> {
        // What nobody acts upon once the session has ended would be due for ever.
        let deadline = match self.state {
            State::Open => self.lanes_deadline(),
            State::Closed => self.ordered_in.due_at(),
            State::Gone => None,
        };
        if deadline.is_none() && !self.awaits() {
            self.rest();
            return None;
        }
        deadline.or(Some(now + SILENCE_CHECK))
    }

    fn rest(&mut self) {
        self.ordered.rest();
        self.bulk.rest();
        self.ordered_in.rest();
        self.bulk_in.rest();
        self.queue.rest();
        self.transfers.rest();
        self.uses_bulk = self.has_bulk();
        let (next, drained) = ([self.ordered_in.next(), self.bulk_in.next()], self.is_drained());
        if let Some(parts) = self.way.parts_if_any() {
            parts.rest(next, drained);
            self.way.leave();
        }
    }
}

/// What comes from the peer.
impl Session {
    /// A datagram of the peer has come whose number was not seen before. True if there is something to send therefore.
    #[inline]
    pub(crate) fn note_heard(&mut self, header: &Header, now: Instant, config: &Config) -> bool {
        self.used = true;
        self.hearing.note(now);
        self.credit.take_limit(header.credit);
        // Before, it may know nothing of us but our address, and other ports are none of that.
        //= docs/protocol.md#7-epochs
        //# An endpoint MUST NOT send from another port than that of its address to a peer that has not sent it a datagram with its epoch as destination.
        header.destination.is_known() && self.way.open(header.bulk_port, now, config)
    }

    /// A datagram came after the session has ended. Who repeats what came before has missed our
    /// acknowledgement of its good-bye, or is somebody else; R5 is for both. True if it was such a one.
    pub(crate) fn take_late(&mut self, header: &Header, now: Instant) -> bool {
        let may_repeat = self.state == State::Closed && header.kind == Kind::Ordered;
        let arrival = || self.ordered_in.classify(header.sequence, ORDERED_WINDOW).1;
        let repeats = may_repeat && arrival() == Arrival::Duplicate;
        if repeats {
            self.ordered_in.note_duplicate(now);
        }
        repeats
    }

    /// Whether the datagram is new, and which packet it is; control datagrams are none, and their
    /// number means nothing further. Its kernel had it `at` that time, if that is known.
    ///
    /// What was recorded and is sent again must not be believed: neither its acknowledgements and
    /// credit, which 32 bits no longer tell from later ones, nor that its sender is alive.
    pub(crate) fn take_number(
        &mut self,
        header: &Header,
        now: Instant,
        at: Option<Instant>,
        config: &Config,
        stats: &mut Stats,
    ) -> Option<(u64, Arrival)> {
        let (lane, reach, every) = match header.kind {
            Kind::Control => {
                let number = expand_number(header.sequence, self.control_in.next());
                let is_new = self.control_in.take(number);
                stats.drop_replayed += u64::from(!is_new);
                return is_new.then_some((number, Arrival::InOrder));
            }
            Kind::Ordered => (&mut self.ordered_in, ORDERED_WINDOW, ACK_EVERY_ORDERED),
            Kind::Bulk => {
                self.uses_bulk = true;
                let every = self.transfers.ack_every(&self.way.path(config));
                (&mut self.bulk_in, BULK_WINDOW, every)
            }
        };
        let (number, arrival) = lane.classify(header.sequence, reach);
        lane.note(now, at, arrival, every);
        self.hearing.note_packet(now);
        match arrival {
            Arrival::Duplicate | Arrival::Settled => stats.duplicates += 1,
            Arrival::Beyond => stats.drop_beyond_window += 1,
            Arrival::Ahead => stats.out_of_order += 1,
            Arrival::InOrder => {}
        }
        matches!(arrival, Arrival::InOrder | Arrival::Ahead).then_some((number, arrival))
    }

    /// Whether an acknowledgement is to go at once.
    #[inline]
    pub(crate) fn has_due_ack(&self) -> bool {
        self.ordered_in.is_due() || (self.uses_bulk && self.bulk_in.is_due())
    }

    /// Whether ordered packets are to be acknowledged, soon at least.
    pub(crate) fn has_ack(&self) -> bool {
        self.ordered_in.has_news()
    }

    /// An acknowledgement of that lane goes at the next opportunity.
    pub(crate) fn answer(&mut self, kind: Kind) {
        if kind == Kind::Bulk { self.bulk_in.answer() } else { self.ordered_in.answer() }
    }

    /// Tells the peer at the next opportunity that frames were dropped, if it was heard on one of these `paths`.
    pub(crate) fn answer_overrun(&mut self, paths: u32) -> bool {
        let is_concerned = paths & 1 << self.way.path_index() != 0;
        let is_told = self.is_open() && self.hearing.was_heard() && is_concerned;
        if is_told {
            self.ordered_in.answer_overrun();
        }
        is_told
    }

    /// Takes the acknowledgements at the front of a datagram's body and in its header, which have waited `here` for so
    /// long. Sends that are complete by them go to `reports`. Answers whether there may be more to send then, and what
    /// follows them.
    pub(crate) fn take_acks<'a>(
        &mut self,
        now: Instant,
        (header, body): (&Header, &'a [u8]),
        here: Duration,
        rendezvous: &mut Rendezvous,
        pool: &mut Pool,
        reports: &mut Vec<u64>,
    ) -> (bool, Result<&'a [u8], WireError>) {
        let (mut is_any, mut records) = (false, Records::new(body));
        let rest = loop {
            let rest = records.rest();
            if header.kind == Kind::Bulk {
                break Ok(rest);
            }
            match records.next() {
                Some(Ok(Record::Ack(ack))) => {
                    let late = Some(self.returns.late(now, ack.sent_at_us));
                    self.take_ack(now, &ack, (here, late), rendezvous, pool, reports);
                    is_any = true;
                }
                Some(Ok(_)) | None => break Ok(rest),
                Some(Err(why)) => break Err(why),
            }
        };
        // After the records, because it has no clock.
        let base = self.ordered.base();
        if expand(header.ack, base) > base {
            let (cumulative, delay_us) = (header.ack, header.ack_delay_us);
            let (lane, is_exact, sent_at_us, bitmap) = (lane::ORDERED, false, 0, &[]);
            let ack = Ack { lane, delay_us, is_exact, sent_at_us, cumulative, bitmap };
            self.take_ack(now, &ack, (here, None), rendezvous, pool, reports);
            is_any = true;
        }
        let has_more = || {
            !self.queue.is_empty()
                || self.ordered.has_lost()
                || (self.uses_bulk && (self.transfers.has_jobs() || self.bulk.has_lost()))
        };
        (is_any && has_more(), rest)
    }

    /// Takes an acknowledgement that has waited `here` for so long, and on its way back `late`, by its sender's clock, if
    /// it has one.
    fn take_ack(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        (here, late): (Duration, Option<Duration>),
        rendezvous: &mut Rendezvous,
        pool: &mut Pool,
        reports: &mut Vec<u64>,
    ) {
        let (back, is_clocked) = (late.unwrap_or(here), late.is_some());
        let held = match ack.delay_us {
            DELAY_UNKNOWN | DELAY_OVERRUN => Held::Unknown,
            DELAY_TWICE => Held::CameTwice,
            DELAY_LONG => Held::Long,
            us => {
                let there = Duration::from_micros(u64::from(us));
                Held::For(Waited { there, is_exact: ack.is_exact, here, back, is_clocked })
            }
        };
        let rtt = &mut self.rtt;
        let acked = if ack.lane == lane::ORDERED {
            let cumulative = expand(ack.cumulative, self.ordered.base());
            let finish = |body: Body| body.finish(reports, pool);
            let acked = self.ordered.on_ack(now, cumulative, ack.words(), held, rtt, finish);
            // In a header, which names no gaps, it would speak of what lies behind one, too.
            if ack.delay_us == DELAY_OVERRUN && is_clocked {
                self.ordered.on_overrun(now, now.before(back), rtt);
            }
            acked
        } else {
            let cumulative = expand(ack.cumulative, self.bulk.base());
            let transfers = &mut self.transfers;
            let finish = |piece| reports.extend(rendezvous.note_acked(transfers, piece));
            self.bulk.on_ack(now, cumulative, ack.words(), held, rtt, finish)
        };
        if acked.is_any() {
            self.hearing.note_acknowledged();
        }
    }

    /// Takes the body of an ordered packet; one that came ahead of a gap is kept. True if it is to be read now.
    pub(crate) fn take_ordered(
        &mut self,
        (number, arrival): (u64, Arrival),
        body: &[u8],
        pool: &mut Pool,
    ) -> bool {
        self.ordered_in.take(number);
        if arrival == Arrival::Ahead {
            let mut kept = pool.take();
            kept.clear();
            kept.extend_from_slice(body);
            self.ahead.insert(number, kept);
        }
        arrival != Arrival::Ahead
    }

    /// The body of that packet, if it came ahead of the gap that is filled now.
    pub(crate) fn take_ahead(&mut self, number: u64) -> Option<Vec<u8>> {
        self.ahead.remove(&number)
    }

    /// An eager message of `total` bytes begins to arrive; false if that cannot be.
    pub(crate) fn begin_message(&mut self, total: u64, len: u64) -> bool {
        //= docs/protocol.md#3-records
        //# A receiver MUST refuse a FIRST of more than 524,288 bytes.
        if self.partial.is_some() || total <= len || total > CREDIT_INITIAL {
            return false;
        }
        self.partial = Some((total, len));
        self.traffic.received(len);
        true
    }

    /// That message goes on: its length, and whether that is all of it; nothing if that cannot be.
    pub(crate) fn go_on_with_message(&mut self, len: u64) -> Option<(u64, bool)> {
        let (total, got) = self.partial.map(|(total, got)| (total, got + len))?;
        if got > total {
            return None;
        }
        self.traffic.bytes_received += len;
        self.partial = (got < total).then_some((total, got));
        Some((total, got == total))
    }

    /// Takes the body of a bulk packet.
    pub(crate) fn take_segment(
        &mut self,
        (index, number): (u32, u64),
        segment: &Segment<'_>,
        rendezvous: &mut Rendezvous,
        stats: &mut Stats,
        sink: &mut dyn Sink,
    ) {
        self.bulk_in.take(number);
        match rendezvous.take_segment(index, &mut self.transfers, segment, sink) {
            Taken::Bytes { len, are_last } => {
                self.traffic.bytes_received += len;
                // The sender waits for nothing but this, unless it has more to send that was asked for.
                if are_last {
                    self.bulk_in.answer();
                }
            }
            Taken::Dropped => stats.unasked_dropped += 1,
            Taken::Refused => stats.drop_no_transfer += 1,
        }
    }

    /// Takes a part of a packet.
    pub(crate) fn take_part(&mut self, part: &Part<'_>, config: &Config) -> PartTaken {
        let is_bulk = part.lane == lane::BULK;
        let next = if is_bulk { self.bulk_in.next() } else { self.ordered_in.next() };
        let number = expand_number(part.number, next);
        if number < next {
            return PartTaken::Before;
        }
        let len_max = config.paths[self.way.path_index()].frame_len_max - HEADER_LEN;
        let taken = self.way.parts().take(part, number, next, len_max);
        self.way.leave();
        taken
    }

    /// The peer's probe is to be answered.
    pub(crate) fn take_probe(&mut self, trial: Trial) {
        self.way.owe(trial);
    }

    /// Takes the answer to a probe.
    pub(crate) fn take_answer(
        &mut self,
        trial: &Trial,
        now: Instant,
        config: &Config,
        news: &mut Vec<WayNews>,
    ) -> Verdict {
        let verdict = self.way.take_answer(trial, now, config, news);
        self.follow(verdict)
    }

    /// Judges what became of probes, if it is time.
    pub(crate) fn judge_way(
        &mut self,
        now: Instant,
        config: &Config,
        news: &mut Vec<WayNews>,
    ) -> Verdict {
        if !self.way.is_tried() {
            return Verdict::Nothing;
        }
        let verdict = self.way.judge(now, (self.bases(), self.stuck_lanes()), config, news);
        self.follow(verdict)
    }

    /// Sends as the way is now.
    #[cold]
    fn follow(&mut self, verdict: Verdict) -> Verdict {
        let frame_len = self.way.frame_len();
        self.ordered.set_packet_len(frame_len);
        self.bulk.set_packet_len(frame_len);
        match verdict {
            Verdict::Narrowed => {
                // All that is not acknowledged counts as lost; what is made from now on is short enough.
                self.ordered.lose_all();
                let mut end = [self.ordered.next() + self.queue.len() as u64, 0];
                if self.uses_bulk {
                    self.bulk.lose_all();
                    end[1] = self.bulk.next();
                }
                self.way.parts().begin(end);
            }
            Verdict::Good => {
                let bases = self.bases();
                //= docs/protocol.md#25-length
                //# A sender MUST give up a peer that answers probes of the length of parts, 10 times a second apart, while it acknowledges no parts of one packet.
                if self.way.parts_if_any().is_some_and(|parts| parts.are_in_vain(bases)) {
                    return Verdict::Blocked;
                }
            }
            Verdict::Nothing | Verdict::Send | Verdict::Blocked => {}
        }
        verdict
    }
}

/// What is handed over for the peer.
impl Session {
    /// Whether so many bodies wait that nothing more is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= QUEUE_MAX
    }

    /// Whether so much more may be copied, to wait for a number.
    pub(crate) fn may_queue(&self, len: usize) -> bool {
        let waiting_len = self.queue.len() * self.way.frame_len();
        // Bodies that wait take memory, which an announced message does not.
        self.queue.len() + len / FRAME_LEN_MIN < QUEUE_MAX
            && (len <= QUEUED_LEN_MAX || waiting_len == 0 || waiting_len + len <= QUEUE_LEN_MAX)
    }

    /// Adds a record to the last body that still waits, or to a new one.
    pub(crate) fn append(&mut self, record: &Record<'_>, pool: &mut Pool) {
        self.queue.append(self.way.frame_len() - HEADER_LEN, pool, record, 0, |_| {});
    }

    /// Copies an eager message of `len` bytes; `report` has it reported once the peer has it.
    pub(crate) fn put_message(
        &mut self,
        envelope: &Envelope,
        len: usize,
        (token, report): (u64, bool),
        source: &dyn Source,
        pool: &mut Pool,
    ) {
        self.credit.spend(len as u64);
        self.traffic.sent(len as u64);
        let room = self.way.frame_len() - HEADER_LEN;
        let whole = Record::Message(*envelope, &[]);
        let first = Record::First { envelope: *envelope, total: len as u64, payload: &[] };
        let is_whole = whole.len() + len <= room;
        let (mut record, mut at) = (if is_whole { whole } else { first }, 0);
        loop {
            // Also what is left of a body that waits: trains are of full ones.
            let left = self.queue.space(room);
            let space = if left > record.len() { left } else { room };
            let part = if is_whole { len } else { (len - at).min(space - record.len()) };
            let fill = |out: &mut [u8]| source.read(token, at as u64, out);
            self.queue.append(room, pool, &record, part, fill);
            at += part;
            if at == len {
                break;
            }
            record = Record::Next(&[]);
        }
        //= docs/protocol.md#4-acknowledgement
        //# A sender MUST NOT take a message for delivered before all its packets are acknowledged.
        if report {
            self.queue.report(token);
        }
    }

    /// Lets the message of `len` bytes that was taken last wait for more, if a burst went just now.
    pub(crate) fn linger(&mut self, len: usize, now: Instant, config: &Config) -> bool {
        let path = self.way.path(config);
        let unit = match len {
            // So many messages, of which a datagram may hold several. More where the receiver takes
            // none: a train is one place of its ring.
            _ if len <= path.frame_len_max => (LINGERING_MESSAGES * len / path.frame_len_max)
                .max(self.ordered.flying() as usize / LINGERING_FLIGHT_DIVISOR)
                .clamp(1, path.bulk_train_max.min(LINGERING_DATAGRAMS_MAX)),
            _ => path.bulk_train_max,
        };
        let is_burst =
            self.ordered.flying() >= BURST_MIN && now - self.ordered.progress_at() < BURST_GAP;
        if is_burst {
            self.queue.linger(unit);
        }
        is_burst
    }

    /// Nothing waits for more messages any longer; whether something did.
    #[inline]
    pub(crate) fn end_lingering(&mut self) -> bool {
        self.turn.end_lingering();
        self.queue.end_lingering()
    }

    /// How many bytes of a message of `total` are worth sending at once: a train, if the wire to the
    /// peer is empty, and if the peer has lately had buffers for such messages.
    pub(crate) fn unasked_len(&mut self, total: u64, lengths: Lengths, config: &Config) -> u32 {
        if lengths.is_eager(total) || !config.flow_control || self.transfers.pauses() {
            return 0;
        }
        //= docs/protocol.md#5-rendezvous
        //# A sender MUST NOT send bytes unasked while a message that it announced to the same peer is not complete.
        let is_quiet = !self.transfers.is_announcing() && self.queue.is_empty();
        if !is_quiet || !self.way.is_open() || self.ordered.room() == 0 {
            return 0;
        }
        let path = self.way.path(config);
        let segment_len = path.segment_len_max() as u64;
        let room = self.bulk.room().min(self.transfers.window(path.frame_len_max)) as usize;
        let segments = total.div_ceil(segment_len) as usize;
        if lengths.is_unasked(total) && segments <= room {
            return total as u32;
        }
        // Whole trains, which the announcement leads: no short one is left over between what is
        // unasked and what has been asked for meanwhile.
        let train_max = path.bulk_train_max.min(self.bulk.train_max());
        let ahead = UNASKED_TRAINS * tapered_part(1 + segments, train_max) - 1;
        (ahead.min(room) as u64 * segment_len).min(total) as u32
    }

    /// Serves a grant, or what goes without one.
    pub(crate) fn begin(&mut self, job: Job) {
        self.uses_bulk = true;
        self.transfers.begin(job);
    }
}
