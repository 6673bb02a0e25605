//! `fid_av`: the address vector. A `fi_addr_t` is the index of an insertion.

use std::collections::HashMap;
use std::ffi::CStr;
use std::net::SocketAddrV4;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use wiglaf_endpoint::Address;

use crate::addr::{self, ADDRESS_LEN};
use crate::av_set::{self, Sets};
use crate::bindings as fi;
use crate::domain::{Domain, DomainState};
use crate::eq::{Eq, EqState};
use crate::guard::{
    EINVAL, ENOSYS, Errno, Fi, guard, guard_or, lock, not_busy, refuse, unsupported,
};
use crate::object::{Object, fid_ops, hand_out, new_fid, not_null, object, table, take_back};

/// "Any" for a receive, "unknown" for a sender.
pub(crate) const UNSPEC: fi::fi_addr_t = fi::fi_addr_t::MAX;

/// The addresses of a vector, by index and back.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: Vec<Option<Address>>,
    /// Indices of the entries at a place, oldest first.
    by_place: HashMap<SocketAddrV4, Vec<fi::fi_addr_t>>,
}

/// Most entries that room is made for in advance: a hint costs nobody memory that it does not use.
const HINT_MAX: usize = 1 << 16;

impl Table {
    fn for_about(count: usize) -> Self {
        let count = count.min(HINT_MAX);
        Self { entries: Vec::with_capacity(count), by_place: HashMap::with_capacity(count) }
    }

    fn insert(&mut self, address: Address) -> fi::fi_addr_t {
        let index = self.entries.len() as fi::fi_addr_t;
        self.entries.push(Some(address));
        self.by_place.entry(address.at).or_default().push(index);
        index
    }

    fn remove(&mut self, index: fi::fi_addr_t) -> Fi<()> {
        let slot = usize::try_from(index).ok().and_then(|index| self.entries.get_mut(index));
        let address = slot.and_then(Option::take).ok_or(EINVAL)?;
        if let Some(indices) = self.by_place.get_mut(&address.at) {
            indices.retain(|&other| other != index);
            if indices.is_empty() {
                self.by_place.remove(&address.at);
            }
        }
        Ok(())
    }

    /// The address that was inserted as `index`.
    pub(crate) fn get(&self, index: fi::fi_addr_t) -> Option<Address> {
        self.entries.get(usize::try_from(index).ok()?).copied().flatten()
    }

    /// Greater than any index.
    pub(crate) fn end(&self) -> fi::fi_addr_t {
        self.entries.len() as fi::fi_addr_t
    }

    /// Under which index `address` was inserted: that very incarnation, or else whoever is there.
    pub(crate) fn find(&self, address: &Address) -> Option<fi::fi_addr_t> {
        let indices = self.by_place.get(&address.at)?;
        let epoch_of = |index: fi::fi_addr_t| self.get(index).map(|entry| entry.epoch);
        let exact = indices.iter().find(|&&index| epoch_of(index) == Some(address.epoch));
        let any = || indices.iter().find(|&&index| epoch_of(index).is_some_and(|e| !e.is_known()));
        exact.or_else(any).copied()
    }
}

/// What endpoints share with the vector that they are bound to.
#[derive(Debug)]
pub(crate) struct AvState {
    table: RwLock<Table>,
    /// Grows with every removal, which outdates what endpoints remember.
    removals: AtomicU64,
    domain: Arc<DomainState>,
    /// Sets of its addresses that are open.
    pub(crate) sets: Mutex<Sets>,
}

impl AvState {
    /// The table, to look into.
    pub(crate) fn table(&self) -> RwLockReadGuard<'_, Table> {
        // Its operations leave it whole at every step, so a panic elsewhere does not matter.
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        change(&mut self.table.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many addresses have been removed so far.
    pub(crate) fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// Whether the vector belongs to that domain.
    pub(crate) fn is_of(&self, domain: &Arc<DomainState>) -> bool {
        Arc::ptr_eq(&self.domain, domain)
    }
}

#[repr(C)]
pub(crate) struct Av {
    fid: fi::fid_av,
    /// Event queues that are bound: they cannot be closed before.
    events: Mutex<Vec<Arc<EqState>>>,
    pub(crate) state: Arc<AvState>,
    /// Whether its type says that indices are opaque.
    pub(crate) is_map: bool,
}

// SAFETY: `repr(C)`, begins with a `fid` of that class.
unsafe impl Object for Av {
    const CLASS: u32 = fi::FI_CLASS_AV;
}

static FID_OPS: fi::fi_ops = fi::fi_ops { bind: Some(bind), ..fid_ops(close) };
static OPS: fi::fi_ops_av = fi::fi_ops_av {
    size: size_of::<fi::fi_ops_av>(),
    insert: Some(insert),
    insertsvc: Some(insertsvc),
    insertsym: Some(insertsym),
    remove: Some(remove),
    lookup: Some(lookup),
    straddr: Some(straddr),
    av_set: Some(av_set::open),
};

unsupported! {
    insertsym(*mut fi::fid_av, *const libc::c_char, usize, *const libc::c_char, usize, *mut fi::fi_addr_t, u64, *mut libc::c_void) -> libc::c_int;
}

pub(crate) unsafe extern "C" fn open(
    domain: *mut fi::fid_domain,
    attr: *mut fi::fi_av_attr,
    av: *mut *mut fi::fid_av,
    context: *mut libc::c_void,
) -> libc::c_int {
    guard(|| {
        not_null(av)?;
        // SAFETY: fi_av(3) demands a live domain and valid attributes.
        let (domain, attr) =
            unsafe { (object::<Domain, _>(domain)?, attr.as_mut().ok_or(EINVAL)?) };
        if !attr.name.is_null() {
            return refuse!(ENOSYS, "av_open: a vector shared by name is not offered");
        }
        if attr.flags & (fi::FI_EVENT | fi::FI_READ) != 0 {
            return refuse!(ENOSYS, "av_open: flags {:#x} are not offered", attr.flags);
        }
        if attr.type_ > fi::FI_AV_TABLE {
            return refuse!(EINVAL, "av_open: there is no type {}", attr.type_);
        }
        if attr.rx_ctx_bits != 0 {
            return refuse!(EINVAL, "av_open: an endpoint has one receive context");
        }
        if attr.type_ == fi::FI_AV_UNSPEC {
            attr.type_ = fi::FI_AV_TABLE;
        }
        let is_map = attr.type_ == fi::FI_AV_MAP;
        let opened = Av {
            fid: fi::fid_av { fid: new_fid::<Av>(context, &FID_OPS), ops: table(&OPS) },
            events: Mutex::default(),
            state: Arc::new(AvState {
                table: RwLock::new(Table::for_about(attr.count)),
                removals: AtomicU64::new(0),
                domain: Arc::clone(&domain.state),
                sets: Mutex::default(),
            }),
            is_map,
        };
        // SAFETY: checked above.
        unsafe { hand_out(opened, av) };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fi::fid) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_close(3) demands a live handle that is not used afterwards.
        unsafe {
            let av = object::<Av, _>(fid)?;
            not_busy(&av.state, "the address vector")?;
            take_back::<Av>(fid)?;
        }
        Ok(())
    })
}

/// An event queue may be bound, though every insertion is over when it returns.
unsafe extern "C" fn bind(fid: *mut fi::fid, other: *mut fi::fid, _flags: u64) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_av_bind(3) demands live handles.
        let (av, eq) = unsafe { (object::<Av, _>(fid)?, object::<Eq, _>(other)?) };
        lock(&av.events)?.push(Arc::clone(&eq.state));
        Ok(())
    })
}

/// Inserts one address, if messages can be sent there at all.
fn insert_one(state: &AvState, address: Fi<Address>) -> Fi<fi::fi_addr_t> {
    let Ok(address) = address else {
        return refuse!(EINVAL, "av_insert: an address is not a sockaddr_in");
    };
    if !addr::is_destination(&address) {
        return refuse!(EINVAL, "av_insert: nobody can be at {}", address.at);
    }
    Ok(state.change(|table| table.insert(address)))
}

/// Where the caller is told of each address that it inserts; null: not at all.
struct Told {
    indices: *mut fi::fi_addr_t,
    errors: *mut libc::c_int,
}

impl Told {
    fn new(indices: *mut fi::fi_addr_t, flags: u64, context: *mut libc::c_void) -> Self {
        let wants_errors = flags & fi::FI_SYNC_ERR != 0;
        Self { indices, errors: if wants_errors { context.cast() } else { ptr::null_mut() } }
    }

    /// # Safety
    /// Both have room for the `i`-th address, or are null.
    unsafe fn tell(&self, i: usize, outcome: Fi<fi::fi_addr_t>) {
        // SAFETY: by the contract of this function.
        unsafe {
            if !self.indices.is_null() {
                self.indices.add(i).write(outcome.unwrap_or(UNSPEC));
            }
            if !self.errors.is_null() {
                self.errors.add(i).write(outcome.map_or_else(|Errno(number)| number, |_| 0));
            }
        }
    }
}

unsafe extern "C" fn insert(
    av: *mut fi::fid_av,
    addr: *const libc::c_void,
    count: usize,
    fi_addr: *mut fi::fi_addr_t,
    flags: u64,
    context: *mut libc::c_void,
) -> libc::c_int {
    let mut inserted = 0;
    let code = guard(|| {
        // SAFETY: fi_av(3) demands a live vector, `count` addresses, room for `count` indices
        // (or null), and with FI_SYNC_ERR room for `count` numbers behind `context`.
        unsafe {
            let av = object::<Av, _>(av)?;
            if count > 0 {
                not_null(addr)?;
            }
            let told = Told::new(fi_addr, flags, context);
            for i in 0..count {
                let address =
                    addr::read(addr.cast::<u8>().add(i * ADDRESS_LEN).cast(), ADDRESS_LEN);
                let outcome = insert_one(&av.state, address);
                told.tell(i, outcome);
                inserted += libc::c_int::from(outcome.is_ok());
            }
        }
        Ok(())
    });
    if code == 0 { inserted } else { code }
}

unsafe extern "C" fn insertsvc(
    av: *mut fi::fid_av,
    node: *const libc::c_char,
    service: *const libc::c_char,
    fi_addr: *mut fi::fi_addr_t,
    flags: u64,
    context: *mut libc::c_void,
) -> libc::c_int {
    let code = guard(|| {
        not_null(node)?;
        not_null(service)?;
        // SAFETY: fi_av(3) demands a live vector, C strings, room for an index or null, and with
        // FI_SYNC_ERR room for a number behind `context`.
        unsafe {
            let av = object::<Av, _>(av)?;
            let text = |pointer| CStr::from_ptr(pointer).to_str().map_err(|_| EINVAL);
            let address = addr::resolve(Some(text(node)?), Some(text(service)?), false);
            let outcome = insert_one(&av.state, address);
            Told::new(fi_addr, flags, context).tell(0, outcome);
            outcome.map(|_| ())
        }
    });
    if code == 0 { 1 } else { code }
}

unsafe extern "C" fn remove(
    av: *mut fi::fid_av,
    fi_addr: *mut fi::fi_addr_t,
    count: usize,
    _flags: u64,
) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_av(3) demands a live vector and `count` indices.
        unsafe {
            let av = object::<Av, _>(av)?;
            for i in 0..count {
                not_null(fi_addr)?;
                let index = fi_addr.add(i).read();
                av.state.change(|table| table.remove(index))?;
                av.state.removals.fetch_add(1, Ordering::AcqRel);
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn lookup(
    av: *mut fi::fid_av,
    fi_addr: fi::fi_addr_t,
    addr: *mut libc::c_void,
    addrlen: *mut usize,
) -> libc::c_int {
    guard(|| {
        not_null(addrlen)?;
        // SAFETY: fi_av(3) demands a live vector and a buffer of `*addrlen` bytes.
        unsafe {
            let av = object::<Av, _>(av)?;
            let address = av.state.table().get(fi_addr).ok_or(EINVAL)?;
            copy_out(&addr::to_bytes(&address), addr, addrlen)
        }
    })
}

/// Copies as much as there is room for, and says how long the whole is.
///
/// # Safety
/// `to` is valid for writes of `*len` bytes, or null when that is 0.
pub(crate) unsafe fn copy_out(bytes: &[u8], to: *mut libc::c_void, len: *mut usize) -> Fi<()> {
    // SAFETY: by the contract of this function.
    unsafe {
        let room = len.read().min(bytes.len());
        if room > 0 {
            not_null(to)?;
            ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), room);
        }
        len.write(bytes.len());
    }
    Ok(())
}

unsafe extern "C" fn straddr(
    _av: *mut fi::fid_av,
    addr: *const libc::c_void,
    buf: *mut libc::c_char,
    len: *mut usize,
) -> *const libc::c_char {
    guard_or(ptr::null(), || {
        if len.is_null() {
            return ptr::null();
        }
        // SAFETY: fi_av(3) demands an address of this provider and a buffer of `*len` bytes.
        unsafe {
            let Ok(address) = addr::read(addr, ADDRESS_LEN) else { return ptr::null() };
            let mut text = addr::to_text(&address).into_bytes();
            text.push(0);
            let room = len.read();
            if copy_out(&text, buf.cast(), len).is_err() {
                return ptr::null();
            }
            if (1..text.len()).contains(&room) {
                buf.add(room - 1).write(0);
            }
            buf
        }
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use wiglaf_endpoint::Epoch;

    use super::*;

    fn address(host: u8, epoch: u64) -> Address {
        Address { at: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), 99), epoch: Epoch(epoch) }
    }

    #[test]
    fn an_index_is_the_order_of_insertion() {
        let mut table = Table::default();
        for host in 0..5 {
            assert_eq!(table.insert(address(host, 7)), u64::from(host));
        }
        assert_eq!(table.get(3), Some(address(3, 7)));
        assert_eq!(table.get(5), None);
        assert_eq!(table.get(UNSPEC), None);
    }

    #[test]
    fn a_removed_address_is_gone_and_its_index_is_not_given_again() {
        let mut table = Table::default();
        table.insert(address(1, 7));
        assert_eq!(table.remove(0), Ok(()));
        assert_eq!(table.remove(0), Err(EINVAL));
        assert_eq!(table.remove(UNSPEC), Err(EINVAL));
        assert_eq!(table.find(&address(1, 7)), None);
        assert_eq!(table.insert(address(1, 7)), 1);
    }

    #[test]
    fn finding_prefers_the_incarnation() {
        let mut table = Table::default();
        table.insert(address(1, 0));
        table.insert(address(1, 7));
        assert_eq!(table.find(&address(1, 7)), Some(1));
        assert_eq!(table.find(&address(1, 8)), Some(0));
        assert_eq!(table.find(&address(2, 7)), None);
    }

    #[test]
    fn a_short_buffer_gets_what_fits_and_the_length() {
        let mut buf = [0u8; 4];
        let mut len = 2;
        // SAFETY: room for two bytes is promised, and there is more.
        unsafe { copy_out(b"abc", buf.as_mut_ptr().cast(), &raw mut len) }.unwrap();
        assert_eq!((&buf, len), (b"ab\0\0", 3));
    }
}
