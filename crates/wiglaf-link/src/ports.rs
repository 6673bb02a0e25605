//! Ranges of UDP ports, for which firewalls are opened.

use std::num::NonZeroU16;

/// A range of UDP ports, both ends included: `47000-47999`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    first: NonZeroU16,
    last: NonZeroU16,
}

impl Ports {
    /// The range that `text` names. It holds two ports at least: so many does each rank have.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first < last).then_some(Self { first, last })
    }

    /// Whether it has that port.
    #[must_use]
    pub fn has(self, port: u16) -> bool {
        (self.first.get()..=self.last.get()).contains(&port)
    }

    /// All of them, beginning at a place that differs from process to process: otherwise each rank of a
    /// node would find those of all before it in use.
    pub fn each(self) -> impl Iterator<Item = u16> {
        let (first, count) = (self.first.get(), self.last.get() - self.first.get());
        let count = u32::from(count) + 1;
        // Two ports a rank, and process numbers of ranks follow each other.
        let begin = std::process::id().wrapping_mul(2) % count;
        (0..count).map(move |n| first + ((begin + n) % count) as u16)
    }
}

impl std::fmt::Display for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_two_ports_with_a_hyphen() {
        let ports = Ports::named("47000-47999").expect("a range");
        assert_eq!(ports.to_string(), "47000-47999");
        assert!(ports.has(47000) && ports.has(47999) && !ports.has(46999) && !ports.has(48000));
        for wrong in ["47000", "47000-", "0-5", "5-5", "6-5", "47000-65536", "a-b", ""] {
            assert_eq!(Ports::named(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn each_port_of_a_range_is_tried_once() {
        let mut tried: Vec<u16> = Ports::named("65530-65535").expect("a range").each().collect();
        tried.sort_unstable();
        assert_eq!(tried, [65530, 65531, 65532, 65533, 65534, 65535]);
    }
}
