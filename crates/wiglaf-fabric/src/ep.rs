//! `fid_ep`: the endpoint. It is opened with its links at `fi_endpoint`, so that its name is known
//! early; binding and enabling join it to the objects that it reports to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};

use wiglaf_endpoint::{Address, Side};

use crate::addr;
use crate::attendant::{Attendant, Progress};
use crate::attended::Attended;
use crate::av::{Av, AvState};
use crate::bindings as fi;
use crate::cntr::{Cntr, CntrState};
use crate::cq::{Cq, CqState};
use crate::domain::{Domain, DomainState};
use crate::engine::{Engine, Shared, only};
use crate::eq::Eq;
use crate::guard::{
    EBUSY, EINVAL, ENOSYS, Errno, Fi, guard, guard_data, lock, refuse, unsupported,
};
use crate::info::{CAPS, INJECT_LEN, REMOTE_ORDERS, RX_OP_FLAGS, TX_OP_FLAGS};
use crate::object::{
    Object, class_of, fid_ops, hand_out, new_fid, not_null, object, table, take_back,
};
use crate::{atomic, cm, collective, log, msg, rma, tagged, wait};

/// What the endpoint has been bound to.
#[derive(Default)]
struct Bound {
    av: Option<Arc<AvState>>,
    tx_cq: Option<(Arc<CqState>, u64)>,
    rx_cq: Option<(Arc<CqState>, u64)>,
    counters: Vec<(Arc<CntrState>, u64)>,
}

#[repr(C)]
pub(crate) struct Ep {
    fid: fi::fid_ep,
    pub(crate) engine: Shared,
    bound: Mutex<Bound>,
    enabled: AtomicBool,
    attendant: Mutex<Option<Attendant>>,
    caps: u64,
    pub(crate) domain: Arc<DomainState>,
}

// SAFETY: `repr(C)`, begins with a `fid` of that class.
unsafe impl Object for Ep {
    const CLASS: u32 = fi::FI_CLASS_EP;
}

static FID_OPS: fi::fi_ops =
    fi::fi_ops { bind: Some(bind), control: Some(control), ..fid_ops(close) };
static OPS: fi::fi_ops_ep = fi::fi_ops_ep {
    size: size_of::<fi::fi_ops_ep>(),
    cancel: Some(cancel),
    getopt: Some(getopt),
    setopt: Some(setopt),
    tx_ctx: Some(tx_ctx),
    rx_ctx: Some(rx_ctx),
    rx_size_left: Some(rx_size_left),
    tx_size_left: Some(tx_size_left),
};

unsupported! {
    tx_ctx(*mut fi::fid_ep, libc::c_int, *mut fi::fi_tx_attr, *mut *mut fi::fid_ep, *mut libc::c_void) -> libc::c_int;
    rx_ctx(*mut fi::fid_ep, libc::c_int, *mut fi::fi_rx_attr, *mut *mut fi::fid_ep, *mut libc::c_void) -> libc::c_int;
    rx_size_left(*mut fi::fid_ep) -> libc::ssize_t;
    tx_size_left(*mut fi::fid_ep) -> libc::ssize_t;
}

/// What is wrong with a configuration that works is said once, however many endpoints it is for.
static WARNED: Once = Once::new();

/// Opens the links, at `source` where it says more than the environment does.
pub(crate) fn open_engine(source: Option<Address>) -> Fi<Engine> {
    let open = || {
        let mut config = wiglaf_links::config_from_env().map_err(|why| why.to_string())?;
        // Before the address is the one that getinfo has found: nobody else has chosen it.
        let reaches_others = !source.as_ref().is_some_and(|source| source.at.ip().is_loopback());
        if reaches_others {
            WARNED.call_once(|| {
                for text in wiglaf_links::warnings(&config) {
                    log::notice!("{text}");
                }
            });
        }
        if let Some(source) = source {
            if !source.at.ip().is_unspecified() {
                config.ip = *source.at.ip();
            }
            if source.at.port() != 0 {
                config.port = source.at.port();
            }
        }
        let note = &mut |text: &str| log::warning!("{text}");
        let opened = wiglaf_links::open_noting(&config, note);
        opened.map(|endpoint| (endpoint, config.ports)).map_err(|why| why.to_string())
    };
    let (endpoint, ports) = open().map_err(|reason: String| {
        log::error!("no endpoint could be opened: {reason}");
        Errno(fi::FI_EADDRNOTAVAIL)
    })?;
    if endpoint.inject_len_max() < INJECT_LEN {
        let len = endpoint.inject_len_max();
        log::error!(
            "the link's frames carry {len} bytes, {INJECT_LEN} are promised: raise the interface's MTU by \
             {} at least",
            INJECT_LEN - len
        );
        return Err(Errno(fi::FI_EMSGSIZE));
    }
    log::info!("endpoint at {}", addr::to_text(&endpoint.name()));
    Ok(Engine::new(endpoint, ports))
}

pub(crate) unsafe extern "C" fn open(
    domain: *mut fi::fid_domain,
    info: *mut fi::fi_info,
    ep: *mut *mut fi::fid_ep,
    context: *mut libc::c_void,
) -> libc::c_int {
    guard(|| {
        not_null(ep)?;
        // SAFETY: fi_endpoint(3) demands a live domain and a valid info with its attributes.
        unsafe {
            let domain = object::<Domain, _>(domain)?;
            let opened = from_info(domain, info.as_ref().ok_or(EINVAL)?, context)?;
            hand_out(opened, ep);
        }
        Ok(())
    })
}

/// # Safety
/// The attributes of `info` are null or valid.
unsafe fn from_info(domain: &Domain, info: &fi::fi_info, context: *mut libc::c_void) -> Fi<Ep> {
    // SAFETY: by the contract of this function.
    let (tx, rx, ep) =
        unsafe { (info.tx_attr.as_ref(), info.rx_attr.as_ref(), info.ep_attr.as_ref()) };
    only(info.caps, CAPS | fi::FI_COLLECTIVE)?;
    if ep.is_some_and(|ep| ![fi::FI_EP_UNSPEC, fi::FI_EP_RDM].contains(&ep.type_)) {
        return refuse!(EINVAL, "endpoint: only the type FI_EP_RDM is offered");
    }
    let (tx_op_flags, rx_op_flags) =
        (tx.map_or(0, |tx| tx.op_flags), rx.map_or(0, |rx| rx.op_flags));
    only(tx_op_flags, TX_OP_FLAGS)?;
    only(rx_op_flags, RX_OP_FLAGS)?;
    let source = if info.src_addr.is_null() {
        None
    } else {
        // SAFETY: as above, valid for the length beside it.
        Some(unsafe { addr::read(info.src_addr, info.src_addrlen)? })
    };
    let caps = if info.caps == 0 { CAPS } else { info.caps };
    let mut engine = open_engine(source)?;
    let is_ordered = tx.is_some_and(|tx| tx.msg_order & REMOTE_ORDERS != 0);
    engine.set_up((tx_op_flags, rx_op_flags), caps & fi::FI_DIRECTED_RECV != 0, is_ordered);
    engine.endpoint.expose_all(domain.state.exposed().clone());
    Ok(Ep {
        fid: fi::fid_ep {
            fid: new_fid::<Ep>(context, &FID_OPS),
            ops: table(&OPS),
            cm: table(&cm::OPS),
            msg: table(&msg::OPS),
            rma: table(&rma::OPS),
            tagged: table(&tagged::OPS),
            atomic: table(&atomic::OPS),
            collective: table(&collective::OPS),
        },
        engine: Arc::new(Attended::new(engine)),
        bound: Mutex::default(),
        enabled: AtomicBool::new(false),
        attendant: Mutex::default(),
        caps,
        domain: Arc::clone(&domain.state),
    })
}

impl Ep {
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    /// Refuses what can only be done before enabling.
    pub(crate) fn not_enabled(&self, call: &str) -> Fi<()> {
        if !self.is_enabled() {
            return Ok(());
        }
        refuse!(Errno(fi::FI_EOPBADSTATE), "{call}: the endpoint is enabled already")
    }

    /// Refuses calls of a kind that the endpoint was not opened for.
    pub(crate) fn needs(&self, cap: u64) -> Fi<()> {
        if self.caps & cap != 0 {
            return Ok(());
        }
        refuse!(Errno(fi::FI_EOPNOTSUPP), "the endpoint was opened without capability {cap:#x}")
    }

    fn bind_cq(&self, cq: &Arc<CqState>, flags: u64) -> Fi<()> {
        only(flags, fi::FI_SEND | fi::FI_RECV | fi::FI_SELECTIVE_COMPLETION)?;
        same_domain(cq.is_of(&self.domain))?;
        let mut bound = lock(&self.bound)?;
        let taken = flags & fi::FI_SEND != 0 && bound.tx_cq.is_some()
            || flags & fi::FI_RECV != 0 && bound.rx_cq.is_some();
        if taken {
            return refuse!(EINVAL, "bind: that direction has a completion queue already");
        }
        if flags & (fi::FI_SEND | fi::FI_RECV) == 0 {
            return refuse!(EINVAL, "bind: a completion queue needs FI_TRANSMIT or FI_RECV");
        }
        if flags & fi::FI_SEND != 0 {
            bound.tx_cq = Some((Arc::clone(cq), flags));
        }
        if flags & fi::FI_RECV != 0 {
            bound.rx_cq = Some((Arc::clone(cq), flags));
        }
        Ok(())
    }

    fn bind_av(&self, av: &Arc<AvState>) -> Fi<()> {
        same_domain(av.is_of(&self.domain))?;
        let mut bound = lock(&self.bound)?;
        if bound.av.is_some() {
            return refuse!(EINVAL, "bind: the endpoint has an address vector already");
        }
        bound.av = Some(Arc::clone(av));
        Ok(())
    }

    fn bind_counter(&self, counter: &Arc<CntrState>, flags: u64) -> Fi<()> {
        let remote = fi::FI_REMOTE_READ | fi::FI_REMOTE_WRITE;
        only(flags, fi::FI_SEND | fi::FI_RECV | fi::FI_READ | fi::FI_WRITE | remote)?;
        same_domain(counter.is_of(&self.domain))?;
        lock(&self.bound)?.counters.push((Arc::clone(counter), flags));
        Ok(())
    }

    /// Joins the engine to what has been bound.
    fn enable(&self) -> Fi<()> {
        self.not_enabled("enable")?;
        let bound = lock(&self.bound)?;
        let Some(av) = &bound.av else {
            return refuse!(Errno(fi::FI_ENOAV), "enable: no address vector is bound");
        };
        let counted = |side| bound.counters.iter().any(|(_, flags)| flags & side != 0);
        let missing =
            |cq: &Option<_>, side| self.caps & side != 0 && cq.is_none() && !counted(side);
        if missing(&bound.tx_cq, fi::FI_SEND) || missing(&bound.rx_cq, fi::FI_RECV) {
            return refuse!(
                Errno(fi::FI_ENOCQ),
                "enable: a direction has no completion queue and no counter"
            );
        }
        let flags = |cq: &Option<(_, u64)>| cq.as_ref().map(|(_, flags)| *flags);
        let queues = (flags(&bound.tx_cq), flags(&bound.rx_cq));
        lock(&self.engine)?.join(&self.domain, av, queues, &bound.counters);
        match (&bound.tx_cq, &bound.rx_cq) {
            (Some((tx, _)), Some((rx, _))) if Arc::ptr_eq(tx, rx) => {
                rx.attach(&self.engine, vec![Side::Recv, Side::Send])?;
            }
            (tx, rx) => {
                for (cq, side) in [(tx, Side::Send), (rx, Side::Recv)] {
                    if let Some((cq, _)) = cq {
                        cq.attach(&self.engine, vec![side])?;
                    }
                }
            }
        }
        for (counter, _) in &bound.counters {
            counter.attach(&self.engine)?;
        }
        self.domain.watched().join(&self.engine)?;
        *lock(&self.attendant)? = match Attendant::start(&self.engine, self.domain.progress()) {
            Ok(attendant) => Some(attendant),
            Err(why) if self.domain.progress() == Progress::Thread => {
                log::error!("no thread to move the data of the endpoint: {why}");
                return Err(Errno(why.raw_os_error().unwrap_or(libc::EAGAIN)));
            }
            Err(why) => {
                log::info!("no thread to finish what the application leaves: {why}");
                None
            }
        };
        self.enabled.store(true, Ordering::Release);
        Ok(())
    }
}

fn same_domain(holds: bool) -> Fi<()> {
    if holds {
        return Ok(());
    }
    refuse!(Errno(fi::FI_EDOMAIN), "bind: the object belongs to another domain")
}

impl Drop for Ep {
    /// Leaves the queues and counters, lets the links linger until all is acknowledged, then sends those
    /// home who sleep there.
    fn drop(&mut self) {
        if let Ok(attendant) = self.attendant.get_mut() {
            *attendant = None;
        }
        if let Ok(bound) = self.bound.get_mut() {
            for (cq, _) in bound.tx_cq.iter().chain(&bound.rx_cq) {
                cq.detach(&self.engine);
            }
            for (counter, _) in &bound.counters {
                counter.detach(&self.engine);
            }
        }
        if let Ok(mut engine) = lock(&self.engine) {
            if !engine.endpoint.close() {
                log::error!(
                    "an endpoint was closed, and a peer did not take what was sent to it within 5 s: it is lost"
                );
            }
            engine.unbind();
            log::info!(
                "endpoint closed: {:?} {:?} {:?}",
                engine.endpoint.stats(),
                engine.endpoint.near_stats(),
                engine.endpoint.remote_stats()
            );
        }
        wait::until_left(&self.engine);
    }
}

unsafe extern "C" fn close(fid: *mut fi::fid) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_close(3) demands a live handle that is not used afterwards.
        unsafe {
            let ep = object::<Ep, _>(fid)?;
            if !lock(&ep.engine)?.groups.is_empty() {
                return refuse!(EBUSY, "close: the endpoint is still in collective groups");
            }
            take_back::<Ep>(fid)?;
        }
        Ok(())
    })
}

unsafe extern "C" fn bind(fid: *mut fi::fid, other: *mut fi::fid, flags: u64) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_ep_bind(3) demands live handles.
        unsafe {
            let ep = object::<Ep, _>(fid)?;
            ep.not_enabled("bind")?;
            match class_of(other)? {
                Cq::CLASS => ep.bind_cq(&object::<Cq, _>(other)?.state, flags),
                Av::CLASS => ep.bind_av(&object::<Av, _>(other)?.state),
                Cntr::CLASS => ep.bind_counter(&object::<Cntr, _>(other)?.state, flags),
                Eq::CLASS => {
                    let events = Arc::clone(&object::<Eq, _>(other)?.state);
                    let context = ep.fid.fid.context.expose_provenance();
                    lock(&ep.engine)?.bind_events(events, fid.expose_provenance(), context)
                }
                class => refuse!(EINVAL, "bind: an endpoint takes no object of class {class}"),
            }
        }
    })
}

unsafe extern "C" fn control(
    fid: *mut fi::fid,
    command: libc::c_int,
    arg: *mut libc::c_void,
) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_control(3) demands a live handle, and for the flags a 64-bit number whose
        // upper half tells the direction by FI_TRANSMIT or FI_RECV.
        unsafe {
            let ep = object::<Ep, _>(fid)?;
            match command {
                fi::FI_ENABLE => ep.enable(),
                command if command == fi::FI_GETOPSFLAG as i32 => {
                    let flags = arg.cast::<u64>().as_mut().ok_or(EINVAL)?;
                    *flags = *lock(&ep.engine)?.op_flags(*flags)?;
                    Ok(())
                }
                command if command == fi::FI_SETOPSFLAG as i32 => {
                    let flags = *arg.cast::<u64>().as_ref().ok_or(EINVAL)?;
                    let known = if flags & fi::FI_SEND != 0 { TX_OP_FLAGS } else { RX_OP_FLAGS };
                    let wanted = flags & !(fi::FI_SEND | fi::FI_RECV);
                    only(wanted, known)?;
                    *lock(&ep.engine)?.op_flags(flags)? = wanted;
                    Ok(())
                }
                _ => refuse!(ENOSYS, "control: command {command} is not offered"),
            }
        }
    })
}

unsafe extern "C" fn cancel(fid: fi::fid_t, context: *mut libc::c_void) -> libc::ssize_t {
    guard_data(|| {
        // SAFETY: fi_cancel(3) demands a live handle.
        let ep = unsafe { object::<Ep, _>(fid)? };
        lock(&ep.engine)?.cancel(context.expose_provenance())
    })
}

unsafe extern "C" fn getopt(
    fid: fi::fid_t,
    level: libc::c_int,
    name: libc::c_int,
    value: *mut libc::c_void,
    len: *mut usize,
) -> libc::c_int {
    guard(|| {
        not_null(value)?;
        // SAFETY: fi_getopt(3) demands a live handle, and `*len` bytes behind `value`.
        unsafe {
            let ep = object::<Ep, _>(fid)?;
            let len = len.as_mut().ok_or(EINVAL)?;
            let number = option(level, name, &mut *lock(&ep.engine)?)?.read()?;
            if *len < size_of::<usize>() {
                *len = size_of::<usize>();
                return Err(Errno(fi::FI_ETOOSMALL));
            }
            value.cast::<usize>().write_unaligned(number);
            *len = size_of::<usize>();
        }
        Ok(())
    })
}

unsafe extern "C" fn setopt(
    fid: fi::fid_t,
    level: libc::c_int,
    name: libc::c_int,
    value: *const libc::c_void,
    len: usize,
) -> libc::c_int {
    guard(|| {
        not_null(value)?;
        // SAFETY: fi_setopt(3) demands a live handle, and `len` bytes behind `value`.
        unsafe {
            let ep = object::<Ep, _>(fid)?;
            let mut engine = lock(&ep.engine)?;
            let setting = option(level, name, &mut engine)?;
            if len != size_of::<usize>() {
                return Err(EINVAL);
            }
            setting.write(value.cast::<usize>().read_unaligned())
        }
    })
}

/// An option of an endpoint; all of them are sizes.
enum Setting<'a> {
    Ours(&'a mut usize),
    Constant(usize),
}

impl Setting<'_> {
    fn read(&self) -> Fi<usize> {
        match self {
            Self::Ours(number) => Ok(**number),
            Self::Constant(number) => Ok(*number),
        }
    }

    fn write(self, wanted: usize) -> Fi<()> {
        match self {
            Self::Ours(number) => {
                *number = wanted;
                Ok(())
            }
            Self::Constant(_) => Err(Errno(fi::FI_ENOPROTOOPT)),
        }
    }
}

fn option(level: libc::c_int, name: libc::c_int, engine: &mut Engine) -> Fi<Setting<'_>> {
    let unknown = Errno(fi::FI_ENOPROTOOPT);
    let name = match u32::try_from(name) {
        Ok(name) if level == fi::FI_OPT_ENDPOINT as i32 => name,
        _ => return refuse!(unknown, "there is no option {name} of level {level}"),
    };
    match name {
        fi::FI_OPT_MIN_MULTI_RECV => Ok(Setting::Ours(engine.multi_recv_min())),
        fi::FI_OPT_CM_DATA_SIZE => Ok(Setting::Constant(0)),
        _ => refuse!(unknown, "option {name} of an endpoint is not offered"),
    }
}
