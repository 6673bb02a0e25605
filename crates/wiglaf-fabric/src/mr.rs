//! `fid_mr`: registered memory. Sends and receives need none; applications that register their
//! buffers all the same get a handle. Remote access comes with the RMA calls.

use std::sync::Arc;

use crate::bindings as fi;
use crate::domain::{Domain, DomainState};
use crate::guard::{EINVAL, Errno, Fi, guard, lock};
use crate::object::{Object, fid_ops, hand_out, new_fid, not_null, object, take_back};

#[repr(C)]
pub(crate) struct Mr {
    mr: fi::fid_mr,
    /// Whether the key stands among the domain's remote keys.
    is_remote: bool,
    domain: Arc<DomainState>,
}

// SAFETY: `repr(C)`, begins with a `fid` of that class.
unsafe impl Object for Mr {
    const CLASS: u32 = fi::FI_CLASS_MR;
}

static FID_OPS: fi::fi_ops = fid_ops(close);
pub(crate) static OPS: fi::fi_ops_mr = fi::fi_ops_mr {
    size: size_of::<fi::fi_ops_mr>(),
    reg: Some(reg),
    regv: Some(regv),
    regattr: Some(regattr),
};

const REMOTE: u64 = fi::FI_REMOTE_READ | fi::FI_REMOTE_WRITE;

/// # Safety
/// `domain` is a live handle or null, `mr` is null or valid for a write.
unsafe fn register(
    domain: *mut fi::fid,
    access: u64,
    key: u64,
    mr: *mut *mut fi::fid_mr,
    context: *mut libc::c_void,
) -> Fi<()> {
    not_null(mr)?;
    // SAFETY: by the contract of this function.
    let domain = unsafe { object::<Domain, _>(domain)? };
    let is_remote = access & REMOTE != 0;
    if is_remote && !lock(&domain.state.remote_keys)?.insert(key) {
        return Err(Errno(fi::FI_ENOKEY));
    }
    let fid = new_fid::<Mr>(context, &FID_OPS);
    let registered = Mr {
        mr: fi::fid_mr { fid, mem_desc: std::ptr::null_mut(), key },
        is_remote,
        domain: Arc::clone(&domain.state),
    };
    // SAFETY: checked above.
    unsafe { hand_out(registered, mr) };
    Ok(())
}

unsafe extern "C" fn reg(
    domain: *mut fi::fid,
    buf: *const libc::c_void,
    len: usize,
    access: u64,
    _offset: u64,
    requested_key: u64,
    _flags: u64,
    mr: *mut *mut fi::fid_mr,
    context: *mut libc::c_void,
) -> libc::c_int {
    guard(|| {
        if buf.is_null() && len != 0 {
            return Err(EINVAL);
        }
        // SAFETY: fi_mr(3) demands what `register` does.
        unsafe { register(domain, access, requested_key, mr, context) }
    })
}

unsafe extern "C" fn regv(
    domain: *mut fi::fid,
    iov: *const libc::iovec,
    count: usize,
    access: u64,
    _offset: u64,
    requested_key: u64,
    _flags: u64,
    mr: *mut *mut fi::fid_mr,
    context: *mut libc::c_void,
) -> libc::c_int {
    guard(|| {
        if iov.is_null() || count == 0 {
            return Err(EINVAL);
        }
        // SAFETY: fi_mr(3) demands what `register` does.
        unsafe { register(domain, access, requested_key, mr, context) }
    })
}

unsafe extern "C" fn regattr(
    domain: *mut fi::fid,
    attr: *const fi::fi_mr_attr,
    _flags: u64,
    mr: *mut *mut fi::fid_mr,
) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_mr(3) demands valid attributes, and what `register` does.
        unsafe {
            let attr = attr.as_ref().ok_or(EINVAL)?;
            if attr.iface != fi::FI_HMEM_SYSTEM {
                return Err(Errno(fi::FI_ENOSYS));
            }
            register(domain, attr.access, attr.requested_key, mr, attr.context)
        }
    })
}

unsafe extern "C" fn close(fid: *mut fi::fid) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_close(3) demands a live handle that is not used afterwards.
        let closed = unsafe { take_back::<Mr>(fid)? };
        if closed.is_remote {
            lock(&closed.domain.remote_keys)?.remove(&closed.mr.key);
        }
        Ok(())
    })
}
