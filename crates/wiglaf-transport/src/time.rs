//! A point in time that is handed in, never read.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds since an origin that the caller chose. The transport only
/// compares and adds; a simulator may run it on any clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant {
    ns: u64,
}

impl Instant {
    /// The origin.
    pub const ZERO: Self = Self { ns: 0 };

    /// So many nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self { ns }
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.ns
    }

    /// So long before, or the origin.
    #[must_use]
    pub fn before(self, by: Duration) -> Self {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        Self { ns: self.ns.saturating_sub(by) }
    }

    /// Time since `earlier`, or zero if that lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        Self { ns: self.ns.saturating_add(by) }
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}
