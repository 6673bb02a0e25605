//! Locks, as fcntl(2) and flock(2) have them. Those of other nodes' files are kept there.

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::{File, OnServer, Side};
use crate::client::CallId;
use crate::error::{Error, Reason, Result};
use crate::node::{Node, Place};
use crate::wire::{Lock, LockKind, Request};

impl File {
    /// Keeps others out who ask for the same, until the file is closed.
    ///
    /// # Errors
    /// Those of flock(2), `EAGAIN` when another open file has it; `ENOSYS` when
    /// the server is older.
    pub(crate) fn lock(&self) -> Result<()> {
        match self.side() {
            Side::Local(fd) => Ok(rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive)?),
            Side::Remote(_) => self.set_lock(&Lock::whole(LockKind::Exclusive)),
        }
    }

    fn on_server(&self) -> Result<OnServer<'_>> {
        match self.side() {
            Side::Local(_) => Err(Errno::NOSYS.into()),
            Side::Remote(file) => Ok(file),
        }
    }

    /// Takes a lock, changes it or gives it back, at once.
    ///
    /// # Errors
    /// Those of fcntl(2) and flock(2); `EAGAIN` when another has what is in its
    /// way, `ENOLCK` when the client has as many as it may; `EIO` when the server
    /// has ended; `ENOSYS` on the own node.
    pub fn set_lock(&self, lock: &Lock) -> Result<()> {
        let file = self.on_server()?;
        let request = Request::Lock { handle: file.handle, lock: *lock, waits: false };
        file.remote.call(&request).map(drop)
    }

    /// Begins to wait for a lock.
    ///
    /// # Errors
    /// `EIO` when the server has ended; `ENOSYS` on the own node. What else goes
    /// wrong is the request's.
    pub fn start_lock(&self, lock: &Lock) -> Result<LockRequest> {
        let file = self.on_server()?;
        let request = Request::Lock { handle: file.handle, lock: *lock, waits: true };
        // SAFETY: no memory of ours is lent.
        let call = unsafe { file.remote.client.start(file.remote.server, &request, &[], &[]) }?;
        let id = file.remote.client.request_id(call);
        Ok(LockRequest { wait: LockWait { node: self.node.clone(), id }, call: Some(call) })
    }

    /// A lock of another owner's that is in the way of this one, if there is one.
    ///
    /// # Errors
    /// As for [`File::set_lock`].
    pub fn test_lock(&self, lock: &Lock) -> Result<Option<Lock>> {
        let file = self.on_server()?;
        let request = Request::TestLock { handle: file.handle, lock: *lock };
        let answer = file.remote.call(&request)?;
        match answer.count {
            0 => Ok(None),
            _ => Lock::parse(&answer.bytes)
                .map(Some)
                .map_err(|_| Error::new(Errno::PROTO, Reason::BadAnswer)),
        }
    }

    /// Gives back all ranges of the file that an owner has locked.
    ///
    /// # Errors
    /// As for [`File::set_lock`].
    pub fn free_locks(&self, owner: u64) -> Result<()> {
        let file = self.on_server()?;
        file.remote.call(&Request::FreeLocks { handle: file.handle, owner }).map(drop)
    }
}

/// A lock that is waited for. Dropping it ends the wait.
#[derive(Debug)]
pub struct LockRequest {
    wait: LockWait,
    call: Option<CallId>,
}

/// The wait itself, which another thread may end.
#[derive(Debug, Clone)]
pub struct LockWait {
    node: Node,
    id: u64,
}

impl LockRequest {
    /// What ends the wait.
    #[must_use]
    pub fn to_end(&self) -> LockWait {
        self.wait.clone()
    }

    /// Sleeps until the lock is had.
    ///
    /// # Errors
    /// Those of fcntl(2) and flock(2); `EINTR` when the wait was ended, `EDEADLK`
    /// when who has what is in the way waits for this owner, as far as both are
    /// this client's; `EIO` when the server has ended.
    pub fn wait(mut self) -> Result<()> {
        match (self.call.take(), self.wait.node.place()) {
            (Some(call), Place::Remote(remote)) => remote.client.wait_asleep(call).map(drop),
            _ => Err(Errno::NOSYS.into()),
        }
    }
}

impl Drop for LockRequest {
    fn drop(&mut self) {
        if let (Some(call), Place::Remote(remote)) = (self.call.take(), self.wait.node.place()) {
            self.wait.end();
            remote.client.forget(call);
        }
    }
}

impl LockWait {
    /// Ends the wait, unless the lock is had already.
    pub fn end(&self) {
        if let Place::Remote(remote) = self.node.place() {
            remote.client.tell(remote.server, &Request::EndWait { id: self.id });
        }
    }
}
