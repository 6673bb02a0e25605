//! The kernel's requests, answered by a call or two each, in the kernel's words.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::RenameFlags;
use rustix::io::Errno;
use wiglaf_files::{Attributes, Result};

use crate::convert::{attr, new_time};
use crate::fuse::{
    Attr, Capabilities, Entries, FOPEN_DIRECT_IO, FOPEN_NOFLUSH, FOPEN_PARALLEL_DIRECT_WRITES,
    Filesystem, NewAttributes, Opened, Operation, Reply, Request, Ttl, WRITE_CACHE, forgotten,
};
use crate::handles::Open;
use crate::mounted::{ATTR_TTL, Mounted, name_ttl};

thread_local! {
    /// Where file content is read to, so that no read begins with zeroing a
    /// megabyte.
    static CONTENT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Answers with the errno of what failed.
macro_rules! answer {
    ($reply:ident, $outcome:expr, |$value:pat_param| $good:expr) => {
        match $outcome {
            Ok($value) => $good,
            Err(error) => $reply.error(error.errno()),
        }
    };
}

impl Filesystem for Mounted {
    fn begin(&mut self, kernel: Capabilities) -> std::result::Result<u64, String> {
        // Not FUSE_ASYNC_DIO: the parts of a call that does not wait would come all at once, and what it
        // appends would be there in any order.
        let mut wanted = Capabilities::ASYNC_READ
            | Capabilities::BIG_WRITES
            | Capabilities::MAX_PAGES
            | Capabilities::ATOMIC_TRUNCATE
            | Capabilities::PARALLEL_DIR_CALLS
            | Capabilities::DIRECT_IO_MAPPED;
        self.is_direct = kernel.has(Capabilities::DIRECT_IO_MAPPED);
        if !self.is_direct {
            // Before Linux 6.6 shared mappings need the page cache: it is
            // emptied when a file is seen to have changed.
            wanted |= Capabilities::INVALIDATE_BY_ITSELF;
        }
        if !self.options.local_locks {
            let locks = Capabilities::POSIX_LOCKS | Capabilities::FLOCK_LOCKS;
            if !kernel.has(locks) {
                return Err("this kernel cannot hand locks to the mount".into());
            }
            wanted |= locks;
        }
        Ok(wanted)
    }

    fn carry_out(self: &Arc<Self>, request: &Request<'_>, reply: Reply) {
        let ino = request.ino;
        match request.operation {
            Operation::Lookup { name } => self.tell(self.look_up(ino, name), reply),
            Operation::Forget { count } => {
                self.inodes().forget(ino, count);
                reply.none();
            }
            Operation::ForgetMany { each } => {
                let mut inodes = self.inodes();
                forgotten(each).for_each(|(ino, count)| inodes.forget(ino, count));
                reply.none();
            }
            Operation::GetAttr { handle } => {
                answer!(reply, self.attributes(ino, handle), |found| {
                    reply.attr(ATTR_TTL, &self.attr(&found));
                });
            }
            Operation::SetAttr(new) => {
                answer!(reply, self.set_attributes(ino, &new), |found| {
                    reply.attr(ATTR_TTL, &self.attr(&found));
                });
            }
            Operation::ReadLink => {
                answer!(reply, self.read_link(ino), |target| reply.data(&target));
            }
            Operation::StatFs => answer!(reply, self.space(ino), |space| reply.space(&space)),
            Operation::Access { mask } => {
                answer!(reply, self.access(ino, mask as i32), |()| reply.ok());
            }
            Operation::MakeNode { .. }
            | Operation::MakeDir { .. }
            | Operation::SymLink { .. }
            | Operation::Link { .. } => self.tell(self.make_name(ino, &request.operation), reply),
            Operation::Unlink { .. } | Operation::RemoveDir { .. } | Operation::Rename { .. } => {
                answer!(reply, self.change_name(ino, &request.operation), |()| reply.ok());
            }
            Operation::OpenDir => answer!(reply, self.list(ino), |entries| {
                let handle = self.handles().add(ino, Open::Folder(Arc::new(entries), false));
                reply.opened(Opened { handle, flags: 0 });
            }),
            Operation::ReadDir { handle, offset, len } => {
                answer!(reply, self.read_dir(ino, handle, offset, len), |entries| {
                    reply.data(entries.bytes());
                });
            }
            Operation::ReleaseDir { handle } => {
                self.handles().remove(ino, handle);
                reply.ok();
            }
            Operation::SyncDir { data_only } => {
                answer!(reply, self.sync_folder(ino, data_only), |()| reply.ok());
            }
            Operation::Init { .. } => reply.error(libc::EIO),
            Operation::Destroy => reply.ok(),
            Operation::Other => reply.error(libc::ENOSYS),
            _ => self.of_file(request, reply),
        }
    }
}

impl Mounted {
    /// What is asked of an open file, or to open it.
    fn of_file(self: &Arc<Self>, request: &Request<'_>, reply: Reply) {
        let ino = request.ino;
        match request.operation {
            Operation::Open { flags } => answer!(reply, self.open_file(ino, flags), |handle| {
                reply.opened(Opened { handle, flags: self.open_flags() });
            }),
            Operation::Create { name, flags, mode } => {
                let created = self.create_file(ino, name, flags, mode);
                answer!(reply, created, |(ino, found, handle)| {
                    let ttl = Ttl { name: ATTR_TTL, attributes: ATTR_TTL };
                    let opened = Opened { handle, flags: self.open_flags() };
                    reply.created(ino, ttl, &entry_attr(ino, &found), opened);
                });
            }
            Operation::Read { handle, offset, len } => CONTENT.with_borrow_mut(|content| {
                let len = len as usize;
                if content.len() < len {
                    content.resize(len, 0);
                }
                let into = &mut content[..len];
                let got = self.file(handle).and_then(|file| file.read_at(into, offset));
                answer!(reply, got, |got| reply.data(&into[..got]));
            }),
            Operation::Write { handle, offset, data, write_flags, flags } => {
                // What a mapped page holds has its place, whoever the kernel writes it as.
                let is_mapped = write_flags & WRITE_CACHE != 0;
                // As it is now: fcntl(2) changes it. The end that the kernel knows may be older than another
                // node's writes.
                let appends = flags & libc::O_APPEND != 0 && !is_mapped;
                let offset = (!appends).then_some(offset);
                let count = self.write(handle, data, offset, flags);
                answer!(reply, count, |count| reply.written(count as u32));
            }
            Operation::Flush { handle, owner } => {
                // Nothing was held back but locks.
                answer!(reply, self.free_locks(ino, handle, owner), |()| reply.ok());
            }
            Operation::Release { handle } => {
                self.close_file(ino, handle);
                reply.ok();
            }
            Operation::Sync { handle, data_only } => {
                let outcome = self.file(handle).and_then(|file| file.sync(data_only));
                answer!(reply, outcome, |()| reply.ok());
            }
            Operation::GetLock(lock) => self.test_lock(&lock, reply),
            Operation::SetLock(lock, waits) => self.set_lock(ino, &lock, waits, reply),
            Operation::Interrupt { unique } => {
                self.interrupt(unique);
                reply.none();
            }
            _ => reply.error(libc::ENOSYS),
        }
    }

    fn open_flags(&self) -> u32 {
        // Nothing is held back that a close would have to wait for, but locks.
        let mut flags = if self.options.local_locks { FOPEN_NOFLUSH } else { 0 };
        if self.is_direct {
            flags |= FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
        }
        flags
    }

    /// Tells the kernel of a file.
    fn tell(&self, found: Result<(u64, Attributes)>, reply: Reply) {
        answer!(reply, found, |(ino, found)| {
            let ttl = Ttl { name: name_ttl(&found), attributes: ATTR_TTL };
            reply.entry(ino, ttl, &entry_attr(ino, &found));
        });
    }

    fn set_attributes(&self, ino: u64, new: &NewAttributes) -> Result<Attributes> {
        self.change_owner(ino, new.handle, (new.uid, new.gid))?;
        if let Some(size) = new.size {
            self.resize(ino, new.handle, size)?;
        }
        if let Some(mode) = new.mode {
            self.set_mode(ino, mode & 0o7777)?;
        }
        // With a new size the kernel names the time that its own clock has.
        if (new.accessed.is_some() || new.modified.is_some()) && new.size.is_none() {
            self.set_times(ino, new.accessed.map(new_time), new.modified.map(new_time))?;
        }
        self.attributes(ino, new.handle)
    }

    /// Whatever makes a name in the folder `ino`.
    fn make_name(&self, ino: u64, operation: &Operation<'_>) -> Result<(u64, Attributes)> {
        match *operation {
            Operation::MakeNode { name, mode } => self.make(ino, name, |path| {
                if mode & libc::S_IFMT != libc::S_IFREG {
                    // Devices, pipes and sockets do not work across nodes.
                    return Err(Errno::PERM.into());
                }
                let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
                self.node.open_unmasked(path, flags, mode & 0o7777)?.close()
            }),
            Operation::MakeDir { name, mode } => {
                self.make(ino, name, |path| self.node.make_dir_unmasked(path, mode & 0o7777))
            }
            Operation::SymLink { name, target } => {
                self.make(ino, name, |path| self.node.make_link(target, path))
            }
            Operation::Link { ino: file, name } => self.link(file, ino, name),
            _ => Err(Errno::NOSYS.into()),
        }
    }

    /// Whatever takes a name of the folder `ino` away.
    fn change_name(&self, ino: u64, operation: &Operation<'_>) -> Result<()> {
        match *operation {
            Operation::Unlink { name } => self.change(
                [(ino, name); 2],
                |path, _| self.node.unlink(path),
                |inodes| inodes.lose(ino, name),
            ),
            Operation::RemoveDir { name } => self.change(
                [(ino, name); 2],
                |path, _| self.node.remove_dir(path),
                |inodes| inodes.lose(ino, name),
            ),
            Operation::Rename { name, to, to_name, flags } => {
                let (from, to) = ((ino, name), (to, to_name));
                let exchanges = flags & RenameFlags::EXCHANGE.bits() != 0;
                self.change(
                    [from, to],
                    |from, to| self.node.rename_with(from, to, flags),
                    |inodes| match exchanges {
                        true => inodes.exchange(from, to),
                        false => inodes.rename(from, to),
                    },
                )
            }
            _ => Err(Errno::NOSYS.into()),
        }
    }

    fn read_dir(&self, ino: u64, handle: u64, offset: u64, len: u32) -> Result<Entries> {
        let listed = self.listed(ino, handle, offset)?;
        let mut entries = Entries::new(len);
        for (at, entry) in listed.iter().enumerate().skip(offset as usize) {
            let (number, kind) = (self.entry_ino(ino, entry), self.kind_of(ino, entry));
            if !entries.add(number, at as u64 + 1, kind, OsStr::from_bytes(&entry.name)) {
                break;
            }
        }
        Ok(entries)
    }
}

/// What an entry says of a file, by the number that the kernel asks by. stat(2) shows what GETATTR says,
/// which is the number that the file's own node knows, one for all its hard links.
fn entry_attr(ino: u64, found: &Attributes) -> Attr {
    Attr { ino, ..attr(found) }
}
