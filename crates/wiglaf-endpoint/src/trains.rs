//! Where trains are written before they are sent.
//!
//! A link may go on reading a train that it was lent ([`wiglaf_link::Link::lend`]). Its memory is
//! written to again when the train has been acknowledged: then another is at hand. It is
//! mapped for this alone, so that what is read after the endpoint's end is still the train.
//!
//! Who writes too early does no harm but to speed: if a packet arrived twice and once late, the
//! late one may be damaged, which its checksum tells.

use std::collections::VecDeque;
use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;
use wiglaf_link::{Lane, Link, Sent, Train};
use wiglaf_transport::{Mark, Transmit};

/// Most trains that are lent at once; others are copied by the kernel.
const LENT_MAX: usize = 32;

/// Room for one train.
#[derive(Debug)]
enum Room {
    Mapped(MmapMut),
    /// The system has no memory to map: never lent.
    Allocated(Vec<u8>),
}

/// Rooms for trains of one endpoint.
#[derive(Debug)]
pub(crate) struct Trains {
    /// What is written to.
    current: Room,
    /// Used last at the end: it is in the caches.
    free: Vec<MmapMut>,
    lent: VecDeque<(Mark, MmapMut)>,
    len: usize,
}

impl Trains {
    /// Trains of at most `len` bytes.
    pub(crate) fn new(len: usize) -> Self {
        let current = match MmapMut::map_anon(len) {
            Ok(memory) => Room::Mapped(memory),
            Err(_) => Room::Allocated(vec![0; len]),
        };
        Self { current, free: Vec::new(), lent: VecDeque::new(), len }
    }

    /// Sends the train that was just written, without a copy if its room can be missed until it
    /// has arrived.
    ///
    /// # Errors
    /// When the link has failed.
    pub(crate) fn send(
        &mut self,
        link: &mut dyn Link,
        transmit: &Transmit,
        has_arrived: impl Fn(Mark) -> bool,
    ) -> io::Result<Sent> {
        let mark = transmit.mark.filter(|_| self.can_lend(has_arrived));
        let train = as_train(transmit, &self[..transmit.len]);
        let Some(mark) = mark else { return link.send(&train) };
        let sent = link.lend(&train)?;
        if sent == Sent::Lent {
            self.lend(mark);
        }
        Ok(sent)
    }

    /// Whether there is room for the next train while this one is lent.
    fn can_lend(&mut self, has_arrived: impl Fn(Mark) -> bool) -> bool {
        if matches!(self.current, Room::Allocated(_)) {
            return false;
        }
        for _ in 0..self.lent.len() {
            let Some((mark, memory)) = self.lent.pop_front() else { break };
            if has_arrived(mark) {
                self.free.push(memory);
            } else {
                self.lent.push_back((mark, memory));
            }
        }
        if self.free.is_empty() && self.lent.len() < LENT_MAX {
            self.free.extend(MmapMut::map_anon(self.len));
        }
        !self.free.is_empty()
    }

    /// The train that was just written is being read until the mark is reached.
    fn lend(&mut self, until: Mark) {
        let Some(next) = self.free.pop() else { return };
        if let Room::Mapped(memory) = std::mem::replace(&mut self.current, Room::Mapped(next)) {
            self.lent.push_back((until, memory));
        }
    }
}

/// As links take it.
pub(crate) fn as_train<'a>(transmit: &Transmit, bytes: &'a [u8]) -> Train<'a> {
    let lane = if transmit.bulk { Lane::Bulk } else { Lane::Latency };
    Train { to: transmit.to, lane, segment_len: transmit.segment_len, bytes }
}

impl Deref for Trains {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.current {
            Room::Mapped(memory) => memory,
            Room::Allocated(memory) => memory,
        }
    }
}

impl DerefMut for Trains {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.current {
            Room::Mapped(memory) => memory,
            Room::Allocated(memory) => memory,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn mark(end: u64) -> Mark {
        Mark { peer: wiglaf_transport::PeerId(0), bulk: true, end }
    }

    #[test]
    fn a_lent_train_is_not_written_to_before_it_has_arrived() {
        let arrived = RefCell::new(Vec::new());
        let has_arrived = |mark: Mark| arrived.borrow().contains(&mark.end);
        let mut trains = Trains::new(100);
        let mut rooms = Vec::new();
        while trains.can_lend(has_arrived) {
            rooms.push(trains.as_ptr());
            trains.lend(mark(rooms.len() as u64));
            assert!(!rooms.contains(&trains.as_ptr()), "after {}", rooms.len());
        }
        assert_eq!(rooms.len(), LENT_MAX);
        let last = trains.as_ptr();
        trains.fill(1); // and the kernel copies it
        assert!(!trains.can_lend(has_arrived) && trains.as_ptr() == last);
        // In whichever order they arrive.
        arrived.borrow_mut().push(7);
        assert!(trains.can_lend(has_arrived));
        trains.lend(mark(100));
        assert_eq!(trains.as_ptr(), rooms[6]);
        assert!(!trains.can_lend(has_arrived));
    }
}
