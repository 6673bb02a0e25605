//! 64-bit numbers from the 32 bits that travel.

/// The number nearest to `near` whose low 32 bits are `low`.
///
/// Right as long as the true number is less than 2³¹ away, which the windows
/// in [`crate::limits`] see to.
#[must_use]
pub(crate) fn expand(low: u32, near: u64) -> u64 {
    let distance = low.wrapping_sub(near as u32) as i32;
    near.checked_add_signed(i64::from(distance)).unwrap_or(u64::from(low))
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
        fn never_panics(low: u32, near: u64) {
            let _ = expand(low, near);
        }
    }
}
