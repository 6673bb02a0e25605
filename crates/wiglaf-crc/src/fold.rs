//! Checksums by carry-less multiplication, in registers of 32 and 64 bytes.
//!
//! A CRC is a remainder, so what stands `n` bits before the end may be replaced by its product with
//! `x^n` modulo the polynomial: four registers are multiplied and take in the next four again and
//! again, then become one, of which instructions for single words make the checksum (Gopal and
//! others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009).

use std::arch::x86_64::*;

/// The polynomial, its bits in the order in which they travel.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// What both halves of 16 bytes are multiplied by, to stand `distance` bits later: the first
/// stands 64 bits before the second. The mirrored remainder of 32 bits lies in the low half of its
/// 64 bits, which stands for 32 bits more already; and a product of mirrored halves is one bit short.
const fn factors(distance: u32) -> [u64; 2] {
    [power(distance + 64 - 32) << 1, power(distance - 32) << 1]
}

/// The remainder of `x^n`.
const fn power(n: u32) -> u64 {
    let mut remainder: u32 = 1 << 31;
    let mut i = 0;
    while i < n {
        let carry = if remainder & 1 != 0 { POLYNOMIAL } else { 0 };
        remainder = (remainder >> 1) ^ carry;
        i += 1;
    }
    remainder as u64
}

/// A line this far ahead of what is written is fetched, in bytes. Where a train is written, the receiver's
/// core has read the last one; if it is no near core, each such line takes long to come (docs/perf-log.md).
const FETCHED_AHEAD: usize = 1536;

/// Shortest input that is worth a register's reduction at the end.
const FOLDED_LEN_MIN: usize = 128;

// By a macro, as what instruction sets a function may use cannot be a parameter of its type.
macro_rules! folding {
    (
        $(#[$doc:meta])* $name:ident, $features:literal, $len:literal,
        $load:ident, $store:ident, $broadcast:ident, $from_16:ident, $multiply:ident,
        $xor:ident, $part:ident, [$($index:literal),*], $last:literal
    ) => {
        $(#[$doc])*
        #[target_feature(enable = $features)]
        pub(crate) fn $name<const COPY: bool>(state: u32, from: &[u8], to: &mut [u8]) -> u32 {
            let (pieces, rest) = from.as_chunks::<$len>();
            let ([first, behind @ ..], true) = (pieces, from.len() >= FOLDED_LEN_MIN) else {
                return by_words::<COPY>(state, from, to);
            };
            let (places, rest_place) = to.as_chunks_mut::<$len>();
            let mut places = places.iter_mut();
            let mut take = |piece: &[u8; $len]| {
                // SAFETY: so many bytes are there, aligned or not.
                let register = unsafe { $load(piece.as_ptr().cast()) };
                if COPY && let Some(place) = places.next() {
                    let ahead = place.as_ptr().wrapping_add(FETCHED_AHEAD);
                    _mm_prefetch::<_MM_HINT_ET0>(ahead.cast());
                    // SAFETY: as above.
                    unsafe { $store(place.as_mut_ptr().cast(), register) };
                }
                register
            };
            let by = |[first, second]: [u64; 2]| {
                $broadcast(_mm_set_epi64x(second as i64, first as i64))
            };
            let fold = |register, by, next| {
                let first = $multiply::<0x00>(register, by);
                $xor($xor(first, $multiply::<0x11>(register, by)), next)
            };
            let by_one = by(const { factors(8 * $len) });
            let begun = $from_16(_mm_cvtsi32_si128(state as i32));
            let (mut all, left) = if let ([first, fours @ ..], left) = pieces.as_chunks::<4>() {
                let by_four = by(const { factors(4 * 8 * $len) });
                let [mut a, mut b, mut c, mut d] = first.each_ref().map(&mut take);
                a = $xor(a, begun);
                for [e, f, g, h] in fours {
                    a = fold(a, by_four, take(e));
                    b = fold(b, by_four, take(f));
                    c = fold(c, by_four, take(g));
                    d = fold(d, by_four, take(h));
                }
                (fold(fold(fold(a, by_one, b), by_one, c), by_one, d), left)
            } else {
                ($xor(take(first), begun), behind)
            };
            for piece in left {
                all = fold(all, by_one, take(piece));
            }
            // Its parts of 16 bytes come to stand where the last of them does.
            let mut last = $part::<$last>(all);
            $(
                let [first, second] = const { factors(128 * ($last - $index)) };
                let by = _mm_set_epi64x(second as i64, first as i64);
                let part = $part::<$index>(all);
                let first = _mm_clmulepi64_si128::<0x00>(part, by);
                let second = _mm_clmulepi64_si128::<0x11>(part, by);
                last = _mm_xor_si128(last, _mm_xor_si128(first, second));
            )*
            let state = _mm_crc32_u64(0, _mm_cvtsi128_si64(last) as u64);
            let state = _mm_crc32_u64(state, _mm_extract_epi64::<1>(last) as u64);
            by_words::<COPY>(state as u32, rest, rest_place)
        }
    };
}

folding!(
    /// With registers of 64 bytes.
    by_64, "avx512f,avx512dq,vpclmulqdq,pclmulqdq,sse4.1,sse4.2", 64,
    _mm512_loadu_si512, _mm512_storeu_si512, _mm512_broadcast_i32x4, _mm512_zextsi128_si512,
    _mm512_clmulepi64_epi128, _mm512_xor_si512,
    _mm512_extracti64x2_epi64, [0, 1, 2], 3
);
folding!(
    /// With registers of 32 bytes.
    by_32, "avx2,vpclmulqdq,pclmulqdq,sse4.1,sse4.2", 32,
    _mm256_loadu_si256, _mm256_storeu_si256, _mm256_broadcastsi128_si256, _mm256_zextsi128_si256,
    _mm256_clmulepi64_epi128, _mm256_xor_si256, _mm256_extracti128_si256, [0], 1
);

/// Word by word.
#[target_feature(enable = "sse4.2")]
fn by_words<const COPY: bool>(state: u32, from: &[u8], to: &mut [u8]) -> u32 {
    let (words, rest) = from.as_chunks::<8>();
    let (places, rest_places) = to.as_chunks_mut::<8>();
    let (mut places, mut rest_places) = (places.iter_mut(), rest_places.iter_mut());
    let mut state = u64::from(state);
    for word in words {
        if COPY && let Some(place) = places.next() {
            *place = *word;
        }
        state = _mm_crc32_u64(state, u64::from_le_bytes(*word));
    }
    let mut state = state as u32;
    for byte in rest {
        if COPY && let Some(place) = rest_places.next() {
            *place = *byte;
        }
        state = _mm_crc32_u8(state, *byte);
    }
    state
}
