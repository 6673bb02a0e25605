//! A node's protocol through a byte stream, such as ssh's standard input and output.
//!
//! [`crate::proto`] is spoken on a Unix socket and hands descriptors over. Between hosts there are none:
//! here a message that comes with three of them becomes three channels. Each side has a Unix socket
//! towards its own program and frames towards the other side. A frame is a kind (1 byte), a length
//! (4 bytes, little endian) and so many bytes.
//!
//! Either side takes the other for dead after a limit without a frame, and so pings. That is for hosts
//! that lose their power: ssh itself would wait for TCP to give up.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::proto::{self, MESSAGE_LEN_MAX, Reply, Request};

/// The line that a host's agent begins with, before the version of its protocol. Whatever stands before
/// it was printed by the user's own shell.
pub(crate) const GREETING: &str = "wiglaf-host-agent";
/// As much is looked through for the greeting, in bytes.
const PREFACE_LEN_MAX: usize = 256 << 10;
/// Longest piece of a stream in one frame, in bytes.
const PIECE_LEN: usize = 32 << 10;
/// As much of the standard input may be under way that the command has not taken, in bytes: signals
/// travel behind it.
const UNTAKEN_LEN_MAX: u64 = 256 << 10;
/// How often a side says that it lives.
const PING_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked whether the other side lives.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Who has not looked for so long did not run.
const STOOD_STILL: Duration = Duration::from_secs(2);
/// How long the other side may take to end when it has been left.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// A pipe with nothing in it for so long has been read to where an ended command left it.
const EMPTY_AFTER: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A message of the protocol; its first byte says how many descriptors came with it.
    Message = 0,
    /// Bytes of the standard input.
    Input = 1,
    /// The standard input has ended.
    InputEnd = 2,
    /// Bytes of the standard output.
    Output = 3,
    /// The standard output has ended.
    OutputEnd = 4,
    /// Bytes of the standard error.
    Errors = 5,
    /// The standard error has ended.
    ErrorsEnd = 6,
    /// So many bytes of the standard input have been taken (8 bytes, little endian).
    Taken = 7,
    /// A sign of life.
    Ping = 8,
    /// How long silence is endured, in milliseconds (8 bytes, little endian); 0: for ever.
    Limit = 9,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        const ALL: [Kind; 10] = [
            Kind::Message,
            Kind::Input,
            Kind::InputEnd,
            Kind::Output,
            Kind::OutputEnd,
            Kind::Errors,
            Kind::ErrorsEnd,
            Kind::Taken,
            Kind::Ping,
            Kind::Limit,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Most bytes of such a frame.
    fn len_max(self) -> usize {
        match self {
            Self::Message => MESSAGE_LEN_MAX + 1,
            Self::Input | Self::Output | Self::Errors => PIECE_LEN,
            Self::Taken | Self::Limit => 8,
            Self::InputEnd | Self::OutputEnd | Self::ErrorsEnd | Self::Ping => 0,
        }
    }
}

/// Where frames go. Closing it is the end of the tunnel for the other side.
struct Outward(Mutex<Option<Box<dyn Write + Send>>>);

impl Outward {
    fn send(&self, kind: Kind, body: &[u8]) -> io::Result<()> {
        let mut frame = Vec::with_capacity(5 + body.len());
        frame.push(kind as u8);
        frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
        frame.extend_from_slice(body);
        let mut out = lock(&self.0);
        let out = out.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        out.write_all(&frame)?;
        out.flush()
    }

    /// A sign of life, unless somebody is sending: that is one as well, and may take until the other side
    /// reads again.
    fn ping(&self) {
        if let Ok(mut out) = self.0.try_lock()
            && let Some(out) = out.as_mut()
        {
            let _ = out.write_all(&[Kind::Ping as u8, 0, 0, 0, 0]).and_then(|()| out.flush());
        }
    }

    fn send_number(&self, kind: Kind, number: u64) -> io::Result<()> {
        self.send(kind, &number.to_le_bytes())
    }

    fn close(&self) {
        *lock(&self.0) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One frame, or nothing at the end of the stream.
fn receive(from: &mut impl Read) -> io::Result<Option<(Kind, Vec<u8>)>> {
    let mut head = [0; 5];
    let mut have = 0;
    while have < head.len() {
        match from.read(&mut head[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => have += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let kind = Kind::from_byte(head[0]).ok_or(io::ErrorKind::InvalidData)?;
    let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if len > kind.len_max() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // Grown as bytes come: a length alone must not cost memory.
    let mut body = Vec::new();
    let got = from.take(len as u64).read_to_end(&mut body)?;
    if got < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((kind, body)))
}

fn number(body: &[u8]) -> io::Result<u64> {
    body.try_into().map(u64::from_le_bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// When the other side was heard last, and how long its silence is endured.
#[derive(Debug)]
struct Pulse {
    begun: Instant,
    /// Milliseconds since `begun`.
    heard: AtomicU64,
    /// Milliseconds; 0 is for ever.
    limit: AtomicU64,
    /// Milliseconds since `begun`: when it was asked last whether the other side is lost.
    looked: AtomicU64,
    /// What has come is being handed to whoever reads it: nothing more is read meanwhile.
    is_busy: AtomicBool,
}

impl Pulse {
    fn new(limit: Option<Duration>) -> Self {
        let pulse = Self {
            begun: Instant::now(),
            heard: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            is_busy: AtomicBool::new(false),
        };
        pulse.set_limit(limit);
        pulse
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn hear(&self) {
        self.heard.store(self.now(), Ordering::Relaxed);
    }

    fn set_limit(&self, limit: Option<Duration>) {
        self.limit.store(millis(limit), Ordering::Relaxed);
        self.hear();
    }

    /// How long the other side has been silent, if that is too long.
    fn is_lost(&self) -> Option<Duration> {
        let now = self.now();
        let unseen = now.saturating_sub(self.looked.swap(now, Ordering::Relaxed));
        // Whoever did not look was stopped itself, as batch systems stop jobs: the other side may have been, too, and
        // what it has said is read only now.
        let stood_still = unseen > STOOD_STILL.as_millis() as u64;
        if stood_still || self.is_busy.load(Ordering::Relaxed) {
            self.hear();
            return None;
        }
        let limit = self.limit.load(Ordering::Relaxed);
        let silent = self.now().saturating_sub(self.heard.load(Ordering::Relaxed));
        (limit > 0 && silent > limit).then(|| Duration::from_millis(silent))
    }
}

/// Whether a tunnel has ended: told to those who wait.
#[derive(Debug, Default)]
struct Over {
    is_over: Mutex<bool>,
    said: Condvar,
}

impl Over {
    fn say(&self) {
        *lock(&self.is_over) = true;
        self.said.notify_all();
    }

    /// Waits for so long at most; whether it has ended.
    fn wait(&self, time: Duration) -> bool {
        let waited = self.said.wait_timeout_while(lock(&self.is_over), time, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// How much of the standard input is under way.
#[derive(Debug, Default)]
struct Untaken {
    /// Bytes that the other side has not taken; nothing when the tunnel has ended.
    len: Mutex<Option<u64>>,
    changed: Condvar,
}

impl Untaken {
    fn new() -> Self {
        Self { len: Mutex::new(Some(0)), changed: Condvar::new() }
    }

    /// Waits until more may be sent, and counts it. False when there is nobody any more.
    fn send(&self, count: usize) -> bool {
        let len = lock(&self.len);
        let is_full = |len: &mut Option<u64>| len.is_some_and(|len| len >= UNTAKEN_LEN_MAX);
        let mut len = self.changed.wait_while(len, is_full).unwrap_or_else(PoisonError::into_inner);
        match &mut *len {
            Some(len) => {
                *len += count as u64;
                true
            }
            None => false,
        }
    }

    fn take(&self, count: u64) {
        if let Some(len) = &mut *lock(&self.len) {
            *len = len.saturating_sub(count);
        }
        self.changed.notify_all();
    }

    fn end(&self) {
        *lock(&self.len) = None;
        self.changed.notify_all();
    }
}

/// Tells whether all that an ended command wrote has been sent, though others may hold its output open.
#[derive(Debug, Default)]
struct Drain {
    /// How many commands have ended: none or one.
    ended: AtomicU64,
    /// The `ended` that was known before a pipe was found empty.
    empty: AtomicU64,
}

impl Drain {
    /// Waits for something to read. False when there was nothing in a while.
    fn wait(&self, pipe: &File) -> bool {
        let ended = self.ended.load(Ordering::SeqCst);
        let is_empty =
            matches!(poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&EMPTY_AFTER)), Ok(0));
        if is_empty {
            self.empty.store(ended, Ordering::SeqCst);
        }
        !is_empty
    }
}

/// Sends what a descriptor gives, piece by piece, until its end.
fn pump(
    from: OwnedFd,
    (kind, end): (Kind, Kind),
    out: &Outward,
    may_send: &dyn Fn(usize) -> bool,
    drain: Option<&Drain>,
) {
    let mut from = File::from(from);
    let mut piece = vec![0; PIECE_LEN];
    loop {
        if drain.is_some_and(|drain| !drain.wait(&from)) {
            continue;
        }
        let count = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        if !may_send(count) || out.send(kind, &piece[..count]).is_err() {
            return;
        }
    }
    let _ = out.send(end, &[]);
}

/// How the client's side of a tunnel ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// No agent greeted; that is what came instead.
    NoGreeting(String),
    /// It greeted, with another version of the protocol.
    Version(String),
    /// The stream ended.
    Ended,
    /// Nothing was heard for so long.
    Silent(Duration),
}

/// 0 is for ever.
fn millis(limit: Option<Duration>) -> u64 {
    limit.map_or(0, |limit| limit.as_millis() as u64)
}

/// How long each side endures it that the other is silent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The host; none: for ever. The host endures the client's silence as long.
    pub(crate) host: Option<Duration>,
    /// The host endures the client's silence for ever, because that may stand still and not know it.
    pub(crate) may_be_frozen: bool,
}

impl Limits {
    /// What the host is told: milliseconds, 0 is for ever.
    fn of_client(self) -> u64 {
        millis(self.host.filter(|_| !self.may_be_frozen))
    }
}

/// The client's side: carries what is said on `local` through the tunnel, until either end closes.
/// `explain` makes a sentence of a tunnel that broke.
///
/// Blocks; what it starts besides has ended, or waits for a descriptor of the caller's only.
pub(crate) fn carry(
    local: UnixStream,
    mut from: impl Read,
    to: impl Write + Send + 'static,
    version: u32,
    limits: Limits,
    explain: &dyn Fn(Lost) -> String,
    hang_up: &(dyn Fn() + Sync),
) {
    let out = Arc::new(Outward(Mutex::new(Some(Box::new(to)))));
    let (local, pulse) = (Arc::new(local), Arc::new(Pulse::new(limits.host)));
    let (untaken, streams) = (Arc::new(Untaken::new()), Arc::new(Mutex::new(None)));
    let is_over = Arc::new(Over::default());
    let silent = Arc::new(Mutex::new(None));
    std::thread::scope(|scope| {
        scope.spawn({
            let (local, out, streams) = (local.clone(), out.clone(), streams.clone());
            let (untaken, pulse) = (untaken.clone(), pulse.clone());
            let is_over = is_over.clone();
            move || {
                let _ = out.send_number(Kind::Limit, limits.of_client());
                let _ = requests(&local, &out, &streams, &untaken, (&pulse, limits));
                // The host's agent ends what it runs for us, and itself.
                out.close();
                untaken.end();
                // It may be gone, and this must not stay.
                if !is_over.wait(LAST_WORDS) {
                    hang_up();
                }
            }
        });
        scope.spawn({
            let (out, pulse, is_over) = (out.clone(), pulse.clone(), is_over.clone());
            let (silent, local) = (silent.clone(), local.clone());
            move || {
                let mut pinged = Instant::now();
                while !is_over.wait(LOOK_EVERY) {
                    if pinged.elapsed() >= PING_EVERY {
                        pinged = Instant::now();
                        out.ping();
                    }
                    if let Some(time) = pulse.is_lost() {
                        *lock(&silent) = Some(time);
                        hang_up();
                        let _ = local.shutdown(std::net::Shutdown::Read);
                        break;
                    }
                }
            }
        });
        let lost = match greeted(&mut from, version) {
            Ok(()) => replies(&mut from, &local, &streams, &untaken, &pulse),
            Err(lost) => lost,
        };
        let lost = lock(&silent).map_or(lost, Lost::Silent);
        is_over.say();
        untaken.end();
        // The client learns why, if it still waits for an answer.
        let failed = Reply::Failed { sentence: explain(lost), not_found: false };
        let _ = proto::send(&local, &failed, &[]);
        let _ = local.shutdown(std::net::Shutdown::Both);
    });
}

/// Reads up to the greeting.
fn greeted(from: &mut impl Read, version: u32) -> Result<(), Lost> {
    let mut line = Vec::new();
    let mut before = String::new();
    let mut byte = [0];
    loop {
        match from.read(&mut byte) {
            Ok(0) => return Err(Lost::NoGreeting(before)),
            Ok(_) if byte[0] == b'\n' => {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if let Some(said) = text.strip_prefix(GREETING) {
                    return match said.trim() == version.to_string() {
                        true => Ok(()),
                        false => Err(Lost::Version(said.trim().to_owned())),
                    };
                }
                if before.len() + text.len() > PREFACE_LEN_MAX {
                    return Err(Lost::NoGreeting(before));
                }
                before.push_str(&text);
                before.push('\n');
                line.clear();
            }
            Ok(_) if line.len() >= PREFACE_LEN_MAX => return Err(Lost::NoGreeting(before)),
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(Lost::NoGreeting(before)),
        }
    }
}

/// Where a command's output goes here.
type Outputs = Mutex<Option<[Option<File>; 2]>>;

/// From the client to the tunnel.
fn requests(
    local: &UnixStream,
    out: &Arc<Outward>,
    streams: &Outputs,
    untaken: &Arc<Untaken>,
    (pulse, limits): (&Pulse, Limits),
) -> io::Result<()> {
    loop {
        let (request, fds) = proto::recv::<Request>(local)?;
        if let Request::Patience(limit) = request {
            pulse.set_limit(limit);
            out.send_number(Kind::Limit, Limits { host: limit, ..limits }.of_client())?;
            continue;
        }
        let mut body = vec![fds.len() as u8];
        serde_json::to_writer(&mut body, &request)?;
        let mut input = None;
        if let Ok([stdin, stdout, stderr]) = <[OwnedFd; 3]>::try_from(fds) {
            *lock(streams) = Some([Some(File::from(stdout)), Some(File::from(stderr))]);
            input = Some(stdin);
        }
        out.send(Kind::Message, &body)?;
        if let Some(stdin) = input {
            let (out, untaken) = (out.clone(), untaken.clone());
            // Not waited for: it may be a terminal that nobody types at.
            std::thread::spawn(move || {
                let kinds = (Kind::Input, Kind::InputEnd);
                pump(stdin, kinds, &out, &|count| untaken.send(count), None);
            });
        }
    }
}

/// From the tunnel to the client.
fn replies(
    from: &mut impl Read,
    local: &UnixStream,
    streams: &Outputs,
    untaken: &Untaken,
    pulse: &Pulse,
) -> Lost {
    while let Ok(Some((kind, body))) = receive(from) {
        pulse.hear();
        let write = |index: usize| {
            let mut streams = lock(streams);
            let Some(file) = streams.as_mut().and_then(|streams| streams[index].as_mut()) else {
                return;
            };
            pulse.is_busy.store(true, Ordering::Relaxed);
            let _ = file.write_all(&body);
            pulse.hear();
            pulse.is_busy.store(false, Ordering::Relaxed);
        };
        let close = |index: usize| {
            if let Some(streams) = &mut *lock(streams) {
                streams[index] = None;
            }
        };
        match kind {
            Kind::Output => write(0),
            Kind::OutputEnd => close(0),
            Kind::Errors => write(1),
            Kind::ErrorsEnd => close(1),
            Kind::Taken => match number(&body) {
                Ok(count) => untaken.take(count),
                Err(_) => break,
            },
            Kind::Ping => {}
            Kind::Message => {
                let reply = body.get(1..).map(serde_json::from_slice::<Reply>);
                let Some(Ok(reply)) = reply else { break };
                if matches!(reply, Reply::Ended(_) | Reply::Failed { .. }) {
                    // Whoever reads the output sees its end before that of the command.
                    *lock(streams) = None;
                }
                if proto::send(local, &reply, &[]).is_err() {
                    break;
                }
            }
            Kind::Input | Kind::InputEnd | Kind::Limit => break,
        }
    }
    Lost::Ended
}

/// The threads that send a command's output.
type Pumps = Mutex<Vec<(JoinHandle<()>, Arc<Drain>)>>;

/// The host's side: speaks for the client to a server on `local`, until either end closes. Greets first.
///
/// # Errors
/// When nothing can be written.
pub(crate) fn serve(
    local: UnixStream,
    mut from: impl Read + AsFd,
    mut to: impl Write + Send + 'static,
    version: u32,
) -> io::Result<()> {
    // On a line of its own, whatever a shell has printed before.
    to.write_all(format!("\n{GREETING} {version}\n").as_bytes())?;
    to.flush()?;
    let out = Arc::new(Outward(Mutex::new(Some(Box::new(to)))));
    let (local, pulse) = (Arc::new(local), Arc::new(Pulse::new(None)));
    let is_over = Arc::new(Over::default());
    let pumps = Arc::new(Pumps::default());
    let answers = std::thread::spawn({
        let (local, out, pumps) = (local.clone(), out.clone(), pumps.clone());
        move || answers(&local, &out, &pumps)
    });
    let pings = std::thread::spawn({
        let (out, is_over) = (out.clone(), is_over.clone());
        move || {
            while !is_over.wait(PING_EVERY) {
                out.ping();
            }
        }
    });
    let mut input = None;
    loop {
        // Looked at now and then, as a dead client closes nothing.
        let mut fds = [PollFd::new(&from, PollFlags::IN)];
        let wait = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        match poll(&mut fds, Some(&wait)) {
            Ok(0) if pulse.is_lost().is_some() => break,
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => break,
        }
        let Ok(Some((kind, body))) = receive(&mut from) else { break };
        pulse.hear();
        let taken = match kind {
            Kind::Message => request(&body, &local, &out, &mut input, &pumps).is_ok(),
            Kind::Input => match &input {
                Some(input) => {
                    let _ = input.send(body);
                    true
                }
                None => false,
            },
            Kind::InputEnd => {
                input = None;
                true
            }
            Kind::Limit => match number(&body) {
                Ok(limit) => {
                    pulse.set_limit((limit > 0).then(|| Duration::from_millis(limit)));
                    true
                }
                Err(_) => false,
            },
            Kind::Ping => true,
            _ => false,
        };
        if !taken {
            break;
        }
    }
    drop(input);
    is_over.say();
    // The server ends what it runs for this client.
    let _ = local.shutdown(std::net::Shutdown::Both);
    let _ = answers.join();
    let _ = pings.join();
    Ok(())
}

/// A client's message for the server, with pipes for the streams that came with it.
fn request(
    body: &[u8],
    local: &UnixStream,
    out: &Arc<Outward>,
    input: &mut Option<std::sync::mpsc::Sender<Vec<u8>>>,
    pumps: &Pumps,
) -> io::Result<()> {
    let (streams, json) = body.split_first().ok_or(io::ErrorKind::InvalidData)?;
    let request: Request = serde_json::from_slice(json)?;
    if *streams == 0 {
        return proto::send(local, &request, &[]);
    }
    if *streams != 3 || input.is_some() || !lock(pumps).is_empty() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let (stdin, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stdout, stdout_end) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr, stderr_end) = pipe_with(PipeFlags::CLOEXEC)?;
    proto::send(local, &request, &[stdin.as_fd(), stdout_end.as_fd(), stderr_end.as_fd()])?;
    drop((stdin, stdout_end, stderr_end));
    let (sender, pieces) = std::sync::mpsc::channel::<Vec<u8>>();
    *input = Some(sender);
    // Not waited for: the command may never read it.
    let taken = out.clone();
    std::thread::spawn(move || {
        let mut writer = File::from(writer);
        for piece in pieces {
            // Counted as taken where nobody reads, too, so that the client does not wait.
            let _ = writer.write_all(&piece);
            if taken.send_number(Kind::Taken, piece.len() as u64).is_err() {
                return;
            }
        }
    });
    let outputs =
        [(stdout, Kind::Output, Kind::OutputEnd), (stderr, Kind::Errors, Kind::ErrorsEnd)];
    for (pipe, kind, end) in outputs {
        let (out, drain) = (out.clone(), Arc::new(Drain::default()));
        let thread = std::thread::spawn({
            let drain = drain.clone();
            move || pump(pipe, (kind, end), &out, &|_| true, Some(&drain))
        });
        lock(pumps).push((thread, drain));
    }
    Ok(())
}

/// From the server to the client. A command's end is told behind all that it has written.
fn answers(local: &UnixStream, out: &Outward, pumps: &Pumps) {
    while let Ok((reply, _)) = proto::recv::<Reply>(local) {
        if matches!(reply, Reply::Ended(_)) {
            for (_, drain) in &*lock(pumps) {
                drain.ended.store(1, Ordering::SeqCst);
            }
            let has_more = |(pump, drain): &(JoinHandle<()>, Arc<Drain>)| {
                !pump.is_finished() && drain.empty.load(Ordering::SeqCst) == 0
            };
            while lock(pumps).iter().any(has_more) {
                std::thread::sleep(Duration::from_micros(500));
            }
        }
        let mut body = vec![0];
        if serde_json::to_writer(&mut body, &reply).is_err() {
            return;
        }
        if out.send(Kind::Message, &body).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::proto::{End, Spawn};

    /// A tunnel between a client and a server that a test plays; and what the client is told at its end.
    #[test]
    fn host_endures_the_silence_of_who_may_be_frozen() {
        let limits = |may_be_frozen| Limits { host: Some(Duration::from_secs(8)), may_be_frozen };
        assert_eq!((limits(false).of_client(), limits(true).of_client()), (8000, 0));
    }

    fn tunnel(limit: Option<Duration>) -> (UnixStream, UnixStream) {
        let (client, near) = UnixStream::pair().unwrap();
        let (far, server) = UnixStream::pair().unwrap();
        let (near_from, far_to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (far_from, near_to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        std::thread::spawn(move || serve(far, File::from(far_from), File::from(far_to), 7));
        std::thread::spawn(move || {
            let explain = |lost: Lost| format!("{lost:?}");
            let limits = Limits { host: limit, may_be_frozen: false };
            carry(near, File::from(near_from), File::from(near_to), 7, limits, &explain, &|| {});
        });
        (client, server)
    }

    #[test]
    fn a_command_has_its_streams_and_its_end_comes_behind_its_output() {
        let (client, server) = tunnel(None);
        let (mut input, stdin) =
            io::pipe().map(|(r, w)| (File::from(OwnedFd::from(w)), r)).unwrap();
        let (stdout, stdout_end) = io::pipe().unwrap();
        let (stderr, stderr_end) = io::pipe().unwrap();
        let spawn = Request::Spawn(Spawn::default());
        proto::send(&client, &spawn, &[stdin.as_fd(), stdout_end.as_fd(), stderr_end.as_fd()])
            .unwrap();
        drop((stdin, stdout_end, stderr_end));
        let (request, fds) = proto::recv::<Request>(&server).unwrap();
        assert!(matches!(request, Request::Spawn(_)));
        let [theirs_in, theirs_out, theirs_err] = <[OwnedFd; 3]>::try_from(fds).unwrap();
        // More than is under way at once, so that it has to be taken.
        let sent: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        let writing = std::thread::spawn({
            let sent = sent.clone();
            move || input.write_all(&sent)
        });
        let echo = std::thread::spawn(move || {
            let mut out = File::from(theirs_out);
            io::copy(&mut File::from(theirs_in), &mut out).unwrap();
            File::from(theirs_err).write_all(b"complaint").unwrap();
            // Somebody holds the output open.
            out
        });
        let mut got = vec![0; sent.len()];
        let mut stdout = File::from(OwnedFd::from(stdout));
        stdout.read_exact(&mut got).unwrap();
        writing.join().unwrap().unwrap();
        assert!(got == sent);
        let held = echo.join().unwrap();
        (&held).write_all(b"last words").unwrap();
        proto::send(&server, &Reply::Ended(End::Status(3)), &[]).unwrap();
        let (reply, _) = proto::recv::<Reply>(&client).unwrap();
        assert!(matches!(reply, Reply::Ended(End::Status(3))));
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "last words");
        let mut complaint = String::new();
        File::from(OwnedFd::from(stderr)).read_to_string(&mut complaint).unwrap();
        assert_eq!(complaint, "complaint");
        drop(held);
        // A client that goes is the end of the server's connection.
        drop(client);
        assert!(proto::recv::<Request>(&server).is_err());
    }

    #[test]
    fn signals_pass_input_that_nobody_reads() {
        let (client, server) = tunnel(None);
        let zeros = File::open("/dev/zero").unwrap();
        let null = File::options().write(true).open("/dev/null").unwrap();
        let spawn = Request::Spawn(Spawn::default());
        proto::send(&client, &spawn, &[zeros.as_fd(), null.as_fd(), null.as_fd()]).unwrap();
        let (_, unread) = proto::recv::<Request>(&server).unwrap();
        proto::send(&client, &Request::Signal(2), &[]).unwrap();
        let (request, _) = proto::recv::<Request>(&server).unwrap();
        assert!(matches!(request, Request::Signal(2)));
        drop(unread);
    }

    #[test]
    fn a_client_that_is_silent_too_long_is_dead_to_the_host() {
        let (far, server) = UnixStream::pair().unwrap();
        let (far_from, mut near_to) = io::pipe().unwrap();
        let far_from = File::from(OwnedFd::from(far_from));
        std::thread::spawn(move || serve(far, far_from, io::sink(), 7));
        let mut frame = vec![Kind::Limit as u8, 8, 0, 0, 0];
        frame.extend_from_slice(&50u64.to_le_bytes());
        near_to.write_all(&frame).unwrap();
        // Nothing more comes, and nothing is closed.
        assert!(proto::recv::<Request>(&server).is_err());
        drop(near_to);
    }

    #[test]
    fn a_host_that_is_silent_too_long_is_told_to_the_client() {
        let (client, near) = UnixStream::pair().unwrap();
        let (near_from, mut far_to) = io::pipe().unwrap();
        far_to.write_all(format!("motd\n\n{GREETING} 7\n").as_bytes()).unwrap();
        let hung_up = Arc::new(Mutex::new(Some(far_to)));
        std::thread::spawn(move || {
            let explain = |lost: Lost| format!("{lost:?}");
            let hang_up = || drop(lock(&hung_up).take());
            let limits = Limits { host: Some(Duration::from_millis(60)), may_be_frozen: false };
            carry(near, near_from, io::sink(), 7, limits, &explain, &hang_up);
        });
        let (reply, _) = proto::recv::<Reply>(&client).unwrap();
        let Reply::Failed { sentence, .. } = reply else { panic!("{reply:?}") };
        assert!(sentence.starts_with("Silent("), "{sentence}");
    }

    #[test]
    fn what_greets_otherwise_is_told_with_what_it_said() {
        for (said, expected) in [
            ("Welcome!\n", Lost::NoGreeting("Welcome!\n".to_owned())),
            ("\nwiglaf-host-agent 6\n", Lost::Version("6".to_owned())),
            ("", Lost::NoGreeting(String::new())),
        ] {
            assert_eq!(greeted(&mut Cursor::new(said), 7), Err(expected), "{said}");
        }
        assert_eq!(greeted(&mut Cursor::new("x\nwiglaf-host-agent 7\nrest"), 7), Ok(()));
    }

    #[test]
    fn frames_of_other_kinds_and_lengths_are_refused() {
        for bytes in [&[99, 0, 0, 0, 0][..], &[1, 255, 255, 255, 255], &[1, 2, 0, 0, 0, 7], &[1, 0]]
        {
            assert!(receive(&mut Cursor::new(bytes)).is_err(), "{bytes:?}");
        }
        assert!(receive(&mut Cursor::new([])).unwrap().is_none());
    }
}
