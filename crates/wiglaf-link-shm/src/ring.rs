//! The byte ring of one sender: single producer, single consumer, each of
//! whom believes the other's words only as far as they can be true.
//!
//! Positions count bytes since the beginning of time. Records are aligned
//! and never wrap: where one does not fit before the end, the rest is skipped.

use crate::layout::{AT_HEAD, AT_RING, AT_TAIL, FRAME_LEN_MAX, RECORD_HEAD_LEN, RING_LEN};
use crate::mapping::Mapping;
use crate::sync::Ordering;

/// In place of a length: nothing more before the end of the ring.
const SKIP: u32 = u32::MAX;

/// Who writes: its port (its IP address is the receiver's own) and its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) port: u16,
    pub(crate) epoch: u64,
}

/// The other side wrote what it cannot mean; its ring is not used any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;

/// The writing end.
#[derive(Debug)]
pub(crate) struct Producer {
    base: usize,
    tail: u64,
    head: u64,
}

impl Producer {
    /// Continues the ring of the slot at `base` where the last sender left it.
    pub(crate) fn resume(map: &Mapping, base: usize) -> Result<Self, Nonsense> {
        let tail = map.word(base + AT_TAIL).load(Ordering::Acquire);
        let head = map.word(base + AT_HEAD).load(Ordering::Acquire);
        used(head, tail).ok_or(Nonsense)?;
        Ok(Self { base, tail, head })
    }

    /// Writes all frames of a train, or says `false` when they do not fit now.
    pub(crate) fn push(
        &mut self,
        map: &Mapping,
        from: Writer,
        segment_len: usize,
        bytes: &[u8],
    ) -> Result<bool, Nonsense> {
        if !self.has_room(segment_len, bytes.len()) {
            let head = map.word(self.base + AT_HEAD).load(Ordering::Acquire);
            used(head, self.tail).ok_or(Nonsense)?;
            self.head = head;
            if !self.has_room(segment_len, bytes.len()) {
                return Ok(false);
            }
        }
        if bytes.is_empty() {
            self.push_one(map, from, bytes);
        }
        for segment in bytes.chunks(segment_len) {
            self.push_one(map, from, segment);
        }
        Ok(true)
    }

    fn has_room(&self, segment_len: usize, len: usize) -> bool {
        let mut end = self.tail;
        let mut left = len;
        loop {
            let record_len = record_len(left.min(segment_len));
            end = place(end, record_len) + record_len as u64;
            left -= left.min(segment_len);
            if left == 0 {
                return end - self.head <= RING_LEN as u64;
            }
        }
    }

    fn push_one(&mut self, map: &Mapping, from: Writer, bytes: &[u8]) {
        let record_len = record_len(bytes.len());
        let at = place(self.tail, record_len);
        if at != self.tail {
            map.write(offset(self.base, self.tail), &SKIP.to_ne_bytes());
        }
        let mut head = [0; RECORD_HEAD_LEN];
        head[0..4].copy_from_slice(&(bytes.len() as u32).to_ne_bytes());
        head[4..6].copy_from_slice(&from.port.to_ne_bytes());
        head[8..16].copy_from_slice(&from.epoch.to_ne_bytes());
        map.write(offset(self.base, at), &head);
        map.write(offset(self.base, at) + RECORD_HEAD_LEN, bytes);
        self.tail = at + record_len as u64;
        // Release: who sees the new tail sees the record before it.
        map.word(self.base + AT_TAIL).store(self.tail, Ordering::Release);
    }
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Consumer {
    base: usize,
    head: u64,
    tail: u64,
}

impl Consumer {
    /// Reads the slot at `base` from the beginning.
    pub(crate) fn new(base: usize) -> Self {
        Self { base, head: 0, tail: 0 }
    }

    /// Whether something waits.
    pub(crate) fn has_some(&self, map: &Mapping) -> bool {
        map.word(self.base + AT_TAIL).load(Ordering::Acquire) != self.head
    }

    /// Copies the next frame out to `buffer`.
    pub(crate) fn pop(
        &mut self,
        map: &Mapping,
        buffer: &mut [u8; FRAME_LEN_MAX],
    ) -> Result<Option<(Writer, usize)>, Nonsense> {
        if self.head == self.tail {
            // Acquire: pairs with the producer's release.
            let tail = map.word(self.base + AT_TAIL).load(Ordering::Acquire);
            if used(self.head, tail).ok_or(Nonsense)? == 0 {
                return Ok(None);
            }
            self.tail = tail;
        }
        let mut head = self.read_head(map);
        if word(&head, 0) == SKIP {
            let skipped = RING_LEN - (self.head as usize & (RING_LEN - 1));
            self.head += skipped as u64;
            // A record follows, published with the skip or after it.
            if used(self.head, self.tail).is_none_or(|used| used == 0) {
                return Err(Nonsense);
            }
            head = self.read_head(map);
        }
        let len = word(&head, 0) as usize;
        if len > FRAME_LEN_MAX {
            return Err(Nonsense);
        }
        let record_len = record_len(len) as u64;
        let fits = place(self.head, record_len as usize) == self.head;
        if !fits || record_len > self.tail - self.head {
            return Err(Nonsense);
        }
        map.read(offset(self.base, self.head) + RECORD_HEAD_LEN, &mut buffer[..len]);
        self.head += record_len;
        // Release: the record has been read before its room is given back.
        map.word(self.base + AT_HEAD).store(self.head, Ordering::Release);
        let [_, _, _, _, port0, port1, _, _, epoch @ ..] = head;
        let from =
            Writer { port: u16::from_ne_bytes([port0, port1]), epoch: u64::from_ne_bytes(epoch) };
        Ok(Some((from, len)))
    }

    fn read_head(&self, map: &Mapping) -> [u8; RECORD_HEAD_LEN] {
        let mut head = [0; RECORD_HEAD_LEN];
        map.read(offset(self.base, self.head), &mut head);
        head
    }
}

fn word(bytes: &[u8; RECORD_HEAD_LEN], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Bytes between two positions, when both can be true.
fn used(head: u64, tail: u64) -> Option<u64> {
    let aligned = |position: u64| position.is_multiple_of(RECORD_HEAD_LEN as u64);
    let used = tail.checked_sub(head)?;
    // Far from overflow: no ring lives to write 2^62 bytes.
    let sane = tail < 1 << 62 && used <= RING_LEN as u64;
    (sane && aligned(head) && aligned(tail)).then_some(used)
}

fn record_len(len: usize) -> usize {
    (RECORD_HEAD_LEN + len).next_multiple_of(RECORD_HEAD_LEN)
}

/// Where a record goes that is written when `position` is reached.
fn place(position: u64, record_len: usize) -> u64 {
    let before_end = RING_LEN - (position as usize & (RING_LEN - 1));
    if record_len <= before_end { position } else { position + before_end as u64 }
}

fn offset(base: usize, position: u64) -> usize {
    base + AT_RING + (position as usize & (RING_LEN - 1))
}

#[cfg(all(test, not(loom)))]
mod tests;
