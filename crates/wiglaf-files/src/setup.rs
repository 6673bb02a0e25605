//! What a server sets for its process before it serves.

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A client's mode is the client's own to mask, a limit on file lengths
/// is an errno, not the end of the server, and a client's open files are limited by
/// the protocol, not by what suits programs that select(2).
pub(crate) fn prepare_server() {
    rustix::process::umask(Mode::empty());
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, who opens too many files is told so sooner.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    // SAFETY: ignoring a signal runs no handler, and nothing here relies on it.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// The mask of this process, which only /proc tells without changing it.
pub(crate) fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}
