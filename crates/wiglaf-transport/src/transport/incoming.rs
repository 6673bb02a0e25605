//! What comes in: checked, attributed to a session, put in order, handed over.

use std::net::SocketAddrV4;
use std::time::Duration;

use wiglaf_wire::{
    Class, Envelope, HEADER_LEN, Header, Kind, Part, Pull, Record, Records, Segment, open_train,
};

use super::Transport;
use crate::config::PeerId;
use crate::limits::{ORDERED_WINDOW, SESSIONS_MAX};
use crate::outgrown::PartTaken;
use crate::receive_window::Arrival;
use crate::rendezvous::Refusal;
use crate::time::Instant;
use crate::{Gone, Sink};

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
        } else if self.config.encrypt {
            for datagram in train.chunks(segment_len.max(1)) {
                self.take_datagram(now, (from, path), datagram, sink);
            }
        } else {
            let key = self.config.key;
            open_train(&key, train, segment_len, |opened| {
                self.stats.datagrams_received += 1;
                match opened {
                    Ok((header, body)) => {
                        self.take_opened(now, (from, path), &header, body, sink);
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
        match self.sealer.encryption().map(|encryption| encryption.open(datagram)) {
            None => match self.sealer.open(datagram) {
                Ok((header, body)) => self.take_opened(now, way, &header, body, sink),
                Err(why) => self.stats.refuse(why),
            },
            Some(Ok((header, room, len))) => {
                self.take_opened(now, way, &header, &room[..len], sink);
                if let Some(encryption) = self.sealer.encryption() {
                    encryption.give_back(room);
                }
            }
            Some(Err(why)) => self.stats.refuse(why),
        }
    }

    /// Takes a datagram that is as its sender, who has the job's secret, sent it.
    #[inline]
    fn take_opened(
        &mut self,
        now: Instant,
        (from, path): (SocketAddrV4, usize),
        header: &Header,
        body: &[u8],
        sink: &mut dyn Sink,
    ) {
        let Some(index) = self.session_for(header, from, path) else { return };
        if !self.peers[index].is_open() {
            return self.take_late(index, header, now);
        }
        //= docs/protocol.md#4-acknowledgement
        //# A receiver MUST take from a datagram whose number it has seen nothing but that it shall be acknowledged.
        let Some(packet) = self.take_number(index, header, now) else {
            return self.set_timer_from(index, now);
        };
        if self.peers[index].note_heard(header, now, &self.config) {
            self.wake(index);
        }
        let here = self.arrived_at.map_or(Duration::ZERO, |at| now - at);
        let Self { peers, rendezvous, pool, reports, .. } = self;
        let (has_more, rest) =
            peers[index].take_acks(now, (header, body), here, rendezvous, pool, reports);
        for token in reports.drain(..) {
            sink.sent(token, true);
        }
        if has_more {
            self.wake(index);
        }
        let rest = match rest {
            Ok(rest) => rest,
            Err(why) => return self.stats.refuse(why),
        };
        match header.kind {
            Kind::Bulk => self.take_bulk(index, packet, rest, sink),
            Kind::Ordered => self.take_ordered(index, packet, rest, sink),
            Kind::Control if rest.is_empty() => {}
            Kind::Control => self.take_trials(index, rest, HEADER_LEN + body.len(), now, sink),
        }
        self.set_timer_from(index, now);
    }

    /// Takes a datagram of a session that has ended.
    fn take_late(&mut self, index: u32, header: &Header, now: Instant) {
        self.stats.drop_peer_gone += 1;
        let session = &mut self.peers[index];
        if session.take_late(header, now) {
            if session.has_due_ack() {
                self.wake(index);
            }
            self.set_timer_from(index, now);
        }
    }

    /// Makes sure that the session is woken in time after an arrival at `now`.
    fn set_timer_from(&mut self, index: u32, now: Instant) {
        if self.peers[index].turn.may_be_sooner(now) {
            self.set_timer(index);
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
        if let Some(index) = self.peers.of_epoch(header.source) {
            return Some(index);
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
        if let Some(index) = self.peers.name(from, header.source) {
            return Some(index);
        }
        let begins = header.kind == Kind::Ordered && header.sequence < ORDERED_WINDOW;
        if !begins || self.peers.len() >= SESSIONS_MAX {
            self.stats.drop_no_session += 1;
            return None;
        }
        Some(self.peers.add(from, header.source, path, &self.config))
    }

    /// Whether the datagram is new, and which packet it is.
    fn take_number(&mut self, index: u32, header: &Header, now: Instant) -> Option<(u64, Arrival)> {
        let Self { peers, stats, config, .. } = self;
        let session = &mut peers[index];
        let packet = session.take_number(header, now, self.arrived_at, config, stats);
        if header.kind != Kind::Control {
            self.overrun.note_packet();
            if session.has_due_ack() {
                self.wake(index);
            }
        }
        packet
    }

    fn take_ordered(
        &mut self,
        index: u32,
        packet: (u64, Arrival),
        body: &[u8],
        sink: &mut dyn Sink,
    ) {
        if !self.peers[index].take_ordered(packet, body, &mut self.pool) {
            return;
        }
        self.take_records(index, body, sink);
        // And the bodies that a filled gap has set free.
        let mut number = packet.0 + 1;
        while let Some(body) = self.peers[index].take_ahead(number) {
            self.take_records(index, &body, sink);
            self.pool.give(body);
            number += 1;
        }
    }

    fn take_records(&mut self, index: u32, body: &[u8], sink: &mut dyn Sink) {
        let peer = PeerId(index);
        for record in Records::new(body) {
            match record {
                Ok(Record::Message(envelope, payload)) => {
                    self.peers[index].traffic.received(payload.len() as u64);
                    if sink.message(peer, &envelope, payload) {
                        self.consume(peer, payload.len() as u64);
                    }
                }
                Ok(Record::First { envelope, total, payload }) => {
                    if !self.peers[index].begin_message(total, payload.len() as u64) {
                        self.stats.drop_protocol += 1;
                        return;
                    }
                    sink.first(peer, &envelope, total, payload);
                }
                Ok(Record::Next(payload)) => {
                    match self.peers[index].go_on_with_message(payload.len() as u64) {
                        Some((total, is_last)) => {
                            if sink.next(peer, payload, is_last) && is_last {
                                self.consume(peer, total);
                            }
                        }
                        None => self.stats.drop_protocol += 1,
                    }
                }
                Ok(Record::Request { envelope, total, send_id, unasked_len }) => {
                    self.take_request(index, &envelope, (total, unasked_len), send_id, sink);
                }
                Ok(Record::Pull(pull)) => self.take_pull(index, &pull, sink),
                Ok(Record::Close) => {
                    // The peer lingers until it knows that this arrived.
                    self.fail(index, Gone::Closed, sink);
                    self.peers[index].answer(Kind::Ordered);
                    return self.wake(index);
                }
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

    /// A message was announced, of which `unasked_len` bytes follow unasked.
    fn take_request(
        &mut self,
        index: u32,
        envelope: &Envelope,
        (total, unasked_len): (u64, u32),
        send_id: u32,
        sink: &mut dyn Sink,
    ) {
        if u64::from(unasked_len) > total {
            self.stats.drop_protocol += 1;
            return;
        }
        let session = &mut self.peers[index];
        session.traffic.received(0);
        if unasked_len > 0 && !session.transfers.expect_unasked(send_id, unasked_len) {
            self.stats.drop_protocol += 1;
        }
        let Some(wanted) = sink.request(PeerId(index), envelope, total, send_id) else { return };
        // Handlers run later: what comes for them lies here, though it is fetched at once.
        if envelope.class != Class::Active {
            self.widen_credit(PeerId(index), total);
        }
        let is_pulled = self.pull(PeerId(index), send_id, wanted.len, wanted.token);
        if wanted.len == 0 || !is_pulled {
            sink.pulled(wanted.token, is_pulled); // no segment will come to say so
        }
    }

    fn take_pull(&mut self, index: u32, pull: &Pull, sink: &mut dyn Sink) {
        let session = &mut self.peers[index];
        match self.rendezvous.take_pull(index, &mut session.transfers, pull) {
            Ok((complete, job)) => {
                if let Some(job) = job {
                    session.begin(job);
                    self.wake(index);
                }
                if let Some(token) = complete {
                    sink.sent(token, true);
                }
            }
            Err(Refusal::NoTransfer) => self.stats.drop_no_transfer += 1,
            Err(Refusal::Protocol) => self.stats.drop_protocol += 1,
        }
    }

    fn take_bulk(
        &mut self,
        index: u32,
        (number, _): (u64, Arrival),
        body: &[u8],
        sink: &mut dyn Sink,
    ) {
        let Self { peers, rendezvous, stats, .. } = self;
        let session = &mut peers[index];
        match Segment::parse(body) {
            Ok(segment) => {
                session.take_segment((index, number), &segment, rendezvous, stats, sink);
            }
            Err(why) => stats.refuse(why),
        }
        if session.has_due_ack() {
            self.wake(index);
        }
    }

    /// Takes what a control datagram of `len` bytes holds beside acknowledgements.
    #[cold]
    fn take_trials(
        &mut self,
        index: u32,
        records: &[u8],
        len: usize,
        now: Instant,
        sink: &mut dyn Sink,
    ) {
        for record in Records::new(records) {
            match record {
                Ok(Record::Probe(trial)) if usize::from(trial.len) == len => {
                    self.peers[index].take_probe(trial);
                    self.wake(index);
                }
                Ok(Record::Fits(trial)) => {
                    let (config, mut news) = (&self.config, Vec::new());
                    let verdict = self.peers[index].take_answer(&trial, now, config, &mut news);
                    self.follow(index, verdict, news, sink);
                }
                Ok(Record::Part(part)) => return self.take_part(index, &part, now, sink),
                Ok(Record::Padding(_)) => {}
                Ok(_) => self.stats.drop_protocol += 1,
                Err(why) => self.stats.refuse(why),
            }
        }
    }

    /// Takes a part of a packet, and the packet once it is whole.
    fn take_part(&mut self, index: u32, part: &Part<'_>, now: Instant, sink: &mut dyn Sink) {
        let is_bulk = part.lane == wiglaf_wire::lane::BULK;
        let kind = if is_bulk { Kind::Bulk } else { Kind::Ordered };
        let header = Header { kind, sequence: part.number, ..Header::EMPTY };
        let body = match self.peers[index].take_part(part, &self.config) {
            // The acknowledgement is lost, or it came at once after all.
            PartTaken::Before => {
                self.take_number(index, &header, now);
                return;
            }
            PartTaken::Refused => {
                self.stats.drop_part += 1;
                return;
            }
            PartTaken::Some => return,
            PartTaken::All(body) => body,
        };
        let Some(packet) = self.take_number(index, &header, now) else { return };
        // Its sender waits for that before it goes on.
        self.peers[index].answer(kind);
        match kind {
            Kind::Bulk => self.take_bulk(index, packet, &body, sink),
            Kind::Ordered | Kind::Control => self.take_ordered(index, packet, &body, sink),
        }
        self.wake(index);
    }
}
