//! A ping-pong of active messages, to be held against the bare link's: both
//! sides poll without a pause, as there.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use wiglaf::Messages;
use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result};

// Handlers.
const PING: u64 = 1;
const PONG: u64 = 2;
const BYE: u64 = 3;

/// Empty polls between two yields: both sides may have to share a core.
const POLLS_PER_YIELD: u32 = 1 << 12;

/// Answers rank 0 until it says good-bye.
pub(super) fn serve() -> Result<()> {
    let mut messages = join()?;
    let is_over = Rc::new(Cell::new(false));
    messages.on(PING, |sender, message| {
        // Whom the answer does not reach is found to be lost below.
        let _ = sender.send(message.source, PONG, message.data, &message.payload);
    });
    let over = Rc::clone(&is_over);
    messages.on(BYE, move |_, _| over.set(true));
    poll_until(&mut messages, || is_over.get())
}

/// Half round trips of messages of `len` bytes, in order of time.
pub(super) fn ping(len: usize, rounds: usize) -> Result<Vec<Duration>> {
    let mut messages = join()?;
    let answers = Rc::new(Cell::new(0));
    let count = Rc::clone(&answers);
    messages.on(PONG, move |_, message| count.set(message.data));
    let payload = vec![1; len];
    let mut times = Vec::with_capacity(rounds);
    // The first fifth warms up.
    let warm_up = rounds / 4;
    for round in 1..=rounds + warm_up {
        let begin = Instant::now();
        messages.send(1, PING, round as u64, &payload).cannot(|| "send a message".to_owned())?;
        poll_until(&mut messages, || answers.get() == round as u64)?;
        if round > warm_up {
            times.push(begin.elapsed() / 2);
        }
    }
    messages.send(1, BYE, 0, &[]).cannot(|| "say good-bye".to_owned())?;
    times.sort_unstable();
    Ok(times)
}

fn join() -> Result<Messages> {
    Messages::from_env().cannot(|| "join the job".to_owned())
}

fn poll_until(messages: &mut Messages, is_done: impl Fn() -> bool) -> Result<()> {
    let mut polls = 0;
    while !is_done() {
        if messages.poll() > 0 {
            continue;
        }
        polls += 1;
        if polls % POLLS_PER_YIELD == 0 {
            std::thread::yield_now();
            if let Some(rank) = messages.lost() {
                return Err(Error::new(format!("rank {rank} has ended")));
            }
        }
    }
    Ok(())
}
