//! What is typed, for a program that cannot read the terminal itself.
//!
//! A command on a node is in a session of its own, so the terminal is not its own: mpirun, which looks
//! whether it is in the foreground there, would never read, and others would take the keys that are
//! meant for the shell while the job is in the background.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use wiglaf_base::error::{Context, Result};

/// How long keys are left to the shell before it is looked again who is in the foreground.
const BACKGROUND_PAUSE: Duration = Duration::from_millis(100);

/// A pipe in the place of a terminal, to which a thread copies what is typed while this process is in
/// the foreground. Anything else is given back.
pub(crate) fn through_pipe(stdin: OwnedFd) -> Result<OwnedFd> {
    if !stdin.is_terminal() {
        return Ok(stdin);
    }
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).cannot(|| "make a pipe".to_owned())?;
    let thread = std::thread::Builder::new().spawn(move || copy(&stdin, File::from(writer)));
    thread.cannot(|| "start a thread".to_owned())?;
    Ok(reader)
}

/// Until the end of what is typed, or until nobody reads it any more.
fn copy(terminal: &OwnedFd, mut to: File) {
    let mut bytes = [0; 4096];
    loop {
        match poll(&mut [PollFd::new(terminal, PollFlags::IN)], None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        match tcgetpgrp(terminal.as_fd()) {
            Ok(foreground) if foreground == getpgrp() => {}
            Ok(_) => {
                std::thread::sleep(BACKGROUND_PAUSE);
                continue;
            }
            // It hung up, or is not this session's.
            Err(_) => return,
        }
        match rustix::io::read(terminal, &mut bytes) {
            Ok(count @ 1..) if to.write_all(&bytes[..count]).is_ok() => {}
            Err(Errno::INTR | Errno::AGAIN) => {}
            _ => return,
        }
    }
}
