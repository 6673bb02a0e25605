//! Looking for messages without receiving them, and receiving what was found.

use wiglaf_wire::Envelope;

use super::Endpoint;
use crate::books::Receiving;
use crate::matching::{Payload, Posted, Unexpected};
use crate::memory::{Region, Regions};
use crate::{Completion, Lengths, Outcome, PostError, RecvOp, Side};

impl Endpoint {
    /// Whether a peek without a claim passes over a message once before it finds it.
    ///
    /// MPICH keeps messages of a rank to itself apart, and looks for them first. One that was sent
    /// before a probe of any source may only be seen after that look; if the probe then finds
    /// another rank's message here, the receive behind it takes the rank's own. A probe that is told
    /// "none" first looks there again before it asks anew.
    pub fn set_late_peeks(&mut self, late: bool) {
        self.late_peeks = late;
    }

    /// From which length on its messages take another way.
    pub fn set_lengths(&mut self, lengths: Lengths) {
        self.transport.set_lengths(lengths);
    }

    /// Looks for a message without receiving it. A completion tells whether
    /// there is one, with `op.context`. With `claim` it is set aside for
    /// [`Endpoint::post_claimed`] with the same context.
    pub fn peek(&mut self, op: &RecvOp, claim: bool) {
        if self.books.matching.find(op).is_none() {
            self.progress();
        }
        let matching = &mut self.books.matching;
        let message =
            if self.late_peeks && !claim { matching.find_late(op) } else { matching.find(op) };
        let found = message.map(|m| (m.peer, m.envelope(), m.payload.len()));
        let nothing = Envelope::new(op.class, op.tag, None);
        let (source, envelope, len, outcome) = match found {
            Some((peer, envelope, total)) => (Some(peer), envelope, total, Outcome::Done),
            None => (None, nothing, 0, Outcome::NoMessage),
        };
        if claim && source.is_some() {
            self.books.matching.claim(op);
        }
        self.books.push_recv(Completion {
            side: Side::Recv,
            class: op.class,
            context: op.context,
            len: len as usize,
            buf: std::ptr::null_mut(),
            data: envelope.data,
            tag: envelope.tag,
            source,
            is_multi: false,
            multi_released: false,
            outcome,
        });
        self.tell_sleepers();
    }

    /// Receives the message that a peek claimed under `op.context`.
    ///
    /// # Errors
    /// [`PostError::NotClaimed`] when there is none.
    ///
    /// # Safety
    /// As for [`Endpoint::post_recv`].
    pub unsafe fn post_claimed(
        &mut self,
        op: &RecvOp,
        regions: &[Region],
    ) -> Result<(), PostError> {
        // SAFETY: handed on from our caller.
        let regions = unsafe { Regions::new(regions) }.ok_or(PostError::TooLong)?;
        let claimed = self.books.matching.take_claimed(op.context).ok_or(PostError::NotClaimed)?;
        self.receive(Posted { op: *op, regions, multi: None }, claimed);
        self.tell_sleepers();
        Ok(())
    }

    /// Drops the message that a peek claimed under `op.context`, with a completion.
    ///
    /// # Errors
    /// [`PostError::NotClaimed`] when there is none.
    pub fn discard_claimed(&mut self, op: &RecvOp) -> Result<(), PostError> {
        let (at, message) =
            self.books.matching.take_claimed(op.context).ok_or(PostError::NotClaimed)?;
        match &message.payload {
            Payload::Remote { send_id, total } => {
                self.transport.pull(message.peer, *send_id, 0, 0);
                self.was_announced(message.peer, &message.envelope(), *total);
                self.flush(self.now());
            }
            Payload::Ahead { token, .. } => {
                // What is on its way goes nowhere.
                self.books.turn_ahead(*token, discarded(op, &message));
                self.consume(message.peer, message.payload.len());
                self.tell_sleepers();
                return Ok(());
            }
            Payload::Near(announced) => self.decline_near(announced),
            Payload::Here { bytes, got } if bytes.len() == *got as usize => {
                self.consume(message.peer, message.payload.len());
            }
            Payload::Here { got, .. } => {
                // Its rest is still coming and goes nowhere, too.
                self.redirect(at, discarded(op, &message), *got as usize);
                self.tell_sleepers();
                return Ok(());
            }
        }
        self.books.end_recv(&discarded(op, &message), true);
        self.tell_sleepers();
        Ok(())
    }
}

fn discarded(op: &RecvOp, message: &Unexpected) -> Receiving {
    Receiving {
        posted: Posted { op: *op, regions: Regions::EMPTY, multi: None },
        peer: message.peer,
        envelope: message.envelope(),
        total: 0,
    }
}
