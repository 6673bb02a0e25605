//! Bytes as a sequence of decisions.

/// Reads decisions; past the end all are 0.
#[derive(Debug)]
pub struct Tape<'a>(&'a [u8]);

impl<'a> Tape<'a> {
    /// From the first byte on.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `N` bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| {
            let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
            self.0 = rest;
            *first
        })
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    /// A number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(u16::from_le_bytes(self.bytes())) % limit
    }

    /// All that is left.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// As many of the next bytes as a byte says.
    pub fn piece(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()).min(self.0.len());
        let (piece, rest) = self.0.split_at(len);
        self.0 = rest;
        piece
    }
}
