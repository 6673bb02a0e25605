//! The header that every datagram starts with (docs/protocol.md, section 2).

use wiglaf_crc::Crc32c;

use crate::proof::{self, COVERED};
use crate::{Epoch, JobKey, WireError};

/// First byte of every datagram: `W`.
pub const MAGIC: u8 = 0x57;
/// The protocol version that this crate speaks.
pub const VERSION: u8 = 1;
/// Length of the header in bytes.
pub const HEADER_LEN: usize = 48;
const HEADER_WORDS: usize = HEADER_LEN / 8;

/// Beside the kind of a datagram that is encrypted.
pub const KIND_ENCRYPTED: u8 = 0x80;

/// The delay of an acknowledgement that may have been told before, when it was lost on its way.
pub const DELAY_UNKNOWN: u16 = u16::MAX;

/// The delay of an acknowledgement of what came twice before it was acknowledged.
pub const DELAY_TWICE: u16 = u16::MAX - 1;

/// The longest delay of an acknowledgement that can be said: it was so long, or longer.
pub const DELAY_LONG: u16 = u16::MAX - 2;

/// Ack delay of an acknowledgement by who has dropped frames for want of room: it is not known, and
/// what is not acknowledged did not arrive.
pub const DELAY_OVERRUN: u16 = u16::MAX - 3;

/// How many bits of a datagram's number travel.
pub const NUMBER_BITS: u32 = 40;

/// What a datagram carries after its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Records of the ordered lane, numbered.
    Ordered,
    /// One segment of a bulk transfer, numbered in the bulk lane.
    Bulk,
    /// Acknowledgements only; numbered apart, never retransmitted.
    Control,
}

impl Kind {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ordered => 1,
            Self::Bulk => 2,
            Self::Control => 3,
        }
    }

    fn from_code(code: u8) -> Result<Self, WireError> {
        match code {
            1 => Ok(Self::Ordered),
            2 => Ok(Self::Bulk),
            3 => Ok(Self::Control),
            //= docs/protocol.md#24-encryption
            //# An endpoint that encrypts MUST drop datagrams that are not encrypted, and one that does not those that are.
            other if other & KIND_ENCRYPTED != 0 => Err(WireError::Encryption),
            other => Err(WireError::Kind(other)),
        }
    }
}

/// The fields of a datagram header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What follows.
    pub kind: Kind,
    /// Who sends.
    pub source: Epoch,
    /// Who is meant, or [`Epoch::UNKNOWN`].
    pub destination: Epoch,
    /// Low [`NUMBER_BITS`] bits of the datagram's number: the packet's in its
    /// lane, or that of the control datagram.
    pub sequence: u64,
    /// Low 32 bits of the next ordered packet number that the sender expects.
    pub ack: u32,
    /// Low 32 bits of the total of eager payload bytes that the receiver of
    /// this datagram may have sent since the session began.
    pub credit: u32,
    /// How long the sender held the newest ordered packet before acknowledging
    /// it here, in microseconds, up to [`DELAY_LONG`]; or [`DELAY_TWICE`], or [`DELAY_UNKNOWN`].
    pub ack_delay_us: u16,
    /// UDP port where the sender awaits trains of datagrams.
    pub bulk_port: u16,
}

impl Header {
    /// One that says nothing.
    pub const EMPTY: Self = Self {
        kind: Kind::Control,
        source: Epoch::UNKNOWN,
        destination: Epoch::UNKNOWN,
        sequence: 0,
        ack: 0,
        credit: 0,
        ack_delay_us: 0,
        bulk_port: 0,
    };
}

/// Writes `header` into the first [`HEADER_LEN`] bytes of `datagram`, whose
/// body is already in place, with checksum and proof.
///
/// # Panics
/// When `datagram` is shorter than [`HEADER_LEN`].
pub fn seal(header: &Header, key: &JobKey, datagram: &mut [u8]) {
    let sum = Crc32c::EMPTY.over(&datagram[HEADER_LEN..]);
    seal_summed(header, sum, key, datagram);
}

/// Writes `header` as [`seal`] does, where the checksum of the body is known already.
///
/// # Panics
/// As with [`seal`].
#[inline]
pub fn seal_summed(header: &Header, sum: Crc32c, key: &JobKey, datagram: &mut [u8]) {
    //= docs/protocol.md#22-integrity
    //# The sender MUST set `checksum` to the CRC-32C of the body.
    let words = words(header, header.kind.code(), sum.value());
    write_words(words, proof::of_one(key, words), &mut datagram[..HEADER_LEN]);
}

/// A header's words without the second, the proof's: with the kind's code and the checksum as given.
/// Whole words, as the proof reads them: shorter ones it would have to wait for.
#[inline]
pub(crate) fn words(header: &Header, code: u8, checksum: u32) -> [u64; 5] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let number_high = (header.sequence >> 32) as u8;
    let first = u32::from_le_bytes([MAGIC, VERSION, code, number_high]);
    let last = u32::from(header.ack_delay_us) | u32::from(header.bulk_port) << 16;
    [
        pair(first, checksum),
        header.source.0,
        header.destination.0,
        pair(header.sequence as u32, header.ack),
        pair(header.credit, last),
    ]
}

/// Writes a header of these words, and its second.
#[inline]
pub(crate) fn write_words([first, rest @ ..]: [u64; 5], second: u64, head: &mut [u8]) {
    let (places, _) = head.as_chunks_mut::<8>();
    for (place, word) in places.iter_mut().zip([first, second].into_iter().chain(rest)) {
        *place = word.to_le_bytes();
    }
}

/// Checks a datagram and splits it into its header and body.
///
/// # Errors
/// The first rule that the datagram breaks. Nothing of a refused datagram may
/// be acted upon.
pub fn open<'a>(key: &JobKey, datagram: &'a [u8]) -> Result<(Header, &'a [u8]), WireError> {
    open_by(datagram, |head| proof::of_one(key, covered(head)))
}

/// Checks a datagram against the proof that its header should bear, and splits it into its header and body.
#[inline]
pub(crate) fn open_by(
    datagram: &[u8],
    proof: impl FnOnce(&[u8; HEADER_LEN]) -> u64,
) -> Result<(Header, &[u8]), WireError> {
    let (head, body) = datagram.split_first_chunk().ok_or(WireError::Truncated)?;
    let words = words_of(head);
    let [first, claimed, ..] = words;
    let kind = Kind::from_code(read_code(first)?)?;
    //= docs/protocol.md#22-integrity
    //# A receiver MUST drop a datagram whose `proof` does not match, before it touches any state.
    // One comparison of 64 bits takes the same time whatever differs.
    if proof(head) != claimed {
        return Err(WireError::Proof);
    }
    let header = read_fields(kind, words);
    if !header.source.is_known() {
        return Err(WireError::Field("source epoch"));
    }
    //= docs/protocol.md#22-integrity
    //# A receiver MUST drop a datagram whose checksum does not match.
    if Crc32c::of(body) != (first >> 32) as u32 {
        return Err(WireError::Checksum);
    }
    Ok((header, body))
}

/// The header of a datagram of ours of which somebody quotes the front; `None` if nobody with the key
/// has made it. Of one that is encrypted, as those of a job that `encrypts` are and no others, nothing
/// is proven: what would do that stands at its end.
#[must_use]
pub fn read_quoted(key: &JobKey, encrypts: bool, front: &[u8]) -> Option<Header> {
    let head = front.first_chunk()?;
    let (header, is_encrypted) = read_front(front).ok()?;
    let [_, claimed, ..] = words_of(head);
    let is_ours = encrypts || proof::of_one(key, covered(head)) == claimed;
    (is_encrypted == encrypts && is_ours).then_some(header)
}

/// The header of a datagram, unproven, and whether its body is encrypted.
pub(crate) fn read_front(front: &[u8]) -> Result<(Header, bool), WireError> {
    let words = words_of(front.first_chunk().ok_or(WireError::Truncated)?);
    let code = read_code(words[0])?;
    let kind = Kind::from_code(code & !KIND_ENCRYPTED)?;
    Ok((read_fields(kind, words), code & KIND_ENCRYPTED != 0))
}

/// The code of the kind, out of a header's first word.
#[inline]
fn read_code(first: u64) -> Result<u8, WireError> {
    let [magic, version, code, ..] = first.to_le_bytes();
    match (magic, version) {
        (MAGIC, VERSION) => Ok(code),
        (MAGIC, other) => Err(WireError::Version(other)),
        _ => Err(WireError::Magic),
    }
}

/// The fields of a header of these words, but checksum and proof: what [`words`] makes of them.
#[inline]
fn read_fields(kind: Kind, words: [u64; HEADER_WORDS]) -> Header {
    let [first, _proof, source, destination, numbers, last] = words;
    let number_high = u64::from(first.to_le_bytes()[3]);
    Header {
        kind,
        source: Epoch(source),
        destination: Epoch(destination),
        sequence: number_high << 32 | numbers & u64::from(u32::MAX),
        ack: (numbers >> 32) as u32,
        credit: last as u32,
        ack_delay_us: (last >> 32) as u16,
        bulk_port: (last >> 48) as u16,
    }
}

/// What the proof covers of a header: all of it but itself.
#[inline]
pub(crate) fn covered(head: &[u8; HEADER_LEN]) -> [u64; COVERED] {
    let [first, _proof, rest @ ..] = words_of(head);
    let [source, destination, numbers, last] = rest;
    [first, source, destination, numbers, last]
}

#[inline]
fn words_of(head: &[u8; HEADER_LEN]) -> [u64; HEADER_WORDS] {
    let (words, _) = head.as_chunks::<8>();
    std::array::from_fn(|i| u64::from_le_bytes(words[i]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: JobKey = JobKey([7; 16]);

    fn header() -> Header {
        Header {
            kind: Kind::Ordered,
            source: Epoch(1),
            destination: Epoch(2),
            sequence: 3,
            ack: 4,
            credit: 5,
            ack_delay_us: 6,
            bulk_port: 7,
        }
    }

    fn sealed(body: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; HEADER_LEN];
        datagram.extend_from_slice(body);
        seal(&header(), &KEY, &mut datagram);
        datagram
    }

    #[test]
    fn what_was_sealed_opens() {
        let datagram = sealed(b"hwaet");
        assert_eq!(open(&KEY, &datagram), Ok((header(), &b"hwaet"[..])));
        assert_eq!(read_quoted(&KEY, false, &datagram[..HEADER_LEN]), Some(header()));
        assert_eq!(read_quoted(&KEY, false, &datagram[..HEADER_LEN - 1]), None);
        assert_eq!(read_quoted(&JobKey([1; 16]), false, &datagram), None);
        assert_eq!(read_quoted(&KEY, true, &datagram), None, "it would be encrypted");
    }

    /// Of several faults the first in this order is told: nothing behind one is looked at.
    #[test]
    fn faults_are_told_in_order() {
        let damage: [(usize, WireError); 5] = [
            (0, WireError::Magic),
            (1, WireError::Version(VERSION ^ 0x7f)),
            (2, WireError::Kind(Kind::Ordered.code() ^ 0x7f)),
            (8, WireError::Proof),
            (HEADER_LEN, WireError::Checksum),
        ];
        for (first, (_, told)) in damage.iter().enumerate() {
            let mut datagram = sealed(b"hwaet");
            for (at, _) in &damage[first..] {
                datagram[*at] ^= 0x7f;
            }
            assert_eq!(open(&KEY, &datagram), Err(*told));
            assert_eq!(open(&KEY, &datagram[..HEADER_LEN - 1]), Err(WireError::Truncated));
        }
        // A proof that is right does not make a stranger of one without an epoch.
        let mut datagram = sealed(b"hwaet");
        let nameless = Header { source: Epoch::UNKNOWN, ..header() };
        seal(&nameless, &KEY, &mut datagram);
        datagram[HEADER_LEN] ^= 1;
        assert_eq!(open(&KEY, &datagram), Err(WireError::Field("source epoch")));
    }

    #[test]
    fn another_key_is_refused() {
        let datagram = sealed(b"hwaet");
        assert_eq!(open(&JobKey([8; 16]), &datagram), Err(WireError::Proof));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = sealed(b"we gardena in geardagum");
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&KEY, &bad).is_err(), "bit {bit} flipped unnoticed");
        }
    }

    #[test]
    fn a_body_cut_short_is_noticed() {
        let good = sealed(b"we gardena in geardagum");
        for len in 0..good.len() {
            assert!(open(&KEY, &good[..len]).is_err(), "cut to {len} unnoticed");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = open(&KEY, &bytes);
        }

        #[test]
        fn any_header_comes_back(
            source in 1u64.., destination: u64, sequence in 0..1u64 << NUMBER_BITS, ack: u32, credit: u32,
            ack_delay_us: u16, bulk_port: u16, kind in 1u8..=3, body in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let header = Header {
                kind: Kind::from_code(kind).unwrap(), source: Epoch(source),
                destination: Epoch(destination), sequence, ack, credit, ack_delay_us,
                bulk_port,
            };
            let mut datagram = vec![0; HEADER_LEN];
            datagram.extend_from_slice(&body);
            seal(&header, &KEY, &mut datagram);
            prop_assert_eq!(open(&KEY, &datagram), Ok((header, &body[..])));
        }
    }
}
