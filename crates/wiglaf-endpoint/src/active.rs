//! Active messages between their arrival and their handler. Nobody posts receives for them, so what
//! their senders' credit does not bound stays with the senders while much is here already.

use std::collections::VecDeque;

use wiglaf_transport::PeerId;
use wiglaf_transport::limits::CREDIT_INITIAL;
use wiglaf_wire::Envelope;

use crate::ActiveMessage;
use crate::matching::Payload;

#[derive(Debug)]
enum Entry {
    /// And whether it was charged: one that was announced was not.
    Here(ActiveMessage, bool),
    /// One that was announced and has not been asked for.
    Announced(PeerId, Envelope, Payload),
    /// The first of those that were announced, which is being fetched. What is fetched without a
    /// place may come before it, and goes in front.
    Coming,
}

/// The first in line.
#[derive(Debug)]
pub(crate) enum Next {
    /// It is here, and whether it was charged.
    Message(ActiveMessage, bool),
    /// It is to be fetched, and keeps its place.
    Announced(PeerId, Envelope, Payload),
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
    pub(crate) fn park(&mut self, peer: PeerId, envelope: Envelope, payload: Payload) {
        self.absent += 1;
        self.queue.push_back(Entry::Announced(peer, envelope, payload));
    }

    /// So many bytes are being fetched.
    pub(crate) fn reserve(&mut self, len: usize) {
        self.held += len as u64;
    }

    /// One that was fetched is here; `was_parked` if it has a place in the line.
    pub(crate) fn fetched(&mut self, message: ActiveMessage, was_parked: bool) {
        let entry = Entry::Here(message, false);
        if was_parked && let Some(at) = self.coming() {
            self.queue[at] = entry;
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
        if was_parked && let Some(at) = self.coming() {
            self.queue.remove(at);
            self.absent -= 1;
        }
    }

    /// Where the one is that is being fetched to its place.
    fn coming(&self) -> Option<usize> {
        self.queue.iter().position(|entry| matches!(entry, Entry::Coming))
    }

    /// The first in line; `None` also while it is being fetched.
    pub(crate) fn next(&mut self) -> Option<Next> {
        match self.queue.pop_front()? {
            Entry::Here(message, is_charged) => {
                self.held -= message.payload.len() as u64;
                Some(Next::Message(message, is_charged))
            }
            Entry::Announced(peer, envelope, payload) => {
                self.queue.push_front(Entry::Coming);
                Some(Next::Announced(peer, envelope, payload))
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

#[cfg(test)]
mod tests {
    use super::*;
    use wiglaf_wire::Class;

    fn message(handler: u64, len: usize) -> ActiveMessage {
        ActiveMessage { source: PeerId(0), handler, data: None, payload: vec![0; len] }
    }

    /// Handlers of all that can be taken now.
    fn take(actives: &mut Actives) -> Vec<u64> {
        let next = |actives: &mut Actives| match actives.next() {
            Some(Next::Message(message, _)) => Some(message.handler),
            Some(Next::Announced(..)) => panic!("it is still with its sender"),
            None => None,
        };
        std::iter::from_fn(|| next(actives)).collect()
    }

    /// One that is fetched at once, and one that waited and is fetched beside it.
    fn two_at_once(len: usize) -> Actives {
        let mut actives = Actives::default();
        assert!(actives.has_room());
        actives.reserve(len);
        let envelope = Envelope::new(Class::Active, 2, None);
        let payload = Payload::Remote { send_id: 1, total: len as u64 };
        actives.park(PeerId(1), envelope, payload);
        assert!(matches!(actives.next(), Some(Next::Announced(..))));
        actives.reserve(len);
        actives
    }

    #[test]
    fn two_that_are_fetched_at_once_come_both_whichever_is_here_first() {
        for first_is_parked in [false, true] {
            let mut actives = two_at_once(1 << 20);
            for parked in [first_is_parked, !first_is_parked] {
                actives.fetched(message(1 + u64::from(parked), 1 << 20), parked);
            }
            let order = if first_is_parked { [2, 1] } else { [1, 2] };
            assert_eq!((take(&mut actives), actives.held()), (order.to_vec(), 0));
            assert!(actives.has_room() && actives.len() == 0);
        }
    }

    #[test]
    fn one_that_is_lost_takes_no_other_with_it() {
        let mut actives = two_at_once(1 << 20);
        actives.fetched(message(1, 1 << 20), false);
        actives.lost(&message(2, 1 << 20), true);
        actives.arrived(message(3, 8));
        assert_eq!((take(&mut actives), actives.held()), (vec![1, 3], 0));
        assert!(actives.has_room());
    }
}
