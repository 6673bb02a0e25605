//! Batch jobs, run by Slurm from the distribution's packages, which is configured here and never replaced.
//!
//! `conf` makes its files from what is known of a cluster, `accounting` those of slurmdbd, `login` says who logs in on a host, `daemons` starts what reads them,
//! `emulated` brings all up on emulated nodes and `setup` on hosts, `awake` holds off sleep, `node` is what runs there before and after each
//! job, `modules` what `module load` takes, `pbs` what scripts written for PBS find in it, `owner` has jobs make way for a PC's owner, `sleep` sends PCs to sleep and wakes them, `heat` sees those that are too hot, `revive` switches off and on those that hang, `look` says in plain words what Slurm says, `allocation` is what a job may use, and `grid` sends jobs to other clusters, in words of `request` and `rest`.

#![forbid(unsafe_code)]

mod accounting;
pub mod allocation;
mod awake;
pub mod conf;
pub mod daemons;
pub mod emulated;
mod facts;
pub mod grid;
mod heat;
mod login;
pub mod look;
mod modules;
pub mod node;
mod outside;
pub mod owner;
pub mod pbs;
pub mod request;
mod rest;
mod revive;
pub mod setup;
pub mod sleep;

pub use allocation::Allocation;
