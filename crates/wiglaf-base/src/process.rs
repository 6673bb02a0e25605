//! Processes that are named across time: by pid and start time, and signalled
//! through a pidfd, so that a recycled pid is never hit.

use std::os::fd::OwnedFd;
use std::str::SplitAsciiWhitespace;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Result};

/// One process, for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its pid in the namespace of whoever made the cluster.
    pub pid: i32,
    /// When it started, in clock ticks since the machine did.
    pub start_ticks: u64,
}

impl Process {
    /// Names the process that has this pid now.
    ///
    /// # Errors
    /// When there is none.
    pub fn identify(pid: i32) -> Result<Self> {
        let start_ticks =
            start_ticks(pid).ok_or_else(|| Error::new(format!("process {pid} has ended")))?;
        Ok(Self { pid, start_ticks })
    }

    /// A descriptor of the process, if it still runs.
    #[must_use]
    pub fn open(self) -> Option<OwnedFd> {
        let fd = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Asked after opening: the descriptor then means the process compared.
        (start_ticks(self.pid) == Some(self.start_ticks)).then_some(fd)
    }

    /// Whether it still runs. One that is ending does not: the init of a node has closed its sockets
    /// then, but is there until the last process of the node has ended.
    #[must_use]
    pub fn is_alive(self) -> bool {
        let open = self.open().filter(|fd| !has_ended(fd, Duration::ZERO));
        open.is_some() && !is_ending(self.pid)
    }

    /// Kills it and waits for its end.
    ///
    /// # Errors
    /// When this is not permitted, or it does not end in time.
    pub fn kill(self, patience: Duration) -> Result<()> {
        let Some(fd) = self.open() else { return Ok(()) };
        match pidfd_send_signal(&fd, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(error).cannot(|| format!("end process {}", self.pid)),
        }
        match has_ended(&fd, patience) {
            true => Ok(()),
            false => Err(Error::new(format!(
                "process {} does not end although it was killed; look at it with `ps -p {0}`",
                self.pid
            ))),
        }
    }
}

fn has_ended(pidfd: &OwnedFd, patience: Duration) -> bool {
    let timeout = Timespec::try_from(patience).ok();
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0)
}

/// When the process started.
fn start_ticks(pid: i32) -> Option<u64> {
    stat_field(pid, 22)?.parse().ok()
}

/// Whether the kernel is taking the process apart.
fn is_ending(pid: i32) -> bool {
    /// `PF_EXITING` in the kernel's include/linux/sched.h.
    const EXITING: u32 = 4;
    let flags = stat_field(pid, 9).and_then(|flags| flags.parse::<u32>().ok());
    flags.is_none_or(|flags| flags & EXITING != 0)
}

/// A field of /proc/PID/stat by its number in proc_pid_stat(5), from 3.
fn stat_field(pid: i32, number: usize) -> Option<String> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    stat_fields(&stat)?.nth(number - 3).map(str::to_owned)
}

/// The fields of /proc/PID/stat from the third on, the state.
#[must_use]
pub fn stat_fields(stat: &[u8]) -> Option<SplitAsciiWhitespace<'_>> {
    // The name before the last bracket may hold anything.
    let behind_name = stat.iter().rposition(|b| *b == b')')? + 1;
    Some(std::str::from_utf8(&stat[behind_name..]).ok()?.split_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_the_very_process_is_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::identify(child.id().try_into().unwrap()).unwrap();
        assert!(process.is_alive());

        let other = Process { start_ticks: process.start_ticks + 1, ..process };
        assert!(!other.is_alive());
        other.kill(Duration::from_secs(1)).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "a recycled pid was killed");

        process.kill(Duration::from_secs(10)).unwrap();
        assert!(is_ending(process.pid), "it waits for its parent");
        assert!(!child.wait().unwrap().success());
        assert!(is_ending(process.pid), "it is gone");
        assert!(!process.is_alive());
    }
}
