//! Putting the file system into the tree, and taking it away: mount(2) with a
//! connection to /dev/fuse, which another process may serve. Who is not root has
//! fusermount3 do both, as all FUSE file systems have.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use wiglaf_node::fusermount;
use wiglaf_node::mounts::KIND;

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
    let cannot = |why: &str| format!("cannot mount on {}: {why}", dir.display());
    match directly(source, dir) {
        Ok(fuse) => Ok(fuse),
        Err(Errno::PERM | Errno::ACCESS) => by_helper(source, dir).map_err(|why| cannot(&why)),
        Err(Errno::NOENT | Errno::NODEV | Errno::NXIO) if dir.exists() => {
            Err(cannot("this kernel has no FUSE; load its module (`modprobe fuse`)"))
        }
        Err(errno) => Err(cannot(&io::Error::from(errno).to_string())),
    }
}

/// As root can.
fn directly(source: &str, dir: &Path) -> rustix::io::Result<OwnedFd> {
    let fuse = File::options().read(true).write(true).open(fusermount::DEVICE);
    let fuse = fuse.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    // Without `default_permissions` it is the server that grants or denies, as
    // the one user who can get at the mount: asking for a file's mode before
    // each step of a path would only repeat that.
    let data = format!(
        "fd={},rootmode=40000,user_id={},group_id={}",
        fuse.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount(source, dir, KIND, flags, Some(data.as_c_str()))?;
    Ok(fuse.into())
}

/// As everybody can, on folders that they may write to. The connection comes over a socket; see
/// fusermount3(1), and `_FUSE_COMMFD` in libfuse's lib/mount.c.
fn by_helper(source: &str, dir: &Path) -> Result<OwnedFd, String> {
    let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
    let kind = KIND.strip_prefix("fuse.").unwrap_or(KIND);
    let name: String = source.chars().flat_map(escaped).collect();
    let options = format!("fsname={name},subtype={kind}");
    let mut command =
        fusermount::command(&["-o".as_ref(), options.as_ref(), "--".as_ref(), dir.as_os_str()]);
    // Its standard input is the one descriptor that a child is sure to have.
    command.env("_FUSE_COMMFD", "0").stdin(Stdio::from(OwnedFd::from(theirs)));
    fusermount::run(command)?;
    received(&ours).map_err(|error| format!("{} gave no connection: {error}", fusermount::NAME))
}

/// In its list of options.
fn escaped(c: char) -> impl Iterator<Item = char> {
    matches!(c, ',' | '\\').then_some('\\').into_iter().chain(Some(c))
}

fn received(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let fuse = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    fuse.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Takes a mount away. `lazily` also while it is in use.
///
/// # Errors
/// Those of umount2(2), EBUSY among them unless `lazily`.
pub fn unmount(dir: &Path, lazily: bool) -> io::Result<Unmounted> {
    match fusermount::unmount(dir, UnmountFlags::empty()) {
        Err(error) if lazily && is_busy(&error) => {
            fusermount::unmount(dir, UnmountFlags::DETACH)?;
            Ok(Unmounted::WhenUnused)
        }
        other => other.map(|()| Unmounted::Wholly),
    }
}

fn is_busy(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::BUSY)
}
