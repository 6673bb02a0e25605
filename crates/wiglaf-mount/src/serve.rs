//! A mount's life in the process that serves it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use wiglaf_files::Node;

use crate::fuse::Session;
use crate::mounted::Mounted;

/// Requests that are under way at once; a slow one holds up one of them.
const THREADS: usize = 8;
/// How often it is looked whether the server lives while nobody calls it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long calls that were under way have to end with EIO when the server has
/// died, before the connection ends.
const LAST_CALLS: Duration = Duration::from_millis(300);

/// What a mount does beyond the ordinary.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Locks are kept by this machine's kernel, for this mount alone; otherwise
    /// by the file's node, for all.
    pub local_locks: bool,
}

/// Answers the requests of `fuse`, which [`crate::connect`] has mounted, with
/// the files below the absolute path `root` of `node`. `ready` is called when
/// the mount works. Returns when it has been taken away; `lost` is called when
/// the node's server has ended: every call fails then, and will.
///
/// # Errors
/// When the connection to the kernel cannot be used, or `root` is not there.
pub fn serve(
    node: Node,
    root: &OsStr,
    fuse: OwnedFd,
    options: Options,
    ready: impl FnOnce(),
    lost: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    // All links have been followed when the kernel asks.
    node.stay_in(root)?;
    let watched = node.clone();
    let root_dev = node.attributes(root, true)?.dev;
    let files = Mounted::new(node, root, root_dev, options);
    let session = Session::new(fuse, files)?;
    std::thread::Builder::new().spawn(move || {
        // Looking also takes in what came for calls that nobody waits for.
        while !watched.is_gone() {
            std::thread::sleep(LOOK_EVERY);
        }
        std::thread::sleep(LAST_CALLS);
        lost();
    })?;
    ready();
    session.run(THREADS)
}
