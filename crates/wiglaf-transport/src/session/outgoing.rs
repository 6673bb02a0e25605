//! What goes out to one peer: which lane, which bytes.

use wiglaf_wire::{
    BITMAP_WORDS_MAX, HEADER_LEN, Header, Kind, NUMBER_BITS, PART_STEP, RECORD_PREFIX_LEN, Record,
    lane,
};

use super::{Session, State};
use crate::config::{Config, Path, PeerId};
use crate::limits::{CLOCK_TOLD_AFTER, CLOCK_TOLD_FIRST, LATENCY_TRAINS_MAX};
use crate::outgrown::AROUND;
use crate::queue::Body;
use crate::rendezvous::{Piece, Rendezvous};
use crate::sizing::PROBE_ROOM;
use crate::stats::Stats;
use crate::time::Instant;
use crate::trains::{Place, Put, Sealer, Shape, even_part, put_padding, tapered_part};
use crate::{Mark, Source, Transmit};

/// What it takes to send, beside a session.
pub(crate) struct Tools<'a> {
    now: Instant,
    config: &'a Config,
    sealer: &'a mut Sealer,
    rendezvous: &'a mut Rendezvous,
    source: &'a dyn Source,
    stats: &'a mut Stats,
}

impl<'a> Tools<'a> {
    pub(crate) fn new(
        now: Instant,
        config: &'a Config,
        sealer: &'a mut Sealer,
        rendezvous: &'a mut Rendezvous,
        source: &'a dyn Source,
        stats: &'a mut Stats,
    ) -> Self {
        Self { now, config, sealer, rendezvous, source, stats }
    }
}

/// How messages are cut into bulk datagrams.
#[derive(Clone, Copy)]
struct Cut<'a> {
    path: &'a Path,
    /// Bytes of a message in each; lost ones keep the length that they had.
    piece_len: usize,
}

/// What all datagrams of a train have in common.
#[derive(Clone, Copy)]
struct Stamp<'a> {
    now: Instant,
    config: &'a Config,
    /// Bodies are summed while they are copied.
    is_summed: bool,
}

impl Session {
    /// Writes the next train to `out`, if there is anything to send now.
    pub(crate) fn transmit(
        &mut self,
        index: u32,
        tools: &mut Tools<'_>,
        out: &mut [u8],
    ) -> Option<Transmit> {
        match self.state {
            State::Open => {}
            State::Closed => return self.transmit_acks(index, tools, out),
            State::Gone => return None,
        }
        if self.way.is_tried()
            && let Some(transmit) = self.transmit_probe_or_part(index, tools, out)
        {
            return Some(transmit);
        }
        let was_idle = self.ordered.is_idle() && (!self.uses_bulk || self.bulk.is_idle());
        let mut transmit = None;
        if !self.leads_train() {
            transmit = self.transmit_ordered(index, tools, out);
        }
        let transmit = transmit.or_else(|| self.transmit_bulk(index, tools, out));
        if was_idle && transmit.is_some() {
            // From here on the peer owes an answer.
            self.hearing.note_sent(tools.now);
        }
        transmit.or_else(|| self.transmit_acks(index, tools, out))
    }

    fn transmit_ordered(
        &mut self,
        index: u32,
        tools: &mut Tools<'_>,
        out: &mut [u8],
    ) -> Option<Transmit> {
        let Tools { now, config, ref mut sealer, ref mut stats, .. } = *tools;
        let path = self.way.path(config);
        let ready = self.queue.due().min(self.ordered.room() as usize);
        let again = self.ordered.has_lost();
        if ready == 0 && !again {
            return None;
        }
        let train_max = path.latency_train_max;
        let is_short = ready <= if train_max > 1 { LATENCY_TRAINS_MAX * train_max } else { 1 };
        // What is sent next must follow what went on the bulk lane.
        let is_behind_bulk = self.ordered_on_bulk_below > self.ordered.base();
        let by_bulk = ready > 0 && (is_behind_bulk || !is_short);
        let bulk_port = self.way.bulk_port().filter(|_| by_bulk);
        let count_max = match again {
            true => even_part(self.ordered.lost_count(), train_max),
            false if bulk_port.is_some() => tapered_part(ready, path.bulk_train_max),
            false if is_short => even_part(ready, train_max),
            false => 1,
        };
        let shape = Shape::new(count_max, path.frame_len_max, true);
        let stamp = Stamp { now, config, is_summed: sealer.sums() };
        let resent = self.traffic.retransmitted;
        let train =
            sealer.put_train(shape, out, &mut stats.datagrams_sent, |place, header, out| {
                self.put_ordered(stamp, place, header, out)
            });
        stats.ordered_retransmitted += self.traffic.retransmitted - resent;
        let mut transmit = self.train(index, bulk_port.is_some(), train?);
        if let Some(port) = bulk_port {
            transmit.to.set_port(port);
            self.ordered_on_bulk_below = self.ordered.next();
            // A train that may be read while another is written in its place. A plain one of a
            // job that encrypts may not: what comes there next is not encrypted at first.
            if count_max > 1 && !again && stamp.is_summed {
                let end = self.ordered.next();
                transmit.mark = Some(Mark { peer: transmit.peer, bulk: false, end });
            }
        }
        Some(transmit)
    }

    /// Writes the body of the next ordered datagram, lost ones first, if there is one that fits; what is too long even
    /// for the first of a train goes in parts.
    fn put_ordered(
        &mut self,
        stamp: Stamp<'_>,
        place: Place,
        header: &mut Header,
        out: &mut [u8],
    ) -> Option<Put> {
        let Stamp { now, config, is_summed } = stamp;
        let held = self.ordered_in.held_us(now);
        let fits = |body: &Body| HEADER_LEN + body.len() <= place.len_max();
        let (number, put) = if self.ordered.has_lost() {
            // Acknowledgements go in a datagram of their own: the body may be full.
            let (number, body) = self.ordered.resend_lost(now, &self.rtt, fits)?;
            let put = place.padded(Put::body(HEADER_LEN, body.bytes(), out, is_summed), out);
            self.traffic.retransmitted += 1;
            (number, put)
        } else {
            if self.ordered.room() == 0 {
                return None;
            }
            let body = self.queue.pop_if(fits)?;
            let at = HEADER_LEN + self.put_acks(now, place.len_max(), body.len(), out);
            let put = place.padded(Put::body(at, body.bytes(), out, is_summed), out);
            (self.ordered.push(now, &self.rtt, body), put)
        };
        self.put_header(config, held, Kind::Ordered, number, header);
        Some(put)
    }

    fn transmit_acks(
        &mut self,
        index: u32,
        tools: &mut Tools<'_>,
        out: &mut [u8],
    ) -> Option<Transmit> {
        if !self.has_due_ack() {
            return None;
        }
        let held = self.ordered_in.held_us(tools.now);
        let len = HEADER_LEN + self.put_acks(tools.now, self.way.frame_len(), 0, out);
        let transmit = self.seal_control(index, tools, held, len, out);
        self.ordered_in.was_tried();
        if self.uses_bulk {
            self.bulk_in.was_tried();
        }
        Some(transmit)
    }

    /// Finishes a control datagram of `len` bytes, whose records are in place.
    fn seal_control(
        &mut self,
        index: u32,
        tools: &mut Tools<'_>,
        held_us: u16,
        len: usize,
        out: &mut [u8],
    ) -> Transmit {
        let number = self.control_next;
        self.control_next += 1;
        let mut header = Header::EMPTY;
        self.put_header(tools.config, held_us, Kind::Control, number, &mut header);
        let len = tools.sealer.seal(&header, None, len, out);
        tools.stats.datagrams_sent += 1;
        self.train(index, false, (len, len))
    }

    fn transmit_bulk(
        &mut self,
        index: u32,
        tools: &mut Tools<'_>,
        out: &mut [u8],
    ) -> Option<Transmit> {
        if !self.uses_bulk || !self.way.is_open() {
            return None;
        }
        let Tools { now, config, source, ref mut sealer, ref mut rendezvous, ref mut stats } =
            *tools;
        let waiting = rendezvous.bytes_waiting(&self.transfers) as usize;
        let path = self.way.path(config);
        let capacity = path.segment_len_max();
        let train_max = path.bulk_train_max.min(self.bulk.train_max());
        let again = self.bulk.has_lost();
        let begin = self.bulk.next();
        let mut leads = self.leads_train();
        let alike = if again || leads { None } else { self.transfers.alike(capacity, train_max) };
        let (count_max, piece_len) = match alike {
            Some(alike) => alike,
            None if again => (train_max, capacity),
            None => {
                let pieces = usize::from(leads) + waiting.div_ceil(capacity);
                (tapered_part(pieces, train_max), capacity)
            }
        };
        let shape = Shape::new(count_max, path.frame_len_max, alike.is_some());
        let cut = Cut { path: &path, piece_len };
        let stamp = Stamp { now, config, is_summed: sealer.sums() };
        let resent = self.traffic.retransmitted;
        let train =
            sealer.put_train(shape, out, &mut stats.datagrams_sent, |place, header, out| {
                if std::mem::take(&mut leads) {
                    let put = self.put_ordered(stamp, place, header, out)?;
                    self.ordered_on_bulk_below = self.ordered.next();
                    return Some(put.padded(path.frame_len_max, out));
                }
                let (number, piece) = self.next_piece(now, cut, config.flow_control)?;
                let len = HEADER_LEN + piece.body_len();
                let sum =
                    rendezvous.put(&piece, source, stamp.is_summed, &mut out[HEADER_LEN..len]);
                let held = self.ordered_in.held_us(now);
                self.put_header(config, held, Kind::Bulk, number, header);
                Some(Put::new(len, sum))
            });
        stats.bulk_retransmitted += self.traffic.retransmitted - resent;
        let port = self.way.bulk_port();
        let mut transmit = self.train(index, port.is_some(), train?);
        transmit.to.set_port(port.unwrap_or(self.at.port()));
        let end = self.bulk.next();
        if !again && end > begin && stamp.is_summed {
            transmit.mark = Some(Mark { peer: transmit.peer, bulk: true, end });
        }
        Some(transmit)
    }

    /// Whether the only body that waits announces the message of which a train goes unasked: then it goes
    /// in front of that, as its first datagram. By itself it would take the kernel half as long as the train.
    fn leads_train(&self) -> bool {
        let is_ready =
            || self.queue.len() == 1 && self.ordered.room() > 0 && !self.ordered.has_lost();
        self.transfers.begins_unasked() && is_ready() && self.way.is_open() && self.bulk.is_idle()
    }

    /// The next segment, lost ones first.
    fn next_piece(
        &mut self,
        now: Instant,
        cut: Cut<'_>,
        flow_control: bool,
    ) -> Option<(u64, Piece)> {
        let Cut { path, piece_len } = cut;
        if self.bulk.has_lost() {
            // What is too long goes in parts.
            let fits = |piece: &Piece| HEADER_LEN + piece.body_len() <= path.frame_len_max;
            let (number, piece) = self.bulk.resend_lost(now, &self.rtt, fits)?;
            self.traffic.retransmitted += 1;
            return Some((number, *piece));
        }
        let has_room = self.transfers.has_room(self.bulk.flying(), path.frame_len_max);
        if self.bulk.room() == 0 || (!has_room && flow_control) {
            return None;
        }
        let piece = self.transfers.next_piece(piece_len)?;
        Some((self.bulk.push(now, &self.rtt, piece), piece))
    }

    /// Writes the next probe, answer to one, or part of a packet, if there is any.
    #[cold]
    fn transmit_probe_or_part(
        &mut self,
        index: u32,
        tools: &mut Tools<'_>,
        out: &mut [u8],
    ) -> Option<Transmit> {
        let probe = self.transmit_probe(index, tools, out);
        probe.or_else(|| self.transmit_part(index, tools, out))
    }

    fn transmit_probe(
        &mut self,
        index: u32,
        tools: &mut Tools<'_>,
        out: &mut [u8],
    ) -> Option<Transmit> {
        let probe = self.way.next_probe(tools.config)?;
        let held = self.ordered_in.held_us(tools.now);
        let at = HEADER_LEN + self.put_acks(tools.now, PROBE_ROOM, 0, out);
        let len = probe.len(at);
        let end = at + probe.record(len).emit(&mut out[at..]);
        if let Some(padding_len) = (len - end).checked_sub(RECORD_PREFIX_LEN) {
            put_padding(padding_len, &mut out[end..len]);
        }
        let mut transmit = self.seal_control(index, tools, held, len, out);
        transmit.is_probe = probe.is_long();
        if let Some(port) = self.way.bulk_port().filter(|_| probe.is_bulk()) {
            transmit.bulk = true;
            transmit.to.set_port(port);
        }
        Some(transmit)
    }

    /// Writes the next part of a packet that is too long for its path, if one may go.
    fn transmit_part(
        &mut self,
        index: u32,
        tools: &mut Tools<'_>,
        out: &mut [u8],
    ) -> Option<Transmit> {
        let bases = self.bases();
        let parts = self.way.parts_if_any()?;
        if !parts.has_outgrown(bases) {
            self.way.leave();
            return None;
        }
        if parts.wants_packet() {
            let (lane, number, body) = self.next_outgrown(tools)?;
            self.way.parts().send(lane, number, body);
        }
        let frame_len = self.way.frame_len();
        let held = self.ordered_in.held_us(tools.now);
        let at = HEADER_LEN + self.put_acks(tools.now, frame_len - AROUND - PART_STEP, 0, out);
        let part = self.way.parts().next_part(frame_len - at - AROUND, &mut out[at..])?;
        let len = at + part;
        Some(self.seal_control(index, tools, held, len, out))
    }

    /// The next packet that goes in parts: lane, number and body.
    //= docs/protocol.md#25-length
    //# A sender MUST NOT send parts of any packet but the oldest of its lane that is not acknowledged.
    fn next_outgrown(&mut self, tools: &mut Tools<'_>) -> Option<(u8, u64, Vec<u8>)> {
        let Tools { now, source, ref mut rendezvous, ref mut stats, .. } = *tools;
        let room = self.way.frame_len() - HEADER_LEN;
        let is_long = |body: &Body| body.len() > room;
        // Behind one that is too long it would wait for ever, as that does for it.
        self.ordered.let_oldest_go_first();
        if self.uses_bulk {
            self.bulk.let_oldest_go_first();
        }
        if self.ordered.has_lost_oldest()
            && let Some((number, body)) = self.ordered.resend_lost(now, &self.rtt, is_long)
        {
            stats.ordered_retransmitted += 1;
            self.traffic.retransmitted += 1;
            return Some((lane::ORDERED, number, body.bytes().to_vec()));
        }
        if self.ordered.is_idle()
            && self.ordered.room() > 0
            && let Some(body) = self.queue.pop_if(is_long)
        {
            self.hearing.note_asked(now);
            let bytes = body.bytes().to_vec();
            return Some((lane::ORDERED, self.ordered.push(now, &self.rtt, body), bytes));
        }
        if !self.uses_bulk || !self.bulk.has_lost_oldest() {
            return None;
        }
        let is_long = |piece: &Piece| piece.body_len() > room;
        let (number, piece) = self.bulk.resend_lost(now, &self.rtt, is_long)?;
        stats.bulk_retransmitted += 1;
        self.traffic.retransmitted += 1;
        let mut body = vec![0; piece.body_len()];
        rendezvous.put(piece, source, false, &mut body);
        Some((lane::BULK, number, body))
    }

    fn train(&self, index: u32, bulk: bool, (len, segment_len): (usize, usize)) -> Transmit {
        let (peer, to, path) = (PeerId(index), self.at, self.way.path_index());
        Transmit { peer, to, path, bulk, is_probe: false, len, segment_len, mark: None }
    }

    /// The header of what is sent now; what it acknowledges is no longer owed. `held_us` is that of
    /// the ordered lane as it was before a record in the same datagram paid what was owed.
    #[inline]
    fn put_header(
        &mut self,
        config: &Config,
        held_us: u16,
        kind: Kind,
        number: u64,
        header: &mut Header,
    ) {
        self.used = true;
        header.kind = kind;
        header.source = config.epoch;
        header.destination = self.epoch;
        header.sequence = number % (1 << NUMBER_BITS);
        header.ack = self.ordered_in.ack_by_header();
        header.credit = self.credit.tell() as u32;
        header.ack_delay_us = held_us;
        header.bulk_port = config.paths[self.way.path_index()].bulk_port;
    }

    /// Writes the acknowledgement records that are owed behind the header, if
    /// they fit beside `body_len` further bytes; answers their length.
    fn put_acks(
        &mut self,
        now: Instant,
        frame_len_max: usize,
        body_len: usize,
        out: &mut [u8],
    ) -> usize {
        let mut at = HEADER_LEN;
        let lanes = [(lane::ORDERED, &mut self.ordered_in), (lane::BULK, &mut self.bulk_in)];
        let in_use = if self.uses_bulk { 2 } else { 1 };
        for (lane, owed) in lanes.into_iter().take(in_use) {
            let is_ordered = lane == lane::ORDERED;
            let is_first = is_ordered && self.clock_told < CLOCK_TOLD_FIRST;
            // Without a gap the header itself acknowledges the ordered lane, but has no clock.
            //= docs/protocol.md#41-congestion
            //# An endpoint MUST put an ACK record of the ordered lane into the first 8 datagrams to a peer that are ordered or control and have room, and into each control datagram that acknowledges ordered packets.
            let in_header_max = if is_ordered && body_len > 0 { CLOCK_TOLD_AFTER } else { 0 };
            if !is_first && !owed.wants_record(in_header_max) {
                continue;
            }
            let mut bitmap = [0; 8 * BITMAP_WORDS_MAX];
            let record = Record::Ack(owed.ack(lane, now, &mut bitmap));
            if at + record.len() + body_len <= frame_len_max {
                at += record.emit(&mut out[at..]);
                self.clock_told += u8::from(is_first);
                owed.settle();
            }
        }
        at - HEADER_LEN
    }
}
