//! `fid_mc`: an endpoint's membership in a collective group. Multicast groups of the network are
//! not offered.

use std::sync::{Arc, Weak};

use libc::{c_int, c_void};

use crate::attended::Attended;
use crate::av_set::AvSet;
use crate::bindings as fi;
use crate::engine::Engine;
use crate::ep::Ep;
use crate::groups::Handle;
use crate::guard::{EINVAL, ENOSYS, Errno, Fi, guard, lock, refuse};
use crate::object::{Object, fid_ops, hand_out, new_fid, not_null, object, take_back};

#[repr(C)]
pub(crate) struct Mc {
    fid: fi::fid_mc,
    engine: Weak<Attended>,
}

// SAFETY: `repr(C)`, begins with a `fid` of that class.
unsafe impl Object for Mc {
    const CLASS: u32 = fi::FI_CLASS_MC;
}

static FID_OPS: fi::fi_ops = fid_ops(close);

/// Joins a collective group: the slot `join` of an endpoint's table, which `fi_join_collective`
/// calls.
pub(crate) unsafe extern "C" fn join(
    ep: *mut fi::fid_ep,
    addr: *const c_void,
    flags: u64,
    mc: *mut *mut fi::fid_mc,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        not_null(addr)?;
        not_null(mc)?;
        if flags & fi::FI_COLLECTIVE == 0 {
            return refuse!(ENOSYS, "join: multicast groups of the network are not offered");
        }
        let directions = flags & (fi::FI_SEND | fi::FI_RECV);
        if flags & !(fi::FI_COLLECTIVE | fi::FI_SEND | fi::FI_RECV) != 0
            || ![0, fi::FI_SEND | fi::FI_RECV].contains(&directions)
        {
            return refuse!(Errno(fi::FI_EBADFLAGS), "join: flags {flags:#x} are not offered");
        }
        // SAFETY: fi_join_collective(3) demands a live endpoint and set; with FI_COLLECTIVE `addr`
        // is an address of a group and a set.
        unsafe {
            let ep = object::<Ep, _>(ep)?;
            ep.needs(fi::FI_COLLECTIVE)?;
            let fi::fi_collective_addr { set, coll_addr } = *addr.cast::<fi::fi_collective_addr>();
            let set = object::<AvSet, _>(set.cast_mut())?;
            let group = create(ep, set, coll_addr)?;
            let joined = Mc {
                fid: fi::fid_mc { fid: new_fid::<Mc>(context, &FID_OPS), fi_addr: group },
                engine: Arc::downgrade(&ep.engine),
            };
            hand_out(joined, mc);
            let fid = (*mc).expose_provenance();
            begin(ep, group, Handle { fid, context: context.expose_provenance() })
        }
    })
}

/// Makes the group; answers its address.
fn create(ep: &Ep, set: &AvSet, parent: fi::fi_addr_t) -> Fi<fi::fi_addr_t> {
    let mut engine = lock(&ep.engine)?;
    let own = engine.endpoint.name();
    let Some(peers) = engine.peers() else {
        return refuse!(Errno(fi::FI_EOPBADSTATE), "join: the endpoint is not enabled");
    };
    if !peers.are_of(set.vector()) {
        return refuse!(EINVAL, "join: the set is of another address vector than the endpoint");
    }
    if engine.events().is_none() {
        return refuse!(Errno(fi::FI_ENOEQ), "join: the endpoint has no event queue");
    }
    let members = set.addresses()?;
    // Neither the vector's nor a set's address is a group: its members begin anew.
    let parent = match parent {
        crate::av::UNSPEC => None,
        address if engine.groups.members(address).is_some() => Some(address),
        address => {
            set.is_within(address)?;
            None
        }
    };
    engine.groups.create(own, parent, members, set.operations())
}

fn begin(ep: &Ep, group: fi::fi_addr_t, handle: Handle) -> Fi<()> {
    let mut engine = lock(&ep.engine)?;
    if let Some(events) = engine.events() {
        events.join_begins(&ep.engine);
    }
    let Engine { groups, endpoint, .. } = &mut *engine;
    groups.join(endpoint, group, handle);
    engine.tell_ended();
    Ok(())
}

unsafe extern "C" fn close(fid: *mut fi::fid) -> c_int {
    guard(|| {
        // SAFETY: fi_close(3) demands a live handle that is not used afterwards.
        let mc = unsafe { take_back::<Mc>(fid)? };
        let Some(engine) = mc.engine.upgrade() else { return Ok(()) };
        let mut engine = lock(&engine)?;
        let Engine { groups, endpoint, .. } = &mut *engine;
        groups.close(endpoint, mc.fid.fi_addr);
        engine.tell_ended();
        Ok(())
    })
}
