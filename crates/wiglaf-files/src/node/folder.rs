//! Listing folders: the names come in batches. And the folder that all else lies in.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

use rustix::fs::Dir;
use rustix::io::Errno;

use super::{Node, Place};
use crate::error::{Error, Reason, Result};
use crate::file::{File, Handle};
use crate::roots::listing_of;
use crate::wire::{Attributes, Entry, Request};

impl Node {
    /// Opens a folder to list it.
    ///
    /// # Errors
    /// Those of opendir(3).
    pub fn list(&self, path: impl AsRef<OsStr>) -> Result<Folder> {
        Ok(self.list_known(path)?.0)
    }

    /// Opens a folder to list it; answers also what was known of the folder when it had been opened.
    ///
    /// # Errors
    /// Those of opendir(3).
    pub fn list_known(&self, path: impl AsRef<OsStr>) -> Result<(Folder, Attributes)> {
        let (file, found) = self.open_known(path, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        let local = match file.handle() {
            Handle::Local(fd) => Some(listing_of(fd)?),
            Handle::Remote { .. } => None,
        };
        let batch = Vec::new().into_iter();
        Ok((Folder { file, local, batch, restart: false, back: None }, found))
    }

    /// From now on paths in the folder `path` lead from the folder that is there
    /// now, and fail with `ELOOP` where they go through a symbolic link: for who has
    /// followed all links already. It goes for all who share the node.
    ///
    /// # Errors
    /// Those of open(2); `ENOSYS` on the own node.
    pub fn stay_in(&self, path: impl AsRef<OsStr>) -> Result<()> {
        let Place::Remote(remote) = &self.0.place else { return Err(Errno::NOSYS.into()) };
        let path = &remote.absolute(path.as_ref().as_bytes())?[..];
        remote.call(&Request::Root { path })?;
        remote.has_long_paths.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// A folder that is being listed.
#[derive(Debug)]
pub struct Folder {
    file: File,
    local: Option<Dir>,
    batch: std::vec::IntoIter<Entry>,
    restart: bool,
    /// What was put back.
    back: Option<Entry>,
}

impl Folder {
    /// The next name, `.` and `..` among them.
    ///
    /// # Errors
    /// Those of readdir(3).
    pub fn next_entry(&mut self) -> Result<Option<Entry>> {
        if let Some(entry) = self.back.take() {
            return Ok(Some(entry));
        }
        if let Some(dir) = &mut self.local {
            return Ok(dir.read().transpose()?.map(|entry| Entry::of(&entry)));
        }
        if let Some(entry) = self.batch.next() {
            return Ok(Some(entry));
        }
        let restart = std::mem::take(&mut self.restart);
        let bytes = self.file.list_more(restart)?;
        let entries =
            Entry::parse_all(&bytes).map_err(|_| Error::new(Errno::PROTO, Reason::BadAnswer))?;
        self.batch = entries.into_iter();
        Ok(self.batch.next())
    }

    /// The next call answers this one again.
    pub(crate) fn put_back(&mut self, entry: Entry) {
        self.back = Some(entry);
    }

    /// Begins again.
    pub fn rewind(&mut self) {
        self.back = None;
        match &mut self.local {
            Some(dir) => dir.rewind(),
            None => {
                self.batch = Vec::new().into_iter();
                self.restart = true;
            }
        }
    }
}
