//! The connection: agreed on once, then requests are read by some threads until the mount is gone.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::reply::{Out, Reply};
use super::request::{Operation, Request};

/// Largest read or write that the kernel asks for, in bytes.
const DATA_LEN_MAX: u32 = 1 << 20;
/// The pages that takes, where they are as short as they can be.
const PAGES_MAX: u16 = (DATA_LEN_MAX / 4096) as u16;
/// Room for a request: the kernel wants a page more than its longest write.
const REQUEST_LEN_MAX: usize = DATA_LEN_MAX as usize + (4 << 10);
/// The oldest protocol that has all that is used, that of Linux 5.4, and the newest that is known.
const MAJOR: u32 = 7;
const MINOR_MIN: u32 = 31;
const MINOR: u32 = 40;
/// Requests that no program waits for, such as reading ahead, under way at once, and from how many on the
/// kernel takes the mount for busy.
const BACKGROUND_MAX: u16 = 16;
const BUSY_FROM: u16 = 12;

/// What a kernel can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capabilities(pub(crate) u64);

impl Capabilities {
    pub(crate) const ASYNC_READ: u64 = 1;
    pub(crate) const POSIX_LOCKS: u64 = 1 << 1;
    pub(crate) const ATOMIC_TRUNCATE: u64 = 1 << 3;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const FLOCK_LOCKS: u64 = 1 << 10;
    pub(crate) const INVALIDATE_BY_ITSELF: u64 = 1 << 12;
    pub(crate) const PARALLEL_DIR_CALLS: u64 = 1 << 18;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    /// There are more than 32 of them.
    const EXTENDED: u64 = 1 << 30;
    pub(crate) const DIRECT_IO_MAPPED: u64 = 1 << 36;

    pub(crate) fn has(self, wanted: u64) -> bool {
        self.0 & wanted == wanted
    }
}

/// What answers.
pub(crate) trait Filesystem: Send + Sync + 'static {
    /// What of the kernel's abilities is to be used; an error in words if one is missing.
    fn begin(&mut self, kernel: Capabilities) -> Result<u64, String>;

    /// Carries a request out. The answer may come later, from another thread.
    fn carry_out(self: &Arc<Self>, request: &Request<'_>, reply: Reply);
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Session<F> {
    fuse: Arc<OwnedFd>,
    files: Arc<F>,
}

impl<F: Filesystem> Session<F> {
    /// Agrees with the kernel.
    pub(crate) fn new(fuse: OwnedFd, mut files: F) -> io::Result<Self> {
        let fuse = Arc::new(fuse);
        let mut buffer = vec![0; REQUEST_LEN_MAX];
        loop {
            let Some(len) = next(&fuse, &mut buffer)? else {
                return Err(io::ErrorKind::NotConnected.into());
            };
            let request = Request::parse(&buffer[..len]);
            let Ok(Request { unique, operation, .. }) = request else {
                return Err(io::Error::other("the kernel's first request makes no sense"));
            };
            let Operation::Init { major, minor, readahead_max, capabilities } = operation else {
                return Err(io::Error::other("the kernel asks before it has said what it can do"));
            };
            let reply = Reply::new(Arc::clone(&fuse), unique);
            if major > MAJOR {
                // It asks again, with our number.
                reply.data(&agreed(0, 0));
                continue;
            }
            if (major, minor) < (MAJOR, MINOR_MIN) {
                reply.error(libc::EPROTO);
                return Err(io::Error::other("the kernel is older than Linux 5.4"));
            }
            let kernel = Capabilities(capabilities);
            return match files.begin(kernel) {
                Ok(wanted) => {
                    let wanted = (wanted | Capabilities::EXTENDED) & capabilities;
                    reply.data(&agreed(readahead_max, wanted));
                    Ok(Self { fuse, files: Arc::new(files) })
                }
                Err(why) => {
                    reply.error(libc::ENOSYS);
                    Err(io::Error::other(why))
                }
            };
        }
    }

    /// Serves with so many threads until the mount is gone.
    pub(crate) fn run(self, threads: usize) -> io::Result<()> {
        let serve = || serve(&self.fuse, &self.files);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .map(|number| {
                    let name = format!("fuse-{number}");
                    std::thread::Builder::new().name(name).spawn_scoped(scope, serve)
                })
                .collect();
            let mut outcome = Ok(());
            for thread in threads {
                let ended = thread?.join();
                let ended = ended.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
                outcome = outcome.and(ended);
            }
            outcome
        })
    }
}

fn serve<F: Filesystem>(fuse: &Arc<OwnedFd>, files: &Arc<F>) -> io::Result<()> {
    let owner = rustix::process::geteuid().as_raw();
    let mut buffer = vec![0; REQUEST_LEN_MAX];
    while let Some(len) = next(fuse, &mut buffer)? {
        let Ok(request) = Request::parse(&buffer[..len]) else {
            // Whose it is is told by its head.
            let unique = buffer.get(8..16).and_then(|bytes| bytes.first_chunk());
            let unique = unique.map_or(0, |unique| u64::from_ne_bytes(*unique));
            Reply::new(Arc::clone(fuse), unique).error(libc::EIO);
            continue;
        };
        let reply = Reply::new(Arc::clone(fuse), request.unique);
        if request.has_caller() && request.uid != owner {
            reply.error(libc::EACCES);
            continue;
        }
        let is_last = request.operation == Operation::Destroy;
        files.carry_out(&request, reply);
        if is_last {
            break;
        }
    }
    Ok(())
}

/// Reads a request; nothing when the mount is gone.
fn next(fuse: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match rustix::io::read(fuse, &mut *buffer) {
            Ok(len) => return Ok(Some(len)),
            Err(Errno::NODEV) => return Ok(None),
            // A call was interrupted before it was read.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn agreed(readahead_max: u32, capabilities: u64) -> Vec<u8> {
    let mut out = Out::default();
    out.u32(MAJOR).u32(MINOR).u32(readahead_max).u32(capabilities as u32);
    out.u16(BACKGROUND_MAX).u16(BUSY_FROM).u32(DATA_LEN_MAX);
    // Times are to the nanosecond.
    out.u32(1).u16(PAGES_MAX).u16(0).u32((capabilities >> 32) as u32);
    out.0.resize(64, 0);
    out.0
}
