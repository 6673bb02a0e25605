//! Rendezvous: a long message is announced, and comes when its receiver has a buffer
//! (docs/protocol.md, section 5).
//!
//! Its first train does not wait for that if nothing else is under way: what takes a round trip to ask
//! for would else leave the wire empty. A receiver that has no buffer drops the train, and asks for the whole.

use wiglaf_wire::{Class, Envelope, Pull, Record, Segment, Transfer};

use crate::limits::{UNASKED_PAUSE, UNASKED_TRAINS};
use crate::session::{Job, Session, State};
use crate::trains::tapered_part;
use crate::transport::{PeerId, Transport};
use crate::{Posted, SendError, Sink};

/// A message whose bytes wait to be pulled.
#[derive(Debug, Clone)]
pub(crate) struct PendingSend {
    pub(crate) peer: u32,
    pub(crate) token: u64,
    pub(crate) total: u64,
    /// Bytes that nobody has asked for, nor taken so far.
    pub(crate) unasked: u64,
    pub(crate) granted: u64,
    /// Where the last grant ended.
    granted_end: u64,
    pub(crate) acked: u64,
    /// No further grant will come.
    pub(crate) last: bool,
}

impl PendingSend {
    pub(crate) fn is_done(&self) -> bool {
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
pub(crate) struct PendingPull {
    pub(crate) peer: u32,
    pub(crate) token: u64,
    pub(crate) len: u64,
    pub(crate) missing: u64,
}

/// Bytes that a peer sends without having been asked for them: of one message at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unasked {
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

impl Transport {
    pub(crate) fn send_request(
        &mut self,
        index: u32,
        envelope: Envelope,
        total: u64,
        token: u64,
    ) -> Result<Posted, SendError> {
        let unasked_len = if envelope.is_held { 0 } else { self.unasked_len(index, total) };
        let unasked = u64::from(unasked_len);
        let pending = PendingSend {
            peer: index,
            token,
            total,
            unasked,
            granted: 0,
            granted_end: 0,
            acked: 0,
            last: false,
        };
        let send_id = self.sends.insert(pending).map_err(|_| SendError::Again)?;
        self.append(index, &Record::Request { envelope, total, send_id, unasked_len });
        let session = &mut self.sessions[index as usize];
        session.traffic.sent(total);
        session.pending_sends += 1;
        if unasked > 0 {
            session.begin(Job {
                send_id,
                transfer: Transfer::Unasked(send_id),
                offset: 0,
                end: unasked,
            });
        }
        self.wake(index);
        Ok(Posted::Pending)
    }

    /// How many bytes of a message of `total` are worth sending at once: a train, if the wire to the
    /// peer is empty, and if the peer has lately had buffers for such messages.
    fn unasked_len(&mut self, index: u32, total: u64) -> u32 {
        let session = &mut self.sessions[index as usize];
        if self.lengths.is_eager(total) || !self.config.flow_control {
            return 0;
        }
        if session.unasked_pause > 0 {
            session.unasked_pause -= 1;
            return 0;
        }
        //= docs/protocol.md#5-rendezvous
        //# A sender MUST NOT send bytes unasked while a message that it announced to the same peer is not complete.
        if !session.has_nothing_to_send() || session.bulk_port == 0 || session.ordered.room() == 0 {
            return 0;
        }
        let path = session.way(&self.config);
        let segment_len = path.segment_len_max() as u64;
        let window = session.bulk_window_len / path.frame_len_max as u32;
        let room = session.bulk.room().min(window) as usize;
        let segments = total.div_ceil(segment_len) as usize;
        if self.lengths.is_unasked(total) && segments <= room {
            return total as u32;
        }
        // Whole trains, which the announcement leads: no short one is left over between what is
        // unasked and what has been asked for meanwhile.
        let train_max = path.bulk_train_max.min(session.bulk.train_max());
        let ahead = UNASKED_TRAINS * tapered_part(1 + segments, train_max) - 1;
        (ahead.min(room) as u64 * segment_len).min(total) as u32
    }

    /// Asks for the first `len` bytes of a message that `peer` announced.
    /// Zero refuses its payload and lets the sender complete. So does false, the answer when there are
    /// too many pulls or `peer` is gone.
    pub fn pull(&mut self, peer: PeerId, send_id: u32, len: u64, token: u64) -> bool {
        let Some(session) = self.sessions.get(peer.0 as usize) else { return false };
        if session.state != State::Open {
            return false;
        }
        let path = &self.config.paths[session.path];
        let window = path.bulk_window_len;
        let transfer_id = if len == 0 {
            0
        } else {
            let pending = PendingPull { peer: peer.0, token, len, missing: len };
            let Ok(id) = self.pulls.insert(pending) else {
                self.pull(peer, send_id, 0, token); // else the sender would wait for ever
                return false;
            };
            let session = &mut self.sessions[peer.0 as usize];
            self.pulling_peers += usize::from(session.pulls == 0);
            session.pulls += 1;
            session.missing += len;
            id
        };
        // Peers that push at the same time share this endpoint's buffers; messages of one peer
        // share its window.
        let share = window / self.pulling_peers.clamp(1, 64);
        let session = &mut self.sessions[peer.0 as usize];
        session.bulk_granted_len = share;
        // What comes unasked need not be asked for, if none of it has been dropped yet.
        let offset = match &mut session.unasked {
            Some(unasked) if unasked.is_whole(send_id, len) => {
                unasked.transfer_id = Some(transfer_id);
                unasked.len.map_or(0, u64::from)
            }
            _ => 0,
        };
        let window = u32::try_from(share).unwrap_or(u32::MAX);
        let len = len - offset;
        self.append(
            peer.0,
            &Record::Pull(Pull { send_id, transfer_id, offset, len, window, last: true }),
        );
        // If all of it is on its way the answer goes with an acknowledgement, if one is due.
        let has_company = self.sessions[peer.0 as usize].ordered_debt.packets > 0;
        if len > 0 || offset == 0 || !has_company {
            self.wake(peer.0);
        }
        true
    }

    /// A message was announced, of which `unasked_len` bytes follow unasked.
    pub(crate) fn take_request(
        &mut self,
        index: u32,
        envelope: &Envelope,
        (total, unasked_len): (u64, u32),
        send_id: u32,
        sink: &mut dyn Sink,
    ) {
        if u64::from(unasked_len) > total {
            self.stats.drop_protocol += 1;
            return;
        }
        self.sessions[index as usize].traffic.received(0);
        if unasked_len > 0 {
            self.expect_unasked(index, send_id, unasked_len);
        }
        let Some(wanted) = sink.request(PeerId(index), envelope, total, send_id) else { return };
        // Handlers run later: what comes for them lies here, though it is fetched at once.
        if envelope.class != Class::Active {
            self.widen_credit(PeerId(index), total);
        }
        let is_pulled = self.pull(PeerId(index), send_id, wanted.len, wanted.token);
        if wanted.len == 0 || !is_pulled {
            sink.pulled(wanted.token, is_pulled); // no segment will come to say so
        }
    }

    /// Notes that so many bytes of a message come unasked.
    fn expect_unasked(&mut self, index: u32, send_id: u32, len: u32) {
        let unasked = &mut self.sessions[index as usize].unasked;
        match unasked {
            None => *unasked = Some(Unasked { len: Some(len), ..Unasked::of(send_id) }),
            // Some have overtaken the announcement, and were dropped.
            Some(early) if early.send_id == send_id && early.len.is_none() => {
                early.len = Some(len);
                if early.arrived >= len {
                    *unasked = None;
                }
            }
            Some(_) => self.stats.drop_protocol += 1,
        }
    }

    pub(crate) fn take_pull(&mut self, index: u32, pull: &Pull, sink: &mut dyn Sink) {
        let Some(send) = self.sends.get_mut(pull.send_id).filter(|send| send.peer == index) else {
            self.stats.drop_no_transfer += 1;
            return;
        };
        let Some((end, is_refusal)) = send.grant(pull) else {
            self.stats.drop_protocol += 1;
            return;
        };
        if send.is_done() {
            let token = send.token;
            self.sends.remove(pull.send_id);
            self.sessions[index as usize].pending_sends -= 1;
            sink.sent(token, true);
        }
        let session = &mut self.sessions[index as usize];
        session.bulk_window_len = pull.window;
        if is_refusal {
            session.unasked_pause = UNASKED_PAUSE;
        }
        if pull.len > 0 {
            session.begin(Job {
                send_id: pull.send_id,
                transfer: Transfer::Pulled(pull.transfer_id),
                offset: pull.offset,
                end,
            });
            self.wake(index);
        }
    }

    pub(crate) fn take_segment(&mut self, index: u32, segment: &Segment<'_>, sink: &mut dyn Sink) {
        let taken = match segment.transfer {
            Transfer::Pulled(id) => self.take_pulled(index, id, segment, sink),
            Transfer::Unasked(send_id) => self.take_unasked(index, send_id, segment, sink),
        };
        if taken.is_none() {
            self.stats.drop_no_transfer += 1;
        }
    }

    /// Takes bytes that nobody had asked for, or drops them. `None` if they are not those that were announced.
    fn take_unasked(
        &mut self,
        index: u32,
        send_id: u32,
        segment: &Segment<'_>,
        sink: &mut dyn Sink,
    ) -> Option<()> {
        let part = u32::try_from(segment.payload.len()).ok()?;
        let session = &mut self.sessions[index as usize];
        let mut unasked = session.unasked.unwrap_or(Unasked::of(send_id));
        let end = segment.offset.checked_add(u64::from(part))?;
        let arrived = unasked.arrived.checked_add(part)?;
        //= docs/protocol.md#5-rendezvous
        //# A receiver MUST refuse an unasked segment that lies outside of what REQUEST told it to expect.
        let len = unasked.len.unwrap_or(u32::MAX);
        if unasked.send_id != send_id || end > u64::from(len) || arrived > len {
            return None;
        }
        unasked.arrived = arrived;
        session.unasked = (unasked.len != Some(arrived)).then_some(unasked);
        match unasked.transfer_id {
            Some(id) => self.take_pulled(index, id, segment, sink),
            None => {
                self.stats.unasked_dropped += 1;
                Some(())
            }
        }
    }

    fn take_pulled(
        &mut self,
        index: u32,
        transfer_id: u32,
        segment: &Segment<'_>,
        sink: &mut dyn Sink,
    ) -> Option<()> {
        let len = segment.payload.len() as u64;
        let pull = self.pulls.get_mut(transfer_id).filter(|pull| {
            //= docs/protocol.md#5-rendezvous
            //# A receiver MUST refuse a segment that lies outside the range that it pulled.
            pull.peer == index
                && len <= pull.missing
                && segment.offset.checked_add(len).is_some_and(|end| end <= pull.len)
        })?;
        let token = pull.token;
        let session = &mut self.sessions[index as usize];
        session.traffic.bytes_received += len;
        session.missing -= len;
        pull.missing -= len;
        let complete = pull.missing == 0;
        sink.segment(token, segment.offset, segment.payload);
        if complete {
            self.pulls.remove(transfer_id);
            let session = &mut self.sessions[index as usize];
            session.pulls -= 1;
            self.pulling_peers -= usize::from(session.pulls == 0);
            // The sender waits for nothing but this, unless it has more to send that was asked for.
            session.bulk_debt.now |= session.pulls == 0;
            sink.pulled(token, true);
        }
        Some(())
    }
}

impl Session {
    /// Serves a grant, or what goes without one.
    fn begin(&mut self, job: Job) {
        self.uses_bulk = true;
        self.jobs.push_back(job);
    }
}
