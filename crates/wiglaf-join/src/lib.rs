//! Makes PCs the hosts of a cluster, and takes everything back.
//!
//! `init` writes the cluster file from one host, `discover` lists PCs that could join. `join` looks at hosts
//! by their ssh (`facts`), says what it would change, and has a copy of this `wiglaf` change it there (`host`),
//! with a `manifest` of what was there before. `leave` undoes from that manifest.
//! What other parts of Wiglaf want on hosts comes and goes by `extra`.

#![forbid(unsafe_code)]

mod ask;
pub mod discover;
mod edit;
pub mod extra;
mod facts;
pub mod host;
pub mod init;
pub mod join;
pub mod leave;
mod manifest;
mod names;
mod remote;
mod sync;
mod tree;
