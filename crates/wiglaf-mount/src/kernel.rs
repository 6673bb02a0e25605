//! The kernel's requests: taken apart, answered by a call or two, and put into
//! the kernel's words.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLock, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use rustix::io::Errno as Kernel;
use wiglaf_files::{Attributes, Result};

use crate::convert::{attr, errno, new_time};
use crate::handles::Open;
use crate::mounted::{ATTR_TTL, Mounted, name_ttl};

/// Largest read or write that the kernel asks for, in bytes.
const DATA_LEN_MAX: u32 = 1 << 20;

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
            Err(error) => $reply.error(errno(&error)),
        }
    };
}

impl Mounted {
    fn open_flags(&self) -> FopenFlags {
        // Nothing is held back that a close would have to wait for.
        let always = FopenFlags::FOPEN_NOFLUSH;
        if !self.is_direct {
            return always;
        }
        always | FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
    }
}

/// Tells the kernel of a file.
fn tell(found: Result<(u64, Attributes)>, reply: ReplyEntry) {
    answer!(reply, found, |(ino, found)| {
        let attr = entry_attr(ino, &found);
        reply.entry_with_ttls(&ATTR_TTL, &name_ttl(&found), &attr, Generation(0));
    });
}

/// What an entry says of a file. `fuser` takes the number in it for the
/// kernel's number; stat(2) shows what GETATTR says, which is the number that
/// the file's own node knows: the same for all its hard links.
fn entry_attr(ino: u64, found: &Attributes) -> fuser::FileAttr {
    fuser::FileAttr { ino: INodeNo(ino), ..attr(found) }
}

impl Filesystem for Mounted {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Who asks for more than the kernel has is told the most that it has.
        let _ = config.set_max_write(DATA_LEN_MAX);
        // Not FUSE_ASYNC_DIO: the parts of a call that does not wait would come all at once, and what it
        // appends would be there in any order.
        let _ = config.add_capabilities(InitFlags::FUSE_ATOMIC_O_TRUNC);
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        self.is_direct = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP).is_ok();
        if !self.is_direct {
            // Before Linux 6.6 shared mappings need the page cache: it is
            // emptied when a file is seen to have changed.
            let _ = config.add_capabilities(InitFlags::FUSE_AUTO_INVAL_DATA);
        }
        if !self.options.local_locks {
            let locks = InitFlags::FUSE_POSIX_LOCKS | InitFlags::FUSE_FLOCK_LOCKS;
            let unknown = |_| io::Error::other("this kernel cannot hand locks to the mount");
            config.add_capabilities(locks).map_err(unknown)?;
        }
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        tell(self.look_up(parent, name), reply);
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        self.inodes().forget(ino.0, nlookup);
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, self.attributes(ino, fh), |found| reply.attr(&ATTR_TTL, &self.attr(&found)));
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = || {
            self.change_owner(ino, fh, (uid, gid))?;
            if let Some(size) = size {
                self.resize(ino, fh, size)?;
            }
            if let Some(mode) = mode {
                self.set_mode(ino, mode & 0o7777)?;
            }
            // With a new size the kernel names the time that its own clock has.
            if (atime.is_some() || mtime.is_some()) && size.is_none() {
                self.set_times(ino, atime.map(new_time), mtime.map(new_time))?;
            }
            self.attributes(ino, fh)
        };
        answer!(reply, change(), |found| reply.attr(&ATTR_TTL, &self.attr(&found)));
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        answer!(reply, self.read_link(ino), |target| reply.data(&target));
    }

    fn mknod(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let found = self.make(parent, name, |path| {
            if mode & libc::S_IFMT != libc::S_IFREG {
                // Devices, pipes and sockets do not work across nodes.
                return Err(Kernel::PERM.into());
            }
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
            self.node.open_unmasked(path, flags, mode & 0o7777)?.close()
        });
        tell(found, reply);
    }

    fn mkdir(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let found =
            self.make(parent, name, |path| self.node.make_dir_unmasked(path, mode & 0o7777));
        tell(found, reply);
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let outcome = self.change(
            [(parent, name); 2],
            |path, _| self.node.unlink(path),
            |inodes| inodes.lose(parent.0, name),
        );
        answer!(reply, outcome, |()| reply.ok());
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let outcome = self.change(
            [(parent, name); 2],
            |path, _| self.node.remove_dir(path),
            |inodes| inodes.lose(parent.0, name),
        );
        answer!(reply, outcome, |()| reply.ok());
    }

    fn symlink(
        &self,
        _req: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let found = self.make(parent, link_name, |path| self.node.make_link(target, path));
        tell(found, reply);
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent.0, name), (newparent.0, newname));
        let outcome = self.change(
            [(parent, name), (newparent, newname)],
            |from, to| self.node.rename_with(from, to, flags.bits()),
            |inodes| match flags.contains(RenameFlags::RENAME_EXCHANGE) {
                true => inodes.exchange(from, to),
                false => inodes.rename(from, to),
            },
        );
        answer!(reply, outcome, |()| reply.ok());
    }

    fn link(
        &self,
        _req: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        tell(Self::link(self, ino, newparent, newname), reply);
    }

    fn access(&self, _req: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        answer!(reply, Self::access(self, ino, mask.bits()), |()| reply.ok());
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        answer!(reply, self.open_file(ino, flags.0), |handle| {
            reply.opened(handle, self.open_flags());
        });
    }

    fn create(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        answer!(reply, self.create_file(parent, name, flags, mode), |(ino, found, handle)| {
            let attr = entry_attr(ino, &found);
            reply.created(&ATTR_TTL, &attr, Generation(0), handle, self.open_flags());
        });
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        CONTENT.with_borrow_mut(|content| {
            let size = size as usize;
            if content.len() < size {
                content.resize(size, 0);
            }
            let into = &mut content[..size];
            let got = self.file(fh).and_then(|file| file.read_at(into, offset));
            answer!(reply, got, |got| reply.data(&into[..got]));
        });
    }

    fn write(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // What a mapped page holds has its place, whoever the kernel writes it as.
        let is_mapped = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        // As it is now: fcntl(2) changes it. The end that the kernel knows may be older than another
        // node's writes.
        let appends = flags.0 & libc::O_APPEND != 0 && !is_mapped;
        let offset = (!appends).then_some(offset);
        let count = Self::write(self, fh, data, offset, flags.0);
        answer!(reply, count, |count| reply.written(count as u32));
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Nothing was held back.
        reply.ok();
    }

    fn release(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.close_file(ino, fh);
        reply.ok();
    }

    fn fsync(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let outcome = self.file(fh).and_then(|file| file.sync(datasync));
        answer!(reply, outcome, |()| reply.ok());
    }

    fn opendir(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        answer!(reply, self.list(ino), |entries| {
            let handle = self.handles().add(ino.0, Open::Folder(Arc::new(entries), false));
            reply.opened(FileHandle(handle), FopenFlags::empty());
        });
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        answer!(reply, self.listed(ino, fh, offset), |entries| {
            let rest = entries.iter().enumerate().skip(offset as usize);
            for (at, entry) in rest {
                let kind = self.kind_of(ino, entry);
                let name = OsStr::from_bytes(&entry.name);
                if reply.add(self.entry_ino(ino, entry), at as u64 + 1, kind, name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn releasedir(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.handles().remove(ino.0, fh.0);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        answer!(reply, self.sync_folder(ino, datasync), |()| reply.ok());
    }

    fn statfs(&self, _req: &Request, ino: INodeNo, reply: ReplyStatfs) {
        answer!(reply, self.space(ino), |space| {
            let len = space.block_len as u32;
            let name_len = space.name_len_max as u32;
            reply.statfs(
                space.blocks,
                space.free,
                space.available,
                space.files,
                space.files_free,
                len,
                name_len,
                len,
            );
        });
    }

    fn getlk(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        _start: u64,
        _end: u64,
        _typ: i32,
        _pid: u32,
        reply: ReplyLock,
    ) {
        reply.error(Errno::ENOLCK);
    }

    fn setlk(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        _start: u64,
        _end: u64,
        typ: i32,
        _pid: u32,
        _sleep: bool,
        reply: ReplyEmpty,
    ) {
        // A lock that only one node knows of would be worse than none.
        match typ {
            libc::F_UNLCK => reply.ok(),
            _ => reply.error(Errno::ENOLCK),
        }
    }
}
