//! What a mount knows, and the calls to the node's server that answer a
//! request.
//!
//! The kernel may believe the name of a folder for [`FOLDER_TTL`], which spares
//! looking up all of a path again by each call. What a name stands for may change at any
//! time, as other nodes change it; so each call that goes by name compares what
//! it found with what the kernel means. If that is another file the answer is
//! ESTALE: the kernel then looks every name of the path up again and repeats the
//! call, and the program sees what is there now.
//!
//! Folders are no exception: who holds one, as where he is or open, works in it without a name being
//! looked up. So a call on a name in a folder asks for the folder first if it is longer ago than
//! [`FOLDER_TTL`] that it was found to be that folder. The kernel has followed all links; the server
//! follows none.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use wiglaf_files::{Attributes, Entry, File, NewTime, Node, Result, Space};

use crate::convert::{attr, kind, shown_ino};
use crate::fuse::Attr;
use crate::handles::{Handles, Open};
use crate::inodes::{Identity, Inodes, ROOT};
use crate::locks::Locks;
use crate::serve::Options;

/// How long the kernel may believe the name of a folder. Names of files are
/// looked up by every call: the kernel would go on with a file that another
/// node has replaced, as long as that is open here.
const FOLDER_TTL: Duration = Duration::from_millis(100);
/// How long the kernel may believe an attribute: not at all, as other nodes
/// change them.
pub(crate) const ATTR_TTL: Duration = Duration::ZERO;
/// So many that requests which are under way at once seldom meet by chance.
const NAME_LOCKS: usize = 64;
/// Flags of open(2) that mean something to the server.
const OPEN_FLAGS: i32 =
    libc::O_ACCMODE | libc::O_APPEND | libc::O_SYNC | libc::O_DSYNC | libc::O_TRUNC | libc::O_EXCL;

/// The mounted folder. Dropping it ends the node's server.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) node: Node,
    pub(crate) options: Options,
    /// Reads and writes go past the page cache.
    pub(crate) is_direct: bool,
    /// The file system that the root lies on.
    root_dev: u64,
    inodes: Mutex<Inodes>,
    handles: Mutex<Handles>,
    pub(crate) locks: Locks,
    /// Held for writing while names change, and for reading while a path is
    /// under way to the server, so that none is outrun by a rename of ours.
    moving: RwLock<()>,
    /// Each for the names that its number is the hash of. Held from asking for a name until the answer
    /// is noted, and alone by who makes it: a late answer must not undo what was noted meanwhile.
    names: [RwLock<()>; NAME_LOCKS],
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long the kernel may believe the name of what was found.
pub(crate) fn name_ttl(found: &Attributes) -> Duration {
    match found.mode & libc::S_IFMT {
        libc::S_IFDIR => FOLDER_TTL,
        _ => Duration::ZERO,
    }
}

/// What the kernel has to look up again is not there under that name, or not
/// the same.
fn stale(error: wiglaf_files::Error) -> wiglaf_files::Error {
    match error.errno() {
        libc::ENOENT | libc::ELOOP | libc::ENOTDIR => Errno::STALE.into(),
        _ => error,
    }
}

/// A folder on the way to a name is a link or a file by now.
fn of_folder(error: wiglaf_files::Error) -> wiglaf_files::Error {
    match error.errno() {
        libc::ELOOP | libc::ENOTDIR => Errno::STALE.into(),
        _ => error,
    }
}

impl Mounted {
    /// `root` is the absolute path of the folder on its node, which lies on the file system `root_dev`.
    pub(crate) fn new(node: Node, root: &OsStr, root_dev: u64, options: Options) -> Self {
        Self {
            node,
            options,
            is_direct: false,
            root_dev,
            inodes: Mutex::new(Inodes::new(root)),
            handles: Mutex::default(),
            locks: Locks::default(),
            moving: RwLock::new(()),
            names: [const { RwLock::new(()) }; NAME_LOCKS],
        }
    }

    pub(crate) fn inodes(&self) -> MutexGuard<'_, Inodes> {
        locked(&self.inodes)
    }

    pub(crate) fn handles(&self) -> MutexGuard<'_, Handles> {
        locked(&self.handles)
    }

    /// A call on the path of a number.
    pub(crate) fn at<T>(&self, ino: u64, call: impl FnOnce(&OsStr) -> Result<T>) -> Result<T> {
        let _still = self.moving.read().unwrap_or_else(PoisonError::into_inner);
        let path = self.inodes().path(ino).ok_or(Errno::STALE)?;
        call(&path)
    }

    /// A call that changes the file of a number: by its path while that is the
    /// file's, else by what is open of it.
    fn change_file(
        &self,
        ino: u64,
        by_path: impl FnOnce(&OsStr) -> Result<()>,
        by_handle: impl FnOnce(&File) -> Result<()>,
    ) -> Result<()> {
        let outcome = self.at(ino, |path| {
            self.ask(ino, path)?;
            by_path(path).map_err(stale)
        });
        match outcome {
            Err(error) if error.errno() == libc::ESTALE => {
                let open = self.handles().any_of(ino);
                open.map_or(Err(error), |file| by_handle(&file))
            }
            other => other,
        }
    }

    /// A call on the path of a name.
    fn named<T>(
        &self,
        parent: u64,
        name: &OsStr,
        call: impl FnOnce(&OsStr) -> Result<T>,
    ) -> Result<T> {
        let _still = self.moving.read().unwrap_or_else(PoisonError::into_inner);
        let path = self.path_in(parent, name)?;
        call(&path).map_err(of_folder)
    }

    /// The path of a name in a folder that is what the kernel means by it.
    fn path_in(&self, parent: u64, name: &OsStr) -> Result<OsString> {
        let (folder, path, is_known) = {
            let inodes = self.inodes();
            let folder = inodes.path(parent).ok_or(Errno::STALE)?;
            let path = inodes.path_in(parent, name).ok_or(Errno::STALE)?;
            (folder, path, inodes.is_known_of_late(parent, FOLDER_TTL))
        };
        if !is_known {
            self.ask(parent, &folder)?;
        }
        Ok(path)
    }

    /// What is at the path of a number, which must be the file that the kernel means.
    fn ask(&self, ino: u64, path: &OsStr) -> Result<Attributes> {
        let asked = Instant::now();
        let found = self.node.attributes(path, false).map_err(stale)?;
        self.check(ino, &found, asked)?;
        Ok(found)
    }

    fn lock_of(&self, parent: u64, name: &OsStr) -> &RwLock<()> {
        let mut hasher = DefaultHasher::new();
        (parent, name).hash(&mut hasher);
        &self.names[hasher.finish() as usize % NAME_LOCKS]
    }

    /// What is there under a name, and its number.
    pub(crate) fn look_up(&self, parent: u64, name: &OsStr) -> Result<(u64, Attributes)> {
        let lock = self.lock_of(parent, name);
        self.named(parent, name, |path| {
            let _shared = lock.read().unwrap_or_else(PoisonError::into_inner);
            let asked = Instant::now();
            let found = self.node.attributes(path, false);
            if found.as_ref().is_err_and(|error| error.errno() == libc::ENOENT) {
                self.inodes().lose(parent, name);
            }
            let found = found?;
            let at = (parent, name);
            Ok((self.inodes().found(at, Identity::from(&found), asked), found))
        })
    }

    /// A call that makes a name and tells what is there then; with its number.
    fn make_known<T>(
        &self,
        parent: u64,
        name: &OsStr,
        call: impl FnOnce(&OsStr) -> Result<(T, Attributes)>,
    ) -> Result<(u64, Attributes, T)> {
        let lock = self.lock_of(parent, name);
        self.named(parent, name, |path| {
            let _alone = lock.write().unwrap_or_else(PoisonError::into_inner);
            let asked = Instant::now();
            let (made, found) = call(path)?;
            let at = (parent, name);
            Ok((self.inodes().found(at, Identity::from(&found), asked), found, made))
        })
    }

    /// A call that makes a name; then what is there, and its number.
    pub(crate) fn make(
        &self,
        parent: u64,
        name: &OsStr,
        call: impl FnOnce(&OsStr) -> Result<()>,
    ) -> Result<(u64, Attributes)> {
        let made = self.make_known(parent, name, |path| {
            call(path)?;
            Ok(((), self.node.attributes(path, false)?))
        });
        made.map(|(ino, found, ())| (ino, found))
    }

    /// Gives the file of a number a second name.
    pub(crate) fn link(&self, ino: u64, parent: u64, name: &OsStr) -> Result<(u64, Attributes)> {
        self.make(parent, name, |to| {
            let from = self.inodes().path(ino).ok_or(Errno::STALE)?;
            let meant = self.ask(ino, &from)?;
            self.node.hard_link(&from, to)?;
            let is = |path: &OsStr, other: &Attributes| {
                let found = self.node.attributes(path, false);
                found.is_ok_and(|found| Identity::from(&found) == Identity::from(other))
            };
            if is(to, &meant) {
                return Ok(());
            }
            // Another node was faster: if the link is to the file that it put there, it is ours.
            if self.node.attributes(&from, false).is_ok_and(|now| is(to, &now)) {
                self.node.unlink(to)?;
            }
            Err(Errno::STALE.into())
        })
    }

    /// A call that takes names away or moves them; then `note` does so here.
    pub(crate) fn change(
        &self,
        names: [(u64, &OsStr); 2],
        call: impl FnOnce(&OsStr, &OsStr) -> Result<()>,
        note: impl FnOnce(&mut Inodes),
    ) -> Result<()> {
        let _alone = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        let [(from, from_name), (to, to_name)] = names;
        let (from, to) = (self.path_in(from, from_name)?, self.path_in(to, to_name)?);
        call(&from, &to).map_err(of_folder)?;
        note(&mut self.inodes());
        Ok(())
    }

    /// That what was asked for at `asked` is the file that the kernel means.
    fn check(&self, ino: u64, found: &Attributes, asked: Instant) -> Result<()> {
        let mut inodes = self.inodes();
        if inodes.is(ino, Identity::from(found), asked) {
            return Ok(());
        }
        inodes.lose_name_of(ino);
        Err(Errno::STALE.into())
    }

    /// What is known of a file, by its name while it has one.
    pub(crate) fn attributes(&self, ino: u64, handle: Option<u64>) -> Result<Attributes> {
        if let Some(file) = handle.and_then(|handle| self.handles().file(handle)) {
            return file.attributes();
        }
        let error = match self.at(ino, |path| self.ask(ino, path)) {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        let open = self.handles().any_of(ino);
        match open {
            Some(file) => file.attributes(),
            None => Err(error),
        }
    }

    pub(crate) fn file(&self, handle: u64) -> Result<Arc<File>> {
        self.handles().file(handle).ok_or_else(|| Errno::BADF.into())
    }

    /// Writes at an offset, or else behind the end; `flags` are those of open(2) that hold for this call.
    pub(crate) fn write(
        &self,
        handle: u64,
        data: &[u8],
        offset: Option<u64>,
        flags: i32,
    ) -> Result<usize> {
        let open = self.handles().file_and_sync(handle);
        let (file, opened) = open.ok_or(Errno::BADF)?;
        let count = match offset {
            Some(offset) => file.write_over(data, offset)?,
            None => file.append(data)?,
        };
        // A file that was opened so is written so by its server; pwritev2(2) asks for a single call.
        let wanted = flags & libc::O_SYNC;
        if wanted & !opened != 0 {
            file.sync(wanted == libc::O_DSYNC)?;
        }
        Ok(count)
    }

    /// The space of the file system that a file lies on; of the folder's if it has no name.
    pub(crate) fn space(&self, ino: u64) -> Result<Space> {
        let space = |ino| self.at(ino, |path| self.node.space(path));
        space(ino).or_else(|error| match error.errno() {
            libc::ESTALE | libc::ENOENT => space(ROOT),
            _ => Err(error),
        })
    }

    /// Opens the file of a number.
    pub(crate) fn open_file(&self, ino: u64, flags: i32) -> Result<u64> {
        let empties = flags & libc::O_TRUNC != 0;
        // What it is is known when it is open: only then it may be emptied.
        let mut flags = flags & (OPEN_FLAGS & !(libc::O_EXCL | libc::O_TRUNC)) | libc::O_NOFOLLOW;
        if empties && flags & libc::O_ACCMODE == libc::O_RDONLY {
            flags |= libc::O_RDWR; // takes the same right
        }
        let file = self.at(ino, |path| {
            let asked = Instant::now();
            let (file, found) = self.node.open_known(path, flags, 0).map_err(stale)?;
            let checked = self.check(ino, &found, asked);
            match checked.and_then(|()| if empties { file.truncate(0) } else { Ok(()) }) {
                Ok(()) => Ok(file),
                Err(error) => {
                    file.close_soon();
                    Err(error)
                }
            }
        })?;
        let open = Open::File(Arc::new(file), flags & libc::O_SYNC);
        Ok(self.handles().add(ino, open))
    }

    /// Makes a file, or opens it if it is there and may be, and tells its number.
    pub(crate) fn create_file(
        &self,
        parent: u64,
        name: &OsStr,
        flags: i32,
        mode: u32,
    ) -> Result<(u64, Attributes, u64)> {
        let flags = flags & OPEN_FLAGS | libc::O_CREAT | libc::O_NOFOLLOW;
        let (ino, found, file) =
            self.make_known(parent, name, |path| self.node.open_known(path, flags, mode & 0o7777))?;
        let open = Open::File(Arc::new(file), flags & libc::O_SYNC);
        let handle = self.handles().add(ino, open);
        Ok((ino, found, handle))
    }

    /// Whoever reads or writes it still keeps it open.
    pub(crate) fn close_file(&self, ino: u64, handle: u64) {
        self.locks.close(handle);
        let closed = self.handles().remove(ino, handle);
        if let Some(Open::File(file, _)) = closed
            && let Some(file) = Arc::into_inner(file)
        {
            file.close_soon();
        }
    }

    pub(crate) fn list(&self, ino: u64) -> Result<Vec<Entry>> {
        self.at(ino, |path| {
            let asked = Instant::now();
            let (mut folder, found) = self.node.list_known(path)?;
            self.check(ino, &found, asked)?;
            let mut entries = Vec::new();
            while let Some(entry) = folder.next_entry()? {
                entries.push(entry);
            }
            Ok(entries)
        })
        .map_err(stale)
    }

    pub(crate) fn sync_folder(&self, ino: u64, data_only: bool) -> Result<()> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        // One that was removed here has nothing that could be on disk.
        if self.inodes().path(ino).is_none() {
            return Ok(());
        }
        self.at(ino, |path| {
            let asked = Instant::now();
            let (folder, found) = self.node.open_known(path, flags, 0)?;
            self.check(ino, &found, asked)?;
            folder.sync(data_only)
        })
        .map_err(stale)
    }

    /// The names of an open folder, read again after a rewind.
    pub(crate) fn listed(&self, ino: u64, handle: u64, offset: u64) -> Result<Arc<Vec<Entry>>> {
        let open = self.handles().get(handle).cloned();
        let Some(Open::Folder(mut entries, is_read)) = open else {
            return Err(Errno::BADF.into());
        };
        if offset == 0 {
            // A folder that is gone keeps what it had.
            if is_read && let Ok(again) = self.list(ino) {
                entries = Arc::new(again);
            }
            self.handles().replace(handle, Open::Folder(Arc::clone(&entries), true));
        }
        Ok(entries)
    }

    /// What stat(2) shall show.
    pub(crate) fn attr(&self, found: &Attributes) -> Attr {
        Attr { ino: self.shown(found.dev, found.ino), ..attr(found) }
    }

    fn shown(&self, dev: u64, ino: u64) -> u64 {
        shown_ino(self.root_dev, dev, ino)
    }

    /// The number of a name in a folder as stat(2) shows it.
    pub(crate) fn entry_ino(&self, folder: u64, entry: &Entry) -> u64 {
        let dev = self.inodes().dev(folder).unwrap_or(self.root_dev);
        self.shown(dev, entry.ino)
    }

    /// Some file systems do not tell the types of names.
    pub(crate) fn kind_of(&self, folder: u64, entry: &Entry) -> u8 {
        if entry.kind != 0 {
            return entry.kind;
        }
        let name = OsStr::from_bytes(&entry.name);
        let found = self.named(folder, name, |path| self.node.attributes(path, false));
        kind(found.map_or(libc::S_IFREG, |found| found.mode))
    }

    /// Where a link leads.
    pub(crate) fn read_link(&self, ino: u64) -> Result<Vec<u8>> {
        self.at(ino, |path| self.node.read_link(path)).map_err(|error| match error.errno() {
            // What is there is no link any more.
            libc::EINVAL => Errno::STALE.into(),
            _ => stale(error),
        })
    }

    pub(crate) fn change_owner(
        &self,
        ino: u64,
        handle: Option<u64>,
        owner: (Option<u32>, Option<u32>),
    ) -> Result<()> {
        if owner == (None, None) {
            return Ok(());
        }
        let found = self.attributes(ino, handle)?;
        // The server has no such request: it is the user's own.
        let is_same = owner.0.is_none_or(|uid| uid == found.uid)
            && owner.1.is_none_or(|gid| gid == found.gid);
        if is_same { Ok(()) } else { Err(Errno::PERM.into()) }
    }

    pub(crate) fn resize(&self, ino: u64, handle: Option<u64>, size: u64) -> Result<()> {
        if let Some(handle) = handle {
            return self.file(handle)?.truncate(size);
        }
        self.change_file(ino, |path| self.node.truncate(path, size), |file| file.truncate(size))
    }

    pub(crate) fn set_mode(&self, ino: u64, mode: u32) -> Result<()> {
        self.change_file(ino, |path| self.node.set_mode(path, mode), |file| file.set_mode(mode))
    }

    pub(crate) fn set_times(
        &self,
        ino: u64,
        accessed: Option<NewTime>,
        modified: Option<NewTime>,
    ) -> Result<()> {
        self.change_file(
            ino,
            |path| self.node.set_times(path, accessed, modified),
            |file| file.set_times(accessed, modified),
        )
    }

    /// Whether access(2) is granted, which asks but does not open: by the mode,
    /// as the user whom both this process and the server run as.
    pub(crate) fn access(&self, ino: u64, wanted: i32) -> Result<()> {
        let found = self.attributes(ino, None)?;
        let class = if rustix::process::geteuid().as_raw() == found.uid {
            6
        } else if is_member(found.gid) {
            3
        } else {
            0
        };
        let wanted = wanted as u32 & 7;
        let granted = match rustix::process::geteuid().is_root() {
            // Root may do all but run what nobody may.
            true if found.mode & 0o111 == 0 && found.mode & libc::S_IFMT != libc::S_IFDIR => 6,
            true => 7,
            false => found.mode >> class & 7,
        };
        if wanted & !granted == 0 { Ok(()) } else { Err(Errno::ACCESS.into()) }
    }
}

fn is_member(gid: u32) -> bool {
    let groups = rustix::process::getgroups().unwrap_or_default();
    rustix::process::getegid().as_raw() == gid || groups.iter().any(|group| group.as_raw() == gid)
}
