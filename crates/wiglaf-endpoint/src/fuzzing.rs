//! What fuzzers call of this crate's private parsers.

pub use crate::near::fuzz_record as near_record;
