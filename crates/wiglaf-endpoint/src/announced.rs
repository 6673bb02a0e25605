//! What a peer of this node has said of a message that it keeps.

use wiglaf_link::near::{NearId, Remote};

use crate::memory::REGIONS_MAX;

/// A message that a peer of this node has announced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Announced {
    pub(crate) from: NearId,
    pub(crate) send_id: u32,
    pub(crate) total: u64,
    pub(crate) pieces: [Remote; REGIONS_MAX],
    pub(crate) piece_count: usize,
}
