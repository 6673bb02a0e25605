//! Objects as C sees them: boxes that begin with a `fid`.

use std::ffi::CStr;
use std::ptr;

use crate::bindings as fi;
use crate::guard::{EINVAL, Fi, refuse};

/// A type that C knows by a pointer to its `fid`.
///
/// # Safety
/// The type is `repr(C)` and begins with a `fid` whose `fclass` is always `CLASS`.
pub(crate) unsafe trait Object: Sized {
    /// The class that libfabric gives such objects.
    const CLASS: u32;
}

/// The object behind a handle.
///
/// # Safety
/// `handle` is null or points to a `fid` of this provider that has not been closed.
pub(crate) unsafe fn object<'a, T: Object, P>(handle: *mut P) -> Fi<&'a T> {
    let handle = handle.cast::<fi::fid>();
    // SAFETY: by the contract of this function a handle that is not null is a live `fid`, and the
    // class that its maker wrote into it tells its type.
    unsafe {
        if handle.is_null() {
            return refuse!(EINVAL, "a handle is null");
        }
        let class = (*handle).fclass;
        if class != T::CLASS as usize {
            return refuse!(EINVAL, "a handle is of class {class}, not of class {}", T::CLASS);
        }
        Ok(&*handle.cast::<T>())
    }
}

/// The class of a handle, for calls that take objects of several.
///
/// # Safety
/// As for [`object`].
pub(crate) unsafe fn class_of(handle: *const fi::fid) -> Fi<u32> {
    not_null(handle)?;
    // SAFETY: by the contract of this function.
    u32::try_from(unsafe { (*handle).fclass }).map_err(|_| EINVAL)
}

/// A `fid` for a new object.
pub(crate) fn new_fid<T: Object>(context: *mut libc::c_void, ops: &'static fi::fi_ops) -> fi::fid {
    fi::fid { fclass: T::CLASS as usize, context, ops: table(ops) }
}

/// An operation table in the form in which C wants it. Nobody writes to one.
pub(crate) fn table<T>(ops: &'static T) -> *mut T {
    ptr::from_ref(ops).cast_mut()
}

/// Gives `object` to C through `out`.
///
/// # Safety
/// `out` is valid for a write of a pointer.
pub(crate) unsafe fn hand_out<T: Object, P>(object: T, out: *mut *mut P) {
    // SAFETY: by the contract of this function.
    unsafe { out.write(Box::into_raw(Box::new(object)).cast()) };
}

/// Takes back what [`hand_out`] gave.
///
/// # Safety
/// As for [`object`]; besides, nobody uses the handle any more.
pub(crate) unsafe fn take_back<T: Object>(handle: *mut fi::fid) -> Fi<Box<T>> {
    // SAFETY: the class was checked, so the pointer comes from `hand_out::<T>`.
    unsafe {
        object::<T, _>(handle)?;
        Ok(Box::from_raw(handle.cast()))
    }
}

/// Refuses a null pointer.
pub(crate) fn not_null<T>(pointer: *const T) -> Fi<()> {
    if pointer.is_null() { refuse!(EINVAL, "a pointer is null") } else { Ok(()) }
}

/// Copies what fits of a text to `buf`, with its end, and gives the text itself.
///
/// # Safety
/// `buf` is null or valid for writes of `len` bytes.
pub(crate) unsafe fn give_text(
    text: &CStr,
    buf: *mut libc::c_char,
    len: usize,
) -> *const libc::c_char {
    if !buf.is_null() && len > 0 {
        let bytes = text.to_bytes();
        let copied = bytes.len().min(len - 1);
        // SAFETY: by the contract of this function.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), copied);
            buf.add(copied).write(0);
        }
    }
    text.as_ptr()
}

crate::guard::unsupported! {
    bind_nothing(*mut fi::fid, *mut fi::fid, u64) -> libc::c_int;
    control_nothing(*mut fi::fid, libc::c_int, *mut libc::c_void) -> libc::c_int;
    ops_open(*mut fi::fid, *const libc::c_char, u64, *mut *mut libc::c_void, *mut libc::c_void) -> libc::c_int;
    tostr(*const fi::fid, *mut libc::c_char, usize) -> libc::c_int;
    ops_set(*mut fi::fid, *const libc::c_char, u64, *mut libc::c_void, *mut libc::c_void) -> libc::c_int;
}

/// The closing function of an object.
pub(crate) type Close = unsafe extern "C" fn(*mut fi::fid) -> libc::c_int;

/// The common operations of an object that can only be closed.
pub(crate) const fn fid_ops(close: Close) -> fi::fi_ops {
    fi::fi_ops {
        size: size_of::<fi::fi_ops>(),
        close: Some(close),
        bind: Some(bind_nothing),
        control: Some(control_nothing),
        ops_open: Some(ops_open),
        tostr: Some(tostr),
        ops_set: Some(ops_set),
    }
}
