//! What fuzzers call of this crate's private parsers.

use crate::config::NodeConfig;
use crate::tap;

/// What an init is told when it starts.
pub fn config(bytes: &[u8]) {
    let _ = serde_json::from_slice::<NodeConfig>(bytes);
}

/// A frame from a capture's socket: 10 bytes of the kernel's, then the frame.
pub fn captured(bytes: &[u8]) {
    let (offload, frame) = bytes.split_at(tap::OFFLOAD_LEN.min(bytes.len()));
    let datagrams = tap::datagrams(offload, frame);
    assert!(datagrams.len() <= frame.len().max(1));
}
