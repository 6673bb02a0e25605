//! Receives and messages of a simulated endpoint: the product's queues, and
//! a check of each of their decisions by the rule (MPI 4.0, section 3.5).

use std::collections::HashMap;

use wiglaf_endpoint::RecvOp;
use wiglaf_endpoint::queues::Queues;
use wiglaf_transport::PeerId;
use wiglaf_wire::{Class, Envelope};

use crate::random::Random;

/// Receives that may wait; further ones take any message.
const POSTED_MAX: usize = 64;

/// The queues under test, and what must be in them.
#[derive(Debug, Default)]
pub(crate) struct Matched {
    queues: Queues,
    /// In the order in which they were posted.
    posted: Vec<RecvOp>,
    /// In the order in which they came.
    unexpected: Vec<(u64, PeerId, Envelope)>,
    serial: u64,
    /// The first decision that was wrong.
    pub(crate) error: Option<String>,
}

fn may_take(op: &RecvOp, peer: PeerId, envelope: &Envelope) -> bool {
    op.from.unwrap_or(peer) == peer && envelope.tag & !op.ignore == op.tag & !op.ignore
}

impl Matched {
    /// A message arrives: its number, and whether a receive has taken it.
    pub(crate) fn arrive(&mut self, peer: PeerId, envelope: Envelope) -> (u64, bool) {
        self.serial += 1;
        let taken = self.queues.arrive(peer, envelope, self.serial);
        let at = self.posted.iter().position(|op| may_take(op, peer, &envelope));
        let right = at.map(|at| self.posted.remove(at).context);
        if right.is_none() {
            self.unexpected.push((self.serial, peer, envelope));
        }
        self.compare("receive", taken.as_ref(), right.as_ref());
        (self.serial, taken.is_some())
    }

    /// Posts a receive: the number of the message that it takes.
    pub(crate) fn post(
        &mut self,
        random: &mut Random,
        names: &HashMap<PeerId, usize>,
    ) -> Option<u64> {
        let is_full = self.posted.len() >= POSTED_MAX;
        if is_full && self.unexpected.is_empty() {
            return None;
        }
        let mut peers: Vec<PeerId> = names.keys().copied().collect();
        peers.sort_unstable();
        let chosen = peers[random.below(peers.len() as u64) as usize];
        let from = (random.chance(0.3) && !is_full).then_some(chosen);
        let is_exact = random.chance(0.3) && !is_full;
        self.serial += 1;
        let op = RecvOp {
            class: Class::Tagged,
            from,
            tag: random.below(4),
            ignore: if is_exact { random.below(4) } else { u64::MAX },
            context: self.serial as usize,
            report: true,
            multi_min_free: None,
        };
        let taken = self.queues.post(op);
        let at = self.unexpected.iter().position(|(_, peer, e)| may_take(&op, *peer, e));
        let right = at.map(|at| self.unexpected.remove(at).0);
        if right.is_none() {
            self.posted.push(op);
        }
        self.compare("message", taken.as_ref(), right.as_ref());
        taken
    }

    fn compare<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: &str,
        is: Option<&T>,
        must: Option<&T>,
    ) {
        if is != must {
            self.error.get_or_insert(format!("{what} {is:?} was matched in place of {must:?}"));
        }
    }
}
