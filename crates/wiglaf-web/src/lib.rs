//! The page of `wiglaf web`: a small HTTP server for browsers on the machine itself or in the cluster's network
//! ([`Server`]), who may see it ([`token`], [`Password`]), and the page that it makes of a [`View`].
//!
//! It keeps nothing: what it shows somebody else has gathered ([`Board`]). Why it reads requests itself, with a parser of
//! others: ADR 0061.

#![forbid(unsafe_code)]

mod board;
mod http;
mod marks;
mod page;
mod password;
mod picture;
mod server;
pub mod token;
mod view;

pub use board::Board;
pub use password::Password;
pub use server::Server;
pub use view::{Check, Job, Node, Pair, Part, Queue, Series, Trouble, View};
