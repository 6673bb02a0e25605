//! Nodes as their users see them: calls on names. Those of the own node are
//! plain system calls, those of others are requests to their servers.

mod flags;
mod folder;
mod paths;

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use wiglaf_endpoint::JobKey;

use crate::client::{Answer, Client, ServerId};
use crate::error::{Error, Reason, Result};
use crate::file::{File, Handle};
use crate::launch::{self, Target};
use crate::port::Port;
use crate::roots::c_string;
use crate::server::Counters;
use crate::server::words::open_endpoint;
use crate::wire::{Attributes, OpenFlags, PATH_LEN_MAX, Request, Space};
use flags::wire_flags;
pub use folder::Folder;
use paths::{check_len, check_path};

/// A process's access to the files of all nodes.
#[derive(Debug, Clone, Default)]
pub struct Files(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    client: Mutex<Option<(Arc<Client>, JobKey)>>,
    nodes: Mutex<HashMap<String, Weak<Inner>>>,
}

/// An attached node. The last clone of it, and of the files that are open on
/// it, ends its server.
#[derive(Debug, Clone)]
pub struct Node(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    place: Place,
}

#[derive(Debug)]
pub(crate) enum Place {
    /// The own node; its folder, if one was entered.
    Local(Mutex<Option<Arc<OwnedFd>>>),
    Remote(Remote),
}

/// What requests to a server need.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) client: Arc<Client>,
    pub(crate) server: ServerId,
    /// Where relative paths begin: an absolute path.
    folder: Mutex<Vec<u8>>,
    /// Paths may be longer than a program can name at once: who asks has put them together itself.
    has_long_paths: AtomicBool,
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.client.detach(self.server);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    /// Nothing is opened or started before a node is attached.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Attaches a node by its name: starts its server, unless the node is
    /// this one or attached already.
    ///
    /// # Errors
    /// `EHOSTUNREACH` when there is no such node or its server does not start;
    /// the message says why.
    pub fn attach(&self, host: &str) -> Result<Node> {
        let mut nodes = locked(&self.0.nodes);
        if let Some(node) = nodes.get(host).and_then(Weak::upgrade).map(Node)
            && !node.is_gone()
        {
            return Ok(node);
        }
        let place = match launch::resolve(host, false)? {
            Target::Local => Place::Local(Mutex::default()),
            target => Place::Remote(self.start(target)?),
        };
        let inner = Arc::new(Inner { name: host.to_owned(), place });
        nodes.insert(host.to_owned(), Arc::downgrade(&inner));
        Ok(Node(inner))
    }

    /// Attaches a node by its name, with a server on the own node as well, so that its exports hold and every call is
    /// there. The node is not shared with others who attach it.
    ///
    /// # Errors
    /// As for [`Files::attach`].
    pub fn attach_served(&self, host: &str) -> Result<Node> {
        let place = Place::Remote(self.start(launch::resolve(host, true)?)?);
        Ok(Node(Arc::new(Inner { name: host.to_owned(), place })))
    }

    /// Attaches a node whose server runs already: `from` is its standard output, `to` its standard input. The node is
    /// not shared with others who attach it.
    ///
    /// # Errors
    /// As for [`Files::attach`].
    pub fn attach_line(&self, host: &str, from: OwnedFd, to: OwnedFd) -> Result<Node> {
        let place = Place::Remote(self.start(Target::Line(from, to))?);
        Ok(Node(Arc::new(Inner { name: host.to_owned(), place })))
    }

    fn start(&self, target: Target) -> Result<Remote> {
        let (client, key) = self.client()?;
        let (at, launched) = launch::start(target, key, client.name())?;
        let server = client.attach(at, launched);
        // From here on the server ends with this.
        let has_long_paths = AtomicBool::new(false);
        let remote = Remote { client, server, folder: Mutex::default(), has_long_paths };
        let answer = remote.call(&Request::Hello { newest: u32::from(crate::wire::VERSION) })?;
        let first = answer.bytes.split(|b| *b == 0).next().unwrap_or_default();
        *locked(&remote.folder) = first.to_vec();
        Ok(remote)
    }

    /// The endpoint for all servers, opened when the first is needed, with the
    /// job's key, or one that nobody else knows where there is no job.
    fn client(&self) -> Result<(Arc<Client>, JobKey)> {
        let mut client = locked(&self.0.client);
        if let Some((client, key)) = &*client {
            return Ok((Arc::clone(client), *key));
        }
        let failed = |why: String| Error::with_detail(Errno::NETDOWN, Reason::NotStarted, why);
        let config = wiglaf_links::config_from_env().map_err(|why| failed(why.to_string()))?;
        let key = match config.key {
            key if key != JobKey::default() => key,
            _ => random_key()?,
        };
        let mut endpoint = open_endpoint(key, config.silence_limit).map_err(failed)?;
        endpoint.set_wait(config.wait, config.oversubscribed);
        let opened = Arc::new(Client::new(Port::new(endpoint)));
        *client = Some((Arc::clone(&opened), key));
        Ok((opened, key))
    }
}

fn random_key() -> Result<JobKey> {
    let mut key = JobKey::default();
    match rustix::rand::getrandom(&mut key.0, rustix::rand::GetRandomFlags::empty())? {
        16 => Ok(key),
        _ => Err(Errno::IO.into()),
    }
}

impl Remote {
    pub(crate) fn call(&self, request: &Request<'_>) -> Result<Answer> {
        self.client.call(self.server, request)
    }

    /// The absolute path that `path` means.
    fn absolute(&self, path: &[u8]) -> Result<Vec<u8>> {
        match self.has_long_paths.load(Ordering::Relaxed) {
            true => check_len(path, PATH_LEN_MAX)?,
            false => check_path(path)?,
        }
        if path[0] == b'/' {
            return Ok(path.to_vec());
        }
        let path = [&locked(&self.folder)[..], b"/", path].concat();
        if path.len() > PATH_LEN_MAX { Err(Errno::NAMETOOLONG.into()) } else { Ok(path) }
    }

    fn attributes(&self, request: &Request<'_>) -> Result<Attributes> {
        parse_attributes(&self.call(request)?)
    }
}

pub(crate) fn parse_attributes(answer: &Answer) -> Result<Attributes> {
    Attributes::parse(&answer.bytes).map_err(|_| Error::new(Errno::PROTO, Reason::BadAnswer))
}

/// A call on a name, for either place.
macro_rules! by_name {
    ($self:ident, $path:ident, |$at:ident, $local:ident| $system:expr, |$absolute:ident| $request:expr) => {{
        let $path = $path.as_ref().as_bytes();
        match &$self.0.place {
            Place::Local(folder) => {
                let $local = c_string($path)?;
                // Kept, not locked: to open a pipe waits for its other end.
                let folder = locked(folder).clone();
                let $at = folder.as_ref().map_or(CWD, std::os::fd::AsFd::as_fd);
                Ok($system?)
            }
            Place::Remote(remote) => {
                let $absolute = &remote.absolute($path)?[..];
                remote.call(&$request).map(drop)
            }
        }
    }};
}

/// As truncate(2), which no pipe lets wait and which does nothing to a device.
fn truncate_here(at: BorrowedFd<'_>, name: &CStr, size: u64) -> rustix::io::Result<()> {
    let open = |flags| rustix::fs::openat(at, name, flags | OFlags::CLOEXEC, Mode::empty());
    let found = rustix::fs::fstat(open(OFlags::PATH)?)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(Errno::ISDIR),
        _ => return Err(Errno::INVAL),
    }
    // If something else took its place meanwhile, ftruncate(2) refuses that.
    let file = open(OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    rustix::fs::ftruncate(file, size)
}

impl Node {
    /// The name that it was attached by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether it is this process's own node.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self.0.place, Place::Local(_))
    }

    /// Whether its server has ended: every call fails then with `EIO`.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match &self.0.place {
            Place::Local(_) => false,
            Place::Remote(remote) => remote.client.is_gone(remote.server),
        }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn place(&self) -> &Place {
        &self.0.place
    }

    /// Opens a file with the flags of open(2). `mode` is masked by this
    /// process's umask.
    ///
    /// # Errors
    /// Those of open(2); `EACCES` with a reason for what the server does not
    /// let through; `EINVAL` for `O_PATH`, `O_TMPFILE` and `O_DIRECT`.
    pub fn open(&self, path: impl AsRef<OsStr>, flags: i32, mode: u32) -> Result<File> {
        match &self.0.place {
            Place::Local(folder) => {
                // Kept, not locked: to open a pipe waits for its other end.
                let folder = locked(folder).clone();
                let at = folder.as_ref().map_or(CWD, std::os::fd::AsFd::as_fd);
                let flags = OFlags::from_bits_retain(flags as u32) | OFlags::CLOEXEC;
                let path = c_string(path.as_ref().as_bytes())?;
                let fd = rustix::fs::openat(at, path, flags, Mode::from_raw_mode(mode & 0o7777))?;
                Ok(File::new(self.clone(), Handle::Local(fd)))
            }
            Place::Remote(_) => {
                let mask = if flags & libc::O_CREAT == 0 { 0 } else { crate::setup::umask() };
                self.open_unmasked(path, flags, mode & !mask)
            }
        }
    }

    /// Opens a file with the flags of open(2) and a mode that has been masked already.
    ///
    /// # Errors
    /// As for [`Node::open`].
    pub fn open_unmasked(&self, path: impl AsRef<OsStr>, flags: i32, mode: u32) -> Result<File> {
        Ok(self.open_known(path, flags, mode)?.0)
    }

    /// Opens a file as [`Node::open_unmasked`] does; answers also what was known of the file when it had been opened.
    ///
    /// # Errors
    /// As for [`Node::open`].
    pub fn open_known(
        &self,
        path: impl AsRef<OsStr>,
        flags: i32,
        mode: u32,
    ) -> Result<(File, Attributes)> {
        let Place::Remote(remote) = &self.0.place else {
            let file = self.open(path, flags, mode)?;
            let found = file.attributes()?;
            return Ok((file, found));
        };
        let flags = wire_flags(flags)?;
        let path = remote.absolute(path.as_ref().as_bytes())?;
        let answer = remote.call(&Request::Open { flags, mode, path: &path })?;
        let handle =
            u32::try_from(answer.count).map_err(|_| Error::new(Errno::PROTO, Reason::BadAnswer))?;
        let appends = flags.has(OpenFlags::APPEND);
        // From here on dropping it closes it.
        let file = File::new(self.clone(), Handle::Remote { handle, appends });
        Ok((file, parse_attributes(&answer)?))
    }

    /// What is known of a file; of a symbolic link itself unless `follow`.
    ///
    /// # Errors
    /// Those of stat(2).
    pub fn attributes(&self, path: impl AsRef<OsStr>, follow: bool) -> Result<Attributes> {
        let path = path.as_ref().as_bytes();
        match &self.0.place {
            Place::Local(folder) => {
                let folder = locked(folder);
                let at = folder.as_ref().map_or(CWD, std::os::fd::AsFd::as_fd);
                let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
                Ok(rustix::fs::statat(at, c_string(path)?, flags)?.into())
            }
            Place::Remote(remote) => {
                remote.attributes(&Request::Stat { follow, path: &remote.absolute(path)? })
            }
        }
    }

    /// Makes `path` the folder where relative paths on this node begin.
    ///
    /// # Errors
    /// Those of chdir(2).
    pub fn enter(&self, path: impl AsRef<OsStr>) -> Result<()> {
        let bytes = path.as_ref().as_bytes();
        match &self.0.place {
            Place::Local(folder) => {
                let mut folder = locked(folder);
                let at = folder.as_ref().map_or(CWD, std::os::fd::AsFd::as_fd);
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let entered = rustix::fs::openat(at, c_string(bytes)?, flags, Mode::empty())?;
                // Looking for `.` in it takes the right to search it, as chdir(2) does.
                rustix::fs::accessat(
                    &entered,
                    c".",
                    rustix::fs::Access::EXEC_OK,
                    AtFlags::EACCESS,
                )?;
                *folder = Some(Arc::new(entered));
                Ok(())
            }
            Place::Remote(remote) => {
                let path = remote.absolute(bytes)?;
                let found = remote.call(&Request::Enter { path: &path })?.bytes;
                // Its real path: that of the way there would grow with every folder that is entered.
                let bad = |_| Error::new(Errno::PROTO, Reason::BadAnswer);
                check_len(&found, PATH_LEN_MAX).map_err(bad)?;
                *locked(&remote.folder) = found;
                Ok(())
            }
        }
    }

    /// Removes a name.
    ///
    /// # Errors
    /// Those of unlink(2).
    pub fn unlink(&self, path: impl AsRef<OsStr>) -> Result<()> {
        by_name!(
            self,
            path,
            |at, local| rustix::fs::unlinkat(at, local, AtFlags::empty()),
            |path| Request::Unlink { path }
        )
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// Those of rmdir(2).
    pub fn remove_dir(&self, path: impl AsRef<OsStr>) -> Result<()> {
        by_name!(
            self,
            path,
            |at, local| rustix::fs::unlinkat(at, local, AtFlags::REMOVEDIR),
            |path| Request::RemoveDir { path }
        )
    }

    /// Makes a folder, with `mode` masked by this process's umask.
    ///
    /// # Errors
    /// Those of mkdir(2).
    pub fn make_dir(&self, path: impl AsRef<OsStr>, mode: u32) -> Result<()> {
        let mask = if self.is_local() { 0 } else { crate::setup::umask() };
        self.make_dir_unmasked(path, mode & !mask)
    }

    /// Makes a folder, with a mode that has been masked already.
    ///
    /// # Errors
    /// Those of mkdir(2).
    pub fn make_dir_unmasked(&self, path: impl AsRef<OsStr>, mode: u32) -> Result<()> {
        by_name!(
            self,
            path,
            |at, local| rustix::fs::mkdirat(at, local, Mode::from_raw_mode(mode & 0o7777)),
            |path| Request::MakeDir { mode, path }
        )
    }

    /// Sets a file's length in bytes.
    ///
    /// # Errors
    /// Those of truncate(2).
    pub fn truncate(&self, path: impl AsRef<OsStr>, size: u64) -> Result<()> {
        by_name!(self, path, |at, local| truncate_here(at, &local, size), |path| {
            Request::Truncate { size, path }
        })
    }

    /// Sets a file's permissions.
    ///
    /// # Errors
    /// Those of chmod(2).
    pub fn set_mode(&self, path: impl AsRef<OsStr>, mode: u32) -> Result<()> {
        by_name!(
            self,
            path,
            |at, local| {
                let mode = Mode::from_raw_mode(mode & 0o7777);
                rustix::fs::chmodat(at, local, mode, AtFlags::empty())
            },
            |path| Request::SetMode { mode, path }
        )
    }

    /// Makes a symbolic link to `target` at `path`.
    ///
    /// # Errors
    /// Those of symlink(2).
    pub fn make_link(&self, target: impl AsRef<OsStr>, path: impl AsRef<OsStr>) -> Result<()> {
        let target = target.as_ref().as_bytes();
        check_path(target)?;
        by_name!(
            self,
            path,
            |at, local| rustix::fs::symlinkat(c_string(target)?, at, local),
            |path| Request::SymLink { target, path }
        )
    }

    /// Renames within the node.
    ///
    /// # Errors
    /// Those of rename(2).
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> Result<()> {
        self.pair(from.as_ref(), to.as_ref(), Pair::Rename(0))
    }

    /// Renames with the flags of renameat2(2).
    ///
    /// # Errors
    /// Those of renameat2(2).
    pub fn rename_with(
        &self,
        from: impl AsRef<OsStr>,
        to: impl AsRef<OsStr>,
        flags: u32,
    ) -> Result<()> {
        self.pair(from.as_ref(), to.as_ref(), Pair::Rename(flags))
    }

    /// Gives a file a second name.
    ///
    /// # Errors
    /// Those of link(2).
    pub fn hard_link(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> Result<()> {
        self.pair(from.as_ref(), to.as_ref(), Pair::HardLink)
    }

    fn pair(&self, from: &OsStr, to: &OsStr, what: Pair) -> Result<()> {
        let (from, to) = (from.as_bytes(), to.as_bytes());
        match &self.0.place {
            Place::Local(folder) => {
                let folder = locked(folder);
                let at = folder.as_ref().map_or(CWD, std::os::fd::AsFd::as_fd);
                let (from, to) = (c_string(from)?, c_string(to)?);
                match what {
                    Pair::Rename(flags) => {
                        let flags = RenameFlags::from_bits(flags).ok_or(Errno::INVAL)?;
                        rustix::fs::renameat_with(at, from, at, to, flags)?;
                    }
                    Pair::HardLink => {
                        rustix::fs::linkat(at, from, at, to, AtFlags::empty())?;
                    }
                }
                Ok(())
            }
            Place::Remote(remote) => {
                let (from, to) = (&remote.absolute(from)?[..], &remote.absolute(to)?[..]);
                let request = match what {
                    Pair::Rename(flags) => Request::Rename { flags, from, to },
                    Pair::HardLink => Request::HardLink { from, to },
                };
                remote.call(&request).map(drop)
            }
        }
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// Those of readlink(2).
    pub fn read_link(&self, path: impl AsRef<OsStr>) -> Result<Vec<u8>> {
        let path = path.as_ref().as_bytes();
        match &self.0.place {
            Place::Local(folder) => {
                let folder = locked(folder);
                let at = folder.as_ref().map_or(CWD, std::os::fd::AsFd::as_fd);
                Ok(rustix::fs::readlinkat(at, c_string(path)?, Vec::new())?.into_bytes())
            }
            Place::Remote(remote) => {
                let path = &remote.absolute(path)?[..];
                Ok(remote.call(&Request::ReadLink { path })?.bytes)
            }
        }
    }

    /// The room on the file system that `path` lies on.
    ///
    /// # Errors
    /// Those of statvfs(3).
    pub fn space(&self, path: impl AsRef<OsStr>) -> Result<Space> {
        let path = path.as_ref().as_bytes();
        let Place::Remote(remote) = &self.0.place else { return Err(Errno::NOSYS.into()) };
        let answer = remote.call(&Request::Space { path: &remote.absolute(path)? })?;
        Space::parse(&answer.bytes).map_err(|_| Error::new(Errno::PROTO, Reason::BadAnswer))
    }

    /// Sets a file's times; `None` leaves one as it is.
    ///
    /// # Errors
    /// Those of utimensat(2); `ENOSYS` on the own node.
    pub fn set_times(
        &self,
        path: impl AsRef<OsStr>,
        accessed: Option<NewTime>,
        modified: Option<NewTime>,
    ) -> Result<()> {
        let path = path.as_ref().as_bytes();
        let Place::Remote(remote) = &self.0.place else { return Err(Errno::NOSYS.into()) };
        let path = &remote.absolute(path)?[..];
        let (access, change) = (NewTime::wire(accessed), NewTime::wire(modified));
        remote.call(&Request::SetTimes { access, change, follow: false, path }).map(drop)
    }

    /// What the node's server has done and refused; `None` on the own node.
    ///
    /// # Errors
    /// `EIO` when the server has ended.
    pub fn counters(&self) -> Result<Option<Counters>> {
        let Place::Remote(remote) = &self.0.place else { return Ok(None) };
        let answer = remote.call(&Request::Counters)?;
        let counters = Counters::parse(&answer.bytes);
        counters.map(Some).ok_or_else(|| Error::new(Errno::PROTO, Reason::BadAnswer))
    }
}

/// A time that a file is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewTime {
    /// The server's present.
    Now,
    /// Seconds and nanoseconds since 1970.
    At(i64, u32),
}

impl NewTime {
    pub(crate) fn wire(time: Option<Self>) -> crate::wire::NewTime {
        match time {
            None => crate::wire::NewTime::Keep,
            Some(Self::Now) => crate::wire::NewTime::Now,
            Some(Self::At(seconds, nanos)) => crate::wire::NewTime::At { seconds, nanos },
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Pair {
    Rename(u32),
    HardLink,
}

#[cfg(test)]
mod tests;
