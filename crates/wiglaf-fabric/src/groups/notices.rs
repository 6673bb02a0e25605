//! What members of a group tell each other besides the messages of operations: whether somebody is
//! still there, and that a group is broken.
//!
//! An endpoint that awaits a message sends nothing, so it would never notice that nobody is left to
//! send it. It therefore asks now and then.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use wiglaf_endpoint::{
    Class, CompleteWhen, Completion, Endpoint, Outcome, PeerId, RecvOp, Scratch, SendOp, Side,
};

/// The tag of all of them.
pub(super) const TAG: u64 = u64::MAX;
/// Length of one: what it says, and a number.
const LEN: usize = 16;
const PROBE: u64 = 1;
const BROKEN: u64 = 2;
/// Contexts of the receive, and with the peer of sends.
const RECV: usize = usize::MAX - 1;
const SEND: usize = 1 << (usize::BITS - 2);
/// How often somebody who is awaited is asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// Polls between two looks at the clock.
const POLLS_PER_CLOCK: u32 = 16;
/// Most groups of which something is remembered that are not joined, of either kind.
const REMEMBERED_MAX: usize = 4096;

/// What somebody said about a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// Whether it is well here.
    Probe,
    /// That operations from this one on will not end.
    Broken(u32),
}

/// Groups by number, and the operation from which on they are broken; the oldest are forgotten.
#[derive(Debug, Default)]
pub(super) struct Memory {
    from: HashMap<u64, u32>,
    order: VecDeque<u64>,
}

impl Memory {
    pub(super) fn put(&mut self, group: u64, from: u32) {
        if let Some(known) = self.from.get_mut(&group) {
            *known = from.min(*known);
            return;
        }
        if self.order.len() == REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.from.remove(&oldest);
        }
        self.order.push_back(group);
        self.from.insert(group, from);
    }

    pub(super) fn get(&self, group: u64) -> Option<u32> {
        self.from.get(&group).copied()
    }
}

#[derive(Debug)]
pub(super) struct Notices {
    /// Where one comes in.
    room: Scratch,
    is_posted: bool,
    /// What asks; sent in place.
    probe: Scratch,
    /// Peers that have not taken the last question yet.
    asked: HashSet<PeerId>,
    polls: u32,
    looked_at: Instant,
}

impl Default for Notices {
    fn default() -> Self {
        Self {
            room: Scratch::new(LEN),
            is_posted: false,
            probe: Scratch::of(&word(PROBE, 0)),
            asked: HashSet::new(),
            polls: 0,
            looked_at: Instant::now(),
        }
    }
}

impl Notices {
    /// From now on they are received.
    pub(super) fn listen(&mut self, endpoint: &mut Endpoint) {
        if self.is_posted {
            return;
        }
        let op = RecvOp {
            class: Class::Collective,
            from: None,
            tag: TAG,
            ignore: 0,
            context: RECV,
            report: true,
            multi_min_free: None,
        };
        let region = self.room.region(0..LEN);
        // SAFETY: the room lives as long as the endpoint (`Engine`), and is touched only when
        // nothing is posted.
        self.is_posted = unsafe { endpoint.post_recv(&op, &[region]) }.is_ok();
    }

    /// Whether a completion is one of theirs.
    pub(super) fn are_meant(completion: &Completion) -> bool {
        completion.context >= SEND
    }

    /// One has been sent or received: who said what about which group, if anybody did.
    pub(super) fn ended(&mut self, completion: &Completion) -> Option<(PeerId, u64, Said)> {
        if completion.side == Side::Send {
            self.asked.remove(&PeerId((completion.context - SEND) as u32));
            return None;
        }
        self.is_posted = false;
        if completion.outcome != Outcome::Done || completion.len != LEN {
            return None;
        }
        // SAFETY: the receive has ended.
        let bytes = unsafe { self.room.copied(0..LEN) };
        let (words, _) = bytes.as_chunks::<8>();
        let said = match u64::from_le_bytes(words[0]) {
            PROBE => Said::Probe,
            BROKEN => Said::Broken(u32::try_from(u64::from_le_bytes(words[1])).ok()?),
            _ => return None,
        };
        Some((completion.source?, completion.data?, said))
    }

    /// Whether it is time to ask, and to look for messages that nobody wants.
    pub(super) fn is_due(&mut self) -> bool {
        self.polls = self.polls.wrapping_add(1);
        if !self.polls.is_multiple_of(POLLS_PER_CLOCK) || self.looked_at.elapsed() < INTERVAL {
            return false;
        }
        self.looked_at = Instant::now();
        true
    }

    /// Asks a peer whether a group is well there.
    pub(super) fn ask(&mut self, endpoint: &mut Endpoint, peer: PeerId, group: u64) {
        if self.asked.contains(&peer) {
            return;
        }
        let op = SendOp { report: true, inject: false, ..notice(peer, group) };
        let region = self.probe.region(0..LEN);
        // SAFETY: it lives as long as the endpoint, and always holds the same.
        if unsafe { endpoint.post_send(&op, &[region]) }.is_ok() {
            self.asked.insert(peer);
        }
    }

    /// Tells a peer that a group is broken. Who does not get it asks.
    pub(super) fn tell(endpoint: &mut Endpoint, peer: PeerId, group: u64, from: u32) {
        let said = Scratch::of(&word(BROKEN, u64::from(from)));
        // SAFETY: the memory is read during the call only, as it is an inject.
        let _ = unsafe { endpoint.post_send(&notice(peer, group), &[said.region(0..LEN)]) };
    }
}

fn notice(peer: PeerId, group: u64) -> SendOp {
    SendOp {
        peer,
        class: Class::Collective,
        tag: TAG,
        data: Some(group),
        context: SEND + peer.0 as usize,
        complete: CompleteWhen::Delivery,
        report: false,
        inject: true,
    }
}

fn word(what: u64, number: u64) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[..8].copy_from_slice(&what.to_le_bytes());
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_group_is_forgotten_and_the_earliest_break_counts() {
        let mut memory = Memory::default();
        for group in 0..=REMEMBERED_MAX as u64 {
            memory.put(group, 7);
        }
        assert_eq!(memory.get(0), None);
        assert_eq!(memory.get(1), Some(7));
        memory.put(1, 9);
        assert_eq!(memory.get(1), Some(7));
        memory.put(1, 3);
        assert_eq!(memory.get(1), Some(3));
        assert_eq!(memory.order.len(), REMEMBERED_MAX);
    }
}
