//! What programs have open: files by the server's handles, so that they outlive
//! their names, and folders as they were when they were opened.

use std::collections::HashMap;
use std::sync::Arc;

use wiglaf_files::{Entry, File};

/// Something open.
#[derive(Debug, Clone)]
pub(crate) enum Open {
    /// With the flags O_SYNC and O_DSYNC that it was opened with.
    File(Arc<File>, i32),
    /// Its names, and whether they have been read already.
    Folder(Arc<Vec<Entry>>, bool),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    open: HashMap<u64, Open>,
    /// The files that are open, by the kernel's numbers.
    by_ino: HashMap<u64, Vec<u64>>,
    last: u64,
}

impl Handles {
    pub(crate) fn add(&mut self, ino: u64, open: Open) -> u64 {
        self.last += 1;
        if matches!(open, Open::File(..)) {
            self.by_ino.entry(ino).or_default().push(self.last);
        }
        self.open.insert(self.last, open);
        self.last
    }

    pub(crate) fn get(&self, handle: u64) -> Option<&Open> {
        self.open.get(&handle)
    }

    pub(crate) fn file(&self, handle: u64) -> Option<Arc<File>> {
        self.file_and_sync(handle).map(|(file, _)| file)
    }

    pub(crate) fn file_and_sync(&self, handle: u64) -> Option<(Arc<File>, i32)> {
        match self.open.get(&handle)? {
            Open::File(file, sync) => Some((Arc::clone(file), *sync)),
            Open::Folder(..) => None,
        }
    }

    pub(crate) fn replace(&mut self, handle: u64, open: Open) {
        if let Some(old) = self.open.get_mut(&handle) {
            *old = open;
        }
    }

    /// Any open file of this number.
    pub(crate) fn any_of(&self, ino: u64) -> Option<Arc<File>> {
        self.by_ino.get(&ino)?.first().and_then(|handle| self.file(*handle))
    }

    pub(crate) fn remove(&mut self, ino: u64, handle: u64) -> Option<Open> {
        if let Some(handles) = self.by_ino.get_mut(&ino) {
            handles.retain(|other| *other != handle);
            if handles.is_empty() {
                self.by_ino.remove(&ino);
            }
        }
        self.open.remove(&handle)
    }
}
