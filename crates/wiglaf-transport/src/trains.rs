//! Trains: datagrams one behind the other, each as long as the first but perhaps the last, which a
//! link hands to the network at once.

use wiglaf_wire::encrypted::TAG_LEN;
use wiglaf_wire::{
    Batch, Crc32c, HEADER_LEN, Header, JobKey, RECORD_PREFIX_LEN, Record, WireError, open, seal,
    seal_summed,
};

use crate::config::Config;
use crate::encryption::Encryption;
use crate::limits::PADDING_DIVISOR;

/// A datagram whose body is in place, but not its header.
pub(crate) struct Put {
    len: usize,
    /// The body's checksum, if there is to be one.
    sum: Option<Crc32c>,
}

impl Put {
    /// One of `len` bytes.
    pub(crate) fn new(len: usize, sum: Option<Crc32c>) -> Self {
        Self { len, sum }
    }

    /// Writes `body` behind what is in `out` from the header up to `at`.
    #[inline]
    pub(crate) fn body(at: usize, body: &[u8], out: &mut [u8], is_summed: bool) -> Self {
        let len = at + body.len();
        let (acks, place) = out[HEADER_LEN..len].split_at_mut(at - HEADER_LEN);
        if is_summed {
            return Self { len, sum: Some(Crc32c::EMPTY.over(acks).copy(body, place)) };
        }
        place.copy_from_slice(body);
        Self { len, sum: None }
    }

    /// Makes it as long as the others of its train, if it is not too long for that already.
    pub(crate) fn padded(self, len: usize, out: &mut [u8]) -> Self {
        let Some(padding_len) = (len - self.len).checked_sub(RECORD_PREFIX_LEN) else {
            return self;
        };
        let padding = &mut out[self.len..len];
        put_padding(padding_len, padding);
        Self { len, sum: self.sum.map(|sum| sum.over(padding)) }
    }
}

/// Fills `out` with a record of `len` bytes that mean nothing.
pub(crate) fn put_padding(len: usize, out: &mut [u8]) {
    let head = Record::Padding(&[]).emit_before(len, out);
    out[head..].fill(0);
}

/// What a train is to be like.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    count_max: usize,
    /// Of a datagram, in bytes.
    len_max: usize,
    /// The others are as long as the first, and not as `len_max`.
    first_is_longest: bool,
}

impl Shape {
    /// At most `count_max` datagrams of `len_max` bytes, or as long as the first if `first_is_longest`.
    pub(crate) fn new(count_max: usize, len_max: usize, first_is_longest: bool) -> Self {
        Self { count_max, len_max, first_is_longest }
    }
}

/// A datagram's place in its train.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    len_max: usize,
    is_first: bool,
}

impl Place {
    /// Longest that may be there, in bytes.
    pub(crate) fn len_max(self) -> usize {
        self.len_max
    }

    /// Makes what is a little shorter as long as those before it, so that more can follow.
    pub(crate) fn padded(self, put: Put, out: &mut [u8]) -> Put {
        let is_worth_it =
            !self.is_first && self.len_max - put.len <= self.len_max / PADDING_DIVISOR;
        if is_worth_it { put.padded(self.len_max, out) } else { put }
    }
}

/// What proves that datagrams are this endpoint's, and hides their bodies if the job encrypts.
#[derive(Debug, Clone)]
pub(crate) struct Sealer {
    key: JobKey,
    /// Boxed: hardly anybody has it.
    encryption: Option<Box<Encryption>>,
    /// What encryption adds to a datagram, in bytes; 0 without.
    tag_len: usize,
}

impl Sealer {
    pub(crate) fn new(config: &Config) -> Self {
        let Config { key, epoch, encrypt, .. } = *config;
        let encryption = encrypt.then(|| Box::new(Encryption::new(&key, epoch)));
        Self { key, encryption, tag_len: if encrypt { TAG_LEN } else { 0 } }
    }

    /// Whether bodies are to be summed while they are copied: those that are encrypted have no checksum.
    pub(crate) fn sums(&self) -> bool {
        self.encryption.is_none()
    }

    /// What opens datagrams, if they are encrypted.
    pub(crate) fn encryption(&mut self) -> Option<&mut Encryption> {
        self.encryption.as_deref_mut()
    }

    /// Opens a datagram that is not encrypted.
    pub(crate) fn open<'a>(&self, datagram: &'a [u8]) -> Result<(Header, &'a [u8]), WireError> {
        open(&self.key, datagram)
    }

    /// Writes datagrams one behind the other, as long as `put`, which writes one's body and answers its
    /// header, has any; answers their length, and that of each but perhaps the last. `sent` counts them.
    ///
    /// They are sealed in batches, which takes their proofs together.
    pub(crate) fn put_train(
        &mut self,
        shape: Shape,
        out: &mut [u8],
        sent: &mut u64,
        mut put: impl FnMut(Place, &mut Header, &mut [u8]) -> Option<Put>,
    ) -> Option<(usize, usize)> {
        let tag_len = self.tag_len;
        let mut place = Place { len_max: shape.len_max, is_first: true };
        if shape.count_max <= 1 {
            // Mostly a short message, or nothing: no batch is begun for it.
            let mut header = Header::EMPTY;
            let Put { len, sum } = put(place, &mut header, out)?;
            *sent += 1;
            let len = self.seal(&header, sum, len, out);
            return Some((len, len));
        }
        let (mut at, mut len) = (0, 0);
        let mut unsealed = Batch::default();
        for _ in 0..shape.count_max.min(out.len() / (shape.len_max + tag_len)).max(1) {
            if unsealed.is_full() {
                self.seal_all(&mut unsealed, &mut out[at..len]);
                at = len;
            }
            let Some(datagram) = put(place, unsealed.place(), &mut out[len..]) else { break };
            *sent += 1;
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
            None => batch.seal(&self.key, datagrams),
            Some(encryption) => {
                batch.drain(datagrams, |header, datagram| encryption.seal(header, datagram));
            }
        }
    }

    /// Finishes a datagram of `len` bytes at the front of `out`, whose body is in place; answers its length with the
    /// tag.
    #[inline]
    pub(crate) fn seal(
        &mut self,
        header: &Header,
        sum: Option<Crc32c>,
        len: usize,
        out: &mut [u8],
    ) -> usize {
        let len = len + self.tag_len;
        let datagram = &mut out[..len];
        match (&mut self.encryption, sum) {
            (Some(encryption), _) => encryption.seal(header, datagram),
            (None, Some(sum)) => seal_summed(header, sum, &self.key, datagram),
            (None, None) => seal(header, &self.key, datagram),
        }
        len
    }
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
