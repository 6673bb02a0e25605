//! Every rank greets rank 0, which answers each. Run it with
//! `wiglaf run --mpi none -- target/debug/examples/hello`.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const GREET: u64 = 1;
const ANSWER: u64 = 2;

fn main() -> Result<(), wiglaf::Error> {
    let mut messages = wiglaf::Messages::from_env()?;
    let (rank, size) = (messages.rank(), messages.size());
    let seen = Rc::new(Cell::new(0));

    let count = seen.clone();
    messages.on(GREET, move |sender, m| {
        println!("rank 0: {}", String::from_utf8_lossy(&m.payload));
        count.set(count.get() + 1);
        sender.send(m.source, ANSWER, m.data + 1, b"").expect("the greeter waits");
    });
    let count = seen.clone();
    messages.on(ANSWER, move |_, m| {
        println!("rank {rank}: answered with {}", m.data);
        count.set(count.get() + 1);
    });

    if rank > 0 {
        messages.send(0, GREET, 41, format!("hello from rank {rank}").as_bytes())?;
    }
    let awaited = if rank == 0 { size - 1 } else { 1 };
    while seen.get() < awaited {
        messages.wait(Duration::from_millis(100));
    }
    Ok(())
}
