//! A link past the IP stack: small frames are written to and read from the
//! network interface directly, over AF_PACKET, as ordinary UDP/IPv4
//! datagrams; so a node with plain UDP sockets understands them.
//!
//! The receive ring sees only datagrams for its own address and port. An
//! ordinary socket is bound to the same port beside it: it keeps the port
//! reserved, keeps the kernel from answering "port unreachable", learns of
//! peers that are gone, resolves Ethernet addresses, and carries what does
//! not come or go over the interface itself (ranks on the same address,
//! destinations behind a gateway). A filter spares it what the ring sees.
//!
//! Short trains go to the same ring, cut by the interface or, where nothing
//! cuts frames on their way, whole (docs/adr/0026-size-classes-of-messages.md).
//! Bulk trains take an ordinary socket with segmentation offload: the kernel
//! copies a train less often there, and a ring of places for them would be long.
//!
//! Opening the packet socket takes CAP_NET_RAW; using it does not, so it may
//! be opened by a helper and passed ([`open_packet_socket`],
//! [`PacketLink::from_sockets`]).

mod coming;
mod early_drop;
mod filter;
mod offload;
mod ring;

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use wiglaf_link::frame::{self, HEADERS_LEN};
use wiglaf_link::{Arrived, Deliver, Drops, Lane, Limits, Link, Sent, Train, Unreachable};
use wiglaf_link_udp::{
    BATCH_MAX, BulkPoll, BulkSocket, FrameSocket, Interface, Place, Routes, Way, grow_send_buffer,
    kernel_is_from,
};

use coming::Coming;
pub use early_drop::{EarlyDrop, MARK_MASK, mark};
use offload::{OFFLOAD_LEN, Trial};
use ring::{Frame, Ring, TRAIN_FRAME_LEN_MAX, set_option};

/// Which poll looks at sockets that have been idle: each look costs as much
/// as dozens of looks at the ring.
const IDLE_STRIDE: u32 = 64;
/// Which poll looks at an idle bulk socket: trains of eager messages come unannounced.
const BULK_IDLE_STRIDE: u32 = 32;

/// First kernel that knows trains of UDP in what stands before a frame. Earlier ones would get stuck
/// in the ring with each, as all do with frames that they cannot describe ([`Ring::mend`]).
const TRAINS_KERNEL_MIN: (u32, u32) = (6, 2);

/// Room that is asked of the kernel for frames that the interface has not sent yet.
const SEND_BUFFER_LEN: usize = 4 << 20;

/// The kernel takes one piece of memory sooner than two, and so much is copied for it.
const COPIED_LEN_MAX: usize = 8 << 10;

/// How many polls pass between two looks for reports of unreachable ports.
const REPORT_STRIDE: u32 = 4096;

/// A link over AF_PACKET.
#[derive(Debug)]
pub struct PacketLink {
    ring: Access,
    /// The ring and `plain` take trains.
    trains: bool,
    /// `plain` gets a mark once the ring is there.
    marks: bool,
    interface: Interface,
    plain: FrameSocket,
    bulk: BulkSocket,
    routes: Routes,
    trial: Trial,
    limits: Limits,
    plain_poll: BulkPoll,
    bulk_poll: BulkPoll,
    report_polls: u32,
    /// Why it is not to be used any further, until that has been told.
    failed: Option<io::Error>,
    frame: Vec<u8>,
    malformed: u64,
    lost: u64,
    /// How many overflows there were when that was told.
    overflows_told: u64,
    /// The last poll has looked at everything, and left nothing there.
    is_quiet: bool,
}

/// How frames come and go.
#[derive(Debug)]
enum Access {
    Ring(Ring),
    /// By the stack, until there is one.
    Soon(Coming),
}

impl Access {
    fn ring(&self) -> Option<&Ring> {
        match self {
            Self::Ring(ring) => Some(ring),
            Self::Soon(_) => None,
        }
    }

    /// The socket's descriptor.
    fn fd(&self) -> RawFd {
        match self {
            Self::Ring(ring) => ring.as_raw_fd(),
            Self::Soon(coming) => coming.fd(),
        }
    }

    /// The ring, for those who know that there is one.
    fn sure(&self) -> io::Result<&Ring> {
        self.ring().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

/// What went wrong on the way to a packet link.
#[derive(Debug)]
pub enum OpenError {
    /// The address is on no Ethernet interface, such as loopback.
    NotEthernet,
    /// The ordinary socket cannot be had: the port is in use, or the address
    /// is not of this machine.
    Bind(io::Error),
    /// The packet socket cannot be had: commonly, CAP_NET_RAW is missing.
    Packet(io::Error),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotEthernet => write!(f, "the address is not on an Ethernet interface"),
            Self::Bind(error) => write!(f, "cannot bind the UDP port: {error}"),
            Self::Packet(error) => write!(f, "cannot open a packet socket: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// Opens a packet socket on `interface` that sees datagrams for `local`.
/// Takes CAP_NET_RAW.
///
/// # Errors
/// When that is not permitted, or the interface is gone.
pub fn open_packet_socket(interface: &Interface, local: SocketAddrV4) -> io::Result<OwnedFd> {
    // Protocol 0: nothing arrives before the filter is there.
    // SAFETY: no pointers are involved.
    let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nothing else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    filter::attach(socket.as_fd(), &filter::for_datagrams_to(local))?;
    set_option(socket.as_fd(), libc::PACKET_IGNORE_OUTGOING, &1)?;
    set_option(socket.as_fd(), libc::PACKET_QDISC_BYPASS, &1)?;
    // ETH_P_ALL rather than ETH_P_IP: that tap comes before the IP stack.
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: i32::try_from(interface.index).map_err(|_| io::ErrorKind::InvalidInput)?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the address is live and of the stated length.
    let status = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}

impl PacketLink {
    /// Opens everything on the interface that holds `at`'s address.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(interface: Interface, at: impl Into<Place>) -> Result<Self, OpenError> {
        Self::open_soon(interface, at)?.with_ring()
    }

    /// Opens everything but the ring, which a thread sets up: until it is there, datagrams take the stack.
    ///
    /// # Errors
    /// See [`OpenError`]. Where the kernel has no ring for it, the link fails later.
    pub fn open_soon(interface: Interface, at: impl Into<Place>) -> Result<Self, OpenError> {
        if interface.mac.is_none() {
            return Err(OpenError::NotEthernet);
        }
        let at = at.into();
        let plain = FrameSocket::open(at).map_err(OpenError::Bind)?;
        let bulk = BulkSocket::open(at).map_err(OpenError::Bind)?;
        let packet = open_packet_socket(&interface, plain.local()).map_err(OpenError::Packet)?;
        let trains = kernel_is_from(TRAINS_KERNEL_MIN);
        let mut link = Self::begin(trains, packet, plain, bulk, interface)?;
        link.marks = true;
        Ok(link)
    }

    /// Makes a link of sockets that are open already: a packet socket from
    /// [`open_packet_socket`] for the address of `plain`, and two ordinary
    /// ones. Takes no privilege. The ring is there at once: `plain` may have a mark (see [`mark`]), with which the stack
    /// gets nothing.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn from_sockets(
        packet: OwnedFd,
        plain: FrameSocket,
        bulk: BulkSocket,
        interface: Interface,
    ) -> Result<Self, OpenError> {
        let trains = kernel_is_from(TRAINS_KERNEL_MIN);
        Self::begin(trains, packet, plain, bulk, interface)?.with_ring()
    }

    fn begin(
        trains: bool,
        packet: OwnedFd,
        plain: FrameSocket,
        bulk: BulkSocket,
        interface: Interface,
    ) -> Result<Self, OpenError> {
        let mac = interface.mac.ok_or(OpenError::NotEthernet)?;
        let frame_len_max = bulk.frame_len_max();
        grow_send_buffer(packet.as_fd(), SEND_BUFFER_LEN).map_err(OpenError::Packet)?;
        let coming = Coming::begin(packet, trains).map_err(OpenError::Packet)?;
        let fitting = (TRAIN_FRAME_LEN_MAX - HEADERS_LEN) / frame_len_max;
        let limits = Limits {
            frame_len_max,
            frame_len_sure: bulk.frame_len_sure(),
            latency_train_max: if trains { fitting.max(1) } else { 1 },
            bulk_train_max: bulk.train_max(),
            bulk_window_len: bulk.window_len(),
        };
        Ok(Self {
            ring: Access::Soon(coming),
            trains,
            marks: false,
            interface: interface.clone(),
            routes: Routes::new(interface, mac, plain.local()),
            trial: Trial::default(),
            plain,
            bulk,
            limits,
            plain_poll: BulkPoll::with_stride(IDLE_STRIDE),
            bulk_poll: BulkPoll::with_stride(BULK_IDLE_STRIDE),
            report_polls: 0,
            failed: None,
            frame: Vec::with_capacity(OFFLOAD_LEN + HEADERS_LEN + COPIED_LEN_MAX),
            malformed: 0,
            lost: 0,
            overflows_told: 0,
            is_quiet: false,
        })
    }

    /// Waits for the ring.
    fn with_ring(mut self) -> Result<Self, OpenError> {
        if let Access::Soon(coming) = &mut self.ring {
            let ring = coming.wait().map_err(OpenError::Packet)?;
            self.adopt(ring).map_err(OpenError::Packet)?;
        }
        Ok(self)
    }

    /// Looks whether the ring is there.
    fn look_for_ring(&mut self) {
        let Access::Soon(coming) = &mut self.ring else { return };
        let adopted = match coming.take() {
            Ok(None) => Ok(()),
            Ok(Some(ring)) => self.adopt(ring),
            Err(error) => Err(error),
        };
        if let Err(error) = adopted {
            let text = format!("the kernel makes no receive ring: {error}");
            self.failed = Some(io::Error::new(error.kind(), text));
        }
    }

    /// From now on frames come and go by the ring. What has come meanwhile is in both; whoever is above takes it once.
    fn adopt(&mut self, ring: Ring) -> io::Result<()> {
        filter::attach(self.plain.as_fd(), &filter::not_from_interface(self.interface.index))?;
        if self.trains {
            self.plain.take_trains();
        }
        if self.marks {
            // Without it all works, and takes a little longer.
            let _ = mark(self.plain.as_fd(), &self.interface);
        }
        self.ring = Access::Ring(ring);
        Ok(())
    }

    /// Frames that were dropped because they made no sense.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed + self.ring.ring().map_or(0, Ring::truncated)
    }

    /// Frames that were lost to a full ring, or to one that the kernel had got stuck in.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.ring.ring().map_or(0, Ring::overflows)
    }

    /// Datagrams that the kernel would not send.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost + self.plain.lost() + self.bulk.lost()
    }

    /// Who only receives is not told by a send that its interface is gone.
    fn check(&mut self) {
        if let Some(Err(error)) = self.ring.ring().map(Ring::check) {
            self.failed = Some(error);
        }
    }

    fn way(&mut self, to: Ipv4Addr) -> Way {
        match self.ring {
            Access::Ring(_) => self.routes.way(self.plain.as_fd(), to),
            Access::Soon(_) => Way::Stack,
        }
    }

    fn send_frames(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        let mac = match self.way(*train.to.ip()) {
            Way::Ring(mac) => mac,
            Way::Stack => return self.plain.send(train.to, train.segment_len, train.bytes),
            Way::Gone => return Err(io::Error::from_raw_os_error(libc::ENODEV)),
        };
        if train.bytes.len() <= train.segment_len {
            return self.send_one(mac, train);
        }
        // A ring must have room for what nobody cuts on the way, and who takes no trains passes on to the
        // stack what is longer than a frame.
        let fits = train.bytes.len() > self.limits.frame_len_max
            && train.bytes.len() + HEADERS_LEN <= TRAIN_FRAME_LEN_MAX;
        if fits && self.limits().latency_train_max > 1 {
            let Err(error) = self.send_whole(mac, train) else {
                self.trial.found(true);
                return Ok(Sent::All);
            };
            if error.kind() == io::ErrorKind::WouldBlock {
                return Ok(Sent::Full);
            }
            self.trial.found(false);
        }
        self.send_singly(mac, train)
    }

    fn send_one(&mut self, mac: [u8; 6], train: &Train<'_>) -> io::Result<Sent> {
        let Some(headers) = self.routes.headers(mac, train.to, train.bytes.len()) else {
            self.lost += 1;
            return Ok(Sent::All);
        };
        let result = self.send_frame(&front(&offload::NONE, &headers), train.bytes);
        self.judge(result, 1)
    }

    /// Sends a train as one, which the interface cuts, or nothing of it.
    fn send_whole(&mut self, mac: [u8; 6], train: &Train<'_>) -> io::Result<()> {
        let segment_len =
            u16::try_from(train.segment_len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let headers = self.routes.headers_of_train(mac, train.to, train.bytes.len());
        let headers = headers.ok_or(io::ErrorKind::InvalidInput)?;
        self.send_frame(&front(&offload::train(segment_len), &headers), train.bytes)
    }

    fn send_frame(&mut self, front: &[u8], payload: &[u8]) -> io::Result<()> {
        if payload.len() > COPIED_LEN_MAX {
            return self.ring.sure()?.send_many::<1>(&[(front, payload)]).map(|_| ());
        }
        self.frame.clear();
        self.frame.extend_from_slice(front);
        self.frame.extend_from_slice(payload);
        self.ring.sure()?.send(&self.frame)
    }

    fn send_singly(&mut self, mac: [u8; 6], train: &Train<'_>) -> io::Result<Sent> {
        let segment_len = train.segment_len.max(1);
        let last_len = (train.bytes.len() - 1) % segment_len + 1;
        let full = self.routes.headers(mac, train.to, segment_len).map(alone);
        let last = self.routes.headers(mac, train.to, last_len).map(alone);
        let (Some(full), Some(last)) = (full, last) else {
            self.lost += 1;
            return Ok(Sent::All);
        };
        let total = train.bytes.len().div_ceil(segment_len);
        let mut done = 0;
        while done < total {
            let mut frames: [(&[u8], &[u8]); BATCH_MAX] = [(&[], &[]); BATCH_MAX];
            let mut count = 0;
            let rest = train.bytes[done * segment_len..].chunks(segment_len);
            for (place, segment) in frames.iter_mut().zip(rest) {
                let headers = if segment.len() == segment_len { &full } else { &last };
                *place = (headers, segment);
                count += 1;
            }
            match self.ring.sure()?.send_many::<BATCH_MAX>(&frames[..count]) {
                Ok(0) => break,
                Ok(sent) => done += sent,
                Err(_) if done > 0 => {
                    // What is gone cannot be called back; the stack has a queue for the rest.
                    let rest = &train.bytes[done * segment_len..];
                    self.plain.send(train.to, segment_len, rest)?;
                    break;
                }
                Err(error) => return self.judge(Err(error), total),
            }
        }
        Ok(Sent::All)
    }

    /// What the outcome of a send of `total` frames means, none of which had gone out before it.
    fn judge(&mut self, result: io::Result<()>, total: usize) -> io::Result<Sent> {
        let Err(error) = result else { return Ok(Sent::All) };
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => Ok(Sent::Full),
            Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::ENXIO | libc::ENODEV) => {
                Err(error)
            }
            _ => {
                self.lost += total as u64;
                Ok(Sent::All)
            }
        }
    }
}

/// What stands before the payload of a frame.
fn front(
    offload: &[u8; OFFLOAD_LEN],
    headers: &[u8; HEADERS_LEN],
) -> [u8; OFFLOAD_LEN + HEADERS_LEN] {
    let mut bytes = [0; OFFLOAD_LEN + HEADERS_LEN];
    bytes[..OFFLOAD_LEN].copy_from_slice(offload);
    bytes[OFFLOAD_LEN..].copy_from_slice(headers);
    bytes
}

/// The bytes before the payload of a frame that is one datagram.
fn alone(headers: [u8; HEADERS_LEN]) -> [u8; OFFLOAD_LEN + HEADERS_LEN] {
    front(&offload::NONE, &headers)
}

/// The train in a frame; `None` when it makes no sense.
#[inline]
fn arrived<'a>(frame: &Frame<'a>, now_ns: i64, local: SocketAddrV4) -> Option<Arrived<'a>> {
    let (from, bytes) = frame::parse(frame.bytes, local).ok()?;
    let segment_len = offload::segment_len(frame.offload, bytes.len())?;
    Some(Arrived { from, bytes, segment_len, waited: wiglaf_link::waited(now_ns, frame.at_ns) })
}

impl Link for PacketLink {
    fn name(&self) -> &'static str {
        "packet"
    }

    fn local(&self) -> SocketAddrV4 {
        self.plain.local()
    }

    fn bulk_port(&self) -> u16 {
        self.bulk.port()
    }

    fn limits(&self) -> Limits {
        let paused = self.trial.is_paused();
        let latency_train_max = if paused { 1 } else { self.limits.latency_train_max };
        Limits { latency_train_max, ..self.limits }
    }

    fn reaches(&self, _to: SocketAddrV4) -> bool {
        true
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        match train.lane {
            Lane::Latency => self.send_frames(train),
            Lane::Bulk => {
                self.trial.passed();
                self.bulk.send(train.to, train.segment_len, train.bytes)
            }
        }
    }

    fn lend(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        match train.lane {
            Lane::Latency => self.send(train),
            Lane::Bulk => {
                self.trial.passed();
                self.bulk.lend(train.to, train.segment_len, train.bytes)
            }
        }
    }

    fn probe(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        match train.lane {
            // Frames past the IP stack are never cut; those that take it are, unless it is told.
            Lane::Latency => match self.way(*train.to.ip()) {
                // The interface's MTU was lowered: that is what a probe is there to find out.
                Way::Ring(mac) => match self.send_one(mac, train) {
                    Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => Ok(Sent::All),
                    sent => sent,
                },
                Way::Stack => self.plain.probe(train.to, train.bytes),
                Way::Gone => Err(io::Error::from_raw_os_error(libc::ENODEV)),
            },
            Lane::Bulk => self.bulk.probe(train.to, train.bytes),
        }
    }

    fn recv_trains(&mut self, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        self.look_for_ring();
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let local = self.plain.local();
        let (malformed, mut now_ns) = (&mut self.malformed, None);
        let mut show = |frame: &Frame<'_>| {
            let now_ns = *now_ns.get_or_insert_with(wiglaf_link::now_ns);
            match arrived(frame, now_ns, local) {
                Some(train) => deliver(&train),
                None => *malformed += 1,
            }
        };
        let (mut count, mut left) = match &mut self.ring {
            Access::Ring(ring) => (ring.consume(BATCH_MAX, &mut show), !ring.is_drained()),
            Access::Soon(_) => (0, true),
        };
        let mut looked = 0;
        if self.bulk_poll.is_due(count == BATCH_MAX) {
            let found = self.bulk.recv(deliver)?;
            self.bulk_poll.found(found);
            (looked, left, count) = (looked + 1, left || found > 0, count + found);
        }
        if self.plain_poll.is_due(false) || self.ring.ring().is_none() {
            let found = self.plain.recv(deliver)?;
            self.plain_poll.found(found);
            (looked, left, count) = (looked + 1, left || found > 0, count + found);
        }
        self.is_quiet = looked == 2 && !left;
        Ok(count)
    }

    fn take_unreachable(&mut self) -> Option<Unreachable> {
        if self.report_polls == 0 {
            self.report_polls = REPORT_STRIDE;
            self.plain.collect_refused();
            if let Access::Ring(ring) = &mut self.ring
                && let Err(error) = ring.mend()
            {
                self.failed = Some(error);
            }
            self.check();
        }
        self.report_polls -= 1;
        self.plain.take_refused().or_else(|| self.bulk.take_refused())
    }

    fn drops(&self) -> Drops {
        Drops { malformed: self.malformed(), unsent: self.lost(), overflows: self.overflows() }
    }

    fn was_overrun(&mut self) -> bool {
        let overflows = self.overflows();
        std::mem::replace(&mut self.overflows_told, overflows) != overflows
    }

    fn is_quiet(&mut self) -> bool {
        if !self.is_quiet {
            self.bulk_poll.look_next();
            self.plain_poll.look_next();
        }
        self.is_quiet
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        vec![self.ring.fd(), self.plain.as_raw_fd(), self.bulk.as_raw_fd()]
    }

    fn expect_bulk(&mut self) {
        self.bulk_poll.reset();
    }

    fn arm(&mut self, _armed: bool) -> bool {
        self.plain_poll.look_next();
        self.bulk_poll.look_next();
        self.report_polls = 0;
        self.check();
        self.failed.is_some() || self.ring.ring().is_some_and(Ring::has_frame)
    }
}

#[cfg(test)]
mod tests;
