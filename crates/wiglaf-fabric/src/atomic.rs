//! The ten calls for atomic operations on remote memory, and what they can do.
//!
//! Offered are all integers up to 128 bits, float, double and both complex types, with every
//! function that fi_atomic(3) defines for them. `long double` is not: its representation differs
//! between machines.

use libc::{c_int, c_void, ssize_t};
use wiglaf_endpoint::{ATOMIC_LEN_MAX, AtomicOp, Element, Function};

use crate::bindings as fi;
use crate::domain::Domain;
use crate::ep::Ep;
use crate::guard::{EINVAL, Errno, Fi, guard, guard_data, lock, refuse};
use crate::info::IOV_LIMIT;
use crate::object::object;
use crate::ops::{AtomicCall, Flags, Regions, RemoteCall};

pub(crate) static OPS: fi::fi_ops_atomic = fi::fi_ops_atomic {
    size: size_of::<fi::fi_ops_atomic>(),
    write: Some(write),
    writev: Some(writev),
    writemsg: Some(writemsg),
    inject: Some(inject),
    readwrite: Some(readwrite),
    readwritev: Some(readwritev),
    readwritemsg: Some(readwritemsg),
    compwrite: Some(compwrite),
    compwritev: Some(compwritev),
    compwritemsg: Some(compwritemsg),
    writevalid: Some(writevalid),
    readwritevalid: Some(readwritevalid),
    compwritevalid: Some(compwritevalid),
};

type Handle = *mut fi::fid_ep;
type Buf = *const c_void;
type Desc = *mut c_void;
type Descs = *mut *mut c_void;
type Iocs = *const fi::fi_ioc;
type Results = *mut fi::fi_ioc;
type Msg = *const fi::fi_msg_atomic;
type Type = fi::fi_datatype;
type Op = fi::fi_op;

const UNSUPPORTED: Errno = Errno(fi::FI_EOPNOTSUPP);
/// What a message has besides operands and comparands, in bytes.
const PREFIX_LEN: usize = 8;

/// The three kinds of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Base,
    Fetch,
    Compare,
}

/// The type of elements, if there are operations on such.
pub(crate) fn element(datatype: Type) -> Fi<Element> {
    match datatype {
        fi::FI_INT128 => Ok(Element::I128),
        fi::FI_UINT128 => Ok(Element::U128),
        fi::FI_INT8..=fi::FI_DOUBLE_COMPLEX => {
            Element::from_code(datatype as u8).ok_or(UNSUPPORTED)
        }
        _ => refuse!(UNSUPPORTED, "there are no operations on elements of type {datatype}"),
    }
}

/// What two elements are combined by, if it makes sense to combine any number of them so.
pub(crate) fn reduction(datatype: Type, op: Op) -> Fi<(Function, Element)> {
    let element = element(datatype)?;
    let function = u8::try_from(op).ok().and_then(Function::from_code);
    let combines = |f: &Function| *f as u8 <= Function::BitXor as u8 && f.takes(element);
    let Some(function) = function.filter(combines) else {
        return refuse!(UNSUPPORTED, "elements of type {datatype} are not reduced by {op}");
    };
    Ok((function, element))
}

/// The operation that a call names, if such calls may name it.
fn operation(kind: Kind, datatype: Type, op: Op) -> Fi<AtomicOp> {
    let element = element(datatype)?;
    let function = u8::try_from(op).ok().and_then(Function::from_code).ok_or(UNSUPPORTED)?;
    let fits = match kind {
        Kind::Base => !function.only_fetches(),
        Kind::Fetch => !function.compares(),
        Kind::Compare => function.compares(),
    };
    if !fits || !function.takes(element) {
        return Err(UNSUPPORTED);
    }
    Ok(AtomicOp { element, function, fetch: kind != Kind::Base })
}

/// How many elements one operation may have.
fn count_max(kind: Kind, op: &AtomicOp) -> usize {
    let per_element = op.element.len() * if kind == Kind::Compare { 2 } else { 1 };
    (ATOMIC_LEN_MAX - PREFIX_LEN) / per_element
}

/// `count` elements at `buf`.
fn elements(buf: Buf, count: usize, op: &AtomicOp) -> Fi<Regions> {
    Regions::one(buf, count.checked_mul(op.element.len()).ok_or(EINVAL)?)
}

/// # Safety
/// `iocs` is valid for reads of `count` entries, or null when that is 0.
unsafe fn vector(iocs: Iocs, count: usize, op: &AtomicOp) -> Fi<Regions> {
    if count > IOV_LIMIT || (iocs.is_null() && count > 0) {
        return Err(EINVAL);
    }
    let mut iov = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; IOV_LIMIT];
    for (i, piece) in iov.iter_mut().enumerate().take(count) {
        // SAFETY: by the contract of this function.
        let ioc = unsafe { &*iocs.add(i) };
        let iov_len = ioc.count.checked_mul(op.element.len()).ok_or(EINVAL)?;
        *piece = libc::iovec { iov_base: ioc.addr, iov_len };
    }
    // SAFETY: the array has room for the most entries that there may be.
    unsafe { Regions::read(iov.as_ptr(), count) }
}

/// The operands of an operation, read only where it has any: a pure read is told how much by its
/// results, and what stands in their place may be anything.
fn operands(op: &AtomicOp, read: impl FnOnce() -> Fi<Regions>) -> Fi<Regions> {
    if op.function == Function::Read { Ok(Regions::none()) } else { read() }
}

/// Where an operation goes, and how.
struct To {
    to: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
    flags: Flags,
    data: Option<u64>,
}

impl To {
    fn new(to: u64, address: u64, key: u64, context: *mut c_void) -> Self {
        Self { to, address, key, context, flags: Flags::Default, data: None }
    }
}

/// # Safety
/// `ep` is a live handle or null, and the memory is valid as fi_atomic(3) demands.
unsafe fn post(
    ep: Handle,
    to: &To,
    op: AtomicOp,
    operands: Regions,
    comparands: Regions,
    results: Regions,
) -> Fi<()> {
    let len = if op.fetch { results.len() } else { operands.len() };
    let agree = op.function == Function::Read || operands.len() == len;
    if len == 0 || !agree || (op.function.compares() && comparands.len() != len) {
        return Err(EINVAL);
    }
    let call = RemoteCall {
        regions: operands,
        to: to.to,
        address: to.address,
        key: to.key,
        data: to.data,
        context: to.context.expose_provenance(),
        flags: to.flags,
    };
    // SAFETY: by the contract of this function.
    unsafe {
        let ep = object::<Ep, _>(ep)?;
        ep.needs(fi::FI_ATOMIC)?;
        lock(&ep.engine)?.atomic(&call, &AtomicCall { op, comparands, results })
    }
}

/// # Safety
/// `msg` is null or valid, and so is what it points to.
unsafe fn from_msg(msg: Msg, flags: u64, kind: Kind) -> Fi<(To, AtomicOp, Regions)> {
    // SAFETY: by the contract of this function.
    unsafe {
        let msg = msg.as_ref().ok_or(EINVAL)?;
        let op = operation(kind, msg.datatype, msg.op)?;
        let target = msg.rma_iov.as_ref().filter(|_| msg.rma_iov_count == 1).ok_or(EINVAL)?;
        let operands = operands(&op, || vector(msg.msg_iov, msg.iov_count, &op))?;
        if op.function != Function::Read
            && target.count.checked_mul(op.element.len()) != Some(operands.len())
        {
            return Err(EINVAL);
        }
        // Data that an atomic operation brings is not shown by any queue.
        let flags = Flags::Given(flags);
        let to = To { flags, ..To::new(msg.addr, target.addr, target.key, msg.context) };
        Ok((to, op, operands))
    }
}

unsafe extern "C" fn write(
    ep: Handle,
    buf: Buf,
    count: usize,
    _desc: Desc,
    to: u64,
    address: u64,
    key: u64,
    datatype: Type,
    op: Op,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: fi_atomic(3) demands what `post` does, here and below.
    guard_data(|| unsafe {
        let op = operation(Kind::Base, datatype, op)?;
        let to = To::new(to, address, key, context);
        post(ep, &to, op, elements(buf, count, &op)?, Regions::none(), Regions::none())
    })
}

unsafe extern "C" fn writev(
    ep: Handle,
    iov: Iocs,
    _desc: Descs,
    count: usize,
    to: u64,
    address: u64,
    key: u64,
    datatype: Type,
    op: Op,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: see `write`.
    guard_data(|| unsafe {
        let op = operation(Kind::Base, datatype, op)?;
        let to = To::new(to, address, key, context);
        post(ep, &to, op, vector(iov, count, &op)?, Regions::none(), Regions::none())
    })
}

unsafe extern "C" fn writemsg(ep: Handle, msg: Msg, flags: u64) -> ssize_t {
    // SAFETY: see `write`.
    guard_data(|| unsafe {
        let (to, op, operands) = from_msg(msg, flags, Kind::Base)?;
        post(ep, &to, op, operands, Regions::none(), Regions::none())
    })
}

unsafe extern "C" fn inject(
    ep: Handle,
    buf: Buf,
    count: usize,
    to: u64,
    address: u64,
    key: u64,
    datatype: Type,
    op: Op,
) -> ssize_t {
    // SAFETY: see `write`.
    guard_data(|| unsafe {
        let op = operation(Kind::Base, datatype, op)?;
        let to = To::new(to, address, key, std::ptr::null_mut());
        let to = To { flags: Flags::Inject, ..to };
        post(ep, &to, op, elements(buf, count, &op)?, Regions::none(), Regions::none())
    })
}

unsafe extern "C" fn readwrite(
    ep: Handle,
    buf: Buf,
    count: usize,
    _desc: Desc,
    result: *mut c_void,
    _result_desc: Desc,
    to: u64,
    address: u64,
    key: u64,
    datatype: Type,
    op: Op,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: see `write`.
    guard_data(|| unsafe {
        let op = operation(Kind::Fetch, datatype, op)?;
        let results = elements(result, count, &op)?;
        let operands = operands(&op, || elements(buf, count, &op))?;
        post(ep, &To::new(to, address, key, context), op, operands, Regions::none(), results)
    })
}

unsafe extern "C" fn readwritev(
    ep: Handle,
    iov: Iocs,
    _desc: Descs,
    count: usize,
    resultv: Results,
    _result_desc: Descs,
    result_count: usize,
    to: u64,
    address: u64,
    key: u64,
    datatype: Type,
    op: Op,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: see `write`.
    guard_data(|| unsafe {
        let op = operation(Kind::Fetch, datatype, op)?;
        let results = vector(resultv, result_count, &op)?;
        let operands = operands(&op, || vector(iov, count, &op))?;
        post(ep, &To::new(to, address, key, context), op, operands, Regions::none(), results)
    })
}

unsafe extern "C" fn readwritemsg(
    ep: Handle,
    msg: Msg,
    resultv: Results,
    _result_desc: Descs,
    result_count: usize,
    flags: u64,
) -> ssize_t {
    // SAFETY: see `write`.
    guard_data(|| unsafe {
        let (to, op, operands) = from_msg(msg, flags, Kind::Fetch)?;
        let results = vector(resultv, result_count, &op)?;
        post(ep, &to, op, operands, Regions::none(), results)
    })
}

unsafe extern "C" fn compwrite(
    ep: Handle,
    buf: Buf,
    count: usize,
    _desc: Desc,
    compare: Buf,
    _compare_desc: Desc,
    result: *mut c_void,
    _result_desc: Desc,
    to: u64,
    address: u64,
    key: u64,
    datatype: Type,
    op: Op,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: see `write`.
    guard_data(|| unsafe {
        let op = operation(Kind::Compare, datatype, op)?;
        let (operands, comparands) = (elements(buf, count, &op)?, elements(compare, count, &op)?);
        let results = elements(result, count, &op)?;
        post(ep, &To::new(to, address, key, context), op, operands, comparands, results)
    })
}

unsafe extern "C" fn compwritev(
    ep: Handle,
    iov: Iocs,
    _desc: Descs,
    count: usize,
    comparev: Iocs,
    _compare_desc: Descs,
    compare_count: usize,
    resultv: Results,
    _result_desc: Descs,
    result_count: usize,
    to: u64,
    address: u64,
    key: u64,
    datatype: Type,
    op: Op,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: see `write`.
    guard_data(|| unsafe {
        let op = operation(Kind::Compare, datatype, op)?;
        let (operands, comparands) =
            (vector(iov, count, &op)?, vector(comparev, compare_count, &op)?);
        let results = vector(resultv, result_count, &op)?;
        post(ep, &To::new(to, address, key, context), op, operands, comparands, results)
    })
}

unsafe extern "C" fn compwritemsg(
    ep: Handle,
    msg: Msg,
    comparev: Iocs,
    _compare_desc: Descs,
    compare_count: usize,
    resultv: Results,
    _result_desc: Descs,
    result_count: usize,
    flags: u64,
) -> ssize_t {
    // SAFETY: see `write`.
    guard_data(|| unsafe {
        let (to, op, operands) = from_msg(msg, flags, Kind::Compare)?;
        let comparands = vector(comparev, compare_count, &op)?;
        post(ep, &to, op, operands, comparands, vector(resultv, result_count, &op)?)
    })
}

/// # Safety
/// `ep` is a live handle or null, `count` null or valid for a write.
unsafe fn valid(ep: Handle, kind: Kind, datatype: Type, op: Op, count: *mut usize) -> Fi<()> {
    // SAFETY: by the contract of this function.
    unsafe {
        object::<Ep, _>(ep)?.needs(fi::FI_ATOMIC)?;
        let op = operation(kind, datatype, op)?;
        *count.as_mut().ok_or(EINVAL)? = count_max(kind, &op);
    }
    Ok(())
}

unsafe extern "C" fn writevalid(ep: Handle, datatype: Type, op: Op, count: *mut usize) -> c_int {
    // SAFETY: fi_atomic(3) demands what `valid` does, here and below.
    guard(|| unsafe { valid(ep, Kind::Base, datatype, op, count) })
}

unsafe extern "C" fn readwritevalid(
    ep: Handle,
    datatype: Type,
    op: Op,
    count: *mut usize,
) -> c_int {
    // SAFETY: see `writevalid`.
    guard(|| unsafe { valid(ep, Kind::Fetch, datatype, op, count) })
}

unsafe extern "C" fn compwritevalid(
    ep: Handle,
    datatype: Type,
    op: Op,
    count: *mut usize,
) -> c_int {
    // SAFETY: see `writevalid`.
    guard(|| unsafe { valid(ep, Kind::Compare, datatype, op, count) })
}

/// The domain's `query_atomic`.
pub(crate) unsafe extern "C" fn query(
    domain: *mut fi::fid_domain,
    datatype: Type,
    op: Op,
    attr: *mut fi::fi_atomic_attr,
    flags: u64,
) -> c_int {
    guard(|| {
        let kind = match flags {
            0 => Kind::Base,
            fi::FI_FETCH_ATOMIC => Kind::Fetch,
            fi::FI_COMPARE_ATOMIC => Kind::Compare,
            _ => return Err(EINVAL),
        };
        // SAFETY: fi_atomic(3) demands a live domain, and attributes to write to.
        unsafe {
            object::<Domain, _>(domain)?;
            let attr = attr.as_mut().ok_or(EINVAL)?;
            let op = operation(kind, datatype, op)?;
            attr.count = count_max(kind, &op);
            attr.size = op.element.len();
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_know_their_operations() {
        let has = |kind, datatype, op| operation(kind, datatype, op).is_ok();
        assert!(has(Kind::Base, fi::FI_INT32, fi::FI_SUM));
        assert!(!has(Kind::Base, fi::FI_INT32, fi::FI_ATOMIC_READ));
        assert!(has(Kind::Fetch, fi::FI_DOUBLE, fi::FI_ATOMIC_READ));
        assert!(!has(Kind::Fetch, fi::FI_UINT64, fi::FI_CSWAP));
        assert!(has(Kind::Compare, fi::FI_UINT64, fi::FI_CSWAP));
        assert!(!has(Kind::Compare, fi::FI_UINT64, fi::FI_SUM));
        assert!(!has(Kind::Compare, fi::FI_FLOAT, fi::FI_MSWAP));
        assert!(has(Kind::Compare, fi::FI_UINT128, fi::FI_MSWAP));
        assert!(!has(Kind::Base, fi::FI_DOUBLE_COMPLEX, fi::FI_MAX));
        assert!(!has(Kind::Base, fi::FI_LONG_DOUBLE, fi::FI_SUM));
        assert!(!has(Kind::Base, fi::FI_LONG_DOUBLE_COMPLEX, fi::FI_SUM));
        assert!(!has(Kind::Base, 99, fi::FI_SUM) && !has(Kind::Base, fi::FI_INT8, 99));
        let op = operation(Kind::Compare, fi::FI_UINT128, fi::FI_CSWAP).unwrap();
        assert_eq!(op.element.len(), 16);
        assert_eq!(count_max(Kind::Compare, &op), (ATOMIC_LEN_MAX - 8) / 32);
    }
}
