//! `fid_eq`: the event queue. This provider has no connections and finishes its control operations
//! at once, so the only events are those that the application writes itself.

use std::collections::VecDeque;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::bindings as fi;
use crate::fabric::{Fabric, FabricState};
use crate::guard::{EAGAIN, EINVAL, ENOSYS, Errno, Fi, guard, guard_count, guard_or, lock};
use crate::object::{Object, fid_ops, hand_out, new_fid, not_null, object, table, take_back};

/// Longest event in bytes, and most events that wait.
const EVENT_LEN_MAX: usize = 256;
const EVENTS_MAX: usize = 4096;

struct Event {
    kind: u32,
    bytes: Vec<u8>,
}

#[repr(C)]
pub(crate) struct Eq {
    fid: fi::fid_eq,
    events: Mutex<VecDeque<Event>>,
    arrived: Condvar,
    _fabric: Arc<FabricState>,
}

// SAFETY: `repr(C)`, begins with a `fid` of that class.
unsafe impl Object for Eq {
    const CLASS: u32 = fi::FI_CLASS_EQ;
}

static FID_OPS: fi::fi_ops = fid_ops(close);
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
        let waits = [fi::FI_WAIT_NONE, fi::FI_WAIT_UNSPEC, fi::FI_WAIT_YIELD];
        if attr.is_some_and(|attr| !waits.contains(&attr.wait_obj)) {
            return Err(ENOSYS);
        }
        let opened = Eq {
            fid: fi::fid_eq { fid: new_fid::<Eq>(context, &FID_OPS), ops: table(&OPS) },
            events: Mutex::default(),
            arrived: Condvar::new(),
            _fabric: Arc::clone(&fabric.state),
        };
        // SAFETY: checked above.
        unsafe { hand_out(opened, eq) };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fi::fid) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_close(3) demands a live handle that is not used afterwards.
        unsafe { take_back::<Eq>(fid)? };
        Ok(())
    })
}

/// Gives the oldest event, and removes it unless it is only peeked at.
fn take(events: &mut VecDeque<Event>, len_max: usize, peek: bool) -> Fi<Option<Event>> {
    let Some(event) = events.pop_front() else { return Ok(None) };
    if event.bytes.len() > len_max {
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
        if !event.bytes.is_empty() {
            not_null(buf)?;
            ptr::copy_nonoverlapping(event.bytes.as_ptr(), buf.cast(), event.bytes.len());
        }
    }
    Ok(event.bytes.len())
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
        unsafe {
            let eq = object::<Eq, _>(eq)?;
            let taken = take(&mut *lock(&eq.events)?, len, flags & fi::FI_PEEK != 0)?;
            give(&taken.ok_or(EAGAIN)?, event, buf)
        }
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
        let eq = unsafe { object::<Eq, _>(eq)? };
        let poisoned = |_| Errno(fi::FI_EOTHER);
        let events = lock(&eq.events)?;
        let mut events = match u64::try_from(timeout) {
            Ok(ms) => {
                let limit = Duration::from_millis(ms);
                let wait = eq.arrived.wait_timeout_while(events, limit, |events| events.is_empty());
                wait.map_err(|_| Errno(fi::FI_EOTHER))?.0
            }
            Err(_) => {
                eq.arrived.wait_while(events, |events| events.is_empty()).map_err(poisoned)?
            }
        };
        let taken = take(&mut events, len, flags & fi::FI_PEEK != 0)?.ok_or(EAGAIN)?;
        // SAFETY: as above.
        unsafe { give(&taken, event, buf) }
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
        let eq = unsafe { object::<Eq, _>(eq)? };
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
        let mut events = lock(&eq.events)?;
        if events.len() == EVENTS_MAX {
            return Err(EAGAIN);
        }
        events.push_back(Event { kind: event, bytes });
        eq.arrived.notify_one();
        Ok(len)
    })
}

/// No event of this queue is ever an error.
unsafe extern "C" fn readerr(
    eq: *mut fi::fid_eq,
    _entry: *mut fi::fi_eq_err_entry,
    _flags: u64,
) -> libc::ssize_t {
    guard_count(|| {
        // SAFETY: fi_eq(3) demands a live queue.
        unsafe { object::<Eq, _>(eq)? };
        Err(EAGAIN)
    })
}

unsafe extern "C" fn strerror(
    _eq: *mut fi::fid_eq,
    _prov_errno: libc::c_int,
    _err_data: *const libc::c_void,
    _buf: *mut libc::c_char,
    _len: usize,
) -> *const libc::c_char {
    guard_or(ptr::null(), || c"no error".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_and_peeking_keeps_them() {
        let mut events = VecDeque::new();
        assert!(take(&mut events, 8, false).unwrap().is_none());
        for kind in [1, 2] {
            events.push_back(Event { kind, bytes: vec![0; 4] });
        }
        assert_eq!(take(&mut events, 3, false).err(), Some(Errno(fi::FI_ETOOSMALL)));
        assert_eq!(take(&mut events, 4, true).unwrap().unwrap().kind, 1);
        assert_eq!(take(&mut events, 4, false).unwrap().unwrap().kind, 1);
        assert_eq!(take(&mut events, 4, false).unwrap().unwrap().kind, 2);
    }
}
