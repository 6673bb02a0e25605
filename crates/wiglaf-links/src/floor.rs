//! What a bare link can do, without any protocol above it: the floor under
//! every figure that the whole stack reaches.
//!
//! One side serves, the other measures. Nothing is repeated when lost, so
//! this is for wires that lose nothing.

use std::io;
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use memmap2::MmapMut;
use wiglaf_endpoint::LinkKind;
use wiglaf_link::{Lane, Link, Sent, Train};

use crate::choose::{OpenError, open_links};

/// How long the other side may keep us waiting.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many polls pass between two looks at the clock while waiting.
const POLLS_PER_LOOK: u32 = 1 << 12;

// The first byte of each frame.
const HELLO: u8 = 1;
const PING: u8 = 2;
const DATA: u8 = 3;
const BYE: u8 = 4;

/// Half round trips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    /// The median.
    pub p50: Duration,
    /// All but one percent are below it.
    pub p99: Duration,
}

/// Opens the link of one side. Both know the other's address beforehand; the
/// epoch that shared memory goes by is taken from the port.
///
/// # Errors
/// When the link does not work here.
pub fn open(
    at: SocketAddrV4,
    peer: SocketAddrV4,
    choice: LinkKind,
) -> Result<Box<dyn Link>, OpenError> {
    let opened = open_links(at, epoch_of(at), choice)?;
    let mut link = match (opened.net, opened.shm) {
        (Some(net), _) => net,
        (None, Some(shm)) => shm,
        (None, None) => return Err(OpenError::Shm(io::ErrorKind::Unsupported.into())),
    };
    link.add_peer(peer, epoch_of(peer));
    Ok(link)
}

fn epoch_of(at: SocketAddrV4) -> u64 {
    0xf100_0000_0000_0000 | (u64::from(u32::from(*at.ip())) << 16) | u64::from(at.port())
}

/// Answers one client until it says good-bye.
///
/// # Errors
/// When the link fails, or the client falls silent after it has begun.
pub fn serve(link: &mut dyn Link, client: SocketAddrV4) -> io::Result<()> {
    let bulk_port = link.bulk_port().to_ne_bytes();
    let window_len = (link.limits().bulk_window_len as u64).to_ne_bytes();
    let hello: Vec<u8> = [HELLO].into_iter().chain(bulk_port).chain(window_len).collect();
    let mut frame = Vec::with_capacity(link.limits().frame_len_max);
    let mut received: u64 = 0;
    let mut told: u64 = 0;
    let mut patience = Patience::endless();
    loop {
        let mut answer = None;
        let count = link.recv(&mut |_, bytes| match bytes.first() {
            Some(&DATA) => received += bytes.len() as u64,
            Some(&op) => {
                answer = Some(op);
                frame.clear();
                frame.extend_from_slice(bytes);
            }
            None => {}
        })?;
        if count == 0 {
            patience.wait()?;
            continue;
        }
        patience = Patience::new();
        match answer {
            Some(HELLO) => {
                link.add_peer(client, epoch_of(client));
                (received, told) = (0, 0);
                send(link, client, &hello)?;
            }
            Some(PING) => send(link, client, &frame)?,
            Some(BYE) => return Ok(()),
            _ => {}
        }
        // A ninth of the window at a time, so that reports cost nothing.
        if received - told >= link.limits().bulk_window_len as u64 / 9 {
            told = received;
            let mut report = [DATA; 9];
            report[1..].copy_from_slice(&received.to_ne_bytes());
            send(link, client, &report)?;
        }
    }
}

/// Measures half round trips of frames of `len` bytes (at least 1).
///
/// # Errors
/// When the link fails or the server does not answer.
pub fn ping(
    link: &mut dyn Link,
    server: SocketAddrV4,
    len: usize,
    rounds: usize,
) -> io::Result<Latency> {
    greet(link, server)?;
    let frame = vec![PING; len.clamp(1, link.limits().frame_len_max)];
    let mut times = Vec::with_capacity(rounds);
    for round in 0..rounds.max(1) + rounds / 4 {
        let begin = Instant::now();
        send(link, server, &frame)?;
        await_frame(link, PING)?;
        // The first fifth warms up.
        if round >= rounds / 4 {
            times.push(begin.elapsed() / 2);
        }
    }
    times.sort_unstable();
    Ok(Latency { p50: times[times.len() / 2], p99: times[times.len() * 99 / 100] })
}

/// Sends `len` bytes in bulk trains and says how many arrived per second.
///
/// # Errors
/// When the link fails, or something was lost.
pub fn stream(link: &mut dyn Link, server: SocketAddrV4, len: u64) -> io::Result<f64> {
    let (bulk, window_len) = greet(link, server)?;
    let limits = link.limits();
    // Mapped for it alone, as the link may read it for longer than this function runs.
    let mut train = MmapMut::map_anon(limits.frame_len_max * limits.bulk_train_max)?;
    train.fill(DATA);
    // Bytes beyond the last report stay untold: a ninth of the window, and a train.
    let slack = window_len / 9 + train.len() as u64;
    let (mut sent, mut arrived) = (0u64, 0u64);
    let begin = Instant::now();
    let mut patience = Patience::new();
    while arrived + slack < len {
        if sent + train.len() as u64 <= arrived + window_len {
            let train = Train {
                to: bulk,
                lane: Lane::Bulk,
                segment_len: limits.frame_len_max,
                bytes: &train,
            };
            if link.lend(&train)? != Sent::Full {
                sent += train.bytes.len() as u64;
                continue;
            }
        }
        let before = arrived;
        link.recv(&mut |_, bytes| {
            if let [DATA, count @ ..] = bytes
                && let Ok(count) = <[u8; 8]>::try_from(count)
            {
                arrived = arrived.max(u64::from_ne_bytes(count));
            }
        })?;
        if arrived == before {
            patience.wait()?;
        } else {
            patience = Patience::new();
        }
    }
    Ok(arrived as f64 / begin.elapsed().as_secs_f64())
}

/// Ends the server.
///
/// # Errors
/// When the link fails.
pub fn bye(link: &mut dyn Link, server: SocketAddrV4) -> io::Result<()> {
    send(link, server, &[BYE])
}

/// Learns where the server's bulk lane is, and how much it holds.
fn greet(link: &mut dyn Link, server: SocketAddrV4) -> io::Result<(SocketAddrV4, u64)> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        // The server may not be there yet, or its shared memory.
        link.add_peer(server, epoch_of(server));
        send(link, server, &[HELLO])?;
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE / 100 {
            let mut answer = None;
            link.recv(&mut |_, bytes| {
                if let [HELLO, a, b, window @ ..] = bytes
                    && let Ok(window) = <[u8; 8]>::try_from(window)
                {
                    let bulk = SocketAddrV4::new(*server.ip(), u16::from_ne_bytes([*a, *b]));
                    answer = Some((bulk, u64::from_ne_bytes(window)));
                }
            })?;
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }
    Err(silent())
}

fn await_frame(link: &mut dyn Link, op: u8) -> io::Result<()> {
    let mut patience = Patience::new();
    loop {
        let mut is_there = false;
        link.recv(&mut |_, bytes| is_there |= bytes.first() == Some(&op))?;
        if is_there {
            return Ok(());
        }
        patience.wait()?;
    }
}

fn send(link: &mut dyn Link, to: SocketAddrV4, bytes: &[u8]) -> io::Result<()> {
    let train = Train { to, lane: Lane::Latency, segment_len: bytes.len(), bytes };
    let mut patience = Patience::new();
    while link.send(&train)? == Sent::Full {
        patience.wait()?;
    }
    Ok(())
}

fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the other side does not answer")
}

/// Waits by spinning, but not for ever.
struct Patience {
    polls: u32,
    since: Option<Instant>,
    is_endless: bool,
}

impl Patience {
    fn new() -> Self {
        Self { polls: 0, since: None, is_endless: false }
    }

    fn endless() -> Self {
        Self { is_endless: true, ..Self::new() }
    }

    fn wait(&mut self) -> io::Result<()> {
        self.polls += 1;
        if self.polls < POLLS_PER_LOOK {
            std::hint::spin_loop();
            return Ok(());
        }
        self.polls = 0;
        // Both sides may have to share a core.
        std::thread::yield_now();
        let since = *self.since.get_or_insert_with(Instant::now);
        if !self.is_endless && since.elapsed() > PATIENCE { Err(silent()) } else { Ok(()) }
    }
}
