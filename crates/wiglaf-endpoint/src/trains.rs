//! Where trains are written before they are sent.
//!
//! A link may go on reading a train that it was lent ([`Link::lend`]). Its memory is written to
//! again when the train has been acknowledged: until then another room is at hand. Rooms are
//! mapped for this alone, so that what is read after the endpoint's end is still the train.
//!
//! Who writes too early does no harm but to speed: if a packet arrived twice and once late, the
//! late one may be damaged, which its checksum tells.

use std::collections::VecDeque;
use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::{Advice, MmapMut};
use wiglaf_link::{Lane, Link, Sent, Train};
use wiglaf_transport::{Mark, Transmit};

use crate::limits::{LENT_LEN_MIN, ROOM_LEN, ROOMS_LEN};

/// Rooms for trains of one endpoint.
#[derive(Debug)]
pub(crate) struct Trains {
    /// What is written to before anything can be lent, and where the system has no memory to map.
    first: Vec<u8>,
    rooms: Option<MmapMut>,
    /// Where in them the next train is written.
    current: usize,
    /// Where the others are. Those used last come last: what the receiver's core has just read is in
    /// its caches, and would have to be taken from there line by line.
    free: VecDeque<usize>,
    lent: VecDeque<(Mark, usize)>,
}

impl Trains {
    pub(crate) fn new() -> Self {
        let first = vec![0; ROOM_LEN];
        Self { first, rooms: None, current: 0, free: VecDeque::new(), lent: VecDeque::new() }
    }

    /// Sends the train that was just written; a long one without a copy, if its room can be missed until
    /// it has arrived.
    ///
    /// # Errors
    /// When the link has failed.
    pub(crate) fn send(
        &mut self,
        link: &mut dyn Link,
        transmit: &Transmit,
        has_arrived: impl Fn(Mark) -> bool,
    ) -> io::Result<Sent> {
        let mark = transmit.mark.filter(|_| may_be_lent(transmit));
        if mark.is_some() {
            self.reclaim(has_arrived);
        }
        let train = as_train(transmit, &self[..transmit.len]);
        let (Some(mark), Some(&next)) = (mark, self.free.front()) else {
            if transmit.is_probe {
                // One that there is no room for is lost: what its interface always drops would wait for ever.
                return link.probe(&train).map(|_| Sent::All);
            }
            let sent = link.send(&train)?;
            // Not when it was not sent: it is still to be read here.
            if mark.is_some() && self.rooms.is_none() && sent == Sent::All {
                self.map();
            }
            return Ok(sent);
        };
        let sent = link.lend(&train)?;
        if sent == Sent::Lent {
            self.lent.push_back((mark, self.current));
            self.free.pop_front();
            self.current = next;
        }
        Ok(sent)
    }

    /// Maps the rooms; without them everything goes on as before.
    fn map(&mut self) {
        // Twice as much, of which half begins where a large page does; the rest is never touched.
        let Ok(rooms) = MmapMut::map_anon(2 * ROOMS_LEN) else { return };
        let begin = rooms.as_ptr().addr().next_multiple_of(ROOMS_LEN) - rooms.as_ptr().addr();
        // Small pages do, too; Miri knows no advice.
        if !cfg!(miri) {
            let _ = rooms.advise_range(Advice::HugePage, begin, ROOMS_LEN);
        }
        self.free = (begin..begin + ROOMS_LEN).step_by(ROOM_LEN).collect();
        let Some(current) = self.free.pop_front() else { return };
        self.current = current;
        self.rooms = Some(rooms);
    }

    fn reclaim(&mut self, has_arrived: impl Fn(Mark) -> bool) {
        let free = &mut self.free;
        self.lent.retain(|(mark, room)| {
            let arrived = has_arrived(*mark);
            free.extend(arrived.then_some(*room));
            !arrived
        });
    }
}

/// How many datagrams of at most `frame_len_max` bytes a train has, on a link that takes `link_max`.
pub(crate) fn datagrams_max(link_max: usize, frame_len_max: usize) -> usize {
    link_max.min(ROOM_LEN / frame_len_max).max(1)
}

/// Whether a train may be lent, and is long enough. Who carries single datagrams lends none.
fn may_be_lent(transmit: &Transmit) -> bool {
    transmit.mark.is_some() && transmit.bulk && transmit.len >= LENT_LEN_MIN
}

/// As links take it.
pub(crate) fn as_train<'a>(transmit: &Transmit, bytes: &'a [u8]) -> Train<'a> {
    let lane = if transmit.bulk { Lane::Bulk } else { Lane::Latency };
    Train { to: transmit.to, lane, segment_len: transmit.segment_len, bytes }
}

impl Deref for Trains {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.rooms {
            Some(rooms) => &rooms[self.current..self.current + ROOM_LEN],
            None => &self.first,
        }
    }
}

impl DerefMut for Trains {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.rooms {
            Some(rooms) => &mut rooms[self.current..self.current + ROOM_LEN],
            None => &mut self.first,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::net::{Ipv4Addr, SocketAddrV4};
    use std::os::fd::RawFd;

    use wiglaf_link::{Deliver, Limits};
    use wiglaf_transport::PeerId;

    use super::*;
    use crate::setup::path_of;

    const AT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);

    /// Notes where the trains are that it is lent.
    #[derive(Default)]
    struct Taker {
        lent: Vec<usize>,
        copied: usize,
        is_full: bool,
        limits: Option<Limits>,
    }

    impl Link for Taker {
        fn name(&self) -> &'static str {
            "taker"
        }

        fn local(&self) -> SocketAddrV4 {
            AT
        }

        fn bulk_port(&self) -> u16 {
            2
        }

        fn limits(&self) -> Limits {
            self.limits.expect("asked for where there are some")
        }

        fn reaches(&self, _: SocketAddrV4) -> bool {
            true
        }

        fn send(&mut self, _: &Train<'_>) -> io::Result<Sent> {
            self.copied += 1;
            Ok(if self.is_full { Sent::Full } else { Sent::All })
        }

        fn lend(&mut self, train: &Train<'_>) -> io::Result<Sent> {
            self.lent.push(train.bytes.as_ptr().addr());
            Ok(Sent::Lent)
        }

        fn recv_trains(&mut self, _: &mut Deliver<'_>) -> io::Result<usize> {
            Ok(0)
        }

        fn wait_fds(&self) -> Vec<RawFd> {
            Vec::new()
        }
    }

    fn train(end: u64) -> Transmit {
        let mark = Some(Mark { peer: PeerId(0), bulk: true, end });
        Transmit {
            peer: PeerId(0),
            to: AT,
            path: 0,
            bulk: true,
            is_probe: false,
            len: LENT_LEN_MIN,
            segment_len: 1000,
            mark,
        }
    }

    #[test]
    fn a_train_that_its_link_has_no_room_for_is_still_there() {
        let (mut trains, mut link) = (Trains::new(), Taker::default());
        trains.fill(7);
        link.is_full = true;
        assert_eq!(trains.send(&mut link, &train(0), |_| false).expect("no error"), Sent::Full);
        assert!(trains[..LENT_LEN_MIN].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_lent_train_is_not_written_to_before_it_has_arrived() {
        let arrived = RefCell::new(Vec::new());
        let has_arrived = |mark: Mark| arrived.borrow().contains(&mark.end);
        let (mut trains, mut link) = (Trains::new(), Taker::default());
        let count = ROOMS_LEN / ROOM_LEN;
        for end in 0..count as u64 + 2 {
            trains.fill(1);
            trains.send(&mut link, &train(end), has_arrived).expect("no error");
            assert!(!link.lent.contains(&trains.as_ptr().addr()), "after {end}");
        }
        // The first, before there are rooms, and the last two: one room is always written to.
        assert_eq!((link.copied, link.lent.len()), (3, count - 1));
        // In whichever order they arrive.
        arrived.borrow_mut().push(7);
        trains.send(&mut link, &train(100), has_arrived).expect("no error");
        assert_eq!(trains.as_ptr().addr(), link.lent[6]);
        trains.send(&mut link, &train(101), has_arrived).expect("no error");
        assert_eq!((link.copied, link.lent.len()), (4, count));
        // What was sent before is not lent, nor what is copied in no time.
        arrived.borrow_mut().push(8);
        let again = Transmit { mark: None, ..train(102) };
        let short = Transmit { len: LENT_LEN_MIN - 1, ..train(103) };
        for train in [again, short] {
            trains.send(&mut link, &train, has_arrived).expect("no error");
        }
        assert_eq!((link.copied, link.lent.len()), (6, count));
    }

    /// Rooms for longer ones, such as those of shared memory, would come round sooner.
    #[test]
    fn trains_of_every_link_fit_a_room() {
        let lengths = [(44, 1472, 44), (64, 700, 64), (7, 8972, 7), (8, 16_368, 4), (1, 65_507, 1)];
        for (bulk_train_max, frame_len_max, datagrams) in lengths {
            let limits = Limits {
                frame_len_max,
                frame_len_sure: frame_len_max,
                latency_train_max: 1,
                bulk_train_max,
                bulk_window_len: 1 << 20,
            };
            let path = path_of(&Taker { limits: Some(limits), ..Taker::default() });
            assert_eq!(path.bulk_train_max, datagrams, "{frame_len_max}");
            assert!(datagrams * frame_len_max <= ROOM_LEN);
        }
    }

    /// The one that was read last is the last to be taken from the receiver's core again.
    #[test]
    fn rooms_are_used_in_turn() {
        let (mut trains, mut link) = (Trains::new(), Taker::default());
        let count = ROOMS_LEN / ROOM_LEN;
        for end in 0..2 * count as u64 + 1 {
            trains.send(&mut link, &train(end), |_| true).expect("no error");
        }
        let (first, second) = link.lent.split_at(count);
        let mut different = first.to_vec();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() == count && first == second, "{:?}", link.lent);
    }
}
