//! The server: one process on a file's node, for one client.
//!
//! It has no thread: it takes requests as they come, carries each out with
//! plain system calls, and answers. File content moves between its buffers and
//! the client's memory by rendezvous when it is long, so that several long
//! reads and writes are under way at once.

mod files;
mod locks;
mod ofd;
mod ranges;
mod session;
/// What client and server say to each other before the first message.
pub(crate) mod words {
    pub(crate) use super::session::{GREETING, REFUSED, open_endpoint, read_address, spell};
}

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use wiglaf_endpoint::{ActiveMessage, Endpoint, PeerId, PostError};

use crate::error::{Error, Reason, Result};
use crate::port::{Ended, Label, Lent, Port};
use crate::roots::Roots;
use crate::wire::{DATA_LEN_MAX, Request, status};
use files::{Files, Outcome};

pub use session::{Exports, run};

/// Most bytes in buffers that are under way; further requests wait.
const LENT_LEN_MAX: usize = 32 << 20;
/// A server that was not asked anything for so long sleeps until it is; sooner where others want
/// its core.
const SLEEP_AFTER: Duration = Duration::from_millis(5);
/// How often the line is looked at while there is work.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long the client's silence is looked over when it has gone.
const NAP_MAX: Duration = Duration::from_millis(100);

/// What was carried out and refused since the server started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Requests that were carried out, well or with an errno of the kernel's.
    pub served: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Messages of somebody else than the client.
    pub strangers: u64,
    /// Refused requests, by [`Reason`].
    pub refused: [u64; 16],
}

impl Counters {
    /// In the order of the protocol.
    fn put(&self) -> Vec<u8> {
        let first = [self.served, self.read_bytes, self.written_bytes, self.strangers];
        first.iter().chain(&self.refused).flat_map(|count| count.to_le_bytes()).collect()
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let word = |i: usize| words.get(i).map(|w| u64::from_le_bytes(*w));
        let mut refused = [0; 16];
        for (i, count) in refused.iter_mut().enumerate() {
            *count = word(4 + i)?;
        }
        rest.is_empty().then_some(())?;
        let [served, read_bytes, written_bytes, strangers] =
            [word(0)?, word(1)?, word(2)?, word(3)?];
        Some(Self { served, read_bytes, written_bytes, strangers, refused })
    }
}

/// A buffer that is under way.
#[derive(Debug)]
enum UnderWay {
    /// File content goes to the client.
    Answer(Lent),
    /// File content comes from the client, to be written.
    Content { id: u64, handle: u32, offset: u64, len: usize, lent: Lent },
}

/// An answer for which there was no room.
#[derive(Debug)]
struct Waiting {
    id: u64,
    status: u64,
    payload: Vec<u8>,
    len: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Server {
    port: Port,
    client: PeerId,
    files: Files,
    /// By context - 1: context 0 is what nobody waits for.
    under_way: Vec<Option<UnderWay>>,
    lent_len: usize,
    /// Buffers of [`DATA_LEN_MAX`] bytes, to be used again.
    spare: Vec<Vec<u8>>,
    waiting: VecDeque<Waiting>,
    counters: Counters,
}

impl Server {
    pub(crate) fn new(endpoint: Endpoint, client: PeerId, roots: Roots) -> Self {
        Self {
            port: Port::new(endpoint),
            client,
            files: Files::new(roots),
            under_way: Vec::new(),
            lent_len: 0,
            spare: Vec::new(),
            waiting: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Serves until `line` ends: it is the client's end of a pipe, which the
    /// kernel closes however the client dies.
    pub(crate) fn run(&mut self, line: BorrowedFd<'_>) {
        //= docs/files-protocol.md#2-sessions
        //# A server MUST end when its line ends.
        let mut last_work = Instant::now();
        let mut looked = last_work;
        loop {
            let busy = self.turn();
            let now = Instant::now();
            // Also while something comes all the time, be it from strangers.
            if now.duration_since(looked) >= LOOK_EVERY {
                looked = now;
                if has_ended(line, Duration::ZERO, &[]) {
                    return;
                }
            }
            if busy {
                last_work = now;
                continue;
            }
            // Nothing tells when another client's server, or a program, gives a lock back.
            let locks = self.files.until_locks(now);
            let is_fresh = now.duration_since(last_work) < SLEEP_AFTER;
            if locks.is_none() && is_fresh {
                self.port.endpoint.idle();
            } else if let Some(nap) = self.port.endpoint.lie_down(NAP_MAX) {
                let fds: Vec<_> = nap.fds().collect();
                let limit = locks.map_or(nap.limit(), |locks| locks.min(nap.limit()));
                let ended = has_ended(line, limit, &fds);
                drop(fds);
                self.port.endpoint.get_up();
                if ended {
                    return;
                }
            }
        }
    }

    /// Does what there is to do; false when that was nothing.
    fn turn(&mut self) -> bool {
        let mut busy = self.port.endpoint.progress();
        while let Some(ended) = self.port.next_end() {
            self.end(&ended);
            busy = true;
        }
        while let Some(answer) = self.waiting.pop_front() {
            let Waiting { id, status, payload, len } = answer;
            if !self.send(id, status, payload, len) {
                break;
            }
        }
        while self.lent_len < LENT_LEN_MAX && self.waiting.is_empty() {
            let Some(message) = self.port.endpoint.pop_active() else { break };
            self.request(&message);
            busy = true;
        }
        let now = Instant::now();
        if self.files.until_locks(now) == Some(Duration::ZERO) {
            for (id, outcome) in self.files.ask_for_locks(now) {
                self.answer(id, outcome);
                busy = true;
            }
        }
        busy
    }

    fn request(&mut self, message: &ActiveMessage) {
        //= docs/files-protocol.md#2-sessions
        //# A server MUST ignore requests of anybody but the client that it was started for, and count them.
        if message.source != self.client {
            self.counters.strangers += 1;
            return;
        }
        let id = message.data.unwrap_or(0);
        let request = match Request::parse(message.handler, &message.payload) {
            Ok(Some(request)) => request,
            Ok(None) => return self.refuse(id, Error::new(Errno::NOSYS, Reason::Unknown)),
            Err(_) => return self.refuse(id, Error::new(Errno::PROTO, Reason::Malformed)),
        };
        match request {
            Request::Read { handle, len, offset } => self.read(id, handle, len as usize, offset),
            Request::WriteBulk { handle, len, offset } => {
                self.expect_content(id, handle, len as usize, offset);
            }
            Request::Write { handle, offset, bytes } => {
                let outcome = self.files.write(handle, bytes, offset);
                self.finish_write(id, outcome);
            }
            Request::Lock { handle, lock, waits } => {
                if let Some(outcome) = self.files.lock(id, handle, &lock, waits) {
                    self.answer(id, outcome);
                }
            }
            //= docs/files-protocol.md#32-locks
            //# A server MUST answer the LOCK with EINTR that an END WAIT is about, and MUST NOT take that lock then.
            Request::EndWait { id: wait } => {
                if self.files.end_wait(wait) {
                    self.answer(wait, Err(Errno::INTR.into()));
                }
                self.answer(id, Ok(Outcome::default()));
            }
            Request::Counters => {
                let payload = self.counters.put();
                self.answer(id, Ok(Outcome::with(0, payload)));
            }
            other => {
                let outcome = self.files.carry_out(&other);
                self.answer(id, outcome);
            }
        }
    }

    fn read(&mut self, id: u64, handle: u32, len: usize, offset: u64) {
        let mut buffer = self.spare.pop().unwrap_or_else(|| vec![0; DATA_LEN_MAX]);
        match self.files.read(handle, &mut buffer[..len], offset) {
            Ok(got) => {
                self.counters.served += 1;
                self.counters.read_bytes += got as u64;
                self.send(id, status(&Ok(got as u64)), buffer, got);
            }
            Err(error) => {
                self.spare.push(buffer);
                self.answer(id, Err(error));
            }
        }
    }

    /// Makes room for the content of a long write, which comes by itself.
    fn expect_content(&mut self, id: u64, handle: u32, len: usize, offset: u64) {
        let buffer = self.spare.pop().unwrap_or_else(|| vec![0; DATA_LEN_MAX]);
        let mut lent = Lent::new(buffer);
        let region = lent.region(len);
        self.lent_len += DATA_LEN_MAX;
        let slot = self.keep(UnderWay::Content { id, handle, offset, len, lent });
        // SAFETY: the buffer stays in `under_way`, untouched, until the end is reported.
        let posted = unsafe { self.port.receive(self.client, id, &[region], slot + 1) };
        if posted.is_err() {
            // No link is left: nothing comes any more, and nobody waits.
            self.release(slot);
        }
    }

    fn end(&mut self, ended: &Ended) {
        let Some(slot) = ended.context.checked_sub(1) else { return };
        match self.release(slot) {
            Some(UnderWay::Content { id, handle, offset, len, lent }) => {
                let buffer = lent.back();
                //= docs/files-protocol.md#4-file-content
                //# A server MUST NOT write any byte of a WRITE BULK unless all of its content has arrived.
                let outcome = if ended.ok && ended.is_receive && ended.len == len {
                    self.files.write(handle, &buffer[..len], offset)
                } else {
                    Err(Error::new(Errno::PROTO, Reason::Malformed))
                };
                self.recycle(buffer);
                self.finish_write(id, outcome);
            }
            Some(UnderWay::Answer(lent)) => self.recycle(lent.back()),
            None => {}
        }
    }

    fn finish_write(&mut self, id: u64, outcome: Result<Outcome>) {
        if let Ok(done) = &outcome {
            self.counters.written_bytes += done.count;
        }
        self.answer(id, outcome);
    }

    fn refuse(&mut self, id: u64, error: Error) {
        self.answer(id, Err(error));
    }

    fn answer(&mut self, id: u64, outcome: Result<Outcome>) {
        let reason = outcome.as_ref().err().map_or(Reason::Kernel, Error::reason);
        match reason {
            Reason::Kernel => self.counters.served += 1,
            reason => self.counters.refused[reason as usize] += 1,
        }
        let (count, payload) = match outcome {
            Ok(Outcome { count, payload }) => (Ok(count), payload),
            Err(error) => (Err(error), Vec::new()),
        };
        let len = payload.len();
        self.send(id, status(&count), payload, len);
    }

    /// Sends an answer, or keeps it where there is no room; false then.
    fn send(&mut self, id: u64, status: u64, payload: Vec<u8>, len: usize) -> bool {
        let label = Label { to: self.client, is_request: false, tag: id, data: status };
        let payload = if len <= self.port.inject_len_max() {
            let sent = self.port.inject(label, &payload[..len]);
            if sent != Err(PostError::Again) {
                self.recycle(payload);
                return true;
            }
            payload
        } else {
            let mut lent = Lent::new(payload);
            let region = lent.region(len);
            self.lent_len += DATA_LEN_MAX;
            let slot = self.keep(UnderWay::Answer(lent));
            // SAFETY: the buffer stays in `under_way`, unchanged, until the end is reported.
            match unsafe { self.port.send(label, &[region], slot + 1) } {
                Ok(()) => return true,
                Err(why) => match self.release(slot) {
                    Some(UnderWay::Answer(lent)) if why == PostError::Again => lent.back(),
                    // Who is gone needs no answer.
                    _ => return true,
                },
            }
        };
        self.waiting.push_front(Waiting { id, status, payload, len });
        false
    }

    fn keep(&mut self, what: UnderWay) -> usize {
        match self.under_way.iter().position(Option::is_none) {
            Some(slot) => {
                self.under_way[slot] = Some(what);
                slot
            }
            None => {
                self.under_way.push(Some(what));
                self.under_way.len() - 1
            }
        }
    }

    fn release(&mut self, slot: usize) -> Option<UnderWay> {
        let what = self.under_way.get_mut(slot)?.take()?;
        self.lent_len -= DATA_LEN_MAX;
        Some(what)
    }

    /// Keeps a buffer of the full length for the next request.
    fn recycle(&mut self, buffer: Vec<u8>) {
        if buffer.len() == DATA_LEN_MAX && self.spare.len() * DATA_LEN_MAX < LENT_LEN_MAX {
            self.spare.push(buffer);
        }
    }
}

/// Sleeps on the line and `others`; true when the client has gone.
fn has_ended(line: BorrowedFd<'_>, limit: Duration, others: &[BorrowedFd<'_>]) -> bool {
    let mut polled = vec![PollFd::from_borrowed_fd(line, PollFlags::IN)];
    polled.extend(others.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
    let limit = Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos().into() };
    let _ = poll(&mut polled, Some(&limit));
    if polled[0].revents().is_empty() {
        return false;
    }
    // Nothing more is said on the line: what can be read is its end.
    !matches!(rustix::io::read(line, &mut [0; 64]), Ok(1..) | Err(Errno::INTR | Errno::AGAIN))
}

#[cfg(test)]
mod tests;
