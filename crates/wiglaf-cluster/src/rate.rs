//! Line rates as users write them: `1gbit`, `100mbit`, `2.5gbit`.

use std::fmt;

use serde::{Deserialize, Serialize};
use wiglaf_base::error::{Error, Result};

/// The rate of a switch port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate {
    bits_per_second: u64,
}

/// The units, the largest first.
const UNITS: [(&str, u64); 4] =
    [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];
/// Slower than this, one frame takes longer than a user waits.
const BITS_PER_SECOND_MIN: u64 = 8_000;
/// `tc` counts bytes per second in 64 bits; nothing real is faster than this.
const BITS_PER_SECOND_MAX: u64 = 1_000_000_000_000;

impl Rate {
    /// Reads a number and a unit.
    ///
    /// # Errors
    /// When the text is no rate, or one beyond what can be emulated.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = || {
            Error::new(format!(
                "`{text}` is not a line rate; write a number and a unit, for example 1gbit or 100mbit"
            ))
        };
        let lower = text.trim().to_ascii_lowercase();
        let (digits, factor) = UNITS
            .iter()
            .find_map(|(unit, factor)| lower.strip_suffix(unit).map(|d| (d.trim(), *factor)))
            .ok_or_else(bad)?;
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(bad());
        }
        let value: f64 = digits.parse().map_err(|_| bad())?;
        // The product is checked against the bounds before it is used.
        let bits_per_second = (value * factor as f64).round() as u64;
        if !(BITS_PER_SECOND_MIN..=BITS_PER_SECOND_MAX).contains(&bits_per_second) {
            return Err(Error::new(format!(
                "the line rate `{text}` is out of range; it must lie between 8kbit and 1000gbit"
            )));
        }
        Ok(Self { bits_per_second })
    }

    /// Bits per second.
    #[must_use]
    pub fn bits_per_second(self) -> u64 {
        self.bits_per_second
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bits_per_second;
        let (unit, factor) =
            UNITS.iter().find(|(_, factor)| bits.is_multiple_of(*factor)).unwrap_or(&("bit", 1));
        write!(f, "{}{unit}", bits / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_read_and_printed() {
        for (text, bits, printed) in [
            ("1gbit", 1_000_000_000, "1gbit"),
            ("2.5Gbit", 2_500_000_000, "2500mbit"),
            ("100mbit", 100_000_000, "100mbit"),
            ("64000bit", 64_000, "64kbit"),
        ] {
            let rate = Rate::parse(text).unwrap();
            assert_eq!((rate.bits_per_second(), rate.to_string().as_str()), (bits, printed));
        }
        for text in [
            "",
            "1",
            "gbit",
            "1gbyte",
            "-1gbit",
            "1e9bit",
            "0gbit",
            "9999gbit",
            "1.2.3mbit",
            "nanbit",
        ] {
            assert!(Rate::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_rates_read_back(bits in BITS_PER_SECOND_MIN..=BITS_PER_SECOND_MAX) {
            let rate = Rate { bits_per_second: bits };
            prop_assert_eq!(Rate::parse(&rate.to_string()).unwrap(), rate);
        }

        #[test]
        fn any_text_is_an_answer(text in ".{0,12}") {
            let _ = Rate::parse(&text);
        }
    }
}
