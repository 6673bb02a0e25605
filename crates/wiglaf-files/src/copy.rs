//! Copying a file from one node to another, so that an interrupted copy goes
//! on where it was and a finished one is known to be right.
//!
//! The bytes go to `NAME.wiglaf-part` beside the target, which gets its name
//! when all of it is on disk and has been read back. What lies under either name
//! is not believed: only files are replaced, and only such bytes are gone on
//! with as nobody else can have a hand in. CRC-32C (RFC 3720,
//! appendix B.4) tells whether both sides hold the same.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crc_fast::{CrcAlgorithm, Digest};
use rustix::io::Errno;

use crate::error::{Error, Reason, Result};
use crate::file::{File, SeekFrom};
use crate::node::Node;
use crate::setup::umask;
use crate::wire::Attributes;

/// Bytes that one call moves.
const CALL_LEN: usize = 1 << 20;
/// Bytes under way on each side.
const BUFFERED_LEN: usize = 4 << 20;
/// What the name of an unfinished copy ends with.
pub const PART: &str = ".wiglaf-part";
/// Longest name in bytes, as Linux limits it.
const NAME_LEN_MAX: usize = 255;
/// An unfinished copy whose name others change all the time is tried to be had so often.
const TRIES: usize = 64;
/// What this user needs to go on with an unfinished copy, whatever the source's mode is.
const OWN: u32 = 0o600;

/// A file on a node.
#[derive(Debug, Clone)]
pub struct Place {
    /// Which node.
    pub node: Node,
    /// Its path there.
    pub path: OsString,
}

/// What a copy is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Comparing what an earlier copy has left.
    Comparing,
    /// Copying.
    Copying,
    /// Reading the copy back.
    Verifying,
}

/// What a finished copy was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// Length of the file in bytes.
    pub len: u64,
    /// Bytes of it that were there from an earlier copy.
    pub resumed: u64,
    /// CRC-32C of the whole file.
    pub checksum: u32,
}

/// Copies a file. `progress` is told the stage, the bytes done and the bytes in all.
///
/// # Errors
/// Those of the calls; `EISDIR` or `EACCES` when source or target is no file, `EINVAL` when they are the same; `EBUSY` when another copy
/// to the same target is under way; `EIO` when the copy is not what was read, or the source changed its length meanwhile. The
/// unfinished copy stays, for the next attempt.
pub fn copy(
    from: &Place,
    to: &Place,
    verify: bool,
    progress: &mut dyn FnMut(Stage, u64, u64),
) -> Result<Copied> {
    if from.path.is_empty() || to.path.is_empty() {
        return Err(refused(Errno::NOENT, "the path is missing"));
    }
    let (source, about) = open_source(from)?;
    let to = target(from, to, &about)?;
    let part = part_of(&to.path);
    if to.node.attributes(&part, false).is_ok_and(|there| is_source(from, &about, &to, &there)) {
        let why = "the source has the name of the unfinished copy; give it another one";
        return Err(refused(Errno::INVAL, why));
    }
    let mode = about.mode & 0o777 & !umask();
    let copy = claim(&to.node, &part, mode | OWN)?;
    for file in [&source, &copy] {
        file.set_read_ahead(BUFFERED_LEN)?;
        file.set_write_behind(BUFFERED_LEN)?;
    }
    let (resumed, mut digest) = resume(&source, &copy, about.size, progress)?;
    copy.truncate(resumed)?;
    source.seek(SeekFrom::Start(resumed))?;
    copy.seek(SeekFrom::Start(resumed))?;
    let mut done = resumed;
    let mut bytes = vec![0; CALL_LEN];
    loop {
        progress(Stage::Copying, done, about.size);
        let got = source.read(&mut bytes)?;
        if got == 0 {
            break;
        }
        digest.update(&bytes[..got]);
        write_all(&copy, &bytes[..got])?;
        done += got as u64;
    }
    copy.sync(false)?;
    let checksum = digest.finalize() as u32;
    // What the kernel makes up when it is read, as in /proc and /sys, ends where it ends, whatever length
    // it is said to have.
    if done != about.size && source.attributes()?.size != about.size {
        return Err(wrong("the source changed its length while it was copied; copy it again"));
    }
    if verify && checksum_of(&copy, done, Stage::Verifying, progress)?.finalize() as u32 != checksum
    {
        to.node.unlink(&part)?;
        return Err(wrong("the copy is not what was read, and was removed; copy it again"));
    }
    if !is_named(&to.node, &part, &copy.attributes()?)? {
        return Err(wrong("the unfinished copy was taken away; copy it again"));
    }
    if mode | OWN != mode {
        copy.set_mode(mode)?;
    }
    // While it is still claimed: whoever opened it meanwhile finds that it has another name.
    to.node.rename(&part, &to.path)?;
    copy.close()?;
    Ok(Copied { len: done, resumed, checksum })
}

fn open_source(from: &Place) -> Result<(File, Attributes)> {
    // Without waiting for who writes to a pipe.
    let source = from.node.open(&from.path, libc::O_RDONLY | libc::O_NONBLOCK, 0)?;
    let about = source.attributes()?;
    match about.mode & libc::S_IFMT {
        libc::S_IFREG => Ok((source, about)),
        libc::S_IFDIR => Err(refused(Errno::ISDIR, "only files can be copied, not folders")),
        _ => {
            let why = "only files can be copied, not devices, pipes and sockets";
            Err(refused(Errno::ACCESS, why))
        }
    }
}

/// Opens the unfinished copy for this attempt alone.
fn claim(node: &Node, part: &OsStr, mode: u32) -> Result<File> {
    let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    for _ in 0..TRIES {
        let (copy, is_new) = match node.open(part, flags, 0) {
            Ok(copy) => (copy, false),
            Err(error) if error.errno() == libc::ENOENT => {
                match node.open(part, flags | libc::O_CREAT | libc::O_EXCL, mode) {
                    Ok(copy) => (copy, true),
                    Err(error) if error.errno() == libc::EEXIST => continue,
                    Err(error) => return Err(error),
                }
            }
            Err(error) => {
                remove_useless(node, part, error)?;
                continue;
            }
        };
        lock(&copy)?;
        let about = copy.attributes()?;
        // Between opening and locking it another copy may have finished with this file.
        if !is_named(node, part, &about)? {
            continue;
        }
        if is_new {
            return Ok(copy);
        }
        let is_file = about.mode & libc::S_IFMT == libc::S_IFREG;
        if is_file && is_own(&about) && about.links == 1 {
            if about.mode & 0o7777 != mode {
                copy.set_mode(mode)?;
            }
            return Ok(copy);
        }
        node.unlink(part)?;
    }
    Err(refused(Errno::BUSY, "others change the name of the unfinished copy all the time"))
}

/// Keeps other copies to the same target out.
fn lock(copy: &File) -> Result<()> {
    match copy.lock() {
        Err(error) if error.errno() == libc::EWOULDBLOCK => {
            let why = "another copy to the same target is under way; wait for its end";
            Err(refused(Errno::BUSY, why))
        }
        // Where there are no locks, nothing tells that others are here.
        Err(error) if [libc::ENOLCK, libc::ENOSYS, libc::EOPNOTSUPP].contains(&error.errno()) => {
            Ok(())
        }
        outcome => outcome,
    }
}

/// Takes away what could not be opened as an unfinished copy, unless that is the error.
fn remove_useless(node: &Node, part: &OsStr, error: Error) -> Result<()> {
    let Ok(there) = node.attributes(part, false) else { return Err(error) };
    match there.mode & libc::S_IFMT {
        libc::S_IFREG if error.errno() == libc::EACCES && !is_own(&there) => {
            // Who made it may be at it.
            let why = format!("{} is another user's; remove it", part.display());
            Err(refused(Errno::ACCESS, why))
        }
        libc::S_IFREG if error.errno() == libc::EACCES => node.unlink(part),
        libc::S_IFREG | libc::S_IFDIR => Err(error),
        _ => node.unlink(part),
    }
}

/// Whether this user made it: a node's server is that user, too.
fn is_own(about: &Attributes) -> bool {
    about.uid == rustix::process::geteuid().as_raw()
}

/// Whether a name is that of this open file itself.
fn is_named(node: &Node, name: &OsStr, about: &Attributes) -> Result<bool> {
    match node.attributes(name, false) {
        Ok(there) => Ok((there.dev, there.ino) == (about.dev, about.ino)),
        Err(error) if error.errno() == libc::ENOENT => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether what is there on the target's side is the source.
fn is_source(from: &Place, source: &Attributes, to: &Place, there: &Attributes) -> bool {
    let is_one_node = from.node.is_same(&to.node) || from.node.is_local() && to.node.is_local();
    is_one_node && (there.dev, there.ino) == (source.dev, source.ino)
}

/// What the copy is called until it is whole.
fn part_of(path: &OsStr) -> OsString {
    let path = path.as_bytes();
    let start = path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    let name = &path[start..];
    if name.len() + PART.len() <= NAME_LEN_MAX {
        return OsString::from_vec([path, PART.as_bytes()].concat());
    }
    // No room: a part of it, and a checksum that others with the same beginning do not have.
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(name);
    let end = format!("-{:08x}{PART}", digest.finalize());
    let kept = &path[..start + NAME_LEN_MAX - end.len()];
    OsString::from_vec([kept, end.as_bytes()].concat())
}

fn refused(errno: Errno, why: impl Into<String>) -> Error {
    Error::with_detail(errno, Reason::Kernel, why)
}

fn wrong(why: &str) -> Error {
    refused(Errno::IO, why)
}

/// Where the copy shall lie: in a folder it has its source's name. Only a file is replaced.
fn target(from: &Place, to: &Place, source: &Attributes) -> Result<Place> {
    let there = |path: &OsStr, follow| match to.node.attributes(path, follow) {
        Ok(about) => Ok(Some(about)),
        Err(error) if error.errno() == libc::ENOENT => Ok(None),
        Err(error) => Err(error),
    };
    let mut path = to.path.clone();
    if there(&path, true)?.is_some_and(|about| about.mode & libc::S_IFMT == libc::S_IFDIR) {
        let name = std::path::Path::new(&from.path).file_name();
        path.push("/");
        path.push(name.unwrap_or_else(|| OsStr::new("copy")));
    }
    let replaced = there(&path, false)?;
    let place = Place { node: to.node.clone(), path };
    let Some(replaced) = replaced else { return Ok(place) };
    let (errno, why) = match replaced.mode & libc::S_IFMT {
        libc::S_IFREG if is_source(from, source, to, &replaced) => {
            (Errno::INVAL, "source and target are the same file")
        }
        libc::S_IFREG => return Ok(place),
        libc::S_IFDIR => (Errno::ISDIR, "in the target's place is a folder"),
        libc::S_IFLNK => (Errno::ACCESS, "the target is a symbolic link; name what it leads to"),
        _ => (Errno::ACCESS, "the target is not a file but a device, a pipe or a socket"),
    };
    Err(refused(errno, why))
}

/// How much of an earlier copy can stay, and the checksum up to there.
fn resume(
    source: &File,
    copy: &File,
    size: u64,
    progress: &mut dyn FnMut(Stage, u64, u64),
) -> Result<(u64, Digest)> {
    let there = copy.attributes()?.size;
    if there > 0 && there <= size {
        let ours = checksum_of(source, there, Stage::Comparing, progress)?;
        let theirs = checksum_of(copy, there, Stage::Comparing, progress)?;
        if ours.finalize() == theirs.finalize() {
            return Ok((there, ours));
        }
    }
    Ok((0, Digest::new(CrcAlgorithm::Crc32Iscsi)))
}

/// Of the first `len` bytes; a file that is shorter has another one.
fn checksum_of(
    file: &File,
    len: u64,
    stage: Stage,
    progress: &mut dyn FnMut(Stage, u64, u64),
) -> Result<Digest> {
    file.seek(SeekFrom::Start(0))?;
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    let mut bytes = vec![0; CALL_LEN];
    let mut done = 0;
    while done < len {
        progress(stage, done, len);
        let wanted = (len - done).min(CALL_LEN as u64) as usize;
        let got = file.read(&mut bytes[..wanted])?;
        if got == 0 {
            break;
        }
        digest.update(&bytes[..got]);
        done += got as u64;
    }
    Ok(digest)
}

fn write_all(file: &File, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes)? {
            0 => return Err(Errno::NOSPC.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
