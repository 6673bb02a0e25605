//! The transport among many endpoints, in virtual time, over a network that
//! loses, doubles, delays, reorders and corrupts, all from one seed.
//!
//! Every endpoint runs a [`Peer`]: an application that sends messages whose
//! bytes follow from (sender, receiver, number), and checks what arrives:
//! each message exactly once, in order, with its own bytes. A run that fails
//! names its seed; the same seed replays it event for event.
//!
//! Two further scenarios measure: [`Incast`], what congestion control makes of a
//! switch, and [`Star`], what thousands of peers cost an endpoint.

#![forbid(unsafe_code)]

mod incast;
mod network;
mod peer;
mod random;
mod star;
mod world;

pub use incast::{Incast, IncastReport, Stall};
pub use network::{FRAME_OVERHEAD, Faults, Switch};
pub use peer::Peer;
pub use random::Random;
pub use star::{HubCost, Star};
pub use world::{Load, Report, World};
