//! The rings that an AF_XDP socket shares with the kernel: one side produces,
//! the other consumes, and each tells the other how far it is.

use std::io;
use std::marker::PhantomData;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A mapping of ours; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to its owner alone and is reached only through it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Memory of ours, all 0.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        Self::new(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// `len` bytes of what a descriptor offers at an offset.
    pub(crate) fn of(fd: BorrowedFd<'_>, offset: libc::off_t, len: usize) -> io::Result<Self> {
        Self::new(len, libc::MAP_SHARED, fd.as_raw_fd(), offset)
    }

    fn new(len: usize, flags: libc::c_int, fd: i32, offset: libc::off_t) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_POPULATE,
                fd,
                offset,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A place within the mapping; `None` when it does not lie in it whole.
    pub(crate) fn place(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(len)?;
        // SAFETY: the place lies within the mapping.
        (end <= self.len).then(|| unsafe { self.at.add(offset) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; nothing borrowed from it
        // outlives its owner.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// One ring of entries `T`, of which we are one side.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    _mapping: Mapping,
    ours: NonNull<AtomicU32>,
    theirs: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// How far we are, told or not.
    at: u32,
    /// How far they were when we last looked.
    seen: u32,
    _entries: PhantomData<T>,
}

// SAFETY: the pointers are into the ring's own mapping, see there.
unsafe impl<T: Send> Send for Ring<T> {}

/// Which side of a ring is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Producer,
    Consumer,
}

impl<T: Copy> Ring<T> {
    /// Maps a ring of `size` entries, a power of two, that was made by a
    /// socket option.
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        page: libc::off_t,
        offsets: &libc::xdp_ring_offset,
        size: u32,
        side: Side,
    ) -> io::Result<Self> {
        let entries_len = size as usize * mem::size_of::<T>();
        let mapping = Mapping::of(fd, page, offsets.desc as usize + entries_len)?;
        let word = |offset: u64| {
            let place = mapping.place(offset as usize, mem::size_of::<u32>());
            place.map(NonNull::cast::<AtomicU32>).ok_or(io::ErrorKind::InvalidData)
        };
        let (producer, consumer) = (word(offsets.producer)?, word(offsets.consumer)?);
        let (ours, theirs) = match side {
            Side::Producer => (producer, consumer),
            Side::Consumer => (consumer, producer),
        };
        let flags = word(offsets.flags)?;
        let entries = mapping.place(offsets.desc as usize, entries_len);
        let entries = entries.ok_or(io::ErrorKind::InvalidData)?.cast::<T>();
        Ok(Self {
            _mapping: mapping,
            ours,
            theirs,
            flags,
            entries,
            size,
            at: 0,
            seen: 0,
            _entries: PhantomData,
        })
    }

    /// Produces an entry, to be told by [`Ring::tell`]; `false` when the ring
    /// is full.
    pub(crate) fn push(&mut self, entry: T) -> bool {
        if self.at.wrapping_sub(self.seen) >= self.size {
            self.look();
            if self.at.wrapping_sub(self.seen) >= self.size {
                return false;
            }
        }
        // SAFETY: the index lies within the entries, and the consumer does not
        // touch this one until it is told of it.
        unsafe { self.entries.add(self.index()).write(entry) };
        self.at = self.at.wrapping_add(1);
        true
    }

    /// Consumes an entry, which stays ours until [`Ring::tell`].
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.at == self.seen {
            self.look();
            if self.at == self.seen {
                return None;
            }
        }
        // SAFETY: the index lies within the entries, and the producer does not
        // touch this one until it is told that it is free.
        let entry = unsafe { self.entries.add(self.index()).read() };
        self.at = self.at.wrapping_add(1);
        Some(entry)
    }

    /// Whether a consumer has caught up with the producer.
    pub(crate) fn is_empty(&mut self) -> bool {
        if self.at == self.seen {
            self.look();
        }
        self.at == self.seen
    }

    /// Tells the other side how far we are.
    pub(crate) fn tell(&self) {
        // SAFETY: the word lies in the mapping, which lives as long as `self`.
        unsafe { self.ours.as_ref() }.store(self.at, Ordering::Release);
    }

    /// Whether the kernel wants to be woken to go on with this ring.
    pub(crate) fn needs_wakeup(&self) -> bool {
        // SAFETY: as in `tell`.
        let flags = unsafe { self.flags.as_ref() }.load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Whether the consumer has not taken all that was told.
    pub(crate) fn is_pending(&mut self) -> bool {
        self.look();
        self.at != self.seen
    }

    fn index(&self) -> usize {
        (self.at & (self.size - 1)) as usize
    }

    fn look(&mut self) {
        // SAFETY: as in `tell`.
        self.seen = unsafe { self.theirs.as_ref() }.load(Ordering::Acquire);
    }
}
