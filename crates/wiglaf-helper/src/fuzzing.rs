//! What fuzzers call of this crate's private parsers.

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

/// A policy file.
pub fn policy(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = toml::from_str::<Policy>(text);
    }
}
