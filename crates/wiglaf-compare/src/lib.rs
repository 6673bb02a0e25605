//! Runs of one program, over several transports and on several numbers of nodes, as tables: wall time, CPU
//! time, what lies between them, speed-up, efficiency, and Amdahl's serial part with its error.
//!
//! Nothing is run here, and nothing written: runs come in, text goes out.

#![forbid(unsafe_code)]

mod check;
mod fit;
pub mod predict;
pub mod profile;
pub mod programs;
mod report;
pub mod reports;
mod table;
pub mod trace;

pub use check::{Check, Difference};
pub use fit::{Amdahl, amdahl};
pub use report::{Failure, Place, Point, Report, Run, Way};
pub use table::{notes, tables};
