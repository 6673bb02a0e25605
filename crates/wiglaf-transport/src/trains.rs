//! Trains: datagrams one behind the other, each as long as the first but perhaps the last, which a
//! link hands to the network at once.

use wiglaf_wire::{
    Batch, Crc32c, HEADER_LEN, Header, RECORD_PREFIX_LEN, Record, seal, seal_summed,
};

use crate::limits::PADDING_DIVISOR;
use crate::transport::Transport;

/// A datagram whose body is in place, but not its header.
pub(crate) struct Put {
    pub(crate) len: usize,
    /// The body's checksum, if there is to be one.
    pub(crate) sum: Option<Crc32c>,
}

/// What a train is to be like.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) count_max: usize,
    /// Of a datagram, in bytes.
    pub(crate) len_max: usize,
    /// The others are as long as the first, and not as `len_max`.
    pub(crate) first_is_longest: bool,
}

/// A datagram's place in its train.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) len_max: usize,
    is_first: bool,
}

impl Place {
    /// Whether what is so long may be there; what is too long even for the first goes in parts.
    pub(crate) fn has_room(self, len: usize) -> bool {
        len <= self.len_max
    }

    /// Makes what is a little shorter as long as those before it, so that more can follow.
    pub(crate) fn padded(self, put: Put, out: &mut [u8]) -> Put {
        let is_worth_it =
            !self.is_first && self.len_max - put.len <= self.len_max / PADDING_DIVISOR;
        if is_worth_it { padded(put, self.len_max, out) } else { put }
    }
}

impl Transport {
    /// Writes datagrams one behind the other, as long as `put`, which writes one's body and answers its
    /// header, has any; answers their length, and that of each but perhaps the last.
    ///
    /// They are sealed in batches, which takes their proofs together.
    pub(crate) fn put_train(
        &mut self,
        shape: Shape,
        out: &mut [u8],
        mut put: impl FnMut(&mut Self, Place, &mut Header, &mut [u8]) -> Option<Put>,
    ) -> Option<(usize, usize)> {
        let tag_len = self.tag_len;
        let mut place = Place { len_max: shape.len_max, is_first: true };
        if shape.count_max <= 1 {
            // Mostly a short message, or nothing: no batch is begun for it.
            let mut header = Header::EMPTY;
            let Put { len, sum } = put(self, place, &mut header, out)?;
            self.stats.datagrams_sent += 1;
            self.seal(&header, sum, &mut out[..len + tag_len]);
            return Some((len + tag_len, len + tag_len));
        }
        let (mut at, mut len) = (0, 0);
        let mut unsealed = Batch::default();
        for _ in 0..shape.count_max.min(out.len() / (shape.len_max + tag_len)).max(1) {
            if unsealed.is_full() {
                self.seal_all(&mut unsealed, &mut out[at..len]);
                at = len;
            }
            let Some(datagram) = put(self, place, unsealed.place(), &mut out[len..]) else { break };
            self.stats.datagrams_sent += 1;
            unsealed.push(datagram.len + tag_len, datagram.sum);
            len += datagram.len + tag_len;
            if place.is_first && shape.first_is_longest {
                place.len_max = datagram.len;
            }
            place.is_first = false;
            if datagram.len < place.len_max {
                break; // only the last of a train may be shorter
            }
        }
        if len == 0 {
            return None;
        }
        self.seal_all(&mut unsealed, &mut out[at..len]);
        Some((len, (place.len_max + tag_len).min(len)))
    }

    /// Finishes the datagrams of a batch, which lie one behind the other.
    fn seal_all(&mut self, batch: &mut Batch, datagrams: &mut [u8]) {
        match &mut self.encryption {
            None => batch.seal(&self.config.key, datagrams),
            Some(encryption) => {
                batch.drain(datagrams, |header, datagram| encryption.seal(header, datagram));
            }
        }
    }

    /// Finishes a datagram whose body is in place, with room for the tag behind it.
    #[inline]
    pub(crate) fn seal(&mut self, header: &Header, sum: Option<Crc32c>, datagram: &mut [u8]) {
        match (&mut self.encryption, sum) {
            (Some(encryption), _) => encryption.seal(header, datagram),
            (None, Some(sum)) => seal_summed(header, sum, &self.config.key, datagram),
            (None, None) => seal(header, &self.config.key, datagram),
        }
    }
}

/// Writes `body` behind what is in `out` from the header up to `at`.
#[inline]
pub(crate) fn put_body(at: usize, body: &[u8], out: &mut [u8], is_summed: bool) -> Put {
    let len = at + body.len();
    let (acks, place) = out[HEADER_LEN..len].split_at_mut(at - HEADER_LEN);
    if is_summed {
        return Put { len, sum: Some(Crc32c::EMPTY.over(acks).copy(body, place)) };
    }
    place.copy_from_slice(body);
    Put { len, sum: None }
}

/// Makes a datagram as long as the others of its train, if it is not too long for that already.
pub(crate) fn padded(put: Put, len: usize, out: &mut [u8]) -> Put {
    let Some(padding_len) = (len - put.len).checked_sub(RECORD_PREFIX_LEN) else { return put };
    let padding = &mut out[put.len..len];
    let head = Record::Padding(&[]).emit_before(padding_len, padding);
    padding[head..].fill(0);
    Put { len, sum: put.sum.map(|sum| sum.over(padding)) }
}

/// How many of `waiting` datagrams the next train takes, if none takes more than `max` and there
/// are to be no more trains than need be: of even ones, the receiver works at one while the
/// sender makes the next, and no short one is left over at the end.
pub(crate) fn even_part(waiting: usize, max: usize) -> usize {
    waiting.div_ceil(waiting.div_ceil(max).max(1)).max(1)
}

/// How many of `waiting` datagrams the next GSO batch takes, of at most `max`, if the last is half as long: nobody
/// works beside the receiver's work at it. Past the IP stack this gains nothing: more work is the receiver's there.
pub(crate) fn tapered_part(waiting: usize, max: usize) -> usize {
    match waiting.div_ceil(max) {
        0 | 1 => waiting.max(1),
        trains => (2 * waiting).div_ceil(2 * trains - 1).min(max),
    }
}
