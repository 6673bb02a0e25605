//! Answers to the kernel: values to bytes.

use std::ffi::OsStr;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use wiglaf_files::Space;

/// Bytes of an answer's head.
const HEAD_LEN: usize = 16;

/// How long the kernel may believe a name, and attributes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ttl {
    pub(crate) name: Duration,
    pub(crate) attributes: Duration,
}

/// Attributes as the kernel has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attr {
    pub(crate) ino: u64,
    pub(crate) size: u64,
    pub(crate) blocks: u64,
    /// Last read, in seconds and nanoseconds since 1970.
    pub(crate) accessed: (i64, u32),
    pub(crate) modified: (i64, u32),
    pub(crate) changed: (i64, u32),
    pub(crate) mode: u32,
    pub(crate) links: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u32,
    pub(crate) block_len: u32,
}

/// A file that was opened: its handle, and flags for the kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opened {
    pub(crate) handle: u64,
    pub(crate) flags: u32,
}

/// The answer to one request. Dropping it without a word leaves a program waiting for ever, so it says EIO.
#[derive(Debug)]
pub(crate) struct Reply {
    fuse: Arc<OwnedFd>,
    unique: u64,
    is_said: bool,
}

impl Reply {
    pub(super) fn new(fuse: Arc<OwnedFd>, unique: u64) -> Self {
        Self { fuse, unique, is_said: false }
    }

    /// The request's number.
    pub(crate) fn unique(&self) -> u64 {
        self.unique
    }

    fn send(&mut self, errno: i32, body: &[&[u8]]) {
        self.is_said = true;
        let len = HEAD_LEN + body.iter().map(|part| part.len()).sum::<usize>();
        let mut head = [0; HEAD_LEN];
        head[..4].copy_from_slice(&(len as u32).to_ne_bytes());
        head[4..8].copy_from_slice(&(-errno).to_ne_bytes());
        head[8..].copy_from_slice(&self.unique.to_ne_bytes());
        let mut parts = vec![IoSlice::new(&head)];
        parts.extend(body.iter().filter(|part| !part.is_empty()).map(|part| IoSlice::new(part)));
        // One call, as the kernel takes an answer whole; it refuses one to a call that has been given up.
        let _ = rustix::io::writev(&*self.fuse, &parts);
    }

    /// Nothing is said of it.
    pub(crate) fn none(mut self) {
        self.is_said = true;
    }

    pub(crate) fn error(mut self, errno: i32) {
        self.send(errno, &[]);
    }

    pub(crate) fn ok(self) {
        self.data(&[]);
    }

    pub(crate) fn data(mut self, bytes: &[u8]) {
        self.send(0, &[bytes]);
    }

    /// What there is under a name; `ino` is the number that the kernel shall ask by.
    pub(crate) fn entry(self, ino: u64, ttl: Ttl, attr: &Attr) {
        self.data(&entry(ino, ttl, attr));
    }

    pub(crate) fn created(mut self, ino: u64, ttl: Ttl, attr: &Attr, opened: Opened) {
        self.send(0, &[&entry(ino, ttl, attr), &opened.bytes()]);
    }

    pub(crate) fn opened(self, opened: Opened) {
        self.data(&opened.bytes());
    }

    pub(crate) fn attr(self, ttl: Duration, attr: &Attr) {
        let mut out = Out::default();
        out.u64(ttl.as_secs()).u32(ttl.subsec_nanos()).u32(0);
        attr.put(&mut out);
        self.data(&out.0);
    }

    pub(crate) fn written(self, count: u32) {
        let mut out = Out::default();
        out.u32(count).u32(0);
        self.data(&out.0);
    }

    /// A lock that is in the way; `kind` as `l_type` has it.
    pub(crate) fn lock(self, start: u64, last: u64, kind: u32, pid: u32) {
        let mut out = Out::default();
        out.u64(start).u64(last).u32(kind).u32(pid);
        self.data(&out.0);
    }

    pub(crate) fn space(self, space: &Space) {
        let len = space.block_len as u32;
        let mut out = Out::default();
        for count in [space.blocks, space.free, space.available, space.files, space.files_free] {
            out.u64(count);
        }
        out.u32(len).u32(space.name_len_max as u32).u32(len);
        out.0.resize(80, 0);
        self.data(&out.0);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_said {
            self.send(libc::EIO, &[]);
        }
    }
}

impl Opened {
    fn bytes(self) -> Vec<u8> {
        let mut out = Out::default();
        out.u64(self.handle).u32(self.flags).u32(0);
        out.0
    }
}

fn entry(ino: u64, ttl: Ttl, attr: &Attr) -> Vec<u8> {
    let mut out = Out::default();
    out.u64(ino).u64(0).u64(ttl.name.as_secs()).u64(ttl.attributes.as_secs());
    out.u32(ttl.name.subsec_nanos()).u32(ttl.attributes.subsec_nanos());
    attr.put(&mut out);
    out.0
}

impl Attr {
    fn put(&self, out: &mut Out) {
        let times = [self.accessed, self.modified, self.changed];
        out.u64(self.ino).u64(self.size).u64(self.blocks);
        for (seconds, _) in times {
            out.u64(seconds as u64);
        }
        for (_, nanos) in times {
            out.u32(nanos);
        }
        for field in [self.mode, self.links, self.uid, self.gid, self.rdev, self.block_len, 0] {
            out.u32(field);
        }
    }
}

/// Names of a folder, as many as the kernel has room for.
#[derive(Debug)]
pub(crate) struct Entries {
    out: Out,
    len_max: usize,
}

impl Entries {
    pub(crate) fn new(len_max: u32) -> Self {
        Self { out: Out::default(), len_max: len_max as usize }
    }

    /// Adds a name, its type as `d_type` has it; `next` is where the list goes on behind it. False if there
    /// is no room.
    pub(crate) fn add(&mut self, ino: u64, next: u64, kind: u8, name: &OsStr) -> bool {
        let name = name.as_bytes();
        let len = (24 + name.len()).next_multiple_of(8);
        if self.out.0.len() + len > self.len_max {
            return false;
        }
        let end = self.out.0.len() + len;
        self.out.u64(ino).u64(next).u32(name.len() as u32).u32(kind.into());
        self.out.0.extend_from_slice(name);
        self.out.0.resize(end, 0);
        true
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.out.0
    }
}

#[derive(Debug, Default)]
pub(super) struct Out(pub(super) Vec<u8>);

impl Out {
    pub(super) fn u16(&mut self, field: u16) -> &mut Self {
        self.0.extend(field.to_ne_bytes());
        self
    }

    pub(super) fn u32(&mut self, field: u32) -> &mut Self {
        self.0.extend(field.to_ne_bytes());
        self
    }

    pub(super) fn u64(&mut self, field: u64) -> &mut Self {
        self.0.extend(field.to_ne_bytes());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folders_names_end_where_the_kernel_has_no_more_room() {
        let mut entries = Entries::new(64);
        assert!(entries.add(1, 1, 8, OsStr::new("12345678")));
        assert!(entries.add(2, 2, 4, OsStr::new("a")));
        assert!(!entries.add(3, 3, 4, OsStr::new("")));
        assert_eq!(entries.bytes().len(), 64);
        assert_eq!(entries.bytes()[24..32], *b"12345678");
    }

    #[test]
    fn a_dropped_reply_answers_eio() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let fuse = Arc::new(OwnedFd::from(theirs));
        drop(Reply::new(Arc::clone(&fuse), 7));
        Reply::new(Arc::clone(&fuse), 8).none();
        Reply::new(fuse, 9).ok();
        let mut said = [0; 32];
        std::io::Read::read_exact(&mut &ours, &mut said).unwrap();
        let head = |at: usize| {
            let field =
                |from: usize| i32::from_ne_bytes(said[at + from..][..4].try_into().unwrap());
            (field(0), field(4), field(8))
        };
        assert_eq!((head(0), head(16)), ((16, -libc::EIO, 7), (16, 0, 9)));
    }
}
