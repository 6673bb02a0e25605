//! Watching a cluster by Prometheus: what Wiglaf counts as a file that node_exporter serves ([`export`]), and Debian's
//! packages set up on the hosts of a cluster file to collect it, to judge it and to send mail ([`setup`], [`status`]).
//!
//! No history is kept here, and nothing of ours listens: ADR 0051.

#![forbid(unsafe_code)]

mod export;
mod files;
mod setup;
mod status;

pub use export::{Exporter, write};
pub use files::{DASHBOARD, Mail, RULES};
pub use setup::{HostPlan, Outcome, Plan, plan, remove};
pub use status::{Alert, HostState, Past, alerts, history, hosts};
