//! Groups of endpoints and their collective operations (docs/protocol.md, section 12;
//! docs/adr/0014).
//!
//! An operation is made of messages in a class of their own. Its members need not begin it at the
//! same time: what comes early waits as any message does that nobody has asked for, within its
//! sender's credit.
//!
//! When a member is lost its group is broken for good. Whoever notices tells all others from which
//! operation on: earlier ones may still end well. Who awaits a message asks its sender now and then
//! whether all is well, so no operation waits for what cannot come.

mod identity;
mod notices;
mod operation;
pub(crate) mod plan;

use std::collections::{BTreeMap, HashSet};

use wiglaf_endpoint::{Address, Element, Endpoint, Function, Outcome, PeerId, Region};

use crate::bindings as fi;
use crate::guard::{EAGAIN, EINVAL, Errno, Fi, refuse};
use crate::log;
use identity::Identities;
use notices::{Memory, Notices, Said};
use operation::{Operation, Standing, Whose, slot_of};
use plan::{Kind, Plan};

/// Addresses of groups begin here: far beyond the indices of address vectors.
const FIRST: fi::fi_addr_t = 1 << 62;
/// Most members of a group.
pub(crate) const MEMBERS_MAX: usize = 1 << 16;
/// Most groups of an endpoint at a time.
const GROUPS_MAX: usize = 1024;
/// Most operations of an endpoint at a time; their contexts have room for as many.
const OPERATIONS_MAX: usize = 256;
/// Most memory that the operations of an endpoint work in, in bytes.
pub(crate) const SCRATCH_LEN_MAX: usize = 256 << 20;

/// A group that this endpoint belongs to.
struct Group {
    /// Its number, the same for all members.
    id: u64,
    members: Vec<Address>,
    /// The members as peers of the endpoint, as far as they were needed yet.
    peers: Vec<Option<PeerId>>,
    /// Which of the members this endpoint is.
    rank: usize,
    /// The next operation.
    next: u32,
    /// The first operation that will not end.
    broken: Option<u32>,
    is_joined: bool,
    /// The operations it is for, by bits in the order of [`Kind`].
    operations: u64,
    handle: Handle,
}

/// What the application knows a group by, as addresses: they are handed back and never followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) fid: usize,
    pub(crate) context: usize,
}

impl Group {
    fn peer(&mut self, rank: usize, endpoint: &mut Endpoint) -> PeerId {
        *self.peers[rank].get_or_insert_with(|| endpoint.insert(self.members[rank]))
    }

    //= docs/protocol.md#12-collective-operations
    //# The tag of a message MUST be the group's number with the operation's (upper half) and the message's within it (lower half) exclusive-ored into it.
    fn tag(&self, sequence: u32, number: u32) -> u64 {
        self.id ^ (u64::from(sequence) << 32 | u64::from(number))
    }

    fn is_broken_at(&self, sequence: u32) -> bool {
        self.broken.is_some_and(|from| sequence >= from)
    }
}

/// An operation to be begun. Lengths are in bytes.
pub(crate) struct Start {
    pub(crate) group: fi::fi_addr_t,
    pub(crate) kind: Kind,
    pub(crate) root: Option<Address>,
    pub(crate) block_len: usize,
    pub(crate) reduction: Option<(Function, Element)>,
    pub(crate) input: *mut u8,
    pub(crate) result: *mut u8,
    pub(crate) context: usize,
}

/// Something that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Operation { context: usize, shown: bool, len: usize, outcome: Outcome },
    Join { handle: Handle, outcome: Outcome },
}

#[derive(Default)]
pub(crate) struct Groups {
    identities: Identities,
    notices: Notices,
    by_address: BTreeMap<fi::fi_addr_t, Group>,
    created: u64,
    operations: Vec<Option<Operation>>,
    /// Operations that may be able to go on.
    ready: Vec<usize>,
    ended: Vec<Ended>,
    /// Groups that were left, and groups of which was heard before they were joined.
    left: Memory,
    early: Memory,
    /// Whether there ever was a group: then others may still ask.
    is_active: bool,
}

impl Groups {
    /// Whether there is anything to be moved.
    pub(crate) fn is_active(&self) -> bool {
        self.is_active
    }

    /// Whether some group is still being joined.
    pub(crate) fn is_joining(&self) -> bool {
        self.by_address.values().any(|group| !group.is_joined && group.broken.is_none())
    }

    /// Whether no group is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// The members of a group, in their order.
    pub(crate) fn members(&self, address: fi::fi_addr_t) -> Option<&[Address]> {
        Some(&self.by_address.get(&address)?.members)
    }

    /// What has ended since this was last asked.
    pub(crate) fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    /// Makes a group, which [`Groups::join`] is to join; answers its address.
    pub(crate) fn create(
        &mut self,
        own: Address,
        parent: Option<fi::fi_addr_t>,
        members: Vec<Address>,
        operations: u64,
    ) -> Fi<fi::fi_addr_t> {
        if self.by_address.len() == GROUPS_MAX {
            return refuse!(Errno(fi::FI_ENOSPC), "join: there are {GROUPS_MAX} groups already");
        }
        if members.len() > MEMBERS_MAX {
            return refuse!(EINVAL, "join: a group has at most {MEMBERS_MAX} members");
        }
        let Some(rank) = members.iter().position(|member| member.at == own.at) else {
            return refuse!(EINVAL, "join: {} itself is not in the set", own.at);
        };
        let mut seen = HashSet::new();
        if let Some(twice) = members.iter().find(|member| !seen.insert(member.at)) {
            return refuse!(EINVAL, "join: {} is in the set twice", twice.at);
        }
        let parent = match parent.map(|address| self.by_address.get(&address)) {
            None => 0,
            Some(Some(parent)) => {
                let known: HashSet<_> = parent.members.iter().map(|member| member.at).collect();
                if let Some(strange) = members.iter().find(|member| !known.contains(&member.at)) {
                    return refuse!(EINVAL, "join: {} is not in the parent group", strange.at);
                }
                parent.id
            }
            Some(None) => return refuse!(EINVAL, "join: there is no such parent group"),
        };
        let id = self.identities.next(parent, &members)?;
        self.created += 1;
        let address = FIRST + self.created;
        self.is_active = true;
        let group = Group {
            id,
            peers: vec![None; members.len()],
            members,
            rank,
            next: 0,
            broken: None,
            is_joined: false,
            operations,
            handle: Handle { fid: 0, context: 0 },
        };
        self.by_address.insert(address, group);
        Ok(address)
    }

    /// Joins a group: a barrier of its members.
    pub(crate) fn join(&mut self, endpoint: &mut Endpoint, address: fi::fi_addr_t, handle: Handle) {
        self.notices.listen(endpoint);
        let Some(group) = self.by_address.get_mut(&address) else { return };
        group.handle = handle;
        let plan = Plan::new(Kind::Barrier, group.members.len(), group.rank, 0, 0);
        let early = self.early.get(group.id);
        let none = Region { ptr: std::ptr::null_mut(), len: 0 };
        // SAFETY: a barrier has neither input nor result.
        unsafe { self.begin(endpoint, address, plan, None, none, Whose::Join) };
        if let Some(from) = early {
            self.break_from(endpoint, address, from, Outcome::PeerGone, false);
        }
        self.progress(endpoint);
    }

    /// Leaves a group; what is under way in it ends.
    pub(crate) fn close(&mut self, endpoint: &mut Endpoint, address: fi::fi_addr_t) {
        let pending = self.pending(address).map(|(_, operation)| operation.id().1).min();
        if let Some(first) = pending {
            self.break_from(endpoint, address, first, Outcome::Canceled, true);
        }
        if let Some(group) = self.by_address.remove(&address) {
            let from = group.broken.unwrap_or(group.next).min(group.next);
            self.left.put(group.id, from);
            endpoint.drop_steps(|_, tag, data| tag != notices::TAG && data == Some(group.id));
        }
    }

    /// Begins an operation, whose success is reported if it is to be `shown`.
    ///
    /// # Safety
    /// Input and result are null or valid as fi_collective(3) demands of such an operation: the input
    /// during this call, the result until the operation has ended.
    pub(crate) unsafe fn start(
        &mut self,
        endpoint: &mut Endpoint,
        call: &Start,
        shown: bool,
    ) -> Fi<()> {
        let Some(group) = self.by_address.get(&call.group) else {
            return refuse!(EINVAL, "there is no group {:#x}", call.group);
        };
        if group.is_broken_at(group.next) {
            return refuse!(Errno(fi::FI_ECONNRESET), "a member of the group is gone");
        }
        if !group.is_joined {
            return refuse!(Errno(fi::FI_EOPBADSTATE), "the group has not been joined yet");
        }
        if group.operations >> call.kind as u32 & 1 == 0 {
            return refuse!(
                Errno(fi::FI_EOPNOTSUPP),
                "the group's set was not made for {:?} operations",
                call.kind
            );
        }
        let rank_of = |root: Address| group.members.iter().position(|m| m.at == root.at);
        let root = match call.root.map(rank_of) {
            None => 0,
            Some(Some(rank)) => rank,
            Some(None) => return refuse!(EINVAL, "the root is not a member of the group"),
        };
        let size = group.members.len();
        let plan = Plan::new(call.kind, size, group.rank, root, call.block_len);
        let (input, result) = self.room(&plan, call)?;
        let whose = Whose::User { result, context: call.context, shown };
        // SAFETY: by the contract of this function.
        unsafe { self.begin(endpoint, call.group, plan, call.reduction, input, whose) };
        self.progress(endpoint);
        Ok(())
    }

    /// The user's memory that an operation reads and writes, if there is room for the operation.
    fn room(&self, plan: &Plan, call: &Start) -> Fi<(Region, Region)> {
        let scratch_len = plan.scratch().and_then(|(work, incoming)| work.checked_add(incoming));
        let Some(scratch_len) = scratch_len.filter(|len| *len <= SCRATCH_LEN_MAX) else {
            return refuse!(
                Errno(fi::FI_EMSGSIZE),
                "an operation on more than {SCRATCH_LEN_MAX} bytes is not offered"
            );
        };
        let under_way = self.operations.iter().flatten();
        let (count, len) = under_way
            .fold((0, 0), |(count, len), operation| (count + 1, len + operation.scratch_len()));
        if count == OPERATIONS_MAX || len + scratch_len > SCRATCH_LEN_MAX {
            return Err(EAGAIN);
        }
        let extent = |copies: Vec<plan::Copy>| copies.iter().map(|c| c.user_range().end).max();
        let input = Region { ptr: call.input, len: extent(plan.inputs()).unwrap_or(0) };
        let result = Region { ptr: call.result, len: extent(plan.results()).unwrap_or(0) };
        for region in [input, result] {
            if region.ptr.is_null() && region.len > 0 {
                return refuse!(EINVAL, "a buffer of {} bytes is null", region.len);
            }
        }
        Ok((input, result))
    }

    /// # Safety
    /// As for [`Operation::new`].
    unsafe fn begin(
        &mut self,
        endpoint: &mut Endpoint,
        address: fi::fi_addr_t,
        plan: Plan,
        reduction: Option<(Function, Element)>,
        input: Region,
        whose: Whose,
    ) {
        let Some(group) = self.by_address.get_mut(&address) else { return };
        let Some(scratch) = plan.scratch() else { return };
        let id = (address, group.next);
        group.next += 1;
        // SAFETY: by the contract of this function.
        let operation = unsafe { Operation::new(id, plan, reduction, whose, input, scratch) };
        let free = self.operations.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.operations.len());
        if slot == self.operations.len() {
            self.operations.push(None);
        }
        self.operations[slot] = Some(operation);
        self.run(endpoint, slot);
    }

    /// Takes the messages that have come and gone, and whatever follows from them.
    pub(crate) fn progress(&mut self, endpoint: &mut Endpoint) {
        while let Some(completion) = endpoint.pop_step() {
            if Notices::are_meant(&completion) {
                if let Some((who, group, said)) = self.notices.ended(&completion) {
                    self.hear(endpoint, who, group, said);
                }
                self.notices.listen(endpoint);
                continue;
            }
            let slot = slot_of(completion.context);
            let Some(Some(operation)) = self.operations.get_mut(slot) else { continue };
            let (group, sequence) = operation.id();
            let broken = operation.ended(&completion);
            if operation.is_told() {
                self.free(slot);
                continue;
            }
            match broken {
                Some(why) => self.break_at(endpoint, group, sequence, why),
                None => self.run(endpoint, slot),
            }
        }
        for slot in std::mem::take(&mut self.ready) {
            self.run(endpoint, slot);
        }
        if self.notices.is_due() {
            self.look_around(endpoint);
        }
    }

    fn run(&mut self, endpoint: &mut Endpoint, slot: usize) {
        let Some(Some(operation)) = self.operations.get_mut(slot) else { return };
        if operation.is_told() {
            return;
        }
        let (address, sequence) = operation.id();
        let Some(group) = self.by_address.get_mut(&address) else { return };
        match operation.run(slot, group, endpoint) {
            // What found no room is tried again with every progress.
            Standing::Waits if operation.has_unposted() && !self.ready.contains(&slot) => {
                self.ready.push(slot);
            }
            Standing::Waits => {}
            Standing::Over => {
                operation.give_result();
                self.end(slot, Outcome::Done);
            }
            Standing::Broken(why) => self.break_at(endpoint, address, sequence, why),
        }
    }

    /// Tells the user of an operation's end; it is forgotten with its last message.
    fn end(&mut self, slot: usize, outcome: Outcome) {
        let Some(Some(operation)) = self.operations.get_mut(slot) else { return };
        let ended = match operation.tell() {
            Whose::User { result, context, shown } => {
                Ended::Operation { context, shown, len: result.len, outcome }
            }
            Whose::Join => {
                let Some(group) = self.by_address.get_mut(&operation.id().0) else { return };
                group.is_joined = outcome == Outcome::Done;
                Ended::Join { handle: group.handle, outcome }
            }
        };
        self.ended.push(ended);
        self.free(slot);
    }

    /// Forgets an operation that nobody waits for, once nothing refers to its memory.
    fn free(&mut self, slot: usize) {
        let operation = self.operations.get(slot).and_then(Option::as_ref);
        if operation.is_some_and(|operation| operation.is_told() && operation.is_idle()) {
            self.operations[slot] = None;
        }
    }

    /// Operations of a group whose users wait.
    fn pending(&self, address: fi::fi_addr_t) -> impl Iterator<Item = (usize, &Operation)> {
        let all = self.operations.iter().enumerate();
        let all = all.filter_map(|(slot, operation)| Some((slot, operation.as_ref()?)));
        all.filter(move |(_, operation)| operation.id().0 == address && !operation.is_told())
    }

    /// A member was lost in an operation: with it, everything of the group that is under way fails.
    fn break_at(
        &mut self,
        endpoint: &mut Endpoint,
        address: fi::fi_addr_t,
        sequence: u32,
        why: Outcome,
    ) {
        let pending = self.pending(address).map(|(_, operation)| operation.id().1).min();
        let from = pending.map_or(sequence, |first| first.min(sequence));
        log::warning!("operation {sequence} of group {address:#x} has failed ({why:?})");
        self.break_from(endpoint, address, from, why, true);
    }

    /// Operations from `from` on will not end.
    fn break_from(
        &mut self,
        endpoint: &mut Endpoint,
        address: fi::fi_addr_t,
        from: u32,
        why: Outcome,
        tell: bool,
    ) {
        let Some(group) = self.by_address.get_mut(&address) else { return };
        if group.is_broken_at(from) {
            return;
        }
        //= docs/protocol.md#12-collective-operations
        //# A member that cannot go on with an operation MUST tell all other members from which one on it takes part in none.
        group.broken = Some(from);
        for rank in 0..group.members.len() {
            if tell && rank != group.rank {
                let peer = group.peer(rank, endpoint);
                Notices::tell(endpoint, peer, group.id, from);
            }
        }
        let failed: Vec<usize> = self
            .pending(address)
            .filter(|(_, operation)| operation.id().1 >= from)
            .map(|(slot, _)| slot)
            .collect();
        for slot in failed {
            if let Some(Some(operation)) = self.operations.get_mut(slot) {
                operation.abort(slot, endpoint);
            }
            self.end(slot, why);
        }
    }

    /// Somebody said something about a group.
    fn hear(&mut self, endpoint: &mut Endpoint, who: PeerId, id: u64, said: Said) {
        let known = self.by_address.iter().find(|(_, group)| group.id == id);
        let here = known.map(|(address, group)| (*address, group.broken));
        match (said, here) {
            //= docs/protocol.md#12-collective-operations
            //# A member that is asked about a group that is broken or that it has left MUST answer from which operation on it takes part in none.
            (Said::Probe, Some((_, Some(from)))) => Notices::tell(endpoint, who, id, from),
            (Said::Probe, Some((_, None))) => {}
            (Said::Probe, None) => {
                if let Some(from) = self.left.get(id) {
                    Notices::tell(endpoint, who, id, from);
                }
            }
            (Said::Broken(from), Some((address, _))) => {
                self.break_from(endpoint, address, from, Outcome::PeerGone, false);
            }
            (Said::Broken(from), None) if self.left.get(id).is_none() => self.early.put(id, from),
            (Said::Broken(_), None) => {}
        }
    }

    /// Asks those who are awaited, and drops what has come for groups that are no more.
    fn look_around(&mut self, endpoint: &mut Endpoint) {
        let waiting = self.operations.iter().flatten().filter(|operation| !operation.is_told());
        for operation in waiting {
            let Some(group) = self.by_address.get(&operation.id().0) else { continue };
            for peer in operation.awaited() {
                self.notices.ask(endpoint, peer, group.id);
            }
        }
        let Self { by_address, left, .. } = self;
        let mut unwanted = HashSet::new();
        endpoint.drop_steps(|peer, tag, data| {
            let Some(id) = data.filter(|_| tag != notices::TAG) else { return false };
            let sequence = ((tag ^ id) >> 32) as u32;
            let here = by_address.values().find(|group| group.id == id);
            let from = match here {
                Some(group) => group.broken.filter(|from| sequence >= *from),
                None => left.get(id),
            };
            if let Some(from) = from {
                unwanted.insert((peer, id, from));
            }
            from.is_some()
        });
        for (peer, id, from) in unwanted {
            Notices::tell(endpoint, peer, id, from);
        }
    }
}
