//! Measures message passing over Wiglaf beside its rivals, and turns the measurements into JSON, tables
//! and pictures.
//!
//! A comparison is only worth reading when nothing but the transport differs.
//! So one [`Launcher`] starts every contender with the same program on the
//! same nodes and cores, the contenders take turns in a changing order (a
//! machine drifts; nobody should always run on the cold core), and the result
//! records every setting that was given to each.
//!
//! Remote files are compared in the same way ([`files`]), by whatever reaches
//! them.
//!
//! The crate starts programs only through the launcher it is given: the
//! command line gives one for its cluster of nodes, [`local::LocalMpirun`]
//! runs all ranks on this machine over loopback.

#![forbid(unsafe_code)]

pub mod active;
pub mod algorithms;
pub mod backlog;
pub mod bandwidth;
pub mod collectives;
pub mod compile;
pub mod contender;
mod course;
mod error;
pub mod facts;
pub mod figures;
pub mod files;
pub mod floor;
pub mod flow_control;
mod grid;
pub mod idle;
pub mod incast;
pub mod interleave;
pub mod launch;
pub mod local;
pub mod loggp;
pub mod loss;
pub mod memory;
mod node_counters;
pub mod outcome;
pub mod oversubscribed;
pub mod pingpong;
pub mod report;
pub mod ring;
pub mod shaped;
pub mod simgrid;
pub mod soak;
pub mod stats;
pub mod transformation;
pub mod turns;

pub use error::{BenchError, Result};
pub use launch::{Job, Launcher, Settings, Transport};

/// Takes one line about what is being done now.
pub type Progress<'a> = &'a mut dyn FnMut(&str);
