//! What waits for a number on the ordered lane, and the memory that it is written to.

use std::collections::VecDeque;

use wiglaf_wire::Record;

use crate::limits::{KEPT_CAPACITY, POOL_MAX};

/// The body of an ordered datagram, kept until it is acknowledged.
#[derive(Clone, Default)]
pub(crate) struct Body {
    /// Room for the longest body, so that nothing is cleared before it is filled.
    room: Vec<u8>,
    /// How much of it is used.
    len: usize,
    /// Sends to report once the peer has this packet.
    tokens: Vec<u64>,
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Body({:?} for {:?})", self.bytes(), self.tokens)
    }
}

impl Body {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.room[..self.len]
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The peer has it: what is to be reported then goes to `reports`, and its memory back.
    pub(crate) fn finish(mut self, reports: &mut Vec<u64>, pool: &mut Pool) {
        reports.append(&mut self.tokens);
        pool.give(self.room);
    }
}

/// Buffers for bodies that are empty, kept for reuse.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool(Vec<Vec<u8>>);

impl Pool {
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    pub(crate) fn give(&mut self, buffer: Vec<u8>) {
        if self.0.len() < POOL_MAX {
            self.0.push(buffer);
        }
    }
}

/// Bodies that have no number yet; the last may still grow.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    bodies: VecDeque<Body>,
    /// If not 0, the last body waits for more messages, and those before it go so many at a time.
    linger_unit: usize,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.bodies.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bodies.is_empty()
    }

    /// How many may go now.
    pub(crate) fn due(&self) -> usize {
        let waiting = self.bodies.len();
        match self.linger_unit {
            0 => waiting,
            unit => waiting.saturating_sub(1) / unit * unit,
        }
    }

    /// Lets the last body wait for more messages, until there are `unit` of them.
    pub(crate) fn linger(&mut self, unit: usize) {
        self.linger_unit = unit;
    }

    /// Nothing waits for more messages any longer; whether something did.
    pub(crate) fn end_lingering(&mut self) -> bool {
        std::mem::take(&mut self.linger_unit) > 0
    }

    /// What a record may be long, if bodies are at most `len_max` bytes, to go with what waits.
    pub(crate) fn space(&self, len_max: usize) -> usize {
        self.bodies.back().map_or(0, |body| len_max.saturating_sub(body.len))
    }

    /// Adds a record, whose payload ends with `more` bytes that `fill` writes, to the last body or to a new one, of
    /// at most `len_max` bytes.
    pub(crate) fn append(
        &mut self,
        len_max: usize,
        pool: &mut Pool,
        record: &Record<'_>,
        more: usize,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let len = record.len() + more;
        self.linger_unit = 0;
        let fits = self.bodies.back().is_some_and(|body| body.len + len <= len_max);
        if !fits {
            self.bodies.push_back(Body { room: pool.take(), len: 0, tokens: Vec::new() });
        }
        if let Some(body) = self.bodies.back_mut() {
            let at = body.len;
            body.len += len;
            if body.room.len() < body.len {
                body.room.resize(body.len, 0);
            }
            let out = &mut body.room[at..body.len];
            let head = record.emit_before(more, out);
            if more > 0 {
                fill(&mut out[head..]);
            }
        }
    }

    /// Reports `token` once the peer has what was appended last.
    pub(crate) fn report(&mut self, token: u64) {
        if let Some(body) = self.bodies.back_mut() {
            body.tokens.push(token);
        }
    }

    /// Adds a body with nothing in it, which asks for an answer.
    pub(crate) fn ask(&mut self) {
        self.bodies.push_back(Body::default());
    }

    /// The next body, if it is to go.
    pub(crate) fn pop_if(&mut self, is_to_go: impl FnOnce(&Body) -> bool) -> Option<Body> {
        let body = self.bodies.pop_front_if(|body| is_to_go(body))?;
        from_the_front(&mut self.bodies);
        Some(body)
    }

    /// Drops all that waits; what was to be reported goes to `reports`.
    pub(crate) fn abandon(&mut self, reports: &mut Vec<u64>, pool: &mut Pool) {
        for body in self.bodies.drain(..) {
            body.finish(reports, pool);
        }
    }

    /// Gives back the memory that a burst has made it take.
    pub(crate) fn rest(&mut self) {
        release(&mut self.bodies);
    }
}

/// Gives an empty queue's memory back, if it is more than a few messages need.
pub(crate) fn release<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() && queue.capacity() > KEPT_CAPACITY {
        *queue = VecDeque::new();
    }
}

/// Lets an empty queue begin at the front of its memory again: a few messages in turn then
/// touch one place of it, not each in turn. With thousands of peers each cache line counts.
pub(crate) fn from_the_front<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() {
        queue.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_is_longer_than_its_path_carries_now_takes_no_more() {
        let (mut queue, mut pool) = (Queue::default(), Pool::default());
        let record = Record::Next(&[]);
        queue.append(8000, &mut pool, &record, 7000, |_| {});
        assert!(queue.space(8000) < 1000);
        assert_eq!(queue.space(1400), 0);
        queue.append(1400, &mut pool, &record, 100, |_| {});
        assert_eq!(queue.len(), 2);
    }
}
