//! `fid_domain`: what opens address vectors, queues, counters and endpoints, and registers memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use wiglaf_endpoint::Exposed;

use crate::attendant::Progress;
use crate::bindings as fi;
use crate::eq::{Eq, EqState};
use crate::fabric::{Fabric, FabricState};
use crate::guard::{
    EINVAL, ENOSYS, Errno, guard, guard_or, lock, no_flags, not_busy, refuse, unsupported,
};
use crate::object::{Object, fid_ops, hand_out, new_fid, not_null, object, table, take_back};
use crate::watched::Watched;
use crate::{atomic, av, cntr, collective, cq, ep, log, mr, poll};

/// What a domain's objects hold on to.
#[derive(Debug)]
pub(crate) struct DomainState {
    /// The interface version that the application speaks.
    api_version: u32,
    /// Who moves the data of endpoints while the application does other things.
    progress: Progress,
    /// Memory that is registered for remote access, for all endpoints of the domain.
    exposed: Exposed,
    /// Whether peers name registered memory by its addresses, not by offsets.
    by_address: bool,
    /// Whether the provider chooses the keys, and the next one; none is given twice.
    chooses_keys: bool,
    next_key: AtomicU64,
    /// Counters of registered memory.
    watched: Watched,
    _fabric: Arc<FabricState>,
}

impl DomainState {
    /// The interface version that the application speaks.
    pub(crate) fn api_version(&self) -> u32 {
        self.api_version
    }

    /// Who moves the data of endpoints while the application does other things.
    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }

    /// Memory that is registered for remote access.
    pub(crate) fn exposed(&self) -> &Exposed {
        &self.exposed
    }

    /// Counters of registered memory.
    pub(crate) fn watched(&self) -> &Watched {
        &self.watched
    }

    /// The key of a registration for which the application asks for that one.
    pub(crate) fn key_for(&self, asked: u64) -> u64 {
        if self.chooses_keys { self.next_key.fetch_add(1, Ordering::Relaxed) } else { asked }
    }

    /// By what peers name the first byte of memory that begins at `start`.
    pub(crate) fn base_of(&self, start: u64) -> u64 {
        if self.by_address { start } else { 0 }
    }
}

#[repr(C)]
pub(crate) struct Domain {
    fid: fi::fid_domain,
    /// Event queues that are bound: they cannot be closed before.
    events: Mutex<Vec<Arc<EqState>>>,
    pub(crate) state: Arc<DomainState>,
}

// SAFETY: `repr(C)`, begins with a `fid` of that class.
unsafe impl Object for Domain {
    const CLASS: u32 = fi::FI_CLASS_DOMAIN;
}

static FID_OPS: fi::fi_ops = fi::fi_ops { bind: Some(bind), ..fid_ops(close) };
static OPS: fi::fi_ops_domain = fi::fi_ops_domain {
    size: size_of::<fi::fi_ops_domain>(),
    av_open: Some(av::open),
    cq_open: Some(cq::open),
    endpoint: Some(ep::open),
    scalable_ep: Some(scalable_ep),
    cntr_open: Some(cntr::open),
    poll_open: Some(poll::open),
    stx_ctx: Some(stx_ctx),
    srx_ctx: Some(srx_ctx),
    query_atomic: Some(atomic::query),
    query_collective: Some(collective::query),
    endpoint2: Some(endpoint2),
};

unsupported! {
    scalable_ep(*mut fi::fid_domain, *mut fi::fi_info, *mut *mut fi::fid_ep, *mut libc::c_void) -> libc::c_int;
    stx_ctx(*mut fi::fid_domain, *mut fi::fi_tx_attr, *mut *mut fi::fid_stx, *mut libc::c_void) -> libc::c_int;
    srx_ctx(*mut fi::fid_domain, *mut fi::fi_rx_attr, *mut *mut fi::fid_ep, *mut libc::c_void) -> libc::c_int;
}

pub(crate) unsafe extern "C" fn open(
    fabric: *mut fi::fid_fabric,
    info: *mut fi::fi_info,
    domain: *mut *mut fi::fid_domain,
    context: *mut libc::c_void,
) -> libc::c_int {
    guard(|| {
        not_null(info)?;
        not_null(domain)?;
        // SAFETY: fi_domain(3) demands a live fabric.
        let fabric = unsafe { object::<Fabric, _>(fabric)? };
        // SAFETY: fi_domain(3) demands an info with its attributes; `info` was checked above.
        let attr = unsafe { (*info).domain_attr.as_ref() };
        let is_asked = attr.is_some_and(|attr| attr.data_progress == fi::FI_PROGRESS_AUTO);
        let config = wiglaf_links::config_from_env().map_err(|why| {
            log::error!("{why}");
            EINVAL
        })?;
        let progress = match is_asked || config.progress_thread {
            true => Progress::Thread,
            false => Progress::Caller,
        };
        let mr_mode = attr.map_or(0, |attr| attr.mr_mode);
        let has = |bit: u64| mr_mode == fi::FI_MR_BASIC as i32 || mr_mode as u64 & bit != 0;
        let opened = Domain {
            fid: fi::fid_domain {
                fid: new_fid::<Domain>(context, &FID_OPS),
                ops: table(&OPS),
                mr: table(&mr::OPS),
            },
            events: Mutex::default(),
            state: Arc::new(DomainState {
                api_version: fabric.state.api_version,
                progress,
                exposed: Exposed::default(),
                by_address: has(fi::FI_MR_VIRT_ADDR),
                chooses_keys: has(fi::FI_MR_PROV_KEY),
                next_key: AtomicU64::new(1),
                watched: Watched::default(),
                _fabric: Arc::clone(&fabric.state),
            }),
        };
        // SAFETY: checked above.
        unsafe { hand_out(opened, domain) };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fi::fid) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_close(3) demands a live handle that is not used afterwards.
        unsafe {
            let domain = object::<Domain, _>(fid)?;
            not_busy(&domain.state, "the domain")?;
            take_back::<Domain>(fid)?;
        }
        Ok(())
    })
}

/// An event queue may be bound, though nothing here ever completes late.
unsafe extern "C" fn bind(fid: *mut fi::fid, other: *mut fi::fid, flags: u64) -> libc::c_int {
    guard(|| {
        if flags & fi::FI_REG_MR != 0 {
            // Who waited for the event of a registration would do so for ever.
            return refuse!(ENOSYS, "domain_bind: registrations are not told of later (FI_REG_MR)");
        }
        // SAFETY: fi_domain_bind(3) demands live handles.
        let (domain, eq) = unsafe { (object::<Domain, _>(fid)?, object::<Eq, _>(other)?) };
        lock(&domain.events)?.push(Arc::clone(&eq.state));
        Ok(())
    })
}

unsafe extern "C" fn endpoint2(
    domain: *mut fi::fid_domain,
    info: *mut fi::fi_info,
    ep: *mut *mut fi::fid_ep,
    flags: u64,
    context: *mut libc::c_void,
) -> libc::c_int {
    guard_or(-fi::FI_EOTHER, || match no_flags("endpoint2", flags) {
        // SAFETY: passed through.
        Ok(()) => unsafe { ep::open(domain, info, ep, context) },
        Err(Errno(number)) => -number,
    })
}
