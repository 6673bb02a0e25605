//! What this process may use of its machine, and may do on it.

use std::fs;

use rustix::thread::sched_getaffinity;

const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// The cores that this process may use.
#[must_use]
pub fn cores() -> Vec<usize> {
    let set = sched_getaffinity(None);
    set.map(|set| (0..1024).filter(|i| set.is_set(*i)).collect()).unwrap_or_default()
}

/// What this machine calls itself.
#[must_use]
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Whether this process is root's.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this process can make namespaces.
#[must_use]
pub fn has_privilege() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    let needed = CAP_NET_ADMIN | CAP_SYS_ADMIN;
    effective & needed == needed
}
