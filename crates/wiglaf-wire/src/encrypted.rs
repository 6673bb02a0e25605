//! Encryption of datagrams (docs/protocol.md, section 2.4): AES-128-GCM takes the place of checksum
//! and proof.
//!
//! A key and a nonce must never meet twice, or the plain text of both datagrams is given away. So
//! each endpoint encrypts under a key of its own, derived from the job's secret and its epoch, and
//! counts what it encrypts, whatever that is and to whom it goes. A packet that is sent again keeps
//! its number, but not its count.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};

use crate::header::{self, HEADER_LEN, Header, KIND_ENCRYPTED};
use crate::{Epoch, JobKey, WireError};

/// What encryption adds to the end of each datagram, in bytes: the tag of AES-GCM, whole.
pub const TAG_LEN: usize = 16;

/// Sets these keys apart from whatever else is derived from a job's secret.
const SALT: &[u8] = b"wiglaf 1 datagrams";
/// Where the count lies: in the place of the proof.
const COUNT_AT: usize = 8;
const COUNT_END: usize = COUNT_AT + 8;

/// What the keys of all endpoints of a job are derived from (HKDF with SHA-256, RFC 5869).
#[derive(Clone)]
pub struct JobCipher(Prk);

impl JobCipher {
    /// Derives it from the job's secret.
    #[must_use]
    pub fn new(key: &JobKey) -> Self {
        Self(Salt::new(HKDF_SHA256, SALT).extract(&key.0))
    }

    /// The key under which the endpoint of that epoch encrypts.
    ///
    /// # Panics
    /// Never: the key's length is within what HKDF can give.
    #[must_use]
    pub fn of_sender(&self, epoch: Epoch) -> SenderCipher {
        //= docs/protocol.md#24-encryption
        //# An endpoint MUST encrypt under a key that is derived from the job's key and its own epoch.
        let info = epoch.0.to_le_bytes();
        let info: [&[u8]; 1] = [&info];
        let key = self.0.expand(&info, &AES_128_GCM).expect("HKDF gives 16 bytes");
        SenderCipher(LessSafeKey::new(UnboundKey::from(key)))
    }
}

// Secrets stay out of logs.
impl std::fmt::Debug for JobCipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JobCipher(..)")
    }
}

/// What one endpoint's datagrams are encrypted with.
#[derive(Clone)]
pub struct SenderCipher(LessSafeKey);

impl std::fmt::Debug for SenderCipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SenderCipher(..)")
    }
}

impl SenderCipher {
    /// Writes `header` to the front of `datagram`, encrypts the body behind it, which is in
    /// place, and writes the tag into the last [`TAG_LEN`] bytes. `count` must not have been
    /// used with this key before.
    ///
    /// # Panics
    /// When `datagram` has no room for header and tag, or is longer than AES-GCM can encrypt.
    pub fn seal(&self, header: &Header, count: u64, datagram: &mut [u8]) {
        let (head, rest) = datagram.split_at_mut(HEADER_LEN);
        let (body, place) = rest.split_at_mut(rest.len() - TAG_LEN);
        let words = header::words(header, header.kind.code() | KIND_ENCRYPTED, 0);
        header::write_words(words, count, head);
        //= docs/protocol.md#24-encryption
        //# The whole header MUST be authenticated with the body.
        let tag = self.0.seal_in_place_separate_tag(nonce(count), Aad::from(head), body);
        place.copy_from_slice(tag.expect("a datagram is short").as_ref());
    }

    /// Decrypts the body of a datagram that [`read`] has found to be of this sender into `room`,
    /// whose content is replaced.
    ///
    /// # Errors
    /// When the datagram is not as it was sealed.
    pub fn open<'a>(&self, datagram: &[u8], room: &'a mut Vec<u8>) -> Result<&'a [u8], WireError> {
        let (head, rest) = datagram.split_at_checked(HEADER_LEN).ok_or(WireError::Truncated)?;
        room.clear();
        room.extend_from_slice(rest);
        //= docs/protocol.md#24-encryption
        //# A receiver MUST drop a datagram whose tag does not match, before it touches any state.
        match self.0.open_in_place(nonce(count_of(head)), Aad::from(head), room) {
            Ok(body) => Ok(body),
            Err(ring::error::Unspecified) => Err(WireError::Proof),
        }
    }
}

/// What an encrypted datagram says of itself and its count; nothing of it is proven yet.
///
/// # Errors
/// When it cannot be one.
pub fn read(datagram: &[u8]) -> Result<(Header, u64), WireError> {
    let (head, rest) = datagram.split_at_checked(HEADER_LEN).ok_or(WireError::Truncated)?;
    let (header, is_encrypted) = header::read_front(head)?;
    if !is_encrypted {
        return Err(WireError::Encryption);
    }
    if rest.len() < TAG_LEN {
        return Err(WireError::Truncated);
    }
    if !header.source.is_known() {
        return Err(WireError::Field("source epoch"));
    }
    Ok((header, count_of(head)))
}

fn count_of(head: &[u8]) -> u64 {
    let mut count = [0; COUNT_END - COUNT_AT];
    count.copy_from_slice(&head[COUNT_AT..COUNT_END]);
    u64::from_le_bytes(count)
}

//= docs/protocol.md#24-encryption
//# The nonce MUST be the count of the datagrams that the endpoint has encrypted before, retransmissions and all peers included.
fn nonce(count: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..8].copy_from_slice(&count.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(all(test, not(miri)))] // it cannot run the assembler of AES-GCM
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Kind, NUMBER_BITS, open, read_quoted, seal};

    const KEY: JobKey = JobKey([7; 16]);

    fn header() -> Header {
        Header {
            kind: Kind::Ordered,
            source: Epoch(1),
            destination: Epoch(2),
            sequence: 3 << 32 | 4,
            ack: 5,
            credit: 6,
            ack_delay_us: 7,
            bulk_port: 8,
        }
    }

    fn sealed(body: &[u8], count: u64) -> Vec<u8> {
        let mut datagram = vec![0; HEADER_LEN];
        datagram.extend_from_slice(body);
        datagram.extend_from_slice(&[0; TAG_LEN]);
        JobCipher::new(&KEY).of_sender(Epoch(1)).seal(&header(), count, &mut datagram);
        datagram
    }

    fn opened(key: &JobKey, datagram: &[u8]) -> Result<(Header, u64, Vec<u8>), WireError> {
        let (header, count) = read(datagram)?;
        let mut room = Vec::new();
        let body = JobCipher::new(key).of_sender(header.source).open(datagram, &mut room)?;
        Ok((header, count, body.to_vec()))
    }

    #[test]
    fn what_was_encrypted_is_read_by_who_has_the_key() {
        let datagram = sealed(b"hwaet", 9);
        assert_eq!(opened(&KEY, &datagram), Ok((header(), 9, b"hwaet".to_vec())));
        assert_eq!(opened(&JobKey([8; 16]), &datagram), Err(WireError::Proof));
        assert_eq!(read_quoted(&KEY, true, &datagram[..HEADER_LEN]), Some(header()));
        assert_eq!(read_quoted(&KEY, false, &datagram[..HEADER_LEN]), None, "it would be proven");
        assert!(!datagram.windows(5).any(|part| part == b"hwaet"));
    }

    #[test]
    fn every_flipped_bit_of_an_encrypted_datagram_is_noticed() {
        let good = sealed(b"we gardena in geardagum", 1);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(opened(&KEY, &bad).is_err(), "bit {bit} flipped unnoticed");
        }
        for len in 0..good.len() {
            assert!(opened(&KEY, &good[..len]).is_err(), "cut to {len} unnoticed");
        }
    }

    /// Two endpoints never share a key, nor two datagrams of one of them a nonce.
    #[test]
    fn the_same_body_is_never_encrypted_alike() {
        let body = [0; 64];
        let mut seen = std::collections::HashSet::new();
        for source in 1..20 {
            let cipher = JobCipher::new(&KEY).of_sender(Epoch(source));
            for count in 0..20 {
                let mut datagram = vec![0; HEADER_LEN + body.len() + TAG_LEN];
                cipher.seal(&header(), count, &mut datagram);
                assert!(seen.insert(datagram[HEADER_LEN..].to_vec()), "{source}, {count}");
            }
        }
    }

    #[test]
    fn plain_and_encrypted_datagrams_are_told_apart() {
        let mut plain = vec![0; HEADER_LEN + 40];
        seal(&header(), &KEY, &mut plain);
        assert_eq!(opened(&KEY, &plain), Err(WireError::Encryption));
        assert_eq!(open(&KEY, &sealed(b"hwaet", 0)), Err(WireError::Encryption));
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic_when_decrypted(
            bytes in proptest::collection::vec(any::<u8>(), 0..200)
        ) {
            let _ = opened(&KEY, &bytes);
        }

        #[test]
        fn any_encrypted_header_comes_back(
            source in 1u64.., destination: u64, sequence in 0..1u64 << NUMBER_BITS, ack: u32, credit: u32,
            ack_delay_us: u16, bulk_port: u16, count: u64, body in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let header = Header {
                kind: Kind::Bulk, source: Epoch(source), destination: Epoch(destination),
                sequence, ack, credit, ack_delay_us, bulk_port,
            };
            let mut datagram = vec![0; HEADER_LEN];
            datagram.extend_from_slice(&body);
            datagram.extend_from_slice(&[0; TAG_LEN]);
            JobCipher::new(&KEY).of_sender(header.source).seal(&header, count, &mut datagram);
            prop_assert_eq!(opened(&KEY, &datagram), Ok((header, count, body)));
        }
    }
}
