//! The helper: it holds the one privilege that the packet link takes,
//! CAP_NET_RAW, so that the programs of users need none.
//!
//! A process that has bound a UDP port shows the helper that socket, and gets
//! a packet socket that sees datagrams for that port, if the administrator's
//! policy admits its user. What the helper does for whom, and what a packet
//! socket lets its holder do, is specified in `docs/helper.md`.
//!
//! It also tunes cards and processors for users who may have that done, by a process of its own
//! ([`hold_tuning`], [`keep_tuning`]): moderation of interrupts, Energy Efficient Ethernet, rings, and
//! how deep processors sleep. What it has changed it sets back.
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
mod tuner;
#[forbid(unsafe_code)]
mod tuning;

pub use client::{
    AskError, TuningLease, ask, ask_at, hold_tuning, hold_tuning_at, keep_tuning, keep_tuning_at,
    status, status_at, tuned, tuned_at, undo_tuning, undo_tuning_at,
};
pub use protocol::{Refusal, SocketKind};
pub use server::{Places, serve};
pub use tuning::{Change, Holder, MICROSECONDS_MAX, Note, Tuned, Wants};

/// Where the helper listens, unless `WIGLAF_HELPER` says otherwise.
pub const SOCKET: &str = "/run/wiglaf-helper/socket";
/// The variable that names another socket; `off`: nobody is asked.
pub const SOCKET_VAR: &str = "WIGLAF_HELPER";
/// The administrator's policy.
pub const POLICY: &str = "/etc/wiglaf/helper.toml";
/// Where it writes down what tuning has changed: in memory, as a card forgets its settings, too, when the
/// machine starts anew.
pub const TUNING: &str = "/run/wiglaf-tuning";
