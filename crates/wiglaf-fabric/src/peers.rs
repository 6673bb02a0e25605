//! Which peer of an endpoint an entry of its address vector is, and back.
//!
//! Both ways are remembered, since every send asks one and every receive with a source the other.
//!
//! An entry without an epoch is whoever is there: when that one has ended, the next. What the one before
//! has left may still be received, and from that entry.

use std::collections::HashMap;
use std::sync::Arc;

use wiglaf_endpoint::{Address, Endpoint, PeerId, RecvOp};

use crate::av::{AvState, UNSPEC};
use crate::bindings::fi_addr_t;
use crate::guard::{EINVAL, Fi, refuse};

pub(crate) struct Peers {
    av: Arc<AvState>,
    /// `removals` of the vector when what follows was last right.
    removals: u64,
    by_index: Vec<Option<Known>>,
    /// Who was there before, by index, as long as messages of theirs wait.
    former: HashMap<fi_addr_t, Vec<PeerId>>,
    by_peer: Vec<fi_addr_t>,
}

/// The peer of an entry.
#[derive(Clone, Copy)]
struct Known {
    peer: PeerId,
    /// Whether the entry names whoever is there.
    is_anybody: bool,
}

impl Peers {
    pub(crate) fn new(av: Arc<AvState>) -> Self {
        Self {
            removals: av.removals(),
            av,
            by_index: Vec::new(),
            former: HashMap::new(),
            by_peer: Vec::new(),
        }
    }

    /// Whether they are entries of that vector.
    pub(crate) fn are_of(&self, av: &Arc<AvState>) -> bool {
        Arc::ptr_eq(&self.av, av)
    }

    /// The address that was inserted as `index`.
    pub(crate) fn address(&self, index: fi_addr_t) -> Fi<Address> {
        let Some(address) = self.av.table().get(index) else {
            return refuse!(EINVAL, "there is no address {index} in the vector");
        };
        Ok(address)
    }

    fn forget_removed(&mut self) {
        let removals = self.av.removals();
        if removals != self.removals {
            self.removals = removals;
            self.by_index.clear();
            self.former.clear();
            self.by_peer.clear();
        }
    }

    /// The peer that was inserted as `index`.
    pub(crate) fn peer(&mut self, index: fi_addr_t, endpoint: &mut Endpoint) -> Fi<PeerId> {
        self.forget_removed();
        let slot = usize::try_from(index).map_err(|_| EINVAL)?;
        let known = self.by_index.get(slot).copied().flatten();
        if let Some(Known { peer, is_anybody }) = known
            && !(is_anybody && Self::has_ended(peer, endpoint))
        {
            return Ok(peer);
        }
        let address = self.address(index)?;
        let peer = endpoint.insert(address);
        if slot >= self.by_index.len() {
            self.by_index.resize(slot + 1, None);
        }
        self.by_index[slot] = Some(Known { peer, is_anybody: !address.epoch.is_known() });
        if let Some(Known { peer: before, .. }) = known
            && before != peer
        {
            let former = self.former.entry(index).or_default();
            former.push(before);
            former.retain(|&former| endpoint.holds_messages_of(former));
        }
        Ok(peer)
    }

    /// Whether a peer was there, and is gone. Where nobody ever was, posts are refused.
    fn has_ended(peer: PeerId, endpoint: &Endpoint) -> bool {
        let was_heard = endpoint.peer(peer).is_some_and(|view| view.epoch.is_known());
        was_heard && endpoint.is_gone(peer)
    }

    /// The peer that a receive from `index` is for: one that was there before, if such a message of its
    /// waits.
    pub(crate) fn source(
        &mut self,
        index: fi_addr_t,
        op: &RecvOp,
        endpoint: &mut Endpoint,
    ) -> Fi<PeerId> {
        let peer = self.peer(index, endpoint)?;
        let mut waits = |from: PeerId| endpoint.holds(&RecvOp { from: Some(from), ..*op });
        let former = self.former.get(&index).into_iter().flatten();
        Ok(former.copied().find(|&from| waits(from)).unwrap_or(peer))
    }

    /// Under which index `peer` is in the vector, or [`UNSPEC`].
    pub(crate) fn index(&mut self, peer: PeerId, endpoint: &Endpoint) -> fi_addr_t {
        self.forget_removed();
        let slot = peer.0 as usize;
        if let Some(&index) = self.by_peer.get(slot)
            && index != UNSPEC
        {
            return index;
        }
        let address = endpoint.address_of(peer);
        let Some(index) = address.and_then(|address| self.av.table().find(&address)) else {
            // Not remembered: it may be inserted later.
            return UNSPEC;
        };
        if slot >= self.by_peer.len() {
            self.by_peer.resize(slot + 1, UNSPEC);
        }
        self.by_peer[slot] = index;
        index
    }
}
