//! `fi_getinfo`: what this provider offers, and whether that is what was asked for.
//!
//! The decision is made on plain values ([`negotiate`]); reading C structures and writing them is
//! left to the edges. A refusal says its reason under `FI_LOG_LEVEL=warn`, not by default: an
//! application that tries several sets of capabilities is refused as a matter of course.

pub(crate) mod alloc;

use std::ffi::CStr;
use std::net::{Ipv4Addr, SocketAddrV4};

use wiglaf_endpoint::{Address, Epoch};

use crate::addr;
use crate::bindings as fi;
use crate::guard::{EINVAL, Errno, Fi, guard};
use crate::log;
use crate::object::not_null;

/// The name of the provider, of its fabric and of its domain.
pub(crate) const NAME: &CStr = c"wiglaf";
/// Longest message that may be injected, in bytes: it fits one frame at the smallest usual MTU.
pub(crate) const INJECT_LEN: usize = 1280;
/// Most pieces of memory in one message.
pub(crate) const IOV_LIMIT: usize = wiglaf_endpoint::REGIONS_MAX;
/// Operations that may be outstanding in each direction, unless more were asked for.
const QUEUE_LEN: usize = 4096;
const QUEUE_LEN_MAX: usize = 1 << 20;
/// Objects of each kind that a domain may have.
const OBJECTS_MAX: usize = 1 << 16;
/// The wire protocol, for whoever compares it: "Wi" among the numbers left to providers.
const PROTOCOL: u32 = 1 << 31 | 0x5769;
const PROTOCOL_VERSION: u32 = 1;
/// All 64 bits of a tag may be used, in any way.
const MEM_TAG_FORMAT: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// What an application must ask for to get it, though without any capability it gets all.
const PRIMARY: u64 = TWO_SIDED | ONE_SIDED;
const TWO_SIDED: u64 = fi::FI_MSG | fi::FI_TAGGED;
const ONE_SIDED: u64 = fi::FI_RMA | fi::FI_ATOMIC;
/// What narrows or widens the primary ones.
const MODIFIERS: u64 = DIRECTIONS | REMOTE_DIRECTIONS | fi::FI_DIRECTED_RECV;
const DIRECTIONS: u64 = fi::FI_SEND | fi::FI_RECV;
const REMOTE_DIRECTIONS: u64 =
    fi::FI_READ | fi::FI_WRITE | fi::FI_REMOTE_READ | fi::FI_REMOTE_WRITE;
/// What costs nothing and is always given.
const SECONDARY: u64 = fi::FI_MULTI_RECV | fi::FI_SOURCE | COMM;
const COMM: u64 = fi::FI_LOCAL_COMM | fi::FI_REMOTE_COMM;
/// Given only to who names it: an MPI that finds it offered must not take it for faster than its own.
const ON_DEMAND: u64 = fi::FI_COLLECTIVE;
pub(crate) const CAPS: u64 = PRIMARY | MODIFIERS | SECONDARY | fi::FI_RMA_EVENT;

const TX_CAPS: u64 = PRIMARY | fi::FI_SEND | fi::FI_READ | fi::FI_WRITE;
const RX_CAPS: u64 = PRIMARY
    | fi::FI_RECV
    | fi::FI_REMOTE_READ
    | fi::FI_REMOTE_WRITE
    | fi::FI_RMA_EVENT
    | fi::FI_DIRECTED_RECV
    | fi::FI_MULTI_RECV
    | fi::FI_SOURCE;
/// Orders among one-sided operations, kept for those who ask: it makes operations wait for others.
pub(crate) const REMOTE_ORDERS: u64 = fi::FI_ORDER_RAR
    | fi::FI_ORDER_RAW
    | fi::FI_ORDER_WAR
    | fi::FI_ORDER_WAW
    | fi::FI_ORDER_RMA_RAR
    | fi::FI_ORDER_RMA_RAW
    | fi::FI_ORDER_RMA_WAR
    | fi::FI_ORDER_RMA_WAW
    | fi::FI_ORDER_ATOMIC_RAR
    | fi::FI_ORDER_ATOMIC_RAW
    | fi::FI_ORDER_ATOMIC_WAR
    | fi::FI_ORDER_ATOMIC_WAW;
const ORDERS: u64 = fi::FI_ORDER_SAS | REMOTE_ORDERS;
/// Default flags that sends may have.
pub(crate) const TX_OP_FLAGS: u64 = fi::FI_COMPLETION
    | fi::FI_INJECT
    | fi::FI_INJECT_COMPLETE
    | fi::FI_TRANSMIT_COMPLETE
    | fi::FI_DELIVERY_COMPLETE
    | fi::FI_MATCH_COMPLETE;
/// Default flags that receives may have.
pub(crate) const RX_OP_FLAGS: u64 = fi::FI_COMPLETION | fi::FI_MULTI_RECV;

/// The first interface version whose registration modes are bits.
const MR_BITS: u32 = 1 << 16 | 5;

/// What depends on what was asked for; the rest of an answer is constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offer {
    caps: u64,
    tx_caps: u64,
    rx_caps: u64,
    tx_op_flags: u64,
    rx_op_flags: u64,
    msg_order: u64,
    tx_size: usize,
    rx_size: usize,
    threading: fi::fi_threading,
    control_progress: fi::fi_progress,
    data_progress: fi::fi_progress,
    resource_mgmt: fi::fi_resource_mgmt,
    av_type: fi::fi_av_type,
    mr_mode: i32,
    api_version: u32,
    source: Option<Address>,
    destination: Option<Address>,
}

impl Offer {
    /// To an application that asks for nothing in particular.
    fn everything(api_version: u32) -> Self {
        Self {
            caps: CAPS,
            tx_caps: TX_CAPS,
            rx_caps: RX_CAPS,
            tx_op_flags: 0,
            rx_op_flags: 0,
            msg_order: fi::FI_ORDER_SAS,
            tx_size: QUEUE_LEN,
            rx_size: QUEUE_LEN,
            threading: fi::FI_THREAD_SAFE,
            control_progress: fi::FI_PROGRESS_MANUAL,
            data_progress: fi::FI_PROGRESS_MANUAL,
            resource_mgmt: fi::FI_RM_ENABLED,
            av_type: fi::FI_AV_UNSPEC,
            mr_mode: 0,
            api_version,
            source: None,
            destination: None,
        }
    }
}

/// The attribute, and what was asked of it, that cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refusal(&'static str, u64);

fn refuse_unless(holds: bool, what: &'static str, value: u64) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(Refusal(what, value)) }
}

/// What was asked for, as references into the application's structures.
struct Hints<'a> {
    info: &'a fi::fi_info,
    tx: Option<&'a fi::fi_tx_attr>,
    rx: Option<&'a fi::fi_rx_attr>,
    ep: Option<&'a fi::fi_ep_attr>,
    domain: Option<&'a fi::fi_domain_attr>,
    domain_name: Option<&'a CStr>,
    fabric_name: Option<&'a CStr>,
    provider_name: Option<&'a CStr>,
}

impl<'a> Hints<'a> {
    /// # Safety
    /// `info` and what it points to are null or valid for reads during `'a`.
    unsafe fn read(info: *const fi::fi_info) -> Option<Self> {
        // SAFETY: by the contract of this function, here and for every pointer inside.
        unsafe {
            let info = info.as_ref()?;
            let name = |text: *mut libc::c_char| {
                if text.is_null() { None } else { Some(CStr::from_ptr(text)) }
            };
            let domain = info.domain_attr.as_ref();
            let fabric = info.fabric_attr.as_ref();
            Some(Self {
                info,
                tx: info.tx_attr.as_ref(),
                rx: info.rx_attr.as_ref(),
                ep: info.ep_attr.as_ref(),
                domain,
                domain_name: domain.and_then(|domain| name(domain.name)),
                fabric_name: fabric.and_then(|fabric| name(fabric.name)),
                provider_name: fabric.and_then(|fabric| name(fabric.prov_name)),
            })
        }
    }
}

/// Compares what is asked for with what there is.
fn negotiate(hints: Option<&Hints<'_>>, api_version: u32) -> Result<Offer, Refusal> {
    let mut offer = Offer::everything(api_version);
    let Some(hints) = hints else { return Ok(offer) };
    names(hints)?;
    capabilities(hints.info, &mut offer)?;
    if let Some(tx) = hints.tx {
        transmit(tx, &mut offer)?;
    }
    if let Some(rx) = hints.rx {
        receive(rx, &mut offer)?;
    }
    if let Some(ep) = hints.ep {
        endpoint(ep)?;
    }
    if let Some(asked) = hints.domain {
        domain(asked, &mut offer)?;
    }
    Ok(offer)
}

/// What a refusal for a name, be it that of the provider, fabric or domain, is about.
const NAMES: &str = "name";

fn names(hints: &Hints<'_>) -> Result<(), Refusal> {
    let ours = |name: &CStr| name.to_bytes().eq_ignore_ascii_case(NAME.to_bytes());
    refuse_unless(hints.fabric_name.is_none_or(ours), NAMES, 0)?;
    refuse_unless(hints.domain_name.is_none_or(ours), NAMES, 0)?;
    // libfabric itself keeps to a name that begins with '^' (not this one).
    let wanted = |name: &CStr| ours(name) || name.to_bytes().first() == Some(&b'^');
    refuse_unless(hints.provider_name.is_none_or(wanted), NAMES, 0)
}

fn capabilities(info: &fi::fi_info, offer: &mut Offer) -> Result<(), Refusal> {
    let strange = info.caps & !(CAPS | ON_DEMAND);
    refuse_unless(strange == 0, "caps", strange)?;
    let formats = [fi::FI_FORMAT_UNSPEC, fi::FI_SOCKADDR, fi::FI_SOCKADDR_IN];
    refuse_unless(formats.contains(&info.addr_format), "addr_format", u64::from(info.addr_format))?;
    offer.tx_caps |= info.caps & ON_DEMAND;
    offer.rx_caps |= info.caps & ON_DEMAND;
    if info.caps & (PRIMARY | ON_DEMAND) != 0 {
        offer.caps = info.caps | SECONDARY;
        for (kinds, directions) in [(TWO_SIDED, DIRECTIONS), (ONE_SIDED, REMOTE_DIRECTIONS)] {
            if info.caps & kinds != 0 && info.caps & directions == 0 {
                offer.caps |= directions;
            }
        }
    }
    offer.tx_caps &= offer.caps;
    offer.rx_caps &= offer.caps;
    Ok(())
}

fn transmit(tx: &fi::fi_tx_attr, offer: &mut Offer) -> Result<(), Refusal> {
    let strange = tx.caps & !(TX_CAPS | COMM | ON_DEMAND);
    refuse_unless(strange == 0, "tx_attr caps", strange)?;
    let strange = tx.op_flags & !TX_OP_FLAGS;
    refuse_unless(strange == 0, "tx_attr op_flags", strange)?;
    let order = tx.msg_order & !ORDERS;
    refuse_unless(order == 0, "tx_attr msg_order", order)?;
    refuse_unless(tx.comp_order == 0, "tx_attr comp_order", tx.comp_order)?;
    refuse_unless(tx.inject_size <= INJECT_LEN, "inject_size", tx.inject_size as u64)?;
    refuse_unless(tx.size <= QUEUE_LEN_MAX, "tx_attr size", tx.size as u64)?;
    refuse_unless(tx.iov_limit <= IOV_LIMIT, "tx_attr iov_limit", tx.iov_limit as u64)?;
    refuse_unless(tx.rma_iov_limit <= 1, "rma_iov_limit", tx.rma_iov_limit as u64)?;
    if tx.caps != 0 {
        offer.tx_caps = tx.caps;
    }
    offer.tx_op_flags = tx.op_flags;
    offer.msg_order |= tx.msg_order;
    offer.tx_size = QUEUE_LEN.max(tx.size);
    Ok(())
}

fn receive(rx: &fi::fi_rx_attr, offer: &mut Offer) -> Result<(), Refusal> {
    let strange = rx.caps & !(RX_CAPS | COMM | ON_DEMAND);
    refuse_unless(strange == 0, "rx_attr caps", strange)?;
    let strange = rx.op_flags & !RX_OP_FLAGS;
    refuse_unless(strange == 0, "rx_attr op_flags", strange)?;
    let order = rx.msg_order & !ORDERS;
    refuse_unless(order == 0, "rx_attr msg_order", order)?;
    refuse_unless(rx.comp_order == 0, "rx_attr comp_order", rx.comp_order)?;
    refuse_unless(rx.size <= QUEUE_LEN_MAX, "rx_attr size", rx.size as u64)?;
    refuse_unless(rx.iov_limit <= IOV_LIMIT, "rx_attr iov_limit", rx.iov_limit as u64)?;
    if rx.caps != 0 {
        offer.rx_caps = rx.caps;
    }
    offer.rx_op_flags = rx.op_flags;
    offer.msg_order |= rx.msg_order;
    offer.rx_size = QUEUE_LEN.max(rx.size);
    Ok(())
}

fn endpoint(ep: &fi::fi_ep_attr) -> Result<(), Refusal> {
    let types = [fi::FI_EP_UNSPEC, fi::FI_EP_RDM];
    refuse_unless(types.contains(&ep.type_), "endpoint type", u64::from(ep.type_))?;
    let protocols = [fi::FI_PROTO_UNSPEC, PROTOCOL];
    refuse_unless(protocols.contains(&ep.protocol), "protocol", u64::from(ep.protocol))?;
    let version = ep.protocol_version;
    refuse_unless(version <= PROTOCOL_VERSION, "protocol_version", u64::from(version))?;
    refuse_unless(ep.tx_ctx_cnt <= 1, "tx_ctx_cnt", ep.tx_ctx_cnt as u64)?;
    refuse_unless(ep.rx_ctx_cnt <= 1, "rx_ctx_cnt", ep.rx_ctx_cnt as u64)?;
    refuse_unless(ep.auth_key_size == 0, "auth_key_size", ep.auth_key_size as u64)
}

fn domain(asked: &fi::fi_domain_attr, offer: &mut Offer) -> Result<(), Refusal> {
    refuse_unless(asked.caps & !COMM == 0, "domain caps", asked.caps & !COMM)?;
    // Every call locks, so whatever promise the application makes is enough.
    let threading = asked.threading;
    refuse_unless(threading <= fi::FI_THREAD_ENDPOINT, "threading", u64::from(threading))?;
    if threading != fi::FI_THREAD_UNSPEC {
        offer.threading = threading;
    }
    // Control operations are over when they return: that is automatic progress. Data moves when
    // the application calls, unless it asks for a helper thread, which costs milliseconds on a busy
    // machine.
    if asked.control_progress != fi::FI_PROGRESS_UNSPEC {
        offer.control_progress = asked.control_progress;
    }
    if asked.data_progress != fi::FI_PROGRESS_UNSPEC {
        offer.data_progress = asked.data_progress;
    }
    if asked.resource_mgmt != fi::FI_RM_UNSPEC {
        offer.resource_mgmt = asked.resource_mgmt;
    }
    refuse_unless(asked.av_type <= fi::FI_AV_TABLE, "av_type", u64::from(asked.av_type))?;
    offer.av_type = asked.av_type;
    // Registered memory needs nothing of the application: offsets and its own keys. The two modes of
    // interfaces before 1.5 are values, not bits, and come back as they were; who wants addresses
    // and our keys all the same asks for the first, or sets the bits for `fi_domain`.
    if [fi::FI_MR_BASIC as i32, fi::FI_MR_SCALABLE as i32].contains(&asked.mr_mode) {
        offer.mr_mode = asked.mr_mode;
    } else if (1..MR_BITS).contains(&offer.api_version) && asked.mr_mode == 0 {
        offer.mr_mode = fi::FI_MR_SCALABLE as i32;
    }
    refuse_unless(asked.mr_key_size <= 8, "mr_key_size", asked.mr_key_size as u64)?;
    refuse_unless(asked.cq_data_size <= 8, "cq_data_size", asked.cq_data_size as u64)?;
    for (count, what) in [
        (asked.cq_cnt, "cq_cnt"),
        (asked.ep_cnt, "ep_cnt"),
        (asked.cntr_cnt, "cntr_cnt"),
        (asked.mr_cnt, "mr_cnt"),
    ] {
        refuse_unless(count <= OBJECTS_MAX, what, count as u64)?;
    }
    for (count, what) in [
        (asked.tx_ctx_cnt, "domain tx_ctx_cnt"),
        (asked.rx_ctx_cnt, "domain rx_ctx_cnt"),
        (asked.max_ep_tx_ctx, "max_ep_tx_ctx"),
        (asked.max_ep_rx_ctx, "max_ep_rx_ctx"),
    ] {
        refuse_unless(count <= 1, what, count as u64)?;
    }
    let shared = asked.max_ep_stx_ctx | asked.max_ep_srx_ctx;
    refuse_unless(shared == 0, "shared contexts", shared as u64)?;
    refuse_unless(asked.auth_key_size == 0, "domain auth_key_size", asked.auth_key_size as u64)
}

/// Source and destination, from the call's arguments or else from the hints.
///
/// # Safety
/// The pointers are null or valid for what `fi_getinfo(3)` says.
unsafe fn addresses(
    node: *const libc::c_char,
    service: *const libc::c_char,
    flags: u64,
    hints: Option<&Hints<'_>>,
    offer: &mut Offer,
) -> Fi<()> {
    if let Some(hints) = hints {
        // SAFETY: the hints' addresses are valid for the lengths beside them.
        unsafe {
            if !hints.info.src_addr.is_null() {
                offer.source = Some(addr::read(hints.info.src_addr, hints.info.src_addrlen)?);
            }
            if !hints.info.dest_addr.is_null() {
                let at = addr::read(hints.info.dest_addr, hints.info.dest_addrlen)?;
                offer.destination = Some(at);
            }
        }
    }
    if node.is_null() && service.is_null() {
        return Ok(());
    }
    let text = |pointer: *const libc::c_char| {
        if pointer.is_null() {
            return Ok(None);
        }
        // SAFETY: a node or service that is not null is a C string.
        unsafe { CStr::from_ptr(pointer) }.to_str().map(Some).map_err(|_| EINVAL)
    };
    let is_source = flags & fi::FI_SOURCE != 0;
    let numeric = flags & fi::FI_NUMERICHOST != 0;
    let found = addr::resolve(text(node)?, text(service)?, numeric)?;
    if is_source {
        offer.source = Some(found);
    } else if !node.is_null() {
        offer.destination = Some(found);
    }
    Ok(())
}

/// Where an endpoint is going to be opened, if nobody says otherwise.
fn own_address(ip: Ipv4Addr) -> Option<Address> {
    // Where there is none, opening says why.
    let ip = wiglaf_links::address_for(ip).ok()?;
    Some(Address { at: SocketAddrV4::new(ip, 0), epoch: Epoch::UNKNOWN })
}

/// The provider's `getinfo`.
pub(crate) unsafe extern "C" fn getinfo(
    version: u32,
    node: *const libc::c_char,
    service: *const libc::c_char,
    flags: u64,
    hints: *const fi::fi_info,
    info: *mut *mut fi::fi_info,
) -> libc::c_int {
    guard(|| {
        not_null(info)?;
        let no_data = Errno(fi::FI_ENODATA);
        // SAFETY: libfabric passes what fi_getinfo(3) demands of the application.
        unsafe {
            let hints = Hints::read(hints);
            let mut offer = match negotiate(hints.as_ref(), version) {
                Ok(offer) => offer,
                // Somebody else was meant.
                Err(Refusal(NAMES, _)) => return Err(no_data),
                Err(Refusal(what, value)) => {
                    log::warning!("getinfo: {what} {value:#x} was asked for and is not offered");
                    return Err(no_data);
                }
            };
            let config = wiglaf_links::config_from_env().map_err(|why| {
                log::error!("{why}");
                no_data
            })?;
            addresses(node, service, flags, hints.as_ref(), &mut offer).map_err(|_| {
                log::warning!("getinfo: node, service or an address of the hints is not IPv4");
                no_data
            })?;
            // Some applications read it unasked, MPICH's summary of providers among them.
            offer.source = offer.source.or_else(|| own_address(config.ip));
            log::debug!("getinfo: {offer:?}");
            info.write(alloc::allocate(&offer)?);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests;
