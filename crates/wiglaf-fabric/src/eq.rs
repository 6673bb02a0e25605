//! `fid_eq`: the event queue. This provider has no connections and finishes most control operations
//! at once, so the only events are those that the application writes itself, groups that have been
//! joined, and the errors of groups and of endpoints whose links fail.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use wiglaf_endpoint::Outcome;

use crate::attended::Attended;
use crate::bindings as fi;
use crate::descriptor::{self, Flag, Waitable};
use crate::engine::{Shared, outcome_errno};
use crate::fabric::{Fabric, FabricState};
use crate::guard::{EAGAIN, EINVAL, Errno, Fi, guard, guard_count, guard_or, lock, not_busy};
use crate::object::{
    Object, fid_ops, give_text, hand_out, new_fid, not_null, object, table, take_back,
};
use crate::wait;

/// Longest event in bytes, and most events that wait.
const EVENT_LEN_MAX: usize = 256;
const EVENTS_MAX: usize = 4096;

struct Event {
    kind: u32,
    bytes: Vec<u8>,
}

/// An object that has failed, for `fi_eq_readerr`.
struct Failure {
    /// Its handle and context, as addresses: they are handed back and never followed.
    fid: usize,
    context: usize,
    err: i32,
    /// What the kernel said, if it did.
    os_errno: i32,
}

#[derive(Default)]
struct Inner {
    events: VecDeque<Event>,
    failures: VecDeque<Failure>,
}

impl Inner {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.failures.is_empty()
    }
}

/// What endpoints share with the queue that they are bound to.
pub(crate) struct EqState {
    inner: Mutex<Inner>,
    arrived: Condvar,
    /// How many groups are being joined, and the endpoints that ever joined one: who waits for the
    /// event may look at nothing else, so that looking here moves their data meanwhile. Only of domains
    /// that any thread may call into: who reads here need not be the one thread of another.
    joins: AtomicUsize,
    joiners: Mutex<Vec<Weak<Attended>>>,
    /// What applications sleep on, if they asked for it: raised while there is something to read.
    flag: Option<Flag>,
    _fabric: Arc<FabricState>,
}

impl EqState {
    /// An object has failed for good.
    pub(crate) fn report(&self, fid: usize, context: usize, os_errno: i32) {
        self.fail(Failure { fid, context, err: fi::FI_EIO, os_errno });
    }

    fn fail(&self, failure: Failure) {
        if let Ok(mut inner) = lock(&self.inner)
            && inner.failures.len() < EVENTS_MAX
        {
            inner.failures.push_back(failure);
            self.arrived.notify_all();
            self.raise();
        }
    }

    /// An endpoint begins to join a group; [`EqState::join_ended`] follows.
    pub(crate) fn join_begins(&self, engine: &Shared) {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.joins.fetch_add(1, Ordering::AcqRel);
        if let Ok(mut joiners) = lock(&self.joiners) {
            joiners.retain(|joiner| joiner.strong_count() > 0);
            if !joiners.iter().any(|joiner| joiner.as_ptr() == Arc::as_ptr(engine)) {
                joiners.push(Arc::downgrade(engine));
            }
        }
        // Who sleeps is to move data from now on.
        self.arrived.notify_all();
        drop(inner);
    }

    /// A group has been joined, or will never be; nobody is told of one that was given up.
    pub(crate) fn join_ended(&self, fid: usize, context: usize, outcome: Outcome) {
        self.joins.fetch_sub(1, Ordering::AcqRel);
        match outcome_errno(outcome) {
            _ if outcome == Outcome::Canceled => {}
            Some(Errno(err)) => self.fail(Failure { fid, context, err, os_errno: 0 }),
            None => {
                let entry = [fid as u64, context as u64, 0];
                let bytes = entry.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
                inner.events.push_back(Event { kind: fi::FI_JOIN_COMPLETE, bytes });
                self.arrived.notify_all();
                self.raise();
            }
        }
    }

    /// The endpoints that are joining groups, if any is. Their locks are taken before ours.
    fn joining(&self) -> Fi<Vec<Shared>> {
        if self.joins.load(Ordering::Acquire) == 0 {
            return Ok(Vec::new());
        }
        Ok(lock(&self.joiners)?.iter().filter_map(Weak::upgrade).collect())
    }

    /// Moves the data of endpoints that are joining groups.
    fn move_joins(&self) -> Fi<()> {
        self.joining()?.iter().try_for_each(|engine| {
            lock(engine)?.progress();
            Ok(())
        })
    }

    /// Waits until there may be something to read, for `limit` at most.
    fn wait(&self, limit: Duration) -> Fi<()> {
        let mut joining = self.joining()?;
        // An endpoint that has joined all its groups moves nothing here.
        joining.retain(|engine| lock(engine).is_ok_and(|engine| engine.groups.is_joining()));
        if !joining.is_empty() {
            return wait::sleep(&joining, limit, |_, engine| !engine.groups.is_joining());
        }
        let idle = |inner: &mut Inner| inner.is_empty() && self.joins.load(Ordering::Acquire) == 0;
        let inner = lock(&self.inner)?;
        let poisoned = || Errno(fi::FI_EOTHER);
        if limit == Duration::MAX {
            drop(self.arrived.wait_while(inner, idle).map_err(|_| poisoned())?);
        } else {
            let waited = self.arrived.wait_timeout_while(inner, limit, idle);
            drop(waited.map_err(|_| poisoned())?);
        }
        Ok(())
    }

    fn raise(&self) {
        if let Some(flag) = &self.flag {
            flag.raise();
        }
    }

    /// Lowers the flag when all has been read.
    fn lower_if_empty(&self, inner: &Inner) {
        if let Some(flag) = &self.flag
            && inner.is_empty()
        {
            flag.lower();
        }
    }

    /// Whether one may sleep now.
    pub(crate) fn try_wait(&self) -> Fi<()> {
        self.move_joins()?;
        // A join goes on only while somebody looks.
        let is_joining = self.joins.load(Ordering::Acquire) > 0;
        if lock(&self.inner)?.is_empty() && !is_joining { Ok(()) } else { Err(EAGAIN) }
    }
}

#[repr(C)]
pub(crate) struct Eq {
    fid: fi::fid_eq,
    pub(crate) state: Arc<EqState>,
}

// SAFETY: `repr(C)`, begins with a `fid` of that class.
unsafe impl Object for Eq {
    const CLASS: u32 = fi::FI_CLASS_EQ;
}

impl Waitable for Eq {
    fn wait_fd(&self) -> Option<RawFd> {
        self.state.flag.as_ref().map(Flag::fd)
    }
}

static FID_OPS: fi::fi_ops =
    fi::fi_ops { control: Some(descriptor::control::<Eq>), ..fid_ops(close) };
static OPS: fi::fi_ops_eq = fi::fi_ops_eq {
    size: size_of::<fi::fi_ops_eq>(),
    read: Some(read),
    readerr: Some(readerr),
    write: Some(write),
    sread: Some(sread),
    strerror: Some(strerror),
};

pub(crate) unsafe extern "C" fn open(
    fabric: *mut fi::fid_fabric,
    attr: *mut fi::fi_eq_attr,
    eq: *mut *mut fi::fid_eq,
    context: *mut libc::c_void,
) -> libc::c_int {
    guard(|| {
        not_null(eq)?;
        // SAFETY: fi_eq(3) demands a live fabric and attributes or null.
        let (fabric, attr) = unsafe { (object::<Fabric, _>(fabric)?, attr.as_ref()) };
        let wait = attr.map_or(fi::FI_WAIT_NONE, |attr| attr.wait_obj);
        let wants_flag = descriptor::is_wanted("eq_open", wait)?;
        let opened = Eq {
            fid: fi::fid_eq { fid: new_fid::<Eq>(context, &FID_OPS), ops: table(&OPS) },
            state: Arc::new(EqState {
                inner: Mutex::default(),
                arrived: Condvar::new(),
                joins: AtomicUsize::new(0),
                joiners: Mutex::default(),
                flag: wants_flag.then(Flag::new).transpose()?,
                _fabric: Arc::clone(&fabric.state),
            }),
        };
        // SAFETY: checked above.
        unsafe { hand_out(opened, eq) };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fi::fid) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_close(3) demands a live handle that is not used afterwards.
        unsafe {
            let eq = object::<Eq, _>(fid)?;
            not_busy(&eq.state, "the event queue")?;
            take_back::<Eq>(fid)?;
        }
        Ok(())
    })
}

/// Gives the oldest event, and removes it unless it is only peeked at. Errors are read first, and
/// elsewhere. Who brings no room for what it says, not even too little, wants its kind only.
fn take(inner: &mut Inner, len_max: Option<usize>, peek: bool) -> Fi<Option<Event>> {
    if !inner.failures.is_empty() {
        return Err(Errno(fi::FI_EAVAIL));
    }
    let events = &mut inner.events;
    let Some(event) = events.pop_front() else { return Ok(None) };
    if len_max.is_some_and(|len_max| event.bytes.len() > len_max) {
        events.push_front(event);
        return Err(Errno(fi::FI_ETOOSMALL));
    }
    if peek {
        events.push_front(Event { kind: event.kind, bytes: event.bytes.clone() });
    }
    Ok(Some(event))
}

/// # Safety
/// `kind` and `buf` are null or valid for writes, `buf` of the event's length.
unsafe fn give(event: &Event, kind: *mut u32, buf: *mut libc::c_void) -> Fi<usize> {
    not_null(kind)?;
    // SAFETY: by the contract of this function.
    unsafe {
        kind.write(event.kind);
        if buf.is_null() {
            return Ok(0);
        }
        if !event.bytes.is_empty() {
            ptr::copy_nonoverlapping(event.bytes.as_ptr(), buf.cast(), event.bytes.len());
        }
    }
    Ok(event.bytes.len())
}

/// Reads an event that is there.
///
/// # Safety
/// `event` and `buf` are null or valid for writes, `buf` of `len` bytes.
unsafe fn read_now(
    state: &EqState,
    event: *mut u32,
    buf: *mut libc::c_void,
    len: usize,
    flags: u64,
) -> Fi<usize> {
    state.move_joins()?;
    let mut inner = lock(&state.inner)?;
    let room = (!buf.is_null() || len > 0).then_some(len);
    let taken = take(&mut inner, room, flags & fi::FI_PEEK != 0)?;
    state.lower_if_empty(&inner);
    // SAFETY: by the contract of this function.
    unsafe { give(&taken.ok_or(EAGAIN)?, event, buf) }
}

unsafe extern "C" fn read(
    eq: *mut fi::fid_eq,
    event: *mut u32,
    buf: *mut libc::c_void,
    len: usize,
    flags: u64,
) -> libc::ssize_t {
    guard_count(|| {
        // SAFETY: fi_eq(3) demands a live queue and a buffer of `len` bytes.
        unsafe { read_now(&object::<Eq, _>(eq)?.state, event, buf, len, flags) }
    })
}

unsafe extern "C" fn sread(
    eq: *mut fi::fid_eq,
    event: *mut u32,
    buf: *mut libc::c_void,
    len: usize,
    timeout: libc::c_int,
    flags: u64,
) -> libc::ssize_t {
    guard_count(|| {
        // SAFETY: fi_eq(3) demands a live queue and a buffer of `len` bytes.
        let state = unsafe { &object::<Eq, _>(eq)?.state };
        let deadline = wait::deadline(timeout);
        loop {
            // SAFETY: as above.
            match unsafe { read_now(state, event, buf, len, flags) } {
                Err(EAGAIN) => {}
                outcome => return outcome,
            }
            let left = wait::time_left(deadline);
            if left.is_zero() {
                return Err(EAGAIN);
            }
            state.wait(left)?;
        }
    })
}

unsafe extern "C" fn write(
    eq: *mut fi::fid_eq,
    event: u32,
    buf: *const libc::c_void,
    len: usize,
    _flags: u64,
) -> libc::ssize_t {
    guard_count(|| {
        // SAFETY: fi_eq(3) demands a live queue and a buffer of `len` bytes.
        let state = unsafe { &object::<Eq, _>(eq)?.state };
        if len > EVENT_LEN_MAX {
            return Err(EINVAL);
        }
        let bytes = if len == 0 {
            Vec::new()
        } else {
            not_null(buf)?;
            // SAFETY: valid for `len` bytes, as above.
            unsafe { std::slice::from_raw_parts(buf.cast::<u8>(), len) }.to_vec()
        };
        let events = &mut lock(&state.inner)?.events;
        if events.len() == EVENTS_MAX {
            return Err(EAGAIN);
        }
        events.push_back(Event { kind: event, bytes });
        // Of those that wait, one may only look at it.
        state.arrived.notify_all();
        state.raise();
        Ok(len)
    })
}

unsafe extern "C" fn readerr(
    eq: *mut fi::fid_eq,
    entry: *mut fi::fi_eq_err_entry,
    _flags: u64,
) -> libc::ssize_t {
    guard_count(|| {
        not_null(entry)?;
        // SAFETY: fi_eq(3) demands a live queue and an entry.
        unsafe {
            let state = &object::<Eq, _>(eq)?.state;
            let mut inner = lock(&state.inner)?;
            let failure = inner.failures.pop_front().ok_or(EAGAIN)?;
            state.lower_if_empty(&inner);
            (*entry).fid = ptr::with_exposed_provenance_mut(failure.fid);
            (*entry).context = ptr::with_exposed_provenance_mut(failure.context);
            (*entry).data = 0;
            (*entry).err = failure.err;
            (*entry).prov_errno = failure.os_errno;
            // No data beyond that: with no room given, none is written.
            (*entry).err_data_size = 0;
        }
        Ok(size_of::<fi::fi_eq_err_entry>())
    })
}

unsafe extern "C" fn strerror(
    _eq: *mut fi::fid_eq,
    prov_errno: libc::c_int,
    _err_data: *const libc::c_void,
    buf: *mut libc::c_char,
    len: usize,
) -> *const libc::c_char {
    guard_or(ptr::null(), || {
        let text = match prov_errno {
            0 => c"no error of a link",
            _ => c"a link of the endpoint has failed; the log says which and why",
        };
        // SAFETY: fi_eq(3) demands a buffer of `len` bytes or null.
        unsafe { give_text(text, buf, len) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_and_peeking_keeps_them() {
        let mut inner = Inner::default();
        assert!(take(&mut inner, Some(8), false).unwrap().is_none());
        for kind in [1, 2] {
            inner.events.push_back(Event { kind, bytes: vec![0; 4] });
        }
        assert_eq!(take(&mut inner, Some(3), false).err(), Some(Errno(fi::FI_ETOOSMALL)));
        assert_eq!(take(&mut inner, Some(4), true).unwrap().unwrap().kind, 1);
        assert_eq!(take(&mut inner, Some(4), false).unwrap().unwrap().kind, 1);
        assert_eq!(take(&mut inner, None, false).unwrap().unwrap().kind, 2);
    }
}
