//! The users' side.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::protocol::{Refusal, Request, SocketKind, parse_answer};
use crate::tuning::{Tuned, Wants};
use crate::{SOCKET, SOCKET_VAR};

/// A helper that says nothing for so long is none, and one that is busy for so long stays so.
const PATIENCE: Duration = Duration::from_secs(5);
/// Cards that are started anew take their time, one after the other.
const TUNING_PATIENCE: Duration = Duration::from_secs(30);
/// Pauses before a busy helper is asked again: the first, and the longest of those that double it. The
/// ranks of a job on one node start together, and may be more than it serves at once.
const BUSY_PAUSE_MIN: Duration = Duration::from_millis(2);
const BUSY_PAUSE_MAX: Duration = Duration::from_millis(200);
/// One that has ended is started again within a second, by systemd or by its emulated node.
const RESTART_PATIENCE: Duration = Duration::from_secs(3);
const RESTART_PAUSE: Duration = Duration::from_millis(20);

/// Why there is no descriptor.
#[derive(Debug)]
pub enum AskError {
    /// There is no helper here, or `WIGLAF_HELPER=off`.
    None,
    /// It has ended, which its socket shows, and none was started again while this waited.
    Ended,
    /// It refused, with a sentence.
    Refused(Refusal, String),
    /// It did not answer as a helper does.
    Broken(io::Error),
}

impl std::fmt::Display for AskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => write!(f, "no wiglaf-helper runs here"),
            Self::Ended => write!(f, "the wiglaf-helper here has ended, and no other was started"),
            Self::Refused(_, sentence) => write!(f, "the helper refuses: {sentence}"),
            Self::Broken(error) => write!(f, "the helper does not answer: {error}"),
        }
    }
}

impl std::error::Error for AskError {}

/// Asks the helper of this machine for a descriptor that belongs to `udp`, a
/// bound socket of this process.
///
/// # Errors
/// [`AskError`].
pub fn ask(kind: SocketKind, udp: &impl AsFd) -> Result<OwnedFd, AskError> {
    ask_at(&socket_path().ok_or(AskError::None)?, kind, udp)
}

/// Asks the helper that listens at `path` for a descriptor that belongs to `udp`, a bound socket of this process.
///
/// # Errors
/// [`AskError`].
pub fn ask_at(path: &Path, kind: SocketKind, udp: &impl AsFd) -> Result<OwnedFd, AskError> {
    let began = Instant::now();
    let mut pause = BUSY_PAUSE_MIN;
    let (_, descriptor) = loop {
        match talk_to_any(path, Request::Open(kind), Some(udp.as_fd())) {
            Err(AskError::Refused(Refusal::TooOften, _)) if began.elapsed() + pause < PATIENCE => {
                std::thread::sleep(pause);
                pause = BUSY_PAUSE_MAX.min(pause * 2);
            }
            other => break other?,
        }
    };
    descriptor.ok_or_else(|| AskError::Broken(io::ErrorKind::InvalidData.into()))
}

/// What the helper says of itself, and of what it would do for this user.
///
/// # Errors
/// [`AskError`].
pub fn status() -> Result<String, AskError> {
    status_at(&socket_path().ok_or(AskError::None)?)
}

/// Asks the helper that listens at `path` about itself, and about what it would do for this user.
///
/// # Errors
/// [`AskError`].
pub fn status_at(path: &Path) -> Result<String, AskError> {
    Ok(talk_to_any(path, Request::Status, None)?.0)
}

/// A tuning that lasts as long as this value, and no longer than this process.
#[derive(Debug)]
pub struct TuningLease {
    end: OwnedFd,
}

impl TuningLease {
    /// The pipe's end that stands for it: it has an error (POLLERR) when the helper has ended, and all is as
    /// it was.
    #[must_use]
    pub fn end(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

/// Has the helper tune this host as long as the lease lives.
///
/// # Errors
/// [`AskError`].
pub fn hold_tuning(wants: Wants) -> Result<(Tuned, TuningLease), AskError> {
    hold_tuning_at(&socket_path().ok_or(AskError::None)?, wants)
}

/// Has the helper that listens at `path` tune this host as long as the lease lives.
///
/// # Errors
/// [`AskError`].
pub fn hold_tuning_at(path: &Path, wants: Wants) -> Result<(Tuned, TuningLease), AskError> {
    let (tuned, end) = ask_tuned(path, Request::Hold(wants))?;
    let end = end.ok_or_else(|| AskError::Broken(io::ErrorKind::InvalidData.into()))?;
    Ok((tuned, TuningLease { end }))
}

/// Has the helper tune this host until this user undoes it.
///
/// # Errors
/// [`AskError`].
pub fn keep_tuning(wants: Wants) -> Result<Tuned, AskError> {
    keep_tuning_at(&socket_path().ok_or(AskError::None)?, wants)
}

/// Has the helper that listens at `path` tune this host until this user undoes it.
///
/// # Errors
/// [`AskError`].
pub fn keep_tuning_at(path: &Path, wants: Wants) -> Result<Tuned, AskError> {
    Ok(ask_tuned(path, Request::Keep(wants))?.0)
}

/// Undoes what this user has kept; root undoes everybody's.
///
/// # Errors
/// [`AskError`].
pub fn undo_tuning() -> Result<Tuned, AskError> {
    undo_tuning_at(&socket_path().ok_or(AskError::None)?)
}

/// Has the helper that listens at `path` undo what this user has kept; root undoes everybody's.
///
/// # Errors
/// [`AskError`].
pub fn undo_tuning_at(path: &Path) -> Result<Tuned, AskError> {
    Ok(ask_tuned(path, Request::Undo)?.0)
}

/// How this host is tuned.
///
/// # Errors
/// [`AskError`].
pub fn tuned() -> Result<Tuned, AskError> {
    tuned_at(&socket_path().ok_or(AskError::None)?)
}

/// How this host is tuned, as the helper that listens at `path` tells.
///
/// # Errors
/// [`AskError`].
pub fn tuned_at(path: &Path) -> Result<Tuned, AskError> {
    Ok(ask_tuned(path, Request::Tuned)?.0)
}

fn ask_tuned(path: &Path, request: Request) -> Result<(Tuned, Option<OwnedFd>), AskError> {
    let (json, descriptor) = talk_to_any(path, request, None)?;
    let broken = |error: serde_json::Error| AskError::Broken(error.into());
    Ok((serde_json::from_str(&json).map_err(broken)?, descriptor))
}

fn socket_path() -> Option<PathBuf> {
    match std::env::var_os(SOCKET_VAR).filter(|value| !value.is_empty()) {
        Some(value) if value == "off" => None,
        Some(value) => Some(value.into()),
        None => Some(SOCKET.into()),
    }
}

/// Talks to the helper, or to the next where it has ended.
fn talk_to_any(
    path: &Path,
    request: Request,
    udp: Option<BorrowedFd<'_>>,
) -> Result<(String, Option<OwnedFd>), AskError> {
    let began = Instant::now();
    let mut had_ended = false;
    loop {
        match talk(path, request, udp) {
            Err(AskError::Ended) => had_ended = true,
            // Where systemd keeps the folder with the service, and not a socket, it is away for a moment.
            Err(AskError::None) if had_ended => {}
            outcome => return outcome,
        }
        if began.elapsed() >= RESTART_PATIENCE {
            return Err(AskError::Ended);
        }
        std::thread::sleep(RESTART_PAUSE);
    }
}

fn talk(
    path: &Path,
    request: Request,
    udp: Option<BorrowedFd<'_>>,
) -> Result<(String, Option<OwnedFd>), AskError> {
    let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
        // The socket of one that was killed stays.
        io::ErrorKind::ConnectionRefused => AskError::Ended,
        _ => AskError::None,
    })?;
    let patience = match request {
        Request::Hold(_) | Request::Keep(_) | Request::Undo => TUNING_PATIENCE,
        Request::Status | Request::Open(_) | Request::Tuned => PATIENCE,
    };
    let exchange = || -> io::Result<_> {
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let rights: Vec<_> = udp.into_iter().collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !rights.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&rights));
        }
        // One that refuses before it has read has still said why.
        let sent =
            sendmsg(&stream, &[IoSlice::new(&request.emit())], &mut control, SendFlags::NOSIGNAL);
        receive(&stream, request.answer_len_max())
            .or_else(|error| sent.map_err(io::Error::from).and(Err(error)))
    };
    let (bytes, descriptor) = exchange().map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => AskError::Ended,
        _ => AskError::Broken(error),
    })?;
    if bytes.is_empty() {
        return Err(AskError::Ended);
    }
    match parse_answer(&bytes) {
        Some((Ok(()), sentence)) => Ok((sentence, descriptor)),
        Some((Err(refusal), sentence)) => Err(AskError::Refused(refusal, sentence)),
        None => Err(AskError::Broken(io::ErrorKind::UnexpectedEof.into())),
    }
}

/// The answer is one message that fits the socket's buffer: it comes whole.
fn receive(stream: &UnixStream, len_max: usize) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut bytes = vec![0; len_max];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut iov = [IoSliceMut::new(&mut bytes)];
    let got = recvmsg(stream, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut rights) = message {
            descriptor = rights.next();
        }
    }
    bytes.truncate(got);
    Ok((bytes, descriptor))
}
