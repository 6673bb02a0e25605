//! Messages to and from peers of the same node, over a link's near lane and
//! past the transport (docs/protocol.md, section 11; docs/adr/0010).
//!
//! The lane loses, doubles and reorders nothing, so there is no number, no
//! acknowledgement and no timer here. What remains of the protocol is credit,
//! so that a receiver's memory stays bounded, and rendezvous, so that long
//! messages are copied once: the receiver reads them from the sender's memory
//! where the kernel lets it, and else asks for them to be sent.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddrV4;

use wiglaf_link::Unreachable;
use wiglaf_link::near::{Head, Near, NearId, NearSink, Payload as Bytes, Pushed};
use wiglaf_transport::limits::{CREDIT_INITIAL, CREDIT_PER_MESSAGE};
use wiglaf_transport::{Gone, PeerId, Traffic, Transport, Wanted, needs_credit};
use wiglaf_wire::{Envelope, Epoch};

use crate::announced::{Announced, Announcement};
use crate::books::{Books, Whose};
use crate::content::Content;
use crate::matching::Payload;
use crate::memory::Regions;
use crate::table::Table;
use crate::{CompleteWhen, Outcome, PostError, SendOp};

mod record;

pub use record::fuzz as fuzz_record;

use record::{Kind, class_of, head, id_of};

/// Longest message that is sent at once, in bytes. Longer ones cost more to
/// copy twice than the kernel takes for copying them once.
const EAGER_LEN_MAX: usize = 4096;

/// What was counted on the near lane.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct NearStats {
    /// Messages sent with their payload.
    pub eager_sent: u64,
    /// Messages announced.
    pub announced: u64,
    /// Announced although short, for want of credit.
    pub credit_stalls: u64,
    /// Messages that were read from the sender's memory.
    pub copied_once: u64,
    /// Messages that were asked for, because that was not possible.
    pub copied_twice: u64,
    /// Records refused for what they said.
    pub refused: u64,
}

/// A send whose payload the peer fetches.
#[derive(Debug)]
struct NearSend {
    to: NearId,
    token: u64,
    total: u64,
}

/// A message that was asked for and has not come whole.
#[derive(Debug)]
struct NearPull {
    from: NearId,
    token: u64,
    send_id: u32,
    len: u64,
    got: u64,
}

/// A message that a peer has asked for.
#[derive(Debug)]
struct Job {
    send_id: u32,
    pull_id: u32,
    at: u64,
    end: u64,
}

#[derive(Debug)]
struct NearPeer {
    peer: PeerId,
    at: SocketAddrV4,
    gone: bool,
    /// A record went or came.
    used: bool,
    /// A message came.
    speaks: bool,
    /// Total of what eager messages were charged, and what the peer allows.
    charged: u64,
    limit: u64,
    /// Total of charges that this side has consumed, and told of.
    consumed: u64,
    told: u64,
    traffic: Traffic,
    /// Records that found no room yet.
    replies: VecDeque<Head>,
    jobs: VecDeque<Job>,
    /// Sends to report once the peer has taken the record of that number.
    delivering: VecDeque<(u64, u64)>,
}

impl NearPeer {
    /// Whether a raised limit is to be told.
    fn owes_news(&self) -> bool {
        self.consumed + CREDIT_INITIAL - self.told >= CREDIT_INITIAL / 4
    }

    /// Reports what the peer has taken, which has taken so many records. True when it was anything.
    fn deliver(&mut self, taken: u64, books: &mut Books) -> bool {
        let before = self.delivering.len();
        while let Some((_, token)) = self.delivering.pop_front_if(|(number, _)| *number <= taken) {
            books.end_send(token, Outcome::Done);
        }
        self.delivering.len() < before
    }

    fn owes(&self) -> bool {
        !self.replies.is_empty() || !self.jobs.is_empty() || !self.delivering.is_empty()
    }
}

/// The near side of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct NearSide {
    /// By number on the lane; none for those that were only heard of.
    peers: Vec<Option<NearPeer>>,
    /// The lane to each peer of the endpoint, if messages go there.
    by_peer: Vec<Option<NearId>>,
    /// The lane from each peer of the endpoint, if messages come there.
    speakers: HashMap<PeerId, NearId>,
    sends: Table<NearSend>,
    pulls: Table<NearPull>,
    /// What a poll has found that is wanted.
    wanted: Vec<(Announced, Wanted)>,
    /// Peers that may send more, and are to be told so.
    raised: Vec<NearId>,
    /// Peers that have said good-bye.
    closed: Vec<NearId>,
    /// Whether some peer is owed something.
    owing: bool,
    flow_control: bool,
    stats: NearStats,
}

impl NearSide {
    pub(crate) fn new(flow_control: bool) -> Self {
        Self { flow_control, ..Self::default() }
    }

    /// The lane that messages to `peer` take.
    pub(crate) fn lane_to(&self, peer: PeerId) -> Option<NearId> {
        self.by_peer.get(peer.0 as usize).copied().flatten()
    }

    /// What was counted.
    pub(crate) fn stats(&self) -> &NearStats {
        &self.stats
    }

    /// What was exchanged with `peer` on the lane, and the credit that is left; None: nothing was.
    pub(crate) fn traffic_with(&self, peer: PeerId) -> Option<(Traffic, u64)> {
        let near = self.peers.iter().flatten().find(|near| near.peer == peer && near.used)?;
        Some((near.traffic, near.limit.saturating_sub(near.charged)))
    }

    /// The lane that messages of `peer` take.
    pub(crate) fn lane_from(&self, peer: PeerId) -> Option<NearId> {
        self.speakers.get(&peer).copied()
    }

    /// From now on messages to `peer` take the lane.
    pub(crate) fn join(&mut self, id: NearId, peer: PeerId, at: SocketAddrV4, sends: bool) {
        let slot = id.0 as usize;
        if self.peers.len() <= slot {
            self.peers.resize_with(slot + 1, || None);
        }
        self.peers[slot].get_or_insert_with(|| NearPeer {
            peer,
            at,
            gone: false,
            used: false,
            speaks: false,
            charged: 0,
            limit: CREDIT_INITIAL,
            consumed: 0,
            told: CREDIT_INITIAL,
            traffic: Traffic::default(),
            replies: VecDeque::new(),
            jobs: VecDeque::new(),
            delivering: VecDeque::new(),
        });
        let slot = peer.0 as usize;
        if sends {
            if self.by_peer.len() <= slot {
                self.by_peer.resize(slot + 1, None);
            }
            self.by_peer[slot] = Some(id);
        }
    }

    fn peer(&mut self, id: NearId) -> Option<&mut NearPeer> {
        self.peers.get_mut(id.0 as usize)?.as_mut()
    }

    /// Sends a message, or announces it.
    pub(crate) fn send(
        &mut self,
        lane: &mut dyn Near,
        books: &mut Books,
        to: NearId,
        op: &SendOp,
        regions: &Regions,
    ) -> Result<(), PostError> {
        let len = regions.len();
        if len <= EAGER_LEN_MAX && op.complete != CompleteWhen::Match {
            if regions.with_bytes(0, len, |bytes| self.send_eager(lane, to, op, len, bytes))? {
                if waits_for_delivery(op) {
                    let content = Content::User(*regions); // for its length only
                    let token = books.begin_send(Whose::User(*op), content);
                    let peer = self.speaking_to(to)?;
                    peer.delivering.push_back((lane.progress_of(to).0, token));
                    self.owing = true;
                } else {
                    books.report_send(op, len, Outcome::Done);
                }
                return Ok(());
            }
            self.stats.credit_stalls += 1;
            self.speaking_to(to)?.traffic.credit_stalls += 1;
        }
        self.announce(lane, books, to, op, regions)
    }

    /// Sends a message in one piece, complete at once, as most messages are. False when it must go through
    /// [`NearSide::send`].
    #[inline]
    pub(crate) fn send_short(
        &mut self,
        lane: &mut dyn Near,
        books: &mut Books,
        to: NearId,
        op: &SendOp,
        bytes: &[u8],
    ) -> Result<bool, PostError> {
        let len = bytes.len();
        if len > EAGER_LEN_MAX
            || op.complete != CompleteWhen::Transmit
            || !self.send_eager(lane, to, op, len, &[bytes])?
        {
            return Ok(false);
        }
        books.report_send(op, len, Outcome::Done);
        Ok(true)
    }

    /// Sends a message with its payload; false when there is no credit for that.
    #[inline]
    fn send_eager(
        &mut self,
        lane: &mut dyn Near,
        to: NearId,
        op: &SendOp,
        len: usize,
        bytes: &[&[u8]],
    ) -> Result<bool, PostError> {
        let flow_control = self.flow_control;
        let peer = self.speaking_to(to)?;
        let charged = peer.charged + len as u64 + CREDIT_PER_MESSAGE;
        if charged > peer.limit {
            peer.limit = lane.limit_told(to).unwrap_or(0).max(peer.limit);
        }
        if charged > peer.limit && flow_control && needs_credit(op.class, len) {
            return Ok(false);
        }
        let head = head(Kind::Message, op.class, op.data.is_some(), 0);
        taken(lane.push(to, &[head, op.tag, op.data.unwrap_or(0)], bytes))?;
        peer.charged = charged;
        peer.traffic.sent(len as u64);
        self.stats.eager_sent += 1;
        Ok(true)
    }

    /// A peer that can be spoken to, and is.
    #[inline]
    fn speaking_to(&mut self, to: NearId) -> Result<&mut NearPeer, PostError> {
        let peer = self.peer(to).filter(|peer| !peer.gone).ok_or(PostError::PeerGone)?;
        peer.used = true;
        Ok(peer)
    }

    fn announce(
        &mut self,
        lane: &mut dyn Near,
        books: &mut Books,
        to: NearId,
        op: &SendOp,
        regions: &Regions,
    ) -> Result<(), PostError> {
        self.speaking_to(to)?;
        let len = regions.len();
        let (announcement, content) = if op.inject {
            // Its buffer is the caller's again in a moment. Moving the vector does not move its bytes.
            let bytes = regions.copied();
            (Announcement::of_bytes(&bytes), Content::Owned(bytes))
        } else {
            (Announcement::of(regions), Content::User(*regions))
        };
        let token = books.begin_send(Whose::User(*op), content);
        let send_id = self.sends.insert(NearSend { to, token, total: len as u64 });
        let head = head(Kind::Request, op.class, op.data.is_some(), send_id as u32);
        let pushed = lane.push(to, &[head, op.tag, op.data.unwrap_or(0)], &[announcement.bytes()]);
        taken(pushed).inspect_err(|_| {
            self.sends.remove(send_id);
            books.abort_send(token);
        })?;
        self.stats.announced += 1;
        if let Some(peer) = self.peer(to) {
            peer.traffic.sent(len as u64);
        }
        Ok(())
    }

    /// Takes what has come, answers, and sends what was asked for. True when
    /// anything happened.
    pub(crate) fn progress(
        &mut self,
        lane: &mut dyn Near,
        books: &mut Books,
        transport: &mut Transport,
        path: usize,
    ) -> bool {
        let found = lane.poll(&mut Arrivals { side: self, books, transport, path });
        if found > 0 {
            for id in std::mem::take(&mut self.closed) {
                let (_, taken) = lane.progress_of(id);
                self.peer(id).map(|peer| peer.deliver(taken, books));
                self.fail(id, Gone::Closed, books, transport);
            }
            for (message, wanted) in std::mem::take(&mut self.wanted) {
                self.fetch(lane, books, &message, wanted);
            }
            for id in std::mem::take(&mut self.raised) {
                self.tell_limit(lane, id);
            }
        }
        // Also while others find it busy: who is owed something may wait for nothing else.
        let has_paid = self.owing && self.pay(lane, books);
        found > 0 || has_paid
    }

    /// Gets a message that is wanted from its sender.
    pub(crate) fn fetch(
        &mut self,
        lane: &mut dyn Near,
        books: &mut Books,
        message: &Announced,
        wanted: Wanted,
    ) {
        let (from, send_id) = (message.from(), message.send_id());
        let Some(true) = self.peer(from).map(|peer| !peer.gone) else {
            books.end_pull(wanted.token, false);
            return;
        };
        let copied = wanted.len == 0
            || books
                .with_room(wanted.token, (0, wanted.len as usize), |room| {
                    message.with_pieces(wanted.len, |pieces| lane.copy_from(from, pieces, room))
                })
                .unwrap_or(false);
        if copied {
            self.stats.copied_once += 1;
            if let Some(peer) = self.peer(from) {
                peer.traffic.bytes_received += wanted.len;
            }
            books.end_pull(wanted.token, true);
            self.reply(lane, from, [Kind::Done.word(send_id), 0, 0]);
            return;
        }
        self.stats.copied_twice += 1;
        let Wanted { token, len } = wanted;
        let pull_id = self.pulls.insert(NearPull { from, token, send_id, len, got: 0 });
        self.reply(lane, from, [Kind::Pull.word(send_id), pull_id as u64, len]);
    }

    /// Lets a sender complete whose message nobody wants.
    pub(crate) fn decline(&mut self, lane: &mut dyn Near, message: &Announced) {
        self.reply(lane, message.from(), [Kind::Done.word(message.send_id()), 0, 0]);
    }

    fn reply(&mut self, lane: &mut dyn Near, to: NearId, head: Head) {
        let Some(peer) = self.peer(to).filter(|peer| !peer.gone) else { return };
        if !peer.replies.is_empty() || lane.push(to, &head, &[]) == Pushed::Full {
            peer.replies.push_back(head);
            self.owing = true;
        }
    }

    /// Gives back the credit of an eager message of `len` bytes.
    pub(crate) fn consume(&mut self, lane: &mut dyn Near, from: NearId, len: u64) {
        if let Some(peer) = self.peer(from) {
            peer.consumed += len + CREDIT_PER_MESSAGE;
        }
        self.tell_limit(lane, from);
    }

    fn tell_limit(&mut self, lane: &mut dyn Near, id: NearId) {
        if let Some(peer) = self.peer(id).filter(|peer| peer.owes_news()) {
            peer.told = peer.consumed + CREDIT_INITIAL;
            lane.tell_limit(id, peer.told);
        }
    }

    /// Sends what found no room before. True when anything was sent.
    fn pay(&mut self, lane: &mut dyn Near, books: &mut Books) -> bool {
        let (mut paid, mut owing) = (false, false);
        for (id, peer) in self.peers.iter_mut().enumerate() {
            let Some(peer) = peer.as_mut().filter(|peer| peer.owes()) else { continue };
            let id = NearId(id as u32);
            while let Some(head) = peer.replies.front()
                && lane.push(id, head, &[]) != Pushed::Full
            {
                peer.replies.pop_front();
                paid = true;
            }
            while let Some(job) = peer.jobs.front_mut() {
                match push_part(lane, books, &self.sends, id, job) {
                    Pushed::Full => break,
                    Pushed::Yes => paid = true,
                    Pushed::Gone => job.at = job.end,
                }
                if job.at == job.end {
                    peer.jobs.pop_front();
                }
            }
            let (_, taken) = lane.progress_of(id);
            paid |= peer.deliver(taken, books);
            owing |= peer.owes();
        }
        self.owing = owing;
        paid
    }

    /// Whether some peer is owed something, or has to take what was sent.
    pub(crate) fn is_owing(&self) -> bool {
        self.owing
    }

    /// Whether nothing is owed and nothing waits for a peer.
    pub(crate) fn is_drained(&self) -> bool {
        !self.owing && self.sends.is_empty()
    }

    /// Says good-bye to everybody that was spoken to.
    pub(crate) fn close(&mut self, lane: &mut dyn Near) {
        for id in 0..self.peers.len() as u32 {
            let id = NearId(id);
            if self.peer(id).is_some_and(|peer| peer.used && !peer.gone) {
                self.reply(lane, id, [Kind::Close.word(0), 0, 0]);
            }
        }
    }

    /// Whether good-byes to `peer` are said here.
    pub(crate) fn says_goodbye(&self, peer: PeerId) -> bool {
        self.peers.iter().flatten().any(|near| near.peer == peer && near.used)
    }

    /// Who was found is dead: it has lived, or there would be no lane. Another may be there already.
    pub(crate) fn lose(
        &mut self,
        found: &Unreachable,
        books: &mut Books,
        transport: &mut Transport,
    ) {
        // What a report of the network quotes was no record of this lane.
        if found.quoted.is_some() {
            return;
        }
        let epoch_of = |peer| transport.peer(peer).map_or(0, |view| view.epoch.0);
        let is_found = |peer: &NearPeer| {
            peer.at == found.at && (found.epoch == 0 || epoch_of(peer.peer) == found.epoch)
        };
        let found: Vec<bool> =
            self.peers.iter().map(|peer| peer.as_ref().is_some_and(is_found)).collect();
        for (id, found) in (0..).zip(found) {
            if found {
                self.fail(NearId(id), Gone::Unreachable, books, transport);
            }
        }
    }

    /// Ends a lane and every operation on it.
    fn fail(&mut self, id: NearId, why: Gone, books: &mut Books, transport: &mut Transport) {
        let Some(near) = self.peer(id).filter(|peer| !peer.gone) else { return };
        near.gone = true;
        near.replies.clear();
        near.jobs.clear();
        let peer = near.peer;
        // Also after a good-bye: the peer has not taken it, and does not any more.
        for (_, token) in std::mem::take(&mut near.delivering) {
            books.end_send(token, Outcome::PeerGone);
        }
        for send in self.sends.remove_where(|send| send.to == id) {
            books.end_send(send.token, Outcome::PeerGone);
        }
        for pull in self.pulls.remove_where(|pull| pull.from == id) {
            books.end_pull(pull.token, false);
        }
        transport.give_up(peer, why, books);
    }
}

/// What a poll of the lane finds.
struct Arrivals<'a> {
    side: &'a mut NearSide,
    books: &'a mut Books,
    transport: &'a mut Transport,
    /// Where datagrams to peers of this node go.
    path: usize,
}

impl NearSink for Arrivals<'_> {
    fn joined(&mut self, id: NearId, at: SocketAddrV4, epoch: u64) {
        let peer = self.transport.connect(at, Epoch(epoch), self.path);
        // What was sent otherwise must not be overtaken.
        let fresh = self.transport.is_fresh(peer);
        self.side.join(id, peer, at, fresh);
    }

    fn record(&mut self, from: NearId, head: &Head, payload: &dyn Bytes) {
        if self.take(from, head, payload).is_none() {
            self.side.stats.refused += 1;
        }
    }
}

impl Arrivals<'_> {
    /// Acts on a record, unless it cannot be meant.
    fn take(&mut self, from: NearId, head: &Head, payload: &dyn Bytes) -> Option<()> {
        let near = self.side.peer(from)?;
        near.used = true;
        let (peer, id, kind) = (near.peer, id_of(head), Kind::of(head)?);
        match kind {
            Kind::Message | Kind::Part => near.traffic.bytes_received += payload.len() as u64,
            _ => {}
        }
        if matches!(kind, Kind::Message | Kind::Request) {
            near.traffic.messages_received += 1;
            if !near.speaks {
                near.speaks = true;
                self.side.speakers.insert(peer, from);
            }
        }
        match kind {
            Kind::Message => {
                let envelope = envelope_of(head)?;
                let len = payload.len() as u64;
                if self.books.arrived(peer, &envelope, payload) {
                    let near = self.side.peer(from)?;
                    near.consumed += len + CREDIT_PER_MESSAGE;
                    if near.owes_news() {
                        self.side.raised.push(from);
                    }
                }
            }
            Kind::Request => {
                let envelope = envelope_of(head)?;
                let message = Announced::parse(from, id, payload)?;
                let elsewhere = || Payload::Near(Box::new(message));
                let wanted = self.books.announced(peer, &envelope, message.total(), elsewhere);
                self.side.wanted.extend(wanted.map(|wanted| (message, wanted)));
            }
            Kind::Pull => {
                let send = self.side.sends.get(id as usize)?;
                let (pull_id, end) = (u32::try_from(head[1]).ok()?, head[2]);
                if send.to != from || end > send.total {
                    return None;
                }
                self.side.peer(from)?.jobs.push_back(Job { send_id: id, pull_id, at: 0, end });
                self.side.owing = true;
            }
            Kind::Part => self.take_part(from, id, head[1], payload)?,
            Kind::Done => {
                self.side.sends.get(id as usize).filter(|send| send.to == from)?;
                let send = self.side.sends.remove(id as usize)?;
                self.side.peer(from)?.jobs.retain(|job| job.send_id != id);
                self.books.end_send(send.token, Outcome::Done);
            }
            Kind::Close => self.side.closed.push(from),
        }
        Some(())
    }

    /// A part of a message that was asked for; they come in order.
    fn take_part(&mut self, from: NearId, id: u32, at: u64, payload: &dyn Bytes) -> Option<()> {
        let len = payload.len() as u64;
        let pull = self.side.pulls.get_mut(id as usize).filter(|pull| {
            pull.from == from && pull.got == at && len > 0 && len <= pull.len - pull.got
        })?;
        self.books.with_room(pull.token, (at as usize, len as usize), |room| {
            let mut at = 0;
            for piece in room {
                payload.read(at, piece);
                at += piece.len();
            }
        })?;
        pull.got += len;
        if pull.got == pull.len {
            let pull = self.side.pulls.remove(id as usize)?;
            self.books.end_pull(pull.token, true);
            self.side.peer(from)?.replies.push_back([Kind::Done.word(pull.send_id), 0, 0]);
            self.side.owing = true;
        }
        Some(())
    }
}

fn envelope_of(head: &Head) -> Option<Envelope> {
    let (class, with_data) = class_of(head)?;
    Some(Envelope::new(class, head[1], with_data.then_some(head[2])))
}

/// Sends the next part of a message that was asked for.
fn push_part(
    lane: &mut dyn Near,
    books: &Books,
    sends: &Table<NearSend>,
    to: NearId,
    job: &mut Job,
) -> Pushed {
    let content = sends.get(job.send_id as usize).and_then(|send| books.content(send.token));
    let Some(content) = content else { return Pushed::Gone };
    let len = (job.end - job.at).min(lane.payload_len_max() as u64);
    let head = [Kind::Part.word(job.pull_id), job.at, 0];
    let (at, count) = (job.at as usize, len as usize);
    let pushed = match content {
        Content::Owned(bytes) => lane.push(to, &head, &[&bytes[at..at + count]]),
        Content::User(regions) => {
            regions.with_bytes(at, count, |bytes| lane.push(to, &head, bytes))
        }
        Content::Exposed(..) => Pushed::Gone, // one-sided operations do not come here
    };
    if pushed == Pushed::Yes {
        job.at += len;
    }
    pushed
}

/// Whether a send is complete only when the peer has it.
fn waits_for_delivery(op: &SendOp) -> bool {
    op.complete == CompleteWhen::Delivery
}

fn taken(pushed: Pushed) -> Result<(), PostError> {
    match pushed {
        Pushed::Yes => Ok(()),
        Pushed::Full => Err(PostError::Again),
        Pushed::Gone => Err(PostError::PeerGone),
    }
}
