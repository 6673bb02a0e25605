//! The incarnation of an endpoint.

/// A random 64-bit incarnation, drawn anew whenever an endpoint opens.
///
/// Frames that carry the epoch of an earlier incarnation are dropped, so a
/// job never needs a reset after a crash. Zero stands for "not known yet".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub u64);

impl Epoch {
    /// "I do not know yet who listens there."
    pub const UNKNOWN: Self = Self(0);

    /// Whether this names an incarnation.
    #[must_use]
    pub fn is_known(self) -> bool {
        self != Self::UNKNOWN
    }
}

impl std::fmt::Display for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
