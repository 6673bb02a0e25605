//! What fuzzers call of this crate's private parsers.

use std::net::SocketAddrV4;

use crate::policy::Policy;
use crate::protocol::{Request, emit_answer, parse_answer};

/// A request and an answer: what is accepted comes back when written again.
pub fn helper(bytes: &[u8]) {
    if let Some(request) = Request::parse(bytes) {
        assert_eq!(request.emit(), bytes);
    }
    if let Some((outcome, sentence)) = parse_answer(bytes) {
        let again = emit_answer(outcome, &sentence);
        assert_eq!(parse_answer(&again).map(|(outcome, _)| outcome), Some(outcome));
    }
}

/// A line of the kernel's table of UDP sockets.
pub fn sockets(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = crate::sys::receiver(text, SocketAddrV4::new([10, 0, 0, 1].into(), 7));
    }
}

/// A policy file.
pub fn policy(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = toml::from_str::<Policy>(text);
    }
}
