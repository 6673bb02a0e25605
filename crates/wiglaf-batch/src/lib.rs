//! Batch jobs, run by Slurm from the distribution's packages, which is configured here and never replaced.
//!
//! `conf` makes its files from what is known of a cluster, `emulated` brings it up on emulated nodes, `look`
//! says in plain words what it says, and `allocation` is what a job may use.

#![forbid(unsafe_code)]

pub mod allocation;
pub mod conf;
pub mod emulated;
pub mod look;

pub use allocation::Allocation;
