//! Collectives as frames to all nodes at once.
//!
//! Ethernet delivers one frame to every host of a group; TCP has no use for that, and an MPI over it sends a message
//! as many times as there are receivers. Preloaded before an MPI, `libwiglaf-multicast.so` takes the barriers,
//! broadcasts, small reductions and gathers of communicators with one rank on each host, and leaves all else to the
//! MPI. [`Group`] is what does it, and knows nothing of MPI.
//!
//! Losses are mended by asking: a receiver asks the root, and a thread of the root answers where the root has gone on.
//! docs/protocol.md, section 13, and ADR 0066.

mod behind;
mod communicator;
mod entry;
mod group;
mod kept;
mod layout;
mod message;

mod plan;
mod repair;
mod sockets;
mod team;

pub use group::{Combine, Group, GroupError, Progress};
pub use message::{MESSAGE_LEN_MAX, Message, PREFIX_LEN, Purpose, Refused, Seal};
pub use plan::{Member, Plan, Waiting};
pub use sockets::{Counts, Seen};

/// What the library calls itself in what it says.
const NAME: &str = "libwiglaf-multicast";
