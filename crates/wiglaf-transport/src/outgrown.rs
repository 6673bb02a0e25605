//! Packets that are longer than their path carries since it narrowed: they go in parts, and are put together
//! at the other side (docs/protocol.md, section 2.5; docs/adr/0049-a-narrowed-path-gets-parts.md).
//!
//! A packet that goes again keeps its number and its length, as nobody knows whether it has arrived. So what
//! is too long is not packed anew, but cut. That is slow, one packet of a lane at a time, and there are never
//! more of them than two windows and a queue hold: whatever is made later is short enough.

use wiglaf_wire::{NUMBER_BITS, PART_PREFIX_LEN, PART_STEP, Part, RECORD_PREFIX_LEN, Record, lane};

use crate::limits::PARTS_IN_VAIN_MAX;

/// What a datagram has around the bytes of a part.
pub(crate) const AROUND: usize = RECORD_PREFIX_LEN + PART_PREFIX_LEN;
const STEPS_MAX: usize = (u16::MAX as usize).div_ceil(PART_STEP);
const WORDS: usize = STEPS_MAX.div_ceil(64);

/// What a path carries no longer of what was made for it.
#[derive(Debug, Clone)]
struct Outgrown {
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

impl Outgrown {
    /// Whether no packet is going.
    fn is_between(&self) -> bool {
        self.gone == self.body.len()
    }
}

/// A packet that comes in parts.
#[derive(Debug, Clone)]
struct Coming {
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

/// What goes to a peer in parts, and what comes from it so.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts {
    /// Packets that the path carries no longer.
    outgrown: Option<Outgrown>,
    /// A packet of each lane that comes in parts.
    coming: [Option<Coming>; 2],
}

/// What a part is to its receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartTaken {
    /// The packet has come before, by itself or in parts.
    Before,
    /// Others are missing.
    Some,
    /// The body of the packet is here.
    All(Vec<u8>),
    /// No sender would send it.
    Refused,
}

impl Parts {
    /// Whether nothing goes or comes in parts.
    pub(crate) fn is_empty(&self) -> bool {
        self.outgrown.is_none() && self.coming.iter().all(Option::is_none)
    }

    /// The path has narrowed: packets of each lane from there on are short enough.
    pub(crate) fn begin(&mut self, end: [u64; 2]) {
        let (lane, number, body, gone) = (lane::ORDERED, 0, Vec::new(), 0);
        self.outgrown = Some(Outgrown { end, lane, number, body, gone, in_vain: (0, 0, 0) });
    }

    /// Whether anything goes in parts, while the first packets that are not acknowledged are these; what has all
    /// arrived is forgotten.
    pub(crate) fn has_outgrown(&mut self, bases: [u64; 2]) -> bool {
        let has_left = |o: &mut Outgrown| o.is_between() && (0..2).all(|i| bases[i] >= o.end[i]);
        self.outgrown.take_if(has_left);
        self.outgrown.is_some()
    }

    /// Whether another packet may go in parts.
    pub(crate) fn wants_packet(&self) -> bool {
        self.outgrown.as_ref().is_some_and(Outgrown::is_between)
    }

    /// That packet goes in parts.
    pub(crate) fn send(&mut self, lane: u8, number: u64, body: Vec<u8>) {
        if let Some(outgrown) = &mut self.outgrown {
            (outgrown.lane, outgrown.number) = (lane, number);
            (outgrown.body, outgrown.gone) = (body, 0);
        }
    }

    /// Writes the next part to `out`, in a datagram that has `room` for so many bytes of it; answers how much that is.
    pub(crate) fn next_part(&mut self, room: usize, out: &mut [u8]) -> Option<usize> {
        let outgrown = self.outgrown.as_mut()?;
        let rest = &outgrown.body[outgrown.gone..];
        let payload = &rest[..rest.len().min(room / PART_STEP * PART_STEP)];
        let gone = outgrown.gone + payload.len();
        let part = Part {
            lane: outgrown.lane,
            number: outgrown.number % (1 << NUMBER_BITS),
            total: outgrown.body.len() as u16,
            offset: outgrown.gone as u16,
            payload,
        };
        let len = Record::Part(part).emit(out);
        outgrown.gone = gone;
        if gone == outgrown.body.len() {
            (outgrown.body, outgrown.gone) = (Vec::new(), 0);
        }
        Some(len)
    }

    /// The way carries what is sent, and a lane is stuck all the same: whether that has been so for long. The peer
    /// does not know of parts then.
    pub(crate) fn are_in_vain(&mut self, bases: [u64; 2]) -> bool {
        let Some(outgrown) = &mut self.outgrown else { return false };
        if bases[usize::from(outgrown.lane)] != outgrown.number {
            return false;
        }
        let (lane, number, times) = outgrown.in_vain;
        let is_same = (lane, number) == (outgrown.lane, outgrown.number);
        let times = if is_same { times + 1 } else { 1 };
        outgrown.in_vain = (outgrown.lane, outgrown.number, times);
        times >= PARTS_IN_VAIN_MAX
    }

    /// Takes a part of packet `number`, while its lane awaits packet `next`, and the longest body has `len_max` bytes.
    //= docs/protocol.md#25-length
    //# A receiver MUST refuse a PART of a packet behind the next that its lane awaits, of a longer packet than it could receive at once, or of another length than those before.
    pub(crate) fn take(
        &mut self,
        part: &Part<'_>,
        number: u64,
        next: u64,
        len_max: usize,
    ) -> PartTaken {
        let total = usize::from(part.total);
        let coming = &mut self.coming[usize::from(part.lane == lane::BULK)];
        coming.take_if(|coming| coming.number != next);
        let is_other = coming.as_ref().is_some_and(|coming| coming.body.len() != total);
        if number > next || is_other || total > len_max {
            return PartTaken::Refused;
        }
        let parts = coming.get_or_insert_with(|| Coming::new(number, total));
        parts.take(part);
        match coming.take_if(|coming| coming.missing == 0) {
            Some(Coming { body, .. }) => PartTaken::All(body),
            None => PartTaken::Some,
        }
    }

    /// Forgets what is over: what came of packets that are not `next`, and what goes, if it is `drained`.
    pub(crate) fn rest(&mut self, next: [u64; 2], drained: bool) {
        for (coming, next) in self.coming.iter_mut().zip(next) {
            coming.take_if(|coming| coming.number != next);
        }
        self.outgrown.take_if(|_| drained);
    }
}
