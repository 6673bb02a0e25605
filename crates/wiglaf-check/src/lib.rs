//! Compares hosts.
#![forbid(unsafe_code)]
pub mod facts;
pub mod known;
pub use known::Known;
pub mod probe;
pub mod verdict;
