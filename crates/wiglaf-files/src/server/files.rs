//! The open files of a server, and what requests do to them.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, Dir, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, chmodat,
    fchmod, fcntl_getfl, fcntl_setfl, fdatasync, fstat, fstatvfs, fsync, ftruncate, futimens,
    linkat, mkdirat, readlinkat, renameat_with, seek, symlinkat, unlinkat, utimensat,
};
use rustix::io::{Errno, pread, pwrite, write};

use super::locks::Locks;
use crate::error::{Error, Reason, Result};
use crate::roots::{Roots, c_string, listing_of, own_path};
use crate::wire::{
    ANSWER_LEN_MAX, APPEND, Attributes, Entry, Lock, NewTime, OpenFlags, Request, Space, VERSION,
    WRITE_OVER,
};

/// Most files that one client has open on a node.
const OPEN_MAX: usize = 4096;
/// Handles are a slot and a generation, so that one that was closed is not
/// taken for its successor.
const SLOT_BITS: u32 = 12;

/// What a request gives back.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) count: u64,
    pub(super) payload: Vec<u8>,
}

impl Outcome {
    pub(super) fn with(count: u64, payload: Vec<u8>) -> Self {
        Self { count, payload }
    }
}

#[derive(Debug)]
struct Open {
    file: OwnedFd,
    appends: bool,
    /// Made when it is first listed.
    listing: Option<Listing>,
}

#[derive(Debug)]
struct Listing {
    dir: Dir,
    /// What did not fit the last answer.
    next: Option<Entry>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Files {
    roots: Roots,
    open: Vec<(u32, Option<Open>)>,
    locks: Locks,
}

fn find(open: &mut [(u32, Option<Open>)], handle: u32) -> Result<&mut Open> {
    let slot = (handle & ((1 << SLOT_BITS) - 1)) as usize;
    match open.get_mut(slot) {
        Some((generation, Some(open))) if *generation == handle >> SLOT_BITS => Ok(open),
        _ => Err(Error::new(Errno::BADF, Reason::BadHandle)),
    }
}

impl Files {
    pub(super) fn new(roots: Roots) -> Self {
        Self { roots, open: Vec::new(), locks: Locks::default() }
    }

    fn get(&mut self, handle: u32) -> Result<&mut Open> {
        find(&mut self.open, handle)
    }

    fn add(&mut self, open: Open) -> Result<u32> {
        let free = self.open.iter().position(|(_, open)| open.is_none());
        let slot = match free {
            Some(slot) => slot,
            None if self.open.len() < OPEN_MAX => {
                self.open.push((0, None));
                self.open.len() - 1
            }
            None => return Err(Error::new(Errno::MFILE, Reason::Limit)),
        };
        self.open[slot].1 = Some(open);
        Ok(self.open[slot].0 << SLOT_BITS | slot as u32)
    }

    fn close(&mut self, handle: u32) -> Result<Outcome> {
        self.get(handle)?;
        self.locks.close(handle);
        let slot = (handle & ((1 << SLOT_BITS) - 1)) as usize;
        let (generation, open) = &mut self.open[slot];
        *generation = (*generation + 1) & (u32::MAX >> SLOT_BITS);
        drop(open.take());
        Ok(Outcome::default())
    }

    /// Reads from `offset` on; fewer bytes than wanted only at the file's end.
    pub(super) fn read(&mut self, handle: u32, into: &mut [u8], offset: u64) -> Result<usize> {
        let file = &self.get(handle)?.file;
        let mut got = 0;
        loop {
            match pread(file, &mut into[got..], offset + got as u64) {
                Ok(0) => return Ok(got),
                Ok(count) => got += count,
                Err(Errno::INTR) => {}
                // What was read counts, as with read(2).
                Err(_) if got > 0 => return Ok(got),
                Err(errno) => return Err(errno.into()),
            }
            if got == into.len() {
                return Ok(got);
            }
        }
    }

    /// Writes; who appends is answered with the new position.
    pub(super) fn write(&mut self, handle: u32, bytes: &[u8], offset: u64) -> Result<Outcome> {
        let open = self.get(handle)?;
        let append = match offset {
            //= docs/files-protocol.md#4-file-content
            //# A server MUST append what has the offset 2^64 - 1, however the file was opened.
            APPEND => true,
            offset if offset & WRITE_OVER == 0 => open.appends,
            //= docs/files-protocol.md#4-file-content
            //# A server MUST write at its offset what has that offset's highest bit set to a file that was opened to append, and refuse it with EINVAL for any other file.
            _ if open.appends => false,
            _ => return Err(Errno::INVAL.into()),
        };
        let offset = offset & !WRITE_OVER;
        if append == open.appends {
            return Self::write_to(open, bytes, offset, append);
        }
        // Linux appends all that is written to a file with this flag, also by pwrite(2), so it is
        // changed meanwhile.
        let flags = fcntl_getfl(&open.file)?;
        fcntl_setfl(&open.file, flags ^ OFlags::APPEND)?;
        let outcome = Self::write_to(open, bytes, offset, append);
        fcntl_setfl(&open.file, flags)?;
        outcome
    }

    fn write_to(open: &Open, bytes: &[u8], offset: u64, append: bool) -> Result<Outcome> {
        let mut done = 0;
        loop {
            let rest = &bytes[done..];
            let written = match append {
                true => write(&open.file, rest),
                false => pwrite(&open.file, rest, offset + done as u64),
            };
            match written {
                Ok(count) => done += count,
                Err(Errno::INTR) => continue,
                Err(errno) if done == 0 => return Err(errno.into()),
                // What was written counts; the next call finds the cause.
                Err(_) => break,
            }
            if done == bytes.len() || written == Ok(0) {
                break;
            }
        }
        let mut payload = Vec::new();
        if append {
            payload.extend(seek(&open.file, rustix::fs::SeekFrom::Current(0))?.to_le_bytes());
        }
        Ok(Outcome::with(done as u64, payload))
    }

    /// Everything that moves no file content.
    pub(super) fn carry_out(&mut self, request: &Request<'_>) -> Result<Outcome> {
        match *request {
            Request::Hello { .. } => Ok(self.hello()),
            Request::Open { flags, mode, path } => self.open_file(flags, mode, path),
            Request::Close { handle } => self.close(handle),
            Request::Stat { follow, path } => {
                Ok(Outcome::with(0, attributes(&self.roots.find(path, follow)?)?))
            }
            Request::StatHandle { handle } => {
                Ok(Outcome::with(0, attributes(&self.get(handle)?.file)?))
            }
            Request::Sync { handle, data_only } => {
                let file = &self.get(handle)?.file;
                if data_only {
                    fdatasync(file)?;
                } else {
                    fsync(file)?;
                }
                Ok(Outcome::default())
            }
            Request::TruncateHandle { handle, size } => {
                ftruncate(&self.get(handle)?.file, size)?;
                Ok(Outcome::default())
            }
            Request::TestLock { handle, ref lock } => {
                let file = &find(&mut self.open, handle)?.file;
                let found = self.locks.in_the_way(file, lock)?;
                let mut payload = Vec::new();
                found.unwrap_or_default().put(&mut payload);
                Ok(Outcome::with(u64::from(found.is_some()), payload))
            }
            Request::FreeLocks { handle, owner } => {
                let file = &find(&mut self.open, handle)?.file;
                self.locks.free(file, owner)?;
                Ok(Outcome::default())
            }
            Request::SetModeHandle { handle, mode } => {
                fchmod(&self.get(handle)?.file, Mode::from_raw_mode(mode & 0o7777))?;
                Ok(Outcome::default())
            }
            Request::SetTimesHandle { handle, access, change } => {
                futimens(&self.get(handle)?.file, &times(access, change))?;
                Ok(Outcome::default())
            }
            Request::ReadDir { handle, restart } => self.list(handle, restart),
            Request::Root { path } => {
                self.roots.set_own(path)?;
                Ok(Outcome::default())
            }
            Request::Read { .. }
            | Request::Write { .. }
            | Request::WriteBulk { .. }
            | Request::Lock { .. }
            | Request::EndWait { .. }
            | Request::Counters => Err(Error::new(Errno::NOSYS, Reason::Unknown)),
            ref by_name => self.by_name(by_name),
        }
    }

    /// Takes a lock, or gives it back; nothing when it is waited for from now on.
    pub(super) fn lock(
        &mut self,
        id: u64,
        handle: u32,
        lock: &Lock,
        waits: bool,
    ) -> Option<Result<Outcome>> {
        let outcome = find(&mut self.open, handle).and_then(|open| {
            match self.locks.set(&open.file, handle, lock) {
                Err(error) if waits && error.errno() == libc::EAGAIN => {
                    self.locks.wait(id, &open.file, handle, lock).map(|()| None)
                }
                outcome => outcome.map(|()| Some(Outcome::default())),
            }
        });
        outcome.transpose()
    }

    /// Ends the wait for a lock; false if there is none with that number.
    pub(super) fn end_wait(&mut self, id: u64) -> bool {
        self.locks.end_wait(id)
    }

    /// How long until locks that are waited for are to be asked for again, if there are any.
    pub(super) fn until_locks(&self, now: Instant) -> Option<Duration> {
        self.locks.until_due(now)
    }

    /// Asks again for locks that are waited for; answers those waits that have ended.
    pub(super) fn ask_for_locks(&mut self, now: Instant) -> Vec<(u64, Result<Outcome>)> {
        let mut ended = Vec::new();
        for wait in self.locks.take_due(now) {
            let open = find(&mut self.open, wait.handle);
            let outcome = open.and_then(|open| self.locks.set(&open.file, wait.handle, &wait.lock));
            match outcome {
                Err(error) if error.errno() == libc::EAGAIN => self.locks.put_back(wait, now),
                outcome => ended.push((wait.id, outcome.map(|()| Outcome::default()))),
            }
        }
        ended
    }

    /// The exported folders, by which the client knows where it may go.
    fn hello(&self) -> Outcome {
        let mut payload = Vec::new();
        for path in self.roots.paths() {
            let path = path.as_os_str().as_encoded_bytes();
            if payload.len() + path.len() < ANSWER_LEN_MAX {
                payload.extend(path);
                payload.push(0);
            }
        }
        Outcome::with(u64::from(VERSION), payload)
    }

    fn open_file(&mut self, flags: OpenFlags, mode: u32, path: &[u8]) -> Result<Outcome> {
        if self.open.len() == OPEN_MAX && self.open.iter().all(|(_, open)| open.is_some()) {
            return Err(Error::new(Errno::MFILE, Reason::Limit));
        }
        let file = self.roots.open_file(path, flags, mode)?;
        let payload = attributes(&file)?;
        let appends = flags.has(OpenFlags::APPEND);
        let handle = self.add(Open { file, appends, listing: None })?;
        Ok(Outcome::with(u64::from(handle), payload))
    }

    fn list(&mut self, handle: u32, restart: bool) -> Result<Outcome> {
        let open = self.get(handle)?;
        let listing = match &mut open.listing {
            Some(listing) => listing,
            none => none.insert(Listing { dir: listing_of(&open.file)?, next: None }),
        };
        if restart {
            listing.dir.rewind();
            listing.next = None;
        }
        let mut payload = Vec::new();
        let mut count = 0;
        loop {
            let entry = match listing.next.take() {
                Some(entry) => entry,
                None => match listing.dir.read() {
                    None => break,
                    Some(Err(errno)) => return Err(errno.into()),
                    Some(Ok(entry)) => Entry::of(&entry),
                },
            };
            if payload.len() + entry.wire_len() > ANSWER_LEN_MAX {
                listing.next = Some(entry);
                break;
            }
            entry.put(&mut payload);
            count += 1;
        }
        Ok(Outcome::with(count, payload))
    }

    /// What works on names.
    fn by_name(&mut self, request: &Request<'_>) -> Result<Outcome> {
        let roots = &self.roots;
        match *request {
            Request::Truncate { size, path } => {
                let flags = OpenFlags(OpenFlags::WRITE);
                ftruncate(&roots.open_file(path, flags, 0)?, size)?;
            }
            Request::Unlink { path } => {
                let at = roots.place(path)?;
                unlinkat(&at.folder, &at.name, AtFlags::empty())?;
            }
            Request::RemoveDir { path } => {
                let at = roots.place(path)?;
                unlinkat(&at.folder, &at.name, AtFlags::REMOVEDIR)?;
            }
            Request::Rename { flags, from, to } => {
                let (from, to) = (roots.place(from)?, roots.place(to)?);
                let flags = RenameFlags::from_bits(flags).ok_or(Errno::INVAL)?;
                if flags.contains(RenameFlags::WHITEOUT) {
                    return Err(Errno::INVAL.into());
                }
                renameat_with(&from.folder, &from.name, &to.folder, &to.name, flags)?;
            }
            Request::MakeDir { mode, path } => {
                let at = roots.new_place(path)?;
                mkdirat(&at.folder, &at.name, Mode::from_raw_mode(mode & 0o7777))?;
            }
            Request::SymLink { target, path } => {
                let at = roots.new_place(path)?;
                symlinkat(c_string(target)?, &at.folder, &at.name)?;
            }
            Request::HardLink { from, to } => {
                // The kernel asks first whether there is such a file.
                roots.find(from, false)?;
                let (from, to) = (roots.place(from)?, roots.new_place(to)?);
                linkat(&from.folder, &from.name, &to.folder, &to.name, AtFlags::empty())?;
            }
            Request::SetMode { mode, path } => {
                // Through the folder's own entry in /proc, as chmod takes no O_PATH descriptor.
                let found = roots.find(path, true)?;
                chmodat(
                    rustix::fs::CWD,
                    own_path(&found),
                    Mode::from_raw_mode(mode & 0o7777),
                    AtFlags::empty(),
                )?;
            }
            Request::SetTimes { access, change, follow, path } => {
                let found = roots.find(path, follow)?;
                utimensat(&found, c"", &times(access, change), AtFlags::EMPTY_PATH)?;
            }
            Request::ReadLink { path } => {
                let found = roots.find(path, false)?;
                let target = readlinkat(&found, c"", Vec::new()).map_err(|errno| match errno {
                    // What the kernel says of a descriptor that is no link.
                    Errno::NOENT => Errno::INVAL,
                    errno => errno,
                })?;
                let target = target.into_bytes();
                return Ok(Outcome::with(target.len() as u64, target));
            }
            Request::Enter { path } => {
                let found = roots.enter(path)?;
                return Ok(Outcome::with(found.len() as u64, found));
            }
            Request::Space { path } => {
                let found = fstatvfs(&roots.find(path, true)?)?;
                let mut payload = Vec::new();
                Space {
                    block_len: found.f_frsize,
                    blocks: found.f_blocks,
                    free: found.f_bfree,
                    available: found.f_bavail,
                    files: found.f_files,
                    files_free: found.f_ffree,
                    name_len_max: found.f_namemax,
                }
                .put(&mut payload);
                return Ok(Outcome::with(0, payload));
            }
            _ => return Err(Error::new(Errno::NOSYS, Reason::Unknown)),
        }
        Ok(Outcome::default())
    }
}

fn attributes(file: &OwnedFd) -> Result<Vec<u8>> {
    let mut payload = Vec::with_capacity(Attributes::LEN);
    Attributes::from(fstat(file)?).put(&mut payload);
    Ok(payload)
}

fn times(access: NewTime, change: NewTime) -> Timestamps {
    Timestamps { last_access: time(access), last_modification: time(change) }
}

fn time(time: NewTime) -> Timespec {
    match time {
        NewTime::Keep => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        NewTime::Now => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        NewTime::At { seconds, nanos } => Timespec { tv_sec: seconds, tv_nsec: i64::from(nanos) },
    }
}
