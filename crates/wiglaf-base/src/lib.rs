//! What the crates around clusters share: errors that are one sentence, host lists, signals as events,
//! users, processes that are named across time, tables, and the names that several of them agree on.
//!
//! Nothing here knows what a node, an MPI or a cluster is.

pub mod at_once;
pub mod end;
pub mod error;
pub mod heat;
pub mod hostlist;
pub mod machine;
pub mod network;
pub mod passing;
pub mod paths;
pub mod process;
pub mod program;
pub mod random;
pub mod records;
pub mod shell;
pub mod signals;
pub mod table;
pub mod usage;
pub mod user;

pub use end::End;
pub use error::{Error, Result};
pub use hostlist::HostList;
