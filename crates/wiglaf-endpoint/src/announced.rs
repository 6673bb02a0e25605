//! What a peer of this node has said of a message that it keeps: how long it is, and where its pieces are
//! in the peer's memory, in words of the machine's own byte order, as the record never leaves the node.

use wiglaf_link::near::{NearId, Payload, Remote};

use crate::memory::{REGIONS_MAX, Regions, as_room};

const WORDS_MAX: usize = 1 + 2 * REGIONS_MAX;

/// A message that a peer of this node has announced. Its pieces add up to its length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Announced {
    from: NearId,
    send_id: u32,
    total: u64,
    pieces: [Remote; REGIONS_MAX],
    piece_count: usize,
}

impl Announced {
    /// Reads the announcement; `None` when it cannot be meant.
    pub(crate) fn parse(from: NearId, send_id: u32, payload: &dyn Payload) -> Option<Self> {
        let mut bytes = [0; 8 * WORDS_MAX];
        let len = payload.len();
        if len < 8 || len > bytes.len() || len % 16 != 8 {
            return None;
        }
        payload.read(0, as_room(&mut bytes[..len]));
        let words = bytes.as_chunks::<8>().0;
        let word = |at: usize| u64::from_ne_bytes(words[at]);
        let mut pieces = [Remote { address: 0, len: 0 }; REGIONS_MAX];
        let (mut total, piece_count) = (0u64, len / 16);
        for (i, piece) in pieces[..piece_count].iter_mut().enumerate() {
            *piece = Remote { address: word(1 + 2 * i), len: word(2 + 2 * i) };
            total = total.checked_add(piece.len)?;
        }
        (total == word(0)).then_some(Self { from, send_id, total, pieces, piece_count })
    }

    /// Who keeps it.
    pub(crate) fn from(&self) -> NearId {
        self.from
    }

    /// Its sender's number of it.
    pub(crate) fn send_id(&self) -> u32 {
        self.send_id
    }

    /// Its length in bytes.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Hands over where its first `len` bytes are.
    pub(crate) fn with_pieces<R>(&self, mut len: u64, f: impl FnOnce(&[Remote]) -> R) -> R {
        let mut pieces = self.pieces;
        for piece in &mut pieces {
            piece.len = piece.len.min(len);
            len -= piece.len;
        }
        f(&pieces[..self.piece_count])
    }
}

/// The payload of an announcement: the length of the message, then address and
/// length of each piece.
#[derive(Debug)]
pub(crate) struct Announcement {
    bytes: [u8; 8 * WORDS_MAX],
    len: usize,
}

impl Announcement {
    /// Of a message in those regions.
    pub(crate) fn of(regions: &Regions) -> Self {
        let mut this = Self::begun(regions.len());
        regions.addresses().for_each(|(address, len)| this.push(address, len));
        this
    }

    /// Of a message in one piece, which does not move before it is fetched.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let mut this = Self::begun(bytes.len());
        this.push(bytes.as_ptr().expose_provenance() as u64, bytes.len() as u64);
        this
    }

    fn begun(total: usize) -> Self {
        let mut this = Self { bytes: [0; 8 * WORDS_MAX], len: 0 };
        this.put(total as u64);
        this
    }

    fn push(&mut self, address: u64, len: u64) {
        self.put(address);
        self.put(len);
    }

    fn put(&mut self, word: u64) {
        self.bytes[self.len..self.len + 8].copy_from_slice(&word.to_ne_bytes());
        self.len += 8;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
