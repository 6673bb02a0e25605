//! The thread that answers for a member while the member does something else: a root returns from a short broadcast at
//! once, and a member that missed it asks later.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use wiglaf_interpose::threads;
use wiglaf_link_udp::BulkSocket;

use crate::kept::Kept;
use crate::message::{Message, Purpose};
use crate::plan::Plan;
use crate::sockets::{Counts, send_parts};

/// The state that a member shares with its repair thread.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) kept: Mutex<Kept>,
    /// All operations below it lie behind this member.
    pub(crate) done: AtomicU64,
    pub(crate) counts: Arc<Counts>,
    stop: AtomicBool,
}

impl Shared {
    pub(crate) fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Repair {
    shared: Arc<Shared>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Repair {
    pub(crate) fn start(plan: Plan, socket: BulkSocket, shared: Arc<Shared>) -> io::Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let answering = Answering { plan, socket, shared: Arc::clone(&shared), batch: Vec::new() };
        let asleep = Arc::clone(&wake);
        let thread = threads::start("wiglaf-repair", move || answering.run(&asleep))?;
        Ok(Self { shared, wake, thread: Some(thread) })
    }
}

impl Drop for Repair {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // It cannot be full: nobody else writes to it.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Answering {
    plan: Plan,
    socket: BulkSocket,
    shared: Arc<Shared>,
    batch: Vec<u8>,
}

impl Answering {
    fn run(mut self, wake: &OwnedFd) {
        while !self.shared.stop.load(Ordering::Acquire) {
            let mut fds =
                [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(wake, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            // A member that gets no answer asks again.
            if self.answer().is_err() {
                return;
            }
        }
    }

    fn answer(&mut self) -> io::Result<()> {
        let mut asked = Vec::new();
        let Self { plan, socket, shared, .. } = self;
        socket.recv(&mut |arrived| {
            for datagram in arrived.datagrams() {
                match plan.read(datagram) {
                    Ok(message) => {
                        asked.push((
                            message.purpose,
                            message.rank,
                            message.operation,
                            message.offset,
                        ));
                    }
                    Err(why) => shared.counts.refuse(why),
                }
            }
        })?;
        for (purpose, rank, operation, offset) in asked {
            match purpose {
                Purpose::Ask => self.send_again(rank, operation, offset as usize)?,
                Purpose::Ping => self.tell(rank, operation)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn send_again(&mut self, rank: u16, operation: u64, offset: usize) -> io::Result<()> {
        let kept = self.shared.kept().get(operation);
        let Some(message) = kept.filter(|message| offset <= message.len()) else { return Ok(()) };
        let done = self.shared.done.load(Ordering::Acquire);
        let to = self.plan.members[usize::from(rank)].own;
        let offset = offset - offset % self.plan.part_len;
        let range = offset..message.len();
        let Self { plan, socket, batch, .. } = self;
        let count = send_parts(socket, batch, plan, to, (operation, done), &message, range)?;
        self.shared.counts.repair(count);
        Ok(())
    }

    fn tell(&mut self, rank: u16, operation: u64) -> io::Result<()> {
        let message = Message {
            purpose: Purpose::Done,
            rank: self.plan.rank,
            operation,
            offset: 0,
            total: 0,
            done: self.shared.done.load(Ordering::Acquire),
            body: &[],
        };
        self.batch.clear();
        self.plan.seal.append(&message, self.plan.epoch(), &mut self.batch);
        let to = self.plan.members[usize::from(rank)].own;
        self.socket.send(to, self.batch.len(), &self.batch)?;
        Ok(())
    }
}
