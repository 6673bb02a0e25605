//! Active messages between their arrival and their handler. Nobody posts receives for them, so what
//! their senders' credit does not bound stays with the senders while much is here already.

use std::collections::VecDeque;

use wiglaf_transport::PeerId;
use wiglaf_transport::limits::CREDIT_INITIAL;
use wiglaf_wire::Envelope;

use crate::ActiveMessage;
use crate::matching::Payload;

/// One that was announced and has not been asked for.
#[derive(Debug)]
pub(crate) struct Announcement {
    pub(crate) peer: PeerId,
    pub(crate) envelope: Envelope,
    pub(crate) total: u64,
    pub(crate) payload: Payload,
}

#[derive(Debug)]
enum Entry {
    /// And whether it was charged: one that was announced was not.
    Here(ActiveMessage, bool),
    Announced(Announcement),
    /// The first of all, which is being fetched.
    Coming,
}

/// The first in line.
#[derive(Debug)]
pub(crate) enum Next {
    /// It is here, and whether it was charged.
    Message(ActiveMessage, bool),
    /// It is to be fetched, and keeps its place.
    Announced(Announcement),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Actives {
    queue: VecDeque<Entry>,
    /// Those of the queue that are not here.
    absent: usize,
    /// Bytes in the queue, and of messages that are being fetched.
    held: u64,
}

impl Actives {
    /// One is here that came unasked.
    pub(crate) fn arrived(&mut self, message: ActiveMessage) {
        self.held += message.payload.len() as u64;
        self.queue.push_back(Entry::Here(message, true));
    }

    /// Whether one that was announced may be fetched at once.
    pub(crate) fn has_room(&self) -> bool {
        self.absent == 0 && self.held < CREDIT_INITIAL
    }

    /// It is not, but when those before it have been taken.
    pub(crate) fn park(&mut self, announcement: Announcement) {
        self.absent += 1;
        self.queue.push_back(Entry::Announced(announcement));
    }

    /// So many bytes are being fetched.
    pub(crate) fn reserve(&mut self, len: usize) {
        self.held += len as u64;
    }

    /// One that was fetched is here; `was_parked` if it has a place in the line.
    pub(crate) fn fetched(&mut self, message: ActiveMessage, was_parked: bool) {
        let entry = Entry::Here(message, false);
        if was_parked && let Some(first) = self.queue.front_mut() {
            *first = entry;
            self.absent -= 1;
        } else if self.absent == 0 {
            self.queue.push_back(entry);
        } else {
            // Those that were parked were announced later.
            let is_here = |entry: &Entry| matches!(entry, Entry::Here(..));
            let at = self.queue.iter().position(|entry| !is_here(entry));
            self.queue.insert(at.unwrap_or(self.queue.len()), entry);
        }
    }

    /// One that was being fetched will not come.
    pub(crate) fn lost(&mut self, message: &ActiveMessage, was_parked: bool) {
        self.held -= message.payload.len() as u64;
        if was_parked {
            self.queue.pop_front();
            self.absent -= 1;
        }
    }

    /// The first in line; `None` also while it is being fetched.
    pub(crate) fn next(&mut self) -> Option<Next> {
        match self.queue.pop_front()? {
            Entry::Here(message, is_charged) => {
                self.held -= message.payload.len() as u64;
                Some(Next::Message(message, is_charged))
            }
            Entry::Announced(announcement) => {
                self.queue.push_front(Entry::Coming);
                Some(Next::Announced(announcement))
            }
            Entry::Coming => {
                self.queue.push_front(Entry::Coming);
                None
            }
        }
    }

    /// Whether the first in line can be taken, or fetched.
    pub(crate) fn is_due(&self) -> bool {
        self.queue.front().is_some_and(|first| !matches!(first, Entry::Coming))
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn held(&self) -> u64 {
        self.held
    }
}
