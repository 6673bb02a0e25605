//! What a command on a node takes over from whoever asks for it, beside the environment: as a child of
//! that process would, and as ssh does not.

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use serde::{Deserialize, Serialize};

/// All that Linux has, in the order of getrlimit(2)'s numbers.
const RESOURCES: [Resource; 16] = [
    Resource::Cpu,
    Resource::Fsize,
    Resource::Data,
    Resource::Stack,
    Resource::Core,
    Resource::Rss,
    Resource::Nproc,
    Resource::Nofile,
    Resource::Memlock,
    Resource::As,
    Resource::Locks,
    Resource::Sigpending,
    Resource::Msgqueue,
    Resource::Nice,
    Resource::Rtprio,
    Resource::Rttime,
];
/// Files of a process that does not say what others may do with them.
const UMASK: u32 = 0o022;

/// A file mode creation mask, and resource limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inherited {
    umask: u32,
    /// Soft and hard limit of each resource; none is no limit.
    limits: Vec<(Option<u64>, Option<u64>)>,
}

impl Default for Inherited {
    fn default() -> Self {
        Self { umask: UMASK, limits: Vec::new() }
    }
}

impl Inherited {
    /// Those of this process.
    #[must_use]
    pub fn own() -> Self {
        let limit = |resource| {
            let Rlimit { current, maximum } = getrlimit(resource);
            (current, maximum)
        };
        // Asking by umask(2) would change it for other threads meanwhile.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        let umask = umask.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok());
        Self { umask: umask.unwrap_or(UMASK), limits: RESOURCES.map(limit).to_vec() }
    }

    /// Makes them this process's, which may have so many descriptors. No limit is raised beyond the
    /// hard one that this process has: who asks is not trusted. System calls only, and nothing is
    /// allocated.
    pub(crate) fn apply(&self, descriptors: &Rlimit) -> rustix::io::Result<()> {
        umask(Mode::from_raw_mode(self.umask & 0o777));
        setrlimit(Resource::Nofile, *descriptors)?;
        for (resource, (soft, hard)) in RESOURCES.into_iter().zip(&self.limits) {
            let maximum = least(*hard, getrlimit(resource).maximum);
            setrlimit(resource, Rlimit { current: least(*soft, maximum), maximum })?;
        }
        Ok(())
    }
}

/// The lower of two limits; none is no limit.
fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_limit_holds() {
        assert_eq!(least(None, None), None);
        assert_eq!(least(Some(1), None), Some(1));
        assert_eq!(least(None, Some(2)), Some(2));
        assert_eq!(least(Some(3), Some(2)), Some(2));
    }

    #[test]
    fn all_that_the_kernel_lists_is_taken_over() {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        assert_eq!(limits.lines().count() - 1, RESOURCES.len());
        let own = Inherited::own();
        let stack = own.limits[libc::RLIMIT_STACK as usize];
        assert_eq!(stack, (getrlimit(Resource::Stack).current, getrlimit(Resource::Stack).maximum));
        assert_eq!(own.limits.len(), RESOURCES.len());
    }
}
