//! A stranger on the wire: makes frames out of recorded ones and of what fuzzers have found, and sends
//! them through a raw socket.
//!
//! Trust is only worth what has been tried. So tests and `wiglaf bench hostile` run this against
//! real jobs, from a node that is not of the job. The stranger is stronger than one behind a
//! switch is: it has seen all traffic, and begins with real frames. It has no key, and does not
//! stop what it has seen from arriving.

mod corpus;
mod forge;
mod injector;
mod packet;
mod recording;

pub use corpus::of_corpus;
pub use forge::{Attack, frames};
pub use injector::Injector;
pub use packet::{Recorded, decoy};
pub use recording::read;
