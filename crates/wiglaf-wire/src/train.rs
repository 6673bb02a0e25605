//! Datagrams of one train, sealed and opened together: their proofs are made eight at a time.

use wiglaf_crc::Crc32c;

use crate::header::{self, HEADER_LEN, Header};
use crate::proof::{self, COVERED, LANES};
use crate::{JobKey, WireError};

/// Headers of datagrams that lie one behind the other and wait to be sealed.
#[derive(Debug)]
pub struct Batch {
    waiting: [(Header, usize, Option<Crc32c>); LANES],
    count: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self { waiting: [(Header::EMPTY, 0, None); LANES], count: 0 }
    }
}

impl Batch {
    /// Whether it takes no more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.count == LANES
    }

    /// Where the header of the next datagram goes. In place, as who copies a header that was written
    /// just now waits until everything that was written before it has reached the cache.
    ///
    /// # Panics
    /// When it is full.
    pub fn place(&mut self) -> &mut Header {
        &mut self.waiting[self.count].0
    }

    /// Takes that header; its datagram is `len` bytes long, and `sum` the checksum of its body, if
    /// it is known already.
    ///
    /// # Panics
    /// When it is full.
    pub fn push(&mut self, len: usize, sum: Option<Crc32c>) {
        let (_, place, place_of_sum) = &mut self.waiting[self.count];
        (*place, *place_of_sum) = (len, sum);
        self.count += 1;
    }

    /// Hands out each header with its datagram, and is empty then.
    ///
    /// # Panics
    /// When `datagrams` is shorter than all of them.
    pub fn drain(&mut self, mut datagrams: &mut [u8], mut take: impl FnMut(&Header, &mut [u8])) {
        for (header, len, _) in &self.waiting[..self.count] {
            let (datagram, rest) = datagrams.split_at_mut(*len);
            take(header, datagram);
            datagrams = rest;
        }
        self.count = 0;
    }

    /// Writes all headers, with checksum and proof, to the front of their datagrams, whose bodies
    /// are in place; it is empty then.
    ///
    /// # Panics
    /// When `datagrams` is shorter than all of them, or one of them than a header.
    pub fn seal(&mut self, key: &JobKey, datagrams: &mut [u8]) {
        let mut covered = [[0; LANES]; COVERED];
        let mut lane = 0;
        let mut rest = &*datagrams;
        for (header, len, sum) in &self.waiting[..self.count] {
            let (datagram, behind) = rest.split_at(*len);
            //= docs/protocol.md#22-integrity
            //# The sender MUST set `checksum` to the CRC-32C of the body.
            let sum = sum.unwrap_or_else(|| Crc32c::EMPTY.over(&datagram[HEADER_LEN..]));
            put(&mut covered, lane, header::words(header, header.kind.code(), sum.value()));
            (rest, lane) = (behind, lane + 1);
        }
        let proofs = proof::of_eight(key, &covered);
        lane = 0;
        self.drain(datagrams, |_, datagram| {
            let words = covered.map(|word| word[lane]);
            header::write_words(words, proofs[lane], &mut datagram[..HEADER_LEN]);
            lane += 1;
        });
    }
}

/// Checks the datagrams of a train, which are `segment_len` bytes long each but the last, and
/// hands each to `take`, as [`crate::open`] would.
pub fn open_train<'a>(
    key: &JobKey,
    train: &'a [u8],
    segment_len: usize,
    mut take: impl FnMut(Result<(Header, &'a [u8]), WireError>),
) {
    let segment_len = segment_len.max(1);
    for eight in train.chunks(segment_len.saturating_mul(LANES)) {
        let mut covered = [[0; LANES]; COVERED];
        for (lane, datagram) in eight.chunks(segment_len).enumerate() {
            // What is too short is refused below.
            if let Some(head) = datagram.first_chunk() {
                put(&mut covered, lane, header::covered(head));
            }
        }
        let proofs = proof::of_eight(key, &covered);
        for (datagram, proof) in eight.chunks(segment_len).zip(proofs) {
            take(header::open_by(datagram, |_| proof));
        }
    }
}

fn put(covered: &mut [[u64; LANES]; COVERED], lane: usize, words: [u64; COVERED]) {
    for (place, word) in covered.iter_mut().zip(words) {
        place[lane] = word;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Epoch, open, seal};

    const KEY: JobKey = JobKey([7; 16]);

    fn header(number: u64) -> Header {
        Header { source: Epoch(1), sequence: number, ..Header::EMPTY }
    }

    /// A train of `count` datagrams, the last one with half a body.
    fn train(count: usize, body_len: usize) -> (Vec<u8>, usize) {
        let segment_len = HEADER_LEN + body_len;
        let mut bytes: Vec<u8> = (0..count * segment_len).map(|i| (i / 7) as u8).collect();
        bytes.truncate(bytes.len() - body_len / 2);
        (bytes, segment_len)
    }

    proptest! {
        #[test]
        fn a_train_is_its_datagrams(count in 1usize..20, body_len in 0usize..200) {
            let (mut together, segment_len) = train(count, body_len);
            let mut alone = together.clone();
            let mut batch = Batch::default();
            let mut at = 0;
            let mut end = 0;
            for (number, datagram) in alone.chunks_mut(segment_len).enumerate() {
                if batch.is_full() {
                    batch.seal(&KEY, &mut together[at..end]);
                    at = end;
                }
                *batch.place() = header(number as u64);
                let sum = Crc32c::EMPTY.over(&datagram[HEADER_LEN..]);
                batch.push(datagram.len(), (number % 3 == 0).then_some(sum));
                end += datagram.len();
                seal(&header(number as u64), &KEY, datagram);
            }
            batch.seal(&KEY, &mut together[at..end]);
            prop_assert_eq!(&together, &alone);
            let mut expected = alone.chunks(segment_len).map(|datagram| open(&KEY, datagram));
            let mut differs = false;
            open_train(&KEY, &together, segment_len, |opened| {
                differs |= Some(opened) != expected.next() || opened.is_err();
            });
            prop_assert!(!differs && expected.next().is_none());
        }

        #[test]
        fn a_damaged_train_is_refused_as_its_datagrams_are(
            bytes in proptest::collection::vec(any::<u8>(), 0..600), segment_len in 0usize..150,
            at: prop::sample::Index, flip in 1u8..,
        ) {
            let (mut good, good_len) = train(11, 20);
            for (number, datagram) in good.chunks_mut(good_len).enumerate() {
                seal(&header(number as u64), &KEY, datagram);
            }
            let at = at.index(good.len());
            good[at] ^= flip;
            for (train, len) in [(bytes, segment_len), (good, good_len)] {
                let mut expected = train.chunks(len.max(1)).map(|datagram| open(&KEY, datagram));
                let mut differs = false;
                open_train(&KEY, &train, len, |opened| differs |= Some(opened) != expected.next());
                prop_assert!(!differs && expected.next().is_none());
            }
        }
    }
}
