//! The endpoint-wide state, the calls of the upper side, and timers; [`incoming`] is what comes from links.

mod incoming;

use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::time::Duration;

use wiglaf_wire::encrypted::TAG_LEN;
use wiglaf_wire::{Envelope, Epoch, Kind, Record, read_quoted};

use crate::config::{Config, Lengths, PeerId};
use crate::limits::FRAME_LEN_MIN;
use crate::overrun::Overrun;
use crate::peers::Peers;
use crate::queue::Pool;
use crate::rendezvous::Rendezvous;
use crate::schedule::Schedule;
use crate::session::{PeerView, Session, Silence, Tools};
use crate::sizing::{Verdict, WayNews};
use crate::stats::Stats;
use crate::time::Instant;
use crate::trains::Sealer;
use crate::{Gone, Mark, Posted, SendError, Sink, Source, Transmit};

/// The protocol state of one endpoint.
#[derive(Debug, Clone)]
pub struct Transport {
    /// Its paths' frames are without what encryption adds to them.
    config: Config,
    lengths: Lengths,
    sealer: Sealer,
    peers: Peers,
    rendezvous: Rendezvous,
    schedule: Schedule,
    /// What all peers may send unasked beyond the initial credit of each, in bytes of charges.
    credit_growth: u64,
    pool: Pool,
    /// Tokens to be reported after an acknowledgement.
    reports: Vec<u64>,
    stats: Stats,
    /// When what is being taken came, if the kernel says so.
    arrived_at: Option<Instant>,
    overrun: Overrun,
    /// What was found out about ways to peers, until somebody asks: once for each peer, or twice.
    way_news: VecDeque<(PeerId, WayNews)>,
}

impl Transport {
    /// An endpoint that knows nobody yet.
    ///
    /// # Panics
    /// When the configuration has no path, or one too small for a header.
    #[must_use]
    pub fn new(mut config: Config) -> Self {
        let tag_len = if config.encrypt { TAG_LEN } else { 0 };
        assert!(config.epoch.is_known(), "an endpoint needs an epoch");
        assert!(
            !config.paths.is_empty()
                && config.paths.iter().all(|p| {
                    p.frame_len_sure >= FRAME_LEN_MIN + tag_len
                        && p.frame_len_sure <= p.frame_len_max
                }),
            "an endpoint needs a path that carries its headers"
        );
        for path in &mut config.paths {
            path.frame_len_max -= tag_len;
            path.frame_len_sure -= tag_len;
        }
        Self {
            sealer: Sealer::new(&config),
            config,
            lengths: Lengths::default(),
            peers: Peers::default(),
            rendezvous: Rendezvous::default(),
            schedule: Schedule::default(),
            credit_growth: 0,
            pool: Pool::default(),
            reports: Vec::new(),
            stats: Stats::default(),
            arrived_at: None,
            overrun: Overrun::default(),
            way_news: VecDeque::new(),
        }
    }

    /// Writes all that decides what the endpoint does next, for model checkers: two that write the
    /// same here behave the same.
    ///
    /// # Errors
    /// Those of `out`.
    #[doc(hidden)]
    pub fn write_state(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        // Counters and spare buffers decide nothing.
        write!(out, "{:?} {:?} {:?} ", self.config.epoch, self.peers, self.rendezvous)?;
        write!(out, "{:?} {:?} {:?}", self.schedule, self.credit_growth, self.overrun)
    }

    /// Numbers of packets and credit to and from `peer` begin there, for tests of where the bits of
    /// them that travel end. Before anything is sent, and on both sides.
    #[doc(hidden)]
    pub fn begin_at(&mut self, peer: PeerId, number: u64) {
        self.peers[peer.0].begin_at(number);
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Makes a peer known; the same peer gets the same number again. Without an epoch, that is
    /// whoever is at `at`, but not who was there before and has ended.
    pub fn connect(&mut self, at: SocketAddrV4, epoch: Epoch, path: usize) -> PeerId {
        PeerId(self.peers.connect(at, epoch, path, &self.config))
    }

    /// From now on so many datagrams are a train to the port of single ones, on one of the paths.
    pub fn set_latency_train_max(&mut self, path: usize, datagrams: usize) {
        if let Some(path) = self.config.paths.get_mut(path) {
            path.latency_train_max = datagrams;
        }
    }

    /// Messages that are sent from now on go by `lengths`.
    pub fn set_lengths(&mut self, lengths: Lengths) {
        self.lengths = lengths;
    }

    /// Whether a peer is gone, as [`PeerView`] says, too: nothing more can come from it.
    #[must_use]
    pub fn is_gone(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_some_and(|session| !session.is_open())
    }

    /// What can be seen of a peer.
    #[must_use]
    pub fn peer(&self, peer: PeerId) -> Option<PeerView> {
        self.peers.get(peer).map(Session::view)
    }

    /// How long a peer was not heard, or has owed something without having been heard; of one that nothing was
    /// exchanged with, since the clock began. `None`: it is gone.
    #[must_use]
    pub fn silence(&self, peer: PeerId, now: Instant) -> Option<Silence> {
        self.peers.get(peer)?.silence(now)
    }

    /// How long a peer was not heard when it was given up, or until now.
    #[must_use]
    pub fn silent_for(&self, peer: PeerId, now: Instant) -> Option<Duration> {
        Some(self.peers.get(peer)?.silent_for(now))
    }

    /// Whether everything handed over has been acknowledged.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.rendezvous.has_sent_all() && self.peers.iter().all(Session::is_drained)
    }

    /// Whether there may be something to send.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.schedule.is_ready()
    }

    /// Whether bytes that were asked for are still to come.
    #[must_use]
    pub fn is_pulling(&self) -> bool {
        self.rendezvous.is_pulling()
    }

    /// Whether nothing was exchanged with `peer`, nor is waiting to be.
    #[must_use]
    pub fn is_fresh(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_some_and(Session::is_fresh)
    }

    /// Whether everything up to there has been acknowledged, or never will be, as the peer is gone.
    #[must_use]
    pub fn has_arrived(&self, mark: Mark) -> bool {
        self.peers.get(mark.peer).is_none_or(|session| session.has_arrived(mark))
    }

    /// What was found out about ways to peers, until somebody asks.
    pub fn take_way_news(&mut self) -> Option<(PeerId, WayNews)> {
        self.way_news.pop_front()
    }

    /// Whether there is any.
    #[inline]
    #[must_use]
    pub fn has_way_news(&self) -> bool {
        !self.way_news.is_empty()
    }
}

/// Messages.
impl Transport {
    /// Takes a message of `len` bytes for `peer`.
    ///
    /// Short messages within the peer's credit are copied at once. Others are
    /// announced and wait until the peer pulls them. With `report`, or when
    /// the answer is [`Posted::Pending`], [`Sink::sent`] tells the end.
    ///
    /// # Errors
    /// [`SendError`]; nothing was taken.
    pub fn send(
        &mut self,
        peer: PeerId,
        envelope: Envelope,
        len: usize,
        token: u64,
        report: bool,
        source: &dyn Source,
    ) -> Result<Posted, SendError> {
        let session = self.peers.get_mut(peer).ok_or(SendError::PeerGone)?;
        if !session.is_open() {
            return Err(SendError::PeerGone);
        }
        if session.is_full() {
            return Err(SendError::Again);
        }
        //= docs/protocol.md#5-rendezvous
        //# A sender MUST announce a held message, and send nothing of it unasked.
        if self.lengths.is_eager(len as u64) && !envelope.is_held {
            let has_room = session.may_queue(len);
            let has_credit = session.credit.may_be_eager(envelope.class, len);
            if (has_credit && has_room) || !self.config.flow_control {
                session.put_message(&envelope, len, (token, report), source, &mut self.pool);
                self.wake(peer.0);
                return Ok(Posted::Buffered);
            }
            self.stats.credit_stalls += u64::from(!has_credit);
            session.traffic.credit_stalls += u64::from(!has_credit);
        }
        self.announce(peer.0, envelope, len as u64, token)
    }

    fn announce(
        &mut self,
        index: u32,
        envelope: Envelope,
        total: u64,
        token: u64,
    ) -> Result<Posted, SendError> {
        let session = &mut self.peers[index];
        let unasked_len = match envelope.is_held {
            true => 0,
            false => session.unasked_len(total, self.lengths, &self.config),
        };
        let transfers = &mut session.transfers;
        let announced =
            self.rendezvous.announce(index, transfers, token, total, unasked_len.into());
        let (send_id, job) = announced.ok_or(SendError::Again)?;
        let request = Record::Request { envelope, total, send_id, unasked_len };
        session.append(&request, &mut self.pool);
        session.traffic.sent(total);
        if let Some(job) = job {
            session.begin(job);
        }
        self.wake(index);
        Ok(Posted::Pending)
    }

    /// Asks for the first `len` bytes of a message that `peer` announced.
    /// Zero refuses its payload and lets the sender complete. So does false, the answer when there are
    /// too many pulls or `peer` is gone.
    pub fn pull(&mut self, peer: PeerId, send_id: u32, len: u64, token: u64) -> bool {
        let Some(session) = self.peers.get_mut(peer).filter(|session| session.is_open()) else {
            return false;
        };
        let window_len = self.config.paths[session.path_index()].bulk_window_len;
        let what = (send_id, len, token);
        let (pull, is_pulled) =
            self.rendezvous.pull(peer.0, &mut session.transfers, what, window_len);
        session.append(&Record::Pull(pull), &mut self.pool);
        // If all of it is on its way the answer goes with an acknowledgement, if one is due.
        if pull.len > 0 || pull.offset == 0 || !session.has_ack() {
            self.wake(peer.0);
        }
        is_pulled
    }

    /// `peer` owes one answer more to what is handed over now, or one less: that is, a message
    /// that it does not send of its own accord. Who owes one and falls silent is asked whether he
    /// is there.
    pub fn owe(&mut self, peer: PeerId, more: bool) {
        if let Some(session) = self.peers.get_mut(peer) {
            session.owe(more);
        }
    }

    /// Gives back the credit of an eager message of `len` bytes whose memory
    /// is free again.
    pub fn consume(&mut self, peer: PeerId, len: u64) {
        let Some(session) = self.peers.get_mut(peer) else { return };
        session.credit.consume(len);
        self.tell_credit(peer.0);
    }

    /// A receive has met a message of `len` bytes that `peer` had to announce: as much more may come at
    /// once from now on. Of those that met theirs when they were announced, no one else need tell.
    pub fn widen_credit(&mut self, peer: PeerId, len: u64) {
        let Some(session) = self.peers.get_mut(peer).filter(|session| session.is_open()) else {
            return;
        };
        session.credit.widen(len, &mut self.credit_growth);
        self.tell_credit(peer.0);
    }

    /// Whether credit that comes free is kept for messages that the peer has announced, and not told.
    pub fn hold_credit(&mut self, peer: PeerId, hold: bool) {
        let Some(session) = self.peers.get_mut(peer) else { return };
        session.credit.hold(hold);
        self.tell_credit(peer.0);
    }

    /// Whether there is room for so many announced messages of a peer whose messages are being
    /// received that it pays to pull them.
    #[must_use]
    pub fn may_pull_ahead(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_some_and(|session| session.credit.may_pull_ahead())
    }

    /// Charges an announced message of `len` bytes, which is about to be pulled without a receive;
    /// false when there is no room for it, of which there is more where messages of that peer
    /// `are_received`. [`Transport::consume`] gives it back.
    pub fn charge_ahead(&mut self, peer: PeerId, len: u64, are_received: bool) -> bool {
        let session = self.peers.get_mut(peer).filter(|session| session.is_open());
        session.is_some_and(|session| session.credit.charge_ahead(len, are_received))
    }

    /// Has the peer told its limit if it has risen by enough.
    fn tell_credit(&mut self, index: u32) {
        let session = &mut self.peers[index];
        if session.credit.is_to_be_told() {
            session.answer(Kind::Ordered);
            self.wake(index);
        }
    }
}

/// Sending.
impl Transport {
    /// Puts a session in the line of those with something to send.
    fn wake(&mut self, index: u32) {
        self.schedule.wake(index, &mut self.peers[index].turn);
    }

    /// Makes sure that the session is woken in time.
    fn set_timer(&mut self, index: u32) {
        let session = &mut self.peers[index];
        if let Some(at) = session.deadline() {
            self.schedule.set(index, &mut session.turn, at);
        }
    }

    /// Lets the message of `len` bytes that was taken last for `peer` wait for more: a short one in
    /// the same datagram, a longer one in the same train, if the peer was sent a burst of datagrams
    /// just now. Until that is full, until something is sent to the peer that is not to wait, or
    /// until [`Transport::end_lingering`].
    pub fn linger(&mut self, peer: PeerId, len: usize, now: Instant) {
        let Some(session) = self.peers.get_mut(peer) else { return };
        if session.linger(len, now, &self.config) {
            self.schedule.linger(peer.0, &mut session.turn);
        }
    }

    /// Nothing waits for more messages any longer.
    #[inline]
    pub fn end_lingering(&mut self) {
        while let Some(index) = self.schedule.next_lingering() {
            if self.peers[index].end_lingering() {
                self.wake(index);
            }
        }
    }

    /// Writes the next train to `out`, or answers `None` when there is
    /// nothing to send now.
    ///
    /// # Panics
    /// When `out` is shorter than the longest frame of any path.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        source: &dyn Source,
        out: &mut [u8],
    ) -> Option<Transmit> {
        while let Some(index) = self.schedule.next() {
            let Self { peers, config, sealer, rendezvous, stats, .. } = self;
            let session = &mut peers[index];
            if !session.turn.is_held() {
                let mut tools = Tools::new(now, config, sealer, rendezvous, source, stats);
                if let Some(transmit) = session.transmit(index, &mut tools, out) {
                    self.schedule.go_on(index);
                    self.set_timer(index);
                    return Some(transmit);
                }
            }
            session.turn.leave();
        }
        None
    }

    /// The link has no room for `peer`: nothing more for it comes out of
    /// [`Transport::poll_transmit`] until it is released.
    pub fn hold(&mut self, peer: PeerId) {
        if let Some(session) = self.peers.get_mut(peer) {
            session.turn.hold();
        }
    }

    /// There is room for `peer` again.
    pub fn release(&mut self, peer: PeerId) {
        if let Some(session) = self.peers.get_mut(peer) {
            session.turn.release();
            self.wake(peer.0);
        }
    }

    /// When to call [`Transport::handle_timeout`] at the latest, and [`Transport::tell_of_overrun`] if that is
    /// owed.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timer = self.schedule.first_at();
        match self.overrun.due_at(self.peers.len()) {
            Some(due) => Some(timer.map_or(due, |at| at.min(due))),
            None => timer,
        }
    }

    /// Acts on every deadline that has passed.
    pub fn handle_timeout(&mut self, now: Instant, sink: &mut dyn Sink) {
        while let Some((at, index)) = self.schedule.expired(now) {
            let session = &mut self.peers[index];
            if !session.turn.takes_timer(at) {
                continue; // an earlier entry has taken its place
            }
            match session.expire(now, at, self.config.silence_limit, &mut self.stats) {
                Err(why) => self.fail(index, why, sink),
                Ok(has_more) => {
                    if has_more {
                        self.wake(index);
                    }
                    let mut news = Vec::new();
                    let verdict = self.peers[index].judge_way(now, &self.config, &mut news);
                    self.follow(index, verdict, news, sink);
                }
            }
            let session = &mut self.peers[index];
            if let Some(at) = session.rest_until(now) {
                self.schedule.set(index, &mut session.turn, at);
            }
        }
    }

    /// What was found out about a way has consequences.
    fn follow(&mut self, index: u32, verdict: Verdict, news: Vec<WayNews>, sink: &mut dyn Sink) {
        self.way_news.extend(news.into_iter().map(|news| (PeerId(index), news)));
        match verdict {
            Verdict::Nothing => {}
            Verdict::Good | Verdict::Send => self.wake(index),
            Verdict::Narrowed => {
                self.stats.paths_narrowed += 1;
                self.wake(index);
            }
            Verdict::Blocked => self.fail(index, Gone::Blocked, sink),
        }
    }

    /// Frames for this endpoint were dropped on their way to it by `path` for want of room, nobody knows
    /// whose. Its peers are to be told of it ([`Transport::tell_of_overrun`]).
    pub fn overrun(&mut self, path: usize) {
        self.overrun.note(path);
    }

    /// Whether peers are still to be told.
    #[inline]
    #[must_use]
    pub fn owes_overrun(&self) -> bool {
        self.overrun.is_owed()
    }

    /// Tells peers of an overrun, unless they were told just now; true if so. All that came before `now`
    /// must have been handed over: what is still to be taken would go again for nothing.
    #[cold]
    pub fn tell_of_overrun(&mut self, now: Instant) -> bool {
        if self.overrun.due_at(self.peers.len()).is_none_or(|due| due > now) {
            return false;
        }
        let paths = self.overrun.tell(now);
        //= docs/protocol.md#4-acknowledgement
        //# An endpoint that learns that its link has dropped frames for want of room MUST acknowledge to all peers that it has heard, with the delay 65,532 us, when it has taken what did arrive.
        for index in self.peers.indices() {
            if self.peers[index].answer_overrun(paths) {
                self.wake(index);
            }
        }
        true
    }
}

/// How sessions end: what tells that a peer is gone, and what becomes of all that was under way
/// (docs/protocol.md, section 8).
impl Transport {
    /// Says good-bye to everybody that was spoken to, but for those to whom
    /// it is said otherwise.
    pub fn close(&mut self, otherwise: impl Fn(PeerId) -> bool) {
        for index in self.peers.indices() {
            let session = &mut self.peers[index];
            if session.is_to_be_closed() && !otherwise(PeerId(index)) {
                session.append(&Record::Close, &mut self.pool);
                self.wake(index);
            }
        }
    }

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
            None => self.peers.at(at),
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
        if let Some(index) = self.peers.of_epoch(epoch) {
            self.miss(now, index, sink);
        }
    }

    /// Nobody listens where that session's peer should.
    fn miss(&mut self, now: Instant, index: u32, sink: &mut dyn Sink) {
        if self.peers[index].is_missed(now) {
            self.fail(index, Gone::Unreachable, sink);
        }
    }

    /// The session of a datagram that was refused at `at`, if it is still unanswered.
    fn refused_by(&self, at: SocketAddrV4, front: &[u8]) -> Option<u32> {
        let header = read_quoted(&self.config.key, self.config.encrypt, front)
            .filter(|header| header.source == self.config.epoch)?;
        let index = self.peers.of_epoch(header.destination).or_else(|| self.peers.at(at))?;
        self.peers[index].awaits_answer(&header, at).then_some(index)
    }

    /// `peer` was found to be gone by other means.
    pub fn give_up(&mut self, peer: PeerId, why: Gone, sink: &mut dyn Sink) {
        if self.peers.get(peer).is_some_and(Session::is_open) {
            self.fail(peer.0, why, sink);
        }
    }

    /// Nothing goes over that path any more.
    pub fn give_up_path(&mut self, path: usize, sink: &mut dyn Sink) {
        for index in self.peers.indices() {
            if self.peers[index].path_index() == path {
                self.give_up(PeerId(index), Gone::Unreachable, sink);
            }
        }
    }

    /// Ends a session and every operation on it.
    fn fail(&mut self, index: u32, why: Gone, sink: &mut dyn Sink) {
        let session = &mut self.peers[index];
        // Other peers may have what this one had. It keeps the limit that it was told.
        self.credit_growth -= session.credit.growth();
        // Who says good-bye has acknowledged what it had: nothing else has been delivered.
        let is_orderly = why == Gone::Closed;
        session.end(index, is_orderly, &mut self.rendezvous, &mut self.pool, sink);
        sink.gone(PeerId(index), why);
    }
}

#[cfg(test)]
mod tests;
