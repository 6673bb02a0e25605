//! Messages between the nodes' inits and their clients: a length, then JSON;
//! descriptors travel with the length. It is our tiny sshd's protocol, local
//! to one machine and one version.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
pub use wiglaf_base::End;
use wiglaf_base::network::HostAddress;
pub use wiglaf_base::paths::{JOB_VAR, NODE_VAR, STATE_VAR};

use crate::faults::{PortFaults, PortReport};
use crate::inherited::Inherited;

/// Most descriptors in one message.
pub const FDS_MAX: usize = 16;
/// Longest message: arguments and environment are limited by the kernel, too.
pub const MESSAGE_LEN_MAX: usize = 16 << 20;
/// Longest message to a command or a job that runs.
const SHORT_LEN_MAX: usize = 4096;
/// How much of a message there is room for before more of it has come.
const PIECE_LEN: usize = 64 << 10;

/// Version of these messages, and of the record of a cluster.
pub const VERSION: u32 = 7;

/// What a client asks for.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Who are you?
    Hello,
    /// Run a command on the three descriptors that come with this.
    Spawn(Spawn),
    /// Send a signal to the command of this connection.
    Signal(i32),
    /// Attach the mount trees that come with this at these paths.
    Share(Vec<PathBuf>),
    /// Watch over a job: when this connection ends, so do its processes.
    Lease {
        /// Its mark.
        job: String,
        /// Its secret, in hexadecimal digits, which its ranks read from a file ([`crate::agent`]).
        key: Option<String>,
        /// How long a network may owe the MPI's launcher and daemons an answer, on a real host; none: for ever.
        limit: Option<Duration>,
    },
    /// End the leased job's processes now.
    Release,
    /// The switch's ports, by index, shall do this, and hold reordered frames
    /// at most so long.
    SetFaults(Vec<(usize, Option<PortFaults>)>, Duration),
    /// What is left of jobs that have ended? End it, and remove it.
    Reset,
    /// What do these ports of the switch do?
    Faults(Vec<usize>),
    /// Endure the client's silence for so long, or for ever. It has no answer, and concerns what lies
    /// between client and host: [`crate::tunnel`].
    Patience(Option<Duration>),
    /// What is there, at these paths?
    Look(Vec<PathBuf>),
    /// Send a signal to all processes of a job of the caller's.
    SignalJob {
        /// Its mark.
        job: String,
        /// The signal.
        number: i32,
    },
}

/// A command to run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Spawn {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where to start.
    pub cwd: PathBuf,
    /// Device and inode of that folder, if it must be the client's own and no other of that name.
    pub folder: Option<(u64, u64)>,
    /// UDP ports on the node's address that the command is going to open.
    pub udp_ports: Vec<u16>,
    /// Whether its standard input is to be its controlling terminal.
    pub terminal: bool,
    /// Whatever else it takes over.
    pub inherited: Inherited,
}

/// What an init answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The answer to [`Request::Hello`].
    Hello(Hello),
    /// The command runs.
    Started,
    /// The command has ended.
    Ended(End),
    /// It is done.
    Done,
    /// The answer to [`Request::Release`]: the job has no processes left, and
    /// these had to be ended before.
    Released(Vec<StuckDaemon>),
    /// Nobody asked: the leased job's launcher or a daemon waits in vain for an answer, and from whom.
    Unanswered(Unanswered),
    /// The answer to [`Request::Faults`].
    Faults(Vec<PortReport>),
    /// The answer to [`Request::Look`]: nothing for a path where nothing is.
    Looked(Vec<Option<Seen>>),
    /// The answer to [`Request::Reset`].
    Reset(Remains),
    /// It could not be done.
    Failed {
        /// Why.
        sentence: String,
        /// Whether it was because there is no such program.
        not_found: bool,
    },
}

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the protocol.
    pub version: u32,
    /// Host name.
    pub node: String,
    /// How many processes run on it, its init not counted.
    pub processes: usize,
    /// Its network interfaces.
    pub interfaces: Vec<String>,
    /// What a real host says besides.
    pub host: Option<HostHello>,
}

/// What a real host says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostHello {
    /// What it calls itself.
    pub machine: String,
    /// The version of its Wiglaf.
    pub wiglaf: String,
    /// Where that is.
    pub exe: PathBuf,
    /// Its IPv4 addresses.
    pub addresses: Vec<HostAddress>,
    /// How many cores its user's processes may use.
    pub cores: usize,
    /// Number of the user that commands run as.
    pub uid: u32,
    /// The folder of the user's sockets and secrets of jobs.
    pub runtime: PathBuf,
}

/// What is at a path of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Whether it is a folder.
    pub is_folder: bool,
    /// Whether the user may run it, or enter it.
    pub is_executable: bool,
    /// Its length in bytes, of a file.
    pub len: u64,
    /// A digest of what it holds, of a file that is not too long to read for it.
    pub digest: Option<u64>,
}

/// What was left on a node of jobs that have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remains {
    /// The processes that were ended.
    pub processes: Vec<RemainingProcess>,
    /// The files that were removed from the node's /dev/shm.
    pub shared_memory: Vec<String>,
    /// Where mounts of `wiglaf mount` were taken away whose server had died.
    pub mounts: Vec<PathBuf>,
}

/// A process that nobody waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemainingProcess {
    /// Its pid on the node.
    pub pid: i32,
    /// Its command line.
    pub command: String,
}

/// A daemon of an MPI that stood still when all of its ranks had ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckDaemon {
    /// Its pid on the node.
    pub pid: i32,
    /// Its name.
    pub name: String,
}

/// A connection of an MPI's launcher or daemon whose other side acknowledges nothing any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unanswered {
    /// The name of the program that waits.
    pub program: String,
    /// Its own address.
    pub local: Ipv4Addr,
    /// Whose answer does not come.
    pub remote: Ipv4Addr,
    /// For how long.
    pub since: Duration,
}

/// Sends one message.
///
/// # Errors
/// When it is too long, or the other side is gone.
pub fn send(
    stream: &UnixStream,
    message: &impl Serialize,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    if body.len() > MESSAGE_LEN_MAX || fds.len() > FDS_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"));
    }
    let head = (body.len() as u32).to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    let sent = sendmsg(stream, &[IoSlice::new(&head)], &mut control, SendFlags::NOSIGNAL)?;
    let mut writer = stream;
    writer.write_all(&head[sent..])?;
    writer.write_all(&body)
}

/// What a receiver waits for, and has room for.
pub struct Allowed<'a> {
    /// Longest message.
    pub len_max: usize,
    /// When all of the message must have come, however steadily it comes.
    pub until: Option<Instant>,
    /// Whether there is room for so many bytes more.
    pub take: &'a dyn Fn(usize) -> bool,
}

/// Receives one message and the descriptors that came with it.
///
/// # Errors
/// When none comes, or one that is none.
pub fn recv<T: DeserializeOwned>(stream: &UnixStream) -> io::Result<(T, Vec<OwnedFd>)> {
    recv_allowed(stream, &Allowed { len_max: MESSAGE_LEN_MAX, until: None, take: &|_| true })
}

/// Receives a short message: a client has little to say about a command that runs.
///
/// # Errors
/// As [`recv`], and when it is longer.
pub fn recv_short<T: DeserializeOwned>(stream: &UnixStream) -> io::Result<(T, Vec<OwnedFd>)> {
    recv_allowed(stream, &Allowed { len_max: SHORT_LEN_MAX, until: None, take: &|_| true })
}

/// Receives a message of somebody who is not trusted.
///
/// # Errors
/// As [`recv`], and when it is more than is allowed.
pub fn recv_allowed<T: DeserializeOwned>(
    stream: &UnixStream,
    allowed: &Allowed<'_>,
) -> io::Result<(T, Vec<OwnedFd>)> {
    let mut head = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let mut iov = [IoSliceMut::new(&mut head)];
        match recvmsg(stream.as_fd(), &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?.bytes,
        }
    };
    if got == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    let mut reader = stream;
    reader.read_exact(&mut head[got..])?;
    let len = u32::from_le_bytes(head) as usize;
    if len > allowed.len_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
    }
    let body = read_body(stream, len, allowed)?;
    Ok((serde_json::from_slice(&body)?, fds))
}

/// Grown as bytes arrive: a length alone must not cost memory.
fn read_body(mut stream: &UnixStream, len: usize, allowed: &Allowed<'_>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    while body.len() < len {
        let have = body.len();
        let more = (len - have).min(PIECE_LEN);
        if !(allowed.take)(more) {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "too much is unread"));
        }
        body.reserve_exact(more);
        body.resize(have + more, 0);
        let mut piece = &mut body[have..];
        while !piece.is_empty() {
            if let Some(until) = allowed.until {
                let left = until.saturating_duration_since(Instant::now());
                // None would wait for ever.
                stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            match stream.read(piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => piece = &mut piece[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn messages_and_descriptors_arrive() {
        let (a, b) = UnixStream::pair().unwrap();
        let argv = vec![OsString::from_vec(vec![b'x', 0xff])];
        let spawn = Spawn { argv: argv.clone(), ..Spawn::default() };
        send(&a, &Request::Spawn(spawn), &[a.as_fd(), b.as_fd()]).unwrap();
        let (request, fds) = recv::<Request>(&b).unwrap();
        assert!(matches!(request, Request::Spawn(s) if s.argv == argv));
        assert_eq!(fds.len(), 2);
        assert_ne!(fds[0].as_raw_fd(), a.as_raw_fd());
    }

    #[test]
    fn a_message_has_one_deadline_and_no_more_room_than_there_is() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let (len, room) = (1 << 20, std::cell::Cell::new(PIECE_LEN * 2));
        let head = (len as u32).to_le_bytes();
        let take = |len: usize| {
            let left = room.get().checked_sub(len);
            room.set(left.unwrap_or(room.get()));
            left.is_some()
        };
        a.write_all(&head).unwrap();
        let writer = std::thread::spawn(move || a.write_all(&vec![b' '; len]).is_err());
        let until = Some(Instant::now() + Duration::from_secs(60));
        let allowed = Allowed { len_max: MESSAGE_LEN_MAX, until, take: &take };
        let refused = recv_allowed::<Request>(&b, &allowed).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
        drop(b);
        assert!(writer.join().unwrap(), "it was all read");

        // Bytes that keep coming put nothing off.
        let (mut a, b) = UnixStream::pair().unwrap();
        let len = 4000;
        a.write_all(&(len as u32).to_le_bytes()).unwrap();
        let writer = std::thread::spawn(move || {
            (0..len).all(|_| {
                std::thread::sleep(Duration::from_millis(1));
                a.write_all(b" ").is_ok()
            })
        });
        let until = Some(Instant::now() + Duration::from_millis(50));
        let allowed = Allowed { len_max: MESSAGE_LEN_MAX, until, take: &|_| true };
        assert!(recv_allowed::<Request>(&b, &allowed).is_err());
        drop(b);
        assert!(!writer.join().unwrap(), "it was waited for to the end");
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error_and_not_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let (mut a, b) = UnixStream::pair().unwrap();
            a.write_all(&bytes).unwrap();
            drop(a);
            prop_assert!(recv::<Request>(&b).is_err());
        }
    }
}
