//! Scenarios in virtual time, one per rule of docs/protocol.md and some more.
//!
//! A [`net::Net`] joins two transports; tests see every datagram and may drop,
//! hold or forge any.

mod acknowledgement;
mod credit;
mod length;
mod net;
mod packing;
mod rendezvous;
mod replay;
mod session;
mod silence;
mod timing;
mod unasked;
