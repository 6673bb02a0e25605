//! `fid_cntr`: counts completed operations.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::attended::Attended;
use crate::bindings as fi;
use crate::descriptor::{self, Descriptor, Waitable};
use crate::domain::{Domain, DomainState};
use crate::engine::Shared;
use crate::guard::{EAGAIN, EINVAL, Errno, Fi, guard, guard_or, lock, not_busy, refuse};
use crate::object::{Object, fid_ops, hand_out, new_fid, not_null, object, table, take_back};
use crate::wait;

/// A number, and what its user knows of it.
#[derive(Default)]
struct Count {
    now: AtomicU64,
    seen: AtomicU64,
}

impl Count {
    fn get(&self) -> u64 {
        self.now.load(Ordering::Acquire)
    }

    /// What is counted meanwhile is news, whatever its user sets.
    fn set(&self, to: u64) {
        self.now.store(to, Ordering::Release);
        self.seen.store(to, Ordering::Release);
    }

    /// Events counted meanwhile stay news, whatever its user adds.
    fn add(&self, by: u64) {
        self.now.fetch_add(by, Ordering::AcqRel);
        self.seen.fetch_add(by, Ordering::AcqRel);
    }

    fn is_new(&self) -> bool {
        self.get() != self.seen.load(Ordering::Acquire)
    }

    /// The number, which its user now knows, and whether it is news.
    fn see(&self) -> (u64, bool) {
        let now = self.get();
        (now, self.seen.swap(now, Ordering::AcqRel) != now)
    }
}

/// What endpoints share with the counter that they are bound to.
pub(crate) struct CntrState {
    value: Count,
    errors: Count,
    engines: Mutex<Vec<Weak<Attended>>>,
    /// What applications sleep on, if they asked for it.
    descriptor: Option<Descriptor>,
    domain: Arc<DomainState>,
}

impl CntrState {
    /// Whether the counter belongs to that domain.
    pub(crate) fn is_of(&self, domain: &Arc<DomainState>) -> bool {
        Arc::ptr_eq(&self.domain, domain)
    }

    /// Counts an operation that went well or failed.
    pub(crate) fn count(&self, well: bool) {
        let counter = if well { &self.value } else { &self.errors };
        counter.now.fetch_add(1, Ordering::AcqRel);
    }

    /// From now on reading the counter moves data of `engine`.
    pub(crate) fn attach(&self, engine: &Shared) -> Fi<()> {
        let mut engines = lock(&self.engines)?;
        engines.retain(|other| other.strong_count() > 0);
        if !engines.iter().any(|other| is_same(other, engine)) {
            engines.push(Arc::downgrade(engine));
        }
        Ok(())
    }

    /// From now on it does not.
    pub(crate) fn detach(&self, engine: &Shared) {
        self.disarm();
        if let Ok(mut engines) = lock(&self.engines) {
            engines.retain(|other| !is_same(other, engine));
        }
    }

    /// Moves data and settles what has completed.
    fn progress(&self) -> Fi<()> {
        for engine in lock(&self.engines)?.iter().filter_map(Weak::upgrade) {
            let mut engine = lock(&engine)?;
            engine.progress();
            engine.settle_all();
        }
        Ok(())
    }

    /// Moves data, and says whether the value or the errors are others than their user knows of.
    pub(crate) fn has_news(&self) -> Fi<bool> {
        self.progress()?;
        Ok(self.is_new())
    }

    /// Its user has been told of the news.
    pub(crate) fn told(&self) {
        self.value.see();
        self.errors.see();
    }

    fn is_new(&self) -> bool {
        self.value.is_new() || self.errors.is_new()
    }

    /// Whether one may sleep now: not when there are news.
    pub(crate) fn try_wait(&self) -> Fi<()> {
        if self.has_news()? {
            return Err(EAGAIN);
        }
        let Some(descriptor) = &self.descriptor else { return Ok(()) };
        let engines: Vec<Shared> = lock(&self.engines)?.iter().filter_map(Weak::upgrade).collect();
        descriptor.arm(&engines, |_, engine| {
            engine.settle_all();
            self.is_new()
        })
    }

    /// Somebody looks: whoever slept on the descriptor is awake.
    fn disarm(&self) {
        if let Some(descriptor) = &self.descriptor {
            descriptor.disarm();
        }
    }

    fn read(&self) -> Fi<u64> {
        self.disarm();
        self.progress()?;
        let (value, is_new) = self.value.see();
        // A reader who finds nothing new may give way.
        if !is_new {
            let only = match &lock(&self.engines)?[..] {
                [engine] => engine.upgrade(),
                _ => None,
            };
            if let Some(engine) = only {
                wait::idle(&engine)?;
            }
        }
        Ok(value)
    }

    fn read_errors(&self) -> Fi<u64> {
        self.disarm();
        self.progress()?;
        Ok(self.errors.see().0)
    }

    fn wait(&self, threshold: u64, timeout_ms: libc::c_int) -> Fi<()> {
        let deadline = wait::deadline(timeout_ms);
        let errors = self.errors.get();
        loop {
            self.progress()?;
            if self.value.get() >= threshold {
                return Ok(());
            }
            if self.errors.get() != errors {
                return Err(Errno(fi::FI_EAVAIL));
            }
            let left = wait::time_left(deadline);
            if left.is_zero() {
                return Err(Errno(fi::FI_ETIMEDOUT));
            }
            let engines: Vec<Shared> =
                lock(&self.engines)?.iter().filter_map(Weak::upgrade).collect();
            wait::sleep(&engines, left, |_, engine| {
                engine.settle_all();
                self.value.get() >= threshold || self.errors.get() != errors
            })?;
        }
    }
}

fn is_same(weak: &Weak<Attended>, engine: &Shared) -> bool {
    std::ptr::eq(weak.as_ptr(), Arc::as_ptr(engine))
}

#[repr(C)]
pub(crate) struct Cntr {
    fid: fi::fid_cntr,
    pub(crate) state: Arc<CntrState>,
}

// SAFETY: `repr(C)`, begins with a `fid` of that class.
unsafe impl Object for Cntr {
    const CLASS: u32 = fi::FI_CLASS_CNTR;
}

impl Waitable for Cntr {
    fn wait_fd(&self) -> Option<RawFd> {
        self.state.descriptor.as_ref().map(Descriptor::fd)
    }
}

static FID_OPS: fi::fi_ops =
    fi::fi_ops { control: Some(descriptor::control::<Cntr>), ..fid_ops(close) };
static OPS: fi::fi_ops_cntr = fi::fi_ops_cntr {
    size: size_of::<fi::fi_ops_cntr>(),
    read: Some(read),
    readerr: Some(readerr),
    add: Some(add),
    set: Some(set),
    wait: Some(wait),
    adderr: Some(adderr),
    seterr: Some(seterr),
};

pub(crate) unsafe extern "C" fn open(
    domain: *mut fi::fid_domain,
    attr: *mut fi::fi_cntr_attr,
    cntr: *mut *mut fi::fid_cntr,
    context: *mut libc::c_void,
) -> libc::c_int {
    guard(|| {
        not_null(cntr)?;
        // SAFETY: fi_cntr(3) demands a live domain, and attributes or null.
        let (domain, attr) = unsafe { (object::<Domain, _>(domain)?, attr.as_ref()) };
        if attr.is_some_and(|attr| attr.events != fi::FI_CNTR_EVENTS_COMP) {
            return refuse!(EINVAL, "cntr_open: a counter counts completions, nothing else");
        }
        let wait = attr.map_or(fi::FI_WAIT_NONE, |attr| attr.wait_obj);
        let wants_descriptor = descriptor::is_wanted("cntr_open", wait)?;
        let opened = Cntr {
            fid: fi::fid_cntr { fid: new_fid::<Cntr>(context, &FID_OPS), ops: table(&OPS) },
            state: Arc::new(CntrState {
                value: Count::default(),
                errors: Count::default(),
                engines: Mutex::default(),
                descriptor: wants_descriptor.then(Descriptor::new).transpose()?,
                domain: Arc::clone(&domain.state),
            }),
        };
        // SAFETY: checked above.
        unsafe { hand_out(opened, cntr) };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fi::fid) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_close(3) demands a live handle that is not used afterwards.
        unsafe {
            let cntr = object::<Cntr, _>(fid)?;
            not_busy(&cntr.state, "the counter")?;
            take_back::<Cntr>(fid)?;
        }
        Ok(())
    })
}

/// Runs a call on a counter whose answer is a value, 0 in case of an error.
///
/// # Safety
/// `cntr` is null or a live handle.
unsafe fn value(cntr: *mut fi::fid_cntr, call: impl FnOnce(&CntrState) -> Fi<u64>) -> u64 {
    guard_or(0, || {
        // SAFETY: by the contract of this function.
        let cntr = unsafe { object::<Cntr, _>(cntr) };
        cntr.and_then(|cntr| call(&cntr.state)).unwrap_or(0)
    })
}

/// Runs a call that changes a counter.
///
/// # Safety
/// `cntr` is null or a live handle.
unsafe fn change(cntr: *mut fi::fid_cntr, call: impl FnOnce(&CntrState)) -> libc::c_int {
    guard(|| {
        // SAFETY: by the contract of this function.
        call(&unsafe { object::<Cntr, _>(cntr)? }.state);
        Ok(())
    })
}

unsafe extern "C" fn read(cntr: *mut fi::fid_cntr) -> u64 {
    // SAFETY: fi_cntr(3) demands a live counter, here and below.
    unsafe { value(cntr, CntrState::read) }
}

unsafe extern "C" fn readerr(cntr: *mut fi::fid_cntr) -> u64 {
    // SAFETY: see `read`.
    unsafe { value(cntr, CntrState::read_errors) }
}

unsafe extern "C" fn add(cntr: *mut fi::fid_cntr, by: u64) -> libc::c_int {
    // SAFETY: see `read`.
    unsafe { change(cntr, |state| state.value.add(by)) }
}

unsafe extern "C" fn set(cntr: *mut fi::fid_cntr, to: u64) -> libc::c_int {
    // SAFETY: see `read`.
    unsafe { change(cntr, |state| state.value.set(to)) }
}

unsafe extern "C" fn adderr(cntr: *mut fi::fid_cntr, by: u64) -> libc::c_int {
    // SAFETY: see `read`.
    unsafe { change(cntr, |state| state.errors.add(by)) }
}

unsafe extern "C" fn seterr(cntr: *mut fi::fid_cntr, to: u64) -> libc::c_int {
    // SAFETY: see `read`.
    unsafe { change(cntr, |state| state.errors.set(to)) }
}

unsafe extern "C" fn wait(
    cntr: *mut fi::fid_cntr,
    threshold: u64,
    timeout: libc::c_int,
) -> libc::c_int {
    guard(|| {
        // SAFETY: see `read`.
        unsafe { object::<Cntr, _>(cntr)? }.state.wait(threshold, timeout)
    })
}
