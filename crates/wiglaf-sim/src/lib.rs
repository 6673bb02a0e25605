//! The transport and the matching queues among many endpoints, in virtual time, over a network
//! that loses (singly and in bursts), doubles, delays, reorders, corrupts and falls apart, while
//! clocks differ and processes pause, die and start again: all from one seed.
//!
//! Every endpoint runs a [`Peer`]: an application that sends messages whose
//! bytes follow from (sender, receiver, number), posts receives, and checks what arrives:
//! each message exactly once, in order, with its own bytes, in the receive that MPI's rules say;
//! no more unread than credit allows; what is told to be delivered is there; nobody is given up who can
//! be reached, and nobody twice; whoever waits for one that is dead, or has given him up, is told in time.
//! A run that fails names its seed; the same seed replays it event for event, and
//! [`Scenario::shrink`] finds a smaller run that fails as well.
//!
//! Two further scenarios measure: [`Incast`], what congestion control makes of a
//! switch, and [`Star`], what thousands of peers cost an endpoint.

#![forbid(unsafe_code)]

mod clock;
mod incast;
mod matched;
mod network;
mod peer;
mod random;
mod scenario;
mod star;
mod world;

pub use incast::{Incast, IncastReport, Stall};
pub use network::{FRAME_OVERHEAD, Faults, Switch};
pub use peer::Peer;
pub use random::Random;
pub use scenario::{Mishap, Scenario, What};
pub use star::{HubCost, Star};
pub use wiglaf_transport::Stats;
pub use world::{Load, Report, World};
