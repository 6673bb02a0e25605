//! The transport among many endpoints, in virtual time, over a network that
//! loses, doubles, delays, reorders and corrupts, all from one seed.
//!
//! Every endpoint runs a [`Peer`]: an application that sends messages whose
//! bytes follow from (sender, receiver, number), and checks what arrives:
//! each message exactly once, in order, with its own bytes. A run that fails
//! names its seed; the same seed replays it event for event.

#![forbid(unsafe_code)]

mod network;
mod peer;
mod random;
mod world;

pub use network::Faults;
pub use peer::Peer;
pub use random::Random;
pub use world::{Load, Report, World};
