//! Packets that are longer than their path carries since it narrowed: they go in parts, and are put together
//! at the other side (docs/protocol.md, section 2.5; docs/adr/0049-a-narrowed-path-gets-parts.md).
//!
//! A packet that goes again keeps its number and its length, as nobody knows whether it has arrived. So what
//! is too long is not packed anew, but cut. That is slow, one packet of a lane at a time, and there are never
//! more of them than two windows and a queue hold: whatever is made later is short enough.

use wiglaf_wire::{
    HEADER_LEN, Header, Kind, NUMBER_BITS, PART_PREFIX_LEN, PART_STEP, Part, RECORD_PREFIX_LEN,
    Record, SEGMENT_PREFIX_LEN, Segment, lane,
};

use crate::outgoing::held_us;
use crate::sequence::expand_number;
use crate::session::{Body, Piece, Session, from_the_front};
use crate::time::Instant;
use crate::transport::Transport;
use crate::{Sink, Source, Transmit};

/// What a datagram has around the bytes of a part.
const AROUND: usize = RECORD_PREFIX_LEN + PART_PREFIX_LEN;
/// So often parts of a packet go in vain on a way that is good, a second apart, before the peer is given up.
const IN_VAIN_MAX: u8 = 10;
const STEPS_MAX: usize = (u16::MAX as usize).div_ceil(PART_STEP);
const WORDS: usize = STEPS_MAX.div_ceil(64);

/// What a path carries no longer of what was made for it.
#[derive(Debug, Clone)]
pub(crate) struct Outgrown {
    /// Packets of each lane from there on are short enough.
    end: [u64; 2],
    /// The lane and number of the packet that goes in parts.
    lane: u8,
    number: u64,
    /// Its body, and how much of it has gone.
    body: Vec<u8>,
    gone: usize,
    /// The packet, by lane and number, whose parts went in vain when the way was last found to be good, and how
    /// often that was so.
    in_vain: (u8, u64, u8),
}

/// A packet that comes in parts.
#[derive(Debug, Clone)]
pub(crate) struct Coming {
    number: u64,
    body: Vec<u8>,
    /// Which steps of it are here.
    here: [u64; WORDS],
    /// How many are not.
    missing: usize,
}

impl Coming {
    fn new(number: u64, total: usize) -> Self {
        let missing = total.div_ceil(PART_STEP);
        Self { number, body: vec![0; total], here: [0; WORDS], missing }
    }

    /// Takes a part, whose ends were checked when it was parsed.
    fn take(&mut self, part: &Part<'_>) {
        let begin = usize::from(part.offset);
        let end = begin + part.payload.len();
        self.body[begin..end].copy_from_slice(part.payload);
        for step in begin / PART_STEP..end.div_ceil(PART_STEP) {
            let bit = 1 << (step % 64);
            self.missing -= usize::from(self.here[step / 64] & bit == 0);
            self.here[step / 64] |= bit;
        }
    }
}

impl Session {
    /// Takes all that is not acknowledged for lost, and answers where what is short enough begins.
    pub(crate) fn outgrow(&mut self) -> Outgrown {
        self.ordered.lose_all();
        let mut end = [self.ordered.next() + self.queue.len() as u64, 0];
        if self.uses_bulk {
            self.bulk.lose_all();
            end[1] = self.bulk.next();
        }
        Outgrown {
            end,
            lane: lane::ORDERED,
            number: 0,
            body: Vec::new(),
            gone: 0,
            in_vain: (0, 0, 0),
        }
    }

    /// Whether all that was too long has arrived.
    fn has_left_outgrown(&self, outgrown: &Outgrown) -> bool {
        self.ordered.base() >= outgrown.end[0]
            && (!self.uses_bulk || self.bulk.base() >= outgrown.end[1])
    }

    /// The way carries what is sent, and a lane is stuck all the same: whether that has been so for long. The peer
    /// does not know of parts then.
    pub(crate) fn parts_are_in_vain(&mut self) -> bool {
        let bases = self.bases();
        let Some(outgrown) = self.trials.as_mut().and_then(|trials| trials.outgrown.as_mut())
        else {
            return false;
        };
        if bases[usize::from(outgrown.lane)] != outgrown.number {
            return false;
        }
        let (lane, number, times) = outgrown.in_vain;
        let is_same = (lane, number) == (outgrown.lane, outgrown.number);
        let times = if is_same { times + 1 } else { 1 };
        outgrown.in_vain = (outgrown.lane, outgrown.number, times);
        times >= IN_VAIN_MAX
    }

    /// Gives back the memory of parts that are over.
    pub(crate) fn rest_parts(&mut self) {
        let next = [self.ordered_in.next(), self.bulk_in.next()];
        let is_over = self.is_drained();
        let Some(trials) = &mut self.trials else { return };
        for (coming, next) in trials.coming.iter_mut().zip(next) {
            coming.take_if(|coming| coming.number != next);
        }
        if is_over {
            trials.outgrown = None;
        }
        self.leave_trials();
    }
}

impl Transport {
    /// Writes the next part of a packet that is too long for its path, if one may go.
    pub(crate) fn transmit_part(
        &mut self,
        index: u32,
        now: Instant,
        source: &dyn Source,
        out: &mut [u8],
    ) -> Option<Transmit> {
        let session = &self.sessions[index as usize];
        let outgrown = session.trials.as_ref()?.outgrown.as_ref()?;
        if outgrown.gone == outgrown.body.len() {
            if session.has_left_outgrown(outgrown) {
                self.sessions[index as usize].rest_outgrown();
                return None;
            }
            let (lane, number, body) = self.next_outgrown(index, now, source)?;
            let trials = self.sessions[index as usize].trials.as_mut()?;
            let outgrown = trials.outgrown.as_mut()?;
            (outgrown.lane, outgrown.number) = (lane, number);
            (outgrown.body, outgrown.gone) = (body, 0);
        }
        let session = &mut self.sessions[index as usize];
        let frame_len = session.frame_len as usize;
        let held = held_us(&session.ordered_debt, now);
        let at = HEADER_LEN + session.put_acks(now, frame_len - AROUND - PART_STEP, 0, out);
        let outgrown = session.trials.as_mut()?.outgrown.as_mut()?;
        let room = (frame_len - at - AROUND) / PART_STEP * PART_STEP;
        let rest = &outgrown.body[outgrown.gone..];
        let part = Part {
            lane: outgrown.lane,
            number: outgrown.number % (1 << NUMBER_BITS),
            total: outgrown.body.len() as u16,
            offset: outgrown.gone as u16,
            payload: &rest[..rest.len().min(room)],
        };
        let len = at + Record::Part(part).emit(&mut out[at..]) + self.tag_len;
        outgrown.gone += part.payload.len();
        if outgrown.gone == outgrown.body.len() {
            (outgrown.body, outgrown.gone) = (Vec::new(), 0);
        }
        let number = session.control_next;
        session.control_next += 1;
        let mut header = Header::EMPTY;
        session.put_header(&self.config, held, Kind::Control, number, &mut header);
        self.seal(&header, None, &mut out[..len]);
        self.stats.datagrams_sent += 1;
        Some(self.sessions[index as usize].transmit(index, false, len, len))
    }

    /// The next packet that goes in parts: lane, number and body.
    //= docs/protocol.md#25-length
    //# A sender MUST NOT send parts of any packet but the oldest of its lane that is not acknowledged.
    fn next_outgrown(
        &mut self,
        index: u32,
        now: Instant,
        source: &dyn Source,
    ) -> Option<(u8, u64, Vec<u8>)> {
        let session = &mut self.sessions[index as usize];
        let room = session.frame_len as usize - HEADER_LEN;
        let is_long = |body: &Body| body.len > room;
        // Behind one that is too long it would wait for ever, as that does for it.
        session.ordered.let_oldest_go_first();
        if session.uses_bulk {
            session.bulk.let_oldest_go_first();
        }
        if session.ordered.has_lost_oldest()
            && let Some((number, body)) = session.ordered.resend_lost(now, &session.rtt, is_long)
        {
            self.stats.ordered_retransmitted += 1;
            session.traffic.retransmitted += 1;
            return Some((lane::ORDERED, number, body.bytes().to_vec()));
        }
        if session.ordered.is_idle()
            && session.ordered.room() > 0
            && let Some(body) = session.queue.pop_front_if(|body| is_long(body))
        {
            from_the_front(&mut session.queue);
            session.heard_at = session.heard_at.max(now);
            let bytes = body.bytes().to_vec();
            return Some((lane::ORDERED, session.ordered.push(now, &session.rtt, body), bytes));
        }
        if !session.uses_bulk || !session.bulk.has_lost_oldest() {
            return None;
        }
        let is_long = |piece: &Piece| SEGMENT_PREFIX_LEN + piece.len as usize > room;
        let (number, piece) = session.bulk.resend_lost(now, &session.rtt, is_long)?;
        let piece = *piece;
        self.stats.bulk_retransmitted += 1;
        session.traffic.retransmitted += 1;
        let mut body = vec![0; SEGMENT_PREFIX_LEN + piece.len as usize];
        Segment::emit_prefix(piece.transfer, piece.offset, &mut body);
        if let Some(send) = self.sends.get_mut(piece.send_id) {
            source.read(send.token, piece.offset, &mut body[SEGMENT_PREFIX_LEN..]);
        }
        Some((lane::BULK, number, body))
    }

    /// Takes a part of a packet, and the packet once it is whole.
    //= docs/protocol.md#25-length
    //# A receiver MUST refuse a PART of a packet behind the next that its lane awaits, of a longer packet than it could receive at once, or of another length than those before.
    pub(crate) fn take_part(
        &mut self,
        index: u32,
        part: &Part<'_>,
        now: Instant,
        sink: &mut dyn Sink,
    ) {
        let session = &mut self.sessions[index as usize];
        let is_bulk = part.lane == lane::BULK;
        let next = if is_bulk { session.bulk_in.next() } else { session.ordered_in.next() };
        let number = expand_number(part.number, next);
        let kind = if is_bulk { Kind::Bulk } else { Kind::Ordered };
        let header = Header { kind, sequence: part.number, ..Header::EMPTY };
        if number < next {
            // The acknowledgement is lost, or it came at once after all.
            self.take_number(index, &header, now);
            return;
        }
        let total = usize::from(part.total);
        let coming = &mut session.trials.get_or_insert_default().coming[usize::from(is_bulk)];
        coming.take_if(|coming| coming.number != next);
        let is_other = coming.as_ref().is_some_and(|coming| coming.body.len() != total);
        let len_max = self.config.paths[session.path].frame_len_max - HEADER_LEN;
        if number > next || is_other || total > len_max {
            self.stats.drop_part += 1;
            return session.leave_trials();
        }
        let parts = coming.get_or_insert_with(|| Coming::new(number, total));
        parts.take(part);
        if parts.missing > 0 {
            return;
        }
        let Some(Coming { body, .. }) = coming.take() else { return };
        session.leave_trials();
        let Some(packet) = self.take_number(index, &header, now) else { return };
        // Its sender waits for that before it goes on.
        if is_bulk {
            self.sessions[index as usize].bulk_debt.now = true;
            self.take_bulk(index, packet, &body, sink);
        } else {
            self.sessions[index as usize].ordered_debt.now = true;
            self.take_ordered(index, packet, &body, sink);
        }
        self.wake(index);
    }
}

impl Session {
    fn rest_outgrown(&mut self) {
        if let Some(trials) = &mut self.trials {
            trials.outgrown = None;
        }
        self.leave_trials();
    }
}
