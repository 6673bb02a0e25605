//! Makes PCs the hosts of a cluster, and takes everything back.
//!
//! `init` writes the cluster file from one host, `discover` lists PCs that could join. `join` looks at hosts
//! by their ssh (`facts`), says what it would change, and has a copy of this `wiglaf` change it there (`host`),
//! with a `manifest` of what was there before. `leave` undoes from that manifest. `joined` is for what changes
//! hosts further, and is undone in the same way.
//! `extra` is the same for what watches hosts, and `update` for what goes from one host to the others; `model` says what
//! of a host goes into an image.

#![forbid(unsafe_code)]

mod ask;
pub mod discover;
mod edit;
pub mod extra;
mod facts;
pub mod host;
pub mod init;
pub mod join;
pub mod joined;
pub mod laid;
pub mod leave;
mod listing;
mod manifest;
pub mod model;
mod names;
mod packages;
pub mod remote;
mod sync;
mod tree;
pub mod update;
