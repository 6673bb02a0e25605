//! Read-ahead and write-behind of one open file; both are off unless asked for.

use std::collections::VecDeque;

use crate::error::{Error, Result};
use crate::file::{CHUNK_LEN, OFFSET_MAX, OnServer, Pending};

/// A part of the file that is being read, or has been.
#[derive(Debug)]
struct Ahead {
    offset: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    UnderWay(Pending),
    /// Bytes, and how many of them have been handed out.
    Here(Vec<u8>, usize),
}

/// A part of the file that is being written.
#[derive(Debug)]
struct Behind {
    offset: u64,
    pending: Pending,
}

impl Behind {
    fn end(&self) -> u64 {
        self.offset + self.pending.len() as u64
    }
}

impl Ahead {
    /// Where the bytes are from that it hands out next.
    fn position(&self) -> u64 {
        match self.state {
            State::UnderWay(_) => self.offset,
            State::Here(_, used) => self.offset + used as u64,
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Buffering {
    ahead_len: usize,
    /// How much of `ahead_len` is read ahead by now: it doubles with each part that was wanted.
    window_len: usize,
    behind_len: usize,
    /// In order, without gaps.
    ahead: VecDeque<Ahead>,
    /// Where the next part ahead begins.
    ahead_end: u64,
    /// Where the last sequential read ended.
    expected: Option<u64>,
    behind: VecDeque<Behind>,
    behind_bytes: usize,
    /// Nothing of what is behind goes beyond.
    behind_end: u64,
    /// The first error of a write that was behind.
    failed: Option<Error>,
    spare: Vec<Vec<u8>>,
}

impl Buffering {
    pub(crate) fn set_ahead(&mut self, len: usize) -> Result<()> {
        self.ahead_len = len;
        self.settle()
    }

    pub(crate) fn set_behind(&mut self, len: usize) -> Result<()> {
        self.behind_len = len;
        self.settle()
    }

    /// Forgets what was read ahead and waits for what was written behind.
    pub(crate) fn settle(&mut self) -> Result<()> {
        self.forget();
        while !self.behind.is_empty() {
            self.finish_oldest();
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Forgets what was read ahead and waits for what was written behind when the file is closed; no buffer is kept.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let outcome = self.settle();
        self.spare.clear();
        outcome
    }

    /// As if the last sequential read had ended at `position`.
    #[cfg(test)]
    pub(crate) fn expect(&mut self, position: u64) {
        self.expected = Some(position);
    }

    fn forget(&mut self) {
        self.ahead.clear();
        self.expected = None;
    }

    fn finish_oldest(&mut self) {
        let Some(Behind { offset, pending }) = self.behind.pop_front() else { return };
        self.behind_bytes -= pending.len();
        let (buffer, whole) = pending.wait_whole(offset);
        self.spare.push(buffer);
        if let Err(error) = whole {
            self.failed.get_or_insert(error);
        }
    }

    /// Waits for what is being written to these bytes: the server writes long content when it has
    /// come, not when it was announced.
    fn finish_overlapping(&mut self, offset: u64, len: usize) {
        let end = offset + len as u64;
        // Who writes on and on is behind all of it: nothing has to be looked through.
        while offset < self.behind_end
            && self.behind.iter().any(|part| part.offset < end && offset < part.end())
        {
            self.finish_oldest();
        }
        if self.behind.is_empty() {
            self.behind_end = 0;
        }
    }

    pub(crate) fn read(
        &mut self,
        file: OnServer<'_>,
        into: &mut [u8],
        position: u64,
    ) -> Result<usize> {
        if !self.behind.is_empty() || self.failed.is_some() {
            self.settle()?;
        }
        if self.ahead_len == 0 {
            return file.read_at(into, position);
        }
        let is_next = |part: &Ahead| part.position() == position;
        if self.expected != Some(position) || !self.ahead.front().is_none_or(is_next) {
            return self.read_alone(file, into, position);
        }
        if self.ahead.is_empty() {
            self.ahead_end = position;
            self.window_len = 2 * into.len();
        }
        let mut done = 0;
        while done < into.len() {
            self.top_up(file)?;
            let got = match self.take(&mut into[done..]) {
                Ok(got) => got,
                Err(error) => {
                    // What lies behind a gap does not count; the next read finds the cause.
                    self.forget();
                    return if done == 0 { Err(error) } else { Ok(done) };
                }
            };
            if got == 0 {
                // The file's end may move: the next read looks again.
                self.forget();
                return Ok(done);
            }
            done += got;
        }
        self.expected = Some(position + done as u64);
        self.top_up(file)?;
        Ok(done)
    }

    /// Only who reads on and on is read ahead for: most files are short, and
    /// end within their first read.
    fn read_alone(&mut self, file: OnServer<'_>, into: &mut [u8], position: u64) -> Result<usize> {
        self.forget();
        let got = file.read_at(into, position)?;
        if got == into.len() {
            self.expected = Some(position + got as u64);
        }
        Ok(got)
    }

    /// Begins reads until as much is ahead as the window allows.
    fn top_up(&mut self, file: OnServer<'_>) -> Result<()> {
        let mut len: usize = self.ahead.len() * CHUNK_LEN;
        while len < self.window_len.min(self.ahead_len).max(CHUNK_LEN) {
            let chunk_len = CHUNK_LEN.min(OFFSET_MAX.saturating_sub(self.ahead_end) as usize);
            if chunk_len == 0 {
                break;
            }
            let mut buffer = self.spare.pop().unwrap_or_default();
            buffer.resize(chunk_len, 0);
            let pending = Pending::read(file, buffer, self.ahead_end)?;
            self.ahead.push_back(Ahead { offset: self.ahead_end, state: State::UnderWay(pending) });
            self.ahead_end += chunk_len as u64;
            len += chunk_len;
        }
        Ok(())
    }

    /// Hands out of the first part.
    fn take(&mut self, into: &mut [u8]) -> Result<usize> {
        let Some(Ahead { offset, state }) = self.ahead.pop_front() else { return Ok(0) };
        let (bytes, used) = match state {
            State::Here(bytes, used) => (bytes, used),
            State::UnderWay(pending) => {
                let (mut bytes, count) = pending.wait();
                let count = count?;
                self.window_len = (2 * self.window_len.max(CHUNK_LEN)).min(self.ahead_len);
                if count < bytes.len() {
                    // Behind a short part there is nothing, and if there is by
                    // now, it begins where this one ends.
                    self.ahead.clear();
                    self.ahead_end = offset + count as u64;
                }
                bytes.truncate(count);
                (bytes, 0)
            }
        };
        let len = into.len().min(bytes.len() - used);
        into[..len].copy_from_slice(&bytes[used..used + len]);
        if used + len < bytes.len() {
            let state = State::Here(bytes, used + len);
            self.ahead.push_front(Ahead { offset, state });
        } else {
            self.spare.push(bytes);
        }
        Ok(len)
    }

    /// Answers the count and the new position.
    pub(crate) fn write(
        &mut self,
        file: OnServer<'_>,
        bytes: &[u8],
        position: u64,
    ) -> Result<(usize, u64)> {
        self.forget();
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.behind_len == 0 || file.appends || bytes.is_empty() {
            self.settle()?;
            return file.write_at(bytes, position);
        }
        let mut done = 0;
        while done < bytes.len() {
            let len = (bytes.len() - done).min(CHUNK_LEN);
            while self.behind_bytes > 0 && self.behind_bytes + len > self.behind_len {
                self.finish_oldest();
            }
            let offset = position + done as u64;
            self.finish_overlapping(offset, len);
            let mut buffer = self.spare.pop().unwrap_or_default();
            buffer.clear();
            buffer.extend_from_slice(&bytes[done..done + len]);
            match Pending::write(file, buffer, offset) {
                Ok(pending) => self.behind.push_back(Behind { offset, pending }),
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            self.behind_end = self.behind_end.max(offset + len as u64);
            self.behind_bytes += len;
            done += len;
        }
        Ok((done, position + done as u64))
    }
}
