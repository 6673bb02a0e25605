//! A ring that is being set up. The kernel first lets all processors finish with the socket, which takes some 15 ms,
//! and an MPI that starts has other things to do meanwhile: a thread waits for it, and datagrams take the stack.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use wiglaf_interpose::threads;

use crate::ring::Ring;

/// The ring, or the socket, which nobody closes while others wait for it, and why it has none.
type Made = Result<Ring, (OwnedFd, io::Error)>;

#[derive(Debug)]
pub(crate) struct Coming {
    /// Of the socket, which is the thread's.
    fd: RawFd,
    made: Receiver<Made>,
    /// It, where there will be no ring.
    failed: Option<OwnedFd>,
}

impl Coming {
    /// Has a thread set up the ring of `socket`.
    pub(crate) fn begin(socket: OwnedFd, trains: bool) -> io::Result<Self> {
        let (fd, (tell, made)) = (socket.as_raw_fd(), channel());
        // Nobody listens any more where the link has gone meanwhile.
        let set_up = move || drop(tell.send(Ring::new(socket, trains)));
        threads::start("wiglaf-ring", set_up)?;
        Ok(Self { fd, made, failed: None })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd
    }

    /// The ring, if it is there.
    ///
    /// # Errors
    /// The kernel's, or that the thread has ended.
    pub(crate) fn take(&mut self) -> io::Result<Option<Ring>> {
        match self.made.try_recv() {
            Ok(made) => self.settle(made).map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// The ring, once it is there.
    ///
    /// # Errors
    /// As for [`Self::take`].
    pub(crate) fn wait(&mut self) -> io::Result<Ring> {
        let made = self.made.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
        self.settle(made)
    }

    fn settle(&mut self, made: Made) -> io::Result<Ring> {
        made.map_err(|(socket, error)| {
            self.failed = Some(socket);
            error
        })
    }
}
