//! Where the bytes of what is being sent are.

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

    pub(crate) fn read(&self, offset: usize, out: &mut [u8]) {
        match self {
            Self::User(regions) => regions.read(offset, out),
            Self::Owned(bytes) => {
                let from = offset.min(bytes.len());
                let len = out.len().min(bytes.len() - from);
                out[..len].copy_from_slice(&bytes[from..from + len]);
            }
            Self::Exposed(exposed, grant) => {
                if !exposed.read(grant, offset, out) {
                    out.fill(0); // it was withdrawn under its reader
                }
            }
        }
    }
}
