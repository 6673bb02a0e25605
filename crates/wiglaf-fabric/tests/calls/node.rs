//! An endpoint under test beside its model: reads its queues, and compares.
//!
//! Contexts are numbers. Odd ones are of marks: messages by which the test learns that all messages
//! before them have arrived.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ptr;

use crate::counters::{Counters, Counts};
use crate::model::{Class, Entry, Receiver};
use crate::ops::{self, Home, call, fi};
use crate::remote::Exposed;

pub(crate) struct Node {
    pub(crate) ep: *mut fi::fid_ep,
    pub(crate) tx: *mut fi::fid_cq,
    pub(crate) rx: *mut fi::fid_cq,
    pub(crate) av: *mut fi::fid_av,
    format: fi::fi_cq_format,
    /// Shows only operations with `FI_COMPLETION`.
    pub(crate) is_selective: bool,
    /// Indices of all nodes in its vector.
    pub(crate) index: Vec<fi::fi_addr_t>,
    pub(crate) model: Receiver,
    /// Sends whose entry must come: context and class.
    pub(crate) sending: HashMap<usize, Class>,
    /// Buffers of receives, by context.
    pub(crate) buffers: HashMap<usize, Box<[u8]>>,
    /// Buffers for several messages that have been given back.
    released: HashSet<usize>,
    /// Marks that have arrived, by context.
    pub(crate) marks: HashSet<usize>,
    /// What was read before its time.
    put_off: VecDeque<Result<Read, fi::fi_cq_err_entry>>,
    exposed: Option<Exposed>,
    /// One-sided operations whose entry must come, by context: its flags, or its error.
    pub(crate) one_sided: HashMap<usize, (u64, Option<i32>)>,
    /// Data and length of writes that must be told of.
    pub(crate) remote_data: VecDeque<(u64, usize)>,
    counters: Option<Counters>,
    /// What they must say; the receives are the model's.
    pub(crate) counts: Counts,
}

// SAFETY: the provider may be called by any thread.
unsafe impl Send for Node {}

/// What a queue said.
struct Read {
    entry: fi::fi_cq_tagged_entry,
    from: fi::fi_addr_t,
}

impl Node {
    pub(crate) fn open(
        home: &Home,
        n: usize,
        format: fi::fi_cq_format,
        is_selective: bool,
        is_watched: bool,
    ) -> Self {
        let (ep, tx, rx) = (home.ep(), home.cq(format), home.cq(format));
        let av = home.av();
        let selective = if is_selective { fi::FI_SELECTIVE_COMPLETION } else { 0 };
        assert_eq!(ops::bind(ep, av, 0), 0);
        assert_eq!(ops::bind(ep, tx, fi::FI_SEND | selective), 0);
        assert_eq!(ops::bind(ep, rx, fi::FI_RECV | selective), 0);
        // Operations take other ways with counters than without.
        let counters = (n != 1).then(|| Counters::bind(home, ep));
        assert_eq!(ops::enable(ep), 0);
        Self {
            ep,
            tx,
            rx,
            av,
            format,
            is_selective,
            index: Vec::new(),
            model: Receiver::default(),
            sending: HashMap::new(),
            buffers: HashMap::new(),
            released: HashSet::new(),
            marks: HashSet::new(),
            put_off: VecDeque::new(),
            exposed: Some(Exposed::open(home, n, is_watched)),
            one_sided: HashMap::new(),
            remote_data: VecDeque::new(),
            counters,
            counts: Counts::default(),
        }
    }

    /// The memory that others may reach.
    pub(crate) fn exposed(&mut self) -> &mut Exposed {
        self.exposed.as_mut().expect("until it is closed")
    }

    pub(crate) fn is_memory_right(&self) -> bool {
        self.exposed.as_ref().is_some_and(Exposed::is_right)
    }

    /// Whether the counters say what they must.
    pub(crate) fn is_counted(&self) -> bool {
        let mut counts = self.counts;
        let (well, badly) = self.model.counts;
        (0..well).for_each(|_| counts.received(true));
        (0..badly).for_each(|_| counts.received(false));
        self.counters.as_ref().is_none_or(|counters| counters.read() == counts)
            && self.exposed.as_ref().is_none_or(Exposed::is_counted)
    }

    pub(crate) fn close(self) {
        assert_eq!(ops::close(self.ep), 0, "ep");
        assert_eq!(ops::close(self.tx), 0, "tx");
        assert_eq!(ops::close(self.rx), 0, "rx");
        assert_eq!(ops::close(self.av), 0, "av");
        self.counters.into_iter().for_each(Counters::close);
        self.exposed.into_iter().for_each(Exposed::close);
    }

    /// A buffer for a receive with that context.
    pub(crate) fn buffer(&mut self, context: usize, len: usize) -> *mut libc::c_void {
        let buffer = vec![0xee; len].into_boxed_slice();
        self.buffers.entry(context).insert_entry(buffer).into_mut().as_mut_ptr().cast()
    }

    /// Reads all that is there from both queues, and compares.
    pub(crate) fn read(&mut self) -> Result<(), String> {
        while let Some(read) = next(self.tx, self.format)? {
            let context = match &read {
                Ok(read) => read.entry.op_context.addr(),
                Err(error) => error.op_context.addr(),
            };
            if let Some((flags, error)) = self.one_sided.remove(&context) {
                let got = read.map(|read| read.entry.flags).map_err(|error| error.err);
                compare("a one-sided operation", got, error.map_or(Ok(flags), Err))?;
                continue;
            }
            let read = read.map_err(|error| format!("a send has failed: {}", error.err))?;
            let Some(class) = self.sending.remove(&context) else {
                return Err(format!("send {context:#x} has completed and was not to"));
            };
            compare("flags of a send", read.entry.flags, fi::FI_SEND | class.flag())?;
        }
        loop {
            let read = match self.put_off.pop_front() {
                None => next(self.rx, self.format)?,
                put_off => put_off,
            };
            match read {
                None => return Ok(()),
                Some(Ok(read)) => self.received(&read)?,
                Some(Err(error)) => self.failed(&error)?,
            }
        }
    }

    /// Reads until that mark has come, and puts what comes before it off: the model does not know of
    /// it yet.
    pub(crate) fn read_marks(&mut self, mark: usize) -> Result<(), String> {
        while let Some(read) = next(self.rx, self.format)? {
            let is_mark = matches!(&read, Ok(read) if read.entry.op_context.addr() == mark);
            if is_mark {
                self.marks.insert(mark);
                return Ok(());
            }
            self.put_off.push_back(read);
        }
        Ok(())
    }

    fn wanted(&mut self, context: usize, error: Option<i32>) -> Result<Entry, String> {
        let wanted = self.model.wanted.get_mut(&context);
        let entries = wanted.filter(|entries| !entries.is_empty());
        let entries =
            entries.ok_or_else(|| format!("{context:#x} completes unasked ({error:?})"))?;
        // Those of a buffer for several messages may overtake each other: long ones are pulled.
        let fits = |entry: &Entry| entry.error.map(|(errno, _)| errno) == error;
        let at = entries.iter().position(fits);
        let at = at.ok_or_else(|| format!("{context:#x} ended with {error:?}, not {entries:?}"))?;
        Ok(entries.remove(at).expect("just found"))
    }

    fn received(&mut self, read: &Read) -> Result<(), String> {
        let context = read.entry.op_context.addr();
        if read.entry.flags & fi::FI_REMOTE_WRITE != 0 {
            return self.written(read);
        }
        if context & 1 != 0 {
            self.marks.insert(context);
            return Ok(());
        }
        let has_place = self.format >= fi::FI_CQ_FORMAT_DATA;
        let wanted = self.model.wanted.get(&context).and_then(|entries| entries.front());
        let entry = if wanted.is_some_and(|entry| entry.is_multi) && has_place {
            self.at_place(context, read.entry.buf.addr(), read.entry.len)?
        } else {
            self.wanted(context, None)?
        };
        self.release(context, read.entry.flags, entry.is_multi)?;
        // Which of a buffer's messages this is cannot be told without its place.
        if entry.is_multi && !has_place {
            let (offset, seed, len) = entry.contents.expect("a message has contents");
            self.model.silent.push((context, offset, seed, len));
            return Ok(());
        }
        let what = format!("{context:#x}");
        compare(&what, read.entry.flags & !fi::FI_MULTI_RECV, entry.flags)?;
        compare(&what, read.entry.len, entry.len)?;
        let from = entry.from.map_or(ops::UNSPEC, |from| self.index[from]);
        compare(&format!("source of {context:#x}"), read.from, from)?;
        if has_place && entry.flags & fi::FI_REMOTE_CQ_DATA != 0 {
            compare("data", read.entry.data, entry.data)?;
        }
        if self.format == fi::FI_CQ_FORMAT_TAGGED && entry.flags & fi::FI_TAGGED != 0 {
            compare("tag", read.entry.tag, entry.tag)?;
        }
        match entry.contents {
            Some((offset, seed, len)) => self.compare_contents(context, offset, seed, len),
            None => Ok(()),
        }
    }

    /// Somebody has written to the memory here, and said so.
    fn written(&mut self, read: &Read) -> Result<(), String> {
        let Some((data, len)) = self.remote_data.pop_front() else {
            return Err("a write was told of and should not have been".to_owned());
        };
        let flags = fi::FI_RMA | fi::FI_REMOTE_WRITE | fi::FI_REMOTE_CQ_DATA;
        compare("flags of a write that was told of", read.entry.flags, flags)?;
        compare("its length", read.entry.len, len)?;
        compare("its context", read.entry.op_context.addr(), 0)?;
        let has_data = self.format >= fi::FI_CQ_FORMAT_DATA;
        if has_data { compare("its data", read.entry.data, data) } else { Ok(()) }
    }

    /// The entry of the message that lies there in its buffer. Several do where some are empty.
    fn at_place(&mut self, context: usize, place: usize, len: usize) -> Result<Entry, String> {
        let start = self.buffers[&context].as_ptr().addr();
        let entries = self.model.wanted.get_mut(&context).expect("looked up by the caller");
        let is_there = |entry: &Entry| {
            let contents = entry.contents.is_some_and(|(at, ..)| start + at == place);
            entry.error.is_none() && entry.len == len && contents
        };
        let at = entries.iter().position(is_there);
        let at = at.ok_or_else(|| format!("{context:#x}: nothing was to come at {place:#x}"))?;
        Ok(entries.remove(at).expect("just found"))
    }

    fn failed(&mut self, error: &fi::fi_cq_err_entry) -> Result<(), String> {
        let context = error.op_context.addr();
        let entry = self.wanted(context, Some(error.err))?;
        let is_multi = entry.is_multi || error.flags & fi::FI_MULTI_RECV != 0;
        self.release(context, error.flags, is_multi)?;
        compare("flags of an error", error.flags & !fi::FI_MULTI_RECV, entry.flags)?;
        compare("length of an error", error.len, entry.len)?;
        compare("what was cut off", error.olen, entry.error.expect("it is one").1)?;
        if entry.flags & fi::FI_TAGGED != 0 {
            compare("tag of an error", error.tag, entry.tag)?;
        }
        match entry.contents {
            Some((offset, seed, len)) => self.compare_contents(context, offset, seed, len),
            None => Ok(()),
        }
    }

    /// Keeps track of which buffers have been given back.
    fn release(&mut self, context: usize, flags: u64, is_multi: bool) -> Result<(), String> {
        if self.released.contains(&context) {
            return Err(format!("{context:#x} is used although it was given back"));
        }
        if flags & fi::FI_MULTI_RECV != 0 {
            if !is_multi || self.model.waiting().contains(&context) {
                return Err(format!("{context:#x} was given back and should not have been"));
            }
            self.released.insert(context);
        }
        Ok(())
    }

    pub(crate) fn compare_contents(
        &self,
        context: usize,
        offset: usize,
        seed: usize,
        len: usize,
    ) -> Result<(), String> {
        let buffer = &self.buffers[&context];
        let differs = (0..len).find(|&i| buffer[offset + i] != byte(seed, i));
        match differs {
            Some(i) => Err(format!("{context:#x}: byte {i} of message {seed} differs")),
            None => Ok(()),
        }
    }
}

/// Byte `i` of the message with that seed.
pub(crate) fn byte(seed: usize, i: usize) -> u8 {
    (seed * 151 + i * 7 + i / 251) as u8
}

fn compare<T: Copy + PartialEq + std::fmt::Debug>(
    what: &str,
    got: T,
    want: T,
) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{what}: {got:?} instead of {want:?}")) }
}

type Next = Option<Result<Read, fi::fi_cq_err_entry>>;

/// The next entry of a queue, fields that its format does not have being zero.
fn next(cq: *mut fi::fid_cq, format: fi::fi_cq_format) -> Result<Next, String> {
    let mut read = Read { entry: ops::zeroed(), from: ops::UNSPEC };
    let len = match format {
        fi::FI_CQ_FORMAT_CONTEXT => size_of::<fi::fi_cq_entry>(),
        fi::FI_CQ_FORMAT_MSG => size_of::<fi::fi_cq_msg_entry>(),
        fi::FI_CQ_FORMAT_DATA => size_of::<fi::fi_cq_data_entry>(),
        _ => size_of::<fi::fi_cq_tagged_entry>(),
    };
    let mut bytes = [0xcdu8; 2 * size_of::<fi::fi_cq_tagged_entry>()];
    let n = call!(cq, ops.readfrom(cq, bytes.as_mut_ptr().cast(), 1, &raw mut read.from));
    if n == -(fi::FI_EAGAIN as isize) {
        return Ok(None);
    }
    if n == -(fi::FI_EAVAIL as isize) {
        // Room for the fields of newer versions behind it.
        let mut entry: [fi::fi_cq_err_entry; 2] = ops::zeroed();
        let n = call!(cq, ops.readerr(cq, entry.as_mut_ptr(), 0));
        compare("what readerr says", n, 1)?;
        let text =
            call!(cq, ops.strerror(cq, entry[0].prov_errno, entry[0].err_data, ptr::null_mut(), 0));
        if text.is_null() {
            return Err("an error without a text".to_owned());
        }
        let [entry, _] = entry;
        return Ok(Some(Err(entry)));
    }
    compare("what read says", n, 1)?;
    if bytes[len..].iter().any(|&byte| byte != 0xcd) {
        return Err("an entry is longer than its format".to_owned());
    }
    // SAFETY: every format is a prefix of the tagged one.
    unsafe {
        ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut read.entry).cast::<u8>(), len);
    }
    Ok(Some(Ok(read)))
}
