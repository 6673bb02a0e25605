//! 64-bit numbers from the bits of them that travel.

use wiglaf_wire::NUMBER_BITS;

/// The number nearest to `near` whose low 32 bits are `low`.
//= docs/protocol.md#21-header
//# A receiver MUST take a number of which only the low bits travel for the nearest 64-bit number that has them.
///
/// Right as long as the true number is less than 2³¹ away, which the windows
/// in [`crate::limits`] see to.
#[must_use]
pub(crate) fn expand(low: u32, near: u64) -> u64 {
    let distance = low.wrapping_sub(near as u32) as i32;
    near.checked_add_signed(i64::from(distance)).unwrap_or(u64::from(low))
}

/// The number of a datagram nearest to `near` whose low bits are `low`. More bits of it travel than of other numbers:
/// what was recorded is to be known for old as long as anybody keeps it, not until 2³¹ packets later.
#[must_use]
pub(crate) fn expand_number(low: u64, near: u64) -> u64 {
    const UNSEEN: u32 = u64::BITS - NUMBER_BITS;
    let distance = (low << UNSEEN).wrapping_sub(near << UNSEEN).cast_signed() >> UNSEEN;
    near.checked_add_signed(distance).unwrap_or(low)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn comes_back(near in 0u64..1 << 40, distance in -(1i64 << 30)..1 << 30) {
            let Some(number) = near.checked_add_signed(distance) else { return Ok(()) };
            prop_assert_eq!(expand(number as u32, near), number);
        }

        #[test]
        fn numbers_come_back(near in 0u64..1 << 50, distance in -(1i64 << 38)..1 << 38) {
            let Some(number) = near.checked_add_signed(distance) else { return Ok(()) };
            prop_assert_eq!(expand_number(number % (1 << NUMBER_BITS), near), number);
        }

        #[test]
        fn never_panics(low: u32, near: u64) {
            let _ = expand(low, near);
            let _ = expand_number(low.into(), near);
        }
    }
}
