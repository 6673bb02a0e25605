//! How long datagrams to a peer may be, and by which ports they get there (docs/protocol.md, section 2.5).
//!
//! Where the two ends, or a switch between them, carry frames of different lengths, the long ones
//! vanish without a word, and so do datagrams to a port that a firewall has closed. Both are found out by
//! datagrams that are there for nothing else: probes, which the peer answers. The method is that of RFC
//! 8899 (packetization layer path MTU discovery for datagrams): a session begins with what every path
//! carries and sends longer ones only once a probe of that length was answered; a probe that vanishes
//! counts only if a short one beside it was answered. No report of the network is believed.

use wiglaf_wire::{HEADER_LEN, RECORD_PREFIX_LEN, Record, Trial, lane};

use crate::config::{Config, Path};
use crate::limits::{
    BLOCKED_TRIES, CLOSED_TRIES, FRAME_LEN_MIN, NARROW_TRIES, SILENCE_CHECK, SIZE_ANSWER_WAIT,
    SIZE_OWED_MAX, SIZE_STEP_MIN, SIZE_TRAIN_MAX, SIZE_TRIES_MAX, UNHEARD_CHECK_MAX, UNHEARD_MAX,
};
use crate::outgrown::Parts;
use crate::time::Instant;

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

/// Probes to a peer, its own that are to be answered, and what its path carries only in parts.
#[derive(Debug, Clone, Default)]
struct Trials {
    tries: Option<Tries>,
    owed: Vec<Trial>,
    parts: Parts,
}

impl Trials {
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
        self.due_at = Some(now + SIZE_ANSWER_WAIT);
    }

    /// Takes another length on.
    fn try_next(&mut self, len: u16) {
        self.tried = len;
        self.answered &= !(LONG | LONG_BULK);
        self.count = 0;
    }

    /// Half way between what is known to arrive and what is known not to, if that is worth it.
    fn between(&self) -> Option<u16> {
        (self.high - self.low > SIZE_STEP_MIN).then(|| self.low.midpoint(self.high))
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

/// A probe, or the answer to one, that is to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    /// Which one, or 0.
    bit: u8,
    answer: Option<Trial>,
    /// The length that is tried, in bytes.
    tried: usize,
    /// What this side could carry, in bytes.
    frame_len_max: u16,
}

impl Probe {
    /// How long it is, in bytes, behind `at` bytes of header and acknowledgements.
    pub(crate) fn len(&self, at: usize) -> usize {
        if self.is_long() { self.tried } else { at + TRIAL_LEN }
    }

    /// What it says in a datagram of `len` bytes.
    pub(crate) fn record(&self, len: usize) -> Record<'static> {
        let Self { answer, frame_len_max, .. } = *self;
        match answer {
            Some(trial) => Record::Fits(Trial { frame_len_max, ..trial }),
            None => {
                let lane = if self.is_bulk() { lane::BULK } else { lane::ORDERED };
                Record::Probe(Trial { lane, len: len as u16, frame_len_max })
            }
        }
    }

    /// Whether it is there to be lost if it is too long.
    pub(crate) fn is_long(&self) -> bool {
        self.bit & (LONG | LONG_BULK) != 0
    }

    /// Whether it goes to the bulk port.
    pub(crate) fn is_bulk(&self) -> bool {
        self.bit & (SHORT_BULK | LONG_BULK) != 0
    }
}

/// Most bytes of acknowledgements in front of a short probe.
pub(crate) const PROBE_ROOM: usize = FRAME_LEN_MIN - TRIAL_LEN - RECORD_PREFIX_LEN;

/// What a probe, or the lack of its answer, has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is nothing to do.
    Nothing,
    /// There is something to send.
    Send,
    /// The way carries what is sent, though some of it is not acknowledged.
    Good,
    /// The path carries no longer what it carried.
    Narrowed,
    /// Only short datagrams get there.
    Blocked,
}

/// The way to a peer, as it is known to be.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// Index of the path in the configuration.
    path: usize,
    /// Longest datagram that is known to get there, in bytes, without a tag.
    frame_len: u32,
    /// Where the peer awaits trains; 0 until it has named us.
    bulk_port: u16,
    /// Longer datagrams may get there, which is to be tried when the peer is heard.
    may_grow: bool,
    /// Nothing that is sent to the bulk port gets there.
    is_bulk_blocked: bool,
    /// When it was last tried whether what is sent gets there at all.
    checked_at: Instant,
    trials: Option<Box<Trials>>,
}

impl Way {
    /// The one over the path of that index.
    pub(crate) fn new(path: usize, config: &Config) -> Self {
        let Path { frame_len_max, frame_len_sure, .. } = config.paths[path];
        Self {
            path,
            frame_len: frame_len_sure as u32,
            bulk_port: 0,
            may_grow: frame_len_sure < frame_len_max,
            is_bulk_blocked: false,
            checked_at: Instant::ZERO,
            trials: None,
        }
    }

    /// Index of the path in the configuration.
    pub(crate) fn path_index(&self) -> usize {
        self.path
    }

    /// The path to the peer, as it is known to be.
    #[inline]
    pub(crate) fn path(&self, config: &Config) -> Path {
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
            _ => (most * path.frame_len_max / frame_len).clamp(most, SIZE_TRAIN_MAX.max(most)),
        };
        let latency_train_max = scaled(path.latency_train_max);
        let bulk_train_max =
            if self.is_bulk_blocked { latency_train_max } else { scaled(path.bulk_train_max) };
        Path { frame_len_max: frame_len, latency_train_max, bulk_train_max, ..path }
    }

    /// Longest datagram that is known to get there, in bytes, without a tag.
    pub(crate) fn frame_len(&self) -> usize {
        self.frame_len as usize
    }

    /// The peer knows this side, and awaits trains at that port: longer datagrams than those that every path carries
    /// may get there, too. True if there are probes to be sent.
    #[inline]
    pub(crate) fn open(&mut self, bulk_port: u16, now: Instant, config: &Config) -> bool {
        self.bulk_port = bulk_port;
        self.may_grow && self.search_longer(now, config)
    }

    /// Whether bulk datagrams may go.
    pub(crate) fn is_open(&self) -> bool {
        self.bulk_port != 0
    }

    /// Where the peer awaits trains, if they get there.
    pub(crate) fn bulk_port(&self) -> Option<u16> {
        (self.bulk_port != 0 && !self.is_bulk_blocked).then_some(self.bulk_port)
    }

    /// Whether the peer awaits datagrams at that port beside its address.
    pub(crate) fn is_bulk_port(&self, port: u16) -> bool {
        port == self.bulk_port
    }

    /// Whether there may be something to try, to answer or to send in parts.
    #[inline]
    pub(crate) fn is_tried(&self) -> bool {
        self.trials.is_some()
    }

    /// When answers should be there.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.trials.as_ref()?.tries.as_ref()?.due_at
    }

    fn tries(&mut self) -> Option<&mut Tries> {
        self.trials.as_mut()?.tries.as_mut()
    }

    //= docs/protocol.md#25-length
    //# An endpoint MUST NOT send a datagram that is longer than every path carries before a probe of that length was answered at each port of the peer that it sends to, unless it is such a probe.
    #[cold]
    fn search_longer(&mut self, now: Instant, config: &Config) -> bool {
        let own_max = own_len_max(&config.paths[self.path]);
        let (low, bulk_works) = (self.frame_len as u16, !self.is_bulk_blocked);
        let trials = self.trials.get_or_insert_default();
        let tries = trials.tries.get_or_insert_with(|| Tries::begin(Purpose::Search, low, own_max));
        if now < tries.not_before {
            return false; // until then it is asked again with each datagram that comes
        }
        self.may_grow = false;
        tries.send(now, bulk_works);
        true
    }

    /// Probes of a lane go unanswered, where the first packets that are not acknowledged are these `bases`: are they too
    /// long, or sent to a closed port? True if that is to be tried.
    #[cold]
    pub(crate) fn check(&mut self, now: Instant, bases: [u64; 2]) -> bool {
        let is_busy = self.tries().is_some();
        if is_busy || !self.is_open() || now.since(self.checked_at) < SILENCE_CHECK {
            return false;
        }
        self.checked_at = now;
        let len = self.frame_len as u16;
        let mut tries = Tries::begin(Purpose::Check { bases }, len, len);
        tries.send(now, !self.is_bulk_blocked);
        self.trials.get_or_insert_default().tries = Some(tries);
        true
    }

    /// The next probe that is to be sent, or answer to one.
    pub(crate) fn next_probe(&mut self, config: &Config) -> Option<Probe> {
        let frame_len_max = own_len_max(&config.paths[self.path]);
        let trials = self.trials.as_mut()?;
        let (bit, answer) = trials.next()?;
        let tried = trials.tries.as_ref().map_or(0, |tries| tries.tried.into());
        self.leave();
        Some(Probe { bit, answer, tried, frame_len_max })
    }

    /// The peer's probe is to be answered.
    //= docs/protocol.md#25-length
    //# An endpoint MUST answer a PROBE that states the length of its datagram with a FITS of that port and length.
    pub(crate) fn owe(&mut self, trial: Trial) {
        let owed = &mut self.trials.get_or_insert_default().owed;
        if owed.len() < SIZE_OWED_MAX {
            owed.push(trial);
        }
    }

    /// Takes the answer to a probe.
    pub(crate) fn take_answer(
        &mut self,
        trial: &Trial,
        now: Instant,
        config: &Config,
        news: &mut Vec<WayNews>,
    ) -> Verdict {
        let own_max = own_len_max(&config.paths[self.path]);
        let is_blocked = self.is_bulk_blocked;
        // What nobody has asked about means nothing.
        let Some(tries) = self.tries() else { return Verdict::Nothing };
        tries.note(trial);
        tries.unheard = 0;
        if tries.purpose == Purpose::Search && trial.frame_len_max < tries.tried {
            // It would not take them, whatever the path carries.
            let limit = trial.frame_len_max.max(tries.low).min(own_max);
            tries.high = tries.high.min(limit.saturating_add(1));
            tries.try_next(limit);
            if limit == tries.low {
                return self.end_search(config, news);
            }
            tries.send(now, !is_blocked);
            return Verdict::Send;
        }
        let wanted = if is_blocked { LONG } else { LONG | LONG_BULK };
        if tries.answered & wanted == wanted {
            return self.arrives(now, config, news);
        }
        Verdict::Nothing
    }

    /// Datagrams of the length that was tried arrive.
    fn arrives(&mut self, now: Instant, config: &Config, news: &mut Vec<WayNews>) -> Verdict {
        let bulk_works = !self.is_bulk_blocked;
        let Some(tries) = self.tries() else { return Verdict::Nothing };
        if tries.purpose != Purpose::Search {
            self.end_tries();
            return Verdict::Good;
        }
        tries.low = tries.tried;
        let (low, next) = (tries.low, tries.between());
        if let Some(next) = next {
            tries.try_next(next);
            tries.send(now, bulk_works);
        }
        self.frame_len = low.into();
        if next.is_some() { Verdict::Send } else { self.end_search(config, news) }
    }

    /// The longest that arrives is known.
    fn end_search(&mut self, config: &Config, news: &mut Vec<WayNews>) -> Verdict {
        let own_max = own_len_max(&config.paths[self.path]);
        let peer_len_max = self.tries().map_or(u16::MAX, |tries| tries.peer_len_max);
        self.end_tries();
        let frame_len = self.frame_len();
        if frame_len < own_max.into() {
            let (own_len_max, peer_len_max) = (own_max.into(), peer_len_max.into());
            news.push(WayNews::Narrow { frame_len, own_len_max, peer_len_max });
        }
        Verdict::Nothing
    }

    /// The answers to a try should be there, if its time is over. The first packets that are not acknowledged are these
    /// `bases`, and so the lanes of which nothing gets through.
    #[cold]
    pub(crate) fn judge(
        &mut self,
        now: Instant,
        (bases, stuck): ([u64; 2], [bool; 2]),
        config: &Config,
        news: &mut Vec<WayNews>,
    ) -> Verdict {
        let bulk_works = !self.is_bulk_blocked;
        let is_longer_than_sure = self.frame_len() > config.paths[self.path].frame_len_sure;
        let Some(tries) = self.tries() else { return Verdict::Nothing };
        if tries.due_at.is_none_or(|at| at > now) {
            return Verdict::Nothing;
        }
        if let Purpose::Check { bases: before } = tries.purpose
            && !(0..2).any(|lane| stuck[lane] && before[lane] == bases[lane])
        {
            return self.end_tries(); // it goes on
        }
        if tries.answered & SHORT == 0 {
            return self.was_unheard(now);
        }
        tries.count += 1;
        let is_closed = bulk_works && tries.answered & SHORT_BULK == 0;
        let is_check = tries.purpose != Purpose::Search;
        let is_narrow = is_check && is_longer_than_sure && tries.answered & LONG == 0;
        let limit = match () {
            () if is_closed => CLOSED_TRIES,
            () if is_narrow => NARROW_TRIES,
            () if is_check => BLOCKED_TRIES,
            () => SIZE_TRIES_MAX,
        };
        if tries.count < limit {
            tries.send(now, bulk_works);
            return Verdict::Send;
        }
        let is_by_bulk_only = is_check && bulk_works && tries.answered & LONG != 0;
        if is_closed || is_by_bulk_only {
            return self.block_bulk(now, config, news);
        }
        if is_narrow {
            self.narrow(now, config);
            return Verdict::Narrowed;
        }
        if is_check {
            //= docs/protocol.md#8-ending
            //# An endpoint MUST give up a peer that answers short probes, but neither acknowledges what it is sent nor answers probes as long as that.
            return Verdict::Blocked;
        }
        tries.high = tries.tried;
        match tries.between() {
            Some(next) => {
                tries.try_next(next);
                tries.send(now, bulk_works);
                Verdict::Send
            }
            None => self.end_search(config, news),
        }
    }

    /// The path carries no longer what it carried: what goes from now on is as long as every path carries, until
    /// it is known what this one does.
    //= docs/protocol.md#25-length
    //# A sender MUST go on with what every path carries, and search again, once 12 probes as long as its datagrams were not answered while short ones beside them were.
    fn narrow(&mut self, now: Instant, config: &Config) {
        let sure = config.paths[self.path].frame_len_sure as u16;
        let (before, bulk_works) = (self.frame_len as u16, !self.is_bulk_blocked);
        self.frame_len = sure.into();
        let Some(tries) = self.tries() else { return };
        let peer_len_max = tries.peer_len_max;
        *tries = Tries::begin(Purpose::Search, sure, before);
        tries.peer_len_max = peer_len_max;
        tries.send(now, bulk_works);
    }

    /// Nobody has answered a try: the peer is away, or does not know of probes.
    fn was_unheard(&mut self, now: Instant) -> Verdict {
        let bulk_works = !self.is_bulk_blocked;
        let Some(tries) = self.tries() else { return Verdict::Nothing };
        tries.unheard += 1;
        if tries.purpose != Purpose::Search {
            // On a network that loses most of all datagrams, no way would ever be judged otherwise.
            if tries.unheard == UNHEARD_CHECK_MAX || tries.count == 0 {
                return self.end_tries();
            }
            tries.send(now, bulk_works);
            return Verdict::Send;
        }
        if tries.unheard == UNHEARD_MAX {
            return self.end_tries();
        }
        (tries.due_at, tries.not_before) = (None, now + SIZE_ANSWER_WAIT);
        self.may_grow = true;
        Verdict::Nothing
    }

    //= docs/protocol.md#25-length
    //# A sender MUST send bulk datagrams to the peer's address, too, once probes to its bulk port go unanswered while those beside them to its address are answered.
    fn block_bulk(&mut self, now: Instant, config: &Config, news: &mut Vec<WayNews>) -> Verdict {
        self.is_bulk_blocked = true;
        news.push(WayNews::BulkBlocked { port: self.bulk_port });
        let Some(tries) = self.tries() else { return Verdict::Nothing };
        tries.count = 0;
        tries.send(now, false);
        if tries.answered & LONG == 0 {
            return Verdict::Send;
        }
        match self.arrives(now, config, news) {
            Verdict::Nothing => Verdict::Send, // what waits goes to the other port
            verdict => verdict,
        }
    }

    /// What the path carries only in parts, and what comes so.
    pub(crate) fn parts(&mut self) -> &mut Parts {
        &mut self.trials.get_or_insert_default().parts
    }

    /// That, if there is any.
    pub(crate) fn parts_if_any(&mut self) -> Option<&mut Parts> {
        self.trials.as_mut().map(|trials| &mut trials.parts)
    }

    fn end_tries(&mut self) -> Verdict {
        if let Some(trials) = &mut self.trials {
            trials.tries = None;
        }
        self.leave();
        Verdict::Nothing
    }

    /// Gives the memory back of what is over.
    pub(crate) fn leave(&mut self) {
        let is_over = |trials: &Trials| {
            trials.tries.is_none() && trials.owed.is_empty() && trials.parts.is_empty()
        };
        if self.trials.as_deref().is_some_and(is_over) {
            self.trials = None;
        }
    }

    /// Nothing is tried, or answered, any more.
    pub(crate) fn end(&mut self) {
        (self.trials, self.may_grow) = (None, false);
    }
}

fn own_len_max(path: &Path) -> u16 {
    u16::try_from(path.frame_len_max).unwrap_or(u16::MAX)
}
