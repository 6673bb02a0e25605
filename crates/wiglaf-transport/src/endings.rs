//! How sessions end: what tells that a peer is gone, and what becomes of all that was under way
//! (docs/protocol.md, section 8).

use std::net::SocketAddrV4;
use std::time::Duration;

use wiglaf_wire::{Epoch, Kind, read_quoted};

use crate::limits::START_LIMIT;
use crate::session::State;
use crate::time::Instant;
use crate::transport::{PeerId, Transport};
use crate::{Gone, Sink};

/// What is known of a peer's silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// How long it was not heard, or has owed something without having been heard.
    pub lasts: Duration,
    /// It owes an acknowledgement or an answer.
    pub owes: bool,
    /// It has been heard at some time.
    pub was_heard: bool,
    /// Its epoch is known, so that it has begun.
    pub has_begun: bool,
}

impl Transport {
    /// The link found nobody at `at`; `quoted` is the front of the datagram that it is told of, or
    /// `None` if nobody else needs to be believed.
    pub fn handle_unreachable(
        &mut self,
        now: Instant,
        at: SocketAddrV4,
        quoted: Option<&[u8]>,
        sink: &mut dyn Sink,
    ) {
        let index = match quoted {
            None => self.by_address.get(&at).copied(),
            Some(front) => self.refused_by(at, front),
        };
        let Some(index) = index else {
            self.stats.drop_report += u64::from(quoted.is_some());
            return;
        };
        self.miss(now, index, sink);
    }

    /// A link knows by itself that the peer of that epoch has died.
    pub fn handle_death(&mut self, now: Instant, epoch: Epoch, sink: &mut dyn Sink) {
        if let Some(index) = self.by_epoch.get(&epoch).copied() {
            self.miss(now, index, sink);
        }
    }

    /// Nobody listens where that session's peer should.
    fn miss(&mut self, now: Instant, index: u32, sink: &mut dyn Sink) {
        let session = &self.sessions[index as usize];
        if session.state != State::Open || !session.used {
            return;
        }
        //= docs/protocol.md#8-ending
        //# An endpoint MUST NOT give up a peer that it never heard for want of a listener before 10 s have passed.
        if session.heard || now.since(session.heard_at) >= START_LIMIT {
            self.fail(index, Gone::Unreachable, sink);
        }
    }

    /// The session of a datagram that was refused at `at`, if it is still unanswered.
    fn refused_by(&self, at: SocketAddrV4, front: &[u8]) -> Option<u32> {
        let header = read_quoted(&self.config.key, self.encryption.is_some(), front)
            .filter(|header| header.source == self.config.epoch)?;
        let by_epoch = self.by_epoch.get(&header.destination);
        let index = by_epoch.or_else(|| self.by_address.get(&at)).copied()?;
        let session = &self.sessions[index as usize];
        //= docs/protocol.md#8-ending
        //# An endpoint MUST NOT believe a report of the network that does not quote an unacknowledged packet to that peer, with its proof unless it is encrypted.
        // A datagram whose port was damaged on its way is refused, too, and by the right host.
        let is_its_port = at.port() == session.at.port() || at.port() == session.bulk_port;
        let is_to_it =
            at.ip() == session.at.ip() && is_its_port && header.destination == session.epoch;
        let is_awaited = match header.kind {
            Kind::Ordered => session.ordered.awaits(header.sequence),
            Kind::Bulk => session.bulk.awaits(header.sequence),
            Kind::Control => false,
        };
        (is_to_it && is_awaited).then_some(index)
    }

    /// `peer` was found to be gone by other means.
    pub fn give_up(&mut self, peer: PeerId, why: Gone, sink: &mut dyn Sink) {
        if self.sessions.get(peer.0 as usize).is_some_and(|s| s.state == State::Open) {
            self.fail(peer.0, why, sink);
        }
    }

    /// How long a peer was not heard, or has owed something without having been heard; of one that nothing was
    /// exchanged with, since the clock began. `None`: it is gone.
    #[must_use]
    pub fn silence(&self, peer: PeerId, now: Instant) -> Option<Silence> {
        let session = self.sessions.get(peer.0 as usize)?;
        (session.state == State::Open).then(|| Silence {
            lasts: now.since(session.heard_at),
            owes: session.awaits() || !session.is_drained(),
            was_heard: session.heard,
            has_begun: session.epoch.is_known(),
        })
    }

    /// How long a peer was not heard when it was given up, or until now.
    #[must_use]
    pub fn silent_for(&self, peer: PeerId, now: Instant) -> Option<Duration> {
        Some(now.since(self.sessions.get(peer.0 as usize)?.heard_at))
    }

    /// Nothing goes over that path any more.
    pub fn give_up_path(&mut self, path: usize, sink: &mut dyn Sink) {
        for index in 0..self.sessions.len() as u32 {
            if self.sessions[index as usize].path == path {
                self.give_up(PeerId(index), Gone::Unreachable, sink);
            }
        }
    }

    /// Ends a session and every operation on it.
    pub(crate) fn fail(&mut self, index: u32, why: Gone, sink: &mut dyn Sink) {
        // Who says good-bye has acknowledged what it had: nothing else has been delivered.
        let orderly = why == Gone::Closed;
        let session = &mut self.sessions[index as usize];
        session.state = if orderly { State::Closed } else { State::Gone };
        session.ahead.clear();
        session.end_trials();
        for job in session.jobs.drain(..) {
            // The peer asked for bytes of it that have not left.
            if let Some(send) = self.sends.get_mut(job.send_id).filter(|send| send.granted > 0) {
                send.last = false;
            }
        }
        session.unasked = None;
        // Other peers may have what this one had. It keeps the limit that it was told.
        self.credit_growth -= u64::from(session.credit_growth);
        session.ordered_debt.clear();
        session.bulk_debt.clear();
        session.bulk.abandon(|_| {});
        let mut tokens = Vec::new();
        session.ordered.abandon(|body| tokens.extend(body.tokens));
        for body in session.queue.drain(..) {
            tokens.extend(body.tokens);
        }
        for token in tokens {
            sink.sent(token, false);
        }
        self.sessions[index as usize].pending_sends = 0;
        self.sessions[index as usize].answers = 0;
        self.sends.drain_where(|s| s.peer == index, |s| sink.sent(s.token, orderly && s.last));
        self.pulls.drain_where(|p| p.peer == index, |p| sink.pulled(p.token, false));
        if std::mem::take(&mut self.sessions[index as usize].pulls) > 0 {
            self.pulling_peers -= 1;
        }
        sink.gone(PeerId(index), why);
    }
}
