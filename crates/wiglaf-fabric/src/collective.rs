//! The calls for collective operations, and which of them there are.
//!
//! A `count` is that of fi_collective(3) as the utility code of libfabric reads it: the elements that
//! one member contributes or gets. Where each member has a part for each other, as in an all-to-all,
//! buffers hold `count` elements for each member. A root is an address of the vector.

use libc::{c_int, c_void, ssize_t};
use wiglaf_endpoint::{Element, Function};

use crate::atomic;
use crate::bindings as fi;
use crate::domain::Domain;
use crate::ep::Ep;
use crate::groups::plan::Kind;
use crate::groups::{MEMBERS_MAX, SCRATCH_LEN_MAX, Start};
use crate::guard::{EINVAL, Errno, Fi, guard, guard_data, lock, refuse, unsupported};
use crate::object::object;

pub(crate) static OPS: fi::fi_ops_collective = fi::fi_ops_collective {
    size: size_of::<fi::fi_ops_collective>(),
    barrier: Some(barrier),
    broadcast: Some(broadcast),
    alltoall: Some(alltoall),
    allreduce: Some(allreduce),
    allgather: Some(allgather),
    reduce_scatter: Some(reduce_scatter),
    reduce: Some(reduce),
    scatter: Some(scatter),
    gather: Some(gather),
    msg: Some(msg),
    barrier2: Some(barrier2),
};

type Handle = *mut fi::fid_ep;
type Buf = *const c_void;
type Desc = *mut c_void;
type Result = *mut c_void;
type Type = fi::fi_datatype;
type Op = fi::fi_op;

/// Flags that change nothing: an operation is complete when the buffers are free, and its data are
/// copied anyway.
const HARMLESS: u64 = fi::FI_COMPLETION
    | fi::FI_INJECT
    | fi::FI_INJECT_COMPLETE
    | fi::FI_TRANSMIT_COMPLETE
    | fi::FI_MORE;

unsupported! {
    msg(Handle, *const fi::fi_msg_collective, *mut fi::fi_ioc, *mut *mut c_void, usize, u64) -> ssize_t;
}

/// A call in plain values.
struct Call {
    kind: Kind,
    group: u64,
    root: Option<u64>,
    count: usize,
    datatype: Type,
    op: Op,
    input: Buf,
    result: Result,
    /// None in the call that takes none.
    flags: Option<u64>,
    context: *mut c_void,
}

impl Call {
    fn new(kind: Kind, group: u64, context: *mut c_void) -> Self {
        Self {
            kind,
            group,
            root: None,
            count: 0,
            datatype: fi::FI_VOID,
            op: fi::FI_NOOP,
            input: std::ptr::null(),
            result: std::ptr::null_mut(),
            flags: None,
            context,
        }
    }
}

/// Length of an element in bytes, and how it is combined where it is.
fn element(kind: Kind, datatype: Type, op: Op) -> Fi<(usize, Option<(Function, Element)>)> {
    if kind.reduces() {
        let reduction = atomic::reduction(datatype, op)?;
        return Ok((reduction.1.len(), Some(reduction)));
    }
    let len = match datatype {
        fi::FI_VOID if kind == Kind::Barrier => 0,
        // Moved, but not understood: those of the x86-64 ABI.
        fi::FI_LONG_DOUBLE => 16,
        fi::FI_LONG_DOUBLE_COMPLEX => 32,
        _ => atomic::element(datatype)?.len(),
    };
    Ok((len, None))
}

/// # Safety
/// `ep` is a live handle or null, and the buffers are valid as fi_collective(3) demands.
unsafe fn post(ep: Handle, call: &Call) -> Fi<()> {
    // SAFETY: by the contract of this function.
    let ep = unsafe { object::<Ep, _>(ep)? };
    ep.needs(fi::FI_COLLECTIVE)?;
    let strange = call.flags.unwrap_or(0) & !(HARMLESS | fi::FI_DELIVERY_COMPLETE);
    if strange != 0 {
        return refuse!(
            Errno(fi::FI_EBADFLAGS),
            "flags {strange:#x} of a collective operation are not offered"
        );
    }
    let (element_len, reduction) = element(call.kind, call.datatype, call.op)?;
    let mut engine = lock(&ep.engine)?;
    let start = Start {
        group: call.group,
        kind: call.kind,
        root: call.root.map(|index| engine.address(index)).transpose()?,
        block_len: call.count.checked_mul(element_len).ok_or(Errno(fi::FI_EMSGSIZE))?,
        reduction,
        input: call.input.cast_mut().cast(),
        result: call.result.cast(),
        context: call.context.expose_provenance(),
    };
    // SAFETY: as above.
    unsafe { engine.collective(&start, call.flags) }
}

unsafe extern "C" fn barrier(ep: Handle, group: u64, context: *mut c_void) -> ssize_t {
    // SAFETY: fi_collective(3) demands what `post` does, here and below.
    guard_data(|| unsafe { post(ep, &Call::new(Kind::Barrier, group, context)) })
}

unsafe extern "C" fn barrier2(ep: Handle, group: u64, flags: u64, context: *mut c_void) -> ssize_t {
    let call = Call { flags: Some(flags), ..Call::new(Kind::Barrier, group, context) };
    // SAFETY: see `barrier`.
    guard_data(|| unsafe { post(ep, &call) })
}

unsafe extern "C" fn broadcast(
    ep: Handle,
    buf: *mut c_void,
    count: usize,
    _desc: Desc,
    group: u64,
    root: u64,
    datatype: Type,
    flags: u64,
    context: *mut c_void,
) -> ssize_t {
    let call = Call {
        root: Some(root),
        count,
        datatype,
        input: buf,
        result: buf,
        flags: Some(flags),
        ..Call::new(Kind::Broadcast, group, context)
    };
    // SAFETY: see `barrier`.
    guard_data(|| unsafe { post(ep, &call) })
}

/// Defines a call with an input, a result, and what else is named.
macro_rules! calls {
    ($($name:ident: $kind:ident, $root:expr, $op:expr,
       ($($more:ident: $type:ty),*), ($($last:ident: $last_type:ty),*);)*) => {
        $(unsafe extern "C" fn $name(
            ep: Handle,
            buf: Buf,
            count: usize,
            _desc: Desc,
            result: Result,
            _result_desc: Desc,
            group: u64,
            $($more: $type,)*
            datatype: Type,
            $($last: $last_type,)*
            flags: u64,
            context: *mut c_void,
        ) -> ssize_t {
            let call = Call {
                root: $root,
                count,
                datatype,
                op: $op,
                input: buf,
                result,
                flags: Some(flags),
                ..Call::new(Kind::$kind, group, context)
            };
            // SAFETY: see `barrier`.
            guard_data(|| unsafe { post(ep, &call) })
        })*
    };
}

calls! {
    alltoall: Alltoall, None, fi::FI_NOOP, (), ();
    allreduce: Allreduce, None, op, (), (op: Op);
    allgather: Allgather, None, fi::FI_NOOP, (), ();
    reduce_scatter: ReduceScatter, None, op, (), (op: Op);
    reduce: Reduce, Some(root), op, (root: u64), (op: Op);
    scatter: Scatter, Some(root), fi::FI_NOOP, (root: u64), ();
    gather: Gather, Some(root), fi::FI_NOOP, (root: u64), ();
}

/// The domain's `query_collective`.
pub(crate) unsafe extern "C" fn query(
    domain: *mut fi::fid_domain,
    coll: fi::fi_collective_op,
    attr: *mut fi::fi_collective_attr,
    flags: u64,
) -> c_int {
    guard(|| {
        // SAFETY: fi_collective(3) demands a live domain, and attributes to read and write.
        let attr = unsafe {
            object::<Domain, _>(domain)?;
            attr.as_mut().ok_or(EINVAL)?
        };
        if flags != 0 || attr.mode != 0 {
            return refuse!(EINVAL, "query_collective: flags {flags:#x}, mode {:#x}", attr.mode);
        }
        let Some(kind) = kind(coll) else {
            return refuse!(
                Errno(fi::FI_EOPNOTSUPP),
                "query_collective: there is no collective operation {coll}"
            );
        };
        let (len, _) = element(kind, attr.datatype, attr.op)?;
        attr.datatype_attr.size = len;
        // A member works in up to two buffers of that length; those with a part for each member
        // have correspondingly less for each.
        attr.datatype_attr.count = (SCRATCH_LEN_MAX / 2).checked_div(len).unwrap_or(0);
        attr.max_members = MEMBERS_MAX;
        Ok(())
    })
}

fn kind(coll: fi::fi_collective_op) -> Option<Kind> {
    Some(match coll {
        fi::FI_BARRIER => Kind::Barrier,
        fi::FI_BROADCAST => Kind::Broadcast,
        fi::FI_ALLTOALL => Kind::Alltoall,
        fi::FI_ALLREDUCE => Kind::Allreduce,
        fi::FI_ALLGATHER => Kind::Allgather,
        fi::FI_REDUCE_SCATTER => Kind::ReduceScatter,
        fi::FI_REDUCE => Kind::Reduce,
        fi::FI_SCATTER => Kind::Scatter,
        fi::FI_GATHER => Kind::Gather,
        _ => return None,
    })
}
