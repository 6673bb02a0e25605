//! Rendezvous: a long message is announced, and comes when its receiver has a buffer
//! (docs/protocol.md, section 5).
//!
//! Its first train does not wait for that if nothing else is under way: what takes a round trip to ask
//! for would else leave the wire empty. A receiver that has no buffer drops the train, and asks for the whole.

use std::collections::VecDeque;

use wiglaf_wire::{Crc32c, Pull, SEGMENT_PREFIX_LEN, Segment, Transfer};

use crate::config::Path;
use crate::limits::{ACK_EVERY_BULK_DIVISOR, ACK_EVERY_BULK_MAX, UNASKED_PAUSE};
use crate::queue::release;
use crate::slab::Slab;
use crate::{Sink, Source};

/// A message whose bytes wait to be pulled.
#[derive(Debug, Clone)]
struct PendingSend {
    peer: u32,
    token: u64,
    total: u64,
    /// Bytes that nobody has asked for, nor taken so far.
    unasked: u64,
    granted: u64,
    /// Where the last grant ended.
    granted_end: u64,
    acked: u64,
    /// No further grant will come.
    last: bool,
}

impl PendingSend {
    fn is_done(&self) -> bool {
        self.last && self.acked == self.granted + self.unasked
    }

    /// Notes a grant; answers where it ends, and whether it refuses what came unasked.
    fn grant(&mut self, pull: &Pull) -> Option<(u64, bool)> {
        //= docs/protocol.md#5-rendezvous
        //# A sender MUST refuse a PULL that reaches beyond the message, grants bytes before the end of an earlier one or follows the last.
        let end = pull.offset.checked_add(pull.len).filter(|end| *end <= self.total)?;
        if self.last || (pull.len > 0 && pull.offset < self.granted_end) {
            return None;
        }
        // The first grant says whether the receiver had a buffer for what nobody had asked for.
        let is_first = self.unasked > 0 && self.granted == 0;
        let is_taken = is_first && pull.offset == self.unasked;
        if is_taken {
            self.granted = std::mem::take(&mut self.unasked);
        }
        if is_taken || pull.len > 0 {
            self.granted += pull.len;
            self.granted_end = end;
        }
        self.last = pull.last;
        Some((end, is_first && !is_taken))
    }
}

/// Bytes that were pulled and have not all come.
#[derive(Debug, Clone)]
struct PendingPull {
    peer: u32,
    token: u64,
    len: u64,
    missing: u64,
}

/// Bytes that a peer sends without having been asked for them: of one message at a time.
#[derive(Debug, Clone, Copy)]
struct Unasked {
    send_id: u32,
    arrived: u32,
    /// How many there are; unknown before the announcement has come.
    len: Option<u32>,
    /// The pull that takes them; dropped without.
    transfer_id: Option<u32>,
}

impl Unasked {
    fn of(send_id: u32) -> Self {
        Self { send_id, arrived: 0, len: None, transfer_id: None }
    }

    /// Whether a pull of `len` bytes of that message can take all of it.
    fn is_whole(&self, send_id: u32, len: u64) -> bool {
        let fits = self.len.is_some_and(|own| u64::from(own) <= len);
        self.send_id == send_id && self.arrived == 0 && fits
    }
}

/// A bulk segment in flight; its bytes stay in the user's buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    send_id: u32,
    transfer: Transfer,
    offset: u64,
    len: u32,
}

impl Piece {
    /// Length of a body with it, in bytes.
    pub(crate) fn body_len(&self) -> usize {
        SEGMENT_PREFIX_LEN + self.len as usize
    }
}

/// A grant that is being served, or what goes without one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    send_id: u32,
    transfer: Transfer,
    offset: u64,
    end: u64,
}

/// What became of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// So many bytes were taken. After the last ones nothing is awaited of its sender.
    Bytes { len: u64, are_last: bool },
    /// Nobody had asked for it, and there was no buffer.
    Dropped,
    /// It speaks of what does not exist.
    Refused,
}

/// Why a PULL is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It speaks of what does not exist.
    NoTransfer,
    /// It breaks the rules.
    Protocol,
}

/// What one peer and this side have announced to each other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Transfers {
    /// What may go on the bulk lane.
    jobs: VecDeque<Job>,
    /// Most unacknowledged bulk bytes that the peer can take.
    window_len: u32,
    /// Sends that the peer has not wholly pulled.
    pending_sends: u32,
    /// So many long messages to the peer wait to be asked for; it had no buffers of late.
    unasked_pause: u8,
    /// Pulls that this side has under way.
    pulls: u32,
    /// Bytes of them that have not come.
    missing: u64,
    /// What the peer sends without having been asked.
    unasked: Option<Unasked>,
    /// Bytes that the peer was last told it may have unacknowledged on the bulk lane.
    granted_len: usize,
}

impl Transfers {
    /// Whether the peer owes bytes or a grant.
    pub(crate) fn awaits(&self) -> bool {
        self.pulls > 0 || self.pending_sends > 0
    }

    /// Whether a message is announced to the peer and not complete.
    pub(crate) fn is_announcing(&self) -> bool {
        self.pending_sends > 0
    }

    /// Whether something may go on the bulk lane.
    pub(crate) fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Serves a grant, or what goes without one.
    pub(crate) fn begin(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    /// Whether a message that goes now is to wait until it is asked for, as there were no buffers for others.
    pub(crate) fn pauses(&mut self) -> bool {
        let pauses = self.unasked_pause > 0;
        self.unasked_pause = self.unasked_pause.saturating_sub(1);
        pauses
    }

    /// How many packets the peer can take.
    pub(crate) fn window(&self, packet_len: usize) -> u32 {
        self.window_len / packet_len as u32
    }

    /// Whether the peer can take another packet of that length, beside those that are `flying`.
    pub(crate) fn has_room(&self, flying: u32, packet_len: usize) -> bool {
        let in_flight = flying as usize * packet_len;
        in_flight == 0 || in_flight + packet_len <= self.window_len as usize
    }

    /// How many bulk packets may wait for one acknowledgement.
    pub(crate) fn ack_every(&self, path: &Path) -> u32 {
        let packets = (self.granted_len / path.frame_len_max) as u32;
        let every = (packets / ACK_EVERY_BULK_DIVISOR).clamp(2, ACK_EVERY_BULK_MAX);
        // So near the end the last one will do: to send another takes longer than to
        // receive a train.
        let rest = self.missing.div_ceil(path.segment_len_max() as u64);
        let is_end = (1..=u64::from(every)).contains(&rest);
        if is_end { u32::MAX } else { every }
    }

    /// The next piece of `len_max` bytes at most that is to go.
    pub(crate) fn next_piece(&mut self, len_max: usize) -> Option<Piece> {
        let job = self.jobs.front_mut()?;
        let len = (job.end - job.offset).min(len_max as u64);
        let Job { send_id, transfer, offset, end } = *job;
        job.offset += len;
        if job.offset == end {
            self.jobs.pop_front();
        }
        Some(Piece { send_id, transfer, offset, len: len as u32 })
    }

    /// Whether the next bytes to go are the first of a message, and nobody has asked for them.
    pub(crate) fn begins_unasked(&self) -> bool {
        let begins = |job: &Job| job.offset == 0 && matches!(job.transfer, Transfer::Unasked(_));
        self.jobs.front().is_some_and(begins)
    }

    /// How many datagrams, `max` at most, of pulled messages of one length make one train, and the bytes of
    /// a message in each: a train for each message would cost the kernel as much as a long one. All but
    /// the last have to be of one length, so each message is cut into equal pieces, up to half as many
    /// again as it needs. Nothing if fewer than two would go together.
    pub(crate) fn alike(&self, capacity: usize, max: usize) -> Option<(usize, usize)> {
        let jobs = &self.jobs;
        // Mostly one message waits, and this is asked for each of its trains.
        if jobs.len() < 2 {
            return None;
        }
        let rest = |job: &Job| match job.transfer {
            Transfer::Pulled(_) => (job.end - job.offset) as usize,
            Transfer::Unasked(_) => 0,
        };
        let first = jobs.front().map(rest).filter(|len| *len > 0)?;
        let least = first.div_ceil(capacity);
        // One that fills a train leaves no room for another.
        let pieces = (least..=(least + least / 2).min(max.saturating_sub(1)))
            .find(|pieces| first % pieces == 0)?;
        let alike = jobs.iter().take(max / pieces).take_while(|job| rest(job) == first).count();
        // One that is shorter than a piece may be the last.
        let ends = jobs.get(alike).is_some_and(|job| (1..first / pieces).contains(&rest(job)));
        let count = (alike * pieces + usize::from(ends)).min(max);
        (count > pieces).then_some((count, first / pieces))
    }

    /// Notes that so many bytes of a message come unasked; false if that cannot be.
    pub(crate) fn expect_unasked(&mut self, send_id: u32, len: u32) -> bool {
        match &mut self.unasked {
            None => self.unasked = Some(Unasked { len: Some(len), ..Unasked::of(send_id) }),
            // Some have overtaken the announcement, and were dropped.
            Some(early) if early.send_id == send_id && early.len.is_none() => {
                early.len = Some(len);
                if early.arrived >= len {
                    self.unasked = None;
                }
            }
            Some(_) => return false,
        }
        true
    }

    /// Takes bytes that nobody had asked for; answers the pull that they are for, or else they are to be dropped.
    /// `None` if they are not those that were announced.
    fn take_unasked(&mut self, send_id: u32, segment: &Segment<'_>) -> Option<Option<u32>> {
        let part = u32::try_from(segment.payload.len()).ok()?;
        let mut unasked = self.unasked.unwrap_or(Unasked::of(send_id));
        let end = segment.offset.checked_add(u64::from(part))?;
        let arrived = unasked.arrived.checked_add(part)?;
        //= docs/protocol.md#5-rendezvous
        //# A receiver MUST refuse an unasked segment that lies outside of what REQUEST told it to expect.
        let len = unasked.len.unwrap_or(u32::MAX);
        if unasked.send_id != send_id || end > u64::from(len) || arrived > len {
            return None;
        }
        unasked.arrived = arrived;
        self.unasked = (unasked.len != Some(arrived)).then_some(unasked);
        Some(unasked.transfer_id)
    }

    /// Gives back the memory that many grants have made it take.
    pub(crate) fn rest(&mut self) {
        release(&mut self.jobs);
    }
}

/// Announced messages of all peers, in both directions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rendezvous {
    sends: Slab<PendingSend>,
    pulls: Slab<PendingPull>,
    /// How many peers bytes are being pulled from.
    pulling_peers: usize,
}

impl Rendezvous {
    /// Whether bytes that were asked for are still to come.
    pub(crate) fn is_pulling(&self) -> bool {
        self.pulls.len() > 0
    }

    /// Whether no message is announced that is not complete.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.sends.len() == 0
    }

    /// Keeps a message of `total` bytes for `peer`, of which so many go `unasked`: answers its number, and what may go
    /// at once. `None`: there are too many.
    pub(crate) fn announce(
        &mut self,
        peer: u32,
        transfers: &mut Transfers,
        token: u64,
        total: u64,
        unasked: u64,
    ) -> Option<(u32, Option<Job>)> {
        let (granted, granted_end, acked, last) = (0, 0, 0, false);
        let pending =
            PendingSend { peer, token, total, unasked, granted, granted_end, acked, last };
        let send_id = self.sends.insert(pending).ok()?;
        transfers.pending_sends += 1;
        let transfer = Transfer::Unasked(send_id);
        let job = (unasked > 0).then_some(Job { send_id, transfer, offset: 0, end: unasked });
        Some((send_id, job))
    }

    /// Asks `peer` for the first `len` bytes of a message, while all may send `window_len` bytes together. False if
    /// there are too many pulls: then it asks for none.
    pub(crate) fn pull(
        &mut self,
        peer: u32,
        transfers: &mut Transfers,
        (send_id, len, token): (u32, u64, u64),
        window_len: usize,
    ) -> (Pull, bool) {
        let pending = PendingPull { peer, token, len, missing: len };
        let inserted = if len == 0 { Ok(0) } else { self.pulls.insert(pending) };
        let is_pulled = inserted.is_ok();
        // Else the sender would wait for ever.
        let (transfer_id, len) = inserted.map_or((0, 0), |id| (id, len));
        if len > 0 {
            self.pulling_peers += usize::from(transfers.pulls == 0);
            transfers.pulls += 1;
            transfers.missing += len;
        }
        // Peers that push at the same time share this endpoint's buffers; messages of one peer
        // share its window.
        let share = window_len / self.pulling_peers.clamp(1, 64);
        transfers.granted_len = share;
        // What comes unasked need not be asked for, if none of it has been dropped yet.
        let offset = match &mut transfers.unasked {
            Some(unasked) if unasked.is_whole(send_id, len) => {
                unasked.transfer_id = Some(transfer_id);
                unasked.len.map_or(0, u64::from)
            }
            _ => 0,
        };
        let window = u32::try_from(share).unwrap_or(u32::MAX);
        (Pull { send_id, transfer_id, offset, len: len - offset, window, last: true }, is_pulled)
    }

    /// Takes a grant: answers the send that is complete by it, and what may go.
    pub(crate) fn take_pull(
        &mut self,
        peer: u32,
        transfers: &mut Transfers,
        pull: &Pull,
    ) -> Result<(Option<u64>, Option<Job>), Refusal> {
        let send = self.sends.get_mut(pull.send_id).filter(|send| send.peer == peer);
        let send = send.ok_or(Refusal::NoTransfer)?;
        let (end, is_refusal) = send.grant(pull).ok_or(Refusal::Protocol)?;
        let complete = send.is_done().then_some(send.token);
        if complete.is_some() {
            self.sends.remove(pull.send_id);
            transfers.pending_sends -= 1;
        }
        transfers.window_len = pull.window;
        if is_refusal {
            transfers.unasked_pause = UNASKED_PAUSE;
        }
        let transfer = Transfer::Pulled(pull.transfer_id);
        let job = Job { send_id: pull.send_id, transfer, offset: pull.offset, end };
        Ok((complete, (pull.len > 0).then_some(job)))
    }

    /// Bytes of the message whose turn it is that have not gone; the rest of one that begins unasked
    /// has been asked for before it is to go, as a rule.
    pub(crate) fn bytes_waiting(&mut self, transfers: &Transfers) -> u64 {
        let Some(job) = transfers.jobs.front() else { return 0 };
        let end = match job.transfer {
            Transfer::Pulled(_) => job.end,
            Transfer::Unasked(id) => self.sends.get_mut(id).map_or(job.end, |send| send.total),
        };
        end - job.offset
    }

    /// Writes the body of a datagram with that piece; answers its checksum, if it `is_summed`.
    pub(crate) fn put(
        &mut self,
        piece: &Piece,
        source: &dyn Source,
        is_summed: bool,
        body: &mut [u8],
    ) -> Option<Crc32c> {
        Segment::emit_prefix(piece.transfer, piece.offset, body);
        let send = self.sends.get_mut(piece.send_id)?;
        let (prefix, payload) = body.split_at_mut(SEGMENT_PREFIX_LEN);
        if is_summed {
            let prefix = Crc32c::EMPTY.over(prefix);
            return Some(source.read_summed(send.token, piece.offset, payload, prefix));
        }
        source.read(send.token, piece.offset, payload);
        None
    }

    /// The peer has that piece: answers the send that is complete by it.
    pub(crate) fn note_acked(&mut self, transfers: &mut Transfers, piece: Piece) -> Option<u64> {
        let send = self.sends.get_mut(piece.send_id)?;
        send.acked += u64::from(piece.len);
        if !send.is_done() {
            return None;
        }
        let token = send.token;
        self.sends.remove(piece.send_id);
        transfers.pending_sends -= 1;
        Some(token)
    }

    /// Takes a segment that `peer` has sent.
    pub(crate) fn take_segment(
        &mut self,
        peer: u32,
        transfers: &mut Transfers,
        segment: &Segment<'_>,
        sink: &mut dyn Sink,
    ) -> Taken {
        let transfer_id = match segment.transfer {
            Transfer::Pulled(id) => id,
            Transfer::Unasked(send_id) => match transfers.take_unasked(send_id, segment) {
                Some(Some(id)) => id,
                Some(None) => return Taken::Dropped,
                None => return Taken::Refused,
            },
        };
        self.take_pulled(peer, transfers, transfer_id, segment, sink).unwrap_or(Taken::Refused)
    }

    fn take_pulled(
        &mut self,
        peer: u32,
        transfers: &mut Transfers,
        transfer_id: u32,
        segment: &Segment<'_>,
        sink: &mut dyn Sink,
    ) -> Option<Taken> {
        let len = segment.payload.len() as u64;
        let pull = self.pulls.get_mut(transfer_id).filter(|pull| {
            //= docs/protocol.md#5-rendezvous
            //# A receiver MUST refuse a segment that lies outside the range that it pulled.
            pull.peer == peer
                && len <= pull.missing
                && segment.offset.checked_add(len).is_some_and(|end| end <= pull.len)
        })?;
        let token = pull.token;
        transfers.missing -= len;
        pull.missing -= len;
        let complete = pull.missing == 0;
        sink.segment(token, segment.offset, segment.payload);
        if complete {
            self.pulls.remove(transfer_id);
            transfers.pulls -= 1;
            self.pulling_peers -= usize::from(transfers.pulls == 0);
            sink.pulled(token, true);
        }
        Some(Taken::Bytes { len, are_last: complete && transfers.pulls == 0 })
    }

    /// `peer` is gone, perhaps `orderly`: then it has all of what it had asked for, if that has left.
    pub(crate) fn end(
        &mut self,
        peer: u32,
        transfers: &mut Transfers,
        orderly: bool,
        sink: &mut dyn Sink,
    ) {
        for job in transfers.jobs.drain(..) {
            // The peer asked for bytes of it that have not left.
            if let Some(send) = self.sends.get_mut(job.send_id).filter(|send| send.granted > 0) {
                send.last = false;
            }
        }
        (transfers.unasked, transfers.pending_sends) = (None, 0);
        self.sends.drain_where(|s| s.peer == peer, |s| sink.sent(s.token, orderly && s.last));
        self.pulls.drain_where(|p| p.peer == peer, |p| sink.pulled(p.token, false));
        if std::mem::take(&mut transfers.pulls) > 0 {
            self.pulling_peers -= 1;
        }
    }
}
