//! The commands that an init has started, and what else it has to reap.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};

use crate::proto::{self, End, Reply};

/// The running commands, each with the connection that waits for its end.
///
/// Invariant: a pid in the table has not been reaped, so it and its process
/// group are still those of the command.
#[derive(Debug, Default)]
pub(super) struct Children {
    running: Mutex<HashMap<i32, Arc<UnixStream>>>,
    started: Condvar,
}

impl Children {
    fn table(&self) -> MutexGuard<'_, HashMap<i32, Arc<UnixStream>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a command whose end is reported to `client`.
    pub(super) fn spawn(
        &self,
        command: &mut Command,
        client: Arc<UnixStream>,
    ) -> std::io::Result<i32> {
        // Held over the start: a command that ends at once is in the table by then.
        let mut table = self.table();
        let pid = command.spawn()?.id() as i32;
        // Said before the reaper can say that it has ended.
        let _ = proto::send(&client, &Reply::Started, &[]);
        table.insert(pid, client);
        self.started.notify_all();
        Ok(pid)
    }

    /// Signals the command's process group, if it has not ended.
    pub(super) fn signal(&self, pid: i32, number: i32) {
        let table = self.table();
        if let (true, Some(group), Some(signal)) =
            (table.contains_key(&pid), Pid::from_raw(pid), Signal::from_named_raw(number))
        {
            let _ = kill_process_group(group, signal);
        }
    }

    /// Does something with the pids of all running commands, while none starts.
    pub(super) fn with_running<T>(
        &self,
        work: impl FnOnce(&mut dyn Iterator<Item = i32>) -> T,
    ) -> T {
        let table = self.table();
        work(&mut table.keys().copied())
    }

    /// Kills a command whose client has gone. Says whether it was still running.
    pub(super) fn abandon(&self, pid: i32) -> bool {
        let table = self.table();
        let runs = table.contains_key(&pid);
        if let (true, Some(group)) = (runs, Pid::from_raw(pid)) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        runs
    }

    /// Reaps for ever.
    pub(super) fn reap(&self) {
        loop {
            let Some(pid) = next_zombie() else {
                // No child at all, and orphans come only from children.
                let table = self.table();
                let _unused = self
                    .started
                    .wait_while(table, |table| table.is_empty())
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let mut table = self.table();
            // A command that could not be executed was reaped by its starter.
            let Ok(Some((_, status))) = waitpid(Some(pid), WaitOptions::NOHANG) else { continue };
            let Some(client) = table.remove(&pid.as_raw_nonzero().get()) else { continue };
            drop(table);
            let end = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => End::Status(code),
                (None, signal) => End::Signal(signal.unwrap_or(0)),
            };
            let _ = proto::send(&client, &Reply::Ended(end), &[]);
        }
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
