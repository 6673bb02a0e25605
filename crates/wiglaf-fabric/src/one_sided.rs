//! One-sided operations of an enabled endpoint, in plain values: what the calls of the RMA and
//! atomic tables boil down to.

use std::sync::Arc;

use wiglaf_endpoint::{AtomicOp, Completion, Hold, Outcome, PostError, RemoteOp, Side};
use wiglaf_endpoint::{Class, Region};

use crate::bindings as fi;
use crate::cntr::CntrState;
use crate::engine::Engine;
use crate::guard::{EINVAL, Errno, Fi};
use crate::info::INJECT_LEN;
use crate::ops::{Flags, Regions};

/// Flags that cannot be honoured.
const REFUSED: u64 = fi::FI_TRIGGER | fi::FI_COMMIT_COMPLETE | fi::FI_MATCH_COMPLETE;

/// Counters of one-sided operations.
#[derive(Default)]
pub(crate) struct RemoteCounters {
    pub(crate) read: Vec<Arc<CntrState>>,
    pub(crate) write: Vec<Arc<CntrState>>,
    /// Of what peers do to memory that is registered here.
    pub(crate) remote_read: Vec<Arc<CntrState>>,
    pub(crate) remote_write: Vec<Arc<CntrState>>,
}

impl RemoteCounters {
    /// Those that count an operation of that class; none for messages.
    pub(crate) fn of(&self, side: Side, class: Class) -> Option<&[Arc<CntrState>]> {
        // Collective operations count as the atomic ones that they map to (fi_collective(3)).
        if class == Class::Collective {
            return Some(&self.write);
        }
        class.names_memory().then(|| match (side, is_read(class)) {
            (Side::Send, true) => &self.read[..],
            (Side::Send, false) => &self.write,
            (Side::Recv, true) => &self.remote_read,
            (Side::Recv, false) => &self.remote_write,
        })
    }
}

/// A read or a write, or where an atomic operation goes.
pub(crate) struct RemoteCall {
    pub(crate) regions: Regions,
    pub(crate) to: fi::fi_addr_t,
    pub(crate) address: u64,
    pub(crate) key: u64,
    pub(crate) data: Option<u64>,
    pub(crate) context: usize,
    pub(crate) flags: Flags,
}

/// What an atomic operation has beyond a write.
pub(crate) struct AtomicCall {
    pub(crate) op: AtomicOp,
    pub(crate) comparands: Regions,
    pub(crate) results: Regions,
}

/// Whether an operation on memory reads it, as counters see it.
pub(crate) fn is_read(class: Class) -> bool {
    matches!(class, Class::Read | Class::Fetch)
}

/// Whether a completion is of something that a peer did and nobody asked to see.
pub(crate) fn is_unseen(completion: &Completion) -> bool {
    completion.side == Side::Recv && completion.class.names_memory() && completion.data.is_none()
}

impl Engine {
    /// Posts a write.
    ///
    /// # Safety
    /// The regions stay valid and unchanged until it completes, unless it is an inject.
    pub(crate) unsafe fn write(&mut self, call: &RemoteCall) -> Fi<()> {
        // SAFETY: by the contract of this function.
        self.post(call, Class::Write, |engine, op| unsafe {
            engine.endpoint.post_write(op, call.regions.pieces())
        })
    }

    /// Posts a read.
    ///
    /// # Safety
    /// The regions stay valid and untouched until it completes.
    pub(crate) unsafe fn read(&mut self, call: &RemoteCall) -> Fi<()> {
        if call.flags == Flags::Inject {
            return Err(EINVAL);
        }
        // SAFETY: by the contract of this function.
        self.post(call, Class::Read, |engine, op| unsafe {
            engine.endpoint.post_read(op, call.regions.pieces())
        })
    }

    /// Posts an atomic operation.
    ///
    /// # Safety
    /// The operands and comparands are valid; the results stay so until it completes.
    pub(crate) unsafe fn atomic(&mut self, call: &RemoteCall, atomic: &AtomicCall) -> Fi<()> {
        let class = if atomic.op.fetch { Class::Fetch } else { Class::Atomic };
        let pieces = |regions: &Regions| -> Vec<Region> { regions.pieces().to_vec() };
        // SAFETY: by the contract of this function.
        self.post(call, class, |engine, op| unsafe {
            engine.endpoint.post_atomic(
                op,
                atomic.op,
                &pieces(&call.regions),
                &pieces(&atomic.comparands),
                &pieces(&atomic.results),
            )
        })
    }

    fn post(
        &mut self,
        call: &RemoteCall,
        class: Class,
        post: impl FnOnce(&mut Self, &RemoteOp) -> Result<(), PostError>,
    ) -> Fi<()> {
        let flags = match call.flags {
            Flags::Default => self.tx.op_flags,
            Flags::Given(flags) => flags,
            Flags::Inject => fi::FI_INJECT,
        };
        if flags & REFUSED != 0 {
            return Err(Errno(fi::FI_EBADFLAGS));
        }
        let peer = self.peer(call.to)?;
        let inject = flags & fi::FI_INJECT != 0 && class != Class::Read;
        if inject && call.regions.len() > INJECT_LEN {
            return Err(Errno(fi::FI_EMSGSIZE));
        }
        let shown = call.flags != Flags::Inject && self.tx.shows(flags);
        let counters = self.remote_counters.of(Side::Send, class);
        let counted = counters.is_some_and(|counters| !counters.is_empty());
        let context = match call.flags {
            Flags::Inject => self.nobodys(counted),
            _ => self.stand_in(call.context, shown, counted),
        };
        let op = RemoteOp {
            peer,
            key: call.key,
            address: call.address,
            data: call.data,
            context,
            report: shown || counted,
            inject,
            hold: match (flags & fi::FI_FENCE != 0, self.is_ordered) {
                (true, _) => Hold::Fence,
                (false, true) => Hold::Order,
                (false, false) => Hold::Nothing,
            },
        };
        let posted = post(self, &op);
        self.posted(posted, context)
    }
}

/// The error number for what a target has refused.
pub(crate) fn refusal_errno(outcome: Outcome) -> Option<Errno> {
    let Outcome::Refused(refusal) = outcome else { return None };
    Some(Errno(match refusal {
        wiglaf_endpoint::Refusal::Key => fi::FI_EKEYREJECTED,
        wiglaf_endpoint::Refusal::Access => fi::FI_EACCES,
        wiglaf_endpoint::Refusal::Bounds => fi::FI_EINVAL,
        wiglaf_endpoint::Refusal::Malformed => fi::FI_EOPNOTSUPP,
        wiglaf_endpoint::Refusal::Room => fi::FI_EAGAIN,
    }))
}
