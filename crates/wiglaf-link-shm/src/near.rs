//! The near lane of the link: who speaks in which slot, and who can be spoken
//! to. The records themselves are in [`crate::lane`].

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::net::SocketAddrV4;
use std::os::unix::net::SocketAddr as BellAddress;
use std::sync::Arc;

use wiglaf_link::near::{Head, Near, NearId, NearSink, Pushed, Remote};

use crate::foreign::{Foreign, Token};
use crate::lane::{BODY_WORDS, Body, Consumer, Producer};
use crate::layout::{AT_LIMIT, AT_LIMIT_OF, AT_TAKES_NEAR, PAYLOAD_LEN_MAX, SLOTS, slot};
use crate::mapping::Mapping;
use crate::ring::Nonsense;
use crate::sync::Ordering;
use crate::{BURST_MAX, Claim, ShmLink, bits};

/// All peers on the near lane.
#[derive(Debug)]
pub(crate) struct NearLane {
    peers: Vec<NearPeer>,
    by_epoch: HashMap<u64, NearId>,
    /// By slot.
    incoming: Vec<Incoming>,
    next_slot: u32,
    /// Proves our memory to peers; none where they shall not read it.
    token: Option<Token>,
}

#[derive(Debug)]
struct NearPeer {
    epoch: u64,
    to: Option<Outgoing>,
    /// The slot that it writes to.
    slot: Option<usize>,
    memory: Option<Foreign>,
}

#[derive(Debug)]
struct Outgoing {
    claim: Arc<Claim>,
    bell: Arc<BellAddress>,
    producer: Producer,
}

#[derive(Debug)]
struct Incoming {
    consumer: Consumer,
    speaker: Option<NearId>,
}

/// How a sender introduces itself.
struct Hello {
    port: u16,
    epoch: u64,
    /// 0 where its memory may not be read.
    pid: u64,
    token_at: u64,
}

impl Hello {
    fn emit(&self) -> Body {
        let mut body = [0; BODY_WORDS];
        body[..4].copy_from_slice(&[u64::from(self.port), self.epoch, self.pid, self.token_at]);
        body
    }

    fn parse(body: &Body) -> Option<Self> {
        let [port, epoch, pid, token_at, ..] = *body;
        let port = u16::try_from(port).ok()?;
        (epoch != 0).then_some(Self { port, epoch, pid, token_at })
    }
}

impl NearLane {
    pub(crate) fn new(epoch: u64) -> Self {
        let incoming = |index| Incoming { consumer: Consumer::new(slot(index)), speaker: None };
        Self {
            peers: Vec::new(),
            by_epoch: HashMap::new(),
            incoming: (0..SLOTS).map(incoming).collect(),
            next_slot: 0,
            token: Some(Token::new(epoch)),
        }
    }

    /// Nothing can be sent to that peer any more; what has come may still be read.
    pub(crate) fn part_from(&mut self, epoch: u64) {
        if let Some(id) = self.by_epoch.get(&epoch) {
            self.peers[id.0 as usize].to = None;
        }
    }

    pub(crate) fn has_some(&self, map: &Mapping, slots: u64) -> bool {
        bits(slots).any(|index| self.incoming[index].consumer.has_some(map))
    }

    /// The number of a peer, new or known.
    fn number(&mut self, epoch: u64) -> NearId {
        *self.by_epoch.entry(epoch).or_insert_with(|| {
            self.peers.push(NearPeer { epoch, to: None, slot: None, memory: None });
            NearId(self.peers.len() as u32 - 1)
        })
    }

    fn peer(&self, id: NearId) -> Option<&NearPeer> {
        self.peers.get(id.0 as usize)
    }

    fn outgoing(&self, id: NearId) -> Option<&Outgoing> {
        self.peer(id)?.to.as_ref()
    }
}

impl ShmLink {
    /// Opens our side of the lane to a peer that was met, and introduces us.
    fn open_lane(&mut self, at: SocketAddrV4, epoch: u64) -> Option<NearId> {
        let id = self.near.number(epoch);
        if self.near.outgoing(id).is_some() {
            return Some(id);
        }
        let peer = self.peers.iter().find(|peer| peer.at == at && peer.epoch == epoch)?;
        let map = &peer.claim.segment.map;
        if map.word(AT_TAKES_NEAR).load(Ordering::Acquire) == 0 {
            return None;
        }
        let token = self.near.token.as_ref();
        let hello = Hello {
            port: self.local.port(),
            epoch: self.epoch,
            pid: token.map_or(0, |_| u64::from(std::process::id())),
            token_at: token.map_or(0, Token::address),
        };
        let mut producer = Producer::resume(map, slot(peer.claim.slot)).ok()?;
        if producer.push_hello(map, &hello.emit()) != Ok(true) {
            return None;
        }
        self.bell.ring_if_armed(map, &peer.bell);
        let (claim, bell) = (Arc::clone(&peer.claim), Arc::clone(&peer.bell));
        self.near.peers[id.0 as usize].to = Some(Outgoing { claim, bell, producer });
        Some(id)
    }

    /// Learns who writes to a slot from now on.
    fn greet(&mut self, index: usize, hello: &Hello, sink: &mut dyn NearSink) {
        let at = SocketAddrV4::new(*self.local.ip(), hello.port);
        if !self.peers.iter().any(|peer| peer.at == at && peer.epoch == hello.epoch) {
            self.meet(at, hello.epoch);
        }
        // A peer that cannot be answered is heard all the same.
        let id = self.open_lane(at, hello.epoch);
        let id = id.unwrap_or_else(|| self.near.number(hello.epoch));
        let may_read = self.near.token.is_some() && hello.pid != 0;
        let memory = i32::try_from(hello.pid)
            .ok()
            .filter(|_| may_read)
            .and_then(|pid| Foreign::probe(pid, hello.token_at, hello.epoch));
        // Words of the slot are no longer for its former owner.
        let former = self.near.incoming[index].speaker.replace(id);
        if let Some(former) = former.and_then(|former| self.near.peers.get_mut(former.0 as usize))
            && former.slot == Some(index)
        {
            former.slot = None;
        }
        let peer = &mut self.near.peers[id.0 as usize];
        (peer.slot, peer.memory) = (Some(index), memory);
        sink.joined(id, at, hello.epoch);
    }

    /// Takes one record out of a slot; says whether there was one.
    fn take_record(&mut self, index: usize, sink: &mut dyn NearSink) -> Result<bool, Nonsense> {
        let Incoming { consumer, speaker } = &mut self.near.incoming[index];
        let Some((cell, end)) = consumer.peek(&self.own.map)? else { return Ok(false) };
        if let Some(hello) = cell.hello() {
            let hello = Hello::parse(hello).ok_or(Nonsense)?;
            consumer.take(&self.own.map, end);
            self.greet(index, &hello, sink);
            return Ok(true);
        }
        let from = speaker.ok_or(Nonsense)?;
        match consumer.outside(&self.own.map, &cell) {
            Some(outside) => sink.record(from, &cell.head(), &outside),
            None => sink.record(from, &cell.head(), &cell.inside().bytes()),
        }
        consumer.take(&self.own.map, end);
        Ok(true)
    }
}

impl Near for ShmLink {
    fn join(&mut self, at: SocketAddrV4, epoch: u64) -> Option<NearId> {
        self.open_lane(at, epoch)
    }

    fn payload_len_max(&self) -> usize {
        PAYLOAD_LEN_MAX
    }

    fn push(&mut self, to: NearId, head: &Head, payload: &[&[u8]]) -> Pushed {
        let Some(peer) = self.near.peers.get_mut(to.0 as usize) else { return Pushed::Gone };
        let Some(Outgoing { claim, bell, producer }) = &mut peer.to else { return Pushed::Gone };
        match producer.push(&claim.segment.map, head, payload) {
            Ok(true) => {
                self.bell.ring_if_armed(&claim.segment.map, bell);
                Pushed::Yes
            }
            Ok(false) => Pushed::Full,
            Err(Nonsense) => {
                peer.to = None;
                Pushed::Gone
            }
        }
    }

    fn poll(&mut self, sink: &mut dyn NearSink) -> usize {
        let mut count = 0;
        // Begins where the last burst ended, so that no sender starves.
        let first = self.near.next_slot;
        for offset in bits(self.slots().rotate_right(first)) {
            let index = (offset + first as usize) % SLOTS;
            while count < BURST_MAX {
                match self.take_record(index, sink) {
                    Ok(true) => count += 1,
                    Ok(false) => break,
                    Err(Nonsense) => {
                        self.broken |= 1 << index;
                        break;
                    }
                }
            }
            if count == BURST_MAX {
                self.near.next_slot = (index as u32 + 1) % SLOTS as u32;
                break;
            }
        }
        count
    }

    fn progress_of(&self, to: NearId) -> (u64, u64) {
        let Some(to) = self.near.outgoing(to) else { return (0, 0) };
        (to.producer.count(), to.producer.taken(&to.claim.segment.map))
    }

    fn tell_limit(&mut self, peer: NearId, limit: u64) {
        let Some(NearPeer { slot: Some(index), epoch, .. }) = self.near.peer(peer) else { return };
        let word = |at| self.own.map.word(slot(*index) + at);
        let of = word(AT_LIMIT_OF);
        if of.load(Ordering::Relaxed) != *epoch {
            // The limit of the slot's last owner must not pass for this one's.
            of.store(0, Ordering::Release);
        }
        word(AT_LIMIT).store(limit, Ordering::Release);
        of.store(*epoch, Ordering::Release);
    }

    fn limit_told(&self, peer: NearId) -> Option<u64> {
        let to = self.near.outgoing(peer)?;
        let word = |at| to.claim.segment.map.word(slot(to.claim.slot) + at);
        let is_ours = word(AT_LIMIT_OF).load(Ordering::Acquire) == self.epoch;
        is_ours.then(|| word(AT_LIMIT).load(Ordering::Acquire))
    }

    fn forbid_memory_access(&mut self) {
        self.near.token = None;
    }

    fn copy_from(
        &mut self,
        peer: NearId,
        pieces: &[Remote],
        into: &mut [&mut [MaybeUninit<u8>]],
    ) -> bool {
        let Some(peer) = self.near.peers.get_mut(peer.0 as usize) else { return false };
        let copied = peer.memory.is_some_and(|memory| memory.read(pieces, into));
        if !copied {
            // What was refused once is not tried again.
            peer.memory = None;
        }
        copied
    }
}
