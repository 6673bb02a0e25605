//! The exported folders: every path of a client is looked up below one of
//! them and cannot leave it, whatever links it goes through.
//!
//! The kernel itself keeps the lookup inside, by openat2(2) with
//! RESOLVE_BENEATH: no `..` and no symbolic link leads out, absolute links are
//! refused, and links of /proc are not followed. Nothing depends on a check
//! that could be outrun by a rename.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, StatxFlags, fstat, makedev, open, openat,
    openat2, readlink, statx,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use crate::error::{Error, Reason, Result};
use crate::wire::{OpenFlags, PATH_LEN_MAX};

/// A lookup that a rename elsewhere disturbed is tried again so often.
const TRIES: usize = 64;
/// Longest path in bytes that the kernel takes at once (PATH_MAX without the zero).
pub(crate) const CALL_PATH_LEN_MAX: usize = 4095;

/// One exported folder.
#[derive(Debug)]
struct Root {
    path: PathBuf,
    folder: OwnedFd,
    /// Links in it lead nowhere: whoever asks has followed them.
    is_without_links: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    /// As they were named: in the first one a client's relative paths begin.
    exported: Vec<Root>,
    /// What the client wants to be its root; it lies in one of the others and goes before them.
    own: Option<Root>,
}

/// The place of a name: its folder, held open, and the name in it. The name
/// may have slashes behind it, which the kernel takes for "must be a folder".
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) folder: OwnedFd,
    pub(crate) name: CString,
}

impl Roots {
    /// Opens the folders; those that are not there are named in the second
    /// answer.
    pub(crate) fn open(folders: &[PathBuf]) -> (Self, Vec<(PathBuf, Errno)>) {
        let (mut roots, mut missing) = (Vec::new(), Vec::new());
        for path in folders {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match open(path, flags, Mode::empty()) {
                Ok(folder) => {
                    roots.push(Root { path: path.clone(), folder, is_without_links: false });
                }
                Err(errno) => missing.push((path.clone(), errno)),
            }
        }
        (Self { exported: roots, own: None }, missing)
    }

    /// From now on what lies in the folder `path` is looked up from the folder that is there now.
    pub(crate) fn set_own(&mut self, path: &[u8]) -> Result<()> {
        let folder = self.look_up(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        let path = PathBuf::from(OsStr::from_bytes(path));
        self.own = Some(Root { path, folder, is_without_links: true });
        Ok(())
    }

    /// The folders that were opened, in the order in which they were named.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.exported.iter().map(|root| root.path.as_path())
    }

    /// The exported folder that `path` lies in, and the rest of the path.
    fn split<'p>(&self, path: &'p [u8]) -> Result<(&Root, &'p [u8])> {
        //= docs/files-protocol.md#5-what-a-server-may-touch
        //# A server MUST refuse a path that is not absolute or lies in no exported folder, with EACCES and the reason 1.
        let within = |root: &Root| below(path, &root.path).is_some();
        let own = self.own.as_ref().filter(|root| within(root));
        // A folder within another goes before it.
        let exported = self.exported.iter().filter(|root| within(root));
        let root = own.or_else(|| exported.max_by_key(|root| root.path.components().count()));
        root.and_then(|root| Some((root, below(path, &root.path)?)))
            .ok_or_else(|| Error::new(Errno::ACCESS, Reason::NotExported))
    }

    /// Looks a path up without opening what it names.
    pub(crate) fn find(&self, path: &[u8], follow: bool) -> Result<OwnedFd> {
        let follow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        self.look_up(path, OFlags::PATH | follow, Mode::empty())
    }

    /// The folder that a name lies in, for calls that make, remove or rename it.
    pub(crate) fn place(&self, path: &[u8]) -> Result<Place> {
        let (root, rest) = self.split(path)?;
        let trimmed = rest.len() - rest.iter().rev().take_while(|b| **b == b'/').count();
        let start = rest[..trimmed].iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
        let name = &rest[start..];
        if name.is_empty() {
            // The exported folder itself is not a client's to remove or rename.
            return Err(Errno::BUSY.into());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let folder = beneath(root, &rest[..start], flags, Mode::empty())?;
        match &rest[start..trimmed] {
            // As a last component `..` would leave its folder by the back door.
            b".." => Err(Error::new(Errno::ACCESS, Reason::Escape)),
            _ => Ok(Place { folder, name: c_string(name)? }),
        }
    }

    /// The folder that a name lies in, for calls that make the name: the exported folder itself is there already.
    pub(crate) fn new_place(&self, path: &[u8]) -> Result<Place> {
        self.place(path).map_err(|error| match error.errno() {
            libc::EBUSY => Errno::EXIST.into(),
            _ => error,
        })
    }

    /// The path of a folder that may be searched, without links and `..`.
    pub(crate) fn enter(&self, path: &[u8]) -> Result<Vec<u8>> {
        let (root, rest) = self.split(path)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = beneath(root, rest, flags, Mode::empty())?;
        // Looking for `.` in it takes the right to search it, as chdir(2) does.
        openat(&folder, c".", flags, Mode::empty())?;
        let top = real_path(&root.folder)?;
        let found = match real_path(&folder) {
            Ok(found) => found,
            // Of what lies so deep the kernel tells no path.
            Err(error) if error.errno() == libc::ENAMETOOLONG => return Ok(path.to_vec()),
            Err(error) => return Err(error),
        };
        let found = match found.strip_prefix(without_slash(&top)) {
            Some(rest @ ([] | [b'/', ..])) => {
                [without_slash(root.path.as_os_str().as_bytes()), rest].concat()
            }
            // It is reached another way than the kernel names it: from elsewhere below a mount.
            _ => path.to_vec(),
        };
        if found.len() > PATH_LEN_MAX { Err(Errno::NAMETOOLONG.into()) } else { Ok(found) }
    }

    /// Opens a file or folder.
    pub(crate) fn open_file(&self, path: &[u8], flags: OpenFlags, mode: u32) -> Result<OwnedFd> {
        let wanted = open_flags(flags)?;
        // What is only to be made cannot be a device: if there is one, the kernel says that it is there.
        if !wanted.contains(OFlags::CREATE | OFlags::EXCL) {
            self.probe(path, wanted & (OFlags::NOFOLLOW | OFlags::DIRECTORY))?;
        }
        let mode = if flags.has(OpenFlags::CREATE) {
            Mode::from_raw_mode(mode & 0o7777)
        } else {
            Mode::empty()
        };
        let file = self.look_up(path, wanted | OFlags::NONBLOCK | OFlags::NOCTTY, mode)?;
        check_kind(&file)?;
        Ok(file)
    }

    /// Opening a device does things, so what it is is asked first.
    fn probe(&self, path: &[u8], flags: OFlags) -> Result<()> {
        match self.look_up(path, OFlags::PATH | flags, Mode::empty()) {
            Ok(found) => check_kind(&found),
            Err(error) if error.reason() != Reason::Kernel => Err(error),
            // With the flags that are wanted the kernel may say otherwise.
            Err(_) => Ok(()),
        }
    }

    fn look_up(&self, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let (root, rest) = self.split(path)?;
        beneath(root, rest, flags, mode)
    }
}

fn beneath(root: &Root, rest: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    //= docs/files-protocol.md#5-what-a-server-may-touch
    //# A server MUST refuse a path that leaves its exported folder at any step, by `..` or by a symbolic link, with EACCES and the reason 2.
    let step = |folder: BorrowedFd<'_>, path: &[u8], flags, mode| {
        let path = c_string(if path.is_empty() { b"." } else { path })?;
        //= docs/files-protocol.md#5-what-a-server-may-touch
        //# A server MUST look up what lies in the folder of a ROOT from the folder that was there then, and refuse a path that goes through a symbolic link with ELOOP.
        match root.is_without_links {
            true => without_mounts_of_ours(folder, &path, flags, mode),
            false => {
                let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
                look(folder, &path, flags, mode, resolve).map_err(refused)
            }
        }
    };
    // What is longer than the kernel takes is gone in steps, none of which leads out of the one before.
    let (mut at, mut rest) = (None::<OwnedFd>, rest);
    while rest.len() > CALL_PATH_LEN_MAX {
        let cut = rest[..=CALL_PATH_LEN_MAX].iter().rposition(|b| *b == b'/');
        let (first, behind) = rest.split_at(cut.ok_or(Errno::NAMETOOLONG)?);
        let folder = at.as_ref().map_or(root.folder.as_fd(), AsFd::as_fd);
        at = Some(step(folder, first, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?);
        rest = &behind[behind.iter().take_while(|b| **b == b'/').count()..];
    }
    step(at.as_ref().map_or(root.folder.as_fd(), AsFd::as_fd), rest, flags, mode)
}

/// The kernel's lookup, tried again where a rename disturbed it.
fn look(
    folder: BorrowedFd<'_>,
    path: &CStr,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    for _ in 0..TRIES {
        match openat2(folder, path, flags | OFlags::CLOEXEC, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            outcome => return outcome,
        }
    }
    Err(Errno::AGAIN)
}

fn refused(errno: Errno) -> Error {
    match errno {
        Errno::XDEV => Error::new(Errno::ACCESS, Reason::Escape),
        errno => errno.into(),
    }
}

/// A lookup that follows no link and enters no mount of Wiglaf's: who asks is such a mount itself, and
/// two that lie in each other would wait for each other's answers. Other file systems are entered.
fn without_mounts_of_ours(
    root: BorrowedFd<'_>,
    path: &CStr,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let within = beneath | ResolveFlags::NO_XDEV;
    match look(root, path, flags, mode, within) {
        Err(Errno::XDEV) => {}
        outcome => return outcome.map_err(refused),
    }
    // It leaves the file system, or the root: step by step, as each mount is to be known before it is entered.
    let mut at: Option<OwnedFd> = None;
    let mut rest = path.to_bytes();
    loop {
        let start = rest.iter().take_while(|b| **b == b'/').count();
        let len = rest[start..].iter().position(|b| *b == b'/').unwrap_or(rest.len() - start);
        let (name, behind) = rest[start..].split_at(len);
        let is_last = behind.iter().all(|b| *b == b'/');
        let step = if is_last { &rest[start..] } else { name };
        let step = c_string(if step.is_empty() { b"." } else { step })?;
        let folder = at.as_ref().map_or(root, AsFd::as_fd);
        let (flags, mode) = match is_last {
            true => (flags, mode),
            false => (OFlags::PATH | OFlags::DIRECTORY, Mode::empty()),
        };
        let found = match look(folder, &step, flags, mode, within) {
            Err(Errno::XDEV) => into_mount(folder, &step, flags, mode)?,
            outcome => outcome.map_err(refused)?,
        };
        if is_last {
            return Ok(found);
        }
        (at, rest) = (Some(found), behind);
    }
}

/// Opens what is mounted at a name in a folder, if that is no mount of Wiglaf's.
fn into_mount(folder: BorrowedFd<'_>, name: &CStr, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let path = OFlags::PATH | OFlags::NOFOLLOW | flags & OFlags::DIRECTORY;
    let found = look(folder, name, path, Mode::empty(), resolve).map_err(refused)?;
    // Answered by the kernel alone: asking the mount itself is what must not be.
    let ask = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let about = statx(&found, "", ask, StatxFlags::TYPE)?;
    let dev = makedev(about.stx_dev_major, about.stx_dev_minor);
    if wiglaf_node::mounts::is_device(dev).map_err(|_| Errno::IO)? {
        return Err(Errno::XDEV.into());
    }
    if flags.contains(OFlags::PATH) {
        return Ok(found);
    }
    if flags.contains(OFlags::CREATE | OFlags::EXCL) {
        return Err(Errno::EXIST.into());
    }
    // A mount of Wiglaf's is a folder, so nothing but a folder may have become one meanwhile.
    let outcome = match FileType::from_raw_mode(about.stx_mode.into()) {
        FileType::Directory => {
            look(found.as_fd(), c".", flags, mode, resolve | ResolveFlags::NO_XDEV)
        }
        _ => look(folder, name, flags, mode, resolve),
    };
    outcome.map_err(refused)
}

/// Devices, pipes and sockets are refused.
fn check_kind(file: &OwnedFd) -> Result<()> {
    //= docs/files-protocol.md#5-what-a-server-may-touch
    //# A server MUST NOT open anything but regular files and folders; it refuses others with EACCES and the reason 3.
    match FileType::from_raw_mode(fstat(file)?.st_mode) {
        FileType::RegularFile | FileType::Directory => Ok(()),
        // Only asked for without following it.
        FileType::Symlink => Err(Errno::LOOP.into()),
        _ => Err(Error::new(Errno::ACCESS, Reason::SpecialFile)),
    }
}

pub(crate) fn open_flags(flags: OpenFlags) -> Result<OFlags> {
    let access = match (flags.has(OpenFlags::READ), flags.has(OpenFlags::WRITE)) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        (true, false) => OFlags::RDONLY,
        (false, false) => return Err(Error::new(Errno::INVAL, Reason::Flag)),
    };
    let bits = [
        (OpenFlags::APPEND, OFlags::APPEND),
        (OpenFlags::CREATE, OFlags::CREATE),
        (OpenFlags::EXCLUSIVE, OFlags::EXCL),
        (OpenFlags::TRUNCATE, OFlags::TRUNC),
        (OpenFlags::DIRECTORY, OFlags::DIRECTORY),
        (OpenFlags::NO_FOLLOW, OFlags::NOFOLLOW),
        (OpenFlags::SYNC, OFlags::SYNC),
        (OpenFlags::DATA_SYNC, OFlags::DSYNC),
    ];
    let set = bits.iter().filter(|(bit, _)| flags.has(*bit)).map(|(_, flag)| *flag);
    Ok(set.fold(access, |all, flag| all | flag))
}

/// A list of an open folder, by its own position. To open it again would take the right to search it.
pub(crate) fn listing_of(folder: &OwnedFd) -> rustix::io::Result<Dir> {
    Dir::new(fcntl_dupfd_cloexec(folder, 0)?)
}

/// What /proc calls an open file of this process.
pub(crate) fn own_path(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Where an open folder lies.
fn real_path(folder: &OwnedFd) -> Result<Vec<u8>> {
    Ok(readlink(own_path(folder), Vec::new())?.into_bytes())
}

fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

pub(crate) fn c_string(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Errno::INVAL.into())
}

/// What follows the folder `root` in `path`, if that lies in it.
fn below<'p>(path: &'p [u8], root: &Path) -> Option<&'p [u8]> {
    let mut rest = path;
    if *rest.first()? != b'/' {
        return None;
    }
    for wanted in root.components().skip(1) {
        let (component, behind) = next_component(rest)?;
        if component != wanted.as_os_str().as_bytes() {
            return None;
        }
        rest = behind;
    }
    let slashes = rest.iter().take_while(|b| **b == b'/').count();
    Some(&rest[slashes..])
}

/// The first component that is not `.`, and what stands behind it.
fn next_component(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = path;
    loop {
        let start = rest.iter().position(|b| *b != b'/')?;
        let len = rest[start..].iter().position(|b| *b == b'/').unwrap_or(rest.len() - start);
        let (component, behind) = rest[start..].split_at(len);
        if component != b"." {
            return Some((component, behind));
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    use rustix::fs::CWD;

    #[test]
    fn paths_are_split_by_components() {
        let root = Path::new("/a/b");
        for (path, expected) in [
            ("/a/b", Some("")),
            ("/a/b/", Some("")),
            ("//a/./b//c/", Some("c/")),
            ("/a/b/../c", Some("../c")),
            ("/a/bc", None),
            ("/a", None),
            ("a/b", None),
            ("/a/../a/b", None),
            ("", None),
        ] {
            let found = below(path.as_bytes(), root).map(|p| std::str::from_utf8(p).unwrap());
            assert_eq!(found, expected, "{path}");
        }
        assert_eq!(below(b"/x", Path::new("/")), Some(&b"x"[..]));
    }

    fn roots() -> (tempfile::TempDir, Roots, String) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("out")).unwrap();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        let (roots, missing) =
            Roots::open(&[dir.path().join("out"), dir.path().join("no-such-folder")]);
        assert_eq!(missing.len(), 1);
        let out = dir.path().join("out").to_str().unwrap().to_owned();
        (dir, roots, out)
    }

    #[test]
    fn a_folder_within_another_goes_before_it_whichever_is_named_first() {
        let dir = tempfile::tempdir().unwrap();
        let (outer, inner) = (dir.path().join("a"), dir.path().join("a/b/c"));
        std::fs::create_dir_all(&inner).unwrap();
        symlink("..", inner.join("up")).unwrap();
        let up = inner.join("up");
        for folders in [[&outer, &inner], [&inner, &outer]] {
            let (roots, _) = Roots::open(&folders.map(Clone::clone));
            assert!(roots.paths().eq(folders), "in their order");
            let error = read(&roots, up.to_str().unwrap()).unwrap_err();
            assert_eq!(error.reason(), Reason::Escape);
        }
    }

    fn read(roots: &Roots, path: &str) -> Result<OwnedFd> {
        roots.open_file(path.as_bytes(), OpenFlags(OpenFlags::READ), 0)
    }

    #[test]
    fn every_way_out_is_refused_with_its_reason() {
        let (dir, roots, out) = roots();
        let in_out = |name: &str| dir.path().join("out").join(name);
        symlink("../secret", in_out("relative")).unwrap();
        symlink(dir.path().join("secret"), in_out("absolute")).unwrap();
        symlink("/proc/self/root", in_out("magic")).unwrap();
        symlink("..", in_out("up")).unwrap();
        for (path, reason) in [
            (format!("{out}/../secret"), Reason::Escape),
            (format!("{out}/relative"), Reason::Escape),
            (format!("{out}/absolute"), Reason::Escape),
            (format!("{out}/magic/etc/passwd"), Reason::Escape),
            (format!("{out}/up/secret"), Reason::Escape),
            ("/etc/passwd".to_owned(), Reason::NotExported),
            ("secret".to_owned(), Reason::NotExported),
        ] {
            let error = read(&roots, &path).unwrap_err();
            assert_eq!((error.errno(), error.reason()), (libc::EACCES, reason), "{path}");
            let error = roots.place(format!("{path}/x").as_bytes()).unwrap_err();
            // A file on the way is no folder either.
            assert!(
                error.reason() == reason || error.errno() == libc::ENOTDIR,
                "{path}/x: {error:?}"
            );
        }
        let error = roots.place(format!("{out}/..").as_bytes()).unwrap_err();
        assert_eq!(error.reason(), Reason::Escape);
    }

    #[test]
    fn links_that_stay_inside_are_followed() {
        let (dir, roots, out) = roots();
        std::fs::write(dir.path().join("out/file"), "f").unwrap();
        symlink("file", dir.path().join("out/link")).unwrap();
        assert!(read(&roots, &format!("{out}/link")).is_ok());
        let flags = OpenFlags(OpenFlags::READ | OpenFlags::NO_FOLLOW);
        let error = roots.open_file(format!("{out}/link").as_bytes(), flags, 0).unwrap_err();
        assert_eq!(error.errno(), libc::ELOOP);
    }

    #[test]
    fn below_a_root_of_the_clients_no_link_is_followed() {
        let (dir, mut roots, out) = roots();
        let in_out = |name: &str| dir.path().join("out").join(name);
        let at = |name: &str| format!("{out}/{name}").into_bytes();
        for name in ["real", "real/d", "real/d/e", "other", "other/d"] {
            std::fs::create_dir(in_out(name)).unwrap();
        }
        std::fs::write(in_out("real/d/file"), "f").unwrap();
        symlink("real", in_out("root")).unwrap();
        symlink("d", in_out("real/link")).unwrap();
        symlink("d/file", in_out("real/last")).unwrap();
        assert_eq!(roots.set_own(&at("real/last")).unwrap_err().errno(), libc::ENOTDIR);
        assert_eq!(roots.set_own(&at("..")).unwrap_err().reason(), Reason::Escape);
        assert_eq!(roots.set_own(b"/etc").unwrap_err().reason(), Reason::NotExported);
        assert!(roots.find(&at("real/link/e"), true).is_ok());
        // The root itself may be named by a link, and stays the folder that it was.
        roots.set_own(&at("root")).unwrap();
        std::fs::remove_file(in_out("root")).unwrap();
        symlink("other", in_out("root")).unwrap();
        assert!(roots.find(&at("root/d/e"), true).is_ok());
        assert!(roots.find(&at("root"), true).is_ok());
        assert!(roots.find(&at("root/last"), false).is_ok());
        assert!(roots.place(&at("root/link")).is_ok(), "a link may be removed");
        let mut refused = vec![
            roots.find(&at("root/link/e"), true).map(drop),
            roots.find(&at("root/last"), true).map(drop),
            roots.place(&at("root/link/e")).map(drop),
        ];
        for flags in [OpenFlags::WRITE, OpenFlags::WRITE | OpenFlags::CREATE] {
            refused.push(roots.open_file(&at("root/last"), OpenFlags(flags), 0).map(drop));
            refused.push(roots.open_file(&at("root/link/file"), OpenFlags(flags), 0).map(drop));
        }
        for outcome in refused {
            assert_eq!(outcome.unwrap_err().errno(), libc::ELOOP);
        }
        // Beside it all is as it was.
        assert!(roots.find(&at("real/link/e"), true).is_ok());
    }

    #[test]
    fn what_is_neither_file_nor_folder_is_refused() {
        let (_dir, roots, out) = roots();
        let pipe = format!("{out}/pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let error = read(&roots, &pipe).unwrap_err();
        assert_eq!((error.errno(), error.reason()), (libc::EACCES, Reason::SpecialFile));
        // The kernel's own answer would be that there is no such device.
        let socket = format!("{out}/socket");
        let _bound = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let error = read(&roots, &socket).unwrap_err();
        assert_eq!((error.errno(), error.reason()), (libc::EACCES, Reason::SpecialFile));
        let (devices, _) = Roots::open(&[PathBuf::from("/dev")]);
        let error = read(&devices, "/dev/null").unwrap_err();
        assert_eq!(error.reason(), Reason::SpecialFile);
    }
}
