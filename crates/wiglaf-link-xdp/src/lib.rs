//! A link past the IP stack over AF_XDP: frames that arrive are put into
//! memory of ours by an XDP program, before the kernel has made much of them,
//! and frames to be sent are taken from there.
//!
//! The program takes unfragmented UDP/IPv4 datagrams for the link's address
//! and port, on the queue that its socket has; all else passes to the IP stack
//! untouched. An ordinary socket is bound to the same port beside it, as in
//! the packet link: it reserves the port, learns of peers that are gone,
//! resolves Ethernet addresses, and carries what does not come or go over the
//! AF_XDP socket: frames on another queue or too long for a chunk, ranks on
//! the same address, destinations behind a gateway.
//!
//! A queue of an interface has one AF_XDP socket; a rank takes the first free
//! one, and ranks beyond the last must take another link
//! (docs/adr/0012-one-af-xdp-socket-per-queue.md).
//!
//! Bulk trains take an ordinary socket with segmentation offload: AF_XDP would
//! carry them frame by frame.

mod features;
mod gate;
mod program;
mod ring;
mod socket;

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use wiglaf_link::frame::{self, HEADERS_LEN};
use wiglaf_link::{Arrived, Deliver, Drops, Lane, Limits, Link, Sent, Train, Unreachable};
use wiglaf_link_udp::{
    BATCH_MAX, BulkPoll, BulkSocket, FrameSocket, Interface, Place, Routes, Way,
};

use gate::Gate;
use socket::Socket;

/// Which poll looks at sockets that have been idle: each look costs as much
/// as dozens of looks at the ring.
const IDLE_STRIDE: u32 = 64;
/// Which poll looks at an idle bulk socket: trains of eager messages come unannounced.
const BULK_IDLE_STRIDE: u32 = 32;
/// How many polls pass between two looks for reports of unreachable ports.
const REPORT_STRIDE: u32 = 4096;

/// A queue is free only some time after its socket was closed.
const QUEUE_TRIES: usize = 10;
const QUEUE_PAUSE: Duration = Duration::from_millis(2);

/// Where frames meet the program, and whether they are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Zero-copy where the driver says that it can, else generic.
    Best,
    /// Behind the driver, which need not know of it, with a copy.
    Generic,
    /// In the driver, with a copy.
    Native,
    /// In the driver, without a copy.
    ZeroCopy,
}

/// A link over AF_XDP.
#[derive(Debug)]
pub struct XdpLink {
    socket: Socket,
    plain: FrameSocket,
    bulk: BulkSocket,
    routes: Routes,
    limits: Limits,
    /// Longest UDP payload that fits a chunk.
    payload_len_max: usize,
    name: &'static str,
    plain_poll: BulkPoll,
    bulk_poll: BulkPoll,
    report_polls: u32,
    /// Why it is not to be used any further, until that has been told.
    failed: Option<io::Error>,
    malformed: u64,
    lost: u64,
    // After the socket: until it has gone, the program knows of it.
    _gate: Gate,
}

/// What went wrong on the way to an xdp link.
#[derive(Debug)]
pub enum OpenError {
    /// The address is on no Ethernet interface, such as loopback.
    NotEthernet,
    /// An ordinary socket cannot be had: the port is in use, or the address
    /// is not of this machine.
    Bind(io::Error),
    /// XDP programs or AF_XDP sockets take capabilities that are missing.
    NotPermitted,
    /// The driver runs no XDP program in native mode, at least not with this MTU.
    NoNativeMode(io::Error),
    /// The driver or its queue copies frames.
    NoZeroCopy(io::Error),
    /// Another XDP program, not Wiglaf's or not to be seen, is on the interface.
    Occupied,
    /// Wiglaf's program is there already in another mode.
    OtherMode,
    /// Every queue of the interface has an AF_XDP socket already.
    NoQueue {
        /// How many queues there are.
        queues: u32,
    },
    /// The program cannot be loaded or attached.
    Program(io::Error),
    /// The AF_XDP socket cannot be had.
    Socket(io::Error),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotEthernet => write!(f, "the address is not on an Ethernet interface"),
            Self::Bind(error) => write!(f, "cannot bind the UDP port: {error}"),
            Self::NotPermitted => {
                write!(
                    f,
                    "it takes CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF, or root; no helper lends it"
                )
            }
            Self::NoNativeMode(error) => {
                write!(f, "the interface's driver takes no native XDP program here: {error}")
            }
            Self::NoZeroCopy(error) => {
                write!(f, "the interface's driver has no zero-copy mode: {error}")
            }
            Self::Occupied => write!(f, "another XDP program is on the interface"),
            Self::OtherMode => {
                write!(f, "other ranks on the interface run its XDP program in another mode")
            }
            Self::NoQueue { queues: 1 } => {
                write!(f, "the interface has one queue, and another AF_XDP socket has it")
            }
            Self::NoQueue { queues } => {
                write!(f, "each of the interface's {queues} queues has an AF_XDP socket already")
            }
            Self::Program(error) => write!(f, "the XDP program cannot be loaded: {error}"),
            Self::Socket(error) => write!(f, "the AF_XDP socket cannot be opened: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

impl XdpLink {
    /// Opens everything on the interface that holds `at`'s address. Takes CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF, and
    /// CAP_SYS_ADMIN where other processes have such links on the interface.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(interface: Interface, at: impl Into<Place>, mode: Mode) -> Result<Self, OpenError> {
        let mac = interface.mac.ok_or(OpenError::NotEthernet)?;
        let at = at.into();
        let plain = FrameSocket::open(at).map_err(OpenError::Bind)?;
        let bulk = BulkSocket::open(at).map_err(OpenError::Bind)?;
        let frame_len = HEADERS_LEN + bulk.frame_len_max();
        let frame_len_max = frame_len.min(socket::frame_len_max(frame_len));
        let open = |mode| open_socket(&interface, mac, plain.local(), frame_len_max, mode);
        let (gate, socket, mode) = match mode {
            Mode::Best => open_best(features::has_zero_copy(interface.index), open),
            mode => open(mode),
        }?;
        let limits = Limits {
            frame_len_max: bulk.frame_len_max(),
            frame_len_sure: bulk.frame_len_sure(),
            latency_train_max: 1,
            bulk_train_max: bulk.train_max(),
            bulk_window_len: bulk.window_len(),
        };
        Ok(Self {
            socket,
            routes: Routes::new(interface, mac, plain.local()),
            plain,
            bulk,
            limits,
            payload_len_max: frame_len_max - HEADERS_LEN,
            name: name(mode),
            plain_poll: BulkPoll::with_stride(IDLE_STRIDE),
            bulk_poll: BulkPoll::with_stride(BULK_IDLE_STRIDE),
            report_polls: 0,
            failed: None,
            malformed: 0,
            lost: 0,
            _gate: gate,
        })
    }

    /// Frames that were dropped because they made no sense.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed + self.socket.refused()
    }

    /// Datagrams that the kernel would not send.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost + self.plain.lost() + self.bulk.lost()
    }

    /// Who only receives is not told by a send that its interface is gone.
    fn check(&mut self) {
        if self.socket.is_cut_off() {
            self.failed = Some(io::Error::from_raw_os_error(libc::ENODEV));
        }
    }

    fn send_frames(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        let way = self.routes.way(self.plain.as_fd(), *train.to.ip());
        let mac = match way {
            Way::Ring(mac) if train.segment_len.min(train.bytes.len()) <= self.payload_len_max => {
                mac
            }
            Way::Ring(_) | Way::Stack => {
                return self.plain.send(train.to, train.segment_len, train.bytes);
            }
            Way::Gone => return Err(io::Error::from_raw_os_error(libc::ENODEV)),
        };
        let segment_len = train.segment_len.max(1);
        let count = train.bytes.len().div_ceil(segment_len).max(1);
        let full_len = segment_len.min(train.bytes.len());
        let last_len = train.bytes.len() - (count - 1) * segment_len;
        let full = self.routes.headers(mac, train.to, full_len);
        let last = self.routes.headers(mac, train.to, last_len);
        let (Some(full), Some(last)) = (full, last) else {
            self.lost += 1;
            return Ok(Sent::All);
        };
        let frames = train.segments().map(|segment| {
            let headers = if segment.len() == full_len { &full } else { &last };
            (headers.as_slice(), segment)
        });
        Ok(if self.socket.send(count, frames)? { Sent::All } else { Sent::Full })
    }
}

/// Opens in [`Mode::Best`]. Where no queue is free the program runs in the driver already, and would
/// refuse the generic mode: that there is no queue is what the caller must know.
fn open_best<T>(
    has_zero_copy: bool,
    mut open: impl FnMut(Mode) -> Result<T, OpenError>,
) -> Result<T, OpenError> {
    if has_zero_copy {
        let opened = open(Mode::ZeroCopy);
        if matches!(opened, Ok(_) | Err(OpenError::NoQueue { .. })) {
            return opened;
        }
    }
    open(Mode::Generic)
}

/// A hold on the program, and a socket on the first free queue.
fn open_socket(
    interface: &Interface,
    mac: [u8; 6],
    local: SocketAddrV4,
    frame_len_max: usize,
    mode: Mode,
) -> Result<(Gate, Socket, Mode), OpenError> {
    let (place, way) = match mode {
        Mode::Generic | Mode::Best => (wiglaf_bpf::Mode::Generic, socket::Way::Copy),
        Mode::Native => (wiglaf_bpf::Mode::Native, socket::Way::Copy),
        Mode::ZeroCopy => (wiglaf_bpf::Mode::Native, socket::Way::ZeroCopy),
    };
    let mut socket = Socket::new(frame_len_max).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => OpenError::NotPermitted,
        _ => OpenError::Socket(error),
    })?;
    let ip_len_max = u16::try_from(frame_len_max - frame::ETHERNET_LEN).unwrap_or(u16::MAX);
    let gate = Gate::open(interface, mac, place, ip_len_max)?;
    let queue = bind(&socket, interface.index, way)?;
    if way == socket::Way::ZeroCopy {
        socket.prefer_busy_polling();
    }
    gate.register(local, queue, socket.as_fd()).map_err(OpenError::Program)?;
    Ok((gate, socket, mode))
}

fn bind(socket: &Socket, interface: u32, way: socket::Way) -> Result<u32, OpenError> {
    let mut queues = 0;
    for attempt in 0..QUEUE_TRIES {
        if attempt > 0 {
            std::thread::sleep(QUEUE_PAUSE);
        }
        for queue in 0.. {
            let Err(error) = socket.bind(interface, queue, way) else { return Ok(queue) };
            match error.raw_os_error() {
                Some(libc::EBUSY) => queues = queue + 1,
                Some(libc::EINVAL) if queue > 0 => break,
                Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTSUP)
                    if way == socket::Way::ZeroCopy =>
                {
                    return Err(OpenError::NoZeroCopy(error));
                }
                _ => return Err(OpenError::Socket(error)),
            }
        }
    }
    Err(OpenError::NoQueue { queues })
}

fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Generic | Mode::Best => "xdp-generic",
        Mode::Native => "xdp-native",
        Mode::ZeroCopy => "xdp-zerocopy",
    }
}

impl Link for XdpLink {
    fn name(&self) -> &'static str {
        self.name
    }

    fn local(&self) -> SocketAddrV4 {
        self.plain.local()
    }

    fn bulk_port(&self) -> u16 {
        self.bulk.port()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn reaches(&self, _to: SocketAddrV4) -> bool {
        true
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        match train.lane {
            Lane::Latency => self.send_frames(train),
            Lane::Bulk => self.bulk.send(train.to, train.segment_len, train.bytes),
        }
    }

    fn lend(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        match train.lane {
            Lane::Latency => self.send(train),
            Lane::Bulk => self.bulk.lend(train.to, train.segment_len, train.bytes),
        }
    }

    fn probe(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        match train.lane {
            // Frames past the IP stack are never cut.
            Lane::Latency if train.bytes.len() <= self.payload_len_max => self.send(train),
            Lane::Latency => self.plain.probe(train.to, train.bytes),
            Lane::Bulk => self.bulk.probe(train.to, train.bytes),
        }
    }

    fn recv_trains(&mut self, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let local = self.plain.local();
        let (malformed, mut now_ns) = (&mut self.malformed, None);
        let mut count = self.socket.consume(BATCH_MAX, |bytes, at_ns| {
            let waited = at_ns.and_then(|at_ns| {
                wiglaf_link::waited(*now_ns.get_or_insert_with(monotonic_ns), at_ns)
            });
            match frame::parse(bytes, local) {
                Ok((from, payload)) => {
                    deliver(&Arrived { waited, ..Arrived::alone(from, payload) });
                }
                Err(_) => *malformed += 1,
            }
        });
        if self.bulk_poll.is_due(count == BATCH_MAX) {
            let found = self.bulk.recv(deliver)?;
            self.bulk_poll.found(found);
            count += found;
        }
        if self.plain_poll.is_due(false) {
            let found = self.plain.recv(deliver)?;
            self.plain_poll.found(found);
            count += found;
        }
        Ok(count)
    }

    fn take_unreachable(&mut self) -> Option<Unreachable> {
        if self.report_polls == 0 {
            self.report_polls = REPORT_STRIDE;
            self.plain.collect_refused();
            self.check();
        }
        self.report_polls -= 1;
        self.plain.take_refused().or_else(|| self.bulk.take_refused())
    }

    fn drops(&self) -> Drops {
        Drops { malformed: self.malformed(), unsent: self.lost(), ..Drops::default() }
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        vec![self.socket.as_raw_fd(), self.plain.as_raw_fd(), self.bulk.as_raw_fd()]
    }

    fn expect_bulk(&mut self) {
        self.bulk_poll.reset();
    }

    fn arm(&mut self, _armed: bool) -> bool {
        self.plain_poll.look_next();
        self.bulk_poll.look_next();
        self.report_polls = 0;
        self.check();
        self.failed.is_some() || self.socket.has_frame()
    }
}

/// The clock by which the program marks frames.
fn monotonic_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

#[cfg(test)]
mod tests;
