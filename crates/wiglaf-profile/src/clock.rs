//! Time stamps that cost little: the processor's own counter where it runs evenly, else the kernel's clock.

use std::arch::x86_64::{__cpuid, _rdtsc};
use std::sync::OnceLock;
use std::time::Instant;

/// A reading of both clocks, to convert one into the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    ticks: u64,
    instant: Instant,
}

impl Reading {
    /// Now.
    pub(crate) fn take() -> Self {
        Self { ticks: ticks(), instant: Instant::now() }
    }

    /// The processor's count, as [`ticks`] gives it.
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Nanoseconds from here to `later`.
    pub(crate) fn ns_until(&self, later: &Self) -> u64 {
        later.instant.duration_since(self.instant).as_nanos() as u64
    }

    /// Nanoseconds for each tick, between here and `later`.
    pub(crate) fn ns_per_tick(&self, later: &Self) -> f64 {
        let ticks = later.ticks.saturating_sub(self.ticks).max(1);
        self.ns_until(later) as f64 / ticks as f64
    }
}

/// A count that grows evenly.
#[inline]
pub(crate) fn ticks() -> u64 {
    match is_even() {
        // SAFETY: every x86-64 processor has the instruction.
        true => unsafe { _rdtsc() },
        false => since_first(),
    }
}

/// Whether the processor's counter runs at one rate in all of its states.
#[inline]
fn is_even() -> bool {
    /// "Advanced power management information".
    const LEAF: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    static EVEN: OnceLock<bool> = OnceLock::new();
    *EVEN.get_or_init(|| __cpuid(0x8000_0000).eax >= LEAF && __cpuid(LEAF).edx & INVARIANT != 0)
}

fn since_first() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_the_time_between_readings() {
        let start = Reading::take();
        while start.instant.elapsed().as_millis() < 5 {}
        let end = Reading::take();
        let ns = (end.ticks - start.ticks) as f64 * start.ns_per_tick(&end);
        assert!((ns - start.ns_until(&end) as f64).abs() < 2.0, "{ns}");
    }
}
