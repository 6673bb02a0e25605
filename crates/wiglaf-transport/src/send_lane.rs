//! The sending half of a lane: what is in flight, what is lost, how much more
//! may go (docs/protocol.md, section 4; RFC 8985 and RFC 9002 for the method).

use std::collections::VecDeque;
use std::time::Duration;

use crate::limits::{CWND_INITIAL, CWND_MIN, REORDER_THRESHOLD};
use crate::rtt::Rtt;
use crate::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Flying,
    Lost,
    Acked,
}

#[derive(Debug)]
struct Packet<T> {
    payload: T,
    sent_at: Instant,
    /// Which transmission of the lane sent it last.
    transmission: u64,
    retransmitted: bool,
    state: State,
}

/// Unacknowledged packets of one lane, each with what is needed to send it again.
#[derive(Debug)]
pub(crate) struct SendLane<T> {
    /// Number of the packet at the front of `packets`.
    base: u64,
    packets: VecDeque<Packet<T>>,
    /// Packets that are neither acknowledged nor lost.
    flying: u32,
    lost: VecDeque<u64>,
    transmissions: u64,
    /// Latest transmission that is known to have arrived.
    newest_acked: u64,
    cwnd: u32,
    cwnd_max: u32,
    acked_since_growth: u32,
    /// No loss has been seen yet: the window doubles each round trip.
    slow_start: bool,
    /// Losses of packets below this number have been answered already.
    recovery_end: u64,
    probes: u32,
    /// A probe is due, whatever the congestion window says.
    probe_due: bool,
    last_sent_at: Instant,
    rtt: Rtt,
}

/// What an acknowledgement changed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Packets newly acknowledged.
    pub(crate) packets: u32,
    /// Packets newly found lost.
    pub(crate) lost: u32,
}

impl<T> SendLane<T> {
    pub(crate) fn new(window: u64) -> Self {
        let cwnd_max = u32::try_from(window).unwrap_or(u32::MAX);
        Self {
            base: 0,
            packets: VecDeque::new(),
            flying: 0,
            lost: VecDeque::new(),
            transmissions: 0,
            newest_acked: 0,
            cwnd: CWND_INITIAL.min(cwnd_max),
            cwnd_max,
            acked_since_growth: 0,
            slow_start: true,
            recovery_end: 0,
            probes: 0,
            probe_due: false,
            last_sent_at: Instant::ZERO,
            rtt: Rtt::default(),
        }
    }

    /// Number of the oldest packet that is not acknowledged.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Smoothed round-trip time.
    pub(crate) fn rtt(&self) -> Duration {
        self.rtt.smoothed()
    }

    /// Number that the next new packet will get.
    pub(crate) fn next(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    /// Whether everything sent has been acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.packets.is_empty()
    }

    /// Packets in flight, lost ones not counted.
    pub(crate) fn flying(&self) -> u32 {
        self.flying
    }

    /// How many more packets may be sent now.
    pub(crate) fn room(&self) -> u32 {
        let congestion = self.cwnd.saturating_sub(self.flying);
        congestion.min(self.cwnd_max.saturating_sub(self.packets.len() as u32))
    }

    /// Whether a lost packet may be sent again now.
    pub(crate) fn has_lost(&self) -> bool {
        !self.lost.is_empty() && (self.cwnd > self.flying || self.probe_due)
    }

    /// Puts a new packet in flight and returns its number.
    pub(crate) fn push(&mut self, now: Instant, payload: T) -> u64 {
        let number = self.next();
        self.transmissions += 1;
        self.packets.push_back(Packet {
            payload,
            sent_at: now,
            transmission: self.transmissions,
            retransmitted: false,
            state: State::Flying,
        });
        self.flying += 1;
        self.last_sent_at = now;
        number
    }

    /// Puts the next lost packet in flight again.
    pub(crate) fn resend_lost(&mut self, now: Instant) -> Option<(u64, &T)> {
        if !self.has_lost() {
            return None;
        }
        let number = loop {
            let number = self.lost.pop_front()?;
            if self.packet(number).is_some_and(|p| p.state == State::Lost) {
                break number;
            }
        };
        self.probe_due = false;
        self.transmissions += 1;
        self.last_sent_at = now;
        self.flying += 1;
        let transmission = self.transmissions;
        let packet = self.packet_mut(number)?;
        packet.state = State::Flying;
        packet.retransmitted = true;
        packet.sent_at = now;
        packet.transmission = transmission;
        Some((number, &packet.payload))
    }

    fn packet(&self, number: u64) -> Option<&Packet<T>> {
        self.packets.get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    fn packet_mut(&mut self, number: u64) -> Option<&mut Packet<T>> {
        self.packets.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    /// Takes an acknowledgement, sent after holding the newest packet for
    /// `held`, of everything below `cumulative` and of the
    /// packets that `bitmap` names. What speaks of packets never sent is ignored.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        cumulative: u64,
        bitmap: impl Iterator<Item = u64>,
        held: Duration,
        mut acked: impl FnMut(T),
    ) -> Acked {
        let mut outcome = Acked::default();
        if cumulative > self.next() {
            return outcome;
        }
        let mut newest_sent_at = None;
        for number in self.base..cumulative {
            self.ack_one(number, &mut outcome, &mut newest_sent_at);
        }
        for (j, mut word) in bitmap.enumerate() {
            while word != 0 {
                let i = u64::from(word.trailing_zeros());
                word &= word - 1;
                let number = cumulative + 1 + 64 * j as u64 + i;
                self.ack_one(number, &mut outcome, &mut newest_sent_at);
            }
        }
        // In order: a message of several packets is delivered when its last one leaves here.
        while let Some(packet) = self.packets.pop_front_if(|p| p.state == State::Acked) {
            self.base += 1;
            acked(packet.payload);
        }
        // What was thought lost and is acknowledged after all need not go again.
        while let Some(&number) = self.lost.front()
            && self.packet(number).is_none_or(|p| p.state != State::Lost)
        {
            self.lost.pop_front();
        }
        if outcome.packets > 0 {
            self.probes = 0;
            if let Some(sent_at) = newest_sent_at {
                self.rtt.sample(now - sent_at, held);
            }
            self.grow(outcome.packets);
        }
        outcome.lost = self.find_lost();
        outcome
    }

    fn ack_one(&mut self, number: u64, outcome: &mut Acked, newest_sent_at: &mut Option<Instant>) {
        let Some(packet) = self.packet_mut(number) else { return };
        if packet.state == State::Acked {
            return;
        }
        let was_flying = packet.state == State::Flying;
        packet.state = State::Acked;
        // Karn's rule: a packet sent twice does not say which one was acknowledged.
        if !packet.retransmitted {
            *newest_sent_at = Some(packet.sent_at).max(*newest_sent_at);
        }
        let transmission = packet.transmission;
        self.newest_acked = self.newest_acked.max(transmission);
        self.flying -= u32::from(was_flying);
        outcome.packets += 1;
    }

    /// Slow start, then additive increase for each window acknowledged (RFC 5681).
    fn grow(&mut self, acked: u32) {
        if self.slow_start {
            self.cwnd = (self.cwnd + acked).min(self.cwnd_max);
            return;
        }
        self.acked_since_growth += acked;
        if self.acked_since_growth >= self.cwnd {
            self.acked_since_growth = 0;
            self.cwnd = (self.cwnd + CWND_MIN).min(self.cwnd_max);
        }
    }

    fn find_lost(&mut self) -> u32 {
        let limit = self.newest_acked.saturating_sub(REORDER_THRESHOLD - 1);
        let mut found = 0;
        let mut cut = false;
        // When the front packet is young and went out once, all behind it are younger.
        for (i, packet) in self.packets.iter_mut().enumerate() {
            if packet.state == State::Flying && packet.transmission < limit {
                packet.state = State::Lost;
                let number = self.base + i as u64;
                self.lost.push_back(number);
                self.flying -= 1;
                found += 1;
                cut |= number >= self.recovery_end;
            } else if i == 0 && !packet.retransmitted {
                break;
            }
        }
        if cut {
            // Once per window, however many packets of it are lost (RFC 6582).
            self.recovery_end = self.next();
            self.slow_start = false;
            self.cwnd = (self.cwnd / 2).max(CWND_MIN);
        }
        found
    }

    /// When the lane wants to probe.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        if self.packets.is_empty() {
            return None;
        }
        Some(self.last_sent_at + self.rtt.probe_timeout(self.probes))
    }

    /// The probe timeout has passed: the oldest unacknowledged packet shall go
    /// again, as the acknowledgement that it draws tells about all the others.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        self.probes = self.probes.saturating_add(1);
        // Nothing may be in the way of a probe: without it no acknowledgement
        // would come that makes room (RFC 9002, section 7.5).
        self.probe_due = true;
        self.last_sent_at = now;
        let base = self.base;
        let Some(front) = self.packets.front_mut() else { return };
        if front.state == State::Flying {
            front.state = State::Lost;
            self.flying -= 1;
            self.lost.push_front(base);
        }
    }

    /// Forgets everything in flight.
    pub(crate) fn abandon(&mut self, mut dropped: impl FnMut(T)) {
        self.base = self.next();
        self.flying = 0;
        self.lost.clear();
        for packet in self.packets.drain(..) {
            dropped(packet.payload);
        }
    }
}

#[cfg(test)]
mod tests;
