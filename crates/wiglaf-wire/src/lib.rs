//! Values of every Wiglaf header, and how they become bytes and come back.
//!
//! The wire format is written down in `docs/protocol.md`; comments that start
//! with `//=` name the section and `//#` quotes the rule that the code beneath
//! keeps. Nothing here reads a clock, opens a socket or allocates: a parser
//! borrows from the datagram and either returns a value or says in a
//! [`WireError`] why not.

#![forbid(unsafe_code)]

mod bytes;
pub mod encrypted;
mod epoch;
mod header;
mod key;
mod proof;
mod record;
mod train;

pub use epoch::Epoch;
pub use header::{
    DELAY_LONG, DELAY_OVERRUN, DELAY_TWICE, DELAY_UNKNOWN, HEADER_LEN, Header, KIND_ENCRYPTED,
    Kind, MAGIC, NUMBER_BITS, VERSION, open, read_quoted, seal, seal_summed,
};
pub use key::JobKey;
pub use record::{
    Ack, BITMAP_WORDS_MAX, Class, ENVELOPE_LEN, Envelope, PART_PREFIX_LEN, PART_STEP, Part, Pull,
    RECORD_PREFIX_LEN, Record, Records, SEGMENT_PREFIX_LEN, Segment, Transfer, Trial, lane,
};
pub use train::{Batch, open_train};
pub use wiglaf_crc::Crc32c;

/// Why a datagram, or a record in it, was refused.
///
/// Each variant has its own drop counter in the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireError {
    /// Shorter than its own structure.
    Truncated,
    /// The first byte is not [`MAGIC`]: somebody else's datagram.
    Magic,
    /// A version of the protocol that this code does not speak.
    Version(u8),
    /// The datagram's kind is unknown.
    Kind(u8),
    /// The proof does not match: another job's key, or a damaged header.
    Proof,
    /// Encrypted, and this endpoint does not encrypt, or the other way round.
    Encryption,
    /// Encrypted so long ago that it must have been recorded.
    Replayed,
    /// The body's CRC-32C does not match: damaged in flight.
    Checksum,
    /// A record's type is unknown.
    RecordType(u8),
    /// A record holds a value outside its range.
    Field(&'static str),
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Truncated => write!(f, "the datagram ends inside one of its fields"),
            Self::Magic => write!(f, "not a Wiglaf datagram"),
            Self::Version(v) => write!(f, "protocol version {v} is not spoken here"),
            Self::Kind(k) => write!(f, "unknown datagram kind {k}"),
            Self::Proof => write!(f, "the proof of the job's key does not match"),
            Self::Encryption => write!(f, "only one of the two sides encrypts"),
            Self::Replayed => write!(f, "a recording of an encrypted datagram"),
            Self::Checksum => write!(f, "the body's checksum does not match"),
            Self::RecordType(t) => write!(f, "unknown record type {t:#04x}"),
            Self::Field(name) => write!(f, "field {name} is out of range"),
        }
    }
}

impl std::error::Error for WireError {}
