//! Who asks a server for something, as the kernel knows them, and becoming them.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Most supplementary groups that Linux knows.
const GROUPS_MAX: usize = 65_536;

/// Who is on the other side.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) uid: u32,
    pub(super) gid: u32,
    groups: Vec<libc::gid_t>,
}

impl Caller {
    /// As the kernel knows them.
    pub(super) fn of(stream: &UnixStream) -> io::Result<Self> {
        // Not by rustix: it takes no pid 0, which is what a process outside of
        // our PID namespace has.
        let mut credentials = [libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX }];
        let [libc::ucred { uid, gid, .. }] =
            match peer_option(stream, libc::SO_PEERCRED, &mut credentials)? {
                len if len == size_of_val(&credentials) => credentials,
                _ => return Err(io::ErrorKind::InvalidData.into()),
            };
        Ok(Self { uid, gid, groups: peer_groups(stream)? })
    }

    /// In the new process, before it becomes the command: a session of its
    /// own, and the caller's identity, which it has already if this is not root's.
    pub(super) fn become_caller(&self, terminal: bool, is_root: bool) -> io::Result<()> {
        let check = |outcome: libc::c_int| match outcome {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        };
        // SAFETY: plain system calls; `groups` is borrowed for their whole duration.
        // The order matters: the identity goes last.
        unsafe {
            check(libc::setsid())?;
            if terminal {
                check(libc::ioctl(0, libc::TIOCSCTTY, 0))?;
            }
            if is_root {
                check(libc::setgroups(self.groups.len(), self.groups.as_ptr()))?;
                check(libc::setgid(self.gid))?;
                check(libc::setuid(self.uid))?;
            }
        }
        leave_keys()
    }
}

/// Gives this thread and what it starts a session keyring of their own, in place of that of whoever
/// started it. Makes one system call.
///
/// # Errors
/// Those of keyctl(2), but none where there are no keys.
pub fn leave_keys() -> io::Result<()> {
    // SAFETY: the call takes a number and no name, and touches no memory of ours.
    let outcome = unsafe {
        libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<u8>())
    };
    match outcome {
        -1 => match io::Error::last_os_error() {
            // No keys in this kernel, or none in this container: then there is nothing to leave.
            error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => Ok(()),
            error => Err(error),
        },
        _ => Ok(()),
    }
}

/// The supplementary groups of whoever connected.
fn peer_groups(stream: &UnixStream) -> io::Result<Vec<libc::gid_t>> {
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        match peer_option(stream, libc::SO_PEERGROUPS, &mut groups) {
            Ok(len) => {
                groups.truncate(len / size_of::<libc::gid_t>());
                return Ok(groups);
            }
            Err(error)
                if error.raw_os_error() == Some(libc::ERANGE) && groups.len() < GROUPS_MAX =>
            {
                groups.resize(GROUPS_MAX, 0);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Reads a socket option that consists of integers; says how many bytes came.
fn peer_option<T: Copy>(
    stream: &UnixStream,
    option: libc::c_int,
    into: &mut [T],
) -> io::Result<usize> {
    let mut len = size_of_val(into) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `into`, and both
    // callers pass types that any bytes are valid for.
    let outcome = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            into.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    match outcome {
        0 => Ok(len as usize),
        _ => Err(io::Error::last_os_error()),
    }
}
