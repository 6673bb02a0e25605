//! The helper: it holds the one privilege that the packet link takes,
//! CAP_NET_RAW, so that the programs of users need none.
//!
//! A process that has bound a UDP port shows the helper that socket, and gets
//! a packet socket that sees datagrams for that port, if the administrator's
//! policy admits its user. What the helper does for whom, and what a packet
//! socket lets its holder do, is specified in `docs/helper.md`.
//!
//! [`ask`] is the users' side; [`serve`] is the helper.

mod client;
mod confine;
#[doc(hidden)]
pub mod fuzzing;
#[forbid(unsafe_code)]
mod lent;
mod listen;
#[forbid(unsafe_code)]
pub mod policy;
#[forbid(unsafe_code)]
mod protocol;
#[forbid(unsafe_code)]
mod rate;
mod server;
mod sys;

pub use client::{AskError, ask, ask_at, status, status_at};
pub use protocol::{LinkKind, Refusal};
pub use server::{Places, serve};

/// Where the helper listens, unless `WIGLAF_HELPER` says otherwise.
pub const SOCKET: &str = "/run/wiglaf-helper/socket";
/// The variable that names another socket; `off`: nobody is asked.
pub const SOCKET_VAR: &str = "WIGLAF_HELPER";
/// The administrator's policy.
pub const POLICY: &str = "/etc/wiglaf/helper.toml";
