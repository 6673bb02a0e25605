//! The process that changes cards: a child of the helper, with CAP_NET_ADMIN and no other privilege, that takes
//! orders from the helper alone.
//!
//! The helper itself, which reads what users send, cannot change a card; and this one reads nothing of users'. It
//! ends when the helper does, however that was, and sets back what processes held. A process holds a pipe's end:
//! nothing can be put into a pipe that would take time to close.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::cards::Cards;
use super::store::{Kept, Store};
use super::{Full, Tuner};
use crate::confine;
use crate::tuning::{Note, Tuned};

/// Longest message between the two, in bytes.
const MESSAGE_LEN_MAX: usize = 128 << 10;
/// A driver that starts its card anew takes a second or two.
const PATIENCE: Duration = Duration::from_secs(20);
/// Stack of the thread that reads what the child says.
const STACK: usize = 256 << 10;

/// What the child is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Tune until the descriptor that is answered is closed.
    Hold(Kept),
    /// Tune until it is undone.
    Keep(Kept),
    /// Take back what that user has kept.
    Undo(u32),
    /// Say how it is.
    Tell,
}

/// What came of an order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Tuned(Tuned),
    /// The user has too many leases.
    FullOfUser,
    /// There are too many.
    FullOfAll,
    /// Nothing can be tuned here.
    Failed(String),
}

#[derive(Debug, Serialize, Deserialize)]
enum Message {
    Reply { number: u64, outcome: Outcome },
    Notes(Vec<Note>),
}

/// A child that is not listened to yet.
#[derive(Debug)]
pub(crate) struct Started(OwnedFd);

/// The helper's end.
#[derive(Debug)]
pub(crate) struct Handle {
    socket: Arc<OwnedFd>,
    exchange: Mutex<Exchange>,
}

type Reply = (u64, Outcome, Option<OwnedFd>);

#[derive(Debug)]
struct Exchange {
    number: u64,
    replies: Receiver<Reply>,
}

/// Starts the child. To be called before there is a second thread, and with all privileges. The child keeps
/// what was changed in `folder`, and does not listen where the helper does.
pub(crate) fn start(folder: &Path, listener: &impl AsFd) -> Result<Started, String> {
    let fail = |what: &str, error: io::Error| format!("cannot {what} for tuning: {error}");
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|error| fail("make sockets", error.into()))?;
    let null = std::fs::File::open("/dev/null").map_err(|error| fail("open /dev/null", error))?;
    // SAFETY: there is one thread, so the child finds no lock held by another.
    match unsafe { libc::fork() } {
        -1 => Err(fail("start a process", io::Error::last_os_error())),
        0 => {
            drop(ours);
            let _ = rustix::stdio::dup2_stdin(&null);
            // SAFETY: the descriptors are open, and whoever owns the second one in this process never comes
            // back to it. Signals are ignored: the helper ends by them, and this with the helper.
            unsafe {
                libc::dup2(null.as_raw_fd(), listener.as_fd().as_raw_fd());
                for number in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                    libc::signal(number, libc::SIG_IGN);
                }
            }
            let status = match live(folder, &theirs) {
                Ok(()) => 0,
                Err(why) => {
                    eprintln!("wiglaf-helper: tuning: {why}");
                    1
                }
            };
            std::process::exit(status)
        }
        _ => Ok(Started(ours)),
    }
}

impl Started {
    /// Listens to the child in a thread: `say` is told what it could not do, `ended` when it is there no longer.
    pub(crate) fn listen(
        self,
        say: impl Fn(Note) + Send + 'static,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Handle, String> {
        let socket = Arc::new(self.0);
        let (to, replies) = sync_channel(1);
        let theirs = Arc::clone(&socket);
        let read = move || {
            read_all(&theirs, &to, &say);
            ended();
        };
        let started = Builder::new().stack_size(STACK).spawn(read);
        started.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Handle { socket, exchange: Mutex::new(Exchange { number: 0, replies }) })
    }
}

fn read_all(socket: &OwnedFd, to: &SyncSender<Reply>, say: &impl Fn(Note)) {
    while let Some((message, descriptor)) = receive::<Message>(socket) {
        match message {
            Message::Notes(notes) => notes.into_iter().for_each(say),
            Message::Reply { number, outcome } => {
                // Nobody waits any more for one that comes too late.
                let _ = to.try_send((number, outcome, descriptor));
            }
        }
    }
}

impl Handle {
    /// Has the child do something; one order at a time.
    pub(crate) fn ask(&self, order: &Order) -> Result<(Outcome, Option<OwnedFd>), String> {
        let mut exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        while exchange.replies.try_recv().is_ok() {}
        exchange.number += 1;
        let number = exchange.number;
        send(&*self.socket, &(number, order), None)
            .map_err(|error| format!("the helper's process that tunes takes no order: {error}"))?;
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match exchange.replies.recv_timeout(left) {
                Ok((answered, outcome, descriptor)) if answered == number => {
                    return Ok((outcome, descriptor));
                }
                Ok(_) => {}
                Err(_) => return Err("the helper's process that tunes does not answer".to_owned()),
            }
        }
    }
}

/// The child's life.
fn live(folder: &Path, socket: &OwnedFd) -> Result<(), String> {
    let cards = Cards::open();
    let store = Store::open(folder)
        .map_err(|why| format!("nothing can be written down in {}: {why}", folder.display()));
    confine::keep_network_admin()?;
    match store {
        Ok(store) => {
            let (mut tuner, notes) = Tuner::new(cards, store);
            tell_notes(socket, notes);
            serve(&mut tuner, socket);
            Ok(())
        }
        Err(why) => {
            while let Some(((number, _), _)) = receive::<(u64, Order)>(socket) {
                let _ = send(
                    socket,
                    &Message::Reply { number, outcome: Outcome::Failed(why.clone()) },
                    None,
                );
            }
            Ok(())
        }
    }
}

fn tell_notes(socket: &OwnedFd, notes: Vec<Note>) {
    if !notes.is_empty() {
        let _ = send(socket, &Message::Notes(notes), None);
    }
}

/// Takes orders until the helper ends, and sets back what those held who have let go.
fn serve(tuner: &mut Tuner<Cards>, socket: &OwnedFd) {
    let mut holders: Vec<(u64, OwnedFd)> = Vec::new();
    loop {
        let mut all = vec![PollFd::new(socket, PollFlags::IN)];
        // Of a pipe that nobody can write to any more the kernel tells unasked.
        all.extend(holders.iter().map(|(_, end)| PollFd::new(end, PollFlags::empty())));
        match poll(&mut all, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
        let has_order = !all[0].revents().is_empty();
        let gone: Vec<u64> = holders
            .iter()
            .zip(&all[1..])
            .filter(|(_, polled)| polled.revents().intersects(PollFlags::HUP | PollFlags::ERR))
            .map(|((number, _), _)| *number)
            .collect();
        drop(all);
        if !gone.is_empty() {
            holders.retain(|(number, _)| !gone.contains(number));
            let notes = tuner.release(&gone);
            tell_notes(socket, notes);
        }
        if has_order {
            let Some(((number, order), _)) = receive::<(u64, Order)>(socket) else { break };
            let (outcome, end) = obey(tuner, order, &mut holders);
            let _ =
                send(socket, &Message::Reply { number, outcome }, end.as_ref().map(AsFd::as_fd));
        }
    }
    for note in tuner.release_all() {
        let of = note.card.map(|card| format!("{card} ")).unwrap_or_default();
        eprintln!("wiglaf-helper: {of}{}", note.text);
    }
}

fn obey(
    tuner: &mut Tuner<Cards>,
    order: Order,
    holders: &mut Vec<(u64, OwnedFd)>,
) -> (Outcome, Option<OwnedFd>) {
    let full = |full: Full| match full {
        Full::OfUser => Outcome::FullOfUser,
        Full::OfAll => Outcome::FullOfAll,
    };
    let outcome = match order {
        Order::Hold(kept) => {
            let (ours, theirs) = match pipe_with(PipeFlags::CLOEXEC) {
                Ok(ends) => ends,
                Err(why) => return (Outcome::Failed(format!("there is no pipe: {why}")), None),
            };
            match tuner.hold(kept) {
                Ok((number, tuned)) => {
                    holders.push((number, ours));
                    return (Outcome::Tuned(tuned), Some(theirs));
                }
                Err(why) => full(why),
            }
        }
        Order::Keep(kept) => tuner.keep(kept).map_or_else(full, Outcome::Tuned),
        Order::Undo(uid) => Outcome::Tuned(tuner.undo(uid)),
        Order::Tell => Outcome::Tuned(tuner.tell(Vec::new())),
    };
    (outcome, None)
}

fn send(
    socket: &impl AsFd,
    message: &impl Serialize,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let rights: Vec<_> = descriptor.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !rights.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&rights));
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next message; none: the other end is closed, or says what is no message.
fn receive<T: DeserializeOwned>(socket: &OwnedFd) -> Option<(T, Option<OwnedFd>)> {
    let mut bytes = vec![0; MESSAGE_LEN_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let mut iov = [IoSliceMut::new(&mut bytes)];
        match recvmsg(socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(got) => break got.bytes,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    };
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut rights) = message {
            descriptor = rights.next();
        }
    }
    Some((serde_json::from_slice(&bytes[..got]).ok()?, descriptor))
}
