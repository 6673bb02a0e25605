//! `fid_cq`: the completion queue. Reading it is what moves data, in both directions.

mod losses;

use std::collections::VecDeque;
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wiglaf_endpoint::{Class, Completion, Outcome, Pause, PeerId, Side};

use crate::av::UNSPEC;
use crate::bindings as fi;
use crate::descriptor::{self, Descriptor, Waitable};
use crate::domain::{Domain, DomainState};
use crate::engine::{Engine, Shared, outcome_errno};
use crate::guard::{
    EAGAIN, EINVAL, ENOSYS, Errno, Fi, guard, guard_count, guard_or, lock, not_busy, refuse,
};
use crate::object::{
    Object, fid_ops, give_text, hand_out, new_fid, not_null, object, table, take_back,
};
use crate::wait;
use losses::Losses;

/// The first interface version whose error entries name the source.
const SOURCE_IN_ERRORS: u32 = 1 << 16 | 20;
/// The first whose error entries give the length of the error data.
const DATA_LEN_IN_ERRORS: u32 = 1 << 16 | 5;

const EAVAIL: Errno = Errno(fi::FI_EAVAIL);

/// A failed operation that waits for `fi_cq_readerr`.
struct Failure {
    completion: Completion,
    errno: Errno,
    source: fi::fi_addr_t,
    /// Which peer was lost, and why.
    loss: Option<Arc<CStr>>,
}

// SAFETY: the completion holds an address of user memory, which is reported but never followed.
unsafe impl Send for Failure {}

#[derive(Default)]
struct Inner {
    /// Enabled endpoints that report here, and which of their directions do.
    sources: Vec<(Shared, Vec<Side>)>,
    failures: VecDeque<Failure>,
    last: Last,
    losses: Losses,
}

/// What the last read found.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Last {
    #[default]
    Nothing,
    /// As much as the caller had room for.
    Some,
    /// All there was.
    All,
}

/// What endpoints share with the queue that they are bound to.
pub(crate) struct CqState {
    inner: Mutex<Inner>,
    format: fi::fi_cq_format,
    signaled: AtomicBool,
    /// What applications sleep on, if they asked for it.
    descriptor: Option<Descriptor>,
    domain: Arc<DomainState>,
}

/// Where completions are written to.
struct Sink {
    entries: *mut u8,
    sources: *mut fi::fi_addr_t,
    count_max: usize,
    count: usize,
    format: fi::fi_cq_format,
}

impl CqState {
    /// Whether the queue belongs to that domain.
    pub(crate) fn is_of(&self, domain: &Arc<DomainState>) -> bool {
        Arc::ptr_eq(&self.domain, domain)
    }

    /// From now on `engine` reports those sides here.
    pub(crate) fn attach(&self, engine: &Shared, sides: Vec<Side>) -> Fi<()> {
        lock(&self.inner)?.sources.push((Arc::clone(engine), sides));
        Ok(())
    }

    /// From now on `engine` does not.
    pub(crate) fn detach(&self, engine: &Shared) {
        self.disarm();
        if let Ok(mut inner) = lock(&self.inner) {
            inner.sources.retain(|(source, _)| !Arc::ptr_eq(source, engine));
        }
    }

    /// Moves data, then writes what has completed to `sink`.
    ///
    /// # Safety
    /// The memory of `sink` is valid.
    unsafe fn read(&self, sink: &mut Sink, idle: bool) -> Fi<usize> {
        self.disarm();
        // SAFETY: by the contract of this function.
        let Some((engine, pause)) = (unsafe { self.look(sink, idle)? }) else {
            return Ok(sink.count);
        };
        wait::pass(&engine, &pause)?;
        // The caller may give its core away again before it asks again: an MPI that shares cores does so
        // at each empty read. What came during the pause would be found a round of all ranks later.
        // SAFETY: as above.
        match unsafe { self.look(sink, false)? } {
            Some(_) => Err(EAGAIN),
            None => Ok(sink.count),
        }
    }

    /// Moves data, then writes what has completed to `sink`. Some: nothing has, and the caller is to
    /// pause so.
    ///
    /// # Safety
    /// The memory of `sink` is valid.
    unsafe fn look(&self, sink: &mut Sink, idle: bool) -> Fi<Option<(Shared, Pause)>> {
        let mut inner = lock(&self.inner)?;
        let Inner { sources, failures, last, .. } = &mut *inner;
        // Callers read until a queue is empty before they look at what they got. So the first empty
        // read after a find is not waiting, and a look at the links would hold them up.
        let before = std::mem::take(last);
        if before == Last::All && idle && failures.is_empty() && skip_look(sources)? {
            return Err(EAGAIN);
        }
        let may_idle = idle && before == Last::Nothing && sources.len() == 1;
        let mut pause = None;
        for (engine, sides) in &*sources {
            let mut locked = lock(engine)?;
            locked.progress();
            for &side in sides {
                // SAFETY: by the contract of this function.
                unsafe { collect(&mut locked, side, sink, failures) };
            }
            if may_idle && sink.count == 0 && failures.is_empty() {
                pause = locked.endpoint.begin_idle().map(|pause| (Arc::clone(engine), pause));
            }
        }
        if sink.count > 0 {
            *last = if sink.count < sink.count_max { Last::All } else { Last::Some };
            return Ok(None);
        }
        if !failures.is_empty() {
            return Err(EAVAIL);
        }
        // Other threads read while this one pauses.
        pause.map_or(Err(EAGAIN), |pause| Ok(Some(pause)))
    }

    /// Blocks until something may have happened, for a short while at most.
    fn wait(&self, limit: Duration) -> Fi<()> {
        let sources = {
            let inner = lock(&self.inner)?;
            if !inner.failures.is_empty() {
                return Ok(());
            }
            inner.sources.clone()
        };
        let (engines, sides): (Vec<_>, Vec<_>) = sources.into_iter().unzip();
        wait::sleep(&engines, limit, |n, engine| engine.has_completed(&sides[n]))
    }

    /// Moves data, and says whether there is something to be read.
    pub(crate) fn has_news(&self) -> Fi<bool> {
        let inner = lock(&self.inner)?;
        let mut news = !inner.failures.is_empty();
        for (engine, sides) in &inner.sources {
            let mut engine = lock(engine)?;
            engine.progress();
            // Not all that has completed is shown.
            engine.settle_all();
            news |= engine.has_completed(sides);
        }
        Ok(news)
    }

    /// Whether one may sleep now: not when something is there to be read.
    pub(crate) fn try_wait(&self) -> Fi<()> {
        if self.has_news()? || self.signaled.swap(false, Ordering::AcqRel) {
            return Err(EAGAIN);
        }
        let Some(descriptor) = &self.descriptor else { return Ok(()) };
        let (engines, sides): (Vec<_>, Vec<_>) = lock(&self.inner)?.sources.iter().cloned().unzip();
        descriptor.arm(&engines, |n, engine| engine.has_completed(&sides[n]))
    }

    /// Somebody looks: whoever slept on the descriptor is awake.
    fn disarm(&self) {
        if let Some(descriptor) = &self.descriptor {
            descriptor.disarm();
        }
    }
}

/// Whether nothing has completed: then this passes for a look at the links.
#[inline]
fn skip_look(sources: &[(Shared, Vec<Side>)]) -> Fi<bool> {
    for (engine, sides) in sources {
        let mut engine = lock(engine)?;
        if engine.has_completed(sides) {
            return Ok(false);
        }
        engine.endpoint.skip_poll();
    }
    Ok(true)
}

/// Writes completions of one side until there are none, `sink` is full or one has failed: that one
/// and all behind it wait until it has been read.
///
/// # Safety
/// The memory of `sink` is valid.
unsafe fn collect(
    engine: &mut Engine,
    side: Side,
    sink: &mut Sink,
    failures: &mut VecDeque<Failure>,
) {
    while failures.is_empty() && sink.count < sink.count_max {
        if let Some(completion) = engine.next_plain(side) {
            let source = completion.source;
            // SAFETY: by the contract of this function; `sink` has room.
            unsafe {
                sink.put(completion);
                sink.put_source(side, source, engine);
            }
            engine.endpoint.drop_completion(side);
            continue;
        }
        let Some(completion) = engine.next_shown(side) else { return };
        match outcome_errno(completion.outcome) {
            // SAFETY: as above.
            None => unsafe {
                sink.put(&completion);
                sink.put_source(side, completion.source, engine);
            },
            Some(errno) => {
                let source = engine.index_of(completion.source);
                let is_loss = completion.outcome == Outcome::PeerGone;
                let loss = engine.loss().filter(|_| is_loss).cloned();
                failures.push_back(Failure { completion, errno, source, loss });
            }
        }
    }
}

impl Sink {
    /// Writes the next entry; its source must follow.
    ///
    /// # Safety
    /// The sink's memory is valid, and there is room for another entry.
    #[inline]
    unsafe fn put(&mut self, completion: &Completion) {
        let whole = fi::fi_cq_tagged_entry {
            op_context: ptr::with_exposed_provenance_mut(completion.context),
            flags: entry_flags(completion),
            len: completion.len,
            buf: completion.buf.cast(),
            data: completion.data.unwrap_or(0),
            tag: completion.tag,
        };
        let entry_len = entry_len(self.format);
        // SAFETY: by the contract of this function. Every shorter format is a prefix of the
        // tagged one.
        unsafe {
            let entry = self.entries.add(self.count * entry_len);
            if self.format == fi::FI_CQ_FORMAT_TAGGED {
                entry.cast::<fi::fi_cq_tagged_entry>().write_unaligned(whole);
            } else {
                ptr::copy_nonoverlapping((&raw const whole).cast::<u8>(), entry, entry_len);
            }
        }
    }

    /// Writes where the entry came from, and counts it.
    ///
    /// # Safety
    /// As for [`Sink::put`].
    #[inline]
    unsafe fn put_source(&mut self, side: Side, source: Option<PeerId>, engine: &mut Engine) {
        if !self.sources.is_null() {
            let index = match side {
                Side::Recv => engine.index_of(source),
                Side::Send => UNSPEC,
            };
            // SAFETY: by the contract of this function.
            unsafe { self.sources.add(self.count).write(index) };
        }
        self.count += 1;
    }
}

fn entry_len(format: fi::fi_cq_format) -> usize {
    match format {
        fi::FI_CQ_FORMAT_MSG => size_of::<fi::fi_cq_msg_entry>(),
        fi::FI_CQ_FORMAT_DATA => size_of::<fi::fi_cq_data_entry>(),
        fi::FI_CQ_FORMAT_TAGGED => size_of::<fi::fi_cq_tagged_entry>(),
        _ => size_of::<fi::fi_cq_entry>(),
    }
}

fn entry_flags(completion: &Completion) -> u64 {
    let is_send = completion.side == Side::Send;
    let which = |here, there| if is_send { here } else { there };
    let what = match completion.class {
        Class::Tagged => fi::FI_TAGGED | which(fi::FI_SEND, fi::FI_RECV),
        Class::Write => fi::FI_RMA | which(fi::FI_WRITE, fi::FI_REMOTE_WRITE),
        Class::Read => fi::FI_RMA | which(fi::FI_READ, fi::FI_REMOTE_READ),
        Class::Atomic => fi::FI_ATOMIC | which(fi::FI_WRITE, fi::FI_REMOTE_WRITE),
        Class::Fetch => fi::FI_ATOMIC | which(fi::FI_READ, fi::FI_REMOTE_READ),
        Class::Collective => fi::FI_COLLECTIVE,
        Class::Untagged | Class::Active | Class::Answer => {
            fi::FI_MSG | which(fi::FI_SEND, fi::FI_RECV)
        }
    };
    let has_data = !is_send && completion.data.is_some();
    let data = if has_data { fi::FI_REMOTE_CQ_DATA } else { 0 };
    let released = if completion.multi_released { fi::FI_MULTI_RECV } else { 0 };
    what | data | released
}

#[repr(C)]
pub(crate) struct Cq {
    fid: fi::fid_cq,
    pub(crate) state: Arc<CqState>,
}

// SAFETY: `repr(C)`, begins with a `fid` of that class.
unsafe impl Object for Cq {
    const CLASS: u32 = fi::FI_CLASS_CQ;
}

impl Waitable for Cq {
    fn wait_fd(&self) -> Option<RawFd> {
        self.state.descriptor.as_ref().map(Descriptor::fd)
    }
}

static FID_OPS: fi::fi_ops =
    fi::fi_ops { control: Some(descriptor::control::<Cq>), ..fid_ops(close) };
static OPS: fi::fi_ops_cq = fi::fi_ops_cq {
    size: size_of::<fi::fi_ops_cq>(),
    read: Some(read),
    readfrom: Some(readfrom),
    readerr: Some(readerr),
    sread: Some(sread),
    sreadfrom: Some(sreadfrom),
    signal: Some(signal),
    strerror: Some(strerror),
};

pub(crate) unsafe extern "C" fn open(
    domain: *mut fi::fid_domain,
    attr: *mut fi::fi_cq_attr,
    cq: *mut *mut fi::fid_cq,
    context: *mut libc::c_void,
) -> libc::c_int {
    guard(|| {
        not_null(cq)?;
        // SAFETY: fi_cq(3) demands a live domain, and attributes or null.
        let (domain, attr) = unsafe { (object::<Domain, _>(domain)?, attr.as_ref()) };
        let format = attr.map_or(fi::FI_CQ_FORMAT_UNSPEC, |attr| attr.format);
        if format > fi::FI_CQ_FORMAT_TAGGED {
            return refuse!(EINVAL, "cq_open: there is no format {format}");
        }
        if attr.is_some_and(|attr| attr.flags & fi::FI_PEER != 0) {
            return refuse!(ENOSYS, "cq_open: a queue that another provider owns is not offered");
        }
        let wait = attr.map_or(fi::FI_WAIT_NONE, |attr| attr.wait_obj);
        let wants_descriptor = descriptor::is_wanted("cq_open", wait)?;
        let opened = Cq {
            fid: fi::fid_cq { fid: new_fid::<Cq>(context, &FID_OPS), ops: table(&OPS) },
            state: Arc::new(CqState {
                inner: Mutex::default(),
                format,
                signaled: AtomicBool::new(false),
                descriptor: wants_descriptor.then(Descriptor::new).transpose()?,
                domain: Arc::clone(&domain.state),
            }),
        };
        // SAFETY: checked above.
        unsafe { hand_out(opened, cq) };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fi::fid) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_close(3) demands a live handle that is not used afterwards.
        unsafe {
            let cq = object::<Cq, _>(fid)?;
            not_busy(&cq.state, "the completion queue")?;
            take_back::<Cq>(fid)?;
        }
        Ok(())
    })
}

/// A sink over the application's buffers.
fn sink(
    state: &CqState,
    buf: *mut libc::c_void,
    count: usize,
    from: *mut fi::fi_addr_t,
) -> Fi<Sink> {
    if count > 0 {
        not_null(buf)?;
    }
    let format = state.format;
    Ok(Sink { entries: buf.cast(), sources: from, count_max: count, count: 0, format })
}

unsafe extern "C" fn read(
    cq: *mut fi::fid_cq,
    buf: *mut libc::c_void,
    count: usize,
) -> libc::ssize_t {
    // SAFETY: passed through.
    unsafe { readfrom(cq, buf, count, ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(
    cq: *mut fi::fid_cq,
    buf: *mut libc::c_void,
    count: usize,
    from: *mut fi::fi_addr_t,
) -> libc::ssize_t {
    guard_count(|| {
        // SAFETY: fi_cq(3) demands a live queue, and room for `count` entries and sources.
        unsafe {
            let state = &object::<Cq, _>(cq)?.state;
            state.read(&mut sink(state, buf, count, from)?, count > 0)
        }
    })
}

unsafe extern "C" fn sread(
    cq: *mut fi::fid_cq,
    buf: *mut libc::c_void,
    count: usize,
    cond: *const libc::c_void,
    timeout: libc::c_int,
) -> libc::ssize_t {
    // SAFETY: passed through.
    unsafe { sreadfrom(cq, buf, count, ptr::null_mut(), cond, timeout) }
}

unsafe extern "C" fn sreadfrom(
    cq: *mut fi::fid_cq,
    buf: *mut libc::c_void,
    count: usize,
    from: *mut fi::fi_addr_t,
    _cond: *const libc::c_void,
    timeout: libc::c_int,
) -> libc::ssize_t {
    guard_count(|| {
        // SAFETY: fi_cq(3) demands a live queue, and room for `count` entries and sources.
        let state = unsafe { &object::<Cq, _>(cq)?.state };
        let mut sink = sink(state, buf, count, from)?;
        let deadline = wait::deadline(timeout);
        loop {
            // SAFETY: as above.
            match unsafe { state.read(&mut sink, false) } {
                Err(EAGAIN) => {}
                outcome => return outcome,
            }
            let left = wait::time_left(deadline);
            if left.is_zero() || state.signaled.swap(false, Ordering::AcqRel) {
                return Err(EAGAIN);
            }
            state.wait(left)?;
        }
    })
}

unsafe extern "C" fn signal(cq: *mut fi::fid_cq) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_cq(3) demands a live queue.
        let state = unsafe { &object::<Cq, _>(cq)?.state };
        state.signaled.store(true, Ordering::Release);
        if let Some(descriptor) = &state.descriptor {
            descriptor.signal();
        }
        wait::wake(lock(&state.inner)?.sources.iter().map(|(engine, _)| engine))
    })
}

unsafe extern "C" fn readerr(
    cq: *mut fi::fid_cq,
    entry: *mut fi::fi_cq_err_entry,
    _flags: u64,
) -> libc::ssize_t {
    guard_count(|| {
        not_null(entry)?;
        // SAFETY: fi_cq(3) demands a live queue, and an entry of the size that the application's
        // interface version has.
        unsafe {
            let state = &object::<Cq, _>(cq)?.state;
            let mut inner = lock(&state.inner)?;
            let failure = inner.failures.pop_front().ok_or(EAGAIN)?;
            inner.losses.note(failure.loss.as_ref());
            drop(inner);
            write_failure(&failure, entry, state.domain.api_version());
        }
        Ok(1)
    })
}

/// # Safety
/// `entry` is valid for writes of an entry as `api_version` defines it.
unsafe fn write_failure(failure: &Failure, entry: *mut fi::fi_cq_err_entry, api_version: u32) {
    let completion = &failure.completion;
    let beyond = match completion.outcome {
        Outcome::Truncated(beyond) => beyond,
        _ => 0,
    };
    // SAFETY: by the contract of this function; fields that a version does not have are left.
    unsafe {
        (*entry).op_context = ptr::with_exposed_provenance_mut(completion.context);
        (*entry).flags = entry_flags(completion);
        (*entry).len = completion.len;
        (*entry).buf = completion.buf.cast();
        (*entry).data = completion.data.unwrap_or(0);
        (*entry).tag = completion.tag;
        (*entry).olen = beyond;
        (*entry).err = failure.errno.0;
        (*entry).prov_errno = failure.errno.0;
        if api_version >= DATA_LEN_IN_ERRORS {
            (*entry).err_data_size = 0;
        } else {
            (*entry).err_data = ptr::null_mut();
        }
        if api_version >= SOURCE_IN_ERRORS {
            entry.add(1).cast::<fi::fi_addr_t>().write(failure.source);
        }
    }
}

unsafe extern "C" fn strerror(
    cq: *mut fi::fid_cq,
    prov_errno: libc::c_int,
    _err_data: *const libc::c_void,
    buf: *mut libc::c_char,
    len: usize,
) -> *const libc::c_char {
    guard_or(ptr::null(), || {
        let text = match prov_errno {
            fi::FI_ETRUNC => c"the message was longer than the buffer",
            fi::FI_ECANCELED => c"the operation was cancelled",
            fi::FI_ENOMSG => c"no message matches",
            fi::FI_ECONNRESET => c"the peer is gone",
            fi::FI_EKEYREJECTED => c"no memory is registered under that key at the target",
            fi::FI_EACCES => c"the target's memory is not registered for that access",
            fi::FI_EINVAL => c"the range does not lie within the target's memory region",
            fi::FI_EOPNOTSUPP => c"the target does not know that operation",
            _ => c"unknown error",
        };
        if prov_errno == fi::FI_ECONNRESET
            // SAFETY: fi_cq(3) demands a live queue.
            && let Ok(cq) = unsafe { object::<Cq, _>(cq) }
            && let Ok(inner) = lock(&cq.state.inner)
            && let Some(loss) = inner.losses.last()
        {
            // SAFETY: fi_cq(3) demands a buffer of `len` bytes or null. The queue keeps the text.
            return unsafe { give_text(loss, buf, len) };
        }
        // SAFETY: as above.
        unsafe { give_text(text, buf, len) }
    })
}

#[cfg(test)]
mod tests;
