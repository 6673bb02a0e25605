//! What goes out: which session, which lane, which bytes.

use wiglaf_wire::{
    Ack, BITMAP_WORDS_MAX, Crc32c, DELAY_LONG, DELAY_OVERRUN, DELAY_TWICE, DELAY_UNKNOWN,
    HEADER_LEN, Header, Kind, NUMBER_BITS, Record, SEGMENT_PREFIX_LEN, Segment, Transfer, lane,
};

use crate::limits::{
    BURST_GAP, BURST_MIN, CLOCK_TOLD_AFTER, CLOCK_TOLD_FIRST, LATENCY_TRAINS_MAX,
    LINGERING_DATAGRAMS_MAX, LINGERING_FLIGHT_DIVISOR, LINGERING_MESSAGES,
};
use crate::returns::micros;
use crate::session::{AckDebt, Body, Job, Piece, Session, State, from_the_front};
use crate::time::Instant;
use crate::trains::{Place, Put, Shape, even_part, padded, put_body, tapered_part};
use crate::transport::{Config, Path, PeerId, Transport};
use crate::{Mark, Source, Transmit};

/// How messages are cut into bulk datagrams.
#[derive(Clone, Copy)]
struct Cut<'a> {
    path: &'a Path,
    /// Bytes of a message in each; lost ones keep the length that they had.
    piece_len: usize,
}

impl Transport {
    /// Lets the message of `len` bytes that was taken last for `peer` wait for more: a short one in
    /// the same datagram, a longer one in the same train, if the peer was sent a burst of datagrams
    /// just now. Until that is full, until something is sent to the peer that is not to wait, or
    /// until [`Transport::end_lingering`].
    pub fn linger(&mut self, peer: PeerId, len: usize, now: Instant) {
        let Some(session) = self.sessions.get_mut(peer.0 as usize) else { return };
        let path = session.way(&self.config);
        let unit = match len {
            // So many messages, of which a datagram may hold several. More where the receiver takes
            // none: a train is one place of its ring.
            _ if len <= path.frame_len_max => (LINGERING_MESSAGES * len / path.frame_len_max)
                .max(session.ordered.flying() as usize / LINGERING_FLIGHT_DIVISOR)
                .clamp(1, path.bulk_train_max.min(LINGERING_DATAGRAMS_MAX)),
            _ => path.bulk_train_max,
        };
        let lane = &session.ordered;
        if lane.flying() < BURST_MIN || now - lane.progress_at() >= BURST_GAP {
            return;
        }
        session.linger_unit = unit;
        if !session.in_lingering {
            session.in_lingering = true;
            self.lingering.push(peer.0);
        }
    }

    /// Nothing waits for more messages any longer.
    #[inline]
    pub fn end_lingering(&mut self) {
        while let Some(index) = self.lingering.pop() {
            let session = &mut self.sessions[index as usize];
            session.in_lingering = false;
            if std::mem::take(&mut session.linger_unit) > 0 {
                self.wake(index);
            }
        }
    }

    /// Writes the next train to `out`, or answers `None` when there is
    /// nothing to send now.
    ///
    /// # Panics
    /// When `out` is shorter than the longest frame of any path.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        source: &dyn Source,
        out: &mut [u8],
    ) -> Option<Transmit> {
        while let Some(index) = self.ready.pop_front() {
            let is_held = self.sessions[index as usize].is_held;
            let transmit = if is_held { None } else { self.transmit_for(index, now, source, out) };
            if transmit.is_some() {
                // To the end of the line: every peer gets its turn.
                self.ready.push_back(index);
                self.schedule(index);
                return transmit;
            }
            self.sessions[index as usize].in_ready = false;
        }
        None
    }

    /// Whether everything up to there has been acknowledged, or never will be, as the peer is gone.
    #[must_use]
    pub fn has_arrived(&self, mark: Mark) -> bool {
        self.sessions.get(mark.peer.0 as usize).is_none_or(|session| {
            let base = if mark.bulk { session.bulk.base() } else { session.ordered.base() };
            base >= mark.end || session.state != State::Open
        })
    }

    /// The link has no room for `peer`: nothing more for it comes out of
    /// [`Transport::poll_transmit`] until it is released.
    pub fn hold(&mut self, peer: PeerId) {
        if let Some(session) = self.sessions.get_mut(peer.0 as usize) {
            session.is_held = true;
        }
    }

    /// There is room for `peer` again.
    pub fn release(&mut self, peer: PeerId) {
        if let Some(session) = self.sessions.get_mut(peer.0 as usize) {
            session.is_held = false;
            self.wake(peer.0);
        }
    }

    fn transmit_for(
        &mut self,
        index: u32,
        now: Instant,
        source: &dyn Source,
        out: &mut [u8],
    ) -> Option<Transmit> {
        let session = &self.sessions[index as usize];
        match session.state {
            State::Open => {}
            State::Closed => return self.transmit_control(index, now, out),
            State::Gone => return None,
        }
        if session.trials.is_some()
            && let Some(transmit) = self.transmit_trial_or_part(index, now, source, out)
        {
            return Some(transmit);
        }
        let session = &self.sessions[index as usize];
        let was_drained = session.is_drained_of_flight();
        let mut transmit = None;
        if !self.leads_train(index) {
            transmit = self.transmit_ordered(index, now, out);
        }
        let transmit = transmit.or_else(|| self.transmit_bulk(index, now, source, out));
        if was_drained && transmit.is_some() {
            // From here on the peer owes an answer.
            let session = &mut self.sessions[index as usize];
            session.heard_at = session.heard_at.max(now);
            session.one_way.note_sent(now);
        }
        transmit.or_else(|| self.transmit_control(index, now, out))
    }

    fn transmit_ordered(&mut self, index: u32, now: Instant, out: &mut [u8]) -> Option<Transmit> {
        let session = &self.sessions[index as usize];
        let path = session.way(&self.config);
        let ready = session.due().min(session.ordered.room() as usize);
        let again = session.ordered.has_lost();
        if ready == 0 && !again {
            return None;
        }
        let train_max = path.latency_train_max;
        let is_short = ready <= if train_max > 1 { LATENCY_TRAINS_MAX * train_max } else { 1 };
        let by_bulk = session.bulk_port != 0
            && ready > 0
            && (session.is_behind_bulk() || !is_short)
            && !session.is_bulk_blocked;
        let count_max = match again {
            true => even_part(session.ordered.lost_count(), train_max),
            false if by_bulk => tapered_part(ready, path.bulk_train_max),
            false if is_short => even_part(ready, train_max),
            false => 1,
        };
        let shape = Shape { count_max, len_max: path.frame_len_max, first_is_longest: true };
        let (len, segment_len) = self.put_train(shape, out, |this, place, header, datagram| {
            this.put_ordered(index, now, place, header, datagram)
        })?;
        let session = &mut self.sessions[index as usize];
        let mut transmit = session.transmit(index, by_bulk, len, segment_len);
        if by_bulk {
            transmit.to.set_port(session.bulk_port);
            session.ordered_on_bulk_below = session.ordered.next();
        }
        if by_bulk && count_max > 1 && !again {
            let end = session.ordered.next();
            transmit.mark = self.mark(Mark { peer: transmit.peer, bulk: false, end });
        }
        Some(transmit)
    }

    /// The mark of a train that may be read while another is written in its place. A plain one of a
    /// job that encrypts may not: what comes there next is not encrypted at first.
    fn mark(&self, mark: Mark) -> Option<Mark> {
        self.encryption.is_none().then_some(mark)
    }

    /// Writes the body of the next ordered datagram, lost ones first, if there is one that fits.
    fn put_ordered(
        &mut self,
        index: u32,
        now: Instant,
        place: Place,
        header: &mut Header,
        out: &mut [u8],
    ) -> Option<Put> {
        let is_summed = self.encryption.is_none();
        let session = &mut self.sessions[index as usize];
        let held = held_us(&session.ordered_debt, now);
        let (number, put) = if session.ordered.has_lost() {
            // Acknowledgements go in a datagram of their own: the body may be full.
            let fits = |body: &Body| place.has_room(HEADER_LEN + body.len);
            let (number, body) = session.ordered.resend_lost(now, &session.rtt, fits)?;
            let put = put_body(HEADER_LEN, body.bytes(), out, is_summed);
            let put = place.padded(put, out);
            self.stats.ordered_retransmitted += 1;
            session.traffic.retransmitted += 1;
            (number, put)
        } else {
            if session.ordered.room() == 0 {
                return None;
            }
            let body = session.queue.pop_front_if(|body| place.has_room(HEADER_LEN + body.len))?;
            from_the_front(&mut session.queue);
            let at = HEADER_LEN + session.put_acks(now, place.len_max, body.len, out);
            let put = place.padded(put_body(at, body.bytes(), out, is_summed), out);
            (session.ordered.push(now, &session.rtt, body), put)
        };
        session.put_header(&self.config, held, Kind::Ordered, number, header);
        Some(put)
    }

    fn transmit_control(&mut self, index: u32, now: Instant, out: &mut [u8]) -> Option<Transmit> {
        let session = &mut self.sessions[index as usize];
        let owes_bulk = session.uses_bulk && session.bulk_debt.now;
        if !session.ordered_debt.now && !owes_bulk {
            return None;
        }
        let frame_len_max = session.frame_len as usize;
        let held = held_us(&session.ordered_debt, now);
        let len = HEADER_LEN + session.put_acks(now, frame_len_max, 0, out);
        let number = session.control_next;
        session.control_next += 1;
        let mut header = Header::EMPTY;
        session.put_header(&self.config, held, Kind::Control, number, &mut header);
        let len = len + self.tag_len;
        self.seal(&header, None, &mut out[..len]);
        let session = &mut self.sessions[index as usize];
        // Even an acknowledgement that did not fit is not tried again without news.
        session.ordered_debt.now = false;
        if owes_bulk {
            session.bulk_debt.now = false;
        }
        self.stats.datagrams_sent += 1;
        Some(session.transmit(index, false, len, len))
    }

    fn transmit_bulk(
        &mut self,
        index: u32,
        now: Instant,
        source: &dyn Source,
        out: &mut [u8],
    ) -> Option<Transmit> {
        let waiting = self.bytes_waiting(index) as usize;
        let session = &self.sessions[index as usize];
        if !session.uses_bulk || session.bulk_port == 0 {
            return None;
        }
        let path = session.way(&self.config);
        let capacity = path.segment_len_max();
        let train_max = path.bulk_train_max.min(session.bulk.train_max());
        let again = session.bulk.has_lost();
        let begin = session.bulk.next();
        let mut leads = self.leads_train(index);
        let alike = if again || leads { None } else { self.alike(index, capacity, train_max) };
        let (count_max, piece_len) = match alike {
            Some(alike) => alike,
            None if again => (train_max, capacity),
            None => {
                let pieces = usize::from(leads) + waiting.div_ceil(capacity);
                (tapered_part(pieces, train_max), capacity)
            }
        };
        let len_max = path.frame_len_max;
        let shape = Shape { count_max, len_max, first_is_longest: alike.is_some() };
        let cut = Cut { path: &path, piece_len };
        let (len, segment_len) = self.put_train(shape, out, |this, place, header, out| {
            if std::mem::take(&mut leads) {
                let put = this.put_ordered(index, now, place, header, out)?;
                let session = &mut this.sessions[index as usize];
                session.ordered_on_bulk_below = session.ordered.next();
                return Some(padded(put, path.frame_len_max, out));
            }
            this.put_segment(index, now, cut, source, header, out)
        })?;
        let session = &self.sessions[index as usize];
        let (port, is_bulk) = session.bulk_way();
        let mut transmit = session.transmit(index, is_bulk, len, segment_len);
        transmit.to.set_port(port);
        let end = session.bulk.next();
        if !again && end > begin {
            transmit.mark = self.mark(Mark { peer: transmit.peer, bulk: true, end });
        }
        Some(transmit)
    }

    /// Bytes of the message whose turn it is that have not gone; the rest of one that begins unasked
    /// has been asked for before it is to go, as a rule.
    fn bytes_waiting(&mut self, index: u32) -> u64 {
        let Some(job) = self.sessions[index as usize].jobs.front() else { return 0 };
        let end = match job.transfer {
            Transfer::Pulled(_) => job.end,
            Transfer::Unasked(id) => self.sends.get_mut(id).map_or(job.end, |send| send.total),
        };
        end - job.offset
    }

    /// How many datagrams, `max` at most, of pulled messages of one length make one train, and the bytes of
    /// a message in each: a train for each message would cost the kernel as much as a long one. All but
    /// the last have to be of one length, so each message is cut into equal pieces, up to half as many
    /// again as it needs. Nothing if fewer than two would go together.
    fn alike(&self, index: u32, capacity: usize, max: usize) -> Option<(usize, usize)> {
        let jobs = &self.sessions[index as usize].jobs;
        // Mostly one message waits, and this is asked for each of its trains.
        if jobs.len() < 2 {
            return None;
        }
        let rest = |job: &Job| match job.transfer {
            Transfer::Pulled(_) => (job.end - job.offset) as usize,
            Transfer::Unasked(_) => 0,
        };
        let first = jobs.front().map(rest).filter(|len| *len > 0)?;
        let least = first.div_ceil(capacity);
        // One that fills a train leaves no room for another.
        let pieces = (least..=(least + least / 2).min(max.saturating_sub(1)))
            .find(|pieces| first % pieces == 0)?;
        let alike = jobs.iter().take(max / pieces).take_while(|job| rest(job) == first).count();
        // One that is shorter than a piece may be the last.
        let ends = jobs.get(alike).is_some_and(|job| (1..first / pieces).contains(&rest(job)));
        let count = (alike * pieces + usize::from(ends)).min(max);
        (count > pieces).then_some((count, first / pieces))
    }

    /// Whether the only body that waits announces the message of which a train goes unasked: then it goes
    /// in front of that, as its first datagram. By itself it would take the kernel half as long as the train.
    fn leads_train(&self, index: u32) -> bool {
        let session = &self.sessions[index as usize];
        let begins = session
            .jobs
            .front()
            .is_some_and(|job| job.offset == 0 && matches!(job.transfer, Transfer::Unasked(_)));
        let is_ready =
            session.queue.len() == 1 && session.ordered.room() > 0 && !session.ordered.has_lost();
        begins && is_ready && session.bulk_port != 0 && session.bulk.is_idle()
    }

    /// Writes the body of the next bulk datagram.
    fn put_segment(
        &mut self,
        index: u32,
        now: Instant,
        cut: Cut<'_>,
        source: &dyn Source,
        header: &mut Header,
        out: &mut [u8],
    ) -> Option<Put> {
        let (number, piece) = self.next_piece(index, now, cut)?;
        let len = HEADER_LEN + SEGMENT_PREFIX_LEN + piece.len as usize;
        let datagram = &mut out[..len];
        Segment::emit_prefix(piece.transfer, piece.offset, &mut datagram[HEADER_LEN..]);
        let (prefix, payload) = datagram[HEADER_LEN..].split_at_mut(SEGMENT_PREFIX_LEN);
        let mut sum = None;
        if let Some(send) = self.sends.get_mut(piece.send_id) {
            if self.encryption.is_none() {
                let prefix = Crc32c::EMPTY.over(prefix);
                sum = Some(source.read_summed(send.token, piece.offset, payload, prefix));
            } else {
                source.read(send.token, piece.offset, payload);
            }
        }
        let session = &mut self.sessions[index as usize];
        let held = held_us(&session.ordered_debt, now);
        session.put_header(&self.config, held, Kind::Bulk, number, header);
        Some(Put { len, sum })
    }

    /// The next segment, lost ones first.
    fn next_piece(&mut self, index: u32, now: Instant, cut: Cut<'_>) -> Option<(u64, Piece)> {
        let Cut { path, piece_len } = cut;
        let session = &mut self.sessions[index as usize];
        if session.bulk.has_lost() {
            // What is too long goes in parts.
            let fits = |piece: &Piece| piece.len as usize <= path.segment_len_max();
            let (number, piece) = session.bulk.resend_lost(now, &session.rtt, fits)?;
            let piece = *piece;
            self.stats.bulk_retransmitted += 1;
            session.traffic.retransmitted += 1;
            return Some((number, piece));
        }
        let in_flight = session.bulk.flying() as usize * path.frame_len_max;
        let window = session.bulk_window_len as usize;
        let full = in_flight > 0 && in_flight + path.frame_len_max > window;
        if session.bulk.room() == 0 || (full && self.config.flow_control) {
            return None;
        }
        let job = session.jobs.front_mut()?;
        let len = (job.end - job.offset).min(piece_len as u64);
        let piece = Piece {
            send_id: job.send_id,
            transfer: job.transfer,
            offset: job.offset,
            len: len as u32,
        };
        job.offset += len;
        if job.offset == job.end {
            session.jobs.pop_front();
        }
        Some((session.bulk.push(now, &session.rtt, piece), piece))
    }
}

impl Session {
    fn is_drained_of_flight(&self) -> bool {
        self.ordered.is_idle() && (!self.uses_bulk || self.bulk.is_idle())
    }

    pub(crate) fn transmit(
        &self,
        index: u32,
        bulk: bool,
        len: usize,
        segment_len: usize,
    ) -> Transmit {
        let (peer, to, path) = (PeerId(index), self.at, self.path);
        Transmit { peer, to, path, bulk, is_probe: false, len, segment_len, mark: None }
    }

    /// The header of what is sent now; what it acknowledges is no longer owed. `held_us` is that of
    /// the ordered debt as it was before a record in the same datagram paid it.
    #[inline]
    pub(crate) fn put_header(
        &mut self,
        config: &Config,
        held_us: u16,
        kind: Kind,
        number: u64,
        header: &mut Header,
    ) {
        self.used = true;
        self.credit_told = self.credit_to_tell();
        // What a header does not say is still owed.
        if !self.ordered_in.has_gap() && !self.ordered_debt.overrun {
            self.ordered_debt.clear();
        }
        header.kind = kind;
        header.source = config.epoch;
        header.destination = self.epoch;
        header.sequence = number % (1 << NUMBER_BITS);
        header.ack = self.ordered_in.next() as u32;
        header.credit = self.credit_told as u32;
        header.ack_delay_us = held_us;
        header.bulk_port = config.paths[self.path].bulk_port;
    }

    /// Writes the acknowledgement records that are owed behind the header, if
    /// they fit beside `body_len` further bytes; answers their length.
    pub(crate) fn put_acks(
        &mut self,
        now: Instant,
        frame_len_max: usize,
        body_len: usize,
        out: &mut [u8],
    ) -> usize {
        let mut at = HEADER_LEN;
        let lanes = [
            (lane::ORDERED, &self.ordered_in, &mut self.ordered_debt),
            (lane::BULK, &self.bulk_in, &mut self.bulk_debt),
        ];
        let in_use = if self.uses_bulk { 2 } else { 1 };
        for (lane, window, debt) in lanes.into_iter().take(in_use) {
            let owed = debt.packets > 0 || debt.now;
            let is_first = lane == lane::ORDERED && self.clock_told < CLOCK_TOLD_FIRST;
            // Without a gap the header itself acknowledges the ordered lane, but has no clock.
            //= docs/protocol.md#41-congestion
            //# An endpoint MUST put an ACK record of the ordered lane into the first 8 datagrams to a peer that are ordered or control and have room, and into each control datagram that acknowledges ordered packets.
            let is_in_header = lane == lane::ORDERED
                && body_len > 0
                && debt.packets < CLOCK_TOLD_AFTER
                && !debt.overrun
                && !window.has_gap();
            if !is_first && (!owed || is_in_header) {
                continue;
            }
            let mut bitmap = [0; 8 * BITMAP_WORDS_MAX];
            let bitmap_len = window.bitmap(&mut bitmap);
            let delay_us = if debt.overrun { DELAY_OVERRUN } else { held_us(debt, now) };
            let record = Record::Ack(Ack {
                lane,
                delay_us,
                is_exact: debt.is_exact && delay_us < DELAY_OVERRUN,
                //= docs/protocol.md#41-congestion
                //# An ACK record MUST tell, as `sent at`, the low 32 bits of its sender's clock in microseconds.
                sent_at_us: micros(now),
                cumulative: window.next() as u32,
                bitmap: &bitmap[..bitmap_len],
            });
            if at + record.len() + body_len <= frame_len_max {
                at += record.emit(&mut out[at..]);
                self.clock_told += u8::from(is_first);
                debt.clear();
            }
        }
        at - HEADER_LEN
    }
}

pub(crate) fn held_us(debt: &AckDebt, now: Instant) -> u16 {
    //= docs/protocol.md#4-acknowledgement
    //# An acknowledgement that may have been told before MUST say that its delay is unknown, and MUST NOT give a sample of the round trip.
    if debt.packets == 0 || debt.overrun {
        return DELAY_UNKNOWN;
    }
    if debt.twice {
        return DELAY_TWICE;
    }
    let us = u16::try_from((now - debt.newest_at).as_micros()).ok();
    us.filter(|us| *us < DELAY_OVERRUN).unwrap_or(DELAY_LONG)
}
