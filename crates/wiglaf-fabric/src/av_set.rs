//! `fid_av_set`: an ordered choice from an address vector, from which a collective group is made.
//!
//! A group copies what it needs when it is joined: a set may be changed and closed at any time.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};

use libc::{c_int, c_void};
use wiglaf_endpoint::Address;

use crate::av::{Av, AvState, UNSPEC};
use crate::bindings as fi;
use crate::groups::MEMBERS_MAX;
use crate::guard::{EINVAL, ENOSYS, Errno, Fi, guard, lock, refuse};
use crate::object::{Object, fid_ops, hand_out, new_fid, not_null, object, table, take_back};

/// Addresses of sets begin here: beyond those of vectors and groups.
const FIRST: fi::fi_addr_t = 1 << 63;
/// The collective operations that a set may be restricted to, in the order of `fi_collective_op`.
const OPERATIONS: u64 = (fi::FI_GATHER_SET << 1) - fi::FI_BARRIER_SET;

/// The sets of a vector by address, as far as they are open.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    open: HashMap<fi::fi_addr_t, Weak<Mutex<Vec<fi::fi_addr_t>>>>,
    created: u64,
}

#[repr(C)]
pub(crate) struct AvSet {
    fid: fi::fid_av_set,
    av: Arc<AvState>,
    address: fi::fi_addr_t,
    /// Which operations it is for, by the flags of fi_av_set(3).
    operations: u64,
    members: Arc<Mutex<Vec<fi::fi_addr_t>>>,
}

// SAFETY: `repr(C)`, begins with a `fid` of that class.
unsafe impl Object for AvSet {
    const CLASS: u32 = fi::FI_CLASS_AV_SET;
}

static FID_OPS: fi::fi_ops = fid_ops(close);
static OPS: fi::fi_ops_av_set = fi::fi_ops_av_set {
    size: size_of::<fi::fi_ops_av_set>(),
    set_union: Some(set_union),
    intersect: Some(intersect),
    diff: Some(diff),
    insert: Some(insert),
    remove: Some(remove),
    addr: Some(addr),
};

impl AvSet {
    /// The vector that it is of.
    pub(crate) fn vector(&self) -> &Arc<AvState> {
        &self.av
    }

    /// Which operations it is for, by bits in the order of `fi_collective_op`.
    pub(crate) fn operations(&self) -> u64 {
        self.operations / fi::FI_BARRIER_SET
    }

    /// The members' addresses, in their order.
    pub(crate) fn addresses(&self) -> Fi<Vec<Address>> {
        let members = lock(&self.members)?;
        let table = self.av.table();
        let known = members.iter().map(|&member| table.get(member)).collect::<Option<_>>();
        let Some(known) = known else {
            return refuse!(EINVAL, "join: a member of the set has left the address vector");
        };
        Ok(known)
    }

    /// Refuses the address of something that is not a set of the same vector with all members of
    /// this one.
    pub(crate) fn is_within(&self, address: fi::fi_addr_t) -> Fi<()> {
        if address == self.address {
            return Ok(());
        }
        let other = lock(&self.av.sets)?.open.get(&address).and_then(Weak::upgrade);
        let Some(other) = other else {
            return refuse!(EINVAL, "join: {address:#x} is neither a set nor a group");
        };
        let others: HashSet<_> = lock(&other)?.iter().copied().collect();
        if lock(&self.members)?.iter().all(|member| others.contains(member)) {
            return Ok(());
        }
        refuse!(EINVAL, "join: the set has members that the one it is joined through has not")
    }
}

/// The slot `av_set` of a vector's table.
pub(crate) unsafe extern "C" fn open(
    av: *mut fi::fid_av,
    attr: *mut fi::fi_av_set_attr,
    set: *mut *mut fi::fid_av_set,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        not_null(set)?;
        // SAFETY: fi_av_set(3) demands a live vector and valid attributes.
        let (av, attr) = unsafe { (object::<Av, _>(av)?, attr.as_ref().ok_or(EINVAL)?) };
        let members = Arc::new(Mutex::new(initial(av, attr)?));
        let restriction = attr.flags & OPERATIONS;
        let address = {
            let mut sets = lock(&av.state.sets)?;
            sets.open.retain(|_, members| members.strong_count() > 0);
            sets.created += 1;
            let address = FIRST + sets.created;
            sets.open.insert(address, Arc::downgrade(&members));
            address
        };
        let opened = AvSet {
            fid: fi::fid_av_set { fid: new_fid::<AvSet>(context, &FID_OPS), ops: table(&OPS) },
            av: Arc::clone(&av.state),
            address,
            operations: if restriction == 0 { OPERATIONS } else { restriction },
            members,
        };
        // SAFETY: checked above.
        unsafe { hand_out(opened, set) };
        Ok(())
    })
}

/// The members that a set begins with.
fn initial(av: &Av, attr: &fi::fi_av_set_attr) -> Fi<Vec<fi::fi_addr_t>> {
    let strange = attr.flags & !(fi::FI_UNIVERSE | OPERATIONS);
    if strange != 0 {
        return refuse!(Errno(fi::FI_EBADFLAGS), "av_set: flags {strange:#x} are not offered");
    }
    if attr.comm_key_size != 0 {
        return refuse!(ENOSYS, "av_set: communication keys are not offered");
    }
    if attr.count > MEMBERS_MAX {
        return refuse!(EINVAL, "av_set: a set has at most {MEMBERS_MAX} members");
    }
    let table = av.state.table();
    if attr.flags & fi::FI_UNIVERSE != 0 {
        return at_most((0..table.end()).filter(|&index| table.get(index).is_some()).collect(), 0);
    }
    match (attr.start_addr, attr.end_addr) {
        (UNSPEC, UNSPEC) => Ok(Vec::new()),
        (start, end) if start > end => {
            refuse!(EINVAL, "av_set: it would begin at {start} and end at {end}")
        }
        _ if av.is_map => refuse!(EINVAL, "av_set: a range needs a vector of type FI_AV_TABLE"),
        _ if attr.stride == 0 => refuse!(EINVAL, "av_set: a range needs a stride"),
        (start, end) => {
            let stride = usize::try_from(attr.stride).unwrap_or(usize::MAX);
            let range = start..end.saturating_add(1).min(table.end());
            let indices = range.step_by(stride).filter(|&index| table.get(index).is_some());
            at_most(indices.collect(), attr.count)
        }
    }
}

/// Refuses a range of more members than were announced, if any were.
fn at_most(members: Vec<fi::fi_addr_t>, count: usize) -> Fi<Vec<fi::fi_addr_t>> {
    let limit = if count == 0 { MEMBERS_MAX } else { count };
    if members.len() > limit {
        return refuse!(EINVAL, "av_set: {} addresses for {limit} members", members.len());
    }
    Ok(members)
}

unsafe extern "C" fn close(fid: *mut fi::fid) -> c_int {
    guard(|| {
        // SAFETY: fi_close(3) demands a live handle that is not used afterwards.
        unsafe { take_back::<AvSet>(fid)? };
        Ok(())
    })
}

/// Changes the members of `to` by those of `from`.
///
/// # Safety
/// Both are null or live handles.
unsafe fn change(
    to: *mut fi::fid_av_set,
    from: *const fi::fid_av_set,
    change: impl FnOnce(&mut Vec<fi::fi_addr_t>, &[fi::fi_addr_t]),
) -> c_int {
    guard(|| {
        // SAFETY: by the contract of this function.
        let (to, from) = unsafe { (object::<AvSet, _>(to)?, object::<AvSet, _>(from.cast_mut())?) };
        if !Arc::ptr_eq(&to.av, &from.av) {
            return refuse!(EINVAL, "the two sets are of different address vectors");
        }
        // A copy: both may be the same set.
        let others = lock(&from.members)?.clone();
        change(&mut *lock(&to.members)?, &others);
        Ok(())
    })
}

unsafe extern "C" fn set_union(to: *mut fi::fid_av_set, from: *const fi::fid_av_set) -> c_int {
    // SAFETY: fi_av_set(3) demands live sets, here and below.
    unsafe {
        change(to, from, |members, others| {
            let known: HashSet<_> = members.iter().copied().collect();
            members.extend(others.iter().filter(|other| !known.contains(other)));
        })
    }
}

unsafe extern "C" fn intersect(to: *mut fi::fid_av_set, from: *const fi::fid_av_set) -> c_int {
    // SAFETY: see `set_union`.
    unsafe {
        change(to, from, |members, others| {
            let others: HashSet<_> = others.iter().collect();
            members.retain(|member| others.contains(member));
        })
    }
}

unsafe extern "C" fn diff(to: *mut fi::fid_av_set, from: *const fi::fid_av_set) -> c_int {
    // SAFETY: see `set_union`.
    unsafe {
        change(to, from, |members, others| {
            let others: HashSet<_> = others.iter().collect();
            members.retain(|member| !others.contains(member));
        })
    }
}

unsafe extern "C" fn insert(set: *mut fi::fid_av_set, member: fi::fi_addr_t) -> c_int {
    guard(|| {
        // SAFETY: fi_av_set(3) demands a live set, here and below.
        let set = unsafe { object::<AvSet, _>(set)? };
        if set.av.table().get(member).is_none() {
            return refuse!(EINVAL, "av_set_insert: there is no address {member} in the vector");
        }
        let mut members = lock(&set.members)?;
        if members.contains(&member) {
            return refuse!(EINVAL, "av_set_insert: address {member} is in the set already");
        }
        if members.len() == MEMBERS_MAX {
            return refuse!(Errno(fi::FI_ENOSPC), "av_set_insert: {MEMBERS_MAX} is the limit");
        }
        members.push(member);
        Ok(())
    })
}

unsafe extern "C" fn remove(set: *mut fi::fid_av_set, member: fi::fi_addr_t) -> c_int {
    guard(|| {
        // SAFETY: see `insert`.
        let set = unsafe { object::<AvSet, _>(set)? };
        let mut members = lock(&set.members)?;
        let Some(at) = members.iter().position(|&other| other == member) else {
            return refuse!(EINVAL, "av_set_remove: address {member} is not in the set");
        };
        members.remove(at);
        Ok(())
    })
}

unsafe extern "C" fn addr(set: *mut fi::fid_av_set, address: *mut fi::fi_addr_t) -> c_int {
    guard(|| {
        not_null(address)?;
        // SAFETY: see `insert`, and room for an address.
        unsafe { address.write(object::<AvSet, _>(set)?.address) };
        Ok(())
    })
}
