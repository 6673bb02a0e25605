//! The receiving half of a lane: which packets have come, and what is owed to their sender in acknowledgements
//! (docs/protocol.md, section 4).

use wiglaf_wire::{Ack, BITMAP_WORDS_MAX, DELAY_LONG, DELAY_OVERRUN, DELAY_TWICE, DELAY_UNKNOWN};

use crate::limits::ACK_DELAY_MAX;
use crate::receive_window::{Arrival, ReceiveWindow};
use crate::returns::micros;
use crate::sequence::expand_number;
use crate::time::Instant;

/// What has come on one lane, and what is owed for it.
#[derive(Debug, Default, Clone)]
pub(crate) struct ReceiveLane {
    window: ReceiveWindow,
    /// Packets that arrived since the last acknowledgement.
    packets: u32,
    /// One of those came a second time.
    twice: bool,
    /// An acknowledgement is to be sent by itself when nothing carries it before.
    due_at: Option<Instant>,
    /// To be sent at the next opportunity.
    now: bool,
    /// Frames were dropped for want of room.
    overrun: bool,
    /// When a duplicate called for an answer at once.
    repeated_at: Option<Instant>,
    /// When the newest packet came.
    newest_at: Instant,
    /// That is what the kernel says, not when it was found.
    is_exact: bool,
}

impl ReceiveLane {
    /// Numbers begin there; nothing has arrived.
    pub(crate) fn begin_at(&mut self, number: u64) {
        self.window.begin_at(number);
    }

    /// All packets below have arrived; this one has not.
    pub(crate) fn next(&self) -> u64 {
        self.window.next()
    }

    /// The packet whose number travelled as `low`, and what it is to this side, which keeps packets up to `reach`
    /// ahead.
    pub(crate) fn classify(&self, low: u64, reach: u64) -> (u64, Arrival) {
        let number = expand_number(low, self.window.next());
        (number, self.window.classify(number, reach))
    }

    /// A packet that was new is taken.
    pub(crate) fn take(&mut self, number: u64) {
        self.window.insert(number);
    }

    /// Notes that a packet has come, `at` that time if it is known; an acknowledgement waits for `every` of them at
    /// most.
    pub(crate) fn note(&mut self, now: Instant, at: Option<Instant>, arrival: Arrival, every: u32) {
        match arrival {
            Arrival::Settled => return,
            Arrival::Duplicate => return self.note_duplicate(now),
            Arrival::InOrder | Arrival::Ahead | Arrival::Beyond => {}
        }
        self.packets += 1;
        //= docs/protocol.md#41-congestion
        //# A receiver MUST count the ack delay from when its kernel got the newest packet, and from when it found that packet where the kernel does not say.
        self.newest_at = at.unwrap_or(now);
        //= docs/protocol.md#41-congestion
        //# A receiver MUST NOT say that an ack delay is exact unless its kernel has said when the newest packet came.
        self.is_exact = at.is_some();
        //= docs/protocol.md#4-acknowledgement
        //# A receiver MUST acknowledge at once a packet that is a duplicate or leaves a gap, but duplicates once in 50 us at most, and none that lies a window behind.
        if arrival != Arrival::InOrder || self.packets >= every {
            self.now = true;
        } else if self.due_at.is_none() {
            self.due_at = Some(now + ACK_DELAY_MAX);
        }
    }

    /// A peer that repeats has missed an acknowledgement, and waits for its probe timeout in
    /// between; who repeats faster is somebody else. What an acknowledgement says of the newest
    /// packet's delay stays as it is.
    pub(crate) fn note_duplicate(&mut self, now: Instant) {
        // Else it was acknowledged before: that is lost, or still under way.
        self.twice = self.packets > 0;
        if self.repeated_at.is_none_or(|at| now >= at + ACK_DELAY_MAX) {
            self.repeated_at = Some(now);
            self.now = true;
        } else if self.due_at.is_none() {
            self.due_at = Some(now + ACK_DELAY_MAX);
        }
    }

    /// An acknowledgement goes at the next opportunity.
    pub(crate) fn answer(&mut self) {
        self.now = true;
    }

    /// An acknowledgement goes at the next opportunity, and says that frames were dropped.
    pub(crate) fn answer_overrun(&mut self) {
        (self.now, self.overrun) = (true, true);
    }

    /// Whether an acknowledgement is to go at once.
    pub(crate) fn is_due(&self) -> bool {
        self.now
    }

    /// When one is to go by itself.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// Whether any packet is to be acknowledged.
    pub(crate) fn has_news(&self) -> bool {
        self.packets > 0
    }

    /// Whether anything is owed.
    pub(crate) fn owes(&self) -> bool {
        self.now || self.packets > 0 || self.due_at.is_some()
    }

    /// Turns a deadline that has passed into a debt to be paid at once.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        if self.due_at.is_some_and(|at| at <= now) {
            self.due_at = None;
            self.now = true;
        }
        self.now
    }

    /// How long the newest packet has waited here, as an acknowledgement says it, in microseconds.
    pub(crate) fn held_us(&self, now: Instant) -> u16 {
        //= docs/protocol.md#4-acknowledgement
        //# An acknowledgement that may have been told before MUST say that its delay is unknown, and MUST NOT give a sample of the round trip.
        if self.packets == 0 || self.overrun {
            return DELAY_UNKNOWN;
        }
        if self.twice {
            return DELAY_TWICE;
        }
        let us = u16::try_from((now - self.newest_at).as_micros()).ok();
        us.filter(|us| *us < DELAY_OVERRUN).unwrap_or(DELAY_LONG)
    }

    /// Whether an acknowledgement is owed that a header does not pay which acknowledges up to `count_max` packets.
    pub(crate) fn wants_record(&self, count_max: u32) -> bool {
        let owed = self.packets > 0 || self.now;
        let is_in_header = self.packets < count_max && !self.overrun && !self.window.has_gap();
        owed && !is_in_header
    }

    /// What a record of `lane` says now.
    pub(crate) fn ack<'a>(
        &self,
        lane: u8,
        now: Instant,
        bitmap: &'a mut [u8; 8 * BITMAP_WORDS_MAX],
    ) -> Ack<'a> {
        let len = self.window.bitmap(bitmap);
        let delay_us = if self.overrun { DELAY_OVERRUN } else { self.held_us(now) };
        Ack {
            lane,
            delay_us,
            is_exact: self.is_exact && delay_us < DELAY_OVERRUN,
            //= docs/protocol.md#41-congestion
            //# An ACK record MUST tell, as `sent at`, the low 32 bits of its sender's clock in microseconds.
            sent_at_us: micros(now),
            cumulative: self.window.next() as u32,
            bitmap: &bitmap[..len],
        }
    }

    /// What a header acknowledges, which goes now; what it does not say is still owed.
    #[inline]
    pub(crate) fn ack_by_header(&mut self) -> u32 {
        if !self.window.has_gap() && !self.overrun {
            self.settle();
        }
        self.window.next() as u32
    }

    /// All that was owed has been said, or nobody is to hear it any more.
    pub(crate) fn settle(&mut self) {
        self.packets = 0;
        self.twice = false;
        self.due_at = None;
        self.now = false;
        self.overrun = false;
    }

    /// An acknowledgement was tried; even one that did not fit is not tried again without news.
    pub(crate) fn was_tried(&mut self) {
        self.now = false;
    }

    /// Gives back the memory that only gaps need.
    pub(crate) fn rest(&mut self) {
        self.window.rest();
    }
}
