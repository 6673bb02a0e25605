//! Putting the file system into the tree, and taking it away: mount(2) with a
//! connection to /dev/fuse, which another process may serve.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use wiglaf_cluster::mounts::KIND;

/// How a mount went away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmounted {
    /// Nothing used it.
    Wholly,
    /// Its name is gone; files that are open in it keep it until they are closed.
    WhenUnused,
}

/// Mounts at `dir` and answers the connection that its requests come from.
/// When that is closed, every call on the mount fails with ENOTCONN.
///
/// # Errors
/// With the cause in words: no /dev/fuse, no right to mount, no such folder.
pub fn connect(source: &str, dir: &Path) -> Result<OwnedFd, String> {
    let device = "/dev/fuse";
    let fuse = File::options().read(true).write(true).open(device).map_err(|error| {
        let mend = match error.kind() {
            io::ErrorKind::PermissionDenied => "only root may mount (CAP_SYS_ADMIN)",
            _ => "load the kernel's module fuse (`modprobe fuse`)",
        };
        format!("cannot open {device}: {error}; {mend}")
    })?;
    // Without `default_permissions` it is the server that grants or denies, as
    // the one user who can get at the mount: asking for a file's mode before
    // each step of a path would only repeat that.
    let data = format!(
        "fd={},rootmode=40000,user_id={},group_id={}",
        fuse.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let cannot = |why: String| format!("cannot mount on {}: {why}", dir.display());
    let data = CString::new(data).map_err(|error| cannot(error.to_string()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount(source, dir, KIND, flags, Some(data.as_c_str())).map_err(|errno| {
        cannot(match errno {
            Errno::PERM => "only root may mount (CAP_SYS_ADMIN)".to_owned(),
            Errno::NODEV => "this kernel has no FUSE; load its module fuse".to_owned(),
            errno => io::Error::from(errno).to_string(),
        })
    })?;
    Ok(fuse.into())
}

/// Takes a mount away. `lazily` also while it is in use.
///
/// # Errors
/// Those of umount2(2), EBUSY among them unless `lazily`.
pub fn unmount(dir: &Path, lazily: bool) -> io::Result<Unmounted> {
    // What serves it may hang or be gone: nothing in the mount itself is asked.
    let flags = UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(dir, flags) {
        Err(Errno::BUSY) if lazily => {
            rustix::mount::unmount(dir, flags | UnmountFlags::DETACH)?;
            Ok(Unmounted::WhenUnused)
        }
        other => Ok(other.map(|()| Unmounted::Wholly)?),
    }
}
