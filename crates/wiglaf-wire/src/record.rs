//! Records: what the body of an ordered or control datagram is made of, and
//! the prefix of a bulk segment (docs/protocol.md, sections 3 and 5).

use crate::WireError;
use crate::bytes::{Reader, Writer};

/// Length of the prefix that each record starts with: type, flags, length.
pub const RECORD_PREFIX_LEN: usize = 4;
/// Length of a message envelope in bytes, without the address that some classes add.
pub const ENVELOPE_LEN: usize = 24;
/// What an envelope that names memory has beyond [`ENVELOPE_LEN`], in bytes.
const ADDRESS_LEN: usize = 8;
/// Length of the prefix of a bulk segment in bytes.
pub const SEGMENT_PREFIX_LEN: usize = 16;
/// Most 64-bit words in an acknowledgement's bitmap.
pub const BITMAP_WORDS_MAX: usize = 32;

/// Numbers of the two packet-number spaces.
pub mod lane {
    /// Records, delivered in order.
    pub const ORDERED: u8 = 0;
    /// Bulk segments, delivered as they come.
    pub const BULK: u8 = 1;
}

const T_MESSAGE: u8 = 0x01;
const T_FIRST: u8 = 0x02;
const T_NEXT: u8 = 0x03;
const T_REQUEST: u8 = 0x04;
const T_PULL: u8 = 0x05;
const T_CLOSE: u8 = 0x06;
const T_PADDING: u8 = 0x07;
const T_ACK: u8 = 0x10;
const T_PROBE: u8 = 0x11;
const T_FITS: u8 = 0x12;
const T_PART: u8 = 0x13;

const F_DATA: u8 = 0x01;
const F_HELD: u8 = 0x02;
const F_LAST: u8 = 0x01;
/// In the flags of an acknowledgement.
const F_EXACT: u8 = 0x01;
/// In the flags of a segment.
const F_UNASKED: u32 = 0x01;

/// Who a message is for inside the receiving endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Matched by source and tag.
    Tagged,
    /// Matched by source only.
    Untagged,
    /// Handed to the active-message handler whose number is the tag.
    Active,
    /// Bytes for the receiver's exposed memory.
    Write,
    /// Asks for bytes of the receiver's exposed memory.
    Read,
    /// Changes elements of the receiver's exposed memory.
    Atomic,
    /// Changes elements of the receiver's exposed memory, and asks for what they were before.
    Fetch,
    /// How one of the former four ended.
    Answer,
    /// A step of a collective operation: matched by source and tag, apart from all others.
    Collective,
}

impl Class {
    fn code(self) -> u8 {
        match self {
            Self::Tagged => 0,
            Self::Untagged => 1,
            Self::Active => 2,
            Self::Write => 3,
            Self::Read => 4,
            Self::Atomic => 5,
            Self::Fetch => 6,
            Self::Answer => 7,
            Self::Collective => 8,
        }
    }

    fn from_code(code: u8) -> Result<Self, WireError> {
        match code {
            0 => Ok(Self::Tagged),
            1 => Ok(Self::Untagged),
            2 => Ok(Self::Active),
            3 => Ok(Self::Write),
            4 => Ok(Self::Read),
            5 => Ok(Self::Atomic),
            6 => Ok(Self::Fetch),
            7 => Ok(Self::Answer),
            8 => Ok(Self::Collective),
            _ => Err(WireError::Field("class")),
        }
    }

    /// Whether the message is an operation on the receiver's exposed memory.
    #[must_use]
    pub fn names_memory(self) -> bool {
        matches!(self, Self::Write | Self::Read | Self::Atomic | Self::Fetch)
    }
}

/// What a message says about itself before its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// Who it is for.
    pub class: Class,
    /// The initiator's number of a one-sided operation; 0 in other classes.
    pub operation: u32,
    /// The tag, an active message's handler number, a region's key, or an
    /// answer's status.
    pub tag: u64,
    /// Remote completion data, when the sender gave some.
    pub data: Option<u64>,
    /// Where in the region an operation begins; travels in classes that name
    /// memory, 0 in others.
    pub address: u64,
    /// The sender is told of its end as of a match: it is announced, and not pulled before its receive.
    pub is_held: bool,
}

impl Envelope {
    /// The envelope of a message between two sides.
    #[must_use]
    pub fn new(class: Class, tag: u64, data: Option<u64>) -> Self {
        Self { class, operation: 0, tag, data, address: 0, is_held: false }
    }

    fn len(&self) -> usize {
        ENVELOPE_LEN + if self.class.names_memory() { ADDRESS_LEN } else { 0 }
    }

    fn emit(&self, w: &mut Writer<'_>) {
        let data = if self.data.is_some() { F_DATA } else { 0 };
        let flags = data | if self.is_held { F_HELD } else { 0 };
        w.u8(self.class.code()).u8(flags).u16(0).u32(self.operation);
        w.u64(self.tag).u64(self.data.unwrap_or(0));
        if self.class.names_memory() {
            w.u64(self.address);
        }
    }

    fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let class = Class::from_code(r.u8()?)?;
        let flags = r.u8()?;
        let _reserved = r.u16()?;
        let operation = r.u32()?;
        let tag = r.u64()?;
        let data = r.u64()?;
        let address = if class.names_memory() { r.u64()? } else { 0 };
        let data = (flags & F_DATA != 0).then_some(data);
        Ok(Self { class, operation, tag, data, address, is_held: flags & F_HELD != 0 })
    }
}

/// A receiver's grant: "send me these bytes of that message".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pull {
    /// The message, as its REQUEST named it.
    pub send_id: u32,
    /// The name that the segments must carry.
    pub transfer_id: u32,
    /// First byte wanted.
    pub offset: u64,
    /// How many bytes are wanted.
    pub len: u64,
    /// Most unacknowledged bulk bytes that the receiver can take, over all of
    /// its transfers from this sender.
    pub window: u32,
    /// No further grant will come for this message.
    pub last: bool,
}

/// A selective acknowledgement of one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack<'a> {
    /// [`lane::ORDERED`] or [`lane::BULK`].
    pub lane: u8,
    /// How long the newest packet was held: as in [`Header::ack_delay_us`](crate::Header).
    pub delay_us: u16,
    /// Not at most, but exactly so long.
    pub is_exact: bool,
    /// When it was sent by its sender's clock: the low 32 bits of microseconds since whenever.
    pub sent_at_us: u32,
    /// Low 32 bits of the first packet number that has not arrived.
    pub cumulative: u32,
    /// Little-endian words; bit `i` of word `j` says whether packet
    /// `cumulative + 1 + 64 j + i` has arrived.
    pub bitmap: &'a [u8],
}

impl Ack<'_> {
    /// The bitmap's words.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        self.bitmap.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w))
    }
}

/// Which datagram is meant by one that is to show how long a datagram may be, and by its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trial {
    /// The port that it goes to: [`lane::ORDERED`] for that of single datagrams, [`lane::BULK`].
    pub lane: u8,
    /// Its length in bytes, without a tag.
    pub len: u16,
    /// Longest datagram that the sender of this record could carry, in bytes, without a tag.
    pub frame_len_max: u16,
}

/// Offsets and lengths of parts are multiples of this, in bytes, but for the length of the last part.
pub const PART_STEP: usize = 128;
/// What a PART record has before its bytes, without the record's prefix, in bytes.
pub const PART_PREFIX_LEN: usize = 12;

/// A part of the body of a packet that is longer than the path carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'a> {
    /// The packet's lane: [`lane::ORDERED`] or [`lane::BULK`].
    pub lane: u8,
    /// Low [`NUMBER_BITS`](crate::NUMBER_BITS) bits of the packet's number in its lane.
    pub number: u64,
    /// Length of the packet's body in bytes.
    pub total: u16,
    /// Where in the body the bytes belong.
    pub offset: u16,
    /// The bytes.
    pub payload: &'a [u8],
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// A whole eager message.
    Message(Envelope, &'a [u8]),
    /// The first part of an eager message of `total` bytes.
    First {
        /// The message's envelope.
        envelope: Envelope,
        /// Length of the whole message in bytes.
        total: u64,
        /// Its first bytes.
        payload: &'a [u8],
    },
    /// The next part of the eager message that the last `First` began.
    Next(&'a [u8]),
    /// A message whose bytes wait to be pulled.
    Request {
        /// The message's envelope.
        envelope: Envelope,
        /// Length of the message in bytes.
        total: u64,
        /// The sender's name for it.
        send_id: u32,
        /// How many of its first bytes follow without having been asked for.
        unasked_len: u32,
    },
    /// A grant for bulk bytes.
    Pull(Pull),
    /// The sender's endpoint closes: nothing further follows.
    Close,
    /// Means nothing: makes a datagram as long as the others of its train.
    Padding(&'a [u8]),
    /// A selective acknowledgement.
    Ack(Ack<'a>),
    /// The datagram is there to be answered if it arrives.
    Probe(Trial),
    /// That one has arrived.
    Fits(Trial),
    /// A part of a packet that goes again and is too long now.
    Part(Part<'a>),
}

impl Record<'_> {
    /// Whether the record belongs to the numbered, ordered stream.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        !matches!(self, Self::Ack(_) | Self::Probe(_) | Self::Fits(_) | Self::Part(_))
    }

    /// How many bytes [`Record::emit`] writes.
    #[must_use]
    pub fn len(&self) -> usize {
        RECORD_PREFIX_LEN
            + match self {
                Self::Message(envelope, payload) => envelope.len() + payload.len(),
                Self::First { envelope, payload, .. } => envelope.len() + 8 + payload.len(),
                Self::Next(payload) | Self::Padding(payload) => payload.len(),
                Self::Request { envelope, .. } => envelope.len() + 16,
                Self::Pull(_) => 28,
                Self::Close => 0,
                Self::Ack(ack) => 12 + ack.bitmap.len(),
                Self::Probe(_) | Self::Fits(_) => 8,
                Self::Part(part) => PART_PREFIX_LEN + part.payload.len(),
            }
    }

    /// A record is never empty: it has its prefix.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the record to the front of `out` and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`Record::len`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        self.emit_before(0, out)
    }

    /// Writes a record whose payload ends with `more` bytes that the caller
    /// puts behind what this writes; returns the length without them.
    ///
    /// # Panics
    /// When `out` is shorter than [`Record::len`].
    pub fn emit_before(&self, more: usize, out: &mut [u8]) -> usize {
        let body_len = self.len() - RECORD_PREFIX_LEN + more;
        debug_assert!(u16::try_from(body_len).is_ok(), "records fit their 16-bit length");
        let mut w = Writer::new(out);
        let (code, flags) = match self {
            Self::Message(..) => (T_MESSAGE, 0),
            Self::First { .. } => (T_FIRST, 0),
            Self::Next(_) => (T_NEXT, 0),
            Self::Request { .. } => (T_REQUEST, 0),
            Self::Pull(pull) => (T_PULL, if pull.last { F_LAST } else { 0 }),
            Self::Close => (T_CLOSE, 0),
            Self::Padding(_) => (T_PADDING, 0),
            Self::Ack(_) => (T_ACK, 0),
            Self::Probe(_) => (T_PROBE, 0),
            Self::Fits(_) => (T_FITS, 0),
            Self::Part(_) => (T_PART, 0),
        };
        w.u8(code).u8(flags).u16(body_len as u16);
        match self {
            Self::Message(envelope, payload) => {
                envelope.emit(&mut w);
                w.put(payload);
            }
            Self::First { envelope, total, payload } => {
                envelope.emit(&mut w);
                w.u64(*total).put(payload);
            }
            Self::Next(payload) | Self::Padding(payload) => {
                w.put(payload);
            }
            Self::Request { envelope, total, send_id, unasked_len } => {
                envelope.emit(&mut w);
                w.u64(*total).u32(*send_id).u32(*unasked_len);
            }
            Self::Pull(p) => {
                w.u32(p.send_id).u32(p.transfer_id).u64(p.offset).u64(p.len);
                w.u32(p.window);
            }
            Self::Close => {}
            Self::Ack(ack) => {
                w.u8(ack.lane)
                    .u8(if ack.is_exact { F_EXACT } else { 0 })
                    .u16(ack.delay_us)
                    .u32(ack.sent_at_us);
                w.u32(ack.cumulative).put(ack.bitmap);
            }
            Self::Probe(trial) | Self::Fits(trial) => {
                w.u8(trial.lane).u8(0).u16(trial.len).u16(trial.frame_len_max).u16(0);
            }
            Self::Part(part) => {
                w.u8(part.lane).u8((part.number >> 32) as u8).u16(part.total);
                w.u32(part.number as u32).u16(part.offset).u16(0).put(part.payload);
            }
        }
        w.written()
    }
}

/// Walks the records of a body.
///
/// After the first error the iterator ends: what follows a damaged record
/// cannot be trusted.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: Reader<'a>,
}

impl<'a> Records<'a> {
    /// Starts at the front of `body`.
    #[must_use]
    pub fn new(body: &'a [u8]) -> Self {
        Self { rest: Reader(body) }
    }

    /// The bytes that have not been walked yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest.0
    }

    fn parse_one(&mut self) -> Result<Record<'a>, WireError> {
        let code = self.rest.u8()?;
        let flags = self.rest.u8()?;
        let len = usize::from(self.rest.u16()?);
        let mut r = Reader(self.rest.take(len)?);
        let record = match code {
            T_MESSAGE => Record::Message(Envelope::parse(&mut r)?, std::mem::take(&mut r.0)),
            T_FIRST => {
                let envelope = Envelope::parse(&mut r)?;
                let total = r.u64()?;
                Record::First { envelope, total, payload: std::mem::take(&mut r.0) }
            }
            T_NEXT => Record::Next(std::mem::take(&mut r.0)),
            T_REQUEST => Record::Request {
                envelope: Envelope::parse(&mut r)?,
                total: r.u64()?,
                send_id: r.u32()?,
                unasked_len: r.u32()?,
            },
            T_PULL => Record::Pull(Pull {
                send_id: r.u32()?,
                transfer_id: r.u32()?,
                offset: r.u64()?,
                len: r.u64()?,
                window: r.u32()?,
                last: flags & F_LAST != 0,
            }),
            T_CLOSE => Record::Close,
            T_PADDING => Record::Padding(std::mem::take(&mut r.0)),
            T_ACK => Record::Ack(parse_ack(&mut r)?),
            T_PROBE => Record::Probe(parse_trial(&mut r)?),
            T_FITS => Record::Fits(parse_trial(&mut r)?),
            T_PART => Record::Part(parse_part(&mut r)?),
            other => return Err(WireError::RecordType(other)),
        };
        //= docs/protocol.md#3-records
        //# A record whose length differs from what its type prescribes MUST be refused.
        if r.0.is_empty() { Ok(record) } else { Err(WireError::Field("record length")) }
    }
}

fn parse_ack<'a>(r: &mut Reader<'a>) -> Result<Ack<'a>, WireError> {
    let lane = r.u8()?;
    if lane > lane::BULK {
        return Err(WireError::Field("lane"));
    }
    let is_exact = r.u8()? & F_EXACT != 0;
    let delay_us = r.u16()?;
    let sent_at_us = r.u32()?;
    let cumulative = r.u32()?;
    let bitmap = std::mem::take(&mut r.0);
    if !bitmap.len().is_multiple_of(8) || bitmap.len() > 8 * BITMAP_WORDS_MAX {
        return Err(WireError::Field("bitmap length"));
    }
    Ok(Ack { lane, delay_us, is_exact, sent_at_us, cumulative, bitmap })
}

fn parse_trial(r: &mut Reader<'_>) -> Result<Trial, WireError> {
    let lane = r.u8()?;
    if lane > lane::BULK {
        return Err(WireError::Field("lane"));
    }
    let _reserved = r.u8()?;
    let (len, frame_len_max) = (r.u16()?, r.u16()?);
    let _reserved = r.u16()?;
    Ok(Trial { lane, len, frame_len_max })
}

//= docs/protocol.md#25-length
//# A receiver MUST refuse a PART that is empty, ends behind its packet, or does not begin and end at multiples of 128 bytes or the packet's end.
fn parse_part<'a>(r: &mut Reader<'a>) -> Result<Part<'a>, WireError> {
    let lane = r.u8()?;
    if lane > lane::BULK {
        return Err(WireError::Field("lane"));
    }
    let number_high = u64::from(r.u8()?);
    let total = r.u16()?;
    let number = number_high << 32 | u64::from(r.u32()?);
    let offset = r.u16()?;
    let _reserved = r.u16()?;
    let payload = std::mem::take(&mut r.0);
    let end = usize::from(offset) + payload.len();
    let is_whole = end == usize::from(total) || end.is_multiple_of(PART_STEP);
    let is_in_steps = usize::from(offset).is_multiple_of(PART_STEP) && is_whole;
    if payload.is_empty() || end > usize::from(total) || !is_in_steps {
        return Err(WireError::Field("part"));
    }
    Ok(Part { lane, number, total, offset, payload })
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.0.is_empty() {
            return None;
        }
        let record = self.parse_one();
        if record.is_err() {
            self.rest = Reader(&[]);
        }
        Some(record)
    }
}

/// What a bulk transfer is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// The receiver's name for it, from its PULL.
    Pulled(u32),
    /// Nobody has asked for it yet: the sender's name for the message, from its REQUEST.
    Unasked(u32),
}

/// One piece of a bulk transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The transfer that it belongs to.
    pub transfer: Transfer,
    /// Where in the message the bytes belong.
    pub offset: u64,
    /// The bytes.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Writes the prefix of a segment; the payload follows it.
    ///
    /// # Panics
    /// When `out` is shorter than [`SEGMENT_PREFIX_LEN`].
    #[inline]
    pub fn emit_prefix(transfer: Transfer, offset: u64, out: &mut [u8]) {
        let (id, flags) = match transfer {
            Transfer::Pulled(id) => (id, 0),
            Transfer::Unasked(id) => (id, F_UNASKED),
        };
        // Whole words, as the checksum reads them: shorter ones it would have to wait for.
        Writer::new(out).u64(u64::from(flags) << 32 | u64::from(id)).u64(offset);
    }

    /// Reads the body of a bulk datagram.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when the prefix does not fit.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader(body);
        let (id, flags) = (r.u32()?, r.u32()?);
        let is_unasked = flags & F_UNASKED != 0;
        let transfer = if is_unasked { Transfer::Unasked(id) } else { Transfer::Pulled(id) };
        let offset = r.u64()?;
        Ok(Self { transfer, offset, payload: r.0 })
    }
}

#[cfg(test)]
mod tests;
