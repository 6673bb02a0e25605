//! A link through shared memory, for ranks of one node.
//!
//! Every endpoint receives through a segment of its own: a file in
//! `/dev/shm` named after its user and its epoch, with a ring for each of its
//! senders. A sender maps the segment and claims a ring; when it dies, only
//! that ring is affected. The receiver copies each frame to private memory
//! before anybody looks at it, and stops reading a ring that makes no sense.
//!
//! Two nodes never share a segment, even where they share a kernel: peers
//! are admitted only at this endpoint's own IP address.
//!
//! Beside the ring for datagrams each sender has a near lane
//! ([`wiglaf_link::near`]), over which processes also introduce their memory
//! to each other: where the kernel allows it, long payloads are copied from
//! one to the other at once (cross-memory attach).

mod foreign;
#[forbid(unsafe_code)]
mod lane;
mod layout;
#[cfg_attr(loom, path = "mapping/modelled.rs")]
mod mapping;
#[cfg(all(test, loom))]
mod models;
#[forbid(unsafe_code)]
mod near;
#[forbid(unsafe_code)]
mod ring;
#[forbid(unsafe_code)]
mod segment;
mod sync;
#[forbid(unsafe_code)]
mod wake;

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::SocketAddr as BellAddress;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use wiglaf_link::near::Near;
use wiglaf_link::{Arrived, Deliver, Drops, Limits, Link, Sent, Train, Unreachable};

use layout::{AT_CLAIMED, AT_TAKES_NEAR, FRAME_LEN_MAX, RING_LEN, SLOTS, TRAIN_MAX, slot};
use near::NearLane;
use ring::{Consumer, Nonsense, Producer, Writer};
use segment::{FOLDER, OwnSegment, PeerSegment};
use sync::Ordering;
use wake::Bell;

/// Most frames of one receive burst.
const BURST_MAX: usize = 32;

/// How often the peers are looked at for deaths, and how many calls pass
/// before the clock is read for that.
const DEATH_CHECK_INTERVAL: Duration = Duration::from_millis(100);
const DEATH_CHECK_STRIDE: u32 = 256;

/// How many bytes peers may have on the way: more than a ring holds, since a
/// full ring holds its sender back and nothing is lost.
const WINDOW_LEN: usize = 4 * RING_LEN;

/// A link through shared memory.
#[derive(Debug)]
pub struct ShmLink {
    // Fields are dropped in this order: slots in peers' segments are given
    // back while our own segment still says that we live.
    peers: Vec<Peer>,
    /// Who is not sent to any more, because another is at its address or its ring made no sense, until
    /// its death can be told.
    former: Vec<Peer>,
    near: NearLane,
    takes_near: bool,
    own: OwnSegment,
    bell: Bell,
    folder: PathBuf,
    local: SocketAddrV4,
    epoch: u64,
    /// Keeps the port of `local` from others, where no other link does.
    _reservation: Option<UdpSocket>,
    consumers: Vec<Consumer>,
    /// Who wrote last, by slot.
    writers: Vec<Option<Writer>>,
    /// Slots that made no sense: not looked at any more.
    broken: u64,
    next_slot: u32,
    last_peer: usize,
    buffer: Box<[u8; FRAME_LEN_MAX]>,
    deaths: Deaths,
}

#[derive(Debug)]
struct Peer {
    at: SocketAddrV4,
    epoch: u64,
    bell: Arc<BellAddress>,
    claim: Arc<Claim>,
    producer: Producer,
}

/// A slot in a peer's segment that is ours as long as this lives.
#[derive(Debug)]
struct Claim {
    segment: PeerSegment,
    slot: usize,
}

/// Peers found dead.
#[derive(Debug, Default)]
struct Deaths {
    calls: u32,
    checked_at: Option<Instant>,
    /// Found, but what they sent before may still be unread.
    found: VecDeque<(SocketAddrV4, u64)>,
    /// How many of them have left nothing unread.
    settled: usize,
}

impl ShmLink {
    /// Makes a segment for the endpoint at `local` with this epoch, and sweeps
    /// away those of this user's dead processes.
    ///
    /// # Errors
    /// When there is no shared memory, or no room in it.
    pub fn open(local: SocketAddrV4, epoch: u64) -> io::Result<Self> {
        Self::open_in(Path::new(FOLDER), local, epoch)
    }

    fn open_in(folder: &Path, local: SocketAddrV4, epoch: u64) -> io::Result<Self> {
        if epoch == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "epoch 0 names no incarnation",
            ));
        }
        segment::sweep(folder);
        Ok(Self {
            peers: Vec::new(),
            former: Vec::new(),
            near: NearLane::new(epoch),
            takes_near: false,
            bell: Bell::open(epoch)?,
            own: OwnSegment::create(folder, epoch)?,
            folder: folder.to_owned(),
            local,
            epoch,
            _reservation: None,
            consumers: (0..SLOTS).map(|index| Consumer::new(slot(index))).collect(),
            writers: vec![None; SLOTS],
            broken: 0,
            next_slot: 0,
            last_peer: 0,
            buffer: Box::new([0; FRAME_LEN_MAX]),
            deaths: Deaths::default(),
        })
    }

    /// Keeps `socket` for as long as the link lives: it reserves the port of
    /// an endpoint that has no other link.
    #[must_use]
    pub fn with_reservation(self, socket: UdpSocket) -> Self {
        Self { _reservation: Some(socket), ..self }
    }

    /// Senders whose rings made no sense and are not read any more.
    #[must_use]
    pub fn broken(&self) -> u32 {
        self.broken.count_ones()
    }

    /// Makes room at the receiver `epoch`; says whether that went well.
    fn meet(&mut self, at: SocketAddrV4, epoch: u64) -> bool {
        //= docs/protocol.md#11-the-near-lane
        //# An endpoint MUST NOT meet a peer on the near lane whose IP address is not its own.
        if at.ip() != self.local.ip() || epoch == 0 {
            return false;
        }
        // A second claim of the same slot would be given back with the first one.
        if self.peers.iter().chain(&self.former).any(|peer| peer.epoch == epoch) {
            return false;
        }
        let Some(peer) = Peer::meet(&self.folder, (self.epoch, &self.own), at, epoch) else {
            return false;
        };
        self.part_from(at);
        self.peers.push(peer);
        true
    }

    /// Learns who it is that writes to a slot, so that it can be answered
    /// before anybody has told us of it.
    fn learn(&mut self, index: usize, from: Writer) {
        self.writers[index] = Some(from);
        let at = SocketAddrV4::new(*self.local.ip(), from.port);
        if !self.peers.iter().any(|peer| peer.at == at && peer.epoch == from.epoch) {
            self.meet(at, from.epoch);
        }
    }

    /// Whoever was at `at` is not there any more. What waits for it ends when it is found dead, also
    /// where another is there by then.
    fn part_from(&mut self, at: SocketAddrV4) {
        let before = self.former.len();
        for peer in self.peers.extract_if(.., |peer| peer.at == at) {
            self.near.part_from(peer.epoch);
            self.former.push(peer);
        }
        if self.former.len() > before {
            self.bury();
        }
    }

    /// Looks which peers are dead.
    fn bury(&mut self) {
        let dead = |peer: &mut Peer| peer.claim.segment.is_dead();
        let peers = self.peers.extract_if(.., dead).chain(self.former.extract_if(.., dead));
        for peer in peers {
            self.near.part_from(peer.epoch);
            self.deaths.found.push_back((peer.at, peer.epoch));
        }
    }

    fn peer_index(&self, to: SocketAddrV4) -> Option<usize> {
        if self.peers.get(self.last_peer).is_some_and(|peer| peer.at == to) {
            return Some(self.last_peer);
        }
        self.peers.iter().position(|peer| peer.at == to)
    }

    /// Slots to look at, as bits.
    fn slots(&self) -> u64 {
        self.own.map.word(AT_CLAIMED).load(Ordering::Acquire) & !self.broken
    }

    fn has_some(&self) -> bool {
        let waits = |index: usize| self.consumers[index].has_some(&self.own.map);
        bits(self.slots()).any(waits) || self.near.has_some(&self.own.map, self.slots())
    }

    fn find_deaths(&mut self) {
        self.deaths.calls += 1;
        if self.deaths.calls < DEATH_CHECK_STRIDE {
            return;
        }
        self.deaths.calls = 0;
        let now = Instant::now();
        if self.deaths.checked_at.is_some_and(|at| now - at < DEATH_CHECK_INTERVAL) {
            return;
        }
        self.deaths.checked_at = Some(now);
        self.bury();
    }
}

impl Link for ShmLink {
    fn name(&self) -> &'static str {
        "shm"
    }

    fn local(&self) -> SocketAddrV4 {
        self.local
    }

    /// Both lanes are one: bulk trains go to the peer's own address.
    fn bulk_port(&self) -> u16 {
        self.local.port()
    }

    fn limits(&self) -> Limits {
        Limits {
            frame_len_max: FRAME_LEN_MAX,
            frame_len_sure: FRAME_LEN_MAX,
            latency_train_max: 1,
            bulk_train_max: TRAIN_MAX,
            bulk_window_len: WINDOW_LEN,
        }
    }

    fn reaches(&self, to: SocketAddrV4) -> bool {
        self.peer_index(to).is_some()
    }

    fn add_peer(&mut self, at: SocketAddrV4, epoch: u64) {
        if epoch == 0 {
            return; // it may be whom we know
        }
        let is_known = self.peers.iter().any(|peer| peer.at == at && peer.epoch == epoch);
        // A name may be stale: who lives there is not to suffer for it.
        let is_dead = |peer: &Peer| peer.at == at && peer.claim.segment.is_dead();
        if !is_known && !self.meet(at, epoch) && self.peers.iter().any(is_dead) {
            self.part_from(at);
        }
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        // A train for nobody is lost, as on any other link.
        let Some(index) = self.peer_index(train.to) else { return Ok(Sent::All) };
        self.last_peer = index;
        let segment_len = train.segment_len.max(1);
        if segment_len.min(train.bytes.len()) > FRAME_LEN_MAX
            || train.bytes.len().div_ceil(segment_len) > TRAIN_MAX
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "train beyond the link's limits",
            ));
        }
        let peer = &mut self.peers[index];
        let from = Writer { port: self.local.port(), epoch: self.epoch };
        match peer.producer.push(&peer.claim.segment.map, from, segment_len, train.bytes) {
            Ok(false) => Ok(Sent::Full),
            Ok(true) => {
                self.bell.ring_if_armed(&peer.claim.segment.map, &peer.bell);
                Ok(Sent::All)
            }
            Err(Nonsense) => {
                self.part_from(train.to);
                Ok(Sent::All)
            }
        }
    }

    fn recv_trains(&mut self, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        let mut count = 0;
        // Begins where the last burst ended, so that no sender starves.
        let slots = self.slots();
        let low = slots & ((1 << self.next_slot) - 1);
        for index in bits(slots & !low).chain(bits(low)) {
            while count < BURST_MAX {
                match self.consumers[index].pop(&self.own.map, &mut self.buffer) {
                    Ok(Some((from, len))) => {
                        if self.writers[index] != Some(from) {
                            self.learn(index, from);
                        }
                        let at = SocketAddrV4::new(*self.local.ip(), from.port);
                        deliver(&Arrived::alone(at, &self.buffer[..len]));
                    }
                    Ok(None) => break,
                    Err(Nonsense) => {
                        self.broken |= 1 << index;
                        break;
                    }
                }
                count += 1;
            }
            if count == BURST_MAX {
                self.next_slot = (index as u32 + 1) % SLOTS as u32;
                break;
            }
        }
        if count == 0 && !self.near.has_some(&self.own.map, slots) {
            self.deaths.settled = self.deaths.found.len();
        }
        Ok(count)
    }

    fn take_unreachable(&mut self) -> Option<Unreachable> {
        self.find_deaths();
        self.deaths.settled = self.deaths.settled.checked_sub(1)?;
        let (at, epoch) = self.deaths.found.pop_front()?;
        // The lock tells, and only who may open the segment could take it.
        Some(Unreachable { at, epoch, quoted: None })
    }

    fn drops(&self) -> Drops {
        Drops { malformed: self.broken().into(), ..Drops::default() }
    }

    fn near(&mut self) -> Option<&mut dyn Near> {
        if !self.takes_near {
            self.takes_near = true;
            self.own.map.word(AT_TAKES_NEAR).store(1, Ordering::Release);
        }
        Some(self)
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        vec![self.bell.as_raw_fd()]
    }

    fn arm(&mut self, armed: bool) -> bool {
        wake::arm(&self.own.map, armed);
        if !armed {
            self.bell.silence();
            self.deaths.calls = DEATH_CHECK_STRIDE;
        }
        self.has_some()
    }
}

impl Peer {
    /// Maps the segment of `epoch` and claims a slot in it, once the answer has one in ours.
    fn meet(
        folder: &Path,
        (own_epoch, own): (u64, &OwnSegment),
        at: SocketAddrV4,
        epoch: u64,
    ) -> Option<Self> {
        let segment = PeerSegment::open(folder, epoch).ok()?;
        let bell = Arc::new(wake::name(epoch).ok()?);
        if segment.is_dead() {
            return None;
        }
        //= docs/protocol.md#11-the-near-lane
        //# An endpoint MUST NOT write to a peer on the near lane unless a slot of its own segment is kept for that peer.
        if !own.keep_slot(folder, epoch) {
            return None;
        }
        let index = segment.claim(folder, own_epoch)?;
        let claim = Claim { segment, slot: index };
        let producer = Producer::resume(&claim.segment.map, slot(index)).ok()?;
        Some(Self { at, epoch, bell, claim: Arc::new(claim), producer })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.segment.release(self.slot);
    }
}

/// The numbers of the bits that are set, lowest first.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = set.trailing_zeros() as usize;
        (set != 0).then(|| {
            set &= set - 1;
            lowest
        })
    })
}

#[cfg(all(test, not(loom)))]
mod tests;
