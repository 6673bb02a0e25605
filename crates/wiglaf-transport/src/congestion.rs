//! How many packets of a lane may be in flight.
//!
//! What decides it is a [`Controller`]; the lane tells it what happens, and asks it for the window.
//! There are two: [`Swift`], and [`Fixed`], which shows what happens without.

mod swift;

use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::limits::PARTS_PER_PACKET;

use swift::Swift;

/// What decides how many packets may be in flight.
pub(crate) trait Controller: Debug {
    /// The window, in parts of a packet: [`PARTS_PER_PACKET`] are one packet.
    fn window(&self) -> u32;

    /// A packet took so long through the network: its round trip, less what it and its acknowledgement waited in
    /// endpoints, and less the queue that the acknowledgement met.
    fn on_delay(&mut self, delay: Duration);

    /// A packet waited so long for its receiver, or its acknowledgement for its sender, which was away meanwhile.
    fn on_absence(&mut self, away: Duration);

    /// So many packets were acknowledged; `was_full` when the window had kept more from going.
    fn on_acked(&mut self, packets: u32, was_full: bool);

    /// A window of packets has been acknowledged, which is a round; the shortest round trip ever seen took `way_ns`
    /// nanoseconds, 0 if there was none.
    fn on_round(&mut self, was_full: bool, way_ns: u32);

    /// A packet of the window was lost, the first one of it.
    fn on_loss(&mut self);

    /// Packets are at most so many bytes long from now on.
    fn set_packet_len(&mut self, len_max: usize);

    /// Whole packets that may be in flight, at least one.
    fn packets(&self) -> u32 {
        (self.window() / PARTS_PER_PACKET).max(1)
    }

    /// Whether there is a wait after each packet.
    fn is_paced(&self) -> bool {
        self.window() < PARTS_PER_PACKET
    }

    /// How long to wait after a packet when the window is below one, given the round trip.
    fn pace(&self, rtt: Duration) -> Option<Duration> {
        self.is_paced().then(|| rtt * PARTS_PER_PACKET / self.window())
    }
}

/// How windows of packets are controlled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Control {
    /// Longest packet, in bytes.
    pub(crate) packet_len_max: usize,
    /// False shows what happens without.
    pub(crate) is_on: bool,
}

/// The controller of one lane, in place: with thousands of peers each cache line counts.
#[derive(Debug, Clone)]
pub(crate) enum Congestion {
    Swift(Swift),
    Fixed(Fixed),
}

impl Congestion {
    /// A window of at most `packets_max`; without control it is as wide from the start.
    pub(crate) const fn new(packets_max: u32, control: Control) -> Self {
        let Control { packet_len_max, is_on } = control;
        match is_on {
            true => Self::Swift(Swift::new(packets_max, packet_len_max)),
            false => Self::Fixed(Fixed { packets: packets_max }),
        }
    }
}

impl Deref for Congestion {
    type Target = dyn Controller;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Swift(swift) => swift,
            Self::Fixed(fixed) => fixed,
        }
    }
}

impl DerefMut for Congestion {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Swift(swift) => swift,
            Self::Fixed(fixed) => fixed,
        }
    }
}

/// A window that stays as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fixed {
    packets: u32,
}

impl Controller for Fixed {
    fn window(&self) -> u32 {
        self.packets * PARTS_PER_PACKET
    }

    fn on_delay(&mut self, _: Duration) {}
    fn on_absence(&mut self, _: Duration) {}
    fn on_acked(&mut self, _: u32, _: bool) {}
    fn on_round(&mut self, _: bool, _: u32) {}
    fn on_loss(&mut self) {}
    fn set_packet_len(&mut self, _: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_control_nothing_changes_it() {
        let mut congestion = Congestion::new(1000, Control { packet_len_max: 1472, is_on: false });
        congestion.on_loss();
        congestion.on_delay(Duration::from_millis(9));
        congestion.on_round(true, 0);
        assert_eq!(congestion.packets(), 1000);
    }
}
