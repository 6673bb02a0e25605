//! What libfabric's manual pages promise of messages, as a model: which message meets which receive,
//! and what completes with which entry.

use std::collections::{HashMap, VecDeque};

use crate::ops::fi;

/// Default of `FI_OPT_MIN_MULTI_RECV`, in bytes.
const MULTI_FREE_MIN: usize = 64;

/// Tagged or untagged: the two do not mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Untagged,
    Tagged,
}

impl Class {
    pub(crate) fn flag(self) -> u64 {
        match self {
            Self::Untagged => fi::FI_MSG,
            Self::Tagged => fi::FI_TAGGED,
        }
    }
}

/// A message that was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    /// What its payload is made from.
    pub(crate) seed: usize,
    pub(crate) from: usize,
    pub(crate) class: Class,
    pub(crate) tag: u64,
    pub(crate) data: Option<u64>,
    pub(crate) len: usize,
}

/// What a receive or a peek looks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) class: Class,
    pub(crate) from: Option<usize>,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
}

impl Wish {
    fn fits(&self, message: &Message) -> bool {
        self.class == message.class
            && self.from.is_none_or(|from| from == message.from)
            && (self.class == Class::Untagged || (self.tag ^ message.tag) & !self.ignore == 0)
    }
}

/// A receive that waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posted {
    pub(crate) context: usize,
    pub(crate) wish: Wish,
    pub(crate) room: usize,
    /// Bytes used so far, of a buffer for several messages.
    pub(crate) multi: Option<usize>,
    /// Whether its completion is shown.
    pub(crate) shown: bool,
}

/// An entry that must come, of an operation on the receiving side.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Without `FI_MULTI_RECV`: which entry of a buffer is the last depends on timing.
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) tag: u64,
    pub(crate) data: u64,
    pub(crate) from: Option<usize>,
    /// The error, if it is one, and how much was cut off.
    pub(crate) error: Option<(i32, usize)>,
    /// What lies where in the receive's buffer afterwards: offset, seed of the contents, length.
    pub(crate) contents: Option<(usize, usize, usize)>,
    /// Whether the entry tells where in the buffer.
    pub(crate) is_multi: bool,
}

/// The receiving side of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    posted: Vec<Posted>,
    unexpected: VecDeque<Message>,
    claimed: HashMap<usize, Message>,
    /// What is to be read, by context; several only of a buffer for several messages.
    pub(crate) wanted: HashMap<usize, VecDeque<Entry>>,
    /// What has arrived without an entry: context, offset, seed and length of the contents.
    pub(crate) silent: Vec<(usize, usize, usize, usize)>,
    /// Receives that ended well, and those that did not. A peek is no receive.
    pub(crate) counts: (u64, u64),
}

impl Receiver {
    fn want(&mut self, context: usize, entry: Entry) {
        self.wanted.entry(context).or_default().push_back(entry);
    }

    /// A message arrives.
    pub(crate) fn arrive(&mut self, message: Message) {
        match self.posted.iter().position(|posted| posted.wish.fits(&message)) {
            Some(at) => self.meet(at, message),
            None => self.unexpected.push_back(message),
        }
    }

    /// A receive is posted.
    pub(crate) fn post(&mut self, posted: Posted) {
        self.posted.push(posted);
        while let Some(at) = self.posted.iter().position(|p| p.context == posted.context)
            && let Some(n) = self.unexpected.iter().position(|m| posted.wish.fits(m))
            && let Some(message) = self.unexpected.remove(n)
        {
            self.meet(at, message);
        }
    }

    /// A message and the `at`-th receive have met.
    fn meet(&mut self, at: usize, message: Message) {
        let posted = &mut self.posted[at];
        let offset = posted.multi.unwrap_or(0);
        let len = message.len.min(posted.room - offset);
        let mut is_over = true;
        if let Some(used) = &mut posted.multi {
            *used += len;
            is_over = posted.room - *used < MULTI_FREE_MIN;
        }
        let posted = *posted;
        if is_over {
            self.posted.remove(at);
        }
        self.receive(posted.context, posted.shown, posted.multi.is_some(), (offset, len), message);
    }

    fn receive(
        &mut self,
        context: usize,
        shown: bool,
        is_multi: bool,
        (offset, len): (usize, usize),
        message: Message,
    ) {
        let error = (message.len > len).then_some((fi::FI_ETRUNC, message.len - len));
        *if error.is_none() { &mut self.counts.0 } else { &mut self.counts.1 } += 1;
        if !shown && error.is_none() {
            self.silent.push((context, offset, message.seed, len));
            return;
        }
        let contents = Some((offset, message.seed, len));
        self.want(context, Entry { len, error, contents, is_multi, ..found(&message) });
    }

    /// A peek; `claim` sets the message aside, `discard` drops it.
    pub(crate) fn peek(&mut self, context: usize, wish: &Wish, claim: bool, discard: bool) {
        let Some(n) = self.unexpected.iter().position(|m| wish.fits(m)) else {
            self.want(context, missed(wish, fi::FI_ENOMSG));
            return;
        };
        let message = self.unexpected[n];
        if claim || discard {
            self.unexpected.remove(n);
        }
        if claim && !discard {
            self.claimed.insert(context, message);
        }
        self.want(context, found(&message));
    }

    /// Contexts under which messages have been claimed.
    pub(crate) fn claims(&self) -> Vec<usize> {
        let mut contexts: Vec<usize> = self.claimed.keys().copied().collect();
        contexts.sort_unstable();
        contexts
    }

    /// What has been claimed under `context` is received, or dropped.
    pub(crate) fn take_claimed(&mut self, context: usize, room: Option<usize>, shown: bool) {
        let message = self.claimed.remove(&context).expect("only claimed contexts are taken");
        match room {
            Some(room) => {
                let len = message.len.min(room);
                self.receive(context, shown, false, (0, len), message);
            }
            None if shown => self.want(context, Entry { len: 0, ..found(&message) }),
            None => {}
        }
    }

    /// A cancel; whether there was something to cancel.
    pub(crate) fn cancel(&mut self, context: usize) -> bool {
        let Some(at) = self.posted.iter().position(|p| p.context == context) else { return false };
        let posted = self.posted.remove(at);
        self.counts.1 += 1;
        self.want(context, missed(&posted.wish, fi::FI_ECANCELED));
        true
    }

    /// The first message that nobody has asked for.
    pub(crate) fn oldest(&self) -> Option<&Message> {
        self.unexpected.front()
    }

    /// Contexts of receives that wait.
    pub(crate) fn waiting(&self) -> Vec<usize> {
        self.posted.iter().map(|posted| posted.context).collect()
    }
}

fn found(message: &Message) -> Entry {
    let data = if message.data.is_some() { fi::FI_REMOTE_CQ_DATA } else { 0 };
    Entry {
        flags: fi::FI_RECV | message.class.flag() | data,
        len: message.len,
        tag: message.tag,
        data: message.data.unwrap_or(0),
        from: Some(message.from),
        error: None,
        contents: None,
        is_multi: false,
    }
}

fn missed(wish: &Wish, errno: i32) -> Entry {
    Entry {
        flags: fi::FI_RECV | wish.class.flag(),
        len: 0,
        tag: wish.tag,
        data: 0,
        from: None,
        error: Some((errno, 0)),
        contents: None,
        is_multi: false,
    }
}
