//! The commands that an init has started, and what else it has to reap.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, waitpid,
};
use wiglaf_base::program::{find_in, is_executable};

use crate::proto::{self, End, Reply};

/// A command that is not another program after so long is ended: its user may have stopped it, or
/// its folder may be on a file system that does not answer.
const START_PATIENCE: Duration = Duration::from_secs(20);

/// What a child says beside the kernel's own numbers, which end at 4095: the program is there, and what
/// is to interpret it is not.
pub(super) const NO_INTERPRETER: i32 = 5001;

/// The running commands, each with the connection that waits for its end.
///
/// Invariant: a pid in the table has not been reaped, so it and its process
/// group are still those of the command. Each child is in it from its fork on.
/// Pids come round while clients are still connected: a client's command is told by its serial.
#[derive(Debug, Default)]
pub(super) struct Children {
    table: Mutex<Table>,
    started: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    running: HashMap<i32, (u64, Stage)>,
    /// Those that ended before it was known whether they had started, by serial.
    ended: HashMap<u64, End>,
    /// Of the next child.
    serial: u64,
}

/// A command, for good: its pid may be another's when it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Child {
    pid: i32,
    serial: u64,
}

impl Table {
    /// How far that command is, if it has not been reaped.
    fn stage(&mut self, child: Child) -> Option<&mut Stage> {
        let (serial, stage) = self.running.get_mut(&child.pid)?;
        (*serial == child.serial).then_some(stage)
    }
}

/// How far a command is.
#[derive(Debug)]
enum Stage {
    /// Not another program yet: somebody waits to hear of it.
    Starting,
    /// Its end is told to this client.
    Running(Arc<UnixStream>),
    /// Its end is nobody's business.
    Abandoned,
}

impl Children {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a command, which is to have these streams, and whose end is reported to `client`.
    ///
    /// The child is its user's before it is the program, and may be stopped there: nothing that
    /// others need is held while it starts.
    pub(super) fn spawn(
        &self,
        command: &mut Command,
        streams: [RawFd; 3],
        client: Arc<UnixStream>,
    ) -> io::Result<Child> {
        let (child, refusal) = self.fork(command, streams)?;
        match wait_for_program(refusal) {
            Ok(()) => {
                // Said before the reaper can say that it has ended.
                let _ = proto::send(&client, &Reply::Started, &[]);
                let mut table = self.table();
                if let Some(end) = table.ended.remove(&child.serial) {
                    drop(table);
                    let _ = proto::send(&client, &Reply::Ended(end), &[]);
                } else if let Some(stage) = table.stage(child) {
                    *stage = Stage::Running(client);
                }
                Ok(child)
            }
            Err(error) => {
                self.abandon(child);
                self.table().ended.remove(&child.serial);
                Err(error)
            }
        }
    }

    /// Forks, and has the child become the command. What it could not do comes through the pipe.
    ///
    /// Not by `Command::spawn`, which says the pid only when the child is the program, and reaps
    /// it itself when it never is.
    fn fork(&self, command: &mut Command, streams: [RawFd; 3]) -> io::Result<(Child, PipeReader)> {
        let mut table = self.table();
        // Made and closed under the lock: no other child has it.
        let (refusal, mut refuse) = io::pipe()?;
        let [stdin, stdout, stderr] = streams;
        let kept = [stdin, stdout, stderr, refuse.as_raw_fd()];
        // SAFETY: in the child only system calls follow, `exec` and the search for the program, which
        // allocate, as glibc permits after its fork, and `_exit`. The table's lock, which is held
        // there, is not touched.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            close_all_but(kept);
            let error = command.exec();
            let number = match error.raw_os_error() {
                Some(libc::ENOENT) if is_there(command) => NO_INTERPRETER,
                number => number.unwrap_or(0),
            };
            let _ = refuse.write_all(&number.to_ne_bytes());
            // SAFETY: ends the process, without what its parent wants done at its own end.
            unsafe { libc::_exit(127) }
        }
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        let serial = table.serial;
        table.serial += 1;
        table.running.insert(pid, (serial, Stage::Starting));
        self.started.notify_all();
        Ok((Child { pid, serial }, refusal))
    }

    /// Signals the command's process group, if it has not ended.
    pub(super) fn signal(&self, child: Child, number: i32) {
        let mut table = self.table();
        if let (Some(_), Some(group), Some(signal)) =
            (table.stage(child), Pid::from_raw(child.pid), Signal::from_named_raw(number))
        {
            let _ = kill_process_group(group, signal);
        }
    }

    /// The pids of all commands that run or start.
    pub(super) fn running(&self) -> BTreeSet<i32> {
        self.table().running.keys().copied().collect()
    }

    /// Kills a command whose client has gone, if it still runs. The client's connection is not
    /// the reaper's any more.
    pub(super) fn abandon(&self, child: Child) {
        let mut table = self.table();
        let Some(stage) = table.stage(child) else { return };
        let client = std::mem::replace(stage, Stage::Abandoned);
        if let Some(pid) = Pid::from_raw(child.pid) {
            // One that starts may have no group yet.
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = kill_process(pid, Signal::KILL);
        }
        drop(table);
        drop(client);
    }

    /// Reaps for ever. Each pid is told to `has_ended`, as it may be another's soon.
    pub(super) fn reap(&self, has_ended: &dyn Fn(i32)) {
        loop {
            let Some(pid) = next_zombie() else {
                // No child at all, and orphans come only from children.
                let table = self.table();
                let _unused = self
                    .started
                    .wait_while(table, |table| table.running.is_empty())
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let mut table = self.table();
            let Ok(Some((_, status))) = waitpid(Some(pid), WaitOptions::NOHANG) else { continue };
            let pid = pid.as_raw_nonzero().get();
            has_ended(pid);
            match table.running.remove(&pid) {
                Some((_, Stage::Running(client))) => {
                    drop(table);
                    let _ = proto::send(&client, &Reply::Ended(end_of(status)), &[]);
                }
                // Taken out by who waits for it.
                Some((serial, Stage::Starting)) => {
                    table.ended.insert(serial, end_of(status));
                }
                Some((_, Stage::Abandoned)) | None => {}
            }
        }
    }
}

/// In a child that has not become a command: whether the program is there, so that it was its
/// interpreter or its loader that was not found. The child looks, as its files may not answer.
fn is_there(command: &Command) -> bool {
    let path = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
    find_in(command.get_program(), path, is_executable).is_some()
}

/// In a child that is to become a command: what others have open must not stay so while it cannot.
fn close_all_but(mut kept: [RawFd; 4]) {
    kept.sort_unstable();
    let mut first = 3;
    for fd in kept.map(|fd| fd as u32).into_iter().chain([u32::MAX]) {
        if first < fd {
            // SAFETY: closes descriptors of this process, which is about to be another program and
            // uses none of them. A kernel that knows no such call leaves them to `exec`.
            unsafe { libc::syscall(libc::SYS_close_range, first, fd - 1, 0) };
        }
        first = first.max(fd.saturating_add(1));
    }
}

fn end_of(status: WaitStatus) -> End {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => End::Status(code),
        (None, signal) => End::Signal(signal.unwrap_or(0)),
    }
}

/// Waits until a child is its program, or has ended: its end of the pipe is closed then.
fn wait_for_program(mut refusal: PipeReader) -> io::Result<()> {
    let patience = Timespec::try_from(START_PATIENCE).ok();
    loop {
        let mut fds = [PollFd::new(&refusal, PollFlags::IN)];
        match poll(&mut fds, patience.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => break,
        }
    }
    let mut number = [0; 4];
    match refusal.read_exact(&mut number) {
        Ok(()) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(number))),
        Err(_) => Ok(()),
    }
}

/// Waits for a child to end, and leaves it to be reaped.
fn next_zombie() -> Option<Pid> {
    loop {
        // SAFETY: a zeroed siginfo is valid to pass and is written by the kernel.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` outlives the call, which only writes to it.
        let outcome =
            unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, libc::WEXITED | libc::WNOWAIT) };
        if outcome == 0 {
            // SAFETY: after success, waitid has filled in the pid.
            return Pid::from_raw(unsafe { info.si_pid() });
        }
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_had_a_pid_before_does_not_signal_who_has_it_now() {
        let children = Children::default();
        let streams = [0, 1, 2];
        let mut command = Command::new("sleep");
        let (child, refusal) = children.fork(command.arg("60").process_group(0), streams).unwrap();
        wait_for_program(refusal).unwrap();
        let (client, _peer) = UnixStream::pair().unwrap();
        *children.table().stage(child).unwrap() = Stage::Running(Arc::new(client));
        let pid = Pid::from_raw(child.pid).unwrap();

        let before = Child { serial: child.serial.wrapping_sub(1), ..child };
        children.signal(before, libc::SIGKILL);
        children.abandon(before);
        assert!(matches!(children.table().stage(child), Some(Stage::Running(_))));
        children.signal(child, libc::SIGTERM);
        let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.terminating_signal(), Some(libc::SIGTERM), "it was signalled before");
    }
}
