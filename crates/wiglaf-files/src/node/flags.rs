//! The flags of open(2), which differ between machines, as the protocol has them.

use rustix::io::Errno;

use crate::error::{Error, Reason, Result};
use crate::wire::OpenFlags;

/// Those that have no meaning across nodes are refused.
pub(super) fn wire_flags(flags: i32) -> Result<OpenFlags> {
    let makes_folder = libc::O_CREAT | libc::O_DIRECTORY;
    if flags & makes_folder == makes_folder {
        return Err(Errno::INVAL.into()); // as Linux since 6.3, before it looks at the path
    }
    let refused = libc::O_PATH | libc::O_TMPFILE & !libc::O_DIRECTORY | libc::O_DIRECT;
    if flags & refused != 0 {
        return Err(Error::new(Errno::INVAL, Reason::Flag));
    }
    let access = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => OpenFlags::READ,
        libc::O_WRONLY => OpenFlags::WRITE,
        libc::O_RDWR => OpenFlags::READ | OpenFlags::WRITE,
        _ => return Err(Error::new(Errno::INVAL, Reason::Flag)),
    };
    let bits = [
        (libc::O_APPEND, OpenFlags::APPEND),
        (libc::O_CREAT, OpenFlags::CREATE),
        (libc::O_EXCL, OpenFlags::EXCLUSIVE),
        (libc::O_TRUNC, OpenFlags::TRUNCATE),
        (libc::O_DIRECTORY, OpenFlags::DIRECTORY),
        (libc::O_NOFOLLOW, OpenFlags::NO_FOLLOW),
        (libc::O_SYNC, OpenFlags::SYNC),
        (libc::O_DSYNC, OpenFlags::DATA_SYNC),
    ];
    let set = bits.iter().filter(|(flag, _)| flags & flag == *flag).map(|(_, bit)| bit);
    Ok(OpenFlags(set.fold(access, |all, bit| all | bit)))
}
