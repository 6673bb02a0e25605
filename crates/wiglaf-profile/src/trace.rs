//! What this rank did, in order, for a replay: its calls of MPI with peers and sizes, and how long it computed between
//! them. In the words of SimGrid's time-independent traces (F. Desprez, G. Markomanolis, M. Quinson and F. Suter,
//! Assessing the performance of MPI applications through time-independent trace replay, PSTI 2011), without the rank,
//! separated by semicolons; `compute` is in nanoseconds.
//!
//! Only where a variable asks for it, for it takes a lock and some memory at each call. What cannot be replayed makes
//! the trace useless, and the first such call is named: communicators other than that of all ranks, messages from
//! anybody, windows, several threads.

use std::collections::HashMap;
use std::ffi::c_int;
use std::fmt::Write as _;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::clock;
use crate::entry::Call;
use crate::size::{Any, Language};
use wiglaf_interpose::Next;

/// Set by `wiglaf profile --trace`.
const VARIABLE: &str = "WIGLAF_TRACE";
/// As many bytes of words as a rank keeps; a longer trace is of no use to anybody.
const LEN_MAX: usize = 256 << 20;

/// A message that is under way: its words behind `wait`.
type Request = String;

struct Trace {
    /// All words but the time of computing, which is known only at the end.
    words: String,
    /// Where a time of computing, in ticks, stands before the words at that place.
    computed: Vec<(usize, u64)>,
    requests: HashMap<usize, Request>,
    /// When the last call ended.
    last: u64,
    /// Why it cannot be replayed.
    gap: Option<String>,
    thread: Option<std::thread::ThreadId>,
}

static TRACE: Mutex<Option<Trace>> = Mutex::new(None);

/// Whether anybody wants a trace.
#[inline]
pub(crate) fn is_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty()))
}

/// MPI has been initialised now.
pub(crate) fn started() {
    if is_wanted() {
        *lock() = Some(Trace {
            words: String::new(),
            computed: Vec::new(),
            requests: HashMap::new(),
            last: clock::ticks(),
            gap: None,
            thread: Some(std::thread::current().id()),
        });
    }
}

fn lock() -> std::sync::MutexGuard<'static, Option<Trace>> {
    TRACE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The words, and why they cannot be replayed, if so. MPI_Finalize was called at `end`, in ticks; `ns_per_tick` turns
/// times into nanoseconds.
pub(crate) fn finished(end: u64, ns_per_tick: f64) -> Option<(String, Option<String>)> {
    let mut trace = lock().take()?;
    trace.compute(end);
    let mut text = String::with_capacity(trace.words.len() + 24 * trace.computed.len());
    let mut from = 0;
    for (at, ticks) in &trace.computed {
        text.push_str(&trace.words[from..*at]);
        // Writing to a string cannot fail.
        let _ = write!(text, "compute {};", (*ticks as f64 * ns_per_tick) as u64);
        from = *at;
    }
    text.push_str(&trace.words[from..]);
    Some((text, trace.gap))
}

/// The requests that a call is going to end: their handles are gone when it has returned.
///
/// # Safety
/// The arguments must be those of that call.
pub(crate) unsafe fn waited_for(call: Call, language: Language, arguments: &[Any]) -> Vec<usize> {
    // SAFETY: the caller's promise: MPI reads the same.
    unsafe {
        match call {
            Call::Wait => vec![handle(language, arguments[0], 0)],
            Call::Waitall => {
                let count = usize::try_from(language.int(arguments[0])).unwrap_or(0);
                (0..count).map(|at| handle(language, arguments[1], at)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// A call that began at `before` has just returned.
///
/// # Safety
/// The arguments must be those of that call.
pub(crate) unsafe fn called(
    call: Call,
    language: Language,
    arguments: &[Any],
    waited: &[usize],
    before: u64,
    bytes: u64,
) {
    let mut guard = lock();
    let Some(trace) = guard.as_mut() else { return };
    if trace.gap.is_some() {
        return;
    }
    trace.compute(before);
    // SAFETY: the caller's promise.
    let done = unsafe { trace.words_of(call, language, arguments, waited, bytes) };
    if done.is_none() {
        trace.gap = Some(call.name().to_owned());
    } else if trace.words.len() > LEN_MAX {
        trace.gap = Some("more calls than are kept".to_owned());
    } else if trace.thread != Some(std::thread::current().id()) {
        trace.gap = Some(format!("{} in a second thread", call.name()));
    }
    trace.last = clock::ticks();
}

impl Trace {
    fn compute(&mut self, until: u64) {
        self.computed.push((self.words.len(), until.saturating_sub(self.last)));
    }

    fn say(&mut self, words: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = write!(self.words, "{words};");
    }

    /// Puts a call into words; nothing where it cannot be replayed.
    ///
    /// # Safety
    /// The arguments must be those of that call.
    unsafe fn words_of(
        &mut self,
        call: Call,
        l: Language,
        a: &[Any],
        waited: &[usize],
        bytes: u64,
    ) -> Option<()> {
        // SAFETY: the caller's promise, here and below: each argument is what MPI's interface says.
        let int = |at: usize| unsafe { l.int(a[at]) };
        // SAFETY: as above.
        let is_all = |at: usize| unsafe { l.is_of_all(a[at]) };
        match call {
            Call::Send | Call::Bsend | Call::Ssend | Call::Rsend => {
                let (peer, tag) = (int(3), int(4));
                is_all(5).then_some(())?;
                if peer >= 0 {
                    self.say(format_args!("send {peer} {tag} {bytes}"));
                }
            }
            Call::Recv => {
                let (peer, tag) = (int(3), int(4));
                is_all(5).then_some(())?;
                match (peer, tag) {
                    (0.., 0..) => self.say(format_args!("recv {peer} {tag} {bytes}")),
                    _ if l.is_nobody(peer) => {}
                    _ => return None,
                }
            }
            Call::Isend | Call::Ibsend | Call::Issend | Call::Irsend | Call::Irecv => {
                let (peer, tag) = (int(3), int(4));
                is_all(5).then_some(())?;
                let is_send = call != Call::Irecv;
                if peer < 0 || tag < 0 {
                    return l.is_nobody(peer).then_some(());
                }
                let me = own_rank()?;
                let (word, way) = match is_send {
                    true => ("isend", format!("{me} {peer} {tag}")),
                    false => ("irecv", format!("{peer} {me} {tag}")),
                };
                // SAFETY: MPI has just written the request there.
                let request = unsafe { handle(l, a[6], 0) };
                self.requests.insert(request, way);
                self.say(format_args!("{word} {peer} {tag} {bytes}"));
            }
            Call::Sendrecv => {
                let (to, from) = (int(3), int(8));
                is_all(10).then_some(())?;
                // SAFETY: as above.
                let received = unsafe { l.of(a[6], a[7]) };
                match (to, from) {
                    (0.., 0..) => {
                        let (me, there, back) = (own_rank()?, int(4), int(9));
                        if back < 0 {
                            return None;
                        }
                        self.say(format_args!(
                            "irecv {from} {back} {received};isend {to} {there} {bytes}"
                        ));
                        self.say(format_args!("wait {me} {to} {there};wait {from} {me} {back}"));
                    }
                    (0.., _) if l.is_nobody(from) => {
                        self.say(format_args!("send {to} {} {bytes}", int(4)));
                    }
                    (_, 0..) if l.is_nobody(to) => {
                        self.say(format_args!("recv {from} {} {received}", int(9)));
                    }
                    _ if l.is_nobody(to) && l.is_nobody(from) => {}
                    _ => return None,
                }
            }
            Call::Wait | Call::Waitall => {
                for request in waited {
                    if let Some(way) = self.requests.remove(request) {
                        self.say(format_args!("wait {way}"));
                    }
                }
            }
            Call::Barrier => {
                is_all(0).then_some(())?;
                self.say(format_args!("barrier"));
            }
            Call::Bcast => {
                is_all(4).then_some(())?;
                self.say(format_args!("bcast {bytes} {}", int(3)));
            }
            Call::Reduce => {
                is_all(6).then_some(())?;
                self.say(format_args!("reduce {bytes} 0 {}", int(5)));
            }
            Call::Allreduce => {
                is_all(5).then_some(())?;
                self.say(format_args!("allreduce {bytes} 0"));
            }
            Call::Gather | Call::Scatter => {
                is_all(7).then_some(())?;
                let word = if call == Call::Gather { "gather" } else { "scatter" };
                self.say(format_args!("{word} {bytes} {bytes} {}", int(6)));
            }
            Call::Allgather | Call::Alltoall => {
                is_all(6).then_some(())?;
                let word = if call == Call::Allgather { "allgather" } else { "alltoall" };
                self.say(format_args!("{word} {bytes} {bytes}"));
            }
            // They move nothing that matters. Not so a Test: a request that it ends is not waited for.
            Call::Probe | Call::Iprobe => {}
            Call::CommDup
            | Call::CommFree
            | Call::CommSplit
            | Call::CommSplitType
            | Call::CommCreate
            | Call::CommCreateGroup
            | Call::CartCreate => {}
            _ => return None,
        }
        Some(())
    }
}

/// This rank, as its launcher says.
fn own_rank() -> Option<u64> {
    static RANK: OnceLock<Option<u64>> = OnceLock::new();
    *RANK.get_or_init(crate::record::own_rank)
}

/// A request's handle: an address in Open MPI's C, a number elsewhere.
///
/// # Safety
/// So many requests must be there.
unsafe fn handle(language: Language, requests: Any, at: usize) -> usize {
    if requests.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe {
        match language != Language::Fortran && has_addresses() {
            true => requests.cast::<usize>().add(at).read_unaligned(),
            false => requests.cast::<c_int>().add(at).read_unaligned() as usize,
        }
    }
}

/// Whether handles are addresses in C: those of Open MPI are.
fn has_addresses() -> bool {
    static OPEN_MPI: Next = Next::new(crate::NAME, "ompi_mpi_comm_world\0");
    static IS: OnceLock<bool> = OnceLock::new();
    *IS.get_or_init(|| !OPEN_MPI.or_null().is_null())
}

impl Language {
    /// Whether a communicator has as many ranks as there are in all, and this one by the same number. Where that is
    /// so on every rank, it is that of all ranks or equal to it; one rank on which it is not spoils the whole trace.
    ///
    /// # Safety
    /// The argument must be a communicator.
    unsafe fn is_of_all(self, comm: Any) -> bool {
        // SAFETY: the caller's promise.
        let (rank, size) = unsafe { (self.rank(comm), self.ranks(comm)) };
        own_rank() == u64::try_from(rank).ok()
            && crate::record::all_ranks() == u64::try_from(size).ok()
    }

    /// Whether it is MPI_PROC_NULL: -2 in Open MPI, -1 in MPICH's kin.
    fn is_nobody(self, peer: i64) -> bool {
        peer == if has_addresses() { -2 } else { -1 }
    }
}
