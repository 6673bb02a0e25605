//! Clusters: what one looks like, the record of one that is up, and the launching of jobs on its nodes.
//!
//! See `shape` for the cluster file, `state` for the record, `launch` for jobs. Who makes the nodes of an
//! emulated cluster is above this, in wiglaf-emulation.

#![forbid(unsafe_code)]

pub mod batch;
pub mod cluster;
pub mod hosts;
pub mod image;
pub mod launch;
pub mod names;
mod on_hosts;
pub mod power;
pub mod rate;
pub mod records;
pub mod rules;
pub mod secret;
pub mod shape;
pub mod share;
pub mod sites;
pub mod stage;
pub mod state;
mod toml_file;

pub use cluster::{Cluster, Member};
pub use state::{Record, StateDir};
