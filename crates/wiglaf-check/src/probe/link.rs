//! The link that jobs would use, on a thread that keeps its endpoint going: it echoes, checks and
//! takes in what the peer sends, also while it sends itself.

use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::sync::mpsc::{self, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wiglaf_endpoint::{
    Address, Endpoint, Epoch, JobKey, LinkKind, Outcome, PeerId, PostError, Side,
};
use wiglaf_links::{config_from, open_noting};

use super::plain::{free_port, latency};
use super::{Answer, Delivery, Open, OpenedLink, Request};

// Handlers.
const PING: u64 = 1;
const PONG: u64 = 2;
const STREAM: u64 = 3;
const CONTENT: u64 = 4;
const CHECKED: u64 = 5;

/// A peer that owes an answer for longer is gone. The limits of requests are shorter than that, so
/// that a step says what it saw itself.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);
/// After traffic the endpoint waits as that of a job does; later it sleeps.
const BUSY_FOR: Duration = Duration::from_millis(100);
/// How soon a request is noticed then.
const NAP: Duration = Duration::from_millis(2);
/// Messages of a stream, and how many of them are under way.
const STREAM_LEN: usize = 512 << 10;
const STREAM_WINDOW: usize = 4;
/// Opening takes this at most: a helper may be busy.
const OPENING_LIMIT: Duration = Duration::from_secs(8);
/// How long an ending endpoint waits for acknowledgements.
const CLOSING_LIMIT: Duration = Duration::from_millis(100);
/// Longest content that is made, in bytes.
const CONTENT_LEN_MAX: u32 = 64 << 20;
/// Answers that wait for room; a peer that asks for more has none to read them.
const REPLIES_MAX: usize = 1 << 16;

/// What the thread is asked: a request, and where its answer goes.
type Job = (Request, mpsc::Sender<Answer>);

/// The thread.
#[derive(Debug)]
pub(super) struct LinkThread {
    jobs: Option<mpsc::Sender<Job>>,
    pub(super) opened: OpenedLink,
    peers: mpsc::Sender<(SocketAddrV4, Epoch)>,
    thread: Option<JoinHandle<()>>,
}

impl LinkThread {
    /// Opens the link of that name.
    pub(super) fn open(open: &Open, name: &str, key: JobKey) -> Result<Self, String> {
        let choice = LinkKind::named(name).ok_or_else(|| format!("there is no link {name:?}"))?;
        let reserved = free_port(open.own, open.ports).and_then(|socket| socket.local_addr());
        let (first, last) = open.ports;
        let port = reserved.map_err(|why| why.to_string())?.port();
        // All ports of the link are to be of the range, as those of jobs are.
        let config = config_from(|name| {
            (name == "WIGLAF_PORTS" && first < last).then(|| format!("{first}-{last}").into())
        });
        let mut config = config.map_err(|why| why.to_string())?;
        config.port = if (first..=last).contains(&port) { port } else { 0 };
        (config.ip, config.key, config.link) = (open.own, key, choice);
        config.silence_limit = SILENCE_LIMIT;
        config.publish = false;
        let (tell, told) = mpsc::channel();
        let (jobs, todo) = mpsc::channel::<Job>();
        let (peers, met) = mpsc::channel();
        let run = move || {
            let mut note = None;
            match open_noting(&config, &mut |text| note = Some(text.to_owned())) {
                Ok(endpoint) => {
                    let opened = OpenedLink {
                        name: endpoint.links().next().unwrap_or("none").to_owned(),
                        at: endpoint.name().at,
                        epoch: format!("{:x}", endpoint.name().epoch.0),
                        note,
                    };
                    let _ = tell.send(Ok(opened));
                    Worker::new(endpoint).run(&todo, &met);
                }
                Err(why) => drop(tell.send(Err(why.to_string()))),
            }
        };
        let thread = std::thread::Builder::new().name("link".to_owned()).spawn(run);
        let thread = Some(thread.map_err(|why| why.to_string())?);
        let late = |_| format!("it did not open within {} s", OPENING_LIMIT.as_secs());
        let opened = told.recv_timeout(OPENING_LIMIT).map_err(late)??;
        Ok(Self { jobs: Some(jobs), opened, peers, thread })
    }

    /// Tells who the peer is.
    pub(super) fn meet(&self, peer: &OpenedLink) -> Result<(), String> {
        let epoch = u64::from_str_radix(&peer.epoch, 16).map_err(|why| why.to_string())?;
        self.peers.send((peer.at, Epoch(epoch))).map_err(|_| "the link has ended".to_owned())
    }

    /// Has a request carried out.
    pub(super) fn ask(&self, request: Request, limit: Duration) -> Answer {
        let (give, take) = mpsc::channel();
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send((request, give)).is_ok());
        match take.recv_timeout(limit + SILENCE_LIMIT) {
            Ok(answer) if sent => answer,
            _ => Answer::Failed("the link has ended".to_owned()),
        }
    }
}

impl Drop for LinkThread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The endpoint and what is under way.
struct Worker {
    endpoint: Endpoint,
    peer: Option<PeerId>,
    /// Answers that had no room yet.
    replies: VecDeque<(u64, Vec<u8>)>,
    /// The last ping that was answered.
    ponged: Option<u64>,
    /// The last content that the peer has checked, and whether it was right.
    checked: Option<(u64, bool)>,
    /// Messages under way, and bytes that were acknowledged.
    under_way: usize,
    acknowledged: u64,
    /// Why nothing more will come.
    ended: Option<String>,
    active_at: Option<Instant>,
}

impl Worker {
    fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            peer: None,
            replies: VecDeque::new(),
            ponged: None,
            checked: None,
            under_way: 0,
            acknowledged: 0,
            ended: None,
            active_at: None,
        }
    }

    fn run(mut self, todo: &mpsc::Receiver<Job>, met: &mpsc::Receiver<(SocketAddrV4, Epoch)>) {
        loop {
            if let Ok((at, epoch)) = met.try_recv() {
                self.peer = Some(self.endpoint.insert(Address { at, epoch }));
            }
            match todo.try_recv() {
                Ok((request, answer)) => {
                    // Whom to send to has been told before what to send.
                    if let Ok((at, epoch)) = met.try_recv() {
                        self.peer = Some(self.endpoint.insert(Address { at, epoch }));
                    }
                    let _ = answer.send(self.obey(&request));
                    self.active_at = Some(Instant::now());
                }
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {}
            }
            if !self.turn() {
                match self.active_at {
                    Some(at) if at.elapsed() < BUSY_FOR => self.endpoint.idle(),
                    _ => self.endpoint.wait(NAP),
                }
            }
        }
        self.endpoint.close_within(CLOSING_LIMIT);
    }

    fn obey(&mut self, request: &Request) -> Answer {
        let limit = |ms: u64| Duration::from_millis(ms);
        match *request {
            Request::LinkPing { rounds, pause_us, limit_ms } => {
                self.ping(rounds, Duration::from_micros(pause_us), limit(limit_ms))
            }
            Request::LinkMessage { len, seed, limit_ms } => {
                Answer::LinkMessage(self.message(len, seed, limit(limit_ms)))
            }
            Request::LinkStream { for_ms } => self.stream(limit(for_ms)),
            _ => Answer::Failed("that is nothing for a link".to_owned()),
        }
    }

    /// Takes in what has come, answers it, sends what waits. True when anything happened.
    fn turn(&mut self) -> bool {
        let mut busy = self.endpoint.progress();
        while let Some(message) = self.endpoint.pop_active() {
            busy = true;
            if Some(message.source) != self.peer && self.peer.is_some() {
                continue;
            }
            self.peer = Some(message.source);
            self.active_at = Some(Instant::now());
            let front: Option<[u8; 8]> = message.payload.get(..8).and_then(|b| b.try_into().ok());
            let Some(number) = front.map(u64::from_be_bytes) else { continue };
            match message.handler {
                PING => self.reply(PONG, message.payload),
                PONG => self.ponged = Some(number),
                CONTENT => {
                    let right = content(number, message.payload.len()) == message.payload;
                    let mut answer = number.to_be_bytes().to_vec();
                    answer.push(u8::from(right));
                    self.reply(CHECKED, answer);
                }
                CHECKED => self.checked = Some((number, message.payload.get(8) == Some(&1))),
                _ => {}
            }
        }
        while let Some((handler, payload)) = self.replies.pop_front() {
            match self.post(handler, &payload) {
                Err(PostError::Again) => {
                    self.replies.push_front((handler, payload));
                    break;
                }
                _ => busy = true,
            }
        }
        while let Some(done) = self.endpoint.pop_completion(Side::Send) {
            busy = true;
            self.under_way = self.under_way.saturating_sub(1);
            if done.outcome == Outcome::Done {
                self.acknowledged += done.context as u64;
            }
        }
        while let Some((peer, why)) = self.endpoint.pop_gone() {
            if Some(peer) == self.peer {
                self.ended = Some(match why {
                    wiglaf_endpoint::Gone::Closed => "the peer has ended".to_owned(),
                    wiglaf_endpoint::Gone::Unreachable => "nobody listens there".to_owned(),
                    wiglaf_endpoint::Gone::Silent => "the peer is silent".to_owned(),
                    wiglaf_endpoint::Gone::MachineSilent => {
                        "the peer's machine does not answer".to_owned()
                    }
                    wiglaf_endpoint::Gone::Blocked => {
                        "short frames arrive there, and long ones do not".to_owned()
                    }
                });
            }
        }
        if let Some((link, why)) = self.endpoint.take_failure() {
            self.ended = Some(format!("link {link} failed: {why}"));
        }
        busy
    }

    fn reply(&mut self, handler: u64, payload: Vec<u8>) {
        if self.replies.len() < REPLIES_MAX {
            self.replies.push_back((handler, payload));
        }
    }

    /// Posts a message; its completion brings its length back.
    fn post(&mut self, handler: u64, payload: &[u8]) -> Result<(), PostError> {
        let peer = self.peer.ok_or(PostError::PeerGone)?;
        self.endpoint.send_copy(peer, handler, payload.len(), payload)?;
        self.under_way += 1;
        Ok(())
    }

    /// Posts it as soon as there is room.
    fn send(&mut self, handler: u64, payload: &[u8], until: Instant) -> Result<(), Delivery> {
        loop {
            match self.post(handler, payload) {
                Ok(()) => return Ok(()),
                Err(PostError::Again) if Instant::now() < until => self.pass(),
                Err(PostError::Again) => return Err(Delivery::Silent),
                Err(_) => return Err(Delivery::Failed(self.end())),
            }
        }
    }

    fn end(&self) -> String {
        self.ended.clone().unwrap_or_else(|| "the peer is gone".to_owned())
    }

    fn pass(&mut self) {
        if !self.turn() {
            self.endpoint.idle();
        }
    }

    fn ping(&mut self, rounds: u32, pause: Duration, limit: Duration) -> Answer {
        let until = Instant::now() + limit;
        let (mut times, mut lost) = (Vec::new(), 0);
        // The first fifth warms up.
        let warm = rounds / 4;
        for round in 0..rounds.saturating_add(warm) {
            if Instant::now() + pause >= until {
                break;
            }
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
            let number = u64::from(round) + 1;
            let begun = Instant::now();
            if let Err(why) = self.send(PING, &number.to_be_bytes(), until) {
                return failed(why);
            }
            while self.ponged != Some(number) && self.ended.is_none() && Instant::now() < until {
                self.pass();
            }
            if self.ponged != Some(number) {
                lost += 1;
                break;
            }
            if round >= warm {
                times.push(begun.elapsed() / 2);
            }
        }
        if times.is_empty() {
            return failed(self.ended.clone().map_or(Delivery::Silent, Delivery::Failed));
        }
        Answer::LinkPinged(latency(times, lost))
    }

    fn message(&mut self, len: u32, seed: u64, limit: Duration) -> Delivery {
        /// What `inject_len_max` leaves of a frame.
        const RESERVE: usize = 128;
        let until = Instant::now() + limit;
        let len = match len {
            0 => 2 * (self.endpoint.inject_len_max() + RESERVE),
            len => len.min(CONTENT_LEN_MAX) as usize,
        };
        self.checked = None;
        let begun = Instant::now();
        if let Err(why) = self.send(CONTENT, &content(seed, len), until) {
            return why;
        }
        loop {
            match (&self.checked, &self.ended) {
                (Some((of, true)), _) if *of == seed => {
                    return Delivery::Intact(begun.elapsed().as_micros() as u64);
                }
                (Some((of, false)), _) if *of == seed => return Delivery::Damaged,
                (_, Some(why)) => return Delivery::Failed(why.clone()),
                _ if Instant::now() >= until => return Delivery::Silent,
                _ => self.pass(),
            }
        }
    }

    fn stream(&mut self, length: Duration) -> Answer {
        let payload = content(0, STREAM_LEN);
        let begun = Instant::now();
        let until = begun + length;
        let before = self.acknowledged;
        let (mut got, mut at) = (before, begun);
        while Instant::now() < until && self.ended.is_none() {
            // Answers of few bytes are under way beside the stream at times.
            if self.under_way < STREAM_WINDOW {
                match self.post(STREAM, &payload) {
                    Ok(()) | Err(PostError::Again) => {}
                    Err(_) => break,
                }
            }
            self.pass();
            if self.acknowledged > got {
                (got, at) = (self.acknowledged, Instant::now());
            }
        }
        // What is still under way would be in the way of what is measured next.
        let drained = Instant::now() + length.max(Duration::from_secs(1));
        while self.under_way > 0 && self.ended.is_none() && Instant::now() < drained {
            self.pass();
            if self.acknowledged > got {
                (got, at) = (self.acknowledged, Instant::now());
            }
        }
        match at.duration_since(begun).as_secs_f64() {
            seconds if seconds > 0.0 => Answer::LinkStream((got - before) as f64 / seconds / 1e6),
            _ => failed(self.ended.clone().map_or(Delivery::Silent, Delivery::Failed)),
        }
    }
}

fn failed(why: Delivery) -> Answer {
    Answer::Failed(match why {
        Delivery::Failed(why) => why,
        _ => "the peer is silent over the link".to_owned(),
    })
}

/// A message's content: the seed, and bytes that follow from it.
fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    bytes.extend(seed.to_be_bytes());
    // xorshift64*, which is never zero.
    let mut state = seed | 1;
    while bytes.len() < len {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend(state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_be_bytes());
    }
    bytes.truncate(len.max(8));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_follows_from_the_seed_alone() {
        assert_eq!(content(7, 1000), content(7, 1000));
        assert_ne!(content(7, 1000)[8..], content(9, 1000)[8..]);
        for len in [0, 1, 8, 9, 17] {
            let made = content(u64::MAX, len);
            assert_eq!(made.len(), len.max(8));
            assert_eq!(made[..8], [255; 8]);
        }
    }
}
