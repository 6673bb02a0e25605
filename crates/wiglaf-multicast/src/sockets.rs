//! The sockets of a member: one for datagrams to the group, and one for datagrams to this member.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{set_ip_multicast_if, set_ip_multicast_loop};
use wiglaf_link::Sent;
use wiglaf_link_udp::BulkSocket;

use crate::message::{Message, Purpose, Refused};
use crate::plan::Plan;

/// Counts of refused and repaired datagrams, of all threads of a member.
#[derive(Debug, Default)]
pub struct Counts {
    refused: [AtomicU64; Refused::KINDS],
    asked: AtomicU64,
    repaired: AtomicU64,
}

/// What a group has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// Datagrams refused: from outside, of other groups, of unknown purpose, of nobody in the group, with a part that
    /// does not fit, too early.
    pub refused: [u64; Refused::KINDS],
    /// How often this member had to ask again.
    pub asked: u64,
    /// How many datagrams this member has sent again.
    pub repaired: u64,
}

impl Counts {
    pub(crate) fn refuse(&self, why: Refused) {
        self.refused[why.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ask(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn repair(&self, datagrams: usize) {
        self.repaired.fetch_add(datagrams as u64, Ordering::Relaxed);
    }

    /// The counts now.
    #[must_use]
    pub fn seen(&self) -> Seen {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Seen {
            refused: self.refused.each_ref().map(load),
            asked: load(&self.asked),
            repaired: load(&self.repaired),
        }
    }
}

/// Makes a socket send to groups through the interface that has the address `ip`; `shared`: others on this machine
/// are members.
///
/// # Errors
/// When the kernel refuses it.
pub(crate) fn prepare(socket: impl AsFd, ip: Ipv4Addr, shared: bool) -> io::Result<()> {
    let socket = socket.as_fd();
    set_ip_multicast_if(socket, &ip)?;
    set_ip_multicast_loop(socket, shared)?;
    Ok(())
}

/// Both sockets, with a buffer for a batch of datagrams.
#[derive(Debug)]
pub(crate) struct Sockets {
    all: BulkSocket,
    own: BulkSocket,
    /// A batch that is being put together.
    batch: Vec<u8>,
    loss: Loss,
}

impl Sockets {
    pub(crate) fn new(all: BulkSocket, own: BulkSocket, lose_one_in: u64) -> Self {
        Self { all, own, batch: Vec::new(), loss: Loss { one_in: lose_one_in, state: 1 } }
    }

    /// Sends a message of one datagram.
    pub(crate) fn send(
        &mut self,
        plan: &Plan,
        to: SocketAddrV4,
        message: &Message<'_>,
    ) -> io::Result<()> {
        self.batch.clear();
        plan.seal.append(message, plan.epoch(), &mut self.batch);
        let len = self.batch.len();
        push(&mut self.own, to, len, &self.batch)
    }

    /// Sends the bytes `from..to` of a message, cut into parts.
    pub(crate) fn send_parts(
        &mut self,
        plan: &Plan,
        at: SocketAddrV4,
        (operation, done): (u64, u64),
        message: &[u8],
        range: std::ops::Range<usize>,
    ) -> io::Result<usize> {
        send_parts(&mut self.own, &mut self.batch, plan, at, (operation, done), message, range)
    }

    /// Hands over the group's messages that have arrived; returns how many datagrams arrived.
    pub(crate) fn receive(
        &mut self,
        ready: Ready,
        plan: &Plan,
        counts: &Counts,
        mut take: impl FnMut(&Message<'_>),
    ) -> io::Result<usize> {
        let mut count = 0;
        for (socket, is_ready) in [(&mut self.all, ready.all), (&mut self.own, ready.own)] {
            if !is_ready {
                continue;
            }
            let loss = &mut self.loss;
            count += socket.recv(&mut |arrived| {
                // A queue before the point of segmentation loses a GSO batch as a whole.
                if loss.hits() {
                    return;
                }
                for datagram in arrived.datagrams() {
                    match plan.read(datagram) {
                        // This member's own datagrams come back where other members are on this machine.
                        Ok(message) if message.rank == plan.rank => {}
                        Ok(message) => take(&message),
                        Err(why) => counts.refuse(why),
                    }
                }
            })?;
        }
        Ok(count)
    }

    /// Sleeps until something comes, or for that long; returns which sockets have something.
    pub(crate) fn wait(&self, limit: Duration) -> io::Result<Ready> {
        let mut fds =
            [PollFd::new(&self.all, PollFlags::IN), PollFd::new(&self.own, PollFlags::IN)];
        let limit =
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        match poll(&mut fds, Some(&limit)) {
            Ok(_) => {
                let [all, own] = fds.map(|fd| !fd.revents().is_empty());
                Ok(Ready { all, own })
            }
            Err(rustix::io::Errno::INTR) => Ok(Ready::UNKNOWN),
            Err(error) => Err(error.into()),
        }
    }
}

/// Which sockets may have something to receive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready {
    all: bool,
    own: bool,
}

impl Ready {
    /// Both may.
    pub(crate) const UNKNOWN: Self = Self { all: true, own: true };
}

/// Sends the parts of a message that lie in `range`, whose ends are multiples of a part's length or the message's
/// end; says how many.
pub(crate) fn send_parts(
    socket: &mut BulkSocket,
    batch: &mut Vec<u8>,
    plan: &Plan,
    to: SocketAddrV4,
    (operation, done): (u64, u64),
    message: &[u8],
    range: std::ops::Range<usize>,
) -> io::Result<usize> {
    let mut offset = range.start;
    let mut count = 0;
    loop {
        batch.clear();
        for _ in 0..plan.batch_max {
            let end = (offset + plan.part_len).min(range.end);
            let part = Message {
                purpose: Purpose::Data,
                rank: plan.rank,
                operation,
                offset: offset as u32,
                total: message.len() as u32,
                done,
                body: &message[offset..end],
            };
            plan.seal.append(&part, plan.epoch(), batch);
            count += 1;
            offset = end;
            if offset == range.end {
                break;
            }
        }
        push(socket, to, plan.datagram_len(), batch)?;
        if offset == range.end {
            return Ok(count);
        }
    }
}

/// How long a full send buffer is waited for at a time. It empties by itself, at the wire's rate.
const FULL_PAUSE: Duration = Duration::from_micros(50);
/// How often; a batch that is not sent by then is lost, and asked for again.
const FULL_TRIES: usize = 200;

fn push(socket: &mut BulkSocket, to: SocketAddrV4, len: usize, batch: &[u8]) -> io::Result<()> {
    for _ in 0..FULL_TRIES {
        if socket.send(to, len, batch)? != Sent::Full {
            return Ok(());
        }
        std::thread::sleep(FULL_PAUSE);
    }
    Ok(())
}

/// Loses one in so many batches that arrive, for tests; none if that is 0.
#[derive(Debug)]
struct Loss {
    one_in: u64,
    state: u64,
}

impl Loss {
    fn hits(&mut self) -> bool {
        // Knuth's linear congruential generator (MMIX).
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.one_in != 0 && (self.state >> 33).is_multiple_of(self.one_in)
    }
}
