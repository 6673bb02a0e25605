//! The proof of the job's key in each header: SipHash-2-4 (Aumasson and Bernstein, 2012), of one
//! header, or of eight at once.
//!
//! Its steps wait for each other: one proof takes 30 ns, whatever else the core could do meanwhile.
//! Eight, each in a lane of vector registers, take little longer than one, and a train has dozens.

use siphasher::sip::SipHasher24;

use crate::JobKey;

/// How many proofs are made at once.
pub(crate) const LANES: usize = 8;

/// How many words of a header a proof covers: all but its own.
pub(crate) const COVERED: usize = 5;

/// The proof of one header.
pub(crate) fn of_one(key: &JobKey, words: [u64; COVERED]) -> u64 {
    let mut covered = [0; 8 * COVERED];
    for (place, word) in covered.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    SipHasher24::new_with_key(&key.0).hash(&covered)
}

/// The proofs of eight headers: `words` has the first word of each, then the second of each.
pub(crate) fn of_eight(key: &JobKey, words: &[[u64; LANES]; COVERED]) -> [u64; LANES] {
    #[cfg(target_arch = "x86_64")]
    if let pulp::Arch::V4(avx512) = pulp::Arch::new() {
        return pulp::Simd::vectorize(avx512, Eight { key, words });
    }
    in_halves(key, words)
}

/// What is hashed at once in AVX-512's registers.
#[cfg(target_arch = "x86_64")]
struct Eight<'a> {
    key: &'a JobKey,
    words: &'a [[u64; LANES]; COVERED],
}

#[cfg(target_arch = "x86_64")]
impl pulp::WithSimd for Eight<'_> {
    type Output = [u64; LANES];

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _registers: S) -> [u64; LANES] {
        of_lanes(self.key, self.words)
    }
}

/// Four at a time are as many as ordinary registers hold.
fn in_halves(key: &JobKey, words: &[[u64; LANES]; COVERED]) -> [u64; LANES] {
    let mut proofs = [0; LANES];
    for (half, place) in proofs.as_chunks_mut::<{ LANES / 2 }>().0.iter_mut().enumerate() {
        *place = of_lanes(key, &words.map(|word| word.as_chunks().0[half]));
    }
    proofs
}

// Inlined into where vector registers are allowed: there the compiler turns the lanes into them.
#[inline(always)]
fn of_lanes<const L: usize>(key: &JobKey, words: &[[u64; L]; COVERED]) -> [u64; L] {
    let (halves, _) = key.0.as_chunks::<8>();
    let [low, high] = [u64::from_le_bytes(halves[0]), u64::from_le_bytes(halves[1])];
    let mut state = [
        [low ^ 0x736f_6d65_7073_6575; L],
        [high ^ 0x646f_7261_6e64_6f6d; L],
        [low ^ 0x6c79_6765_6e65_7261; L],
        [high ^ 0x7465_6462_7974_6573; L],
    ];
    for word in words {
        take(&mut state, word);
    }
    // Behind whole words comes one with their length in bytes on top. (Not in the loop above:
    // there the compiler would give up the vector registers.)
    take(&mut state, &[(8 * COVERED as u64) << 56; L]);
    each(&mut state[2], |_, value| *value ^= 0xff);
    for _ in 0..4 {
        round(&mut state);
    }
    let [a, b, c, d] = state;
    std::array::from_fn(|lane| a[lane] ^ b[lane] ^ c[lane] ^ d[lane])
}

#[inline(always)]
fn take<const L: usize>(state: &mut [[u64; L]; 4], word: &[u64; L]) {
    each(&mut state[3], |lane, value| *value ^= word[lane]);
    round(state);
    round(state);
    each(&mut state[0], |lane, value| *value ^= word[lane]);
}

#[inline(always)]
fn each<const L: usize>(lanes: &mut [u64; L], mut change: impl FnMut(usize, &mut u64)) {
    for (lane, value) in lanes.iter_mut().enumerate() {
        change(lane, value);
    }
}

/// SipRound, of all lanes.
#[inline(always)]
fn round<const L: usize>([a, b, c, d]: &mut [[u64; L]; 4]) {
    mix(a, b, 13);
    each(a, |_, value| *value = value.rotate_left(32));
    mix(c, d, 16);
    mix(a, d, 21);
    mix(c, b, 17);
    each(c, |_, value| *value = value.rotate_left(32));
}

#[inline(always)]
fn mix<const L: usize>(sum: &mut [u64; L], turned: &mut [u64; L], bits: u32) {
    each(sum, |lane, value| *value = value.wrapping_add(turned[lane]));
    each(turned, |lane, value| *value = value.rotate_left(bits) ^ sum[lane]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn eight_at_once_are_eight_by_themselves(key: [u8; 16], words: [[u64; LANES]; COVERED]) {
            let key = JobKey(key);
            let each: Vec<u64> = (0..LANES)
                .map(|lane| of_one(&key, words.map(|word| word[lane])))
                .collect();
            prop_assert_eq!(&of_eight(&key, &words)[..], &each[..]);
            prop_assert_eq!(&in_halves(&key, &words)[..], &each[..]);
        }
    }
}
