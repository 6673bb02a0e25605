//! Whose turn it is: sessions that have something to send, and the timers of all in one heap, kept lazily: an entry
//! may be early, never late, so that a message exchange does not touch the heap.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use crate::limits::ACK_DELAY_MAX;
use crate::time::Instant;

/// A session's entry in the heap; the earliest is on top.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Timer {
    at: Instant,
    index: u32,
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at).then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What a session knows of its place in the schedule.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn {
    in_ready: bool,
    /// It is in the list of those whose last body waits, or did.
    in_lingering: bool,
    /// The link has no room for it.
    is_held: bool,
    /// Earliest entry of this session in the timer heap.
    timer_queued_at: Option<Instant>,
}

impl Turn {
    /// The link has no room for it; nor does it take a turn until there is ([`Turn::release`]).
    pub(crate) fn hold(&mut self) {
        self.is_held = true;
    }

    pub(crate) fn release(&mut self) {
        self.is_held = false;
    }

    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    /// It had its turn, and nothing to send.
    pub(crate) fn leave(&mut self) {
        self.in_ready = false;
    }

    /// It is no longer among those whose last body waits.
    #[inline]
    pub(crate) fn end_lingering(&mut self) {
        self.in_lingering = false;
    }

    /// Whether a look at its deadlines may make them earlier, after an arrival at `now`, which makes none earlier than
    /// the shortest delay from now: for a GSO batch that is one comparison each datagram.
    pub(crate) fn may_be_sooner(&self, now: Instant) -> bool {
        let soon = now + ACK_DELAY_MAX;
        self.timer_queued_at.is_none_or(|queued| queued > soon)
    }

    /// Its timer of that time has run out: false if an earlier one has taken its place.
    pub(crate) fn takes_timer(&mut self, at: Instant) -> bool {
        let is_it = self.timer_queued_at == Some(at);
        if is_it {
            self.timer_queued_at = None;
        }
        is_it
    }
}

/// Sessions by index, in the order of their turns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schedule {
    /// Those that have something to send.
    ready: VecDeque<u32>,
    /// Those whose last body may wait for more messages.
    lingering: Vec<u32>,
    timers: BinaryHeap<Timer>,
}

impl Schedule {
    /// Whether there may be something to send.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty() || !self.lingering.is_empty()
    }

    /// Puts a session in the line of those with something to send.
    #[inline]
    pub(crate) fn wake(&mut self, index: u32, turn: &mut Turn) {
        // One that is held is woken by its release.
        if !turn.in_ready && !turn.is_held {
            turn.in_ready = true;
            self.ready.push_back(index);
        }
    }

    /// Whose turn it is.
    pub(crate) fn next(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    /// To the end of the line: every peer gets its turn.
    pub(crate) fn go_on(&mut self, index: u32) {
        self.ready.push_back(index);
    }

    /// A session's last body may wait for more messages.
    pub(crate) fn linger(&mut self, index: u32, turn: &mut Turn) {
        if !turn.in_lingering {
            turn.in_lingering = true;
            self.lingering.push(index);
        }
    }

    /// The next of those whose last body may wait.
    #[inline]
    pub(crate) fn next_lingering(&mut self) -> Option<u32> {
        self.lingering.pop()
    }

    /// Makes sure that the heap wakes a session in time.
    pub(crate) fn set(&mut self, index: u32, turn: &mut Turn, at: Instant) {
        if turn.timer_queued_at.is_none_or(|queued| at < queued) {
            turn.timer_queued_at = Some(at);
            self.timers.push(Timer { at, index });
        }
    }

    /// When the first timer runs out.
    pub(crate) fn first_at(&self) -> Option<Instant> {
        self.timers.peek().map(|timer| timer.at)
    }

    /// The next timer that has run out, and whose it is.
    pub(crate) fn expired(&mut self, now: Instant) -> Option<(Instant, u32)> {
        let timer = self.timers.peek().filter(|timer| timer.at <= now)?;
        let (at, index) = (timer.at, timer.index);
        self.timers.pop();
        Some((at, index))
    }
}
