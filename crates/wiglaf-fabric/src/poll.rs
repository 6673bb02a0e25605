//! `fid_poll`: a set of completion queues and counters, and which of them have something to read.

use std::ptr;
use std::sync::{Arc, Mutex};

use crate::bindings as fi;
use crate::cntr::{Cntr, CntrState};
use crate::cq::{Cq, CqState};
use crate::domain::{Domain, DomainState};
use crate::engine::only;
use crate::guard::{EINVAL, Errno, Fi, guard, guard_or, lock, refuse};
use crate::object::{
    Object, class_of, fid_ops, hand_out, new_fid, not_null, object, table, take_back,
};

enum Watched {
    Queue(Arc<CqState>),
    Counter(Arc<CntrState>),
}

impl Watched {
    fn has_news(&self) -> Fi<bool> {
        match self {
            Self::Queue(queue) => queue.has_news(),
            Self::Counter(counter) => counter.has_news(),
        }
    }

    /// A queue has news until it has been read; a counter's are told once.
    fn told(&self) {
        if let Self::Counter(counter) = self {
            counter.told();
        }
    }
}

struct Member {
    /// The handle and the context of the member, as addresses: they are compared and handed back.
    fid: usize,
    context: usize,
    watched: Watched,
}

#[repr(C)]
pub(crate) struct Poll {
    fid: fi::fid_poll,
    members: Mutex<Vec<Member>>,
    _domain: Arc<DomainState>,
}

// SAFETY: `repr(C)`, begins with a `fid` of that class.
unsafe impl Object for Poll {
    const CLASS: u32 = fi::FI_CLASS_POLL;
}

static FID_OPS: fi::fi_ops = fid_ops(close);
static OPS: fi::fi_ops_poll = fi::fi_ops_poll {
    size: size_of::<fi::fi_ops_poll>(),
    poll: Some(poll),
    poll_add: Some(add),
    poll_del: Some(delete),
};

pub(crate) unsafe extern "C" fn open(
    domain: *mut fi::fid_domain,
    attr: *mut fi::fi_poll_attr,
    poll: *mut *mut fi::fid_poll,
) -> libc::c_int {
    guard(|| {
        not_null(poll)?;
        // SAFETY: fi_poll(3) demands a live domain, and attributes or null.
        let (domain, attr) = unsafe { (object::<Domain, _>(domain)?, attr.as_ref()) };
        only(attr.map_or(0, |attr| attr.flags), 0)?;
        let opened = Poll {
            fid: fi::fid_poll { fid: new_fid::<Poll>(ptr::null_mut(), &FID_OPS), ops: table(&OPS) },
            members: Mutex::default(),
            _domain: Arc::clone(&domain.state),
        };
        // SAFETY: checked above.
        unsafe { hand_out(opened, poll) };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fi::fid) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_close(3) demands a live handle that is not used afterwards.
        unsafe { take_back::<Poll>(fid)? };
        Ok(())
    })
}

/// Writes the contexts of the members that have news, and answers how many.
unsafe extern "C" fn poll(
    poll: *mut fi::fid_poll,
    contexts: *mut *mut libc::c_void,
    count: libc::c_int,
) -> libc::c_int {
    guard_or(-fi::FI_EOTHER, || {
        let written = || -> Fi<i32> {
            let room = usize::try_from(count).map_err(|_| EINVAL)?;
            if room > 0 {
                not_null(contexts)?;
            }
            // SAFETY: fi_poll(3) demands a live set.
            let members = unsafe { lock(&object::<Poll, _>(poll)?.members)? };
            let mut written = 0;
            for member in &*members {
                if member.watched.has_news()? && written < room {
                    member.watched.told();
                    let context = ptr::with_exposed_provenance_mut(member.context);
                    // SAFETY: fi_poll(3) demands room for `count` contexts.
                    unsafe { contexts.add(written).write(context) };
                    written += 1;
                }
            }
            if written == 0 {
                std::thread::yield_now();
            }
            Ok(i32::try_from(written).unwrap_or(i32::MAX))
        };
        written().unwrap_or_else(|Errno(number)| -number)
    })
}

unsafe extern "C" fn add(
    poll: *mut fi::fid_poll,
    event_fid: *mut fi::fid,
    flags: u64,
) -> libc::c_int {
    guard(|| {
        only(flags, 0)?;
        // SAFETY: fi_poll(3) demands live handles.
        unsafe {
            let mut members = lock(&object::<Poll, _>(poll)?.members)?;
            let watched = match class_of(event_fid)? {
                Cq::CLASS => Watched::Queue(Arc::clone(&object::<Cq, _>(event_fid)?.state)),
                Cntr::CLASS => Watched::Counter(Arc::clone(&object::<Cntr, _>(event_fid)?.state)),
                class => {
                    return refuse!(EINVAL, "poll_add: a set takes no object of class {class}");
                }
            };
            let context = (*event_fid).context.expose_provenance();
            members.push(Member { fid: event_fid.addr(), context, watched });
        }
        Ok(())
    })
}

unsafe extern "C" fn delete(
    poll: *mut fi::fid_poll,
    event_fid: *mut fi::fid,
    flags: u64,
) -> libc::c_int {
    guard(|| {
        only(flags, 0)?;
        // SAFETY: fi_poll(3) demands a live set.
        let mut members = unsafe { lock(&object::<Poll, _>(poll)?.members)? };
        let before = members.len();
        members.retain(|member| member.fid != event_fid.addr());
        if members.len() == before {
            return refuse!(EINVAL, "poll_del: the object is not in the set");
        }
        Ok(())
    })
}
