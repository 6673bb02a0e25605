//! Collectives as frames to all nodes at once.
//!
//! Ethernet delivers one frame to every host of a group; TCP has no use for that, and an MPI over it sends a message
//! as many times as there are receivers. Preloaded before an MPI, `libwiglaf-multicast.so` takes the barriers,
//! broadcasts, small reductions and gathers of communicators on several hosts, and leaves all else to the MPI. One rank
//! of each host, its leader, is a member of the group; the MPI joins the ranks of a host. [`Group`] does the work, and knows nothing of MPI.
//!
//! A receiver that misses bytes asks the root for them. If the root has gone on, a thread of its process answers.
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
