//! `fid_mr`: registered memory. Sends and receives need none; memory that is registered for remote
//! access is exposed to peers until the handle is closed.
//!
//! Nothing is pinned and nothing is sent: a registration is an entry in the domain's table.

use std::sync::Arc;

use wiglaf_endpoint::{Access, ExposeError};

use crate::bindings as fi;
use crate::cntr::Cntr;
use crate::domain::{Domain, DomainState};
use crate::engine::only;
use crate::guard::{EINVAL, Errno, Fi, guard, refuse};
use crate::object::{Object, fid_ops, hand_out, new_fid, not_null, object, take_back};
use crate::ops::Regions;

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

static FID_OPS: fi::fi_ops = fi::fi_ops { bind: Some(bind), ..fid_ops(close) };
pub(crate) static OPS: fi::fi_ops_mr = fi::fi_ops_mr {
    size: size_of::<fi::fi_ops_mr>(),
    reg: Some(reg),
    regv: Some(regv),
    regattr: Some(regattr),
};

const REMOTE: u64 = fi::FI_REMOTE_READ | fi::FI_REMOTE_WRITE;
const ACCESS: u64 = REMOTE | fi::FI_SEND | fi::FI_RECV | fi::FI_READ | fi::FI_WRITE;

/// What is asked of a registration.
struct Asked {
    access: u64,
    key: u64,
    context: *mut libc::c_void,
}

/// # Safety
/// `domain` is a live handle or null, `mr` is null or valid for a write; the memory stays valid until
/// the handle is closed.
unsafe fn register(
    domain: *mut fi::fid,
    memory: &Regions,
    asked: &Asked,
    mr: *mut *mut fi::fid_mr,
) -> Fi<()> {
    not_null(mr)?;
    // SAFETY: by the contract of this function.
    let domain = &unsafe { object::<Domain, _>(domain)? }.state;
    only(asked.access, ACCESS)?;
    let key = domain.key_for(asked.key);
    let is_remote = asked.access & REMOTE != 0;
    if is_remote {
        let pieces = memory.pieces();
        let start = pieces.first().map_or(0, |piece| piece.ptr.addr() as u64);
        let base = domain.base_of(start);
        let access = Access {
            read: asked.access & fi::FI_REMOTE_READ != 0,
            write: asked.access & fi::FI_REMOTE_WRITE != 0,
        };
        // SAFETY: by the contract of this function, and closing withdraws it.
        let exposed = unsafe { domain.exposed().expose(key, base, access, pieces) };
        match exposed {
            Ok(()) => {}
            Err(ExposeError::KeyTaken) => {
                return refuse!(
                    Errno(fi::FI_ENOKEY),
                    "mr_reg: another region of the domain has the key {key}"
                );
            }
            Err(ExposeError::Invalid) => return Err(EINVAL),
        }
    }
    let fid = new_fid::<Mr>(asked.context, &FID_OPS);
    let registered = Mr {
        mr: fi::fid_mr { fid, mem_desc: std::ptr::null_mut(), key },
        is_remote,
        domain: Arc::clone(domain),
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
        let memory = Regions::one(buf, len)?;
        // SAFETY: fi_mr(3) demands what `register` does.
        unsafe { register(domain, &memory, &Asked { access, key: requested_key, context }, mr) }
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
        if count == 0 {
            return Err(EINVAL);
        }
        // SAFETY: fi_mr(3) demands a valid vector, and what `register` does.
        unsafe {
            let memory = Regions::read(iov, count)?;
            register(domain, &memory, &Asked { access, key: requested_key, context }, mr)
        }
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
            not_null(attr)?;
            // No reference to the whole: with older headers it ends before the interface of the
            // memory's device, which counts only with FI_HMEM.
            let memory = Regions::read((*attr).mr_iov, (*attr).iov_count)?;
            let key = (*attr).requested_key;
            let asked = Asked { access: (*attr).access, key, context: (*attr).context };
            register(domain, &memory, &asked, mr)
        }
    })
}

unsafe extern "C" fn close(fid: *mut fi::fid) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_close(3) demands a live handle that is not used afterwards.
        let closed = unsafe { take_back::<Mr>(fid)? };
        if closed.is_remote {
            closed.domain.exposed().withdraw(closed.mr.key);
            closed.domain.watched().forget(closed.mr.key)?;
        }
        Ok(())
    })
}

/// Lets a counter count what peers do to the region.
unsafe extern "C" fn bind(fid: *mut fi::fid, other: *mut fi::fid, flags: u64) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_mr(3) demands live handles; only counters can be bound.
        let (mr, counter) = unsafe { (object::<Mr, _>(fid)?, &object::<Cntr, _>(other)?.state) };
        only(flags, REMOTE)?;
        if !mr.is_remote || flags == 0 || !counter.is_of(&mr.domain) {
            return Err(EINVAL);
        }
        for (flag, reads) in [(fi::FI_REMOTE_READ, true), (fi::FI_REMOTE_WRITE, false)] {
            if flags & flag != 0 {
                mr.domain.watched().watch(mr.mr.key, reads, counter)?;
            }
        }
        Ok(())
    })
}
