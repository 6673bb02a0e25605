//! What a path must be before it is asked for: that of a call, and that of a request.

use rustix::io::Errno;

use crate::error::Result;
use crate::roots::CALL_PATH_LEN_MAX;

/// A path that a program may give a call.
pub(super) fn check_path(path: &[u8]) -> Result<()> {
    check_len(path, CALL_PATH_LEN_MAX)
}

/// A path of at most so many bytes.
pub(super) fn check_len(path: &[u8], len_max: usize) -> Result<()> {
    match path {
        [] => Err(Errno::NOENT.into()),
        _ if path.contains(&0) => Err(Errno::INVAL.into()),
        _ if path.len() > len_max => Err(Errno::NAMETOOLONG.into()),
        _ => Ok(()),
    }
}
