//! Open files: reading and writing, at the file's position or anywhere.
//!
//! Nothing is buffered unless [`File::set_read_ahead`] or
//! [`File::set_write_behind`] say so: what [`File::write`] has returned for is
//! what any later read on any node finds.

mod locks;
mod transfer;
mod vectored;

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::buffering::Buffering;
use crate::error::{Error, Result};
use crate::node::{NewTime, Node, Place, Remote};
use crate::wire::{Attributes, Request, WRITE_OVER};
pub use locks::{LockRequest, LockWait};
pub use transfer::ReadRequest;
pub(crate) use transfer::{CHUNK_LEN, Pending};
pub(crate) use vectored::{empty_with_room, fill_piece, len_of};

/// Where a position counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeekFrom {
    /// The file's beginning.
    Start(u64),
    /// The position.
    Current(i64),
    /// The file's end.
    End(i64),
}

/// What the file is to its node.
#[derive(Debug)]
pub(crate) enum Handle {
    Local(OwnedFd),
    Remote { handle: u32, appends: bool },
}

/// An open file. Dropping it closes it.
#[derive(Debug)]
pub struct File {
    node: Node,
    handle: Handle,
    at: Mutex<At>,
    closed: bool,
}

/// What changes with every call at the position; unused for local files,
/// whose descriptors have a position of their own.
#[derive(Debug, Default)]
struct At {
    position: u64,
    buffering: Buffering,
}

/// A remote file, taken apart for a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnServer<'a> {
    pub(crate) node: &'a Node,
    pub(crate) remote: &'a Remote,
    pub(crate) handle: u32,
    pub(crate) appends: bool,
}

enum Side<'a> {
    Local(&'a OwnedFd),
    Remote(OnServer<'a>),
}

impl File {
    pub(crate) fn new(node: Node, handle: Handle) -> Self {
        Self { node, handle, at: Mutex::default(), closed: false }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The node that the file lies on.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    fn at(&self) -> MutexGuard<'_, At> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn side(&self) -> Side<'_> {
        match (&self.handle, self.node.place()) {
            (Handle::Local(fd), _) => Side::Local(fd),
            (Handle::Remote { handle, appends }, Place::Remote(remote)) => Side::Remote(OnServer {
                node: &self.node,
                remote,
                handle: *handle,
                appends: *appends,
            }),
            (Handle::Remote { .. }, Place::Local(_)) => {
                unreachable!("a node with a server has remote files only")
            }
        }
    }

    /// Reads at the position and moves it. Fewer bytes than `into` takes come
    /// only at the file's end, or before an error.
    ///
    /// # Errors
    /// Those of read(2); `EIO` when the server has ended.
    pub fn read(&self, into: &mut [u8]) -> Result<usize> {
        match self.side() {
            Side::Local(fd) => Ok(rustix::io::read(fd, into)?),
            Side::Remote(file) => {
                let mut at = self.at();
                let At { position, buffering } = &mut *at;
                check_range(*position, into.len())?;
                let got = buffering.read(file, into, *position)?;
                *position += got as u64;
                Ok(got)
            }
        }
    }

    /// Writes at the position and moves it.
    ///
    /// # Errors
    /// Those of write(2); `EIO` when the server has ended: then nothing is
    /// known of what this call wrote.
    pub fn write(&self, bytes: &[u8]) -> Result<usize> {
        match self.side() {
            Side::Local(fd) => Ok(rustix::io::write(fd, bytes)?),
            Side::Remote(file) => {
                let mut at = self.at();
                let At { position, buffering } = &mut *at;
                check_range(*position, bytes.len())?;
                let (count, end) = buffering.write(file, bytes, *position)?;
                *position = end;
                Ok(count)
            }
        }
    }

    /// Reads from `offset` on; the position stays.
    ///
    /// # Errors
    /// Those of pread(2); `EIO` when the server has ended.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        check_range(offset, into.len())?;
        match self.side() {
            Side::Local(fd) => Ok(rustix::io::pread(fd, into, offset)?),
            Side::Remote(file) => {
                self.at().buffering.settle()?;
                file.read_at(into, offset)
            }
        }
    }

    /// Writes from `offset` on; the position stays.
    ///
    /// # Errors
    /// Those of pwrite(2); `EIO` when the server has ended.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize> {
        check_range(offset, bytes.len())?;
        match self.side() {
            Side::Local(fd) => Ok(rustix::io::pwrite(fd, bytes, offset)?),
            Side::Remote(file) => {
                self.at().buffering.settle()?;
                Ok(file.write_at(bytes, offset)?.0)
            }
        }
    }

    /// Writes from `offset` on, also where the file was opened to append, which pwrite(2) does not do: pages of a
    /// mapped file are written back this way. The position stays.
    ///
    /// # Errors
    /// Those of pwrite(2); `EIO` when the server has ended; `ENOSYS` on the own
    /// node.
    pub fn write_over(&self, bytes: &[u8], offset: u64) -> Result<usize> {
        check_range(offset, bytes.len())?;
        let Side::Remote(file) = self.side() else { return Err(Errno::NOSYS.into()) };
        self.at().buffering.settle()?;
        let offset = if file.appends { offset | WRITE_OVER } else { offset };
        Ok(OnServer { appends: false, ..file }.write_at(bytes, offset)?.0)
    }

    /// Writes behind the file's end, wherever that is by now and however the file was opened; the
    /// position stays.
    ///
    /// # Errors
    /// Those of write(2); `EIO` when the server has ended; `ENOSYS` on the own
    /// node.
    pub fn append(&self, bytes: &[u8]) -> Result<usize> {
        let Side::Remote(file) = self.side() else { return Err(Errno::NOSYS.into()) };
        self.at().buffering.settle()?;
        Ok(file.append(bytes, 0)?.0)
    }

    /// Begins to read `len` bytes from `offset` on.
    ///
    /// # Errors
    /// `EIO` when the server has ended. What goes wrong later is the request's.
    pub fn start_read(&self, len: usize, offset: u64) -> Result<ReadRequest> {
        check_range(offset, len)?;
        match self.side() {
            Side::Local(fd) => ReadRequest::done(fd, len, offset),
            Side::Remote(file) => {
                self.at().buffering.settle()?;
                ReadRequest::start(file, vec![0; len], offset)
            }
        }
    }

    /// Begins to read `len` bytes from `offset` on into memory of the caller's.
    ///
    /// # Safety
    /// `into` must stay valid for writes of `len` bytes, and untouched, until the
    /// request has been waited for or dropped.
    pub(crate) unsafe fn start_read_into(
        &self,
        into: *mut u8,
        len: usize,
        offset: u64,
    ) -> Result<ReadRequest> {
        check_range(offset, len)?;
        match self.side() {
            Side::Local(fd) => {
                let into: &mut [u8] = match len {
                    0 => &mut [],
                    // SAFETY: our caller promised it.
                    _ => unsafe { std::slice::from_raw_parts_mut(into, len) },
                };
                Ok(ReadRequest::ended(rustix::io::pread(fd, into, offset).map_err(Error::from)))
            }
            Side::Remote(file) => {
                self.at().buffering.settle()?;
                // SAFETY: handed on from our caller.
                unsafe { ReadRequest::start_into(file, into, len, offset) }
            }
        }
    }

    /// Moves the position; answers the new one.
    ///
    /// # Errors
    /// `EINVAL` for a position before the beginning, `EOVERFLOW` beyond 2^63.
    pub fn seek(&self, to: SeekFrom) -> Result<u64> {
        let file = match self.side() {
            Side::Local(fd) => {
                let to = match to {
                    SeekFrom::Start(at) => rustix::fs::SeekFrom::Start(at),
                    SeekFrom::Current(by) => rustix::fs::SeekFrom::Current(by),
                    SeekFrom::End(by) => rustix::fs::SeekFrom::End(by),
                };
                return Ok(rustix::fs::seek(fd, to)?);
            }
            Side::Remote(file) => file,
        };
        let mut at = self.at();
        let (base, by) = match to {
            SeekFrom::Start(to) => (0, i64::try_from(to).map_err(|_| Errno::INVAL)?),
            SeekFrom::Current(by) => (at.position, by),
            SeekFrom::End(by) => {
                at.buffering.settle()?;
                (file.attributes()?.size, by)
            }
        };
        let to = i64::try_from(base).ok().and_then(|base| base.checked_add(by));
        match to.ok_or(Errno::OVERFLOW)? {
            ..0 => Err(Errno::INVAL.into()),
            to => {
                at.position = to as u64;
                Ok(at.position)
            }
        }
    }

    /// What is known of the file.
    ///
    /// # Errors
    /// Those of fstat(2).
    pub fn attributes(&self) -> Result<Attributes> {
        match self.side() {
            Side::Local(fd) => Ok(rustix::fs::fstat(fd)?.into()),
            Side::Remote(file) => {
                self.at().buffering.settle()?;
                file.attributes()
            }
        }
    }

    /// Returns when all that was written is on the disk of the file's node.
    ///
    /// # Errors
    /// Those of fsync(2), and of writes that were behind.
    pub fn sync(&self, data_only: bool) -> Result<()> {
        match self.side() {
            Side::Local(fd) if data_only => Ok(rustix::fs::fdatasync(fd)?),
            Side::Local(fd) => Ok(rustix::fs::fsync(fd)?),
            Side::Remote(file) => {
                self.at().buffering.settle()?;
                let request = Request::Sync { handle: file.handle, data_only };
                file.remote.call(&request).map(drop)
            }
        }
    }

    /// Sets the file's length in bytes.
    ///
    /// # Errors
    /// Those of ftruncate(2).
    pub fn truncate(&self, size: u64) -> Result<()> {
        match self.side() {
            Side::Local(fd) => Ok(rustix::fs::ftruncate(fd, size)?),
            Side::Remote(file) => {
                self.at().buffering.settle()?;
                let request = Request::TruncateHandle { handle: file.handle, size };
                file.remote.call(&request).map(drop)
            }
        }
    }

    /// Sets the file's permissions.
    ///
    /// # Errors
    /// Those of fchmod(2).
    pub fn set_mode(&self, mode: u32) -> Result<()> {
        match self.side() {
            Side::Local(fd) => {
                Ok(rustix::fs::fchmod(fd, rustix::fs::Mode::from_raw_mode(mode & 0o7777))?)
            }
            Side::Remote(file) => {
                self.at().buffering.settle()?;
                let request = Request::SetModeHandle { handle: file.handle, mode };
                file.remote.call(&request).map(drop)
            }
        }
    }

    /// Sets the file's times; `None` leaves one as it is.
    ///
    /// # Errors
    /// Those of futimens(3); `ENOSYS` on the own node.
    pub fn set_times(&self, accessed: Option<NewTime>, modified: Option<NewTime>) -> Result<()> {
        let Side::Remote(file) = self.side() else { return Err(Errno::NOSYS.into()) };
        self.at().buffering.settle()?;
        let (access, change) = (NewTime::wire(accessed), NewTime::wire(modified));
        let request = Request::SetTimesHandle { handle: file.handle, access, change };
        file.remote.call(&request).map(drop)
    }

    /// Reads so many bytes ahead of sequential calls, 0 for none, which is the
    /// default. It begins with the second read in order, and grows to `len` as parts are used
    /// up. What is read ahead may be older than the call that returns it:
    /// another node's write in between is not seen.
    ///
    /// # Errors
    /// Those of writes that were behind.
    pub fn set_read_ahead(&self, len: usize) -> Result<()> {
        self.at().buffering.set_ahead(len)
    }

    /// Lets so many written bytes be under way when a write returns, 0 for
    /// none, which is the default. Errors come with a later call, at the latest
    /// with [`File::sync`] or [`File::close`].
    ///
    /// # Errors
    /// Those of writes that were behind.
    pub fn set_write_behind(&self, len: usize) -> Result<()> {
        self.at().buffering.set_behind(len)
    }

    /// The next part of a folder's list.
    pub(crate) fn list_more(&self, restart: bool) -> Result<Vec<u8>> {
        match self.side() {
            Side::Local(_) => Err(Errno::INVAL.into()),
            Side::Remote(file) => {
                let request = Request::ReadDir { handle: file.handle, restart };
                Ok(file.remote.call(&request)?.bytes)
            }
        }
    }

    /// Closes the file.
    ///
    /// # Errors
    /// Those of writes that were behind; the file is closed all the same.
    pub fn close(mut self) -> Result<()> {
        self.end()
    }

    /// Closes the file without waiting for the server to have done so. Later
    /// calls come to it in their order.
    pub fn close_soon(mut self) {
        if let Side::Remote(file) = self.side()
            && self.at().buffering.finish().is_ok()
        {
            file.remote.client.tell(file.remote.server, &Request::Close { handle: file.handle });
            self.closed = true;
        }
    }

    fn end(&mut self) -> Result<()> {
        let outcome = match self.side() {
            Side::Local(_) => Ok(()),
            Side::Remote(file) => {
                let settled = self.at().buffering.finish();
                let closed = file.remote.call(&Request::Close { handle: file.handle });
                settled.and(closed.map(drop))
            }
        };
        self.closed = true;
        outcome
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if !self.closed {
            // Who wants to know calls `close`.
            let _ = self.end();
        }
    }
}

/// The last position: the kernel counts with signed numbers.
pub(crate) const OFFSET_MAX: u64 = i64::MAX as u64;

/// Positions are signed where the kernel counts, and it refuses a call that would pass the last one.
/// On the wire the bit above them has a meaning of its own.
fn check_range(offset: u64, len: usize) -> Result<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= OFFSET_MAX => Ok(()),
        _ => Err(Errno::INVAL.into()),
    }
}

#[cfg(test)]
mod tests;
