//! Active messages: a message names a handler, which runs where it arrives.
//!
//! A job is a set of processes, ranks `0..size`, that know each other's
//! addresses; `wiglaf run --mpi none` starts one and tells each process about
//! the others in the environment. Handlers run inside [`Messages::poll`] and
//! [`Messages::wait`], never on a thread of their own.
//!
//! ```no_run
//! let mut messages = wiglaf::Messages::from_env()?;
//! messages.on(1, |_, m| println!("{} says {:?}", m.source, m.payload));
//! messages.send(0, 1, 0, b"hello")?;
//! messages.wait(std::time::Duration::from_secs(1));
//! # Ok::<(), wiglaf::Error>(())
//! ```
//!
//! The C interface is `include/wiglaf.h`.

mod error;
#[expect(unreachable_pub, reason = "C reaches them by symbol")]
mod ffi;
mod job;
mod messages;

pub use error::Error;
pub use job::{Job, Member};
pub use messages::{Message, Messages, Sender};
