//! A group of processes, each on a host of its own, as one of them sees it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use wiglaf_link_udp::{BulkSocket, join_group};

use crate::message::{MESSAGE_LEN_MAX, Message, Purpose, Refused};
use crate::plan::Plan;
use crate::repair::{Repair, Shared};
use crate::sockets::{self, Counts, Ready, Seen, Sockets};

/// Longest broadcast that is sent before anybody has said that it is waited for, in bytes: a dozen frames, of which
/// the default receive buffer of Linux (208 KiB) holds several broadcasts.
const UNASKED_LEN_MAX: usize = 16 << 10;
/// Most bytes of a longer one that are on their way: that buffer holds them with the kernel's overhead for each frame.
const WINDOW_LEN_MAX: usize = 128 << 10;
/// What losses leave of it.
const WINDOW_LEN_MIN: usize = 16 << 10;
/// A receiver tells the root after so many operations, or
const TELL_COUNT: usize = 64;
/// after so many bytes, that it has them; a quarter of what a root keeps.
const TELL_LEN: usize = 64 << 10;
/// Asked again after this time without an answer, then after twice as long, and so on, up to the second.
const RETRY: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(160)];
/// A gap is asked for at once, but not more often: the answer takes a round trip and its own time on the wire.
const GAP_PAUSE: Duration = Duration::from_millis(2);
/// The longest sleep: the MPI has to go on meanwhile, and does not say when.
const NAP: Duration = Duration::from_millis(1);
/// The MPI is let go on when an operation has lasted so long, and then once in each nap. A look into its queues may sleep
/// for some milliseconds (ADR 0039), and what comes for the group waits meanwhile: with looks every 1 ms from the
/// beginning on, 8 ranks that shared 2 cores took 1.5 to 2 times as long for short operations (virtual machine,
/// 2026-11-29).
const PROGRESS_AFTER: Duration = Duration::from_millis(4);
/// Most bytes, and messages, of operations that this member has not come to yet.
const EARLY_LEN_MAX: usize = 256 << 10;
const EARLY_COUNT_MAX: usize = 1024;
/// How often the first frame to all is sent: one that comes through is enough.
const TRIALS: usize = 3;
/// Between two of them.
const TRIAL_PAUSE: Duration = Duration::from_millis(5);

/// A socket failed.
#[derive(Debug)]
pub struct GroupError(io::Error);

impl std::fmt::Display for GroupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a socket of a group of hosts failed: {}", self.0)
    }
}

impl std::error::Error for GroupError {}

impl From<io::Error> for GroupError {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

type Result<T> = std::result::Result<T, GroupError>;

/// What goes on elsewhere while a member waits: the MPI's own messages.
pub type Progress<'a> = dyn FnMut() + 'a;

/// What a root makes of the contributions of all, by rank, into the bytes that all get.
pub type Combine<'a> = dyn FnMut(&[Vec<u8>], &mut [u8]) + 'a;

/// A member of a group. All members call the same operations in the same order.
#[derive(Debug)]
pub struct Group {
    plan: Plan,
    sockets: Sockets,
    shared: Arc<Shared>,
    /// All operations below it lie behind this member: it is the number of the one that it is in.
    operation: u64,
    /// Below which number operations lie behind each member, as far as it has said.
    done_of: Vec<u64>,
    early: Early,
    /// What was heard of each root since it was last told: operations and bytes.
    untold: Vec<(usize, usize)>,
    window: usize,
    /// The last, as it ends first.
    _repair: Repair,
}

impl Group {
    /// Joins the group. `own` is bound at this member's own address, `repair` at its address for repairs.
    ///
    /// # Errors
    /// When its address cannot be listened at, or no thread can be started.
    pub fn join(plan: Plan, own: BulkSocket, repair: BulkSocket) -> Result<Self> {
        let ip = *plan.members[usize::from(plan.rank)].own.ip();
        let shared_host = plan.members.iter().filter(|member| *member.own.ip() == ip).count() > 1;
        sockets::prepare(&own, ip, shared_host)?;
        let all = BulkSocket::from_socket(join_group(plan.group, ip)?)?;
        let window = all.window_len().min(WINDOW_LEN_MAX);
        let shared = Arc::new(Shared::default());
        let size = plan.members.len();
        let mut done_of = vec![0; size];
        done_of[usize::from(plan.rank)] = u64::MAX;
        Ok(Self {
            sockets: Sockets::new(all, own, plan.lose_one_in),
            _repair: Repair::start(plan.clone(), repair, Arc::clone(&shared))?,
            shared,
            operation: 0,
            done_of,
            early: Early::default(),
            untold: vec![(0, 0); size],
            window,
            plan,
        })
    }

    /// Whether a frame that rank 0 sends to the group arrives here within that time. Called before the first operation.
    ///
    /// # Errors
    /// When a socket fails.
    pub fn trial(&mut self, limit: Duration) -> Result<bool> {
        let mut heard = self.plan.rank == 0;
        if heard {
            let trial = self.message(Purpose::Trial);
            for _ in 0..TRIALS {
                self.sockets.send(&self.plan, self.plan.group, &trial)?;
                // A switch may have to learn which ports have members.
                std::thread::sleep(TRIAL_PAUSE);
            }
        } else {
            let until = Instant::now() + limit;
            let mut take = |heard: &mut bool, message: &Message<'_>| {
                *heard |= message.purpose == Purpose::Trial && message.rank == 0;
                Ok(())
            };
            self.until(
                &mut heard,
                &mut || {},
                &mut take,
                &|heard, _| *heard || Instant::now() >= until,
                &mut |_, _, _| Ok(()),
            )?;
        }
        self.finish();
        Ok(heard)
    }

    /// Returns when all members have come here.
    ///
    /// # Errors
    /// When a socket fails.
    pub fn barrier(&mut self, progress: &mut Progress<'_>) -> Result<()> {
        self.combine(&[], &mut [], &mut |_, _| {}, progress)
    }

    /// Sends each member's `own` bytes, as many of each, to rank 0, which combines them and sends all the outcome.
    ///
    /// # Errors
    /// When a socket fails.
    ///
    /// # Panics
    /// When `own` is longer than [`Plan::part_len`].
    pub fn combine(
        &mut self,
        own: &[u8],
        into: &mut [u8],
        combine: &mut Combine<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        assert!(own.len() <= self.plan.part_len, "a contribution is one datagram");
        if self.plan.rank == 0 {
            let said = self.gather(own, progress)?;
            combine(&said, into);
            self.send_short(into, progress)?;
        } else {
            self.receive_short(0, into, Some(own), progress)?;
            self.untold[0] = (0, 0);
        }
        self.finish();
        Ok(())
    }

    /// Sends the root's bytes to all.
    ///
    /// # Errors
    /// When a socket fails.
    ///
    /// # Panics
    /// When they are more than [`MESSAGE_LEN_MAX`].
    pub fn broadcast(
        &mut self,
        bytes: &mut [u8],
        root: u16,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        assert!(bytes.len() <= MESSAGE_LEN_MAX, "offsets have 32 bits");
        let is_root = self.plan.rank == root;
        match (bytes.len() <= UNASKED_LEN_MAX, is_root) {
            (true, true) => self.send_short(bytes, progress)?,
            (true, false) => self.receive_short(root, bytes, None, progress)?,
            (false, true) => {
                self.gather(&[], progress)?;
                self.send_windows(bytes, progress)?;
            }
            (false, false) => self.receive_windows(root, bytes, progress)?,
        }
        self.finish();
        if is_root {
            return Ok(());
        }
        let (count, len) = &mut self.untold[usize::from(root)];
        (*count, *len) = (*count + 1, *len + bytes.len());
        if *count >= TELL_COUNT || *len >= TELL_LEN {
            (*count, *len) = (0, 0);
            let done = self.message(Purpose::Done);
            self.sockets.send(&self.plan, self.plan.members[usize::from(root)].own, &done)?;
        }
        Ok(())
    }

    /// What was refused, asked for and sent again.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.shared.counts.seen()
    }

    /// What counts it, also when the group is gone.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.shared.counts)
    }

    /// The address for datagrams to this member alone.
    #[must_use]
    pub fn address(&self) -> std::net::SocketAddrV4 {
        self.plan.members[usize::from(self.plan.rank)].own
    }

    /// This member's place.
    #[must_use]
    pub fn rank(&self) -> u16 {
        self.plan.rank
    }

    fn finish(&mut self) {
        self.operation += 1;
        self.shared.done.store(self.operation, Ordering::Release);
    }

    /// A message of this operation that says no more than its purpose.
    fn message(&self, purpose: Purpose) -> Message<'static> {
        Message {
            purpose,
            rank: self.plan.rank,
            operation: self.operation,
            offset: 0,
            total: 0,
            done: self.operation,
            body: &[],
        }
    }

    fn arrival<'a>(&self, own: &'a [u8]) -> Message<'a> {
        Message { total: own.len() as u32, body: own, ..self.message(Purpose::Arrive) }
    }

    /// The root waits for the arrival and the contribution of each member.
    fn gather(&mut self, own: &[u8], progress: &mut Progress<'_>) -> Result<Vec<Vec<u8>>> {
        let mut said: Vec<Option<Vec<u8>>> = vec![None; self.plan.members.len()];
        said[usize::from(self.plan.rank)] = Some(own.to_vec());
        let mut state = (said, self.plan.members.len() - 1);
        let mut take = |(said, missing): &mut (Vec<Option<Vec<u8>>>, usize),
                        message: &Message<'_>| {
            if message.purpose != Purpose::Arrive {
                return Ok(());
            }
            if message.body.len() != own.len() {
                return Err(Refused::Part);
            }
            let place = &mut said[usize::from(message.rank)];
            if place.is_none() {
                *place = Some(message.body.to_vec());
                *missing -= 1;
            }
            Ok(())
        };
        // A member that has not arrived will send its arrival, again and again until it is answered.
        self.until(&mut state, progress, &mut take, &|state, _| state.1 == 0, &mut |_, _, _| {
            Ok(())
        })?;
        Ok(state.0.into_iter().flatten().collect())
    }

    /// The root sends a short message to all, and keeps it for repairs.
    fn send_short(&mut self, bytes: &[u8], progress: &mut Progress<'_>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        //= docs/protocol.md#13-frames-to-all-hosts-of-a-group
        //# A root MUST keep what it has sent until all members have said that the operation lies behind them, or have it whole.
        let has_space = |_: &(), done_of: &[u64]| {
            let mut kept = shared.kept();
            kept.forget_below(done_of.iter().copied().min().unwrap_or(0));
            kept.has_space(bytes.len())
        };
        if !has_space(&(), &self.done_of) {
            let ping = self.message(Purpose::Ping);
            // Members report their progress unasked; this replaces a report that was lost.
            let mut late =
                |(): &mut (), sockets: &mut Sockets, plan: &Plan| ping_others(sockets, plan, &ping);
            self.until(&mut (), progress, &mut |(), _| Ok(()), &has_space, &mut late)?;
        }
        // Kept before it is sent, because a member that misses it may ask at once.
        shared.kept().add(self.operation, bytes.into());
        let numbers = (self.operation, self.operation);
        self.sockets.send_parts(&self.plan, self.plan.group, numbers, bytes, 0..bytes.len())?;
        Ok(())
    }

    /// A member waits for a short message. `said` is the contribution that the root needs first.
    fn receive_short(
        &mut self,
        root: u16,
        into: &mut [u8],
        said: Option<&[u8]>,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let arrival = said.map(|own| self.arrival(own));
        if let Some(arrival) = &arrival {
            self.sockets.send(&self.plan, self.plan.members[usize::from(root)].own, arrival)?;
        }
        let ask = self.message(Purpose::Ask);
        let shared = Arc::clone(&self.shared);
        let mut state = Assembly::new(into, self.plan.part_len);
        let mut late = |state: &mut Assembly<'_>, sockets: &mut Sockets, plan: &Plan| {
            let at = plan.members[usize::from(root)];
            if let Some(arrival) = &arrival {
                sockets.send(plan, at.own, arrival)?;
            }
            shared.counts.ask();
            sockets.send(plan, at.repair, &Message { offset: state.first_missing() as u32, ..ask })
        };
        let mut take = |state: &mut Assembly<'_>, message: &Message<'_>| state.take(root, message);
        self.until(&mut state, progress, &mut take, &|state, _| state.is_complete(), &mut late)
    }

    /// The root sends a long message, a window at a time, and returns when all members have it.
    ///
    /// The window shrinks by half where somebody has to ask, and grows by a part for each window that came through
    /// (additive increase, multiplicative decrease: Chiu and Jain, 1989).
    fn send_windows(&mut self, bytes: &[u8], progress: &mut Progress<'_>) -> Result<()> {
        let operation = self.operation;
        let numbers = (operation, operation);
        let part_len = self.plan.part_len;
        let ping = self.message(Purpose::Ping);
        let mut state = SendState { acked: vec![0; self.plan.members.len()], asked: Vec::new() };
        let least = |state: &SendState, done_of: &[u64]| {
            let each = state.acked.iter().zip(done_of);
            let has =
                each.map(|(acked, done)| if *done > operation { bytes.len() } else { *acked });
            has.min().unwrap_or(bytes.len())
        };
        let mut sent = 0;
        let mut grown_at = 0;
        loop {
            let acked = least(&state, &self.done_of);
            if acked == bytes.len() {
                return Ok(());
            }
            for (rank, from) in std::mem::take(&mut state.asked) {
                let from = from - from % part_len;
                // A member that asks for bytes that were not sent yet waits because another member is slow.
                if from < sent {
                    self.window = (self.window / 2).max(WINDOW_LEN_MIN);
                    let to = sent.min(from + self.window);
                    let at = self.plan.members[usize::from(rank)].own;
                    let to = if to == bytes.len() { to } else { to - to % part_len };
                    let count =
                        self.sockets.send_parts(&self.plan, at, numbers, bytes, from..to)?;
                    self.shared.counts.repair(count);
                }
            }
            if acked >= grown_at + self.window {
                self.window = (self.window + part_len).min(WINDOW_LEN_MAX);
                grown_at = acked;
            }
            let window = self.window;
            while sent < bytes.len() && sent < acked + window {
                // Whole parts, one at least, and no more than the window has room for but the rest of a part.
                let room = (acked + window - sent).div_ceil(part_len).min(self.plan.batch_max);
                let end = (sent + room * part_len).min(bytes.len());
                self.sockets.send_parts(&self.plan, self.plan.group, numbers, bytes, sent..end)?;
                sent = end;
            }
            let goes_on = |state: &SendState, done_of: &[u64]| {
                let acked = least(state, done_of);
                let may_send = sent < bytes.len() && sent < acked + window;
                !state.asked.is_empty() || may_send || acked == bytes.len()
            };
            // A member that misses bytes asks; this replaces the last acknowledgement of one that has gone on.
            let mut late = |_: &mut SendState, sockets: &mut Sockets, plan: &Plan| {
                ping_others(sockets, plan, &ping)
            };
            let mut take =
                |state: &mut SendState, message: &Message<'_>| state.take(message, bytes.len());
            self.until(&mut state, progress, &mut take, &goes_on, &mut late)?;
        }
    }

    /// A member receives a long message, and acknowledges its progress.
    fn receive_windows(
        &mut self,
        root: u16,
        into: &mut [u8],
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let at = self.plan.members[usize::from(root)];
        let tell_each = WINDOW_LEN_MIN;
        let (got, ask) = (self.message(Purpose::Got), self.message(Purpose::Ask));
        let arrival = self.arrival(&[]);
        let shared = Arc::clone(&self.shared);
        self.sockets.send(&self.plan, at.own, &arrival)?;
        let mut state = Assembly::new(into, self.plan.part_len);
        let mut told = 0;
        let mut asked_at: Option<Instant> = None;
        while !state.is_complete() {
            let may_ask = asked_at.is_none_or(|at| at.elapsed() >= GAP_PAUSE);
            let goes_on = |state: &Assembly<'_>, _: &[u64]| {
                state.is_complete()
                    || state.first_missing() >= told + tell_each
                    || (may_ask && state.has_gap())
            };
            let mut late = |state: &mut Assembly<'_>, sockets: &mut Sockets, plan: &Plan| {
                // Nothing at all may be the root's not knowing of this member, or the loss of a whole window.
                if !state.has_any() {
                    sockets.send(plan, at.own, &arrival)?;
                }
                shared.counts.ask();
                sockets.send(plan, at.own, &Message { offset: state.first_missing() as u32, ..ask })
            };
            let mut take =
                |state: &mut Assembly<'_>, message: &Message<'_>| state.take(root, message);
            self.until(&mut state, progress, &mut take, &goes_on, &mut late)?;
            let has = state.first_missing();
            if has > told {
                told = has;
                self.sockets.send(&self.plan, at.own, &Message { offset: has as u32, ..got })?;
            }
            if may_ask && state.has_gap() {
                asked_at = Some(Instant::now());
                self.shared.counts.ask();
                self.sockets.send(&self.plan, at.own, &Message { offset: has as u32, ..ask })?;
            }
        }
        Ok(())
    }

    /// Receives messages of this operation until `is_done`. Calls `late` when none has come for the retry time.
    fn until<S>(
        &mut self,
        state: &mut S,
        progress: &mut Progress<'_>,
        take: &mut dyn FnMut(&mut S, &Message<'_>) -> std::result::Result<(), Refused>,
        is_done: &dyn Fn(&S, &[u64]) -> bool,
        late: &mut dyn FnMut(&mut S, &mut Sockets, &Plan) -> io::Result<()>,
    ) -> Result<()> {
        let Self { plan, sockets, shared, operation, done_of, early, .. } = self;
        let refuse = |outcome: std::result::Result<(), Refused>| {
            if let Err(why) = outcome {
                shared.counts.refuse(why);
            }
        };
        early.give(*operation, |message| refuse(take(state, message)));
        let mut pause = RETRY[0];
        let mut quiet_since: Option<Instant> = None;
        let begun = Instant::now();
        let mut retry_at = begun + pause;
        let mut progress_at = begun + PROGRESS_AFTER;
        while !is_done(state, done_of) {
            let quiet = quiet_since.map_or(Duration::ZERO, |since| since.elapsed());
            let polls = plan.waiting.never_sleeps || quiet < plan.waiting.polls;
            let ready = if polls { Ready::UNKNOWN } else { sockets.wait(NAP)? };
            let mut has_come = false;
            let count = sockets.receive(ready, plan, &shared.counts, |message| {
                let done = &mut done_of[usize::from(message.rank)];
                *done = message.done.max(*done);
                if message.operation == *operation {
                    has_come = true;
                    refuse(take(state, message));
                } else if message.operation > *operation {
                    refuse(early.add(message));
                }
            })?;
            if count > 0 {
                quiet_since = None;
                if has_come {
                    retry_at = Instant::now() + pause;
                }
                continue;
            }
            let now = Instant::now();
            quiet_since.get_or_insert(now);
            if now >= progress_at {
                progress();
                progress_at = now + NAP;
            }
            if now >= retry_at {
                late(state, sockets, plan)?;
                pause = (pause * 2).min(RETRY[1]);
                retry_at = now + pause;
            }
            if polls {
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}

/// Asks the repair threads of all other members how far they are.
fn ping_others(sockets: &mut Sockets, plan: &Plan, ping: &Message<'_>) -> io::Result<()> {
    let own = usize::from(plan.rank);
    let mut others = plan.members.iter().enumerate().filter(|(rank, _)| *rank != own);
    others.try_for_each(|(_, member)| sockets.send(plan, member.repair, ping))
}

/// The root's view of a long message: the members' progress, and their requests.
struct SendState {
    acked: Vec<usize>,
    asked: Vec<(u16, usize)>,
}

impl SendState {
    fn take(&mut self, message: &Message<'_>, len: usize) -> std::result::Result<(), Refused> {
        let offset = message.offset as usize;
        if offset > len {
            return Err(Refused::Part);
        }
        let acked = &mut self.acked[usize::from(message.rank)];
        match message.purpose {
            Purpose::Got => *acked = offset.max(*acked),
            Purpose::Ask if !self.asked.iter().any(|(rank, _)| *rank == message.rank) => {
                *acked = offset.max(*acked);
                self.asked.push((message.rank, offset));
            }
            _ => {}
        }
        Ok(())
    }
}

/// A message that is being put together.
struct Assembly<'a> {
    into: &'a mut [u8],
    part_len: usize,
    has: Vec<bool>,
    missing: usize,
    /// All parts before it are there.
    first: usize,
    /// All parts from it on are missing.
    end: usize,
}

impl<'a> Assembly<'a> {
    fn new(into: &'a mut [u8], part_len: usize) -> Self {
        // Nothing is a part, too.
        let parts = into.len().div_ceil(part_len).max(1);
        Self { into, part_len, has: vec![false; parts], missing: parts, first: 0, end: 0 }
    }

    fn take(&mut self, root: u16, message: &Message<'_>) -> std::result::Result<(), Refused> {
        if message.purpose != Purpose::Data {
            return Ok(());
        }
        if message.rank != root || message.total as usize != self.into.len() {
            return Err(Refused::Part);
        }
        let offset = message.offset as usize;
        let part = offset / self.part_len;
        let len = self.part_len.min(self.into.len().saturating_sub(offset));
        let fits = offset.is_multiple_of(self.part_len) && message.body.len() == len;
        let Some(has) = self.has.get_mut(part).filter(|_| fits) else { return Err(Refused::Part) };
        if *has {
            return Ok(());
        }
        *has = true;
        self.into[offset..offset + len].copy_from_slice(message.body);
        self.missing -= 1;
        self.end = self.end.max(part + 1);
        while self.has.get(self.first) == Some(&true) {
            self.first += 1;
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.missing == 0
    }

    fn has_any(&self) -> bool {
        self.end > 0
    }

    fn has_gap(&self) -> bool {
        self.first < self.end
    }

    /// The first byte that is missing, or the length.
    fn first_missing(&self) -> usize {
        (self.first * self.part_len).min(self.into.len())
    }
}

/// What has come of operations that this member has not come to.
#[derive(Debug, Default)]
struct Early {
    messages: Vec<(Message<'static>, Vec<u8>)>,
    len: usize,
}

impl Early {
    fn add(&mut self, message: &Message<'_>) -> std::result::Result<(), Refused> {
        let len = self.len + message.body.len();
        if len > EARLY_LEN_MAX || self.messages.len() >= EARLY_COUNT_MAX {
            return Err(Refused::Early);
        }
        self.len = len;
        self.messages.push((Message { body: &[], ..*message }, message.body.to_vec()));
        Ok(())
    }

    /// Hands over those of that operation, and drops those before it.
    fn give(&mut self, operation: u64, mut take: impl FnMut(&Message<'_>)) {
        let Self { messages, len } = self;
        messages.retain(|(message, body)| {
            if message.operation == operation {
                take(&Message { body, ..*message });
            }
            let stays = message.operation > operation;
            *len -= if stays { 0 } else { body.len() };
            stays
        });
    }
}
