//! How long datagrams to a peer may be, and by which ports they get there (docs/protocol.md, section 2.5).
//!
//! Where the two ends, or a switch between them, carry frames of different lengths, the long ones
//! vanish without a word, and so do datagrams to a port that a firewall has closed. Both are found out by
//! datagrams that are there for nothing else: probes, which the peer answers. The method is that of RFC
//! 8899 (packetization layer path MTU discovery for datagrams): a session begins with what every path
//! carries and sends longer ones only once a probe of that length was answered; a probe that vanishes
//! counts only if a short one beside it was answered. No report of the network is believed.

use std::time::Duration;

use wiglaf_wire::{HEADER_LEN, Header, Kind, RECORD_PREFIX_LEN, Record, Records, Trial, lane};

use crate::limits::{FRAME_LEN_MIN, SILENCE_CHECK};
use crate::outgrown::{Coming, Outgrown};
use crate::session::{Session, State};
use crate::time::Instant;
use crate::transport::{Config, Path, PeerId, Transport};
use crate::{Gone, Sink, Source, Transmit};

/// So long after a try its answers are there, if its short probe was answered: a peer that polls answers
/// within a millisecond, and one that is away for longer answers none of them.
const ANSWER_WAIT: Duration = Duration::from_millis(100);
/// So many tries of a length in which only the short probe was answered make it too long (RFC 8899: 3;
/// a network that loses a third of all datagrams would too often pass for one that drops long ones).
const TRIES_MAX: u8 = 5;
/// After so many tries in which only the short probe was answered, a port counts as closed: by error once in 10 000
/// times on a network that loses a third of all datagrams, of the few in which a lane has probed in vain before.
const CLOSED_TRIES: u8 = 12;
/// After so many tries in which only the short probe was answered, a path that carried longer datagrams counts as
/// narrowed. An error does no harm: the search that follows finds that they arrive.
const NARROW_TRIES: u8 = 12;
/// After so many tries with an answer to the short probe only, a peer counts as out of reach: 3 s, because a switch's
/// queue that is full to some hundred bytes lets short datagrams pass and no long ones, though hardly for so long.
const BLOCKED_TRIES: u8 = 30;
/// After so many tries without any answer the peer is one that does not know of probes.
const UNHEARD_MAX: u8 = 16;
/// After so many in a row a peer that has answered some is away.
const UNHEARD_CHECK_MAX: u8 = 4;
/// The search ends when it is known so exactly, in bytes.
const STEP_MIN: u16 = 128;
/// A peer's probes that wait for their answer; more are dropped, as the network may.
const OWED_MAX: usize = 8;

/// Length of a PROBE or FITS record.
const TRIAL_LEN: usize = RECORD_PREFIX_LEN + 8;
/// Short probes are no longer than any datagram with acknowledgements, and the shortest path carries those.
const _: () = assert!(
    HEADER_LEN + 2 * (16 + 8 * wiglaf_wire::BITMAP_WORDS_MAX) + TRIAL_LEN + RECORD_PREFIX_LEN
        < FRAME_LEN_MIN
);

/// The probes of a try, by bits: a short one to either port, and one of the length that is tried.
const SHORT: u8 = 1;
const SHORT_BULK: u8 = 2;
const LONG: u8 = 4;
const LONG_BULK: u8 = 8;

/// What was found out about the way to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WayNews {
    /// Longer datagrams than these do not get there, though this end could carry `frame_len_max`, or the
    /// peer carries no longer ones. All lengths are without a tag.
    Narrow {
        /// Longest datagram that arrives, in bytes.
        frame_len: usize,
        /// What this end could carry, in bytes.
        own_len_max: usize,
        /// What the peer could carry, in bytes.
        peer_len_max: usize,
    },
    /// Nothing that is sent to the peer's bulk port gets there; all goes to the other port from now on.
    BulkBlocked {
        /// The port.
        port: u16,
    },
}

/// Why probes go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To find longer datagrams that get there.
    Search,
    /// Because something that was sent does not, again and again. The first packets then that were not
    /// acknowledged, of either lane.
    Check { bases: [u64; 2] },
}

/// What is being found out.
#[derive(Debug, Clone)]
struct Tries {
    purpose: Purpose,
    /// Longest that is known to get there.
    low: u16,
    /// The one that is tried.
    tried: u16,
    /// Shortest that is known not to, or is not worth trying.
    high: u16,
    /// Probes that are to be sent.
    to_send: u8,
    /// Those that were answered: short ones of this try to the port of single datagrams, and of any before to
    /// the bulk port; and those of this length.
    answered: u8,
    /// Tries of this length in which only the short probe was answered.
    count: u8,
    /// Tries that were not answered at all.
    unheard: u8,
    /// When the answers should have come; `None`: nothing is tried until the peer is heard again.
    due_at: Option<Instant>,
    not_before: Instant,
    peer_len_max: u16,
}

/// Probes to a peer, and its own that are to be answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trials {
    tries: Option<Tries>,
    owed: Vec<Trial>,
    /// Packets that the path carries no longer.
    pub(crate) outgrown: Option<Outgrown>,
    /// A packet of each lane that comes in parts.
    pub(crate) coming: [Option<Coming>; 2],
}

impl Trials {
    /// When there is something to do without an answer.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.tries.as_ref()?.due_at
    }

    /// The next probe or answer, and which of both.
    fn next(&mut self) -> Option<(u8, Option<Trial>)> {
        if let Some(trial) = self.owed.pop() {
            return Some((0, Some(trial)));
        }
        let tries = self.tries.as_mut()?;
        let probe = [SHORT, SHORT_BULK, LONG, LONG_BULK]
            .into_iter()
            .find(|bit| tries.to_send & bit != 0)?;
        tries.to_send &= !probe;
        Some((probe, None))
    }
}

impl Tries {
    fn begin(purpose: Purpose, low: u16, tried: u16) -> Self {
        Self {
            purpose,
            low,
            tried,
            high: tried.saturating_add(1),
            to_send: 0,
            answered: 0,
            count: 0,
            unheard: 0,
            due_at: None,
            not_before: Instant::ZERO,
            peer_len_max: u16::MAX,
        }
    }

    /// Sends what was not answered so far; the short one to the usual port each time.
    fn send(&mut self, now: Instant, bulk_works: bool) {
        self.answered &= !SHORT;
        let wanted = if bulk_works { SHORT | SHORT_BULK | LONG | LONG_BULK } else { SHORT | LONG };
        self.to_send = wanted & !self.answered;
        self.due_at = Some(now + ANSWER_WAIT);
    }

    /// Takes another length on.
    fn try_next(&mut self, len: u16) {
        self.tried = len;
        self.answered &= !(LONG | LONG_BULK);
        self.count = 0;
    }

    /// Half way between what is known to arrive and what is known not to, if that is worth it.
    fn between(&self) -> Option<u16> {
        (self.high - self.low > STEP_MIN).then(|| self.low.midpoint(self.high))
    }

    fn note(&mut self, trial: &Trial) {
        let is_bulk = trial.lane == lane::BULK;
        self.answered |= match usize::from(trial.len) < FRAME_LEN_MIN {
            true if is_bulk => SHORT_BULK,
            true => SHORT,
            false if trial.len != self.tried => 0,
            false if is_bulk => LONG_BULK,
            false => LONG,
        };
        self.peer_len_max = trial.frame_len_max;
    }
}

impl Session {
    /// The path to the peer, as it is known to be.
    #[inline]
    pub(crate) fn way(&self, config: &Config) -> Path {
        let path = config.paths[self.path];
        if self.frame_len as usize == path.frame_len_max && !self.is_bulk_blocked {
            return path;
        }
        self.narrowed(path)
    }

    /// `path` with shorter frames, of which more are in a GSO batch, and perhaps without batches.
    fn narrowed(&self, path: Path) -> Path {
        let frame_len = self.frame_len as usize;
        let scaled = |most: usize| match most {
            0 | 1 => most,
            _ => (most * path.frame_len_max / frame_len).clamp(most, TRAIN_MAX.max(most)),
        };
        let latency_train_max = scaled(path.latency_train_max);
        let bulk_train_max =
            if self.is_bulk_blocked { latency_train_max } else { scaled(path.bulk_train_max) };
        Path { frame_len_max: frame_len, latency_train_max, bulk_train_max, ..path }
    }

    /// Where bulk datagrams go, and whether by the lane for them.
    pub(crate) fn bulk_way(&self) -> (u16, bool) {
        if self.is_bulk_blocked { (self.at.port(), false) } else { (self.bulk_port, true) }
    }

    fn set_frame_len(&mut self, frame_len: u16) {
        self.frame_len = u32::from(frame_len);
        self.ordered.set_packet_len(frame_len.into());
        self.bulk.set_packet_len(frame_len.into());
    }

    pub(crate) fn bases(&self) -> [u64; 2] {
        [self.ordered.base(), if self.uses_bulk { self.bulk.base() } else { 0 }]
    }
}

/// Most datagrams in a train that every kernel with segmentation offload takes.
const TRAIN_MAX: usize = 64;

impl Transport {
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

    /// The peer was heard, and knows us: longer datagrams than those that every path carries may get there.
    //= docs/protocol.md#25-length
    //# An endpoint MUST NOT send a datagram that is longer than every path carries before a probe of that length was answered at each port of the peer that it sends to, unless it is such a probe.
    #[cold]
    pub(crate) fn search_longer(&mut self, index: u32, now: Instant) {
        let session = &mut self.sessions[index as usize];
        let own_max = own_len_max(&self.config.paths[session.path]);
        let (low, bulk_works) = (session.frame_len as u16, !session.is_bulk_blocked);
        let trials = session.trials.get_or_insert_default();
        let tries = trials.tries.get_or_insert_with(|| Tries::begin(Purpose::Search, low, own_max));
        if now < tries.not_before {
            return; // until then it is asked again with each datagram that comes
        }
        session.may_grow = false;
        tries.send(now, bulk_works);
        self.wake(index);
    }

    /// Probes of a lane go unanswered. Are they too long, or sent to a closed port?
    #[cold]
    pub(crate) fn check_way(&mut self, index: u32, now: Instant) {
        let session = &mut self.sessions[index as usize];
        let is_busy = session.trials.as_ref().is_some_and(|trials| trials.tries.is_some());
        if is_busy || session.bulk_port == 0 || now.since(session.checked_at) < SILENCE_CHECK {
            return;
        }
        session.checked_at = now;
        let (bases, len) = (session.bases(), session.frame_len as u16);
        let bulk_works = !session.is_bulk_blocked;
        let mut tries = Tries::begin(Purpose::Check { bases }, len, len);
        tries.send(now, bulk_works);
        session.trials.get_or_insert_default().tries = Some(tries);
        self.wake(index);
    }

    /// Writes the next probe, answer to one, or part of a packet, if there is any.
    #[cold]
    pub(crate) fn transmit_trial_or_part(
        &mut self,
        index: u32,
        now: Instant,
        source: &dyn Source,
        out: &mut [u8],
    ) -> Option<Transmit> {
        let trial = self.transmit_trial(index, now, out);
        trial.or_else(|| self.transmit_part(index, now, source, out))
    }

    /// Writes the next probe, or answer to one.
    fn transmit_trial(&mut self, index: u32, now: Instant, out: &mut [u8]) -> Option<Transmit> {
        let session = &mut self.sessions[index as usize];
        let (bit, answer) = session.trials.as_mut()?.next()?;
        let tried = session.trials.as_ref()?.tries.as_ref().map_or(0, |tries| tries.tried);
        let is_long = bit & (LONG | LONG_BULK) != 0;
        let is_bulk = bit & (SHORT_BULK | LONG_BULK) != 0;
        let frame_len_max = own_len_max(&self.config.paths[session.path]);
        let held = crate::outgoing::held_us(&session.ordered_debt, now);
        let room = FRAME_LEN_MIN - TRIAL_LEN - RECORD_PREFIX_LEN;
        let at = HEADER_LEN + session.put_acks(now, room, 0, out);
        let len = if is_long { usize::from(tried) } else { at + TRIAL_LEN };
        let record = match answer {
            Some(trial) => Record::Fits(Trial { frame_len_max, ..trial }),
            None => Record::Probe(Trial {
                lane: if is_bulk { lane::BULK } else { lane::ORDERED },
                len: len as u16,
                frame_len_max,
            }),
        };
        let end = at + record.emit(&mut out[at..]);
        if let Some(padding_len) = (len - end).checked_sub(RECORD_PREFIX_LEN) {
            let padding = &mut out[end..len];
            let head = Record::Padding(&[]).emit_before(padding_len, padding);
            padding[head..].fill(0);
        }
        let number = session.control_next;
        session.control_next += 1;
        let mut header = Header::EMPTY;
        session.put_header(&self.config, held, Kind::Control, number, &mut header);
        let len = len + self.tag_len;
        self.seal(&header, None, &mut out[..len]);
        self.stats.datagrams_sent += 1;
        let session = &mut self.sessions[index as usize];
        let mut transmit = session.transmit(index, is_bulk, len, len);
        if is_bulk {
            transmit.to.set_port(session.bulk_port);
        }
        transmit.is_probe = is_long;
        session.leave_trials();
        Some(transmit)
    }

    /// Takes what a control datagram of `len` bytes holds beside acknowledgements.
    #[cold]
    pub(crate) fn take_trials(
        &mut self,
        index: u32,
        records: &[u8],
        len: usize,
        now: Instant,
        sink: &mut dyn Sink,
    ) {
        for record in Records::new(records) {
            match record {
                //= docs/protocol.md#25-length
                //# An endpoint MUST answer a PROBE that states the length of its datagram with a FITS of that port and length.
                Ok(Record::Probe(trial)) if usize::from(trial.len) == len => {
                    let owed =
                        &mut self.sessions[index as usize].trials.get_or_insert_default().owed;
                    if owed.len() < OWED_MAX {
                        owed.push(trial);
                    }
                    self.wake(index);
                }
                Ok(Record::Fits(trial)) => self.take_fits(index, &trial, now, sink),
                Ok(Record::Part(part)) => return self.take_part(index, &part, now, sink),
                Ok(Record::Padding(_)) => {}
                Ok(_) => self.stats.drop_protocol += 1,
                Err(why) => self.stats.refuse(why),
            }
        }
    }

    fn take_fits(&mut self, index: u32, trial: &Trial, now: Instant, sink: &mut dyn Sink) {
        let session = &mut self.sessions[index as usize];
        let own_max = own_len_max(&self.config.paths[session.path]);
        let is_blocked = session.is_bulk_blocked;
        // What nobody has asked about means nothing.
        let Some(tries) = session.trials.as_mut().and_then(|trials| trials.tries.as_mut()) else {
            return;
        };
        tries.note(trial);
        tries.unheard = 0;
        if tries.purpose == Purpose::Search && trial.frame_len_max < tries.tried {
            // It would not take them, whatever the path carries.
            let limit = trial.frame_len_max.max(tries.low).min(own_max);
            tries.high = tries.high.min(limit.saturating_add(1));
            tries.try_next(limit);
            if limit == tries.low {
                return self.end_search(index);
            }
            tries.send(now, !is_blocked);
            return self.wake(index);
        }
        let wanted = if is_blocked { LONG } else { LONG | LONG_BULK };
        if tries.answered & wanted == wanted {
            self.arrives(index, now, sink);
        }
    }

    /// Datagrams of the length that was tried arrive.
    fn arrives(&mut self, index: u32, now: Instant, sink: &mut dyn Sink) {
        let _flow_control = self.config.flow_control;
        let session = &mut self.sessions[index as usize];
        let bulk_works = !session.is_bulk_blocked;
        let Some(tries) = session.trials.as_mut().and_then(|trials| trials.tries.as_mut()) else {
            return;
        };
        if tries.purpose != Purpose::Search {
            session.end_tries();
            if session.parts_are_in_vain() {
                //= docs/protocol.md#25-length
                //# A sender MUST give up a peer that answers probes of the length of parts, 10 times a second apart, while it acknowledges no parts of one packet.
                self.fail(index, Gone::Blocked, sink);
            }
            return;
        }
        tries.low = tries.tried;
        let (low, next) = (tries.low, tries.between());
        if let Some(next) = next {
            tries.try_next(next);
            tries.send(now, bulk_works);
        }
        session.set_frame_len(low);
        match next {
            Some(_) => self.wake(index),
            None => self.end_search(index),
        }
    }

    /// The longest that arrives is known.
    fn end_search(&mut self, index: u32) {
        let session = &mut self.sessions[index as usize];
        let own_max = own_len_max(&self.config.paths[session.path]);
        let tries = session.trials.as_ref().and_then(|trials| trials.tries.as_ref());
        let peer_len_max = tries.map_or(u16::MAX, |tries| tries.peer_len_max);
        session.end_tries();
        let frame_len = session.frame_len as usize;
        if frame_len < own_max.into() {
            let (own_len_max, peer_len_max) = (own_max.into(), peer_len_max.into());
            let narrow = WayNews::Narrow { frame_len, own_len_max, peer_len_max };
            self.way_news.push_back((PeerId(index), narrow));
        }
    }

    /// The answers to a try should be there.
    #[cold]
    pub(crate) fn judge_try(&mut self, index: u32, now: Instant, sink: &mut dyn Sink) {
        let session = &mut self.sessions[index as usize];
        let bulk_works = !session.is_bulk_blocked;
        let (bases, stuck) = (session.bases(), session.stuck_lanes());
        let sure = self.config.paths[session.path].frame_len_sure;
        let is_longer_than_sure = session.frame_len as usize > sure;
        let Some(tries) = session.trials.as_mut().and_then(|trials| trials.tries.as_mut()) else {
            return;
        };
        if tries.due_at.is_none_or(|at| at > now) {
            return;
        }
        if let Purpose::Check { bases: before } = tries.purpose
            && !(0..2).any(|lane| stuck[lane] && before[lane] == bases[lane])
        {
            return session.end_tries(); // it goes on
        }
        if tries.answered & SHORT == 0 {
            return self.was_unheard(index, now);
        }
        tries.count += 1;
        let is_closed = bulk_works && tries.answered & SHORT_BULK == 0;
        let is_check = tries.purpose != Purpose::Search;
        let is_narrow = is_check && is_longer_than_sure && tries.answered & LONG == 0;
        let limit = match () {
            () if is_closed => CLOSED_TRIES,
            () if is_narrow => NARROW_TRIES,
            () if is_check => BLOCKED_TRIES,
            () => TRIES_MAX,
        };
        if tries.count < limit {
            tries.send(now, bulk_works);
            return self.wake(index);
        }
        let is_by_bulk_only = is_check && bulk_works && tries.answered & LONG != 0;
        if is_closed || is_by_bulk_only {
            return self.block_bulk(index, now, sink);
        }
        if is_narrow {
            return self.narrow(index, now);
        }
        if is_check {
            //= docs/protocol.md#8-ending
            //# An endpoint MUST give up a peer that answers short probes, but neither acknowledges what it is sent nor answers probes as long as that.
            return self.fail(index, Gone::Blocked, sink);
        }
        tries.high = tries.tried;
        match tries.between() {
            Some(next) => {
                tries.try_next(next);
                tries.send(now, bulk_works);
                self.wake(index);
            }
            None => self.end_search(index),
        }
    }

    /// The path carries no longer what it carried: what goes from now on is as long as every path carries, until
    /// it is known what this one does.
    //= docs/protocol.md#25-length
    //# A sender MUST go on with what every path carries, and search again, once 12 probes as long as its datagrams were not answered while short ones beside them were.
    fn narrow(&mut self, index: u32, now: Instant) {
        let _flow_control = self.config.flow_control;
        let session = &mut self.sessions[index as usize];
        let sure = self.config.paths[session.path].frame_len_sure as u16;
        let (before, bulk_works) = (session.frame_len as u16, !session.is_bulk_blocked);
        session.set_frame_len(sure);
        let outgrown = session.outgrow();
        let trials = session.trials.get_or_insert_default();
        trials.outgrown = Some(outgrown);
        let peer_len_max = trials.tries.as_ref().map_or(u16::MAX, |tries| tries.peer_len_max);
        let mut tries = Tries::begin(Purpose::Search, sure, before);
        tries.peer_len_max = peer_len_max;
        tries.send(now, bulk_works);
        trials.tries = Some(tries);
        self.stats.paths_narrowed += 1;
        self.wake(index);
    }

    /// Nobody has answered a try: the peer is away, or does not know of probes.
    fn was_unheard(&mut self, index: u32, now: Instant) {
        let session = &mut self.sessions[index as usize];
        let Some(tries) = session.trials.as_mut().and_then(|trials| trials.tries.as_mut()) else {
            return;
        };
        tries.unheard += 1;
        if tries.purpose != Purpose::Search {
            // On a network that loses most of all datagrams, no way would ever be judged otherwise.
            if tries.unheard == UNHEARD_CHECK_MAX || tries.count == 0 {
                return session.end_tries();
            }
            let bulk_works = !session.is_bulk_blocked;
            if let Some(tries) = session.trials.as_mut().and_then(|trials| trials.tries.as_mut()) {
                tries.send(now, bulk_works);
            }
            return self.wake(index);
        }
        if tries.unheard == UNHEARD_MAX {
            return session.end_tries();
        }
        (tries.due_at, tries.not_before) = (None, now + ANSWER_WAIT);
        session.may_grow = true;
    }

    //= docs/protocol.md#25-length
    //# A sender MUST send bulk datagrams to the peer's address, too, once probes to its bulk port go unanswered while those beside them to its address are answered.
    fn block_bulk(&mut self, index: u32, now: Instant, sink: &mut dyn Sink) {
        let session = &mut self.sessions[index as usize];
        session.is_bulk_blocked = true;
        let port = session.bulk_port;
        let Some(tries) = session.trials.as_mut().and_then(|trials| trials.tries.as_mut()) else {
            return;
        };
        let arrives = tries.answered & LONG != 0;
        tries.count = 0;
        tries.send(now, false);
        self.way_news.push_back((PeerId(index), WayNews::BulkBlocked { port }));
        if arrives {
            self.arrives(index, now, sink);
        }
        self.wake(index);
    }
}

impl Session {
    fn end_tries(&mut self) {
        if let Some(trials) = &mut self.trials {
            trials.tries = None;
        }
        self.leave_trials();
    }

    /// Gives the memory back of what is over.
    pub(crate) fn leave_trials(&mut self) {
        let is_over = |trials: &Trials| {
            let has_parts = trials.outgrown.is_some() || trials.coming.iter().any(Option::is_some);
            trials.tries.is_none() && trials.owed.is_empty() && !has_parts
        };
        if self.trials.as_deref().is_some_and(is_over) {
            self.trials = None;
        }
    }

    /// Nothing is tried, or answered, any more.
    pub(crate) fn end_trials(&mut self) {
        (self.trials, self.may_grow) = (None, false);
    }

    /// Whether a lane has probed in vain for long.
    pub(crate) fn is_stuck(&self) -> bool {
        self.state == State::Open && self.stuck_lanes() != [false; 2]
    }

    fn stuck_lanes(&self) -> [bool; 2] {
        [self.ordered.is_stuck(), self.uses_bulk && self.bulk.is_stuck()]
    }
}

fn own_len_max(path: &Path) -> u16 {
    u16::try_from(path.frame_len_max).unwrap_or(u16::MAX)
}
