//! Moving file content: a long call is cut into several requests, of which
//! some are under way at once, so that the disk, the wire and the copying on
//! both sides go on side by side.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use wiglaf_endpoint::Region;

use super::OnServer;
use crate::client::{Answer, CallId, NoUnwinding, checked_count};
use crate::error::{Error, Result};
use crate::node::{Node, Place, parse_attributes};
use crate::port::Lent;
use crate::wire::{APPEND, Attributes, DATA_LEN_MAX, INLINE_LEN_MAX, Request};

/// Bytes that one request of a long call moves.
pub(crate) const CHUNK_LEN: usize = 256 * 1024;
/// Requests of a long call that are under way at once.
const WINDOW: usize = 4;

const _: () = assert!(CHUNK_LEN <= DATA_LEN_MAX && INLINE_LEN_MAX <= CHUNK_LEN);

impl OnServer<'_> {
    /// Reads from `offset` on.
    pub(crate) fn read_at(self, into: &mut [u8], offset: u64) -> Result<usize> {
        if into.len() <= CHUNK_LEN {
            let len = into.len() as u32;
            let request = Request::Read { handle: self.handle, len, offset };
            // A call without room would give its answer a buffer of its own.
            let answer = match into.is_empty() {
                true => self.remote.call(&request)?,
                false => self.remote.client.call_into(self.remote.server, &request, into)?,
            };
            return read_count(&answer, into.len());
        }
        let guard = NoUnwinding;
        let start = into.as_mut_ptr();
        let outcome = self.long(into.len(), offset, |at, len, offset| {
            let region = Region { ptr: start.wrapping_add(at), len };
            // SAFETY: `long` returns when all requests have ended; until then
            // `into` is borrowed, and unwinding ends the process.
            unsafe { self.start_read(region, offset) }
        });
        drop(guard);
        outcome
    }

    /// Writes from `offset` on, or at the end of a file that is appended to;
    /// answers the count and the position behind.
    pub(crate) fn write_at(self, bytes: &[u8], offset: u64) -> Result<(usize, u64)> {
        if self.appends {
            return self.append(bytes, offset);
        }
        if bytes.len() <= CHUNK_LEN {
            let answer = self.remote.client.call_with(
                self.remote.server,
                &self.write_request(bytes, offset),
                bytes,
            )?;
            let count = checked_count(&answer, bytes.len())?;
            return Ok((count, offset + count as u64));
        }
        let guard = NoUnwinding;
        let outcome = self.long(bytes.len(), offset, |at, len, offset| {
            let piece = &bytes[at..at + len];
            let region = Region { ptr: piece.as_ptr().cast_mut(), len };
            let request = self.write_request(piece, offset);
            // SAFETY: as in `read_at`; sends only read.
            unsafe { self.remote.client.start(self.remote.server, &request, &[region], &[]) }
        });
        drop(guard);
        outcome.map(|count| (count, offset + count as u64))
    }

    /// One request after the other, as their order is that in the file.
    pub(super) fn append(self, bytes: &[u8], offset: u64) -> Result<(usize, u64)> {
        let (mut done, mut end) = (0, offset);
        loop {
            let piece = &bytes[done..(done + DATA_LEN_MAX).min(bytes.len())];
            let request = self.write_request(piece, APPEND);
            let answer = self.remote.client.call_with(self.remote.server, &request, piece);
            let answer = match answer {
                Err(error) if done == 0 => return Err(error),
                Err(_) => return Ok((done, end)),
                Ok(answer) => answer,
            };
            let count = checked_count(&answer, piece.len())?;
            end = match answer.bytes.as_slice().try_into() {
                // Nothing is written nowhere: the position stays.
                _ if piece.is_empty() => end,
                Ok(position) => u64::from_le_bytes(position),
                Err(_) => end + count as u64,
            };
            done += count;
            if count < piece.len() || done == bytes.len() {
                return Ok((done, end));
            }
        }
    }

    pub(crate) fn write_request<'b>(&self, bytes: &'b [u8], offset: u64) -> Request<'b> {
        let handle = self.handle;
        match bytes.len() <= INLINE_LEN_MAX {
            true => Request::Write { handle, offset, bytes },
            false => Request::WriteBulk { handle, len: bytes.len() as u32, offset },
        }
    }

    /// # Safety
    /// The region must stay valid and untouched until the call has ended.
    unsafe fn start_read(self, region: Region, offset: u64) -> Result<CallId> {
        let request = Request::Read { handle: self.handle, len: region.len as u32, offset };
        // SAFETY: handed on from our caller.
        unsafe { self.remote.client.start(self.remote.server, &request, &[], &[region]) }
    }

    /// Cuts a long call into requests, started by `start` (position in the
    /// call, length, offset), and answers the bytes up to the first that was
    /// not whole. No request is under way when it returns.
    fn long(
        self,
        len: usize,
        offset: u64,
        mut start: impl FnMut(usize, usize, u64) -> Result<CallId>,
    ) -> Result<usize> {
        let mut under_way = VecDeque::with_capacity(WINDOW);
        let (mut begun, mut done) = (0, 0);
        let mut outcome = Ok(());
        loop {
            while outcome.is_ok() && begun < len && under_way.len() < WINDOW {
                let piece = (len - begun).min(CHUNK_LEN);
                match start(begun, piece, offset + begun as u64) {
                    Ok(call) => under_way.push_back((call, piece)),
                    Err(error) => outcome = Err(Some(error)),
                }
                begun += piece;
            }
            let Some((call, piece)) = under_way.pop_front() else { break };
            let count = self.remote.client.wait(call).and_then(|a| checked_count(&a, piece));
            if outcome.is_err() {
                continue; // what lies behind a gap does not count
            }
            match count {
                Ok(count) => {
                    done += count;
                    if count < piece {
                        outcome = Err(None);
                    }
                }
                Err(error) => outcome = Err(Some(error)),
            }
        }
        match outcome {
            Err(Some(error)) if done == 0 => Err(error),
            // The next call finds the cause.
            _ => Ok(done),
        }
    }

    pub(crate) fn attributes(self) -> Result<Attributes> {
        let request = Request::StatHandle { handle: self.handle };
        parse_attributes(&self.remote.call(&request)?)
    }
}

/// The bytes of an answer, which must be as many as its status says.
fn read_count(answer: &Answer, most: usize) -> Result<usize> {
    let count = checked_count(answer, most)?;
    match count == answer.len || most == 0 {
        true => Ok(count),
        false => Err(Error::new(rustix::io::Errno::PROTO, crate::error::Reason::BadAnswer)),
    }
}

/// A call with a buffer of its own that is under way.
#[derive(Debug)]
pub(crate) struct Pending {
    node: Node,
    handle: u32,
    call: Option<CallId>,
    lent: Option<Lent>,
    len: usize,
}

impl Pending {
    /// Begins to read into `buffer`.
    pub(crate) fn read(file: OnServer<'_>, buffer: Vec<u8>, offset: u64) -> Result<Self> {
        let len = buffer.len();
        let mut lent = Lent::new(buffer);
        let region = lent.region(len);
        // SAFETY: the buffer stays in `lent` until the call has been waited for.
        let call = unsafe { file.start_read(region, offset) }?;
        Ok(Self::new(file, call, lent, len))
    }

    /// Begins to write what `buffer` holds.
    pub(crate) fn write(file: OnServer<'_>, buffer: Vec<u8>, offset: u64) -> Result<Self> {
        let len = buffer.len();
        let request_is_inline = len <= INLINE_LEN_MAX;
        let mut lent = Lent::new(buffer);
        let region = lent.region(len);
        let client = &file.remote.client;
        let (handle, server) = (file.handle, file.remote.server);
        let call = if request_is_inline {
            let buffer = lent.back();
            let request = Request::Write { handle, offset, bytes: &buffer };
            // SAFETY: the buffer is moved back to `lent`, which does not move its
            // bytes, and stays there until the call has been waited for.
            let call = unsafe { client.start(server, &request, &[region], &[]) }?;
            lent = Lent::new(buffer);
            call
        } else {
            let request = Request::WriteBulk { handle, len: len as u32, offset };
            // SAFETY: as above.
            unsafe { client.start(server, &request, &[region], &[]) }?
        };
        Ok(Self::new(file, call, lent, len))
    }

    fn new(file: OnServer<'_>, call: CallId, lent: Lent, len: usize) -> Self {
        let (node, handle) = (file.node.clone(), file.handle);
        Self { node, handle, call: Some(call), lent: Some(lent), len }
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Waits; answers the buffer and the count.
    pub(crate) fn wait(mut self) -> (Vec<u8>, Result<usize>) {
        let count = self.end();
        (self.lent.take().map(Lent::back).unwrap_or_default(), count)
    }

    /// Waits for a write at `offset` to be whole; answers the buffer, too. The rest of one that was
    /// not is sent once more, which finds the cause.
    pub(crate) fn wait_whole(mut self, offset: u64) -> (Vec<u8>, Result<()>) {
        let count = self.end();
        let buffer = self.lent.take().map(Lent::back).unwrap_or_default();
        let whole = count.and_then(|count| match (&buffer[count..], self.node.place()) {
            ([], _) | (_, Place::Local(_)) => Ok(()),
            (rest, Place::Remote(remote)) => {
                let (node, handle) = (&self.node, self.handle);
                let file = OnServer { node, remote, handle, appends: false };
                match file.write_at(rest, offset + count as u64)?.0 {
                    written if written == rest.len() => Ok(()),
                    // It was said to be written: a part of it is not.
                    _ => Err(rustix::io::Errno::NOSPC.into()),
                }
            }
        });
        (buffer, whole)
    }

    fn end(&mut self) -> Result<usize> {
        match (self.call.take(), self.node.place()) {
            (Some(call), Place::Remote(remote)) => {
                remote.client.wait(call).and_then(|answer| checked_count(&answer, self.len))
            }
            _ => Ok(0),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// A read that is under way. Dropping it waits for its end.
#[derive(Debug)]
pub struct ReadRequest {
    node: Option<Node>,
    calls: VecDeque<(CallId, usize)>,
    lent: Option<Lent>,
    /// Of a read that has ended already.
    outcome: Option<Result<usize>>,
}

impl ReadRequest {
    pub(super) fn ended(outcome: Result<usize>) -> Self {
        Self { node: None, calls: VecDeque::new(), lent: None, outcome: Some(outcome) }
    }

    pub(super) fn done(fd: &OwnedFd, len: usize, offset: u64) -> Result<Self> {
        let mut buffer = vec![0; len];
        let outcome = rustix::io::pread(fd, &mut buffer[..], offset).map_err(Error::from);
        let mut request = Self::ended(outcome);
        request.lent = Some(Lent::new(buffer));
        Ok(request)
    }

    pub(super) fn start(file: OnServer<'_>, buffer: Vec<u8>, offset: u64) -> Result<Self> {
        let len = buffer.len();
        let mut lent = Lent::new(buffer);
        // SAFETY: the buffer stays in `lent` until all calls have been waited for.
        let mut request = unsafe { Self::start_into(file, lent.region(len).ptr, len, offset) }?;
        request.lent = Some(lent);
        Ok(request)
    }

    /// # Safety
    /// As for `File::start_read_into`.
    pub(super) unsafe fn start_into(
        file: OnServer<'_>,
        into: *mut u8,
        len: usize,
        offset: u64,
    ) -> Result<Self> {
        let node = Some(file.node.clone());
        let mut request = Self { node, calls: VecDeque::new(), lent: None, outcome: None };
        let mut begun = 0;
        while begun < len {
            let piece = (len - begun).min(DATA_LEN_MAX);
            let region = Region { ptr: into.wrapping_add(begun), len: piece };
            // SAFETY: handed on from our caller; if a later one fails, dropping
            // `request` waits for the earlier ones.
            let call = unsafe { file.start_read(region, offset + begun as u64) }?;
            request.calls.push_back((call, piece));
            begun += piece;
        }
        Ok(request)
    }

    /// Whether it has ended: then waiting returns at once.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        match self.node.as_ref().map(Node::place) {
            Some(Place::Remote(remote)) => {
                self.calls.iter().all(|(call, _)| remote.client.has_ended(*call))
            }
            _ => true,
        }
    }

    /// Waits for its end; answers what was read.
    ///
    /// # Errors
    /// Those of pread(2); `EIO` when the server has ended.
    pub fn wait(mut self) -> Result<Vec<u8>> {
        let count = self.end()?;
        let mut buffer = self.lent.take().map(Lent::back).unwrap_or_default();
        buffer.truncate(count);
        Ok(buffer)
    }

    pub(crate) fn end(&mut self) -> Result<usize> {
        if let Some(outcome) = self.outcome.take() {
            return outcome;
        }
        let mut done = Ok(0);
        let mut is_whole = true;
        while let Some((call, piece)) = self.calls.pop_front() {
            let Some(Place::Remote(remote)) = self.node.as_ref().map(Node::place) else { break };
            let count =
                remote.client.wait_asleep(call).and_then(|answer| checked_count(&answer, piece));
            match (&mut done, count) {
                (Ok(done), Ok(count)) if is_whole => {
                    *done += count;
                    is_whole = count == piece;
                }
                (Ok(0), Err(error)) if is_whole => done = Err(error),
                _ => is_whole = false,
            }
        }
        done
    }
}

impl Drop for ReadRequest {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
