//! Faults of the emulated wire: what a switch port loses, doubles, damages or
//! holds back, as users write it and as the switch counts it.
//!
//! Faults sit on the switch's ports, where every link meets them: what a node
//! does to its own interface is past what AF_PACKET sees. They act on IPv4
//! frames, TCP's like ours. The switch's init carries them out, so they last
//! until they are cleared or the cluster ends.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wiglaf_base::error::{Error, Result};

/// How long a reordered frame is held back at most, unless told otherwise.
pub const HOLD_DEFAULT: Duration = Duration::from_micros(500);
/// Longer than this, a frame is not late but lost.
const HOLD_MAX: Duration = Duration::from_secs(10);

/// How likely something is to happen to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Probability {
    /// Of 2^32 frames, this many; all when it is the largest number.
    threshold: u32,
}

impl Probability {
    /// Reads `1%` or `0.01`.
    ///
    /// # Errors
    /// When it is neither, or beyond 100 %.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = || {
            Error::new(format!(
                "`{text}` is not a probability; write a percentage such as 1% or 0.1%"
            ))
        };
        let (digits, whole) = match text.trim().strip_suffix('%') {
            Some(digits) => (digits.trim(), 100.0),
            None => (text.trim(), 1.0),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(bad());
        }
        let share = digits.parse::<f64>().map_err(|_| bad())? / whole;
        if !(0.0..=1.0).contains(&share) {
            return Err(bad());
        }
        // Rounded, and saturating at "all".
        Ok(Self { threshold: (share * 4_294_967_296.0).round() as u32 })
    }

    /// A random 32-bit number below this means that it happens.
    #[must_use]
    pub fn threshold(self) -> u32 {
        self.threshold
    }

    /// As a number from 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.threshold) / 4_294_967_296.0
    }

    /// Whether it never happens.
    #[must_use]
    pub fn is_never(self) -> bool {
        self.threshold == 0
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.share() * 100.0;
        // Six digits are more than anybody writes; the zeros behind them go.
        let text = format!("{percent:.6}");
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Reads a time such as `500us` or `2ms`.
///
/// # Errors
/// When it is no time, zero, or longer than ten seconds.
pub fn parse_hold(text: &str) -> Result<Duration> {
    const UNITS: [(&str, u64); 3] = [("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let bad = || Error::new(format!("`{text}` is not a time; write for example 500us or 2ms"));
    let (digits, unit_ns) = UNITS
        .iter()
        .find_map(|(unit, ns)| text.trim().strip_suffix(unit).map(|d| (d.trim(), *ns)))
        .ok_or_else(bad)?;
    let count: u64 = digits.parse().map_err(|_| bad())?;
    let hold = Duration::from_nanos(count.checked_mul(unit_ns).ok_or_else(bad)?);
    match hold.is_zero() || hold > HOLD_MAX {
        true => Err(Error::new(format!("`{text}` is out of range; write 1us to 10s"))),
        false => Ok(hold),
    }
}

/// The faults of one direction of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Faults {
    /// The frame is lost.
    pub drop: Probability,
    /// One bit of it is turned over.
    pub corrupt: Probability,
    /// It comes twice.
    pub duplicate: Probability,
    /// It is held back while others pass.
    pub reorder: Probability,
}

/// The faults of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PortFaults {
    /// On what the node sends.
    pub from: Faults,
    /// On what it is sent.
    pub to: Faults,
}

impl PortFaults {
    /// Whether frames take the detour.
    #[must_use]
    pub fn reorders(self) -> bool {
        !self.from.reorder.is_never() || !self.to.reorder.is_never()
    }

    /// Whether frames are damaged, which only true checksums can tell.
    #[must_use]
    pub fn corrupts(self) -> bool {
        !self.from.corrupt.is_never() || !self.to.corrupt.is_never()
    }
}

/// How many frames met which fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// IPv4 frames that passed the port, the lost ones included.
    pub frames: u64,
    /// Lost.
    pub dropped: u64,
    /// Damaged.
    pub corrupted: u64,
    /// Doubled.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
}

/// What the switch says of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortReport {
    /// What was set; nothing is counted without.
    pub faults: Option<PortFaults>,
    /// What happened to the node's frames since then.
    pub from: Counts,
    /// What happened to frames for the node since then.
    pub to: Counts,
    /// Whether the cable is pulled.
    pub is_down: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn probabilities_are_read_and_printed() {
        for (text, printed) in
            [("1%", "1%"), ("0.1%", "0.1%"), ("0.25", "25%"), ("100%", "100%"), ("0%", "0%")]
        {
            assert_eq!(Probability::parse(text).unwrap().to_string(), printed);
        }
        assert_eq!(Probability::parse("100%").unwrap().threshold(), u32::MAX);
        for text in ["", "%", "1 percent", "101%", "1.1", "-1%", "1e-3", "nan", "1..2%"] {
            assert!(Probability::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_read() {
        assert_eq!(parse_hold("2ms").unwrap(), Duration::from_millis(2));
        assert_eq!(parse_hold("50 us").unwrap(), Duration::from_micros(50));
        for text in ["", "5", "0us", "11s", "-1ms", "1.5ms", "99999999999999999999s"] {
            assert!(parse_hold(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_answer(text in ".{0,12}") {
            let _ = (Probability::parse(&text), parse_hold(&text));
        }
    }
}
