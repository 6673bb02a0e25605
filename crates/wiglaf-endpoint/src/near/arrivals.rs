//! What comes over the near lane, and what is done about it.

use std::net::SocketAddrV4;

use wiglaf_link::near::{Head, NearId, NearSink, Payload as Bytes};
use wiglaf_transport::Transport;
use wiglaf_transport::limits::CREDIT_PER_MESSAGE;
use wiglaf_wire::{Envelope, Epoch};

use super::record::{self, Kind, Request, class_of};
use super::{Job, NearSide};
use crate::Outcome;
use crate::announced::Announced;
use crate::books::Books;
use crate::matching::Payload;

/// What a poll of the lane finds.
pub(super) struct Arrivals<'a> {
    pub(super) side: &'a mut NearSide,
    pub(super) books: &'a mut Books,
    pub(super) transport: &'a mut Transport,
    /// Where datagrams to peers of this node go.
    pub(super) path: usize,
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
        let (peer, id, kind) = (near.peer, record::id_of(head), Kind::of(head)?);
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
                let (total, pieces, piece_count) = Request::parse(payload)?;
                let message = Announced { from, send_id: id, total, pieces, piece_count };
                let wanted = self
                    .books
                    .announced(peer, &envelope, total, || Payload::Near(Box::new(message)));
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
