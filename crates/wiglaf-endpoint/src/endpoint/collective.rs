//! What collective operations need of an endpoint: messages of their own, which no receive of a
//! user can match, and whose ends are told apart from those of users' operations.

use wiglaf_transport::PeerId;
use wiglaf_wire::Class;

use super::Endpoint;
use crate::matching::Posted;
use crate::memory::Regions;
use crate::{Completion, RecvOp};

/// The context of messages that are dropped: nobody waits for their end.
const DROPPED: usize = usize::MAX;

impl Endpoint {
    /// The next message of a collective operation that has been sent or received.
    pub fn pop_step(&mut self) -> Option<Completion> {
        loop {
            let done = self.books.steps_done.pop_front()?;
            if done.context != DROPPED {
                return Some(done);
            }
        }
    }

    /// Withdraws a receive of [`Class::Collective`] that has matched nothing yet, without a
    /// completion. False when there is none (left).
    pub fn withdraw_step(&mut self, context: usize) -> bool {
        let is_it = |p: &Posted| p.op.class == Class::Collective && p.op.context == context;
        self.books.matching.withdraw(is_it).is_some()
    }

    /// Drops the messages of [`Class::Collective`] that wait for a receive and that `pick` picks
    /// by sender, tag and data. Their credit comes back.
    pub fn drop_steps(&mut self, mut pick: impl FnMut(PeerId, u64, Option<u64>) -> bool) {
        let op = RecvOp {
            class: Class::Collective,
            from: None,
            tag: 0,
            ignore: u64::MAX,
            context: DROPPED,
            report: false,
            multi_min_free: None,
        };
        let picked = self.books.matching.take_unexpected_where(|message| {
            let envelope = message.envelope();
            envelope.class == Class::Collective && pick(message.peer, envelope.tag, envelope.data)
        });
        for taken in picked {
            self.receive(Posted { op, regions: Regions::EMPTY, multi: None }, taken);
        }
    }
}
