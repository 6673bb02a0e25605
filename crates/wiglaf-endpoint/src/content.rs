//! Where the bytes of what is being sent are.

use wiglaf_wire::Crc32c;

use crate::exposed::{Exposed, Grant};
use crate::memory::Regions;

/// Where the bytes of a send are.
#[derive(Debug)]
pub(crate) enum Content {
    /// In the user's buffers.
    User(Regions),
    /// Here: the user's may not be read later, or there are none.
    Owned(Vec<u8>),
    /// In exposed memory, as long as it is exposed.
    Exposed(Exposed, Grant),
}

impl Content {
    pub(crate) const EMPTY: Self = Self::Owned(Vec::new());

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::User(regions) => regions.len(),
            Self::Owned(bytes) => bytes.len(),
            Self::Exposed(_, grant) => grant.len(),
        }
    }

    /// With the user's bytes copied into memory of our own; other content stays as it is.
    pub(crate) fn owned(self) -> Self {
        match self {
            Self::User(regions) => Self::Owned(regions.copied()),
            other => other,
        }
    }

    /// Whether it is memory that has been withdrawn from peers.
    pub(crate) fn is_withdrawn(&self) -> bool {
        matches!(self, Self::Exposed(exposed, grant) if !exposed.is_granted(grant))
    }

    /// How much memory it takes here, in bytes.
    pub(crate) fn kept_len(&self) -> usize {
        match self {
            Self::Owned(bytes) => bytes.len(),
            Self::User(_) | Self::Exposed(..) => 0,
        }
    }

    /// As [`Content::read`]; answers `sum` continued over `out`.
    pub(crate) fn read_summed(&self, offset: usize, out: &mut [u8], sum: Crc32c) -> Crc32c {
        match self {
            Self::User(regions) => regions.read_summed(offset, out, sum),
            Self::Owned(bytes) => {
                let part = part(bytes, offset, out.len());
                let (filled, rest) = out.split_at_mut(part.len());
                sum.copy(part, filled).over(rest)
            }
            // Peers change it at any time: what has been copied is summed.
            Self::Exposed(..) => {
                self.read(offset, out);
                sum.over(out)
            }
        }
    }

    pub(crate) fn read(&self, offset: usize, out: &mut [u8]) {
        match self {
            Self::User(regions) => regions.read(offset, out),
            Self::Owned(bytes) => {
                let part = part(bytes, offset, out.len());
                out[..part.len()].copy_from_slice(part);
            }
            Self::Exposed(exposed, grant) => {
                if !exposed.read(grant, offset, out) {
                    out.fill(0); // it was withdrawn under its reader
                }
            }
        }
    }
}

/// Up to `len` bytes from `offset` on, as far as there are any.
fn part(bytes: &[u8], offset: usize, len: usize) -> &[u8] {
    let rest = &bytes[offset.min(bytes.len())..];
    &rest[..len.min(rest.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_is_summed() {
        let content = Content::Owned((0..600).map(|i| (i * 7) as u8).collect());
        let before = Crc32c::EMPTY.over(b"before");
        for (offset, len) in [(0, 600), (200, 300), (500, 300), (700, 10)] {
            let (mut read, mut summed) = (vec![5; len], vec![5; len]);
            content.read(offset, &mut read);
            let sum = content.read_summed(offset, &mut summed, before);
            assert!(summed == read && sum == before.over(&read), "{len} from {offset} on");
        }
    }
}
