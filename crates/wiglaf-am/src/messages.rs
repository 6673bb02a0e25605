//! Sending, and running the handlers of what arrives.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use wiglaf_endpoint::{
    ActiveMessage, Address, Class, CompleteWhen, Endpoint, Outcome, PeerId, PostError, Region,
    SendOp, Side,
};
use wiglaf_links::{config_from_env, open};

use crate::{Error, Job};

/// A message as its handler sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Rank of the sender.
    pub source: usize,
    /// The number that the sender gave along.
    pub data: u64,
    /// The payload.
    pub payload: Vec<u8>,
}

type Handler = Box<dyn FnMut(&mut Sender, &Message)>;

/// The sending half, which handlers may use too.
#[derive(Debug)]
pub struct Sender {
    endpoint: Endpoint,
    rank: usize,
    /// The other ranks' places; a rank's own message needs no wire.
    peers: Vec<PeerId>,
    to_self: VecDeque<(u64, Message)>,
    /// What was taken in while a send waited, to be handled first.
    kept: VecDeque<(u64, Message)>,
    /// Bytes of payload in it.
    kept_len: usize,
}

/// As much is taken in while a send waits, in bytes.
const KEPT_LEN_MAX: usize = 64 << 20;

/// How many messages are still to be handled.
#[derive(Debug)]
pub(crate) struct Due {
    to_self: usize,
    kept: usize,
    active: usize,
}

/// A process's part in a job.
pub struct Messages {
    sender: Sender,
    handlers: HashMap<u64, Handler>,
}

impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Messages(rank {} of {})", self.rank(), self.size())
    }
}

impl Sender {
    pub(crate) fn join(job: &Job) -> Result<Self, Error> {
        let mut config = config_from_env().map_err(|why| Error::Open(why.to_string()))?;
        let me = job.members[job.rank];
        config.ip = *me.at.ip();
        config.port = me.at.port();
        config.epoch = Some(me.epoch).filter(|epoch| epoch.is_known());
        let mut endpoint = open(&config).map_err(|why| Error::Open(why.to_string()))?;
        let peers =
            job.members.iter().map(|m| endpoint.insert(Address { at: m.at, epoch: m.epoch }));
        let peers = peers.collect();
        let (to_self, kept) = (VecDeque::new(), VecDeque::new());
        Ok(Self { endpoint, rank: job.rank, peers, to_self, kept, kept_len: 0 })
    }

    /// This process's rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks the job has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.peers.len()
    }

    /// Sends `payload` and the number `data` to handler `handler` of rank
    /// `to`. When the call returns, the payload may be used again; messages
    /// between two ranks arrive in the order in which they were sent.
    ///
    /// It may have to wait until `to` polls. What arrives meanwhile is kept, 64 MiB of it: ranks that
    /// send each other more than that without polling wait for each other for ever.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] or [`Error::RankGone`].
    pub fn send(
        &mut self,
        to: usize,
        handler: u64,
        data: u64,
        payload: &[u8],
    ) -> Result<(), Error> {
        let peer = *self.peers.get(to).ok_or(Error::NoSuchRank(to))?;
        if to == self.rank {
            let message = Message { source: to, data, payload: payload.to_vec() };
            self.to_self.push_back((handler, message));
            return Ok(());
        }
        let op = SendOp {
            peer,
            class: Class::Active,
            tag: handler,
            data: Some(data),
            context: 0,
            complete: CompleteWhen::Transmit,
            report: true,
            inject: false,
        };
        let region = Region { ptr: payload.as_ptr().cast_mut(), len: payload.len() };
        loop {
            // SAFETY: sends only read, and `payload` is borrowed until the
            // send has completed, which is awaited below.
            match unsafe { self.endpoint.post_send(&op, &[region]) } {
                Ok(()) => break,
                Err(PostError::Again) if self.make_room() => {}
                Err(PostError::Again) => self.endpoint.wait(Duration::from_millis(1)),
                Err(PostError::TooLong) => return Err(Error::TooLong(payload.len())),
                Err(_) => return Err(Error::RankGone(to)),
            }
        }
        loop {
            match self.endpoint.pop_completion(Side::Send) {
                Some(done) if done.outcome == Outcome::Done => return Ok(()),
                Some(_) => return Err(Error::RankGone(to)),
                None if self.endpoint.progress() || self.make_room() => {}
                None => self.endpoint.idle(),
            }
        }
    }

    /// Takes in what has arrived, if its senders wait for that: they may be those that a send of ours
    /// waits for. True when there was something.
    fn make_room(&mut self) -> bool {
        if self.kept_len >= KEPT_LEN_MAX || self.endpoint.has_room_for_active() {
            return false;
        }
        let before = self.endpoint.active_len();
        if let Some(message) = self.endpoint.pop_active() {
            let message = self.of_rank(message);
            self.kept_len += message.as_ref().map_or(0, |(_, message)| message.payload.len());
            self.kept.extend(message);
        }
        self.endpoint.active_len() < before
    }

    /// What is here now: what handlers make come is for the next time, or they could keep us for ever.
    pub(crate) fn due(&self) -> Due {
        let (to_self, kept) = (self.to_self.len(), self.kept.len());
        Due { to_self, kept, active: self.endpoint.active_len() }
    }

    /// The next message of those, with its handler's number.
    pub(crate) fn receive(&mut self, due: &mut Due) -> Option<(u64, Message)> {
        if due.to_self > 0 {
            due.to_self -= 1;
            return self.to_self.pop_front();
        }
        if due.kept > 0 {
            due.kept -= 1;
            let (handler, message) = self.kept.pop_front()?;
            self.kept_len -= message.payload.len();
            return Some((handler, message));
        }
        while due.active > 0 {
            due.active -= 1;
            let message = self.endpoint.pop_active()?;
            if let Some(message) = self.of_rank(message) {
                return Some(message);
            }
        }
        None
    }

    /// A message for a handler. Who is not in the job has its key all the same; it has no rank to answer to.
    fn of_rank(&self, message: ActiveMessage) -> Option<(u64, Message)> {
        let source = self.peers.iter().position(|peer| *peer == message.source)?;
        let data = message.data.unwrap_or(0);
        Some((message.handler, Message { source, data, payload: message.payload }))
    }

    /// The next rank that was found to have ended, each once.
    pub fn lost(&mut self) -> Option<usize> {
        loop {
            let (peer, _) = self.endpoint.pop_gone()?;
            if let Some(rank) = self.peers.iter().position(|p| *p == peer) {
                return Some(rank);
            }
        }
    }

    pub(crate) fn progress(&mut self) -> bool {
        self.endpoint.progress()
    }

    pub(crate) fn wait(&mut self, timeout: Duration) {
        if self.to_self.is_empty() && self.kept.is_empty() {
            self.endpoint.wait(timeout);
        }
    }

    /// Waits as long as receivers may take, however long they compute.
    pub(crate) fn close(&mut self) {
        self.endpoint.close_within(Duration::MAX);
    }
}

impl Messages {
    /// Joins the job that the environment describes (see [`Job::from_env`]).
    ///
    /// # Errors
    /// [`Error::Environment`] or [`Error::Open`].
    pub fn from_env() -> Result<Self, Error> {
        Self::join(&Job::from_env()?)
    }

    /// Joins `job`. Links and key come from the environment.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn join(job: &Job) -> Result<Self, Error> {
        Ok(Self { sender: Sender::join(job)?, handlers: HashMap::new() })
    }

    /// This process's rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.sender.rank()
    }

    /// How many ranks the job has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.sender.size()
    }

    /// Runs `run` for every message to `handler` from now on. Messages to a
    /// handler that does not exist are dropped.
    pub fn on(&mut self, handler: u64, run: impl FnMut(&mut Sender, &Message) + 'static) {
        self.handlers.insert(handler, Box::new(run));
    }

    /// Sends; see [`Sender::send`].
    ///
    /// # Errors
    /// Those of [`Sender::send`].
    pub fn send(
        &mut self,
        to: usize,
        handler: u64,
        data: u64,
        payload: &[u8],
    ) -> Result<(), Error> {
        self.sender.send(to, handler, data, payload)
    }

    /// The next rank that was found to have ended, each once: who waits for a
    /// message of its will wait in vain.
    pub fn lost(&mut self) -> Option<usize> {
        self.sender.lost()
    }

    /// Runs the handlers of what has arrived; answers how many messages that was.
    pub fn poll(&mut self) -> usize {
        self.sender.progress();
        let (mut count, mut due) = (0, self.sender.due());
        while let Some((handler, message)) = self.sender.receive(&mut due) {
            if let Some(run) = self.handlers.get_mut(&handler) {
                run(&mut self.sender, &message);
            }
            count += 1;
        }
        count
    }

    /// Like [`Messages::poll`], but waits up to `timeout` for a message.
    pub fn wait(&mut self, timeout: Duration) -> usize {
        let began = Instant::now();
        loop {
            let count = self.poll();
            let left = timeout.saturating_sub(began.elapsed());
            if count > 0 || left.is_zero() {
                return count;
            }
            self.sender.wait(left);
        }
    }
}

impl Drop for Messages {
    /// Waits until what was sent has arrived, or its receivers have ended, then says good-bye.
    fn drop(&mut self) {
        self.sender.close();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
    use std::rc::Rc;

    use wiglaf_endpoint::Epoch;

    use super::*;
    use crate::Member;

    const AGAIN: u64 = 1;
    const HELLO: u64 = 2;

    fn two_ranks() -> [Messages; 2] {
        two_jobs().map(|job| Messages::join(&job).unwrap())
    }

    fn two_jobs() -> [Job; 2] {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let ports = sockets.map(|socket| socket.local_addr().unwrap().port());
        let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let members = ports.map(|port| Member { at: at(port), epoch: Epoch::UNKNOWN }).to_vec();
        [0, 1].map(|rank| Job { rank, members: members.clone() })
    }

    /// More than goes unacknowledged, to a rank that computes for longer than links linger.
    #[test]
    fn who_closes_waits_for_a_receiver_that_computes() {
        const COUNT: usize = 200;
        std::thread::scope(|scope| {
            let [sender, receiver] = two_jobs();
            scope.spawn(move || {
                let mut rank = Messages::join(&sender).unwrap();
                for _ in 0..COUNT {
                    rank.send(1, HELLO, 0, &[1; 1 << 10]).unwrap();
                }
            });
            scope.spawn(move || {
                let mut rank = Messages::join(&receiver).unwrap();
                std::thread::sleep(Duration::from_millis(5500));
                let (mut count, began) = (0, Instant::now());
                // Only bounds how long a broken test hangs.
                while count < COUNT && began.elapsed() < Duration::from_secs(30) {
                    count += rank.wait(Duration::from_millis(100));
                }
                assert_eq!(count, COUNT);
            });
        });
    }

    /// Neither polls before it has sent everything: each takes in what the other sends meanwhile.
    #[test]
    fn ranks_that_send_to_each_other_do_not_wait_for_each_other() {
        for (count, len) in [(3, 1 << 20), (2000, 1 << 10), (20_000, 8)] {
            let each = |job: Job| {
                let (mut rank, other) = (Messages::join(&job).unwrap(), 1 - job.rank);
                let sum = Rc::new(Cell::new((0, 0)));
                let seen = Rc::clone(&sum);
                rank.on(HELLO, move |_, message| {
                    let (next, total) = seen.get();
                    assert_eq!(message.data, next, "in their order");
                    seen.set((next + 1, total + message.payload.len()));
                });
                for number in 0..count {
                    rank.send(other, HELLO, number, &vec![1; len]).unwrap();
                }
                while sum.get().0 < count {
                    rank.wait(Duration::from_millis(100));
                }
                assert_eq!(sum.get(), (count, count as usize * len));
                assert_eq!(rank.sender.kept_len, 0);
            };
            std::thread::scope(|scope| {
                for job in two_jobs() {
                    scope.spawn(move || each(job));
                }
            });
        }
    }

    #[test]
    fn a_handler_that_sends_to_its_own_rank_holds_up_nobody() {
        /// So that a broken test ends.
        const CALLS_MAX: u32 = 100_000;
        let [mut a, mut b] = two_ranks();
        let (calls, greeted) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let (count, greet) = (Rc::clone(&calls), Rc::clone(&greeted));
        a.on(AGAIN, move |sender, message| {
            count.set(count.get() + 1);
            if count.get() < CALLS_MAX {
                sender.send(message.source, AGAIN, 0, &[]).unwrap();
            }
        });
        a.on(HELLO, move |_, _| greet.set(true));
        a.send(0, AGAIN, 0, &[]).unwrap();
        assert_eq!((a.poll(), calls.get()), (1, 1));
        b.send(0, HELLO, 0, &[]).unwrap();
        let began = Instant::now();
        while !greeted.get() {
            assert!((1..=2).contains(&a.wait(Duration::from_secs(1))));
            b.poll();
            assert!(began.elapsed() < Duration::from_secs(20), "{} calls", calls.get());
        }
        drop(a); // so that it acknowledges
    }
}
