//! A terminal for one command on a node: a pseudo-terminal between the user's
//! and the command, so that job control and Ctrl-C are the command's.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::signals::{self, Held};

use crate::client::{Node, NodeCommand, Streams};
use crate::proto::End;

/// Whether the user sits at a terminal.
#[must_use]
pub fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// The user's terminal, which passes every key on. Dropping this gives the
/// terminal back as it was.
struct Raw(Termios);

impl Raw {
    fn enter() -> Result<Self> {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin).cannot(|| "read the terminal's settings".to_owned())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Drain, &raw).cannot(|| "set the terminal".to_owned())?;
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.0);
    }
}

/// Runs a command on a terminal of its own until it ends.
///
/// # Errors
/// When there is no terminal to be had, or the node fails.
pub fn run(node: &Node, command: NodeCommand) -> Result<End> {
    let held = Held::new(&[&signals::ENDING[..], &[signals::RESIZED]].concat());
    let (ours, theirs) = open()?;
    let copy = || theirs.try_clone().cannot(|| "pass the terminal on".to_owned());
    let streams = Streams { stdin: copy()?, stdout: copy()?, stderr: copy()? };
    drop(theirs);
    let running = node.spawn(&command.on_terminal(), streams)?;
    let signalled = running.try_clone()?;
    let resized = ours.try_clone().cannot(|| "copy the terminal".to_owned())?;
    held.pass_on(move |number| match number {
        signals::RESIZED => copy_size(&resized),
        number => signalled.signal(number),
    })?;
    let raw = Raw::enter()?;
    let carried = carry(&ours, running.as_fd());
    drop(raw);
    carried.and_then(|()| running.wait())
}

/// Both ends of a new pseudo-terminal: ours and the command's.
fn open() -> Result<(OwnedFd, OwnedFd)> {
    let open = || -> rustix::io::Result<(OwnedFd, OwnedFd)> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = openat(CWD, name.as_c_str(), flags, Mode::empty())?;
        Ok((ours, theirs))
    };
    let (ours, theirs) = open().cannot(|| "make a terminal".to_owned())?;
    copy_size(&ours);
    Ok((ours, theirs))
}

/// A terminal without a size stays without one.
fn copy_size(to: &OwnedFd) {
    if let Ok(size) = tcgetwinsize(io::stdin()) {
        let _ = tcsetwinsize(to, size);
    }
}

/// Carries keys and output until the command has ended and all of its output
/// is shown.
fn carry(ours: &OwnedFd, ended: BorrowedFd<'_>) -> Result<()> {
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let mut keys_come = true;
    let mut has_ended = false;
    loop {
        let mut fds =
            vec![PollFd::new(ours, PollFlags::IN), PollFd::from_borrowed_fd(ended, PollFlags::IN)];
        // A terminal that hung up says so for ever, whatever it is asked.
        fds.extend(keys_come.then(|| PollFd::new(&stdin, PollFlags::IN)));
        let timeout = has_ended.then_some(Timespec { tv_sec: 0, tv_nsec: 0 });
        match poll(&mut fds, timeout.as_ref()) {
            Err(Errno::INTR) => continue,
            other => other.cannot(|| "wait for the terminal".to_owned())?,
        };
        let seen = |at: usize| fds.get(at).map_or(PollFlags::empty(), PollFd::revents);
        let [output, end, keys] = [0, 1, 2].map(seen);
        if output.intersects(PollFlags::IN) {
            copy(ours.as_fd(), stdout.as_fd())?;
            continue;
        }
        if has_ended {
            return Ok(());
        }
        has_ended = !end.is_empty();
        if !keys.is_empty() {
            keys_come = copy(stdin.as_fd(), ours.as_fd())?;
        }
        // Nobody has it open any more: only the end is left to wait for.
        if output.intersects(PollFlags::HUP) && !has_ended {
            let mut fds = [PollFd::from_borrowed_fd(ended, PollFlags::IN)];
            let waited = poll(&mut fds, None);
            has_ended = waited != Err(Errno::INTR);
        }
    }
}

/// Copies what is there. Says whether more may come.
fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<bool> {
    let mut buffer = [0_u8; 4096];
    let count = match rustix::io::read(from, &mut buffer) {
        Ok(0) | Err(Errno::IO) => return Ok(false),
        Ok(count) => count,
        Err(Errno::INTR | Errno::AGAIN) => return Ok(true),
        Err(error) => return Err(Error::new(format!("cannot read the terminal: {error}"))),
    };
    let to = to.try_clone_to_owned().cannot(|| "write to the terminal".to_owned())?;
    io::Write::write_all(&mut File::from(to), &buffer[..count])
        .cannot(|| "write to the terminal".to_owned())?;
    Ok(true)
}
