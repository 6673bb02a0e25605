//! CRC-32C (Castagnoli; RFC 3720, appendix B.4) of bytes, and of bytes while they are copied.
//!
//! A sender copies each payload to where the kernel takes it, and needs its checksum. Whoever makes
//! that afterwards waits for the copy to reach the cache, whose lines the receiver's core may still
//! hold. Made of the registers on their way it costs next to nothing: a train of 42 datagrams takes
//! 1.3 us where copy and checksum by themselves take 3.0
//! (docs/adr/0026-size-classes-of-messages.md). No crate that we know does it.
//!
//! Where the processor does not multiply 32 bytes at once (Intel before 2019, AMD before 2020, other
//! architectures), the copy is made first, and crate crc-fast makes its checksum.

#[cfg(target_arch = "x86_64")]
mod fold;

use std::sync::LazyLock;

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of what has passed so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crc32c {
    state: u32,
}

impl Crc32c {
    /// That of nothing.
    pub const EMPTY: Self = Self { state: !0 };

    /// That of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u32 {
        Self::EMPTY.over_some(bytes).value()
    }

    /// Continued over `bytes`.
    #[must_use]
    #[inline]
    pub fn over(self, bytes: &[u8]) -> Self {
        // What stands before or behind a payload is mostly nothing.
        if bytes.is_empty() { self } else { self.over_some(bytes) }
    }

    fn over_some(self, bytes: &[u8]) -> Self {
        Self { state: Way::chosen().pass::<false>(self.state, bytes, &mut []) }
    }

    /// Continued over `from`, which is copied to `to`.
    ///
    /// # Panics
    /// When the two are not of the same length.
    #[must_use]
    pub fn copy(self, from: &[u8], to: &mut [u8]) -> Self {
        assert_eq!(from.len(), to.len(), "as with copy_from_slice");
        Self { state: Way::chosen().pass::<true>(self.state, from, to) }
    }

    /// What the checksum is.
    #[must_use]
    #[inline]
    pub fn value(self) -> u32 {
        !self.state
    }
}

/// How the checksum is made: by the widest registers that this processor multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    #[cfg(target_arch = "x86_64")]
    By64,
    #[cfg(target_arch = "x86_64")]
    By32,
    Anywhere,
}

impl Way {
    /// The best first.
    const ALL: &[Self] = &[
        #[cfg(target_arch = "x86_64")]
        Self::By64,
        #[cfg(target_arch = "x86_64")]
        Self::By32,
        Self::Anywhere,
    ];

    #[inline]
    fn chosen() -> Self {
        static CHOSEN: LazyLock<Way> = LazyLock::new(|| {
            let here = Way::ALL.iter().find(|way| way.is_here());
            *here.unwrap_or(&Way::Anywhere)
        });
        *CHOSEN
    }

    /// Whether the processor has all that the way is compiled with.
    fn is_here(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::By64 => {
                has_words_and_products()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
            }
            #[cfg(target_arch = "x86_64")]
            Self::By32 => has_words_and_products() && is_x86_feature_detected!("avx2"),
            Self::Anywhere => true,
        }
    }

    /// The checksum `state` continued over `from`, which is copied to `to` if it is to be.
    #[inline]
    fn pass<const COPY: bool>(self, state: u32, from: &[u8], to: &mut [u8]) -> u32 {
        match self {
            // SAFETY: this way and the next are only taken where `is_here` found what they enable.
            #[cfg(target_arch = "x86_64")]
            Self::By64 => unsafe { fold::by_64::<COPY>(state, from, to) },
            // SAFETY: see above.
            #[cfg(target_arch = "x86_64")]
            Self::By32 => unsafe { fold::by_32::<COPY>(state, from, to) },
            Self::Anywhere => anywhere::<COPY>(state, from, to),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_words_and_products() -> bool {
    is_x86_feature_detected!("sse4.1")
        && is_x86_feature_detected!("sse4.2")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("vpclmulqdq")
}

/// On every processor. By itself, so that the others need no room for the digest.
#[cold]
#[inline(never)]
fn anywhere<const COPY: bool>(state: u32, from: &[u8], to: &mut [u8]) -> u32 {
    let bytes = match COPY {
        // The copy's checksum, whatever becomes of what it was made of.
        true => {
            to.copy_from_slice(from);
            &*to
        }
        false => from,
    };
    if state == !0 {
        return !(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32); // no wider than that
    }
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(state));
    digest.update(bytes);
    digest.get_state() as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 3720, appendix B.4, and the check value of the catalogues.
    #[test]
    fn known_values() {
        assert_eq!(Crc32c::of(b""), 0);
        assert_eq!(Crc32c::of(b"123456789"), 0xe306_9283);
        assert_eq!(Crc32c::of(&[0; 32]), 0x8a91_36aa);
        assert_eq!(Crc32c::of(&[0xff; 32]), 0x62a8_ab43);
    }

    /// Bit by bit, as the definition says.
    fn by_definition(state: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(state, |state, byte| {
            (0..8).fold(state ^ u32::from(*byte), |state, _| {
                (state >> 1) ^ if state & 1 != 0 { 0x82f6_3b78 } else { 0 }
            })
        })
    }

    /// Of every way that this processor has.
    fn every_way_is_right(state: u32, bytes: &[u8]) {
        let wanted = by_definition(state, bytes);
        for way in Way::ALL.iter().filter(|way| way.is_here()) {
            let mut copied = vec![0; bytes.len()];
            assert_eq!(way.pass::<true>(state, bytes, &mut copied), wanted, "{way:?}");
            assert!(copied == bytes, "{way:?}");
            assert_eq!(way.pass::<false>(state, bytes, &mut []), wanted, "{way:?}");
        }
    }

    #[test]
    fn every_length_is_right_in_every_way() {
        for way in Way::ALL.iter().filter(|way| !way.is_here()) {
            eprintln!("skipped: this processor has not what {way:?} takes");
        }
        let lens = if cfg!(miri) { 120..140 } else { 0..1500 };
        let bytes: Vec<u8> = (0..lens.end).map(|i| (i * 7 + i / 13) as u8).collect();
        for len in lens {
            every_way_is_right(!0, &bytes[bytes.len() - len..]);
        }
    }

    proptest! {
        #[test]
        fn every_way_is_right_from_any_state_on(
            state: u32, bytes in proptest::collection::vec(any::<u8>(), 0..3000),
        ) {
            every_way_is_right(state, &bytes);
        }

        #[test]
        fn parts_make_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..3000), at: prop::sample::Index,
        ) {
            let (front, behind) = bytes.split_at(at.index(bytes.len() + 1));
            let mut copied = vec![0; behind.len()];
            let sum = Crc32c::EMPTY.over(front).copy(behind, &mut copied);
            prop_assert_eq!(sum.value(), Crc32c::of(&bytes));
            prop_assert!(copied == behind);
        }
    }

    #[test]
    #[should_panic(expected = "as with copy_from_slice")]
    fn a_copy_has_its_length() {
        let _ = Crc32c::EMPTY.copy(&[1; 200], &mut [0; 100]);
    }
}
