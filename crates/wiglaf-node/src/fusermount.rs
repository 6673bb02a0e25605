//! fusermount3, which mounts and unmounts FUSE file systems for those who are not root. It is setuid
//! root, and checks what is asked of it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

/// Of Debian's package fuse3.
pub const NAME: &str = "fusermount3";
/// Where connections of mounts come from.
pub const DEVICE: &str = "/dev/fuse";

/// A call of it, for [`run`].
#[must_use]
pub fn command(args: &[&OsStr]) -> Command {
    let mut command = Command::new(NAME);
    command.args(args).env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Runs it to its end.
///
/// # Errors
/// Its complaint, less its name; or that it is not installed.
pub fn run(mut command: Command) -> Result<(), String> {
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            format!("only root may, where {NAME} is not installed (package fuse3)")
        }
        _ => format!("cannot start {NAME}: {error}"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(match said.trim().trim_start_matches(NAME).trim_start_matches(':').trim() {
        "" => format!("{NAME} failed"),
        said if said.contains(DEVICE) && said.ends_with("Permission denied") => {
            format!("{said}; root lets others have it by `chmod 666 {DEVICE}`")
        }
        said => said.to_owned(),
    })
}

/// Takes a mount away, `how` being nothing or `DETACH`; by itself where it may.
///
/// # Errors
/// Those of umount2(2), EBUSY among them, or in the words of fusermount3.
pub fn unmount(dir: &Path, how: UnmountFlags) -> io::Result<()> {
    // What serves it may hang or be gone: nothing in the mount itself is asked.
    match rustix::mount::unmount(dir, how | UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => {
            let mut args: Vec<OsString> = vec!["-u".into()];
            args.extend((how == UnmountFlags::DETACH).then(|| "-z".into()));
            args.extend(["--".into(), dir.into()]);
            let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
            run(command(&args)).map_err(|said| match said.ends_with("Device or resource busy") {
                true => Errno::BUSY.into(),
                false => io::Error::other(said),
            })
        }
        other => Ok(other?),
    }
}
