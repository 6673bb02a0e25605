//! What comes in: checked, attributed to a session, put in order, handed over.

use std::net::SocketAddrV4;
use std::time::Duration;

use wiglaf_wire::{
    Ack, DELAY_LONG, DELAY_OVERRUN, DELAY_TWICE, DELAY_UNKNOWN, HEADER_LEN, Header, Kind, Record,
    Records, Segment, lane, open, open_train,
};

use crate::limits::{
    ACK_DELAY_MAX, ACK_EVERY_BULK_DIVISOR, ACK_EVERY_BULK_MAX, ACK_EVERY_ORDERED, BULK_WINDOW,
    CREDIT_INITIAL, ORDERED_WINDOW, POOL_MAX, SESSIONS_MAX,
};
use crate::receive_window::Arrival;
use crate::rtt::{Held, Waited};
use crate::sequence::{expand, expand_number};
use crate::session::{AckDebt, Session, State};
use crate::time::Instant;
use crate::transport::{PeerId, Transport};
use crate::{Gone, Sink};

/// How an acknowledgement came back.
#[derive(Debug, Clone, Copy)]
struct Back {
    /// How long it waited on the way, by its sender's clock, or here, at most.
    lasted: Duration,
    is_clocked: bool,
}

impl Transport {
    /// Takes datagrams that arrived together from `from` on path number `path`, and have `waited` for
    /// so long, if that is known: all are `segment_len` bytes long but the last, which may be shorter.
    ///
    /// Whatever is wrong with one is counted and goes no further.
    pub fn handle_train(
        &mut self,
        now: Instant,
        (from, path): (SocketAddrV4, usize),
        (train, segment_len): (&[u8], usize),
        waited: Option<Duration>,
        sink: &mut dyn Sink,
    ) {
        self.arrived_at = waited.map(|waited| now.before(waited));
        if train.len() <= segment_len {
            self.take_datagram(now, (from, path), train, sink);
        } else if self.encryption.is_some() {
            for datagram in train.chunks(segment_len.max(1)) {
                self.take_datagram(now, (from, path), datagram, sink);
            }
        } else {
            let key = self.config.key;
            open_train(&key, train, segment_len, |opened| {
                self.stats.datagrams_received += 1;
                match opened {
                    Ok((header, body)) => {
                        self.handle_opened(now, (from, path), &header, body, sink);
                    }
                    Err(why) => self.stats.refuse(why),
                }
            });
        }
    }

    /// Takes a datagram that has just arrived from `from` on path number `path`.
    ///
    /// Whatever is wrong with it is counted and goes no further.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: SocketAddrV4,
        path: usize,
        datagram: &[u8],
        sink: &mut dyn Sink,
    ) {
        let waited = Some(Duration::ZERO);
        self.handle_train(now, (from, path), (datagram, datagram.len()), waited, sink);
    }

    fn take_datagram(
        &mut self,
        now: Instant,
        way: (SocketAddrV4, usize),
        datagram: &[u8],
        sink: &mut dyn Sink,
    ) {
        self.stats.datagrams_received += 1;
        if self.encryption.is_some() {
            return self.handle_encrypted(now, way, datagram, sink);
        }
        match open(&self.config.key, datagram) {
            Ok((header, body)) => self.handle_opened(now, way, &header, body, sink),
            Err(why) => self.stats.refuse(why),
        }
    }

    fn handle_encrypted(
        &mut self,
        now: Instant,
        way: (SocketAddrV4, usize),
        datagram: &[u8],
        sink: &mut dyn Sink,
    ) {
        let Some(encryption) = &mut self.encryption else { return };
        let mut room = std::mem::take(&mut encryption.room);
        match encryption.open(datagram, &mut room) {
            Ok((header, len)) => {
                self.handle_opened(now, way, &header, &room[..len], sink);
            }
            Err(why) => self.stats.refuse(why),
        }
        if let Some(encryption) = &mut self.encryption {
            encryption.room = room;
        }
    }

    /// Takes a datagram that is as its sender, who has the job's secret, sent it.
    #[inline]
    fn handle_opened(
        &mut self,
        now: Instant,
        (from, path): (SocketAddrV4, usize),
        header: &Header,
        body: &[u8],
        sink: &mut dyn Sink,
    ) {
        let Some(index) = self.session_for(header, from, path) else { return };
        if self.sessions[index as usize].state != State::Open {
            return self.take_late(index, header, now);
        }
        //= docs/protocol.md#4-acknowledgement
        //# A receiver MUST take from a datagram whose number it has seen nothing but that it shall be acknowledged.
        let Some(packet) = self.take_number(index, header, now) else {
            return self.schedule_from(index, now);
        };
        let session = &mut self.sessions[index as usize];
        session.used = true;
        session.heard = true;
        session.heard_at = now;
        // Before, it may know nothing of us but our address, and other ports are none of that.
        //= docs/protocol.md#7-epochs
        //# An endpoint MUST NOT send from another port than that of its address to a peer that has not sent it a datagram with its epoch as destination.
        if header.destination.is_known() {
            session.bulk_port = header.bulk_port;
            if session.may_grow {
                self.search_longer(index, now);
            }
        }
        let session = &mut self.sessions[index as usize];
        let credit = expand(header.credit, session.credit_limit);
        //= docs/protocol.md#6-credits
        //# A receiver MUST NOT reduce a limit that it has told; a sender MUST ignore a lower one.
        session.credit_limit = session.credit_limit.max(credit);
        // Before the header's, which has no clock.
        let rest = match header.kind {
            Kind::Bulk => Some(body),
            Kind::Ordered | Kind::Control => self.take_acks(index, body, now, sink),
        };
        self.take_cumulative(index, header, now, sink);
        let Some(rest) = rest else { return };
        match header.kind {
            Kind::Bulk => self.take_bulk(index, packet, rest, sink),
            Kind::Ordered => self.take_ordered(index, packet, rest, sink),
            Kind::Control if rest.is_empty() => {}
            Kind::Control => self.take_trials(index, rest, HEADER_LEN + body.len(), now, sink),
        }
        self.schedule_from(index, now);
    }

    /// Takes a datagram of a session that has ended. Who repeats what came before has missed our
    /// acknowledgement of its good-bye, or is somebody else; R5 is for both.
    fn take_late(&mut self, index: u32, header: &Header, now: Instant) {
        self.stats.drop_peer_gone += 1;
        let session = &mut self.sessions[index as usize];
        if session.state != State::Closed || header.kind != Kind::Ordered {
            return;
        }
        let number = expand_number(header.sequence, session.ordered_in.next());
        if session.ordered_in.classify(number, ORDERED_WINDOW) == Arrival::Duplicate {
            session.ordered_debt.note_duplicate(now);
            if session.ordered_debt.now {
                self.wake(index);
            }
            self.schedule_from(index, now);
        }
    }

    /// Finds, adopts or begins the session that a datagram belongs to.
    fn session_for(&mut self, header: &Header, from: SocketAddrV4, path: usize) -> Option<u32> {
        //= docs/protocol.md#7-epochs
        //# A receiver MUST drop a datagram whose destination epoch is neither its own nor zero.
        if header.destination.is_known() && header.destination != self.config.epoch {
            self.stats.drop_stale_epoch += 1;
            return None;
        }
        if let Some(index) = self.by_epoch.get(&header.source) {
            return Some(*index);
        }
        //= docs/protocol.md#7-epochs
        //# An endpoint that sends itself nothing MUST drop a datagram whose source epoch is its own.
        // It knows its own epoch for that of a peer where it does.
        if header.source == self.config.epoch {
            self.stats.drop_no_session += 1;
            return None;
        }
        //= docs/protocol.md#7-epochs
        //# An endpoint that knows a peer by address only MUST adopt the epoch of the first valid datagram from there.
        if let Some(index) = self.name(from, header.source) {
            return Some(index);
        }
        let begins = header.kind == Kind::Ordered && header.sequence < ORDERED_WINDOW;
        if !begins || self.sessions.len() >= SESSIONS_MAX {
            self.stats.drop_no_session += 1;
            return None;
        }
        Some(self.add_session(from, header.source, path))
    }

    /// Takes the acknowledgements at the front of a body; answers what follows.
    fn take_acks<'a>(
        &mut self,
        index: u32,
        body: &'a [u8],
        now: Instant,
        sink: &mut dyn Sink,
    ) -> Option<&'a [u8]> {
        let mut records = Records::new(body);
        loop {
            let rest = records.rest();
            match records.next() {
                Some(Ok(Record::Ack(ack))) => {
                    let lasted = self.sessions[index as usize].returns.late(now, ack.sent_at_us);
                    self.take_ack(index, &ack, Back { lasted, is_clocked: true }, now, sink);
                }
                Some(Ok(_)) | None => return Some(rest),
                Some(Err(why)) => {
                    self.stats.refuse(why);
                    return None;
                }
            }
        }
    }

    /// How long what is being taken has waited here, as far as is known.
    fn waited(&self, now: Instant) -> Duration {
        self.arrived_at.map_or(Duration::ZERO, |at| now - at)
    }

    /// Takes what a header acknowledges.
    fn take_cumulative(&mut self, index: u32, header: &Header, now: Instant, sink: &mut dyn Sink) {
        let base = self.sessions[index as usize].ordered.base();
        if expand(header.ack, base) <= base {
            return;
        }
        let ack = Ack {
            lane: lane::ORDERED,
            delay_us: header.ack_delay_us,
            is_exact: false,
            sent_at_us: 0,
            cumulative: header.ack,
            bitmap: &[],
        };
        let back = Back { lasted: self.waited(now), is_clocked: false };
        self.take_ack(index, &ack, back, now, sink);
    }

    /// Takes an acknowledgement that came `back` like that.
    fn take_ack(
        &mut self,
        index: u32,
        ack: &Ack<'_>,
        back: Back,
        now: Instant,
        sink: &mut dyn Sink,
    ) {
        let here = self.waited(now);
        let session = &mut self.sessions[index as usize];
        let held = match ack.delay_us {
            DELAY_UNKNOWN | DELAY_OVERRUN => Held::Unknown,
            DELAY_TWICE => Held::CameTwice,
            DELAY_LONG => Held::Long,
            us => Held::For(Waited {
                there: Duration::from_micros(u64::from(us)),
                is_exact: ack.is_exact,
                here,
                back: back.lasted,
                is_clocked: back.is_clocked,
            }),
        };
        let mut reports = std::mem::take(&mut self.reports);
        let acked = if ack.lane == lane::ORDERED {
            let cumulative = expand(ack.cumulative, session.ordered.base());
            let pool = &mut self.pool;
            let acked = session.ordered.on_ack(
                now,
                cumulative,
                ack.words(),
                held,
                &mut session.rtt,
                |mut body| {
                    reports.append(&mut body.tokens);
                    pool.push(body.room);
                },
            );
            self.pool.truncate(POOL_MAX);
            // In a header, which names no gaps, it would speak of what lies behind one, too.
            if ack.delay_us == DELAY_OVERRUN && back.is_clocked {
                session.ordered.on_overrun(now, now.before(back.lasted), &session.rtt);
            }
            acked
        } else {
            let cumulative = expand(ack.cumulative, session.bulk.base());
            let (sends, pending) = (&mut self.sends, &mut session.pending_sends);
            session.bulk.on_ack(now, cumulative, ack.words(), held, &mut session.rtt, |piece| {
                let Some(send) = sends.get_mut(piece.send_id) else { return };
                send.acked += u64::from(piece.len);
                if send.is_done() {
                    reports.push(send.token);
                    sends.remove(piece.send_id);
                    *pending -= 1;
                }
            })
        };
        for token in reports.drain(..) {
            sink.sent(token, true);
        }
        self.reports = reports;
        if acked.packets > 0 {
            self.sessions[index as usize].one_way.note_acknowledged();
        }
        if has_more(&self.sessions[index as usize]) {
            self.wake(index);
        }
    }

    /// Whether the datagram is new, and which packet it is; control datagrams are none, and their
    /// number means nothing further.
    ///
    /// What was recorded and is sent again must not be believed: neither its acknowledgements and
    /// credit, which 32 bits no longer tell from later ones, nor that its sender is alive.
    pub(crate) fn take_number(
        &mut self,
        index: u32,
        header: &Header,
        now: Instant,
    ) -> Option<(u64, Arrival)> {
        let session = &mut self.sessions[index as usize];
        let (window, debt, reach, every) = match header.kind {
            Kind::Control => {
                let number = expand_number(header.sequence, session.control_in.next());
                let is_new = session.control_in.take(number);
                self.stats.drop_replayed += u64::from(!is_new);
                return is_new.then_some((number, Arrival::InOrder));
            }
            Kind::Ordered => (
                &mut session.ordered_in,
                &mut session.ordered_debt,
                ORDERED_WINDOW,
                ACK_EVERY_ORDERED,
            ),
            Kind::Bulk => {
                session.uses_bulk = true;
                let path = session.way(&self.config);
                let packets = (session.bulk_granted_len / path.frame_len_max) as u32;
                let every = (packets / ACK_EVERY_BULK_DIVISOR).clamp(2, ACK_EVERY_BULK_MAX);
                // So near the end the last one will do: to send another takes longer than to
                // receive a train.
                let rest = session.missing.div_ceil(path.segment_len_max() as u64);
                let is_end = (1..=u64::from(every)).contains(&rest);
                let every = if is_end { u32::MAX } else { every };
                (&mut session.bulk_in, &mut session.bulk_debt, BULK_WINDOW, every)
            }
        };
        let number = expand_number(header.sequence, window.next());
        let arrival = window.classify(number, reach);
        session.one_way.note_heard(now);
        if arrival != Arrival::Settled {
            debt.note(now, self.arrived_at, arrival, every);
        }
        self.overrun.note_packet();
        match arrival {
            Arrival::Duplicate | Arrival::Settled => self.stats.duplicates += 1,
            Arrival::Beyond => self.stats.drop_beyond_window += 1,
            Arrival::Ahead => self.stats.out_of_order += 1,
            Arrival::InOrder => {}
        }
        if debt.now {
            self.wake(index);
        }
        matches!(arrival, Arrival::InOrder | Arrival::Ahead).then_some((number, arrival))
    }

    pub(crate) fn take_ordered(
        &mut self,
        index: u32,
        (number, arrival): (u64, Arrival),
        body: &[u8],
        sink: &mut dyn Sink,
    ) {
        let session = &mut self.sessions[index as usize];
        session.ordered_in.insert(number);
        if arrival == Arrival::Ahead {
            let mut kept = self.pool.pop().unwrap_or_default();
            kept.clear();
            kept.extend_from_slice(body);
            session.ahead.insert(number, kept);
        } else {
            self.take_records(index, body, sink);
            self.take_ahead(index, number + 1, sink);
        }
    }

    /// Delivers the bodies that a filled gap has set free.
    fn take_ahead(&mut self, index: u32, mut number: u64, sink: &mut dyn Sink) {
        while let Some(body) = self.sessions[index as usize].ahead.remove(&number) {
            self.take_records(index, &body, sink);
            self.give_buffer(body);
            number += 1;
        }
    }

    fn take_records(&mut self, index: u32, body: &[u8], sink: &mut dyn Sink) {
        let peer = PeerId(index);
        for record in Records::new(body) {
            match record {
                Ok(Record::Message(envelope, payload)) => {
                    self.sessions[index as usize].traffic.received(payload.len() as u64);
                    if sink.message(peer, &envelope, payload) {
                        self.consume(peer, payload.len() as u64);
                    }
                }
                Ok(Record::First { envelope, total, payload }) => {
                    let session = &mut self.sessions[index as usize];
                    //= docs/protocol.md#3-records
                    //# A receiver MUST refuse a FIRST of more than 524,288 bytes.
                    let is_longer = total > payload.len() as u64;
                    if session.partial.is_some() || !is_longer || total > CREDIT_INITIAL {
                        self.stats.drop_protocol += 1;
                        return;
                    }
                    session.partial = Some((total, payload.len() as u64));
                    session.traffic.received(payload.len() as u64);
                    sink.first(peer, &envelope, total, payload);
                }
                Ok(Record::Next(payload)) => self.take_next(index, payload, sink),
                Ok(Record::Request { envelope, total, send_id, unasked_len }) => {
                    self.take_request(index, &envelope, (total, unasked_len), send_id, sink);
                }
                Ok(Record::Pull(pull)) => self.take_pull(index, &pull, sink),
                Ok(Record::Close) => return self.take_close(index, sink),
                //= docs/protocol.md#3-records
                //# A receiver MUST take nothing from PADDING.
                Ok(Record::Padding(_)) => {}
                Ok(Record::Ack(_) | Record::Probe(_) | Record::Fits(_) | Record::Part(_)) => {
                    self.stats.drop_protocol += 1;
                }
                Err(why) => self.stats.refuse(why),
            }
        }
    }

    fn take_next(&mut self, index: u32, payload: &[u8], sink: &mut dyn Sink) {
        let session = &mut self.sessions[index as usize];
        let grown = session.partial.map(|(total, got)| (total, got + payload.len() as u64));
        match grown {
            Some((total, got)) if got <= total => {
                let last = got == total;
                session.traffic.bytes_received += payload.len() as u64;
                session.partial = (!last).then_some((total, got));
                if sink.next(PeerId(index), payload, last) && last {
                    self.consume(PeerId(index), total);
                }
            }
            _ => self.stats.drop_protocol += 1,
        }
    }

    /// The peer has said good-bye; it lingers until it knows that this arrived.
    fn take_close(&mut self, index: u32, sink: &mut dyn Sink) {
        self.fail(index, Gone::Closed, sink);
        self.sessions[index as usize].ordered_debt.now = true;
        self.wake(index);
    }

    pub(crate) fn take_bulk(
        &mut self,
        index: u32,
        (number, _): (u64, Arrival),
        body: &[u8],
        sink: &mut dyn Sink,
    ) {
        match Segment::parse(body) {
            Ok(segment) => {
                self.sessions[index as usize].bulk_in.insert(number);
                self.take_segment(index, &segment, sink);
            }
            Err(why) => self.stats.refuse(why),
        }
        if self.sessions[index as usize].bulk_debt.now {
            self.wake(index);
        }
    }
}

fn has_more(session: &Session) -> bool {
    !session.queue.is_empty()
        || session.ordered.has_lost()
        || (session.uses_bulk && (!session.jobs.is_empty() || session.bulk.has_lost()))
}

impl AckDebt {
    /// Notes that a packet has arrived, `at` that time if it is known, and whether that calls for an answer at once.
    fn note(&mut self, now: Instant, at: Option<Instant>, arrival: Arrival, every: u32) {
        if arrival == Arrival::Duplicate {
            return self.note_duplicate(now);
        }
        self.packets += 1;
        //= docs/protocol.md#41-congestion
        //# A receiver MUST count the ack delay from when its kernel got the newest packet, and from when it found that packet where the kernel does not say.
        self.newest_at = at.unwrap_or(now);
        //= docs/protocol.md#41-congestion
        //# A receiver MUST NOT say that an ack delay is exact unless its kernel has said when the newest packet came.
        self.is_exact = at.is_some();
        //= docs/protocol.md#4-acknowledgement
        //# A receiver MUST acknowledge at once a packet that is a duplicate or leaves a gap, but duplicates once in 50 us at most, and none that lies a window behind.
        if arrival != Arrival::InOrder || self.packets >= every {
            self.now = true;
        } else if self.due_at.is_none() {
            self.due_at = Some(now + ACK_DELAY_MAX);
        }
    }

    /// A peer that repeats has missed an acknowledgement, and waits for its probe timeout in
    /// between; who repeats faster is somebody else. What an acknowledgement says of the newest
    /// packet's delay stays as it is.
    fn note_duplicate(&mut self, now: Instant) {
        // Else it was acknowledged before: that is lost, or still under way.
        self.twice = self.packets > 0;
        if self.repeated_at.is_none_or(|at| now >= at + ACK_DELAY_MAX) {
            self.repeated_at = Some(now);
            self.now = true;
        } else if self.due_at.is_none() {
            self.due_at = Some(now + ACK_DELAY_MAX);
        }
    }
}
