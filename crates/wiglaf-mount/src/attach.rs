//! Putting the file system into the tree, and taking it away: mount(2) with a
//! connection to /dev/fuse, which another process may serve. Who is not root has
//! fusermount3 do both, as all FUSE file systems have.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use wiglaf_cluster::mounts::KIND;

const DEVICE: &str = "/dev/fuse";
/// Of Debian's package fuse3; setuid root.
const HELPER: &str = "fusermount3";

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
    let fuse = File::options().read(true).write(true).open(DEVICE);
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
    let mut command = helper(&["-o".as_ref(), options.as_ref(), "--".as_ref(), dir.as_os_str()]);
    // Its standard input is the one descriptor that a child is sure to have.
    command.env("_FUSE_COMMFD", "0").stdin(Stdio::from(OwnedFd::from(theirs)));
    run(command)?;
    received(&ours).map_err(|error| format!("{HELPER} gave no connection: {error}"))
}

/// In its list of options.
fn escaped(c: char) -> impl Iterator<Item = char> {
    matches!(c, ',' | '\\').then_some('\\').into_iter().chain(Some(c))
}

fn helper(args: &[&OsStr]) -> Command {
    let mut command = Command::new(HELPER);
    command.args(args).env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Its complaint, if it fails, less its name.
fn run(mut command: Command) -> Result<(), String> {
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            format!("only root may, where {HELPER} is not installed (package fuse3)")
        }
        _ => format!("cannot start {HELPER}: {error}"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().trim_start_matches(HELPER).trim_start_matches(':').trim();
    Err(match said {
        "" => format!("{HELPER} failed"),
        said if said.contains(DEVICE) && said.ends_with("Permission denied") => {
            format!("{said}; root lets others have it by `chmod 666 {DEVICE}`")
        }
        said => said.to_owned(),
    })
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
    match taken_away(dir, UnmountFlags::empty()) {
        Err(error) if lazily && is_busy(&error) => {
            taken_away(dir, UnmountFlags::DETACH)?;
            Ok(Unmounted::WhenUnused)
        }
        other => other.map(|()| Unmounted::Wholly),
    }
}

fn is_busy(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::BUSY)
}

fn taken_away(dir: &Path, how: UnmountFlags) -> io::Result<()> {
    // What serves it may hang or be gone: nothing in the mount itself is asked.
    match rustix::mount::unmount(dir, how | UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => {
            let mut args: Vec<OsString> = vec!["-u".into()];
            args.extend((how == UnmountFlags::DETACH).then(|| "-z".into()));
            args.extend(["--".into(), dir.into()]);
            let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
            run(helper(&args)).map_err(|said| match said.ends_with("Device or resource busy") {
                true => Errno::BUSY.into(),
                false => io::Error::other(said),
            })
        }
        other => Ok(other?),
    }
}
