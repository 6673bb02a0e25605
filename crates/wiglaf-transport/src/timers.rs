//! Timers of all sessions in one heap, kept lazily: an entry may be early,
//! never late, so that a message exchange does not touch the heap.

use std::cmp::Ordering;

use crate::limits::{ACK_DELAY_MAX, SILENCE_CHECK};
use crate::session::{Body, State};
use crate::time::Instant;
use crate::transport::Transport;
use crate::{Gone, Sink};

/// A session's entry in the heap; the earliest is on top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timer {
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

impl Transport {
    /// Makes sure that the heap wakes the session in time.
    pub(crate) fn schedule(&mut self, index: u32) {
        let session = &self.sessions[index as usize];
        let silence = session.awaits().then(|| session.heard_at + SILENCE_CHECK);
        if let Some(at) = session.deadline().or(silence) {
            self.schedule_at(index, at);
        }
    }

    fn schedule_at(&mut self, index: u32, at: Instant) {
        let session = &mut self.sessions[index as usize];
        if session.timer_queued_at.is_none_or(|queued| at < queued) {
            session.timer_queued_at = Some(at);
            self.timers.push(Timer { at, index });
        }
    }

    /// Makes sure that the heap wakes the session in time after an arrival at `now`, which makes no deadline earlier
    /// than the shortest delay from now: for a GSO batch that is one comparison each datagram.
    pub(crate) fn schedule_from(&mut self, index: u32, now: Instant) {
        let soon = now + ACK_DELAY_MAX;
        if self.sessions[index as usize].timer_queued_at.is_none_or(|queued| queued > soon) {
            self.schedule(index);
        }
    }

    /// When to call [`Transport::handle_timeout`] at the latest, and [`Transport::tell_of_overrun`] if that is
    /// owed.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timer = self.timers.peek().map(|timer| timer.at);
        match self.overrun_due_at() {
            Some(due) => Some(timer.map_or(due, |at| at.min(due))),
            None => timer,
        }
    }

    /// Acts on every deadline that has passed.
    pub fn handle_timeout(&mut self, now: Instant, sink: &mut dyn Sink) {
        while self.timers.peek().is_some_and(|timer| timer.at <= now) {
            let Some(Timer { at, index }) = self.timers.pop() else { return };
            let session = &mut self.sessions[index as usize];
            if session.timer_queued_at != Some(at) {
                continue; // an earlier entry has taken its place
            }
            session.timer_queued_at = None;
            // Who finds his own timer so late was stopped, and heard nobody meanwhile.
            let late = now.since(at);
            if late >= SILENCE_CHECK {
                session.heard_at = now.min(session.heard_at + late);
                session.one_way.note_absence(now);
            }
            match session.state {
                State::Open => self.expire(index, now, sink),
                State::Closed if session.ordered_debt.expire(now) => self.wake(index),
                State::Closed | State::Gone => {}
            }
            let session = &mut self.sessions[index as usize];
            // What nobody acts upon once the session has ended would be due for ever.
            let deadline = match session.state {
                State::Open => session.deadline(),
                State::Closed => session.ordered_debt.due_at,
                State::Gone => None,
            };
            if let Some(at) = deadline {
                self.schedule_at(index, at);
            } else if session.awaits() {
                self.schedule_at(index, now + SILENCE_CHECK);
            } else {
                session.rest();
            }
        }
    }

    fn expire(&mut self, index: u32, now: Instant, sink: &mut dyn Sink) {
        let session = &mut self.sessions[index as usize];
        let mut wake =
            session.ordered_debt.expire(now) | (session.uses_bulk && session.bulk_debt.expire(now));
        let is_silent = now.since(session.heard_at) >= SILENCE_CHECK;
        if is_silent && session.awaits() && session.is_drained() {
            //= docs/protocol.md#8-ending
            //# An endpoint that awaits bytes, a grant or an answer of a peer, and no acknowledgement, MUST send it an empty ordered datagram when it was silent for 1 s.
            session.queue.push_back(Body::default());
            wake = true;
        }
        let mut probes = 0;
        if session.ordered.timeout(&session.rtt).is_some_and(|at| at <= now) {
            probes += u64::from(session.ordered.on_timeout(now, &session.rtt));
            wake = true;
        }
        if session.uses_bulk && session.bulk.timeout(&session.rtt).is_some_and(|at| at <= now) {
            probes += u64::from(session.bulk.on_timeout(now, &session.rtt));
            wake = true;
        }
        // What its link never has room for is not even probed.
        let is_due = probes > 0 || session.is_held && session.awaits();
        if is_due && now.since(session.heard_at) > self.config.silence_limit {
            self.fail(index, Gone::Silent, sink);
            return;
        }
        if probes > 0 && self.sessions[index as usize].one_way.is_blocked(now) {
            //= docs/protocol.md#8-ending
            //# An endpoint MUST give up a peer that it hears again and again and that has acknowledged nothing of the session for 30 s.
            return self.fail(index, Gone::Blocked, sink);
        }
        self.stats.probes += probes;
        if wake {
            self.wake(index);
        }
        if probes > 0 && self.sessions[index as usize].is_stuck() {
            self.check_way(index, now);
        }
        if self.sessions[index as usize].trials.is_some() {
            self.judge_try(index, now, sink);
        }
    }
}
