//! `fid_fabric`: the network as a whole. It opens domains and event queues.

use std::sync::Arc;

use crate::bindings as fi;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::eq::Eq;
use crate::guard::{EINVAL, Errno, guard, guard_or, no_flags, not_busy, refuse, unsupported};
use crate::object::{
    Object, class_of, fid_ops, hand_out, new_fid, not_null, object, table, take_back,
};
use crate::{domain, eq};

/// What a fabric's domains and event queues hold on to.
#[derive(Debug)]
pub(crate) struct FabricState {
    /// The interface version that the application speaks: it decides the size of some structures.
    pub(crate) api_version: u32,
}

#[repr(C)]
pub(crate) struct Fabric {
    fid: fi::fid_fabric,
    pub(crate) state: Arc<FabricState>,
}

// SAFETY: `repr(C)`, begins with a `fid` of that class.
unsafe impl Object for Fabric {
    const CLASS: u32 = fi::FI_CLASS_FABRIC;
}

static FID_OPS: fi::fi_ops = fid_ops(close);
static OPS: fi::fi_ops_fabric = fi::fi_ops_fabric {
    size: size_of::<fi::fi_ops_fabric>(),
    domain: Some(domain::open),
    passive_ep: Some(passive_ep),
    eq_open: Some(eq::open),
    wait_open: Some(wait_open),
    trywait: Some(trywait),
    domain2: Some(domain2),
};

unsupported! {
    passive_ep(*mut fi::fid_fabric, *mut fi::fi_info, *mut *mut fi::fid_pep, *mut libc::c_void) -> libc::c_int;
    wait_open(*mut fi::fid_fabric, *mut fi::fi_wait_attr, *mut *mut fi::fid_wait) -> libc::c_int;
}

/// The provider's `fabric`.
pub(crate) unsafe extern "C" fn open(
    attr: *mut fi::fi_fabric_attr,
    fabric: *mut *mut fi::fid_fabric,
    context: *mut libc::c_void,
) -> libc::c_int {
    guard(|| {
        not_null(fabric)?;
        // SAFETY: libfabric passes on what fi_fabric(3) demands of the application.
        let api_version = unsafe { attr.as_ref() }.ok_or(EINVAL)?.api_version;
        let opened = Fabric {
            fid: fi::fid_fabric {
                fid: new_fid::<Fabric>(context, &FID_OPS),
                ops: table(&OPS),
                api_version,
            },
            state: Arc::new(FabricState { api_version }),
        };
        // SAFETY: checked above.
        unsafe { hand_out(opened, fabric) };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fi::fid) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_close(3) demands a live handle that is not used afterwards.
        unsafe {
            let fabric = object::<Fabric, _>(fid)?;
            not_busy(&fabric.state, "the fabric")?;
            take_back::<Fabric>(fid)?;
        }
        Ok(())
    })
}

unsafe extern "C" fn domain2(
    fabric: *mut fi::fid_fabric,
    info: *mut fi::fi_info,
    domain: *mut *mut fi::fid_domain,
    flags: u64,
    context: *mut libc::c_void,
) -> libc::c_int {
    guard_or(-fi::FI_EOTHER, || match no_flags("domain2", flags) {
        // SAFETY: passed through.
        Ok(()) => unsafe { domain::open(fabric, info, domain, context) },
        Err(Errno(number)) => -number,
    })
}

/// Says whether it is safe to sleep on the objects' descriptors, and readies those that are.
unsafe extern "C" fn trywait(
    fabric: *mut fi::fid_fabric,
    fids: *mut *mut fi::fid,
    count: libc::c_int,
) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_poll(3) demands live handles, as many as `count` says.
        unsafe {
            object::<Fabric, _>(fabric)?;
            for i in 0..usize::try_from(count).map_err(|_| EINVAL)? {
                not_null(fids)?;
                let fid = *fids.add(i);
                match class_of(fid)? {
                    Cq::CLASS => object::<Cq, _>(fid)?.state.try_wait()?,
                    Cntr::CLASS => object::<Cntr, _>(fid)?.state.try_wait()?,
                    Eq::CLASS => object::<Eq, _>(fid)?.state.try_wait()?,
                    class => {
                        return refuse!(
                            EINVAL,
                            "trywait: nobody waits for objects of class {class}"
                        );
                    }
                }
            }
        }
        Ok(())
    })
}
