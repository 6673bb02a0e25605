//! What fuzzers call of this crate's private parsers.

use crate::server::Counters;
use crate::wire::{Attributes, Entry, Request, Space, unpack};

/// A request, its tag in the first 8 bytes. What is accepted comes back when written again.
pub fn request(bytes: &[u8]) {
    let Some((tag, body)) = bytes.split_first_chunk() else { return };
    let tag = u64::from_le_bytes(*tag);
    if let Ok(Some(request)) = Request::parse(tag, body) {
        let mut again = request.head();
        if let Request::Write { bytes, .. } = request {
            again.extend_from_slice(bytes);
        }
        assert_eq!(Request::parse(request.tag(), &again), Ok(Some(request)));
    }
}

/// What comes back for requests, the status in the first 8 bytes.
pub fn answer(bytes: &[u8]) {
    let Some((status, body)) = bytes.split_first_chunk() else { return };
    if let Err(error) = unpack(u64::from_le_bytes(*status)) {
        assert_ne!(error.errno(), 0);
        assert!(!error.to_string().is_empty());
    }
    let mut again = Vec::new();
    if let Ok(attributes) = Attributes::parse(body) {
        attributes.put(&mut again);
        assert_eq!(again, body);
    }
    again.clear();
    if let Ok(space) = Space::parse(body) {
        space.put(&mut again);
        assert_eq!(again, body);
    }
    again.clear();
    if let Ok(entries) = Entry::parse_all(body) {
        entries.iter().for_each(|entry| entry.put(&mut again));
        assert_eq!(again, body);
    }
    let _ = Counters::parse(body);
}
