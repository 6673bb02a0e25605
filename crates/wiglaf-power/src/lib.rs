//! Hosts on and off: through their BMCs (IPMI by FreeIPMI or ipmitool, Redfish by curl), by magic packets, and by
//! a clean shutdown over ssh. Which of these a host has is in the cluster file ([`wiglaf_cluster::power`]).
//!
//! Sentences of errors do not name the host: many hosts fail for one reason, which is told once for all of them.

#![forbid(unsafe_code)]

mod bmc;
mod guard;
mod ipmi;
mod magic;
mod outside;
mod record;
mod redfish;
mod secret;
mod switch;

pub use bmc::{Sensor, State};
pub use magic::wake;
pub use record::{log_file, note};
pub use switch::{Done, Leave, Limits, Wanted, sensors, status, switch};
