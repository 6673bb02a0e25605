//! Open files. See `wiglaf_files.h`.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use rustix::io::Errno;

use super::nodes::fill;
use super::{answer, bytes, done, file, node, room, text, with};
use crate::SeekFrom;
use crate::error::Result;
use crate::file::{empty_with_room, fill_piece, len_of};

/// Most pieces of a vectored call, as Linux limits them (IOV_MAX).
const PIECES_MAX: usize = 1024;

/// See `wiglaf_files.h`.
///
/// # Safety
/// `path` must be null or a string that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ropen(number: c_int, path: *const c_char, oflag: c_int) -> c_int {
    // SAFETY: handed on from our caller.
    unsafe { ropenm(number, path, oflag, 0o666) }
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// As for `ropen`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ropenm(
    number: c_int,
    path: *const c_char,
    oflag: c_int,
    mode: u32,
) -> c_int {
    answer(|| {
        // SAFETY: handed on from our caller.
        let opened = node(number)?.open(unsafe { text(path) }?, oflag, mode)?;
        with(|state| Ok(state.open.add((Arc::new(opened), number))))
    })
}

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rclose(handle: c_int) -> c_int {
    answer(|| {
        let (file, _) = with(|state| state.open.take(handle))?;
        // Another thread that still uses it closes it.
        Arc::into_inner(file).map_or(Ok(0), |file| done(file.close()))
    })
}

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rfnode(handle: c_int) -> c_int {
    answer(|| with(|state| state.open.get(handle).map(|(_, node)| *node)))
}

fn count(outcome: Result<usize>) -> Result<isize> {
    outcome.map(|count| count as isize)
}

fn offset(offset: i64) -> Result<u64> {
    u64::try_from(offset).map_err(|_| Errno::INVAL.into())
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// `buf` must be null or valid for writes of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rread(handle: c_int, buf: *mut c_void, len: usize) -> isize {
    // SAFETY: handed on from our caller.
    answer(|| count(file(handle)?.read(unsafe { room(buf.cast(), len) }?)))
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// `buf` must be null or valid for reads of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rwrite(handle: c_int, buf: *const c_void, len: usize) -> isize {
    // SAFETY: handed on from our caller.
    answer(|| count(file(handle)?.write(unsafe { bytes(buf.cast(), len) }?)))
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// As for `rread`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpread(handle: c_int, buf: *mut c_void, len: usize, at: i64) -> isize {
    // SAFETY: handed on from our caller.
    answer(|| count(file(handle)?.read_at(unsafe { room(buf.cast(), len) }?, offset(at)?)))
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// As for `rwrite`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpwrite(handle: c_int, buf: *const c_void, len: usize, at: i64) -> isize {
    // SAFETY: handed on from our caller.
    answer(|| count(file(handle)?.write_at(unsafe { bytes(buf.cast(), len) }?, offset(at)?)))
}

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rlseek(handle: c_int, by: i64, whence: c_int) -> i64 {
    answer(|| {
        let to = match whence {
            libc::SEEK_SET => SeekFrom::Start(offset(by)?),
            libc::SEEK_CUR => SeekFrom::Current(by),
            libc::SEEK_END => SeekFrom::End(by),
            _ => return Err(Errno::INVAL.into()),
        };
        Ok(file(handle)?.seek(to)? as i64)
    })
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// `into` must be null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfstat(handle: c_int, into: *mut libc::stat) -> c_int {
    answer(|| {
        // SAFETY: handed on from our caller.
        let into = unsafe { into.as_mut() }.ok_or(Errno::FAULT)?;
        fill(into, &file(handle)?.attributes()?);
        Ok(0)
    })
}

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rfsync(handle: c_int) -> c_int {
    answer(|| done(file(handle)?.sync(false)))
}

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rfdatasync(handle: c_int) -> c_int {
    answer(|| done(file(handle)?.sync(true)))
}

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rftruncate(handle: c_int, size: i64) -> c_int {
    answer(|| done(file(handle)?.truncate(offset(size)?)))
}

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rahead(handle: c_int, len: usize) -> c_int {
    answer(|| done(file(handle)?.set_read_ahead(len)))
}

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rbehind(handle: c_int, len: usize) -> c_int {
    answer(|| done(file(handle)?.set_write_behind(len)))
}

/// The pieces of a vectored call, and how long they are together.
///
/// # Safety
/// `pieces` must be null or valid for reads of `count` elements for `'a`.
unsafe fn vector<'a>(
    pieces: *const libc::iovec,
    count: c_int,
) -> Result<(&'a [libc::iovec], usize)> {
    let count = usize::try_from(count).ok().filter(|count| *count <= PIECES_MAX);
    let count = count.ok_or(Errno::INVAL)?;
    if pieces.is_null() && count > 0 {
        return Err(Errno::FAULT.into());
    }
    let pieces = match count {
        0 => &[],
        // SAFETY: handed on from our caller.
        count => unsafe { std::slice::from_raw_parts(pieces, count) },
    };
    Ok((pieces, len_of(pieces.iter().map(|piece| piece.iov_len))?))
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// `pieces` must be null or valid for reads of `count` elements, each null or
/// valid for writes of its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rreadv(handle: c_int, pieces: *const libc::iovec, n: c_int) -> isize {
    answer(|| {
        // SAFETY: handed on from our caller.
        let (pieces, len) = unsafe { vector(pieces, n) }?;
        // All are looked at first: what was read could not be given back.
        // SAFETY: handed on from our caller; pieces may be the same memory, so one borrow at a time.
        let rooms = || pieces.iter().map(|p| unsafe { room(p.iov_base.cast(), p.iov_len) });
        rooms().try_for_each(|room| room.map(drop))?;
        let all = file(handle)?.read_for_pieces(len)?;
        let mut rest = &all[..];
        for room in rooms() {
            rest = fill_piece(room?, rest);
        }
        count(Ok(all.len()))
    })
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// `pieces` must be null or valid for reads of `count` elements, each null or
/// valid for reads of its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rwritev(handle: c_int, pieces: *const libc::iovec, n: c_int) -> isize {
    answer(|| {
        // SAFETY: handed on from our caller.
        let (pieces, len) = unsafe { vector(pieces, n) }?;
        let mut all = empty_with_room(len)?;
        for piece in pieces {
            // SAFETY: handed on from our caller.
            all.extend_from_slice(unsafe { bytes(piece.iov_base.cast(), piece.iov_len) }?);
        }
        count(file(handle)?.write(&all))
    })
}

/// See `wiglaf_files.h`.
///
/// # Safety
/// `buf` must be valid for writes of `len` bytes, and untouched, until `rwait`
/// has returned for the request, or `fsend` has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raread(handle: c_int, buf: *mut c_void, len: usize, at: i64) -> c_int {
    answer(|| {
        // SAFETY: handed on from our caller; this borrow ends at once.
        unsafe { room(buf.cast(), len) }?;
        let (file, at) = (file(handle)?, offset(at)?);
        // SAFETY: handed on from our caller.
        let request = unsafe { file.start_read_into(buf.cast(), len, at) }?;
        with(|state| Ok(state.requests.add(request)))
    })
}

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rtest(request: c_int) -> c_int {
    answer(|| with(|state| Ok(c_int::from(state.requests.get(request)?.has_ended()))))
}

/// See `wiglaf_files.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rwait(request: c_int) -> isize {
    answer(|| {
        let mut request = with(|state| state.requests.take(request))?;
        count(request.end())
    })
}
