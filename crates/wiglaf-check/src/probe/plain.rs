//! Plain UDP sockets of one side: they answer pings at any time, and count what comes.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, set_ip_mtu_discover, set_ip_multicast_if, set_socket_recv_buffer_size,
};
use wiglaf_link_udp::{group, join_group};

use super::{Answer, ClockDifference, Latency, Open, Sent};
use crate::facts::realtime_ns;

/// Identifies a session's datagrams.
pub(super) type Token = [u8; 16];

// Kinds of datagrams: the byte behind the token. An identifier and a number follow.
const KNOCK: u8 = 1;
const PROBE: u8 = 2;
const PING: u8 = 3;
const PONG: u8 = 4;
const POUR: u8 = 5;
const HEADER_LEN: usize = 16 + 1 + 4 + 4;
/// A pong has two times behind its header.
const PONG_LEN: usize = HEADER_LEN + 16;
/// IP and UDP headers.
const IP_UDP_LEN: u32 = 28;
/// Identifiers of probes and floods that are remembered.
const IDS_MAX: usize = 256;
/// How long the receiver sleeps before it looks whether it should end.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Asked for of the kernel, which may give less: a flood waits here while the program has no core.
const BUFFER_LEN: usize = 8 << 20;
/// How long one round trip may take.
const ROUND_LIMIT: Duration = Duration::from_millis(200);
/// How long a refusal by ICMP may take.
const REFUSAL_PAUSE: Duration = Duration::from_millis(60);

/// The sockets of one side.
#[derive(Debug)]
pub(super) struct Plain {
    own: Ipv4Addr,
    peer_ip: Ipv4Addr,
    token: Token,
    /// Answers pings, receives probes and floods.
    at: SocketAddrV4,
    /// Both sides have joined it.
    group: SocketAddrV4,
    pub(super) listening: Vec<u16>,
    pub(super) busy: Vec<u16>,
    seen: Arc<Seen>,
    ends: Arc<AtomicBool>,
    receiver: Option<JoinHandle<()>>,
}

/// What has come.
#[derive(Debug, Default)]
struct Seen {
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Counts {
    knocked: Vec<u16>,
    probes: BTreeMap<u32, u32>,
    floods: BTreeMap<u32, Flood>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Flood {
    count: u32,
    reordered: u32,
    highest: u32,
}

impl Seen {
    /// A panic elsewhere leaves counts that are still counts.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plain {
    /// Binds a sample of the range, and one socket more; begins to answer.
    pub(super) fn open(open: &Open, token: Token) -> io::Result<Self> {
        let (mut sockets, mut listening, mut busy) = (Vec::new(), Vec::new(), Vec::new());
        for port in sample(open.ports, open.samples) {
            match UdpSocket::bind((open.own, port)) {
                Ok(socket) => {
                    listening.push(port);
                    sockets.push(socket);
                }
                Err(why) if why.kind() == io::ErrorKind::AddrInUse => busy.push(port),
                Err(why) => return Err(why),
            }
        }
        let main = free_port(open.own, open.ports)?;
        let SocketAddr::V4(at) = main.local_addr()? else {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        };
        let _ = set_socket_recv_buffer_size(&main, BUFFER_LEN);
        sockets.push(main);
        // Where the kernel joins no groups, nothing that is sent to one comes.
        let group = group_of(token, open.ports);
        sockets.extend(join_group(group, open.own));
        sockets.iter().try_for_each(|socket| socket.set_nonblocking(true))?;
        let (seen, ends) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
        let receiver = Receiver {
            sockets,
            listening: listening.clone(),
            peer_ip: open.peer,
            token,
            seen: Arc::clone(&seen),
            ends: Arc::clone(&ends),
        };
        let thread = std::thread::Builder::new().name("plain".to_owned());
        let receiver = Some(thread.spawn(move || receiver.run())?);
        let (own, peer_ip) = (open.own, open.peer);
        Ok(Self { own, peer_ip, token, at, group, listening, busy, seen, ends, receiver })
    }

    pub(super) fn at(&self) -> SocketAddrV4 {
        self.at
    }

    /// A new socket that knows the peer's port, so that refusals reach it.
    fn towards(&self, port: u16) -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind((self.own, 0))?;
        socket.connect((self.peer_ip, port))?;
        Ok(socket)
    }

    fn datagram(&self, kind: u8, id: u32, number: u32, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len.max(HEADER_LEN));
        bytes.extend(self.token);
        bytes.push(kind);
        bytes.extend(id.to_be_bytes());
        bytes.extend(number.to_be_bytes());
        bytes.resize(len.max(HEADER_LEN), 0);
        bytes
    }

    /// Sends to each port from a socket that nothing was ever sent to: a firewall that lets answers
    /// pass must not take a knock for one.
    pub(super) fn knock(&self, ports: &[u16]) -> Answer {
        /// Against chance.
        const COPIES: usize = 3;
        let knock = self.datagram(KNOCK, 0, 0, 0);
        let mut sockets = Vec::new();
        for port in ports {
            match self.towards(*port) {
                Ok(socket) => sockets.push((*port, socket)),
                Err(why) => return Answer::Failed(format!("no socket towards the peer: {why}")),
            }
        }
        let mut refused = Vec::new();
        for _ in 0..COPIES {
            for (port, socket) in &sockets {
                if let Err(why) = socket.send(&knock)
                    && is_refusal(&why)
                {
                    refused.push(*port);
                }
            }
            std::thread::sleep(REFUSAL_PAUSE / COPIES as u32);
        }
        for (port, socket) in &sockets {
            if let Ok(Some(why)) = socket.take_error()
                && is_refusal(&why)
            {
                refused.push(*port);
            }
        }
        refused.sort_unstable();
        refused.dedup();
        Answer::Knocked(refused)
    }

    pub(super) fn heard(&self, after: Duration) -> Vec<u16> {
        let until = Instant::now() + after;
        let mut counts = self.seen.lock();
        while counts.knocked.len() < self.listening.len() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.seen.changed.wait_timeout(counts, left);
            counts = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut ports = counts.knocked.clone();
        ports.sort_unstable();
        ports
    }

    /// Sends datagrams of that IP length that may not be fragmented.
    pub(super) fn probe(&self, to: u16, id: u32, len: u32, copies: u32) -> io::Result<Sent> {
        let socket = self.towards(to)?;
        // Sets the flag, and does not believe what ICMP has said of the way before.
        set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?;
        let payload = len.saturating_sub(IP_UDP_LEN) as usize;
        let is_too_long =
            |why: &io::Error| why.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error());
        for number in 0..copies {
            match socket.send(&self.datagram(PROBE, id, number, payload)) {
                Err(why) if is_too_long(&why) && number == 0 => return Ok(Sent::TooLongHere),
                Err(why) if is_too_long(&why) => return Ok(Sent::TooLongThere),
                // A refusal of the one before says nothing of lengths.
                Err(why) if is_refusal(&why) => {}
                Err(why) => return Err(why),
                Ok(_) => {}
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        match socket.take_error() {
            Ok(Some(why)) if is_too_long(&why) => Ok(Sent::TooLongThere),
            _ => Ok(Sent::Left),
        }
    }

    /// Sends datagrams to the session's group.
    pub(super) fn shout(&self, id: u32, copies: u32) -> io::Result<Sent> {
        let socket = UdpSocket::bind((self.own, 0))?;
        set_ip_multicast_if(&socket, &self.own)?;
        for number in 0..copies {
            socket.send_to(&self.datagram(PROBE, id, number, 0), self.group)?;
            // A switch may have to learn who listens.
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Sent::Left)
    }

    /// How many of those probes have come; waits for the first.
    pub(super) fn seen(&self, id: u32, limit: Duration) -> u32 {
        let until = Instant::now() + limit;
        let mut counts = self.seen.lock();
        loop {
            let count = counts.probes.get(&id).copied().unwrap_or(0);
            let left = until.saturating_duration_since(Instant::now());
            if count > 0 || left.is_zero() {
                return count;
            }
            let waited = self.seen.changed.wait_timeout(counts, left);
            counts = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Round trips, and the peer's clock from the shortest of them.
    pub(super) fn ping(&self, to: u16, rounds: u32, limit: Duration) -> io::Result<Answer> {
        let socket = self.towards(to)?;
        socket.set_read_timeout(Some(ROUND_LIMIT))?;
        let until = Instant::now() + limit;
        let (mut times, mut lost) = (Vec::new(), 0);
        let mut clock: Option<ClockDifference> = None;
        let mut buffer = [0; 2048];
        'rounds: for number in 0..rounds {
            if Instant::now() >= until {
                break;
            }
            let sent_at = realtime_ns();
            let begun = Instant::now();
            if let Err(why) = socket.send(&self.datagram(PING, 0, number, PONG_LEN))
                && !is_refusal(&why)
            {
                return Err(why);
            }
            while begun.elapsed() < ROUND_LIMIT {
                // A refusal, too, ends the round only with its time.
                let Ok(len) = socket.recv(&mut buffer) else { continue };
                let took = begun.elapsed();
                let Some((PONG, _, of, rest)) = parse(&buffer[..len], self.token) else { continue };
                let (Some(received), Some(answered)) = (time_at(rest, 0), time_at(rest, 8)) else {
                    continue;
                };
                if of != number {
                    continue;
                }
                let way = took.as_nanos() as i64;
                let difference = difference(sent_at, received, answered, way);
                if clock.is_none_or(|known| difference.bound_ns < known.bound_ns) {
                    clock = Some(difference);
                }
                times.push(took / 2);
                continue 'rounds;
            }
            lost += 1;
        }
        Ok(Answer::Pinged { latency: latency(times, lost), clock })
    }

    /// Sends datagrams, evenly over time: those of one millisecond together.
    pub(super) fn pour(
        &self,
        to: u16,
        (id, count, len, per_s): (u32, u32, u32, u32),
        limit: Duration,
    ) -> io::Result<Answer> {
        let socket = self.towards(to)?;
        let begun = Instant::now();
        let mut sent = 0;
        let mut datagram = self.datagram(POUR, id, 0, len as usize);
        while sent < count && begun.elapsed() < limit {
            let due = (begun.elapsed().as_secs_f64() * f64::from(per_s)) as u32 + 1;
            while sent < due.min(count) {
                datagram[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&sent.to_be_bytes());
                match socket.send(&datagram) {
                    Ok(_) => {}
                    Err(why) if is_refusal(&why) => {}
                    // The interface's queue is full: this host's own loss, which the figures show.
                    Err(why)
                        if why.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                    }
                    Err(why) => return Err(why),
                }
                sent += 1;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Answer::Pouring(sent, begun.elapsed().as_millis() as u64))
    }

    pub(super) fn poured(&self, id: u32) -> Answer {
        let flood = self.seen.lock().floods.get(&id).copied().unwrap_or_default();
        Answer::Poured(flood.count, flood.reordered)
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(receiver) = self.receiver.take() {
            let _ = receiver.join();
        }
    }
}

/// The thread that answers and counts.
struct Receiver {
    /// Those at the ports of the sample, and the main one.
    sockets: Vec<UdpSocket>,
    listening: Vec<u16>,
    peer_ip: Ipv4Addr,
    token: Token,
    seen: Arc<Seen>,
    ends: Arc<AtomicBool>,
}

impl Receiver {
    fn run(&self) {
        let mut fds: Vec<PollFd<'_>> =
            self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        let mut buffer = vec![0; 1 << 16];
        while !self.ends.load(Ordering::Relaxed) {
            if poll(&mut fds, Some(&NAP)).is_err() {
                continue;
            }
            for (at, socket) in self.sockets.iter().enumerate() {
                if !fds[at].revents().is_empty() {
                    self.empty(at, socket, &mut buffer);
                }
            }
        }
    }

    /// Takes what waits at one socket, but does not stay there for ever.
    fn empty(&self, at: usize, socket: &UdpSocket, buffer: &mut [u8]) {
        const BURST_MAX: usize = 1024;
        for _ in 0..BURST_MAX {
            let Ok((len, from)) = socket.recv_from(buffer) else { return };
            let received = realtime_ns();
            if from.ip() != IpAddr::V4(self.peer_ip) {
                continue;
            }
            let Some((kind, id, number, _)) = parse(&buffer[..len], self.token) else { continue };
            match (kind, self.listening.get(at)) {
                (KNOCK, Some(port)) => self.note(|counts| {
                    if !counts.knocked.contains(port) {
                        counts.knocked.push(*port);
                    }
                }),
                (PROBE, None) => self.note(|counts| {
                    if counts.probes.len() < IDS_MAX {
                        *counts.probes.entry(id).or_default() += 1;
                    }
                }),
                (POUR, None) => self.note(|counts| counts.pour(id, number)),
                (PING, None) => {
                    let mut pong = buffer[..HEADER_LEN].to_vec();
                    pong[16] = PONG;
                    pong.extend(received.to_be_bytes());
                    pong.extend(realtime_ns().to_be_bytes());
                    let _ = socket.send_to(&pong, from);
                }
                _ => {}
            }
        }
    }

    fn note(&self, note: impl FnOnce(&mut Counts)) {
        note(&mut self.seen.lock());
        self.seen.changed.notify_all();
    }
}

impl Counts {
    fn pour(&mut self, id: u32, number: u32) {
        if self.floods.len() >= IDS_MAX && !self.floods.contains_key(&id) {
            return;
        }
        let flood = self.floods.entry(id).or_default();
        if flood.count > 0 && number < flood.highest {
            flood.reordered += 1;
        }
        flood.highest = flood.highest.max(number);
        flood.count += 1;
    }
}

/// The group of a session, at a port of the range.
fn group_of([a, b, c, d, e, ..]: Token, (first, last): (u16, u16)) -> SocketAddrV4 {
    let (first, last) = (first.min(last).max(1), last.max(first).max(1));
    let width = u32::from(last - first) + 1;
    group([a, b, c], first + (u32::from(u16::from_be_bytes([d, e])) % width) as u16)
}

/// Kind, identifier, number and what follows.
fn parse(bytes: &[u8], token: Token) -> Option<(u8, u32, u32, &[u8])> {
    let (header, rest) = bytes.split_at_checked(HEADER_LEN)?;
    let number = |at: usize| Some(u32::from_be_bytes(header[at..at + 4].try_into().ok()?));
    (header[..16] == token).then_some(())?;
    Some((header[16], number(17)?, number(21)?, rest))
}

fn time_at(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// What NTP makes of a round trip: sent here, received and answered there, and how long it took here.
fn difference(sent: i64, received: i64, answered: i64, took: i64) -> ClockDifference {
    let arrived = i128::from(sent) + i128::from(took);
    let (received, answered) = (i128::from(received), i128::from(answered));
    let ahead = ((received - i128::from(sent)) + (answered - arrived)) / 2;
    let wire = i128::from(took) - (answered - received);
    let narrow = |wide: i128| wide.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    ClockDifference { ahead_ns: narrow(ahead), bound_ns: narrow(wire.abs() / 2 + 1) }
}

/// The figures of some times.
pub(super) fn latency(mut times: Vec<Duration>, lost: u32) -> Latency {
    times.sort_unstable();
    let us = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_nanos() as f64 / 1e3);
    Latency {
        min_us: us(times.first()),
        p50_us: us(times.get(times.len() / 2)),
        p99_us: us(times.get(times.len() * 99 / 100)),
        rounds: times.len() as u32,
        lost,
    }
}

/// Whether an error is the word that nobody listens: it belongs to an earlier datagram.
fn is_refusal(why: &io::Error) -> bool {
    // A firewall that rejects may choose any of these.
    matches!(
        why.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
    ) || why.raw_os_error() == Some(rustix::io::Errno::ACCESS.raw_os_error())
}

/// Ports of the range, first and last among them.
pub(super) fn sample((first, last): (u16, u16), count: u16) -> Vec<u16> {
    let (first, last) = (first.min(last).max(1), last.max(first).max(1));
    let width = u32::from(last - first);
    let steps = u32::from(count.saturating_sub(1)).min(width);
    match (count, steps) {
        (0, _) => Vec::new(),
        (_, 0) => vec![first],
        _ => (0..=steps).map(|step| first + (width * step / steps) as u16).collect(),
    }
}

/// A socket at a port of the range that nobody has; at any port, if there is none.
pub(super) fn free_port(own: Ipv4Addr, (first, last): (u16, u16)) -> io::Result<UdpSocket> {
    let (first, last) = (first.min(last).max(1), last.max(first).max(1));
    let width = u64::from(last - first) + 1;
    // Beginning anywhere, so that processes of one host do not try the same ports in a row.
    let begin = u64::from(std::process::id()).wrapping_add(realtime_ns() as u64 / 1000);
    for step in 0..width.min(64) {
        // An odd stride comes by all ports of the usual ranges.
        let port = first + ((begin.wrapping_add(step * 37)) % width) as u16;
        match UdpSocket::bind((own, port)) {
            Err(why) if why.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound,
        }
    }
    UdpSocket::bind((own, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_both_ends_and_no_port_twice() {
        assert_eq!(sample((47000, 47999), 3), [47000, 47499, 47999]);
        assert_eq!(sample((5, 7), 16), [5, 6, 7]);
        assert_eq!((sample((9, 9), 4), sample((9, 10), 0)), (vec![9], vec![]));
        assert_eq!(sample((0, u16::MAX), 2), [1, u16::MAX]);
        assert_eq!(sample((8, 4), 2), [4, 8]);
    }

    #[test]
    fn the_clocks_difference_does_not_depend_on_the_answerers_pause() {
        // The peer is 41 s late; 100 us there and back, 7 ms between.
        let sent = 1_000_000_000_000;
        let received = sent + 50_000 - 41_000_000_000;
        let clock = difference(sent, received, received + 7_000_000, 7_100_000);
        assert_eq!(clock, ClockDifference { ahead_ns: -41_000_000_000, bound_ns: 50_001 });
    }

    #[test]
    fn any_times_make_a_difference() {
        for time in [i64::MIN, -1, 0, i64::MAX] {
            difference(0, time, i64::MIN, 1);
            difference(time, i64::MAX, time, i64::MAX);
        }
    }

    #[test]
    fn what_has_no_token_of_this_session_is_not_read() {
        let mut bytes = [7; HEADER_LEN];
        assert!(parse(&bytes, [7; 16]).is_some());
        bytes[3] = 8;
        assert!(parse(&bytes, [7; 16]).is_none() && parse(&bytes[..20], [7; 16]).is_none());
    }
}
