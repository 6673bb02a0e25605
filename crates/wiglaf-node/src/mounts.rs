//! The mounts that `wiglaf mount` has made, as the kernel's table has them.
//!
//! Here and not with who serves them, as the cluster's brooms find and remove
//! those whose server has died: a mount whose server is gone fails every call
//! with ENOTCONN until somebody takes it away.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::fusermount;

/// What the kernel's table calls them.
pub const KIND: &str = "fuse.wiglaf";
/// The table of this process's mount namespace; see proc_pid_mountinfo(5).
const TABLE: &str = "/proc/self/mountinfo";
/// As many links in a row are followed, as the kernel does.
const LINKS_MAX: usize = 40;
/// A mount that does not answer for so long lives, but is slow.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// Where.
    pub dir: PathBuf,
    /// The mount's own number.
    id: u64,
    /// Its number as a device, which no later mount has while this one is used.
    device: Vec<u8>,
}

impl Mounted {
    /// Those in this process's mount namespace, where one hides another the
    /// last alone.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub fn all() -> io::Result<Vec<Self>> {
        Ok(parse(&fs::read(TABLE)?))
    }

    /// The one at `dir`, found without looking into it, so that a dead one is
    /// found as well.
    ///
    /// # Errors
    /// When the folder above it, or the table, cannot be read.
    pub fn at(dir: &Path) -> io::Result<Option<Self>> {
        let dir = resolved(dir)?;
        Ok(Self::all()?.into_iter().find(|mounted| mounted.dir == dir))
    }

    /// Whether its server has gone. One that is merely slow has not, and of other users' mounts the
    /// kernel says no such thing: their owners take them away. To ask as the owner would give a user's
    /// own file system a say in what root does.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        let (tell, told) = mpsc::channel();
        let dir = self.dir.clone();
        // Who asks may hang with it: then the thread does so alone.
        let asked = std::thread::Builder::new().spawn(move || {
            let dead = matches!(rustix::fs::statfs(&dir), Err(Errno::NOTCONN | Errno::CONNABORTED));
            let _ = tell.send(dead);
        });
        asked.is_ok() && told.recv_timeout(ANSWER_LIMIT) == Ok(true)
    }

    /// Takes it away at once; what is open in it fails from then on if it is dead.
    ///
    /// # Errors
    /// Those of [`fusermount::unmount`].
    pub fn detach(&self) -> io::Result<()> {
        fusermount::unmount(&self.dir, UnmountFlags::DETACH)
    }

    /// Whether it is in this process's mount namespace, wherever by now: a folder
    /// above it may have another name, and something may be mounted over it.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub fn is_there(&self) -> io::Result<bool> {
        Ok(self.now()?.is_some())
    }

    /// Where it is by now; nothing if it is gone, or something else is seen there.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub fn seen_at(&self) -> io::Result<Option<PathBuf>> {
        let is_seen = |dir: &PathBuf| {
            // What serves it may hang or be gone: nothing is asked of it.
            let flags = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW;
            let found = statx(CWD, dir, flags, StatxFlags::MNT_ID);
            // Before Linux 5.8 the kernel does not say.
            let is_told =
                |mask: u32| StatxFlags::from_bits_retain(mask).contains(StatxFlags::MNT_ID);
            found.is_ok_and(|found| !is_told(found.stx_mask) || found.stx_mnt_id == self.id)
        };
        Ok(self.now()?.filter(is_seen))
    }

    fn now(&self) -> io::Result<Option<PathBuf>> {
        let table = fs::read(TABLE)?;
        let same = |line: &Line<'_>| (line.id, line.device) == (self.id, &self.device[..]);
        Ok(lines(&table).find(same).map(|line| line.dir))
    }

    /// Returns when it is no longer in this process's mount namespace.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub fn wait_until_gone(&self) -> io::Result<()> {
        let table = File::open(TABLE)?;
        // The kernel says when the table has changed; the limit is for a change
        // between reading it and waiting.
        let limit = Timespec { tv_sec: 1, tv_nsec: 0 };
        while self.is_there()? {
            let _ = poll(&mut [PollFd::new(&table, PollFlags::PRI)], Some(&limit));
        }
        Ok(())
    }
}

/// Takes away the dead ones in this process's mount namespace; answers where
/// they were.
#[must_use]
pub fn remove_dead() -> Vec<PathBuf> {
    let all = Mounted::all().unwrap_or_default();
    let dead = all.into_iter().filter(|mounted| mounted.is_dead() && mounted.detach().is_ok());
    dead.map(|mounted| mounted.dir).collect()
}

/// Takes away what lies below `dir`, alive or not: a copy of the machine's
/// mounts that came with a shared folder. It would keep a mount alive that
/// its owner has taken away.
pub fn detach_copies(dir: &Path) {
    for mounted in Mounted::all().unwrap_or_default() {
        if mounted.dir.starts_with(dir) {
            let _ = mounted.detach();
        }
    }
}

/// Whether the device of a file, as stat(2) has it, is a mount of Wiglaf's.
///
/// # Errors
/// When the table cannot be read.
pub fn is_device(dev: u64) -> io::Result<bool> {
    let device = format!("{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev)).into_bytes();
    Ok(lines(&fs::read(TABLE)?).any(|line| line.is_ours && line.device == device))
}

/// A line of the table.
struct Line<'a> {
    id: u64,
    device: &'a [u8],
    dir: PathBuf,
    is_ours: bool,
}

fn lines(table: &[u8]) -> impl Iterator<Item = Line<'_>> {
    table.split(|b| *b == b'\n').filter_map(|line| {
        let mut fields = line.split(|b| *b == b' ');
        let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let (device, dir) = (fields.nth(1)?, unescape(fields.nth(1)?));
        let is_ours = fields.skip_while(|field| *field != b"-").nth(1) == Some(KIND.as_bytes());
        Some(Line { id, device, dir, is_ours })
    })
}

pub(crate) fn parse(table: &[u8]) -> Vec<Mounted> {
    let mut found: Vec<Mounted> = Vec::new();
    for Line { id, device, dir, is_ours } in lines(table) {
        // The last of several mounts at one place is the one that is seen.
        found.retain(|earlier| earlier.dir != dir);
        if is_ours {
            found.push(Mounted { dir, id, device: device.to_vec() });
        }
    }
    found
}

/// The path without links, which does not look at what it names.
fn resolved(dir: &Path) -> io::Result<PathBuf> {
    let mut path: PathBuf = std::path::absolute(dir)?.components().collect();
    for _ in 0..LINKS_MAX {
        let (Ok(target), Some(parent)) = (fs::read_link(&path), path.parent()) else { break };
        path = parent.join(target).components().collect();
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if name.as_bytes() != b".." => {
            Ok(parent.canonicalize()?.join(name))
        }
        _ => path.canonicalize(),
    }
}

/// The table has blanks and the like as three octal digits.
#[must_use]
pub fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = (first == b'\\').then(|| tail.get(..3)).flatten();
        let value = octal
            .and_then(|o| std::str::from_utf8(o).ok())
            .and_then(|o| u8::from_str_radix(o, 8).ok());
        bytes.push(value.unwrap_or(first));
        rest = if value.is_some() { &tail[3..] } else { tail };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &[u8] = b"\
22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
40 22 0:51 / /mnt/a\\040b rw,nosuid - fuse.wiglaf node2:/scratch rw,user_id=0
41 22 0:52 / /mnt/c rw shared:2 master:3 - fuse.wiglaf node3:/scratch rw
42 22 0:53 / /mnt/c rw - tmpfs tmpfs rw
43 22 0:54 / /mnt/d rw - fuse.sshfs node3:/scratch rw
44 22 0:55 / /mnt/a\\040b rw - fuse.wiglaf node3:/scratch rw
";

    #[test]
    fn ours_are_found_in_the_table_and_hidden_ones_are_not() {
        let found = parse(SAMPLE);
        let expected = Mounted { dir: "/mnt/a b".into(), id: 44, device: b"0:55".to_vec() };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn mountinfo_is_unescaped() {
        assert_eq!(unescape(br"/a\040b\134"), Path::new(r"/a b\"));
        assert_eq!(unescape(br"/a\9"), Path::new(r"/a\9"));
        assert_eq!(unescape(br"/a\04"), Path::new(r"/a\04"));
    }

    #[test]
    fn a_common_folder_is_no_mount_of_ours() {
        assert_eq!(Mounted::at(Path::new("/")).unwrap(), None);
        assert_eq!(Mounted::at(Path::new("/proc")).unwrap(), None);
        assert!(Mounted::at(Path::new("/no/such")).is_err());
    }
}
