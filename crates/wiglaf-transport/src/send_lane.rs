//! The sending half of a lane: what is in flight, what is lost, how much more
//! may go (docs/protocol.md, section 4; RFC 8985 and RFC 9002 for the method).

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::congestion::{Congestion, Control};
use crate::limits::{BULK_WINDOW, FRAME_LEN_MIN, REORDER_THRESHOLD, STUCK_PROBES, WINDOW_TRAINS};
use crate::queue::{from_the_front, release};
use crate::rtt::{Held, Rtt};
use crate::sequence::expand_number;

use crate::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Flying,
    Lost,
    Acked,
}

#[derive(Debug, Clone)]
struct Packet<T> {
    payload: T,
    /// When it was sent last.
    sent_at: Instant,
    /// Which transmission of the lane sent it last.
    transmission: u64,
    retransmitted: bool,
    state: State,
}

/// Unacknowledged packets of one lane, each with what is needed to send it again.
#[derive(Debug, Clone)]
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
    congestion: Congestion,
    /// Most that may be unacknowledged.
    window: u32,
    /// The round that is judged ends with this packet.
    round_end: u64,
    /// The congestion window has kept packets from going in this round.
    was_full: bool,
    /// A window below one packet sends nothing before.
    paced_until: Option<Instant>,
    /// Losses of packets below this number have been answered already.
    recovery_end: u64,
    probes: u32,
    /// The answer to a probe was taken for another's, and there was no sample since.
    doubted: bool,
    /// When the peer said that it had dropped what it does not acknowledge; zero: it has not, or all of
    /// that has been dealt with.
    overrun_at: Instant,
    /// The packet that was probed for and is not acknowledged, and when it was sent before that.
    probed: Option<(u64, Instant)>,
    /// A probe is due, whatever the congestion window says.
    probe_due: bool,
    /// When something was sent last, or the peer was heard to have got something.
    progress_at: Instant,
}

/// What an acknowledgement changed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Packets newly acknowledged.
    packets: u32,
    /// Packets newly found lost.
    lost: u32,
}

impl Acked {
    /// Whether any packet is newly acknowledged.
    pub(crate) fn is_any(self) -> bool {
        self.packets > 0
    }
}

/// What was sent last of what an acknowledgement covers.
#[derive(Debug, Default)]
struct Newest {
    transmission: u64,
    /// When, if it was sent once.
    sent_once_at: Option<Instant>,
    /// The packet that was probed for, if it is among them.
    probed: Option<Probed>,
    /// A packet is among them that others had overtaken and that was sent again.
    was_lost: bool,
}

/// A packet that was probed for, and is acknowledged now.
#[derive(Debug)]
struct Probed {
    first_sent_at: Instant,
    sent_at: Instant,
    transmission: u64,
    /// No answer to the probe comes so soon.
    is_too_early: bool,
}

impl<T> SendLane<T> {
    /// A lane of at most `window` unacknowledged packets, with or without congestion control.
    pub(crate) const fn new(window: u64, control: Control) -> Self {
        let window = window as u32;
        Self {
            base: 0,
            packets: VecDeque::new(),
            flying: 0,
            lost: VecDeque::new(),
            transmissions: 0,
            newest_acked: 0,
            congestion: Congestion::new(window, control),
            window,
            round_end: 0,
            was_full: false,
            paced_until: None,
            recovery_end: 0,
            probes: 0,
            doubted: false,
            overrun_at: Instant::ZERO,
            probed: None,
            probe_due: false,
            progress_at: Instant::ZERO,
        }
    }

    /// Numbers begin there; nothing has been sent.
    pub(crate) fn begin_at(&mut self, number: u64) {
        (self.base, self.round_end, self.recovery_end) = (number, number, number);
    }

    /// Number of the oldest packet that is not acknowledged.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Number that the next new packet will get.
    pub(crate) fn next(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    /// Whether everything sent has been acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.packets.is_empty()
    }

    /// When something was sent last, or the peer was heard to have got something.
    pub(crate) fn progress_at(&self) -> Instant {
        self.progress_at
    }

    /// Packets in flight, lost ones not counted.
    pub(crate) fn flying(&self) -> u32 {
        self.flying
    }

    /// How many more packets may be sent now.
    pub(crate) fn room(&self) -> u32 {
        self.congestion_room().min(self.window.saturating_sub(self.packets.len() as u32))
    }

    /// How many packets may go at once: one train must not be all that is under way, else the wire is
    /// empty until its acknowledgement is back (Linux: tcp_tso_win_divisor).
    pub(crate) fn train_max(&self) -> usize {
        (self.congestion.packets() / WINDOW_TRAINS).max(1) as usize
    }

    fn congestion_room(&self) -> u32 {
        if self.paced_until.is_some() {
            return 0;
        }
        self.congestion.packets().saturating_sub(self.flying)
    }

    /// Whether a lost packet may be sent again now.
    pub(crate) fn has_lost(&self) -> bool {
        !self.lost.is_empty() && (self.congestion_room() > 0 || self.probe_due)
    }

    /// Notes that a packet goes out.
    fn note_sent(&mut self, now: Instant, rtt: &Rtt) {
        self.transmissions += 1;
        self.flying += 1;
        self.progress_at = now;
        self.was_full |= self.flying >= self.congestion.packets();
        self.paced_until = self.congestion.pace(rtt.smoothed()).map(|wait| now + wait);
    }

    /// Puts a new packet in flight and returns its number.
    pub(crate) fn push(&mut self, now: Instant, rtt: &Rtt, payload: T) -> u64 {
        let number = self.next();
        self.note_sent(now, rtt);
        self.packets.push_back(Packet {
            payload,
            sent_at: now,
            transmission: self.transmissions,
            retransmitted: false,
            state: State::Flying,
        });
        number
    }

    /// How many lost packets may be sent again now, about.
    pub(crate) fn lost_count(&self) -> usize {
        self.lost.len().min(self.congestion_room() as usize)
    }

    /// Puts the next lost packet in flight again, if it `fits`.
    pub(crate) fn resend_lost(
        &mut self,
        now: Instant,
        rtt: &Rtt,
        fits: impl Fn(&T) -> bool,
    ) -> Option<(u64, &T)> {
        if !self.has_lost() || !self.packet(*self.lost.front()?).is_some_and(|p| fits(&p.payload)) {
            return None;
        }
        let number = self.lost.pop_front()?;
        self.forget_found();
        self.probe_due = false;
        self.note_sent(now, rtt);
        let transmission = self.transmissions;
        let packet = self.packet_mut(number)?;
        packet.state = State::Flying;
        packet.retransmitted = true;
        packet.sent_at = now;
        packet.transmission = transmission;
        Some((number, &packet.payload))
    }

    /// What was thought lost and is acknowledged after all need not go again: the front of `lost` is
    /// always a packet that is.
    fn forget_found(&mut self) {
        while let Some(&number) = self.lost.front()
            && self.packet(number).is_none_or(|p| p.state != State::Lost)
        {
            self.lost.pop_front();
        }
    }

    /// Whether a packet whose number travelled as `low` was sent and is not acknowledged.
    pub(crate) fn awaits(&self, low: u64) -> bool {
        let number = expand_number(low, self.base);
        self.packet(number).is_some_and(|packet| packet.state != State::Acked)
    }

    fn packet(&self, number: u64) -> Option<&Packet<T>> {
        self.packets.get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    fn packet_mut(&mut self, number: u64) -> Option<&mut Packet<T>> {
        self.packets.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    /// Takes an acknowledgement of everything below `cumulative` and of the
    /// packets that `bitmap` names; `held` says how long the newest of them and
    /// it waited in the endpoints. What speaks of packets never sent is ignored.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        cumulative: u64,
        bitmap: impl Iterator<Item = u64>,
        held: Held,
        rtt: &mut Rtt,
        mut acked: impl FnMut(T),
    ) -> Acked {
        let mut outcome = Acked::default();
        if cumulative > self.next() {
            return outcome;
        }
        let mut newest = Newest::default();
        for number in self.base..cumulative {
            self.ack_one(number, now, rtt, &mut outcome, &mut newest);
        }
        for (j, mut word) in bitmap.enumerate() {
            while word != 0 {
                let i = u64::from(word.trailing_zeros());
                word &= word - 1;
                let number = cumulative + 1 + 64 * j as u64 + i;
                self.ack_one(number, now, rtt, &mut outcome, &mut newest);
            }
        }
        // In order: a message of several packets is delivered when its last one leaves here.
        while let Some(packet) = self.packets.pop_front_if(|p| p.state == State::Acked) {
            self.base += 1;
            acked(packet.payload);
        }
        from_the_front(&mut self.packets);
        self.forget_found();
        if outcome.packets > 0 {
            self.progress_at = self.progress_at.max(now);
            if let Some(probed) = newest.probed.take() {
                self.judge_probe(now, &probed, held, rtt, &mut newest);
            }
            if let Some(sent_at) = newest.sent_once_at {
                // Not earlier: where each packet is probed too soon, no sample would ever
                // come that says so (Karn's algorithm; RFC 6298, section 5).
                self.probes = 0;
                self.doubted = false;
                self.sample(now, now - sent_at, held, rtt);
            } else if newest.was_lost {
                // Nobody probed for it: an answer to what was sent again, not too soon. Else a sender that
                // has nothing but losses to send again would wait twice as long for each last one.
                self.probes = 0;
            }
            self.congestion.on_acked(outcome.packets, self.was_full);
            if self.base >= self.round_end {
                self.end_round(rtt);
            }
            if !self.congestion.is_paced() {
                self.paced_until = None;
            }
        }
        outcome.lost = self.find_lost();
        outcome
    }

    /// Judges whether it was the probe that is acknowledged, or what was sent before.
    fn judge_probe(
        &mut self,
        now: Instant,
        probed: &Probed,
        held: Held,
        rtt: &mut Rtt,
        newest: &mut Newest,
    ) {
        self.probed = None;
        // Little overtakes on the way: the probe is behind them. But if all were lost, each probe would
        // bring back only one.
        //= docs/protocol.md#4-acknowledgement
        //# An acknowledgement of a packet that was probed for MUST be taken for that of its first transmission while others that went before the probe are on their way, but not again until there was a sample of the round trip.
        let is_on_its_way =
            |p: &Packet<T>| p.state == State::Flying && p.transmission < probed.transmission;
        let is_doubted = !self.doubted && self.packets.iter().any(is_on_its_way);
        self.doubted = is_doubted;
        // Alone it may be the probe's answer after all, and the time until the probe no one's.
        let is_known = !is_doubted || newest.transmission > 0;
        if is_known {
            let was_late = is_doubted || held == Held::CameTwice;
            rtt.probe_answered(now - probed.first_sent_at, now - probed.sent_at, was_late);
        }
        if is_doubted {
            return;
        }
        if !probed.is_too_early {
            self.newest_acked = self.newest_acked.max(probed.transmission);
        }
        if probed.transmission >= newest.transmission {
            newest.sent_once_at = None;
        }
    }

    /// Takes the round trip of a packet.
    fn sample(&mut self, now: Instant, raw: Duration, held: Held, rtt: &mut Rtt) {
        match held {
            Held::For(waited) => {
                rtt.sample(now, raw, waited.in_all());
                //= docs/protocol.md#41-congestion
                //# A sender MUST NOT take for congestion what packets and acknowledgements may have waited in endpoints.
                self.congestion.on_absence(waited.there.max(waited.here));
                if waited.is_exact && waited.is_clocked {
                    self.congestion.on_delay(raw.saturating_sub(waited.in_all()));
                }
            }
            //= docs/protocol.md#41-congestion
            //# An ack delay of 65,533 us MUST NOT give a sample of the way or of its queues: it may have been longer.
            Held::Long => {
                rtt.sample(now, raw, raw);
                self.congestion.on_absence(raw);
            }
            Held::CameTwice | Held::Unknown => {}
        }
    }

    fn end_round(&mut self, rtt: &Rtt) {
        self.congestion.on_round(self.was_full, rtt.way_ns());
        self.was_full = false;
        self.round_end = self.next() + 1;
    }

    fn ack_one(
        &mut self,
        number: u64,
        now: Instant,
        rtt: &Rtt,
        outcome: &mut Acked,
        newest: &mut Newest,
    ) {
        let probes = self.probes;
        let Some(packet) = self.packet_mut(number) else { return };
        if packet.state == State::Acked {
            return;
        }
        let was_flying = packet.state == State::Flying;
        packet.state = State::Acked;
        // Too early for an answer to what was sent again, it answers what was sent first,
        // and says nothing about what went in between (RFC 8985, section 6.2, step 2). Too
        // early is sooner than the shortest way ever seen: by the smoothed round trip, one late
        // answer would make the next ones look as late.
        // But a sender that came when the queue was full takes that for the way, and doubts every
        // answer. After a second probe it believes: else each brought back one packet only.
        let way = Duration::from_nanos(u64::from(rtt.way_ns()));
        let is_doubted = packet.retransmitted && probes < 2;
        let is_of_first = is_doubted && now - packet.sent_at < way * 3 / 4;
        // A packet sent twice does not say which one was acknowledged (Karn's rule). Nor do those
        // that were sent before it: their acknowledgements may have been lost, and this one
        // called for by the probe. Samples of them would grow with the probe timeout, and it
        // with them.
        let (transmission, sent_at) = (packet.transmission, packet.sent_at);
        let sent_once_at = (!packet.retransmitted).then_some(sent_at);
        if let Some((probed, first_sent_at)) = self.probed
            && probed == number
            && sent_once_at.is_none()
        {
            let is_too_early = is_of_first;
            newest.probed = Some(Probed { first_sent_at, sent_at, transmission, is_too_early });
        } else {
            if transmission >= newest.transmission {
                (newest.transmission, newest.sent_once_at) = (transmission, sent_once_at);
            }
            if !is_of_first {
                self.newest_acked = self.newest_acked.max(transmission);
                newest.was_lost |= was_flying && sent_once_at.is_none();
            }
        }
        self.flying -= u32::from(was_flying);
        outcome.packets += 1;
    }

    fn find_lost(&mut self) -> u32 {
        let limit = self.newest_acked.saturating_sub(REORDER_THRESHOLD - 1);
        self.lose(|packet| packet.transmission < limit)
    }

    /// Takes those packets for lost that `is_lost` picks; answers how many.
    fn lose(&mut self, is_lost: impl Fn(&Packet<T>) -> bool) -> u32 {
        let mut found = 0;
        let mut cut = false;
        // When the front packet is under way for the first time, all behind it are younger. One that
        // waits to be sent again says nothing of them.
        for (i, packet) in self.packets.iter_mut().enumerate() {
            if packet.state == State::Flying && is_lost(packet) {
                packet.state = State::Lost;
                let number = self.base + i as u64;
                self.lost.push_back(number);
                self.flying -= 1;
                found += 1;
                cut |= number >= self.recovery_end;
            } else if i == 0 && packet.state == State::Flying && !packet.retransmitted {
                break;
            }
        }
        if cut {
            // Once per window, however many packets of it are lost (RFC 6582).
            self.recovery_end = self.next();
            self.congestion.on_loss();
        }
        found
    }

    /// When the lane wants attention: to send at its pace, to take a late
    /// packet for lost, or to probe.
    pub(crate) fn timeout(&self, rtt: &Rtt) -> Option<Instant> {
        if self.packets.is_empty() {
            return self.paced_until;
        }
        let at = match self.oldest_overtaken() {
            Some(packet) => packet.sent_at + rtt.reordering_timeout(),
            None => self.progress_at + rtt.probe_timeout(self.probes),
        };
        let at = self.overrun_timeout(rtt).map_or(at, |overrun| overrun.min(at));
        Some(self.paced_until.map_or(at, |paced| paced.min(at)))
    }

    /// Of the packets under way that others have overtaken the one that was sent first. It need not be
    /// the front: that may wait to be sent again, for the room that this one takes.
    fn oldest_overtaken(&self) -> Option<&Packet<T>> {
        let front = self.packets.front()?;
        // When the front is under way for the first time, all behind it are younger.
        if front.state == State::Flying && !front.retransmitted {
            return self.is_overtaken(front).then_some(front);
        }
        let overtaken = self.packets.iter().filter(|packet| self.is_overtaken(packet));
        overtaken.min_by_key(|packet| packet.sent_at)
    }

    /// Whether a packet that was sent later has arrived.
    fn is_overtaken(&self, packet: &Packet<T>) -> bool {
        packet.state == State::Flying && packet.transmission < self.newest_acked
    }

    /// The timeout has passed. True when it was a probe's: the oldest unacknowledged
    /// packet shall go again, as the acknowledgement that it draws tells about all the others.
    pub(crate) fn on_timeout(&mut self, now: Instant, rtt: &Rtt) -> bool {
        self.paced_until = self.paced_until.filter(|at| *at > now);
        if self.overrun_timeout(rtt).is_some_and(|at| at <= now) {
            let said_at = std::mem::replace(&mut self.overrun_at, Instant::ZERO);
            self.lose_dropped(now, said_at);
            return false;
        }
        let Some(front) = self.packets.front() else { return false };
        if let Some(packet) = self.oldest_overtaken() {
            if packet.sent_at + rtt.reordering_timeout() <= now {
                self.lose_late(now, rtt);
            }
            return false;
        }
        if self.progress_at + rtt.probe_timeout(self.probes) > now {
            return false;
        }
        self.probes = self.probes.saturating_add(1);
        // Nothing may be in the way of a probe: without it no acknowledgement
        // would come that makes room (RFC 9002, section 7.5).
        self.probe_due = true;
        self.progress_at = now;
        let base = self.base;
        if self.probed.is_none_or(|(number, _)| number != base) {
            self.probed = Some((base, front.sent_at));
        }
        if let Some(front) = self.packets.front_mut()
            && front.state == State::Flying
        {
            front.state = State::Lost;
            self.flying -= 1;
            self.lost.push_front(base);
        }
        true
    }

    /// Takes all packets for lost that others have overtaken long enough ago.
    fn lose_late(&mut self, now: Instant, rtt: &Rtt) {
        let (limit, late) = (self.newest_acked, rtt.reordering_timeout());
        self.lose(|packet| packet.transmission < limit && packet.sent_at + late <= now);
    }

    /// The peer has dropped frames for want of room, and said so at `said_at`.
    pub(crate) fn on_overrun(&mut self, now: Instant, said_at: Instant, rtt: &Rtt) {
        let way = rtt.arrival_timeout();
        self.lose_dropped(now, said_at.before(way));
        // What had gone before, but might not have been there yet, is acknowledged by then, or was dropped.
        let is_left = |p: &Packet<T>| p.state == State::Flying && p.sent_at <= said_at;
        self.overrun_at = if self.packets.iter().any(is_left) { said_at } else { Instant::ZERO };
    }

    /// Takes for lost what went until `sent_until` and is not acknowledged: the peer had no room for it.
    fn lose_dropped(&mut self, now: Instant, sent_until: Instant) {
        //= docs/protocol.md#4-acknowledgement
        //# A sender MUST take for lost what an ACK record with the delay 65,532 us does not acknowledge and that went before it, when a round trip has passed.
        let is_old = |packet: &Packet<T>| packet.sent_at <= sent_until;
        let was_lost = |p: &Packet<T>| p.state == State::Flying && p.retransmitted && is_old(p);
        let lost_again = self.packets.iter().any(was_lost);
        let recovery_end = self.recovery_end;
        if self.lose(is_old) == 0 {
            return;
        }
        if lost_again && self.recovery_end == recovery_end {
            self.congestion.on_loss(); // who is overrun again and again is sent less each time
        }
        // It listens again.
        (self.probes, self.probed, self.doubted) = (0, None, false);
        self.progress_at = self.progress_at.max(now);
    }

    /// When what the peer may have dropped has been acknowledged, or was.
    fn overrun_timeout(&self, rtt: &Rtt) -> Option<Instant> {
        (self.overrun_at != Instant::ZERO).then(|| self.overrun_at + rtt.arrival_timeout())
    }

    /// Whether it has probed in vain for long.
    pub(crate) fn is_stuck(&self) -> bool {
        self.probes >= STUCK_PROBES && !self.is_idle()
    }

    /// Whether the packet that may be sent again now is the oldest that is not acknowledged.
    pub(crate) fn has_lost_oldest(&self) -> bool {
        self.has_lost() && self.lost.front() == Some(&self.base)
    }

    /// Lets the oldest packet go before all others that are lost.
    pub(crate) fn let_oldest_go_first(&mut self) {
        let is_lost = self.packets.front().is_some_and(|packet| packet.state == State::Lost);
        if is_lost && self.lost.front() != Some(&self.base) {
            self.lost.retain(|number| *number != self.base);
            self.lost.push_front(self.base);
        }
    }

    /// Takes all that is not acknowledged for lost, from the oldest on: it was too long for the path, which is
    /// no congestion.
    pub(crate) fn lose_all(&mut self) {
        self.lost.clear();
        for (i, packet) in self.packets.iter_mut().enumerate() {
            if packet.state != State::Acked {
                packet.state = State::Lost;
                self.lost.push_back(self.base + i as u64);
            }
        }
        self.recovery_end = self.next();
        (self.flying, self.probes, self.probed) = (0, 0, None);
        (self.doubted, self.overrun_at) = (false, Instant::ZERO);
    }

    /// Queues and losses take the window below one packet: then each send sets a time for the next one.
    #[cfg(test)]
    pub(crate) fn slow_down(&mut self) {
        self.congestion.on_round(true, 0);
        self.congestion.on_delay(Duration::from_millis(5));
        self.congestion.on_round(true, 0);
        (0..64).for_each(|_| self.congestion.on_loss());
    }

    /// Packets are at most so many bytes long from now on.
    pub(crate) fn set_packet_len(&mut self, len_max: usize) {
        self.congestion.set_packet_len(len_max);
    }

    /// Gives back the memory of packets that are no longer in flight.
    pub(crate) fn rest(&mut self) {
        release(&mut self.packets);
        release(&mut self.lost);
    }

    /// Forgets everything in flight, and what it made the lane wait for.
    pub(crate) fn abandon(&mut self, mut dropped: impl FnMut(T)) {
        self.base = self.next();
        self.flying = 0;
        self.lost.clear();
        self.paced_until = None;
        self.probe_due = false;
        self.probed = None;
        for packet in self.packets.drain(..) {
            dropped(packet.payload);
        }
    }
}

/// A bulk lane that takes memory only once it is used: most peers never are sent
/// a long message.
#[derive(Debug, Clone)]
pub(crate) struct BulkLane<T: 'static> {
    lane: Option<Box<SendLane<T>>>,
    control: Control,
}

impl<T> BulkLane<T> {
    pub(crate) fn new(control: Control) -> Self {
        Self { lane: None, control }
    }

    /// Packets are at most so many bytes long from now on.
    pub(crate) fn set_packet_len(&mut self, len_max: usize) {
        self.control.packet_len_max = len_max;
        if let Some(lane) = &mut self.lane {
            lane.set_packet_len(len_max);
        }
    }

    /// Gives back the memory of packets that are no longer in flight.
    pub(crate) fn rest(&mut self) {
        if let Some(lane) = &mut self.lane {
            lane.rest();
        }
    }
}

impl<T> BulkLane<T> {
    const UNUSED: &'static SendLane<T> =
        &SendLane::new(BULK_WINDOW, Control { packet_len_max: FRAME_LEN_MIN, is_on: true });
}

impl<T> Deref for BulkLane<T> {
    type Target = SendLane<T>;

    fn deref(&self) -> &SendLane<T> {
        self.lane.as_deref().unwrap_or(Self::UNUSED)
    }
}

impl<T> DerefMut for BulkLane<T> {
    fn deref_mut(&mut self) -> &mut SendLane<T> {
        let control = self.control;
        self.lane.get_or_insert_with(|| Box::new(SendLane::new(BULK_WINDOW, control)))
    }
}

#[cfg(test)]
mod tests;
